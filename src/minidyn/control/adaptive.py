"""Adaptive controllers: Slotine-Li, its modified form, and Craig's, on all parameters, some, or
base parameters.

With e = q - q_d, dq_r = dq_d - Λ e and s = dq - dq_r = de + Λ e, each law makes a Lyapunov function
of s and of the parameter error decrease (Craig's: of the error and its rate), so that s and with it
e go to zero. Gains are numbers, one number for each joint (unknown), or symmetric positive definite
matrices.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from minidyn.arrays import Array
from minidyn.base.base_map import BaseMap
from minidyn.control.controller import (
    UNSTABLE,
    Controller,
    Reference,
    Signals,
    gain_matrix,
    gain_vector,
    plain_gain,
    positive,
    remembered,
)
from minidyn.control.natural import natural_links
from minidyn.control.recorded import AdaptiveLaw, Composite
from minidyn.control.unknowns import unknowns_of
from minidyn.dynamics.functions import coriolis_matrix, inertia_matrix
from minidyn.errors import MinidynError, Unsupported, renamed
from minidyn.formats.load import RobotLike, as_robot
from minidyn.graph.targets.native.kernel import compile_function
from minidyn.model.robot import Robot
from minidyn.notices import error

INDEFINITE = error(
    "simulate.estimated_inertia_indefinite",
    "Craig's law inverts the estimated inertia matrix, and along the motion it is not positive "
    "definite.",
    "Give lower and upper bounds that keep the estimate where bodies can be, or start it closer.",
)

Unknown = Sequence[str] | Mapping[str, ArrayLike] | None


@remembered
@renamed(rate="bandwidth")
def slotine_li(
    robot: RobotLike,
    *,
    bandwidth: ArrayLike,
    gain: ArrayLike,
    adaptation: ArrayLike,
    unknown: Unknown = None,
    initial: ArrayLike | None = None,
    lower: ArrayLike | None = None,
    upper: ArrayLike | None = None,
    base: BaseMap | None = None,
    consistent: bool = False,
    composite: ArrayLike = 0.0,
    cutoff: float = 5.0,
    period: float = 1e-3,
) -> Controller:
    """Return Slotine and Li's law.

    tau = M̂ ddq_r + Ĉ dq_r + ĝ - K s, dθ̂/dt = -Γ Yᵤᵀ s with Y(q, dq, dq_r, ddq_r). Stable in
    continuous time for every positive K, because Ṁ - 2C is skew-symmetric. With `composite` the
    estimate also descends the error of the filtered torque, dθ̂/dt = -Γ (Yᵤᵀ s + Y_fᵀ R (Y_f θ̂ -
    τ_f)), which needs no acceleration.

    Args:
        robot: The model; what is not unknown is taken from it.
        bandwidth: Λ, 1/s: a positive number, one for each joint, or a matrix (n, n).
        gain: K, a positive number, one for each joint, or a matrix (n, n).
        adaptation: Γ, a positive number, one for each unknown, or a matrix (k, k).
        unknown: Names of standard parameters ("M4"), of the sixteen of LuMeng1993 ("m4", "mpx4"),
            "load" for mass and centre of an unknown load on the last link ("load:FRAME" elsewhere),
            or {name: direction}; None: all.
        initial: Initial estimate; None: the robot's own values.
        lower: Bounds of the estimate.
        upper: Bounds of the estimate.
        base: Adapt base parameters of this map instead of standard ones.
        consistent: Adapt along the natural metric of inertias, so that links stay realizable; needs
            all ten parameters of each link concerned among the unknown ones.
        composite: Weight R of the prediction error, a number or one for each joint, 1/(N m s) or
            1/(N s); 0: none.
        cutoff: Of the filter that predicted and commanded torques pass, Hz: the pole is a = 2π
            cutoff.
        period: Sampling period, s.

    Implements: LuMeng1993 Remark 2 of section III-A, the filtered regressor on line.
    """
    robot = as_robot(robot)
    K = gain_matrix("gain", gain, robot.n)
    law = _law(
        "slotine_li",
        robot,
        bandwidth,
        K,
        adaptation,
        unknown,
        initial,
        base,
        consistent,
        composite,
        cutoff,
    )
    return _controller(law, period, lower, upper)


@remembered
@renamed(rate="bandwidth")
def modified_slotine_li(
    robot: RobotLike,
    *,
    bandwidth: ArrayLike,
    adaptation: ArrayLike,
    gain: ArrayLike | None = None,
    unknown: Unknown = None,
    initial: ArrayLike | None = None,
    lower: ArrayLike | None = None,
    upper: ArrayLike | None = None,
    base: BaseMap | None = None,
    consistent: bool = False,
    composite: ArrayLike = 0.0,
    cutoff: float = 5.0,
    period: float = 1e-3,
) -> Controller:
    """Return the modified Slotine-Li law of LuMeng1993, which needs only the ordinary regressor
    Y(q, dq, ddq).

    With a gain K: tau = M̂ ddq_r + Ĉ dq + ĝ - K s; its proof needs K > (C + Cᵀ)/2. Without one, K =
    M̂ Λ turns it into tau = Y(q, dq, ddq*) θ̂ with ddq* = ddq_d - 2Λ de - Λ² e; its proof needs (M
    Λ + Λ M)/2 > Ṁ/2.

    Args:
        robot: The model; what is not unknown is taken from it.
        bandwidth: Λ, 1/s: a positive number, one for each joint, or a matrix (n, n).
        adaptation: Γ, a positive number, one for each unknown, or a matrix (k, k).
        gain: K, a positive number, one for each joint, or a matrix (n, n); None: M̂ Λ.
        unknown: Names of standard parameters ("M4"), of the sixteen of LuMeng1993 ("m4", "mpx4"),
            "load" for mass and centre of an unknown load on the last link ("load:FRAME" elsewhere),
            or {name: direction}; None: all.
        initial: Initial estimate; None: the robot's own values.
        lower: Bounds of the estimate.
        upper: Bounds of the estimate.
        base: Adapt base parameters of this map instead of standard ones.
        consistent: As for `slotine_li`.
        composite: Weight R of the prediction error, a number or one for each joint, 1/(N m s) or
            1/(N s); 0: none.
        cutoff: Of the filter that predicted and commanded torques pass, Hz: the pole is a = 2π
            cutoff.
        period: Sampling period, s.

    Implements: LuMeng1993 eq. (86)-(96), (94) corrected.
    Differs: the paper has Λ = λ 1 where K = λ M̂; any Λ serves with K = M̂ Λ.
    """
    robot = as_robot(robot)
    K = None if gain is None else gain_matrix("gain", gain, robot.n)
    words = bandwidth, K, adaptation, unknown, initial, base, consistent, composite, cutoff
    law = _law("modified_slotine_li", robot, *words)

    def margin(true: Robot, state: Array, q: Array, dq: Array) -> Array:
        bound = inertia_matrix(true, q) @ law.bandwidth if K is None else K
        excess = bound - coriolis_matrix(true, q, dq)
        return np.asarray(
            np.linalg.eigvalsh((excess + np.swapaxes(excess, -1, -2)) / 2)[..., 0], dtype=float
        )

    return _controller(law, period, lower, upper, margin)


@remembered
@renamed(rate="bandwidth")
def craig(
    robot: RobotLike,
    *,
    adaptation: ArrayLike,
    bandwidth: ArrayLike | None = None,
    kp: ArrayLike | None = None,
    kv: ArrayLike | None = None,
    psi: ArrayLike | None = None,
    unknown: Unknown = None,
    initial: ArrayLike | None = None,
    lower: ArrayLike | None = None,
    upper: ArrayLike | None = None,
    base: BaseMap | None = None,
    period: float = 1e-3,
) -> Controller:
    """Return Craig's law: computed torque with the estimate.

    dθ̂/dt = -Γ Yᵤᵀ(q, dq, ddq) M̂⁻¹ (de + Ψ e). It reads measured accelerations and inverts the
    estimated inertia matrix, so the estimate must stay where that matrix is positive definite: give
    bounds. A simulation with `check=True` reports where it is not. The proof needs (s + Ψ)/(s² + Kv
    s + Kp) to be strictly positive real, that is Kv > Ψ at each joint; other gains are refused.

    Args:
        robot: The model; what is not unknown is taken from it.
        adaptation: Γ, a positive number, one for each unknown, or a matrix (k, k).
        bandwidth: L, 1/s, a number or one for each joint: Kp = L², Kv = 2L, Ψ = L where these are
            not given.
        kp: Kp, 1/s², a number or one for each joint.
        kv: Kv, 1/s, a number or one for each joint.
        psi: Ψ, 1/s, a number or one for each joint, below Kv.
        unknown: Names of standard parameters ("M4"), of the sixteen of LuMeng1993 ("m4", "mpx4"),
            "load" for mass and centre of an unknown load on the last link ("load:FRAME" elsewhere),
            or {name: direction}; None: all.
        initial: Initial estimate; None: the robot's own values.
        lower: Bounds of the estimate.
        upper: Bounds of the estimate.
        base: Adapt base parameters of this map instead of standard ones.
        period: Sampling period, s.
    """
    robot = as_robot(robot)
    missing = [name for name, value in (("kp", kp), ("kv", kv), ("psi", psi)) if value is None]
    if bandwidth is None and missing:
        raise MinidynError(f"craig: {missing[0]} is missing; give bandwidth, or kp, kv and psi")
    pole = np.ones(robot.n) if bandwidth is None else gain_vector("bandwidth", bandwidth, robot.n)
    p, v, filtered = (
        default if value is None else gain_vector(name, value, robot.n)
        for name, value, default in (("kp", kp, pole**2), ("kv", kv, 2 * pole), ("psi", psi, pole))
    )
    for joint, damping, zero in zip(robot.joint_names, v, filtered):
        if damping <= zero:
            raise MinidynError(
                f"craig: joint {joint!r}: kv = {damping:g} must be greater than psi = {zero:g}, "
                "or the filtered error is not strictly positive real and nothing guarantees "
                "stability"
            )
    law = _law("craig", robot, filtered, None, adaptation, unknown, initial, base, False)
    law = replace(law, pd=(np.diag(p), np.diag(v)))

    def margin(true: Robot, state: Array, q: Array, dq: Array) -> Array:
        known, columns = law.standard_parts()  # the matrix is linear in the estimate
        M = inertia_matrix(law.robot, q, known)
        for k, column in enumerate(columns):
            M = M + state[..., k, None, None] * inertia_matrix(law.robot, q, column)
        return np.asarray(np.linalg.eigvalsh(M)[..., 0], dtype=float)

    return _controller(law, period, lower, upper, margin)


def _law(
    kind: str,
    robot: Robot,
    bandwidth: ArrayLike,
    gain: Array | None,
    adaptation: ArrayLike,
    unknown: Unknown,
    initial: ArrayLike | None,
    base: BaseMap | None,
    consistent: bool,
    composite: ArrayLike = 0.0,
    cutoff: float = 1.0,
) -> AdaptiveLaw:
    if robot.implicit_loops:
        raise Unsupported(
            "adaptive laws are recorded programs, and the passive joints of loop "
            f"{robot.implicit_loops[0].name!r} of robot {robot.name!r} must be solved for; give "
            "formulas in its file, or use computed_torque or pd_gravity"
        )
    pole = gain_matrix("bandwidth", bandwidth, robot.n)
    unknowns = unknowns_of(robot, unknown, initial, base)
    gamma = gain_matrix("adaptation", adaptation, len(unknowns.names))
    if consistent and base is not None:
        raise MinidynError(
            "consistent=True needs standard parameters: base parameters have no links to check"
        )
    if consistent and np.any(gamma != np.diag(np.diagonal(gamma))):
        raise MinidynError(
            "consistent=True: give adaptation as a number or one for each unknown, not as a matrix"
        )
    natural = natural_links(robot, unknowns, np.diagonal(gamma)) if consistent else None
    filtered = None
    if np.any(np.asarray(composite) != 0.0):
        filtered = Composite(
            gain_vector("composite", composite, robot.n), 2 * np.pi * positive("cutoff", cutoff)
        )
    return AdaptiveLaw(kind, robot, unknowns, base, pole, gain, gamma, natural, None, filtered)


def _bound(name: str, given: ArrayLike, count: int) -> Array:
    bound = np.asarray(given, dtype=float)
    if bound.shape not in ((), (count,)) or np.any(np.isnan(bound)):
        raise MinidynError(f"{name}: expected a number or {count} of them, got {given!r}")
    return np.broadcast_to(bound, (count,)).copy()


def _controller(
    law: AdaptiveLaw,
    period: float,
    lower: ArrayLike | None,
    upper: ArrayLike | None,
    stability: Any = None,
) -> Controller:
    count, name = len(law.unknowns.names), law.kind
    low = _bound("lower", -np.inf if lower is None else lower, count)
    high = _bound("upper", np.inf if upper is None else upper, count)
    if np.any(low > high) or np.any(law.unknowns.start < low) or np.any(law.unknowns.start > high):
        raise MinidynError(f"{name}: the initial estimate must lie between lower and upper")
    reads_acceleration = law.kind == "craig"
    length = positive("period", period)
    free = np.full(law.size - count, np.inf)  # filtered signals have no bounds
    # sampled and continuous runs need different programs: each is compiled by the first who asks
    flow = cache(lambda: compile_function(law.flow()))
    torque_alone = cache(lambda: compile_function(law.torque()))
    sampled = cache(lambda: compile_function(law.step(length, low, high)))
    beginning = cache(lambda: compile_function(law.begin()))

    def step(
        state: Array, q: Array, dq: Array, ddq: Array | None, reference: Reference
    ) -> tuple[Array, Array]:
        measured = (q, dq, ddq) if reads_acceleration else (q, dq)
        tau, moved = sampled()(state, *measured, *reference)
        return tau, moved

    def torque(state: Array, q: Array, dq: Array, reference: Reference) -> tuple[Array, Signals]:
        if reads_acceleration:
            return torque_alone()(state, q, dq, *reference), {}
        tau, change = flow()(state, q, dq, *reference)
        return tau, {"change": change}

    def adapt(
        state: Array, q: Array, dq: Array, ddq: Array | None, reference: Reference, signals: Signals
    ) -> Array:
        if "change" in signals:
            return signals["change"]
        _, change = flow()(state, q, dq, ddq, *reference)
        return np.asarray(change, dtype=float)

    settings = {
        "bandwidth": plain_gain(law.bandwidth),
        "gain": "none" if law.gain is None else plain_gain(law.gain),
    }
    settings |= {"adaptation": plain_gain(law.adaptation), "base": law.base is not None}
    if law.pd is not None:
        settings |= {
            "kp": plain_gain(law.pd[0]),
            "kv": plain_gain(law.pd[1]),
            "psi": plain_gain(law.bandwidth),
        }
    if law.composite is not None:
        settings |= {
            "composite": law.composite.weight.tolist(),
            "cutoff": law.composite.pole / (2 * np.pi),
        }
    return Controller(
        name,
        law.robot,
        torque,
        adapt,
        start=np.concatenate([law.unknowns.start, np.zeros(len(free))]),
        estimated=law.unknowns.names,
        lower=np.concatenate([low, -free]),
        upper=np.concatenate([high, free]),
        period=length,
        needs_acceleration=reads_acceleration,
        settings=settings,
        stability=stability,
        violated=INDEFINITE if reads_acceleration else UNSTABLE,
        lyapunov=partial(_lyapunov, law),
        step=step,
        program=lambda: law.step(length, low, high),
        begin=None
        if law.composite is None
        else lambda q, dq: np.asarray(beginning()(q, dq), dtype=float),
    )


def _lyapunov(
    law: AdaptiveLaw, true: Robot, state: Array, q: Array, dq: Array, reference: Reference
) -> Array:
    """Return ½ sᵀ M s + ½ θ̃ᵀ Γ⁻¹ θ̃ with the true robot's parameters.

    The divergence for natural links. Craig's is ½ Σ ((Kp + Kv Ψ) e² + 2 Ψ e de + de²) + ½ θ̃ᵀ Γ⁻¹ θ̃,
    whose derivative is -Σ (Kp Ψ e² + (Kv - Ψ) de²).
    """
    e, de = q - reference[0], dq - reference[1]
    estimate = state[..., : len(law.unknowns.names)]
    goal = law.unknowns.nearest(
        true.parameters if law.base is None else law.base.values(true.parameters)
    )
    s = de + e @ law.bandwidth
    if law.pd is not None:
        p, v, psi = (np.diagonal(gain) for gain in (*law.pd, law.bandwidth))
        value: Array = 0.5 * np.sum((p + v * psi) * e**2 + 2 * psi * e * de + de**2, axis=-1)
    else:
        value = 0.5 * np.einsum("...i,...ij,...j->...", s, inertia_matrix(true, q), s)
    weights = np.linalg.inv(law.adaptation)
    if law.natural is not None:
        own = [place for places in law.natural.places for place in places]
        weights[own] = weights[:, own] = 0.0
        value = value + law.natural.divergence(estimate, goal)
    return np.asarray(
        value + 0.5 * np.einsum("...i,ij,...j->...", estimate - goal, weights, estimate - goal)
    )
