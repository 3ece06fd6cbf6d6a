"""Many friction models judged from one table: products of all columns that any of them has, block by block of time.

A model is a choice among columns. Least squares on any choice, and its error on a block of time that was held out, need
only the products of the columns over the blocks, so that a model costs a fraction of a millisecond once the table is
made. That is why the search does not use the triangles of `rows`: a triangle belongs to one choice of columns. Products
lose digits with the square of the condition number, which a choice between models does not need.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from minidyn.arrays import Array
from minidyn.model.drives import FRICTION, NON_NEGATIVE

BLOCKS = 10
"""Blocks of time, each held out in turn."""

TURNING = ("coulomb", "stribeck", "sqrt", "quadratic", "asymmetric", "load", "own_coulomb")
"""Terms that depend on the smoothing width."""

_ROUNDING = 1e-11


class Key(NamedTuple):
    """A column of a table."""

    name: str  # of its parameter ("Fc2")
    term: str = ""  # the drive term; "" for links and rotors
    joint: int = -1  # whose drive it is; -1 for links and rotors
    width: int = 0  # number of the smoothing width; 0 where it does not matter
    fall: int = 0  # number of the Stribeck speed; 0 where it does not matter


@dataclass(frozen=True)
class FrictionModel:
    """A choice among the columns of a table."""

    terms: tuple[str, ...]  # names of drive terms
    widths: tuple[int, ...]  # for each joint, the number of its smoothing width in the table
    fall: int = 0  # number of its Stribeck speeds


@dataclass(frozen=True)
class Judged:
    """How a model predicts what was held out."""

    squares: Array  # sums of squared errors (blocks, n)
    samples: Array  # of each block (blocks,)
    torque_squares: Array  # sum of squared torques of each joint (n,)

    def deviance(self, sigma: Array) -> Array:
        """Mean squared error in variances of the noise, block by block (blocks,)."""
        return np.asarray(np.mean(self.squares / sigma**2, axis=1) / self.samples)

    @property
    def relative_error(self) -> float:
        """‖tau - prediction‖ / ‖tau‖ over all joints."""
        return float(np.sqrt(np.sum(self.squares) / max(float(np.sum(self.torque_squares)), 1e-300)))


@dataclass(frozen=True)
class FrictionTable:
    """Products of columns."""

    # for each joint, the columns that its torque sees: those of links and rotors first
    columns: tuple[tuple[Key, ...], ...]
    products: tuple[Array, ...]  # for each joint (blocks, c + 1, c + 1): products of its columns and its torque
    samples: Array  # of each block (blocks,)

    def fit(self, model: FrictionModel, sigma: Array) -> tuple[list[Key], Array]:
        """Return (columns, values) of the best fit; dissipative terms that would be negative are left out."""
        own = self._chosen(model)
        keys = [*self._every[: self._rigid], *(self._every[self._rigid + k] for k in own)]
        return keys, self._fitted(own, self._parts(own), sigma)

    def judge(self, model: FrictionModel, sigma: Array) -> Judged:
        """Fit without each block in turn and return the errors on it."""
        own, left = self._chosen(model), self._without_rigid(sigma)
        z = np.zeros(left.b.shape)
        z[:, own] = _non_negative(_part(left.A, own), left.b[:, own], self._bounded[own])
        whole = left.values(z)
        found = []
        for among, products in zip(self._places, self.products):
            y = whole[:, among]
            found.append(np.einsum("fi,fi->f", y, (products @ y[..., None])[..., 0]))
        squares = np.maximum(np.stack(found, axis=1), 0.0)
        return Judged(squares, self.samples, self._torque_squares)

    def deviances(self, models: Sequence[FrictionModel], sigma: Array) -> Array:
        """Return what `judge(model, sigma).deviance(sigma)` is for several models (models, blocks).

        Columns that all of them have are eliminated once; what differs is then a small problem for each.
        """
        choices, left = [self._chosen(model) for model in models], self._without_rigid(sigma)
        kinds = {self._bounded[choice].tobytes() for choice in choices}
        if len(kinds) > 1:  # models of different kinds share nothing
            return np.stack([self.judge(model, sigma).deviance(sigma) for model in models])
        own = np.stack(choices)
        shared = np.bincount(own.ravel(), minlength=left.b.shape[1]) == len(own)
        common, differing = own[0][shared[own[0]]], own[~shared[own]].reshape(len(own), -1)
        others, place = np.unique(differing, return_inverse=True)
        union, size = np.concatenate([common, others]), len(common)
        place = size + place.reshape(differing.shape)
        A, b, bounded = _part(left.A, union), left.b[:, union], self._bounded[union]
        # which dissipative terms are left out is taken from the first model, and looked at again for each
        first = np.concatenate([np.arange(size), place[0]])
        kept = (_non_negative(_part(A, first), b[:, first], bounded[first]) != 0.0)[:, :size] | ~bounded[:size]
        inner = A[:, :size, :size] * (kept[:, :, None] & kept[:, None, :])
        inner[:, np.arange(size), np.arange(size)] += ~kept
        right = np.concatenate([A[:, :size, size:], b[:, :size, None]], axis=2) * kept[:, :, None]
        solved = np.linalg.solve(inner, right)
        across, extra = A[:, size:, :size], place - size
        S, s = A[:, size:, size:] - across @ solved[..., :-1], b[:, size:] - (across @ solved[..., -1:])[..., 0]
        z = np.linalg.solve(S[:, extra[:, :, None], extra[:, None, :]], s[:, extra][..., None])[..., 0]
        x = np.zeros((len(b), len(own), len(union)))
        rows = np.arange(len(own))[:, None]
        x[:, rows, place] = z
        x[..., :size] = solved[:, None, :, -1] - x[..., size:] @ np.swapaxes(solved[..., :-1], 1, 2)
        held = np.concatenate([kept, np.ones((len(b), len(others)), dtype=bool)], axis=1)[:, None]
        mine = np.zeros((len(own), len(union)), dtype=bool)
        mine[:, :size], mine[rows, place] = True, True
        wrong = np.where(held, x < 0.0, b[:, None] - x @ A > 1e-10 * np.abs(b).max(initial=0.0))
        fold, model = np.nonzero((wrong & mine & bounded).any(axis=2))
        if len(fold):
            at = np.concatenate([np.tile(np.arange(size), (len(own), 1)), place], axis=1)[model]
            parts = A[fold[:, None, None], at[:, :, None], at[:, None, :]]
            x[fold[:, None], model[:, None], at] = _non_negative(parts, b[fold[:, None], at], bounded[at[0]])
        whole = np.concatenate([x, np.full((*x.shape[:2], 1), -1.0)], axis=2)
        squares = np.einsum("fmi,fmi->mf", whole @ _part(left.Q, [*union, -1]), whole)
        return np.asarray(np.maximum(squares, 0.0) / len(self.products) / self.samples)

    def noise(self, model: FrictionModel) -> Array:
        """Return the noise of each joint (n,) that the model leaves, weights and noise in agreement."""
        samples = max(1.0, float(self.samples.sum()))
        scale = np.sqrt(self._torque_squares / samples)
        sigma = np.where(scale > 0, scale, 1.0)
        own = self._chosen(model)
        parts = self._parts(own)
        for _ in range(4):
            whole = np.append(self._fitted(own, parts, sigma), -1.0)
            left = np.array([max(0.0, float(whole[at] @ products @ whole[at])) for at, products in parts])
            sigma = np.maximum(np.sqrt(left / samples), 1e-6 * scale)
            sigma = np.where(sigma > 0, sigma, 1.0)
        return np.asarray(sigma, dtype=float)

    def _parts(self, own: NDArray[np.intp]) -> list[tuple[NDArray[np.intp], Array]]:
        """For each joint, where its columns and the torque are in a model, and their products in all."""
        chosen = np.concatenate([np.arange(self._rigid), self._rigid + own, [len(self._every)]])
        at = np.full(len(self._every) + 1, -1)
        at[chosen] = np.arange(len(chosen))
        found = []
        for among, products in zip(self._places, self._sums):
            within = np.flatnonzero(at[among] >= 0)
            found.append((at[among[within]], products[within[:, None], within]))
        return found

    def _fitted(self, own: NDArray[np.intp], parts: Sequence[tuple[NDArray[np.intp], Array]], sigma: Array) -> Array:
        """Return the values of a model's columns, those of links and rotors first, from all blocks."""
        size = self._rigid + len(own)
        total = np.zeros((size + 1, size + 1))
        for (at, products), noise in zip(parts, sigma):
            total[at[:, None], at] += products / noise**2
        A, b, scale = _scaled(total[None])
        bounded = np.concatenate([np.zeros(self._rigid, dtype=bool), self._bounded[own]])
        return np.asarray((_non_negative(A, b, bounded) / scale)[0])

    @cached_property
    def _sums(self) -> tuple[Array, ...]:
        """The products over all blocks together, for each joint (c + 1, c + 1)."""
        return tuple(products.sum(axis=0) for products in self.products)

    @cached_property
    def _torque_squares(self) -> Array:
        return np.array([float(products[-1, -1]) for products in self._sums])

    @cached_property
    def _every(self) -> list[Key]:
        """All columns, each once: those of links and rotors, then joint by joint and term by term."""
        return sorted(dict.fromkeys(key for own in self.columns for key in own), key=lambda key: (key.joint, *key[1:]))

    @cached_property
    def _rigid(self) -> int:
        """How many belong to links and rotors."""
        return sum(not key.term for key in self._every)

    @cached_property
    def _places(self) -> list[NDArray[np.intp]]:
        """For each joint, where its columns and the torque are among all."""
        place = {key: k for k, key in enumerate(self._every)}
        return [np.array([*(place[key] for key in own), len(place)]) for own in self.columns]

    @cached_property
    def _bounded(self) -> NDArray[np.bool_]:
        """For each column of friction, whether its parameter is not negative."""
        return np.array([FRICTION[key.term] in NON_NEGATIVE for key in self._every[self._rigid :]], dtype=bool)

    @cached_property
    def _latest(self) -> dict[bytes, _Friction]:
        return {}

    def _without_rigid(self, sigma: Array) -> _Friction:
        """Return the fits without each block, joints divided by their noise."""
        key = sigma.tobytes()
        if key not in self._latest:
            self._latest.clear()
            size = len(self._every) + 1
            W = np.zeros((len(self.samples), size, size))
            for among, part, noise in zip(self._places, self.products, sigma):
                W[:, among[:, None], among] += part / noise**2
            self._latest[key] = _Friction.of(W, self._rigid)
        return self._latest[key]

    @cached_property
    def _numbers(self) -> tuple[NDArray[np.intp], ...]:
        """For each column of friction: joint, width (-1: it does not matter) and fall (likewise)."""
        own = self._every[self._rigid :]
        widths = [key.width if key.term in TURNING else -1 for key in own]
        falls = [key.fall if key.term == "stribeck" else -1 for key in own]
        return tuple(np.array(values, dtype=np.intp) for values in ([key.joint for key in own], widths, falls))

    def _chosen(self, model: FrictionModel) -> NDArray[np.intp]:
        """Return the places of the model's columns among those of friction."""
        joints, widths, falls = self._numbers
        named = np.array([key.term in model.terms for key in self._every[self._rigid :]], dtype=bool)
        sharp = (widths < 0) | (widths == np.array(model.widths, dtype=np.intp)[joints])
        return np.flatnonzero(named & sharp & ((falls < 0) | (falls == model.fall)))


