"""One joint whose torques contradict those of the others, without any prior.

Joints share masses and inertias: what a link weighs shows at every joint that carries it. So the
scale of one joint's torque against the others can be fitted together with the base parameters,

    tau_k = Y_k beta   for all other joints k,      c tau_j = Y_j beta,

and a joint j with a wrong gain 1 / c is found where that lowers the residuals clearly. A factor
that all joints have in common cannot be seen from torques alone.
"""

from __future__ import annotations

import math

import numpy as np

from minidyn.arrays import Array
from minidyn.base.base_map import BaseMap
from minidyn.identification.diagnose.thresholds import LARGE, SAMPLES
from minidyn.identification.estimators.method import Solution
from minidyn.identification.rows.base_rows import Samples, has_motion, steady_regressor
from minidyn.identification.rows.block_products import solved
from minidyn.identification.sizes import MAX_FITS
from minidyn.model.robot import Robot
from minidyn.notices import Notice, error
from minidyn.recording.lazy import AnyRecording

JOINT_SCALE = error(
    "signals.joint_scale",
    "The torques of one joint contradict those of the others by a factor: its drive gain or gear "
    "ratio is wrong.",
    "Check drive gain and gear ratio of joint {joint!r} (drive_gain and gear_ratio of a mapping "
    "file, --mapping).",
)

MIN_LOG_GAIN = 0.5
"""Of the residuals' variances, sum over joints. On measured logs it is at most 0.26, with the gain
of one joint 30 % off at least 1.8 in simulation."""


def joint_scale_notices(
    robot: Robot, base: BaseMap, data: AnyRecording, solution: Solution
) -> list[Notice]:
    """Return a notice where one joint's torques contradict those of the others."""
    if base.rows is not None or base.model == "gravity" or robot.n < 2:
        return []
    if not has_motion(data):
        return []
    tile = next(iter(data.tiles()))
    some = Samples.all_of(tile)[:: max(1, len(tile) // SAMPLES)]
    Y = steady_regressor(robot, base, *some.motion)
    rows = np.concatenate([Y, some.tau[..., None]], axis=-1)
    products = np.einsum("nkb,nkc->kbc", rows, rows, optimize=True) / len(some)
    if len(some) * robot.n < 4 * base.rank or not np.all(products[:, -1, -1] > 0):
        return []
    plain, _ = _settled(products, solution.sigma, -1)
    tried = [_settled(products, solution.sigma, joint) for joint in range(robot.n)]
    gains = np.array([float(np.sum(np.log(plain / variances))) for variances, _ in tried])
    factors = np.array([1.0 / c if c > 0 else math.nan for _, c in tried])
    is_off = np.abs(np.log(factors)) > LARGE  # nearer to one it may be friction the model lacks
    gains = np.where(is_off, gains, -math.inf)
    best = int(np.argmax(gains))
    if not gains[best] > MIN_LOG_GAIN:
        return []
    names = robot.joint_names
    alike = [k for k in np.argsort(-gains).tolist() if gains[k] > (1 - LARGE) * gains[best]]
    words = ", or ".join(f"those of {names[k]} are {factors[k]:.3g} times" for k in alike)
    text = f"torques of single joints contradict each other: {words} what the other joints say"
    data_ = {"joint": names[best], "factor": float(factors[best]), "gain": float(gains[best])}
    return [JOINT_SCALE(text, **data_, joints=[names[k] for k in alike])]


def _settled(products: Array, noise_std: Array, joint: int) -> tuple[Array, float]:
    """Return the variances of residuals (n,), weights in agreement, and the scale c of a joint.

    Mean products of columns and torque are those of each joint (n, b + 1, b + 1). Joint -1: none
    has a scale, c is one. Residuals of the joint are those of its torque, not of c times it.
    """
    variances, c = np.maximum(noise_std, 1e-300) ** 2, 1.0
    torque = products.shape[-1] - 1
    for _ in range(MAX_FITS):
        whole = np.zeros((torque + 2, torque + 2))  # the joint's torque is a column, not the right
        for place, (own, variance) in enumerate(zip(products, variances)):
            at = [*range(torque), torque if place == joint else torque + 1]
            whole[np.ix_(at, at)] += own / variance
        *beta, minus_c = solved(whole)[0]
        c = 1.0 if joint < 0 else float(-minus_c)
        if not c > 0:
            break
        factors = np.tile([*beta, -1.0], (len(products), 1))
        factors[joint, :-1] /= c
        squares = np.einsum("kb,kbc,kc->k", factors, products, factors)
        variances = np.maximum(squares, 1e-12 * products[:, -1, -1])
    return variances, c
