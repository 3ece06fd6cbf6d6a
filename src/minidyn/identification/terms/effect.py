"""What an effect is: terms of a drive, the shapes that are tried, and its sentence in the report.

The columns of a term, its sign and its unit are lines of `minidyn.model.drives.TERMS`, which
simulation and generated code read, too. `EFFECTS` in `terms/catalogue.py` lists what is tried; an
effect from outside the package joins by `register`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from minidyn.arrays import Array
from minidyn.identification.data import Data
from minidyn.model.drives import Drive, friction_symbols


@dataclass(frozen=True)
class Effect:
    """An effect whose columns have no shape of their own.

    Attributes:
        name: What the table of decisions calls it; `--force-term` and `--forbid-term` take it.
        terms: Names of its drive terms.
        sentence: What a model has with it, for the report: "... at joint1, joint2".
        is_tried: Whether it is a candidate by default; else by name alone.
        shape: The attribute of a drive that is its shape; "": none.
        is_of_all_joints: Whether it is tried at all joints together alone: at a single one it
            would replace whatever else is lacking.
    """

    name: str
    terms: tuple[str, ...]
    sentence: str
    is_tried: bool = True
    shape: str = ""
    is_of_all_joints: bool = False

    def applies(self, data: Data, joint: int) -> bool:
        """Return whether the effect may be at a joint."""
        return data.robot.joints[joint].kind != "fixed"

    def shapes(self, data: Data, joint: int, drive: Drive, residual: Array) -> Sequence[float]:
        """Return the shapes to try; none: the log cannot show the effect at this joint.

        Args:
            data: The log.
            joint: Index of the joint.
            drive: Its drive without the effect.
            residual: What the model without the effect leaves of the torques (N, n).
        """
        return (0.0,)

    def is_in(self, drive: Drive) -> bool:
        """Return whether a drive has all terms of the effect."""
        return set(self.terms) <= set(drive.friction)

    def added(self, drive: Drive, shape: float, sign_width: float | None = None) -> Drive:
        """Return a drive with the effect."""
        changes: dict[str, Any] = {} if not self.shape else {self.shape: shape}
        changes |= {} if sign_width is None else {"sign_width": sign_width}
        terms = friction_symbols((*drive.friction, *self.terms))
        return replace(drive, friction=terms, **changes)

    def removed(self, drive: Drive) -> Drive:
        """Return a drive without the effect."""
        return drive.without(*self.terms)

    def narrower(self) -> Sequence[float]:
        """Return shares of the smoothing width to try with the effect.

        An effect that explains what a width had to explain needs less of it.
        """
        return (1.0,)
