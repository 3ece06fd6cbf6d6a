"""A recording made ready.

The same in memory and on disk, in any order of columns, and as `md.prepare` makes it.
"""

from dataclasses import replace
from itertools import zip_longest

import numpy as np
import pytest

import minidyn as md
from minidyn.recording.lazy import LazyRecording
from minidyn.recording.prepare.spool import SpooledRun
from minidyn.recording.ready import as_recording, in_robot_order, ready
from minidyn.recording.recording import SIGNALS

ORDER = (2, 0, 3, 1)


def raw_log(robot: md.Robot, samples: int, start: float = 0.0, seed: int = 0) -> md.Recording:
    rng = np.random.default_rng(seed)
    t = start + np.arange(samples) / 500.0
    q, dq, ddq = md.trajectory.fourier(robot, seed=0)(t)
    tau = md.inverse_dynamics(robot, q, dq, ddq) + 0.3 * rng.standard_normal(q.shape)
    return md.Recording(
        t, q + 1e-5 * rng.standard_normal(q.shape), tau, joint_names=robot.joint_names
    )


@pytest.fixture(scope="module")
def robot() -> md.Robot:
    return md.load("puma4")


@pytest.fixture(scope="module")
def log(robot) -> md.Recording:
    """Two raw runs."""
    return md.concatenate([raw_log(robot, 5000), raw_log(robot, 3000, start=50.0, seed=1)])


def on_disk(recording: md.Recording, folder) -> LazyRecording:
    recording.save(folder / "log.npz")
    return md.read_recording(folder / "log.npz", lazy=True)


def assert_same(one, two, signals=("t", *SIGNALS), exact=True) -> None:
    one, two = one.load(), two.load()
    assert one.joint_names == two.joint_names
    assert one.starts == two.starts
    for name in signals:
        a, b = getattr(one, name), getattr(two, name)
        np.testing.assert_allclose(
            a, b, rtol=0, atol=0 if exact else 1e-9 * np.abs(a).max(), err_msg=name
        )


def test_tiles_of_memory_and_disk_are_the_same(robot, log, tmp_path) -> None:
    lazy = on_disk(log, tmp_path)
    assert (lazy.n, len(lazy), lazy.starts, lazy.signals) == (
        log.n,
        len(log),
        log.starts,
        log.signals,
    )
    prepared = md.prepare(robot, lazy)  # windows of its own sizes
    for one, two in ((log, lazy), (prepared.load(), prepared), (log[1234:6789], lazy[1234:6789])):
        for samples in (700, 1 << 16):
            for a, b in zip_longest(one.tiles(samples), two.tiles(samples)):
                assert len(a) <= samples
                assert a.starts == b.starts == (0,)
                np.testing.assert_array_equal(a.t, b.t)
                np.testing.assert_array_equal(a.q, b.q)
        assert [len(run) for run in one.runs] == [len(run) for run in two.runs]
        np.testing.assert_array_equal(one.thinned(7).q, two.thinned(7).q)
    with pytest.raises(md.MinidynError, match="at least one sample"):
        next(log.tiles(0))


def test_raw_is_as_prepare_makes_it(robot, log, tmp_path) -> None:
    lazy = on_disk(log, tmp_path)
    made = ready(robot, log, purpose="a test")
    assert_same(made, md.prepare(robot, log))
    assert made.info == md.prepare(robot, log).info
    assert_same(ready(robot, lazy, purpose="a test"), md.prepare(robot, lazy))
    assert_same(ready(robot, lazy, purpose="a test", once=True), md.prepare(robot, lazy))
    assert_same(ready(robot, lazy, purpose="a test", in_memory=True), made)
    again = ready(robot, made, purpose="a test")
    assert again is made
    assert len(made.notices) == len(md.prepare(robot, log).notices) + 1


def test_memory_and_disk_agree(robot, log, tmp_path) -> None:
    prepared = md.prepare(robot, log)
    assert_same(
        ready(robot, on_disk(prepared, tmp_path), purpose="a test"),
        ready(robot, prepared, purpose="a test"),
    )
    lazy = ready(robot, on_disk(log, tmp_path), purpose="a test", every_sample=True)
    eager = ready(robot, log, purpose="a test", every_sample=True)
    assert len(lazy) == len(eager) == len(log)
    assert_same(lazy, eager, exact=False)


def test_what_is_prepared_as_it_is_read_is_kept_once(robot, log, tmp_path) -> None:
    lazy, counted = on_disk(log, tmp_path), []
    made = ready(robot, lazy, purpose="a test", progress=counted.append)
    assert counted[-1] == len(made)
    assert all(isinstance(run, SpooledRun) for run, _, _ in made.parts)
    assert ready(robot, made, purpose="a test", progress=counted.append).signals == SIGNALS
    assert counted[-1] == max(counted) == len(made)
    assert counted.count(len(made)) == 1
    single = ready(robot, lazy, purpose="a test", once=True)
    assert "tau_raw" in next(single.tiles()).telemetry


