"""Lessons run from the first cell to the last, and their exercises have answers."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import pytest

LESSONS = sorted((Path(__file__).parents[2] / "lessons").glob("*.ipynb"))


def cells(path: Path, kind: str) -> list[str]:
    notebook = json.loads(path.read_text(encoding="utf-8"))
    assert notebook["nbformat"] == 4
    return ["".join(each["source"]) for each in notebook["cells"] if each["cell_type"] == kind]


def test_there_are_six() -> None:
    assert len(LESSONS) == 6


@pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem)
def test_a_lesson_runs(path: Path) -> None:
    pytest.importorskip("matplotlib")
    scope: dict[str, Any] = {}
    exercises = 0
    for source in cells(path, "code"):
        tree = ast.parse(source)
        exec(compile(tree, path.name, "exec"), scope)  # noqa: S102 (our own text)
        last = tree.body[-1]
        if source.startswith("answer = None"):
            assert isinstance(last, ast.Expr)
            assert isinstance(last.value, ast.Call)
            truth = eval(compile(ast.Expression(last.value.args[1]), path.name, "eval"), scope)  # noqa: S307
            assert scope["check"](None, truth).startswith("write")
            assert scope["check"](truth, truth) == "right"
            assert scope["check"](truth + 1, truth) == "not yet"
            exercises += 1
    assert exercises == 3
    text = "\n".join(cells(path, "markdown"))
    for part in ("**Question.**", "## By hand", "picture", "## Exercises"):
        assert part in text
