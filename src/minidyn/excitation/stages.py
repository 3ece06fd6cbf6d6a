"""Motions made of stages.

Poses at rest for the parameters of gravity, sweeps at constant speed for friction. Both are chosen,
not searched by gradient: many candidates that keep the limits at samples are judged by the
criterion, the best are put together, and the whole is proved as every motion is; what is refused is
replaced by the next best.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from minidyn.arrays import Array
from minidyn.errors import MinidynError
from minidyn.excitation.bounds import KINDS, Bounds
from minidyn.excitation.clearance import Clearance
from minidyn.excitation.criteria import evaluate_criteria
from minidyn.excitation.motion import Course
from minidyn.excitation.piecewise import FASTEST, Piecewise, ahead, change_speed, hold, joined, move
from minidyn.excitation.proof import Proof
from minidyn.excitation.search import work_of
from minidyn.excitation.target import RISE, Target
from minidyn.graph.function import Function
from minidyn.graph.targets.native.kernel import compile_function

_CANDIDATES = 250  # poses
_USE = 0.95  # share of limits and ranges
_ROOM = 0.005  # m beyond the clearance at samples
_PACE = 0.7  # share of the limits of speed and acceleration that moves between poses use
_FAR = {
    True: 2.0,
    False: np.inf,
}  # rad from the middle within which poses are chosen: a half turn shows all of gravity
_SHORTEST = 0.5  # s of a move, and of a hold at least
_NUDGE = {True: 0.03, False: 0.01}  # rad and m from which a pose is approached, from either side
_ALONG = 24  # samples of a move
_REPLACED = 20  # times at most that something is replaced
_SWEEPS = 60  # candidates of sweeps
_LEVELS = 6  # speeds, each half of the one before
_LEVEL = 2.5  # s of a level at least
_RAMP = 0.12  # of a level: in which the speed rises, and half of what it reverses in
_SIZES = (1.0, 0.8, 0.64, 0.5, 0.4, 0.3, 0.2, 0.1, 0.05)


@dataclass(eq=False)
class Scene:
    """What stages are made of and must keep."""

    target: Target
    bounds: Bounds
    torque: Function | None  # of q, dq, ddq; None: torques are not limited
    clearance: Clearance | None
    prove: Callable[[Course], Proof]
    criterion: str
    weights: Array  # one over the noise (n,)
    rate: float  # samples a second
    start: Array | None
    end: Array | None
    rng: np.random.Generator

    def columns(self, motion: Sequence[Array]) -> Array:
        """Return the regressor's columns (N, n, c) along a motion."""
        robot = self.target.robot
        return self.target.regressor(robot.with_parameters(np.nan_to_num(robot.parameters)), motion)

    def work(self, moving: bool) -> Array:
        """Return the mean of YᵀY over the work space."""
        return work_of(self.target, self.columns, self.bounds, self.weights, moving)

    def kept(self, motion: Sequence[Array]) -> NDArray[np.bool_]:
        """Return at which samples (N,) of q, dq, ddq (N, n) each all limits are kept, with some
        room.
        """
        fine = np.ones(len(motion[0]), dtype=bool)
        for order, part in enumerate(motion):
            share = np.abs(self.bounds.centred(part, order)) / self.bounds.reach[KINDS[order]]
            fine &= np.all(share <= _USE, axis=1)
        if self._compiled is not None:
            tau = np.asarray(self._compiled(*(np.ascontiguousarray(part) for part in motion)))
            fine &= np.all(np.abs(tau) <= _USE * self.bounds.effort, axis=1)
        if self.clearance is not None:
            room = self.clearance.distances(motion[0]) - self.clearance.needed
            fine &= room.min(axis=1) >= _ROOM
        return fine

    @cached_property
    def _compiled(self) -> Callable[..., Any] | None:
        return None if self.torque is None else compile_function(self.torque)

    @property
    def speeds(self) -> Array:
        """Speed limits (n,)."""
        return np.asarray(self.bounds.reach["velocity"][: self.target.robot.n])

    @property
    def accelerations(self) -> Array:
        """Accelerations (n,) that stages use at most.

        The limits, or full speed in half a second.
        """
        return np.minimum(
            self.bounds.reach["acceleration"][: self.target.robot.n], self.speeds / RISE
        )

    def poses(self, count: int, use: Array | float = _USE) -> Array:
        """Return random poses (count, n) within a share of the ranges."""
        n = self.target.robot.n
        half = use * self.bounds.reach["position"][:n]
        return np.asarray(self.bounds.middle[:n] + half * self.rng.uniform(-1, 1, (count, n)))


