"""Logs of real robots, read from ../shared/data beside the project, and what is fitted and tested.

A pair is a robot, the logs that are fitted and a recording that is not. A group is a robot and logs
that should give the same model.
"""

from __future__ import annotations

import math
import tempfile
import xml.etree.ElementTree as ET
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.signal import butter, sosfiltfilt

import minidyn as md
from minidyn.model.drives import PLAIN

Array = NDArray[np.float64]
DATA = Path(__file__).parents[2] / "shared" / "data"
SMOOTH_HZ = 20.0  # low-pass of the TX40's torque: 16 % of its norm are vibrations above 320 Hz
TIAGO_GAINS = (13.6, 13.6, -8.7, -8.7, -20.6, -20.6, -20.6)  # N m of a unit of the arm's effort
TIAGO_MOTION = slice(921, 6791)  # samples of the motion
HELD_OUT = 0.7  # share of a single log that is fitted


@dataclass(frozen=True)
class Pair:
    """What is fitted, and what is tested.

    Attributes:
        name: "fit -> test".
        robot: The robot.
        fitted: What is fitted: one log, or several as runs of one recording.
        test: What is not fitted.
        smooth: The test's torque low-passed on the whole log (N, n), where a second error is
            asked for; None: the raw torque alone.
        friction: Drive terms of plain least squares.
    """

    name: str
    robot: md.Robot
    fitted: md.Recording
    test: md.Recording
    smooth: Array | None = None
    friction: tuple[str, ...] = PLAIN


@dataclass(frozen=True)
class Group:
    """Logs of one robot.

    Attributes:
        name: What tables call it.
        robot: The robot.
        logs: Logs that are fitted one by one, and tested.
        others: Recordings that are tested alone.
        real: Whether they are measured, not simulated.
        days: Which recordings are of which day, where there are several; all others are of one.
    """

    name: str
    robot: md.Robot
    logs: dict[str, md.Recording]
    others: dict[str, md.Recording]
    real: bool = True
    days: dict[str, str] = field(default_factory=dict)

    def same_day(self, one: str, other: str) -> bool:
        """Return whether two recordings are of one day, and of one kind of motion."""
        return self.days.get(one) == self.days.get(other)


@cache
def ur10() -> tuple[md.Robot, md.Recording, md.Recording]:
    """Return the UR10, its exciting log and the log of another day."""
    folder = DATA / "ur10_exciting"
    robot = md.load(folder / "ur10.urdf", rotor_inertia=True)
    first = md.read_recording(folder / "ur10_exciting_trajectory.db3", robot=robot)
    second = md.read_recording(DATA / "ur10_second" / "validation_trajectory.db3", robot=robot)
    return robot, first, second


@cache
def tx40() -> tuple[md.Robot, md.Recording, Array]:
    """Return the TX40, whose drive 6 is turned by joint 5, its log and the low-passed torque."""
    folder = DATA / "tx40_exciting"
    robot = md.load(folder / "tx40.urdf", rotor_inertia=True)
    coupling = np.eye(6)
    coupling[5, 4] = 1.0
    log = md.read_recording(
        [folder / "pos_read_data.csv", folder / "curr_data.csv"],
        robot,
        rate=5000,
        gear_ratio=[32, 32, 45, -48, 45, 32],
        coupling=coupling,
        offset=[0, -math.pi / 2, math.pi / 2, 0, 0, 0],
    )
    robot = robot.with_drives(coupling={robot.joint_names[5]: {robot.joint_names[4]: 1.0}})
    sections = butter(4, SMOOTH_HZ, fs=5000, output="sos")
    return robot, log, np.asarray(sosfiltfilt(sections, log.tau, axis=0))


@cache
def kr300() -> tuple[md.Robot, dict[str, md.Recording]]:
    """Return the KR300, of which no inertia is known, and its three logs."""
    robot = md.load(DATA / "kr300" / "kr300.toml", rotor_inertia=True)
    paths = {name: DATA / "kr300" / f"kr300_{name}.csv" for name in "ABC"}
    return robot, {name: md.read_recording(path, robot) for name, path in paths.items()}


@cache
def panda() -> tuple[md.Robot, md.Recording]:
    """Return the built-in Panda and the log of one."""
    robot = md.load("panda")
    log = md.read_recording(DATA / "panda_bag" / "panda_exciting_trajectory.db3")
    return robot, md.Recording(log.t, log.q, log.tau, log.dq, joint_names=robot.joint_names)


