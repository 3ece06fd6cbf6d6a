"""What people know about bodies: it holds in the model, the model is the convex problem's minimum,
and logs that show little give better models with it.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import cvxpy
import numpy as np
import pytest

import minidyn as md
from minidyn.errors import DescriptionError, UnknownName, WrongArgument
from minidyn.identification.consistency.consistency import make_consistent
from minidyn.identification.consistency.knowledge import knowledge_of
from minidyn.model.assemble import LooseJoint, LooseLink, assemble
from minidyn.model.geometry import Step, matrix_of
from minidyn.model.parameters import from_body, from_pseudo_inertia, to_pseudo_inertia

FAST: dict[str, Any] = {"friction": (), "rotor_inertia": None, "auto": False}


@cache
def arms() -> md.Robot:
    """Two arms of two joints, mirror images through y = 0, their frames turned another way."""
    links, joints = [LooseLink("torso", "")], []
    up = from_body(3.0, (0.02, 0.05, -0.15), np.diag([0.03, 0.03, 0.01]) + 0.002)
    low = from_body(1.5, (0.01, 0.02, -0.12), np.diag([0.01, 0.012, 0.004]) + 0.001)
    for side, sign in (("left", 1.0), ("right", -1.0)):
        first = (Step("ty", 0.2 * sign), Step("rz", 0.0 if sign > 0 else 1.0))
        T = matrix_of(first)
        mirror = np.diag([1.0, -1.0, 1.0, 1.0])
        for name, ten in (("upper", up), ("lower", low)):
            body = ten
            if sign < 0:  # the left one's, mirrored, in the frame of the right one
                turn = np.eye(4)
                turn[:3, :3] = T[:3, :3]
                across = turn.T @ mirror
                body = from_pseudo_inertia(across @ to_pseudo_inertia(ten) @ across.T)
            links.append(LooseLink(f"{side}_{name}", "", body))
        axis = "rx" if sign > 0 else "ry"
        joints.append(LooseJoint(f"{side}_1", "", "revolute", "torso", f"{side}_upper", first))
        down = (Step("tz", -0.3),)
        ends = f"{side}_upper", f"{side}_lower"
        joints.append(LooseJoint(f"{side}_2", "", "revolute", *ends, down, axis))
    return assemble("arms", links, joints, gravity=(0.0, -3.0, -9.3))


def log(robot: md.Robot, moving: list[int], seed: int = 0, noise: float = 0.3) -> md.Recording:
    """A log in which some joints move and the others hardly do."""
    t = 0.01 * np.arange(1500)
    parts = [np.array(part) for part in md.trajectory.fourier(robot, seed=seed, speed=2.0)(t)]
    for part in parts:
        part[:, [k for k in range(robot.n) if k not in moving]] *= 0.02
    tau = md.inverse_dynamics(robot, *parts)
    tau = tau + noise * np.random.default_rng(seed).normal(size=tau.shape)
    return md.Recording(t, parts[0], tau, parts[1], parts[2], robot.joint_names)


def error(found: md.Estimate, robot: md.Robot) -> float:
    """Relative error of torques along a motion of all joints."""
    other = log(robot, list(range(robot.n)), seed=5, noise=0.0)
    tau = md.inverse_dynamics(found.robot, other.q, other.dq, other.ddq)
    return float(np.linalg.norm(tau - other.tau) / np.linalg.norm(np.asarray(other.tau)))


def wrong(robot: md.Robot, factors: list[float]) -> md.Robot:
    """A robot file whose bodies are off by factors."""
    values = robot.parameters.copy()
    for part, factor in zip(robot.layout.links, factors):
        values[part] *= factor
    return robot.with_parameters(values)


def test_mirror_images_help_the_arm_that_hardly_moves() -> None:
    robot = arms()
    prior = wrong(robot, [1.6, 1.6, 1.6, 1.6])
    data = log(robot, [0, 1])
    plain = md.identify(prior, data, **FAST)
    with_pairs = md.identify(prior, data, symmetric=[("left_*", "right_*")], **FAST)
    assert error(with_pairs, robot) < 0.6 * error(plain, robot)
    assert with_pairs.record["knowledge"]["holds"]
    masses = {
        link.name.partition("_"): float(link.parameters[9]) for link in with_pairs.robot.links
    }
    for name in ("upper", "lower"):
        pair = [value for (_, _, last), value in masses.items() if last == name]
        assert pair[0] == pytest.approx(pair[1], rel=0.1)


def test_the_mirror_is_the_truth_of_mirrored_arms() -> None:
    """The true parameters keep the equations, whatever frames the two arms have."""
    robot = arms()
    facts = knowledge_of(robot, md.Settings(symmetric=[("left_*", "right_*")]))
    assert facts is not None
    assert facts.equations.shape == (20, len(robot.layout))
    assert np.abs(facts.equations @ robot.parameters - facts.values).max() < 1e-9


def test_total_mass_and_bounds_help() -> None:
    robot = arms()
    prior = wrong(robot, [1.0, 1.0, 2.0, 2.0])  # the right arm, which hardly moves, is too heavy
    data = log(robot, [0, 1], noise=3.0)
    plain = md.identify(prior, data, **FAST)
    total = float(sum(link.parameters[9] for link in robot.links))
    weighed = md.identify(prior, data, total_mass=(total, 0.05), **FAST)
    assert error(weighed, robot) < error(plain, robot)
    mass = sum(float(link.parameters[9]) for link in weighed.robot.links)
    assert mass == pytest.approx(total, abs=0.2)
    bounds = {"right_upper": [2.8, 3.2], "right_lower": [1.4, 1.6]}
    bounded = md.identify(prior, data, mass_bounds=bounds, **FAST)
    assert error(bounded, robot) < error(plain, robot)
    for link in bounded.robot.links:
        low, high = bounds.get(link.name, (0.0, np.inf))
        assert low <= link.parameters[9] <= high
    assert bounded.record["knowledge"]["holds"]


def test_bounds_are_the_minimum_of_the_convex_problem() -> None:
    """Compared with a solver of cones, without a prior's distance but its faint pulls."""
    robot = arms()
    base = md.base_parameters(robot)
    rng = np.random.default_rng(0)
    R = np.diag(rng.uniform(2e3, 6e3, base.rank))
    z = R @ base.values(robot.parameters)
    facts = knowledge_of(robot, md.Settings(mass_bounds={"*_lower": [0.0, 0.05]}))
    assert facts is not None
    pushes: dict[int, float] = {}
    for _ in range(12):
        fit = make_consistent(robot, base, R, z, known=facts.rows(pushes))
        pushes = facts.next_pushes(fit.phi, pushes)
    assert len(pushes) == 2
    phi = cvxpy.Variable(len(robot.layout))
    limits = [facts.bounds @ phi >= facts.least]
    for part in robot.layout.links:
        parts = [phi[part.start + k] * to_pseudo_inertia(np.eye(10)[k]) for k in range(10)]
        limits.append(sum(parts) >> 0)
    problem = cvxpy.Problem(cvxpy.Minimize(cvxpy.sum_squares(R @ (base.matrix @ phi) - z)), limits)
    problem.solve(solver="CLARABEL")
    assert problem.value > 100.0  # so light, no body has these moments
    assert fit.misfit == pytest.approx(problem.value, rel=0.02)  # the barrier costs a little
    assert np.all(facts.bounds @ fit.phi - facts.least >= -1e-6)


