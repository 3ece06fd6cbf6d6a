"""The page of a check: a log before any fit, pictures first."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from minidyn.arrays import Array
from minidyn.display import Html, envelope, shown_time, tag
from minidyn.errors import DescriptionError
from minidyn.files import check_outputs, write_atomically
from minidyn.identification.diagnose.log_facts import (
    HEADINGS,
    JointFacts,
    shown_word,
)
from minidyn.identification.diagnose.thresholds import FAIR, LARGE
from minidyn.notices import worth_telling
from minidyn.pages.charts import Axis, Plot, legend, nice_range, picture
from minidyn.pages.html import Section, figure, folded, notice_section, page, sentence, table
from minidyn.recording.recording import Recording
from minidyn.text import count, number, percent, short, visible

if TYPE_CHECKING:
    from minidyn.app.check import Check

_SIGNS = {"good": "✓", "caution": "!", "bad": "✕"}
_WIDTH, _LEFT, _RIGHT = 760.0, 130.0, 60.0
_NARROW, _SIDE = 430.0, 110.0  # of the first picture, to be read on phones
_ROW = 26.0
_POINTS = 900  # of a line
_SIGNAL = 74.0  # height of a panel
_SHOWN = {"well": "good", "fairly": "good", "weakly": "caution", "not": "bad"}


def write_check(check: Check, target: Path) -> Path:
    """Write the page; return its path."""
    if target.suffix.lower() not in (".html", ".htm"):
        raise DescriptionError(
            f"{target}: a check is one HTML file; give a name that ends in .html"
        )
    check_outputs([target])
    makers = (_summary, _notices, _signals, _excitation, _joints, _columns)
    sections = [section for make in makers if (section := make(check)) is not None]
    seconds = sum(run.seconds for run in check.runs)
    about = f"{check.robot.n} joints · {count(len(check.recording))} samples · {number(seconds)} s"
    text = page(
        "check of a log", f"Log of {visible(check.robot.name) or 'a robot'}", about, sections
    )
    write_atomically(target, text.encode("utf-8"))
    return target


def _summary(check: Check) -> Section:
    sign = tag("span", _SIGNS[check.level], class_="sign", aria_hidden="true")
    reasons = [notice.text for notice in worth_telling(check.notices)]
    listed = (
        tag("ul", *(tag("li", sentence(reason)) for reason in reasons[:5])) if reasons else None
    )
    words = tag("div", tag("p", check.headline, class_="headline"), tag("p", _words(check)), listed)
    verdict = tag("div", sign, words, class_=f"verdict {check.level}")
    steps = [tag("li", step) for step in check.next[:6]]
    if check.level != "bad":
        steps.insert(
            0,
            tag(
                "li",
                "Fit a model (minidyn identify, md.identify), and keep another log to test it.",
            ),
        )
    following = tag(
        "div", tag("h3", "What to do, and what to record next"), tag("ol", *steps), class_="next"
    )
    return Section("summary", "Summary", "", (verdict, _ranges(check), following))


def _words(check: Check) -> str:
    if not check.excitation:
        return "No model was fitted, so it is not known what the motion shows."
    shown = len(check.shown("well")) + len(check.shown("fairly"))
    return (
        f"The motion shows {shown} of {len(check.excitation)} base parameters well enough "
        "(standard deviation up to 30 % of the value); condition number "
        f"{number(check.condition)}."
    ) + (
        ""
        if check.overlap is None
        else f" Of this log {percent(check.overlap)} is in the fitted data."
    )


def _ranges(check: Check) -> Html:
    """Each joint's positions between its limits: the first picture."""
    marks: list[Html] = []
    head = 6.0
    width = _NARROW - _SIDE - _RIGHT
    for k, joint in enumerate(check.joints):
        y = head + k * _ROW
        low, high = _frame(joint)
        axis = Plot(_SIDE, y, width, _ROW, Axis(low, high), Axis(0.0, 1.0))
        name = tag(
            "text",
            short(joint.name, 16),
            tag("title", joint.name),
            x=_SIDE - 8,
            y=y + 17,
            class_="name end",
        )
        marks.append(name)
        bounded = math.isfinite(joint.lower) and math.isfinite(joint.upper)
        if bounded:
            left, right = float(axis.px(joint.lower)), float(axis.px(joint.upper))
            box = {"x": left, "y": y + 4, "width": max(right - left, 1.0), "height": 18, "rx": 2}
            marks.append(tag("rect", class_="bar before", **box))
        if math.isfinite(joint.least) and math.isfinite(joint.most):
            left, right = float(axis.px(joint.least)), float(axis.px(joint.most))
            level = "bad" if joint.beyond else "good"
            title = f"{joint.name}: {joint.least:.3g} to {joint.most:.3g} {joint.unit}"
            bar = {"x": left, "y": y + 8, "width": max(right - left, 1.5), "height": 10, "rx": 2}
            marks.append(tag("rect", tag("title", title), class_=f"bar after {level}", **bar))
        used = "no limit" if not bounded else percent(joint.used) + (" ✕" if joint.beyond else "")
        level = "bad" if joint.beyond else "good"
        marks.append(tag("text", used, x=_SIDE + width + 6, y=y + 17, class_=f"value {level}"))
    words = ", ".join(
        f"{one.name} {one.least:.3g} to {one.most:.3g} {one.unit}" for one in check.joints
    )
    drawn = picture(
        _NARROW,
        head + _ROW * len(check.joints) + 6,
        marks,
        f"Range of each joint: {short(words, 600)}",
    )
    keys = [
        ("after good", "positions in the log"),
        ("after bad", "beyond the limits"),
        ("before", "limits"),
    ]
    note = "the number is the share of the range that is used"
    return figure("Positions against limits", note, drawn, legend(keys), class_="ranges")


