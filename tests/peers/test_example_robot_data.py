"""The URDF files of the package example-robot-data.

Every one that describes a moving robot agrees with Pinocchio.
"""

from __future__ import annotations

import importlib.metadata
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

import minidyn as md
from minidyn.errors import DescriptionError, Unsupported
from minidyn.formats.urdf.read import read_urdf
from minidyn.formats.urdf.write import write_urdf
from minidyn.model.parameters import from_pinocchio, to_pinocchio, transform
from minidyn.model.robot import Robot

pin = pytest.importorskip("pinocchio", reason="Pinocchio (pip install pin) is not installed")
Array = NDArray[np.float64]

# What these files lack, not we: no joint, no moving joint, a joint to a link or a mimic of a joint
# that does not exist.
BROKEN = {
    "quadrotor_base.urdf": "no joint",
    "ur3.urdf": "no link",
    "bluevolta.urdf": "no moving joint",
    "iris_simple.urdf": "no moving joint",
    "falcon.urdf": "unknown child link",
    "alex_psyonic_hands.urdf": "follows an unknown joint 'index_q1'",
}
ARMS = [
    "panda.urdf",
    "ur3_robot.urdf",
    "ur5_robot.urdf",
    "ur10_robot.urdf",
    "kinova.urdf",
    "z1.urdf",
    "xarm7.urdf",
    "so101.urdf",
    "talos_left_arm.urdf",
    "tiago_no_hand.urdf",
    "baxter.urdf",
    "bravo7_gripper.urdf",
    "double_pendulum.urdf",
    "finger_edu.urdf",
]

# axes parallel to 1e-8 rad only: angles that were in single precision once
ROUNDED = "romeo_laas_small.urdf"


def data_files() -> list[Path]:
    """Return the URDF files of the package, none where it is not installed."""
    try:
        files = importlib.metadata.files("example-robot-data") or []
    except importlib.metadata.PackageNotFoundError:
        return []
    return sorted(Path(str(file.locate())) for file in files if file.suffix == ".urdf")


FILES = data_files()
needs_data = pytest.mark.skipif(not FILES, reason="the package example-robot-data is not installed")


def peer_of(path: Path) -> pin.Model:
    return pin.buildModelFromUrdf(str(path))


def positions(robot: Robot, rng: np.random.Generator) -> dict[str, float]:
    return {joint.name: float(rng.uniform(-2, 2)) for joint in robot.joints}


def peer_placements(model: pin.Model, q: dict[str, float]) -> dict[str, Array]:
    """Return every body frame's placement in the world."""
    configuration = pin.neutral(model)
    for name, joint in zip(model.names[1:], model.joints[1:]):
        if joint.nq == 2:  # a continuous joint is (cos, sin) there
            configuration[joint.idx_q : joint.idx_q + 2] = np.cos(q[name]), np.sin(q[name])
        else:
            configuration[joint.idx_q] = q[name]
    data = model.createData()
    pin.framesForwardKinematics(model, data, configuration)
    return {
        frame.name: data.oMf[index].homogeneous
        for index, frame in enumerate(model.frames)
        if frame.type == pin.FrameType.BODY
    }


def our_placements(robot: Robot, q: dict[str, float]) -> dict[str, Array]:
    world = [robot.base_placement]
    for joint in robot.joints:
        world.append(world[joint.parent + 1] @ joint.placement_at(q[joint.name]))
    found = {name: world[index + 1] for index, name in enumerate(robot.link_names)}
    return found | {frame.name: world[frame.link + 1] @ frame.placement for frame in robot.frames}


def tolerance(robot: Robot) -> float:
    """Right angles that the file rounds are exact here; Pinocchio takes them as they stand."""
    return (
        3e-4 if any(notice.code.startswith("robot.snapped") for notice in robot.notices) else 1e-8
    )


def compare(robot: Robot, model: pin.Model, q: dict[str, float], within: float) -> None:
    assert sorted(model.names[1:]) == sorted(joint.name for joint in robot.joints)
    theirs, ours = peer_placements(model, q), our_placements(robot, q)
    missing = set(theirs) - set(ours) - {robot.base_name}
    assert not missing
    for name, T in ours.items():
        assert np.allclose(T, theirs[name], atol=20 * within), name
    for joint, link in zip(robot.joints, robot.links):
        inertia = model.inertias[model.getJointId(joint.name)]
        if np.isnan(link.parameters).all():
            assert inertia.mass == 0.0
            continue
        scale = max(1.0, float(np.abs(inertia.toDynamicParameters()).max()))
        difference = to_pinocchio(link.parameters) - inertia.toDynamicParameters()
        assert np.abs(difference).max() <= within * scale, link.name
        assert link.mass == pytest.approx(inertia.mass, rel=1e-12, abs=1e-300)
        if link.mass > 1e-6:
            assert np.allclose(link.com, inertia.lever, atol=10 * within), link.name