@cache
def tiago() -> tuple[md.Robot, md.Recording, md.Recording]:
    """Return the TIAGo's torso and arm, the log as it is, and with the torso's weight.

    The joints that are not logged are fixed where they are zero. The torso's drive carries its
    weight by a spring, so that the logged force lacks it: the weight of all that the torso lifts,
    by the URDF's masses, is added to the force.
    """
    folder = DATA / "tiago"
    signals = {
        name: np.genfromtxt(folder / f"tiago_{name}.csv", delimiter=",", skip_header=1)[
            TIAGO_MOTION
        ]
        for name in ("position", "velocity", "effort")
    }
    names = ("torso_lift_joint", *(f"arm_{k}_joint" for k in range(1, 8)))
    robot = with_joints(folder / "tiago_no_hand.urdf", names)
    tau = signals["effort"][:, 1:] * [1.0, *TIAGO_GAINS]
    t, q, dq = signals["position"][:, 0], signals["position"][:, 1:], signals["velocity"][:, 1:]
    lifted = tau.copy()
    rest = np.zeros((1, robot.n))
    lifted[:, 0] += md.inverse_dynamics(robot.with_drives(False, ()), rest, rest, rest)[0, 0]
    as_logged, with_weight = (
        md.Recording(t, q, torque, dq, joint_names=names) for torque in (tau, lifted)
    )
    return robot, as_logged, with_weight


def with_joints(path: Path, names: tuple[str, ...]) -> md.Robot:
    """Return the robot of a URDF with these joints alone; all others are fixed at zero."""
    tree = ET.parse(path)  # noqa: S314 (a file of ours)
    for joint in tree.getroot().findall("joint"):
        if joint.get("name") not in names:
            joint.set("type", "fixed")
            for child in [part for part in joint if part.tag in ("axis", "limit", "mimic")]:
                joint.remove(child)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / path.name
        tree.write(file)
        return md.load(file, rotor_inertia=True)


def pairs() -> list[Pair]:
    """Return every fit -> test."""
    robot, first, second = ur10()
    rows = [
        Pair("UR10: 70 % -> 30 %", robot, first.part(0.0, HELD_OUT), first.part(HELD_OUT)),
        Pair("UR10: first log -> another day", robot, first, second),
    ]
    robot, log, smooth = tx40()
    own = (*PLAIN, "own")  # the wrist's joint 6 has friction beside that of its drive
    parts = log[:25_000], log[25_000:37_500], smooth[25_000:37_500]
    rows.append(Pair("TX40: 0-5 s -> 5-7.5 s", robot, *parts, own))
    robot, logs = kr300()
    for fitted, test in ("AB", "BA", "CA", "AC"):
        rows.append(Pair(f"KR300: {fitted} -> {test}", robot, logs[fitted], logs[test]))
    for one, other, test in ("ABC", "ACB", "BCA"):
        both = md.concatenate([logs[one], logs[other]])
        assert isinstance(both, md.Recording)
        rows.append(Pair(f"KR300: {one} and {other} -> {test}", robot, both, logs[test]))
    robot, log = panda()
    rows.append(Pair("Panda: 70 % -> 30 %", robot, log.part(0.0, HELD_OUT), log.part(HELD_OUT)))
    robot, *variants = tiago()
    for words, log in zip(("as logged", "torso's weight added"), variants):
        parts = log.part(0.0, HELD_OUT), log.part(HELD_OUT)
        rows.append(Pair(f"TIAGo, {words}: 70 % -> 30 %", robot, *parts))
    return rows


def groups() -> list[Group]:
    """Return logs of one robot each: the KR300's three, and halves of the others."""
    robot, logs = kr300()
    found = [Group("KR300", robot, logs, {}, days={name: name for name in logs})]
    robot, first, second = ur10()
    days = {"another day": "second"}
    found.append(Group("UR10, halves", robot, halves(first), {"another day": second}, days=days))
    robot, log, _ = tx40()
    found.append(Group("TX40, halves", robot, halves(log[:30_000]), {"end": log[30_000:]}))
    robot, log = panda()
    cut = HELD_OUT
    found.append(Group("Panda, halves", robot, halves(log.part(0.0, cut)), {"end": log.part(cut)}))
    robot, _, log = tiago()
    found.append(Group("TIAGo, halves", robot, halves(log.part(0.0, cut)), {"end": log.part(cut)}))
    return found


def halves(log: md.Recording) -> dict[str, md.Recording]:
    """Return the two halves of a log."""
    return {"1st half": log.part(0.0, 0.5), "2nd half": log.part(0.5)}
