"""Measured against predicted torque, residuals and their spectrum."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping

import numpy as np

from minidyn.app.report.charts import Axis, Plot, legend, picture
from minidyn.app.report.decimate import shown_time
from minidyn.app.report.facts import Facts
from minidyn.app.report.html import Html, Section, folded, table, tag
from minidyn.app.report.series import columns_for, torque_figures
from minidyn.identification.cross_validate import CrossValidation
from minidyn.identification.diagnostics.residuals import whiteness_words
from minidyn.identification.validate import Validation
from minidyn.model.joint import torque_unit
from minidyn.text import number, percent, short, visible


def runs_of(facts: Facts) -> Iterator[tuple[str, str, Validation]]:
    """Yield (key, name, run): runs that were not fitted first, then the fitted one."""
    for number_, (name, run) in enumerate(facts.held_out.items()):
        yield f"run{number_}", f"{name} (not fitted)", run
    if facts.fit is not None:
        yield "fit", "fitted data", facts.fit


def torque_section(facts: Facts) -> Section | None:
    """Return errors and figures of every run; None where there is no run."""
    runs = list(runs_of(facts))
    content: list[Html] = []
    robot = facts.estimate.robot
    for number_, (key, name, run) in enumerate(runs):
        figures = torque_figures(robot, run, key, name, columns_for(3 * robot.n * len(runs)))
        title = visible(name[:1].upper() + name[1:])
        if number_ == 0:
            content += [tag("h3", title), _errors(facts, run), figures]
        else:
            content.append(folded(f"{title}: error {percent(run.relative_error)}", _errors(facts, run), figures))
    if facts.cross_validation is not None:
        content.insert(min(len(content), 3), _stretches(facts.cross_validation))
    if not content:
        return None
    lead = (
        "Where the two lines lie on each other the model is right; below each pair, what is left. Drag over a figure "
        "to zoom in, double-click for the whole run. The buttons and the keyboard (+, −, arrows, 0) do the same."
    )
    return Section("torque", "Torques: measured against model", lead, tuple(content))


_COLUMNS = (
    ("relative_error", "error"),
    ("filtered_relative_error", "without noise"),
    ("prior_relative_error", "before identification"),
)


def _errors(facts: Facts, run: Validation) -> Html:
    robot = facts.estimate.robot
    totals = {name: getattr(run, name) for name, _ in _COLUMNS}
    shown = [(name, title) for name, title in _COLUMNS if np.isfinite(totals[name])]
    rows: list[list[object]] = []
    for entry, index in zip(run.per_joint.values(), robot.independent):
        joint = robot.joints[index]
        shares = [percent(entry.get(name, np.nan)) for name, _ in shown]
        rms = f"{number(entry['rmse'])} {torque_unit(joint)}"
        rows.append([short(joint.name, 60), *shares, rms, _signed(entry.get("bias", np.nan)), _residual_words(entry)])
    rows.append(["all joints", *(percent(totals[name]) for name, _ in shown), "", "", ""])
    headings = ["joint", *(title for _, title in shown), "error, rms", "bias", "what is left"]
    note = (
        "Error: share of the raw measured torque, root mean square. Without noise: the same after the low-pass of the "
        "fit. Before identification: what the robot's own description reaches."
    )
    made = table("Torque errors joint by joint", headings, rows, tuple(range(1, len(shown) + 3)), "total")
    return tag("div", made, tag("p", note, class_="quiet"))


def _signed(value: float) -> str:
    return f"+{number(value, 2)}" if value > 0 else number(value, 2)


def _residual_words(entry: Mapping[str, float]) -> str:
    if "ljung_box" not in entry:
        return ""
    return whiteness_words(entry["ljung_box"], entry["whiteness"])


def _stretches(found: CrossValidation) -> Html:
    """Errors on stretches of time that were left out of the fit, one after the other."""
    rows = [
        (str(k), f"{begin:.1f} … {end:.1f} s", percent(fold.relative_error), percent(fit.relative_error))
        for k, (fold, fit, (begin, end)) in enumerate(zip(found.folds, found.fits, found.spans), 1)
    ]
    text = f"Left out of the fit one after the other: error {percent(found.relative_error)} ± {percent(found.spread)}."
    headings = ("stretch", "time", "error, left out", "error, fitted")
    return tag(
        "div",
        tag("h3", "Stretches of time left out of the fit"),
        tag("p", text),
        table("Errors of stretches that were left out", headings, rows, (2, 3)),
    )


def residual_section(facts: Facts) -> Section | None:
    """Return spectrum and spread of the residuals of the first run; None where there is no run."""
    runs = list(runs_of(facts))
    if not runs:
        return None
    _, name, run = runs[0]
    robot = facts.estimate.robot
    figures = []
    for j, index in enumerate(robot.independent):
        joint = robot.joints[index]
        made = _spectrum(run, j, torque_unit(joint), short(joint.name))
        if made is None:
            continue
        figures.append(
            tag(
                "figure",
                tag(
                    "figcaption",
                    tag("strong", short(joint.name, 60)),
                    tag("span", _residual_words(list(run.per_joint.values())[j]), class_="quiet"),
                ),
                made,
            )
        )
    if not figures:
        return None
    lead = (
        "What the model leaves over. A flat residual is sensor noise, nothing more to be learned. A residual that is "
        "high at low frequencies is something the model lacks: friction that changes with temperature, springs, cables."
    )
    content = (
        tag("p", f"Power spectral density, {visible(name)}.", class_="quiet"),
        legend([("measured", "measured torque"), ("residual", "measured − model")]),
        tag("div", *figures, class_="grid"),
    )
    return Section("residuals", "Residuals", lead, content)


def _spectrum(run: Validation, j: int, unit: str, name: str) -> Html | None:
    from scipy.signal import welch

    t, breaks = shown_time(run.t)
    if len(t) < 64:
        return None
    edges = [0, *breaks, len(t)]
    begin, end = max(itertools.pairwise(edges), key=lambda pair: pair[1] - pair[0])  # the longest run
    if end - begin < 64:
        return None
    rate = 1.0 / float(np.median(np.diff(t[begin:end])))
    length = int(min(end - begin, 512))
    curves = []
    for series in (run.measured[begin:end, j], run.residual[begin:end, j]):
        f, power = welch(series, fs=rate, nperseg=length)
        curves.append(power[1:])
    f = f[1:]
    tops = max(float(curves[0].max()), float(curves[1].max()), 1e-12)
    positive = np.concatenate(curves)
    floor = max(float(np.percentile(positive[positive > 0], 2)) if np.any(positive > 0) else 1e-12, 1e-6 * tops)
    axis = Axis(10.0 ** np.floor(np.log10(floor)), 10.0 ** np.ceil(np.log10(tops)), log=True)
    width, height = 360.0, 190.0
    plot = Plot(48, 22, width - 58, height - 62, Axis(float(f[0]), float(f[-1]), log=True), axis)
    marks = [plot.axes("frequency, Hz", f"({unit})²/Hz" if "·" in unit else f"{unit}²/Hz", ticks=(6, 4))]
    for curve, class_ in zip(curves, ("measured", "residual")):
        marks.append(plot.path(f, np.clip(curve, axis.low, axis.high), class_))
    return picture(width, height, marks, f"Spectrum of measured torque and residual of {name}")
