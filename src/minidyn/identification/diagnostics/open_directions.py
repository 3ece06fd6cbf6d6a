"""What a recording leaves open: directions of the base parameters that no sample shows."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from minidyn.arrays import Array
from minidyn.base.base_map import BaseMap

_OPEN = 1e-12  # singular values of the scaled problem below this part of the largest are rounding
_SHOWN = 6


def pseudo_inverse(R: Array) -> tuple[Array, NDArray[np.bool_]]:
    """Return R⁺ (b, b), with open directions left at zero, and which parameters (b,) take part in these.

    Columns are scaled to unit length first: neither units nor the size of a motion decide what is open.
    """
    scale = np.linalg.norm(R, axis=0)
    scale = np.where(scale > 0, scale, 1.0)
    U, s, Vt = np.linalg.svd(R / scale, full_matrices=True)
    shown = s > _OPEN * s.max(initial=0.0)
    inverse = (Vt[shown].T / s[shown]) @ U[:, : len(s)][:, shown].T / scale[:, None]
    taking_part = np.abs(Vt[~shown]).max(axis=0, initial=0.0) > 1e-6
    return np.asarray(inverse), np.asarray(taking_part)


def describe_open(R: Array, base: BaseMap) -> str:
    """Return in words which combinations stay open; empty where none does."""
    _, open_ = pseudo_inverse(R)
    names = [name for name, is_open in zip(base.names, open_) if is_open]
    if not names:
        return ""
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more
