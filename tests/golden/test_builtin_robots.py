"""Built-in robots hold the numbers of their sources, typed here a second time."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

import minidyn as md
from minidyn.formats.load import describe
from minidyn.model.geometry import Step
from minidyn.model.loops import loop_residual, solve_loops
from minidyn.model.mdh import mdh_steps
from minidyn.model.parameters import from_body
from minidyn.model.placements import tree_pose

NAMES = (
    *(
        "gen3",
        "hpr",
        "iiwa14",
        "panda",
        "panda_hand",
        "puma4",
        "puma560",
        "rx90",
        "scara",
        "so101",
        "stanford",
    ),
    *("two_arm", "two_link", "ur10", "ur10e", "ur5e", "xarm7", "z1"),
)


def mdh(
    robot: md.Robot,
    alpha: list[float],
    a: list[float],
    d: list[float],
    theta: list[float] | None = None,
) -> None:
    """Compare a chain's geometry, alpha and theta in degrees."""
    angles = theta or [0.0] * len(alpha)
    for index, joint in enumerate(robot.joints):
        row = {
            "alpha": math.radians(alpha[index]),
            "a": a[index],
            "d": d[index],
            "theta": math.radians(angles[index]),
        }
        wanted = [(step.kind, step.value) for step in mdh_steps(joint.kind, row, "row")]
        assert [(step.kind, step.value) for step in joint.before if step.value] == wanted
        assert joint.after == ()
        assert joint.parent == index - 1


def test_names_sources_and_descriptions() -> None:
    assert md.robots() == NAMES
    for name in NAMES:
        robot = md.load(name)
        assert robot.name == name
        assert len(robot.source) > 40
        assert describe(name)
        rotors = [joint.drive.rotor_inertia for joint in robot.joints]
        assert rotors == [name in ("puma560", "hpr")] * len(rotors)
        assert all(joint.drive.friction == () for joint in robot.joints)


def test_puma560() -> None:
    """Gautier1991 Table I (geometry) and Table III (values; the 11 it does not print are 0)."""
    robot = md.load("puma560")
    mdh(robot, [0, -90, 0, -90, 90, -90], [0, 0, 0.5, 0.02, 0, 0], [0, 0, 0.2, 0.6, 0, 0])
    assert robot.gravity.tolist() == [0, 0, -9.81]
    assert dict(robot.symbols) == {"D3": 0.5, "R3": 0.2, "D4": 0.02, "R4": 0.6}
    assert robot.joints[2].before == (Step("tx", 0.5, "D3"), Step("tz", 0.2, "R3"))
    text = """
        ZZ1 0.5 XX2 1 XY2 0.7 XZ2 -0.3 YZ2 0.65 ZZ2 0.5 MX2 1.2 MY2 0.6
        XX3 0.1 XY3 0.7 XZ3 0.55 YZ3 -0.6 ZZ3 0.2 MX3 0.5 MY3 0.5 Ia3 1
        XX4 0.06 XY4 0.02 XZ4 0.02 YZ4 0.015 ZZ4 0.05 MX4 0.02 MY4 0.01 Ia4 0.3
        XX5 0.02 XY5 0.01 XZ5 0.01 YZ5 0.01 ZZ5 0.04 MX5 0.02 MY5 0.01 Ia5 0.3
        XX6 0.02 XY6 0.01 XZ6 0.01 YZ6 0.01 ZZ6 0.02 MX6 0.01 MY6 0.01 Ia6 0.3
        Ia1 1 YY2 1.5 Ia2 4.5 YY3 0.1 MZ3 0.3 M3 4.8 YY4 0.5 MZ4 -0.2 M4 0.8 YY5 0.02 MZ5 0.08 M5 0.5
        YY6 0.02 MZ6 0.02 M6 0.1"""  # noqa: E501
    printed = text.split()
    table = dict(zip(printed[::2], map(float, printed[1::2])))
    assert len(robot.parameter_names) == 66
    assert len(table) == 55
    assert dict(zip(robot.parameter_names, robot.parameters)) == {
        n: table.get(n, 0.0) for n in robot.parameter_names
    }
    unprinted = ["XX1", "XY1", "XZ1", "YY1", "YZ1", "MX1", "MY1", "MZ1", "M1", "MZ2", "M2"]
    assert [name for name in robot.parameter_names if name not in table] == unprinted


