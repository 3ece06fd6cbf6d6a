"""The experiment: plan, motion, conditioning."""

from __future__ import annotations

import numpy as np

from minidyn.app.report.charts import Axis, Plot, picture
from minidyn.app.report.facts import Facts
from minidyn.app.report.html import Html, Section, folded, table, tag
from minidyn.app.report.verdict import CONDITION_GOOD, WEAK
from minidyn.arrays import Array
from minidyn.errors import MinidynError
from minidyn.identification.one_joint.one_joint import OneJointEstimate
from minidyn.model.joint import Joint
from minidyn.recording.recording import Recording
from minidyn.text import fixed, number, percent, short, visible


def plan_section(facts: Facts) -> Section | None:
    """Return the plan with one joint at a time and what it gave; None where there is none."""
    plan = facts.plan
    if plan is None:
        return None
    rows = []
    for step, told in zip(plan.steps, plan.step_rows()):
        unit = "m" if plan.robot.joints[plan.robot.independent[step.index]].slides else "rad"
        low, high = (fixed(end, 2) for end in step.span)
        held = ", ".join(f"{name} = {fixed(value, 2)}" for name, value in step.locked.items())
        period = f"{step.trajectory.period:.1f} s"
        rows.append(
            (str(step.number), short(step.joint, 60), f"{low} … {high} {unit}", period, held, visible(told[-1]))
        )
    headings = ("step", "moves", "from, to", "period", "others held at, rad or m", "shows")
    steps = table("Experiments", headings, rows, class_="steps numbered")
    content = [folded(f"The {len(rows)} runs", steps, open_=len(rows) <= 5)]
    if facts.one_joint is not None:
        content.append(_agreement(facts, facts.one_joint))
    lead = (
        f"{len(plan.steps)} runs in which one joint moves and the others are held show all {plan.base.rank} constants, "
        f"from small problems with condition numbers up to {number(plan.condition)}. The gentlest way to a first model."
    )
    return Section("plan", "One joint at a time", lead, tuple(content))


def _agreement(facts: Facts, found: OneJointEstimate) -> Html:
    try:
        beta, covariance = found.in_base(facts.estimate.base)
    except MinidynError as error:
        return tag("p", f"These runs cannot be compared with the whole log: {visible(error)}.", class_="quiet")
    spread = np.sqrt(np.diag(covariance) + np.diag(facts.estimate.covariance))
    apart = np.abs(beta - facts.estimate.beta) / np.where(spread > 0, spread, np.inf)
    worst = int(np.argmax(apart))
    close = int(np.sum(apart <= 3.0))
    return tag(
        "p",
        f"Carried out, these runs gave a model of their own. {close} of {len(beta)} base parameters agree within three "
        f"standard deviations with those of the whole log; the most different is {facts.estimate.names[worst]} "
        f"({number(float(apart[worst]), 2)} standard deviations).",
    )


def excitation_section(facts: Facts) -> Section:
    """Return how well the motion shows each parameter, and what the motion was."""
    estimate = facts.estimate
    relative = estimate.relative_std
    weak = int(np.sum(~(relative <= WEAK)))
    content = [tag("figure", _wide(_strength(facts)), tag("figcaption", _strength_words(weak, len(relative))))]
    if facts.motion is not None:
        content.append(_ranges(facts, facts.motion))
    pairs = _twins(facts)
    if pairs:
        content.append(
            folded(
                "Parameters that are hard to tell apart",
                table("Most correlated pairs", ("parameter", "parameter", "correlation"), pairs, numeric=(2,)),
            )
        )
    good = estimate.condition <= CONDITION_GOOD
    lead = (
        f"Condition number {number(estimate.condition)}: "
        + ("the motion separates the parameters well" if good else "the motion hardly separates some parameters")
        + f" (1 is perfect, good is below {CONDITION_GOOD:g}). It says by how much noise may be magnified."
    )
    return Section("excitation", "Excitation and conditioning", lead, tuple(content))


def _wide(figure: Html) -> Html:
    """A figure that is scrolled where the screen is narrow."""
    words = "Relative standard deviation of each base parameter"
    return tag("div", figure, class_="scroll", role="region", aria_label=words, tabindex="0")


def _strength_words(weak: int, count: int) -> str:
    return (
        f"Each bar is a base parameter: its standard deviation as a share of its value. {count - weak} of {count} are "
        f"known better than {percent(WEAK)}"
        + (f"; {weak} weaker ones, above the line, matter little in the recorded motion." if weak else ".")
    )


