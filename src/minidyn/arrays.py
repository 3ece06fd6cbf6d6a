"""Arrays: the one type of numbers, numbers that people give, and linear algebra on one thread.

The BLAS behind NumPy starts threads for matrices of a few thousand entries, where handing out the work costs more than
doing it; on a busy machine hundreds of times more. Loops over small factorisations run inside `single_thread`.
"""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from minidyn.errors import DescriptionError

if TYPE_CHECKING:
    from threadpoolctl import ThreadpoolController

Array = NDArray[np.float64]


def single_thread() -> AbstractContextManager[object]:
    """Return a context in which BLAS uses one thread."""
    limits: AbstractContextManager[object] = _blas("scipy.linalg" in sys.modules).limit(limits=1, user_api="blas")
    return limits


@cache
def _blas(with_scipy: bool) -> ThreadpoolController:
    """The loaded BLAS libraries: SciPy brings its own. Looking for them takes longer than a small factorisation."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


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
