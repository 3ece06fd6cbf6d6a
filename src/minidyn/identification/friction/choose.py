"""Friction in identification: what the robot file leaves open is chosen from the data.

A measured speed near zero has a random sign, and real friction reverses over a range of speeds: a
hard sign spoils the fit around every reversal. So the smoothing width, the Stribeck speed and, with
friction="auto", the terms themselves are those that predict held-out blocks of time best. A term is
added only where it lowers that error by more than the uncertainty of the difference (the
one-standard-error rule), so that a model stays as plain as the data allow. Loads that friction
grows with come from the model itself, and the fit is repeated until they settle.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeVar, cast

import numpy as np

from minidyn.arrays import Array
from minidyn.base.base_map import BaseMap
from minidyn.dynamics.drives import drive_rates, drive_ratios, has_load, memory_columns
from minidyn.dynamics.record import STATES
from minidyn.errors import MinidynError, Unsupported
from minidyn.identification.estimators.held_out import with_model_error
from minidyn.identification.estimators.method import Solution
from minidyn.identification.friction.last_terms import (
    along,
    friction_missing,
    lacking,
    predicts_better,
    torque_of,
    with_breakaway,
    with_ripple,
    with_warming,
    without_warming,
)
from minidyn.identification.friction.loads import Settled, Step, carried, settle
from minidyn.identification.friction.search import Found, Search
from minidyn.identification.friction.table import BLOCKS, FrictionModel, Key, RigidColumns
from minidyn.identification.rows.base_rows import (
    DEPARTURES,
    Samples,
    departures,
    fitted_base,
    paths_of,
    remembering,
)
from minidyn.identification.settings import Settings
from minidyn.model.drives import (
    ALIASES,
    AUTO,
    BREAKAWAY,
    OWN,
    PLAIN,
    PRESLIDING_TRAVEL,
    RIPPLE_ORDER,
    friction_symbols,
    starting_terms,
    terms_that_fit,
)
from minidyn.model.joint import Joint
from minidyn.model.robot import Robot
from minidyn.notices import Notice, warning
from minidyn.recording.lazy import AnyRecording
from minidyn.recording.prepare.waves import standing_wave
from minidyn.recording.recording import Recording

_WIDTHS = (
    0.0,
    0.01,
    0.02,
    0.04,
    0.07,
    0.13,
    0.25,
    0.5,
)  # over the root mean square of each drive's speed
_FALLS = (0.05, 0.15, 0.4)  # Stribeck speeds, over the same
_SAMPLES = 10_000  # enough to choose; a longer recording is thinned
# of the change is one standard deviation: simulated robots, sharp friction and soft, lie within two
_SHARE = 0.6
_FINEST = 1.1  # widths are chosen from steps of 17 %: nearer ones are not told apart
_FITTED = 6000  # samples, enough to see how far a fit moves with a width
_STANDSTILL = 1e-12
_Model = TypeVar("_Model")
_SLOW, _RESTS, _TIMES_NOISE = (
    0.05,
    0.1,
    10.0,
)  # a sharp sign would make friction of the noise of joints that rest
# the travel over which a low-pass spreads a reversal: presliding over less cannot be told from it
_TIMES_SMEARED = 3.0
_FALLEN = 0.005  # of the friction: what falls by less during a log is not asked for
# of the held-out squares: waves that large are taken off before other terms are chosen again
_HIDE = 0.25
_HIGHEST_ORDER = 500.0  # waves over 2 pi rad or m
_LOADED = 100_000  # samples that are read at once to look for breakaway; longer logs are not asked

TOO_FEW = warning(
    "friction.too_few_samples",
    "The recording is too short, or of a robot with joints given by formulas, to choose friction "
    "terms.",
    "Record more, or name the terms.",
)


@dataclass(frozen=True)
class FrictionChoice:
    """What was chosen."""

    # the robot with terms, smoothing widths and Stribeck speeds; its values are those it had
    robot: Robot
    base: BaseMap  # its base parameters
    # standard parameters (p,) whose gravity is that of the data: what loads are computed from; None
    # where no friction grows with the load
    parameters: Array | None = None
    columns: RigidColumns | None = (
        None  # along samples of the recording; None where none were needed
    )
    record: Mapping[str, Any] = field(default_factory=dict)  # what was tried, for records
    notices: tuple[Notice, ...] = ()  # what a reader should know
    lacks: tuple[Array, Array] | None = (
        None  # what presliding changes that data show and nobody asked for: `lacking`
    )
    warming: Array | None = (
        None  # torque (N, n) along the samples of columns that a cold beginning has more
    )

    def ready(self, robot: Robot, recording: AnyRecording) -> AnyRecording:
        """Return what is fitted to: states of the robot's drives known, the friction of a cold
        beginning taken off.
        """
        if (
            self.warming is not None
            and self.columns is not None
            and isinstance(recording, Recording)
        ):
            recording = without_warming(recording, self.columns.motion.t, self.warming)
        return remembering(robot, recording)

    def fit(self, estimator: Callable[[Robot], Solution]) -> Settled[Solution]:
        """Return the solution of an estimator.

        Where friction grows with loads, repeated until they settle. The estimator takes the robot
        with the parameters that its loads are computed from.
        """
        if self.parameters is None or self.columns is None:
            return Settled(estimator(self.robot))

        def fit(loaded: Robot) -> Step[Solution]:
            found = estimator(loaded)
            return Step(found, np.asarray(self.base.lift(found.beta), dtype=float), found.sigma)

        return settle(self.robot, self.columns.motion, self.parameters, fit)

    def with_width_uncertainty(self, found: Solution, cutoff: object, filtered: bool) -> Solution:
        """Return a solution whose covariance holds what the model lacks and what the smoothing
        widths leave open.

        The cut-off, Hz, is that of the torque's low-pass; where columns are filtered alike, a given
        width is right.
        """
        found = with_model_error(found, self.lacks)
        if self.columns is None:
            return found
        chosen = "sign_width" in self.record
        smear_at = (
            float(cutoff) if isinstance(cutoff, int | float) and (chosen or not filtered) else None
        )
        smeared = reversal_covariance(
            self.robot, self.base, self.columns, found.sigma, smear_at, chosen
        )
        # what reversals are like is of the robot: another log is off alike
        return replace(
            found, covariance=found.covariance + smeared, log_covariance=found.covariance
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
            return replace(
                joint,
                drive=replace(
                    joint.drive, rotor_inertia=known.rotor_inertia, friction=known.friction
                ),
            )

        robot, rotor_inertia = (
            robot.with_joints(as_mapped),
            None if rotor_inertia else rotor_inertia,
        )
    terms = starting_terms(settings.terms)
    if terms is not None or rotor_inertia is not None or sign_width is not None:
        robot = robot.with_drives(rotor_inertia, terms, sign_width)
    if settings.force_terms or settings.forbid_terms:
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
    if joint.kind != "fixed":
        terms = terms_that_fit(
            friction_symbols((*drive.friction, *settings.forced_friction)),
            turns=joint.turns,
            coupled=bool(drive.coupling),
            balancer=drive.balancer,
        )
        drive = replace(drive, friction=terms)
    return replace(joint, drive=drive)


def choose_friction(
    robot: Robot,
    base: BaseMap,
    recording: AnyRecording,
    friction: Iterable[str] | str = OWN,
    *,
    widths: bool = True,
    fixed: bool = False,
    load: bool = True,
    memory: bool = True,
    at_rest: bool = False,
    filtered: bool = False,
    forbid: Collection[str] = (),
) -> FrictionChoice:
    """Choose what the file of a robot, which has the terms to begin with (`starting_model`), leaves
    open.

    Friction "auto": terms may be added; "own": where the robot has no terms and shows friction, a
    notice says so. With `widths` a smoothing width may be chosen where the robot has none; where
    the base parameters are given (`fixed`) no term may be left out. Without `load` friction that
    grows with the load is left out, even where it was asked for. Loads `at_rest` are the weight.
    Without `memory` no drive remembers. Where the recording's torques have passed a low-pass,
    friction of the choice is seen through it, too, unless its columns will be `filtered` alike.
    Terms to `forbid` are not tried.
    """
    if not memory and memory_columns(robot):
        raise Unsupported(
            'this method does not know "presliding" and "breakaway", states: use "wls", "ols", '
            '"irls" or "parallel"'
        )
    if not load and has_load(robot):
        robot = _without(robot, "load", range(len(robot.joints)))
        base = fitted_base(robot)
    drives = [joint.drive for joint in robot.joints]
    auto, bare = friction == AUTO, not any(drive.friction for drive in drives)
    unchanged = FrictionChoice(robot, base)
    if bare and not auto and friction != OWN:
        return unchanged
    motion = motion_of(robot, recording)
    unknowns = base.rank + (len(PLAIN) * robot.n if bare else 0)
    if motion is None or len(motion) < 4 * BLOCKS * unknowns / robot.n:
        if has_load(robot):
            raise MinidynError(
                "friction that grows with the load needs a recording long enough to hold blocks "
                "of time out, and a "
                'robot without joints given by formulas; identify without the term "load", or '
                "record more"
            )
        few = TOO_FEW(
            "friction: too few samples to choose terms",
            samples=0 if motion is None else len(motion),
        )
        return replace(unchanged, notices=(few,) if auto else ())
    if bare and not auto:
        return replace(
            unchanged, notices=friction_missing(robot, base, motion, _typical(robot, motion.dq))
        )
    speeds, changes = (_typical(robot, rates) for rates in (motion.dq, motion.ddq))
    given, known = (
        np.array([getattr(drive, name) for drive in drives])
        for name in ("sign_width", "stribeck_speed")
    )
    cutoff, rate, noise = (
        cast(Any, recording.info.get(name)) for name in ("cutoff", "logged_rate", "position_noise")
    )
    slow = np.abs(motion.dq) < _SLOW * np.sqrt(np.mean(motion.dq**2, axis=0))
    noise = (
        np.multiply(noise, 2 * np.pi * cutoff * np.sqrt(2 * cutoff / (3 * rate)))
        if noise and rate
        else 0.0
    )
    least = _typical(
        robot,
        np.where(np.mean(slow, axis=0) > _RESTS, _TIMES_NOISE * noise, 0.0)[None] + _STANDSTILL,
    )
    least[least < 1e3 * _STANDSTILL] = 0.0
    sharp = (
        {float("nan"): given}
        if given.any() or not widths
        else {r: np.maximum(r * speeds, least) for r in _WIDTHS}
    )
    falls = [known] if known.any() else [ratio * speeds for ratio in _FALLS]
    rigid = [name for name in base.kept if robot.layout.column(name).is_rigid]
    # of named terms: what presliding would change
    remembers = bool(memory_columns(robot)) or (
        memory and "presliding" not in forbid if auto else isinstance(recording, Recording)
    )
    paths = paths_of(robot, recording, _step(recording)) if remembers else ()
    robot = seen_through(robot, cutoff)
    smear = _TIMES_SMEARED / (2 * np.pi * cutoff) ** 2 if isinstance(cutoff, float) else 0.0
    own = {term for drive in drives for term in drive.friction}
    whole = (
        recording.load()
        if len(recording) <= _LOADED
        and ("breakaway" in own or (auto and memory and "breakaway" not in forbid))
        else None
    )
    rests = whole is not None and (
        "breakaway" in own or bool(np.any(departures(robot, whole) >= DEPARTURES))
    )
    named = sorted(set(ALIASES["ripple"]) & own)
    waves_forbidden = bool(set(ALIASES["ripple"]) & set(forbid))
    raw = recording.telemetry.get("tau_raw") if isinstance(recording, Recording) else None
    less = None if raw is None else raw[:: _step(recording)] - motion.tau

    def completed(waves: Array | None = None) -> Found:
        """Return what is found without waves (N, n) that are known, and anew the waves
        themselves.
        """
        rest = motion if waves is None else replace(motion, tau=motion.tau - waves)
        found = Search(
            robot,
            rigid,
            rest,
            sharp,
            falls,
            auto,
            not fixed,
            load,
            paths,
            smear * changes,
            at_rest,
            forbid,
        ).run()
        if whole is not None and rests:
            found = with_breakaway(found, robot, whole, _step(recording), "breakaway" in own)
        found = found if waves is None else along(found, motion)
        orders = (
            _orders(robot, found, less, bool(named))
            if named or (auto and not waves_forbidden)
            else np.zeros(len(drives))
        )
        return with_ripple(found, orders, named, less) if orders.any() else found

    found = completed()
    tried = [
        one
        for one in found.record.get("friction_tried", ())
        if one["taken"] and one["gain"] > _HIDE
    ]
    if any(one["added"][0] in ALIASES["ripple"] for one in tried):
        # waves hid smaller effects, and widths and travels stood in for them
        again = completed(torque_of(found, ALIASES["ripple"]))
        found = again if predicts_better(again, found) else found
    if auto and isinstance(recording, Recording) and len(recording.starts) == 1 and _falls(found):
        found = with_warming(found)
    chosen = robot.with_drives(friction=found.terms) if auto else robot
    chosen = chosen.with_drives(sign_width=found.sign_width)
    if "stribeck" in found.terms:
        chosen = chosen.with_drives(stribeck_speed=found.stribeck_speed)
    if "presliding" in found.terms:
        chosen = chosen.with_drives(presliding_travel=np.nan_to_num(found.travel))
        chosen = _without(chosen, "presliding", np.flatnonzero(np.isnan(found.travel)))
    if not np.isnan(found.decays).all():
        chosen = chosen.with_drives(breakaway_travel=np.nan_to_num(found.decays))
        chosen = _without(chosen, "breakaway", np.flatnonzero(np.isnan(found.decays)))
    if found.orders.any():
        chosen = chosen.with_drives(ripple_order=found.orders)
        for term in ALIASES["ripple"]:
            chosen = _without(
                chosen, term, np.flatnonzero(~found.waves.get(term, found.orders < 0))
            )
    chosen = _without(chosen, "load", found.unloaded) if found.unloaded else chosen
    same = chosen.parameter_names == robot.parameter_names
    parameters, columns, remembered = found.parameters, found.columns, memory_columns(chosen)
    if any(column.symbol == BREAKAWAY for column in remembered):
        known = remembering(chosen, recording).thinned(_step(recording)).telemetry[STATES]
        columns = replace(columns, motion=replace(columns.motion, states=known))
    elif remembered and paths:
        states = [
            paths[column.joint].presliding(float(found.travel[column.joint]))
            for column in remembered
        ]
        columns = replace(columns, motion=replace(columns.motion, states=np.stack(states, axis=1)))
    if parameters is not None:
        parameters = carried(parameters, robot.with_drives(friction=()), chosen, 0.0)
    # how sharply friction reverses does not change what can be identified
    base = replace(base, robot=chosen) if same else fitted_base(chosen)
    lacks = lacking(found, base) if found.richer is not None else None
    choice = FrictionChoice(
        chosen, base, parameters, columns, found.record, found.notices, lacks, found.warming
    )
    return seen(choice, 0.0) if filtered else choice


def _orders(robot: Robot, found: Found, filtered: Array | None, named: bool) -> Array:
    """Return the order of the ripple (joints,) that what a model leaves of the torques shows over
    the positions.

    What a low-pass took off them (N, n) shows it, too. Zero where there is none; where ripple was
    asked for by name, the order that the file has or, where it has none, the gear ratio.
    """
    orders, columns = np.zeros(len(robot.joints)), found.columns
    left = _left(found)[0] + (0.0 if filtered is None else filtered)
    for row, joint in enumerate(robot.independent):
        known = robot.joints[joint].drive
        path = sum(
            ratio * columns.coordinates.q[other]
            for other, ratio in drive_ratios(robot, joint).items()
        )
        orders[joint] = known.ripple_order or standing_wave(
            np.asarray(path), left[:, row], _HIGHEST_ORDER
        )
        if named and not orders[joint]:
            orders[joint] = abs(known.gear_ratio) if abs(known.gear_ratio) > 1.0 else RIPPLE_ORDER
    return orders


def _left(found: Found) -> tuple[Array, Array]:
    """Return what a model leaves of the torques (N, n), and its friction (N, n)."""
    (table, model, sigma), columns = found.last, found.columns
    values, friction = dict(zip(*table.fit(model, sigma))), np.zeros_like(columns.motion.tau)
    rigid = [
        part @ [values[Key(name)] for name in own]
        for part, own in zip(columns.columns, columns.names)
    ]
    for row, own in enumerate(table.friction):
        friction[:, row] += sum(values[key] * own[key] for key in own.keys() & values.keys())
    return columns.motion.tau - np.stack(rigid, axis=1) - friction, friction


def _falls(found: Found) -> bool:
    """Whether the first half of a log shows more friction than the second, by a share that is worth
    asking for.
    """
    left, friction = (part / found.last[2] for part in _left(found))
    parts = [
        (left[part], friction[part])
        for part in (slice(None, len(left) // 2), slice(len(left) // 2, None))
    ]
    first, second = (float(np.sum(rest * own) / max(np.sum(own**2), 1e-300)) for rest, own in parts)
    return first - second > _FALLEN


def _without(robot: Robot, left_out: str, joints: Iterable[int]) -> Robot:
    """Return the robot without a drive term at some joints."""
    names = {robot.joints[index].name for index in joints}
    return robot.with_joints(
        lambda j: replace(j, drive=j.drive.without(left_out)) if j.name in names else j
    )


def motion_of(robot: Robot, recording: AnyRecording) -> Samples | None:
    """Return samples spread over a recording.

    None where signals are missing, not finite, or joints are formulas. Accelerations that are not
    recorded are differences of the speeds: enough to choose friction.
    """
    if robot.formulas or robot.implicit_loops:
        return None
    thinned = recording.thinned(_step(recording))
    if thinned.ddq is None and thinned.dq is not None and len(thinned) > 1:
        thinned = replace(thinned, ddq=np.gradient(thinned.dq, thinned.t, axis=0))
    signals = [getattr(thinned, name) for name in ("q", "dq", "ddq", "tau")]
    if any(signal is None or not np.all(np.isfinite(signal)) for signal in signals):
        return None
    return Samples(thinned.t, *(np.asarray(signal, dtype=float) for signal in signals))


def _step(recording: AnyRecording) -> int:
    return max(1, len(recording) // _SAMPLES)


def _typical(robot: Robot, rates: Array) -> Array:
    """Return the root mean square of each joint's drive (joints,), of speeds or accelerations.

    1 where it rests.
    """
    sizes = np.sqrt(np.mean(drive_rates(robot, rates, rates)[0] ** 2, axis=0))
    return np.where(sizes > 0, sizes, 1.0)


def reversal_covariance(
    robot: Robot,
    base: BaseMap,
    columns: RigidColumns,
    sigma: Array,
    cutoff: float | None,
    chosen: bool,
) -> Array:
    """Return what the smoothing widths add to the covariance (b, b) of base parameters.

    Preparation low-passes the torque, and friction loses its edges at reversals. Around a reversal
    with acceleration a, a low-pass at the cut-off f spreads the step over speeds of about a /
    (2πf), which columns of the regressor have from each sample's own speed and acceleration:
    nearly, not exactly. Nor are widths that were chosen from the data exact. So the fit is repeated
    with a width that the data cannot tell from this one, joint by joint, and a share of the change
    counts as uncertainty. The cut-off is in Hz, None where no low-pass is known of; the noise of
    each joint's torque is (n,).
    """
    drives, motion = [joint.drive for joint in robot.joints], columns.motion
    terms = tuple(
        term
        for term in friction_symbols(t for drive in drives for t in drive.friction)
        if term != "load"
    )
    used = np.array(["presliding" in drive.friction for drive in drives])
    travels = np.where(
        used, [drive.presliding_travel or PRESLIDING_TRAVEL for drive in drives], np.nan
    )
    widths = np.array([drive.sign_width for drive in drives])
    smear = np.zeros(len(drives)) if cutoff is None else smeared_speeds(robot, motion, cutoff)
    others = np.sqrt(widths**2 + (_FINEST**2 - 1.0) * (smear**2 + chosen * widths**2))
    found = np.zeros((base.rank, base.rank))
    moved = np.abs(others - widths) > _STANDSTILL
    if not (moved | (used & chosen)).any() or not terms:
        return found
    rigid = [name for name in base.kept if robot.layout.column(name).is_rigid]
    falls = [np.array([drive.stribeck_speed for drive in drives])]
    step = -(-len(motion) // _FITTED)
    if step > 1 or columns.rigid != tuple(rigid):
        columns = RigidColumns.of(
            robot, rigid, motion[::step], [path[::step] for path in columns.paths]
        )
    table = columns.table(terms, [widths, others], falls, None, [travels, travels / _FINEST])
    place = {name: k for k, name in enumerate(base.kept)}
    still = (0,) * len(drives)
    as_it_is = FrictionModel(terms, still, travels=still)

    def fitted(model: FrictionModel) -> Array:
        values = np.zeros(base.rank)
        for key, value in zip(*table.fit(model, sigma)):
            if key.name in place:
                values[place[key.name]] = value
        return values if base.mixing is None else np.asarray(base.mixing @ values, dtype=float)

    before = fitted(as_it_is)
    for joint in np.flatnonzero(moved | (used & chosen)):
        if drives[joint].friction:
            picked = tuple(int(other == joint) for other in range(len(drives)))
            options = [replace(as_it_is, widths=picked)] if moved[joint] else []
            options += [replace(as_it_is, travels=picked)] if used[joint] and chosen else []
            for option in options:
                change = _SHARE * (fitted(option) - before)
                found += np.outer(change, change)
    return found


def smeared_speeds(robot: Robot, motion: Samples, cutoff: float) -> Array:
    """Return the speed (joints,) of each drive over which a low-pass spreads a reversal.

    0 where there is none.
    """
    speeds, accelerations = drive_rates(robot, motion.dq, motion.ddq)
    found = np.zeros(len(robot.joints))
    for index, speed in enumerate(speeds.T):
        turning = np.flatnonzero(np.diff(np.sign(speed)) != 0)
        if len(turning):
            found[index] = float(np.sqrt(np.mean(accelerations[turning, index] ** 2))) / (
                2 * np.pi * cutoff
            )
    return found
