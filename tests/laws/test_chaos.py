"""What `make chaos` does, with fewer kills, in `make test-long`.

Results stay whole, the next run tidies up.
"""

from __future__ import annotations

import os
import random
import sys
from pathlib import Path

import pytest

from conftest import LONG

if not LONG or not hasattr(os, "fork"):
    pytest.skip("long; and processes are killed after a fork", allow_module_level=True)

sys.path.insert(0, str(Path(__file__).parents[2] / "tools"))
import chaos

RNG = random.Random(1)


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> chaos.Scene:
    return chaos.Scene(tmp_path_factory.mktemp("chaos") / "scene")


def test_kills(scene: chaos.Scene) -> None:
    seen = chaos.kills(scene, 100, RNG)
    assert seen.total() == 100


def test_full_disks(scene: chaos.Scene) -> None:
    seen = chaos.full_disk(scene, RNG, 100)
    assert seen["told"] > 0


def test_folders_that_may_not_be_written(scene: chaos.Scene) -> None:
    chaos.read_only(scene)


def test_a_folder_that_is_removed_meanwhile(scene: chaos.Scene) -> None:
    chaos.removed(scene, RNG, 10)


def test_two_processes_on_one_study(scene: chaos.Scene) -> None:
    chaos.two_at_once(scene, 10)


def test_chaos_sees_what_is_broken(scene: chaos.Scene) -> None:
    page, whole = scene.folder / "page.html", (scene.folder / "page.html").read_text()
    page.write_text(whole[:-50])
    with pytest.raises(chaos.Broken, match="cut off"):
        scene.check()
    page.write_text(whole)
    litter = scene.folder / ".out.1.0123456789ab.new"
    litter.mkdir()
    with pytest.raises(chaos.Broken, match="left over"):
        scene.check(tidy=True)
    litter.rmdir()
    (scene.folder / "study" / "identify" / "estimate.json").write_text("{}")
    with pytest.raises(chaos.Broken, match="not that of its record"):
        scene.check()
