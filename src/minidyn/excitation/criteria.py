"""How good a motion is: numbers made from its information matrix, smaller is better.

The information matrix F (b, b) is that of base parameters in an orthonormal basis of what is
identifiable, so that no number depends on which parameters lead the set. With the standard
deviations s_1 ... s_b along its eigenvectors,

    d           (s_1 ... s_b)^(1/b), the geometric mean; the determinant of F is s^(-2b)
    a           root mean square of them
    e           the largest
    condition   the largest over the smallest: the condition number of the regressor
    predict     root mean square of the predicted torque's error over the robot's work space, over the noise

The last two functions give the logarithm of one of them and its derivative with respect to F, from
which the gradient of a design follows. The largest is replaced by a p-norm there, which has a
derivative everywhere.
"""  # noqa: E501

from __future__ import annotations

import numpy as np

from minidyn.arrays import Array

CRITERIA = ("d", "a", "e", "condition", "predict")
"""Names of all criteria."""

_NORM = 12  # power of the norm that replaces the largest


def evaluate_criteria(F: Array, work: Array) -> dict[str, float]:
    """Return all criteria of an information matrix; infinite where something is not shown.

    `work` (b, b) is the mean of YᵀY / n over the work space, over the noise.
    """
    values, vectors = np.linalg.eigh((F + F.T) / 2)
    if not values[0] > 1e-14 * values[-1]:
        return dict.fromkeys(CRITERIA, float("inf"))
    variances = 1.0 / values
    along = np.einsum("ij,ik,kj->j", vectors, work, vectors)
    return {
        "d": float(np.exp(0.5 * np.mean(np.log(variances)))),
        "a": float(np.sqrt(variances.mean())),
        "e": float(np.sqrt(variances.max())),
        "condition": float(np.sqrt(values[-1] / values[0])),
        "predict": float(np.sqrt(variances @ along)),
    }


def log_criterion(name: str, F: Array, work: Array) -> tuple[float, Array]:
    """Return the logarithm of a criterion (of a smooth one near it) and its derivative (b, b) with
    respect to F.
    """
    values, V = np.linalg.eigh(F)
    b = len(values)
    values = np.maximum(
        values, 1e-13 * values[-1]
    )  # a motion that hides something is very bad, not meaningless
    inverse = 1.0 / values
    if name == "d":
        return float(0.5 * np.mean(np.log(inverse))), -0.5 / b * (V * inverse) @ V.T
    if name == "a":
        total = float(inverse.sum())
        return 0.5 * float(np.log(total / b)), -0.5 / total * (V * inverse**2) @ V.T
    if name == "predict":
        A = (V * inverse) @ V.T
        P = A @ work @ A
        total = float(np.sum(work * A))
        return 0.5 * float(np.log(total)), -0.5 / total * P
    smallest, largest = values[0], values[-1]
    down = (smallest * inverse) ** _NORM  # each at most 1: no overflow
    value = 0.5 * (float(np.log(down.sum())) / _NORM - np.log(smallest))
    slope = -0.5 * down * inverse / down.sum()
    if name == "condition":
        up = (values / largest) ** _NORM
        value += 0.5 * (float(np.log(up.sum())) / _NORM + np.log(largest))
        slope = slope + 0.5 * up * inverse / up.sum()
    return float(value), (V * slope) @ V.T
