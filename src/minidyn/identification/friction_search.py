"""The search for friction terms: forward, one at a time, judged on blocks of time that were held out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from minidyn.identification.friction_table import BLOCKS, FrictionModel, FrictionTable, Motion, friction_table
from minidyn.model.drives import ALIASES, friction_symbols
from minidyn.model.robot import Robot

__all__ = ["Found", "Search"]

Array = NDArray[np.float64]

_CANDIDATES = (("load",), ("sqrt",), ("stribeck",), ("asymmetric",), ("cubic",), ALIASES["own"])
_LEAST_GAIN = 0.02  # of the held-out squares, one percent of the error: less is not worth a term, however certain
_ROUNDS = 6


@dataclass(frozen=True)
class Found:
    """What a search has found.

    Attributes:
        terms: Names of drive terms.
        sign_width: Of each joint (joints,).
        stribeck_speed: Of each joint (joints,).
        parameters: Standard parameters of the robot without friction (p,) that loads are computed from; None: no loads.
        settings: What was tried, for records.
        notices: What a reader should know.
    """

    terms: tuple[str, ...]
    sign_width: Array
    stribeck_speed: Array
    parameters: Array | None
    settings: dict[str, Any]
    notices: tuple[str, ...]


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
    """One search.

    Args:
        robot: With the terms to begin with.
        rigid: Names of independent columns of links and rotors.
        motion: The samples.
        widths: Sign widths of all joints to choose from, {name for records: (joints,)}.
        falls: Stribeck speeds of all joints to choose from, each (joints,).
        add: Whether terms may be added.
    """

    def __init__(
        self,
        robot: Robot,
        rigid: Sequence[str],
        motion: Motion,
        widths: dict[float, Array],
        falls: Sequence[Array],
        add: bool,
    ) -> None:
        self.robot, self.motion, self.rigid, self.add = robot, motion, tuple(rigid), add
        self.ratios, self.widths, self.falls = list(widths), list(widths.values()), list(falls)
        self.bare = robot.with_drives(friction=())
        self.own = friction_symbols(term for joint in robot.joints for term in joint.drive.friction)
        coupled = any(joint.drive.coupling for joint in robot.joints)
        groups = [group for group in _CANDIDATES if add and (coupled or group != ALIASES["own"])]
        self.groups = [group for group in groups if not set(group) <= set(self.own)]
        self.every = friction_symbols((*self.own, *(term for group in self.groups for term in group)))
        self.parameters: Array | None = None
        self.tried: list[dict[str, Any]] = []

    def run(self) -> Found:
        """Choose the width with the terms at hand, add terms, then choose the width again."""
        table = self._table()
        model = FrictionModel(tuple(term for term in self.own if term != "load"))
        sigma = table.noise(model)
        model = self._sharpest(table, model, sigma)
        sigma = table.noise(model)
        if "load" in self.every:
            table = self._settled(table, model)
            model = replace(model, terms=self.own)
        plain = table.judge(model, sigma)
        if self.add:
            model = self._extended(table, model, sigma)
        model = self._sharpest(table, model, sigma)
        if "load" in model.terms:
            table = self._settled(table, model)
        judged = table.judge(model, sigma)
        settings: dict[str, Any] = {"friction": list(model.terms), "friction_error": judged.relative_error}
        if len(self.widths) > 1:
            curve = [table.judge(replace(model, width=k), sigma) for k in range(len(self.widths))]
            settings["sign_width"] = self.widths[model.width].tolist()
            settings["sign_width_curve"] = [
                [ratio, float(np.mean(found.deviance(sigma)))] for ratio, found in zip(self.ratios, curve)
            ]
        if "stribeck" in model.terms:
            settings["stribeck_speed"] = self.falls[model.fall].tolist()
        notices: tuple[str, ...] = ()
        if self.add:
            settings["friction_tried"] = self.tried
            notices = (self._told(model, plain.relative_error, judged.relative_error),)
        return Found(
            model.terms,
            self.widths[model.width],
            self.falls[model.fall],
            self.parameters if "load" in model.terms else None,
            settings,
            notices,
        )

    def _told(self, model: FrictionModel, before: float, after: float) -> str:
        added = [term for term in model.terms if term not in self.own]
        if not added:
            return (
                f"friction: {', '.join(model.terms)}; no further term predicts blocks of time that were held out "
                "better by more than its uncertainty"
            )
        return (
            f"friction: {', '.join(model.terms)}, chosen by cross-validation over {BLOCKS} blocks of time: error "
            f"{100 * before:.3g} % with {', '.join(self.own)}, {100 * after:.3g} % with {', '.join(added)} besides"
        )

    def _table(self) -> FrictionTable:
        return friction_table(self.robot, self.rigid, self.motion, self.every, self.widths, self.falls, self.parameters)

    def _sharpest(self, table: FrictionTable, model: FrictionModel, sigma: Array) -> FrictionModel:
        """Return the model with the width, and the Stribeck speed, that predict best."""
        options = [replace(model, fall=k) for k in range(len(self.falls))] if "stribeck" in model.terms else [model]
        model = self._best(table, options, sigma)
        return self._best(table, [replace(model, width=k) for k in range(len(self.widths))], sigma)

    def _best(self, table: FrictionTable, options: Sequence[FrictionModel], sigma: Array) -> FrictionModel:
        if len(options) == 1:
            return options[0]
        errors = [float(np.mean(table.judge(option, sigma).deviance(sigma))) for option in options]
        return options[int(np.argmin(errors))]

    def _settled(self, table: FrictionTable, model: FrictionModel) -> FrictionTable:
        """Return the table with the loads of the model's own fit."""
        for _ in range(_ROUNDS):
            sigma = table.noise(model)
            keys, values = table.fit(model, sigma)
            known = {key[0]: value for key, value in zip(keys, values)}
            found = np.array([known.get(name, 0.0) for name in self.bare.layout.names])
            before, self.parameters = self.parameters, found
            table = self._table()
            if before is not None and np.linalg.norm(found - before) < 1e-4 * np.linalg.norm(found):
                break
            if "load" not in model.terms:
                break
        return table

    def _extended(self, table: FrictionTable, model: FrictionModel, sigma: Array) -> FrictionModel:
        """Add the best term as long as one is better by more than its uncertainty."""
        now = table.judge(model, sigma).deviance(sigma)
        left = list(self.groups)
        while left:
            found: list[_Tried] = []
            for group in left:
                option = replace(model, terms=friction_symbols((*model.terms, *group)))
                if "stribeck" in group:
                    option = self._sharpest(table, option, sigma)
                    option = replace(option, width=model.width)
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
