"""`md.rehearse`: the whole chain on simulated copies of a robot, before the robot moves.

Copies differ from the robot file as real robots do, and their sensors err as real ones do. Each
runs the motion under a controller, its log is identified with default settings, and the result is
compared with what only a simulation knows.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from minidyn.app.report.rehearsal_page import write_rehearsal
from minidyn.arrays import Array, plain_values, single_thread
from minidyn.control.model_based import computed_torque
from minidyn.display import DisplayTable, shows_progress
from minidyn.dynamics.functions import base_regressor, inertia_matrix, inverse_dynamics
from minidyn.errors import MinidynError, WrongArgument
from minidyn.excitation.excitation import Excitation
from minidyn.formats.load import RobotLike, as_robot
from minidyn.identification.consistency.prior import default_bodies, knows_a_body
from minidyn.identification.diagnose.thresholds import FAIR, LARGE
from minidyn.identification.estimate import Estimate
from minidyn.identification.identify import identify
from minidyn.identification.rows.base_rows import signals_of
from minidyn.identification.settings import Settings
from minidyn.identification.verdict import Limits
from minidyn.model.drives import PLAIN, ROTOR
from minidyn.model.parameters import from_pseudo_inertia, to_pseudo_inertia
from minidyn.model.robot import Robot
from minidyn.notices import (
    Grade,
    Notice,
    error,
    grade_of,
    info,
    most_serious_first,
    notices_json,
    warning,
)
from minidyn.recording.read.read import read_recording
from minidyn.recording.recording import Recording
from minidyn.simulation.plants import mujoco_plant
from minidyn.simulation.simulate import simulate
from minidyn.simulation.trajectory import Trajectory, along, fourier, sampled
from minidyn.text import number, percent, short

REFUSED = error(
    "rehearsal.refused",
    "Simulated logs of the motion were refused by identification.",
    "The motion cannot identify the robot: see what the error names.",
)
LARGE_ERROR = error(
    "rehearsal.large_error",
    "Models of simulated logs do not predict another motion.",
    "Design a motion that shows more: longer, faster, of more joints.",
)
FAIR_ERROR = warning(
    "rehearsal.fair_error",
    "Models of simulated logs predict another motion fairly.",
    "A longer or faster motion, or several, show more.",
)
NOT_SHOWN = warning(
    "rehearsal.not_shown",
    "The motion does not show some base parameters well enough to find them.",
    "They matter for other motions: move the joints that they belong to faster or farther.",
)
TOO_SURE = warning(
    "rehearsal.too_sure",
    "Stated deviations are smaller than the errors of parameters on simulated logs.",
    "Read the deviations of a fit to this motion as larger by the factor that is named.",
)
NO_BODIES = info(
    "rehearsal.drawn_bodies",
    "The robot file has no inertias: bodies were drawn from the geometry.",
    "Name a robot file with inertias, even rough ones, to rehearse with the robot's own torques.",
)
OWN_PLANT = info(
    "rehearsal.own_plant",
    "The simulator was minidyn's own, not an independent one.",
    "Errors that simulator and model share are not seen. MuJoCo simulates where it is installed "
    'and knows all parts of the robot (pip install "minidyn[mujoco]").',
)

COVERAGE = 1.96
"""Standard deviations that hold 95 % of normal errors."""
MAX_Z = 1.5
"""Root mean square of z-scores from which stated deviations are called too small; 1 is exact."""
MIN_SHARE = 0.5
"""Share of the draws in which a parameter must be shown to count as found."""

_BANDWIDTH = 20.0  # rad/s of the controller that leads the copies along the motion
_LONGEST_STEP = 2e-3  # s, of the simulation
_WIDTH = 0.005  # rad/s over which friction reverses where minidyn simulates; MuJoCo needs none
_VISCOUS, _COULOMB, _OFFSET = 0.1, 0.15, 0.02  # of a joint's torque, where the file has none
_ROTOR = 0.3  # of the inertia that a joint moves, where the file has none
_LEAST = 0.05  # of the largest joint's torque or inertia, for friction and rotor of small ones
_TEST = (10.0, 1000)  # seconds and samples of the motion that models are tested on
_NAMES = 80  # letters of a list of parameters
_LOOKS = 400  # samples of the motion that sizes are taken from


@dataclass(frozen=True, kw_only=True)
class Sensors:
    """What stands between a simulated robot and its log, and how far copies are from the file.

    Attributes:
        rate: Samples a second.
        encoder: Noise and step of the encoders, rad or m.
        torque_noise: Standard deviation of measured torques, share of each joint's torque.
        delay: How late torques are logged, s.
        drift: Share by which friction falls during the motion, as a gear that warms up.
        bodies: Deviation of masses and inertias of links from the robot file, share.
        friction: Deviation of friction and rotor inertias from the file, or from ordinary sizes.
    """

    rate: float = 500.0
    encoder: float = 2e-5
    torque_noise: float = 0.02
    delay: float = 1e-3
    drift: float = 0.1
    bodies: float = 0.2
    friction: float = 0.3

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            is_number = isinstance(value, int | float) and not isinstance(value, bool)
            if not (is_number and 0 <= value < np.inf) or (name == "rate" and value == 0):
                raise WrongArgument(f"sensors: {name}: expected a number from 0, got {value!r}")


@dataclass(frozen=True, eq=False)
class Draw:
    """One simulated copy of the robot and what was identified of it.

    Attributes:
        seed: Of everything random in it.
        error: Torque error of the model on another motion, without noise, share of the torque;
            NaN where identification refused the log.
        file_error: The same of the robot file; NaN where it has no inertias.
        names: Base parameters of links and rotors that were estimated.
        z: Error over stated deviation of each (b,).
        relative: Stated deviation over the true value, or over the value that makes up a tenth of
            a joint's torque where that is larger (b,); infinite where the log does not show it.
        refused: Why identification refused the log; "" where it did not.
    """

    seed: int
    error: float
    file_error: float
    names: tuple[str, ...] = ()
    z: Array = field(default_factory=lambda: np.zeros(0))
    relative: Array = field(default_factory=lambda: np.zeros(0))
    refused: str = ""


@dataclass(frozen=True, eq=False)
class Rehearsal:
    """What a motion is worth for identification, by simulated copies of the robot.

    Attributes:
        robot: The robot.
        duration: Of the motion, s.
        sensors: Errors that were planted.
        plant: Who simulated: "mujoco" or "minidyn".
        draws: The copies.
        notices: What a reader should know.
    """

    robot: Robot
    duration: float
    sensors: Sensors
    plant: str
    draws: tuple[Draw, ...]
    notices: tuple[Notice, ...]

    @property
    def level(self) -> Grade:
        """Return "good", "caution" (a warning) or "bad" (an error)."""
        return grade_of(self.notices)

    @property
    def headline(self) -> str:
        """The level in words."""
        words = {
            "good": "Ready to record: this motion identifies the robot",
            "caution": "Can be recorded; read the remarks",
            "bad": "Not to be recorded yet",
        }
        return words[self.level]

    @property
    def errors(self) -> Array:
        """Torque error of each draw on another motion (d,)."""
        return np.array([draw.error for draw in self.draws])

    @cached_property
    def z(self) -> Array:
        """All z-scores of parameters that the logs show, of all draws."""
        return np.concatenate([draw.z[np.isfinite(draw.relative)] for draw in self.draws])

    @property
    def z_rms(self) -> float:
        """Root mean square of the z-scores: 1 where stated deviations are exact."""
        return float(np.sqrt(np.mean(self.z**2))) if len(self.z) else np.nan

    @property
    def coverage(self) -> float:
        """Share of parameters whose 95 % interval holds the true value."""
        return float(np.mean(np.abs(self.z) <= COVERAGE)) if len(self.z) else np.nan

    @cached_property
    def shown(self) -> dict[str, float]:
        """{base parameter: share of the draws whose log shows it to 30 % or better}."""
        counts: dict[str, list[bool]] = {}
        for draw in self.draws:
            for name, relative in zip(draw.names, draw.relative):
                counts.setdefault(name, []).append(bool(relative <= FAIR))
        return {name: float(np.mean(fair)) for name, fair in counts.items()}

    @property
    def not_shown(self) -> list[str]:
        """Base parameters that fewer than half of the draws show."""
        return [name for name, share in self.shown.items() if share < MIN_SHARE]

    def to_json(self) -> dict[str, Any]:
        """Return plain values for `json.dump`."""
        draws = [
            {name: getattr(draw, name) for name in ("seed", "error", "file_error", "refused")}
            for draw in self.draws
        ]
        values = {
            "robot": self.robot.name,
            "duration": self.duration,
            "plant": self.plant,
            "sensors": asdict(self.sensors),
            "level": self.level,
            "headline": self.headline,
            "z_rms": self.z_rms,
            "coverage": self.coverage,
            "shown": self.shown,
            "draws": draws,
            "notices": notices_json(self.notices),
        }
        return dict(plain_values(values, finite=True))

    def report(self, path: str | os.PathLike[str] = "rehearsal.html") -> Path:
        """Write one HTML page that loads nothing, and return its path."""
        return write_rehearsal(self, Path(path))

    def table(self) -> DisplayTable:
        """Return the figures as a table."""
        fitted = self.errors[np.isfinite(self.errors)]
        rows = {
            "draws identified": f"{len(fitted)} of {len(self.draws)}",
            "error on another motion, median": percent(np.median(fitted)) if len(fitted) else "-",
            "error on another motion, largest": percent(fitted.max()) if len(fitted) else "-",
            "z-scores, root mean square": number(self.z_rms, 2),
            "95 % intervals that hold the true value": percent(self.coverage),
            "base parameters not shown": f"{len(self.not_shown)} of {len(self.shown)}",
        }
        columns = {"figure": list(rows), "value": list(rows.values())}
        return DisplayTable(f"rehearsal of {self.robot.name}", columns, notices=self.notices)

    def _repr_html_(self) -> str:
        return self.table().to_html()

    def __repr__(self) -> str:
        return f"Rehearsal({self.robot.name}, {len(self.draws)} draws, {self.headline!r})"


@shows_progress("rehearsing")
@single_thread()
def rehearse(
    robot: RobotLike,
    motion: Excitation | Trajectory | str | os.PathLike[str] | None = None,
    *,
    duration: float | None = None,
    draws: int = 20,
    sensors: Sensors | Mapping[str, float] | None = None,
    settings: Settings | None = None,
    limits: Limits | Mapping[str, float] | None = None,
    plant: str | None = None,
    seed: int = 0,
    progress: Callable[[int], None] | bool | None = None,
) -> Rehearsal:
    """Identify simulated copies of a robot from a motion, before the robot moves.

    Each copy has other bodies, friction and rotors; a controller leads it along the motion; noise,
    a delay and friction that drifts are planted in its log. The log is identified with default
    settings and compared with the truth, and the model is tested on another motion.

    Args:
        robot: The robot, a built-in robot's name or a robot file's path.
        motion: What `md.excite` returned, a trajectory, or a file with times and positions, such
            as the CSV that `minidyn excite` writes; None: a Fourier series within the limits.
        duration: Seconds; needed for a trajectory of one's own, known otherwise.
        draws: How many copies; 20 or more for z-scores that can be trusted.
        sensors: Errors that are planted, as `Sensors` or by name; None: ordinary ones.
        settings: Of identification; None: the defaults.
        limits: Of the verdict: `error` and `error_poor` count; None: those of every verdict.
        plant: "mujoco" or "minidyn"; None: MuJoCo where it is installed and knows the robot.
        seed: Of everything random.
        progress: Called with the number of draws done; True: a bar on stderr.

    Returns:
        The rehearsal, with a verdict.

    Example:
        >>> import minidyn as md
        >>> md.rehearse("two_link", duration=8.0, draws=2, plant="minidyn").level in ("good", "caution")
        True
    """  # noqa: E501
    robot = as_robot(robot)
    if isinstance(draws, bool) or not isinstance(draws, int) or draws < 1:
        raise WrongArgument(f"draws: expected a whole number from 1, got {draws!r}")
    errors = sensors if isinstance(sensors, Sensors) else Sensors(**dict(sensors or {}))
    allowed = Limits.of(limits)
    path, seconds = _motion(robot, motion, duration)
    nominal, notices = _nominal(robot, path, seconds)
    simulator, reason = _simulator(nominal, plant)
    if reason:
        notices.append(OWN_PLANT(f"minidyn itself simulated the copies: {reason}"))
    settings = settings or Settings()
    stage = _Stage(robot, nominal, path, seconds, errors, simulator, settings)
    tick = progress if callable(progress) else lambda done: None
    copies = []
    for k in range(draws):
        copies.append(stage.draw(1000 * seed + k))
        tick(1)
    rehearsal = Rehearsal(robot, seconds, errors, simulator, tuple(copies), ())
    notices += _judged(rehearsal, allowed)
    return replace(rehearsal, notices=tuple(most_serious_first(notices)))


def _motion(robot: Robot, motion: Any, duration: float | None) -> tuple[Trajectory, float]:
    """Return the trajectory and its length, s."""
    if duration is not None and not 0 < duration < np.inf:
        raise WrongArgument(f"duration: expected seconds above 0, got {duration!r}")
    if isinstance(motion, Excitation):
        if motion.robot.n != robot.n:
            raise MinidynError(
                f"rehearse: the motion has {motion.robot.n} joints, {robot.name} has {robot.n}"
            )
        return motion.trajectory, duration or motion.duration
    if isinstance(motion, str | os.PathLike):
        log = read_recording(motion, robot)
        whole = float(log.t[-1] - log.t[0])
        return sampled(np.asarray(log.t) - log.t[0], np.asarray(log.q)), duration or whole
    if motion is None:
        seconds = duration or 10.0
        return fourier(robot, seed=0, period=seconds), seconds
    if duration is None:
        raise WrongArgument("duration: give the seconds of a trajectory")
    return motion, duration


def _nominal(robot: Robot, path: Trajectory, seconds: float) -> tuple[Robot, list[Notice]]:
    """Return the robot that copies are drawn around, with every body and plain drive term known."""
    notices, values, bodies = [], np.array(robot.parameters), default_bodies(robot)
    if not knows_a_body(robot, values):
        notices.append(NO_BODIES(f"{robot.name} has no inertias; bodies are drawn from geometry"))
    for part in robot.layout.links:
        if not (np.isfinite(values[part]).all() and np.any(values[part])):
            values[part] = bodies[part]
    full = robot.with_parameters(values).with_drives(True, PLAIN, sign_width=0.0)
    values = np.array(full.parameters)
    rigid = robot.with_drives(False, ()).with_parameters(None)
    rigid = rigid.with_parameters([values[full.layout.index(n)] for n in rigid.parameter_names])
    t = np.linspace(0.0, seconds, _LOOKS)
    q, dq, ddq = along(path, t, robot.n)
    load = np.sqrt(np.mean(inverse_dynamics(rigid, q, dq, ddq) ** 2, axis=0))
    load = np.maximum(load, _LEAST * load.max())
    inertia = np.diagonal(inertia_matrix(rigid, q), axis1=-2, axis2=-1).mean(axis=0)
    speed = np.sqrt(np.mean(dq**2, axis=0))
    sizes = {
        "Fv": _VISCOUS * load / np.maximum(speed, _LEAST * max(speed.max(), 1e-9)),
        "Fc": _COULOMB * load,
        "Fo": _OFFSET * load,
        ROTOR: _ROTOR * np.maximum(inertia, _LEAST * inertia.max()),
    }
    for row, joint in enumerate(robot.independent):
        for column in full.layout.drives[joint]:
            if not values[column.index] > 0:  # unknown, or zero: most files have no friction
                values[column.index] = sizes[column.symbol][row]
    return full.with_parameters(np.nan_to_num(values)), notices


def _copy(nominal: Robot, sensors: Sensors, rng: np.random.Generator) -> Robot:
    """Return a robot that differs from the nominal one, with bodies that can exist.

    In the metric of its pseudo-inertia P = U Uᵀ a body becomes U (1 + E) (1 + E)ᵀ Uᵀ: masses and
    inertias change by the same share, whatever their size.
    """
    values = np.array(nominal.parameters)
    for part in nominal.layout.links:
        if np.any(values[part]):
            eigenvalues, axes = np.linalg.eigh(to_pseudo_inertia(values[part]))
            root = axes * np.sqrt(np.maximum(eigenvalues, 0.0))
            root = root @ (np.eye(4) + 0.5 * sensors.bodies * rng.normal(size=(4, 4)))
            values[part] = from_pseudo_inertia(root @ root.T)
    for columns in nominal.layout.drives:
        for column in columns:
            values[column.index] *= np.exp(sensors.friction * rng.normal())
    return nominal.with_parameters(values)


def _simulated(robot: Robot, plant: str) -> Robot:
    """Return a copy as its simulator knows it: torque offsets are those of the sensor."""
    width = 0.0 if plant == "mujoco" else _WIDTH
    return robot.with_drives(True, ("viscous", "coulomb"), sign_width=width)


def _simulator(nominal: Robot, plant: str | None) -> tuple[str, str]:
    """Return who simulates, and why it is not MuJoCo where nobody asked for minidyn."""
    if plant is not None:
        return plant, ""
    try:
        mujoco_plant(_simulated(nominal, "mujoco"))
    except MinidynError as problem:
        return "minidyn", str(problem).removeprefix('plant="mujoco": ')
    return "mujoco", ""


@dataclass(frozen=True)
class _Stage:
    """What all draws share."""

    robot: Robot
    nominal: Robot
    path: Trajectory
    seconds: float
    sensors: Sensors
    plant: str
    settings: Settings

    def draw(self, seed: int) -> Draw:
        """Simulate and identify one copy."""
        rng = np.random.default_rng([seed, self.robot.n])
        true = _copy(self.nominal, self.sensors, rng)
        log = self.log(true, rng)
        test = self.test(true, seed)
        tau, q, dq, ddq = signals_of(test, "tau", "q", "dq", "ddq")
        size = float(np.linalg.norm(tau))
        file_error = np.nan
        if knows_a_body(self.robot, np.array(self.robot.parameters)):
            guess = self.robot.with_parameters(np.nan_to_num(self.robot.parameters))
            guessed = inverse_dynamics(guess, q, dq, ddq)
            file_error = float(np.linalg.norm(tau - guessed)) / size
        try:
            estimate = identify(self.robot, log, settings=self.settings)
        except MinidynError as problem:
            return Draw(seed, np.nan, file_error, refused=str(problem))
        model_error = float(np.linalg.norm(tau - estimate.predict(test))) / size
        names, z, relative = _compared(estimate, true, log)
        return Draw(seed, model_error, file_error, names, z, relative)

    def log(self, true: Robot, rng: np.random.Generator) -> Recording:
        """Return what is logged of the motion of a copy."""
        sensors = self.sensors
        each = max(1, int(np.ceil(1.0 / sensors.rate / _LONGEST_STEP - 1e-9)))
        step = 1.0 / sensors.rate / each
        body = _simulated(true, self.plant)
        law = computed_torque(self.nominal, bandwidth=_BANDWIDTH, period=step)
        run = simulate(body, law, self.path, self.seconds, dt=step, plant=self.plant)
        q, dq, t = run.telemetry["q_true"], run.telemetry["dq_true"], np.asarray(run.t)
        friction = body.parameters * [
            not c.is_rigid and c.symbol != ROTOR for c in body.layout.columns
        ]
        rubbed = inverse_dynamics(body.with_parameters(friction), q, dq, np.zeros_like(q))
        warm = 1.0 - sensors.drift * t / self.seconds
        tau = np.asarray(run.tau) + (warm - 1.0)[:, None] * rubbed + _offsets(true)
        late = np.stack([np.interp(t - sensors.delay, t, column) for column in tau.T], axis=1)
        late = late[::each]
        noise = sensors.torque_noise * np.sqrt(np.mean(late**2, axis=0))
        late = late + noise * rng.normal(size=late.shape)
        q = q[::each] + sensors.encoder * rng.normal(size=late.shape)
        if sensors.encoder:
            q = np.round(q / sensors.encoder) * sensors.encoder
        return Recording(t[::each], q, late, joint_names=run.joint_names)

    def test(self, true: Robot, seed: int) -> Recording:
        """Return another motion with the exact torque of a copy."""
        seconds, samples = _TEST
        t = np.linspace(0.0, seconds, samples)
        q, dq, ddq = along(fourier(self.robot, seed=seed + 500, period=seconds), t, self.robot.n)
        body = _simulated(true, self.plant)
        tau = inverse_dynamics(body, q, dq, ddq) + _offsets(true)
        return Recording(t, q, tau, dq, ddq, self.robot.joint_names)


def _offsets(robot: Robot) -> Array:
    """Return the torque offset of each joint (n,)."""
    columns = [robot.layout.drives[joint] for joint in robot.independent]
    return np.array(
        [sum(robot.parameters[c.index] for c in own if c.symbol == "Fo") for own in columns]
    )


def _compared(
    estimate: Estimate, true: Robot, log: Recording
) -> tuple[tuple[str, ...], Array, Array]:
    """Return names, z-scores and relative deviations of base parameters of links and rotors."""
    base = estimate.base
    robot, std = base.robot, np.asarray(estimate.std)
    values = dict(zip(true.parameter_names, true.parameters))
    beta = base.values([values.get(name, 0.0) for name in robot.parameter_names])
    columns = [robot.layout.column(name) for name in base.kept]
    rigid = np.array([column.is_rigid or column.symbol == ROTOR for column in columns])
    every = max(1, len(log) // _LOOKS)
    q = np.asarray(log.q)[::every]
    t = np.asarray(log.t)[::every]
    dq = np.gradient(q, t, axis=0)
    Y = base_regressor(robot, q, dq, np.gradient(dq, t, axis=0), base=base)
    torque = np.sqrt(np.mean(np.asarray(log.tau) ** 2, axis=0))
    with np.errstate(divide="ignore", invalid="ignore"):
        effect = np.fmax.reduce(np.sqrt(np.mean(Y**2, axis=0)) / torque[:, None])
        relative = std / np.fmax(np.abs(beta), LARGE / effect)
        z = (np.asarray(estimate.beta) - beta) / std
    relative = np.where(np.isfinite(std) & np.isfinite(relative) & (std > 0), relative, np.inf)
    names = tuple(name for name, keep in zip(base.kept, rigid) if keep)
    return names, z[rigid], relative[rigid]


def _judged(rehearsal: Rehearsal, limits: Limits) -> list[Notice]:
    """Return what a reader should know of the draws."""
    notices = []
    refused = [draw.refused for draw in rehearsal.draws if draw.refused]
    fitted = rehearsal.errors[np.isfinite(rehearsal.errors)]
    if refused:
        text = f"{len(refused)} of {len(rehearsal.draws)} simulated logs were refused: {refused[0]}"
        notices.append(REFUSED(text, refused=len(refused)))
    if len(fitted):
        median = float(np.median(fitted))
        text = f"the test error of models of simulated logs is {percent(median)} (median)"
        if median > limits.error_poor:
            notices.append(LARGE_ERROR(text, error=median))
        elif median > limits.error:
            notices.append(FAIR_ERROR(text, error=median))
    if rehearsal.not_shown:
        hidden = rehearsal.not_shown
        names = short(", ".join(hidden), _NAMES)
        text = f"{len(hidden)} of {len(rehearsal.shown)} base parameters are not shown: {names}"
        notices.append(NOT_SHOWN(text, parameters=hidden))
    if rehearsal.z_rms > MAX_Z:
        factor = number(rehearsal.z_rms, 2)
        text = f"errors of parameters are {factor} times the stated deviations (root mean square)"
        notices.append(TOO_SURE(text, factor=rehearsal.z_rms))
    return notices
