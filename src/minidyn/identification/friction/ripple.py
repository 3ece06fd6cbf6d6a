"""Ripple of gears: waves over the position of a drive, which teeth, wave generators and magnets leave in the torque.

What a model leaves of the torques shows them as a peak of its spectrum over the position. Amplitudes grow with speed,
sines and cosines of each multiple of the order are columns. They are added where they predict held-out blocks of time
better, joint by joint, then multiples one after the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from minidyn.arrays import Array
from minidyn.dynamics.drives import Shapes, drive_columns
from minidyn.identification.friction.search import LEAST_GAIN, SURE, Found
from minidyn.identification.friction.table import TERMS_OF, FrictionTable, Key
from minidyn.model.drives import ALIASES, HARMONICS, RIPPLE, friction_symbols
from minidyn.notices import info

HIGHEST_ORDER = 500.0
"""Waves over 2 pi rad or m, at most."""

SHOWN = info("friction.ripple", "Gears whose ripple was found in the torques and is in the model, and what it brings.")


def with_ripple(found: Found, orders: Array, cutoff: float, named: Sequence[str]) -> Found:
    """Return a choice with ripple of these orders (joints,), where it predicts better; terms that were named stay.

    Torques have passed a low-pass, Hz; 0: none.
    """
    table, model, sigma = found.last
    robot, columns = found.columns.bare, found.columns
    orders = orders.copy()
    before, tried = table.judge(model, sigma), list(found.settings.get("friction_tried", ()))
    first, taken = before, list(named)
    if not named:
        # joints whose torques are not predicted better by their own waves have none
        wider = _added(found, orders, cutoff, ALIASES["ripple1"], table)
        after = wider.judge(replace(model, terms=friction_symbols((*model.terms, *ALIASES["ripple1"]))), sigma)
        less = (before.squares - after.squares).sum(axis=0) / before.squares.sum(axis=0)
        for row, joint in enumerate(robot.independent):
            orders[joint] *= less[row] > LEAST_GAIN
        if not orders.any():
            return found
    for harmonic in HARMONICS:
        group = [term for term in ALIASES[f"ripple{harmonic}"] if term in named or not named]
        wider = _added(found, orders, cutoff, group, table)
        option = replace(model, terms=friction_symbols((*model.terms, *group)))
        after = wider.judge(option, sigma)
        now, then = before.deviance(sigma), after.deviance(sigma)
        gains = (now - then) / float(np.mean(now))
        gain, spread = float(np.mean(gains)), float(np.std(gains, ddof=1) / np.sqrt(len(gains)))
        use = bool(named) or gain > max(SURE * spread, LEAST_GAIN)
        entry = {"with": list(model.terms), "added": group, "error": after.relative_error}
        tried.append({**entry, "gain": gain, "uncertainty": spread, "taken": use})
        if use:
            table, model, before = wider, option, after
            taken += group
    settings = {**found.settings, "friction_tried": tried} if "friction_tried" in found.settings else found.settings
    if not taken:
        return replace(found, settings=settings)
    settings = {**settings, "friction": list(model.terms), "friction_error": before.relative_error}
    settings["ripple_order"] = [order or None for order in orders.tolist()]
    names = {robot.joints[joint].name: float(orders[joint]) for joint in np.flatnonzero(orders)}
    text = (
        f"friction: the torques show ripple of gears, waves in a turn: "
        f"{', '.join(f'{name} {order:.4g}' for name, order in names.items())}; error in held-out blocks of time "
        f"{100 * first.relative_error:.3g} % without, {100 * before.relative_error:.3g} % with it"
    )
    notice = SHOWN(text, orders=names, before=first.relative_error, after=before.relative_error)
    last = table, model, table.noise(model)
    more: dict[str, Any] = {"last": last, "settings": settings, "notices": (*found.notices, notice), "orders": orders}
    return replace(found, terms=model.terms, columns=columns, **more)


def _added(found: Found, orders: Array, cutoff: float, terms: Sequence[str], table: FrictionTable) -> FrictionTable:
    """Return the table with columns of ripple added for the joints that have an order."""
    columns, c = found.columns, found.columns.coordinates
    driven = columns.bare.with_drives(friction=terms, sign_width=found.sign_width, ripple_order=orders)
    driven = driven.with_joints(lambda joint: replace(joint, drive=replace(joint.drive, ripple_cutoff=cutoff)))
    added = [dict(own) for own in table.friction]
    for column in drive_columns(driven, c.dq, c.ddq, Shapes(driven, c.q)):
        known = driven.layout.columns[column.index]
        if column.symbol in RIPPLE and orders[known.joint]:
            key = Key(known.name, TERMS_OF[column.symbol], known.joint)
            for row, value in columns.rows_of(column.value, column.ratios).items():
                added[row][key] = value
    return columns.tabled(added)
