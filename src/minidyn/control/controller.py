"""What a controller is: a law for the torque, a law for the estimate, and the step that applies
both.

Laws are pure functions of arrays with leading batch axes, so that one robot or a thousand of them
run the same code.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from minidyn.arrays import Array
from minidyn.control.guarded_controller import guarded_controller
from minidyn.control.sample_status import Codes, Flags, SampleStatus
from minidyn.errors import MinidynError, ShapeError, Unsupported
from minidyn.graph.function import Function
from minidyn.model.robot import Robot
from minidyn.notices import Kind, error

UNSTABLE = error(
    "simulate.stability_violated",
    "The condition that guarantees stability of the control law does not hold along the motion.",
    "Raise the bandwidth or the gain.",
)

MAX_VALUE = 1e6
"""Beyond it a value, rad or m, per s or s², cannot be true.

Not the robot's limits: a controller must brake a robot that is faster than they say."""
CONTROL_WATCHDOG = 0.05
"""Seconds without a usable sample after which generated code raises an alarm."""

Signals = Mapping[str, Array]
Reference = tuple[Array, Array, Array]


class Measurement(NamedTuple):
    """What the controller sees.

    Time (s), positions and speeds (..., n), and accelerations where a law needs them.
    """

    t: float
    q: Array
    dq: Array
    ddq: Array | None = None


TorqueLaw = Callable[[Array, Array, Array, Reference], tuple[Array, Signals]]
AdaptLaw = Callable[[Array, Array, Array, Array | None, Reference, Signals], Array]


