"""Regressors of a recording without accelerations: filtered, momentum, energy and power forms.

Torque is the rate of something measured plus something measured: tau = dW/dt θ + Ŷ θ with the momentum W θ, and
dqᵀ tau = dh/dt θ + friction power with the energy h θ. Integrating over windows, or passing both sides through one
low-pass a / (s + a), leaves relations that are exact in θ and need q, dq and tau alone:

    window:    W(end) - W(begin) + ∫ Ŷ dt = ∫ tau dt
    filter:    a (W - W_f) + Ŷ_f          = tau_f
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from minidyn.dynamics.functions import _call, energy_regressor
from minidyn.dynamics.kernel import BaseColumns, require_own
from minidyn.errors import MinidynError, ShapeError, UnknownName
from minidyn.experiment.integrals import POINTS, integral, low_pass
from minidyn.experiment.recording import Recording
from minidyn.model.robot import Robot

__all__ = ["FORMS", "filtered_regressor"]

Array = NDArray[np.float64]
Parts = tuple[Array, Array, Array]

FORMS = ("filtered", "momentum", "energy", "power")
"""Which balance is used: "filtered" and "momentum" that of momentum, "power" and "energy" that of energy; the first of
each pair passes it through a low-pass, the second integrates it over windows."""


def filtered_regressor(
    robot: Robot,
    recording: Recording,
    cutoff: float,
    base: BaseColumns | None = None,
    *,
    form: str = "filtered",
    points: int = POINTS,
) -> tuple[Array, Array]:
    """Return (Y_f, tau_f) of a recording with Y_f @ parameters = tau_f, without accelerations.

    The signals between samples are taken for cubics, so that the error of that relation is of fourth order in the
    sampling step (with more `points`, of a higher one). Coulomb friction, which jumps where a joint reverses, does not
    spoil it: its column and the torque pass through the same operation. Runs are kept apart: each starts its own
    filter, and no window reaches over their ends.

    Args:
        robot: The robot.
        recording: Motion with q, dq and tau.
        cutoff: Of the low-pass, Hz: the pole is a = 2π cutoff. Windows are 1 / a long, or one sample where that is
            longer.
        base: Base-parameter map: columns of the base parameters; None: of the standard ones.
        form: "filtered" (n rows a sample), "power" (one row a sample), "momentum" (n rows a window) or "energy" (one
            row a window).
        points: Samples that the polynomials between samples go through, 4, 6 or 8: the order of the error.

    Returns:
        Y_f (K, rows, p) and tau_f (K, rows): N m of filtered torque, N m s of momentum, J of energy or W of power.

    Implements: LuMeng1993 eq. (47)-(48), remark 2, with the initial values of ERRATA F; Gautier1991 eq. (9)-(12) for
    energy.
    """
    if form not in FORMS:
        raise UnknownName("form of the filtered regressor", form, FORMS)
    if not (isinstance(cutoff, int | float | np.floating) and 0 < cutoff < math.inf):
        raise MinidynError(f"filtered_regressor: cutoff must be a positive number of Hz, got {cutoff!r}")
    if not isinstance(recording, Recording):
        raise MinidynError(f"filtered_regressor: expected a Recording, got {type(recording).__name__}")
    if points not in (4, 6, 8):
        raise MinidynError(f"filtered_regressor: points must be 4, 6 or 8, got {points!r}")
    require_own(robot, base, "filtered_regressor")
    rate = 2 * math.pi * float(cutoff)
    q, dq, tau = _signals(robot, recording)
    balance = _momentum_balance if form in ("filtered", "momentum") else _energy_balance
    reduce: Callable[[Array, Parts, float, int], tuple[Array, Array]]
    reduce = _filter if form in ("filtered", "power") else _windows
    found = []
    for begin, end in zip(recording.starts, (*recording.starts[1:], len(recording))):
        part = slice(begin, end)
        found.append(reduce(recording.t[part], balance(robot, q[part], dq[part], tau[part], base), rate, points))
    if not found:
        raise MinidynError("filtered_regressor: the recording is empty")
    return np.concatenate([Y for Y, _ in found]), np.concatenate([right for _, right in found])


def _momentum_balance(robot: Robot, q: Array, dq: Array, tau: Array, base: BaseColumns | None) -> Parts:
    W, rest = _call(robot, "momentum_regressor", (q, dq), None, None, base)
    return W, rest, tau


def _energy_balance(robot: Robot, q: Array, dq: Array, tau: Array, base: BaseColumns | None) -> Parts:
    h = energy_regressor(robot, q, dq)
    lost = np.zeros_like(h)
    friction = [column.index for column in robot.layout.columns if column.is_friction]
    if friction:
        _, rest = _call(robot, "momentum_regressor", (q, dq), None, None)
        lost[:, friction] = np.einsum("ki,kip->kp", dq, rest[:, :, friction])
    if base is not None:
        kept = list(robot.layout.indices(base.kept))
        h, lost = h[:, kept], lost[:, kept]
        if base.unmixing is not None:
            h, lost = h @ base.unmixing, lost @ base.unmixing
    return h[:, None], lost[:, None], np.einsum("ki,ki->k", dq, tau)[:, None]


def _filter(t: Array, parts: Parts, rate: float, points: int) -> tuple[Array, Array]:
    stored, rest, right = parts
    # one filter serves both: rest_f - a stored_f is the filtered rest - a stored, from -a stored(0) on
    scaled = rate * stored
    Y = low_pass(t, rest - scaled, rate, -scaled[0], points)
    Y += scaled
    return Y, low_pass(t, right, rate, points=points)


def _windows(t: Array, parts: Parts, rate: float, points: int) -> tuple[Array, Array]:
    stored, rest, right = parts
    ends = _window_ends(t, 1.0 / rate)
    Y = np.diff(stored[ends], axis=0)
    Y += np.diff(integral(t, rest, points)[ends], axis=0)
    return Y, np.diff(integral(t, right, points)[ends], axis=0)


def _window_ends(t: Array, length: float) -> list[int]:
    """Return the samples where windows meet: each the first that is at least `length` after the one before."""
    ends = [0]
    while True:
        # a step that is `length` but for rounding is enough
        following = int(np.searchsorted(t, t[ends[-1]] + length * (1 - 1e-9)))
        following = max(following, ends[-1] + 1)
        if following >= len(t):
            return ends
        ends.append(following)


def _signals(robot: Robot, recording: Recording) -> tuple[Array, Array, Array]:
    """Return q, dq, tau in the robot's order of joints."""
    if recording.n != robot.n:
        raise ShapeError(f"the recording has {recording.n} joints, robot {robot.name!r} has {robot.n}")
    missing = [name for name in ("dq", "tau") if getattr(recording, name) is None]
    if recording.dq is None or recording.tau is None:
        raise MinidynError(
            f"filtered_regressor needs q, dq and tau; the recording has no {' and no '.join(missing)}"
            + ("; speeds can be had from positions by a low-pass derivative" if "dq" in missing else "")
        )
    numbered = tuple(f"joint{index + 1}" for index in range(recording.n))  # names that nobody gave
    order = list(range(robot.n))
    if recording.joint_names not in (robot.joint_names, numbered):
        for name in recording.joint_names:
            if name not in robot.joint_names:
                raise UnknownName(f"joint of robot {robot.name!r} in the recording:", name, robot.joint_names)
        order = [recording.joint_names.index(name) for name in robot.joint_names]
    return recording.q[:, order], recording.dq[:, order], recording.tau[:, order]
