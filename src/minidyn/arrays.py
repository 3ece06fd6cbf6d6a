"""Arrays: the one type of numbers, numbers that people give, and linear algebra on one thread.

The BLAS behind NumPy starts threads for matrices of a few thousand entries, where handing out the work costs more than
doing it; on a busy machine hundreds of times more. Loops over small factorisations run inside `single_thread`.
"""

from __future__ import annotations

from contextlib import AbstractContextManager

import numpy as np
from numpy.typing import NDArray

from minidyn.errors import DescriptionError

Array = NDArray[np.float64]


def single_thread() -> AbstractContextManager[object]:
    """Return a context in which BLAS uses one thread."""
    from threadpoolctl import threadpool_limits

    limits: AbstractContextManager[object] = threadpool_limits(limits=1, user_api="blas")
    return limits


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
