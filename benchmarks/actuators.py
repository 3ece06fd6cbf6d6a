"""Actuator values from encoders alone.

Bias, spread and stated deviations over many simulated servo arms; time.

    python benchmarks/actuators.py [--runs 500] [--case leg]

Drives, gains, delays and motions are drawn anew in each run. The simulator of this file is not that
of the fit: runs side by side, Runge-Kutta steps of 0.05 ms over which friction has the sign of each
stage's speed, so that a joint that sticks trembles by less than a hundredth of the noise. Runs by
itself.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np

import minidyn as md
from minidyn.recording.recording import COMMAND

CASES: dict[str, dict[str, Any]] = {
    "two_link": {"robot": "two_link", "gains": (60.0, 3.0), "drive": (0.1, 0.2, 0.4, 0.1)},
    "leg": {"robot": 1, "gains": (25.0, 0.5), "drive": (0.015, 0.1, 0.2, 0.05)},
    "so101": {
        "robot": "so101",
        "gains": (18.0, 0.6),
        "drive": (0.03, 0.1, 0.06, 0.02),
        "counts": 4096,
    },
    "legs": {"robot": 4, "gains": (25.0, 0.5), "drive": (0.015, 0.1, 0.2, 0.05)},
}
"""Middle values of kp and kd, of armature, viscous and Coulomb friction and bias.

