"""Friction of each joint: torque over speed, the model's curve and what was measured.

Joints that give way.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from minidyn.app.report.facts import Facts
from minidyn.arrays import Array
from minidyn.display import Html, tag
from minidyn.dynamics.drives import friction_columns
from minidyn.dynamics.functions import inverse_dynamics
from minidyn.errors import MinidynError
from minidyn.identification.validate import Validation
from minidyn.model.drives import BY_SYMBOL, TERMS
from minidyn.model.joint import torque_unit, unit_of
from minidyn.model.parameters import Column
from minidyn.model.robot import Robot
from minidyn.pages.charts import Axis, Plot, legend, nice_range, picture
from minidyn.pages.html import Section, figure, table
from minidyn.text import number, percent, short, visible

_POINTS = 700  # of a joint
_SPEEDS = 161  # of a curve
_WIDTH, _HEIGHT = 360.0, 220.0


def friction_section(facts: Facts) -> Section | None:
    """Return friction over speed, joint by joint.

    None where the model has none or no motion is known.
    """
    robot = facts.estimate.robot
    _, name, run = next(
        (entry for entry in facts.runs if entry[2].motion is not None), ("", "", None)
    )
    columns = friction_columns(robot)
    if run is None or not columns:
        return None
    try:
        figures = _figures(facts, run)
    except MinidynError:  # a model of which some parameter is not known has no torque
        return None
    before = _before(facts)
    keys = [("points", "measured torque minus the model without friction"), ("model", "model")]
    keys += [("prior", "before identification")] if before is not None else []
    loads = any(robot.layout.columns[k].symbol == TERMS["load"].symbol for k in columns)
    lead = (
        "Torque over speed: what the measured torque has beyond gravity and inertia, and the "
        "identified friction. Points that follow the curve are explained. A cloud with a slope or "
        "a bend of its own shows friction that the model lacks, two branches show friction that "
        "depends on load, position or temperature."
    )
    if loads:
        lead += " Friction that grows with the load is drawn at the median load of each joint."
    content = (
        tag("p", f"Of {visible(name)}.", class_="quiet"),
        legend(keys),
        tag("div", *figures, class_="grid"),
    )
    return Section("friction", "Friction", lead, content)


def flexibility_section(facts: Facts) -> Section | None:
    """Return the stiffness of joints that give way, and what they add to the torque.

    None where they are stiff.
    """
    bent = facts.estimate.flexibility
    if bent is None:
        return None
    _, name, run = next(
        (entry for entry in facts.runs if entry[2].motion is not None), ("", "", None)
    )
    shares = [math.nan] * bent.robot.n
    if run is not None and run.motion is not None:
        shares = (_rms(bent.torque(run.motion)) / np.maximum(_rms(run.measured), 1e-300)).tolist()
    rows: list[list[object] | str] = [
        [
            short(joint, 60),
            number(size),
            f"± {number(std)}" if size < math.inf else "",
            unit,
            percent(share),
        ]
        for joint, size, std, unit, share in zip(
            bent.robot.joint_names, bent.stiffness, bent.stiffness_std, bent.units, shares
        )
    ]
    gain = float(facts.estimate.record["flexibility"]["gain"])
    lead = (
        f"Joints are springs between drives and links; encoders sit on the {bent.encoder}'s side. "
        f"Squares of residuals in held-out stretches of time are {percent(gain)} fewer than those "
        "of a rigid model."
    )
    headings = ["joint", "stiffness", "standard deviation", "unit", "of the measured torque"]
    content = (
        table("Stiffness of joints", headings, rows, (1, 2, 4)),
        tag("p", f"Of {visible(name)}.", class_="quiet"),
    )
    return Section("flexibility", "Joints that give way", lead, content)


def _rms(values: Array) -> Array:
    return np.asarray(np.sqrt(np.mean(values**2, axis=0)))


def friction_curve(
    robot: Robot, parameters: Array, posture: Array, joint: int, speeds: Array
) -> Array:
    """Return a joint's friction torque (m,) at speeds (m,), the other joints at rest in a posture
    (n,).
    """
    dq = np.zeros((len(speeds), robot.n))
    dq[:, joint] = speeds
    return _friction(robot, parameters, np.broadcast_to(posture, dq.shape), dq)[:, joint]


def curve_speeds(top: float) -> Array:
    """Return speeds (m,) up to a largest one, closer together about zero, where friction changes
    quickly.
    """
    x = np.linspace(-1.0, 1.0, _SPEEDS)
    return np.asarray(top * np.sign(x) * np.abs(x) ** 2.5)


def _friction(robot: Robot, parameters: Array, q: Array, dq: Array) -> Array:
    without = parameters.copy()
    without[friction_columns(robot)] = 0.0
    still = np.zeros_like(dq)
    return inverse_dynamics(robot, q, dq, still, parameters) - inverse_dynamics(
        robot, q, dq, still, without
    )


def _before(facts: Facts) -> Array | None:
    """The robot's parameters with the friction of its file; None where the file has none."""
    robot, described = facts.estimate.robot, facts.estimate.base.robot
    columns = friction_columns(robot)
    values = described.parameters[columns]
    if np.array_equal(values, robot.parameters[columns]) or not np.nan_to_num(values).any():
        return None
    mixed = robot.parameters.copy()
    mixed[columns] = np.nan_to_num(values)
    return mixed