def test_centres_inside_the_shapes(tmp_path: Any) -> None:
    robot = arms()
    md.save(robot, tmp_path / "arm.urdf")
    text = (tmp_path / "arm.urdf").read_text()
    for link in robot.links:
        com = link.parameters[6:9] / link.parameters[9]
        place = " ".join(f"{value}" for value in com)
        shape = f'<visual><origin xyz="{place}"/><geometry><box size="0.06 0.06 0.06"/></geometry>'
        mark = f'<link name="{link.name}">'
        text = text.replace(mark, f"{mark}{shape}</visual>")
    (tmp_path / "arm.urdf").write_text(text)
    true = md.load(tmp_path / "arm.urdf")
    values = true.parameters.copy()
    for part in true.layout.links:  # centres far outside of the shapes
        mass = values[part][9]
        com = values[part][6:9] / mass + np.array([0.25, 0.1, 0.0])
        values[part] = from_body(mass, com, 0.02 * np.eye(3))
    prior = true.with_parameters(values)
    data = log(true, [0, 1], noise=3.0)
    plain = md.identify(prior, data, **FAST)
    inside = md.identify(prior, data, centres_inside=True, **FAST)
    assert inside.record["knowledge"]["holds"]
    assert error(inside, true) < error(plain, true)
    for link, right in zip(inside.robot.links, true.links):
        centre = link.parameters[6:9] / link.parameters[9]
        box = right.parameters[6:9] / right.parameters[9]
        assert np.all(np.abs(centre - box) <= 0.03 + 1e-4)
    with pytest.raises(DescriptionError, match="shows no shapes"):
        md.identify(robot, data, centres_inside=True, **FAST)


def test_what_contradicts_the_log_is_said() -> None:
    robot = arms()
    data = log(robot, [0, 1, 2, 3], noise=0.01)
    found = md.identify(robot, data, mass_bounds={"left_lower": [6.0, 7.0]}, **FAST)
    assert found.record["knowledge"]["holds"]  # the bound counts before the data
    found = md.identify(robot, data, symmetric=[("left_upper", "right_upper")], **FAST)
    assert "consistency.contradicted" not in [one.code for one in found.notices]


def test_settings_and_wrong_values() -> None:
    settings = md.Settings(
        total_mass=(12.0, 0.1),
        mass_bounds={"a*": (1, 2)},
        symmetric=[["left_*", "right_*"]],
        centres_inside=True,
    )
    assert md.Settings.from_toml(settings.to_toml()) == settings
    assert md.Settings.from_json(settings.to_json()) == settings
    assert settings.symmetric == (("left_*", "right_*"),)
    wrong_values: list[dict[str, Any]] = [
        {"total_mass": -1.0},
        {"total_mass": [1, 2, 3]},
        {"mass_bounds": {"a": [2, 1]}},
        {"mass_bounds": [1, 2]},
        {"symmetric": ["left", "right"]},
        {"total_mass": 3.0, "consistent": False},
    ]
    for wrong_value in wrong_values:
        with pytest.raises(WrongArgument):
            md.Settings(**wrong_value)
    robot = arms()
    with pytest.raises(UnknownName, match="symmetric"):
        knowledge_of(robot, md.Settings(symmetric=[("lift_*", "right_*")]))
    with pytest.raises(DescriptionError, match="no mirror images"):
        knowledge_of(robot, md.Settings(symmetric=[("left_upper", "right_lower")]))
