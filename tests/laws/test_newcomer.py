"""What CONTRIBUTING.md promises a newcomer.

The files it names exist, and a default stands in one place.
"""

from __future__ import annotations

import re
from inspect import signature
from pathlib import Path

import minidyn as md

ROOT = Path(__file__).parents[2]
GUIDE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
CHANGES = GUIDE.partition("## Ten changes")[2].partition("\n## ")[0]


def test_files_of_the_guide_exist() -> None:
    named = {name for name in re.findall(r"`([\w/.]+(?:\.py|/))`", GUIDE) if "NN" not in name}
    assert len(named) > 30
    for name in named:
        places = [ROOT / name, ROOT / "src" / "minidyn" / name, ROOT / "tests" / "laws" / name]
        assert any(place.exists() for place in places), (
            f"CONTRIBUTING.md names {name}, which does not exist"
        )


def test_tables_of_the_guide_exist() -> None:
    """Each row names the table to extend; a file that it touches defines it."""
    rows = [
        [cell.strip() for cell in line.strip("|").split(" | ")]
        for line in CHANGES.splitlines()
        if line[:1] == "|"
    ]
    assert len(rows) == 13  # head, rule, ten changes and a second form of one
    for change, files, write, _ in rows[2:]:
        paths = [ROOT / "src" / "minidyn" / name for name in re.findall(r"`([\w/.]+)`", files)]
        assert 1 <= len(paths) <= 3, change
        text = "".join(path.read_text(encoding="utf-8") for path in paths if path.is_file())
        for table in re.findall(r"`(_?[A-Z][A-Z_]+)`", write):
            assert re.search(rf"^{table}\b", text, re.MULTILINE), (
                f"{change}: {table} is in none of {files}"
            )


def test_a_plan_is_made_for_the_terms_of_a_fit() -> None:
    for name, parameter in signature(md.one_joint_plan).parameters.items():
        if name in ("friction", "rotor_inertia"):
            assert parameter.default == getattr(md.Settings(), name)
