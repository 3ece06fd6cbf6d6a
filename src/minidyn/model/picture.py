"""The robot to look at: points and lines in space (links as sticks, joints as rings and boxes), a
figure, a table.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from minidyn.arrays import Array
from minidyn.display import MEASURED, MODEL, RESIDUAL, DisplayTable, new_figure
from minidyn.errors import LoopError
from minidyn.model.geometry import Step, matrix_of, steps_from_matrix
from minidyn.model.loops import solve_loops
from minidyn.model.parameters import shaped_array
from minidyn.model.placements import tree_pose
from minidyn.text import plot_label

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from minidyn.model.robot import Robot

Surfaces = Mapping[str, tuple[Array, NDArray[np.int_]]]
"""What links look like, by name.

Corners (v, 3), m, and the indices of the corners of each triangle (f, 3).
"""

_TRIES = 400  # postures among which the clearest is chosen
_LOOP_TRIES = 12  # where loops must be solved for
_RING = 20
TURN, TILT = 0.95, 0.32  # rad: where the eye is at first
_FIRST_DRAWN = {"ground": 0, "link": 1, "face": 2, "axis": 3, "frame": 3, "ring": 4, "box": 4}
_LABEL = {"facecolor": "white", "edgecolor": "none", "alpha": 0.75, "pad": 1.0}
_LOOK: dict[str, dict[str, Any]] = {
    "ground": {"facecolor": "#e8e8e8", "edgecolor": "none"},
    "link": {"color": "#7a8591", "linewidth": 5, "solid_capstyle": "round"},
    "axis": {"color": MEASURED, "linewidth": 0.8},
    "frame": {"color": MEASURED, "linewidth": 0.6},
    "ring": {"facecolor": "#dbe8f6", "edgecolor": MODEL, "linewidth": 1.2},
    "box": {"facecolor": "#f8e5d6", "edgecolor": RESIDUAL, "linewidth": 1.2},
}


def robot_table(robot: Robot) -> DisplayTable:
    """Return the joints as a table: how each moves, its limits, what it carries, its drive."""
    joints = robot.joints
    names = (robot.base_name, *robot.link_names)
    columns: dict[str, list[Any]] = {
        "joint": [joint.name for joint in joints],
        "moves": [
            "fixed" if joint.kind == "fixed" else "slides" if joint.slides else "turns"
            for joint in joints
        ],
        "on": [names[joint.parent + 1] for joint in joints],
        "link": list(robot.link_names),
        "lower limit": [joint.limits.lower for joint in joints],
        "upper limit": [joint.limits.upper for joint in joints],
        "mass, kg": [float(link.mass) for link in robot.links],
        "drive terms": [", ".join(joint.drive.columns) for joint in joints],
    }
    return DisplayTable(repr(robot), columns, notices=robot.notices)


def plot_robot(robot: Robot, q: ArrayLike | None = None) -> Figure:
    """Return a matplotlib figure of the robot; arguments as for :func:`scene_of`."""
    scene = scene_of(robot, q)
    seen = view(np.array(scene.points))
    figure, axes = new_figure(repr(robot), 1, 5.5, width=7.0)
    axis = axes[0]
    axis.set_axis_off()
    axis.set_aspect("equal")
    for order, shape in enumerate(scene.front_last):
        x, y = seen[list(shape.points), 0], seen[list(shape.points), 1]
        draw = axis.fill if shape.closed else axis.plot
        draw(x, y, zorder=2 + 0.01 * order, **_LOOK[shape.kind])
    for index, joint in enumerate(robot.joints):
        if joint.kind != "fixed":
            x, y, _ = seen[scene.anchors[index]]
            label = f"{index + 1} {plot_label(joint.name, 20)}"
            axis.text(
                x,
                y,
                label,
                fontsize=8,
                ha="center",
                va="center",
                color=MODEL,
                zorder=20,
                bbox=_LABEL,
            )
    return figure


@dataclass(frozen=True)
class Shape:
    """A line or area through points of the scene."""

    kind: str  # "link", "ring", "box", "axis", "ground", or "face" of a surface
    points: tuple[int, ...]  # indices
    body: int  # index of the link it belongs to, or of the joint whose axis it shows; -1: the base
    closed: bool = False  # whether it is an area


@dataclass
class Scene:
    """Points in a ball of radius 1 about the origin, z up, and what connects them."""

    robot: Robot
    points: list[Array] = field(default_factory=list)  # x, y, z each
    shapes: list[Shape] = field(default_factory=list)  # what is drawn
    anchors: list[int] = field(
        default_factory=list
    )  # for each joint, the index of the point its label stands at
    carriers: list[int] = field(
        default_factory=list
    )  # for each point, the index of the link that carries it; -1: base

    @property
    def front_last(self) -> list[Shape]:
        """The shapes in the order in which they are drawn.

        Ground, links, axes, joints, the nearest last.
        """
        depth = view(np.array(self.points))[:, 2]
        return sorted(
            self.shapes,
            key=lambda shape: (_FIRST_DRAWN[shape.kind], float(depth[list(shape.points)].mean())),
        )

    def shapes_of(self, kind: str, body: int) -> list[Shape]:
        """Return the shapes of a kind that belong to a link."""
        return [shape for shape in self.shapes if (shape.kind, shape.body) == (kind, body)]

    def add(
        self,
        kind: str,
        points: list[Array],
        body: int,
        closed: bool = False,
        carriers: list[int] | None = None,
    ) -> None:
        """Add a shape; its points move with its body unless others carry them."""
        first = len(self.points)
        self.points += points
        self.carriers += [body] * len(points) if carriers is None else carriers
        self.shapes.append(Shape(kind, tuple(range(first, len(self.points))), body, closed))


def view(points: Array) -> Array:
    """Return points (..., 3) of the scene as seen at first.

    x to the right, y up, z towards the eye.
    """
    c, s, ct, st = np.cos(TURN), np.sin(TURN), np.cos(TILT), np.sin(TILT)
    return np.asarray(
        points @ np.array([[-s, c, 0.0], [-st * c, -st * s, ct], [ct * c, ct * s, st]]).T
    )


def scene_of(
    robot: Robot,
    q: ArrayLike | None = None,
    surfaces: Surfaces | None = None,
    frames: bool = False,
) -> Scene:
    """Return the robot as points and shapes, gravity pointing down.

    Args:
        robot: The robot.
        q: Positions (nq,), rad or m; None: a posture that shows its joints.
        surfaces: What links and frames look like, by name: corners (v, 3) in their own frames, and
            the indices of the corners of each triangle (f, 3). Sticks and joints of links that have
            one are left out.
        frames: Whether x, y and z of every link's frame are lines, in this order.
    """
    is_free = robot.free_base
    robot, q = _standing(robot, q)
    q_all = _posture(robot) if q is None else solve_loops(robot, q)
    scene = _placed(robot, q_all, surfaces)
    if frames:
        _add_frames(scene, tree_pose(robot, q_all).links)
    if is_free:  # it stands on nothing
        scene.shapes = [shape for shape in scene.shapes if shape.kind != "ground"]
    points = np.array(scene.points) @ _level(_up(robot))
    points -= (points.max(axis=0) + points.min(axis=0)) / 2
    scene.points = list(points / max(float(np.linalg.norm(points, axis=1).max()), 1e-9))
    return scene


def _add_frames(scene: Scene, links: Array) -> None:
    """Add the frames of all links, a sixth of the robot long."""
    size = 0.16 * max(float(np.ptp(np.array(scene.points), axis=0).max()), 1e-9)
    for index, T in enumerate(links):
        ends = [point for k in range(3) for point in (T[:3, 3], T[:3, 3] + size * T[:3, k])]
        scene.add("frame", ends, index)


def _standing(robot: Robot, q: ArrayLike | None) -> tuple[Robot, ArrayLike | None]:
    """Return a robot with a free base as one that stands where q says, and its joints' positions.

    Others stay as they are.
    """
    if not robot.free_base:
        return robot, q
    pose, rest = np.array([0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0]), None
    if q is not None:
        given = shaped_array(q, (robot.nq,), "q")
        pose, rest = given[:7], given[7:]
    T = np.eye(4)
    x, y, z, w = pose[3:] / np.linalg.norm(pose[3:])
    axis = np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
    T[:3, :3] += 2.0 * (w * axis + axis @ axis)
    T[:3, 3] = pose[:3]
    root = robot.joints[0]
    base = (*robot.base, *root.before, *steps_from_matrix(T, "q of the free base"))
    still = replace(root, kind="fixed", before=())
    return replace(robot, joints=(still, *robot.joints[1:]), base=base), rest


def moving_scene(robot: Robot, q: Array, surfaces: Surfaces | None = None) -> tuple[Scene, Array]:
    """Return the robot in motion, metres, z up.

    Points in the frames of what carries them, and where these are.

    Args:
        robot: The robot, without loops that are solved numerically.
        q: Positions (N, n), rad or m.
        surfaces: As for :func:`scene_of`.

    Returns:
        The scene, and placements (N, 1 + links, 3, 4) of the base and of every link.
    """
    q_all = solve_loops(robot, q)
    scene = _placed(robot, q_all[0], surfaces)
    links = tree_pose(robot, q_all).links
    base = np.broadcast_to(robot.base_placement, (len(links), 1, 4, 4))
    placements = np.concatenate([base, links], axis=1)
    carriers = np.array(scene.carriers) + 1
    R, p = placements[0, carriers, :3, :3], placements[0, carriers, :3, 3]
    scene.points = list(np.einsum("kji,kj->ki", R, np.array(scene.points) - p))
    return scene, np.einsum("ji,nbjk->nbik", _level(_up(robot)), placements[:, :, :3])


def up_frame(robot: Robot) -> Array:
    """Return the axes of the frame (3, 3), one a column, in which gravity points down."""
    return _level(_up(robot))


def _placed(robot: Robot, q_all: Array, surfaces: Surfaces | None) -> Scene:
    """The robot at positions of all joints, in the world, m."""
    pose = tree_pose(robot, q_all)
    scene = Scene(robot)
    drawn = [_path(robot, index, q_all, pose.links) for index in range(len(robot.joints))]
    paths = [path for path, _ in drawn]
    corners = np.concatenate([*paths, robot.base_placement[None, :3, 3]])
    size = max(float(np.ptp(corners, axis=0).max()), 1e-9)
    scene.add(
        "ground", _ring(robot.base_placement[:3, 3], _up(robot), 0.16 * size), -1, closed=True
    )
    for index, (path, before) in enumerate(drawn):
        parent = robot.joints[index].parent
        carriers = [parent] * before + [index] * (len(path) - before)
        scene.add("link", list(path), parent, carriers=carriers)
    for frame in robot.frames:
        if frame.link >= 0 and not _has_child(robot, frame.link):
            here = pose.links[frame.link]
            tip = here @ matrix_of(frame.steps)
            if np.linalg.norm(tip[:3, 3] - here[:3, 3]) > 1e-3 * size:
                scene.add("link", [here[:3, 3], tip[:3, 3]], frame.link)
    closed = set()
    for loop in robot.loops:  # both sides reach to where the loop closes
        for link, steps in ((loop.link_a, loop.steps_a), (loop.link_b, loop.steps_b)):
            start = robot.base_placement if link < 0 else pose.links[link]
            scene.add("link", [start[:3, 3], pose.frame(link, steps)[:3, 3]], link)
            closed.add(link)
    for index in range(len(robot.joints)):
        if not _has_child(robot, index) and index not in closed:
            _gripper(scene, pose.links[index], pose.axes[index], index, 0.07 * size)
    for index, joint in enumerate(robot.joints):
        point, axis = pose.points[index], pose.axes[index]
        if joint.slides:
            point = (pose.points[index] + pose.links[index][:3, 3]) / 2
            _box(scene, point, axis, index, 0.045 * size)
        elif joint.turns:
            for shift in (-0.03, 0.03):
                scene.add(
                    "ring",
                    _ring(point + shift * size * axis, axis, 0.042 * size),
                    index,
                    closed=True,
                )
        scene.add("axis", [point - 0.11 * size * axis, point + 0.19 * size * axis], index)
        scene.anchors.append(len(scene.points))
        scene.points.append(point + 0.235 * size * axis)
        scene.carriers.append(index)
    if surfaces:
        _add_surfaces(scene, surfaces, pose.links)
    return scene


def _add_surfaces(scene: Scene, surfaces: Surfaces, links: Array) -> None:
    """Put triangles where the links are; the sticks of links that are seen go."""
    robot = scene.robot
    places = {
        robot.base_name: (-1, np.eye(4)),
        **{frame.name: (frame.link, frame.placement) for frame in robot.frames},
    }
    places |= {name: (index, np.eye(4)) for index, name in enumerate(robot.link_names)}
    seen = set()
    faces = []
    for name, (corners, triangles) in surfaces.items():
        if name not in places:
            continue
        body, placement = places[name]
        T = (robot.base_placement if body < 0 else links[body]) @ placement
        first = len(scene.points)
        scene.points += list(corners @ T[:3, :3].T + T[:3, 3])
        scene.carriers += [body] * len(corners)
        faces += [
            Shape("face", tuple(row), body, True)
            for row in (np.asarray(triangles) + first).tolist()
        ]
        seen.add(body)
    scene.shapes = [
        one for one in scene.shapes if one.kind in ("ground", "axis") or one.body not in seen
    ] + faces


def _posture(robot: Robot) -> Array:
    """Positions of all joints.

    Of many postures the one in which joints lie apart on paper and above the ground.
    """
    rng = np.random.default_rng(5)
    middle, reach = np.zeros(robot.n), np.zeros(robot.n)
    for k, index in enumerate(robot.independent):
        joint = robot.joints[index]
        low, high = joint.limits.lower, joint.limits.upper
        size = (
            max(
                (abs(step.value) for step in (*joint.before, *joint.after) if not step.is_turn),
                default=0.0,
            )
            or 0.3
        )
        bounded = np.isfinite(low) and np.isfinite(high)
        middle[k] = (low + high) / 2 if bounded else 0.0
        reach[k] = 0.35 * (high - low) if bounded else 0.3 * size if joint.slides else 1.2
        if joint.turns:
            reach[k] = min(reach[k], 1.2)
    q_all = tries = middle + reach * rng.uniform(-1.0, 1.0, (_TRIES, robot.n))
    if robot.n < len(robot.joints):
        q_all = _closed(robot, tries) if robot.implicit_loops else solve_loops(robot, tries)
    pose = tree_pose(robot, q_all)
    up = _up(robot)
    size = np.maximum(np.ptp(pose.links[..., :3, 3], axis=1).max(axis=-1), 1e-9)[:, None, None]
    tips = (pose.points + 0.235 * size * pose.axes) @ _level(up) / size
    seen = view(tips)[..., :2]
    apart = np.linalg.norm(seen[:, :, None] - seen[:, None], axis=-1) + np.eye(seen.shape[1])
    lowest = ((pose.links[..., :3, 3] - robot.base_placement[:3, 3]) @ up / size[..., 0]).min(
        axis=1
    )
    score = (
        np.minimum(apart.min(axis=(1, 2)), 0.16)
        + 0.15 * apart.min(axis=2).mean(axis=1)
        + 0.5 * np.minimum(lowest, 0)
    )
    return np.asarray(q_all[int(np.argmax(score))])


def _closed(robot: Robot, tries: Array) -> Array:
    """Postures near the one at which the loops' descriptions start.

    Solving takes time, and not every one closes.
    """
    said = {name: value for loop in robot.loops for name, value in loop.home}
    home = np.array([said.get(name, 0.0) for name in robot.joint_names])
    found = [solve_loops(robot, home)]
    for q in tries[:_LOOP_TRIES]:
        with suppress(LoopError):
            found.append(solve_loops(robot, home + 0.6 * (q - home)))
    return np.array(found)


def _path(robot: Robot, index: int, q_all: Array, links: Array) -> tuple[Array, int]:
    """Points from the parent's origin to the link's, along the elementary shifts.

    And how many the parent carries.
    """
    joint = robot.joints[index]
    here = robot.base_placement if joint.parent < 0 else links[joint.parent]
    points, before = [here[:3, 3]], 0
    moved = (
        ()
        if joint.kind == "fixed"
        else (Step(joint.motion, joint.direction * float(q_all[index])),)
    )
    for number, step in enumerate((*joint.before, *moved, *joint.after)):
        if number == len(joint.before):
            before = len(points)
        here = here @ matrix_of((step,))
        slides = joint.slides and number == len(
            joint.before
        )  # also where it stands at zero: later it does not
        if slides or (not step.is_turn and np.linalg.norm(here[:3, 3] - points[-1]) > 0):
            points.append(here[:3, 3])
    return np.array(points), before or len(points)


def _has_child(robot: Robot, index: int) -> bool:
    return any(joint.parent == index for joint in robot.joints)


def _up(robot: Robot) -> Array:
    norm = float(np.linalg.norm(robot.gravity))
    return np.asarray(-robot.gravity / norm) if norm > 0 else np.array([0.0, 0.0, 1.0])


def _across(axis: Array) -> tuple[Array, Array]:
    other = np.eye(3)[int(np.argmin(np.abs(axis)))]
    first = np.cross(axis, other)
    first /= np.linalg.norm(first)
    return first, np.cross(axis, first)


def _level(up: Array) -> Array:
    """Return the axes of a frame whose z is up (3, 3), one a column.

    Usually its x and y are the file's.
    """
    usual = np.array([1.0, 0.0, 0.0]), np.array([0.0, 1.0 if up[2] > 0 else -1.0, 0.0])
    return np.stack([*(usual if abs(up[2]) > 0.999 else _across(up)), up], axis=1)


def _ring(centre: Array, axis: Array, radius: float) -> list[Array]:
    a, b = _across(axis)
    angles = 2 * np.pi * np.arange(_RING) / _RING
    return [centre + radius * (np.cos(angle) * a + np.sin(angle) * b) for angle in angles]


def _box(scene: Scene, centre: Array, axis: Array, body: int, size: float) -> None:
    a, b = _across(axis)
    for shift in (-1.3, 1.3):
        corners = [(1, 1), (-1, 1), (-1, -1), (1, -1)]
        scene.add(
            "box",
            [centre + size * (shift * axis + 0.8 * (x * a + y * b)) for x, y in corners],
            body,
            True,
        )


def _gripper(scene: Scene, link: Array, axis: Array, body: int, size: float) -> None:
    origin, (a, _) = link[:3, 3], _across(axis)
    palm = origin + size * axis
    scene.add("link", [origin, palm], body)
    for side in (-1.0, 1.0):
        finger = palm + 0.6 * side * size * a
        scene.add("link", [palm, finger, finger + 0.9 * size * axis], body)
