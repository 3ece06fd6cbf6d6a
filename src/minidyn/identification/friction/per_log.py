"""Friction of its own for each log: it changes with temperature from log to log, the links do not.

Base parameters are those of links, rotors and springs, which all logs share, and friction. The
friction f_k of log k varies about a mean f with a spread S, which the logs show; `shared.py` has
the sum of squares, in which R_k and z_k are what any estimator makes of log k alone. Large spreads
leave each log its own friction, vanishing ones are one friction for all; a log that hardly shows a
friction takes that of the others. The covariance of the mean holds the spread over the number of
logs: it is that of the friction of the robot, not of these logs. A new log differs from the mean by
the spread.

Where every log has a temperature, f is a line over it, f + g (T_k - T), with the mean at the mean
temperature T; the spread is what that line leaves.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations, pairwise
from typing import Any

import numpy as np

from minidyn.arrays import Array
from minidyn.base.base_map import BaseMap
from minidyn.identification.data import BLOCKS
from minidyn.identification.estimators import solve
from minidyn.identification.estimators.method import Fold, Options, Solution
from minidyn.identification.friction.shared import ALIKE, Joined, Split, spread_of
from minidyn.identification.problem import BlockProblem, Rows
from minidyn.identification.rows.base_rows import Samples, steady_regressor
from minidyn.identification.sizes import MAX_FITS
from minidyn.model.drives import FRICTION, NON_NEGATIVE
from minidyn.model.parameters import Column
from minidyn.model.robot import Robot
from minidyn.notices import Notice, info, warning
from minidyn.recording.lazy import AnyRecording
from minidyn.recording.recording import Recording

PER = ("log",)
"""What friction may be for each of."""
SETTING = "friction_logs"
"""Where an estimate's record has the friction of each log."""

TEMPERATURE = "temperature"
"""Telemetry by which friction may vary, °C."""

SAMPLES = 1000  # size: of a log that are looked at
MAX_BREAK = 10.0  # s: a longer one, or time that runs backwards, begins a new log
MIN_LOGS = 4  # that a line over the temperature takes
MIN_WARMTH = 0.5  # K: logs whose temperatures differ by less (1 σ) show no line
ANCHORS = 16  # size: samples by which a fitted log is recognised
SAME = 1e-6  # rounding: rad or m, of positions in files
MIN_DIFFERENCE = 0.3  # of the squares that friction of each log must bring to be reported

VARIES = info(
    "friction.per_log", "Friction was fitted for each log: how much it varies between logs."
)
ONE_LOG = info(
    "friction.one_log",
    "Friction for each log was asked for, and there is one log: it has one friction.",
    f"Give several logs. Runs whose times go on with breaks of less than {MAX_BREAK:g} s count as "
    "one.",
)

DIFFERS = warning(
    "friction.differs",
    "Friction differs from log to log, as it does with temperature, and the model has one "
    "friction for all.",
    'Identify with friction_per="log" (--friction-per log): each log has its own.',
)


def logs_of(recording: AnyRecording) -> list[AnyRecording]:
    """Return the logs of a recording: runs whose times go on, with short breaks, are one."""
    edges, last = [0], np.inf
    runs: Sequence[AnyRecording] = recording.runs
    for start, run in zip(recording.starts, runs):
        first, end = _ends(run)
        if start and not 0.0 <= first - last <= MAX_BREAK:
            edges.append(start)
        last = end
    edges.append(len(recording))
    return [recording] if len(edges) == 2 else [recording[a:b] for a, b in pairwise(edges)]


def _ends(run: AnyRecording) -> tuple[float, float]:
    """Return the first and the last time of a run, s."""
    return float(run[:1].load().t[0]), float(run[len(run) - 1 :].load().t[0])


