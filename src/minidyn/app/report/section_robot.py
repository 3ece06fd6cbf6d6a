"""The robot: drawn in a figure that can be turned; its joints and composite bodies."""

from __future__ import annotations

import numpy as np

from minidyn.app.report.facts import Facts
from minidyn.arrays import Array
from minidyn.base.closed_form.structure import Structure, structure_of
from minidyn.display import Html, tag
from minidyn.formats.load import looks_of
from minidyn.model.picture import TILT, TURN, Scene, Shape, scene_of, view
from minidyn.model.robot import Robot
from minidyn.pages.charts import picture
from minidyn.pages.html import Section, table
from minidyn.text import number, short, visible

_LOWEST, _HIGHEST = -0.2, 1.2  # rad: how far the eye goes up and down
_SIZE = 460.0  # width of the figure, pixels
_HEIGHT, _MARGIN = 0.86, 0.07  # shares of the width
_TRIANGLES = 2400  # of all meshes together: about 250 kB of the page
_LIGHT = np.array([0.45, -0.3, 0.84])
_SHADES = 8


def robot_section(facts: Facts) -> Section:
    """Return the drawing, what r and s are, the joints, and the composite bodies."""
    robot = facts.estimate.robot
    scene, looks = scene_of(robot), looks_of(facts.estimate.base.robot, _TRIANGLES)
    shown = scene_of(robot, surfaces=looks) if looks else scene
    structure = _structure(robot)
    marked = _marked(structure)
    rows = []
    for index, joint in enumerate(robot.joints):
        kind = "fixed load" if joint.kind == "fixed" else "slides" if joint.slides else "turns"
        name, link = short(joint.name, 60), short(robot.link_names[index], 60)
        rows.append((str(index + 1), name, kind, marked.get(index, ""), link))
    joints = table(
        "Joints of the robot", ("No.", "joint", "moves", "rule", "link"), rows, style="numbered"
    )
    content = [
        tag(
            "div", _robot_figure(shown, marked), tag("div", *_rule(structure), joints), class_="two"
        )
    ]
    if structure is not None:
        content.append(_bodies(facts, scene))
    lead = (
        f"{visible(robot.name) or 'The robot'}: {robot.n} joints, {len(robot.layout)} parameters. "
        "The figure shows the geometry the model was made from; check it before anything else."
    )
    view_data = {"turn": TURN, "tilt": TILT, "lowest": _LOWEST, "highest": _HIGHEST}
    view_data |= {"size": _SIZE, "height": _HEIGHT, "margin": _MARGIN}
    points = [[round(10000 * float(x)) for x in point] for point in shown.points]
    return Section(
        "robot", "The robot", lead, tuple(content), {"robot": {"points": points, **view_data}}
    )


def _structure(robot: Robot) -> Structure | None:
    """The joints r and s of an open chain or tree.

    None where there are loops or joints that follow others.
    """
    if robot.loops or any(joint.follows is not None for joint in robot.joints):
        return None
    roles = structure_of(robot).roles
    return Structure(
        "torque", tuple(role for role, joint in zip(roles, robot.joints) if joint.kind != "fixed")
    )


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
        text = (
            "The joints r and s are defined for open chains and trees of independent joints; this "
            "robot is none."
        )
        return [tag("p", text, class_="quiet")]
    reasons = []
    for line in structure.describe().splitlines():
        head, _, tail = line.partition(": ")
        reasons.append(
            tag(
                "li",
                tag("strong", head.replace("delta_", "δ").replace("sigma_", "σ")),
                ": ",
                tail,
                ".",
            )
        )
    text = (
        "r is the first joint that turns. s is the first one after it that turns about another "
        "direction. From s on, a link can be turned every way, so more of its inertia shows."
    )
    return [tag("h3", "The joints r and s"), tag("p", text), tag("ul", *reasons, class_="reasons")]


def _bodies(facts: Facts, scene: Scene) -> Html:
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
        lines = (
            tag(
                "p",
                tag("strong", f"Body {index + 1}"),
                f"{len(carried)} link{'s' * (len(carried) > 1)}",
            ),
            tag("p", f"m̂ = {number(float(masses[sorted(carried)].sum()))} kg", class_="num-line"),
            tag("p", "shows " + (", ".join(owned.get(index, [])) or "nothing new"), class_="quiet"),
        )
        items.append(tag("li", _body_figure(scene, index, carried), *lines))
    text = (
        "A joint moves all that it carries as if it were one body, of mass m̂. Each body adds the "
        "base parameters named below it."
    )
    return tag(
        "div", tag("h3", "Composite bodies"), tag("p", text), tag("ul", *items, class_="bodies")
    )


def _carried(robot: Robot, index: int) -> frozenset[int]:
    """The links a joint carries, its own included."""
    found = {index}
    for other, joint in enumerate(robot.joints):
        if joint.parent in found:
            found.add(other)
    return frozenset(found)


