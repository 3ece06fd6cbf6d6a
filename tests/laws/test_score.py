"""The score and the rule of automatic decisions."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm

from minidyn.identification.score import (
    MIN_GAIN,
    MIN_STANDARD_ERRORS,
    Gain,
    block_scores,
    log_density,
)


def test_scores_are_those_of_a_normal_distribution_near_the_noise() -> None:
    """A change of the errors counts half of it, as in a normal log density, where errors are the
    noise; a block that is a hundred times as bad counts little more than one that is ten times.
    """
    rows = 6
    before, after = block_scores([rows, rows], rows), block_scores([1.02 * rows, rows], rows)
    assert (before - after)[0] == pytest.approx(0.5 * 0.02 * rows, rel=0.02)
    worse = block_scores([rows, 10 * rows, 100 * rows], rows)
    assert worse[1] - worse[2] < 3.0 * (worse[0] - worse[1])


def test_log_density_is_that_of_a_normal_distribution() -> None:
    rng = np.random.default_rng(1)
    errors, std = rng.normal(size=(3, 40, 2)), np.array([0.5, 2.0])
    expected = norm.logpdf(errors, scale=std).sum(axis=2).mean(axis=1)
    found = log_density(np.sum(errors**2, axis=1), np.full(3, 40), std)
    assert found == pytest.approx(expected)


def test_a_gain_is_worth_it_where_it_is_large_and_sure() -> None:
    assert Gain(3 * MIN_GAIN, 0.0).is_worth(3)
    assert not Gain(3 * MIN_GAIN, 0.0).is_worth(4)
    assert Gain(1.0, 1.0 / MIN_STANDARD_ERRORS).is_worth(1)
    assert not Gain(1.0, 1.001 / MIN_STANDARD_ERRORS).is_worth(1)


def test_the_standard_error_is_that_of_a_mean() -> None:
    gains = np.array([0.1, 0.4, 0.3, 0.2, 0.7])
    gain = Gain.of(np.ones(5), 1.0 + gains)
    assert gain.mean == pytest.approx(gains.mean())
    assert gain.standard_error == pytest.approx(gains.std(ddof=1) / np.sqrt(5))


def test_chance_alone_is_seldom_worth_it() -> None:
    rng = np.random.default_rng(2)
    before, after = rng.normal(size=(2, 2000, 10))
    taken = [Gain.of(*pair).is_worth(1) for pair in zip(before, after)]
    assert np.mean(taken) < 0.06  # Student's t with 9 degrees of freedom: 3.8 %


@pytest.mark.parametrize("blocks", [[0.1], [[0.1, 0.2], [0.3, 0.4]]])
def test_one_block_has_no_standard_error(blocks: object) -> None:
    with pytest.raises(ValueError, match="two blocks"):
        Gain.of(blocks, blocks)  # type: ignore[arg-type]
