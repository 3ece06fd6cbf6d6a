"""Joints that give way.

A spring between drive and link, and what it adds to the torque of a rigid model. With p the
position of a drive, joint side, q that of its link, load what links ask of it and c = 1 / k its
compliance,

    p = q + c load(q)        torque = Ia p̈ + friction(ṗ) + load(q)

Encoders sit on one side of the spring. On the motor's, p is measured and links are where q = p - c
load is: the rigid model, which puts links at p, lacks load(q) - load(p), to first order -M(q) c
d²load/dt². On the link's side q is measured, and the model lacks what the drive does besides, to
first order Ia c d²load/dt² + friction' c dload/dt.

The load is that of the model, not what was measured: it holds no noise that the torque has, too
(which would pull c off zero), and it is known where no torque was measured. Links and drives are
those of the fit, so that the fit is repeated with torques that have lost what joints that give way
add, until c does not change.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from minidyn.arrays import Array
from minidyn.base.base_map import BaseMap
from minidyn.dynamics.drives import drive_ratios
from minidyn.dynamics.functions import inverse_dynamics
from minidyn.dynamics.record import STATES
from minidyn.errors import MinidynError, Unsupported
from minidyn.identification.diagnose.thresholds import HALF, LARGE
from minidyn.identification.estimators.held_out import with_model_error
from minidyn.identification.estimators.linear_system import SystemFit, fit_system
from minidyn.identification.estimators.method import Fold, Method, Solution
from minidyn.identification.estimators.solve import pseudo_inverse
from minidyn.identification.rows.base_rows import remembering, steady_regressor
from minidyn.identification.rows.pieces import pieces_of
from minidyn.identification.score import MIN_STANDARD_ERRORS, Gain
from minidyn.identification.sizes import MAX_FITS, MAX_ROUNDS
from minidyn.model.drives import BY_SYMBOL, FRICTION, MEMORY, ROTOR
from minidyn.model.joint import torque_unit
from minidyn.model.parameters import Column
from minidyn.model.robot import Robot
from minidyn.notices import Notice, info, warning
from minidyn.recording.lazy import AnyRecording
from minidyn.recording.prepare.lowpass import lowpass
from minidyn.recording.prepare.segments import SHORTEST
from minidyn.recording.recording import Recording
from minidyn.text import markdown_cell, markdown_table

ENCODERS = ("motor", "link")
"""Sides of a joint's spring on which its position may be measured."""

SETTING = "flexibility"
"""Of an estimate's record: encoder, compliance and std of each joint, and what they bring."""

BAND = 3.0
"""Times the band of the motion: loads have twice its frequencies, too."""
TILE, PIECES = 1024, 20  # size: samples of a piece at most; pieces at least
STEP = 1e-4  # rounding: rad or m, of differences
MAX_SHARE = 0.2
"""Of the acceleration: what is left out is of the order of the square of it."""

FOUND = info(
    "flexibility.found",
    "Joints that give way, their stiffness, and by how much that lowers errors in held-out time.",
)
NOT_SHOWN = info(
    "flexibility.not_shown",
    "The log does not show that some joints give way: their band and noise hide it. What a joint "
    "adds grows with the square of the frequency.",
    "Record faster motion, with less noise and finer encoders; or leave flexibility out.",
)
ROTOR_SHARE = info(
    "flexibility.rotor_share",
    "At some joints a log shows only the sum of rotor and link inertia, and what joints that give "
    "way add depends on how it is shared: their stiffness is as good as the robot file's rotor "
    "inertia. Predictions hardly depend on it.",
    "Give rotor inertias from data sheets in the robot file.",
)
TOO_SOFT = warning(
    "flexibility.too_soft",
    "The motion comes near the frequency at which a link swings on its joint: the series does not "
    "hold there.",
    "Prepare with a lower cut-off, or move more slowly.",
)


