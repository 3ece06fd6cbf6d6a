"""Design of motions.

Exact gradients, limits for all times, predicted errors, the best so far when it must end.
"""

import time
from dataclasses import replace

import numpy as np
import pytest
from random_tapes import random_function

import minidyn as md
from conftest import count
from minidyn.dynamics.record import record
from minidyn.excitation.bounds import bounds_of
from minidyn.excitation.criteria import CRITERIA, evaluate_criteria, log_criterion
from minidyn.excitation.motion import Family
from minidyn.excitation.proof import prove
from minidyn.excitation.search import problem_of
from minidyn.excitation.target import target_of
from minidyn.graph.derivative import jacobian, vjp
from minidyn.graph.function import evaluate
from minidyn.graph.interval import enclose
from minidyn.model.joint import Limits
from robot_cases import random_chain, robot_of_seed


def limited(robot, rng, effort=60.0):
    """The robot with random limits."""

    def change(joint):
        lower = float(rng.uniform(-2.5, -0.3))
        return replace(
            joint,
            limits=Limits(lower, lower + float(rng.uniform(0.5, 4.0)), rng.uniform(0.5, 3), effort),
        )

    return robot.with_joints(change)


# ---------------------------------------------------------------- tools of the graph


@pytest.mark.parametrize("seed", range(count(20, 300)))
def test_reverse_mode_agrees_with_forward_mode(seed) -> None:
    function = random_function(seed, shapes=((2, 5), (3,)))
    rng = np.random.default_rng(seed)
    inputs = [rng.normal(size=(4, argument.size)) for argument in function.arguments]
    weights = [rng.normal(size=(4, result.size)) for result in function.results]
    found = evaluate(vjp(function, ("x0", "x1")), *inputs, *weights)
    for name, gradient in zip(("x0", "x1"), found):
        J = evaluate(jacobian(function, name), *inputs)
        flat = np.concatenate([part.reshape(4, -1, gradient.shape[-1]) for part in J], axis=1)
        expected = np.einsum("ir,irk->ik", np.concatenate(weights, axis=1), flat)
        np.testing.assert_allclose(
            gradient, expected, rtol=1e-9, atol=1e-9 * max(1.0, np.abs(expected).max())
        )


@pytest.mark.parametrize("seed", range(count(20, 300)))
def test_intervals_enclose_all_values_and_shrink_with_the_box(seed) -> None:
    function = random_function(seed, shapes=((6,),))
    rng = np.random.default_rng(seed)
    middle = [rng.normal(size=(3, argument.size)) for argument in function.arguments]
    for width in (1.0, 1e-3):
        boxes = [(m - width * 0.5, m + width * 0.5) for m in middle]
        low, high = enclose(function, boxes)[0]
        for _ in range(20):
            inside = [m + width * rng.uniform(-0.5, 0.5, m.shape) for m in middle]
            inside = [
                np.where(rng.random(m.shape) < 0.3, m + 0.5 * width, x)
                for m, x in zip(middle, inside)
            ]
            value = evaluate(function, *inside)
            assert np.all(value >= low - 1e-9)
            assert np.all(value <= high + 1e-9)
    smooth = np.abs(high - low) < 1.0  # a sign, an angle's cut: these do not shrink
    assert smooth.mean() > 0.5


# ---------------------------------------------------------------- criteria and gradients


@pytest.mark.parametrize("name", CRITERIA)
def test_criteria_agree_with_their_definitions_and_slopes(name) -> None:
    rng = np.random.default_rng(1)
    A, B, change = (rng.normal(size=(30, 6)) for _ in range(3))
    F, work, D = A.T @ A, B.T @ B / 30, change.T @ change
    C = np.linalg.inv(F)
    s = np.sqrt(np.linalg.eigvalsh(C))
    expected = {
        "d": np.prod(s) ** (1 / 6),
        "a": np.sqrt(np.mean(s**2)),
        "e": s.max(),
        "condition": np.linalg.cond(A),
        "predict": np.sqrt(np.trace(work @ C)),
    }
    assert evaluate_criteria(F, work)[name] == pytest.approx(expected[name], rel=1e-9)
    value, slope = log_criterion(name, F, work)
    largest = 1.2 if name in ("e", "condition") else 1.0 + 1e-9  # a norm replaces the largest
    assert 0.999 <= np.exp(value) / expected[name] <= largest**2
    h = 1e-5
    numeric = (
        log_criterion(name, F + h * D, work)[0] - log_criterion(name, F - h * D, work)[0]
    ) / (2 * h)
    assert np.sum(slope * D) == pytest.approx(numeric, rel=1e-5)
    assert evaluate_criteria(np.diag([1.0, 0.0]), np.eye(2))[name] == np.inf


