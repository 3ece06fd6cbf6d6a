"""Linear systems of any rows, with or without instruments: solved, weighted by their noise, with honest covariance.

Rows come in pieces and are reduced to triangles at once. Each piece holds one or more kinds of rows (one for each
joint, or one for the energy), and every kind has a noise of its own. With instruments Z the estimate solves
Zᵀ (y - W beta) = 0, without them Z is W and it is least squares.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from minidyn.base.base_map import BaseMap
from minidyn.blas import single_thread
from minidyn.errors import MinidynError, UnknownParameters
from minidyn.experiment.recording import Recording
from minidyn.identification.folds import Fold
from minidyn.identification.least_squares import condition_of, solve

__all__ = ["FOLDS", "Piece", "Pieces", "SystemFit", "block_covariance", "block_sums", "fit_system", "signals_of"]

Array = NDArray[np.float64]
FOLDS = 5
_PASSES = 12
_BLOCKS = 30
_GROWTH, _SINKING = 1.15, 1.3  # changes of the variances below which longer blocks are not worth their scatter
_LEAST_MEMORY = 1e-3


@dataclass(frozen=True)
class Piece:
    """Rows of one stretch of time.

    Attributes:
        W: Columns (K, kinds, b).
        y: Right side (K, kinds).
        t: Times (K,), s.
        place: Where in the recording it begins, from 0 to 1.
        Z: Instruments (K, kinds, b); None: W itself.
    """

    W: Array
    y: Array
    t: Array
    place: float
    Z: Array | None = None

    @property
    def instruments(self) -> Array:
        """Z, or W where there is none."""
        return self.W if self.Z is None else self.Z


Pieces: TypeAlias = Callable[[], Iterable[Piece]]
"""Gives all pieces, each time anew."""


@dataclass(frozen=True)
class SystemFit:
    """The solution of a linear system.

    Attributes:
        beta: Base parameters (b,).
        covariance: Of beta (b, b), from sums over blocks of time.
        sigma: Noise of each kind of rows (kinds,), standard deviation.
        condition: Condition number, columns scaled.
        R: (b, b) triangle of ‖R beta - z‖² + rest, in variances of independent noise.
        z: (b,).
        rest: Misfit that no parameters explain.
        folds: The same for stretches of time.
        memory: Rows that repeat each other, as the variances show; squares were divided by it.
        block: Rows of one kind in a block.
        seconds: That a block lasts.
        rows: Rows of each kind.
    """

    beta: Array
    covariance: Array
    sigma: Array
    condition: float
    R: Array
    z: Array
    rest: float
    folds: list[Fold]
    memory: float
    block: int
    seconds: float
    rows: int


def fit_system(base: BaseMap, pieces: Pieces) -> SystemFit:
    """Solve a linear system, each kind of rows weighted by its own noise.

    Raises:
        MinidynError: There are too few rows, or they leave a base parameter open.
    """
    with single_thread():
        reduced = _Reduced.of(pieces, base.rank)
        if reduced.rows * len(reduced.whole) < base.rank:
            raise MinidynError(
                f"{reduced.rows * len(reduced.whole)} rows are too few for {base.rank} base parameters; record longer"
            )
        sigma = reduced.size
        form = _Form.of(reduced.whole, sigma, base)
        for _ in range(_PASSES):
            sigma = reduced.noise(form, sigma)
            before, form = form, _Form.of(reduced.whole, sigma, base)
            if np.abs(form.R @ (form.beta - before.beta)).max(initial=0.0) < 1e-3:  # of a standard deviation
                break
        length, seconds = _block_length(pieces, form.beta, reduced.rows)
        rest = float(np.sum(reduced.squares(form.beta) / sigma**2))
        covariance, memory = _covariance(pieces, form, sigma, length, rest, reduced.rows * len(sigma))
        memory = max(memory, _LEAST_MEMORY)
        root = np.sqrt(memory)
        folds = reduced.folds(sigma * root, base)
    return SystemFit(
        form.beta,
        covariance,
        sigma,
        condition_of(form.R),
        form.R / root,
        form.z / root,
        rest / memory,
        folds,
        memory,
        length,
        seconds,
        reduced.rows,
    )


@dataclass(frozen=True)
class _Form:
    """Weighted rows with their solution: beta = bread Zᵀ y, and ‖R beta - z‖² its quadratic form."""

    beta: Array
    R: Array
    z: Array
    bread: Array
    plain: bool

    @classmethod
    def of(cls, factors: list[Array], sigma: Array, base: BaseMap) -> _Form:
        """Solve from triangular factors of [Z | W | y], one for each kind of rows."""
        size = base.rank
        F = _triangle(np.concatenate([factor / noise for factor, noise in zip(factors, sigma)]))
        F = np.pad(F, ((0, max(0, len(F.T) - len(F))), (0, 0)))
        if F.shape[1] == size + 1:
            R, z = F[:size, :size], F[:size, size]
            beta = solve(R, z, base)
            inverse = np.asarray(solve_triangular(R, np.eye(size)), dtype=float)
            return cls(beta, R, z, inverse @ inverse.T, True)
        Q, R = np.linalg.qr(F[:size, size : 2 * size])
        z = Q.T @ F[:size, 2 * size]
        beta = solve(R, z, base)
        turned = np.asarray(solve_triangular(F[:size, :size], Q), dtype=float)
        return cls(beta, R, z, np.asarray(solve_triangular(R, turned.T), dtype=float), False)


@dataclass(frozen=True)
class _Reduced:
    """Triangular factors of [Z | W | y] or [W | y] of each kind of rows, for the whole and for stretches of time."""

    parts: list[list[Array]]
    whole: list[Array]
    rows: int
    columns: int

    @classmethod
    def of(cls, pieces: Pieces, columns: int) -> _Reduced:
        parts: list[list[Array]] = [[] for _ in range(FOLDS)]
        rows = 0
        for piece in pieces():
            rows += len(piece.y)
            own = parts[min(FOLDS - 1, int(FOLDS * piece.place))]
            for kind in range(piece.y.shape[1]):
                sides = [piece.W[:, kind], piece.y[:, kind, None]]
                new = np.concatenate(sides if piece.Z is None else [piece.Z[:, kind], *sides], axis=1)
                if kind < len(own):
                    own[kind] = _triangle(np.concatenate([own[kind], new]))
                else:
                    own.append(_triangle(new))
        filled = [part for part in parts if part]
        if not filled:
            raise MinidynError("identification needs samples; the recording has none")
        whole = [_triangle(np.concatenate(factors)) for factors in zip(*filled)]
        return cls(filled, whole, rows, columns)

    @property
    def size(self) -> Array:
        """Root mean square of each kind's right side, or one where it is zero."""
        squares = np.array([float(factor[:, -1] @ factor[:, -1]) for factor in self.whole])
        return np.where(squares > 0, np.sqrt(squares / max(1, self.rows)), 1.0)

    def squares(self, beta: Array) -> Array:
        """Sum of squared residuals of each kind (kinds,)."""
        last: list[Array] = [factor[:, -self.columns - 1 :] @ np.append(beta, -1.0) for factor in self.whole]
        return np.array([float(misfit @ misfit) for misfit in last])

    def noise(self, form: _Form, sigma: Array) -> Array:
        """Standard deviation of each kind's residual, with the parameters that its rows determine taken off."""
        size = self.columns
        spent = [
            float(np.sum(form.bread.T * (factor[:, :size].T @ factor[:, -size - 1 : -1]))) / noise**2
            for factor, noise in zip(self.whole, sigma)
        ]
        free = np.maximum(1.0, self.rows - np.array(spent))
        return np.asarray(np.maximum(np.sqrt(self.squares(form.beta) / free), 1e-9 * self.size), dtype=float)

    def folds(self, sigma: Array, base: BaseMap) -> list[Fold]:
        """Return training and validation forms; stretches that do not determine everything cannot judge."""
        made: list[Fold] = []
        for held, part in enumerate(self.parts):
            others = [factors for number, factors in enumerate(self.parts) if number != held]
            if not others:
                continue
            try:
                training = _Form.of([_triangle(np.concatenate(kind)) for kind in zip(*others)], sigma, base)
            except MinidynError:
                continue
            R, z, rest = self._held(part, sigma)
            made.append((training.R, training.z, R, z, rest))
        return made

    def _held(self, factors: list[Array], sigma: Array) -> tuple[Array, Array, float]:
        size = self.columns
        F = _triangle(np.concatenate([factor / noise for factor, noise in zip(factors, sigma)]))
        F = np.pad(F, ((0, max(0, len(F.T) - len(F))), (0, 0)))
        if F.shape[1] == size + 1:
            return F[:size, :size], F[:size, size], float(F[size, size] ** 2)
        return F[:size, size : 2 * size], F[:size, 2 * size], 0.0


