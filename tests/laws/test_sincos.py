"""The vector sine and cosine against 80-bit arithmetic and the C library."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable

import numpy as np
import pytest

from minidyn.graph.function import Argument, Function, Instruction, Result
from minidyn.graph.targets.native.kernel import NativeFunction, compile_function

LONG = np.finfo(np.longdouble).nmant >= 63
needs_long = pytest.mark.skipif(not LONG, reason="the reference needs an 80-bit long double")


def sincos_function() -> Function:
    return Function(
        "sincos",
        (Argument("x", 1),),
        (Result("s", ()), Result("c", ())),
        (Instruction("input", (), (0, 0)), Instruction("sin", (0,)), Instruction("cos", (0,))),
        ((1,), (2,)),
    )


@pytest.fixture(params=[1, 2, 4, 8], scope="module")
def native(request: pytest.FixtureRequest) -> NativeFunction:
    return compile_function(sincos_function(), width=request.param)


def ulps(got: np.ndarray, x: np.ndarray, reference: Callable[[np.ndarray], np.ndarray]) -> float:
    exact = reference(x.astype(np.longdouble))
    error = np.abs(got.astype(np.longdouble) - exact)
    return float(np.max(error / np.spacing(np.abs(exact.astype(np.float64)))))


def neighbours(x: np.ndarray) -> np.ndarray:
    parts = [x]
    for _ in range(3):
        parts += [np.nextafter(parts[-1], np.inf)]
    for _ in range(3):
        parts += [np.nextafter(parts[-1] if len(parts) > 4 else x, -np.inf)]
    return np.concatenate(parts)


@needs_long
@pytest.mark.parametrize("reach", [1e-3, 1.0, 10.0, 1000.0])
def test_two_ulps_on_dense_grids(native: NativeFunction, reach: float) -> None:
    x = np.linspace(-reach, reach, 200_001)
    s, c = native(x[:, None])
    assert ulps(s, x, np.sin) <= 2.0
    assert ulps(c, x, np.cos) <= 2.0


def near_turn(k: int) -> tuple[float, float, float]:
    """The double x nearest to k pi/2, with sine and cosine of it from pi to 200 bits."""
    from fractions import Fraction

    digits = 31415926535897932384626433832795028841971693993751058209749445923078164062862089986280348253421170  # noqa: E501
    half = Fraction(digits, 10 ** (len(str(digits)) - 1)) / 2
    x = float(k * half)
    r = Fraction(x) - k * half
    small, one = float(r - r**3 / 6), float(1 - r**2 / 2)
    sines = (small, one, -small, -one)
    cosines = (one, -small, -one, small)
    return x, sines[k % 4], cosines[k % 4]


def test_near_multiples_of_a_quarter_turn(native: NativeFunction) -> None:
    """Near a zero nearly all digits cancel; those that are left must be right."""
    rows = np.array([near_turn(k) for k in range(-637, 638) if k])  # to |x| = 1000
    s, c = native(rows[:, :1].copy())
    assert np.all(np.abs(s - rows[:, 1]) <= 2 * np.spacing(np.abs(rows[:, 1])))
    assert np.all(np.abs(c - rows[:, 2]) <= 2 * np.spacing(np.abs(rows[:, 2])))


@needs_long
def test_neighbours_of_quarter_turns(native: NativeFunction) -> None:
    x = neighbours(np.arange(-640, 641) * (np.pi / 4))
    x = x[np.abs(x) > 1e-300]
    s, c = native(x[:, None])
    assert ulps(s, x, np.sin) <= 2.0
    assert ulps(c, x, np.cos) <= 2.0


@pytest.mark.parametrize("scale", [1e4, 9.99e4, 1.001e5, 1e7, 1e10, 1e22, 1e300])
def test_large_angles(native: NativeFunction, scale: float) -> None:
    x = np.random.default_rng(3).uniform(-1, 1, 500) * scale
    s, c = native(x[:, None])
    expected = np.array([(math.sin(v), math.cos(v)) for v in x])
    np.testing.assert_allclose(s, expected[:, 0], rtol=5e-16, atol=0)
    np.testing.assert_allclose(c, expected[:, 1], rtol=5e-16, atol=0)


def test_one_large_lane_does_not_disturb_the_others(native: NativeFunction) -> None:
    x = np.linspace(-3, 3, 64)
    x[::5] = 1e12
    s, c = native(x[:, None])
    expected = np.array([(math.sin(v), math.cos(v)) for v in x])
    np.testing.assert_allclose(np.stack([s, c], 1), expected, rtol=5e-16, atol=0)


def test_special_values(native: NativeFunction) -> None:
    tiny = 5e-324
    x = np.array([0.0, -0.0, np.nan, np.inf, -np.inf, tiny, -tiny, 1e-310, sys.float_info.max, 1.0])
    s, c = native(x[:, None])
    assert np.array_equal(s[:2], [0.0, 0.0])
    assert np.array_equal(np.signbit(s[:2]), [False, True])
    assert np.array_equal(c[:2], [1.0, 1.0])
    assert np.all(np.isnan(s[2:5]))
    assert np.all(np.isnan(c[2:5]))
    assert np.array_equal(s[5:8], x[5:8])
    assert math.isclose(s[8], math.sin(x[8]), rel_tol=1e-15)
    assert math.isclose(s[9], math.sin(1.0), rel_tol=1e-15)
