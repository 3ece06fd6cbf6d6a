"""A process that ends at any file operation leaves an old result or a new one, whole.

The next start tidies up.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import minidyn as md
from conftest import count
from minidyn.app.result_folder import write_result
from minidyn.errors import NotWritten
from minidyn.files import new_folder, write_atomically

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are ended after a fork")

OLD = {"a.txt": "old a", "b.txt": "old b", "deep/c.txt": "old c", "gone.txt": "old"}
NEW = {"a.txt": "new a", "b.txt": "new b", "deep/c.txt": "new c", "deep/more.txt": "new"}
OTHERS = {"notes.txt": "mine", "deep/data.bin": "mine, too"}
_OPERATIONS = ("open", "os.", "shutil.", "ctypes.call", "ctypes.dlsym", "tempfile.")


def fill(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def contents(folder: Path) -> dict[str, str]:
    return {
        path.relative_to(folder).as_posix(): path.read_text()
        for path in folder.rglob("*")
        if path.is_file()
    }


def ended_at(operation: int, work: Callable[[], None]) -> bool:
    """Do the work in a process that ends, as by a power cut, before its n-th file operation.

    False: it got through.
    """
    child = os.fork()
    if child == 0:
        left = [operation]

        def ends(event: str, _: object) -> None:
            if event.startswith(_OPERATIONS):
                left[0] -= 1
                if left[0] < 0:
                    os._exit(77)

        sys.addaudithook(ends)
        work()
        os._exit(0)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code in (0, 77)
    return code == 77


def renew(target: Path, *, replace: bool = False) -> None:
    with new_folder(target, ["gone.txt"], replace=replace) as folder:
        fill(folder, NEW)


def _begin_only(target: Path, *expected: dict[str, str]) -> None:
    """Begin a new result, see what is there, and give up."""
    with new_folder(target):
        assert contents(target) in expected
        raise NotWritten


@pytest.mark.parametrize(
    ("way", "replace"),
    [("at once", True), ("by a third name", False), ("at once", False), ("by a third name", True)][
        : count(2, 4)
    ],
)
def test_a_folder_is_old_or_new(
    tmp_path: Path, way: str, replace: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if way == "by a third name":  # a system that cannot let two folders change places
        monkeypatch.setattr("ctypes.CDLL", lambda *_, **__: object())
    kept = {} if replace else OTHERS
    operation, seen = 0, set()
    while True:
        place = tmp_path / str(operation)
        target = place / "out"
        fill(target, OLD | kept)
        if not ended_at(operation, partial(renew, target, replace=replace)):
            break
        if way == "at once":
            assert contents(target) in (OLD | kept, NEW | kept)
            seen.add("a.txt" in contents(target) and contents(target)["a.txt"])
        # whoever comes next finds one of the two, and no litter after it
        with pytest.raises(NotWritten):
            _begin_only(target, OLD | kept, NEW | kept)
        assert [path.name for path in place.iterdir()] == ["out"]
        operation += 1
    assert operation > 20
    assert seen == ({"old a", "new a"} if way == "at once" else set())
    assert contents(target) == NEW | kept


def test_a_file_is_old_or_new(tmp_path: Path) -> None:
    target, operation = tmp_path / "a.txt", 0
    while True:
        target.write_text("old")
        if not ended_at(operation, lambda: write_atomically(target, b"new")):
            break
        assert target.read_text() in ("old", "new")
        write_atomically(target, b"next")
        assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]
        operation += 1
    assert operation >= 3
    assert target.read_text() == "new"


def test_the_folder_one_works_in_stays_where_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(tmp_path / "out", OLD | OTHERS)
    monkeypatch.chdir(tmp_path / "out")
    renew(Path())
    assert contents(Path.cwd()) == NEW | OTHERS
    assert contents(tmp_path / "out") == NEW | OTHERS


def test_what_others_still_write_is_not_swept(tmp_path: Path) -> None:
    alive = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        with new_folder(tmp_path / "out") as first:
            fill(first, OLD)
            stranger = first.with_name(first.name.replace(f".{os.getpid()}.", f".{alive.pid}."))
            elsewhere = first.with_name(
                first.name.replace(f".{os.getpid()}.", ".1999999999.")[:-16] + "0123456789ab.new"
            )
            for folder in (stranger, elsewhere):
                fill(folder, NEW)
            renew(tmp_path / "out")
            assert contents(first) == OLD
            assert contents(stranger) == NEW
            assert (
                contents(elsewhere) == NEW
            )  # of another machine, whose processes are not known here
    finally:
        alive.communicate(b"\n")


@pytest.fixture(scope="module")
def estimate() -> md.Estimate:
    robot = md.load("two_link")
    t = np.arange(300) / 100
    q, dq, ddq = (np.asarray(x) for x in md.trajectory.fourier(robot, seed=1)(t))
    return md.identify(
        robot, md.Recording(t, q, md.inverse_dynamics(robot, q, dq, ddq)), consistent=False
    )


@pytest.mark.parametrize("operation", range(0, 400, count(80, 4)))
def test_results_of_identification(tmp_path: Path, estimate: md.Estimate, operation: int) -> None:
    """The whole folder that identify writes, over an earlier one."""
    out = tmp_path / "out"
    write_result(estimate, {}, out)
    (out / "notes.txt").write_text("mine")
    before = {path.relative_to(out) for path in out.rglob("*")}
    ended_at(operation, lambda: write_result(estimate, {}, out) and None)
    assert {path.relative_to(out) for path in out.rglob("*")} == before
    assert md.load_estimate(out / "estimate.json").beta.tolist() == estimate.beta.tolist()
    write_result(estimate, {}, out)
    assert {path.relative_to(out) for path in out.rglob("*")} == before
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def pairs() -> tuple[md.Robot, md.Robot, md.Robot]:
    """Return robots of one arm: two with drives that URDF cannot say, and one that it can."""
    plain = md.load("two_link").with_drives(False, ())
    first = plain.with_drives(True, ("viscous", "coulomb"))
    first = first.with_parameters(np.nan_to_num(first.parameters, nan=0.25))
    second = first.with_drives(sign_width=0.02).with_parameters(2.0 * first.parameters)
    return first, second, plain.with_parameters(3.0 * plain.parameters)


@pytest.mark.parametrize("ending", ["urdf", "xml"])
@pytest.mark.parametrize("change", ["other", "less", "more"])
def test_a_robot_file_and_its_side_file_are_old_or_new(
    tmp_path: Path, ending: str, change: str
) -> None:
    if ending == "xml":
        pytest.importorskip("mujoco")
    with_drives, others, plain = pairs()
    old, new = {
        "other": (with_drives, others), "less": (with_drives, plain), "more": (plain, with_drives)
    }[change]  # fmt: skip
    md.save(old, tmp_path / f"a.{ending}")
    md.save(new, tmp_path / f"b.{ending}")
    expected = [md.load(tmp_path / f"{name}.{ending}") for name in "ab"]
    assert len({robot.parameters.tobytes() for robot in expected}) == 2
    operation, seen = 0, set()
    while True:
        place = tmp_path / str(operation)
        place.mkdir()
        target = place / f"arm.{ending}"
        md.save(old, target)
        ended = ended_at(operation, partial(md.save, new, target))
        found = md.load(target)
        seen.add([one.parameters.tobytes() for one in expected].index(found.parameters.tobytes()))
        assert found.joints in [one.joints for one in expected]
        md.save(new, target)  # whoever comes next tidies up
        assert not [path for path in place.iterdir() if path.name.endswith(".next")]
        if not ended:
            break
        operation += 1
    assert operation >= 5
    assert seen == {0, 1}
