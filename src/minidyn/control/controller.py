"""What a controller is: a law for the torque, a law for the estimate, and the step that applies both.

Laws are pure functions of arrays with leading batch axes, so that one robot or a thousand of them run the same code.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np
from numpy.typing import ArrayLike

from minidyn.arrays import Array
from minidyn.errors import MinidynError, ShapeError, Unsupported
from minidyn.graph.function import Function
from minidyn.model.robot import Robot
from minidyn.notices import Kind, act

UNSTABLE = act(
    "simulate.stability_violated",
    "The condition that guarantees stability of the control law does not hold along the motion.",
    "Raise the bandwidth or the gain.",
)

Signals = Mapping[str, Array]
Reference = tuple[Array, Array, Array]


class Measurement(NamedTuple):
    """What the controller sees: time (s), positions and speeds (..., n), and accelerations where a law needs them."""

    t: float
    q: Array
    dq: Array
    ddq: Array | None = None


TorqueLaw = Callable[[Array, Array, Array, Reference], tuple[Array, Signals]]
AdaptLaw = Callable[[Array, Array, Array, Array | None, Reference, Signals], Array]


@dataclass(frozen=True, eq=False)
class Controller:
    """A control law for one robot.

    Call it as a step: ``state, torque, telemetry = controller(state, measurement, reference)``. The state is the vector
    of estimated parameters (empty for laws that do not adapt), behind it filtered signals where the law has them; begin
    with `start`, or with `begin(q, dq)` where there is one and the robot moves.

    Attributes:
        name: Of the law.
        robot: The controller's model.
        torque: (estimate, q, dq, (q_d, dq_d, ddq_d)) -> (torque, signals).
        adapt: (estimate, q, dq, ddq, reference, signals) -> time derivative of the estimate; None: it stays.
        start: Initial state (k,) of a robot at rest: the estimate, and filtered signals that are zero.
        estimated: Names of the estimated parameters.
        lower: Bounds of the estimate (k,).
        upper: Bounds of the estimate (k,).
        period: Sampling period of the step, s.
        needs_acceleration: Whether the law reads measured accelerations.
        settings: What the factory was given, for records.
        stability: (true robot, state, q, dq) -> smallest eigenvalue that must be positive for the law's proof; None: no
            condition.
        violated: The kind of notice that a violated condition makes.
        begin: (q, dq) -> initial state of a robot that moves; None: `start` serves.
        lyapunov: (true robot's values, estimate, q, dq, reference) -> value of the Lyapunov function; None: none known.
        program: Makes the recorded program of one step; None: the law has none.
        step: (estimate, q, dq, ddq, reference) -> (torque, next estimate), both laws and the bounds at once; None: the
            estimate moves by period * adapt(...).
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
    step: Callable[[Array, Array, Array, Array | None, Reference], tuple[Array, Array]] | None = None

    def __call__(
        self, state: ArrayLike, measurement: Measurement, reference: Reference
    ) -> tuple[Array, Array, dict[str, Array]]:
        """Return (next state, torque to hold for one period, telemetry)."""
        estimate = np.asarray(state, dtype=float)
        q, dq = np.asarray(measurement.q, dtype=float), np.asarray(measurement.dq, dtype=float)
        if q.shape[-1:] != (self.robot.n,) or dq.shape != q.shape:
            raise ShapeError(
                f"{self.name}: expected q and dq of shape (..., {self.robot.n}), got {q.shape}, {dq.shape}"
            )
        error = q - reference[0]
        if self.needs_acceleration and measurement.ddq is None:
            raise MinidynError(f"{self.name} reads accelerations: give Measurement(t, q, dq, ddq)")
        if self.step is not None:
            torque, moved = self.step(estimate, q, dq, measurement.ddq, reference)
            return moved, torque, {"error": error, "estimate": estimate[..., : len(self.estimated)]}
        torque, signals = self.torque(estimate, q, dq, reference)
        if self.adapt is None:
            return estimate, torque, {"error": error}
        change = self.adapt(estimate, q, dq, measurement.ddq, reference, signals)
        return self.bounded(estimate + self.period * change), torque, {"error": error, "estimate": estimate}

    def __reduce_ex__(self, protocol: Any) -> str | tuple[Any, ...]:
        """Copies and other processes make the controller again, from what its factory was given."""
        recipe = vars(self).get("_recipe")
        return super().__reduce_ex__(protocol) if recipe is None else (_again, recipe)

    def bounded(self, estimate: Array) -> Array:
        """Return the estimate within its bounds."""
        return np.clip(estimate, self.lower, self.upper) if len(self.lower) else estimate

    def source(self, target: str = "c") -> str:
        """Return one control step as self-contained code: (estimate, q, dq, q_d, ...) -> (tau, next_estimate).

        Laws that do not adapt take and give no estimate; Craig's takes ddq after dq.

        Args:
            target: "c", "h", "python" or "jax".
        """
        if self.program is None:
            raise Unsupported(f"{self.name}: this controller has no recorded program to print")
        from minidyn.dynamics.sources import function_source

        return function_source(self.robot, self.program(), target)

    def change_within(self, estimate: Array, change: Array) -> Array:
        """Return the time derivative with what would lead further out of the bounds put to zero."""
        outward = ((estimate <= self.lower) & (change < 0)) | ((estimate >= self.upper) & (change > 0))
        return np.where(outward, 0.0, change)

    def __repr__(self) -> str:
        adapting = f", estimates {', '.join(self.estimated[:4])}" if self.estimated else ""
        more = f" ... ({len(self.estimated)})" if len(self.estimated) > 4 else ""
        return f"Controller({self.name} of {self.robot.name!r}{adapting}{more})"


_F = TypeVar("_F", bound=Callable[..., Controller])


def remembered(factory: _F) -> _F:
    """Let the controllers that a function makes keep what it was given, so that they can be pickled."""

    @wraps(factory)
    def called(robot: Any, *more: Any, **given: Any) -> Controller:
        made = factory(robot, *more, **given)
        recipe = called, made.robot, deepcopy(given)  # callers may change their arrays later
        object.__setattr__(made, "_recipe", recipe)  # no field: with another field replaced it is another law
        return made

    return cast(_F, called)


def _again(factory: Callable[..., Controller], robot: Robot, given: Mapping[str, Any]) -> Controller:
    return factory(robot, **given)


def positive(name: str, value: float) -> float:
    """Return a positive finite number or say what is wrong."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.number) or not 0 < value < np.inf:
        raise MinidynError(f"{name}: expected a positive number, got {value!r}")
    return float(value)


def gain_vector(name: str, value: ArrayLike, size: int) -> Array:
    """Return a gain (size,) from a positive number or a vector of them."""
    gain = _numbers(value)
    if gain.shape not in ((), (size,)) or not np.all(np.isfinite(gain)) or not np.all(gain > 0):
        raise MinidynError(f"{name}: expected a positive number or {size} of them, got {value!r}")
    return np.broadcast_to(gain, (size,)).copy()


def gain_matrix(name: str, value: ArrayLike, size: int) -> Array:
    """Return a gain (size, size) from a positive number, a vector of them or a symmetric positive definite matrix."""
    gain = _numbers(value)
    if gain.shape != (size, size):
        if gain.ndim == 2:
            raise MinidynError(f"{name}: expected a matrix of shape ({size}, {size}), got shape {gain.shape}")
        return np.diag(gain_vector(name, value, size))
    if not np.all(np.isfinite(gain)) or np.abs(gain - gain.T).max() > 1e-12 * np.abs(gain).max():
        raise MinidynError(f"{name}: expected a symmetric matrix of finite numbers, got {value!r}")
    smallest = float(np.linalg.eigvalsh(gain)[0])
    if smallest <= 0:
        raise MinidynError(f"{name}: expected a positive definite matrix; its smallest eigenvalue is {smallest:.3g}")
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
