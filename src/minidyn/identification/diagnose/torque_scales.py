"""Each joint's measured torque over that of the robot's file.

With amperes for newton metres, mN m, or a wrong gear ratio a fit is as good as ever, and its masses
are wrong by that factor. Only something known before can show it: the bodies of the robot's file.
For each joint, least squares over the samples finds

    tau = s · (torque of the file's bodies) + rotor inertia · ddq + viscous · dq + Coulomb ·
    sign(dq) + offset

with a scale s that is 1 where file and log agree. The file is not exact, so s is uncertain beyond
its noise. Errors of the file are taken as independent: masses to 10 %, centres of mass to a tenth
of the robot's length scale in each direction, and a tool that the file does not know, of 2 % of the
robot's mass, on every last link. What they do to s is computed through the same least squares. A
scale is reported where it lies beyond `FACTOR` by more than two standard deviations of all this
together: docs/false-alarms.md says how these figures were chosen.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from minidyn.arrays import Array
from minidyn.base.numeric.samples import units_of
from minidyn.dynamics.functions import regressor_by_parts
from minidyn.identification.consistency.prior import knows_a_body
from minidyn.identification.diagnose.thresholds import FACTOR, LARGE, MOST, SAMPLES
from minidyn.identification.estimators.block_covariance import block_length, block_sums
from minidyn.identification.estimators.torque_scatter import noise_torque
from minidyn.identification.rows.base_rows import has_motion, signals_of
from minidyn.identification.score import MIN_STANDARD_ERRORS
from minidyn.identification.sizes import ROUNDING
from minidyn.model.drives import PLAIN
from minidyn.model.parameters import STANDARD
from minidyn.model.robot import Robot
from minidyn.recording.lazy import AnyRecording
from minidyn.recording.recording import Recording

TOOL_MASS = 0.02
"""Over the robot's: a tool on the last link that the file does not know."""
PIECE = 256  # size: consecutive samples taken of a recording on disk
MASS, FIRST_MOMENT = STANDARD.index("M"), STANDARD.index("MX")
"""Places of the mass and of the first of three moments among the ten parameters of a link."""


class ComparedLog(NamedTuple):
    """Samples of a log all through it, with the regressor of links and drives."""

    t: Array
    motion: tuple[Array, Array, Array]  # q, dq, ddq (N, n)
    tau: Array  # (N, n)
    links: Array  # regressor of the links' parameters (N, n, 10 links)
    drives: Array  # columns of rotor inertia, friction and offset (N, n, d)


def compared(robot: Robot, recording: AnyRecording, known: Array | None) -> ComparedLog | None:
    """Return what of a recording is compared with known parameters; None where it cannot be."""
    if known is None or not knows_a_body(robot, known) or robot.implicit_loops or robot.formulas:
        return None
    if not has_motion(recording):
        return None
    model, log = robot.with_drives(True, PLAIN), sampled(recording)
    if len(log) <= len(model.layout):
        return None
    q, dq, ddq, tau = signals_of(log, "q", "dq", "ddq", "tau")
    Y = regressor_by_parts(model, q, dq, ddq)
    links = np.concatenate([Y[..., part] for part in model.layout.links], axis=-1)
    drives = [column.index for columns in model.layout.drives for column in columns]
    return ComparedLog(np.asarray(log.t), (q, dq, ddq), tau, links, Y[..., drives])


