"""What a URDF's links look like, as few triangles.

Meshes (STL, OBJ, COLLADA), boxes, cylinders and spheres. For pictures only: a file that is not
there or cannot be read is passed over. Meshes are thinned by clustering: corners in the same cell
of a grid become one, the grid as fine as the number of triangles allows.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from minidyn.arrays import Array
from minidyn.errors import DescriptionError
from minidyn.formats.xml_file import Element, origin_steps, read_xml
from minidyn.model.geometry import matrix_of

LARGEST = 64_000_000
"""Bytes of a mesh file; larger ones are not read."""

_ROUND = 20  # corners of a circle
_FINEST, _COARSER = 200.0, 1.25  # cells along the largest side at first; factor from try to try
_BASE = np.array([1 << 42, 1 << 21, 1])  # three numbers as one
_BROKEN = (
    DescriptionError,
    OSError,
    ValueError,
    LookupError,
    ArithmeticError,
    MemoryError,
    RecursionError,
)


Indices = NDArray[np.int_]


@dataclass(frozen=True)
class Surface:
    """Triangles of a link in its own frame."""

    points: Array  # corners (v, 3), m
    triangles: Indices  # of corners (f, 3)


def surfaces_of(urdf: Path, most: int) -> dict[str, Surface]:
    """Return what is seen of each link of a URDF, by name, at most so many triangles together.

    {}: nothing.
    """
    try:
        root = read_xml(urdf, "robot")
    except _BROKEN:
        return {}
    found = {}
    for link in root.children("link"):
        parts = [part for shown in link.children("visual") for part in _placed(shown, urdf)]
        if parts:
            found[link.text("name", "")] = together(parts)
    return thinned(found, most)


def link_shapes(urdf: Path) -> tuple[dict[str, Array], list[str]]:
    """Return all corners (k, 3) of each link's shape in its frame, by name, and links of which a
    part is missing.

    The shapes are those for collisions, or what is seen where there are none.
    """
    try:
        root = read_xml(urdf, "robot")
    except _BROKEN:
        return {}, []
    found, missing = {}, []
    for link in root.children("link"):
        shapes = list(link.children("collision")) or list(link.children("visual"))
        parts = [_placed(shape, urdf) for shape in shapes]
        if not all(parts):
            missing.append(link.text("name", ""))
        corners = [surface.points for part in parts for surface in part]
        if corners:
            found[link.text("name", "")] = np.concatenate(corners)
    return found, missing


def mesh_files(name: str, urdf: Path) -> Iterator[Path]:
    """Yield where the file of a mesh may be: beside the URDF, or in a package whose folder stands
    above it.
    """
    if name.startswith("package://"):
        package, _, rest = name.removeprefix("package://").partition("/")
        for parent in urdf.resolve().parents:
            if parent.name == package:
                yield parent / rest
            yield parent / package / rest
    elif name.startswith("file://"):
        yield Path(name.removeprefix("file://"))
    elif name and "://" not in name:
        yield urdf.parent / name


def _placed(shown: Element, urdf: Path) -> list[Surface]:
    """The surface of a <visual>, in the frame of its link."""
    try:
        shape = shown.child("geometry")
        shape = None if shape is None else next(shape.children(), None)
        made = None if shape is None else _shape(shape, urdf)
        if made is None or not len(made.triangles) or not np.isfinite(made.points).all():
            return []
        T = matrix_of(origin_steps(shown, shown.tag))
    except _BROKEN:  # a picture is not worth a refusal
        return []
    return [Surface(made.points @ T[:3, :3].T + T[:3, 3], made.triangles)]


def _shape(shape: Element, urdf: Path) -> Surface | None:
    if shape.tag == "box":
        return box(np.array(shape.vector("size")))
    if shape.tag == "cylinder":
        return cylinder(shape.number("radius"), shape.number("length"))
    if shape.tag == "sphere":
        return sphere(np.full(3, shape.number("radius")))
    if shape.tag != "mesh":
        return None
    file = next(
        (file for file in mesh_files(shape.text("filename", ""), urdf) if file.is_file()), None
    )
    if file is None or file.stat().st_size > LARGEST:
        return None
    reader = {".stl": _stl, ".obj": _obj, ".dae": _dae}.get(file.suffix.lower())
    made = None if reader is None else reader(file)
    scale = np.array(shape.vector("scale")) if "scale" in shape.attributes else np.ones(3)
    return None if made is None else Surface(made.points * scale, made.triangles)


def box(size: Array) -> Surface:
    """Return a box of edges (3,), m, about the origin."""
    return _swept(np.array([[1, 1], [-1, 1], [-1, -1], [1, -1.0]]) / 2, size)


def cylinder(radius: float, length: float) -> Surface:
    """Return a cylinder along z about the origin, m."""
    return _swept(_circle(), np.array([radius, radius, length]))


def sphere(radii: Array) -> Surface:
    """Return an ellipsoid of half axes (3,), m, about the origin."""
    tilt = np.pi * (np.arange(1, 8) / 8 - 0.5)
    rings = [np.column_stack([math.cos(a) * _circle(), np.full(_ROUND, math.sin(a))]) for a in tilt]
    return _stacked(np.concatenate([*rings, [[0, 0, -1.0], [0, 0, 1.0]]]) * radii, len(rings))


def _circle() -> Array:
    angle = 2 * np.pi * np.arange(_ROUND) / _ROUND
    return np.stack([np.cos(angle), np.sin(angle)], axis=1)


def _swept(outline: Array, scale: Array) -> Surface:
    """An outline (k, 2) swept along z from -1/2 to 1/2, closed, then scaled."""
    count = len(outline)
    rings = [np.column_stack([outline, np.full(count, z)]) for z in (-0.5, 0.5)]
    return _stacked(np.concatenate([*rings, [[0, 0, -0.5], [0, 0, 0.5]]]) * scale, 2, count)


def _stacked(points: Array, rings: int, count: int = _ROUND) -> Surface:
    """Rings of corners one above the other, closed by the last two points: below and above."""
    k = np.arange(count)
    after = (k + 1) % count
    faces = []
    for ring in range(rings - 1):
        low, high = ring * count, (ring + 1) * count
        faces += [
            np.stack([low + k, low + after, high + k], 1),
            np.stack([low + after, high + after, high + k], 1),
        ]
    last = (rings - 1) * count
    faces.append(np.stack([after, k, np.full(count, rings * count)], 1))
    faces.append(np.stack([last + k, last + after, np.full(count, rings * count + 1)], 1))
    return Surface(points, np.concatenate(faces))


# -------------------------------------------------------------------- files of meshes


def _stl(path: Path) -> Surface:
    data = path.read_bytes()
    count = int.from_bytes(data[80:84], "little") if len(data) >= 84 else -1
    if len(data) == 84 + 50 * count:
        rows = np.frombuffer(data, dtype=np.uint8, offset=84).reshape(count, 50)
        corners = np.ascontiguousarray(rows[:, 12:48]).view("<f4").reshape(-1, 3).astype(float)
    else:
        words = (line.split() for line in data.decode("ascii", "replace").splitlines())
        corners = np.array(
            [[float(x) for x in line[1:4]] for line in words if line[:1] == ["vertex"]]
        )
    return Surface(corners.reshape(-1, 3), np.arange(len(corners) // 3 * 3).reshape(-1, 3))


def _obj(path: Path) -> Surface:
    points: list[list[float]] = []
    faces: list[tuple[int, int, int]] = []
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        kind, *words = line.split() or [""]
        if kind == "v":
            points.append([float(x) for x in words[:3]])
        elif kind == "f":
            corners = [int(word.split("/")[0]) for word in words]
            corners = [corner - 1 if corner > 0 else len(points) + corner for corner in corners]
            faces += [(corners[0], b, c) for b, c in itertools.pairwise(corners[1:])]
    return _checked(np.array(points), np.array(faces, dtype=int).reshape(-1, 3))


def _dae(path: Path) -> Surface:
    """COLLADA, in metres; its up axis is not looked at, as in ROS."""
    root = read_xml(path, "COLLADA")
    asset = root.child("asset")
    unit = None if asset is None else asset.child("unit")
    scale = 1.0 if unit is None else float(unit.attributes.get("meter", "1"))
    geometries = {
        f"#{one.attributes.get('id', '')}": one
        for kind in root.children("library_geometries")
        for one in kind.children()
    }
    parts: list[Surface] = []

    def walk(node: Element, T: Array) -> None:
        here = T @ _node_matrix(node)
        for one in node.children("instance_geometry"):
            geometry = geometries.get(one.attributes.get("url", ""))
            mesh = None if geometry is None else geometry.child("mesh")
            parts.extend(
                Surface(part.points @ here[:3, :3].T + here[:3, 3], part.triangles)
                for part in ([] if mesh is None else _dae_parts(mesh))
            )
        for inner in node.children("node"):
            walk(inner, here)

    for scenes in root.children("library_visual_scenes"):
        for scene in scenes.children("visual_scene"):
            for node in scene.children("node"):
                walk(node, np.eye(4))
    whole = together(parts)
    return Surface(whole.points * scale, whole.triangles)


def _node_matrix(node: Element) -> Array:
    T = np.eye(4)
    for step in node.children():
        values = (
            _floats(step) if step.tag in ("matrix", "translate", "rotate", "scale") else np.zeros(0)
        )
        one = np.eye(4)
        if step.tag == "matrix":
            one = values.reshape(4, 4)
        elif step.tag == "translate":
            one[:3, 3] = values
        elif step.tag == "scale":
            one[:3, :3] = np.diag(values)
        elif step.tag == "rotate":
            axis, angle = values[:3] / (np.linalg.norm(values[:3]) or 1.0), math.radians(values[3])
            cross = np.cross(np.eye(3), axis).T
            one[:3, :3] = (
                np.eye(3) + math.sin(angle) * cross + (1 - math.cos(angle)) * cross @ cross
            )
        T = T @ one
    return T


def _dae_parts(mesh: Element) -> Iterator[Surface]:
    sources = {f"#{one.attributes.get('id', '')}": one for one in mesh.children("source")}
    corners = {f"#{one.attributes.get('id', '')}": one for one in mesh.children("vertices")}
    for kind in ("triangles", "polylist"):
        for part in mesh.children(kind):
            inputs = list(part.children("input"))
            stride = 1 + max(int(one.attributes.get("offset", "0")) for one in inputs)
            vertex = next(one for one in inputs if one.attributes.get("semantic") == "VERTEX")
            position = next(
                one for one in corners[vertex.attributes["source"]].children("input")
                if one.attributes.get("semantic") == "POSITION"
            )  # fmt: skip
            array = sources[position.attributes["source"]].child("float_array")
            listed, counts = part.child("p"), part.child("vcount")
            if array is None or listed is None:
                continue
            places = np.array(listed.words.split(), dtype=int).reshape(-1, stride)
            index = places[:, int(vertex.attributes.get("offset", "0"))]
            sizes = (
                np.full(len(index) // 3, 3)
                if counts is None
                else np.array(counts.words.split(), dtype=int)
            )
            yield _checked(_floats(array).reshape(-1, 3), _fans(index, sizes))


def _fans(index: Indices, sizes: Indices) -> Indices:
    """Polygons as triangles about their first corners."""
    starts = np.cumsum(sizes) - sizes
    inner = (
        np.concatenate([np.arange(1, max(size - 1, 1)) for size in sizes])
        if len(sizes)
        else np.zeros(0, dtype=int)
    )
    first = np.repeat(starts, np.maximum(sizes - 2, 0))
    return np.stack([index[first], index[first + inner], index[first + inner + 1]], axis=1)


def _floats(element: Element) -> Array:
    return np.array(element.words.split(), dtype=float)


def _checked(points: Array, triangles: Indices) -> Surface:
    if len(triangles) and (triangles.min() < 0 or triangles.max() >= len(points)):
        raise ValueError("a triangle names a corner that is not there")
    return Surface(points, triangles)


# -------------------------------------------------------------------- thinning


def together(parts: list[Surface]) -> Surface:
    """Return several surfaces as one."""
    offsets = np.cumsum([0, *(len(part.points) for part in parts)])
    points = [np.zeros((0, 3)), *(part.points for part in parts)]
    triangles = [
        np.zeros((0, 3), dtype=int),
        *(part.triangles + start for part, start in zip(parts, offsets)),
    ]
    return Surface(np.concatenate(points), np.concatenate(triangles))


def thinned(surfaces: dict[str, Surface], most: int) -> dict[str, Surface]:
    """Return all surfaces on a grid that leaves at most so many triangles.

    {} where even a coarse one does not.
    """
    if not surfaces:
        return {}
    size = max(float(np.ptp(one.points, axis=0).max()) for one in surfaces.values())
    cell = size / _FINEST
    while cell < size:
        surfaces = {name: _clustered(one, cell) for name, one in surfaces.items()}
        if sum(len(one.triangles) for one in surfaces.values()) <= most:
            return {name: one for name, one in surfaces.items() if len(one.triangles)}
        cell *= _COARSER
    return {}


def _clustered(surface: Surface, cell: float) -> Surface:
    """Corners in the same cell of a grid become one, their mean; triangles without area go."""
    cells = np.floor((surface.points - surface.points.min(axis=0, initial=0.0)) / cell).astype(
        np.int64
    )
    _, member = np.unique(cells @ _BASE, return_inverse=True)
    count = np.bincount(member)
    points = np.stack(
        [np.bincount(member, weights=column) / count for column in surface.points.T], axis=1
    )
    triangles = member[surface.triangles]
    a, b, c = triangles.T
    triangles = triangles[(a != b) & (b != c) & (c != a)]
    _, kept = np.unique(np.sort(triangles, axis=1) @ _BASE, return_index=True)
    used, renamed = np.unique(triangles[np.sort(kept)], return_inverse=True)
    return Surface(points[used], renamed.reshape(-1, 3))
