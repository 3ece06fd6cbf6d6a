"""Columns of a motion from which tables of friction models are made: those of links and rotors once for all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from minidyn.arrays import Array
from minidyn.dynamics.drives import Shapes, drive_columns
from minidyn.dynamics.functions import regressor
from minidyn.dynamics.tree import Coordinates, coordinates
from minidyn.identification.friction.table import BLOCKS, TURNING, FrictionTable, Key
from minidyn.identification.rows.base_rows import Samples
from minidyn.model.drives import FRICTION, ROTOR
from minidyn.model.robot import Robot

_TERMS = {symbol: term for term, symbol in FRICTION.items()}


@dataclass(frozen=True)
class RigidColumns:
    """What all tables of one motion share: the columns of links and rotors, and their products."""

    rigid: tuple[str, ...]  # names of the columns
    bare: Robot  # the robot without friction
    motion: Samples  # the samples
    coordinates: Coordinates  # its joints along them
    names: tuple[tuple[str, ...], ...]  # for each joint, the columns that its torque sees
    columns: tuple[Array, ...]  # for each joint, those columns (N, c)

    @classmethod
    def of(cls, robot: Robot, rigid: Sequence[str], motion: Samples) -> RigidColumns:
        """Compute the independent columns of links and rotors; drive couplings count, friction does not."""
        bare = robot.with_drives(friction=())
        Y = regressor(bare, *motion.motion, columns=rigid)
        seen = np.any(Y, axis=0)
        names = tuple(tuple(name for name, used in zip(rigid, row) if used) for row in seen)
        columns = tuple(np.ascontiguousarray(Y[:, row, seen[row]]) for row in range(robot.n))
        return cls(
            tuple(rigid), bare, motion, coordinates(robot, *(list(part.T) for part in motion.motion)), names, columns
        )

    @cached_property
    def _rows(self) -> NDArray[np.intp]:
        """Numbers of the samples of each block (blocks, most); one past the last fills up."""
        edges = np.linspace(0, len(self.motion), BLOCKS + 1).astype(int)
        rows = edges[:-1, None] + np.arange(np.diff(edges).max())
        return np.where(rows < edges[1:, None], rows, len(self.motion))

    def _in_blocks(self, columns: Sequence[Array]) -> Array:
        """Return columns, each (N,), as (blocks, columns, most), zeros at the end of shorter blocks."""
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
        self, terms: Sequence[str], widths: Sequence[Array], falls: Sequence[Array], loads: Array | None = None
    ) -> FrictionTable:
        """Return the table of all models with some of these terms, smoothing widths and Stribeck speeds (joints,) each.

        What does not fit a joint is left out there. Loads are what each joint's drive carries at rest (N, joints), NaN
        for drives without load friction.
        """
        added: list[dict[Key, Array]] = [{} for _ in self.names]
        usable = [term for term in terms if term != "load" or loads is not None]
        for width, sharp in enumerate(widths):
            for fall, speed in enumerate(falls):
                for term, found in self._friction(_needed(usable, width, fall), sharp, speed, loads).items():
                    for name, joint, torques in found:
                        for row, value in torques.items():
                            added[row][Key(name, term, joint, width, fall)] = value
        products = []
        for row, (extra, (own, rigid)) in enumerate(zip(added, self._own)):
            E, size = self._in_blocks([*extra.values(), self.motion.tau[:, row]]), rigid.shape[1]
            whole = np.empty((BLOCKS, size + E.shape[1], size + E.shape[1]))
            whole[:, :size, :size] = rigid
            whole[:, size:, :size] = E @ np.swapaxes(own, 1, 2)
            whole[:, size:, size:] = E @ np.swapaxes(E, 1, 2)
            whole[:, :size, size:] = np.swapaxes(whole[:, size:, :size], 1, 2)
            products.append(whole)
        keys = tuple((*(Key(name) for name in own), *found) for own, found in zip(self.names, added))
        return FrictionTable(keys, tuple(products), (self._rows < len(self.motion)).sum(axis=1).astype(float))

    def _friction(
        self, terms: Sequence[str], sharp: Array, speed: Array, loads: Array | None
    ) -> dict[str, list[tuple[str, int, dict[int, Array]]]]:
        """Return each term's columns: name, whose drive, and torque (N,) of each row; all but loads are remembered."""
        c = self.coordinates
        places = {
            term: (term, sharp.tobytes() if term in TURNING else b"", speed.tobytes() if term == "stribeck" else b"")
            for term in terms
        }
        new = [term for term, place in places.items() if term == "load" or place not in self._made]
        if new:
            self._made.update({places[term]: [] for term in new})
            driven = self.bare.with_drives(friction=new, sign_width=sharp, stribeck_speed=speed)
            carried = None if loads is None else list(loads.T)
            for column in drive_columns(driven, c.dq, c.ddq, Shapes(driven, c.q, carried)):
                if column.symbol == ROTOR or np.isnan(column.value).any():  # rigid, or no load friction
                    continue
                known = driven.layout.columns[column.index]
                torque = [0.0] * len(self.bare.joints)
                for joint, ratio in column.ratios.items():
                    torque[joint] = ratio * column.value
                rows = {row: value for row, value in enumerate(c.project(torque)) if np.any(value)}
                term = _TERMS[known.symbol]
                self._made[places[term]].append((known.name, known.joint, rows))
        return {term: self._made[place] for term, place in places.items()}


def _needed(terms: Sequence[str], width: int, fall: int) -> list[str]:
    """Return the terms that change with this width and Stribeck speed; all of them for the first."""
    found = []
    for term in terms:
        new_width = width == 0 or term in TURNING
        new_fall = fall == 0 or term == "stribeck"
        if new_width and new_fall:
            found.append(term)
    return found
