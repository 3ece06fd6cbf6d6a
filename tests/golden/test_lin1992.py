"""Lin1992's own experiment.

The Stanford arm identified by moving one joint at a time, its tables and conditions.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import minidyn as md
from minidyn.excitation.one_joint_equations import Equations
from minidyn.model.robot import Robot

Array = NDArray[np.float64]
GOLDEN: dict[str, Any] = json.loads((Path(__file__).parent / "lin.json").read_text())
ENTRY = GOLDEN["robots"][0]
HOME = np.array([0.7, 0.7, 0.0, 0.7, 0.7, 0.7])  # eq. (62)
LATER = {2: (-0.7, -0.6), 3: (-0.7,), 4: (-0.7, -0.6), 5: (-0.7, -0.6), 6: (-0.7, -0.6)}


def stanford() -> Robot:
    bodies = [
        {"mass": m, "com": c, "inertia": J}
        for m, c, J in zip(ENTRY["mass"], ENTRY["com"], ENTRY["I_com"])
    ]
    table = (ENTRY[key] for key in ("beta", "b", "d_null", "theta_null"))
    return Robot.from_mdh(
        ENTRY["types"], *table, gravity=ENTRY["gravity"], parameters=bodies, name="stanford"
    )


def step_response() -> tuple[Array, Array, Array, Array]:
    """t, q, dq, ddq of the moving joint: eq. (64)-(66) at the paper's three instants."""
    t = np.array([0.2, 0.3, 0.4])
    q, dq, ddq = md.trajectory.critically_damped([0.7], [0.7 + np.pi / 6], 10.0)(t)
    return t, q[:, 0], dq[:, 0], ddq[:, 0]


def places(joint: int) -> list[Array]:
    """Where the paper locks the joints to read the torque of a joint (from 1): eq. (63)."""
    found = [HOME]
    for value in LATER[joint]:
        place = HOME.copy()
        place[(2 if joint == 3 else joint) - 1] = value
        found.append(place)
    return found


def run(robot: Robot, mover: int, place: Array) -> md.Recording:
    t, q1, dq1, ddq1 = step_response()
    q, dq, ddq = np.tile(place, (len(t), 1)), np.zeros((len(t), 6)), np.zeros((len(t), 6))
    q[:, mover], dq[:, mover], ddq[:, mover] = q1, dq1, ddq1
    return md.Recording(
        t, q, md.inverse_dynamics(robot, q, dq, ddq), dq=dq, ddq=ddq, joint_names=robot.joint_names
    )


@pytest.mark.parametrize("label", GOLDEN["table1"])
def test_table_1_is_what_the_equations_hold(label: str) -> None:
    """u_1 in the frame of joint j is read from the coefficients of U13, U23, U33 (or kx, ky of a
    sliding joint).
    """
    configuration, joint = int(label[6]), int(label[-2])
    equations = Equations.of(stanford(), "test")
    place = places(joint)[configuration - 1]
    unit, none = np.ones(1), np.zeros(1)
    (row,) = equations.own_rows(0, joint - 1, place, none, none, unit)
    found = dict(zip(equations.names(joint - 1), row))
    if joint == 3:
        u = [found["k3y"], -found["k3x"]]
        np.testing.assert_allclose(u, GOLDEN["table1"][label][:2], atol=1e-9)
        (row,) = equations.own_rows(0, 2, place, none, unit, none)  # at unit speed: k3x holds ux uz
        assert row[equations.names(2).index("k3x")] == pytest.approx(
            u[0] * GOLDEN["table1"][label][2], abs=1e-9
        )
    else:
        u = [found[f"U13_{joint}"], found[f"U23_{joint}"], found[f"U33_{joint}"]]
        np.testing.assert_allclose(u, GOLDEN["table1"][label], atol=1e-9)


@pytest.mark.parametrize("joint", [6, 5, 4, 3, 2])
def test_conditions_of_the_papers_places(joint: int) -> None:
    """The golden conditions: three instants at each place, U33_2 left to a motion of joint 2."""
    equations = Equations.of(stanford(), "test")
    _, q, dq, ddq = step_response()
    A = np.concatenate(
        [equations.own_rows(0, joint - 1, place, q, dq, ddq) for place in places(joint)]
    )
    if joint == 2:
        A = np.delete(A, equations.names(1).index("U33_2"), axis=1)
    assert np.linalg.cond(A) == pytest.approx(
        GOLDEN["identification_cond"][f"cond_joint{joint}"], rel=1e-8
    )


def test_table_2() -> None:
    """Joint 1 at the paper's places, then joint 2 alone for U33_2; nothing else moves."""
    robot = stanford()
    everywhere = {tuple(place): place for joint in LATER for place in places(joint)}
    runs = [run(robot, 0, place) for place in everywhere.values()]
    with pytest.raises(md.MinidynError, match="do not show U33_2 of joint 'joint2'"):
        md.identify_one_joint(robot, runs)
    found = md.identify_one_joint(robot.with_parameters(None), [*runs, run(robot, 1, HOME)])
    assert len(found.names) == GOLDEN["n_minimal_parameters_stanford"]
    for number, golden in GOLDEN["table2_direct_1992"].items():
        names = {f"U11_22_{number}": "U11_22"} | {
            f"{key}_{number}": key for key in ("U33", "U12", "U13", "U23")
        }
        wanted = {name: golden[key] for name, key in names.items()} | {f"m{number}": golden["mhat"]}
        wanted |= {f"k{number}{axis}": value for axis, value in zip("xyz", golden["k"])}
        body = found.bodies[int(number) - 1]
        assert body.values == pytest.approx({name: wanted[name] for name in body.values}, abs=1e-9)
    assert {name for name in found.names if name.endswith("_1") or name.startswith("k1")} == {
        "U33_1"
    }
    # printed to four decimals; entries of 1e-5 are noise around 0
    printed = {
        "m3": 6.47,
        "k2y": 2.74,
        "k3z": -2.74,
        "U11_22_2": 4.385,
        "U33_2": 4.4053,
        "U33_1": 1.0144,
    }
    assert {name: found.values[name] for name in printed} == pytest.approx(printed, abs=2e-4)


def test_the_plan_is_better_than_the_papers_choice() -> None:
    robot = stanford()
    plan = md.one_joint_plan(robot, friction="own", rotor_inertia=None)
    papers = {
        joint: GOLDEN["identification_cond"][f"cond_joint{joint}"] for joint in (2, 3, 4, 5, 6)
    }
    assert {system.joint for system in plan.systems} == set(robot.joint_names)
    for system in plan.systems:
        assert system.condition < 50
        joint = int(system.joint[-1])
        assert joint == 1 or system.condition < papers[joint]
    assert len(plan.steps) < len({tuple(place) for joint in LATER for place in places(joint)})
    shown = {name: step.joint for step in plan.steps for name in step.yields}
    assert shown == {
        name: {"U33_2": "joint2", "m3": "joint3"}.get(name, "joint1") for name in plan.base.names
    }
    assert [step.rules for step in plan.steps if step.joint == "joint3"] == [("1",)]
    assert plan.steps[0].rules == ("2.1", "2.2", "3.1")
