"""Which changes of a robot's parameters no motion can show, and why.

Each is a body, put on one link and taken from another, that moves alike in both places: a mass on
the axis of a joint does not notice that the joint turns, a moment of inertia does not notice that
its link slides. All of them together are why base parameters are fewer than standard ones: for
open chains and trees they span exactly what a base map leaves out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from minidyn.arrays import Array
from minidyn.base.closed_form.structure import Role, Scene, role_of
from minidyn.base.numeric.samples import random_states, units_of
from minidyn.model.canonical import ROUNDING
from minidyn.model.drives import FRICTION, ROTOR
from minidyn.model.geometry import inverse_steps, matrix_of
from minidyn.model.loops import solve_loops
from minidyn.model.parameters import transform
from minidyn.model.placements import joints_to, tree_pose
from minidyn.model.robot import Robot

_ZERO = 1e-12  # rounding: of an entry of a body whose axis has unit length
_FROM_LINK_TO_LINK = (
    "bolted",
    "axis at rest",
    "on the axis",
    "slides",
    "slides along",
    "turn alike",
)
_STATES = 5
_TENSOR = ((0, 0), (0, 1), (0, 2), (1, 1), (1, 2), (2, 2))


@dataclass(frozen=True, eq=False)
class Invariance:
    """A change of standard parameters that no motion shows.

    Attributes:
        kind: "bolted", "never turns", "one direction", "first moment along it", "axis at rest",
            "on the axis", "slides", "still axis" (δ), "slides along" (σ), "one point", "rotor" or
            "turn alike".
        joint: Index of the joint whose link the change is of.
        to: Index of the link that takes up the body; -1: none does.
        vector: The change (p,).
        text: Why, as a sentence on axes and gravity, without a full stop.
        joints: Indices of the joints whose axes the reason is of.
    """

    kind: str
    joint: int
    to: int
    vector: Array
    text: str
    joints: tuple[int, ...]


def invariances(robot: Robot, what: str = "torque") -> list[Invariance]:
    """Return the changes of parameters that follow from axes and gravity.

    Those that need no other link first, each part link by link from the tips to the base. They may
    depend on each other. Joints that follow others count as free ones, but links that always turn
    alike are noticed.

    Args:
        robot: The robot, its axes exact (`BaseMap.understood`).
        what: "torque" or "inertia", for which gravity does not count.

    Implements: Lin1994 Theorem 5 and LinFang1999 Theorem 1 as reasons, corrected as in ERRATA A.
    """
    if not robot.joints:
        return []
    scene = Scene(robot, what)
    found: list[Invariance] = []
    for index in reversed(range(len(robot.joints))):
        found += _Link(robot, scene, index).invariances()
    found += _turning_alike(robot)
    return sorted(found, key=lambda each: each.kind in _FROM_LINK_TO_LINK)


class _Link:
    """One link, its joint and the joints before it."""

    def __init__(self, robot: Robot, scene: Scene, index: int) -> None:
        self.robot, self.scene, self.index = robot, scene, index
        self.joint = robot.joints[index]
        self.parent = self.joint.parent
        path = joints_to(robot, index)
        self.path = [k for k in path if robot.joints[k].kind != "fixed"]
        self.turning = [k for k in self.path if robot.joints[k].turns]
        own = matrix_of(inverse_steps(self.joint.after))
        self.point, self.axis = own[:3, 3], self.joint.axis  # of the joint, in the link's frame
        self.onto = self.joint.placement  # the link's frame on its parent's
        self.carrier = _carrier(robot, self.parent)

    @cached_property
    def role(self) -> Role:
        """r, s, δ and σ; for joints that move."""
        return role_of(self.scene, self.index, lambda k: k + 1)

    # ---------------------------------------------------------------- reasons

    def invariances(self) -> Iterator[Invariance]:
        """Give those of the link, reasons that need no other link first."""
        if self.joint.kind == "fixed":
            yield from self._bolted()
            return
        if not self.turning:
            yield from self._never_turns()
        elif all(self.scene.parallel(k, self.turning[0]) for k in self.turning):
            yield from self._one_direction()
        if self.role.centre is not None:
            yield from self._one_point(self.role.centre)
        if self.joint.turns:
            yield from self._on_the_axis()
        elif self.turning:
            yield from self._slides()
        yield from self._rotor()

    def _bolted(self) -> Iterator[Invariance]:
        for unit in np.eye(10):
            text = (
                f"link {self.index + 1} is bolted to {_link(self.carrier)}"
                if self.carrier >= 0
                else f"link {self.index + 1} is bolted to the base and never moves"
            )
            yield self._moved("bolted", unit, text)

    def _never_turns(self) -> Iterator[Invariance]:
        text = f"no joint up to joint {self.index + 1} turns, so link {self.index + 1} never turns"
        for unit in np.eye(10)[:9]:
            yield self._gone("never turns", unit, text, self.path)

    def _one_direction(self) -> Iterator[Invariance]:
        """Give what link frames that turn about one direction do not show."""
        link = self.index + 1
        u = self.scene.links[self.index].T @ self.scene.u[self.turning[0]]
        what = (
            f"only joint {self.turning[0] + 1} turns link {link}"
            if len(self.turning) == 1
            else f"the joints that turn link {link} ({_numbers(self.turning)}) have parallel axes"
        )
        text = f"{what}, so that it turns about one direction"
        sizes = [float(_unit(k) @ u @ u) for k in range(6)]
        largest = int(np.argmax(np.abs(sizes)))
        for k in range(6):
            if k != largest:
                J = _unit(k) - sizes[k] / sizes[largest] * _unit(largest)
                reason = f"{text}, and only inertia about this direction acts"
                yield self._gone("one direction", ten_of(J), reason, self.turning)
        along = f"{text}; a first moment along it acts on no joint"
        yield self._gone("first moment along it", _about(u, self.point), along, self.turning)
        across = list(np.linalg.svd(u[None])[2][1:])
        why = self.role.reason
        if self.role.delta == 0:
            for v in across:
                reason = f"{why}, so that a first moment across its axis acts on no joint"
                yield self._gone("still axis", _about(v, self.point), reason, self.path)
        if self.role.sigma == 0:
            for v in across:
                reason = (
                    f"{why}, so that a first moment across this direction acts as if it were "
                    f"part of {_link(self.carrier)}"
                )
                pair = (self.index, self.turning[0])
                yield self._moved("slides along", ten_of(h=v), reason, pair)

    def _one_point(self, distance: float) -> Iterator[Invariance]:
        u = self.scene.links[self.index].T @ self.scene.u[self.index]
        centre = self.point - distance * u
        for unit in np.eye(3):
            yield self._gone("one point", _about(unit, centre), self.role.reason, self.path)
        whole = _about(np.zeros(3), centre, 1.0)
        yield self._gone("one point", whole, self.role.reason, self.path)

    def _on_the_axis(self) -> Iterator[Invariance]:
        number, o, a = self.index + 1, self.point, self.axis
        name, bodies = self._axis_name()
        start = f"joint {number} turns about {name}, and masses on this axis{bodies}"
        kind, text = "on the axis", f"{start} move as if they were bolted to {_link(self.carrier)}"
        if self.carrier < 0:
            kind, text = "axis at rest", f"{start} stay at rest"
        R, p = self.onto[:3, :3], self.onto[:3, 3]
        for body, other in zip(_line(o, a), _line(R @ o + p, R @ a)):
            vector = self._vector(self.index, body) - self._vector(self.parent, other)
            yield self._made(kind, vector, text, (self.index,), self.carrier)

    def _slides(self) -> Iterator[Invariance]:
        number = self.index + 1
        text = (
            f"joint {number} slides, so that link {number} turns only with {_link(self.carrier)}, "
            "and its moments of inertia act as if they were part of that"
        )
        for unit in np.eye(10)[:6]:
            yield self._moved("slides", unit, text, (self.index,))

    def _rotor(self) -> Iterator[Invariance]:
        """Give what a rotor's inertia is not separated from: it acts on its own joint alone."""
        layout = self.robot.layout
        drives = {column.symbol: column.index for column in layout.drives[self.index]}
        if ROTOR not in drives or not self.role.alone or self.joint.drive.coupling:
            return
        offset = FRICTION["offset"]
        if not self.joint.turns and self.role.pull and offset not in drives:
            return  # the weight shows the mass
        what = "inertia about the axis" if self.joint.turns else "mass"
        text = f"{self.role.rotor_reason}, so that rotor inertia and {what} add up"
        vector = np.zeros(len(layout))
        vector[drives[ROTOR]] = -1.0
        if self.joint.turns:
            body = ten_of(np.outer(self.axis, self.axis))
            vector += self._vector(self.index, body)
        else:
            vector += self._moved("", np.eye(10)[9], "").vector
            if self.role.pull:
                vector[drives[offset]] = self.role.pull
        yield self._made("rotor", vector, text, tuple(self.path), self.index)

    # ---------------------------------------------------------------- vectors

    def _vector(self, link: int, ten: Array) -> Array:
        vector = np.zeros(len(self.robot.layout))
        if link >= 0:
            vector[self.robot.layout.links[link]] = ten
        return vector

    def _made(
        self, kind: str, vector: Array, text: str, joints: Sequence[int], to: int
    ) -> Invariance:
        vector = np.where(np.abs(vector) < _ZERO, 0.0, vector)
        return Invariance(kind, self.index, to, vector, text, tuple(joints))

    def _gone(self, kind: str, ten: Array, text: str, joints: Sequence[int]) -> Invariance:
        return self._made(kind, self._vector(self.index, ten), text, joints, -1)

    def _moved(self, kind: str, ten: Array, text: str, joints: Sequence[int] = ()) -> Invariance:
        """Return a body of the link put on its parent instead, where it is at q = 0."""
        vector = self._vector(self.index, ten) - self._vector(
            self.parent, transform(ten, self.onto)
        )
        return self._made(kind, vector, text, joints, self.carrier)

    def _axis_name(self) -> tuple[str, str]:
        """Return the axis in words, and the parameters that masses on it have."""
        along = np.abs(self.axis)
        if along.max() < 1.0 - _ZERO or np.linalg.norm(np.cross(self.point, self.axis)) > _ZERO:
            return "its axis", ""
        x, number = "xyz"[int(np.argmax(along))], self.index + 1
        one, two = (f"{other}{other}{number}".upper() for other in "xyz" if other != x)
        return f"its {x} axis", f" (M{number}, M{x.upper()}{number}, {one} + {two})"


