"""Is the log what it is taken for? A comparison with the robot's file, before the fit and with it.

`meaningless` finds in a moment what makes a fit meaningless: no motion, no torque, every joint
beyond its limits.

`torque_scales` asks whether the torques are in the unit they are taken for. With amperes for newton
metres, mN m, or a wrong gear ratio a fit is as good as ever, and its masses are wrong by that
factor. Only something known before can show it: the bodies of the robot's file. For each joint,
least squares over the samples finds

    tau = s · (torque of the file's bodies) + rotor inertia · ddq + viscous · dq + Coulomb ·
    sign(dq) + offset

with a scale s that is 1 where file and log agree. The file is not exact, so s is uncertain beyond
its noise. Errors of the file are taken as independent: masses to 10 %, centres of mass to a tenth
of the robot's length scale in each direction, and a tool that the file does not know, of 2 % of the
robot's mass, on every last link. What they do to s is computed through the same least squares. A
scale is reported where it lies beyond a factor of 1.3 by more than two standard deviations of all
this together: docs/false-alarms.md says how these figures were chosen.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from minidyn.arrays import Array
from minidyn.base.base_map import BaseMap
from minidyn.base.numeric.samples import units_of
from minidyn.dynamics.functions import (
    gravity_of_links,
    inertias_of_links,
    regressor_by_parts,
    torques_of_links,
)
from minidyn.errors import MinidynError
from minidyn.graph.targets.native.host import slow_notices
from minidyn.identification.consistency.prior import knows_a_body
from minidyn.identification.diagnose.causes import Cause, likely_causes
from minidyn.identification.estimators.solve import block_length, block_sums, noise_torque
from minidyn.identification.rows.base_rows import signals_of, typical_sizes
from minidyn.model.joint import Joint
from minidyn.model.parameters import realizability
from minidyn.model.robot import Robot
from minidyn.notices import Notice, error, info, warning
from minidyn.recording.lazy import AnyRecording
from minidyn.recording.ready import in_robot_order
from minidyn.recording.recording import Recording
from minidyn.text import percent

BEYOND = error(
    "check.beyond_limits",
    "Every joint is far beyond its limits: positions are in another unit, on the motor side, or "
    "of another robot.",
    "Say the unit (--units deg, units='deg'; under [mapping] of a study), or write a mapping file "
    "(--mapping) with gear ratios and columns.",
)
NO_TORQUE = error(
    "check.no_torque",
    "The measured torques are zero throughout.",
    "Name the right columns of the log: tau=... in Python, in a mapping file (--mapping) in the "
    "shell.",
)
NO_MOTION = error(
    "check.no_motion",
    "No joint moves: a robot at rest shows neither inertia nor friction.",
    "Name the right columns of positions, or record a motion.",
)

_FEWEST = 20  # samples that a prior can do with
_STILL = 1e-3  # of L / T, about 5 mrad/s for an arm: slower than this is standstill

_TURNS = 4 * math.pi  # rad
_DEGREES = 180 / math.pi
_TILE = 1 << 16  # samples that are looked at at once


FACTOR = 1.3
"""Scales between 1 / FACTOR and FACTOR are those of a file that is not exact."""

MASS_FACTOR = 1.5
"""Total mass and gravity moments of a model may differ from the file's by this factor."""

FAR = 3.0
"""... total mass, and the largest inertia that a joint moves, by this factor, also where gravity
moments agree. And
positions beyond so many times a joint's reach are in another unit, or on the other side of the
gears."""

HEAVIEST = 3000.0
"""kg/m³ of a cube of the robot's length scale for each link.

No arm weighs more (built-in robots: 3 to 600).
"""

