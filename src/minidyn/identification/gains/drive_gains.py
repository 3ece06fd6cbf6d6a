"""Drive gains, from motor current to joint torque, from two runs: one without and one with a load of known mass.

Currents alone fix no scale: twice the gains and twice all inertias move alike. A load whose mass was weighed does. All
joints are solved together, because they share the bodies they carry.

The currents are what is noisy, so the model predicts them: i_j = (Y_j beta + Y_j^L phi_L) / k_j + noise. Plain least
squares for k_j i_j = ... would put noise into the columns and make gains too small. Total least squares avoids that for
equal noise, the form here for any, and it is the likeliest solution for normal noise.

Currents of a prepared run have passed a low-pass, which rounds off the edges of dry friction. The columns pass the same
one: otherwise these edges are errors of the model at every reversal, alike in all runs, that no spread shows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import least_squares

from minidyn.arrays import Array
from minidyn.base.base_map import BaseMap
from minidyn.base.base_parameters import base_parameters
from minidyn.base.numeric.samples import units_of
from minidyn.dynamics.functions import base_regressor, regressor
from minidyn.errors import DescriptionError, MinidynError, ShapeError
from minidyn.formats.load import RobotLike, as_robot
from minidyn.identification.estimators.least_squares import filtered_pieces
from minidyn.identification.estimators.solve import block_length
from minidyn.identification.estimators.states import cutoff_of
from minidyn.identification.rows.pieces import Columns, Piece, Pieces, pieces_of, reduced
from minidyn.identification.rows.triangles import Triangles, joined
from minidyn.model.geometry import matrix_of
from minidyn.model.parameters import from_body, transform
from minidyn.model.robot import Robot
from minidyn.notices import Notice, act, info
from minidyn.recording.ready import RecordingLike, as_recording, in_robot_order, ready, with_mapped_coupling
from minidyn.recording.recording import Recording
from minidyn.simulation.payload import Payload
from minidyn.text import markdown_cell

_PRIOR = 10.0  # how far, times its first guess, a gain may be: a prior that any data overrule


def _columns(robot: Robot, base: BaseMap, carrier: int, placement: Array, loaded: bool) -> Columns:
    """Return what makes columns (N, n, b + 10), those of the load zero in a run without it, and currents (N, n)."""
    ten = [column.name for column in robot.layout.columns[robot.layout.links[carrier]]]
    of_frame = transform(np.eye(10), placement).T

    def columns(piece: Recording) -> tuple[Array, Array]:
        dq, ddq, current = (np.asarray(getattr(piece, name), dtype=float) for name in ("dq", "ddq", "tau"))
        B, L = base_regressor(robot, piece.q, dq, ddq, base=base), np.zeros((*current.shape, 10))
        if loaded:
            L = regressor(robot, piece.q, dq, ddq, columns=ten) @ of_frame
        return np.concatenate([B, L], axis=-1), current

    return columns


@dataclass(frozen=True)
class GainProblem:
    """Unknowns x: inverse gains (n,), base parameters (b,), and what is open of the load (u,)."""

    rows: Triangles  # [Y | Y^L | current] of each joint, both runs
    rank: int  # number of base parameters
    known: Array  # known parameters of the load (10,)
    open_directions: Array  # (10, u)

    def load(self, x: Array) -> Array:
        """Return the ten parameters of the load."""
        return np.asarray(self.known + self.open_directions @ x[len(self.rows.factors) + self.rank :])

    def torque_parameters(self, x: Array) -> Array:
        """Return base parameters and the load's, which give torques."""
        n = len(self.rows.factors)
        return np.concatenate([x[n : n + self.rank], self.load(x)])

    def rows_squares(self, x: Array) -> Array:
        """For each joint, the sum of squared residual currents (n,)."""
        theta = self.torque_parameters(x)
        return np.array(
            [
                float(np.sum((factor @ np.append(-x[joint] * theta, 1.0)) ** 2))
                for joint, factor in enumerate(self.rows.factors)
            ]
        )

    def first_guess(self) -> Array:
        """Return x of k_j i_j = Y_j beta + Y_j^L phi by least squares: gains too small by the noise, but near."""
        n, b, u = len(self.rows.factors), self.rank, self.open_directions.shape[1]
        blocks, right = [], []
        for joint, factor in enumerate(self.rows.factors):
            size = max(float(np.linalg.norm(factor[:, -1])), 1e-300)
            block = np.zeros((len(factor), n + b + u))
            block[:, joint] = factor[:, -1] / size
            block[:, n : n + b] = -factor[:, :b] / size
            block[:, n + b :] = -factor[:, b:-1] @ self.open_directions / size
            blocks.append(block)
            right.append(factor[:, b:-1] @ self.known / size)
        A = np.vstack(blocks)
        norms = np.linalg.norm(A, axis=0)
        shown = norms > 1e-9 * norms.max(initial=0.0)  # a planar arm feels few of the load's parameters
        norms = np.where(shown, norms, 1.0)
        y, *_ = np.linalg.lstsq(A * shown / norms, np.concatenate(right), rcond=1e-9)
        x = np.where(shown, y / norms, 0.0)
        gains = x[:n].copy()
        positive = gains[gains > 0]
        middle = float(np.median(positive)) if len(positive) else 1.0
        x[:n] = 1.0 / np.where(gains > 1e-3 * middle, gains, middle)
        return np.asarray(x)

    def system(self, x: Array, scale: Array, prior: Array) -> tuple[Array, Array]:
        """Return residuals and their Jacobian, in units of the noise, priors last."""
        n, b = len(self.rows.factors), self.rank
        theta = self.torque_parameters(x)
        values, slopes = [], []
        for joint, factor in enumerate(self.rows.factors):
            block = np.zeros((len(factor), len(x)))
            block[:, joint] = -factor[:, :-1] @ theta
            block[:, n : n + b] = -x[joint] * factor[:, :b]
            block[:, n + b :] = -x[joint] * factor[:, b:-1] @ self.open_directions
            values.append((factor[:, -1] - x[joint] * factor[:, :-1] @ theta) / scale[joint])
            slopes.append(block / scale[joint])
        gain_rows = np.zeros((n, len(x)))
        gain_rows[:, :n] = np.diag(1.0 / (_PRIOR * prior))
        load_rows = np.zeros((len(x) - n - b, len(x)))
        load_rows[:, n + b :] = np.eye(len(x) - n - b)
        values += [(x[:n] - prior) / (_PRIOR * prior), x[n + b :]]
        return np.concatenate(values), np.vstack([*slopes, gain_rows, load_rows])

    def left(self, x: Array, piece: Piece) -> Array:
        """Return measured minus predicted currents (K, n)."""
        return np.asarray(piece.y - x[: len(self.rows.factors)] * (piece.W @ self.torque_parameters(x)))

    def slopes(self, x: Array, W: Array) -> Array:
        """Return what predicted currents change by with x (K, n, unknowns)."""
        n = len(self.rows.factors)
        gains = np.eye(n) * (W @ self.torque_parameters(x))[..., None]
        scaled = x[:n, None] * W
        load = scaled[..., self.rank :] @ self.open_directions
        return np.concatenate([gains, scaled[..., : self.rank], load], axis=2)

    def solve(self, x: Array, scale: Array) -> Array:
        """Return the likeliest x, inverse gains positive."""
        n = len(self.rows.factors)
        prior, lower = np.abs(x[:n]), np.where(np.arange(len(x)) < n, 0.0, -np.inf)

        def side(number: int, y: Array) -> Array:
            return self.system(y, scale, prior)[number]

        value, slope = partial(side, 0), partial(side, 1)
        found = least_squares(
            value, x, slope, bounds=(lower, np.inf), x_scale="jac", ftol=1e-10, xtol=1e-12, gtol=1e-12
        )
        return np.asarray(found.x, dtype=float)

    def covariance(self, x: Array, scale: Array) -> Array:
        """Return the covariance of x for currents with this noise (n,)."""
        _, J = self.system(x, scale, np.abs(x[: len(self.rows.factors)]))
        norms = np.linalg.norm(J, axis=0)
        norms = np.where(norms > 0, norms, 1.0)  # what no sample shows has no slope
        inverse = np.linalg.pinv(J / norms, rcond=1e-13)
        return np.asarray(inverse @ inverse.T / np.outer(norms, norms))


