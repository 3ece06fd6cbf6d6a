"""How a raw recording is filtered and differentiated: every option with its default, once."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, TypedDict

from minidyn.errors import ShapeError, UnknownName, WrongArgument
from minidyn.recording.prepare.times import TIMES


class PreparationOptions(TypedDict, total=False):
    """The options of preparation but for the cut-off, as keywords of a function."""

    order: int
    decimate: int | None
    differentiate: bool | None
    trim: bool
    outliers: float | bool | None
    period: float | None
    rate: float | None
    resample: float | None
    time: str
    delay: float | None


@dataclass(frozen=True, kw_only=True)
class Preparation:
    """Options of :func:`minidyn.prepare`."""

    cutoff: float | None = None
    """Cut-off of the low-pass, Hz; None: 10 Hz, lower where accelerations are noisy."""
    order: int = 4
    """Order of the Butterworth filter, which passes twice, 1 to 10."""
    decimate: int | None = None
    """Keep one sample of so many; None: as the cut-off allows; 1: all."""
    differentiate: bool | None = None
    """dq and ddq from q; False: from the logged dq; None: from it where q is clearly noisier."""
    trim: bool = True
    """Cut off spoiled ends and standstill; False keeps every sample."""
    outliers: float | bool | None = 12.0
    """Spikes stand out by so many robust standard deviations; False: they are kept."""
    period: float | None = None
    """Of a periodic motion, s: whole periods are averaged into one; None: it is not periodic."""
    rate: float | None = None
    """Samples per second, evenly, whatever the times say; None: times count."""
    resample: float | None = None
    """Interpolate to so many samples per second; None: where samples are truly uneven."""
    time: str = "auto"
    """When samples were taken: "stamps", "even", or "auto", as the positions show."""
    delay: float | None = None
    """Seconds that torques are late against positions: they are moved back; negative: early."""

    def __post_init__(self) -> None:
        if self.outliers is None or self.outliers is True:
            object.__setattr__(self, "outliers", Preparation.outliers)
        for name in ("cutoff", "period", "rate", "resample", "delay", "outliers"):
            if type(value := getattr(self, name)) is int:
                object.__setattr__(self, name, float(value))
        for name in ("cutoff", "period", "rate", "resample"):
            self._require(name, float, lambda value: 0 < value < math.inf, "a number above 0")
        self._require("decimate", int, lambda value: value >= 1, "a whole number from 1")
        self._require("order", int, lambda value: 1 <= value <= 10, "1 to 10")
        self._require("delay", float, math.isfinite, "a number of seconds")
        if self.outliers is not False:
            what = "a number of standard deviations or False"
            self._require("outliers", float, lambda value: value >= 0, what)
        require_flag("trim", self.trim)
        if self.differentiate is not None:
            require_flag("differentiate", self.differentiate)
        if self.time not in TIMES:
            raise UnknownName("time", self.time, TIMES)
        if self.rate is not None and self.time == "stamps":
            raise WrongArgument(
                "rate=... says that samples are even, time='stamps' that they are not: give one"
            )

    def _require(
        self, name: str, kind: type, is_right: Callable[[Any], bool], expected: str
    ) -> None:
        value = getattr(self, name)
        if value is None and getattr(Preparation, name) is None:
            return
        if not (isinstance(value, kind) and is_right(value)):
            raise ShapeError(f"{name}: expected {expected}, got {value!r}")

    @property
    def preparation(self) -> dict[str, Any]:
        """The options of :func:`minidyn.prepare` that differ from their defaults."""
        return {
            one.name: value
            for one in fields(Preparation)
            if (value := getattr(self, one.name)) != one.default
        }


@dataclass(frozen=True)
class Processing:
    """Everything that decides what preparation does to a sample."""

    cutoff: float  # Hz; 0: not known yet
    order: int
    decimate: int | None
    differentiate: bool | None
    trim: bool
    outliers: float  # robust standard deviations; 0: spikes are kept
    period: float | None
    rate: float | None
    resample: float | None
    time: str

    @classmethod
    def of(cls, asked: Preparation) -> Processing:
        """Return what is asked for."""
        values = {one.name: getattr(asked, one.name) for one in fields(cls)}
        return cls(
            **values | {"cutoff": asked.cutoff or 0.0, "outliers": float(asked.outliers or 0)}
        )

    def every(self, rate: float) -> int:
        """Return how many samples become one: at least ten remain per period of the cut-off."""
        if self.decimate is not None:
            return self.decimate
        return max(1, int(rate / (10 * self.cutoff) + _ROUNDING))

    def margin(self, rate: float) -> int:
        """Return the samples at either end that the filter's start spoils.

        One period of the cut-off.
        """
        return max(8, math.ceil(rate / self.cutoff - _ROUNDING))


_ROUNDING = 1e-6  # rounding: a rate computed from times misses a whole number by less


def require_flag(name: str, value: object) -> None:
    """Raise where an option is neither true nor false."""
    if not isinstance(value, bool):
        raise WrongArgument(f"{name}: expected True or False, got {value!r}")
