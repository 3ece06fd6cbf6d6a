"""Selection: which friction terms a model has, in which shapes, and all that was tried.

What the settings leave open is chosen from the data: smoothing widths and other shapes, and with
friction="auto" the terms themselves (search.py). What is forced is at all joints that can show it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeVar

import numpy as np

from minidyn.arrays import Array
from minidyn.base.base_map import BaseMap
from minidyn.dynamics.drives import has_load, memory_columns
from minidyn.errors import MinidynError, Unsupported
from minidyn.identification.anchor import anchor_of
from minidyn.identification.data import BLOCKS, Data
from minidyn.identification.estimators.held_out import with_model_error
from minidyn.identification.estimators.method import Solution
from minidyn.identification.friction.loads import Settled, Step, settle
from minidyn.identification.held_out import Drives, Fit
from minidyn.identification.reversals import reversal_covariance
from minidyn.identification.rows.base_rows import Samples, fitted_base, remembering
from minidyn.identification.score import Gain
from minidyn.identification.search import Search, width_of
from minidyn.identification.selection import FORBIDDEN, FORCED, Decision, Selection
from minidyn.identification.settings import WARMING, Settings
from minidyn.identification.terms.catalogue import EFFECTS
from minidyn.identification.terms.effect import Effect
from minidyn.identification.terms.warming import Warming, without_warming
from minidyn.model.drives import (
    AUTO,
    FRICTION,
    MEMORY,
    OWN,
    PLAIN,
    Drive,
    friction_symbols,
    starting_terms,
    terms_that_fit,
)
from minidyn.model.joint import Joint
from minidyn.model.robot import Robot
from minidyn.notices import Notice, info, warning
from minidyn.recording.lazy import AnyRecording

MIN_ROWS = 4
"""Rows over unknowns in each block: terms stay determined without a block."""

_MEMORY_TERMS = {name for name, symbol in FRICTION.items() if symbol in MEMORY}
_Model = TypeVar("_Model")

TOO_FEW = warning(
    "friction.too_few_samples",
    "The recording is too short, or of a robot with joints given by formulas, to choose friction "
    "terms.",
    "Record more, or name the terms.",
)
CHOSEN = info(
    "friction.chosen", "Which friction terms were chosen, and what they bring on held-out data."
)
MISSING = warning(
    "friction.missing",
    "The robot shows friction that its file has no terms for, and none were asked for.",
    'Identify with friction="auto" (--friction auto).',
)


@dataclass(frozen=True)
class Limits:
    """What an estimator can use.

    Attributes:
        has_memory: Whether it reads states of drives (presliding, breakaway).
        has_accelerations: Whether it reads accelerations; loads are weights without them.
        is_width_free: Whether smoothing widths may be chosen.
        is_filtered: Whether its columns pass the low-pass of the torques: friction as it is.
        is_fixed: Whether base parameters are given: no term may join or leave.
    """

    has_memory: bool = True
    has_accelerations: bool = True
    is_width_free: bool = True
    is_filtered: bool = False
    is_fixed: bool = False


@dataclass(frozen=True)
class Choice:
    """The model that was chosen.

    Attributes:
        robot: The robot with terms and shapes; its values are those it had.
        base: Its base parameters.
        selection: All that was tried.
        notices: What a reader should know.
        search: The search with the last fit's noise and loads; None where none was needed.
        drives: The drive of each joint, as the search has them.
        is_width_chosen: Whether smoothing widths come from the data.
        warming: How much more friction the log's beginning has; None: no more.
        lacking: Drives with presliding that the log shows and that was not asked for.
    """

    robot: Robot
    base: BaseMap
    selection: Selection = field(default_factory=Selection)
    notices: tuple[Notice, ...] = ()
    search: Search | None = None
    drives: Drives = field(default_factory=dict)
    is_width_chosen: bool = False
    warming: Warming | None = None
    lacking: Drives | None = None

    @property
    def record(self) -> dict[str, Any]:
        """What was chosen, as plain values."""
        if self.search is None:
            return {}
        drives = [self.drives.get(joint) for joint in range(len(self.robot.joints))]
        terms = friction_symbols(term for drive in drives if drive for term in drive.friction)
        record: dict[str, Any] = {"friction": list(terms)}
        if self.is_width_chosen:
            record["sign_width"] = [drive.sign_width if drive else 0.0 for drive in drives]
        for effect in EFFECTS.values():
            if effect.shape and any(effect.is_in(drive) for drive in drives if drive):
                record[effect.shape] = [
                    getattr(drive, effect.shape) if drive and effect.is_in(drive) else None
                    for drive in drives
                ]
        if self.warming is not None:
            record["warming"] = {"share": self.warming.share, "time": self.warming.time}
        return record

    @property
    def has_load(self) -> bool:
        """Whether friction grows with the load."""
        return has_load(self.robot)

    @property
    def motion(self) -> Samples | None:
        """Samples of the log with the states of drives that remember."""
        if self.search is None:
            return None
        data = self.search.data
        states = [
            data.state(column.joint, self.drives[column.joint], column.symbol)
            for column in memory_columns(self.robot)
        ]
        return replace(data.motion, states=np.stack(states, axis=1)) if states else data.motion

    def ready(self, recording: AnyRecording) -> AnyRecording:
        """Return what is fitted: states of drives known, friction of a cold beginning taken off."""
        if self.warming is not None and self.search is not None:
            recording = without_warming(recording, self.search.data.motion.t, self.warming)
        return remembering(self.robot, recording)

    def solution(self, estimator: Callable[[Robot], Solution]) -> Settled[Solution]:
        """Return what an estimator makes of the data; with load friction until loads settle.

        The estimator takes the robot with the parameters that its loads are computed from.
        """
        motion, search = self.motion, self.search
        if not self.has_load or motion is None or search is None:
            return Settled(estimator(self.robot))

        def step(loaded: Robot) -> Step[Solution]:
            found = estimator(loaded)
            return Step(found, np.asarray(self.base.lift(found.beta), dtype=float), found.sigma)

        first = self._values(search.held_out.fit(self.drives))
        return settle(self.robot, motion, np.asarray(self.base.lift(first), dtype=float), step)

    def _values(self, fit: Fit) -> Array:
        """Return base parameters (b,) of a fit to blocks."""
        rigid = () if self.search is None else self.search.data.rigid
        values = {**dict(zip(rigid, fit.rigid.tolist())), **fit.friction}
        kept = np.array([values.get(name, 0.0) for name in self.base.kept])
        return kept if self.base.mixing is None else np.asarray(self.base.mixing @ kept)

    def _pull(self) -> tuple[Array, Array] | None:
        """Return what presliding that nobody asked for would change of base parameters (b,).

        Its size counts as Coulomb friction, which it is for a drive that slides on. The second
        array is the part of the variances that is left with it: all of it.
        """
        if self.lacking is None or self.search is None:
            return None
        fit = self.search.held_out.fit(self.lacking)
        presliding, coulomb = FRICTION["presliding"], FRICTION["coulomb"]
        friction = dict(fit.friction)
        for name, value in fit.friction.items():
            if name.startswith(presliding):
                named = name.replace(presliding, coulomb)
                friction[named] = friction.get(named, 0.0) + value
        values = self._values(replace(fit, friction=friction))
        change = values - self._values(self.search.held_out.fit(self.drives))
        return change, np.ones(len(change))

    def with_shape_uncertainty(self, solution: Solution, is_filtered: bool) -> Solution:
        """Return a solution whose covariance holds what the shapes of reversals leave open."""
        search = self.search
        solution = with_model_error(solution, self._pull())
        if search is None or not any(drive.friction for drive in self.drives.values()):
            return solution
        cutoff = 0.0 if is_filtered and not self.is_width_chosen else search.data.cutoff
        added = reversal_covariance(
            search.data,
            self.drives,
            lambda drives: self._values(search.held_out.fit(drives)),
            cutoff,
            self.is_width_chosen,
        )
        # what reversals are like is of the robot: another log is off alike
        return replace(
            solution, covariance=solution.covariance + added, log_covariance=solution.covariance
        )


def seen_through(robot: Robot, cutoff: object) -> Robot:
    """Return the robot whose friction is seen through the low-pass of its torques, Hz.

    0 or none: as it is.
    """
    size = float(cutoff) if isinstance(cutoff, int | float) else 0.0
    if all(joint.drive.cutoff == size or not joint.drive.friction for joint in robot.joints):
        return robot
    return robot.with_joints(lambda joint: replace(joint, drive=replace(joint.drive, cutoff=size)))


def seen(model: _Model, cutoff: object) -> _Model:
    """Return what has a robot and its base parameters, such as an estimate, seen through the
    low-pass of torques.
    """
    known: Any = model
    robot = seen_through(known.robot, cutoff)
    return (
        model
        if robot is known.robot
        else replace(known, robot=robot, base=replace(known.base, robot=robot))
    )


def starting_model(robot: Robot, settings: Settings, base: BaseMap | None = None) -> Robot:
    """Return the robot with the drive terms that identification begins with; "auto" begins with
    PLAIN ones.

    Forced terms are added, forbidden ones left out. Where base parameters are given, their robot
    says which terms there are.
    """
    rotor_inertia, sign_width = settings.rotor_inertia, settings.sign_width
    if base is not None:
        drives = {joint.name: joint.drive for joint in base.robot.joints}

        def as_mapped(joint: Joint) -> Joint:
            known = drives.get(joint.name, joint.drive)
            drive = replace(joint.drive, rotor_inertia=known.rotor_inertia, friction=known.friction)
            return replace(joint, drive=drive)

        robot = robot.with_joints(as_mapped)
        rotor_inertia = None if rotor_inertia else rotor_inertia
    terms = starting_terms(settings.terms)
    if terms is not None or rotor_inertia is not None or sign_width is not None:
        robot = robot.with_drives(rotor_inertia, terms, sign_width)
    if settings.forced_friction or settings.forbid_terms:
        robot = robot.with_joints(partial(_with_forced, settings))
    if base is not None and base.robot.parameter_names != robot.parameter_names:
        raise MinidynError(
            f"base: its parameters are not those of robot {robot.name!r} with the drive terms "
            "asked for; leave out friction and rotor_inertia, or find base anew with "
            "md.base_parameters"
        )
    return robot


def _with_forced(settings: Settings, joint: Joint) -> Joint:
    """Return a joint with the terms that are forced, without those that are forbidden."""
    drive = joint.drive.without(*settings.forbid_terms)
    if joint.kind not in ("fixed", "floating"):
        terms = terms_that_fit(
            friction_symbols((*drive.friction, *settings.forced_friction)),
            turns=joint.turns,
            coupled=bool(drive.coupling),
            balancer=drive.balancer,
        )
        drive = replace(drive, friction=terms)
    return replace(joint, drive=drive)


def select(
    model: Robot,
    base: BaseMap,
    log: AnyRecording,
    settings: Settings,
    limits: Limits = Limits(),
    owners: Sequence[Robot] = (),
) -> Choice:
    """Choose what the settings leave open.

    Args:
        model: The robot with the terms to begin with (`starting_model`).
        base: Its base parameters.
        log: The ready log.
        settings: What is chosen, forced and forbidden.
        limits: What the estimator can use.
        owners: Robots whose parameters a prior given as an array may have.
    """
    if not limits.has_memory and memory_columns(model):
        raise Unsupported(
            'this method does not know "presliding" and "breakaway", states: use "wls", "ols", '
            '"irls" or "parallel"'
        )
    is_bare = not any(joint.drive.friction for joint in model.joints)
    is_auto = settings.terms == AUTO
    unchanged = Choice(model, base)
    if is_bare and not is_auto and settings.terms != OWN:
        return unchanged
    data = Data.of(model, base, log, not limits.has_accelerations)
    unknowns = base.rank + (len(PLAIN) * model.n if is_bare else 0)
    if data is None or len(data.motion) < MIN_ROWS * BLOCKS * unknowns / model.n:
        return _without_choice(unchanged, data, is_auto)
    anchor, noise_std = anchor_of(model, base, data, settings.prior, owners)
    if is_bare and not is_auto:
        search = Search(data, anchor, noise_std, (), False)
        return replace(unchanged, notices=_missing(search))
    is_width_free = limits.is_width_free and not any(j.drive.sign_width for j in model.joints)
    effects, rows = _candidates(model, settings, limits)
    search = Search(data, anchor, noise_std, effects, is_width_free)
    drives, warming, notices = _searched(search, model, settings, limits.is_fixed)
    chosen = _robot_with(model, drives, data.cutoff)
    same = chosen.parameter_names == model.parameter_names
    # how sharply friction reverses does not change what can be identified
    choice = Choice(
        chosen,
        replace(base, robot=chosen) if same else fitted_base(chosen),
        Selection((*rows, *search.decisions)),
        notices,
        search,
        drives,
        is_width_free,
        warming,
        None if is_auto or not limits.has_memory else search.with_presliding(drives),
    )
    return seen(choice, 0.0) if limits.is_filtered or not limits.has_accelerations else choice


def _without_choice(unchanged: Choice, data: Data | None, is_auto: bool) -> Choice:
    """Return the starting model where a log is too short to choose; load friction cannot be."""
    if has_load(unchanged.robot):
        raise MinidynError(
            "friction that grows with the load needs a recording long enough to hold blocks "
            "of time out, and a "
            'robot without joints given by formulas; identify without the term "load", or '
            "record more"
        )
    few = TOO_FEW(
        "friction: too few samples to choose terms", samples=0 if data is None else len(data.motion)
    )
    return replace(unchanged, notices=(few,) if is_auto else ())


def _candidates(
    model: Robot, settings: Settings, limits: Limits
) -> tuple[list[Effect], list[Decision]]:
    """Return the effects that may be added, and rows for those that are forbidden or forced."""
    forbidden, is_auto = set(settings.forbid_terms), settings.terms == AUTO
    candidates, rows = list[Effect](), list[Decision]()
    for effect in EFFECTS.values():
        terms = set(effect.terms)
        if terms & forbidden:
            rows.append(Decision(effect.name, reason=FORBIDDEN))
        elif any(effect.is_in(joint.drive) for joint in model.joints):
            rows.append(Decision(effect.name, is_taken=True, reason=FORCED))
        elif is_auto and effect.is_tried and (limits.has_memory or not terms & _MEMORY_TERMS):
            candidates.append(effect)
    return candidates, rows


def _searched(
    search: Search, model: Robot, settings: Settings, is_fixed: bool
) -> tuple[dict[int, Drive], Warming | None, tuple[Notice, ...]]:
    """Return the drives of a search, what warming adds, and what a reader should know."""
    is_auto = settings.terms == AUTO
    named = {k: joint.drive for k, joint in enumerate(model.joints) if joint.kind != "fixed"}
    shaped = friction_symbols(term for effect in EFFECTS.values() for term in effect.terms)
    drives = {joint: drive.without(*shaped) for joint, drive in named.items()}
    if search.is_width_free:
        drives = {
            joint: replace(drive, sign_width=width_of(search.data, joint))
            for joint, drive in drives.items()
        }
    search.refit(drives)
    if search.is_width_free:
        drives = search.with_widths(drives)
        search.refit(drives)
    plain_drives = drives
    drives = search.with_forced(drives, named, is_fixed)
    plain, warming = search.refit(drives), None
    if search.is_width_free and drives != plain_drives:  # a width stood in for these terms
        drives = search.with_widths(drives)
        search.refit(drives)
    if is_auto:
        drives = search.with_terms(drives)
    is_forced = WARMING in settings.force_terms
    if is_forced or (is_auto and WARMING not in settings.forbid_terms):
        warming = search.warming(drives, is_forced)
    drives = search.refined(drives, named)
    final = search.refit(drives)
    notices = () if warming is None else (warming.notice,)
    if is_auto:
        notices = (_chosen(search, named, drives, plain, final), *notices)
    return drives, warming, notices


def _chosen(search: Search, named: Drives, drives: Drives, plain: Fit, final: Fit) -> Notice:
    """Return which terms were chosen."""
    own, terms = (
        friction_symbols(term for drive in part.values() for term in drive.friction)
        for part in (named, drives)
    )
    added = [term for term in terms if term not in own]
    size = max(float(np.linalg.norm(search.data.motion.tau)), 1e-300)
    before, after = (float(np.linalg.norm(fit.residual)) / size for fit in (plain, final))
    text = f"friction: {', '.join(terms)}"
    if added:
        text += (
            f"; adding {' and '.join(added)} lowers the error from {100 * before:.3g} to "
            f"{100 * after:.3g} %"
        )
    else:
        text += "; no further term predicts held-out blocks of time better"
    return CHOSEN(text, terms=list(terms), added=added, before=before, after=after)


def _missing(search: Search) -> tuple[Notice, ...]:
    """Return a notice where a robot without friction terms shows friction."""
    data = search.data
    bare = {k: joint.drive for k, joint in enumerate(data.robot.joints) if joint.kind != "fixed"}
    plain = {
        joint: replace(drive, friction=PLAIN, sign_width=width_of(data, joint))
        for joint, drive in bare.items()
    }
    search.refit(plain)
    if not Gain.of(*map(search.held_out.scores, (bare, plain))).is_worth(len(bare)):
        return ()
    before, after = (
        float(np.sqrt(np.mean(search.held_out.squares(drives)))) for drives in (bare, plain)
    )
    text = (
        "the residuals show friction, which the robot has no terms for: errors on held-out blocks "
        f"of time are {before / max(after, 1e-300):.2g} times those with {', '.join(PLAIN)}"
    )
    return (MISSING(text, without=before, with_terms=after, terms=list(PLAIN)),)


def _robot_with(model: Robot, drives: Drives, cutoff: float) -> Robot:
    """Return a robot with the drives of a search, seen through the low-pass of the torques."""
    by_name = {model.joints[joint].name: drive for joint, drive in drives.items()}

    def with_drive(joint: Joint) -> Joint:
        drive = by_name.get(joint.name)
        return joint if drive is None else replace(joint, drive=replace(drive, cutoff=cutoff))

    return model.with_joints(with_drive)
