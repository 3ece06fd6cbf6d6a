"""From a log's columns to joints.

Names, units, order, signs, offsets, gears, coupling and drive gains. With raw columns x (file order
brought to joint order, units converted to SI),

    q = sign · Rq⁻¹ x_q + offset,    dq, ddq = sign · Rq⁻¹ x,    tau = sign · Rτ (gain · x_tau)

where q_motor = Rq q, Rτ = Rqᵀ unless given: power is the same on both sides. Rq is `coupling`,
diag(`gear_ratio`), or, where both are given, diag(gear_ratio) · coupling.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal, TypedDict

import numpy as np
from numpy.typing import ArrayLike

from minidyn.arrays import Array
from minidyn.errors import DescriptionError, MissingFile, ShapeError, UnknownName
from minidyn.files import read_bytes
from minidyn.formats.toml.table import parse_toml
from minidyn.model.lock import LockLike
from minidyn.model.robot import Robot
from minidyn.notices import Notice, info
from minidyn.recording.recording import SIGNALS

COUPLED = info(
    "recording.coupled_drives",
    "The mapping of a motor-side log says that a motor turns with several joints. Identification "
    "couples the drive so unless the robot's file has couplings of its own.",
    "If the robot's file should say otherwise, give the drive of {joint} its coupling there.",
)

APPLIED = info(
    "gains.applied", "Torques are currents times drive gains; results have the gains' errors."
)

_LENGTH = {"m": 1.0, "cm": 1e-2, "mm": 1e-3, "um": 1e-6, "in": 0.0254}
SECONDS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
"""Units of time."""

_ANGLE = {"rad": 1.0, "deg": math.pi / 180, "mrad": 1e-3, "turn": 2 * math.pi, "rev": 2 * math.pi}
_ANGLE |= {"rpm": 2 * math.pi / 60}
_EFFORT = {
    "nm": 1.0,
    "n": 1.0,
    "nmm": 1e-3,
    "mnm": 1e-3,
    "ncm": 1e-2,
    "knm": 1e3,
    "kn": 1e3,
    "a": 1.0,
    "ma": 1e-3,
}

UNITS = frozenset(_ANGLE | _LENGTH | _EFFORT)
"""Units of positions, speeds and torques that are known, in small letters."""

Columns = str | int | Sequence[str | int]
"""Columns by name, index, range "1:7" or pattern "{joint}_pos"."""

PerJoint = ArrayLike | Mapping[str, float]
"""A number, one for each joint, or {joint: value}."""


class SignalOptions(TypedDict, total=False):
    """How a log's columns are to be understood; everything not given is guessed or left as it is.

    Attributes:
        time: Time column: name or index; a pair (seconds, nanoseconds).
        time_unit: "s", "ms", "us" or "ns"; None: from the name, else from the spacing.
        rate: Samples per second, where there is no time column (or it is not to be trusted).
        q: Columns of the positions: names, indices, a range "1:7", a pattern "pos_*" or
            "{joint}_pos".
        dq: Columns of the speeds; False: not read.
        ddq: Columns of the accelerations; False: not read.
        use_ddq: Use the file's accelerations, and everything else as it is: nothing is filtered.
            Otherwise they are left out, unless the file says that minidyn prepared it.
        tau: Columns of the torques or motor currents; False: not read.
        joints: Names of the file's joints in the order of its columns; or {robot's joint: file's
            joint}.
        units: "deg", "mm", ("deg", "mm"), one per joint, or {"q": ..., "dq": ..., "tau": ...}.
        offset: Added to q (rad or m): a number, one per joint, or {joint: value}.
        sign: +1 or -1: a number, one per joint, or {joint: value}.
        gear_ratio: Motor turns per joint turn, one per joint.
        coupling: Matrix (n, n) from joint to motor positions; with `gear_ratio` without the ratios.
        torque_coupling: Matrix (n, n) from motor to joint torques; None: the transpose of the whole
            position matrix.
        drive_gain: Torque per unit of the tau column, motor side (N m/A for currents), one per
            joint.
        drive_gain_covariance: Of `drive_gain` (n, n), where known; loads that are found account for
            it.
        currents_as_torque: Take columns of motor currents that have no `drive_gain` as they are;
            else they are refused.
        known_torque: Columns of torques that are known, N m or N at the joint, one per joint or
            {joint: column}, read as telemetry "known_torque", which `md.identify` subtracts.
        wrench: Six columns of a force sensor, forces (N) then moments (N m), read as telemetry
            "wrench"; None: from their names (fx ... tz, force_x ... torque_z, wrench.force.x ...),
            of a bag its topic of WrenchStamped.
        command: Columns of commanded positions, rad or m, one per joint or {joint: column}, read as
            telemetry "q_d", which `md.identify_actuators` needs.
        motor_side: Signals measured on the motor side: True, False or a list; None: all where
            ratios are given. True without ratios: the robot's own gear ratios and coupling.
        header: Whether the first line of a CSV names the columns; None: it does where it is no row
            of numbers.
        delimiter: Of a CSV; None: guessed.
        topic: Of a bag; None: the only one of sensor_msgs/JointState, else the one with the robot's
            joints; where there is none, of trajectory_msgs/JointTrajectory.
        run: Column whose changes begin a new run.
        together: Whether several files are one run spread over them; None: where each holds other
            signals.
        lock: Joints of the robot that did not move, {joint: position}, whether logged or not, as
            for :meth:`Robot.locked`.
        keep_joints: Names or patterns of the joints that moved, the others are locked, as for
            :meth:`Robot.reduced`.
    """

    time: Columns | None
    time_unit: str | None
    rate: float | None
    q: Columns | None
    dq: Columns | Literal[False] | None
    ddq: Columns | Literal[False] | None
    use_ddq: bool
    tau: Columns | Literal[False] | None
    joints: Sequence[str] | Mapping[str, str] | None
    units: str | Sequence[str] | Mapping[str, str | Sequence[str]] | None
    offset: PerJoint | None
    sign: PerJoint | None
    gear_ratio: PerJoint | None
    coupling: ArrayLike | None
    torque_coupling: ArrayLike | None
    drive_gain: PerJoint | None
    drive_gain_covariance: ArrayLike | None
    currents_as_torque: bool
    known_torque: Columns | Mapping[str, str | int] | None
    wrench: Columns | None
    command: Columns | Mapping[str, str | int] | None
    motor_side: bool | Sequence[str] | None
    header: bool | None
    delimiter: str | None
    topic: str | None
    run: str | None
    together: bool | None
    lock: LockLike | None
    keep_joints: str | Sequence[str] | None


OPTIONS = tuple(SignalOptions.__annotations__)
"""Names of the options."""


def _listed(value: Any, kind: Any) -> bool:
    """Whether a value is a list (or tuple, array, range) of texts, or of what else a column is
    named by.
    """
    return (
        isinstance(value, Iterable)
        and not isinstance(value, str | Mapping)
        and all(isinstance(x, kind) for x in value)
    )


_INDEX = str | int | np.integer
_KINDS: tuple[tuple[tuple[str, ...], str, Callable[[Any], bool]], ...] = (
    (
        ("use_ddq", "currents_as_torque", "header", "together"),
        "true or false",
        lambda v: isinstance(v, bool | np.bool_),
    ),
    (("time_unit", "topic", "run"), "a text", lambda v: isinstance(v, str)),
    (
        ("delimiter",),
        "one character",
        lambda v: isinstance(v, str) and len(v) == 1 and v not in '\r\n"',
    ),
    (
        ("time", "q", "dq", "ddq", "tau"),
        "names or numbers of columns",
        lambda v: v is False or (isinstance(v, _INDEX) and v is not True) or _listed(v, _INDEX),
    ),
    (
        ("known_torque",),
        "names or numbers of columns, or a table of them",
        lambda v: (
            isinstance(v, _INDEX) or _listed(v.values() if isinstance(v, Mapping) else v, _INDEX)
        ),
    ),
    (
        ("joints",),
        "names, or a table of them",
        lambda v: _listed(v.values() if isinstance(v, Mapping) else v, str),
    ),
    (
        ("units",),
        "a text, texts, or a table of them",
        lambda v: all(
            isinstance(x, str) or _listed(x, str)
            for x in (v.values() if isinstance(v, Mapping) else [v])
        ),
    ),
    (
        ("lock",),
        "names of joints, or a table of their positions",
        lambda v: isinstance(v, str | Mapping) or _listed(v, str),
    ),
    (("keep_joints",), "names of joints", lambda v: isinstance(v, str) or _listed(v, str)),
    (
        ("motor_side",),
        "true, false or names of signals",
        lambda v: isinstance(v, bool | np.bool_) or _listed(v, str),
    ),
)
"""Options, what is expected of each, and whether a value is that."""


class SignalMap(SimpleNamespace):
    """The options of `SignalOptions` as attributes, None where one is not given."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**dict.fromkeys(OPTIONS) | options)
        if self.rate is not None and not (
            isinstance(self.rate, int | float) and 0 < self.rate < math.inf
        ):
            raise DescriptionError(f"rate: expected samples per second above 0, got {self.rate!r}")
        for names, expected, fits in _KINDS:
            for name in names:
                value = getattr(self, name)
                if value is not None and not fits(value):
                    raise DescriptionError(f"{name}: expected {expected}, got {value!r}")
        if self.time_unit is not None and self.time_unit not in SECONDS:
            raise UnknownName("time unit", self.time_unit, SECONDS)

    @classmethod
    def of(cls, options: Mapping[str, Any], file: str | Path | None = None) -> SignalMap:
        """Return the map of keyword options, and of a TOML file with the same keys; options win.

        Of a study file it is the table [mapping].
        """
        merged = {} if file is None else mapping_of(Path(file))
        _require("mapping option", options, OPTIONS)
        return cls(**{**merged, **options})


