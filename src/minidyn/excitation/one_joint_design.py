"""Which joint to move and where to lock the others, so that every small problem is well
conditioned.

A run gives each joint behind the mover a few equations. Their Gram matrices add up over runs, so a
set of runs is judged without building it: candidates are places spread evenly over the joint
ranges, and a greedy choice followed by exchanges keeps those that give the best conditions. Nothing
is random: the same robot gets the same plan. Places where the mover's motion would exceed a limit
or come too near to something are left out; where few are left the motion becomes slower or smaller.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from minidyn.arrays import Array
from minidyn.errors import Unsupported
from minidyn.excitation.bounds import KINDS, Bounds
from minidyn.excitation.clearance import Clearance
from minidyn.excitation.motion import Eased
from minidyn.excitation.one_joint_equations import Equations
from minidyn.excitation.proof import Proof, prove
from minidyn.graph.function import Function
from minidyn.graph.targets.native.kernel import compile_function
from minidyn.simulation.trajectory import Fourier

_CANDIDATES = 160
_GOAL = 15.0  # conditions below this are good: no further run is asked for
_MORE = 8  # runs beyond one for each mover
_WORTH = 0.05  # a further run must lower the (logarithmic) score by this
# eigenvalues of a Gram matrix with unit diagonal that are smaller leave a combination open
_OPEN = 1e-9
_REACH = {True: 1.2, False: 0.2}  # largest swing of a mover, turning (rad) and sliding (m)
_SPEED = {True: 2.5, False: 0.5}  # largest speed where the robot sets no lower limit, rad/s and m/s
_RANGE = {True: np.pi, False: 0.5}  # range of joints without limits
_USE = 0.9  # share of ranges and speeds that is used
FASTEST = {turns: speed / _USE for turns, speed in _SPEED.items()}
"""Speed limits of joints that have none, turning (rad/s) and sliding (m/s)."""
_THIRD = 0.3  # share of the third harmonic: acceleration is then not proportional to displacement
_RAMP = 1.0  # s at least, from rest to the motion
_SAMPLES = 48  # of a motion, where limits are looked at
_ENOUGH = 12  # places that keep all limits: with fewer the motion becomes slower or smaller
_TRIES = 14
_SLOWER, _SMALLER = 1.4, 0.7
_FULL, _ROOM = 0.98, 0.003  # share of the limits, and m beyond the clearance, at samples


class Run(NamedTuple):
    """One run: the joint that moves, and the candidate where the others are locked."""

    mover: int
    candidate: int


@dataclass(eq=False)
class Design:
    """The choice of runs for a chain."""

    equations: Equations  # the chain's equations
    bounds: Bounds  # limits of the motions
    torque: Function | None = None  # torques of q, dq, ddq; None: they are not limited
    clearance: Clearance | None = None  # distances to keep
    _grams: dict[tuple[int, int], Array] = field(default_factory=dict)
    _refused: int = 0
    _hopeless: set[int] = field(default_factory=set)  # movers that keep their limits nowhere
    _paces: dict[int, tuple[float, float, NDArray[np.bool_]]] = field(default_factory=dict)

    # ---------------------------------------------------------------- ranges, places and motions

    @cached_property
    def ranges(self) -> tuple[Array, Array]:
        """Lower and upper ends of the ranges that are used (n,) each."""
        n = self.equations.n
        middle, reach = self.bounds.middle[:n], self.bounds.reach["position"][:n]
        half = np.minimum(
            _USE * reach, [_RANGE[joint.turns] for joint in self.equations.chain.joints]
        )
        return middle - half, middle + half

    @cached_property
    def candidates(self) -> Array:
        """Places (M, n) spread evenly.

        The additive sequence with the least discrepancy known for its cost.
        """
        n = self.equations.n
        root = 2.0
        for _ in range(60):
            root = (1.0 + root) ** (1.0 / (n + 1))
        steps = root ** -np.arange(1.0, n + 1)
        unit = np.modf(0.5 + np.arange(_CANDIDATES)[:, None] * steps)[0]
        lower, upper = self.ranges
        return np.asarray(lower + unit * (upper - lower))

    def trajectory(self, run: Run) -> Fourier:
        """Return the motion of all joints in a run.

        A sine with its third harmonic for the mover, the others held.
        """
        smaller, slower, _ = self._pace(run.mover)
        return self._series(run.mover, self.candidates[run.candidate], smaller, slower)

    def _series(self, mover: int, place: Array, smaller: float, slower: float) -> Fourier:
        place = place.copy()
        lower, upper = self.ranges
        joint = self.equations.chain.joints[mover]
        place[mover] = (lower[mover] + upper[mover]) / 2
        x = np.linspace(0.0, 2 * np.pi, 721)
        peak = float(np.max(np.sin(x) + _THIRD * np.sin(3 * x)))
        swing = smaller * min((upper[mover] - lower[mover]) / 2, _REACH[joint.turns]) / peak
        fastest = min(_USE * self.bounds.reach["velocity"][mover], _SPEED[joint.turns]) / slower
        sine = np.zeros((3, len(place)))
        sine[0, mover], sine[2, mover] = swing, _THIRD * swing
        period = 2 * np.pi * swing * (1 + 3 * _THIRD) / fastest
        return Fourier(place, sine, np.zeros_like(sine), float(period))

    # ---------------------------------------------------------------- limits

    def _pace(self, mover: int) -> tuple[float, float, NDArray[np.bool_]]:
        """How much smaller and slower a mover moves than it could, and which places (M,) keep all
        limits then.
        """
        if mover not in self._paces:
            smaller, slower = 1.0, 1.0
            best = smaller, slower, np.zeros(_CANDIDATES, dtype=bool)
            for _ in range(_TRIES):
                within, apart = self._kept(mover, smaller, slower)
                if (within & apart).sum() > best[2].sum():
                    best = smaller, slower, within & apart
                if best[2].sum() >= _ENOUGH:
                    break
                if apart.sum() < _ENOUGH:
                    smaller *= _SMALLER
                else:
                    slower *= _SLOWER
            if not best[2].any():
                self._hopeless.add(mover)
                best = 1.0, 1.0, np.ones(_CANDIDATES, dtype=bool)
            self._paces[mover] = best
        return self._paces[mover]

    def _kept(
        self, mover: int, smaller: float, slower: float
    ) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """At which places (M,) the mover's motion keeps speeds and torques, and at which its
        distances, at samples.
        """
        everywhere, n = np.ones(_CANDIDATES, dtype=bool), self.equations.n
        course = eased(self._series(mover, self.candidates[0], smaller, slower))
        highest = course.highest()
        for order in (2, 3):
            if not np.all(highest[order] <= _FULL * self.bounds.reach[KINDS[order]][:n]):
                return ~everywhere, everywhere
        motion = course.derivatives(np.linspace(0.0, course.span, _SAMPLES))[:3]
        q, dq, ddq = (np.zeros((_CANDIDATES, _SAMPLES, n)) for _ in range(3))
        q[:] = self.candidates[:, None]
        for part, moved in zip((q, dq, ddq), motion):
            part[:, :, mover] = moved[:, mover]
        within = apart = everywhere
        if self.torque is not None:
            tau = np.asarray(
                self._compiled(*(part.reshape(-1, n) for part in (q, dq, ddq)))
            ).reshape(q.shape)
            within = np.all(np.abs(tau) <= _FULL * self.bounds.effort, axis=(1, 2))
        if self.clearance is not None:
            room = self.clearance.distances(q.reshape(-1, n)) - self.clearance.needed
            apart = room.reshape(_CANDIDATES, -1).min(axis=1) >= _ROOM
        return within, apart

    @cached_property
    def _compiled(self) -> Callable[..., object]:
        assert self.torque is not None  # noqa: S101 - asked for where torques are limited
        return compile_function(self.torque)

    def proofs(self) -> list[Proof]:
        """Return what is known of every chosen run.

        Those that do not keep their limits are replaced by others.
        """
        known: dict[Run, Proof] = {}
        while True:
            for run in self.runs:
                if run not in known:
                    course = eased(self.trajectory(run))
                    known[run] = prove(
                        course, self.bounds, self.torque, self.equations.n, self.clearance
                    )
                if not known[run].holds and self._refuse(run):
                    break
            else:
                return [known[run] for run in self.runs]

    def _refuse(self, run: Run) -> bool:
        """Leave a place out for a mover, and choose again; False: no other is left."""
        places = self._pace(run.mover)[2]
        if run.mover in self._hopeless or places.sum() < 2 or self._refused == _TRIES:
            return False
        self._refused += 1
        places[run.candidate] = False
        self.__dict__.pop("runs", None)
        return True

    # ---------------------------------------------------------------- movers

    @cached_property
    def movers(self) -> dict[int, dict[int, tuple[str, ...]]]:
        """{mover: {joint: constants that this mover shows first}}.

        The movers that are needed, in their order. A joint that slides shows its mass by moving;
        joint r shows most of the rest; what it cannot show (inertia about an axis that stays
        perpendicular to r's, first moments where r is along gravity) another joint before it, or
        the joint itself, does; one that must move anyway is preferred.

        Implements: Lin1992 Algorithm 2.
        Differs: What a motion shows is found by rank over all candidate places, which covers every
        case of step 3.
        """
        equations, found = self.equations, dict[int, dict[int, tuple[str, ...]]]()
        joints = equations.chain.joints
        for joint in range(equations.n):
            names = equations.names(joint)
            if not names:
                continue
            must = [joint] if joints[joint].slides or equations.chain.layout.drives[joint] else []
            first = [] if equations.first is None or equations.first > joint else [equations.first]
            before = [i for i in range(joint) if joints[i].turns] + [
                i for i in range(joint) if joints[i].slides
            ]
            shown: set[str] = set()
            gram = np.zeros((len(names), len(names)))
            scale = self._sizes[joint]
            for mover in dict.fromkeys(
                (*must, *first, *(i for i in found if i <= joint), joint, *before)
            ):
                if len(shown) == len(names):
                    break
                more = gram + self.gram(mover, joint)[self._pace(mover)[2]].sum(axis=0) / np.outer(
                    scale, scale
                )
                now = _determined(more, names)
                if _rank(more) == _rank(gram) and mover not in must:
                    continue
                gram = more
                found.setdefault(mover, {})[joint] = tuple(
                    name for name in names if name in now - shown
                )
                shown = now
            if len(shown) < len(names):
                missing = ", ".join(name for name in names if name not in shown)
                raise Unsupported(
                    f"one joint at a time: robot {equations.robot.name!r} does not show {missing} "
                    "that way: use md.identify with motions of all joints"
                )
        return dict(sorted(found.items()))

    # ---------------------------------------------------------------- choice of runs

    def gram(self, mover: int, joint: int) -> Array:
        """Return AᵀA (M, p, p) of a joint's own combinations for a run of the mover at every
        candidate place.
        """
        if (mover, joint) not in self._grams:
            A = self._rows(mover, joint, self.candidates)
            self._grams[mover, joint] = np.swapaxes(A, -1, -2) @ A
        return self._grams[mover, joint]

    def _rows(self, mover: int, joint: int, places: Array) -> Array:
        """A joint's equations (..., 24, p) over one period of the mover's motion, at places (...,
        n).
        """
        trajectory = self.trajectory(Run(mover, 0))
        t = trajectory.period * (np.arange(24) + 0.5) / 24
        q, dq, ddq = (signal[:, mover] for signal in trajectory(t))
        return self.equations.own_rows(mover, joint, places, q, dq, ddq)

    @cached_property
    def _sizes(self) -> list[Array]:
        """The usual size of every column of every joint's equations: over all places and movers."""
        return [
            np.sqrt(sum(np.einsum("mkk->k", self.gram(i, joint)) for i in range(joint + 1)))
            for joint in range(self.equations.n)
        ]

    @cached_property
    def runs(self) -> tuple[Run, ...]:
        """The chosen runs, by mover."""
        movers = list(self.movers)
        if not movers:
            return ()
        chosen: list[Run] = []
        for mover in movers:
            chosen.append(Run(mover, self._best(chosen, mover)[1]))
        chosen, score = self._exchanged(chosen)
        for _ in range(_MORE):
            conditions = self.conditions(chosen)
            worst = int(np.argmax(conditions))
            if conditions[worst] < _GOAL:
                break
            # the worst joint may move itself: axes that are nearly perpendicular to r's show little
            # otherwise
            trials = [
                (*self._best(chosen, mover), mover) for mover in dict.fromkeys((*movers, worst))
            ]
            _, candidate, mover = min(trials)
            longer, better = self._exchanged([*chosen, Run(mover, candidate)])
            if better > score - _WORTH:
                break
            chosen, score = longer, better
        return tuple(sorted(chosen))

    def conditions(self, runs: Sequence[Run], scaled: bool = False) -> list[float]:
        """Return the condition number of every joint's equations from all runs.

        1 where a joint has nothing to find. Scaled, columns have unit length, so that units and
        sizes play no part.
        """
        found = []
        for joint in range(self.equations.n):
            parts = [
                self._rows(run.mover, joint, self.candidates[run.candidate])
                for run in runs
                if run.mover <= joint
            ]
            if not parts or not self.equations.own[joint]:
                found.append(1.0)
                continue
            A = np.concatenate(parts)
            size = np.linalg.norm(A, axis=0) if scaled else np.ones(A.shape[1])
            found.append(float(np.linalg.cond(A / size)) if np.all(size > 0) else np.inf)
        return found

    def _exchanged(self, runs: list[Run]) -> tuple[list[Run], float]:
        """Replace runs by better ones of the same mover until nothing is gained.

        Return them with their score.
        """
        chosen = list(runs)
        score = float(self._score([self._sum(chosen, joint) for joint in range(self.equations.n)]))
        for _ in range(4):
            before = score
            for place in range(len(chosen)):
                rest = chosen[:place] + chosen[place + 1 :]
                better, candidate = self._best(rest, chosen[place].mover)
                if better < score:
                    chosen[place], score = Run(chosen[place].mover, candidate), better
            if score > before - 0.01:
                break
        return chosen, score

    def _best(self, runs: list[Run], mover: int) -> tuple[float, int]:
        """The candidate that goes best with other runs: (score, candidate)."""
        sums = []
        for joint in range(self.equations.n):
            fixed = self._sum(runs, joint)
            sums.append(fixed + self.gram(mover, joint) if mover <= joint else fixed)
        scores = np.where(
            self._pace(mover)[2], np.broadcast_to(self._score(sums), (_CANDIDATES,)), np.inf
        )
        scores[[run.candidate for run in runs if run.mover == mover]] = np.inf  # shows nothing new
        best = int(np.argmin(scores))
        return float(scores[best]), best

    def _sum(self, runs: Sequence[Run], joint: int) -> Array:
        size = len(self.equations.own[joint])
        grams = (self.gram(run.mover, joint)[run.candidate] for run in runs if run.mover <= joint)
        return sum(grams, np.zeros((size, size)))

    def _score(self, sums: list[Array]) -> Array:
        """The worst logarithmic condition, and a little of all of them, so that every joint is
        looked after.
        """
        logs = np.stack(
            np.broadcast_arrays(
                *[self._log_condition(G, size) for G, size in zip(sums, self._sizes)]
            )
        )
        return np.asarray(logs.max(axis=0) + logs.mean(axis=0))

    @staticmethod
    def _log_condition(G: Array, size: Array) -> Array:
        """Logarithmic condition number of equations with this Gram matrix, and a fine for what they
        leave open.

        What is open is judged without units: a column may be small, as where two axes are nearly
        parallel.
        """
        if not G.shape[-1]:
            return np.zeros(G.shape[:-2])
        values = np.linalg.eigvalsh(G)
        top = values[..., -1]
        least = np.maximum(values[..., 0], 1e-13 * top)
        shape = np.linalg.eigvalsh(G / np.outer(size, size))
        open_ = (shape <= 1e-3 * _OPEN * shape[..., -1:]).sum(axis=-1)
        return np.asarray(
            np.log(np.maximum(top, 1e-300) / np.maximum(least, 1e-300)) / 2 + 20.0 * open_
        )


def eased(series: Fourier, periods: int = 1) -> Eased:
    """Return a motion from rest to rest along a periodic one."""
    return Eased(series, periods, max(_RAMP, 0.5 * series.period))


def _rank(gram: Array) -> int:
    return int((np.linalg.eigvalsh(gram) > _OPEN).sum()) if gram.size else 0


def _determined(gram: Array, names: tuple[str, ...]) -> set[str]:
    """Names whose value a problem with this Gram matrix (unit scale) gives alone."""
    values, vectors = np.linalg.eigh(gram)
    open_ = np.linalg.norm(vectors[:, values <= _OPEN], axis=1)
    return {name for name, share in zip(names, open_) if share < 1e-3}
