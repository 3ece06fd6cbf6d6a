"""The page: one file that asks nothing of the network, forbids it even, and holds its own style, script and data."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import Any

from minidyn.reporting.facts import Facts
from minidyn.reporting.html import Html, data_block, tag
from minidyn.reporting.layout import Section
from minidyn.reporting.numbers import count

__all__ = ["page"]


def page(facts: Facts, title: str, sections: Sequence[Section], data: dict[str, Any]) -> str:
    """Return the whole file as text."""
    style, script = _asset("style.css"), _asset("view.js")
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=_policy(style, script)),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("meta", name="referrer", content="no-referrer"),
        tag("meta", name="generator", content=f"minidyn {facts.versions.get('minidyn', '')}"),
        tag("title", title),
        Html(f"<style>{style}</style>"),
    )
    names = tag("ul", *(tag("li", tag("a", section.title, href=f"#{section.key}")) for section in sections))
    robot = facts.estimate.robot
    body = tag(
        "body",
        tag("a", "Skip to the summary", href="#summary", class_="skip"),
        tag(
            "header",
            tag(
                "div",
                tag("p", "minidyn · identification report", class_="kicker"),
                tag("h1", title),
                tag("p", f"{robot.n} joints · {count(facts.estimate.samples)} samples · {facts.made}", class_="quiet"),
            ),
            tag("button", "Dark", type="button", id="theme", class_="screen-only", hidden=True),
        ),
        tag("nav", tag("details", tag("summary", "Contents"), names, open=True), aria_label="Contents"),
        tag("p", role="status", id="status", class_="hidden"),
        tag("main", *(section.html() for section in sections), id="main"),
        tag(
            "footer",
            tag("p", f"Made by minidyn {facts.versions.get('minidyn', '')}. This file is complete: it loads nothing."),
        ),
        data_block("data", data),
        Html(f"<script>{script}</script>"),
    )
    return "<!DOCTYPE html>\n" + tag("html", head, body, lang="en") + "\n"


def _policy(style: str, script: str) -> str:
    """Nothing from anywhere; this style and this script alone."""
    return (
        f"default-src 'none'; style-src '{_digest(style)}'; script-src '{_digest(script)}'; base-uri 'none'; "
        "form-action 'none'"
    )


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


@cache
def _asset(name: str) -> str:
    return files("minidyn.reporting").joinpath(name).read_text(encoding="utf-8")
