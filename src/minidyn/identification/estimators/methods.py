"""The estimators by name: from a robot, its base parameters and a prepared recording to a Solution."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np

from minidyn.base.base_map import BaseMap
from minidyn.errors import Unsupported
from minidyn.identification.estimators.acceleration_free import acceleration_free
from minidyn.identification.estimators.didim import didim
from minidyn.identification.estimators.folds import time_folds
from minidyn.identification.estimators.instrumental import instrumental
from minidyn.identification.estimators.least_squares import block_covariance, condition_of, fit
from minidyn.identification.estimators.linear_system import fit_system
from minidyn.identification.estimators.parallel import parallel
from minidyn.identification.estimators.smooth_states import as_recorded
from minidyn.identification.estimators.solution import Options, Solution
from minidyn.identification.estimators.total_least_squares import total_least_squares
from minidyn.identification.rows.samples import time_step
from minidyn.identification.rows.state_rows import in_memory, torque_rows
from minidyn.model.robot import Robot

Estimator: TypeAlias = Callable[[Robot, BaseMap, Any, Options], Solution]


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


ACCELERATION_FREE: frozenset[str] = frozenset({"filtered", "momentum", "energy"})
"""The methods that read q, dq and tau alone."""

METHODS: Mapping[str, Estimator] = MappingProxyType(
    {name: partial(_least_squares, name) for name in ("ols", "wls", "irls")}
    | {"parallel": parallel, "tls": total_least_squares, "iv": instrumental, "didim": didim}
    | {name: partial(acceleration_free, name) for name in ("filtered", "momentum", "energy")}
)
"""Name of each method and what computes it."""
