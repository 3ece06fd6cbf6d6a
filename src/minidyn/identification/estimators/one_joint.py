"""Identification one joint at a time.

A chain of small least squares problems, from the last joint to the first. While one joint moves and
the others are locked, the torque of joint j holds the constants of joint j, few of them, and those
of the joints behind it, known by then. What is not known exactly of those goes into the covariance
of what is found next.

Errors of positions, speeds and accelerations act on the torques of all joints at once, along the
whole chain, and are larger where the motion is faster. Their squares make columns too long and
constants too small: what the noise of the moving joint's encoder adds to the normal equations is
known (`noise_gain`) and is taken out. The covariance is not that of equal and independent noise
either: residuals of all joints at one instant are carried through the chain together, and their
sums over blocks of time say how far the constants may be off. Few blocks say it with a scatter of
their own, so that stated deviations are too small as often as too large: as far as their sums are
what noise of one size in each run explains, that noise counts. Locked joints are replaced by their
means before anything is filtered; what the means are off by is the same for a whole run, which no
residual shows, and is added.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from minidyn.arrays import Array, carried, left_open, single_thread
from minidyn.base.base_map import BaseMap
from minidyn.base.equivalence import equivalence
from minidyn.base.numeric.samples import units_of
from minidyn.dynamics.functions import inverse_dynamics
from minidyn.errors import MinidynError
from minidyn.excitation.one_joint_equations import Equations
from minidyn.formats.load import RobotLike, as_robot
from minidyn.identification.estimate import Estimate
from minidyn.identification.estimate_file import BodyConstants
from minidyn.identification.estimators.block_covariance import (
    alike_blocks,
    block_covariance,
    block_length,
    memory_of,
    settled,
)
from minidyn.identification.estimators.held_out import folds_of
from minidyn.identification.estimators.method import Method, Options, Solution
from minidyn.identification.estimators.solve import SHOWN
from minidyn.identification.estimators.torque_scatter import torque_scatter
from minidyn.identification.rows.triangles import assemble
from minidyn.model.geometry import TOLERANCE
from minidyn.model.robot import Robot
from minidyn.notices import Notice, warning
from minidyn.recording.lazy import AnyRecording, concatenate
from minidyn.recording.prepare.signals import noise_gain
from minidyn.recording.ready import (
    RecordingLike,
    as_recording,
    in_robot_order,
    ready,
    with_logged_joints,
)
from minidyn.recording.recording import SKETCH, Recording
from minidyn.recording.sketch import sketch_of, sketched

NAME = "one-joint"
PLACE_ERROR = "place_error"
"""Key of a recording's info.

