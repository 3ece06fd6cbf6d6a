"""Text for people: nothing in a foreign name is acted upon, and numbers read as they should."""

from __future__ import annotations

import math

import pytest

from minidyn.text import (
    markdown_cell,
    number,
    percent,
    plain,
    plain_number,
    plain_percent,
    plot_label,
    short,
    visible,
)

HOSTILE = "a\x1b[31m\u202eb\u2028c\nd\te\x00\ud800"


def test_what_would_be_acted_upon_is_shown() -> None:
    assert plain(HOSTILE) == "a\\x1b[31m\\u202eb\\u2028c\nd\te\\x00\\ud800"
    assert visible(HOSTILE) == "a\\x1b[31m\\u202eb\\u2028c\\nd\\te\\x00\\ud800"
    assert visible("1\u202f000 \u00b5\u00a0") == "1\u202f000 \u00b5\u00a0"
    assert plot_label("$x$\n", 20) == r"\$x\$?"


def test_text_is_cut() -> None:
    assert short("x" * 30, 10) == "x" * 9 + "…"
    assert plot_label("$" * 30, 10) == r"\$" * 10


def test_markdown_has_no_markup_of_its_own() -> None:
    assert markdown_cell("<b>|[x](y)`*!\\_&") == "&lt;b&gt;\\|\\[x\\](y)\\`\\*\\!\\\\_&amp;"
    assert "\n" not in markdown_cell(HOSTILE)


@pytest.mark.parametrize(
    ("value", "terminal", "page"),
    [
        (math.nan, "unknown", "–"),
        (math.inf, "-", "∞"),
        (0.0, "0", "0"),
        (-1.23456789, "-1.23457", "−1.23"),
    ],
)
def test_numbers(value: float, terminal: str, page: str) -> None:
    assert plain_number(value) == terminal
    assert number(value) == page


def test_shares() -> None:
    assert (plain_percent(0.12345), plain_percent(math.nan)) == ("12.3 %", "-")
    assert plain_percent(10.8) == "1080 %"
    assert (percent(0.12345, 3), percent(math.nan), percent(20.0)) == ("12.3 %", "–", "> 1000 %")
