"""For Pinocchio: rotor inertias and gear ratios in an SRDF beside the URDF, as
`pin.loadRotorParameters` reads them.

`pin.buildModelFromUrdf("robot.urdf")`, then `pin.loadRotorParameters(model, "robot.srdf")` fills
`model.armature`, which every algorithm counts. Friction is stored with a model, but no algorithm
adds it to torques.
"""

from __future__ import annotations

from pathlib import Path

from lxml import etree

from minidyn.codegen.files import Written, refuse_unsayable, said
from minidyn.files import write_atomically
from minidyn.formats.xml_file import document, numbers_text, refusing_names
from minidyn.model.drives import ROTOR
from minidyn.model.robot import Robot


def write(robot: Robot, path: Path) -> Written:
    """Write the SRDF beside a URDF of the robot, which stands at `path`."""
    refuse_unsayable(robot, "Pinocchio")
    heard = said(robot, (ROTOR,), gravity=False)
    with refusing_names(robot.name):
        root = etree.Element("robot", name=robot.name)
        section = etree.SubElement(root, "rotor_params")
        for index, joint in enumerate(heard.joints):
            if inertia := heard.drive_terms(index).get(ROTOR, 0.0):
                gear = joint.drive.gear_ratio or 1.0
                values = {"mass": inertia / gear**2, "gear_ratio": gear}
                texts = {key: numbers_text([value]) for key, value in values.items()}
                etree.SubElement(section, "joint", {"name": joint.name} | texts)
        data = document(root)
    target = path.with_suffix(".srdf")
    write_atomically(target, data)
    return Written((target,), robot, heard, trees=True)
