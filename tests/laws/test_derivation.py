"""A derivation's formulas are the constants of composite bodies, and its set is the rule's."""

from __future__ import annotations

import json

import numpy as np
import pytest
from chain_cases import special_chain
from click.testing import CliRunner

import minidyn as md
from conftest import count
from minidyn.app.cli.main import main
from minidyn.base.printing.derivation import FORMATS, derivation, written
from minidyn.errors import MinidynError
from minidyn.model.robot import Robot


def check(robot: Robot) -> None:
    table = robot.mdh()
    found, base = derivation(robot), md.base_parameters(table.robot, "mlc")
    phi = dict(zip(table.robot.layout.names, table.robot.parameters))
    constants = md.papers.inertia_constants(robot)
    size = max(1.0, float(np.abs(table.robot.parameters).max()))
    for step, body in zip(found.steps, reversed(constants)):
        upper = body.U[np.triu_indices(3)]
        labels = ["m̂", "kx", "ky", "kz", "U11", "U12", "U13", "U22", "U23", "U33"]
        expected = dict(zip(labels, [body.mass, *body.k, *upper]))
        shown = {name.partition("_")[0]: terms for name, terms in step.constants}
        for label, value in expected.items():
            total = sum(term.value * phi[term.parameter] for term in shown.get(label, ()))
            assert abs(total - value) <= 1e-9 * size, (step.number, label)
    assert sum(len(step.adds) for step in found.steps) == found.rank == base.rank


@pytest.mark.parametrize("seed", range(count(10, 200)))
def test_chains(seed: int) -> None:
    check(special_chain(seed + 300, 5))


@pytest.mark.parametrize("name", ["puma560", "scara", "stanford", "iiwa14", "two_arm"])
def test_robots_in_every_format(name: str) -> None:
    robot = md.load(name)
    check(robot.with_parameters([0.5 if np.isnan(v) else v for v in robot.parameters]))
    for style in FORMATS:
        text = written(derivation(robot), style)
        assert text.count("{") == text.count("}")
        assert "nan" not in text
    assert written(derivation(robot), "latex").count("align*}") == 2 * len(derivation(robot).steps)


def test_the_shell_prints_it() -> None:
    text = CliRunner().invoke(main, ["formulas", "scara", "derivation"]).stdout
    assert "kx_2 = MX2 + MX3 + a3 (M3 + M4)" in text
    assert "The set has 8 combinations." in text
    data = json.loads(
        CliRunner().invoke(main, ["formulas", "scara", "derivation", "--json"]).stdout
    )
    assert data["text"] == text
    refused = CliRunner().invoke(main, ["formulas", "scara", "derivation", "--format", "sympy"])
    assert (refused.exit_code, "markdown" in refused.stderr) == (2, True)
    with pytest.raises(MinidynError, match="loop"):
        derivation(md.load("hpr"))
