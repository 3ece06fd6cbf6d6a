"""Loops: solved numerically, given as linear functions, or given as formulas.

They are the same robot. Passive joints by solving and by formula go different ways through the
library, so that each checks the other; a Lagrangian built from point masses with finite differences
checks both.
"""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import pytest

import minidyn as md
from conftest import OWN
from minidyn.dynamics.record import record
from minidyn.errors import LoopError, ShapeError
from minidyn.graph.derivative import jvp
from minidyn.graph.function import evaluate
from minidyn.model.assemble import LooseJoint, LooseLink, LooseLoop, assemble
from minidyn.model.geometry import Step, Steps
from minidyn.model.loops import check_loops
from minidyn.model.robot import Robot
from robot_cases import random_body, relative_error

RIGHT = math.pi / 2
PRECISE = 1e-10  # what Newton's method leaves of a loop, seen in torques


def built(
    name: str, joints: list[LooseJoint], loop: LooseLoop, solved: bool, base: Steps = ()
) -> Robot:
    """Return the robot with its passive joints given as functions, or left to be solved for."""
    rng = np.random.default_rng(31)
    names = ["base", *(joint.child for joint in joints)]
    links = [
        LooseLink(link, "test", None if link == "base" else random_body(rng)) for link in names
    ]
    made = []
    for joint in joints:
        drive = {symbol: float(rng.uniform(0.1, 1.0)) for symbol in ("Ia", "Fv", "Fc")}
        function = (
            {"leaders": None, "formula": "", "offset": 0.0} if solved and joint.passive else {}
        )
        made.append(LooseJoint(**{**joint.__dict__, "drive_values": drive, **function}))
    return assemble(name, links, made, loops=[loop], gravity=(0.3, -1.0, -9.81), base=base)


def parallelogram(solved: bool) -> Robot:
    """Two cranks and a coupler on a turning base, with an arm behind: linear functions."""
    joints = [
        LooseJoint("swing", "test", "revolute", "base", "column"),
        LooseJoint("crank", "test", "revolute", "column", "left", (Step("rx", RIGHT), Step("rz", 0.9))),  # noqa: E501
        LooseJoint(
            "rod", "test", "revolute", "left", "bar", (Step("tx", 0.4), Step("rz", -0.9)), passive=True,  # noqa: E501
            leaders={"crank": -1.0},
        ),
        LooseJoint(
            "rear", "test", "revolute", "column", "right", (Step("rx", RIGHT), Step("tx", 0.7), Step("rz", 0.9)),  # noqa: E501
            passive=True, leaders={"crank": 1.0},
        ),
        LooseJoint("elbow", "test", "revolute", "bar", "arm", (Step("tx", 0.7), Step("rx", 0.5)), motion="ry"),  # noqa: E501
    ]  # fmt: skip
    loop = LooseLoop(
        "bars",
        "test",
        "bar",
        (Step("tx", 0.7),),
        "right",
        (Step("tx", 0.4),),
        "point",
        ("rod", "rear"),
        (0.0, 0.0),
    )
    return built("parallelogram", joints, loop, solved)


def slider_crank(solved: bool) -> Robot:
    """A crank r, a rod l and a slider: formulas with atan2 and sqrt.

    The loop drifts (Ġ is not zero).
    """
    r, length = 0.3, 0.8
    height = f"sqrt({length**2} - {r**2}*sin(crank)*sin(crank))"
    joints = [
        LooseJoint("turn", "test", "revolute", "base", "frame", (Step("ry", 0.3),)),
        LooseJoint("crank", "test", "revolute", "frame", "wheel", (Step("rx", RIGHT),)),
        LooseJoint(
            "rod", "test", "revolute", "wheel", "stick", (Step("tx", r),), passive=True,
            formula=f"-crank - atan2({r}*sin(crank), {height})",
        ),
        LooseJoint(
            "slide", "test", "prismatic", "frame", "block", (Step("rx", RIGHT),), "tx", passive=True,  # noqa: E501
            formula=f"{r}*cos(crank) + {height}",
        ),
    ]  # fmt: skip
    loop = LooseLoop(
        "pin",
        "test",
        "stick",
        (Step("tx", length),),
        "block",
        (),
        "point",
        ("rod", "slide"),
        (0.0, r + length),
    )
    return built("slider-crank", joints, loop, solved, base=(Step("rz", 0.4), Step("tx", 0.2)))


