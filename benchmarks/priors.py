"""What does a prior cost where it is wrong, and gain where it is right?

Errors of identifications with the values of a robot file, good and bad ones, and without.

    python benchmarks/priors.py                 prints the table (243 cases, about four minutes of processor time)
    python benchmarks/priors.py --cases 27      a sample
    python benchmarks/priors.py --each          also a line for each case
    python benchmarks/priors.py --draws 4       each case with four draws of the noise: one shows chance, too

A case is a robot, a motion (rich, short, or weak: few joints move, slowly), noise, friction that
the model lacks in some, and values of the robot file that err in one of the ways in which published
ones do. The error is that of the torque on another, rich motion, without noise: ‖model - truth‖ /
‖truth‖; of several draws, its root mean square.
"""  # noqa: E501

from __future__ import annotations

import argparse
import os
from collections import defaultdict
from dataclasses import dataclass

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

import minidyn as md
from minidyn.identification.consistency.consistency import consistent_model
from minidyn.identification.estimators.least_squares import WLS
from minidyn.identification.estimators.method import Options
from minidyn.model.parameters import from_body, to_body

ROBOTS = ("ur10e", "panda", "ur5e", "ur10e")
LIGHT = (
    1.0,
    1.0,
    1.0,
    0.15,
)  # masses of the truth, times those of the file: the last one is a light arm
MOTIONS = ("rich", "short", "weak")
PRIORS = (
    "5 %",
    "30 %",
    "too heavy",
    "too light",
    "massless wrist",
    "massless",
    "zero centres",
    "other links",
    "points",
)
TERMS = ("viscous", "coulomb", "offset")
DRIVES = {"Ia": 0.3, "Fv": 2.0, "Fc": 3.0, "Fo": 0.3, "Fs": 2.0}


@dataclass(frozen=True)
class Case:
    """One simulated identification."""

    number: int
    robot: str
    motion: str
    prior: str
    noise: float
    stribeck: bool


