"""Adaptation that keeps inertias possible: the gradient taken in the natural metric of pseudo-inertias.

A link's ten parameters are a 4x4 pseudo-inertia P, realizable while P is positive. With the metric
tr(P⁻¹ dP P⁻¹ dP), the Hessian of -log det P, the steepest descent of a function with gradient L (tr(L dP) for a change
dP) is dP/dt = -γ P L P: it slows down towards the boundary and never crosses it. The Lyapunov argument stays, with the
Bregman divergence of -log det in place of the squared parameter error.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from minidyn.control.unknowns import Unknowns
from minidyn.dynamics.vectors import Scalar
from minidyn.errors import MinidynError, NotRealizable
from minidyn.model.inertia import STANDARD, from_pseudo_inertia, realizability, to_pseudo_inertia
from minidyn.model.robot import Robot

__all__ = ["NaturalLinks", "natural_links"]

Array = NDArray[np.float64]

# P as a linear function of the ten parameters, and back, as exact small matrices
_TO_PSEUDO = to_pseudo_inertia(np.eye(10)).reshape(10, 16)
_FROM_PSEUDO = np.stack([from_pseudo_inertia(unit.reshape(4, 4)) for unit in np.eye(16)])
# tr(L dP) must equal the gradient's product with the change of the ten parameters
_DUAL = np.linalg.inv(_TO_PSEUDO @ _TO_PSEUDO.T)


@dataclass(frozen=True)
class NaturalLinks:
    """Links whose ten parameters are estimated along the natural metric.

    Attributes:
        places: For each such link, the places of XX ... M in the estimate.
    """

    places: tuple[tuple[int, ...], ...]

    def turned(
        self, estimate: list[Scalar], gradient: list[Scalar], rate: list[Scalar], adaptation: Array
    ) -> list[Scalar]:
        """Return the rate with these links' parts replaced by -γ P L P."""
        changed = list(rate)
        for places in self.places:
            P = _square([_combined(_TO_PSEUDO[:, k], [estimate[i] for i in places]) for k in range(16)])
            dual = [_combined(_DUAL[k], [gradient[i] for i in places]) for k in range(10)]
            L = _square([_combined(_TO_PSEUDO[:, k], dual) for k in range(16)])
            moved = [entry for row in _product(_product(P, L), P) for entry in row]
            for symbol, place in enumerate(places):
                changed[place] = -(float(adaptation[place]) * _combined(_FROM_PSEUDO[:, symbol], moved))
        return changed


def natural_links(robot: Robot, unknowns: Unknowns) -> NaturalLinks:
    """Return the links concerned; what is not part of a link (rotors, friction) keeps the plain gradient.

    Raises:
        MinidynError: A link is unknown in part only.
        NotRealizable: The initial estimate is already impossible.
    """
    places = {name: place for place, name in enumerate(unknowns.names)}
    links = []
    for number, link in enumerate(robot.link_names, start=1):
        own = tuple(places[f"{symbol}{number}"] for symbol in STANDARD if f"{symbol}{number}" in places)
        if not own:
            continue
        if len(own) != len(STANDARD):
            raise MinidynError(f"consistent=True: all ten parameters of link {link!r} must be unknown, or none")
        report = realizability(unknowns.start[list(own)])
        if not report.realizable or report.smallest_eigenvalue <= 0:
            reason = report.reason or "its pseudo-inertia is singular"
            raise NotRealizable(
                f"consistent=True: the initial estimate of link {link!r} is not inside the realizable set ({reason}); "
                "give another with initial=..."
            )
        links.append(own)
    if not links:
        raise MinidynError("consistent=True: no link's ten parameters are all unknown")
    return NaturalLinks(tuple(links))


def _combined(weights: Array, values: list[Scalar]) -> Scalar:
    total: Scalar = 0.0
    for weight, value in zip(weights, values):
        if abs(weight) > 1e-14:
            total = total + float(weight) * value
    return total


def _square(entries: list[Scalar]) -> list[list[Scalar]]:
    return [entries[4 * i : 4 * i + 4] for i in range(4)]


def _product(A: list[list[Scalar]], B: list[list[Scalar]]) -> list[list[Scalar]]:
    result: list[list[Scalar]] = []
    for row in A:
        out: list[Scalar] = []
        for j in range(4):
            total: Scalar = 0.0
            for k in range(4):
                total = total + row[k] * B[k][j]
            out.append(total)
        result.append(out)
    return result
