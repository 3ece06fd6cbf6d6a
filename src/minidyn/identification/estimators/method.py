"""What an estimator is: its record, what it is given beside the data, and what it hands back."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from minidyn.arrays import Array
from minidyn.base.base_map import BaseMap
from minidyn.model.robot import Robot
from minidyn.notices import Notice

if TYPE_CHECKING:
    from minidyn.control.controller import Controller


Fold = tuple[Array, Array, Array, Array, float]
"""R and z of the training part, R, z and the rest of the held-out part, all weighted by the noise."""


@dataclass(frozen=True, eq=False)
class Options:
    """What an estimator may use beside robot, base parameters and recording.

    Attributes:
        threads: For the reduction of large recordings.
        progress: Called with the number of samples reduced.
        controller: What drove the robot, for the methods that simulate it; None: unknown.
        allow_open: Parameters that no sample shows are left open (a prior will decide) instead of refused.
    """

    threads: int = 1
    progress: Callable[[int], None] | None = None
    controller: Controller | None = None
    allow_open: bool = False


@dataclass(frozen=True, eq=False)
class Solution:
    """Base parameters as one estimator sees them, and the quadratic form that says how well the data know them.

    ‖R beta - z‖² + rest is what the data say against other base parameters, in variances of independent noise: samples
    that repeat each other have been counted once. The physically consistent model is the one with the least of it.

    Attributes:
        beta: Base parameters (b,).
        covariance: Of beta (b, b).
        sigma: Standard deviation of each joint's residual torque (n,), N m or N.
        condition: Condition number of the problem, columns scaled.
        R: (b, b) triangle.
        z: (b,).
        rest: Misfit that no parameters explain.
        folds: Makes the same forms for stretches of time, to choose the weight of a prior.
        notices: What a reader should know.
        settings: What was chosen, for records.
    """

    beta: Array
    covariance: Array
    sigma: Array
    condition: float
    R: Array
    z: Array
    rest: float
    folds: Callable[[], list[Fold]]
    notices: tuple[Notice, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Method:
    """One way from a prepared recording to base parameters.

    Attributes:
        name: As `md.identify` takes it.
        description: What it does, a few words for help texts.
        solve: From a robot, its base parameters, a recording and options to a solution.
        needs_acceleration: Whether it reads ddq; else q, dq and tau suffice.
        streams_from: Samples from which a recording on disk is read piece by piece; 0: always; infinite: never.
        takes_controller: Whether it simulates the robot under the controller that drove it.
        simulates_torque: Whether, given a controller, it compares the torque of that simulation.
        filters_columns: Whether the regressor passes a low-pass like that of the torque.
    """

    name: str
    description: str
    solve: Callable[[Robot, BaseMap, Any, Options], Solution]
    needs_acceleration: bool = True
    streams_from: float = math.inf
    takes_controller: bool = False
    simulates_torque: bool = False
    filters_columns: bool = False

    @property
    def streams(self) -> bool:
        """Whether recordings on disk, at least long ones, are read piece by piece."""
        return math.isfinite(self.streams_from)
