"""Identification one joint at a time: a chain of small least squares problems, from the last joint to the first.

While one joint moves and the others are locked, the torque of joint j holds the constants of joint j, few of them, and
those of the joints behind it, known by then. What is not known exactly of those goes into the covariance of what is
found next.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from minidyn.arrays import Array
from minidyn.errors import MinidynError
from minidyn.excitation.one_joint_equations import Equations
from minidyn.formats.load import RobotLike, as_robot
from minidyn.identification.estimate import BodyConstants, Estimate
from minidyn.recording.lazy import AnyRecording
from minidyn.recording.ready import RecordingLike, as_recording, ready
from minidyn.recording.recording import SKETCH
from minidyn.recording.sketch import Sketch, sketch_of, sketched

_STILL = 0.1  # of the mover's span: another joint that covers more of it moves too
_LEAST = 1e-6  # rad or m: less is no motion
_OPEN = 1e-7  # singular values of a matrix with unit columns that are smaller leave a combination open


def identify_one_joint(robot: RobotLike, runs: RecordingLike | Sequence[RecordingLike]) -> Estimate:
    """Return the constants of a chain from recordings in which one joint moves at a time.

    :func:`minidyn.one_joint_plan` says which runs are needed; more are welcome, in any order. Which joint moves, and
    where the others are locked, is read from the positions. Locked joints must be held by their drives, so that their
    torque is measured; their friction at rest is not modelled.

    Args:
        robot: A serial chain, its built-in name or path; its parameters are not read.
        runs: Recordings with q and tau of all joints; one with several runs counts as several. Without dq and ddq they
            are prepared; those on disk are read. A path is read as `read_recording` does.

    Returns:
        The estimate: its base parameters are the minimal linear combinations (method "mlc", version 1992), its
        condition is the worst of all joints, and `bodies` has the constants joint by joint.

    Raises:
        Unsupported: Trees, loops, joints that follow others, coupled drives.
        MinidynError: Two joints move at once, or the runs leave a constant open; the message names it.

    Implements: Lin1992 Algorithm 1, Algorithm 2.
    Differs: Corrected as in ERRATA D; all runs in which a joint before it, or itself, moves count for a joint, its
        mass or U33 included; errors of the joints behind are carried on as covariances; rotor inertia and friction.
    """
    robot = as_robot(robot)
    equations = Equations.of(robot, "identify_one_joint")
    whole = runs if isinstance(runs, list | tuple) else [runs]
    logs = [sketched(as_recording(run, robot, argument="runs"), robot.joint_names) for run in whole]
    given, notices = _runs(equations, logs)
    base = equations.base
    beta, P = np.zeros(base.rank), np.zeros((base.rank, base.rank))
    sigma, bodies = np.full(robot.n, np.nan), []
    for joint in reversed(range(equations.n)):
        own = list(equations.own[joint])
        if not own:
            continue
        used = [run for run in given if run.mover <= joint]
        names, label = equations.names(joint), robot.joint_names[joint]
        if not used:
            raise MinidynError(_missing(label, names))
        rows = np.concatenate([equations.rows(run.mover, joint, run.place, run.q, run.dq, run.ddq) for run in used])
        tau = np.concatenate([run.tau[:, joint] for run in used])
        behind = [k for later in equations.own[joint + 1 :] for k in later]
        A, B = rows[:, own], rows[:, behind]
        inverse, condition = _inverse(A, names, label)
        beta[own] = inverse @ (tau - B @ beta[behind])
        residual = tau - A @ beta[own] - B @ beta[behind]
        carried = -inverse @ B
        known = P[np.ix_(behind, behind)]
        variance, noise = _noise(residual, rows, len(own))
        memory = _memory(noise, [len(run.q) for run in used])
        P[np.ix_(own, own)] = carried @ known @ carried.T + memory * variance * inverse @ inverse.T
        P[np.ix_(own, behind)] = carried @ known
        P[np.ix_(behind, own)] = P[np.ix_(own, behind)].T
        sigma[joint] = np.sqrt(variance)
        values, std = (dict(zip(names, found.tolist())) for found in (beta[own], np.sqrt(np.diag(P)[own])))
        bodies.append(asdict(BodyConstants(label, values, std, condition, len(tau), float(sigma[joint]))))
    regrouped = np.nan_to_num(robot.parameters[list(robot.layout.indices(base.regrouped))])
    fitted = replace(robot.with_parameters(base.lift(beta, regrouped)), notices=())
    condition = max((body["condition"] for body in bodies), default=1.0)
    samples = sum(len(run.q) for run in given)
    settings: dict[str, Any] = {"method": "one-joint", "runs": len(given), "bodies": bodies[::-1]}
    sketches = [found for log in logs if (found := sketch_of(log)) is not None]
    if len(sketches) == len(logs):
        settings[SKETCH] = Sketch(robot.n, any(one.prepared for one in sketches), sketches).to_json()
    return Estimate(fitted, base, beta, P, sigma, "one-joint", False, condition, samples, notices, settings)


@dataclass(frozen=True)
class _Run:
    """One run: the joint that moves, where the others are (n,), its motion (N,) each, and all torques (N, n)."""

    mover: int
    place: Array
    q: Array
    dq: Array
    ddq: Array
    tau: Array


def _runs(equations: Equations, recordings: Sequence[AnyRecording]) -> tuple[list[_Run], tuple[Any, ...]]:
    """Return all runs of all recordings, each with the joint that moves, and the recordings' notices, each once."""
    robot, found, notices = equations.robot, [], dict[Any, None]()
    for number, recording in enumerate(recordings, start=1):
        where = f"recording {number}"
        made = ready(robot, recording, purpose="identification one joint at a time", in_memory=True, name=where)
        notices |= dict.fromkeys(made.notices)
        for part in made.runs:
            mover = _mover(part.q, robot.joint_names, where)
            q, dq, ddq, tau = (np.asarray(getattr(part, name)) for name in ("q", "dq", "ddq", "tau"))
            found.append(_Run(mover, q.mean(axis=0), q[:, mover], dq[:, mover], ddq[:, mover], tau))
    return found, tuple(notices)


