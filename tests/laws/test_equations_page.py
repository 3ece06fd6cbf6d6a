"""docs/equations.md says what the docstrings say."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_equations", ROOT / "docs" / "make_equations.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # its dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def test_the_page_is_current(tool: ModuleType) -> None:
    said = (ROOT / "docs" / "equations.md").read_text(encoding="utf-8")
    assert said == tool.page(), "run: python docs/make_equations.py"


def test_every_row_names_a_test(tool: ModuleType) -> None:
    rows = re.findall(r"^\| (?:eq|Table|Theorem).*\|$", tool.page(), re.MULTILINE)
    assert len(rows) > 60
    assert not [row for row in rows if row.endswith("| none |")]


def test_every_paper_has_rows(tool: ModuleType) -> None:
    papers = {paper for entry in tool.entries() for paper, _ in tool.parts(entry.implements)}
    assert set(tool.PAPERS) <= papers


def test_lines_are_split_by_paper(tool: ModuleType) -> None:
    said = "Lin1992 eq. (18)-(28), Lin1994 eq. (21), LinFang1999 Theorem 1 and eq. (27)"
    assert tool.parts(said) == [
        ("Lin1992", "eq. (18)-(28)"),
        ("Lin1994", "eq. (21)"),
        ("LinFang1999", "Theorem 1 and eq. (27)"),
    ]
    assert tool.parts("somebody else") == [("", "somebody else")]
    assert tool.parts("") == []
