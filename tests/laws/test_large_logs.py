"""Logs that stay on disk.

The same results as in memory, flat memory, honest progress, clean endings.
"""

import os
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import minidyn as md
from conftest import OWN
from minidyn.identification.estimators.method import Options
from minidyn.identification.estimators.methods import METHODS
from minidyn.identification.inputs import ready_for
from minidyn.recording.lazy import LazyRecording
from minidyn.recording.prepare import spool
from minidyn.recording.prepare.on_disk import prepare_on_disk
from minidyn.recording.prepare.preparation import Preparation, Processing

TERMS = ("viscous", "coulomb", "offset")


def arm() -> md.Robot:
    robot = md.load("puma4").with_drives(rotor_inertia=True, friction=TERMS)
    return robot.with_parameters(np.where(np.isnan(robot.parameters), 0.3, robot.parameters))


def raw_log(
    robot: md.Robot, samples: int, rate: float = 500.0, start: float = 0.0, seed: int = 0
) -> md.Recording:
    rng = np.random.default_rng(seed)
    t = start + np.arange(samples) / rate
    q, dq, ddq = md.trajectory.fourier(robot, seed=0)(t)
    tau = md.inverse_dynamics(robot, q, dq, ddq) + 0.3 * rng.standard_normal(q.shape)
    return md.Recording(
        t, q + 1e-5 * rng.standard_normal(q.shape), tau, joint_names=robot.joint_names
    )


@pytest.fixture(scope="module")
def log(tmp_path_factory) -> Path:
    """Two runs of a raw log."""
    robot = arm()
    whole = md.concatenate([raw_log(robot, 20_000), raw_log(robot, 9000, start=100.0, seed=1)])
    path = tmp_path_factory.mktemp("log") / "log.parquet"
    whole.save(path)
    return path


def assert_same(one: md.Estimate, two: md.Estimate) -> None:
    """Equal to 1e-9; physically possible parameters to what their iterations are ended by."""
    assert one.samples == two.samples
    for name in ("beta", "parameters", "sigma", "covariance"):
        a, b = getattr(one, name), getattr(two, name)
        close = 1e-6 if one.consistent and name in ("beta", "parameters") else 1e-9
        np.testing.assert_allclose(a, b, rtol=close, atol=close * np.abs(a).max(), err_msg=name)
    # a computed number, not one of a few to choose from
    weights = [found.record.get("prior_weight", 0.0) for found in (one, two)]
    assert weights[0] == pytest.approx(weights[1], rel=1e-6)


@pytest.mark.parametrize("method", ["ols", "wls", "irls"])
def test_lazy_and_in_memory_agree(method, log) -> None:
    robot = arm()
    eager, lazy = md.read_recording(log, robot), md.read_recording(log, robot, lazy=True)
    assert isinstance(lazy, LazyRecording)
    assert_same(
        *(md.identify(robot, log, method, consistent=False, **OWN) for log in (eager, lazy))
    )
    if method == "wls":  # the rest of the way is the same for all
        values = robot.parameters.copy()
        values[robot.layout.links[1]] = np.nan  # a body that the prior does not know
        one, two = (md.identify(robot.with_parameters(values), log, **OWN) for log in (eager, lazy))
        assert_same(one, two)
        assert one.record.keys() == two.record.keys()
        assert one.record["preparation"]["cutoff"] == pytest.approx(
            two.record["preparation"]["cutoff"], rel=1e-9
        )
        assert (
            one.record["preparation"]["samples"]
            == two.record["preparation"]["samples"]
            == two.samples
        )
        assert one.record["prior_weight"] >= 0
        a, b = md.validate(one, eager), md.validate(one, lazy)
        assert b.relative_error == pytest.approx(a.relative_error, rel=1e-9)
        assert b.rmse == pytest.approx(a.rmse, rel=1e-9)
        for name, entry in a.per_joint.items():
            assert b.per_joint[name] == pytest.approx(entry, rel=1e-6)
        np.testing.assert_allclose(b.residual, a.residual, atol=1e-8)