def _robot_figure(scene: Scene, marked: dict[int, str]) -> Html:
    """The whole robot; joints r and s have their names."""
    x, y = _on_paper(np.array(scene.points), _SIZE)
    shapes = scene.front_last
    seen = [one for one in shapes if one.kind == "face"]
    faces = [
        _drawn(one, x, y, extra=f" f{shade}") for one, shade in zip(seen, _shades(scene, seen))
    ]
    marks = [_drawn(one, x, y, extra="") for one in shapes if one.kind in ("ground", "link")]
    marks += [tag("g", *faces, class_="faces")] if faces else []
    marks += [_drawn(one, x, y, extra="") for one in shapes if one.kind in ("axis", "ring", "box")]
    for index, joint in enumerate(scene.robot.joints):
        if joint.kind == "fixed":
            continue
        anchor = scene.anchors[index]
        role = marked.get(index, "")
        words = f"{role} = {index + 1}" if role else str(index + 1)
        half = 6.0 + 3.4 * len(words)
        badge = (
            tag("title", f"joint {index + 1}: {visible(joint.name)}"),
            tag(
                "rect",
                x=-half,
                y=-10,
                width=2 * half,
                height=20,
                rx=10,
                class_=f"badge {role}".strip(),
            ),
            tag("text", words, y=4, class_="badge-text"),
        )
        at = f"translate({x[anchor]:.1f},{y[anchor]:.1f})"
        marks.append(tag("g", *badge, transform=at, data_at=anchor, class_="joint-label"))
    names = ", ".join(f"{k + 1} {short(j.name, 16)}" for k, j in enumerate(scene.robot.joints))
    roles = "; ".join(f"joint {index + 1} is {role}" for index, role in marked.items())
    words = f"{'Meshes' if faces else 'Stick figure'} of the robot with its joints {names}. {roles}"
    turn = tag("span", "Drag the figure, or use the arrow keys, to turn it.", class_="screen-only")
    said = (
        "Meshes of the robot file, simplified; each" if faces else "Rings turn, boxes slide; each"
    )
    caption = tag("figcaption", f"{said} thin line is the axis of a joint. ", turn)
    return tag(
        "figure", picture(_SIZE, _SIZE * _HEIGHT, marks, words, "robot"), caption, class_="turnable"
    )


def _shades(scene: Scene, faces: list[Shape]) -> list[int]:
    """How bright each triangle is, lit from both sides, smoothed over its neighbours.

    The number of its colour.
    """
    if not faces:
        return []
    places, points = np.array([one.points for one in faces]), np.array(scene.points)
    a, b, c = (points[places[:, k]] for k in range(3))
    normals = np.cross(b - a, c - a)
    about = np.zeros_like(points)
    for k in range(3):
        np.add.at(about, places[:, k], normals)
    smooth = normals / 2 + about[places].sum(axis=1) / 3
    sizes = np.maximum(np.linalg.norm(smooth, axis=1), 1e-30)
    lit = np.abs(smooth @ _LIGHT) / sizes
    shades: list[int] = np.minimum((_SHADES * lit).astype(int), _SHADES - 1).tolist()
    return shades


def _body_figure(scene: Scene, index: int, carried: frozenset[int], size: float = 150.0) -> Html:
    """A small figure in which the composite body of a joint stands out.

    All that the joint carries.
    """
    x, y = _on_paper(np.array(scene.points), size)
    marks = []
    for shape in scene.front_last:
        if shape.kind == "axis" and shape.body != index:
            continue
        if shape.kind in ("ring", "box") and shape.body not in carried:
            continue
        inside = shape.body in carried and shape.kind != "axis"
        marks.append(_drawn(shape, x, y, extra=" inside" if inside else " outside", turning=False))
    joint = scene.robot.joints[index]
    return picture(
        size, _HEIGHT * size, marks, f"Composite body of joint {short(joint.name)}", "robot small"
    )


def _on_paper(points: Array, size: float) -> tuple[Array, Array]:
    """Where points are at first: x to the right, y down, pixels."""
    seen = view(points)
    middle = (seen.max(axis=0) + seen.min(axis=0)) / 2
    across, up, _ = np.maximum(np.ptp(seen, axis=0), 1e-9)
    scale = min((1 - 2 * _MARGIN) * size / across, (_HEIGHT - 2 * _MARGIN) * size / up)
    return size / 2 + scale * (seen[:, 0] - middle[0]), _HEIGHT * size / 2 - scale * (
        seen[:, 1] - middle[1]
    )


def _drawn(shape: Shape, x: Array, y: Array, extra: str, turning: bool = True) -> Html:
    points = " ".join(f"{x[k]:.1f},{y[k]:.1f}" for k in shape.points)
    places = " ".join(map(str, shape.points)) if turning else None
    name = "polygon" if shape.closed else "polyline"
    return tag(name, points=points, class_=f"{shape.kind}{extra}", data_points=places)
