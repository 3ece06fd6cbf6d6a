"""Robots from modified Denavit-Hartenberg tables, branches included (Khalil-Kleinfinger).

Each row places a link's frame on its parent's: T = Rz(gamma) Tz(b) Rx(alpha) Tx(a) Rz(theta) Tz(d).
A rotational joint adds q to theta, a translational one adds q to d. The Lin papers' β and b are
alpha and a here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from minidyn.arrays import Array
from minidyn.errors import DescriptionError
from minidyn.model.drives import FRICTION, ROTOR, Drive, friction_symbols, terms_that_fit
from minidyn.model.geometry import Step, Steps, snapped_step, tidy_steps
from minidyn.model.joint import Joint
from minidyn.model.parameters import Layout, body_parameters, shaped_array
from minidyn.notices import Notice

_LETTERS = {"R": "revolute", "P": "prismatic"}
_DRIVE_KEYS = (ROTOR, *FRICTION.values())


def mdh_steps(
    kind: str,
    row: Mapping[str, float],
    where: str,
    notices: list[Notice] | None = None,
    symbols: Mapping[str, tuple[str, float]] | None = None,
) -> Steps:
    """Return the placement steps of one mDH row, ready for the joint's own motion about or along z
    to follow.

    The row has gamma, b, alpha, a, theta, d (rad, m), missing ones are 0; `symbols` of some of them
    (symbol, factor).
    """
    named = symbols or {}

    def step(motion: str, key: str) -> Step:
        return snapped_step(
            motion, row.get(key, 0.0), f"{where}, {key}", notices, *named.get(key, ())
        )

    return tidy_steps(step(motion, key) for motion, key in mdh_order(kind))


def mdh_order(kind: str) -> tuple[tuple[str, str], ...]:
    """Return (motion, key) of a row's steps in order."""
    first = (("rz", "gamma"), ("tz", "b"), ("rx", "alpha"), ("tx", "a"))
    # Rz(theta) and Tz(d) commute: the one that q adds to goes last, so that the two join
    last = (("rz", "theta"), ("tz", "d"))
    return first + (last if kind == "prismatic" else last[::-1])


def mdh_parts(
    joints: str | Sequence[str],
    given: Mapping[str, ArrayLike | None],
    parameters: ArrayLike | Sequence[Mapping[str, Any]] | None,
    rotor_inertia: bool,
    friction: Iterable[str] | str,
    parent: Sequence[int] | None,
) -> tuple[tuple[Joint, ...], Array, tuple[Notice, ...]]:
    """Return (joints, parameters, notices) of an mDH table, {column: values}.

    See `Robot.from_mdh`.
    """
    if not isinstance(joints, Sequence):
        raise DescriptionError(
            f'joints: expected one letter a joint such as "RRPRRR", got {joints!r}'
        )
    if not isinstance(rotor_inertia, bool | np.bool_):
        raise DescriptionError(f"rotor_inertia: expected True or False, got {rotor_inertia!r}")
    if parent is not None and (isinstance(parent, str) or not isinstance(parent, Iterable)):
        raise DescriptionError(f"parent: expected one number for each joint, got {parent!r}")
    kinds = [_kind(letter, index) for index, letter in enumerate(joints)]
    count = len(kinds)
    if count == 0:
        raise DescriptionError("joints: at least one of R and P is needed, got none")
    table = {
        key: shaped_array(values, (count,), f"{key} (one value for each of {count} joints)")
        for key, values in given.items()
        if values is not None
    }
    parents = (
        list(range(count))
        if parent is None
        else [_parent(p, index, count) for index, p in enumerate(parent)]
    )
    if len(parents) != count:
        raise DescriptionError(
            f"parent: expected {count} entries, one for each joint, got {len(parents)}"
        )

    bodies = _bodies(parameters, count)
    terms = friction_symbols(friction)
    notices: list[Notice] = []
    made = []
    for index, kind in enumerate(kinds):
        extra = set(bodies[index]) if bodies else set()
        fitting = terms_that_fit(terms, turns=kind != "prismatic", coupled=False)
        own = tuple(term for term, symbol in FRICTION.items() if term in fitting or symbol in extra)
        row = {key: column[index] for key, column in table.items()}
        steps = mdh_steps(kind, row, f"joint {index + 1}", notices)
        drive = Drive(rotor_inertia=bool(rotor_inertia) or ROTOR in extra, friction=own)
        motion = "tz" if kind == "prismatic" else "rz"
        made.append(
            Joint(f"joint{index + 1}", kind, parents[index] - 1, steps, motion, drive=drive)
        )
    return (
        tuple(made),
        _values(parameters, bodies, Layout.of(joint.drive for joint in made)),
        tuple(notices),
    )


def _kind(letter: str, index: int) -> str:
    try:
        return _LETTERS[letter.upper()]
    except (KeyError, AttributeError):
        raise DescriptionError(
            f"joints: joint {index + 1} is {letter!r}; expected R (rotational) or P (translational)"
        ) from None


def _parent(value: int, index: int, count: int) -> int:
    where = f"parent of joint {index + 1}"
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise DescriptionError(
            f"{where}: expected a number from 0 (base) to {count}, got {value!r}"
        )
    if not 0 <= value <= index:
        raise DescriptionError(
            f"{where}: got {value}; expected 0 (the base) or the number of an earlier joint, 1 "
            f"... {index}"
        )
    return int(value)


def _bodies(parameters: object, count: int) -> list[Mapping[str, Any]]:
    if not isinstance(parameters, Sequence) or not any(
        isinstance(body, Mapping) for body in parameters
    ):
        return []
    for index, body in enumerate(parameters):
        if not isinstance(body, Mapping):
            raise DescriptionError(
                f"parameters of link {index + 1}: expected a dict with mass, com, inertia, got "
                f"{body!r}"
            )
    if len(parameters) != count:
        raise DescriptionError(
            f"parameters: expected {count} dicts, one for each link, got {len(parameters)}"
        )
    return list(parameters)


def _values(parameters: Any, bodies: list[Mapping[str, Any]], layout: Layout) -> Array:
    if parameters is None:
        return np.full(len(layout), np.nan)
    if not bodies:
        return shaped_array(
            parameters,
            (len(layout),),
            f"parameters ({layout.names[0]} ... {layout.names[-1]})",
            finite=False,
        )
    numbered = list(enumerate(bodies, 1))
    terms = [
        {
            key: float(shaped_array(body[key], (), f"link {number}, {key}"))
            for key in _DRIVE_KEYS
            if key in body
        }
        for number, body in numbered
    ]
    return layout.vector(
        (body_parameters(body, f"link {number}", _DRIVE_KEYS) for number, body in numbered), terms
    )
