"""Which parameters a recording hardly shows, and which motion would show them.

What counts is the torque: the weakest combination of base parameters is the one whose uncertainty spreads the predicted
torque most, over states all through the workspace. Motions that a user can make are tried: one joint, or two
neighbours, in fast reversals or slow sweeps, the others at some position. The one that lowers that spread most is
named.

And how late torques are against positions: filters and buses delay one of them, and a fit does not say so by itself.
Friction that a model lacks may look like a delay: what builds up over some travel after a reversal lags behind, and
what grows with the load changes as gravity does. So delays are looked for where drives slide, beside columns of such
friction, and joints must agree on them: a bus makes all joints late alike.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise, product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from minidyn.arrays import Array
from minidyn.base.base_map import BaseMap
from minidyn.base.numeric.samples import random_states, units_of
from minidyn.dynamics.drives import drive_paths, drive_ratios
from minidyn.dynamics.functions import loads_of_motion
from minidyn.dynamics.record import STATES
from minidyn.identification.estimators.method import Solution
from minidyn.identification.estimators.solve import block_covariance, block_length, block_sums, condition_of
from minidyn.identification.rows.base_rows import base_functions, signals_of, steady_regressor
from minidyn.model.drives import BY_SYMBOL, CURVED
from minidyn.model.robot import Robot
from minidyn.notices import Notice, act, info, look
from minidyn.recording.lazy import AnyRecording
from minidyn.recording.prepare.segments import moved_torques
from minidyn.recording.recording import Recording

_WEAK = 0.3  # a relative standard deviation beyond which a parameter is called weak
_SINGULAR = 1e5  # a condition number beyond which some parameter is not shown at all
_POOR = 200.0  # a condition number beyond which excitation is called poor
_STATES = 150  # of the workspace, where the torque's uncertainty is looked at
_SAMPLES = 24  # of a motion that is tried
_PLACES = 3  # positions of the joints that rest
_SPREAD = 10.0  # of the predicted torque by the weakest combination, over its noise: less needs no other motion
_WORTH = 200.0  # independent samples that a recording of such a motion would give
_DIRECTIONS = 12  # the weakest, along which all motions are looked at first
_EFFORT = 1.3  # what a second joint must bring
_FAST, _SLOW = 0.4, 0.05  # speeds of reversals and sweeps over L / T: about 2 and 0.25 rad/s for an arm
_ENOUGH = 4000  # samples to see a delay; a longer recording is thinned
_SURE, _AGREED = 5.0, 2.5  # standard deviations beyond which a delay is reported: of blocks of time, and of joints
_REVERSAL, _FALLS = 0.05, 0.5  # of a joint's speed, over which friction that the model lacks reverses, or bends
_TURNED, _SHORT = 0.02, 0.1  # rad or m, and of a drive's range, in which friction is as before its last reversal
_SPREAD_BY = 0.6  # over its cut-off: the time by which a low-pass spreads what happens at a reversal
_LEFT = 4  # times as many samples as unknowns: fewer do not tell a delay
_OPEN = 1e-14  # squares of singular values below this part of the largest are rounding
_ROUNDS = 4  # in which a delay is found
_MATTERS = 0.05  # of the residual's power that goes away: less is not worth a word

POOR = act(
    "identify.poor_excitation",
    "The recorded motion hardly separates some parameters.",
    "Record a motion in which these joints move against each other, faster and further. Several short runs with "
    "different motions may be given together.",
)
ALIKE = info(
    "identify.friction_terms_alike",
    "Friction terms of one joint act alike in the motion: their sum is known, each alone is not.",
    "The friction of a joint as a whole is known, so that torques are predicted well. Do not read its terms one by "
    "one; fewer of them are easier to read: identify with --friction viscous,coulomb,offset.",
)
WEAK = info(
    "identify.weakly_determined",
    "Parameters whose standard deviation is a large part of their value.",
    "The motion hardly shows these parameters, so do not read their values as properties of the robot. Torques of "
    "similar motions are still predicted well; for other motions record a richer one.",
)
MOTION = look(
    "identify.helpful_motion",
    "The motion that would lower the uncertainty of predicted torques most.",
    "Record {motion}.",
)

DELAY = look(
    "identify.torque_delay",
    "Torques and positions are not from the same instant. Nothing was moved: the log is on disk, was prepared with a "
    "delay, or fits no better without it.",
    "Shift the torques: --delay {delay:.2g} in the shell, md.prepare(robot, recording, delay={delay:.2g}) in Python.",
)
DELAY_REMOVED = look(
    "identify.delay_removed",
    "Torques and positions are not from the same instant. Torques were moved by the delay, and the model fitted again.",
    "A controller should know of it. To keep the torques where they are: --delay 0 in the shell, md.prepare(robot, "
    "recording, delay=0) in Python.",
)


@dataclass(frozen=True)
class Advice:
    """The motion that would help most.

    Attributes:
        names: Parameters that make up the weakest combination, largest share first.
        motion: What to record, in words.
        joints: Places in q of the joints that move.
        fast: Whether they reverse fast (inertia, friction) or sweep slowly (gravity, Coulomb friction).
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