def parallel_arm(solved: bool) -> Robot:
    """Two parallelograms in a row out of the plane, closed frame on frame: a loop in space."""
    joints = [
        LooseJoint("lift", "test", "prismatic", "base", "carriage", motion="tz"),
        LooseJoint("tilt", "test", "revolute", "carriage", "upper", (Step("ry", 0.4), Step("rx", 0.7))),  # noqa: E501
        LooseJoint("level", "test", "revolute", "upper", "plate", (Step("tx", 0.5),), passive=True, formula="-tilt"),  # noqa: E501
        LooseJoint(
            "second", "test", "revolute", "carriage", "lower",
            (Step("ry", 0.4), Step("rx", 0.7), Step("ty", -0.2)), passive=True, formula="tilt",
        ),
        LooseJoint("low", "test", "revolute", "lower", "foot", (Step("tx", 0.5),), passive=True, formula="-tilt"),  # noqa: E501
    ]  # fmt: skip
    loop = LooseLoop(
        "plate",
        "test",
        "plate",
        (Step("ty", -0.2),),
        "foot",
        (),
        "frame",
        ("level", "second", "low"),
        (0.0,) * 3,
    )
    return built("parallel arm", joints, loop, solved)


MAKERS = {
    "parallelogram": parallelogram,
    "slider-crank": slider_crank,
    "parallel arm": parallel_arm,
}


@cache
def pair(name: str) -> tuple[Robot, Robot]:
    """The same robot given by functions and left to be solved."""
    return MAKERS[name](False), MAKERS[name](True)


def states(robot: Robot, *batch: int) -> list[np.ndarray]:
    rng = np.random.default_rng(32)
    return [0.6 * rng.uniform(-1, 1, (*batch, robot.n)), *rng.normal(size=(2, *batch, robot.n))]


@pytest.mark.parametrize("name", MAKERS)
def test_the_robots_are_what_they_should_be(name: str) -> None:
    explicit, solved = pair(name)
    assert not explicit.implicit_loops
    assert solved.implicit_loops
    assert explicit.n == solved.n
    check_loops(explicit)
    check_loops(solved)


@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.parametrize(
    ("what", "number"),
    [
        ("inverse_dynamics", 3),
        ("gravity_torque", 1),
        ("inertia_matrix", 1),
        ("coriolis_matrix", 2),
        ("forward_dynamics", 3),
        ("regressor", 3),
        ("energy", 2),
        ("energy_regressor", 2),
        ("forward_kinematics", 1),
        ("jacobian", 1),
    ],
)
def test_solved_loops_equal_functions(name: str, what: str, number: int) -> None:
    explicit, solved = pair(name)
    arrays = states(explicit, 2, 4)[:number]
    ours, theirs = (getattr(md, what)(robot, *arrays) for robot in (solved, explicit))
    assert relative_error(np.stack(ours), np.stack(theirs)) < PRECISE
    if what in ("inverse_dynamics", "inertia_matrix", "forward_dynamics", "energy"):
        values = 1.1 * explicit.parameters
        ours, theirs = (
            getattr(md, what)(robot, *arrays, parameters=values) for robot in (solved, explicit)
        )
        assert relative_error(np.stack(ours), np.stack(theirs)) < PRECISE


@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.parametrize("solved", [False, True])
def test_laws_hold_for_loops(name: str, solved: bool) -> None:
    robot = pair(name)[solved]
    q, dq, ddq = states(robot, 5)
    tau = md.inverse_dynamics(robot, q, dq, ddq)
    assert relative_error(md.regressor(robot, q, dq, ddq) @ robot.parameters, tau) < 1e-12
    total = sum(md.energy(robot, q, dq))
    assert relative_error(md.energy_regressor(robot, q, dq) @ robot.parameters, total) < 1e-12
    assert relative_error(md.forward_dynamics(robot, q, dq, tau), ddq) < 1e-9
    bare = robot.with_drives(friction=())
    M, C = md.inertia_matrix(bare, q), md.coriolis_matrix(bare, q, dq)
    assert np.array_equal(M, np.swapaxes(M, -1, -2))
    parts = (M @ ddq[..., None] + C @ dq[..., None])[..., 0] + md.gravity_torque(bare, q)
    assert relative_error(parts, md.inverse_dynamics(bare, q, dq, ddq)) < PRECISE
    step = 1e-5  # central differences: errors of 1e-10
    rate = (md.inertia_matrix(bare, q + step * dq) - md.inertia_matrix(bare, q - step * dq)) / (
        2 * step
    )
    assert relative_error(rate, C + np.swapaxes(C, -1, -2), scale=float(np.abs(M).max())) < 1e-8