Standard deviation (n,) of where joints are said to be locked, rad or m.
"""

_STILL = 0.1  # of the mover's span: another joint that covers more of it moves too
_LEAST = 1e-6  # rad or m: less is no motion
_OPEN = 1e-7  # rounding: smaller singular values, with unit columns, leave a combination open
_STEP = 1e-4  # formula: of differences by wrong places of locked joints, rad or m
# share of what encoders' noise does that is not known: its variance is a median over a spectrum
_NOISE_UNSURE = 0.1
_MOST_NOISE = 0.3  # share of a joint's normal equations that may be noise: more is not known
_LEAST_NOISE = 0.01  # share of a torque's variance that is its own noise, at least
_PURPOSE = "identification one joint at a time"

NO_SAMPLE_OVER = warning(
    "one_joint.no_sample_over",
    "Runs have as many samples as a joint has constants: their deviations are not known.",
    "Record longer runs, at a higher rate.",
)


@single_thread()
def identify_one_joint(
    robot: RobotLike,
    runs: RecordingLike | Sequence[RecordingLike],
    *,
    tolerance: float = TOLERANCE,
) -> Estimate:
    """Return the constants of a chain from recordings in which one joint moves at a time.

    :func:`minidyn.one_joint_plan` says which runs are needed; more are welcome, in any order. Which
    joint moves, and where the others are locked, is read from the positions. Locked joints must be
    held by their drives, so that their torque is measured; their friction at rest is not modelled.
    `md.identify(robot, runs, "one-joint")` does the same and goes on to a physically consistent
    model.

    Args:
        robot: A serial chain, its built-in name or path; its parameters are not read.
        runs: Recordings with q and tau of all joints; one with several runs counts as several.
            Without dq and ddq they are prepared; those on disk are read. A path is read as
            `read_recording` does.
        tolerance: Axes that are special within this are exactly so, as in `base_parameters`.

    Returns:
        The estimate: its base parameters are the minimal linear combinations (method "mlc", version
        1992), its condition is the worst of all joints, and `bodies` has the constants joint by
        joint.

    Raises:
        Unsupported: Trees, loops, joints that follow others, coupled drives.
        MinidynError: Two joints move at once, or the runs leave a constant open; the message names
            it.

    Implements: Lin1992 Algorithm 1, Algorithm 2.
    Differs: Corrected as in ERRATA D; all runs in which a joint before it, or itself, moves count
        for a joint, its mass or U33 included; errors of the joints behind are carried on as
        covariances; rotor inertia and friction.
    """
    robot = as_robot(robot)
    whole = runs if isinstance(runs, list | tuple) else [runs]
    read = [as_recording(run, robot, argument="runs") for run in whole]
    robot = with_logged_joints(robot, read[0]) if read else robot
    equations = Equations.of(robot, "identify_one_joint", tolerance)
    logs = [sketched(log, robot.joint_names) for log in read]
    if not logs:
        raise MinidynError(_missing(robot, equations.n - 1, equations.names(equations.n - 1)))
    ordered = [
        in_robot_order(robot, log.load(), name=f"recording {k}")
        for k, log in enumerate(logs, start=1)
    ]
    for number, log in enumerate(ordered, start=1):
        if log.tau is None:
            raise MinidynError(f"{_PURPOSE} needs measured torques; recording {number} has none")
    data = ready_one_joint(robot, concatenate(ordered))
    found = _chain(equations, data)
    base = equations.base
    regrouped = np.nan_to_num(robot.parameters[list(robot.layout.indices(base.regrouped))])
    fitted = replace(robot.with_parameters(base.lift(found.beta, regrouped)), notices=())
    record: dict[str, Any] = {"method": NAME, **found.record}
    if (sketch := sketch_of(data)) is not None:
        record[SKETCH] = sketch.to_json()
    record |= torque_scatter(data, fitted, fitted, found.sigma, len(found.beta))
    values = found.beta, found.covariance, found.sigma, NAME, False, found.condition, len(data)
    notices = (*data.notices, *_no_sample_over(found))
    return Estimate(fitted, base, *values, notices, record)


def one_joint(robot: Robot, base: BaseMap, recording: AnyRecording, options: Options) -> Solution:
    """Estimate base parameters from the constants that one joint at a time shows."""
    data = recording.load()
    with single_thread():
        equations = Equations.of(robot, f'method "{NAME}"', base.tolerance)
        found = _chain(equations, data)
        change = equivalence(equations.base, replace(base, robot=equations.base.robot))
        beta = np.asarray(change @ found.beta)
        sizes = np.sqrt(np.mean(np.square(np.asarray(data.tau)), axis=0))
        scale = np.sqrt(found.memory) * np.where(np.isfinite(found.sigma), found.sigma, sizes)
        scale = np.maximum(scale, 1e-9 * np.maximum(sizes, 1e-300))
        triangles = assemble(robot, base, data, threads=options.threads, progress=options.progress)
        R = np.linalg.qr(np.linalg.inv(change @ found.noise_root(scale)))[1]
    return Solution(
        beta,
        carried(change, found.covariance),
        found.sigma,
        found.condition,
        R,
        R @ beta,
        float(np.sum(triangles.squares(beta) / scale**2)),
        partial(folds_of, triangles, scale),
        record=found.record,
        notices=_no_sample_over(found),
    )


def ready_one_joint(robot: Robot, recording: AnyRecording) -> Recording:
    """Return a recording in which one joint moves in each run and the others stand still exactly,
    made ready.

    Positions of locked joints become their means before they are filtered: their noise is no
    motion.

    Raises:
        MinidynError: In a run no joint moves, or several; the message says which run moves which
            joints.
    """
    log = in_robot_order(robot, recording.load())
    moving = _moving(robot, log)
    if any(len(joints) != 1 for joints in moving):
        raise MinidynError(_not_one(robot, moving))
    held, errors = _held(log, moving)
    made = ready(robot, held, purpose=_PURPOSE, in_memory=True)
    return replace(
        made, info={**made.info, PLACE_ERROR: np.sqrt(np.mean(errors**2, axis=0)).tolist()}
    )


def locked_at_means(robot: Robot, recording: AnyRecording) -> Recording:
    """Return a recording in which locked joints stand still exactly, at their means, in each run
    where one joint moves: as the fit had it.

    Otherwise noise of their encoders is motion to the model, and turns its Coulomb friction.
    """
    log = in_robot_order(robot, recording.load())
    return _held(log, _moving(robot, log))[0]


def _moving(robot: Robot, log: Recording) -> list[NDArray[np.intp]]:
    """Return which joints move in each run."""
    spans = [_span(robot, run.q) for run in log.runs]
    return [
        np.flatnonzero((span > _LEAST) & (span > _STILL * span.max(initial=0.0))) for span in spans
    ]


def _held(log: Recording, moving: Sequence[NDArray[np.intp]]) -> tuple[Recording, Array]:
    """Return a recording with joints that are locked at their means, and by how much the means of
    each run may be off (runs, n).

    Runs in which several joints move are as they were.
    """
    signals: dict[str, Any] = {
        name: np.array(getattr(log, name)) for name in ("q", "dq", "ddq") if name in log.signals
    }
    errors = np.zeros((len(moving), log.n))
    for number, ((begin, end), movers) in enumerate(zip(pairwise([*log.starts, len(log)]), moving)):
        if len(movers) != 1:
            continue
        still = np.arange(log.n) != movers[0]
        q = signals["q"][begin:end]
        mean = np.nanmean(q, axis=0)
        errors[number, still] = _mean_error(np.nan_to_num(q - mean))[still]
        q[:, still] = mean[still]
        for name in ("dq", "ddq"):
            if name in signals:
                signals[name][begin:end, still] = 0.0
    return replace(log, **signals), errors


def _span(robot: Robot, q: Array) -> Array:
    """How far each joint moves in a run (n,), a lone spike left out.

    In units of the robot, so that slides compare.
    """
    units = units_of(robot)
    if len(q) < 2:
        return np.zeros(robot.n)
    low, high = np.nanpercentile(q, (1.0, 99.0), axis=0)
    return np.asarray((high - low) / (units.speeds * units.time))


def _mean_error(noise: Array) -> Array:
    """Standard deviation of the mean (n,) of a signal (N, n), given without its mean.

    Neighbours may repeat others.
    """
    memory = memory_of(noise) if len(noise) > 8 else np.ones(noise.shape[1])
    return np.asarray(np.sqrt(memory * np.mean(noise**2, axis=0) / max(len(noise) - 1, 1)))


def _not_one(robot: Robot, moving: Sequence[NDArray[np.intp]]) -> str:
    said = []
    for number, joints in enumerate(moving[:SHOWN], start=1):
        names = " and ".join(repr(robot.joint_names[joint]) for joint in joints)
        said.append(f"run {number} moves {names or 'no joint'}")
    more = f"; and {len(moving) - SHOWN} more runs" if len(moving) > SHOWN else ""
    return (
        "one joint at a time: expected runs in each of which one joint moves and the others stay; "
        f"{'; '.join(said)}"
        f"{more}. minidyn plan (md.one_joint_plan) lists the runs to record, one log each; for "
        "logs in which all "
        'joints move use another method, such as "wls"'
    )


# -------------------------------------------------------------------- the chain


@dataclass(frozen=True, eq=False)
class _Chain:
    """The constants, and how errors of the torques of all joints move them."""

    equations: Equations
    edges: tuple[int, ...]  # first sample of each run, and the number of samples
    movers: tuple[int, ...]  # of each run
    inverses: dict[
        int, Array
    ]  # of each joint with constants: (p, T), zero where its equations are not used
    carried: dict[int, Array]  # (p, behind): what errors of the joints behind do
    beta: Array
    covariance: Array
    sigma: Array
    memory: float  # samples that repeat each other
    condition: float
    record: dict[str, Any]

    def moved(self, errors: Array, length: int = 0) -> Array:
        """What errors of the torques (T, n) do to the constants.

        Sums (blocks, b) over so many samples of a run. Length 0: over whole runs.
        """
        starts = [
            k
            for begin, end in pairwise(self.edges)
            for k in range(begin, end, length or max(end - begin, 1))
        ]
        found = np.zeros((len(starts), self.equations.base.rank))
        for joint in reversed(range(self.equations.n)):
            if joint in self.inverses:
                own, behind = _places(self.equations, joint)
                alone = np.add.reduceat(self.inverses[joint] * errors[:, joint], starts, axis=1)
                found[:, own] = alone.T - found[:, behind] @ self.carried[joint].T
        return found

    def noise_root(self, sigma: Array) -> Array:
        """L (b, b) with LLᵀ the covariance of the constants for independent noise of size (n,) or
        (T, n).
        """
        L = np.zeros((self.equations.base.rank, self.equations.base.rank))
        for joint, inverse in self.inverses.items():  # from the last to the first
            own, behind = _places(self.equations, joint)
            L[own] = -self.carried[joint] @ L[behind]
            L[np.ix_(own, own)] = np.linalg.qr((inverse * sigma[..., joint]).T)[1].T
        return L


def _places(equations: Equations, joint: int) -> tuple[list[int], list[int]]:
    """Places in beta of a joint's own constants and of those behind it."""
    return list(equations.own[joint]), [k for later in equations.own[joint + 1 :] for k in later]


