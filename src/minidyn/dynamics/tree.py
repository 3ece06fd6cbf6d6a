"""The robot at one state, in the number system of the caller.

Coordinates of all joints, and the tree they place. `coordinates` goes from the independent
coordinates q to all joints, and from the torques of all joints back to tau. With q_all = f(q):
dq_all = G dq, ddq_all = G ddq + Ġ dq, tau = Gᵀ tau_all (Gautier1991, closed loops). Mimic joints
and passive joints given as functions are the same thing here. G is constant unless a formula is not
linear.

`place` turns the constant steps of a robot's joints and its coordinates into `Move`s: for each
joint, the turns and the shift from parent link to child link. Recursions read moves only, so that
they run on floats, on arrays, on graph nodes and on integers modulo a prime.

A free base is link 0, fixed to a root frame that moves: its velocity and acceleration are given in
its own frame, and the world is seen from there. So its position and attitude enter through gravity
alone, and through placements in the world. Its six rates, forces and moments stand behind those of
all joints, linear before angular (`Tree.root_rows`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from minidyn.arrays import Array
from minidyn.dynamics.vectors import (
    Scalar,
    Turn,
    Vector,
    add,
    combined,
    cross,
    dot,
    to_child,
    to_parent,
    weighted_sum,
)
from minidyn.graph import scalar
from minidyn.graph.derivative import derivatives, tangents
from minidyn.graph.node import Node
from minidyn.model.geometry import Step, cos_sin
from minidyn.model.joint import Joint
from minidyn.model.robot import Robot


class Numbers:
    """How constants and coordinates of a robot become scalars.

    Floats, arrays (one value per sample), graph nodes. Other number systems override what they do
    otherwise.
    """

    def number(self, value: float) -> Scalar:
        """A constant that is neither a length nor an angle: gravity, an axis component, a ratio."""
        return value

    def gravity(self, component: float) -> Scalar:
        """A component of the acceleration of gravity."""
        return self.number(component)

    def note(self, quantity: str, link: int, values: Sequence[Scalar]) -> None:
        """Hear of a quantity of a link that a recursion has computed, such as its angular velocity
        "w".
        """

    def length(self, step: Step) -> Scalar:
        """A constant length."""
        return self.number(step.value)

    def turn(self, step: Step) -> tuple[Scalar, Scalar]:
        """(cos, sin) of a constant angle, exact at right angles."""
        return cos_sin(step.value)

    def joint_turn(self, q: Scalar, direction: int, offset: Step | None) -> tuple[Scalar, Scalar]:
        """(cos, sin) of direction · q + offset; whole quarter turns are taken out exactly."""
        constant = 0.0 if offset is None else offset.value
        quarters = round(constant / (math.pi / 2))
        if abs(constant - quarters * (math.pi / 2)) > 1e-12:
            return scalar.cos_sin(q * float(direction) + constant)
        c, s = scalar.cos_sin(q)
        s = s if direction > 0 else -s
        return ((c, s), (-s, c), (-c, -s), (s, -c))[quarters % 4]

    def joint_shift(self, q: Scalar, direction: int) -> Scalar:
        """Direction · q."""
        return q if direction > 0 else -q

    def over_norm(self, norm: Scalar) -> Scalar:
        """2 / (the squared norm of a quaternion), so that one that is not quite unit turns, too."""
        return 2.0 / norm


class NamedLengths(Numbers):
    """Real numbers, but for lengths that the robot's file names.

    Given values, arrays (..., 1) of them, or symbols.
    """

    def __init__(self, values: Mapping[str, Scalar]) -> None:
        self._values = values

    def length(self, step: Step) -> Scalar:
        """A constant length: what was given for its symbol, if anything."""
        return (
            step.factor * self._values[step.symbol] if step.symbol in self._values else step.value
        )


REAL = Numbers()


@dataclass(frozen=True, slots=True)
class Move:
    """From a link's parent to the link."""

    parent: int  # index of the parent link, -1 for the base
    turns: tuple[
        Turn, ...
    ]  # R = product of these turns takes the link's coordinates to the parent's
    # from the parent's origin to the joint's, in the parent's frame; a sliding joint's travel
    # included
    shift: Vector
    lever: (
        Vector | None
    )  # from the joint's origin to the link's, in the link's frame; None where they coincide
    axis: Vector  # of the joint, in the link's frame
    turning: bool  # true for a rotational joint
    fixed: bool  # true for a load that is bolted on

    def vector_to_parent(self, v: Vector) -> Vector:
        """Coordinates in the parent's frame."""
        return to_parent(self.turns, v)

    def vector_to_child(self, v: Vector) -> Vector:
        """Coordinates in the link's frame of a vector given in the parent's."""
        return to_child(self.turns, v)

    def wrench_to_parent(self, force: Vector, moment: Vector) -> tuple[Vector, Vector]:
        """A wrench about the link's origin, about the parent's origin and in its frame."""
        if self.lever is not None:
            moment = add(moment, cross(self.lever, force))
        f = self.vector_to_parent(force)
        return f, add(self.vector_to_parent(moment), cross(self.shift, f))

    def twist_to_child(self, angular: Vector, linear: Vector) -> tuple[Vector, Vector]:
        """A twist at the parent's origin, at the link's origin and in its frame."""
        v = self.vector_to_child(add(linear, cross(angular, self.shift)))
        w = self.vector_to_child(angular)
        return (w, v) if self.lever is None else (w, add(v, cross(w, self.lever)))

    @property
    def unit_twist(self) -> tuple[Vector, Vector]:
        """(angular, linear at the link's origin) that unit joint speed adds, in the link's
        frame.
        """
        zero = [0 * component for component in self.axis]
        if self.fixed:
            return zero, zero
        if not self.turning:
            return zero, self.axis
        return self.axis, zero if self.lever is None else cross(self.axis, self.lever)