_BLOCKS = 60  # of time, about: more take longer and say no more
_LOOSE = 0.1  # relative standard deviation beyond which a gain is called open

APPLIED = info("gains.applied", "Torques are currents times identified drive gains.")
OPEN = act(
    "gains.open",
    "The runs leave the gains of some joints open.",
    "A gain is seen where the joint feels the load or shares moving bodies with joints that do: use a heavier load, "
    "off the axis, or move faster.",
)


@dataclass(frozen=True, eq=False)
class DriveGains:
    """Gains that turn measured currents into joint torques.

    Attributes:
        robot: The robot.
        gains: N m (or N) a unit of current (n,), joint side.
        covariance: Of the gains (n, n).
        base: Base parameters that were estimated with them.
        beta: Their values (b,).
        payload: The load, with what was found of its centre and inertia.
        sigma: Noise of each joint's current (n,).
        notices: What a reader should know.
    """

    robot: Robot
    gains: Array
    covariance: Array
    base: BaseMap
    beta: Array
    payload: Payload
    sigma: Array
    notices: tuple[Notice, ...] = ()

    @property
    def std(self) -> Array:
        """Standard deviation of each gain (n,)."""
        return np.sqrt(np.diag(self.covariance))

    def apply(self, recording: Recording) -> Recording:
        """Return a recording of currents with torques in their place."""
        ordered = in_robot_order(self.robot, recording)
        if ordered.tau is None:
            raise MinidynError("drive gains need measured currents; the recording has none")
        extra = {name: ordered.telemetry[name] * self.gains for name in ("tau_raw",) if name in ordered.telemetry}
        notices = (*ordered.notices, APPLIED("torques are currents times identified drive gains"))
        return replace(ordered, tau=ordered.tau * self.gains, telemetry={**ordered.telemetry, **extra}, notices=notices)

    def table(self) -> str:
        """Return a Markdown table of the gains."""
        lines = ["| joint | gain | std | relative |", "|---|---:|---:|---:|"]
        for name, gain, std in zip(self.robot.joint_names, self.gains, self.std):
            lines.append(f"| {markdown_cell(name)} | {gain:.6g} | {std:.3g} | {100 * std / abs(gain):.3g} % |")
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"DriveGains({self.robot.name!r}: {' '.join(f'{gain:.4g}' for gain in self.gains)})"