@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.parametrize("solved", [False, True])
def test_energy_grows_by_the_power_of_the_torques(name: str, solved: bool) -> None:
    robot = pair(name)[solved].with_drives(friction=())
    q, dq, ddq = states(robot, 5)
    step = 1e-5
    ahead, behind = (sum(md.energy(robot, q + h * dq, dq + h * ddq)) for h in (step, -step))
    tau = md.inverse_dynamics(robot, q, dq, ddq)
    assert relative_error((ahead - behind) / (2 * step), (tau * dq).sum(axis=-1)) < 1e-7


def test_lagrange_equations_of_the_slider_crank() -> None:
    """d/dt dL/ddq - dL/dq by central differences of the energies alone."""
    robot = slider_crank(False).with_drives(friction=())
    q, dq, ddq = (part[0] for part in states(robot, 1))

    def momentum(t: float) -> np.ndarray:
        at, speed = q + t * dq + 0.5 * t * t * ddq, dq + t * ddq
        return (
            np.array(
                [
                    md.energy(robot, at, speed + e)[0] - md.energy(robot, at, speed - e)[0]
                    for e in np.eye(robot.n)
                ]
            )
            / 2.0
        )

    def lagrangian(at: np.ndarray) -> float:
        kinetic, potential = md.energy(robot, at, dq)
        return float(kinetic - potential)

    step = 1e-5
    slope = np.array(
        [lagrangian(q + step * e) - lagrangian(q - step * e) for e in np.eye(robot.n)]
    ) / (2 * step)
    tau = (momentum(step) - momentum(-step)) / (2 * step) - slope
    assert relative_error(md.inverse_dynamics(robot, q, dq, ddq), tau) < 1e-7


def test_rates_of_a_formula_are_its_derivatives() -> None:
    robot = slider_crank(False)
    q, dq, ddq = states(robot, 6)
    for link in ("stick", "block"):
        function = record(robot, "forward_kinematics", link=link)
        rate = evaluate(jvp(function, ["q"]), q, dq)
        speed = np.einsum("...ij,...j->...i", md.jacobian(robot, q, link), dq)
        assert relative_error(speed[:, 3:], rate[:, :3, 3]) < 1e-12
    # a block of unit mass alone feels its own acceleration: Ġ is in it
    values = np.zeros(len(robot.layout))
    values[robot.layout.links[3].start + 9] = 1.0
    light = robot.with_parameters(values).with_gravity((0, 0, 0))
    J = md.jacobian(robot, q, "block")[:, 3:]
    step = 1e-5
    ahead, behind = (md.jacobian(robot, q + h * dq, "block")[:, 3:] for h in (step, -step))
    acceleration = np.einsum("nij,nj->ni", J, ddq) + np.einsum(
        "nij,nj->ni", (ahead - behind) / (2 * step), dq
    )
    expected = np.einsum("nij,ni->nj", J, acceleration)
    assert relative_error(md.inverse_dynamics(light, q, dq, ddq), expected) < 1e-8


# ---------------------------------------------------------------- edges


