"""What an MJCF's bodies look like, as few triangles; MuJoCo reads the meshes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from minidyn.arrays import Array
from minidyn.formats.mjcf.compile import rotation
from minidyn.formats.mjcf.guard import check_mjcf
from minidyn.formats.urdf.surfaces import Surface, box, cylinder, sphere, thinned, together

_SEEN = 3  # groups of geoms from this one on are not drawn: by custom they collide


def mjcf_surfaces(path: Path, most: int) -> dict[str, Surface]:
    """Return what is seen of each body, by name, at most so many triangles together.

    {}: nothing can be shown.
    """
    model = _model(path)
    if model is None:
        return {}
    import mujoco

    parts: dict[str, list[Surface]] = {}
    for geom in range(model.ngeom):
        body = model.body(int(model.geom_bodyid[geom])).name
        seen = model.geom_group[geom] < _SEEN and model.geom_rgba[geom][3] > 0
        made = _shape(mujoco.mjtGeom, model, geom) if seen and body else None
        if made is not None:
            R, p = rotation(model.geom_quat[geom]), model.geom_pos[geom]
            parts.setdefault(body, []).append(Surface(made.points @ R.T + p, made.triangles))
    return thinned({name: together(found) for name, found in parts.items()}, most)


def body_shapes(path: Path) -> dict[str, Array]:
    """Return all corners (k, 3) of each body's shape in its frame, by name.

    Of geoms that collide, or of all.
    """
    model = _model(path)
    if model is None:
        return {}
    import mujoco

    kinds, found = mujoco.mjtGeom, dict[str, list[Array]]()
    touches = (model.geom_contype != 0) | (model.geom_conaffinity != 0)
    for geom in range(model.ngeom):
        body = int(model.geom_bodyid[geom])
        collide = touches[geom] or not touches[model.geom_bodyid == body].any()
        made = _shape(kinds, model, geom) if collide and model.body(body).name else None
        if made is None:
            continue
        points = made.points
        if model.geom_type[geom] == kinds.mjGEOM_CAPSULE:  # with its round ends
            radius, half = (float(x) for x in model.geom_size[geom][:2])
            points = cylinder(radius, 2 * (half + radius)).points
        R, p = rotation(model.geom_quat[geom]), model.geom_pos[geom]
        found.setdefault(model.body(body).name, []).append(points @ R.T + p)
    return {name: np.concatenate(parts) for name, parts in found.items()}


def _model(path: Path) -> Any | None:
    """Return the model as MuJoCo reads it, which may have changed since the robot was loaded.

    None where it cannot.
    """
    try:
        import mujoco

        check_mjcf(path)
        return mujoco.MjModel.from_xml_path(str(path))
    except (ImportError, ValueError, RuntimeError, OSError):  # a picture is not worth a refusal
        return None


def _shape(kinds: Any, model: Any, geom: int) -> Surface | None:
    kind, size = model.geom_type[geom], model.geom_size[geom]
    if kind == kinds.mjGEOM_MESH:
        mesh = int(model.geom_dataid[geom])
        first, count = int(model.mesh_vertadr[mesh]), int(model.mesh_vertnum[mesh])
        begin, faces = int(model.mesh_faceadr[mesh]), int(model.mesh_facenum[mesh])
        points = np.array(model.mesh_vert[first : first + count], dtype=float)
        return Surface(points, np.array(model.mesh_face[begin : begin + faces], dtype=int))
    if kind == kinds.mjGEOM_BOX:
        return box(2 * size)
    if kind == kinds.mjGEOM_SPHERE:
        return sphere(np.full(3, size[0]))
    if kind == kinds.mjGEOM_ELLIPSOID:
        return sphere(size)
    if kind in (kinds.mjGEOM_CYLINDER, kinds.mjGEOM_CAPSULE):
        return cylinder(float(size[0]), 2 * float(size[1]))
    return None
