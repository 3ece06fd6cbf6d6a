"""Actuator values from encoders alone.

Joints under PD control, commanded and measured positions, no torques.

    M(q) ddq + h(q, dq) + Ia ddq + Fv dq + Fc sign(dq) + Fo = kp (q_d(t - delay) - q) - kd dq

M and h are those of the links, which the robot's file knows; armature, friction, bias, one delay
and, where they are not known, gains are found by simulating the closed loop (`servo_loop.py`) and
comparing positions. Two things that look harmless bias armature and friction by more than their
deviations: a sign of friction that is smoothed, and commands that are interpolated linearly.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import solve_triangular

from minidyn.arrays import Array, rms
from minidyn.codegen.files import save
from minidyn.control.controller import gain_vector
from minidyn.errors import DescriptionError, MinidynError, UnknownName
from minidyn.files import check_outputs, new_folder
from minidyn.formats.load import RobotLike, as_robot
from minidyn.identification.diagnose.thresholds import HALF
from minidyn.identification.estimators.block_covariance import memory_of
from minidyn.identification.export import (
    CANNOT_SAY,
    TARGETS,
    Exported,
    consumer,
    file_name,
    with_side_file,
)
from minidyn.identification.rows.pieces import stacked
from minidyn.identification.servo_loop import ServoLoop
from minidyn.identification.sizes import FAINT, MAX_STEPS
from minidyn.model.robot import Robot
from minidyn.notices import Notice, warning
from minidyn.recording.ready import (
    RecordingLike,
    as_recording,
    in_robot_order,
    prepare,
    with_logged_joints,
)
from minidyn.recording.recording import COMMAND, Recording
from minidyn.text import markdown_table

TERMS = ("armature", "viscous", "coulomb", "bias")
"""What is found of each joint; gains beside where they are not given."""

LOOSE = warning(
    "actuators.loose",
    "Values are known to no better than half of their size, or not at all: the motion hardly "
    "shows them.",
    "Record faster motions with reversals, or give what is known.",
)
NOT_SETTLED = warning(
    "actuators.not_settled",
    "The search ended before the simulated positions had settled on the measured ones.",
    "Check gains, units and signs; begin with gains that are roughly right.",
)

_TARGETS = ("toml", "mujoco", "isaac", "urdf")
SETTLED = 1e-3  # rounding: of a log-likelihood, less than a thirtieth of a standard deviation
OPEN_PART = 1e-3  # rounding: of an open direction, above which a value is part of it
MAX_DELAY = 0.1
"""s: no drive answers later."""


@dataclass(frozen=True, eq=False)
class Actuators:
    """Actuator values of each joint, (n,) each, with their standard deviations under the same names
    in `std`.

    Attributes:
        robot: The robot.
        armature: Inertia of the drive, joint side, kg m² or kg.
        viscous: N m s/rad or N s/m.
        coulomb: N m or N.
        bias: A constant torque, N m or N.
        kp: Stiffness of the position loop, N m/rad or N/m.
        kd: Its damping, N m s/rad or N s/m.
        delay: Seconds by which commands act late.
        std: Standard deviations by name; zero where a value was given, infinite where the motion
            does not tell it: Coulomb friction and bias of a joint that never reverses.
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
        """Return the robot with these drives.

        Rotor inertia, viscous and Coulomb friction, offset.
        """
        made = (self.robot if robot is None else robot).with_drives(
            True, ("viscous", "coulomb", "offset")
        )
        values = {"Ia": self.armature, "Fv": self.viscous, "Fc": self.coulomb, "Fo": self.bias}
        phi, places = made.parameters.copy(), {joint: k for k, joint in enumerate(made.independent)}
        for column in made.layout.columns:
            if column.symbol in values and column.joint in places:
                phi[column.index] = values[column.symbol][places[column.joint]]
        return made.with_parameters(phi)

    def export(
        self, path: str | os.PathLike[str], to: Iterable[str] | str | None = None
    ) -> Exported:
        """Write the robot with these drives and gains for other programs.

        Args:
            path: A file, whose ending chooses (.toml, .urdf, .xml: MuJoCo, .py: Isaac Lab), or a
                folder.
            to: For a folder, some of "toml", "urdf", "mujoco", "isaac"; None: all but "urdf".
        """
        target = Path(path)
        endings = {Path(TARGETS[name]).suffix: name for name in _TARGETS}
        if target.suffix.lower() in endings and not os.path.isdir(target):
            if to is not None:
                raise DescriptionError(
                    f"{target}: the ending chooses the format; to= is for a folder"
                )
            check_outputs([target], [self.robot.source])
            return Exported(*self._written(endings[target.suffix.lower()], target))
        asked = [to] if isinstance(to, str) else list(_TARGETS[:3] if to is None else to)
        for name in asked:
            if name not in _TARGETS:
                raise UnknownName("format", name, _TARGETS)
        files: list[Path] = []
        notices: list[Notice] = []
        with new_folder(target, inputs=[self.robot.source]) as folder:
            for name in asked:
                made, told = self._written(name, folder / file_name(name, self.robot.name))
                files += [target / file.name for file in made]
                notices += told
        return Exported(tuple(files), tuple(notices))

    def _written(self, name: str, path: Path) -> tuple[tuple[Path, ...], tuple[Notice, ...]]:
        """Write one file, and its side file where it needs one.

        Return what its format cannot say.
        """
        robot, joints, missing = self.on(), self.robot.joint_names, dict[str, list[str]]()
        gains = {joint: (float(kp), float(kd)) for joint, kp, kd in zip(joints, self.kp, self.kd)}
        late = {"delay": list(joints)} if self.delay > 0 else {}
        if name == "mujoco":
            from minidyn.formats.mjcf.write import knows_delays, write_mjcf

            write_mjcf(robot, path, gains=gains, delay=self.delay)
            missing = {} if knows_delays() else late
        elif name == "isaac":
            missing = consumer("isaac").write(robot, path, gains, self.delay).missing
        else:
            save(robot, path)
            missing = {"gains": list(joints)} | late
        missing = {what: who for what, who in missing.items() if who}
        text = f"{path.name} cannot say ({name}): {', '.join(missing)}"
        notice = CANNOT_SAY(text, target=name, file=path.name, missing=missing)
        return with_side_file(path), (notice,) if missing else ()

    def table(self) -> str:
        """Return a Markdown table, one row a joint."""
        names = (*TERMS, "kp", "kd")
        rows = (
            (joint, *(f"{getattr(self, name)[j]:.4g} ± {self.std[name][j]:.2g}" for name in names))
            for j, joint in enumerate(self.robot.joint_names)
        )
        return markdown_table("l" + "r" * len(names), ("joint", *names), rows)

    def to_json(self) -> dict[str, Any]:
        """Return all values by joint, with their deviations, as plain numbers; None: not known."""
        names = (*TERMS, "kp", "kd")

        def plain(value: Any) -> float | None:
            return float(value) if np.isfinite(value) else None

        joints = {
            joint: {name: float(getattr(self, name)[j]) for name in names}
            | {
                "std": {name: plain(self.std[name][j]) for name in names},
                "error": float(self.error[j]),
            }
            for j, joint in enumerate(self.robot.joint_names)
        }
        return {"joints": joints, "delay": self.delay, "delay_std": plain(self.std["delay"])}

    def __repr__(self) -> str:
        return (
            f"Actuators({self.robot.n} joints of {self.robot.name!r}, delay "
            f"{1e3 * self.delay:.2g} ms)"
        )


