"""The direction of gravity: how the robot is mounted.

A robot file seldom knows that its robot stands on a wall or hangs from a ceiling. The regressor of
standard parameters is linear in gravity, Y = Y_0 + g_x Y_x + g_y Y_y + g_z Y_z, so that four
regressors give all directions. Products of their columns, with plain friction and rotor inertia
beside them, are summed once for each joint and block of time. A direction is then a small linear
fit. Some directions are tried; from the best one Gauss-Newton steps go on, in which the torque that
a turn of gravity adds is one more column of the fit.

The file's direction stays unless another one predicts held-out blocks of time better by the rule of
all choices, is known well, and lies beyond its own uncertainty. Gravity of the opposite sign gives
nearly the same torques: all moments change their sign with it, and inertia alone may notice. Where
it does not, that sign is taken with which bodies of positive mass carry the measured weight.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from minidyn.arrays import Array
from minidyn.dynamics.functions import regressors_by_gravity
from minidyn.identification.consistency.prior import default_bodies
from minidyn.identification.data import BLOCKS, motion_of
from minidyn.identification.diagnose.thresholds import STDS
from minidyn.identification.rows.base_rows import Samples
from minidyn.identification.rows.block_products import BlockProducts, View, solved
from minidyn.identification.score import Gain
from minidyn.identification.selection import FORCED, Decision
from minidyn.identification.settings import GRAVITY_DIRECTION, Settings
from minidyn.model.drives import PLAIN, friction_symbols
from minidyn.model.geometry import rpy_of
from minidyn.model.joint import Joint
from minidyn.model.robot import Robot
from minidyn.notices import Notice, warning
from minidyn.recording.lazy import AnyRecording
from minidyn.recording.recording import Recording

MAX_SAMPLES = 1200  # size: samples looked at, gravity is slow
MAX_COLUMNS = 600  # size: of all parts of a regressor, products of more would fill memory
MAX_STEPS = 12  # size: of Gauss-Newton
SIGN_WIDTH = 0.05  # of a joint's typical speed: plain friction reverses over less in no log
MIN_ANGLE = math.radians(10.0)
"""Smaller turns are those of floors, cables and encoders: real logs with right files have them."""
MAX_STD = math.radians(5.0)  # a direction that is known less well is no reason to turn a robot ...
MIN_ERRORS = 5.0  # ... but for a gain of so many standard errors, more than chance in any log
MAX_LINEAR = math.radians(20.0)  # beyond it the deviation of a direction says little
MIN_LIKENESS = 0.5  # cosine between the fit's weight and that of bodies: less says no sign

GRAVITY = warning(
    "identify.gravity_direction",
    "Gravity of the robot file does not fit the log: the robot is mounted in another way. The fit "
    "uses the direction that the log shows.",
    "Check how the robot is mounted. Where the direction is right, say it with the robot file: "
    "--gravity {gravity} in the shell, md.load(..., gravity=[{gravity}]) in Python, gravity = "
    "[{gravity}] in a TOML file; --mount {mount} says the same where the base is not turned yet. "
    "Where the file is right: minidyn identify --forbid-term gravity_direction, in Python "
    'forbid_terms="gravity_direction".',
)

_DIRECTIONS = np.array([way for way in product((-1.0, 0.0, 1.0), repeat=3) if any(way)])


class Mounting(NamedTuple):
    """How a robot is mounted.

    Attributes:
        robot: With the direction of gravity that is used.
        decisions: The row of the table of decisions; empty where no other direction was tried.
        notices: What a reader should know.
    """

    robot: Robot
    decisions: tuple[Decision, ...] = ()
    notices: tuple[Notice, ...] = ()


def mounted_as_logged(robot: Robot, data: AnyRecording, settings: Settings) -> Mounting:
    """Return the robot mounted as a prepared log shows, or as it is where its file fits."""
    is_forced = GRAVITY_DIRECTION in settings.force_terms
    is_asked = is_forced or (settings.auto and GRAVITY_DIRECTION not in settings.forbid_terms)
    if not is_asked or {"q", "dq", "ddq", "tau"} - set(data.signals):
        return Mounting(robot)
    size = MAX_SAMPLES // BLOCKS
    motion = motion_of(
        robot, data if isinstance(data, Recording) else data.spread(BLOCKS, size).load()
    )
    return Mounting(robot) if motion is None else mounted_by_motion(robot, motion, is_forced)


def mounted_by_motion(robot: Robot, motion: Samples, is_forced: bool = False) -> Mounting:
    """Return the robot mounted as samples of a motion and its torques show.

    Args:
        robot: On a fixed base, with any drive terms.
        motion: Samples in the order of time.
        is_forced: Take the best direction whatever its gain.

    Example:
        >>> import minidyn as md
        >>> robot = md.load("ur10e")
        >>> q, dq, ddq = md.trajectory.fourier(robot, seed=1)(t := np.linspace(0.0, 10.0, 800))
        >>> wall = robot.mounted((math.pi / 2, 0.0, 0.0))
        >>> samples = Samples(t, q, dq, ddq, md.inverse_dynamics(wall, q, dq, ddq))
        >>> mounted_by_motion(robot, samples).decisions[0].is_taken
        True
    """
    plain = robot.with_drives(True).with_joints(partial(_with_plain_friction, robot, motion))
    strength = float(np.linalg.norm(robot.gravity))
    columns = len(plain.layout) + 12 * len(plain.layout.links)
    samples = motion[:: max(1, -(-len(motion) // MAX_SAMPLES))]
    if not strength > 0.0 or columns > MAX_COLUMNS or len(samples) * robot.n < 4 * columns:
        return Mounting(robot)
    table = _Table.of(plain, samples, strength)
    base = robot.base_placement[:3, :3]
    bodies = _bodies(plain)
    before = table.fitted(base.T @ robot.gravity / strength)
    best = table.best(before)
    is_near = best.distance(before.direction) < STDS and best.std < MAX_STD
    is_upright = table.likeness(before, bodies) > -MIN_LIKENESS
    after = before
    if not (is_near and is_upright):
        after = _simplest(table, table.upright(best, bodies), before)
    if after is before:
        return Mounting(robot, (Decision(GRAVITY_DIRECTION, reason="the file's fits the log"),))
    densities = [table.densities(fit) for fit in (before, after)]
    gain, loss = Gain.of(*densities), Gain.of(*densities[::-1])
    is_better = gain.is_worth(robot.n)
    if not is_better and not loss.is_worth(robot.n):  # tied: bodies of positive mass say the sign
        likeness = [table.likeness(fit, bodies) for fit in (before, after)]
        is_better = likeness[0] < -MIN_LIKENESS and likeness[1] > MIN_LIKENESS
    is_known = after.std < MAX_STD or gain.mean > MIN_ERRORS * gain.standard_error
    is_taken = is_forced or (is_better and is_known)
    reason = "" if is_known else "the log does not determine it"
    reason = FORCED if is_forced else reason
    decision = Decision.of(GRAVITY_DIRECTION, (), gain, is_taken, reason)
    if not is_taken:
        return Mounting(robot, (decision,))
    return _turned(robot, strength * base @ after.direction, after.std, decision)


def _with_plain_friction(robot: Robot, motion: Samples, joint: Joint) -> Joint:
    """Return a joint with its own terms but for loads and memories, and plain friction."""
    drive = joint.drive.without("load", "presliding", "breakaway")
    if joint.kind == "fixed":
        return joint
    terms, width = friction_symbols((*drive.friction, *PLAIN)), drive.sign_width
    if joint.name in robot.joint_names and not width:
        speed = motion.dq[:, robot.joint_names.index(joint.name)]
        width = SIGN_WIDTH * float(np.sqrt(np.mean(speed**2)))
    return replace(joint, drive=replace(drive, friction=terms, sign_width=width))


def _bodies(robot: Robot) -> Array:
    """Return standard parameters (p,) of bodies with positive masses.

    Those of the file where it knows all ten of a link; drawn ones where it knows none.
    """
    links, phi = robot.layout.links, np.zeros(len(robot.layout))
    for part in links:
        own = robot.parameters[part]
        phi[part] = own if np.isfinite(own).all() and own[9] > 0.0 else 0.0
    if not phi.any():
        for part, body in zip(links, default_bodies(robot)):
            phi[part] = body
    return phi


def _angle(one: Array, other: Array) -> float:
    return math.atan2(float(np.linalg.norm(np.cross(one, other))), float(one @ other))


def _simplest(table: _Table, fit: _Fit, before: _Fit) -> _Fit:
    """Return the fit in the file's direction, or along an axis of the base, where that is as good
    as equal; else the fit.
    """
    if fit.distance(before.direction) < STDS:
        return before
    axis = min((*np.eye(3), *-np.eye(3)), key=fit.distance)
    if fit.distance(axis) < STDS:
        return replace(table.fitted(axis), covariance=fit.covariance)
    return fit


def _turned(robot: Robot, gravity: Array, std: float, decision: Decision) -> Mounting:
    """Return the robot whose base is turned so that this gravity, world axes, is the file's."""
    given = np.asarray(robot.gravity)
    angle, axis = _angle(gravity, given), np.cross(gravity, given)
    if not np.linalg.norm(axis) > 1e-9 * float(given @ given):  # opposite: any axis across will do
        way = np.eye(3)[int(np.argmin(np.abs(given)))]
        axis = way - given * float(way @ given) / float(given @ given)
    x, y, z = axis / np.linalg.norm(axis)
    K = np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
    mount = rpy_of(np.eye(3) + math.sin(angle) * K + (1.0 - math.cos(angle)) * K @ K)
    shown = ",".join(f"{round(number, 3) + 0.0:g}" for number in gravity)
    turns = ",".join(f"{round(math.degrees(number), 2) + 0.0:g}deg" for number in mount)
    text = (
        f"gravity is {math.degrees(angle):.3g}° (± {math.degrees(std):.2g}°) off the robot "
        f"file's direction: the base is taken to be turned by {turns} (roll, pitch, yaw)"
    )
    notice = GRAVITY(text, angle=angle, std=std, mount=turns, gravity=shown, gain=decision.gain)
    return Mounting(robot.mounted(mount), (decision,), (notice,))


