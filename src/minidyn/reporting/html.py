"""HTML that cannot be broken from outside: text is escaped unless it was made here.

Joint, link and file names come from strangers. Every element is made by :func:`tag`, which escapes what it is given;
only :class:`Html`, which `tag` returns, passes unchanged.
"""

from __future__ import annotations

import html
import json
import math
import unicodedata
from collections.abc import Iterable
from typing import Any

__all__ = ["Html", "data_block", "join", "short", "tag", "visible"]

_HIDDEN = ("Cc", "Cf", "Cs", "Co", "Zl", "Zp")
"""Kinds of characters that are not seen but acted upon: control, direction marks, halves of pairs, line separators."""

_VOID = {"meta", "br", "hr", "col"}


class Html(str):
    """Markup that is safe to put into a page."""

    __slots__ = ()


def visible(text: object) -> str:
    """Return foreign text on one line, with characters that would be acted upon shown as codes."""
    return "".join(
        character.encode("unicode_escape").decode() if unicodedata.category(character) in _HIDDEN else character
        for character in str(text)
    )


def short(text: object, length: int = 24) -> str:
    """Return foreign text cut to a length, for places in figures."""
    shown = visible(text)
    return shown if len(shown) <= length else shown[: length - 1] + "…"


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
