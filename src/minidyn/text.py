"""Text for people: foreign names made harmless, and numbers as they are read.

Names come from files and are not trusted: what would be acted upon (control characters, direction
marks, markup) is shown instead. Into generated code text of a user comes through `safe_comment`
and, for names, `safe_identifier` (:mod:`minidyn.graph.function`) alone: a comment keeps only
characters that can neither end it nor continue it on another line. `number`, `percent` and `count`
are typeset, for pages; `plain_number` and `plain_percent` are for terminals and Markdown.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Iterable

_HIDDEN = ("Cc", "Cf", "Cs", "Co", "Zl", "Zp")
"""Kinds of characters that are not seen but acted upon.

Control, direction marks, halves of pairs, line separators.
"""

LONGEST_COMMENT = 200
LONGEST_STEM = 80

_RESERVED = re.compile(r"con|prn|aux|nul|com\d|lpt\d", re.IGNORECASE)  # devices of Windows

_SUPER = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


# -------------------------------------------------------------------- foreign text


def plain(text: object, keep: str = "\n\t") -> str:
    """Return foreign text with characters that would be acted upon shown as codes.

    Those in `keep` stay.
    """
    shown = str(text)
    if shown.isascii() and shown.isprintable():  # nearly always
        return shown
    return "".join(
        character
        if character in keep or unicodedata.category(character) not in _HIDDEN
        else character.encode("unicode_escape").decode()
        for character in shown
    )


def visible(text: object) -> str:
    """Return foreign text on one line, with characters that would be acted upon shown as codes."""
    return plain(text, keep="")


def short(text: object, length: int = 24) -> str:
    """Return foreign text on one line, cut to a length."""
    shown = visible(text)
    return shown if len(shown) <= length else shown[: length - 1] + "…"


def markdown_cell(text: object) -> str:
    """Return `text` as one line of Markdown, for tables too: no HTML, links or cells of its own.

    Underscores stay as they are: inside words they mean nothing, and names with them are to be read
    on terminals.
    """
    shown = visible(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return "".join("\\" + c if c in "\\`*[]|!" else c for c in shown)


def markdown_table(align: str, headings: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Return a Markdown table of cells as they are; `align` has "l" or "r" for each column."""
    first, *lines = (f"| {' | '.join(cells)} |" for cells in (headings, *rows))
    rule = "|".join("---:" if side == "r" else "---" for side in align)
    return "\n".join([first, f"|{rule}|", *lines])


def plot_label(text: object, length: int = 60) -> str:
    """Return foreign text for matplotlib, which reads text between dollars as a formula."""
    return "".join(c if c.isprintable() else "?" for c in str(text))[:length].replace("$", r"\$")


# ------------------------------------------------------------- names and comments in generated code


def new_name(wanted: str, taken: set[str]) -> str:
    """Return a name that is not taken yet, as near to the wanted one as may be, and take it."""
    while wanted in taken:
        wanted += "_"
    taken.add(wanted)
    return wanted


def file_stem(name: str, default: str) -> str:
    """Return a name as the first part of a file's name: ASCII letters, digits, _ and - alone.

    `default` where nothing is left, and where an operating system keeps the name for itself.
    """
    stem = re.sub(r"[^A-Za-z0-9_-]+", "_", name).strip("_-")[:LONGEST_STEM]
    return default if not stem or _RESERVED.fullmatch(stem) else stem


def safe_comment(text: object) -> str:
    """Return `text` as one line that is harmless inside a C block comment or after a Python hash
    sign.

    Printable ASCII stays, except the star and the backslash (they end or continue comments) and the
    question mark (it begins trigraphs); these and everything else are written as ``<U+002A>``. Long
    text is cut.
    """
    line = str(text)
    if len(line) > LONGEST_COMMENT:
        line = line[:LONGEST_COMMENT] + "..."
    return "".join(c if " " <= c <= "~" and c not in "*\\?" else f"<U+{ord(c):04X}>" for c in line)


# -------------------------------------------------------------------- numbers


def plain_number(value: float, digits: int = 6) -> str:
    """Return a number for terminals; "unknown" for NaN, "-" for infinity."""
    if math.isnan(value):
        return "unknown"
    return "-" if math.isinf(value) else f"{value:.{digits}g}"


def plain_percent(value: float) -> str:
    """Return a share as percent for terminals and Markdown; "-" where it is not known."""
    if not math.isfinite(value):
        return "-"
    return f"{100 * value:.3g} %" if abs(value) < 9.995 else f"{100 * value:.0f} %"


def plain_amount(value: float, form: str) -> str:
    """Return a number in a format of Python for terminals and Markdown; "-" where not known."""
    return f"{value:{form}}" if math.isfinite(value) else "-"


def number(value: float | None, digits: int = 3) -> str:
    """Return a number with significant digits; powers of ten where it is very large or small.

    "–" where unknown.
    """
    if value is None or not math.isfinite(value):
        return "∞" if value is not None and math.isinf(value) and value > 0 else "–"
    if value == 0:
        return "0"
    size = math.floor(math.log10(abs(value)))
    if -4 <= size < 6:
        return fixed(value, max(0, digits - 1 - size))
    mantissa, _, power = f"{value:.{digits - 1}e}".partition("e")
    return f"{mantissa} · 10{str(int(power)).translate(_SUPER)}".replace("-", "−")


def count(value: int) -> str:
    """Return a whole number with thin spaces between thousands."""
    return f"{value:,}".replace(",", "\u202f")


def percent(value: float, digits: int = 2) -> str:
    """Return a share as percent; whole numbers from 100 % on."""
    if not math.isfinite(value):
        return "–"
    shown = 100 * value
    if abs(shown) >= 1000:
        return "> 1000 %"
    return f"{number(shown, max(digits, len(str(int(abs(shown))))))} %"


def with_error(value: float, error: float) -> tuple[str, str]:
    """Return (value, error) with as many decimals as two digits of the error need."""
    if not (math.isfinite(value) and math.isfinite(error)) or error <= 0:
        return number(value, 4), number(error, 2)
    places = min(9, max(0, 1 - math.floor(math.log10(error))))
    if abs(value) >= 1e6 or places == 9:
        return number(value, 4), number(error, 2)
    return fixed(value, places), f"{error:.{places}f}"


def fixed(value: float, places: int) -> str:
    """Return a number with so many decimals; zero has no sign."""
    shown = f"{value:.{places}f}"
    return (shown.lstrip("-") if float(shown) == 0.0 else shown).replace("-", "−")