@dataclass(frozen=True)
class _Friction:
    """Least squares without each block: columns of links and rotors, which have no bounds, are eliminated."""

    A: Array  # normal matrix of the columns of friction (f, k, k), which are scaled to one length
    b: Array  # its right side (f, k)
    Q: Array  # (f, k + 1, k + 1): what values of them and -1 leave of the block's squares
    solved: Array  # (f, r, k + 1) with the values of the eliminated columns, scaled alike: -solved @ (values, -1)
    scale: Array  # lengths of all columns (f, r + k)

    @classmethod
    def of(cls, W: Array, r: int) -> _Friction:
        """Eliminate the first r columns of products W (f, r + k + 1, r + k + 1): of columns and, last, the torque."""
        A, b, scale = _scaled(W.sum(axis=0) - W)
        solved = np.linalg.solve(A[:, :r, :r], np.concatenate([A[:, :r, r:], b[:, :r, None]], axis=2))
        across = A[:, r:, :r] @ solved
        T = solved / -scale[:, :r, None]
        D = 1.0 / np.concatenate([scale[:, r:], np.ones((len(W), 1))], axis=1)[:, None]
        half = np.swapaxes(T, 1, 2) @ (0.5 * (W[:, :r, :r] @ T) + W[:, :r, r:] * D)
        Q = W[:, r:, r:] * D * np.swapaxes(D, 1, 2) + half + np.swapaxes(half, 1, 2)
        return cls(A[:, r:, r:] - across[..., :-1], b[:, r:] - across[..., -1], Q, solved, scale)

    def values(self, z: Array) -> Array:
        """Return the values of all columns, and -1 (f, r + k + 1), for those of friction (f, k)."""
        end = np.full((len(z), 1), -1.0)
        rigid = -(self.solved @ np.concatenate([z, end], axis=1)[..., None])[..., 0]
        return np.concatenate([np.concatenate([rigid, z], axis=1) / self.scale, end], axis=1)


