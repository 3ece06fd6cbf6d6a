"""What short logs leave open.

Infinite deviations and a notice, and nothing after it breaks or shows a number.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

import minidyn as md
from minidyn.arrays import carried


def log(robot: md.Robot, count: int, moving: list[int]) -> md.Recording:
    rng, t = np.random.default_rng(0), np.arange(count) / 100
    w, a = (
        rng.uniform(2, 6, robot.n),
        np.where(np.isin(np.arange(robot.n), moving), rng.uniform(0.2, 0.8, robot.n), 0.0),
    )
    q, dq, ddq = (
        a * np.sin(np.outer(t, w)),
        a * w * np.cos(np.outer(t, w)),
        -a * w * w * np.sin(np.outer(t, w)),
    )
    tau = md.inverse_dynamics(robot, q, dq, ddq) + rng.normal(0, 0.05, q.shape)
    return md.Recording(t, q, tau, dq, ddq, joint_names=robot.joint_names)


@pytest.fixture(scope="module")
def robot() -> md.Robot:
    return md.load("scara")


@pytest.fixture(scope="module")
def short(robot: md.Robot) -> md.Estimate:
    return md.identify(robot, log(robot, 60, [0]), prior=robot, friction=[], rotor_inertia=False)


def test_open_parameters_have_infinite_deviations_and_a_notice(short: md.Estimate) -> None:
    still_open = [name for name, std in zip(short.names, short.std) if np.isinf(std)]
    assert still_open
    assert "consistency.open" in {notice.code for notice in short.notices}
    assert not np.isnan(short.covariance).any()
    rows = [line.split("|") for line in short.table().splitlines()[2:]]
    assert [row[1].strip() for row in rows if row[3].strip() == "inf"] == still_open


def test_predicted_deviations_are_infinite_where_open_parameters_act(
    robot: md.Robot, short: md.Estimate
) -> None:
    motion = log(robot, 30, [0, 1, 2, 3])
    Y = md.base_regressor(robot, motion.q, motion.dq, motion.ddq, base=short.base)
    acts = np.any(np.abs(Y[..., np.isinf(short.std)]) > 1e-9, axis=-1)
    spread = short.predict_std(motion)
    assert acts.any()
    assert not acts.all()
    assert np.array_equal(np.isinf(spread), acts)
    noise = np.array(short.record["torque_std"]["measured"])
    assert np.all(spread[~acts] >= noise[np.nonzero(~acts)[1]])


def test_nothing_after_it_breaks(robot: md.Robot, short: md.Estimate, tmp_path: Path) -> None:
    long, fitted = log(robot, 300, [0, 1, 2, 3]), log(robot, 60, [0])
    short.save(tmp_path / "e.json")
    again = md.load_estimate(tmp_path / "e.json")
    assert np.array_equal(again.covariance, short.covariance)
    assert np.isinf(again.std).any()
    json.loads((tmp_path / "e.json").read_text(), parse_constant=lambda word: pytest.fail(word))
    load = md.identify_payload(short, long)
    assert np.isfinite(load.mass)
    assert np.isfinite(load.covariance).all()
    assert "0 of 8 parameters differ" in repr(md.compare_estimates(short, again))
    page = md.report(short, {"test": long}, tmp_path / "r.html", fit=fitted).read_text(
        encoding="utf-8"
    )
    text = re.sub(r"<(script|style).*?</\1>|<[^>]+>", " ", page, flags=re.DOTALL)
    assert not re.search(r"(?<![\w.])nan(?![\w.])", text, re.IGNORECASE)
    assert short._repr_html_()
    assert str(md.validate(short, long))


def test_linear_maps_of_open_values() -> None:
    rng = np.random.default_rng(1)
    root = rng.normal(size=(4, 4))
    covariance = root @ root.T
    change = rng.normal(size=(3, 4))
    np.testing.assert_allclose(carried(change, covariance), change @ covariance @ change.T)
    change[:2, 2] = 0.0
    covariance[2, 2] = np.inf
    made, kept = carried(change, covariance), [0, 1, 3]
    assert np.isinf(made[2, 2])
    assert not made[2, :2].any()
    np.testing.assert_allclose(
        made[:2, :2], change[:2, kept] @ covariance[np.ix_(kept, kept)] @ change[:2, kept].T
    )