def _frame(joint: JointFacts) -> tuple[float, float]:
    """Lowest and highest value of a joint's row."""
    ends = [
        value
        for value in (joint.lower, joint.upper, joint.least, joint.most)
        if math.isfinite(value)
    ]
    low, high = (min(ends), max(ends)) if ends else (-1.0, 1.0)
    return (low, high) if high > low else (low - 1.0, high + 1.0)


def _notices(check: Check) -> Section | None:
    return notice_section(
        check.notices, "What was noticed while the log was read and looked at, most serious first."
    )


def _signals(check: Check) -> Section | None:
    recording = check.recording
    if not isinstance(recording, Recording) or len(recording) < 2:
        return None
    t, breaks = shown_time(recording.t)
    drawn = []
    for signal, title in (("q", "Positions, rad or m"), ("tau", "Torques, N m or N")):
        values = getattr(recording, signal)
        if values is not None:
            drawn.append(
                _wide(
                    title, "each joint on its own scale", _panels(check, t, values, breaks, title)
                )
            )
    lead = (
        "The log as it was read. Look for steps, spikes, flat stretches and joints that were "
        "mixed up."
    )
    return Section("signals", "Positions and torques", lead, tuple(drawn))


def _panels(check: Check, t: Array, values: Array, breaks: list[int], title: str) -> Html:
    found = envelope(t, values, _POINTS, breaks)
    times = found.t if found.exact else np.repeat(found.t, 2)
    names = [one.name for one in check.joints]
    marks: list[Html] = []
    x = Axis(float(t[0]), float(t[-1]))
    width = _WIDTH - _LEFT - 12
    for k, name in enumerate(names):
        series = (
            found.low[:, k]
            if found.exact
            else np.stack([found.low[:, k], found.high[:, k]], axis=1).ravel()
        )
        plot = Plot(_LEFT, 16 + k * _SIGNAL, width, _SIGNAL - 20, x, nice_range(series, 1e-9))
        last = k == len(names) - 1
        marks.append(plot.axes("time, s" if last else "", "", (8, 3), labels=last))
        marks.append(
            tag("text", short(name, 12), tag("title", name), x=6, y=plot.top + 24, class_="name")
        )
        marks.append(plot.path(times, series, "line model"))
    return picture(
        _WIDTH,
        16 + _SIGNAL * len(names) + 26,
        marks,
        f"{title}, joint by joint over time",
        "chart wide",
    )


