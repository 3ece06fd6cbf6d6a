"""Friction curves: what bends friction over the speed."""

from __future__ import annotations

from minidyn.identification.data import Data
from minidyn.identification.terms.effect import Effect
from minidyn.model.drives import ALIASES

SQUARE_ROOT = Effect(
    "sqrt", ("sqrt",), "friction grows with the root of the speed", is_of_all_joints=True
)
QUADRATIC = Effect("quadratic", ("quadratic",), "friction grows with the speed squared", False)
CUBIC = Effect("cubic", ("cubic",), "friction grows with the cube of the speed", False)
ASYMMETRIC = Effect(
    "asymmetric", ("asymmetric",), "viscous friction differs between directions", False
)
CURVE = Effect("curve", ALIASES["curve"], "friction is a free curve of the speed", False)
SPRING = Effect("spring", ("spring",), "a spring acts on the joint", False)
COUNTERBALANCE = Effect(
    "counterbalance", ALIASES["counterbalance"], "a counterbalance acts on the joint", False
)


class OwnFriction(Effect):
    """Friction of a joint itself, where its drive turns other joints, too."""

    def applies(self, data: Data, joint: int) -> bool:
        """Return whether other joints turn the drive."""
        return bool(data.robot.joints[joint].drive.coupling)


OWN_FRICTION = OwnFriction(
    "own", ALIASES["own"], "the joint has friction in addition to that of its drive"
)
