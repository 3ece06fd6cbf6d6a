"""Linear algebra of many small matrices, on one thread each.

The BLAS behind NumPy starts threads for matrices of a few thousand entries, where handing out the work costs more than
doing it; on a busy machine hundreds of times more. Loops over small factorisations run inside `single_thread`.
"""

from __future__ import annotations

from contextlib import AbstractContextManager

__all__ = ["single_thread"]


def single_thread() -> AbstractContextManager[object]:
    """Return a context in which BLAS uses one thread."""
    from threadpoolctl import threadpool_limits

    limits: AbstractContextManager[object] = threadpool_limits(limits=1, user_api="blas")
    return limits
