"""The logs of real robots in ../shared/data are read and prepared as docs/recordings.md says."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import minidyn as md
from minidyn.app.cli.main import main

DATA = Path(__file__).parents[3] / "shared" / "data"
pytestmark = pytest.mark.skipif(
    not DATA.is_dir(), reason=f"the measurements of real robots are not at {DATA}"
)

UR10 = DATA / "ur10_exciting"
TX40 = DATA / "tx40_exciting"


def tx40(lazy: bool = False):
    """Read the TX40's log: motor side, joints 5 and 6 coupled."""
    coupling = np.eye(6)
    coupling[5, 4] = 1.0
    return md.read_recording(
        [TX40 / "pos_read_data.csv", TX40 / "curr_data.csv"],
        md.load(TX40 / "tx40.urdf"),
        lazy=lazy,
        rate=5000,
        gear_ratio=[32, 32, 45, -48, 45, 32],
        coupling=coupling,
        offset=[0, -math.pi / 2, math.pi / 2, 0, 0, 0],
    )


def test_ur10_bag() -> None:
    robot = md.load(UR10 / "ur10.urdf")
    recording = md.read_recording(UR10 / "ur10_exciting_trajectory.db3", robot)
    assert len(recording) == 3441
    assert recording.joint_names == robot.joint_names
    assert recording.joint_names[0] == "shoulder_pan_joint"
    np.testing.assert_allclose(np.diff(recording.t), 1 / 125, atol=1e-8)
    np.testing.assert_allclose(recording.q[0, :2], [0.61977826, -1.8644074], atol=1e-8)
    assert [notice.code for notice in recording.notices] == ["recording.columns"]
    ready = md.prepare(robot, recording)
    assert 8 <= ready.info["cutoff"] <= 30  # where the fit is flat
    assert ready.info["decimate"] == 1
    measured = recording.dq[np.searchsorted(recording.t, ready.t - 1e-6)]
    speed = np.linalg.norm(ready.dq - measured, axis=0) / np.linalg.norm(measured, axis=0)
    assert speed.max() < 0.01  # speeds from positions are the measured ones
    assert len(ready) > 3300
    model = md.inverse_dynamics(robot, ready.q, ready.dq, ready.ddq)
    assert (
        np.corrcoef(model[:, 1], ready.telemetry["tau_raw"][:, 1])[0, 1] > 0.9
    )  # signs and order are right


def test_ur10_points_of_a_trajectory(tmp_path: Path) -> None:
    """A model of the first log is tested on the second, whose samples are points, in the shell."""
    log = DATA / "ur10_second" / "validation_trajectory.db3"
    robot = md.load(UR10 / "ur10.urdf")
    recording = md.read_recording(log, robot)
    assert len(recording) == 3441
    np.testing.assert_allclose(np.diff(recording.t), 1 / 125, atol=1e-6)
    np.testing.assert_allclose(recording.tau[0, :2], [1.9958075, 62.22419725], atol=1e-7)
    first = md.read_recording(UR10 / "ur10_exciting_trajectory.db3", robot)
    path = tmp_path / "model.json"
    md.identify(robot, first, friction=("viscous", "coulomb", "offset")).save(path)
    answer = CliRunner().invoke(main, ["validate", str(path), str(log), "--json"])
    assert answer.exit_code == 0, answer.output
    [errors] = json.loads(answer.stdout)["errors"].values()
    assert errors["relative_error"] < 0.1


def test_tx40_tables() -> None:
    robot = md.load(TX40 / "tx40.urdf")
    recording = tx40()
    assert len(recording) == 45000
    np.testing.assert_allclose(recording.t[-1], 44999 / 5000)
    motors = np.loadtxt(TX40 / "pos_read_data.csv", delimiter=",", skiprows=1)
    torques = np.loadtxt(TX40 / "curr_data.csv", delimiter=",", skiprows=1)
    N = np.array([32, 32, 45, -48, 45, 32.0])
    Rq, Rtau = np.diag(N), np.diag(N)
    Rq[5, 4] = Rtau[4, 5] = N[5]
    offset = np.array([0, -math.pi / 2, math.pi / 2, 0, 0, 0])
    q = np.linalg.solve(Rq, motors.T).T + offset
    np.testing.assert_allclose(recording.q, q, atol=1e-12)
    np.testing.assert_allclose(recording.tau, torques @ Rtau.T, atol=1e-12)
    codes = {notice.code for notice in recording.notices}
    assert "recording.one_run" in codes
    assert not codes & {"recording.limits", "recording.range"}
    raw = md.read_recording([TX40 / "pos_read_data.csv", TX40 / "curr_data.csv"], robot, rate=5000)
    assert "recording.range" in {notice.code for notice in raw.notices}
    ready = md.prepare(robot, recording)
    assert ready.info["cutoff"] == 10
    assert ready.t[-1] < 7.6  # the robot stands still from 7.5 s on
    model = md.inverse_dynamics(robot, ready.q, ready.dq, ready.ddq)
    assert (
        np.corrcoef(model[:, 1], ready.telemetry["tau_raw"][:, 1])[0, 1] > 0.5
    )  # the file's inertias are rough; a wrong sign or order would show


def test_tx40_left_on_disk() -> None:
    lazy = tx40(lazy=True)
    assert len(lazy) == 45000
    ready = md.prepare(md.load(TX40 / "tx40.urdf"), lazy, cutoff=40.0)
    whole = md.prepare(md.load(TX40 / "tx40.urdf"), tx40(), cutoff=40.0, trim=True)
    pieces = md.concatenate(list(ready.tiles(500)))
    rows = np.searchsorted(pieces.t, whole.t[:200] - 1e-6)
    np.testing.assert_allclose(pieces.t[rows], whole.t[:200], atol=1e-9)
    np.testing.assert_allclose(pieces.ddq[rows], whole.ddq[:200], atol=1e-3)
