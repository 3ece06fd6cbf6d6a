"""Identification one joint at a time: a chain of small least squares problems, from the last joint to the first.

While one joint moves and the others are locked, the torque of joint j holds the constants of joint j, few of them, and
those of the joints behind it, known by then. What is not known exactly of those goes into the covariance of what is
found next.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from minidyn.arrays import Array
from minidyn.base.base_map import BaseMap
from minidyn.base.equivalence import equivalence
from minidyn.dynamics.functions import base_regressor
from minidyn.errors import MinidynError, ShapeError
from minidyn.excitation.one_joint_equations import Equations
from minidyn.model.robot import Robot
from minidyn.recording.lazy import LazyRecording
from minidyn.recording.recording import Recording

_STILL = 0.1  # of the mover's span: another joint that covers more of it moves too
_LEAST = 1e-6  # rad or m: less is no motion
_OPEN = 1e-7  # singular values of a matrix with unit columns that are smaller leave a combination open


@dataclass(frozen=True)
class BodyConstants:
    """What one joint's torque showed of its composite body.

    Attributes:
        joint: Name of the joint.
        values: Constants by name: "U33_1", "U11_22_4", "k2x", "m3", "kappa1_3", and drive terms.
        std: Their standard deviations, errors of the joints behind included; NaN where nothing tells (no sample over).
        condition: Condition number of the joint's equations, SI units.
        samples: Number of equations.
        sigma: Standard deviation of the torque's residual, N m or N; NaN where there is no sample over.
    """

    joint: str
    values: dict[str, float]
    std: dict[str, float]
    condition: float
    samples: int
    sigma: float


@dataclass(frozen=True, eq=False)
class OneJointEstimate:
    """Constants found one joint at a time.

    Attributes:
        robot: The robot as given.
        base: The set of constants: a base map (method "mlc", version 1992).
        beta: Their values (b,).
        covariance: Of beta (b, b), errors carried from step to step.
        bodies: The same by joint, from the first to the last, with the condition of each step.
        notices: What a reader should know.
    """

    robot: Robot
    base: BaseMap
    beta: Array
    covariance: Array
    bodies: tuple[BodyConstants, ...]
    notices: tuple[Any, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the constants."""
        return self.base.names

    @property
    def std(self) -> Array:
        """Standard deviations (b,)."""
        return np.asarray(np.sqrt(np.diag(self.covariance)))

    @property
    def values(self) -> dict[str, float]:
        """Constants by name."""
        return dict(zip(self.names, self.beta.tolist()))

    @property
    def condition(self) -> float:
        """The worst condition number of all steps."""
        return max((body.condition for body in self.bodies), default=1.0)

    def in_base(self, base: BaseMap) -> tuple[Array, Array]:
        """Return (beta, covariance) in another set of base parameters of the same robot.

        Raises:
            NotEquivalent: The sets do not determine each other.
        """
        change = equivalence(self.base, base)
        return np.asarray(change @ self.beta), np.asarray(change @ self.covariance @ change.T)

    def predict(self, recording: Recording) -> Array:
        """Return the torques (N, n) the constants give for a recorded motion (q, dq, ddq) of any joints."""
        if recording.dq is None or recording.ddq is None:
            raise MinidynError("predict needs dq and ddq; prepare the recording first: md.prepare(robot, recording)")
        Y = base_regressor(self.robot, recording.q, recording.dq, recording.ddq, base=self.base)
        return np.asarray(Y @ self.beta, dtype=float)

    def table(self) -> str:
        """Return a Markdown table: joint, constant, value, standard deviation, condition of the joint's step."""
        lines = ["| joint | constant | value | std | condition |", "|---|---|---:|---:|---:|"]
        for body in self.bodies:
            for name, value in body.values.items():
                lines.append(f"| {body.joint} | {name} | {value:.6g} | {body.std[name]:.3g} | {body.condition:.1f} |")
        return "\n".join(lines)

    def __repr__(self) -> str:
        return (
            f"OneJointEstimate({self.robot.name!r}: {len(self.beta)} constants, worst condition {self.condition:.1f})"
        )


