"""What the model leaves over: how the residual is distributed, how it hangs together, at which frequencies it lies."""

from __future__ import annotations

import itertools

import numpy as np

from minidyn.app.report.charts import Axis, Plot, legend, picture
from minidyn.app.report.facts import Facts
from minidyn.app.report.html import Section, figure, folded
from minidyn.app.report.section_torque import residual_words
from minidyn.arrays import Array
from minidyn.display import Html, join, shown_time, tag
from minidyn.identification.validate import Validation
from minidyn.model.joint import torque_unit
from minidyn.text import number, percent, short, visible

_WIDTH, _HEIGHT = 300.0, 190.0
_LEAST = 64  # samples of a run
_LAGS = 120  # lags of the autocorrelation, at most
_BINS = 31
_EDGE = 3.5  # standard deviations at the ends of a histogram


def residual_section(facts: Facts) -> Section | None:
    """Return histogram, autocorrelation and spectrum of the first run's residuals; None where there is no run."""
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
        label, unit = short(joint.name), torque_unit(joint)
        series = np.stack([run.measured[begin:end, j], run.residual[begin:end, j]])
        drawn = (
            _histogram(run.residual[:, j], unit, label),
            _autocorrelation(series[1], rate, label),
            _spectrum(series, rate, unit, label),
        )
        figures.append(figure(short(joint.name, 60), residual_words(entry), tag("div", *drawn, class_="triple")))
    lead = (
        "The residual is measured minus predicted torque. Of a perfect model only sensor noise is left: its histogram "
        "is the bell of the dashed line, its autocorrelation stays inside the dashed band, its spectrum is flat."
    )
    keys = [("measured", "measured torque"), ("residual", "measured − model"), ("limit-line", "of noise alone")]
    content = (
        tag("p", f"Of {visible(name)}.", class_="quiet"),
        legend(keys),
        *figures,
        folded("How to read these figures", _how_to_read(), open_=True),
    )
    return Section("residuals", "Residuals", lead, content)


def _how_to_read() -> Html:
    rows = {
        "Histogram": "how often each size of the residual occurs. Two humps or a shifted peak: a friction or offset of "
        "another size in the two directions. Long tails: single events, such as reversals and contacts.",
        "Autocorrelation": "how much a residual says about the one some time later. Noise falls to zero at once. A "
        "slow fall means that the model lacks something that lasts as long as the fall; a wave has the period of the "
        "motion or of a vibration.",
        "Spectrum": "the same by frequency: power of the measured torque and of the residual. Far below the measured "
        "torque everywhere: a good model. High at the left, at the frequencies of the motion: friction, cables, "
        "springs or a load that the model lacks. A single peak: a vibration or a gear's teeth. The flat part at the "
        "right is sensor noise: nothing more to learn there.",
    }
    return tag("dl", *(join([tag("dt", name), tag("dd", words)]) for name, words in rows.items()), class_="reading")


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
    plot = Plot(44, 22, _WIDTH - 52, _HEIGHT - 62, Axis(-edge, edge), Axis(0.0, 100 * top))
    marks = [plot.axes(f"residual, {unit}", "% of the samples", ticks=(4, 4))]
    floor = plot.top + plot.height
    places = plot.px(edges).tolist()
    for top, left, right in zip(plot.py(100 * density).tolist(), places, places[1:]):
        if floor - top > 0.05:
            box = {"x": left + 0.4, "y": top, "width": right - left - 0.8, "height": floor - top}
            marks.append(tag("rect", **box, class_="bar weak"))
    marks.append(plot.path(x, 100 * bell, "limit"))
    return picture(_WIDTH, _HEIGHT, marks, f"Histogram of the residual of {name}, rms {number(spread)} {unit}")


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
    plot = Plot(44, 22, _WIDTH - 52, _HEIGHT - 62, *axes)
    marks = [plot.axes("time between samples, s", "autocorrelation", ticks=(4, 5))]
    marks += [plot.level(side * band, "limit") for side in (-1, 1)]
    marks.append(plot.path(times, values, "residual"))
    words = f"Autocorrelation of the residual of {name}: {percent(float(values[1]))} from one sample to the next"
    return picture(_WIDTH, _HEIGHT, marks, words)


def _spectrum(series: Array, rate: float, unit: str, name: str) -> Html:
    """Power over frequency of the measured torque and the residual (2, N)."""
    from scipy.signal import welch

    f, curves = (found[..., 1:] for found in welch(series, fs=rate, nperseg=min(series.shape[1], 512)))
    tops = max(float(curves.max()), 1e-12)
    positive = curves[curves > 0]
    floor = max(float(np.percentile(positive, 2)) if len(positive) else 1e-12, 1e-6 * tops)
    axis = Axis(10.0 ** np.floor(np.log10(floor)), 10.0 ** np.ceil(np.log10(tops)), log=True)
    plot = Plot(44, 22, _WIDTH - 52, _HEIGHT - 62, Axis(float(f[0]), float(f[-1]), log=True), axis)
    marks = [plot.axes("frequency, Hz", f"({unit})²/Hz" if "·" in unit else f"{unit}²/Hz", ticks=(6, 4))]
    for curve, class_ in zip(curves, ("measured", "residual")):
        marks.append(plot.path(f, _above(curve, axis.low), class_))
    return picture(_WIDTH, _HEIGHT, marks, f"Spectrum of measured torque and residual of {name}")


def _above(curve: Array, low: float) -> Array:
    """What is seen of a curve; where it lies below the axis throughout, a line along the axis."""
    seen = curve >= low
    return np.where(seen, curve, np.nan) if seen.any() else np.full_like(curve, low)