def _block_length(pieces: Pieces, beta: Array, rows: int) -> tuple[int, float]:
    """Return (rows, seconds) of a block: ten times the memory of the residuals."""
    longest = max(pieces(), key=lambda piece: len(piece.t))
    residual = longest.y - longest.W @ beta
    memory = 1.0
    for series in residual.T:
        centred = series - series.mean()
        power = float(centred @ centred)
        if power <= 0:
            continue
        lags = len(series) // 4
        spectrum = np.abs(np.fft.rfft(centred, 2 * len(centred))) ** 2
        correlation = np.fft.irfft(spectrum)[: lags + 1] / power
        below = np.flatnonzero(correlation < 0.05)
        until = int(below[0]) if len(below) else lags
        memory = max(memory, 1.0 + 2.0 * float(np.sum(correlation[1 : until + 1])))
    step = float(np.median(np.diff(longest.t))) if len(longest.t) > 1 else 0.0
    # at least twenty rows; but at least thirty blocks, or the spread of their sums says little
    length = max(1, min(int(max(20, np.ceil(10 * memory))), rows // _BLOCKS))
    return length, length * step


def block_sums(scores: Iterable[Array], length: int) -> Array:
    """Sum scores (K, b) of each piece over blocks of `length` rows: (blocks, b). Blocks end with their piece."""
    sums = []
    for part in scores:
        begins = np.arange(0, len(part), length)
        if len(begins) > 1 and len(part) - begins[-1] < (length + 1) // 2:
            begins = begins[:-1]  # a short rest joins the block before
        if len(begins):
            sums.append(np.add.reduceat(part, begins, axis=0))
    return np.concatenate(sums)


def block_covariance(bread: Array, G: Array, white: Array, rows: int, least_white: bool = True) -> tuple[Array, float]:
    """Covariance (b, b) from the spread of block sums G (blocks, b) of scores, where beta moves by bread @ score.

    Neighbouring blocks are joined, two by two, as long as that lets the variances grow (slow errors may hide in the
    noise of single samples) or, where they may be below `white`, sink. At least thirty blocks are kept, or the spread
    of their sums says little.

    Args:
        bread: (b, b).
        G: Block sums.
        white: What the covariance would be for independent rows (b, b).
        rows: Number of rows.
        least_white: Never return variances below `white`: few blocks may understate them.

    Returns:
        The covariance, and the mean of its variances over those of `white`.
    """
    free = max(1, rows - len(bread))
    found: list[tuple[float, Array]] = []
    joined = 1
    while not found or len(G) >= _BLOCKS * joined:
        sums = np.add.reduceat(G, np.arange(0, len(G), joined), axis=0)
        spread = bread @ sums.T
        clustered = len(sums) / max(1, len(sums) - 1) * rows / free * spread @ spread.T
        found.append((float(np.mean(np.diag(clustered) / np.maximum(np.diag(white), 1e-300))), clustered))
        joined *= 2
    largest, last = max(ratio for ratio, _ in found), found[-1][0]
    settled = (_GROWTH * ratio >= largest and (least_white or ratio <= _SINKING * last) for ratio, _ in found)
    ratio, clustered = next((pair for pair, use in zip(found, settled) if use), found[-1])
    if least_white:
        factor = np.sqrt(np.maximum(np.diag(white) / np.maximum(np.diag(clustered), 1e-300), 1.0))
        clustered, ratio = clustered * np.outer(factor, factor), max(ratio, 1.0)
    return np.asarray(clustered, dtype=float), ratio


def _covariance(pieces: Pieces, form: _Form, sigma: Array, length: int, rest: float, rows: int) -> tuple[Array, float]:
    size = len(form.beta)
    G = block_sums(
        (np.einsum("kij,ki->kj", piece.instruments, (piece.y - piece.W @ form.beta) / sigma**2) for piece in pieces()),
        length,
    )
    inverse = np.asarray(solve_triangular(form.R, np.eye(size)), dtype=float)
    white = inverse @ inverse.T * rest / max(1, rows - size)
    # errors of differentiated positions undo each other: along instruments they may count for less than single samples
    return block_covariance(form.bread, G, white, rows, least_white=form.plain)


def signals_of(recording: Recording, *names: str) -> tuple[Array, ...]:
    """Return signals (N, n); raise where one is missing or holds something that is not a number."""
    found = []
    for name in names:
        values = getattr(recording, name)
        if values is None:
            raise MinidynError(f"identification needs {name}; prepare the recording first: md.prepare(robot, ...)")
        if not np.all(np.isfinite(values)):
            sample, joint = (int(k) for k in np.argwhere(~np.isfinite(values))[0])
            raise UnknownParameters(
                f"{name} of joint {recording.joint_names[joint]!r} is not a number at t = {recording.t[sample]:.6g} s; "
                "cut the samples out (recording[a:b]) or mend the log"
            )
        found.append(np.asarray(values, dtype=float))
    return tuple(found)


def _triangle(rows: Array) -> Array:
    return np.asarray(np.linalg.qr(rows, mode="r"), dtype=float)
