"""The page on recordings says what the library does: its snippets are run."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import minidyn as md
from minidyn.app.cli.main import main

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "recordings.md").read_text(encoding="utf-8")


def run(kind: str, scope: dict[str, object]) -> None:
    snippets = re.findall(rf"```{kind}\n(.*?)```", PAGE, re.DOTALL)
    assert len(snippets) > 1
    for snippet in snippets:
        exec(compile(snippet, "docs/recordings.md", "exec"), scope)  # noqa: S102


def test_snippets_run(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    scope: dict[str, object] = {}
    run("python", scope)
    printed = capsys.readouterr().out.splitlines()
    shown = [
        line
        for text in re.findall(r"```text\n(.*?)```", PAGE, re.DOTALL)
        for line in text.splitlines()
    ]
    assert len(shown) > 5
    assert printed[: len(shown)] == shown
    np.testing.assert_allclose(scope["recording"].q, scope["q"], atol=1e-12)
    np.testing.assert_allclose(scope["recording"].tau, scope["tau"], atol=1e-9)


TX40 = ROOT.parent / "shared" / "data" / "tx40_exciting"


@pytest.mark.skipif(not TX40.is_dir(), reason="the measurements of the TX40 are not here")
def test_calls_for_real_logs_run(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    for file in TX40.iterdir():
        (tmp_path / file.name).symlink_to(file)
    assert CliRunner().invoke(main, ["example", "ur10"]).exit_code == 0
    scope: dict[str, object] = {"np": np, "md": md}
    run("py", scope)
    assert len(scope["tx40_log"]) == 45000
    assert len(scope["ur10_log"]) == 3441


def test_every_option_is_on_the_page() -> None:
    from minidyn.recording.read.mapping import OPTIONS

    for name in OPTIONS:
        assert f"`{name}`" in PAGE, name
