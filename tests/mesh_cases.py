"""An arm of one link whose look is a mesh or a simple shape."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np

CORNERS = np.array(
    [[x, y, z] for x in (0, 1) for y in (0, 2) for z in (0, 3)], dtype=float
)  # of a box 1 x 2 x 3
SIDES = [(0, 1, 3, 2), (4, 6, 7, 5), (0, 4, 5, 1), (2, 3, 7, 6), (0, 2, 6, 4), (1, 5, 7, 3)]
FACES = [face for a, b, c, d in SIDES for face in ((a, b, c), (a, c, d))]


def binary_stl() -> bytes:
    rows = b"".join(
        struct.pack("<12fH", 0, 0, 0, *CORNERS[list(face)].ravel(), 0) for face in FACES
    )
    return b"binary".ljust(80) + struct.pack("<I", len(FACES)) + rows


def urdf(folder: Path, visuals: str) -> Path:
    inertial = (
        '<inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" '
        'iyz="0"/></inertial>'
    )
    path = folder / "arm.urdf"
    path.write_text(
        f"""<robot name="arm"><link name="base"/><link name="arm">{inertial}{visuals}</link><link name="tip">
        <visual><geometry><box size="0.1 0.1 0.1"/></geometry></visual></link>
        <joint name="j" type="revolute"><parent link="base"/><child link="arm"/><axis xyz="0 0 1"/>
        <limit lower="-1" upper="1" effort="1" velocity="1"/></joint>
        <joint name="f" type="fixed"><parent link="arm"/><child link="tip"/><origin xyz="0 0 5"/></joint></robot>"""  # noqa: E501
    )
    return path
