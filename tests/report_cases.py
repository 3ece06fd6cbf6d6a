"""Estimates and runs that tests of the report share.

Small, quick, and one with names that want to break out.
"""

from __future__ import annotations

from functools import cache

import numpy as np

import minidyn as md
from conftest import OWN

HOSTILE_NAME = "</script><img src=x onerror=alert(1)>\"'&`${1}"


@cache
def small_runs() -> tuple[md.Recording, md.Recording]:
    """Return two noisy runs of the two-link arm with friction.

    q and tau alone, as a log has them.
    """
    robot = _true()
    rng = np.random.default_rng(0)
    runs = []
    for seed in (1, 2):
        t = np.arange(0.0, 10.0, 0.005)
        q, dq, ddq = md.trajectory.fourier(robot, seed=seed, period=5.0)(t)
        tau = md.inverse_dynamics(robot, q, dq, ddq)
        tau = tau + 0.01 * tau.std(axis=0) * rng.normal(size=tau.shape)
        runs.append(md.Recording(t, q, tau, joint_names=robot.joint_names))
    return runs[0], runs[1]


def _true() -> md.Robot:
    robot = md.load("two_link").with_drives(True, ("viscous", "coulomb"))
    values = robot.parameters.copy()
    for column in robot.layout.columns:
        if not column.is_inertial:
            values[column.index] = {"Ia": 0.1, "Fv": 2.0, "Fc": 4.0}[column.symbol]
    return robot.with_parameters(values)


@cache
def small_estimate() -> md.Estimate:
    """Return the two-link arm as identified from the first run; it was believed 20 % lighter."""
    robot = md.load("two_link").with_drives(True, ("viscous", "coulomb"))
    return md.identify(robot.with_parameters(0.8 * robot.parameters), small_runs()[0], **OWN)


@cache
def hostile_estimate() -> tuple[md.Estimate, md.Recording, md.Recording]:
    """Return an estimate and two runs of an arm whose every name is an attack."""
    names = [HOSTILE_NAME, "\u202ereversed\x00\n" + "x" * 300, "joint3"]
    robot = md.Robot.from_mdh(
        "RRP",
        alpha=[0, np.pi / 2, 0],
        a=[0, 0.3, 0.2],
        d=[0.1, 0, 0.1],
        name=HOSTILE_NAME,
        friction="viscous",
    )
    from dataclasses import replace

    joints = tuple(replace(joint, name=name) for joint, name in zip(robot.joints, names))
    values = np.tile([0.1, 0, 0, 0.1, 0, 0.1, 0.2, 0, 0, 2.0, 0.5], 3)
    robot = replace(
        robot, joints=joints, link_names=(HOSTILE_NAME, "--><!--", "]]>"), parameters=values
    )
    rng = np.random.default_rng(0)
    runs = []
    for seed in (1, 2):
        t = np.arange(0.0, 6.0, 0.01)
        q, dq, ddq = md.trajectory.fourier(robot, seed=seed, period=3.0)(t)
        tau = md.inverse_dynamics(robot, q, dq, ddq) + 0.01 * rng.normal(size=q.shape)
        runs.append(md.Recording(t, q, tau, dq=dq, ddq=ddq, joint_names=robot.joint_names))
    return md.identify(robot, runs[0], **OWN), runs[0], runs[1]
