"""Notices: values with codes; the page that lists them; no plain text among them."""

from __future__ import annotations

import ast
import importlib.util
import pickle
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

import minidyn
from minidyn.errors import DescriptionError
from minidyn.notices import KINDS, LEVELS, Kind, Notice, most_serious_first, warning

ROOT = Path(__file__).parents[2]
SOURCE = Path(minidyn.__file__).parent

NOISY = Kind("test.noisy", "error", "The log is noisy.", "Record {joint} again.")


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_notices", ROOT / "docs" / "make_notices.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_a_notice_is_a_sentence_with_a_code() -> None:
    made = NOISY("elbow: 3 N m of noise", joint="elbow", noise=3.0)
    assert (made.code, made.level, str(made)) == ("test.noisy", "error", "elbow: 3 N m of noise")
    assert made.advice == "Record elbow again."
    assert dict(made.data) == {"joint": "elbow", "noise": 3.0}
    assert Notice.from_json(made.to_json()) == made
    assert pickle.loads(pickle.dumps(made)) == made
    assert Notice.from_json("as older files have it") == Notice(
        "unsorted", "warning", "as older files have it"
    )
    for old, level in (("act", "error"), ("look", "warning"), ("info", "info")):
        assert Notice.from_json({**made.to_json(), "level": old}).level == level
    with pytest.raises(DescriptionError, match="a notice: expected code"):
        Notice.from_json({"code": "x", "level": "grave"})


def test_the_most_serious_come_first_each_once() -> None:
    error, warned, info = (
        NOISY("a", joint="b"),
        Notice("test.look", "warning", "l"),
        Notice("test.info", "info", "i"),
    )
    assert most_serious_first([info, warned, error, warned]) == [error, warned, info]


def test_a_code_is_declared_once() -> None:
    warning("test.once", "Only here.")
    try:
        with pytest.raises(ValueError, match="declared twice"):
            warning("test.once", "Again.")
    finally:
        del KINDS["test.once"]


def test_the_page_lists_every_kind(tool: ModuleType) -> None:
    found = [one for one in tool.kinds() if not one.code.startswith("test.")]
    assert (ROOT / "docs" / "notices.md").read_text(encoding="utf-8") == tool.page(found), (
        "run: make format"
    )
    for one in found:
        assert one.level in LEVELS
        assert re.fullmatch(r"[a-z_]+\.[a-z_0-9.]+", one.code), one.code
        assert one.meaning.endswith("."), one.code
        assert one.advice or one.level != "error", f"{one.code}: what is there to do?"
    shown = tool.page([Kind("test.bar", "warning", "a | b", "Look at {joint:.3g}.")])
    assert "| `test.bar` | warning | a \\| b | Look at *joint*. |" in shown


def plain_texts(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield lines at which plain text becomes a notice, or at which notices are declared as
    texts.
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.arg | ast.AnnAssign) and node.annotation is not None:
            name = node.arg if isinstance(node, ast.arg) else _name(node.target)
            kind_of = ast.unparse(node.annotation)
            if _of_notices(name) and re.search(r"\bstr\b", kind_of):
                yield node.lineno, f"{name}: {kind_of}"
        added: list[ast.expr] = []
        if isinstance(node, ast.Call):
            added = [word.value for word in node.keywords if word.arg == "notices"]
            if isinstance(node.func, ast.Attribute) and node.func.attr in (
                "append",
                "extend",
                "insert",
            ):
                added += node.args if _of_notices(_name(node.func.value)) else []
        elif isinstance(node, ast.Assign | ast.AugAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            added = [node.value] if any(_of_notices(_name(target)) for target in targets) else []
        yield from ((node.lineno, ast.unparse(text)) for value in added for text in _texts(value))


def _name(node: ast.expr) -> str:
    return (
        node.id
        if isinstance(node, ast.Name)
        else node.attr
        if isinstance(node, ast.Attribute)
        else ""
    )


def _of_notices(name: str) -> bool:
    return name in ("notices", "told") or name.endswith("_notices")


def _texts(node: ast.expr) -> Iterator[ast.expr]:
    """The plain texts that an expression may give or hold."""
    if isinstance(node, ast.JoinedStr) or (
        isinstance(node, ast.Constant) and isinstance(node.value, str)
    ):
        yield node
    elif isinstance(node, ast.List | ast.Tuple | ast.Set):
        for element in node.elts:
            yield from _texts(element)
    elif isinstance(node, ast.ListComp | ast.GeneratorExp | ast.SetComp):
        yield from _texts(node.elt)
    elif isinstance(node, ast.IfExp):
        yield from _texts(node.body)
        yield from _texts(node.orelse)
    elif isinstance(node, ast.BinOp):
        yield from _texts(node.left)
        yield from _texts(node.right)
    elif isinstance(node, ast.Starred):
        yield from _texts(node.value)
    elif (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in ("tuple", "list", "sorted")
    ):
        for argument in node.args:
            yield from _texts(argument)


def test_no_plain_text_becomes_a_notice() -> None:
    wrong = []
    for path in sorted(SOURCE.rglob("*.py")):
        where = path.relative_to(SOURCE)
        if where.name != "notices.py":
            found = plain_texts(ast.parse(path.read_text(encoding="utf-8")))
            wrong += [f"{where}:{line}: {text}" for line, text in found]
    assert wrong == [], "declare a kind by minidyn.notices.kind and call it"


def test_plain_texts_are_seen() -> None:
    seen = """
def f(notices: list[str], count):
    notices.append(f"{count} gaps")
    notices += ["a"] if count else []
    notices.extend(GAPS(f"{one}") for one in count)
    notices.append(GAPS("fine", count=count))
    return Recording(notices=(*notices, "text"))
"""
    assert sorted(line for line, _ in plain_texts(ast.parse(seen))) == [2, 3, 4, 7]