# -------------------------------------------------------------------- poses at rest


def poses_at_rest(
    scene: Scene, duration: float
) -> tuple[Piecewise, Proof, tuple[tuple[float, float], ...]]:
    """Return a motion that stops in well chosen poses, its proof, and the times of the stops, two
    for each pose.

    Each pose is approached from above and from below in all joints, so that dry friction cancels in
    the mean.
    """
    robot = scene.target.robot
    if not scene.target.base.rank:
        raise MinidynError(
            f'excite: purpose="gravity": gravity loads no joint of robot {robot.name!r}'
        )
    nudge = np.array([_NUDGE[robot.joints[k].turns] for k in robot.independent])
    nudge = np.minimum(nudge, 0.05 * scene.bounds.reach["position"][: robot.n])
    far = np.array([_FAR[robot.joints[k].turns] for k in robot.independent])
    found = scene.poses(
        _CANDIDATES, np.minimum(_USE, far / scene.bounds.reach["position"][: robot.n])
    )
    fine = np.ones(len(found), dtype=bool)
    for off in (nudge, -nudge, 0.0 * nudge):
        fine &= scene.kept([found + off, np.zeros_like(found), np.zeros_like(found)])
    pool = found[fine]
    least = 2 * scene.target.base.rank // robot.n + 1
    if len(pool) < least:
        raise MinidynError(
            f'excite: purpose="gravity": {len(pool)} of {len(found)} random poses keep all limits '
            f"at rest, and {least} "
            "are needed; widen limits or ranges"
        )
    rows = scene.target.rows(scene.columns([pool, 0 * pool, 0 * pool]), scene.weights).reshape(
        len(pool), robot.n, -1
    )
    grams = np.swapaxes(rows, 1, 2) @ rows
    work = scene.work(moving=False)
    slower: dict[int, float] = {}  # moves to a pose of the pool that need more time
    banned: set[int] = set()
    count = min(len(pool), max(least, int(duration / (4 * _SHORTEST))))
    best: tuple[Piecewise, Proof, tuple[tuple[float, float], ...]] | None = None
    for _ in range(_REPLACED):
        made: Any = 0.0
        while isinstance(made, float):
            order = _in_order(scene, pool, _chosen(scene, grams, work, count, banned))
            if len(order) < least:
                raise MinidynError(
                    f'excite: purpose="gravity": {len(order)} poses can be reached, and {least} '
                    "are needed"
                )
            made = _stops(scene, pool, order, nudge, duration, slower)
            if isinstance(made, float) and count <= least:
                raise MinidynError(
                    f'excite: purpose="gravity": {duration:g} s are too short for {least} poses; '
                    f"allow {made:.0f} s"
                )
            count = max(least, count - max(1, count // 10)) if isinstance(made, float) else count
        motion, rests, visits = made
        proof = scene.prove(motion)
        if best is None or proof.worst.share < best[1].worst.share:
            best = motion, proof, rests
        if proof.holds:
            break
        pose = visits[
            int(np.searchsorted([when for when, _ in visits], proof.worst.time)) % len(visits)
        ][1]
        if (
            proof.worst.limit == "distance"
            or slower.get(pose, 1.0) > 4
            or proof.worst.limit == "position"
        ):
            banned.add(pose)
        else:
            slower[pose] = 1.5 * slower.get(pose, 1.0)
    assert best is not None  # noqa: S101 - there was one try at least
    return best


def _chosen(scene: Scene, grams: Array, work: Array, count: int, banned: set[int]) -> list[int]:
    """Poses that together show most: one after the other, then exchanged while that helps."""
    size = grams.shape[1]
    ridge = 1e-9 * np.trace(grams.mean(axis=0)) / size * np.eye(size)
    total, chosen = scene.target.known + ridge, list[int]()

    def best(total: Array, taken: set[int]) -> int:
        kind = "d" if len(chosen) * scene.target.robot.n < 2 * size else scene.criterion
        scores = _scores(kind, total + grams, work)
        scores[list(banned | taken)] = np.inf
        return int(np.argmin(scores))

    for _ in range(min(count, len(grams) - len(banned))):
        chosen.append(best(total, set(chosen)))
        total = total + grams[chosen[-1]]
    for place in range(len(chosen)):
        without = total - grams[chosen[place]]
        chosen[place] = best(without, set(chosen) - {chosen[place]})
        total = without + grams[chosen[place]]
    return chosen


def _scores(criterion: str, F: Array, work: Array) -> Array:
    """Return the logarithm of a criterion for many information matrices (K, b, b)."""
    if criterion == "predict":
        return np.asarray(np.log(np.einsum("kij,ji->k", np.linalg.inv(F), work)))
    values = np.maximum(np.linalg.eigvalsh(F), 1e-300)
    worst = values[:, -1] / values[:, 0] if criterion == "condition" else 1.0 / values[:, 0]
    kinds = {"d": -np.log(values).sum(axis=1), "a": np.log((1.0 / values).sum(axis=1))}
    return np.asarray(kinds.get(criterion, np.log(worst)))


def _in_order(scene: Scene, pool: Array, chosen: list[int]) -> list[int]:
    """The poses in an order with short moves that keep limits at samples.

    Poses that none leads to are left out.
    """
    here = pool[chosen[0]] if scene.start is None else scene.start
    left, order = list(chosen), list[int]()
    while left:
        near = sorted(left, key=lambda k: float(np.max(np.abs(pool[k] - here) / scene.speeds)))
        free = next((k for k in near if _free(scene, here, pool[k])), None)
        if free is None:
            break
        order.append(free)
        left.remove(free)
        here = pool[free]
    goal = _goal(scene, pool, order) if order else here
    while len(order) > 1 and not _free(scene, pool[order[-1]], goal):
        order.pop()
    return order


def _goal(scene: Scene, pool: Array, order: list[int]) -> Array:
    return (
        pool[order[0]] if scene.start is None else scene.start if scene.end is None else scene.end
    )


def _free(scene: Scene, here: Array, there: Array) -> bool:
    seconds, part = move(here, there, _seconds(scene, here, there))
    motion = joined([(seconds, part)]).derivatives(np.linspace(0.0, seconds, _ALONG))
    return bool(scene.kept(motion[:3]).all())


def _seconds(scene: Scene, here: Array, there: Array, slower: float = 1.0) -> float:
    """How long a move takes."""
    n, far = len(here), np.abs(there - here)
    speed = float(np.max(FASTEST[0] * far / (_PACE * scene.speeds)))
    acceleration = float(np.max(np.sqrt(FASTEST[1] * far / (_PACE * scene.accelerations))))
    jerk = float(np.max(np.cbrt(FASTEST[2] * far / (_USE * scene.bounds.reach["jerk"][:n]))))
    return slower * max(_SHORTEST, speed, acceleration, jerk)


Path = list[tuple[Array, int, bool]]  # pose, its place in the pool, whether to stop there


def _path(
    scene: Scene, pool: Array, order: list[int], nudge: Array, slower: dict[int, float]
) -> tuple[Array, Path, list[float]]:
    """Where the motion through poses of the pool begins, where it goes, and how long each move
    takes.
    """
    first = pool[order[0]] if scene.start is None else scene.start
    path: Path = []
    for k in order:
        path += [
            (pool[k] + nudge, k, False),
            (pool[k], k, True),
            (pool[k] - nudge, k, False),
            (pool[k], k, True),
        ]
    path.append((_goal(scene, pool, order), order[-1], False))
    poses = [first, *(pose for pose, _, _ in path)]
    moves = [
        _seconds(scene, *both, slower.get(k, 1.0)) for both, (_, k, _) in zip(pairwise(poses), path)
    ]
    return first, path, moves


def _stops(
    scene: Scene,
    pool: Array,
    order: list[int],
    nudge: Array,
    duration: float,
    slower: dict[int, float],
) -> tuple[Piecewise, tuple[tuple[float, float], ...], list[tuple[float, int]]] | float:
    """The motion through poses of the pool, its stops, and when each pose is left.

    Or the seconds that it needs.
    """
    here, path, moves = _path(scene, pool, order, nudge, slower)
    each = (duration - sum(moves)) / (2 * len(order))
    if each < _SHORTEST:
        return sum(moves) + 2 * len(order) * _SHORTEST
    pieces, rests, visits, now = [], [], [], 0.0
    for (there, k, stop), seconds in zip(path, moves):
        pieces.append(move(here, there, seconds))
        now, here = now + seconds, there
        if stop:
            pieces.append(hold(here, each))
            rests.append((now, now + each))
            now += each
        visits.append((now, k))
    return joined(pieces), tuple(rests), visits


# -------------------------------------------------------------------- sweeps for friction


def sweeps(scene: Scene, duration: float) -> tuple[Piecewise, Proof]:
    """Return a motion in which all joints sweep to and fro at constant speeds.

    Each half of the one before. The slowest reverse slowly. Candidates differ in where they sweep
    and which joints go up while others go down.
    """
    levels = max(2, min(_LEVELS, int(duration / _LEVEL)))
    work = scene.work(moving=True)
    tried: list[tuple[float, Piecewise]] = []
    for _ in range(_SWEEPS):
        motion = _sweeping(scene, duration, levels)
        if motion is None:
            continue
        t = (np.arange(400) + 0.5) * duration / 400
        W = scene.target.rows(scene.columns(motion.derivatives(t)[:3]), scene.weights)
        F = scene.rate * duration / 400 * (W.T @ W) + scene.target.known
        tried.append(
            (evaluate_criteria(scene.target.marginal(F)[0], work)[scene.criterion], motion)
        )
    tried.sort(key=lambda one: one[0])
    best: tuple[Piecewise, Proof] | None = None
    for _, motion in tried[:_REPLACED]:
        proof = scene.prove(motion)
        if best is None or proof.worst.share < best[1].worst.share:
            best = motion, proof
        if proof.holds:
            break
    if best is None:  # nothing moves: the proof says why
        still = joined([hold(scene.poses(1)[0] if scene.start is None else scene.start, duration)])
        best = still, scene.prove(still)
    return best


def _sweeping(scene: Scene, duration: float, levels: int) -> Piecewise | None:
    """One candidate; None: a limit is exceeded however small the sweeps are."""
    n, seconds = scene.target.robot.n, duration / levels
    half = scene.bounds.reach["position"][:n]
    if scene.end is not None:
        raise MinidynError('excite: purpose="friction" returns to where it starts; leave end= out')
    ramp = _RAMP * seconds
    way = seconds / 2 - 0.8125 * ramp  # s at full speed that one sweep is worth
    jerks = (
        scene.bounds.reach["jerk"][:n] * ramp**2 / 5.7735
    )  # largest slopes of the smooth step: 1.875 and 5.7735
    changes = (
        scene.bounds.reach["acceleration"][:n] if scene.torque is not None else scene.accelerations
    )
    fastest = _USE**2 * np.minimum(np.minimum(scene.speeds, changes * ramp / 1.875), jerks)
    signs = scene.rng.choice([-1.0, 1.0], n)
    speed = np.minimum(fastest, _USE**2 * 2 * half / way)
    here = scene.start
    if here is None:
        reach, room = speed * way / 2, _USE * half
        lowest, highest = (
            scene.bounds.middle[:n] - room + reach,
            scene.bounds.middle[:n] + room - reach,
        )
        here = np.clip(scene.poses(1, 0.5)[0], lowest, highest) - signs * reach
    pieces: list[tuple[float, Array]] = []
    for level in range(levels):
        for size in _SIZES:
            part = _there_and_back(here, size * signs * speed * 0.5**level, seconds, ramp)
            if scene.kept(
                joined(part).derivatives(np.linspace(0.0, seconds, 4 * _ALONG))[:3]
            ).all():
                break
        else:
            return None
        pieces += part
    return joined(pieces)


def _there_and_back(
    here: Array, v: Array, seconds: float, ramp: float
) -> list[tuple[float, Array]]:
    """Up to speed v (n,), on, reverse, back, and stop where it began."""
    steady = (seconds - 4 * ramp) / 2
    parts: list[tuple[float, Array]] = []
    zero = np.zeros_like(v)
    for before, after, length in (
        (zero, v, ramp),
        (v, v, steady),
        (v, -v, 2 * ramp),
        (-v, -v, steady),
        (-v, zero, ramp),
    ):
        parts.append(change_speed(here, before, after, length))
        here = ahead(parts[-1])
    return parts
