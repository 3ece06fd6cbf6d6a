"""Robots with joints held at a position: a robot of fewer joints that has the same torques.

The link that a locked joint carries becomes a part of the link that carries the joint: its inertia
is added there, and what stands on it (joints, loads, frames, ends of loops) stands on that link.
Joints that follow locked joints alone are locked with them. The drive of a locked joint does
nothing, unless other joints turn it.
"""

from __future__ import annotations

import fnmatch
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from minidyn.arrays import Array
from minidyn.errors import DescriptionError, UnknownName, Unsupported
from minidyn.model.division import Division, divide
from minidyn.model.drives import ALIASES, FRICTION, ROTOR, TERMS, Drive, friction_symbols
from minidyn.model.formula import Formula, formula_names
from minidyn.model.geometry import Step, Steps, matrix_of, tidy_steps
from minidyn.model.joint import Follow, Frame, Joint, Loop
from minidyn.model.loops import solve_loops
from minidyn.model.parameters import Layout, transform
from minidyn.notices import Kind, Notice, info, warning
from minidyn.text import plain_percent

if TYPE_CHECKING:
    from minidyn.model.robot import Robot

LockLike = Mapping[str, float | None] | Iterable[str] | str
"""Joints to lock: {name or pattern: position, None: the default}, or names and patterns."""

LOCKED = info(
    "robot.locked", "Joints are locked at a position; what they carry is a part of other links."
)
NOT_LOGGED = warning(
    "recording.not_logged",
    "The log has no columns for joints of the robot; they are locked.",
    "Where they stood elsewhere, give their positions to md.load as lock=..., in the shell to "
    "minidyn identify as --lock NAME=VALUE. Where they moved, log them.",
)

DIVIDED = warning(
    "robot.divided",
    "What the file says of locked links does not fit into the identified body that they are part "
    "of: the rest would not be a body. All parts are changed by the least that makes them bodies.",
    "Torques with the joints locked are those of the model. Where the locked links matter by "
    "themselves, give them their true masses in the file, or log their joints.",
)
DIVIDED_RIGID = info(
    "robot.divided_rigid",
    "What the file says of links that fixed joints hold does not fit into the identified body: "
    "they are changed by the least that makes all parts bodies.",
)

BEYOND = warning(
    "robot.locked_beyond_limits",
    "A joint is locked at a position that is beyond its limits.",
    "Check the position and its unit: --lock NAME=90deg.",
)


def default_position(joint: Joint) -> float:
    """Return where a joint is locked if nobody says: 0, or the middle of limits without 0."""
    low, high = joint.limits.lower, joint.limits.upper
    if low <= 0.0 <= high or not math.isfinite(low + high):
        return min(max(0.0, low), high)
    middle = 0.5 * (low + high)
    short = float(f"{middle:.6g}")  # as notices state it
    return short if low <= short <= high else middle


def says_locked(notice: Notice) -> bool:
    """Say whether a notice has positions of locked joints: {name: position} in data["joints"]."""
    return notice.code in (LOCKED.code, NOT_LOGGED.code)


def lock_positions(robot: Robot, lock: LockLike) -> dict[str, float]:
    """Return the position of each independent joint that is to be locked.

    Patterns such as "wheel_*" stand for the independent joints that fit.
    """
    listed = [lock] if isinstance(lock, str) else lock
    given = dict(listed) if isinstance(listed, Mapping) else dict.fromkeys(listed)
    made: dict[str, float] = {}
    before = robot.locked_joints
    for name, value in given.items():
        if _is_done(str(name), value, before) and not fnmatch.filter(robot.joint_names, str(name)):
            continue
        if value is not None and not (isinstance(value, int | float) and math.isfinite(value)):
            raise DescriptionError(f"lock: joint {name!r}: expected a position, got {value!r}")
        for joint in _fitting(robot, name, "lock"):
            place = robot.joints[robot.joint_index(joint)]
            made[joint] = default_position(place) if value is None else float(value)
    return made


def _is_done(name: str, value: object, before: Mapping[str, float]) -> bool:
    """Say whether a name or pattern means joints that are locked already, and there."""
    fitting = [joint for joint in before if joint == name or fnmatch.fnmatchcase(joint, name)]
    for joint in fitting:
        if value is not None and value != before[joint]:
            raise DescriptionError(
                f"lock: joint {joint!r} is locked at {before[joint]:.6g} already, not at {value}"
            )
    return bool(fitting)


