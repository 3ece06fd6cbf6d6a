"""Links whose capsules are always near are kept apart by their hulls: Coal on the robots' meshes.

Pairs that were never checked: the forearm of the UR10 hits wrist_2, link 5 of the panda link 7.
"""

import importlib.metadata
from functools import cache
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

import minidyn as md
from conftest import count
from minidyn.errors import MissingExtra
from minidyn.excitation import hulls
from minidyn.excitation.bounds import bounds_of, work_poses
from minidyn.excitation.clearance import clearance_of
from minidyn.excitation.motion_verdict import judge_motion

pin = pytest.importorskip("pinocchio")

ROBOTS = {
    "ur10": ("ur_description/urdf/ur10_robot.urdf", ("forearm_link", "wrist_2_link")),
    "panda": ("panda_description/urdf/panda.urdf", ("panda_link5", "panda_link7")),
}
ARMS = [path for path, _ in ROBOTS.values()] + [
    "ur_description/urdf/ur3_robot.urdf",
    "ur_description/urdf/ur5_robot.urdf",
    "kinova_description/robots/kinova.urdf",
    "xarm_description/urdf/xarm7.urdf",
    "z1_description/urdf/z1.urdf",
]


@cache
def robot_files():
    """The folder of the package's robots."""
    files = importlib.metadata.files("example-robot-data") or []
    found = next(Path(one.locate()) for one in files if str(one).endswith("panda.urdf"))
    return found.parents[2]


def arm_of(name):
    path, pair = ROBOTS[name]
    return md.load(robot_files() / path), pair


class Meshes:
    """The meshes of links as Pinocchio reads them and Coal measures them.

    Of two links, or of all that no joint connects.
    """

    def __init__(self, robot, pair=()):
        folders = [str(robot_files().parents[1]), str(robot_files())]
        self.model = pin.buildModelFromUrdf(str(robot.source))
        kind = pin.GeometryType.COLLISION
        self.geometry = pin.buildGeomFromUrdf(
            self.model, str(robot.source), kind, package_dirs=folders
        )
        shapes = self.geometry.geometryObjects
        apart = [
            (a, b)
            for a, b in combinations(range(len(shapes)), 2)
            if self.are_apart(robot, *(shapes[k].parentJoint for k in (a, b)))
        ]
        if pair:
            apart = [tuple(next(k for k, s in enumerate(shapes) if n in s.name) for n in pair)]
        for a, b in apart:
            self.geometry.addCollisionPair(pin.CollisionPair(a, b))
        self.data, self.found = self.model.createData(), pin.GeometryData(self.geometry)
        self.places = [self.model.joints[self.model.getJointId(n)] for n in robot.joint_names]

    def are_apart(self, robot, first, second):
        """Whether two joints carry links that move against each other and are no neighbours."""

        def moving(joint):  # joints that do not move carry what is before them
            while joint and self.model.names[joint] not in robot.joint_names:
                joint = self.model.parents[joint]
            return joint

        first, second = sorted((moving(first), moving(second)))
        return first != second and moving(self.model.parents[second]) != first

    def distances(self, q):
        found = []
        for pose in q:
            position = pin.neutral(self.model)
            for joint, value in zip(self.places, pose):
                turned = joint.nq == 2
                position[joint.idx_q : joint.idx_q + joint.nq] = (
                    [np.cos(value), np.sin(value)] if turned else [value]
                )
            pin.computeDistances(self.model, self.data, self.geometry, self.found, position)
            found.append(min(one.min_distance for one in self.found.distanceResults))
        return np.array(found)


def clearance(robot):
    poses = work_poses(bounds_of(robot, None, 0.8), robot.n)
    return clearance_of(robot, 0.02, None, poses)


