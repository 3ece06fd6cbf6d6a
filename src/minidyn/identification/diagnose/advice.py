"""Which motion would lower the uncertainty of predicted torques most.

What counts is the torque: the weakest combination of base parameters is the one whose uncertainty
spreads the predicted torque most, over states all through the workspace. Motions that a user can
make are tried: one joint, or two neighbours, in fast reversals or slow sweeps, the others at some
position. The one that lowers that spread most is named.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

import numpy as np

from minidyn.arrays import Array
from minidyn.base.base_map import BaseMap
from minidyn.base.numeric.samples import random_states, units_of
from minidyn.identification.diagnose.thresholds import FACTOR
from minidyn.identification.rows.base_rows import shown_parameters, steady_regressor
from minidyn.model.drives import CURVED
from minidyn.model.robot import Robot

STATES = 150  # size: of the workspace, where the torque's uncertainty is computed
MOTION_SAMPLES = 24  # size: of a motion that is tried
PLACES = 3  # size: positions of the joints that rest
DIRECTIONS = 12  # size: the weakest, along which all motions are compared first
ROUNDING = 1e-14  # rounding: of the largest square of singular values
RECORDED_SAMPLES = 200.0
"""Independent samples that a recording of such a motion would give."""
FAST, SLOW = 0.4, 0.05
"""Speeds of reversals and sweeps over L / T: about 2 and 0.25 rad/s for an arm."""


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
    everywhere = torque_rows(robot, base, *workspace_states(robot), sigma)
    tried = list(_candidates(robot))
    q, dq, ddq = (np.concatenate([motion[k] for *_, motion in tried]) for k in range(3))
    Y = torque_rows(robot, base, q, dq, ddq, sigma).reshape(len(tried), -1, base.rank)
    columns = [base.robot.layout.column(name) for name in (base.kept if base.rows is None else ())]
    is_open = shown_parameters(robot, base)
    is_open[[place for place, column in enumerate(columns) if column.symbol in CURVED]] = False
    R, everywhere, Y = (table[..., is_open] for table in (R, everywhere, Y))
    size = np.where((norms := np.linalg.norm(everywhere, axis=0)) > 0, norms, 1.0)
    information = (R / size).T @ (R / size)
    # what no motion shows must not hide the rest: a faint floor, a millionth of what the data know
    # best
    floor = 1e-12 * max(float(np.max(np.diag(information))), 1e-300)
    information += floor * np.eye(len(size))
    judged = np.asarray(np.linalg.qr(everywhere / size / np.sqrt(STATES * robot.n), mode="r"))
    before, directions = _weakest(judged, information)
    if not before.max(initial=0.0) > 0:  # nothing that is left acts on any torque
        return None
    added = Y * (np.sqrt(RECORDED_SAMPLES / MOTION_SAMPLES) / size)
    # one joint is easier to move than two, if it helps about as much
    effort = np.array([FACTOR ** (len(joints) - 1) for joints, *_ in tried])
    best, after = _best(judged, information, added, effort, before, directions)
    joints, fast, q, _ = tried[best]
    weakest = np.array(base.names)[is_open][np.argsort(-np.abs(directions[:, 0]))[:3]]
    words = _words(robot, joints, fast, q)
    return Advice(tuple(weakest.tolist()), words, joints, fast, q, float(before[0]), after)


def _weakest(judged: Array, information: Array) -> tuple[Array, Array]:
    """Return the largest spreads of the torque along one direction each (k,), over its noise, and
    those (b, k).
    """
    L = np.linalg.cholesky(information)
    _, s, Vt = np.linalg.svd(np.linalg.solve(L, judged.T).T, full_matrices=False)
    return s[:DIRECTIONS], np.linalg.solve(L.T, Vt[:DIRECTIONS].T)


def _best(
    judged: Array,
    information: Array,
    added: Array,
    effort: Array,
    before: Array,
    directions: Array,
) -> tuple[int, float]:
    """Return the motion whose rows (motions, N, b), added to the information (b, b), leave the
    least spread of the torque for its effort (motions,), and that spread.

    What a motion leaves along the weakest directions alone is a lower bound: most motions need no
    more than that.
    """
    before = np.maximum(before, ROUNDING * before[0])
    along = added @ (directions / before)
    shown = np.linalg.eigvalsh(np.diag(before**-2.0) + np.swapaxes(along, 1, 2) @ along)
    # rounding does not make the bounds larger
    bounds = effort / np.sqrt(shown[:, 0] + 1e-12 * shown[:, -1])
    best, after = 0, np.inf
    for number in np.argsort(bounds).tolist():
        if bounds[number] > effort[best] * after:
            break
        rows = added[number]
        halves = np.linalg.solve(np.linalg.cholesky(information + rows.T @ rows), judged.T)
        spread = float(np.sqrt(np.linalg.eigvalsh(halves @ halves.T)[-1]))
        if (effort[number] * spread, number) < (effort[best] * after, best):
            best, after = number, spread
    return best, after


def torque_rows(
    robot: Robot, base: BaseMap, q: Array, dq: Array, ddq: Array, sigma: Array
) -> Array:
    """Return the regressor of states (N n, b) in units of each joint's noise (n,)."""
    return np.asarray(
        (steady_regressor(robot, base, q, dq, ddq) / sigma[:, None]).reshape(-1, base.rank)
    )


def workspace_states(robot: Robot) -> tuple[Array, Array, Array]:
    """Return states (N, n) each all through the workspace."""
    states = random_states(robot, units_of(robot), STATES, np.random.default_rng(0))
    lower, upper = _limits(robot)
    inside = lower + (upper - lower) * (states.q - states.q.min(axis=0)) / np.maximum(
        np.ptp(states.q, axis=0), 1e-300
    )
    return inside, FAST * states.dq, FAST * states.ddq


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
    """Yield (joints that move, fast, position, (q, dq, ddq) each (N, n)) of every motion that is
    tried.
    """
    lower, upper = _limits(robot)
    speeds = units_of(robot).speeds
    rng = np.random.default_rng(1)
    shares = [np.full(robot.n, 0.5), *rng.uniform(0.1, 0.9, (PLACES - 1, robot.n))]
    phase = 2 * np.pi * (np.arange(MOTION_SAMPLES) + 0.5) / MOTION_SAMPLES
    groups = [(joint,) for joint in range(robot.n)] + [
        (joint, joint + 1) for joint in range(robot.n - 1)
    ]
    for share, joints, fast in product(shares, groups, (True, False)):
        middle = lower + (upper - lower) * share
        q, dq, ddq = np.tile(middle, (MOTION_SAMPLES, 1)), *np.zeros((2, MOTION_SAMPLES, robot.n))
        for order, joint in enumerate(
            joints
        ):  # neighbours move at a quarter of a period from each other
            middle[joint] = (lower[joint] + upper[joint]) / 2
            turn = phase * (1 + order) + order * np.pi / 2
            reach = (upper[joint] - lower[joint]) / 2 * (0.15 if fast else 0.9)
            rate = (FAST if fast else SLOW) * speeds[joint] / max(reach, 1e-9)
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
