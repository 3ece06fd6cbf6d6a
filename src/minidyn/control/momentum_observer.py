"""External torque from momentum.

What pushes the robot, without accelerations and without a force sensor. Over one period T the
balance of momentum, p(k+1) - p(k) = ∫ (tau - rest + external), gives the mean external torque

    d = (p(k+1) - p(k)) / T - mean(tau - rest),

and the residual moves to it as a first-order lag does to an input that is held, r += (1 - exp(-K
T)) (d - r): exact for an external torque that is constant over a period, at any gain (De Luca and
Mattone 2003; Haddadin et al. 2017).

With the Lagrangian L = T - V the momentum is ∂L/∂dq and rest is -∂L/∂q (which is g - Cᵀ dq) plus
friction. One sweep backwards through the recorded energies gives both, for the cost of a few
energies.

The threshold has two parts. Noise of the residual is a normal process with the bandwidth of the
lag; the level that it passes so often an hour follows from the rate of first passage. Errors of the
model (parameters, friction) are bounded sample by sample and pass the same lag: its impulse
response is positive, so the error of the residual stays below.

Each sample is checked before it is used (:mod:`minidyn.control.sample_guard`): one value that is
NaN would stay in the residual for ever, and |NaN| passes no threshold.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple, Protocol, cast

import numpy as np
from numpy.typing import ArrayLike

from minidyn.arrays import Array
from minidyn.control.controller import gain_vector, positive
from minidyn.control.friction_tracking import FrictionTracking
from minidyn.control.guarded_source import guarded_observer
from minidyn.control.sample_guard import NEVER, RUNNING, SampleGuard, sample_guard
from minidyn.control.sample_status import Codes, Flags, SampleStatus
from minidyn.control.watch import (
    Margins,
    Watch,
    events_of,
    least_forces,
    passage_level,
    pauses_of,
    wrench_of,
)
from minidyn.dynamics.drives import friction_columns, has_load
from minidyn.dynamics.functions import base_regressor, inertia_matrix
from minidyn.dynamics.kernel import run_function
from minidyn.dynamics.newton_euler import regrouped
from minidyn.dynamics.record import build, without_unknowns
from minidyn.dynamics.vectors import Scalar
from minidyn.errors import MinidynError, ShapeError
from minidyn.formats.load import RobotLike, as_robot
from minidyn.graph.derivative import OPERATIONS, vjp
from minidyn.graph.function import Function, evaluate, run_tape
from minidyn.graph.scalar import Graph, sign
from minidyn.graph.targets.native.kernel import NativeFunction, compile_function
from minidyn.model.robot import Robot
from minidyn.recording.ready import RecordingLike, as_recording, in_robot_order, ready
from minidyn.recording.recording import Recording

_HOLDS = SampleStatus.GAP | SampleStatus.HELD | SampleStatus.NOT_WATCHING

NOT_WATCHING_THRESHOLD = -1.0
"""While nobody watches: any torque passes it, so that those who compare torques alone stop, too."""

_STATES = 400  # poses and motions at which the uncertainty of the model is looked at
_SPREAD = 3.0  # standard deviations of the model's torque that its parameters may be off
_ORDINARY = 0.25  # square of an ordinary speed over the limit
_RANGE = {
    True: np.pi,
    False: 0.5,
}  # half the range of joints without limits, turning (rad) and sliding (m)
_SPEED = {True: 1.0, False: 0.25}  # of joints without a speed limit, rad/s and m/s


class Identified(Protocol):
    """What is read of an estimate."""

    @property
    def robot(self) -> Robot:
        """With its identified parameters."""

    @property
    def base(self) -> Any:
        """Its base parameters."""

    @property
    def covariance(self) -> Array:
        """Of the base parameters (b, b)."""

    @property
    def sigma(self) -> Array:
        """Standard deviation of each joint's residual (n,)."""

    @property
    def record(self) -> Mapping[str, Any]:
        """How it was made."""

    @property
    def known_torque(self) -> Any:
        """What was subtracted before the fit, or None."""


