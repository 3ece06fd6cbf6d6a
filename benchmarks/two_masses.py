"""A robot whose links hang on springs behind its drives: two masses a joint, integrated finely.

No formula of `minidyn.identification.flexibility` is used here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import make_interp_spline

import minidyn as md

Array = NDArray[np.float64]
Motion = Callable[[Array], tuple[Array, Array, Array]]

STEP = 1e-3
"""s, of the integration (Runge and Kutta's fourth order); each sample time is a multiple of it."""


PLAIN = ("viscous", "coulomb", "offset")


def parts_of(robot: md.Robot) -> tuple[Array, Array]:
    """Return the parameters (p,) of links alone and of drives alone."""
    drives = [column.index for own in robot.layout.drives for column in own]
    links, others = np.array(robot.parameters), np.zeros(len(robot.parameters))
    others[drives], links[drives] = links[drives], 0.0
    return links, others


def planted_stiffness(robot: md.Robot, frequency: float, rng: Any) -> Array:
    """Return springs (n,) on which each link alone swings at about a frequency, Hz."""
    q = md.trajectory.fourier(robot, seed=0)(np.linspace(0.0, 10.0, 50))[0]
    inertia = np.diagonal(
        md.inertia_matrix(robot.with_drives(False, ()), q), axis1=-2, axis2=-1
    ).mean(axis=0)
    return np.asarray(inertia * (2 * np.pi * frequency) ** 2 * rng.uniform(0.7, 1.4, robot.n))


def two_mass_torque(
    robot: md.Robot,
    k: Array,
    motion: Motion,
    t: Array,
    side: str = "motor",
    damping: float = 0.05,
    before: float = 1.0,
) -> Array:
    """Return what the motors give (N, n) at even times (N,), when drives ("motor") or links
    ("link") follow a motion.

    Drives that follow it lead the links through springs k (n,) with some damping: M(q) q̈ + h = k
    (p - q) + d (ṗ - q̇) is integrated from some seconds before. Links that follow it need a load;
    drives are where it bends the springs to.
    """
    links, drives = parts_of(robot)
    if side == "link":
        return _led_by_links(robot, k, motion, t, links, drives)
    bare = robot.with_drives(False, ())
    bare = bare.with_parameters([links[robot.layout.index(name)] for name in bare.parameter_names])
    accelerations = md.compile(bare, "forward_dynamics")
    half = np.arange(round(2 * (t[-1] + before) / STEP) + 1) * STEP / 2 - before
    p, v, _ = motion(half)
    inertia = np.diagonal(md.inertia_matrix(bare, p[::500]), axis1=-2, axis2=-1).mean(axis=0)
    d = 2 * damping * np.sqrt(k * inertia)
    load = md.inverse_dynamics(bare, *motion(half[:9]))
    x, u = p[0] - load[0] / k, v[0] - make_interp_spline(half[:9], load, 5)(half[0], 1) / k

    def slope(x: Array, u: Array, at: int) -> Array:
        return np.asarray(accelerations(x, u, k * (p[at] - x) + d * (v[at] - u)))

    found = np.empty((len(half) // 2 + 1, 2, robot.n))
    for step in range(len(found)):
        found[step] = x, u
        if step == len(found) - 1:
            break
        at = 2 * step
        a1 = slope(x, u, at)
        u2 = u + STEP / 2 * a1
        a2 = slope(x + STEP / 2 * u, u2, at + 1)
        u3 = u + STEP / 2 * a2
        a3 = slope(x + STEP / 2 * u2, u3, at + 1)
        u4 = u + STEP * a3
        a4 = slope(x + STEP * u3, u4, at + 2)
        x, u = x + STEP / 6 * (u + 2 * u2 + 2 * u3 + u4), u + STEP / 6 * (a1 + 2 * a2 + 2 * a3 + a4)
    springs = k * (p[::2] - found[:, 0]) + d * (v[::2] - found[:, 1])
    at = np.rint((t + before) / STEP).astype(int)
    return np.asarray(springs[at] + md.inverse_dynamics(robot, *motion(t), drives))


def _led_by_links(
    robot: md.Robot, k: Array, motion: Motion, t: Array, links: Array, drives: Array
) -> Array:
    fine = np.arange(round((t[-1] + 0.2) / STEP) + 1) * STEP - 0.1
    q, dq, ddq = motion(fine)
    load = md.inverse_dynamics(robot, q, dq, ddq, links)
    bent = make_interp_spline(fine, load / k, 5)
    moved = [one + bent(fine, order) for order, one in enumerate((q, dq, ddq))]
    return np.asarray(load + md.inverse_dynamics(robot, *moved, drives))[
        np.rint((t + 0.1) / STEP).astype(int)
    ]


def driven(seed: int, name: str = "two_link", coupled: bool = False) -> md.Robot:
    """Return a robot with rotors and friction.

    Its last drive may be turned by the joint before, too.
    """
    rng = np.random.default_rng(seed)
    robot = md.load(name)
    before, last = robot.joint_names[-2:]
    robot = robot.with_drives(
        True, PLAIN, sign_width=0.05, coupling={last: {before: 0.5}} if coupled else None
    )
    values = np.nan_to_num(np.array(robot.parameters))
    inertia = np.diagonal(md.inertia_matrix(md.load(name), np.zeros(robot.n)))
    for joint, own in enumerate(robot.layout.drives):
        sizes = {
            "Ia": 0.3 * inertia[joint],
            "Fv": 0.5 * inertia[joint],
            "Fc": inertia[joint],
            "Fo": 0.1,
        }
        for column in own:
            values[column.index] = rng.uniform(0.5, 1.5) * sizes[column.symbol]
    return robot.with_parameters(values)


def log_of(
    robot: md.Robot, k: Array | None, side: str, seed: int
) -> tuple[md.Recording, md.Recording]:
    """Return a raw log with noise, and another run with exact torques."""
    rng, t = np.random.default_rng(seed), np.arange(3000) / 500.0
    runs = []
    for number in (seed, seed + 100):
        motion = md.trajectory.fourier(robot, seed=number, period=3.0, harmonics=9, speed=3.0)
        q, dq, ddq = motion(t)
        if k is None:
            tau = np.asarray(md.inverse_dynamics(robot, q, dq, ddq))
        else:
            tau = two_mass_torque(robot, k, motion, t, side)
        runs.append(md.Recording(t, q, tau, dq, ddq, robot.joint_names))
    noise = 0.005 * np.sqrt(np.mean(runs[0].tau ** 2, axis=0)) * rng.normal(size=runs[0].tau.shape)
    q = runs[0].q + 2e-6 * rng.normal(size=runs[0].q.shape)
    return md.Recording(t, q, runs[0].tau + noise, joint_names=robot.joint_names), runs[1]
