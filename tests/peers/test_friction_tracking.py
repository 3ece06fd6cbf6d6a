"""Contacts while friction is not the model's: torques are Pinocchio's, friction is NumPy's."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

import minidyn as md
from conftest import LONG, count
from minidyn.control.friction_tracking import RATES, SETTLING, FrictionTracking

pytest.importorskip("pinocchio")
from pinocchio_model import PinocchioRobot

PERIOD, NOISE = 2e-3, 0.2
VISCOUS, COULOMB = 0.5, 0.8
WARM_UP = 60.0


def robot() -> md.Robot:
    """Return a panda arm with rotors and friction."""
    arm = md.load("panda").with_drives(True, ("viscous", "coulomb"))
    values = {"Ia": 0.1, "Fv": VISCOUS, "Fc": COULOMB}
    return arm.with_parameters(
        [values.get(c.symbol, v) for c, v in zip(arm.layout.columns, arm.parameters)]
    )


@pytest.fixture(scope="module")
def estimate() -> Any:
    arm = robot()
    t = np.arange(6000) * 2.5e-3
    q, dq, ddq = md.trajectory.fourier(arm, seed=1)(t)
    tau = md.inverse_dynamics(arm, q, dq, ddq)
    tau = tau + np.random.default_rng(0).normal(scale=NOISE, size=tau.shape)
    log = md.Recording(t, q, tau, dq, ddq, joint_names=arm.joint_names)
    return md.identify(arm, log, "wls", friction=("viscous", "coulomb"))


@cache
def rigid_motion(seconds: float, seed: int) -> tuple[Any, ...]:
    """Return times, positions, speeds and Pinocchio's torques without friction."""
    arm = robot()
    t = np.arange(round(seconds / PERIOD)) * PERIOD
    q, dq, ddq = md.trajectory.fourier(arm, seed=seed, period=17.0)(t)
    rigid = PinocchioRobot(arm.with_drives(True, ()))
    return t, q, dq, np.array([rigid.inverse_dynamics(*state) for state in zip(q, dq, ddq)])


def log_of(
    seconds: float, share: Any, seed: int = 3, force: Any = None, since: float = np.inf
) -> md.Recording:
    """Return what is measured while friction is `share` (N,) times the model's.

    From a time on for 0.3 s a force (3,), N, acts on the last link.
    """
    arm, (t, q, dq, tau) = robot(), rigid_motion(seconds, seed)
    tau = tau + (np.ones(len(t)) * share)[:, None] * (VISCOUS * dq + COULOMB * np.sign(dq))
    if force is not None:
        acts = (t >= since) & (t < since + 0.3)
        tau[acts] -= np.asarray(force) @ md.jacobian(arm, q[acts])[:, 3:, :]
    tau = tau + np.random.default_rng(seed).normal(scale=NOISE, size=tau.shape)
    return md.Recording(t, q, tau, dq, joint_names=arm.joint_names)


@pytest.mark.parametrize("share", [1.4, 0.6] if LONG else [1.4])
def test_friction_is_learnt_and_alarms_end(estimate: Any, share: float) -> None:
    log = log_of(WARM_UP + 20.0, share)
    observer = md.control.momentum_observer(estimate, period=PERIOD)
    found = observer.watch(log)
    assert np.abs(found.friction[:, 0] - (share - 1.0)).max() < 0.1
    assert not [event for event in found.events if event.end > WARM_UP]
    plain = md.control.momentum_observer(estimate, period=PERIOD, track_friction=False).watch(log)
    assert any(event.end > WARM_UP for event in plain.events)
    # thresholds that begin wide enough for a cold gear shrink to those of a warm one
    wide = md.control.momentum_observer(estimate, period=PERIOD, friction_error=0.5).watch(log)
    assert not wide.events
    end = np.median(wide.threshold[-5000:], axis=0)
    assert np.all(end < 1.05 * np.median(found.threshold[-5000:], axis=0))
    assert np.all(end < np.median(wide.threshold[:5000], axis=0))


def test_changed_friction_is_not_called_a_contact(estimate: Any) -> None:
    log = log_of(20.0, 1.4)
    plain = md.control.momentum_observer(estimate, period=PERIOD, track_friction=False).watch(log)
    assert plain.events
    assert {event.kind for event in plain.events} == {"friction"}
    assert "watch.friction" in {notice.code for notice in plain.notices}


