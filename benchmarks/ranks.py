"""The number of base parameters of many random robots, found by minidyn and counted again by
singular values.

    python benchmarks/ranks.py --robots 1000      # goes on where the last run ended; 100,000 are the goal
    python benchmarks/ranks.py --again 1234       # one robot, with its singular values

Robots have 1 to 8 joints in chains and trees, parallel, crossing and coinciding axes, gravity along
axes, oblique or none, drives in some; every fourth one has its frames turned, as files of other
programs have them. minidyn decides in exact arithmetic; here the columns of a regressor at random
states, scaled, are counted by their singular values. It is written out below for all states at
once, in floating point, with nothing of the library's dynamics. Other frames do not change the
number, but their rounded angles blur singular values: it is counted before frames are turned. A
robot whose singular values have no gap is counted as unclear, not as right. Counts are kept in
build/ranks.json.
"""  # noqa: E501

from __future__ import annotations

import argparse
import json
import os
import sys
from collections import Counter
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from scipy.spatial.transform import Rotation

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "tests" / "laws"), str(ROOT / "tests")]

from base_robots import special_robot  # noqa: E402
from turned_robots import HOW, turned  # noqa: E402

import minidyn as md  # noqa: E402
from minidyn.arrays import Array  # noqa: E402
from minidyn.model.geometry import matrix_of  # noqa: E402

GAP = 1e3  # between the last singular value that counts and the first that does not
ZERO = 1e-9  # of the largest: what may count as zero


