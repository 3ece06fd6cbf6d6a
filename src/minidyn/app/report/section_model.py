"""The identified model.

Links before and after, base parameters as formulas, excitation, physical consistency.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from minidyn.app.report.facts import MORE, Facts, command_line, excite_command
from minidyn.arrays import Array
from minidyn.base.printing.overview import units
from minidyn.base.printing.relations import without_effect
from minidyn.display import Html, tag
from minidyn.identification.diagnose.origin import link_origins
from minidyn.identification.verdict import separation
from minidyn.model.joint import Joint
from minidyn.pages.charts import Axis, Plot, picture
from minidyn.pages.html import Section, folded, table
from minidyn.recording.recording import Recording
from minidyn.text import fixed, number, percent, short, visible

_FEW = 8  # parameters that are not folded away
_NOTHING = 1e-9  # kg, m, kg m²: rounding


def links_section(facts: Facts) -> Section | None:
    """Return mass, centre of mass and principal inertias of each link.

    None where no parameter is known.
    """
    found = link_origins(facts.estimate)
    if not np.isfinite([link.after[0] for link in found]).any():
        return None
    rows = [
        (
            short(link.name, 40),
            *(
                before_after(link.before[k], link.after[k], origin_chip(link.shares[k]))  # type: ignore[arg-type]
                for k in range(3)
            ),
        )
        for link in found
    ]
    mass = [
        float(np.nansum([values[0] for values in side]))
        for side in zip(*((x.before, x.after) for x in found))
    ]
    headings = ("link", "mass, kg", "centre of mass x, y, z, m", "principal inertias, kg·m²")
    lead = (
        "Each body in its own frame, first as the robot file has it, then as identified; all "
        f"links together {number(mass[0])} kg before, {number(mass[1])} kg after. Torques show "
        "combinations of links only: what they do not show keeps the value of the prior."
    )
    note = (
        "Data: by how much the data narrow the number down, were nothing known of a body but its "
        "rough size; prior: the rest. A number that is mostly prior may be wrong without any "
        "effect on the torques. Inertias are about the centre of mass."
    )
    made = table("Links before and after identification", headings, rows, style="links")
    return Section("links", "Links before and after", lead, (made, tag("p", note, class_="quiet")))


def before_after(
    before: float | Sequence[float],
    after: float | Sequence[float],
    *more: object,
    classes: tuple[str, str] = ("was", "now"),
) -> Html:
    """Return a cell of a table: the values before, below them those after."""
    lines = [", ".join(_shown(np.atleast_1d(side))) for side in (before, after)]
    was = (
        tag("span", lines[0], class_=classes[0])
        if np.isfinite(np.atleast_1d(before)).any()
        else None
    )
    return tag("div", was, tag("span", lines[1], class_=classes[1]), *more, class_="pair")


def _shown(values: Array) -> list[str]:
    """Three digits of the largest one: what is rounding beside it is zero."""
    size = float(np.abs(values[np.isfinite(values)]).max(initial=0.0))
    places = min(8, max(0, 2 - math.floor(math.log10(size)))) if size > _NOTHING else 0
    return [fixed(float(one), places) if np.isfinite(one) else number(float(one)) for one in values]


def origin_chip(share: float) -> Html | None:
    """Return a mark that says whether a number comes from the data or from the prior.

    None where it is not known.
    """
    if not np.isfinite(share):
        return None
    data = share >= 0.5
    words = f"data {percent(share)}" if data else f"prior {percent(1 - share)}"
    title = f"{percent(share)} from the data, {percent(1 - share)} from the prior"
    return tag("span", words, class_=f"chip {'moved' if data else 'kept'}", title=title)


def base_section(facts: Facts) -> Section:
    """Return the base parameters as formulas of standard ones, and what has no effect."""
    base = facts.estimate.base
    count = len(base.robot.layout)
    rows = []
    for relation, kept, unit in zip(base.relations(), base.kept, units(base)):
        alone = len(relation.terms) == 1 and relation.name == kept
        formula = (
            tag("span", "itself", class_="quiet")
            if alone
            else relation.formula().replace(" - ", " − ")
        )
        rows.append((relation.name, formula, unit))
    formulas = table(
        "Base parameters", ("base parameter", "made of", "unit"), rows, style="formulas"
    )
    content = [
        folded(f"All {base.rank} base parameters as formulas", formulas, open_=base.rank <= 24)
    ]
    reasons = without_effect(base)
    if reasons:
        items = (
            tag("li", tag("strong", ", ".join(names)), f": {why}") for why, names in reasons.items()
        )
        content.append(
            folded(f"{len(base.eliminated)} parameters without effect, and why", tag("ul", *items))
        )
    lead = (
        f"Of {count} parameters, {base.rank} combinations decide every torque. "
        f"{len(base.regrouped)} more act only inside these combinations and cannot be separated, "
        f"{len(base.eliminated)} have no effect at all. No experiment that measures joint torques "
        "can find more."
        if base.method == "exact"
        else f"{base.rank} combinations of {count} parameters, found by method {base.method}."
    )
    return Section("base", "Base parameters", lead, tuple(content))


def excitation_section(facts: Facts) -> Section:
    """Return how well the motion shows each parameter, and what the motion was."""
    estimate = facts.estimate
    count, weak = len(estimate.beta), len(estimate.weak)
    words = (
        "Each bar is a base parameter: its standard deviation as a share of its value. "
        f"{count - weak} of {count} are known well, or act little"
        + (f"; {weak} weak ones are pale." if weak else ".")
    )
    label = "Relative standard deviation of each base parameter"
    bars = tag(
        "div", _strength(facts), class_="scroll", role="region", aria_label=label, tabindex="0"
    )
    content = [tag("figure", bars, tag("figcaption", words))]
    if facts.motion is not None:
        content.append(_ranges(facts, facts.motion))
    if facts.std_after is not None:
        content += _next(facts, facts.std_after)
    condition, together = separation(estimate)
    good = condition <= facts.limits.condition
    lead = (
        f"Condition number {number(condition)}{together}: the motion "
        + ("separates the parameters well" if good else "hardly separates some parameters")
        + (
            f" (1 is perfect, good is below {facts.limits.condition:g}). It says by how much "
            "noise may be magnified."
        )
    )
    return Section("excitation", "Excitation and conditioning", lead, tuple(content))


def _next(facts: Facts, after: Array) -> list[Html]:
    """How much each error would shrink with one more log, and the command that designs it."""
    estimate = facts.estimate
    order = np.argsort(
        -np.nan_to_num(estimate.relative_std, nan=np.inf, posinf=np.inf), kind="stable"
    )
    with np.errstate(divide="ignore", invalid="ignore"):
        share = after / np.abs(estimate.beta)
    rows = [
        (
            estimate.names[k],
            percent(float(estimate.relative_std[k]))
            if np.isfinite(estimate.relative_std[k])
            else "–",
            percent(float(share[k])) if np.isfinite(share[k]) else "–",
            f"{number(float(estimate.std[k] / after[k]), 2)} times",
        )
        for k in order.tolist()
    ]
    heads = ("parameter", "now", f"after {MORE:g} s more", "smaller by")
    text = (
        f"Predicted for {MORE:g} s of a plain random motion within the limits of position and "
        "speed, recorded at 100 Hz with the same noise. This command designs one that adds most "
        "to what is known, within all limits:"
    )
    made = [
        tag("h3", "What to record next"),
        tag("p", text),
        tag("p", command_line(excite_command(facts))),
    ]
    few = table(
        "Errors with one more log, weakest parameters first", heads, rows[:_FEW], right=(1, 2, 3)
    )
    more = folded(
        f"The other {len(rows) - _FEW} parameters",
        table("The others", heads, rows[_FEW:], right=(1, 2, 3)),
    )
    return [*made, few, *([more] if len(rows) > _FEW else [])]


def _strength(facts: Facts) -> Html:
    """Bars of relative standard deviations, the smallest first."""
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
    for k, (index, y) in enumerate(zip(order.tolist(), plot.py(values).tolist())):
        name = facts.estimate.names[index]
        x = plot.left + k * step
        title = tag("title", f"{name}: {percent(float(relative[index]))}")
        bar = "bar weak" if name in facts.estimate.weak else "bar"
        box = {"x": x + 0.12 * step, "y": y, "width": 0.76 * step, "height": max(bottom - y, 1.0)}
        marks.append(tag("rect", title, **box, class_=bar))
        if count <= 84:
            class_ = "tick end " + ("tiny" if step > 9.0 else "mini")
            turned = f"translate({x + 0.5 * step + 3:.1f},{bottom + 6:.1f}) rotate(-90)"
            marks.append(tag("text", name, class_=class_, transform=turned))
    return picture(
        width,
        height + 8,
        marks,
        f"Relative standard deviation of {count} base parameters",
        "chart wide",
    )


def _ranges(facts: Facts, motion: Recording) -> Html:
    dq, ddq = np.asarray(motion.dq), np.asarray(motion.ddq)
    robot = facts.estimate.robot
    rows = []
    for j, index in enumerate(robot.independent):
        joint = robot.joints[index]
        unit, q = "m" if joint.slides else "rad", motion.q[:, j]
        ends = (q.min(), q.max(), np.abs(dq[:, j]).max(), np.abs(ddq[:, j]).max())
        low, high, speed, most = (number(float(end)) for end in ends)
        values = (f"{low} … {high} {unit}", f"{speed} {unit}/s", f"{most} {unit}/s²")
        rows.append((short(joint.name, 60), tag("span", _span(joint, q)), *values))
    headings = ("joint", "histogram", "positions", "largest speed", "largest acceleration")
    return table("Motion of each joint", headings, rows, (2, 3, 4))


def _span(joint: Joint, q: Array) -> Html:
    """A small histogram of a joint's positions, over its limits where it has any."""
    low, high = float(q.min()), float(q.max())
    bounded = bool(np.isfinite(joint.limits.lower) and np.isfinite(joint.limits.upper))
    if bounded:
        low, high = min(low, joint.limits.lower), max(high, joint.limits.upper)
    counts, _ = np.histogram(q, bins=32, range=(low, high) if high > low else (low - 1, low + 1))
    top = max(int(counts.max()), 1)
    bars = [
        tag(
            "rect",
            x=4.0 * k + 0.4,
            width=3.2,
            y=24 - 22 * n / top,
            height=22 * n / top,
            class_="bar",
        )
        for k, n in enumerate(counts.tolist())
        if n
    ]
    ground = tag("line", x1=0, x2=128, y1=24.5, y2=24.5, class_="grid zero")
    words = "over its limits" if bounded else "over its own range"
    return picture(
        128, 25, [*bars, ground], f"How often {short(joint.name)} was where, {words}", "spark"
    )


