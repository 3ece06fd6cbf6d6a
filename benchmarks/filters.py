"""Filters and spectra: ours against SciPy's, in processor time and in value.

    python benchmarks/filters.py

Prints what importing scipy.signal costs after `import minidyn` and what identification imports
anyway, then the processor time of the zero-phase low-pass and of the power spectrum on 60 s and on
1 h of seven joints at 1 kHz, and how far the values are apart.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable

import numpy as np

from minidyn.recording.prepare.lowpass import lowpass
from minidyn.recording.prepare.spectra import power_spectrum

RATE, JOINTS, CUTOFF, ORDER = 1000.0, 7, 20.0, 4
REPEATS = 5

IMPORT = """
import time
import minidyn, numpy, scipy.linalg, scipy.special
begin = time.process_time()
import scipy.signal
print(time.process_time() - begin)
"""


def main() -> None:
    """Print the tables."""
    costs = [float(subprocess.check_output([sys.executable, "-c", IMPORT])) for _ in range(REPEATS)]
    print(
        f"import scipy.signal after what identification imports: {np.median(costs):.2f} s of "
        "processor time\n"
    )
    from scipy.signal import butter, detrend, sosfiltfilt, welch

    sections = butter(ORDER, CUTOFF, fs=RATE, output="sos")
    pad = round(3 * RATE / CUTOFF)
    print("| what | samples | ours | SciPy | ratio | largest difference |")
    print("|---|---:|---:|---:|---:|---:|")
    for seconds in (60, 3600):
        count = round(seconds * RATE)
        t = np.arange(count) / RATE
        rng = np.random.default_rng(0)
        values = np.sin(np.outer(t, np.linspace(1, 12, JOINTS))) + 1e-3 * rng.standard_normal(
            (count, JOINTS)
        )
        size = min(count, 8192)

        def smooth(values: np.ndarray = values) -> np.ndarray:
            return lowpass(values, RATE, CUTOFF, ORDER)

        def smooth_scipy(values: np.ndarray = values) -> np.ndarray:
            return np.asarray(sosfiltfilt(sections, values, axis=0, padtype="odd", padlen=pad))

        def power(values: np.ndarray = values, size: int = size) -> np.ndarray:
            return power_spectrum(values, RATE, size)[1]

        def power_scipy(values: np.ndarray = values, size: int = size) -> np.ndarray:
            return np.asarray(welch(detrend(values, axis=0), RATE, "hann", size, axis=0)[1])

        for name, ours, theirs in (
            ("zero-phase low-pass", smooth, smooth_scipy),
            ("spectrum", power, power_scipy),
        ):
            a, b, difference = _medians(ours, theirs)
            print(
                f"| {name} | {count} | {1e3 * a:.1f} ms | {1e3 * b:.1f} ms | {b / a:.2f} | "
                f"{difference:.1e} |"
            )


def _medians(
    one: Callable[[], np.ndarray], two: Callable[[], np.ndarray]
) -> tuple[float, float, float]:
    """Return the medians of interleaved runs, s of processor time, and the largest relative
    difference.
    """
    first, second = one(), two()
    times: list[tuple[float, float]] = []
    for _ in range(REPEATS):
        marks = [time.process_time()]
        for run in (one, two):
            run()
            marks.append(time.process_time())
        times.append((marks[1] - marks[0], marks[2] - marks[1]))
    a, b = np.median(times, axis=0)
    return float(a), float(b), float(np.abs(first - second).max() / np.abs(second).max())


if __name__ == "__main__":
    main()
