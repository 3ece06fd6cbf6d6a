"""Compiled functions are kept on disk between processes.

What is loaded computes the same to the last bit; what is damaged, foreign or of other code is
compiled anew; no trouble with the folder reaches the caller.
"""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from random_tapes import random_function, samples

from minidyn.app.cli.main import main
from minidyn.graph.function import Function
from minidyn.graph.targets.native import disk, host
from minidyn.graph.targets.native.builtin import _dispatch_text
from minidyn.graph.targets.native.kernel import NativeFunction

FUNCTION = random_function(5, (4, 3), (2,), ((3, 3), (2,)), 80)
posix = pytest.mark.skipif(os.name == "nt", reason="Windows has no owners and modes of this kind")

SCRIPT = """
import hashlib, json
import numpy as np
import minidyn as md
from minidyn.graph.targets.native import host
robot = md.load("ur5e")
tau = md.compile(robot, "inverse_dynamics")
x = np.random.default_rng(0).normal(size=(3, 37, 6))
parts = tau(*x), tau(*x[:, 0]), tau(1e6 * x[0], x[1], x[2])
digest = hashlib.sha256(b"".join(part.tobytes() for part in parts)).hexdigest()
print(json.dumps({"digest": digest, **host.COUNTS}))
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "caches" / "kernels"
    monkeypatch.setenv(disk.VARIABLE, str(path))
    return path


def begin(**environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", SCRIPT],
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        text=True,
    )


def said(process: subprocess.Popen[str]) -> dict[str, object]:
    text, _ = process.communicate()
    assert process.returncode == 0
    return json.loads(text)


def computed(function: Function = FUNCTION) -> tuple[str, bytes]:
    """Make the code of a function anew; return how it came and the bits that it computes."""
    native = NativeFunction(function, host.host().width)
    before = host.COUNTS.copy()
    results = native(*samples(function, 11))
    assert len(host.COUNTS - before) == 1
    return next(iter(host.COUNTS - before)), b"".join(one.tobytes() for one in results)


def kept(path: Path) -> list[Path]:
    return sorted(path.iterdir())


def test_a_second_process_compiles_nothing(folder: Path) -> None:
    first, second = said(begin()), said(begin())
    without = said(begin(MINIDYN_CACHE="0"))
    assert first["compiled"] == without["compiled"] == 3  # batches, single samples, the builtin
    assert second == {"digest": first["digest"], "loaded": 3}
    assert without["digest"] == first["digest"]
    if os.name != "nt":
        assert folder.stat().st_mode & 0o777 == 0o700
        assert {file.stat().st_mode & 0o777 for file in kept(folder)} == {0o600}


def test_processes_fill_it_at_once(folder: Path) -> None:
    running = [begin(), begin()]
    results = [said(process) for process in running]
    assert results[0]["digest"] == results[1]["digest"]
    assert said(begin()) == {"digest": results[0]["digest"], "loaded": 3}
    assert all(file.suffix == ".kernel" for file in kept(folder))


def test_the_same_bits(folder: Path) -> None:
    for seed in range(3):
        function = random_function(seed, (5, 2), (3,), ((4, 2), (3,)), 100)
        way, bits = computed(function)
        assert way == "compiled"
        assert computed(function) == ("loaded", bits)


def _flip(data: bytes) -> bytes:
    middle = len(data) // 2
    return data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]


@pytest.mark.parametrize(
    "damage",
    [
        _flip,
        lambda data: data[:-1],
        lambda data: data[:10],
        lambda data: b"",
        lambda data: data + b"x",
        lambda data: data.replace(b"code 1", b"code 2"),
        lambda data: os.urandom(len(data)),
    ],
    ids=["flipped", "truncated", "head", "empty", "longer", "version", "random"],
)
def test_damaged_files_are_compiled_anew(folder: Path, damage: object) -> None:
    _, bits = computed()
    (file,) = kept(folder)
    whole = file.read_bytes()
    file.write_bytes(damage(whole))
    assert computed() == ("compiled", bits)
    assert file.read_bytes() == whole  # replaced
    assert computed() == ("loaded", bits)


def test_a_file_counts_under_its_name_alone(folder: Path) -> None:
    _, bits = computed()
    (file,) = kept(folder)
    other = random_function(6, (4, 3), (2,), ((3, 3), (2,)), 80)
    computed(other)
    (second,) = set(kept(folder)) - {file}
    second.write_bytes(file.read_bytes())
    way, different = computed(other)
    assert (way, different != bits) == ("compiled", True)


def test_other_code_other_versions_other_processors_have_other_names(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    computed()
    mine = host.host()
    monkeypatch.setattr(disk, "code_version", lambda: "other")
    assert computed()[0] == "compiled"
    monkeypatch.undo()
    monkeypatch.setenv(disk.VARIABLE, str(folder))
    monkeypatch.setattr("llvmlite.__version__", "0.0")
    assert computed()[0] == "compiled"
    monkeypatch.undo()
    monkeypatch.setenv(disk.VARIABLE, str(folder))
    other = host.Host(mine.triple, "x86-64" if "x86" in mine.triple else mine.cpu, "", 2, False)
    monkeypatch.setattr(host, "host", lambda: other)
    assert computed()[0] == "compiled"
    assert len(kept(folder)) == 4


@posix
def test_files_of_others_do_not_count(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, bits = computed()
    (file,) = kept(folder)
    file.chmod(0o622)
    assert computed() == ("compiled", bits)  # and replaced
    assert file.stat().st_mode & 0o777 == 0o600
    whole = file.rename(folder.parent / "elsewhere")
    file.symlink_to(whole)
    assert computed() == ("compiled", bits)
    assert not file.is_symlink()
    file.unlink()
    os.mkfifo(file)
    assert computed() == ("compiled", bits)
    monkeypatch.setattr(os, "geteuid", lambda: 54321)
    assert computed() == ("compiled", bits)
    assert "another user" in disk.refusal(folder)


@posix
@pytest.mark.parametrize("mode", [0o755, 0o770, 0o701])
def test_a_folder_that_others_open_is_not_used(folder: Path, mode: int) -> None:
    folder.mkdir(parents=True)
    folder.chmod(mode)
    assert [computed()[0] for _ in range(2)] == ["compiled"] * 2
    assert not kept(folder)
    assert folder.stat().st_mode & 0o777 == mode
    answer = CliRunner().invoke(main, ["cache"])
    assert answer.exit_code == 0
    assert f"not used, others may open it (mode {mode:o}): chmod 700" in answer.stdout


@posix
def test_a_link_is_not_used(folder: Path) -> None:
    target = folder.parent / "target"
    target.mkdir(parents=True, mode=0o700)
    folder.symlink_to(target)
    assert [computed()[0] for _ in range(2)] == ["compiled"] * 2
    assert not kept(target)


def test_it_can_be_switched_off(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, bits = computed()
    monkeypatch.setenv(disk.VARIABLE, "0")
    assert computed() == ("compiled", bits)
    assert json.loads(CliRunner().invoke(main, ["cache", "--json"]).stdout)["used"] is False


@pytest.mark.parametrize("fault", [errno.EROFS, errno.ENOSPC, errno.EACCES])
def test_what_cannot_be_written_costs_only_time(
    folder: Path, monkeypatch: pytest.MonkeyPatch, fault: int
) -> None:
    folder.mkdir(parents=True, mode=0o700)

    def refuse(*words: object, **options: object) -> None:
        raise OSError(fault, os.strerror(fault))

    monkeypatch.setattr(os, "replace", refuse)
    assert [computed()[0] for _ in range(2)] == ["compiled"] * 2
    monkeypatch.setenv(disk.VARIABLE, str(folder / "new"))
    monkeypatch.setattr(Path, "mkdir", refuse)
    assert computed()[0] == "compiled"
    assert not kept(folder)


def test_below_a_file_nothing_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv(disk.VARIABLE, str(tmp_path / "file" / "kernels"))
    assert computed()[0] == "compiled"


def test_the_oldest_go(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk, "MAX_BYTES", 10_000)
    folder.mkdir(parents=True, mode=0o700)
    (folder / "notes.txt").write_text("not ours")
    names = [disk.name_of(str(k)) for k in range(12)]
    for k, name in enumerate(names):
        disk.write(name, bytes(1500))
        if (folder / name).exists():
            os.utime(folder / name, (1e9 + k, 1e9 + k))
        assert disk.usage(folder).size <= disk.MAX_BYTES
    there = [name for name in names if disk.read(name) is not None]
    assert there == names[-len(there) :]
    assert len(there) >= 4
    # what was read is in use: its time is now
    disk.read(there[0])
    assert (folder / there[0]).stat().st_mtime > 1.5e9
    assert disk.clear(folder).files == len(there)
    assert [file.name for file in kept(folder)] == ["notes.txt"]


def test_what_killed_processes_left_goes(folder: Path) -> None:
    name = disk.name_of("something")
    disk.write(name, b"code")
    for age, there in ((10.0, True), (1e5, False)):
        scrap = folder / f".{name}.123.abcd01234567.tmp"
        scrap.write_bytes(b"half")
        os.utime(scrap, (scrap.stat().st_mtime - age,) * 2)
        assert disk.usage(folder).files == 1
        assert scrap.exists() is there


def test_where_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(disk.VARIABLE)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert disk.folder() == tmp_path / "minidyn"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setenv("HOME", str(tmp_path))
    if os.name != "nt":
        caches = "Library/Caches" if sys.platform == "darwin" else ".cache"
        assert disk.folder() == tmp_path / caches / "minidyn"


def test_text_holds_no_address() -> None:
    text = host.linked(_dispatch_text(24))
    assert "inttoptr" not in text
    assert str(id(np.ndarray)) not in text


def test_the_verb_shows_and_clears(folder: Path) -> None:
    computed()
    answer = CliRunner().invoke(main, ["cache"])
    assert "1 compiled functions" in answer.stdout
    answer = json.loads(CliRunner().invoke(main, ["cache", "--clear", "--json"]).stdout)
    assert (answer["cleared"], answer["files"], answer["used"]) == (True, 1, True)
    assert not kept(folder)
    assert computed()[0] == "compiled"
