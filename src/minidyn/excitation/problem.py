"""A design as a problem: which motions, how they are judged, what they must stay within.

Limits enter as relaxed logarithmic barriers: -log of the room that is left, continued by a parabola where little or
none is left, so that a search may start anywhere and has a gradient everywhere. Coefficients are scaled, joint by
joint, by the barriers' own curvature at rest.

Gradients are exact. The criterion and the torques both depend on the motion through the regressor Y alone: their
derivatives with respect to Y, one number for each entry, go backwards through the graph of Y in one pass (`vjp`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from minidyn.arrays import Array
from minidyn.dynamics.record import record
from minidyn.excitation.bounds import KINDS, Bounds
from minidyn.excitation.clearance import NEARBY, Clearance
from minidyn.excitation.criteria import log_criterion
from minidyn.excitation.motion import Family
from minidyn.excitation.target import Target
from minidyn.graph.derivative import vjp
from minidyn.graph.targets.native.kernel import compile_function
from minidyn.model.robot import Robot

_SAMPLES = 24  # of one period of the highest harmonic, for criterion and torques
_FINER = 4  # times as many for the limits that are linear in the coefficients: they cost little
_ROOM = 0.3  # times the weight: where the parabola begins
TIGHT = {"position": 0.9985, "velocity": 0.9985, "acceleration": 0.9985, "jerk": 0.9985, "torque": 0.995}
"""Shares of the limits that samples may use to begin with: between them it is a little more."""
_SMOOTH = 0.02  # of the speed limit: over which friction reverses in the search
_STATES = 400  # of the work space
RISE = 0.5
"""Seconds to full speed where torques cannot be predicted."""


@dataclass(eq=False)
class Problem:
    """A design: which motions, how they are judged, what they must stay within."""

    robot: Robot  # with the drive terms that shall be found; signs smoothed
    target: Target
    family: Family
    bounds: Bounds
    criterion: str
    weights: Array  # of the torques (n,): one over the noise
    samples: float  # that the motion will give in all
    work: Array  # mean of YᵀY over the work space (a, a), of what counts
    tight: dict[str, float]  # share of each limit that samples may use
    clearance: Clearance | None = None  # distances to keep
    critical: Array = field(default_factory=lambda: np.zeros(0))  # times (s) that are looked at beside the samples
    apart: float = 0.002  # m that samples keep beyond the clearance: between them distances are smaller

    @cached_property
    def times(self) -> Array:
        """Times (N,) of the samples, evenly over what is not repeated."""
        return self._times(1)

    def _times(self, finer: int) -> Array:
        count = finer * _SAMPLES * self.family.waves
        if self.family.repeats:
            return np.arange(count) * self.family.span / count
        return np.linspace(0.0, self.family.span, count + 1)

    @cached_property
    def functions(self) -> tuple[list[Array], list[Array]]:
        """Basis functions and smooth step with derivatives, at the samples and at critical times after them."""
        return self.family.functions(np.concatenate([self.times, self.critical]))

    def look_at(self, times: Array) -> None:
        """Add times at which torques and distances are kept, too: those where they are critical between samples."""
        self.critical = np.concatenate([self.critical, times])
        self.__dict__.pop("functions", None)

    @cached_property
    def finer(self) -> tuple[list[Array], list[Array]]:
        """The same at more times, for limits that are linear in the coefficients."""
        return self.family.functions(self._times(_FINER))

    @cached_property
    def _regressor(self) -> tuple[Callable[..., Any], Callable[..., Any]]:
        """The regressor's columns and the gradient of a weighted sum of its entries, as machine code."""
        columns = self.robot.layout.indices(self.target.columns)
        function = record(self.robot, "base_regressor", columns=columns, combine=self.target.combine)
        return compile_function(function), compile_function(vjp(function, ("q", "dq", "ddq")))

    @cached_property
    def scales(self) -> Array:
        """Matrices (n, m, m) from free variables to each joint's coefficients: the barriers' curvature becomes one."""
        made = []
        for joint in range(self.family.joints):
            curvature = np.zeros((self.family.size, self.family.size))
            for order in self.bounds.active:
                phi = self.functions[0][order]
                share = self.bounds.follow[:, joint] / self.bounds.reach[KINDS[order]]
                curvature += phi.T @ phi * float(share @ share) / len(phi)
            made.append(np.linalg.inv(np.linalg.cholesky(curvature)).T)
        return np.array(made)

    def coefficients(self, u: Array) -> Array:
        """Return coefficients (m, n) of free variables (n m,)."""
        return np.asarray(np.einsum("jab,jb->aj", self.scales, u.reshape(self.family.joints, self.family.size)))

    def variables(self, coefficients: Array) -> Array:
        """Return the free variables (n m,) of coefficients (m, n)."""
        return np.asarray(np.linalg.solve(self.scales, coefficients.T[:, :, None]).ravel(), dtype=float)

    def motion(self, coefficients: Array) -> list[Array]:
        """Return position, speed and acceleration (N, n) of the independent joints at the samples."""
        return [self._part(self.functions, order, coefficients) for order in range(3)]

    def _part(self, functions: tuple[list[Array], list[Array]], order: int, coefficients: Array) -> Array:
        found = functions[0][order] @ coefficients + np.outer(functions[1][order], self.family.shift)
        return np.asarray(found + self.family.beginning if order == 0 else found)

    def shares(self, coefficients: Array, Y: Array) -> dict[str, Array]:
        """Return the shares of all limits that are used, with signs: (samples, joints) for each kind."""
        found = {}
        for order in self.bounds.active:
            kind, part = KINDS[order], self._part(self.finer, order, coefficients)
            found[kind] = self.bounds.centred(part, order) / self.reach(kind)
        if self.torque_limited:
            found["torque"] = (Y @ self.target.prior) / self.reach("torque")
        return found

    @property
    def torque_limited(self) -> bool:
        """Whether torques have limits."""
        return bool(np.isfinite(self.bounds.effort).any())

    def largest_share(self, coefficients: Array) -> float:
        """Return the largest share of a limit, distances included, at the samples."""
        motion = self.motion(coefficients)
        shares = list(self.shares(coefficients, self.regressor(motion)).values())
        if self.clearance is not None:
            shares.append(self.clearance.shares(motion[0], self.apart)[0])
        return max(float(np.abs(share).max()) for share in shares)

    def reach(self, kind: str) -> Array:
        """Return the limits (joints,) that samples may use: a little less than all."""
        return self.tight[kind] * (self.bounds.effort if kind == "torque" else self.bounds.reach[kind])

    def regressor(self, motion: list[Array]) -> Array:
        """Return Y (N, n, c) along a motion."""
        return np.asarray(self._regressor[0](*(np.ascontiguousarray(part) for part in motion)))

    def judge(self, u: Array, barrier: float, criterion: str) -> tuple[float, Array, float, float]:
        """Return objective with barriers, its gradient (n m,), the criterion alone, the largest share of a limit."""
        coefficients = self.coefficients(u)
        motion = self.motion(coefficients)
        Y = self.regressor(motion)
        count = len(self.times)
        W = self.target.rows(Y[:count], self.weights)
        S, P = self.target.marginal(self.samples / count * (W.T @ W) + self.target.known)
        value, slope = log_criterion(criterion, S, self.work)
        G = np.zeros(Y.shape)
        G[:count] = self.target.back(2 * self.samples / count * (W @ (P.T @ slope @ P)), Y[:count], self.weights)
        total, worst = value, 0.0
        gradient = np.zeros_like(coefficients)
        if self.clearance is not None:
            share, back = self.clearance.shares(motion[0], self.apart)
            worst = (1.0 - self.apart / NEARBY) ** 2 * float(share.max())  # of the clearance alone
            price, rate = _barrier(share, barrier)
            total += price / len(share)
            gradient += self.functions[0][0].T @ back(rate / len(share))
        for kind, share in self.shares(coefficients, Y).items():
            worst = max(worst, TIGHT[kind] * float(np.abs(share).max()))
            price, rate = _barrier(share, barrier)
            total += price / len(share)
            rate /= len(share) * self.reach(kind)
            if kind == "torque":
                G += rate[:, :, None] * self.target.prior
            else:
                gradient += self.finer[0][KINDS.index(kind)].T @ (rate @ self.bounds.follow)
        through_regressor = self._regressor[1](*motion, G.reshape(len(G), -1))
        for phi, part in zip(self.functions[0], through_regressor):
            gradient += phi.T @ part
        return total, np.einsum("jab,aj->jb", self.scales, gradient).ravel(), value, worst


