"""What a robot is made of: joints, the links they carry, frames on them, and loops.

A joint says where it stands on its parent link, how it moves, and what limits, leads and drives it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import ArrayLike

from minidyn.arrays import Array, real_array
from minidyn.errors import DescriptionError, ShapeError, UnknownName
from minidyn.model.drives import (
    BY_SYMBOL,
    REST_SPEED,
    ROTOR,
    SLIDING_REST_SPEED,
    Drive,
    friction_symbols,
    terms_that_fit,
)
from minidyn.model.geometry import Step, Steps, inverse_steps, matrix_of
from minidyn.model.parameters import (
    STANDARD,
    Realizability,
    realizability,
    to_body,
    to_pseudo_inertia,
)


@dataclass(frozen=True, slots=True)
class Limits:
    """Range of motion (rad or m), speed (rad/s or m/s) and effort (N m or N).

    Infinite where not given.
    """

    lower: float = -math.inf
    upper: float = math.inf
    velocity: float = math.inf
    effort: float = math.inf


@dataclass(frozen=True, slots=True)
class Follow:
    """How a joint depends on the independent ones.

    q = offset + Σ ratio q_leader, or a formula of them.

    Attributes:
        terms: (joint name, ratio) of the leaders; every leader is an independent joint.
        offset: Constant part, rad or m.
        formula: Text of a formula that is not linear; then terms are empty.
        passive: True for a joint that a loop moves, False for a mimic or coupled joint.
    """

    terms: tuple[tuple[str, float], ...] = ()
    offset: float = 0.0
    formula: str = ""
    passive: bool = False


@dataclass(frozen=True)
class Joint:
    """One moving joint and the link it carries.

    The link's frame seen from its parent's is `before`, then the motion, then `after`. For a
    modified Denavit-Hartenberg row `after` is empty and the motion is along or about z.

    Attributes:
        name: Unique name.
        kind: "revolute", "continuous", "prismatic", "fixed" (a load that keeps its own
            parameters), or "floating" (a free base: the first joint, which moves every way).
        parent: Index of the parent link in `robot.links`, -1 for the base.
        before: Constant placement of the joint on its parent.
        motion: "rx", "ry", "rz", "tx", "ty" or "tz".
        direction: +1 or -1: the motion's value is direction times q.
        after: Constant placement of the link's frame on the moving side; turns only for an oblique
            axis.
        limits: Range, speed, effort.
        follows: None for an independent joint.
        drive: Rotor inertia, gear, coupling, friction terms.
        torque_measured: Whether its torque is an output. Where it is not, joint torques and rows of
            regressors are zero there; accelerations, inertia and energy are those of all joints.
    """

    name: str
    kind: str
    parent: int
    before: Steps
    motion: str = "rz"
    direction: int = 1
    after: Steps = ()
    limits: Limits = field(default_factory=Limits)
    follows: Follow | None = None
    drive: Drive = field(default_factory=Drive)
    torque_measured: bool = True

    @property
    def turns(self) -> bool:
        """Whether the joint is rotational."""
        return self.kind in ("revolute", "continuous")

    @property
    def slides(self) -> bool:
        """Whether the joint is translational."""
        return self.kind == "prismatic"

    @property
    def floats(self) -> bool:
        """Whether the joint carries a free base."""
        return self.kind == "floating"

    @property
    def rest_speed(self) -> float:
        """Speed (rad/s or m/s) below which its drive rests."""
        return SLIDING_REST_SPEED if self.slides else REST_SPEED

    @property
    def placement(self) -> Array:
        """The link's frame on its parent at q = 0 (4, 4)."""
        return matrix_of(self.before + self.after)

    @property
    def axis(self) -> Array:
        """Direction of the axis in the link's frame (3,), unit length."""
        unit = np.zeros(3)
        unit["xyz".index(self.motion[1])] = float(self.direction)
        axis: Array = matrix_of(inverse_steps(self.after))[:3, :3] @ unit
        return axis

    def placement_at(self, q: float) -> Array:
        """The link's frame on its parent at joint position q (4, 4)."""
        moved = () if self.kind == "fixed" else (Step(self.motion, self.direction * q),)
        return matrix_of((*self.before, *moved, *self.after))

    def structure(self, order: Mapping[str, int]) -> tuple[object, ...]:
        """Return everything but names and parameters as plain values, joints by their place in
        `order`.
        """
        follows, drive = self.follows, self.drive
        return (
            self.kind == "fixed",
            self.parent,
            plain_steps(self.before),
            self.motion,
            self.direction,
            plain_steps(self.after),
            follows
            and ([(order[n], r) for n, r in follows.terms], follows.offset, follows.formula),
            drive.columns,
            drive.sign_width,
            drive.stribeck_speed,
            drive.presliding_travel,
            *((drive.ripple_order, drive.cutoff) if drive.ripple_order or drive.cutoff else ()),
            [(order[n], c) for n, c in drive.coupling],
            *((drive.balancer,) if drive.balancer else ()),
            *(("breakaway", drive.breakaway_travel) if drive.breakaway_travel else ()),
            *(() if self.torque_measured else ("torque not measured",)),
            *(("floating",) if self.floats else ()),
        )


