"""A sample of benchmarks/truth.py.

Effects are what they say, and the default beats plain least squares.
"""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))
import minidyn as md  # noqa: E402
import truth  # noqa: E402
import truth_effects  # noqa: E402
from conftest import count  # noqa: E402


@pytest.mark.parametrize(
    "effect", ["none", "jitter", *list(truth_effects.EFFECTS)[2 : count(2, 99)]]
)
def test_the_default_is_not_worse_than_plain_least_squares(effect: str) -> None:
    """One small robot: the whole table is made by the benchmark."""
    row = truth.work(("two_link", effect, 4, ("default", "plain")))
    assert row["refused"] == {}
    assert row["errors"]["default"][0] < 1.2 * row["errors"]["plain"][0]


def test_on_short_slow_logs_a_good_file_is_used(tmp_path: Path) -> None:
    """What friction leaves of four seconds at a crawl, and noise of accelerations, are no errors of
    bodies or units.
    """
    for robot in ("so101", "puma4"):  # "off by 376 %", and a factor of 3.6 ± 0.9
        case = truth.case_of(robot, "weak", 0)
        log = md.read_recording(case.log.save(tmp_path / "log.npz"), case.log.file)
        estimate = md.identify(case.log.file, log, friction=truth.PLAIN)
        assert estimate.record["prior_weight"] > 0
        assert "signals.torque_scale" not in [notice.code for notice in estimate.notices]


# waves that grow with the speed were guessed where a low-pass hides them; waves hid Stribeck
# friction
HIDDEN = [("scara", "everything", 1, 0.011), ("xarm7", "everything", 9, 0.035)]


@pytest.mark.parametrize(("robot", "effect", "seed", "most"), HIDDEN[: count(1, 2)])
def test_friction_terms_do_not_stand_in_for_something_else(
    robot: str, effect: str, seed: int, most: float, tmp_path: Path
) -> None:
    case = truth.case_of(robot, effect, seed)
    found = truth.ours(consistent=False)(case, tmp_path)
    assert np.linalg.norm(found.predicted - case.exact) < most * np.linalg.norm(case.exact)


def test_a_fast_motion_gets_a_higher_cutoff(tmp_path: Path) -> None:
    case = truth.case_of("so101", "fast", 12)
    log = md.read_recording(case.log.save(tmp_path / "log.npz"), case.log.file)
    chosen, fixed = (
        md.identify(case.log.file, log, consistent=False, forbid_terms=terms)
        for terms in ((), "cutoff")
    )
    assert chosen.record["preparation"]["cutoff"] == 20.0
    errors = [np.linalg.norm(one.predict(case.test) - case.exact) for one in (chosen, fixed)]
    assert errors[0] < 0.5 * errors[1]
    # where the cut-off is fixed a notice names a higher one
    [notice] = [one for one in fixed.notices if one.code == "prepare.fast_motion"]
    higher = md.prepare(case.log.file, log, notice.data["cutoff"])
    advised = md.identify(case.log.file, higher, consistent=False)
    assert np.linalg.norm(advised.predict(case.test) - case.exact) < errors[1]
    assert not [one for one in higher.notices if one.code == "prepare.fast_motion"]


def late_case(
    robot: str, effect: str, seed: int, delay: float, folder: Path
) -> tuple[truth.Case, md.Recording]:
    """Return a case whose torques are late, s, and its log."""
    case = truth.case_of(robot, effect, seed)
    tau = np.column_stack(
        [np.interp(case.log.t - delay, case.log.t, column) for column in case.log.tau.T]
    )
    log = replace(case.log, tau=tau) if delay else case.log
    return case, md.read_recording(log.save(folder / "log.npz"), log.file)


# presliding lags behind as if torques were late, and may hide it; friction of the load changes as
# gravity does
LATE: list[tuple[str, str, int, str | tuple[str, ...], float, float]] = [
    ("two_link", "presliding", 204, "auto", 0.012, 0.0011),
    ("two_link", "load", 4, truth.PLAIN, 0.012, 0.003),
    ("two_link", "weight", 7, truth.PLAIN, 0.012, 0.002),
    ("two_link", "presliding", 204, truth.PLAIN, 0.012, 0.003),
    ("ur5e", "presliding", 10, "auto", 0.012, 0.0005),
    ("scara", "none", 3, "auto", 0.005, 0.0005),
]
PUNCTUAL: list[tuple[str, str, int, tuple[str, ...]]] = [
    ("two_link", "load", 4, truth.PLAIN),
    ("two_link", "presliding", 204, truth.PLAIN),
    ("two_link", "everything", 4, truth.PLAIN),
]