def identify_drive_gains(
    robot: RobotLike,
    recording: RecordingLike,
    loaded_recording: RecordingLike,
    mass: float,
    *,
    com: ArrayLike | None = None,
    inertia: ArrayLike | None = None,
    link: str | None = None,
    base: BaseMap | None = None,
) -> DriveGains:
    """Return the drive gains of all joints from a run without and a run with a load of known mass.

    Args:
        robot: The robot, its built-in name or path; its own parameter values are not read.
        recording: A run without the load; `tau` holds currents (or torques in any unit), joint by joint.
        loaded_recording: A run with it.
        mass: Of the load, kg, weighed: its error is the gains' error.
        com: Its centre in the frame that carries it (3,), m, where known; None: estimated.
        inertia: About its centre (3, 3), kg m², where known, with `com`; None: estimated.
        link: Link or frame that carries it; None: the last link.
        base: Base parameters; None: found exactly.

    Raises:
        MinidynError: The mass is not positive, or a recording has no currents.

    Gautier and Briot (2014) scale the solution of one total least squares problem, which takes all currents to have the
    same noise; here each joint has its own.
    """
    if not (np.isfinite(mass) and mass > 0):
        raise MinidynError(f"mass: expected a positive number of kilograms, got {mass!r}")
    robot = as_robot(robot)
    given = [as_recording(log, robot) for log in (recording, loaded_recording)]
    for log in given if base is None else ():
        robot = with_mapped_coupling(robot, log.notices, log.joint_names)
    known, open_directions = _known_load(robot, float(mass), com, inertia)
    carrier, steps = robot.find_frame(link)
    if carrier < 0:
        raise DescriptionError(f"a load on the base {link!r} moves nothing; name a moving link")
    chosen = base_parameters(robot) if base is None else base
    runs = [ready(robot, run, purpose="identifying drive gains", in_memory=True, every_sample=True) for run in given]
    notices = [notice for run, raw in zip(runs, given) for notice in run.notices if notice not in raw.notices]
    columns = [_columns(robot, chosen, carrier, matrix_of(steps), loaded) for loaded in (False, True)]
    pieces = [
        partial(filtered_pieces, run, own, cutoff_of(run, 4.0, 0.2)) if run.prepared else pieces_of(run, own)
        for run, own in zip(runs, columns)
    ]
    problem = GainProblem(joined([reduced(own) for own in pieces]), chosen.rank, known, open_directions)
    x = problem.first_guess()
    floor = 1e-9 * np.sqrt(np.mean(np.square(np.concatenate([np.asarray(run.tau) for run in runs])), axis=0)) + 1e-300
    samples, n = problem.rows.samples, robot.n
    for _ in range(2):
        scale = np.maximum(np.sqrt(problem.rows_squares(x) / samples), floor)
        x = problem.solve(x, scale)
    sigma = np.maximum(np.sqrt(problem.rows_squares(x) / samples), floor)
    covariance = _covariance(problem, x, sigma, pieces)
    gains = 1.0 / x[:n]
    spread = covariance[:n, :n] * np.outer(gains**2, gains**2)
    ten = problem.load(x)
    of_load = open_directions @ covariance[n + chosen.rank :, n + chosen.rank :] @ open_directions.T
    payload = Payload(0.0, ten, None, link, of_load)
    notices += _open(robot.joint_names, gains, np.sqrt(np.diag(spread)))
    return DriveGains(robot, gains, spread, chosen, x[n : n + chosen.rank], payload, sigma, tuple(notices))


