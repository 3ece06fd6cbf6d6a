"""Logs read by workers of an executor.

The same results to the last bit, whoever reads, dies or comes late.
"""

import gc
import json
import os
import pickle
import random
import signal
import subprocess
import sys
import tempfile
import threading
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from test_large_logs import arm, raw_log

import minidyn as md
from conftest import OWN, count
from minidyn.app.cli.main import main
from minidyn.app.study import run
from minidyn.arrays import may_thread, one_processor, side_by_side
from minidyn.errors import WorkerFailed
from minidyn.identification.diagnose.residuals import Residuals
from minidyn.identification.rows import triangles
from minidyn.recording import engine, lazy
from minidyn.recording.engine import Engine, Workers, executor_of
from minidyn.recording.prepare import on_disk, spool
from minidyn.recording.read.left_on_disk import hash_of

_GROUP = 1 << 14
fitting = import_module("minidyn.identification.fit")


class Shuffled(Executor):
    """Runs what was sent, pickled there and back, in any order and late.

    Tasks named `dies` fail so many times.
    """

    def __init__(self, dies: int = 0) -> None:
        self.dies, self.names, self.lost = dies, [], 0
        self._random = random.Random(0)
        self._waiting: list[tuple[Future, bytes]] = []

    def submit(self, fn, /, *args, **kwargs):
        future: Future = Future()
        self.names.append(fn.__name__)
        self._waiting.append((future, pickle.dumps((fn, args, kwargs))))
        threading.Timer(0.005, self._some).start()
        return future

    def _some(self) -> None:
        self._random.shuffle(self._waiting)
        future, sent = self._waiting.pop()
        if not future.set_running_or_notify_cancel():
            return
        if self.dies > self.lost:
            self.lost += 1
            future.set_exception(ConnectionResetError("the worker is gone"))
        else:
            try:
                fn, args, kwargs = pickle.loads(sent)
                future.set_result(pickle.loads(pickle.dumps(fn(*args, **kwargs))))
            except Exception as error:
                future.set_exception(error)


@pytest.fixture(scope="module")
def logs(tmp_path_factory) -> list[Path]:
    """Three files of one run each, one with a gap, one short; row groups of a window's length."""
    robot, folder = arm(), tmp_path_factory.mktemp("logs")
    whole = [
        raw_log(robot, 60_000),
        raw_log(robot, 40_000, start=500.0, seed=1),
        raw_log(robot, 3000, seed=2),
    ]
    keep = np.r_[0:20_000, 20_400:40_000]
    whole[1] = md.Recording(
        whole[1].t[keep], whole[1].q[keep], whole[1].tau[keep], joint_names=whole[1].joint_names
    )
    paths = [folder / f"{name}.parquet" for name in "abc"]
    for path, one in zip(paths, whole):
        pq.write_table(pa.table(one._columns()), path, row_group_size=_GROUP)
    return paths


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch) -> None:
    monkeypatch.setattr(lazy, "CHUNK", 2 * _GROUP)


def identified(logs: list[Path], **options) -> md.Estimate:
    read = md.read_recording(logs, arm(), lazy=True)
    return md.identify(arm(), read, **{"method": "wls"} | OWN | options)


@pytest.fixture(scope="module")
def alone(logs) -> md.Estimate:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lazy, "CHUNK", 2 * _GROUP)
        return identified(logs)


def assert_equal(one: md.Estimate, two: md.Estimate) -> None:
    """Equal to the last bit, whatever is saved."""
    for name in ("beta", "parameters", "sigma", "covariance"):
        assert np.array_equal(getattr(one, name), getattr(two, name)), name
    assert json.dumps(one.record, default=str) == json.dumps(two.record, default=str)
    assert one.notices == two.notices


class Far(Shuffled):
    """A cluster, as its module says: each task costs its way."""

    __module__ = "distributed.somewhere"


class Gone(Far):
    """A cluster whose scheduler was killed: its client cancels what waits."""

    __module__ = "distributed.somewhere"

    def submit(self, fn, /, *args, **kwargs):
        if self.names:
            raise RuntimeError("cannot schedule new futures after shutdown")
        self.names.append("first")
        future: Future = Future()
        future.cancel()
        return future


class Silent(Far):
    """A cluster whose scheduler was killed while it sent a result: the result never comes."""

    __module__ = "distributed.somewhere"

    def __init__(self) -> None:
        super().__init__()
        self._client = SimpleNamespace(status="running")

    def submit(self, fn, /, *args, **kwargs):
        self._client.status = "closed"
        return Future()


def test_results_that_never_come_are_not_waited_for(logs) -> None:
    with pytest.raises(md.MinidynError, match="the Dask scheduler no longer answers"):
        identified(logs, executor=Silent())


