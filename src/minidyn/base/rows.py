"""Rows of each model at many states at once, and the table of models.

Joint torques, torques at rest, energy. A base parameter is a combination of columns that these rows
can tell from others; how many rows and which numbers is the caller's choice. Doubles, doubles that
hold integers modulo primes, and decimals go through the same array operations: all states, links
and joints together, in the base frame, with link frames at the end.

With A = [ω̇×] + [ω×][ω×] a link's force and moment are f = M a + A [MX MY MZ], n = J ω̇ + ω × J ω +
[MX MY MZ] × a; the twist that unit speed of joint j gives link i meets them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from minidyn.arrays import Array
from minidyn.dynamics.drives import (
    Shapes,
    drive_columns,
    drive_ratios,
    has_load,
    memory_columns,
    some_parameters,
)
from minidyn.dynamics.energy import kinetic_columns, potential_columns
from minidyn.dynamics.loads import drive_loads
from minidyn.dynamics.tree import Coordinates, Tree
from minidyn.dynamics.vectors import Scalar, Turn, add, cross, turn_columns
from minidyn.model.drives import BREAKAWAY
from minidyn.model.robot import Robot

Stack = NDArray[Any]


def _unchanged(values: Any) -> Any:
    return values


@dataclass(frozen=True)
class Arithmetic:
    """How scalars of a number system stand in arrays."""

    shape: tuple[int, ...]  # leading axes: one number for each state (and prime, or set of lengths)
    dtype: type = float  # of the arrays
    # what makes sums of up to six products small again (remainders); nothing for real numbers
    reduced: Callable[[Stack], Stack] = _unchanged
    raw: Callable[[Scalar], Any] = _unchanged  # the array behind a scalar; plain 0 and ±1 may stay

    def zeros(self, *shape: int) -> Stack:
        """An array with these axes behind the leading ones."""
        return np.zeros((*self.shape, *shape), dtype=self.dtype)

    def column(self, value: Scalar) -> Any:
        """The array behind a scalar with one more axis."""
        raw = self.raw(value)
        return raw[..., None] if isinstance(raw, np.ndarray) else raw


def state_kinds(robot: Robot, c: Coordinates) -> list[tuple[tuple[object, ...], float]]:
    """Return for each memory column (what its state is a function of, the sign it has there).

    Drives whose motions are proportional have the same state where their travels are in the same
    proportion; breakaway, which has no sign, where they move alike. A drive that stands still has
    the sign 0.
    """
    found: list[tuple[tuple[object, ...], float]] = []
    for column in memory_columns(robot):
        speed: dict[int, float] = {}
        plain = True
        for other, ratio in drive_ratios(robot, column.joint).items():
            for k, factor in c.G[other].items():
                plain = plain and isinstance(factor, int | float)
                speed[k] = speed.get(k, 0.0) + ratio * (float(factor) if plain else 1.0)
        form = sorted((k, value) for k, value in speed.items() if value)
        if not plain or not form:
            found.append(((column.symbol, column.joint), 1.0 if form else 0.0))
            continue
        lead, joint = form[0][1], robot.joints[column.joint]
        rested, travel = column.symbol == BREAKAWAY, joint.drive.travel(column.symbol)
        rests = rested * abs(lead) / joint.rest_speed
        same = (
            tuple((k, f"{value / lead:.9g}") for k, value in form),
            f"{travel / abs(lead):.9g}",
            f"{rests:.9g}",
        )
        found.append(((column.symbol, *same), 1.0 if lead > 0 or rested else -1.0))
    return found


def some_states(robot: Robot, c: Coordinates, shape: tuple[int, ...]) -> list[Array]:
    """Return arbitrary states of all memory columns, equal where they are one function of the
    motion.

    For questions on the structure of the model: the motion before may have led to any of them.
    """
    rng, drawn = np.random.default_rng(1), dict[tuple[object, ...], Array]()
    found = []
    for kind, sign in state_kinds(robot, c):
        if kind not in drawn:
            drawn[kind] = rng.uniform(-1.0, 1.0, shape)
        found.append(sign * drawn[kind])
    return found


def torque_rows(
    robot: Robot,
    tree: Tree,
    c: Coordinates,
    kind: Arithmetic,
    friction: bool = True,
    shapes: Shapes | None = None,
) -> Stack:
    """Return the regressor (..., n, p), of independent joints and standard columns, in the numbers
    of tree and c.

    Shapes of friction are given where the caller knows better than real arithmetic (exact numbers).

    Implements: Gautier1991 eq. (5)-(8) and, through G, the closed loops' d_c = d_a + Gᵀ d_p.
    """
    every = _rigid_rows(tree, c, kind)
    inertial = [k for part in robot.layout.links for k in range(part.start, part.stop)]
    all_move = robot.n == len(robot.joints) and not robot.free_base
    if len(inertial) == len(robot.layout) and all_move:
        return every
    if friction and shapes is None:
        loads = None
        if has_load(robot):
            phi = some_parameters(robot)
            loads = drive_loads(
                robot, tree, c, [list(phi[part]) for part in robot.layout.links], phi.tolist()
            )
        shapes = Shapes(robot, c.q, loads, some_states(robot, c, kind.shape))
    rows = kind.zeros(robot.n, len(robot.layout))
    if all_move:
        rows[..., inertial] = every
    else:
        for joint, row in enumerate(c.G):
            for k, factor in row.items():
                own = every[..., joint, :]
                rows[..., k, inertial] += (
                    own if _is_one(factor) else kind.reduced(kind.column(factor) * own)
                )
    for column in drive_columns(robot, c.dq, c.ddq, shapes if friction else None):
        for joint, ratio in column.ratios.items():
            for k, factor in c.G[joint].items():
                value = column.value if ratio == 1 else ratio * column.value
                rows[..., k, column.index] += kind.raw(value if _is_one(factor) else factor * value)
    return kind.reduced(rows)


def energy_rows(robot: Robot, tree: Tree, c: Coordinates, kind: Arithmetic) -> Stack:
    """Return the energy (..., p) of unit parameters, kinetic and potential, rotors included.

    Implements: Gautier1991 eq. (10).
    """
    rows = kind.zeros(len(robot.layout))
    for part, moving, resting in zip(
        robot.layout.links, kinetic_columns(tree, c.dq), potential_columns(tree)
    ):
        for offset, (kinetic, potential) in enumerate(zip(moving, resting)):
            rows[..., part.start + offset] = kind.raw(kinetic + potential)
    # with speeds for accelerations Ia's column is the speed; friction takes no part
    for column in drive_columns(robot, c.dq, c.dq, None):
        rows[..., column.index] = kind.raw(0.5 * (column.value * column.value))
    return rows


def _rigid_rows(tree: Tree, c: Coordinates, kind: Arithmetic) -> Stack:
    """Return the regressor of all joints without drives (..., joints, 10 links).

    The six rows of a free base stand behind those of the joints; vectors are in its frame.
    """
    reduced, moves, n = kind.reduced, tree.moves, len(tree.moves)
    parents = [move.parent + 1 for move in moves]
    turning: Stack = np.array([[int(move.turning)] for move in moves], dtype=kind.dtype)
    sliding: Stack = np.array(
        [[int(not move.turning and not move.fixed)] for move in moves], dtype=kind.dtype
    )
    path: Stack = np.zeros((n, n), dtype=kind.dtype)  # which joints move which link
    for k, move in enumerate(moves):
        path[k, k] = 1
        if move.parent >= 0:
            path[k] += path[move.parent]
    frames = _frames(tree, kind)
    own, above = frames[..., 1:, :, :], frames.take(parents, axis=-3)
    speeds = _filled([c.dq[:n], c.ddq[:n]], kind)
    axis = reduced(own @ _filled([move.axis for move in moves], kind)[..., None])[..., 0]
    shift = reduced(above @ _filled([move.shift for move in moves], kind)[..., None])
    origin = shift[..., 0]
    lever = None
    if any(move.lever is not None for move in moves):
        lever = reduced(own @ _filled([move.lever or [0, 0, 0] for move in moves], kind)[..., None])
        origin = origin + lever[..., 0]
    origin = reduced(path @ origin)  # of each link; the joint's own is the lever before it
    joint = origin if lever is None else reduced(origin - lever[..., 0])

    # motion of all links (w, dw, a): sums along the path of what each joint adds
    gain = axis * speeds[..., 0, :, None], axis * speeds[..., 1, :, None]
    motion = kind.zeros(n + 1, 3, 3)  # the base first
    if tree.axes is not None:
        (v, w), (dv, dw) = tree.root_vectors(c.dq), tree.root_vectors(c.ddq)
        motion[..., :, :, :] = reduced(_filled([w, dw, add(dv, cross(w, v))], kind))[
            ..., None, :, :
        ]
    motion[..., 1:, 0, :] = reduced(motion[..., 1:, 0, :] + path @ (turning * reduced(gain[0])))
    carried = reduced(
        _skewed(motion[..., 0, :].take(parents, axis=-2)) @ reduced(gain[0])[..., None]
    )[..., 0]
    motion[..., 1:, 1, :] = reduced(
        motion[..., 1:, 1, :] + path @ reduced(turning * (gain[1] + carried))
    )
    A = _rates(motion, _ACCELERATIONS, kind).reshape(*motion.shape)
    added = (A.take(parents, axis=-3) @ shift)[..., 0] + sliding * (gain[1] + 2 * carried)
    if lever is not None:
        added = reduced(added) + (A[..., 1:, :, :] @ lever)[..., 0]
    gravity = _filled([tree.gravity], kind)
    motion[..., 1:, 2, :] = reduced(motion[..., 1:, 2, :] + path @ reduced(added) - gravity)

    # what unit speed of joint j gives link i: w = z, v = z × (origin of link i - origin of joint
    # j), in link frames
    across = _skewed(axis)
    twist = kind.zeros(n, n, 2, 3)
    twist[..., 0, :] = (turning * axis)[..., None, :, :]
    moved = (across @ joint[..., None])[..., None, :, :, 0]
    spread = np.swapaxes(across, -1, -2).swapaxes(-3, -2).reshape(*across.shape[:-3], 3, 3 * n)
    reach = (origin @ spread).reshape(*origin.shape[:-1], n, 3)
    twist[..., 1, :] = reduced(turning * (reach - moved) + sliding * axis[..., None, :, :])
    if tree.axes is not None:
        twist = np.concatenate([twist, _root_twists(origin, kind)], axis=-3)
        path = np.concatenate([path, np.ones((n, 6), dtype=kind.dtype)], axis=1)
    twist = reduced(twist.reshape(*kind.shape, n, -1, 3) @ own).reshape(*kind.shape, n, -1, 6)
    wrenches = _rates(reduced(motion[..., 1:, :, :] @ own), _WRENCHES, kind).reshape(
        *kind.shape, n, 6, 10
    )
    blocks = reduced(twist @ wrenches) * path[:, :, None]  # (..., link, joint, ten)
    rows: Stack = np.moveaxis(blocks, -3, -2).reshape(*kind.shape, -1, 10 * n)
    return rows


def _root_twists(origin: Stack, kind: Arithmetic) -> Stack:
    """Return what unit rates of a free base give links at these origins (..., links, 6, 2, 3)."""
    twist = kind.zeros(origin.shape[-2], 6, 2, 3)
    twist[..., 3:, 0, :] = twist[..., :3, 1, :] = _EYE
    twist[..., 3:, 1, :] = _skewed(origin)  # rows of [o×] are e × o
    return twist


def _frames(tree: Tree, kind: Arithmetic) -> Stack:
    """Return link to base (..., links + 1, 3, 3), the base first."""
    n = len(tree.moves)
    frames = kind.zeros(n + 1, 3, 3)
    frames[..., 0, :, :] = _EYE
    before, after = [], []  # constant turns around the one that differs from state to state
    for number, move in enumerate(tree.moves):
        first = next(
            (k for k, turn in enumerate(move.turns) if not isinstance(turn[1], int | float)),
            len(move.turns),
        )
        before.append(_entries(move.turns[:first]))
        after.append(_entries(move.turns[first + 1 :]))
        turn = frames[..., number + 1, :, :]
        k, cosine, sine = move.turns[first] if first < len(move.turns) else (0, 1, 0)
        i, j, c, s = (k + 1) % 3, (k + 2) % 3, kind.raw(cosine), kind.raw(sine)
        turn[..., k, k], turn[..., i, i], turn[..., j, j], turn[..., i, j], turn[..., j, i] = (
            1,
            c,
            c,
            -s,
            s,
        )
    for left, turns in ((True, before), (False, after)):
        if any(entries is not _SAME for entries in turns):
            constant = _filled(turns, kind)
            constant = constant.reshape(*constant.shape[:-1], 3, 3)
            own = frames[..., 1:, :, :]
            frames[..., 1:, :, :] = kind.reduced(constant @ own if left else own @ constant)
    for k, move in enumerate(tree.moves):
        if move.parent >= 0:
            frames[..., k + 1, :, :] = kind.reduced(
                frames[..., move.parent + 1, :, :] @ frames[..., k + 1, :, :]
            )
    return frames


_SAME: list[Scalar] = [1, 0, 0, 0, 1, 0, 0, 0, 1]
_EYE = np.eye(3, dtype=int)


def _entries(turns: Sequence[Turn]) -> list[Scalar]:
    """The product of turns, row by row."""
    if not turns:
        return _SAME
    if len(turns) == 1:
        k, cosine, sine = turns[0]
        i, j, made = (k + 1) % 3, (k + 2) % 3, list(_SAME)
        made[4 * i], made[4 * j], made[3 * i + j], made[3 * j + i] = cosine, cosine, -sine, sine
        return made
    columns = turn_columns(turns, ([1, 0, 0], [0, 1, 0], [0, 0, 1]))
    return [columns[i][j] for j in range(3) for i in range(3)]


def _linear(entries: str) -> NDArray[np.float64]:
    """Return the matrix (15, entries) of linear forms in wx wx, wx wy, ..., wz wz, dwx, dwy, dwz,
    ax, ay, az.
    """
    names = [
        "xx",
        "xy",
        "xz",
        "yx",
        "yy",
        "yz",
        "zx",
        "zy",
        "zz",
        "dx",
        "dy",
        "dz",
        "ax",
        "ay",
        "az",
    ]
    matrix = np.zeros((15, len(entries.split())))
    for column, form in enumerate(entries.split()):
        for sign, name in zip(form[0::3], (form[k : k + 2] for k in range(1, len(form), 3))):
            if name != "00":
                matrix[names.index(name), column] = 1 if sign == "+" else -1
    return matrix


_ACCELERATIONS = _linear(
    """-yy-zz +xy-dz +zx+dy
       +xy+dz -xx-zz +yz-dx
       +zx-dy +yz+dx -xx-yy"""
)
"""A = [ω̇×] + [ω×][ω×], row by row."""

_WRENCHES = _linear(
    """+dx +dy-zx +xy+dz -yz +yy-zz +yz +00 +az -ay +00
       +zx +yz+dx +zz-xx +dy +dz-xy -zx -az +00 +ax +00
       -xy +xx-yy +dx-yz +xy +zx+dy +dz +ay -ax +00 +00
       +00 +00 +00 +00 +00 +00 -yy-zz +xy-dz +zx+dy +ax
       +00 +00 +00 +00 +00 +00 +xy+dz -xx-zz +yz-dx +ay
       +00 +00 +00 +00 +00 +00 +zx-dy +yz+dx -xx-yy +az"""
)
"""Moment (three rows) and force of unit XX, XY, XZ, YY, YZ, ZZ, MX, MY, MZ, M."""

_SKEW = np.array(
    [[0, 0, 0, 0, 0, -1.0, 0, 1, 0], [0, 0, 1, 0, 0, 0, -1, 0, 0], [0, -1, 0, 1, 0, 0, 0, 0, 0]]
)


def _rates(motion: Stack, forms: NDArray[np.float64], kind: Arithmetic) -> Stack:
    """Return linear forms of the products of w, of dw and of a, for w, dw, a (..., 3, 3)."""
    w = motion[..., 0, :]
    products = kind.reduced(w[..., :, None] * w[..., None, :]).reshape(*w.shape[:-1], 9)
    values = np.concatenate([products, motion[..., 1, :], motion[..., 2, :]], axis=-1)
    return kind.reduced(
        values @ (forms if kind.dtype is float else forms.astype(int).astype(kind.dtype))
    )


def _skewed(vectors: Stack) -> Stack:
    """The matrices [v×]."""
    matrices: Stack = (vectors @ (_SKEW if vectors.dtype == float else _SKEW.astype(int))).reshape(
        *vectors.shape, 3
    )
    return matrices


def _is_one(value: Scalar) -> bool:
    return isinstance(value, int | float) and value == 1


def _filled(rows: Sequence[Sequence[Scalar]], kind: Arithmetic) -> Stack:
    """Return scalars (rows, columns) as an array, with leading axes where they vary."""
    raw = [kind.raw(value) for row in rows for value in row]
    shape = len(rows), len(rows[0])
    if np.ndarray not in map(type, raw):
        return np.array(raw, dtype=kind.dtype).reshape(shape)
    found = kind.zeros(*shape)
    for place, value in enumerate(raw):
        if type(value) is np.ndarray or value != 0:
            found[..., place // shape[1], place % shape[1]] = value
    return found


@dataclass(frozen=True)
class Model:
    """What is observed of a robot: all that the methods need to find the base parameters of it."""

    description: str  # a few words for help texts
    # from a robot, its geometry and coordinates, the kind of their numbers and the shapes of
    # friction to rows (..., samples, joints or 1, p)
    rows: Callable[[Robot, Tree, Coordinates, Arithmetic, Shapes | None], Stack]
    speeds: bool = True  # whether joints have speeds
    friction: bool = True  # whether friction takes part
    each_joint: bool = True  # whether there is a row for each joint; else one for the robot
    differences: bool = False  # whether rows count as differences between two samples alone
    accelerations: bool = True  # whether joints accelerate
    weight: bool = True  # whether gravity acts
    # powers of length and time that make a row's unit, that of mass being 1; beside the torque
    # where each joint has a row
    unit: tuple[int, int] = (0, 0)

    def rows_of(self, joints: int) -> int:
        """Return how many rows a sample has where so many joints are observed."""
        return max(joints, 1) if self.each_joint else 1


def _resting(c: Coordinates) -> Coordinates:
    still: list[Scalar] = [0] * len(c.dq)
    return replace(c, dq=still, ddq=still)


MODELS: Mapping[str, Model] = MappingProxyType(
    {
        "torque": Model(
            "torques of a motion",
            lambda robot, tree, c, kind, shapes: torque_rows(robot, tree, c, kind, True, shapes),
        ),
        "gravity": Model(
            "torques of gravity at rest",
            lambda robot, tree, c, kind, _: torque_rows(robot, tree, _resting(c), kind, False),
            speeds=False,
            friction=False,
            accelerations=False,
        ),
        "inertia": Model(
            "the inertia matrix",
            lambda robot, tree, c, kind, _: torque_rows(
                robot, replace(tree, gravity=tree.zeros), c, kind, False
            ),
            speeds=False,
            friction=False,
            weight=False,
        ),
        # differences: the height that potential energy is counted from is arbitrary (ERRATA E)
        "energy": Model(
            "differences of energy",
            lambda robot, tree, c, kind, _: energy_rows(robot, tree, c, kind)[..., None, :],
            friction=False,
            each_joint=False,
            differences=True,
            unit=(2, -2),
        ),
        "zero_speed": Model(
            "torques at zero speed, accelerations included: Gautier's d0",
            lambda robot, tree, c, kind, _: torque_rows(robot, tree, c, kind, False),
            speeds=False,
            friction=False,
        ),
    }
)
"""Gautier's d, h and d0 ("torque", "energy", "zero_speed"), Lin's gravity load and inertia matrix,
by name.

A new model is a line here. Torque, energy and zero_speed have the same relations among bodies and
rotors.
"""
