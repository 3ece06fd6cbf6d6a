"""What drives a joint: rotor inertia, gear, coupling to other joints, and the friction terms that are switched on.

Each drive term adds one column to the dynamics. With v = q̇_j + Σ c_k q̇_k, the speed of drive j reduced to the joint
side (c from the coupling, empty for most joints), drive j loads its own axis with

    Ia v̇ + Fv v + Fc sign(v) + Fo

and that torque acts on joint j and, through c, on the coupled joints.
"""

from __future__ import annotations

from dataclasses import dataclass

from minidyn.errors import UnknownName

__all__ = ["FRICTION", "ROTOR", "Drive", "friction_symbols"]

ROTOR = "Ia"
"""Column of the rotor inertia reduced to the joint side (motor inertia times gear ratio squared), kg m²."""

FRICTION = {
    "viscous": "Fv",  # N m s/rad: v
    "coulomb": "Fc",  # N m: sign(v)
    "offset": "Fo",  # N m: 1
}
"""Friction terms by name, and the column each adds. New terms are added here and in dynamics.drives."""


@dataclass(frozen=True, slots=True)
class Drive:
    """Which drive terms a joint has; their values are in the robot's parameter vector.

    Attributes:
        rotor_inertia: Whether the column Ia exists.
        friction: Names of the friction terms, in the order of FRICTION.
        gear_ratio: Motor turns per joint turn (for reading motor-side logs; Ia is joint-side already).
        coupling: (joint name, coefficient) pairs: how much other joints turn this drive, joint side.
        sign_width: Speed (rad/s or m/s) over which Coulomb friction turns round: v / sqrt(v² + sign_width²) stands for
            sign(v). Zero: at once.
    """

    rotor_inertia: bool = False
    friction: tuple[str, ...] = ()
    gear_ratio: float = 1.0
    coupling: tuple[tuple[str, float], ...] = ()
    sign_width: float = 0.0

    @property
    def columns(self) -> tuple[str, ...]:
        """Symbols of the columns this drive adds, in storage order: Ia, then Fv, Fc, Fo."""
        rotor = (ROTOR,) if self.rotor_inertia else ()
        return rotor + tuple(FRICTION[term] for term in self.friction)


def friction_symbols(terms: object) -> tuple[str, ...]:
    """Return the friction term names in storage order, each once.

    Args:
        terms: A name or several ("viscous", "coulomb", "offset").

    Raises:
        UnknownName: For a term that does not exist.
    """
    if isinstance(terms, str):
        terms = (terms,)
    try:
        wanted = list(terms)  # type: ignore[call-overload]
    except TypeError:
        raise UnknownName("friction term", terms, FRICTION) from None
    for term in wanted:
        if term not in FRICTION:
            raise UnknownName("friction term", term, FRICTION)
    return tuple(term for term in FRICTION if term in wanted)
