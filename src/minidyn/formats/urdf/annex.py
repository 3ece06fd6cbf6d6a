"""What a robot has and URDF cannot hold: kept in one <minidyn> element that other readers of URDF pass over.

Gravity, rotor inertia, offset friction, couplings, formulas, loops, geometry symbols, loads with columns of their
own, unknown parameters and the last digits that a change of convention rounds away are written there as JSON. What
URDF itself says comes first: each entry bears a digest of the URDF text it refines and counts only while that text is
unchanged. So a file may be edited by hand or by other tools; what was edited is read as it stands.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from minidyn.errors import DescriptionError, MinidynError
from minidyn.formats.xml_file import Element
from minidyn.model.assemble import LooseJoint, LooseLink, assemble
from minidyn.model.drives import FRICTION, ROTOR, Drive
from minidyn.model.geometry import Step, Steps
from minidyn.model.joint import Follow, Joint, Limits, Loop
from minidyn.model.robot import Robot

TAG = "minidyn"
_TREE = ("origin", "axis", "parent", "child")
_COLUMNS = (ROTOR, *FRICTION.values())


@dataclass
class Parts:
    """Links and joints as a file gives them, before they are put together."""

    name: str
    links: list[LooseLink]
    joints: list[LooseJoint]
    notices: list[str]


# -------------------------------------------------------------------- entries


def digest(element: Element | None, tags: Iterable[str]) -> str:
    """Return a short hash of the children of these names: their attributes and those of what they contain."""
    text = "" if element is None else repr([_canonical(child) for tag in tags for child in element.children(tag)])
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def tree_digest(root: Element) -> str:
    """Return a short hash of all that places and moves the links."""
    text = [(joint.node.get("name"), joint.node.get("type"), digest(joint, _TREE)) for joint in root.children("joint")]
    return hashlib.sha256(repr(text).encode()).hexdigest()[:12]


def _canonical(element: Element) -> tuple[Any, ...]:
    attributes = sorted((str(key), str(value)) for key, value in element.node.attrib.items())
    return element.tag, attributes, [_canonical(child) for child in element.children()]


def step_entries(steps: Steps) -> list[list[Any]]:
    """Return steps as JSON lists [kind, value] or [kind, value, symbol, factor]."""
    return [[s.kind, s.value, s.symbol, s.factor] if s.symbol else [s.kind, s.value] for s in steps]


def _steps(entries: Sequence[Sequence[Any]]) -> Steps:
    made = []
    for kind, value, *named in entries:
        if kind not in ("rx", "ry", "rz", "tx", "ty", "tz"):
            raise ValueError(f"unknown step {kind!r}")
        symbol, factor = named or ("", 1.0)
        made.append(Step(kind, _finite(value), str(symbol), _finite(factor)))
    return tuple(made)


def follow_entry(follows: Follow) -> dict[str, Any]:
    """Return a follower's rule as JSON."""
    return {
        "terms": [list(term) for term in follows.terms],
        "offset": follows.offset,
        "formula": follows.formula,
        "passive": follows.passive,
    }


def _follow(entry: Mapping[str, Any]) -> Follow:
    terms = tuple((str(name), _finite(ratio)) for name, ratio in entry["terms"])
    return Follow(terms, _finite(entry["offset"]), str(entry["formula"]), bool(entry["passive"]))


def loop_entry(loop: Loop, link_name: Callable[[int], str]) -> dict[str, Any]:
    """Return a loop as JSON, links by name."""
    return {
        "name": loop.name,
        "a": [link_name(loop.link_a), step_entries(loop.steps_a)],
        "b": [link_name(loop.link_b), step_entries(loop.steps_b)],
        "kind": loop.kind,
        "passive": list(loop.passive),
        "start": list(loop.start),
    }


def _loop(entry: Mapping[str, Any], robot: Robot) -> Loop:
    ends: list[tuple[int, Steps]] = []
    for link, steps in (entry["a"], entry["b"]):
        index, inner = robot.find_frame(str(link))
        ends.append((index, (*inner, *_steps(steps))))
    if entry["kind"] not in ("point", "frame"):
        raise ValueError(f"unknown kind of loop {entry['kind']!r}")
    passive = tuple(str(name) for name in entry["passive"])
    return Loop(str(entry["name"]), *ends[0], *ends[1], entry["kind"], passive, tuple(map(_finite, entry["start"])))


def _finite(value: Any) -> float:
    number = float(value)
    if isinstance(value, bool | str) or not np.isfinite(number):
        raise ValueError(f"expected a finite number, got {value!r}")
    return number


