"""Distances: a robot's links as capsules, each other, and obstacles.

And whether a motion keeps a clearance. A capsule is a segment with a radius that holds all corners
of a link's shape, so that it holds the convex shape, too. The distance of two capsules is that of
their segments less both radii; where it is smallest, its gradient is along the line between the
nearest points. Obstacles are spheres and capsules that stand still, and planes.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from minidyn.arrays import Array, real_array
from minidyn.dynamics.kinematics import link_placement
from minidyn.dynamics.tree import REAL, coordinates, place
from minidyn.errors import DescriptionError, MissingExtra, UnknownName, adding
from minidyn.excitation.hulls import Hull, Hulls, hull_corners
from minidyn.formats.toml.table import read_tables
from minidyn.formats.urdf.surfaces import link_shapes
from minidyn.graph.derivative import vjp
from minidyn.graph.function import Function
from minidyn.graph.scalar import Graph
from minidyn.graph.targets.native.kernel import compile_function
from minidyn.model.geometry import matrix_of
from minidyn.model.robot import Robot
from minidyn.notices import Notice, error, info, warning

NO_COLLISIONS = error(
    "excite.no_collisions",
    "Collisions of the robot with itself and with obstacles were not checked: its file says "
    "nothing about its shape.",
    "Use a URDF or MJCF file with the robot's shape; watch the motion at 10 % speed, the "
    "emergency stop in hand.",
)
NOT_CHECKED = error(
    "excite.links_not_checked",
    "The shape of links is not known, so that their distances were not checked.",
    "Put the mesh files where the robot's file says they are.",
)
ALWAYS_NEAR = error(
    "excite.always_near",
    "Pairs of links whose shapes are nearer than the clearance in every pose are not checked: "
    "whether they collide is not known.",
    "Watch these links at 10 % speed, the emergency stop in hand; narrow the ranges of the joints "
    "between them.",
)

NO_FLOOR = info(
    "excite.no_floor",
    "The base does not stand upright: no floor is assumed.",
    "Give a floor, walls and a ceiling that the robot can reach as obstacles.",
)
FLOOR_NOT_KNOWN = warning(
    "excite.floor_not_known",
    "The base has no shape: where the floor is is not known, and distances from it were not "
    "checked.",
    "Give the floor as an obstacle, or --no-floor (`floor=False`) where there is none.",
)
ON_FLOOR = info(
    "excite.on_floor",
    "Links that cannot leave the floor are not checked against it.",
)

KINDS = {
    "sphere": ("centre", "radius"),
    "capsule": ("from", "to", "radius"),
    "plane": ("point", "normal"),
    "inside": ("lower", "upper"),
}
"""Obstacles and what each needs.

