"""Lin1992: the Stanford arm identified by moving one joint at a time (section 4)."""

from __future__ import annotations

import numpy as np

from minidyn.app.casestudies.geometry import with_lengths
from minidyn.app.casestudies.study import Curve, Entry, Figure, Study, Table
from minidyn.arrays import Array
from minidyn.dynamics.functions import base_regressor, forward_kinematics, inverse_dynamics
from minidyn.formats.load import load
from minidyn.identification.estimators.one_joint import identify_one_joint
from minidyn.model.robot import Robot
from minidyn.recording.recording import Recording
from minidyn.simulation.trajectory import critically_damped

PAPER = (
    "S.-K. Lin, An identification method for estimating the inertia parameters of a manipulator, "
    "J. Robotic Systems 9(4), 1992"
)
_HOME = (0.7, 0.7, 0.0, 0.7, 0.7, 0.7)  # eq. (62)
_INSTANTS = (0.2, 0.3, 0.4)  # s, after eq. (66)
_TURNED = {
    2: 2,
    3: 2,
    4: 4,
    5: 5,
    6: 6,
}  # which joint is turned for composite body j: eq. (63) and below
# Table I as printed: configuration, frame, u_1
_TABLE_I = """
1 2 0.7648 -0.6442 0.
1 3 0.7648 0. 0.6442
1 4 0.5850 -0.4927 0.6442
1 5 -0.1159 0.8624 0.4927
1 6 0.2288 0.4515 -0.8624
2 2 0.7648 0.6442 0.
2 3 0.7648 0. -0.6442
2 4 0.5850 0.4927 0.6442
2 5 -0.8696 0.0324 0.4927
2 6 -0.4060 0.3022 -0.8624
3 2 0.8253 0.5646 0.
3 4 0.6313 0.4319 0.6442
3 5 -0.8620 0.1190 0.4927
3 6 -0.3738 0.3412 -0.8264
"""
# Table II as printed: constant, value
_TABLE_II = """
m3 6.4700
k2x -0.00001
k2y 2.7400
k3x 0.
k3y 0.
k3z -2.7400
k4x 0.0099
k4y 0.0058
k5x 0.
k5y -0.1149
k6x 0.
k6y 0.
U11_22_2 4.3850
U11_22_4 -0.0235
U11_22_5 0.0270
U11_22_6 0.
U33_1 1.0144
U33_2 4.4053
U33_4 0.0044
U33_5 0.0277
U33_6 0.0003
U12_2 0.00003
U12_4 -0.00005
U12_5 0.
U12_6 0.
U13_2 0.
U13_4 0.
U13_5 0.
U13_6 0.
U23_2 -0.00003
U23_4 0.
U23_5 0.
U23_6 0.
"""
_ERRATA = {
    "u_1(6) z, configuration 3": "should read -0.8624 (digits exchanged)",
    "u_1(5) y, configuration 3": "0.11906: should read 0.1191",
    "U11_22_2": "should read 4.3849",
    **dict.fromkeys(("k2x", "U12_2", "U23_2"), "noise of the paper's least squares around 0"),
}


