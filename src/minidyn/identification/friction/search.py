"""The search for friction terms.

Forward, one at a time, judged on blocks of time that were held out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from minidyn.arrays import Array
from minidyn.dynamics.functions import loads_of_motion
from minidyn.identification.friction.table import (
    BLOCKS,
    FrictionModel,
    FrictionTable,
    Judged,
    RigidColumns,
)
from minidyn.identification.rows.base_rows import Path, Samples
from minidyn.model.drives import ALIASES, PRESLIDING_TRAVEL, friction_symbols
from minidyn.model.robot import Robot
from minidyn.notices import Notice, info

_CANDIDATES = (("load",), ("sqrt",), ("stribeck",), ("asymmetric",), ("cubic",), ALIASES["own"])
# of the held-out squares, one percent of the error: less is not worth a term, however certain
LEAST_GAIN = 0.02
# Functions of the speed bring two percent of the error where something else is lacking: other
# motions pay for that.
_WORTH = 0.06
# A gain that one block of ten alone brings is as large as its uncertainty, of two blocks 1.5 times:
# more must agree.
SURE, _SURER = (
    1.5,
    2.0,
)  # of presliding, whose travels and widths are the best of many for each joint
_ROUNDS = 6
# rigid parameters; beyond them (some fifteen joints) one proportion serves all joints, to save
# minutes
_LARGE = 120
_FINER = (1.36, 1.17)  # factors between the widths that are tried around the best
_TRAVELS = (2e-4, 8e-4, 3e-3, 1.2e-2, 4e-2)  # rad or m, over which presliding may build up
_FINER_SIZES = (1.6, 1.2)  # of widths and travels together
_HIDDEN = (
    1.01  # times the least travel that is looked for: presliding over less may be no presliding
)
_NARROWER = (1.0, 0.5, 0.2, 0.0)  # of the smoothing width without presliding

CHOSEN = info(
    "friction.chosen", "Which friction terms were chosen, and what they bring on held-out data."
)
UNLOADED = info(
    "friction.load_constant",
    "Joints whose load hardly changes in this recording: no load friction there.",
)


Judgeable = tuple[FrictionTable, FrictionModel, Array]
"""A model in its table, and the noise."""


@dataclass(frozen=True)
class Found:
    """What a search has found."""

    terms: tuple[str, ...]  # names of drive terms
    unloaded: tuple[int, ...]  # joints without load friction, whatever the terms
    sign_width: Array  # of each joint (joints,)
    stribeck_speed: Array  # of each joint (joints,)
    travel: Array  # of each joint's presliding (joints,), NaN where it has none
    # standard parameters of the robot without friction (p,) that loads are computed from; None: no
    # loads
    parameters: Array | None
    columns: RigidColumns  # those of links and rotors
    last: Judgeable  # what was found
    record: dict[str, Any]  # what was tried, for records
    notices: tuple[Notice, ...]  # what a reader should know
    orders: Array  # of the ripple of each joint's gear (joints,), 0 where it has none
    decays: Array  # travels of each joint's breakaway (joints,), NaN where it has none
    at: Callable[[Array], FrictionTable]  # the same table with other smoothing widths (joints,)
    waves: Mapping[str, NDArray[np.bool_]] = field(
        default_factory=dict
    )  # of ripple: which joints have each term
    richer: tuple[FrictionTable, FrictionModel] | None = (
        None  # `last` with presliding that was not asked for
    )
    warming: Array | None = (
        None  # torque (N, n) that a cold beginning has more; None: none was found
    )


@dataclass(frozen=True)
class Tried:
    """A model with one more group of terms.

    By how much it lowers held-out squares, as a share, and how certainly.
    """

    group: tuple[str, ...]
    model: FrictionModel
    judged: Judged
    gain: float
    uncertainty: float

    @classmethod
    def of(
        cls,
        group: Iterable[str],
        model: FrictionModel,
        judged: Judged,
        before: Judged,
        sigma: Array,
    ) -> Tried:
        """Compare a model with what it was before, without the group."""
        less = before.deviance(sigma) - judged.deviance(sigma)
        # a share of what there was to explain: squares left, and those that a low-pass took off and
        # waves explain
        seen = [
            float(np.mean(replace(one, beyond=0.0).deviance(sigma))) for one in (before, judged)
        ]
        gains = less / max(
            seen[0], seen[1] + float(np.mean(less)), 1e-300
        )  # exact data leave nothing
        spread = float(np.std(gains, ddof=1) / np.sqrt(len(gains)))
        return cls(tuple(group), model, judged, float(np.mean(gains)), spread)

    def is_worth(self, least: float = LEAST_GAIN, sure: float = SURE) -> bool:
        """Whether the gain is at least such a share, and so many times its uncertainty."""
        return self.gain > max(sure * self.uncertainty, least)

    def record(self, terms: Sequence[str], taken: bool) -> dict[str, Any]:
        """What the record keeps: the terms before, and what the group brought."""
        more = {
            "error": self.judged.relative_error,
            "gain": self.gain,
            "uncertainty": self.uncertainty,
            "taken": taken,
        }
        return {"with": list(terms), "added": list(self.group), **more}


class Search:
    """One search, from a robot with the terms to begin with and its independent columns of links
    and rotors.

    Smoothing widths of all joints to choose from are {name for records: (joints,)}, Stribeck speeds
    (joints,) each. Terms may be added, with or without that of the load, and load friction may be
    left out where a joint's load hardly changes. Presliding needs the paths of the drives; over
    shorter travels than the least ones (joints,) it is not looked for. Loads are those of the
    motion, or those `at_rest`, the weight. Terms to `forbid` are not tried.
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
        paths: Sequence[Path] = (),
        least_travel: ArrayLike = 0.0,
        at_rest: bool = False,
        forbid: Collection[str] = (),
    ) -> None:
        self.forbidden = frozenset(forbid)
        self.robot, self.motion, self.rigid = robot, motion, tuple(rigid)
        self.least_travel, self.at_rest = least_travel, at_rest
        self.add, self.leave_out = add, leave_out
        self.ratios, self.wide, self.falls = list(widths), list(widths.values()), list(falls)
        self.widths = self.wide
        self.curve: list[list[float]] = []
        self.columns = RigidColumns.of(robot, rigid, motion, paths)
        self.travels: list[Array] = []
        self.bare = self.columns.bare
        self.own = friction_symbols(term for joint in robot.joints for term in joint.drive.friction)
        coupled = any(joint.drive.coupling for joint in robot.joints)
        never = [
            group for group, sense in ((ALIASES["own"], coupled), (("load",), load)) if not sense
        ]
        self.groups = [
            one
            for one in _CANDIDATES
            if add and one not in never and not set(one) <= set(self.own)
            if not self.forbidden & set(one)
        ]
        self.every = friction_symbols(
            (*self.own, *(term for group in self.groups for term in group))
        )
        self.every = tuple(term for term in self.every if term != "presliding")
        self.parameters: Array | None = None
        self.loads: Array | None = None  # what each joint's drive carries with them (N, joints)
        self.loaded: frozenset[int] = frozenset()
        self.tried: list[dict[str, Any]] = []
        self.known: dict[
            tuple[str, ...], tuple[FrictionModel, list[Array], list[list[float]]]
        ] = {}  # by `_sharpened`

    def run(self) -> Found:
        """Choose the widths with the terms at hand, add terms, then choose the widths again."""
        model = FrictionModel(
            tuple(term for term in self.own if term not in ("load", "presliding")), self._alike(0)
        )
        table, model, sigma = self._sharpened(model)
        if "load" in self.every:
            table = self._settled(table, model)
            model = replace(model, terms=tuple(term for term in self.own if term != "presliding"))
        plain = table.judge(model, sigma)
        if self.add:
            model = self._extended(table, model, sigma)
            table, model, sigma = self._curved(*self._pruned(*self._sharpened(model)))
            self.every = model.terms
        elif "load" in model.terms:
            table, model, sigma = self._sharpened(
                model
            )  # widths that were chosen without it stand in for it
        richer, kept = None, (self.widths, self.every)
        if self.columns.paths:
            remembering = self._remembering(table, model, sigma)
            if self.add or "presliding" in self.own:
                table, model, sigma = remembering
            else:
                richer, (self.widths, self.every), self.travels = remembering[:2], kept, []
        if "load" in model.terms:
            table = self._settled(table, model)
        judged = table.judge(model, sigma)
        record: dict[str, Any] = {
            "friction": list(model.terms),
            "friction_error": judged.relative_error,
        }
        if len(self.wide) > 1:
            record |= {"sign_width": self.widths[0].tolist(), "sign_width_curve": self.curve}
        if "stribeck" in model.terms:
            record["stribeck_speed"] = self.falls[model.fall].tolist()
        if "presliding" in model.terms:
            record["presliding_travel"] = [
                None if np.isnan(size) else size for size in self.travels[0].tolist()
            ]
        notices, unloaded = list[Notice](), tuple[int, ...]()
        if self.add:
            record["friction_tried"] = self.tried
            notices.append(self._told(model, plain.relative_error, judged.relative_error))
        if "load" in model.terms:
            unloaded = tuple(
                joint for joint in range(len(self.robot.joints)) if joint not in self.loaded
            )
            names = [
                self.robot.joints[joint].name
                for joint in unloaded
                if self.robot.joints[joint].kind != "fixed"
            ]
            if names:
                text = (
                    f"friction: no load friction at {', '.join(names)}, whose load changes by "
                    "less than the noise"
                )
                notices.append(UNLOADED(text, joints=names))
        none = np.full(len(self.robot.joints), np.nan)
        sizes = self.widths[0], self.falls[model.fall], self.travels[0] if self.travels else none
        loads, last = self.parameters if "load" in model.terms else None, (table, model, sigma)
        told, flat, at = tuple(notices), np.zeros(len(none)), partial(self._at, model)
        return Found(
            model.terms,
            unloaded,
            *sizes,
            loads,
            self.columns,
            last,
            record,
            told,
            flat,
            none,
            at,
            richer=richer,
        )

    def _at(self, model: FrictionModel, widths: Array) -> FrictionTable:
        """Return the table of a model's terms with other smoothing widths (joints,)."""
        self.widths = [widths]
        return self._table(model.terms)

    def _told(self, model: FrictionModel, before: float, after: float) -> Notice:
        added = [term for term in model.terms if term not in self.own]
        text = (
            "; no further term predicts held-out blocks of time better by more than its uncertainty"
        )
        if added:
            text = (
                f", chosen by cross-validation over {BLOCKS} blocks of time: error "
                f"{100 * before:.3g} % with {', '.join(self.own)}, {100 * after:.3g} % with "
                f"{', '.join(added)} besides"
            )
        text = f"friction: {', '.join(model.terms)}{text}"
        return CHOSEN(text, terms=list(model.terms), added=added, before=before, after=after)

    def _table(self, terms: Sequence[str]) -> FrictionTable:
        loads = None
        if self.loads is not None and "load" in terms:
            loads = np.where(
                [joint in self.loaded for joint in range(self.loads.shape[1])], self.loads, np.nan
            )
        return self.columns.table(terms, self.widths, self.falls, loads, self.travels)

    def _sharpened(self, model: FrictionModel) -> Judgeable:
        """Choose Stribeck speed and smoothing widths that predict best.

        Return the table with them, and the noise. Widths are tried in proportion to the speeds of
        the drives: one proportion for all joints, then each its own, the sharpest that is not
        certainly worse than the best: a run too fast to show it says nothing of slower ones. Then
        finer ones around it. Terms that were at hand before give what they gave, unless loads are
        among them.
        """
        if model.terms in self.known:
            model, self.widths, self.curve = self.known[model.terms]
        else:
            model = self._chosen_widths(model)
            if "load" not in model.terms:
                self.known[model.terms] = model, self.widths, self.curve
        table = self._table(self.every)
        return table, model, table.noise(model)

    def _chosen_widths(self, model: FrictionModel) -> FrictionModel:
        self.widths = self.wide
        table, model = self._table(model.terms), replace(model, widths=self._alike(0))
        sigma = table.noise(replace(model, widths=self._alike(len(self.wide) // 2)))
        if "stribeck" in model.terms:
            model = self._best(
                table, [replace(model, fall=k) for k in range(len(self.falls))], sigma
            )
        options = [replace(model, widths=self._alike(k)) for k in range(len(self.wide))]
        if len(options) == 1:
            return model
        errors = table.deviances(options, sigma).mean(axis=1).tolist()
        self.curve = [[ratio, error] for ratio, error in zip(self.ratios, errors)]
        model = self._own_widths(table, options[int(np.argmin(errors))], sigma, least=True)
        for finer in _FINER:
            chosen = self._widths_of(model)
            self.widths = [chosen / finer, chosen, chosen * finer]
            table, model = self._table(model.terms), replace(model, widths=self._alike(1))
            sigma = table.noise(model)
            model = self._own_widths(table, model, sigma)
        self.widths = [self._widths_of(model)]
        return replace(model, widths=self._alike(0))

    def _curved(self, table: FrictionTable, model: FrictionModel, sigma: Array) -> Judgeable:
        """Add the free curve where it predicts better than all terms that say more.

        Last, since it can mimic them.
        """
        group = ALIASES["curve"]
        if set(group) <= set(model.terms) or self.forbidden & set(group):
            return table, model, sigma
        option = replace(model, terms=friction_symbols((*model.terms, *group)))
        wider = self._table(option.terms)
        tried = Tried.of(
            group, option, wider.judge(option, sigma), table.judge(model, sigma), sigma
        )
        taken = tried.is_worth(len(group) * LEAST_GAIN)
        self.tried.append(tried.record(model.terms, taken))
        return (wider, option, wider.noise(option)) if taken else (table, model, sigma)

    def _remembering(self, table: FrictionTable, model: FrictionModel, sigma: Array) -> Judgeable:
        """Add presliding to the joints where it predicts better, with travels of their own.

        Widths are chosen again.
        """
        kept, found = (
            (self.widths, self.every),
            self._presliding(model, sigma, table.judge(model, sigma)),
        )
        if found is None:
            self.travels, (self.widths, self.every) = [], kept
        return found or (table, model, sigma)

    def _presliding(self, model: FrictionModel, sigma: Array, before: Judged) -> Judgeable | None:
        """Return the model with presliding, of all joints where it was named.

        None where it predicts no better.
        """
        asked, plain = "presliding" in self.own, self.widths
        given = np.array([joint.drive.presliding_travel for joint in self.robot.joints])
        option = replace(
            model, terms=friction_symbols((*model.terms, "presliding")), travels=self._alike(0)
        )
        self.every = option.terms
        if given.any():
            self.travels = [np.where(given > 0, given, PRESLIDING_TRAVEL)]
        else:
            self.travels = [
                np.maximum(np.full(given.shape, travel), self.least_travel) for travel in _TRAVELS
            ]
        table = self._table(option.terms)
        options = [replace(option, travels=self._alike(k)) for k in range(len(self.travels))]
        option = self._own_travels(table, self._best(table, options, sigma), sigma)
        if not asked:
            option = self._where_it_helps(table, option, sigma)
        option = self._settle_sizes(option)
        if (
            len(self.wide) > 1
        ):  # presliding explains some of what a width had to: it may be less, not more
            self.widths = [share * self.widths[0] for share in _NARROWER]
        table = self._table(option.terms)
        option = self._own_widths(table, option, sigma)
        judged, noise = table.judge(option, sigma), table.noise(option)
        option, tried = (
            self._settle_sizes(option),
            Tried.of(("presliding",), option, judged, before, sigma),
        )
        taken = asked or tried.is_worth(_WORTH, _SURER)
        self.tried.append(tried.record(model.terms, taken))
        if not taken:
            return None
        for finer in _FINER_SIZES:
            if len(self.wide) > 1:
                self.widths = [
                    self.widths[0] / finer,
                    self.widths[0],
                    np.minimum(finer * self.widths[0], plain[0]),
                ]
            if not given.any():
                least, size = self.least_travel, self.travels[0]
                self.travels = [np.maximum(size / finer, least), size, finer * size]
            table, middle = (
                self._table(option.terms),
                (len(self.widths) // 2, len(self.travels) // 2),
            )
            option = replace(option, widths=self._alike(middle[0]), travels=self._alike(middle[1]))
            option = self._settle_sizes(
                self._own_travels(table, self._own_widths(table, option, noise), noise)
            )
        hidden = self.travels[0] <= _HIDDEN * np.asarray(self.least_travel)
        if hidden.any() and not (
            asked or given.any()
        ):  # what the filter of the torque does, or cannot be told from it
            self.travels = [np.where(hidden, np.nan, self.travels[0])]
            self.widths = [np.where(hidden, plain[0], self.widths[0])]  # they stand in for it again
        table = self._table(option.terms)
        tried = Tried.of(("presliding",), option, table.judge(option, sigma), before, sigma)
        if not (asked or tried.is_worth(_WORTH, _SURER)):
            self.tried[-1] = tried.record(model.terms, False)
            return None
        return table, option, table.noise(option)

    def _settle_sizes(self, model: FrictionModel) -> FrictionModel:
        """Keep the model's widths and travels alone, NaN for joints without presliding.

        Return it with them.
        """
        self.widths = [self._widths_of(model)]
        self.travels = [
            np.array(
                [self.travels[k][j] if k >= 0 else np.nan for j, k in enumerate(model.travels)]
            )
        ]
        return replace(model, widths=self._alike(0), travels=self._alike(0))

    def _own_travels(
        self, table: FrictionTable, model: FrictionModel, sigma: Array
    ) -> FrictionModel:
        for joint, columns in enumerate(self.robot.layout.drives):
            if columns and len(self.rigid) <= _LARGE and not math.isnan(self.travels[0][joint]):
                first, rest = model.travels[:joint], model.travels[joint + 1 :]
                options = [
                    replace(model, travels=(*first, k, *rest)) for k in range(len(self.travels))
                ]
                model = self._best(table, options, sigma)
        return model

    def _where_it_helps(
        self, table: FrictionTable, model: FrictionModel, sigma: Array
    ) -> FrictionModel:
        """Leave presliding out where a joint predicts as well without it."""
        now = float(np.mean(table.judge(model, sigma).deviance(sigma)))
        for joint in range(len(model.travels)):
            option = replace(
                model, travels=(*model.travels[:joint], -1, *model.travels[joint + 1 :])
            )
            then = float(np.mean(table.judge(option, sigma).deviance(sigma)))
            if then <= (1.0 + LEAST_GAIN / len(sigma)) * now:
                model, now = option, then
        return model

    def _own_widths(
        self, table: FrictionTable, model: FrictionModel, sigma: Array, least: bool = False
    ) -> FrictionModel:
        for joint, columns in enumerate(self.robot.layout.drives):
            if (
                columns
                and len(self.rigid) <= _LARGE
                and not (self.travels and math.isnan(self.travels[0][joint]))
            ):
                first, rest = model.widths[:joint], model.widths[joint + 1 :]
                options = [
                    replace(model, widths=(*first, k, *rest)) for k in range(len(self.widths))
                ]
                model = self._best(table, options, sigma, least)
        return model

    def _widths_of(self, model: FrictionModel) -> Array:
        return np.array([self.widths[k][joint] for joint, k in enumerate(model.widths)])

    def _alike(self, width: int) -> tuple[int, ...]:
        return (width,) * len(self.robot.joints)

    def _best(
        self,
        table: FrictionTable,
        options: Sequence[FrictionModel],
        sigma: Array,
        first: bool = False,
    ) -> FrictionModel:
        """Return what predicts best, or the first that is worse by no more than chance, and than is
        worth a term.
        """
        if len(options) == 1:
            return options[0]
        worse = (found := table.deviances(options, sigma)) - (
            best := found[np.argmin(found.mean(axis=1))]
        )
        chance = np.std(worse, axis=1, ddof=1) / np.sqrt(worse.shape[1])
        bound = first * np.minimum(chance, LEAST_GAIN / len(sigma) * best.mean())
        return options[int(np.argmax(worse.mean(axis=1) <= bound))]

    def _settled(self, table: FrictionTable, model: FrictionModel) -> FrictionTable:
        """Return the table with the loads of the model's own fit."""
        for _ in range(_ROUNDS):
            sigma = table.noise(model)
            keys, values = table.fit(model, sigma)
            known = {key[0]: value for key, value in zip(keys, values)}
            found = np.array([known.get(name, 0.0) for name in self.bare.layout.names])
            before, self.parameters = self.parameters, found
            dq, ddq = (float(not self.at_rest) * rate for rate in (self.motion.dq, self.motion.ddq))
            self.loads = loads_of_motion(self.bare, self.motion.q, dq, ddq, found)
            if before is None:
                self.loaded = self._loaded(sigma)
            table = self._table(self.every)
            if "load" not in model.terms:
                break
            if before is not None and np.linalg.norm(found - before) < 1e-4 * np.linalg.norm(found):
                break
        return table

    def _loaded(self, sigma: Array) -> frozenset[int]:
        """Return the joints whose drives carry what changes by more than the noise.

        Others cannot show its friction.
        """
        if self.loads is None or not self.leave_out:
            return frozenset(range(len(self.robot.joints)))
        noise = np.full(len(self.robot.joints), float(np.max(sigma)))
        noise[list(self.robot.independent)] = sigma
        return frozenset(np.flatnonzero(np.std(np.abs(self.loads), axis=0) > noise).tolist())

    def _pruned(self, table: FrictionTable, model: FrictionModel, sigma: Array) -> Judgeable:
        """Leave out what was added, the latest first, where other widths do as well.

        They were chosen after it.
        """
        best = (table, model, sigma, self.widths, self.curve)
        for entry in reversed([entry for entry in self.tried if entry["taken"]]):
            table, model, sigma, widths, curve = best
            without = tuple(term for term in model.terms if term not in entry["added"])
            plainer, option, noise = self._sharpened(replace(model, terms=without))
            kept, left_out = table.judge(model, sigma), plainer.judge(option, sigma)
            if Tried.of(entry["added"], model, kept, left_out, sigma).is_worth(_WORTH, 1.0):
                self.widths, self.curve = widths, curve
                continue
            entry["taken"] = False
            best = (plainer, option, noise, self.widths, self.curve)
        table, model, sigma, self.widths, self.curve = best
        return table, model, sigma

    def _extended(self, table: FrictionTable, model: FrictionModel, sigma: Array) -> FrictionModel:
        """Add the best term as long as one is better by more than its uncertainty."""
        now, left = table.judge(model, sigma), list(self.groups)
        while left:
            found: list[Tried] = []
            for group in left:
                option = replace(model, terms=friction_symbols((*model.terms, *group)))
                if "stribeck" in group:
                    option = self._best(
                        table, [replace(option, fall=k) for k in range(len(self.falls))], sigma
                    )
                found.append(Tried.of(group, option, table.judge(option, sigma), now, sigma))
            found.sort(key=lambda tried: -tried.gain)
            best = next((tried for tried in found if tried.is_worth()), None)
            self.tried += [tried.record(model.terms, tried is best) for tried in found]
            if best is None:
                break
            model, now = best.model, best.judged
            left.remove(best.group)
        return model