@dataclass(frozen=True, eq=False)
class Flexibility:
    """Joints that give way, and the torque they add to that of a rigid model.

    Attributes:
        robot: The model, whose links load the joints.
        encoder: "motor" or "link": the side of the spring on which positions are measured.
        compliance: Of each joint (n,), rad/(N m) or m/N; 0: stiff, or not shown by the log.
        std: Standard deviations (n,) of what the data say of each, shown or not.
    """

    robot: Robot
    encoder: str
    compliance: Array
    std: Array

    @classmethod
    def of(cls, robot: Robot, record: Mapping[str, Any]) -> Flexibility | None:
        """Return what an estimate's record says; None: its joints are stiff."""
        known = record.get(SETTING)
        if known is None:
            return None
        return cls(robot, known["encoder"], np.array(known["compliance"]), np.array(known["std"]))

    @property
    def stiffness(self) -> Array:
        """Of each joint (n,), N m/rad or N/m; infinite where the compliance is 0."""
        with np.errstate(divide="ignore"):
            return np.asarray(1.0 / self.compliance)

    @property
    def stiffness_std(self) -> Array:
        """Standard deviations (n,) of the stiffness to first order.

        Infinite where the compliance is 0.
        """
        return np.asarray(self.std * self.stiffness**2)

    @property
    def units(self) -> list[str]:
        """Of the stiffness of each joint."""
        joints = [self.robot.joints[k] for k in self.robot.independent]
        return [f"{torque_unit(joint)}/{'m' if joint.slides else 'rad'}" for joint in joints]

    def table(self) -> str:
        """Return a Markdown table of the stiffness of each joint."""
        names = map(markdown_cell, self.robot.joint_names)
        sizes = (
            [f"{size:.4g}" if np.isfinite(size) else "-" for size in column]
            for column in (self.stiffness, self.stiffness_std)
        )
        headings = ("joint", "stiffness", "std", "unit")
        return markdown_table("lrrl", headings, zip(names, *sizes, self.units))

    def torque(self, recording: Recording) -> Array:
        """Return what joints that give way add (N, n), N m or N, along a prepared recording, run by
        run.
        """
        return np.concatenate([self._added(run) for run in recording.runs])

    def columns(self, recording: Recording) -> Array:
        """Return how that changes with the compliance of each joint, (N, n, joints), at the one
        there is.
        """
        return np.concatenate([self._slopes(run) for run in recording.runs])

    def share(self, recording: Recording) -> float:
        """Return how far accelerations of both sides of the springs are apart, over the
        acceleration, largest joint.
        """
        pairs = [self._bent(run)[:2] for run in recording.runs]
        one, other = (np.concatenate([pair[k][2] for pair in pairs]) for k in (0, 1))
        sizes = np.linalg.norm(one, axis=0)
        return float(
            np.max(
                np.linalg.norm(other - one, axis=0) / np.where(sizes > 0, sizes, np.inf),
                initial=0.0,
            )
        )

    def _added(self, run: Recording) -> Array:
        motion, moved, _ = self._bent(run)
        return self._torque(moved, self._shifted) - self._torque(motion, self._shifted)

    def _torque(self, motion: list[Array], parameters: Array) -> Array:
        q, dq, ddq = motion
        return np.asarray(inverse_dynamics(self.robot, q, dq, ddq, parameters))

    def _slopes(self, run: Recording) -> Array:
        _, moved, bending = self._bent(run)
        found = np.zeros((len(run), self.robot.n, self.robot.n))
        sizes = np.abs(bending[0]).max(axis=0, initial=0.0)
        for joint in np.flatnonzero(sizes):
            only = np.zeros(self.robot.n)
            only[joint] = STEP / sizes[joint]
            up, down = (
                self._torque(self._apart(moved, bending, sign * only), self._shifted)
                for sign in (1.0, -1.0)
            )
            found[:, :, joint] = (up - down) / (2.0 * only[joint])
        return found

    def _bent(self, run: Recording) -> tuple[list[Array], list[Array], list[Array]]:
        """Return the measured motion, that of the other side of the springs, and loads with their
        derivatives.
        """
        if run.dq is None or run.ddq is None:
            raise MinidynError("flexibility needs speeds and accelerations: prepare the recording")
        motion = [np.asarray(signal, dtype=float) for signal in (run.q, run.dq, run.ddq)]
        moved, bending, step = motion, self._bending(run, motion), np.inf
        for _ in range(MAX_ROUNDS):
            further = self._apart(motion, bending, self.compliance)
            last, step = step, float(np.linalg.norm(further[2] - moved[2]))
            if not step < HALF * last:  # near the frequency at which links swing
                break
            moved = further
            if self.encoder == "motor":
                bending = self._bending(run, moved)
        return motion, moved, bending

    def _bending(self, run: Recording, links: list[Array]) -> list[Array]:
        """Return what loads the springs (N, n), with its first and second derivatives, in the band
        of the motion.

        What lies above it is noise of positions, which four derivatives raise.
        """
        load = self._torque(links, self._links) @ self._turns
        band, cutoff = run.info.get("motion_band"), run.info.get("cutoff")
        if (
            len(run) > SHORTEST
            and isinstance(band, float)
            and isinstance(cutoff, float)
            and BAND * band < cutoff
        ):
            load = lowpass(load, (len(run) - 1) / float(run.t[-1] - run.t[0]), BAND * band)
        return _derivatives(run.t, load)

    def _apart(self, motion: list[Array], bending: list[Array], compliance: Array) -> list[Array]:
        """Return a motion on the other side of springs: links lag behind drives."""
        sign = -1.0 if self.encoder == "motor" else 1.0
        return [
            one + (sign * compliance * bent) @ self._turns.T for one, bent in zip(motion, bending)
        ]

    @property
    def _turns(self) -> Array:
        """How far drives turn joints (n, n).

        The inverse of how far joints turn drives, loads are its transpose's.
        """
        robot, C = self.robot, np.eye(self.robot.n)
        for row, joint in enumerate(robot.independent):
            for other, ratio in drive_ratios(robot, joint).items():
                C[row, robot.independent.index(other)] = ratio
        return np.asarray(np.linalg.inv(C))

    @property
    def _links(self) -> Array:
        """Parameters (p,) of what hangs on the springs: all but drives."""
        return self._without(
            lambda column: column.symbol not in BY_SYMBOL or not BY_SYMBOL[column.symbol].own
        )

    @property
    def _shifted(self) -> Array:
        """Parameters (p,) of what moves otherwise than was measured: links, or drives.

        Friction that jumps has no slope, and what remembers has its state: both stay as they are
        measured.
        """
        if self.encoder == "motor":
            return self._links
        smooth = [joint.drive.sign_width > 0.0 for joint in self.robot.joints]
        steady = (ROTOR, FRICTION["viscous"])
        left = self._without(
            lambda c: c.symbol in MEMORY or not (smooth[c.joint] or c.symbol in steady)
        )
        return np.asarray(left - self._links)

    def _without(self, left_out: Callable[[Column], bool]) -> Array:
        values = np.array(self.robot.parameters)
        values[
            [column.index for own in self.robot.layout.drives for column in own if left_out(column)]
        ] = 0.0
        return values


