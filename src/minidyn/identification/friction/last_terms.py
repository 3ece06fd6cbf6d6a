"""Terms that are tried last, each where something in the log speaks for it.

Breakaway after rests, ripple of gears. A rest raises friction, and motion lets it decay over some
travel. A log in which a drive moves away from several rests can show it; others are not asked.

Ripple are waves over the position of a drive, which teeth, wave generators and magnets leave in the
torque. What a model leaves of the torques shows them as a peak of its spectrum over the position.
Sines and cosines of each multiple of the order are columns, and again in proportion to the speed:
amplitudes may grow with it.

Both are added where they predict held-out blocks of time better, joint by joint; multiples one
after the other, then how they grow. And where no terms were asked for: whether any are missing;
where others were: what presliding would change.

Grease that warms up during a log loses friction. What the beginning of the log has more of it is
taken off where that predicts held-out blocks better: the model is then that of the robot at the
log's end, not of a mean that it never was.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from minidyn.arrays import Array
from minidyn.base.base_map import BaseMap
from minidyn.dynamics.drives import Shapes, breakaway, drive_columns, drive_paths, memory_columns
from minidyn.identification.friction.search import LEAST_GAIN, Found, Tried
from minidyn.identification.friction.table import (
    TERMS_OF,
    FrictionModel,
    FrictionTable,
    Judged,
    Key,
    RigidColumns,
)
from minidyn.identification.rows.base_rows import DEPARTURES, Samples, departures
from minidyn.model.drives import (
    ALIASES,
    BREAKAWAY,
    BREAKAWAY_TRAVEL,
    FRICTION,
    HARMONICS,
    PLAIN,
    friction_symbols,
)
from minidyn.model.robot import Robot
from minidyn.notices import Notice, info, warning
from minidyn.recording.recording import Recording

_DECAYS = (1e-3, 2e-3, 4e-3, 8e-3, 1.6e-2)  # rad or m, over which breakaway may decay
_WARMING = (0.1, 0.3, 1.0)  # of the log's time, over which friction may fall
_FINER = (2.0, 1.4, 1.2)  # factors between the travels and widths that are tried around the best

SHOWN = info(
    "friction.ripple",
    "Gears whose ripple was found in the torques and is in the model, and what it brings.",
)
MISSING = warning(
    "friction.missing",
    "The robot shows friction that its file has no terms for, and none were asked for.",
    'Identify with friction="auto" (--friction auto).',
)
DECAYS = info(
    "friction.breakaway",
    "Drives with more friction after rests, over which travel, and what that term brings.",
)

WARMED = info(
    "friction.warming",
    "By how much friction fell during the log, as when grease warms up: the model is that of the "
    "log's end.",
)


def with_breakaway(
    found: Found, robot: Robot, recording: Recording, every: int, named: bool
) -> Found:
    """Return a choice with breakaway where it predicts better, each drive with a travel of its own.

    The search saw one sample in `every` of the recording. Where the term was asked for by name, all
    drives have it, and a travel that the robot has is kept.
    """
    table, model, sigma = found.last
    given = np.array([joint.drive.breakaway_travel for joint in robot.joints])
    asked = np.ones(len(given), dtype=bool) if named else departures(robot, recording) >= DEPARTURES
    if not asked.any():
        return found
    rests = [joint.rest_speed for joint in robot.joints]
    runs = [
        (drive_paths(robot, run.q, range(len(given))), np.diff(run.t)) for run in recording.runs
    ]
    option, sharp = (
        replace(model, terms=friction_symbols((*model.terms, "breakaway"))),
        found.sign_width,
    )

    def widened(travels: Array, widths: Array) -> FrictionTable:
        states = [
            np.concatenate(
                [breakaway(paths[:, joint], steps, travel, rest) for paths, steps in runs]
            )[::every]
            for joint, (travel, rest) in enumerate(zip(travels.tolist(), rests))
        ]
        plain = table if widths is found.sign_width else found.at(widths)
        driven = found.columns.bare.with_drives(friction="breakaway", sign_width=widths)
        added = _columns(found, driven, {BREAKAWAY: ~np.isnan(travels)}, states)
        return found.columns.tabled([known | own for known, own in zip(plain.friction, added)])

    def best(options: Sequence[tuple[Array, Array]]) -> tuple[Array, Array]:
        """Return for each joint the travel and the width with the least squares in held-out
        blocks.
        """
        judged = [widened(*one).judge(option, sigma).squares.sum(axis=0) for one in options]
        sizes = np.array(options)  # (options, 2, joints)
        chosen = np.array(options[len(options) // 2])
        for row, joint in enumerate(robot.independent):
            chosen[:, joint] = sizes[int(np.argmin([squares[row] for squares in judged])), :, joint]
        return chosen[0], chosen[1]

    travels = np.where(asked, np.where(given > 0, given, BREAKAWAY_TRAVEL), np.nan)
    if not given.any():
        travels, _ = best([(np.where(asked, travel, np.nan), sharp) for travel in _DECAYS])
    for finer in _FINER:
        if (
            "sign_width" in found.record
        ):  # what a width had to explain without breakaway is less, or more
            travels, sharp = best(
                [(travels, sharp / finer), (travels, sharp), (travels, finer * sharp)]
            )
        if not given.any():
            travels, sharp = best(
                [(travels / finer, sharp), (travels, sharp), (finer * travels, sharp)]
            )
    before = table.judge(model, sigma)
    if not named:
        less = before.squares - widened(travels, sharp).judge(option, sigma).squares
        for row, joint in enumerate(robot.independent):
            if not less[:, row].sum() > LEAST_GAIN * before.squares[:, row].sum():
                travels[joint] = np.nan
        if np.isnan(travels).all():
            return found
    wider = widened(travels, sharp)
    after = wider.judge(option, sigma)
    tried = Tried.of(["breakaway"], option, after, before, sigma)
    taken = named or tried.is_worth()
    record = dict(found.record)
    if "friction_tried" in record:
        record["friction_tried"] = [*record["friction_tried"], tried.record(model.terms, taken)]
    if not taken:
        return replace(found, record=record)
    record |= {"friction": list(option.terms), "friction_error": after.relative_error}
    record |= {"sign_width": sharp.tolist()} if "sign_width" in record else {}
    record["breakaway_travel"] = [None if np.isnan(size) else size for size in travels.tolist()]
    names = {
        robot.joints[joint].name: float(travels[joint])
        for joint in np.flatnonzero(~np.isnan(travels))
    }
    text = (
        f"friction: more of it after rests, which decays over "
        f"{', '.join(f'{1e3 * travel:.2g} mrad or mm at {name}' for name, travel in names.items())}; error in held-out "  # noqa: E501
        f"blocks of time {100 * before.relative_error:.3g} % without, "
        f"{100 * after.relative_error:.3g} % with it"
    )
    notice = DECAYS(text, travels=names, before=before.relative_error, after=after.relative_error)
    last = wider, option, wider.noise(option)
    more: dict[str, Any] = {"last": last, "record": record, "notices": (*found.notices, notice)}
    return replace(found, terms=option.terms, decays=travels, sign_width=sharp, **more)


def with_warming(found: Found) -> Found:
    """Return a choice that says how much more friction the beginning of a log has, where that
    predicts better.

    One share for all drives: friction falls exponentially from (1 + share) times what it is at the
    end. A joint alone may fall for other reasons. The log is one run.
    """
    (table, model, sigma), motion, key = (
        found.last,
        found.columns.motion,
        Key("warming", "warming", 0),
    )
    option, before = replace(model, terms=(*model.terms, "warming")), table.judge(model, sigma)
    falling = [term for term in model.terms if term not in ("offset", "load", *ALIASES["ripple"])]
    friction, length = torque_of(found, falling), float(motion.t[-1] - motion.t[0])

    def more(time: float) -> Array:
        """Return what the beginning has more (N, n), of a share of 1: 0 at the end."""
        last = np.exp(-length / time)
        return np.asarray(
            friction * ((np.exp((motion.t[0] - motion.t) / time) - last) / (1.0 - last))[:, None]
        )

    def widened(time: float) -> FrictionTable:
        columns = more(time).T
        return found.columns.tabled(
            [{**own, key: column} for own, column in zip(table.friction, columns)]
        )

    tables = {share * length: widened(share * length) for share in _WARMING}
    judged = {time: wider.judge(option, sigma) for time, wider in tables.items()}
    time, after = min(judged.items(), key=lambda one: float(np.mean(one[1].deviance(sigma))))
    tried = Tried.of(["warming"], option, after, before, sigma)
    entries = [
        *found.record.get("friction_tried", ()),
        tried.record(model.terms, tried.is_worth()),
    ]
    record = {**found.record, "friction_tried": entries}
    if not tried.is_worth():
        return replace(found, record=record)
    share = float(dict(zip(*tables[time].fit(option, sigma)))[key])
    text = (
        f"friction fell while the log was recorded: at first it was {100 * share:.2g} % larger "
        f"than at the end, and it fell over about {time:.2g} s. The model is that of the end. "
        f"Error in held-out blocks of time: {100 * after.relative_error:.3g} % with this fall, "
        f"{100 * before.relative_error:.3g} % without it"
    )
    notice = WARMED(
        text, share=share, time=time, before=before.relative_error, after=after.relative_error
    )
    record |= {"warming": {"share": share, "time": time}, "friction_error": after.relative_error}
    off = share * more(time)
    found = along(found, replace(motion, tau=motion.tau - off))
    return replace(found, record=record, notices=(*found.notices, notice), warming=off)


def without_warming(recording: Recording, t: Array, off: Array) -> Recording:
    """Return a recording without the torque (N, n) at times t (N,) that its beginning has more."""
    more = np.stack([np.interp(recording.t, t, torque) for torque in off.T], axis=1)
    raw = {name: values - more for name, values in recording.telemetry.items() if name == "tau_raw"}
    return replace(
        recording, tau=np.asarray(recording.tau) - more, telemetry={**recording.telemetry, **raw}
    )


Waves = dict[str, NDArray[np.bool_]]
"""Terms of ripple, and the joints (joints,) that have them."""


def with_ripple(
    found: Found, orders: Array, named: Sequence[str], less: Array | None = None
) -> Found:
    """Return a choice with ripple of these orders (joints,), where it predicts better.

    Terms that were named stay. A low-pass hides the waves of fast joints, and the model has them
    whole. So what it took off the torques (N, n) is predicted, too, where it is known: waves of
    speeds at which a fit hardly sees them are not guessed.
    """
    table, model, sigma = found.last
    robot, tried = found.columns.bare, list(found.record.get("friction_tried", ()))
    first = before = table.judge(model, sigma)
    waves = Waves()
    kinds = [ALIASES[f"ripple{harmonic}"] for harmonic in HARMONICS]
    for group in [
        *(kind[:2] for kind in kinds),
        *(kind[2:] for kind in kinds),
    ]:  # waves, then how they grow with speed
        more = {term: orders > 0 for term in group if term in named or not named}
        if not named:  # joints whose torques are not predicted better by their own waves have none
            after, helps = (
                _judged(found, orders, waves | more, less)[2],
                np.zeros(len(orders), dtype=bool),
            )
            gained = (before.squares + before.beyond - after.squares - after.beyond).sum(axis=0)
            helps[list(robot.independent)] = gained > LEAST_GAIN * before.squares.sum(axis=0)
            more = {term: own & helps for term, own in more.items() if (own & helps).any()}
        if not more:
            continue
        made, option, after = _judged(found, orders, waves | more, less)
        one = Tried.of(list(more), option, after, before, sigma)
        taken = bool(named) or one.is_worth()
        tried.append(one.record(model.terms, taken))
        if taken:
            table, model, before, waves = made, option, after, waves | more
    record = (
        {**found.record, "friction_tried": tried}
        if "friction_tried" in found.record
        else found.record
    )
    if not waves:
        return replace(found, record=record)
    orders = np.where(np.any(list(waves.values()), axis=0), orders, 0.0)
    record = {**record, "friction": list(model.terms), "friction_error": before.relative_error}
    record["ripple_order"] = [order or None for order in orders.tolist()]
    names = {robot.joints[joint].name: float(orders[joint]) for joint in np.flatnonzero(orders)}
    text = (
        f"friction: the torques show ripple of gears, waves in a turn: "
        f"{', '.join(f'{name} {order:.4g}' for name, order in names.items())}; error in held-out "
        f"blocks of time {100 * first.relative_error:.3g} % without, "
        f"{100 * before.relative_error:.3g} % with it"
    )
    notice = SHOWN(text, orders=names, before=first.relative_error, after=before.relative_error)
    last = table, model, table.noise(model)
    more_of: dict[str, Any] = {
        "last": last,
        "record": record,
        "notices": (*found.notices, notice),
    }
    return replace(found, terms=model.terms, orders=orders, waves=waves, **more_of)


def _judged(
    found: Found, orders: Array, waves: Waves, less: Array | None
) -> tuple[FrictionTable, FrictionModel, Judged]:
    """Return a choice's table and model with waves, and how they predict what was held out and what
    a low-pass took.
    """
    table, model, sigma = found.last
    driven = found.columns.bare.with_drives(
        friction=tuple(waves), sign_width=found.sign_width, ripple_order=orders
    )
    joints = {FRICTION[term]: own for term, own in waves.items()}
    added = _columns(found, driven, joints)
    table = found.columns.tabled([known | own for known, own in zip(table.friction, added)])
    model = replace(model, terms=friction_symbols((*model.terms, *waves)))
    judged = table.judge(model, sigma)
    if less is None or not waves:
        return table, model, judged
    whole = driven.with_joints(lambda joint: replace(joint, drive=replace(joint.drive, cutoff=0.0)))
    keys, values = table.without_each(model, sigma)
    of_key = dict(zip(keys, values.T))
    beyond = np.zeros_like(judged.squares)
    for row, (seen, full) in enumerate(zip(added, _columns(found, whole, joints))):
        for block, (begin, end) in enumerate(pairwise(found.columns.edges.tolist())):
            missed = sum(of_key[key][block] * (full[key] - seen[key])[begin:end] for key in full)
            beyond[block, row] = np.sum(missed * (missed - 2 * less[begin:end, row]))
    return table, model, replace(judged, beyond=beyond)


def _columns(
    found: Found,
    driven: Robot,
    joints: Mapping[str, NDArray[np.bool_]],
    states: Sequence[Array] | None = None,
) -> list[dict[Key, Array]]:
    """Return for each joint the columns of a robot's drives, by symbol at some joints."""
    columns, c = found.columns, found.columns.coordinates
    added: list[dict[Key, Array]] = [{} for _ in columns.names]
    own = [] if states is None else [states[column.joint] for column in memory_columns(driven)]
    for column in drive_columns(
        driven, c.dq, c.ddq, Shapes(driven, c.q, None, None if states is None else own)
    ):
        known = driven.layout.columns[column.index]
        if column.symbol in joints and joints[column.symbol][known.joint]:
            key = Key(known.name, TERMS_OF[column.symbol], known.joint)
            for row, value in columns.rows_of(column.value, column.ratios).items():
                added[row][key] = value
    return added