def condition_together(base: BaseMap, found: Solution) -> float:
    """Return the condition number with the friction terms of each joint as one: they are made orthogonal first.

    Viscous, Coulomb and square-root friction rise alike with speed. That they are hard to tell apart says nothing about
    the motion. Terms of position or load are not taken together, nor terms that the motion does not show at all.
    """
    if base.rows is not None or not found.condition < _SINGULAR:
        return found.condition
    R, groups = found.R.copy(), dict[int, list[int]]()
    for place, name in enumerate(base.kept):
        column = base.robot.layout.column(name)
        if column.is_friction and not BY_SYMBOL[column.symbol].of_position:
            groups.setdefault(column.joint, []).append(place)
    for places in groups.values():
        R[:, places] = np.linalg.qr(R[:, places])[0]
    return condition_of(R)


def excitation_notices(robot: Robot, base: BaseMap, found: Solution) -> list[Notice]:
    """Return what a reader should know about the motion: poor, which parameters are weak, what would help."""
    notices: list[Notice] = []
    if found.condition > _POOR:
        sizes = np.linalg.norm(found.R, axis=0)  # zero for what no motion shows
        _, _, V = np.linalg.svd(found.R / np.where(sizes > 0, sizes, 1.0))
        names = [base.names[k] for k in np.argsort(-np.abs(V[-1]))[:3]]
        together = condition_together(base, found)
        if together <= _POOR:
            text = (
                f"the motion hardly separates {', '.join(names)} (condition number {found.condition:.3g}; "
                f"{together:.3g} with the friction of each joint taken as a whole)"
            )
            notices.append(ALIKE(text, condition=together, parameters=names))
        else:
            text = (
                f"excitation is poor: condition number {found.condition:.3g} (good: below {_POOR:g}); the motion "
                f"hardly separates {', '.join(names)}"
            )
            notices.append(POOR(text, condition=found.condition, parameters=names))
    relative = np.sqrt(np.diag(found.covariance)) / np.maximum(np.abs(found.beta), 1e-300)
    weak = [base.names[k] for k in np.argsort(-relative) if relative[k] > _WEAK]
    if weak:
        shown = ", ".join(weak[:6]) + (f" and {len(weak) - 6} more" if len(weak) > 6 else "")
        text = f"weakly determined (standard deviation above {100 * _WEAK:g} % of the value): {shown}"
        notices.append(WEAK(text, parameters=weak))
    advice = advise(robot, base, found.R, found.sigma) if notices else None
    if advice is not None and advice.before > _SPREAD:
        now = f"by {advice.before:.2g} times its noise" if advice.before < 1e4 else "without bound"
        text = (
            f"most would be gained by {advice.motion}. The weakest combination ({', '.join(advice.names)}) spreads the "
            f"predicted torque {now}; after such a run by {advice.after:.2g} times"
        )
        moving = [robot.joint_names[joint] for joint in advice.joints]
        notices.append(MOTION(text, motion=advice.motion, joints=moving, before=advice.before, after=advice.after))
    return notices


