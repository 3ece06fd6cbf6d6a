"""The page of a fleet: a map of its robots, those to look at, trends, pictures first."""

from __future__ import annotations

import datetime
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from minidyn.display import Html, tag
from minidyn.errors import DescriptionError
from minidyn.files import check_outputs, write_atomically
from minidyn.identification.fleet.deviations import Deviation
from minidyn.pages.charts import Axis, Plot, legend, nice_range, picture
from minidyn.pages.html import Section, figure, folded, notice_section, page, table
from minidyn.text import count, number, percent, short, visible

if TYPE_CHECKING:
    from minidyn.app.fleet_result import Fleet, FleetRobot

_SQUARE, _ACROSS = 20.0, 36  # pixels of a robot on the map, robots in a row
_NAMED = 60  # robots whose names stand on the map
_ROWS = 40  # robots of the picture of causes
_TRENDS = 12  # robots whose days are drawn
_SHADES = (0.3, 0.05, 0.005, 5e-4)  # chances below which a cell is darker
_SIGNS = {"good": "✓", "caution": "!"}


def write_fleet(fleet: Fleet, target: Path) -> Path:
    """Write the page; return its path."""
    if target.suffix.lower() not in (".html", ".htm"):
        raise DescriptionError(
            f"{target}: a report is one HTML file; give a name that ends in .html"
        )
    check_outputs([target])
    makers = (_summary, _looks, _causes, _trends, _shared, _robots)
    sections = [section for make in makers if (section := make(fleet)) is not None]
    found = notice_section(fleet.notices, "What was noticed, most serious first.")
    sections += [] if found is None else [found]
    samples = sum(one.samples for one in fleet.robots.values())
    about = f"{count(len(fleet.robots))} robots · {count(samples)} samples"
    title = f"Fleet of {visible(fleet.model.robot.name) or 'robots'}"
    write_atomically(target, page("fleet", title, about, sections).encode("utf-8"))
    return target


def _level(fleet: Fleet, one: FleetRobot) -> str:
    return "bad" if one.deviations else "good" if math.isfinite(one.p) else "caution"


def _summary(fleet: Fleet) -> Section:
    looks, alarms = fleet.to_look_at, fleet.level * len(fleet.robots)
    level = "caution" if looks or fleet.left_out else "good"
    if not any(math.isfinite(one.p) for one in fleet.robots.values()):
        headline = "Too few robots to compare"
        words = "Three robots are the least that say by how much healthy ones differ."
    else:
        headline = (
            f"{len(looks)} of {count(len(fleet.robots))} robots to look at"
            if looks
            else "All robots are alike"
        )
        words = (
            f"A healthy robot is listed with a probability of {percent(fleet.level)}: in this "
            f"fleet {alarms:.2g} would be, were all healthy."
        )
    if fleet.left_out:
        words += (
            f" {len(fleet.left_out)} robots were left out: "
            f"{', '.join(short(one) for one in fleet.left_out)}."
        )
    sign = tag("span", _SIGNS[level], class_="sign", aria_hidden="true")
    verdict = tag(
        "div",
        sign,
        tag("div", tag("p", headline, class_="headline"), tag("p", words)),
        class_=f"verdict {level}",
    )
    return Section("summary", "Summary", "", (verdict, _map(fleet)))