@dataclass(frozen=True, slots=True)
class Tree:
    """All moves of a robot at one configuration, with gravity in the base frame."""

    moves: tuple[Move, ...]  # one for each joint, parents first
    gravity: Vector  # acceleration of gravity in the base frame
    base_turns: tuple[Turn, ...]  # base to world
    base_shift: Vector  # base origin in the world
    zero: Scalar  # the number 0 of the number system
    one: Scalar  # the number 1
    note: Callable[
        [str, int, Sequence[Scalar]], None
    ]  # hears of the links' quantities, see `Numbers`
    # of a free base, its axes in the frame that base_turns and base_shift lead from; None: it is
    # fixed
    axes: tuple[Vector, ...] | None = None

    @property
    def root_rows(self) -> range:
        """Where the six rows of a free base stand behind those of all joints; none of a fixed
        one.
        """
        return range(len(self.moves), len(self.moves) + (0 if self.axes is None else 6))

    def root_vectors(self, rates: Sequence[Scalar]) -> tuple[Vector, Vector]:
        """(linear, angular) of a free base, in its frame, from rates of all joints."""
        first = len(self.moves)
        return list(rates[first : first + 3]), list(rates[first + 3 : first + 6])

    def to_world(self, v: Vector) -> Vector:
        """Coordinates in the world of a vector given in the root frame."""
        return to_parent(self.base_turns, v if self.axes is None else combined(self.axes, v))

    def path(self, link: int) -> list[int]:
        """Indices of the joints from `link` down to the base."""
        found = []
        while link >= 0:
            found.append(link)
            link = self.moves[link].parent
        return found

    @property
    def zeros(self) -> Vector:
        """The vector 0."""
        return [self.zero] * 3

    @property
    def units(self) -> list[Vector]:
        """The vectors along x, y and z."""
        return [
            [self.one if row == column else self.zero for row in range(3)] for column in range(3)
        ]


def place(robot: Robot, q_all: Sequence[Scalar], numbers: Numbers = REAL) -> Tree:
    """Return the robot's tree at coordinates q_all, one for each joint in `robot.joints`."""
    if robot.free_base:
        return _place_free(robot, q_all, numbers)
    moves = tuple(_move(joint, q, numbers) for joint, q in zip(robot.joints, q_all))
    turns, shift, _ = _constant(robot.base, numbers)
    gravity = to_child(turns, [numbers.gravity(float(component)) for component in robot.gravity])
    return Tree(
        moves, gravity, turns, shift, numbers.number(0.0), numbers.number(1.0), numbers.note
    )


def _place_free(robot: Robot, q_all: Sequence[Any], numbers: Numbers) -> Tree:
    """Return the tree of a robot with a free base, whose coordinates are position and quaternion.

    Link 0 is the root frame; gravity is seen from there.
    """
    zero, one = numbers.number(0.0), numbers.number(1.0)
    still = [zero] * 3
    root = Move(-1, (), still, None, still, False, True)
    moves = (root, *(_move(j, q, numbers) for j, q in zip(robot.joints[1:], q_all[1:])))
    turns, shift, _ = _constant((*robot.base, *robot.joints[0].before), numbers)
    gravity = to_child(turns, [numbers.gravity(float(component)) for component in robot.gravity])
    axes = quaternion_axes(q_all[0][3:7], numbers)
    return Tree(
        moves,
        [dot(axis, gravity) for axis in axes],
        turns,
        add(shift, to_parent(turns, list(q_all[0][:3]))),
        zero,
        one,
        numbers.note,
        axes,
    )


