"""A robot as Pinocchio sees it, built joint by joint, and its results carried to the robot's own
coordinates.

Pinocchio wants joints depth first, knows no followers in its regressor, no coupled drives and no
link frames away from joints: order, projection and frames are worked out here, independently of the
library.
"""

from __future__ import annotations

import numpy as np
import pinocchio as pin
from numpy.typing import NDArray

from minidyn.model.geometry import matrix_of
from minidyn.model.parameters import from_pinocchio, tensor, transform
from minidyn.model.robot import Robot
from robot_cases import all_joint_map

Array = NDArray[np.float64]


class PinocchioRobot:
    """Pinocchio's model of a robot: all joints free, followers by projection."""

    def __init__(self, robot: Robot) -> None:
        self.robot = robot
        self.model = pin.Model()
        self.model.gravity.linear = robot.gravity.copy()
        self.ids = [0] * len(robot.joints)  # Pinocchio's joint that carries each link
        self.offsets = [pin.SE3.Identity() for _ in robot.joints]  # link frame on it
        self.frames = [0] * len(robot.joints)
        for index in _depth_first(robot):
            self._add(index)
        self.data = self.model.createData()
        self.places = [
            self.model.idx_vs[self.ids[i]]
            for i, joint in enumerate(robot.joints)
            if joint.kind != "fixed"
        ]
        self.moving = [i for i, joint in enumerate(robot.joints) if joint.kind != "fixed"]
        self.G, self.offset = all_joint_map(robot)
        self.rotors, self.coupled = _rotor_matrices(robot)
        for index, place in zip(self.moving, self.places):
            self.model.armature[place] = self.rotors[index, index]

    def _add(self, index: int) -> None:
        joint = self.robot.joints[index]
        if joint.parent < 0:
            carrier, placed = 0, pin.SE3(matrix_of(self.robot.base))
        else:
            carrier, placed = self.ids[joint.parent], self.offsets[joint.parent]
        placement = placed * pin.SE3(matrix_of(joint.before))
        after = pin.SE3(matrix_of(joint.after))
        if joint.kind == "fixed":
            self.ids[index], self.offsets[index] = carrier, placement * after
        else:
            axis = joint.direction * np.eye(3)["xyz".index(joint.motion[1])]
            kind = (
                pin.JointModelRevoluteUnaligned if joint.turns else pin.JointModelPrismaticUnaligned
            )
            self.ids[index] = self.model.addJoint(carrier, kind(axis), placement, f"{index}")
            self.offsets[index] = after
        ten = self.robot.parameters[self.robot.layout.links[index]]
        inertia = pin.Inertia(ten[9], ten[6:9] / ten[9], _about_com(ten))
        self.model.appendBodyToJoint(self.ids[index], inertia, self.offsets[index])
        frame = pin.Frame(
            f"link {index}", self.ids[index], self.offsets[index], pin.FrameType.OP_FRAME
        )
        self.frames[index] = self.model.addFrame(frame)

    # ------------------------------------------------------------ all joints, Pinocchio's order

    def _spread(self, values: Array, offset: bool = False) -> Array:
        every = self.G @ values + (self.offset if offset else 0.0)
        placed = np.zeros(self.model.nv)
        placed[self.places] = every[self.moving]
        return placed

    def _gather(self, values: Array) -> Array:
        """Rows of all joints in the robot's order; loads have none."""
        every = np.zeros((len(self.robot.joints), *values.shape[1:]))
        every[self.moving] = values[self.places]
        return every

    def state(self, q: Array, *rates: Array) -> tuple[Array, ...]:
        return self._spread(q, offset=True), *(self._spread(rate) for rate in rates)

    # ---------------------------------------------------------- what minidyn computes, by Pinocchio

    def inverse_dynamics(self, q: Array, dq: Array, ddq: Array) -> Array:
        tau = self._gather(pin.rnea(self.model, self.data, *self.state(q, dq, ddq)))
        return self.G.T @ (tau + self.coupled @ (self.G @ ddq) + self.friction(dq))

    def friction(self, dq: Array) -> Array:
        """Friction of all joints, from the definition.

        Drives turn with v = C dq_all and load joints through Cᵀ.
        """
        C = _drive_map(self.robot)
        v = C @ (self.G @ dq)
        load = np.zeros(len(v))
        for joint, columns in enumerate(self.robot.layout.drives):
            for column in columns:
                unit = {"Ia": 0.0, "Fv": v[joint], "Fc": np.sign(v[joint]), "Fo": 1.0}[
                    column.symbol
                ]
                load[joint] += self.robot.parameters[column.index] * unit
        return C.T @ load

    def gravity_torque(self, q: Array) -> Array:
        return self.G.T @ self._gather(
            pin.computeGeneralizedGravity(self.model, self.data, *self.state(q))
        )

    def inertia_matrix(self, q: Array) -> Array:
        M = pin.crba(self.model, self.data, *self.state(q))
        M = np.triu(M) + np.triu(M, 1).T
        every = self._gather(self._gather(M).T).T
        return self.G.T @ (every + self.coupled) @ self.G

    def coriolis_matrix(self, q: Array, dq: Array) -> Array:
        C = pin.computeCoriolisMatrix(self.model, self.data, *self.state(q, dq))
        return self.G.T @ self._gather(self._gather(C).T).T @ self.G

    def forward_dynamics(self, q: Array, dq: Array, tau: Array) -> Array:
        bias = self.inverse_dynamics(q, dq, np.zeros_like(dq))
        return np.linalg.solve(self.inertia_matrix(q), tau - bias)

    def inverse_dynamics_derivatives(
        self, q: Array, dq: Array, ddq: Array
    ) -> tuple[Array, Array, Array]:
        pin.computeRNEADerivatives(self.model, self.data, *self.state(q, dq, ddq))
        by_q, by_dq = (
            self.G.T @ self._gather(self._gather(self._square(part)).T).T @ self.G
            for part in (self.data.dtau_dq, self.data.dtau_dv)
        )
        return by_q, by_dq + self.viscous(), self.inertia_matrix(q)

    def forward_dynamics_derivatives(
        self, q: Array, dq: Array, tau: Array
    ) -> tuple[Array, Array, Array]:
        """Pinocchio's own, for robots without followers and coupled drives."""
        every = self.state(q, dq, tau - self.G.T @ self.friction(dq))
        pin.computeABADerivatives(self.model, self.data, *every)
        by_q, by_dq, inverse = (
            self._gather(self._gather(self._square(part)).T).T
            for part in (self.data.ddq_dq, self.data.ddq_dv, self.data.Minv)
        )
        inverse = np.where(inverse == 0.0, inverse.T, inverse)  # one triangle is filled
        own = self.G.T @ inverse @ self.G
        return (
            self.G.T @ by_q @ self.G,
            self.G.T @ by_dq @ self.G - own @ self.viscous(),
            own,
        )

    def _square(self, part: Array) -> Array:
        """One row comes back as a vector."""
        return np.array(part).reshape(self.model.nv, self.model.nv)

    def viscous(self) -> Array:
        """The slope of the friction by the speeds (n, n)."""
        n = self.G.shape[1]
        each = [self.friction(unit) - self.friction(2.0 * unit) for unit in np.eye(n)]
        return -(self.G.T @ np.array(each).T)

    def articulated_body(self, q: Array, dq: Array, tau: Array) -> Array:
        """Pinocchio's own forward dynamics, for robots without followers and coupled drives."""
        free = self.G.T @ self.friction(dq)
        return self.G.T @ self._gather(
            pin.aba(self.model, self.data, *self.state(q, dq, tau - free))
        )

    def energy(self, q: Array, dq: Array) -> tuple[float, float]:
        armature = self.model.armature.copy()
        self.model.armature[:] = (
            0.0  # Pinocchio 4.1 counts its energy for some kinds of joints only
        )
        every, speeds = self.state(q, dq)
        kinetic = pin.computeKineticEnergy(self.model, self.data, every, speeds)
        potential = pin.computePotentialEnergy(self.model, self.data, every)
        self.model.armature[:] = armature
        speed = self.G @ dq
        return kinetic + 0.5 * speed @ (self.rotors + self.coupled) @ speed, potential

    def regressor(self, q: Array, dq: Array, ddq: Array) -> Array:
        """All link columns; Pinocchio's has no others."""
        Y = pin.computeJointTorqueRegressor(self.model, self.data, *self.state(q, dq, ddq))
        Y = self._gather(Y.reshape(self.model.nv, -1))  # one row comes back as a vector
        columns = []
        for carrier, placed in zip(self.ids, self.offsets):
            block = from_pinocchio(Y[:, 10 * (carrier - 1) : 10 * carrier])
            seen = np.stack([transform(unit, placed.homogeneous) for unit in np.eye(10)], axis=1)
            columns.append(block @ seen)
        return np.stack([self.G.T @ column for column in columns])

    def placement(self, q: Array, link: int) -> Array:
        pin.forwardKinematics(self.model, self.data, *self.state(q))
        return pin.updateFramePlacement(self.model, self.data, self.frames[link]).homogeneous

    def jacobian(self, q: Array, link: int) -> Array:
        """Angular rows first, world axes, at the link's origin."""
        frame, axes = self.frames[link], pin.ReferenceFrame.LOCAL_WORLD_ALIGNED
        J = pin.computeFrameJacobian(self.model, self.data, *self.state(q), frame, axes).reshape(
            6, -1
        )
        return self._gather(np.vstack([J[3:], J[:3]]).T).T @ self.G


def _about_com(ten: Array) -> Array:
    com = ten[6:9] / ten[9]
    return tensor(ten) - ten[9] * (com @ com * np.eye(3) - np.outer(com, com))


def _depth_first(robot: Robot) -> list[int]:
    order: list[int] = []

    def visit(link: int) -> None:
        for index, joint in enumerate(robot.joints):
            if joint.parent == link:
                order.append(index)
                visit(index)

    visit(-1)
    return order


def _drive_map(robot: Robot) -> Array:
    """Return C with drive speeds = C dq_all."""
    C = np.eye(len(robot.joints))
    for index, joint in enumerate(robot.joints):
        for other, coefficient in joint.drive.coupling:
            C[index, robot.joint_index(other)] += coefficient
    return C


def _rotor_matrices(robot: Robot) -> tuple[Array, Array]:
    """Return the rotors' inertia of all joints as (what armature can hold, the rest)."""
    C = _drive_map(robot)
    own, coupled = np.zeros((2, *C.shape))
    for joint, columns in enumerate(robot.layout.drives):
        for column in columns:
            if column.symbol == "Ia":
                kept = coupled if robot.joints[joint].drive.coupling else own
                kept += robot.parameters[column.index] * np.outer(C[joint], C[joint])
    return own, coupled
