"""Base parameters of one robot by other tools: the count, and the time to find and group them."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pinocchio as pin
from numpy.typing import NDArray
from scipy.linalg import qr, solve_triangular

import minidyn as md

Array = NDArray[np.float64]
SAMPLES = 100


def states(n: int) -> tuple[Array, Array, Array]:
    """Return random positions, speeds and accelerations (samples, n)."""
    q, dq, ddq = np.random.default_rng(0).uniform(-3, 3, (3, SAMPLES, n))
    return q, dq, ddq


def by_pinocchio(model: pin.Model) -> int:
    """Return the count from Pinocchio's regressor and a pivoted QR, with the grouping that belongs
    to it.
    """
    data = model.createData()
    W = np.vstack(
        [pin.computeJointTorqueRegressor(model, data, *x) for x in zip(*states(model.nv))]
    )
    R = qr(W, mode="r", pivoting=True)[0]
    size = np.abs(np.diag(R))
    rank = int(np.sum(size > size[0] * max(W.shape) * np.finfo(float).eps))
    solve_triangular(R[:rank, :rank], R[:rank, rank:])  # how the others add to those that are kept
    return rank


def by_figaroh(model: pin.Model) -> int:
    """Return FIGAROH's count: its regressor, its zero columns, its QR and its formulas as text."""
    from figaroh.identification.parameter import get_standard_parameters
    from figaroh.tools.qrdecomposition import get_baseParams
    from figaroh.tools.regressor import (
        build_regressor_basic,
        build_regressor_reduced,
        get_index_eliminate,
    )

    rigid = {"has_friction": False, "has_actuator_inertia": False, "has_joint_offset": False}
    settings: dict[str, Any] = {
        **rigid,
        "is_joint_torques": True,
        "act_idxv": list(range(model.nv)),
    }
    values = get_standard_parameters(model, settings)
    W = build_regressor_basic(pin.RobotWrapper(model), *states(model.nv), settings)
    dropped, kept = get_index_eliminate(W, values, 1e-6)
    return len(get_baseParams(build_regressor_reduced(W, dropped), kept, values)[1])


def by_us(robot: md.Robot, method: str) -> int:
    """Return our count, with relations as text."""
    base = md.base_parameters(robot, method)
    base.relations()
    return base.rank


def least(call: Callable[[], int], rounds: int = 5) -> tuple[int, float]:
    """Return what a call gives and its least CPU time in seconds."""
    found, seconds = call(), []
    for _ in range(rounds):
        start = time.process_time()
        call()
        seconds.append(time.process_time() - start)
    return found, min(seconds)