def test_a_scheduler_that_is_killed_is_named(logs, tmp_path) -> None:
    for place, words in ((None, "with keep=FOLDER"), (tmp_path, f"resumes from {tmp_path}")):
        with pytest.raises(md.MinidynError, match="the Dask scheduler no longer answers") as caught:
            identified(logs, executor=Gone(), **({"keep": place} if place else {}))
        assert words in str(caught.value)


def test_clusters_get_two_chunks_a_task(logs, alone, monkeypatch) -> None:
    """The first ones apart: there must be some for everybody. No bit changes."""
    monkeypatch.setattr(engine, "_ALONE", 1)
    executor = Far()
    assert_equal(alone, identified(logs, executor=executor))
    chunks = len(list(md.prepare(arm(), md.read_recording(logs, arm(), lazy=True)).chunks()))
    assert chunks >= 4
    assert executor.names.count("triangles") == 1 + -(-(chunks - 1) // 2)


@pytest.mark.parametrize(("kind", "tasks"), [(Far, 5), (Shuffled, 7)])
def test_of_two_chunks_one_may_fail(kind, tasks, monkeypatch) -> None:
    """Results come in order, with their rows; what fails is tried three times."""
    monkeypatch.setattr(engine, "_ALONE", 2)
    executor = kind()
    chunks = [engine.Files(tuple(range(10 * k, 11 * k + 1))) for k in range(7)]
    found = list(Engine(executor).tried(_paths_of, chunks))
    assert [chunk for _, chunk, _ in found] == chunks
    rows = np.cumsum([0, *map(len, chunks)])
    assert [one for k, (one, _, _) in enumerate(found) if k != 4] == [
        (chunk.paths, row) for k, (chunk, row) in enumerate(zip(chunks, rows)) if k != 4
    ]
    assert found[4][0] == engine._Failure("forty cannot be read")
    assert len(executor.names) == tasks + 2


def _paths_of(chunk, row, progress):
    if 40 in chunk.paths:
        raise WorkerFailed("forty cannot be read")
    return chunk.paths, row


def test_only_what_is_asked_for_is_unpacked(logs, monkeypatch) -> None:
    """Of a row group no more batches than reach the last sample.

    Pieces that show something begin where groups do.
    """
    log, read = md.read_recording(logs[0], arm(), lazy=True), list[int]()
    batches = pq.ParquetFile.iter_batches

    def counted(*args, **options):
        for batch in batches(*args, **options):
            read.append(batch.num_rows)
            yield batch

    monkeypatch.setattr(pq.ParquetFile, "iter_batches", counted)
    some = log[_GROUP + 100 : _GROUP + 400]
    assert sum(map(len, some.tiles(200))) == 300
    assert sum(read) == 400
    assert [begin for _, begin, _ in log.spread(4, 300, quick=True).parts] == [
        0,
        _GROUP,
        2 * _GROUP,
        59_700,
    ]
    assert [begin for _, begin, _ in log[:_GROUP].spread(3, 300, quick=True).parts] == [
        0,
        8042,
        16084,
    ]


def test_any_order_and_lost_workers_change_no_bit(logs, alone, monkeypatch, tmp_path) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))  # nobody else's files
    log = md.read_recording(logs, arm(), lazy=True)
    assert len(list(log.chunks())) >= 4
    executor, write = Shuffled(dies=2), spool._Chunk.write
    executor.written = 0

    def counted(chunk):
        executor.written += 1
        return write(chunk)

    monkeypatch.setattr(spool._Chunk, "write", counted)
    done: list[int] = []
    assert_equal(alone, identified(logs, executor=executor, progress=done.append))
    assert executor.lost == 2
    assert done == sorted(set(done))
    assert {"prepare_chunk", "triangles", "block_sums"} <= set(executor.names)
    pieces = sum(len(chunk.parts) for chunk in md.prepare(arm(), log).chunks())
    assert executor.written == pieces  # once each, however many passes there are
    gc.collect()
    assert not list(tmp_path.iterdir())
    one, two = (md.validate(alone, log, executor=some) for some in (None, executor))
    assert "compared" in executor.names
    assert one.per_joint == two.per_joint
    for name in ("t", "measured", "predicted"):
        np.testing.assert_array_equal(getattr(one, name), getattr(two, name))
    assert one.motion.starts == two.motion.starts
    assert one.overlap == two.overlap == 1.0
    assert one.notices == two.notices