def _barrier(share: Array, weight: float) -> tuple[float, Array]:
    """Return the sum of the barriers of |share| <= 1 and its derivative (N, joints)."""
    room = _ROOM * weight
    price, rate = 0.0, np.zeros_like(share)
    for sign in (1.0, -1.0):
        left = 1.0 - sign * share
        little = left < room
        safe = np.where(little, room, left)
        beyond = np.where(little, (left - room) / room, 0.0)
        price += float(np.sum(-np.log(safe) - beyond + 0.5 * beyond**2))
        rate += sign * np.where(little, (1.0 - beyond) / room, 1.0 / safe)
    return weight * price, weight * rate


def problem_of(
    target: Target, family: Family, bounds: Bounds, criterion: str, sigma: Array, samples: float, phi: Array | None
) -> Problem:
    """Return the problem of a design: `sigma` (n,) is the noise of the torques, `phi` (p,) predicts them."""
    model, n = target.robot, target.robot.n
    speeds = bounds.reach["velocity"][:n]
    widths = {name: _SMOOTH * speed for name, speed in zip(model.joint_names, speeds)}
    smooth = model.with_drives(
        sign_width=[max(joint.drive.sign_width, widths.get(joint.name, 0.0)) for joint in model.joints]
    )
    if phi is not None:
        smooth = smooth.with_parameters(phi)  # loads that friction grows with
    problem = Problem(smooth, target, family, bounds, criterion, 1.0 / sigma, samples, np.zeros((0, 0)), dict(TIGHT))
    problem.work = work_of(target, problem.regressor, bounds, problem.weights)
    return problem


def work_of(
    target: Target, columns: Callable[[list[Array]], Array], bounds: Bounds, weights: Array, moving: bool = True
) -> Array:
    """Return the mean of YᵀY (a, a) over the work space, of what counts; at rest where nothing moves."""
    n = len(weights)
    unit = np.random.default_rng(0).uniform(-1, 1, (3, _STATES, n))
    fastest = np.minimum(bounds.reach["acceleration"][:n], bounds.reach["velocity"][:n] / RISE)
    q = bounds.middle[:n] + bounds.reach["position"][:n] * unit[0]
    speed, acceleration = bounds.reach["velocity"][:n] * unit[1], fastest * unit[2]
    rows = target.rows(columns([q, float(moving) * speed, float(moving) * acceleration]), weights)[:, target.counted]
    return np.asarray(rows.T @ rows / (_STATES * n))