# -------------------------------------------------------------------- reading


def restore(root: Element, parts: Parts, source: str) -> Robot:
    """Return the robot of a URDF's parts and of its <minidyn> element, where it has one.

    Raises:
        DescriptionError: The description is wrong, or the <minidyn> element is not one that minidyn wrote.
    """
    element = root.child(TAG)
    if element is None:
        return assemble(parts.name, parts.links, parts.joints, notices=parts.notices, source=source)
    damaged = f"{element.where}: the <{TAG}> element cannot be understood"
    advice = "remove it, or save the robot again"
    try:
        annex = json.loads(element.node.text or "")
        if not isinstance(annex, dict) or annex.get("version") != 1:
            raise ValueError("expected a JSON object with version 1")
        robot = _restored(root, parts, annex, source, element.where)
        if robot.loops:
            from minidyn.model.loops import check_loops

            check_loops(robot, {loop.name: element.where for loop in robot.loops})
        return robot
    except DescriptionError:
        raise
    except MinidynError as error:
        raise DescriptionError(f"{damaged} ({error}); {advice}") from None
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, RecursionError) as error:
        raise DescriptionError(f"{damaged} ({type(error).__name__}: {error}); {advice}") from None


def _restored(root: Element, parts: Parts, annex: Mapping[str, Any], source: str, where: str) -> Robot:
    tree: Mapping[str, Any] = annex.get("tree", {})
    if tree and tree["of"] != tree_digest(root):
        parts.notices.append(
            f"{where}: the joints were edited after minidyn wrote the file; they are read as they stand, without "
            "geometry symbols" + (" and with loads merged into their links" if tree.get("loads") else "")
        )
        tree = {}
    carriers: dict[str, tuple[str, Steps]] = {}  # load: what carries it and where
    base: Steps = ()
    if tree:
        base, carriers = _exact_tree(parts, tree)
    robot = assemble(
        str(annex.get("name", parts.name)),
        [link for link in parts.links if link.name not in carriers],
        [joint for joint in parts.joints if joint.child not in carriers],
        gravity=[_finite(value) for value in annex.get("gravity", (0.0, 0.0, -9.81))],
        base=base,
        symbols=[(str(name), _finite(value)) for name, value in tree.get("symbols", ())],
        notices=parts.notices,
        source=source,
    )
    robot = _ordered(robot, tree.get("order", ()), tree.get("frames", ()))
    return _overlaid(robot, parts, root, annex, carriers)


def _exact_tree(parts: Parts, tree: Mapping[str, Any]) -> tuple[Steps, dict[str, tuple[str, Steps]]]:
    """Put the exact steps into the parts, drop what only URDF needed; return the base's placement and the loads."""
    base: Steps = ()
    dropped: set[str] = set()  # links
    removed: set[str] = set()  # joints
    if "world" in tree:
        joint = next(joint for joint in parts.joints if joint.parent == tree["world"])
        dropped.add(joint.parent)
        removed.add(joint.name)
        base = _steps(tree["base"])
    exact: Mapping[str, Any] = tree.get("joints", {})
    for index, joint in enumerate(parts.joints):
        entry = exact.get(joint.name)
        if entry is None:
            continue
        child = joint.child
        if "link" in entry:  # an axis that does not pass through the link's origin took two joints
            dropped.add(child)
            holder = next(other for other in parts.joints if other.parent == child)
            removed.add(holder.name)
            child = holder.child
        parts.joints[index] = replace(
            joint,
            child=child,
            before=_steps(entry["before"]),
            motion=_motion(entry["motion"], joint.kind),
            direction=1 if entry["direction"] > 0 else -1,
            after=_steps(entry["after"]),
        )
    parts.joints[:] = [joint for joint in parts.joints if joint.name not in removed]
    parts.links[:] = [link for link in parts.links if link.name not in dropped]
    loads = [str(name) for name in tree.get("loads", ())]
    return base, {joint.child: (joint.parent, joint.before) for joint in parts.joints if joint.child in loads}


def _motion(motion: Any, kind: str) -> str:
    letter = "t" if kind == "prismatic" else "r"
    if kind != "fixed" and motion not in (letter + "x", letter + "y", letter + "z"):
        raise ValueError(f"a {kind} joint cannot move by {motion!r}")
    return str(motion)


