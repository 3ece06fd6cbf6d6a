"""How well a recording separates the base parameters, and which it hardly shows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from minidyn.arrays import Array, rms
from minidyn.base.base_map import BaseMap
from minidyn.identification.diagnose.advice import advise, torque_rows, workspace_states
from minidyn.identification.diagnose.thresholds import FAIR, LARGE
from minidyn.identification.estimators.method import Solution
from minidyn.identification.estimators.solve import condition_of
from minidyn.identification.rows.base_rows import (
    Samples,
    has_motion,
    shown_parameters,
    steady_regressor,
)
from minidyn.identification.verdict import Limits
from minidyn.model.drives import BY_SYMBOL
from minidyn.model.robot import Robot
from minidyn.notices import Notice, info, warning
from minidyn.recording.lazy import AnyRecording

SAMPLES = 4000  # size: samples that show the torque of a parameter
MAX_UNKNOWN_TORQUE = 0.03
"""Standard deviation of the torque over the workspace, over its size, up to which it is known."""
MAX_CONDITION = 1e5
"""Beyond it some parameter is not shown at all, alone or with others."""

POOR = warning(
    "identify.poor_excitation",
    "The recorded motion hardly separates some parameters.",
    "Record a motion in which these joints move against each other, faster and further. Several "
    "short runs with different motions may be given together.",
)
ALIKE = info(
    "identify.friction_terms_alike",
    "Friction terms of one joint act alike in the motion: their sum is known, each alone is not.",
    "The friction of a joint as a whole is known, so that torques are predicted well. Do not read "
    "its terms one by one; fewer of them are easier to read: identify with --friction "
    "viscous,coulomb,offset.",
)
UNEVEN = info(
    "identify.uneven_excitation",
    "The recorded motion hardly separates some parameters, but it shows the torques of all motions "
    "well: what is open hardly acts.",
    "Do not read these parameters as properties of the robot; their torques are known.",
)
WEAK = info(
    "identify.weakly_determined",
    "Parameters whose standard deviation is a large part of their value; for small ones, of the "
    "value that would make up a tenth of a joint's torque.",
    "The motion hardly shows these parameters, so do not read their values as properties of the "
    "robot. Torques of similar motions are still predicted well; for other motions record a "
    "richer one.",
)
MOTION = info(
    "identify.helpful_motion",
    "The motion that would lower the uncertainty of predicted torques most.",
    "Record {motion}.",
)


def condition_together(base: BaseMap, solution: Solution, shown: NDArray[np.bool_]) -> float:
    """Return the condition number with the friction terms of each joint as one.

    It is that of the parameters (b,) that can be `shown`. Friction terms are made orthogonal first:
    viscous, Coulomb and square-root friction rise alike with speed. That they are hard to tell
    apart says nothing about the motion. Terms of position or load are not taken together, nor terms
    that the motion does not show at all.
    """
    if base.rows is not None or not solution.condition < MAX_CONDITION:
        return solution.condition
    R, groups = solution.R.copy(), dict[int, list[int]]()
    for place, name in enumerate(base.kept):
        column = base.robot.layout.column(name)
        if shown[place] and column.is_friction and not BY_SYMBOL[column.symbol].of_position:
            groups.setdefault(column.joint, []).append(place)
    for places in groups.values():
        R[:, places] = np.linalg.qr(R[:, places])[0]
    return condition_of(R[:, shown])


def with_shown_condition(robot: Robot, base: BaseMap, solution: Solution) -> Solution:
    """Return a solution with the condition number of what the measured torques can show."""
    if all(robot.torques_measured):
        return solution
    return replace(solution, condition=condition_of(solution.R[:, shown_parameters(robot, base)]))


def relative_deviations(
    robot: Robot, base: BaseMap, solution: Solution, data: AnyRecording
) -> Array:
    """Return the relative standard deviation of each base parameter (b,), infinite where no sample
    shows it.

    A parameter near zero is known well enough where its uncertainty hardly moves the torque, so
    that a value that makes up a tenth of a joint's torque replaces its own where that is larger.
    """
    size = np.linalg.norm(solution.R, axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        value = np.fmax(np.abs(solution.beta), LARGE / _effects(robot, base, data))
        relative = np.sqrt(np.diag(solution.covariance)) / value
    return np.where((size > 0) & np.isfinite(relative), relative, np.inf)


def _effects(robot: Robot, base: BaseMap, data: AnyRecording) -> Array:
    """Return the torque of each parameter of value one (b,), over the joint's torque where that is
    most (rms); infinite where the data hold no accelerations.
    """
    if not has_motion(data):
        return np.full(base.rank, np.inf)
    some = Samples.all_of(next(iter(data.tiles(SAMPLES))))
    Y = steady_regressor(robot, base, *some.motion)
    torque = rms(some.tau)
    return np.asarray(np.fmax.reduce(rms(Y) / torque[:, None]))


def _is_known_everywhere(robot: Robot, base: BaseMap, solution: Solution) -> bool:
    """Say whether the torques of motions all through the workspace follow from the data."""
    if robot.implicit_loops or robot.formulas or not np.isfinite(solution.covariance).all():
        return False
    rows = torque_rows(robot, base, *workspace_states(robot), np.ones(robot.n))
    Y = rows.reshape(-1, robot.n, base.rank)
    variance = np.einsum("nib,bc,nic->i", Y, solution.covariance, Y)
    limit = MAX_UNKNOWN_TORQUE**2 * np.sum((Y @ solution.beta) ** 2, axis=0)
    return bool(np.all(variance <= limit))


def excitation_notices(
    robot: Robot, base: BaseMap, solution: Solution, data: AnyRecording
) -> list[Notice]:
    """Return what a reader should know about the motion.

    Poor, which parameters are weak, what would help.
    """
    notices: list[Notice] = []
    if solution.condition > Limits.condition:
        notices.append(_poor(robot, base, solution))
    relative, shown = (
        relative_deviations(robot, base, solution, data),
        shown_parameters(robot, base),
    )
    weak = [base.names[k] for k in np.argsort(-relative) if relative[k] > FAIR and shown[k]]
    if weak:
        first = ", ".join(weak[:6]) + (f" and {len(weak) - 6} more" if len(weak) > 6 else "")
        text = (
            f"weakly determined (standard deviation above {100 * FAIR:g} % of the value; small "
            f"ones by their torque): {first}"
        )
        notices.append(WEAK(text, parameters=weak))
    is_loose = np.sqrt(np.diag(solution.covariance)) > FAIR * np.abs(solution.beta)
    return notices + (_motion(robot, base, solution) if notices or is_loose.any() else [])


def _poor(robot: Robot, base: BaseMap, solution: Solution) -> Notice:
    """Return what the condition number says of the motion."""
    shown = shown_parameters(robot, base)  # no motion shows the others to the torques measured
    sizes = np.linalg.norm(solution.R[:, shown], axis=0)  # zero for what no motion shows
    _, _, V = np.linalg.svd(solution.R[:, shown] / np.where(sizes > 0, sizes, 1.0))
    names = np.array(base.names)[shown][np.argsort(-np.abs(V[-1]))[:3]].tolist()
    together = condition_together(base, solution, shown)
    hardly = f"the motion hardly separates {', '.join(names)}"
    number = f"condition number {solution.condition:.3g}"
    if together <= Limits.condition:
        text = (
            f"{hardly} ({number}; {together:.3g} with the friction of each joint taken as a whole)"
        )
        return ALIKE(text, condition=together, parameters=names)
    if _is_known_everywhere(robot, base, solution):
        known = f"{100 * MAX_UNKNOWN_TORQUE:g} %"
        text = f"{hardly} ({number}), but the torques of all motions are known to {known}"
        return UNEVEN(text, condition=solution.condition, parameters=names)
    text = f"excitation is poor: {number} (good: below {Limits.condition:g}); {hardly}"
    return POOR(text, condition=solution.condition, parameters=names)


def _motion(robot: Robot, base: BaseMap, solution: Solution) -> list[Notice]:
    """Return the motion that would help most."""
    advice = advise(robot, base, solution.R, solution.sigma)
    if advice is None or not LARGE * advice.before > 1.0:  # noise is no small part of it
        return []
    now = f"by {advice.before:.2g} times its noise" if advice.before < 1e4 else "without bound"
    text = (
        f"most would be gained by {advice.motion}. The weakest combination "
        f"({', '.join(advice.names)}) spreads the predicted torque {now}; after such a run by "
        f"{advice.after:.2g} times"
    )
    moving = [robot.joint_names[joint] for joint in advice.joints]
    spread = {"before": advice.before, "after": advice.after}
    return [MOTION(text, motion=advice.motion, joints=moving, **spread)]
