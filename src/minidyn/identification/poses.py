"""Poses at rest: a log that holds nothing of speeds and accelerations.

It identifies the parameters of gravity alone (Lin1994 Theorem 4), each pose as one sample, the
means of its positions and torques.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from minidyn.arrays import Array
from minidyn.base.base_map import BaseMap
from minidyn.errors import MinidynError, Unsupported
from minidyn.identification.estimate import Estimate
from minidyn.identification.estimators.method import Options
from minidyn.identification.estimators.methods import METHODS
from minidyn.identification.inputs import Log
from minidyn.identification.rows.base_rows import fitted_base, observing
from minidyn.identification.settings import Settings
from minidyn.model.robot import Robot
from minidyn.notices import Notice, warning

AT_REST = warning(
    "identify.at_rest",
    "The log holds poses at rest only: they identify the parameters of gravity, nothing of "
    "inertia and friction.",
    "The estimate predicts torques at rest. Record motions to identify the rest. Approach each "
    "pose from both sides, so that friction cancels in the mean.",
)

_METHODS = ("wls", "ols", "irls")


def identify_poses(
    log: Log, base: BaseMap | None, settings: Settings, options: Options
) -> Estimate:
    """Return the parameters of gravity from poses at rest.

    Standard parameters that poses do not show are those of the robot; NaN where it does not know
    them.

    Implements: Lin1994 Theorem 4, identification of the gravity load.
    """
    method, poses = METHODS[settings.method], log.poses
    if poses is None:
        raise MinidynError("the log holds motion: it has no poses at rest")
    robot = log.robot.with_measured_torques(log.measured)
    if method.name not in _METHODS:
        raise Unsupported(
            f'the log holds poses at rest only; method {method.name!r} needs motion: use "wls"'
        )
    model = (
        robot.with_drives(False, ())
        if base is None
        else base.robot.with_parameters(robot.parameters)
    )
    model = model.with_measured_torques(robot.torques_measured)
    base = (
        fitted_base(model, "gravity") if base is None else observing(base, robot.torques_measured)
    )
    if base.rank == 0:
        raise MinidynError(
            f"the log holds poses at rest only, and gravity loads no joint of robot {robot.name!r}"
        )
    if len(poses) * robot.n < 2 * base.rank:
        raise MinidynError(
            f"{len(poses)} poses at rest are too few for {base.rank} parameters of gravity; "
            f"record at least {2 * base.rank // robot.n + 1}, better ten times as many"
        )
    found = method.solve(model, base, poses, options)
    text = (
        f"the log holds {len(poses)} poses at rest: they identify the {base.rank} parameters of "
        "gravity; inertia and friction are not identified"
    )
    notices: list[Notice] = [
        *log.notices,
        *poses.notices,
        AT_REST(text, poses=len(poses), rank=base.rank),
        *found.notices,
    ]
    fitted = replace(model.with_parameters(_own(base, found.beta, model)), notices=())
    fitted = fitted.with_measured_torques(None)
    base = observing(base, None)
    record = {"method": method.name, "model": "gravity", "samples": len(poses), **found.record}
    numbers = found.beta, found.covariance, found.sigma
    return Estimate(
        fitted,
        base,
        *numbers,
        method.name,
        False,
        found.condition,
        len(poses),
        tuple(notices),
        record,
    )


def _own(base: BaseMap, beta: Array, robot: Robot) -> Array:
    """Return standard parameters with these base values, all others as the robot has them."""
    phi = np.array(robot.parameters)
    regrouped, kept = (list(robot.layout.indices(names)) for names in (base.regrouped, base.kept))
    phi[[*kept, *regrouped]] = base.lift(beta, np.nan_to_num(phi[regrouped]))[[*kept, *regrouped]]
    return phi