def _strength(facts: Facts) -> Html:
    relative = np.where(np.isfinite(facts.estimate.relative_std), facts.estimate.relative_std, 1e3)
    order = np.argsort(relative)
    values = np.clip(relative[order], 1e-4, 10.0)
    count = len(values)
    width, height = 760.0, 210.0
    low = 10.0 ** np.floor(np.log10(max(values.min() * 0.8, 1e-4)))
    plot = Plot(56, 22, width - 66, height - 60, Axis(0, count), Axis(float(low), 10.0, log=True))
    marks = [tag("g", plot.axes("", "standard deviation / value", ticks=(0, 5), labels=False))]
    bottom = plot.top + plot.height
    step = plot.width / count
    for k, index in enumerate(order):
        y = float(plot.py(values[k]))
        name = facts.estimate.names[int(index)]
        x = plot.left + k * step
        marks.append(
            tag(
                "rect",
                tag("title", f"{name}: {percent(float(relative[index]))}"),
                x=x + 0.12 * step,
                y=y,
                width=0.76 * step,
                height=max(bottom - y, 1.0),
                class_="bar weak" if relative[index] > WEAK else "bar",
            )
        )
    if count <= 84:
        size = 8.5 if step > 10 else 7
        for k, index in enumerate(order):
            x = plot.left + (k + 0.5) * step + 3
            name = facts.estimate.names[int(index)]
            turned = f"translate({x:.1f},{bottom + 6:.1f}) rotate(-90)"
            marks.append(
                tag("text", name, class_="tick end", font_size=size, transform=turned),
            )
    marks.append(plot.level(WEAK, "limit", f"{percent(WEAK)}: weak beyond", left=True))
    return picture(width, height + 8, marks, f"Relative standard deviation of {count} base parameters", "chart wide")


def _ranges(facts: Facts, motion: Recording) -> Html:
    dq, ddq = np.asarray(motion.dq), np.asarray(motion.ddq)
    robot = facts.estimate.robot
    rows = []
    for j, index in enumerate(robot.independent):
        joint = robot.joints[index]
        unit = "m" if joint.slides else "rad"
        q = motion.q[:, j]
        rows.append(
            (
                short(joint.name, 60),
                tag("span", _span(joint, q)),
                f"{number(float(q.min()))} … {number(float(q.max()))} {unit}",
                f"{number(float(np.abs(dq[:, j]).max()))} {unit}/s",
                f"{number(float(np.abs(ddq[:, j]).max()))} {unit}/s²",
            )
        )
    return table(
        "Motion of each joint",
        ("joint", "where it was", "positions", "largest speed", "largest acceleration"),
        rows,
        (2, 3, 4),
    )


def _span(joint: Joint, q: Array) -> Html:
    """A small histogram of a joint's positions, over its limits where it has any."""
    low, high = float(q.min()), float(q.max())
    bounded = bool(np.isfinite(joint.limits.lower) and np.isfinite(joint.limits.upper))
    if bounded:
        low, high = min(low, joint.limits.lower), max(high, joint.limits.upper)
    counts, _ = np.histogram(q, bins=32, range=(low, high) if high > low else (low - 1, low + 1))
    top = max(int(counts.max()), 1)
    bars = [
        tag("rect", x=4.0 * k + 0.4, width=3.2, y=24 - 22 * n / top, height=22 * n / top, class_="bar")
        for k, n in enumerate(counts.tolist())
        if n
    ]
    ground = tag("line", x1=0, x2=128, y1=24.5, y2=24.5, class_="grid zero")
    words = "over its limits" if bounded else "over its own range"
    return picture(128, 25, [*bars, ground], f"How often {short(joint.name)} was where, {words}", "spark")


def _twins(facts: Facts) -> list[tuple[str, str, str]]:
    std = facts.estimate.std
    if not np.all((std > 0) & np.isfinite(std)):
        return []
    correlation = facts.estimate.covariance / np.outer(std, std)
    rows, columns = np.triu_indices(len(std), 1)
    sizes = np.abs(correlation[rows, columns])
    best = [k for k in np.argsort(-sizes)[:8] if sizes[k] > 0.9]
    names = facts.estimate.names
    return [(names[rows[k]], names[columns[k]], number(float(correlation[rows[k], columns[k]]), 3)) for k in best]
