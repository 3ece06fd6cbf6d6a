"""Operation counts: LinFang1999's tables line by line, and counts that beat the references."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

import minidyn as md
from conftest import count
from minidyn.app.casestudies.lin_fang_1999 import PRINTED, printed_counts
from minidyn.errors import MinidynError, UnknownName, Unsupported
from minidyn.model.robot import Robot
from minidyn.papers.operation_count import (
    formulation_lines,
    moment_lines,
    operation_count,
    paper_count,
    total,
)

GOLDEN = json.loads((Path(__file__).parent / "lin.json").read_text())
RIGHT = math.pi / 2


def _joints(kind: str, n: int) -> str:
    return "R" * n if kind == "1" else "RRP" + "R" * (n - 3)


def _polynomial(text: str) -> list[float]:
    """Coefficients of n², n, 1 in text such as "10n^2-18n+8"."""
    text = text.strip()
    square, rest = text.split("n^2")
    linear, constant = rest.split("n")
    return [float(square), float(linear), float(constant or 0)]


@pytest.mark.parametrize("kind", ["1", "2"])
@pytest.mark.parametrize("n", range(4, 13))
def test_line_sums_of_table_vi(kind: str, n: int) -> None:
    sums = GOLDEN["tableVI_line_sums"]
    powers = [n * n, n, 1]
    for number in range(1, 6):
        counted = total(formulation_lines(number, _joints(kind, n)))
        text = sums[f"form{number}"][f"T{kind}"]
        if text.startswith("=printed"):
            expected = printed_counts("VI", str(number), kind).at(n)
        else:
            mul, add = (part.split("(")[0] for part in text.split(";"))
            expected = (
                float(np.dot(_polynomial(mul), powers))
                + (2 if number == 1 else 0),  # 2M for s from 1 to 2
                float(np.dot(_polynomial(add), powers)),
            )
        assert counted == expected, f"formulation {number}"
    assert total(moment_lines(_joints(kind, n))) == printed_counts("VII", "moments", kind).at(n)


@pytest.mark.parametrize(
    "entry", [entry for entry in PRINTED if not entry.row.startswith("Kawasaki")], ids=repr
)
def test_printed_totals_but_for_the_marked_errata(entry: object) -> None:
    printed = next(x for x in PRINTED if x is entry)
    for n in range(4, 12):
        joints = _joints(printed.joints, n)
        if printed.table == "VI":
            counted = total(formulation_lines(int(printed.row), joints))
        elif printed.table == "VII":
            counted = total(moment_lines(joints))
        else:
            counted = paper_count(joints, int(printed.row))
        wrong = printed.erratum.startswith("the lines give")
        assert (counted != printed.at(n)) is wrong


def test_numbers_printed_in_the_tables() -> None:
    """Columns of Table VI and VIII, with what ERRATA C marks."""
    table_vi = {
        ("1", "1"): {4: (98, 60), 6: (262, 160), 11: (1022, 620)},
        ("2", "1"): {4: (90, 66), 6: (265, 190), 11: (1105, 780)},
        ("3", "1"): {4: (102, 66), 6: (295, 190), 11: (1215, 780)},
        ("5", "1"): {4: (102, 74), 6: (266, 182), 11: (1026, 662)},  # printed 1016
        ("1", "2"): {6: (252, 156), 8: (496, 304), 9: (648, 396)},
        ("2", "2"): {
            6: (228, 157),
            8: (469, 323),
            9: (624, 430),
        },  # printed 231, 160; 472, 326; 627, 433
        ("3", "2"): {6: (254, 159), 8: (517, 325), 9: (686, 432)},
        ("4", "1"): {4: (162, 104), 6: (349, 232), 11: (974, 692)},  # printed 158, 345, 970
        ("4", "2"): {6: (343, 226), 8: (566, 386), 9: (691, 478)},  # printed 339, 562, 687
        ("5", "2"): {6: (256, 173), 8: (500, 329), 9: (652, 425)},
    }
    for (number, kind), row in table_vi.items():
        for n, expected in row.items():
            assert total(formulation_lines(int(number), _joints(kind, n))) == expected
    for n, expected in {4: (179, 135), 6: (407, 301), 8: (715, 515)}.items():
        assert paper_count("R" * n, 1) == expected
    for n, expected in {4: (171, 129), 6: (399, 295), 8: (707, 509)}.items():
        assert paper_count(_joints("2", n), 1) == expected
    assert printed_counts("VIII", "Kawasaki I", "1").at(4) == (195, 174)  # printed 194
    assert printed_counts("VIII", "Kawasaki II", "1").at(6) == (415, 333)
    assert paper_count("RRRR") == (171, 141)  # formulation 2, as the paper recommends for n <= 4


def _generic(n: int) -> Robot:
    k = np.arange(n)
    return Robot.from_mdh("R" * n, 0.5 + 0.1 * k, 0.3 + 0.02 * k, 0.2 + 0.03 * k)


CUSTOMISED = {
    "generic 6R": (_generic(6), "inertia_matrix", (330, 260)),
    "PUMA": (
        Robot.from_mdh(
            "RRRRRR",
            [0, -RIGHT, 0, -RIGHT, RIGHT, -RIGHT],
            [0, 0, 0.4318, 0.0203, 0, 0],
            [0, 0, 0.15005, 0.4318, 0, 0],
        ),
        "inertia_matrix",
        (139, 125),
    ),
    "Stanford": (
        Robot.from_mdh(
            "RRPRRR", [0, RIGHT, RIGHT, 0, RIGHT, RIGHT], d=[0, 0.1529, 0.6447, 0, 0, 0]
        ),
        "inertia_matrix",
        (95, 94),
    ),
    "RX-90, inertia matrix": (md.load("rx90"), "inertia_matrix", (195, 133)),
    "RX-90, inverse dynamics": (md.load("rx90"), "inverse_dynamics", (253, 238)),
}


@pytest.mark.parametrize("name", CUSTOMISED)
def test_customised_counts_beat_the_references(name: str) -> None:
    robot, what, (mul, add) = CUSTOMISED[name]
    counted = operation_count(robot, what)
    assert counted[0] < mul
    assert counted[1] < add


def test_counts_do_not_depend_on_values_drives_or_names() -> None:
    rows = ([0, -RIGHT, 0], [0, 0, 0.4], [0, 0, 0.1])
    bare = Robot.from_mdh("RRR", *rows)
    rich = Robot.from_mdh(
        "RRR", *rows, rotor_inertia=True, friction=["viscous", "coulomb"], name="other"
    )
    zero = rich.with_parameters(np.zeros(len(rich.layout)))
    for what in (
        "inertia_matrix",
        "inverse_dynamics",
        "gravity_torque",
        "velocity_torque",
        "coriolis_matrix",
    ):
        assert (
            operation_count(bare, what)
            == operation_count(rich, what)
            == operation_count(zero, what)
        )
    for number in (1, 2, 3, 4, 5):
        best, other = operation_count(bare), operation_count(bare, formulation=number)
        assert sum(best) <= sum(other)


def test_generic_counts_are_below_the_papers() -> None:
    for n in range(3, count(6, 9)):
        robot = Robot.from_mdh("R" * n)
        executed = operation_count(robot, formulation=1, customised=False)
        mul, add = operation_count(robot, formulation=1, counting="paper")
        assert executed[0] < mul
        assert executed[1] < add


def test_misuse_is_explained() -> None:
    robot = _generic(3)
    with pytest.raises(UnknownName, match="inverse_dynamics"):
        operation_count(robot, "inverse_dynamic")
    with pytest.raises(UnknownName, match="paper"):
        operation_count(robot, counting="papers")
    with pytest.raises(UnknownName, match="formulation"):
        operation_count(robot, formulation=9)
    with pytest.raises(MinidynError, match="formulations are of the inertia matrix"):
        operation_count(robot, "inverse_dynamics", formulation=1)
    with pytest.raises(Unsupported, match="does not count"):
        operation_count(robot, "inverse_dynamics", counting="paper")
    with pytest.raises(Unsupported, match="not in LinFang1999"):
        operation_count(robot, formulation=6, counting="paper")


def test_the_command_prints_them() -> None:
    from click.testing import CliRunner

    from minidyn.app.cli.main import main

    printed = CliRunner().invoke(main, ["count", "rx90", "inverse_dynamics", "--base", "--json"])
    mul, add = operation_count(md.load("rx90"), "inverse_dynamics")
    counted = json.loads(printed.output)["inverse_dynamics"]
    assert (counted["mul"], counted["add"]) == (mul, add)
    assert 0 < counted["once_mul"] < mul  # what depends on parameters alone
    printed = CliRunner().invoke(
        main, ["count", "stanford", "--counting", "paper", "--formulation", "1", "--json"]
    )
    assert json.loads(printed.output) == {"inertia_matrix": {"mul": 399, "add": 295}}
    assert (
        CliRunner().invoke(main, ["count", "rx90", "--generic", "--link", "link2"]).exit_code == 2
    )
