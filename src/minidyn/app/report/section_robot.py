"""The robot: drawn as sticks, rings and boxes in a figure that can be turned; its joints and composite bodies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from minidyn.app.report.charts import picture
from minidyn.app.report.facts import Facts
from minidyn.app.report.html import Section, table
from minidyn.arrays import Array
from minidyn.base.closed_form.structure import Structure, structure_of
from minidyn.display import Html, tag
from minidyn.errors import LoopError
from minidyn.model.geometry import Step, matrix_of
from minidyn.model.loops import solve_loops
from minidyn.model.placements import tree_pose
from minidyn.model.robot import Robot
from minidyn.text import number, short, visible

_TRIES = 400  # postures among which the clearest is chosen
_LOOP_TRIES = 12  # where loops must be solved for
_RING = 20
_TURN, _TILT = 0.95, 0.32  # rad: where the eye is at first
_LOWEST, _HIGHEST = -0.2, 1.2  # rad: how far the eye goes up and down
_SIZE = 460.0  # width of the figure, pixels
_HEIGHT, _MARGIN = 0.86, 0.07  # shares of the width
_FIRST_DRAWN = {"ground": 0, "link": 1, "axis": 2, "ring": 3, "box": 3}


def robot_section(facts: Facts) -> Section:
    """Return the drawing, what r and s are, the joints, and the composite bodies."""
    robot = facts.estimate.robot
    scene = scene_of(robot)
    structure = _structure(robot)
    marked = _marked(structure)
    rows = []
    for index, joint in enumerate(robot.joints):
        kind = "fixed load" if joint.kind == "fixed" else "slides" if joint.slides else "turns"
        rows.append(
            (str(index + 1), short(joint.name, 60), kind, marked.get(index, ""), short(robot.link_names[index], 60))
        )
    joints = table("Joints of the robot", ("No.", "joint", "moves", "rule", "link"), rows, class_="numbered")
    content = [tag("div", _robot_figure(scene, marked), tag("div", *_rule(structure), joints), class_="two")]
    if structure is not None:
        content.append(_bodies(facts, scene))
    lead = (
        f"{visible(robot.name) or 'The robot'}: {robot.n} joints, {len(robot.layout)} parameters. The figure shows the "
        "geometry the model was made from; check it before anything else."
    )
    view_data = {"turn": _TURN, "tilt": _TILT, "lowest": _LOWEST, "highest": _HIGHEST}
    view_data |= {"size": _SIZE, "height": _HEIGHT, "margin": _MARGIN}
    points = [[round(10000 * float(x)) for x in point] for point in scene.points]
    return Section("robot", "The robot", lead, tuple(content), {"robot": {"points": points, **view_data}})


def _structure(robot: Robot) -> Structure | None:
    """The joints r and s of an open chain or tree; None where there are loops or joints that follow others."""
    if robot.loops or any(joint.follows is not None for joint in robot.joints):
        return None
    roles = structure_of(robot).roles
    return Structure("torque", tuple(role for role, joint in zip(roles, robot.joints) if joint.kind != "fixed"))


def _marked(structure: Structure | None) -> dict[int, str]:
    """The joints r and s by index."""
    if structure is None:
        return {}
    found = {}
    for name, value in (("r", structure.r), ("s", structure.s)):
        for one in value if isinstance(value, tuple) else (value,):
            if one is not None:
                found[one - 1] = name
    return found


def _rule(structure: Structure | None) -> list[Html]:
    """What r and s are, and why; or why there are none."""
    if structure is None:
        text = "The joints r and s are defined for open chains and trees of independent joints; this robot is none."
        return [tag("p", text, class_="quiet")]
    reasons = []
    for line in structure.describe().splitlines():
        head, _, tail = line.partition(": ")
        reasons.append(tag("li", tag("strong", head.replace("delta_", "δ").replace("sigma_", "σ")), ": ", tail, "."))
    text = (
        "r is the first joint that turns. s is the first one after it that turns about another direction. From s on, a "
        "link can be turned every way, so more of its inertia shows."
    )
    return [tag("h3", "The joints r and s"), tag("p", text), tag("ul", *reasons, class_="reasons")]


def _bodies(facts: Facts, scene: _Scene) -> Html:
    robot, base = facts.estimate.robot, facts.estimate.base
    layout = base.robot.layout
    owned: dict[int, list[str]] = {}
    for name, kept in zip(facts.estimate.names, base.kept):
        owned.setdefault(layout.columns[layout.index(kept)].joint, []).append(name)
    masses = np.array([robot.parameters[part][-1] for part in robot.layout.links])
    items = []
    for index, joint in enumerate(robot.joints):
        if joint.kind == "fixed":
            continue
        carried = _carried(robot, index)
        items.append(
            tag(
                "li",
                _body_figure(scene, index, carried),
                tag("p", tag("strong", f"Body {index + 1}"), f"{len(carried)} link{'s' * (len(carried) > 1)}"),
                tag("p", f"m̂ = {number(float(masses[sorted(carried)].sum()))} kg", class_="num-line"),
                tag("p", "shows " + (", ".join(owned.get(index, [])) or "nothing new"), class_="quiet"),
            )
        )
    text = (
        "A joint moves all that it carries as if it were one body, of mass m̂. Each body adds the base parameters named "
        "below it."
    )
    return tag("div", tag("h3", "Composite bodies"), tag("p", text), tag("ul", *items, class_="bodies"))


def _carried(robot: Robot, index: int) -> frozenset[int]:
    """The links a joint carries, its own included."""
    found = {index}
    for other, joint in enumerate(robot.joints):
        if joint.parent in found:
            found.add(other)
    return frozenset(found)


def _robot_figure(scene: _Scene, marked: dict[int, str]) -> Html:
    """The whole robot; joints r and s have their names."""
    x, y, depth = _on_paper(np.array(scene.points), _SIZE)
    marks = [_drawn(shape, x, y, extra="") for shape in _back_to_front(scene, depth)]
    for index, joint in enumerate(scene.robot.joints):
        if joint.kind == "fixed":
            continue
        anchor = scene.anchors[index]
        role = marked.get(index, "")
        words = f"{role} = {index + 1}" if role else str(index + 1)
        half = 6.0 + 3.4 * len(words)
        marks.append(
            tag(
                "g",
                tag("title", f"joint {index + 1}: {visible(joint.name)}"),
                tag("rect", x=-half, y=-10, width=2 * half, height=20, rx=10, class_=f"badge {role}".strip()),
                tag("text", words, y=4, class_="badge-text"),
                transform=f"translate({x[anchor]:.1f},{y[anchor]:.1f})",
                data_at=anchor,
                class_="joint-label",
            )
        )
    names = ", ".join(f"{k + 1} {short(j.name, 16)}" for k, j in enumerate(scene.robot.joints))
    roles = "; ".join(f"joint {index + 1} is {role}" for index, role in marked.items())
    return tag(
        "figure",
        picture(_SIZE, _SIZE * _HEIGHT, marks, f"Stick figure of the robot with its joints {names}. {roles}", "robot"),
        tag(
            "figcaption",
            "Rings turn, boxes slide; each thin line is the axis of a joint. ",
            tag("span", "Drag the figure, or use the arrow keys, to turn it.", class_="screen-only"),
        ),
        class_="turnable",
    )


def _body_figure(scene: _Scene, index: int, carried: frozenset[int], size: float = 150.0) -> Html:
    """A small figure in which the composite body of a joint stands out: all that the joint carries."""
    x, y, depth = _on_paper(np.array(scene.points), size)
    marks = []
    for shape in _back_to_front(scene, depth):
        if shape.kind == "axis" and shape.body != index:
            continue
        if shape.kind in ("ring", "box") and shape.body not in carried:
            continue
        inside = shape.body in carried and shape.kind != "axis"
        marks.append(_drawn(shape, x, y, extra=" inside" if inside else " outside", turning=False))
    joint = scene.robot.joints[index]
    return picture(size, _HEIGHT * size, marks, f"Composite body of joint {short(joint.name)}", "robot small")


def _on_paper(points: Array, size: float) -> tuple[Array, Array, Array]:
    """Return where points are at first: x to the right, y down, pixels; and how near they are."""
    seen = _view(points)
    middle = (seen.max(axis=0) + seen.min(axis=0)) / 2
    across, up, _ = np.maximum(np.ptp(seen, axis=0), 1e-9)
    scale = min((1 - 2 * _MARGIN) * size / across, (_HEIGHT - 2 * _MARGIN) * size / up)
    return (
        size / 2 + scale * (seen[:, 0] - middle[0]),
        _HEIGHT * size / 2 - scale * (seen[:, 1] - middle[1]),
        seen[:, 2],
    )


def _back_to_front(scene: _Scene, depth: Array) -> Sequence[_Shape]:
    return sorted(scene.shapes, key=lambda shape: (_FIRST_DRAWN[shape.kind], float(depth[list(shape.points)].mean())))


def _drawn(shape: _Shape, x: Array, y: Array, extra: str, turning: bool = True) -> Html:
    points = " ".join(f"{x[k]:.1f},{y[k]:.1f}" for k in shape.points)
    return tag(
        "polygon" if shape.closed else "polyline",
        points=points,
        class_=f"{shape.kind}{extra}",
        data_points=" ".join(str(k) for k in shape.points) if turning else None,
    )


@dataclass(frozen=True)
class _Shape:
    """A line or area through points of the scene.

    Attributes:
        kind: "link", "ring", "box", "axis" or "ground".
        points: Indices of its points.
        body: Index of the link it belongs to, or of the joint whose axis it shows; -1: the base.
        closed: Whether it is an area.
    """

    kind: str
    points: tuple[int, ...]
    body: int
    closed: bool = False


@dataclass
class _Scene:
    """Points in a ball of radius 1 about the origin, z up, and what connects them.

    Attributes:
        robot: The robot.
        points: Rows x, y, z.
        shapes: What is drawn.
        anchors: For each joint, the index of the point its label stands at.
    """

    robot: Robot
    points: list[Array] = field(default_factory=list)
    shapes: list[_Shape] = field(default_factory=list)
    anchors: list[int] = field(default_factory=list)

    def add(self, kind: str, points: list[Array], body: int, closed: bool = False) -> None:
        """Add a shape."""
        first = len(self.points)
        self.points += points
        self.shapes.append(_Shape(kind, tuple(range(first, len(self.points))), body, closed))


def _view(points: Array) -> Array:
    """Points (..., 3) of the scene as seen at first: x to the right, y up, z towards the eye."""
    c, s, ct, st = np.cos(_TURN), np.sin(_TURN), np.cos(_TILT), np.sin(_TILT)
    return np.asarray(points @ np.array([[-s, c, 0.0], [-st * c, -st * s, ct], [ct * c, ct * s, st]]).T)


def scene_of(robot: Robot) -> _Scene:
    """Return the robot in a posture that shows its joints, in a frame in which gravity points down."""
    q_all = _posture(robot)
    pose = tree_pose(robot, q_all)
    scene = _Scene(robot)
    paths = [_path(robot, index, q_all, pose.links) for index in range(len(robot.joints))]
    corners = np.concatenate([*paths, robot.base_placement[None, :3, 3]])
    size = max(float(np.ptp(corners, axis=0).max()), 1e-9)
    scene.add("ground", _ring(robot.base_placement[:3, 3], _up(robot), 0.16 * size), -1, closed=True)
    for index, path in enumerate(paths):
        scene.add("link", list(path), robot.joints[index].parent)
    for frame in robot.frames:
        if frame.link >= 0 and not _has_child(robot, frame.link):
            here = pose.links[frame.link]
            tip = here @ matrix_of(frame.steps)
            if np.linalg.norm(tip[:3, 3] - here[:3, 3]) > 1e-3 * size:
                scene.add("link", [here[:3, 3], tip[:3, 3]], frame.link)
    closed = set()
    for loop in robot.loops:  # both sides reach to where the loop closes
        for link, steps in ((loop.link_a, loop.steps_a), (loop.link_b, loop.steps_b)):
            start = robot.base_placement if link < 0 else pose.links[link]
            scene.add("link", [start[:3, 3], pose.frame(link, steps)[:3, 3]], link)
            closed.add(link)
    for index in range(len(robot.joints)):
        if not _has_child(robot, index) and index not in closed:
            _gripper(scene, pose.links[index], pose.axes[index], index, 0.07 * size)
    for index, joint in enumerate(robot.joints):
        point, axis = pose.points[index], pose.axes[index]
        if joint.slides:
            point = (pose.points[index] + pose.links[index][:3, 3]) / 2
            _box(scene, point, axis, index, 0.045 * size)
        elif joint.turns:
            for shift in (-0.03, 0.03):
                scene.add("ring", _ring(point + shift * size * axis, axis, 0.042 * size), index, closed=True)
        scene.add("axis", [point - 0.11 * size * axis, point + 0.19 * size * axis], index)
        scene.anchors.append(len(scene.points))
        scene.points.append(point + 0.235 * size * axis)
    _normalise(scene, robot)
    return scene


def _posture(robot: Robot) -> Array:
    """Positions of all joints: of many postures the one in which joints lie apart on paper and above the ground."""
    rng = np.random.default_rng(5)
    middle, reach = np.zeros(robot.n), np.zeros(robot.n)
    for k, index in enumerate(robot.independent):
        joint = robot.joints[index]
        low, high = joint.limits.lower, joint.limits.upper
        size = max((abs(step.value) for step in (*joint.before, *joint.after) if not step.is_turn), default=0.0) or 0.3
        if np.isfinite(low) and np.isfinite(high):
            middle[k], reach[k] = (low + high) / 2, 0.35 * (high - low)
        else:
            reach[k] = 0.3 * size if joint.slides else 1.2
        if joint.turns:
            reach[k] = min(reach[k], 1.2)
    tries = middle + reach * rng.uniform(-1.0, 1.0, (_TRIES, robot.n))
    q_all = tries
    if robot.n < len(robot.joints):
        q_all = _closed(robot, tries) if robot.implicit_loops else solve_loops(robot, tries)
    pose = tree_pose(robot, q_all)
    up = _up(robot)
    x, y = _horizontal(up)
    size = np.maximum(np.ptp(pose.links[..., :3, 3], axis=1).max(axis=-1), 1e-9)[:, None, None]
    tips = (pose.points + 0.235 * size * pose.axes) @ np.stack([x, y, up], axis=1) / size
    seen = _view(tips)[..., :2]
    apart = np.linalg.norm(seen[:, :, None] - seen[:, None], axis=-1) + np.eye(seen.shape[1])
    lowest = ((pose.links[..., :3, 3] - robot.base_placement[:3, 3]) @ up / size[..., 0]).min(axis=1)
    score = (
        np.minimum(apart.min(axis=(1, 2)), 0.16) + 0.15 * apart.min(axis=2).mean(axis=1) + 0.5 * np.minimum(lowest, 0)
    )
    return np.asarray(q_all[int(np.argmax(score))])


def _closed(robot: Robot, tries: Array) -> Array:
    """Postures near the one at which the loops' descriptions start; solving takes time, and not every one closes."""
    home = np.zeros(robot.n)
    for loop in robot.loops:
        for name, value in loop.home:
            if name in robot.joint_names:
                home[robot.joint_names.index(name)] = value
    found = [solve_loops(robot, home)]
    for q in tries[:_LOOP_TRIES]:
        try:
            found.append(solve_loops(robot, home + 0.6 * (q - home)))
        except LoopError:
            continue
    return np.array(found)


