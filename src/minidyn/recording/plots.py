"""Pictures of runs: motion against its reference, errors, torques, estimates."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from minidyn.files import write_atomically
from minidyn.recording.recording import Recording
from minidyn.text import plot_label

if TYPE_CHECKING:
    from matplotlib.figure import Figure


_COLOURS = ("#2a6fbb", "#c8553d", "#3d8c57", "#8a5fb5", "#b8860b", "#4f6d7a", "#a23b72", "#5b5b5b")


def plot_run(recording: Recording, title: str, estimated: Sequence[str] = (), truth: Sequence[float] = ()) -> Figure:
    """Return a figure of a simulated run: positions and reference, errors, torques, and estimates where there are any.

    Args:
        recording: From `simulate`.
        title: Heading.
        estimated: Names of the estimated parameters; at most eight are drawn.
        truth: Their true values, drawn as dashed lines.
    """
    from matplotlib.figure import Figure

    adaptive = "estimate" in recording.telemetry and len(estimated) > 0
    panels = ["position", "error", "torque"] + (["estimate"] if adaptive else [])
    figure = Figure(figsize=(9, 2.3 * len(panels) + 0.6), layout="constrained")
    axes = figure.subplots(len(panels), 1, sharex=True)
    figure.suptitle(plot_label(title), x=0.01, ha="left", fontsize=13)
    t = recording.t
    names = [plot_label(name) for name in recording.joint_names]
    for axis, panel in zip(axes, panels):
        if panel == "estimate":
            _lines(axis, t, recording.telemetry["estimate"][:, :8], [plot_label(name) for name in estimated[:8]])
            for k, value in enumerate(truth[:8]):
                axis.axhline(value, color=_COLOURS[k % 8], linestyle="--", linewidth=0.9)
            axis.set_ylabel("estimate")
        elif panel == "position":
            _lines(axis, t, recording.telemetry["q_true"], names)
            for k, reference in enumerate(recording.telemetry["q_d"].T):
                axis.plot(t, reference, color=_COLOURS[k % 8], linestyle="--", linewidth=0.9)
            axis.set_ylabel("position, rad or m\n(dashed: wanted)")
        elif panel == "error":
            _lines(axis, t, recording.telemetry["error"], names)
            axis.set_ylabel("tracking error")
        elif recording.tau is not None:
            _lines(axis, t, recording.tau, names)
            axis.set_ylabel("torque, N m or N")
        axis.grid(color="#d8d8d8", linewidth=0.6)
        axis.spines[["top", "right"]].set_visible(False)
        axis.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False, fontsize=8)
    axes[-1].set_xlabel("time, s")
    axes[-1].set_xlim(float(t[0]), float(t[-1]) if len(t) > 1 else None)
    return figure


def save_figure(figure: Figure, path: Path) -> None:
    """Write a figure whole or not at all; the ending (.png, .svg, .pdf) chooses the format."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format=path.suffix[1:] or "png", dpi=130)
    write_atomically(path, buffer.getvalue())


def _lines(axis: Any, t: Any, values: Any, names: Sequence[str]) -> None:
    for k, (name, series) in enumerate(zip(names, np.asarray(values).T)):
        axis.plot(t, series, color=_COLOURS[k % 8], linewidth=1.3, label=name)
