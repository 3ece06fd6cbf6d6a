"""A robot's random states modulo primes.

Positions as points of the circle, speeds and accelerations as residues. Friction and springs over
finite fields: functions that are no polynomials, as fresh random values.

A sign jumps where its speed passes zero; √|v|, the Stribeck curve and an angle (against its sine
and cosine) are not algebraic in what else appears; a size |load| bends. So each is an independent
function, and a random value that is drawn once for everything that shares it stands for it. Speeds
that are proportional share their functions: s(k v) is ±s(v), √|k v| is a constant times √|v|;
Stribeck curves are the same where their speeds are in the same proportion.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial

from minidyn.base.exact.angles import AngleBasis, AngleSum, constant_angles
from minidyn.base.exact.prime import Field, Point, Residues, exact_fraction
from minidyn.dynamics.drives import Shapes, drive_ratios
from minidyn.dynamics.loads import drive_loads
from minidyn.dynamics.tree import Coordinates, Numbers, Tree, coordinates, place
from minidyn.dynamics.vectors import Scalar
from minidyn.errors import Unsupported
from minidyn.model.drives import BREAKAWAY, RIPPLE_ORDER, TERMS, Odd
from minidyn.model.geometry import Step
from minidyn.model.robot import Robot

Form = tuple[tuple[int, Fraction], ...]


BALANCER_RATE = TERMS["balancer_rate"].symbol


def _no_root(value: Scalar) -> Scalar:
    raise Unsupported("a residue has no square root in general")


class ExactShapes(Shapes):
    """Friction and springs of a robot over a field, at the random states with this geometry and
    these coordinates.
    """

    def __init__(self, exact: ExactRobot, tree: Tree, c: Coordinates) -> None:
        super().__init__(exact.robot, c.q)
        self._exact, self._robot, self._field, self._tree, self._c = (
            exact,
            exact.robot,
            exact.field,
            tree,
            c,
        )
        self._drawn: dict[tuple[object, ...], Residues] = {}

    def sign(self, joint: int, speed: Scalar, change: Scalar, own: bool) -> Scalar:
        """A random ±1; 0 for a drive that stands still."""
        found = self._form(joint, own)
        if found is None:
            return 0
        form, lead = found
        sign = self._draw(("sign", form), self._field.signs)
        return sign if lead > 0 else -sign

    def odd(
        self,
        symbol: str,
        joint: int,
        speed: Scalar,
        change: Scalar,
        function: Odd,
        speeds: Sequence[float],
    ) -> Scalar:
        """The sign times a random value for each proportion of the speeds.

        For a power of v times a constant.
        """
        found = self._form(joint, False)
        if found is None:
            return 0
        form, lead = found
        scales = tuple(f"{each / abs(float(lead)):.9g}" for each in speeds)
        value = self._draw((symbol, form, *scales), self._field.random)
        if not speeds and abs(lead) != 1:
            value = value * self._draw(
                (symbol, abs(lead)), lambda: self._field.random(constant=True)
            )
        return self.sign(joint, speed, change, False) * value

    def state(self, symbol: str, joint: int, speed: Scalar, change: Scalar) -> Scalar:
        """A random value: the motion before may have led to any.

        Proportional motions and travels share it.
        """
        found = self._form(joint, False)
        if found is None:
            return 0
        form, lead = found
        travel, rested = self._drives[joint].travel(symbol), symbol == BREAKAWAY
        key = (symbol, form, f"{travel / abs(float(lead)):.9g}", rested * abs(lead))
        value = self._draw(key, self._field.random)
        return value if lead > 0 or rested else -value

    def wave(self, joint: int, harmonic: int, speed: Scalar) -> tuple[Scalar, Scalar]:
        """Random values: waves of so high an order are no functions of the turns.

        Proportional motions share them.
        """
        order = harmonic * (self._drives[joint].ripple_order or RIPPLE_ORDER)
        found, draw = self._form(joint, False), self._field.random
        if found is None:
            key: tuple[object, ...] = (joint, harmonic)
            draw, lead = partial(draw, constant=True), Fraction(1)
        else:
            form, lead = found
            key = (form, f"{order * abs(float(lead)):.9g}")
        cosine, sine = (self._draw((name, *key), draw) for name in ("cosine", "sine"))
        return cosine, sine if lead > 0 else -sine

    def angle(self, joint: int) -> Scalar:
        """A joint's position as a number, which is no function of the point on the circle that its
        turn is.
        """
        robot = self._robot
        follows = robot.joints[joint].follows
        if follows is None:
            return self._exact.shifts[robot.joint_names.index(robot.joints[joint].name)]
        total: Scalar = self._field.number(follows.offset)
        for name, ratio in follows.terms:
            total = (
                total
                + self._field.number(ratio) * self._exact.shifts[robot.joint_names.index(name)]
            )
        return total

    def cos_sin(self, joint: int) -> tuple[Scalar, Scalar]:
        """The point of the circle that the geometry has."""
        return self._exact.joint_turn(self._c.q[joint], 1, None)

    def balance(self, symbol: str, joint: int) -> Scalar:
        """A spring's rate acts as sine and cosine do.

        What depends on the length, a root, is a random value.
        """
        if symbol == BALANCER_RATE:
            cosine, sine = self.cos_sin(joint)
            return self._balancer(joint).column(symbol, cosine, sine, _no_root, self._field.number)
        return self._draw((symbol, joint), self._field.random)

    def load(self, joint: int) -> Scalar:
        """0 where nothing loads the drive, a constant where it always does alike, a random value
        elsewhere.
        """
        if self._loads is None:
            ten = [
                [self._field.random(constant=True) for _ in range(10)] for _ in self._robot.joints
            ]
            self._loads = drive_loads(self._robot, self._tree, self._c, ten)
        load = self._loads[joint]
        if load.__class__ is not Residues:
            return load
        if not load.value.any():
            return 0
        if (
            load.value.shape[1] == 1
            or not self._field.reduced(load.value - load.value[:, :1]).any()
        ):
            return self._draw(("constant load", joint), partial(self._field.random, constant=True))
        # loads that are proportional at every state have proportional sizes; a second remainder is
        # unique
        first = Residues(load.value[:, :1], self._field)
        kind = self._field.reduced((load * first.inverse()).value).tobytes()
        size = self._draw(("load", kind), self._field.random)
        return size * self._draw(("share", joint), partial(self._field.random, constant=True))

    def _form(self, joint: int, own: bool) -> tuple[Form, Fraction] | None:
        """Return (which combination of independent speeds, at what factor).

        None where the joint stands still.
        """
        speed: dict[int, Fraction] = {}
        ratios = {joint: 1.0} if own else drive_ratios(self._robot, joint)
        for other, ratio in ratios.items():
            for column, factor in self._c.G[other].items():
                if column in self._exact.moving:
                    speed[column] = speed.get(column, Fraction(0)) + exact_fraction(
                        ratio
                    ) * exact_fraction(factor)
        form = sorted((column, value) for column, value in speed.items() if value)
        if not form:
            return None
        lead = form[0][1]
        return tuple((column, value / lead) for column, value in form), lead

    def _draw(self, key: tuple[object, ...], draw: Callable[[], Residues]) -> Residues:
        if key not in self._drawn:
            self._drawn[key] = draw()
        return self._drawn[key]


LARGEST_MULTIPLE = 360
"""Followers that turn more times for one turn of a common unit than this are as good as independent
(see below).
"""


class ExactRobot(Numbers):
    """A robot over a field; also the number system its geometry is placed in.

    Lengths, gravity, ratios and couplings are the rationals their decimals are. An angle that moves
    is a random point of the circle, and a follower that turns takes the leader's point to the power
    of its ratio. A ratio that is no small fraction, or one from a sliding leader to a turning
    follower, leaves the two without a polynomial relation of low degree, so that an independent
    point is right; their speeds stay proportional. Followers are linear, loops given by them;
    columns of q that do not move are held in a general position.
    """

    def __init__(
        self, robot: Robot, field: Field, moving: Sequence[int], angles: AngleBasis | None = None
    ) -> None:
        self.robot = robot
        self.field = field
        self.moving = frozenset(moving)
        self._angles = AngleBasis(constant_angles(robot)) if angles is None else angles
        # a sixth of each independent constant angle
        self._sixths = field.points(len(self._angles.basis), constant=True)
        self._points: dict[AngleSum, Point] = {}
        self._turns: dict[AngleSum, tuple[Scalar, Scalar]] = {}
        self._multiples = _common_units(robot)
        self.shifts: list[
            Scalar
        ] = []  # last positions of the independent joints as numbers, sliding or turning

    @property
    def multiple(self) -> int:
        """The largest power of a point in use, a factor of the degree of everything computed."""
        return max([1, *(abs(k) for part in self._multiples for _, k in part.values())])

    # ---------------------------------------------------------------- number system

    def number(self, value: float) -> Scalar:
        """A constant."""
        return self.field.number(value)

    def turn(self, step: Step) -> tuple[Scalar, Scalar]:
        """(cos, sin) of a constant angle; right angles are plain integers."""
        angle = self._angles.express(step.value)
        found = self._turns.get(angle)
        if found is None:
            quarters, rest = divmod(angle.units, 180)
            if rest == 0 and not angle.terms:
                found = ((1, 0), (0, 1), (-1, 0), (0, -1))[quarters]
            else:
                found = self.field.cos_sin(self._point(angle))
            self._turns[angle] = found
        return found

    def joint_turn(self, q: Point, direction: int, offset: Step | None) -> tuple[Scalar, Scalar]:
        """(cos, sin) of direction · q + offset, q given as its point."""
        z = q.turned(direction)
        if offset is not None:
            z = z * self._point(self._angles.express(offset.value))
        return self.field.cos_sin(z)

    def over_norm(self, norm: Scalar) -> Scalar:
        """2: quaternions are drawn as unit ones."""
        return 2

    def _point(self, angle: AngleSum) -> Point:
        found = self._points.get(angle)
        if found is None:
            found = self.field.unit_point(angle.units)
            for index, sixths in angle.terms:
                found = found * self._sixths[index].turned(sixths)
            self._points[angle] = found
        return found

    # ---------------------------------------------------------------- states

    def state(self, dq: bool = True) -> tuple[Tree, Coordinates]:
        """Return geometry and coordinates of random states; speeds 0 where they are not wanted."""
        robot, field = self.robot, self.field
        n = robot.n
        drawn = iter(field.randoms(2 * len(self.moving)))
        speeds = [next(drawn) if dq and column in self.moving else 0 for column in range(n)]
        accelerations = [next(drawn) if column in self.moving else 0 for column in range(n)]
        c = coordinates(robot, [0] * robot.nq, speeds, accelerations, zero=0)
        q = self._positions()
        return place(robot, q, self), Coordinates(q, c.dq, c.ddq, c.G, n)

    def _positions(self) -> list[Scalar]:
        """Random positions of all joints.

        Points for those that turn, residues for those that slide.
        """
        robot, field = self.robot, self.field
        column_of = {name: column for column, name in enumerate(robot.joint_names)}
        units = [len({unit for unit, _ in part.values()}) for part in self._multiples]
        shifts: list[Scalar] = [0] * robot.n
        points: list[list[Point]] = [[]] * robot.n
        for held in (False, True):
            columns = [column for column in range(robot.n) if (column not in self.moving) is held]
            fresh = iter(field.points(sum(units[column] for column in columns), held))
            for column, shift in zip(columns, field.randoms(len(columns), held)):
                shifts[column], points[column] = shift, [next(fresh) for _ in range(units[column])]
        self.shifts = shifts
        found: list[Scalar] = []
        for joint in robot.joints:
            if joint.kind == "fixed":
                found.append(0)
                continue
            if joint.floats:
                found.append([*shifts[:3], *self._quaternion()])
                continue
            terms = [(joint.name, 1.0)] if joint.follows is None else list(joint.follows.terms)
            offset = joint.follows.offset if joint.follows else 0.0
            if joint.turns:
                z = self._point(self._angles.express(offset)) if offset else None
                for name, ratio in terms:
                    if ratio != 0.0:
                        unit, times = self._multiples[column_of[name]][exact_fraction(ratio)]
                        own = points[column_of[name]][unit].turned(times)
                        z = own if z is None else z * own
                found.append(field.unit_point(0) if z is None else z)
            else:
                x = field.number(offset)
                for name, ratio in terms:
                    x = x + field.number(ratio) * shifts[column_of[name]]
                found.append(x)
        return found

    def _quaternion(self) -> list[Scalar]:
        """Return a random unit quaternion (x, y, z, w) of a free base, one where it does not turn.

        The product of half turns about x, y and z.
        """
        held = self.moving.isdisjoint((3, 4, 5))
        points = self.field.points(3, held)
        (cx, sx), (cy, sy), (cz, sz) = (self.field.cos_sin(point) for point in points)
        return [
            sx * cy * cz + cx * sy * sz,
            cx * sy * cz - sx * cy * sz,
            cx * cy * sz + sx * sy * cz,
            cx * cy * cz - sx * sy * sz,
        ]


def _common_units(robot: Robot) -> list[dict[Fraction, tuple[int, int]]]:
    """For each independent joint, {ratio at which some joint turns with it: (which point, to which
    power)}.
    """
    ratios: list[list[Fraction]] = [[] for _ in range(robot.n)]
    column_of = {name: column for column, name in enumerate(robot.joint_names)}
    for joint in robot.joints:
        if joint.turns:
            for name, factor in (
                [(joint.name, 1.0)] if joint.follows is None else joint.follows.terms
            ):
                exact = exact_fraction(factor)
                if exact and exact not in ratios[column_of[name]]:
                    ratios[column_of[name]].append(exact)
    found = []
    for uses in ratios:
        groups: list[
            tuple[Fraction, list[Fraction]]
        ] = []  # common unit, ratios that are whole multiples of it
        for ratio in uses:
            for index, (unit, members) in enumerate(groups):
                common = _gcd(unit, ratio)
                if max(abs(member / common) for member in (*members, ratio)) <= LARGEST_MULTIPLE:
                    groups[index] = common, [*members, ratio]
                    break
            else:
                groups.append((abs(ratio), [ratio]))
        found.append(
            {
                ratio: (index, int(ratio / unit))
                for index, (unit, members) in enumerate(groups)
                for ratio in members
            }
        )
    return found


def _gcd(a: Fraction, b: Fraction) -> Fraction:
    return Fraction(
        math.gcd(a.numerator * b.denominator, b.numerator * a.denominator),
        a.denominator * b.denominator,
    )
