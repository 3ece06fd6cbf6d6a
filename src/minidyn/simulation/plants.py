"""Who computes a simulated robot's accelerations, with and without what it picks up and what pushes
it.

MuJoCo as the plant: the same controller against an independent simulator.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from minidyn.arrays import Array
from minidyn.dynamics.drives import drive_states, memory_columns
from minidyn.dynamics.functions import forward_dynamics, jacobian
from minidyn.dynamics.kernel import compile_kernel
from minidyn.errors import ShapeError, UnknownName, Unsupported, optional
from minidyn.model.geometry import matrix_of
from minidyn.model.parameters import to_body
from minidyn.model.robot import Robot
from minidyn.simulation.payload import Payload

Plant = Callable[[Array, Array, Array], Array]
"""(q, dq, tau) -> ddq."""


@dataclass(frozen=True, eq=False)
class Push:
    """A constant force on a simulated robot.

    Attributes:
        time: When it begins, s.
        duration: How long it lasts, s.
        force: (3,), N, world axes.
        link: Link or frame whose origin it acts on; None: the last link.
    """

    time: float
    duration: float
    force: ArrayLike
    link: str | None = None

    def on(self, robot: Robot, plant: Plant, t: float) -> Plant:
        """Return the plant as it is at a time: with the force while it lasts."""
        force = np.asarray(self.force, dtype=float)
        if force.shape != (3,) or not np.isfinite(force).all():
            raise ShapeError(f"push: expected force of shape (3,), got {self.force!r}")
        if not self.time <= t < self.time + self.duration:
            return plant
        return lambda q, dq, tau: plant(
            q, dq, tau + force @ jacobian(robot, q, self.link)[..., 3:, :]
        )


def mujoco_plant(robot: Robot) -> Plant:
    """Return (q, dq, tau) -> ddq computed by MuJoCo's forward dynamics, damping and dry friction by
    its own solver.
    """
    mujoco = optional("mujoco")

    for joint in robot.joints:
        drive = joint.drive
        other = set(drive.friction) - {"viscous", "coulomb"}
        if joint.follows is not None or drive.coupling or drive.sign_width or other:
            raise Unsupported(
                f'plant="mujoco": joint {joint.name!r} has a leader, a coupling, a smoothing '
                "width, or drive terms "
                "besides viscous and Coulomb friction"
            )
    if robot.loops:
        raise Unsupported('plant="mujoco": loops are not modelled')
    spec = mujoco.MjSpec()
    spec.option.gravity = robot.gravity
    spec.compiler.autolimits = False
    root = spec.worldbody.add_body(
        pos=robot.base_placement[:3, 3], quat=_quaternion(robot.base_placement)
    )
    bodies: list[Any] = []
    for index, (joint, link, columns) in enumerate(
        zip(robot.joints, robot.links, robot.layout.drives)
    ):
        parent = root if joint.parent < 0 else bodies[joint.parent]
        placement = joint.placement
        body = parent.add_body(pos=placement[:3, 3], quat=_quaternion(placement))
        mass, com, inertia = to_body(link.parameters)
        moments, axes = np.linalg.eigh(inertia)
        axes = axes * np.linalg.det(axes)
        frame = np.eye(4)
        frame[:3, :3] = axes
        body.mass, body.ipos, body.inertia, body.iquat = mass, com, moments, _quaternion(frame)
        body.explicitinertial = True
        if joint.kind != "fixed":
            terms = {column.symbol: float(robot.parameters[column.index]) for column in columns}
            anchor = np.linalg.inv(matrix_of(joint.after))[:3, 3]
            body.add_joint(
                name=f"joint{index}",
                type=mujoco.mjtJoint.mjJNT_HINGE if joint.turns else mujoco.mjtJoint.mjJNT_SLIDE,
                pos=anchor,
                axis=joint.axis,
                armature=terms.get("Ia", 0.0),
                damping=terms.get("Fv", 0.0),
                frictionloss=terms.get("Fc", 0.0),
            )
        bodies.append(body)
    try:
        model = spec.compile()
    except ValueError as problem:  # a link that moves has no mass or no inertia
        raise Unsupported(f'plant="mujoco": {robot.name}: {str(problem).splitlines()[0]}') from None
    data = mujoco.MjData(model)
    # MuJoCo numbers joints branch by branch, we in the order of the description
    places = [int(model.joint(f"joint{index}").dofadr[0]) for index in robot.independent]

    def accelerations(q: Array, dq: Array, tau: Array) -> Array:
        data.qpos[places], data.qvel[places], data.qfrc_applied[places] = q, dq, tau
        mujoco.mj_forward(model, data)
        return np.array(data.qacc[places])

    return accelerations


def _quaternion(placement: Array) -> Array:
    mujoco = optional("mujoco")

    quaternion = np.empty(4)
    mujoco.mju_mat2Quat(quaternion, np.ascontiguousarray(placement[:3, :3]).ravel())
    return quaternion


PLANTS = ("minidyn", "regressor", "mujoco")
"""Who may compute the accelerations.

