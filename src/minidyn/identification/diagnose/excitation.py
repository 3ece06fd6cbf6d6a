"""Which parameters a recording hardly shows, and which motion would show them.

What counts is the torque: the weakest combination of base parameters is the one whose uncertainty
spreads the predicted torque most, over states all through the workspace. Motions that a user can
make are tried: one joint, or two neighbours, in fast reversals or slow sweeps, the others at some
position. The one that lowers that spread most is named.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
from numpy.typing import NDArray

from minidyn.arrays import Array
from minidyn.base.base_map import BaseMap
from minidyn.base.numeric.samples import random_states, units_of
from minidyn.dynamics.record import STATES
from minidyn.identification.diagnose.log_facts import FAIR
from minidyn.identification.estimators.method import Solution
from minidyn.identification.estimators.solve import (
    condition_of,
)
from minidyn.identification.rows.base_rows import shown_parameters, signals_of, steady_regressor
from minidyn.model.drives import BY_SYMBOL, CURVED
from minidyn.model.robot import Robot
from minidyn.notices import Notice, info, warning
from minidyn.recording.lazy import AnyRecording

_WEAK = FAIR  # a relative standard deviation beyond which a parameter is called weak
_SMALL = 0.1  # of a joint's torque: a parameter of less does not count
_KNOWN = 0.03  # standard deviation of the torque over the workspace, over its size: it is known
_OPEN = 1e-14  # squares of singular values below this part of the largest are rounding
_SINGULAR = 1e5  # a condition number beyond which some parameter is not shown at all
_POOR = 200.0  # a condition number beyond which excitation is called poor
_SEEN = 4000  # samples that show the torque of a parameter
_STATES = 150  # of the workspace, where the torque's uncertainty is looked at
_SAMPLES = 24  # of a motion that is tried
_PLACES = 3  # positions of the joints that rest
# of the predicted torque by the weakest combination, over its noise: less needs no other motion
_SPREAD = 10.0
_WORTH = 200.0  # independent samples that a recording of such a motion would give
_DIRECTIONS = 12  # the weakest, along which all motions are looked at first
_EFFORT = 1.3  # what a second joint must bring
_FAST, _SLOW = (
    0.4,
    0.05,
)  # speeds of reversals and sweeps over L / T: about 2 and 0.25 rad/s for an arm

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


@dataclass(frozen=True)
class Advice:
    """The motion that would help most.

    Attributes:
        names: Parameters that make up the weakest combination, largest share first.
        motion: What to record, in words.
        joints: Places in q of the joints that move.
        fast: Whether they reverse fast (inertia, friction) or sweep slowly (gravity, Coulomb
            friction).
        q: Position (n,) of the joints that rest, and the middle of those that move.
        before: Spread of the predicted torque by the weakest combination, over its noise.
        after: The same after such a motion.
    """

    names: tuple[str, ...]
    motion: str
    joints: tuple[int, ...]
    fast: bool
    q: Array
    before: float
    after: float


def condition_together(base: BaseMap, found: Solution, shown: NDArray[np.bool_]) -> float:
    """Return the condition number with the friction terms of each joint as one.

    It is that of the parameters (b,) that can be `shown`. Friction terms are made orthogonal first:
    viscous, Coulomb and square-root friction rise alike with speed. That they are hard to tell
    apart says nothing about the motion. Terms of position or load are not taken together, nor terms
    that the motion does not show at all.
    """
    if base.rows is not None or not found.condition < _SINGULAR:
        return found.condition
    R, groups = found.R.copy(), dict[int, list[int]]()
    for place, name in enumerate(base.kept):
        column = base.robot.layout.column(name)
        if shown[place] and column.is_friction and not BY_SYMBOL[column.symbol].of_position:
            groups.setdefault(column.joint, []).append(place)
    for places in groups.values():
        R[:, places] = np.linalg.qr(R[:, places])[0]
    return condition_of(R[:, shown])


def with_shown_condition(robot: Robot, base: BaseMap, found: Solution) -> Solution:
    """Return a solution with the condition number of what the measured torques can show."""
    if all(robot.torques_measured):
        return found
    return replace(found, condition=condition_of(found.R[:, shown_parameters(robot, base)]))


def relative_deviations(robot: Robot, base: BaseMap, found: Solution, data: AnyRecording) -> Array:
    """Return the relative standard deviation of each base parameter (b,), infinite where no sample
    shows it.

    A parameter near zero is known well enough where its uncertainty hardly moves the torque, so
    that a value that makes up a tenth of a joint's torque replaces its own where that is larger.
    """
    size = np.linalg.norm(found.R, axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        value = np.fmax(np.abs(found.beta), _SMALL / _effects(robot, base, data))
        relative = np.sqrt(np.diag(found.covariance)) / value
    return np.where((size > 0) & np.isfinite(relative), relative, np.inf)


def _effects(robot: Robot, base: BaseMap, data: AnyRecording) -> Array:
    """Return the torque of each parameter of value one (b,), over the joint's torque where that is
    most (rms); infinite where the data hold no accelerations.
    """
    if not {"dq", "ddq", "tau"} <= set(data.signals):
        return np.full(base.rank, np.inf)
    tile = next(iter(data.tiles(_SEEN)))
    q, dq, ddq, tau = signals_of(tile, "q", "dq", "ddq", "tau")
    Y = steady_regressor(robot, base, q, dq, ddq, tile.telemetry.get(STATES))
    torque = np.sqrt(np.mean(tau**2, axis=0))
    return np.asarray(np.fmax.reduce(np.sqrt(np.mean(Y**2, axis=0)) / torque[:, None]))


def _is_known_everywhere(robot: Robot, base: BaseMap, found: Solution) -> bool:
    """Say whether the torques of motions all through the workspace follow from the data."""
    if robot.implicit_loops or robot.formulas or not np.isfinite(found.covariance).all():
        return False
    Y = _rows(robot, base, *_everywhere(robot), np.ones(robot.n)).reshape(-1, robot.n, base.rank)
    variance = np.einsum("nib,bc,nic->i", Y, found.covariance, Y)
    return bool(np.all(variance <= _KNOWN**2 * np.sum((Y @ found.beta) ** 2, axis=0)))


def excitation_notices(
    robot: Robot, base: BaseMap, found: Solution, data: AnyRecording
) -> list[Notice]:
    """Return what a reader should know about the motion.

    Poor, which parameters are weak, what would help.
    """
    notices: list[Notice] = []
    shown = shown_parameters(robot, base)  # no motion shows the others to the torques measured
    every = [name for name, is_shown in zip(base.names, shown) if is_shown]
    if found.condition > _POOR:
        sizes = np.linalg.norm(found.R[:, shown], axis=0)  # zero for what no motion shows
        _, _, V = np.linalg.svd(found.R[:, shown] / np.where(sizes > 0, sizes, 1.0))
        names = [every[k] for k in np.argsort(-np.abs(V[-1]))[:3]]
        together = condition_together(base, found, shown)
        if together <= _POOR:
            text = (
                f"the motion hardly separates {', '.join(names)} (condition number "
                f"{found.condition:.3g}; {together:.3g} with the friction of each joint taken as "
                "a whole)"
            )
            notices.append(ALIKE(text, condition=together, parameters=names))
        elif _is_known_everywhere(robot, base, found):
            text = (
                f"the motion hardly separates {', '.join(names)} (condition number "
                f"{found.condition:.3g}), but the torques of all motions are known to "
                f"{100 * _KNOWN:g} %"
            )
            notices.append(UNEVEN(text, condition=found.condition, parameters=names))
        else:
            text = (
                f"excitation is poor: condition number {found.condition:.3g} (good: below "
                f"{_POOR:g}); the motion hardly separates {', '.join(names)}"
            )
            notices.append(POOR(text, condition=found.condition, parameters=names))
    relative = relative_deviations(robot, base, found, data)
    weak = [base.names[k] for k in np.argsort(-relative) if relative[k] > _WEAK and shown[k]]
    if weak:
        first = ", ".join(weak[:6]) + (f" and {len(weak) - 6} more" if len(weak) > 6 else "")
        text = (
            f"weakly determined (standard deviation above {100 * _WEAK:g} % of the value; small "
            f"ones by their torque): {first}"
        )
        notices.append(WEAK(text, parameters=weak))
    loose = np.sqrt(np.diag(found.covariance)) > _WEAK * np.abs(found.beta)
    advice = advise(robot, base, found.R, found.sigma) if notices or loose.any() else None
    if advice is not None and advice.before > _SPREAD:
        now = f"by {advice.before:.2g} times its noise" if advice.before < 1e4 else "without bound"
        text = (
            f"most would be gained by {advice.motion}. The weakest combination "
            f"({', '.join(advice.names)}) spreads the predicted torque {now}; after such a run by "
            f"{advice.after:.2g} times"
        )
        moving = [robot.joint_names[joint] for joint in advice.joints]
        notices.append(
            MOTION(
                text, motion=advice.motion, joints=moving, before=advice.before, after=advice.after
            )
        )
    return notices


def advise(robot: Robot, base: BaseMap, R: Array, sigma: Array) -> Advice | None:
    """Return the motion that lowers the uncertainty of the predicted torque most.

    None where there is nothing to say. Terms that bend friction are taken as known: they are a
    curve over the log's own speeds, and what a cubic term would be at eight times those is no fault
    of the motion.

    Args:
        robot: The robot.
        base: Its base parameters.
        R: (b, b) triangle of the data in units of their noise.
        sigma: Noise of each joint's torque (n,).
    """
    if not base.rank or robot.implicit_loops or robot.formulas or not np.all(sigma > 0):
        return None
    everywhere = _rows(robot, base, *_everywhere(robot), sigma)
    tried = list(_candidates(robot))
    q, dq, ddq = (np.concatenate([motion[k] for *_, motion in tried]) for k in range(3))
    Y = _rows(robot, base, q, dq, ddq, sigma).reshape(len(tried), -1, base.rank)
    columns = [base.robot.layout.column(name) for name in (base.kept if base.rows is None else ())]
    can_show = shown_parameters(robot, base)
    known = [place for place, column in enumerate(columns) if column.symbol in CURVED]
    known += [place for place in np.flatnonzero(~can_show).tolist() if place not in known]
    R, everywhere, Y = (np.delete(table, known, axis=-1) for table in (R, everywhere, Y))
    size = np.where((norms := np.linalg.norm(everywhere, axis=0)) > 0, norms, 1.0)
    information = (R / size).T @ (R / size)
    judged = np.asarray(np.linalg.qr(everywhere / size / np.sqrt(_STATES * robot.n), mode="r"))
    # what no motion shows must not hide the rest: a faint floor, a millionth of what the data know
    # best
    floor = 1e-12 * max(float(np.max(np.diag(information))), 1e-300) * np.eye(len(size))
    before, directions = _weakest(judged, information + floor)
    if not before.max(initial=0.0) > 0:  # nothing that is left acts on any torque
        return None
    before = np.maximum(before, _OPEN * before[0])
    scale = np.sqrt(_WORTH / _SAMPLES) / size
    # one joint is easier to move than two, if it helps about as much
    effort = np.array([_EFFORT ** (len(joints) - 1) for joints, *_ in tried])
    # what is left along the weakest directions alone is a lower bound: most motions need no more
    # than that
    seen = Y @ (scale[:, None] * directions / before)
    shown = np.linalg.eigvalsh(np.diag(before**-2.0) + np.swapaxes(seen, 1, 2) @ seen)
    bounds = effort / np.sqrt(
        shown[:, 0] + 1e-12 * shown[:, -1]
    )  # rounding does not make them larger
    best, after = 0, np.inf
    for number in np.argsort(bounds).tolist():
        if bounds[number] > effort[best] * after:
            break
        added = Y[number] * scale
        halves = np.linalg.solve(
            np.linalg.cholesky(information + floor + added.T @ added), judged.T
        )
        spread = float(np.sqrt(np.linalg.eigvalsh(halves @ halves.T)[-1]))
        if (effort[number] * spread, number) < (effort[best] * after, best):
            best, after = number, spread
    joints, fast, q, _ = tried[best]
    weakest = np.delete(np.array(base.names), known)[np.argsort(-np.abs(directions[:, 0]))[:3]]
    return Advice(
        tuple(weakest.tolist()),
        _words(robot, joints, fast, q),
        joints,
        fast,
        q,
        float(before[0]),
        after,
    )


def _weakest(judged: Array, information: Array) -> tuple[Array, Array]:
    """Return the largest spreads of the torque along one direction each (k,), over its noise, and
    those (b, k).
    """
    L = np.linalg.cholesky(information)
    _, s, Vt = np.linalg.svd(np.linalg.solve(L, judged.T).T, full_matrices=False)
    return s[:_DIRECTIONS], np.linalg.solve(L.T, Vt[:_DIRECTIONS].T)


def _rows(robot: Robot, base: BaseMap, q: Array, dq: Array, ddq: Array, sigma: Array) -> Array:
    return np.asarray(
        (steady_regressor(robot, base, q, dq, ddq) / sigma[:, None]).reshape(-1, base.rank)
    )


def _everywhere(robot: Robot) -> tuple[Array, Array, Array]:
    """Return states (N, n) each all through the workspace."""
    states = random_states(robot, units_of(robot), _STATES, np.random.default_rng(0))
    lower, upper = _limits(robot)
    inside = lower + (upper - lower) * (states.q - states.q.min(axis=0)) / np.maximum(
        np.ptp(states.q, axis=0), 1e-300
    )
    return inside, _FAST * states.dq, _FAST * states.ddq


def _limits(robot: Robot) -> tuple[Array, Array]:
    """Return where joints may go (n,), (n,).

    Their limits, and not more than a half turn or two lengths each way.
    """
    joints = [robot.joints[index] for index in robot.independent]
    reach = np.array([np.pi if joint.turns else 2 * units_of(robot).length for joint in joints])
    lower = np.array([joint.limits.lower for joint in joints])
    upper = np.array([joint.limits.upper for joint in joints])
    bounded = np.isfinite(lower) & np.isfinite(upper)
    middle = (
        np.where(bounded, np.where(bounded, lower, 0.0) + np.where(bounded, upper, 0.0), 0.0) / 2
    )
    return np.maximum(lower, middle - reach), np.minimum(upper, middle + reach)


def _candidates(
    robot: Robot,
) -> Iterator[tuple[tuple[int, ...], bool, Array, tuple[Array, Array, Array]]]:
    """Yield (joints that move, fast, position, (q, dq, ddq) each (_SAMPLES, n)) of every motion
    that is tried.
    """
    lower, upper = _limits(robot)
    speeds = units_of(robot).speeds
    rng = np.random.default_rng(1)
    shares = [np.full(robot.n, 0.5), *rng.uniform(0.1, 0.9, (_PLACES - 1, robot.n))]
    phase = 2 * np.pi * (np.arange(_SAMPLES) + 0.5) / _SAMPLES
    groups = [(joint,) for joint in range(robot.n)] + [
        (joint, joint + 1) for joint in range(robot.n - 1)
    ]
    for share, joints, fast in product(shares, groups, (True, False)):
        middle = lower + (upper - lower) * share
        q, dq, ddq = np.tile(middle, (_SAMPLES, 1)), *np.zeros((2, _SAMPLES, robot.n))
        for order, joint in enumerate(
            joints
        ):  # neighbours move at a quarter of a period from each other
            middle[joint] = (lower[joint] + upper[joint]) / 2
            turn = phase * (1 + order) + order * np.pi / 2
            reach = (upper[joint] - lower[joint]) / 2 * (0.15 if fast else 0.9)
            rate = (_FAST if fast else _SLOW) * speeds[joint] / max(reach, 1e-9)
            q[:, joint] = middle[joint] + reach * np.sin(turn)
            dq[:, joint] = reach * rate * np.cos(turn)
            ddq[:, joint] = -reach * rate**2 * np.sin(turn)
        yield joints, fast, middle, (q, dq, ddq)


def _words(robot: Robot, joints: tuple[int, ...], fast: bool, q: Array) -> str:
    moving = " and ".join(repr(robot.joint_names[joint]) for joint in joints)
    kind = "fast reversals" if fast else "slow sweeps over the whole range"
    turns = [robot.joints[index].turns for index in robot.independent]
    shown = [
        f"{np.degrees(value):.0f}°" if turning else f"{value:.2f} m"
        for value, turning in zip(q, turns)
    ]
    named = enumerate(zip(robot.joint_names, shown))
    resting = [f"{name!r} at {value}" for place, (name, value) in named if place not in joints]
    return (
        f"{kind} of joint{'s' * (len(joints) > 1)} "
        f"{moving}{', with ' * bool(resting)}{', '.join(resting)}"
    )
