"""The robot value.

Geometry is exact, trees come in any order, nothing changes it, parameters keep their order.
"""

from __future__ import annotations

import dataclasses
import math
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import minidyn as md
from minidyn.errors import DescriptionError, MinidynError, ShapeError, UnknownName
from minidyn.model import parameters as inertia
from minidyn.model.assemble import LooseJoint, LooseLink, assemble, motion_along
from minidyn.model.geometry import (
    Step,
    matrix_of,
    snap_angle,
    snap_axis,
    snap_length,
    steps_from_rpy,
)
from minidyn.notices import Notice

RIGHT = math.pi / 2
PARAMETERS = ["XX", "XY", "XZ", "YY", "YZ", "ZZ", "MX", "MY", "MZ", "M"]


def body(rng: np.random.Generator) -> dict[str, Any]:
    """A random rigid body: a cloud of points."""
    points, weights = rng.normal(size=(6, 3)), rng.random(6)
    mass = weights.sum()
    com = weights @ points / mass
    arms = points - com
    tensor = sum(w * (a @ a * np.eye(3) - np.outer(a, a)) for w, a in zip(weights, arms))
    return {"mass": mass, "com": com, "inertia": tensor}


# ---------------------------------------------------------------- package


def test_importing_is_quick_and_silent() -> None:
    code = "import time; t = time.perf_counter(); import minidyn; print(time.perf_counter() - t)"
    times = []
    for _ in range(5):
        run = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        )
        assert run.stderr == ""
        assert len(run.stdout.split()) == 1  # our own number and nothing else
        times.append(float(run.stdout))
    assert min(times) < 0.3


def test_public_names_exist() -> None:
    for name in ("MinidynError", "Robot", "load", "robots", "save"):
        assert name in md.__all__
        assert getattr(md, name) is not None
    with pytest.raises(AttributeError, match="nothing_such"):
        _ = md.nothing_such


# ---------------------------------------------------------------- snapping


@pytest.mark.parametrize("quarters", [-4, -1, 0, 1, 2, 3, 5])
def test_right_angles_are_exact_and_told_when_they_were_not(quarters: int) -> None:
    for error, told in ((0.0, False), (9e-10, False), (2e-9, True), (9.9e-6, True)):
        notices: list[Notice] = []
        assert snap_angle(quarters * RIGHT + error, "joint 1", notices) == quarters * RIGHT
        assert len(notices) == (1 if told else 0)
    notices = []
    assert snap_angle(quarters * RIGHT + 1.1e-5, "joint 1", notices) == quarters * RIGHT + 1.1e-5
    assert notices == []


def test_few_digits_may_be_rough_and_more_digits_are_meant() -> None:
    for text, quarters in (("1.5707", 1), ("1.5708", 1), ("-3.1415", -2), ("3.14158", 2)):
        notices: list[Notice] = []
        assert snap_angle(float(text), "joint 1", notices) == quarters * RIGHT
        assert len(notices) == 1
    for angle in (1.571, 1.570723, 1.57085123, 3.141553):
        assert snap_angle(angle, "joint 1") == angle


def test_short_lengths_and_near_axes_are_exact() -> None:
    assert snap_length(9e-13, "x") == 0.0
    assert snap_length(-2e-12, "x") == -2e-12
    notices: list[Notice] = []
    assert snap_axis([1e-5, 0, -3], "x", notices).tolist() == [0, 0, -1]
    assert len(notices) == 1
    assert snap_axis([0, 1e-10, 2], "x", notices).tolist() == [0, 0, 1]
    assert len(notices) == 1
    assert abs(np.linalg.norm(snap_axis([1, 2, 3], "x")) - 1) < 1e-15
    assert snap_axis([5e-5, 0, 1], "x")[0] == pytest.approx(5e-5)


def test_matrices_of_right_angles_hold_exact_zeros() -> None:
    T = matrix_of(steps_from_rpy([0.1, 0, 1e-13], [1.5708, -3.14159, 1.57079632679], "x"))
    assert set(np.unique(T[:3, :3])) <= {-1.0, 0.0, 1.0}
    assert T[2, 3] == 0.0


