"""Compiled filters and the quick look for spikes give what the plain ones give."""

import numpy as np
import pytest
from scipy import signal

from minidyn.experiment.signals import _LONG, lowpass, spikes
from minidyn.experiment.zero_phase import butterworth, zero_phase


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


def test_long_and_short_signals_are_filtered_alike() -> None:
    values = np.cumsum(np.random.default_rng(0).standard_normal((_LONG + 1, 3)), axis=0)
    long = lowpass(values, 500.0, 9.0)
    apart = np.column_stack([lowpass(column, 500.0, 9.0) for column in values.T])  # vectors take scipy's way
    np.testing.assert_allclose(long, apart, atol=1e-11 * np.abs(values).max())


def plain_spikes(values: np.ndarray, threshold: float) -> np.ndarray:
    found = np.zeros(values.shape, dtype=bool)
    cubic = np.zeros_like(values)
    cubic[2:-2] = np.abs(values[2:-2] - (4 * (values[1:-3] + values[3:-1]) - values[:-4] - values[4:]) / 6)
    limit = threshold * np.maximum(1.4826 * np.median(cubic, axis=0), 1e-4 * np.ptp(values, axis=0))
    for row, joint in np.argwhere(cubic > limit):
        apart = abs(values[row, joint] - np.median(values[max(row - 3, 0) : row + 4, joint])) > limit[joint]
        found[row, joint] = apart and cubic[row, joint] >= 0.999 * cubic[max(row - 2, 0) : row + 3, joint].max()
    return found


@pytest.mark.parametrize("seed", range(6))
def test_spikes_are_found_as_by_definition(seed) -> None:
    rng = np.random.default_rng(seed)
    t = np.arange(3000)[:, None] / 100
    values = np.sin(t * rng.uniform(0.5, 3, 5)) + rng.choice([0, 1e-4, 1e-2, 0.3], 5) * rng.standard_normal((3000, 5))
    hit = rng.random(values.shape) < 0.002
    values = values + np.where(hit, rng.choice([0, 0.02, 1.0, 30.0], 5), 0.0)
    for threshold in (3.0, 12.0):
        np.testing.assert_array_equal(spikes(values, threshold), plain_spikes(values, threshold))
    assert not spikes(np.zeros((50, 2)), 12.0).any()
