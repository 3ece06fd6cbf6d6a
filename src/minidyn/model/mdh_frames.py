"""Give any tree of rotational and translational joints modified Denavit-Hartenberg frames
(Khalil-Kleinfinger).

Frame i gets z along joint i's axis and x along the common normal to the axis of its first child, so
that a chain needs alpha, a, theta, d alone; further branches, and joints on the base, get gamma and
b too. Frames that already stand that way are left alone, so that most columns of the parameters
stay what they are.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from minidyn.arrays import Array, frozen, known_product
from minidyn.model.canonical import FAR, ROUNDING, as_understood, free_steps
from minidyn.model.geometry import (
    AXES,
    TOLERANCE,
    Step,
    Steps,
    inverse_steps,
    matrix_of,
    tidy_steps,
)
from minidyn.model.joint import Joint, largest_length
from minidyn.model.mdh import mdh_order
from minidyn.model.mdh_rows import MdhRow, check_open, is_mdh, mdh_rows
from minidyn.model.parameters import Layout, transform
from minidyn.text import visible

if TYPE_CHECKING:
    from minidyn.model.robot import Robot


@dataclass(frozen=True, eq=False)
class MdhTable:
    """A robot in modified Denavit-Hartenberg frames (Khalil-Kleinfinger). `str()` gives the table.

    Each row places a link's frame on its parent's: Rz(gamma) Tz(b) Rx(alpha) Tx(a) Rz(theta) Tz(d),
    q added to theta or d.

    Attributes:
        robot: The robot in these frames: the same q, torques and base parameters.
        T: The map (p', p) of standard parameters with phi_mdh = T phi.
        frames: The frame of each moving link seen from the file's frame of that link (n, 4, 4).
    """

    robot: Robot
    T: Array
    frames: Array

    @cached_property
    def rows(self) -> tuple[MdhRow, ...]:
        """The table, a row for each joint: gamma, b, alpha, a, theta, d; rad and m.

        Raises:
            Unsupported: Axes are so nearly parallel that their common normal is far away.
        """
        return mdh_rows(self.robot)

    @property
    def columns(self) -> dict[str, list[object]]:
        """The table by columns; gamma and b where a branch or the first joint needs them."""
        names = [key for key in _COLUMNS if key not in ("gamma", "b") or self._used(key)]
        found: dict[str, list[object]] = {
            "joint": [joint.name for joint in self.robot.joints],
            "on": [self.robot.link_name(joint.parent) for joint in self.robot.joints],
            "type": ["R" if row.turning else "P" for row in self.rows],
        }
        return found | {name: [getattr(row, name) for row in self.rows] for name in names}

    def _used(self, key: str) -> bool:
        return any(getattr(row, key) != 0.0 for row in self.rows)

    def to_json(self) -> dict[str, object]:
        """Return rows, the map of parameters and the frames as plain values for `json.dump`."""
        return {
            "robot": self.robot.name,
            "rows": [
                {"joint": joint.name, "type": "R" if row.turning else "P", "parent": row.parent + 1}
                | {key: getattr(row, key) for key in _COLUMNS}
                for joint, row in zip(self.robot.joints, self.rows)
            ],
            "frames": self.frames.tolist(),
            "T": self.T.tolist(),
        }

    def __str__(self) -> str:
        columns = self.columns
        cells = [list(columns)]
        for row in zip(*columns.values()):
            cells.append([f"{x:.6g}" if isinstance(x, float) else visible(str(x)) for x in row])
        widths = [max(len(row[k]) for row in cells) for k in range(len(cells[0]))]
        return "\n".join(
            "  ".join(cell.rjust(width) for cell, width in zip(row, widths)) for row in cells
        )


_COLUMNS = ("gamma", "b", "alpha", "a", "d", "theta")


def to_mdh(
    robot: Robot,
    what: str = "modified Denavit-Hartenberg frames",
    tolerance: float = TOLERANCE,
) -> tuple[Robot, Array]:
    """Return (robot in modified Denavit-Hartenberg form, T) with phi_mdh = T phi.

    The coordinates q are the same. A load that keeps its own parameters is composed into the link
    it is bolted to, so that T may have fewer rows than columns. A robot in that form already comes
    back itself, with the identity. Axes, placements and the base are arbitrary; loops and joints
    that follow others are refused, saying `what` needs the frames. Axes that are special within the
    tolerance are exactly so (see `minidyn.model.canonical`). Where two axes are so nearly parallel
    that their common normal is far from the robot, the link's origin stays near and its placement
    is general: z is along the axis still, and `is_mdh` says no.
    """
    table = mdh_table(robot, what, tolerance)
    return table.robot, table.T


def mdh_table(
    robot: Robot,
    what: str = "modified Denavit-Hartenberg frames",
    tolerance: float = TOLERANCE,
) -> MdhTable:
    """Return a robot in modified Denavit-Hartenberg frames, and where these are; see `to_mdh`."""
    check_open(robot, what)
    robot = as_understood(robot, tolerance)
    if is_mdh(robot):
        still = np.tile(np.eye(4), (len(robot.joints), 1, 1))
        return MdhTable(robot, frozen(np.eye(len(robot.layout))), frozen(still))
    own, place = _hosts(robot)
    moving = [index for index, joint in enumerate(robot.joints) if joint.kind != "fixed"]
    new = {index: number for number, index in enumerate(moving)}
    new[-1] = -1
    size = largest_length(robot.joints)
    # (point, direction) of each joint's axis in the frame of the moving link that carries it
    lines = {}
    for index in moving:
        joint = robot.joints[index]
        T = place[joint.parent] @ matrix_of(joint.before)
        lines[index] = T[:3, 3], T[:3, AXES.index(joint.motion[1])] * joint.direction

    frames: dict[int, Array] = {-1: np.eye(4)}  # new frame seen from the old one, by old link index
    for index in moving:
        children = [child for child in moving if own[robot.joints[child].parent] == index]
        frames[index] = _frame(robot.joints[index], lines[children[0]] if children else None, size)

    joints = []
    for index in moving:
        joint = robot.joints[index]
        parent = own[joint.parent]
        seen = place[joint.parent] @ matrix_of(joint.before + joint.after)
        T = np.linalg.inv(frames[parent]) @ seen @ frames[index]
        steps = _steps(joint, T, size)
        motion = "rz" if joint.turns else "tz"
        joints.append(
            replace(joint, parent=new[parent], before=steps, motion=motion, direction=1, after=())
        )

    layout = Layout.of(joint.drive for joint in joints)
    T_phi = np.zeros((len(layout), len(robot.layout)))
    for index in range(len(robot.joints)):
        host = own[index]
        if host < 0:
            continue
        # new frame <- old frame of the host <- link
        change = transform(np.eye(10), np.linalg.inv(frames[host]) @ place[index]).T
        change[np.abs(change) < 1e-14 * max(1.0, size * size)] = 0.0
        T_phi[layout.links[new[host]], robot.layout.links[index]] = change
    for index in moving:
        for column, old in zip(layout.drives[new[index]], robot.layout.drives[index]):
            T_phi[column.index, old.index] = 1.0
    changed = replace(
        robot,
        joints=tuple(joints),
        link_names=tuple(robot.link_names[index] for index in moving),
        parameters=known_product(T_phi, robot.parameters),
        frames=(),
        symbols=(),
    )
    return MdhTable(changed, frozen(T_phi), frozen([frames[index] for index in moving]))


def _hosts(robot: Robot) -> tuple[dict[int, int], dict[int, Array]]:
    """For every link, the moving link it belongs to (loads belong to their carrier) and its frame
    seen from it.
    """
    own, place = {-1: -1}, {-1: np.eye(4)}
    for index, joint in enumerate(robot.joints):
        if joint.kind == "fixed":
            own[index] = own[joint.parent]
            place[index] = place[joint.parent] @ matrix_of(joint.before + joint.after)
        else:
            own[index], place[index] = index, np.eye(4)
    return own, place


def _frame(joint: Joint, child: tuple[Array, Array] | None, size: float) -> Array:
    """The new frame of a link, seen from its old one.

    z along its axis, x along the normal to the child's axis.
    """
    old = matrix_of(inverse_steps(joint.after))
    z, origin = joint.axis, old[:3, 3]
    x = None
    if child is not None:
        point, w = child
        reach = point - origin
        normal = np.cross(z, w)
        sine = float(np.linalg.norm(normal))
        if sine > ROUNDING:
            x = normal / sine
            # foot on our axis of the common normal
            along = float(np.linalg.det(np.array([reach, w, normal]))) / sine**2
            if FAR * size >= abs(along) > 1e-12 * size:
                origin = origin + along * z
            length = float((point - origin) @ x)
            # where the axes meet, of two opposite normals the one whose largest component is
            # positive
            back = length < 0.0 if abs(length) > 1e-12 * size else x[np.argmax(np.abs(x))] < 0.0
            x = -x if back else x
        else:
            across = reach - float(reach @ z) * z
            length = float(np.linalg.norm(across))
            if length > 1e-9 * size:
                x = across / length
    if (
        x is None
    ):  # any x serves: the coordinate axis after the one nearest to z, made perpendicular
        main = int(np.argmax(np.abs(z)))
        seed = np.zeros(3)
        seed[(main + 1) % 3] = 1.0
        x = seed - float(seed @ z) * z
        x = x / np.linalg.norm(x)
    x = x - float(x @ z) * z  # a short normal is perpendicular to few digits
    x = x / np.linalg.norm(x)
    frame = np.eye(4)
    frame[:3, :3] = np.stack([x, np.cross(z, x), z], axis=1)
    frame[:3, 3] = origin
    frame[np.abs(frame) < 1e-15] = 0.0
    return frame


def _steps(joint: Joint, T: Array, size: float) -> Steps:
    """Return a placement as a modified Denavit-Hartenberg row, or freely where that is far away.

    Where a joint stands on the base is of no effect on dynamics: there the turns alone are kept.
    """
    row = _decompose(T, size)
    if max(abs(row["b"]), abs(row["d"])) > 2.0 * FAR * size:
        if joint.parent >= 0:
            return free_steps(T)
        row |= {"b": 0.0, "a": 0.0, "d": 0.0}
    return _row_steps(joint.kind, row)


def _row_steps(kind: str, row: Mapping[str, float]) -> Steps:
    """Return the steps of a row as it is: right angles were decided on the axes."""
    return tidy_steps(Step(motion, row.get(key, 0.0)) for motion, key in mdh_order(kind))


def _decompose(T: Array, size: float) -> dict[str, float]:
    """gamma, b, alpha, a, theta, d with T = Rz(gamma) Tz(b) Rx(alpha) Tx(a) Rz(theta) Tz(d)."""
    w, p = T[:3, 2], T[:3, 3]
    sine = math.hypot(w[0], w[1])
    gamma = b = 0.0
    if sine > ROUNDING:
        # turn about z so that the axis has no x component: (0, -sin alpha, cos alpha)
        gamma = math.atan2(w[0], -w[1])
        if abs(w[0]) <= 1e-12:
            gamma, sine = 0.0, -w[1]
        alpha = math.atan2(sine, w[2])
        c, s = math.cos(gamma), math.sin(gamma)
        across = -s * p[0] + c * p[1]
        # the child's axis passes (a, 0, b): go back along it by d from p
        d = -across / sine
        b = p[2] - d * w[2]
        a = c * p[0] + s * p[1]
    else:
        alpha = 0.0 if w[2] > 0 else math.pi
        if abs(p[1]) > 1e-12 * size:
            gamma = math.atan2(p[1], p[0])
        a = math.hypot(p[0], p[1]) if gamma else p[0]
        d = p[2] * math.copysign(1.0, w[2])
    parts = {"gamma": gamma, "b": b, "alpha": alpha, "a": a, "d": d}
    so_far = matrix_of(_row_steps("revolute", parts))
    rest = np.linalg.inv(so_far) @ T
    parts["theta"] = math.atan2(rest[1, 0], rest[0, 0])
    for key in ("b", "a", "d"):
        if abs(parts[key]) <= 1e-12 * size:
            parts[key] = 0.0
    for key in ("gamma", "alpha", "theta"):
        quarters = round(parts[key] / (math.pi / 2))
        if abs(parts[key] - quarters * (math.pi / 2)) < 1e-12:
            parts[key] = quarters * (math.pi / 2)
    return parts
