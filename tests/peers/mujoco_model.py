"""A robot as MuJoCo sees it.

MJCF text made here from the robot's placements, not by the library's own writers.
"""

from __future__ import annotations

from xml.sax.saxutils import quoteattr

import mujoco
import numpy as np
from numpy.typing import NDArray

from minidyn.model.geometry import inverse_steps, matrix_of
from minidyn.model.parameters import to_mujoco
from minidyn.model.robot import Robot
from robot_cases import all_joint_map

Array = NDArray[np.float64]


class MujocoRobot:
    """MuJoCo's model of a robot: all joints free, followers by projection.

    Rotors and damping where it has them.
    """

    def __init__(self, robot: Robot) -> None:
        self.robot = robot
        gravity = _numbers(robot.gravity)
        base = matrix_of(robot.base)
        self.model = mujoco.MjModel.from_xml_string(
            '<mujoco><compiler angle="radian" inertiafromgeom="false"/>'
            f'<option gravity="{gravity}"><flag contact="disable" energy="enable"/></option>'
            f"<worldbody><body {_place(base)}>{_children(robot, -1)}</body></worldbody></mujoco>"
        )
        self.data = mujoco.MjData(self.model)
        self.moving = [index for index, joint in enumerate(robot.joints) if joint.kind != "fixed"]
        self.places = [self.model.joint(f"joint{index}").dofadr[0] for index in self.moving]
        self.G, self.offset = all_joint_map(robot)

    def _set(self, q: Array, dq: Array | None = None, ddq: Array | None = None) -> None:
        every = self.G @ q + self.offset
        self.data.qpos[self.places] = every[self.moving]
        for target, values in ((self.data.qvel, dq), (self.data.qacc, ddq)):
            target[:] = 0.0
            if values is not None:
                target[self.places] = (self.G @ values)[self.moving]

    def _gather(self, values: Array) -> Array:
        every = np.zeros((len(self.robot.joints), *values.shape[1:]))
        every[self.moving] = values[self.places]
        return every

    def inverse_dynamics(self, q: Array, dq: Array, ddq: Array) -> Array:
        """Links, rotor inertia and viscous friction."""
        self._set(q, dq, ddq)
        mujoco.mj_inverse(self.model, self.data)
        return self.G.T @ self._gather(self.data.qfrc_inverse)

    def inertia_matrix(self, q: Array) -> Array:
        self._set(q)
        mujoco.mj_forward(self.model, self.data)
        M = np.zeros((self.model.nv, self.model.nv))
        mujoco.mj_fullM(self.model, self.data, M)
        return self.G.T @ self._gather(self._gather(M).T).T @ self.G

    def energy(self, q: Array, dq: Array) -> tuple[float, float]:
        self._set(q, dq)
        mujoco.mj_forward(self.model, self.data)
        return self.data.energy[1], self.data.energy[0]

    def forward_dynamics(self, q: Array, dq: Array, tau: Array) -> Array:
        """For robots without followers."""
        self._set(q, dq)
        self.data.qfrc_applied[self.places] = (self.G @ tau)[self.moving]
        mujoco.mj_forward(self.model, self.data)
        return self.G.T @ self._gather(self.data.qacc)

    def placement(self, q: Array, link: int) -> Array:
        self._set(q)
        mujoco.mj_kinematics(self.model, self.data)
        body = self.data.body(f"link{link}")
        T = np.eye(4)
        T[:3, :3], T[:3, 3] = body.xmat.reshape(3, 3), body.xpos
        return T

    def jacobian(self, q: Array, link: int) -> Array:
        """Angular rows first."""
        self._set(q)
        mujoco.mj_kinematics(self.model, self.data)
        mujoco.mj_comPos(self.model, self.data)
        linear, angular = np.zeros((2, 3, self.model.nv))
        mujoco.mj_jacBody(self.model, self.data, linear, angular, self.model.body(f"link{link}").id)
        return self._gather(np.vstack([angular, linear]).T).T @ self.G


def _children(robot: Robot, link: int) -> str:
    text = ""
    for index, joint in enumerate(robot.joints):
        if joint.parent != link:
            continue
        text += f'<body name="link{index}" {_place(joint.placement)}>'
        if joint.kind != "fixed":
            anchor = matrix_of(inverse_steps(joint.after))[:3, 3]
            drive = {c.symbol: float(robot.parameters[c.index]) for c in robot.layout.drives[index]}
            text += (
                f'<joint name="joint{index}" type="{"hinge" if joint.turns else "slide"}" '
                f'pos="{_numbers(anchor)}" axis="{_numbers(joint.axis)}" '
                f'armature="{drive.get("Ia", 0.0)!r}" damping="{drive.get("Fv", 0.0)!r}"/>'
            )
        mass, com, inertia = to_mujoco(robot.parameters[robot.layout.links[index]])
        text += (
            f'<inertial mass="{mass!r}" pos="{_numbers(com)}" fullinertia="{_numbers(inertia)}"/>'
        )
        text += _children(robot, index) + "</body>"
    return text


def _place(T: Array) -> str:
    quat = np.zeros(4)
    mujoco.mju_mat2Quat(quat, np.ascontiguousarray(T[:3, :3]).ravel())
    return f"pos={quoteattr(_numbers(T[:3, 3]))} quat={quoteattr(_numbers(quat))}"


def _numbers(values: Array) -> str:
    return " ".join(repr(float(value)) for value in values)
