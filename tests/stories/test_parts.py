"""A UR10 with a gripper that is not logged: from file and log to the report, and back to the file
of the whole, one command each.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import minidyn as md
from minidyn.app.cli.main import main
from minidyn.model.parameters import realizability

GRIPPER = """  <!-- a two-finger gripper, bolted on -->
  <link name="palm"><visual><geometry><mesh filename="meshes/palm.stl"/></geometry></visual>
    <inertial><origin xyz="0 0 0.04" rpy="0 0 0"/><mass value="0.6"/>
    <inertia ixx="0.0008" ixy="0" ixz="0" iyy="0.0008" iyz="0" izz="0.0005"/></inertial></link>
  <joint name="palm_fixed" type="fixed"><parent link="FLANGE"/><child link="palm"/></joint>
  <link name="left_finger"><!-- steel --><inertial><origin xyz="0 0 0.03" rpy="0 0 0"/>
    <mass value="0.08"/><inertia ixx="4e-5" ixy="0" ixz="0" iyy="4e-5" iyz="0" izz="1e-5"/>
    </inertial><visual><geometry><mesh filename="meshes/finger.stl"/></geometry></visual></link>
  <joint name="grip" type="prismatic"><origin xyz="0 0.01 0.08" rpy="0 0 0"/>
    <parent link="palm"/><child link="left_finger"/><axis xyz="0 1 0"/>
    <limit lower="0" upper="0.04" effort="60" velocity="0.1"/></joint>
  <link name="right_finger"><inertial><origin xyz="0 0 0.03" rpy="0 0 0"/>
    <mass value="0.08"/><inertia ixx="4e-5" ixy="0" ixz="0" iyy="4e-5" iyz="0" izz="1e-5"/>
    </inertial><visual><geometry><mesh filename="meshes/finger.stl"/></geometry></visual></link>
  <joint name="grip_mirror" type="prismatic"><origin xyz="0 -0.01 0.08" rpy="0 0 0"/>
    <parent link="palm"/><child link="right_finger"/><axis xyz="0 -1 0"/><mimic joint="grip"/>
    <limit lower="0" upper="0.04" effort="60" velocity="0.1"/></joint>
  <transmission name="grip_drive"><type>transmission_interface/SimpleTransmission</type>
    <joint name="grip"/><actuator name="grip_motor"/></transmission>
"""


def run(*words: object) -> str:
    result = CliRunner().invoke(main, [str(word) for word in words])
    assert result.exit_code == 0, result.output
    return result.output


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a URDF of a UR10 with a gripper, and a log of the arm's joints alone."""
    folder = tmp_path_factory.mktemp("ur10")
    ur10 = md.load("ur10")
    md.save(ur10, folder / "ur10.urdf")
    (folder / "ur10.urdf.minidyn.toml").unlink(missing_ok=True)
    text = (folder / "ur10.urdf").read_text()
    gripper = GRIPPER.replace("FLANGE", ur10.link_names[-1])
    source = folder / "ur10_gripper.urdf"
    source.write_text(text.replace("</robot>", gripper + "</robot>"))
    held = md.load(source, lock={"grip": 0.02})
    values = held.parameters.copy()  # links of the arm are heavier than the file says
    for part in held.layout.links:
        values[part] *= 1.15
    true = held.with_parameters(values).with_drives(friction=("viscous", "coulomb"))
    drives = {"Fv": 8.0, "Fc": 5.0}
    true = true.with_parameters(
        [drives.get(n[:2], v) for n, v in zip(true.parameter_names, true.parameters)]
    )
    rng, t = np.random.default_rng(0), 0.005 * np.arange(4000)
    q, dq, ddq = md.trajectory.fourier(true, seed=0, speed=1.5)(t)
    tau = md.inverse_dynamics(true, q, dq, ddq) + 0.1 * rng.normal(size=q.shape)
    md.Recording(t, q, tau, dq, joint_names=true.joint_names).save(folder / "log.csv")
    return folder


def test_from_file_and_log_to_the_report_and_back(place: Path) -> None:
    source, out = place / "ur10_gripper.urdf", place / "out"
    friction = (
        "--friction",
        "viscous,coulomb",
        "--no-auto",
        "--hold-out",
        "0.3",
        "--lock",
        "grip=0.02",
    )
    run("identify", source, place / "log.csv", *friction, "--output", out)
    assert "robot.divided" not in (out / "result.json").read_text()
    assert (out / "report.html").stat().st_size > 10_000
    run("export", out / "estimate.json", "--source", source, "--output", place / "new.urdf")
    for target in (out / "ur10.urdf", place / "new.urdf"):
        _is_the_original(source, target, md.load_estimate(out / "estimate.json"))
    found = json.loads((out / "result.json").read_text())
    assert found["errors"]["held out"]["relative_error"] < 0.03


def _is_the_original(source: Path, target: Path, estimate: md.Estimate) -> None:
    """Compare texts but for numbers of inertia and friction, and torques with the joints locked."""
    old, new = source.read_text(), target.read_text()
    for kept in ("a two-finger gripper, bolted on", "<!-- steel -->", "palm.stl", "grip_motor"):
        assert kept in new
    for name in ("left_finger", "right_finger", "palm"):
        blocks = [
            re.findall(rf'<link name="{name}">.*?</link>', text, re.DOTALL) for text in (old, new)
        ]
        assert blocks[0] == [block.replace("../meshes", "meshes") for block in blocks[1]]
    whole, file = md.load(target), md.load(source)
    assert whole.joint_names == file.joint_names
    assert whole.link_names == file.link_names
    fingers = [whole.joint_index(name) for name in ("grip", "grip_mirror")]
    for index in fingers:
        assert np.allclose(
            whole.links[index].parameters, file.links[index].parameters, rtol=1e-12, atol=0
        )
    model = estimate.robot
    q, dq, ddq = np.random.default_rng(0).normal(size=(3, 20, model.n))
    again = md.inverse_dynamics(whole.locked({"grip": 0.02}), q, dq, ddq)
    wanted = md.inverse_dynamics(model, q, dq, ddq)
    np.testing.assert_allclose(again, wanted, rtol=0, atol=1e-9 * np.abs(wanted).max())
    for link in whole.links:
        assert realizability(link.parameters).realizable