@dataclass(frozen=True, eq=False, kw_only=True)
class LogsSolution(Solution):
    """The solution for several logs: beta holds shared parameters and the mean friction."""

    split: Split
    logs: tuple[Solution, ...]  # of each log alone
    spread: Array  # standard deviations of friction between logs (m,)
    anchors: tuple[tuple[Array, Array], ...]  # some times (a,) and positions (a, n) of each log
    temperature: float | None  # mean of the logs, °C; None: not known, or no line
    offsets: Array  # of the logs' temperatures from it, K; zeros without a line (L,)
    slope: Array  # of friction over the temperature (m,)

    def record_of(self, beta: Array, consistent: bool) -> dict[str, Any]:
        """Return the friction of each log where all logs have the shared parameters of beta (b,),
        for records.
        """
        means = beta[list(self.split.own)] + np.outer(self.offsets, self.slope)
        values = [
            _own_friction(self.split, part, beta, mean, self.spread, consistent)
            for part, mean in zip(self.logs, means)
        ]
        made: dict[str, Any] = {
            "names": list(self.split.names),
            "values": [row.tolist() for row in values],
        }
        made |= {"spread": self.spread.tolist()}
        if self.temperature is not None:
            made |= {"temperature": self.temperature, "slope": self.slope.tolist()}
        made |= {"anchors": [[t.tolist(), q.tolist()] for t, q in self.anchors]}
        return {SETTING: made}

    def varies(self, beta: Array) -> Notice:
        """Return how much friction varies."""
        mean = np.abs(beta[list(self.split.own)])
        dry = [
            k
            for k, name in enumerate(self.split.names)
            if name.startswith(FRICTION["coulomb"]) and mean[k] > 0
        ]
        most = max(dry, key=lambda k: self.spread[k] / mean[k], default=None)
        text = f"friction of {len(self.logs)} logs, links shared"
        data: dict[str, Any] = {"logs": len(self.logs), "names": list(self.split.names)}
        if most is not None:
            share = float(self.spread[most] / mean[most])
            text += (
                f": {self.split.names[most]} varies most of Coulomb friction, by "
                f"{100 * share:.3g} % (1 σ)"
            )
            data |= {"most": self.split.names[most], "share": share}
        if self.temperature is not None:
            text += f", besides a line over temperatures about {self.temperature:.3g} °C"
            data |= {"temperature": self.temperature, "slope": self.slope.tolist()}
        return VARIES(f"{text}; the model has the mean", **data, spread=self.spread.tolist())


def solve_per_log(
    method: Callable[[Robot, BaseMap, Any, Options], Solution],
    robot: Robot,
    base: BaseMap,
    recording: AnyRecording,
    options: Options,
) -> Solution:
    """Return the solution of a method with friction of its own for each log."""
    logs, split = logs_of(recording), Split.of(base)
    if len(logs) == 1 or not split.own:
        found = method(robot, base, recording, options)
        why = "the recording is one log" if split.own else "the model has no friction"
        text = f"friction for each log was asked for; {why}"
        return replace(found, notices=(*found.notices, ONE_LOG(text, logs=len(logs))))
    parts = [method(robot, base, log, replace(options, allow_open=True)) for log in logs]
    warmth = np.array([temperature_of(log) for log in logs])
    line = len(logs) >= MIN_LOGS and float(np.std(warmth)) > MIN_WARMTH  # not where one is NaN
    offsets = warmth - warmth.mean() if line else np.zeros(len(logs))
    spread = np.full(len(split.own), np.inf)
    for _ in range(MAX_FITS):
        joint = Joined(split, [(part.R, part.z) for part in parts], spread, offsets)
        before, spread = spread, spread_of(split, parts, joint)
        if np.allclose(spread, before, rtol=0.02):
            break
    joint = Joined(split, [(part.R, part.z) for part in parts], spread, offsets)
    R, z, rest = joint.form
    samples = np.array([len(log) for log in logs], dtype=float)
    sigma = np.sqrt(np.average([part.sigma**2 for part in parts], axis=0, weights=samples))
    beta = solve.solve(R, z, base, options.allow_open)
    found = LogsSolution(
        beta,
        joint.covariance([part.covariance for part in parts]),
        sigma,
        solve.condition_of(R),
        R,
        z,
        rest + sum(part.rest for part in parts),
        partial(_folds, split, parts, spread, offsets),
        tuple(dict.fromkeys(notice for part in parts for notice in part.notices)),
        parts[0].record,
        split=split,
        logs=tuple(parts),
        spread=spread,
        anchors=tuple(_anchors(log) for log in logs),
        temperature=float(warmth.mean()) if line else None,
        offsets=offsets,
        slope=joint.slope(beta),
    )
    return replace(found, notices=(*found.notices, found.varies(beta)))


