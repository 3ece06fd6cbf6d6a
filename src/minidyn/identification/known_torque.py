"""Torque that is known before a fit: subtracted from what is measured, added to what is predicted.

A part of it is a column of the log, a function of positions and speeds, or a piece of a robot: a
load or a balancer with given constants. Pieces of a robot can be saved and written as code; a
function lives in Python alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from minidyn.arrays import Array
from minidyn.dynamics.functions import inverse_dynamics
from minidyn.errors import MinidynError, ShapeError, WrongArgument
from minidyn.model.balancer import Balancer
from minidyn.model.robot import Robot
from minidyn.notices import Notice, info, warning
from minidyn.recording.lazy import AnyRecording
from minidyn.recording.ready import in_robot_order, ready
from minidyn.recording.recording import KNOWN_TORQUE, Recording
from minidyn.simulation.payload import Payload

TorqueFunction = Callable[[Array, Array], Any]
"""From positions and speeds (N, n) to torques (N, n)."""

Part = str | TorqueFunction | Payload | Balancer
"""A column of the log by the name of its telemetry, a function, a load, or a balancer with its
constants.
"""

KnownTorqueLike = Part | Mapping[str, Part] | None

SUBTRACTED = info(
    "identify.known_torque", "Known torque was subtracted before the fit; predictions contain it."
)
NOT_EXPORTED = warning(
    "export.known_torque",
    "The model is used together with known torque that this file cannot hold.",
    "Add it to the torques of the exported model: it is not in them.",
)


@dataclass(frozen=True)
class KnownTorque:
    """Known torque, by the names of its parts.

    Columns of logs, functions, and robots that hold nothing else. None in place of a function: the
    estimate was saved, and files do not hold functions.
    """

    parts: Mapping[str, str | TorqueFunction | Robot | None]

    @classmethod
    def of(cls, given: KnownTorqueLike, robot: Robot, recording: Any) -> KnownTorque:
        """Return what a caller names, and the columns of known torque that a log itself says it
        has.
        """
        named = (
            {} if given is None else given if isinstance(given, Mapping) else {_word(given): given}
        )
        parts = {str(name): _part(str(name), part, robot) for name, part in named.items()}
        if (
            KNOWN_TORQUE in getattr(recording, "telemetry", ())
            and KNOWN_TORQUE not in parts.values()
        ):
            parts[KNOWN_TORQUE] = KNOWN_TORQUE
        return cls(parts)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the parts."""
        return tuple(self.parts)

    def torque(self, piece: Recording) -> Array:
        """Return the known torque (N, n) along a recording whose joints are in the robot's
        order.
        """
        total = np.zeros((len(piece), len(piece.joint_names)))
        for name, part in self.parts.items():
            total += self._torque(name, part, piece)
        return total

    def _torque(
        self, name: str, part: str | TorqueFunction | Robot | None, piece: Recording
    ) -> Array:
        shape = (len(piece), len(piece.joint_names))
        if part is None:
            raise MinidynError(
                f"known torque {name!r} is a Python function, which the file of an estimate does "
                f"not hold: give it again, md.load_estimate(path, known_torque={{{name!r}: "
                "function})"
            )
        if isinstance(part, str):
            if part not in piece.telemetry:
                raise MinidynError(
                    f"known torque {name!r}: the recording has no telemetry {part!r}; read its "
                    "columns by known_torque="
                    " of md.read_recording (--known-torque)"
                )
            found = np.asarray(piece.telemetry[part], dtype=float)
        elif isinstance(part, Robot):
            if piece.dq is None or piece.ddq is None:
                raise MinidynError(
                    f"known torque {name!r} needs speeds and accelerations: prepare the recording"
                )
            found = inverse_dynamics(part, piece.q, np.asarray(piece.dq), np.asarray(piece.ddq))
        else:
            if piece.dq is None:
                raise MinidynError(f"known torque {name!r} needs speeds: prepare the recording")
            try:
                found = np.asarray(part(np.asarray(piece.q), np.asarray(piece.dq)), dtype=float)
            except (TypeError, ValueError, IndexError) as error:
                raise WrongArgument(
                    f"known torque {name!r}: the function takes positions and speeds {shape} and "
                    f"returns torques of that shape; called so, it fails: {type(error).__name__}: "
                    f"{error}"
                ) from error
        if found.shape != shape:
            raise ShapeError(
                f"known torque {name!r}: torques of shape {shape}, samples and joints, are "
                f"expected, got {found.shape}"
            )
        if not np.all(np.isfinite(found)):
            row, joint = (int(k) for k in np.argwhere(~np.isfinite(found))[0])
            raise ShapeError(
                f"known torque {name!r}: that of joint {piece.joint_names[joint]!r} is no number "
                f"at sample {row}, t = {piece.t[row]:.6g} s; fill such holes, or leave those "
                "samples out"
            )
        return found

    def off(self, robot: Robot, log: AnyRecording) -> Recording:
        """Return a recording without the known torque, raw or prepared as it was; its joints in the
        robot's order.

        A raw one is low-passed and differentiated for the states that functions and robots need,
        every sample kept; torques stay raw, so that what is left is prepared as any log.
        """
        whole = states = in_robot_order(robot, log.load())
        columns_alone = all(isinstance(part, str) for part in self.parts.values())
        if not columns_alone and (whole.dq is None or whole.ddq is None):
            states = ready(
                robot, whole, purpose="known torque", tau=False, every_sample=True, in_memory=True
            )
            if len(states) != len(whole):
                count = len(whole) - len(states)
                raise MinidynError(
                    f"known torque: {count} of {len(whole)} samples have no speeds and "
                    "accelerations (gaps, short runs, uneven times); prepare the recording first: "
                    "md.prepare(robot, recording)"
                )
        known = self.torque(replace(states, telemetry=whole.telemetry))
        rest = {
            name: values
            for name, values in whole.telemetry.items()
            if name not in self.parts.values()
        }
        rest |= {"tau_raw": rest["tau_raw"] - known} if "tau_raw" in rest else {}
        if whole.tau is None:
            return whole  # who needs torques says so
        return replace(
            whole, tau=whole.tau - known, telemetry=rest, notices=(*whole.notices, self.notice())
        )

    def notice(self) -> Notice:
        """Return what was subtracted."""
        return SUBTRACTED(
            f"known torque was subtracted before the fit: {', '.join(self.names)}",
            parts=list(self.names),
        )

    def on(self, robot: Robot) -> tuple[Robot, list[Notice]]:
        """Return a robot with those parts that a robot can have, and a notice of the others."""
        for part in self.parts.values():
            if isinstance(part, Robot):
                robot = _joined(robot, part)
        rest = [name for name, part in self.parts.items() if not isinstance(part, Robot)]
        text = f"known torque is not in the exported model: {', '.join(rest)}"
        return robot, [NOT_EXPORTED(text, parts=rest)] if rest else []

    def saved(self, text_of: Callable[[Robot], str]) -> dict[str, dict[str, str]]:
        """Return plain values: a column's name, a robot's text, nothing for a function."""
        found: dict[str, dict[str, str]] = {name: {} for name in self.parts}
        for name, part in self.parts.items():
            if isinstance(part, str):
                found[name]["column"] = part
            elif isinstance(part, Robot):
                found[name]["robot"] = text_of(part)
        return found

    @classmethod
    def loaded(
        cls, saved: Mapping[str, Any], read: Callable[[str], Robot], given: KnownTorqueLike
    ) -> KnownTorque:
        """Return what `saved` wrote, functions as they are given."""
        functions = (
            {}
            if given is None
            else given
            if isinstance(given, Mapping)
            else dict.fromkeys(saved, given)
        )
        parts: dict[str, Any] = {}
        for name, entry in saved.items():
            robot = entry.get("robot")
            function = functions.get(name)
            parts[name] = entry.get("column") or (function if robot is None else read(robot))
        return cls(parts)