def certificate_section(facts: Facts) -> Section | None:
    """Return whether the model is physically consistent, link by link.

    None where parameters are unknown.
    """
    certificate = facts.certificate
    if certificate is None:
        return None
    robot = facts.estimate.robot
    rows = []
    for name, part, value in zip(
        robot.link_names, robot.layout.links, certificate.eigenvalues.tolist()
    ):
        mass = number(float(robot.parameters[part][-1]), 4)
        rows.append((short(name, 60), mass, _gauge(value), number(value, 2), _word(value > 0)))
    content = [
        table("Links", ("link", "mass, kg", "", "smallest eigenvalue", "consistent"), rows, (1, 3))
    ]
    if certificate.drives:
        negative = [
            name for name, value in zip(certificate.drives, certificate.drive_values) if value < 0
        ]
        words = f"{', '.join(negative)} negative." if negative else "none is negative."
        content.append(
            tag("p", f"{len(certificate.drives)} rotor inertias and friction terms: {words}")
        )
    words = f"{certificate.statement}. Total mass {certificate.mass_statement}."
    content.append(
        tag("p", f"Inertia matrix, which must be positive definite for a simulator to run: {words}")
    )
    if not certificate.consistent:
        reasons = (tag("li", visible(reason)) for reason in certificate.reasons())
        content.append(tag("ul", *reasons, class_="notices error"))
    cost = facts.estimate.record.get("misfit_increase")
    if isinstance(cost, int | float):
        words = (
            f"Physical consistency raised the misfit by {number(float(cost), 2)} noise variances, "
            "over all samples."
        )
        content.append(tag("p", words, class_="quiet"))
    lead = (
        "Every link must be a body that can exist: positive mass, and moments of inertia that "
        "some distribution of mass has. This model "
        f"{'passes' if certificate.consistent else 'does not pass'}. The eigenvalue has no unit: "
        "1/3 is a ball, 0 a sheet or a rod, below 0 no body at all."
    )
    return Section("consistency", "Physical consistency", lead, tuple(content))


def _word(good: bool) -> Html:
    return tag("span", "✓ yes" if good else "✕ no", class_="chip good" if good else "chip bad")


def _gauge(value: float) -> Html:
    place = float(np.clip(np.sqrt(max(value, 0.0) * 3.0), 0.0, 1.0))
    marks = [
        tag("rect", x=0, y=5, width=120, height=6, rx=3, class_="track"),
        tag(
            "rect",
            x=0,
            y=5,
            width=max(120 * place, 0.0),
            height=6,
            rx=3,
            class_="bar" if value > 0 else "bar weak",
        ),
    ]
    return picture(120, 16, marks, f"{number(value, 2)} between 0 (sheet) and 1/3 (ball)", "spark")
