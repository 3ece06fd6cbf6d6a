"""Pieces of a recording, by which a changed copy of it is told from another run of its motion.

A sketch keeps `PIECES` pieces of `LENGTH` consecutive samples, spread evenly over a recording in
memory; of a fast recording means of a few samples each, so that pieces are long enough to show
the motion and the noise that resampling and filters leave. In a recording that is compared each
piece's motion is looked for at any lag and rate, positions up to an offset of each joint. Where it
is there, torques decide: the noise of a measurement never comes twice. A copy has it, however it
was resampled, filtered, scaled or shaken in addition; the same program run a second time has noise
of its own. Three signs count, over
all pieces and joints, with scale and offset of each joint left free:

    third differences, nearly all noise, of both are correlated, or
    means over some samples differ by less than two independent noises would, or
    they differ by white noise alone, and there is far more of it than in the piece.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import Any

import numpy as np

from minidyn.arrays import Array
from minidyn.recording.recording import Recording

PIECES, LENGTH = 12, 128
_LEAST_SECONDS = 1.0  # of a piece: means of a tenth of it pass a low-pass of 10 Hz
_FEW_PIECES = 4  # of a short recording: more of them count before longer ones
_MOST_LAGS = 1e6  # that are tried: more are times that jump
_CANDIDATES = 6  # places of the compared recording that are looked at more closely, for each piece
_ROUNDS = 6  # in which a lag settles
_FEATURE_CAP = 0.3  # of a joint's spread: an offset of one joint counts no more
_SHAPE = 0.05  # of a joint's spread: by so much the motion of a piece may differ
_TORQUE = 0.2  # of a joint's torque, too
_CLIP = 2.0  # standard deviations: jumps of friction count no more
_CORRELATED = 0.2  # of third differences: noise of its own has less
_NEARER = 0.35  # of the variance that two independent noises would have
_NOISIER = 3.0  # times the variance of the piece's noise: noise was added
_SPAN = 5  # samples of a mean, whose variance must be that of noise
_AS_NOISE = 1.5  # times that variance
_WINDOWS = (5, 9, 27)  # samples of a mean
_DEGREE = 5  # of the polynomial that gives the speeds of a piece
_FEWEST = 8  # samples of a piece that are compared
_THIRD = 20.0  # variance of third differences over that of white noise


@dataclass(frozen=True)
class MotionSketch:
    """Pieces of a recording.

    Attributes:
        t: Times (pieces, samples), s.
        q: Positions (pieces, samples, n).
        tau: Torques (pieces, samples, n).
        seconds: Length of the recording.
    """

    t: Array
    q: Array
    tau: Array
    seconds: float

    @classmethod
    def of(cls, recording: Recording) -> MotionSketch | None:
        """Return pieces of a recording; None where it is too short or holds no numbers."""
        seconds = seconds_of(recording)
        most = len(recording) // (_FEW_PIECES * LENGTH)
        recording = _averaged(recording, min(most, _count(recording, _LEAST_SECONDS / LENGTH)))
        apart = LENGTH if len(recording) >= _FEW_PIECES * LENGTH else LENGTH // 4
        starts = [
            first
            for begin, end in pairwise([*recording.starts, len(recording)])
            for first in range(begin, end - LENGTH + 1, apart)
        ]
        if recording.tau is None or not starts:
            return None
        chosen = [
            starts[k] for k in np.linspace(0, len(starts) - 1, min(PIECES, len(starts))).astype(int)
        ]
        pieces = [
            (
                recording.t[k : k + LENGTH],
                recording.q[k : k + LENGTH],
                recording.tau[k : k + LENGTH],
            )
            for k in chosen
        ]
        sound = [
            piece
            for piece in pieces
            if all(np.isfinite(part).all() for part in piece) and np.all(np.diff(piece[0]) > 0)
        ]
        if not sound:
            return None
        t, q, tau = (np.stack([np.asarray(piece[k]) for piece in sound]) for k in range(3))
        return cls(t - t[:, :1], q, tau, seconds)

    @classmethod
    def joined(cls, parts: Iterable[MotionSketch | None]) -> MotionSketch | None:
        """Return the sketch of several recordings, no larger than that of one."""
        known = [part for part in parts if part is not None]
        if not known or len({part.q.shape[2] for part in known}) > 1:
            return None
        t, q, tau = (
            np.concatenate([getattr(part, name) for part in known]) for name in ("t", "q", "tau")
        )
        rows = np.linspace(0, len(t) - 1, min(PIECES, len(t))).astype(int)
        return cls(t[rows], q[rows], tau[rows], sum(part.seconds for part in known))

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        texts = {
            name: base64.b64encode(getattr(self, name).astype("<f4").tobytes()).decode()
            for name in ("t", "q", "tau")
        }
        return {"seconds": self.seconds, "shape": list(self.q.shape), **texts}

    @classmethod
    def from_json(cls, content: object) -> MotionSketch | None:
        """Return the sketch of plain values; None where it cannot be read."""
        if not isinstance(content, Mapping):
            return None
        try:
            shape = tuple(int(x) for x in content["shape"])
            t, q, tau = (
                np.frombuffer(base64.b64decode(content[name]), dtype="<f4").astype(float)
                for name in ("t", "q", "tau")
            )
            seconds = float(content["seconds"])
            found = cls(t.reshape(shape[:2]), q.reshape(shape), tau.reshape(shape), seconds)
        except (KeyError, TypeError, ValueError):
            return None
        return found if len(shape) == 3 and all(shape) else None

    def compare(self, tested: Recording) -> MotionOverlap:
        """Return which share of a recording has this motion, and whether it is a copy."""
        if tested.tau is None or tested.n != self.q.shape[2]:
            return MotionOverlap(0.0, False)
        seconds = max(seconds_of(tested), 1e-9)
        step = min(float(np.median(np.diff(self.t))), _LEAST_SECONDS / LENGTH)
        log = _Log.of(_averaged(tested, _count(tested, step)))
        pairs = [pair for k in range(len(self.t)) if (pair := self._found(log, k)) is not None]
        if not pairs:
            return MotionOverlap(0.0, False)
        share = min(1.0, len(pairs) / len(self.t) * self.seconds / seconds)
        return MotionOverlap(share, _is_copy(pairs))

    def _found(self, log: _Log, k: int) -> _Pair | None:
        """Return torques of a piece and those of the compared recording at the same motion."""
        best: tuple[float, _Pair] | None = None
        places = log.candidates(self.t[k], self.q[k])
        settled = (log.settled(self.t[k], self.q[k], place) for place in places)
        for lag in chain.from_iterable(settled):
            if log.differs(self.t[k] + lag, self.q[k]):
                continue
            times = log.times(self.t[k] + lag)
            if len(times) < _FEWEST:
                continue
            known = _at(self.t[k] + lag, self.tau[k], times)
            pair = _Pair(known, _at(log.t, log.tau, times), _white(self.tau[k]))
            power = float(np.mean(pair.left**2))
            if best is None or power < best[0]:
                best = power, pair
        if best is None or best[0] > _TORQUE**2 * float(np.mean(log.tau**2)):
            return None
        return best[1]


@dataclass(frozen=True)
class _Pair:
    """Torques (samples, n) of a piece and of another recording at the same motion."""

    known: Array
    torque: Array
    variance: Array  # of the piece's noise (n,)

    @property
    def left(self) -> Array:
        """What the piece leaves of the torques, scale and offset of each joint free."""
        x, y = _centred(self.known), _centred(self.torque)
        scale = np.sum(x * y, axis=0) / np.maximum(np.sum(x**2, axis=0), 1e-300)
        return np.asarray(y - np.clip(scale, 0.9, 1.1) * x)


@dataclass(frozen=True)
class MotionOverlap:
    """How much of a recording has the motion of another one.

    Attributes:
        share: Share of its samples with the same motion, 0 to 1.
        is_copy: Whether its torques have the same noise, too.
    """

    share: float
    is_copy: bool


@dataclass(frozen=True)
class _Log:
    """A recording that is compared."""

    t: Array
    q: Array
    tau: Array
    spread: Array  # of each joint's positions (n,)

    @classmethod
    def of(cls, recording: Recording) -> _Log:
        q, tau = np.nan_to_num(recording.q), np.nan_to_num(np.asarray(recording.tau))
        t = np.asarray(recording.t, dtype=float).copy()
        for start in recording.starts[1:]:  # runs one after the other
            t[start:] += max(0.0, t[start - 1] - t[start]) + 1.0
        spread = np.maximum(q.std(axis=0), 1e-9 + 0.02 * float(q.std(axis=0).max()))
        return cls(t, q, tau, spread)

    def candidates(self, t: Array, q: Array) -> list[float]:
        """Return lags at which the motion of a piece may be found, the likeliest first."""
        third = (float(t[-1]) - float(t[0])) / 2
        step, span = max(third / 4, 1e-6), float(self.t[-1] - self.t[0]) - 2 * third
        if not 0.0 < span < _MOST_LAGS * step:  # a jump in time
            return []
        middle = np.arange(self.t[0] + third, self.t[-1] - third, step)
        if not len(middle):
            return []
        wanted = self._features(*(_at(t, q, t[0] + x) for x in (0.0, third, 2 * third)))
        around = [_at(self.t, self.q, middle + x) for x in (-third, 0.0, third)]
        apart = np.minimum(np.abs(self._features(*around) - wanted), _FEATURE_CAP)
        cost = np.sum(apart**2, axis=-1)
        order, chosen = np.argsort(cost), list[float]()
        for k in order[: 20 * _CANDIDATES].tolist():
            lag = float(middle[k] - third - t[0])
            if all(abs(lag - other) > third for other in chosen):
                chosen.append(lag)
            if len(chosen) == _CANDIDATES:
                break
        return chosen

    def _features(self, first: Array, middle: Array, last: Array) -> Array:
        """Return position, way and bend of each joint (..., 3 n), over its spread."""
        parts = [middle, last - first, first - 2 * middle + last]
        return np.concatenate([part / self.spread for part in parts], axis=-1)

    def settled(self, t: Array, q: Array, lag: float) -> Iterator[float]:
        """Yield lags at which a piece fits best.

        Positions as they are; with an offset of each joint; with an offset and a scale.
        """
        slope = _speeds(t, q) / self.spread
        for free in _nuisance(q):
            clean = free(slope)
            power, found = float(np.sum(clean**2)), lag
            for _ in range(_ROUNDS if power > 0 else 0):
                if t[0] + found < self.t[0] or t[-1] + found > self.t[-1]:
                    break
                error = (q - _at(self.t, self.q, t + found)) / self.spread
                step = float(np.sum(clean * error)) / power
                found += max(-0.3 * float(t[-1]), min(0.3 * float(t[-1]), step))
            if power > 0 and t[0] + found >= self.t[0] and t[-1] + found <= self.t[-1]:
                yield found

    def times(self, t: Array) -> Array:
        """Return the times at which torques are compared: those of the coarser recording."""
        inside = self.t[np.searchsorted(self.t, t[0]) : np.searchsorted(self.t, t[-1], "right")]
        return inside if len(inside) < 0.9 * len(t) else t

    def differs(self, t: Array, q: Array) -> bool:
        """Say whether a piece's motion is another one than that at these times."""
        apart = q - _at(self.t, self.q, t)
        shape = np.sqrt(np.mean(_centred(apart) ** 2, axis=0)) / self.spread
        offset = np.abs(apart.mean(axis=0)) / self.spread
        far = int(np.sum(offset > _SHAPE + 0.03 * np.abs(q).mean(axis=0) / self.spread))
        return bool(np.any(shape > _SHAPE)) or far > 1  # one joint may have an offset


