"""When samples were taken: what stamps, positions and repeated values of a run say together.

A logger's stamp may be the time of the sample, or only the time at which the logger got round to
it. Positions know: between two samples a joint moves by its speed times the time that passed. With
steps of stamps dt, the same steps if samples were even d, the speed v over some neighbours and the
positions' steps dq,

    dq - v d  =  a v (dt - d) + noise,

a is 1 where stamps are true and 0 where samples are even; least squares over all joints gives it
within some percent wherever the difference matters.

Positions that repeat exactly while the robot moves were not measured anew. Where that is the rule,
the log is faster than the measurement; where it is the exception, the logger and the measurement
have clocks of their own: it reads some samples twice and misses others. The number of ticks of the
measurement between two samples is then dq / (v tick), rounded.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from minidyn.arrays import Array, refuse_beyond_memory, rms
from minidyn.errors import DescriptionError
from minidyn.notices import Notice, info
from minidyn.recording.lazy import AnyRecording
from minidyn.recording.recording import Recording, each_array

HELD_OUT = info(
    "prepare.held_left_out",
    "Positions are held while the robot moves: it was logged faster than measured. The first "
    "sample of each was kept.",
)
TAKEN_AS_EVEN = info(
    "prepare.taken_as_even",
    "Times jitter; positions say that samples are evenly spaced, or that it makes no difference.",
    "time='stamps' (--time stamps) uses the stamps as they are.",
)
RESAMPLED = info(
    "prepare.resampled",
    "The recording was interpolated to even times: it was asked for, or positions say that "
    "samples are truly uneven.",
    "Where the samples are even and only their stamps are not, time='even' (--time even) says so.",
)
BURSTS = info(
    "prepare.bursts",
    "Times come in bursts, as of samples that arrive in packets. Samples were taken as even, at "
    "their mean rate.",
    "rate=HZ (--rate) gives the true rate; time='stamps' (--time stamps) uses the stamps as they "
    "are.",
)
COUNTED = info(
    "prepare.counted",
    "The logger read some samples of the measurement twice and missed others: times were counted "
    "from positions.",
    "time='stamps' or 'even' (--time) takes the samples as they are.",
)

JITTER = info(
    "recording.uneven_times",
    "Time steps are uneven. Preparation decides from the positions whether the samples are, or "
    "their stamps only.",
    "The text says what was decided; --time stamps or --time even (time=... of md.prepare) "
    "overrules it.",
)
KEPT = info(
    "prepare.kept",
    "How many samples are left after trimming and thinning, or were made by resampling.",
)

TIMES = ("auto", "stamps", "even")
"""How times may be taken: decided from the data, as stamped, or evenly spaced."""

GAP = 2.5  # steps: a longer one is a gap
HEAD = 1 << 12  # size: samples that show the rate
MIN_BURSTS = 10  # gaps: a few pauses are no bursts
MAX_BURST = 20  # samples, on average, of what is taken as even because the user says so
NEIGHBOURS = 8  # size: samples on either side over which a speed is taken
MAX_STD = 0.2  # of `a`: a larger standard deviation says nothing
MAX_HARMLESS_JITTER = 1e-3  # of a step
MAX_EVEN_JITTER = 0.5  # of a step: more is not taken as even where positions say nothing
MIN_QUANTA = 4.0  # smallest steps that a joint should have moved where a repeat is no measurement
MIN_SHARE = 0.3  # of time, samples or errors that a fault of the logger makes: less is no rule
MIN_SOME_REPEATS = 0.01  # of the samples: logger and measurement have clocks of their own
MIN_TICK_MOTION = 6.0  # over the noise of positions: so far they move within a tick that is counted


@dataclass(frozen=True)
class _Steps:
    """What happens between a sample and the next."""

    moved: Array  # steps of positions (N - 1, n)
    stamped: Array  # steps of stamps (N - 1,), s
    even: Array  # the same if samples were even (N - 1,), s
    speed: Array  # over the neighbours (N - 1, n)
    good: NDArray[np.bool_]  # (N - 1,), whether it is no gap and no hole


def timed(
    run: Recording, time: str, resample: float | None, notices: list[Notice]
) -> tuple[Recording, float | None]:
    """Return a run of increasing times without what was not measured anew, and the rate it is to be
    resampled to.

    None: its samples are even, or taken as even. With `resample` its times say so: that rate is
    taken from them.
    """
    if float(np.median(np.diff(run.t))) <= 0:
        raise DescriptionError(
            "time stands still in most samples; rate=HZ (--rate) gives the true rate"
        )
    told: list[Notice] = []
    run, rate = _decided(run, time, told)
    notices += (
        told if resample is None else [notice for notice in told if notice.code != RESAMPLED.code]
    )
    if resample is None:
        return run, rate
    if rate is None and time != "stamps":
        cuts = (
            np.flatnonzero(np.diff(run.t) > GAP * float(np.median(np.diff(run.t)))) + 1
        ).tolist()
        pieces = [np.linspace(piece[0], piece[-1], len(piece)) for piece in np.split(run.t, cuts)]
        run = each_array(run, np.asarray, t=np.concatenate(pieces))
    notices.append(
        RESAMPLED(f"resampled to {resample:.6g} samples a second, as asked", rate=resample)
    )
    return run, float(resample)


def _decided(run: Recording, time: str, notices: list[Notice]) -> tuple[Recording, float | None]:
    """Return a run without what was not measured anew, and the rate it is to be resampled to; None.

    It is even.
    """
    if len(run) < 4 * NEIGHBOURS or time == "even":
        return run, None
    run = _measured_anew(run, notices)
    if time == "stamps":
        if _jitter(run.t) <= MAX_HARMLESS_JITTER:
            return run, None
        rate = 1 / float(np.median(np.diff(run.t)))
        notices.append(RESAMPLED(f"resampled to {rate:.6g} samples a second, as asked", rate=rate))
        return run, rate
    steps = _steps(run)
    again = _repeats(steps)
    step, jitter = float(np.median(steps.stamped)), _jitter(run.t)
    moving = int(np.count_nonzero(steps.speed.any(axis=1)))
    stale = int(again.sum()) > MIN_SOME_REPEATS * max(moving, 1)
    if jitter <= MAX_HARMLESS_JITTER and not stale:
        return run, None
    share, spread = _believed(steps)
    if stale:
        counted = _counted(run, again)
        if counted is not None:
            made, missed, tick = counted
            text = (
                f"{int(again.sum())} samples repeat the one before while the robot moves, and "
                f"{missed} were missed: times are counted from positions"
            )
            notices.append(COUNTED(text, repeated=int(again.sum()), missed=missed, of=len(run)))
            return made, 1 / tick
    data = {"share": jitter, "rate": 1 / step, "believed": share, "uncertainty": spread}
    unclear = spread > MAX_STD
    if share > 0.5 if not unclear else jitter > MAX_EVEN_JITTER:
        text = (
            f"time steps vary by {100 * jitter:.2g} %, as positions do: resampled to "
            f"{1 / step:.6g} a second"
        )
        notices.append(RESAMPLED(text, **data))
        return run, 1 / step
    if jitter > MAX_HARMLESS_JITTER:
        said = "it makes no difference" if unclear else "positions say that samples are even"
        text = f"time steps vary by {100 * jitter:.2g} %; {said}: taken as even"
        notices.append(TAKEN_AS_EVEN(text, **data))
    return run, None


def spread(run: Recording, time: str, notices: list[Notice]) -> Recording:
    """Return a run whose samples arrived in bursts with even times of its mean rate, and any other
    as it is.
    """
    found = _bursts(run, time)
    if found is None:
        return run
    begins, long, step = found
    pieces = [
        piece[0] + step * np.arange(len(piece))
        for piece in np.split(run.t, begins[1:][long].tolist())
    ]
    size = len(run) / len(begins)
    said = "positions say that samples are even" if time == "auto" else "as asked"
    text = (
        f"times come in bursts of {size:.2g} samples; {said}: taken as even, {1 / step:.6g} a "
        "second"
    )
    notices.append(BURSTS(text, rate=1 / step, size=size))
    return each_array(run, np.asarray, t=np.concatenate(pieces))


def _bursts(run: Recording, time: str) -> tuple[NDArray[np.intp], NDArray[np.bool_], float] | None:
    """Return where bursts of even samples begin, whether a pause is before each but the first, and
    the mean step, s.

    Stamps tell of many gaps. Samples are even where positions move over a gap as far as between any
    two samples, or, where that is asked for ("even"), if little would be left between the gaps.
    None: there are no bursts.
    """
    steps = np.diff(run.t)
    if time == "stamps" or len(run) < 4 * NEIGHBOURS:
        return None
    far = steps > GAP * float(np.median(steps))
    number, late = int(np.count_nonzero(far)), float(steps[far].sum())
    if number < MIN_BURSTS or late < MIN_SHARE * float(steps[steps > 0].sum()):
        return None
    moved = np.abs(np.nan_to_num(np.diff(run.q, axis=0)))
    share = np.mean(moved / np.maximum(moved.mean(axis=0), 1e-300), axis=1)
    within, over = float(share[~far].mean()), float(share[far].mean())
    longer = late / number / max(float(steps[~far].mean()), 1e-300)
    even = 0.5 * within < over < min(2.0, math.sqrt(longer)) * within
    if not even and not (time == "even" and within > 0 and number * MAX_BURST > len(steps)):
        return None
    begins = np.concatenate([[0], np.flatnonzero(far) + 1])
    lasts, sizes = np.diff(run.t[begins]), np.diff(begins)
    long = steps[far] > GAP * float(np.median(steps[far]))
    whole = ~long & (np.arange(number) > 0)  # the first may have begun before the log
    return begins, long, float(lasts[whole].sum() / sizes[whole].sum())


def nothing_left(samples: int, least: int) -> DescriptionError:
    """Return the error of a recording of which no stretch between gaps has the least number of
    samples.
    """
    text = f"no run has {least} samples in a row; {samples} samples in all"
    why = (
        "; where samples are even and their times are not, rate=HZ (--rate HZ) or time='even' "
        "(--time even) says so"
    )
    return DescriptionError(text + why * (samples >= least))


_Kind = TypeVar("_Kind", bound=AnyRecording)


def told_as_asked(recording: _Kind, time: str) -> _Kind:
    """Return a recording whose notice of uneven times says how they are taken, where that was asked
    for.
    """
    if time == "auto":
        return recording
    words = "the stamps are used" if time == "stamps" else "samples are taken as even"
    notices = (
        replace(notice, text=f"{notice.text}; {words}, as asked", advice="")
        if notice.code == JITTER.code
        else notice
        for notice in recording.notices
    )
    return replace(recording, notices=tuple(notices))


def samples_left(count: int, of: int, step: int, notices: Iterable[Notice]) -> Notice:
    """Return how many samples are left of a recording that was thinned by a step.

    Notices say if it was resampled.
    """
    again = any(notice.code in (RESAMPLED.code, COUNTED.code) for notice in notices)
    text = (
        f"{count} samples at even times were made of {of}"
        if again
        else f"{count} of {of} samples are kept"
    )
    return KEPT(f"{text}{f', one in {step}' if step > 1 else ''}", samples=count, of=of, step=step)


def even_times(run: Recording, rate: float) -> Array:
    """Return times of so many samples per second over a run.

    More than fit into memory are refused.
    """
    span = float(run.t[-1] - run.t[0])
    refuse_beyond_memory(
        4.0 * span * rate * run.n,
        f"{span:g} s at {rate:g} samples a second",
        "check t and resample=",
    )
    return np.arange(run.t[0], run.t[-1], 1 / rate)


def logged_rate(recording: Recording) -> float:
    """Return the rate of a log by its stamps, samples per second; 0 where it has none."""
    steps = np.diff(recording.t)
    step = float(np.median(steps)) if len(steps) else 0.0
    bursts = _bursts(recording.runs[0], "auto") if len(steps) else None
    step = step if bursts is None else bursts[2]
    return 1 / step if step > 0 else 0.0


def _jitter(t: Array) -> float:
    """Return how much steps vary, as a share of their median; gaps apart."""
    steps = np.diff(t)
    step = float(np.median(steps))
    near = steps[steps <= GAP * step]
    return float(np.sqrt(np.mean((near - near.mean()) ** 2))) / step if step > 0 else math.inf


def _steps(run: Recording, near: int = NEIGHBOURS) -> _Steps:
    moved, stamped = np.diff(run.q, axis=0), np.diff(run.t)
    good = (stamped <= GAP * float(np.median(stamped))) & np.isfinite(moved).all(axis=1)
    sums = np.cumsum(
        np.vstack([np.zeros(1 + run.n), np.column_stack([stamped, moved]) * good[:, None]]), axis=0
    )
    count = np.concatenate([[0], np.cumsum(good)])
    last = len(moved)
    low = np.clip(
        np.arange(last) - near, 0, max(last - 2 * near - 1, 0)
    )  # neighbours at the ends are on one side
    high = np.minimum(low + 2 * near + 1, last)
    over, among = sums[high] - sums[low], np.maximum(count[high] - count[low], 1)
    mean = over[:, 0] / among
    good &= (count[high] - count[low] > near) & (mean > 0)
    speed = over[:, 1:] / np.where(over[:, :1] > 0, over[:, :1], 1.0)
    return _Steps(np.nan_to_num(moved), stamped, mean, np.where(good[:, None], speed, 0.0), good)


def _repeats(steps: _Steps) -> NDArray[np.bool_]:
    """Return where (N,) all positions repeat although some joint should have moved by several of
    its smallest steps.
    """
    size = np.abs(steps.moved)
    least = np.where(size > 0, size, np.inf).min(axis=0)
    due = np.any(np.abs(steps.speed) * steps.even[:, None] > MIN_QUANTA * least, axis=1)
    return np.concatenate([[False], due & ~size.any(axis=1) & steps.good])


def _measured_anew(run: Recording, notices: list[Notice]) -> Recording:
    """Leave out what is held where a log is faster than the measurement.

    Of each value the first sample is true.
    """
    fresh = np.concatenate([[True], np.any(np.diff(run.q, axis=0) != 0, axis=1)])
    if 1.0 - fresh.mean() < MIN_SHARE:
        return run
    again = _repeats(_steps(run, 4 * NEIGHBOURS))
    rows = np.arange(len(run))
    changes = rows[fresh]
    lengths = np.diff(changes)[again[np.minimum(changes[:-1] + 1, len(run) - 1)]]
    if not len(lengths) or again.sum() < MIN_SHARE * (again.sum() + len(changes)):
        return run
    hold = max(2, round(float(np.median(lengths))))
    since = rows - np.maximum.accumulate(
        np.where(fresh, rows, 0)
    )  # at rest they repeat rightly: some are kept
    kept = (since == 0) | (~again & (since % hold == 0))
    text = (
        f"positions are held for {hold} samples: the first of each is kept, {int(kept.sum())} of "
        f"{len(run)}"
    )
    notices.append(HELD_OUT(text, hold=hold, samples=int(kept.sum()), of=len(run)))
    return each_array(run, lambda array: array[kept], t=run.t[kept])


def _believed(steps: _Steps) -> tuple[float, float]:
    """Return how true stamps are, 0 to 1, and the standard deviation of that."""
    off = steps.speed * np.where(steps.good, steps.stamped - steps.even, 0.0)[:, None]
    rest = np.where(steps.good[:, None], steps.moved - steps.speed * steps.even[:, None], 0.0)
    sizes = [_size(rest), _size(rest - off)]  # of each joint: even, stamps
    weight = 1.0 / np.maximum(np.minimum(*sizes), 1e-12) ** 2
    power = float(np.sum(weight * off**2))
    if power <= 0:
        return 0.0, math.inf
    share = float(np.sum(weight * off * rest)) / power
    error = weight * (rest - share * off) ** 2
    return share, math.sqrt(
        2 * float(error.mean()) / power
    )  # twice: neighbours' errors are not independent


def _size(values: Array) -> Array:
    """Return the robust size of each column, and of one that is mostly zero its mean square."""
    middle = 1.4826 * np.median(np.abs(values), axis=0)
    return np.where(middle > 0, middle, rms(values))


def _counted(run: Recording, again: NDArray[np.bool_]) -> tuple[Recording, int, float] | None:
    """Return the run with times counted in ticks of the measurement, how many were missed, and a
    tick, s.

    None: it does not fit.
    """
    made = each_array(run, lambda array: array[~again], t=run.t[~again])
    steps = _steps(made)
    tick = float(np.median(steps.stamped))
    weight = 1.0 / np.maximum(_size(steps.moved - steps.speed * steps.even[:, None]), 1e-12) ** 2
    power = np.sum(weight * steps.speed**2, axis=1)
    sure = steps.good & (power * tick**2 > MIN_TICK_MOTION**2)
    passed = np.sum(weight * steps.speed * steps.moved, axis=1) / np.where(power > 0, power, 1.0)
    passed = np.where(sure, passed, steps.stamped)
    for _ in range(2):  # the median of jittered steps is near enough to count by
        ticks = np.maximum(np.rint(passed / tick), 1.0)
        tick = (
            float(np.sum(steps.stamped[steps.good]) / np.sum(ticks[steps.good]))
            if steps.good.any()
            else tick
        )
    even, stamped, counted = (
        float(np.sum((weight * (steps.moved - steps.speed * length[:, None]) ** 2)[sure]))
        for length in (steps.even, steps.stamped, ticks * tick)
    )
    if not sure.any() or counted > (1.0 - MIN_SHARE) ** 2 * min(even, stamped):
        return None
    t = made.t[0] + tick * np.concatenate([[0.0], np.cumsum(ticks)])
    return each_array(made, np.asarray, t=t), int(np.sum(ticks - 1)), tick
