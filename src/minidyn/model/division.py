"""How a composite body divides among the bodies that it is made of.

Identification knows the sum of what moves as one; a robot file describes parts. All parts but one,
the carrier, keep what the file says, and the carrier gets the rest. Where that rest is not a body
(a negative mass, say), all parts change, together by the least: the sum over the parts of
‖W^(-1/2) (P - W) W^(-1/2)‖², with W the pseudo-inertia of a part in the file and P the new one. It
counts relative changes and is the same in every frame. Each part stays a body.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from minidyn.arrays import Array
from minidyn.model.parameters import (
    from_pseudo_inertia,
    realizability,
    to_body,
    to_pseudo_inertia,
)

_LEAST_SHARE = 0.05  # of what a part has in the file, in every direction: no part vanishes
_CARRIER_SHARE = (
    0.01  # of the total: what the carrier may have more where the file gives it nothing
)
_SINGULAR = 1e-10  # of the largest eigenvalue: a total below it has no room for several bodies
_STEPS = 100  # of Newton's method, which takes about ten


@dataclass(frozen=True)
class Division:
    """Parts of a composite body that add up to it.

    Attributes:
        bodies: Ten parameters of each part, in the composite's frame; the carrier first.
        reason: Why the others cannot keep what they have, "" where they do.
        change: Largest relative change of the others in any direction: 0.5 is by half.
    """

    bodies: tuple[Array, ...]
    reason: str = ""
    change: float = 0.0


def divide(total: Array, bodies: Sequence[Array]) -> Division:
    """Return parts that add up to `total` (10,), all in one frame, the carrier first.

    Where the total itself is no body, no parts of it are: the carrier gets the rest all the same.
    """
    carrier, *others = bodies
    rest = total - np.sum(others, axis=0) if others else total
    if _is_body(rest) or not any(other.any() for other in others):
        return Division((rest, *others))
    if not _is_body(total):
        if np.isfinite(to_body(rest)[1]).all():
            return Division((rest, *others))
        zeros = [np.zeros(10) for _ in others]
        return Division((total, *zeros), "the model is not physically consistent", 1.0)
    reason = realizability(rest).reason or "first moments without mass"
    changed = _least_change(total, [carrier, *others])
    if changed is None:
        return Division((total, *(np.zeros(10) for _ in others)), reason, 1.0)
    parts, change = changed
    return Division((total - np.sum(parts, axis=0), *parts), reason, change)


def _is_body(ten: Array) -> bool:
    return bool(realizability(ten).realizable) and bool(np.isfinite(to_body(ten)[1]).all())


def _least_change(total: Array, bodies: Sequence[Array]) -> tuple[list[Array], float] | None:
    """Return the others' new parameters and their largest relative change.

    None where the total is singular. Frame and lengths are changed so that the total is 1; with
    P = L X Lᵀ, W = L Lᵀ the change of a part is ‖X - 1‖.
    """
    whole = to_pseudo_inertia(total)
    size = np.sqrt(np.diag(whole))
    if not size.all():
        return None
    scaled = whole / np.outer(size, size)
    if np.linalg.eigvalsh(scaled)[0] < _SINGULAR:
        return None
    back = size[:, None] * np.linalg.cholesky(scaled)
    to_unit = np.linalg.inv(back)
    roots, targets = [], []
    for number, body in enumerate(bodies):
        values, axes = np.linalg.eigh(to_unit @ to_pseudo_inertia(body) @ to_unit.T)
        values = np.maximum(values, 0.0)
        weights = values + (_CARRIER_SHARE if number == 0 else 0.0)
        used = weights > _SINGULAR
        roots.append(axes[:, used] * np.sqrt(weights[used]))
        targets.append(np.diag(values[used] / weights[used]))
    factors = _nearest(roots, targets)
    parts = [back @ L @ X @ L.T @ back.T for L, X in zip(roots[1:], factors[1:])]
    gaps = (
        np.abs(np.linalg.eigvalsh(X - Z)).max(initial=0.0) for X, Z in zip(factors[1:], targets[1:])
    )
    return [from_pseudo_inertia(part) for part in parts], float(max(gaps))


def _nearest(roots: Sequence[Array], targets: Sequence[Array]) -> list[Array]:
    """Return the X nearest to the targets with Σ L X Lᵀ = 1, none of them below its least share.

    Newton's method on the dual problem, which has ten unknowns whatever the number of parts.
    """
    weight = np.sum([L @ L.T for L in roots], axis=0)
    least = min(_LEAST_SHARE, 0.5 / float(np.linalg.eigvalsh(weight)[-1]))
    wanted = np.eye(4) - least * weight
    multiplier = np.zeros((4, 4))
    value, slope, curvature, factors = _dual(multiplier, roots, targets, least, wanted)
    for _ in range(_STEPS):
        if np.abs(slope).max() < 1e-11:
            break
        ridge = 1e-14 * np.trace(curvature) * np.eye(10)
        step = np.tensordot(
            np.linalg.solve(curvature + ridge, -np.einsum("kij,ij->k", _BASIS, slope)), _BASIS, 1
        )
        along, length = float(np.sum(slope * step)), 1.0
        while length > 1e-10:
            there = _dual(multiplier + length * step, roots, targets, least, wanted)
            if there[0] <= value + 1e-4 * length * along + 1e-15 * abs(value):
                break
            length *= 0.5
        multiplier = multiplier + length * step
        value, slope, curvature, factors = there
    return factors


def _dual(
    multiplier: Array,
    roots: Sequence[Array],
    targets: Sequence[Array],
    least: float,
    wanted: Array,
) -> tuple[float, Array, Array, list[Array]]:
    """Return value, gradient (4, 4) and curvature (10, 10) of the dual problem, and the X."""
    value, slope = -float(np.sum(multiplier * wanted)), -wanted
    curvature, factors = np.zeros((10, 10)), []
    for L, target in zip(roots, targets):
        room = np.eye(len(target))
        values, axes = np.linalg.eigh(target - least * room + L.T @ multiplier @ L)
        positive = np.maximum(values, 0.0)
        gap = values[:, None] - values
        equal = np.abs(gap) < 1e-14
        ratio = np.where(equal, 0.0, positive[:, None] - positive) / np.where(equal, 1.0, gap)
        ratio = np.where(equal, values[:, None] > 0.0, ratio)
        across = np.einsum("ia,kij,jb->kab", L @ axes, _BASIS, L @ axes)
        curvature += np.einsum("kab,ab,lab->kl", across, ratio, across)
        value += 0.5 * float(positive @ positive)
        X = (axes * positive) @ axes.T
        slope = slope + L @ X @ L.T
        factors.append(X + least * room)
    return value, slope, curvature, factors


def _symmetric_basis() -> Array:
    basis = np.zeros((10, 4, 4))
    for number, (row, column) in enumerate(zip(*np.triu_indices(4))):
        basis[number, row, column] = basis[number, column, row] = (
            1.0 if row == column else np.sqrt(0.5)
        )
    return basis


_BASIS = _symmetric_basis()
