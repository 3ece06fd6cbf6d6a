"""What all tests share: how many random cases to draw, and a folder for compiled functions."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from typing import Any

# small matrices, several test processes: threads inside them only wait for each other
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# one for the session: workers and processes that tests start inherit it, the user's is not touched
if "MINIDYN_CACHE" not in os.environ:
    os.environ["MINIDYN_CACHE"] = tempfile.mkdtemp(prefix="minidyn-test-")
    atexit.register(shutil.rmtree, os.environ["MINIDYN_CACHE"], ignore_errors=True)

LONG = os.environ.get("MINIDYN_TEST_LONG", "") not in ("", "0")


def count(sample: int, full: int) -> int:
    """Return the number of random cases.

    `sample`, or `full` where MINIDYN_TEST_LONG=1 asks for it.
    """
    return full if LONG else sample


_WHOLE, _EVERY = 2, 24  # of the cases of a law so many are run, and then every 24th


def pytest_collection_modifyitems(items: list[Any]) -> None:
    """Leave a sample of laws that hold for many robots, random or built in, and tests marked `long`
    out.

    MINIDYN_TEST_LONG=1 runs all of them.
    """
    from minidyn import robots

    seen: dict[str, int] = {}
    kept, known = [], set(robots())
    for item in items:
        given = getattr(item, "callspec", None)
        many = given and any(
            key in ("seed", "block") or value in known for key, value in _texts(given.params)
        )
        law = item.nodeid.partition("[")[0]
        number = seen[law] = seen.get(law, -1) + 1
        sampled = (
            many and law.startswith(("tests/laws/", "tests/peers/", "tests/stories/")) and not LONG
        )
        if item.get_closest_marker("long") and not LONG:
            continue
        if not sampled or number < _WHOLE or (number - _WHOLE) % _EVERY == _EVERY - 1:
            kept.append(item)
    items[:] = kept


def _texts(given: dict[str, Any]) -> list[tuple[str, str]]:
    return [(key, value if isinstance(value, str) else "") for key, value in given.items()]


def numeric_base(robot: Any, method: str = "qr", model: str = "torque", **options: Any) -> Any:
    """Base parameters by QR unless another method is named."""
    from minidyn import base_parameters

    return base_parameters(robot, method, model, **options)


OWN = {"friction": "own", "rotor_inertia": None}
"""Keywords of `md.identify`: the drive terms of the robot itself."""
