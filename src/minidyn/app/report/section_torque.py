"""Measured against predicted torque, joint by joint."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from minidyn.app.report.charts import Axis, Plot, legend, nice_range, picture, runs_path
from minidyn.app.report.facts import Facts
from minidyn.app.report.html import Section, figure, folded, table
from minidyn.arrays import Array
from minidyn.display import Html, envelope, join, shown_time, tag
from minidyn.identification.diagnostics.residuals import whiteness_words
from minidyn.identification.validate import Validation
from minidyn.model.joint import torque_unit
from minidyn.model.robot import Robot
from minidyn.text import number, percent, short, visible

if TYPE_CHECKING:
    from minidyn.identification.cross_validate import CrossValidation

_WIDTH, _TOP, _BOTTOM = 760, 150, 62  # of a figure; heights of the torque and of the residual
_LEFT, _GAP, _FOOT = 56, 34, 36
_COLUMNS, _ALL_COLUMNS = 460, 30_000  # drawn without a script: of a signal, of all signals of a report together
_POINTS, _ALL_POINTS = 4000, 120_000  # sent to the script, likewise: the file stays well below 3 MB
_STEPS = 9999  # values are sent to the script as whole numbers from 0 to this
_ERRORS = (
    ("relative_error", "error"),
    ("filtered_relative_error", "without noise"),
    ("prior_relative_error", "before identification"),
)


def torque_section(facts: Facts) -> Section | None:
    """Return errors and figures of every run; None where there is no run."""
    runs = list(facts.runs)
    robot = facts.estimate.robot
    signals = 4 * robot.n * max(len(runs), 1)
    columns = max(40, min(_COLUMNS, _ALL_COLUMNS // signals))
    content: list[Html] = []
    for key, name, run in runs:
        figures = _figures(robot, run, key, name, columns)
        word = name.split(" ", 1)[0].isalpha()  # not a file's name
        title = visible(name[:1].upper() + name[1:] if word else name)
        if not content:
            content = [tag("h3", title), _errors(facts, run), figures]
        else:
            content.append(folded(f"{title}: error {percent(run.relative_error)}", _errors(facts, run), figures))
    if facts.cross_validation is not None:
        content.insert(min(len(content), 3), _parts(facts.cross_validation))
    if not content:
        return None
    lead = (
        "Where the thin line of the model lies on the pale band of the measurement the model is right; the dashed line "
        "is the robot file's torque before identification, the residual is below. Drag over a figure "
        "to zoom in, double-click for the whole run. The buttons and the keyboard (+, −, arrows, 0) do the same."
    )
    groups = max(60, min(_POINTS, _ALL_POINTS // signals))
    data = {"runs": {key: _series(run, groups) for key, _, run in runs}}
    return Section("torque", "Torques: measured against model", lead, tuple(content), data)


def _errors(facts: Facts, run: Validation) -> Html:
    robot = facts.estimate.robot
    shown = [(name, title) for name, title in _ERRORS if np.isfinite(getattr(run, name))]
    rows: list[list[object]] = []
    for entry, index in zip(run.per_joint.values(), robot.independent):
        joint, bias = robot.joints[index], entry.get("bias", np.nan)
        shares = [percent(entry.get(name, np.nan)) for name, _ in shown]
        sizes = (f"{number(entry['rmse'])} {torque_unit(joint)}", "+" * (bias > 0) + number(bias, 2))
        rows.append([short(joint.name, 60), *shares, *sizes, residual_words(entry)])
    rows.append(["all joints", *(percent(getattr(run, name)) for name, _ in shown), "", "", ""])
    headings = ["joint", *(title for _, title in shown), "error, rms", "bias", "residual"]
    note = (
        "Error: share of the raw measured torque, root mean square. Without noise: the same after the low-pass of the "
        "fit. Before identification: the error of the robot file."
    )
    made = table("Torque errors joint by joint", headings, rows, tuple(range(1, len(shown) + 3)), "total")
    return tag("div", made, tag("p", note, class_="quiet"))


def residual_words(entry: Mapping[str, float]) -> str:
    """Return whether a joint's residual is noise, in words."""
    return whiteness_words(entry["ljung_box"], entry["whiteness"]) if "ljung_box" in entry else ""


def _parts(found: CrossValidation) -> Html:
    """Errors on parts of the log that were held out of the fit, one after the other."""
    rows = [
        (str(k), f"{begin:.1f} … {end:.1f} s", percent(fold.relative_error), percent(fit.relative_error))
        for k, (fold, fit, (begin, end)) in enumerate(zip(found.folds, found.fits, found.spans), 1)
    ]
    text = (
        "Parts of the log are held out of the fit one after the other and predicted: error "
        f"{percent(found.relative_error)} ± {percent(found.spread)}."
    )
    headings = ("part", "time", "error, held out", "error, fitted")
    made = table("Errors of parts that were held out", headings, rows, (2, 3))
    return tag("div", tag("h3", "Cross-validation"), tag("p", text), made)


