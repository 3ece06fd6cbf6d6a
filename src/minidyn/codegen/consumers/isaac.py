"""For Isaac Lab: the drives as `ImplicitActuatorCfg`, in a Python file to import (Isaac Lab 2.3 and
newer).

Isaac Lab takes inertia from the USD file, and armature, static, dynamic and viscous friction of
joints from its configuration of actuators. Names of joints are patterns there; those that USD
cannot hold are written as our USD has them. `isaac_actuators` serves whoever has a robot with
drives, and gains of its position control.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from pathlib import Path

from minidyn.codegen.files import Written, prim_names, said
from minidyn.files import write_atomically
from minidyn.model.drives import ROTOR
from minidyn.model.robot import Robot
from minidyn.text import safe_comment

FIELDS = {"armature": ROTOR, "friction": "Fc", "dynamic_friction": "Fc", "viscous_friction": "Fv"}
"""Fields of `ActuatorBaseCfg`, and the drive term that each holds."""


def write(
    robot: Robot,
    path: Path,
    gains: Mapping[str, tuple[float, float]] | None = None,
    delay: float = 0.0,
) -> Written:
    """Write a Python file with ACTUATORS, for `ArticulationCfg(actuators=ACTUATORS)`."""
    write_atomically(path, isaac_actuators(robot, gains, delay).encode())
    return Written((path,), robot, said(robot, set(FIELDS.values())))


def isaac_actuators(
    robot: Robot, gains: Mapping[str, tuple[float, float]] | None = None, delay: float = 0.0
) -> str:
    """Return the text of a Python file with ACTUATORS, from the drives of a robot's independent
    joints.

    Args:
        robot: Its rotor inertias, viscous and Coulomb friction are written.
        gains: {joint: (stiffness, damping)} of position control, N m/rad and N m s/rad; None:
            driven by torques.
        delay: Seconds by which commands act late: the file has `delayed(dt)`, too, for the
            simulation's step dt.
    """
    heard = said(robot, set(FIELDS.values()))
    names = prim_names((joint.name for joint in robot.joints), ["root_joint"])
    patterns = {index: re.escape(names[robot.joints[index].name]) for index in robot.independent}

    def table(values: Mapping[int, float]) -> str:
        return (
            "{"
            + ", ".join(f"{patterns[index]!r}: {value!r}" for index, value in values.items())
            + "}"
        )

    fields = {"joint_names_expr": repr(list(patterns.values()))}
    for place, field in enumerate(("stiffness", "damping")):
        own = (
            {index: float(gains[robot.joints[index].name][place]) for index in patterns}
            if gains
            else {}
        )
        fields[field] = table(own) if gains else "0.0"
    for field, symbol in FIELDS.items():
        fields[field] = table(
            {index: heard.drive_terms(index).get(symbol, 0.0) for index in patterns}
        )
    for field, limit in (("effort_limit_sim", "effort"), ("velocity_limit_sim", "velocity")):
        known = {index: getattr(robot.joints[index].limits, limit) for index in patterns}
        known = {index: value for index, value in known.items() if math.isfinite(value)}
        if known:
            fields[field] = table(known)
    late = (
        f"DELAY = {float(delay)!r}  # s by which commands act late; ACTUATORS act at once",
        "",
        "",
        "def delayed(dt):",
        (
            '    """Return ACTUATORS with the delay, in whole steps of the simulation, dt seconds '
            'each."""'
        ),
        "    steps = round(DELAY / dt)",
        (
            '    return {"identified": DelayedPDActuatorCfg(**VALUES, min_delay=steps, '
            "max_delay=steps)}"
        ),
        "",
    )
    lines = [f"    {field}={value}," for field, value in fields.items()]
    return "\n".join(
        [
            (
                f"# Drives of {safe_comment(robot.name)} for Isaac Lab, written by minidyn: SI "
                "units, joint side."
            ),
            (
                "# ArticulationCfg(spawn=..., actuators=ACTUATORS); names are those of the joints "
                "in USD."
            ),
            (
                "from isaaclab.actuators import "
                f"{'DelayedPDActuatorCfg, ' if delay > 0 else ''}ImplicitActuatorCfg"
            ),
            "",
            "VALUES = dict(",
            *lines,
            ")",
            'ACTUATORS = {"identified": ImplicitActuatorCfg(**VALUES)}',
            "",
            *(late if delay > 0 else ()),
        ]
    )
