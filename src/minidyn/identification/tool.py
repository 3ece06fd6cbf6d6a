"""What is behind a force sensor.

Its bias, how it is mounted, and ten inertial parameters of the tool. In the sensor's own axes, with
a the acceleration of its origin less gravity, the sensor gives the tool

    f = m a + α × h + ω × (ω × h),    n = I α + ω × I ω + h × a,    h = m c,

and reports w = s (f, n) + bias with s = -1 where it reads the tool's weight (downwards) and +1
where it reads what holds it. The robot's file gives a, ω and α in the axes of the link; the sensor
is turned against them by the mounting R. The model is linear but for R, which Gauss-Newton finds
together with the rest, from a start by singular values: forces at rest are -s m Rᵀ g + bias.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.spatial.transform import Rotation

from minidyn.arrays import Array, plain_values, rms
from minidyn.dynamics.functions import frame_motion
from minidyn.dynamics.record import build
from minidyn.dynamics.sources import function_source
from minidyn.dynamics.vectors import cross
from minidyn.errors import MinidynError, ShapeError
from minidyn.formats.load import RobotLike, as_robot
from minidyn.graph.function import Function, evaluate
from minidyn.graph.scalar import Graph
from minidyn.identification.diagnose.thresholds import LARGE
from minidyn.identification.estimate import Estimate
from minidyn.identification.estimators.block_covariance import memory_of
from minidyn.identification.payload.columns import WIDEST_LOAD, of_frame
from minidyn.identification.payload.payload import identify_payload, nearest_body
from minidyn.identification.problem import BlockProblem, BlockSolution, Rows, places_of
from minidyn.identification.score import MIN_STANDARD_ERRORS
from minidyn.identification.sizes import MAX_STEPS
from minidyn.model.parameters import tensor
from minidyn.model.robot import Robot
from minidyn.notices import Notice, error, notices_json, warning
from minidyn.recording.ready import (
    RecordingLike,
    as_recording,
    in_robot_order,
    ready,
    resting_poses,
    with_logged_joints,
)
from minidyn.recording.recording import WRENCH, Recording
from minidyn.simulation.payload import Payload

MOUNTING_OPEN = warning(
    "tool.mounting_open",
    "The poses do not show how the sensor is turned against its link; it is taken to be aligned "
    "with it.",
    "Turn the sensor so that gravity acts along all of its axes, or give the mounting.",
)
SIGN = warning(
    "tool.sign",
    "The sensor reports what holds the tool, not the tool's weight: forces point up where gravity "
    "points down.",
    "Check the sign convention of whoever uses the forces.",
)
LOOSE_MASS = warning(
    "tool.loose_mass", "The mass of the tool is only known roughly.", "Record more orientations."
)
NEGATIVE = error(
    "tool.no_body",
    "The mass is not above zero within its deviation: nothing heavy is behind the sensor, or the "
    "log does not show it.",
    "Check columns and units of the wrench, and that the log has several orientations.",
)

TENSORS = np.array([tensor(unit) for unit in np.eye(6)])
"""formula: of unit XX ... ZZ (6, 3, 3)."""
GRAVITY = np.array([0.0, 0.0, -9.80665])  # formula: standard gravity, m/s²
# size: least singular value of forces over the largest, below which more starts are tried
MIN_ROUND = 0.3


@dataclass(frozen=True, eq=False)
class Tool:
    """What a force sensor carries, and the sensor itself.

    Attributes:
        load: Ten parameters in the sensor's frame with their covariance, physically consistent, on
            the link.
        bias: What the sensor reads without any load (6,): N, then N m.
        bias_std: Its standard deviations (6,).
        mounting: Axes of the sensor in those of the link (3, 3): v_link = mounting @ v_sensor.
        mounting_std: Standard deviation of the mounting about each of the sensor's axes (3,), rad;
            zero where given.
        sign: -1 where the sensor reads the tool's weight, +1 where it reads what holds it.
        noise: Standard deviation of each channel (6,).
        robot: Whose link carries it; None: poses were given.
        notices: What a reader should know.
        settings: How it was found, for records.
    """

    load: Payload
    bias: Array
    bias_std: Array
    mounting: Array
    mounting_std: Array
    sign: float
    noise: Array
    robot: Robot | None = None
    notices: tuple[Notice, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def mass(self) -> float:
        """Mass, kg."""
        return self.load.mass

    @property
    def com(self) -> Array:
        """Centre of mass in the sensor's frame (3,), m."""
        return self.load.com

    @property
    def inertia(self) -> Array:
        """Inertia about the centre of mass, the sensor's axes (3, 3), kg m²."""
        return self.load.inertia

    @property
    def std(self) -> dict[str, Any]:
        """Standard deviations of mass, com and inertia."""
        return self.load.std or {}

    def program(self) -> Function:
        """Return the recorded compensation.

        (q, wrench) -> external wrench, without bias and the tool's weight. Without a robot its
        first argument is the direction of gravity in the sensor's axes (3,), m/s².
        """
        graph = Graph()
        if self.robot is None:
            down: Any = list(graph.inputs("gravity", 3))
        else:
            q = list(graph.inputs("q", self.robot.n))
            T = build(self.robot, "forward_kinematics", {"q": q}, link=self.load.link)
            axes = self.mounting.T  # from the link's axes to the sensor's
            g = [
                sum((T[i][k] * float(self.robot.gravity[i]) for i in range(3)), 0.0)
                for k in range(3)
            ]
            down = [sum((float(axes[k, i]) * g[i] for i in range(3)), 0.0) for k in range(3)]
        w = list(graph.inputs("wrench", 6))
        ten = self.load.ten
        force = [float(-self.sign * ten[9]) * value for value in down]
        moment = [-self.sign * value for value in cross([float(value) for value in ten[6:9]], down)]
        known = [*force, *moment]
        external = [value - float(bias) - own for value, bias, own in zip(w, self.bias, known)]
        return graph.function("compensated_wrench", {"external": external})

    def source(self, target: str = "c") -> str:
        """Return the compensation as self-contained code, see `program`.

        "c", "h", "python" or "jax".
        """
        if self.robot is None:
            raise MinidynError("tool: code is printed for a robot; identify the tool with one")
        return function_source(self.robot, self.program(), target)

    def compensate(self, recording: RecordingLike) -> Array:
        """Return the wrench (N, 6) of contacts along a slow log.

        Without bias and the tool's weight.
        """
        log = _log_of(recording, self.robot)
        first = log.q if self.robot is not None else -_oriented(log) @ self.mounting
        return np.asarray(evaluate(self.program(), first, log.telemetry[WRENCH]))

    def to_json(self) -> dict[str, Any]:
        """Return all of it as plain values."""
        body = {"mass": self.mass, "com": self.com, "inertia": self.load.inertia, "std": self.std}
        names = ("bias", "bias_std", "mounting", "mounting_std", "sign", "noise")
        own = {name: getattr(self, name) for name in names} | {"samples": self.settings["samples"]}
        return dict(plain_values(body | own | {"notices": notices_json(self.notices)}, finite=True))

    def table(self) -> str:
        """Return a Markdown table of all values with their standard deviations."""
        names = ("force x", "force y", "force z", "moment x", "moment y", "moment z")
        units = ["N"] * 3 + ["N m"] * 3
        rows = zip(names, self.bias, self.bias_std, units)
        lines = [
            f"| bias {name} | {value:.5g} | {std:.2g} | {unit} |" for name, value, std, unit in rows
        ]
        turn = Rotation.from_matrix(self.mounting).as_rotvec(degrees=True)
        for axis, angle, std in zip("xyz", turn, np.degrees(self.mounting_std)):
            lines.append(f"| mounting, turn about {axis} | {angle:.4g} | {std:.2g} | deg |")
        return "\n".join([self.load.table(), *lines])

    def __repr__(self) -> str:
        place = " ".join(f"{value:.4g}" for value in self.com)
        return (
            f"Tool(mass {self.mass:.4g} ± {self.std['mass']:.2g} kg, com [{place}] m in the "
            "sensor's frame)"
        )