@pytest.mark.parametrize("criterion", CRITERIA)
@pytest.mark.parametrize("seed", range(count(1, 20)))
def test_gradients_of_a_design_are_exact(criterion, seed) -> None:
    rng = np.random.default_rng(seed)
    robot = limited(
        random_chain(
            seed, "RPR"[: 2 + seed % 2], friction=("viscous", "coulomb"), rotor_inertia=True
        ),
        rng,
    )
    bounds = bounds_of(robot, {"acceleration": 5.0, "jerk": 40.0}, 0.8)
    pose = bounds.middle[: robot.n]
    family = Family(
        robot.n, 5.0, 1, 4, pose if seed % 2 else None, pose + 0.1 if seed % 2 else None
    )
    target = target_of(robot, "model", "own", None, (), (), None)[0]
    problem = problem_of(
        target, family, bounds, criterion, np.full(robot.n, 0.5), 500.0, robot.parameters
    )
    u = 0.3 * rng.normal(size=robot.n * family.size)
    _, gradient, _, _ = problem.judge(u, 0.05, criterion)
    h = 1e-6
    for _ in range(3):
        d = rng.normal(size=len(u))
        numeric = (
            problem.judge(u + h * d, 0.05, criterion)[0]
            - problem.judge(u - h * d, 0.05, criterion)[0]
        ) / (2 * h)
        assert gradient @ d == pytest.approx(numeric, rel=2e-5, abs=1e-6)


# ---------------------------------------------------------------- motions


@pytest.mark.parametrize("ends", [False, True])
def test_every_motion_of_a_family_rests_at_its_ends(ends) -> None:
    rng = np.random.default_rng(0)
    start, end = rng.normal(size=(2, 3))
    family = Family(3, 7.0, 2, 4, start if ends else None, end if ends else None)
    coefficients = rng.normal(size=(family.size, 3))
    motion = family.motion(coefficients)
    q, dq, ddq = motion([0.0, 7.0, -1.0, 9.0])
    assert np.abs(dq).max() < 1e-12
    assert np.abs(ddq).max() < 1e-11
    np.testing.assert_allclose(q[[0, 2]], [q[0], q[0]])
    np.testing.assert_allclose(q[1], q[3])
    if ends:
        np.testing.assert_allclose(q[:2], [start, end], atol=1e-12)
    t = np.linspace(0.01, 6.99, 400)
    phi, step = family.functions(t)
    for order, part in enumerate(motion(t)):
        made = phi[order] @ coefficients + np.outer(step[order], family.shift)
        np.testing.assert_allclose(
            part, made + (family.beginning if order == 0 else 0.0), atol=1e-10
        )
        assert np.all(np.abs(part).max(axis=0) <= family.highest(coefficients)[order] + 1e-12)
    h = 1e-4
    np.testing.assert_allclose(
        (motion(t + h)[0] - motion(t - h)[0]) / (2 * h), motion(t)[1], atol=1e-5
    )
    np.testing.assert_allclose(
        (motion(t + h)[1] - motion(t - h)[1]) / (2 * h), motion(t)[2], atol=1e-4
    )


@pytest.mark.parametrize("seed", range(count(4, 60)))
def test_a_proof_finds_every_limit_that_is_exceeded(seed) -> None:
    rng = np.random.default_rng(seed)
    robot = limited(
        random_chain(seed, "RRP", friction=("coulomb", "viscous")),
        rng,
        effort=float(rng.uniform(5, 60)),
    )
    bounds = bounds_of(robot, {"acceleration": 4.0, "jerk": 20.0}, 1.0)
    family = Family(3, 6.0, 1, 3)
    torque = record(robot, "inverse_dynamics", parameters=robot.parameters)
    centre = family.coefficients(bounds.middle[:3], *np.zeros((2, 3, 3)))
    swing = rng.normal(size=(family.size, 3))
    t = np.linspace(0, 6, 60_001)
    for size in (0.01, 0.1, 0.3, 1.0):
        coefficients = centre + size * swing
        q, dq, ddq = family.motion(coefficients)(t)
        seen = {
            "position": np.abs(q - bounds.middle).max(axis=0) / bounds.reach["position"],
            "velocity": np.abs(dq).max(axis=0) / bounds.reach["velocity"],
            "acceleration": np.abs(ddq).max(axis=0) / 4.0,
            "jerk": np.abs(np.gradient(ddq, t, axis=0)).max(axis=0) / 20.0,
            "torque": np.abs(md.inverse_dynamics(robot, q, dq, ddq)).max(axis=0) / bounds.effort,
        }
        proof = prove(family.course(coefficients), bounds, torque, 3)
        for kind, shares in seen.items():
            assert np.all(proof.shares[kind] >= shares - 2e-3)
            assert np.all(proof.shares[kind] <= 1.05 * shares + 0.03)
        worst = max(seen, key=lambda kind: seen[kind].max())
        if seen[worst].max() > 1.01:
            assert not proof.holds
            assert proof.worst.share == pytest.approx(seen[worst].max(), rel=0.02)
        if seen[worst].max() < 0.97:
            assert proof.holds