def seconds_of(recording: Recording) -> float:
    """Return the length of all runs, s."""
    ends = pairwise([*recording.starts, len(recording)])
    return float(sum(recording.t[end - 1] - recording.t[begin] for begin, end in ends))


def _count(recording: Recording, step: float) -> int:
    """Return how many samples last about as long as a step, s."""
    own = float(np.median(np.diff(recording.t))) if len(recording) > 1 else 0.0
    return int(step / own + 0.5) if own > 0 else 1


def _averaged(recording: Recording, count: int) -> Recording:
    """Return means of each so many consecutive samples of a run."""
    count = min(count, len(recording))
    if count < 2:
        return recording
    runs = []
    for run in recording.runs:
        whole = len(run) // count * count
        arrays = (np.asarray(x)[:whole] for x in (run.t, run.q, run.tau))
        t, q, tau = (x.reshape(-1, count, *x.shape[1:]).mean(axis=1) for x in arrays)
        runs.append((t, q, tau))
    starts = np.cumsum([0, *(len(run[0]) for run in runs[:-1])])
    t, q, tau = (np.concatenate([run[k] for run in runs]) for k in range(3))
    return Recording(t, q, tau, joint_names=recording.joint_names, starts=starts.tolist())


def _at(t: Array, values: Array, times: Any) -> Array:
    """Return signals (N, n) at other times."""
    return np.stack([np.interp(times, t, column) for column in values.T], axis=-1)