def mapping_of(path: Path) -> dict[str, Any]:
    """Return the options in a TOML file; of a study file those of its table [mapping]."""
    if not path.exists():
        raise MissingFile(f"{path}: no such file")
    try:
        options = parse_toml(read_bytes(path).decode("utf-8"), str(path))
    except UnicodeDecodeError as error:
        raise DescriptionError(f"{path}: not a TOML file ({error})") from None
    options = options["mapping"] if isinstance(options.get("mapping"), dict) else options
    _require(f"mapping key in {path.name}", options, OPTIONS)
    return options


def with_own_mapping(path: str) -> tuple[str, str | None]:
    """Return a log's path and the mapping file that it names for itself: "B.csv:map.toml".

    A drive's letter before a colon is part of the path.
    """
    log, colon, mapping = path.rpartition(":")
    is_own = bool(colon) and len(log) > 1 and mapping.lower().endswith(".toml")
    return (log, mapping) if is_own else (path, None)


@dataclass(frozen=True)
class Conversion:
    """The linear maps from raw columns in joint order to SI on the joint side."""

    scale: Mapping[
        str, Array
    ]  # for each signal, factors (n,) applied to the raw columns; drive gains included
    motion: Array | None  # matrix (n, n) from raw to joint motion: Rq⁻¹; None: identity
    torque: Array | None  # matrix (n, n) from raw to joint torque: Rτ; None: identity
    offset: Array  # added to q (n,), rad or m
    on_motor: tuple[str, ...]  # signals the matrices apply to; the others only take the sign
    sign: Array  # (n,), +1 or -1

    def apply(self, signal: str, raw: Array) -> Array:
        """Return a signal (N, n) in SI on the joint side."""
        values = raw if np.all(self.scale[signal] == 1) else raw * self.scale[signal]
        matrix = self.torque if signal == "tau" else self.motion
        if matrix is not None and signal in self.on_motor:
            values = values @ matrix.T
        if np.any(self.sign != 1):
            values = values * self.sign
        return values + self.offset if signal == "q" and np.any(self.offset) else values

    def turn_bounds(self, joints: Sequence[str], robot: Robot | None) -> Array:
        """Return between which angles, rad, raw positions of joints may lie (n, 2) by the robot's
        limits.

        NaN where it does not say, and where a turn that is measured is no turn of the joint:
        slides, the motor side.
        """
        bounds = np.full((len(joints), 2), np.nan)
        if robot is None or (self.motion is not None and "q" in self.on_motor):
            return bounds
        for row, name in enumerate(joints):
            joint = robot.joints[robot.joint_index(name)]
            limits = np.array([joint.limits.lower, joint.limits.upper])
            if joint.turns and np.isfinite(limits).all():
                bounds[row] = np.sort(self.sign[row] * (limits - self.offset[row]))
        return bounds


