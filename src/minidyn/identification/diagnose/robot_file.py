"""Where a log, or the consistent model of it, is not that of the robot's file."""

from __future__ import annotations

import math

import numpy as np

from minidyn.arrays import Array, rms
from minidyn.base.numeric.samples import units_of
from minidyn.dynamics.functions import gravity_of_links, inertias_of_links, torques_of_links
from minidyn.identification.diagnose.causes import Cause, likely_causes
from minidyn.identification.diagnose.thresholds import FAR, HALF, LARGE, MOST
from minidyn.identification.diagnose.torque_scales import (
    MASS,
    ComparedLog,
    TorqueScale,
    compared,
    differs,
    sampled,
    torque_scales,
)
from minidyn.identification.rows.base_rows import signals_of
from minidyn.model.parameters import realizability
from minidyn.model.robot import Robot
from minidyn.notices import Notice, error, info, warning
from minidyn.recording.lazy import AnyRecording
from minidyn.text import percent

SCALE = error(
    "signals.torque_scale",
    "A joint's torques are not those of the robot's file: another unit, motor currents, or a "
    "wrong gear ratio.",
    "Causes, the best explanation first: {causes}. "
    "Check the unit of the torques: --units tau=mNm says it; drive_gain and gear_ratio of a "
    "mapping file (--mapping) are for currents and the motor side. Where the log is right, the "
    "masses of the robot's file are wrong: identify with prior=False (--prior none).",
)
CAUSE = error(
    "signals.other_cause",
    "The log is not that of the robot's file, and a scale of torques is not the reason: times, an "
    "encoder's offset, gravity, joints or signs are not what they are taken for.",
    "Causes, the best explanation first: {causes}. Check what the first one names: the unit of the "
    "time column, offsets and signs of the mapping file (--mapping), the mounting of the robot, "
    "the order of the columns. Where the log is right, the robot's file is wrong: identify with "
    "prior=False (--prior none).",
)
UNLIKE = error(
    "signals.unlike_file",
    "The robot's file explains the torques of no joint, and no single cause does: the log is of "
    "another robot, or several things are wrong at once.",
    "Causes, the best explanation first: {causes}. Check that robot file and log belong together, "
    "then units, order and signs of the columns. Where the log is right, the robot's file is "
    "wrong: identify with prior=False (--prior none).",
)
CHECKED = info(
    "signals.scale_checked",
    "To what share the scale of the torques was checked against the robot's file.",
)
COMPUTED = warning(
    "signals.computed",
    "The robot's file explains the torques to 0.1 % without any friction: they seem to be computed "
    "from it, not measured.",
    "Record measured torques or currents: a model that is fitted to computed torques is the robot "
    "file again.",
)
WEIGHT = error(
    "signals.mass",
    "The model's total mass, inertia or gravity moments are far from those of the robot's file, "
    "or from what a robot of its size can weigh.",
    "Check the unit of the torques, the gear ratios and the cut-off of the low-pass, and weigh "
    "what you can. Where the robot's file is wrong, identify with prior=False (--prior none).",
)
NOTHING = info(
    "signals.nothing_to_compare",
    "Torques of some joints hardly show known masses, so that nothing says whether their unit is "
    "right.",
    "Compare the masses of the model with what you know of the robot: amperes or a wrong gear "
    "ratio scale all of them.",
)

COMPUTED_ERROR = 1e-3
"""Of the torque: the file leaves no more of torques that were computed from it."""
MAX_DENSITY = 3000.0
"""kg/m³ of a cube of the robot's length scale for each link. Built-in robots have 3 to 600."""
UNITS = {"mNm (or Nmm)": 1e3, "Ncm": 1e2, "inch pounds (lbf in)": 8.851, "kNm": 1e-3}
"""formula: of each unit in one N m."""
POSES = 50  # size: at which inertias are compared


def file_notices(
    robot: Robot, recording: AnyRecording, known: Array | None, model: Array | None
) -> list[Notice]:
    """Return what differs between a log, a consistent model of it (p,), where there is one, and
    known parameters of the robot (p,).
    """
    found = scale_notices(robot, recording, known)
    if model is None or any(notice.code == CAUSE.code for notice in found):
        return found
    return [*found, *mass_notices(robot, recording, known, model)]


