"""Measured against predicted torque, joint by joint.

What is left over: its distribution, memory and frequencies.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from minidyn.app.report.facts import Facts
from minidyn.arrays import Array
from minidyn.display import Html, envelope, join, shown_time, tag
from minidyn.identification.diagnose.residuals import whiteness_words
from minidyn.identification.validate import Validation
from minidyn.model.joint import torque_unit
from minidyn.model.robot import Robot
from minidyn.pages.charts import Axis, Plot, legend, nice_range, picture, runs_path
from minidyn.pages.html import Section, figure, folded, table
from minidyn.recording.prepare.spectra import power_spectrum
from minidyn.text import number, percent, short, visible

if TYPE_CHECKING:
    from minidyn.identification.cross_validate import CrossValidation

_WIDTH, _TOP, _BOTTOM = 760, 150, 62  # of a figure; heights of the torque and of the residual
_LEFT, _GAP, _FOOT = 56, 34, 36
_COLUMNS, _ALL_COLUMNS = (
    460,
    30_000,
)  # drawn without a script: of a signal, of all signals of a report together
_POINTS, _ALL_POINTS = 4000, 120_000  # sent to the script, likewise: the file stays well below 3 MB
_STEPS = 9999  # values are sent to the script as whole numbers from 0 to this
_PANEL_WIDTH, _PANEL_HEIGHT = 300.0, 190.0
_LEAST = 64  # samples of a run
_LAGS = 120  # lags of the autocorrelation, at most
_BINS = 31
_EDGE = 3.5  # standard deviations at the ends of a histogram
_ERRORS = (
    ("relative_error", "error"),
    ("filtered_relative_error", "low-passed"),
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
            content.append(
                folded(
                    f"{title}: error {percent(run.relative_error)}", _errors(facts, run), figures
                )
            )
    if facts.cross_validation is not None:
        content.insert(min(len(content), 3), _parts(facts.cross_validation))
    if not content:
        return None
    lead = (
        "Where the thin line of the model lies on the pale band of the measurement the model is "
        "right; the dashed line is the robot file's torque before identification, the residual is "
        "below. Drag over a figure to zoom in, double-click for the whole run. The buttons and "
        "the keyboard (+, −, arrows, 0) do the same."
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
        sizes = (
            f"{number(entry['rmse'])} {torque_unit(joint)}",
            "+" * (bias > 0) + number(bias, 2),
        )
        rows.append([short(joint.name, 60), *shares, *sizes, residual_words(entry)])
    rows.append(["all joints", *(percent(getattr(run, name)) for name, _ in shown), "", "", ""])
    headings = ["joint", *(title for _, title in shown), "error, rms", "bias", "residual"]
    note = (
        "Error: share of the raw measured torque, root mean square. Low-passed: the same after "
        "the low-pass of the fit, without what no model of this bandwidth can follow. Before "
        "identification: the error of the robot file. Not white: each sample of the residual is "
        "like the one before (lag 1), something is not modelled."
    )
    made = table(
        "Torque errors joint by joint", headings, rows, tuple(range(1, len(shown) + 3)), "total"
    )
    return tag("div", made, tag("p", note, class_="quiet"))


def residual_words(entry: Mapping[str, float]) -> str:
    """Return whether a joint's residual is noise, in a few words."""
    return (
        whiteness_words(entry["ljung_box"], entry["whiteness"]).split(",")[0]
        if "ljung_box" in entry
        else ""
    )


