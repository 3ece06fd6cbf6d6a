"""Many friction models judged from one table: products of all columns that any of them has, block by block of time.

A model is a choice among columns. Least squares on any choice, and its error on a block of time that was held out, need
only the products of the columns over the blocks, so that a model costs a fraction of a millisecond once the table is
made. That is why the search does not use the triangles of `rows`: a triangle belongs to one choice of columns. Products
lose digits with the square of the condition number, which a choice between models does not need.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from minidyn.arrays import Array
from minidyn.dynamics.drives import Shapes, drive_columns
from minidyn.dynamics.functions import regressor
from minidyn.dynamics.tree import Coordinates, coordinates
from minidyn.identification.rows.base_rows import Samples
from minidyn.model.drives import FRICTION, NON_NEGATIVE, ROTOR
from minidyn.model.robot import Robot

BLOCKS = 10
"""Blocks of time, each held out in turn."""

_TURNING = ("coulomb", "stribeck", "sqrt", "quadratic", "asymmetric", "load", "own_coulomb")  # depend on the width
_ROUNDING = 1e-11
_TERMS = {symbol: term for term, symbol in FRICTION.items()}


class Key(NamedTuple):
    """A column of a table.

    Attributes:
        name: Of its parameter ("Fc2").
        term: The drive term; "" for links and rotors.
        joint: Whose drive it is; -1 for links and rotors.
        width: Number of the smoothing width; 0 where it does not matter.
        fall: Number of the Stribeck speed; 0 where it does not matter.
    """

    name: str
    term: str = ""
    joint: int = -1
    width: int = 0
    fall: int = 0


@dataclass(frozen=True)
class FrictionModel:
    """A choice among the columns of a table.

    Attributes:
        terms: Names of drive terms.
        widths: For each joint, the number of its smoothing width in the table.
        fall: Number of its Stribeck speeds.
    """

    terms: tuple[str, ...]
    widths: tuple[int, ...]
    fall: int = 0


@dataclass(frozen=True)
class Judged:
    """How a model predicts what was held out.

    Attributes:
        squares: Sums of squared errors (blocks, n).
        samples: Of each block (blocks,).
        torque_squares: Sum of squared torques of each joint (n,).
    """

    squares: Array
    samples: Array
    torque_squares: Array

    def deviance(self, sigma: Array) -> Array:
        """Mean squared error in variances of the noise, block by block (blocks,)."""
        return np.asarray(np.mean(self.squares / sigma**2, axis=1) / self.samples)

    @property
    def relative_error(self) -> float:
        """‖tau - prediction‖ / ‖tau‖ over all joints."""
        return float(np.sqrt(np.sum(self.squares) / max(float(np.sum(self.torque_squares)), 1e-300)))


@dataclass(frozen=True)
class FrictionTable:
    """Products of columns.

    Attributes:
        columns: For each joint, the columns that its torque sees: those of links and rotors first.
        products: For each joint (blocks, c + 1, c + 1): products of its columns and its torque.
        samples: Of each block (blocks,).
    """

    columns: tuple[tuple[Key, ...], ...]
    products: tuple[Array, ...]
    samples: Array

    def fit(self, model: FrictionModel, sigma: Array) -> tuple[list[Key], Array]:
        """Return (columns, values) of the best fit; dissipative terms that would be negative are left out.

        Args:
            model: Which columns.
            sigma: Noise of each joint (n,).
        """
        chosen = self._chosen(model)
        return [self._every[k] for k in chosen], self._fits(self._together(self._sums, sigma), chosen)[0]

    def judge(self, model: FrictionModel, sigma: Array) -> Judged:
        """Fit without each block in turn and return the errors on it."""
        chosen, W = self._chosen(model), self._weighted(sigma)
        x = self._fits(W.sum(axis=0) - W, chosen)
        return Judged(self._squares(chosen, x, self.products), self.samples, self._torque_squares)

    def deviances(self, models: Sequence[FrictionModel], sigma: Array) -> Array:
        """Return what `judge(model, sigma).deviance(sigma)` is for several models (models, blocks).

        Columns that all of them have are eliminated once; what differs is then a small problem for each.
        """
        W = self._weighted(sigma)
        choices = [self._chosen(model) for model in models]
        shared = set(choices[0]).intersection(*choices[1:])
        common = np.array([k for k in choices[0] if k in shared], dtype=int)
        others = np.array(sorted(set().union(*choices) - shared), dtype=int)
        place = {k: number for number, k in enumerate((*common, *others))}
        A, b, scale = _scaled(_part(W.sum(axis=0) - W, [*common, *others, -1]))
        size, bounded = len(common), self._bounded[np.concatenate([common, others])]
        # which dissipative terms are left out is taken from the first model, and looked at again for each
        first = [place[k] for k in choices[0]]
        active = np.ones(b.shape, dtype=bool)
        active[:, first] = (_non_negative(*_rows(A, b, first), bounded[first]) != 0.0) | ~bounded[first]
        active[:, size:] = True
        kept = active[:, :size]
        inner = A[:, :size, :size] * (kept[:, :, None] & kept[:, None, :])
        inner[:, np.arange(size), np.arange(size)] += ~kept
        right = np.concatenate([A[:, :size, size:], b[:, :size, None]], axis=2) * kept[:, :, None]
        solved = np.linalg.solve(inner, right) if size else right
        across = A[:, size:, :size]
        S, s = A[:, size:, size:] - across @ solved[..., :-1], b[:, size:] - (across @ solved[..., -1:])[..., 0]
        found = np.zeros((len(models), len(W)))
        for number, choice in enumerate(choices):
            own = [place[k] for k in choice]
            extra = [k - size for k in own if k >= size]
            z = np.linalg.solve(_part(S, extra), s[:, extra][..., None])[..., 0] if extra else s[:, :0]
            x = np.zeros(b.shape)
            x[:, :size] = solved[..., -1] - (solved[:, :, extra] @ z[..., None])[..., 0]
            x[:, [size + k for k in extra]] = z
            gradient = b[:, own] - (_part(A, own) @ x[:, own][..., None])[..., 0]
            wrong = np.where(active[:, own], x[:, own] < 0.0, gradient > 1e-10 * np.abs(b[:, own]).max())
            astray = np.flatnonzero((wrong & bounded[own]).any(axis=1))
            if len(astray):
                part = _rows(A[astray], b[astray], own)
                x[astray[:, None], own] = _non_negative(*part, bounded[own])
            whole = np.concatenate([x[:, own] / scale[:, own], -np.ones((len(W), 1))], axis=1)
            squares = _part(W, [*choice, -1]) @ whole[..., None]
            found[number] = np.maximum(np.einsum("fk,fk->f", whole, squares[..., 0]), 0.0)
        return np.asarray(found / len(self.products) / self.samples)

    def noise(self, model: FrictionModel) -> Array:
        """Return the noise of each joint (n,) that the model leaves, weights and noise in agreement."""
        samples = max(1.0, float(self.samples.sum()))
        scale = np.sqrt(self._torque_squares / samples)
        sigma = np.where(scale > 0, scale, 1.0)
        chosen = self._chosen(model)
        for _ in range(4):
            left = self._squares(chosen, self._fits(self._together(self._sums, sigma), chosen), self._sums)[0]
            sigma = np.maximum(np.sqrt(left / samples), 1e-6 * scale)
            sigma = np.where(sigma > 0, sigma, 1.0)
        return np.asarray(sigma, dtype=float)

    @cached_property
    def _sums(self) -> tuple[Array, ...]:
        """The products over all blocks together, for each joint (1, c + 1, c + 1)."""
        return tuple(products.sum(axis=0, keepdims=True) for products in self.products)

    @cached_property
    def _torque_squares(self) -> Array:
        return np.array([float(products[0, -1, -1]) for products in self._sums])

    @cached_property
    def _every(self) -> list[Key]:
        """All columns, each once."""
        return list(dict.fromkeys(key for own in self.columns for key in own))

    @cached_property
    def _places(self) -> list[NDArray[np.intp]]:
        """For each joint, where its columns and the torque are among all."""
        place = {key: k for k, key in enumerate(self._every)}
        return [np.array([*(place[key] for key in own), len(place)]) for own in self.columns]

    @cached_property
    def _bounded(self) -> NDArray[np.bool_]:
        """For each column, whether its parameter is not negative."""
        return np.array([FRICTION.get(key.term) in NON_NEGATIVE for key in self._every], dtype=bool)

    @cached_property
    def _latest(self) -> dict[bytes, Array]:
        return {}

    def _weighted(self, sigma: Array) -> Array:
        """Return the products of all columns and the torque (blocks, C + 1, C + 1), joints divided by their noise."""
        key = sigma.tobytes()
        if key not in self._latest:
            self._latest.clear()
            self._latest[key] = self._together(self.products, sigma)
        return self._latest[key]

    def _together(self, products: Sequence[Array], sigma: Array) -> Array:
        size = len(self._every) + 1
        total = np.zeros((len(products[0]), size, size))
        for among, part, noise in zip(self._places, products, sigma):
            total[:, among[:, None], among] += part / noise**2
        return total

    def _chosen(self, model: FrictionModel) -> list[int]:
        """Return the places of the model's columns among all."""

        def has(key: Key) -> bool:
            width = model.widths[key.joint] if key.term in _TURNING else 0
            fall = model.fall if key.term == "stribeck" else 0
            return key.term in model.terms and (key.width, key.fall) == (width, fall)

        return [k for k, key in enumerate(self._every) if not key.term or has(key)]

    def _fits(self, products: Array, chosen: Sequence[int]) -> Array:
        """Return values (f, k) of the chosen columns from products (f, C + 1, C + 1)."""
        A, b, scale = _scaled(_part(products, [*chosen, -1]))
        return np.asarray(_non_negative(A, b, self._bounded[chosen]) / scale)

    def _squares(self, chosen: Sequence[int], x: Array, of: Sequence[Array]) -> Array:
        """Sum of squared errors of each joint (f, n) of values x (f, k), from products of each joint (f, ...)."""
        whole = np.zeros((len(x), len(self._every) + 1))
        whole[:, chosen], whole[:, -1] = x, -1.0
        found, wanted = [], {*chosen, len(self._every)}
        for products, among in zip(of, self._places):
            within = [k for k, place in enumerate(among.tolist()) if place in wanted]
            own = whole[:, among[within]]
            parts = products[:, np.array(within)[:, None], within]
            found.append(np.einsum("fi,fi->f", own, (parts @ own[..., None])[..., 0]))
        return np.asarray(np.maximum(np.stack(found, axis=1), 0.0))


