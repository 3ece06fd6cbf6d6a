"""The search for a motion: a criterion, limits as barriers, and SciPy's BFGS.

The weight of the barriers falls step by step (`minidyn.excitation.problem`). Every motion on the way that keeps all
limits is remembered if it is the best so far: a search can be stopped at any time.

Why BFGS with barriers: on a seven-joint arm (63 coefficients, 20 s), from one motion on one core, it needed 405
evaluations and 1.7 s to a log criterion of -6.082 within all limits; an augmented Lagrangian on L-BFGS 1,040 and 3.0 s
to -6.094, outside the limits by 0.9 %; SLSQP 4.5 s to -6.075, outside by 0.7 %; trust-constr was not done in 60 s
(benchmarks/excitation.py).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from minidyn.arrays import Array
from minidyn.excitation.bounds import KINDS, Bounds
from minidyn.excitation.motion import Course
from minidyn.excitation.problem import Problem
from minidyn.excitation.proof import Proof

_WEIGHTS = (0.1, 0.03, 0.01, 0.003, 0.001)  # of the barriers, one after the other
_STARTS = 4  # motions to start from
_KEPT = (2, 1, 1, 1, 1)  # that go on with each weight
_STEPS = (100, 100, 80, 80, 80)  # of the solver with each weight
_FULL = 0.9998  # share of the limits up to which samples count as keeping them: between samples it is a trifle more
_NEAR = 1.05  # a motion that exceeds limits by less is pulled in
_POSES = 400  # that are looked at for a place to start from
_REFINED = 3  # times at most
_WASTED = 0.85  # share of the torque limits below which a motion for uncertain robots is made larger
_LITTLE = 1.003  # limits that are exceeded by less are kept by a motion that is a little smaller
_SMALLER = (0.999, 0.997, 0.98, 0.95, 0.9, 0.8, 0.6, 0.4, 0.2, 0.05)


class Stopped(Exception):
    """The time is over."""


@dataclass(eq=False)
class Search:
    """The search itself: what was found so far."""

    problem: Problem
    deadline: float = np.inf  # time.monotonic() at which it ends
    progress: Callable[[int], None] | None = None
    best: Array | None = None  # free variables of the best motion that keeps all limits at the samples
    value: float = np.inf  # its criterion
    least: tuple[float, Array | None] = (
        np.inf,
        None,
    )  # largest share of a limit, and the motion nearest to keeping all
    last: Array | None = None  # where the solver ended
    evaluations: int = 0
    stopped: str = ""  # "time" or "interrupt" where it was ended

    @cached_property
    def still(self) -> Array:
        """Free variables of the motion that stays where the limits leave most room, or goes straight to its end."""
        rest = resting_pose(self.problem, np.random.default_rng(0))
        return self.problem.variables(self.problem.family.resting(rest))

    def run(self, rng: np.random.Generator) -> None:
        """Start from several motions, go on with the better ones while the barriers' weight falls."""
        try:
            running = [start_motion(self.problem, self.still, rng) for _ in range(_STARTS)]
            for u in running:
                self._look(u)
            criterion = "d"  # well conditioned everywhere: the others start from where it leads
            for weight, kept, steps in zip(_WEIGHTS, _KEPT, _STEPS):
                ended = sorted((self._minimise(u, weight, criterion, steps) for u in running), key=lambda e: e[0])
                running = [u for _, u in ended[:kept]]
                if criterion != self.problem.criterion:
                    criterion = self.problem.criterion
                    self.value = np.inf
        except Stopped:
            self.stopped = "time"
        except KeyboardInterrupt:
            self.stopped = "interrupt"

    def refine(self, u: Array, steps: int = _STEPS[-1]) -> None:
        """Search on from a motion with the last weights: limits were drawn tighter, or more times are looked at."""
        self.best, self.value, self.last = None, np.inf, u
        try:
            for weight in _WEIGHTS[-2:]:
                u = self._minimise(u, weight, self.problem.criterion, steps)[1]
        except Stopped:
            self.stopped = "time"
        except KeyboardInterrupt:
            self.stopped = "interrupt"

    def _minimise(self, u: Array, weight: float, criterion: str, steps: int) -> tuple[float, Array]:
        from scipy.optimize import minimize

        options: Any = {"maxiter": steps, "gtol": 1e-3}
        judged: Any = partial(self._judge, weight=weight, criterion=criterion)
        found = minimize(judged, u, jac=True, method="BFGS", options=options)
        self.last = np.asarray(found.x)
        self._pull_in(self.last)
        return float(found.fun), np.asarray(found.x)

    def _pull_in(self, u: Array) -> None:
        """Look at a motion a little smaller: barriers let it exceed limits by a trifle."""
        worst = self.problem.judge(u, _WEIGHTS[-1], self.problem.criterion)[3]
        for more in (1e-6, 2e-4, 2e-3, 1e-2, 3e-2):
            if worst <= _FULL or worst > _NEAR:
                break
            v = self.still + (u - self.still) * (_FULL / worst - more)
            _, _, value, worst = self.problem.judge(v, _WEIGHTS[-1], self.problem.criterion)
            self._remember(v, value, worst)

    def _judge(self, u: Array, weight: float, criterion: str) -> tuple[float, Array]:
        if time.monotonic() > self.deadline:
            raise Stopped
        total, gradient, value, worst = self.problem.judge(u, weight, criterion)
        self.evaluations += 1
        if self.progress is not None:
            self.progress(self.evaluations)
        self._remember(u, value if criterion == self.problem.criterion else np.inf, worst)
        return total, gradient

    def _look(self, u: Array) -> None:
        _, _, value, worst = self.problem.judge(u, _WEIGHTS[0], self.problem.criterion)
        self._remember(u, value, worst)

    def _remember(self, u: Array, value: float, worst: float) -> None:
        if worst <= _FULL and (value < self.value or self.best is None):
            self.best, self.value = u.copy(), min(value, self.value)
        if worst < self.least[0]:
            self.least = worst, u.copy()