_CHECKED = 0.5  # of a scale: one that may be further off is not checked, but for the best of all
_SAME = 1e-3  # of the torque: the file leaves no more of torques that were computed from it
_WORTH = 0.1  # of the difference: a cause that explains less is not listed
_INCH_POUNDS = 8.851  # in one N m
_MOSTLY = 0.75  # of the power of a torque that the scaled file must explain
_SURE = 2.0  # standard deviations beyond FACTOR
_MASSES = 0.1  # relative standard deviation of the masses of a file
_CENTRES = 0.1  # of its centres of mass in each direction, over the robot's length scale
_TOOL = 0.02  # mass of a tool that the file does not know, over the robot's
_ENOUGH = 1500  # samples; a longer recording is thinned
_POSES = 50  # at which inertias are looked at
_PIECE = 256  # consecutive samples taken of a recording on disk
_LEAST = 1e-6  # of a joint's torque: a file that predicts less says nothing
# of the squares of what it predicts that may be noise of accelerations: noise hides the scale
_SHAKEN = 0.2
_M, _MOMENTS = 9, range(6, 9)  # places of mass and first moments among the ten of a link

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
MASS = error(
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


class Meaningless(MinidynError):
    """A recording from which no meaningful model can be fitted; `notices` say why.

    Attributes:
        notices: What was found.
    """

    def __init__(self, notices: Iterable[Notice]) -> None:
        self.notices = tuple(notices)
        reasons = " ".join(f"{notice.text}. {notice.advice}" for notice in self.notices)
        super().__init__(
            f"a fit would be meaningless: {reasons} To fit all the same: force=True (--force)."
        )


def reach_of(robot: Robot) -> Array:
    """Return how far each independent joint may go from zero (n,), rad or m.

    Where its file does not say: two turns, for robots of several joints (a single one may spin),
    and any distance.
    """

    def reach(joint: Joint) -> float:
        lower, upper = joint.limits.lower, joint.limits.upper
        if math.isfinite(lower) and math.isfinite(upper) and upper > lower:
            return max(abs(lower), abs(upper))
        return _TURNS if joint.turns and robot.n > 1 else math.inf

    return np.array([reach(robot.joints[index]) for index in robot.independent])


def require_meaning(robot: Robot, recording: AnyRecording, force: bool) -> list[Notice]:
    """Raise where a fit to a recording is meaningless; with `force` return the notices instead."""
    found = meaningless(robot, in_robot_order(robot, recording))
    if found and not force:
        raise Meaningless(found)
    return found + slow_notices()


def meaningless(robot: Robot, recording: AnyRecording) -> list[Notice]:
    """Return what makes a fit to a recording, in the robot's joint order, meaningless.

    Nothing where it may be tried. Recordings on disk are read only until motion and torques were
    seen.
    """
    lowest, highest = np.full(robot.n, np.inf), np.full(robot.n, -np.inf)
    torque = "tau" not in recording.signals  # those that need one say so themselves
    seen = 0
    for tile in recording.tiles(_TILE):
        seen += len(tile)
        q = np.where(np.isfinite(tile.q), tile.q, np.nan)
        lowest, highest = (np.fmin(lowest, np.fmin.reduce(q)), np.fmax(highest, np.fmax.reduce(q)))
        torque = torque or (tile.tau is not None and bool(np.any(np.nan_to_num(tile.tau))))
        if torque and np.any(highest > lowest):
            break
    if seen < 2:  # too few, which is said elsewhere
        return []
    found = []
    if not np.any(highest > lowest):
        found.append(NO_MOTION("no joint moves"))
    if not torque:
        found.append(NO_TORQUE("the measured torques are zero throughout"))
    return found + _beyond_limits(robot, np.fmax(np.abs(lowest), np.abs(highest)))


def _beyond_limits(robot: Robot, largest: Array) -> list[Notice]:
    """Return a notice where each joint with limits, and at least one has them, is far beyond
    them.
    """
    reach = reach_of(robot)
    known = np.isfinite(reach) & np.isfinite(largest)
    if not known.any() or not np.all(largest[known] > FAR * reach[known]):
        return []
    worst = int(np.argmax(np.where(known, largest / reach, 0.0)))
    name, joint = robot.joint_names[worst], robot.joints[robot.independent[worst]]
    degrees = joint.turns and np.all(largest[known] < 1.1 * _DEGREES * reach[known])
    count, limits = int(known.sum()), joint.limits
    usual = (
        "its limit is"
        if math.isfinite(limits.lower + limits.upper)
        else "a joint without limits stays within"
    )
    every = (
        f"all {count} joints are far beyond their range" if count > 1 else "far beyond the range"
    )
    unit = "rad" if joint.turns else "m"
    text = (
        f"{every}: joint {name!r} reaches {largest[worst]:.4g}, {usual} {reach[worst]:.4g} "
        f"{unit}{' (degrees?)' if degrees else ''}"
    )
    guess = "deg" if degrees else ""
    return [
        BEYOND(
            text, joint=name, largest=float(largest[worst]), limit=float(reach[worst]), unit=guess
        )
    ]


@dataclass(frozen=True)
class TorqueScale:
    """A joint's measured torque over that of the robot's file.

    Attributes:
        joint: Name of the joint.
        factor: The scale s; NaN where nothing is known to compare with.
        noise: Standard deviation of s by the noise of the log.
        prior: Relative standard deviation of s by errors of the file.
        explained: Share of the power of the measured torque, without what rotor and friction can
            explain, that is s times the file's.
    """

    joint: str
    factor: float
    noise: float
    prior: float
    explained: float = 1.0

    @property
    def known(self) -> bool:
        """Whether the file says anything about this joint's torque."""
        return math.isfinite(self.factor) and self.prior < 1.0

    @property
    def std(self) -> float:
        """Standard deviation of the factor, errors of the file included."""
        return math.hypot(self.noise, self.factor * self.prior)

    @property
    def within(self) -> float:
        """By which share the scale may differ from one, two standard deviations."""
        return abs(self.factor - 1.0) + _SURE * self.std

    @property
    def wrong(self) -> bool:
        """Whether it is beyond FACTOR, and most of the torque is that of the file's bodies.

        Else springs, cables and friction that are not known set the scale.
        """
        return self.contradicts and self.explained >= _MOSTLY

    @property
    def contradicts(self) -> bool:
        """Whether it is beyond FACTOR, sure by two standard deviations."""
        if not self.known:
            return False
        bound = FACTOR if self.factor > 1 else 1 / FACTOR
        sure = abs(self.factor - bound) > _SURE * math.hypot(self.noise, bound * self.prior)
        return sure and _off(self.factor, FACTOR)


def torque_scales(robot: Robot, recording: AnyRecording, known: Array | None) -> list[TorqueScale]:
    """Return the scale of each joint's torque against prior parameters (p,) of the robot, NaN where
    unknown.

    Args:
        robot: The robot, whose parameters `known` are.
        recording: With q, dq, ddq and tau, columns in the robot's order.
        known: Prior parameters; None: none are known.
    """
    nothing = [TorqueScale(name, math.nan, math.nan, math.inf) for name in robot.joint_names]
    if known is None or not knows_a_body(robot, known) or robot.implicit_loops or robot.formulas:
        return nothing
    if not {"dq", "ddq", "tau"} <= set(recording.signals):
        return nothing
    bodies = [known[part] for part in robot.layout.links]
    model = robot.with_drives(True, ("viscous", "coulomb", "offset"))
    log = _sampled(recording)
    if len(log) < 20 + len(model.layout):
        return nothing
    q, dq, ddq, tau = signals_of(log, "q", "dq", "ddq", "tau")
    Y = regressor_by_parts(model, q, dq, ddq)
    errors, shaken = _errors(model, bodies), noise_torque(robot, recording, q, known)
    drives = [column.index for columns in model.layout.drives for column in columns]
    found = []
    for joint, name in enumerate(robot.joint_names):
        rows = Y[:, joint]
        moved = [k for k, part in enumerate(model.layout.links) if np.any(rows[:, part])]
        if not all(np.isfinite(bodies[k]).all() for k in moved):
            found.append(nothing[joint])
            continue
        file = sum((rows[:, model.layout.links[k]] @ bodies[k] for k in moved), np.zeros(len(rows)))
        signals = file, rows, rows[:, drives], tau[:, joint]
        found.append(_scale(name, *signals, errors, log.t, float(shaken[joint])))
    return found


def _scale(
    name: str,
    file: Array,
    rows: Array,
    drive: Array,
    tau: Array,
    errors: Array,
    t: Array,
    shaken: float,
) -> TorqueScale:
    """Return the scale of one joint.

    The torques of the file (N,), its regressor (N, p), its drive's columns (N, d). Of the file's
    torque, noise of accelerations makes a part; where that is large, the scale would seem too
    small.
    """
    sizes = np.linalg.norm(drive, axis=0)
    U, s, _ = np.linalg.svd(drive[:, sizes > 0] / sizes[sizes > 0], full_matrices=False)
    U = U[:, s > 1e-9 * s.max(initial=1.0)]

    def alone(x: Array) -> Array:
        return np.asarray(x - U @ (U.T @ x))  # without what rotor and friction can explain

    own, measured = alone(file), alone(tau)
    power = float(own @ own)
    if power <= max(_LEAST**2 * float(tau @ tau), len(tau) * shaken**2 / _SHAKEN):
        return TorqueScale(name, math.nan, math.nan, math.inf)
    pull = own / power
    factor = float(pull @ measured)
    residual = (measured - factor * own)[:, None]
    length, _ = block_length(residual, t, len(residual))
    noise = float(np.sqrt(np.sum(block_sums([(pull[:, None] * residual, False)], length) ** 2)))
    total = float(measured @ measured)
    explained = factor**2 * power / total if total > 0 else 0.0
    return TorqueScale(
        name, factor, noise, float(np.linalg.norm((pull @ rows) @ errors)), explained
    )


def _errors(robot: Robot, bodies: list[Array]) -> Array:
    """Return what a file may be wrong by: parameters (p, kinds).

    One column for each independent error.
    """
    length = units_of(robot).length
    masses = np.array([body[_M] if np.isfinite(body[_M]) else 0.0 for body in bodies])
    carriers = {joint.parent for joint in robot.joints}
    columns = []
    for k, part in enumerate(robot.layout.links):
        tool = 0.0 if k in carriers else _TOOL * float(masses.sum())
        wrong = np.zeros((len(robot.layout), 5))
        wrong[part, 0] = _MASSES * np.nan_to_num(bodies[k])
        wrong[part.start + _M, 1] = tool
        for direction, place in enumerate(_MOMENTS):
            wrong[part.start + place, 2 + direction] = _CENTRES * length * (masses[k] + tool)
        columns.append(wrong)
    return np.concatenate(columns, axis=1)


def _sampled(recording: AnyRecording) -> Recording:
    """Return enough samples of a recording: every so many, or pieces spread over one on disk."""
    if isinstance(recording, Recording):
        return recording.thinned(max(1, len(recording) // _ENOUGH))
    count = max(1, min(_ENOUGH // _PIECE, len(recording) // _PIECE))
    return recording.spread(count, _PIECE).thinned(1, size=_PIECE)


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
    differs = any(scale.contradicts for scale in scales)
    causes = _causes(robot, recording, known, differs=differs, scaled=len(wrong) > 1)
    best = causes[0] if causes and causes[0].kind != "scale" else None
    if best is not None and (best.convinces or (wrong and best.is_large)):
        words = _in_words(causes)
        text = (
            f"the log is not that of the robot's file: {best.text} explains "
            f"{percent(best.explained)} of the difference"
        )
        return [CAUSE(text, cause=best.kind, explained=best.explained, causes=words)]
    if differs and all(scale.explained < _MOSTLY for scale in scales if scale.known):
        share = max(scale.explained for scale in scales if scale.known)
        text = (
            "the log is not that of the robot's file, which explains at most "
            f"{percent(share)} of the torque of any joint, rotors and friction apart"
        )
        return [UNLIKE(text, explained=share, causes=_in_words(causes))]
    notices = _computed(robot, recording, known) + ([] if wrong else _checked(scales))
    for scale in wrong:
        unit = _likely_unit(scale, [other.factor for other in wrong], robot)
        text = (
            f"{scale.joint}: measured torques are {scale.factor:.3g} ± {scale.std:.2g} times "
            f"those of the robot's file: {unit}?"
        )
        notices.append(
            SCALE(
                text,
                joint=scale.joint,
                factor=scale.factor,
                std=scale.std,
                unit=unit,
                causes=_in_words(causes),
            )
        )
    unknown = [scale.joint for scale in scales if not scale.known]
    if unknown:
        text = (
            f"the unit of the torques of {', '.join(unknown)} could not be checked: they hardly "
            "show known masses"
        )
        if len(unknown) == len(scales):
            text = (
                "the unit of the torques could not be checked: too little is known of the robot's "
                "masses"
            )
        notices.append(NOTHING(text, joints=unknown))
    return notices


def _checked(scales: list[TorqueScale]) -> list[Notice]:
    """Return a notice that says how far the scale of the torques was checked."""
    known = [scale for scale in scales if scale.known and scale.explained >= _MOSTLY]
    if not known:
        return []
    best = min(scale.within for scale in known)
    sure = [scale for scale in known if scale.within <= max(_CHECKED, best)]
    within = math.ceil(20 * max(scale.within for scale in sure)) / 20
    names = [scale.joint for scale in sure]
    text = (
        f"the scale of the torques of {', '.join(names)} was checked to within ±{percent(within)} "
        "against the robot's file"
    )
    others = [scale.joint for scale in scales if scale not in sure]
    return [CHECKED(text, joints=names, within=within, others=others)]


def _computed(robot: Robot, recording: AnyRecording, known: Array | None) -> list[Notice]:
    """Return a notice where torques seem to be computed from the robot's file."""
    if known is None or not _is_comparable(robot, recording, known):
        return []
    q, dq, ddq, tau = signals_of(_sampled(recording), "q", "dq", "ddq", "tau")
    residual, total = tau - torques_of_links(robot, (q, dq, ddq), known), np.sum(tau**2)
    for column, acceleration in zip(residual.T, ddq.T):  # rotors are no friction
        square = float(acceleration @ acceleration)
        column -= acceleration * float(acceleration @ column) / square if square > 0 else 0.0
    left = math.sqrt(float(np.sum(residual**2)) / total) if total > 0 else math.inf
    if not left <= _SAME:
        return []
    text = f"the robot's file explains the torques to {percent(left)} without any friction"
    return [COMPUTED(text, error=left)]


def _is_comparable(robot: Robot, recording: AnyRecording, known: Array) -> bool:
    """Say whether all bodies are known, and the recording holds a whole motion."""
    bodies = all(np.isfinite(known[part]).all() for part in robot.layout.links)
    whole = {"dq", "ddq", "tau"} <= set(recording.signals)
    return bodies and whole and not robot.implicit_loops and not robot.formulas


def _causes(
    robot: Robot, recording: AnyRecording, known: Array | None, **facts: bool
) -> list[Cause]:
    """Return why the torques are not those of the file; empty where they are, or nothing is
    known.
    """
    if known is None or not _is_comparable(robot, recording, known):
        return []
    log = _sampled(recording)
    if len(log) < 20 + len(robot.layout):
        return []
    q, dq, ddq, tau = signals_of(log, "q", "dq", "ddq", "tau")
    return likely_causes(robot, (q, dq, ddq), tau, known, **facts)


def _in_words(causes: list[Cause]) -> str:
    """Return causes with what they explain, those that explain something."""
    known = [cause for cause in causes if cause.explained > _WORTH]
    words = ", ".join(f"{cause.text}: {percent(cause.explained)}" for cause in known[:4])
    return words or "none of those that were tried"


def _likely_unit(scale: TorqueScale, others: list[float], robot: Robot) -> str:
    """Return in words what may be wrong with the torques."""
    common = float(np.exp(np.mean(np.log(np.abs(others))))) if all(others) else abs(scale.factor)
    if scale.factor < 0 and _off(-scale.factor, MASS_FACTOR):
        return f"amperes of the opposite sign (drive gain about {1 / scale.factor:.2g} N m/A)"
    if scale.factor < 0:
        return "the opposite sign, or gravity of another direction"
    for unit, size in (("mNm (or Nmm)", 1e3), ("Ncm", 1e2), ("kNm", 1e-3)):
        if 0.5 < common / size < 2.0:
            return unit
    if 0.8 < common / _INCH_POUNDS < 1.25:
        return "inch pounds (lbf in)"
    ratio = abs(robot.joints[robot.joint_index(scale.joint)].drive.gear_ratio)
    if ratio != 1 and 0.5 < scale.factor * ratio < 2.0:
        return f"torques on the motor side (gear ratio {ratio:g})"
    if scale.factor < 1:
        return (
            f"amperes (drive gain about {1 / scale.factor:.2g} N m/A), or a gear ratio that is "
            "too small"
        )
    return "a drive gain or gear ratio that is too large, or a load that the file does not know"


def _off(value: float, factor: float) -> bool:
    return not 1 / factor <= value <= factor


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
    mass = float(sum(parameters[part.start + _M] for part in links))
    heaviest = HEAVIEST * units_of(robot).length ** 3 * len(links)
    q = signals_of(_sampled(recording), "q")[0]
    acts = _masses_act(robot, q)
    if acts and mass > heaviest:
        text = (
            f"the model weighs {mass:.3g} kg, and a robot of its size less than {heaviest:.3g} kg"
        )
        return [MASS(text, mass=mass, heaviest=heaviest)]
    if known is None or not all(np.isfinite(known[part]).all() for part in links):
        return []
    prior_mass = float(sum(known[part.start + _M] for part in links))
    if not prior_mass > 0:
        return []
    prior, model = (gravity_of_links(robot, q, values) for values in (known, parameters))
    sizes = np.sqrt(np.mean(prior**2, axis=0))
    heavy = sizes > 0.1 * sizes.max(
        initial=0.0
    )  # joints that carry weight; files know little of wrists
    moment = (
        float(np.sum(prior[:, heavy] * model[:, heavy]) / np.sum(prior[:, heavy] ** 2))
        if sizes.any()
        else 1.0
    )
    ratio = mass / prior_mass if acts else 1.0
    # no torque shows a robot's whole mass: where gravity moments agree, another mass is the prior's
    # doing
    off = _off(moment, MASS_FACTOR) or (_off(ratio, MASS_FACTOR) and _off(moment, FACTOR))
    inertia = 1.0
    if all(
        realizability(known[part]).realizable for part in links
    ):  # by so much that no prior would have it
        some = q[:: -(-len(q) // _POSES)]
        inertia = _largest_inertia(robot, some, parameters) / _largest_inertia(robot, some, known)
        off = off or _off(ratio, FAR) or _off(inertia, FAR)
    if not off:
        return []
    text = (
        f"the model weighs {mass:.3g} kg, the robot's file {prior_mass:.3g} kg ({ratio:.2g} "
        f"times); its gravity moments are {moment:.2g} times the file's, its largest inertia "
        f"{inertia:.2g} times"
    )
    return [
        MASS(text, mass=mass, prior_mass=prior_mass, factor=ratio, gravity=moment, inertia=inertia)
    ]


def _masses_act(robot: Robot, q: Array) -> bool:
    """Say whether any link's mass acts on a torque: not where the only axis is vertical."""
    masses = np.zeros(len(robot.parameters))
    masses[[part.start + _M for part in robot.layout.links]] = 1.0
    weights, inertias = gravity_of_links(robot, q, masses), inertias_of_links(robot, q, masses)
    return bool(np.any(weights) or np.any(inertias))


def _something_moves(robot: Robot, recording: AnyRecording) -> bool:
    """Say whether any joint moves; where speeds are not known it is taken to."""
    sizes = typical_sizes(recording)
    return sizes is None or bool(np.any(~(sizes[1] <= _STILL * units_of(robot).speeds)))


def has_enough(robot: Robot, base: BaseMap, data: AnyRecording, known: bool) -> bool:
    """Say whether a prior, where one is known, may fill in what the data leave open.

    Refuse data that show nothing.
    """
    filled = known and _something_moves(robot, data)
    if len(data) * robot.n < 2 * base.rank and not (filled and len(data) >= _FEWEST):
        raise MinidynError(
            f"{len(data)} samples of {robot.n} joints are too few for {base.rank} base "
            f"parameters; record at least {2 * base.rank // robot.n + 1}, better a hundred times "
            "as many"
        )
    return filled
