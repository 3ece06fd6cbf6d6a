"""What `tools/soak.py` does for a day of logs, with short ones, in `make test-long`.

Nothing grows.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from conftest import LONG

if not Path("/proc/self/statm").exists():
    pytest.skip("memory and files are asked of Linux", allow_module_level=True)

sys.path.insert(0, str(Path(__file__).parents[2] / "tools"))
import soak


@pytest.mark.skipif(not LONG, reason="long")
def test_a_hundred_logs_leave_nothing_behind(tmp_path: Path) -> None:
    assert soak.grown(list(soak.rounds(tmp_path, 130, 6.0))) == []


def test_what_grows_is_seen() -> None:
    flat = [soak.Used(300.0, 6, 1, 0, 256)] * 20
    assert soak.grown(flat) == []
    filling = [soak.Used(300.0 + 3 * k, 6, 1, 0, 128 + min(128, k)) for k in range(129)]
    assert "few" in soak.grown(filling)[0]  # nothing is known yet
    assert soak.grown(filling + [filling[-1]] * 180) == []
    assert len(soak.grown([replace(one, memory=300.0 + 3 * k) for k, one in enumerate(flat)])) == 1
    for what in ("files", "threads", "temporary"):
        assert len(soak.grown([replace(one, **{what: k // 14}) for k, one in enumerate(flat)])) == 1