def _path(robot: Robot, index: int, q_all: Array, links: Array) -> Array:
    """Points from the parent's origin to the link's, along the elementary shifts of the joint's placement."""
    joint = robot.joints[index]
    here = robot.base_placement if joint.parent < 0 else links[joint.parent]
    points = [here[:3, 3]]
    moved = () if joint.kind == "fixed" else (Step(joint.motion, joint.direction * float(q_all[index])),)
    for step in (*joint.before, *moved, *joint.after):
        here = here @ matrix_of((step,))
        if not step.is_turn and np.linalg.norm(here[:3, 3] - points[-1]) > 0:
            points.append(here[:3, 3])
    return np.array(points)


def _has_child(robot: Robot, index: int) -> bool:
    return any(joint.parent == index for joint in robot.joints)


def _up(robot: Robot) -> Array:
    norm = float(np.linalg.norm(robot.gravity))
    return np.asarray(-robot.gravity / norm) if norm > 0 else np.array([0.0, 0.0, 1.0])


def _across(axis: Array) -> tuple[Array, Array]:
    other = np.eye(3)[int(np.argmin(np.abs(axis)))]
    first = np.cross(axis, other)
    first /= np.linalg.norm(first)
    return first, np.cross(axis, first)


def _horizontal(up: Array) -> tuple[Array, Array]:
    if abs(up[2]) > 0.999:  # the usual case: keep the file's x and y
        return np.array([1.0, 0.0, 0.0]), np.array([0.0, 1.0 if up[2] > 0 else -1.0, 0.0])
    return _across(up)