class ObserverStep(NamedTuple):
    """What an observer answers to a sample.

    Attributes:
        state: For the next step.
        torque: External torques (..., n), N m or N, joint side.
        threshold: What they may be without a contact (..., n); -1 while nobody watches.
        status: Flags of :class:`SampleStatus`, an integer (...): 0 where the sample was used.
    """

    state: Array
    torque: Array
    threshold: Array
    status: Codes


class _Run(NamedTuple):
    """What an observer gives along one run of a log."""

    torque: Array  # (N, n)
    threshold: Array  # (N, n)
    status: Codes  # (N,)
    friction: Array  # (n, 2), at the end


@dataclass(frozen=True, eq=False)
class Observer:
    """A momentum observer of one robot; :func:`momentum_observer` makes it.

    Call it as a step: ``state, torque, threshold, status = observer(state, q, dq,
    tau)``, once a period. Begin with `begin`. A sample that is not finite, beyond its bounds or
    stuck holds the residual and sets flags of :class:`SampleStatus`; after the watchdog's time
    NOT_WATCHING is one of them, and thresholds are -1.

    Attributes:
        robot: The model.
        gain: Of each joint (n,), 1/s: the residual follows a contact as a lag of first order with
            this pole.
        period: Of the step, s.
        held: Whether tau is the torque that is held from this sample to the next, as a controller
            commands it. Else it is a measured signal, and its mean over the period is that of its
            ends.
        margins: What the threshold is made of.
        guard: What is checked of each sample.
        known_torque: (recording) -> torques (N, n) that are no part of the robot, subtracted by
            `watch`; None: none.
        tracking: Of friction that differs from the model's; None: friction is taken as it is.
    """

    robot: Robot
    gain: Array
    period: float
    held: bool
    margins: Margins
    guard: SampleGuard
    known_torque: Callable[[Recording], Array] | None = None
    tracking: FrictionTracking | None = None

    @property
    def joint_names(self) -> tuple[str, ...]:
        """Names of the joints."""
        return self.robot.joint_names

    @cached_property
    def _recorded_parts(self) -> Function:
        graph = Graph()
        q, dq = (list(graph.inputs(name, self.robot.n)) for name in ("q", "dq"))
        p, rest, friction = momentum_parts(self.robot, q, dq)
        unlearnt: list[Scalar] = [0.0] * (self._size - 4 * self.robot.n)
        bound = self._friction(dq, friction, unlearnt)[1]
        return graph.function("momentum", {"p": p, "rest": rest, "bound": bound})

    def _friction(
        self, dq: list[Scalar], friction: list[Scalar], memory: list[Scalar]
    ) -> tuple[list[Scalar], list[Scalar]]:
        """Record what friction is more than the model's (n), and the largest error of the model."""
        if self.tracking is None:
            return [0.0] * self.robot.n, self.margins.bound(dq, friction)
        tracked = self.tracking.tracked(memory, self.tracking.parts(dq, friction))
        known = self.margins.bound(dq, [0.0] * self.robot.n)
        return tracked.correction, [a + b for a, b in zip(known, tracked.bound)]

    def _parts(self, q: ArrayLike, dq: ArrayLike) -> tuple[Array, Array, Array]:
        """Return momentum, the rest of the torque, and the largest error of the model.

        Each (..., n).
        """
        return cast("tuple[Array, Array, Array]", run_function(self._recorded_parts, (q, dq), None))

    @property
    def _share(self) -> Array:
        """1 - exp(-K T) of each joint."""
        return np.asarray(-np.expm1(-self.gain * self.period))

    @property
    def _size(self) -> int:
        """Length of the state but for what the guard remembers."""
        return 4 * self.robot.n + (0 if self.tracking is None else self.tracking.size)

    @property
    def state_size(self) -> int:
        """Length of the state: 18n + 5, or 13n + 3 where friction is not tracked."""
        return self._size + self.guard.size

    def program(self) -> Function:
        """Return the recorded arithmetic of a step, which checks nothing.

        (state but for that of the guard, q, dq, tau) -> (torque, threshold, next_state, bound).
        """
        graph, n = Graph(), self.robot.n
        state = list(graph.inputs("state", self._size))
        q, dq, tau = (list(graph.inputs(name, n)) for name in ("q", "dq", "tau"))
        p, rest, friction = momentum_parts(self.robot, q, dq)
        memory = state[4 * n :]
        correction, bound = self._friction(dq, friction, memory)
        rest = [torque + more for torque, more in zip(rest, correction)]
        torque, threshold, kept, missing_torque, passes = [], [], [], [], []
        for j, share in enumerate(self._share.tolist()):
            r, before, old, error = state[j], state[n + j], state[2 * n + j], state[3 * n + j]
            now = 0.5 * rest[j] if self.held else 0.5 * (rest[j] - tau[j])
            mean = (p[j] - before) * (1.0 / self.period) - old + now
            torque.append(r + share * (mean - r))
            error = error + share * (bound[j] - error)
            threshold.append(float(self.margins.noise[j]) + error)
            kept.append(
                (torque[j], p[j], (tau[j] if self.held else 0.5 * tau[j]) - 0.5 * rest[j], error)
            )
            missing_torque.append(-mean)  # friction that is missing looks like a torque against it
            passes.append(0.5 * (1.0 + sign(torque[j] * sign(torque[j]) - threshold[j])))
        moved = [entry[part] for part in range(4) for entry in kept]
        if self.tracking is not None:
            parts = self.tracking.parts(dq, friction)
            moved += self.tracking.step(memory, dq, parts, missing_torque, passes)
        results = {"torque": torque, "threshold": threshold, "next_state": moved, "bound": bound}
        return graph.function("observer_step_unchecked", results)

    @cached_property
    def _step(self) -> NativeFunction:
        return compile_function(self.program())

    def begin(self, q: ArrayLike, dq: ArrayLike, tau: ArrayLike) -> Array:
        """Return the state (..., state_size) at the first sample: no external torque.

        Residual, momentum, torque of the period before and error bound, n each; what is known of
        friction; then what the guard remembers.
        """
        shape = self.guard.sample(q, dq, tau).shape[:-1]
        return self(np.zeros((*shape, self.state_size)), q, dq, tau).state

    def __call__(
        self,
        state: ArrayLike,
        q: ArrayLike,
        dq: ArrayLike,
        tau: ArrayLike,
        elapsed: ArrayLike | None = None,
    ) -> ObserverStep:
        """Return (next state, external torque (..., n), threshold (..., n), status) of a sample.

        N m or N, joint side. Elapsed is the time since the sample before, s, where it may be
        another than the period: lost samples show in it.
        """
        whole, n = np.asarray(state, dtype=float), self.robot.n
        if whole.shape[-1:] != (self.state_size,):
            raise ShapeError(
                f"state: expected {self.state_size} numbers (Observer.begin), got {whole.shape}"
            )
        old, memory = whole[..., : self._size], whole[..., self._size :]
        torque, threshold, moved, bound = self._step(old, q, dq, tau)
        finite = np.isfinite(moved).all(axis=-1)
        status, after, used = self.guard.check(memory, q, dq, tau, elapsed, finite)
        if not used.all():
            begun, begins = after[..., 9 * n, None] == RUNNING, memory[..., 9 * n, None] == 0.0
            error = np.where(begins, bound, old[..., 3 * n : 4 * n])
            kept = [old[..., :n], moved[..., n : 3 * n], error, old[..., 4 * n :]]
            based = np.concatenate(kept, axis=-1)
            moved = np.where(used[..., None], moved, np.where(begun, based, old))
            torque, threshold = moved[..., :n], self.margins.noise + moved[..., 3 * n : 4 * n]
            alarm = (status & SampleStatus.NOT_WATCHING).astype(bool)
            threshold = np.where(alarm[..., None], NOT_WATCHING_THRESHOLD, threshold)
        return ObserverStep(np.concatenate([moved, after], axis=-1), torque, threshold, status)

    def source(self, target: str = "c") -> str:
        """Return the step as self-contained C99, which checks its samples as the step here does.

        int NAME(state, q, dq, tau, elapsed, torque, threshold, next_state) returns the flags of
        :class:`SampleStatus`. The state has 18n + 5 entries, 13n + 3 where friction is not
        tracked; all zero, it begins.

        Args:
            target: "c" or "h". "python" and "jax": the arithmetic alone, which checks nothing.
        """
        program = self.program()
        return guarded_observer(
            self.robot, self.margins.noise, program, self._size, self.guard, target
        )

    def friction(self, state: ArrayLike) -> Array:
        """Return by how much friction differs from the model's (..., n, 2), as shares.

        Of the part that follows the sign of the speed, and of the part that grows with it.
        """
        n = self.robot.n
        if self.tracking is None:
            return np.zeros((*np.shape(state)[:-1], n, 2))
        own = np.asarray(state, dtype=float)[..., 4 * n : 9 * n]
        return own.reshape(*own.shape[:-1], n, 5)[..., :2].copy()

    def wrench(self, q: ArrayLike, torque: ArrayLike, link: str | None = None) -> Array:
        """Return the wrench (..., 6) at a link's or frame's origin that explains external torques
        best: Jᵀ F = r.

        Moments first, then forces, world axes; N m and N. With fewer than six joints, or near a
        singular pose, the smallest wrench that explains them.

        Args:
            q: Positions (..., n).
            torque: External torques (..., n).
            link: Link or frame where the contact is; None: the last link.
        """
        return wrench_of(self.robot, q, torque, link)

    def threshold(self, q: ArrayLike, dq: ArrayLike | None = None) -> Array:
        """Return the threshold (..., n) of a steady motion, of rest where no speeds are given.

        N m or N.
        """
        places = np.asarray(q, dtype=float)
        bound = self._parts(
            places, np.zeros_like(places) if dq is None else np.asarray(dq, dtype=float)
        )[2]
        return np.asarray(self.margins.noise + bound)

    def least_force(
        self,
        q: ArrayLike,
        dq: ArrayLike | None = None,
        link: str | None = None,
        directions: ArrayLike | None = None,
    ) -> Array:
        """Return the least forces (..., d), N, at a link's or frame's origin that some joint shows.

        A steady force f e is found when |J_j e| f passes the threshold of a joint j. Infinite where
        no joint feels it.

        Args:
            q: Positions (..., n).
            dq: Speeds (..., n); None: at rest, where static friction hides most.
            link: Link or frame; None: the last link.
            directions: Unit vectors (d, 3) in world axes; None: x, y and z.
        """
        return least_forces(self.robot, q, self.threshold(q, dq), link, directions)

    def watch(self, recording: RecordingLike) -> Watch:
        """Return external torques and thresholds along a log, and the events where a joint passes
        its threshold.

        A log with its own speeds is taken as it is; otherwise positions are low-passed and
        differentiated. The period is that of the log; the observer begins anew with each run.
        Samples that cannot be used hold the residual, as in a step.
        """
        raw = in_robot_order(self.robot, as_recording(recording, self.robot)).load()
        if raw.tau is None:
            raise MinidynError("watch needs measured torques; the recording has none")
        made = (
            raw
            if raw.dq is not None
            else ready(self.robot, raw, purpose="watching", every_sample=True)
        )
        steps = np.diff(made.t)
        length = float(np.median(steps)) if len(steps) else self.period
        own = self if abs(length / self.period - 1.0) < 1e-3 else self._of_period(length)
        cuts = sorted({0, *made.starts, len(made)})
        elapsed = np.concatenate([[length], steps])
        tau = np.asarray(made.tau)
        if self.known_torque is not None:
            tau = tau - self.known_torque(made)
        dq = np.asarray(made.dq)
        along = [
            own._along(made.q[a:b], dq[a:b], tau[a:b], elapsed[a:b]) for a, b in pairwise(cuts)
        ]
        torque = np.concatenate([run.torque for run in along])
        threshold = np.concatenate([run.threshold for run in along])
        status = np.concatenate([run.status for run in along])
        friction = along[-1].friction
        noisy = own._noisy_speeds(made.q, dq) if raw.dq is not None else np.zeros(0)
        result = Watch(
            *(self.robot, made.t, made.q, torque, threshold, status),
            friction=friction,
            speed_noise=noisy,
        )
        pauses = pauses_of(result, cuts)
        events = events_of(result, dq, cuts, 3.0 / float(self.gain.min()))
        return replace(result, events=events, pauses=pauses)

    def _noisy_speeds(self, q: Array, dq: Array) -> Array:
        """Return the noise (n,) of speeds (N, n) where it passes thresholds, else nothing.

        Noise is what second differences have; a hundredth of them may be jumps.
        """
        bends = np.abs(np.diff(dq, 2, axis=0))
        bends = bends[np.isfinite(bends).all(axis=1)]
        if len(bends) < _STATES:
            return np.zeros(0)
        usual = np.minimum(bends, np.quantile(bends, 0.99, axis=0))
        noise = np.sqrt(np.mean(usual**2, axis=0) / 6.0)
        poses = q[np.isfinite(q).all(axis=1)][:: max(1, len(q) // _STATES)]
        passed = _passed_on(self.robot, self.gain, self.period, noise, poses)
        return noise if np.any(_SPREAD * passed > self.margins.noise) else np.zeros(0)

    def _of_period(self, period: float) -> Observer:
        """Return the observer of another period."""
        tracking = None if self.tracking is None else replace(self.tracking, period=period)
        guard = replace(self.guard, period=period)
        return replace(self, period=period, guard=guard, tracking=tracking)

    def _along(self, q: Array, dq: Array, tau: Array, elapsed: Array) -> _Run:
        """Return torque, threshold and status along one run, as N steps give them."""
        sample = self.guard.sample(q, dq, tau)
        status, used, first = self.guard.along(sample, elapsed)
        finite, inside = self.guard.possible(sample)
        q, dq, tau = (np.where((finite & inside)[:, None], part, 0.0) for part in (q, dq, tau))
        if self.tracking is not None:
            return self._steps(np.stack([q, dq, tau], axis=1), status, used)
        return self._filtered((q, dq, tau), status, used, first)

    def _steps(self, samples: Array, status: Codes, used: Flags) -> _Run:
        """Return a run step by step: what is learnt of friction depends on all before."""
        n, state, noise = self.robot.n, np.zeros(self._size), self.margins.noise
        usable = (status & ~_HOLDS) == 0  # the balance may go on from it
        torque = np.zeros((len(samples), n))
        threshold = torque + noise
        begun = False
        for k, (q, dq, tau) in enumerate(samples):
            if usable[k]:
                _, _, moved, bound = self._step(state, q, dq, tau)
                if used[k]:
                    state = moved
                else:
                    error = state[3 * n : 4 * n] if begun else bound
                    state = np.concatenate([state[:n], moved[n : 3 * n], error, state[4 * n :]])
                begun = True
            torque[k], threshold[k] = state[:n], noise + state[3 * n : 4 * n]
        return _Run(torque, threshold, status, self.friction(state))

    def _filtered(
        self, sample: tuple[Array, Array, Array], status: Codes, used: Flags, first: int
    ) -> _Run:
        """Return a run by filters over the whole of it."""
        from scipy.signal import lfilter

        q, dq, tau = sample
        p, rest, bound = self._parts(q, dq)
        middle = 0.5 * (rest[1:] + rest[:-1])
        acting = tau[:-1] if self.held else 0.5 * (tau[1:] + tau[:-1])
        mean = np.concatenate(
            [np.zeros_like(p[:1]), np.diff(p, axis=0) / self.period - acting + middle]
        )
        mean[~used] = 0.0
        moving = used.copy()
        moving[first : first + 1] = True  # the first sample begins: no torque, its own bound
        torque, errors = np.zeros_like(p), np.zeros_like(p)
        if first < len(p):
            latest = np.maximum(np.cumsum(moving) - 1, 0)  # what is held since
            for j, share in enumerate(self._share.tolist()):
                coefficients = [share], [1.0, share - 1.0]
                start = [(1.0 - share) * bound[first, j]]
                torque[:, j] = lfilter(*coefficients, mean[moving, j])[latest]
                errors[:, j] = lfilter(*coefficients, bound[moving, j], zi=start)[0][latest]
            errors[:first] = 0.0
        return _Run(
            torque, self.margins.noise + errors, status, self.friction(np.zeros(self._size))
        )


def momentum_observer(
    model: Identified | RobotLike,
    *,
    gain: ArrayLike = 30.0,
    period: float = 1e-3,
    threshold: ArrayLike | None = None,
    false_alarms: float = 1.0,
    friction_error: float = 0.1,
    track_friction: bool = True,
    standstill: float = 0.02,
    speed_noise: ArrayLike = 0.0,
    held: bool = True,
    bounds: Mapping[str, ArrayLike] | None = None,
    frozen: float = 0.2,
    watchdog: float = 0.05,
) -> Observer:
    """Return an observer of external torques: contacts, pushes, loads that the model does not have.

    It needs positions, speeds and torques, no accelerations. Friction of the model is part of it.

    Args:
        model: An estimate, whose uncertainty and residuals give the thresholds; or a robot (its
            name or path).
        gain: K, 1/s, a number or one for each joint: a contact is seen after about 1/K. A higher
            gain is quicker and noisier.
        period: Of the step, s.
        threshold: What noise and parameters may cause (n,), N m or N; None: from the estimate, and
            for a bare robot, of which nothing is known, so high that nothing passes it.
        false_alarms: How often an hour noise alone may pass a threshold, all joints together.
        friction_error: Share by which friction may have changed since (warm gears, other load): 0.1
            is ten percent. With tracking: at the start; 0.5 where gears may be cold.
        track_friction: Follow slow changes of friction while nothing touches the robot
            (:mod:`minidyn.control.friction_tracking`); thresholds then follow what is known of it.
        standstill: Speed, rad/s or m/s, below which the direction of friction is not known.
        speed_noise: Standard deviation of measured speeds, rad/s or m/s, a number or one for each
            joint.
        held: Whether torques are commands that are held for a period (True) or measured signals
            (False).
        bounds: Of values that a sample may have, where the robot's limits do not serve: "lower" and
            "upper" of positions, "speed", "torque", each a number or one for each joint.
        frozen: Seconds that a signal may repeat itself to the last digit while its joint moves.
        watchdog: Seconds without a usable sample after which "not watching" is an alarm.
    """
    estimate = cast(Identified, model) if hasattr(model, "covariance") else None
    own = estimate.robot if estimate is not None else as_robot(cast(RobotLike, model))
    K, length = gain_vector("gain", gain, own.n), positive("period", period)
    slow = positive("standstill", standstill)
    rate = positive("false_alarms", false_alarms)
    if not isinstance(friction_error, int | float) or not 0 <= friction_error < np.inf:
        raise MinidynError(f"friction_error: expected a number from 0, got {friction_error!r}")
    width = np.maximum([joint.drive.sign_width for joint in own.joints], slow)
    robot = own.with_drives(sign_width=width)
    q, dq, ddq, limit = _motions(own)
    zeros = np.zeros(own.n)
    shaky = np.broadcast_to(np.asarray(speed_noise, dtype=float), (own.n,))
    if threshold is not None:
        noise = gain_vector("threshold", threshold, own.n)
        std, rest, moving = noise / _SPREAD, zeros, zeros
    elif estimate is None:
        noise, std, rest, moving = np.full(own.n, NEVER), np.ones(own.n), zeros, zeros
    else:
        std = np.hypot(residual_noise(estimate, K), _passed_on(own, K, length, shaky, q))
        noise = passage_level(own.n, K, rate) * std
        rest, moving = _uncertainty(estimate, q, dq, ddq, limit)
    margins = Margins(noise, rest, moving, zeros, limit, float(friction_error), slow)
    known = (
        None if estimate is None or estimate.known_torque is None else estimate.known_torque.torque
    )
    guard = sample_guard(
        own, length, bounds=bounds, frozen=frozen, watchdog=watchdog, standstill=slow
    )
    margins = replace(margins, level=_level(robot, q, 10.0 * width.max()))
    tracking = None
    knows_noise = estimate is not None or threshold is not None
    if track_friction and knows_noise and np.any(margins.level > 0.0):
        off = (rest + _ORDINARY * moving) / _SPREAD
        tracking = FrictionTracking(margins.level, std, off, K, float(friction_error), slow, length)
    return Observer(robot, K, length, bool(held), margins, guard, known, tracking)


def _motions(robot: Robot) -> tuple[Array, Array, Array, Array]:
    """Return q, dq, ddq (M, n) of sinusoids within the limits.

    Each joint's own, and the speed limits (n,).
    """
    joints = [robot.joints[index] for index in robot.independent]
    ranges = np.array([_RANGE[joint.turns] for joint in joints])
    given = np.array(
        [(joint.limits.lower, joint.limits.upper, joint.limits.velocity) for joint in joints]
    ).T
    lower, upper = (
        np.where(np.isfinite(own), own, wide) for own, wide in zip(given, (-ranges, ranges))
    )
    speed = np.where(np.isfinite(given[2]), given[2], [_SPEED[joint.turns] for joint in joints])
    rng = np.random.default_rng(0)
    shape = (_STATES, robot.n)
    phase, top = rng.uniform(0.0, 2 * np.pi, shape), speed * rng.uniform(0.0, 1.0, (_STATES, 1))
    reach = np.maximum((upper - lower) / 2, 1e-3)
    q = (upper + lower) / 2 + reach * np.sin(phase)
    return q, top * np.cos(phase), -(top**2) / reach * np.sin(phase), speed


def residual_noise(estimate: Identified, K: Array) -> Array:
    """Return the standard deviation (n,) of the residual that noise of torques causes behind a lag
    K (n,), 1/s.

    Residuals of a fit with correlation time 2θ become σ √(Kθ / (1 + Kθ)) behind the lag. Where
    torques were low-passed for the fit there was noise above the cut-off, too: σ √(K / 4f) for
    white noise.
    """
    found = estimate.record
    blocks = found.get("block_seconds")  # ten times the correlation time, at least twenty samples
    delay = 0.05 * float(blocks) if blocks else np.inf
    share = np.ones_like(K) if np.isinf(delay) else K * delay / (1.0 + K * delay)
    cutoff = (found.get("preparation") or {}).get("cutoff")
    if cutoff:
        share = np.maximum(share, K / (4.0 * float(cutoff)))
    return np.asarray(np.sqrt(share) * np.asarray(estimate.sigma))


def _passed_on(robot: Robot, K: Array, period: float, speed_noise: Array, q: Array) -> Array:
    """Return the largest standard deviation (n,), over poses, of the residual that noise of speeds
    causes.
    """
    kept = -np.expm1(-K * period)
    moved = np.sqrt(np.einsum("kij,j->ki", inertia_matrix(robot, q) ** 2, speed_noise**2)).max(
        axis=0
    )
    return np.asarray(kept / period * np.sqrt(2.0 / (2.0 - kept)) * moved)


def _uncertainty(
    estimate: Identified, q: Array, dq: Array, ddq: Array, speed: Array
) -> tuple[Array, Array]:
    """Return what parameters may be off by at rest (n,), and what motion at the speed limits adds
    (n,), N m or N.
    """
    C = np.where(np.isfinite(estimate.covariance), estimate.covariance, 0.0)

    def spread(*motion: Array) -> Array:
        Y = base_regressor(estimate.robot, *motion, base=estimate.base)
        return np.asarray(_SPREAD * np.sqrt(np.maximum(np.einsum("kij,jl,kil->ki", Y, C, Y), 0.0)))

    rest = spread(q, 0.0 * dq, 0.0 * ddq).max(axis=0)
    squares = np.sum((dq / speed) ** 2, axis=1)
    moves = squares > 0.05 * len(speed)
    more = (spread(q[moves], dq[moves], ddq[moves]) - rest) / squares[moves, None]
    return rest, np.maximum(more.max(axis=0, initial=0.0), 0.0)


def _level(robot: Robot, q: Array, speed: float) -> Array:
    """Return the largest friction (n,) at a small speed, over poses."""
    graph = Graph()
    places, speeds = (list(graph.inputs(name, robot.n)) for name in ("q", "dq"))
    friction = graph.function("friction", {"f": momentum_parts(robot, places, speeds)[2]})
    both = [
        np.abs(evaluate(friction, q, np.full_like(q, way))).max(axis=0) for way in (speed, -speed)
    ]
    return np.asarray(np.maximum(*both))


def momentum_parts(
    robot: Robot, q: list[Scalar], dq: list[Scalar]
) -> tuple[list[Scalar], list[Scalar], list[Scalar]]:
    """Record (p, rest, friction), each of n scalars, with tau = dp/dt + rest.

    Friction is a part of rest.
    """
    phi = without_unknowns(robot, "inverse_dynamics", robot.parameters)
    simpler, ten = regrouped(robot, [phi[part].tolist() for part in robot.layout.links])
    fewer = phi.tolist()
    for part, body in zip(robot.layout.links, ten):
        fewer[part] = body
    energies = Graph()
    inputs = {name: energies.inputs(name, robot.n) for name in ("q", "dq")}
    function = energies.function("energy", build(simpler, "energy", inputs, fewer))
    pull, p = run_tape(vjp(function, ("q", "dq")), [q, dq, [1.0], [-1.0]], OPERATIONS)
    drives = _drive_torque(
        robot, phi, [c.index for c in robot.layout.columns if c.is_friction], q, dq
    )
    friction = _drive_torque(robot, phi, friction_columns(robot), q, dq)
    return p, [torque - force for torque, force in zip(drives, pull)], friction


def _drive_torque(
    robot: Robot, phi: Array, columns: list[int], q: list[Scalar], dq: list[Scalar]
) -> list[Scalar]:
    """Return the torques of some drive terms alone."""
    still: list[Scalar] = [0.0] * robot.n
    states = {"q": q, "dq": dq, "ddq": still}
    loaded = has_load(robot)  # then friction reads the links' parameters, too
    own = np.zeros(len(phi))
    own[columns] = phi[columns]
    if not loaded:
        return list(build(robot, "inverse_dynamics", states, own.tolist()))
    without = phi.copy()
    without[[c.index for c in robot.layout.columns if c.is_friction]] = 0.0
    bodies = build(robot, "inverse_dynamics", states, without.tolist())
    every = build(robot, "inverse_dynamics", states, (without + own).tolist())
    return [a - b for a, b in zip(every, bodies)]