def test_the_table_is_snapped_with_a_notice() -> None:
    robot = md.Robot.from_mdh("RR", alpha=[0, -1.5708], a=[0, 1e-14])
    assert robot.joints[1].before == (Step("rx", -RIGHT),)
    assert len(robot.notices) == 1
    assert robot.notices[0].code == "robot.snapped_angle"
    assert robot.notices[0].data["where"] == "joint 2, alpha"
    assert robot.notices[0].data["degrees"] == -90
    assert md.Robot.from_mdh("RR", alpha=[0, -1.570796326]).notices == ()


def test_oblique_axes_turn_there_and_back() -> None:
    rng = np.random.default_rng(1)
    for kind in ("revolute", "prismatic"):
        for _ in range(50):
            axis = rng.normal(size=3)
            before, motion, direction, after = motion_along(kind, axis, "x")
            A, B = matrix_of(before), matrix_of(after)
            assert pytest.approx(np.eye(4), abs=1e-15) == A @ B
            assert A[:3, 2] * direction == pytest.approx(axis / np.linalg.norm(axis), abs=1e-15)
            assert motion == ("rz" if kind == "revolute" else "tz")
    # an azimuth that is nearly a right angle is one
    before, _, _, _ = motion_along("revolute", [1e-6, 3, 4], "x")
    assert before[0] == Step("rz", RIGHT)


# ---------------------------------------------------------------- mDH


def elementary(kind: str, value: float) -> np.ndarray:
    T = np.eye(4)
    axis = "xyz".index(kind[1])
    if kind[0] == "t":
        T[axis, 3] = value
        return T
    i, j = (axis + 1) % 3, (axis + 2) % 3
    T[i, i] = T[j, j] = math.cos(value)
    T[j, i], T[i, j] = math.sin(value), -math.sin(value)
    return T


def test_rows_place_frames_as_khalil_and_kleinfinger_do() -> None:
    rng = np.random.default_rng(2)
    for letters in ("R", "P"):
        alpha, a, d, theta, gamma, b, q = rng.normal(size=7)
        robot = md.Robot.from_mdh(letters, [alpha], [a], [d], [theta], gamma=[gamma], b=[b])
        turn, shift = (theta + q, d) if letters == "R" else (theta, d + q)
        wanted = (
            elementary("rz", gamma)
            @ elementary("tz", b)
            @ elementary("rx", alpha)
            @ elementary("tx", a)
        )
        wanted = wanted @ elementary("rz", turn) @ elementary("tz", shift)
        assert robot.joints[0].placement_at(q) == pytest.approx(wanted, abs=1e-14)
        assert robot.joints[0].axis.tolist() == [0, 0, 1]


def test_names_and_order_of_parameters() -> None:
    robot = md.Robot.from_mdh("RP", rotor_inertia=True, friction=("offset", "viscous", "coulomb"))
    assert robot.parameter_names == tuple(
        [f"{p}1" for p in [*PARAMETERS, "Ia", "Fv", "Fc", "Fo"]]
        + [f"{p}2" for p in [*PARAMETERS, "Ia", "Fv", "Fc", "Fo"]]
    )
    assert not robot.parameters_known
    assert robot.joint_names == ("joint1", "joint2")
    assert [link.name for link in robot.links] == ["link1", "link2"]


def test_parameters_by_bodies_and_by_vector_agree() -> None:
    rng = np.random.default_rng(3)
    bodies = [body(rng), body(rng) | {"Ia": 0.3, "Fv": 1.2}]
    robot = md.Robot.from_mdh("RR", parameters=bodies)
    assert robot.parameter_names[20:] == ("Ia2", "Fv2")
    assert robot.parameters_known
    again = robot.with_parameters(robot.parameters)
    assert again == robot
    for link, wanted in zip(again.links, bodies):
        assert link.mass == wanted["mass"]
        assert link.com == pytest.approx(wanted["com"])
        assert link.inertia == pytest.approx(wanted["inertia"])
        assert link.realizability.realizable
        assert np.linalg.eigvalsh(link.pseudo_inertia)[0] > 0


