"""Logs and studies from strangers.

Few bytes cannot take hours or gigabytes, and a message says what is refused.
"""

from __future__ import annotations

import io
import os
import zipfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import minidyn as md
from bags import messages, write_bag
from minidyn.app.study.file import read_study
from minidyn.app.study.store import held
from minidyn.errors import DescriptionError, Unforeseen
from minidyn.files import _machine
from minidyn.recording.read import bag, tables
from minidyn.recording.read.places import content_hash

N = 20
T = np.arange(N) / 100


def refused(path: Path, match: str, **options: object) -> None:
    with pytest.raises(DescriptionError, match=match) as caught:
        md.read_recording(path, "two_link", **options)  # type: ignore[call-overload]
    assert not isinstance(caught.value, Unforeseen)


def good() -> dict[str, np.ndarray]:
    return {"t": T, "q": np.sin(T)[:, None] * [1.0, 2.0], "tau": np.cos(T)[:, None] * [1.0, 2.0]}


def npz(path: Path, arrays: dict[str, bytes | np.ndarray], packed: bool = True) -> Path:
    with zipfile.ZipFile(
        path, "w", zipfile.ZIP_DEFLATED if packed else zipfile.ZIP_STORED
    ) as archive:
        for name, array in arrays.items():
            if isinstance(array, np.ndarray):
                buffer = io.BytesIO()
                np.save(buffer, array)
                array = buffer.getvalue()
            archive.writestr(f"{name}.npy", array)
    return path


def claimed(shape: str, dtype: str = "<f8") -> bytes:
    """An array of a few bytes that claims a shape."""
    text = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}, }}"
    text += " " * (-(len(text) + 11) % 64) + "\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode() + bytes(64)


@pytest.mark.parametrize("count", [4000, 10_001])
def test_thousands_of_columns_of_one_name(tmp_path: Path, count: int) -> None:
    path = tmp_path / "a.csv"
    path.write_text("\n".join([",".join(count * ["q"]), *(3 * [",".join(count * ["1"])])]))
    refused(path, "columns" if count > 10_000 else "time|joint")


@pytest.fixture
def little(monkeypatch: pytest.MonkeyPatch) -> None:
    """A limit of one megabyte, so that tests are quick; as it is it is a hundred."""
    assert tables._UNPACKED == (100, 100_000_000)
    monkeypatch.setattr(tables, "_UNPACKED", (1, 1_000_000))


