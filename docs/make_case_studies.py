"""Write docs/case-studies.md and its figures from the case studies.

Run it with the repository's Python. A test compares the page with the studies; the figures are made
with `--figures`.
"""

from __future__ import annotations

import sys
from pathlib import Path

from minidyn.app.casestudies.run import STUDIES, case_study, markdown
from minidyn.app.casestudies.study import Figure, Study

HERE = Path(__file__).parent
PAGE = HERE / "case-studies.md"
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#5b5b5b")
HEAD = """# Case studies of the papers

Every table and figure with numbers of the five papers, computed again beside the printed ones. *Agree* means to all
printed digits. Errata are marked with what should be read. Made by `python docs/make_case_studies.py`; of long tables
only what does not agree is shown here, all of it by `--every` and on the HTML page.

    minidyn casestudy lin-1992 --output lin-1992.html

`minidyn casestudy all` writes a page for each.

```python
import minidyn as md

study = md.case_study("lin-1992", noise=0.01)  # settings of each study can be varied: --with noise=0.01 in the shell
study.verdicts["differs"] > 10  # True
```
"""  # noqa: E501


def page(studies: list[Study]) -> str:
    """The text of docs/case-studies.md."""
    lines = [HEAD]
    for study in studies:
        lines += markdown(study, f"minidyn casestudy {study.key}")
    return "\n".join(lines).rstrip() + "\n"


def draw(one: Figure) -> None:
    """Write a figure as SVG."""
    import matplotlib as mpl
    from matplotlib.figure import Figure as Canvas

    mpl.rcParams["svg.hashsalt"] = "minidyn"  # the same picture is the same file
    mpl.rcParams["svg.fonttype"] = "none"
    canvas = Canvas(figsize=(6.4, 3.2), layout="constrained")
    axes = canvas.subplots()
    names = list(dict.fromkeys(curve.name for curve in one.curves))
    seen: set[str] = set()
    for curve in one.curves:
        style = "--" if curve.name in ("ideal", "true") or curve.name.endswith("printed") else "-"
        colour = (
            COLOURS[-1]
            if curve.name in ("ideal", "true")
            else COLOURS[names.index(curve.name) % len(COLOURS)]
        )
        label = None if curve.name in seen else curve.name
        seen.add(curve.name)
        axes.plot(curve.x, curve.y, style, color=colour, linewidth=1.2, label=label)
    if one.log:
        axes.set_yscale("log")
    axes.set_title(f"{one.title} ({one.source})", fontsize=10)
    axes.set_xlabel(one.x_label)
    axes.set_ylabel(one.y_label)
    axes.grid(color="#d8d8d8", linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=8)
    canvas.savefig(HERE / "figures" / f"case-{one.key}.svg", metadata={"Date": None})


if __name__ == "__main__":
    made = [case_study(name) for name in STUDIES]
    PAGE.write_text(page(made), encoding="utf-8")
    if "--figures" in sys.argv:
        for one in (figure for study in made for figure in study.figures):
            draw(one)
