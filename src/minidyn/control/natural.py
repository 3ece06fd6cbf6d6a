"""Adaptation that keeps links physically consistent.

The gradient taken in the natural metric of pseudo-inertias. A link's ten parameters are a 4x4
pseudo-inertia P, realizable while P is positive. With the metric tr(P⁻¹ dP P⁻¹ dP), the Hessian
of -log det P, the steepest descent of a function with gradient L (tr(L dP) for a change dP) is
dP/dt = -γ P L P: it slows down towards the boundary and never crosses it. The Lyapunov argument
stays, with the Bregman divergence of -log det in place of the squared parameter error.

A step of length T along it would leave the set if it were long enough. So a sampled law takes the
congruence P⁺ = (1 - ½TγPL) P (1 - ½TγPL)ᵀ instead, which is the same step to first order in T and
positive for any T.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from minidyn.arrays import Array
from minidyn.control.unknowns import Unknowns
from minidyn.dynamics.vectors import Scalar
from minidyn.errors import MinidynError, NotRealizable
from minidyn.model.parameters import STANDARD, from_pseudo_inertia, realizability, to_pseudo_inertia
from minidyn.model.robot import Robot

Row: TypeAlias = list[Scalar]

# P as a linear function of the ten parameters, and back, as exact small matrices
_TO_PSEUDO = to_pseudo_inertia(np.eye(10)).reshape(10, 16)
_FROM_PSEUDO = np.stack([from_pseudo_inertia(unit.reshape(4, 4)) for unit in np.eye(16)])
# tr(L dP) must equal the gradient's product with the change of the ten parameters
_DUAL = np.linalg.inv(_TO_PSEUDO @ _TO_PSEUDO.T)


@dataclass(frozen=True)
class NaturalLinks:
    """Links whose ten parameters are estimated along the natural metric."""

    places: tuple[
        tuple[int, ...], ...
    ]  # for each such link, the places of XX ... M in the estimate
    speeds: tuple[float, ...]  # for each such link, γ

    def turned(self, estimate: Row, gradient: Row, rate: Row) -> Row:
        """Return the rate with these links' parts replaced by -γ P L P."""
        changed = list(rate)
        for places, speed in zip(self.places, self.speeds):
            P, L = _pair(estimate, gradient, places)
            for place, value in zip(places, _ten(_product(_product(P, L), P))):
                changed[place] = -(speed * value)
        return changed

    def stepped(self, estimate: Row, gradient: Row, plain: Row, period: float) -> Row:
        """Return the next estimate: `plain`, with these links' parts replaced by the congruence."""
        changed = list(plain)
        for places, speed in zip(self.places, self.speeds):
            P, L = _pair(estimate, gradient, places)
            A = [[0.5 * period * speed * entry for entry in row] for row in _product(P, L)]
            left = [[(1.0 if i == j else 0.0) - A[i][j] for j in range(4)] for i in range(4)]
            moved = _product(_product(left, P), [list(column) for column in zip(*left)])
            for place, value in zip(places, _ten(moved)):
                changed[place] = value
        return changed

    def divergence(self, estimate: Array, goal: Array) -> Array:
        """Return the sum over links (...) of (log det P̂ / det P + tr P̂⁻¹ P - 4) / γ, zero where
        they agree.

        Where a true link is on the boundary (a point mass), det P = 0 is left out: only changes
        mean anything then.
        """
        total: Array = np.zeros(estimate.shape[:-1])
        for places, speed in zip(self.places, self.speeds):
            own = list(places)
            guess, true = to_pseudo_inertia(estimate[..., own]), to_pseudo_inertia(goal[own])
            sign, size = np.linalg.slogdet(true)
            value = np.linalg.slogdet(guess)[1] - (size if sign > 0 else 0.0) - 4.0
            value = value + np.trace(
                np.linalg.solve(guess, np.broadcast_to(true, guess.shape)), axis1=-2, axis2=-1
            )
            total = total + value / speed
        return total


def natural_links(robot: Robot, unknowns: Unknowns, adaptation: Array) -> NaturalLinks:
    """Return the links concerned.

    What is not part of a link (rotors, friction) keeps the plain gradient. A link is unknown as a
    whole and has one γ, or is refused: the metric is one of links.
    """
    places = {name: place for place, name in enumerate(unknowns.names)}
    links, speeds = [], []
    for number, link in enumerate(robot.link_names, start=1):
        own = tuple(
            places[f"{symbol}{number}"] for symbol in STANDARD if f"{symbol}{number}" in places
        )
        if not own:
            continue
        if len(own) != len(STANDARD):
            raise MinidynError(
                f"consistent=True: all ten parameters of link {link!r} must be unknown, or none"
            )
        speed = adaptation[list(own)]
        if np.any(speed != speed[0]):
            raise MinidynError(
                f"consistent=True: give the ten parameters of link {link!r} one and the same "
                "adaptation"
            )
        report = realizability(unknowns.start[list(own)])
        if not report.realizable or report.smallest_eigenvalue <= 0:
            reason = report.reason or "its pseudo-inertia is singular"
            raise NotRealizable(
                f"consistent=True: the initial estimate of link {link!r} is not inside the "
                f"realizable set ({reason}); give another with initial=..."
            )
        links.append(own)
        speeds.append(float(speed[0]))
    if not links:
        raise MinidynError("consistent=True: no link's ten parameters are all unknown")
    return NaturalLinks(tuple(links), tuple(speeds))


def _pair(estimate: Row, gradient: Row, places: tuple[int, ...]) -> tuple[list[Row], list[Row]]:
    """Return P of a link's estimate and L with tr(L dP) = gradient · change."""
    P = _square([_combined(_TO_PSEUDO[:, k], [estimate[i] for i in places]) for k in range(16)])
    dual = [_combined(_DUAL[k], [gradient[i] for i in places]) for k in range(10)]
    return P, _square([_combined(_TO_PSEUDO[:, k], dual) for k in range(16)])


def _ten(P: list[Row]) -> Row:
    entries = [entry for row in P for entry in row]
    return [_combined(_FROM_PSEUDO[:, symbol], entries) for symbol in range(10)]


def _combined(weights: Array, values: Row) -> Scalar:
    return sum(
        (float(weight) * value for weight, value in zip(weights, values) if abs(weight) > 1e-14),
        0.0,
    )


def _square(entries: Row) -> list[Row]:
    return [entries[4 * i : 4 * i + 4] for i in range(4)]


def _product(A: list[Row], B: list[Row]) -> list[Row]:
    return [[sum(a * b for a, b in zip(row, column)) for column in zip(*B)] for row in A]
