"""The robot drawn: a stick figure that can be turned, and its composite bodies one by one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from minidyn.app.report.charts import picture
from minidyn.app.report.html import Html, tag
from minidyn.app.report.robot_scene import TILT, TURN, Scene, Shape, view
from minidyn.arrays import Array
from minidyn.text import short, visible

_SIZE = 460.0  # width of the figure, pixels
_HEIGHT, _MARGIN = 0.86, 0.07  # shares of the width
LOWEST, HIGHEST = -0.2, 1.2  # rad: how far the eye goes up and down


def scene_data(scene: Scene) -> dict[str, Any]:
    """Return what the script turns: points in ten-thousandths, and where the eye is."""
    return {
        "points": [[round(10000 * float(x)) for x in point] for point in scene.points],
        "turn": TURN,
        "tilt": TILT,
        "lowest": LOWEST,
        "highest": HIGHEST,
        "size": _SIZE,
        "height": _HEIGHT,
        "margin": _MARGIN,
    }


def robot_figure(scene: Scene, marked: dict[int, str]) -> Html:
    """Return the figure of the whole robot.

    Args:
        scene: The robot in space.
        marked: For joints (by index) with a name of their own, "r" or "s".
    """
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
    told = "; ".join(f"joint {index + 1} is {role}" for index, role in marked.items())
    return tag(
        "figure",
        picture(_SIZE, _SIZE * _HEIGHT, marks, f"Stick figure of the robot with its joints {names}. {told}", "robot"),
        tag(
            "figcaption",
            "Rings turn, boxes slide; each thin line is the axis of a joint. ",
            tag("span", "Drag the figure, or use the arrow keys, to look from elsewhere.", class_="screen-only"),
        ),
        class_="turnable",
    )


def body_figure(scene: Scene, index: int, size: float = 150.0) -> Html:
    """Return a small figure in which the composite body of a joint stands out: all that the joint carries."""
    x, y, depth = _on_paper(np.array(scene.points), size)
    carried = subtree(scene, index)
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


def subtree(scene: Scene, index: int) -> frozenset[int]:
    """Return the links a joint carries, itself included."""
    found = {index}
    for other, joint in enumerate(scene.robot.joints):
        if joint.parent in found:
            found.add(other)
    return frozenset(found)


def _on_paper(points: Array, size: float) -> tuple[Array, Array, Array]:
    """Return where points are at first: x to the right, y down, pixels; and how near they are."""
    seen = view(points, TURN, TILT)
    middle = (seen.max(axis=0) + seen.min(axis=0)) / 2
    across, up, _ = np.maximum(np.ptp(seen, axis=0), 1e-9)
    scale = min((1 - 2 * _MARGIN) * size / across, (_HEIGHT - 2 * _MARGIN) * size / up)
    return (
        size / 2 + scale * (seen[:, 0] - middle[0]),
        _HEIGHT * size / 2 - scale * (seen[:, 1] - middle[1]),
        seen[:, 2],
    )


def _back_to_front(scene: Scene, depth: Array) -> Sequence[Shape]:
    order = {"ground": 0, "link": 1, "axis": 2, "ring": 3, "box": 3}
    return sorted(scene.shapes, key=lambda shape: (order[shape.kind], float(depth[list(shape.points)].mean())))


def _drawn(shape: Shape, x: Array, y: Array, extra: str, turning: bool = True) -> Html:
    points = " ".join(f"{x[k]:.1f},{y[k]:.1f}" for k in shape.points)
    return tag(
        "polygon" if shape.closed else "polyline",
        points=points,
        class_=f"{shape.kind}{extra}",
        data_points=" ".join(str(k) for k in shape.points) if turning else None,
    )
