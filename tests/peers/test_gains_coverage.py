"""A sample of benchmarks/gains_coverage.py: drive gains with Pinocchio's plants."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("pinocchio")
sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
import gains_coverage as gains
import minidyn as md
from conftest import count


def test_intervals_hold_the_truth_under_friction_that_no_term_has() -> None:
    """Of the intervals 77 % held the truth, and deviations of 10 to 40 % left most gains open."""
    errors, sizes, refused = gains.scores(range(20, 20 + count(8, 200)))
    assert refused == 0
    inside = np.abs(errors) < 1.96
    assert 0.9 < inside.mean() < 0.97 if len(errors) >= 100 else inside.mean() > 0.85
    closed = sizes < gains.OPEN
    assert closed.mean() > 0.7
    assert np.max(np.abs(errors * sizes)[closed]) < 0.3


def test_deviations_shrink_with_noise_and_friction() -> None:
    _, sizes, _ = gains.scores(range(3))
    _, small, _ = gains.scores(range(3), 0.1)
    assert np.all(np.median(small, axis=0) < 0.25 * np.median(sizes, axis=0))


def test_open_gains_are_not_written_unless_forced(tmp_path: Path) -> None:
    robot, runs, _ = gains.pair(1)
    terms = {"friction": ("viscous", "coulomb", "offset"), "rotor_inertia": True}
    found = md.identify_drive_gains(robot.with_parameters(None), *runs, gains.MASS, **terms)
    assert "gains.open" in {notice.code for notice in found.notices}
    path = tmp_path / "gains.toml"
    with pytest.raises(md.MinidynError, match="--force"):
        found.save(path)
    assert not path.exists()
    found.save(path, force=True)
    assert path.exists()