@needs_data
def test_the_arms_are_there() -> None:
    """Releases of the package add and drop files.

    Most of the arms, and the well-known ones, are in all of them.
    """
    names = {path.name for path in FILES}
    assert {"panda.urdf", "ur5_robot.urdf", "ur10_robot.urdf", "kinova.urdf"} <= names
    assert len(names & set(ARMS)) >= 10


@needs_data
@pytest.mark.parametrize(
    "path", [p for p in FILES if p.name not in BROKEN], ids=lambda path: path.stem
)
def test_masses_centres_inertias_and_placements(path: Path) -> None:
    robot = read_urdf(path)
    model = peer_of(path)
    compare(robot, model, positions(robot, np.random.default_rng(0)), tolerance(robot))


@needs_data
@pytest.mark.parametrize("path", [p for p in FILES if p.name in BROKEN], ids=lambda path: path.stem)
def test_files_that_describe_no_moving_robot_say_so(path: Path) -> None:
    with pytest.raises(DescriptionError, match=BROKEN[path.name]):
        read_urdf(path)


@needs_data
@pytest.mark.parametrize("path", [p for p in FILES if p.name in ARMS], ids=lambda path: path.stem)
def test_what_we_write_pinocchio_reads_alike(path: Path, tmp_path: Path) -> None:
    robot = read_urdf(path)
    written = tmp_path / path.name
    write_urdf(robot, written)
    assert md.load(written) == robot
    compare(robot, peer_of(written), positions(robot, np.random.default_rng(1)), 1e-9)


def test_limits_and_mimic_joints_agree() -> None:
    path = next((path for path in FILES if path.name == "panda.urdf"), None)
    if path is None:
        pytest.skip("the package example-robot-data is not installed")
    robot = read_urdf(path)
    model = peer_of(path)
    for joint in robot.joints:
        peer = model.joints[model.getJointId(joint.name)]
        assert joint.limits.lower == model.lowerPositionLimit[peer.idx_q]
        assert joint.limits.upper == model.upperPositionLimit[peer.idx_q]
        assert joint.limits.velocity == model.upperVelocityLimit[peer.idx_v]
        assert joint.limits.effort == model.upperEffortLimit[peer.idx_v]
    assert robot.n == 8
    assert robot.joints[-1].follows is not None
    assert robot.joints[-1].follows.terms == (("panda_finger_joint1", 1.0),)


def test_a_body_seen_from_another_frame_agrees() -> None:
    inertia, placement = pin.Inertia.Random(), pin.SE3.Random()
    ours = transform(from_pinocchio(inertia.toDynamicParameters()), placement.homogeneous)
    assert np.allclose(to_pinocchio(ours), placement.act(inertia).toDynamicParameters(), atol=1e-12)


@needs_data
@pytest.mark.parametrize(
    "path", [p for p in FILES if p.name in [*ARMS, ROUNDED]], ids=lambda path: path.stem
)
def test_methods_agree_on_base_parameters(path: Path) -> None:
    robot = read_urdf(path)
    exact = md.base_parameters(robot)
    rng = np.random.default_rng(0)
    phi = rng.normal(size=len(robot.layout))
    q, dq, ddq = rng.normal(size=(3, 20, robot.n))
    for method in ("qr", "svd", "mlc"):
        try:
            base = md.base_parameters(robot, method)
        except Unsupported:
            assert method == "mlc"
            assert len(robot.joints) > robot.n
            continue
        T = md.equivalence(exact, base, tolerance=1e-6 if path.name == ROUNDED else 1e-9)
        assert np.linalg.matrix_rank(T) == exact.rank
        if method != "mlc" and path.name != ROUNDED:  # there columns of equal size are kept
            assert base.kept == exact.kept
        assert not [notice for notice in base.notices if notice.level != "info"]
        understood = base.understood  # the file's special axes but for their rounding
        tau = md.inverse_dynamics(understood, q, dq, ddq, phi)
        again = md.inverse_dynamics(understood, q, dq, ddq, base.lift(base.values(phi)))
        limit = (
            1e-5 if path.name == ROUNDED else 1e-7
        )  # special axes are those of the file, rounded
        assert np.abs(again - tau).max() <= limit * np.abs(tau).max(), method