Our kernel, the paper's route through the regressor, or MuJoCo.
"""


class RememberingPlant:
    """(q, dq, tau) -> ddq of a robot whose drives remember.

    States are held during a step and go on after it. Several plants may share the states: of the
    robot with and without its payload.
    """

    def __init__(
        self, robot: Robot, kernel: Callable[..., Array], states: dict[str, Array]
    ) -> None:
        self.robot, self.kernel, self.states = robot, kernel, states

    def __call__(self, q: Array, dq: Array, tau: Array) -> Array:
        """Return the accelerations with the states of now.

        Before the first motion they are zero.
        """
        now = self.states.setdefault(
            "now", np.zeros((*q.shape[:-1], len(memory_columns(self.robot))))
        )
        return np.asarray(self.kernel(q, dq, tau, now))

    def moved(self, before: Array, after: Array, step: float) -> None:
        """Take in that the robot moved from one position (..., n) to another in so many seconds."""
        now, n = self.states["now"], before.shape[-1]
        pairs = zip(before.reshape(-1, n), after.reshape(-1, n), now.reshape(-1, now.shape[-1]))
        states = [
            drive_states(self.robot, there[None], (here, old), step=step)[0]
            for here, there, old in pairs
        ]
        self.states["now"] = np.array(states).reshape(now.shape)


def plants_of(
    robot: Robot, plant: str, payload: Payload | None, threads: int = 1
) -> tuple[Plant, Plant]:
    """Return the accelerations of the robot as it is, and with its payload."""
    if plant not in PLANTS:
        raise UnknownName("plant", plant, PLANTS)
    loaded = robot if payload is None else payload.on(robot)
    if plant == "mujoco":
        return mujoco_plant(robot), mujoco_plant(loaded)
    if memory_columns(robot):
        if plant != "minidyn" or robot.implicit_loops:
            raise Unsupported(
                "simulate: drives with presliding or breakaway have a state, which only "
                'plant="minidyn" knows'
            )
        states: dict[str, Array] = {}
        made = {
            one: compile_kernel(one, "forward_dynamics", threads=threads, memory=True)
            for one in (robot, loaded)
        }
        return RememberingPlant(robot, made[robot], states), RememberingPlant(
            loaded, made[loaded], states
        )
    if plant == "regressor":
        from minidyn.dynamics.papers.by_regressor import forward_dynamics_by_regressor

        return partial(forward_dynamics_by_regressor, robot), partial(
            forward_dynamics_by_regressor, loaded
        )
    if robot.implicit_loops:  # solved at every state: no kernel, but a function
        return partial(forward_dynamics, robot), partial(forward_dynamics, loaded)
    bare = compile_kernel(robot, "forward_dynamics", threads=threads)
    return bare, bare if payload is None else compile_kernel(
        loaded, "forward_dynamics", threads=threads
    )
