"""Gautier 1991, Tables II and III.

What the number and the choice of the PUMA's base parameters rest on.
"""

from __future__ import annotations

import numpy as np
import pytest

import minidyn as md
from minidyn.arrays import Array


def _numbers(text: str) -> Array:
    return np.array([float(word) for word in text.split()])


# Table II as printed, with the four corrections of ERRATA (T_35 lost its first digits, σ_5, σ_38,
# R_38)
T = _numbers(
    """
    68.553 59.54 -56.21 -53.82 -52.934 45.777 41.811 -40.388 -38.433 36.752 35.341 -32.487 31.803 30.019 26.775
    25.016 -22.815 -19.409 17.306 -15.057 -14.006 -9.1768 7.9791 7.7318 6.1533 5.1126 4.4065 -3.9558 -3.0364 2.9987
    -2.7431 -1.7903 1.5204 1.4065 1.3187 -0.87418 -0.77411 0.53603 -0.4719 -0.25204 -1.6199e-15 -9.0819e-16
    -7.6112e-16 -5.7027e-16 -4.5733e-16 -2.9198e-16 -2.6984e-16 -2.4353e-16 2.2046e-16 1.3862e-16 9.5979e-17
    5.1004e-17 2.4312e-17 1.0142e-18 0
    """  # noqa: E501
)
SINGULAR = _numbers(
    """
    120.82 96.715 78.129 70.393 59.11 55.097 49.868 46.651 44.702 40.42 39.754 37.589 35.828 32.022 28.993 26.636
    23.792 20.918 19.197 17.571 14.026 9.9962 9.5516 8.1208 5.9656 5.0137 4.6084 4.1533 3.4905 2.9391 2.843 2.5664
    2.0108 1.6119 1.2859 1.1429 0.83973 0.68671 0.41455 0.28153 1.3828e-15 9.5098e-16 8.0914e-16 7.0702e-16
    6.5005e-16 5.6727e-16 5.0297e-16 4.2402e-16 3.8045e-16 3.094e-16 2.5514e-16 2.0519e-16 1.4772e-16 3.0844e-17
    2.1179e-18
    """  # noqa: E501
)
R = _numbers(
    """
    -3.8203 7.9726e-17 -1.1072 -2.7443 -1.5815 -8.3251e-17 -2.3261 1.2721 -28.195 -36.526 -8.1084e-18 -1.2027 1.7946
    -4.9349 -8.8418e-17 5.3286 -5.7767 22.033 28.448 3.1513e-17 6.7436e-16 -0.63825 3.6147 7.3713 -14.435
    -2.4113e-16 9.9817 14.25 18.716 -20.361 2.5541e-15 1.0295e-15 3.4103 -7.1551 -10.192 -15.635 7.4052e-16 13.316
    -13.966 20.472 -16.395 6.8609e-16 5.7533e-16 3.9575 -10.858 -20.111 19.148 -1.612e-15 -17.955 10.806 -12.469
    12.599 7.8398e-16 9.976e-17 0.54424
    """  # noqa: E501
)
V2N = _numbers(
    """
    0.14128 1.2633 -0.64517 -3.0548e-16 -0.17779 -0.52031 4.7093e-16 0.025507 0.24972 -9.2725e-18 0.099354 -0.68264
    0.0086334 1.6515e-16 -0.35387 -3.6194e-16 -0.32732 0.036423 -0.43167 -0.2557 1.3217 2.6388e-15 -0.3518
    2.9775e-17 -9.7873e-17 -0.84556 -1.1408e-16 0.49376 1.8375e-17 0.81228 1.5243 -1.6854 1.1091e-16 -1.0276
    1.5193e-18 1.482e-17 -0.49376 9.0862e-17 -0.53387 9.1535e-17 0.24349 0.81228 0.082822 1.861e-16 0.53387
    1.2192e-17 1.6842e-17 0.53387 -3.5353e-17 2.6972e-17 2.0261e-18 3.7307e-17 -0.24349 -0.21858 3.5993e-17
    """  # noqa: E501
)
# Table III as printed: β N of the 40 base parameters
BETA_N = _numbers(
    """
    2.1458 -0.7925 0 -0.3449 0 0.625 0.7113 0 0.1707 -0.0157 0 0 0.8036 0.0101 0.7843 0 0.3711 0 0 0 0.4148 0
    -0.2806 0 0.3635 0 0 0 0.7783 0 0.2119 0 -0.7783 0 0 0 0 0 0 0
    """  # noqa: E501
)


@pytest.fixture(scope="module")
def puma() -> md.BaseMap:
    return md.base_parameters("puma560")


@pytest.mark.parametrize(
    ("method", "model"),
    [
        ("exact", "energy"),
        ("exact", "torque"),
        ("qr", "energy"),
        ("svd", "torque"),
        ("mlc", "torque"),
    ],
)
def test_table_two(method: str, model: str) -> None:
    """Random states are not the paper's, but which values are zero is a fact of the robot."""
    base = md.base_parameters("puma560", method, model)
    found = base.evidence()
    assert len(found.columns) == len(T) == 55
    assert len(found.zero) == 11
    for ours, printed in ((found.T, T), (found.singular, SINGULAR)):
        for values in (ours, np.abs(printed)):
            assert np.argmax(values[:-2] / values[1:-1]) + 1 == 40  # the largest fall
            assert values[39] > 1e13 * values[40]
    for values in (found.R, np.abs(R)):
        regrouped = [name for name, value in zip(found.columns, values) if value < 1e-13]
        assert regrouped == list(md.base_parameters("puma560").regrouped)
        assert len(regrouped) == 15
    for values in (found.V2N, V2N):
        alone = [name for name, value in zip(found.columns, values) if abs(value) < 1e-13]
        assert alone == list(md.base_parameters("puma560").unchanged)
        assert len(alone) == 23  # the paper's text says 17, its table 23


def test_printed_null_vector_is_one(puma: md.BaseMap) -> None:
    """V2 N is a vector of parameters without effect.

    Base parameters of the printed one are zero, to its digits. All are, but for the sign of the
    first entry, ZZ1, which the paper prints (or its scan shows) without its minus.
    """
    vector = np.zeros(len(puma.robot.layout))
    vector[list(puma.robot.layout.indices(puma.evidence().columns))] = V2N
    wrong = puma.values(vector)
    assert [name for name, value in zip(puma.names, wrong) if abs(value) > 1e-4] == ["ZZR1"]
    vector[puma.robot.layout.index("ZZ1")] *= -1.0
    assert np.abs(puma.values(vector)).max() < 1e-4


def test_table_three(puma: md.BaseMap) -> None:
    """β N for the paper's own random numbers N.

    17 printed values that are not zero are met by 13 of them.
    """
    N, *_ = np.linalg.lstsq(puma.K, BETA_N, rcond=None)
    assert np.linalg.matrix_rank(puma.K) == 13
    np.testing.assert_allclose(puma.K @ N, BETA_N, atol=1e-4)  # four digits are printed
    found = puma.evidence()
    np.testing.assert_array_equal(found.betaN == 0.0, BETA_N == 0.0)
    np.testing.assert_allclose(found.betaN, puma.K @ found.N)
    table = found.base_table.columns
    printed = {"ZZR1": (0.5, 5.0186), "XXR2": (1.0, -2.05), "MYR3": (0.5, 1.14), "Ia6": (0.3, 0.3)}
    rows = {name: (X, XB) for name, X, XB in zip(table["base parameter"], table["X"], table["X_B"])}
    assert {name: tuple(round(value, 4) for value in rows[name]) for name in printed} == printed
