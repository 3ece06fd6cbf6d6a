"""The examples run, are short, and are all in the list."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("script", EXAMPLES, ids=lambda path: path.name)
def test_example_runs(
    script: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    if "import torch" in script.read_text(encoding="utf-8"):
        pytest.importorskip("torch", reason="needs PyTorch")
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(script), run_name="__main__")
    shown = capfd.readouterr()
    assert shown.out.strip(), "an example shows something"
    assert shown.err == ""


@pytest.mark.parametrize("script", EXAMPLES, ids=lambda path: path.name)
def test_example_is_short_and_says_what_it_shows(script: Path) -> None:
    text = script.read_text(encoding="utf-8")
    assert len(text.splitlines()) < 60
    assert text.startswith('"""')
    assert "import minidyn as md" in text


def test_examples_are_numbered_and_listed() -> None:
    numbers = [int(script.name.partition("_")[0]) for script in EXAMPLES]
    assert numbers == list(range(1, len(EXAMPLES) + 1))
    assert len(EXAMPLES) >= 10
    listed = re.findall(
        r"\[(\d\d_\w+\.py)\]\(\1\)", (ROOT / "examples" / "README.md").read_text(encoding="utf-8")
    )
    assert listed == [script.name for script in EXAMPLES]
