"""Held-out errors are those of plain least squares, done again for each block that is left out."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from random_robots import random_tree
from scipy.optimize import lsq_linear

import minidyn as md
from conftest import count
from minidyn.identification.anchor import anchor_of
from minidyn.identification.data import BLOCKS, Data
from minidyn.identification.held_out import Drives, HeldOut
from minidyn.identification.rows.base_rows import fitted_base
from minidyn.identification.score import block_scores
from minidyn.model.drives import FRICTION, NON_NEGATIVE, PLAIN, Drive

SIZES = {"Ia": 0.4, "Fv": 1.5, "Fc": 1.0, "Fo": 0.2, "Fs": 0.5}
WIDTH = 0.05


def held_out_of(seed: int) -> HeldOut:
    """A small random robot that moves, its torques with noise."""
    rng = np.random.default_rng(seed)
    robot = random_tree(rng, joints=3, fixed=1).with_drives(True, (*PLAIN, "stribeck"), WIDTH)
    drives = [column for columns in robot.layout.drives for column in columns]
    values = np.array(robot.parameters)
    for column in drives:
        values[column.index] = SIZES[column.symbol] * rng.uniform(0.5, 1.5)
    truth = robot.with_parameters(values)
    t = np.arange(0.0, 8.0, 0.02)
    rates = np.arange(1, 5) * 0.9
    phase = t[:, None, None] * rates + rng.uniform(0, 6, size=(robot.n, 4))
    size = 0.4 * rng.normal(size=(robot.n, 4))
    q, dq = (size * np.sin(phase)).sum(-1), (size * rates * np.cos(phase)).sum(-1)
    ddq = (-size * rates**2 * np.sin(phase)).sum(-1)
    tau = md.inverse_dynamics(truth, q, dq, ddq)
    tau = tau + 0.05 * np.std(tau, axis=0) * rng.normal(size=tau.shape)
    model = robot.with_drives(friction=PLAIN)
    base = fitted_base(model)
    log = md.Recording(t, q, tau, dq, ddq, robot.joint_names)
    data = Data.of(model, base, log)
    assert data is not None
    anchor, noise_std = anchor_of(model, base, data, True)
    return HeldOut(data, anchor, noise_std)


def models_of(data: Data) -> list[Drives]:
    """Models without, with plain, and with several more terms, in several shapes."""
    moving = [j for j, joint in enumerate(data.robot.joints) if joint.kind != "fixed"]
    bare = {joint: data.robot.joints[joint].drive for joint in moving}

    def alike(terms: tuple[str, ...], **shape: float) -> dict[int, Drive]:
        return {joint: replace(drive, friction=terms, **shape) for joint, drive in bare.items()}

    plain = alike(PLAIN, sign_width=WIDTH)
    first = moving[0]
    return [
        alike(()),
        plain,
        alike((*PLAIN, "stribeck"), sign_width=WIDTH, stribeck_speed=0.2),
        alike(("sqrt", "quadratic", "asymmetric"), sign_width=0.2),
        {**plain, first: replace(plain[first], friction=(*PLAIN, "cubic"), sign_width=0.01)},
    ]


def by_hand(held_out: HeldOut, drives: Drives) -> np.ndarray:
    """Mean squared errors of each block, from least squares on the rows of the others."""
    data, anchor, std = held_out.data, held_out.anchor, held_out.noise_std
    N, n = data.motion.tau.shape
    columns, bounded = list[np.ndarray](), [False] * len(data.rigid)
    for place in range(len(data.rigid)):
        columns.append(data.rigid_torque(np.eye(len(data.rigid))[place]) / std)
    for joint, drive in drives.items():
        for term in drive.friction:
            column = np.zeros((N, n))
            for row, values in data.column(joint, drive, term).items():
                column[:, row] = values
            columns.append(column / std)
            bounded.append(FRICTION[term] in NON_NEGATIVE)
    Y, z = np.stack(columns, axis=2), data.motion.tau / std
    root = np.linalg.cholesky(anchor.precision).T
    held = np.concatenate([root, np.zeros((len(root), len(columns) - len(root)))], axis=1)
    errors = []
    for begin, end in zip(data.edges, data.edges[1:]):
        fitted = np.r_[0:begin, end:N]
        A = np.concatenate([Y[fitted].reshape(-1, len(columns)), held])
        b = np.concatenate([z[fitted].ravel(), root @ anchor.values])
        scale = np.linalg.norm(A, axis=0)
        low = np.where(bounded, 0.0, -np.inf)
        found = lsq_linear(A / scale, b, (low, np.inf), method="bvls", tol=1e-14)
        left = z[begin:end] - Y[begin:end] @ (found.x / scale)
        errors.append(np.sum(left**2) / (end - begin))
    return np.array(errors)


@pytest.mark.parametrize("seed", range(count(2, 20)))
def test_squares_are_those_of_least_squares_without_each_block(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To 1e-6 but for the little that is added to diagonals, which changes no more than 1e-4."""
    models = models_of(held_out_of(seed).data)
    usual = [held_out_of(seed).squares(drives) for drives in models]
    monkeypatch.setattr("minidyn.identification.held_out.REGULAR", 1e-14)
    held_out = held_out_of(seed)
    assert len(held_out.data.edges) == BLOCKS + 1
    for drives, regular in zip(models, usual):
        expected = by_hand(held_out, drives)
        np.testing.assert_allclose(regular, expected, rtol=1e-4)
        np.testing.assert_allclose(held_out.squares(drives), expected, rtol=1e-6)
        scores = block_scores(expected, len(held_out.noise_std))
        np.testing.assert_allclose(held_out.scores(drives), scores, rtol=1e-6)


@pytest.mark.parametrize("seed", range(count(2, 20)))
def test_it_does_not_matter_when_columns_are_added(seed: int) -> None:
    """All models at once, or one by one in the other order: the same."""
    one, two = held_out_of(seed), held_out_of(seed)
    models = models_of(one.data)
    one.add(models)
    late = [two.squares(drives) for drives in reversed(models)][::-1]
    for drives, expected in zip(models, late):
        np.testing.assert_allclose(one.squares(drives), expected, rtol=1e-6)


@pytest.mark.parametrize("seed", range(count(2, 20)))
def test_options_rank_as_squares(seed: int) -> None:
    held_out = held_out_of(seed)
    plain = models_of(held_out.data)[1]
    for joint, drive in plain.items():
        options = [replace(drive, sign_width=width) for width in (0.0, 0.02, 0.3, 1.0)]
        options += [replace(drive, friction=()), replace(drive, friction=("viscous",))]
        options += [
            replace(drive, friction=(*PLAIN, "stribeck"), stribeck_speed=speed)
            for speed in (0.05, 0.5)
        ]
        ranked = held_out.options(plain, joint, options).mean(axis=1)
        whole = [held_out.scores({**plain, joint: option}).mean() for option in options]
        assert np.argmax(ranked) == np.argmax(whole)
        far = np.abs(np.subtract.outer(whole, whole)) > 1e-3  # else a tie
        order = np.sign(np.subtract.outer(ranked, ranked)) == np.sign(
            np.subtract.outer(whole, whole)
        )
        assert np.all(order[far])