def all_but(robot: Robot, keep: Iterable[str] | str) -> list[str]:
    """Return the independent joints that fit none of the names and patterns."""
    wanted = [keep] if isinstance(keep, str) else keep
    kept = {joint for name in wanted for joint in _fitting(robot, name, "keep")}
    return [name for name in robot.independent_names if name not in kept]


def fitting_joints(robot: Robot, names: Iterable[str]) -> set[str]:
    """Return the independent joints that names or patterns of measured torques mean."""
    return {joint for name in names for joint in _fitting(robot, name, "measured")}


def _fitting(robot: Robot, name: object, what: str) -> list[str]:
    """Return the independent joints that a name or pattern means; an error where there is none."""
    text = str(name)
    names = robot.independent_names
    found = [joint for joint in names if fnmatch.fnmatchcase(joint, text)]
    if text in names or found:
        return [text] if text in names else found
    for joint in robot.joints:
        if joint.name == text and joint.follows is not None and joint.follows.terms:
            leaders = " and ".join(repr(leader) for leader, _ in joint.follows.terms)
            raise DescriptionError(f"{what}: joint {text!r} follows {leaders}; name {leaders}")
    raise UnknownName(f"{what}: joint", text, names)


def locked_notice(positions: Mapping[str, float]) -> Notice:
    """Return the notice of joints that were locked on request."""
    text = f"locked: {positions_text(positions)} (rad or m)"
    return LOCKED(text, joints=dict(positions))


def not_logged(robot: Robot, names: Iterable[str]) -> Notice:
    """Return the notice of joints that a log does not have, and where they are locked."""
    joints = (robot.joints[robot.joint_index(name)] for name in names)
    positions = {joint.name: default_position(joint) for joint in joints}
    text = f"joints that are not logged are locked: {positions_text(positions)} (rad or m)"
    return NOT_LOGGED(text, joints=positions)


def positions_text(positions: Mapping[str, float]) -> str:
    """Return "finger_left at 0.02, head_1 at 0"."""
    return ", ".join(f"{name} at {value:.6g}" for name, value in positions.items())


def with_locked(robot: Robot, positions: Mapping[str, float], notice: Notice) -> Robot:
    """Return the robot with independent joints at given positions, and the notice that says so."""
    if not positions:
        return robot
    made = _Lock(robot, dict(positions)).robot(notice)
    notices = [*made.notices]
    for name, value in positions.items():
        joint = robot.joints[robot.joint_index(name)]
        low, high = joint.limits.lower, joint.limits.upper
        if value < low or value > high:
            range_text = f"{low:.4g} to {high:.4g} {'rad' if joint.turns else 'm'}"
            text = f"joint {name!r} is locked at {value:.6g}, beyond its limits {range_text}"
            notices.append(BEYOND(text, joint=name, position=value))
    return replace(made, notices=tuple(notices))


def unlocked(robot: Robot, full: Robot) -> tuple[Robot, tuple[Notice, ...]]:
    """Return the whole robot of a file with the parameters of one that was locked from it.

    Each locked body keeps what `full`, the file's robot, says of it; the link that carries it gets
    the rest of the composite body. Where that rest is not a body all change by the least, and a
    notice says so. With the joints locked again, torques are those of `robot`. Drives of locked
    joints stay as they are in `full`; loads that it does not have are left out.
    """
    lock = _Lock(full, {name: at for name, at in robot.locks if name in full.joint_names})
    bodies: dict[int, Array] = {}
    notices = []
    totals = {link.name: link.parameters for link in robot.links}
    for carrier, parts in lock.groups().items():
        total = totals.get(carrier, np.full(10, np.nan))
        if np.isnan(total).any():
            continue
        placed = [(index, matrix_of(lock.places[index][1])) for index in parts]
        own = [np.nan_to_num(full.links[index].parameters) for index in parts]
        moved = [transform(ten, T) for ten, (_, T) in zip(own, placed)]
        made = divide(total, moved)
        bodies[parts[0]] = made.bodies[0]
        if made.reason:
            bodies |= {
                index: transform(ten, np.linalg.inv(T))
                for (index, T), ten in zip(placed[1:], made.bodies[1:])
            }
            names = [full.link_names[index] for index in parts]
            notices.append(divided_notice(DIVIDED, names, moved, made))
    joints, terms, tens = [], [], []
    for index in range(len(full.joints)):
        changed, values = lock.drive_back(robot, index)
        joints.append(changed)
        terms.append(values)
        tens.append(bodies.get(index, full.links[index].parameters))
    layout = Layout.of(joint.drive for joint in joints)
    whole = replace(
        full,
        name=robot.name,
        joints=tuple(joints),
        gravity=robot.gravity,
        parameters=layout.vector(tens, terms),
    )
    return whole, tuple(notices)


