"""The picture of the first screen: the torque error of each joint before and after identification."""

from __future__ import annotations

import numpy as np

from minidyn.app.report.charts import Axis, Plot, legend, picture
from minidyn.app.report.facts import Facts
from minidyn.app.report.html import figure
from minidyn.display import Html, tag
from minidyn.identification.validate import Validation
from minidyn.identification.verdict import LEVELS
from minidyn.text import percent, short

_WIDTH, _ROW, _LEFT, _RIGHT, _HEAD = 430.0, 34.0, 124.0, 48.0, 8.0
_MOST = 1.2  # errors beyond this are drawn at the edge; their numbers are right


def joint_errors_figure(facts: Facts) -> Html | None:
    """Return bars of each joint's error, of the worst test run or of the fitted data; None where there is no run."""
    known = facts.tests.values() if facts.fit is None else [facts.fit]
    runs = list(facts.unseen.values()) or list(known)
    if not runs:
        return None
    after = {name: _worst(runs, name, "relative_error") for name in runs[0].per_joint}
    before = {name: _worst(runs, name, "prior_relative_error") for name in runs[0].per_joint}
    both = bool(np.isfinite(list(before.values())).any())
    data = "test data" if facts.unseen else "the fitted data"
    if len(runs) > 1:
        data += ", worst run"
    note = "error, a share of the measured torque (root mean square)"
    keys = [("after good", "good"), ("after caution", "to look at"), ("after bad", "bad")]
    keys.append(("limit-line", f"limit for the error without noise, {percent(facts.limits.joint_error)}"))
    if both:
        keys.insert(0, ("before", "before identification"))
    title = f"Each joint on {data}{', before and after' if both else ''}"
    return figure(title, note, _bars(facts, after, before if both else {}), legend(keys), class_="errors")


def _level(facts: Facts, joint: str, error: float) -> str:
    """Return what the verdict says of a joint; of fitted data nothing is called good."""
    if facts.unseen:
        return max(
            (rule.level for rule in facts.verdict.rules if rule.joint == joint), key=LEVELS.index, default="good"
        )
    return "caution" if error <= facts.limits.joint_error_poor else "bad"


def _worst(runs: list[Validation], name: str, key: str) -> float:
    return float(np.max([run.per_joint[name].get(key, np.nan) for run in runs]))


def _bars(facts: Facts, after: dict[str, float], before: dict[str, float]) -> Html:
    finite = [error for error in (*after.values(), *before.values()) if np.isfinite(error)]
    top = min(max([1.15 * facts.limits.joint_error, *finite]) * 1.04, _MOST)
    height = _ROW * len(after)
    plot = Plot(_LEFT, _HEAD, _WIDTH - _LEFT - _RIGHT, height, Axis(0.0, 100 * top), Axis(0.0, 1.0))
    marks = [plot.axes("%", "", ticks=(5, 0))]
    x = float(plot.px(100 * facts.limits.joint_error))
    marks.append(tag("line", class_="limit", x1=x, x2=x, y1=_HEAD, y2=_HEAD + height))
    for k, (name, error) in enumerate(after.items()):
        y = _HEAD + k * _ROW
        level = _level(facts, name, error)
        marks.append(tag("text", short(name, 20), tag("title", name), x=_LEFT - 8, y=y + 21, class_="name end"))
        old = before.get(name, np.nan)
        if np.isfinite(old):
            marks.append(_bar(plot, old, y + 4, 9, "before", f"{name} before: {percent(old)}"))
        wide = _bar(plot, error, y + (15 if np.isfinite(old) else 9), 14, f"after {level}", f"{name}: {percent(error)}")
        marks.append(wide)
        end = float(plot.px(100 * min(error, top))) if np.isfinite(error) else _LEFT
        sign = {"good": "", "caution": " !", "bad": " ✕"}[level]
        place = {"x": end + 5, "y": y + (26 if np.isfinite(old) else 20)}
        marks.append(tag("text", percent(error) + sign, class_=f"value {level}", **place))
    words = ", ".join(
        f"{name} {percent(error)}"
        + (f" (before {percent(before[name])})" if np.isfinite(before.get(name, np.nan)) else "")
        for name, error in after.items()
    )
    return picture(_WIDTH, _HEAD + height + 34, marks, f"Torque error of each joint: {short(words, 600)}")


def _bar(plot: Plot, error: float, y: float, height: float, class_: str, title: str) -> Html:
    shown = min(error, plot.x.high / 100) if np.isfinite(error) else 0.0
    width = max(float(plot.px(100 * shown)) - plot.left, 1.0)
    return tag(
        "rect", tag("title", title), x=plot.left, y=y, width=width, height=height, class_=f"bar {class_}", rx=1.5
    )
