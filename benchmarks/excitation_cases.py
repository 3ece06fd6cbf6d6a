"""Random robots, limits, obstacles and seeds: does a designed motion ever exceed a limit?

    python benchmarks/excitation_cases.py --cases 1000 --results build/excitation_cases.jsonl
    python benchmarks/excitation_cases.py --results build/excitation_cases.jsonl --cases 0      # the summary alone
    python benchmarks/excitation_cases.py --results build/quality.jsonl --cases 100 --quality       # five seeds each
    python benchmarks/excitation_cases.py --results build/narrow.jsonl --cases 20 --narrower 0.03   # the check can fail

Every case is a URDF file with shapes (boxes, cylinders, spheres), random limits, and in most cases
obstacles. Motions that are called feasible are checked again at 1 kHz by others: Pinocchio computes
the torques, Coal the distances of the file's own shapes (minidyn computes with capsules around
them). Cases that are done are kept in the results file, one line each, so that a run can be ended
and taken up again.
"""  # noqa: E501

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import minidyn as md
from minidyn.arrays import Array, single_thread

QUALITY_SEEDS = 5  # designs of a case that are compared
WITHIN = 3.0  # of logdet: a design that far from the best of five is a good one
ACCURACY = 1e-6  # of a limit, beyond which it counts as exceeded
ROUND = 1e-3  # m that round shapes are larger than their hulls of corners
NEAR = 1e-5  # m: Coal's own accuracy


def words(values: Any) -> str:
    """Numbers as URDF writes them."""
    return " ".join(repr(float(value)) for value in np.ravel(values))


def inertial(rng: np.random.Generator, reach: float) -> str:
    """A body of a few point masses."""
    points = rng.uniform(-0.5, 0.5, (5, 3)) * [reach, 0.1, 0.1] + [reach / 2, 0, 0]
    masses = rng.uniform(0.1, 1.0, 5)
    com = masses @ points / masses.sum()
    tensor = sum(
        m * (r @ r * np.eye(3) - np.outer(r, r)) for m, r in zip(masses, points - com)
    ) + 1e-4 * np.eye(3)
    names = {
        "ixx": (0, 0),
        "ixy": (0, 1),
        "ixz": (0, 2),
        "iyy": (1, 1),
        "iyz": (1, 2),
        "izz": (2, 2),
    }
    entries = " ".join(f'{name}="{float(tensor[place])!r}"' for name, place in names.items())
    mass = f'<mass value="{float(masses.sum())!r}"/>'
    return f'<inertial><origin xyz="{words(com)}"/>{mass}<inertia {entries}/></inertial>'


def shape(rng: np.random.Generator, reach: float) -> str:
    """A collision shape along a link of a given length."""
    thick = float(rng.uniform(0.02, 0.05))
    kind = int(rng.integers(3))
    along = f'<origin xyz="{reach / 2!r} 0 0" rpy="0 {np.pi / 2!r} 0"/>'
    solid = (
        f'<cylinder radius="{thick!r}" length="{reach!r}"/>',
        f'<box size="{words([1.5 * thick, 2 * thick, reach])}"/>',
        f'<sphere radius="{min(thick, reach / 2)!r}"/>',
    )[kind]
    return f"<collision>{along}<geometry>{solid}</geometry></collision>"


def random_urdf(rng: np.random.Generator, path: Path) -> int:
    """Write a random robot; returns the number of joints."""
    n = int(rng.choice([1, 2, 3, 4, 5, 6], p=[0.1, 0.25, 0.3, 0.2, 0.1, 0.05]))
    links = [
        (
            '<link name="floor"><collision><geometry><box size="0.2 0.2 '
            '0.1"/></geometry></collision></link>'
        )
    ]
    reaches = {"floor": 0.15}
    names = ["floor"]
    for k in range(n):
        parent = str(rng.choice(names)) if rng.random() < 0.15 else names[-1]
        reach = float(rng.uniform(0.12, 0.45))
        slides = rng.random() < 0.15
        kind = "prismatic" if slides else "continuous" if rng.random() < 0.1 else "revolute"
        axis = np.eye(3)[int(rng.integers(3))] if rng.random() < 0.6 else rng.normal(size=3)
        axis /= np.linalg.norm(axis)
        there = (
            [0, 0, 0.15]
            if parent == "floor"
            else [reaches[parent] + float(rng.uniform(0.0, 0.08)), 0, 0]
        )
        turn = (
            np.round(rng.uniform(-2, 2, 3)) * np.pi / 2
            if rng.random() < 0.6
            else rng.uniform(-1, 1, 3)
        )
        low = float(rng.uniform(-0.3, -0.05) if slides else rng.uniform(-2.9, -0.2))
        high = low + float(rng.uniform(0.1, 0.6) if slides else rng.uniform(0.5, 5.0))
        ends = "" if kind == "continuous" else f'lower="{low!r}" upper="{high!r}" '
        limit = f'<limit {ends}velocity="{float(rng.uniform(0.3, 3.0))!r}" effort="1"/>'
        rub = (
            f'<dynamics damping="{float(rng.uniform(0, 1))!r}" '
            f'friction="{float(rng.uniform(0, 1))!r}"/>'
        )
        rub = rub if rng.random() < 0.6 else ""
        links.append(f'<link name="l{k}">{inertial(rng, reach)}{shape(rng, reach)}</link>')
        links.append(
            f'<joint name="j{k}" type="{kind}"><parent link="{parent}"/><child link="l{k}"/>'
            f'<origin xyz="{words(there)}" rpy="{words(turn)}"/><axis '
            f'xyz="{words(axis)}"/>{limit}{rub}</joint>'
        )
        names.append(f"l{k}")
        reaches[f"l{k}"] = reach
    path.write_text(f'<robot name="random">{"".join(links)}</robot>')
    return n


