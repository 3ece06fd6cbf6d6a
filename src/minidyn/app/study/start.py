"""A study file to begin with, for a robot and its logs."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from minidyn.dynamics.functions import inertia_matrix, inverse_dynamics
from minidyn.errors import DescriptionError
from minidyn.files import write_atomically
from minidyn.formats.load import load, robots
from minidyn.formats.toml.write import quoted
from minidyn.model.robot import Robot
from minidyn.recording.read.read import are_one_run
from minidyn.simulation.trajectory import fourier

_STUDY = """\
# A study: `minidyn run` does the steps below one after the other and skips what has not changed.
# docs/study-files.md explains every table and key.

[study]
name = {name}
output = {output}
seed = 0

[robot]
file = {robot}

[base]
{logs}
[preparation]
# cutoff = 20.0         # Hz; chosen from the data where it is not given

[identify]              # its keys, and their defaults, are the keywords of md.identify
logs = ["fit"]
# method = "wls"
# friction = "auto"     # viscous, coulomb, offset, and what the data ask for; or a list of terms
# consistent = true     # a physically consistent model

[validate]
logs = ["test"]

[export]
formats = ["toml", "urdf", "mjcf", "c"]
code = ["inverse_dynamics", "inertia_matrix"]
targets = ["c"]

[report]
"""
_MAPPING = """
# How columns are read, for all logs: docs/recordings.md lists the keys. What names say is guessed.
[mapping]
# rate = 500            # samples per second, where there is no time column
# units = "deg"
# drive_gain = [...]    # N m per ampere, where tau holds motor currents
# gear_ratio = [...]    # motor turns per joint turn, where signals are on the motor side
# coupling = [[...]]    # (n, n), where motors turn with other joints, too: docs/how-to
# offset = [...]        # rad, added to positions
"""
_SIMULATE = """
[[simulate]]
name = "{name}"
duration = {duration}
friction = {{ viscous = {viscous}, coulomb = {coulomb} }}
rotor_inertia = {rotor}
parameter_spread = 0.1
noise = 1e-5
torque_noise = {noise}
"""


def write_starter(path: str | Path, robot: str, logs: Sequence[str] = ()) -> None:
    """Write a study file that identifies a robot from logs; without logs it simulates them.

    The last of several logs, or the last part of a single one, is kept for validation. Files with different signals of
    the same samples (positions here, torques there) are a single one. A file that exists is left alone.
    """
    target = Path(path)
    if target.exists():
        raise DescriptionError(f"{target}: exists already; choose another name or remove it")
    loaded = load(robot)  # a wrong robot is reported now, not when the study runs
    for log in logs:
        if not Path(log).exists():
            raise DescriptionError(f"{log}: no such file")
    text = _STUDY.format(
        name=quoted(target.stem),
        output=quoted(target.stem + "-results"),
        robot=quoted(robot if robot in robots() else _relative(target, robot)),
        logs=_logs(target, logs, together=are_one_run(logs, loaded)) if logs else _simulated(loaded),
    )
    write_atomically(target, text.encode())


def _simulated(robot: Robot) -> str:
    """Return two simulated runs, with drives and parameters that the robot's file does not know."""
    if not np.isfinite(robot.parameters).all():
        raise DescriptionError(
            f"{robot.source or robot.name}: its parameters are not known, so nothing can be simulated; give --log"
        )
    t = np.linspace(0.0, 10.0, 201)
    q, dq, ddq = fourier(robot)(t)
    torque, speed = (np.sqrt(np.mean(x**2, axis=0)) for x in (inverse_dynamics(robot, q, dq, ddq), dq))
    inertia = np.diagonal(inertia_matrix(robot, q), axis1=-2, axis2=-1).mean(axis=0)
    # geared motors: what their rotors add is of the size of what they move, and never nothing
    rotor = np.maximum(0.3 * inertia, 0.02 * inertia.max())
    coulomb = np.maximum(0.05 * torque, 0.1 * rotor)
    felt = np.sqrt(torque**2 + coulomb**2 + np.mean((rotor * ddq) ** 2, axis=0))
    noise = np.minimum(0.02 * np.median(torque), 0.2 * felt)  # sensors of one kind, but a finger is to be seen
    drives = {"viscous": 0.5 * coulomb / speed, "coulomb": coulomb, "rotor": rotor, "noise": noise}
    values = {name: "[" + ", ".join(f"{value:.2g}" for value in each) + "]" for name, each in drives.items()}
    lengths = {"fit": 10, "test": 5}
    runs = [_SIMULATE.format(name=name, duration=lengths[name], **values) for name in lengths]
    why = "# No log was given: two runs are simulated, with drives and parameters that the robot's file does not know."
    return f"\n{why}\n{''.join(runs)}"


def _logs(path: Path, logs: Sequence[str], together: bool) -> str:
    """Return two logs: the last file is for the test, or the last part where there is but one run."""
    names = [quoted(_relative(path, log)) for log in logs]
    parts = (("fit", names[:-1], ""), ("test", names[-1:], ""))
    if len(names) == 1 or together:
        parts = (("fit", names, "part = [0.0, 0.7]\n"), ("test", names, "part = [0.7, 1.0]\n"))
    return _MAPPING + "".join(
        f'\n[[log]]\nname = "{name}"\nfiles = [{", ".join(files)}]\n{part}' for name, files, part in parts
    )


def _relative(path: Path, file: str) -> str:
    """Return a file's name as seen from the folder of the study file."""
    return Path(os.path.relpath(file, path.parent)).as_posix()