@pytest.mark.parametrize("many", [1, 20, 50_000])
def test_torques_that_just_touch_their_limits_are_named_however_many_boxes_stay_open(
    many, monkeypatch
) -> None:
    """Seed 452 of the random cases left more boxes open than are halved, and their times and shares
    did not agree.
    """
    monkeypatch.setattr("minidyn.excitation.proof._MANY", many)
    robot = limited(random_chain(3, "RRP"), np.random.default_rng(3), effort=1e3)
    bounds, family = bounds_of(robot, {}, 1.0), Family(3, 6.0, 1, 3)
    swing = 0.05 * np.random.default_rng(0).normal(size=(family.size, 3))
    course = family.course(family.coefficients(bounds.middle[:3], *np.zeros((2, 3, 3))) + swing)
    torque = record(robot, "inverse_dynamics", parameters=robot.parameters)
    t = np.linspace(0.0, 6.0, 6001)
    used = np.abs(md.inverse_dynamics(robot, *course.derivatives(t)[:3]))
    proof = prove(course, replace(bounds, effort=used.max(axis=0)), torque, 3)
    assert not proof.holds
    assert proof.worst.limit == "torque"
    assert 1 < proof.worst.share < 1.2
    joint = list(robot.joint_names).index(proof.worst.joint)
    near = np.abs(t - proof.worst.time) < 0.03
    assert used[near, joint].max() > 0.8 * used[:, joint].max()


# ---------------------------------------------------------------- whole designs


def test_a_design_beats_random_motions_and_says_what_it_will_show() -> None:
    robot = md.load("ur5e")
    made = md.excite(robot, 10.0, friction=(), rotor_inertia=False, noise=0.5, seed=3, time_limit=4)
    assert made.feasible
    assert made.names == made.base.names
    assert made.std.shape == made.relative_std.shape == (len(made.names),)
    assert set(made.criteria) == set(CRITERIA)
    assert np.isfinite(made.logdet)
    assert made.condition == pytest.approx(made.criteria["condition"])
    assert max(max(shares.values()) for shares in made.margins.values()) <= 1.0 + 1e-6
    t = np.arange(1000) / 100
    Q = np.linalg.qr(made.base.matrix.T)[1].T

    def gain(motion):
        Y = (
            md.base_regressor(made.robot, *motion(t), base=made.base).reshape(-1, made.base.rank)
            @ Q
        )
        return np.linalg.slogdet(Y.T @ Y / len(t))[1]

    assert gain(made.trajectory) == pytest.approx(made.logdet, abs=0.05)
    others = [gain(md.trajectory.fourier(robot, seed=seed, period=10.0)) for seed in range(10)]
    b = made.base.rank
    assert (
        np.exp((made.logdet - max(others)) / (2 * b)) > 1.5
    )  # geometric mean of the standard deviations


def test_predicted_errors_are_those_of_repeated_fits() -> None:
    robot = random_chain(5, "RRR", friction=("viscous", "coulomb"), rotor_inertia=True)
    robot = limited(robot, np.random.default_rng(0), effort=200.0)
    sigma = np.array([0.4, 0.1, 0.7])
    made = md.excite(
        robot, 5.0, friction="own", rotor_inertia=None, noise=sigma, rate=100, time_limit=10
    )
    t = (np.arange(500) + 0.5) / 100
    Y = md.base_regressor(robot, *made.trajectory(t), base=made.base)
    W = (Y / sigma[:, None]).reshape(-1, made.base.rank)
    rng = np.random.default_rng(1)
    noise = rng.normal(size=(4000, W.shape[0]))
    found = noise @ np.linalg.pinv(W).T  # errors of weighted least squares
    np.testing.assert_allclose(made.std, found.std(axis=0), rtol=0.06)
    np.testing.assert_allclose(
        made.relative_std, made.std / np.abs(made.base.values(robot.parameters))
    )
    name = made.names[2]
    assert made.seconds_for(float(made.relative_std[2]) / 2, name) == pytest.approx(
        4 * made.duration
    )