def identify_tool(
    recording: RecordingLike,
    robot: Estimate | RobotLike | None = None,
    *,
    link: str | None = None,
    position: ArrayLike = (0.0, 0.0, 0.0),
    mounting: ArrayLike | None = None,
    static: bool = False,
) -> Tool:
    """Return what is behind a force sensor, from static poses or motion, and the sensor's bias and
    mounting.

    Args:
        recording: A log with telemetry "wrench" (N, 6), or its path: forces, N, then moments, N m,
            sensor's axes. Raw logs are prepared, forces low-passed like positions; poses at rest
            are averaged.
        robot: The robot whose link carries the sensor. An estimate of it (without the tool) also
            uses the joint torques of the log. None: the log has telemetry "orientation" (N, 4),
            quaternions (x, y, z, w) of that link at rest.
        link: Link or frame that carries the sensor; None: the last link.
        position: Of the sensor's origin in that link's frame (3,), m.
        mounting: Axes of the sensor in those of the link (3, 3), where they are known; None: they
            are found.
        static: Whether every sample is a pose at rest, as in a table of poses; else poses are held
            for some samples.

    Raises:
        MinidynError: There is no wrench, or too few samples.
    """
    own = robot.robot if isinstance(robot, Estimate) else None if robot is None else as_robot(robot)
    place = np.asarray(position, dtype=float)
    if place.shape != (3,):
        raise ShapeError(f"position: expected shape (3,), got {place.shape}")
    recording = as_recording(recording, own)
    if own is not None and not isinstance(robot, Estimate):
        own = with_logged_joints(own, recording)
    log = _log_of(recording, own)
    if own is None:
        a = _oriented(log)
        states, w, starts = (
            (a, np.zeros_like(a), np.zeros_like(a)),
            log.telemetry[WRENCH],
            log.starts,
        )
    else:
        made, w = _prepared(own, log, static)
        states = frame_motion(own, made.q, np.asarray(made.dq), np.asarray(made.ddq), link, place)
        starts = made.starts
    if len(w) < 6:
        raise MinidynError(
            f"identify_tool: {len(w)} samples are too few; record at least six poses, better twenty"
        )
    fixed = None if mounting is None else _rotation(mounting)
    begins = _mountings(states[0], w) if fixed is None else [(fixed, sign) for sign in (-1.0, 1.0)]
    fits = [_fitted(states, w, starts, R, sign, fixed is None) for R, sign in begins]
    best = _best(fits)
    notices: list[Notice] = []
    turn_std = best.solution.std("turn") if fixed is None else np.zeros(3)
    if turn_std.max() > LARGE:
        best = _best([_fitted(states, w, starts, np.eye(3), sign, False) for sign in (-1.0, 1.0)])
        text = (
            "the poses do not show how the sensor is mounted; it is taken to be aligned with the "
            "link"
        )
        notices.append(MOUNTING_OPEN(text))
        turn_std = np.zeros(3)
    T = np.eye(4)
    T[:3, :3], T[:3, 3] = best.R, place
    ten, spread = best.solution["body"], best.solution.spread("body")
    if isinstance(robot, Estimate) and log.tau is not None:
        ten, spread = _with_torques(robot, log, link, T, ten, spread)
    body = nearest_body(ten, spread) if ten[9] > 0 else ten
    notices += _mass_notices(float(ten[9]), float(np.sqrt(spread[9, 9])))
    if best.sign > 0:
        notices.append(SIGN("the sensor reports what holds the tool, not its weight"))
    settings = {
        "samples": len(w),
        "unconstrained": ten.tolist(),
        "position": place.tolist(),
        "mounting_given": mounting is not None,
    }
    load = Payload(0.0, body, T, link, spread, (), settings)
    return Tool(
        load,
        best.solution["bias"],
        best.solution.std("bias"),
        best.R,
        turn_std,
        best.sign,
        best.noise,
        own,
        tuple(notices),
        settings,
    )