@dataclass(frozen=True)
class Link:
    """A moving body: its name and ten inertial parameters (NaN where unknown).

    Attributes:
        name: Link name.
        joint: Name of the joint that carries it.
        frames: Names of the links that fixed joints merged into it.
        parameters: XX XY XZ YY YZ ZZ MX MY MZ M (10,), in the link's frame, inertia about its
            origin.
    """

    name: str
    joint: str
    frames: tuple[str, ...]
    parameters: Array

    @property
    def mass(self) -> float:
        """Mass, kg."""
        return float(self.parameters[9])

    @property
    def com(self) -> Array:
        """Centre of mass in the link's frame (3,), m."""
        return to_body(self.parameters)[1]

    @property
    def inertia(self) -> Array:
        """Inertia about the centre of mass, axes parallel to the link's frame (3, 3), kg m²."""
        return to_body(self.parameters)[2]

    @property
    def pseudo_inertia(self) -> Array:
        """Pseudo-inertia (4, 4).

        Positive semidefinite exactly where some body has these parameters.
        """
        return to_pseudo_inertia(self.parameters)

    @property
    def realizability(self) -> Realizability:
        """Whether some rigid body can have these parameters, and why not."""
        return realizability(self.parameters)

    def __repr__(self) -> str:
        return f"Link({self.name!r}, mass={self.mass:.6g})"


@dataclass(frozen=True)
class Frame:
    """A named frame fixed to a link.

    What is left of a link that a fixed joint merged into its parent.

    Attributes:
        name: The merged link's name.
        link: Index in `robot.links`, -1 for the base.
        steps: Placement on that link.
    """

    name: str
    link: int
    steps: Steps

    @property
    def placement(self) -> Array:
        """Placement on the link (4, 4)."""
        return matrix_of(self.steps)


@dataclass(frozen=True)
class Loop:
    """Two frames on two links that must coincide.

    Attributes:
        name: For messages.
        link_a: Index of the first link, -1 for the base.
        steps_a: Frame on the first link.
        link_b: Index of the second link.
        steps_b: Frame on the second link.
        kind: "point" (origins coincide) or "frame" (origins and orientations).
        passive: Names of the joints the loop moves.
        start: Values of the passive joints from which Newton's method starts.
        home: (independent joint, value) at which `start` holds; joints not named are at 0.
    """

    name: str
    link_a: int
    steps_a: Steps
    link_b: int
    steps_b: Steps
    kind: str = "point"
    passive: tuple[str, ...] = ()
    start: tuple[float, ...] = ()
    home: tuple[tuple[str, float], ...] = ()

    def structure(self, order: Mapping[str, int]) -> tuple[object, ...]:
        """Return everything but names as plain values, joints by their place in `order`."""
        ends = (self.link_a, plain_steps(self.steps_a), self.link_b, plain_steps(self.steps_b))
        home = [(order[name], value) for name, value in self.home]
        return ends, self.kind, [order[name] for name in self.passive], self.start, home


def plain_steps(steps: Steps) -> list[tuple[str, float]]:
    """Return steps as plain values, without the names of their symbols."""
    return [(step.kind, step.value) for step in steps]


def torque_unit(joint: Joint) -> str:
    """Return the unit of a joint's torque."""
    return "N" if joint.slides else "N·m"


