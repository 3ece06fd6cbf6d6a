"""A sample of what `make fuzz` runs.

All that it once found, and that it finds what it is made for.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import pytest

import minidyn as md
from conftest import count

if not hasattr(os, "fork"):
    pytest.skip("the fuzzer needs fork", allow_module_level=True)

sys.path.insert(0, str(Path(__file__).parents[2] / "tools"))
import fuzz

COUNT = count(15, 400)
BAGS = ("db3", "mcap", "bag")  # slow to read


@pytest.fixture(scope="module")
def fuzzer(tmp_path_factory: pytest.TempPathFactory) -> fuzz.Fuzzer:
    return fuzz.Fuzzer(tmp_path_factory.mktemp("fuzz"), tmp_path_factory.mktemp("scratch"))


@pytest.mark.parametrize("kind", fuzz.corpus.ENDINGS)
def test_mutated_files_are_read_or_refused(fuzzer: fuzz.Fuzzer, kind: str) -> None:
    for seed in fuzzer.seeds[kind]:
        assert fuzzer.outcome(kind, seed).what == "read", kind
    number = COUNT // 3 if kind in BAGS else COUNT
    counts, broken = fuzzer.batch(kind, 0, number)
    assert not broken, broken
    assert counts["read"] + counts["told"] == number
    assert counts["by structure"] >= 0.3 * number


def test_odd_logs_pass_the_whole_chain_or_are_refused(fuzzer: fuzz.Fuzzer) -> None:
    number = count(12, 2000)
    counts, broken = fuzzer.batch(fuzz.CHAIN, 0, number)
    assert not broken, broken
    assert counts["read"] + counts["told"] == number
    assert counts["read"] >= 0.3 * number  # odd, but not nonsense


def test_what_once_broke_something_is_read_or_refused(fuzzer: fuzz.Fuzzer) -> None:
    for kind, data in fuzz.corpus.findings():
        begin = time.process_time()
        found = fuzzer.outcome(kind, data)
        assert found.what in ("read", "told"), (kind, data[:80], found)
        assert time.process_time() - begin < fuzz.HANG


def test_the_fuzzer_finds_what_it_is_made_for(
    fuzzer: fuzz.Fuzzer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def misbehaves(kind: str, data: bytes, turn: int = 0) -> None:
        if turn == 1:
            raise KeyError("somebody else's")
        if turn == 3:
            os.kill(os.getpid(), signal.SIGKILL)
        if turn == 5:
            while True:
                pass
        if turn == 7:
            raise md.MinidynError("told")

    monkeypatch.setattr(fuzzer, "attempt", misbehaves)
    monkeypatch.setattr(fuzz, "HANG", 0.2)
    counts, broken = fuzzer.batch("csv", 0, 10)
    assert [(number, what) for number, what, _ in broken] == [
        (1, "foreign"),
        (3, "crash"),
        (5, "hang"),
    ]
    assert counts["read"] == 6
    assert counts["told"] == 1
    monkeypatch.setattr(fuzz, "MEMORY", 1)
    monkeypatch.setattr(fuzzer, "own", 0)
    counts, broken = fuzzer.batch("csv", 8, 1)
    assert [what for _, what, _ in broken] == ["memory"]
