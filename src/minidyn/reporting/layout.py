"""Blocks that sections are made of: a section with a heading, a table that scrolls on narrow screens, folded text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from minidyn.reporting.html import Html, tag

__all__ = ["Section", "card", "folded", "table"]

_LONG = 24  # letters: names up to this length are not broken over lines


@dataclass(frozen=True)
class Section:
    """A part of the page.

    Attributes:
        key: Its address inside the page.
        title: Heading.
        lead: One or two sentences on what is seen and how to read it.
        content: The rest.
    """

    key: str
    title: str
    lead: str
    content: tuple[Html, ...]

    def html(self) -> Html:
        """Return the section."""
        return tag(
            "section",
            tag("h2", self.title, id=f"{self.key}-title"),
            tag("p", self.lead, class_="lead") if self.lead else None,
            *self.content,
            id=self.key,
            aria_labelledby=f"{self.key}-title",
        )


def table(
    caption: str,
    headings: Sequence[str],
    rows: Iterable[Sequence[object]],
    numeric: Sequence[int] = (),
    class_: str = "",
) -> Html:
    """Return a table; the first cell of a row is its heading.

    Args:
        caption: What the table shows, for those who hear it; also the name of its scroll area.
        headings: Of the columns.
        rows: Cells, text or Html.
        numeric: Columns of numbers, aligned right.
        class_: For the style sheet.
    """
    right = set(numeric)

    def mark(column: int) -> str | None:
        return "num" if column in right else None

    head = tag("tr", *(tag("th", text, scope="col", class_=mark(k)) for k, text in enumerate(headings)))
    body = [
        tag(
            "tr",
            *(
                tag("th", cell, scope="row", class_="long" if len(str(cell)) > _LONG else mark(k))
                if k == 0
                else tag("td", cell, class_=mark(k))
                for k, cell in enumerate(row)
            ),
        )
        for row in rows
    ]
    made = tag("table", tag("caption", caption), tag("thead", head), tag("tbody", *body), class_=class_ or None)
    return tag("div", made, class_="scroll", role="region", aria_label=caption, tabindex="0")


def folded(summary: str, *content: object, open_: bool = False) -> Html:
    """Return content that is folded away on screens until asked for; printed in full."""
    return tag("details", tag("summary", summary), *content, open=open_)


def card(label: str, value: str, note: str, level: str = "") -> Html:
    """Return one key figure: what it is, its value, how to read it."""
    return tag(
        "div",
        tag("dt", label),
        tag("dd", tag("span", value, class_="figure"), tag("span", note, class_="quiet")),
        class_=f"card {level}".strip(),
    )