@dataclass(frozen=True)
class _Fit:
    """A linear fit with gravity in one direction.

    Attributes:
        direction: Unit vector (3,) in the base's frame.
        values: Standard parameters (p,).
        noise: Standard deviation of each joint's noise (n,).
        rest: Squares that are left, in variances of the noise.
        turn: By how much the fit would turn gravity, to first order (2,), rad.
        covariance: Of the direction (2, 2), rad², from how blocks differ.
    """

    direction: Array
    values: Array
    noise: Array
    rest: float
    turn: Array
    covariance: Array

    @property
    def std(self) -> float:
        """Of the direction where it is least known, rad."""
        return math.sqrt(float(np.linalg.eigvalsh(self.covariance)[-1]))

    def distance(self, direction: Array) -> float:
        """Return how far a direction is off, in standard deviations of floors and data."""
        way = _across(self.direction).T @ direction
        way *= _angle(self.direction, direction) / max(float(np.linalg.norm(way)), 1e-300)
        squares, axes = np.linalg.eigh(self.covariance)
        least = (MIN_ANGLE / STDS) ** 2
        return math.sqrt(
            float(np.sum((axes.T @ way) ** 2 / np.clip(squares, least, MAX_LINEAR**2)))
        )


@dataclass(frozen=True)
class _Table:
    """Products of columns: standard parameters without gravity (p), first moments and masses of all
    links (m) with one m/s² along each axis, torque.
    """

    strength: float  # of gravity, m/s²
    size: int  # p
    places: NDArray[np.intp]  # of moments and masses (m,) among standard parameters
    products: BlockProducts
    weights: tuple[Array, ...]  # of gravity's columns without their means, which offsets explain

    @classmethod
    def of(cls, robot: Robot, motion: Samples, strength: float) -> _Table:
        """Sum the products along a motion."""
        Y, pulls, places = regressors_by_gravity(robot, motion.q, motion.dq, motion.ddq)
        joints = [joint for joint, is_measured in enumerate(robot.torques_measured) if is_measured]
        columns = {joint: np.concatenate([*pulls[:, :, joint]], axis=1) for joint in joints}
        products = BlockProducts.of(
            np.concatenate([Y[:, joint], own, motion.tau[:, [joint]]], axis=1)
            for joint, own in columns.items()
        )
        changes = [own - own.mean(axis=0) for own in columns.values()]
        weights = tuple(change.T @ change for change in changes)
        return cls(strength, Y.shape[-1], places, products, weights)

    def fitted(self, direction: Array, noise: Array | None = None) -> _Fit:
        """Return the fit with gravity in a direction, noise and weights in agreement."""
        noise = self.products.fitted(self._view(direction), noise)[1]
        return self._stepped(self.products.weighted(noise), direction, noise)

    def best(self, before: _Fit) -> _Fit:
        """Return the fit in the best direction of all."""
        W = self.products.weighted(self.products.sizes)
        tried = [before.direction, *(way / np.linalg.norm(way) for way in _DIRECTIONS)]
        rests = [solved(self._problem(way, W))[1] for way in tried]
        return self.refined(tried[int(np.argmin(rests))])

    def refined(self, direction: Array) -> _Fit:
        """Return the best fit near a direction, by Gauss-Newton, and how well it is known."""
        fit = self.fitted(direction)
        for _ in range(2):  # the noise is that of the direction in the end
            W, noise = self.products.weighted(fit.noise), fit.noise
            for _ in range(MAX_STEPS):
                nearer = self._nearer(W, fit)
                if nearer is None:
                    break
                fit = nearer
            fit = self.fitted(fit.direction, noise)
        without = self.products.without_each(fit.noise)
        turns = np.array([self._stepped(W, fit.direction, fit.noise).turn for W in without])
        spread = (len(turns) - 1) * np.cov(turns.T, bias=True)  # of the jackknife
        return replace(fit, covariance=spread)

    def upright(self, fit: _Fit, bodies: Array) -> _Fit:
        """Return the fit, or that of the opposite direction where held-out blocks say so.

        Where they are silent, bodies of positive mass do (p,).
        """
        opposite = self.refined(-fit.direction)
        densities = self.densities(fit), self.densities(opposite)
        joints = len(self.products.seen)
        if Gain.of(*densities).is_worth(joints):
            return opposite
        if Gain.of(*densities[::-1]).is_worth(joints):
            return fit
        return max((fit, opposite), key=lambda one: self.likeness(one, bodies))

    def densities(self, fit: _Fit) -> Array:
        """Return the mean log density of a sample in each block that was held out (blocks,)."""
        return self.products.densities(self._view(fit.direction), fit.noise)

    def likeness(self, fit: _Fit, bodies: Array) -> float:
        """Return the cosine between the weight that a fit has and that of bodies (p,)."""
        W = sum(part / std**2 for part, std in zip(self.weights, fit.noise))
        own, other = (
            np.outer(fit.direction, phi[self.places]).ravel() for phi in (fit.values, bodies)
        )
        size = math.sqrt(float(own @ W @ own) * float(other @ W @ other))
        return float(own @ W @ other) / size if size > 0.0 else 0.0

    def _view(self, direction: Array) -> View:
        """Return the model with gravity in a direction."""
        return View(partial(self._problem, direction), partial(self._whole, direction))

    def _problem(self, direction: Array, W: Array) -> Array:
        """Return products (..., p + 1, p + 1) of standard parameters and torque."""
        return self._rows(np.swapaxes(self._rows(W, direction), -1, -2), direction)

    def _whole(self, direction: Array, values: Array) -> Array:
        """Return factors of all columns, -1 for the torque."""
        pulls = np.outer(self.strength * direction, values[self.places]).ravel()
        return np.concatenate([values, pulls, [-1.0]])

    def _rows(self, W: Array, direction: Array) -> Array:
        """Return rows of standard parameters and torque (..., p + 1, c) for all columns' rows."""
        kept = np.concatenate([W[..., : self.size, :], W[..., -1:, :]], axis=-2)
        for axis, pull in enumerate(self.strength * direction):
            first = self.size + axis * len(self.places)
            kept[..., self.places, :] += pull * W[..., first : first + len(self.places), :]
        return kept

    def _stepped(self, W: Array, direction: Array, noise: Array) -> _Fit:
        """Return the fit, with the turn that it would take."""
        half = self._rows(W, direction)
        P = self._rows(half.T, direction)
        values, rest = solved(P)
        turned = np.zeros((len(W), 2))
        weights = self.strength * values[self.places]
        turned[self.size : -1] = np.kron(_across(direction), weights[:, None])
        beside, own = half @ turned, turned.T @ W @ turned
        turn = solved(np.block([[own, beside.T], [beside, P]]))[0][:2]
        return _Fit(direction, values, noise, float(rest), turn, np.zeros((2, 2)))

    def _nearer(self, W: Array, fit: _Fit) -> _Fit | None:
        """Return the fit after one step of Gauss-Newton; None where none leaves less."""
        step = fit.turn / max(1.0, float(np.linalg.norm(fit.turn)))
        while float(np.linalg.norm(step)) > 1e-5:
            moved = fit.direction + _across(fit.direction) @ step
            tried = self._stepped(W, moved / np.linalg.norm(moved), fit.noise)
            if tried.rest < fit.rest:
                return tried
            step = step / 3.0
        return None


def _across(direction: Array) -> Array:
    """Return two unit vectors across a direction (3, 2)."""
    return np.asarray(np.linalg.svd(direction[None])[2][1:].T)