@dataclass(frozen=True, eq=False)
class Controller:
    """A control law for one robot.

    Call it as a step: ``state, torque, telemetry = controller(state, measurement,
    reference)``. A measurement or reference that is not finite, or beyond 1e6, holds the state and
    sets flags of :class:`SampleStatus` in telemetry["status"]: without a measurement the torque is
    the model's along the reference, without a reference the robot is held where it is, without both
    it is zero. The state is the vector of estimated parameters (empty for laws that do not
    adapt), behind it filtered signals where the law has them; begin with `start`, or with
    `begin(q, dq)` where there is one and the robot moves.

    Attributes:
        name: Of the law.
        robot: The controller's model.
        torque: (estimate, q, dq, (q_d, dq_d, ddq_d)) -> (torque, signals).
        adapt: (estimate, q, dq, ddq, reference, signals) -> time derivative of the estimate; None:
            it stays.
        start: Initial state (k,) of a robot at rest: the estimate, and filtered signals that are
            zero.
        estimated: Names of the estimated parameters.
        lower: Bounds of the estimate (k,).
        upper: Bounds of the estimate (k,).
        period: Sampling period of the step, s.
        needs_acceleration: Whether the law reads measured accelerations.
        settings: What the factory was given, for records.
        stability: (true robot, state, q, dq) -> smallest eigenvalue that must be positive for the
            law's proof; None: no condition.
        violated: The kind of notice that a violated condition makes.
        begin: (q, dq) -> initial state of a robot that moves; None: `start` serves.
        lyapunov: (true robot's values, estimate, q, dq, reference) -> value of the Lyapunov
            function; None: none known.
        program: Makes the recorded program of one step; None: the law has none.
        step: (estimate, q, dq, ddq, reference) -> (torque, next estimate), both laws and the bounds
            at once; None: the estimate moves by period * adapt(...).
    """

    name: str
    robot: Robot
    torque: TorqueLaw
    adapt: AdaptLaw | None = None
    start: Array = field(default_factory=lambda: np.zeros(0))
    estimated: tuple[str, ...] = ()
    lower: Array = field(default_factory=lambda: np.zeros(0))
    upper: Array = field(default_factory=lambda: np.zeros(0))
    period: float = 1e-3
    needs_acceleration: bool = False
    settings: Mapping[str, Any] = field(default_factory=dict)
    stability: Callable[[Robot, Array, Array, Array], Array] | None = None
    violated: Kind = UNSTABLE
    begin: Callable[[Array, Array], Array] | None = None
    lyapunov: Callable[[Robot, Array, Array, Array, Reference], Array] | None = None
    program: Callable[[], Function] | None = None
    step: Callable[[Array, Array, Array, Array | None, Reference], tuple[Array, Array]] | None = (
        None
    )

    def __call__(
        self, state: ArrayLike, measurement: Measurement, reference: Reference
    ) -> tuple[Array, Array, dict[str, NDArray[Any]]]:
        """Return (next state, torque to hold for one period, telemetry)."""
        estimate = np.asarray(state, dtype=float)
        q, dq = np.asarray(measurement.q, dtype=float), np.asarray(measurement.dq, dtype=float)
        if q.shape[-1:] != (self.robot.n,) or dq.shape != q.shape:
            raise ShapeError(
                f"{self.name}: expected q and dq of shape (..., {self.robot.n}), got {q.shape}, "
                f"{dq.shape}"
            )
        error = q - reference[0]
        if self.needs_acceleration and measurement.ddq is None:
            raise MinidynError(f"{self.name} reads accelerations: give Measurement(t, q, dq, ddq)")
        measured = (q, dq, *((measurement.ddq,) if self.needs_acceleration else ()))
        moved, torque, status = self._checked(estimate, measured, reference)
        telemetry: dict[str, NDArray[Any]] = {"error": error, "status": status}
        if len(self.estimated):
            telemetry["estimate"] = estimate[..., : len(self.estimated)]
        return moved, torque, telemetry

    def _checked(
        self, estimate: Array, measured: Sequence[Array], reference: Sequence[Array]
    ) -> tuple[Array, Array, Codes]:
        """Return (next state, torque, status); what cannot be true is not computed with."""
        seen, given = _possible(measured), _possible(reference)
        if seen.all() and given.all():
            moved, torque = self._answer(estimate, measured, reference)
            if np.isfinite(torque).all() and np.isfinite(moved).all():
                return moved, torque, np.zeros(torque.shape[:-1], dtype=np.int64)
        used = _replaced(measured, reference, seen, given)
        moved, torque = self._answer(estimate, *used)
        computed = np.isfinite(torque).all(axis=-1)
        finite = _finite(measured) & _finite(reference) & computed & np.isfinite(moved).all(axis=-1)
        good = seen & given & finite
        torque = np.where((computed & (seen | given))[..., None], torque, 0.0)
        cause = np.where(finite, SampleStatus.OUT_OF_RANGE, SampleStatus.NOT_FINITE)
        status = np.where(good, 0, cause | SampleStatus.HELD)
        return np.where(good[..., None], moved, estimate), torque, status

    def _answer(
        self, estimate: Array, measured: Sequence[Array], reference: Sequence[Array]
    ) -> tuple[Array, Array]:
        """Return (next state, torque)."""
        q, dq, *ddq = measured
        wanted = cast(Reference, tuple(reference))
        acceleration = ddq[0] if ddq else None
        if self.step is not None:
            torque, moved = self.step(estimate, q, dq, acceleration, wanted)
            return moved, torque
        torque, signals = self.torque(estimate, q, dq, wanted)
        if self.adapt is None:
            return estimate, torque
        change = self.adapt(estimate, q, dq, acceleration, wanted, signals)
        return self.bounded(estimate + self.period * change), torque

    def __reduce_ex__(self, protocol: Any) -> str | tuple[Any, ...]:
        """Copies and other processes make the controller again, from what its factory was given."""
        recipe = vars(self).get("_recipe")
        return super().__reduce_ex__(protocol) if recipe is None else (_again, recipe)

    def bounded(self, estimate: Array) -> Array:
        """Return the estimate within its bounds."""
        return np.clip(estimate, self.lower, self.upper) if len(self.lower) else estimate

    def source(self, target: str = "c") -> str:
        """Return one control step as self-contained code.

        int NAME(estimate, q, dq, q_d, dq_d, ddq_d, tau, next_estimate, held) checks what it is
        given as the step here does, and returns the flags of :class:`SampleStatus`; `held` keeps
        two counts, zero at the start. Laws that do not adapt take and give no estimate; Craig's
        takes ddq after dq.

        Args:
            target: "c" or "h". "python" and "jax": (estimate, q, ...) -> (tau, next_estimate), the
                arithmetic alone, which checks nothing.
        """
        if self.program is None:
            raise Unsupported(f"{self.name}: this controller has no recorded program to print")
        limit = max(1.0, CONTROL_WATCHDOG / self.period)
        return guarded_controller(self.robot, self.program(), MAX_VALUE, limit, target)

    def change_within(self, estimate: Array, change: Array) -> Array:
        """Return the time derivative with what would lead further out of the bounds put to zero."""
        outward = ((estimate <= self.lower) & (change < 0)) | (
            (estimate >= self.upper) & (change > 0)
        )
        return np.where(outward, 0.0, change)

    def __repr__(self) -> str:
        adapting = f", estimates {', '.join(self.estimated[:4])}" if self.estimated else ""
        more = f" ... ({len(self.estimated)})" if len(self.estimated) > 4 else ""
        return f"Controller({self.name} of {self.robot.name!r}{adapting}{more})"


