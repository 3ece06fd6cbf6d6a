"""Many friction models judged from one table.

Products of all columns that any of them has, block by block of time. A model is a choice among
columns. Least squares on any choice, and its error on a block of time that was held out, need only
the products of the columns over the blocks, so that a model costs a fraction of a millisecond once
the table is made. That is why the search does not use the triangles of `rows`: a triangle belongs
to one choice of columns. Products lose digits with the square of the condition number, which a
choice between models does not need.

All models of a search share the columns of links and rotors, which are made once; each table adds
its friction columns.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from minidyn.arrays import Array
from minidyn.dynamics.drives import Shapes, drive_columns, drive_ratios
from minidyn.dynamics.functions import regressor
from minidyn.dynamics.tree import Coordinates, coordinates, measured_rows
from minidyn.identification.estimators.non_negative import non_negative, scaled
from minidyn.identification.rows.base_rows import Path, Samples
from minidyn.model.drives import ALIASES, FRICTION, NON_NEGATIVE, STAYING
from minidyn.model.robot import Robot

BLOCKS = 10
"""Blocks of time, each held out in turn."""

TURNING = (
    "coulomb",
    "stribeck",
    "sqrt",
    "quadratic",
    "asymmetric",
    "load",
    "own_coulomb",
    "breakaway",
)
"""Terms that depend on the smoothing width."""

TERMS_OF = {symbol: term for term, symbol in FRICTION.items()}
_SIGNED = {term for term, symbol in FRICTION.items() if symbol not in NON_NEGATIVE} | set(
    ALIASES["curve"]
)


class Key(NamedTuple):
    """A column of a table."""

    name: str  # of its parameter ("Fc2")
    term: str = ""  # the drive term; "" for links and rotors
    joint: int = -1  # whose drive it is; -1 for links and rotors
    width: int = 0  # number of the smoothing width; 0 where it does not matter
    fall: int = 0  # number of the Stribeck speed; 0 where it does not matter
    travel: int = 0  # number of the travel of presliding; 0 where it does not matter


@dataclass(frozen=True)
class FrictionModel:
    """A choice among the columns of a table."""

    terms: tuple[str, ...]  # names of drive terms
    widths: tuple[int, ...]  # for each joint, the number of its smoothing width in the table
    fall: int = 0  # number of its Stribeck speeds
    travels: tuple[
        int, ...
    ] = ()  # for each joint, the number of its travel of presliding; -1: the joint has none


@dataclass(frozen=True)
class Judged:
    """How a model predicts what was held out."""

    squares: Array  # sums of squared errors (blocks, n)
    samples: Array  # of each block (blocks,)
    torque_squares: Array  # sum of squared torques of each joint (n,)
    beyond: Array | float = (
        0.0  # squares (blocks, n) that a model adds to what a low-pass took off the torques
    )

    def deviance(self, sigma: Array) -> Array:
        """Mean squared error in variances of the noise, block by block (blocks,)."""
        return np.asarray(np.mean((self.squares + self.beyond) / sigma**2, axis=1) / self.samples)

    @property
    def relative_error(self) -> float:
        """‖tau - prediction‖ / ‖tau‖ over all joints."""
        return float(
            np.sqrt(np.sum(self.squares) / max(float(np.sum(self.torque_squares)), 1e-300))
        )


@dataclass(frozen=True)
class FrictionTable:
    """Products of columns."""

    # for each joint, the columns that its torque sees: those of links and rotors first
    columns: tuple[tuple[Key, ...], ...]
    products: tuple[
        Array, ...
    ]  # for each joint (blocks, c + 1, c + 1): products of its columns and its torque
    samples: Array  # of each block (blocks,)
    friction: tuple[dict[Key, Array], ...]  # for each joint, the columns (N,) of friction

    def fit(self, model: FrictionModel, sigma: Array) -> tuple[list[Key], Array]:
        """Return (columns, values) of the best fit.

        Dissipative terms that would be negative are left out.
        """
        own = self._chosen(model)
        keys = [*self._every[: self._rigid], *(self._every[self._rigid + k] for k in own)]
        return keys, self._fitted(own, self._parts(own), sigma)

    def judge(self, model: FrictionModel, sigma: Array) -> Judged:
        """Fit without each block in turn and return the errors on it."""
        whole, found = self.without_each(model, sigma)[1], []
        for among, products in zip(self._places, self.products):
            y = whole[:, among]
            found.append(np.einsum("fi,fi->f", y, (products @ y[..., None])[..., 0]))
        return Judged(np.maximum(np.stack(found, axis=1), 0.0), self.samples, self._torque_squares)

    def without_each(self, model: FrictionModel, sigma: Array) -> tuple[list[Key], Array]:
        """Fit without each block in turn.

        (all columns, their values and -1 for the torque (blocks, columns + 1)).
        """
        own, left = self._chosen(model), self._without_rigid(sigma)
        z = np.zeros(left.b.shape)
        z[:, own] = non_negative(_part(left.A, own), left.b[:, own], self._bounded[own])
        return self._every, left.values(z)

    def deviances(self, models: Sequence[FrictionModel], sigma: Array) -> Array:
        """Return what `judge(model, sigma).deviance(sigma)` is for several models (models, blocks).

        Columns that all of them have are eliminated once; what differs is then a small problem for
        each.
        """
        choices, left = [self._chosen(model) for model in models], self._without_rigid(sigma)
        if (
            len({self._bounded[choice].tobytes() for choice in choices}) > 1
        ):  # models of different kinds share nothing
            return np.stack([self.judge(model, sigma).deviance(sigma) for model in models])
        own = np.stack(choices)
        shared = np.bincount(own.ravel(), minlength=left.b.shape[1]) == len(own)
        common, differing = own[0][shared[own[0]]], own[~shared[own]].reshape(len(own), -1)
        others, place = np.unique(differing, return_inverse=True)
        union, size = np.concatenate([common, others]), len(common)
        place = size + place.reshape(differing.shape)
        A, b, bounded = _part(left.A, union), left.b[:, union], self._bounded[union]
        # which dissipative terms are left out is taken from the first model, and looked at again
        # for each
        first = np.concatenate([np.arange(size), place[0]])
        kept = (non_negative(_part(A, first), b[:, first], bounded[first]) != 0.0)[
            :, :size
        ] | ~bounded[:size]
        inner = A[:, :size, :size] * (kept[:, :, None] & kept[:, None, :])
        inner[:, np.arange(size), np.arange(size)] += ~kept
        right = np.concatenate([A[:, :size, size:], b[:, :size, None]], axis=2) * kept[:, :, None]
        solved = np.linalg.solve(inner, right)
        across, extra = A[:, size:, :size], place - size
        S, s = (
            A[:, size:, size:] - across @ solved[..., :-1],
            b[:, size:] - (across @ solved[..., -1:])[..., 0],
        )
        z = np.linalg.solve(S[:, extra[:, :, None], extra[:, None, :]], s[:, extra][..., None])[
            ..., 0
        ]
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
            x[fold[:, None], model[:, None], at] = non_negative(
                parts, b[fold[:, None], at], bounded[at[0]]
            )
        whole = np.concatenate([x, np.full((*x.shape[:2], 1), -1.0)], axis=2)
        squares = np.einsum("fmi,fmi->mf", whole @ _part(left.Q, [*union, -1]), whole)
        return np.asarray(np.maximum(squares, 0.0) / len(self.products) / self.samples)

    def noise(self, model: FrictionModel) -> Array:
        """Return the noise of each joint (n,) that the model leaves, weights and noise in
        agreement.
        """
        samples, parts = (
            max(1.0, float(self.samples.sum())),
            self._parts(own := self._chosen(model)),
        )
        sigma = np.where((scale := np.sqrt(self._torque_squares / samples)) > 0, scale, 1.0)
        for _ in range(4):
            whole = np.append(self._fitted(own, parts, sigma), -1.0)
            left = np.array(
                [max(0.0, float(whole[at] @ products @ whole[at])) for at, products in parts]
            )
            sigma = np.maximum(np.sqrt(left / samples), 1e-6 * scale)
            sigma = np.where(sigma > 0, sigma, 1.0)
            sigma = np.where(sigma > 0, sigma, 1.0)
        return np.asarray(sigma, dtype=float)

    def _parts(self, own: NDArray[np.intp]) -> list[tuple[NDArray[np.intp], Array]]:
        """For each joint, where its columns and the torque are in a model, and their products in
        all.
        """
        chosen = np.concatenate([np.arange(self._rigid), self._rigid + own, [len(self._every)]])
        at = np.full(len(self._every) + 1, -1)
        at[chosen] = np.arange(len(chosen))
        found = []
        for among, products in zip(self._places, self._sums):
            within = np.flatnonzero(at[among] >= 0)
            found.append((at[among[within]], products[within[:, None], within]))
        return found

    def _fitted(
        self, own: NDArray[np.intp], parts: Sequence[tuple[NDArray[np.intp], Array]], sigma: Array
    ) -> Array:
        """Return the values of a model's columns, those of links and rotors first, from all
        blocks.
        """
        size = self._rigid + len(own)
        total = np.zeros((size + 1, size + 1))
        for (at, products), noise in zip(parts, sigma):
            total[at[:, None], at] += products / noise**2
        A, b, scale = scaled(total[None])
        bounded = np.concatenate([np.zeros(self._rigid, dtype=bool), self._bounded[own]])
        return np.asarray((non_negative(A, b, bounded) / scale)[0])

    @cached_property
    def _sums(self) -> tuple[Array, ...]:
        """The products over all blocks together, for each joint (c + 1, c + 1)."""
        return tuple(products.sum(axis=0) for products in self.products)

    @cached_property
    def _torque_squares(self) -> Array:
        return np.array([float(products[-1, -1]) for products in self._sums])

    @cached_property
    def _every(self) -> list[Key]:
        """All columns, each once.

        Those of links and rotors, then joint by joint and term by term.
        """
        return sorted(
            dict.fromkeys(key for own in self.columns for key in own),
            key=lambda key: (key.joint, *key[1:]),
        )

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
        """For each column of friction, whether its parameter is not negative.

        Knees of the curve may be (`consistency/certificate.py`), and so may Stribeck's term in the
        end; while terms are chosen it may not: a wide one would stand in for a knee, and the fall
        that it is for would be missed.
        """
        return np.array([key.term not in _SIGNED for key in self._every[self._rigid :]], dtype=bool)

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
        """For each column of friction.

        Joint, width (-1: it does not matter), fall and travel (likewise).
        """
        own = self._every[self._rigid :]
        widths = [key.width if key.term in TURNING else -1 for key in own]
        falls = [key.fall if key.term == "stribeck" else -1 for key in own]
        travels = [key.travel if key.term == "presliding" else -1 for key in own]
        joints = [key.joint for key in own]
        return tuple(np.array(values, dtype=np.intp) for values in (joints, widths, falls, travels))

    def _chosen(self, model: FrictionModel) -> NDArray[np.intp]:
        """Return the places of the model's columns among those of friction."""
        joints, widths, falls, travels = self._numbers
        named = np.array(
            [key.term in model.terms for key in self._every[self._rigid :]], dtype=bool
        )
        sharp = (widths < 0) | (widths == np.array(model.widths, dtype=np.intp)[joints])
        if model.travels:
            sharp &= (travels < 0) | (travels == np.array(model.travels, dtype=np.intp)[joints])
        return np.flatnonzero(named & sharp & ((falls < 0) | (falls == model.fall)))


