"""Robots with a free base agree with Pinocchio's free-flyer, on every robot of example-robot-data.

Pinocchio's model is built joint by joint from the robot as it was read: files round angles, which
are right angles here. One robot is also compared with what Pinocchio reads from the file itself.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from test_example_robot_data import BROKEN, FILES, needs_data

import minidyn as md
from conftest import LONG
from free_base_cases import smooth_motion
from minidyn.model.geometry import matrix_of
from minidyn.model.parameters import from_pinocchio, tensor, transform
from minidyn.model.robot import Robot

pin = pytest.importorskip("pinocchio", reason="Pinocchio (pip install pin) is not installed")
Array = NDArray[np.float64]

SAMPLE = ("solo12.urdf", "talos_full_v2.urdf", "anymal.urdf")  # of every run; the others are long
ROBOTS = [path for path in FILES if path.name not in BROKEN and (LONG or path.name in SAMPLE)]


class FreeFlyer:
    """Pinocchio's model of a robot with a free base: all joints free, followers by projection."""

    def __init__(self, robot: Robot) -> None:
        self.robot, self.model = robot, pin.Model()
        self.model.gravity.linear = robot.gravity.copy()
        self.ids: list[int] = [0] * len(robot.joints)
        self.offsets = [pin.SE3.Identity() for _ in robot.joints]
        for index in self._depth_first(-1):
            self._add(index)
        self.data = self.model.createData()
        moving = [k for k, joint in enumerate(robot.joints) if joint.kind not in ("fixed",)]
        rows = [self.model.idx_vs[self.ids[k]] for k in moving[1:]]
        self.rows = [*range(6), *rows]
        self.G = np.zeros((self.model.nv, robot.n))
        self.G[range(6), range(6)] = 1.0
        self.offset = np.zeros(self.model.nv)
        column = {name: k for k, name in enumerate(robot.joint_names)}
        for k, row in zip(moving[1:], rows):
            joint = robot.joints[k]
            if joint.follows is None:
                self.G[row, column[joint.name]] = 1.0
                continue
            self.offset[row] = joint.follows.offset
            for name, ratio in joint.follows.terms:
                self.G[row, column[name]] = ratio

    def _depth_first(self, link: int) -> list[int]:
        found = []
        for index, joint in enumerate(self.robot.joints):
            if joint.parent == link:
                found += [index, *self._depth_first(index)]
        return found

    def _add(self, index: int) -> None:
        joint = self.robot.joints[index]
        if joint.floats:
            self.ids[index] = self.model.addJoint(
                0, pin.JointModelFreeFlyer(), pin.SE3(matrix_of(joint.before)), joint.name
            )
        else:
            carrier = self.ids[joint.parent]
            placement = self.offsets[joint.parent] * pin.SE3(matrix_of(joint.before))
            axis = joint.direction * np.eye(3)["xyz".index(joint.motion[1])]
            turns, slides = pin.JointModelRevoluteUnaligned, pin.JointModelPrismaticUnaligned
            kind = turns(axis) if joint.turns else slides(axis)
            self.ids[index] = self.model.addJoint(carrier, kind, placement, joint.name)
            self.offsets[index] = pin.SE3(matrix_of(joint.after))
        ten = self.robot.parameters[self.robot.layout.links[index]]
        body = pin.Inertia.Zero()  # set part by part: files hold bodies that cannot exist
        body.mass = ten[9]
        body.lever = com = ten[6:9] / max(ten[9], 1e-300)
        body.inertia = tensor(ten) - ten[9] * (com @ com * np.eye(3) - np.outer(com, com))
        self.model.appendBodyToJoint(self.ids[index], body, self.offsets[index])

    def position(self, q: Array) -> Array:
        """Return Pinocchio's configuration: the joints in its own order behind the base."""
        every = self.G[:, 6:] @ q[7:] + self.offset
        return np.concatenate([q[:7], every[6:]])

    def regressor(self, q: Array, dq: Array, ddq: Array) -> Array:
        """Return the rows (n, p) of all link columns."""
        Y = pin.computeJointTorqueRegressor(
            self.model, self.data, self.position(q), self.G @ dq, self.G @ ddq
        )
        columns = []
        for carrier, placed in zip(self.ids, self.offsets):
            block = from_pinocchio(Y[:, 10 * (carrier - 1) : 10 * carrier])
            columns.append(
                block @ np.stack([transform(u, placed.homogeneous) for u in np.eye(10)]).T
            )
        return self.G.T @ np.hstack(columns)


def free_robot(path: Path) -> Robot:
    """Return a robot of the package with a free base, without drives; unknown bodies massless."""
    robot = md.load(path, free_base=True).with_drives(False, ())
    return robot.with_parameters(np.nan_to_num(robot.parameters))


def random_state(robot: Robot, rng: np.random.Generator) -> tuple[Array, ...]:
    """Return q, and rates for dq, ddq and tau, of a robot with a free base."""
    quaternion = rng.normal(size=4)
    q = np.concatenate(
        [
            rng.normal(size=3),
            quaternion / np.linalg.norm(quaternion),
            rng.uniform(-2.0, 2.0, robot.nq - 7),
        ]
    )
    return q, *rng.normal(size=(3, robot.n))


def assert_close(ours: Array, theirs: Array, within: float = 1e-12) -> None:
    """Compare against the largest entry."""
    assert np.abs(ours - theirs).max() <= within * np.abs(theirs).max()