def _chain(equations: Equations, data: Recording) -> _Chain:
    """Solve for the constants, from the last joint to the first."""
    robot, base, edges = equations.robot, equations.base, (*data.starts, len(data))
    tau = np.asarray(data.tau)
    runs = [(slice(begin, end), _mover(robot, data.q[begin:end])) for begin, end in pairwise(edges)]
    beta, sigma, least = np.zeros(base.rank), np.full(robot.n, np.nan), np.full(robot.n, np.nan)
    filtered = _memory(data)
    noise, still, bodies = np.zeros_like(tau), np.zeros_like(tau), list[BodyConstants]()
    inverses, carried = dict[int, Array](), dict[int, Array]()
    roots, unsure, share = _encoder_roots(data), np.zeros((robot.n, base.rank)), _NOISE_UNSURE
    for joint in reversed(range(equations.n)):
        own, behind = _places(equations, joint)
        if not own:
            continue
        names, label = equations.names(joint), robot.joint_names[joint]
        used = [(part, mover) for part, mover in runs if mover <= joint]
        if not used:
            raise MinidynError(_missing(robot, joint, names))
        rows = np.zeros((len(data), base.rank))
        spread = list[tuple[slice, int, Array, Array]]()
        for part, mover in used:
            motion = np.stack(
                [np.asarray(getattr(data, name))[part, mover] for name in ("q", "dq", "ddq")]
            )
            around = motion[:, None] + _around(roots[mover])[:, :, None]  # (3, points, N)
            made = equations.rows(mover, joint, data.q[part].mean(axis=0), *around.reshape(3, -1))
            rows[part], *others = made.reshape(around.shape[1], -1, base.rank)
            for ahead, back in zip(others[::2], others[1::2]):
                spread.append((part, mover, (ahead - back) / 2, (ahead + back) / 2 - rows[part]))
        seen = np.concatenate([np.arange(len(data))[part] for part, _ in used])
        inverse, condition = _inverse(rows[seen][:, own], names, robot, joint)
        inverses[joint] = np.zeros((len(own), len(data)))
        inverses[joint][:, seen] = inverse
        # E[Aᵀ(τ - Yβ)] = -Σ (DᵀDβ + AᵀSβ), D and S first and second differences over one standard
        # deviation
        excess = np.zeros((robot.n, len(own), base.rank))
        for part, mover, D, S in spread:
            excess[mover] += inverse @ inverse.T @ D[:, own].T @ D + inverses[joint][:, part] @ S
        total = excess.sum(axis=0)
        if np.abs(np.linalg.eigvals(total[:, own])).max() > _MOST_NOISE:
            share, total = 1.0, np.zeros_like(total)
        keep = np.linalg.inv(np.eye(len(own)) - total[:, own])
        inverses[joint] = keep @ inverses[joint]
        carried[joint] = inverses[joint] @ rows[:, behind] - keep @ total[:, behind]
        beta[own] = inverses[joint] @ tau[:, joint] - carried[joint] @ beta[behind]
        unsure[:, own] = share * (keep @ (excess @ beta).T).T - unsure[:, behind] @ carried[joint].T
        residual = tau[seen, joint] - rows[seen] @ beta
        variance, noise[seen, joint] = _noise(residual, rows[seen], len(own), filtered)
        sigma[joint] = np.sqrt(variance)
        shaken = sum(float(np.sum((D @ beta) ** 2)) for _, _, D, _ in spread) / len(seen)
        least[joint] = np.sqrt(np.maximum(variance - shaken, _LEAST_NOISE * variance))
        for part, _ in used:
            size = float(np.mean(noise[part, joint] ** 2))
            shaken = sum(
                float(np.mean((D @ beta) ** 2)) for where, _, D, _ in spread if where == part
            )
            still[part, joint] = np.sqrt(max(size - shaken, _LEAST_NOISE * size))
        values = dict(zip(names, beta[own].tolist()))
        bodies.append(BodyConstants(label, values, {}, condition, len(seen), float(sigma[joint])))
    movers = tuple(mover for _, mover in runs)
    worst = max((body.condition for body in bodies), default=1.0)
    found = _Chain(
        equations, edges, movers, inverses, carried, beta, np.zeros(0), sigma, 1.0, worst, {}
    )
    for part, _ in runs:  # what was not filtered here may have been elsewhere: each run says
        still[part] *= np.sqrt(filtered if filtered > 1.0 else memory_of(noise[part]))
    covariance, memory = _covariance(found, noise, least, still)
    covariance = covariance + _place_covariance(found, data) + unsure.T @ unsure
    covariance = left_open(covariance, ~np.isfinite(np.diag(covariance)))
    std = np.sqrt(np.diag(covariance))
    bodies = [
        replace(body, std={name: float(std[base.names.index(name)]) for name in body.values})
        for body in bodies
    ]
    record = {"runs": len(runs), "bodies": [asdict(body) for body in reversed(bodies)]}
    return replace(found, covariance=covariance, memory=memory, record=record)


