"""Case studies of the five papers.

Nothing differs but marked errata, and computed values are the golden ones.
"""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import minidyn as md
from minidyn.app.casestudies.run import MAKERS, STUDIES, case_study, case_study_page, option_values
from minidyn.app.casestudies.study import AGREES, DIFFERS, ERRATUM, Entry, Study
from minidyn.app.cli.main import main
from minidyn.errors import UnknownName

HERE = Path(__file__).parent
LIN: dict[str, Any] = json.loads((HERE / "lin.json").read_text())
GAUTIER: dict[str, Any] = json.loads((HERE / "gautier.json").read_text())["gautier_puma"]
sys.path.insert(0, str(HERE.parents[1] / "docs"))


@pytest.fixture(scope="module")
def studies() -> dict[str, Study]:
    return {name: case_study(name) for name in STUDIES}


def entries(study: Study, source: str) -> dict[str, Entry]:
    return {
        entry.name: entry
        for table in study.tables
        if table.source == source
        for entry in table.entries
    }


# ---------------------------------------------------------------- the shape


@pytest.mark.parametrize(
    ("printed", "found", "erratum", "verdict"),
    [
        ("4.3850", 4.38496, "", AGREES),
        ("4.3850", 4.38486, "", DIFFERS),
        ("4.3850", 4.38486, "4.3849", ERRATUM),
        ("0.", 0.4, "", AGREES),
        ("-1.07", -1.0749, "", AGREES),
        ("6.8553e+01", 68.5534, "", AGREES),
        ("6.8553e+01", 68.5537, "", DIFFERS),
        ("1022", 1023.0, "", DIFFERS),
        ("< 0.3", 0.29, "", AGREES),
        ("< 0.3", 0.3, "", DIFFERS),
        ("about 0.35", 0.4, "", AGREES),
        ("about 0.35", 0.5, "", DIFFERS),
        ("yes", "no", "", DIFFERS),
    ],
)
def test_verdicts(printed: str, found: float | str, erratum: str, verdict: str) -> None:
    assert Entry("x", printed, found, erratum).verdict == verdict


def test_nothing_differs_and_errata_are_marked(studies: dict[str, Study]) -> None:
    found = {
        name: (study.verdicts[ERRATUM], study.verdicts[DIFFERS]) for name, study in studies.items()
    }
    assert found == {
        "gautier-1991": (5, 0),
        "lin-1992": (6, 0),
        "lin-1994": (2, 0),
        "lin-fang-1999": (19, 0),
        "lu-meng": (4, 0),
    }
    for study in studies.values():
        assert study.figures
        assert set(study.settings) == set(option_values_known(study.key))


def option_values_known(name: str) -> list[str]:
    from inspect import signature

    return list(signature(MAKERS[name]).parameters)


def test_pages_hold_every_value_and_load_nothing(studies: dict[str, Study]) -> None:
    for study in studies.values():
        page = case_study_page(study)
        assert "http" not in page.replace("http-equiv", "")
        assert page.count("<svg") >= len(study.figures)
        rows = sum(len(table.entries) for table in study.tables)
        assert page.count('scope="row"') >= rows


def test_the_page_of_the_documentation_is_up_to_date(studies: dict[str, Study]) -> None:
    import make_case_studies

    assert make_case_studies.PAGE.read_text(encoding="utf-8") == make_case_studies.page(
        list(studies.values())
    ), "run: python docs/make_case_studies.py --figures"
    drawn = {path.name for path in (HERE.parents[1] / "docs" / "figures").glob("case-*.svg")} - {
        "case-study.svg"
    }
    assert drawn == {
        f"case-{figure.key}.svg" for study in studies.values() for figure in study.figures
    }


# ---------------------------------------------------------------- against independent computations