def resting_pose(problem: Problem, rng: np.random.Generator) -> Array:
    """Return a pose (n,) where the limits leave most room at rest: the given start, or the best of many."""
    family, bounds = problem.family, problem.bounds
    if family.start is not None:
        return family.start
    own = slice(0, family.joints)
    middle, half = bounds.middle[own], bounds.reach["position"][own]
    spread = np.concatenate([np.zeros((1, family.joints)), rng.uniform(-0.7, 0.7, (_POSES - 1, family.joints))])
    q = middle + half * spread
    worst = (np.abs(bounds.centred(q)) / bounds.reach["position"]).max(axis=1)
    if problem.torque_limited:
        torque = problem.regressor([q, np.zeros_like(q), np.zeros_like(q)]) @ problem.target.prior
        worst = np.maximum(worst, (np.abs(torque) / bounds.effort).max(axis=1))
    if problem.clearance is not None:
        worst = np.maximum(worst, problem.clearance.shares(q)[0].max(axis=1))
    good = np.flatnonzero(worst <= max(0.5, float(worst.min())))  # the middle, where it is good enough
    return np.asarray(q[int(good[0])])


def start_motion(problem: Problem, rest: Array, rng: np.random.Generator, use: float = 0.7) -> Array:
    """Return free variables of a random motion about one at rest, as large as the limits allow."""
    family = problem.family
    still, swing = problem.coefficients(rest), family.swinging(rng)
    for joint in range(family.joints):
        used = 1e-9
        for order in problem.bounds.active:
            reach = problem.bounds.reach[KINDS[order]][joint]
            used = max(used, float(np.abs(problem.functions[0][order] @ swing[:, joint]).max()) / reach)
        swing[:, joint] *= use / used
    size = 1.0
    for _ in range(12):
        if problem.largest_share(still + size * swing) < 0.97:
            break
        size *= 0.8
    return problem.variables(still + size * swing)


def finish(search: Search, bounds: Bounds, proved: Callable[[Course], Proof], uncertain: bool) -> tuple[Array, Proof]:
    """Return the coefficients of a motion that provably keeps all limits, or comes nearest to it, and the proof.

    `bounds` are the limits themselves, `uncertain` says whether torques must keep them for robots near the model, too.
    """
    problem = search.problem

    def tried(coefficients: Array) -> Proof:
        return proved(problem.family.course(coefficients))

    nearest = search.still if search.least[1] is None else search.least[1]
    coefficients = problem.coefficients(nearest if search.best is None else search.best)
    proof = tried(coefficients)
    for attempt in range(_REFINED):
        wasted = attempt == 0 and uncertain and float(proof.shares["torque"].max()) < _WASTED
        if (proof.worst.share < _LITTLE and not wasted) or search.stopped or search.last is None:
            break
        if uncertain:  # the search knows the model alone: its limits make room for the others
            used = np.clip(proof.shares["torque"], 0.75, 2.0)
            factor = np.where((used > 1.0) | wasted, 0.985 / used, 1.0)
            problem.bounds = replace(problem.bounds, effort=np.minimum(problem.bounds.effort * factor, bounds.effort))
        for kind in ("position", "velocity", "acceleration", "jerk"):
            over = float(proof.shares[kind].max()) if kind in proof.shares else 0.0
            if over > 1.0:
                problem.tight[kind] *= 0.999 / over
        problem.look_at(proof.critical)
        search.refine(problem.variables(coefficients))
        ended = search.last if search.best is None else search.best
        if ended is None:
            break
        coefficients = problem.coefficients(ended)
        proof = tried(coefficients)
    if proof.holds:
        return coefficients, proof
    still = problem.coefficients(search.still)
    for size in _SMALLER:
        smaller = still + size * (coefficients - still)
        found = tried(smaller)
        if found.holds:
            return smaller, found
        proof, coefficients = (found, smaller) if found.worst.share < 0.5 * proof.worst.share else (proof, coefficients)
    return coefficients, proof
