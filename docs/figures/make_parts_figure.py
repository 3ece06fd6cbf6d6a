"""Draw docs/figures/parts.svg: bodies of the file, of the model, and what goes back.

Run `python docs/figures/make_parts_figure.py`.
"""

from __future__ import annotations

from pathlib import Path

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.patches import FancyBboxPatch

from minidyn.display import COLOURS, save_figure

_BODIES = {"wrist": (0.0, 0.0, 1.6, 0.7), "palm": (1.9, 0.0, 0.7, 0.7)}
_FINGERS = {"left finger": (2.9, 0.42, 1.2, 0.28), "right finger": (2.9, 0.0, 1.2, 0.28)}


def box(axis: Axes, place: tuple[float, ...], colour: str, text: str, below: bool = False) -> None:
    """Draw a body and its name."""
    x, y, width, height = place
    style = "round,pad=0,rounding_size=0.08"
    axis.add_patch(FancyBboxPatch((x, y), width, height, boxstyle=style, color=colour, alpha=0.75))
    size = {"ha": "center", "va": "top" if below else "center", "fontsize": 9}
    axis.text(x + width / 2, y - 0.08 if below else y + height / 2, text, **size)


def main() -> None:
    """Write the figure."""
    figure, axes = plt.subplots(1, 3, figsize=(9.6, 2.3), layout="constrained")
    kept, model, rest = COLOURS[:3]
    titles = ("the file", "the model: the grip is locked", "back in the file")
    for axis, title in zip(axes, titles):
        axis.set_title(title, fontsize=10)
        axis.set_xlim(-0.2, 4.3)
        axis.set_ylim(-0.75, 1.1)
        axis.set_aspect("equal")
        axis.axis("off")
    for axis, colour in ((axes[0], kept), (axes[2], rest)):
        box(axis, _BODIES["wrist"], colour, "wrist")
        box(axis, _BODIES["palm"], kept, "palm")
        for place in _FINGERS.values():
            box(axis, place, kept, "finger")
        axis.plot([2.75, 2.75], [-0.1, 0.8], color="0.3", linestyle=":")
    axes[0].text(2.75, -0.2, "joint: grip", ha="center", va="top", fontsize=9)
    box(axes[1], (0.0, 0.0, 4.1, 0.7), model, "one body, identified")
    words = "wrist = identified body − palm − fingers"
    axes[2].text(2.0, -0.2, words, ha="center", va="top", fontsize=9)
    save_figure(figure, Path(__file__).with_name("parts.svg"))


if __name__ == "__main__":
    main()
