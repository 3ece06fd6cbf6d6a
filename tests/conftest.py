"""What all tests share: how many random cases to draw."""

from __future__ import annotations

import os

# small matrices, several test processes: threads inside them only wait for each other
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

LONG = os.environ.get("MINIDYN_TEST_LONG", "") not in ("", "0")


def count(sample: int, full: int) -> int:
    """Return the number of random cases: `sample`, or `full` where MINIDYN_TEST_LONG=1 asks for it."""
    return full if LONG else sample


OWN = {"friction": "own", "rotor_inertia": None}
"""Keywords of `md.identify`: the drive terms of the robot itself."""
