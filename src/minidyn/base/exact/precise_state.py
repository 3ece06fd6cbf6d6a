"""A robot's random states in sixty digits, its formulas followed and its loops closed.

Friction and springs in sixty digits; signs change at once, because widths do not change the
structure.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from minidyn.arrays import Array
from minidyn.base.exact.angles import PARTS, AngleBasis, AngleSum, constant_angles
from minidyn.base.exact.digits import PI, Digits, cos_sin, formula_operations
from minidyn.base.numeric.samples import JointStates
from minidyn.base.rows import some_states
from minidyn.dynamics.drives import Shapes, some_parameters
from minidyn.dynamics.kinematics import link_jacobian, link_placement
from minidyn.dynamics.loads import drive_loads
from minidyn.dynamics.newton_euler import link_motions
from minidyn.dynamics.tree import Coordinates, Numbers, Tree, constant_placement, place
from minidyn.dynamics.vectors import Scalar, Vector, add, cross, dot, subtract, to_parent
from minidyn.errors import MinidynError
from minidyn.graph.derivative import jacobian, jvp
from minidyn.graph.function import Function, run_tape
from minidyn.graph.scalar import Graph
from minidyn.model.drives import RIPPLE_ORDER, Odd
from minidyn.model.geometry import Step
from minidyn.model.joint import Loop
from minidyn.model.robot import Robot


class PreciseShapes(Shapes):
    """Friction and springs at the states with this geometry and these coordinates."""

    def __init__(self, robot: Robot, tree: Tree, c: Coordinates) -> None:
        samples = next((len(speed.value) for speed in c.dq if isinstance(speed, Digits)), 1)
        super().__init__(
            robot, c.q, None, [Digits.of(values) for values in some_states(robot, c, (samples,))]
        )
        self._robot, self._tree, self._c = robot, tree, c
        self._operations = formula_operations()

    def sign(self, joint: int, speed: Scalar, change: Scalar, own: bool) -> Scalar:
        """-1, 0 or +1."""
        return self._operations["sign"](speed) if isinstance(speed, Digits) else 0

    def odd(
        self,
        symbol: str,
        joint: int,
        speed: Scalar,
        change: Scalar,
        function: Odd,
        speeds: Sequence[float],
    ) -> Scalar:
        """The function itself."""
        sign = self.sign(joint, speed, change, False)
        return (
            function(speed, sign, speed * sign, self._operations) if isinstance(sign, Digits) else 0
        )

    def cos_sin(self, joint: int) -> tuple[Scalar, Scalar]:
        """Cosine and sine of the position."""
        return cos_sin(self._c.q[joint])

    def wave(self, joint: int, harmonic: int, speed: Scalar) -> tuple[Scalar, Scalar]:
        """Cosine and sine of the ripple, seen through no filter."""
        total: Scalar = Digits.constant(0.0)
        for other, ratio in self._ratios[joint].items():
            position = self._c.q[other]
            total = (
                total
                + (position if isinstance(position, Digits) else Digits.constant(position)) * ratio
            )
        order = harmonic * (self._drives[joint].ripple_order or RIPPLE_ORDER)
        return cos_sin(total * Digits.constant(order))

    def balance(self, symbol: str, joint: int) -> Scalar:
        """The function itself."""
        cosine, sine = self.cos_sin(joint)
        return self._balancer(joint).column(
            symbol, cosine, sine, self._operations["sqrt"], Digits.constant
        )

    def load(self, joint: int) -> Scalar:
        """|load|."""
        if self._loads is None:
            phi = some_parameters(self._robot)
            ten = [
                [Digits.constant(value) for value in phi[part]] for part in self._robot.layout.links
            ]
            self._loads = drive_loads(self._robot, self._tree, self._c, ten)
        load = self._loads[joint]
        return load * self._operations["sign"](load) if isinstance(load, Digits) else abs(load)


CLOSED, RATES, ACCELERATIONS = (
    1e-52,
    1e-48,
    1e-42,
)  # residuals, each a little coarser than what it is computed from
_ROUNDS = 25

Row = dict[int, Scalar]


class NotInSixtyDigits(MinidynError):
    """A robot whose numbers are good to double precision only: its loops do not close to sixty
    digits.
    """


class PreciseRobot(Numbers):
    """A robot at given states (their doubles taken at face value).

    Also the number system its geometry is placed in.
    """

    def __init__(self, robot: Robot, states: JointStates) -> None:
        self.robot = robot
        self.samples = len(states.q)
        self._states = states
        self._angles = AngleBasis(constant_angles(robot))

    # ---------------------------------------------------------------- number system

    def number(self, value: float) -> Scalar:
        """A constant: plain where it is small and whole."""
        return int(value) if value == int(value) and abs(value) < 4 else Digits.constant(value)

    def turn(self, step: Step) -> tuple[Scalar, Scalar]:
        """(cos, sin) of a constant angle; right angles are plain integers."""
        angle = self._angles.express(step.value)
        if not angle.terms and angle.units % 180 == 0:
            return ((1, 0), (0, 1), (-1, 0), (0, -1))[angle.units // 180]
        return cos_sin(self._angle(angle))

    def joint_turn(self, q: Scalar, direction: int, offset: Step | None) -> tuple[Scalar, Scalar]:
        """(cos, sin) of direction · q + offset."""
        angle = q * direction
        return cos_sin(
            angle if offset is None else angle + self._angle(self._angles.express(offset.value))
        )

    def _angle(self, angle: AngleSum) -> Digits:
        total = Digits.constant(angle.units * PI / 360)
        for index, sixths in angle.terms:
            total = total + Digits.of(self._angles.basis[index]) * sixths / PARTS
        return total

    # ---------------------------------------------------------------- state

    def state(self, dq: bool = True) -> tuple[Tree, Coordinates]:
        """Return geometry and coordinates of all joints; speeds 0 where they are not wanted."""
        robot, n = self.robot, self.robot.n
        column_of = {name: column for column, name in enumerate(robot.joint_names)}
        q, ddq = (
            [Digits.of(column) for column in part.T] for part in (self._states.q, self._states.ddq)
        )
        speed = [Digits.of(column) if dq and column.any() else 0 for column in self._states.dq.T]
        values, rates, bends = self._formulas(q, speed)
        all_q: list[Scalar] = []
        G: list[Row] = []
        drift: list[Scalar] = []  # Ġ dq
        for index, joint in enumerate(robot.joints):
            position: Scalar = 0
            row: Row = {}
            if joint.name in column_of:
                position, row = q[column_of[joint.name]], {column_of[joint.name]: 1}
            elif index in values:
                position, row = values[index], rates[index]
            elif joint.follows is not None:
                offset = joint.follows.offset
                position = (
                    self._angle(self._angles.express(offset))
                    if joint.turns
                    else Digits.constant(offset)
                )
                for name, ratio in joint.follows.terms:
                    position = position + ratio * q[column_of[name]]
                    row[column_of[name]] = self.number(ratio)
            all_q.append(position)
            G.append(row)
            drift.append(bends.get(index, 0))
        if self._unknown:
            tree = self._close(all_q)
            inverse = self._solve_rates(tree, G)
        else:
            tree = place(robot, all_q, self)
        all_dq = [sum(factor * speed[column] for column, factor in row.items()) for row in G]
        driven = [sum(factor * ddq[column] for column, factor in row.items()) for row in G]
        all_ddq = [gain + extra for gain, extra in zip(driven, drift)]
        if self._unknown:
            self._solve_accelerations(tree, all_dq, all_ddq, inverse)
        return tree, Coordinates(all_q, all_dq, all_ddq, G, n)

    # ---------------------------------------------------------------- formulas

    @cached_property
    def _functions(self) -> tuple[list[int], Function, Function, Function]:
        """Joints that follow formulas.

        Their positions, derivatives and second derivatives along a direction.
        """
        robot = self.robot
        graph = Graph()
        inputs = dict(zip(robot.joint_names, graph.inputs("x", robot.n)))
        joints = [index for index, joint in enumerate(robot.joints) if joint.name in robot.formulas]
        names = robot.formula_names
        rows = []
        for index in joints:
            formula = robot.formulas[robot.joints[index].name]
            rows.append(formula.evaluate({name: inputs[names[name]] for name in formula.variables}))
        position = graph.function("position", {"y": rows})
        return joints, position, jacobian(position, "x"), jvp(jvp(position, ["x"]), ["x"])

    def _formulas(
        self, q: list[Digits], dq: Sequence[Scalar]
    ) -> tuple[dict[int, Scalar], dict[int, Row], dict[int, Scalar]]:
        """Return for each joint with a formula its position, its row of G, and its part of Ġ dq."""
        if not self.robot.formulas:
            return {}, {}, {}
        joints, position, slope, bend = self._functions
        table, n = formula_operations(), self.robot.n
        values = run_tape(position, [list(q)], table)[0]
        flat = run_tape(slope, [list(q)], table)[0]
        second = run_tape(bend, [list(q), list(dq), list(dq)], table)[0]
        rows = [{k: flat[j * n + k] for k in range(n)} for j in range(len(joints))]
        return dict(zip(joints, values)), dict(zip(joints, rows)), dict(zip(joints, second))

    # ---------------------------------------------------------------- loops that are solved for

    @cached_property
    def _unknown(self) -> list[int]:
        passive = {name for loop in self.robot.implicit_loops for name in loop.passive}
        joints = enumerate(self.robot.joints)
        return [index for index, joint in joints if joint.name in passive and joint.follows is None]

    def _close(self, all_q: list[Scalar]) -> Tree:
        """Fill in the unknown positions.

        Those of double precision, corrected until sixty digits agree.
        """
        from minidyn.model.loops import solve_loops

        start = solve_loops(self.robot, self._states.q)
        for index in self._unknown:
            all_q[index] = Digits.of(start[:, index])
        inverse: list[list[Digits]] = []
        for _ in range(_ROUNDS):
            tree = place(self.robot, all_q, self)
            error = [
                part for loop in self.robot.implicit_loops for part in self._difference(tree, loop)
            ]
            if self._size(error) < CLOSED:
                return tree
            inverse = inverse or self._inverse(self._jacobian(tree))
            for row, index in zip(inverse, self._unknown):
                all_q[index] = all_q[index] - sum(a * b for a, b in zip(row, error))
        raise NotInSixtyDigits(
            f"robot {self.robot.name!r}: a loop could not be closed to sixty digits; is it "
            "singular?"
        )

    def _difference(self, tree: Tree, loop: Loop) -> list[Scalar]:
        """Frame b from frame a: three lengths and, for a frame, three sines of angles."""
        A, B = (
            link_placement(tree, link, *constant_placement(steps, self))
            for link, steps in _ends(loop)
        )
        shift = [B[i][3] - A[i][3] for i in range(3)]
        if loop.kind == "point":
            return shift
        turn: Vector = [0, 0, 0]
        for k in range(
            3
        ):  # half the sum of a_k × b_k is the axis times the sine of the angle between the frames
            turn = add(turn, cross([A[i][k] for i in range(3)], [B[i][k] for i in range(3)]))
        return [*shift, *(0.5 * component for component in turn)]

    def _jacobian(self, tree: Tree) -> list[list[Scalar]]:
        """Rates of the differences of all loops for unit speed of each joint (m, joints)."""
        rows: list[list[Scalar]] = []
        for loop in self.robot.implicit_loops:
            J_a, J_b = (
                link_jacobian(tree, link, constant_placement(steps, self)[1])
                for link, steps in _ends(loop)
            )
            for k in (3, 4, 5, 0, 1, 2)[: 3 if loop.kind == "point" else 6]:
                rows.append([b - a for a, b in zip(J_a[k], J_b[k])])
        return rows

    def _inverse(self, J: list[list[Scalar]]) -> list[list[Digits]]:
        """Pseudo-inverse for the unknown joints (unknown, m), to double precision.

        Enough to correct with.
        """
        own = np.array([[self._floats(row[index]) for index in self._unknown] for row in J])
        inverse = np.linalg.pinv(np.moveaxis(own, -1, 0), rcond=1e-9)
        return [
            [Digits.of(inverse[:, i, k]) for k in range(len(J))] for i in range(len(self._unknown))
        ]

    def _solve_rates(self, tree: Tree, G: list[Row]) -> list[list[Digits]]:
        """Fill in the rows of G of the unknown joints: J G = 0."""
        J = self._jacobian(tree)
        inverse = self._inverse(J)
        for column in range(self.robot.n):
            rates: list[Scalar] = [row.get(column, 0) for row in G]
            for _ in range(_ROUNDS):
                error = [sum(a * b for a, b in zip(row, rates)) for row in J]
                if self._size(error) < RATES:
                    break
                for row, index in zip(inverse, self._unknown):
                    rates[index] = rates[index] - sum(a * b for a, b in zip(row, error))
            for index in self._unknown:
                G[index][column] = rates[index]
        return inverse

    def _solve_accelerations(
        self, tree: Tree, dq: list[Scalar], ddq: list[Scalar], inverse: list[list[Digits]]
    ) -> None:
        """Correct the accelerations of the unknown joints until the frames of each loop accelerate
        alike.
        """
        for _ in range(_ROUNDS):
            motions = link_motions(tree, dq, ddq, gravity=False)

            def of(link: int, steps: tuple[Step, ...]) -> tuple[Vector, Vector]:
                if link < 0:
                    return [0, 0, 0], [0, 0, 0]
                r, motion = constant_placement(steps, self)[1], motions[link]  # noqa: B023
                linear = add(motion.a, [dot(row, r) for row in motion.A])
                return _to_world(tree, link, linear), _to_world(tree, link, motion.dw)

            error: list[Scalar] = []
            for loop in self.robot.implicit_loops:
                (a, da), (b, db) = (of(link, steps) for link, steps in _ends(loop))
                error += subtract(b, a) + (subtract(db, da) if loop.kind == "frame" else [])
            if self._size(error) < ACCELERATIONS * max(1.0, self._size(ddq)):
                return
            for row, index in zip(inverse, self._unknown):
                ddq[index] = ddq[index] - sum(a * b for a, b in zip(row, error))
        raise NotInSixtyDigits(
            f"robot {self.robot.name!r}: a loop's accelerations could not be solved; is it "
            "singular?"
        )

    def _floats(self, value: Scalar) -> Array:
        return (
            value.floats(self.samples)
            if isinstance(value, Digits)
            else np.full(self.samples, float(value))
        )

    def _size(self, values: Sequence[Scalar]) -> float:
        return max((float(np.abs(self._floats(value)).max()) for value in values), default=0.0)


def _ends(loop: Loop) -> tuple[tuple[int, tuple[Step, ...]], ...]:
    """Return the links and frames on them that a loop joins."""
    return (loop.link_a, loop.steps_a), (loop.link_b, loop.steps_b)


def _to_world(tree: Tree, link: int, v: Vector) -> Vector:
    while link >= 0:
        v = tree.moves[link].vector_to_parent(v)
        link = tree.moves[link].parent
    return to_parent(tree.base_turns, v)