def mapped_locks(given: SignalMap, robot: Robot) -> Robot:
    """Return the robot with the joints locked that a mapping names."""
    robot = robot if given.lock is None else robot.locked(given.lock)
    return robot if given.keep_joints is None else robot.reduced(given.keep_joints)


def conversion(given: SignalMap, joints: Sequence[str], robot: Robot | None) -> Conversion:
    """Return the conversion for joints in this order.

    Sizes, signs, ratios, joints and units are checked.
    """
    sign = _vector("sign", given.sign, joints, 1.0)
    if not np.all(np.abs(sign) == 1):
        raise ShapeError(f"sign: expected +1 or -1 for each joint, got {sign.tolist()}")
    slides = [
        None if robot is None else robot.joints[robot.joint_index(name)].slides for name in joints
    ]
    scale = {signal: _scales(given.units, signal, joints, slides) for signal in SIGNALS}
    scale["tau"] = scale["tau"] * _vector("drive_gain", given.drive_gain, joints, 1.0)
    Rq = _position_matrix(given, joints, robot)
    sides = given.motor_side
    on_motor = SIGNALS if sides is None or sides is True else () if sides is False else tuple(sides)
    _require("signal in motor_side", on_motor, SIGNALS)
    if Rq is not None and not (
        np.abs(Rq).max() > 1e-100 and abs(np.linalg.det(Rq / np.abs(Rq).max())) >= 1e-12
    ):
        raise ShapeError(
            "coupling, gear_ratio: the matrix from joint to motor positions has no inverse"
        )
    motion, torque = (
        (None, None) if Rq is None else (np.asarray(np.linalg.inv(Rq), dtype=float), Rq.T)
    )
    if given.torque_coupling is not None:
        torque = _matrix("torque_coupling", given.torque_coupling, len(joints))
    return Conversion(
        scale, motion, torque, _vector("offset", given.offset, joints, 0.0), on_motor, sign
    )