def unit_of(symbol: str, joint: Joint) -> str:
    """Return the unit of a standard parameter by its symbol; empty where there is no common one."""
    if symbol in STANDARD:
        return "kg" if symbol == "M" else "kg·m" if symbol.startswith("M") else "kg·m²"
    unit = "kg m²" if symbol == ROTOR else BY_SYMBOL[symbol].unit if symbol in BY_SYMBOL else ""
    if joint.slides:
        unit = unit.replace("kg m²", "kg").replace("N m", "N").replace("rad", "m")
    return unit.replace(" ", "·")


def drive_changes(
    every: Sequence[str],
    rotor_inertia: bool | Iterable[str] | None,
    friction: Iterable[str] | str | None,
    sign_width: ArrayLike | None,
    coupling: Mapping[str, Mapping[str, float]] | None,
    stribeck_speed: ArrayLike | None,
    presliding_travel: ArrayLike | None,
    ripple_order: ArrayLike | None,
    breakaway_travel: ArrayLike | None,
) -> Callable[[Joint], Joint]:
    """Return what gives joints, of which `every` has all names, other drives.

    See `Robot.with_drives`.
    """
    rotors = _rotors(rotor_inertia, every)
    terms = None if friction is None else friction_symbols(friction)
    widths = _sizes("sign_width", "speed", sign_width, every)
    falls = _sizes("stribeck_speed", "speed", stribeck_speed, every)
    travels = _sizes("presliding_travel", "travel", presliding_travel, every)
    orders = _sizes("ripple_order", "number of waves", ripple_order, every)
    decays = _sizes("breakaway_travel", "travel", breakaway_travel, every)
    turned = coupling or {}
    for name in turned:
        if name not in every:
            raise UnknownName("joint", name, every)

    def change(joint: Joint) -> Joint:
        if joint.kind in ("fixed", "floating"):
            return joint
        old, pairs = joint.drive, turned.get(joint.name)
        coupled = (
            old.coupling
            if pairs is None
            else tuple((name, float(value)) for name, value in pairs.items())
        )
        balancer = None if rotors == set() and terms == () else old.balancer
        drive = replace(
            old,
            rotor_inertia=old.rotor_inertia if rotors is None else joint.name in rotors,
            friction=terms_that_fit(
                old.friction if terms is None else terms,
                turns=joint.turns,
                coupled=bool(coupled),
                balancer=balancer,
            ),
            balancer=balancer,
            coupling=coupled,
            sign_width=widths.get(joint.name, old.sign_width),
            stribeck_speed=falls.get(joint.name, old.stribeck_speed),
            presliding_travel=travels.get(joint.name, old.presliding_travel),
            ripple_order=orders.get(joint.name, old.ripple_order),
            breakaway_travel=decays.get(joint.name, old.breakaway_travel),
        )
        return replace(joint, drive=drive)

    return change


def _rotors(wanted: bool | Iterable[str] | None, every: Sequence[str]) -> set[str] | None:
    if wanted is None or isinstance(wanted, bool):
        return None if wanted is None else set(every if wanted else ())
    if not isinstance(wanted, Iterable):
        raise DescriptionError(
            f"rotor_inertia: expected True, False or names of joints, got {wanted!r}"
        )
    names = {wanted} if isinstance(wanted, str) else set(wanted)
    for name in sorted(names - set(every), key=str):
        raise UnknownName("joint", name, every)
    return names


def _sizes(what: str, kind: str, given: ArrayLike | None, every: Sequence[str]) -> dict[str, float]:
    if given is None:
        return {}
    values = real_array(given, what)
    if values.shape not in ((), (len(every),)) or not np.all((values >= 0) & np.isfinite(values)):
        raise ShapeError(
            f"{what}: expected a {kind}, or one for each of {len(every)} joints, got {given!r}"
        )
    return dict(zip(every, np.broadcast_to(values, len(every)).tolist()))


def typical_length(joints: Iterable[Joint]) -> float:
    """Return the root mean square of the lengths between joints that are not zero, m.

    1 where there are none.
    """
    lengths = [length for length in _lengths(joints) if length != 0.0]
    return math.hypot(*lengths) / math.sqrt(len(lengths)) if lengths else 1.0


def largest_length(joints: Iterable[Joint]) -> float:
    """Return the largest length between joints, m; 1 where all are zero."""
    return max(_lengths(joints), default=0.0) or 1.0


def _lengths(joints: Iterable[Joint]) -> list[float]:
    return [
        abs(step.value)
        for joint in joints
        for step in (*joint.before, *joint.after)
        if not step.is_turn
    ]