def _mass_notices(mass: float, std: float) -> list[Notice]:
    """Return what is to be said of a mass and its standard deviation."""
    text = f"the mass is {mass:.3g} ± {std:.2g} kg"
    found = [NEGATIVE(text, mass=mass, std=std)] if mass < MIN_STANDARD_ERRORS * std else []
    return [*found, LOOSE_MASS(text, std=std)] if std > LARGE * mass > 0 else found


def _log_of(recording: RecordingLike, robot: Robot | None) -> Recording:
    log = as_recording(recording, robot).load()
    if WRENCH not in log.telemetry:
        raise MinidynError(
            'the log has no forces: expected telemetry "wrench" (N, 6); name its columns with '
            "wrench=... "
            "(read_recording, mapping files)"
        )
    if np.shape(log.telemetry[WRENCH])[1:] != (6,):
        raise ShapeError(
            f'telemetry "wrench": expected shape (N, 6), got {log.telemetry[WRENCH].shape}'
        )
    return log if robot is None else in_robot_order(robot, log)


def _oriented(log: Recording) -> Array:
    """Return the acceleration less gravity (N, 3) of a link at rest, in its own axes."""
    if "orientation" not in log.telemetry or log.telemetry["orientation"].shape[1:] != (4,):
        raise MinidynError(
            'identify_tool: give the robot, or telemetry "orientation" (N, 4): quaternions x, y, '
            "z, w"
        )
    axes = Rotation.from_quat(log.telemetry["orientation"]).as_matrix()
    return np.asarray(-GRAVITY @ axes)