def along(found: Found, motion: Samples) -> Found:
    """Return a choice with the torques of a motion, where it was found with others along the same
    motion.
    """
    (table, model, sigma), columns = found.last, replace(found.columns, motion=motion)
    return replace(found, columns=columns, last=(columns.tabled(table.friction), model, sigma))


def torque_of(found: Found, terms: Collection[str]) -> Array:
    """Return the torque (N, n) that some terms of a choice explain."""
    (table, model, sigma), torque = found.last, np.zeros_like(found.columns.motion.tau)
    values = dict(zip(*table.fit(model, sigma)))
    for row, friction in enumerate(table.friction):
        for key in friction.keys() & values.keys():
            torque[:, row] += values[key] * friction[key] * (key.term in terms)
    return torque


def predicts_better(found: Found, other: Found) -> bool:
    """Return whether a choice predicts held-out blocks of time better than another, and by what is
    worth a term.
    """
    sigma = other.last[2]
    then, now = (
        float(np.mean(one.last[0].judge(one.last[1], sigma).deviance(sigma)))
        for one in (found, other)
    )
    return then < (1.0 - LEAST_GAIN) * now


def lacking(found: Found, base: BaseMap) -> tuple[Array, Array]:
    """Return by how much base parameters (b,) would change with presliding that the data show and
    nobody asked for.

    And what part of their variances (b,), as fits without each block of time show them, would be
    left with it: blocks see what presliding does to each. Zeros and ones where the data do not show
    it. Its size counts as Coulomb friction, which it is for a drive that slides on.
    """
    (table, model, sigma), richer = found.last, found.richer
    if richer is None or richer[1].terms == model.terms:
        return np.zeros(base.rank), np.ones(base.rank)

    def named(keys: Sequence[Key], values: Array) -> Array:
        """Base parameters (f, b) of values (f, columns)."""
        of_name = {name: np.zeros(len(values)) for name in base.kept}
        for key, column in zip(keys, values.T):
            name = key.name.replace(FRICTION["presliding"], FRICTION["coulomb"])
            of_name |= {name: of_name[name] + column} if name in of_name else {}
        kept = np.stack(list(of_name.values()), axis=1)
        return kept if base.mixing is None else np.asarray(kept @ base.mixing.T)

    fits, variances = [], []
    for where, which in ((table, model), richer):
        keys, values = where.fit(which, sigma)
        fits.append(named(keys, np.asarray(values)[None])[0])
        variances.append(named(*where.without_each(which, sigma)).var(axis=0))
    shown = (variances[0] > 0) & (
        variances[1] > 0
    )  # a term at its bound in every fit says nothing of its noise
    left = np.where(shown, variances[1] / np.where(shown, variances[0], 1.0), 1.0)
    return fits[1] - fits[0], np.minimum(left, 1.0)


