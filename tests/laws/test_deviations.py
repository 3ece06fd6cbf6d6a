"""Deviations belong to the values beside them.

Those of a consistent estimate hold its prior and the border.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from random_robots import random_body
from scipy.linalg import expm
from scipy.stats import truncnorm

import minidyn as md
from conftest import OWN, count
from minidyn.app.result_folder import result_summary
from minidyn.base.base_map import BaseMap
from minidyn.identification.consistency.consistency import make_consistent
from minidyn.identification.consistency.prior import centres_of
from minidyn.identification.consistency.scale import PriorTrial, choose_scale
from minidyn.identification.consistency.whitened import prior_errors, whiten
from minidyn.identification.days import DAY_SPREAD, day_covariance
from minidyn.identification.estimators.method import Fold
from minidyn.model.parameters import from_pseudo_inertia, to_pseudo_inertia
from minidyn.model.robot import Robot
from report_cases import small_estimate

Array = NDArray[np.float64]
FRICTION = ("viscous", "coulomb", "offset")
DRIVES = {"Ia": 0.3, "Fv": 2.0, "Fc": 3.0, "Fo": 0.5}
SEEDS = count(3, 25)
_PARTS = ("covariance", "own_covariance")


def truth(name: str, seed: int, border: bool) -> Robot:
    """Return a robot of random bodies.

    At the border every one is flat, and half of rotors and friction are zero.
    """
    rng = np.random.default_rng(seed)
    robot = md.load(name).with_drives(True, FRICTION)
    values = robot.parameters.copy()
    for index, part in enumerate(robot.layout.links):
        values[part] = random_body(rng) * 0.7**index
        if border:
            sizes, vectors = np.linalg.eigh(to_pseudo_inertia(values[part]))
            values[part] = from_pseudo_inertia((vectors * (sizes * [1e-9, 1, 1, 1])) @ vectors.T)
    for column in (column for columns in robot.layout.drives for column in columns):
        zero = border and column.symbol in ("Ia", "Fv") and rng.random() < 0.5
        values[column.index] = 0.0 if zero else DRIVES[column.symbol] * rng.uniform(0.5, 1.5)
    return robot.with_parameters(values)


def prior_of(robot: Robot, errors: Array, rng: np.random.Generator) -> Array:
    """Return parameters with each body off by a part of its own size, rotors by the first of these.

    No friction.
    """
    given = robot.parameters.copy()
    for part, error in zip(robot.layout.links, errors):
        sizes, vectors = np.linalg.eigh(to_pseudo_inertia(given[part]))
        root = vectors * np.sqrt(np.maximum(sizes, 1e-4 * sizes[-1]))
        change = rng.normal(size=(4, 4))
        given[part] = from_pseudo_inertia(root @ expm(0.5 * error * (change + change.T)) @ root.T)
    for column in (column for columns in robot.layout.drives for column in columns):
        known = column.symbol == "Ia"
        given[column.index] = (
            given[column.index] * np.exp(errors[0] * rng.normal()) if known else np.nan
        )
    return given


def data(
    robot: Robot, base: BaseMap, samples: int, noise: float, rng: np.random.Generator
) -> tuple[Array, Array, list[Fold]]:
    """Return R, z and five folds of a random motion, in units of the noise."""
    q, dq, ddq = rng.uniform(-1.5, 1.5, size=(3, samples, robot.n))
    tau = md.inverse_dynamics(robot, q, dq, ddq)
    sigma = noise * np.maximum(tau.std(axis=0), 1e-3 * tau.std())
    W = md.base_regressor(robot, q, dq, ddq, base=base) / sigma[:, None]
    y = tau / sigma + rng.normal(size=tau.shape)

    def reduced(which: Array) -> tuple[Array, Array, float]:
        rows, right = W[which].reshape(-1, base.rank), y[which].ravel()
        Q, R = np.linalg.qr(rows)
        z = Q.T @ right
        return R, z, float(right @ right - z @ z)

    blocks = np.arange(samples) * 5 // samples
    folds = [(*reduced(blocks != held)[:2], *reduced(blocks == held)) for held in range(5)]
    return (*reduced(blocks >= 0)[:2], folds)


@pytest.mark.parametrize("error", [None, 0.1, 0.03, 0.3][: count(2, 4)])
@pytest.mark.parametrize("border", [False, True], ids=["inside", "border"])
def test_two_deviations_hold_the_truth(border: bool, error: float | None) -> None:
    off, plain = [], []
    for seed in range(SEEDS):
        robot = truth("puma560" if seed % 2 else "ur10e", seed, border)
        base, rng = md.base_parameters(robot), np.random.default_rng(1000 + seed)
        R, z, folds = data(robot, base, 60 if seed % 3 else 400, 0.3, rng)
        given = None if error is None else prior_of(robot, np.full(len(robot.links), error), rng)
        of_data, held = np.linalg.inv(R.T @ R), {}
        if given is not None:
            prior = choose_scale(PriorTrial(robot, base, (R, z), folds, given))
            held = {"prior": prior.parameters, "weight": prior.weight, "shares": prior.shares}
        fit = make_consistent(robot, base, R, z, covariance=of_data, **held)
        assert fit.covariance is not None
        assert np.linalg.eigvalsh(fit.covariance)[0] > 0
        off.append((fit.beta - base.values()) / np.sqrt(np.diag(fit.covariance)))
        plain.append(np.sqrt(np.diag(fit.covariance) / np.diag(of_data)))
    covered, size = (
        np.mean(np.abs(np.concatenate(off)) < 2),
        np.sqrt(np.mean(np.concatenate(off) ** 2)),
    )
    assert 0.9 < covered <= 0.995, f"{100 * covered:.1f} % within two deviations"
    assert 0.55 < size < 1.3
    assert np.median(np.concatenate(plain)) < (
        0.98 if error is None else 0.8
    )  # what physics and prior are worth


def test_logs_that_share_a_prior_differ_by_what_is_their_own() -> None:
    """The prior's errors are in both.

    Beside all that is stated about the truth, their difference is small.
    """
    apart, beside, off, short = [], [], [], []
    for seed in range(count(4, 25)):
        robot = truth("puma560" if seed % 2 else "ur10e", seed, border=False)
        base, rng = md.base_parameters(robot), np.random.default_rng(seed)
        given = prior_of(robot, np.full(len(robot.links), 0.3), rng)
        fits = []
        for _ in range(2):
            R, z, _ = data(robot, base, 60, 1.0, rng)
            of_data = np.linalg.inv(R.T @ R)
            fits.append(
                make_consistent(robot, base, R, z, prior=given, weight=10.0, covariance=of_data)
            )
        whole, own = (
            np.array([np.diag(np.asarray(getattr(fit, name))) for fit in fits]) for name in _PARTS
        )
        assert np.all((own > 0) & (own < whole))
        difference, wrong = fits[0].beta - fits[1].beta, fits[0].beta - base.values()
        apart.append(difference / np.sqrt(own.sum(axis=0)))
        beside.append(difference / np.sqrt(whole.sum(axis=0)))
        off.append(np.abs(wrong) < 2 * np.sqrt(whole[0]))
        short.append(np.abs(wrong) < 2 * np.sqrt(own[0]))
    assert 0.9 < np.mean(np.abs(np.concatenate(apart)) < 1.96) < 0.985
    assert np.sqrt(np.mean(np.concatenate(beside) ** 2)) < 0.8
    assert np.mean(np.concatenate(off)) > 0.9 > 0.8 > np.mean(np.concatenate(short))


def test_compared_estimates_are_apart_by_what_is_their_own() -> None:
    first = small_estimate()
    own = 0.5 * first.covariance
    ahead = replace(first, beta=first.beta + first.std, log_covariance=own)
    alike = md.compare_estimates(replace(first, log_covariance=own), ahead, same_day=True)
    np.testing.assert_allclose([pair.apart for pair in alike.pairs], 1.0)
    # deviations that logs share are subtracted: roots of 1/2 and 3/4 of the variance
    less = replace(ahead, log_covariance=0.25 * first.covariance)
    wider = md.compare_estimates(replace(first, log_covariance=own), less, same_day=True)
    expected = 1 / np.sqrt(0.75 + (np.sqrt(0.75) - np.sqrt(0.5)) ** 2)
    np.testing.assert_allclose([pair.apart for pair in wider.pairs], expected)
    other = replace(
        ahead, record={**first.record, "prior_kind": "geodesic"}
    )  # another prior is no common one
    np.testing.assert_allclose(
        [pair.apart for pair in md.compare_estimates(first, other, same_day=True).pairs],
        np.sqrt(0.5),
    )


def test_logs_of_other_days_differ_by_friction_and_by_what_the_model_lacks() -> None:
    first = small_estimate()
    lacks = 2.0 * first.std
    first = replace(first, record={**first.record, "model_error_std": lacks.tolist()})
    ahead = replace(first, beta=first.beta + first.std)
    day = np.diag(first.day_covariance)
    friction = np.array([name.startswith("F") for name in first.base.kept])
    assert friction.sum() == 4
    expected = np.where(friction, (DAY_SPREAD * first.beta) ** 2, 0.0) + lacks**2
    np.testing.assert_allclose(day, expected, rtol=1e-9, atol=1e-12)
    apart = [pair.apart for pair in md.compare_estimates(first, ahead).pairs]
    own = np.diag(first.covariance if first.log_covariance is None else first.log_covariance)
    np.testing.assert_allclose(apart, first.std / np.sqrt(2.0 * (own + day)))
    several = {"names": [], "values": [[], []], "spread": [], "anchors": []}  # logs fitted together
    fitted = replace(first, record={**first.record, "friction_logs": several})
    np.testing.assert_allclose(fitted.day_covariance, np.diag(lacks**2))


def test_friction_of_a_joint_varies_together_and_its_offset_by_dry_friction() -> None:
    robot = md.load("two_link").with_drives(True, ("viscous", "coulomb", "offset"))
    values = np.nan_to_num(robot.parameters)
    for column in robot.layout.columns:
        if column.is_friction:
            values[column.index] = {"Fv": 2.0, "Fc": 5.0, "Fo": -0.1}[column.symbol]
    robot, base = robot.with_parameters(values), md.base_parameters(robot)
    covariance = day_covariance(robot, base, 0.1)
    place = {name: k for k, name in enumerate(base.names)}
    std = np.sqrt(np.diag(covariance))
    for joint in (1, 2):
        viscous, dry, offset = (place[f"{symbol}{joint}"] for symbol in ("Fv", "Fc", "Fo"))
        np.testing.assert_allclose(std[[viscous, dry, offset]], [0.2, 0.5, 0.5])
        assert covariance[viscous, dry] == pytest.approx(0.2 * 0.5)
        assert covariance[viscous, offset] == covariance[dry, offset] == 0.0
    assert covariance[place["Fv1"], place["Fv2"]] == 0.0
    rigid = [k for name, k in place.items() if not name.startswith("F")]
    assert not covariance[rigid].any()


def test_far_from_the_border_good_data_decide_alone() -> None:
    robot = truth("ur10e", 0, border=False)
    base = md.base_parameters(robot)
    R, z, _ = data(robot, base, 400, 1e-4, np.random.default_rng(0))
    of_data = np.linalg.inv(R.T @ R)
    fit = make_consistent(robot, base, R, z, covariance=of_data)
    assert fit.covariance is not None
    np.testing.assert_allclose(
        np.sqrt(np.diag(fit.covariance)), np.sqrt(np.diag(of_data)), rtol=0.02
    )
    # what the data know is what counts, not how rows were weighed
    twice = make_consistent(robot, base, R, z, covariance=4 * of_data)
    assert twice.covariance is not None
    np.testing.assert_allclose(
        twice.covariance, 4 * fit.covariance, rtol=0.05, atol=1e-3 * fit.covariance.max()
    )


@pytest.mark.parametrize("found", [-2.0, -1.0, 0.0, 1.0, 3.0])
def test_one_unknown_at_the_border_is_a_truncated_normal(found: float) -> None:
    """Viscous friction that least squares finds so many standard deviations above zero."""
    robot = md.load("puma560").with_drives(False, ("viscous",))
    base = md.base_parameters(robot)
    R, k = 1e4 * np.eye(base.rank), base.names.index("Fv2")
    beta = base.values(np.nan_to_num(robot.parameters, nan=1.0))
    beta[k], R[k, k] = 1e-2 * found, 1e2
    fit = make_consistent(robot, base, R, R @ beta, covariance=np.linalg.inv(R.T @ R))
    assert fit.covariance is not None
    posterior = truncnorm(-found, np.inf, loc=found, scale=1.0)
    expected = np.sqrt(posterior.var() + (posterior.mean() - 1e2 * fit.beta[k]) ** 2)
    assert 1e2 * np.sqrt(fit.covariance[k, k]) == pytest.approx(
        expected, rel=0.4 if found < 0 else 0.15
    )


def test_errors_of_the_prior_are_seen_link_by_link() -> None:
    ratios = []
    for seed in range(count(3, 20)):
        robot = truth("ur10e", seed, border=False)
        base, rng = md.base_parameters(robot), np.random.default_rng(seed)
        errors = np.full(6, 0.03)
        errors[seed % 6] = 1.0
        given = prior_of(robot, errors, rng)
        R, z, _ = data(robot, base, 400, 0.02, rng)
        found = prior_errors(
            whiten(robot, base, [(R, z, *centres_of(robot, base, [(R, z)], given))])
        ).links
        ratios.append(np.sqrt(found[seed % 6] / np.median(found)))
    assert np.median(ratios) > 2
    # nothing seen: as priors are
    silent = whiten(robot, base, [(1e-9 * R, 1e-9 * z, *centres_of(robot, base, [(R, z)], given))])
    np.testing.assert_allclose(np.sqrt(prior_errors(silent).links), 0.3, rtol=0.01)


def test_estimates_say_what_is_data_and_what_is_prior(tmp_path: Path) -> None:
    robot = truth("ur10e", 1, border=False).with_drives(sign_width=0.05)
    t = np.arange(0, 5, 0.01)
    q, dq, ddq = md.trajectory.fourier(robot, seed=2)(t)
    tau = md.inverse_dynamics(robot, q, dq, ddq)
    tau = tau + 0.05 * tau.std(axis=0) * np.random.default_rng(0).normal(size=tau.shape)
    log = md.Recording(t, q, tau, dq, ddq, robot.joint_names)
    described = robot.with_parameters(prior_of(robot, np.full(6, 0.2), np.random.default_rng(1)))
    estimate = md.identify(described, log, **OWN)
    plain = md.identify(described, log, consistent=False, **OWN)
    np.testing.assert_allclose(estimate.of_data, plain.covariance)
    assert plain.data_covariance is None
    assert np.median(estimate.std / plain.std) < 0.9
    off = np.abs(estimate.beta - estimate.base.values(robot.parameters)) / estimate.std
    assert np.mean(off < 2) > 0.85
    shares = estimate.data_shares
    assert shares.shape == estimate.beta.shape
    assert np.all((shares >= 0) & (shares <= 1))
    assert shares.min() < 0.9 < shares.max()
    estimate.save(tmp_path / "estimate.json")
    again = md.load_estimate(tmp_path / "estimate.json")
    assert np.array_equal(again.covariance, estimate.covariance)
    assert np.array_equal(again.of_data, estimate.of_data)
    assert np.array_equal(again.log_covariance, estimate.log_covariance)
    assert np.all(np.diag(estimate.log_covariance) < np.diag(estimate.covariance))
    np.testing.assert_allclose(again.data_shares, shares, rtol=1e-9, atol=1e-12)
    summary = result_summary(estimate, {})
    assert summary["parameters"][estimate.names[0]]["data_share"] == pytest.approx(shares[0])
    content = json.loads((tmp_path / "estimate.json").read_text())
    del content["data_covariance"]  # as files were before
    (tmp_path / "old.json").write_text(json.dumps(content))
    assert md.load_estimate(tmp_path / "old.json").of_data is not None
    louder = replace(estimate, data_covariance=1e6 * estimate.of_data)
    assert np.all(louder.data_shares <= shares + 1e-9)