def lin_1992(
    noise: float = 0.0,
    sigma: float = 10.0,
    turned: tuple[float, float] = (-0.7, -0.6),
    d2: float = 0.1529,
    d3: float = 0.6447,
    seed: int = 0,
) -> Study:
    """Return the case study of Lin1992.

    Args:
        noise: Standard deviation of measured torques, N m and N; the paper has none.
        sigma: Inverse of the time constant of the step response (64), 1/s.
        turned: Positions of the turned joint in the second and third configuration, rad.
        d2: Offset of link 2, m.
        d3: Offset of link 3, m.
        seed: Of the noise.

    Implements: Lin1992 section 4: eq. (62)-(66), Fig. 2, Tables I and II.
    """
    robot = _stanford(d2, d3)
    rng = np.random.default_rng(seed)
    runs = [_run(robot, 0, place, sigma, noise, rng) for place in _places(turned)]
    estimate = identify_one_joint(
        robot.with_parameters(None), [*runs, _run(robot, 1, _HOME, sigma, noise, rng)]
    )
    values = estimate.values
    second = [line.split() for line in _TABLE_II.split("\n") if line]
    entries = tuple(
        Entry(name, printed, values[name], _ERRATA.get(name, "")) for name, printed in second
    )
    tables = (
        Table(
            "Axis u_1 in the frames of the links",
            "Table I",
            tuple(_axes(robot, turned)),
            "Rows 2 and 3 belong to -0.7, then -0.6; the text has them the other way round.",
        ),
        Table("Identified constants of the composite bodies", "Table II", entries),
    )
    q, dq, ddq = np.random.default_rng(1).uniform(-1, 1, (3, 50, 6))
    true = inverse_dynamics(robot, q, dq, ddq)
    off = np.abs(base_regressor(robot, q, dq, ddq, base=estimate.base) @ estimate.beta - true).max(
        axis=0
    )
    size = np.abs(true).max(axis=0)
    t = np.linspace(0.0, 0.8, 201)
    moved = _step(t, sigma)
    names = ("q_1 - 0.7, rad", "dq_1, rad/s", "ddq_1 / 10, rad/s²")
    scaled = (moved[0] - _HOME[0], moved[1], moved[2] / 10)
    curves = tuple(Curve(name, t, y) for name, y in zip(names, scaled))
    return Study(
        "lin-1992",
        PAPER,
        "The Stanford arm is identified by moving joint 1 in nine places and joint 2 in one; all "
        "others are locked. Torques are computed by recursive Newton-Euler equations, as in the "
        "paper.",
        {"noise": noise, "sigma": sigma, "turned": list(turned), "d2": d2, "d3": d3, "seed": seed},
        tables,
        (
            Figure(
                "lin-1992-step",
                "Critically damped step of joint 1",
                "eq. (64)-(66)",
                "time, s",
                "",
                curves,
            ),
        ),
        (
            "Torques of the identified model differ from the true ones by "
            f"{_share(float((off / size).max()))} of the largest torque of each joint, at 50 "
            "random states.",
        ),
    )


def _share(value: float) -> str:
    return "less than 1e-9" if value < 1e-9 else f"at most {value:.1e}"


def _stanford(d2: float, d3: float) -> Robot:
    """Return Fig. 2 with these offsets."""
    return with_lengths(load("stanford"), {(1, "tz"): d2, (2, "tz"): d3})


def _places(turned: tuple[float, float]) -> list[tuple[float, ...]]:
    found: dict[tuple[float, ...], None] = {_HOME: None}
    for body, joint in _TURNED.items():
        for value in turned[: 1 if body == 3 else 2]:
            place = list(_HOME)
            place[joint - 1] = value
            found[tuple(place)] = None
    return list(found)


def _axes(robot: Robot, turned: tuple[float, float]) -> list[Entry]:
    """Return Table I: the axis of joint 1, which is the base's z axis, in link frames."""
    entries = []
    for line in _TABLE_I.split("\n"):
        if not line:
            continue
        configuration, frame, *printed = line.split()
        place = list(_HOME)
        if configuration != "1":
            place[_TURNED[int(frame)] - 1] = turned[int(configuration) - 2]
        axis = forward_kinematics(robot, place, robot.link_names[int(frame) - 1])[2, :3]
        for letter, text, value in zip("xyz", printed, axis):
            name = f"u_1({frame}) {letter}, configuration {configuration}"
            entries.append(Entry(name, text, float(value), _ERRATA.get(name, "")))
    return entries


def _step(t: Array, sigma: float) -> tuple[Array, Array, Array]:
    q, dq, ddq = critically_damped([_HOME[0]], [_HOME[0] + np.pi / 6], sigma)(t)
    return q[..., 0], dq[..., 0], ddq[..., 0]


def _run(
    robot: Robot,
    mover: int,
    place: tuple[float, ...],
    sigma: float,
    noise: float,
    rng: np.random.Generator,
) -> Recording:
    t = np.array(_INSTANTS)
    q, dq, ddq = np.tile(np.array(place), (len(t), 1)), np.zeros((len(t), 6)), np.zeros((len(t), 6))
    q[:, mover], dq[:, mover], ddq[:, mover] = _step(t, sigma)
    tau = inverse_dynamics(robot, q, dq, ddq) + noise * rng.normal(size=q.shape)
    return Recording(t, q, tau, dq=dq, ddq=ddq, joint_names=robot.joint_names)