def random_obstacles(rng: np.random.Generator) -> list[dict[str, Any]]:
    """Up to three obstacles about the robot, none at its foot."""
    found: list[dict[str, Any]] = []
    for _ in range(int(rng.integers(0, 4))):
        around, far = float(rng.uniform(-np.pi, np.pi)), float(rng.uniform(0.35, 0.9))
        place = [far * np.cos(around), far * np.sin(around), float(rng.uniform(-0.2, 0.8))]
        kind = int(rng.integers(4))
        if kind == 0:
            found.append(
                {"kind": "sphere", "centre": place, "radius": float(rng.uniform(0.03, 0.15))}
            )
        elif kind == 1:
            top = (np.array(place) + rng.normal(size=3) * 0.3).tolist()
            found.append(
                {
                    "kind": "capsule",
                    "from": place,
                    "to": top,
                    "radius": float(rng.uniform(0.02, 0.08)),
                }
            )
        elif kind == 2:
            tilt = [*(0.15 * rng.normal(size=2)).tolist(), 1.0]
            found.append(
                {"kind": "plane", "point": [0, 0, float(rng.uniform(-0.8, 0.0))], "normal": tilt}
            )
        else:
            lower, upper = rng.uniform(-2.0, -0.5, 3), rng.uniform(0.5, 2.0, 3)
            found.append({"kind": "inside", "lower": lower.tolist(), "upper": upper.tolist()})
    return found


class Checker:
    """A robot as Pinocchio and Coal see it."""

    def __init__(self, path: Path, obstacles: list[dict[str, Any]]) -> None:
        import coal
        import pinocchio as pin

        self.pin, self.model = pin, pin.buildModelFromUrdf(str(path))
        self.data = self.model.createData()
        self.geometry = pin.buildGeomFromUrdf(self.model, str(path), pin.GeometryType.COLLISION)
        own = len(self.geometry.geometryObjects)
        for number, one in enumerate(obstacles):
            for part, (solid, placed) in enumerate(_solids(one, coal, pin)):
                name = f"obstacle {number} {part}"
                self.geometry.addGeometryObject(pin.GeometryObject(name, 0, placed, solid))
        objects = self.geometry.geometryObjects
        for a in range(own):
            for b in range(a + 1, len(objects)):
                first, second = objects[a].parentJoint, objects[b].parentJoint
                near = self.model.parents[max(first, second)] == min(first, second)
                if first != second and (b >= own or not near):
                    self.geometry.addCollisionPair(pin.CollisionPair(a, b))
        self.found = pin.GeometryData(self.geometry)
        self.order = [self.model.getJointId(f"j{k}") for k in range(self.model.njoints - 1)]
        self.places = [self.model.joints[joint].idx_v for joint in self.order]

    def check(
        self, q: Array, dq: Array, ddq: Array, rub: Array, skip: set[str]
    ) -> tuple[Array, dict[str, float]]:
        """Torques (N, n) of the joints in the order j0, j1, ... and least distances by pair."""
        torque, least = np.zeros_like(q), dict[str, float]()
        neutral = self.pin.neutral(self.model)
        for row in range(len(q)):
            at, speed, acceleration = (np.zeros(self.model.nv) for _ in range(3))
            at[self.places], speed[self.places], acceleration[self.places] = (
                q[row],
                dq[row],
                ddq[row],
            )
            position = self.pin.integrate(self.model, neutral, at)
            whole = self.pin.rnea(self.model, self.data, position, speed, acceleration)
            torque[row] = whole[self.places] + rub[0] * dq[row] + rub[1] * np.sign(dq[row])
            self.pin.computeDistances(self.model, self.data, self.geometry, self.found, position)
            for pair, result in zip(self.geometry.collisionPairs, self.found.distanceResults):
                names = [self.geometry.geometryObjects[k].name for k in (pair.first, pair.second)]
                name = " - ".join(one.rsplit("_", 1)[0] for one in names)
                if name not in skip:
                    least[name] = min(least.get(name, np.inf), float(result.min_distance))
        return torque, least


