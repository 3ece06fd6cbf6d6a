"""Measured against predicted torque, joint by joint: drawn at once, zoomable where scripts run."""

from __future__ import annotations

from typing import Any

import numpy as np

from minidyn.app.report.charts import Axis, Plot, legend, nice_range, picture, runs_path
from minidyn.app.report.decimate import envelope, shown_time
from minidyn.app.report.html import Html, join, tag
from minidyn.arrays import Array
from minidyn.identification.validate import Validation
from minidyn.model.joint import torque_unit
from minidyn.model.robot import Robot
from minidyn.text import number, percent, short, visible

_WIDTH, _TOP, _BOTTOM = 760, 150, 62  # of a figure; heights of the torque and of the residual
_LEFT, _GAP, _FOOT = 56, 34, 36
_COLUMNS = 460  # of a signal in the picture that is drawn without a script
_ALL_COLUMNS = 30_000  # of all signals of a report together
_STEPS = 9999  # values are sent to the script as whole numbers from 0 to this


def series_data(validation: Validation, groups: int) -> dict[str, Any]:
    """Return what the script draws from: times and envelopes as whole numbers, each with its offset and step."""
    t, breaks = shown_time(validation.t)
    joints = []
    count = validation.measured.shape[1]
    found = envelope(t, np.concatenate([validation.measured, validation.predicted], axis=1), groups, breaks)
    residual = envelope(t, validation.residual, groups, breaks)
    for j in range(count):
        joints.append(
            {
                "measured": _packed(found.low[:, j], found.high[:, j], found.exact),
                "model": _packed(found.low[:, count + j], found.high[:, count + j], found.exact),
                "residual": _packed(residual.low[:, j], residual.high[:, j], found.exact),
            }
        )
    return {"t": _packed(found.t, found.t, True), "joints": joints}


def _packed(low: Array, high: Array, exact: bool) -> dict[str, Any]:
    both = np.concatenate([low, high])
    finite = both[np.isfinite(both)]
    offset, top = (float(finite.min()), float(finite.max())) if len(finite) else (0.0, 0.0)
    step = (top - offset) / _STEPS or 1.0

    def whole(values: Array) -> list[int | None]:
        return [int(value) if np.isfinite(value) else None for value in np.rint((values - offset) / step)]

    packed: dict[str, Any] = {"offset": float(f"{offset:.9g}"), "step": float(f"{step:.9g}"), "low": whole(low)}
    if not exact:
        packed["high"] = whole(high)
    return packed


def columns_for(signals: int) -> int:
    """Return how many columns of each signal are drawn, so that many runs do not make a large file."""
    return max(40, min(_COLUMNS, _ALL_COLUMNS // max(signals, 1)))


def torque_figures(robot: Robot, validation: Validation, key: str, name: str, columns: int = _COLUMNS) -> Html:
    """Return one figure per joint.

    Args:
        robot: Names and kinds of joints.
        validation: Measured and predicted torque.
        key: Name of the data block's entry, for the script.
        name: Of the recording, for people.
        columns: Of each signal that are drawn.
    """
    t, breaks = shown_time(validation.t)
    figures = []
    for j, index in enumerate(robot.independent):
        joint = robot.joints[index]
        unit = torque_unit(joint)
        entry = validation.per_joint[robot.joint_names[j]]
        error = f"error {number(entry['rmse'])} {unit} rms, {percent(entry['relative_error'])} of the torque"
        figures.append(
            tag(
                "figure",
                tag("figcaption", tag("strong", short(joint.name, 60)), tag("span", error, class_="quiet")),
                _static(t, breaks, validation, j, unit, columns, f"{short(joint.name)} in {short(name)}: {error}"),
                tag("p", class_="readout", aria_hidden="true"),
                class_="series",
                data_run=key,
                data_joint=j,
                data_unit=unit,
            )
        )
    return tag("div", _controls(name), *figures, class_="linked", data_run=key)


def _controls(name: str) -> Html:
    def button(action: str, sign: str, words: str) -> Html:
        return tag("button", sign, type="button", data_zoom=action, title=words, aria_label=f"{words}: {visible(name)}")

    return tag(
        "div",
        legend([("measured", "measured"), ("model", "model"), ("residual", "measured − model")]),
        tag(
            "div",
            button("in", "+", "Zoom in"),
            button("out", "−", "Zoom out"),
            button("left", "←", "Earlier"),
            button("right", "→", "Later"),
            button("all", "Whole run", "Show the whole run"),
            class_="buttons",
            role="group",
            aria_label="Zoom all joints",
        ),
        class_="controls",
    )


def _static(t: Array, breaks: list[int], validation: Validation, j: int, unit: str, columns: int, label: str) -> Html:
    signals = np.stack([validation.measured[:, j], validation.predicted[:, j], validation.residual[:, j]], axis=1)
    found = envelope(t, signals, columns, breaks)
    x = Axis(0.0, float(t[-1]) if len(t) and t[-1] > 0 else 1.0)
    width = _WIDTH - _LEFT - 8
    scale = nice_range(signals[:, :2].ravel())
    upper = Plot(_LEFT, 20, width, _TOP, x, scale)
    lower = Plot(_LEFT, 20 + _TOP + _GAP, width, _BOTTOM, x, nice_range(signals[:, 2], 0.02 * (scale.high - scale.low)))
    marks = [
        upper.axes("", f"torque, {unit}" if unit != "N" else "force, N", ticks=(6, 5), labels=False),
        lower.axes("time, s", f"measured − model, {unit}", ticks=(6, 4)),
    ]
    for plot, column, class_ in ((upper, 0, "measured"), (upper, 1, "model"), (lower, 2, "residual")):
        times = np.repeat(found.t, 2)
        values = np.stack([found.low[:, column], found.high[:, column]], axis=1).ravel()
        if found.exact:
            times, values = found.t, found.low[:, column]
        marks.append(tag("path", class_=class_, d=runs_path(plot.px(times), plot.py(values))))
    return picture(_WIDTH, 20 + _TOP + _GAP + _BOTTOM + _FOOT, [join(marks)], label)
