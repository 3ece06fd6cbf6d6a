"""What a report is about, gathered from results once, and the limits by which it judges."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from minidyn.errors import MinidynError
from minidyn.identification.consistency.certificate import Certificate
from minidyn.identification.estimate import Estimate
from minidyn.identification.validate import Validation
from minidyn.recording.recording import Recording

if TYPE_CHECKING:
    from minidyn.excitation.one_joint_plan import Plan
    from minidyn.identification.cross_validate import CrossValidation
    from minidyn.simulation.case_study import CaseStudy

ERROR_GOOD = 0.10
"""Error on test data up to which a model is called good, a share of the torque."""
ERROR_POOR = 0.30
"""Error beyond which it should not be used."""
CONDITION_GOOD = 200.0
"""Condition number up to which excitation is called good."""
WEAK = 0.3
"""Relative standard deviation beyond which a parameter is called weak."""


@dataclass(frozen=True)
class Places:
    """Where files are, for commands that can be copied; empty where it is not known."""

    robot: str = ""  # name or file of the robot that was identified
    logs: tuple[str, ...] = ()  # that were fitted
    folder: str = ""  # of estimate.json and robot.toml


@dataclass(frozen=True, eq=False)
class Facts:
    """Everything the sections read."""

    estimate: Estimate
    tests: Mapping[str, Validation]  # its errors on test data (runs it was not fitted to), by name
    fit: Validation | None = None  # its errors on the data it was fitted to; None where they were not given
    # errors on parts of the log that were held out of the fit, one after the other
    cross_validation: CrossValidation | None = None
    plan: Plan | None = None  # experiments with one joint at a time
    one_joint: Estimate | None = None  # what they gave
    case_study: CaseStudy | None = None  # adaptive control with an unknown load
    details: Mapping[str, Any] = field(default_factory=dict)  # further lines of the record: files, hashes, commands
    code: bool = True  # whether to count operations and measure the speed of the generated functions

    places: Places = Places()

    @property
    def runs(self) -> Iterator[tuple[str, str, Validation]]:
        """(key, name, errors) of each run: test data first, then the fitted data."""
        for k, (name, run) in enumerate(self.tests.items()):
            yield f"run{k}", f"{name} (test data)", run
        if self.fit is not None:
            yield "fit", "fitted data", self.fit

    @property
    def motion(self) -> Recording | None:
        """The fitted motion with speeds and accelerations, of a log on disk some samples; None: not known."""
        return None if self.fit is None else self.fit.motion

    @property
    def test_error(self) -> float | None:
        """The error on test data: of the worst run, or of cross-validation; None: not known."""
        if self.tests:
            return float(np.max([run.relative_error for run in self.tests.values()]))  # not a number counts as worst
        return None if self.cross_validation is None else self.cross_validation.relative_error

    @cached_property
    def certificate(self) -> Certificate | None:
        """Of the model; None where a parameter is unknown."""
        try:
            return self.estimate.certificate
        except MinidynError:
            return None
