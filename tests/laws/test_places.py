"""Logs wherever they live: patterns, folders, addresses, data sets of LeRobot, HDF5, Zarr.

And converted ones.
"""

import json
import os
import pickle
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from test_executors import Shuffled

import minidyn as md
from minidyn.app.cli.main import main
from minidyn.app.job import Job
from minidyn.recording.lazy import LazyRecording
from minidyn.recording.read.convert import convert

JOINTS = ("joint1", "joint2")


def log(samples: int = 400, start: float = 0.0, seed: int = 0) -> md.Recording:
    rng = np.random.default_rng(seed)
    t = start + np.arange(samples) / 100
    q = np.sin(np.outer(t, [1.0, 1.7])) + 1e-4 * rng.standard_normal((samples, 2))
    return md.Recording(t, q, rng.standard_normal((samples, 2)), joint_names=JOINTS)


def assert_same(one: md.Recording | LazyRecording, two: md.Recording) -> None:
    for name in ("t", "q", "tau"):
        np.testing.assert_array_equal(getattr(one.load(), name), getattr(two, name))
    assert one.starts == two.starts


def test_patterns_and_folders(tmp_path) -> None:
    logs = [log(seed=k) for k in range(3)]
    for k, one in enumerate(logs):
        (tmp_path / f"robot=ur10-0{k}/date=2026-11-02").mkdir(parents=True)
        one.save(tmp_path / f"robot=ur10-0{k}/date=2026-11-02/part-0.parquet")
    whole = md.concatenate(logs)
    assert_same(md.read_recording(tmp_path), whole)
    assert_same(md.read_recording(tmp_path / "*" / "*" / "part-0.parquet", lazy=True), whole)
    assert_same(md.read_recording(f"{tmp_path}/robot=ur10-0[12]"), md.concatenate(logs[1:]))
    with pytest.raises(md.MinidynError, match="no file has a name like this"):
        md.read_recording(tmp_path / "*.csv")
    logs[0].save(tmp_path / "odd[1].csv")
    assert len(md.read_recording(tmp_path / "odd[1].csv")) == 400
    job = Job.of_files("two_link", [str(tmp_path)], lazy=False)
    assert job.fit[0].notices == md.read_recording(tmp_path).notices[-1:]
    (told,) = job.fit[0].notices  # a folder is its Parquet files, or a bag
    assert told.code == "recording.other_logs"
    assert told.data == {"folder": str(tmp_path), "count": 1, "pattern": str(tmp_path / "*.csv")}
    (tmp_path / "others").mkdir()
    logs[0].save(tmp_path / "others" / "a.npz")
    with pytest.raises(md.MinidynError, match=r"Parquet.*others/\*\.npz"):
        md.read_recording(tmp_path / "others")


def test_memory_addresses(tmp_path) -> None:
    fsspec = pytest.importorskip("fsspec")
    one, two = log(), log(seed=1)
    for name, some in (("a.parquet", one), ("b.parquet", two), ("c.csv", one)):
        some.save(tmp_path / name)
        with fsspec.open(f"memory://bucket/{name}", "wb") as file:
            file.write((tmp_path / name).read_bytes())
    assert_same(md.read_recording("memory://bucket/a.parquet"), one)
    assert_same(
        md.read_recording("memory://bucket/*.parquet", lazy=True), md.concatenate([one, two])
    )
    assert_same(md.read_recording("memory://bucket/"), md.concatenate([one, two]))
    csv = md.read_recording("memory://bucket/c.csv", lazy=True)
    np.testing.assert_allclose(csv.load().q, one.q)
    assert_same(
        pickle.loads(pickle.dumps(md.read_recording("memory://bucket/a.parquet", lazy=True))), one
    )
    with pytest.raises(md.MinidynError, match=r"memory://bucket/gone\.parquet: no such file"):
        md.read_recording("memory://bucket/gone.parquet")
    with pytest.raises(md.MinidynError, match="nowhere://x"):
        md.read_recording("nowhere://x/log.parquet")
    # what is not there, or does not answer, is left out where that is asked
    lost = [
        "memory://bucket/no*.parquet",
        "memory://bucket/gone.csv",
        "memory://empty/",
        "nowhere://x/*.parquet",
    ]
    for lazy in (False, True):
        found = md.read_recording(["memory://bucket/a.parquet", *lost], lazy=lazy, on_error="skip")
        assert [
            notice.data["files"] for notice in found.notices if notice.code == "recording.left_out"
        ] == lost
        assert_same(found, one)
    for path in lost:
        with pytest.raises(md.MinidynError, match=path.partition("*")[0]):
            md.read_recording(["memory://bucket/a.parquet", path])


