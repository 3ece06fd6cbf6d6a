"""Compiled filters and the quick look for spikes give what the plain ones give."""

import numpy as np
import pytest
from scipy import signal

from minidyn.errors import ShapeError
from minidyn.recording.prepare.lowpass import butterworth, lowpass, zero_phase
from minidyn.recording.prepare.signals import spikes
from minidyn.recording.prepare.spectra import power_spectrum


@pytest.mark.parametrize("order", [1, 2, 3, 4, 10])
@pytest.mark.parametrize("columns", [1, 7, 9])
def test_compiled_filter_is_scipys(order, columns) -> None:
    rng = np.random.default_rng(order)
    values = np.cumsum(rng.standard_normal((900, columns)), axis=0)
    sections, states = butterworth(order, 12.0, 1000.0)
    for pad in (0, 1, 250, 899):
        expected = signal.sosfiltfilt(sections, values, axis=0, padlen=pad)
        found = zero_phase(sections, states, np.asfortranarray(values), pad)
        np.testing.assert_allclose(found, expected, atol=1e-11 * np.abs(values).max())


@pytest.mark.parametrize("order", range(1, 11))
@pytest.mark.parametrize("cutoff", [0.3, 12.0, 499.0])
def test_butterworth_is_scipys(order, cutoff) -> None:
    sections, states = butterworth(order, cutoff, 1000.0)
    theirs = signal.butter(order, cutoff, fs=1000.0, output="sos")
    f = np.geomspace(0.01, 500.0, 200)
    found, expected = (signal.sosfreqz(sos, f, fs=1000.0)[1] for sos in (sections, theirs))
    np.testing.assert_allclose(found, expected, atol=1e-9)
    np.testing.assert_allclose(states, signal.sosfilt_zi(sections), atol=1e-9)
    for wrong in (0.0, 500.0, 600.0):
        with pytest.raises(ShapeError, match="half the sample rate"):
            butterworth(order, wrong, 1000.0)


@pytest.mark.parametrize("shape", [(40,), (5000, 3), (300, 2, 3)])
def test_lowpass_is_scipys(shape) -> None:
    values = np.cumsum(np.random.default_rng(0).standard_normal(shape), axis=0)
    sections = signal.butter(4, 90.0, fs=500.0, output="sos")
    scale = np.abs(values).max()
    np.testing.assert_allclose(
        lowpass(values, 500.0, 90.0),
        signal.sosfiltfilt(sections, values, axis=0, padlen=17),
        atol=1e-11 * scale,
    )
    rows = len(values)
    three = signal.sosfiltfilt(sections, np.concatenate([values] * 3), axis=0, padlen=0)[
        rows : 2 * rows
    ]
    np.testing.assert_allclose(
        lowpass(values, 500.0, 90.0, periodic=True), three, atol=1e-11 * scale
    )


@pytest.mark.parametrize(("samples", "size"), [(1000, 256), (1000, 1000), (1001, 255), (64, 64)])
def test_power_spectrum_is_scipys(samples, size) -> None:
    values = np.cumsum(np.random.default_rng(size).standard_normal((samples, 3)), axis=0)
    f, power = power_spectrum(values, 250.0, size)
    f_theirs, theirs = signal.welch(signal.detrend(values, axis=0), 250.0, nperseg=size, axis=0)
    np.testing.assert_allclose(f, f_theirs)
    np.testing.assert_allclose(power, theirs, atol=1e-12 * theirs.max())


def plain_spikes(values: np.ndarray, threshold: float) -> np.ndarray:
    found = np.zeros(values.shape, dtype=bool)
    cubic = np.zeros_like(values)
    cubic[2:-2] = np.abs(
        values[2:-2] - (4 * (values[1:-3] + values[3:-1]) - values[:-4] - values[4:]) / 6
    )
    limit = threshold * np.maximum(1.4826 * np.median(cubic, axis=0), 1e-4 * np.ptp(values, axis=0))
    for row, joint in np.argwhere(cubic > limit):
        side = min(3, row, len(values) - 1 - row)
        apart = (
            abs(values[row, joint] - np.median(values[row - side : row + side + 1, joint]))
            > limit[joint]
        )
        found[row, joint] = (
            apart and cubic[row, joint] >= 0.999 * cubic[max(row - 2, 0) : row + 3, joint].max()
        )
    return found


@pytest.mark.parametrize("seed", range(6))
def test_spikes_are_found_as_by_definition(seed) -> None:
    rng = np.random.default_rng(seed)
    t = np.arange(3000)[:, None] / 100
    values = np.sin(t * rng.uniform(0.5, 3, 5)) + rng.choice(
        [0, 1e-4, 1e-2, 0.3], 5
    ) * rng.standard_normal((3000, 5))
    hit = rng.random(values.shape) < 0.002
    values = values + np.where(hit, rng.choice([0, 0.02, 1.0, 30.0], 5), 0.0)
    for threshold in (3.0, 12.0):
        np.testing.assert_array_equal(spikes(values, threshold), plain_spikes(values, threshold))
    assert not spikes(np.zeros((50, 2)), 12.0).any()