WRONG_TABLES: dict[str, tuple[dict[str, Any], str]] = {
    "no joints": ({"joints": ""}, "joints: at least one of R and P"),
    "letter": ({"joints": "RQ"}, "joint 2 is 'Q'; expected R .* or P"),
    "number for letters": ({"joints": [1, 2]}, "joint 1 is 1; expected R"),
    "alpha too short": ({"alpha": [0.0]}, r"alpha .* expected shape \(2,\), got \(1,\)"),
    "a too long": (
        {"a": [0.0, 1, 2]},
        r"a \(one value for each of 2 joints\): expected shape \(2,\), got \(3,\)",
    ),
    "nan": ({"d": [0.0, float("nan")]}, "d .* finite numbers, got NaN"),
    "infinite": ({"theta": [0.0, float("inf")]}, "theta .* finite"),
    "text": ({"a": ["x", 1]}, "a .* expected numbers, got"),
    "parent too long": ({"parent": [0, 1, 2]}, "parent: expected 2 entries|parent of joint 3"),
    "later parent": ({"parent": [2, 1]}, "parent of joint 1: got 2; expected 0"),
    "cycle": ({"parent": [1, 1]}, "parent of joint 1: got 1; expected 0"),
    "name for parent": (
        {"parent": [0, "link1"]},
        "parent of joint 2: expected a number .*, got 'link1'",
    ),
    "parameters too short": (
        {"parameters": np.zeros(19)},
        r"parameters \(XX1 ... M2\): expected shape \(20,\), got",
    ),
    "bodies too few": ({"parameters": [{"mass": 1.0}]}, "parameters: expected 2 dicts"),
    "body no dict": (
        {"parameters": [{"mass": 1.0}, 3]},
        "parameters of link 2: expected a dict .* got 3",
    ),
    "com without mass": (
        {"parameters": [{"com": [0, 0, 0]}, {}]},
        "link 1: com or inertia given without mass",
    ),
    "tensor": (
        {"parameters": [{"mass": 1.0, "inertia": np.triu(np.ones((3, 3)))}, {}]},
        "link 1, inertia: the tensor must be symmetric",
    ),
    "tensor shape": (
        {"parameters": [{"mass": 1.0, "inertia": np.ones(6)}, {}]},
        r"link 1, inertia: expected shape",
    ),
    "infinite value": ({"parameters": np.full(20, np.inf)}, "parameter XX1: infinite"),
    "gravity": ({"gravity": (0, 0)}, "gravity: expected 3 finite numbers"),
    "gravity nan": ({"gravity": (0, 0, float("nan"))}, "gravity: expected 3 finite numbers"),
}


@pytest.mark.parametrize("case", WRONG_TABLES)
def test_wrong_tables_are_refused(case: str) -> None:
    change, pattern = WRONG_TABLES[case]
    with pytest.raises(DescriptionError, match=pattern):
        md.Robot.from_mdh(**({"joints": "RR"} | change))


def test_unknown_keys_and_terms_get_near_names() -> None:
    with pytest.raises(UnknownName, match="'mas'; did you mean 'mass'"):
        md.Robot.from_mdh("R", parameters=[{"mas": 1.0}])
    with pytest.raises(UnknownName, match="'viscos'; did you mean 'viscous'"):
        md.Robot.from_mdh("R", friction=["viscos"])
    with pytest.raises(UnknownName, match="unknown friction term 3"):
        md.Robot.from_mdh("R", friction=3)  # type: ignore[arg-type]
    robot = md.load("panda")
    with pytest.raises(UnknownName, match="'panda_lnk7'; did you mean 'panda_link7'"):
        robot.find_frame("panda_lnk7")
    with pytest.raises(UnknownName, match="'ZZ11'; did you mean"):
        robot.layout.index("ZZ11")
    with pytest.raises(UnknownName, match="unknown joint 'joint_7'"):
        robot.with_drives(rotor_inertia=["joint_7"])


