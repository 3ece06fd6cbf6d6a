"""docs/equations.md says what the docstrings say."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
TESTS = re.compile(r"(?<=\.py\) \| )(none|\[test_[^|]*)(?= \|$)", re.MULTILINE)


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_equations", ROOT / "docs" / "make_equations.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # its dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def without_tests(text: str) -> str:
    """The page less the links to tests."""
    return TESTS.sub("", text)


def test_the_page_is_current(tool: ModuleType) -> None:
    """Equations and functions are as the code has them; the tests named are some of those that there are."""
    said, every = (ROOT / "docs" / "equations.md").read_text(encoding="utf-8"), tool.page(most=1000)
    assert without_tests(said) == without_tests(every), "run: make format"
    for named, known in zip(TESTS.findall(said), TESTS.findall(every)):
        assert named == known or set(named.split(", ")) <= set(known.split(", ")), "run: make format"


def test_the_page_looks_at_tests(tool: ModuleType) -> None:
    cells = TESTS.findall(tool.page())
    assert len(cells) > 60
    assert sum("](../tests/golden/" in cell for cell in cells) > 20
    assert cells.count("none") <= 3  # what has no test yet


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