def _prepared(robot: Robot, log: Recording, static: bool) -> tuple[Recording, Array]:
    """Return the motion with speeds and accelerations, and forces and moments (N, 6) that passed
    the same filter.

    Forces go through preparation in place of torques, as many channels at once as the robot has
    joints.
    """
    w, n, still = log.telemetry[WRENCH], robot.n, np.zeros_like(log.q)
    if static:
        return Recording(log.t, log.q, None, still, still, log.joint_names), w
    parts: list[Array] = []
    made: Recording | None = None
    for begin in range(0, 6, n):
        channels = w[:, begin : begin + n]
        held = np.zeros((len(log), n))
        held[:, : channels.shape[1]] = channels
        like = None if made is None or "cutoff" not in made.info else dict(made.info)
        raw = Recording(
            log.t,
            log.q,
            held,
            log.dq,
            log.ddq,
            log.joint_names,
            starts=log.starts,
            prepared=log.prepared,
        )
        done = resting_poses(robot, raw)
        if done is None:
            done = ready(robot, raw, purpose="identifying a tool", in_memory=True, preparation=like)
        parts.append(np.asarray(done.tau)[:, : channels.shape[1]])
        made = done
    assert made is not None  # noqa: S101 - six channels are at least one turn
    return made, np.concatenate(parts, axis=1)


@dataclass(frozen=True, eq=False)
class _Fit:
    solution: BlockSolution  # body, bias, and the turn that is left
    R: Array
    sign: float
    noise: Array
    misfit: float


def wrench_columns(a: Array, w: Array, alpha: Array) -> Array:
    """Return the columns (N, 6, 10) of the wrench that moves a body, by its ten parameters."""
    X = np.zeros((len(a), 6, 10))
    W = _crossing(w)
    X[:, :3, 9] = a
    X[:, :3, 6:9] = _crossing(alpha) + W @ W
    X[:, 3:, 6:9] = -_crossing(a)
    X[:, 3:, :6] = np.einsum("cij,kj->kic", TENSORS, alpha) + W @ np.einsum(
        "cij,kj->kic", TENSORS, w
    )
    return X


def _crossing(v: Array) -> Array:
    """Return the matrices (N, 3, 3) of cross products with vectors (N, 3)."""
    found = np.zeros((len(v), 3, 3))
    for i, j, k in ((0, 1, 2), (1, 2, 0), (2, 0, 1)):
        found[:, i, j], found[:, j, i] = -v[:, k], v[:, k]
    return found


def turned_wrench(a: Array, w: Array, alpha: Array, ten: Array) -> Array:
    """Return the derivative (N, 6, 3) of the wrench by small turns of the sensor about its own
    axes.

    A turn by d takes v to v + v × d. The wrench is linear in a and alpha and quadratic in w.
    """
    h, inertia = ten[6:9], tensor(ten)
    A, W, V, H = _crossing(a), _crossing(w), _crossing(alpha), _crossing(h[None])[0]
    found = np.empty((len(a), 6, 3))
    # d(w × (w × h)) = (dw × (w × h)) + w × (dw × h), with dw = W d
    found[:, :3] = ten[9] * A - H @ V - (_crossing(np.cross(w, h)) + W @ H) @ W
    found[:, 3:] = inertia @ V + (W @ inertia - _crossing(w @ inertia)) @ W + H @ A
    return found