# ---------------------------------------------------------------- trees


def loose(rng: np.random.Generator) -> tuple[list[LooseLink], list[LooseJoint]]:
    """A branched tree with fixed joints between moving ones."""
    shape = [  # joint, kind, parent, child
        ("a", "revolute", "base", "A"),
        ("b", "fixed", "A", "B"),
        ("c", "prismatic", "B", "C"),
        ("d", "revolute", "A", "D"),
        ("e", "fixed", "D", "E"),
        ("f", "fixed", "E", "F"),
        ("g", "fixed", "base", "G"),
        ("h", "revolute", "G", "H"),
    ]
    links = [LooseLink("base", "file:1")]
    joints = []
    for name, kind, parent, child in shape:
        steps = steps_from_rpy(rng.normal(size=3), rng.normal(size=3), "x")
        motion = "tz" if kind == "prismatic" else "rz"
        joints.append(LooseJoint(name, f"file:{name}", kind, parent, child, steps, motion))
        parameters = inertia.from_body(**body(rng)) if child != "E" else None
        links.append(LooseLink(child, f"file:{child}", parameters))
    return links, joints


def test_fixed_joints_merge_without_losing_names_or_mass() -> None:
    links, joints = loose(np.random.default_rng(4))
    robot = assemble("tree", links, joints)
    assert robot.joint_names == ("a", "c", "d", "h")
    assert [link.frames for link in robot.links] == [("B",), (), ("E", "F"), ()]
    own = {link.name: link.parameters for link in links}
    place = {joint.name: matrix_of(joint.before) for joint in joints}
    wanted = own["A"] + inertia.transform(own["B"], place["b"])
    assert robot.links[0].parameters == pytest.approx(wanted)
    wanted = own["D"] + inertia.transform(own["F"], place["e"] @ place["f"])
    assert robot.links[2].parameters == pytest.approx(wanted)  # E adds nothing
    assert robot.joints[1].placement == pytest.approx(place["b"] @ place["c"])
    assert robot.joints[3].placement == pytest.approx(place["g"] @ place["h"])
    assert robot.find_frame("F")[0] == 2
    assert robot.find_frame("G")[0] == -1
    assert matrix_of(robot.find_frame("F")[1]) == pytest.approx(place["e"] @ place["f"])


def test_any_order_gives_the_same_tree() -> None:
    links, joints = loose(np.random.default_rng(5))
    wanted = assemble("tree", links, joints)
    rng = np.random.default_rng(6)
    for _ in range(30):
        robot = assemble(
            "tree", [links[i] for i in rng.permutation(9)], [joints[i] for i in rng.permutation(8)]
        )
        assert sorted(robot.joint_names) == sorted(wanted.joint_names)
        for joint, link in zip(robot.joints, robot.links):
            index = wanted.joint_index(joint.name)
            assert (joint.placement == wanted.joints[index].placement).all()
            assert link.parameters == pytest.approx(wanted.links[index].parameters, rel=1e-12)
            above = robot.base_name if joint.parent < 0 else robot.link_names[joint.parent]
            place = wanted.joints[index].parent
            assert above == (wanted.base_name if place < 0 else wanted.link_names[place])


def test_joints_keep_the_order_of_the_description() -> None:
    names = [("1", "base"), ("2", "1"), ("3", "1"), ("4", "2"), ("5", "3"), ("6", "4"), ("7", "6")]
    links = [LooseLink("base", "f"), *(LooseLink(name, "f") for name, _ in names)]
    joints = [LooseJoint(f"j{name}", "f", "revolute", parent, name) for name, parent in names]
    assert assemble("tree", links, joints).joint_names == tuple(f"j{name}" for name, _ in names)