def _no_sample_over(found: _Chain) -> tuple[Notice, ...]:
    """Return a notice that names the joints whose constants take all samples there are."""
    robot = found.equations.robot
    names = [robot.joint_names[joint] for joint in found.inverses if np.isnan(found.sigma[joint])]
    if not names:
        return ()
    text = (
        f"the constants of {', '.join(reversed(names))} take all samples: nothing shows their "
        "noise, and the deviations of what depends on it are infinite"
    )
    return (NO_SAMPLE_OVER(text, joints=names[::-1]),)


def _encoder_roots(data: Recording) -> Array:
    """Roots L (n, 3, 3) of the covariance LLᵀ of errors in q, dq and ddq from the noise of each
    joint's encoder.

    Zero where it is unknown: only preparation knows, and only where speeds are differences of
    positions.
    """
    known = data.info
    if not known.get("differentiated"):
        return np.zeros((data.n, 3, 3))
    gain = noise_gain(*(cast("Any", known[name]) for name in ("rate", "cutoff", "order")))
    noise = np.asarray(known["position_noise"], dtype=float)
    return np.asarray(noise[:, None, None] * np.linalg.cholesky(gain))


def _around(root: Array) -> Array:
    """Points (3, 7) around a state: itself, and one standard deviation ahead and back.

    Itself alone without noise.
    """
    return np.column_stack(
        [np.zeros(3), *(side * column for column in root.T for side in (1.0, -1.0) if root.any())]
    )