def identify_one_joint(
    robot: Robot, runs: Recording | LazyRecording | Sequence[Recording | LazyRecording]
) -> OneJointEstimate:
    """Return the constants of a chain from recordings in which one joint moves at a time.

    :func:`minidyn.one_joint_plan` says which runs are needed; more are welcome, in any order. Which joint moves, and
    where the others are locked, is read from the positions. Locked joints must be held by their drives, so that their
    torque is measured; their friction at rest is not modelled.

    Args:
        robot: A serial chain; its parameters are not read.
        runs: Recordings with q and tau of all joints; one with several runs counts as several. Without dq and ddq they
            are prepared; those on disk are read.

    Raises:
        Unsupported: Trees, loops, joints that follow others, coupled drives.
        MinidynError: Two joints move at once, or the runs leave a constant open; the message names it.

    Implements: Lin1992 Algorithm 1, Algorithm 2.
    Differs: Corrected as in ERRATA D; all runs in which a joint before it, or itself, moves count for a joint, its
        mass or U33 included; errors of the joints behind are carried on as covariances; rotor inertia and friction.
    """
    equations = Equations.of(robot, "identify_one_joint")
    whole = [runs] if isinstance(runs, Recording | LazyRecording) else list(runs)
    given = _runs(equations, [_prepared(robot, run) for run in whole])
    size = equations.base.rank
    beta, P = np.zeros(size), np.zeros((size, size))
    bodies = []
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
        std = np.sqrt(np.diag(P)[own])
        bodies.append(
            BodyConstants(
                label,
                dict(zip(names, beta[own].tolist())),
                dict(zip(names, std.tolist())),
                condition,
                len(tau),
                float(np.sqrt(variance)),
            )
        )
    for array in (beta, P):
        array.setflags(write=False)
    notices = tuple(dict.fromkeys(notice for run in given for notice in run.notices))
    return OneJointEstimate(robot, equations.base, beta, P, tuple(reversed(bodies)), notices)


@dataclass(frozen=True)
class _Run:
    """One run: the joint that moves, where the others are (n,), its motion (N,) each, and all torques (N, n)."""

    mover: int
    place: Array
    q: Array
    dq: Array
    ddq: Array
    tau: Array
    notices: tuple[Any, ...]


def _prepared(robot: Robot, recording: Recording | LazyRecording) -> Recording:
    """Return a recording in memory, prepared where it is raw."""
    held = recording.load() if isinstance(recording, LazyRecording) else recording
    if held.tau is None or (held.dq is not None and held.ddq is not None) or held.n != robot.n:
        return held
    from minidyn.recording.prepare.prepare import prepare
    from minidyn.recording.ready import in_robot_order

    return prepare(robot, in_robot_order(robot, held))


def _runs(equations: Equations, recordings: list[Recording]) -> list[_Run]:
    found = []
    names = equations.robot.joint_names
    for number, recording in enumerate(recordings, start=1):
        where = f"recording {number}"
        if recording.n != equations.n:
            raise ShapeError(
                f"{where}: expected {equations.n} joints of robot {equations.robot.name!r}, got {recording.n}"
            )
        order = list(range(equations.n))
        if set(recording.joint_names) == set(names):
            order = [recording.joint_names.index(name) for name in names]
        for part in recording.runs:
            tau, dq, ddq = part.tau, part.dq, part.ddq
            if tau is None or dq is None or ddq is None:
                lacking = [name for name in ("tau", "dq", "ddq") if getattr(part, name) is None]
                raise MinidynError(f"{where}: {', '.join(lacking)} missing; torques must be measured")
            q, tau, dq, ddq = (signal[:, order] for signal in (part.q, tau, dq, ddq))
            if not all(np.all(np.isfinite(signal)) for signal in (q, tau, dq, ddq)):
                raise MinidynError(f"{where}: values that are not finite; leave such samples out")
            mover = _mover(q, names, where)
            found.append(_Run(mover, q.mean(axis=0), q[:, mover], dq[:, mover], ddq[:, mover], tau, part.notices))
    return found


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
    inverse = (V.T / values) @ U.T / scale[:, None]
    return inverse, float(np.linalg.cond(A))


def _missing(label: str, names: Sequence[str]) -> str:
    return (
        f"the runs do not show {', '.join(names)} of joint {label!r}; md.one_joint_plan(robot) lists the runs that do, "
        "and samples of a run must show its whole motion"
    )


def _noise(residual: Array, rows: Array, unknowns: int) -> tuple[float, Array]:
    """Return (variance of a torque's noise, the part of the residual (N,) that is noise alone).

    Errors of the joints behind are in the residual too, but only in directions that their columns span; what lies
    outside is noise. Few samples may leave nothing outside: then the whole residual counts, which is too much.

    Args:
        residual: (N,).
        rows: Coefficients (N, b) of all constants.
        unknowns: Number of constants fitted.
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
    begin = 0
    for length in lengths:
        part = residual[begin : begin + length]
        begin += length
        power = np.abs(np.fft.rfft(part, 2 * length)) ** 2
        products = np.fft.irfft(power, 2 * length)[: min(length, longest)]
        sums[: len(products)] += products
    rho = sums / total
    noise = 2.0 / np.sqrt(len(residual))
    end = int(np.argmax(rho < noise)) if np.any(rho < noise) else longest
    return float(max(1.0, 1.0 + 2.0 * rho[1:end].sum()))