def quaternion_axes(quaternion: Sequence[Scalar], numbers: Numbers = REAL) -> tuple[Vector, ...]:
    """Return the columns of the rotation matrix of a quaternion (x, y, z, w)."""
    x, y, z, w = quaternion
    one = numbers.number(1.0)
    s = numbers.over_norm(x * x + y * y + z * z + w * w)
    sx, sy, sz = s * x, s * y, s * z
    xx, xy, xz, xw = sx * x, sx * y, sx * z, sx * w
    yy, yz, yw, zz, zw = sy * y, sy * z, sy * w, sz * z, sz * w
    return (
        [one - (yy + zz), xy + zw, xz - yw],
        [xy - zw, one - (xx + zz), yz + xw],
        [xz + yw, yz - xw, one - (xx + yy)],
    )


def constant_placement(steps: Sequence[Step], numbers: Numbers) -> tuple[tuple[Turn, ...], Vector]:
    """Return (turns, shift in the first frame) of constant steps."""
    turns, shift, _ = _constant(steps, numbers)
    return turns, shift


def _move(joint: Joint, q: Scalar, numbers: Numbers) -> Move:
    before, offset = list(joint.before), None
    motion = "xyz".index(joint.motion[1])
    if joint.turns and before and before[-1].kind == joint.motion:
        offset = before.pop()
    turns, shift, _ = _constant(before, numbers)
    if joint.turns:
        turns = (*turns, (motion, *numbers.joint_turn(q, joint.direction, offset)))
    elif joint.slides:
        travel = [numbers.number(0.0)] * 3
        travel[motion] = numbers.joint_shift(q, joint.direction)
        shift = add(shift, to_parent(turns, travel))
    axis = [numbers.number(0.0)] * 3
    axis[motion] = numbers.number(float(joint.direction))
    lever = None
    if joint.after:
        after, _, lever = _constant(joint.after, numbers)
        turns = (*turns, *after)
        axis = to_child(after, axis)
        if all(step.is_turn for step in joint.after):
            lever = None
    return Move(joint.parent, turns, shift, lever, axis, joint.turns, joint.kind == "fixed")


def _constant(steps: Sequence[Step], numbers: Numbers) -> tuple[tuple[Turn, ...], Vector, Vector]:
    """Return (turns, shift in the first frame, shift in the last frame) of constant steps."""
    turns: list[Turn] = []
    last: Vector = [numbers.number(0.0)] * 3
    for step in steps:
        if step.is_turn:
            turn = (step.axis, *numbers.turn(step))
            turns.append(turn)
            last = to_child([turn], last)
        else:
            last[step.axis] = last[step.axis] + numbers.length(step)
    return tuple(turns), to_parent(turns, last), last


Row = dict[int, Scalar]


@dataclass(frozen=True)
class Coordinates:
    """State of all joints."""

    # position of each joint of `robot.joints`; of a free base its position and quaternion (7)
    q: list[Any]
    dq: list[Scalar]  # rates of each joint, and those of a free base behind them
    ddq: list[Scalar]
    G: list[Row]  # for each of these rates, {independent coordinate: what it moves there}
    n: int  # number of independent rates

    def project(self, tau_all: Sequence[Scalar]) -> list[Scalar]:
        """Gᵀ tau_all."""
        tau: list[Scalar] = [0.0] * self.n
        for value, row in zip(tau_all, self.G):
            for column, factor in row.items():
                tau[column] = tau[column] + factor * value
        return tau

    def project_matrix(self, M_all: Sequence[Sequence[Scalar]]) -> list[list[Scalar]]:
        """Gᵀ M_all G for a symmetric M_all.

        One triangle is computed, so that the result is exactly symmetric.
        """
        half = [self.project(row) for row in M_all]
        M: list[list[Scalar]] = [[0.0] * self.n for _ in range(self.n)]
        for j in range(self.n):
            column = self.project([row[j] for row in half])
            for i in range(j, self.n):
                M[i][j] = M[j][i] = column[i]
        return M


def coordinates(
    robot: Robot,
    q: Sequence[Scalar],
    dq: Sequence[Scalar],
    ddq: Sequence[Scalar],
    zero: Any = 0.0,
    along: Sequence[Scalar] | None = None,
) -> Coordinates:
    """Return the state of all joints for independent q, dq, ddq (n scalars each).

    A formula that is not linear needs graph nodes: its derivatives are recorded. Zero is the number
    system's 0. `along` are speeds at which q really moves, where dq is a reference: accelerations
    are then G ddq + Ġ(along) dq.
    """
    if robot.free_base:
        return _free_coordinates(robot, q, dq, ddq, zero, along)
    return _joint_coordinates(robot, q, dq, ddq, zero, along)