def _ordered(robot: Robot, order: Sequence[str], frames: Sequence[str]) -> Robot:
    """Return the robot with joints and frames in the order they had; files sort by branches."""
    if order:
        new = [robot.joint_index(str(name)) for name in order]
        if sorted(new) != list(range(len(robot.joints))):
            raise ValueError("the order does not name every joint once")
        place = {old: index for index, old in enumerate(new)} | {-1: -1}
        robot = replace(
            robot,
            joints=tuple(replace(robot.joints[old], parent=place[robot.joints[old].parent]) for old in new),
            link_names=tuple(robot.link_names[old] for old in new),
            parameters=np.concatenate([_columns(robot, old) for old in new]),
            frames=tuple(replace(frame, link=place[frame.link]) for frame in robot.frames),
        )
    if frames:
        rank = {str(name): index for index, name in enumerate(frames)}
        robot = replace(robot, frames=tuple(sorted(robot.frames, key=lambda frame: rank[frame.name])))
    return robot


def _columns(robot: Robot, index: int) -> NDArray[np.float64]:
    start = robot.layout.links[index].start
    return robot.parameters[start : start + 10 + len(robot.layout.drives[index])]


def _overlaid(
    robot: Robot,
    parts: Parts,
    root: Element,
    annex: Mapping[str, Any],
    carriers: Mapping[str, tuple[str, Steps]],
) -> Robot:
    """Add limits, followers, drives, exact parameters, loads and loops."""
    joint_elements = {joint.text("name"): joint for joint in root.children("joint")}
    link_elements = {link.text("name"): link for link in root.children("link")}
    link_parts = {link.name: link for link in parts.links}
    entries: Mapping[str, Any] = annex.get("joints", {})
    joints: list[Joint] = []
    values: list[NDArray[np.float64]] = []

    def fresh(entry: Mapping[str, Any], key: str, element: Element | None, tags: Iterable[str]) -> Any:
        """Return what the annex says, or None where it says nothing or the URDF text was edited since."""
        of, value = entry.get(key, ("", None))
        return value if of == digest(element, tags) else None

    for index, (joint, link) in enumerate(zip(robot.joints, robot.link_names)):
        entry: Mapping[str, Any] = entries.get(joint.name, {})
        element = joint_elements.get(joint.name)
        own = _columns(robot, index)
        terms = {column.symbol: float(robot.parameters[column.index]) for column in robot.layout.drives[index]}
        friction = fresh(entry, "friction", element, ("dynamics",))
        if friction is not None:
            terms = {str(symbol): float(value) for symbol, value in friction.items()}
        terms |= {key: float(entry[key]) for key in (ROTOR, FRICTION["offset"]) if key in entry}
        limits = fresh(entry, "limits", element, ("limit",))
        follows = fresh(entry, "follows", element, ("mimic",))
        drive = Drive(
            rotor_inertia=ROTOR in terms,
            friction=tuple(term for term, symbol in FRICTION.items() if symbol in terms),
            gear_ratio=joint.drive.gear_ratio,
            coupling=tuple((str(name), _finite(value)) for name, value in entry.get("coupling", ())),
            sign_width=_finite(entry.get("sign_width", 0.0)),
            stribeck_speed=_finite(entry.get("stribeck_speed", 0.0)),
        )
        joint = replace(
            joint,
            limits=joint.limits if limits is None else Limits(*(float(value) for value in limits)),
            follows=joint.follows if follows is None else _follow(follows),
            drive=drive,
        )
        ten = fresh(entry, "parameters", link_elements.get(link), ("inertial",))
        joints.append(joint)
        values += [
            own[:10] if ten is None else _ten(ten),
            np.array([terms[symbol] for symbol in _COLUMNS if symbol in terms]),
        ]
    link_names = list(robot.link_names)
    for name, (carrier, steps) in carriers.items():
        index, inner = (link_names.index(carrier), ()) if carrier in link_names else robot.find_frame(carrier)
        load = link_parts[name].parameters
        ten = fresh(entries.get(name, {}), "parameters", link_elements.get(name), ("inertial",))
        joints.append(Joint(name, "fixed", index, (*inner, *steps)))
        link_names.append(name)
        values.append(_ten(ten) if ten is not None else np.full(10, np.nan) if load is None else load)
    robot = replace(robot, joints=tuple(joints), link_names=tuple(link_names), parameters=np.concatenate(values))
    loops = tuple(_loop(entry, robot) for entry in annex.get("loops", ()))
    return replace(robot, loops=loops) if loops else robot


def _ten(values: Sequence[Any]) -> NDArray[np.float64]:
    ten = np.array([float(value) for value in values])
    if ten.shape != (10,):
        raise ValueError(f"expected 10 parameters, got {ten.size}")
    return ten