def _wide(title: str, note: str, drawn: Html, *more: Html) -> Html:
    """Return a figure that scrolls sideways where the screen is narrow."""
    area = tag("div", drawn, class_="scroll", role="region", aria_label=title, tabindex="0")
    return figure(title, note, area, *more)


def _excitation(check: Check) -> Section | None:
    """Bars of the relative standard deviation that each base parameter will have."""
    if not check.excitation:
        return None
    floor, top = 1e-4, 10.0
    plot = Plot(
        _LEFT,
        8,
        _WIDTH - _LEFT - _RIGHT,
        17.0 * len(check.excitation),
        Axis(floor, top, log=True),
        Axis(0, 1),
    )
    marks = [plot.axes("relative standard deviation", "", (6, 0))]
    for k, (name, relative) in enumerate(check.excitation.items()):
        level = _SHOWN[shown_word(relative)]
        at = min(max(relative, floor), top)
        y = 8 + 17.0 * k
        bar = {
            "x": plot.left,
            "y": y + 3,
            "width": max(float(plot.px(at)) - plot.left, 1.5),
            "height": 11,
            "rx": 1.5,
        }
        words = percent(relative) if math.isfinite(relative) else "not shown"
        marks.append(
            tag(
                "text",
                short(name, 16),
                tag("title", name),
                x=_LEFT - 8,
                y=y + 12,
                class_="tick end",
            )
        )
        marks.append(
            tag("rect", tag("title", f"{name}: {words}"), class_=f"bar after {level}", **bar)
        )
        marks.append(
            tag("text", words, x=float(plot.px(at)) + 5, y=y + 12, class_=f"value {level}")
        )
    for limit in (LARGE, FAIR):
        at = float(plot.px(limit))
        marks.append(tag("line", class_="limit", x1=at, x2=at, y1=8, y2=8 + plot.height))
    drawn = picture(
        _WIDTH,
        plot.height + 50,
        marks,
        "Relative standard deviation of each base parameter",
        "chart wide",
    )
    keys = [
        ("after good", "shown (up to 30 %)"),
        ("after caution", "weakly shown"),
        ("after bad", "not shown"),
    ]
    lead = (
        "What this log can and cannot show: the uncertainty that each base parameter will have, "
        "from a first fit. A parameter beyond the second line is read from the robot's file "
        "rather than from the data."
    )
    title, note = "Base parameters", "standard deviation over value; short bars are good"
    return Section(
        "excitation", "What the motion shows", lead, (_wide(title, note, drawn, legend(keys)),)
    )


def _joints(check: Check) -> Section:
    lead = (
        "Positions are in rad or m, torques in N m or N. Speed and torque are the largest ones. "
        "Scale is the torque over that of the robot's file. Noise is what a first fit does not "
        "explain, over the torque's rms. Saturated is the share of samples at the largest torque."
    )
    rows = [[short(row[0], 60), *row[1:]] for row in check.rows()]
    numbered = enumerate(check.runs, 1)
    runs = [
        (str(k), count(run.samples), f"{number(run.seconds)} s", number(run.rate))
        for k, run in numbered
    ]
    content = [table("The log joint by joint", HEADINGS, rows, range(1, 10))]
    listed = table("Runs", ("run", "samples", "length", "samples per second"), runs, (1, 2, 3))
    content.append(folded(f"Runs ({len(runs)})", listed, open_=len(runs) < 5))
    return Section("joints", "Joint by joint", lead, tuple(content))


def _columns(check: Check) -> Section:
    content = []
    for file, signals in check.columns.items():
        rows = [
            (signal, ", ".join(visible(name) for name in names))
            for signal, names in signals.items()
        ]
        content.append(tag("h3", short(file, 80)))
        content.append(
            table(
                f"Columns of {short(file, 80)}", ("read as", "columns, in the robot's order"), rows
            )
        )
    if not content:
        content.append(
            tag(
                "p",
                "The recording was written or made by minidyn: its columns have names of their "
                "own.",
            )
        )
    order = ", ".join(short(name, 40) for name in check.robot.joint_names)
    lead = f"Which column was read as what. The robot's joints are, in order: {order}."
    return Section("columns", "Columns", lead, tuple(content))