A plane's normal points to where the robot may be; "inside" is a box to stay in.
"""

_SLIDE = 2.0  # m, of joints that slide without limits
NEARBY = 0.15
"""Metres beyond the clearance within which a distance counts in a search."""
FLOOR = "floor"
_WIDE, _DEEP = 10.0, 1.0  # m, of the floor as a solid
_TINY = 1e-12
_TILT = 0.9  # cosine: bases that stand less upright are mounted on a wall or a ceiling
_TOUCHING = 2e-3  # m: hulls that are never farther apart cannot be told apart
_HULL_LEAST = 1e-3  # m between hulls at least: round shapes have corners there


@dataclass(frozen=True, eq=False)
class Capsule:
    """A capsule on a link (-1: the base or the world)."""

    name: str
    link: int
    start: Array
    end: Array
    radius: float


def fit_capsule(points: Array) -> tuple[Array, Array, float]:
    """Return (start, end, radius) of a slim capsule that holds all points (k, 3)."""
    centre = (points.min(axis=0) + points.max(axis=0)) / 2
    axes = [*np.eye(3), *np.linalg.svd(points - points.mean(axis=0), full_matrices=False)[2]]
    best: tuple[float, Array, Array, float] | None = None
    for axis in axes:
        along = (points - centre) @ axis
        across = points - centre - np.outer(along, axis)
        middle = (across.min(axis=0) + across.max(axis=0)) / 2
        middle = middle - (middle @ axis) * axis
        for _ in range(30):  # towards the farthest point, by less and less: the smallest circle
            far = across - middle
            step = far[int(np.argmax(np.einsum("ij,ij->i", far, far)))]
            middle = middle + step / (2.0 + _ + 1)
        ray = np.linalg.norm(across - middle, axis=1)
        radius = float(ray.max()) * (1 + 1e-9)
        cap = np.sqrt(np.maximum(radius**2 - ray**2, 0.0))
        low, high = float((along + cap).min()), float((along - cap).max())
        if low > high:
            low = high = (low + high) / 2
        volume = np.pi * radius**2 * (high - low) + 4 / 3 * np.pi * radius**3
        if best is None or volume < best[0]:
            best = (
                float(volume),
                centre + middle + low * axis,
                centre + middle + high * axis,
                radius,
            )
    assert best is not None  # noqa: S101 - there are always six axes
    start, end, radius = best[1:]
    if np.allclose(start, end):  # a sphere: how far the farthest point is
        radius = float(np.linalg.norm(points - start, axis=1).max()) * (1 + 1e-9)
    return start, end, radius


@dataclass(frozen=True, eq=False)
class Clearance:
    """Pairs that must stay apart."""

    robot: Robot
    capsules: tuple[Capsule, ...]
    pairs: tuple[tuple[int, int], ...]  # of capsules
    planes: tuple[tuple[int, Array, float], ...]  # (capsule, normal, offset): normal x >= offset
    least: float  # m
    hulls: Hulls | None = None  # of links whose capsules are too thick to tell
    floor: float | None = None  # offset of the plane that is the floor

    @cached_property
    def needed(self) -> Array:
        """Least distance (pairs,) of everything, m."""
        hulls = () if self.hulls is None else self.hulls.least
        return np.array([*(len(self.pairs) + len(self.planes)) * [self.least], *hulls])

    @cached_property
    def function(self) -> Function:
        """Both ends of every capsule in the world (2 C, 3) from q."""
        graph = Graph()
        q = list(graph.inputs("q", self.robot.n))
        still = [0.0] * self.robot.n
        tree = place(self.robot, coordinates(self.robot, q, still, still).q, REAL)
        ends = []
        for one in self.capsules:
            for point in (one.start, one.end):
                placed = link_placement(tree, one.link, (), tuple(point.tolist()))  # type: ignore[arg-type]
                ends.append([placed[row][3] for row in range(3)])
        return graph.function("capsule_ends", {"ends": ends})

    @cached_property
    def _compiled(self) -> tuple[Callable[..., Any], Callable[..., Any]]:
        return compile_function(self.function), compile_function(vjp(self.function, ("q",)))

    @property
    def names(self) -> tuple[str, ...]:
        """What each distance is between."""
        apart = [f"{self.capsules[a].name} - {self.capsules[b].name}" for a, b in self.pairs]
        flat = [
            f"{self.capsules[k].name} - {FLOOR if offset == self.floor else 'plane'}"
            for k, _, offset in self.planes
        ]
        return (*apart, *flat, *(() if self.hulls is None else self.hulls.names))

    def distances(self, q: Array) -> Array:
        """Return all distances (N, pairs), m, at positions (N, n)."""
        ends, count, rows = self._ends(q), len(self.pairs), np.arange(len(q))
        found = np.zeros((len(q), count + len(self.planes)))
        for pair in range(count):
            found[:, pair] = self._measure(ends, rows, np.full(len(ends), pair))[0]
        found[:, count:] = self._planes(ends)[0]
        return found if self.hulls is None else np.hstack([found, self.hulls.distances(q)])

    def _ends(self, q: Array) -> Array:
        return np.asarray(self._compiled[0](np.ascontiguousarray(q))).reshape(len(q), -1, 2, 3)

    def shares(self, q: Array, more: float = 0.0) -> tuple[Array, Callable[[Array], Array]]:
        """Return how much of each distance is used up (N, pairs).

        1 at the clearance and `more`, 0 far away. And a function that takes weights of these (N,
        pairs) back to q (N, n). Only where the balls about two capsules are near each other the
        capsules are looked at.
        """
        ends, count = self._ends(q), len(self.pairs)
        first, second, sizes = self._places
        middle = ends.mean(axis=2)
        apart = (
            np.linalg.norm(middle[:, first] - middle[:, second], axis=2)
            - sizes[first]
            - sizes[second]
        )
        row, pair = np.nonzero(apart < self.least + more + NEARBY)
        distance, s, t, normal = self._measure(ends, row, pair)
        flat, lowest = self._planes(ends)
        near = np.zeros((len(q), count + len(self.planes)))
        near[row, pair] = np.maximum(0.0, 1.0 - (distance - self.least - more) / NEARBY)
        near[:, count:] = np.maximum(0.0, 1.0 - (flat - self.least - more) / NEARBY)
        capsules, hulls = near.shape[1], self.hulls
        if hulls is not None:
            apart_hulls, points, normals = hulls.measure(q)
            room = apart_hulls - np.array(hulls.least) - more
            near = np.hstack([near, np.maximum(0.0, 1.0 - room / np.array(hulls.nearby))])

        def back(weights: Array) -> Array:
            rate = -2.0 * near / NEARBY * weights
            force = normal * rate[row, pair][:, None]
            slope = np.zeros_like(ends)
            a, b = first[pair], second[pair]
            for capsule, end, part in ((a, 0, 1 - s), (a, 1, s), (b, 0, t - 1), (b, 1, -t)):
                place: Any = row, capsule, end
                np.add.at(slope, place, part * force)
            for column, (k, direction, _) in enumerate(self.planes):
                push = rate[:, count + column, None] * direction
                slope[np.arange(len(ends)), k, lowest[:, column]] += push
            change = np.asarray(
                self._compiled[1](np.ascontiguousarray(q), slope.reshape(len(q), -1))
            )
            if hulls is not None:
                steeper = NEARBY / np.array(hulls.nearby)
                change = change + hulls.back(q, points, normals, steeper * rate[:, capsules:])
            return change

        return near**2, back

    @cached_property
    def _places(self) -> tuple[NDArray[np.int_], NDArray[np.int_], Array]:
        """Capsules of each pair, and the radius of the ball about each capsule."""
        first, second = (np.array([pair[k] for pair in self.pairs], dtype=int) for k in range(2))
        sizes = [
            one.radius + float(np.linalg.norm(one.end - one.start)) / 2 for one in self.capsules
        ]
        return first, second, np.array(sizes)

    def _measure(
        self, ends: Array, row: NDArray[np.int_], pair: NDArray[np.int_]
    ) -> tuple[Array, Array, Array, Array]:
        """Return distances (M,) of pairs at rows of ends (N, C, 2, 3), where they are nearest, and
        the directions.
        """
        first, second, _ = self._places
        radii = np.array([one.radius for one in self.capsules])
        A, B = ends[row, first[pair]], ends[row, second[pair]]
        s, t = _nearest(A[:, 0], A[:, 1], B[:, 0], B[:, 1])
        between = (1 - s) * A[:, 0] + s * A[:, 1] - (1 - t) * B[:, 0] - t * B[:, 1]
        length = np.linalg.norm(between, axis=1)
        normal = between / np.maximum(length, _TINY)[:, None]
        return length - radii[first[pair]] - radii[second[pair]], s, t, normal

    def _planes(self, ends: Array) -> tuple[Array, NDArray[np.int_]]:
        """Return distances (N, planes) from planes, and which end is nearest."""
        found = np.zeros((2, len(ends), len(self.planes)))
        for column, (k, normal, offset) in enumerate(self.planes):
            both = ends[:, k] @ normal - offset - self.capsules[k].radius
            found[:, :, column] = both.min(axis=1), both.argmin(axis=1)
        return found[0], found[1].astype(int)

    @cached_property
    def reach(self) -> Array:
        """How fast each distance can change at most for a unit of each joint's speed (pairs, n).

        Only joints between the two links count; a turn moves a point by at most its distance from
        the axis.
        """
        carried = [
            self._carried(one.link, max(np.linalg.norm(one.start), np.linalg.norm(one.end)))
            for one in self.capsules
        ]
        rows = [_between(carried[a], carried[b]) for a, b in self.pairs]
        rows += [carried[k] for k, _, _ in self.planes]
        for pair in () if self.hulls is None else self.hulls.pairs:
            rows.append(_between(*(self._carried(hull.link, hull.size) for hull in pair)))
        found = np.zeros((len(rows), self.robot.n))
        for number, row in enumerate(rows):
            for index, size in row.items():
                own = self.robot.joints[index]
                terms = ((own.name, 1.0),) if own.follows is None else own.follows.terms
                for leader, ratio in terms:
                    found[number, self.robot.joint_names.index(leader)] += abs(ratio) * size
        return found

    def _carried(self, link: int, size: Any) -> dict[int, float]:
        """By joint that carries a link.

        How far its points, within a size of its origin, are from the joint's axis at most, 1 where
        it slides.
        """
        found, index, far = dict[int, float](), link, float(size)
        while index >= 0:
            joint = self.robot.joints[index]
            far += float(np.linalg.norm(matrix_of(joint.after)[:3, 3]))
            if joint.kind != "fixed":
                found[index] = far if joint.turns else 1.0
            if joint.slides:
                ends = np.abs([joint.limits.lower, joint.limits.upper])
                far += float(ends.max()) if np.isfinite(ends).all() else _SLIDE
            far += float(np.linalg.norm(matrix_of(joint.before)[:3, 3]))
            index = joint.parent
        return found

    def near(self, poses: Array) -> Clearance | None:
        """Return the same without pairs that are far apart in all of many poses.

        None: no pair is left to look at.
        """
        close = self.distances(poses).min(axis=0) < self.needed + NEARBY
        hulls = None if self.hulls is None else self.hulls.near(poses)
        pairs = tuple(pair for pair, is_close in zip(self.pairs, close) if is_close)
        planes = tuple(
            plane for plane, is_close in zip(self.planes, close[len(self.pairs) :]) if is_close
        )
        if not pairs and not planes and hulls is None:
            return None
        used = sorted({k for pair in pairs for k in pair} | {plane[0] for plane in planes})
        place = {k: number for number, k in enumerate(used)}
        return replace(
            self,
            capsules=tuple(self.capsules[k] for k in used),
            pairs=tuple((place[a], place[b]) for a, b in pairs),
            planes=tuple((place[k], normal, offset) for k, normal, offset in planes),
            hulls=hulls,
        )


def _between(first: dict[int, float], second: dict[int, float]) -> dict[int, float]:
    """Joints that move two links against each other, and how far they carry their points."""
    both = set(first) & set(second)  # they move both alike
    return {joint: size for joint, size in {**first, **second}.items() if joint not in both}


def _nearest(p1: Array, q1: Array, p2: Array, q2: Array) -> tuple[Array, Array]:
    """Return where (0 to 1) the nearest points of segments p1 q1 and p2 q2 are, each (..., 1)."""
    d1, d2, r = q1 - p1, q2 - p2, p1 - p2
    a, e = (d1 * d1).sum(-1), (d2 * d2).sum(-1)
    b, c, f = (d1 * d2).sum(-1), (d1 * r).sum(-1), (d2 * r).sum(-1)
    det = a * e - b * b
    safe_a, safe_e = np.where(a > _TINY, a, 1.0), np.where(e > _TINY, e, 1.0)
    s = np.where(
        det > 1e-9 * safe_a * safe_e,
        np.clip((b * f - c * e) / np.where(det > 0, det, 1.0), 0, 1),
        0.0,
    )
    t = np.where(e > _TINY, (b * s + f) / safe_e, 0.0)
    t = np.clip(t, 0, 1)
    s = np.where(a > _TINY, np.clip((b * t - c) / safe_a, 0, 1), 0.0)
    t = np.where(e > _TINY, np.clip((b * s + f) / safe_e, 0, 1), 0.0)
    return s[..., None], t[..., None]


def clearance_of(
    robot: Robot,
    least: float,
    obstacles: Sequence[Mapping[str, Any]] | None,
    poses: Array,
    floor: bool = False,
) -> tuple[Clearance | None, list[Notice]]:
    """Return the distances that a robot's motions must keep.

    None where its shape is not known, and what to know. `poses` (M, n) are those that tell pairs
    which are always near. With `floor` the robot stands on one.
    """
    shapes, missing = _shapes(robot)
    notices = []
    if not shapes:
        if obstacles:
            raise DescriptionError(
                f"excite: obstacles: the shape of robot {robot.name!r} is not known; use its URDF "
                "or MJCF file"
            )
        text = (
            "collisions of the robot with itself and with obstacles were not checked: its shape "
            "is not known"
        )
        return None, [NO_COLLISIONS(text)]
    if missing:
        text = (
            "distances were not checked of links whose shape is not known: "
            f"{', '.join(map(repr, missing))}"
        )
        notices.append(NOT_CHECKED(text, links=missing))
    capsules, solids = list[Capsule](), list[Hull]()
    for name, points in shapes.items():
        link, steps = robot.find_frame(name)
        T = matrix_of(steps)
        solids.append(Hull(name, link, hull_corners(points) @ T[:3, :3].T + T[:3, 3]))
        capsules.append(Capsule(name, link, *fit_capsule(solids[-1].points)))
    own = len(capsules)
    fixed, planes = _obstacles(robot, obstacles or ())
    capsules += fixed
    pairs = [
        (a, b)
        for a, b in combinations(range(own), 2)
        if _apart(robot, capsules[a].link, capsules[b].link)
    ]
    pairs += [
        (a, b) for a in range(own) if capsules[a].link >= 0 for b in range(own, len(capsules))
    ]
    flat = [
        (k, normal, offset)
        for normal, offset in planes
        for k in range(own)
        if capsules[k].link >= 0
    ]
    if not pairs and not flat and not floor:
        return None, notices
    height, more = _floor(robot, solids) if floor else (None, [])
    notices += more
    ground, close, more = _above_floor(robot, capsules[:own], solids, height, least, poses)
    notices += more
    flat += ground
    every = Clearance(robot, tuple(capsules), tuple(pairs), tuple(flat), least, floor=height)
    near = every.distances(poses).max(axis=0) < least
    close += [(solids[a], solids[b]) for (a, b), is_near in zip(pairs, near) if is_near and b < own]
    hulls, unchecked = _told_apart(robot, close, least, poses)
    checked = set() if hulls is None else set(hulls.names)
    wanted = [name for name, is_near in zip(every.names, near) if is_near]
    wanted += [f"{first.name} - {second.name}" for first, second in close if second.name == FLOOR]
    names = [name for name in wanted if name not in checked]
    if names:
        text = (
            "distances were not checked of pairs that are nearer than the clearance in every "
            f"pose: {', '.join(names)}"
        )
        notices.append(ALWAYS_NEAR(text + unchecked, pairs=names))
    kept = tuple(pair for pair, is_near in zip(pairs, near) if not is_near)
    left = tuple(plane for plane, is_near in zip(flat, near[len(pairs) :]) if not is_near)
    if not kept and not left and hulls is None:
        return None, notices
    return Clearance(robot, tuple(capsules), kept, left, least, hulls, height), notices


def _floor(robot: Robot, solids: list[Hull]) -> tuple[float | None, list[Notice]]:
    """Return where the floor is, m along the direction against gravity: the base's lowest point.

    None for a base without a shape and one on a wall or a ceiling, and a notice that says so.
    """
    size = float(np.linalg.norm(robot.gravity))
    if not size > 0:
        return None, [NO_FLOOR("no floor is assumed: gravity is zero")]
    up, placement = -robot.gravity / size, robot.base_placement
    if up @ placement[:3, 2] < _TILT:
        return None, [NO_FLOOR("no floor is assumed: the base is mounted on a wall or a ceiling")]
    fixed = [hull.points for hull in solids if hull.link < 0]
    if not fixed:
        text = f"no floor was checked: the shape of the base {robot.base_name!r} is not known"
        return None, [FLOOR_NOT_KNOWN(text)]
    base = np.concatenate(fixed) @ placement[:3, :3].T + placement[:3, 3]
    return float((base @ up).min()), []


def _above_floor(
    robot: Robot,
    capsules: list[Capsule],
    solids: list[Hull],
    height: float | None,
    least: float,
    poses: Array,
) -> tuple[list[tuple[int, Array, float]], list[tuple[Hull, Hull]], list[Notice]]:
    """Return links over the floor as capsules and a plane, and as pairs of hulls where a capsule is
    too thick; and which links cannot leave it.
    """
    if height is None:
        return [], [], []
    up = -robot.gravity / np.linalg.norm(robot.gravity)
    flat = [(k, up, height) for k, one in enumerate(capsules) if one.link >= 0]
    distances = Clearance(robot, tuple(capsules), (), tuple(flat), least).distances(poses)
    leaves = distances.max(axis=0) >= least
    standing = [k for (k, _, _), is_free in zip(flat, leaves) if not is_free]
    ground = _ground(robot, up, height)
    never, pairs = list[str](), list[tuple[Hull, Hull]]()
    for k in standing:
        T = Hulls(robot, ((solids[k], ground),), (0.0,), (0.0,)).placements(poses)[:, -1]
        corners = np.einsum("nij,kj->nki", T[:, :, :3], solids[k].points) + T[:, None, :, 3]
        if float((corners @ up - height).min(axis=1).max()) > _TOUCHING:
            pairs.append((solids[k], ground))
        else:
            never.append(solids[k].name)
    text = f"links that cannot leave the floor are not checked against it: {', '.join(never)}"
    notices = [ON_FLOOR(text, links=never)] if never else []
    return [plane for plane, is_free in zip(flat, leaves) if is_free], pairs, notices


def _ground(robot: Robot, up: Array, height: float) -> Hull:
    """The floor as a flat box in the base's frame."""
    across = np.linalg.svd(up[None])[2][1:]
    corners = [
        (height - depth) * up + _WIDE * (x * across[0] + y * across[1])
        for depth in (0.0, _DEEP)
        for x in (-1, 1)
        for y in (-1, 1)
    ]
    base = np.linalg.inv(robot.base_placement)
    return Hull(FLOOR, -1, np.array(corners) @ base[:3, :3].T + base[:3, 3])