def test_prepared_files_and_other_orders_of_joints(log, tmp_path) -> None:
    robot = arm()
    prepared = md.prepare(robot, md.read_recording(log, robot), cutoff=12.0)
    turned = [2, 0, 3, 1]
    shuffled = md.Recording(
        prepared.t, prepared.q[:, turned], prepared.tau[:, turned], prepared.dq[:, turned], prepared.ddq[:, turned],  # noqa: E501
        [prepared.joint_names[k] for k in turned], starts=prepared.starts, prepared=True,
    )  # fmt: skip
    expected = md.identify(robot, prepared, consistent=False, **OWN)
    # where nobody tells what low-pass signals went through, friction is not seen through it
    untold = md.identify(robot, replace(prepared, info={}), consistent=False, **OWN)
    assert not np.array_equal(untold.beta, expected.beta)
    for name, recording, like in (
        ("a.npz", prepared, expected),
        ("b.csv", prepared, expected),
        ("c.parquet", shuffled, untold),
    ):
        recording.save(tmp_path / name)
        lazy = md.read_recording(tmp_path / name, lazy=True)
        assert_same(like, md.identify(robot, lazy, consistent=False, **OWN))
    with pytest.raises(md.MinidynError, match="joint"):
        md.identify(md.load("ur10e"), lazy, **OWN)
    lazily = md.prepare(robot, md.read_recording(log, robot, lazy=True), cutoff=12.0)
    calls: list[int] = []
    assert_same(
        expected, md.identify(robot, lazily, consistent=False, progress=calls.append, **OWN)
    )
    assert calls[-1] >= 3 * expected.samples  # prepared once, into a file, and read twice


def test_gaps_are_ends_of_runs(tmp_path) -> None:
    robot = arm()
    whole = raw_log(robot, 20_000)
    keep = np.r_[0:8000, 9000:20_000]
    gapped = md.Recording(
        whole.t[keep], whole.q[keep], whole.tau[keep], joint_names=whole.joint_names
    )
    gapped.save(tmp_path / "gap.parquet")
    eager = md.prepare(robot, gapped, cutoff=19.0, decimate=1)
    lazy = spool.spooled(
        md.prepare(
            robot,
            md.read_recording(tmp_path / "gap.parquet", robot, lazy=True),
            cutoff=19.0,
            decimate=1,
        )
    )
    assert len(eager.runs) == len(lazy.runs) == 2
    assert (
        len(lazy)
        == sum(len(run) for run in lazy.runs)
        == sum(len(tile) for tile in lazy.tiles(999))
    )
    assert_same(
        md.identify(robot, eager, consistent=False, **OWN),
        md.identify(robot, lazy, consistent=False, **OWN),
    )


def test_a_standstill_at_the_beginning_does_not_hide_the_motion(tmp_path) -> None:
    robot = arm()
    moving = raw_log(robot, 40_000)
    still = 30_000
    q = np.concatenate([np.repeat(moving.q[:1], still, axis=0), moving.q])
    q[:still] += 1e-5 * np.random.default_rng(0).standard_normal((still, 4))
    t = np.arange(len(q)) / 500
    tau = np.concatenate([np.repeat(moving.tau[:1], still, axis=0), moving.tau])
    md.Recording(t, q, tau, joint_names=moving.joint_names).save(tmp_path / "log.parquet")
    raw = md.read_recording(tmp_path / "log.parquet", robot, lazy=True)
    lazy = prepare_on_disk(raw, Processing.of(Preparation()), look=1 << 15)
    motion = md.prepare(robot, moving).info["motion_band"]
    assert lazy.info["motion_band"] == pytest.approx(motion, rel=0.3)


def test_other_methods_read_it_whole(log) -> None:
    robot = arm()
    lazy = md.read_recording(log, robot, lazy=True)
    method = METHODS["filtered"]
    whole, notices = ready_for(method, robot, lazy)
    assert isinstance(whole, md.Recording)
    assert notices[-1].code == "identify.in_memory"
    pieces, notices = ready_for(replace(method, streams_from=1000), robot, lazy)
    assert isinstance(pieces, LazyRecording)
    assert notices[-1].code == "identify.piecewise"
    base = md.base_parameters(robot)
    one, other = (method.solve(robot, base, some, Options()) for some in (whole, pieces))
    assert np.all(np.abs(other.beta - one.beta) < 3 * np.sqrt(np.diag(one.covariance)))


def test_thinned_is_a_slice_with_a_step(log) -> None:
    eager, lazy = md.read_recording(log), md.read_recording(log, lazy=True)
    for step in (1, 7, 40_000):
        mine, theirs = lazy.thinned(step), eager[::step]
        np.testing.assert_array_equal(mine.t, theirs.t)
        np.testing.assert_array_equal(mine.q, theirs.q)
        assert mine.starts == theirs.starts


def test_progress_goes_on_over_all_passes(log) -> None:
    robot, calls = arm(), []
    md.identify(
        robot,
        md.read_recording(log, robot, lazy=True),
        "irls",
        consistent=False,
        progress=calls.append,
        **OWN,
    )
    assert calls == sorted(set(calls))
    assert calls[0] > 0
    used = md.identify(
        robot, md.read_recording(log, robot, lazy=True), consistent=False, **OWN
    ).samples
    assert calls[-1] >= 4 * used  # prepared, fitted, reweighted at least once, judged