def case(number: int) -> Case:
    """Return the case of a number: kinds of priors and motions in turn, the rest drawn."""
    rng = np.random.default_rng(number)
    noise, stribeck = float(rng.choice([0.02, 0.05, 0.1])), bool(rng.random() < 0.3)
    motion = MOTIONS[number // len(PRIORS) % len(MOTIONS)]
    return Case(
        number,
        str(rng.integers(len(ROBOTS))),
        motion,
        PRIORS[number % len(PRIORS)],
        noise,
        stribeck,
    )


def truth(one: Case) -> md.Robot:
    """Return the true robot.

    Bodies of the file within 20 %, rotors and friction of ordinary size.
    """
    rng, which = np.random.default_rng([1, one.number]), int(one.robot)
    terms = (*TERMS, "stribeck") if one.stribeck else TERMS
    robot = md.load(ROBOTS[which]).with_drives(True, terms, 0.03)
    if one.stribeck:
        robot = robot.with_drives(stribeck_speed=0.1)
    values = robot.parameters.copy()
    for part in robot.layout.links:
        mass, com, inertia = to_body(values[part])
        scale = LIGHT[which] * rng.uniform(0.8, 1.25)
        values[part] = from_body(
            scale * mass, com + 0.02 * rng.normal(size=3), scale * inertia + 1e-4 * np.eye(3)
        )
    for column in (column for columns in robot.layout.drives for column in columns):
        values[column.index] = (
            DRIVES[column.symbol] * LIGHT[which] * 0.7**column.joint * rng.uniform(0.7, 1.3)
        )
    return robot.with_parameters(values)


def described(one: Case, true: md.Robot) -> np.ndarray:
    """Return the standard parameters that the robot file has.

    Drives unknown, bodies wrong in the way of the case.
    """
    rng, given = np.random.default_rng([2, one.number]), true.parameters.copy()
    links = true.layout.links
    bodies = [to_body(given[part]) for part in links]
    if one.prior == "other links":
        bodies = [bodies[k] for k in rng.permutation(len(bodies))]
    for index, (part, (mass, com, inertia)) in enumerate(zip(links, bodies)):
        if one.prior in ("5 %", "30 %"):
            size = float(one.prior.split()[0]) / 100
            scale = np.exp(size * rng.normal())
            mass, com, inertia = (
                scale * mass,
                com * (1 + size * rng.normal(size=3)),
                scale * inertia,
            )
        elif one.prior in ("too heavy", "too light"):
            scale = rng.uniform(2, 5) if one.prior == "too heavy" else rng.uniform(0.1, 0.4)
            mass, inertia = scale * mass, scale * inertia
        elif one.prior == "massless" or (
            one.prior == "massless wrist" and index >= len(links) // 2
        ):
            mass, inertia = 1e-3, 1e-6 * np.eye(3)
        elif one.prior == "zero centres":
            com = np.zeros(3)
        elif one.prior == "points":
            inertia = 1e-4 * inertia
        given[part] = from_body(mass, com, inertia)
    given[[column.index for columns in true.layout.drives for column in columns]] = np.nan
    return given


def log(one: Case, true: md.Robot, draw: int = 0) -> md.Recording:
    """Return what was recorded.

    Motion as it was, torques with noise, of which there are several draws.
    """
    rng = np.random.default_rng([3, one.number])
    t = np.arange(0, 4.0 if one.motion == "short" else 10.0, 0.01)
    q, dq, ddq = md.trajectory.fourier(
        true, seed=one.number, speed=0.3 if one.motion == "weak" else 1.5
    )(t)
    if one.motion == "weak":
        still = rng.permutation(true.n)[: true.n // 3]
        q[:, still], dq[:, still], ddq[:, still] = q[0, still], 0.0, 0.0
    tau = md.inverse_dynamics(true, q, dq, ddq)
    size = np.sqrt(np.mean(tau**2, axis=0)) + 0.05 * np.sqrt(np.mean(tau**2))
    rng = np.random.default_rng([3, one.number, draw]) if draw else rng
    return md.Recording(
        t, q, tau + one.noise * size * rng.normal(size=tau.shape), dq, ddq, true.joint_names
    )


def errors(one: Case, draws: int = 1) -> tuple[float, float, dict[str, object]]:
    """Return held-out errors with the prior and without, and what was chosen in the first draw of
    the noise.
    """
    true = truth(one)
    model = md.load(ROBOTS[int(one.robot)]).with_drives(True, TERMS, 0.03)
    base = md.base_parameters(model)
    names = set(model.parameter_names)
    given = np.array(
        [v for v, name in zip(described(one, true), true.parameter_names) if name in names]
    )
    t = np.arange(0, 20.0, 0.05)
    motion = md.trajectory.fourier(true, seed=10_000 + one.number, speed=1.5)(t)
    tau = md.inverse_dynamics(true, *motion)
    squares, told = np.zeros(2), dict[str, object]()
    for draw in range(draws):
        recording = log(one, true, draw)
        found = WLS.solve(model, base, recording, Options(allow_open=True))
        for place, known in enumerate((given, None)):
            fit, notices, record, _ = consistent_model(model, base, found, recording, known)
            off = md.inverse_dynamics(model.with_parameters(fit.phi), *motion) - tau
            squares[place] += float(np.sum(off**2) / np.sum(tau**2)) / draws
            codes = [notice.code for notice in notices]
            told = told or {
                "scale": record.get("prior_scale"),
                "notices": codes,
                "record": record,
            }
    with_it, without = np.sqrt(squares)
    return float(with_it), float(without), told


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--cases", type=int, default=243)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--draws", type=int, default=1, help="of the noise of each case")
    parser.add_argument("--each", action="store_true", help="a line a case")
    chosen = parser.parse_args()
    ratios = defaultdict(list)
    for number in range(chosen.first, chosen.first + chosen.cases):
        one = case(number)
        with_it, without, told = errors(one, chosen.draws)
        ratios[one.prior].append(with_it / without)
        if chosen.each:
            print(
                f"{number:4} {ROBOTS[int(one.robot)]:8}{one.robot} {one.motion:6} {one.prior:15} "
                f"{one.noise:.2f} {'stribeck' if one.stribeck else '        '} "
                f"{100 * with_it:6.2f} % {100 * without:6.2f} % {with_it / without:6.3f}  "
                f"{told['scale']} {told['notices']}",
                flush=True,
            )
    print(
        "| values of the file | cases | error over that without prior: median | worst | worse by "
        "more than 5 % |"
    )
    print("|---|---:|---:|---:|---:|")
    ratios["all"] = [ratio for found in ratios.values() for ratio in found]
    for name, found in ratios.items():
        worse = int(np.sum(np.array(found) > 1.05))
        print(f"| {name} | {len(found)} | {np.median(found):.2f} | {max(found):.2f} | {worse} |")


if __name__ == "__main__":
    main()