def _part(products: Array, places: Sequence[int] | NDArray[np.intp]) -> Array:
    """Return some rows and the same columns of matrices (f, C, C)."""
    return np.asarray(products[:, np.asarray(places, dtype=int)[:, None], np.asarray(places, dtype=int)])


def _scaled(products: Array) -> tuple[Array, Array, Array]:
    """Return (A (f, k, k), b (f, k), scale (f, k)) of least squares with unit columns, a little regular.

    Products (f, k + 1, k + 1) are those of columns and, last, the right side. Columns that vanish are left out.
    """
    length = np.sqrt(np.maximum(np.einsum("fkk->fk", products)[:, :-1], 0.0))
    used = length > _ROUNDING * length.max(axis=1, initial=0.0)[:, None]
    scale = np.where(used, length, 1.0)
    b = products[:, :-1, -1] / scale * used
    A = products[:, :-1, :-1] / (scale[:, :, None] * scale[:, None, :]) * (used[:, :, None] & used[:, None, :])
    places = np.arange(A.shape[1])
    A[:, places, places] += np.where(used, _ROUNDING, 1.0)
    return A, b, scale


def _non_negative(A: Array, b: Array, bounded: NDArray[np.bool_]) -> Array:
    """Solve A x = b for several right sides (f, k), each with its own A (f, k, k), bounded unknowns not negative.

    Block principal pivoting: unknowns that are negative leave, those whose gradient asks for it come back, all at once
    as long as their number falls, else one at a time, which cannot go round in circles.
    """
    count, size = b.shape
    x, active = np.zeros(b.shape), np.ones(b.shape, dtype=bool)
    fewest, patience = np.full(count, size + 1), np.full(count, 3)
    left = np.arange(count)
    places = np.arange(size)
    for _ in range(10 * size + 10):
        on = active[left]
        reduced = A[left] * (on[:, :, None] & on[:, None, :])
        reduced[:, places, places] += ~on
        x[left] = np.linalg.solve(reduced, (b[left] * on)[..., None])[..., 0]
        gradient = b[left] - (A[left] @ x[left][..., None])[..., 0]
        tolerance = 1e-10 * np.abs(b[left]).max(axis=1, initial=0.0)[:, None]
        wrong = bounded & np.where(on, x[left] < 0.0, gradient > tolerance)
        number = wrong.sum(axis=1)
        better = number < fewest[left]
        fewest[left] = np.where(better, number, fewest[left])
        patience[left] = np.where(better, 3, patience[left] - 1)
        for one in np.flatnonzero((patience[left] < 0) & (number > 0)):
            wrong[one, : np.flatnonzero(wrong[one])[-1]] = False
        active[left] ^= wrong
        left = left[number > 0]
        if not len(left):
            break
    return np.where(bounded, np.maximum(x, 0.0), x)
