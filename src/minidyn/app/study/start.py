"""A study file to begin with, for a robot and its logs."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from minidyn.dynamics.functions import inertia_matrix, inverse_dynamics
from minidyn.errors import DescriptionError
from minidyn.files import write_atomically
from minidyn.formats.load import load, robots
from minidyn.formats.toml.write import quoted, toml_value
from minidyn.model.robot import Robot
from minidyn.recording.read.mapping import SignalMap
from minidyn.recording.read.read import are_one_run
from minidyn.simulation.trajectory import fourier

_Part = tuple[
    str, Sequence[str], tuple[float, float]
]  # name, files, and between which shares of the samples
_WHOLE = (0.0, 1.0)
_STUDY = """\
# A study: `minidyn run` does the steps below one after the other and skips what has not changed.
# docs/study-files.md explains every table and key.

[study]
name = {name}
output = {output}
seed = 0

[robot]
file = {robot}
{changes}
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
to = ["toml", "urdf", "mjcf", "c"]
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


def write_starter(
    path: str | Path,
    robot: str,
    logs: Sequence[str] = (),
    test: Sequence[str] = (),
    mapping: str | None = None,
    changes: Mapping[str, Any] = MappingProxyType({}),
) -> str:
    """Write a study file that identifies a robot from logs and tests it.

    Return in words what is fitted and tested. Without `test`, the last of several logs, or the last
    part of a single one, is kept for the test; without logs they are simulated. Files with
    different signals of the same samples (positions here, torques there) are a single log. The keys
    of a mapping file are copied. `changes` are options of `md.load`, such as gravity. A study file
    that exists is left alone.
    """
    target = Path(path)
    if target.exists():
        raise DescriptionError(f"{target}: exists already; choose another name or remove it")
    loaded = load(robot, **changes)  # a wrong robot is reported now, not when the study runs
    if None in changes.get("lock", {}).values():  # TOML has no word for the default
        changes = {**changes, "lock": loaded.locked_joints}
    for log in (*logs, *test):
        if not Path(log).exists():
            raise DescriptionError(f"{log}: no such file")
    keys = {} if mapping is None else {"mapping": mapping}
    parts = _parts(logs, test, one_run=are_one_run(logs, loaded, keys)) if logs else ()
    text = _STUDY.format(
        name=quoted(target.stem),
        output=quoted(target.stem + "-results"),
        robot=quoted(robot if robot in robots() else _relative(target, robot)),
        changes="".join(f"{key} = {toml_value(value)}\n" for key, value in changes.items()),
        logs=_logs(target, parts, mapping) if parts else _simulated(loaded),
    )
    write_atomically(target, text.encode())
    words = [
        f"{name}: {', '.join(files)}"
        + ("" if part == _WHOLE else f" ({part[0]:.0%} to {part[1]:.0%})")
        for name, files, part in parts
    ]
    return "; ".join(words) or "fit, test: simulated"


def _simulated(robot: Robot) -> str:
    """Return two simulated runs, with drives and parameters that the robot's file does not know."""
    if not np.isfinite(robot.parameters).all():
        raise DescriptionError(
            f"{robot.source or robot.name}: its parameters are not known, so nothing can be "
            "simulated; give --log"
        )
    t = np.linspace(0.0, 10.0, 201)
    q, dq, ddq = fourier(robot)(t)
    torque, speed = (
        np.sqrt(np.mean(x**2, axis=0)) for x in (inverse_dynamics(robot, q, dq, ddq), dq)
    )
    inertia = np.diagonal(inertia_matrix(robot, q), axis1=-2, axis2=-1).mean(axis=0)
    # geared motors: what their rotors add is of the size of what they move, and never nothing
    rotor = np.maximum(0.3 * inertia, 0.02 * inertia.max())
    coulomb = np.maximum(0.05 * torque, 0.1 * rotor)
    felt = np.sqrt(torque**2 + coulomb**2 + np.mean((rotor * ddq) ** 2, axis=0))
    noise = np.minimum(
        0.02 * np.median(torque), 0.2 * felt
    )  # sensors of one kind, but a finger is to be seen
    drives = {"viscous": 0.5 * coulomb / speed, "coulomb": coulomb, "rotor": rotor, "noise": noise}
    values = {
        name: "[" + ", ".join(f"{value:.2g}" for value in each) + "]"
        for name, each in drives.items()
    }
    lengths = {"fit": 10, "test": 5}
    runs = [_SIMULATE.format(name=name, duration=lengths[name], **values) for name in lengths]
    why = (
        "# No log was given: two runs are simulated, with drives and parameters that the robot's "
        "file does not know."
    )
    return f"\n{why}\n{''.join(runs)}"


def _parts(logs: Sequence[str], test: Sequence[str], one_run: bool) -> tuple[_Part, ...]:
    """Return two logs.

    Where no file is for the test, the last one is, or the last part where there is but one run.
    """
    if test:
        return ("fit", logs, _WHOLE), ("test", test, _WHOLE)
    if len(logs) == 1 or one_run:
        return ("fit", logs, (0.0, 0.7)), ("test", logs, (0.7, 1.0))
    return ("fit", logs[:-1], _WHOLE), ("test", logs[-1:], _WHOLE)


def _logs(path: Path, parts: Iterable[_Part], mapping: str | None) -> str:
    """Return the tables of logs, and how they are read."""
    given = {} if mapping is None else vars(SignalMap.of({}, mapping))
    lines = [f"{key} = {toml_value(value)}\n" for key, value in given.items() if value is not None]
    for name, files, part in parts:
        listed = ", ".join(quoted(_relative(path, file)) for file in files)
        lines.append(f'\n[[log]]\nname = "{name}"\nfiles = [{listed}]\n')
        lines += [f"part = {toml_value(part)}\n"] * (part != _WHOLE)
    return _MAPPING + "".join(lines)


def _relative(path: Path, file: str) -> str:
    """Return a file's name as seen from the folder of the study file."""
    return Path(os.path.relpath(file, path.parent)).as_posix()