def _solids(one: dict[str, Any], coal: Any, pin: Any) -> list[tuple[Any, Any]]:
    if one["kind"] == "sphere":
        return [(coal.Sphere(one["radius"]), pin.SE3(np.eye(3), np.array(one["centre"])))]
    if one["kind"] == "capsule":
        start, end = np.array(one["from"]), np.array(one["to"])
        turn = pin.Quaternion.FromTwoVectors(np.array([0.0, 0, 1]), end - start).matrix()
        return [
            (
                coal.Capsule(one["radius"], float(np.linalg.norm(end - start))),
                pin.SE3(turn, (start + end) / 2),
            )
        ]
    if one["kind"] == "plane":
        normal = np.array(one["normal"]) / np.linalg.norm(one["normal"])
        return [(coal.Halfspace(normal, float(normal @ one["point"])), pin.SE3.Identity())]
    faces = []
    for axis in range(3):
        faces.append(
            (coal.Halfspace(np.eye(3)[axis], float(one["lower"][axis])), pin.SE3.Identity())
        )
        faces.append(
            (coal.Halfspace(-np.eye(3)[axis], -float(one["upper"][axis])), pin.SE3.Identity())
        )
    return faces


@dataclass
class Case:
    """What is asked of `md.excite`."""

    path: Path
    robot: md.Robot
    obstacles: list[dict[str, Any]]
    effort: Array  # (n,)
    limits: dict[str, Any]
    duration: float
    options: dict[str, Any]

    def design(self, **changed: Any) -> md.Excitation:
        """Return the motion."""
        return md.excite(
            self.robot,
            self.duration,
            friction="own",
            rotor_inertia=None,
            limits=self.limits,
            obstacles=self.obstacles or None,
            floor=False,
            **{**self.options, **changed},
        )


def random_case(seed: int, folder: Path, patience: float = 1.0) -> Case:
    """Return a random robot, its limits and obstacles, and options of a design."""
    rng = np.random.default_rng(seed)
    path = folder / "random.urdf"
    n = random_urdf(rng, path)
    obstacles = random_obstacles(rng)
    robot = md.load(path)
    weight = np.abs(md.gravity_torque(robot, rng.uniform(-2, 2, (50, n)))).max(axis=0)
    effort = weight * rng.uniform(0.9, 4.0, n) + rng.uniform(1.5, 10.0, n)
    path.write_text(_with_efforts(path.read_text(), robot.joint_names, effort))
    robot = md.load(path)
    limits: dict[str, Any] = {}
    if rng.random() < 0.5:
        limits = {"acceleration": float(rng.uniform(1, 8)), "jerk": float(rng.uniform(10, 80))}
    options: dict[str, Any] = {
        "criterion": str(rng.choice(["d", "a", "e", "condition", "predict"])),
        "torque_share": float(rng.uniform(0.5, 1.0)),
        "clearance": float(rng.uniform(0.0, 0.03)),
        "harmonics": int(rng.integers(3, 6)),
        "periods": int(rng.integers(1, 3)),
        "time_limit": patience * float(rng.choice([3.0, 10.0])),
        "seed": seed,
    }
    ends = np.array(
        [(robot.joints[k].limits.lower, robot.joints[k].limits.upper) for k in robot.independent]
    )
    ends = np.where(np.isfinite(ends), ends, [-1.0, 1.0])
    middle, quarter = ends.mean(axis=1), np.ptp(ends, axis=1) / 4
    if rng.random() < 0.4:
        options["start"] = (middle + quarter * rng.uniform(-1, 1, n)).tolist()
        if rng.random() < 0.5:
            options["end"] = (middle + quarter * rng.uniform(-1, 1, n)).tolist()
    duration = float(rng.uniform(2.0, 4.0))
    return Case(path, robot, obstacles, effort, limits, duration, options)


