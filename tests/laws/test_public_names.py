"""Public names: each is what it says, whatever was imported before."""

from __future__ import annotations

import subprocess
import sys
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
