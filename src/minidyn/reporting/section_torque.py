"""Measured against predicted torque, residuals and their spectrum."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np

from minidyn.identification.validate import Validation
from minidyn.reporting.charts import Axis, Plot, legend, picture
from minidyn.reporting.decimate import shown_time
from minidyn.reporting.facts import Facts
from minidyn.reporting.html import Html, short, tag, visible
from minidyn.reporting.layout import Section, folded, table
from minidyn.reporting.numbers import number, percent, torque_unit
from minidyn.reporting.series import columns_for, torque_figures

__all__ = ["residual_section", "runs_of", "torque_section"]


def runs_of(facts: Facts) -> Iterator[tuple[str, str, Validation]]:
    """Yield (key, name, run): runs that were not fitted first, then the fitted one."""
    for number_, (name, run) in enumerate(facts.held_out.items()):
        yield f"run{number_}", f"{name} (not fitted)", run
    if facts.fit is not None:
        yield "fit", "fitted data", facts.fit


def torque_section(facts: Facts) -> Section | None:
    """Return errors and figures of every run; None where there is no run."""
    runs = list(runs_of(facts))
    if not runs:
        return None
    robot = facts.estimate.robot
    content: list[Html] = [_errors(facts)]
    for number_, (key, name, run) in enumerate(runs):
        figures = torque_figures(robot, run, key, name, columns_for(3 * robot.n * len(runs)))
        if number_ == 0:
            content += [tag("h3", visible(name[:1].upper() + name[1:])), figures]
        else:
            content.append(folded(visible(name[:1].upper() + name[1:]), figures))
    lead = (
        "Where the two lines lie on each other the model is right; below each pair, what is left. Drag over a figure "
        "to zoom in, double-click for the whole run. With the keyboard: + and − zoom, arrows move, 0 shows all."
    )
    return Section("torque", "Torques: measured against model", lead, tuple(content))


def _errors(facts: Facts) -> Html:
    robot = facts.estimate.robot
    runs = list(runs_of(facts))
    rows = []
    for j, index in enumerate(robot.independent):
        joint = robot.joints[index]
        cells: list[object] = [visible(joint.name), torque_unit(joint)]
        for _, _, run in runs:
            entry = list(run.per_joint.values())[j]
            cells += [number(entry["rmse"]), percent(entry["relative_error"])]
        rows.append(cells)
    total: list[object] = ["all joints", ""]
    for _, _, run in runs:
        total += [number(run.rmse), percent(run.relative_error)]
    rows.append(total)
    headings = ["joint", "unit"]
    for _, name, _ in runs:
        headings += [f"{short(name, 28)}: error, rms", "share of torque"]
    return table("Torque errors joint by joint", headings, rows, tuple(range(2, 2 + 2 * len(runs))), "total")


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
                    tag("strong", visible(joint.name)),
                    tag("span", _whiteness(list(run.per_joint.values())[j]), class_="quiet"),
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


def _whiteness(entry: dict[str, float]) -> str:
    share = entry.get("whiteness", float("nan"))
    if not np.isfinite(share):
        return ""
    if share < 0.1:
        return "close to white: noise"
    if share < 0.5:
        return f"partly predictable ({percent(share)})"
    return f"predictable ({percent(share)}): the model lacks something"


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
    floor = max(float(np.percentile(positive[positive > 0], 2)) if np.any(positive > 0) else 1e-12, 1e-9 * tops)
    axis = Axis(10.0 ** np.floor(np.log10(floor)), 10.0 ** np.ceil(np.log10(tops)), log=True)
    width, height = 360.0, 190.0
    plot = Plot(48, 22, width - 58, height - 62, Axis(float(f[0]), float(f[-1]), log=True), axis)
    marks = [plot.axes("frequency, Hz", f"({unit})²/Hz" if "·" in unit else f"{unit}²/Hz", ticks=(6, 4))]
    for curve, class_ in zip(curves, ("measured", "residual")):
        marks.append(plot.path(f, np.clip(curve, axis.low, axis.high), class_))
    return picture(width, height, marks, f"Spectrum of measured torque and residual of {name}")
