"""Public names: each is what it says, whatever was imported before."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import minidyn as md
from minidyn import _MODULES, _WHERE


@pytest.mark.parametrize("name", sorted({*_WHERE, *_MODULES}))
def test_names(name: str) -> None:
    assert isinstance(getattr(md, name), ModuleType) is (name in _MODULES)
    assert name in dir(md)


@pytest.mark.parametrize(
    "before",
    [
        "import minidyn.identification.estimate",
        "from minidyn.identification.identify import identify",
        "md.Estimate",
        "md.identify",
    ],
)
def test_a_function_is_not_hidden_by_its_package(before: str) -> None:
    code = f"import minidyn as md\n{before}\nassert md.identify.__name__ == 'identify' and callable(md.identify)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_type_checkers_see_every_name_where_it_is() -> None:
    """The table that is used at run time and the imports that type checkers read say the same."""
    tree = ast.parse(Path(str(md.__file__)).read_text(encoding="utf-8"))
    guarded = next(node for node in tree.body if isinstance(node, ast.If))
    seen = {
        name.asname or name.name: f"{node.module}:{name.name}"
        for node in guarded.body
        if isinstance(node, ast.ImportFrom)
        for name in node.names
    }
    for name, place in _WHERE.items():
        assert seen.pop(name, None) == f"minidyn.{place}", name
    assert set(seen) == set(_MODULES)
