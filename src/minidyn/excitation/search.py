"""The search for a motion: a criterion, limits as barriers, and SciPy's BFGS.

Limits enter as relaxed logarithmic barriers: -log of the room that is left, continued by a parabola
where little or none is left, so that a search may start anywhere and has a gradient everywhere. The
weight of the barriers falls step by step. Every motion on the way that keeps all limits is
remembered if it is the best so far: a search can be stopped at any time. Coefficients are scaled,
joint by joint, by the barriers' own curvature at rest.

Gradients are exact. The criterion and the torques both depend on the motion through the regressor Y
alone: their derivatives with respect to Y, one number for each entry, go backwards through the
graph of Y in one pass (`vjp`).

Why BFGS with barriers: on a seven-joint arm (63 coefficients, 20 s), from one motion on one core,
it needed 405 evaluations and 1.7 s to a log criterion of -6.082 within all limits; an augmented
Lagrangian on L-BFGS 1,040 and 3.0 s to -6.094, outside the limits by 0.9 %; SLSQP 4.5 s to -6.075,
outside by 0.7 %; trust-constr was not done in 60 s (benchmarks/excitation.py).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from minidyn.arrays import Array
from minidyn.dynamics.record import record
from minidyn.excitation.bounds import KINDS, Bounds
from minidyn.excitation.clearance import NEARBY, Clearance
from minidyn.excitation.criteria import log_criterion
from minidyn.excitation.motion import Course, Family
from minidyn.excitation.proof import Proof
from minidyn.excitation.target import RISE, Target
from minidyn.graph.derivative import vjp
from minidyn.graph.targets.native.kernel import compile_function
from minidyn.model.robot import Robot

_SAMPLES = 24  # of one period of the highest harmonic, for criterion and torques
_FINER = 4  # times as many for the limits that are linear in the coefficients: they cost little
_ROOM = 0.3  # times the weight: where the parabola begins
TIGHT = {
    "position": 0.9985,
    "velocity": 0.9985,
    "acceleration": 0.9985,
    "jerk": 0.9985,
    "torque": 0.995,
}
"""Shares of the limits that samples may use to begin with: between them it is a little more."""
_STATES = 400  # of the work space
_SMOOTH = 0.02  # of the speed limit: over which friction reverses in the search
_WEIGHTS = (0.1, 0.03, 0.01, 0.003, 0.001)  # of the barriers, one after the other
_STARTS = 2  # motions to start from, in each of several tries
_KEPT = (1, 1, 1, 1, 1)  # that go on with each weight
_LEAST_TRIES, _MOST_TRIES = 3, 6  # searches from new starts
_HOPELESS = 3  # tries after which a design is given up where none keeps all limits
_SAME = 1.5  # of logdet, within which the best two tries agree
_STEPS = (100, 100, 80, 80, 80)  # of the solver with each weight
# share of the limits up to which samples count as keeping them: between samples it is a trifle more
_FULL = 0.9998
_NEAR = 1.05  # a motion that exceeds limits by less is pulled in
_POSES = 400  # that are looked at for a place to start from
_REFINED = 3  # times at most
_WASTED = (
    0.85  # share of the torque limits below which a motion for uncertain robots is made larger
)
_LITTLE = 1.003  # limits that are exceeded by less are kept by a motion that is a little smaller
_SMALLER = (0.999, 0.997, 0.98, 0.95, 0.9, 0.8, 0.6, 0.4, 0.2, 0.05)


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
    critical: Array = field(
        default_factory=lambda: np.zeros(0)
    )  # times (s) that are looked at beside the samples
    apart: float = (
        0.002  # m that samples keep beyond the clearance: between them distances are smaller
    )

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
        """Basis functions and smooth step with derivatives, at the samples and at critical times
        after them.
        """
        return self.family.functions(np.concatenate([self.times, self.critical]))

    def renewed(self) -> Problem:
        """Return the same for another search.

        What was drawn tighter for one motion is not for the next.
        """
        fresh = copy(self)
        fresh.tight, fresh.critical = dict(TIGHT), np.zeros(0)
        fresh.__dict__.pop("functions", None)
        return fresh

    def value(self, coefficients: Array) -> float:
        """Return the logarithm of the criterion."""
        return self.judge(self.variables(coefficients), _WEIGHTS[-1], self.criterion)[2]

    def look_at(self, times: Array) -> None:
        """Add times at which torques and distances are kept, too.

        Those where they are critical between samples.
        """
        self.critical = np.concatenate([self.critical, times])
        self.__dict__.pop("functions", None)

    @cached_property
    def finer(self) -> tuple[list[Array], list[Array]]:
        """The same at more times, for limits that are linear in the coefficients."""
        return self.family.functions(self._times(_FINER))

    @cached_property
    def _regressor(self) -> tuple[Callable[..., Any], Callable[..., Any]]:
        """The regressor's columns and the gradient of a weighted sum of its entries, as machine
        code.
        """
        columns = self.robot.layout.indices(self.target.columns)
        function = record(
            self.robot, "base_regressor", columns=columns, combine=self.target.combine
        )
        return compile_function(function), compile_function(vjp(function, ("q", "dq", "ddq")))

    @cached_property
    def scales(self) -> Array:
        """Matrices (n, m, m) from free variables to each joint's coefficients.

        The barriers' curvature becomes one.
        """
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
        return np.asarray(
            np.einsum("jab,jb->aj", self.scales, u.reshape(self.family.joints, self.family.size))
        )

    def variables(self, coefficients: Array) -> Array:
        """Return the free variables (n m,) of coefficients (m, n)."""
        return np.asarray(
            np.linalg.solve(self.scales, coefficients.T[:, :, None]).ravel(), dtype=float
        )

    def motion(self, coefficients: Array) -> list[Array]:
        """Return position, speed and acceleration (N, n) of the independent joints at the
        samples.
        """
        return [self._part(self.functions, order, coefficients) for order in range(3)]

    def _part(
        self, functions: tuple[list[Array], list[Array]], order: int, coefficients: Array
    ) -> Array:
        found = functions[0][order] @ coefficients + np.outer(
            functions[1][order], self.family.shift
        )
        return np.asarray(found + self.family.beginning if order == 0 else found)

    def shares(self, coefficients: Array, Y: Array) -> dict[str, Array]:
        """Return the shares of all limits that are used, with signs.

        (samples, joints) for each kind.
        """
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
        return self.tight[kind] * (
            self.bounds.effort if kind == "torque" else self.bounds.reach[kind]
        )

    def regressor(self, motion: list[Array]) -> Array:
        """Return Y (N, n, c) along a motion."""
        return np.asarray(self._regressor[0](*(np.ascontiguousarray(part) for part in motion)))

    def judge(self, u: Array, barrier: float, criterion: str) -> tuple[float, Array, float, float]:
        """Return objective with barriers, its gradient (n m,), the criterion alone, the largest
        share of a limit.
        """
        coefficients = self.coefficients(u)
        motion = self.motion(coefficients)
        Y = self.regressor(motion)
        count = len(self.times)
        W = self.target.rows(Y[:count], self.weights)
        S, P = self.target.marginal(self.samples / count * (W.T @ W) + self.target.known)
        value, slope = log_criterion(criterion, S, self.work)
        G = np.zeros(Y.shape)
        G[:count] = self.target.back(
            2 * self.samples / count * (W @ (P.T @ slope @ P)), Y[:count], self.weights
        )
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


def work_of(
    target: Target,
    columns: Callable[[list[Array]], Array],
    bounds: Bounds,
    weights: Array,
    moving: bool = True,
) -> Array:
    """Return the mean of YᵀY (a, a) over the work space, of what counts.

    At rest where nothing moves.
    """
    n = len(weights)
    unit = np.random.default_rng(0).uniform(-1, 1, (3, _STATES, n))
    fastest = np.minimum(bounds.reach["acceleration"][:n], bounds.reach["velocity"][:n] / RISE)
    q = bounds.middle[:n] + bounds.reach["position"][:n] * unit[0]
    speed, acceleration = bounds.reach["velocity"][:n] * unit[1], fastest * unit[2]
    rows = target.rows(columns([q, float(moving) * speed, float(moving) * acceleration]), weights)[
        :, target.counted
    ]
    return np.asarray(rows.T @ rows / (_STATES * n))


def problem_of(
    target: Target,
    family: Family,
    bounds: Bounds,
    criterion: str,
    sigma: Array,
    samples: float,
    phi: Array | None,
) -> Problem:
    """Return the problem of a design.

    `sigma` (n,) is the noise of the torques, `phi` (p,) predicts them.
    """
    model, n = target.robot, target.robot.n
    speeds = bounds.reach["velocity"][:n]
    widths = {name: _SMOOTH * speed for name, speed in zip(model.joint_names, speeds)}
    smooth = model.with_drives(
        sign_width=[
            max(joint.drive.sign_width, widths.get(joint.name, 0.0)) for joint in model.joints
        ]
    )
    if phi is not None:
        smooth = smooth.with_parameters(phi)  # loads that friction grows with
    problem = Problem(
        smooth,
        target,
        family,
        bounds,
        criterion,
        1.0 / sigma,
        samples,
        np.zeros((0, 0)),
        dict(TIGHT),
    )
    problem.work = work_of(target, problem.regressor, bounds, problem.weights)
    return problem


class Stopped(Exception):
    """The time is over."""


@dataclass(eq=False)
class Search:
    """The search itself: what was found so far."""

    problem: Problem
    deadline: float = np.inf  # time.monotonic() at which it ends
    progress: Callable[[int], None] | None = None
    best: Array | None = (
        None  # free variables of the best motion that keeps all limits at the samples
    )
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
        """Free variables of the motion that stays where the limits leave most room, or goes
        straight to its end.
        """
        rest = resting_pose(self.problem, np.random.default_rng(0))
        return self.problem.variables(self.problem.family.resting(rest))

    def run(self, rng: np.random.Generator) -> None:
        """Start from several motions, go on with the better ones while the barriers' weight
        falls.
        """
        try:
            running = [start_motion(self.problem, self.still, rng) for _ in range(_STARTS)]
            for u in running:
                self._look(u)
            criterion = "d"  # well conditioned everywhere: the others start from where it leads
            for weight, kept, steps in zip(_WEIGHTS, _KEPT, _STEPS):
                ended = sorted(
                    (self._minimise(u, weight, criterion, steps) for u in running),
                    key=lambda e: e[0],
                )
                running = [u for _, u in ended[:kept]]
                if criterion != self.problem.criterion:
                    criterion = self.problem.criterion
                    self.value = np.inf
        except Stopped:
            self.stopped = "time"
        except KeyboardInterrupt:
            self.stopped = "interrupt"

    def refine(self, u: Array, steps: int = _STEPS[-1]) -> None:
        """Search on from a motion with the last weights.

        Limits were drawn tighter, or more times are looked at.
        """
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
    """Return a pose (n,) where the limits leave most room at rest.

    The given start, or the best of many.
    """
    family, bounds = problem.family, problem.bounds
    if family.start is not None:
        return family.start
    own = slice(0, family.joints)
    middle, half = bounds.middle[own], bounds.reach["position"][own]
    spread = np.concatenate(
        [np.zeros((1, family.joints)), rng.uniform(-0.7, 0.7, (_POSES - 1, family.joints))]
    )
    q = middle + half * spread
    worst = (np.abs(bounds.centred(q)) / bounds.reach["position"]).max(axis=1)
    if problem.torque_limited:
        torque = problem.regressor([q, np.zeros_like(q), np.zeros_like(q)]) @ problem.target.prior
        worst = np.maximum(worst, (np.abs(torque) / bounds.effort).max(axis=1))
    if problem.clearance is not None:
        worst = np.maximum(worst, problem.clearance.shares(q)[0].max(axis=1))
    good = np.flatnonzero(
        worst <= max(0.5, float(worst.min()))
    )  # the middle, where it is good enough
    return np.asarray(q[int(good[0])])


def start_motion(
    problem: Problem, rest: Array, rng: np.random.Generator, use: float = 0.7
) -> Array:
    """Return free variables of a random motion about one at rest, as large as the limits allow."""
    family = problem.family
    still, swing = problem.coefficients(rest), family.swinging(rng)
    for joint in range(family.joints):
        used = 1e-9
        for order in problem.bounds.active:
            reach = problem.bounds.reach[KINDS[order]][joint]
            used = max(
                used, float(np.abs(problem.functions[0][order] @ swing[:, joint]).max()) / reach
            )
        swing[:, joint] *= use / used
    size = 1.0
    for _ in range(12):
        if problem.largest_share(still + size * swing) < 0.97:
            break
        size *= 0.8
    return problem.variables(still + size * swing)


@dataclass(frozen=True, eq=False)
class Try:
    """What one search led to.

    Attributes:
        coefficients: Of its motion.
        proof: How much of each limit the motion uses.
        value: Logarithm of its criterion.
        promised: That of a motion that kept all limits at samples, before it was made smaller to
            keep them at all times; infinite where there was none.
        size: What it was made smaller to, 1 where it was not.
    """

    coefficients: Array
    proof: Proof
    value: float
    promised: float
    size: float = 1.0


@dataclass(frozen=True, eq=False)
class Outcome:
    """The best of several tries.

    Attributes:
        best: The try.
        lost: How many times larger its criterion is than the best that any try had within all
            limits at samples.
        completed: Tries that ran to their end.
        evaluations: Motions that were looked at.
        stopped: "time" or "interrupt" where the search was ended.
    """

    best: Try
    lost: float
    completed: int
    evaluations: int
    stopped: str


def best_of_tries(
    problem: Problem,
    bounds: Bounds,
    proved: Callable[[Course], Proof],
    uncertain: bool,
    rng: np.random.Generator,
    deadline: float,
    progress: Callable[[int], None] | None,
) -> Outcome:
    """Search from new starts until the best two motions agree, and return the best.

    One search may end in a place where no motion of its kind keeps the limits: made smaller until
    it does, it shows nothing. `bounds`, `proved` and `uncertain` are as for `finish`.
    """
    tries, evaluations, stopped, begun = list[Try](), 0, "", time.monotonic()
    same = _SAME / (2 * len(problem.target.counted))
    while not stopped and not _settled(tries, same):
        if tries and time.monotonic() + (time.monotonic() - begun) / len(tries) > deadline:
            stopped = "time"
            break
        search = Search(problem.renewed(), deadline, progress, evaluations=evaluations)
        search.run(rng)
        tries.append(finish(search, bounds, proved, uncertain))
        evaluations, stopped = search.evaluations, search.stopped
    completed = len(tries) - bool(search.stopped)
    best = min(tries, key=_rank)
    promised = min(min(one.value, one.promised) for one in tries)
    lost = float(np.exp(min(best.value - promised, 700.0)))
    return Outcome(best, lost, completed, evaluations, stopped)


def _rank(one: Try) -> tuple[bool, float]:
    """Motions that keep all limits first, then the better ones."""
    return not one.proof.holds, one.value if one.proof.holds else one.proof.worst.share


def _settled(tries: list[Try], same: float) -> bool:
    """Whether another search would hardly help."""
    if len(tries) >= _MOST_TRIES:
        return True
    values = sorted(one.value for one in tries if one.proof.holds)
    if not values:
        return len(tries) >= _HOPELESS
    promised = min(one.promised for one in tries)
    agreed = len(values) > 1 and values[1] - values[0] < same and values[0] - promised < same
    return agreed and len(tries) >= _LEAST_TRIES


def finish(
    search: Search, bounds: Bounds, proved: Callable[[Course], Proof], uncertain: bool
) -> Try:
    """Return a motion that provably keeps all limits, or comes nearest to it.

    `bounds` are the limits themselves, `uncertain` says whether torques must keep them for robots
    near the model, too.
    """
    coefficients, proof = _refined(search, bounds, proved, uncertain)
    value, size = search.problem.value(coefficients), 1.0
    promised = np.inf if search.best is None else value
    if not proof.holds:
        coefficients, proof, size = _made_smaller(search, proved, coefficients, proof)
        value = search.problem.value(coefficients)
    return Try(coefficients, proof, value, promised, size)


def _refined(
    search: Search, bounds: Bounds, proved: Callable[[Course], Proof], uncertain: bool
) -> tuple[Array, Proof]:
    """The best motion, searched on with tighter limits where its proof asks for it."""
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
            problem.bounds = replace(
                problem.bounds, effort=np.minimum(problem.bounds.effort * factor, bounds.effort)
            )
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
    return coefficients, proof


def _made_smaller(
    search: Search, proved: Callable[[Course], Proof], coefficients: Array, proof: Proof
) -> tuple[Array, Proof, float]:
    """The motion nearer to rest by as little as its limits ask for, its proof, and its size."""
    still = search.problem.coefficients(search.still)
    nearest = coefficients, proof, 1.0
    for size in _SMALLER:
        smaller = still + size * (coefficients - still)
        found = proved(search.problem.family.course(smaller))
        if found.holds:
            return smaller, found, size
        if found.worst.share < 0.5 * nearest[1].worst.share:
            nearest = smaller, found, size
    return nearest