def _derivatives(t: Array, values: Array) -> list[Array]:
    """Return values (N, n) along times (N,) with their first and second derivatives.

    Zero in runs of a few samples. A spline of fifth order: low-passed torques have ten samples per
    period of the cut-off and more.
    """
    order = 5 if len(t) > 5 else 3
    if len(t) <= order:
        return [values, np.zeros_like(values), np.zeros_like(values)]
    from scipy.interpolate import make_interp_spline  # slow to import

    spline = make_interp_spline(t, values, order)
    return [values, spline(t, 1), spline(t, 2)]


def require_flexibility(
    robot: Robot, method: Method, friction_per: str | None, at_rest: bool
) -> None:
    """Raise where joints that give way cannot be identified.

    By the method, from poses at rest, of the robot.
    """
    if not method.remembers:
        raise Unsupported(
            f'flexibility: not by method {method.name!r}; use "wls", "ols", "irls" or "parallel"'
        )
    if friction_per is not None:
        raise Unsupported(
            "flexibility: with friction of each log (friction_per) it is not known; leave one out"
        )
    if at_rest:
        raise Unsupported(
            "flexibility: the log holds poses at rest only; what joints that give way add needs "
            "motion"
        )
    own = [joint for joint in robot.joints if joint.kind != "fixed"]
    if robot.formulas or robot.implicit_loops or len(robot.independent) != len(own):
        names = (
            ", ".join(joint.name for joint in own if joint.name not in robot.joint_names)
            or robot.name
        )
        raise Unsupported(
            f"flexibility: each joint must have its own drive; some follow others: {names}"
        )


class _Unknowns(NamedTuple):
    names: tuple[str, ...]
    rank: int


