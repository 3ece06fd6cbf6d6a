"""The main job on a real robot: a UR10's log, fitted on its first 70 %, judged on the rest, default settings."""

from pathlib import Path

import numpy as np
import pytest

import minidyn as md

DATA = Path(__file__).parents[2] / ".." / "shared" / "data" / "ur10_exciting"


@pytest.mark.skipif(not DATA.is_dir(), reason="the measurements in ../shared/data are not here")
def test_ur10() -> None:
    robot = md.load(DATA / "ur10.urdf", rotor_inertia=True, friction=("viscous", "coulomb", "offset"))
    recording = md.read_recording(DATA / "ur10_exciting_trajectory.db3", robot=robot)
    cut = int(0.7 * len(recording))
    estimate = md.identify(robot, recording[:cut])
    # a plain baseline reaches 7.2 % on the same split, the best peer 8.3 %
    assert md.validate(estimate, recording[cut:]).relative_error < 0.07
    for link in estimate.robot.links:
        assert link.realizability.realizable
        assert link.realizability.smallest_eigenvalue > 0
    drives = [column.index for columns in robot.layout.drives for column in columns if column.symbol != "Fo"]
    assert np.all(estimate.parameters[drives] >= 0)
    assert 15 < sum(link.mass for link in estimate.robot.links) < 45  # the data sheet says about 29 kg in all