def test_stanford() -> None:
    """Lin1992 Figure 2."""
    robot = md.load("stanford")
    assert [joint.kind[0] for joint in robot.joints] == list("rrprrr")
    mdh(robot, [0, 90, 90, 0, 90, 90], [0] * 6, [0, 0.1529, 0.6447, 0, 0, 0], [0, 90, 0, 0, -90, 0])
    bodies = [
        (9.29, [0, 0.1105, 0.0175], [0.276, 0.255, 0.71]),
        (5.01, [0, 0, -0.1054], [0.108, 0.018, 0.1]),
        (4.25, [0, 0, -0.6447], [2.51, 2.51, 0.006]),
        (1.08, [0.0092, 0.0054, 0], [0.002, 0.001, 0.001]),
        (0.63, [0, -0.0566, 0], [0.003, 0.003, 0.0004]),
        (0.51, [0, 0, 0.1554], [0.013, 0.013, 0.0003]),
    ]
    for link, (mass, com, moments) in zip(robot.links, bodies):
        np.testing.assert_array_equal(link.parameters, from_body(mass, com, np.diag(moments)))
    assert robot.links[0].realizability.realizable is False  # 0.276 + 0.255 < 0.71, as printed
    assert all(link.realizability.realizable for link in robot.links[1:])


def test_two_link() -> None:
    """LuMeng1993 section III-C.

    Point masses at the frames' origins, a bar at the end, gravity along -y.
    """
    robot = md.load("two_link")
    assert robot.n == 2
    assert robot.gravity.tolist() == [0, -9.81, 0]
    mdh(robot, [0, 0], [0, 1.0], [0, 0])
    assert dict(robot.symbols) == {"l1": 1.0, "l2": 0.8}
    bar = robot.frames[0]
    assert (bar.name, bar.link) == ("bar", 1)
    assert bar.placement[:3, 3].tolist() == [0.8, 0, 0]
    m2, m3, l2, px, izz = 2.0, 1.5, 0.8, 0.25, 0.05
    assert robot.links[1].mass == m2 + m3
    value = dict(zip(robot.parameter_names, robot.parameters))
    assert value["MX2"] == pytest.approx(m3 * (l2 + px))
    assert value["ZZ2"] == pytest.approx(izz + m3 * (l2 + px) ** 2)
    assert value["MX1"] == value["ZZ1"] == 0.0
    assert all(link.realizability.realizable for link in robot.links)
    # gravity torque as the paper's G: (m2 + m3) l1 g c1 + m3 g (l2 + px) c12, from the heights of
    # the centres of mass
    q = np.array([0.3, -0.7])

    def potential(angles: np.ndarray) -> float:
        T = tree_pose(robot, angles).links
        return sum(
            -link.mass * robot.gravity @ (T[i] @ [*link.com, 1.0])[:3]
            for i, link in enumerate(robot.links)
        )

    step = 1e-6
    slope = [(potential(q + step * e) - potential(q - step * e)) / (2 * step) for e in np.eye(2)]
    g, c1, c12 = 9.81, math.cos(0.3), math.cos(-0.4)
    wanted = [(m2 + m3) * 1.0 * g * c1 + m3 * g * (l2 + px) * c12, m3 * g * (l2 + px) * c12]
    assert slope == pytest.approx(wanted, rel=1e-8)


def test_puma4() -> None:
    """LuMeng1993 section V-B: masses as printed with the load on link 4.

    Lengths and centres as assumed.
    """
    robot = md.load("puma4")
    mdh(robot, [0, -90, 0, -90], [0, 0, 0.4318, 0.0203], [0, 0, 0.1254, 0.4318])
    centres = [[0, 0, 0], [0.2159, 0, 0.0627], [0.01015, 0.2159, 0], [0.2, 0, 0]]
    for link, mass, com in zip(robot.links, [2, 2, 2, 1.0], centres):
        np.testing.assert_array_equal(link.parameters, from_body(mass, com, np.zeros((3, 3))))
    assert robot.notices[0].code == "robot.note"
    assert "assumed" in str(robot.notices[0])