def scale_notices(robot: Robot, recording: AnyRecording, known: Array | None) -> list[Notice]:
    """Return a notice for each joint whose torques are not those of prior parameters, as for
    `torque_scales`, or one that names the cause where a scale of torques is not the reason.
    """
    scales = torque_scales(robot, recording, known)
    wrong = [scale for scale in scales if scale.wrong]
    contradicts = any(scale.contradicts for scale in scales)
    log, causes, notices = _whole(robot, recording, known), list[Cause](), list[Notice]()
    if log is not None and known is not None:
        causes = likely_causes(robot, log, known, contradicts, len(wrong) > 1)
        notices += _computed(robot, log, known)
    words = _in_words(causes)
    best = causes[0] if causes and causes[0].kind != "scale" else None
    if best is not None and (best.convinces or (wrong and best.is_large)):
        text = (
            f"the log is not that of the robot's file: {best.text} explains "
            f"{percent(best.explained)} of the difference"
        )
        return [CAUSE(text, cause=best.kind, explained=best.explained, causes=words)]
    share = max((scale.explained for scale in scales if scale.known), default=1.0)
    if contradicts and share < MOST:
        text = (
            "the log is not that of the robot's file, which explains at most "
            f"{percent(share)} of the torque of any joint, rotors and friction apart"
        )
        return [UNLIKE(text, explained=share, causes=words)]
    notices += [_scale_notice(robot, scale, wrong, words) for scale in wrong] or _checked(scales)
    return notices + _unchecked(scales)


def _whole(robot: Robot, recording: AnyRecording, known: Array | None) -> ComparedLog | None:
    """Return what is compared with the whole robot; None where a link is not known."""
    if known is None or not all(np.isfinite(known[part]).all() for part in robot.layout.links):
        return None
    return compared(robot, recording, known)


def _scale_notice(
    robot: Robot, scale: TorqueScale, wrong: list[TorqueScale], causes: str
) -> Notice:
    unit = _likely_unit(robot, scale, [other.factor for other in wrong])
    text = (
        f"{scale.joint}: measured torques are {scale.factor:.3g} ± {scale.std:.2g} times "
        f"those of the robot's file: {unit}?"
    )
    numbers = {"factor": scale.factor, "std": scale.std}
    return SCALE(text, joint=scale.joint, **numbers, unit=unit, causes=causes)


def _unchecked(scales: list[TorqueScale]) -> list[Notice]:
    """Return a notice of joints whose torques show no known masses."""
    unknown = [scale.joint for scale in scales if not scale.known]
    if not unknown:
        return []
    text = f"the unit of the torques of {', '.join(unknown)} could not be checked: they hardly show known masses"  # noqa: E501
    if len(unknown) == len(scales):
        text = (
            "the unit of the torques could not be checked: too little is known of the robot's "
            "masses"
        )
    return [NOTHING(text, joints=unknown)]


def _checked(scales: list[TorqueScale]) -> list[Notice]:
    """Return a notice that says how far the scale of the torques was checked."""
    known = [scale for scale in scales if scale.known and scale.explained >= MOST]
    if not known:
        return []
    best = min(scale.within for scale in known)
    # what may be further off is not checked, but for the best of all
    checked = [scale for scale in known if scale.within <= max(HALF, best)]
    within = math.ceil(20 * max(scale.within for scale in checked)) / 20
    names = [scale.joint for scale in checked]
    text = (
        f"the scale of the torques of {', '.join(names)} was checked to within ±{percent(within)} "
        "against the robot's file"
    )
    others = [scale.joint for scale in scales if scale not in checked]
    return [CHECKED(text, joints=names, within=within, others=others)]


def _computed(robot: Robot, log: ComparedLog, known: Array) -> list[Notice]:
    """Return a notice where torques seem to be computed from the robot's file."""
    residual, total = log.tau - torques_of_links(robot, log.motion, known), np.sum(log.tau**2)
    rotors = log.motion[2] / np.maximum(np.linalg.norm(log.motion[2], axis=0), 1e-300)
    residual -= rotors * np.sum(rotors * residual, axis=0)  # rotors are no friction
    share = math.sqrt(float(np.sum(residual**2)) / total) if total > 0 else math.inf
    if not share <= COMPUTED_ERROR:
        return []
    text = f"the robot's file explains the torques to {percent(share)} without any friction"
    return [COMPUTED(text, error=share)]


def _in_words(causes: list[Cause]) -> str:
    """Return causes with what they explain, those that explain something."""
    known = [cause for cause in causes if cause.explained > LARGE]
    words = ", ".join(f"{cause.text}: {percent(cause.explained)}" for cause in known[:4])
    return words or "none of those that were tried"