def _position_matrix(given: SignalMap, joints: Sequence[str], robot: Robot | None) -> Array | None:
    ratios, coupling = _vector("gear_ratio", given.gear_ratio, joints, 1.0), np.eye(len(joints))
    if given.coupling is not None:
        return np.diag(ratios) @ _matrix("coupling", given.coupling, len(joints))
    if given.gear_ratio is not None:
        return np.diag(ratios)
    if not given.motor_side:
        return None
    if robot is None:
        raise DescriptionError(
            "motor_side: give gear_ratio or coupling, or a robot whose drives have them"
        )
    for row, name in enumerate(joints):
        drive = robot.joints[robot.joint_index(name)].drive
        ratios[row] = drive.gear_ratio
        for other, value in drive.coupling:
            if other in joints:
                coupling[row, list(joints).index(other)] += value
    return np.diag(ratios) @ coupling


def _require(what: str, names: Iterable[str], known: Sequence[str]) -> None:
    for name in names:
        if name not in known:
            raise UnknownName(what, name, known)


def _vector(what: str, value: Any, joints: Sequence[str], default: float) -> Array:
    made = np.full(len(joints), default)
    if isinstance(value, Mapping):
        _require(f"joint in {what}", value, joints)
        for name, number in value.items():
            made[list(joints).index(name)] = _vector(f"{what}: {name}", number, [name], default)[0]
    elif value is not None:
        try:
            made = np.array(np.broadcast_to(np.asarray(value, dtype=float), (len(joints),)))
        except (TypeError, ValueError):
            raise ShapeError(
                f"{what}: expected a number or {len(joints)}, one per joint, got {value!r}"
            ) from None
    if not np.all(np.isfinite(made)):
        raise ShapeError(f"{what}: expected finite numbers, got {made.tolist()}")
    return made


def _matrix(what: str, value: Any, n: int) -> Array:
    try:
        made = np.array(value, dtype=float)
    except (TypeError, ValueError):
        made = np.zeros(0)
    if made.shape != (n, n) or not np.all(np.isfinite(made)):
        raise ShapeError(
            f"{what}: expected a finite matrix of shape {(n, n)}, got shape {made.shape}"
        )
    return made


def _scales(units: Any, signal: str, joints: Sequence[str], slides: Sequence[bool | None]) -> Array:
    """Return the factors (n,) to SI.

    `slides` says of each joint whether it is prismatic, None where no robot does.
    """
    chosen, explicit = units, False
    if isinstance(units, Mapping):
        chosen, explicit = units.get(signal), bool(units.get(signal))
        if not set(units) <= set(SIGNALS):
            for name in set(units) - set(joints):
                raise UnknownName("signal or joint in units", name, [*SIGNALS, *joints])
            chosen = [units.get(name, "") for name in joints]
    factors = np.ones(len(joints))
    words = [] if chosen is None else [chosen] if isinstance(chosen, str) else list(chosen)
    # two words are one for each of two joints, unless they are an angle unit and a length unit for
    # both
    pair = (
        len(slides) == 2
        and len({_base(str(word)) in _ANGLE for word in words}) == 2
        and None not in slides
    )
    per_joint = not isinstance(chosen, str) and len(words) == len(joints) and not pair
    for index, slide in enumerate(slides):
        for word in [words[index]] if per_joint else words:
            factors[index] *= _factor(str(word), signal, slide, explicit)
    return factors