def test_a_link_without_inertia_is_unknown_only_where_nothing_is_known() -> None:
    links = [
        LooseLink("base", "f"),
        LooseLink("A", "f"),
        LooseLink("B", "f", np.ones(10)),
        LooseLink("C", "f"),
    ]
    joints = [
        LooseJoint("a", "f", "revolute", "base", "A"),
        LooseJoint("b", "f", "fixed", "A", "B"),
        LooseJoint("c", "f", "revolute", "A", "C"),
    ]
    robot = assemble("tree", links, joints)
    assert robot.links[0].parameters.tolist() == [1.0] * 10
    assert np.isnan(robot.links[1].parameters).all()


# ---------------------------------------------------------------- variations


def test_nothing_changes_a_robot() -> None:
    robot = md.load("puma560")
    with pytest.raises(dataclasses.FrozenInstanceError):
        robot.name = "other"  # type: ignore[misc]
    for array in (robot.parameters, robot.parameters, robot.gravity, robot.links[0].parameters):
        assert array is not None
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1.0
    gravity = np.array([0.0, 0, -9.81])
    made = md.Robot.from_mdh("R", gravity=gravity)
    gravity[2] = 5.0
    assert made.gravity[2] == -9.81
    before = robot.fingerprint
    (
        robot.with_gravity((0, 0, 1)),
        robot.with_parameters(None),
        robot.with_load(),
        robot.with_drives(friction="offset"),
    )
    assert robot.fingerprint == before
    assert robot == md.load("puma560")
    assert hash(robot) == hash(md.load("puma560"))
    assert robot != robot.with_gravity((0, 0, 1))


def test_drives_keep_the_values_that_remain() -> None:
    robot = md.load("puma560")
    more = robot.with_drives(friction=("viscous",))
    assert more.parameter_names[10:12] == ("Ia1", "Fv1")
    assert more.parameters[10] == 1.0
    assert math.isnan(more.parameters[11])
    assert more.with_drives(friction=()) == robot
    none = robot.with_drives(rotor_inertia=False)
    assert len(none.parameter_names) == 60
    assert none.parameters.tolist() == [
        v for n, v in zip(robot.parameter_names, robot.parameters) if not n.startswith("Ia")
    ]


def test_a_load_keeps_its_own_columns() -> None:
    robot = md.load("panda")
    T = np.eye(4)
    T[2, 3] = 0.107
    loaded = robot.with_load(T, {"mass": 2.0, "com": [0, 0, 0.05], "inertia": np.eye(3) * 0.01})
    assert loaded.n == 7
    assert loaded.joint_names == robot.joint_names
    assert loaded.parameter_names[:70] == robot.parameter_names
    assert loaded.parameter_names[70:] == tuple(f"{p}8" for p in PARAMETERS)
    assert loaded.links[7].mass == 2.0
    assert loaded.links[7].name == "load"
    assert loaded.joints[7].placement == pytest.approx(T)
    unknown = robot.with_load(link="panda_link3")
    assert unknown.joints[7].parent == 2
    assert np.isnan(unknown.parameters[70:]).all()
    assert robot.with_load().with_load().links[8].name == "load_"
    with pytest.raises(ShapeError, match=r"expected 10 parameters XX ... M, got shape \(9,\)"):
        robot.with_load(parameters=np.zeros(9))
    with pytest.raises(DescriptionError, match="not a rotation matrix"):
        robot.with_load(np.diag([1, 1, 2, 1.0]))
    with pytest.raises(DescriptionError, match="does not move"):
        robot.with_load(link="panda_link0")


def test_opening_loops_frees_passive_joints() -> None:
    robot = md.load("hpr")
    tree = robot.open_loops()
    assert (robot.n, tree.n) == (5, 7)
    assert tree.loops == ()
    assert tree.joint_names == tuple(f"joint{i}" for i in range(1, 8))
    assert tree.parameter_names == robot.parameter_names
    assert tree.open_loops() == tree


# ---------------------------------------------------------------- parameters


