"""What links look like is read from every kind of file, in the right place and size, and never too
much of it.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import minidyn as md
from mesh_cases import CORNERS, FACES, SIDES, binary_stl, urdf
from minidyn.formats.urdf.surfaces import Surface, surfaces_of
from minidyn.model.picture import scene_of


def ascii_stl() -> bytes:
    lines = ["solid box"]
    for face in FACES:
        lines += [
            "facet normal 0 0 0",
            "outer loop",
            *(f"vertex {x} {y} {z}" for x, y, z in CORNERS[list(face)]),
        ]
        lines += ["endloop", "endfacet"]
    return "\n".join([*lines, "endsolid"]).encode()


def obj() -> bytes:
    lines = [f"v {x} {y} {z}" for x, y, z in CORNERS]
    return "\n".join(
        lines + ["f " + " ".join(f"{k + 1}//1" for k in side) for side in SIDES]
    ).encode()


def dae() -> bytes:
    """In centimetres, as quadrangles, in a node that is shifted."""
    places = " ".join(f"{100 * x}" for x in (CORNERS - [0.5, 0, 0]).ravel())
    listed = " ".join(f"{k} 0" for side in SIDES for k in side)
    return f"""<COLLADA xmlns="x"><asset><unit meter="0.01"/></asset><library_geometries><geometry id="g"><mesh>
      <source id="p"><float_array id="a" count="24">{places}</float_array></source>
      <vertices id="v"><input semantic="POSITION" source="#p"/></vertices>
      <polylist count="6"><input semantic="VERTEX" source="#v" offset="0"/>
      <input semantic="NORMAL" source="#p" offset="1"/>
      <vcount>4 4 4 4 4 4</vcount><p>{listed}</p></polylist></mesh></geometry></library_geometries>
      <library_visual_scenes><visual_scene><node><translate>50 0 0</translate><node><instance_geometry url="#g"/></node>
      </node></visual_scene></library_visual_scenes></COLLADA>""".encode()  # noqa: E501


def box_of(surface: Surface) -> np.ndarray:
    return np.array([surface.points.min(axis=0), surface.points.max(axis=0)])


@pytest.mark.parametrize(
    ("name", "data"),
    [("a.stl", binary_stl()), ("b.STL", ascii_stl()), ("c.obj", obj()), ("d.dae", dae())],
)
def test_meshes_of_every_kind_have_their_size_and_place(
    name: str, data: bytes, tmp_path: Path
) -> None:
    (tmp_path / name).write_bytes(data)
    shape = (
        f'<visual><origin xyz="10 0 0"/><geometry><mesh filename="{name}" scale="1 1 '
        '2"/></geometry></visual>'
    )
    found = surfaces_of(urdf(tmp_path, shape), 1000)["arm"]
    np.testing.assert_allclose(box_of(found), [[10, 0, 0], [11, 2, 6]], atol=1e-9)
    assert found.triangles.shape == (12, 3)


def test_simple_shapes(tmp_path: Path) -> None:
    shapes = '<cylinder radius="1" length="4"/>', '<sphere radius="2"/>', '<box size="1 2 3"/>'
    sizes = [(2, 2, 4), (4, 4, 4), (1, 2, 3)]
    for shape, size in zip(shapes, sizes):
        found = surfaces_of(urdf(tmp_path, f"<visual><geometry>{shape}</geometry></visual>"), 1000)[
            "arm"
        ]
        np.testing.assert_allclose(
            box_of(found), [-np.array(size) / 2, np.array(size) / 2], atol=0.05
        )


def test_what_is_missing_or_broken_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "broken.stl").write_bytes(b"solid x\nvertex a b c\n")
    (tmp_path / "broken.obj").write_text("v 0 0 0\nf 1 2 3")
    (tmp_path / "broken.dae").write_text("<COLLADA><library_geometries>")
    (tmp_path / "bomb.dae").write_text('<!DOCTYPE x [<!ENTITY a "b">]><COLLADA>&a;</COLLADA>')
    for name in (
        "no.stl",
        "broken.stl",
        "broken.obj",
        "broken.dae",
        "bomb.dae",
        "http://x.example/a.stl",
        "../../x.stl",
    ):
        shape = f'<visual><geometry><mesh filename="{name}"/></geometry></visual>'
        assert set(surfaces_of(urdf(tmp_path, shape), 1000)) == {"tip"}
    (tmp_path / "none.urdf").write_text("no robot")
    assert surfaces_of(tmp_path / "none.urdf", 1000) == {}


def test_there_are_never_more_triangles_than_asked_for(tmp_path: Path) -> None:
    angle = np.linspace(0, 2 * np.pi, 101)[:-1]
    points = [
        f"v {np.cos(a) * np.cos(b)} {np.sin(a) * np.cos(b)} {np.sin(b)}"
        for b in angle / 4
        for a in angle
    ]
    faces = [
        f"f {100 * k + j + 1} {100 * k + (j + 1) % 100 + 1} {100 * k + j + 101}"
        for k in range(99)
        for j in range(100)
    ]
    (tmp_path / "fine.obj").write_text("\n".join(points + faces))
    path = urdf(tmp_path, '<visual><geometry><mesh filename="fine.obj"/></geometry></visual>')
    for most in (2000, 300):
        found = surfaces_of(path, most)
        assert most / 4 < sum(len(one.triangles) for one in found.values()) <= most
        assert np.abs(box_of(found["arm"])[:, :2]).min() > 0.8  # it is still a dome


def test_surfaces_stand_where_their_links_are(tmp_path: Path) -> None:
    (tmp_path / "a.stl").write_bytes(binary_stl())
    path = urdf(tmp_path, '<visual><geometry><mesh filename="a.stl"/></geometry></visual>')
    robot = md.load(path)
    looks = {name: (one.points, one.triangles) for name, one in surfaces_of(path, 500).items()}
    scene = scene_of(robot, [0.0], looks)
    faces = [shape for shape in scene.shapes if shape.kind == "face"]
    assert len(faces) == 28  # 12 of the mesh, 16 of the box
    points = np.array([scene.points[k] for shape in faces for k in shape.points])
    height = np.ptp(points[:, 2])
    tip = np.array([scene.points[k] for shape in faces[12:] for k in shape.points])
    assert np.ptp(tip[:, 2]) / height == pytest.approx(
        0.1 / 5.05, rel=1e-3
    )  # the fixed link sits 5 m above
    assert tip[:, 2].max() == pytest.approx(points[:, 2].max())
    assert not any(shape.kind in ("link", "ring") and shape.body == 0 for shape in scene.shapes)


def test_bodies_of_an_mjcf_stand_where_mujoco_has_them(tmp_path: Path) -> None:
    mujoco = pytest.importorskip("mujoco")
    from minidyn.formats.mjcf.surfaces import mjcf_surfaces

    (tmp_path / "a.stl").write_bytes(binary_stl())
    path = tmp_path / "arm.xml"
    path.write_text(
        """<mujoco><asset><mesh name="m" file="a.stl"/></asset><worldbody><body name="arm" pos="0 0 1" euler="0 30 0">
        <joint name="j" axis="0 1 0" pos="0.2 0 0"/><geom type="mesh" mesh="m" pos="0.1 0.2 0.3" euler="10 20 30"/>
        <geom type="capsule" size="0.1 0.5" group="3"/><body name="tip" pos="1 0 0"><joint name="k" axis="0 0 1"/>
        <geom type="box" size="0.1 0.2 0.3"/></body></body></worldbody></mujoco>"""  # noqa: E501
    )
    found = mjcf_surfaces(path, 500)
    assert {name: len(one.triangles) for name, one in found.items()} == {"arm": 12, "tip": 16}
    model = mujoco.MjModel.from_xml_path(str(path))
    data = mujoco.MjData(model)
    data.qpos[:] = q = [0.4, -0.7]
    mujoco.mj_kinematics(model, data)
    robot = md.load(path)
    for name in ("arm", "tip"):
        here = md.forward_kinematics(robot, q, name)
        seen = found[name].points @ here[:3, :3].T + here[:3, 3]
        geom = int(
            np.flatnonzero((model.geom_bodyid == model.body(name).id) & (model.geom_group < 3))[0]
        )
        R, p = data.geom_xmat[geom].reshape(3, 3), data.geom_xpos[geom]
        inside = (seen - p) @ R  # in the geom's own frame
        wanted = (
            model.mesh_vert if name == "arm" else np.array([[0.1, 0.2, 0.3], [-0.1, -0.2, -0.3]])
        )
        np.testing.assert_allclose(inside.min(axis=0), wanted.min(axis=0), atol=1e-6)
        np.testing.assert_allclose(inside.max(axis=0), wanted.max(axis=0), atol=1e-6)
    path.write_text("<mujoco><worldbody><geom type='mesh' mesh='none'/></worldbody></mujoco>")
    assert mjcf_surfaces(path, 500) == {}