def check_units(units: Any) -> None:
    """Raise where a word is no unit: before anything is read."""
    values = list(units.values()) if isinstance(units, Mapping) else [units]
    for value in values:
        for word in [value] if isinstance(value, str) else value or ():
            _factor(str(word), "q", None, False)


def _base(word: str) -> str:
    return word.lower().replace("·", "").replace(" ", "").replace("degrees", "deg").split("/")[0]


def _factor(word: str, signal: str, slides: bool | None, explicit: bool) -> float:
    """Return the factor to SI; 1 where the unit is of another kind than the joint or the signal."""
    base = _base(word)
    if not base:
        return 1.0
    if base not in _ANGLE | _LENGTH | _EFFORT:
        raise UnknownName("unit", word, [*_ANGLE, *_LENGTH, "Nm", "Nmm", "A", "mA"])
    if signal == "tau":
        return _EFFORT.get(base, 1.0) if base not in _LENGTH or explicit else 1.0
    if base in _ANGLE:
        return 1.0 if slides else _ANGLE[base]
    return 1.0 if slides is False else _LENGTH.get(base, 1.0)


def mapped_coupling(given: SignalMap, joint_names: Sequence[str]) -> list[Notice]:
    """Return a notice for each drive that other joints turn, too.

    It stays with the recording, files included.
    """
    if given.coupling is None:
        return []
    names = joint_names
    if isinstance(given.joints, list | tuple) and sorted(map(str, given.joints)) == sorted(names):
        names = [str(name) for name in given.joints]
    try:
        R, signs = (
            _matrix("coupling", given.coupling, len(names)),
            _vector("sign", given.sign, names, 1.0),
        )
    except (TypeError, ValueError, UnknownName):
        return []  # the reader says what is wrong with them
    if np.any(np.diag(R) == 0):
        return []
    ratios = R * signs / (np.diag(R) * signs)[:, None]  # joint side: the drive's own joint counts 1
    notices = []
    for i, name in enumerate(names):
        others = {
            other: float(ratios[i, k])
            for k, other in enumerate(names)
            if k != i and ratios[i, k] != 0.0
        }
        if others:
            text = (
                f"the drive of {name} also turns with {', '.join(others)}, as the mapping's "
                "coupling says"
            )
            notices.append(COUPLED(text, joint=name, coupling=others))
    return notices


def gains_applied(joints: Sequence[str], gains: Array, shares: Array | None = None) -> Notice:
    """Return the notice of torques that are currents times gains (n,), with the covariance of the
    gains' shares.

    It stays with the recording, files included, and with estimates: see `gain_errors`.
    """
    text = "torques are currents times drive gains"
    if shares is not None:
        worst = int(np.argmax(np.diag(shares)))
        text += (
            f" (standard deviation up to {100 * np.sqrt(shares[worst, worst]):.2g} %, joint "
            f"{joints[worst]!r})"
        )
    known = None if shares is None else shares.tolist()
    return APPLIED(text, joints=list(joints), drive_gain=gains.tolist(), covariance=known)


def mapped_gains(given: SignalMap, joints: Sequence[str]) -> list[Notice]:
    """Return the notice of a mapping's drive gains."""
    if given.drive_gain is None:
        if given.drive_gain_covariance is not None:
            raise ShapeError(
                "drive_gain_covariance: gains whose covariance is given must be given, too: "
                "drive_gain"
            )
        return []
    gains, shares = _vector("drive_gain", given.drive_gain, joints, 1.0), None
    if given.drive_gain_covariance is not None:
        C = _matrix("drive_gain_covariance", given.drive_gain_covariance, len(joints))
        if not np.allclose(C, C.T) or np.linalg.eigvalsh(C).min() < -1e-9 * np.abs(C).max():
            raise ShapeError(
                "drive_gain_covariance: expected a symmetric matrix without negative eigenvalues"
            )
        shares = C / np.outer(gains, gains)
    return [gains_applied(joints, gains, shares)]