def _mover(q: Array, names: Sequence[str], where: str) -> int:
    """The joint that moves; the others must stay."""
    span = np.ptp(q, axis=0) if len(q) else np.zeros(q.shape[1])
    mover = int(np.argmax(span))
    if not span[mover] > _LEAST:
        raise MinidynError(f"{where}: no joint moves")
    others = [name for k, name in enumerate(names) if k != mover and span[k] > _STILL * span[mover]]
    if others:
        raise MinidynError(
            f"{where}: joints {names[mover]!r} and {others[0]!r} both move; one joint at a time, or use md.identify"
        )
    return mover


def _inverse(A: Array, names: Sequence[str], label: str) -> tuple[Array, float]:
    """The pseudo-inverse (p, N) of a joint's equations and their condition number."""
    scale = np.linalg.norm(A, axis=0)
    if len(A) < A.shape[1] or not np.all(scale > 0):
        silent = [name for name, size in zip(names, scale) if not size > 0]
        raise MinidynError(_missing(label, silent or names))
    U, values, V = np.linalg.svd(A / scale, full_matrices=False)
    if values[-1] < _OPEN * values[0]:
        share = np.abs(V[-1])
        raise MinidynError(_missing(label, [names[k] for k in np.argsort(-share) if share[k] > 0.1 * share.max()]))
    return (V.T / values) @ U.T / scale[:, None], float(np.linalg.cond(A))


def _missing(label: str, names: Sequence[str]) -> str:
    return (
        f"the runs do not show {', '.join(names)} of joint {label!r}; md.one_joint_plan(robot) lists the runs that do, "
        "and samples of a run must show its whole motion"
    )


def _noise(residual: Array, rows: Array, unknowns: int) -> tuple[float, Array]:
    """Return (variance of a torque's noise, the part of the residual (N,) that is noise alone).

    Errors of the joints behind are in the residual too, but only in directions that their columns span; what lies
    outside is noise. Few samples may leave nothing outside: then the whole residual counts, which is too much. Rows
    (N, b) are the coefficients of all constants; so many of them were fitted.
    """
    scale = np.linalg.norm(rows, axis=0)
    full = rows[:, scale > 0] / scale[scale > 0]
    explained, _, rank, _ = np.linalg.lstsq(full, residual, rcond=1e-10)
    over = len(residual) - int(rank)
    if over > 0:
        alone = residual - full @ explained
        return float(alone @ alone) / over, alone
    over = len(residual) - unknowns
    return (float(residual @ residual) / over if over > 0 else float("nan")), residual


def _memory(residual: Array, lengths: Sequence[int]) -> float:
    """How many samples repeat each other: the sum of the residual's autocorrelation up to where it vanishes.

    Friction and vibration correlate neighbouring samples, and the textbook covariance is too small by this factor.
    """
    total = float(residual @ residual)
    longest = max(lengths) // 2
    if total == 0.0 or longest < 2:
        return 1.0
    sums = np.zeros(longest)
    for length, part in zip(lengths, np.split(residual, np.cumsum(lengths)[:-1])):
        power = np.abs(np.fft.rfft(part, 2 * length)) ** 2
        products = np.fft.irfft(power, 2 * length)[: min(length, longest)]
        sums[: len(products)] += products
    rho = sums / total
    noise = 2.0 / np.sqrt(len(residual))
    end = int(np.argmax(rho < noise)) if np.any(rho < noise) else longest
    return float(max(1.0, 1.0 + 2.0 * rho[1:end].sum()))