@pytest.mark.parametrize("name", ["q", "joint_names", "starts", "sketch", "unused", "wide"])
def test_few_bytes_do_not_hold_gigabytes(tmp_path: Path, name: str, little: None) -> None:
    rows = {"q": 100_000, "wide": N}.get(name, 200_000)
    arrays = good() | {
        name: np.zeros((rows, 200_000 // rows * 4) if name in ("q", "wide") else rows)
    }
    if name == "q":
        arrays["t"] = np.arange(rows) / 100
    path = npz(tmp_path / "a.npz", arrays)
    assert path.stat().st_size < 500_000
    if name in ("unused", "wide"):  # not a signal: never unpacked
        assert len(md.read_recording(path, "two_link")) == N
    else:
        refused(path, "MB unpacked.*np.savez")


@pytest.mark.parametrize(
    "shape", ["(1000000000000,)", "(20,)", "(20,-1)", "(0,9999999999)", "(1e9,)", "'x'", "(8,'a')"]
)
@pytest.mark.parametrize("packed", [True, False])
def test_shapes_are_checked_before_they_are_allocated(
    tmp_path: Path, shape: str, packed: bool
) -> None:
    refused(
        npz(tmp_path / "a.npz", good() | {"q": claimed(shape)}, packed),
        "not a whole NumPy archive|no column|joint",
    )


def test_starts_beyond_the_samples(tmp_path: Path) -> None:
    refused(npz(tmp_path / "a.npz", good() | {"starts": np.array([0, 10**15])}), "starts")
    refused(npz(tmp_path / "a.npz", good() | {"starts": np.array([0, -1])}), "starts")


def test_repeated_values_of_parquet(tmp_path: Path, little: None) -> None:
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    names = ["t", "q.joint1", "q.joint2", "tau.joint1", "tau.joint2"]
    one = pa.table({name: pa.array(np.zeros(10_000)).dictionary_encode() for name in names})
    plain = one.cast(pa.schema([(name, pa.float64()) for name in names]))
    with parquet.ParquetWriter(tmp_path / "a.parquet", plain.schema) as writer:
        for _ in range(8):
            writer.write_table(plain)
    assert (tmp_path / "a.parquet").stat().st_size < 300_000
    refused(tmp_path / "a.parquet", "MB unpacked.*lazy=True", joints=["joint1", "joint2"])


def test_matlab_files_that_unpack_to_gigabytes(tmp_path: Path, little: None) -> None:
    from scipy.io import savemat

    savemat(tmp_path / "a.mat", good() | {"x": np.zeros(400_000)}, do_compression=True)
    assert (tmp_path / "a.mat").stat().st_size < 300_000
    refused(tmp_path / "a.mat", "MB unpacked.*-v6")


BAGS = [("bag", "bz2"), ("bag", "lz4"), ("mcap", "storage"), ("db3", "message"), ("db3", "file")]


@pytest.mark.parametrize(("kind", "compressed"), BAGS)
def test_bags_that_unpack_to_gigabytes(
    tmp_path: Path, kind: str, compressed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = good()
    rows = messages(log["t"], md.load("two_link").joint_names, log["q"], log["q"], log["tau"])
    path = write_bag(tmp_path / f"log.{kind}", kind, {"/joint_states": rows}, compressed)
    np.testing.assert_array_equal(md.read_recording(path, "two_link").q, log["q"])
    monkeypatch.setattr(bag, "_CHUNK", 100)
    monkeypatch.setattr(bag, "_RATIO", 2)
    refused(path, "holds more than")


IDL = """// generated (by hand)
module sensor_msgs { module msg { struct JointState {
  @verbatim (language="comment", text="Positions (rad)")
  @default (value=0.0)
  double position; %s }; }; };"""


@pytest.mark.parametrize(
    ("more", "read"),
    [
        ("/* (so) */ long x;", True),
        ("", True),
        ("long x[((1))];", False),
        ('long x[(1)]; // "', False),
        ("sequence<sequence<sequence<long>>> x;", False),
        ("long x;" + 100_000 * " ", False),
    ],
)
def test_message_definitions_that_take_days(more: str, read: bool) -> None:
    """Rosbags' parser takes 0.25 s for one pair of parentheses in an expression and 28 s for
    two.
    """

    def parsed(text: str) -> str:
        return text

    text = IDL % more
    if read:
        assert bag._types_from_idl(parsed, text) == text
        from rosbags.typesys import get_types_from_idl

        assert "sensor_msgs/msg/JointState" in get_types_from_idl(text)
    else:
        with pytest.raises(ValueError, match="message definition"):
            bag._types_from_idl(parsed, text)


def test_a_table_whose_head_promises_rows_that_it_has_not(tmp_path: Path) -> None:
    class Empty(tables.LogTable):
        path = tmp_path / "log.parquet"

        def batches(self, *_: object) -> Iterator[tables.Columns]:
            return iter(())

    with pytest.raises(DescriptionError, match=r"log.parquet: no samples"):
        Empty().whole(["t"])


def test_hdf5_that_points_elsewhere(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    (tmp_path / "secret").write_bytes(bytes(8 * N * 2))
    with h5py.File(tmp_path / "other.mat", "w") as file:
        file["q"] = good()["q"].T
    with h5py.File(tmp_path / "a.mat", "w") as file:
        file["t"] = T
        file["q"] = h5py.ExternalLink("other.mat", "/q")
    refused(tmp_path / "a.mat", "joint|column|position")
    with h5py.File(tmp_path / "b.mat", "w") as file:
        file["t"] = T
        file.create_dataset("q", (2, N), "f8", external=[(str(tmp_path / "secret"), 0, 8 * N * 2)])
    refused(tmp_path / "b.mat", "in other files")
    with h5py.File(tmp_path / "c.mat", "w") as file:
        file["t"] = T
        file.create_dataset("q", (2, 10**11), "f8", chunks=(1, 1 << 16), compression="gzip")
    refused(tmp_path / "c.mat", "MB unpacked")
    with h5py.File(tmp_path / "ring.mat", "w") as file:
        file["t"] = T
        file.create_group("a")
        file["a/b"] = file["a"]
    refused(tmp_path / "ring.mat", "nested too deeply|joint|position")


STUDY = '[robot]\nfile = "two_link"\n'


@pytest.mark.parametrize("output", ["/tmp/elsewhere", "../elsewhere", "a/../../b"])  # noqa: S108
def test_output_of_a_study_stays_below_it(tmp_path: Path, output: str) -> None:
    path = tmp_path / "study.toml"
    path.write_text(f'[study]\noutput = "{output}"\n{STUDY}[base]\n')
    with pytest.raises(DescriptionError, match=r"study.toml:2: .*output"):
        read_study(path)
    path.write_text(f'[study]\noutput = "a/../b"\n{STUDY}[base]\n')
    assert read_study(path).output == tmp_path / "a/../b"


def test_whole_file_systems_and_devices_are_no_logs(tmp_path: Path) -> None:
    path = tmp_path / "study.toml"
    path.write_text(f'{STUDY}[[log]]\nname = "a"\nfiles = ["/"]\n[identify]\nlogs = ["a"]\n')
    with pytest.raises(DescriptionError, match="more than 10000 files"):
        md.run_study(path)
    if os.path.exists("/dev/zero"):
        with pytest.raises(DescriptionError, match="a device"):
            content_hash(Path("/dev/zero"))


def test_a_study_that_another_process_runs(tmp_path: Path) -> None:
    path = tmp_path / "study.toml"
    path.write_text(f'{STUDY}[base]\nmethod = "qr"\n')
    with held(path), pytest.raises(DescriptionError, match="another process runs this study"):
        md.run_study(path)
    assert md.run_study(path).steps[0].state == "done"


def test_what_a_killed_trial_left_is_swept(tmp_path: Path) -> None:
    robot = md.load("two_link")
    left = tmp_path / f".robot.urdf.1999999999.{_machine()}01234567.tmp.urdf"
    left.write_text("left")
    md.save(robot, tmp_path / "robot.urdf")
    assert not left.exists()


def test_samples_that_no_memory_holds(tmp_path: Path) -> None:
    path = tmp_path / "study.toml"
    path.write_text(f'{STUDY}[[simulate]]\nname = "a"\nduration = 1e9\ndt = 1e-3\n')
    with pytest.raises(md.MinidynError, match=r"needs .* GB, this machine has"):
        md.run_study(path)
    robot = md.load("two_link")
    with pytest.raises(md.MinidynError, match="GB"):
        md.simulate_batch(robot, None, None, 1e3, dt=1e-3, q0=np.zeros((10**7, 2)))
    log = md.Recording(
        np.arange(200) / 100, np.zeros((200, 2)), None, joint_names=robot.joint_names
    )
    with pytest.raises(md.MinidynError, match="GB"):
        md.prepare(robot, log, resample=1e12)
