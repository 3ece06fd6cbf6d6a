"""The page of operation counts says what the program counts."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from conftest import LONG

DOCS = Path(__file__).parents[2] / "docs"
sys.path.insert(0, str(DOCS / "figures"))
import make_count_figure as page  # noqa: E402

QUICK = ["Against references", "All functions"]


@pytest.mark.parametrize("heading", [*page.sections()] if LONG else QUICK)
def test_tables_of_the_page_are_what_the_program_counts(heading: str) -> None:
    text = (DOCS / "operation-counts.md").read_text(encoding="utf-8")
    written = text.split(f"### {heading}\n\n")[1].split("\n\n")[0]
    assert written.splitlines() == page.sections()[heading]()
