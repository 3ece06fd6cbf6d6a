"""Controllers by name, with gains that suit any robot, and simulations under them."""

from __future__ import annotations

from collections.abc import Sequence
from inspect import signature
from typing import Any

import numpy as np

from minidyn import control
from minidyn.control import Controller
from minidyn.dynamics.functions import inertia_matrix
from minidyn.errors import UnknownName
from minidyn.model.robot import Robot
from minidyn.recording.recording import Recording
from minidyn.simulation.simulate import simulate
from minidyn.simulation.trajectory import fourier

LAWS = ("computed_torque", "pd_gravity", "slotine_li", "modified_slotine_li", "craig")
"""Names of the controllers."""


def named_law(
    robot: Robot,
    name: str,
    *,
    bandwidth: float = 10.0,
    gain: float | None = None,
    adaptation: float = 0.01,
    unknown: Sequence[str] = (),
    model_error: float = 0.0,
    period: float = 1e-3,
) -> Controller:
    """Return a controller by name, with gains that suit the robot.

    Args:
        robot: The true robot.
        name: One of LAWS.
        bandwidth: 1/s.
        gain: Gain over each joint's own inertia, 1/s; None: twice the bandwidth.
        adaptation: Speed of adaptation, relative to the parameters' values.
        unknown: Parameters that adaptive laws estimate; none: all.
        model_error: How wrong the controller's model is: 0.2 is 20 %.
        period: Of control, s.
    """
    if name not in LAWS:
        raise UnknownName("controller", name, LAWS)
    model = robot.with_parameters((1.0 + model_error) * robot.parameters)
    if name == "computed_torque":
        return control.computed_torque(model, bandwidth=bandwidth, period=period)
    # gains in proportion to each joint's own inertia suit every robot
    q, _, _ = fourier(robot)(np.linspace(0, 10, 50))
    inertia = np.diagonal(inertia_matrix(robot, q), axis1=-2, axis2=-1).mean(axis=0)
    stiffness = (2 * bandwidth if gain is None else gain) * inertia
    if name == "pd_gravity":
        return control.pd_gravity(model, gain=bandwidth * stiffness, bandwidth=bandwidth, period=period)
    chosen = list(unknown) or None
    scale = adaptation * np.maximum(np.abs(_values_of(robot, chosen)), 1e-3)
    if name == "slotine_li":
        return control.slotine_li(
            model, bandwidth=bandwidth, gain=stiffness, adaptation=scale, unknown=chosen, period=period
        )
    if name == "modified_slotine_li":
        return control.modified_slotine_li(model, bandwidth=bandwidth, adaptation=scale, unknown=chosen, period=period)
    own = _values_of(model, chosen)
    spread = 0.9 * np.abs(own) + 1e-6
    return control.craig(
        model,
        bandwidth=bandwidth,
        adaptation=scale,
        unknown=chosen,
        lower=own - spread,
        upper=own + 4 * spread,
        period=period,
    )


def simulated(
    robot: Robot,
    *,
    duration: float = 10.0,
    controller: str = "computed_torque",
    dt: float = 1e-3,
    seed: int = 0,
    **options: Any,
) -> tuple[Recording, Controller]:
    """Simulate a robot on a random trajectory within its limits, under a controller.

    Args:
        robot: The true robot.
        duration: Seconds.
        controller: One of LAWS.
        dt: Step of integration and control, s.
        seed: Of the trajectory and the noise.
        **options: Options of the controller and of :func:`minidyn.simulate` that were given.
    """
    law = {name: options.pop(name) for name in signature(named_law).parameters if name in options}
    made = named_law(robot, controller, period=dt, **law)
    return simulate(robot, made, fourier(robot, seed=seed), duration, dt=dt, seed=seed, **options), made


def _values_of(robot: Robot, names: list[str] | None) -> Any:
    return robot.parameters if names is None else robot.parameters[list(robot.layout.indices(names))]