def test_lin_1992_against_golden_numbers(studies: dict[str, Study]) -> None:
    study = studies["lin-1992"]
    first = entries(study, "Table I")
    for label, axis in LIN["table1"].items():
        for letter, value in zip("xyz", axis):
            name = f"u_1({label[-2]}) {letter}, configuration {label[6]}"
            assert first[name].found == pytest.approx(value, abs=1e-9)
    assert len(first) == 3 * len(LIN["table1"])
    second = entries(study, "Table II")
    checked = 0
    for number, golden in LIN["table2_direct_1992"].items():
        wanted = {f"{key}_{number}": golden[key] for key in ("U11_22", "U33", "U12", "U13", "U23")}
        wanted |= {f"k{number}{axis}": value for axis, value in zip("xyz", golden["k"])} | {
            f"m{number}": golden["mhat"]
        }
        for name in wanted.keys() & second.keys():
            assert second[name].found == pytest.approx(wanted[name], abs=1e-8)
            checked += 1
    assert checked == len(second) == LIN["n_minimal_parameters_stanford"]


def test_lin_1994_counts_are_exact_ranks(studies: dict[str, Study]) -> None:
    """Ranks over a finite field, for robots built here again."""
    right = math.pi / 2
    small = entries(studies["lin-1994"], "Theorem 5")
    none = (0.0, 0.0, 0.0)
    robots = {
        "RR vertical, coaxial": md.Robot.from_mdh("RR", d=[0, 0.3]),
        "RP, P oblique to a vertical R": md.Robot.from_mdh("RP", [0, 0.7], [0, 0.4]),
        "PR, P not parallel to a vertical R": md.Robot.from_mdh("PR", [right, -right], [0, 0.4]),
        "two intersecting R without gravity": md.Robot.from_mdh("RR", [0, right], gravity=none),
        "spherical 3R without gravity": md.Robot.from_mdh("RRR", [0, right, right], gravity=none),
    }
    for name, robot in robots.items():
        assert small[name].found == md.base_parameters(robot).rank
    counts = entries(studies["lin-1994"], "Theorems 3 and 4")
    for name, entry in counts.items():
        robot, model = name.split(", ")[1].removesuffix(" alone").split(": ")
        assert entry.found == md.base_parameters(robot, model=model).rank


def test_lin_fang_1999_against_golden_sums(studies: dict[str, Study]) -> None:
    table = entries(studies["lin-fang-1999"], "Table VI")
    for kind, sizes in (("1", (4, 6, 11)), ("2", (6, 8, 9))):
        for n in sizes:
            golden = LIN["tableVI_line_sums"]["form4"][f"T{kind}"].split(";")[0].split("(")[0]
            square, rest = golden.split("n^2")
            linear, constant = rest.split("n")
            wanted = float(square) * n * n + float(linear) * n + float(constant)
            assert table[f"formulation 4, type {kind}, n = {n}, M"].found == wanted
    (executed,) = [one for one in studies["lin-fang-1999"].tables if one.source == "not printed"]
    assert all(entry.verdict == AGREES for entry in executed.entries)


def test_gautier_1991_against_golden_numbers(studies: dict[str, Study]) -> None:
    table = entries(studies["gautier-1991"], "Table III")
    for name, value in GAUTIER["XB1"].items():
        assert table[f"XB1 of {name}"].found == pytest.approx(value, abs=1e-9)
    evidence = entries(studies["gautier-1991"], "Table II")
    assert {
        name[8:]
        for name, entry in evidence.items()
        if name.startswith("R_ii") and entry.found == "0"
    } == set(GAUTIER["regrouped"])
    assert {
        name[8:]
        for name, entry in evidence.items()
        if name.startswith("V2 N") and entry.found == "0"
    } == set(GAUTIER["unchanged"])


def test_what_is_zero_in_gautiers_table_ii(studies: dict[str, Study]) -> None:
    """From differences of energy at random states, decomposed here."""
    robot, rng = md.load("puma560"), np.random.default_rng(3)
    names = [name for name in robot.layout.names if name not in GAUTIER["elim"]]
    q, dq = rng.uniform(-3, 3, (2, 80, 6)), rng.uniform(-1, 1, (2, 80, 6))
    h = md.energy_regressor(robot, q, dq)[..., list(robot.layout.indices(names))]
    R = np.abs(np.diagonal(np.linalg.qr(h[1] - h[0], mode="r")))
    evidence = entries(studies["gautier-1991"], "Table II")
    for name, value in zip(names, R):
        assert evidence[f"R_ii of {name}"].found == ("0" if value < 1e-10 * R.max() else "not 0")


