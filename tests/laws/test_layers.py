"""Later stages import earlier ones, never the reverse; nobody imports in a circle."""

import ast
import importlib
import json
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


CONSTANTS = '''"""A module."""

READ = 1 << 11  # size: rows read at once
MIN_GAIN: float = 0.01
"""Of the log density: less is chance."""
# rounding: of a unit vector
# that was computed twice
EPS = 1e-9
_TABLE = (
    1.0,
    2.0,
)  # formula: of Simpson's rule
LEVELS = (0.1, 0.5)
NAME, FLAG = "1", True

def area(side: float = 2.0) -> float:
    """Return an area."""
    return side**2
'''


def test_constants_are_counted_with_their_reasons() -> None:
    found = {constant.name: constant for constant in house.constants("a", CONSTANTS)}
    assert list(found) == ["a.READ", "a.MIN_GAIN", "a.EPS", "a._TABLE", "a.LEVELS"]
    deciding = {name: constant.reason for name, constant in found.items() if constant.is_deciding}
    assert deciding == {"a.MIN_GAIN": "Of the log density: less is chance.", "a.LEVELS": ""}


def test_size_depends_neither_on_layout_nor_on_docstrings() -> None:
    assert house.nodes("x = 1 + 2") == house.nodes('"""Doc."""\n\nx = (\n    1\n    + 2\n)') == 5
    assert house.nodes(CONSTANTS) == house.nodes(ast.unparse(ast.parse(CONSTANTS)))


def test_figures_may_only_fall() -> None:
    assert house.raised({"nodes": 9, "constants": 3}, {"nodes": 10, "constants": 3}) == []
    assert len(house.raised({"nodes": 11, "constants": 3}, {"nodes": 10, "constants": 3})) == 1
    figures, _ = house.counted()
    assert set(figures) == set(json.loads(house.FIGURES.read_text(encoding="utf-8")))