def advise(robot: Robot, base: BaseMap, R: Array, sigma: Array) -> Advice | None:
    """Return the motion that lowers the uncertainty of the predicted torque most; None where there is nothing to say.

    Terms that bend friction are taken as known: they are a curve over the log's own speeds, and what a cubic term would
    be at eight times those is no fault of the motion.

    Args:
        robot: The robot.
        base: Its base parameters.
        R: (b, b) triangle of the data in units of their noise.
        sigma: Noise of each joint's torque (n,).
    """
    if not base.rank or robot.implicit_loops or robot.formulas:
        return None
    states = random_states(robot, units_of(robot), _STATES, np.random.default_rng(0))
    lower, upper = _limits(robot)
    inside = lower + (upper - lower) * (states.q - states.q.min(axis=0)) / np.maximum(np.ptp(states.q, axis=0), 1e-300)
    everywhere = _rows(robot, base, inside, _FAST * states.dq, _FAST * states.ddq, sigma)
    tried = list(_candidates(robot))
    q, dq, ddq = (np.concatenate([motion[k] for *_, motion in tried]) for k in range(3))
    Y = _rows(robot, base, q, dq, ddq, sigma).reshape(len(tried), -1, base.rank)
    columns = [base.robot.layout.column(name) for name in (base.kept if base.rows is None else ())]
    known = [place for place, column in enumerate(columns) if column.symbol in CURVED]
    R, everywhere, Y = (np.delete(table, known, axis=-1) for table in (R, everywhere, Y))
    size = np.where((norms := np.linalg.norm(everywhere, axis=0)) > 0, norms, 1.0)
    information = (R / size).T @ (R / size)
    judged = np.asarray(np.linalg.qr(everywhere / size / np.sqrt(_STATES * robot.n), mode="r"))
    # what no motion shows must not hide the rest: a faint floor, a millionth of what the data know best
    floor = 1e-12 * max(float(np.max(np.diag(information))), 1e-300) * np.eye(len(size))
    before, directions = _weakest(judged, information + floor)
    scale = np.sqrt(_WORTH / _SAMPLES) / size
    # one joint is easier to move than two, if it helps about as much
    effort = np.array([_EFFORT ** (len(joints) - 1) for joints, *_ in tried])
    # what is left along the weakest directions alone is a lower bound: most motions need no more than that
    seen = Y @ (scale[:, None] * directions / before)
    shown = np.linalg.eigvalsh(np.diag(before**-2.0) + np.swapaxes(seen, 1, 2) @ seen)
    bounds = effort / np.sqrt(shown[:, 0] + 1e-12 * shown[:, -1])  # rounding does not make them larger
    best, after = 0, np.inf
    for number in np.argsort(bounds).tolist():
        if bounds[number] > effort[best] * after:
            break
        added = Y[number] * scale
        halves = np.linalg.solve(np.linalg.cholesky(information + floor + added.T @ added), judged.T)
        spread = float(np.sqrt(np.linalg.eigvalsh(halves @ halves.T)[-1]))
        if (effort[number] * spread, number) < (effort[best] * after, best):
            best, after = number, spread
    joints, fast, q, _ = tried[best]
    weakest = np.delete(np.array(base.names), known)[np.argsort(-np.abs(directions[:, 0]))[:3]]
    return Advice(tuple(weakest.tolist()), _words(robot, joints, fast, q), joints, fast, q, float(before[0]), after)


