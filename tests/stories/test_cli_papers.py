"""What readers of the papers ask the shell: sets compared and split, what adaptive use costs."""

from __future__ import annotations

import json
from pathlib import Path

from click.testing import CliRunner

import minidyn as md
from minidyn.app.cli.main import main


def shown(*words: str) -> str:
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_printed_sets_are_compared(tmp_path: Path) -> None:
    robot = md.load("scara")
    one, two, bad = (tmp_path / f"{name}.txt" for name in ("exact", "rule", "wrong"))
    one.write_text("# as printed\n" + "\n".join(map(str, md.base_parameters(robot).relations())))
    rule = md.base_parameters(robot, "mlc").relations()
    two.write_text("\n".join(each.ascii() for each in rule))
    lines = one.read_text().replace("a2²", "a2").splitlines()
    bad.write_text("\n".join(lines[:-1]))
    text = shown("equivalence", "scara", str(one), str(two))
    assert "the sets are equivalent: each determines the others" in text
    data = json.loads(shown("equivalence", "scara", str(bad), str(two), "--json"))
    assert not data["equivalent"]
    found = data["sets"][str(bad)]
    assert found["wrong_in"][0] == ["M2"]
    assert "MY4" in found["missing"]
    missing = CliRunner().invoke(main, ["equivalence", "scara", str(tmp_path / "none.txt")])
    assert (missing.exit_code, "cannot be read" in missing.stderr) == (2, True)


def test_the_set_is_split_into_inertia_and_gravity() -> None:
    text = shown("base", "stanford", "--split")
    found = md.papers.inertia_and_gravity(md.load("stanford"))
    assert f"{len(found.first) + found.gravity.rank} elements determine all torques" in text
    data = json.loads(shown("base", "stanford", "--split", "--json"))
    assert data["gravity"] == list(found.gravity.names)


def test_count_says_what_new_parameters_cost() -> None:
    data = json.loads(shown("count", "rx90", "inertia_matrix", "--base", "--json"))
    row = data["inertia_matrix"]
    assert (row["mul"], row["add"]) == (112, 92)
    assert (row["once_mul"], row["once_add"]) == (11, 51)
    assert "once: mul" in shown("count", "rx90", "inertia_matrix", "--base")


def test_formulations_have_the_same_words() -> None:
    for verb in ("count", "generate"):
        words = ["puma560", "inertia_matrix", "--formulation", "9"]
        refused = CliRunner().invoke(main, [verb, *words])
        assert refused.exit_code == 2
        assert "formulation" in refused.stderr
