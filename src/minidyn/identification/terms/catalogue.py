"""The effects that identification knows, in the order in which they are tried."""

from __future__ import annotations

from minidyn.identification.terms.breakaway import BREAKAWAY
from minidyn.identification.terms.curve import (
    ASYMMETRIC,
    COUNTERBALANCE,
    CUBIC,
    CURVE,
    OWN_FRICTION,
    QUADRATIC,
    SPRING,
    SQUARE_ROOT,
)
from minidyn.identification.terms.effect import Effect
from minidyn.identification.terms.load import LOAD
from minidyn.identification.terms.presliding import PRESLIDING
from minidyn.identification.terms.ripple import RIPPLES
from minidyn.identification.terms.stribeck import STRIBECK

EFFECTS: dict[str, Effect] = {
    effect.name: effect
    for effect in (
        LOAD,
        PRESLIDING,
        STRIBECK,
        SQUARE_ROOT,
        OWN_FRICTION,
        *RIPPLES,
        BREAKAWAY,
        QUADRATIC,
        CUBIC,
        ASYMMETRIC,
        CURVE,
        SPRING,
        COUNTERBALANCE,
    )
}
"""By name."""


def register(effect: Effect) -> None:
    """Let an effect be tried and named, as those of the package."""
    EFFECTS[effect.name] = effect