def test_any_order_of_columns(robot, log, tmp_path) -> None:
    names = [robot.joint_names[k] for k in ORDER]
    shuffled = log.reordered(names)
    assert shuffled.joint_names == tuple(names)
    np.testing.assert_array_equal(shuffled.tau, log.tau[:, list(ORDER)])
    assert_same(ready(robot, shuffled, purpose="a test"), ready(robot, log, purpose="a test"))
    lazy = on_disk(shuffled, tmp_path)
    assert_same(
        ready(robot, lazy, purpose="a test"), ready(robot, on_disk(log, tmp_path), purpose="a test")
    )
    assert in_robot_order(robot, log) is log
    numbered = replace(log, joint_names=tuple("abcd"))
    assert (
        in_robot_order(robot, numbered) is numbered
    )  # names of another kind are taken by position


def test_the_preparation_of_a_fit_is_used_again(robot, log, tmp_path) -> None:
    given = md.prepare(robot, log, cutoff=11.0, delay=0.004).info
    made = ready(robot, log, purpose="a test", preparation=given)
    assert_same(made, md.prepare(robot, log, cutoff=11.0, delay=0.004))
    assert made.info["delay"] == 0.004
    lazy = on_disk(log, tmp_path)
    assert_same(ready(robot, lazy, purpose="a test", preparation=given), made)
    slower = ready(robot, log[::2], purpose="a test", preparation={**given, "delay": 0.0})
    assert slower.info["cutoff"] == md.prepare(robot, log[::2]).info["cutoff"] != 11.0


def test_needs(robot, log, tmp_path) -> None:
    without = replace(log, tau=None)
    prepared = md.prepare(robot, log)
    for recording in (without, on_disk(without, tmp_path)):
        with pytest.raises(
            md.MinidynError, match=r"^flying needs measured torques; recording 2 has none$"
        ):
            ready(robot, recording, purpose="flying", name="recording 2")
        assert ready(robot, recording, purpose="flying", tau=False).signals == ("q", "dq", "ddq")
    speeds = replace(prepared, ddq=None)
    assert ready(robot, speeds, purpose="flying", ddq=False) is speeds
    assert "ddq" in ready(robot, speeds, purpose="flying").signals


@pytest.mark.parametrize("signal", SIGNALS)
def test_what_is_no_number_is_named(robot, log, tmp_path, signal) -> None:
    prepared = md.prepare(robot, log)
    values = np.array(getattr(prepared, signal))
    values[321, 2] = np.nan
    bad = replace(prepared, **{signal: values})
    words = (
        f"^{signal} of joint '{robot.joint_names[2]}' is not a number at t = "
        f"{prepared.t[321]:.6g} s"
    )
    with pytest.raises(md.MinidynError, match=words):
        ready(robot, bad, purpose="a test")
    lazy = ready(robot, on_disk(bad, tmp_path), purpose="a test")
    with pytest.raises(md.MinidynError, match=words):
        list(lazy.tiles())
    if signal == "ddq":
        assert len(ready(robot, bad, purpose="a test", ddq=False)) == len(bad)


def test_joints_of_another_robot(robot, log, tmp_path) -> None:
    misspelled = replace(log, joint_names=(*robot.joint_names[:3], "joint4x"))
    few = md.Recording(log.t, log.q[:, :2], None)
    for wrong, words in (
        (misspelled, "unknown joint of robot 'puma4' in the recording: 'joint4x'"),
        (few, "2 joints"),
    ):
        for recording in (wrong, on_disk(wrong, tmp_path)):
            with pytest.raises(md.MinidynError, match=words):
                ready(robot, recording, purpose="a test")


def test_doors_take_recordings_and_paths(robot, log, tmp_path) -> None:
    path = tmp_path / "log.npz"
    lazy = on_disk(log, tmp_path)
    assert as_recording(log, robot) is log
    assert as_recording(lazy, robot) is lazy
    for given in (path, str(path), [path]):
        assert_same(as_recording(given, robot), log, ("t", "q", "tau"))
    with pytest.raises(
        md.MinidynError, match="got a value of type Robot; robot and recording seem to be swapped"
    ):
        as_recording(robot, robot)
    for wrong in (None, 3.0, np.zeros((1000, 4)), []):
        with pytest.raises(
            TypeError, match=r"^recording: expected a Recording or the path of a log, got"
        ):
            as_recording(wrong, robot)
    assert_same(md.prepare("puma4", path), md.prepare(robot, log))
    assert md.read_recording(path, "puma4").joint_names == robot.joint_names
    with pytest.raises(md.MinidynError, match="robot and recording seem to be swapped"):
        md.prepare(log, robot)


def test_arrays_are_shared_only_where_nobody_can_change_them() -> None:
    values = np.arange(12.0).reshape(6, 2)
    seen = values.view()
    seen.setflags(write=False)
    for given in (values, seen):
        recording = md.Recording(np.arange(6.0), given, None)
        assert not np.shares_memory(recording.q, values)
        assert not recording.q.flags.writeable
    assert np.shares_memory(recording[2:4].q, recording.q)
    assert not np.shares_memory(
        recording[::2].q, recording.q
    )  # a few samples do not keep all of them
