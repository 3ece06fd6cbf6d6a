"""Robots from MJCF files.

Bodies, hinges and slides, inertia, drives, limits, joint constraints and gravity. MuJoCo itself
reads and compiles the file (:mod:`minidyn.formats.mjcf.compile`); here its model becomes a robot. A
link's frame is the body's frame, so that positions and inertia are those MuJoCo reports.
"""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from minidyn.errors import DescriptionError, optional
from minidyn.formats.mjcf.compile import LOST_MESH, Compiled, compile_mjcf, rotation
from minidyn.model.assemble import LooseJoint, LooseLink, assemble, motion_along
from minidyn.model.drives import ROTOR, Drive
from minidyn.model.formula import FUNCTIONS
from minidyn.model.geometry import (
    Step,
    Steps,
    inverse_steps,
    snap_angle,
    steps_from_matrix,
    steps_from_rpy,
    tidy_steps,
)
from minidyn.model.joint import Limits
from minidyn.model.robot import Robot
from minidyn.notices import warning
from minidyn.text import new_name

mujoco = optional("mujoco")

SPRINGS = warning(
    "mjcf.springs",
    "Joint springs (stiffness) are left out.",
    'To keep them, switch the drive term on: robot.with_drives(friction=[..., "spring"]).',
)
DAMPING = warning(
    "mjcf.damping",
    "Damping that is not proportional to speed is left out; its proportional part is kept.",
)
GRAVITY_COMPENSATION = warning(
    "mjcf.gravity_compensation", "Gravity compensation (gravcomp) is left out."
)
FLUID = warning(
    "mjcf.fluid", "Forces of a surrounding fluid (option density, viscosity) are left out."
)
NO_INERTIA = warning(
    "mjcf.no_inertia",
    "A body has neither an <inertial> nor geoms with mass; its parameters are unknown (NaN).",
    "Give body {body!r} an <inertial> if its parameters are needed; identification does not need "
    "them.",
)

HELD = {ROTOR: "armature", "Fv": "damping", "Fc": "frictionloss"}
"""Drive terms that MJCF can hold, and the attribute of each."""

_MOTOR = (mujoco.mjtGain.mjGAIN_FIXED, mujoco.mjtBias.mjBIAS_NONE, mujoco.mjtDyn.mjDYN_NONE)


def read_mjcf(path: Path) -> Robot:
    """Return the robot an MJCF file describes, its world fixed.

    Armature becomes the column Ia, damping Fv, frictionloss Fc (a zero adds none; an actuator's own
    armature and damping count with its gear squared). The gear of a motor (fixed gain, no bias, no
    dynamics) on a joint is the gear ratio. Joint equality constraints make followers. A body with
    several joints becomes a chain of massless links. Springs, tendons, other constraints, fluid
    forces and gravity compensation are left out, with a notice.
    """
    compiled = compile_mjcf(path)
    model = compiled.model
    names = _Names(model)
    links = [LooseLink(names.bodies[0], str(path))]
    joints: list[LooseJoint] = []
    followers = _followers(compiled, names)
    for body in range(1, model.nbody):
        where = compiled.where[body]
        links += [LooseLink(name, where, np.zeros(10)) for name in names.between[body]]
        links.append(LooseLink(names.bodies[body], where, compiled.bodies[body]))
        joints += _body_joints(compiled, names, body, followers)
    _tell_what_is_left_out(compiled, names)
    weightless = bool(model.opt.disableflags & mujoco.mjtDisableBit.mjDSBL_GRAVITY)
    gravity = np.zeros(3) if weightless else model.opt.gravity
    name = compiled.name or path.stem
    robot = assemble(
        name, links, joints, gravity=gravity, notices=compiled.notices, source=str(path)
    )
    lost = {notice.data["body"] for notice in robot.notices if notice.code == LOST_MESH.code}
    unknown = [
        link.name
        for link in robot.links
        if np.isnan(link.parameters).all() and link.name not in lost
    ]
    text = "body {!r} has neither an <inertial> nor geoms with mass; taken as unknown"
    new = (NO_INERTIA(text.format(name), body=name) for name in unknown)
    return replace(robot, notices=(*robot.notices, *new))


