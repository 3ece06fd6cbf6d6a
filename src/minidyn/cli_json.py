"""A robot as plain data for `minidyn show --json`: unknown and unlimited values are null."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from minidyn.model.geometry import Step
from minidyn.model.joint import Joint, Limits
from minidyn.model.load.toml_place import mdh_slots
from minidyn.model.robot import Link, Robot

__all__ = ["robot_data"]


def robot_data(robot: Robot) -> dict[str, Any]:
    """Return everything that describes a robot, as JSON can hold it."""
    return {
        "name": robot.name,
        "source": robot.source,
        "notices": list(robot.notices),
        "fingerprint": robot.fingerprint,
        "n": robot.n,
        "joint_names": list(robot.joint_names),
        "gravity": _plain(robot.gravity),
        "base": {"name": robot.base_name, "placement": _plain(robot.base_placement)},
        "symbols": {name: _plain(value) for name, value in robot.symbols},
        "joints": [_joint(robot, index, joint) for index, joint in enumerate(robot.joints)],
        "links": [_link(link) for link in robot.links],
        "frames": [
            {"name": frame.name, "link": _name(robot, frame.link), "placement": _plain(frame.placement)}
            for frame in robot.frames
        ],
        "loops": [
            {
                "name": loop.name,
                "kind": loop.kind,
                "a": {"link": _name(robot, loop.link_a), "steps": _steps(loop.steps_a)},
                "b": {"link": _name(robot, loop.link_b), "steps": _steps(loop.steps_b)},
                "passive": list(loop.passive),
                "start": _plain(loop.start),
                "home": {name: _plain(value) for name, value in loop.home},
            }
            for loop in robot.loops
        ],
        "parameters": {name: _plain(value) for name, value in zip(robot.parameter_names, robot.values)},
    }


def _joint(robot: Robot, index: int, joint: Joint) -> dict[str, Any]:
    row = mdh_slots(joint)
    follows = joint.follows
    return {
        "name": joint.name,
        "kind": joint.kind,
        "parent": _name(robot, joint.parent),
        "child": robot.link_names[index],
        "independent": joint.name in robot.joint_names,
        "placement": _plain(joint.placement),
        "axis": None if joint.kind == "fixed" else _plain(joint.axis),
        "mdh": None if row is None or joint.kind == "fixed" else {key: _plain(step.value) for key, step in row},
        "steps": {"before": _steps(joint.before), "motion": joint.motion, "direction": joint.direction}
        | {"after": _steps(joint.after)},
        "limits": _limits(joint.limits),
        "follows": follows
        and {
            "terms": {name: _plain(ratio) for name, ratio in follows.terms},
            "offset": _plain(follows.offset),
            "formula": follows.formula or None,
            "passive": follows.passive,
        },
        "drive": {
            "terms": {column.symbol: _plain(robot.values[column.index]) for column in robot.layout.drives[index]},
            "gear_ratio": joint.drive.gear_ratio,
            "sign_width": joint.drive.sign_width,
            "coupling": {name: _plain(value) for name, value in joint.drive.coupling},
        },
    }


def _link(link: Link) -> dict[str, Any]:
    report = link.realizability
    return {
        "name": link.name,
        "joint": link.joint,
        "merged": list(link.frames),
        "mass": _plain(link.mass),
        "com": _plain(link.com),
        "inertia": _plain(link.inertia),
        "pseudo_inertia": _plain(link.pseudo_inertia),
        "realizable": report.realizable,
        "smallest_eigenvalue": _plain(report.smallest_eigenvalue),
        "reason": report.reason,
    }


def _limits(limits: Limits) -> dict[str, Any]:
    return {key: _plain(getattr(limits, key)) for key in ("lower", "upper", "velocity", "effort")}


def _steps(steps: Iterable[Step]) -> list[dict[str, Any]]:
    return [
        {"kind": step.kind, "value": _plain(step.value)}
        | ({"symbol": step.symbol, "factor": step.factor} if step.symbol else {})
        for step in steps
    ]


def _name(robot: Robot, link: int) -> str:
    return robot.base_name if link < 0 else robot.link_names[link]


def _plain(value: ArrayLike) -> Any:
    """Return numbers as JSON numbers, NaN and infinity as null."""
    array = np.asarray(value, dtype=float)
    if array.ndim == 0:
        number = float(array)
        return number if math.isfinite(number) else None
    return [_plain(part) for part in array]