@dataclass(frozen=True)
class _Friction:
    """Least squares without each block.

    Columns of links and rotors, which have no bounds, are eliminated.
    """

    A: Array  # normal matrix of the columns of friction (f, k, k), which are scaled to one length
    b: Array  # its right side (f, k)
    Q: Array  # (f, k + 1, k + 1): what values of them and -1 leave of the block's squares
    # (f, r, k + 1) with the values of the eliminated columns, scaled alike: -solved @ (values, -1)
    solved: Array
    scale: Array  # lengths of all columns (f, r + k)

    @classmethod
    def of(cls, W: Array, r: int) -> _Friction:
        """Eliminate the first r columns of products W (f, r + k + 1, r + k + 1).

        Of columns and, last, the torque.
        """
        A, b, scale = scaled(W.sum(axis=0) - W)
        solved = np.linalg.solve(
            A[:, :r, :r], np.concatenate([A[:, :r, r:], b[:, :r, None]], axis=2)
        )
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
    return np.asarray(
        products[:, np.asarray(places, dtype=int)[:, None], np.asarray(places, dtype=int)]
    )


@dataclass(frozen=True)
class RigidColumns:
    """What all tables of one motion share: the columns of links and rotors, and their products."""

    rigid: tuple[str, ...]  # names of the columns
    bare: Robot  # the robot without friction
    motion: Samples  # the samples
    coordinates: Coordinates  # its joints along them
    names: tuple[tuple[str, ...], ...]  # for each joint, the columns that its torque sees
    columns: tuple[Array, ...]  # for each joint, those columns (N, c)
    paths: tuple[Path, ...] = ()  # of each joint's drive; none where nothing is to be remembered

    @classmethod
    def of(
        cls, robot: Robot, rigid: Sequence[str], motion: Samples, paths: Sequence[Path] = ()
    ) -> RigidColumns:
        """Compute the independent columns of links and rotors.

        Drive couplings count, friction does not.
        """
        bare = robot.with_drives(friction=())
        moved = motion.q, motion.dq, motion.ddq
        Y = regressor(bare, *moved, columns=rigid)
        seen = np.any(Y, axis=0)
        names = tuple(tuple(name for name, used in zip(rigid, row) if used) for row in seen)
        columns = tuple(np.ascontiguousarray(Y[:, row, seen[row]]) for row in range(robot.n))
        along = coordinates(robot, *(list(part.T) for part in moved))
        return cls(tuple(rigid), bare, motion, along, names, columns, tuple(paths))

    @property
    def edges(self) -> NDArray[np.intp]:
        """Numbers of the samples that blocks begin with, and one past the last (blocks + 1,)."""
        return np.linspace(0, len(self.motion), BLOCKS + 1).astype(np.intp)

    @cached_property
    def _rows(self) -> NDArray[np.intp]:
        """Numbers of the samples of each block (blocks, most); one past the last fills up."""
        rows = self.edges[:-1, None] + np.arange(np.diff(self.edges).max())
        return np.where(rows < self.edges[1:, None], rows, len(self.motion))

    def _in_blocks(self, columns: Sequence[Array]) -> Array:
        """Return columns, each (N,), as (blocks, columns, most), zeros at the end of shorter
        blocks.
        """
        whole = np.zeros((len(columns), len(self.motion) + 1))
        for row, column in zip(whole, columns):
            row[:-1] = column
        return np.ascontiguousarray(np.swapaxes(whole[:, self._rows], 0, 1))

    @cached_property
    def _own(self) -> list[tuple[Array, Array]]:
        """For each joint, its columns in blocks, and their products (blocks, c, c)."""
        found = [self._in_blocks(list(columns.T)) for columns in self.columns]
        return [(own, own @ np.swapaxes(own, 1, 2)) for own in found]

    @cached_property
    def _made(self) -> dict[tuple[str, bytes, bytes], list[tuple[str, int, dict[int, Array]]]]:
        return {}

    def table(
        self,
        terms: Sequence[str],
        widths: Sequence[Array],
        falls: Sequence[Array],
        loads: Array | None = None,
        travels: Sequence[Array] = (),
    ) -> FrictionTable:
        """Return the table of all models with some of these terms, smoothing widths and Stribeck
        speeds (joints,) each.

        What does not fit a joint is left out there. Loads are what each joint's drive carries at
        rest (N, joints), NaN for drives without load friction. Travels of presliding are (joints,)
        each, NaN for drives without it.
        """
        added: list[dict[Key, Array]] = [{} for _ in self.names]
        apart = {
            "presliding",
            "breakaway",
            *ALIASES["ripple"],
            *(("load",) if loads is None else ()),
        }
        usable = [term for term in terms if term not in apart]
        for number, sizes in enumerate(travels if "presliding" in terms and self.paths else ()):
            for joint, travel in enumerate(sizes.tolist()):
                if not math.isnan(travel) and self.bare.joints[joint].kind != "fixed":
                    key = Key(
                        f"{FRICTION['presliding']}{joint + 1}", "presliding", joint, travel=number
                    )
                    for row, value in self._presliding(joint, travel).items():
                        added[row][key] = value
        for width, sharp in enumerate(widths):
            for fall, speed in enumerate(falls):
                # terms that change with this width and Stribeck speed; all of them for the first
                turning = [term for term in usable if width == 0 or term in TURNING]
                needed = [term for term in turning if fall == 0 or term == "stribeck"]
                for term, found in self._friction(needed, sharp, speed, loads).items():
                    for name, joint, torques in found:
                        for row, value in torques.items():
                            added[row][Key(name, term, joint, width, fall)] = value
        return self.tabled(added)

    def tabled(self, added: Sequence[dict[Key, Array]]) -> FrictionTable:
        """Return the table with these columns (N,) of friction for each joint.

        `last_terms.py` adds to them.
        """
        products = []
        for row, (extra, (own, rigid)) in enumerate(zip(added, self._own)):
            E, size = self._in_blocks([*extra.values(), self.motion.tau[:, row]]), rigid.shape[1]
            whole = np.empty((BLOCKS, size + E.shape[1], size + E.shape[1]))
            whole[:, :size, :size] = rigid
            whole[:, size:, :size] = E @ np.swapaxes(own, 1, 2)
            whole[:, size:, size:] = E @ np.swapaxes(E, 1, 2)
            whole[:, :size, size:] = np.swapaxes(whole[:, size:, :size], 1, 2)
            products.append(whole)
        keys = tuple(
            (*(Key(name) for name in own), *found) for own, found in zip(self.names, added)
        )
        return FrictionTable(keys, tuple(products), np.diff(self.edges).astype(float), tuple(added))

    def _friction(
        self, terms: Sequence[str], sharp: Array, speed: Array, loads: Array | None
    ) -> dict[str, list[tuple[str, int, dict[int, Array]]]]:
        """Return each term's columns: name, whose drive, and torque (N,) of each row.

        All but loads are remembered.
        """
        c = self.coordinates
        places = {
            term: (
                term,
                sharp.tobytes() if term in TURNING else b"",
                speed.tobytes() if term == "stribeck" else b"",
            )
            for term in terms
        }
        new = [term for term, place in places.items() if term == "load" or place not in self._made]
        if new:
            self._made.update({places[term]: [] for term in new})
            driven = self.bare.with_drives(friction=new, sign_width=sharp, stribeck_speed=speed)
            carried = None if loads is None else list(loads.T)
            for column in drive_columns(driven, c.dq, c.ddq, Shapes(driven, c.q, carried)):
                if (
                    column.symbol in STAYING or np.isnan(column.value).any()
                ):  # rigid, or no load friction
                    continue
                known = driven.layout.columns[column.index]
                self._made[places[TERMS_OF[known.symbol]]].append(
                    (known.name, known.joint, self.rows_of(column.value, column.ratios))
                )
        return {term: self._made[place] for term, place in places.items()}

    def _presliding(self, joint: int, travel: float) -> dict[int, Array]:
        """Return the torque (N,) of each row that presliding of a joint's drive gives.

        It is remembered.
        """
        place = ("presliding", str(joint).encode(), np.float64(travel).tobytes())
        if place not in self._made:
            torque = self.rows_of(
                self.paths[joint].presliding(travel), drive_ratios(self.bare, joint)
            )
            self._made[place] = [("", joint, torque)]
        return self._made[place][0][2]

    def rows_of(self, value: Array, ratios: Mapping[int, float]) -> dict[int, Array]:
        """Return the torque (N,) of each row that a column gives which acts on joints with these
        ratios.
        """
        torque: list[Any] = [0.0] * len(self.bare.joints)
        for joint, ratio in ratios.items():
            torque[joint] = ratio * value
        return {
            row: value
            for row, value in enumerate(measured_rows(self.bare, self.coordinates.project(torque)))
            if np.any(value)
        }
