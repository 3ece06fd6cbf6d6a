"""Case studies by name, and for readers: one HTML page, Markdown for the documentation."""

from __future__ import annotations

from collections.abc import Callable
from inspect import signature
from typing import Any

import numpy as np

from minidyn.app.casestudies.gautier_1991 import gautier_1991
from minidyn.app.casestudies.lin_1992 import lin_1992
from minidyn.app.casestudies.lin_1994 import lin_1994
from minidyn.app.casestudies.lin_fang_1999 import lin_fang_1999
from minidyn.app.casestudies.lu_meng_1993 import lu_meng_1993
from minidyn.app.casestudies.study import AGREES, DIFFERS, ERRATUM, Entry, Figure, Study, Table
from minidyn.display import Html, tag
from minidyn.errors import MinidynError, UnknownName
from minidyn.pages.charts import Axis, Plot, legend, nice_range, picture
from minidyn.pages.html import Section, figure, page, table
from minidyn.text import markdown_cell

STUDIES = {
    "gautier-1991": "numeric base parameters: PUMA 560 and HPR, Tables I to V",
    "lin-1992": "one joint at a time: Stanford arm, Tables I and II",
    "lin-1994": "minimal linear combinations: Theorems 3 to 5, Corollary 6",
    "lin-fang-1999": "operation counts of the inertia matrix, Tables VI to VIII",
    "lu-meng": "regressor of a two-joint arm, adaptive control with an unknown load, Figs. 4 and 5",
}
"""Names, and what each computes again."""

MAKERS: dict[str, Callable[..., Study]] = dict(
    zip(STUDIES, (gautier_1991, lin_1992, lin_1994, lin_fang_1999, lu_meng_1993), strict=True)
)
"""The function of each; its keywords are the study's options."""


def case_study(name: str, **options: Any) -> Study:
    """Run a published case study and return its tables and figures beside the printed ones.

    Args:
        name: One of "gautier-1991", "lin-1992", "lin-1994", "lin-fang-1999", "lu-meng".
        **options: What is to be varied, such as bandwidth, noise or lengths; each study's own
            keywords.
    """
    if name not in STUDIES:
        raise UnknownName("case study", name, tuple(STUDIES))
    function = MAKERS[name]
    known = signature(function).parameters
    for option in options:
        if option not in known:
            raise UnknownName(f"option of case study {name!r}:", option, tuple(known))
    return function(**options)


def option_values(name: str, words: tuple[str, ...]) -> dict[str, Any]:
    """Return options given as texts "key=value", read as the type of each option's default."""
    known, found = signature(MAKERS[name]).parameters, dict[str, Any]()
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or key not in known:
            raise MinidynError(
                f"{word!r}: expected one of {', '.join(f'{one}=...' for one in known)}"
            )
        default = known[key].default
        try:
            if isinstance(default, bool):
                found[key] = {"yes": True, "no": False}[value]
            elif isinstance(default, tuple):
                found[key] = tuple(float(part) for part in value.split(","))
            else:
                found[key] = type(default)(value)
        except (KeyError, ValueError):
            expected = "yes or no" if isinstance(default, bool) else f"a value such as {default!r}"
            raise MinidynError(f"{word!r}: expected {expected}") from None
    return found


COLUMNS = ("quantity", "printed", "computed", "")
_CLASSES = ("model", "residual", "prior", "limit", "measured")
_MANY = 40  # rows: of longer tables the documentation shows what does not agree