def test_a_second_motion_adds_to_what_is_known() -> None:
    robot = random_chain(5, "RRR", friction=("viscous", "coulomb"), rotor_inertia=True)
    robot = limited(robot, np.random.default_rng(0), effort=200.0)
    first = md.excite(robot, 4.0, friction="own", rotor_inertia=None, noise=0.3, time_limit=3)
    second = md.excite(robot, 4.0, after=first, criterion="e", time_limit=6)
    assert second.names == first.names
    np.testing.assert_array_equal(second.sigma, first.sigma)
    t = (np.arange(2000) + 0.5) * 4.0 / 2000
    W = (
        md.base_regressor(robot, *second.trajectory(t), base=first.base).reshape(
            -1, first.base.rank
        )
        / 0.3
    )
    together = np.linalg.inv(np.linalg.inv(first.covariance) + 400 / 2000 * W.T @ W)
    np.testing.assert_allclose(
        second.covariance, together, rtol=1e-6, atol=1e-12 * np.abs(together).max()
    )
    L = np.linalg.qr(first.base.matrix.T)[1].T
    worst = [
        np.linalg.eigvalsh(np.linalg.inv(L.T @ np.linalg.inv(C) @ L))[-1]
        for C in (first.covariance, together)
    ]
    assert worst[1] < 0.5 * worst[0] * 0.999  # more than a repetition gives
    with pytest.raises(md.MinidynError, match="after 1"):
        md.excite(robot, 4.0, after="estimate.json")
    with pytest.raises(md.MinidynError, match="joints"):
        md.excite("panda", 4.0, after=first)
    with pytest.raises(md.MinidynError, match="friction"):
        md.excite(robot, 4.0, after=first, friction=())


@pytest.mark.parametrize("criterion", CRITERIA)
def test_each_criterion_is_best_by_its_own_measure(criterion) -> None:
    robot = md.load("two_link")
    options = {"friction": ("viscous",), "rotor_inertia": False, "noise": 0.5, "harmonics": 4}
    made = md.excite(robot, 8.0, criterion=criterion, **options)
    for other in {"d", "condition"} - {criterion}:
        rival = md.excite(robot, 8.0, criterion=other, **options)
        assert made.criteria[criterion] <= 1.02 * rival.criteria[criterion]


def test_poses_are_kept_and_infeasible_problems_name_limit_joint_and_time() -> None:
    robot = md.load("panda")
    start = np.array([0.1, -0.5, 0.0, -2.0, 0.0, 1.6, 0.7])
    made = md.excite(robot, 6.0, start=start, end=start + 0.1, friction=(), time_limit=3)
    assert made.feasible
    np.testing.assert_allclose(made.trajectory([0.0, 6.0])[0], [start, start + 0.1], atol=1e-9)
    assert max(np.abs(part).max() for part in made.trajectory([0.0, 6.0])[1:]) < 1e-9
    wrong = start.copy()
    wrong[3] = 1.0
    made = md.excite(robot, 6.0, start=wrong, friction=(), time_limit=2)
    (notice,) = [n for n in made.notices if n.code == "excite.infeasible"]
    assert not made.feasible
    assert notice.level == "error"
    assert notice.data["limit"] == "position"
    assert notice.data["joint"] == "panda_joint4"
    assert 0.0 <= notice.data["time"] <= 6.0
    assert notice.data["share"] > 1.0
    made = md.excite(
        robot, 6.0, start=start, limits={"effort": 5.0}, friction=(), time_limit=2
    )  # too weak to stand
    (notice,) = [n for n in made.notices if n.code == "excite.infeasible"]
    assert notice.data["limit"] == "torque"