def _centred(values: Array) -> Array:
    return np.asarray(values - values.mean(axis=0))


def _nuisance(q: Array) -> tuple[Callable[[Array], Array], ...]:
    """Return what takes nothing, an offset, or an offset and a scale of the positions out of
    signals.
    """
    own = _centred(q)
    squares = np.maximum(np.sum(own**2, axis=0), 1e-300)

    def scaled(values: Array) -> Array:
        values = _centred(values)
        return np.asarray(values - own * (np.sum(own * values, axis=0) / squares))

    return np.asarray, _centred, scaled


def _speeds(t: Array, q: Array) -> Array:
    """Return the speeds of a short piece (samples, n), from a polynomial."""
    x = 2.0 * t / float(t[-1]) - 1.0
    polynomial = np.polynomial.legendre.legfit(x, q, _DEGREE)
    slope = np.polynomial.legendre.legder(polynomial)
    return np.asarray(np.polynomial.legendre.legval(x, slope).T * 2.0 / float(t[-1]))


def _white(torque: Array) -> Array:
    """Return the variance of white noise (n,) that third differences show."""
    size = np.median(np.abs(np.diff(torque, 3, axis=0)), axis=0) / 0.6745
    return np.asarray(size**2 / _THIRD + 1e-300)


def _is_copy(pairs: list[_Pair]) -> bool:
    """Say whether torques of the same motion have the same noise, too."""
    products, first, second = 0.0, 0.0, 0.0
    ratios: dict[int, list[float]] = {window: [] for window in _WINDOWS}
    for pair in pairs:
        noises = [np.diff(values, 3, axis=0) for values in (pair.known, pair.torque)]
        sizes = [np.median(np.abs(noise), axis=0) / 0.6745 + 1e-300 for noise in noises]
        x, y = (np.clip(e / size, -_CLIP, _CLIP) for e, size in zip(noises, sizes))
        products += float(np.sum(x * y))
        first += float(np.sum(x**2))
        second += float(np.sum(y**2))
        left = pair.left
        for window in (one for one in _WINDOWS if 2 * one <= len(left)):
            mean = np.mean(_means(left, window) ** 2, axis=0)
            ratios[window] += list(mean * window / (2 * pair.variance))
    if products > _CORRELATED * np.sqrt(first * second):
        return True
    near = any(float(np.median(found)) < _NEARER for found in ratios.values() if found)
    return near or _is_shaken(pairs)


def _is_shaken(pairs: list[_Pair]) -> bool:
    """Say whether torques differ by noise alone that was added to them.

    A second run of the program has as much noise as the first one.
    """
    own = np.stack([pair.variance for pair in pairs])
    added = np.stack([_white(pair.torque) for pair in pairs])
    if not float(np.median(added / own)) > _NOISIER:
        return False
    left = np.stack([np.mean(_means(pair.left, _SPAN) ** 2, axis=0) for pair in pairs])
    return float(np.median(left * _SPAN / (own + added))) < _AS_NOISE


def _means(values: Array, window: int) -> Array:
    """Return means over a window of consecutive samples."""
    weights = np.ones(window) / window
    return np.apply_along_axis(np.convolve, 0, values, weights, "valid")