def _parts(found: CrossValidation) -> Html:
    """Errors on parts of the log that were held out of the fit, one after the other."""
    rows = [
        (
            str(k),
            f"{begin:.1f} … {end:.1f} s",
            percent(fold.relative_error),
            percent(fit.relative_error),
        )
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
    """What the script draws from.

    Times and envelopes as whole numbers, each with its offset and step.
    """
    t, breaks = shown_time(run.t)
    signals = {"measured": run.measured, "model": run.predicted, "residual": run.residual}
    if run.prior_predicted is not None:
        signals["prior"] = run.prior_predicted
    found = {name: envelope(t, values, groups, breaks) for name, values in signals.items()}
    joints = [
        {
            name: _packed(one.low[:, j], None if one.exact else one.high[:, j])
            for name, one in found.items()
        }
        for j in range(run.measured.shape[1])
    ]
    return {"t": _packed(found["measured"].t), "joints": joints}


def _packed(low: Array, high: Array | None = None) -> dict[str, Any]:
    both = low if high is None else np.concatenate([low, high])
    finite = both[np.isfinite(both)]
    offset, top = (float(finite.min()), float(finite.max())) if len(finite) else (0.0, 0.0)
    step = (top - offset) / _STEPS or 1.0

    def whole(values: Array) -> list[int | None]:
        steps = np.rint((values - offset) / step)
        if np.isfinite(steps).all():
            return list(steps.astype(int).tolist())
        return [int(value) if np.isfinite(value) else None for value in steps]

    packed: dict[str, Any] = {
        "offset": float(f"{offset:.9g}"),
        "step": float(f"{step:.9g}"),
        "low": whole(low),
    }
    return packed if high is None else packed | {"high": whole(high)}


def _figures(robot: Robot, run: Validation, key: str, name: str, columns: int) -> Html:
    """One figure per joint, drawn at once and zoomable where scripts run."""
    t, breaks = shown_time(run.t)
    figures = []
    for j, index in enumerate(robot.independent):
        joint = robot.joints[index]
        unit = torque_unit(joint)
        entry = run.per_joint[robot.joint_names[j]]
        error = (
            f"error {number(entry['rmse'])} {unit} rms, {percent(entry['relative_error'])} of the "
            "torque"
        )
        drawn = _drawn(
            t, breaks, run, j, unit, columns, f"{short(joint.name)} in {short(name)}: {error}"
        )
        readout = tag("p", class_="readout", aria_hidden="true")
        marks = {"class_": "series", "data_run": key, "data_joint": j, "data_unit": unit}
        figures.append(figure(short(joint.name, 60), error, drawn, readout, **marks))
    return tag(
        "div",
        _controls(name, run.prior_predicted is not None),
        *figures,
        class_="linked",
        data_run=key,
    )


def _controls(name: str, prior: bool) -> Html:
    buttons = (
        ("in", "+", "Zoom in"),
        ("out", "−", "Zoom out"),
        ("left", "←", "Earlier"),
        ("right", "→", "Later"),
        ("all", "Whole run", "Show the whole run"),
    )
    made = [
        tag(
            "button",
            sign,
            type="button",
            data_zoom=action,
            title=words,
            aria_label=f"{words}: {visible(name)}",
        )
        for action, sign, words in buttons
    ]
    lines = [("measured", "measured"), ("model", "model"), ("residual", "measured − model")]
    keys = legend([*lines[:2], *([("prior", "before identification")] if prior else []), lines[2]])
    group = tag("div", *made, class_="buttons", role="group", aria_label="Zoom all joints")
    return tag("div", keys, group, class_="controls")


def _drawn(
    t: Array, breaks: list[int], run: Validation, j: int, unit: str, columns: int, label: str
) -> Html:
    every = [run.measured, run.predicted, run.residual]
    if run.prior_predicted is not None:
        every.append(run.prior_predicted)
    signals = np.stack([values[:, j] for values in every], axis=1)
    found = envelope(t, signals, columns, breaks)
    x = Axis(0.0, float(t[-1]) if len(t) and t[-1] > 0 else 1.0)
    width = _WIDTH - _LEFT - 8
    scale = _with_prior(nice_range(signals[:, :2].ravel()), signals[:, 3:])
    upper = Plot(_LEFT, 20, width, _TOP, x, scale)
    lower = Plot(
        _LEFT,
        20 + _TOP + _GAP,
        width,
        _BOTTOM,
        x,
        nice_range(signals[:, 2], 0.02 * (scale.high - scale.low)),
    )
    marks = [
        upper.axes(
            "", f"torque, {unit}" if unit != "N" else "force, N", ticks=(6, 5), labels=False
        ),
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
    """Return a range that is wide enough for the prior, but for no more than half as much again on
    either side.
    """
    finite, air = prior[np.isfinite(prior)], 0.5 * (scale.high - scale.low)
    if not len(finite):
        return scale
    low, high = (
        max(float(finite.min()), scale.low - air),
        min(float(finite.max()), scale.high + air),
    )
    return Axis(min(low, scale.low), max(high, scale.high))


def residual_section(facts: Facts) -> Section | None:
    """Return histogram, autocorrelation and spectrum of the first run's residuals.

    None where there is no run.
    """
    _, name, run = next(facts.runs, ("", "", None))
    if run is None:
        return None
    begin, end, rate = _longest(run)
    if end - begin < _LEAST:
        return None
    robot = facts.estimate.robot
    figures = []
    for j, (index, entry) in enumerate(zip(robot.independent, run.per_joint.values())):
        joint = robot.joints[index]
        if not np.all(np.isfinite(run.residual[:, j])):  # its torque is not measured
            continue
        label, unit = short(joint.name), torque_unit(joint)
        series = np.stack([run.measured[begin:end, j], run.residual[begin:end, j]])
        drawn = (
            _histogram(run.residual[:, j], unit, label),
            _autocorrelation(series[1], rate, label),
            _spectrum(series, rate, unit, label),
        )
        figures.append(
            figure(
                short(joint.name, 60), residual_words(entry), tag("div", *drawn, class_="triple")
            )
        )
    lead = (
        "The residual is measured minus predicted torque. Of a perfect model only sensor noise is "
        "left: its histogram is the bell of the dashed line, its autocorrelation stays inside the "
        "dashed band, its spectrum is flat."
    )
    keys = [
        ("measured", "measured torque"),
        ("residual", "measured − model"),
        ("limit-line", "of noise alone"),
    ]
    content = (
        tag("p", f"Of {visible(name)}.", class_="quiet"),
        legend(keys),
        *figures,
        folded("How to read these figures", _how_to_read(), open_=True),
    )
    return Section("residuals", "Residuals", lead, content)


def _how_to_read() -> Html:
    rows = {
        "Histogram": "how often each size of the residual occurs. Two humps or a shifted peak: a friction "  # noqa: E501
        "or offset of another size in the two directions. Long tails: single events, such as "
        "reversals and contacts.",
        "Autocorrelation": "how much a residual says about the one some time later. Noise falls to zero at once. "  # noqa: E501
        "A slow fall means that the model lacks something that lasts as long as the fall; a "
        "wave has the period of the motion or of a vibration.",
        "Spectrum": "the same by frequency: power of the measured torque and of the residual. Far below "  # noqa: E501
        "the measured torque everywhere: a good model. High at the left, at the frequencies "
        "of the motion: friction, cables, springs or a load that the model lacks. A single "
        "peak: a vibration or a gear's teeth. The flat part at the right is sensor noise: "
        "nothing more to learn there.",
    }
    return tag(
        "dl",
        *(join([tag("dt", name), tag("dd", words)]) for name, words in rows.items()),
        class_="reading",
    )


def _longest(run: Validation) -> tuple[int, int, float]:
    """First and last sample of the longest run, and its samples per second."""
    t, breaks = shown_time(run.t)
    begin, end = max(itertools.pairwise([0, *breaks, len(t)]), key=lambda pair: pair[1] - pair[0])
    return begin, end, 1.0 / float(np.median(np.diff(t[begin:end]))) if end - begin > 1 else 1.0


def _histogram(residual: Array, unit: str, name: str) -> Html:
    """How often each size occurs, as a density, and a bell of the same width about zero."""
    spread = float(np.sqrt(np.mean(residual**2))) or 1.0
    edge = _EDGE * spread
    counts, edges = np.histogram(np.clip(residual, -edge, edge), bins=_BINS, range=(-edge, edge))
    density = counts / max(counts.sum(), 1)
    x = np.linspace(-edge, edge, 121)
    bell = np.exp(-0.5 * (x / spread) ** 2) / np.sqrt(2 * np.pi) * (2 * _EDGE / _BINS)
    top = 1.1 * max(float(density.max()), float(bell.max()))
    plot = Plot(
        44, 22, _PANEL_WIDTH - 52, _PANEL_HEIGHT - 62, Axis(-edge, edge), Axis(0.0, 100 * top)
    )
    marks = [plot.axes(f"residual, {unit}", "% of the samples", ticks=(4, 4))]
    floor = plot.top + plot.height
    places = plot.px(edges).tolist()
    for top, left, right in zip(plot.py(100 * density).tolist(), places, places[1:]):
        if floor - top > 0.05:
            box = {"x": left + 0.4, "y": top, "width": right - left - 0.8, "height": floor - top}
            marks.append(tag("rect", **box, class_="bar weak"))
    marks.append(plot.path(x, 100 * bell, "limit"))
    return picture(
        _PANEL_WIDTH,
        _PANEL_HEIGHT,
        marks,
        f"Histogram of the residual of {name}, rms {number(spread)} {unit}",
    )


def _autocorrelation(residual: Array, rate: float, name: str) -> Html:
    """Autocorrelation over the time between samples, and the band that noise keeps."""
    centred = residual - residual.mean()
    size = len(centred)
    lags = min(_LAGS, size // 4)
    padded = np.fft.rfft(centred, 2 * size)
    found = np.fft.irfft(np.abs(padded) ** 2)[: lags + 1]
    values = found / (found[0] or 1.0)
    band = 1.96 / np.sqrt(size)
    times = np.arange(lags + 1) / rate
    axes = Axis(0.0, float(times[-1])), Axis(min(-0.3, float(values.min()) - 0.05), 1.05)
    plot = Plot(44, 22, _PANEL_WIDTH - 52, _PANEL_HEIGHT - 62, *axes)
    marks = [plot.axes("time between samples, s", "autocorrelation", ticks=(4, 5))]
    marks += [plot.level(side * band, "limit") for side in (-1, 1)]
    marks.append(plot.path(times, values, "residual"))
    words = (
        f"Autocorrelation of the residual of {name}: {percent(float(values[1]))} from one sample "
        "to the next"
    )
    return picture(_PANEL_WIDTH, _PANEL_HEIGHT, marks, words)


def _spectrum(series: Array, rate: float, unit: str, name: str) -> Html:
    """Power over frequency of the measured torque and the residual (2, N)."""
    f, power = power_spectrum(series.T, rate, min(series.shape[1], 512))
    f, curves = f[1:], power[1:].T
    tops = max(float(curves.max()), 1e-12)
    positive = curves[curves > 0]
    floor = max(float(np.percentile(positive, 2)) if len(positive) else 1e-12, 1e-6 * tops)
    axis = Axis(10.0 ** np.floor(np.log10(floor)), 10.0 ** np.ceil(np.log10(tops)), log=True)
    plot = Plot(
        44,
        22,
        _PANEL_WIDTH - 58,
        _PANEL_HEIGHT - 62,
        Axis(float(f[0]), float(f[-1]), log=True),
        axis,
    )
    marks = [
        plot.axes("frequency, Hz", f"({unit})²/Hz" if "·" in unit else f"{unit}²/Hz", ticks=(6, 4))
    ]
    for curve, class_ in zip(curves, ("measured", "residual")):
        marks.append(plot.path(f, _above(curve, axis.low), class_))
    return picture(
        _PANEL_WIDTH, _PANEL_HEIGHT, marks, f"Spectrum of measured torque and residual of {name}"
    )


def _above(curve: Array, low: float) -> Array:
    """What is seen of a curve; where it lies below the axis throughout, a line along the axis."""
    seen = curve >= low
    return np.where(seen, curve, np.nan) if seen.any() else np.full_like(curve, low)
