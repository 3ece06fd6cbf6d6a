"""Adaptive controllers: Slotine-Li, its modified form, and Craig's, on all parameters, some, or base parameters.

With e = q - q_d, dq_r = dq_d - λ e and s = dq - dq_r = de + λ e, each law makes a Lyapunov function of s and of the
parameter error decrease (Craig's: of a filtered error), so that s and with it e go to zero.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from minidyn.arrays import Array
from minidyn.base.base_map import BaseMap
from minidyn.control.controller import Controller, Reference, Signals, gain_vector, positive
from minidyn.control.natural import natural_links
from minidyn.control.recorded import AdaptiveLaw
from minidyn.control.unknowns import unknowns_of
from minidyn.dynamics.functions import coriolis_matrix, inertia_matrix
from minidyn.errors import MinidynError, Unsupported, renamed
from minidyn.formats.load import RobotLike, as_robot
from minidyn.graph.targets.native.kernel import compile_function
from minidyn.model.robot import Robot

Unknown = Sequence[str] | Mapping[str, ArrayLike] | None


@renamed(rate="bandwidth")
def slotine_li(
    robot: RobotLike,
    *,
    bandwidth: float,
    gain: ArrayLike,
    adaptation: ArrayLike,
    unknown: Unknown = None,
    initial: ArrayLike | None = None,
    lower: ArrayLike | None = None,
    upper: ArrayLike | None = None,
    base: BaseMap | None = None,
    consistent: bool = False,
    period: float = 1e-3,
) -> Controller:
    """Return Slotine and Li's law: tau = M̂ ddq_r + Ĉ dq_r + ĝ - K s, dθ̂/dt = -Γ Yᵤᵀ s with Y(q, dq, dq_r, ddq_r).

    Stable in continuous time for every positive K, because Ṁ - 2C is skew-symmetric.

    Args:
        robot: The model; what is not unknown is taken from it.
        bandwidth: λ, 1/s.
        gain: K, a positive number or one for each joint.
        adaptation: Γ, a positive number or one for each unknown.
        unknown: Names of parameters, or {name: direction}; None: all.
        initial: Initial estimate; None: the robot's own values.
        lower: Bounds of the estimate.
        upper: Bounds of the estimate.
        base: Adapt base parameters of this map instead of standard ones.
        consistent: Adapt along the natural metric of inertias, so that links stay realizable; needs all ten parameters
            of each link concerned among the unknown ones.
        period: Sampling period, s.
    """
    robot = as_robot(robot)
    K = gain_vector("gain", gain, robot.n)
    law = _law("slotine_li", robot, bandwidth, K, adaptation, unknown, initial, base, consistent)
    return _controller("Slotine-Li", law, period, lower, upper)


@renamed(rate="bandwidth")
def modified_slotine_li(
    robot: RobotLike,
    *,
    bandwidth: float,
    adaptation: ArrayLike,
    gain: ArrayLike | None = None,
    unknown: Unknown = None,
    initial: ArrayLike | None = None,
    lower: ArrayLike | None = None,
    upper: ArrayLike | None = None,
    base: BaseMap | None = None,
    consistent: bool = False,
    period: float = 1e-3,
) -> Controller:
    """Return the modified Slotine-Li law of LuMeng1993, which needs only the ordinary regressor Y(q, dq, ddq).

    With a gain K: tau = M̂ ddq_r + Ĉ dq + ĝ - K s; its proof needs K > (C + Cᵀ)/2. Without one, K = λ M̂ turns it into
    tau = Y(q, dq, ddq*) θ̂ with ddq* = ddq_d - 2λ de - λ² e; its proof needs λ M > Ṁ/2.

    Args:
        robot: The model; what is not unknown is taken from it.
        bandwidth: λ, 1/s.
        adaptation: Γ, a positive number or one for each unknown.
        gain: K, a positive number or one for each joint; None: λ M̂.
        unknown: Names of parameters, or {name: direction}; None: all.
        initial: Initial estimate; None: the robot's own values.
        lower: Bounds of the estimate.
        upper: Bounds of the estimate.
        base: Adapt base parameters of this map instead of standard ones.
        consistent: As for `slotine_li`.
        period: Sampling period, s.

    Implements: LuMeng1993 eq. (86)-(96), (94) corrected.
    """
    robot = as_robot(robot)
    K = None if gain is None else gain_vector("gain", gain, robot.n)
    law = _law("modified", robot, bandwidth, K, adaptation, unknown, initial, base, consistent)

    def margin(true: Robot, q: Array, dq: Array) -> Array:
        C = coriolis_matrix(true, q, dq)
        half = (C + np.swapaxes(C, -1, -2)) / 2
        bound = law.bandwidth * inertia_matrix(true, q) if K is None else np.diag(K)
        return np.asarray(np.linalg.eigvalsh(bound - half)[..., 0], dtype=float)

    return _controller("modified Slotine-Li", law, period, lower, upper, margin)


@renamed(rate="bandwidth")
def craig(
    robot: RobotLike,
    *,
    bandwidth: float,
    adaptation: ArrayLike,
    unknown: Unknown = None,
    initial: ArrayLike | None = None,
    lower: ArrayLike | None = None,
    upper: ArrayLike | None = None,
    base: BaseMap | None = None,
    period: float = 1e-3,
) -> Controller:
    """Return Craig's law: computed torque with the estimate; dθ̂/dt = -Γ Yᵤᵀ(q, dq, ddq) M̂⁻¹ (de + Ψ e).

    It reads measured accelerations and inverts the estimated inertia matrix, so the estimate must stay where that
    matrix is regular: give bounds.

    Args:
        robot: The model; what is not unknown is taken from it.
        bandwidth: L, 1/s: Kp = L², Kv = 2L, Ψ = L.
        adaptation: Γ, a positive number or one for each unknown.
        unknown: Names of parameters, or {name: direction}; None: all.
        initial: Initial estimate; None: the robot's own values.
        lower: Bounds of the estimate.
        upper: Bounds of the estimate.
        base: Adapt base parameters of this map instead of standard ones.
        period: Sampling period, s.
    """
    law = _law("craig", as_robot(robot), bandwidth, None, adaptation, unknown, initial, base, False)
    return _controller("Craig", law, period, lower, upper)


def _law(
    kind: str,
    robot: Robot,
    bandwidth: float,
    gain: Array | None,
    adaptation: ArrayLike,
    unknown: Unknown,
    initial: ArrayLike | None,
    base: BaseMap | None,
    consistent: bool,
) -> AdaptiveLaw:
    if robot.implicit_loops:
        raise Unsupported(
            f"adaptive laws are recorded programs, and the passive joints of loop {robot.implicit_loops[0].name!r} of "
            f"robot {robot.name!r} must be solved for; give formulas in its file, or use computed_torque or pd_gravity"
        )
    pole = positive("bandwidth", bandwidth)
    unknowns = unknowns_of(robot, unknown, initial, base)
    gamma = gain_vector("adaptation", adaptation, len(unknowns.names))
    if consistent and base is not None:
        raise MinidynError("consistent=True needs standard parameters: base parameters have no links to check")
    natural = natural_links(robot, unknowns, gamma) if consistent else None
    return AdaptiveLaw(kind, robot, unknowns, base, pole, gain, gamma, natural)


def _bound(name: str, given: ArrayLike, count: int) -> Array:
    bound = np.asarray(given, dtype=float)
    if bound.shape not in ((), (count,)) or np.any(np.isnan(bound)):
        raise MinidynError(f"{name}: expected a number or {count} of them, got {given!r}")
    return np.broadcast_to(bound, (count,)).copy()


def _controller(
    name: str, law: AdaptiveLaw, period: float, lower: ArrayLike | None, upper: ArrayLike | None, stability: Any = None
) -> Controller:
    count = len(law.unknowns.names)
    low = _bound("lower", -np.inf if lower is None else lower, count)
    high = _bound("upper", np.inf if upper is None else upper, count)
    if np.any(low > high) or np.any(law.unknowns.start < low) or np.any(law.unknowns.start > high):
        raise MinidynError(f"{name}: the initial estimate must lie between lower and upper")
    reads_acceleration = law.kind == "craig"
    length = positive("period", period)
    # sampled and continuous runs need different programs: each is compiled by the first who asks
    flow = cache(lambda: compile_function(law.flow()))
    torque_alone = cache(lambda: compile_function(law.torque()))
    sampled = cache(lambda: compile_function(law.step(length, low, high)))

    def step(estimate: Array, q: Array, dq: Array, ddq: Array | None, reference: Reference) -> tuple[Array, Array]:
        measured = (q, dq, ddq) if reads_acceleration else (q, dq)
        tau, moved = sampled()(estimate, *measured, *reference)
        return tau, moved

    def torque(estimate: Array, q: Array, dq: Array, reference: Reference) -> tuple[Array, Signals]:
        if reads_acceleration:
            return torque_alone()(estimate, q, dq, *reference), {}
        tau, change = flow()(estimate, q, dq, *reference)
        return tau, {"change": change}

    def adapt(estimate: Array, q: Array, dq: Array, ddq: Array | None, reference: Reference, signals: Signals) -> Array:
        if "change" in signals:
            return signals["change"]
        _, change = flow()(estimate, q, dq, ddq, *reference)
        return np.asarray(change, dtype=float)

    def lyapunov(true: Robot, estimate: Array, q: Array, dq: Array, reference: Reference) -> Array:
        """½ sᵀ M s + ½ θ̃ᵀ Γ⁻¹ θ̃, with the true robot's parameters; the divergence for natural links."""
        s = dq - reference[1] + law.bandwidth * (q - reference[0])
        goal = law.unknowns.nearest(true.parameters if law.base is None else law.base.values(true.parameters))
        value: Array = 0.5 * np.einsum("...i,...ij,...j->...", s, inertia_matrix(true, q), s)
        plain = np.ones(count, dtype=bool)
        if law.natural is not None:
            plain[[place for places in law.natural.places for place in places]] = False
            value += law.natural.divergence(estimate, goal)
        value += 0.5 * np.sum(((estimate - goal) ** 2 / law.adaptation)[..., plain], axis=-1)
        return value

    settings = {"bandwidth": law.bandwidth, "gain": "none" if law.gain is None else law.gain.tolist()}
    settings |= {"adaptation": law.adaptation.tolist(), "base": law.base is not None}
    return Controller(
        name,
        law.robot,
        torque,
        adapt,
        start=law.unknowns.start,
        estimated=law.unknowns.names,
        lower=low,
        upper=high,
        period=length,
        needs_acceleration=reads_acceleration,
        settings=settings,
        stability=stability,
        lyapunov=None if reads_acceleration else lyapunov,
        step=step,
        program=lambda: law.step(length, low, high),
    )
