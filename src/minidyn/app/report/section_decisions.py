"""The table of decisions: what identification tried, what it brought, and what the model has."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from minidyn.app.report.facts import Facts
from minidyn.display import Html, tag
from minidyn.identification.score import MIN_GAIN, MIN_STANDARD_ERRORS
from minidyn.identification.selection import Decision
from minidyn.identification.terms.catalogue import EFFECTS
from minidyn.pages.charts import Axis, Plot, picture
from minidyn.pages.html import Section, figure, folded, table
from minidyn.text import number, short

_ROWS = 30  # size: rows of the picture
_STEP = 16.0  # size: height of a row


def decisions_section(facts: Facts) -> Section | None:
    """Return all that was tried; None where nothing was."""
    rows = facts.estimate.selection.rows
    if not rows:
        return None
    taken = [row for row in rows if row.is_taken]
    lead = (
        f"{len(rows)} candidates tried, {len(taken)} taken. The score is the gain in log "
        "density of blocks of time that were not fitted. A candidate is taken where its gain is at "
        f"least {number(MIN_GAIN)} nats a sample for each joint that it changes and "
        f"{number(MIN_STANDARD_ERRORS)} standard errors. --force-term and --forbid-term decide a "
        "row by hand."
    )
    cells = [
        (
            row.candidate,
            short(", ".join(row.joints) or "all", 60),
            "" if row.gain is None else number(row.gain),
            "" if row.standard_error is None else number(row.standard_error),
            "yes" if row.is_taken else "no",
            row.reason or _sentence(row),
        )
        for row in rows
    ]
    headings = ("candidate", "joints", "gain, nats", "standard error", "taken", "what it is")
    whole = table("Decisions", headings, cells, style="steps")
    content: list[Html] = []
    scored = [row for row in rows if row.gain is not None][:_ROWS]
    if scored:
        note = "with two standard errors; filled in blue: taken"
        content.append(figure("Gain of each candidate", note, _picture(scored)))
    content.append(folded(f"All {len(rows)} rows", whole, open_=len(rows) <= 8))
    return Section("decisions", "What was tried", lead, tuple(content))


def _sentence(row: Decision) -> str:
    effect = EFFECTS.get(row.candidate)
    return "" if effect is None else effect.sentence


def _picture(rows: Sequence[Decision]) -> Html:
    """Return a line of two standard errors about the gain of each row, taken ones filled."""
    spans = [(row.gain or 0.0, 2.0 * (row.standard_error or 0.0)) for row in rows]
    low = min(0.0, *(gain - spread for gain, spread in spans))
    high = max(MIN_GAIN, *(gain + spread for gain, spread in spans))
    width, height = 760.0, 56.0 + _STEP * len(rows)
    plot = Plot(190, 12, width - 200, _STEP * len(rows), Axis(low, high), Axis(0, len(rows)))
    marks = [plot.axes("gain, nats a sample", "", ticks=(5, 0), labels=False)]
    for place, (row, (gain, spread)) in enumerate(zip(rows, spans)):
        y = plot.top + (place + 0.5) * _STEP
        left, middle, right = plot.px(np.array([gain - spread, gain, gain + spread])).tolist()
        words = short(f"{row.candidate} ({len(row.joints) or 'all'})", 28)
        marks.append(tag("text", words, x=plot.left - 6, y=y + 4, class_="tick end"))
        kind = "" if row.is_taken else " second"
        marks.append(tag("line", x1=left, x2=right, y1=y, y2=y, class_=f"whisker{kind}"))
        title = tag("title", f"{row.candidate}: {number(gain)} ± {number(0.5 * spread)} nats")
        marks.append(tag("circle", title, cx=middle, cy=y, r=4, class_=f"dot{kind}"))
    return picture(width, height, marks, "Gain of each candidate")
