"""Formulations side by side.

Every column counts a program or the paper's lines, and the winner is named.
"""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

import minidyn as md
from minidyn.app.cli.main import main
from minidyn.errors import Unsupported
from minidyn.model.robot import Robot
from minidyn.papers.formulation_table import NUMBERS, FormulationCounts, formulation_counts
from minidyn.papers.operation_count import operation_count, paper_count
from robot_cases import random_chain


@pytest.fixture(scope="module")
def found() -> FormulationCounts:
    return formulation_counts(random_chain(3, "RRP", name="a|b_c$"))


def test_every_column_is_a_count(found: FormulationCounts) -> None:
    robot = random_chain(3, "RRP", name="a|b_c$")
    base = md.base_parameters(robot)
    assert found.joints == "RRP"
    for k, number in enumerate(NUMBERS):
        function = md.compile(
            robot, "inertia_matrix", base=base, formulation=number, parameters="argument"
        ).function
        assert found.counts["executed"][k] == (function.counts["mul"], function.counts["add"])
        assert found.counts["generic"][k] == operation_count(
            robot, formulation=number, customised=False
        )
        assert found.counts["paper"][k] == (None if number == 6 else paper_count("RRP", number))
        raw, run = found.counts["customised"][k], found.counts["executed"][k]
        assert raw is not None
        assert run is not None
        assert sum(run) <= sum(raw)
    for way, number in found.best.items():
        totals = {k: sum(each) for k, each in zip(NUMBERS, found.counts[way]) if each is not None}
        assert totals[number] == min(totals.values())


def test_tables_and_figure(found: FormulationCounts) -> None:
    markdown = found.to_markdown().splitlines()
    assert [line.count("|") - line.count("\\|") for line in markdown[2:]] == [6] * 8
    assert r"a\|b\_c" in markdown[0] or r"a\|b_c" in markdown[0]
    latex = found.to_latex()
    assert latex.count(r"\\") == 7
    assert latex.count(r"\textbf{") == 4
    assert latex.count(r"\begin{tabular}") == latex.count(r"\end{tabular}") == 1
    assert len(str(found).splitlines()) == 8
    pytest.importorskip("pandas")
    frame = found.to_pandas()
    assert list(frame["formulation"]) == list(NUMBERS)
    assert frame["executed mul"][0] == found.counts["executed"][0][0]  # type: ignore[index]
    pytest.importorskip("matplotlib")
    assert len(found.plot().axes[0].patches) == 4 * 6 - 1


def test_the_claim_for_type_2_holds_on_paper_and_vanishes_in_programs() -> None:
    """LinFang1999: formulation 2 is best for Type 2 up to n = 8, formulation 1 for 9 to 11."""
    for n in range(4, 12):
        joints = "RRP" + "R" * (n - 3)
        totals = {number: sum(paper_count(joints, number)) for number in range(1, 6)}
        assert min(totals, key=lambda number: totals[number]) == (2 if n <= 8 else 1)
    robot = Robot.from_mdh("RRPRRR")
    run = [sum(operation_count(robot, formulation=number, customised=False)) for number in (1, 2)]
    assert run == [545, 621]


def test_shell(tmp_path) -> None:  # type: ignore[no-untyped-def]
    run = CliRunner().invoke
    done = run(
        main,
        ["count", "two_link", "--formulation", "all", "--json", "--plot", str(tmp_path / "f.svg")],
    )
    assert done.exit_code == 0, done.output
    data = json.loads(done.stdout)
    assert set(data["formulations"]) == set("123456")
    assert data["best"]["executed"] in NUMBERS
    assert (tmp_path / "f.svg").stat().st_size > 1000
    for form, word in (
        ("table", "Formulation"),
        ("markdown", "| formulation |"),
        ("latex", r"\begin{tabular}"),
    ):
        done = run(main, ["count", "two_link", "--formulation", "all", "--format", form])
        assert done.exit_code == 0
        assert word in done.stdout
    for wrong in (
        ["--formulation", "x"],
        ["--formulation", "all", "--generic"],
        ["--format", "latex"],
    ):
        assert run(main, ["count", "two_link", *wrong]).exit_code == 2
    with pytest.raises(Unsupported, match="serial"):
        formulation_counts(
            Robot.from_mdh("RRR", [0.0, 1.0, 1.0], [0.0, 0.3, 0.3], parent=[0, 1, 1])
        )