@pytest.mark.parametrize("name", ROBOTS)
def test_hulls_are_never_farther_apart_than_meshes(name) -> None:
    robot, pair = arm_of(name)
    found, notices = clearance(robot)
    assert " - ".join(pair) in found.names
    assert not [one for one in notices if one.code == "excite.always_near"]
    bounds = bounds_of(robot, None, 0.8)
    n, many = robot.n, count(300, 20_000)
    spread = np.random.default_rng(0).uniform(-1, 1, (many, n))
    q = bounds.middle[:n] + bounds.reach["position"][:n] * spread
    meshes = Meshes(robot, pair).distances(q)
    own = found.distances(q)[:, found.names.index(" - ".join(pair))]
    assert np.all(own <= np.maximum(meshes, 0.0) + 1e-5)
    assert np.mean(meshes <= 0) > 0.001  # they do collide
    assert own.max() > found.needed[found.names.index(" - ".join(pair))]


def test_derivatives_of_hull_distances_are_exact() -> None:
    robot, _ = arm_of("ur10")
    found, _ = clearance(robot)
    rng = np.random.default_rng(1)
    q = rng.uniform(-2, 2, (60, robot.n))
    share, back = found.shares(q, 0.002)
    weights, h = rng.normal(size=share.shape), 1e-6
    weights[:, : len(found.pairs)] = 0.0  # capsules have a law of their own
    slope = back(weights)
    for joint in range(robot.n):
        step = np.zeros(robot.n)
        step[joint] = h
        more, less = (found.shares(q + sign * step, 0.002)[0] for sign in (1, -1))
        numeric = ((more - less) * weights).sum(axis=1) / (2 * h)
        off = np.abs(slope[:, joint] - numeric)
        assert np.mean(off > 1e-4 * max(1.0, np.abs(numeric).max())) < 0.1


@pytest.mark.parametrize("name", ROBOTS)
def test_a_designed_motion_keeps_the_meshes_apart(name) -> None:
    robot, pair = arm_of(name)
    made = md.excite(robot, 4.0, noise=0.5, friction=(), rotor_inertia=False, time_limit=15)
    assert made.feasible
    assert made.margins["distance"][" - ".join(pair)] > 0.005
    q = made.trajectory(np.linspace(0.0, 4.0, 801))[0]
    assert Meshes(robot, pair).distances(q).min() > 0.005


@pytest.mark.parametrize("path", ARMS[: count(2, len(ARMS))])
def test_no_two_meshes_come_near_each_other(path) -> None:
    """All links that no joint connects, whether capsules or hulls keep them apart."""
    robot = md.load(robot_files() / path)
    robot = robot.locked({one: None for one in robot.joint_names if "finger" in one})
    made = md.excite(robot, 4.0, noise=0.5, friction=(), rotor_inertia=False, time_limit=15)
    assert made.feasible
    q = made.trajectory(np.linspace(0.0, 4.0, count(101, 401)))[0]
    assert Meshes(robot).distances(q).min() >= made.clearance.needed.min() - 1e-5


def test_without_coal_every_pair_is_named_first(tmp_path, monkeypatch) -> None:
    def missing(module):
        raise MissingExtra(module)

    monkeypatch.setattr(hulls, "optional", missing)
    robot, pair = arm_of("ur10")
    notices = clearance(robot)[1]
    (notice,) = [one for one in notices if one.code == "excite.always_near"]
    assert notice.level == "error"
    assert notice.data["pairs"] == [
        "base_link - upper_arm_link",
        " - ".join(pair),
        "wrist_1_link - wrist_3_link",
    ]
    assert all(name in str(notice) for name in notice.data["pairs"])
    assert "minidyn[collision]" in str(notice)
    assert judge_motion(True, notices).level == "bad"
    made = md.excite(robot, 4.0, noise=0.5, friction=(), rotor_inertia=False, time_limit=1)
    page = made.preview(tmp_path / "p.html").read_text()
    head = " ".join(
        line.lstrip("# ") for line in made.save(tmp_path / "m.csv").read_text().split("\n")[:30]
    )
    for name in notice.data["pairs"]:
        assert name in head
        assert name in page[page.index('class="verdict bad') :][:2000]