def _weakest(judged: Array, information: Array) -> tuple[Array, Array]:
    """Return the largest spreads of the torque along one direction each (k,), over its noise, and those (b, k)."""
    L = np.linalg.cholesky(information)
    _, s, Vt = np.linalg.svd(np.linalg.solve(L, judged.T).T, full_matrices=False)
    return s[:_DIRECTIONS], np.linalg.solve(L.T, Vt[:_DIRECTIONS].T)


def _rows(robot: Robot, base: BaseMap, q: Array, dq: Array, ddq: Array, sigma: Array) -> Array:
    return np.asarray((steady_regressor(robot, base, q, dq, ddq) / sigma[:, None]).reshape(-1, base.rank))


def _limits(robot: Robot) -> tuple[Array, Array]:
    """Return where joints may go (n,), (n,): their limits, and not more than a half turn or two lengths each way."""
    joints = [robot.joints[index] for index in robot.independent]
    reach = np.array([np.pi if joint.turns else 2 * units_of(robot).length for joint in joints])
    lower = np.array([joint.limits.lower for joint in joints])
    upper = np.array([joint.limits.upper for joint in joints])
    bounded = np.isfinite(lower) & np.isfinite(upper)
    middle = np.where(bounded, np.where(bounded, lower, 0.0) + np.where(bounded, upper, 0.0), 0.0) / 2
    return np.maximum(lower, middle - reach), np.minimum(upper, middle + reach)


def _candidates(robot: Robot) -> Iterator[tuple[tuple[int, ...], bool, Array, tuple[Array, Array, Array]]]:
    """Yield (joints that move, fast, position, (q, dq, ddq) each (_SAMPLES, n)) of every motion that is tried."""
    lower, upper = _limits(robot)
    speeds = units_of(robot).speeds
    rng = np.random.default_rng(1)
    shares = [np.full(robot.n, 0.5), *rng.uniform(0.1, 0.9, (_PLACES - 1, robot.n))]
    phase = 2 * np.pi * (np.arange(_SAMPLES) + 0.5) / _SAMPLES
    groups = [(joint,) for joint in range(robot.n)] + [(joint, joint + 1) for joint in range(robot.n - 1)]
    for share, joints, fast in product(shares, groups, (True, False)):
        middle = lower + (upper - lower) * share
        q, dq, ddq = np.tile(middle, (_SAMPLES, 1)), *np.zeros((2, _SAMPLES, robot.n))
        for order, joint in enumerate(joints):  # neighbours move at a quarter of a period from each other
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
    shown = [f"{np.degrees(value):.0f}°" if turning else f"{value:.2f} m" for value, turning in zip(q, turns)]
    named = enumerate(zip(robot.joint_names, shown))
    resting = [f"{name!r} at {value}" for place, (name, value) in named if place not in joints]
    return f"{kind} of joint{'s' * (len(joints) > 1)} {moving}{', with ' * bool(resting)}{', '.join(resting)}"


class Delay(NamedTuple):
    """How late torques are, s."""

    delay: float
    std: float
    share: float  # of the residual's power that it explains
    is_sure: bool  # blocks of time and joints agree


