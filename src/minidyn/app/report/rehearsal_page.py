"""The page of a rehearsal: what a motion is worth, by simulated copies of the robot."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from minidyn.display import Html, tag
from minidyn.errors import DescriptionError
from minidyn.files import check_outputs, write_atomically
from minidyn.notices import worth_telling
from minidyn.pages.charts import Axis, Plot, legend, picture
from minidyn.pages.html import Section, figure, folded, notice_section, page, sentence, table
from minidyn.text import number, percent, short, visible

if TYPE_CHECKING:
    from minidyn.app.rehearse import Rehearsal

_SIGNS = {"good": "✓", "caution": "!", "bad": "✕"}
_WIDTH = 760.0
_LINE = 22.0  # height of a draw in the first picture
_BINS = np.linspace(-4.0, 4.0, 33)  # of z-scores; what is beyond is in the outermost
_NAMES = 160  # letters of a list of parameters


def write_rehearsal(rehearsal: Rehearsal, target: Path) -> Path:
    """Write the page; return its path."""
    if target.suffix.lower() not in (".html", ".htm"):
        raise DescriptionError(
            f"{target}: a rehearsal is one HTML file; give a name that ends in .html"
        )
    check_outputs([target])
    makers = (_summary, _deviations, _parameters, _notices, _planted)
    sections = [section for make in makers if (section := make(rehearsal)) is not None]
    count = len(rehearsal.draws)
    about = f"{rehearsal.robot.n} joints · {number(rehearsal.duration)} s · {count} draws"
    name = visible(rehearsal.robot.name) or "a robot"
    text = page("rehearsal of a motion", f"Rehearsal of {name}", about, sections)
    write_atomically(target, text.encode("utf-8"))
    return target


def _summary(rehearsal: Rehearsal) -> Section:
    sign = tag("span", _SIGNS[rehearsal.level], class_="sign", aria_hidden="true")
    reasons = [tag("li", sentence(one.text)) for one in worth_telling(rehearsal.notices)]
    fitted = rehearsal.errors[np.isfinite(rehearsal.errors)]
    words = (
        f"Models of {len(fitted)} simulated logs have a test error of "
        f"{percent(np.median(fitted))} (median) and {percent(fitted.max())} (largest)."
        if len(fitted)
        else "No simulated log could be identified."
    )
    verdict = tag(
        "div",
        sign,
        tag(
            "div",
            tag("p", rehearsal.headline, class_="headline"),
            tag("p", words),
            tag("ul", *reasons) if reasons else None,
        ),
        class_=f"verdict {rehearsal.level}",
    )
    return Section("summary", "Summary", "", (verdict, _errors(rehearsal)))


def _errors(rehearsal: Rehearsal) -> Html:
    """Test error of each draw: of the identified model, and of the robot file."""
    draws = [draw for draw in rehearsal.draws if np.isfinite(draw.error)]
    values = [
        x for draw in draws for x in (draw.error, draw.file_error) if np.isfinite(x) and x > 0
    ]
    if not values:
        return tag("p", "No draw was identified.", class_="quiet")
    low, high = 10.0 ** np.floor(np.log10(min(values))), 10.0 ** np.ceil(np.log10(max(values)))
    axis = Axis(float(low), float(max(high, 10 * low)), log=True)
    tall = _LINE * len(draws)
    plot = Plot(70, 14, _WIDTH - 90, tall, axis, Axis(0, len(draws)))
    marks = [plot.axes("test error, share of the torque", "", ticks=(6, 0))]
    for row, draw in enumerate(draws):
        y = plot.top + (row + 0.5) * _LINE
        label = f"draw {row + 1}"
        marks.append(tag("text", label, x=plot.left - 6, y=y + 4, class_="tick end"))
        for value, kind in ((draw.file_error, " second"), (draw.error, "")):
            if np.isfinite(value) and value > 0:
                title = tag("title", f"{label}: {percent(value)}")
                x = float(plot.px(value))
                marks.append(tag("circle", title, cx=x, cy=y, r=5, class_=f"dot{kind}"))
    drawn = picture(_WIDTH, tall + 48, marks, "Test error of each draw")
    keys = legend([("dot", "identified model"), ("second", "robot file")])
    note = "Each draw is another robot: its bodies, friction and rotors differ from the file."
    return figure("Error on another motion", note, drawn, keys)


def _deviations(rehearsal: Rehearsal) -> Section | None:
    z = rehearsal.z[np.isfinite(rehearsal.z)]
    if not len(z):
        return None
    counts, edges = np.histogram(np.clip(z, _BINS[0], _BINS[-1]), _BINS, density=True)
    normal = np.exp(-0.5 * np.linspace(-4, 4, 161) ** 2) / np.sqrt(2 * np.pi)
    top = 1.1 * max(counts.max(), normal.max())
    plot = Plot(60, 14, _WIDTH - 80, 200, Axis(-4, 4), Axis(0, float(top)))
    marks = [plot.axes("error of a parameter over its stated deviation", "", ticks=(9, 0))]
    for count, left, right in zip(counts, edges[:-1], edges[1:]):
        x, y = float(plot.px(left)), float(plot.py(count))
        width, height = float(plot.px(right)) - x, plot.top + plot.height - y
        marks.append(tag("rect", x=x, y=y, width=width, height=height, class_="bar"))
    marks.append(plot.path(np.linspace(-4, 4, 161), normal, "line residual"))
    drawn = picture(_WIDTH, 250, marks, "Distribution of z-scores")
    lead = (
        f"Root mean square {number(rehearsal.z_rms, 2)} (1 where stated deviations are exact); "
        f"{percent(rehearsal.coverage)} of the 95 % intervals hold the true value."
    )
    note = "Bars: all parameters of all draws. Line: the normal distribution that is stated."
    return Section("deviations", "Stated deviations", lead, (figure("z-scores", note, drawn),))


def _parameters(rehearsal: Rehearsal) -> Section | None:
    if not rehearsal.shown:
        return None
    few = rehearsal.not_shown
    words = (
        tag("p", short(", ".join(few), _NAMES)) if few else tag("p", "All parameters are shown.")
    )
    rows = [(name, percent(share)) for name, share in sorted(rehearsal.shown.items(), key=_share)]
    listed = table("Base parameters", ("parameter", "draws that show it"), rows, right=(1,))
    lead = (
        f"{len(rehearsal.shown) - len(few)} of {len(rehearsal.shown)} base parameters of links and "
        "rotors are shown: deviation up to 30 % of the value, small ones by their torque."
    )
    return Section("parameters", "What is not shown", lead, (words, folded("All", listed)))


def _share(entry: tuple[str, float]) -> float:
    return entry[1]


def _notices(rehearsal: Rehearsal) -> Section | None:
    return notice_section(rehearsal.notices, "What a reader should know, most serious first.")


def _planted(rehearsal: Rehearsal) -> Section:
    sensors = rehearsal.sensors
    rows = [
        ("samples a second", number(sensors.rate)),
        ("encoder noise and step, rad or m", number(sensors.encoder)),
        ("torque noise, of each joint's torque", percent(sensors.torque_noise)),
        ("delay of the torque, ms", number(1e3 * sensors.delay)),
        ("friction falls during the motion by", percent(sensors.drift)),
        ("bodies differ from the file by", percent(sensors.bodies)),
        ("friction and rotors differ by", percent(sensors.friction)),
        ("simulator", {"mujoco": "MuJoCo", "minidyn": "minidyn"}[rehearsal.plant]),
    ]
    return Section(
        "planted", "What was planted", "", (table("Planted errors", ("error", "size"), rows),)
    )
