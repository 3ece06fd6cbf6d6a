"""Held-out blocks of time: what many models with the same rigid part predict there.

A model is a drive for each joint: its friction terms and their shapes. Its columns are added to
products of all columns, block by block and row by row, once. Least squares without a block, and its
error on that block, need only these products: a model costs a fraction of a millisecond. Products
lose digits with the square of the condition number, which a choice between models does not need.

The rigid part is free about an anchor, the prior's bodies with a wide spread: what a log does not
show stays near bodies that can exist, so that friction is not judged beside absurd inertias.
Coefficients of friction that would feed power into the motion are zero.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from minidyn.arrays import Array
from minidyn.identification.data import BLOCKS, Data, shape_of
from minidyn.identification.estimators.non_negative import non_negative
from minidyn.identification.score import block_scores
from minidyn.model.drives import FRICTION, NON_NEGATIVE, Drive

REGULAR = 1e-9  # rounding: of unit columns, so that columns that vanish do no harm
MIN_NOISE = 1e-6  # rounding: of the torques, the noise of exact data

Drives = Mapping[int, Drive]
"""A model: the drive of each joint, by its index."""


@dataclass(frozen=True, eq=False)
class Anchor:
    """Where the rigid part is held: a Gaussian about base values (r,), precision (r, r)."""

    values: Array
    precision: Array


@dataclass(frozen=True, eq=False)
class Fit:
    """A model fitted to all blocks.

    Attributes:
        rigid: Base values of links and rotors (r,).
        friction: Coefficients by name ("Fc2").
        noise_std: Of each row (n,).
        residual: What it leaves of the torques (N, n).
    """

    rigid: Array
    friction: Mapping[str, float]
    noise_std: Array
    residual: Array


class HeldOut:
    """Scores of models on blocks of time that they were not fitted to.

    Args:
        data: The log.
        anchor: Of the rigid part.
        noise_std: Noise of each row (n,), by which rows are weighted and errors judged.
    """

    def __init__(self, data: Data, anchor: Anchor, noise_std: Array) -> None:
        self.data, self.anchor, self.noise_std = data, anchor, noise_std
        self._place: dict[tuple[object, ...], int | None] = {}
        self._columns: list[Mapping[int, Array]] = []  # {row: (N,)} of each friction column
        self._bounded: list[bool] = []
        self._names: list[str] = []
        self._fits: dict[tuple[int, ...], Fit] = {}
        self._eliminated: dict[tuple[int, ...], tuple[NDArray[np.intp], Array]] = {}
        size, r = len(data.rigid) + 1, len(data.rigid)
        self._rows: list[_Row] = []
        self._products = W = np.zeros((BLOCKS, size, size))
        for row, (at, std) in enumerate(zip(data.rigid_places, noise_std)):
            right = data.in_blocks(data.motion.tau[:, row][None])
            self._rows.append(_Row(np.append(at, r), (data.rigid_blocks[row], right)))
            W[:, at[:, None], at] += data.rigid_products[row] / std**2
            across = (data.rigid_blocks[row] @ np.swapaxes(right, 1, 2))[..., 0] / std**2
            W[:, at, r] += across
            W[:, r, at] += across
            W[:, r, r] += np.sum((right / std) ** 2, axis=(1, 2))
        self._S: Array = np.zeros((BLOCKS, 0, 0))
        self._Q: Array = np.zeros((BLOCKS, 0, 0))
        self._T: Array = np.zeros((BLOCKS, len(data.rigid), 0))
        self._WT: Array = np.zeros((BLOCKS, len(data.rigid), 0))
        self._inverse: Array = np.zeros((BLOCKS, 0, 0))
        self._eliminate(size - 1, size)
        self._size = size
        self._known: dict[tuple[int, ...], Array] = {}

    def add(self, models: Sequence[Drives]) -> None:
        """Make the columns of these models: many at once cost less than one by one."""
        for drives in models:
            for joint, drive in drives.items():
                self._ids(joint, drive)
        self._grow()

    def add_column(self, name: str, rows: Mapping[int, Array]) -> str:
        """Add a column {row: (N,)} of either sign that is of no drive; return its name."""
        self._place[name,] = len(self._columns)
        self._columns.append(rows)
        self._names.append(name)
        self._bounded.append(False)
        return name

    def squares(self, drives: Drives, *others: str) -> Array:
        """Return mean squared errors of held-out blocks in variances of the noise (blocks,).

        Summed over the rows. Others are names of columns that were added.
        """
        ids = self._model(drives, *others)
        key = tuple(ids)
        if key not in self._known:
            S, Q = self._friction
            own = np.append(0, np.array(ids, dtype=int) + 1)
            self._known[key] = self._errors(S, Q, own[None])[0]
        return self._known[key]

    def scores(self, drives: Drives, *others: str) -> Array:
        """Return the score of each held-out block (blocks,), nats a sample."""
        return block_scores(self.squares(drives, *others), len(self.noise_std))

    def options(self, drives: Drives, joint: int, options: Sequence[Drive]) -> Array:
        """Return scores of models with one joint's drive instead (options, blocks).

        Which coefficients of other joints are zero is taken from the model, not from each option:
        a ranking, not a score.
        """
        others = {name: drive for name, drive in drives.items() if name != joint}
        self.add([{joint: option} for option in options])
        kept, inverse = self._others(self._model(others))
        own = [np.array(self._ids(joint, option), dtype=int) + 1 for option in options]
        every = np.unique(np.concatenate([np.zeros(1, dtype=int), *own]))
        S, Q = self._friction
        across = S[:, kept[:, None], every]
        T = inverse @ across
        half = Q[:, every[:, None], kept] @ T
        Q = (
            Q[:, every[:, None], every]
            - half
            - np.swapaxes(half, 1, 2)
            + np.swapaxes(T, 1, 2) @ Q[:, kept[:, None], kept] @ T
        )
        S = S[:, every[:, None], every] - np.swapaxes(across, 1, 2) @ T
        bounded = np.array([True, *self._bounded])[every]
        errors = np.zeros((len(options), BLOCKS))
        for size in {len(ids) for ids in own}:  # options of one size together
            among = [k for k, ids in enumerate(own) if len(ids) == size]
            places = np.array([np.append(0, np.searchsorted(every, own[k])) for k in among])
            errors[among] = self._errors(S, Q, places, bounded)
        return block_scores(errors, len(self.noise_std))

    def torque_of(self, drives: Drives, terms: Collection[str]) -> Array:
        """Return the torque (N, n) that some terms of a model explain."""
        fit, torque = self.fit(drives), np.zeros_like(self.data.motion.tau)
        for joint, drive in drives.items():
            for term in drive.friction:
                value = fit.friction.get(f"{FRICTION[term]}{joint + 1}", 0.0) * (term in terms)
                for row, column in self.data.column(joint, drive, term).items():
                    torque[:, row] += value * column
        return torque

    def fit(self, drives: Drives, *others: str) -> Fit:
        """Return the model fitted to all blocks."""
        ids = self._model(drives, *others)
        if (key := tuple(ids)) not in self._fits:
            self._fits[key] = self._fitted(ids)
        return self._fits[key]

    def _fitted(self, ids: Sequence[int]) -> Fit:
        data = self.data
        r = len(data.rigid)
        places = np.concatenate([np.arange(r), r + 1 + np.array(ids, dtype=int), [r]])
        W = self._products[:, : self._size, : self._size].sum(axis=0)
        W[:r, :r] += self.anchor.precision
        pull = self.anchor.precision @ self.anchor.values
        W[:r, r] += pull
        W[r, :r] += pull
        W = W[places[:, None], places]
        scale = np.sqrt(np.maximum(np.diag(W)[:-1], 1e-300))
        A = W[:-1, :-1] / np.outer(scale, scale) + REGULAR * np.eye(len(scale))
        bounded = np.append(np.zeros(r, dtype=bool), np.array(self._bounded, dtype=bool)[ids])
        x = non_negative(A[None], (W[:-1, -1] / scale)[None], bounded)[0] / scale
        residual = data.motion.tau - data.rigid_torque(x[:r])
        for number, value in zip(ids, x[r:]):
            for row, column in self._columns[number].items():
                residual[:, row] -= value * column
        noise_std = np.sqrt(np.mean(residual**2, axis=0))
        floor = MIN_NOISE * np.sqrt(np.mean(data.motion.tau**2, axis=0))
        noise_std = np.maximum(noise_std, np.where(floor > 0, floor, 1.0))
        friction = {self._names[number]: float(value) for number, value in zip(ids, x[r:])}
        return Fit(x[:r], friction, noise_std, residual)

    def _ids(self, joint: int, drive: Drive) -> list[int]:
        """Return the numbers of a drive's columns; make those that are new."""
        numbers = []
        for term in drive.friction:
            key = (joint, term, *shape_of(drive, term))
            if key not in self._place:
                column = self.data.column(joint, drive, term)
                self._place[key] = len(self._columns) if column else None
                if column:
                    self._columns.append(column)
                    self._names.append(f"{FRICTION[term]}{joint + 1}")
                    self._bounded.append(FRICTION[term] in NON_NEGATIVE)
            number = self._place[key]
            if number is not None:
                numbers.append(number)
        return numbers

    def _model(self, drives: Drives, *others: str) -> list[int]:
        ids = [number for joint, drive in drives.items() for number in self._ids(joint, drive)]
        self._grow()
        return ids + [number for name in others if (number := self._place[name,]) is not None]

    def _grow(self) -> None:
        """Add the products of columns that are new, and eliminate the rigid part from them."""
        before, size = self._size, len(self.data.rigid) + 1 + len(self._columns)
        if size == before:
            return
        if size > self._products.shape[1]:
            self._products = _roomier(self._products, size, 1, 2)
        W, r = self._products, len(self.data.rigid)
        for row, std in enumerate(self.noise_std):
            new = [
                (r + 1 + number, column[row])
                for number, column in enumerate(self._columns[before - r - 1 :], before - r - 1)
                if row in column
            ]
            if not new:
                continue
            E = self.data.in_blocks(np.array([values for _, values in new]))
            at, rows = np.array([place for place, _ in new]), self._rows[row]
            across, where = E @ np.swapaxes(rows.columns, 1, 2) / std**2, rows.places
            W[:, at[:, None], where] += across
            W[:, where[:, None], at] += np.swapaxes(across, 1, 2)
            W[:, at[:, None], at] += E @ np.swapaxes(E, 1, 2) / std**2
            rows.add(at, E)
        self._eliminate(before, size)
        self._size = size

    def _eliminate(self, before: int, size: int) -> None:
        """Fill in S, Q and what they are made of for columns from `before` on.

        S (blocks, 1 + k, 1 + k) are products of torque and friction without the rigid part, each
        block left out in turn; Q those of that block, for the rigid part that the others give.
        """
        r = len(self.data.rigid)
        W, k, end = self._products[:, :size, :size], before - r, size - r
        if end > self._S.shape[1]:
            self._S, self._Q = (_roomier(values, end, 1, 2) for values in (self._S, self._Q))
            self._T, self._WT = (_roomier(values, end, 2) for values in (self._T, self._WT))
        right = W[:, :r, before:].sum(axis=0) - W[:, :r, before:]
        if not k:  # the torque itself
            right = right.copy()
            right[:, :, 0] += self.anchor.precision @ self.anchor.values
            others = W[:, :r, :r].sum(axis=0) - W[:, :r, :r]
            self._inverse = np.asarray(np.linalg.inv(_regular(others + self.anchor.precision)))
        self._T[:, :, k:end] = self._inverse @ right
        self._WT[:, :, k:end] = W[:, :r, :r] @ self._T[:, :, k:end]
        T, held = self._T[:, :, :end], W[:, :r, r:]
        new = np.swapaxes(self._T[:, :, k:end], 1, 2)
        own = W[:, before:, r:]
        S = own.sum(axis=0) - own - np.swapaxes(right, 1, 2) @ T
        Q = own - np.swapaxes(W[:, :r, before:], 1, 2) @ T - new @ held + new @ self._WT[:, :, :end]
        for target, values in ((self._S, S), (self._Q, Q)):
            target[:, k:end, :end] = values
            target[:, :end, k:end] = np.swapaxes(values, 1, 2)

    @property
    def _friction(self) -> tuple[Array, Array]:
        """S and Q of all columns."""
        end = self._size - len(self.data.rigid)
        return self._S[:, :end, :end], self._Q[:, :end, :end]

    def _others(self, ids: Sequence[int]) -> tuple[NDArray[np.intp], Array]:
        """Return places of columns that are not zero in a fit to all blocks, and the inverse of
        their products without each block (blocks, k, k).
        """
        if (key := tuple(ids)) not in self._eliminated:
            S, _ = self._friction
            own = np.array(ids, dtype=int) + 1
            if ids:
                A, b, _ = _scaled(
                    S[:, own[:, None], own].mean(axis=0)[None], S[:, own, 0].mean(axis=0)[None]
                )
                own = own[non_negative(A, b, np.array(self._bounded)[ids])[0] != 0.0]
            inverse = np.linalg.inv(_regular(S[:, own[:, None], own]))
            self._eliminated[key] = own, np.asarray(inverse)
        return self._eliminated[key]

    def _errors(
        self, S: Array, Q: Array, places: NDArray[np.intp], bounded: Array | None = None
    ) -> Array:
        """Return errors of models (models, blocks): the torque and columns at their places."""
        limited = np.array([True, *self._bounded]) if bounded is None else bounded
        models, size = places.shape
        part = S[:, places[:, :, None], places[:, None, :]].swapaxes(0, 1)
        flat = part.reshape(models * BLOCKS, size, size)
        x = np.zeros((len(flat), 0))
        if size > 1:
            A, b, scale = _scaled(flat[:, 1:, 1:], flat[:, 1:, 0])
            bounds = limited[places[:, 1:]]
            x = np.zeros((len(flat), size - 1))
            for kind in {tuple(own) for own in bounds.tolist()}:  # of the same bounds together
                same = np.repeat((bounds == kind).all(axis=1), BLOCKS)
                x[same] = non_negative(A[same], b[same], np.array(kind)) / scale[same]
        left = np.concatenate([np.full((len(x), 1), -1.0), x], axis=1)
        held = Q[:, places[:, :, None], places[:, None, :]].swapaxes(0, 1)
        squares = np.einsum("fi,fij,fj->f", left, held.reshape(flat.shape), left)
        return np.asarray(np.maximum(squares.reshape(models, BLOCKS), 0.0) / self.data.counts)