def _free_coordinates(
    robot: Robot,
    q: Sequence[Scalar],
    dq: Sequence[Scalar],
    ddq: Sequence[Scalar],
    zero: Any,
    along: Sequence[Scalar] | None,
) -> Coordinates:
    """Return the state of all joints; the base is before them in q, behind them in rates."""
    reference = None if along is None else along[6:]
    c = _joint_coordinates(robot, q[7:], dq[6:], ddq[6:], zero, reference)
    G = [{column + 6: factor for column, factor in row.items()} for row in c.G]
    return Coordinates(
        [list(q[:7]), *c.q[1:]],
        [*c.dq, *dq[:6]],
        [*c.ddq, *ddq[:6]],
        [*G, *({k: 1.0} for k in range(6))],
        robot.n,
    )


def _joint_coordinates(
    robot: Robot,
    q: Sequence[Scalar],
    dq: Sequence[Scalar],
    ddq: Sequence[Scalar],
    zero: Any,
    along: Sequence[Scalar] | None,
) -> Coordinates:
    column_of = {robot.joints[index].name: column for column, index in enumerate(robot.independent)}
    all_q: list[Scalar] = []
    all_dq: list[Scalar] = []
    all_ddq: list[Scalar] = []
    G: list[Row] = []
    for joint in robot.joints:
        if joint.name in column_of:
            column = column_of[joint.name]
            state = q[column], dq[column], ddq[column]
            row: Row = {column: 1.0}
        elif joint.kind in ("fixed", "floating"):
            state, row = (zero, zero, zero), {}
        elif joint.follows is not None and joint.follows.formula:
            state, row = _formula(
                robot, joint.name, column_of, q, dq, ddq, dq if along is None else along
            )
        else:
            follows = joint.follows
            row = {column_of[name]: ratio for name, ratio in follows.terms} if follows else {}
            start = zero + follows.offset if follows and follows.offset else zero
            state = _linear(q, row, start), _linear(dq, row, zero), _linear(ddq, row, zero)
        for values, value in zip((all_q, all_dq, all_ddq), state):
            values.append(value)
        G.append(row)
    return Coordinates(all_q, all_dq, all_ddq, G, robot.n)


def _linear(values: Sequence[Scalar], row: Row, start: Scalar) -> Scalar:
    return sum((ratio * values[column] for column, ratio in row.items()), start)


def _formula(
    robot: Robot,
    name: str,
    column_of: dict[str, int],
    q: Sequence[Scalar],
    dq: Sequence[Scalar],
    ddq: Sequence[Scalar],
    along: Sequence[Scalar],
) -> tuple[tuple[Scalar, Scalar, Scalar], Row]:
    formula = robot.formulas[name]
    names = robot.formula_names
    columns = [column_of[names[variable]] for variable in formula.variables]
    value = formula.evaluate(
        {variable: q[column] for variable, column in zip(formula.variables, columns)}
    )
    first = {q[column]: dq[column] for column in columns}
    speed = tangents([value], first)[0]
    second = {q[column]: along[column] for column in columns} | {
        dq[column]: ddq[column] for column in columns if isinstance(dq[column], Node)
    }
    acceleration = tangents([speed], second)[0]
    rates = derivatives([value], [q[column] for column in columns])[0]
    row: Row = {}
    for column, rate in zip(columns, rates):
        row[column] = row.get(column, 0.0) + rate
    return (value, speed, acceleration), row


def chosen_columns(
    c: Coordinates,
    every: Sequence[Sequence[Scalar]],
    columns: Sequence[int] | None,
    combine: Array | None,
) -> list[list[Scalar]]:
    """Return the regressor (n rows) of the independent coordinates from that of all joints.

    Columns are those wanted (None: all), `combine` combinations (wanted, b) of these that are
    wanted instead.
    """
    chosen = range(len(every[0]) if every else 0) if columns is None else columns
    projected = [c.project([row[k] for row in every]) for k in chosen]
    if combine is not None:
        projected = [
            [
                weighted_sum(combine[:, new].tolist(), [column[row] for column in projected])
                for row in range(c.n)
            ]
            for new in range(combine.shape[1])
        ]
    return [[column[row] for column in projected] for row in range(c.n)]


def measured_rows(robot: Robot, rows: Sequence[Any], zero: Any = 0.0) -> list[Any]:
    """Return torques, or rows of a regressor, (n,) with zeros where a torque is not measured."""
    return [row if known else zero for row, known in zip(rows, robot.torques_measured)]


def drifting(c: Coordinates, q: Sequence[Node], dq: Sequence[Scalar]) -> Coordinates | None:
    """Return the coordinates with dG/dt for G; None where G is constant.

    The momentum of the independent coordinates is Gᵀ times that of all joints: its rate holds dG/dt
    too.
    """
    if not any(isinstance(value, Node) for row in c.G for value in row.values()):
        return None
    seeds = dict(zip(q, dq))
    return replace(
        c, G=[{column: tangents([value], seeds)[0] for column, value in row.items()} for row in c.G]
    )
