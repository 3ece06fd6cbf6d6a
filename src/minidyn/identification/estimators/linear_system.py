"""Linear systems of any rows, with or without instruments.

Solved, weighted by their noise, with honest covariance. Each piece of rows holds one or more kinds
of them (one for each joint, or one for the energy), and every kind has a noise of its own. With
instruments Z the estimate solves Zᵀ (y - W beta) = 0; without them Z is W: least squares.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from minidyn.arrays import Array, left_open, single_thread
from minidyn.errors import MinidynError
from minidyn.identification.estimators import solve
from minidyn.identification.estimators.block_covariance import (
    block_covariance,
    block_length,
    block_sums,
)
from minidyn.identification.estimators.held_out import folds_of
from minidyn.identification.estimators.method import Options, Solution
from minidyn.identification.rows.pieces import Pieces, reduced, scores
from minidyn.identification.rows.triangles import Triangles
from minidyn.notices import Notice

_PASSES = 12  # size: weighted anew at most
_LEAST_MEMORY = 1e-3  # rounding: of rows that undo each other


@dataclass(frozen=True, eq=False, kw_only=True)
class SystemFit(Solution):
    """The solution of a linear system; sigma is the noise of each kind of rows (kinds,)."""

    memory: float  # rows that repeat each other, as the variances show; squares were divided by it
    block: int  # rows of one kind in a block
    seconds: float  # that a block lasts
    rows: int  # rows of each kind

    def solution(
        self, notices: Sequence[Notice], record: Mapping[str, Any], options: Options, samples: int
    ) -> Solution:
        """Hand the fit to so many samples over as every estimator does, with what it has to say."""
        if options.progress is not None:
            options.progress(samples)
        return replace(
            self, notices=tuple(notices), record={"block_seconds": self.seconds, **record}
        )


def fit_system(base: solve.Unknowns, pieces: Pieces, allow_open: bool = False) -> SystemFit:
    """Solve a linear system of base parameters, or of these and more.

    Each kind of rows weighted by its own noise. What no row shows is refused, or with `allow_open`
    left at zero with infinite variance.
    """
    with single_thread():
        triangles = reduced(pieces)
        kinds = len(triangles.factors)
        if triangles.samples * kinds < base.rank and not allow_open:
            raise MinidynError(
                f"{triangles.samples * kinds} rows are too few for {base.rank} base parameters; "
                "record longer"
            )
        sigma = np.where(triangles.sizes > 0, triangles.sizes, 1.0)
        form = _Form.of(triangles, sigma, base, allow_open)
        for _ in range(_PASSES):
            sigma = triangles.noise(form.beta, form.spent(triangles, sigma))
            before, form = form, _Form.of(triangles, sigma, base, allow_open)
            if (
                np.abs(form.R @ (form.beta - before.beta)).max(initial=0.0) < 1e-3
            ):  # of a standard deviation
                break
        longest = max(pieces(), key=lambda piece: len(piece.t))
        length, seconds = block_length(
            longest.y - longest.W @ form.beta, longest.t, triangles.samples
        )
        rest = float(np.sum(triangles.squares(form.beta) / sigma**2))
        rows = triangles.samples * kinds
        white = form.inverse @ form.inverse.T * rest / max(1, rows - len(form.beta))
        G = block_sums(scores(pieces, form.beta, sigma), length)
        # errors of differentiated positions undo each other: along instruments they may count for
        # less than one sample
        covariance, memory = block_covariance(form.bread, G, white, rows, least_white=form.plain)
        covariance = left_open(covariance, form.is_open)
        memory = max(memory, _LEAST_MEMORY)
        root = np.sqrt(memory)
        quadratic = (
            form.R / root,
            form.z / root,
            rest / memory,
            cache(partial(folds_of, triangles, sigma * root)),
        )
        found = form.beta, covariance, sigma, solve.condition_of(form.R), *quadratic
        left = partial(triangles.noise, spent=form.spent(triangles, sigma))
        made = SystemFit(
            *found, left=left, memory=memory, block=length, seconds=seconds, rows=triangles.samples
        )
        return replace(made, stretches=triangles.stretches)


@dataclass(frozen=True)
class _Form:
    """Weighted rows with their solution.

    beta = bread Zᵀ y, and ‖R beta - z‖² its quadratic form.
    """

    beta: Array
    R: Array
    z: Array
    inverse: Array
    bread: Array
    is_open: NDArray[np.bool_]
    plain: bool

    @classmethod
    def of(
        cls, triangles: Triangles, sigma: Array, base: solve.Unknowns, allow_open: bool
    ) -> _Form:
        """Solve from triangular factors of [Z | W | y] or [W | y], one for each kind of rows."""
        size = base.rank
        F = triangles.together(sigma)
        R, z, _ = solve.form_of(F, size)
        inverse, is_open = solve.pseudo_inverse(R)
        plain = F.shape[1] == size + 1
        # with instruments Zᵀ W = (F_zᵀ Q) R
        bread = inverse @ inverse.T
        if not plain:
            Q = np.linalg.qr(F[:size, size : 2 * size])[0]
            bread = inverse @ (solve.pseudo_inverse(F[:size, :size])[0] @ Q).T
        return cls(solve.solve(R, z, base, allow_open), R, z, inverse, bread, is_open, plain)

    def spent(self, triangles: Triangles, sigma: Array) -> Array:
        """Return how many parameters each kind of rows determines (kinds,)."""
        size = triangles.unknowns
        return np.array(
            [
                float(np.sum(self.bread.T * (factor[:, :size].T @ factor[:, -size - 1 : -1])))
                / noise**2
                for factor, noise in zip(triangles.factors, sigma)
            ]
        )