def divided_notice(
    kind: Kind, names: Sequence[str], before: Sequence[Array], made: Division
) -> Notice:
    """Return the notice of parts that could not keep what the file says; the carrier is first."""
    masses = {
        name: (float(old[9]), float(new[9]))
        for name, old, new in zip(names[1:], before[1:], made.bodies[1:])
    }
    shown = ", ".join(f"{name} {old:.4g} to {new:.4g} kg" for name, (old, new) in masses.items())
    text = (
        f"without what the file says of {', '.join(map(repr, names[1:]))} the rest of the body of "
        f"link {names[0]!r} is not a body: {made.reason}; the parts are changed by up to "
        f"{plain_percent(made.change)} (mass of {shown})"
    )
    return kind(text, link=names[0], reason=made.reason, change=made.change, masses=masses)


@dataclass(frozen=True)
class _Lock:
    """One robot and the positions of the independent joints that are locked."""

    full: Robot
    positions: dict[str, float]

    @cached_property
    def held(self) -> dict[str, float]:
        """Every joint that cannot move, and where it is: followers and passive joints included."""
        held = dict(self.positions)
        for joint in self.full.joints:
            if joint.follows is not None and self._leaders(joint) <= set(self.positions):
                held[joint.name] = self._value(joint)
        still = self._still_loops
        if still:
            at = dict(zip(self._names, solve_loops(self.full, self._reference)))
            held |= {name: float(at[name]) for loop in still for name in loop.passive}
        return held

    @property
    def _names(self) -> list[str]:
        return [joint.name for joint in self.full.joints]

    @cached_property
    def _reference(self) -> Array:
        """Positions of the full robot's independent joints: locked ones, and where starts hold."""
        home = {name: value for loop in self.full.loops for name, value in loop.home}
        joints = (self.full.joints[index] for index in self.full.independent)
        return np.array(
            [self.positions.get(j.name, home.get(j.name, default_position(j))) for j in joints]
        )

    def _leaders(self, joint: Joint) -> set[str]:
        """Return the independent joints that a joint follows."""
        if joint.name in self.full.formulas:
            names = self.full.formula_names
            return {names[one] for one in self.full.formulas[joint.name].variables}
        return set() if joint.follows is None else {name for name, _ in joint.follows.terms}

    def _value(self, joint: Joint) -> float:
        """Return the position of a joint that follows locked joints alone."""
        if joint.name in self.full.formulas:
            formula, names = self.full.formulas[joint.name], self.full.formula_names
            values = {one: self.positions[names[one]] for one in formula.variables}
            return float(formula.evaluate(values))
        assert joint.follows is not None  # noqa: S101
        return joint.follows.offset + sum(
            ratio * self.positions[name] for name, ratio in joint.follows.terms
        )

    @cached_property
    def _still_loops(self) -> tuple[Loop, ...]:
        """Loops with joints to solve for, of whose independent joints all are locked."""
        groups: list[tuple[set[str], list[Loop]]] = []  # loops that share joints
        for loop in self.full.implicit_loops:
            along, loops = self._along(loop), [loop]
            for other in [group for group in groups if group[0] & along]:
                along, loops = along | other[0], [*loops, *other[1]]
                groups.remove(other)
            groups.append((along, loops))
        free = set(self.full.joint_names) - set(self.positions)
        return tuple(loop for along, loops in groups if not along & free for loop in loops)

    def _along(self, loop: Loop) -> set[str]:
        """Return the names of the joints on which a loop depends."""
        paths = [self._path(loop.link_a), self._path(loop.link_b)]
        names = {self.full.joints[index].name for index in paths[0] ^ paths[1]} | set(loop.passive)
        for joint in self.full.joints:
            if joint.name in names:
                names |= self._leaders(joint)
        return names

    def _path(self, link: int) -> set[int]:
        path = set()
        while link >= 0:
            path.add(link)
            link = self.full.joints[link].parent
        return path

    @cached_property
    def places(self) -> dict[int, tuple[int, Steps]]:
        """Each old link's new link, -1 for the base, and its placement there."""
        places: dict[int, tuple[int, Steps]] = {-1: (-1, ())}
        count = 0
        for index, joint in enumerate(self.full.joints):
            link, steps = places[joint.parent]
            if joint.name in self.held:
                moved = Step(joint.motion, joint.direction * self.held[joint.name])
                places[index] = link, tidy_steps((*steps, *joint.before, moved, *joint.after))
            elif joint.kind == "fixed" and link < 0:  # a load that does not move
                places[index] = link, (*steps, *joint.before)
            else:
                places[index] = count, ()
                count += 1
        return places

    def _moves(self, index: int) -> bool:
        """Whether a joint, or a load, is left with its own link."""
        joint = self.full.joints[index]
        grounded = joint.kind == "fixed" and self.places[joint.parent][0] < 0
        return joint.name not in self.held and not grounded

    def robot(self, notice: Notice) -> Robot:
        """Return the robot of the joints that are left."""
        self._check_drives()
        full = self.full
        left = [index for index in range(len(full.joints)) if self._moves(index)]
        joints, terms = [], []
        for index in left:
            joint, values = self._drive(full.joints[index], full.drive_terms(index))
            link, steps = self.places[joint.parent]
            before = tidy_steps((*steps, *joint.before)) if steps else joint.before
            joints.append(replace(joint, parent=link, before=before, follows=self._follow(joint)))
            terms.append(values)
        if not any(joint.kind != "fixed" and joint.follows is None for joint in joints):
            names = ", ".join(self.positions)
            raise DescriptionError(f"lock: no joint is left to move (locked: {names})")
        layout = Layout.of(joint.drive for joint in joints)
        bodies, grounded = np.zeros((len(left), 10)), np.zeros(10)
        for index, body in enumerate(full.links):
            link, steps = self.places[index]
            own = transform(body.parameters, matrix_of(steps)) if steps else body.parameters
            if link >= 0:
                bodies[link] += own
            else:
                grounded += own
        frames = [
            replace(one, link=self.places[one.link][0], steps=self._placed(one.link, one.steps))
            for one in full.frames
        ]
        frames += [
            Frame(full.link_names[index], *self.places[index])
            for index in range(len(full.joints))
            if not self._moves(index)
        ]
        return replace(
            full,
            joints=tuple(joints),
            link_names=tuple(full.link_names[index] for index in left),
            parameters=layout.vector(bodies, terms),
            frames=tuple(frames),
            loops=tuple(self._loop(loop) for loop in full.loops if not self._is_held(loop)),
            notices=(*full.notices, notice),
            locks=(*full.locks, *self.positions.items()),
            base_body=None if full.base_body is None else full.base_body + grounded,
        )

    def groups(self) -> dict[str, list[int]]:
        """Return the old links that each link is made of, by the name of the new: itself first."""
        left = [index for index in range(len(self.full.joints)) if self._moves(index)]
        made = {self.full.link_names[index]: [index] for index in left}
        for index in range(len(self.full.joints)):
            link = self.places[index][0]
            if link >= 0 and not self._moves(index):
                made[self.full.link_names[left[link]]].append(index)
        return made

    def drive_back(self, robot: Robot, index: int) -> tuple[Joint, dict[str, float]]:
        """Return a joint of the full robot with the drive of the locked robot, and its terms.

        What turns a drive while it is locked turns it again.
        """
        joint = self.full.joints[index]
        if not self._moves(index) or joint.kind == "fixed":
            return joint, self.full.drive_terms(index)
        place = robot.joint_index(joint.name)
        drive = robot.joints[place].drive
        locked = [pair for pair in joint.drive.coupling if pair[0] in self.held]
        order = [one.name for one in self.full.joints]
        coupling = sorted((*drive.coupling, *locked), key=lambda pair: order.index(pair[0]))
        made = replace(joint, drive=replace(drive, coupling=tuple(coupling)))
        return made, robot.drive_terms(place)

    def _placed(self, link: int, steps: Steps) -> Steps:
        return tidy_steps((*self.places[link][1], *steps))

    def _drive(self, joint: Joint, values: dict[str, float]) -> tuple[Joint, dict[str, float]]:
        """Return a joint that is left, its drive without locked joints, and its terms' values."""
        drive = joint.drive
        coupling = tuple(pair for pair in drive.coupling if pair[0] not in self.held)
        if drive.coupling and not coupling:  # its own terms are the drive's
            drive, values = _alone(drive, values)
        return replace(joint, drive=replace(drive, coupling=coupling)), values

    def _check_drives(self) -> None:
        """Refuse to lock a joint whose drive other joints turn."""
        for joint in self.full.joints:
            others = [name for name, _ in joint.drive.coupling if name not in self.held]
            if joint.name in self.held and others:
                raise Unsupported(
                    f"joint {joint.name!r} cannot be locked alone: its drive is turned by "
                    f"{', '.join(map(repr, others))}; lock these too, or remove the coupling"
                )

    def _follow(self, joint: Joint) -> Follow | None:
        """Return what a joint that is left follows, locked leaders put in as numbers."""
        follows = joint.follows
        if follows is None:
            return None
        if not follows.formula:
            terms = tuple(pair for pair in follows.terms if pair[0] not in self.positions)
            locked = (pair for pair in follows.terms if pair[0] in self.positions)
            offset = follows.offset + sum(ratio * self.positions[name] for name, ratio in locked)
            return replace(follows, terms=terms, offset=offset)
        names = self.full.formula_names
        left = [one.name for index, one in enumerate(self.full.joints) if self._moves(index)]
        called = {one: f"q{left.index(one) + 1}" for one in left}
        formula = self.full.formulas[joint.name]
        values: dict[str, str | float] = {
            one: self.positions[names[one]] if names[one] in self.positions else called[names[one]]
            for one in formula.variables
        }
        text = formula.renamed(values)
        allowed = [name for name in self.full.joint_names if name not in self.positions]
        new_names = formula_names(left, allowed)
        flat = Formula(text, f"joint {joint.name!r}", new_names).linear()
        if flat is None:
            return replace(follows, formula=text)
        terms = tuple((new_names[variable], ratio) for variable, ratio in flat[0].items())
        return Follow(terms, flat[1], passive=follows.passive)

    def _is_held(self, loop: Loop) -> bool:
        return all(name in self.held for name in loop.passive)

    def _loop(self, loop: Loop) -> Loop:
        """Return a loop that still moves: its ends placed anew, its start near the locked pose."""
        ends = (
            self.places[loop.link_a][0],
            self._placed(loop.link_a, loop.steps_a),
            self.places[loop.link_b][0],
            self._placed(loop.link_b, loop.steps_b),
        )
        passive = tuple(name for name in loop.passive if name not in self.held)
        start, home = dict(zip(loop.passive, loop.start)), dict(loop.home)
        if self._along(loop) & set(self.positions) and loop in self.full.implicit_loops:
            at = dict(zip(self._names, solve_loops(self.full, self._reference)))
            start = {name: float(at[name]) for name in passive}
            home = dict(zip(self.full.joint_names, self._reference.tolist()))
        kept = tuple((name, home[name]) for name in home if name not in self.positions)
        return Loop(
            loop.name, *ends, loop.kind, passive, tuple(start[name] for name in passive), kept
        )


def _alone(drive: Drive, values: dict[str, float]) -> tuple[Drive, dict[str, float]]:
    """Return a drive that no other joint turns any more: the joint's own terms are the drive's."""
    made = {symbol: value for symbol, value in values.items() if symbol not in _DRIVES_OF}
    for symbol, to in _DRIVES_OF.items():
        if symbol in values:
            made[to] = made.get(to, 0.0) + values[symbol]
    terms = [name for name, term in TERMS.items() if term.symbol in made]
    friction = friction_symbols(terms)
    return replace(drive, rotor_inertia=ROTOR in made, friction=friction), made


_DRIVES_OF = dict(
    zip(
        (FRICTION[name] for name in ALIASES["own"]),
        (ROTOR, FRICTION["viscous"], FRICTION["coulomb"]),
    )
)
"""Symbols of a joint's own terms, and those of its drive that do the same without a coupling."""
