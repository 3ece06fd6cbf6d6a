"""What a controller is told of its robot's tool.

Franka's endeffector-config.json, Universal Robots' payload script. Both want mass, centre of mass
in the frame of the flange, and inertia about it along the flange's axes.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np

from minidyn.arrays import Array
from minidyn.codegen.files import Written
from minidyn.errors import DescriptionError, Unsupported
from minidyn.files import write_atomically
from minidyn.model.geometry import inverse_steps, matrix_of
from minidyn.model.parameters import realizability, to_body, transform
from minidyn.model.robot import Robot
from minidyn.notices import info
from minidyn.text import safe_comment

TOOL_FRAME = info(
    "export.tool_frame",
    "In which frame centre and inertia of a tool are written: controllers expect their flange's.",
    "Check that it is the flange; name the flange's frame in the robot file, or the link that "
    "carries the load.",
)

FLANGES = ("flange", "tool0", "link8")
"""How names of the frame end that tools are mounted on."""

_MOST = 133.0  # kg m², an entry of the inertia that Universal Robots' controllers take


def write(robot: Robot, path: Path) -> Written:
    """Write the loads of a robot as the file of a controller."""
    ten, frame = tool_of(robot)
    write_tool(path, ten, robot.name)
    told = TOOL_FRAME(
        f"{path.name}: centre and inertia of the tool are in frame {frame!r}", frame=frame
    )
    return Written((path,), robot, robot, notices=(told,))


def write_tool(path: Path, ten: Array, name: str = "tool") -> None:
    """Write a tool, ten parameters in the frame of the flange, as a file whose ending says for
    whom: .json, .script.
    """
    made = WRITERS.get(path.suffix.lower())
    if made is None:
        raise DescriptionError(
            f"{path}: expected a name ending with .json (Franka) or .script (Universal Robots)"
        )
    write_atomically(path, made(ten, name).encode())


def tool_of(robot: Robot) -> tuple[Array, str]:
    """Return (ten parameters, frame) of all loads on a robot's last carrying link, seen from its
    flange.

    The flange is a frame of that link whose name ends as one of FLANGES; the link itself where
    there is none.
    """
    loads = [index for index, joint in enumerate(robot.joints) if joint.kind == "fixed"]
    if not loads:
        raise Unsupported(
            f"robot {robot.name!r} carries no load of its own, which a tool file would describe: "
            "robot.with_load(...), or export what md.identify_payload finds: payload.export(path)"
        )
    link = robot.joints[loads[-1]].parent
    own = [index for index in loads if robot.joints[index].parent == link]
    parts = [
        (robot.parameters[robot.layout.links[index]], robot.joints[index].placement)
        for index in own
    ]
    ten = np.sum([transform(part, place) for part, place in parts], axis=0)
    for frame in robot.frames:
        if frame.link == link and frame.name.lower().endswith(FLANGES):
            return transform(ten, matrix_of(inverse_steps(frame.steps))), frame.name
    return ten, robot.link_name(link)


def franka_config(ten: Array, name: str = "tool") -> str:
    """Return the text of endeffector-config.json, as Franka's Desk uploads it, of a tool in the
    flange's frame.
    """
    mass, com, inertia = _body(ten)
    content = {
        "mass": mass,
        "centerOfMass": com.tolist(),
        "transformation": np.eye(4)
        .ravel()
        .tolist(),  # of the end effector's frame: the flange itself
        "inertia": inertia.T.ravel().tolist(),  # column by column
    }
    return json.dumps(content, indent=1, allow_nan=False) + "\n"


def ur_script(ten: Array, name: str = "tool") -> str:
    """Return a URScript that sets the payload of a Universal Robots arm, of a tool in the flange's
    frame.
    """
    mass, com, inertia = _body(ten)
    six = [*np.diag(inertia).tolist(), *(float(inertia[i, j]) for i, j in ((0, 1), (0, 2), (1, 2)))]
    if max(map(abs, six)) > _MOST:
        raise DescriptionError(
            f"the tool's inertia is beyond what Universal Robots' controllers take ({_MOST:g} kg "
            "m²)"
        )

    def listed(values: list[float]) -> str:
        return f"[{', '.join(f'{value:.9f}' for value in values)}]"

    return (
        f"# Payload of {safe_comment(name)}, written by minidyn: kg, m and kg m^2, axes of the "
        "flange.\n"
        "# The force and torque sensor is set to zero when this runs.\n"
        "def minidyn_payload():\n"
        f"  set_target_payload({mass:.9f}, {listed(com.tolist())}, inertia={listed(six)})\n"
        "end\n"
        "minidyn_payload()\n"
    )


def _body(ten: Array) -> tuple[float, Array, Array]:
    """Return mass, centre and inertia about it of a tool that can exist."""
    mass, com, inertia = to_body(ten)
    if not (
        math.isfinite(mass)
        and mass > 0
        and np.isfinite(com).all()
        and realizability(ten).realizable
    ):
        raise DescriptionError(
            f"no body has the tool's parameters (mass {mass:.4g} kg), and controllers refuse "
            "them; make the model consistent, or move more"
        )
    return float(mass), np.asarray(com), np.asarray(inertia)


WRITERS: dict[str, Callable[[Array, str], str]] = {".json": franka_config, ".script": ur_script}
"""For whom files of tools are, by how their names end."""
