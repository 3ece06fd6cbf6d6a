"""Laws of the named passes.

Every pass computes the same function, whatever it is given, and none draws by chance.
"""

from __future__ import annotations

import numpy as np
import pytest
from random_programs import Program, close, samples

from conftest import count
from minidyn.dynamics.record import record
from minidyn.errors import UnknownName
from minidyn.graph.function import evaluate
from minidyn.graph.passes import PASSES, apply_passes, cost, optimise
from minidyn.graph.scalar import Graph, cos, sin
from robot_cases import random_chain, random_state, relative_error


@pytest.mark.parametrize("name", [*PASSES, "optimise"])
def test_passes_keep_the_meaning_of_random_programs(name: str) -> None:
    run = optimise if name == "optimise" else PASSES[name]
    for seed in range(count(12, 300)):
        function = Program(seed, smooth=seed % 2 == 0).record()
        changed = run(function)
        assert changed.arguments == function.arguments
        assert changed.results == function.results
        arrays = samples(seed, 5)
        close(evaluate(changed, *arrays), evaluate(function, *arrays), 1e-9)


@pytest.mark.parametrize("what", ["inertia_matrix", "inverse_dynamics", "gravity_torque"])
def test_passes_keep_the_meaning_of_robots(what: str) -> None:
    for seed, joints in enumerate(("RRR", "RPR", "RRRRRR", "RRPRRR", "PPR")[: count(3, 5)]):
        robot = random_chain(seed, joints)
        function = record(robot, what, parameters="argument")
        state = random_state(robot, np.random.default_rng(seed), 4)[: len(function.arguments) - 1]
        expected = evaluate(function, *state, robot.parameters)
        for name in PASSES:
            changed = apply_passes(function, (name,))
            assert relative_error(evaluate(changed, *state, robot.parameters), expected) < 1e-12, (
                name
            )
        best = optimise(function)
        assert cost(best) <= cost(function)
        assert relative_error(evaluate(best, *state, robot.parameters), expected) < 1e-12
        assert optimise(function).fingerprint == best.fingerprint


def _counts(build: str, name: str) -> tuple[int, int]:
    graph = Graph()
    x = graph.inputs("x", 6)
    p = graph.inputs("p", 4, uniform=True)
    y = eval(build, {"x": x, "p": p, "sin": sin, "cos": cos})  # noqa: S307 (the text stands below)
    counts = PASSES[name](graph.function("f", {"y": y})).counts
    return counts["mul"], counts["add"]


@pytest.mark.parametrize(
    ("name", "build", "expected"),
    [
        ("gather_sums", "[(x[0] + p[0]) + (x[1] + p[1])]", (0, 2)),
        ("gather_sums", "[x[0] + x[1] + x[2], x[3] + x[2] + x[1]]", (0, 3)),
        (
            "share_sums",
            "[x[0] + (x[1] + x[2]), (x[1] + x[2]) * x[3], (x[0] + x[1]) * x[4]]",
            (2, 3),
        ),
        ("factor_sums", "[x[0] * x[1] + x[2] * x[0] - x[3] * x[0]]", (1, 2)),
        ("factor_sums", "[x[0] * p[1] + p[2] * x[0]]", (1, 0)),
        (
            "defer_constants",
            "[0.3 * (x[0] * 0.6 + 0.8 * x[1]) + x[2], 0.4 * (x[0] * 0.6 + 0.8 * x[1]) + x[3]]",
            (3, 3),
        ),
        ("defer_constants", "[0.5 * x[0] + 0.5 * x[1]]", (1, 1)),
    ],
)
def test_what_each_pass_saves(name: str, build: str, expected: tuple[int, int]) -> None:
    assert _counts(build, name) == expected


def test_unknown_pass_is_named() -> None:
    function = Program(1).record()
    with pytest.raises(UnknownName, match="gather_sums"):
        apply_passes(function, ("gather_sum",))