def test_a_push_is_found_and_hardly_changes_what_is_known_of_friction(estimate: Any) -> None:
    """15 N along directions in which a joint feels 3 N m or 5 % of its effort limit."""
    rng, arm = np.random.default_rng(5), robot()
    observer = md.control.momentum_observer(estimate, period=PERIOD)
    effort = np.array([joint.limits.effort for joint in arm.joints])
    quiet = log_of(WARM_UP + 8.0, 1.4)
    known = observer.watch(quiet).friction
    tried = 0
    for k in range(count(3, 60)):
        way = rng.normal(size=3)
        force = 15.0 * way / np.linalg.norm(way)
        since = WARM_UP + float(rng.uniform(1.0, 7.0))
        at = round(since / PERIOD)
        felt = np.abs(force @ md.jacobian(arm, quiet.q[at])[3:, :])
        if not np.any(felt >= np.minimum(3.0, 0.05 * effort)):
            continue
        tried += 1
        found = observer.watch(log_of(WARM_UP + 8.0, 1.4, force=force, since=since))
        late = [event for event in found.events if event.end > WARM_UP]
        assert late, f"push {k} was not found"
        assert late[0].kind == "contact"
        assert since <= late[0].start <= since + 0.05
        assert np.abs(found.friction - known).max() < 0.02
    assert tried


@pytest.mark.parametrize("settled", [False, True])
def test_steps_of_the_filter_are_bounded_and_rest_in_contacts(settled: bool) -> None:
    n = 2
    level, small = np.full(n, 1.0), np.full(n, 0.01)
    filters = FrictionTracking(level, small, small, np.full(n, 30.0), 0.1, 0.02, PERIOD)
    state = [0.0] * filters.size
    state[-1] = SETTLING if settled else 0.0
    dq, parts = [0.5, -0.5], filters.parts([0.5, -0.5], [1.5, -1.5])
    free = filters.step(state, dq, parts, [5.0, 5.0], [0.0, 0.0])
    rate = RATES[1] if settled else RATES[0]
    shares = np.array([free[5 * j : 5 * j + 2] for j in range(n)])
    assert np.abs(shares).max() == pytest.approx(rate * PERIOD)
    assert np.all(np.sign(shares[:, 0]) == [1.0, -1.0])  # what is missing follows the speed
    touched = filters.step(state, dq, parts, [5.0, 5.0], [0.0, 1.0])
    moved = np.abs(np.array(touched[: 5 * n])).max()
    assert moved == 0.0 if settled else moved > 0.0
    after = filters.step(touched, dq, parts, [5.0, 5.0], [0.0, 0.0])
    assert (np.abs(np.array(after[: 5 * n])).max() == 0.0) == settled  # and for a while after it


@pytest.mark.long
def test_an_hour_of_drifting_friction_raises_one_alarm_at_most(estimate: Any) -> None:
    events = 0
    for seed in range(4):  # four quarters of an hour, each with a quarter of the drift
        seconds = 900.0 + WARM_UP
        share = 1.4 - 0.3 * (seed / 4 + np.linspace(0, 0.25, round(seconds / PERIOD)))
        found = md.control.momentum_observer(estimate, period=PERIOD).watch(
            log_of(seconds, share, seed=10 + seed)
        )
        events += len([event for event in found.events if event.end > WARM_UP])
    assert events <= 1


def test_speeds_of_differenced_encoders_are_named_with_the_remedy(estimate: Any) -> None:
    log = log_of(10.0, 1.0)
    step = 2 * np.pi / 2**13
    q = np.round(log.q / step) * step
    dq = np.diff(q, axis=0, prepend=q[:1]) / PERIOD
    coarse = md.Recording(log.t, q, log.tau, dq, joint_names=log.joint_names)
    observer = md.control.momentum_observer(estimate, period=PERIOD)
    (notice,) = [n for n in observer.watch(coarse).notices if n.code == "watch.noisy_speeds"]
    assert not [n for n in observer.watch(log).notices if n.code == "watch.noisy_speeds"]
    wider = md.control.momentum_observer(
        estimate, period=PERIOD, speed_noise=notice.data["speed_noise"]
    )
    found = wider.watch(coarse)
    assert not found.events
    assert "watch.noisy_speeds" not in {n.code for n in found.notices}
