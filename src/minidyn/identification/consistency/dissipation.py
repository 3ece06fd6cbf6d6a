"""Friction that takes power out of every motion, though not each of its terms does.

Terms that stay bounded at every speed (Stribeck's, the knees of the curve) may be negative beside Coulomb friction, as
long as all of them together oppose the motion at every speed: friction that rises out of a crawl is a negative Stribeck
term, one that saturates sharply the difference of two knees. Terms that grow with the speed may not, or friction would
drive the joint at speeds that no log has shown.

A fit knows numbers that must be positive, as many as there are terms. For the terms of such a group they are: Coulomb
friction itself, and the friction of the group at a crawl, at the highest speeds, and between. What the friction is at
all other speeds is looked at afterwards (`least_friction`), and a joint that fails has terms of one sign instead.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from minidyn.arrays import Array
from minidyn.dynamics.drives import Shapes
from minidyn.model.drives import BOUNDED, BY_SYMBOL, COULOMB, CURVE_SPEEDS, NON_NEGATIVE, STRIBECK_SPEED, Motion
from minidyn.model.robot import Robot

_SPEEDS = np.concatenate([[1e-9], np.geomspace(1e-5, 1e4, 1801), [1e9]])
"""Speeds, rad/s or m/s, between which terms hardly change; before the first and after the last none does."""

_MIDDLE = int(np.argmin(np.abs(_SPEEDS - np.sqrt(CURVE_SPEEDS[0] * CURVE_SPEEDS[1]))))
"""Between the knees of the curve."""


@dataclass(frozen=True)
class Group:
    """Bounded friction terms of one drive."""

    joint: int  # its index
    columns: NDArray[np.intp]  # places of its terms among the standard parameters (k,), Coulomb friction first
    basis: Array  # (k, k): times their values, the numbers that must be positive, N m or N
    shapes: Array  # (speeds, k): the terms at _SPEEDS for values of 1, over Coulomb friction; monotonous between

    def least_friction(self, phi: Array) -> float:
        """Return what the group's friction does not fall below at any speed, N m or N: a bound, and nearly reached.

        Over Coulomb friction of 1, that is: where that is smoothed about reversals, so is the group.
        """
        parts = self.shapes * phi[self.columns]
        return float(np.minimum(parts[:-1], parts[1:]).sum(axis=1).min())


def groups(robot: Robot, plain: Collection[int] = ()) -> list[Group]:
    """Return the bounded terms of each drive that has others beside Coulomb friction; but for plain joints."""
    found, still = [], np.zeros(len(_SPEEDS))
    for joint, columns in enumerate(robot.layout.drives):
        own = [column for column in columns if column.symbol in (COULOMB, *BOUNDED)]
        if len(own) < 2 or own[0].symbol != COULOMB or joint in plain:
            continue
        drive = robot.joints[joint].drive
        shapes, fall = Shapes(robot, []), drive.stribeck_speed or STRIBECK_SPEED
        motions = [Motion(column.symbol, joint, _SPEEDS, _SPEEDS, still, still, fall, shapes) for column in own]
        terms = [BY_SYMBOL[column.symbol].value for column in own]
        values = [term(motion) for term, motion in zip(terms, motions) if term is not None]
        over = np.stack(values, axis=1) / values[0][:, None]
        rows, most = np.eye(len(own))[:1], over[[0, -1, _MIDDLE]]
        while len(rows) < len(own):  # what says most beside the numbers that are there
            Q = np.linalg.qr(rows.T)[0]
            says = np.linalg.norm(most - most @ Q @ Q.T, axis=1)
            rows = np.vstack([rows, most[np.argmax(says)]])
        found.append(Group(joint, np.array([column.index for column in own], dtype=np.intp), rows, over))
    return found


def drive_numbers(robot: Robot, phi: Array) -> tuple[tuple[str, ...], Array]:
    """Return names and values of what must not be negative in drives: parameters, and least frictions of groups.

    A group stands for its terms but Coulomb friction where one of them is negative.
    """
    sums = {
        group.columns[1]: (group, group.least_friction(phi))
        for group in groups(robot)
        if np.any(phi[group.columns[1:]] < 0)
    }
    within = {place for group, _ in sums.values() for place in group.columns[1:]}
    names, values = [], []
    for column in (column for columns in robot.layout.drives for column in columns):
        if column.index in sums:
            group, least = sums[column.index]
            names.append(" + ".join(robot.layout.names[place] for place in group.columns))
            values.append(least)
        elif column.symbol in NON_NEGATIVE and column.index not in within:
            names.append(column.name)
            values.append(float(phi[column.index]))
    return tuple(names), np.array(values)


def driving(robot: Robot, phi: Array) -> list[int]:
    """Return indices of the joints whose friction would drive them at some speed, or might."""
    return [group.joint for group in groups(robot) if group.least_friction(phi) < 0]