def _series(run: Validation, groups: int) -> dict[str, Any]:
    """What the script draws from: times and envelopes as whole numbers, each with its offset and step."""
    t, breaks = shown_time(run.t)
    signals = {"measured": run.measured, "model": run.predicted, "residual": run.residual}
    if run.prior_predicted is not None:
        signals["prior"] = run.prior_predicted
    found = {name: envelope(t, values, groups, breaks) for name, values in signals.items()}
    joints = [
        {name: _packed(one.low[:, j], None if one.exact else one.high[:, j]) for name, one in found.items()}
        for j in range(run.measured.shape[1])
    ]
    return {"t": _packed(found["measured"].t), "joints": joints}


def _packed(low: Array, high: Array | None = None) -> dict[str, Any]:
    both = low if high is None else np.concatenate([low, high])
    finite = both[np.isfinite(both)]
    offset, top = (float(finite.min()), float(finite.max())) if len(finite) else (0.0, 0.0)
    step = (top - offset) / _STEPS or 1.0

    def whole(values: Array) -> list[int | None]:
        return [int(value) if np.isfinite(value) else None for value in np.rint((values - offset) / step)]

    packed: dict[str, Any] = {"offset": float(f"{offset:.9g}"), "step": float(f"{step:.9g}"), "low": whole(low)}
    return packed if high is None else packed | {"high": whole(high)}


def _figures(robot: Robot, run: Validation, key: str, name: str, columns: int) -> Html:
    """One figure per joint, drawn at once and zoomable where scripts run."""
    t, breaks = shown_time(run.t)
    figures = []
    for j, index in enumerate(robot.independent):
        joint = robot.joints[index]
        unit = torque_unit(joint)
        entry = run.per_joint[robot.joint_names[j]]
        error = f"error {number(entry['rmse'])} {unit} rms, {percent(entry['relative_error'])} of the torque"
        drawn = _drawn(t, breaks, run, j, unit, columns, f"{short(joint.name)} in {short(name)}: {error}")
        readout = tag("p", class_="readout", aria_hidden="true")
        marks = {"class_": "series", "data_run": key, "data_joint": j, "data_unit": unit}
        figures.append(figure(short(joint.name, 60), error, drawn, readout, **marks))
    return tag("div", _controls(name, run.prior_predicted is not None), *figures, class_="linked", data_run=key)


def _controls(name: str, prior: bool) -> Html:
    buttons = (
        ("in", "+", "Zoom in"),
        ("out", "−", "Zoom out"),
        ("left", "←", "Earlier"),
        ("right", "→", "Later"),
        ("all", "Whole run", "Show the whole run"),
    )
    made = [
        tag("button", sign, type="button", data_zoom=action, title=words, aria_label=f"{words}: {visible(name)}")
        for action, sign, words in buttons
    ]
    lines = [("measured", "measured"), ("model", "model"), ("residual", "measured − model")]
    keys = legend([*lines[:2], *([("prior", "before identification")] if prior else []), lines[2]])
    group = tag("div", *made, class_="buttons", role="group", aria_label="Zoom all joints")
    return tag("div", keys, group, class_="controls")


def _drawn(t: Array, breaks: list[int], run: Validation, j: int, unit: str, columns: int, label: str) -> Html:
    every = [run.measured, run.predicted, run.residual]
    if run.prior_predicted is not None:
        every.append(run.prior_predicted)
    signals = np.stack([values[:, j] for values in every], axis=1)
    found = envelope(t, signals, columns, breaks)
    x = Axis(0.0, float(t[-1]) if len(t) and t[-1] > 0 else 1.0)
    width = _WIDTH - _LEFT - 8
    scale = _with_prior(nice_range(signals[:, :2].ravel()), signals[:, 3:])
    upper = Plot(_LEFT, 20, width, _TOP, x, scale)
    lower = Plot(_LEFT, 20 + _TOP + _GAP, width, _BOTTOM, x, nice_range(signals[:, 2], 0.02 * (scale.high - scale.low)))
    marks = [
        upper.axes("", f"torque, {unit}" if unit != "N" else "force, N", ticks=(6, 5), labels=False),
        lower.axes("time, s", f"measured − model, {unit}", ticks=(6, 4)),
    ]
    lines = [(upper, 0, "measured"), (upper, 1, "model"), (lower, 2, "residual")]
    if signals.shape[1] > 3:
        lines.insert(1, (upper, 3, "prior"))
    for plot, column, class_ in lines:
        times, values = found.t, found.low[:, column]
        if not found.exact:
            times = np.repeat(found.t, 2)
            values = np.stack([found.low[:, column], found.high[:, column]], axis=1).ravel()
        values = np.where((values >= plot.y.low) & (values <= plot.y.high), values, np.nan)
        marks.append(tag("path", class_=class_, d=runs_path(plot.px(times), plot.py(values))))
    return picture(_WIDTH, 20 + _TOP + _GAP + _BOTTOM + _FOOT, [join(marks)], label)


def _with_prior(scale: Axis, prior: Array) -> Axis:
    """Return a range that is wide enough for the prior, but for no more than half as much again on either side."""
    finite, air = prior[np.isfinite(prior)], 0.5 * (scale.high - scale.low)
    if not len(finite):
        return scale
    low, high = max(float(finite.min()), scale.low - air), min(float(finite.max()), scale.high + air)
    return Axis(min(low, scale.low), max(high, scale.high))