def _told_apart(
    robot: Robot, pairs: list[tuple[Hull, Hull]], least: float, poses: Array
) -> tuple[Hulls | None, str]:
    """Return the pairs whose hulls can be kept apart, and why others are not, in words.

    Neighbours of neighbours are never as far apart as others: half of the largest distance of a
    pair is kept where that is less.
    """
    if not pairs:
        return None, ""
    nothing = (0.0,) * len(pairs)
    try:
        largest = Hulls(robot, tuple(pairs), nothing, nothing).distances(poses).max(axis=0)
    except MissingExtra:
        return None, f"; with coal more of them can be told apart: {adding('collision')}"
    leasts = np.maximum(np.minimum(least, largest / 2), _HULL_LEAST)
    nearby = np.clip(largest - leasts, 1e-6, NEARBY)
    hulls = Hulls(robot, tuple(pairs), tuple(leasts.tolist()), tuple(nearby.tolist()))
    return hulls.some(largest > _TOUCHING), ""


def _apart(robot: Robot, a: int, b: int) -> bool:
    """Whether two links (-1: base) can touch: neither the same nor neighbours."""
    return a != b and robot.joints[max(a, b)].parent != min(a, b)


def _shapes(robot: Robot) -> tuple[dict[str, Array], list[str]]:
    """Corners of the links' shapes by name, and links whose shape could not be read."""
    source = Path(robot.source)
    ending = source.suffix.lower()
    if ending not in (".urdf", ".xml", ".mjcf") or not os.path.isfile(source):
        return {}, []
    if ending == ".urdf":
        found, missing = link_shapes(source)
    else:
        try:
            from minidyn.formats.mjcf.surfaces import body_shapes  # mujoco is an extra
        except MissingExtra:
            return {}, []
        found, missing = body_shapes(source), []
    known = {robot.base_name, *robot.link_names, *(frame.name for frame in robot.frames)}
    return {name: points for name, points in found.items() if name in known}, [
        m for m in missing if m in known
    ]


