"""LuMeng1993: the 2-DOF example in symbols and numbers, an RRP arm with a load, and the filtered
identity's error.

The numbers were computed independently of this library; errata of the printed example are named
where they matter.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

import minidyn as md
from minidyn.dynamics.formulas import regressor_polynomials
from minidyn.model.geometry import Step
from minidyn.model.parameters import from_body
from minidyn.model.robot import Robot

FORMS = ("newton_euler", "lagrange")
Q, DQ, DDQ = np.array([0.3, -0.7]), np.array([0.5, 1.1]), np.array([-0.4, 0.8])
TWO_DOF_Y = [
    [8.971850958322195, 17.64685192527209, 11.163751208687371, 0.4, 0.4],
    [0.0, 7.110893643556068, 9.208617054445085, 0.4, 0.4],
]
TWO_DOF_TAU = [48.65788650781028, 14.17707186075101]

# eq. (61), (63)-(65) with "2 l1 l2" read as 2 l1 l2 c2, "q2" as dq2, "2 l2² ddq2" as 2 l2 ddq2 and
# l1 (l1 ddq1 + c1 g)
TWO_DOF_FORMULAS = [
    [
        "l1² ddq1 + l1 g c1",
        "l1² ddq1 + l2² ddq1 + 2 l1 l2 c2 ddq1 + l2² ddq2 + l1 l2 c2 ddq2 - 2 l1 l2 s2 dq1 dq2 - "
        "l1 l2 s2 dq2²"
        " + l1 g c1 + l2 g c12",
        "2 l2 ddq1 + 2 l1 c2 ddq1 + 2 l2 ddq2 + l1 c2 ddq2 - 2 l1 s2 dq1 dq2 - l1 s2 dq2² + g c12",
        "ddq1 + ddq2",
        "ddq1 + ddq2",
    ],
    [
        "0",
        "l2² ddq1 + l1 l2 c2 ddq1 + l2² ddq2 + l1 l2 s2 dq1² + l2 g c12",
        "2 l2 ddq1 + l1 c2 ddq1 + 2 l2 ddq2 + l1 s2 dq1² + g c12",
        "ddq1 + ddq2",
        "ddq1 + ddq2",
    ],
]

# three rows of sixteen columns for each link
RRP_TEXT = """
0 0 0 0 1 1 0 0 0 0 0 0 1 0 0 0
0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0
0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0
0.1 0.55593247536 0.2672434898 0.2 0.534539277188 0.465460722812 1 1.14404027609 1.09926428711 -1.6784570376
0.465460722812 0.534539277188 0 1.14404027609 1.09926428711 -1.6784570376
0 -8.72750304018 -4.48640164092 0 -2.20616039128 -1.79383960872 0 0.264748129875 -0.479425538604 0.87758256189
0.206160391278 -0.206160391278 -2 0.264748129875 -0.479425538604 0.87758256189
0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0
0.102063298607 -0.135594555692 1.40563825108 0.248207676499 0.534539277188 1 0.465460722812 1.09926428711
-1.14404027609 1.6784570376 0.465460722812 0 0.534539277188 1.09926428711 -1.14404027609 1.6784570376
1.54762821765 -9.34663969862 -0.394912152851 2.63194599307 -2.20616039128 0 -1.79383960872 -0.479425538604
-0.264748129875 -0.87758256189 0.206160391278 -2 -0.206160391278 -0.479425538604 -0.264748129875 -0.87758256189
9.1048213694 2.20616039128 0.479425538604 -0.272625935062 0 0 0 0 0 0 0 0 0 0 0 0
0.135743634682 -0.253746669388 1.71237002107 0.330643879538 0.534539277188 1 0.465460722812 1.09926428711
-1.14404027609 1.6784570376 0.465460722812 0 0.534539277188 1.09926428711 -1.14404027609 1.6784570376
1.42722572853 -9.60696795723 -0.550520814064 2.08055670396 -2.20616039128 0 -1.79383960872 -0.479425538604
-0.264748129875 -0.87758256189 0.206160391278 -2 -0.206160391278 -0.479425538604 -0.264748129875 -0.87758256189
9.17423549871 2.20616039128 0.479425538604 -0.272625935062 0 0 0 0 0 0 0 0 0 0 0 0
"""  # noqa: E501
RRP_Y = np.array(RRP_TEXT.split(), dtype=float).reshape(4, 3, 16)
RRP_TAU = [0.8773107161087761, -0.21614893882826625, 15.607487717418202]


@pytest.fixture(scope="module")
def two_dof() -> Robot:
    """Fig. 2: point masses at the origins of their frames, a bar at the end of link 2 as load."""
    arm = Robot.from_mdh("RR", a=[0.0, 1.0], gravity=[0, -9.81, 0])
    values = np.zeros(20)
    values[[9, 19]] = 2.0
    bar = {"mass": 1.5, "com": [0.25, 0, 0], "inertia": np.diag([0, 0.05, 0.05])}
    robot = arm.with_parameters(values).with_load(None, bar)
    lengths = ((), (Step("tx", 1.0, "l1"),), (Step("tx", 0.8, "l2"),))
    joints = tuple(replace(joint, before=before) for joint, before in zip(robot.joints, lengths))
    return replace(robot, joints=joints)


def test_two_dof_needs_five_parameters(two_dof: Robot) -> None:
    """Eq. (62), (65): what plays no role drops out by itself."""
    assert md.papers.lumeng16(two_dof).needed == ("m2", "m3", "mpx3", "mpxpx3", "Izz3")


@pytest.mark.parametrize("form", FORMS)
def test_two_dof_numbers(two_dof: Robot, form: str) -> None:
    theta = md.papers.lumeng16(two_dof)
    Y = md.regressor(
        two_dof, Q, DQ, DDQ, parametrization="lumeng16", form=form, columns=theta.needed
    )
    np.testing.assert_allclose(Y, TWO_DOF_Y, atol=1e-13)
    values = theta.parameters[[theta.names.index(name) for name in theta.needed]]
    np.testing.assert_allclose(values, [2.0, 1.5, 0.375, 0.09375, 0.05], atol=1e-15)
    np.testing.assert_allclose(Y @ values, TWO_DOF_TAU, atol=1e-12)
    np.testing.assert_allclose(md.inverse_dynamics(two_dof, Q, DQ, DDQ), TWO_DOF_TAU, atol=1e-12)


@pytest.mark.parametrize("form", FORMS)
def test_two_dof_formulas_as_printed(two_dof: Robot, form: str) -> None:
    columns = md.papers.lumeng16(two_dof).needed
    found = regressor_polynomials(two_dof, parametrization="lumeng16", form=form, columns=columns)
    assert [[str(entry) for entry in row] for row in found] == TWO_DOF_FORMULAS


def test_beta_of_the_iterative_example(two_dof: Robot) -> None:
    """Section IV-C: the acceleration of frame 3 is (β1, β2).

    The moment of unit m3 about joint 2 is l2 β2.
    """
    c, s = math.cos(Q[1]), math.sin(Q[1])
    c12, s12, total = math.cos(Q.sum()), math.sin(Q.sum()), DQ.sum() ** 2
    beta1 = s * DDQ[0] - c * DQ[0] ** 2 + s12 * 9.81 - 0.8 * total
    beta2 = c * DDQ[0] + s * DQ[0] ** 2 + c12 * 9.81 + 0.8 * DDQ.sum()
    assert (beta1, beta2) == pytest.approx((-5.801717409973907, 8.888617054445085), abs=1e-13)
    Y = md.regressor(two_dof, Q, DQ, DDQ, parametrization="lumeng16", columns=["m3", "mpx3"])
    assert Y[1, 0] == pytest.approx(0.8 * beta2, abs=1e-13)
    assert Y[0, 0] == pytest.approx(s * beta1 + c * beta2 + 0.8 * beta2, abs=1e-13)
    assert Y[1, 1] == pytest.approx(
        0.8 * DDQ.sum() + beta2, abs=1e-13
    )  # Π2's entry (3, 4), corrected


@pytest.mark.parametrize("form", FORMS)
def test_rrp_arm_with_a_load(form: str) -> None:
    bodies = [
        (2.0, [0.1, 0.02, -0.05], np.diag([0.02, 0.03, 0.04])),
        (
            1.5,
            [0.2, -0.03, 0.04],
            np.array([[0.03, 0.002, -0.001], [0.002, 0.04, 0.003], [-0.001, 0.003, 0.05]]),
        ),
        (1.0, [0.0, 0.05, 0.1], np.diag([0.01, 0.011, 0.012])),
        (
            0.7,
            [0.05, 0.06, 0.07],
            np.array([[0.01, -0.001, 0.002], [-0.001, 0.012, 0.0005], [0.002, 0.0005, 0.009]]),
        ),
    ]
    tens = [from_body(*body) for body in bodies]
    right = math.pi / 2
    arm = Robot.from_mdh(
        "RRP", [0, -right, right], [0, 0.3, 0], [0.4, 0.1, 0.2], parameters=np.concatenate(tens[:3])
    )
    placement = np.eye(4)
    placement[:3, 3] = 0.05, 0.0, 0.15
    robot = arm.with_load(placement, tens[3])
    q, dq, ddq = [0.3, -0.5, 0.25], [0.7, -0.4, 0.3], [1.0, -2.0, 0.5]
    Y = md.regressor(robot, q, dq, ddq, parametrization="lumeng16", form=form)
    for index, rows in enumerate(RRP_Y):
        np.testing.assert_allclose(
            Y[:, 16 * index : 16 * index + 16], rows, atol=1e-11, err_msg=f"link {index + 1}"
        )
    theta = md.papers.lumeng16(robot).parameters
    np.testing.assert_allclose(theta[:4], [2.0, 0.2, 0.04, -0.1], atol=1e-15)
    np.testing.assert_allclose(theta[29:32], [-0.002, 0.001, -0.003], atol=1e-15)  # Ixy = +∫xy dm
    np.testing.assert_allclose(Y @ theta, RRP_TAU, atol=1e-12)


def test_unknown_mass_of_the_case_study() -> None:
    """The column of m4 at the golden point, from the ten standard columns of link 4 and from the
    sixteen.
    """
    robot = md.load("puma4")
    q, dq, ddq = [0.1, -0.4, 0.7, 1.2], [0.5, -0.3, 0.8, -1.0], [1.0, 2.0, -1.0, 0.5]
    Y = md.regressor(
        robot, q, dq, ddq, parametrization="lumeng16", columns=["m4", "mpx4", "mpxpx4"]
    )
    column = Y @ [1.0, 0.2, 0.04]
    expected = [0.12781505256462056, -3.114822757541128, 0.5469618317684521, 0.5446540239662347]
    np.testing.assert_allclose(column, expected, atol=1e-12)


def test_filtered_identity_is_of_fourth_order(two_dof: Robot) -> None:
    """With a = 20 1/s over 0.5 s the golden error falls from 4.2e-7 (2 ms) to 2.6e-8 (1 ms).

    Ours falls as fast.
    """
    errors = []
    for dt in (0.002, 0.001):
        t = np.arange(0.0, 0.5 + dt / 2, dt)[:, None]
        w = np.array([5.0, 7.0])
        q, dq, ddq = np.sin(w * t), w * np.cos(w * t), -w * w * np.sin(w * t)
        tau = md.inverse_dynamics(two_dof, q, dq, ddq)
        recording = md.Recording(t[:, 0], q, tau, dq)
        Y, tau_f = md.filtered_regressor(two_dof, recording, 20 / (2 * math.pi))
        errors.append(np.abs(Y @ two_dof.parameters - tau_f).max() / np.abs(tau_f).max())
    assert errors[0] < 4.2e-7
    assert errors[0] / errors[1] == pytest.approx(16, rel=0.05)
