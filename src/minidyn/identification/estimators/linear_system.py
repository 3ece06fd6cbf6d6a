"""Linear systems of any rows, with or without instruments: solved, weighted by their noise, with honest covariance.

Rows come in pieces and are reduced to triangles at once. Each piece holds one or more kinds of rows (one for each
joint, or one for the energy), and every kind has a noise of its own. With instruments Z the estimate solves
Zᵀ (y - W beta) = 0, without them Z is W and it is least squares.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from minidyn.arrays import Array, single_thread
from minidyn.base.base_map import BaseMap
from minidyn.errors import MinidynError, UnknownParameters
from minidyn.identification.diagnostics.open_directions import pseudo_inverse
from minidyn.identification.estimators.blocks import block_covariance, block_length, block_sums
from minidyn.identification.estimators.least_squares import condition_of, solve
from minidyn.identification.estimators.method import Fold, Solution
from minidyn.recording.recording import Recording

FOLDS = 5
_PASSES = 12
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

    def solution(self, notices: tuple[str, ...], settings: Mapping[str, Any]) -> Solution:
        """Hand the fit over as every estimator does, with what it has to say."""
        return Solution(
            self.beta,
            self.covariance,
            self.sigma,
            self.condition,
            self.R,
            self.z,
            self.rest,
            lambda: self.folds,
            notices,
            {"block_seconds": self.seconds, **settings},
        )


def fit_system(base: BaseMap, pieces: Pieces, allow_open: bool = False) -> SystemFit:
    """Solve a linear system, each kind of rows weighted by its own noise.

    Args:
        base: The base parameters that are the unknowns.
        pieces: The rows.
        allow_open: What no row shows is left at zero, with infinite variance, instead of refused.

    Raises:
        MinidynError: There are too few rows, or they leave a base parameter open.
    """
    with single_thread():
        reduced = _Reduced.of(pieces, base.rank)
        if reduced.rows * len(reduced.whole) < base.rank and not allow_open:
            raise MinidynError(
                f"{reduced.rows * len(reduced.whole)} rows are too few for {base.rank} base parameters; record longer"
            )
        sigma = reduced.size
        form = _Form.of(reduced.whole, sigma, base, allow_open)
        for _ in range(_PASSES):
            sigma = reduced.noise(form, sigma)
            before, form = form, _Form.of(reduced.whole, sigma, base, allow_open)
            if np.abs(form.R @ (form.beta - before.beta)).max(initial=0.0) < 1e-3:  # of a standard deviation
                break
        longest = max(pieces(), key=lambda piece: len(piece.t))
        length, seconds = block_length(longest.y - longest.W @ form.beta, longest.t, reduced.rows)
        rest = float(np.sum(reduced.squares(form.beta) / sigma**2))
        covariance, memory = _covariance(pieces, form, sigma, length, rest, reduced.rows * len(sigma))
        memory = max(memory, _LEAST_MEMORY)
        root = np.sqrt(memory)
        folds = reduced.folds(sigma * root, base, allow_open)
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
    inverse: Array
    bread: Array
    is_open: NDArray[np.bool_]
    plain: bool

    @classmethod
    def of(cls, factors: list[Array], sigma: Array, base: BaseMap, allow_open: bool) -> _Form:
        """Solve from triangular factors of [Z | W | y], one for each kind of rows."""
        size = base.rank
        F = _triangle(np.concatenate([factor / noise for factor, noise in zip(factors, sigma)]))
        F = np.pad(F, ((0, max(0, len(F.T) - len(F))), (0, 0)))
        if F.shape[1] == size + 1:
            R, z = F[:size, :size], F[:size, size]
            inverse, is_open = pseudo_inverse(R)
            return cls(solve(R, z, base, allow_open), R, z, inverse, inverse @ inverse.T, is_open, True)
        Q, R = np.linalg.qr(F[:size, size : 2 * size])
        z = Q.T @ F[:size, 2 * size]
        inverse, is_open = pseudo_inverse(R)
        of_instruments, _ = pseudo_inverse(F[:size, :size])
        bread = inverse @ (of_instruments @ Q).T
        return cls(solve(R, z, base, allow_open), R, z, inverse, bread, is_open, False)


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
        # where parameters can follow every row the residual tells nothing: no model is better than a few percent
        floor = np.where(self.rows < 2 * np.array(spent), 0.03, 1e-9) * self.size
        return np.asarray(np.maximum(np.sqrt(self.squares(form.beta) / free), floor), dtype=float)

    def folds(self, sigma: Array, base: BaseMap, allow_open: bool) -> list[Fold]:
        """Return training and validation forms; stretches that do not determine everything cannot judge."""
        made: list[Fold] = []
        for held, part in enumerate(self.parts):
            others = [factors for number, factors in enumerate(self.parts) if number != held]
            if not others:
                continue
            try:
                training = _Form.of([_triangle(np.concatenate(kind)) for kind in zip(*others)], sigma, base, allow_open)
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


def _covariance(pieces: Pieces, form: _Form, sigma: Array, length: int, rest: float, rows: int) -> tuple[Array, float]:
    size = len(form.beta)
    G = block_sums(
        (np.einsum("kij,ki->kj", piece.instruments, (piece.y - piece.W @ form.beta) / sigma**2) for piece in pieces()),
        length,
    )
    white = form.inverse @ form.inverse.T * rest / max(1, rows - size)
    # errors of differentiated positions undo each other: along instruments they may count for less than single samples
    covariance, memory = block_covariance(form.bread, G, white, rows, least_white=form.plain)
    covariance[form.is_open, form.is_open] = np.inf  # nothing is known of these
    return covariance, memory


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