def test_shapes_nan_and_out() -> None:
    robot = slider_crank(True)
    q, dq, ddq = states(robot, 6)
    clean = md.inverse_dynamics(robot, q, dq, ddq)
    spoilt = q.copy()
    spoilt[2, 0] = np.nan
    result = md.inverse_dynamics(robot, spoilt, dq, ddq)
    assert np.isnan(result[2]).all()
    assert relative_error(np.delete(result, 2, axis=0), np.delete(clean, 2, axis=0)) < 1e-9
    assert np.isnan(md.inertia_matrix(robot, np.full((3, 2), np.nan))).all()
    assert md.inertia_matrix(robot, np.zeros((0, 2))).shape == (0, 2, 2)
    assert md.energy(robot, q[0], dq)[0].shape == (6,)
    assert md.inverse_dynamics(robot, q[0], dq[0], ddq[0]).shape == (2,)
    out = np.zeros((6, 2))
    assert md.inverse_dynamics(robot, q, dq, ddq, out=out) is out
    assert relative_error(out, clean) < 1e-12
    with pytest.raises(ShapeError, match="out"):
        md.inverse_dynamics(robot, q, dq, ddq, out=np.zeros((5, 2)))
    with pytest.raises(ShapeError, match=r"\.\.\., 2\)"):
        md.inverse_dynamics(robot, np.zeros((6, 3)), dq, ddq)
    with pytest.raises(ShapeError, match="broadcast"):
        md.inverse_dynamics(robot, q, dq[:4], ddq)
    with pytest.raises(ShapeError, match="real"):
        md.gravity_torque(robot, q + 0j)
    with pytest.raises(ShapeError, match="not an array"):
        md.gravity_torque(robot, [[1.0, 2.0], [3.0]])
    for wrong in (np.zeros((6, 2), dtype=np.float32), np.zeros((6, 2)).tolist(), "out"):
        with pytest.raises(ShapeError, match="out"):
            md.inverse_dynamics(robot, q, dq, ddq, out=wrong)  # type: ignore[arg-type]
    out.setflags(write=False)
    with pytest.raises(ShapeError, match="read-only"):
        md.inverse_dynamics(robot, q, dq, ddq, out=out)
    assert [part.shape for part in md.energy(robot, q[0], dq[0])] == [(), ()]
    rates = dq.copy()
    rates[1, 0] = np.inf  # no warning: NaN passes through as in kernels
    assert np.isnan(md.coriolis_matrix(robot, q, rates)[1]).any()


def test_out_of_reach_is_told() -> None:
    links = [LooseLink(name, "test", random_body(np.random.default_rng(1))) for name in "abcd"]
    joints = [
        LooseJoint("crank", "test", "revolute", "a", "b"),
        LooseJoint("rod", "test", "revolute", "b", "c", (Step("tx", 0.8),), passive=True),
        LooseJoint("rocker", "test", "revolute", "a", "d", (Step("tx", 0.9),), passive=True),
    ]
    ends = (Step("tx", 0.4),), (Step("tx", 0.4),)
    loop = LooseLoop(
        "bar", "test", "c", ends[0], "d", ends[1], "point", ("rod", "rocker"), (-0.5, 2.0)
    )
    robot = assemble("short", links, joints, loops=[loop])
    with pytest.raises(LoopError, match="bar"):
        md.gravity_torque(robot, np.array([3.0]))


def test_a_solved_loop_is_identified() -> None:
    robot = parallelogram(True)
    rng = np.random.default_rng(5)
    t = np.arange(600) / 100
    rates = 2 * math.pi * 0.3 * np.arange(1, 4)
    phase = t[:, None, None] * rates + rng.uniform(0, 6, size=(robot.n, 3))
    size = 0.2 * rng.normal(size=(robot.n, 3))
    q, dq = (size * np.sin(phase)).sum(-1), (size * rates * np.cos(phase)).sum(-1)
    ddq = (-size * rates**2 * np.sin(phase)).sum(-1)
    clean = md.inverse_dynamics(robot, q, dq, ddq)
    recording = md.Recording(
        t, q, clean + 0.02 * rng.normal(size=clean.shape), dq, ddq, robot.joint_names
    )
    estimate = md.identify(robot, recording, prior=False, sign_width=0.0, **OWN)
    assert md.validate(estimate, recording).relative_error < 0.01
    other = md.Recording(t, q, clean, dq, ddq, robot.joint_names)
    assert md.validate(estimate, other).relative_error < 0.002
    # robust weights are not known to such loops: weighted least squares replace them, and say so
    assert estimate.method == "wls"
    named = {method: md.identify(robot, recording, method, **OWN) for method in ("irls", "wls")}
    for method, fitted in named.items():
        codes = {notice.code for notice in fitted.notices}
        assert fitted.method == "wls"
        assert ("identify.no_robust_weights" in codes) == (method == "irls")
