"""What was wrong with a sample: flags that Python and generated C share."""

from __future__ import annotations

from enum import IntFlag
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Flags: TypeAlias = NDArray[np.bool_]
Codes: TypeAlias = NDArray[np.int64]


class SampleStatus(IntFlag):
    """What was wrong with a sample, and what it means; zero: it was used.

    Example:
        >>> SampleStatus(17).causes()
        ['a value is not finite']
    """

    NOT_FINITE = 1
    """A value is NaN or infinite."""
    OUT_OF_RANGE = 2
    """A value is beyond its bound."""
    STUCK = 4
    """A signal repeats itself to the last digit while the joint moves."""
    GAP = 8
    """Samples are missing before this one: its time, or its position, is too far from the last."""
    HELD = 16
    """The state was held: the result is that of the last sample that could be used."""
    NOT_WATCHING = 32
    """No sample could be used for the time of the watchdog: an alarm."""

    def causes(self) -> list[str]:
        """Return why samples were not used, in words."""
        return [text for flag, text in _CAUSES.items() if self & flag]


_CAUSES = {
    SampleStatus.NOT_FINITE: "a value is not finite",
    SampleStatus.OUT_OF_RANGE: "a value is beyond its bound",
    SampleStatus.STUCK: "a signal is stuck",
    SampleStatus.GAP: "samples are missing",
}