def test_hpr() -> None:
    """Gautier1991, closed-loop example with an assumed geometry.

    theta2 = theta3 - theta4, theta5 = 3 pi - theta4.
    """
    robot = md.load("hpr")
    assert robot.notices[0].code == "robot.note"
    assert "assumed" in str(robot.notices[0])
    assert (robot.n, len(robot.joints), len(robot.parameter_names)) == (5, 7, 77)
    assert robot.joint_names == ("joint1", "joint3", "joint4", "joint6", "joint7")
    assert [joint.parent + 1 for joint in robot.joints] == [0, 1, 1, 2, 3, 4, 6]
    assert dict(robot.symbols) == {"D4": 0.6, "D5": 0.25, "D6": 0.7}
    rows = zip([0, 90, 90, 0, 0, 0, 90], [0, 0, 0, 0.6, 0.25, 0.7, 0])
    for joint, (alpha, a) in zip(robot.joints, rows):
        unnamed = tuple(replace(step, symbol="") for step in joint.before)
        assert unnamed == mdh_steps("revolute", {"alpha": math.radians(alpha), "a": a}, "row")
    assert not robot.parameters_known
    loop = robot.loops[0]
    assert (loop.link_a, loop.steps_a) == (3, (Step("tx", 0.25, "D5"),))
    assert (loop.link_b, loop.steps_b) == (4, (Step("tx", -0.6, "D4", -1.0),))
    q = np.random.default_rng(0).uniform(-3, 3, (50, 5))
    q_all = solve_loops(robot, q)
    assert q_all[:, 1] == pytest.approx(q[:, 1] - q[:, 2])
    assert q_all[:, 4] == pytest.approx(3 * math.pi - q[:, 2])
    assert loop_residual(robot, loop, q_all)[0].max() < 1e-14


def test_rx90() -> None:
    robot = md.load("rx90")
    mdh(robot, [0, 90, 0, -90, 90, -90], [0, 0, 0.45, 0, 0, 0], [0, 0, 0, 0.45, 0, 0])
    assert not robot.parameters_known
    assert len(robot.parameter_names) == 60


def test_scara_and_two_arm() -> None:
    scara = md.load("scara")
    assert [joint.kind[0] for joint in scara.joints] == list("rrpr")
    for joint in scara.joints:
        assert joint.placement[:3, :3].tolist() == np.eye(3).tolist()  # all axes vertical
    arms = md.load("two_arm")
    assert [joint.parent for joint in arms.joints] == [-1, 0, 1, 2, 1, 4]
    for robot in (scara, arms):
        assert robot.parameters_known
        assert all(link.realizability.realizable for link in robot.links)


def test_panda() -> None:
    """Modified DH table and limits of Franka Emika; inertia of Gaz et al. 2019."""
    robot = md.load("panda")
    mdh(
        robot,
        [0, -90, 90, 90, -90, 90, 90],
        [0, 0, 0, 0.0825, -0.0825, 0, 0.088],
        [0.333, 0, 0.316, 0, 0.384, 0, 0],
    )
    assert robot.joint_names == tuple(f"panda_joint{i}" for i in range(1, 8))
    masses = [4.970684, 0.646926, 3.228604, 3.587895, 1.225946, 1.666555, 0.735522]
    assert [link.mass for link in robot.links] == masses
    assert [joint.limits.upper for joint in robot.joints] == [
        2.8973,
        1.7628,
        2.8973,
        -0.0698,
        2.8973,
        3.7525,
        2.8973,
    ]
    assert [joint.limits.lower for joint in robot.joints] == [
        *(-2.8973, -1.7628, -2.8973, -3.0718, -2.8973, -0.0175, -2.8973)
    ]  # fmt: skip
    assert [joint.limits.velocity for joint in robot.joints] == [2.175] * 4 + [2.61] * 3
    assert [joint.limits.effort for joint in robot.joints] == [87] * 4 + [12] * 3
    assert all(link.realizability.realizable for link in robot.links)


