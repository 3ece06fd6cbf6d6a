"""Public names: each is what it says, whatever was imported before."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import minidyn as md
from minidyn import _MODULES, _MOVED, _WHERE


@pytest.mark.parametrize("name", sorted({*_WHERE, *_MODULES}))
def test_names(name: str) -> None:
    assert isinstance(getattr(md, name), ModuleType) is (name in _MODULES)
    assert name in dir(md)


def test_public_names_alone_are_listed() -> None:
    """Modules that something imported, and names of before, are not."""
    import minidyn.base.base_map  # noqa: F401  (makes the name minidyn.base)

    assert {name for name in dir(md) if not name.startswith("__")} == {*_WHERE, *_MODULES}


@pytest.mark.parametrize("name", sorted(_MOVED))
def test_names_of_before_work_with_a_warning_that_names_the_new_one(name: str) -> None:
    module, attribute = _MOVED[name].split(".")
    with pytest.warns(DeprecationWarning, match=f"minidyn.{name} is now minidyn.{_MOVED[name]}"):
        found = getattr(md, name)
    assert found is getattr(getattr(md, module), attribute)
    assert name not in md.__all__


def test_the_papers_module_makes_an_inertia_matrix() -> None:
    q = [0.1, 0.2]
    robot = md.Robot.from_mdh("RR", [0.0, 1.0], [0.1, 0.2], [0.3, 0.4])
    phi = np.arange(20.0)
    chain = md.papers.chain_at(md.papers.mdh_rows(robot), q)
    M = md.papers.FORMULATIONS[1](chain, md.papers.composite_bodies(chain, phi.reshape(2, 10)))
    np.testing.assert_allclose(M, md.inertia_matrix(robot, q, phi), rtol=1e-12)


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
    code = (
        f"import minidyn as md\n{before}\n"
        "assert md.identify.__name__ == 'identify' and callable(md.identify)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_type_checkers_see_every_name_where_it_is() -> None:
    """The table that is used at run time is the whole list of imports that type checkers read."""
    tree = ast.parse(Path(str(md.__file__)).with_suffix(".pyi").read_text(encoding="utf-8"))
    seen = {
        str(name.asname): f"{node.module}:{name.name}"
        for node in tree.body
        if isinstance(node, ast.ImportFrom)
        for name in node.names
    }
    assert seen == _WHERE | {
        name: ":".join(place.rsplit(".", 1)) for name, place in _MODULES.items()
    }
    assert len(seen) > 50