def without_known(
    given: KnownTorqueLike, robot: Robot, log: AnyRecording
) -> tuple[Recording, KnownTorque]:
    """Return a recording without known torque, and that torque."""
    known = KnownTorque.of(given, robot, log)
    return known.off(robot, log), known


def _word(part: Part) -> str:
    """Return the name of a part that has none."""
    return part if isinstance(part, str) else getattr(part, "__name__", type(part).__name__.lower())


def _part(name: str, part: Any, robot: Robot) -> str | TorqueFunction | Robot:
    """Return a part as it is kept: loads and balancers as robots that hold nothing else."""
    bare = robot.with_drives(False, ())
    bare = bare.with_parameters(np.zeros(len(bare.parameters)))
    if isinstance(part, Payload):
        return part.on(bare)
    if isinstance(part, Balancer):
        made = part.on(bare)
        if np.isnan(made.parameters).any():
            raise MinidynError(
                f"known torque {name!r}: constants of the balancer are not given; to have them "
                "fitted, put it on the robot: balancer.on(robot)"
            )
        return made
    if isinstance(part, str) or callable(part):
        return part  # type: ignore[no-any-return]
    raise WrongArgument(
        f"known_torque {name!r}: expected a column's name, a function of q and dq, a Payload or a "
        f"Balancer, got {type(part).__name__}"
    )


def _joined(robot: Robot, part: Robot) -> Robot:
    """Return a robot whose torques are the sum of both; they have the same joints."""
    places = {
        joint.name: joint.drive.balancer
        for joint in part.joints
        if joint.drive.balancer is not None
    }

    def change(joint: Any) -> Any:
        balancer = places.get(joint.name)
        if balancer is None:
            return joint
        if joint.drive.balancer not in (None, balancer):
            raise MinidynError(
                f"joint {joint.name!r} has two balancers, which one file cannot hold"
            )
        return replace(joint, drive=joint.drive.balanced(balancer))

    made, own, other = robot.with_joints(change), robot.layout, part.layout
    values = [
        (robot.parameters[own.index(name)] if name in own else 0.0)
        + (part.parameters[other.index(name)] if name in other else 0.0)
        for name in made.parameter_names
    ]
    return made.with_parameters(np.array(values))
