"""A study file to begin with, for a robot and its logs."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from minidyn.dynamics.functions import inertia_matrix, inverse_dynamics
from minidyn.errors import DescriptionError
from minidyn.files import write_atomically
from minidyn.formats.load import load, robots
from minidyn.formats.toml.write import quoted
from minidyn.model.robot import Robot
from minidyn.recording.read.read import are_one_run
from minidyn.simulation.trajectory import fourier


def write_starter(path: str | Path, robot: str, logs: Sequence[str] = ()) -> None:
    """Write a study file that identifies a robot from logs; without logs it simulates them.

    Args:
        path: File to write; one that exists is left alone.
        robot: Built-in name or file.
        logs: Files; the last of several, or the last part of a single one, is kept for validation. Files with
            different signals of the same samples (positions here, torques there) are a single one.

    Raises:
        DescriptionError: The file exists, or robot or logs do not.
    """
    target = Path(path)
    if target.exists():
        raise DescriptionError(f"{target}: exists already; choose another name or remove it")
    loaded = load(robot)  # a wrong robot is told now, not when the study runs
    for log in logs:
        if not Path(log).exists():
            raise DescriptionError(f"{log}: no such file")
    text = starter_text(target, robot, logs, together=are_one_run(logs, loaded))
    write_atomically(target, text.encode())


def starter_text(path: Path, robot: str, logs: Sequence[str], together: bool = False) -> str:
    """Return the text of a study file; files are named relative to it.

    Args:
        path: The study file.
        robot: Built-in name or file.
        logs: Files.
        together: Whether they hold signals of the same samples.
    """
    source = robot if robot in robots() else _relative(path, robot)
    lines = [
        "# A study: `minidyn run` does what stands here, step by step, and skips what has not changed.",
        "# docs/study-files.md explains every table and key.",
        "",
        "[study]",
        f"name = {quoted(path.stem)}",
        f"output = {quoted(path.stem + '-results')}",
        "seed = 0",
        "",
        "[robot]",
        f"file = {quoted(source)}",
        "",
        "[base]",
    ]
    lines += _logs(path, logs, together) if logs else _simulated(load(robot))
    lines += [
        "",
        "[preparation]",
        "# cutoff = 20.0         # Hz; chosen from the data where it is not given",
        "",
        "[identify]",
        'logs = ["fit"]',
        'method = "wls"',
        'friction = "auto"       # viscous, coulomb, offset, and what the data ask for; or a list of terms',
        "rotor_inertia = true",
        "consistent = true       # a physically possible model",
        "",
        "[validate]",
        'logs = ["test"]',
        "",
        "[export]",
        'formats = ["toml", "urdf", "mjcf", "c"]',
        'code = ["inverse_dynamics", "inertia_matrix"]',
        'targets = ["c"]',
        "",
        "[report]",
        "",
    ]
    return "\n".join(lines)


def _simulated(robot: Robot) -> list[str]:
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
    lines = [
        "",
        "# No log was given: two runs are simulated, with drives and parameters that the robot's file does not know.",
    ]
    for name, duration in (("fit", 10), ("test", 5)):
        lines += [
            "",
            "[[simulate]]",
            f'name = "{name}"',
            f"duration = {duration}",
            f"friction = {{ viscous = {_listed(0.5 * coulomb / speed)}, coulomb = {_listed(coulomb)} }}",
            f"rotor_inertia = {_listed(rotor)}",
            "parameter_spread = 0.1",
            "noise = 1e-5",
            f"torque_noise = {0.02 * float(np.median(torque)):.2g}",
        ]
    return lines


def _listed(values: NDArray[np.float64]) -> str:
    return "[" + ", ".join(f"{value:.2g}" for value in values) + "]"


def _logs(path: Path, logs: Sequence[str], together: bool) -> list[str]:
    names = [_relative(path, log) for log in logs]
    lines = [
        "",
        "# How columns are read, for all logs: docs/recordings.md lists the keys. What names tell is guessed.",
        "[mapping]",
        "# rate = 500            # samples per second, where there is no time column",
        '# units = "deg"',
        "# drive_gain = [...]    # N m per ampere, where tau holds motor currents",
        "# gear_ratio = [...]    # motor turns per joint turn, where signals are on the motor side",
        "# coupling = [[...]]    # (n, n), where motors turn with other joints, too: docs/how-to",
        "# offset = [...]        # rad, added to positions",
    ]
    if len(names) == 1 or together:
        every = ", ".join(map(quoted, names))
        for name, part in (("fit", "[0.0, 0.7]"), ("test", "[0.7, 1.0]")):
            lines += ["", "[[log]]", f'name = "{name}"', f"files = [{every}]", f"part = {part}"]
        return lines
    for name, files in (("fit", names[:-1]), ("test", names[-1:])):
        lines += ["", "[[log]]", f'name = "{name}"', f"files = [{', '.join(map(quoted, files))}]"]
    return lines


def _relative(path: Path, file: str) -> str:
    """Return a file's name as seen from the folder of the study file."""
    return Path(os.path.relpath(file, path.parent)).as_posix()
