"""How far long work is: its phase, the share that is done and the time that is left."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

PARTS: Mapping[str, Sequence[str]] = {
    "identify": (
        "reading",
        "preparing",
        "choosing terms",
        "solving",
        "making the model consistent",
        "diagnosing",
    )
}
"""What steps announce while they run."""

_LEAST = 1e-3  # size: seconds of a phase, so that shares are defined


class Phases:
    """The phases of work, each with the seconds that it took the last time.

    Without a last time all phases count alike, and nothing is said of the time that is left.
    """

    def __init__(
        self, steps: Sequence[str], before: Mapping[str, float], tell: Callable[..., None]
    ) -> None:
        self._before = dict(before)
        self._spent: dict[str, float] = {}
        self._names = [
            phase
            for step in steps
            for phase in (step, *(f"{step}: {p}" for p in PARTS.get(step, ())))
        ]
        self._tell = tell
        self._step = ""
        self._current = ""
        self._began = time.monotonic()

    @property
    def seconds(self) -> dict[str, float]:
        """What each phase took, this time or else the last time it ran."""
        return {**self._before, **self._spent}

    def step(self, name: str) -> None:
        """Begin a step."""
        self._step = name
        self._begin(name)

    def part(self, name: str) -> None:
        """Begin a part of the step; parts that nobody planned are shown, too."""
        if f"{self._step}: {name}" != self._current:
            self._begin(f"{self._step}: {name}")

    def end(self) -> None:
        """End the last phase."""
        self._begin("")

    def _begin(self, name: str) -> None:
        now = time.monotonic()
        if self._current:
            spent = self._spent.get(self._current, 0.0) + now - self._began
            self._spent[self._current] = round(max(spent, _LEAST), 3)
        self._current, self._began = name, now
        if not name:
            return
        place = self._names.index(name) if name in self._names else len(self._names) - 1
        known = all(one in self._before for one in self._names)
        weights = [self._before[one] if known else 1.0 for one in self._names]
        left = sum(weights[place:])
        share = 1.0 - left / (sum(weights) or 1.0)
        self._tell(
            phase=name,
            done=place,
            total=len(self._names),
            share=share,
            left=left if known else None,
        )
