"""A motion to look at before it runs.

One HTML page with the robot moving in 3D, limits, distances and curves.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from minidyn.arrays import Array
from minidyn.display import Html, tag
from minidyn.dynamics.functions import inverse_dynamics
from minidyn.errors import DescriptionError
from minidyn.excitation.bounds import Bounds, predicting_parameters
from minidyn.excitation.clearance import Clearance
from minidyn.excitation.motion_verdict import MotionVerdict, judge_motion
from minidyn.excitation.robot_files import what_was_checked
from minidyn.files import AnyPath, check_outputs, write_atomically
from minidyn.formats.load import looks_of
from minidyn.model.picture import TILT, TURN, moving_scene, up_frame
from minidyn.model.robot import Robot
from minidyn.notices import Notice
from minidyn.pages.charts import Axis, Plot, nice_range, picture
from minidyn.pages.html import Section, figure, folded, notice_section, page, sentence, table
from minidyn.simulation.trajectory import Trajectory, along
from minidyn.text import number, percent, short, visible

_FRAMES = 20.0  # a second
_MOST_FRAMES = 500
_TRIANGLES = 1600  # of all meshes together
_POINTS = 360  # of a curve
_PAIRS = 6  # distances that are drawn
_WORST = 12  # parameters that are not folded away
_DIGITS = 1e4  # placements are written in parts of this
_WIDTH, _LEFT, _ROW = 420.0, 52.0, 84.0
_PLANE = 0.9  # share of the scene's size that a plane is drawn with


@dataclass(frozen=True, eq=False)
class Shown:
    """A motion and its limits."""

    robot: Robot
    trajectory: Trajectory
    duration: float
    bounds: Bounds
    clearance: Clearance | None
    margins: Mapping[str, Mapping[str, float]]  # as those of Excitation
    feasible: bool
    about: str  # a few words for the heading


def write_preview(
    shown: Shown,
    path: AnyPath,
    notices: Iterable[Notice],
    errors: Sequence[tuple[str, float, float]],
) -> Path:
    """Write the page and return its path.

    `errors` are (parameter, standard deviation, over its value).
    """
    target = Path(path)
    if target.suffix.lower() not in (".html", ".htm"):
        raise DescriptionError(
            f"{target}: a preview is one HTML file; give a name that ends in .html"
        )
    check_outputs([target])
    given = list(notices)
    made = [
        _summary(shown, judge_motion(shown.feasible, given)),
        _moving(shown),
        _limits(shown),
        _distances(shown),
        _curves(shown),
        _errors(errors),
    ]
    told = notice_section(
        given, "What was noticed while the motion was designed, most serious first."
    )
    sections = [section for section in (*made, told) if section is not None]
    heading = f"Motion of {visible(shown.robot.name) or 'a robot'}"
    about = f"{shown.robot.n} joints · {shown.duration:g} s · {shown.about}"
    write_atomically(
        target,
        page("preview of a motion", heading, about, sections, ("motion.js",)).encode("utf-8"),
    )
    return target


def _summary(shown: Shown, verdict: MotionVerdict) -> Section:
    sign = {"good": "✓", "caution": "!", "bad": "✕"}[verdict.level]
    checked = what_was_checked(tuple(shown.margins))
    words = tag(
        "div",
        tag("p", verdict.headline, class_="headline"),
        tag("ul", *(tag("li", sentence(one)) for one in verdict.reasons)),
        *(tag("p", one) for one in checked),
    )
    shape = tag(
        "div",
        tag("span", sign, class_="sign", aria_hidden="true"),
        words,
        class_=f"verdict {verdict.level}",
    )
    steps = (
        "Look at the motion below: does the robot touch anything that stands around it?",
        (
            "Bring the robot close to the first point. Programs for URScript, KRL, RAPID and "
            "Franka drive there themselves, and that way was not checked; from other files the "
            "robot must stand there."
        ),
        (
            "Run the file at 10 % speed first (motion-slow), the emergency stop in hand and "
            "people out of reach."
        ),
        "Then run it at full speed and record positions and torques.",
    )
    listed = tag("ol", *(tag("li", step) for step in steps))
    return Section(
        "summary",
        "Summary",
        "",
        (shape, tag("div", tag("h3", "Before it runs"), listed, class_="next")),
    )


def _moving(shown: Shown) -> Section:
    """The robot on a canvas; a script draws it from the placements of its links over time."""
    robot = shown.robot
    count = int(min(max(shown.duration * _FRAMES, 2), _MOST_FRAMES)) + 1
    t = np.linspace(0.0, shown.duration, count)
    q = along(shown.trajectory, t, robot.n)[0]
    scene, placements = moving_scene(robot, q, looks_of(robot, _TRIANGLES))
    local, carriers = np.array(scene.points), np.array(scene.carriers) + 1
    some = placements[:: max(1, count // 40)]
    places = np.einsum("nkij,kj->nki", some[:, carriers, :, :3], local) + some[:, carriers][..., 3]
    centre = (places.min(axis=(0, 1)) + places.max(axis=(0, 1))) / 2
    radius = max(float(np.linalg.norm(places - centre, axis=2).max()), 1e-6)
    placements = placements.copy()
    placements[..., 3] -= centre
    solids, planes = _around(shown.clearance, up_frame(robot), centre, radius)
    rounded = np.round(_DIGITS * placements).astype(int).reshape(count, -1)
    data = {
        "t": t.round(4),
        "frames": rounded,
        "digits": _DIGITS,
        "points": local.round(4),
        "carriers": carriers,
        "shapes": [
            [shape.kind, list(shape.points), int(shape.closed)] for shape in scene.front_last
        ],
        "labels": [
            [k + 1, scene.anchors[k]]
            for k, joint in enumerate(robot.joints)
            if joint.kind != "fixed"
        ],
        "solids": solids,
        "planes": planes,
        "radius": radius,
        "turn": TURN,
        "tilt": TILT,
    }
    names = ", ".join(f"{k + 1} {short(joint.name, 16)}" for k, joint in enumerate(robot.joints))
    words = f"The robot in motion, with its joints {names}. Arrow keys turn it."
    canvas = tag("canvas", id="stage", tabindex="0", role="img", aria_label=words)
    speeds = (("1", "designed speed"), ("0.5", "half"), ("0.1", "10 %"))
    choice = tag(
        "select", *(tag("option", text, value=value) for value, text in speeds), id="speed"
    )
    capsules = tag(
        "label", tag("input", type="checkbox", id="capsules"), " capsules that are kept apart"
    )
    controls = tag(
        "div",
        tag("button", "Play", type="button", id="play"),
        tag(
            "input",
            type="range",
            id="time",
            min=0,
            max=f"{shown.duration:g}",
            step="any",
            value=0,
            aria_label="Time, s",
        ),
        tag("output", "0.00 s", id="clock", for_="time"),
        tag("label", "Speed ", choice),
        capsules if solids else None,
        class_="player screen-only",
    )
    note = "Drag the figure, or use the arrow keys, to turn it."
    seen = figure("The robot", note, tag("div", canvas, class_="stage"), controls)
    lead = (
        "Obstacles that were given are drawn in orange; what stands around the real robot is not "
        "known here."
    )
    return Section("motion", "The motion", lead, (seen,), {"motion": data})


def _around(
    clearance: Clearance | None, turned: Array, centre: Array, radius: float
) -> tuple[list[dict[str, Any]], list[Any]]:
    """Capsules of links and obstacles in the frames of what carries them, and corners of planes in
    the picture's.
    """
    if clearance is None:
        return [], []
    used = {k for pair in clearance.pairs for k in pair} | {k for k, _, _ in clearance.planes}
    names = set(clearance.robot.link_names) | {clearance.robot.base_name}
    names |= {frame.name for frame in clearance.robot.frames}
    solids = [
        {
            "carrier": one.link + 1,
            "ends": [one.start.round(4), one.end.round(4)],
            "radius": round(one.radius, 4),
            "obstacle": one.name not in names,
        }
        for k, one in enumerate(clearance.capsules)
        if k in used
    ]
    planes = []
    for normal, offset in {
        (tuple(normal.tolist()), offset) for _, normal, offset in clearance.planes
    }:
        n = turned.T @ np.array(normal)
        middle = (offset - centre @ n) * n
        if np.linalg.norm(middle) > radius:
            continue  # too far away to be seen
        other = np.eye(3)[int(np.argmin(np.abs(n)))]
        a = np.cross(n, other) / np.linalg.norm(np.cross(n, other))
        b = np.cross(n, a)
        size = _PLANE * radius
        planes.append(
            [
                (middle + size * (x * a + y * b)).round(4)
                for x, y in ((1, 1), (-1, 1), (-1, -1), (1, -1))
            ]
        )
    return solids, planes


def _limits(shown: Shown) -> Section:
    kinds = [kind for kind in shown.margins if kind != "distance"]
    rows = [
        [short(joint, 60), *(_share(shown.margins[kind].get(joint)) for kind in kinds)]
        for joint in shown.margins[kinds[0]]
    ]
    lead = (
        "The largest share of each limit that the motion uses, at all times; torques as the model "
        "predicts them."
    )
    return Section(
        "limits", "Limits", lead, (table("Share of each limit by joint", ("joint", *kinds), rows),)
    )


def _share(share: float | None) -> object:
    if share is None or not np.isfinite(share):
        return "–"
    level = "good" if share <= 1.0 + 1e-9 else "bad"
    bars = (
        tag("rect", x=0, y=2, width=100, height=10, rx=2, class_="track"),
        tag(
            "rect", x=0, y=2, width=100 * min(share, 1.0), height=10, rx=2, class_=f"after {level}"
        ),
    )
    drawn = picture(100, 14, bars, f"{percent(share, 3)} of the limit", "spark share")
    return tag("span", percent(share, 3), drawn, class_="used")


def _distances(shown: Shown) -> Section | None:
    if shown.clearance is None:
        return None
    t = np.linspace(0.0, shown.duration, _POINTS)
    apart = shown.clearance.distances(along(shown.trajectory, t, shown.robot.n)[0])
    nearest = np.argsort(apart.min(axis=0))[:_PAIRS]
    names = shown.clearance.names
    drawn = [
        _chart(
            shown.duration,
            t,
            [(apart[:, k], "distance, m", (shown.clearance.needed[k],))],
            names[k],
        )
        for k in nearest
    ]
    lead = (
        f"Distances of the {len(nearest)} pairs that come nearest, of {len(names)} that were "
        f"checked. The dashed line is the clearance, {1000 * shown.clearance.least:g} mm. "
        "Capsules are thicker than links: real distances are larger."
    )
    return Section("distances", "Distances", lead, (tag("div", *drawn, class_="grid wide"),))


def _curves(shown: Shown) -> Section:
    robot, bounds = shown.robot, shown.bounds
    t = np.linspace(0.0, shown.duration, _POINTS)
    q, dq, ddq = along(shown.trajectory, t, robot.n)
    phi = predicting_parameters(robot)[0]
    tau = None if phi is None else inverse_dynamics(robot, q, dq, ddq, phi)
    drawn = []
    for k, name in enumerate(robot.joint_names):
        turns = robot.joints[robot.independent[k]].turns
        middle, half, fastest = (
            bounds.middle[k],
            bounds.reach["position"][k],
            bounds.reach["velocity"][k],
        )
        unit, force = ("rad", "torque, N m") if turns else ("m", "force, N")
        rows = [
            (q[:, k], f"position, {unit}", (middle - half, middle + half)),
            (dq[:, k], f"speed, {unit}/s", (-fastest, fastest)),
        ]
        if tau is not None:
            rows.append((tau[:, k], force, (-bounds.effort[k], bounds.effort[k])))
        drawn.append(_chart(shown.duration, t, rows, name))
    lead = (
        "Every joint over time; dashed lines are limits, torques with the share that may be used."
    )
    return Section(
        "curves", "Positions, speeds and torques", lead, (tag("div", *drawn, class_="grid wide"),)
    )


def _chart(
    duration: float, t: Array, rows: Sequence[tuple[Array, str, tuple[float, ...]]], name: str
) -> Html:
    """Curves one above the other, their limits, and a line that follows the motion."""
    marks: list[Html] = []
    width = _WIDTH - _LEFT - 8
    x = Axis(0.0, duration)
    for row, (values, label, levels) in enumerate(rows):
        known = [level for level in levels if abs(level) < 1e6]
        plot = Plot(
            _LEFT, 20 + row * _ROW, width, _ROW - 26, x, nice_range(np.r_[values, known], 1e-9)
        )
        last = row == len(rows) - 1
        marks.append(plot.axes("time, s" if last else "", label, (6, 3), labels=last))
        marks += [plot.level(level, "limit") for level in known]
        marks.append(plot.path(t, values, "line model"))
    height = 20 + _ROW * len(rows)
    marks.append(
        tag(
            "line",
            class_="cursor now",
            x1=_LEFT,
            x2=_LEFT,
            y1=14,
            y2=height - 6,
            data_span=f"{width:g}",
        )
    )
    words = f"{name}: {', '.join(label for _, label, _ in rows)} over time"
    return figure(short(name, 60), "", picture(_WIDTH, height + 28, marks, short(words, 200)))


def _errors(errors: Sequence[tuple[str, float, float]]) -> Section | None:
    if not errors:
        return None
    worst = sorted(errors, key=lambda row: -(row[2] if np.isfinite(row[2]) else 0.0))
    rows = [
        (name, number(std), percent(share) if np.isfinite(share) else "–")
        for name, std, share in worst
    ]
    heads = ("parameter", "standard deviation", "over its value")
    content = [table("Predicted errors, worst first", heads, rows[:_WORST], (1, 2))]
    if len(rows) > _WORST:
        rest = table("The other parameters", heads, rows[_WORST:], (1, 2))
        content.append(folded(f"The other {len(rows) - _WORST} parameters", rest))
    lead = (
        "What a log of this motion will show: predicted standard deviations of the base "
        "parameters, SI units."
    )
    return Section("errors", "Predicted errors", lead, tuple(content))