def robot_of(number: int) -> md.Robot:
    """Return a random robot by its number."""
    robot = special_robot(number)
    return (
        turned(robot, np.random.default_rng((number, 9)), HOW[number // 4 % len(HOW)])
        if number % 4 == 3
        else robot
    )


def found(robot: md.Robot, turned: bool) -> int:
    """Return minidyn's number for the geometry as it is written, and as it is meant where frames
    were turned.
    """
    base = md.base_parameters(robot)
    told = [
        notice.data["rank_as_written"]
        for notice in base.notices
        if notice.code == "base.snapped_geometry"
    ]
    return int(told[0]) if told and not turned else base.rank


def regressor(robot: md.Robot, q: Array, dq: Array, ddq: Array) -> Array:
    """Return the torques (N, n, p) of unit parameters, by forces and moments of each link in the
    base's frame.
    """
    count, base = len(q), matrix_of(robot.base)
    still = np.zeros((count, 3))
    ground = (
        np.broadcast_to(base[:3, :3], (count, 3, 3)),
        still + base[:3, 3],
        still,
        still,
        still - robot.gravity,
    )
    links: list[
        tuple[Array, ...]
    ] = []  # rotation, origin, speed of turning, its rate, acceleration less gravity
    axes: list[tuple[Array, Array, bool]] = []  # direction, a point on it, whether it turns
    Y = np.zeros((count, robot.n, len(robot.layout)))
    for k, joint in enumerate(robot.joints):
        R, p, w, dw, a = links[joint.parent] if joint.parent >= 0 else ground
        before, after = matrix_of(joint.before), matrix_of(joint.after)
        unit = joint.direction * np.eye(3)["xyz".index(joint.motion[1])]
        arm = R @ before[:3, 3]
        R, p, a = R @ before[:3, :3], p + arm, a + cross(dw, arm) + cross(w, cross(w, arm))
        z, speed, rate = R @ unit, dq[:, k, None], ddq[:, k, None]
        axes.append((z, p, joint.turns))
        if joint.turns:
            dw = dw + z * rate + cross(w, z * speed)
            w = w + z * speed
            R = R @ Rotation.from_rotvec(q[:, k, None] * unit).as_matrix()
        else:
            arm = z * q[:, k, None]
            p, a = (
                p + arm,
                a + cross(dw, arm) + cross(w, cross(w, arm)) + z * rate + 2 * cross(w, z * speed),
            )
        arm = R @ after[:3, 3]
        R, p, a = R @ after[:3, :3], p + arm, a + cross(dw, arm) + cross(w, cross(w, arm))
        links.append((R, p, w, dw, a))
        force, moment = np.zeros((count, 10, 3)), np.zeros((count, 10, 3))
        for column, (i, j) in enumerate(((0, 0), (0, 1), (0, 2), (1, 1), (1, 2), (2, 2))):
            tensor = np.zeros((3, 3))
            tensor[i, j] = tensor[j, i] = 1.0
            seen = R @ tensor @ R.swapaxes(1, 2)
            moment[:, column] = (seen @ dw[..., None])[..., 0] + cross(
                w, (seen @ w[..., None])[..., 0]
            )
        for column in range(3):
            first = R[:, :, column]
            force[:, 6 + column] = cross(dw, first) + cross(w, cross(w, first))
            moment[:, 6 + column] = cross(first, a)
        force[:, 9] = a
        on = k
        while on >= 0:
            z, origin, turns = axes[on]
            load = moment + cross((p - origin)[:, None], force) if turns else force
            Y[:, on, robot.layout.links[k]] = (load @ z[..., None])[..., 0]
            on = robot.joints[on].parent
        for column in robot.layout.drives[k]:
            shape = {"Ia": ddq[:, k], "Fv": dq[:, k], "Fc": np.sign(dq[:, k]), "Fo": 1.0}[
                column.symbol
            ]
            Y[:, k, column.index] = shape
    return Y


def cross(a: Array, b: Array) -> Array:
    """Return products of vectors (..., 3), quicker than np.cross."""
    a, b = np.broadcast_arrays(a, b)
    return np.stack(
        [a[..., i] * b[..., j] - a[..., j] * b[..., i] for i, j in ((1, 2), (2, 0), (0, 1))],
        axis=-1,
    )


def counted(robot: md.Robot, seed: int) -> tuple[int, float, Array]:
    """Return the number of independent columns, the gap behind it, and the singular values."""
    rng = np.random.default_rng((seed, 5))
    states = rng.uniform(-2.0, 2.0, (3, 5 * robot.n + 15, robot.n))
    Y = regressor(robot, *states).reshape(-1, len(robot.layout))
    size = np.linalg.norm(Y, axis=0)
    Y = Y[:, size > 1e-12 * size.max(initial=1e-300)]
    if not Y.size:
        return 0, np.inf, np.zeros(0)
    values = np.linalg.svd(Y / np.linalg.norm(Y, axis=0), compute_uv=False)
    values = np.maximum(values, 1e-17 * values[0])
    rank = int(np.sum(values > ZERO * values[0]))
    gap = np.inf if rank == len(values) else float(values[rank - 1] / values[rank])
    return rank, gap, values


def main() -> int:
    """Count, keep the counts, and name what differs."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--robots", type=int, default=1000)
    parser.add_argument("--again", type=int)
    parser.add_argument("--counts", type=Path, default=ROOT / "build" / "ranks.json")
    given = parser.parse_args()
    if given.again is not None:
        robot = robot_of(given.again)
        print(found(robot, given.again % 4 == 3), *counted(special_robot(given.again), given.again))
        return 0
    total: Counter[str] = Counter(
        json.loads(given.counts.read_text()) if given.counts.exists() else {}
    )
    given.counts.parent.mkdir(parents=True, exist_ok=True)
    for done in range(1, given.robots + 1):
        number = total["next"]
        robot = robot_of(number)
        mine, (theirs, gap, _) = (
            found(robot, number % 4 == 3),
            counted(special_robot(number), number),
        )
        what = "unclear" if gap < GAP else "right" if mine == theirs else "wrong"
        if what != "right":
            print(
                f"{number}: {what}: {mine} by minidyn, {theirs} by singular values, gap {gap:.1e}",
                flush=True,
            )
        total[what] += 1
        total["next"] = number + 1
        if done % 100 == 0 or done == given.robots:
            given.counts.write_text(json.dumps(total))
    print(dict(total))
    return int(total["wrong"] > 0)


if __name__ == "__main__":
    sys.exit(main())