def friction_missing(
    robot: Robot, base: BaseMap, motion: Samples, speeds: Array
) -> tuple[Notice, ...]:
    """Return a notice where a robot without friction terms shows friction.

    Its typical speeds are (joints,).
    """
    widths, falls = [0.02 * speeds], [np.zeros(len(robot.joints))]
    table = RigidColumns.of(robot, base.kept, motion).table(PLAIN, widths, falls)
    still = (0,) * len(robot.joints)
    sigma = table.noise(FrictionModel(PLAIN, still))
    without, with_it = (table.judge(FrictionModel(terms, still), sigma) for terms in ((), PLAIN))
    gain = without.deviance(sigma) - with_it.deviance(sigma)
    certain = float(np.mean(gain)) > 2 * float(np.std(gain, ddof=1)) / np.sqrt(len(gain))
    if not certain or with_it.relative_error > 0.9 * without.relative_error:
        return ()
    text = (
        "the residuals show friction, which the robot has no terms for: error "
        f"{100 * without.relative_error:.3g} % on held-out blocks of time, "
        f"{100 * with_it.relative_error:.3g} % with {', '.join(PLAIN)}"
    )
    return (
        MISSING(
            text,
            without=without.relative_error,
            with_terms=with_it.relative_error,
            terms=list(PLAIN),
        ),
    )
