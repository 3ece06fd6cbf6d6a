"""Robots from modified Denavit-Hartenberg tables, branches included (Khalil-Kleinfinger).

Each row places a link's frame on its parent's: T = Rz(gamma) Tz(b) Rx(alpha) Tx(a) Rz(theta) Tz(d). A rotational
joint adds q to theta, a translational one adds q to d. The Lin papers' β and b are alpha and a here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from minidyn.arrays import real_array
from minidyn.errors import DescriptionError, UnknownName
from minidyn.model.drives import FRICTION, ROTOR, Drive, friction_symbols, terms_that_fit
from minidyn.model.geometry import Step, Steps, snap_angle, snap_length, tidy_steps
from minidyn.model.inertia import from_body
from minidyn.model.joint import Joint
from minidyn.model.parameters import Layout
from minidyn.notices import Notice

if TYPE_CHECKING:
    from minidyn.model.robot import Robot


_LETTERS = {"R": "revolute", "P": "prismatic"}
_DRIVE_KEYS = (ROTOR, *FRICTION.values())


def mdh_steps(
    kind: str,
    row: Mapping[str, float],
    where: str,
    notices: list[Notice] | None = None,
    symbols: Mapping[str, tuple[str, float]] | None = None,
) -> Steps:
    """Return the placement steps of one mDH row, ready for the joint's own motion about or along z to follow.

    Args:
        kind: "revolute", "continuous", "prismatic" or "fixed".
        row: gamma, b, alpha, a, theta, d (rad, m); missing ones are 0.
        where: For messages.
        notices: Where snapped angles are reported.
        symbols: For some of the six, (symbol, factor).
    """
    named = symbols or {}

    def step(motion: str, key: str) -> Step:
        value = row.get(key, 0.0)
        snapped = (
            snap_angle(value, f"{where}, {key}", notices) if motion[0] == "r" else snap_length(value, f"{where}, {key}")
        )
        symbol, factor = named.get(key, ("", 1.0))
        return Step(motion, snapped, symbol, factor)

    steps = [step("rz", "gamma"), step("tz", "b"), step("rx", "alpha"), step("tx", "a")]
    # Rz(theta) and Tz(d) commute: the one that q adds to goes last, so that the two join
    last = [step("rz", "theta"), step("tz", "d")]
    steps += last if kind == "prismatic" else last[::-1]
    return tidy_steps(steps)


def robot_from_mdh(
    joints: str | Sequence[str],
    alpha: ArrayLike | None = None,
    a: ArrayLike | None = None,
    d: ArrayLike | None = None,
    theta: ArrayLike | None = None,
    gravity: ArrayLike = (0.0, 0.0, -9.81),
    parameters: ArrayLike | Sequence[Mapping[str, Any]] | None = None,
    rotor_inertia: bool = False,
    friction: Iterable[str] | str = (),
    parent: Sequence[int] | None = None,
    gamma: ArrayLike | None = None,
    b: ArrayLike | None = None,
    name: str = "",
) -> Robot:
    """Build a robot from an mDH table.

    Args:
        joints: One letter a joint, R (rotational) or P (translational): "RRPRRR".
        alpha: Twist angles (n,), rad; None: zeros, as for all of the table.
        a: Lengths along x (n,), m.
        d: Offsets along z at q = 0 (n,), m.
        theta: Angles about z at q = 0 (n,), rad.
        gravity: Acceleration of gravity in the base frame (3,), m/s².
        parameters: The flat standard vector (see `robot.parameter_names`), or one dict per link with mass, com (3,)
            and inertia (3, 3) about the centre of mass, axes parallel to the link frame; the keys Ia, Fv, Fc, Fo
            switch that drive term on for that joint.
        rotor_inertia: Whether every joint has the column Ia.
        friction: Friction terms of every joint: "viscous", "coulomb", "offset".
        parent: For trees, the parent of each link: 0 the base, k the link of joint k. None: a chain.
        gamma: For trees, angles about the parent's z (n,), rad.
        b: For trees, offsets along the parent's z (n,), m.
        name: Name of the robot.

    Returns:
        The robot, with joints joint1, joint2, ... and links link1, link2, ...
    """
    from minidyn.model.robot import Robot

    if not isinstance(joints, Sequence):
        raise DescriptionError(f'joints: expected one letter a joint such as "RRPRRR", got {joints!r}')
    if not isinstance(rotor_inertia, bool | np.bool_):
        raise DescriptionError(f"rotor_inertia: expected True or False, got {rotor_inertia!r}")
    if parent is not None and (isinstance(parent, str) or not isinstance(parent, Iterable)):
        raise DescriptionError(f"parent: expected one number for each joint, got {parent!r}")
    kinds = [_kind(letter, index) for index, letter in enumerate(joints)]
    count = len(kinds)
    if count == 0:
        raise DescriptionError("joints: at least one of R and P is needed, got none")
    given = {"gamma": gamma, "b": b, "alpha": alpha, "a": a, "theta": theta, "d": d}
    table = {key: _column(key, values, count) for key, values in given.items() if values is not None}
    parents = list(range(count)) if parent is None else [_parent(p, index, count) for index, p in enumerate(parent)]
    if len(parents) != count:
        raise DescriptionError(f"parent: expected {count} entries, one for each joint, got {len(parents)}")

    bodies = _bodies(parameters, count)
    terms = friction_symbols(friction)
    notices: list[Notice] = []
    made = []
    for index, kind in enumerate(kinds):
        extra = set(bodies[index]) if bodies else set()
        fitting = terms_that_fit(terms, turns=kind != "prismatic", coupled=False)
        own = tuple(term for term, symbol in FRICTION.items() if term in fitting or symbol in extra)
        made.append(
            Joint(
                name=f"joint{index + 1}",
                kind=kind,
                parent=parents[index] - 1,
                before=mdh_steps(
                    kind, {key: column[index] for key, column in table.items()}, f"joint {index + 1}", notices
                ),
                motion="tz" if kind == "prismatic" else "rz",
                drive=Drive(rotor_inertia=bool(rotor_inertia) or ROTOR in extra, friction=own),
            )
        )
    layout = Layout.of(joint.drive for joint in made)
    return Robot(
        name=name or "robot",
        joints=tuple(made),
        link_names=tuple(f"link{index + 1}" for index in range(count)),
        gravity=real_array(gravity, "gravity"),
        parameters=_values(parameters, bodies, layout),
        notices=tuple(notices),
    )


def body_parameters(body: Mapping[str, Any], where: str, extra: Sequence[str] = ()) -> NDArray[np.float64]:
    """Return the ten parameters of a dict with mass, com and inertia (each optional but mass; unknown: NaN).

    Args:
        body: mass (kg), com (3,) (m; default origin), inertia (3, 3) about the centre of mass (kg m²; default 0).
        where: For messages.
        extra: Further keys that may stand in it.
    """
    for key in body:
        if key not in ("mass", "com", "inertia", *extra):
            raise UnknownName(f"key in the parameters of {where}:", key, ("mass", "com", "inertia", *extra))
    if "mass" not in body:
        if "com" in body or "inertia" in body:
            raise DescriptionError(f"{where}: com or inertia given without mass")
        return np.full(10, np.nan)
    mass = _array(body["mass"], (), f"{where}, mass")
    com = _array(body.get("com", np.zeros(3)), (3,), f"{where}, com")
    inertia = _array(body.get("inertia", np.zeros((3, 3))), (3, 3), f"{where}, inertia")
    if np.abs(inertia - inertia.T).max() > 1e-9 * max(np.abs(inertia).max(), 1e-300):
        raise DescriptionError(f"{where}, inertia: the tensor must be symmetric")
    return from_body(float(mass), com, 0.5 * (inertia + inertia.T))


def _kind(letter: str, index: int) -> str:
    try:
        return _LETTERS[letter.upper()]
    except (KeyError, AttributeError):
        raise DescriptionError(
            f"joints: joint {index + 1} is {letter!r}; expected R (rotational) or P (translational)"
        ) from None


def _column(key: str, values: ArrayLike, count: int) -> NDArray[np.float64]:
    return _array(values, (count,), f"{key} (one value for each of {count} joints)")


def _parent(value: int, index: int, count: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise DescriptionError(
            f"parent of joint {index + 1}: expected a number from 0 (base) to {count}, got {value!r}"
        )
    if not 0 <= value <= index:
        raise DescriptionError(
            f"parent of joint {index + 1}: got {value}; expected 0 (the base) or the number of an earlier joint, "
            f"1 ... {index}"
        )
    return int(value)


def _bodies(parameters: object, count: int) -> list[Mapping[str, Any]]:
    if (
        not isinstance(parameters, Sequence)
        or isinstance(parameters, str)
        or not any(isinstance(p, Mapping) for p in parameters)
    ):
        return []
    for index, body in enumerate(parameters):
        if not isinstance(body, Mapping):
            raise DescriptionError(
                f"parameters of link {index + 1}: expected a dict with mass, com, inertia, got {body!r}"
            )
    if len(parameters) != count:
        raise DescriptionError(f"parameters: expected {count} dicts, one for each link, got {len(parameters)}")
    return list(parameters)


def _values(parameters: Any, bodies: list[Mapping[str, Any]], layout: Layout) -> NDArray[np.float64]:
    if parameters is None:
        return np.full(len(layout), np.nan)
    if not bodies:
        return _array(
            parameters, (len(layout),), f"parameters ({layout.names[0]} ... {layout.names[-1]})", finite=False
        )
    values = np.full(len(layout), np.nan)
    for index, body in enumerate(bodies):
        where = f"link {index + 1}"
        values[layout.links[index]] = body_parameters(body, where, _DRIVE_KEYS)
        for column in layout.drives[index]:
            if column.symbol in body:
                values[column.index] = float(_array(body[column.symbol], (), f"{where}, {column.symbol}"))
    return values


def _array(values: Any, shape: tuple[int, ...], where: str, finite: bool = True) -> NDArray[np.float64]:
    array = real_array(values, where)
    if array.shape != shape:
        raise DescriptionError(f"{where}: expected shape {shape}, got {array.shape}")
    if finite and not np.all(np.isfinite(array)):
        raise DescriptionError(f"{where}: expected finite numbers, got NaN or infinity")
    return array