class Bending:
    """Fits with torques that have lost what joints that give way add, repeated until their
    compliances settle.
    """

    def __init__(self, encoder: str, data: AnyRecording, allow_open: bool) -> None:
        """Take the side of the encoders, prepared data, and whether parameters may stay open."""
        self.measured = data.load()
        self.data = self.measured  # what is to be fitted next
        self._encoder, self._open = encoder, allow_open
        self._bent: Flexibility | None = None
        self._widening: Array | None = None
        self._repeats, self._gain, self._share = 0, 0.0, 0.0
        self._grouped: list[str] = []

    def again(self, model: Robot, base: BaseMap) -> bool:
        """Find compliances with the model of a fit and its base parameters.

        Say whether `data` are to be fitted.
        """
        before = np.zeros(model.n) if self._bent is None else self._bent.compliance
        here = Flexibility(model, self._encoder, before, np.full(model.n, np.inf))
        data = remembering(model, self.measured)
        torque, slopes = here.torque(data), here.columns(data)
        with_slopes = {**data.telemetry, SETTING: slopes.reshape(len(data), -1)}
        linear = replace(
            data, tau=np.asarray(data.tau) - torque + slopes @ before, telemetry=with_slopes
        )
        joints = np.flatnonzero(np.abs(slopes).max(axis=(0, 1)) > 0.0)
        found, std = self._solved(model, base, linear, joints), np.full(model.n, np.inf)
        std[joints] = np.sqrt(np.diag(found.covariance)[base.rank :])
        while np.any(found.beta[base.rank :] < 0.0):  # no spring is softer than stiff
            joints = joints[found.beta[base.rank :] > 0.0]
            found = self._solved(model, base, linear, joints)
        values, gain = np.zeros(model.n), _gain(found.folds(), base.rank, model.n)
        if gain.is_worth(model.n):
            values[joints] = found.beta[base.rank :]
            self._widening = _widening(found, base.rank)
        if (
            self._encoder == "link"
        ):  # rotors are what moves otherwise: c is known as well as they are
            std = np.hypot(std, values * _rotor_std(model, base, found.covariance))
        self._repeats += 1
        steady = bool(np.all(np.abs(values - before) <= LARGE * std)) or self._repeats > MAX_FITS
        self._bent, self._gain = (
            replace(here, compliance=before if steady else values, std=std),
            gain.mean,
        )
        if steady:
            bent = np.flatnonzero(before)
            self._share = here.share(data)
            self._grouped = [
                model.joint_names[k] for k in bent if not _rotor_alone(model, base, int(k))
            ]
            return False
        off, more = self._bent.torque(data), dict(self.measured.telemetry)
        more |= {"tau_raw": more["tau_raw"] - off} if "tau_raw" in more else {}
        self.data = replace(self.measured, tau=np.asarray(data.tau) - off, telemetry=more)
        return True

    def _solved(
        self, model: Robot, base: BaseMap, data: Recording, joints: NDArray[np.intp]
    ) -> Solution:
        n, most = model.n, min(TILE, -(-len(data) // PIECES))

        def columns(tile: Recording) -> tuple[Array, Array]:
            motion = tile.q, np.asarray(tile.dq), np.asarray(tile.ddq)
            Y = steady_regressor(model, base, *motion, tile.telemetry.get(STATES))
            slopes = np.asarray(tile.telemetry[SETTING]).reshape(len(tile), n, n)[:, :, joints]
            return np.concatenate([Y, slopes], axis=2), np.asarray(tile.tau)

        names = (*base.names, *(f"compliance of {model.joint_names[k]}" for k in joints))
        found: SystemFit = fit_system(
            _Unknowns(names, len(names)), pieces_of(data, columns, most), self._open
        )
        return with_model_error(found)

    def widened(self, covariance: Array) -> Array:
        """Return a covariance of base parameters (b, b) that holds what compliances leave open."""
        more = self._widening
        return covariance if more is None or more.shape != covariance.shape else covariance + more

    def told(self, found: Solution) -> Solution:
        """Return the last solution with what was found of the joints."""
        bent = self._bent
        if bent is None:
            return found
        values = {
            "encoder": bent.encoder,
            "compliance": bent.compliance.tolist(),
            "std": bent.std.tolist(),
        }
        return replace(
            found,
            covariance=self.widened(found.covariance),
            record={
                **found.record,
                SETTING: {**values, "gain": self._gain, "fits": self._repeats},
            },
            notices=(*found.notices, *self.notices),
        )

    @property
    def notices(self) -> list[Notice]:
        """What a reader should know."""
        bent = self._bent
        if bent is None:
            return []
        names, found = bent.robot.joint_names, []
        units = dict(zip(names, bent.units))
        sure = bent.compliance > MIN_STANDARD_ERRORS * bent.std
        if sure.any():
            shown = np.flatnonzero(sure)
            sizes = {
                names[k]: (float(bent.stiffness[k]), float(bent.stiffness_std[k])) for k in shown
            }
            words = ", ".join(
                f"{name} {size:.3g} ± {std:.2g} {units[name]}"
                for name, (size, std) in sizes.items()
            )
            text = (
                f"joints give way (encoders on the {bent.encoder}'s side), stiffness: {words}; "
                f"squares of residuals in held-out stretches of time are {100 * self._gain:.3g} % "
                "fewer with it"
            )
            found.append(FOUND(text, encoder=bent.encoder, stiffness=sizes, gain=self._gain))
        if not sure.all():
            least = {
                names[k]: 1.0 / float(bent.compliance[k] + MIN_STANDARD_ERRORS * bent.std[k])
                for k in np.flatnonzero(~sure)
            }
            words = ", ".join(
                f"{name} (at least {size:.2g} {units[name]})" for name, size in least.items()
            )
            found.append(
                NOT_SHOWN(
                    f"joints that may as well be stiff: {words}", least=least, gain=self._gain
                )
            )
        if self._grouped:
            text = (
                "stiffness depends on how inertia is shared between rotor and link at "
                f"{', '.join(self._grouped)}"
            )
            found.append(ROTOR_SHARE(text, joints=self._grouped))
        if self._share > MAX_SHARE:
            text = (
                f"joints give way by {100 * self._share:.3g} % of the acceleration: the motion is "
                "too fast for them"
            )
            found.append(TOO_SOFT(text, share=self._share))
        return found


def _widening(found: Solution, size: int) -> Array:
    """Return what compliances, the unknowns from `size` on, add to the covariance of the others
    (size, size).
    """
    own, across = found.covariance[size:, size:], found.covariance[:size, size:]
    known = np.isfinite(np.diag(found.covariance)[:size])
    across = np.where(known[:, None], across, 0.0)
    return np.asarray(across @ np.linalg.pinv(own, hermitian=True) @ across.T)


def _gain(folds: list[Fold], size: int, rows: int) -> Gain:
    """Return what the unknowns from `size` on bring in held-out stretches of time."""
    squares = np.zeros((len(folds), 2))
    for row, (R, z, R_test, z_test, rest) in zip(squares, folds):
        for k, unknowns in enumerate((size, R.shape[1])):
            x = pseudo_inverse(R[:, :unknowns])[0] @ z
            row[k] = float(np.sum((R_test[:, :unknowns] @ x - z_test) ** 2)) + rest
    if len(folds) < 2:
        return Gain(0.0, np.inf)
    # a sample has as many squares of one variance as there are rows
    nats = -0.5 * rows * squares / max(float(np.mean(squares[:, 0])), 1e-300)
    return Gain.of(nats[:, 0], nats[:, 1])


def _rotor_alone(robot: Robot, base: BaseMap, joint: int) -> bool:
    """Say whether data show the rotor inertia of a joint apart from those of links."""
    places = [c.index for c in robot.layout.drives[robot.independent[joint]] if c.symbol == ROTOR]
    rows = base.matrix[np.flatnonzero(base.matrix[:, places].any(axis=1))]
    return bool(places) and np.count_nonzero(rows.any(axis=0)) == 1


def _rotor_std(robot: Robot, base: BaseMap, covariance: Array) -> Array:
    """Return standard deviations of rotor inertias over their values (n,), 0 where data do not show
    them alone.
    """
    found = np.zeros(robot.n)
    for row, joint in enumerate(robot.independent):
        for column in robot.layout.drives[joint]:
            if (
                column.symbol == ROTOR
                and column.name in base.kept
                and robot.parameters[column.index] > 0.0
            ):
                k = base.kept.index(column.name)
                found[row] = np.sqrt(covariance[k, k]) / robot.parameters[column.index]
    return found
