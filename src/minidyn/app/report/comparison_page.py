"""The page on two estimates side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from minidyn.app.report.section_friction import curve_speeds, friction_curve, friction_picture
from minidyn.app.report.section_model import before_after
from minidyn.app.report.section_more import settings_rows
from minidyn.app.report.section_parameters import link_heading
from minidyn.arrays import Array
from minidyn.display import Html, tag
from minidyn.dynamics.drives import friction_columns
from minidyn.errors import MinidynError
from minidyn.identification.diagnose.origin import link_origins
from minidyn.identification.estimate import Estimate
from minidyn.model.joint import torque_unit
from minidyn.pages.charts import Axis, Plot, legend, picture
from minidyn.pages.html import Section, figure, page, table
from minidyn.text import fixed, number, percent, short, visible, with_error

if TYPE_CHECKING:
    from minidyn.app.compare_estimates import EstimateComparison, Pair

_SIGMAS = 1.96  # of a 95 % interval
_SAME, _CLOSE = 0.05, 0.2  # torque differences that are called small, and moderate


def comparison_page(found: EstimateComparison) -> str:
    """Return the whole page."""
    makers = (_summary, _parameters, _links, _friction, _record)
    sections = [section for make in makers if (section := make(found)) is not None]
    name = visible(found.a.robot.name) or "a robot"
    about = (
        f"{found.a.robot.n} joints · {short(found.names[0], 40)} and {short(found.names[1], 40)}"
    )
    return page("comparison of estimates", f"Two models of {name}", about, sections)


def _summary(found: EstimateComparison) -> Section:
    different, total = len(found.different), int(sum(np.isfinite(one.apart) for one in found.pairs))
    level = _level(found.relative_difference)
    words = {
        "good": "Nearly the same torques",
        "caution": "Somewhat different torques",
        "bad": "Different torques",
    }
    sign = tag(
        "span", {"good": "✓", "caution": "!", "bad": "✕"}[level], class_="sign", aria_hidden="true"
    )
    text = (
        "On a motion within the joint limits the torques of the two models differ by "
        f"{percent(found.relative_difference)} (root mean square). {different} of {total} base "
        f"parameters are more than {found.far:g} standard deviations apart."
    )
    head = tag(
        "div",
        sign,
        tag("div", tag("p", words[level], class_="headline"), tag("p", text)),
        class_=f"verdict {level}",
    )
    cards = [
        _card("Condition number", [number(one.condition) for one in (found.a, found.b)], found),
        _card("Samples", [str(one.samples) for one in (found.a, found.b)], found),
        _card("All links, kg", [number(_mass(one)) for one in (found.a, found.b)], found),
        _card("Physically consistent", [_consistent(one) for one in (found.a, found.b)], found),
    ]
    note = "difference, a share of the first model's torque (root mean square)"
    shown = figure("Torque of each joint", note, _bars(found), class_="errors")
    return Section(
        "summary",
        "Summary",
        "",
        (head, tag("div", shown, tag("dl", *cards, class_="cards"), class_="glance")),
    )


def _level(difference: float) -> str:
    return "good" if difference <= _SAME else "caution" if difference <= _CLOSE else "bad"


def _card(label: str, values: list[str], found: EstimateComparison) -> Html:
    lines = [tag("span", value, tag("span", f" {short(name, 24)}", class_="quiet"), class_="side")
             for value, name in zip(values, found.names)]  # fmt: skip
    return tag("div", tag("dt", label), tag("dd", *lines), class_="card")


def _mass(estimate: Estimate) -> float:
    return float(np.sum([link.mass for link in estimate.robot.links]))


def _consistent(estimate: Estimate) -> str:
    try:
        return "yes" if estimate.certificate.consistent else "no"
    except MinidynError:
        return "not known"


def _bars(found: EstimateComparison) -> Html:
    row, left, width = 28.0, 124.0, 430.0
    finite = [one for one in found.difference.values() if np.isfinite(one)]
    top = 1.05 * min(max([_SAME, *finite]), 2.0)
    height = row * len(found.difference)
    plot = Plot(left, 8, width - left - 48, height, Axis(0.0, 100 * top), Axis(0.0, 1.0))
    marks = [plot.axes("%", "", ticks=(5, 0))]
    for k, (name, error) in enumerate(found.difference.items()):
        y, level = 8 + k * row, _level(error)
        end = float(plot.px(100 * min(error, top))) if np.isfinite(error) else left
        marks.append(tag("text", short(name, 20), x=left - 8, y=y + 19, class_="name end"))
        box = {"x": left, "y": y + 7, "width": max(end - left, 1.0), "height": 15, "rx": 1.5}
        marks.append(
            tag(
                "rect",
                tag("title", f"{name}: {percent(error)}"),
                **box,
                class_=f"bar after {level}",
            )
        )
        marks.append(tag("text", percent(error), x=end + 5, y=y + 19, class_=f"value {level}"))
    words = ", ".join(f"{name} {percent(error)}" for name, error in found.difference.items())
    return picture(
        width,
        8 + height + 34,
        marks,
        f"Difference of the torques of each joint: {short(words, 600)}",
    )


def _parameters(found: EstimateComparison) -> Section:
    robot = found.a.robot
    one, two = (short(name, 24) for name in found.names)
    rows: list[list[object] | str] = []
    owner = -1
    for pair in sorted(found.pairs, key=lambda pair: pair.joint):
        if pair.joint != owner:
            owner = pair.joint
            rows.append(link_heading(robot, owner))
        values = [with_error(value, _SIGMAS * std) for value, std in (pair.first, pair.second)]
        cells = [f"{value} ± {error}" if value != "–" else "–" for value, error in values]
        mark = tag("span", "differs", class_="chip moved") if pair.apart > found.far else ""
        rows.append(
            [
                pair.name,
                *cells,
                pair.unit,
                fixed(pair.apart, 1) if np.isfinite(pair.apart) else "–",
                _whiskers(pair),
                mark,
            ]
        )
    kinds = {"all": f"All {len(found.pairs)}", "moved": f"Different {len(found.different)}"}
    buttons = [
        tag(
            "button",
            words,
            type="button",
            data_filter=kind,
            aria_pressed="true" if kind == "all" else "false",
        )
        for kind, words in kinds.items()
    ]
    save = tag("button", "Save as CSV", type="button", data_save="parameters")
    shown = tag("div", *buttons, class_="buttons", role="group", aria_label="Show parameters")
    columns = [
        "parameter",
        one,
        f"{one}, std",
        two,
        f"{two}, std",
        "standard deviations apart",
        "unit",
    ]
    sheet = [[pair.name, *pair.first, *pair.second, pair.apart, pair.unit] for pair in found.pairs]
    headings = ("parameter", one, two, "unit", "apart, σ", "picture", "")
    content = [
        tag("div", shown, save, class_="controls filters screen-only", hidden=True),
        legend([("dot", one), ("second", two), ("zero-line", "zero")]),
        table("Base parameters of both estimates", headings, rows, (1, 2, 4), "estimates"),
    ]
    for sentence in found.not_comparable:
        content.append(tag("p", f"{sentence[0].upper()}{sentence[1:]}.", class_="quiet"))
    lead = (
        "Values with 95 % intervals, the second estimate in the base parameters of the first. "
        "Apart: the difference over its standard deviation, without what both share (errors of "
        "one prior); of logs that share samples it is too small."
    )
    data = {"parameters": {"file": "comparison.csv", "columns": columns, "rows": sheet}}
    return Section("parameters", "Base parameters", lead, tuple(content), data)


def _whiskers(pair: Pair) -> Html:
    """Both intervals, one above the other."""
    sides = [
        (value, _SIGMAS * std)
        for value, std in (pair.first, pair.second)
        if np.isfinite(value + std)
    ]
    if not sides:
        return picture(
            150, 18, [tag("text", "not determined", class_="tick", x=8, y=13)], pair.name, "spark"
        )
    ends = [0.0, *(value - half for value, half in sides), *(value + half for value, half in sides)]
    low, span = min(ends), (max(ends) - min(ends)) or 1.0

    def x(at: float) -> float:
        return 8 + 134 * (at - low) / span

    marks = [tag("line", class_="grid zero", x1=x(0.0), x2=x(0.0), y1=2, y2=20)]
    for k, ((value, half), class_) in enumerate(zip(sides, ("", " second"))):
        y = 7 + 8 * k
        marks.append(
            tag(
                "line",
                class_=f"whisker{class_}",
                x1=x(value - half),
                x2=x(value + half),
                y1=y,
                y2=y,
            )
        )
        marks.append(tag("circle", class_=f"dot{class_}", cx=x(value), cy=y, r=3))
    return picture(150, 22, marks, f"{pair.name} in both estimates", "spark")


def _links(found: EstimateComparison) -> Section:
    origins = [link_origins(one) for one in (found.a, found.b)]
    rows = [
        (
            short(one.name, 40),
            *(before_after(one.after[k], two.after[k], classes=("one", "two")) for k in range(3)),
        )
        for one, two in zip(*origins)
    ]
    headings = ("link", "mass, kg", "centre of mass x, y, z, m", "principal inertias, kg·m²")
    lead = (
        f"Each body in its own frame: {short(found.names[0], 40)} above, "
        f"{short(found.names[1], 40)} below. Links may differ where torques do not: only "
        "combinations of them act."
    )
    return Section(
        "links", "Links", lead, (table("Links of both estimates", headings, rows, style="links"),)
    )


def _friction(found: EstimateComparison) -> Section | None:
    figures = []
    for j, index in enumerate(found.a.robot.independent):
        joint = found.a.robot.joints[index]
        speed = joint.limits.velocity
        speeds = curve_speeds(float(speed) if np.isfinite(speed) and speed > 0 else 1.0)
        curves = [
            (_curve(one, j, speeds), class_)
            for one, class_ in ((found.a, "model"), (found.b, "prior"))
        ]
        shown = [
            (curve, class_)
            for curve, class_ in curves
            if curve is not None and np.abs(curve).max() > 0
        ]
        if shown:
            drawn = friction_picture(short(joint.name), torque_unit(joint), speeds, shown, None)
            figures.append(figure(short(joint.name, 60), "", drawn))
    if not figures:
        return None
    keys = legend([("model", short(found.names[0], 40)), ("prior", short(found.names[1], 40))])
    lead = (
        "Torque over speed of each joint moving alone, at zero position, up to its speed limit "
        "(or 1 rad/s, 1 m/s)."
    )
    return Section("friction", "Friction", lead, (keys, tag("div", *figures, class_="grid")))


def _curve(estimate: Estimate, joint: int, speeds: Array) -> Array | None:
    robot = estimate.robot
    if not friction_columns(robot):
        return None
    try:
        return friction_curve(robot, robot.parameters, np.zeros(robot.n), joint, speeds)
    except MinidynError:
        return None


def _record(found: EstimateComparison) -> Section:
    sides = [dict(settings_rows(one)) for one in (found.a, found.b)]
    rows = [
        (name, sides[0].get(name, "–"), sides[1].get(name, "–"))
        for name in dict.fromkeys((*sides[0], *sides[1]))
    ]
    names = (short(name, 40) for name in found.names)
    made = table("Settings of both estimates", ("what", *names), rows, style="record")
    return Section("record", "How they were made", "Settings and preparation.", (made,))
