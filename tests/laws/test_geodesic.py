"""The geodesic prior.

A distance, a minimum that no neighbour beats, and models between data and belief.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from test_payload import motion, truth

import minidyn as md
from conftest import OWN, count
from minidyn.identification.consistency.consistency import make_consistent
from minidyn.identification.consistency.prior import (
    entropic_distance,
    euclidean_distance,
    geodesic_distance,
)
from minidyn.identification.consistency.scale import SCALES
from minidyn.model.parameters import from_pseudo_inertia, transform


def bodies(number: int, seed: int) -> np.ndarray:
    roots = np.random.default_rng(seed).normal(size=(number, 4, 4))
    return from_pseudo_inertia(roots @ np.swapaxes(roots, -1, -2))


def test_it_is_a_distance_free_of_frames_and_units() -> None:
    some, others, thirds = (bodies(count(50, 500), seed) for seed in range(3))
    there, back = geodesic_distance(some, others), geodesic_distance(others, some)
    np.testing.assert_allclose(there, back, rtol=1e-6)
    assert np.all(geodesic_distance(some, some) < 1e-12)
    length = np.sqrt(2 * there)
    around = np.sqrt(2 * geodesic_distance(some, thirds)) + np.sqrt(
        2 * geodesic_distance(thirds, others)
    )
    assert np.all(length <= around * (1 + 1e-9))
    np.testing.assert_allclose(
        geodesic_distance(2 * some, some), geodesic_distance(some, 2 * some), rtol=1e-6
    )
    T = np.eye(4)
    T[:3, :3] = np.linalg.qr(np.random.default_rng(5).normal(size=(3, 3)))[0]
    T[:3, 3] = [0.3, -1.0, 2.0]
    np.testing.assert_allclose(
        geodesic_distance(transform(some, T), transform(others, T)), there, rtol=1e-5
    )
    assert np.isinf(geodesic_distance(-some, others)).all()


def test_all_kinds_agree_near_the_prior() -> None:
    body = bodies(1, 3)[0]
    near = body + 1e-4 * np.abs(body) * np.random.default_rng(0).normal(size=10)
    values = [
        float(kind(near, body))
        for kind in (geodesic_distance, entropic_distance, euclidean_distance)
    ]
    np.testing.assert_allclose(values, values[0], rtol=0.02)


@pytest.mark.parametrize("name", ["two_link", "scara", "puma4"])
def test_no_neighbour_is_better(name: str) -> None:
    robot = truth(name).with_drives(friction=())
    rng = np.random.default_rng(1)
    prior = np.concatenate([0.3 * body for body in bodies(len(robot.links), 7)])
    base = md.base_parameters(robot)
    R = 30.0 * np.eye(base.rank)
    z = R @ (base.matrix @ (prior * rng.uniform(0.5, 2.0)) + 0.3 * rng.normal(size=base.rank))
    weight = 200.0

    def value(phi: np.ndarray) -> float:
        links, believed = (
            np.array([values[part] for part in robot.layout.links]) for values in (phi, prior)
        )
        misfit = float(np.sum((R @ base.matrix @ phi - z) ** 2))
        return misfit + weight * float(np.sum(geodesic_distance(links, believed)))

    fits = {
        kind: make_consistent(robot, base, R, z, prior=prior, prior_kind=kind, weight=weight)
        for kind in ("geodesic", "entropic")
    }
    here = value(fits["geodesic"].phi)
    assert here < value(fits["entropic"].phi)
    for size in (1e-2, 1e-1):
        for _ in range(count(200, 2000)):
            # a faint pull of the masses, which is not part of the value, is worth about a
            # thousandth of it
            other = fits["geodesic"].phi + size * np.abs(prior) * rng.normal(size=len(prior))
            assert value(other) > here - 1e-3 * size * here


def test_from_data_to_belief() -> None:
    robot = truth("ur10e")
    prior = robot.parameters * np.random.default_rng(0).uniform(0.7, 1.4)
    base = md.base_parameters(robot)
    R = 10.0 * np.eye(base.rank)
    z = R @ base.values(robot.parameters)
    fits = [
        make_consistent(robot, base, R, z, prior=prior, prior_kind="geodesic", weight=w)
        for w in (0.0, 1e0, 1e2, 1e5)
    ]
    misfits, distances = [fit.misfit for fit in fits], [fit.prior_distance for fit in fits]
    assert all(a <= b + 1e-6 for a, b in pairwise(misfits))
    assert all(a >= b - 1e-6 for a, b in pairwise(distances))
    assert distances[-1] < 1e-3


def test_identify_takes_every_kind_and_shows_the_curve() -> None:
    robot = truth("two_link")
    robot = robot.with_parameters(np.nan_to_num(robot.parameters, nan=0.5))
    wrong = robot.with_parameters(1.2 * robot.parameters)
    fitted, tested = motion(robot, 1, samples=600), motion(robot, 2, samples=600)
    errors = {}
    for kind in ("entropic", "euclidean", "geodesic"):
        estimate = md.identify(wrong, fitted, prior_kind=kind, **OWN)
        assert estimate.record["prior_kind"] == kind
        curve = estimate.prior_curve
        assert curve.shape == (len(SCALES), 2)
        assert np.all(np.diff(curve[:, 0]) > 0)
        # the scale of the least misfit of held-out blocks is taken
        assert estimate.record["prior_weight"] == curve[np.argmin(curve[:, 1]), 0]
        rows = [row for row in estimate.selection if "prior" in row.candidate]
        assert estimate.record["prior_scale"] in [row.candidate for row in rows if row.is_taken]
        errors[kind] = md.validate(estimate, tested).relative_error
    assert max(errors.values()) < 1.1 * min(errors.values())
    assert md.identify(wrong, fitted, prior=False, **OWN).prior_curve is None
    with pytest.raises(md.MinidynError, match="did you mean 'geodesic'"):
        md.identify(wrong, fitted, prior_kind="geodesc", **OWN)