def _mover(robot: Robot, q: Array) -> int:
    return int(np.argmax(_span(robot, q)))


def _memory(data: Recording) -> float:
    """How many samples of white noise repeat each other after preparation's filter.

    1.0 where none is known.
    """
    known = data.info
    if not known.get("cutoff"):
        return 1.0
    rate, cutoff, order, every = (
        cast("Any", known[name]) for name in ("rate", "cutoff", "order", "decimate")
    )
    return max(1.0, 1.0 / (float(every) * float(noise_gain(rate, cutoff, order)[0, 0])))


def _covariance(found: _Chain, noise: Array, still: Array, even: Array) -> tuple[Array, float]:
    """The covariance (b, b) of the constants from the noise of all torques (T, n), and how many
    samples repeat others.

    Sums over blocks of time hold what repeats, what grows with the motion, and what all joints have
    in common. At least the noise of the torques themselves (`still`, standard deviations (n,))
    counts as independent; errors of accelerations have both signs within a short time and count
    less. What blocks say is weighed against independent noise of one size in each run, its memory
    in it (`even`, (T, n)).
    """
    b, total = found.equations.base.rank, len(noise)
    root = found.noise_root(found.sigma)
    white = root @ root.T
    if not np.isfinite(white).all():  # a joint without a sample over
        return white, 1.0
    begin, end = max(pairwise(found.edges), key=lambda edge: edge[1] - edge[0])
    length, _ = block_length(noise[begin:end], np.arange(float(end - begin)), total)
    least, root, sums = found.noise_root(still), found.noise_root(even), found.moved(noise, length)
    blocks, _ = block_covariance(np.eye(b), sums, least @ least.T, total * noise.shape[1])
    made = settled(blocks, root @ root.T, alike_blocks(sums.T))
    return made, max(1.0, float(np.mean(np.diag(made) / np.maximum(np.diag(white), 1e-300))))


