"""For Drake: a URDF with Drake's own elements for rotor inertia and gear ratio, its root fixed to
the world.

`Parser(plant).AddModels("drake.urdf")` gives a plant whose inertia matrix holds the reflected
inertia of the rotors (motor side, times the gear ratio squared) and whose joints have damping.
Drake has no dry friction in joints.
"""

from __future__ import annotations

from pathlib import Path
from xml.sax.saxutils import escape

from minidyn.codegen.files import Written, refuse_unsayable, said
from minidyn.errors import DescriptionError
from minidyn.files import write_atomically
from minidyn.formats.side_file import side_path
from minidyn.formats.xml_file import Edit, XmlText, element_text, numbers_text
from minidyn.model.drives import ROTOR
from minidyn.model.robot import Robot
from minidyn.text import new_name

_SPACE = {"xmlns:drake": "http://drake.mit.edu"}
_WORLD = "world"  # what Drake takes as the world itself


def write(robot: Robot, path: Path) -> Written:
    """Change the URDF of the robot that stands at `path`: everything else in it stays."""
    refuse_unsayable(robot, "Drake")
    heard = said(robot, (ROTOR, "Fv"), gravity=False)
    text = XmlText(path, "robot")
    root = text.root
    edits = [text.changed(root, _SPACE)]
    # transmissions of other programs would give a joint two actuators, and dry friction is a
    # warning
    edits += [Edit(tag.start, text.end(tag), "") for tag in root.children("transmission")]
    for joint in root.children("joint"):
        dynamics = joint.child("dynamics")
        if dynamics is not None and "friction" in dynamics.attributes:
            edits.append(text.changed(dynamics, {"friction": "0"}))
        limit = joint.child("limit")
        if limit is not None and limit.attributes.get("effort", "").strip() in (
            "0",
            "0.0",
        ):  # no actuator otherwise
            edits.append(text.changed(limit, {"effort": "1e9"}))
    lines = [*_fixed_to_the_world(text), *_actuators(heard)]
    edits.append(Edit(root.close, root.close, "".join(f"  {line}{text.newline}" for line in lines)))
    write_atomically(path, text.edited(edits))
    side_path(path).unlink(missing_ok=True)  # md.load is to read what Drake reads
    return Written((path,), robot, heard, trees=True)


def _fixed_to_the_world(text: XmlText) -> list[str]:
    """Return the elements that fix the root link to the world; Drake lets it float otherwise."""
    links = [link.text("name") for link in text.root.children("link")]
    joints = list(text.root.children("joint"))
    below = {child.text("link") for joint in joints if (child := joint.child("child")) is not None}
    base = next(link for link in links if link not in below)
    if base == _WORLD:
        return []
    if _WORLD in links:
        raise DescriptionError(
            f"a link is called {_WORLD!r}, which Drake takes as the world itself; rename it"
        )
    name = new_name("world_fixed", {joint.text("name") for joint in joints})
    parts = element_text("parent", {"link": _WORLD}) + element_text(
        "child", {"link": _quoted(base)}
    )
    return [
        element_text("link", {"name": _WORLD}),
        f'<joint name="{_quoted(name)}" type="fixed">{parts}</joint>',
    ]


def _actuators(robot: Robot) -> list[str]:
    """Return a transmission with an actuator for each independent joint, and its rotor."""
    lines = []
    for index in robot.independent:
        joint = robot.joints[index]
        gear = joint.drive.gear_ratio or 1.0
        inertia = robot.drive_terms(index).get(ROTOR, 0.0) / gear**2
        values = {"drake:rotor_inertia": inertia, "drake:gear_ratio": abs(gear)}
        rotor = "".join(
            element_text(tag, {"value": numbers_text([value])}) for tag, value in values.items()
        )
        name = _quoted(joint.name)
        lines += [
            f'<transmission name="{name}_transmission">',
            "  <type>transmission_interface/SimpleTransmission</type>",
            f'  <joint name="{name}"/>',
            f'  <actuator name="{name}_motor">{rotor}</actuator>',
            "</transmission>",
        ]
    return lines


def _quoted(name: str) -> str:
    return escape(name, {'"': "&quot;", "\n": "&#10;", "\r": "&#13;", "\t": "&#9;"})
