"""Controllers by name, with gains that suit any robot, and simulations under them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
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
    """Return the controller of this name (LAWS), with gains that suit the true robot.

    The bandwidth is in 1/s, as is the gain over each joint's own inertia (None: twice the bandwidth). The speed of
    adaptation is relative to the parameters' values; adaptive laws estimate the unknown parameters (none: all). A model
    error of 0.2 makes the controller's model wrong by 20 %. The period is in s.
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
    places = list(robot.layout.indices(list(unknown) or robot.parameter_names))
    scale = adaptation * np.maximum(np.abs(robot.parameters[places]), 1e-3)
    common: dict[str, Any] = {"bandwidth": bandwidth, "period": period, "adaptation": scale}
    common["unknown"] = list(unknown) or None
    if name == "slotine_li":
        return control.slotine_li(model, gain=stiffness, **common)
    if name == "modified_slotine_li":
        return control.modified_slotine_li(model, **common)
    own = model.parameters[places]
    spread = 0.9 * np.abs(own) + 1e-6
    return control.craig(model, lower=own - spread, upper=own + 4 * spread, **common)


def simulated(
    robot: Robot,
    *,
    duration: float = 10.0,
    controller: str = "computed_torque",
    dt: float = 1e-3,
    seed: int = 0,
    **options: Any,
) -> tuple[Recording, Controller]:
    """Simulate a robot on a random trajectory within its limits, under a controller of LAWS that acts every dt.

    It is a log to practise with: like one of a real robot it has no accelerations. The seed is that of trajectory and
    noise; options are those of the controller and of :func:`minidyn.simulate`.
    """
    law = {name: options.pop(name) for name in signature(named_law).parameters if name in options}
    made = named_law(robot, controller, period=dt, **law)
    log = simulate(robot, made, fourier(robot, seed=seed), duration, dt=dt, seed=seed, **options)
    return replace(log, ddq=None), made