def _ring(centre: Array, axis: Array, radius: float) -> list[Array]:
    a, b = _across(axis)
    angles = 2 * np.pi * np.arange(_RING) / _RING
    return [centre + radius * (np.cos(angle) * a + np.sin(angle) * b) for angle in angles]


def _box(scene: _Scene, centre: Array, axis: Array, body: int, size: float) -> None:
    a, b = _across(axis)
    for shift in (-1.3, 1.3):
        corners = [(1, 1), (-1, 1), (-1, -1), (1, -1)]
        scene.add("box", [centre + size * (shift * axis + 0.8 * (x * a + y * b)) for x, y in corners], body, True)


def _gripper(scene: _Scene, link: Array, axis: Array, body: int, size: float) -> None:
    origin, (a, _) = link[:3, 3], _across(axis)
    palm = origin + size * axis
    scene.add("link", [origin, palm], body)
    for side in (-1.0, 1.0):
        finger = palm + 0.6 * side * size * a
        scene.add("link", [palm, finger, finger + 0.9 * size * axis], body)


def _normalise(scene: _Scene, robot: Robot) -> None:
    points = np.array(scene.points)
    up = _up(robot)
    x, y = _horizontal(up)
    points = points @ np.stack([x, y, up], axis=1)
    points -= (points.max(axis=0) + points.min(axis=0)) / 2
    points /= max(float(np.linalg.norm(points, axis=1).max()), 1e-9)
    scene.points = list(points)