def torque_delay(robot: Robot, base: BaseMap, recording: Recording, beta: Array, sigma: Array) -> Delay:
    """Return how late torques are.

    To first order tau(t - delay) = tau - delay dtau/dt: the slope of the model's torque is one more column beside those
    of the base parameters beta (b,), which the slope is computed from; sigma (n,) is the noise of each joint. Friction
    that the model lacks has columns here, too. What is near reversals is not asked. Noise of accelerations is large in
    the slope of the model's torque and would make delays look smaller: the slope of the measured torque, whose noise is
    another, is its instrument. The standard deviation holds how much blocks of time differ, and joints.
    """
    q, dq, ddq, tau = signals_of(recording, "q", "dq", "ddq", "tau")
    slopes, rows = np.zeros((2, *q.shape)), slice(None, None, max(1, len(recording) // _ENOUGH))
    states, motion = recording.telemetry.get(STATES), (q[rows], dq[rows], ddq[rows])
    Y = steady_regressor(robot, base, *motion, None if states is None else states[rows])
    moved = (q, dq, ddq) if states is None else (q, dq, ddq, states)
    # the whole regressor of a long recording would be gigabytes
    predicted = Y @ beta if rows.step == 1 else base_functions(robot, base).torque(moved, beta)
    for begin, end in pairwise([*recording.starts, len(recording)]):
        if end - begin > 2:
            both = np.stack([predicted[begin:end], tau[begin:end]])
            slopes[:, begin:end] = np.gradient(both, recording.t[begin:end], axis=1)
    rubs, sliding = _friction_lacking(robot, *motion), ~_near_reversals(robot, recording)[rows]
    columns = np.concatenate([Y, rubs], axis=2)
    W = (columns / sigma[:, None] * sliding[..., None]).reshape(-1, columns.shape[-1])
    parts = (tau - predicted)[rows], -slopes[0][rows], -slopes[1][rows]
    left, slope, other = _left_of(W, np.stack([(part / sigma * sliding).ravel() for part in parts], axis=1)).T
    strength, count = float(other @ slope), int(np.sum(sliding))
    if not strength > 0 or count < _LEFT * (W.shape[1] + 1):
        return Delay(0.0, np.inf, 0.0, False)
    pull = other / strength  # of each row on the delay
    delay = float(pull @ left)
    residual = (left - delay * slope).reshape(-1, robot.n)  # neither delay nor lacking friction is noise
    length, _ = block_length(residual, np.asarray(recording.t)[rows], len(residual))
    scores = pull.reshape(-1, robot.n) * residual
    sums = block_sums([(scores.sum(axis=1, keepdims=True), False)], length)
    white = np.array([[float(pull @ pull) * float(np.sum(residual**2)) / count]])
    variance, _ = block_covariance(np.eye(1), sums, white, count - W.shape[1])
    # a bus or a filter makes all joints late alike: joints that disagree show that something else stands behind it
    apart = float(np.sqrt(robot.n / max(1, robot.n - 1) * np.sum(scores.sum(axis=0) ** 2)))
    over_time = float(np.sqrt(variance[0, 0]))
    is_sure = abs(delay) > max(_SURE * over_time, _AGREED * apart)
    power = delay**2 * strength  # of both slopes, whose noise has nothing in common
    explained = power / max(power + float(np.sum(residual**2)), 1e-300)
    return Delay(delay, max(over_time, apart), min(explained, 1.0), is_sure)


def _left_of(W: Array, values: Array) -> Array:
    """Return what columns W (rows, c) leave of values (rows, k) by least squares."""
    products = W.T @ W
    scale = np.where((sizes := np.sqrt(np.diag(products))) > 0, sizes, 1.0)
    squares, vectors = np.linalg.eigh(products / np.outer(scale, scale))
    known = squares > _OPEN * squares[-1]
    vectors = (vectors / scale[:, None])[:, known] / np.sqrt(squares[known])
    return np.asarray(values - W @ (vectors @ (vectors.T @ (W.T @ values))))


def sliding_noise(robot: Robot, base: BaseMap, recording: Recording, beta: Array) -> Array:
    """Return the root mean square (n,) of what base parameters leave of the torques where drives slide."""
    rows = slice(None, None, max(1, len(recording) // _ENOUGH))
    q, dq, ddq, tau = (signal[rows] for signal in signals_of(recording, "q", "dq", "ddq", "tau"))
    states, sliding = recording.telemetry.get(STATES), ~_near_reversals(robot, recording)[rows]
    Y = steady_regressor(robot, base, q, dq, ddq, None if states is None else states[rows])
    squares = np.sum((tau - Y @ beta) ** 2 * sliding, axis=0)
    return np.asarray(np.sqrt(np.maximum(squares / np.maximum(np.sum(sliding, axis=0), 1), 1e-300)))


def _friction_lacking(robot: Robot, q: Array, dq: Array, ddq: Array) -> Array:
    """Return columns (N, n, k) of friction that the model may lack: smooth functions of a joint's speed, and its load.

    Where it has no friction terms, viscous and Coulomb friction and offset are among them.
    """
    loads = np.zeros((2, *q.shape))  # in motion, and at rest
    if not robot.formulas and not np.isnan(robot.parameters).any():
        own, phi = list(robot.independent), robot.parameters
        loads = np.abs([loads_of_motion(robot, q, k * dq, k * ddq, phi)[:, own] for k in (1.0, 0.0)])
    found = []
    for place, joint in enumerate(robot.independent):
        speed = dq[:, place]
        over = speed / max(float(np.sqrt(np.mean(speed**2))), 1e-300)
        sign = np.tanh(over / _REVERSAL)
        rubs = [np.tanh(over / _FALLS), over * np.abs(over), *(loads[..., place] * sign)]
        rubs += [] if robot.joints[joint].drive.friction else [speed, sign, np.ones(len(dq))]
        for column in rubs:
            found.append(np.zeros(dq.shape))
            found[-1][:, place] = column
    return np.stack(found, axis=-1)


def _near_reversals(robot: Robot, recording: Recording) -> NDArray[np.bool_]:
    """Return whether a drive that acts on a joint is near a reversal or a rest, sample by sample (N, n).

    After it friction takes some travel to be what it was; what a low-pass spreads on one side alone looks like a delay.
    """
    cutoff, joints = recording.info.get("cutoff"), range(len(robot.joints))
    spread = _SPREAD_BY / cutoff if isinstance(cutoff, int | float) and cutoff > 0 else 0.0
    near = np.zeros((len(recording), len(joints)), dtype=bool)
    for begin, end in pairwise([*recording.starts, len(recording)]):
        t = np.asarray(recording.t[begin:end])
        for joint, path in enumerate(drive_paths(robot, recording.q[begin:end], joints).T):
            turns = np.flatnonzero(np.diff(np.sign(np.diff(path)))) + 1
            passed = np.searchsorted(turns, np.arange(len(path)), side="right")
            short = min(_TURNED, _SHORT * float(np.ptp(path)))
            for turn in np.append(0, turns)[passed], np.append(turns, len(path) - 1)[passed]:
                near[begin:end, joint] |= (np.abs(path - path[turn]) < short) | (np.abs(t - t[turn]) < spread)
    acting = [[own for own in joints if joint in drive_ratios(robot, own)] for joint in robot.independent]
    return np.stack([near[:, own].any(axis=1) for own in acting], axis=1)


def whole_delay(
    robot: Robot, base: BaseMap, recording: Recording, found: Solution, first: float
) -> tuple[float, float]:
    """Return a delay and its standard deviation, s: `torque_delay` finds it to first order, and then what is left."""
    delay, std = first, 0.0
    for _ in range(_ROUNDS):
        rest, std, *_ = torque_delay(robot, base, moved_torques(recording, delay), found.beta, found.sigma)
        delay += rest
        if not abs(rest) > std:
            break
    return delay, std


def delay_notices(robot: Robot, base: BaseMap, recording: AnyRecording, found: Solution) -> list[Notice]:
    """Return a notice where torques are clearly late or early, and it matters."""
    told = {"dq", "ddq", "tau"} <= set(recording.signals) and len(recording) >= 50
    if not (told and isinstance(recording, Recording)) or robot.implicit_loops:
        return []
    delay, std, share, is_sure = torque_delay(robot, base, recording, found.beta, found.sigma)
    if not (is_sure and share > _MATTERS):
        return []
    word = "late" if delay > 0 else "early"
    text = (
        f"torques seem {1e3 * abs(delay):.2g} ms {word} against positions (± {1e3 * std:.1g} ms; {100 * share:.0f} % "
        "of the residual's power)"
    )
    return [DELAY(text, delay=delay, std=std, share=share)]
