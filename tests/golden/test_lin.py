"""The Lin papers' tables and the worked robots that go with their corrected rules."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import minidyn as md
from minidyn.base.closed_form.mlc import mlc_base
from minidyn.model.placements import tree_pose
from minidyn.model.robot import Robot

GOLDEN: dict[str, Any] = json.loads((Path(__file__).parent / "lin.json").read_text())
ROBOTS = {entry["name"]: entry for entry in GOLDEN["robots"]}


def robot_of(entry: dict[str, Any]) -> Robot:
    """Build a robot of the golden file."""
    bodies = [
        {"mass": mass, "com": com, "inertia": inertia}
        for mass, com, inertia in zip(entry["mass"], entry["com"], entry["I_com"])
    ]
    return Robot.from_mdh(
        entry["types"],
        entry["beta"],
        entry["b"],
        entry["d_null"],
        entry["theta_null"],
        gravity=entry["gravity"],
        parameters=bodies,
        name=entry["name"],
    )


def our_name(golden: str) -> str:
    """Translate kx_2, m_3, U11-22_4, U13-h kx_2, kappa1_3 into our names."""
    symbol, _, number = golden.rpartition("_")
    if "-h " in symbol:
        return f"{symbol[:3]}h_{number}"
    if symbol in ("kx", "ky", "kz"):
        return f"k{number}{symbol[1]}"
    return f"m{number}" if symbol == "m" else f"{symbol.replace('-', '_')}_{number}"


@pytest.mark.parametrize("version", ["1992", "1999"])
@pytest.mark.parametrize("name", ROBOTS)
def test_constants_of_composite_bodies(name: str, version: str) -> None:
    entry = ROBOTS[name]
    for found, golden in zip(
        md.papers.inertia_constants(robot_of(entry), version), entry[f"constants_{version}"]
    ):
        assert found.mass == pytest.approx(golden["mhat"], abs=1e-9)
        np.testing.assert_allclose(found.k, golden["k"], atol=1e-9)
        np.testing.assert_allclose(found.U, golden["U"], atol=1e-9)


@pytest.mark.parametrize("name", ROBOTS)
def test_structure_and_size(name: str) -> None:
    entry = ROBOTS[name]
    base = md.base_parameters(robot_of(entry), method="mlc")
    structure = base.structure
    assert structure is not None
    assert base.rank == entry["rank_numeric"]
    assert (structure.r, structure.s) == (entry["r"], entry["s"])
    assert {str(number): value for number, value in structure.delta.items()} == entry["delta"]


@pytest.mark.parametrize("version", ["1992", "1999"])
@pytest.mark.parametrize("name", ROBOTS)
def test_values_of_the_set(name: str, version: str) -> None:
    entry = ROBOTS[name]
    golden = entry.get(f"S_corrected_rule_{version}") or entry[f"S_printed_rule_{version}"]
    base = mlc_base(robot_of(entry), version)
    assert dict(zip(base.names, base.values())) == pytest.approx(
        {our_name(label): value for label, value in golden}, abs=1e-9
    )


def test_stanford_table_2() -> None:
    """Lin1992 Table II as computed directly, and U of LinFang1999 for the same arm."""
    robot = robot_of(ROBOTS["stanford_fig2"])
    for found, golden in zip(
        md.papers.inertia_constants(robot, "1992"), GOLDEN["table2_direct_1992"].values()
    ):
        U = found.U
        assert found.mass == pytest.approx(golden["mhat"], abs=1e-9)
        np.testing.assert_allclose(found.k, golden["k"], atol=1e-9)
        got = {
            "U11_22": U[0, 0] - U[1, 1],
            "U33": U[2, 2],
            "U12": U[0, 1],
            "U13": U[0, 2],
            "U23": U[1, 2],
        }
        got |= {"U11": U[0, 0], "U22": U[1, 1]}
        assert got == pytest.approx({key: golden[key] for key in got}, abs=1e-9)
    for found, golden in zip(
        md.papers.inertia_constants(robot, "1999"), GOLDEN["table2_direct_1999U"].values()
    ):
        U = found.U
        got = {
            "U11_22": U[0, 0] - U[1, 1],
            "U33": U[2, 2],
            "U12": U[0, 1],
            "U13": U[0, 2],
            "U23": U[1, 2],
        }
        assert got == pytest.approx(golden, abs=1e-9)
    assert md.base_parameters(robot, method="mlc").rank == GOLDEN["n_minimal_parameters_stanford"]


def test_stanford_table_1() -> None:
    """Axis of joint 1 in the frames of the others (Lin1992 Table I, corrected as in ERRATA D)."""
    robot = robot_of(ROBOTS["stanford_fig2"])
    for label, golden in GOLDEN["table1"].items():
        configuration, frame = int(label[6]), int(label[-2])
        q = np.full(6, 0.7)
        q[{3: 2}.get(frame, frame) - 1] = {1: 0.7, 2: -0.7, 3: -0.6}[configuration]
        pose = tree_pose(robot, q)
        np.testing.assert_allclose(
            pose.links[frame - 1, :3, :3].T @ pose.axes[0], golden, atol=1e-9, err_msg=label
        )


@pytest.mark.parametrize(
    "name", [name for name, entry in ROBOTS.items() if "tau_pinocchio" in entry]
)
def test_dynamics_of_the_golden_robots(name: str) -> None:
    entry = ROBOTS[name]
    robot = robot_of(entry)
    q, dq, ddq = (np.array(entry[key], dtype=float) for key in ("q", "qd", "qdd"))
    tau = np.array(entry["tau_pinocchio"])
    np.testing.assert_allclose(md.inverse_dynamics(robot, q, dq, ddq), tau, atol=1e-9)
    base = md.base_parameters(robot, method="mlc")
    np.testing.assert_allclose(
        md.base_regressor(robot, q, dq, ddq, base=base) @ base.values(), tau, atol=1e-9
    )
    np.testing.assert_allclose(md.inertia_matrix(robot, q), entry["H_pinocchio"], atol=1e-9)
    np.testing.assert_allclose(md.gravity_torque(robot, q), entry["gravity_torque"], atol=1e-9)
