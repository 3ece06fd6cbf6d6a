"""Torques and inertia matrices of the papers' robots, from golden numbers computed independently of
this library.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import minidyn as md
from minidyn.model.geometry import Step, matrix_of
from minidyn.model.parameters import from_lumeng16
from minidyn.model.robot import Robot

HERE = Path(__file__).parent
LIN: dict[str, Any] = json.loads((HERE / "lin.json").read_text())
PUMA: dict[str, Any] = json.loads((HERE / "gautier.json").read_text())["gautier_puma"]
DIGITS = 2e-9  # the golden numbers of Lin's robots have ten to twelve digits


def lin_robot(entry: dict[str, Any]) -> Robot:
    bodies = [
        {"mass": mass, "com": com, "inertia": inertia}
        for mass, com, inertia in zip(entry["mass"], entry["com"], entry["I_com"])
    ]
    table = [entry[key] for key in ("beta", "b", "d_null", "theta_null")]
    return Robot.from_mdh(entry["types"], *table, gravity=entry["gravity"], parameters=bodies)


@pytest.mark.parametrize("entry", LIN["robots"], ids=lambda entry: entry["name"])
def test_robots_of_the_lin_papers(entry: dict[str, Any]) -> None:
    robot = lin_robot(entry)
    q, dq, ddq = (np.array(entry[key], dtype=float) for key in ("q", "qd", "qdd"))
    np.testing.assert_allclose(
        md.inverse_dynamics(robot, q, dq, ddq), entry["tau_pinocchio"], atol=DIGITS
    )
    np.testing.assert_allclose(md.gravity_torque(robot, q), entry["gravity_torque"], atol=DIGITS)
    np.testing.assert_allclose(md.inertia_matrix(robot, q), entry["H_pinocchio"], atol=DIGITS)
    bias = md.inverse_dynamics(robot, q, dq, 0.0 * ddq)
    np.testing.assert_allclose(
        md.coriolis_matrix(robot, q, dq) @ dq, bias - entry["gravity_torque"], atol=DIGITS
    )


def test_stanford_arm_at_configuration_62_of_lin1992() -> None:
    robot = md.load("stanford")
    q = np.array([0.7, 0.7, 0.0, 0.7, 0.7, 0.7])
    one = np.ones(6)
    np.testing.assert_allclose(md.inertia_matrix(robot, q), LIN["stanford_H_at_q0"], atol=DIGITS)
    np.testing.assert_allclose(
        md.gravity_torque(robot, q), LIN["stanford_gravity_at_q0_g9.81"], atol=DIGITS
    )
    np.testing.assert_allclose(
        md.inverse_dynamics(robot, q, one, one), LIN["stanford_tau_q0_qd1_qdd1"], atol=DIGITS
    )


def test_puma_of_gautier1991() -> None:
    geometry, point = PUMA["geometry"], PUMA["torque_point"]
    robot = Robot.from_mdh(
        "RRRRRR",
        np.radians(geometry["alpha_deg"]),
        geometry["d"],
        geometry["r"],
        gravity=geometry["gravity"],
        rotor_inertia=True,
    )
    robot = robot.with_parameters([point["std"].get(name, 0.0) for name in robot.parameter_names])
    q, dq, ddq = point["q"], point["qd"], point["qdd"]
    np.testing.assert_allclose(md.inverse_dynamics(robot, q, dq, ddq), point["tau"], rtol=1e-12)
    np.testing.assert_allclose(
        md.regressor(robot, q, dq, ddq) @ robot.parameters, point["tau"], rtol=1e-11
    )
    np.testing.assert_allclose(sum(md.energy(robot, q, dq)), point["H"], rtol=1e-12)


def test_two_joints_of_lumeng1993_eq_61() -> None:
    """Masses at the ends of two rods in a vertical plane.

    Columns m2, m3, m3 px, m3 px², Izz, ERRATA F.
    """
    l1, l2, m2, m3, px, izz = 1.0, 0.8, 2.0, 1.5, 0.25, 0.05
    bodies = [
        {"mass": m2, "com": (l1, 0, 0)},
        {"mass": m3, "com": (l2 + px, 0, 0), "inertia": np.diag([0.0, 0.0, izz])},
    ]
    robot = Robot.from_mdh("RR", a=[0, l1], gravity=(0, -9.81, 0), parameters=bodies)
    tau = md.inverse_dynamics(robot, [0.3, -0.7], [0.5, 1.1], [-0.4, 0.8])
    np.testing.assert_allclose(tau, [48.65788650781028, 14.17707186075101], rtol=1e-13)


RRP_LOAD = [
    # m, m px, m py, m pz, m px², m py², m pz², m px py, m px pz, m py pz, Ixx, Iyy, Izz, Ixy, Ixz,
    # Iyz (+∫xy dm)
    [2.0, 0.2, 0.04, -0.1, 0.02, 0.0008, 0.005, 0.004, -0.01, -0.002, 0.02, 0.03, 0.04, 0, 0, 0],
    [1.5, 0.3, -0.045, 0.06, 0.06, 0.00135, 0.0024, -0.009, 0.012, -0.0018, 0.03, 0.04, 0.05, -0.002, 0.001, -0.003],  # noqa: E501
    [1.0, 0.0, 0.05, 0.1, 0.0, 0.0025, 0.01, 0.0, 0.0, 0.005, 0.01, 0.011, 0.012, 0, 0, 0],
    [0.7, 0.035, 0.042, 0.049, 0.00175, 0.00252, 0.00343, 0.0021, 0.00245, 0.00294, 0.01, 0.012, 0.009, 0.001, -0.002,  # noqa: E501
     -0.0005],
]  # fmt: skip


def test_rrp_arm_with_a_load_in_the_sixteen_parameters_of_lumeng1993() -> None:
    bodies = [from_lumeng16(row) for row in RRP_LOAD]
    alpha, a, d = [0.0, -math.pi / 2, math.pi / 2], [0.0, 0.3, 0.0], [0.4, 0.1, 0.2]
    arm = Robot.from_mdh("RRP", alpha, a, d, parameters=np.concatenate(bodies[:3]))
    robot = arm.with_load(matrix_of((Step("tx", 0.05), Step("tz", 0.15))), bodies[3])
    q, dq, ddq = [0.3, -0.5, 0.25], [0.7, -0.4, 0.3], [1.0, -2.0, 0.5]
    expected = [0.8773107161087761, -0.21614893882826625, 15.607487717418202]
    np.testing.assert_allclose(md.inverse_dynamics(robot, q, dq, ddq), expected, rtol=1e-12)
    np.testing.assert_allclose(
        md.regressor(robot, q, dq, ddq) @ robot.parameters, expected, rtol=1e-12
    )


def puma4(m4: float) -> Robot:
    com = [(0, 0, 0), (0.2159, 0, 0.0627), (0.01015, 0.2159, 0), (0.2, 0, 0)]
    bodies = [{"mass": mass, "com": c} for mass, c in zip((2.0, 2.0, 2.0, m4), com)]
    alpha, a, d = np.radians([0, -90, 0, -90]), [0, 0, 0.4318, 0.0203], [0, 0, 0.1254, 0.4318]
    return Robot.from_mdh("RRRR", alpha, a, d, parameters=bodies)


def test_puma_with_four_joints_of_lumeng1993() -> None:
    q, dq, ddq = [0.1, -0.4, 0.7, 1.2], [0.5, -0.3, 0.8, -1.0], [1.0, 2.0, -1.0, 0.5]
    robot = puma4(1.0)
    tau = [0.3206287237372263, -13.097783629600999, 1.5769096924777048, 0.5446540239662347]
    np.testing.assert_allclose(md.inverse_dynamics(robot, q, dq, ddq), tau, rtol=1e-12)
    np.testing.assert_allclose(md.inverse_dynamics(md.load("puma4"), q, dq, ddq), tau, rtol=1e-12)
    unit = [0.12781505256462056, -3.114822757541128, 0.5469618317684521, 0.5446540239662347]
    more = md.inverse_dynamics(puma4(2.0), q, dq, ddq) - md.inverse_dynamics(robot, q, dq, ddq)
    np.testing.assert_allclose(more, unit, rtol=1e-12)
    H = [
        [0.4869479420150168, -0.01681437683458756, 0.025642395850507545, -0.036862600514048285],
        [-0.01681437683458756, 0.5352938213897662, 0.08560197352264592, 0.0286372369445373],
        [0.025642395850507545, 0.08560197352264592, 0.2884894656555257, 0.08049089546412967],
        [-0.036862600514048285, 0.0286372369445373, 0.08049089546412967, 0.04000000000000001],
    ]
    np.testing.assert_allclose(md.inertia_matrix(robot, q), H, rtol=1e-12)