def test_lu_meng_against_golden_numbers_and_the_corrected_formula(
    studies: dict[str, Study],
) -> None:
    study = studies["lu-meng"]
    assert study.numbers["modified_slotine_li"]["t5"] == pytest.approx(0.27825, abs=3e-4)
    assert study.numbers["craig"]["t5"] == pytest.approx(0.2765, abs=3e-4)
    assert study.numbers["craig"]["tm5"] == pytest.approx(0.27675, abs=3e-4)
    (q1, q2), (v1, v2), (a1, a2), l1, l2, g = (0.3, -0.7), (0.5, 1.1), (-0.4, 0.8), 1.1, 0.8, 9.81
    c1, c2, s2, c12 = math.cos(q1), math.cos(q2), math.sin(q2), math.cos(q1 + q2)
    row1 = (
        (l1**2 + 2 * l1 * l2 * c2 + l2**2) * a1
        + l2 * (l1 * c2 + l2) * a2
        - l1 * l2 * s2 * v2 * (2 * v1 + v2)
    )
    table = entries(study, "eq. (61)")
    assert table["row 1, m2"].found == pytest.approx(l1 * (l1 * a1 + c1 * g))
    assert table["row 1, m3"].found == pytest.approx(row1 + (l1 * c1 + l2 * c12) * g)
    assert table["row 2, m3 px"].found == pytest.approx(
        (l1 * c2 + 2 * l2) * a1 + 2 * l2 * a2 + l1 * s2 * v1**2 + c12 * g
    )


# ---------------------------------------------------------------- varied


def test_studies_can_be_varied() -> None:
    noisy = case_study("lin-1992", noise=0.01)
    assert noisy.verdicts[DIFFERS] > 10
    assert all(entry.verdict != DIFFERS for entry in entries(noisy, "Table I").values())
    longer = case_study("gautier-1991", d3=0.7, method="svd")
    assert all(entry.verdict == AGREES for entry in entries(longer, "Table V").values())
    assert entries(longer, "Table III")["XB1 of MX2"].found == pytest.approx(
        1.2 + 0.7 * (4.8 + 0.8 + 0.5 + 0.1)
    )
    slow = case_study("lu-meng", bandwidth=10.0, duration=0.4, dt=1e-3)
    assert slow.numbers["modified_slotine_li"]["t5"] > 0.35
    assert np.all([entry.verdict != DIFFERS for entry in entries(slow, "eq. (61)").values()])


def test_wrong_names_and_values() -> None:
    with pytest.raises(UnknownName, match="unknown case study 'lin-1991'; did you mean"):
        case_study("lin-1991")
    with pytest.raises(UnknownName, match="'nois'; did you mean 'noise'"):
        case_study("lin-1992", nois=1)
    with pytest.raises(md.MinidynError, match=r"expected a value such as 0\.0"):
        option_values("lin-1992", ("noise=much",))
    assert option_values("lin-1992", ("turned=-0.5,0.2",)) == {"turned": (-0.5, 0.2)}
    assert option_values("lin-fang-1999", ("executed=no", "most=6")) == {
        "executed": False,
        "most": 6,
    }


def test_the_verb(tmp_path: Path) -> None:
    page = tmp_path / "study.html"
    command = ["casestudy", "lin-1992", "--with", "noise=0.01", "--output", str(page), "--json"]
    result = CliRunner().invoke(main, command)
    assert result.exit_code == 0, result.output
    outcome = json.loads(result.stdout)
    assert outcome["settings"]["noise"] == 0.01
    assert outcome["verdicts"][DIFFERS] > 10
    assert outcome["files"] == [str(page)]
    assert "0.01" in page.read_text()
    shown = CliRunner().invoke(
        main, ["casestudy", "lin-1994", "--with", "chains=2", "--every", "--output", str(page)]
    )
    assert "U11_22_4" in shown.stdout
    assert "6: axes meet" in shown.stdout
    for words, message in (
        (["all", "--with", "noise=1"], "name it"),
        (["all", "--output", "a.html"], "need a folder"),
    ):
        wrong = CliRunner().invoke(main, ["casestudy", *words])
        assert wrong.exit_code == 2
        assert message in wrong.stderr
