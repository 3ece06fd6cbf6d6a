"""Case studies for readers: one HTML page, Markdown for the documentation."""

from __future__ import annotations

import numpy as np

from minidyn.app.casestudies.study import AGREES, DIFFERS, ERRATUM, Entry, Figure, Study, Table
from minidyn.app.report.charts import Axis, Plot, legend, nice_range, picture
from minidyn.app.report.html import Section, figure, page, table
from minidyn.display import Html, tag
from minidyn.text import markdown_cell

COLUMNS = ("quantity", "printed", "computed", "")
_CLASSES = ("model", "residual", "prior", "limit", "measured")
_MANY = 40  # rows: of longer tables the documentation shows what does not agree


def case_study_page(study: Study) -> str:
    """Return a case study as one HTML file."""
    counts = study.verdicts
    lead = f"{study.about} {summary(study)}"
    rows = [(name, str(value)) for name, value in study.settings.items()]
    content = [table("Settings", ("setting", "value"), rows), *(tag("p", remark) for remark in study.remarks)]
    wrong = [(table_.source, entry) for table_ in study.tables for entry in table_.entries if entry.verdict != AGREES]
    if wrong:
        listed = [(f"{source}: {entry.name}", *cells(entry)[1:]) for source, entry in wrong]
        content.append(table("What does not agree with the print", COLUMNS, listed, right=(1, 2)))
    sections = [Section("summary", "Summary", lead, tuple(content))]
    if study.figures:
        drawn = tuple(figure(one.title, one.source, _chart(one, len(study.figures) == 1)) for one in study.figures)
        sections.append(Section("figures", "Figures", "", (tag("div", *drawn, class_="grid wide"),)))
    for k, one in enumerate(study.tables):
        made = table(one.title, COLUMNS, [cells(entry) for entry in one.entries], right=(1, 2))
        sections.append(Section(f"table-{k + 1}", f"{one.source}: {one.title}", one.note, (made,)))
    about = f"{study.paper} · {counts[AGREES]} agree, {counts[ERRATUM]} errata, {counts[DIFFERS]} differ"
    return page("case study", study.key, about, sections)


def cells(entry: Entry) -> tuple[str, str, str, str]:
    """Return the row of an entry in COLUMNS."""
    remark = entry.verdict if entry.verdict != ERRATUM else f"erratum: {entry.erratum}"
    return entry.name, entry.printed, entry.shown, "" if entry.verdict == AGREES else remark


def summary(study: Study) -> str:
    """Return how many values agree, in a sentence."""
    counts = study.verdicts
    return (
        f"{sum(counts.values())} printed values: {counts[AGREES]} agree to all printed digits, {counts[ERRATUM]} are "
        f"known errata, {counts[DIFFERS]} differ."
    )


def markdown(study: Study, command: str) -> list[str]:
    """Return the lines of a section of the documentation, figures as links into figures/."""
    lines = [f"## {study.key}", "", f"{study.paper}.", "", study.about, "", f"`{command}`", "", summary(study), ""]
    for one in study.figures:
        lines += [f"![{one.title}](figures/case-{one.key}.svg)", ""]
    for table_ in study.tables:
        lines += _markdown_table(table_)
    return [*lines, *(line for remark in study.remarks for line in (f"- {remark}",)), ""]


def _markdown_table(one: Table) -> list[str]:
    kept = [entry for entry in one.entries if len(one.entries) <= _MANY or entry.verdict != AGREES]
    agree = sum(entry.verdict == AGREES for entry in one.entries)
    lines = [f"**{one.source}: {one.title}.** {agree} of {len(one.entries)} agree. {one.note}".rstrip(), ""]
    if not kept:
        return lines
    lines += ["| quantity | printed | computed | |", "|---|---:|---:|---|"]
    return [*lines, *("| " + " | ".join(map(markdown_cell, cells(entry))) + " |" for entry in kept), ""]


def _chart(one: Figure, alone: bool) -> Html:
    x = np.concatenate([curve.x for curve in one.curves])
    y = np.concatenate([curve.y for curve in one.curves])
    width, height = (760.0, 300.0) if alone else (460.0, 240.0)
    vertical = Axis(float(y.min()) / 2, float(y.max()) * 2, log=True) if one.log else nice_range(y)
    plot = Plot(52, 24, width - 62, height - 64, Axis(float(x.min()), float(x.max())), vertical)
    names = list(dict.fromkeys(curve.name for curve in one.curves))
    marks = [plot.axes(one.x_label, one.y_label, ticks=(5, 4))]
    marks += [plot.path(curve.x, curve.y, _CLASSES[names.index(curve.name) % len(_CLASSES)]) for curve in one.curves]
    drawn = picture(width, height, marks, f"{one.title}: {', '.join(names)}")
    return tag("div", drawn, legend([(_CLASSES[k % len(_CLASSES)], name) for k, name in enumerate(names)]))
