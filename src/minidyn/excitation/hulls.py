"""Distances of convex hulls: for pairs of links whose capsules are too thick to tell.

Coal, an extra, computes the distance of two hulls, negative where they overlap, and where they are
nearest; the derivative is along the line between these points.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np

from minidyn.arrays import Array
from minidyn.dynamics.kinematics import link_placement
from minidyn.dynamics.tree import REAL, coordinates, place
from minidyn.errors import optional
from minidyn.graph.derivative import vjp
from minidyn.graph.function import Function
from minidyn.graph.scalar import Graph
from minidyn.graph.targets.native.kernel import compile_function
from minidyn.model.robot import Robot

_FLAT = 1e-4  # m, by which the corners of a flat shape are spread


def hull_corners(points: Array) -> Array:
    """Return the points (k, 3) that are corners of their convex hull; all, where they are flat.

    Meshes have 100,000 points and more, their hulls a few hundred corners.
    """
    from scipy.spatial import ConvexHull, QhullError

    try:
        return np.asarray(points[ConvexHull(points).vertices])
    except QhullError:
        return points


@dataclass(frozen=True, eq=False)
class Hull:
    """The convex hull of a link's shape."""

    name: str
    link: int  # -1: the base
    points: Array  # corners (k, 3) in the link's frame, m

    @property
    def size(self) -> float:
        """How far its points are from the link's origin at most, m."""
        return float(np.linalg.norm(self.points, axis=1).max())

    @cached_property
    def solid(self) -> Any:
        """The hull as Coal takes it."""
        from scipy.spatial import ConvexHull, QhullError

        coal = optional("coal")
        try:
            faces = ConvexHull(self.points)
        except QhullError:  # a shape without thickness
            spread = _FLAT * np.array([*product((-1, 1), repeat=3)])
            return replace(self, points=(self.points[:, None] + spread).reshape(-1, 3)).solid
        corners, triangles = coal.StdVec_Vec3s(), coal.StdVec_Triangle()
        places = {int(k): number for number, k in enumerate(faces.vertices)}
        for k in faces.vertices:
            corners.append(self.points[k])
        for three in faces.simplices:
            triangles.append(coal.Triangle(*(places[int(k)] for k in three)))
        return coal.Convex(corners, triangles)


@dataclass(frozen=True, eq=False)
class Hulls:
    """Pairs of hulls that must stay apart."""

    robot: Robot
    pairs: tuple[tuple[Hull, Hull], ...]
    least: tuple[float, ...]  # m, of each pair
    nearby: tuple[float, ...]  # m beyond it within which a distance counts in a search

    @property
    def names(self) -> tuple[str, ...]:
        """What each distance is between."""
        return tuple(f"{a.name} - {b.name}" for a, b in self.pairs)

    @cached_property
    def links(self) -> tuple[int, ...]:
        """Links (L,) that hulls are on."""
        return tuple(sorted({hull.link for pair in self.pairs for hull in pair}))

    @cached_property
    def function(self) -> Function:
        """Placements (L, 3, 4) of the links in the world from q."""
        graph = Graph()
        q = list(graph.inputs("q", self.robot.n))
        still = [0.0] * self.robot.n
        tree = place(self.robot, coordinates(self.robot, q, still, still).q, REAL)
        placed = [link_placement(tree, link)[:3] for link in self.links]
        return graph.function("placements", {"T": [row for rows in placed for row in rows]})

    @cached_property
    def _compiled(self) -> tuple[Callable[..., Any], Callable[..., Any]]:
        return compile_function(self.function), compile_function(vjp(self.function, ("q",)))

    def placements(self, q: Array) -> Array:
        """Return placements (N, L, 3, 4) at positions (N, n)."""
        return np.asarray(self._compiled[0](np.ascontiguousarray(q))).reshape(len(q), -1, 3, 4)

    def distances(self, q: Array) -> Array:
        """Return distances (N, pairs), m; negative where hulls overlap."""
        return self.measure(q)[0]

    def measure(self, q: Array) -> tuple[Array, Array, Array]:
        """Return distances (N, P), nearest points (N, P, 2, 3) in the world, and the directions
        (N, P, 3) in which the first hull moves away.
        """
        coal, T = optional("coal"), self.placements(q)
        distance = np.zeros((len(q), len(self.pairs)))
        points, normals = np.zeros((*distance.shape, 2, 3)), np.zeros((*distance.shape, 3))
        request, result = coal.DistanceRequest(), coal.DistanceResult()
        request.enable_signed_distance = True
        for column, (a, b) in enumerate(self.pairs):
            first, second = (T[:, self.links.index(hull.link)] for hull in (a, b))
            for row in range(len(q)):
                result.clear()
                distance[row, column] = coal.distance(
                    a.solid,
                    coal.Transform3s(first[row, :, :3], first[row, :, 3]),
                    b.solid,
                    coal.Transform3s(second[row, :, :3], second[row, :, 3]),
                    request,
                    result,
                )
                points[row, column] = result.getNearestPoint1(), result.getNearestPoint2()
                normals[row, column] = -result.normal
        return distance, points, normals

    def back(self, q: Array, points: Array, normals: Array, rate: Array) -> Array:
        """Return derivatives (N, n) with respect to q, of those (N, P) with respect to the
        distances.
        """
        T = self.placements(q)
        slope = np.zeros_like(T)
        for column, pair in enumerate(self.pairs):
            for end, (hull, sign) in enumerate(zip(pair, (1.0, -1.0))):
                place = self.links.index(hull.link)
                force = sign * rate[:, column, None] * normals[:, column]
                R, p = T[:, place, :, :3], T[:, place, :, 3]
                local = np.einsum("nji,nj->ni", R, points[:, column, end] - p)
                slope[:, place, :, :3] += force[:, :, None] * local[:, None]
                slope[:, place, :, 3] += force
        return np.asarray(self._compiled[1](np.ascontiguousarray(q), slope.reshape(len(q), -1)))

    def some(self, chosen: Array) -> Hulls | None:
        """Return the same with the pairs that are chosen; None: no pair."""
        rows = [k for k, is_chosen in enumerate(chosen) if is_chosen]
        pairs = tuple(self.pairs[k] for k in rows)
        least, nearby = (tuple(every[k] for k in rows) for every in (self.least, self.nearby))
        return Hulls(self.robot, pairs, least, nearby) if rows else None

    def near(self, poses: Array) -> Hulls | None:
        """Return the pairs that come near their least distance in some of many poses."""
        room = self.distances(poses).min(axis=0) - np.array(self.least)
        return self.some(room < 0.5 * np.array(self.nearby))
