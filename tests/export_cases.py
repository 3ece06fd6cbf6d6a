"""Robots with bodies and drives that are not zero, estimates of them, and states.

What tests of exports share.
"""

from __future__ import annotations

import numpy as np

import minidyn as md
import robot_cases
from minidyn.identification.estimate import Estimate
from minidyn.notices import Notice

ALL = ("viscous", "coulomb", "offset")


def filled(robot: md.Robot, rng: np.random.Generator) -> md.Robot:
    """Return the robot with real bodies and drives that are not zero."""
    values = robot.parameters.copy()
    for part in robot.layout.links:
        values[part] = robot_cases.random_body(rng, away=0.1, heaviest=2.0)
    for columns in robot.layout.drives:
        for column in columns:
            values[column.index] = rng.uniform(0.1, 1)
    return robot.with_parameters(values)


def driven(name: str, rng: np.random.Generator) -> md.Robot:
    return filled(md.load(name).with_drives(rotor_inertia=True, friction=ALL, sign_width=0.05), rng)


def estimate_of(robot: md.Robot, rng: np.random.Generator, consistent: bool = True) -> Estimate:
    """Return an estimate of the robot itself, or one that no robot can have and whose masses are
    zero.
    """
    base = md.base_parameters(robot)
    beta = base.values(robot.parameters)
    phi = robot.parameters
    if not consistent:
        beta = beta * (1 + 0.5 * rng.normal(size=base.rank))
        phi = base.lift(beta)
    covariance = np.diag((0.1 * np.abs(beta) + 0.01) ** 2)
    record = {"cutoff": 5.0, "curve": [[0.0, np.inf], [1.0, 0.1 + 0.2]], "note": None}
    return Estimate(
        robot.with_parameters(phi), base, beta, covariance, np.ones(robot.n), "wls", consistent, 12.5, 100,  # noqa: E501
        (Notice("test.notice", "warning", "a notice", "Look.", {"count": 2}),), record,
    )  # fmt: skip


def states(robot: md.Robot, rng: np.random.Generator, samples: int = 8) -> tuple[np.ndarray, ...]:
    return tuple(rng.normal(size=(samples, robot.n)) for _ in range(3))


def predicted(estimate: Estimate, motion: tuple[np.ndarray, ...]) -> np.ndarray:
    q, dq, ddq = motion
    return estimate.predict(
        md.Recording(np.arange(len(q)), q, q, dq, ddq, estimate.robot.joint_names)
    )


def close(found: np.ndarray, wanted: np.ndarray) -> None:
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-9 * np.abs(wanted).max())