def _covariance(problem: GainProblem, x: Array, sigma: Array, pieces: Sequence[Pieces]) -> Array:
    """Return the covariance of x by leaving out one block of time after the other, at least that of white residuals.

    Blocks are longer than the memory of the residuals. All joints share bodies, and errors of positions and of the
    model reach several of them at once, so that a block holds all joints. Blocks that decide a parameter pull it
    towards their own errors: what the others say without them shows that, the spread of residuals does not.
    """
    longest = max((piece for own in pieces for piece in own()), key=lambda piece: len(piece.t))
    length, _ = block_length(problem.left(x, longest), longest.t, problem.rows.samples)
    length = max(length, problem.rows.samples // _BLOCKS)
    white = problem.covariance(x, sigma)
    unit = np.sqrt(np.diag(white))
    unit = np.where(unit > 0, unit, 1.0)
    scaled, identity = white / np.outer(unit, unit), np.eye(len(x))
    moved = []
    for piece in (piece for own in pieces for piece in own()):
        left = problem.left(x, piece) / sigma
        for rows in np.array_split(np.arange(len(left)), max(1, round(len(left) / length))):
            J = (problem.slopes(x, piece.W[rows]) / sigma[:, None]).reshape(-1, len(x)) * unit
            pull = scaled @ (J.T @ left[rows].ravel())
            moved.append(np.linalg.solve(identity - scaled @ (J.T @ J), pull) * unit)
    D = np.array(moved)
    spread = (len(D) - 1) / len(D) * D.T @ D
    factor = np.sqrt(np.maximum(np.diag(white) / np.maximum(np.diag(spread), 1e-300), 1.0))
    return np.asarray(spread * np.outer(factor, factor))


def _known_load(robot: Robot, mass: float, com: ArrayLike | None, inertia: ArrayLike | None) -> tuple[Array, Array]:
    """Return what is known of the ten parameters (10,), and the open ones (10, u) in units of their likely size."""
    if inertia is not None and com is None:
        raise MinidynError("inertia: a known inertia about the centre of mass needs a known centre: give com, too")
    sizes = mass * units_of(robot).length ** np.array([2.0] * 6 + [1.0] * 3 + [0.0])
    centre = np.zeros(3) if com is None else np.asarray(com, dtype=float)
    about = np.zeros((3, 3)) if inertia is None else np.asarray(inertia, dtype=float)
    for name, value, shape in (("com", centre, (3,)), ("inertia", about, (3, 3))):
        if value.shape != shape or not np.all(np.isfinite(value)):
            raise ShapeError(f"{name}: expected finite numbers of shape {shape}, got shape {value.shape}")
    until = 9 if com is None else 6 if inertia is None else 0
    return from_body(mass, centre, about), np.diag(sizes)[:, :until]


def _open(names: Sequence[str], gains: Array, std: Array) -> list[Notice]:
    loose = {name: float(spread / gain) for name, gain, spread in zip(names, gains, std) if spread > _LOOSE * gain}
    if not loose:
        return []
    shown = ", ".join(f"{name!r} ({100 * share:.2g} %)" for name, share in loose.items())
    return [OPEN(f"gains that these runs leave open (standard deviation): {shown}", joints=loose)]
