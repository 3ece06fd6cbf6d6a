"""The page on dynamics says what the library does: its snippets and commands are run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from minidyn.cli import main

PAGE = (Path(__file__).parents[2] / "docs" / "dynamics.md").read_text(encoding="utf-8")


def test_snippets_run() -> None:
    snippets = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    assert len(snippets) > 6
    scope: dict[str, object] = {}
    for snippet in snippets:
        exec(compile(snippet, "docs/dynamics.md", "exec"), scope)  # noqa: S102


def test_commands_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    commands = re.findall(r"^    minidyn (.*)$", PAGE, re.MULTILINE)
    assert len(commands) == 2
    for command in commands:
        result = CliRunner().invoke(main, command.split())
        assert result.exit_code == 0, result.output
    assert (tmp_path / "generated" / "puma560_inverse_dynamics.c").exists()
