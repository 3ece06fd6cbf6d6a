"""What a report is about, gathered from results once, and the commands it gives for the reader's
own files.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from minidyn.arrays import Array
from minidyn.base.base_map import BaseMap
from minidyn.dynamics.functions import base_regressor
from minidyn.errors import MinidynError
from minidyn.identification.consistency.certificate import Certificate
from minidyn.identification.estimate import Estimate
from minidyn.identification.export import file_name
from minidyn.identification.validate import Validation
from minidyn.identification.verdict import Limits, Verdict, judge, test_error, unseen
from minidyn.model.robot import Robot
from minidyn.recording.recording import Recording
from minidyn.simulation.trajectory import fourier

if TYPE_CHECKING:
    from minidyn.control.momentum_observer import Observer
    from minidyn.excitation.one_joint_plan import Plan
    from minidyn.identification.cross_validate import CrossValidation
    from minidyn.simulation.case_study import CaseStudy
import os
import shlex
from pathlib import Path
from types import MappingProxyType

from minidyn.display import Html, tag
from minidyn.formats.load import robots
from minidyn.text import visible

_PLAIN = 5  # random motions of one more log that are tried
_LOG = 500  # samples of each
_RATE, _PERIOD = 100.0, 10.0  # Hz and s of that log
_SPEED = 1.0  # rad/s or m/s in it, of joints without a speed limit


@dataclass(frozen=True)
class Places:
    """Where files are, for commands that can be copied; empty where it is not known."""

    robot: str = ""  # name or file of the robot that was identified
    logs: tuple[str, ...] = ()  # that were fitted
    folder: str = ""  # of estimate.json and the model's files
    estimate: str = ""  # the file of the estimate, where it is not in the folder
    reading: tuple[str, ...] = ()  # options of the shell with which the logs were read
    changes: tuple[str, ...] = ()  # options of the shell that changed the robot


@dataclass(frozen=True, eq=False)
class Facts:
    """Everything the sections read."""

    estimate: Estimate
    tests: Mapping[str, Validation]  # its errors on test data (runs it was not fitted to), by name
    fit: Validation | None = (
        None  # its errors on the data it was fitted to; None where they were not given
    )
    # errors on parts of the log that were held out of the fit, one after the other
    cross_validation: CrossValidation | None = None
    plan: Plan | None = None  # experiments with one joint at a time
    one_joint: Estimate | None = None  # what they gave
    case_study: CaseStudy | None = None  # adaptive control with an unknown load
    details: Mapping[str, Any] = field(
        default_factory=dict
    )  # further lines of the record: files, hashes, commands
    code: bool = (
        True  # whether to count operations and measure the speed of the generated functions
    )
    places: Places = Places()
    limits: Limits = field(default_factory=Limits)  # of the verdict
    observer: Observer | None = None  # of contacts

    @property
    def runs(self) -> Iterator[tuple[str, str, Validation]]:
        """(key, name, errors) of each run: test data first, then the fitted data."""
        for k, (name, run) in enumerate(self.tests.items()):
            yield f"run{k}", f"{name} ({'test data' if name in self.unseen else run.data})", run
        if self.fit is not None:
            yield "fit", "fitted data", self.fit

    @cached_property
    def unseen(self) -> Mapping[str, Validation]:
        """The tests whose data were not fitted."""
        return unseen(self.tests, self.limits)

    @property
    def motion(self) -> Recording | None:
        """The fitted motion with speeds and accelerations, of a log on disk some samples.

        None: not known.
        """
        return None if self.fit is None else self.fit.motion

    @property
    def test_error(self) -> float | None:
        """The error on test data: of the worst run, or of cross-validation; None: not known."""
        return test_error(self.tests, self.cross_validation, self.limits)

    @cached_property
    def verdict(self) -> Verdict:
        """Whether the model may be used."""
        return judge(
            self.estimate,
            self.tests,
            fit=self.fit,
            cross_validation=self.cross_validation,
            limits=self.limits,
        )

    @cached_property
    def std_after(self) -> Array | None:
        """Standard deviations of the base parameters after one more log.

        None where no motion can be designed.
        """
        found = self.estimate
        return std_after(found.robot, found.base, found.covariance, found.sigma, MORE)

    @cached_property
    def certificate(self) -> Certificate | None:
        """Of the model; None where a parameter is unknown."""
        try:
            return self.estimate.certificate
        except MinidynError:
            return None


MORE = 20.0
"""Seconds of the log that is proposed next."""


def options_line(reading: Mapping[str, Any]) -> tuple[str, ...]:
    """Return options that say how logs are read, by their names in Python, as words of the
    shell.
    """
    words: list[str] = []
    for name, value in reading.items():
        option = name.replace("_", "-")
        if isinstance(value, bool):
            words.append(f"--{'' if value else 'no-'}{option}")
        elif value is not None:
            pairs = (
                [f"{key}={unit}" for key, unit in value.items()]
                if isinstance(value, Mapping)
                else value
            )
            words += [
                f"--{option}",
                ",".join(map(str, pairs)) if isinstance(pairs, list | tuple) else str(pairs),
            ]
    return tuple(words)


def changes_line(robot: Robot, changes: Mapping[str, Any] | None = None) -> tuple[str, ...]:
    """Return what was changed about a robot as words of the shell.

    Gravity and mount of options of `md.load`, and the joints that are locked.
    """
    words: list[str] = []
    for name in ("gravity", "mount"):
        if name in (changes or {}):
            words += [f"--{name}", ",".join(f"{number!r}" for number in (changes or {})[name])]
    for name, value in (changes or {}).get("xacro_args", {}).items():
        words += ["--xacro-arg", f"{name}={value}"]
    for joint, position in robot.locked_joints.items():
        words += ["--lock", f"{joint}={position!r}"]
    return tuple(words)


def places_of(
    estimate: Estimate,
    path: str | Path | None = None,
    logs: tuple[str, ...] = (),
    reading: Mapping[str, Any] = MappingProxyType({}),
) -> Places:
    """Return where the files of an estimate are: its own, where it was read from one, and its
    robot's.
    """
    described = estimate.base.robot
    known = described.name if described.name in robots() else ""
    robot = described.source if os.path.isfile(described.source) else known  # false for any text
    folder = "" if path is None else str(Path(path).parent)
    folder = folder if _model_file(estimate, Path(folder)) else ""
    return Places(
        robot,
        logs,
        folder,
        "" if path is None else str(path),
        options_line(reading),
        changes_line(described),
    )


def identify_command(facts: Facts, *options: str) -> str:
    """Return how to identify again with other options."""
    places = facts.places
    words = (*(places.logs or ("LOG",)), *places.changes, *places.reading, *options)
    return _line("identify", places.robot or "ROBOT", *words)


def report_command(facts: Facts) -> str:
    """Return how to test the model on another log."""
    estimate = facts.places.estimate or _inside(facts, "estimate.json") or "estimate.json"
    return _line(
        "report", estimate, "other-log.csv", *facts.places.reading, "--output", "report.html"
    )


def excite_command(facts: Facts) -> str:
    """Return how to design the motion that adds most to what is known."""
    estimate = facts.places.estimate or _inside(facts, "estimate.json") or "estimate.json"
    words = ("--duration", f"{MORE:g}", "--after", estimate, "--output", "next-motion")
    return _line("excite", facts.places.robot or "ROBOT", *facts.places.changes, *words)


def generate_command(facts: Facts) -> str:
    """Return how to write C code; from Python where no file of the robot is known."""
    name = _model_file(facts.estimate, Path(facts.places.folder))
    robot = _inside(facts, name or file_name("toml", facts.estimate.robot.name))
    if not robot:
        return 'estimate.export("model")'
    return _line("generate", robot, "inverse_dynamics", "--target", "c", "--output", "code")


def _model_file(estimate: Estimate, folder: Path) -> str:
    """Return the name of the model's TOML file in a folder, "" where there is none.

    Earlier versions called it robot.toml.
    """
    names = (file_name("toml", estimate.robot.name), "robot.toml")
    return next((name for name in names if (folder / name).is_file()), "")


def command_line(text: str) -> Html:
    """Return a command with a button that copies it, where scripts run."""
    button = tag(
        "button",
        "Copy",
        type="button",
        class_="copy screen-only",
        hidden=True,
        aria_label=f"Copy: {text}",
    )
    return tag("span", tag("code", text), button, class_="command")


def _inside(facts: Facts, name: str) -> str:
    return str(Path(facts.places.folder) / name) if facts.places.folder else ""


def _line(*words: str) -> str:
    return visible(shlex.join(["minidyn", *words]))


def std_after(
    robot: Robot, base: BaseMap, covariance: Array, sigma: Array, duration: float
) -> Array | None:
    """Return the standard deviations (b,) after one more log of a plain motion.

    None where that cannot be said. The motion is the best of a few random ones within the limits of
    position and speed.

    Args:
        robot: The robot with its parameters.
        base: Its base parameters.
        covariance: Of them (b, b), now.
        sigma: Noise of the torques (n,).
        duration: Seconds of the log, of 100 samples each.
    """
    follows = any(joint.follows is not None and joint.follows.formula for joint in robot.joints)
    if robot.loops or follows or not np.all(np.isfinite(covariance)) or not np.all(sigma > 0):
        return None
    filled = base.robot.with_parameters(
        np.nan_to_num(robot.parameters)
    )  # loads that friction grows with
    size = np.sqrt(np.diag(covariance))
    before = np.linalg.pinv(covariance / np.outer(size, size), hermitian=True)
    t, best = (np.arange(_LOG) + 0.5) * _PERIOD / _LOG, None
    for seed in range(_PLAIN):
        Y = base_regressor(
            filled, *fourier(filled, seed=seed, period=_PERIOD, speed=_SPEED)(t), base=base
        )
        W = (Y / sigma[:, None]).reshape(-1, base.rank) * size
        F = before + _RATE * duration / _LOG * (W.T @ W)
        found = np.linalg.slogdet(F)[1]
        if best is None or found > best[0]:
            best = found, F
    return None if best is None else np.asarray(size * np.sqrt(np.diag(np.linalg.inv(best[1]))))
