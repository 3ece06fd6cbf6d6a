"""Rows that any function of a piece of recording returns.

Reduced to triangles, with or without instruments. The kernels of `triangles.py` know base
parameters along recorded states only. Filtered columns, simulated states, loads, changed friction
and drive gains give rows of their own; they come as pieces, each a stretch of one run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

import numpy as np

from minidyn.arrays import Array, single_thread
from minidyn.errors import MinidynError
from minidyn.identification.rows.triangles import (
    STRETCHES,
    Triangle,
    Triangles,
    joined,
    parts_of,
    triangle_of,
)
from minidyn.recording.recording import Recording

TILE = 1024  # size: samples whose rows are held at once

Columns: TypeAlias = Callable[[Recording], tuple[Array, Array]]
"""From a piece of recording to its columns (N, n, k) and its right side (N, n)."""


@dataclass(frozen=True)
class Piece:
    """Rows of one stretch of time."""

    W: Array  # columns (K, kinds, b)
    y: Array  # right side (K, kinds)
    t: Array  # times (K,), s
    place: float  # where in the recording it begins, from 0 to 1
    Z: Array | None = None  # instruments (K, kinds, b); None: W itself
    first: bool = True  # whether it does not follow the piece before

    @property
    def instruments(self) -> Array:
        """Z, or W where there is none."""
        return self.W if self.Z is None else self.Z


Pieces: TypeAlias = Callable[[], Iterable[Piece]]
"""Gives all pieces, each time anew."""


def pieces_of(recording: Recording, columns: Columns, most: int = TILE) -> Pieces:
    """Return the rows that a function makes of a recording, pieces of at most so many samples."""
    return partial(_tiles, recording, columns, most)


def _tiles(recording: Recording, columns: Columns, most: int) -> Iterator[Piece]:
    done, total = 0, len(recording)
    for run in recording.runs:
        for number, tile in enumerate(run.tiles(most)):
            yield Piece(*columns(tile), tile.t, done / total, first=number == 0)
            done += len(tile)


def reduced(pieces: Pieces) -> Triangles:
    """Return rows as triangles, one for each kind."""
    parts: list[list[Triangle]] = [[] for _ in range(STRETCHES)]
    samples, size = [0] * STRETCHES, 0
    with single_thread():
        for piece in pieces():
            stretch = min(STRETCHES - 1, int(STRETCHES * piece.place))
            own, size = parts[stretch], piece.W.shape[2]
            samples[stretch] += len(piece.y)
            sides = (
                [piece.W, piece.y[..., None]]
                if piece.Z is None
                else [piece.Z, piece.W, piece.y[..., None]]
            )
            rows = np.concatenate(sides, axis=2)
            if not own:
                own += [Triangle(rows.shape[2]) for _ in range(rows.shape[1])]
            for kind, triangle in enumerate(own):
                triangle.add_rows(rows[:, kind])
        columns = (tuple(range(size)),) * max(len(own) for own in parts)
        filled = [
            Triangles(columns, size, tuple(triangle.factor for triangle in own), count)
            for own, count in zip(parts, samples)
            if own
        ]
        if not filled:
            raise MinidynError("identification needs samples; the recording has none")
        return joined(filled, tuple(filled))


def residuals(pieces: Pieces, x: Array) -> Array:
    """Return right side minus columns times x (N, kinds)."""
    return np.concatenate([piece.y - piece.W @ x for piece in pieces()])


def scores(pieces: Pieces, x: Array, scale: Array) -> Iterator[tuple[Array, bool]]:
    """Yield the scores Zᵀ (y - W x) / scale² of each row (K, b), and whether they follow those
    before.
    """
    for piece in pieces():
        yield (
            np.einsum("kij,ki->kj", piece.instruments, (piece.y - piece.W @ x) / scale**2),
            not piece.first,
        )


def stacked(parts: Sequence[Array]) -> tuple[Array, Array, float]:
    """Return (R (k, k), z (k,), rest) of rows [X | y].

    ‖R x - z‖² + rest is their sum of squares.
    """
    return parts_of(triangle_of(np.vstack(parts)))