class _Names:
    """Names of bodies, joints and the links between several joints of one body.

    MJCF may leave them out.
    """

    def __init__(self, model: Any) -> None:
        bodies = [model.body(index).name for index in range(model.nbody)]
        joints = [model.joint(index).name for index in range(model.njnt)]
        taken, taken_joints = set(bodies), set(joints)
        self.bodies = [name or new_name(f"body{index}", taken) for index, name in enumerate(bodies)]
        holders = (self.bodies[body] for body in model.jnt_bodyid)
        self.joints = [
            name or new_name(f"{holder}_joint", taken_joints)
            for name, holder in zip(joints, holders)
        ]
        self.fixed = [new_name(f"{name}_fixed", taken_joints) for name in self.bodies]
        self.between = [
            [new_name(f"{name}_{k}", taken) for k in range(1, count)]
            for name, count in zip(self.bodies, model.body_jntnum)
        ]


def _body_joints(
    compiled: Compiled, names: _Names, body: int, followers: dict[int, dict[str, Any]]
) -> list[LooseJoint]:
    """Return the joints between a body and its parent: none is a fixed one, several are a chain.

    A free joint leaves the base where its own position in the world says.
    """
    model, where, notices = compiled.model, compiled.where[body], compiled.notices
    name = names.bodies[body]
    T = np.eye(4)
    T[:3, :3], T[:3, 3] = rotation(model.body_quat[body]), model.body_pos[body]
    steps = steps_from_matrix(T, f"{where}: body {name!r}", notices)
    parent = names.bodies[model.body_parentid[body]]
    first, count = int(model.body_jntadr[body]), int(model.body_jntnum[body])
    if count == 0:
        return [LooseJoint(names.fixed[body], where, "fixed", parent, name, steps)]
    if model.jnt_type[first] == mujoco.mjtJoint.mjJNT_FREE:  # it places the body in the world
        _refuse_drive(model, first, f"{where}: joint {names.joints[first]!r}")
        return [LooseJoint(names.joints[first], where, "floating", parent, name)]
    made = []
    for joint, child in enumerate([*names.between[body], name], first):
        made.append(_joint(compiled, names, joint, parent, child, steps, followers.get(joint, {})))
        parent, steps = child, ()
    return made


def _refuse_drive(model: Any, joint: int, where: str) -> None:
    """Refuse a free joint with a drive, which a free base does not have."""
    rows = slice(int(model.jnt_dofadr[joint]), int(model.jnt_dofadr[joint]) + 6)
    for attribute in HELD.values():
        if np.any(getattr(model, f"dof_{attribute}")[rows]):
            raise DescriptionError(
                f"{where} is free and has {attribute}; a free base has no drive: remove it"
            )


def _joint(
    compiled: Compiled,
    names: _Names,
    joint: int,
    parent: str,
    child: str,
    steps: Steps,
    follower: dict[str, Any],
) -> LooseJoint:
    model, notices = compiled.model, compiled.notices
    body = int(model.jnt_bodyid[joint])
    place = f"{compiled.where[body]}: joint {names.joints[joint]!r}"
    slides = model.jnt_type[joint] == mujoco.mjtJoint.mjJNT_SLIDE
    limited = bool(model.jnt_limited[joint])
    kind = "prismatic" if slides else "revolute" if limited else "continuous"
    turn, motion, sign, back = motion_along(kind, model.jnt_axis[joint], place, notices)
    to_anchor: Steps = () if slides else steps_from_rpy(model.jnt_pos[joint], np.zeros(3), place)
    # the file's positions are those at q = ref
    ref = float(model.qpos0[model.jnt_qposadr[joint]])
    ref = ref if slides else snap_angle(ref, f"{place}, ref", notices)
    terms, gear, effort = _drive(model, joint)
    lower, upper = model.jnt_range[joint] if limited else (-math.inf, math.inf)
    about = (names.joints[joint], compiled.where[body], kind, parent, child)
    before = tidy_steps((*steps, *to_anchor, *turn, Step(motion, -sign * ref)))
    after = tidy_steps((*back, *inverse_steps(to_anchor)))
    limits, drive = Limits(float(lower), float(upper), math.inf, effort), Drive(gear_ratio=gear)
    return LooseJoint(
        *about,
        before,
        motion,
        sign,
        after,
        limits=limits,
        drive_values=terms,
        drive=drive,
        **follower,
    )