def quality(seed: int, folder: Path) -> dict[str, Any]:
    """Return logdet of five designs of a case that differ in their seeds alone.

    Searches are not cut by time, all with criterion "d"; null: not feasible.
    """
    asked = random_case(seed, folder)
    begun = time.process_time()
    found = [
        asked.design(seed=first, criterion="d", time_limit=None) for first in range(QUALITY_SEEDS)
    ]
    return {
        "seed": seed,
        "joints": asked.robot.n,
        "obstacles": len(asked.obstacles),
        "seconds": round((time.process_time() - begun) / QUALITY_SEEDS, 2),
        "logdet": [one.logdet if one.feasible else None for one in found],
        "poor": [
            any(notice.code == "excite.poor_motion" for notice in one.notices) for one in found
        ],
    }


def case(seed: int, folder: Path, narrower: float, patience: float) -> dict[str, Any]:
    """Design a motion for a random robot and check it against limits narrower by a share.

    Returns what was found.
    """
    asked = random_case(seed, folder, patience)
    robot, obstacles, effort, path = asked.robot, asked.obstacles, asked.effort, asked.path
    limits, options, duration, n = asked.limits, asked.options, asked.duration, asked.robot.n
    begun = time.process_time()
    made = asked.design()
    about: dict[str, Any] = {
        "seed": seed,
        "joints": n,
        "obstacles": len(obstacles),
        "feasible": made.feasible,
    }
    about["seconds"] = round(time.process_time() - begun, 2)
    if not made.feasible:
        told = [notice for notice in made.notices if notice.code == "excite.infeasible"]
        named = (
            len(told) == 1
            and told[0].data["limit"]
            and told[0].data["joint"]
            and told[0].data["share"] > 1
        )
        return about | {
            "limit": told[0].data["limit"] if named else None,
            "exceeded": {} if named else {"unnamed": 1},
        }
    t = np.arange(0.0, duration, 1e-3)
    q, dq, ddq = made.trajectory(t)
    joints = [robot.joints[k] for k in robot.independent]
    rub = np.array(
        [[_value(made.robot, joint.name, term) for joint in joints] for term in ("Fv", "Fc")]
    )
    near = [notice.data["pairs"] for notice in made.notices if notice.code == "excite.always_near"]
    order = [int(name[1:]) for name in robot.joint_names]
    checker = Checker(path, obstacles)
    back = np.argsort(order)
    torque, least = checker.check(
        q[:, back],
        dq[:, back],
        ddq[:, back],
        rub[:, back],
        _pairs(near[0] if near else [], obstacles),
    )
    lower, upper = (
        np.array([getattr(joint.limits, side) for joint in joints]) for side in ("lower", "upper")
    )
    shares = {
        "lower": float((lower - q).max()) + 1.0,
        "upper": float((q - upper).max()) + 1.0,
        "velocity": float((np.abs(dq) / [joint.limits.velocity for joint in joints]).max()),
        "torque": float((np.abs(torque) / (options["torque_share"] * effort[back])).max()),
    }
    if limits:
        shares["acceleration"] = float(np.abs(ddq).max()) / limits["acceleration"]
        shares["jerk"] = float(np.abs(np.diff(ddq, axis=0)).max()) / 1e-3 / limits["jerk"]
    room = {kind: 1 - narrower + (1e-3 if kind == "jerk" else ACCURACY) for kind in shares}
    exceeded = {kind: share for kind, share in shares.items() if share > room[kind]}
    needed = {} if made.clearance is None else _needed(made.clearance)
    exceeded |= {
        name: apart
        for name, apart in least.items()
        if apart < min(options["clearance"], needed.get(name, np.inf)) - NEAR + narrower
    }
    at_rest = np.abs(np.concatenate(made.trajectory([0.0, duration])[1:])).max()
    if at_rest > 1e-9:
        exceeded["rest"] = float(at_rest)
    if "start" in options:
        asked = [options["start"], options.get("end", options["start"])]
        off = float(np.abs(made.trajectory([0.0, duration])[0] - asked).max())
        exceeded |= {"pose": off} if off > 1e-9 else {}
    largest = max(share for kind, share in shares.items() if kind not in ("lower", "upper"))
    return about | {
        "largest": largest,
        "least": min(least.values(), default=None),
        "exceeded": exceeded,
    }


def _with_efforts(text: str, names: tuple[str, ...], effort: Array) -> str:
    for name, one in zip(names, effort.tolist()):
        before, after = text.split(f'<joint name="{name}"', 1)
        text = f'{before}<joint name="{name}"' + after.replace('effort="1"', f'effort="{one!r}"', 1)
    return text