_F = TypeVar("_F", bound=Callable[..., Controller])


def remembered(factory: _F) -> _F:
    """Let the controllers that a function makes keep what it was given, so that they can be
    pickled.
    """

    @wraps(factory)
    def called(robot: Any, *more: Any, **given: Any) -> Controller:
        made = factory(robot, *more, **given)
        recipe = called, made.robot, deepcopy(given)  # callers may change their arrays later
        object.__setattr__(
            made, "_recipe", recipe
        )  # no field: with another field replaced it is another law
        return made

    return cast(_F, called)


def _again(
    factory: Callable[..., Controller], robot: Robot, given: Mapping[str, Any]
) -> Controller:
    return factory(robot, **given)


def _possible(arrays: Sequence[ArrayLike]) -> Flags:
    """Return whether all values (...) of arrays (..., n) can be true; NaN cannot."""
    found = [(np.abs(array) <= MAX_VALUE).all(axis=-1) for array in arrays]
    return np.asarray(found[0] if len(found) == 1 else np.logical_and.reduce(found))


def _finite(arrays: Sequence[ArrayLike]) -> Flags:
    """Return whether all values (...) of arrays (..., n) are finite."""
    return np.asarray(np.logical_and.reduce([np.isfinite(part).all(axis=-1) for part in arrays]))


def _replaced(
    measured: Sequence[Array], reference: Sequence[Array], seen: Flags, given: Flags
) -> tuple[list[Array], list[Array]]:
    """Return measurement and reference, one in place of the other where that cannot be true.

    A reference is replaced by standing still; where both cannot be true, both are zero.
    """
    is_seen, is_given = seen[..., None], given[..., None]
    wanted = [np.where(is_given, part, 0.0) for part in reference]
    used = [np.where(is_seen, part, other) for part, other in zip(measured, wanted)]
    wanted[0] = np.where(is_given, wanted[0], used[0])
    return used, wanted


def positive(name: str, value: float) -> float:
    """Return a positive finite number or say what is wrong."""
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float | np.number)
        or not 0 < value < np.inf
    ):
        raise MinidynError(f"{name}: expected a positive number, got {value!r}")
    return float(value)


def gain_vector(name: str, value: ArrayLike, size: int) -> Array:
    """Return a gain (size,) from a positive number or a vector of them."""
    gain = _numbers(value)
    if gain.shape not in ((), (size,)) or not np.all(np.isfinite(gain)) or not np.all(gain > 0):
        raise MinidynError(f"{name}: expected a positive number or {size} of them, got {value!r}")
    return np.broadcast_to(gain, (size,)).copy()


def gain_matrix(name: str, value: ArrayLike, size: int) -> Array:
    """Return a gain (size, size) from a positive number, a vector of them or a symmetric positive
    definite matrix.
    """
    gain = _numbers(value)
    if gain.shape != (size, size):
        if gain.ndim == 2:
            raise MinidynError(
                f"{name}: expected a matrix of shape ({size}, {size}), got shape {gain.shape}"
            )
        return np.diag(gain_vector(name, value, size))
    if not np.all(np.isfinite(gain)) or np.abs(gain - gain.T).max() > 1e-12 * np.abs(gain).max():
        raise MinidynError(f"{name}: expected a symmetric matrix of finite numbers, got {value!r}")
    smallest = float(np.linalg.eigvalsh(gain)[0])
    if smallest <= 0:
        raise MinidynError(
            f"{name}: expected a positive definite matrix; its smallest eigenvalue is "
            f"{smallest:.3g}"
        )
    return gain.copy()


def plain_gain(gain: Array) -> Any:
    """Return a gain matrix for records: one number or its diagonal where that says all."""
    diagonal = np.diagonal(gain)
    if not np.array_equal(gain, np.diag(diagonal)):
        return gain.tolist()
    return float(diagonal[0]) if np.all(diagonal == diagonal[0]) else diagonal.tolist()


def _numbers(value: ArrayLike) -> Array:
    try:
        return np.asarray(value, dtype=float)
    except (TypeError, ValueError):
        return np.full(1, np.nan)
