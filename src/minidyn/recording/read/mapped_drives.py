"""What a mapping of motor-side logs says about the robot: motors that several joints turn are coupled drives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from minidyn.model.robot import Robot
from minidyn.notices import Notice, kind
from minidyn.recording.read.mapping import SignalMap

COUPLED = kind(
    "recording.coupled_drives",
    "info",
    "The mapping of a motor-side log says that a motor turns with several joints; the robot's drive got that coupling.",
)


def with_mapped_coupling(robot: Robot, given: SignalMap) -> tuple[Robot, tuple[Notice, ...]]:
    """Return the robot with drives coupled as a mapping's `coupling` says, and what was done.

    The rotor and the friction of a motor turn with the motor: where the log says that joint 5 turns motor 6, the drive
    of joint 6 must know it. A robot that has couplings of its own keeps them.

    Args:
        robot: The robot.
        given: How its logs are read; `coupling` (n, n) leads from joint to motor positions.
    """
    own = any(joint.drive.coupling for joint in robot.joints)
    if given.coupling is None or own:
        return robot, ()
    names: Sequence[str] = robot.joint_names
    if isinstance(given.joints, list | tuple) and sorted(map(str, given.joints)) == sorted(names):
        names = [str(name) for name in given.joints]
    try:
        R, signs = np.array(given.coupling, dtype=float), _signs(given.sign, names)
    except (TypeError, ValueError):
        return robot, ()  # the reader says what is wrong with them
    if R.shape != (len(names), len(names)) or np.any(np.diag(R) == 0):
        return robot, ()
    ratios = R * signs / (np.diag(R) * signs)[:, None]  # joint side: the drive's own joint counts 1
    coupling = {
        name: {other: float(ratios[i, k]) for k, other in enumerate(names) if k != i and ratios[i, k] != 0.0}
        for i, name in enumerate(names)
    }
    coupling = {name: others for name, others in coupling.items() if others}
    if not coupling:
        return robot, ()
    notices = tuple(
        COUPLED(
            f"the drive of {name} also turns with {', '.join(others)}, as the mapping's coupling says",
            joint=name,
            coupling=others,
        )
        for name, others in coupling.items()
    )
    return robot.with_drives(coupling=coupling), notices


def _signs(sign: object, names: Sequence[str]) -> np.ndarray:
    if isinstance(sign, Mapping):
        return np.array([float(sign.get(name, 1.0)) for name in names])
    if isinstance(sign, list | tuple) and len(sign) == len(names):
        return np.array([float(value) for value in sign])
    return np.ones(len(names))