def test_a_search_that_is_ended_returns_the_best_so_far() -> None:
    calls = []

    def interrupt(done):
        calls.append(done)
        if done == 30:
            raise KeyboardInterrupt

    made = md.excite("two_link", 8.0, progress=interrupt)
    assert made.feasible
    assert len(calls) == 30
    assert [n.data["reason"] for n in made.notices if n.code == "excite.unfinished"] == [
        "interrupt"
    ]
    begun = time.monotonic()
    made = md.excite("panda", 10.0, time_limit=0.2)
    assert made.feasible
    assert time.monotonic() - begun < 60
    assert [n.data["reason"] for n in made.notices if n.code == "excite.unfinished"] == ["time"]


def test_what_is_not_known_is_said() -> None:
    robot = md.load("panda")
    unknown = robot.with_parameters(np.full(len(robot.layout), np.nan))
    made = md.excite(unknown, 6.0, friction=(), rotor_inertia=False, time_limit=2)
    codes = {notice.code for notice in made.notices}
    assert {"excite.no_model", "excite.no_noise", "excite.no_collisions"} <= codes
    assert "torque" not in made.margins
    assert max(made.margins["acceleration"].values()) <= 1.0 + 1e-9
    _, _dq, ddq = made.trajectory(np.linspace(0, 6, 6001))
    speeds = np.array([robot.joints[k].limits.velocity for k in robot.independent])
    assert np.all(np.abs(ddq).max(axis=0) <= speeds / 0.5 + 1e-9)
    made = md.excite("two_link", 6.0, time_limit=0.5)
    assert {"excite.no_range", "excite.no_speed", "excite.no_effort"} <= {
        n.code for n in made.notices
    }


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"criterion": "f"}, "criterion"),
        ({"harmonics": 2}, "harmonics"),
        ({"periods": 0}, "periods"),
        ({"rate": 0}, "rate"),
        ({"start": [0.0]}, "start"),
        ({"end": [0.0, 0.0]}, "start="),
        ({"limits": {"speed": 1.0}}, "speed"),
        ({"limits": {"velocity": {"elbow": 1.0}}}, "elbow"),
        ({"limits": {"velocity": [1.0, 2.0, 3.0]}}, "velocity"),
        ({"limits": {"velocity": -1.0}}, "velocity"),
        ({"limits": {"lower": 2.0, "upper": 1.0}}, "lower"),
        ({"torque_share": 1.5}, "torque_share"),
        ({"noise": -1.0}, "noise"),
        ({"noise": [1.0, 2.0, 3.0]}, "noise"),
    ],
)
def test_wrong_arguments_are_named(options, word) -> None:
    with pytest.raises(md.MinidynError, match=word):
        md.excite("two_link", 5.0, **options)


def test_loops_are_refused_and_followers_obey_their_limits() -> None:
    from random_robots import looped_robot

    with pytest.raises(md.MinidynError, match="bar"):
        md.excite(looped_robot(), 5.0)
    robot = next(
        r for r in map(robot_of_seed, range(200)) if any(j.follows for j in r.joints) and r.n == 2
    )
    rng = np.random.default_rng(0)
    robot = limited(robot, rng, 1e4)
    made = md.excite(robot, 5.0, friction="own", rotor_inertia=None, time_limit=2)
    follower = next(joint for joint in robot.joints if joint.follows)
    assert follower.name in made.margins["position"]
    if made.feasible:
        q = made.trajectory(np.linspace(0, 5, 5001))[0]
        values = follower.follows.offset + sum(
            r * q[:, robot.joint_names.index(name)] for name, r in follower.follows.terms
        )
        assert values.min() >= follower.limits.lower - 1e-6
        assert values.max() <= follower.limits.upper + 1e-6


def test_several_runs_add_up_and_are_not_counted_twice() -> None:
    words = {"friction": ("viscous",), "rotor_inertia": False, "noise": 1.0}
    both = md.excite("two_link", 3.0, runs=2, **words)
    first, second = both.runs
    assert both.feasible
    np.testing.assert_allclose(
        both.covariance, np.linalg.inv(first.information + second.information), rtol=1e-6
    )
    np.testing.assert_allclose(first.covariance, np.linalg.inv(first.information), rtol=1e-6)
    assert np.any(first.trajectory(1.0)[0] != second.trajectory(1.0)[0])
    third = md.excite(
        "two_link", 3.0, after=[first, second], time_limit=1
    )  # the second knows of the first: once
    total = first.information + second.information + third.information
    np.testing.assert_allclose(third.covariance, np.linalg.inv(total), rtol=1e-6)
    with pytest.raises(md.MinidynError, match="runs"):
        md.excite("two_link", 3.0, runs=0)
