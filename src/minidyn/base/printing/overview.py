"""A base map at a glance.

Table, figure, units, and in a few words why a standard parameter has no effect.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from minidyn.base.numeric.own_rows import OWN
from minidyn.base.rows import MODELS
from minidyn.display import DisplayTable, new_figure
from minidyn.errors import optional
from minidyn.model.drives import FRICTION, ROTOR
from minidyn.model.joint import unit_of
from minidyn.model.placements import joints_to
from minidyn.model.robot import BASE_ROWS, Robot

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from minidyn.base.base_map import BaseMap


def table(base: BaseMap) -> DisplayTable:
    """Return the base parameters as a table: name, formula, value, unit."""
    columns = {
        "base parameter": base.names,
        "made of": [relation.formula() for relation in base.relations()],
        "value": base.known_values.tolist(),
        "unit": units(base),
    }
    return DisplayTable(repr(base), columns, notices=base.notices)


def units(base: BaseMap) -> list[str]:
    """Return the units of the base parameters; "" where they are not named after a standard one."""
    robot = base.robot
    if base.model == OWN:
        return [""] * base.rank
    columns = [robot.layout.columns[robot.layout.index(name)] for name in base.kept]
    return [
        unit_of(column.symbol, robot.joints[column.joint]) if base.rows is None else ""
        for column in columns
    ]


def plot(base: BaseMap) -> Figure:
    """Return a figure of the map (b, p).

    Its coefficients as colours, columns without effect left out.
    """
    norm = optional("matplotlib.colors").SymLogNorm

    used = np.flatnonzero(np.any(base.matrix, axis=0))
    values = base.matrix[:, used]
    size = float(np.abs(values).max(initial=1.0))
    figure, axes = new_figure(
        repr(base), 1, 0.17 * base.rank + 1.2, width=max(7.0, 0.17 * len(used) + 2.5)
    )
    axis = axes[0]
    axis.grid(visible=False)
    drawn = axis.imshow(values, aspect="auto", cmap="RdBu", norm=norm(0.01, vmin=-size, vmax=size))
    axis.set_yticks(range(base.rank), base.names, fontsize=7)
    axis.set_xticks(
        range(len(used)), [base.robot.layout.names[k] for k in used], rotation=90, fontsize=7
    )
    axis.set_xlabel("standard parameter")
    axis.set_ylabel("base parameter")
    figure.colorbar(drawn, ax=axis, label="coefficient", fraction=0.03, pad=0.01)
    return figure


def reason(base: BaseMap, name: str) -> str:
    """Return why parameter `name`, which the map lists as eliminated, takes no part."""
    robot = base.robot
    if base.columns is not None and name not in base.columns:
        return "it was not asked about"
    if base.model == OWN:
        return "its column is zero"
    column = robot.layout.columns[robot.layout.index(name)]
    link = robot.link_names[column.joint]
    if column.is_friction and not (base.model in MODELS and MODELS[base.model].friction):
        return f"friction takes no part in the {base.model} model"
    if base.model == "gravity" and column.symbol not in ("MX", "MY", "MZ", "M"):
        return "the gravity load has no part of it"
    if not column.is_inertial:
        if column.symbol == FRICTION["load"] and column.joint in _moving_joints(robot, base.joints):
            return f"gravity never loads the drive of joint {robot.joints[column.joint].name!r}"
        what = "rotor" if column.symbol == ROTOR else "drive"
        return f"the {what} of joint {robot.joints[column.joint].name!r} does not move"
    moving = _moving_joints(robot, base.joints)
    path = [joint for joint in joints_to(robot, column.joint) if joint in moving]
    if not path:
        return f"link {link!r} does not move"
    if base.model == "gravity":
        return "gravity does no work on it"
    if column.symbol == "M":
        return f"the origin of link {link!r} does not move"
    if not any(robot.joints[joint].turns for joint in path):
        return f"link {link!r} never turns"
    if column.symbol in ("MX", "MY", "MZ"):
        return (
            f"neither gravity nor an acceleration of the origin of link {link!r} makes it felt at "
            "a joint"
        )
    return (
        f"link {link!r} turns about one direction only, and this is not its moment of inertia "
        "about it"
    )


def _moving_joints(robot: Robot, joints: tuple[str, ...] | None) -> set[int]:
    """Return the indices of the joints that move when only these independent ones are driven.

    None: all.
    """
    names = set(robot.joint_names if joints is None else joints)
    moving = set()
    for index, joint in enumerate(robot.joints):
        if joint.kind == "fixed":
            continue
        if joint.floats:
            driven = not names.isdisjoint(robot.joint_names[: len(BASE_ROWS)])
        elif joint.follows is None:
            driven = joint.name in names or joint.name not in robot.joint_names
        else:
            driven = bool(joint.follows.formula) or any(
                leader in names for leader, _ in joint.follows.terms
            )
        if driven:
            moving.add(index)
    return moving
