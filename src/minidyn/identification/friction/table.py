"""Many friction models judged from one table: products of all columns that any of them has, block by block of time.

A model is a choice among columns. Least squares on any choice, and its error on a block of time that was held out, need
only the products of the columns over the blocks, so that a model costs milliseconds once the table is made.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from minidyn.arrays import Array, single_thread
from minidyn.dynamics.drives import RealShapes, drive_columns
from minidyn.dynamics.functions import regressor
from minidyn.dynamics.tree import coordinates
from minidyn.identification.rows.base_rows import Samples
from minidyn.model.drives import FRICTION, NON_NEGATIVE, ROTOR
from minidyn.model.layout import Layout
from minidyn.model.robot import Robot

Key = tuple[str, int, int]
"""Name of a parameter ("Fc2"), number of the sign width, number of the Stribeck speed; 0 where it does not matter."""

Places = tuple[NDArray[np.intp], NDArray[np.intp]]
"""Places among a joint's own columns, and of the same ones among a model's; the torque last."""

BLOCKS = 10
"""Blocks of time, each held out in turn."""

_TURNING = ("coulomb", "stribeck", "sqrt", "quadratic", "asymmetric", "load", "own_coulomb")  # depend on the sign width
_ROUNDING = 1e-11


@dataclass(frozen=True)
class FrictionModel:
    """A choice among the columns of a table.

    Attributes:
        terms: Names of drive terms.
        widths: For each joint, the number of its sign width in the table.
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
        rigid: Names of the columns of links and rotors.
        columns: For each joint, the columns that its torque sees: those of `rigid` first, then keys of drive terms.
        products: For each joint (blocks, c + 1, c + 1): products of its columns and its torque.
        samples: Of each block (blocks,).
    """

    rigid: tuple[str, ...]
    columns: tuple[tuple[Key, ...], ...]
    products: tuple[Array, ...]
    samples: Array

    def fit(self, model: FrictionModel, sigma: Array) -> tuple[list[Key], Array]:
        """Return (columns, values) of the best fit; dissipative terms that would be negative are left out.

        Args:
            model: Which columns.
            sigma: Noise of each joint (n,).
        """
        keys, _, products = self._chosen(model, sigma)
        return keys, _non_negative(products.sum(axis=0), self._bounded(keys, len(model.widths)))

    def judge(self, model: FrictionModel, sigma: Array) -> Judged:
        """Fit without each block in turn and return the errors on it."""
        keys, places, products = self._chosen(model, sigma)
        bounded, whole = self._bounded(keys, len(model.widths)), products.sum(axis=0)
        squares = np.zeros((len(self.samples), len(self.products)))
        for held, part in enumerate(products):
            squares[held] = self._squares(_non_negative(whole - part, bounded), places, held)
        return Judged(squares, self.samples, self._torque_squares)

    def noise(self, model: FrictionModel) -> Array:
        """Return the noise of each joint (n,) that the model leaves, weights and noise in agreement."""
        samples = max(1.0, float(self.samples.sum()))
        scale = np.sqrt(self._torque_squares / samples)
        sigma = np.where(scale > 0, scale, 1.0)
        for _ in range(4):
            keys, places, products = self._chosen(model, sigma)
            x = _non_negative(products.sum(axis=0), self._bounded(keys, len(model.widths)))
            left = np.sum([self._squares(x, places, block) for block in range(len(self.samples))], axis=0)
            sigma = np.maximum(np.sqrt(left / samples), 1e-6 * scale)
            sigma = np.where(sigma > 0, sigma, 1.0)
        return np.asarray(sigma, dtype=float)

    @property
    def _torque_squares(self) -> Array:
        return np.array([float(products[:, -1, -1].sum()) for products in self.products])

    def _chosen(self, model: FrictionModel, sigma: Array) -> tuple[list[Key], list[Places], Array]:
        """Return the model's columns, where each joint's are among them, and products over blocks, joints weighted."""
        keys = self._keys(model)
        place_of = {key: k for k, key in enumerate(keys)}
        total = np.zeros((len(self.samples), len(keys) + 1, len(keys) + 1))
        places = []
        for own, products, noise in zip(self.columns, self.products, sigma):
            local = [k for k, key in enumerate(own) if key in place_of]
            within = np.array([*local, len(own)])
            among = np.array([*(place_of[own[k]] for k in local), len(keys)])
            places.append((within, among))
            total[:, among[:, None], among] += products[:, within[:, None], within] / noise**2
        return keys, places, total

    def _keys(self, model: FrictionModel) -> list[Key]:
        wanted = {FRICTION[term]: term for term in model.terms}
        every = Layout.full(len(model.widths))
        found: dict[Key, None] = {}
        for key in (key for own in self.columns for key in own):
            name, width, fall = key
            column = every.column(name)
            term = wanted.get(column.symbol)
            if name in self.rigid:
                found[key] = None
            elif term is not None:
                of_joint = model.widths[column.joint] if term in _TURNING else 0
                if (width, fall) == (of_joint, model.fall if term == "stribeck" else 0):
                    found[key] = None
        return list(found)

    def _bounded(self, keys: Sequence[Key], joints: int) -> NDArray[np.bool_]:
        every = Layout.full(joints)
        return np.array(
            [n not in self.rigid and every.column(n).symbol in NON_NEGATIVE for n, _, _ in keys], dtype=bool
        )

    def _squares(self, x: Array, places: Sequence[Places], block: int) -> Array:
        """Sum of squared errors of each joint (n,) in a block."""
        whole, found = np.append(x, -1.0), []
        for products, (within, among) in zip(self.products, places):
            own = whole[among]
            found.append(float(own @ products[block][within[:, None], within] @ own))
        return np.asarray(np.maximum(found, 0.0), dtype=float)


def friction_table(
    robot: Robot,
    rigid: Sequence[str],
    motion: Samples,
    terms: Sequence[str],
    widths: Sequence[Array],
    falls: Sequence[Array],
    loads: Array | None = None,
) -> FrictionTable:
    """Return the table of all models with some of these terms, sign widths and Stribeck speeds.

    Args:
        robot: The robot; its drive couplings count, its friction does not.
        rigid: Names of independent columns of links and rotors.
        motion: The samples.
        terms: Names of drive terms; what does not fit a joint is left out there.
        widths: Sign widths of all joints, each (joints,).
        falls: Stribeck speeds of all joints, each (joints,).
        loads: What each joint's drive carries at rest (N, joints), NaN for drives without load friction; None: for
            none.
    """
    bare = robot.with_drives(friction=())
    Y = regressor(bare, motion.q, motion.dq, motion.ddq, columns=rigid)
    columns: list[dict[Key, Array]] = [
        {(name, 0, 0): Y[:, row, k] for k, name in enumerate(rigid) if np.any(Y[:, row, k])} for row in range(robot.n)
    ]
    c = coordinates(robot, list(motion.q.T), list(motion.dq.T), list(motion.ddq.T))
    usable = [term for term in terms if term != "load" or loads is not None]
    carried = None if loads is None else list(loads.T)
    for width, sharp in enumerate(widths):
        for fall, speed in enumerate(falls):
            own = _needed(usable, width, fall)
            if not own:
                continue
            driven = bare.with_drives(friction=own, sign_width=sharp, stribeck_speed=speed)
            for column in drive_columns(driven, c.dq, c.ddq, RealShapes(driven, c.q, carried)):
                if column.symbol == ROTOR or np.any(np.isnan(column.value)):  # a rigid column, or no load friction
                    continue
                name = driven.layout.names[column.index]
                torque = [0.0] * len(robot.joints)
                for joint, ratio in column.ratios.items():
                    torque[joint] = ratio * column.value
                for row, value in enumerate(c.project(torque)):
                    if np.any(value):
                        columns[row][name, width, fall] = np.broadcast_to(value, len(motion))
    edges = np.linspace(0, len(motion), BLOCKS + 1).astype(int)
    products = []
    with single_thread():
        for row, found in enumerate(columns):
            A = np.stack([*found.values(), motion.tau[:, row]], axis=1)
            products.append(np.stack([A[a:b].T @ A[a:b] for a, b in pairwise(edges)]))
    return FrictionTable(
        tuple(rigid), tuple(tuple(found) for found in columns), tuple(products), np.diff(edges).astype(float)
    )


def _needed(terms: Sequence[str], width: int, fall: int) -> list[str]:
    """Return the terms that change with this width and Stribeck speed; all of them for the first."""
    found = []
    for term in terms:
        new_width = width == 0 or term in _TURNING
        new_fall = fall == 0 or term == "stribeck"
        if new_width and new_fall:
            found.append(term)
    return found


def _non_negative(products: Array, bounded: NDArray[np.bool_]) -> Array:
    """Solve least squares from products of columns and, last, the right side, bounded unknowns not negative.

    Block principal pivoting: unknowns that are negative leave, those whose gradient asks for it come back, all at once
    as long as their number falls, else one at a time, which cannot go round in circles.
    """
    products, right = products[:-1, :-1], products[:-1, -1]
    length = np.sqrt(np.maximum(np.diag(products), 0.0))
    used = length > _ROUNDING * length.max(initial=0.0)
    scale = np.where(used, length, 1.0)
    A, b = products / np.outer(scale, scale), right / scale
    active = used.copy()
    x = np.zeros(len(right))
    fewest, patience = len(right) + 1, 3
    for _ in range(10 * len(right) + 10):
        x = np.zeros(len(right))
        x[active] = _solved(A[np.ix_(active, active)], b[active]) if active.any() else 0.0
        gradient = b - A @ x
        wrong = used & bounded & np.where(active, x < 0.0, gradient > 1e-10 * np.abs(b).max(initial=0.0))
        count = int(np.count_nonzero(wrong))
        if count == 0:
            break
        if count < fewest:
            fewest, patience = count, 3
        elif patience > 0:
            patience -= 1
        else:
            wrong[: np.flatnonzero(wrong)[-1]] = False
        active = active ^ wrong
    return np.where(bounded, np.maximum(x, 0.0), x) / scale


def _solved(products: Array, right: Array) -> Array:
    try:
        return np.asarray(cho_solve(cho_factor(products + _ROUNDING * np.eye(len(right))), right))
    except LinAlgError:
        return np.asarray(np.linalg.lstsq(products, right, rcond=_ROUNDING)[0])
