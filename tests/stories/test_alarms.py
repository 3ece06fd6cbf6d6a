"""A sample of benchmarks/alarms.py: healthy logs raise nothing, planted faults are found."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))
import alarms  # noqa: E402
import minidyn as md  # noqa: E402
from alarm_logs import FAULTS, OFF, SMALL, healthy, motion_log, true_robot  # noqa: E402
from conftest import count  # noqa: E402
from minidyn.notices import KINDS  # noqa: E402

QUICK = [
    code for code, (_, stage, _, _) in FAULTS.items() if stage in ("read", "prepare", "use_ddq")
]
SLOW = [code for code in FAULTS if code not in QUICK]
STAGES = (
    "recording.",
    "prepare.",
    "identify.",
    "friction.",
    "consistency.",
    "signals.",
    "check.",
    "payload.",
)


@pytest.mark.parametrize("seed", range(count(3, 14)))
def test_healthy_logs_raise_nothing(seed: int, tmp_path: Path) -> None:
    assert alarms.raised(healthy(seed, SMALL), "identify", tmp_path) == set()


@pytest.mark.parametrize("code", [*QUICK, *SLOW[: count(2, len(SLOW))]])
def test_planted_faults_are_found(code: str, tmp_path: Path) -> None:
    found = [alarms.detected(code, seed, tmp_path) for seed in range(10_000, 10_000 + count(2, 5))]
    assert sum(found) >= 0.5 * len(found)


def test_speeds_within_noise_are_no_alarm(tmp_path: Path) -> None:
    """Coarse encoders at a high rate.

    Differences of positions are mostly noise, and speeds are right.
    """
    file = md.load("scara")
    rng = np.random.default_rng(0)
    true = true_robot(file, rng)
    t = np.arange(10_000) / 1000.0
    q, dq, _ = md.trajectory.fourier(file, seed=1, speed=0.3, period=20.0)(t)
    coarse = np.round((q + 1e-4 * rng.normal(size=q.shape)) / 1e-4) * 1e-4
    rate = np.diff(coarse, axis=0) / 1e-3
    mean = 0.5 * (dq[1:] + dq[:-1])
    assert np.any(
        np.sum(rate * mean, axis=0) / np.sum(rate**2, axis=0) < 0.8
    )  # what misled a plain ratio
    log = motion_log(file, true, 0, rng, md.trajectory.fourier(file, seed=1), 1.0)
    noisy = replace(log, t=t, q=coarse, dq=dq, tau=0 * q, ddq=0 * q)
    assert "recording.speeds" not in alarms.raised(noisy, "read", tmp_path)
    wrong = replace(noisy, dq=0.6 * dq)
    assert "recording.speeds" in alarms.raised(wrong, "read", tmp_path)


@pytest.mark.parametrize("seed", range(count(2, 6)))
def test_friction_switched_off_is_no_delay(seed: int) -> None:
    log = healthy(seed, SMALL)
    recording = md.Recording(log.t, log.q, log.tau, joint_names=log.file.joint_names)
    estimate = md.identify(log.file, recording, friction=(), consistent=False)
    assert "identify.torque_delay" not in {notice.code for notice in estimate.notices}


def test_delays_are_found_with_friction_switched_off(tmp_path: Path) -> None:
    found = [alarms.detected(OFF, seed, tmp_path) for seed in range(10_000, 10_000 + count(8, 20))]
    assert sum(found) >= 0.7 * len(found)


def test_every_notice_is_measured_or_accounted_for() -> None:
    open_codes = {
        code
        for code, kind in KINDS.items()
        if kind.level != "info" and code.startswith(STAGES) and code not in alarms.BY_NAME
    }
    assert open_codes <= set(FAULTS), (
        "plant a fault in benchmarks/alarm_logs.py, or say in BY_NAME what raises it"
    )
    page = (ROOT / "docs" / "false-alarms.md").read_text(encoding="utf-8")
    for line in page.splitlines():
        if line.startswith("| `"):
            share = float(line.split("|")[2].strip().removesuffix("%"))
            assert share < 100 * alarms.MOST, line