def _figures(facts: Facts, run: Validation) -> list[Html]:
    robot, motion, before = facts.estimate.robot, run.motion, _before(facts)
    assert motion is not None  # noqa: S101 - asked before
    q, dq = motion.q, np.asarray(motion.dq)
    some = np.arange(0, len(dq), max(1, len(dq) // _POINTS))
    measured = run.residual[some] + _friction(robot, robot.parameters, q[some], dq[some])
    still = np.zeros_like(dq[some])
    load = np.abs(inverse_dynamics(robot, q[some], still, still))
    figures = []
    for j, index in enumerate(robot.independent):
        joint = robot.joints[index]
        terms = [c for c in robot.layout.drives[index] if c.index in friction_columns(robot)]
        if not terms:
            continue
        posture = q[some[int(np.argsort(load[:, j])[len(some) // 2])]]  # of median load
        speeds = curve_speeds(float(np.abs(dq[:, j]).max()) or 1.0)
        curves = [(friction_curve(robot, robot.parameters, posture, j, speeds), "model")]
        if before is not None:
            curves.insert(0, (friction_curve(robot, before, posture, j, speeds), "prior"))
        words = ", ".join(_term(robot, column) for column in terms)
        drawn = friction_picture(
            short(joint.name), torque_unit(joint), speeds, curves, (dq[some, j], measured[:, j])
        )
        figures.append(figure(short(joint.name, 60), words, drawn))
    return figures


def _term(robot: Robot, column: Column) -> str:
    """Name, value and unit of a friction term."""
    name = next(name for name, term in TERMS.items() if term is BY_SYMBOL[column.symbol]).replace(
        "_", " "
    )
    unit = unit_of(column.symbol, robot.joints[column.joint]).removeprefix("1")
    return f"{name} {number(float(robot.parameters[column.index]))} {unit}".strip()


def friction_picture(
    name: str,
    unit: str,
    speeds: Array,
    curves: Sequence[tuple[Array, str]],
    points: tuple[Array, Array] | None,
) -> Html:
    """Return a chart of friction over speed: (torques, class of the line) of curves, and points."""
    values = np.concatenate([curve for curve, _ in curves])
    if points is not None:  # a stray point does not set the range
        values = np.concatenate([values, np.percentile(points[1], [1, 99])])
    y = nice_range(values)
    plot = Plot(
        48,
        24,
        _WIDTH - 58,
        _HEIGHT - 66,
        Axis(float(speeds[0]) * 1.04, float(speeds[-1]) * 1.04),
        y,
    )
    slides = unit == "N"
    labels = ("speed, m/s", f"force, {unit}") if slides else ("speed, rad/s", f"torque, {unit}")
    marks = [plot.axes(*labels, ticks=(5, 5))]
    if points is not None:
        inside = (points[1] >= y.low) & (points[1] <= y.high)
        spots = zip(
            plot.px(points[0][inside]).round().tolist(), plot.py(points[1][inside]).round().tolist()
        )
        marks.append(
            tag(
                "path",
                class_="points",
                d="".join(f"M{a:.0f},{b:.0f}h0" for a, b in dict.fromkeys(spots)),
            )
        )
    marks += [plot.path(speeds, curve, class_) for curve, class_ in curves]
    return picture(
        _WIDTH, _HEIGHT, marks, f"Friction of {name}: {'force' if slides else 'torque'} over speed"
    )
