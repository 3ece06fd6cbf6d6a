"""Who computes a simulated robot's accelerations, with and without what it picks up."""

from __future__ import annotations

from functools import partial

from minidyn.dynamics.functions import forward_dynamics
from minidyn.dynamics.kernel import compile_kernel
from minidyn.errors import UnknownName
from minidyn.experiment.integrate import Plant
from minidyn.experiment.payload import Payload
from minidyn.model.robot import Robot

__all__ = ["PLANTS", "Payload", "plants_of"]

PLANTS = ("minidyn", "regressor", "mujoco")
"""Who may compute the accelerations: our kernel, the paper's route through the regressor, or MuJoCo."""


def plants_of(robot: Robot, plant: str, payload: Payload | None, threads: int = 1) -> tuple[Plant, Plant]:
    """Return the accelerations of the robot as it is, and with its payload."""
    if plant not in PLANTS:
        raise UnknownName("plant", plant, PLANTS)
    loaded = robot if payload is None else payload.on(robot)
    if plant == "mujoco":
        from minidyn.experiment.mujoco_plant import mujoco_plant

        return mujoco_plant(robot), mujoco_plant(loaded)
    if plant == "regressor":
        from minidyn.dynamics.by_regressor import forward_dynamics_by_regressor

        return partial(forward_dynamics_by_regressor, robot), partial(forward_dynamics_by_regressor, loaded)
    if robot.implicit_loops:  # solved at every state: no kernel, but a function
        return partial(forward_dynamics, robot), partial(forward_dynamics, loaded)
    bare = compile_kernel(robot, "forward_dynamics", threads=threads)
    return bare, bare if payload is None else compile_kernel(loaded, "forward_dynamics", threads=threads)