@dataclass(frozen=True)
class RigidColumns:
    """What all tables of one motion share: the columns of links and rotors, and their products.

    Attributes:
        bare: The robot without friction.
        motion: The samples.
        coordinates: Its joints along them.
        names: For each joint, the columns that its torque sees.
        columns: For each joint, those columns (N, c).
    """

    bare: Robot
    motion: Samples
    coordinates: Coordinates
    names: tuple[tuple[str, ...], ...]
    columns: tuple[Array, ...]

    @classmethod
    def of(cls, robot: Robot, rigid: Sequence[str], motion: Samples) -> RigidColumns:
        """Compute them.

        Args:
            robot: The robot; its drive couplings count, its friction does not.
            rigid: Names of independent columns of links and rotors.
            motion: The samples.
        """
        bare = robot.with_drives(friction=())
        Y = regressor(bare, *motion.motion, columns=rigid)
        seen = np.any(Y, axis=0)
        names = tuple(tuple(name for name, used in zip(rigid, row) if used) for row in seen)
        columns = tuple(np.ascontiguousarray(Y[:, row, seen[row]]) for row in range(robot.n))
        return cls(bare, motion, coordinates(robot, *(list(part.T) for part in motion.motion)), names, columns)

    @property
    def blocks(self) -> Iterator[slice]:
        """The blocks of time."""
        edges = np.linspace(0, len(self.motion), BLOCKS + 1).astype(int).tolist()
        return (slice(begin, end) for begin, end in pairwise(edges))

    @cached_property
    def products(self) -> tuple[Array, ...]:
        """For each joint, products of its columns over the blocks (blocks, c, c)."""
        return tuple(np.stack([A[part].T @ A[part] for part in self.blocks]) for A in self.columns)

    def table(
        self, terms: Sequence[str], widths: Sequence[Array], falls: Sequence[Array], loads: Array | None = None
    ) -> FrictionTable:
        """Return the table of all models with some of these terms, smoothing widths and Stribeck speeds.

        Args:
            terms: Names of drive terms; what does not fit a joint is left out there.
            widths: Smoothing widths of all joints, each (joints,).
            falls: Stribeck speeds of all joints, each (joints,).
            loads: What each joint's drive carries at rest (N, joints), NaN for drives without load friction; None: for
                none.
        """
        c, count = self.coordinates, len(self.motion)
        added: list[dict[Key, Array]] = [{} for _ in self.names]
        usable = [term for term in terms if term != "load" or loads is not None]
        carried = None if loads is None else list(loads.T)
        for width, sharp in enumerate(widths):
            for fall, speed in enumerate(falls):
                own = _needed(usable, width, fall)
                if not own:
                    continue
                driven = self.bare.with_drives(friction=own, sign_width=sharp, stribeck_speed=speed)
                for column in drive_columns(driven, c.dq, c.ddq, Shapes(driven, c.q, carried)):
                    if column.symbol == ROTOR or np.any(np.isnan(column.value)):  # rigid, or no load friction
                        continue
                    known = driven.layout.columns[column.index]
                    torque = [0.0] * len(self.bare.joints)
                    for joint, ratio in column.ratios.items():
                        torque[joint] = ratio * column.value
                    key = Key(known.name, _TERMS[known.symbol], known.joint, width, fall)
                    for row, value in enumerate(c.project(torque)):
                        if np.any(value):
                            added[row][key] = np.broadcast_to(value, count)
        products = []
        for row, (rigid, found) in enumerate(zip(self.products, added)):
            E = np.stack([*found.values(), self.motion.tau[:, row]], axis=1)
            size = rigid.shape[1]
            whole = np.empty((BLOCKS, size + E.shape[1], size + E.shape[1]))
            whole[:, :size, :size] = rigid
            for block, part in enumerate(self.blocks):
                whole[block, size:, :size] = E[part].T @ self.columns[row][part]
                whole[block, size:, size:] = E[part].T @ E[part]
            whole[:, :size, size:] = np.swapaxes(whole[:, size:, :size], 1, 2)
            products.append(whole)
        keys = tuple((*(Key(name) for name in own), *found) for own, found in zip(self.names, added))
        return FrictionTable(keys, tuple(products), np.array([float(b.stop - b.start) for b in self.blocks]))


def _needed(terms: Sequence[str], width: int, fall: int) -> list[str]:
    """Return the terms that change with this width and Stribeck speed; all of them for the first."""
    found = []
    for term in terms:
        new_width = width == 0 or term in _TURNING
        new_fall = fall == 0 or term == "stribeck"
        if new_width and new_fall:
            found.append(term)
    return found


def _part(products: Array, places: Sequence[int] | NDArray[np.intp]) -> Array:
    """Return some rows and the same columns of matrices (f, C, C)."""
    return np.asarray(products[:, np.asarray(places, dtype=int)[:, None], np.asarray(places, dtype=int)])


def _rows(A: Array, b: Array, places: Sequence[int]) -> tuple[Array, Array]:
    return _part(A, places), b[:, places]


def _scaled(products: Array) -> tuple[Array, Array, Array]:
    """Return (A (f, k, k), b (f, k), scale (f, k)) of least squares with unit columns, a little regular.

    Args:
        products: Of columns and, last, the right side (f, k + 1, k + 1). Columns that vanish are left out.
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