def test_test_logs_may_lie_at_addresses_and_in_folders(tmp_path) -> None:
    """`minidyn validate MODEL memory://...` looked for a file of this machine.

    What a folder does not mean is told.
    """
    fsspec = pytest.importorskip("fsspec")
    robot = md.load("two_link")
    t = np.arange(600) / 100
    q, dq, ddq = md.trajectory.fourier(robot, seed=0)(t)
    known = robot.with_parameters(np.where(np.isnan(robot.parameters), 0.3, robot.parameters))
    whole = md.Recording(
        t, q, md.inverse_dynamics(known, q, dq, ddq), dq, ddq, joint_names=robot.joint_names
    )
    model = md.identify(robot, whole, friction=(), rotor_inertia=False, consistent=False)
    model.save(tmp_path / "estimate.json")
    (tmp_path / "logs").mkdir()
    for name in ("a.parquet", "b.csv"):
        whole.save(tmp_path / "logs" / name)
    with fsspec.open("memory://tests/a.parquet", "wb") as file:
        file.write((tmp_path / "logs" / "a.parquet").read_bytes())
    verb = [
        "validate",
        str(tmp_path / "estimate.json"),
        "memory://tests/a.parquet",
        str(tmp_path / "logs"),
    ]
    result = CliRunner().invoke(main, verb)
    assert result.exit_code == 0, result.output
    assert "a.parquet" in result.stdout
    assert f"{tmp_path / 'logs'}: b.csv not read" in result.stdout
    result = CliRunner().invoke(main, [*verb, "memory://tests/no*.csv", "--on-error", "skip"])
    assert result.exit_code == 4, result.output
    assert "memory://tests/no*.csv" in result.stdout


