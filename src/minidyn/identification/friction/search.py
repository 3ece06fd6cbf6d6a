"""The search for friction terms: forward, one at a time, judged on blocks of time that were held out.

All models of a search share the columns of links and rotors, which are made once; each table adds its friction columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from minidyn.arrays import Array
from minidyn.dynamics.drives import Shapes, drive_columns, loads_of_motion
from minidyn.dynamics.functions import regressor
from minidyn.dynamics.tree import Coordinates, coordinates
from minidyn.identification.friction.table import BLOCKS, TURNING, FrictionModel, FrictionTable, Key
from minidyn.identification.rows.base_rows import Samples
from minidyn.model.drives import ALIASES, FRICTION, STAYING, friction_symbols
from minidyn.model.robot import Robot
from minidyn.notices import Notice, info

_CANDIDATES = (("load",), ("sqrt",), ("stribeck",), ("asymmetric",), ("cubic",), ALIASES["curve"], ALIASES["own"])
_LEAST_GAIN = 0.02  # of the held-out squares, one percent of the error: less is not worth a term, however certain
_ROUNDS = 6
_LARGE = 120  # rigid parameters; beyond them (some fifteen joints) one proportion serves all joints, to save minutes
_FINER = (1.36, 1.17)  # factors between the widths that are tried around the best
_TERMS = {symbol: term for term, symbol in FRICTION.items()}


CHOSEN = info("friction.chosen", "Which friction terms were chosen, and what they bring on held-out data.")
UNLOADED = info("friction.load_constant", "Joints whose load hardly changes in this recording: no load friction there.")


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
        along = coordinates(robot, *(list(part.T) for part in motion.motion))
        return cls(tuple(rigid), bare, motion, along, names, columns)

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
                if column.symbol in STAYING or np.isnan(column.value).any():  # rigid, or no load friction
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


@dataclass(frozen=True)
class Found:
    """What a search has found."""

    terms: tuple[str, ...]  # names of drive terms
    unloaded: tuple[int, ...]  # joints without load friction, whatever the terms
    sign_width: Array  # of each joint (joints,)
    stribeck_speed: Array  # of each joint (joints,)
    # standard parameters of the robot without friction (p,) that loads are computed from; None: no loads
    parameters: Array | None
    columns: RigidColumns  # those of links and rotors
    settings: dict[str, Any]  # what was tried, for records
    notices: tuple[Notice, ...]  # what a reader should know


@dataclass(frozen=True)
class _Tried:
    """A model with one more group of terms: by how much it lowers held-out squares, as a share, and how certainly."""

    group: tuple[str, ...]
    model: FrictionModel
    error: float
    gain: float
    uncertainty: float
    deviance: Array

    def record(self, before: FrictionModel, taken: bool) -> dict[str, Any]:
        return {
            "with": list(before.terms),
            "added": list(self.group),
            "error": self.error,
            "gain": self.gain,
            "uncertainty": self.uncertainty,
            "taken": taken,
        }


class Search:
    """One search, from a robot with the terms to begin with and its independent columns of links and rotors.

    Smoothing widths of all joints to choose from are {name for records: (joints,)}, Stribeck speeds (joints,) each.
    Terms may be added, with or without that of the load, and load friction may be left out where a joint's load hardly
    changes.
    """

    def __init__(
        self,
        robot: Robot,
        rigid: Sequence[str],
        motion: Samples,
        widths: dict[float, Array],
        falls: Sequence[Array],
        add: bool,
        leave_out: bool,
        load: bool = True,
    ) -> None:
        self.robot, self.motion, self.rigid = robot, motion, tuple(rigid)
        self.add, self.leave_out = add, leave_out
        self.ratios, self.wide, self.falls = list(widths), list(widths.values()), list(falls)
        self.widths = self.wide
        self.curve: list[list[float]] = []
        self.columns = RigidColumns.of(robot, rigid, motion)
        self.bare = self.columns.bare
        self.own = friction_symbols(term for joint in robot.joints for term in joint.drive.friction)
        coupled = any(joint.drive.coupling for joint in robot.joints)
        never = [group for group, sense in ((ALIASES["own"], coupled), (("load",), load)) if not sense]
        groups = [group for group in _CANDIDATES if add and group not in never]
        self.groups = [group for group in groups if not set(group) <= set(self.own)]
        self.every = friction_symbols((*self.own, *(term for group in self.groups for term in group)))
        self.parameters: Array | None = None
        self.loads: Array | None = None  # what each joint's drive carries at rest with them (N, joints)
        self.loaded: frozenset[int] = frozenset()
        self.tried: list[dict[str, Any]] = []

    def run(self) -> Found:
        """Choose the widths with the terms at hand, add terms, then choose the widths again."""
        model = FrictionModel(tuple(term for term in self.own if term != "load"), self._alike(0))
        table, model, sigma = self._sharpened(model)
        if "load" in self.every:
            table = self._settled(table, model)
            model = replace(model, terms=self.own)
        plain = table.judge(model, sigma)
        if self.add:
            model = self._extended(table, model, sigma)
            table, model, sigma = self._pruned(*self._sharpened(model))
        if "load" in model.terms:
            table = self._settled(table, model)
        judged = table.judge(model, sigma)
        settings: dict[str, Any] = {"friction": list(model.terms), "friction_error": judged.relative_error}
        if len(self.wide) > 1:
            settings["sign_width"] = self.widths[0].tolist()
            settings["sign_width_curve"] = self.curve
        if "stribeck" in model.terms:
            settings["stribeck_speed"] = self.falls[model.fall].tolist()
        notices: list[Notice] = []
        if self.add:
            settings["friction_tried"] = self.tried
            notices.append(self._told(model, plain.relative_error, judged.relative_error))
        unloaded: tuple[int, ...] = ()
        if "load" in model.terms:
            unloaded = tuple(joint for joint in range(len(self.robot.joints)) if joint not in self.loaded)
            names = [self.robot.joints[joint].name for joint in unloaded if self.robot.joints[joint].kind != "fixed"]
            if names:
                text = f"friction: no load friction at {', '.join(names)}, whose load changes by less than the noise"
                notices.append(UNLOADED(text, joints=names))
        return Found(
            model.terms,
            unloaded,
            self.widths[0],
            self.falls[model.fall],
            self.parameters if "load" in model.terms else None,
            self.columns,
            settings,
            tuple(notices),
        )

    def _told(self, model: FrictionModel, before: float, after: float) -> Notice:
        added = [term for term in model.terms if term not in self.own]
        if not added:
            text = "; no further term predicts held-out blocks of time better by more than its uncertainty"
        else:
            text = (
                f", chosen by cross-validation over {BLOCKS} blocks of time: error {100 * before:.3g} % with "
                f"{', '.join(self.own)}, {100 * after:.3g} % with {', '.join(added)} besides"
            )
        text = f"friction: {', '.join(model.terms)}{text}"
        return CHOSEN(text, terms=list(model.terms), added=added, before=before, after=after)

    def _table(self, terms: Sequence[str]) -> FrictionTable:
        loads = None
        if self.loads is not None and "load" in terms:
            loads = self.loads.copy()
            loads[:, [joint for joint in range(loads.shape[1]) if joint not in self.loaded]] = np.nan
        return self.columns.table(terms, self.widths, self.falls, loads)

    def _sharpened(self, model: FrictionModel) -> tuple[FrictionTable, FrictionModel, Array]:
        """Choose Stribeck speed and smoothing widths that predict best; return the table with them, and the noise.

        Widths are tried in proportion to the speeds of the drives: one proportion for all joints, then each its own,
        then finer ones around it.
        """
        self.widths = self.wide
        table, model = self._table(model.terms), replace(model, widths=self._alike(0))
        sigma = table.noise(replace(model, widths=self._alike(len(self.wide) // 2)))
        if "stribeck" in model.terms:
            model = self._best(table, [replace(model, fall=k) for k in range(len(self.falls))], sigma)
        options = [replace(model, widths=self._alike(k)) for k in range(len(self.wide))]
        if len(options) > 1:
            errors = table.deviances(options, sigma).mean(axis=1).tolist()
            self.curve = [[ratio, error] for ratio, error in zip(self.ratios, errors)]
            model = self._own_widths(table, options[int(np.argmin(errors))], sigma)
            for finer in _FINER:
                chosen = self._widths_of(model)
                self.widths = [chosen / finer, chosen, chosen * finer]
                table, model = self._table(model.terms), replace(model, widths=self._alike(1))
                sigma = table.noise(model)
                model = self._own_widths(table, model, sigma)
            self.widths = [self._widths_of(model)]
            model = replace(model, widths=self._alike(0))
        table = self._table(self.every)
        return table, model, table.noise(model)

    def _own_widths(self, table: FrictionTable, model: FrictionModel, sigma: Array) -> FrictionModel:
        for joint, columns in enumerate(self.robot.layout.drives):
            if columns and len(self.rigid) <= _LARGE:
                first, rest = model.widths[:joint], model.widths[joint + 1 :]
                options = [replace(model, widths=(*first, k, *rest)) for k in range(len(self.widths))]
                model = self._best(table, options, sigma)
        return model

    def _widths_of(self, model: FrictionModel) -> Array:
        return np.array([self.widths[k][joint] for joint, k in enumerate(model.widths)])

    def _alike(self, width: int) -> tuple[int, ...]:
        return (width,) * len(self.robot.joints)

    def _best(self, table: FrictionTable, options: Sequence[FrictionModel], sigma: Array) -> FrictionModel:
        if len(options) == 1:
            return options[0]
        return options[int(np.argmin(table.deviances(options, sigma).mean(axis=1)))]

    def _settled(self, table: FrictionTable, model: FrictionModel) -> FrictionTable:
        """Return the table with the loads of the model's own fit."""
        for _ in range(_ROUNDS):
            sigma = table.noise(model)
            keys, values = table.fit(model, sigma)
            known = {key[0]: value for key, value in zip(keys, values)}
            found = np.array([known.get(name, 0.0) for name in self.bare.layout.names])
            before, self.parameters = self.parameters, found
            ten = [list(found[part]) for part in self.bare.layout.links]
            self.loads = loads_of_motion(self.bare.with_drives(friction="load"), self.motion.q, ten)
            if before is None:
                self.loaded = self._loaded(sigma)
            table = self._table(self.every)
            if "load" not in model.terms:
                break
            if before is not None and np.linalg.norm(found - before) < 1e-4 * np.linalg.norm(found):
                break
        return table

    def _loaded(self, sigma: Array) -> frozenset[int]:
        """Return the joints whose drives carry what changes by more than the noise: others cannot show its friction."""
        if self.loads is None or not self.leave_out:
            return frozenset(range(len(self.robot.joints)))
        noise = np.full(len(self.robot.joints), float(np.max(sigma)))
        noise[list(self.robot.independent)] = sigma
        return frozenset(np.flatnonzero(np.std(np.abs(self.loads), axis=0) > noise).tolist())

    def _pruned(
        self, table: FrictionTable, model: FrictionModel, sigma: Array
    ) -> tuple[FrictionTable, FrictionModel, Array]:
        """Leave out what was added, the latest first, where other widths do as well: they were chosen after it."""
        best = (table, model, sigma, self.widths, self.curve)
        for entry in reversed([entry for entry in self.tried if entry["taken"]]):
            table, model, sigma, widths, curve = best
            without = tuple(term for term in model.terms if term not in entry["added"])
            plainer, option, noise = self._sharpened(replace(model, terms=without))
            now, then = table.judge(model, sigma).deviance(sigma), plainer.judge(option, sigma).deviance(sigma)
            worse = (then - now) / float(np.mean(then))
            if float(np.mean(worse)) > max(float(np.std(worse, ddof=1) / np.sqrt(len(worse))), _LEAST_GAIN):
                self.widths, self.curve = widths, curve
                continue
            entry["taken"] = False
            best = (plainer, option, noise, self.widths, self.curve)
        table, model, sigma, self.widths, self.curve = best
        return table, model, sigma

    def _extended(self, table: FrictionTable, model: FrictionModel, sigma: Array) -> FrictionModel:
        """Add the best term as long as one is better by more than its uncertainty."""
        now = table.judge(model, sigma).deviance(sigma)
        left = list(self.groups)
        while left:
            found: list[_Tried] = []
            for group in left:
                option = replace(model, terms=friction_symbols((*model.terms, *group)))
                if "stribeck" in group:
                    option = self._best(table, [replace(option, fall=k) for k in range(len(self.falls))], sigma)
                judged = table.judge(option, sigma)
                deviance = judged.deviance(sigma)
                gains = (now - deviance) / float(np.mean(now))
                spread = float(np.std(gains, ddof=1) / np.sqrt(len(gains)))
                found.append(_Tried(group, option, judged.relative_error, float(np.mean(gains)), spread, deviance))
            found.sort(key=lambda tried: -tried.gain)
            best = next((tried for tried in found if tried.gain > max(tried.uncertainty, _LEAST_GAIN)), None)
            self.tried += [tried.record(model, tried is best) for tried in found]
            if best is None:
                break
            model, now = best.model, best.deviance
            left.remove(best.group)
        return model
