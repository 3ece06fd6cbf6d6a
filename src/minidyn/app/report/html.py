"""What sections of a page are made of: tables, figures, folded text, and data for the page's script."""

from __future__ import annotations

import html
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from minidyn.arrays import plain_values
from minidyn.display import Html, tag

_LONG = 24  # letters: names up to this length are not broken over lines


def data_block(name: str, content: Any) -> Html:
    """Return data for scripts: JSON in an element that is not executed and that no text inside can close.

    NaN and infinity become null.
    """
    text = json.dumps(plain_values(content, finite=True), separators=(",", ":"), allow_nan=False, ensure_ascii=True)
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Html(f'<script type="application/json" id="{html.escape(name)}">{text}</script>')


@dataclass(frozen=True)
class Section:
    """A part of the page."""

    key: str  # its address inside the page
    title: str
    lead: str  # one or two sentences on what is seen and how to read it
    content: tuple[Html, ...]
    data: Mapping[str, Any] = field(default_factory=dict)  # what the page's script draws from, by name

    def html(self) -> Html:
        """Return the section."""
        heading = tag("h2", self.title, id=f"{self.key}-title")
        lead = tag("p", self.lead, class_="lead") if self.lead else None
        return tag("section", heading, lead, *self.content, id=self.key, aria_labelledby=f"{self.key}-title")


def table(
    caption: str,
    headings: Sequence[str],
    rows: Iterable[Sequence[object] | str],
    right: Sequence[int] = (),
    style: str = "",
) -> Html:
    """Return a table; the first cell of a row is its heading, cells are text or Html; a text alone heads a group.

    The caption is for those who hear it and also names the scroll area; columns `right` are aligned right.
    """

    def cell(column: int, content: object) -> Html:
        side = "num" if column in right else None
        if column > 0:
            return tag("td", content, class_=side)
        return tag("th", content, scope="row", class_="long" if len(str(content)) > _LONG else side)

    marks = ("num" if k in right else None for k in range(len(headings)))
    head = tag("tr", *(tag("th", text, scope="col", class_=mark) for text, mark in zip(headings, marks)))
    body = [
        tag("tr", tag("th", row, scope="row", colspan=len(headings)), class_="group")
        if isinstance(row, str)
        else tag("tr", *(cell(k, content) for k, content in enumerate(row)))
        for row in rows
    ]
    made = tag("table", tag("caption", caption), tag("thead", head), tag("tbody", *body), class_=style or None)
    return tag("div", made, class_="scroll", role="region", aria_label=caption, tabindex="0")


def figure(title: str, note: str, *content: object, **attributes: object) -> Html:
    """Return a figure with a heading in bold and a quiet note above it."""
    caption = tag("figcaption", tag("strong", title), tag("span", note, class_="quiet") if note else None)
    return tag("figure", caption, *content, **attributes)


def folded(summary: str, *content: object, open_: bool = False) -> Html:
    """Return content that is folded away on screens until asked for; printed in full."""
    return tag("details", tag("summary", summary), *content, open=open_)
