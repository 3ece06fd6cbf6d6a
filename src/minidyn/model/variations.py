"""Robots made from robots: other drives, a load. What `Robot.with_drives` and `Robot.with_load` do."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from minidyn.arrays import real_array
from minidyn.errors import DescriptionError, ShapeError, UnknownName
from minidyn.model.drives import Drive, friction_symbols, terms_that_fit
from minidyn.model.geometry import steps_from_matrix
from minidyn.model.joint import Joint
from minidyn.model.mdh import body_parameters
from minidyn.model.parameters import Layout
from minidyn.model.robot import Robot


def with_joints(robot: Robot, change: Callable[[Joint], Joint]) -> Robot:
    """Change each joint, carrying over the values of the columns that remain; new ones are unknown."""
    joints = tuple(change(joint) for joint in robot.joints)
    layout, old = Layout.of(joint.drive for joint in joints), robot.layout
    values = [robot.parameters[old.index(name)] if name in old else np.nan for name in layout.names]
    return replace(robot, joints=joints, parameters=np.array(values))


def with_drives(
    robot: Robot,
    rotor_inertia: bool | Iterable[str] | None,
    friction: Iterable[str] | str | None,
    sign_width: ArrayLike | None,
    coupling: Mapping[str, Mapping[str, float]] | None,
    stribeck_speed: ArrayLike | None = None,
) -> Robot:
    """See :meth:`minidyn.model.robot.Robot.with_drives`."""
    every = [joint.name for joint in robot.joints]
    rotors = _rotors(rotor_inertia, every)
    terms = None if friction is None else friction_symbols(friction)
    widths = None if sign_width is None else _speeds("sign_width", sign_width, every)
    falls = None if stribeck_speed is None else _speeds("stribeck_speed", stribeck_speed, every)
    turned = coupling or {}
    for name in turned:
        if name not in every:
            raise UnknownName("joint", name, every)

    def change(joint: Joint) -> Joint:
        old = joint.drive
        if joint.kind == "fixed":
            return joint
        coupled = old.coupling
        if joint.name in turned:
            coupled = tuple((name, float(value)) for name, value in turned[joint.name].items())
        drive = Drive(
            rotor_inertia=old.rotor_inertia if rotors is None else joint.name in rotors,
            friction=terms_that_fit(old.friction if terms is None else terms, turns=joint.turns, coupled=bool(coupled)),
            gear_ratio=old.gear_ratio,
            coupling=coupled,
            sign_width=old.sign_width if widths is None else widths[joint.name],
            stribeck_speed=old.stribeck_speed if falls is None else falls[joint.name],
        )
        return replace(joint, drive=drive)

    return with_joints(robot, change)


def with_load(
    robot: Robot,
    placement: ArrayLike | None,
    parameters: ArrayLike | Mapping[str, Any] | None,
    link: str | None,
    name: str,
) -> Robot:
    """See :meth:`minidyn.model.robot.Robot.with_load`."""
    if not isinstance(name, str):
        raise DescriptionError(f"name of a load: expected a text, got {name!r}")
    index, steps = robot.find_frame(link)
    if index < 0:
        raise DescriptionError(f"a load on the base {link!r} does not move; name a moving link")
    if placement is not None:
        steps = (*steps, *steps_from_matrix(placement, f"placement of {name!r}"))
    if parameters is None:
        ten = np.full(10, np.nan)
    elif isinstance(parameters, Mapping):
        ten = body_parameters(parameters, f"load {name!r}")
    else:
        ten = real_array(parameters, f"load {name!r}, parameters")
        if ten.shape != (10,):
            raise ShapeError(f"load {name!r}: expected 10 parameters XX ... M, got shape {ten.shape}")
    taken = {joint.name for joint in robot.joints} | {*robot.link_names, robot.base_name}
    taken |= {frame.name for frame in robot.frames}
    unique = name
    while unique in taken:
        unique += "_"
    return replace(
        robot,
        joints=(*robot.joints, Joint(unique, "fixed", index, steps)),
        link_names=(*robot.link_names, unique),
        parameters=np.concatenate([robot.parameters, ten]),
    )


def _rotors(wanted: bool | Iterable[str] | None, every: list[str]) -> set[str] | None:
    if wanted is None:
        return None
    if isinstance(wanted, bool):
        return set(every) if wanted else set()
    if not isinstance(wanted, Iterable):
        raise DescriptionError(f"rotor_inertia: expected True, False or names of joints, got {wanted!r}")
    names = {wanted} if isinstance(wanted, str) else set(wanted)
    for name in sorted(names - set(every), key=str):
        raise UnknownName("joint", name, every)
    return names


def _speeds(what: str, speeds: ArrayLike, every: list[str]) -> dict[str, float]:
    values = real_array(speeds, what)
    if values.shape not in ((), (len(every),)) or not np.all((values >= 0) & np.isfinite(values)):
        raise ShapeError(f"{what}: expected a speed, or one for each of {len(every)} joints, got {speeds!r}")
    return dict(zip(every, np.broadcast_to(values, len(every)).tolist()))
