"""A plan of experiments in which one joint moves at a time and the others are locked."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from itertools import chain
from typing import Any

import numpy as np

from minidyn.arrays import Array, plain_values
from minidyn.base.base_map import BaseMap
from minidyn.base.base_parameters import base_parameters
from minidyn.base.equivalence import equivalence
from minidyn.excitation.one_joint_design import Design
from minidyn.excitation.one_joint_equations import Equations
from minidyn.formats.load import RobotLike, as_robot
from minidyn.model.drives import starting_terms
from minidyn.model.robot import Robot
from minidyn.notices import Notice, look
from minidyn.simulation.trajectory import Fourier

POOR = look(
    "plan.hard_to_distinguish",
    "Some constants of a joint have nearly the same effect within the joints' ranges of motion.",
    "Widen the ranges of motion if the robot allows it.",
)
WEAK = look(
    "plan.weak",
    "Some constants of a joint have little effect within the joints' ranges and speeds.",
    "Allow higher speeds if the robot does.",
)

_NOTHING = 1e-9  # a coefficient that is rounding
_POOR = 100.0  # scaled conditions above this are worth a word
_WEAK = 1000.0  # conditions in SI units above this, too


@dataclass(frozen=True, eq=False)
class Experiment:
    """One experiment: one joint moves, the others are locked.

    Attributes:
        number: From 1; one recording for each step.
        joint: Name of the joint that moves.
        index: Its place among the robot's joints, from 0.
        place: Where all joints are (n,), rad or m; the moving one's entry is the middle of its motion.
        trajectory: The suggested motion of all joints, callable as t -> (q, dq, ddq); only one moves.
        yields: Names of the constants (of the paper: "U33_2", "k3x") that this motion shows and no earlier kind of step
            does. Empty: it makes others sharper. :meth:`Plan.shown` has the base parameters.
        rules: The steps of Lin1992's Algorithm 2 that it serves: "1", "2.1", "2.2", "3.1", "3.2", or "drive".
    """

    number: int
    joint: str
    index: int
    place: Array
    trajectory: Fourier
    yields: tuple[str, ...]
    rules: tuple[str, ...]

    def __repr__(self) -> str:
        low, high = self.span
        return f"Experiment({self.number}: {self.joint} from {low:.3f} to {high:.3f}, the others locked)"

    @property
    def span(self) -> tuple[float, float]:
        """Lowest and highest position of the moving joint, rad or m."""
        q = self.trajectory(np.linspace(0.0, self.trajectory.period, 721))[0][:, self.index]
        return float(q.min()), float(q.max())

    @property
    def locked(self) -> dict[str, float]:
        """Where the joints that do not move are locked, by number from 1 ("q2"), rad or m."""
        return {f"q{k + 1}": float(value) for k, value in enumerate(self.place) if k != self.index}

    def to_json(self) -> dict[str, Any]:
        """Return the step as plain values for `json.dump`."""
        return {
            "number": self.number,
            "joint": self.joint,
            "place": self.place.tolist(),
            "from": self.span[0],
            "to": self.span[1],
            "period": self.trajectory.period,
            "sine": self.trajectory.sine[:, self.index].tolist(),
            "yields": list(self.yields),
            "rules": list(self.rules),
        }


@dataclass(frozen=True)
class System:
    """The small linear problem of one joint: its torque, solved for its own constants, joints behind it being known.

    Attributes:
        joint: Name of the joint whose torque is read.
        constants: Names of what is solved for.
        steps: Numbers of the steps that give it equations.
        condition: Condition number of its matrix, SI units.
        scaled_condition: The same with columns of unit length.
    """

    joint: str
    constants: tuple[str, ...]
    steps: tuple[int, ...]
    condition: float
    scaled_condition: float


@dataclass(frozen=True, eq=False)
class Plan:
    """Experiments that show all constants of a chain, one joint moving at a time.

    Attributes:
        robot: The robot.
        base: The constants, a base map (method "mlc", version 1992).
        steps: The experiments.
        systems: What is solved from them, from the last joint to the first.
        notices: What a reader should know.
    """

    robot: Robot
    base: BaseMap
    steps: tuple[Experiment, ...]
    systems: tuple[System, ...]
    notices: tuple[Notice, ...] = ()

    @property
    def condition(self) -> float:
        """The worst condition number of all systems."""
        return max((system.condition for system in self.systems), default=1.0)

    def to_json(self) -> dict[str, Any]:
        """Return the plan as plain values for `json.dump`."""
        return {
            "robot": self.robot.name,
            "joint_names": list(self.robot.joint_names),
            "constants": list(self.base.names),
            "condition": self.condition,
            "base_parameters": list(chain.from_iterable(shown := self.shown())),
            "steps": [step.to_json() | {"shows": list(names)} for step, names in zip(self.steps, shown)],
            "systems": [plain_values(asdict(system)) for system in self.systems],
            "notices": [notice.to_json() for notice in self.notices],
        }

    def shown(self, base: BaseMap | None = None) -> list[tuple[str, ...]]:
        """For each step the base parameters, by the names of `base`, that are known from it on and not before.

        Args:
            base: Base parameters of this robot; None: those of :func:`minidyn.base_parameters`.
        """
        chosen = base_parameters(self.robot) if base is None else base
        needed = np.abs(equivalence(self.base, chosen)) > _NOTHING
        constants, found, shown = set[str](), set[str](), list[tuple[str, ...]]()
        for step in self.steps:
            constants |= set(step.yields)
            missing = np.array([name not in constants for name in self.base.names])
            known = [name for name, parts in zip(chosen.names, needed) if not (parts & missing).any()]
            shown.append(tuple(name for name in known if name not in found))
            found |= set(known)
        return shown

    def step_rows(self, base: BaseMap | None = None) -> list[tuple[str, ...]]:
        """Return the steps as text: number, joint, motion, where the others are locked, what it shows (by `base`)."""
        rows, seen = list[tuple[str, ...]](), dict[int, int]()
        for step, names in zip(self.steps, self.shown(base)):
            low, high = step.span
            locked = ", ".join(f"{name}={value:.3f}" for name, value in step.locked.items())
            motion = f"{low:.3f} to {high:.3f}, {step.trajectory.period:.2f} s"
            part = "parts of combinations" if step.yields else "the same base parameters more sharply"
            part = f"as step {seen[step.index]}" if step.index in seen else part
            seen.setdefault(step.index, step.number)
            rows.append((str(step.number), step.joint, motion, locked or "-", ", ".join(names) or part))
        return rows

    def system_rows(self) -> list[tuple[str, ...]]:
        """Return the systems as text: joint, number of constants, steps, condition."""
        return [
            (one.joint, str(len(one.constants)), ", ".join(map(str, one.steps)), f"{one.condition:.1f}")
            for one in self.systems
        ]

    def __str__(self) -> str:
        parts = [
            f"{self.robot.name}: {len(self.steps)} steps show {self.base.rank} base parameters",
            _text(("step", "moves", "rad or m, period", "others locked at", "shows"), self.step_rows()),
            _text(("torque of", "combinations", "from steps", "condition"), self.system_rows()),
            *map(str, self.notices),
        ]
        return "\n\n".join(parts)

    def __repr__(self) -> str:
        return (
            f"Plan({self.robot.name!r}: {len(self.steps)} steps, {self.base.rank} constants, "
            f"worst condition {self.condition:.1f})"
        )


def one_joint_plan(
    robot: RobotLike, *, friction: Iterable[str] | str = "auto", rotor_inertia: bool | None = True
) -> Plan:
    """Return experiments that show all constants of a serial chain: runs for `md.identify(robot, runs, "one-joint")`.

    One joint moves at a time, within limits of position and speed; mostly the first rotational one. Where the others
    are locked is chosen so that every small problem is well conditioned. Obstacles, and the robot's own links, are not
    known here: look at the places before running them.

    Args:
        robot: A robot, its name or path: a serial chain of rotational and translational joints with any frames and any
            base. Its parameters are not read.
        friction: Friction terms that are to be shown, in the words of :func:`minidyn.identify` and with its default:
            "auto": viscous, Coulomb and offset, and then every other term shows, too; "own": those of the robot's file,
            which :func:`minidyn.identify_one_joint` looks for; or names of minidyn.model.drives.TERMS, () for none.
            Each joint that has some must move.
        rotor_inertia: Whether rotor inertias are to be shown; None: as the robot's file has them.

    Raises:
        Unsupported: Trees, loops, joints that follow others, coupled drives; the message names what to use.

    Implements: Lin1992 Algorithm 2.
    Differs: One set of places serves all joints, which needs fewer runs; every joint's torque is read in every run of
        a joint before it; which joints must move is found by rank; rotor inertia and friction take part.
    """
    robot = as_robot(robot).with_drives(rotor_inertia, starting_terms(friction))
    equations = Equations.of(robot, "one_joint_plan")
    design = Design(equations)
    steps = []
    for number, run in enumerate(design.runs, start=1):
        trajectory = design.trajectory(run)
        shown = design.movers.get(run.mover, {})
        yields, rules = tuple(chain.from_iterable(shown.values())), _rules(equations, run.mover, shown)
        joint_name = robot.joint_names[run.mover]
        steps.append(Experiment(number, joint_name, run.mover, trajectory.centre, trajectory, yields, rules))
    raw, scaled = design.conditions(design.runs), design.conditions(design.runs, scaled=True)
    systems, notices = list[System](), list[Notice]()
    for joint in reversed(range(equations.n)):
        if not equations.names(joint):
            continue
        numbers = tuple(step.number for step in steps if step.index <= joint)
        name = robot.joint_names[joint]
        systems.append(System(name, equations.names(joint), numbers, raw[joint], scaled[joint]))
        if scaled[joint] > _POOR:
            text = f"the constants of joint {name!r} are hard to distinguish within the joints' ranges of motion"
            notices.append(POOR(text, joint=name, condition=scaled[joint]))
        elif raw[joint] > _WEAK:
            text = f"some constants of joint {name!r} show weakly within the joints' ranges and speeds"
            notices.append(WEAK(text, joint=name, condition=raw[joint]))
    return Plan(robot, equations.base, tuple(steps), tuple(systems), tuple(notices))


def _rules(equations: Equations, mover: int, shown: dict[int, tuple[str, ...]]) -> tuple[str, ...]:
    """Which steps of Algorithm 2 a mover serves."""
    found = set()
    layout = equations.robot.layout
    for joint, names in shown.items():
        role = equations.structure.roles[joint]
        if any(name in layout and not layout.column(name).is_inertial for name in names):
            found.add("drive")
        if mover == joint and not role.turning:
            found.add("1")
        elif names and role.s is not None:
            found.add("2.1" if role.turning else "2.2")
        elif names:
            found.add("3.1" if role.turning else "3.2")
    return tuple(sorted(found))


def _text(heads: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    """A plain table; the last column takes the room it needs."""
    widths = [max(len(row[k]) for row in [heads, *rows]) for k in range(len(heads))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in [heads, *rows]]
    rule = "  ".join("-" * width for width in [*widths[:-1], len(heads[-1])])
    return "\n".join([lines[0], rule, *lines[1:]])
