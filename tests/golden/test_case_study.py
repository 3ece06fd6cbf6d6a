"""The case study of LuMeng1993, against series computed independently (golden/lu_meng.json,
adaptive.runs).
"""

import numpy as np
import pytest

from minidyn.simulation.case_study import lu_meng_case

# (time, estimated mass, tracking errors) as the golden file rounds them
SLOTINE_LI_20 = [
    (0.05, 1.26111669, [-0.41007415, -0.46544563, -0.35491379, -0.62367408]),
    (0.10, 1.10506466, [-0.22169132, -0.25232104, -0.20906176, -0.42546316]),
    (0.20, 1.0030873, [-0.04795503, -0.05757598, -0.05689086, -0.13176064]),
    (0.35, 0.9956371, [-0.00373176, -0.0046291, -0.00497173, -0.0124943]),
    (1.00, 0.99798202, [-2.998e-05, -0.00010501, 0.00021916, -0.00025068]),
    (2.00, 0.99900169, [-1e-06, 6.5e-07, -1.25e-06, 0.00011582]),
]
CRAIG_20 = [
    (0.05, 0.04142329, [-0.39740167, -0.4088365, -0.3253371, -0.63674228]),
    (0.10, 1.41075526, [-0.22158654, -0.21734522, -0.15329737, -0.2266917]),
    (0.20, 0.81636052, [-0.04895263, -0.04831442, -0.0368033, -0.0756389]),
    (0.35, 1.00459506, [-0.00431095, -0.00210466, 0.00102808, -0.01757398]),
    (1.00, 1.00004302, [9.7e-07, 2.32e-06, -5.72e-06, 1.035e-05]),
    (2.00, 1.00000001, [-0.0, 0.0, 0.0, -0.0]),
]


@pytest.fixture(scope="module")
def study():
    return lu_meng_case()


@pytest.mark.parametrize(("law", "series"), [("slotine_li", SLOTINE_LI_20), ("craig", CRAIG_20)])
def test_series(study, law, series) -> None:
    recording = getattr(study, law)
    for time, mass, error in series:
        at = round(time / 2.5e-4)
        assert recording.t[at] == pytest.approx(time)
        assert recording.telemetry["estimate"][at, 0] == pytest.approx(mass, abs=1e-8)
        np.testing.assert_allclose(recording.telemetry["error"][at], error, atol=1e-8)


def test_largest_torque(study) -> None:
    assert np.abs(study.slotine_li.tau).max() == pytest.approx(67.64217594786614, rel=1e-9)
    assert np.abs(study.craig.tau).max() == pytest.approx(113.94148319156835, rel=1e-9)


def test_lyapunov_function_decreases(study) -> None:
    value = study.slotine_li.telemetry["lyapunov"]
    assert value[0] == pytest.approx(71.17427025916383, rel=1e-9)
    assert value[-1] == pytest.approx(1.6708444610031165e-05, rel=1e-6)
    assert np.all(np.diff(value) < 0)
    assert study.slotine_li.telemetry["margin"].min() > 0
    assert study.slotine_li.notices == ()


def test_low_rates_violate_the_condition_and_say_so() -> None:
    """Runs lowlam_1.0 and lowlam_5 of the golden file.

    V rises at 44.75 % of the samples, and never.
    """
    low = lu_meng_case(bandwidth=1.0, dt=1e-3).slotine_li
    rising = np.mean(np.diff(low.telemetry["lyapunov"]) > 0)
    assert rising > 0.1
    assert {notice.code for notice in low.notices} == {
        "simulate.lyapunov_rises",
        "simulate.stability_violated",
    }
    high = lu_meng_case(bandwidth=5.0, dt=1e-3).slotine_li
    assert "simulate.lyapunov_rises" not in {notice.code for notice in high.notices}
