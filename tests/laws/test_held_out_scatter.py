"""Noise that intervals of predictions are made of is that of stretches which were not fitted."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray
from test_between_runs import FREE, PLAIN, robot_of, runs_of

import minidyn as md
from conftest import count
from minidyn.identification.estimators.held_out import held_out_variance, model_error
from minidyn.identification.estimators.least_squares import least_squares
from minidyn.identification.estimators.method import Options, Solution
from minidyn.identification.rows.triangles import STRETCHES

Array = NDArray[np.float64]
ROBOTS = ("two_link", "scara", "puma4")


def solution_of(robot: md.Robot, run: md.Recording) -> tuple[Solution, Array, Array]:
    """Return a solution, the rows of the regressor (N, n, b) and the covariance of independent
    rows.
    """
    base = md.base_parameters(robot)
    found = least_squares("wls", robot, base, run, Options())
    rows = md.base_regressor(robot, run.q, np.asarray(run.dq), np.asarray(run.ddq), base=base)
    return found, rows, np.linalg.inv(found.R.T @ found.R)


@pytest.mark.parametrize("seed", range(6))
def test_stretches_are_predicted_as_by_fits_without_them(seed: int) -> None:
    """Fits to the samples of all other stretches, one by one, by another way, say the same."""
    robot = robot_of(ROBOTS[seed % 3], seed)
    run = runs_of(robot, "stribeck", seed)[0]
    found, Y, P = solution_of(robot, run)
    tau, noise = (
        np.asarray(run.tau),
        found.left(found.beta) ** 2 if found.left is not None else found.sigma**2,
    )
    # what makes independent rows of samples that repeat each other: the solution's squares over
    # those of the samples
    W = Y / found.sigma[:, None]
    memory = np.trace(np.einsum("ijb,ijc->bc", W, W)) / np.trace(found.R.T @ found.R)
    excess = np.zeros(robot.n)
    for held in np.array_split(np.arange(len(run)), STRETCHES):
        others = np.setdiff1d(np.arange(len(run)), held)
        rows = W[others].reshape(-1, Y.shape[2])
        beta = np.linalg.lstsq(rows, (tau[others] / found.sigma).ravel(), rcond=None)[0]
        C = memory * np.linalg.inv(rows.T @ rows)
        for joint in range(robot.n):
            X = Y[held, joint]
            errors = X @ C @ X.T / (len(held) * noise[joint])
            missed = np.mean((tau[held, joint] - X @ beta) ** 2) / noise[joint]
            excess[joint] += (
                (missed - np.trace(errors) - 1.0) / (1.0 + 2.0 * np.sum(errors**2)) / STRETCHES
            )
    np.testing.assert_allclose(
        held_out_variance(found, found.beta, P), np.maximum(1.0 + excess, 1.0), rtol=1e-5
    )


def test_a_model_that_lacks_nothing_predicts_as_well_as_it_fits() -> None:
    grown = []
    for seed in range(count(6, 60)):
        robot = robot_of(ROBOTS[seed % 3], seed)
        found, _, P = solution_of(robot, runs_of(robot, "nothing", seed)[0])
        grown.append(held_out_variance(found, found.beta, P))
    assert np.median(np.concatenate(grown)) < 1.02
    assert np.concatenate(grown).max() < 1.3


def test_what_the_prior_knows_is_not_predicted_by_the_data_alone() -> None:
    """Where a covariance is known better than the data know it, leaving a stretch out moves
    less.
    """
    robot = robot_of("puma4", 2)
    found, _, P = solution_of(robot, runs_of(robot, "stribeck", 2)[0])
    loose, firm = (held_out_variance(found, found.beta, share * P) for share in (1.0, 1e-8))
    assert np.any(loose > 1.01)
    np.testing.assert_allclose(firm, 1.0, atol=0.01)


def test_another_motion_moves_a_parameter_by_as_much_as_makes_the_excess_alone() -> None:
    robot = robot_of("scara", 2)
    found, Y, _ = solution_of(robot, runs_of(robot, "nothing", 2)[0])
    held_out = 1.0 + 0.1 * np.arange(1, robot.n + 1)
    std = np.asarray(model_error(found, found.beta, held_out)["model_error_std"])
    assert found.left is not None
    excess = (held_out - 1.0) * found.left(found.beta) ** 2
    made = np.mean((Y * std) ** 2, axis=0)  # torque variance of each joint and parameter alone
    np.testing.assert_allclose(np.sum(made / excess[:, None], axis=0), 1.0, rtol=1e-6)
    none = model_error(found, found.beta, np.ones(robot.n))["model_error_std"]
    np.testing.assert_array_equal(none, 0.0)


def test_parameters_that_stay_open_and_single_stretches_do_no_harm() -> None:
    robot = robot_of("two_link", 1)
    found, _, P = solution_of(robot, runs_of(robot, "stribeck", 1)[0])
    P[0, 0] = np.inf
    assert np.all(np.isfinite(held_out_variance(found, found.beta, P)))
    np.testing.assert_array_equal(
        held_out_variance(replace(found, stretches=()), found.beta, P), 1.0
    )


def test_intervals_hold_torques_that_parameters_have_followed() -> None:
    """A cable pulls with the position.

    The fit follows it in its own log, and is off where the arm has not been.
    """
    shares: dict[str, list[float]] = {"held out": [], "residuals": []}
    for seed in range(count(4, 30)):
        robot = robot_of(("scara", "two_link")[seed % 2], seed)
        size = np.std(np.asarray(runs_of(robot, "nothing", seed)[0].tau), axis=0)
        runs = [
            replace(run, tau=np.asarray(run.tau) + 0.2 * size * np.sin(2.5 * run.q + 1.0))
            for run in runs_of(robot, "nothing", seed)
        ]
        model = md.identify(robot, runs[0], friction=PLAIN, **FREE)
        left = np.std(np.asarray(runs[0].tau) - model.predict(runs[0]), axis=0)
        narrow = replace(model, record={**model.record, "torque_std": {"measured": left.tolist()}})
        for run in runs[1:]:
            off = np.abs(np.asarray(run.tau) - model.predict(run))
            for name, one in (("held out", model), ("residuals", narrow)):
                shares[name].append(float(np.mean(off < 1.96 * one.predict_std(run, 0.0))))
    assert np.mean(shares["held out"]) > np.mean(shares["residuals"]) + 0.01
