"""docs/equations.md says what the docstrings say."""

from __future__ import annotations

import importlib
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
    sys.path.insert(0, str(ROOT / "docs"))  # where it finds the list of items
    spec = importlib.util.spec_from_file_location(
        "make_equations", ROOT / "docs" / "make_equations.py"
    )
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
    """Equations and functions are as the code has them.

    The tests named are some of those that there are.
    """
    said, every = (ROOT / "docs" / "equations.md").read_text(encoding="utf-8"), tool.page(most=1000)
    assert without_tests(said) == without_tests(every), "run: make format"
    for named, known in zip(TESTS.findall(said), TESTS.findall(every)):
        assert named == known or set(named.split(", ")) <= set(known.split(", ")), (
            "run: make format"
        )


def test_the_page_looks_at_tests(tool: ModuleType) -> None:
    cells = TESTS.findall(tool.page())
    assert len(cells) > 60
    assert sum("](../tests/golden/" in cell for cell in cells) > 20
    assert cells.count("none") <= 3  # what has no test yet


def test_every_paper_has_rows(tool: ModuleType) -> None:
    papers = {paper for entry in tool.entries() for paper, _ in tool.parts(entry.implements)}
    assert set(tool.PAPERS) <= papers


# counted in the papers
EQUATIONS = {
    "Gautier1991": 28,
    "Lin1992": 66,
    "LuMeng1993": 129,
    "Lin1994": 65 + 16,
    "LinFang1999": 55 + 10 + 12 + 3,
}
NAMED = {
    "Gautier1991": "Table I, Table II, Table III, Table IV, Table V, Fig. 1, Fig. 2",
    "Lin1992": "Theorem 2, Theorem 4, Lemma 1, Lemma 3, Property 1, Property 2, Algorithm 1, Algorithm "  # noqa: E501
    "2, Table I, Table II, Fig. 1, Fig. 2",
    "LuMeng1993": "Fig. 1, Fig. 2, Fig. 3, Fig. 4, Fig. 5",
    "Lin1994": "Theorem 1, Theorem 2, Theorem 3, Theorem 4, Theorem 5, Corollary 6, Property 1, Property "  # noqa: E501
    "2, Property 3, Property 4, Lemma A1, Lemma A2, Fig. 1, Fig. 2",
    "LinFang1999": (
        "Theorem 1, Table I, Table II, Table III, Table IV, Table V, Table VI, Table VII, Table "
        "VIII"
    ),
}
LAST = {
    "Lin1994": "(A16)",
    "LinFang1999": "(C3)",
    "LuMeng1993": "(129)",
    "Lin1992": "(66)",
    "Gautier1991": "(28)",
}


@pytest.mark.parametrize("paper", EQUATIONS)
def test_every_item_of_a_paper_is_mapped_or_has_a_reason(tool: ModuleType, paper: str) -> None:
    items = sys.modules["paper_items"].every_item(paper)
    equations = [item for item in items if item.startswith("(")]
    assert len(set(equations)) == len(equations) == EQUATIONS[paper]
    assert equations[-1] == LAST[paper]
    assert [item for item in items if not item.startswith("(")] == NAMED[paper].split(", ")
    rows = tool._items(paper, tool.entries())
    assert all(where for _, where in rows), [names for names, where in rows if not where]
    order = {item: k for k, item in enumerate(items)}
    covered = [
        k
        for names, _ in rows
        for k in range(order[names.split(" to ")[0]], order[names.split(" to ")[-1]] + 1)
    ]
    assert covered == list(range(len(items)))


def test_homes_exist_and_repeat_no_docstring(tool: ModuleType) -> None:
    known = sys.modules["paper_items"]
    said = {
        (paper, item)
        for entry in tool.entries()
        for paper, text in tool.parts(entry.implements)
        if paper
        for item in known.items_in(text)
    }
    for paper, homes in known.HOMES.items():
        for home in homes:
            named = known.items_in(home.items)
            assert named
            assert named <= set(known.every_item(paper)), home.items
            if home.symbol:
                module, _, name = home.symbol.partition(":")
                assert hasattr(importlib.import_module(module), name), home.symbol
            else:
                assert home.words
                assert not any((paper, item) in said for item in named), (
                    f"{home.items}: a docstring names it"
                )


@pytest.mark.parametrize(
    ("text", "items"),
    [
        ("eq. (5)-(7), (A2)", {"(5)", "(6)", "(7)", "(A2)"}),
        ("Tables I, II and IV", {"Table I", "Table II", "Table IV"}),
        ("Tables I-III", {"Table I", "Table II", "Table III"}),
        ("Theorem 4, Theorem 5 and eq. (53)-(54)", {"Theorem 4", "Theorem 5", "(53)", "(54)"}),
        ("section V-B, Figs. 4 and 5", {"Fig. 4", "Fig. 5"}),
        ("Lemma A1", {"Lemma A1"}),
        ("section 2 of somebody", set()),
    ],
)
def test_items_in_words(tool: ModuleType, text: str, items: set[str]) -> None:
    assert sys.modules["paper_items"].items_in(text) == items


def test_names_in_code_marks_exist(tool: ModuleType) -> None:
    """Every link of the page leads to a file that holds the name."""
    for name, path in re.findall(r"\[([\w.]+)\]\(\.\./((?:src|tests)/[\w/]+\.py)\)", tool.page()):
        if "/test_" in path:
            continue
        own = name.split(".")[-1]
        text = (ROOT / path).read_text(encoding="utf-8")
        assert own == Path(path).stem or re.search(rf"\b{own}\b", text), f"{name}: not in {path}"


def test_lines_are_split_by_paper(tool: ModuleType) -> None:
    said = "Lin1992 eq. (18)-(28), Lin1994 eq. (21), LinFang1999 Theorem 1 and eq. (27)"
    assert tool.parts(said) == [
        ("Lin1992", "eq. (18)-(28)"),
        ("Lin1994", "eq. (21)"),
        ("LinFang1999", "Theorem 1 and eq. (27)"),
    ]
    assert tool.parts("somebody else") == [("", "somebody else")]
    assert tool.parts("") == []
