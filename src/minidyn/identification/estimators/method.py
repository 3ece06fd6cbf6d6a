"""What an estimator is: its record, what it is given beside the data, and what it hands back."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from minidyn.arrays import Array
from minidyn.base.base_map import BaseMap
from minidyn.identification.rows.triangles import Triangles
from minidyn.model.robot import Robot
from minidyn.notices import Notice

if TYPE_CHECKING:
    from minidyn.control.controller import Controller
    from minidyn.recording.lazy import AnyRecording
    from minidyn.recording.recording import Recording


DESCRIPTIONS = {
    "ols": "ordinary least squares",
    "wls": "least squares, each joint weighted by its own noise",
    "irls": "weighted least squares in which outliers count less",
    "parallel": "regressor and torque after one low-pass",
    "tls": "total least squares: noise in the regressor, too",
    "iv": "instruments from simulated states, and a test whether least squares is biased",
    "didim": "torque of a simulation in closed loop",
    "filtered": "without accelerations: torque after a low-pass",
    "momentum": "without accelerations: momentum over windows",
    "energy": "without accelerations: energy over windows, one row instead of one a joint",
    "one-joint": "runs in which one joint moves at a time (minidyn plan), serial chains",
}
"""What each estimator does, for help texts, which read this table from the source."""

Fold = tuple[Array, Array, Array, Array, float]
"""R and z of the training part, R, z and the rest of the held-out part.

All weighted by the noise.
"""


@dataclass(frozen=True, eq=False)
class Options:
    """What an estimator may use beside robot, base parameters and recording."""

    threads: int = 1  # for the reduction of large recordings
    progress: Callable[[int], None] | None = None  # called with the number of samples reduced
    controller: Controller | None = (
        None  # what drove the robot, for the methods that simulate it; None: unknown
    )
    # parameters that no sample shows are left open (a prior will decide) instead of refused
    allow_open: bool = False
    device: str | None = None  # where recordings are reduced: "cuda" a GPU, None the processor


@dataclass(frozen=True, eq=False)
class Solution:
    """Base parameters as one estimator sees them, and the quadratic form that says how well the
    data know them.

    ‖R beta - z‖² + rest is what the data say against other base parameters, in variances of
    independent noise: samples that repeat each other have been counted once. The physically
    consistent model is the one with the least of it.
    """

    beta: Array  # base parameters (b,)
    covariance: Array  # of beta (b, b)
    sigma: Array  # standard deviation of each joint's residual torque (n,), N m or N
    condition: float  # condition number of the problem, columns scaled
    R: Array  # (b, b) triangle
    z: Array  # (b,)
    rest: float  # misfit that no parameters explain
    folds: Callable[
        [], list[Fold]
    ]  # makes the same forms for stretches of time, to choose the weight of a prior
    notices: tuple[Notice, ...] = ()  # what a reader should know
    record: Mapping[str, Any] = field(default_factory=dict)  # what was chosen, for records
    # from base parameters (b,) to the standard deviation of each joint's residual with them (n,);
    # None: not known
    left: Callable[[Array], Array] | None = None
    stretches: tuple[
        Triangles, ...
    ] = ()  # of time, which the folds are made of: rows of each joint
    # part of the covariance (b, b) that other logs of the robot do not share; None: all of it
    log_covariance: Array | None = None

    @property
    def of_log(self) -> Array:
        """The part of the covariance (b, b) that is this log's own."""
        return self.covariance if self.log_covariance is None else self.log_covariance


@dataclass(frozen=True)
class Method:
    """One way from a prepared recording to base parameters."""

    name: str  # as `md.identify` takes it
    # from a robot, its base parameters, a recording and options to a solution
    solve: Callable[[Robot, BaseMap, Any, Options], Solution]
    needs_acceleration: bool = True  # whether it reads ddq; else q, dq and tau suffice
    # samples from which a recording on disk is read piece by piece; 0: always; infinite: never
    streams_from: float = math.inf
    takes_controller: bool = (
        False  # whether it simulates the robot under the controller that drove it
    )
    simulates_torque: bool = (
        False  # whether, given a controller, it compares the torque of that simulation
    )
    filters_columns: bool = False  # whether the regressor passes a low-pass like that of the torque
    needs_all_torques: bool = False  # whether it needs the measured torques of all joints
    remembers: bool = False  # whether it reads the states of drives that remember (presliding)
    # from a robot and its log to what the method reads, where it takes some motions only; None: it
    # takes all
    make_ready: Callable[[Robot, AnyRecording], Recording] | None = None

    @property
    def streams(self) -> bool:
        """Whether recordings on disk, at least long ones, are read piece by piece."""
        return math.isfinite(self.streams_from)