@pytest.mark.parametrize("sizes", [(500,), (7, 300), (30, 3, 4, 200), (19, 1, 21)])
def test_residuals_of_parts_are_those_of_the_whole(sizes) -> None:
    rng = np.random.default_rng(0)
    parts = [rng.standard_normal((size, 3)) for size in sizes]
    whole, joined = Residuals(3), Residuals(3)
    for part in parts:
        whole.add(part, 2 * part)
        one = Residuals(3)
        one.add(part, 2 * part)
        joined.join(one)
    for name in ("rmse", "bias", "autocorrelation", "outside", "ljung_box"):
        np.testing.assert_allclose(
            getattr(joined, name), getattr(whole, name), rtol=1e-9, atol=1e-12
        )
    np.testing.assert_array_equal(joined._tail, whole._tail)


@pytest.mark.skipif(
    not Path("/proc/self/io").exists(), reason="the system does not count bytes that are read"
)
def test_only_columns_and_row_groups_that_are_needed_are_read(tmp_path) -> None:
    robot, path = arm(), tmp_path / "wide.parquet"
    columns = raw_log(robot, 40_000)._columns()
    rng = np.random.default_rng(0)
    pictures = {f"camera{k}": rng.standard_normal(40_000) for k in range(20)}
    pq.write_table(pa.table(columns | pictures), path, row_group_size=10_000)
    about = pq.ParquetFile(path).metadata
    groups = [about.row_group(k) for k in range(about.num_row_groups)]
    chunks = [[group.column(k) for k in range(group.num_columns)] for group in groups]
    needed = [
        sum(c.total_compressed_size for c in some if "camera" not in c.path_in_schema)
        for some in chunks
    ]

    def read() -> int:
        return int(Path("/proc/self/io").read_text().split("rchar:")[1].split()[0])

    log = md.read_recording(path, robot, lazy=True)
    told = next(notice for notice in log.notices if notice.code == "recording.pruned")
    assert told.data["needed"] == sum(needed)
    assert told.data["held"] == sum(c.total_compressed_size for some in chunks for c in some)
    for part, least in ((log, sum(needed)), (log[30_000:], needed[-1])):
        before = read()
        assert sum(len(tile) for tile in part.tiles()) == len(part)
        assert (
            least <= read() - before < 1.1 * least + 100_000
        )  # and the end of the file, which says what is where
    assert path.stat().st_size > 2 * sum(needed)


def test_chunks_are_the_recording(logs) -> None:
    log = md.read_recording(logs, arm(), lazy=True)
    chunks = list(log.chunks())
    for name in ("t", "q", "tau"):
        whole = np.concatenate([getattr(chunk.load(), name) for chunk in chunks])
        np.testing.assert_array_equal(whole, getattr(log.load(), name))
    # where reading begins changes no sample of what is prepared
    made = md.prepare(arm(), log, cutoff=12.0)
    part = made[1234:5678].load()
    np.testing.assert_array_equal(part.ddq, made.load()[1234:5678].ddq)


def test_of_many_runs_some_settle_the_cutoff(tmp_path, monkeypatch) -> None:
    """Each run still has its own rate, and one that is too short is left out."""
    robot = arm()
    runs = [raw_log(robot, 1500, rate=(500.0, 250.0)[k % 2], seed=k) for k in range(9)]
    md.concatenate([*runs, raw_log(robot, 10)]).save(tmp_path / "many.npz")
    log = md.read_recording(tmp_path / "many.npz", robot, lazy=True)
    every = md.prepare(robot, log, cutoff=12.0)
    monkeypatch.setattr(on_disk, "_RUNS", 3)
    some = md.prepare(robot, log, cutoff=12.0)
    assert [run.rate for run, _, _ in some.parts] == pytest.approx(
        [run.rate for run, _, _ in every.parts], rel=1e-9
    )
    np.testing.assert_allclose(some.load().ddq, every.load().ddq, rtol=1e-6, atol=1e-6)
    sent = md.prepare(robot, replace(log, engine=Engine(Shuffled())), cutoff=12.0)
    assert [run.rate for run, _, _ in sent.parts] == [run.rate for run, _, _ in some.parts]
    assert 4.0 < md.prepare(robot, log).info["cutoff"] < 100.0


def test_recordings_and_estimates_travel(alone, logs) -> None:
    recording = md.prepare(arm(), raw_log(arm(), 3000))
    again = pickle.loads(pickle.dumps(recording))
    np.testing.assert_array_equal(again.ddq, recording.ddq)
    assert again.notices == recording.notices
    assert again.info.keys() == recording.info.keys()
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(alone)).beta, alone.beta)
    checked = pickle.loads(pickle.dumps(md.validate(alone, recording)))
    assert checked.rmse == md.validate(alone, recording).rmse