UR_TENSORS = {  # xx xy xz yy yz zz about the centre of mass, classic DH frame
    "ur10": [
        [0.03408, 2e-5, -0.00425, 0.03529, 8e-5, 0.02156],
        [0.02814, 5e-5, -0.01561, 0.77068, 2e-5, 0.76943],
        [0.01014, 8e-5, 0.00916, 0.30928, 0, 0.30646],
        [0.00296, -1e-5, 0, 0.00222, -0.00024, 0.00258],
        [0.00296, -1e-5, 0, 0.00222, -0.00024, 0.00258],
        [0.0004, 0, 0, 0.00041, 0, 0.00034],
    ],
}
UR_TENSORS["ur10e"] = UR_TENSORS["ur10"]
UR_TENSORS["ur5e"] = [
    [0.00700210, 0.00000073, -0.00001053, 0.00648091, 0.00049994, 0.00657286],
    [0.01505885, -0.00005400, 0.00000563, 0.33388086, -0.00000181, 0.33247207],
    [0.00399632, -0.00001365, 0.00137272, 0.07879254, -0.00000660, 0.07848510],
    [0.00165491, -0.00000282, -0.00000438, 0.00135962, 0.00010157, 0.00126279],
    [0.00135617, -0.00000274, 0.00000444, 0.00127827, -0.00005048, 0.00096614],
    [0.00018694, 0.00000006, -0.00000017, 0.00018908, -0.00000092, 0.00025756],
]
UR_CENTRES = {
    "ur10": [
        [0.021, 0, 0.027],
        [0.38, 0, 0.158],
        [0.24, 0, 0.068],
        [0, 0.007, 0.018],
        [0, 0.007, 0.018],
        [0, 0, -0.026],
    ],
}
UR_CENTRES["ur10e"] = UR_CENTRES["ur10"]
UR_CENTRES["ur5e"] = [
    *([0, -0.02561, 0.00193], [0.2125, 0, 0.11336], [0.15, 0, 0.0265]),
    *([0, -0.0018, 0.01634], [0, 0.0018, 0.01634], [0, 0, -0.001159]),
]
UR = {  # a2, a3, (d1, d4, d5, d6), masses, torque limits, speed limits in deg/s
    "ur10": (
        -0.612, -0.5723, (0.1273, 0.163941, 0.1157, 0.0922), [7.1, 12.7, 4.27, 2.0, 2.0, 0.365],
        [330, 330, 150, 56, 56, 56], [120, 120, 180, 180, 180, 180],
    ),
    "ur5e": (
        -0.425, -0.3922, (0.1625, 0.1333, 0.0997, 0.0996), [3.761, 8.058, 2.846, 1.37, 1.3, 0.365],
        [150, 150, 150, 28, 28, 28], [180] * 6,
    ),
    "ur10e": (
        -0.6127, -0.57155, (0.1807, 0.17415, 0.11985, 0.11655), [7.369, 13.051, 3.989, 2.1, 1.98, 0.615],  # noqa: E501
        [330, 330, 150, 56, 56, 56], [120, 120, 180, 180, 180, 180],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", UR)
def test_universal_robots(name: str) -> None:
    """Universal Robots' tables in classic DH frames: the same bodies, seen from there."""
    robot = md.load(name)
    a2, a3, (d1, d4, d5, d6), mass, efforts, speeds = UR[name]
    mdh(robot, [0, 90, 0, 0, 90, -90], [0, 0, a2, a3, 0, 0], [d1, 0, 0, d4, d5, d6])
    alpha, a = [90, 0, 0, 90, -90, 0], [0, a2, a3, 0, 0, 0]
    for i, link in enumerate(robot.links):
        c, s = round(math.cos(math.radians(alpha[i]))), round(math.sin(math.radians(alpha[i])))
        R = np.array([[1, 0, 0], [0, c, -s], [0, s, c]])
        xx, xy, xz, yy, yz, zz = UR_TENSORS[name][i]
        tensor = R @ np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]]) @ R.T
        wanted = from_body(mass[i], R @ UR_CENTRES[name][i] + [a[i], 0, 0], tensor)
        assert link.parameters == pytest.approx(wanted, rel=1e-12, abs=1e-15)
        assert link.realizability.realizable
    assert [joint.limits.effort for joint in robot.joints] == efforts
    assert [joint.limits.velocity for joint in robot.joints] == pytest.approx(np.radians(speeds))