def _value(robot: md.Robot, joint: str, term: str) -> float:
    index = next(k for k, one in enumerate(robot.joints) if one.name == joint)
    found = [c.index for c in robot.layout.columns if c.joint == index and c.symbol == term]
    return float(robot.parameters[found[0]]) if found else 0.0


def _needed(clearance: Any) -> dict[str, float]:
    """Least distance of pairs of hulls, which keep less than others, in either order of names."""
    found: dict[str, float] = {}
    hulls = clearance.hulls
    for (a, b), least in [] if hulls is None else zip(hulls.pairs, hulls.least):
        found |= {f"{a.name} - {b.name}": least - ROUND, f"{b.name} - {a.name}": least - ROUND}
    return found


def _pairs(near: list[str], obstacles: list[dict[str, Any]]) -> set[str]:
    """Names of pairs that minidyn says it does not check, in the checker's words."""
    found = set()
    for name in near:
        first, second = name.split(" - ")
        found |= {name, f"{second} - {first}"}
        for number, one in enumerate(obstacles):
            parts = range(6 if one["kind"] == "inside" else 1)
            if second == one.get("name", f"{one['kind']} {number + 1}") or second == "plane":
                found |= {f"{first} - obstacle {number} {part}" for part in parts}
    return found


def quality_summary(done: list[dict[str, Any]]) -> None:
    """Print how many designs are near the best of their case."""
    compared = [one for one in done if any(value is not None for value in one["logdet"])]
    gaps, silent = list[float](), list[str]()
    for one in compared:
        best = max(value for value in one["logdet"] if value is not None)
        for seed, (value, poor) in enumerate(zip(one["logdet"], one["poor"])):
            gaps.append(np.inf if value is None else best - value)
            if value is not None and gaps[-1] > WITHIN and not poor:
                silent.append(f"{one['seed']}/{seed}: {gaps[-1]:.1f}")
    good = sum(gap <= WITHIN for gap in gaps)
    print(
        f"{len(compared)} of {len(done)} cases can be kept; {good} of {len(gaps)} designs have a "
        f"logdet within {WITHIN:g} of the best of five; further from it without a warning: {silent}"
    )
    print(f"mean processor time of a design: {np.mean([one['seconds'] for one in done]):.1f} s")


def summary(done: list[dict[str, Any]]) -> None:
    """Print what all cases say together."""
    feasible = [one for one in done if one["feasible"]]
    wrong = [one for one in done if one["exceeded"]]
    print(
        f"{len(done)} cases, {len(feasible)} feasible; limits exceeded in {len(wrong)}: "
        f"{[w['seed'] for w in wrong]}"
    )
    print(
        "infeasible ones name: "
        f"{dict(Counter(one['limit'] for one in done if not one['feasible']))}"
    )
    print(f"with obstacles: {sum(one['obstacles'] > 0 for one in feasible)} of the feasible ones")
    if feasible:
        print(
            "median of the largest share of a limit: "
            f"{np.median([one['largest'] for one in feasible]):.4f}"
        )
        print(
            "median processor time of a design: "
            f"{np.median([one['seconds'] for one in done]):.1f} s"
        )


def main() -> None:
    """Run the cases that are not done yet, and print the summary."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--results", type=Path, default=Path("build/excitation_cases.jsonl"))
    parser.add_argument(
        "--narrower", type=float, default=0.0, help="check against limits that are not those kept"
    )
    parser.add_argument(
        "--patience", type=float, default=1.0, help="longer time limits, for a machine that is busy"
    )
    parser.add_argument(
        "--quality", action="store_true", help="compare five designs of each case instead"
    )
    options = parser.parse_args()
    options.results.parent.mkdir(parents=True, exist_ok=True)
    done = (
        [json.loads(line) for line in options.results.read_text().splitlines()]
        if options.results.exists()
        else []
    )
    known = {one["seed"] for one in done}
    with (
        tempfile.TemporaryDirectory() as folder,
        single_thread(),
        options.results.open("a") as file,
    ):
        for seed in range(options.first, options.first + options.cases):
            if seed in known:
                continue
            if options.quality:
                done.append(quality(seed, Path(folder)))
                print(json.dumps(done[-1]), file=file, flush=True)
                continue
            found = case(seed, Path(folder), options.narrower, options.patience)
            done.append(found)
            print(json.dumps(found), file=file, flush=True)
            if found["exceeded"]:
                print(f"seed {seed}: {found['exceeded']}", flush=True)
    (quality_summary if options.quality else summary)(done)


if __name__ == "__main__":
    main()