def test_conversions_agree_with_pinocchio_and_return() -> None:
    pin = pytest.importorskip("pinocchio")
    rng = np.random.default_rng(8)
    for _ in range(20):
        one = body(rng)
        phi = inertia.from_body(**one)
        theirs = pin.Inertia(one["mass"], one["com"], one["inertia"])
        assert inertia.to_pinocchio(phi) == pytest.approx(theirs.toDynamicParameters(), abs=1e-12)
        assert inertia.from_pinocchio(theirs.toDynamicParameters()) == pytest.approx(phi, abs=1e-12)
        pose = pin.SE3.Random()
        moved = pose.act(theirs).toDynamicParameters()
        assert inertia.to_pinocchio(inertia.transform(phi, pose.homogeneous)) == pytest.approx(
            moved, abs=1e-12
        )


def test_conversions_return() -> None:
    rng = np.random.default_rng(9)
    for _ in range(20):
        one = body(rng)
        phi = inertia.from_body(**one)
        assert inertia.from_mujoco(*inertia.to_mujoco(phi)) == pytest.approx(phi)
        assert inertia.from_lumeng16(inertia.to_lumeng16(phi)) == pytest.approx(phi)
        assert inertia.from_pseudo_inertia(inertia.to_pseudo_inertia(phi)) == pytest.approx(phi)
        mass, com, tensor = inertia.to_body(phi)
        assert mass == one["mass"]
        assert com == pytest.approx(one["com"])
        assert tensor == pytest.approx(one["inertia"])
    sixteen = rng.normal(size=(16, 16))
    assert np.linalg.matrix_rank([inertia.from_lumeng16(row) for row in np.eye(16)]) == 10
    assert inertia.from_lumeng16(sixteen).shape == (16, 10)
    x, y = inertia.to_lumeng16(inertia.from_body(2.0, [0.1, 0.2, 0.3], np.diag([1.0, 2, 3]))), 2.0
    assert x[:10] == pytest.approx([y, 0.2, 0.4, 0.6, 0.02, 0.08, 0.18, 0.04, 0.06, 0.12])
    assert inertia.to_lumeng16(
        inertia.from_body(1.0, [0, 0, 0], [[1, -0.1, -0.2], [-0.1, 1, -0.3], [-0.2, -0.3, 1]])
    )[13:] == pytest.approx([0.1, 0.2, 0.3])  # Ixy = +∫xy dm


@pytest.mark.parametrize(
    ("phi", "realizable", "reason"),
    [
        (inertia.from_body(1.0, [0.1, 0, 0], np.diag([1.0, 1, 1])), True, ""),
        (inertia.from_body(1.0, [0.1, 0, 0], np.zeros((3, 3))), True, ""),  # a point mass
        (inertia.from_body(1.0, [0, 0, 0], np.diag([0.0, 1, 1])), True, ""),  # a rod
        (np.zeros(10), True, ""),
        (inertia.from_body(-1.0, [0, 0, 0], np.diag([1.0, 1, 1])), False, "negative mass (-1 kg)"),
        (
            inertia.from_body(1.0, [0, 0, 0], np.diag([1.0, 1, 2.5])),
            False,
            "triangle inequality violated",
        ),
        (
            inertia.from_body(1.0, [0, 0, 0], np.diag([1.0, -0.1, 1])),
            False,
            "negative principal moment",
        ),
        (np.array([0, 0, 0, 0, 0, 0, 1.0, 0, 0, 0]), False, "mass is zero"),
        (np.array([1, 0, 0, 1, 0, 1, np.nan, 0, 0, 1]), None, "unknown: MX"),
    ],
)
def test_realizability_says_why_not(phi: np.ndarray, realizable: bool | None, reason: str) -> None:
    report = inertia.realizability(phi)
    assert report.realizable is realizable
    assert reason in report.reason
    assert (report.reason == "") == (realizable is True)


def test_realizability_is_the_pseudo_inertia() -> None:
    rng = np.random.default_rng(10)
    for _ in range(300):
        phi = rng.normal(size=10) + np.array([2, 0, 0, 2, 0, 2, 0, 0, 0, 2])
        smallest = np.linalg.eigvalsh(inertia.to_pseudo_inertia(phi))[0]
        report = inertia.realizability(phi)
        assert report.realizable == (smallest >= 0)
        assert report.smallest_eigenvalue == pytest.approx(smallest)
        assert bool(report.reason) == (smallest < 0)


