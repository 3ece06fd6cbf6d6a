"""Numbers that people give: arrays of them, or an error that says where something else was found."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from minidyn.errors import DescriptionError

__all__ = ["real_array"]


def real_array(values: object, where: str) -> NDArray[np.float64]:
    """Return values as a float64 array.

    Raises:
        DescriptionError: Texts, complex numbers, None, lists of unequal lengths.
    """
    try:
        array = np.asarray(values)
    except ValueError:  # nested lists of unequal lengths
        raise DescriptionError(f"{where}: expected numbers, got {values!r}") from None
    if array.dtype.kind not in "fiub":
        kind = "real numbers" if array.dtype.kind == "c" else "numbers"
        raise DescriptionError(f"{where}: expected {kind}, got {values!r}")
    return array.astype(float, copy=False)
