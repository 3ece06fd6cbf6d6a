"""A joint: where it stands on its parent link, how it moves, and what limits, leads and drives it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from minidyn.model.drives import ROTOR, TERMS, Drive
from minidyn.model.geometry import Step, Steps, inverse_steps, matrix_of


@dataclass(frozen=True, slots=True)
class Limits:
    """Range of motion (rad or m), speed (rad/s or m/s) and effort (N m or N); infinite where not given."""

    lower: float = -math.inf
    upper: float = math.inf
    velocity: float = math.inf
    effort: float = math.inf


@dataclass(frozen=True, slots=True)
class Follow:
    """How a joint depends on the independent ones: q = offset + Σ ratio q_leader, or a formula of them.

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

    The link's frame seen from its parent's is `before`, then the motion, then `after`. For a modified
    Denavit-Hartenberg row `after` is empty and the motion is along or about z.

    Attributes:
        name: Unique name.
        kind: "revolute", "continuous", "prismatic", or "fixed" (a load that keeps its own parameters).
        parent: Index of the parent link in `robot.links`, -1 for the base.
        before: Constant placement of the joint on its parent.
        motion: "rx", "ry", "rz", "tx", "ty" or "tz".
        direction: +1 or -1: the motion's value is direction times q.
        after: Constant placement of the link's frame on the moving side; turns only for an oblique axis.
        limits: Range, speed, effort.
        follows: None for an independent joint.
        drive: Rotor inertia, gear, coupling, friction terms.
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

    @property
    def turns(self) -> bool:
        """Whether the joint is rotational."""
        return self.kind in ("revolute", "continuous")

    @property
    def slides(self) -> bool:
        """Whether the joint is translational."""
        return self.kind == "prismatic"

    @property
    def placement(self) -> NDArray[np.float64]:
        """The link's frame on its parent at q = 0 (4, 4)."""
        return matrix_of(self.before + self.after)

    @property
    def axis(self) -> NDArray[np.float64]:
        """Direction of the axis in the link's frame (3,), unit length."""
        unit = np.zeros(3)
        unit["xyz".index(self.motion[1])] = float(self.direction)
        axis: NDArray[np.float64] = matrix_of(inverse_steps(self.after))[:3, :3] @ unit
        return axis

    def placement_at(self, q: float) -> NDArray[np.float64]:
        """The link's frame on its parent at joint position q (4, 4)."""
        moved = () if self.kind == "fixed" else (Step(self.motion, self.direction * q),)
        return matrix_of((*self.before, *moved, *self.after))


@dataclass(frozen=True)
class Frame:
    """A named frame fixed to a link: what is left of a link that a fixed joint merged into its parent.

    Attributes:
        name: The merged link's name.
        link: Index in `robot.links`, -1 for the base.
        steps: Placement on that link.
    """

    name: str
    link: int
    steps: Steps

    @property
    def placement(self) -> NDArray[np.float64]:
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


def torque_unit(joint: Joint) -> str:
    """Return the unit of a joint's torque."""
    return "N" if joint.slides else "N·m"


def unit_of(symbol: str, joint: Joint) -> str:
    """Return the unit of a standard parameter by its symbol; empty where there is no common one."""
    if symbol in ("MX", "MY", "MZ"):
        return "kg·m"
    if symbol == "M":
        return "kg"
    if len(symbol) == 2 and set(symbol) <= set("XYZ"):
        return "kg·m²"
    unit = "kg m²" if symbol == ROTOR else next((term.unit for term in TERMS.values() if term.symbol == symbol), "")
    if joint.slides:
        unit = unit.replace("kg m²", "kg").replace("N m", "N").replace("rad", "m")
    return unit.replace(" ", "·")