def identify_actuators(
    robot: RobotLike,
    recording: RecordingLike,
    gains: Mapping[str, ArrayLike] | None = None,
    *,
    command_delay: float | None = None,
    held: bool = False,
) -> Actuators:
    """Return armature, friction, bias, delay and gains of joints under PD control, from positions
    alone.

    Args:
        robot: The robot: its links' parameters are taken as known, its drives are not.
        recording: Measured positions and, as telemetry "q_d" (N, n), commanded ones; or its path.
        gains: {"kp": ..., "kd": ...}, a number or one for each joint, N m/rad and N m s/rad.
            Without kp it is found, as far as torques of the links show the scale; without kd
            damping of the loop is part of `viscous`, from which positions cannot tell it.
        command_delay: Seconds by which commands act late, where known; None: found.
        held: Commands act as steps, each until the next one comes; False: smoothly, as samples of a
            motion. A smooth motion whose commands are held looks the same, half a sample later.

    Raises:
        MinidynError: There are no commands.
    """
    model = as_robot(robot).with_drives(False, ())
    log = as_recording(recording, model)
    model = with_logged_joints(model, log)
    log = in_robot_order(model, log).load()
    if COMMAND not in log.telemetry or log.telemetry[COMMAND].shape != log.q.shape:
        raise MinidynError(
            f'the log has no commands: expected telemetry "{COMMAND}" {log.q.shape}, one column a '
            "joint; "
            "name the columns with command= (--command)"
        )
    if len(log.starts) > 1:
        raise MinidynError(
            f"identify_actuators: expected one run, got {len(log.starts)}; take one: "
            "recording.runs[0]"
        )
    if len(log) < 100:
        raise MinidynError(
            f"identify_actuators: {len(log)} samples are too few; record some seconds of motion"
        )
    known = dict(gains or {})
    for name in known:
        if name not in ("kp", "kd"):
            raise UnknownName("gain", name, ("kp", "kd"))
    given = {name: gain_vector(name, value, model.n) for name, value in known.items()}
    problem = _Problem(model, log, given, command_delay, held)
    return problem.solved()