def sampled(recording: AnyRecording) -> Recording:
    """Return enough samples of a recording: every so many, or pieces spread over one on disk."""
    if isinstance(recording, Recording):
        return recording.thinned(max(1, len(recording) // SAMPLES))
    count = max(1, min(SAMPLES // PIECE, len(recording) // PIECE))
    return recording.spread(count, PIECE).thinned(1, size=PIECE)


def drive_spans(drives: Array) -> list[Array]:
    """Return an orthonormal basis (N, k) of what rotor and friction of each joint can explain."""
    spans = []
    for columns in np.moveaxis(drives, 1, 0):
        sizes = np.linalg.norm(columns, axis=0)
        U, s, _ = np.linalg.svd(columns[:, sizes > 0] / sizes[sizes > 0], full_matrices=False)
        spans.append(U[:, s > ROUNDING * s.max(initial=0.0)])
    return spans


def without(span: Array, x: Array) -> Array:
    """Return x (N,) without what an orthonormal basis (N, k) explains."""
    return np.asarray(x - span @ (span.T @ x))


@dataclass(frozen=True)
class TorqueScale:
    """A joint's measured torque over that of the robot's file.

    Attributes:
        joint: Name of the joint.
        factor: The scale s; NaN where nothing is known to compare with.
        noise: Standard deviation of s by the noise of the log.
        prior: Relative standard deviation of s by errors of the file.
        explained: Share of the power of the measured torque, without what rotor and friction can
            explain, that is s times the file's.
    """

    joint: str
    factor: float = math.nan
    noise: float = math.nan
    prior: float = math.inf
    explained: float = 1.0

    @property
    def known(self) -> bool:
        """Whether the file says anything about this joint's torque."""
        return math.isfinite(self.factor) and self.prior < 1.0

    @property
    def std(self) -> float:
        """Standard deviation of the factor, errors of the file included."""
        return math.hypot(self.noise, self.factor * self.prior)

    @property
    def within(self) -> float:
        """By which share the scale may differ from one."""
        return abs(self.factor - 1.0) + MIN_STANDARD_ERRORS * self.std

    @property
    def wrong(self) -> bool:
        """Whether it is beyond FACTOR, and most of the torque is that of the file's bodies.

        Else springs, cables and friction that are not known set the scale.
        """
        return self.contradicts and self.explained >= MOST

    @property
    def contradicts(self) -> bool:
        """Whether it is certainly beyond FACTOR."""
        if not self.known:
            return False
        bound = FACTOR if self.factor > 1 else 1 / FACTOR
        std = math.hypot(self.noise, bound * self.prior)
        is_certain = abs(self.factor - bound) > MIN_STANDARD_ERRORS * std
        return is_certain and differs(self.factor)


def differs(value: float, factor: float = FACTOR) -> bool:
    """Say whether a ratio is farther from one than a factor."""
    return not 1 / factor <= value <= factor


def torque_scales(robot: Robot, recording: AnyRecording, known: Array | None) -> list[TorqueScale]:
    """Return the scale of each joint's torque against prior parameters (p,) of the robot, NaN where
    unknown.

    Args:
        robot: The robot, whose parameters `known` are.
        recording: With q, dq, ddq and tau, columns in the robot's order.
        known: Prior parameters; None: none are known.
    """
    log = compared(robot, recording, known)
    if log is None or known is None:
        return [TorqueScale(name) for name in robot.joint_names]
    Y, spans = log.links, drive_spans(log.drives)
    bodies = np.concatenate([known[part] for part in robot.layout.links])
    errors = _errors(robot, np.nan_to_num(bodies).reshape(-1, 10))
    noise = noise_torque(robot, recording, log.motion[0], known)
    found = []
    for joint, name in enumerate(robot.joint_names):
        acting = np.any(Y[:, joint], axis=0)
        if not np.isfinite(bodies[acting]).all():
            found.append(TorqueScale(name))
            continue
        file = without(spans[joint], Y[:, joint, acting] @ bodies[acting])
        tau, power = log.tau[:, joint], float(file @ file)
        # where noise of accelerations makes more, the scale would seem too small
        least = len(tau) * float(noise[joint]) ** 2 / LARGE
        if power <= max(ROUNDING**2 * float(tau @ tau), least):
            found.append(TorqueScale(name))
            continue
        pull = file / power
        prior = float(np.linalg.norm((pull @ Y[:, joint]) @ errors))
        found.append(_scale(name, prior, file, without(spans[joint], tau), log.t))
    return found


def _scale(name: str, prior: float, file: Array, measured: Array, t: Array) -> TorqueScale:
    """Return the scale of one joint from torques (N,) of the file and measured ones, without what
    rotor and friction can explain.
    """
    power, total = float(file @ file), float(measured @ measured)
    factor = float(file @ measured) / power
    residual = (measured - factor * file)[:, None]
    length, _ = block_length(residual, t, len(residual))
    sums = block_sums([(file[:, None] * residual / power, False)], length)
    explained = factor**2 * power / total if total > 0 else 0.0
    return TorqueScale(name, factor, float(np.sqrt(np.sum(sums**2))), prior, explained)


def _errors(robot: Robot, bodies: Array) -> Array:
    """Return what the ten parameters of each link (links, 10) of a file may be wrong by.

    (10 links, kinds): one column for each independent error.
    """
    count, masses = len(bodies), bodies[:, MASS]
    carriers = {joint.parent for joint in robot.joints}
    is_last = np.array([link not in carriers for link in range(count)])
    tools = TOOL_MASS * masses.sum() * is_last
    wrong = np.zeros((count, 10, count, 5))
    own = np.arange(count)
    wrong[own, :, own, 0] = LARGE * bodies
    wrong[own, MASS, own, 1] = tools
    for axis in range(3):
        size = LARGE * units_of(robot).length * (masses + tools)
        wrong[own, FIRST_MOMENT + axis, own, 2 + axis] = size
    return wrong.reshape(10 * count, 5 * count)