@needs_data
@pytest.mark.parametrize("path", ROBOTS, ids=lambda path: f"{path.parts[-3]}-{path.stem}")
def test_every_function_agrees(path: Path) -> None:
    robot = free_robot(path)
    peer = FreeFlyer(robot)
    model, data, G = peer.model, peer.data, peer.G
    q, dq, ddq, tau = random_state(robot, np.random.default_rng(0))
    x, dx = peer.position(q), G @ dq
    torque = G.T @ pin.rnea(model, data, x, dx, G @ ddq)
    assert_close(md.inverse_dynamics(robot, q, dq, ddq), torque)
    gravity = G.T @ pin.computeGeneralizedGravity(model, data, x)
    assert_close(md.gravity_torque(robot, q), gravity)
    M = pin.crba(model, data, x)
    M = G.T @ (np.triu(M) + np.triu(M, 1).T) @ G
    assert_close(md.inertia_matrix(robot, q), M)
    C = G.T @ pin.computeCoriolisMatrix(model, data, x, dx) @ G
    assert_close(md.coriolis_matrix(robot, q, dq), C)
    A = pin.computeCentroidalMap(model, data, x) @ G
    assert_close(md.centroidal_momentum_matrix(robot, q), A)
    kinetic, potential = md.energy(robot, q, dq)
    assert kinetic == pytest.approx(pin.computeKineticEnergy(model, data, x, dx), rel=1e-12)
    height = pin.computePotentialEnergy(model, data, x)
    assert potential == pytest.approx(height, rel=1e-12, abs=1e-12 * M[0, 0])
    assert_close(md.regressor(robot, q, dq, ddq), peer.regressor(q, dq, ddq))
    there = pin.integrate(model, x, 0.1 * dx)[:7]
    assert_close(md.integrate(robot, q, 0.1 * dq)[:7], there)
    if np.linalg.cond(M) > 1e12:  # fingers without any mass: their acceleration has no bound
        return
    acceleration = md.forward_dynamics(robot, q, dq, tau)
    again = G.T @ pin.rnea(model, data, x, dx, G @ acceleration)
    # the residual against the terms that it is a sum of
    size = np.abs(G.T @ pin.rnea(model, data, x, dx, 0 * dx)).max() + np.abs(tau).max()
    size = max(size, (np.abs(M) @ np.abs(acceleration)).max())
    assert np.abs(again - tau).max() <= 1e-12 * size


@needs_data
@pytest.mark.parametrize("path", ROBOTS, ids=lambda path: f"{path.parts[-3]}-{path.stem}")
def test_exact_ranks_are_those_of_its_regressor(path: Path) -> None:
    """Of columns of one length; robots whose rank double precision leaves open are left out."""
    robot = free_robot(path)
    peer, rng = FreeFlyer(robot), np.random.default_rng(1)
    samples = -(-2 * len(robot.layout) // robot.n) + 10
    states = (random_state(robot, rng)[:3] for _ in range(samples))
    W = np.vstack([peer.regressor(*state) for state in states])
    lengths = np.linalg.norm(W, axis=0)
    values = np.linalg.svd(W / np.where(lengths > 0, lengths, 1.0), compute_uv=False)
    rank = md.base_parameters(robot).rank
    if rank < len(values) and values[rank - 1] < 1e3 * values[rank]:
        assert values[rank - 1] < 1e-8 * values[0]  # else the gap is plain elsewhere
        return
    assert values[rank - 1] > 1e-9 * values[0]
    assert rank == len(values) or values[rank] < 1e-9 * values[0]


@needs_data
def test_a_robot_read_by_both_from_its_file_agrees() -> None:
    path = next((path for path in FILES if path.name == "solo12.urdf"), None)
    if path is None:
        pytest.skip("this release of the package has no solo12.urdf")
    robot = md.load(path, free_base=True).with_drives(False, ())
    model = pin.buildModelFromUrdf(str(path), pin.JointModelFreeFlyer())
    assert list(model.names[2:]) == list(robot.joint_names[6:])
    q, dq, ddq, _ = random_state(robot, np.random.default_rng(2))
    torque = pin.rnea(model, model.createData(), q, dq, ddq)
    assert_close(md.inverse_dynamics(robot, q, dq, ddq), torque)


@needs_data
@pytest.mark.long
def test_a_humanoid_is_identified_from_the_rows_of_its_base() -> None:
    """29 joints, none of whose torques are measured: mass within 1 %, another motion within 1 %."""
    path = next((path for path in FILES if path.name == "g1_29dof_rev_1_0.urdf"), None)
    if path is None:
        pytest.skip("this release of the package has no g1_29dof_rev_1_0.urdf")
    robot = free_robot(path)
    log, test = smooth_motion(robot, 1, 4000), smooth_motion(robot, 2, 500)
    assert log.tau is not None
    assert test.tau is not None
    tau = log.tau + 0.2 * np.random.default_rng(1).normal(size=log.tau.shape)
    tau[:, 6:] = np.nan
    log = md.Recording(log.t, log.q, tau, log.dq, log.ddq, log.joint_names)
    of_data = md.identify(robot, log, "wls", friction=(), consistent=False)
    true = of_data.base.values(robot.parameters)
    assert 0.9 < np.mean(np.abs(of_data.beta - true) < 1.96 * of_data.std) < 0.98
    est = md.identify(robot.with_parameters(1.15 * robot.parameters), log)
    total = sum(link.mass for link in robot.links)
    assert sum(link.mass for link in est.robot.links) == pytest.approx(total, rel=0.01)
    assert np.linalg.norm(est.predict(test) - test.tau) < 0.01 * np.linalg.norm(test.tau)