@pytest.mark.parametrize("count", [1, 2, 3, 6, 7, 11])
def test_a_tree_of_triangles_is_that_of_all_rows(count) -> None:
    rng = np.random.default_rng(count)
    rows = [rng.standard_normal((5 + k, 4)) for k in range(count)]
    tree = triangles._Tree()
    for one in rows:
        tree.add(triangles.Triangles((((0, 1, 2)),), 3, (triangles.triangle_of(one),), len(one)))
    found = tree.joined()
    whole = np.concatenate(rows)
    np.testing.assert_allclose(
        found.factors[0].T @ found.factors[0], whole.T @ whole, atol=1e-12 * len(whole)
    )
    assert found.samples == len(whole)
    assert len(tree.parts) == bin(count).count("1")


def test_a_broken_file_stops_or_is_left_out(logs, tmp_path) -> None:
    broken, gone = tmp_path / "broken.parquet", tmp_path / "gone.parquet"
    broken.write_bytes(logs[0].read_bytes()[:50_000])
    files = [logs[0], broken, logs[2], gone]
    with pytest.raises(md.MinidynError, match=r"broken\.parquet"):
        md.read_recording(files, arm(), lazy=True)
    log = md.read_recording(files, arm(), lazy=True, on_error="skip")
    found = [notice.data["files"] for notice in log.notices if notice.code == "recording.left_out"]
    assert found == [str(broken), str(gone)]
    assert len(log) == 63_000
    with pytest.raises(md.MinidynError, match="did you mean 'skip'"):
        md.read_recording(files, arm(), on_error="skp")


def test_a_file_that_breaks_while_it_is_read(logs, tmp_path) -> None:
    copies = [tmp_path / path.name for path in logs]
    for copy, path in zip(copies, logs):
        copy.write_bytes(path.read_bytes())
    log = md.read_recording(copies, arm(), lazy=True)
    made = md.prepare(arm(), log, cutoff=12.0)
    copies[1].unlink()
    with pytest.raises(WorkerFailed, match=r"b\.parquet"):
        md.identify(arm(), made, **OWN, executor=Shuffled())
    found = md.identify(arm(), made, **OWN, executor=Shuffled(), on_error="skip")
    left = [notice.data["files"] for notice in found.notices if notice.code == "recording.left_out"]
    assert left
    assert all(str(copies[1]) in files for files in left)
    assert found.samples > 1000


def test_a_file_that_vanishes_between_two_passes(two_links, tmp_path, monkeypatch) -> None:
    """With on_error="skip" the work begins again without it.

    The result is that of the other files.
    """
    robot, options = (
        md.load("two_link"),
        {"friction": (), "rotor_inertia": False, "consistent": False},
    )
    copies = [tmp_path / Path(path).name for path in two_links]
    for copy, path in zip(copies, two_links):
        copy.write_bytes(Path(path).read_bytes())
    made = md.prepare(robot, md.read_recording(copies, robot, lazy=True), cutoff=12.0)
    monkeypatch.setattr(
        spool._Chunk, "rows", lambda chunk, first, count: _again(chunk)[first : first + count]
    )
    choose = fitting.select

    def vanishing(*given, **options):
        copies[1].unlink(missing_ok=True)
        return choose(*given, **options)

    monkeypatch.setattr(fitting, "select", vanishing)
    found = md.identify(robot, made, **options, executor=Shuffled(), on_error="skip")
    left = [notice.data["files"] for notice in found.notices if notice.code == "recording.left_out"]
    assert left == [str(copies[1])]
    rest = md.prepare(
        robot, md.read_recording([copies[0], copies[2]], robot, lazy=True), cutoff=12.0
    )
    np.testing.assert_array_equal(found.beta, md.identify(robot, rest, **options).beta)
    copies[1].write_bytes(Path(two_links[1]).read_bytes())
    with pytest.raises(WorkerFailed, match=r"1\.parquet"):
        md.identify(robot, made, **options, executor=Shuffled())


def _again(chunk) -> np.ndarray:
    """Prepare a chunk again, as a worker of another machine does."""
    chunk.write()
    return np.fromfile(chunk.folder.path / chunk.name).reshape(chunk.count, -1)


def test_executors_are_asked_for_what_they_are(logs) -> None:
    with pytest.raises(md.MinidynError, match="executor"):
        identified(logs, executor=8)
    with pytest.raises(md.MinidynError, match="workers"), Workers(0):
        pass
    with pytest.raises(md.MinidynError, match="give one"), executor_of(2, "tcp://127.0.0.1:1"):
        pass


