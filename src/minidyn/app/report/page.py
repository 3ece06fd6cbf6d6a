"""A page: one HTML file that holds its own style, script and data, asks nothing of the network and forbids it even."""

from __future__ import annotations

import base64
import functools
import hashlib
import time
from collections.abc import Sequence
from importlib.resources import files

from minidyn import __version__
from minidyn.app.report.html import Section, data_block
from minidyn.display import Html, tag


def page(kind: str, title: str, about: str, sections: Sequence[Section]) -> str:
    """Return a whole file as text: what kind of page it is, its heading, a line of facts, and its sections.

    The section with the key "summary" comes first.
    """
    style, script = _asset("style.css"), _asset("view.js")
    policy = (  # nothing from anywhere; this style and this script alone
        f"default-src 'none'; style-src '{_digest(style)}'; script-src '{_digest(script)}'; base-uri 'none'; "
        "form-action 'none'"
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
    names = tag("ul", *(tag("li", tag("a", section.title, href=f"#{section.key}")) for section in sections))
    made = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime())
    kicker = tag("p", f"minidyn · {kind}", class_="kicker")
    banner = tag("div", kicker, tag("h1", title), tag("p", f"{about} · {made}", class_="quiet"))
    body = tag(
        "body",
        tag("a", "Skip to the summary", href="#summary", class_="skip"),
        tag("header", banner, tag("button", "Dark", type="button", id="theme", class_="screen-only", hidden=True)),
        tag("nav", tag("details", tag("summary", "Contents"), names, open=True), aria_label="Contents"),
        tag("p", role="status", id="status", class_="hidden"),
        tag("main", *(section.html() for section in sections), id="main"),
        tag("footer", tag("p", f"Made by minidyn {__version__}. This file is complete: it loads nothing.")),
        data_block("data", {key: value for section in sections for key, value in section.data.items()}),
        Html(f"<script>{script}</script>"),
    )
    return "<!DOCTYPE html>\n" + tag("html", head, body, lang="en") + "\n"


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


@functools.cache
def _asset(name: str) -> str:
    return files("minidyn.app.report").joinpath(name).read_text(encoding="utf-8")
