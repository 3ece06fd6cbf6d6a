"""Friction that grows with the load: the loads of a model are those of its own parameters.

Columns of load friction are made with loads that are known before the fit, and the fit has loads of
its own: gravity as its parameters give it. So fits are repeated, each with the loads of the one
before, until the loads agree. A physically consistent model has other gravity than plain least
squares where bounds or a prior bind, so that its loads are settled once more, with what makes it
consistent inside the step. Where loads do not settle, the step whose own torques were nearest to
the data counts: what matters is the model that is handed over, not the columns that it was fitted
with.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, NamedTuple, TypeVar

import numpy as np

from minidyn.arrays import Array, rms
from minidyn.dynamics.functions import inverse_dynamics, loads_of_motion
from minidyn.identification.rows.base_rows import Samples
from minidyn.identification.sizes import MAX_FITS
from minidyn.model.drives import FRICTION
from minidyn.model.robot import Robot
from minidyn.notices import Notice, warning

SETTLED = 0.05  # size: of the noise, what loads may change where fits end
SHORTEST_STEP, LONGEST_STEP = 0.2, 3.0  # size: factors of a step of the iteration

UNSETTLED = warning(
    "friction.loads_unsettled",
    "Loads that friction grows with did not settle: each fit gave others.",
    'Identify without the term "load", or record a motion that shows gravity better: slow, '
    "through all of the range.",
)

Made = TypeVar("Made")


class Step(NamedTuple, Generic[Made]):
    """A fit: what was made of the data, with standard parameters (p,) and the noise of each joint
    (n,).
    """

    made: Made
    parameters: Array
    sigma: Array


class Settled(NamedTuple, Generic[Made]):
    """The step whose loads agree with those it was fitted with, or else the best one."""

    made: Made
    doubts: tuple[Notice, ...] = ()  # where loads do not agree


def settle(
    robot: Robot,
    motion: Samples,
    values: Array,
    fit: Callable[[Robot], Step[Made]],
    first: Step[Made] | None = None,
) -> Settled[Made]:
    """Repeat a fit, which takes the robot with the parameters (p,) that its loads are computed
    from, until loads agree.

    The first loads are those of the values; the first fit with them may be known.
    """
    errors, steps, changes = list[float](), list[Made](), list[float]()
    factor, last = 1.0, np.zeros(0)
    for _ in range(MAX_FITS):
        step, first = fit(robot.with_parameters(values)) if first is None else first, None
        change = _load_change(robot, motion, values, step.parameters) / step.sigma
        changes.append(float(rms(change).max()))
        if changes[-1] < SETTLED:
            return Settled(step.made)
        steps.append(step.made)
        errors.append(relative_error(robot, motion, step.parameters))
        # Aitken's rule: steps that swing become shorter, steps that creep longer
        now = change.ravel()
        if last.size:
            bend = now - last
            factor *= -float(last @ bend) / max(float(bend @ bend), 1e-300)
            factor = min(max(factor, SHORTEST_STEP), LONGEST_STEP)
        values, last = values + factor * (step.parameters - values), now
    best = int(np.argmin(errors))
    text = (
        f"loads that friction grows with did not settle in {MAX_FITS} fits: friction still "
        f"changes by {100 * changes[-1]:.3g} % of the noise; the fit with the smallest error, "
        f"{100 * errors[best]:.3g} %, is taken"
    )
    return Settled(steps[best], (UNSETTLED(text, changes=changes, errors=errors),))


def relative_error(robot: Robot, motion: Samples, parameters: Array) -> float:
    """Return ‖tau - torque‖ / ‖tau‖ of parameters (p,) over samples, their loads their own."""
    moved = motion.q, motion.dq, motion.ddq
    residual = motion.tau - inverse_dynamics(robot, *moved, parameters, memory=motion.states)
    return float(np.linalg.norm(residual) / max(float(np.linalg.norm(motion.tau)), 1e-300))


def _load_change(robot: Robot, motion: Samples, before: Array, after: Array) -> Array:
    """Return how much load friction changes between two sets of parameters, sample by sample (N,
    n), N m or N.
    """
    moved = motion.q, motion.dq, motion.ddq
    loads = [np.abs(loads_of_motion(robot, *moved, values)) for values in (before, after)]
    found = np.zeros(motion.q.shape)
    for column in robot.layout.columns:
        if column.symbol == FRICTION["load"] and column.joint in robot.independent:
            change = loads[1][:, column.joint] - loads[0][:, column.joint]
            found[:, robot.independent.index(column.joint)] = after[column.index] * change
    return found