def motion(samples: int, seed: int = 0) -> md.Recording:
    robot = md.load("two_link")
    robot = robot.with_parameters(np.where(np.isnan(robot.parameters), 0.3, robot.parameters))
    t = np.arange(samples) * 0.005
    q, dq, ddq = md.trajectory.fourier(robot, seed=seed, speed=3.0)(t)
    tau = md.inverse_dynamics(robot, q, dq, ddq) + 0.05 * np.random.default_rng(0).normal(
        size=q.shape
    )
    return md.Recording(t, q, tau, dq, joint_names=robot.joint_names)


@pytest.fixture(scope="module")
def two_links(tmp_path_factory) -> list[str]:
    """Raw logs of two joints in two files, and one with a load."""
    folder, robot = tmp_path_factory.mktemp("two"), md.load("two_link")
    made, known = (
        [],
        robot.with_parameters(np.where(np.isnan(robot.parameters), 0.3, robot.parameters)),
    )
    for number, true in enumerate(
        (known, known, md.Payload(0.0, [0.01, 0, 0, 0.01, 0, 0.01, 0.1, 0, 0, 1.0]).on(known))
    ):
        t = np.arange(6000) / 500
        q, dq, ddq = md.trajectory.fourier(robot, seed=number, speed=3.0)(t)
        tau = md.inverse_dynamics(true, q, dq, ddq) + 0.05 * np.random.default_rng(number).normal(
            size=q.shape
        )
        made.append(str(folder / f"{number}.parquet"))
        columns = md.Recording(t, q, tau, joint_names=robot.joint_names)._columns()
        pq.write_table(pa.table(columns), made[-1], row_group_size=1500)
    return made


def test_every_reader_of_logs_takes_an_executor(two_links, monkeypatch) -> None:
    """Prepare, compare, payload and check.

    The same bits as in one process, and the work is done by tasks.
    """
    monkeypatch.setattr(lazy, "CHUNK", 2000)
    robot, (fit, test, loaded) = md.load("two_link"), two_links
    terms = {"friction": (), "rotor_inertia": False, "consistent": (False,)}
    model = md.identify(robot, fit, friction=(), rotor_inertia=False, consistent=False)
    found = []
    for executor in (None, Shuffled()):
        given = {"executor": executor}
        logs = [
            md.read_recording([path], robot, lazy=True, executor=executor)
            for path in (fit, test, loaded)
        ]
        made = md.prepare(robot, logs[0], **given)
        compared = md.compare(robot, logs[0], logs[1], ["ols", "wls"], **terms, **given)
        payload = md.identify_payload(model, logs[2], **given)
        checked = md.check(robot, logs[0], fit=logs[1], **given)
        found.append(
            [made.load().ddq.tobytes(), made.info["cutoff"], made.notices]
            + [
                (row.validation_error, row.fit_error, row.estimate.beta.tobytes())
                for row in compared.rows
            ]
            + [
                compared.notices,
                payload.mass,
                payload.inertia.tobytes(),
                payload.notices,
                checked.to_json(),
            ]
        )
    for one, two in zip(*found, strict=True):
        assert one == two
    names = executor.names
    assert {
        "stretches_of",
        "thinned",
        "prepare_chunk",
        "triangles",
        "compared",
        "looked_at",
        "reversals",
    } <= set(names)


class Killed(BaseException):
    """The driver dies."""


def test_a_study_says_who_reads_and_goes_on(two_links, tmp_path, monkeypatch) -> None:
    """Who reads is no part of what is read; what a killed run has prepared is not read again."""
    executor, asked, killed = Shuffled(), [], []
    choose = fitting.select

    @contextmanager
    def executor_of(**engine):
        asked.append(engine)
        yield executor if engine else None

    def choose_or_die(*given, **options):
        if not killed:
            killed.append(executor.written)
            raise Killed
        return choose(*given, **options)

    executor.written, write = 0, spool._Chunk.write

    def counted(chunk):
        executor.written += 1
        return write(chunk)

    monkeypatch.setattr(run, "executor_of", executor_of)
    monkeypatch.setattr(fitting, "select", choose_or_die)
    monkeypatch.setattr(spool._Chunk, "write", counted)
    study, text = (
        tmp_path / "study.toml",
        f'[robot]\nfile = "two_link"\n[identify]\nlogs = ["{two_links[0]}"]\n',
    )
    text += 'friction = ["offset"]\nconsistent = false\n'
    study.write_text("[study]\nworkers = 2\n" + text)
    with pytest.raises(Killed):
        md.run_study(study)
    assert md.run_study(study)["identify"].state == "done"
    assert killed == [executor.written]
    assert killed[0] > 0
    assert not (tmp_path / "study" / ".work").exists()
    assert {"triangles", "compared"} <= set(executor.names)
    study.write_text(text)
    assert md.run_study(study)["identify"].state == "unchanged"
    assert asked == [{"workers": 2}, {"workers": 2}, {}]
    study.write_text('[study]\nworkers = "two"\n' + text)
    with pytest.raises(md.MinidynError, match="workers"):
        md.run_study(study)