@pytest.mark.parametrize(("robot", "effect", "seed", "terms", "delay", "most"), LATE)
def test_friction_does_not_hide_a_delay(
    robot: str,
    effect: str,
    seed: int,
    terms: str | tuple[str, ...],
    delay: float,
    most: float,
    tmp_path: Path,
) -> None:
    case, log = late_case(robot, effect, seed, delay, tmp_path)
    estimate = md.identify(case.log.file, log, "wls", consistent=False, friction=terms)
    assert "delay" not in estimate.record["preparation"]  # reported, not removed
    assert abs(reported_delay(estimate) - delay) <= most
    moved = md.prepare(case.log.file, log, delay=reported_delay(estimate))
    punctual = md.identify(case.log.file, moved, "wls", consistent=False, friction=terms)
    errors = [np.linalg.norm(one.predict(case.test) - case.exact) for one in (punctual, estimate)]
    assert errors[0] < 1.01 * errors[1]  # terms that are lacking may leave more than the delay
    assert not any(notice.code == "identify.torque_delay" for notice in punctual.notices)


def reported_delay(estimate: md.Estimate) -> float:
    """Return the delay of the estimate's notice, s."""
    [notice] = [one for one in estimate.notices if one.code == "identify.torque_delay"]
    return float(notice.data["delay"])


@pytest.mark.parametrize(("robot", "effect", "seed", "terms"), PUNCTUAL)
def test_friction_does_not_look_like_a_delay(
    robot: str, effect: str, seed: int, terms: tuple[str, ...], tmp_path: Path
) -> None:
    case, log = late_case(robot, effect, seed, 0.0, tmp_path)
    estimate = md.identify(case.log.file, log, "wls", consistent=False, friction=terms)
    assert "delay" not in estimate.record["preparation"]
    assert not [notice for notice in estimate.notices if "delay" in notice.code]


@pytest.mark.parametrize("name", ["puma4", "scara"])
def test_sharp_friction_does_not_make_a_delay_look_smaller(name: str) -> None:
    plain = md.load(name).with_drives(True, truth.PLAIN)
    sizes = {"Ia": 0.3, "Fv": 4.0, "Fc": 4.0, "Fo": 0.4}
    phi = np.array(plain.parameters)
    for column in plain.layout.columns:
        if column.symbol in sizes:
            phi[column.index] = sizes[column.symbol] * 0.75**column.joint
    motion, t = md.trajectory.fourier(name, seed=5), np.arange(16_000) / 1000
    q, tau = motion(t)[0], md.inverse_dynamics(plain.with_parameters(phi), *motion(t - 0.005))
    tau += 0.01 * np.sqrt(np.mean(tau**2, axis=0)) * np.random.default_rng(5).normal(size=tau.shape)
    late = md.Recording(t, np.round(q / 2e-5) * 2e-5, tau, joint_names=plain.joint_names)
    estimate = md.identify(name, late, consistent=False)
    assert reported_delay(estimate) == pytest.approx(0.005, abs=5e-4)


def test_joints_whose_presliding_the_filter_hides_have_their_width_back(tmp_path: Path) -> None:
    case = truth.case_of("ur10", "presliding", 5)
    found = truth.ours(consistent=False)(case, tmp_path)
    assert np.linalg.norm(found.predicted - case.exact) < 0.035 * np.linalg.norm(case.exact)


def test_motion_with_rests_is_its_own_derivative() -> None:
    motion = truth_effects._with_rests(md.trajectory.fourier("scara", seed=3))
    t = np.linspace(0.0, 9.0, 90_001)
    q, dq, ddq = motion(t)
    inside = slice(2, -2)
    assert np.abs(np.gradient(q, t, axis=0) - dq)[inside].max() < 1e-4 * np.abs(dq).max()
    assert np.abs(np.gradient(dq, t, axis=0) - ddq)[inside].max() < 5e-3 * np.abs(ddq).max()
    assert np.all(dq[(t > 2.55) & (t < 2.95)] == 0.0)


def test_friction_with_memory_follows_dahls_equation() -> None:
    """dz/dx = (1 - z sgn(dx)) / travel, integrated in small steps."""
    q = 0.01 * np.sin(np.linspace(0.0, 9.0, 4001))[:, None]
    z, fine = 0.0, []
    for step in np.diff(q[:, 0], prepend=0.0):
        for _ in range(20):
            z += (step - abs(step) * z) / 20 / 1e-3
        fine.append(z)
    found = truth_effects._memory(q, np.array([1e-3]))[:, 0]
    assert np.abs(found - fine).max() < 1e-3
    assert found.max() > 0.99
    assert found.min() < -0.99


def test_every_effect_is_in_the_table_of_the_page() -> None:
    page = (ROOT / "docs" / "truth.md").read_text(encoding="utf-8")
    assert set(truth_effects.EFFECTS) <= set(re.findall(r"^\| (\w+): ", page, re.M))
    assert "| **all** |" in page
