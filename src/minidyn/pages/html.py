"""A page and what it is made of: sections, tables, figures, folded text, and data for its script.

A page is one HTML file that holds its own style, script and data. It asks nothing of the network
and forbids it even.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import html
import json
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any

from minidyn import __version__
from minidyn.arrays import plain_values
from minidyn.display import Html, tag
from minidyn.notices import Notice
from minidyn.text import visible

_LONG = 24  # letters: names up to this length are not broken over lines


def data_block(name: str, content: Any) -> Html:
    """Return data for scripts.

    JSON in an element that is not executed and that no text inside can close. NaN and infinity
    become null.
    """
    text = json.dumps(
        plain_values(content, finite=True),
        separators=(",", ":"),
        allow_nan=False,
        ensure_ascii=True,
    )
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
    data: Mapping[str, Any] = field(
        default_factory=dict
    )  # what the page's script draws from, by name

    def html(self) -> Html:
        """Return the section."""
        heading = tag("h2", self.title, id=f"{self.key}-title")
        lead = tag("p", self.lead, class_="lead") if self.lead else None
        return tag(
            "section",
            heading,
            lead,
            *self.content,
            id=self.key,
            aria_labelledby=f"{self.key}-title",
        )


def table(
    caption: str,
    headings: Sequence[str],
    rows: Iterable[Sequence[object] | str],
    right: Sequence[int] = (),
    style: str = "",
) -> Html:
    """Return a table; the first cell of a row is its heading, cells are text or Html.

    A text alone heads a group. The caption is for those who hear it and also names the scroll area;
    columns `right` are aligned right.
    """

    def cell(column: int, content: object) -> Html:
        side = "num" if column in right else None
        if column > 0:
            return tag("td", content, class_=side)
        return tag("th", content, scope="row", class_="long" if len(str(content)) > _LONG else side)

    marks = ("num" if k in right else None for k in range(len(headings)))
    head = tag(
        "tr", *(tag("th", text, scope="col", class_=mark) for text, mark in zip(headings, marks))
    )
    body = [
        tag("tr", tag("th", row, scope="row", colspan=len(headings)), class_="group")
        if isinstance(row, str)
        else tag("tr", *(cell(k, content) for k, content in enumerate(row)))
        for row in rows
    ]
    made = tag(
        "table",
        tag("caption", caption),
        tag("thead", head),
        tag("tbody", *body),
        class_=style or None,
    )
    return tag("div", made, class_="scroll", role="region", aria_label=caption, tabindex="0")


def figure(title: str, note: str, *content: object, **attributes: object) -> Html:
    """Return a figure with a heading in bold and a quiet note above it."""
    caption = tag(
        "figcaption", tag("strong", title), tag("span", note, class_="quiet") if note else None
    )
    return tag("figure", caption, *content, **attributes)


def folded(summary: str, *content: object, open_: bool = False) -> Html:
    """Return content that is folded away on screens until asked for; printed in full."""
    return tag("details", tag("summary", summary), *content, open=open_)


def notice_section(notices: Iterable[Notice], lead: str) -> Section | None:
    """Return all notices, most serious first; None where there are none."""
    titles = {"error": "Errors", "warning": "Warnings", "info": "Information"}
    given, groups = list(notices), []
    for level, title in titles.items():
        found = [one for one in given if one.level == level]
        if found:
            content = tag("ul", *map(_notice, found), class_=f"notices {level}")
            groups.append(folded(f"{title} ({len(found)})", content, open_=level != "info"))
    return Section("notices", "Notices", lead, tuple(groups)) if groups else None


def _notice(notice: Notice) -> Html:
    advice = tag("p", notice.advice, class_="advice") if notice.advice else None
    return tag("li", tag("p", sentence(notice.text)), advice)


def sentence(text: str) -> str:
    """Return a text with a full stop, control characters made visible."""
    return visible(text) + ("" if text.endswith((".", "?")) else ".")


def page(
    kind: str, title: str, about: str, sections: Sequence[Section], script_files: Sequence[str] = ()
) -> str:
    """Return a whole file as text.

    What kind of page it is, its heading, a line of facts, and its sections. The section with the
    key "summary" comes first. `script_files` are those of this folder that it needs beside the one
    of all pages.
    """
    style, script = (
        _asset("style.css"),
        "\n".join(_asset(name) for name in ("view.js", *script_files)),
    )
    policy = (  # nothing from anywhere; this style and this script alone
        f"default-src 'none'; style-src '{_digest(style)}'; script-src '{_digest(script)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=policy),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("meta", name="referrer", content="no-referrer"),
        tag("meta", name="generator", content=f"minidyn {__version__}"),
        tag("title", title),
        Html(f"<style>{style}</style>"),
    )
    names = tag(
        "ul", *(tag("li", tag("a", section.title, href=f"#{section.key}")) for section in sections)
    )
    made = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime())
    kicker = tag("p", f"minidyn · {kind}", class_="kicker")
    banner = tag("div", kicker, tag("h1", title), tag("p", f"{about} · {made}", class_="quiet"))
    body = tag(
        "body",
        tag("a", "Skip to the summary", href="#summary", class_="skip"),
        tag(
            "header",
            banner,
            tag("button", "Dark", type="button", id="theme", class_="screen-only", hidden=True),
        ),
        tag(
            "nav",
            tag("details", tag("summary", "Contents"), names, open=True),
            aria_label="Contents",
        ),
        tag("p", role="status", id="status", class_="hidden"),
        tag("main", *(section.html() for section in sections), id="main"),
        tag(
            "footer",
            tag("p", f"Made by minidyn {__version__}. This file is complete: it loads nothing."),
        ),
        data_block(
            "data", {key: value for section in sections for key, value in section.data.items()}
        ),
        Html(f"<script>{script}</script>"),
    )
    return "<!DOCTYPE html>\n" + tag("html", head, body, lang="en") + "\n"


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


@functools.cache
def _asset(name: str) -> str:
    return files("minidyn.pages").joinpath(name).read_text(encoding="utf-8")