_DRIVER = """
import os, pickle, signal, sys
import minidyn as md
from minidyn.recording import lazy
from minidyn.recording.prepare import spool
robot, logs, lazy.CHUNK, options = pickle.load(open(sys.argv[1], "rb"))
written, left = spool._written, [2]
def deadly(tiles, write):
    for piece in written(tiles, write):
        if not left[0]:
            os.kill(os.getpid(), signal.SIGKILL)
        yield piece
    left[0] -= 1
spool._written = deadly
md.identify(robot, md.read_recording(logs, robot, lazy=True), **options)
"""


def test_a_driver_that_was_killed_goes_on(logs, alone, tmp_path, monkeypatch) -> None:
    """What was prepared is not read again.

    Other settings, and other contents of files, are other work.
    """
    write, read, keep = spool._Chunk.write, [], tmp_path / "kept"
    (tmp_path / "task").write_bytes(pickle.dumps((arm(), logs, lazy.CHUNK, OWN | {"keep": keep})))
    ended = subprocess.run([sys.executable, "-c", _DRIVER, str(tmp_path / "task")], check=False)
    assert ended.returncode == -signal.SIGKILL  # in the middle of the third chunk
    assert len(list(keep.glob("*.json"))) == 2

    def counted(chunk):
        read.append(chunk.run.files)
        return write(chunk)

    monkeypatch.setattr(spool._Chunk, "write", counted)
    assert_equal(alone, identified(logs, keep=keep))
    pieces = len(list(keep.glob("*.json")))
    assert len(read) == pieces - 2
    read = []
    assert_equal(alone, identified(logs, keep=keep, executor=Shuffled()))  # whoever reads
    assert read == []
    some = next(keep.glob("*.json"))
    some.write_text("{")  # broken, or cut off
    next(path for path in keep.glob("*.json") if path != some).with_suffix("").write_bytes(b"0")
    assert_equal(alone, identified(logs, keep=keep))
    assert len(read) == 2
    os.utime(logs[2], ns=(1, 1))  # touched, and copied back: it holds what it held
    assert_equal(alone, identified(logs, keep=keep))
    assert len(read) == 2
    held, size = logs[2].read_bytes(), logs[2].stat().st_size
    logs[2].write_bytes(
        held.replace(b"parquet-cpp-arrow", b"parquet-cpp-Arrow")
    )  # of the same length, and written at the same time
    os.utime(logs[2], ns=(1, 1))
    assert logs[2].stat().st_size == size
    identified(logs, keep=keep)
    logs[2].write_bytes(held)
    assert read[2:] == [(str(logs[2]),)]


def test_a_task_has_one_processor(logs, monkeypatch) -> None:
    """What travels filters in its own thread, and reads files there, to the same bits."""
    run, begin, end = md.prepare(
        arm(), md.read_recording(logs, arm(), lazy=True), cutoff=12.0
    ).parts[2]
    here = list(run.tiles(1 << 12, begin, end))
    sent, asked = pickle.loads(pickle.dumps(run)), []
    batches = pq.ParquetFile.iter_batches
    monkeypatch.setattr(on_disk, "ThreadPoolExecutor", None)
    monkeypatch.setattr(
        pq.ParquetFile,
        "iter_batches",
        lambda *a, **k: asked.append(k["use_threads"]) or batches(*a, **k),
    )
    with one_processor():
        there = list(sent.tiles(1 << 12, begin, end))
    assert asked == [False]
    assert may_thread()
    assert [one.tau.tobytes() for one in here] == [one.tau.tobytes() for one in there]


def test_columns_side_by_side() -> None:
    table = np.random.default_rng(0).normal(size=(50, 6))
    for columns in (
        table.T,
        table[:, 1:4].T,
        table[::2].T,
        table.T[::-1],
        table[:, :1].T,
        table.astype("f4").T,
    ):
        made = side_by_side(list(columns))
        np.testing.assert_array_equal(made, np.column_stack(list(columns)))
        assert made.base is None
        assert made.flags.c_contiguous


def test_hashes_of_work_are_those_of_every_process(logs, tmp_path) -> None:
    log = md.prepare(arm(), md.read_recording(logs, arm(), lazy=True), cutoff=12.0)
    again = pickle.loads(pickle.dumps(log.parts))
    other = md.prepare(arm(), md.read_recording(logs, arm(), lazy=True), cutoff=13.0).parts
    hashes = [[hash_of(tmp_path, part) for part in parts] for parts in (log.parts, again, other)]
    assert hashes[0] == hashes[1]
    assert len({*hashes[0], *hashes[2]}) == 2 * len(log.parts)


