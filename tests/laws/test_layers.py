"""Later stages import earlier ones, never the reverse; nobody imports in a circle."""

import ast
import importlib
import sys
from pathlib import Path

import minidyn

sys.path.insert(0, str(Path(__file__).parents[2] / "tools"))

import house

ROOT = Path(__file__).parents[2]


def test_stages_import_only_earlier_ones() -> None:
    found = house.modules()
    assert sum(len(module.top | module.late) for module in found.values()) > 500
    assert house.against_the_order(found) == []


def test_a_module_of_no_known_stage_and_a_wrong_import_are_seen() -> None:
    found = house.modules()
    stranger = house.Module("somewhere.new", found["errors"].path, frozenset(), frozenset())
    wrong = house.Module("graph.bad", found["errors"].path, frozenset(), frozenset({"model.robot"}))
    told = house.against_the_order({"somewhere.new": stranger, "graph.bad": wrong})
    assert told == [
        "somewhere.new: 'somewhere' is no stage of tools/house.py",
        "graph.bad imports model.robot",
    ]


def test_public_names_exist() -> None:
    for name in minidyn.__all__:
        assert getattr(minidyn, name) is not None


def test_the_house_stays_within_its_figures() -> None:
    found = house.modules()
    assert house.cycles(found) == []
    assert all(steps.functions for steps in house.walk().values())


def test_what_scripts_import_is_there() -> None:
    """Scripts of tools/ and benchmarks/ are seldom run: what they take from the library exists."""
    missing = []
    for script in sorted([*ROOT.glob("tools/*.py"), *ROOT.glob("benchmarks/*.py")]):
        for node in ast.walk(ast.parse(script.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("minidyn."):
                module = importlib.import_module(str(node.module))
                missing += [
                    f"{script.name}: {node.module}.{name.name}"
                    for name in node.names
                    if not hasattr(module, name.name)
                ]
    assert not missing
