"""HTML that cannot be broken from outside: text is escaped unless it was made here.

Joint, link and file names come from strangers. Every element is made by :func:`tag`, which escapes what it is given;
only :class:`Html`, which `tag` returns, passes unchanged.

Blocks that sections are made of: a section with a heading, a table that scrolls on narrow screens, folded text.
"""

from __future__ import annotations

import html
import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from minidyn.text import visible

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


_VOID = {"meta", "br", "hr", "col"}


class Html(str):
    """Markup that is safe to put into a page."""

    __slots__ = ()


def tag(name: str, /, *children: object, **attributes: object) -> Html:
    """Return an element.

    Args:
        name: Of the element.
        children: Html as it is, None not at all, everything else escaped.
        attributes: Underscores become hyphens, one at the end is dropped (`class_`); None and False leave an attribute
            out, True gives it without a value. Numbers are written short.
    """
    parts = [name]
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        word = key.rstrip("_").replace("_", "-")
        parts.append(word if value is True else f'{word}="{html.escape(_text(value))}"')
    opened = f"<{' '.join(parts)}>"
    return Html(opened if name in _VOID else f"{opened}{join(children)}</{name}>")


def join(children: Iterable[object], between: str = "") -> Html:
    """Return children one after the other, escaped as by `tag`."""
    shown = [child if isinstance(child, Html) else html.escape(_text(child)) for child in children if child is not None]
    return Html(between.join(shown))


def data_block(name: str, content: Any) -> Html:
    """Return data for scripts: JSON in an element that is not executed and that no text inside can close.

    NaN and infinity become null.
    """
    text = json.dumps(_finite(content), separators=(",", ":"), allow_nan=False, ensure_ascii=True)
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Html(f'<script type="application/json" id="{html.escape(name)}">{text}</script>')


def _finite(content: Any) -> Any:
    if isinstance(content, float):
        return content if math.isfinite(content) else None
    if isinstance(content, dict):
        return {str(key): _finite(value) for key, value in content.items()}
    if isinstance(content, list | tuple):
        return [_finite(value) for value in content]
    return content


def _text(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.2f}".rstrip("0").rstrip(".")
    return value if isinstance(value, Html) else visible(value)
