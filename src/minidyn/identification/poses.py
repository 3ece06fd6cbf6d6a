"""Gravity-only identification: poses at rest identify the parameters of gravity (Lin1994 Theorem 4).

A log of poses holds nothing of speeds and accelerations: each pose is one sample, the means of its
positions and torques.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from minidyn.arrays import Array
from minidyn.base.base_map import BaseMap
from minidyn.base.base_parameters import base_parameters
from minidyn.errors import MinidynError, Unsupported
from minidyn.identification.estimate import Estimate
from minidyn.identification.estimators.method import Method, Options
from minidyn.model.robot import Robot
from minidyn.notices import Notice, look
from minidyn.recording.recording import Recording

AT_REST = look(
    "identify.at_rest",
    "The log holds poses at rest only: they identify the parameters of gravity, nothing of inertia and friction.",
    "The estimate predicts torques at rest. Record motions to identify the rest. Approach each pose from both sides, "
    "so that friction cancels in the mean.",
)

_METHODS = ("wls", "ols", "irls")


def identify_poses(
    robot: Robot,
    poses: Recording,
    method: Method,
    base: BaseMap | None,
    options: Options,
    before: Sequence[Notice] = (),
) -> Estimate:
    """Return the parameters of gravity from poses at rest.

    Standard parameters that poses do not show are those of the robot; NaN where it does not know them.

    Implements: Lin1994 Theorem 4, identification of the gravity load.
    """
    if method.name not in _METHODS:
        raise Unsupported(f'the log holds poses at rest only; method {method.name!r} needs motion: use "wls"')
    model = robot.with_drives(False, ()) if base is None else base.robot.with_parameters(robot.parameters)
    base = base_parameters(model, model="gravity") if base is None else base
    if base.rank == 0:
        raise MinidynError(f"the log holds poses at rest only, and gravity loads no joint of robot {robot.name!r}")
    if len(poses) * robot.n < 2 * base.rank:
        raise MinidynError(
            f"{len(poses)} poses at rest are too few for {base.rank} parameters of gravity; record at least "
            f"{2 * base.rank // robot.n + 1}, better ten times as many"
        )
    found = method.solve(model, base, poses, options)
    text = (
        f"the log holds {len(poses)} poses at rest: they identify the {base.rank} parameters of gravity; inertia and "
        "friction are not identified"
    )
    notices: list[Notice] = [*before, *poses.notices, AT_REST(text, poses=len(poses), rank=base.rank), *found.notices]
    fitted = replace(model.with_parameters(_own(base, found.beta, model)), notices=())
    settings = {"method": method.name, "model": "gravity", "samples": len(poses), **found.settings}
    return Estimate(
        fitted,
        base,
        found.beta,
        found.covariance,
        found.sigma,
        method.name,
        False,
        found.condition,
        len(poses),
        tuple(notices),
        settings,
    )


def _own(base: BaseMap, beta: Array, robot: Robot) -> Array:
    """Return standard parameters with these base values, all others as the robot has them."""
    phi = np.array(robot.parameters)
    regrouped, kept = (list(robot.layout.indices(names)) for names in (base.regrouped, base.kept))
    phi[[*kept, *regrouped]] = base.lift(beta, np.nan_to_num(phi[regrouped]))[[*kept, *regrouped]]
    return phi
