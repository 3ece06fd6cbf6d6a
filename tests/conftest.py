"""What all tests share: how many random cases to draw."""

from __future__ import annotations

import os
from typing import Any

# small matrices, several test processes: threads inside them only wait for each other
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

LONG = os.environ.get("MINIDYN_TEST_LONG", "") not in ("", "0")


def count(sample: int, full: int) -> int:
    """Return the number of random cases: `sample`, or `full` where MINIDYN_TEST_LONG=1 asks for it."""
    return full if LONG else sample


def numeric_base(robot: Any, method: str = "qr", model: str = "torque", **options: Any) -> Any:
    """Base parameters by QR unless another method is named."""
    from minidyn import base_parameters

    return base_parameters(robot, method, model, **options)


OWN = {"friction": "own", "rotor_inertia": None}
"""Keywords of `md.identify`: the drive terms of the robot itself."""
