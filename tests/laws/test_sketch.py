"""Fitted data are recognised whatever was done to their files; new runs are not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import minidyn as md
from conftest import OWN
from minidyn.arrays import Array
from minidyn.recording.recording import SKETCH
from minidyn.recording.sketch import Sketch, sketched

RATE = 500


def _run(name: str, seed: int, noise: float = 0.01, motion: int = 1) -> md.Recording:
    """Return a run of a built-in robot along one motion; what is measured has noise of its own."""
    robot = md.load(name)
    robot = robot.with_parameters(np.nan_to_num(robot.parameters, nan=0.1))
    rng = np.random.default_rng(seed)
    t = np.arange(10 * RATE) / RATE
    q, dq, ddq = md.trajectory.fourier(robot, seed=motion)(t)
    tau = md.inverse_dynamics(robot, q, dq, ddq)
    tau = tau + noise * np.sqrt(np.mean(tau**2, axis=0)) * rng.normal(size=tau.shape)
    return md.Recording(t, q + 1e-5 * rng.normal(size=q.shape), tau, joint_names=robot.joint_names)


def _share(fitted: md.Recording, tested: md.Recording) -> float | None:
    known, other = (sketched(run, fitted.joint_names).info[SKETCH] for run in (fitted, tested))
    assert isinstance(known, Sketch)
    assert isinstance(other, Sketch)
    again = Sketch.from_json(known.to_json())
    assert again is not None
    return again.share_of(other)


def _digits(values: Array, digits: int) -> Array:
    return np.vectorize(lambda value: float(f"{value:.{digits}g}"))(values)


def _written(run: md.Recording, change: Callable[[Array], Array]) -> md.Recording:
    return md.Recording(
        run.t, change(run.q), change(np.asarray(run.tau)), joint_names=run.joint_names
    )


COPIES: dict[str, Callable[[md.Recording], md.Recording]] = {
    "same": lambda run: run,
    "cut": lambda run: run[1000:1600],
    "later": lambda run: md.Recording(run.t + 1e5, run.q, run.tau, joint_names=run.joint_names),
    "four digits": lambda run: _written(run, lambda x: _digits(x, 4)),
    "six digits": lambda run: _written(run, lambda x: _digits(x, 6)),
    "four decimals": lambda run: _written(run, lambda x: x.round(4)),
    "float32": lambda run: _written(run, lambda x: x.astype(np.float32).astype(float)),
    "degrees": lambda run: _written(run, lambda x: np.radians(np.degrees(x).round(3))),
    "cut, four digits": lambda run: _written(run[500:2500], lambda x: _digits(x, 4)),
    "other order": lambda run: run.reordered(run.joint_names[::-1]),
}


@pytest.mark.parametrize("name", ["two_link", "puma4", "panda", "ur10e"])
@pytest.mark.parametrize("how", COPIES)
def test_a_copy_is_recognised(name: str, how: str) -> None:
    share = _share(_run(name, 0), COPIES[how](_run(name, 0)))
    assert share is not None
    assert share > (0.75 if "four" in how or how == "degrees" else 0.99)


@pytest.mark.parametrize("name", ["panda", "ur10e"])
def test_thinned_copies_of_arms_are_recognised(name: str) -> None:
    """Of robots with few joints they are not: there torques of neighbouring samples are looked at,
    too.
    """
    assert _share(_run(name, 0), _run(name, 0)[::3]) == pytest.approx(1.0, abs=0.01)


@pytest.mark.parametrize("noise", [0.002, 0.01, 0.05])
@pytest.mark.parametrize("name", ["two_link", "puma4", "panda", "ur10e"])
def test_a_new_run_of_the_same_motion_is_new(name: str, noise: float) -> None:
    share = _share(_run(name, 0, noise), _run(name, 1, noise))
    assert share is not None
    assert share < 0.02
    assert _share(_run(name, 0, noise), _run(name, 1, noise, motion=2)) == 0.0


@pytest.mark.parametrize("part", [0.1, 0.3, 0.5, 0.9])
def test_a_part_is_told_with_its_share(part: float) -> None:
    run, other = _run("panda", 0), _run("panda", 1)
    cut = round(part * len(run))
    mixed = md.concatenate([run[:cut], other[cut:]])
    assert _share(run, mixed) == pytest.approx(part, abs=0.04)


def test_the_size_is_bounded_and_parts_make_the_whole() -> None:
    run = _run("panda", 0)
    whole = sketched(run, run.joint_names).info[SKETCH]
    pieces = [sketched(piece, run.joint_names) for piece in (run[:1234], run[1234:])]
    joined = md.concatenate(pieces).info[SKETCH]
    assert isinstance(whole, Sketch)
    assert isinstance(joined, Sketch)
    assert len(whole.cells[0]) == 2048
    for one, other in zip(whole.cells, joined.cells):
        np.testing.assert_array_equal(one, other)
    plain = whole.to_json()
    motion = plain.pop("motion")
    assert sum(map(len, map(str, plain.values()))) < 64_000
    assert sum(map(len, map(str, motion.values()))) < 125_000


@cache
def _fitted() -> tuple[md.Estimate, md.Recording]:
    run = _run("two_link", 0)
    return md.identify(md.load("two_link"), run, **OWN), run


def test_validation_says_what_was_fitted(tmp_path: Path) -> None:
    estimate, run = _fitted()
    found = md.validate(estimate, run)
    assert found.overlap == 1.0
    assert found.data == "fitted data"
    assert "fitted data" in repr(found)
    assert found.to_json()["data"] == "fitted data"
    assert [
        notice.data["overlap"] for notice in found.notices if notice.code == "validate.fitted_data"
    ] == [1.0]
    assert not estimate.verdict(found).ok
    estimate.save(tmp_path / "e.json")
    run.save(tmp_path / "renamed.csv")
    assert md.validate(tmp_path / "e.json", tmp_path / "renamed.csv").overlap == pytest.approx(
        1.0, abs=0.01
    )
    new = md.validate(estimate, _run("two_link", 1, motion=2))
    assert new.overlap == 0.0
    assert new.data == "test data"
    assert estimate.verdict(new).ok
    half = md.validate(estimate, md.concatenate([run[:2500], _run("two_link", 1)[2500:]]))
    assert half.data.endswith("% fitted data")
    assert not estimate.verdict(half).ok


def test_prepared_recordings_know_their_log(tmp_path: Path) -> None:
    estimate, run = _fitted()
    prepared = md.prepare(md.load("two_link"), run, cutoff=10.0)
    assert md.validate(estimate, prepared).overlap == 1.0
    for name in ("p.npz", "p.parquet", "p.csv"):
        prepared.save(tmp_path / name)
        assert md.validate(estimate, tmp_path / name).overlap == 1.0
    fit, test = prepared[:200], prepared[200:]
    own = md.identify(md.load("two_link"), fit, **OWN)
    assert md.validate(own, fit).overlap == 1.0
    assert md.validate(own, test).overlap == 0.0
    # logged and prepared samples cannot be compared, but their motions can
    assert md.validate(own, run).overlap == pytest.approx(200 / len(prepared), abs=0.02)


def test_recordings_on_disk_are_sketched_as_they_are_read(tmp_path: Path) -> None:
    _, run = _fitted()
    run.save(tmp_path / "log.parquet")
    lazy = md.read_recording(tmp_path / "log.parquet", lazy=True)
    estimate = md.identify(md.load("two_link"), lazy, **OWN)
    here = {key: value for key, value in _fitted()[0].record[SKETCH].items() if key != "motion"}
    assert estimate.record[SKETCH] == here  # pieces of the motion are of recordings in memory
    assert md.validate(estimate, lazy).overlap == 1.0
    held = md.identify(md.load("two_link"), lazy[:3000], **OWN)
    assert md.validate(held, lazy[3000:]).overlap == 0.0


def test_cross_validation_tests_on_new_data() -> None:
    _, run = _fitted()
    crossed = md.cross_validate(md.load("two_link"), run, 2, **OWN)
    assert [fold.overlap for fold in crossed.folds] == [0.0, 0.0]
    assert [fit.overlap for fit in crossed.fits] == [1.0, 1.0]


def test_older_estimates_do_not_know() -> None:
    estimate, run = _fitted()
    old = replace(
        estimate, record={key: value for key, value in estimate.record.items() if key != SKETCH}
    )
    found = md.validate(old, run)
    assert found.overlap is None
    assert found.to_json()["overlap"] is None


def test_experiments_with_one_joint_at_a_time_are_recognised() -> None:
    robot = md.load("puma4")
    robot = robot.with_parameters(np.nan_to_num(robot.parameters, nan=0.1))
    rng = np.random.default_rng(0)
    runs = []
    for step in md.one_joint_plan(robot, friction="own", rotor_inertia=None).steps:
        t = step.trajectory.period * np.arange(200) / 200
        q, dq, ddq = step.trajectory(t)
        tau = md.inverse_dynamics(robot, q, dq, ddq) + 0.1 * rng.normal(size=q.shape)
        runs.append(md.Recording(t, q, tau, dq, ddq, robot.joint_names))
    estimate = md.identify_one_joint(robot, runs)
    assert md.validate(estimate, runs[0]).overlap == 1.0
    assert md.validate(estimate, _run("puma4", 0)).overlap == 0.0
