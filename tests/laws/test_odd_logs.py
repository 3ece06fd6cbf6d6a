"""Logs as loggers write them.

What is wrong with their names, units and files is found, mended or refused.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import minidyn as md
from minidyn.errors import DescriptionError, MissingExtra, adding

T = np.arange(400) / 200
TWO = md.load("two_link")


def arm(*names: str) -> md.Robot:
    """Return a chain with joints of these names."""
    made = md.Robot.from_mdh("R" * len(names), a=[0.3] * len(names))
    return replace(
        made, joints=tuple(replace(joint, name=name) for joint, name in zip(made.joints, names))
    )


def values(n: int) -> tuple[np.ndarray, np.ndarray]:
    phases = np.arange(n)
    return np.sin(T[:, None] * (1 + 0.3 * phases) + phases), np.cos(2 * T[:, None] + phases)


def written(path: Path, columns: dict[str, np.ndarray]) -> Path:
    np.savetxt(
        path,
        np.column_stack(list(columns.values())),
        delimiter=",",
        header=",".join(columns),
        comments="",
    )
    return path


@pytest.mark.parametrize(
    "names", [("A1", "a1"), ("j_1", "j1"), ("j1", "j_1", "J-1"), ("a_1", "A1")]
)
@pytest.mark.parametrize("pattern", ["pos_{}", "{} position", "q.{}", "{}"])
def test_exact_names_come_first(names: tuple[str, ...], pattern: str, tmp_path: Path) -> None:
    q, tau = values(len(names))
    order = [*range(len(names))][::-1]
    columns = {"time": T} | {pattern.format(names[k]): q[:, k] for k in order}
    columns |= {f"tau_{names[k]}": tau[:, k] for k in order}
    options = {"q": [pattern.format(name) for name in names]} if pattern == "{}" else {}
    log = md.read_recording(written(tmp_path / "log.csv", columns), arm(*names), **options)
    np.testing.assert_allclose(log.q, q, atol=1e-9)
    np.testing.assert_allclose(log.tau, tau, atol=1e-9)


def test_names_that_may_mean_two_are_refused(tmp_path: Path) -> None:
    q, tau = values(2)
    both = {
        "time": T,
        "pos_J1": q[:, 0],
        "pos_j_1": q[:, 1],
        "tau_J1": tau[:, 0],
        "tau_j_1": tau[:, 1],
    }
    with pytest.raises(
        DescriptionError, match="case or punctuation"
    ) as error:  # two columns, neither exact
        md.read_recording(written(tmp_path / "a.csv", both), arm("j1", "k"))
    assert "pos_J1" in str(error.value)
    with pytest.raises(DescriptionError, match="case or punctuation"):  # one column, two joints
        md.read_recording(
            written(tmp_path / "b.csv", {"time": T, "pos_J1": q[:, 0], "tau_J1": tau[:, 0]}),
            arm("j1", "j_1"),
        )
    with pytest.raises(DescriptionError, match="case or punctuation"):  # counted twice
        md.read_recording(
            written(
                tmp_path / "c.csv", {"time": T, "q1": q[:, 0], "Q_1": q[:, 1], "tau1": tau[:, 0]}
            )
        )
    named = md.read_recording(
        tmp_path / "a.csv", arm("j1", "k"), q=["pos_j_1", "pos_J1"], tau=["tau_j_1", "tau_J1"]
    )
    np.testing.assert_allclose(named.q, q[:, ::-1], atol=1e-9)


@pytest.mark.parametrize(
    ("unit", "factor", "start"), [("ns", 1e9, 1.7e18), ("ns", 1e9, 0.0), ("us", 1e6, 0.0)]
)
@pytest.mark.parametrize("ending", ["csv", "npz"])
def test_stamps_in_columns_named_like_ours_are_seen(
    unit: str, factor: float, start: float, ending: str, tmp_path: Path
) -> None:
    q, tau = values(2)
    stamps = np.round(start + factor * T)
    if ending == "csv":
        columns = {
            "t": stamps,
            "q.a": q[:, 0],
            "q.b": q[:, 1],
            "tau.a": tau[:, 0],
            "tau.b": tau[:, 1],
        }
        path = written(tmp_path / "log.csv", columns)
    else:
        path = tmp_path / "log.npz"
        np.savez(path, t=stamps.astype(np.int64), q=q, tau=tau)
    log = md.read_recording(path, arm("a", "b") if ending == "csv" else None)
    np.testing.assert_allclose(log.t - log.t[0], T, atol=2e-6)
    assert [
        notice.data["unit"]
        for notice in log.notices
        if notice.code == "recording.time_unit_guessed"
    ] == [unit]
    # poses that minidyn saved are seconds apart
    poses = md.Recording(10.0 * np.arange(20), q[:20], tau[:20])
    poses.save(tmp_path / "poses.csv")
    np.testing.assert_allclose(md.read_recording(tmp_path / "poses.csv").t, poses.t)


@pytest.mark.parametrize("value", [1e300, -1e13, np.inf, np.nan])
def test_times_that_no_clock_has_are_refused(value: float, tmp_path: Path) -> None:
    q, tau = values(2)
    t = np.where(T < 1.0, T, value)
    columns = {"time": t} | {f"q{k}": q[:, k] for k in range(2)}
    columns |= {f"tau{k}": tau[:, k] for k in range(2)}
    path = written(tmp_path / "log.csv", columns)
    for lazy in (False, True):
        with pytest.raises(DescriptionError, match=r"log\.csv: .*202.*time.*--rate"):
            md.read_recording(path, TWO, lazy=lazy).load()
    with pytest.raises(DescriptionError, match=r"t: .*sample"):
        md.Recording(t, q, tau)
    assert len(md.read_recording(path, TWO, rate=200.0)) == len(T)


@pytest.mark.parametrize("factor", [1e-300, 1e-308, 1e-12])
def test_rates_that_no_logger_has_are_refused(factor: float) -> None:
    """A unit of time that is wrong by many orders, down to rates that are infinite."""
    robot = TWO.with_parameters(np.nan_to_num(TWO.parameters, nan=0.3))
    t = np.arange(260) / 200
    q, dq, ddq = md.trajectory.fourier(robot, seed=1)(t)
    log = md.Recording(t * factor, q, md.inverse_dynamics(robot, q, dq, ddq))
    for step in (md.identify, md.prepare):
        with pytest.raises(DescriptionError, match=r"samples a second.*--time-unit"):
            step(robot, log)
    checked = md.check(robot, log)
    assert not checked.ok
    assert any("samples a second" in str(notice) for notice in checked.notices)


@pytest.mark.parametrize("ending", ["csv", "npz"])
def test_a_column_of_positions_near_the_largest_number(ending: str, tmp_path: Path) -> None:
    """Joints of one turn are moved into their limits; sums of such values overflow."""
    robot = md.load("ur10e")
    q = np.sin(np.outer(T, 1.0 + np.arange(6)))
    q[100:102, 1] = 1e308, -1e308
    log = md.Recording(T, q, np.cos(q), joint_names=robot.joint_names)
    log.save(tmp_path / f"log.{ending}")
    read = md.read_recording(tmp_path / f"log.{ending}", robot)
    assert len(read) == len(T)


@pytest.mark.parametrize("method", ["wls", "iv"])
def test_samples_after_a_clock_has_stopped_are_left_out(method: str) -> None:
    robot = TWO.with_parameters(np.nan_to_num(TWO.parameters, nan=0.3))
    t = np.arange(1000) / 200
    q, dq, ddq = md.trajectory.fourier(robot, seed=1)(t)
    tau = md.inverse_dynamics(robot, q, dq, ddq)
    log = md.Recording(np.where(t < 4.0, t, 10.0), q, tau)
    found = md.identify(robot, log, method, friction=(), prior=False)
    whole = md.identify(robot, log[:800], method, friction=(), prior=False)
    np.testing.assert_allclose(found.beta, whole.beta, rtol=1e-6)


@pytest.mark.parametrize("names", [("current_{}",), ("I_{} [A]",), ("motor_{}_curr",)])
def test_currents_without_a_gain_are_refused(names: tuple[str], tmp_path: Path) -> None:
    q, tau = values(2)
    columns = (
        {"time": T}
        | {f"q{k}": q[:, k] for k in range(2)}
        | {names[0].format(k): tau[:, k] for k in range(2)}
    )
    path = written(tmp_path / "log.csv", columns)
    options = {"tau": [names[0].format(k) for k in range(2)]}
    with pytest.raises(DescriptionError, match="--currents-as-torque"):
        md.read_recording(path, TWO, **options)
    taken = md.read_recording(path, TWO, currents_as_torque=True, **options)
    np.testing.assert_allclose(taken.tau, tau, atol=1e-9)
    assert "recording.currents" in {notice.code for notice in taken.notices}
    gained = md.read_recording(path, TWO, drive_gain=3.0, **options)
    np.testing.assert_allclose(gained.tau, 3 * tau, atol=1e-9)
    assert "recording.currents" not in {notice.code for notice in gained.notices}


def _matlab_5(path: Path, content: dict[str, object]) -> None:
    from scipy.io import savemat

    savemat(path, content)


def _matlab_7_3(path: Path, content: dict[str, object]) -> None:
    """Write as MATLAB does.

    A user block of 512 bytes, sides exchanged, structs as groups, texts by reference.
    """
    h5py = pytest.importorskip(
        "h5py", reason="h5py is not installed: no file of MATLAB 7.3 can be written"
    )

    with h5py.File(path, "w", userblock_size=512) as file:

        def put(group: object, key: str, value: object) -> None:
            if isinstance(value, dict):
                inner = group.create_group(key)
                inner.attrs["MATLAB_class"] = np.bytes_("struct")
                for name, one in value.items():
                    put(inner, name, one)
            elif isinstance(value, np.ndarray) and value.dtype == object:
                refs = file.require_group("#refs#")
                made = []
                for text in value:
                    name = f"r{len(refs)}"
                    refs[name] = np.array([[ord(letter)] for letter in text], dtype=np.uint16)
                    refs[name].attrs["MATLAB_class"] = np.bytes_("char")
                    made.append(refs[name].ref)
                group.create_dataset(
                    key, data=np.array([made], dtype=h5py.ref_dtype), dtype=h5py.ref_dtype
                )
                group[key].attrs["MATLAB_class"] = np.bytes_("cell")
            else:
                array = np.atleast_2d(np.asarray(value, dtype=float))
                group[key] = array.T
                group[key].attrs["MATLAB_class"] = np.bytes_("double")

        for name, value in content.items():
            put(file, name, value)
    with path.open("r+b") as file:
        file.write(b"MATLAB 7.3 MAT-file".ljust(512))


@pytest.mark.parametrize("write", [_matlab_5, _matlab_7_3])
def test_matlab_files(write, tmp_path: Path) -> None:
    q, tau = values(2)
    cases = {
        "plain": {"t": T, "q": q, "tau": tau, "comment": "a log", "gain": 3.0},
        "turned": {"time": T[:, None], "q": q.T, "tau": tau.T},
        "struct": {"log": {"time": T, "pos": q, "torque": tau}},
        "columns": {
            "time": T,
            "q1": q[:, 0],
            "q2": q[:, 1],
            "tau1": tau[:, :1],
            "tau2": tau[:, 1:],
        },
        "named": {
            "time": T,
            "q": q[:, ::-1],
            "tau": tau[:, ::-1],
            "joint_names": np.array(["b", "a"], dtype=object),
        },
    }
    for name, content in cases.items():
        if write is _matlab_7_3:
            content.pop("comment", None)
        path = tmp_path / f"{name}.mat"
        write(path, content)
        for lazy in (False, True):
            log = md.read_recording(
                path, arm("a", "b") if name == "named" else None, lazy=lazy
            ).load()
            np.testing.assert_allclose(log.t, T, err_msg=name)
            np.testing.assert_allclose(log.q, q, err_msg=name)
            np.testing.assert_allclose(log.tau, tau, err_msg=name)


def test_simulink_structures_with_time(tmp_path: Path) -> None:
    q, tau = values(2)
    signals = np.zeros(2, dtype=[("values", object), ("label", object)])
    signals[0], signals[1] = (q, "q_measured"), (tau, "torque")
    _matlab_5(tmp_path / "log.mat", {"out": {"time": T, "signals": signals}})
    log = md.read_recording(tmp_path / "log.mat")
    np.testing.assert_allclose(log.q, q)
    np.testing.assert_allclose(log.tau, tau)


def test_a_missing_extra_is_added_by_the_command_of_the_environment(tmp_path: Path) -> None:
    (tmp_path / "tool").mkdir()
    (tmp_path / "tool" / "uv-receipt.toml").touch()
    for place, command in (
        (".", "pip install"),
        ("tool", "uv tool install"),
        ("archive-v0/x", "uvx --from"),
    ):
        told = adding("ros", str(tmp_path / place))
        assert told.startswith(command)
        assert "ros]" in told


def test_matlab_files_that_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "log.mat"
    path.write_bytes(b"MATLAB 5.0 MAT-file" + bytes(200))
    with pytest.raises(DescriptionError, match=r"log\.mat"):
        md.read_recording(path)
    _matlab_5(path, {"comment": "nothing here"})
    with pytest.raises(DescriptionError, match="no arrays of numbers"):
        md.read_recording(path)
    path.write_bytes(b"MATLAB 7.3 MAT-file".ljust(512) + b"\x89HDF\r\n\x1a\n" + bytes(100))
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(MissingExtra, match=r"minidyn\[matlab\]"):
        md.read_recording(path)
