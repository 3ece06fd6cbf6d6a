"""Controllers by name, with gains that suit any robot, and simulations under them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from inspect import signature
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from minidyn import control
from minidyn.control import Controller
from minidyn.control.controller import gain_matrix, gain_vector
from minidyn.control.unknowns import unknowns_of
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
    bandwidth: ArrayLike = 10.0,
    gain: ArrayLike | None = None,
    adaptation: ArrayLike = 0.01,
    kp: ArrayLike | None = None,
    kv: ArrayLike | None = None,
    psi: ArrayLike | None = None,
    composite: ArrayLike = 0.0,
    cutoff: float = 5.0,
    unknown: Sequence[str] = (),
    model_error: float = 0.0,
    period: float = 1e-3,
) -> Controller:
    """Return the controller of this name (LAWS), with gains that suit the true robot.

    Args:
        robot: The true robot.
        name: One of LAWS.
        bandwidth: 1/s: a number, one for each joint, or a matrix (n, n).
        gain: Over each joint's own inertia, 1/s, in the same forms; None: twice the bandwidth, and
            for the modified law its own M̂ Λ.
        adaptation: Speed of adaptation, relative to the parameters' values: a number, one for each
            unknown, or a matrix (k, k).
        kp: Craig's Kp, 1/s², a number or one for each joint; None: from the bandwidth, as kv and
            psi.
        kv: Craig's Kv, 1/s.
        psi: Craig's Ψ, 1/s.
        composite: Weight of the prediction error of the filtered torque, for both Slotine-Li laws;
            0: none.
        cutoff: Of that filter, Hz.
        unknown: Names of what adaptive laws estimate: standard parameters (M4), those of LuMeng1993
            (m4, mpx4), or load; none: all standard ones.
        model_error: 0.2 makes the controller's model wrong by 20 %.
        period: Sampling period, s.
    """
    if name not in LAWS:
        raise UnknownName("controller", name, LAWS)
    model = robot.with_parameters((1.0 + model_error) * robot.parameters)
    if name == "computed_torque":
        return control.computed_torque(model, bandwidth=bandwidth, period=period)
    # gains in proportion to each joint's own inertia suit every robot
    q, _, _ = fourier(robot)(np.linspace(0, 10, 50))
    root = np.sqrt(np.diagonal(inertia_matrix(robot, q), axis1=-2, axis2=-1).mean(axis=0))
    rate = gain_matrix("bandwidth", bandwidth, robot.n)
    stiffness = (
        root[:, None] * (2 * rate if gain is None else gain_matrix("gain", gain, robot.n)) * root
    )
    if name == "pd_gravity":
        pole = gain_vector("bandwidth", bandwidth, robot.n)
        return control.pd_gravity(
            model, gain=pole * np.diagonal(stiffness), bandwidth=pole, period=period
        )
    asked = list(unknown) or None
    unknowns = unknowns_of(robot, asked, None, None)
    size = np.sqrt(unknowns.scale)
    scale = size[:, None] * gain_matrix("adaptation", adaptation, len(size)) * size
    common: dict[str, Any] = {
        "bandwidth": bandwidth,
        "period": period,
        "adaptation": scale,
        "unknown": asked,
    }
    filtered: dict[str, Any] = {"composite": composite, "cutoff": cutoff}
    if name == "slotine_li":
        return control.slotine_li(model, gain=stiffness, **common, **filtered)
    if name == "modified_slotine_li":
        return control.modified_slotine_li(
            model, gain=None if gain is None else stiffness, **common, **filtered
        )
    own = unknowns_of(model, asked, None, None).start
    spread = 0.9 * np.abs(own) + np.where(unknowns.added, unknowns.scale, 1e-6)
    low = np.where(
        [word == "m_load" for word in unknowns.names], 0.0, own - spread
    )  # no load weighs less than nothing
    return control.craig(model, kp=kp, kv=kv, psi=psi, lower=low, upper=own + 4 * spread, **common)


def simulated(
    robot: Robot,
    *,
    duration: float = 10.0,
    controller: str = "computed_torque",
    dt: float = 1e-3,
    seed: int = 0,
    **options: Any,
) -> tuple[Recording, Controller]:
    """Simulate a robot on a random trajectory within its limits, under a controller of LAWS that
    acts every dt.

    It is a log to practise with: like one of a real robot it has no accelerations. The seed is that
    of trajectory and noise; options are those of the controller and of :func:`minidyn.simulate`.
    """
    law = {name: options.pop(name) for name in signature(named_law).parameters if name in options}
    made = named_law(robot, controller, period=dt, **law)
    log = simulate(robot, made, fourier(robot, seed=seed), duration, dt=dt, seed=seed, **options)
    return replace(log, ddq=None), made
