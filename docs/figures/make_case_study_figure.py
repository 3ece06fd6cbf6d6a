"""Draw docs/figures/case-study.svg, the case study of LuMeng1993.

Run it with the repository's Python.
"""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl
from matplotlib.figure import Figure

from minidyn.simulation.case_study import lu_meng_case

HERE = Path(__file__).parent
COLOURS = ("#2a6fbb", "#c8553d", "#3d8c57", "#8a5fb5")


def main() -> None:
    """Tracking errors and estimated mass of both laws, side by side."""
    mpl.rcParams["svg.hashsalt"] = "minidyn"  # the same picture is the same file
    mpl.rcParams["svg.fonttype"] = "none"
    study = lu_meng_case(duration=1.0)
    figure = Figure(figsize=(9, 4.6), layout="constrained")
    axes = figure.subplots(2, 2, sharex=True, sharey="row")
    for column, (title, recording) in enumerate(
        (("modified Slotine-Li, K = λM̂", study.modified_slotine_li), ("Craig", study.craig))
    ):
        error, mass = axes[:, column]
        for joint, values in enumerate(recording.telemetry["error"][::10].T):
            error.plot(recording.t[::10], values, color=COLOURS[joint], label=f"joint {joint + 1}")
        mass.plot(recording.t[::10], recording.telemetry["estimate"][::10, 0], color=COLOURS[0])
        mass.axhline(1.0, color="#5b5b5b", linestyle="--", linewidth=0.9)
        error.set_title(title, fontsize=11)
        mass.set_xlabel("time, s")
        for axis in (error, mass):
            axis.grid(color="#d8d8d8", linewidth=0.6)
            axis.spines[["top", "right"]].set_visible(False)
    axes[0, 0].set_ylabel("tracking error, rad")
    axes[1, 0].set_ylabel("estimated mass of link 4, kg\n(dashed: true)")
    axes[0, 1].legend(frameon=False, fontsize=9)
    figure.savefig(HERE / "case-study.svg", metadata={"Date": None})


if __name__ == "__main__":
    main()
