"""The base-parameter map as a value.

Values, lifting, shortest vectors, names, equivalence, what it says of itself.
"""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from base_robots import rescaled, special_robot

import minidyn as md
from conftest import count
from minidyn.errors import MinidynError, NotEquivalent, ShapeError, UnknownParameters
from minidyn.model.robot import Robot


@pytest.fixture(scope="module")
def puma() -> md.BaseMap:
    return md.base_parameters(md.load("puma560"))


def test_values_lift_and_shortest_vector() -> None:
    rng = np.random.default_rng(1)
    for seed in range(count(20, 300)):
        robot = special_robot(seed)
        base = md.base_parameters(robot)
        phi = rng.normal(size=(3, len(robot.layout)))
        beta = base.values(phi)
        np.testing.assert_allclose(
            beta, phi @ base.matrix.T, atol=1e-12 * max(1, np.abs(base.K).max(initial=0))
        )
        others = rng.normal(size=len(base.regrouped))
        for full in (base.lift(beta), base.lift(beta, others), base.minimum_norm(phi)):
            np.testing.assert_allclose(base.values(full), beta, rtol=1e-9, atol=1e-9)
        shortest = np.linalg.norm(base.minimum_norm(phi), axis=-1)
        assert np.all(shortest <= np.linalg.norm(base.lift(beta), axis=-1) + 1e-12)
        assert np.all(shortest <= np.linalg.norm(phi, axis=-1) + 1e-12)
        np.testing.assert_allclose(
            base.minimum_norm(phi), beta @ np.linalg.pinv(base.matrix).T, atol=1e-8
        )


def test_unknown_values(puma: md.BaseMap) -> None:
    phi = puma.robot.parameters.copy()
    phi[list(puma.robot.layout.indices(puma.eliminated))] = np.nan
    np.testing.assert_array_equal(puma.values(phi), puma.values())
    phi[puma.robot.layout.index("M3")] = np.nan
    with pytest.raises(UnknownParameters, match=r"M3"):
        puma.values(phi)
    with pytest.raises(UnknownParameters, match=r"in all"):
        puma.values(np.full(66, np.nan))
    with pytest.raises(UnknownParameters):
        md.base_parameters(md.load("hpr")).values()


def test_shapes_are_checked_and_arrays_are_read_only(puma: md.BaseMap) -> None:
    for wrong in (
        lambda: puma.values(np.zeros(65)),
        lambda: puma.lift(np.zeros(39)),
        lambda: puma.values(0.0),
    ):
        with pytest.raises(ShapeError):
            wrong()
    with pytest.raises(ShapeError):
        puma.lift(np.zeros(40), np.zeros(14))
    for array in (puma.K, puma.matrix):
        with pytest.raises(ValueError, match="read-only"):
            array[0, 0] = 2.0
    with pytest.raises(ShapeError):
        md.BaseMap(
            puma.robot,
            "test",
            "torque",
            puma.kept,
            puma.regrouped,
            puma.eliminated,
            np.zeros((2, 2)),
        )
    with pytest.raises(MinidynError, match="every"):
        md.BaseMap(puma.robot, "test", "torque", puma.kept, puma.regrouped, puma.kept[:11], puma.K)


def test_names_mark_what_others_join(puma: md.BaseMap) -> None:
    assert puma.names[:4] == ("ZZR1", "XXR2", "XY2", "XZR2")
    assert sum("R" in name for name in puma.names) == 17
    assert len(puma.unchanged) == 23
    marked = {name.replace("R", "") for name in puma.names if "R" in name}
    assert marked.isdisjoint(puma.unchanged)


def test_statuses_say_why(puma: md.BaseMap) -> None:
    statuses = puma.statuses
    assert list(statuses) == list(puma.robot.layout.names)
    assert statuses["XY2"] == "identifiable"
    assert statuses["YY2"] == statuses["ZZ1"] == "in combination"
    assert statuses["XX1"].startswith("no effect: link 'link1' turns about one direction only")
    assert statuses["M2"] == "no effect: the origin of link 'link2' does not move"
    assert sum(text.startswith("no effect") for text in statuses.values()) == 11
    sliding = md.base_parameters(Robot.from_mdh("PP", [0, math.pi / 2]))
    assert sliding.statuses["ZZ2"] == "no effect: link 'link2' never turns"


def test_an_identifiable_parameter_is_a_base_parameter_alone(puma: md.BaseMap) -> None:
    """Whether a parameter can be told alone is a property of the span, not of the choice of
    columns.
    """
    other = md.base_parameters(puma.robot, order=lambda column: -column.index)
    for name, status in puma.statuses.items():
        assert status.split(":")[0] == other.statuses[name].split(":")[0], name


def test_json_and_text(puma: md.BaseMap) -> None:
    data = json.loads(json.dumps(puma.to_json()))
    assert data["rank"] == 40
    assert data["names"][0] == "ZZR1"
    assert np.array_equal(data["K"], puma.K)
    assert data["gap"] is None
    assert repr(puma).startswith("BaseMap('puma560', torque model")
    assert "\n" not in repr(puma)
    assert "ZZR1" in puma.to_markdown()
    assert "ZZR" in puma.to_latex()
    assert any("ZZR1" in str(relation) for relation in puma.relations())
    assert puma.fingerprint == md.base_parameters(puma.robot, seed=3).fingerprint
    assert puma.fingerprint != md.base_parameters(puma.robot, order=("YY2",)).fingerprint


def test_equivalence_is_nonsingular_and_carries_values() -> None:
    rng = np.random.default_rng(2)
    for seed in range(count(15, 300)):
        robot = special_robot(seed)
        a = md.base_parameters(robot)
        b = md.base_parameters(robot, order=lambda column: -column.index)
        T = md.equivalence(a, b)
        assert T.shape == (a.rank, a.rank)
        phi = rng.normal(size=len(robot.layout))
        scale = max(1.0, np.abs(b.values(phi)).max(initial=0.0))
        np.testing.assert_allclose(T @ a.values(phi), b.values(phi), atol=1e-7 * scale)
        np.testing.assert_allclose(T @ md.equivalence(b, a), np.eye(a.rank), atol=1e-6)


def test_equivalence_says_what_is_missing(puma: md.BaseMap) -> None:
    general = md.base_parameters(puma.robot.with_gravity((1.0, 2.0, 3.0)))
    with pytest.raises(
        NotEquivalent, match=r"the second \(42 parameters\) determines MX1, which the first"
    ):
        md.equivalence(puma, general)
    with pytest.raises(NotEquivalent, match=r"the first \(42 parameters\) determines MX1"):
        md.equivalence(general, puma)
    still = md.base_parameters(puma.robot.with_gravity((0, 0, 0)))
    with pytest.raises(NotEquivalent, match="determines"):
        md.equivalence(puma, still)
    with pytest.raises(ShapeError):
        md.equivalence(puma, md.base_parameters(md.load("panda")))
    with pytest.raises(MinidynError):
        md.equivalence(puma.matrix, puma)  # type: ignore[call-overload]


def test_equivalence_of_a_robot_in_millimetres() -> None:
    robot = rescaled(special_robot(3, size=5), 1000.0)
    a, b = md.base_parameters(robot), md.base_parameters(robot, order=lambda column: -column.index)
    assert np.linalg.matrix_rank(md.equivalence(a, b)) == a.rank