class _Row:
    """Columns of one row of the torque, block by block, with room for more.

    Args:
        places: Where the first ones are among all columns (k,).
        parts: These columns (blocks, k, most), in pieces.
    """

    def __init__(self, places: NDArray[np.intp], parts: Sequence[Array]) -> None:
        self.places = places
        self._columns = _roomier(np.concatenate(parts, axis=1), len(places), 1)

    @property
    def columns(self) -> Array:
        """All columns (blocks, k, most)."""
        return self._columns[:, : len(self.places)]

    def add(self, places: NDArray[np.intp], columns: Array) -> None:
        """Add columns (blocks, k, most)."""
        first, end = len(self.places), len(self.places) + len(places)
        if end > self._columns.shape[1]:
            self._columns = _roomier(self._columns, end, 1)
        self._columns[:, first:end] = columns
        self.places = np.append(self.places, places)


def _roomier(values: Array, size: int, *axes: int) -> Array:
    """Return an array with room along some axes: twice the size, for columns to come."""
    lengths = enumerate(values.shape)
    return np.pad(values, [(0, 2 * size - k if axis in axes else 0) for axis, k in lengths])


def _regular(A: Array) -> Array:
    """Return matrices (f, k, k) with a little more on their diagonals."""
    more = REGULAR * np.einsum("fkk->fk", A)
    return np.asarray(A + np.einsum("fk,kl->fkl", more + 1e-300, np.eye(A.shape[1])))


def _scaled(A: Array, b: Array) -> tuple[Array, Array, Array]:
    """Return least squares (f, k, k), (f, k) with unit columns, a little regular, and scales."""
    scale = np.sqrt(np.maximum(np.einsum("fkk->fk", A), 1e-300))
    unit = A / (scale[:, :, None] * scale[:, None, :])
    return _regular(unit), b / scale, scale