def _mountings(a: Array, w: Array) -> list[tuple[Array, float]]:
    """Return mountings and signs to begin with: forces are s m Rᵀ a + bias at rest, and nearly so
    in slow motion.
    """
    G = np.linalg.lstsq(np.column_stack([a, np.ones(len(a))]), w[:, :3], rcond=None)[0][
        :3
    ].T  # force = G a + bias
    U, sizes, Vt = np.linalg.svd(G)
    found = []
    for sign in (-1.0, 1.0):
        turn = (
            sign * U @ np.diag([1.0, 1.0, sign * np.linalg.det(U @ Vt)]) @ Vt
        )  # the rotation nearest to sign G
        found.append((turn.T, sign))
    return found + (
        [] if sizes[2] > MIN_ROUND * sizes[0] else [(np.eye(3), sign) for sign in (-1.0, 1.0)]
    )


def _fitted(
    states: tuple[Array, Array, Array], w: Array, starts: Any, R: Array, sign: float, turning: bool
) -> _Fit:
    """Return the least-squares fit that begins with a mounting."""
    noise, memory = (
        np.repeat([max(1e-9, float(np.std(part))) for part in (w[:, :3], w[:, 3:])], 3),
        np.ones(6),
    )
    places = places_of({"body": 10, "bias": 6, "turn": 3})
    known = [Rows.known("body", 0.0, WIDEST_LOAD), Rows.known("turn", 0.0, np.full(3, np.pi))]
    J, ten = np.zeros((len(w), 6, 19)), np.zeros(10)
    J[..., places["bias"]] = np.eye(6)
    free = max(1.0, len(w) - (19 if turning else 16) / 6.0)
    misfit = np.inf
    for step in range(MAX_STEPS):
        moved = (states[0] @ R, states[1] @ R, states[2] @ R)
        J[..., places["body"]] = sign * wrench_columns(*moved)
        if turning and step:
            J[..., places["turn"]] = sign * turned_wrench(*moved, ten)
        scale = noise * np.sqrt(memory)
        data = Rows.split((J / scale[:, None]).reshape(-1, 19), (w / scale).ravel(), places)
        solution = BlockProblem.of(data, *known).solved()
        ten, turn = solution["body"], solution["turn"]
        size = float(np.linalg.norm(turn))
        R = R @ Rotation.from_rotvec(turn * min(1.0, 0.5 / max(size, 0.5))).as_matrix()
        left = w - J @ solution.x
        new = np.sqrt(np.maximum(np.sum(left**2, axis=0) / free, 1e-24))
        noise = np.repeat(rms(new.reshape(2, 3), axis=1), 3)
        before, misfit = misfit, float(np.sum(np.log(noise)))
        if len(w) >= 120:
            memory = np.minimum(memory_of(left, starts), len(w) / 30)
        if step > 2 and size < 1e-9 and abs(before - misfit) < 1e-7:
            break
    return _Fit(solution, R, sign, noise, misfit)


def _best(fits: list[_Fit]) -> _Fit:
    """Return the fit of least noise with a positive mass.

    Of equal ones the mounting nearest to the link's axes.
    """
    sound = [fit for fit in fits if fit.solution["body"][9] > 0] or fits
    least = min(fit.misfit for fit in sound)
    equal = [fit for fit in sound if fit.misfit < least + 0.03]
    return max(equal, key=lambda fit: float(np.trace(fit.R)))


def _rotation(mounting: ArrayLike) -> Array:
    R = np.asarray(mounting, dtype=float)
    if R.shape != (3, 3) or not np.allclose(R @ R.T, np.eye(3), atol=1e-6) or np.linalg.det(R) < 0:
        raise ShapeError(f"mounting: expected a rotation matrix (3, 3), got {mounting!r}")
    return R


def _with_torques(
    estimate: Estimate, log: Recording, link: str | None, T: Array, ten: Array, spread: Array
) -> tuple[Array, Array]:
    """Return the ten parameters and their covariance with what the joint torques say of the load
    added.
    """
    found = identify_payload(estimate, log, link=link)
    turn = of_frame(np.asarray(np.linalg.inv(T), dtype=float))
    other = turn @ np.array(found.settings["unconstrained"])
    C = turn @ np.asarray(found.covariance) @ turn.T
    both = ((ten, spread), (other, C))
    known = [Rows.known("load", value, np.linalg.cholesky(P)) for value, P in both]
    together = BlockProblem.of(*known).solved()
    return together["load"], together.spread("load")