def differing(
    robot: Robot, base: BaseMap, recording: AnyRecording, found: Solution
) -> list[Notice]:
    """Return a notice where friction that one half of a log shows foretells the other half much
    better.

    Halves are blocks of time in turn. One linear step from the solution, the links as they are.
    Logs on disk are not read again for it.
    """
    known = (
        isinstance(recording, Recording) and recording.ddq is not None and not robot.implicit_loops
    )
    if (
        not known
        or isinstance(found, LogsSolution)
        or base.mixing is not None
        or base.rows is not None
    ):
        return []
    logs, own = logs_of(recording), list(Split.of(base).own)
    if len(logs) == 1 or not own:
        return []
    squares = []
    for log in logs:
        some = Samples.all_of(log.thinned(max(1, len(log) // SAMPLES)))
        Y = steady_regressor(robot, base, *some.motion)
        left = (some.tau - Y @ found.beta) / found.sigma
        columns = Y[..., own] / found.sigma[:, None]
        turn = np.arange(len(left)) * BLOCKS // len(left) % 2
        halves = [
            Rows({"friction": columns[turn == k].reshape(-1, len(own))}, left[turn == k].ravel())
            for k in (0, 1)
        ]
        for one, other in (halves, halves[::-1]):
            step = BlockProblem.of(one).solved(allow_open=True).x
            after = other.right - other.columns["friction"] @ step
            squares.append([np.sum(other.right**2), np.sum(after**2)])
    before, after = np.sum(squares, axis=0).tolist()
    share = 1.0 - after / max(before, 1e-300)
    if not share > MIN_DIFFERENCE:
        return []
    text = (
        f"friction differs between the {len(logs)} logs: with what one half of a log shows of it, "
        f"squares left of the other half are {100 * share:.2g} % fewer"
    )
    return [DIFFERS(text, logs=len(logs), share=share)]


def _own_friction(
    split: Split, part: Solution, beta: Array, mean: Array, spread: Array, bounded: bool
) -> Array:
    """Return the friction (m,) of one log about a mean (m,) where the shared parameters are those
    of beta (b,).
    """
    own = split.friction_rows(part.R, part.z, beta)
    problem = BlockProblem.of(own, Rows.known("friction", mean, spread))
    if not bounded:
        return problem.solved().x
    return problem.bounded(np.array([symbol in NON_NEGATIVE for symbol in split.symbols]))


def _folds(split: Split, parts: Sequence[Solution], spread: Array, offsets: Array) -> list[Fold]:
    """Return training and validation forms.

    A stretch of each log is held out, its friction is that of the rest.
    """
    made: list[Fold] = []
    for folds in zip(*(part.folds() for part in parts)):
        joint = Joined(split, [(R, z) for R, z, *_ in folds], spread, offsets)
        held = []
        for (_, _, X, y, _), a, B in zip(folds, *joint.friction()):
            friction, shared = X[:, split.own], X.copy()
            shared[:, split.own] = 0.0
            held.append(Rows({"base": shared + friction @ B}, y - friction @ a))
        R, z, rest = BlockProblem.of(*held).left_to("base")
        made.append((*joint.form[:2], R, z, rest + sum(fold[4] for fold in folds)))
    return made


def temperature_of(log: AnyRecording) -> float:
    """Return the mean of a log's columns of temperatures, °C; NaN where there are none."""
    some = log.thinned(max(1, len(log) // SAMPLES)).telemetry.get(TEMPERATURE)
    return math.nan if some is None or not np.isfinite(some).any() else float(np.nanmean(some))


def _anchors(log: AnyRecording) -> tuple[Array, Array]:
    """Return times (a,) and positions (a, n) of some samples of a log."""
    places = np.unique(np.linspace(0, len(log) - 1, ANCHORS).astype(int))
    some = [log[int(k) : int(k) + 1].load() for k in places]
    return np.concatenate([one.t for one in some]), np.concatenate([one.q for one in some])


@dataclass(frozen=True)
class FrictionOfLogs:
    """The friction of each fitted log, as an estimate's record has it."""

    names: tuple[str, ...]  # of base parameters (m,)
    values: Array  # (L, m)
    spread: Array  # standard deviations between logs (m,)
    anchors: tuple[tuple[Array, Array], ...]
    temperature: float = math.nan  # of the mean, °C; NaN: not known
    slope: Array | float = 0.0  # of friction over it (m,)

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> FrictionOfLogs | None:
        """Return it from the record of an estimate; None where all logs have one friction."""
        if (known := record.get(SETTING)) is None:
            return None
        anchors = tuple(
            (np.array(t, dtype=float), np.array(q, dtype=float)) for t, q in known["anchors"]
        )
        made = cls(
            tuple(known["names"]), np.array(known["values"]), np.array(known["spread"]), anchors
        )
        if "slope" not in known:
            return made
        return replace(
            made, temperature=float(known["temperature"]), slope=np.array(known["slope"])
        )

    def log_of(self, run: AnyRecording) -> int | None:
        """Return which fitted log a prepared run is part of; None: another one."""
        for number, (t, q) in enumerate(self.anchors):
            first, last = _ends(run)
            for time, position in zip(t, q):
                if first <= time <= last and _has(run, time, position):
                    return number
        return None

    def parameters(self, base: BaseMap, parameters: Array, values: Array) -> tuple[Array, Array]:
        """Return (beta (b,), standard parameters (p,)) with friction (m,) instead of the mean."""
        phi, layout = np.array(parameters), base.robot.layout
        for name, value in zip(self.names, values):
            phi[layout.index(name)] = value
        return np.asarray(base.matrix @ phi, dtype=float), phi

    def at(self, parameters: Array, base: BaseMap, temperature: float) -> Array:
        """Return the friction (m,) at a temperature, °C, where standard parameters (p,) hold the
        mean.
        """
        layout = base.robot.layout
        mean = parameters[[layout.index(name) for name in self.names]]
        found = mean + self.slope * (temperature - self.temperature)
        bounded = np.array([layout.column(name).symbol in NON_NEGATIVE for name in self.names])
        return np.asarray(np.where(bounded, np.maximum(found, 0.0), found), dtype=float)

    def covariance(self, base: BaseMap) -> Array:
        """Return what another log adds to the covariance (b, b) of base parameters, which holds the
        mean of these.

        Few logs do not show a spread well: 1.96 deviations hold Student's 95 %, with the degrees of
        freedom that a spread pooled over joints has. Warmth changes all friction of a joint: as far
        as friction of two kinds varied together, over all joints, it does so in another log.
        """
        from scipy.special import stdtrit  # seldom needed

        columns, count = [base.robot.layout.column(name) for name in self.names], len(self.values)
        free = max(1, count - 1 - bool(np.any(self.slope)))
        alike = np.array(
            [sum(other.symbol == column.symbol for other in columns) for column in columns]
        )
        others = (
            ALIKE / (free + ALIKE) / alike
        )  # weight of each joint's own variance in a pooled one
        known = free / ((1.0 - (alike - 1) * others) ** 2 + (alike - 1) * others**2)
        student = (stdtrit(known, 0.975) / 1.96) ** 2
        one = (
            self.spread**2 * (free + ALIKE - 2) / (free + ALIKE)
        )  # without the mean of Student's squares
        std = np.sqrt(np.maximum((1.0 + 1.0 / count) * student * one - self.spread**2 / count, 0.0))
        own = [base.kept.index(name) for name in self.names]
        found = np.zeros((base.rank, base.rank))
        found[np.ix_(own, own)] = self._together(columns) * np.outer(std, std)
        return found

    def _together(self, columns: Sequence[Column]) -> Array:
        """Return how friction of a joint is correlated (m, m) between logs.

        Two kinds over all joints, at least 0.
        """
        off = (self.values - self.values.mean(axis=0)) / np.maximum(self.spread, 1e-300)
        found = np.eye(len(columns))
        for one, two in combinations(dict.fromkeys(column.symbol for column in columns), 2):
            sides = [
                {c.joint: k for k, c in enumerate(columns) if c.symbol == kind}
                for kind in (one, two)
            ]
            a, b = ([side[joint] for joint in sides[0] if joint in sides[1]] for side in sides)
            size = float(np.linalg.norm(off[:, a]) * np.linalg.norm(off[:, b]))
            found[a, b] = found[b, a] = max(0.0, float(np.sum(off[:, a] * off[:, b]))) / max(
                size, 1e-300
            )
        values, turn = np.linalg.eigh(found)
        return np.asarray((turn * np.maximum(values, 0.0)) @ turn.T)


def _has(run: AnyRecording, time: float, position: Array) -> bool:
    for tile in run.tiles():
        at = int(np.argmin(np.abs(tile.t - time)))
        if np.abs(tile.t[at] - time) < 1e-9 * max(1.0, abs(time)) + 1e-6:
            return bool(np.abs(tile.q[at] - position).max() < SAME)
    return False
