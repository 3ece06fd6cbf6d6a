"""What the model is used for: code and its cost, adaptive control; and how the report was made."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from minidyn.app.report.charts import Axis, Plot, legend, nice_range, picture
from minidyn.app.report.decimate import envelope
from minidyn.app.report.facts import Facts
from minidyn.app.report.html import Html, Section, folded, table, tag
from minidyn.recording.recording import Recording
from minidyn.text import count, number, visible

_TITLES = {
    "inverse_dynamics": "torque of a motion",
    "inertia_matrix": "inertia matrix",
    "forward_dynamics": "acceleration from torque",
    "base_regressor": "base regressor",
}


def code_section(facts: Facts) -> Section | None:
    """Return operation counts and speed of the generated functions; None where they were not asked for."""
    if not facts.code:
        return None
    rows = []
    for fact in facts.code:
        counts = fact.counts
        rows.append(
            (
                tag("code", fact.what),
                _TITLES.get(fact.what, ""),
                count(counts["mul"]),
                count(counts["add"]),
                str(counts["div"]),
                str(counts["sincos"]),
                f"{number(fact.nanoseconds)} ns",
            )
        )
    headings = (
        "function",
        "gives",
        "multiplications",
        "additions",
        "divisions",
        "sine and cosine pairs",
        "time a sample",
    )
    lead = (
        "The identified model as a program without loops or memory: C99 for controllers, Python, JAX, machine code. "
        "Counts are exact, for one sample with these parameter values."
    )
    note = "Times: vectorised machine code on one core of the computer that made this report, large batches."
    command = "minidyn generate FOLDER/robot.toml inverse_dynamics --target c --output code"
    content = (
        table("Cost of the generated functions", headings, rows, (2, 3, 4, 5, 6)),
        tag("p", note, class_="quiet"),
        tag("p", tag("code", command, class_="command")),
    )
    return Section("code", "Exported code", lead, content)


def control_section(facts: Facts) -> Section | None:
    """Return the adaptive-control case; None where there is none."""
    study = facts.case_study
    if study is None:
        return None
    laws = (("modified Slotine-Li", study.slotine_li, "model"), ("Craig", study.craig, "residual"))
    true = float(study.robot.links[-1].mass)
    figures = []
    for title, unit, pick, level in (
        ("Tracking error", "largest of all joints, rad", _error, None),
        ("Estimated mass of the load and its link", "kg", _mass, true),
    ):
        figures.append(tag("figure", tag("figcaption", tag("strong", title)), _curves(title, unit, laws, pick, level)))
    first = float(_mass(study.craig)[0])
    ends = "; ".join(f"{name}: {number(float(_mass(run)[-1]), 4)} kg" for name, run, _ in laws)
    lead = (
        "A four-joint arm follows a path with a load nobody told it of, starting 20 % away from it. Two adaptive laws "
        "correct the model while they run. A simulation of the published case LuMeng1993."
    )
    content = (
        legend([(class_, name) for name, _, class_ in laws]),
        tag("div", *figures, class_="grid wide"),
        tag(
            "p",
            f"True mass {number(true)} kg, believed at first {number(first)} kg. At the end {ends}.",
        ),
    )
    return Section("control", "Adaptive control", lead, content)


def _error(run: Recording) -> Any:
    return np.abs(run.telemetry["error"]).max(axis=1)


def _mass(run: Recording) -> Any:
    return run.telemetry["estimate"][:, 0]


def _curves(title: str, unit: str, laws: Any, pick: Any, level: float | None) -> Html:
    series = [(run.t, pick(run), class_) for _, run, class_ in laws]
    every = np.concatenate([values for _, values, _ in series] + ([np.array([level])] if level is not None else []))
    width, height = 460.0, 220.0
    y = nice_range(every) if level is not None else Axis(0.0, 1.05 * float(every.max()))
    plot = Plot(48, 24, width - 58, height - 64, Axis(0.0, float(series[0][0][-1])), y)
    marks = [plot.axes("time, s", unit, ticks=(5, 4))]
    if level is not None:
        marks.append(plot.level(level, "limit", "true"))
    for t, values, class_ in series:
        found = envelope(np.asarray(t), np.asarray(values)[:, None], 400, [])
        marks.append(plot.path(found.t, (found.low[:, 0] + found.high[:, 0]) / 2, class_))
    return picture(width, height, marks, f"{title} over time for both laws")


def record_section(facts: Facts) -> Section:
    """Return settings, versions and fingerprints: what is needed to do it again."""
    estimate = facts.estimate
    robot = estimate.robot
    rows: list[tuple[object, object]] = [
        ("robot", f"{robot.name}, {robot.n} joints"),
        ("source of the robot", robot.source or "–"),
        ("fingerprint of the model", robot.fingerprint),
        ("gravity, m/s²", ", ".join(f"{value:g}" for value in robot.gravity)),
        ("method", estimate.method),
        ("made physically possible", "yes" if estimate.consistent else "no"),
        ("samples", count(estimate.samples)),
    ]
    rows += [
        (f"setting {name}", _shown(value))
        for name, value in estimate.settings.items()
        if name not in ("method", "samples", "preparation")
    ]
    prepared = estimate.settings.get("preparation") or ({} if facts.motion is None else facts.motion.info)
    if isinstance(prepared, Mapping):
        rows += [(f"preparation {name}", _shown(value)) for name, value in prepared.items()]
    rows += [(str(name), _shown(value)) for name, value in facts.details.items()]
    rows += [(f"version of {name}" if name != "system" else name, value) for name, value in facts.versions.items()]
    rows.append(("report made", facts.made))
    shown = [(visible(name).replace("_", " "), visible(value)) for name, value in rows]
    lead = "All that is needed to repeat this: settings, versions, fingerprints."
    made = table("Settings and versions", ("what", "value"), shown, class_="record")
    return Section("record", "How this was made", lead, (folded("Settings and versions", made),))


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return number(value, 4)
    if isinstance(value, Mapping):
        return ", ".join(f"{name}: {_shown(one)}" for name, one in list(value.items())[:12])
    if isinstance(value, list | tuple):
        if any(isinstance(one, list | tuple | dict) for one in value):
            return f"{len(value)} values"
        return ", ".join(_shown(one) for one in value[:12]) + (" …" if len(value) > 12 else "")
    return str(value)