def _drive(model: Any, joint: int) -> tuple[dict[str, float], float, float]:
    """Return drive terms that are not zero, the gear ratio and the effort limit of a joint."""
    dof = int(model.jnt_dofadr[joint])
    terms = {
        symbol: float(getattr(model, f"dof_{attribute}")[dof]) for symbol, attribute in HELD.items()
    }
    gear, effort = 1.0, math.inf
    if model.jnt_actfrclimited[joint]:
        effort = float(np.abs(model.jnt_actfrcrange[joint]).max())
    for actuator in range(model.nu):
        if model.actuator_trnid[actuator][0] != joint:
            continue
        own = float(model.actuator_gear[actuator][0])
        for symbol, field in (("Ia", "actuator_armature"), ("Fv", "actuator_damping")):
            values = getattr(model, field, None)
            if values is not None:
                terms[symbol] += own * own * float(np.ravel(values[actuator])[0])
        kinds = (
            model.actuator_gaintype[actuator],
            model.actuator_biastype[actuator],
            model.actuator_dyntype[actuator],
        )
        if kinds == _MOTOR and own != 0.0:
            gear = own
        if model.actuator_forcelimited[actuator] and own != 0.0:
            effort = min(
                effort, abs(own) * float(np.abs(model.actuator_forcerange[actuator]).max())
            )
    return (
        {symbol: value for symbol, value in terms.items() if value != 0.0},
        gear,
        effort or math.inf,
    )


def _followers(compiled: Compiled, names: _Names) -> dict[int, dict[str, Any]]:
    """Return, for joints that an equality constraint ties to another, the rule.

    q1 - ref1 = poly(q2 - ref2).
    """
    model = compiled.model
    found: dict[int, dict[str, Any]] = {}
    off = model.opt.disableflags & mujoco.mjtDisableBit.mjDSBL_EQUALITY
    for index in () if off else np.flatnonzero(model.eq_active0):
        joint, leader = int(model.eq_obj1id[index]), int(model.eq_obj2id[index])
        if joint in found:
            raise DescriptionError(
                f"{compiled.path}: joint {names.joints[joint]!r} is tied by two joint "
                "constraints; expected one"
            )
        a = [float(value) for value in model.eq_data[index][:5]]
        ref = float(model.qpos0[model.jnt_qposadr[joint]])
        shift = float(model.qpos0[model.jnt_qposadr[leader]])
        if leader < 0:
            found[joint] = {"leaders": {}, "offset": ref + a[0]}
        elif not any(a[2:]):
            found[joint] = {
                "leaders": {names.joints[leader]: a[1]},
                "offset": ref + a[0] - a[1] * shift,
            }
        else:
            x = _formula_name(names, leader)
            x = f"({x} - {shift!r})" if shift else x
            powers = " + ".join(
                f"({c!r})*" + "*".join([x] * power) for power, c in enumerate(a) if power and c
            )
            found[joint] = {"formula": f"{ref + a[0]!r} + {powers}"}
    return found


def _formula_name(names: _Names, joint: int) -> str:
    name = names.joints[joint]
    if name.isidentifier() and name not in (*FUNCTIONS, "pi"):
        return name
    number = f"q{joint + 1}"
    if number in names.joints:
        raise DescriptionError(
            f"joint {name!r} leads another by a polynomial and {number!r} is another joint's "
            "name; rename one of them"
        )
    return number


def _tell_what_is_left_out(compiled: Compiled, names: _Names) -> None:
    model, notices = compiled.model, compiled.notices
    springs = [names.joints[i] for i in range(model.njnt) if model.jnt_stiffness[i] != 0]
    if springs:
        text = f"joint springs are left out (stiffness of {', '.join(map(repr, springs))})"
        notices.append(SPRINGS(text, joints=springs))
    if np.any(getattr(model, "dof_dampingpoly", 0)):
        notices.append(
            DAMPING(
                "damping that is not proportional to speed is left out; its proportional part is "
                "kept"
            )
        )
    lifted = [names.bodies[i] for i in range(model.nbody) if model.body_gravcomp[i] != 0]
    if lifted:
        text = f"gravity compensation is left out (gravcomp of {', '.join(map(repr, lifted))})"
        notices.append(GRAVITY_COMPENSATION(text, bodies=lifted))
    if model.opt.density or model.opt.viscosity:
        notices.append(
            FLUID("forces of a surrounding fluid (option density, viscosity) are left out")
        )
