"""The comparison with other tools: what the page says of its tables is true of them.

Missing tools are left out.
"""

import importlib
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]


def rows() -> list[list[str]]:
    """Return the cells of the table of tools, as the script wrote it."""
    page = (ROOT / "docs" / "comparison.md").read_text(encoding="utf-8")
    found = re.search(r"<!-- peers: begin -->(.*)<!-- peers: end -->", page, re.DOTALL)
    assert found
    table = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in found.group(1).splitlines()
    ]
    return [cells for cells in table if len(cells) == 6 and cells[4].endswith("%")]


def error(cells: list[str]) -> float:
    return float(cells[4].removesuffix(" %"))


def test_every_tool_of_the_script_is_in_the_table(script: ModuleType) -> None:
    assert {cells[0].split(",")[0] for cells in rows()} == set(script.CONTESTANTS)


def test_what_is_said_of_the_table_is_true() -> None:
    """Least squares with a plain sign is the same in every tool.

    The width and the terms of friction are the gain.
    """
    least = [
        error(c)
        for c in rows()
        if c[0].startswith("Pinocchio") or "wls=True" in c[1] or "sign_width=0" in c[1]
    ]
    assert len(least) >= 5
    assert max(least) < 1.06 * min(least)
    ours = {c[1].split(":")[0]: error(c) for c in rows() if c[0] == "minidyn"}
    assert ours['`friction="auto"`'] < ours["`md.identify`, defaults"] < 0.8 * min(least)


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    yield importlib.import_module("peers_identification")
    sys.modules.pop("peers_identification")


def test_a_missing_tool_is_left_out_and_never_written(
    script: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    page = tmp_path / "comparison.md"
    page.write_text("<!-- peers: begin -->old<!-- peers: end -->")
    monkeypatch.setattr(script, "PAGE", page)
    monkeypatch.setattr(script, "DATA", tmp_path)
    monkeypatch.setattr(script, "ur10", lambda: None)
    monkeypatch.setattr(script, "base_table", lambda: "")
    row = script.Row("here", "default", 58, True, 0.0592, 1.7)
    here, gone = (
        (lambda log: [row], ("minidyn",)),
        (lambda log: 1 / 0, ("minidyn", "no_such_tool.inside")),
    )
    monkeypatch.setattr(script, "CONTESTANTS", {"here": here, "gone": gone})
    monkeypatch.setattr(sys, "argv", ["peers_identification.py", "--docs"])
    with pytest.raises(SystemExit, match="not written without gone"):
        script.main()
    said = capsys.readouterr().out
    assert "gone: left out; not installed: no_such_tool.inside" in said
    assert "| here | default | 58 | yes | 5.92 % | 1.7 |" in said
    assert "old" in page.read_text()
    monkeypatch.setattr(script, "CONTESTANTS", {"here": here})
    script.main()
    assert "| here | default | 58 | yes | 5.92 % | 1.7 |" in page.read_text()
    page.write_text("no marks")
    with pytest.raises(SystemExit, match="expected one pair of marks"):
        script.main()