class _Problem:
    """A log and the loop that is to give its positions, with the unknowns of `ServoLoop`.

    Some may be known.
    """

    def __init__(
        self,
        robot: Robot,
        log: Recording,
        gains: Mapping[str, Array],
        delay: float | None,
        held: bool,
    ) -> None:
        n, self.robot, self.n = robot.n, robot, robot.n
        self.free = np.ones(5 * n + 1, dtype=bool)
        self.begin = np.zeros(5 * n + 1)
        if "kp" in gains:
            self.free[4 * n : 5 * n], self.begin[4 * n : 5 * n] = False, gains["kp"]
        self.latest = min(MAX_DELAY, 0.1 * (log.t[-1] - log.t[0])) if delay is None else delay
        if delay is not None:
            self.free[-1], self.begin[-1] = False, delay
        # what was commanded before the log is not known: it begins when its first command has
        # surely arrived
        self.log, self.skip = log, int(np.searchsorted(log.t, log.t[0] + self.latest))
        self.q, self.command = log.q[self.skip :], np.asarray(log.telemetry[COMMAND], dtype=float)
        kd = gains.get("kd", np.zeros(n))
        self.loop = ServoLoop(robot, log.t, self.command, kd, first=self.skip, held=held)

    def start(self) -> tuple[Array, Array]:
        """Return values and a state to begin with: least squares on the equation of motion,
        positions differentiated.

        Of delays of whole samples the one that fits best counts.
        """
        n, t = self.n, self.log.t
        made = prepare(self.robot, self.log, decimate=1, trim=False)
        edge = max(self.skip, len(t) // 50, 1)
        q, dq, ddq = (np.asarray(part)[edge:-edge] for part in (made.q, made.dq, made.ddq))
        torque = -self.loop.inverse(q, dq, ddq) - self.loop.kd * dq
        step = float(np.median(np.diff(t)))
        delays = np.arange(0.0, self.latest + step / 2, step) if self.free[-1] else self.begin[-1:]
        guesses = [
            self._guess(delay, t[edge:-edge], torque, (q, dq, ddq)) for delay in delays.tolist()
        ]
        _, theta = min(guesses, key=lambda guess: guess[0])
        # an oscillation of the loop takes a dozen samples at least
        least = theta[4 * n : 5 * n] * (2 * step) ** 2 - np.diag(self.loop.inertia(self.q[0]))
        theta[:n] = np.maximum(theta[:n], least)
        return self.bounded(theta), np.concatenate([self.q[0], np.asarray(made.dq)[self.skip]])

    def _guess(
        self, delay: float, t: Array, torque: Array, motion: tuple[Array, Array, Array]
    ) -> tuple[float, Array]:
        """Return by how much values miss the equation of motion with a delay, and the values.

        Torques of the loop are given without those of links and of known damping.
        """
        from scipy.optimize import lsq_linear  # slow to import

        values, misfit = self.begin[:-1].reshape(5, self.n).copy(), 0.0
        count = 4 + int(self.free[4 * self.n])  # unknowns of each joint; kp may be known
        least = [0.0, 0.0, 0.0, -np.inf, 0.0][:count]  # viscous friction would undo kd
        for j, (q, dq, ddq) in enumerate(zip(*(signal.T for signal in motion))):
            away = q - np.interp(t - delay, self.log.t, self.command[:, j])
            X = np.stack([ddq, dq, np.sign(dq), np.ones(len(q)), away], axis=1)
            side, X = torque[:, j] - X @ values[:, j], X[:, :count]
            size = np.linalg.norm(X, axis=0) + 1e-300
            # of values that are not separated the smallest count
            rows = np.vstack([X / size, FAINT * np.eye(count)])
            right = np.append(side, np.zeros(count))
            values[:count, j] = lsq_linear(rows, right, (least, np.inf)).x / size
            power = float(np.sum((side - X @ values[:count, j]) ** 2))
            misfit += math.log(power / max(values[4, j], 1e-9) ** 2 + 1e-300)
        return misfit, np.append(values, delay)

    def bounded(self, theta: Array, before: Array | None = None) -> Array:
        """Return values with what cannot be negative put to (nearly) zero.

        Armature and kp change at most threefold from those before: a loop without inertia is stiff.
        """
        n, made = self.n, theta.copy()
        for k, least in ((0, 1e-5), (1, 0.0), (2, 0.0), (4, 1e-6)):
            part = slice(k * n, (k + 1) * n)
            made[part] = np.maximum(made[part], least)
            if before is not None and k in (0, 4):
                made[part] = np.clip(made[part], before[part] / 3, 3 * before[part])
        made[-1] = min(max(made[-1], 0.0), self.latest)
        return made

    def solved(self) -> Actuators:
        """Return the values at which simulated positions are nearest to the measured ones."""
        n = self.n
        trial = self.start()
        free = np.append(self.free, np.ones(2 * n, dtype=bool))
        damping, settled = 1e-3, False
        best = (np.inf, *trial, np.zeros(0), np.zeros(0))
        for _ in range(MAX_STEPS):
            self.loop.finer(trial[0], self.q[0])
            q, S = self.loop.simulated(*trial)
            left = self.q - q
            # the likelihood where each joint's noise is its own
            cost = float(np.sum(np.log(np.sum(left**2, axis=0) + 1e-300))) * len(left)
            if cost < best[0]:
                settled = best[0] - cost < SETTLED
                best, damping = (cost, *trial, left, S[:, :, free]), max(damping / 10, 1e-9)
            else:
                damping *= 10
            if settled or damping > 1e6 or not np.isfinite(best[0]):
                break
            _, theta, first, left, S = best
            change = np.zeros(len(free))
            change[free], gain = _step(left, S, damping)
            trial = self.bounded(theta + change[: 5 * n + 1], theta), first + change[5 * n + 1 :]
            if gain < SETTLED / 10:
                settled = True
                break
        if not np.isfinite(best[0]):
            raise MinidynError(
                "identify_actuators: the simulated loop is unstable; check gains, units and signs"
            )
        return self.result(*best[1:], settled)

    def result(self, theta: Array, first: Array, left: Array, S: Array, settled: bool) -> Actuators:
        """Return the values with their deviations.

        Residuals that repeat each other are counted once.
        """
        n = self.n
        memory = np.minimum(memory_of(left, (0,)), len(left) / 30)
        sigma = np.sqrt(np.sum(left**2, axis=0) / max(1.0, len(left) - S.shape[2] / n)) + 1e-15
        J = (S / (sigma * np.sqrt(memory))[:, None]).reshape(-1, S.shape[2])
        size = np.maximum(np.linalg.norm(J, axis=0), 1e-12)
        _, seen, V = np.linalg.svd(np.linalg.qr(J / size, mode="r"))
        open_ = seen <= FAINT * seen[0]
        spreads = np.sqrt(np.sum((V[~open_].T / seen[~open_]) ** 2, axis=1)) / size
        spreads[np.linalg.norm(V[open_], axis=0) > OPEN_PART] = np.inf
        std = np.zeros(5 * n + 1)
        std[self.free] = spreads[: int(self.free.sum())]
        names = (*TERMS, "kp")
        values = dict(zip(names, theta[:-1].reshape(5, n)))
        spread: dict[str, Any] = dict(zip(names, std[:-1].reshape(5, n))) | {
            "kd": np.zeros(n),
            "delay": float(std[-1]),
        }
        notices = [] if settled else [NOT_SETTLED("the search ended before it had settled")]
        loose = [
            f"{name} of {joint}"
            for name in names
            for j, joint in enumerate(self.robot.joint_names)
            if np.isinf(spread[name][j])
            or (name in ("armature", "kp") and spread[name][j] > HALF * values[name][j])
        ]
        if loose:
            notices.append(
                LOOSE(
                    f"{', '.join(loose[:6])}: known to no better than half, or not at all",
                    names=loose,
                )
            )
        settings = {"samples": len(left), "memory": memory.tolist(), "steps": self.loop.parts}
        error = rms(left)
        return Actuators(
            self.robot,
            armature=values["armature"],
            viscous=values["viscous"],
            coulomb=values["coulomb"],
            bias=values["bias"],
            kp=values["kp"],
            kd=self.loop.kd,
            delay=float(theta[-1]),
            std=spread,
            error=error,
            notices=tuple(notices),
            settings=settings,
        )


def _step(left: Array, S: Array, damping: float) -> tuple[Array, float]:
    """Return the step of Levenberg and Marquardt, and by how much the likelihood should grow."""
    sigma = rms(left) + 1e-15
    J, r = (S / sigma[:, None]).reshape(-1, S.shape[2]), (left / sigma).ravel()
    size = np.maximum(np.linalg.norm(J, axis=0), 1e-12)
    k = J.shape[1]
    R, z, _ = stacked(
        [
            np.column_stack([J / size, r]),
            np.column_stack([np.sqrt(damping) * np.eye(k), np.zeros(k)]),
        ]
    )
    return solve_triangular(R, z) / size, float(z @ z)