def _place_covariance(found: _Chain, data: Recording) -> Array:
    """What wrong places of locked joints add to the covariance (b, b).

    The same error for a whole run.
    """
    robot = found.equations.robot
    parameters = found.equations.base.lift(found.beta)
    errors = np.asarray(data.info.get(PLACE_ERROR, np.zeros(robot.n)), dtype=float)
    P = np.zeros((len(found.beta), len(found.beta)))
    motion = np.asarray(data.dq), np.asarray(data.ddq)
    for joint in np.flatnonzero(errors > 0):
        step = np.zeros(robot.n)
        step[joint] = _STEP
        ahead, back = (
            inverse_dynamics(robot, data.q + side * step, *motion, parameters)
            for side in (1.0, -1.0)
        )
        locked = np.repeat([mover != joint for mover in found.movers], np.diff(found.edges))
        moved = found.moved(locked[:, None] * (ahead - back) / (2 * _STEP)) * errors[joint]
        P += moved.T @ moved
    return P


def _inverse(A: Array, names: Sequence[str], robot: Robot, joint: int) -> tuple[Array, float]:
    """The pseudo-inverse (p, N) of a joint's equations and their condition number."""
    scale = np.linalg.norm(A, axis=0)
    if len(A) < A.shape[1] or not np.all(scale > 0):
        silent = [name for name, size in zip(names, scale) if not size > 0]
        raise MinidynError(_missing(robot, joint, silent or names))
    U, values, V = np.linalg.svd(A / scale, full_matrices=False)
    if values[-1] < _OPEN * values[0]:
        share = np.abs(V[-1])
        raise MinidynError(
            _missing(
                robot, joint, [names[k] for k in np.argsort(-share) if share[k] > 0.1 * share.max()]
            )
        )
    return (V.T / values) @ U.T / scale[:, None], float(np.linalg.cond(A))


def _missing(robot: Robot, joint: int, names: Sequence[str]) -> str:
    text = f"the runs do not show {', '.join(names)} of joint {robot.joint_names[joint]!r}; "
    if set(names) <= {column.name for drive in robot.layout.drives for column in drive}:
        return (
            f"{text}for these terms of its drive the joint itself must move. md.one_joint_plan "
            "and minidyn plan, with the same friction and rotor_inertia, list the runs; or leave "
            "the terms out: friction=() and rotor_inertia=False (--friction none "
            "--no-rotor-inertia)"
        )
    return (
        f"{text}md.one_joint_plan(robot) lists the runs that do, and samples of a run must show "
        "its whole motion"
    )


def _noise(residual: Array, rows: Array, unknowns: int, memory: float) -> tuple[float, Array]:
    """Return (variance of a torque's noise, the part of the residual (N,) that is noise alone).

    Errors of the joints behind are in the residual too, but only in directions that their columns
    span; what lies outside is noise. Few samples may leave nothing outside: then the whole residual
    counts, which is too much. Rows (N, b) are the coefficients of all constants; so many of them
    were fitted. What is fitted is slow, and takes as many samples of the noise as repeat each
    other.
    """
    scale = np.linalg.norm(rows, axis=0)
    full = rows[:, scale > 0] / scale[scale > 0]
    explained, _, rank, _ = np.linalg.lstsq(full, residual, rcond=1e-10)
    over = len(residual) - memory * int(rank)
    if over > 0:
        alone = residual - full @ explained
        return float(alone @ alone) / over, alone * np.sqrt(len(residual) / over)
    over = len(residual) - unknowns
    return (float(residual @ residual) / over if over > 0 else float("nan")), residual


ONE_JOINT = Method(NAME, one_joint, make_ready=ready_one_joint, needs_all_torques=True)