def test_drives_are_coupled_by_name() -> None:
    robot = md.load("puma4").with_drives(rotor_inertia=True, coupling={"joint4": {"joint3": 0.5}})
    assert robot.joints[3].drive.coupling == (("joint3", 0.5),)
    assert robot.joints[2].drive.coupling == ()
    Y = md.regressor(robot, np.zeros(4), np.zeros(4), np.array([0.0, 0.0, 2.0, 3.0]))
    np.testing.assert_allclose(
        Y[:, robot.parameter_names.index("Ia4")], [0, 0, 0.5 * (3 + 1), 3 + 1]
    )
    with pytest.raises(md.MinidynError, match="did you mean 'joint4'"):
        robot.with_drives(coupling={"jiont4": {"joint3": 1.0}})
    with pytest.raises(md.MinidynError, match="coupling of joint 'joint4'"):
        robot.with_drives(coupling={"joint4": {"jiont3": 1.0}})


def test_a_robot_says_what_it_is() -> None:
    robot = md.Robot.from_mdh("RP", name="arm")
    assert repr(robot) == "Robot('arm', n=2, joints=RP, 20 parameters (all unknown))"
    assert repr(robot.with_parameters(np.ones(20))) == "Robot('arm', n=2, joints=RP, 20 parameters)"
    assert repr(robot.with_parameters([np.nan] * 3 + [1.0] * 17)).endswith(
        "20 parameters (3 unknown))"
    )


def test_some_parameters_by_name() -> None:
    robot = md.load("puma560")
    changed = robot.with_parameters({"M3": 5.5, "MX2": math.nan})
    assert changed.parameters[robot.layout.index("M3")] == 5.5
    assert np.isnan(changed.parameters[robot.layout.index("MX2")])
    same = [k for k, name in enumerate(robot.layout.names) if name not in ("M3", "MX2")]
    np.testing.assert_array_equal(changed.parameters[same], robot.parameters[same])
    with pytest.raises(MinidynError, match="M33"):
        robot.with_parameters({"M33": 1.0})
    with pytest.raises(MinidynError, match="parameter M3"):
        robot.with_parameters({"M3": [1.0, 2.0]})


@pytest.mark.parametrize("name", ["ur10", "iiwa14", "z1", "two_arm"])
def test_mdh_table(name: str) -> None:
    """The table is the robot: same torques; its frames are where it says."""
    robot = md.load(name)
    table = robot.mdh()
    moving = [joint for joint in robot.joints if joint.kind != "fixed"]
    assert [row.turning for row in table.rows] == [joint.turns for joint in moving]
    rng = np.random.default_rng(0)
    q, dq, ddq = rng.normal(size=(3, robot.n))
    phi = rng.normal(size=len(robot.layout))
    expected = md.inverse_dynamics(robot, q, dq, ddq, phi)
    np.testing.assert_allclose(
        md.inverse_dynamics(table.robot, q, dq, ddq, table.T @ phi), expected, rtol=1e-9, atol=1e-9
    )
    for link, frame in zip(table.robot.link_names, table.frames):
        own = md.forward_kinematics(robot, q, link) @ frame
        seen = md.forward_kinematics(table.robot, q, link)
        np.testing.assert_allclose(seen[:3, 2], own[:3, 2], atol=1e-9)  # the axis
        reach = seen[:3, 3] - own[:3, 3]
        np.testing.assert_allclose(reach, (reach @ own[:3, 2]) * own[:3, 2], atol=1e-9)
    assert str(table).splitlines()[0].split()[:3] == ["joint", "on", "type"]
    assert table.to_json()["rows"]


def test_no_mdh_table_of_a_loop() -> None:
    with pytest.raises(MinidynError, match="loop"):
        md.load("hpr").mdh()