@pytest.mark.parametrize("after", [1, 5])
def test_an_interrupt_leaves_nothing(after, log, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    robot, calls = arm(), []
    threads = threading.active_count()

    def stop(done: int) -> None:
        calls.append(done)
        if len(calls) == after:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        md.identify(robot, md.read_recording(log, robot, lazy=True), progress=stop, **OWN)
    assert len(calls) == after
    assert not list(tmp_path.iterdir())
    assert threading.active_count() <= threads


def test_mistakes_in_the_file_are_named(tmp_path) -> None:
    robot = arm()
    whole = md.prepare(robot, raw_log(robot, 3000), decimate=1)
    broken = whole.dq.copy()
    broken[1234, 2] = np.nan
    md.Recording(whole.t, whole.q, whole.tau, broken, whole.ddq, whole.joint_names).save(
        tmp_path / "nan.parquet"
    )
    with pytest.raises(
        md.MinidynError, match=f"dq of joint {whole.joint_names[2]!r} is not a number"
    ):
        md.identify(
            robot,
            md.read_recording(tmp_path / "nan.parquet", robot, lazy=True, use_ddq=True),
            **OWN,
        )
    md.Recording(whole.t, whole.q, None, joint_names=whole.joint_names).save(
        tmp_path / "no_tau.parquet"
    )
    with pytest.raises(md.MinidynError, match="torques"):
        md.identify(robot, md.read_recording(tmp_path / "no_tau.parquet", robot, lazy=True), **OWN)


def test_a_full_disk_is_named(log, monkeypatch) -> None:
    class Full:
        def write(self, _: object) -> None:
            raise OSError(28, "No space left on device")

        def close(self) -> None: ...

    monkeypatch.setattr(spool.tempfile, "TemporaryFile", lambda **_: Full())
    robot = arm()
    with pytest.raises(md.MinidynError, match=r"No space left on device\); set TMPDIR"):
        md.identify(robot, md.read_recording(log, robot, lazy=True), **OWN)


PEAK = """
import sys
from pathlib import Path
import minidyn as md
from minidyn.recording.prepare.on_disk import prepare_on_disk
from minidyn.recording.prepare.preparation import Preparation
from minidyn.recording.prepare.preparation import Processing
from test_large_logs import arm
robot = arm()
lazy = md.read_recording(sys.argv[1], robot, lazy=True)
lazy = prepare_on_disk(lazy, Processing.of(Preparation()), look=1 << 13, window=1 << 13)  # small pieces are all there after a short log
md.identify(robot, lazy, consistent=False, sign_width=0.01)
[line] = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM")]
print(int(line.split()[1]) / 1024)
"""  # noqa: E501


@pytest.mark.long
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="peak memory is read from /proc")
def test_memory_does_not_grow_with_the_log(tmp_path) -> None:
    """Half a million samples more, the same peak but for what threads leave.

    Each copy of them would take 40 MB. The shorter log is long enough that every bounded sample
    (for choices and checks) is full in both.
    """
    robot = arm()
    peaks = []
    for samples in (260_000, 800_000):
        path = tmp_path / f"{samples}.parquet"
        raw_log(robot, samples, rate=1000.0).save(path)
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path]),
        }
        environment["MALLOC_ARENA_MAX"] = (
            "1"  # an arena a thread keeps what it once had: 10 to 25 MB by chance
        )
        done = subprocess.run(
            [sys.executable, "-c", PEAK, str(path)],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
        peaks.append(float(done.stdout))
    assert peaks[1] - peaks[0] < 25, peaks


def test_recordings_on_disk_are_joined_on_disk(log) -> None:
    robot = arm()
    eager, lazy = md.read_recording(log, robot), md.read_recording(log, robot, lazy=True)
    one, two = lazy.runs
    joined = md.concatenate([two, one])
    assert isinstance(joined, LazyRecording)
    assert joined.starts == (0, len(two))
    np.testing.assert_array_equal(
        joined.load().tau, md.concatenate([eager.runs[1], eager.runs[0]]).tau
    )
    mixed = md.concatenate([eager.runs[0], two])
    assert_same(
        md.identify(robot, eager, consistent=False, **OWN),
        md.identify(robot, mixed, consistent=False, **OWN),
    )
    with pytest.raises(md.MinidynError, match="recording 2 has q dq ddq tau"):
        md.concatenate([lazy, md.prepare(robot, eager)])