def _map(fleet: Fleet) -> Html:
    """One square for each robot, in the order they were given."""
    robots = list(fleet.robots.values())
    named, nearly = len(robots) <= _NAMED, min(0.5, 5 * fleet.level)
    across, wide = (6, 120.0) if named else (_ACROSS, _SQUARE + 2)
    tall = 30.0 if named else _SQUARE + 2
    marks = []
    for k, one in enumerate(robots):
        x, y = 4 + (k % across) * wide, 4 + (k // across) * tall
        level = _level(fleet, one)
        chance = f"chance if healthy {percent(one.p)}" if math.isfinite(one.p) else "not compared"
        title = f"{one.name}: {one.text or 'like the others'} ({chance})"
        box = {
            "x": x,
            "y": y,
            "width": wide - 4 if named else _SQUARE,
            "height": tall - 4 if named else _SQUARE,
            "rx": 3,
        }
        shade = "" if level != "good" or not one.p < nearly else " c4"
        marks.append(tag("rect", tag("title", title), class_=f"bar after {level}{shade}", **box))
        if named:
            marks.append(
                tag(
                    "text",
                    short(one.name, 15),
                    x=x + (wide - 4) / 2,
                    y=y + 17,
                    class_="value middle",
                )
            )
    rows = -(-len(robots) // across)
    words = (
        f"Map of {len(robots)} robots; to look at: "
        f"{short(', '.join(one.name for one in fleet.to_look_at), 600)}"
    )
    drawn = picture(8 + across * wide, 8 + rows * tall, marks, words)
    keys = [
        ("after good", "like the others"),
        ("after good c4", f"chance below {percent(nearly)}"),
        ("after bad", "differs"),
    ]
    return figure(
        "Robots", "point at a square for its name and what it differs in", drawn, legend(keys)
    )


def _looks(fleet: Fleet) -> Section | None:
    """Those to look at, the most certain first."""
    if not fleet.to_look_at:
        return None
    rows = []
    for one in fleet.to_look_at:
        first = True
        for part in one.deviations:
            rows.append(
                (
                    visible(one.name) if first else "",
                    part.text,
                    _error(part),
                    _chance(one.p) if first else "",
                )
            )
            first = False
    lead = (
        "Robots that differ from the others by more than healthy robots do, the most certain "
        "first, and what explains it best. The chance is that of a healthy robot to differ as "
        "much."
    )
    headings = ("robot", "differs in", "± (1 σ)", "chance if healthy")
    return Section(
        "look", "To look at", lead, (table("Robots to look at", headings, rows, (2, 3)),)
    )


def _error(part: Deviation) -> str:
    return percent(part.std) if part.kind in ("friction", "gain") else f"{part.std:.2g}"


def _chance(p: float) -> str:
    return "–" if not math.isfinite(p) else percent(p) if p > 1e-4 else "< 0.01 %"


def _label(part: Deviation) -> str:
    return part.kind if not part.joint else f"{part.kind} {part.joint}"


def _causes(fleet: Fleet) -> Section | None:
    """Robots against causes: how far each is from the others."""
    robots = sorted(
        (one for one in fleet.robots.values() if math.isfinite(one.p)), key=lambda one: one.p
    )[:_ROWS]
    if not robots:
        return None
    left, top, high = 130.0, 110.0, 20.0
    wide = max(22.0, min(60.0, 620.0 / len(robots[0].tests)))
    marks = []
    for k, part in enumerate(robots[0].tests):
        x = left + (k + 0.6) * wide
        turned = {"transform": f"rotate(-55 {x:.1f} {top - 6:.1f})"}
        marks.append(tag("text", short(_label(part), 18), x=x, y=top - 6, class_="tick", **turned))
    for row, one in enumerate(robots):
        y = top + row * high
        marks.append(
            tag(
                "text",
                short(one.name, 17),
                tag("title", one.name),
                x=left - 6,
                y=y + 14,
                class_="name end",
            )
        )
        for k, part in enumerate(one.tests):
            shade = sum(part.p < chance for chance in _SHADES)
            side = "plus" if part.value > 0 else "minus"
            class_ = (
                f"cell {side} c{shade}"
                if 0 < shade < len(_SHADES)
                else f"cell {side}"
                if shade
                else "track"
            )
            box = {"x": left + k * wide, "y": y, "width": wide - 1.5, "height": high - 1.5}
            title = f"{one.name}: {part.text} (chance alone {_chance(part.p)})"
            marks.append(tag("rect", tag("title", title), class_=class_, **box))
    size = left + wide * len(robots[0].tests) + 30, top + high * len(robots) + 6
    drawn = picture(*size, marks, "How far robots are from the others, by cause", "chart map")
    lead = (
        "Each cell is one test of one robot against the others: blue more, orange less than they "
        f"have, darker the less likely by chance. The {len(robots)} robots that differ most are "
        "shown."
    )
    area = tag(
        "div",
        drawn,
        class_="scroll heat",
        role="region",
        aria_label="Robots by cause",
        tabindex="0",
    )
    return Section(
        "causes", "Robots by cause", lead, (figure("Deviation from the other robots", "", area),)
    )


def _trends(fleet: Fleet) -> Section | None:
    """Friction by day of the robots whose friction changes most clearly."""
    joints = [joint.name for joint in fleet.model.robot.joints]
    known = [one for one in fleet.robots.values() if np.isfinite(one.slope_p).any()]
    if not known:
        return None
    chosen = sorted(known, key=lambda one: float(np.nanmin(one.slope_p)))[:_TRENDS]
    drawn = [_days(one, joints) for one in chosen]
    rows = []
    for one in chosen:
        k = int(np.nanargmin(one.slope_p))
        slope = f"{100 * one.slope[k]:+.2g} ± {100 * one.slope_std[k]:.1g} %"
        rows.append((visible(one.name), visible(joints[k]), slope, _chance(float(one.slope_p[k]))))
    lead = (
        "Friction torque of each joint by day, over the mean of the fleet, for the robots whose "
        "friction changes most clearly. The chance is that of such a slope where nothing changes, "
        "of one joint alone."
    )
    listed = table(
        "Slopes", ("robot", "joint", "change a day", "chance if nothing changes"), rows, (2, 3)
    )
    return Section("trends", "Friction by day", lead, (tag("div", *drawn, class_="grid"), listed))


def _days(one: FleetRobot, joints: Sequence[str]) -> Html:
    places = [k for k, date in enumerate(one.dates) if date]
    days = np.array(
        [datetime.date.fromisoformat(one.dates[k]).toordinal() for k in places], dtype=float
    )
    values = 100 * one.friction[places]
    plot = Plot(
        46, 20, 250, 110, Axis(0.0, max(1.0, float(np.ptp(days)))), nice_range(values, 20.0)
    )
    clearest = int(np.nanargmin(one.slope_p))
    marks = [plot.axes(f"days since {one.dates[places[0]]}", "% of the fleet's friction", (4, 3))]
    for k in range(values.shape[1]):
        marks.append(
            plot.path(days - days[0], values[:, k], "model" if k == clearest else "measured")
        )
    words = f"Friction of {one.name} by day, clearest change at joint {joints[clearest]}"
    drawn = picture(310, 168, marks, words)
    return figure(short(one.name, 30), f"blue: {short(joints[clearest], 24)}", drawn)


def _shared(fleet: Fleet) -> Section:
    """How much robots differ, parameter by parameter."""
    robots = list(fleet.robots.values())
    rows = []
    for name, spread in fleet.spread.items():
        values = np.array([one.values[name] for one in robots])
        mean = 1.0 if name.startswith("gain ") else float(np.mean(values))
        share = percent(spread / abs(mean)) if mean else "–"
        rows.append(
            (
                visible(name),
                number(mean),
                number(spread),
                share,
                f"{number(values.min())} to {number(values.max())}",
            )
        )
    lead = (
        "What each robot has of its own: the mean, by how much healthy robots differ (1 σ), and "
        "the range of all."
    )
    headings = ("parameter", "mean", "spread", "of the mean", "all robots")
    listed = table("Spread between robots", headings, rows, (1, 2, 3))
    return Section(
        "spread",
        "What differs between robots",
        lead,
        (folded(f"Parameters ({len(rows)})", listed),),
    )


def _robots(fleet: Fleet) -> Section:
    """All robots."""
    rows = [
        (
            visible(one.name),
            count(one.samples),
            str(len({date for date in one.dates if date}) or "–"),
            _chance(one.p),
            one.text,
        )
        for one in fleet.robots.values()
    ]
    listed = table(
        "All robots",
        ("robot", "samples", "days", "chance if healthy", "differs in"),
        rows,
        (1, 2, 3),
    )
    return Section(
        "robots", "All robots", "", (folded(f"Robots ({len(rows)})", listed, open_=len(rows) < 20),)
    )