def _turning_alike(robot: Robot) -> Iterator[Invariance]:
    """Give what links do not show that keep their orientation to each other, as in a
    parallelogram.
    """
    if all(joint.follows is None for joint in robot.joints) and not robot.implicit_loops:
        return
    states = random_states(robot, units_of(robot), _STATES, 0).q
    R = tree_pose(robot, solve_loops(robot, states)).links[..., :3, :3]
    for link in range(len(robot.joints)):
        for other in range(link):
            turn = np.swapaxes(R[:, other], -1, -2) @ R[:, link]
            if np.abs(turn - turn[0]).max() > ROUNDING:
                continue
            T = np.eye(4)
            T[:3, :3] = turn[0]
            text = (
                f"links {other + 1} and {link + 1} always turn alike, so that moments of inertia "
                f"of link {link + 1} act as if they were part of link {other + 1}"
            )
            for unit in np.eye(10)[:6]:
                vector = np.zeros(len(robot.layout))
                vector[robot.layout.links[link]] = unit
                vector[robot.layout.links[other]] -= transform(unit, T)
                vector = np.where(np.abs(vector) < _ZERO, 0.0, vector)
                yield Invariance("turn alike", link, other, vector, text, (other, link))
            break


def ten_of(J: Array | None = None, h: Array | None = None, mass: float = 0.0) -> Array:
    """Return ten parameters (10,) of a tensor (3, 3), a first moment (3,) and a mass."""
    tensor = np.zeros((3, 3)) if J is None else J
    first = np.zeros(3) if h is None else h
    return np.array([*(tensor[i, k] for i, k in _TENSOR), *first, mass])