def _obstacles(
    robot: Robot, given: Sequence[Mapping[str, Any]]
) -> tuple[list[Capsule], list[tuple[Array, float]]]:
    """Obstacles as capsules and planes; the world's coordinates, m."""
    if isinstance(given, Mapping | str):
        raise DescriptionError(f"excite: obstacles: expected a list of obstacles, got {given!r}")
    base = np.linalg.inv(robot.base_placement)
    capsules, planes = [], []
    for number, one in enumerate(given, start=1):
        where = f"excite: obstacle {number}"
        if not isinstance(one, Mapping) or "kind" not in one:
            raise DescriptionError(f'{where}: expected {{"kind": "plane", ...}}, got {one!r}')
        kind = one["kind"]
        if kind not in KINDS:
            raise UnknownName(f"kind of obstacle {number}:", kind, KINDS)
        wrong = sorted((set(one) - {"name"}) ^ {"kind", *KINDS[kind]})
        if wrong:
            raise DescriptionError(
                f"{where} ({kind}): expected {', '.join(KINDS[kind])}; see {', '.join(wrong)}"
            )
        values = {key: _vector(one[key], f"{where}: {key}", key == "radius") for key in KINDS[kind]}
        if kind in ("sphere", "capsule"):
            start, end = (
                values[key]
                for key in (("centre", "centre") if kind == "sphere" else ("from", "to"))
            )
            first, last = (base[:3, :3] @ point + base[:3, 3] for point in (start, end))
            name = str(one.get("name", f"{kind} {number}"))
            capsules.append(Capsule(name, -1, first, last, float(values["radius"])))
        elif kind == "plane":
            size = float(np.linalg.norm(values["normal"]))
            if not size > 0:
                raise DescriptionError(f"{where}: normal: expected a direction, got zero")
            normal = values["normal"] / size
            planes.append((normal, float(normal @ values["point"])))
        else:
            for axis in range(3):
                planes.append((np.eye(3)[axis], float(values["lower"][axis])))
                planes.append((-np.eye(3)[axis], -float(values["upper"][axis])))
    return capsules, planes


def read_obstacles(path: Path) -> list[dict[str, Any]]:
    """Return the obstacles of a TOML file.

    Tables [[obstacle]] with the keys of `md.excite`'s obstacles.
    """
    top = read_tables(path)
    top.finish(["obstacle"])
    found = [dict(table.data) for table in top.tables("obstacle")]
    if not found:
        raise DescriptionError(
            f'{path}: no obstacles; expected tables [[obstacle]] with kind = "plane", ...'
        )
    return found


def _vector(value: Any, where: str, scalar: bool) -> Array:
    found = real_array(value, where)
    if found.shape != (() if scalar else (3,)) or not np.all(np.isfinite(found)):
        raise DescriptionError(
            f"{where}: expected {'a number' if scalar else 'three numbers, m'}, got {value!r}"
        )
    return found
