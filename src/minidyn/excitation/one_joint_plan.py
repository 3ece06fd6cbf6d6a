"""A plan of experiments in which one joint moves at a time and the others are locked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from minidyn.arrays import Array, plain_values
from minidyn.base.base_map import BaseMap
from minidyn.base.base_parameters import base_parameters
from minidyn.base.equivalence import equivalence
from minidyn.dynamics.record import record
from minidyn.errors import MinidynError, UnknownName
from minidyn.excitation.bounds import (
    NO_TORQUES,
    Bounds,
    Given,
    bounds_of,
    predicting_parameters,
    work_poses,
)
from minidyn.excitation.clearance import Clearance, clearance_of
from minidyn.excitation.motion import Eased, Pieces
from minidyn.excitation.motion_verdict import MotionVerdict, judge_motion
from minidyn.excitation.one_joint_design import FASTEST, Design, eased
from minidyn.excitation.one_joint_equations import Equations
from minidyn.excitation.preview import Shown, write_preview
from minidyn.excitation.proof import margins_of
from minidyn.excitation.robot_files import FORMATS, save_motion
from minidyn.files import AnyPath
from minidyn.formats.load import RobotLike, as_robot
from minidyn.graph.function import Function
from minidyn.model.drives import starting_terms
from minidyn.model.geometry import TOLERANCE
from minidyn.model.robot import Robot
from minidyn.notices import Notice, error, most_serious_first, warning
from minidyn.simulation.trajectory import Fourier, Trajectory, quintic
from minidyn.text import percent

POOR = warning(
    "plan.hard_to_distinguish",
    "Some constants of a joint have nearly the same effect within the joints' ranges of motion.",
    "Widen the ranges of motion if the robot allows it.",
)
WEAK = warning(
    "plan.weak",
    "Some constants of a joint have little effect within the joints' ranges and speeds.",
    "Allow higher speeds if the robot does.",
)

INFEASIBLE = error(
    "plan.infeasible",
    "A step does not keep all limits: no place was found that does.",
    "Widen the limit that is named, or move obstacles away; the step is not written for a robot.",
)
_NOTHING = 1e-9  # a coefficient that is rounding
_POOR = 100.0  # scaled conditions above this are worth a word
_BETWEEN = 2.0  # s, of the moves between steps in a preview
_WEAK = 1000.0  # conditions in SI units above this, too


@dataclass(frozen=True, eq=False)
class Experiment:
    """One experiment: one joint moves, the others are locked.

    Attributes:
        number: From 1; one recording for each step.
        joint: Name of the joint that moves.
        index: Its place among the robot's joints, from 0.
        place: Where all joints are (n,), rad or m; the moving one's entry is the middle of its
            motion.
        trajectory: The suggested motion of all joints, callable as t -> (q, dq, ddq); only one
            moves.
        yields: Names of the constants (of the paper: "U33_2", "k3x") that this motion shows and no
            earlier kind of step does. Empty: it makes others sharper. :meth:`Plan.shown` has the
            base parameters.
        rules: The steps of Lin1992's Algorithm 2 that it serves: "1", "2.1", "2.2", "3.1", "3.2",
            or "drive".
    """

    number: int
    joint: str
    index: int
    place: Array
    trajectory: Fourier
    yields: tuple[str, ...]
    rules: tuple[str, ...]

    def motion(self, periods: int = 1) -> Eased:
        """Return the motion as the robot runs it, from rest to rest.

        Callable as t -> (q, dq, ddq), with `duration`.
        """
        return eased(self.trajectory, periods)

    def __repr__(self) -> str:
        low, high = self.span
        return (
            f"Experiment({self.number}: {self.joint} from {low:.3f} to {high:.3f}, the others "
            "locked)"
        )

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
    """The small linear problem of one joint.

    Its torque, solved for its own constants, joints behind it being known.

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
        bounds: The limits of the motions.
        clearance: The distances that are kept; None: shapes are not known.
        margins: Largest share of each limit by joint over all steps, and the least distances, as
            `Excitation.margins`.
        feasible: Whether all steps keep all limits at all times, from rest to rest.
        notices: What a reader should know.
    """

    robot: Robot
    base: BaseMap
    steps: tuple[Experiment, ...]
    systems: tuple[System, ...]
    bounds: Bounds
    clearance: Clearance | None
    margins: Mapping[str, Mapping[str, float]]
    feasible: bool
    notices: tuple[Notice, ...] = ()

    @property
    def verdict(self) -> MotionVerdict:
        """Whether the steps may be run: what was assumed and not checked, in words."""
        return judge_motion(self.feasible, self.notices)

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
            "steps": [
                step.to_json() | {"shows": list(names)} for step, names in zip(self.steps, shown)
            ],
            "systems": [plain_values(asdict(system)) for system in self.systems],
            "margins": {kind: dict(shares) for kind, shares in self.margins.items()},
            "feasible": self.feasible,
            "verdict": self.verdict.to_json(),
            "notices": [notice.to_json() for notice in self.notices],
        }

    def save(
        self,
        folder: AnyPath,
        format: str = "csv",
        *,
        periods: int = 3,
        speed: float = 1.0,
        home: ArrayLike | None = None,
        rate: float = 125.0,
    ) -> list[Path]:
        """Write every step as a file that opens with a warning, "step-1.csv" and so on, and return
        their paths.

        Slower than designed, they are "step-1-slow.csv". A step is taken up from rest, repeats for
        some periods and comes to rest. Formats, speed, home and rate are those of
        :meth:`minidyn.Excitation.save`.

        Raises:
            MinidynError: A step does not keep its limits.
        """
        if not self.feasible:
            raise MinidynError(
                "save: a step does not keep all limits (notice plan.infeasible); nothing is written"
            )
        if isinstance(periods, bool) or not isinstance(periods, int) or periods < 1:
            raise MinidynError(f"save: periods: expected a whole number from 1 on, got {periods!r}")
        if format not in FORMATS:
            raise UnknownName("format", format, FORMATS)
        written, checked, slow = [], tuple(self.margins), "" if speed == 1 else "-slow"
        for step in self.steps:
            motion, name = step.motion(periods), f"step-{step.number}{slow}{FORMATS[format][0]}"
            target = Path(folder) / name
            written.append(
                save_motion(
                    self.robot,
                    motion,
                    motion.duration,
                    target,
                    format,
                    checked,
                    self.verdict.reasons,
                    speed,
                    home,
                    rate,
                )
            )
        return written

    def preview(self, path: AnyPath = "preview.html", periods: int = 1) -> Path:
        """Write a page with all steps one after the other, the robot moving in 3D.

        See `Excitation.preview`. The moves from step to step are shown as straight lines in the
        joints; they were not checked.
        """
        motion = self._one_after_the_other(periods)
        about = f"one joint at a time, {len(self.steps)} steps"
        shown = Shown(
            self.robot,
            motion,
            motion.ends[-1],
            self.bounds,
            self.clearance,
            self.margins,
            self.feasible,
            about,
        )
        return write_preview(shown, path, self.notices, ())

    def _one_after_the_other(self, periods: int) -> Pieces:
        pieces: list[Trajectory] = []
        lengths: list[float] = []
        for step in self.steps:
            motion = step.motion(periods)
            if pieces:
                here, there = pieces[-1](lengths[-1])[0], motion(0.0)[0]
                pieces.append(quintic(here, there, _BETWEEN))
                lengths.append(_BETWEEN)
            pieces.append(motion)
            lengths.append(motion.duration)
        return Pieces(tuple(pieces), tuple(np.cumsum(lengths).tolist()))

    def shown(self, base: BaseMap | None = None) -> list[tuple[str, ...]]:
        """For each step the base parameters, by the names of `base`, that are known from it on and
        not before.

        Args:
            base: Base parameters of this robot; None: those of :func:`minidyn.base_parameters`.
        """
        chosen = base_parameters(self.robot) if base is None else base
        needed = np.abs(equivalence(self.base, chosen)) > _NOTHING
        constants, found, shown = set[str](), set[str](), list[tuple[str, ...]]()
        for step in self.steps:
            constants |= set(step.yields)
            missing = np.array([name not in constants for name in self.base.names])
            known = [
                name for name, parts in zip(chosen.names, needed) if not (parts & missing).any()
            ]
            shown.append(tuple(name for name in known if name not in found))
            found |= set(known)
        return shown

    def step_rows(self, base: BaseMap | None = None) -> list[tuple[str, ...]]:
        """Return the steps as text.

        Number, joint, motion, where the others are locked, what it shows (by `base`).
        """
        rows, seen = list[tuple[str, ...]](), dict[int, int]()
        for step, names in zip(self.steps, self.shown(base)):
            low, high = step.span
            locked = ", ".join(f"{name}={value:.3f}" for name, value in step.locked.items())
            motion = f"{low:.3f} to {high:.3f}, {step.trajectory.period:.2f} s"
            part = (
                "parts of combinations" if step.yields else "the same base parameters more sharply"
            )
            part = f"as step {seen[step.index]}" if step.index in seen else part
            seen.setdefault(step.index, step.number)
            rows.append(
                (str(step.number), step.joint, motion, locked or "-", ", ".join(names) or part)
            )
        return rows

    def system_rows(self) -> list[tuple[str, ...]]:
        """Return the systems as text: joint, number of constants, steps, condition."""
        return [
            (
                one.joint,
                str(len(one.constants)),
                ", ".join(map(str, one.steps)),
                f"{one.condition:.1f}",
            )
            for one in self.systems
        ]

    def __str__(self) -> str:
        parts = [
            f"{self.robot.name}: {len(self.steps)} steps show {self.base.rank} base parameters",
            _text(
                ("step", "moves", "rad or m, period", "others locked at", "shows"), self.step_rows()
            ),
            _text(("torque of", "combinations", "from steps", "condition"), self.system_rows()),
            f"verdict: {self.verdict.headline}",
            *map(str, self.notices),
        ]
        return "\n\n".join(parts)

    def __repr__(self) -> str:
        return (
            f"Plan({self.robot.name!r}: {len(self.steps)} steps, {self.base.rank} constants, "
            f"worst condition {self.condition:.1f})"
        )


def one_joint_plan(
    robot: RobotLike,
    *,
    friction: Iterable[str] | str = "auto",
    rotor_inertia: bool | None = True,
    limits: Given | None = None,
    torque_share: float = 0.8,
    clearance: float = 0.02,
    obstacles: Sequence[Mapping[str, Any]] | None = None,
    floor: bool = True,
    tolerance: float = TOLERANCE,
) -> Plan:
    """Return experiments that show all constants of a serial chain.

    Runs for `md.identify(robot, runs, "one-joint")`. One joint moves at a time; mostly the first
    rotational one. Where the others are locked is chosen so that every small problem is well
    conditioned. Every step keeps the limits and distances that motions of :func:`minidyn.excite`
    keep, at all times; the moves from one step to the next are not checked: look at the places
    before running them.

    Args:
        robot: A robot, its name or path: a serial chain of rotational and translational joints with
            any frames and any base. Its parameters, where known, predict the torques.
        friction: Friction terms that are to be shown, in the words of :func:`minidyn.identify` and
            with its default: "auto": viscous, Coulomb and offset, and then every other term shows,
            too; "own": those of the robot's file, which :func:`minidyn.identify_one_joint` looks
            for; or names of minidyn.model.drives.TERMS, () for none. Each joint that has some must
            move.
        rotor_inertia: Whether rotor inertias are to be shown; None: as the robot's file has them.
        limits: Limits beside those of the robot's file, as for :func:`minidyn.excite`.
        torque_share: Share of the effort limits that may be used.
        clearance: Least distance of links from each other and from obstacles, m; needs the shapes
            in a URDF or MJCF.
        obstacles: What to keep away from, as for :func:`minidyn.excite`.
        floor: Whether the robot stands on a floor, as for :func:`minidyn.excite`.
        tolerance: Axes that are special within this are exactly so, as in `base_parameters`.

    Raises:
        Unsupported: Trees, loops, joints that follow others, coupled drives; the message names what
            to use.

    Implements: Lin1992 Algorithm 2.
    Differs: One set of places serves all joints, which needs fewer runs; every joint's torque is
        read in every run of a joint before it; which joints must move is found by rank; rotor
        inertia and friction take part.
    """
    robot = as_robot(robot).with_drives(rotor_inertia, starting_terms(friction))
    equations = Equations.of(robot, "one_joint_plan", tolerance)
    bounds, torque, apart, notices = _limits(
        robot, limits, torque_share, clearance, obstacles, floor
    )
    design = Design(equations, bounds, torque, apart)
    proofs = design.proofs()
    steps = []
    for number, run in enumerate(design.runs, start=1):
        trajectory = design.trajectory(run)
        shown = design.movers.get(run.mover, {})
        yields, rules = (
            tuple(chain.from_iterable(shown.values())),
            _rules(equations, run.mover, shown),
        )
        joint_name = robot.joint_names[run.mover]
        steps.append(
            Experiment(number, joint_name, run.mover, trajectory.centre, trajectory, yields, rules)
        )
    raw, scaled = design.conditions(design.runs), design.conditions(design.runs, scaled=True)
    systems = list[System]()
    for joint in reversed(range(equations.n)):
        if not equations.names(joint):
            continue
        numbers = tuple(step.number for step in steps if step.index <= joint)
        name = robot.joint_names[joint]
        systems.append(System(name, equations.names(joint), numbers, raw[joint], scaled[joint]))
        if scaled[joint] > _POOR:
            text = (
                f"the constants of joint {name!r} are hard to distinguish within the joints' "
                "ranges of motion"
            )
            notices.append(POOR(text, joint=name, condition=scaled[joint]))
        elif raw[joint] > _WEAK:
            text = (
                f"some constants of joint {name!r} show weakly within the joints' ranges and speeds"
            )
            notices.append(WEAK(text, joint=name, condition=raw[joint]))
    for step, proof in zip(steps, proofs):
        if not proof.holds:
            worst = proof.worst
            share = (
                "is too small"
                if worst.limit == "distance"
                else f"reaches {percent(worst.share, 0)} of its limit"
            )
            text = (
                f"step {step.number} does not keep all limits: {worst.limit} of {worst.joint!r} "
                f"{share}"
            )
            notices.append(
                INFEASIBLE(
                    text, step=step.number, limit=worst.limit, joint=worst.joint, share=worst.share
                )
            )
    return Plan(
        robot,
        equations.base,
        tuple(steps),
        tuple(systems),
        bounds,
        apart,
        margins_of(bounds, proofs),
        all(proof.holds for proof in proofs),
        tuple(most_serious_first(notices)),
    )


def _limits(
    robot: Robot,
    limits: Given | None,
    torque_share: float,
    clearance: float,
    obstacles: Sequence[Mapping[str, Any]] | None,
    floor: bool,
) -> tuple[Bounds, Function | None, Clearance | None, list[Notice]]:
    """What the motions must stay within: bounds, torques of a motion, distances.

    And what to know.
    """
    bounds = bounds_of(robot, limits, torque_share, FASTEST)
    notices, torque = list(bounds.notices), None
    if np.isfinite(bounds.effort).any():
        phi = predicting_parameters(robot)[0]
        if phi is None:
            notices.append(
                NO_TORQUES("torques were not checked: the robot's parameters are not known")
            )
            bounds = replace(bounds, effort=np.full(robot.n, np.inf))
        else:
            torque = record(robot, "inverse_dynamics", parameters=phi)
    apart, more = clearance_of(robot, clearance, obstacles, work_poses(bounds, robot.n), floor)
    return bounds, torque, apart, notices + more


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
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip()
        for row in [heads, *rows]
    ]
    rule = "  ".join("-" * width for width in [*widths[:-1], len(heads[-1])])
    return "\n".join([lines[0], rule, *lines[1:]])