Each is drawn within a factor of 1.5. Encoders have noise of 0.2 mrad, or counts per turn alone.
"""

RATE, NOISE, STEP, SECONDS, SPEED = 200, 2e-4, 5e-5, 2.0, 3.0
NAMES = ("armature", "viscous", "coulomb", "bias", "kp")
_AT_ONCE = 50


def legs(number: int) -> Any:
    """Return legs of a quadruped, three joints each, the trunk held."""
    parts = ['<robot name="legs"><link name="trunk"/>']
    for leg, (x, y) in enumerate(((0.2, 0.1), (0.2, -0.1), (-0.2, 0.1), (-0.2, -0.1))[:number]):
        above = "trunk"
        chain = (
            ("hip", f"{x} {y} 0", "1 0 0", 0.7),
            ("thigh", "0 0.08 0", "0 1 0", 1.0),
            ("calf", "0 0 -0.21", "0 1 0", 0.2),
        )
        for name, place, axis, mass in chain:
            own = f"{name}{leg}"
            size = mass * 0.004
            parts.append(
                f'<link name="{own}"><inertial><origin xyz="0 0.01 -0.06"/><mass '
                f'value="{mass}"/><inertia ixx="{size}" iyy="{size}" izz="{size / 5}" ixy="0" '
                'ixz="0" iyz="0"/></inertial></link>'
                f'<joint name="{own}" type="continuous"><parent link="{above}"/><child '
                f'link="{own}"/>'
                f'<origin xyz="{place}"/><axis xyz="{axis}"/></joint>'
            )
            above = own
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "legs.urdf"
        file.write_text("".join(parts) + "</robot>")
        return md.load(file)


def robot_of(case: dict[str, Any]) -> Any:
    """Return the robot of a case, its links alone."""
    made = legs(case["robot"]) if isinstance(case["robot"], int) else md.load(case["robot"])
    return made.with_drives(False, ())


def drawn(case: dict[str, Any], n: int, runs: int, rng: Any) -> dict[str, np.ndarray]:
    """Return true values of runs, (runs, n) each, delay (runs,)."""
    middle = dict(zip((*NAMES, "kd"), (*case["drive"], *case["gains"])))
    true = {name: value * 1.5 ** rng.uniform(-1, 1, (runs, n)) for name, value in middle.items()}
    true["bias"] *= rng.choice([-1.0, 1.0], (runs, n))
    return true | {"delay": rng.uniform(0.002, 0.02, runs)}


def simulated(
    robot: Any,
    true: dict[str, np.ndarray],
    motions: list[Any],
    seconds: float = SECONDS,
    h: float = STEP,
) -> tuple[Any, Any, Any]:
    """Return times (N,), commanded and true positions (runs, N, n); the robot begins at rest."""
    inertia, inverse = md.compile(robot, "inertia_matrix"), md.compile(robot, "inverse_dynamics")
    steps, every = round(seconds / h), round(1 / RATE / h)
    half = np.arange(2 * steps + 1) * h / 2
    late = np.stack(
        [motion(np.maximum(half - d, 0.0))[0] for motion, d in zip(motions, true["delay"])], axis=1
    )
    q, v, own = late[0].copy(), np.zeros_like(late[0]), np.arange(robot.n)
    viscous = true["kd"] + true["viscous"]

    def slope(q: Any, v: Any, u: Any) -> Any:
        A = inertia(q)
        A[:, own, own] += true["armature"]
        torque = true["kp"] * (u - q) - viscous * v - true["coulomb"] * np.sign(v) - true["bias"]
        return np.linalg.solve(A, (torque - inverse(q, v, np.zeros_like(q)))[..., None])[..., 0]

    kept = [q]
    for k in range(steps):
        u = late[2 * k : 2 * k + 3]
        a1 = slope(q, v, u[0])
        v2 = v + h / 2 * a1
        a2 = slope(q + h / 2 * v, v2, u[1])
        v3 = v + h / 2 * a2
        a3 = slope(q + h / 2 * v2, v3, u[1])
        v4 = v + h * a3
        a4 = slope(q + h * v3, v4, u[2])
        q, v = q + h / 6 * (v + 2 * (v2 + v3) + v4), v + h / 6 * (a1 + 2 * (a2 + a3) + a4)
        if (k + 1) % every == 0:
            kept.append(q)
    t = np.arange(len(kept)) / RATE
    return t, np.stack([motion(t)[0] for motion in motions]), np.stack(kept, axis=1)


def logs_of(name: str, runs: int) -> Any:
    """Yield (robot, log, true values) of the runs of a case."""
    case, rng = CASES[name], np.random.default_rng(0)
    robot = robot_of(case)
    for begin in range(0, runs, _AT_ONCE):
        some = range(begin, min(begin + _AT_ONCE, runs))
        true = drawn(case, robot.n, len(some), rng)
        motions = [md.trajectory.fourier(robot, seed=k + 1, period=2.0, speed=SPEED) for k in some]
        t, u, q = simulated(robot, true, motions)
        count = 2 * np.pi / case["counts"] if "counts" in case else 0.0
        q = np.round(q / count) * count if count else q + NOISE * rng.normal(size=q.shape)
        for k in range(len(some)):
            log = md.Recording(
                t, q[k], None, joint_names=robot.joint_names, telemetry={COMMAND: u[k]}
            )
            yield robot, log, {key: value[k] for key, value in true.items()}


def main() -> None:
    """Measure and print."""
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("--runs", type=int, default=500)
    words.add_argument("--case", choices=CASES, default="leg")
    given = words.parse_args()
    apart: dict[str, list[float]] = defaultdict(list)
    stated: dict[str, list[float]] = defaultdict(list)
    times, unsettled = list[float](), 0
    for robot, log, true in logs_of(given.case, given.runs):
        begin = time.process_time()
        found = md.identify_actuators(robot, log, {"kd": true["kd"]})
        times.append(time.process_time() - begin)
        unsettled += any(notice.code == "actuators.not_settled" for notice in found.notices)
        for name in (*NAMES, "delay"):
            value, std = np.atleast_1d(getattr(found, name)), np.atleast_1d(found.std[name])
            apart[name] += ((value - true[name]) / std).tolist()
            stated[name] += (std / np.abs(true[name])).tolist()
    print(
        f"{given.case}: {len(times)} runs, {np.median(times):.2g} s of one core (most "
        f"{max(times):.2g} s), ",
        end="",
    )
    print(f"{unsettled} not settled; bias and spread in stated deviations")
    print(
        "| value | bias | spread | stated deviation (median) | within 2 deviations |\n"
        "|---|---:|---:|---:|---:|"
    )
    for name in apart:
        z = np.array(apart[name])
        shown = f"{z.mean():+.2f} | {z.std():.2f} | {100 * np.median(stated[name]):.2g} %"
        print(f"| {name} | {shown} | {100 * np.mean(np.abs(z) <= 2):.1f} % |")
    z = np.concatenate([*map(np.array, apart.values())])
    print(f"| all | {z.mean():+.2f} | {z.std():.2f} | - | {100 * np.mean(np.abs(z) <= 2):.1f} % |")


if __name__ == "__main__":
    main()