def case_study_page(study: Study) -> str:
    """Return a case study as one HTML file."""
    counts = study.verdicts
    lead = f"{study.about} {summary(study)}"
    rows = [(name, str(value)) for name, value in study.settings.items()]
    content = [
        table("Settings", ("setting", "value"), rows),
        *(tag("p", remark) for remark in study.remarks),
    ]
    wrong = [
        (table_.source, entry)
        for table_ in study.tables
        for entry in table_.entries
        if entry.verdict != AGREES
    ]
    if wrong:
        listed = [(f"{source}: {entry.name}", *cells(entry)[1:]) for source, entry in wrong]
        content.append(table("What does not agree with the print", COLUMNS, listed, right=(1, 2)))
    sections = [Section("summary", "Summary", lead, tuple(content))]
    if study.figures:
        drawn = tuple(
            figure(one.title, one.source, _chart(one, len(study.figures) == 1))
            for one in study.figures
        )
        sections.append(
            Section("figures", "Figures", "", (tag("div", *drawn, class_="grid wide"),))
        )
    for k, one in enumerate(study.tables):
        made = table(one.title, COLUMNS, [cells(entry) for entry in one.entries], right=(1, 2))
        sections.append(Section(f"table-{k + 1}", f"{one.source}: {one.title}", one.note, (made,)))
    about = (
        f"{study.paper} · {counts[AGREES]} agree, {counts[ERRATUM]} errata, {counts[DIFFERS]} "
        "differ"
    )
    return page("case study", study.key, about, sections)


def cells(entry: Entry) -> tuple[str, str, str, str]:
    """Return the row of an entry in COLUMNS."""
    remark = entry.verdict if entry.verdict != ERRATUM else f"erratum: {entry.erratum}"
    return entry.name, entry.printed, entry.shown, "" if entry.verdict == AGREES else remark


def summary(study: Study) -> str:
    """Return how many values agree, in a sentence."""
    counts = study.verdicts
    return (
        f"{sum(counts.values())} printed values: {counts[AGREES]} agree to all printed digits, "
        f"{counts[ERRATUM]} are known errata, {counts[DIFFERS]} differ."
    )


def markdown(study: Study, command: str) -> list[str]:
    """Return the lines of a section of the documentation, figures as links into figures/."""
    lines = [
        f"## {study.key}",
        "",
        f"{study.paper}.",
        "",
        study.about,
        "",
        f"`{command}`",
        "",
        summary(study),
        "",
    ]
    for one in study.figures:
        lines += [f"![{one.title}](figures/case-{one.key}.svg)", ""]
    for table_ in study.tables:
        lines += _markdown_table(table_)
    return [*lines, *(line for remark in study.remarks for line in (f"- {remark}",)), ""]


def _markdown_table(one: Table) -> list[str]:
    kept = [entry for entry in one.entries if len(one.entries) <= _MANY or entry.verdict != AGREES]
    agree = sum(entry.verdict == AGREES for entry in one.entries)
    lines = [
        f"**{one.source}: {one.title}.** {agree} of {len(one.entries)} agree. {one.note}".rstrip(),
        "",
    ]
    if not kept:
        return lines
    lines += ["| quantity | printed | computed | |", "|---|---:|---:|---|"]
    return [
        *lines,
        *("| " + " | ".join(map(markdown_cell, cells(entry))) + " |" for entry in kept),
        "",
    ]


def _chart(one: Figure, alone: bool) -> Html:
    x = np.concatenate([curve.x for curve in one.curves])
    y = np.concatenate([curve.y for curve in one.curves])
    width, height = (760.0, 300.0) if alone else (460.0, 240.0)
    vertical = Axis(float(y.min()) / 2, float(y.max()) * 2, log=True) if one.log else nice_range(y)
    plot = Plot(52, 24, width - 62, height - 64, Axis(float(x.min()), float(x.max())), vertical)
    names = list(dict.fromkeys(curve.name for curve in one.curves))
    marks = [plot.axes(one.x_label, one.y_label, ticks=(5, 4))]
    marks += [
        plot.path(curve.x, curve.y, _CLASSES[names.index(curve.name) % len(_CLASSES)])
        for curve in one.curves
    ]
    drawn = picture(width, height, marks, f"{one.title}: {', '.join(names)}")
    return tag(
        "div", drawn, legend([(_CLASSES[k % len(_CLASSES)], name) for k, name in enumerate(names)])
    )
