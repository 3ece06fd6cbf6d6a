"""Actuator values from encoders alone: joints under PD control, commanded and measured positions, no torques.

    M(q) ddq + h(q, dq) + Ia ddq + Fv dq + Fc s(dq) + Fo = kp (q_d(t - delay) - q) - kd dq

M and h are those of the links, which the robot's file knows; armature, friction, bias, one delay and, where they are
not known, gains are found by simulating the closed loop and comparing positions. The gradient is exact: sensitivities
S = ∂(q, dq)/∂θ go through the same Runge-Kutta steps as the state, with derivatives of inverse dynamics from the graph,
M dS̈ = ∂τ - ∂ID. The sign s is smoothed, dq / √(dq² + w²), so that the gradient exists.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import solve_triangular

from minidyn.arrays import Array
from minidyn.control.controller import gain_vector
from minidyn.dynamics.record import record, without_unknowns
from minidyn.errors import MinidynError, UnknownName
from minidyn.formats.load import RobotLike, as_robot
from minidyn.graph.derivative import jacobian
from minidyn.graph.targets.native.kernel import compile_function
from minidyn.identification.estimators.solve import memory_of
from minidyn.identification.rows.pieces import stacked
from minidyn.model.robot import Robot
from minidyn.notices import Notice, look
from minidyn.recording.ready import RecordingLike, as_recording, in_robot_order, prepare
from minidyn.recording.recording import COMMAND, Recording

TERMS = ("armature", "viscous", "coulomb", "bias")
"""What is found of each joint; gains beside where they are not given."""

LOOSE = look(
    "actuators.loose",
    "Values are known to no better than half of their size: the motion hardly shows them.",
    "Record faster motions with reversals, or give what is known.",
)
NOT_SETTLED = look(
    "actuators.not_settled",
    "The search ended before the simulated positions had settled on the measured ones.",
    "Check gains, units and signs; begin with gains that are roughly right.",
)

_STEPS = 40
_RATE = 1.0  # largest product of step and friction's slope over inertia
_MOST = 8  # steps of integration between two samples


@dataclass(frozen=True, eq=False)
class Actuators:
    """Actuator values of each joint, (n,) each, with their standard deviations under the same names in `std`.

    Attributes:
        robot: The robot.
        armature: Inertia of the drive, joint side, kg m² or kg.
        viscous: N m s/rad or N s/m.
        coulomb: N m or N.
        bias: A constant torque, N m or N.
        kp: Stiffness of the position loop, N m/rad or N/m.
        kd: Its damping, N m s/rad or N s/m.
        delay: Seconds by which commands act late.
        std: Standard deviations by name; zero where a value was given.
        error: Root mean square of measured minus simulated positions (n,), rad or m.
        notices: What a reader should know.
        settings: How it was found, for records.
    """

    robot: Robot
    armature: Array
    viscous: Array
    coulomb: Array
    bias: Array
    kp: Array
    kd: Array
    delay: float
    std: Mapping[str, Any]
    error: Array
    notices: tuple[Notice, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)

    def on(self, robot: Robot | None = None) -> Robot:
        """Return the robot with these drives: rotor inertia, viscous and Coulomb friction, offset."""
        made = (self.robot if robot is None else robot).with_drives(True, ("viscous", "coulomb", "offset"))
        values = {"Ia": self.armature, "Fv": self.viscous, "Fc": self.coulomb, "Fo": self.bias}
        phi, places = made.parameters.copy(), {joint: k for k, joint in enumerate(made.independent)}
        for column in made.layout.columns:
            if column.symbol in values and column.joint in places:
                phi[column.index] = values[column.symbol][places[column.joint]]
        return made.with_parameters(phi)

    def table(self) -> str:
        """Return a Markdown table, one row a joint."""
        names = (*TERMS, "kp", "kd")
        lines = [f"| joint | {' | '.join(names)} |", f"|---|{'---:|' * len(names)}"]
        for j, joint in enumerate(self.robot.joint_names):
            cells = [f"{getattr(self, name)[j]:.4g} ± {self.std[name][j]:.2g}" for name in names]
            lines.append(f"| {joint} | {' | '.join(cells)} |")
        return "\n".join(lines)

    def to_json(self) -> dict[str, Any]:
        """Return all values by joint, with their deviations, as plain numbers."""
        names = (*TERMS, "kp", "kd")
        joints = {
            joint: {name: float(getattr(self, name)[j]) for name in names}
            | {"std": {name: float(self.std[name][j]) for name in names}, "error": float(self.error[j])}
            for j, joint in enumerate(self.robot.joint_names)
        }
        return {"joints": joints, "delay": self.delay, "delay_std": float(self.std["delay"])}

    def __repr__(self) -> str:
        return f"Actuators({self.robot.n} joints of {self.robot.name!r}, delay {1e3 * self.delay:.2g} ms)"


def identify_actuators(
    robot: RobotLike,
    recording: RecordingLike,
    gains: Mapping[str, ArrayLike] | None = None,
    *,
    command_delay: float | None = None,
    standstill: float = 0.02,
) -> Actuators:
    """Return armature, friction, bias, delay and gains of joints under PD control, from positions alone.

    Args:
        robot: The robot: its links' parameters are taken as known, its drives are not.
        recording: Measured positions and, as telemetry "q_d" (N, n), commanded ones; or its path.
        gains: {"kp": ..., "kd": ...}, a number or one for each joint, N m/rad and N m s/rad. Without kp it is found;
            without kd damping of the loop is part of `viscous`, from which positions cannot tell it.
        command_delay: Seconds by which commands act late, where known; None: found.
        standstill: Speed over which Coulomb friction reverses, rad/s or m/s.

    Raises:
        MinidynError: There are no commands.
    """
    model = as_robot(robot).with_drives(False, ())
    log = in_robot_order(model, as_recording(recording, model)).load()
    if COMMAND not in log.telemetry or log.telemetry[COMMAND].shape != log.q.shape:
        raise MinidynError(
            f'the log has no commands: expected telemetry "{COMMAND}" {log.q.shape}, one column a joint; '
            "name the columns with command=..."
        )
    if len(log.starts) > 1:
        raise MinidynError(f"identify_actuators: expected one run, got {len(log.starts)}; take one: recording.runs[0]")
    if len(log) < 100:
        raise MinidynError(f"identify_actuators: {len(log)} samples are too few; record some seconds of motion")
    known = dict(gains or {})
    for name in known:
        if name not in ("kp", "kd"):
            raise UnknownName("gain", name, ("kp", "kd"))
    given = {name: gain_vector(name, value, model.n) for name, value in known.items()}
    problem = _Problem(model, log, given, command_delay, float(standstill))
    return problem.solved()


class _Problem:
    """The closed loop with its unknowns: armature, viscous, coulomb, bias, kp of all joints, delay, first states."""

    def __init__(
        self, robot: Robot, log: Recording, gains: Mapping[str, Array], delay: float | None, width: float
    ) -> None:
        self.robot, self.log, self.width, self.n = robot, log, width, robot.n
        phi = without_unknowns(robot, "inverse_dynamics", robot.parameters)
        inverse = record(robot, "inverse_dynamics", parameters=phi)
        self.inverse = compile_function(inverse)
        self.slopes = [compile_function(jacobian(inverse, name)) for name in ("q", "dq")]
        self.inertia = compile_function(record(robot, "inertia_matrix", parameters=phi))
        n = robot.n
        self.kd = gains.get("kd", np.zeros(n))
        self.free = np.ones(5 * n + 1, dtype=bool)
        self.begin = np.zeros(5 * n + 1)
        if "kp" in gains:
            self.free[4 * n : 5 * n], self.begin[4 * n : 5 * n] = False, gains["kp"]
        if delay is not None:
            self.free[-1], self.begin[-1] = False, delay
        self.command = np.asarray(log.telemetry[COMMAND], dtype=float)

    def start(self) -> Array:
        """Return values to begin with: least squares on the equation of motion with differentiated positions."""
        n, theta = self.n, self.begin.copy()
        made = prepare(self.robot, self.log, decimate=1, trim=False)
        edge = max(1, len(self.log) // 50)
        q, dq, ddq = (np.asarray(part)[edge:-edge] for part in (made.q, made.dq, made.ddq))
        rest = self.inverse(q, dq, ddq)
        smooth = dq / np.sqrt(dq**2 + self.width**2)
        for j in range(n):
            away = q[:, j] - self.command[edge:-edge, j]
            columns = [ddq[:, j], dq[:, j], smooth[:, j], np.ones(len(q)), away]
            wanted = [k for k in range(5) if self.free[k * n + j]]
            side = -rest[:, j] - self.kd[j] * dq[:, j] - (0.0 if 4 in wanted else theta[4 * n + j] * away)
            X = np.column_stack([columns[k] for k in wanted])
            size = np.linalg.norm(X, axis=0)
            theta[[k * n + j for k in wanted]] = np.linalg.lstsq(X / size, side, rcond=None)[0] / size
        return self.bounded(theta)

    def bounded(self, theta: Array) -> Array:
        """Return values with what cannot be negative put to (nearly) zero."""
        n, made = self.n, theta.copy()
        for k, least in ((0, 1e-5), (1, 0.0), (2, 0.0), (4, 1e-6)):
            made[k * n : (k + 1) * n] = np.maximum(made[k * n : (k + 1) * n], least)
        made[-1] = max(made[-1], 0.0)
        return made

    def simulated(self, theta: Array, first: Array) -> tuple[Array, Array]:
        """Return positions (N, n) of the closed loop, and their derivatives (N, n, 5n + 1 + 2n) by all unknowns."""
        n, t = self.n, self.log.t
        p = 5 * n + 1 + 2 * n
        Ia, Fv, Fc, Fo, kp = theta[:-1].reshape(5, n)
        q, v = first[:n].copy(), first[n:].copy()
        Sq, Sv = np.zeros((n, p)), np.zeros((n, p))
        Sq[:, 5 * n + 1 : 6 * n + 1] = Sv[:, 6 * n + 1 :] = np.eye(n)
        every, found = np.empty((len(t), n)), np.empty((len(t), n, p))
        every[0], found[0] = q, Sq
        own = np.arange(n)
        steps = np.diff(t)
        lightest = np.diag(self.inertia(q)) + Ia
        stiff = float(np.max((Fc / self.width + Fv + self.kd) / lightest))
        parts = int(np.clip(np.ceil(float(steps.max()) * stiff / _RATE), 1, _MOST))
        grid = np.concatenate(
            [t[:-1, None] + steps[:, None] * (np.arange(2 * parts) / (2 * parts)), [[t[-1]] * 2 * parts]]
        )
        when = np.append(grid[:-1].ravel(), t[-1]) - theta[-1]
        u = np.column_stack([np.interp(when, t, self.command[:, j]) for j in range(n)])
        place = np.clip(np.searchsorted(t, when, side="right") - 1, 0, len(t) - 2)
        du = (self.command[place + 1] - self.command[place]) / steps[place, None]
        du[when < t[0]] = 0.0

        def slope(q: Array, v: Array, Sq: Array, Sv: Array, k: int) -> tuple[Array, Array]:
            size = np.sqrt(v * v + self.width**2)
            s = v / size
            tau = kp * (u[k] - q) - self.kd * v - Fv * v - Fc * s - Fo
            A = self.inertia(q) + np.diag(Ia)
            a = np.linalg.solve(A, tau - self.inverse(q, v, np.zeros(n)))
            by_q, by_v = self.slopes[0](q, v, a), self.slopes[1](q, v, a)
            by_q[own, own] += kp
            by_v[own, own] += self.kd + Fv + Fc * (self.width**2 / size**3)
            right = -(by_q @ Sq) - by_v @ Sv
            for block, column in enumerate((-a, -v, -s, -np.ones(n), u[k] - q)):
                right[own, block * n + own] += column
            right[:, 5 * n] -= kp * du[k]
            return a, np.linalg.solve(A, right)

        for k, step in enumerate(steps):
            h = step / parts
            for part in range(parts):
                at = 2 * (k * parts + part)
                a1, S1 = slope(q, v, Sq, Sv, at)
                v2, V2 = v + h / 2 * a1, Sv + h / 2 * S1
                a2, S2 = slope(q + h / 2 * v, v2, Sq + h / 2 * Sv, V2, at + 1)
                v3, V3 = v + h / 2 * a2, Sv + h / 2 * S2
                a3, S3 = slope(q + h / 2 * v2, v3, Sq + h / 2 * V2, V3, at + 1)
                v4, V4 = v + h * a3, Sv + h * S3
                a4, S4 = slope(q + h * v3, v4, Sq + h * V3, V4, at + 2)
                q, v = q + h / 6 * (v + 2 * (v2 + v3) + v4), v + h / 6 * (a1 + 2 * (a2 + a3) + a4)
                Sq, Sv = Sq + h / 6 * (Sv + 2 * (V2 + V3) + V4), Sv + h / 6 * (S1 + 2 * (S2 + S3) + S4)
            every[k + 1], found[k + 1] = q, Sq
            if not np.isfinite(q).all() or np.abs(q).max() > 1e6:
                every[k + 1 :], found[k + 1 :] = np.nan, np.nan
                break
        return every, found

    def solved(self) -> Actuators:
        """Return the values at which simulated positions are nearest to the measured ones."""
        n, theta = self.n, self.start()
        free = np.append(self.free, np.ones(2 * n, dtype=bool))
        slope = (self.log.q[min(5, len(self.log) - 1)] - self.log.q[0]) / (
            self.log.t[min(5, len(self.log) - 1)] - self.log.t[0]
        )
        first = np.concatenate([self.log.q[0], slope])
        damping, best = 1e-3, (np.inf, theta, first, np.zeros(0), np.zeros(0))
        trial, settled = (theta, first), False
        for _ in range(_STEPS):
            q, S = self.simulated(*trial)
            left = self.log.q - q
            cost = float(np.sum(left**2)) if np.isfinite(left).all() else np.inf
            if cost < best[0]:
                settled = best[0] - cost < 1e-9 * cost
                best, damping = (cost, *trial, left, S[:, :, free]), max(damping / 5, 1e-9)
            else:
                damping *= 5
            if settled or damping > 1e8 or not np.isfinite(best[0]):
                break
            _, theta, first, left, S = best
            sigma = np.sqrt(np.mean(left**2, axis=0)) + 1e-12
            J, r = (S / sigma[:, None]).reshape(-1, S.shape[2]), (left / sigma).ravel()
            size = np.maximum(np.linalg.norm(J, axis=0), 1e-12)
            k = J.shape[1]
            R, z, _ = stacked(
                [np.column_stack([J / size, r]), np.column_stack([np.sqrt(damping) * np.eye(k), np.zeros(k)])]
            )
            change = np.zeros(len(free))
            change[free] = solve_triangular(R, z) / size
            trial = self.bounded(theta + change[: 5 * n + 1]), first + change[5 * n + 1 :]
            if np.allclose(trial[0], theta, rtol=1e-9, atol=1e-12):
                settled = True
                break
        if not np.isfinite(best[0]):
            raise MinidynError("identify_actuators: the simulated loop is unstable; check gains, units and signs")
        return self.result(*best[1:], settled)

    def result(self, theta: Array, first: Array, left: Array, S: Array, settled: bool) -> Actuators:
        """Return the values with their deviations; residuals that repeat each other are counted once."""
        n = self.n
        memory = np.minimum(memory_of(left, self.log.starts), len(left) / 30)
        sigma = np.sqrt(np.sum(left**2, axis=0) / max(1.0, len(left) - S.shape[2] / n)) + 1e-15
        J = (S / (sigma * np.sqrt(memory))[:, None]).reshape(-1, S.shape[2])
        size = np.maximum(np.linalg.norm(J, axis=0), 1e-12)
        R = np.linalg.qr(J / size, mode="r")
        inverse = solve_triangular(R + 1e-12 * np.eye(len(R)), np.eye(len(R))) / size[:, None]
        std = np.zeros(5 * n + 1)
        std[self.free] = np.sqrt(np.sum(inverse**2, axis=1))[: int(self.free.sum())]
        names = (*TERMS, "kp")
        values = dict(zip(names, theta[:-1].reshape(5, n)))
        spread: dict[str, Any] = dict(zip(names, std[:-1].reshape(5, n))) | {"kd": np.zeros(n), "delay": float(std[-1])}
        notices = [] if settled else [NOT_SETTLED("the search ended before it had settled")]
        loose = [
            f"{name} of {joint}"
            for name in ("armature", "kp")
            for j, joint in enumerate(self.robot.joint_names)
            if spread[name][j] > 0.5 * values[name][j]
        ]
        if loose:
            notices.append(LOOSE(f"{', '.join(loose[:6])}: known to no better than half", names=loose))
        settings = {"samples": len(left), "memory": memory.tolist()}
        error = np.sqrt(np.mean(left**2, axis=0))
        return Actuators(
            self.robot,
            *(values[name] for name in names),
            self.kd,
            float(theta[-1]),
            spread,
            error,
            tuple(notices),
            settings,
        )