def test_every_verb_names_what_it_left_out(tmp_path) -> None:
    """Whether it is fitted or tested, broken, gone or a pattern of nothing.

    Where nothing is left, that is an error.
    """
    (run, other), cut, nothing = (
        (tmp_path / f"{k}.parquet" for k in "ab"),
        tmp_path / "cut.parquet",
        tmp_path / "no*.csv",
    )
    motion(1500).save(run)
    motion(1500, seed=1).save(other)
    cut.write_bytes(run.read_bytes()[:2000])
    gone = tmp_path / "gone.csv"
    out, quick = tmp_path / "out", ["--friction", "none", "--no-rotor-inertia", "--no-consistent"]
    fit = ["identify", "two_link", run, *quick, "--output", out]
    tests = ["--validate", cut, "--validate", other, "--validate", nothing]
    model = out / "estimate.json"
    for verb, left in (
        ([*fit, gone, nothing, *tests], {gone, cut, nothing}),
        (
            ["validate", model, cut, other, nothing],
            {gone, cut, nothing},
        ),  # and what the model is without
        (["payload", model, other, cut], {cut}),
        (["compare", "two_link", run, *tests, "--methods", "ols", *quick[:3]], {cut, nothing}),
    ):
        said = [*map(str, verb), "--on-error", "skip"]
        result = CliRunner().invoke(main, [*said, "--json"])
        assert result.exit_code == 4, result.output
        notices = json.loads(result.stdout)["notices"]
        assert {
            one["data"]["files"] for one in notices if one["code"] == "recording.left_out"
        } == set(map(str, left))
        if verb[0] in ("validate", "payload"):
            result = CliRunner().invoke(main, said)
            assert result.exit_code == 4
            assert "cut.parquet" in result.stdout
        stopped = CliRunner().invoke(main, said[:-2])
        assert stopped.exit_code == 2
        assert any(path.name in stopped.output for path in left)
    said = ["validate", str(model), str(cut), str(nothing), "--on-error", "skip"]
    assert CliRunner().invoke(main, said).exit_code == 2


