"""The page on regressors says what the library does: its snippets are run and the values beside them compared."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

import minidyn as md

PAGE = (Path(__file__).parents[2] / "docs" / "regressors.md").read_text(encoding="utf-8")
SNIPPETS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
# an expression, or an assignment whose value is asked for, and what the page says it is
CLAIM = re.compile(r"^(?:(\w+) = )?(\S.*?)\s{2,}# ([(\d'T].*)$", re.MULTILINE)


def test_snippets_run_and_say_the_truth() -> None:
    scope: dict[str, object] = {}
    printed = io.StringIO()
    claims = 0
    for snippet in SNIPPETS:
        with contextlib.redirect_stdout(printed):
            exec(compile(snippet, "docs/regressors.md", "exec"), scope)  # noqa: S102
        for _, expression, value in CLAIM.findall(snippet):
            if re.match(r"\d+ Hz", value):
                continue
            claims += 1
            assert str(eval(expression, scope)) == value, expression  # noqa: S307
    assert claims >= 10
    assert printed.getvalue() in PAGE
    assert printed.getvalue().count("\n") == 5


def test_cost_along_a_reference() -> None:
    robot = md.load("ur10e")
    plain, along = (md.compile(robot, what).counts["mul"] for what in ("regressor", "slotine_li_regressor"))
    assert f"{along} multiplications against {plain}" in PAGE


def test_every_call_of_the_table_exists() -> None:
    names = re.findall(r"^\| `md\.(\w+)\(", PAGE, re.MULTILINE)
    assert len(names) >= 8
    assert all(callable(getattr(md, name)) for name in names)