def _likely_unit(robot: Robot, scale: TorqueScale, factors: list[float]) -> str:
    """Return in words what may be wrong with the torques."""
    common = float(np.exp(np.mean(np.log(np.abs(factors))))) if all(factors) else abs(scale.factor)
    if scale.factor < 0 and differs(-scale.factor):
        return f"amperes of the opposite sign (drive gain about {1 / scale.factor:.2g} N m/A)"
    if scale.factor < 0:
        return "the opposite sign, or gravity of another direction"
    for unit, size in UNITS.items():
        if not differs(common / size):
            return unit
    ratio = abs(robot.joints[robot.joint_index(scale.joint)].drive.gear_ratio)
    if ratio != 1 and not differs(scale.factor * ratio):
        return f"torques on the motor side (gear ratio {ratio:g})"
    if scale.factor < 1:
        return (
            f"amperes (drive gain about {1 / scale.factor:.2g} N m/A), or a gear ratio that is "
            "too small"
        )
    return "a drive gain or gear ratio that is too large, or a load that the file does not know"


def _largest_inertia(robot: Robot, q: Array, parameters: Array) -> float:
    """Return the largest inertia that a joint moves, mean over positions, rotors apart."""
    inertias = np.diagonal(inertias_of_links(robot, q, parameters), axis1=-2, axis2=-1)
    return float(np.max(np.mean(inertias, axis=0)))


def mass_notices(
    robot: Robot, recording: AnyRecording, known: Array | None, parameters: Array
) -> list[Notice]:
    """Return a notice where mass, inertia or gravity moments of a model (p,) are far from the
    prior's (p,).

    Without a prior the mass is compared with what a robot of this size can weigh.
    """
    if robot.implicit_loops or robot.formulas:
        return []
    links = robot.layout.links
    mass = float(sum(parameters[part.start + MASS] for part in links))
    heaviest = MAX_DENSITY * units_of(robot).length ** 3 * len(links)
    q = signals_of(sampled(recording), "q")[0]
    acts = _masses_act(robot, q)
    if acts and mass > heaviest:
        text = (
            f"the model weighs {mass:.3g} kg, and a robot of its size less than {heaviest:.3g} kg"
        )
        return [WEIGHT(text, mass=mass, heaviest=heaviest)]
    if known is None or not all(np.isfinite(known[part]).all() for part in links):
        return []
    prior_mass = float(sum(known[part.start + MASS] for part in links))
    if not prior_mass > 0:
        return []
    moment, inertia = _moments(robot, q, known, parameters), 1.0
    ratio = mass / prior_mass if acts else 1.0
    is_other = differs(moment)
    # no torque shows a robot's whole mass, and a prior holds inertias: only gross errors count,
    # beside bodies that can exist
    if all(realizability(known[part]).realizable for part in links):
        some = q[:: -(-len(q) // POSES)]
        inertia = _largest_inertia(robot, some, parameters) / _largest_inertia(robot, some, known)
        is_other = is_other or differs(ratio, FAR) or differs(inertia, FAR)
    if not is_other:
        return []
    text = (
        f"the model weighs {mass:.3g} kg, the robot's file {prior_mass:.3g} kg ({ratio:.2g} "
        f"times); its gravity moments are {moment:.2g} times the file's, its largest inertia "
        f"{inertia:.2g} times"
    )
    numbers = {"mass": mass, "prior_mass": prior_mass, "factor": ratio}
    return [WEIGHT(text, **numbers, gravity=moment, inertia=inertia)]


def _masses_act(robot: Robot, q: Array) -> bool:
    """Say whether any link's mass acts on a torque: not where the only axis is vertical."""
    masses = np.zeros(len(robot.parameters))
    masses[[part.start + MASS for part in robot.layout.links]] = 1.0
    weights, inertias = gravity_of_links(robot, q, masses), inertias_of_links(robot, q, masses)
    return bool(np.any(weights) or np.any(inertias))


def _moments(robot: Robot, q: Array, known: Array, parameters: Array) -> float:
    """Return gravity moments over those of the prior, of the joints that carry weight."""
    prior, model = (gravity_of_links(robot, q, values) for values in (known, parameters))
    sizes = rms(prior)
    if not sizes.any():
        return 1.0
    prior, model = (torques[:, sizes > LARGE * sizes.max()] for torques in (prior, model))
    return float(np.sum(prior * model) / np.sum(prior**2))