_DRIVER_WITH_WORKERS = """
import os, signal, time
from minidyn.recording.engine import Workers
if __name__ == "__main__":
    pool = Workers(2)
    tasks = [pool.submit(time.sleep, seconds) for seconds in (0.01, 0.01, 600)]
    tasks[0].result()
    print(*pool._pool._processes, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_workers_end_with_a_driver_that_is_killed(tmp_path) -> None:
    """One works, one waits; a pipe that both hold is closed when they are gone."""
    script = tmp_path / "driver.py"
    script.write_text(_DRIVER_WITH_WORKERS)
    with subprocess.Popen(
        [sys.executable, str(script)], stdout=subprocess.PIPE, text=True
    ) as driver:
        workers = [int(word) for word in driver.stdout.readline().split()]
        assert len(workers) == 2
        try:
            driver.communicate(timeout=20)
        except subprocess.TimeoutExpired:
            for worker in workers:
                os.kill(worker, signal.SIGKILL)
            raise
    assert driver.returncode == -signal.SIGKILL


_DRIVER_THAT_KEEPS = """
import os, signal
from minidyn.recording.prepare.spool import _Folder
from minidyn.recording.read import places
folder, copies = _Folder(), places._copies()
for path in (folder.path, copies):
    (path / "0-0").write_bytes(bytes(100))
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_a_killed_driver_kept_is_swept(tmp_path, monkeypatch) -> None:
    """At the next start; what belongs to processes that live, or to other machines, stays."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    ended = subprocess.run([sys.executable, "-c", _DRIVER_THAT_KEEPS], env=environment, check=False)
    assert ended.returncode == -signal.SIGKILL
    kept = list(tmp_path.iterdir())
    assert [len(list(path.iterdir())) for path in kept] == [1, 1]
    assert all(path.stat().st_mode & 0o077 == 0 for path in kept)
    dead, machine = kept[0].name.split(".")[2], kept[0].name.split(".")[3][:4]
    other = "0000" if machine != "0000" else "ffff"
    for name in (
        f".minidyn-work.1.{machine}00000000.tmp",
        f".minidyn-work.{dead}.{other}00000000.tmp",
        "minidyn-else",
    ):
        (tmp_path / name).mkdir()
    one, two = spool._Folder(), spool._Folder()
    assert not [path for path in kept if path.exists()]
    assert len(list(tmp_path.iterdir())) == 5
    assert one.path.is_dir()
    assert two.path.is_dir()


class Killing(Executor):
    """Hands tasks on, and kills something as soon as the first of them is done."""

    def __init__(self, executor, kill) -> None:
        self.executor, self.kill, self.sent = executor, kill, 0

    def submit(self, fn, /, *args, **kwargs):
        future = self.executor.submit(fn, *args, **kwargs)
        self.sent += 1
        if self.sent == 1:
            future.add_done_callback(lambda _: self.kill())
        return future


def fleet_of(paths, executor=None, **options) -> md.Fleet:
    return md.identify_fleet(
        "two_link", dict(zip("abc", paths)), executor, consistent=False, **OWN, **options
    )


def assert_same_fleet(two_links, executor, kill, tmp_path) -> None:
    """Compare the fleet that workers read, one of which is killed, with that of one process.

    Leave a log out.
    """
    expected = fleet_of(two_links)
    found = fleet_of(two_links, Killing(executor, kill))
    np.testing.assert_array_equal(found.model.beta, expected.model.beta)
    np.testing.assert_array_equal(found.model.covariance, expected.model.covariance)
    assert found.to_json() == expected.to_json()
    cut = tmp_path / "cut.parquet"
    cut.write_bytes(Path(two_links[1]).read_bytes()[:5000])
    with pytest.raises(md.MinidynError, match=r"robot 'b'.*cut\.parquet"):
        fleet_of([two_links[0], cut, two_links[2]], executor)
    assert list(
        fleet_of([two_links[0], cut, two_links[2]], executor, on_error="skip").left_out
    ) == ["b"]


@pytest.mark.long
def test_a_fleet_by_processes_that_die(two_links, tmp_path) -> None:
    with Workers(2) as pool:
        killed = []

        def kill() -> None:
            killed.extend(pool._pool._processes.values())
            killed[0].kill()

        assert_same_fleet(two_links, pool, kill, tmp_path)
        assert killed[0].exitcode


def test_a_dask_cluster_whose_workers_are_killed(logs, alone, two_links, tmp_path) -> None:
    """A scheduler and workers, each a process, on the loopback address.

    A worker dies while chunks are prepared; at last the scheduler does.
    """
    distributed, workers = (
        pytest.importorskip("distributed"),
        count(2, 3),
    )  # of three, one dies of the fleet
    file = tmp_path / "scheduler.json"
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(sys.path),
        "PYTHONWARNINGS": "ignore",
    }
    alike = ["--scheduler-file", str(file), "--no-dashboard", "--host", "127.0.0.1"]
    kinds = [["scheduler", "--port", "0"], *[["worker", "--no-nanny", "--nthreads", "1"]] * workers]
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", f"distributed.cli.dask_{kind}", *alike, *more],
            env=environment,
            cwd=tmp_path,
            stderr=subprocess.DEVNULL,
        )
        for kind, *more in kinds
    ]
    try:
        with distributed.Client(scheduler_file=str(file), timeout=60) as client:
            client.wait_for_workers(workers, 60)
            killed: list[int] = []

            def kill(done: int) -> None:
                if not killed:
                    processes[1].kill()
                    killed.append(done)

            assert_equal(alone, identified(logs, executor=client.get_executor(), progress=kill))
            assert killed[0] < 12_000
            assert processes[1].wait(10) != 0
            assert len(client.scheduler_info()["workers"]) == workers - 1
            last = processes[workers] if workers == 3 else processes[1]
            assert_same_fleet(two_links, client.get_executor(), last.kill, tmp_path)
            assert last.wait(10) != 0
            assert len(client.scheduler_info()["workers"]) == 1
        with distributed.Client(scheduler_file=str(file), timeout=5) as client:
            end = processes[0].kill
            with pytest.raises(md.MinidynError, match="the Dask scheduler no longer answers"):
                identified(logs, executor=client.get_executor(), progress=lambda _: end())
    finally:
        for process in processes:
            process.kill()
            process.wait()


@pytest.mark.long
def test_ray_runs_tasks(two_links) -> None:
    """With the executor of docs/clusters.md."""
    ray = pytest.importorskip("ray")

    class OnRay(Executor):
        def submit(self, fn, /, *args, **kwargs):
            return ray.remote(lambda: fn(*args, **kwargs)).remote().future()

    robot, options = (
        md.load("two_link"),
        {"friction": (), "rotor_inertia": False, "consistent": False},
    )
    ray.init(num_cpus=2, include_dashboard=False, logging_level="error")
    try:
        found = md.identify(robot, two_links[:2], **options, executor=OnRay())
    finally:
        ray.shutdown()
    alone = md.identify(robot, md.read_recording(two_links[:2], robot, lazy=True), **options)
    assert_equal(alone, found)