class Server:
    """Moto's server of S3 in a process of its own, on the loopback address."""

    def __init__(self) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.start()

    def start(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(self.port)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for _ in range(600):
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return
            except OSError:
                time.sleep(0.1)
        raise AssertionError("the server does not answer")

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


def test_a_server_of_s3_that_is_killed(tmp_path, monkeypatch) -> None:
    pytest.importorskip("moto")
    s3fs = pytest.importorskip("s3fs")
    for name, value in (
        ("ACCESS_KEY_ID", "nobody"),
        ("SECRET_ACCESS_KEY", "s3cr3t"),
        ("DEFAULT_REGION", "us-east-1"),
    ):
        monkeypatch.setenv(f"AWS_{name}", value)
    server = Server()
    monkeypatch.setenv("AWS_ENDPOINT_URL", server.url)
    monkeypatch.setenv("FSSPEC_S3_ENDPOINT_URL", server.url)
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    try:
        one = log(2000)
        wide = {
            **one._columns(),
            **{f"picture{k}": np.random.default_rng(k).random(2000) for k in range(40)},
        }
        pq.write_table(
            pa.table(wide), tmp_path / "a.parquet", row_group_size=1000, compression="none"
        )
        system = s3fs.S3FileSystem(endpoint_url=server.url)
        system.mkdir("fleet")
        system.put(str(tmp_path / "a.parquet"), "fleet/robot=1/a.parquet")
        found = md.read_recording("s3://fleet/robot=*/*.parquet", lazy=True)
        assert_same(found, one)
        assert "s3cr3t" not in repr(pickle.dumps(found))
        server.kill()
        with pytest.raises(md.MinidynError, match=r"s3://fleet/robot=1/a\.parquet") as error:
            found.load()
        assert "s3cr3t" not in str(error.value)
    finally:
        server.kill()


def lerobot(
    folder: Path, version: str, effort: bool, episodes: Sequence[md.Recording] = ()
) -> md.Recording:
    """Write a data set as LeRobot lays it out (docs of LeRobotDataset v2.1 and v3.0).

    Return its episodes.
    """
    episodes = episodes or [log(50 + 10 * k, seed=k) for k in range(3)]
    names = {"motors": list(JOINTS)} if version == "v2.1" else [f"{joint}.pos" for joint in JOINTS]
    vector = {"dtype": "float32", "shape": [2], "names": names}
    scalar = {"shape": [1], "names": None}
    features = {"action": vector, "observation.state": vector}
    if effort:
        features["observation.effort"] = vector
    features["observation.images.front"] = {
        "dtype": "video",
        "shape": [480, 640, 3],
        "names": ["h", "w", "c"],
    }
    features |= {
        "timestamp": {"dtype": "float32", **scalar},
        "episode_index": {"dtype": "int64", **scalar},
    }
    paths = {
        "v2.1": "data/chunk-{episode_chunk:03d}/episode_{episode_index:06d}.parquet",
        "v3.0": "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet",
    }
    info = {
        "codebase_version": version,
        "robot_type": "so100",
        "fps": 100,
        "total_episodes": len(episodes),
        "features": features,
    }
    (folder / "meta").mkdir(parents=True)
    (folder / "meta" / "info.json").write_text(
        json.dumps({**info, "chunks_size": 1000, "data_path": paths[version]})
    )
    tables = []
    for number, one in enumerate(episodes):
        columns = {"action": one.q, "observation.state": one.q} | (
            {"observation.effort": one.tau} if effort else {}
        )
        arrays = {
            name: pa.FixedSizeListArray.from_arrays(v.ravel().astype("f4"), 2)
            for name, v in columns.items()
        }
        count = np.arange(len(one))
        arrays |= {"timestamp": pa.array(one.t.astype("f4")), "frame_index": pa.array(count)}
        arrays |= {"episode_index": pa.array(np.full(len(one), number)), "index": pa.array(count)}
        tables.append(pa.table({**arrays, "task_index": pa.array(np.zeros(len(one), dtype=int))}))
    (folder / "data" / "chunk-000").mkdir(parents=True)
    if version == "v2.1":
        for number, table in enumerate(tables):
            pq.write_table(table, folder / "data" / "chunk-000" / f"episode_{number:06d}.parquet")
    else:
        pq.write_table(pa.concat_tables(tables), folder / "data" / "chunk-000" / "file-000.parquet")
        (folder / "meta" / "episodes" / "chunk-000").mkdir(
            parents=True
        )  # what is known of episodes is Parquet, too
        about = {
            "episode_index": list(range(len(episodes))),
            "length": [len(one) for one in episodes],
        }
        pq.write_table(
            pa.table(about), folder / "meta" / "episodes" / "chunk-000" / "file-000.parquet"
        )
    return md.concatenate(episodes)


@pytest.mark.parametrize("version", ["v2.1", "v3.0"])
@pytest.mark.parametrize("effort", [True, False])
def test_data_sets_of_lerobot(version, effort, tmp_path) -> None:
    whole = lerobot(tmp_path, version, effort)
    for found in (md.read_recording(tmp_path), md.read_recording(tmp_path, lazy=True).load()):
        assert found.joint_names == JOINTS
        assert found.starts == whole.starts
        np.testing.assert_allclose(found.q, whole.q, rtol=1e-6, atol=1e-6)
        told = [notice for notice in found.notices if notice.code == "recording.no_effort"]
        if effort:
            np.testing.assert_allclose(found.tau, whole.tau, rtol=1e-6, atol=1e-6)
            assert not told
        else:
            assert found.tau is None
            assert "observation.state" in told[0].data["features"]
    if not effort:
        with pytest.raises(md.MinidynError, match="torques"):
            md.identify("two_link", md.read_recording(tmp_path))
    (tmp_path / "meta" / "info.json").write_text("{}")
    with pytest.raises(md.MinidynError, match=r"info\.json"):
        md.read_recording(tmp_path)


def test_hdf5_and_zarr(tmp_path) -> None:
    h5py, zarr = pytest.importorskip("h5py"), pytest.importorskip("zarr")
    one = log()
    with h5py.File(tmp_path / "log.h5", "w") as file:
        group = file.create_group("run")
        for name in ("t", "q", "tau"):
            group[name] = getattr(one, name)
        group["joint_names"] = np.array(JOINTS, dtype="S")
    store = zarr.open_group(str(tmp_path / "log.zarr"), mode="w")
    for name in ("t", "q", "tau"):
        store.create_array(name, data=np.array(getattr(one, name)))
    store.attrs["joint_names"] = list(JOINTS)
    for name in ("log.h5", "log.zarr"):
        lazy = md.read_recording(tmp_path / name, lazy=True)
        assert lazy.joint_names == JOINTS
        assert_same(lazy, one)
        assert_same(pickle.loads(pickle.dumps(lazy)), one)
    (tmp_path / "broken.h5").write_bytes((tmp_path / "log.h5").read_bytes()[:700])
    with pytest.raises(md.MinidynError, match=r"broken\.h5"):
        md.read_recording(tmp_path / "broken.h5")


def test_converted_logs_are_the_same(tmp_path) -> None:
    one, two = log(), log(seed=1, start=100.0)
    md.concatenate([one, two]).save(tmp_path / "a.npz")
    two.save(tmp_path / "b.csv")
    written = convert([tmp_path / "a.npz", tmp_path / "b.csv"], tmp_path / "data", name="arm/7")
    assert [str(file.relative_to(tmp_path / "data")) for file in written] == [
        "robot=arm%2F7/log=a/part-0.parquet",
        "robot=arm%2F7/log=b/part-0.parquet",
    ]
    assert_same(md.read_recording(tmp_path / "data", lazy=True), md.concatenate([one, two, two]))
    about = pq.read_schema(written[1]).metadata
    source = json.loads(about[b"minidyn.source"])
    assert source["path"] == str(tmp_path / "b.csv")
    assert len(source["sha256"]) == 64
    assert not [name for name in os.listdir(written[0].parent) if name.startswith(".")]


def test_converting_by_workers(tmp_path) -> None:
    """The same files by whoever does it.

    Broken logs stop it or are named, and so are logs without torques.
    """
    log().save(tmp_path / "a.npz")
    log(seed=1).save(tmp_path / "b.npz")
    replace(log(), tau=None).save(tmp_path / "still.csv")
    (tmp_path / "cut.npz").write_bytes((tmp_path / "a.npz").read_bytes()[:900])
    paths = [tmp_path / name for name in ("a.npz", "cut.npz", "still.csv", "b.npz")]
    with pytest.raises(md.MinidynError, match=r"cut\.npz"):
        convert(paths, tmp_path / "stopped")
    alone = convert([*paths, tmp_path / "no*.csv"], tmp_path / "one", on_error="skip")
    executor = Shuffled(dies=1)
    shared = convert(
        [*paths, tmp_path / "no*.csv"], tmp_path / "two", executor=executor, on_error="skip"
    )
    assert len(executor.names) >= len(paths)
    assert [file.relative_to(tmp_path / "two") for file in shared] == [
        file.relative_to(tmp_path / "one") for file in alone
    ]
    assert [file.read_bytes() for file in shared] == [file.read_bytes() for file in alone]
    assert shared.notices == alone.notices
    told = [notice for notice in shared.notices if notice.level != "info"]
    assert [notice.code for notice in told] == [
        "recording.left_out",
        "recording.left_out",
        "recording.no_torques",
    ]
    assert told[2].text.startswith("still.csv: no torques found")
    said = ["convert", *map(str, paths), "--output", str(tmp_path / "shell"), "--on-error", "skip"]
    result = CliRunner().invoke(main, said)
    assert result.exit_code == 4, result.output
    assert "still.csv: no torques" in result.stdout
    assert "cut.npz" in result.stdout
    result = CliRunner().invoke(main, [*said, "--json"])
    assert json.loads(result.stdout)["notices"][0]["code"] == "recording.left_out"


def test_another_log_of_the_same_name_is_kept(tmp_path) -> None:
    """A second call replaced Monday's log by Tuesday's; the day of both was that of the call."""
    for day, seed in (("mon", 0), ("tue", 1)):
        (tmp_path / day).mkdir()
        log(seed=seed).save(tmp_path / day / "log.npz")
        os.utime(tmp_path / day / "log.npz", (1e9, 1e9 + 86400 * seed))
        (written,) = convert(tmp_path / day / "log.npz", tmp_path / "data", name="a")
        assert written.stat().st_mtime == 1e9 + 86400 * seed
    assert written.parent.name == "log=log_"
    assert convert(tmp_path / "tue" / "log.npz", tmp_path / "data", name="a") == [
        written
    ]  # the same log: replaced
    assert_same(
        md.read_recording(tmp_path / "data", lazy=True), md.concatenate([log(), log(seed=1)])
    )
