"""The table of estimators, and those of least squares."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np

from minidyn.base.base_map import BaseMap
from minidyn.errors import Unsupported
from minidyn.identification.estimators.acceleration_free import ENERGY, FILTERED, MOMENTUM
from minidyn.identification.estimators.didim import DIDIM
from minidyn.identification.estimators.folds import time_folds
from minidyn.identification.estimators.instrumental import IV
from minidyn.identification.estimators.least_squares import block_covariance, condition_of, fit
from minidyn.identification.estimators.linear_system import fit_system
from minidyn.identification.estimators.method import Method, Options, Solution
from minidyn.identification.estimators.parallel import PARALLEL
from minidyn.identification.estimators.smooth_states import as_recorded
from minidyn.identification.estimators.total_least_squares import TLS
from minidyn.identification.rows.samples import time_step
from minidyn.identification.rows.state_rows import in_memory, torque_rows
from minidyn.model.robot import Robot


def _least_squares(method: str, robot: Robot, base: BaseMap, recording: Any, options: Options) -> Solution:
    if robot.implicit_loops:
        return _by_rows(method, robot, base, recording, options)
    found = fit(robot, base, recording, method, options.threads, options.progress, options.allow_open)
    covariance, seconds = block_covariance(found, recording, options.progress)
    # what follows takes rows for independent: squares are divided by the memory of the residuals, a tenth of a block
    step = time_step(recording)
    memory = max(1.0, seconds / 10 / step) if step > 0 else 1.0
    R, z, rest = found.problem.weighted(found.sigma * np.sqrt(memory))
    return Solution(
        found.beta,
        covariance,
        found.sigma,
        condition_of(found.R),
        R,
        z,
        rest,
        partial(time_folds, found, recording, memory),
        settings={"block_seconds": seconds},
    )


def _by_rows(method: str, robot: Robot, base: BaseMap, recording: Any, options: Options) -> Solution:
    """Weighted least squares where loops are solved sample by sample: compiled tiles cannot do that."""
    if method != "wls":
        loop = robot.implicit_loops[0].name
        raise Unsupported(
            f'method {method!r}: loop {loop!r} of robot {robot.name!r} is solved sample by sample; use "wls" or '
            "another method, or give its passive joints as formulas in the robot's file"
        )
    whole = in_memory(recording, method)
    found = fit_system(base, torque_rows(robot, base, whole, as_recorded(whole)), options.allow_open)
    if options.progress is not None:
        options.progress(len(whole))
    return found.solution((), {})


OLS, WLS, IRLS = (
    Method(name, words, partial(_least_squares, name), streams_from=0)
    for name, words in (
        ("ols", "ordinary least squares"),
        ("wls", "least squares, each joint weighted by its own noise"),
        ("irls", "weighted least squares in which outliers count less"),
    )
)

METHODS: Mapping[str, Method] = MappingProxyType(
    {method.name: method for method in (OLS, WLS, IRLS, PARALLEL, TLS, IV, DIDIM, FILTERED, MOMENTUM, ENERGY)}
)
"""The estimators by name."""
