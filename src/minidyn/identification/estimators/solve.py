"""Least squares on triangles: the solution, and what stays open."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from minidyn.arrays import Array
from minidyn.base.base_map import BaseMap
from minidyn.errors import MinidynError
from minidyn.identification.rows.triangles import parts_of

ROUNDING = 1e-12  # rounding: singular values with unit columns, below this part of the largest
SHOWN = 6  # size: parameters that a message names


class Unknowns(Protocol):
    """What a problem is solved for: base parameters, or these and more."""

    @property
    def names(self) -> tuple[str, ...]:
        """Their names."""

    @property
    def rank(self) -> int:
        """How many there are."""


def unit_columns(R: Array) -> tuple[Array, Array]:
    """Return R with columns scaled to unit length, so that units do not decide what is open, and
    their lengths.
    """
    scale = np.linalg.norm(R, axis=0)
    scale = np.where(scale > 0, scale, 1.0)
    return R / scale, scale


def pseudo_inverse(R: Array) -> tuple[Array, NDArray[np.bool_]]:
    """Return R⁺ (b, b), with open directions left at zero, and which parameters (b,) take part in
    these.
    """
    scaled, scale = unit_columns(R)
    U, s, Vt = np.linalg.svd(scaled)
    shown = s > ROUNDING * s.max(initial=0.0)
    inverse = (Vt[shown].T / s[shown]) @ U[:, : len(s)][:, shown].T / scale[:, None]
    taking_part = np.abs(Vt[~shown]).max(axis=0, initial=0.0) > 1e-6
    return np.asarray(inverse), np.asarray(taking_part)


def describe_open(R: Array, base: BaseMap) -> str:
    """Return in words which combinations stay open; empty where none does."""
    names = [name for name, is_open in zip(base.names, pseudo_inverse(R)[1]) if is_open]
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more


def solve(R: Array, z: Array, base: Unknowns, allow_open: bool = False) -> Array:
    """Solve R beta = z, or name the parameters that the motion does not show.

    With `allow_open` these are zero.
    """
    if not len(z):
        return np.zeros(0)
    if allow_open:
        return np.asarray(pseudo_inverse(R)[0] @ z, dtype=float)
    silent = [name for name, column in zip(base.names, R.T) if not np.any(column)]
    if silent:
        raise MinidynError(
            f"the recording does not excite {', '.join(silent[:SHOWN])}: every joint must move"
        )
    scaled, _ = unit_columns(R)
    singular = np.linalg.svd(scaled, compute_uv=False)
    if singular[-1] < ROUNDING * singular[0]:
        weakest = np.abs(np.linalg.svd(scaled)[2][-1])
        names = ", ".join(base.names[k] for k in np.argsort(-weakest)[:4])
        raise MinidynError(
            f"the recording does not determine all {base.rank} base parameters: a combination of "
            f"{names} stays open; record a motion in which more joints move, faster and further"
        )
    return np.asarray(solve_triangular(R, z), dtype=float)


def condition_of(R: Array) -> float:
    """Condition number of the problem with columns scaled to unit length."""
    if not len(R):
        return 1.0
    singular = np.linalg.svd(unit_columns(R)[0], compute_uv=False)
    return (
        float(singular[0] / singular[-1])
        if singular[-1] > 0 and np.all(np.any(R, axis=0))
        else float("inf")
    )


def form_of(F: Array, size: int) -> tuple[Array, Array, float]:
    """Return (R, z, rest) of a fit from the triangle F of rows [X | y], or [Z | X | y] with
    instruments.
    """
    if F.shape[1] == size + 1:
        return parts_of(F)
    Q, R = np.linalg.qr(F[:size, size : 2 * size])
    return R, Q.T @ F[:size, 2 * size], 0.0
