"""Friction that is chosen from the data, on the logs of two real robots.

Fixed splits, default settings.
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

import minidyn as md

DATA = Path(__file__).parents[3] / "shared" / "data"
pytestmark = pytest.mark.skipif(
    not DATA.is_dir(), reason=f"the measurements of real robots are not at {DATA}"
)
PLAIN = ("viscous", "coulomb", "offset")


def test_ur10() -> None:
    folder = DATA / "ur10_exciting"
    robot = md.load(folder / "ur10.urdf", rotor_inertia=True)
    recording = md.read_recording(folder / "ur10_exciting_trajectory.db3", robot=robot)
    fitted, test = recording.part(0.0, 0.7), recording.part(0.7)
    plain, chosen = (md.identify(robot, fitted, friction=terms) for terms in (PLAIN, "auto"))
    before, after = (md.validate(estimate, test).relative_error for estimate in (plain, chosen))
    assert "load" in chosen.record["friction"]
    assert (
        after < 0.036
    )  # a plain baseline with hard signs reaches 7.2 %; loads at rest give 3.59 %
    assert after < 0.8 * before
    assert chosen.certificate.everywhere
    widths = np.array(chosen.record["sign_width"])
    assert widths.max() > 2 * widths.min()  # drives differ


def test_tx40() -> None:
    folder = DATA / "tx40_exciting"
    robot = md.load(folder / "tx40.urdf", rotor_inertia=True)
    coupling = np.eye(6)
    coupling[5, 4] = 1.0
    recording = md.read_recording(
        [folder / "pos_read_data.csv", folder / "curr_data.csv"],
        robot,
        rate=5000,
        gear_ratio=[32, 32, 45, -48, 45, 32],
        coupling=coupling,
        offset=[0, -math.pi / 2, math.pi / 2, 0, 0, 0],
    )
    robot = robot.with_drives(coupling={robot.joint_names[5]: {robot.joint_names[4]: 1.0}})
    own = robot.with_drives(friction=(*PLAIN, "own"))
    assert md.base_parameters(own).rank == 61  # as published for this robot
    fitted, other = recording[:25_000], recording[25_000:37_500]
    errors = {}
    for terms in (PLAIN, "auto"):
        estimate = md.identify(robot, fitted, friction=terms)
        ready = md.prepare(robot, other)
        residual = ready.tau - estimate.predict(
            ready
        )  # of the raw torque 15 % lie above the cut-off
        errors[terms] = np.linalg.norm(residual) / np.linalg.norm(ready.tau)
    assert errors["auto"] < 0.0585  # loads at rest give 6.1 %
    assert (
        0.04 < estimate.record["warming"]["share"] < 0.09
    )  # all drives lose some friction in these five seconds
    assert errors["auto"] < errors[PLAIN]
