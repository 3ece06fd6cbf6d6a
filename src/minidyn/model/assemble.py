"""From loose links and joints, in any order, to a robot: what every file format shares.

A reader turns its file into `LooseLink`s and `LooseJoint`s, each saying where it stood in the file;
`assemble` finds the root, sorts the tree, merges what fixed joints hold together, resolves
followers and names what is wrong.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike

from minidyn.arrays import Array
from minidyn.errors import DescriptionError, UnknownName, require_known
from minidyn.model.drives import ALIASES, FRICTION, ROTOR, Drive, terms_that_fit
from minidyn.model.formula import Formula, formula_names
from minidyn.model.geometry import (
    Steps,
    align_z,
    inverse_steps,
    matrix_of,
    snap_axis,
    snapped_step,
    tidy_steps,
)
from minidyn.model.joint import Follow, Frame, Joint, Limits, Loop
from minidyn.model.parameters import Layout, transform
from minidyn.model.robot import Robot
from minidyn.notices import Notice, warning

LOOSE_LINK = warning(
    "robot.loose_link",
    "The robot file has a link that no joint holds; it is left out.",
    "Remove link {link!r} from the file, or give it a joint.",
)
FIXED_BASE = warning(
    "robot.fixed_base",
    "Several limbs hang on a body with mass that no joint moves: this base is taken as fixed to "
    "the world.",
    "Where the robot walks or drives, its torques are right only while {base!r} stands still; for "
    "a moving base load it with free_base=True (--free-base).",
)


@dataclass(frozen=True)
class LooseLink:
    """A link as a file gives it."""

    name: str
    where: str  # file and line, for messages
    parameters: Array | None = (
        None  # ten values in the link's frame, None where the file gives none
    )


@dataclass(frozen=True)
class LooseJoint:
    """A joint as a file gives it.

    What is not explained here is as in :class:`minidyn.model.joint.Joint`.
    """

    name: str
    where: str  # file and line, for messages
    kind: str
    parent: str  # names of the links
    child: str
    before: Steps = ()
    motion: str = "rz"
    direction: int = 1
    after: Steps = ()
    limits: Limits = field(default_factory=Limits)
    leaders: Mapping[str, float] | None = None  # of a follower, {leader joint name: ratio}
    offset: float = 0.0  # of a follower, the constant part
    formula: str = ""  # of a follower, instead of leaders
    passive: bool = False  # whether a loop moves it (else it is a mimic)
    drive_values: Mapping[str, float] = field(
        default_factory=dict
    )  # {"Ia": 0.3, ...}: all its terms (NaN: unknown)
    drive: Drive = field(default_factory=Drive)  # gear ratio, coupling and widths


@dataclass(frozen=True)
class LooseLoop:
    """Two frames on two links, by name, that must coincide.

    See :class:`minidyn.model.joint.Loop`.
    """

    name: str
    where: str
    link_a: str
    steps_a: Steps
    link_b: str
    steps_b: Steps
    kind: str = "point"
    passive: tuple[str, ...] = ()
    start: tuple[float, ...] = ()
    home: tuple[tuple[str, float], ...] = ()


_Item = TypeVar("_Item", LooseLink, LooseJoint)


def motion_along(
    kind: str, axis: ArrayLike, where: str, notices: list[Notice] | None = None
) -> tuple[Steps, str, int, Steps]:
    """Return (turn before, motion, direction, turn after) for a joint with any axis in the link's
    own frame.

    An axis along a coordinate needs no turns; an oblique one is turned to z and back.
    """
    unit = snap_axis(axis, where, notices)
    letter = "t" if kind == "prismatic" else "r"
    main = int(np.argmax(np.abs(unit)))
    if abs(unit[main]) == 1.0:
        return (), letter + "xyz"[main], 1 if unit[main] > 0 else -1, ()
    turn = tidy_steps(snapped_step(step.kind, step.value, where, notices) for step in align_z(unit))
    return turn, letter + "z", 1, inverse_steps(turn)


def assemble(
    name: str,
    links: Sequence[LooseLink],
    joints: Sequence[LooseJoint],
    *,
    gravity: ArrayLike = (0.0, 0.0, -9.81),
    base: Steps = (),
    loops: Sequence[LooseLoop] = (),
    symbols: Iterable[tuple[str, float]] = (),
    notices: Iterable[Notice] = (),
    source: str = "",
) -> Robot:
    """Return the robot of these links and joints.

    Names, cycles, roots and that something moves are checked.
    """
    by_name = _unique(links, "link", source)
    joint_by_name = _unique(joints, "joint", source)
    root = _root(links, joints, by_name, source)
    children: dict[str, list[LooseJoint]] = {link.name: [] for link in links}
    for joint in joints:
        children[joint.parent].append(joint)

    made: list[
        tuple[LooseJoint, int, Steps]
    ] = []  # joint, parent link index, placement up to its own
    link_names: list[str] = []
    bodies: list[list[Array]] = []  # parameters of each moving link and what is merged into it
    frames: list[Frame] = []
    fixed = by_name[root].parameters
    ground = [] if fixed is None else [fixed]  # what never moves
    # joints keep the order of the file as far as each can follow its parent: numbers stay the
    # author's own
    rank = {joint.name: index for index, joint in enumerate(joints)}
    ready: list[tuple[int, LooseJoint, int, Steps]] = [
        (rank[joint.name], joint, -1, ()) for joint in children[root]
    ]
    reached = {root}
    while ready:
        _, joint, link, steps = heapq.heappop(ready)
        reached.add(joint.child)
        own = by_name[joint.child].parameters
        if joint.kind == "fixed":
            steps = tidy_steps((*steps, *joint.before, *joint.after))
            frames.append(Frame(joint.child, link, steps))
            if link >= 0 and own is not None:
                bodies[link].append(transform(own, matrix_of(steps)))
            elif own is not None:
                ground.append(transform(own, matrix_of(steps)))
        else:
            made.append((joint, link, steps))
            link, steps = len(made) - 1, ()
            link_names.append(joint.child)
            bodies.append([] if own is None else [own])
        for child in children[joint.child]:
            heapq.heappush(ready, (rank[child.name], child, link, steps))
    carrier = {joint.child: joint for joint in joints}
    left_out = []
    for loose in (link for link in links if link.name not in reached):
        if loose.name in carrier:
            raise DescriptionError(
                f"{loose.where}: the joints form a cycle: {_cycle(carrier, loose.name)}"
            )
        text = f"{loose.where}: no joint holds link {loose.name!r}; it is left out"
        left_out.append(LOOSE_LINK(text, link=loose.name))
    if not made:
        raise DescriptionError(
            f"{_prefix(source)}no moving joint; expected at least one that turns or slides"
        )

    order = {joint.name: index for index, (joint, _, _) in enumerate(made)}
    moving = [joint for joint, _, _ in made]
    _check_floating(root, moving)
    follows = _followers(moving, joint_by_name, source)
    robot_joints = tuple(
        Joint(
            name=joint.name,
            kind=joint.kind,
            parent=parent,
            before=tidy_steps((*steps, *joint.before)),
            motion=joint.motion,
            direction=joint.direction,
            after=tidy_steps(joint.after),
            limits=joint.limits,
            follows=follows.get(joint.name),
            drive=_drive(joint, order),
        )
        for joint, parent, steps in made
    )
    base_body = np.sum(ground, axis=0) if ground else None
    tens = [np.sum(body, axis=0) if body else None for body in bodies]
    values = Layout.of(joint.drive for joint in robot_joints).vector(
        tens, (joint.drive_values for joint in moving)
    )
    robot = Robot(
        name=name,
        joints=robot_joints,
        link_names=tuple(link_names),
        gravity=np.asarray(gravity, dtype=float),
        parameters=values,
        base_name=root,
        base=tidy_steps(base),
        frames=tuple(frames),
        symbols=tuple(symbols),
        notices=(*notices, *left_out, *_fixed_base(root, robot_joints, base_body, source)),
        source=source,
        base_body=base_body,
    )
    return replace(robot, loops=tuple(_loop(loop, robot) for loop in loops)) if loops else robot


def _check_floating(root: str, moving: Sequence[LooseJoint]) -> None:
    """Refuse floating joints that are not the only one of the root, or have a drive."""
    for joint in (joint for joint in moving if joint.kind == "floating"):
        others = [other.name for other in moving if other.parent == joint.parent]
        if joint is not moving[0] or len(others) > 1 or any(j.parent == root for j in moving[1:]):
            raise DescriptionError(
                f"{joint.where}: joint {joint.name!r} is floating; only a free base is supported: "
                f"one floating joint on the root link {root!r}, which carries all others"
            )
        if joint.drive_values or joint.leaders is not None or joint.formula:
            raise DescriptionError(
                f"{joint.where}: joint {joint.name!r} is floating: it has no drive and follows none"
            )


def _fixed_base(
    root: str, joints: Sequence[Joint], body: Array | None, source: str
) -> list[Notice]:
    """Return a notice where limbs of two or more joints each share a base with mass.

    Often a legged robot.
    """
    mass = 0.0 if body is None else float(body[-1])
    limbs = list(range(len(joints)))
    for index, joint in enumerate(joints):  # parents come first
        limbs[index] = index if joint.parent < 0 else limbs[joint.parent]
    count = sum(limbs.count(limb) > 1 for limb in set(limbs))
    if count < 2 or not mass > 0:
        return []
    text = (
        f"{_prefix(source)}{count} limbs on {root!r}, {mass:.4g} kg: this base is taken as fixed "
        "to the world"
    )
    return [FIXED_BASE(text, base=root, limbs=count, mass=mass)]


def _prefix(where: str) -> str:
    return f"{where}: " if where else ""


def _unique(items: Sequence[_Item], kind: str, source: str) -> dict[str, _Item]:
    found: dict[str, _Item] = {}
    for item in items:
        if not item.name:
            raise DescriptionError(f"{item.where}: a {kind} without a name; every {kind} needs one")
        if item.name in found:
            raise DescriptionError(
                f"{item.where}: a second {kind} called {item.name!r} "
                f"(the first: {found[item.name].where}); names must differ"
            )
        found[item.name] = item
    if not found:
        raise DescriptionError(f"{_prefix(source)}no {kind}; a robot needs at least one")
    return found


def _root(
    links: Sequence[LooseLink],
    joints: Sequence[LooseJoint],
    by_name: Mapping[str, LooseLink],
    source: str,
) -> str:
    carrier: dict[str, LooseJoint] = {}
    for joint in joints:
        for role, link in (("parent", joint.parent), ("child", joint.child)):
            require_known(
                [link], by_name, f"{joint.where}: joint {joint.name!r} names an unknown {role} link"
            )
        if joint.child in carrier:
            raise DescriptionError(
                f"{joint.where}: link {joint.child!r} is the child of two joints, "
                f"{carrier[joint.child].name!r} and {joint.name!r}; a tree allows one, describe "
                "the second as a loop"
            )
        carrier[joint.child] = joint
    roots = [link.name for link in links if link.name not in carrier]
    if len(roots) == 1:
        return roots[0]
    if not roots:
        raise DescriptionError(
            f"{_prefix(source)}the joints form a cycle: {_cycle(carrier, links[0].name)}"
        )
    # links nothing is attached to are harmless leftovers as long as one root carries the joints
    carrying = [name for name in roots if any(joint.parent == name for joint in joints)]
    if len(carrying) == 1:
        return carrying[0]
    shown = ", ".join(repr(name) for name in roots[:5])
    raise DescriptionError(
        f"{_prefix(source)}{len(roots)} links have no parent joint ({shown}); expected one root"
    )


def _cycle(carrier: Mapping[str, LooseJoint], start: str) -> str:
    seen = [start]
    while (link := carrier[seen[-1]].parent) not in seen:
        seen.append(link)
    return " <- ".join([*seen[seen.index(link) :], link])


def _drive(joint: LooseJoint, order: Mapping[str, int]) -> Drive:
    """Return a joint's drive.

    Terms that do not exist or mean nothing on it, and unknown couplings, are refused.
    """
    require_known(
        joint.drive_values, (ROTOR, *FRICTION.values()), f"{joint.where}: unknown drive term"
    )
    coupling = joint.drive.coupling
    terms = tuple(term for term, symbol in FRICTION.items() if symbol in joint.drive_values)
    turns = joint.kind not in ("prismatic", "fixed")
    fitting = terms_that_fit(
        terms, turns=turns, coupled=bool(coupling), balancer=joint.drive.balancer
    )
    for term in (term for term in terms if term not in fitting):
        if term in ALIASES["balancer"]:
            text = (
                f"drive term {term!r} of joint {joint.name!r} needs the points of a balancer: "
                "balancer = { ... }"
            )
            raise DescriptionError(f"{joint.where}: {text}")
        why = "needs a coupling: without one" if term in ALIASES["own"] else "needs an angle:"
        rest = (
            "it is the drive's own term" if term in ALIASES["own"] else f"the joint is {joint.kind}"
        )
        raise DescriptionError(
            f"{joint.where}: drive term {term!r} of joint {joint.name!r} {why} {rest}"
        )
    what = f"{joint.where}: the coupling of joint {joint.name!r} names an unknown joint"
    require_known((other for other, _ in coupling), order, what)
    return replace(
        joint.drive,
        rotor_inertia=ROTOR in joint.drive_values,
        friction=terms,
        coupling=tuple(sorted(coupling, key=lambda pair: order[pair[0]])),
    )


def _followers(
    moving: Sequence[LooseJoint], every: Mapping[str, LooseJoint], source: str
) -> dict[str, Follow]:
    """Resolve followers of followers, so that every leader is an independent joint."""
    order = {joint.name: joint for joint in moving}
    names = formula_names(list(order), list(order))
    linear: dict[str, tuple[dict[str, float], float]] = {}
    follows: dict[str, Follow] = {}
    for joint in moving:
        if joint.formula:
            formula = Formula(joint.formula, f"{joint.where}: joint {joint.name!r}", names)
            flat = formula.linear()
            if flat is None:
                follows[joint.name] = Follow(formula=joint.formula, passive=joint.passive)
            else:
                terms: dict[str, float] = {}
                for variable, ratio in flat[0].items():
                    terms[names[variable]] = terms.get(names[variable], 0.0) + ratio
                linear[joint.name] = terms, flat[1]
        elif joint.leaders is not None:
            for leader in joint.leaders:
                if leader in every and leader not in order:
                    raise DescriptionError(
                        f"{joint.where}: joint {joint.name!r} follows {leader!r}, which is fixed"
                    )
            require_known(
                joint.leaders,
                order,
                f"{joint.where}: joint {joint.name!r} follows an unknown joint",
            )
            linear[joint.name] = dict(joint.leaders), joint.offset

    resolved: dict[str, tuple[dict[str, float], float]] = {}  # each once, however long the chain

    def resolve(name: str, path: tuple[str, ...]) -> tuple[dict[str, float], float]:
        if name in resolved:
            return resolved[name]
        if name in path:
            ring = " follows ".join((*path[path.index(name) :], name))
            raise DescriptionError(
                f"{order[name].where}: joints follow each other in a ring: {ring}"
            )
        terms, offset = linear[name]
        flat: dict[str, float] = {}
        for leader, ratio in terms.items():
            if leader in follows and follows[leader].formula:
                raise DescriptionError(
                    f"{order[name].where}: joint {name!r} follows {leader!r}, which follows a "
                    "formula"
                )
            inner, shift = (
                resolve(leader, (*path, name)) if leader in linear else ({leader: 1.0}, 0.0)
            )
            offset += ratio * shift
            for independent, factor in inner.items():
                flat[independent] = flat.get(independent, 0.0) + ratio * factor
        resolved[name] = flat, offset
        return resolved[name]

    place = {name: index for index, name in enumerate(order)}
    for name in linear:
        terms, offset = resolve(name, ())
        follows[name] = Follow(
            terms=tuple(
                (other, terms[other])
                for other in sorted(terms, key=place.__getitem__)
                if terms[other]
            ),
            offset=offset,
            passive=order[name].passive,
        )
    if len(follows) == len(moving):
        raise DescriptionError(
            f"{_prefix(source)}every joint follows another; at least one must be independent"
        )
    return follows


def _loop(loop: LooseLoop, robot: Robot) -> Loop:
    ends = []
    for link, steps in ((loop.link_a, loop.steps_a), (loop.link_b, loop.steps_b)):
        try:
            index, inner = robot.find_frame(link)
        except UnknownName as error:
            raise DescriptionError(f"{loop.where}: loop {loop.name!r} names an {error}") from None
        ends.append((index, tidy_steps((*inner, *steps))))
    known_joints = [joint.name for joint in robot.joints]
    named = (*loop.passive, *(name for name, _ in loop.home))
    require_known(named, known_joints, f"{loop.where}: loop {loop.name!r} names an unknown joint")
    start = loop.start or (0.0,) * len(loop.passive)
    if len(start) != len(loop.passive):
        raise DescriptionError(
            f"{loop.where}: loop {loop.name!r} has {len(start)} start values for "
            f"{len(loop.passive)} passive joints"
        )
    home = tuple(sorted(loop.home, key=lambda pair: known_joints.index(pair[0])))
    return Loop(loop.name, *ends[0], *ends[1], loop.kind, loop.passive, start, home)
