"""The one place that knows where a parameter stands: names, and the order of the standard vector.

Joint by joint as in Gautier1991 (3): XX1 XY1 XZ1 YY1 YZ1 ZZ1 MX1 MY1 MZ1 M1, then the drive terms of joint 1 that are
switched on (Ia1 Fv1 Fc1 Fo1 ..., in the order of `minidyn.model.drives`), then XX2 ... Numbers count moving joints in
order, mimic and passive ones included.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import ArrayLike

from minidyn.arrays import Array
from minidyn.errors import UnknownName
from minidyn.model.drives import INERTIAS, ROTOR, TERMS, Drive
from minidyn.model.inertia import STANDARD


@dataclass(frozen=True, slots=True)
class Column:
    """One standard parameter: its symbol ("XX", "Ia", ...), the joint it belongs to (from 0), its place."""

    symbol: str
    joint: int
    index: int

    @property
    def name(self) -> str:
        """Symbol and number, as in "ZZ1"."""
        return f"{self.symbol}{self.joint + 1}"

    @property
    def is_inertial(self) -> bool:
        """One of the ten of a link."""
        return self.symbol in STANDARD

    @property
    def is_rigid(self) -> bool:
        """One of the ten of a link, or the rotor's inertia."""
        return self.is_inertial or self.symbol == ROTOR

    @property
    def is_friction(self) -> bool:
        """A friction term, or a spring (neither of a link nor an inertia of the drive)."""
        return not self.is_inertial and self.symbol not in INERTIAS


@dataclass(frozen=True)
class Layout:
    """Named columns in storage order; the only way from a parameter's name to its index."""

    columns: tuple[Column, ...]

    @classmethod
    def of(cls, drives: Iterable[Drive]) -> Layout:
        """Return the layout of joints with these drives."""
        return _layout(tuple(drive.columns for drive in drives))

    @classmethod
    def full(cls, joints: int) -> Layout:
        """Return the layout of so many joints that have every drive term."""
        return cls.of([Drive(True, tuple(TERMS))] * joints)

    def __len__(self) -> int:
        return len(self.columns)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """All names in storage order."""
        return tuple(column.name for column in self.columns)

    @cached_property
    def _index(self) -> dict[str, int]:
        return {name: index for index, name in enumerate(self.names)}

    def index(self, name: str) -> int:
        """Return the place of a parameter; where there is none an error with near names."""
        try:
            return self._index[name]
        except (KeyError, TypeError):
            raise UnknownName("parameter", name, self.names) from None

    def column(self, name: str) -> Column:
        """Return the column of a parameter: its symbol, joint and place."""
        return self.columns[self.index(name)]

    def __contains__(self, name: object) -> bool:
        return name in self._index

    def indices(self, names: Sequence[str]) -> tuple[int, ...]:
        """Return the places of several parameters."""
        return tuple(self.index(name) for name in names)

    def vector(self, tens: Iterable[ArrayLike | None], terms: Iterable[Mapping[str, float]]) -> Array:
        """Return the parameters (p,) from the ten of each link and each joint's drive terms by symbol; else NaN."""
        values = np.full(len(self), np.nan)
        for part, columns, ten, given in zip(self.links, self.drives, tens, terms):
            if ten is not None:
                values[part] = ten
            for column in columns:
                values[column.index] = given.get(column.symbol, np.nan)
        return values

    @cached_property
    def links(self) -> tuple[slice, ...]:
        """For each link, where its ten inertial parameters stand."""
        starts = [column.index for column in self.columns if column.symbol == STANDARD[0]]
        return tuple(slice(start, start + len(STANDARD)) for start in starts)

    @cached_property
    def drives(self) -> tuple[tuple[Column, ...], ...]:
        """For each joint, its drive columns."""
        found: list[list[Column]] = [[] for _ in self.links]
        for column in self.columns:
            if not column.is_inertial:
                found[column.joint].append(column)
        return tuple(tuple(columns) for columns in found)


@lru_cache(maxsize=256)
def _layout(drives: tuple[tuple[str, ...], ...]) -> Layout:
    """Return the layout of joints by the symbols of their drive columns; equal robots share it."""
    columns: list[Column] = []
    for joint, symbols in enumerate(drives):
        for symbol in (*STANDARD, *symbols):
            columns.append(Column(symbol, joint, len(columns)))
    return Layout(tuple(columns))
