"""Drive gains, from motor current to joint torque, from two runs.

One without and one with a load of known mass. Currents alone fix no scale: twice the gains and
twice all inertias move alike. A load whose mass was weighed does. All joints are solved together,
because they share the bodies they carry.

Drives never have the friction of the terms alone, nor the same in both runs. Each run has friction
of its own beside the terms: differences, and curves over the speed, which are likely small. What
is left of model errors repeats with the state, not with time: deviations count it by cells of
position and direction, at least as much as blocks of time say.

Currents of a prepared run have passed a low-pass, which rounds off the edges of dry friction. The
columns pass the same one: otherwise these edges are errors of the model at every reversal, alike in
all runs, that no spread shows.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from minidyn.arrays import Array, rms, single_thread
from minidyn.base.base_map import BaseMap
from minidyn.base.base_parameters import base_parameters
from minidyn.base.numeric.samples import units_of
from minidyn.dynamics.functions import base_regressor, regressor
from minidyn.errors import DescriptionError, MinidynError, ShapeError
from minidyn.files import write_atomically
from minidyn.formats.load import RobotLike, as_robot
from minidyn.identification.diagnose.thresholds import HALF, LARGE
from minidyn.identification.estimators.least_squares import filtered_pieces
from minidyn.identification.estimators.states import cutoff_of
from minidyn.identification.gains.gain_problem import GainProblem, covariance_of_blocks
from minidyn.identification.payload.columns import carrier_of, of_frame
from minidyn.identification.rows.base_rows import Samples, remembering
from minidyn.identification.rows.pieces import Columns, Pieces, pieces_of, reduced
from minidyn.identification.rows.triangles import joined
from minidyn.identification.search import DEFAULT_WIDTH
from minidyn.identification.select import starting_model
from minidyn.identification.settings import Settings
from minidyn.model.drives import AUTO, OWN, PLAIN
from minidyn.model.parameters import from_body
from minidyn.model.robot import Robot
from minidyn.notices import Notice, error, warning
from minidyn.recording.read.mapping import APPLIED, SignalMap, gains_applied
from minidyn.recording.ready import (
    RecordingLike,
    as_recording,
    in_robot_order,
    ready,
    with_logged_joints,
    with_mapped_coupling,
)
from minidyn.recording.recording import Recording
from minidyn.simulation.payload import Payload
from minidyn.text import markdown_cell, markdown_table


def _columns(
    robot: Robot,
    base: BaseMap,
    carrier: int,
    placement: Array,
    loaded: bool,
    own: Sequence[tuple[int, float]],
) -> Columns:
    """Return what makes columns (N, n, b + u + 10), those of the load zero in a run without it, and
    currents (N, n).

    The u columns are those of friction that differs between runs, or has another shape than the
    terms, in joints with their typical speeds.
    """
    ten = [column.name for column in robot.layout.columns[robot.layout.links[carrier]]]
    to_link = of_frame(placement)

    def columns(piece: Recording) -> tuple[Array, Array]:
        log = Samples.all_of(piece)
        B = base_regressor(robot, log.q, log.dq, log.ddq, base=base, memory=log.states)
        L = np.zeros((*log.tau.shape, 10))
        if loaded:
            L = regressor(robot, log.q, log.dq, log.ddq, columns=ten) @ to_link
        F = _friction_of_run(log.dq, own, loaded)
        return np.concatenate([B, F, L], axis=-1), log.tau

    return columns


def _friction_of_run(speeds: Array, own: Sequence[tuple[int, float]], loaded: bool) -> Array:
    """Return columns (N, n, 7 k) of friction that one of the two runs has: zero in the other.

    Of each of k joints (place, typical speed): how viscous and Coulomb friction and offset differ
    between the runs, and curves over the speed in each of them.
    """
    F = np.zeros((*speeds.shape, SHAPES * len(own)))
    for number, (place, typical) in enumerate(own):
        over = speeds[:, place] / typical
        # offsets change less than friction: the load of a slide is one
        differences = [over, np.tanh(over / DEFAULT_WIDTH), np.full(len(over), LARGE)]
        curves = [np.tanh(over / HALF), over * np.abs(over)]
        with_load, without = ([share * part for part in curves] for share in (loaded, not loaded))
        shapes = [*(loaded * part for part in differences), *without, *with_load]
        F[:, place, SHAPES * number : SHAPES * (number + 1)] = np.stack(shapes, axis=1)
    return F


def _rubbing(robot: Robot, runs: Sequence[Recording]) -> list[tuple[int, float]]:
    """Return the places of joints with friction terms, and their typical speeds in all runs."""
    speeds = np.concatenate([np.asarray(run.dq) for run in runs])
    typical = np.maximum(rms(speeds), 1e-9)
    return [
        (place, float(typical[place]))
        for place, joint in enumerate(robot.independent)
        if robot.joints[joint].drive.friction
    ]


def _pieces(run: Recording, columns: Columns) -> Pieces:
    """Return rows of a run, low-passed as its currents were."""
    if run.prepared:
        return partial(filtered_pieces, run, columns, cutoff_of(run, 4.0, 0.2))
    return pieces_of(run, columns)


def _states(piece: Recording) -> tuple[Array, Array]:
    """Return positions and speeds (N, n, 2), and currents (N, n)."""
    return np.stack([piece.q, np.asarray(piece.dq)], axis=-1), np.asarray(piece.tau)


SHAPES = 7  # size: columns of friction of its own that each joint has
MIN_LOAD_STDS = 4.0
"""Of white residuals, from which a load is seen: at 3 runs whose friction no term has pass."""
MIN_LOAD_SHARE = 2e-3
"""Of the current, at one joint: models and filters are no better."""

OPEN = error(
    "gains.open",
    "The runs leave the gains of some joints open.",
    "A gain is seen where the joint feels the load or shares moving bodies with joints that do: "
    "use a heavier load, off the axis, or move faster.",
)
DRIVE_TERMS = warning(
    "gains.drive_terms",
    "The robot's file has no friction: viscous, Coulomb and offset friction were added, and rotor "
    "inertias where it has none of these either.",
    'Say friction=() (--friction none) where the robot has none, or friction="own".',
)
TORQUES = warning(
    "gains.are_one",
    "All gains are one within their errors: the logs seem to hold torques already.",
    "No gains are needed then. The errors say how well the scale of the torques is known.",
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
        extra = {
            name: ordered.telemetry[name] * self.gains
            for name in ("tau_raw",)
            if name in ordered.telemetry
        }
        shares = self.covariance / np.outer(self.gains, self.gains)
        notices = (*ordered.notices, gains_applied(self.robot.joint_names, self.gains, shares))
        return replace(
            ordered,
            tau=ordered.tau * self.gains,
            telemetry={**ordered.telemetry, **extra},
            notices=notices,
        )

    def save(
        self,
        path: str | os.PathLike[str],
        mapping: str | os.PathLike[str] | None = None,
        *,
        force: bool = False,
    ) -> None:
        """Write a mapping file (.toml) that makes torques of later logs.

        `mapping=` of `md.read_recording`, --mapping. It holds gains and covariance, which loads
        that are found with it account for.

        Args:
            path: Where to.
            mapping: The mapping file that the logs were read with; its other keys are kept.
            force: Write gains although some are open.

        Raises:
            DescriptionError: The path is no .toml file, or the mapping couples the torques of
                joints.
            MinidynError: Gains are open: torques made with them would be wrong by as much.
        """
        self.require_closed(force)
        target = Path(path)
        if target.suffix.lower() != ".toml":
            raise DescriptionError(f"{target}: gains are saved as a mapping file, .toml")
        before = SignalMap.of({}, None if mapping is None else Path(mapping))
        if before.coupling is not None or before.torque_coupling is not None:
            raise DescriptionError(
                f"{mapping}: couples drives; gains of joints are no gains of its motors"
            )
        lines = ["# minidyn: drive gains, joint side, and their covariance; for --mapping"]
        lines.append(
            f"joints = {json.dumps(list(self.robot.joint_names), ensure_ascii=False)}"
            * (mapping is None)
        )
        lines.append(f"drive_gain = {self.gains.tolist()}")
        lines.append(f"drive_gain_covariance = {self.covariance.tolist()}")
        rest = "" if mapping is None else Path(mapping).read_text(encoding="utf-8")
        write_atomically(target, "\n".join([*filter(None, lines), rest]).encode())

    def require_closed(self, force: bool = False) -> None:
        """Raise where gains are open, which are not for use, unless forced."""
        for notice in self.notices:
            if notice.code == OPEN.code and not force:
                raise MinidynError(
                    f"{notice.text}; nothing is written. {OPEN.advice} To write them all the same: "
                    "force=True (--force)"
                )

    def table(self) -> str:
        """Return a Markdown table of the gains."""
        rows = (
            (markdown_cell(name), f"{gain:.6g}", f"{std:.3g}", f"{100 * std / abs(gain):.3g} %")
            for name, gain, std in zip(self.robot.joint_names, self.gains, self.std)
        )
        return markdown_table("lrrr", ("joint", "gain", "std", "relative"), rows)

    def __repr__(self) -> str:
        return f"DriveGains({self.robot.name!r}: {' '.join(f'{gain:.4g}' for gain in self.gains)})"


@single_thread()
def identify_drive_gains(
    robot: RobotLike,
    recording: RecordingLike,
    loaded_recording: RecordingLike,
    mass: float,
    *,
    com: ArrayLike | None = None,
    inertia: ArrayLike | None = None,
    link: str | None = None,
    friction: Iterable[str] | str | None = None,
    rotor_inertia: bool | None = None,
    base: BaseMap | None = None,
) -> DriveGains:
    """Return the drive gains of all joints from a run without and a run with a load of known mass.

    Args:
        robot: The robot, its built-in name or path; its own parameter values are not read.
        recording: A run without the load, or its path; `tau` holds currents, joint by joint.
        loaded_recording: A run with it.
        mass: Of the load, kg, weighed: its error is the gains' error.
        com: Its centre in the frame that carries it (3,), m, where known; None: estimated.
        inertia: About its centre (3, 3), kg m², where known, with `com`; None: estimated.
        link: Link or frame that carries it; None: the last link.
        friction: "own": the drive terms of the robot's file; or names of
            minidyn.model.drives.TERMS, () for none; None: its own, or viscous, Coulomb and offset
            where it has no friction, with rotor inertias where it has no drive terms at all.
        rotor_inertia: Whether drives have rotor inertias; None: as the robot's file has them.
        base: Base parameters; None: found exactly.

    Raises:
        MinidynError: The mass is not positive, a recording has no currents or holds torques that a
            drive gain made, or the second run does not show the load.

    Gautier and Briot (2014) scale the solution of one total least squares problem, which takes all
    currents to have the same noise; here each joint has its own.
    """
    if not (np.isfinite(mass) and mass > 0):
        raise MinidynError(f"mass: expected a positive number of kilograms, got {mass!r}")
    robot = as_robot(robot)
    given = [
        as_recording(log, robot, currents_as_torque=True) for log in (recording, loaded_recording)
    ]
    robot = with_logged_joints(robot, given[0]) if base is None else robot
    if any(notice.code == APPLIED.code for log in given for notice in log.notices):
        raise MinidynError(
            "these logs hold torques: a drive gain made them of currents. Read them without "
            "drive_gain to find gains"
        )
    for log in given if base is None else ():
        robot = with_mapped_coupling(robot, log.notices, log.joint_names)
    robot, notices = _with_terms(robot, friction, rotor_inertia, base)
    known, open_directions = _known_load(robot, float(mass), com, inertia)
    carrier, placement = carrier_of(robot, link)
    chosen = base_parameters(robot) if base is None else base
    runs = [
        ready(robot, run, purpose="identifying drive gains", in_memory=True, every_sample=True)
        for run in given
    ]
    runs = [remembering(robot, run) for run in runs]
    notices += [
        notice
        for run, raw in zip(runs, given)
        for notice in run.notices
        if notice not in raw.notices
    ]
    own = _rubbing(robot, runs)
    columns = [_columns(robot, chosen, carrier, placement, loaded, own) for loaded in (False, True)]
    pieces = [_pieces(run, columns_of_run) for run, columns_of_run in zip(runs, columns)]
    spare = np.repeat([place for place, _ in own], SHAPES).astype(np.intp)
    rows = joined([reduced(own) for own in pieces])
    problem = GainProblem(rows, chosen.rank, known, open_directions, spare)
    x, seen = problem.first_guess()
    _require_load(mass, seen < -MIN_LOAD_STDS, "the first one carries more: are they swapped?")
    _require_load(mass, seen < MIN_LOAD_STDS, "without it they explain as much")
    n = robot.n
    for _ in range(2):
        x = problem.solve(x, problem.noise(x))
    share = problem.share(x)
    why = f"it is {100 * share:.2g} % of the current of every joint at the most"
    _require_load(mass, share < MIN_LOAD_SHARE, why)
    sigma = problem.noise(x)
    states = [_pieces(run, _states) for run in runs]
    covariance = covariance_of_blocks(problem, x, sigma, pieces, states)
    gains = 1.0 / x[:n]
    spread = covariance[:n, :n] * np.outer(gains**2, gains**2)
    deviation = np.sqrt(np.diag(spread))
    best = float(np.min(deviation / gains))
    why = f"even the best gain is known to {100 * best:.2g} % only"
    _require_load(mass, best > LARGE, why)  # all are open
    ten = problem.load(x)
    places = problem.places
    of_load = open_directions @ covariance[places["load"], places["load"]] @ open_directions.T
    payload = Payload(0.0, ten, None, link, of_load)
    notices += _open(robot.joint_names, gains, deviation)
    if np.all(np.abs(gains - 1.0) < np.maximum(3.0 * deviation, 0.02)) and np.all(
        deviation < LARGE
    ):
        worst = float(np.max(np.abs(gains - 1.0)))
        notices.append(
            TORQUES(f"all gains are one within {100 * worst:.2g} %: the logs seem to hold torques")
        )
    return DriveGains(
        robot, gains, spread, chosen, x[places["base"]], payload, sigma, tuple(notices)
    )


def _with_terms(
    robot: Robot,
    friction: Iterable[str] | str | None,
    rotor_inertia: bool | None,
    base: BaseMap | None,
) -> tuple[Robot, list[Notice]]:
    """Return the robot with the drive terms asked for, and what was added to a file that has
    no friction.
    """
    if friction == AUTO:
        raise MinidynError(
            'friction: "auto" needs torques; name the terms, or "own" for those of the robot\'s '
            "file"
        )
    has_friction = any(joint.drive.friction for joint in robot.joints)
    if base is not None or friction is not None or has_friction:
        terms = OWN if friction is None else friction
        asked = Settings(friction=terms, rotor_inertia=rotor_inertia)
        return starting_model(robot, asked, base), []
    has_terms = any(joint.drive.columns for joint in robot.joints)
    made = robot.with_drives(
        True if rotor_inertia is None and not has_terms else rotor_inertia, PLAIN
    )
    added = ", ".join(PLAIN) + ("" if has_terms else " and rotor inertias")
    text = f"the file of robot {robot.name!r} has no friction: {added} were added"
    return made, [DRIVE_TERMS(text, friction=list(PLAIN))]


def _require_load(mass: float, is_hidden: bool, why: str) -> None:
    """Raise where the second run does not show the load."""
    if is_hidden:
        raise MinidynError(
            f"the second run does not show the load of {mass:g} kg ({why}), so that gains are "
            "open. It must carry the load and the first one must not; both must move the joints "
            "that feel it; the model needs the drives' friction"
        )


def _known_load(
    robot: Robot, mass: float, com: ArrayLike | None, inertia: ArrayLike | None
) -> tuple[Array, Array]:
    """Return what is known of the ten parameters (10,), and the open ones (10, u) in units of their
    likely size.
    """
    if inertia is not None and com is None:
        raise MinidynError(
            "inertia: a known inertia about the centre of mass needs a known centre: give com, too"
        )
    sizes = mass * units_of(robot).parameters[robot.layout.links[0]]
    centre = np.zeros(3) if com is None else np.asarray(com, dtype=float)
    about = np.zeros((3, 3)) if inertia is None else np.asarray(inertia, dtype=float)
    for name, value, shape in (("com", centre, (3,)), ("inertia", about, (3, 3))):
        if value.shape != shape or not np.all(np.isfinite(value)):
            raise ShapeError(
                f"{name}: expected finite numbers of shape {shape}, got shape {value.shape}"
            )
    until = 9 if com is None else 6 if inertia is None else 0
    return from_body(mass, centre, about), np.diag(sizes)[:, :until]


def _open(names: Sequence[str], gains: Array, std: Array) -> list[Notice]:
    loose = {
        name: float(spread / gain)
        for name, gain, spread in zip(names, gains, std)
        if spread > LARGE * gain
    }
    if not loose:
        return []
    shown = ", ".join(f"{name!r} ({100 * share:.2g} %)" for name, share in loose.items())
    return [OPEN(f"gains that these runs leave open (standard deviation): {shown}", joints=loose)]