def test_iiwa14() -> None:
    """Menagerie's figures: masses, and lengths of KUKA's data sheet (360, 420, 400 mm between the
    crossing axes).
    """
    robot = md.load("iiwa14")
    assert [link.mass for link in robot.links] == [5.76, 6.35, 3.5, 3.5, 3.5, 1.8, 1.2]
    heights = tree_pose(robot, np.zeros(7)).links[:, 2, 3]
    assert heights[[1, 3, 5]] == pytest.approx([0.36, 0.36 + 0.42, 0.36 + 0.42 + 0.4])
    assert [joint.limits.upper for joint in robot.joints] == pytest.approx(
        np.radians([170, 120] * 3 + [175])
    )
    assert [joint.limits.velocity for joint in robot.joints] == pytest.approx(
        np.radians([85, 85, 100, 75, 130, 135, 135])
    )
    assert robot.links[1].parameters == pytest.approx(
        from_body(6.35, [0.0003, 0.059, 0.042], np.diag([0.0305, 0.0304, 0.011]))
    )
    axes = tree_pose(robot, np.zeros(7)).links[
        :, :3, 2
    ]  # upright: A1, A3, A5, A7 up; A2 and A6 against A4
    assert axes[:, 2] == pytest.approx([1, 0, 1, 0, 1, 0, 1], abs=1e-12)
    assert axes[[1, 3, 5], 1] == pytest.approx([1, -1, 1], abs=1e-12)


def test_gen3() -> None:
    """Kinova's URDF of the arm without vision module."""
    robot = md.load("gen3")
    assert [link.mass for link in robot.links] == [
        1.3773,
        1.1636,
        1.1636,
        0.9302,
        0.6781,
        0.6781,
        0.364,
    ]
    moves = [
        [0, 0, 0.15643],
        [0, 0.005375, -0.12838],
        [0, -0.21038, -0.006375],
        [0, 0.006375, -0.21038],
    ]
    moves += [[0, -0.20843, -0.006375], [0, 0.00017505, -0.10593], [0, -0.10593, -0.00017505]]
    for joint, move in zip(robot.joints, moves):
        assert joint.placement[:3, 3] == pytest.approx(move, abs=1e-15)
    turns = [180, 90, -90, 90, -90, 90, -90]
    for joint, turn in zip(robot.joints, turns):
        c, s = math.cos(math.radians(turn)), math.sin(math.radians(turn))
        assert joint.placement[:3, :3] == pytest.approx(
            np.array([[1, 0, 0], [0, c, -s], [0, s, c]]), abs=1e-15
        )
    last = np.array([[0.000214, 0, 1e-6], [0, 0.000223, -2e-6], [1e-6, -2e-6, 0.00024]])
    assert robot.links[6].parameters == pytest.approx(
        from_body(0.364, [-9.3e-05, 0.000132, -0.022905], last)
    )
    assert [joint.limits.effort for joint in robot.joints] == [39] * 4 + [9] * 3
    assert [joint.limits.upper for joint in robot.joints[1::2]] == [1.4, 2.66, 2.23]


def test_panda_hand_is_the_panda_with_more() -> None:
    arm, robot = md.load("panda"), md.load("panda_hand")
    assert robot.joint_names == (*arm.joint_names, "panda_finger_joint1")
    assert len(robot.joints) == 9
    q = np.random.default_rng(0).uniform(-1, 1, 9)
    np.testing.assert_allclose(
        tree_pose(robot, q).links[:7], tree_pose(arm, q[:7]).links[:7], atol=1e-12
    )
    for mine, theirs in zip(robot.links[:6], arm.links[:6]):
        np.testing.assert_allclose(mine.parameters, theirs.parameters, rtol=1e-12)
