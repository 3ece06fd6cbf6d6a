"""An arm of four links whose shapes are cylinders, on a box."""

from __future__ import annotations

from pathlib import Path

ARM = """<robot name="arm">
  <link name="floor"><collision><geometry><box size="0.3 0.3 0.1"/></geometry></collision></link>
  {links}
</robot>"""
LINK = """<link name="l{k}">
    <inertial><mass value="2"/><origin xyz="0.1 0 0"/>
      <inertia ixx="0.01" iyy="0.02" izz="0.02" ixy="0" ixz="0" iyz="0"/></inertial>
    <collision><origin xyz="0.15 0 0" rpy="0 1.5707963 0"/>
      <geometry><cylinder radius="0.04" length="0.3"/></geometry></collision>
  </link>
  <joint name="j{k}" type="revolute"><parent link="{parent}"/><child link="l{k}"/>
    <origin xyz="{xyz}"/><axis xyz="{axis}"/>
    <limit lower="-2.9" upper="2.9" velocity="2" effort="60"/></joint>"""


def shaped_arm(folder: Path) -> Path:
    rows = [
        ("floor", "0 0 0.3", "0 0 1"),
        ("l0", "0.1 0 0.1", "0 1 0"),
        ("l1", "0.35 0 0", "0 1 0"),
    ]
    rows.append(("l2", "0.35 0 0", "0 1 0"))
    links = [
        LINK.format(k=k, parent=p, xyz=xyz, axis=axis) for k, (p, xyz, axis) in enumerate(rows)
    ]
    path = folder / "arm.urdf"
    path.write_text(ARM.format(links="".join(links)))
    return path