def _unit(k: int) -> Array:
    J = np.zeros((3, 3))
    i, j = _TENSOR[k]
    J[i, j] = J[j, i] = 1.0
    return J


def _about(h: Array, point: Array, mass: float = 0.0) -> Array:
    """Return the ten parameters of a first moment and a mass that are about a point of the link."""
    T = np.eye(4)
    T[:3, 3] = point
    return np.asarray(transform(ten_of(h=h, mass=mass), T))


def _line(o: Array, a: Array) -> tuple[Array, Array, Array]:
    """Return the bodies that masses on the line o + λ a make up: of λ⁰, λ¹ and λ²."""
    one = np.eye(3)
    return (
        ten_of((o @ o) * one - np.outer(o, o), o, 1.0),
        ten_of(2.0 * (o @ a) * one - np.outer(o, a) - np.outer(a, o), a),
        ten_of(one - np.outer(a, a)),
    )


def _carrier(robot: Robot, link: int) -> int:
    """Return the moving link that a link is bolted to, or it itself; -1: the base."""
    while link >= 0 and robot.joints[link].kind == "fixed":
        link = robot.joints[link].parent
    return link


def _link(link: int) -> str:
    return "the base" if link < 0 else f"link {link + 1}"


def _numbers(joints: Sequence[int]) -> str:
    return ", ".join(str(k + 1) for k in joints)
