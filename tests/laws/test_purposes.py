"""Motions for a load, drive gains, friction and gravity, and splines.

Predicted errors against other ways, limits.
"""

import numpy as np
import pytest
from test_excitation import limited

import minidyn as md
from conftest import count
from minidyn.excitation.bounds import bounds_of
from minidyn.excitation.piecewise import Piecewise, Splines
from minidyn.excitation.search import problem_of
from minidyn.excitation.target import PURPOSES, target_of
from robot_cases import random_chain

LOAD = {"mass": 1.5, "com": [0.05, -0.02, 0.1], "inertia": np.diag([0.01, 0.012, 0.006])}


def arm(seed=5, joints="RRR"):
    robot = random_chain(seed, joints, friction=("viscous", "coulomb"), rotor_inertia=True)
    return limited(robot, np.random.default_rng(seed), effort=300.0)


def kept(made, share=0.8) -> None:
    """All limits at 1 kHz, torques by `md.inverse_dynamics` of the robot with what it carries."""
    joints = [made.robot.joints[k] for k in made.robot.independent]
    q, dq, ddq = made.trajectory(np.arange(0.0, made.duration, 1e-3))
    assert np.all(q >= np.array([joint.limits.lower for joint in joints]) - 1e-9)
    assert np.all(q <= np.array([joint.limits.upper for joint in joints]) + 1e-9)
    assert np.all(np.abs(dq) <= np.array([joint.limits.velocity for joint in joints]) + 1e-9)
    tau = md.inverse_dynamics(made.robot, q, dq, ddq)
    assert np.all(np.abs(tau) <= share * np.array([joint.limits.effort for joint in joints]) + 1e-6)
    ends = made.trajectory([0.0, made.duration])
    assert max(np.abs(part).max() for part in ends[1:]) < 1e-9


# ---------------------------------------------------------------- gradients


def test_gains_need_a_load_whose_mass_shows() -> None:
    with pytest.raises(md.MinidynError, match="mass of the load"):
        target_of(arm(8), "gains", "own", None, (), (), LOAD)


@pytest.mark.parametrize("purpose", ["payload", "gains", "friction"])
@pytest.mark.parametrize("seed", range(count(1, 10)))
def test_gradients_are_exact_where_only_a_part_counts(purpose, seed) -> None:
    robot, rng = arm(seed), np.random.default_rng(seed)
    words = (LOAD,) if purpose in ("payload", "gains") else (None,)
    load = [name for name in robot.with_load().parameter_names if name not in robot.parameter_names]
    if (
        purpose == "gains"
        and load[9] not in md.base_parameters(robot.with_load(), columns=load).kept
    ):
        with pytest.raises(
            md.MinidynError, match="mass of the load"
        ):  # no motion shows the scale of the gains
            target_of(robot, purpose, "own", None, (), (), *words)
        return
    target, phi, _ = target_of(robot, purpose, "own", None, (), (), *words)
    assert 0 < len(target.counted) < len(target.mix)
    family = Splines(3, 5.0, 1, 4)
    problem = problem_of(
        target, family, bounds_of(robot, None, 0.8), "a", np.full(3, 0.5), 500.0, phi
    )
    u = 0.3 * rng.normal(size=3 * family.size)
    gradient, h = problem.judge(u, 0.05, "a")[1], 1e-6
    for _ in range(3):
        d = rng.normal(size=len(u))
        numeric = (
            problem.judge(u + h * d, 0.05, "a")[0] - problem.judge(u - h * d, 0.05, "a")[0]
        ) / (2 * h)
        assert gradient @ d == pytest.approx(numeric, rel=5e-5, abs=1e-6)


# ---------------------------------------------------------------- a load


def test_errors_of_a_load_are_those_of_fits_with_friction_and_a_baseline() -> None:
    robot = arm()
    words = {"purpose": "payload", "payload": LOAD, "noise": 0.3, "rate": 100, "harmonics": 3}
    first = md.excite(
        robot, 5.0, friction="own", rotor_inertia=None, noise=0.3, harmonics=3, time_limit=5
    )
    alone = md.excite(robot, 5.0, friction="own", rotor_inertia=None, **words)
    known = md.excite(robot, 5.0, after=first, time_limit=0.5, **words)
    for made in (alone, known):
        assert made.feasible
        assert made.purpose == "payload"
        kept(made)
        t = (np.arange(2000) + 0.5) / 400
        state = made.trajectory(t)
        load = [
            name for name in made.robot.parameter_names if name.endswith("4")
        ]  # numbered after the last joint
        names = [*load, *(name for name in robot.parameter_names if name[:2] in ("Fv", "Fc"))]
        A = md.regressor(made.robot, *state, columns=names).reshape(-1, len(names)) / 0.3 / 2.0
        if made is known:  # the baseline's errors are unknowns, as large as its covariance allows
            B = md.base_regressor(robot, *state, base=first.base).reshape(len(A), -1) / 0.3 / 2.0
            half = np.linalg.cholesky(np.linalg.inv(first.covariance)).T
            A = np.block([[A, B], [np.zeros((len(half), A.shape[1])), half]])
        C = np.linalg.pinv(A.T @ A, rcond=1e-14)
        found = dict(zip(names, np.sqrt(np.diag(C))))
        shown = [name for name in made.names if name in load]
        assert len(shown) >= 8
        for name in shown:
            assert made.std[made.names.index(name)] == pytest.approx(found[name], rel=1e-3)
    mass = alone.names.index("M4")
    assert (
        known.std[known.names.index("M4")] > alone.std[mass]
    )  # what the baseline does not know counts
    assert alone.relative_std[mass] == pytest.approx(alone.std[mass] / 1.5)
    W = (
        md.regressor(alone.robot, *first.trajectory(t), columns=names).reshape(-1, len(names))
        / 0.3
        / 2.0
    )
    other = np.linalg.inv(W.T @ W)[np.ix_(range(10), range(10))]
    own = [alone.names.index(name) for name in load]
    assert np.linalg.slogdet(alone.covariance[np.ix_(own, own)])[1] < np.linalg.slogdet(other)[1]
    blind = md.excite("two_link", 5.0, purpose="payload", time_limit=0.2)
    assert "excite.no_load" in [notice.code for notice in blind.notices]
    with pytest.raises(md.MinidynError, match="load or for gains"):
        md.excite(robot, 4.0, after=alone)


def test_errors_of_gains_are_those_of_currents_of_both_runs() -> None:
    robot = arm()
    made = md.excite(
        robot,
        5.0,
        purpose="gains",
        payload=LOAD,
        friction="own",
        rotor_inertia=None,
        noise=0.3,
        time_limit=1,
    )
    assert made.feasible
    kept(made)
    assert made.names == tuple(f"gain {name}" for name in robot.joint_names)
    np.testing.assert_array_equal(made.relative_std, made.std)
    t = (np.arange(500) + 0.5) / 100
    state, base = made.trajectory(t), md.base_parameters(robot)
    B = md.base_regressor(robot, *state, base=base)
    L = md.regressor(
        made.robot,
        *state,
        columns=[name for name in made.robot.parameter_names if name.endswith("4")],
    )
    ten = md.Payload(0.0, LOAD).ten
    gains = np.array([12.0, 7.0, 3.0])

    def currents(x):  # gains, base parameters, the load without its mass
        k, beta, load = x[:3], x[3 : 3 + base.rank], np.append(x[3 + base.rank :], ten[9])
        return (
            np.concatenate([(B @ beta) / k * gains, (B @ beta + L @ load) / k * gains]).ravel()
            / 0.3
        )

    x = np.concatenate([gains, base.values(robot.parameters), ten[:9]])
    steps = 1e-6 * np.maximum(np.abs(x), 0.1)
    J = np.array([(currents(x + s) - currents(x - s)) / 2 for s in np.diag(steps)]).T / steps
    C = np.linalg.pinv(J.T @ J, rcond=1e-13)
    np.testing.assert_allclose(made.std, np.sqrt(np.diag(C))[:3] / gains, rtol=1e-2)
    with pytest.raises(md.MinidynError, match="payload="):
        md.excite(robot, 5.0, purpose="gains")


# ---------------------------------------------------------------- friction


def test_sweeps_have_constant_speeds_slow_ones_and_show_friction() -> None:
    robot = arm()
    made = md.excite(robot, 12.0, purpose="friction", friction="own", rotor_inertia=None, noise=0.3)
    assert made.feasible
    kept(made)
    t = np.arange(0.0, made.duration, 1e-3)
    q, dq, ddq = made.trajectory(t)
    for joint in range(3):
        steady = (np.abs(ddq[:, joint]) < 1e-9) & (np.abs(dq[:, joint]) > 1e-6)
        speeds = np.unique(np.round(np.abs(dq[steady, joint]), 6))
        assert steady.mean() > 0.4
        assert 3 <= len(speeds) <= 6
        assert speeds[0] < 0.3 * speeds[-1]
        assert {-1.0, 1.0} <= set(np.sign(dq[steady, joint]))
    np.testing.assert_allclose(q[0], made.trajectory(made.duration)[0])
    samples = (np.arange(1200) + 0.5) / 100
    A = (
        md.base_regressor(robot, *made.trajectory(samples), base=made.base).reshape(
            -1, made.base.rank
        )
        / 0.3
    )
    found = np.sqrt(np.diag(np.linalg.pinv(A.T @ A, rcond=1e-13)))
    friction = [k for k, name in enumerate(made.names) if name[:2] in ("Fv", "Fc")]
    np.testing.assert_allclose(made.std[friction], found[friction], rtol=0.02)
    start = [joint.limits.lower * 0.5 + joint.limits.upper * 0.5 for joint in robot.joints]
    fixed = md.excite(
        robot, 6.0, purpose="friction", friction="own", rotor_inertia=None, start=start
    )
    np.testing.assert_allclose(fixed.trajectory([0.0, 6.0])[0], [start, start], atol=1e-9)
    with pytest.raises(md.MinidynError, match="no friction term"):
        md.excite(robot, 5.0, purpose="friction", friction=())


# ---------------------------------------------------------------- gravity


def test_poses_at_rest_are_approached_from_both_sides_and_show_gravity() -> None:
    robot = arm()
    made = md.excite(robot, 30.0, purpose="gravity", noise=0.2)
    assert made.feasible
    kept(made)
    assert len(made.rests) == 2 * made.settings["poses"]
    assert made.base.model == "gravity"
    for number, (begin, end) in enumerate(made.rests):
        t = np.linspace(begin, end, 50)[1:-1]
        assert max(np.abs(part).max() for part in made.trajectory(t)[1:]) == 0.0
        assert end - begin >= 0.5 - 1e-9
        before = made.trajectory(begin - 0.05)[1]
        assert np.all(before > 0 if number % 2 else before < 0)  # from above, then from below
    rng = np.random.default_rng(0)
    t = np.arange(0.0, made.duration, 0.01)
    q, dq, _ddq = made.trajectory(t)
    # at rest dry friction keeps the sign of the way to the pose
    sign, last = np.zeros_like(dq), np.zeros(3)
    for row, now in enumerate(np.sign(np.round(dq, 9))):
        last = np.where(now != 0, now, last)
        sign[row] = last
    tau = md.gravity_torque(robot, q) + 3.0 * sign + 0.2 * rng.normal(size=q.shape)
    log = md.Recording(t + 7.0, q, tau, joint_names=robot.joint_names)
    poses = made.at_rest(log, begin=7.0)
    assert len(poses.t) == made.settings["poses"]
    estimate = md.identify(robot.with_parameters(None), poses)
    assert estimate.base.names == made.names
    truth = made.base.values(
        [robot.parameters[robot.layout.index(name)] for name in made.base.robot.parameter_names]
    )
    assert np.all(np.abs(estimate.beta - truth) <= 6 * made.std)
    A = md.regressor(made.robot, *([poses.q] + [0 * poses.q] * 2), columns=made.base.kept)
    stopped = 100 * sum(end - begin for begin, end in made.rests) / made.settings["poses"]
    W = A.reshape(-1, made.base.rank) / 0.2 * np.sqrt(stopped)
    np.testing.assert_allclose(made.std, np.sqrt(np.diag(np.linalg.inv(W.T @ W))), rtol=1e-6)
    with pytest.raises(md.MinidynError, match="begin="):
        made.at_rest(log)
    with pytest.raises(md.MinidynError, match="too short"):
        md.excite(robot, 3.0, purpose="gravity")


@pytest.mark.parametrize("seed", range(count(2, 60)))
def test_poses_of_random_robots_keep_their_limits_and_show_the_gravity_set(seed: int) -> None:
    rng = np.random.default_rng(seed)
    joints = "".join(rng.choice(["R", "P"], int(rng.integers(1, 6)), p=[0.75, 0.25]))
    robot = arm(seed, joints)
    base = md.base_parameters(robot.with_drives(False, ()), model="gravity")
    if not base.rank:
        with pytest.raises(md.MinidynError, match="gravity loads no joint"):
            md.excite(robot, 200.0, purpose="gravity", noise=0.2)
        return
    made = md.excite(robot, 200.0, purpose="gravity", noise=0.2)
    assert made.base.rank == base.rank
    assert np.all(np.isfinite(made.std))
    if made.feasible:
        kept(made)
    else:
        (told,) = (notice for notice in made.notices if notice.code == "excite.infeasible")
        assert told.data["share"] > 1


# ---------------------------------------------------------------- splines


@pytest.mark.parametrize("ends", [False, True])
@pytest.mark.parametrize("seed", range(count(2, 40)))
def test_splines_rest_at_their_ends_and_their_bounds_hold(ends, seed) -> None:
    rng = np.random.default_rng(seed)
    start, end = rng.normal(size=(2, 2))
    family = Splines(
        2, 6.0, 1 + seed % 3, 3 + seed % 4, start if ends else None, end if ends else None
    )
    coefficients = rng.normal(size=(family.size, 2))
    motion = family.motion(coefficients)
    assert isinstance(motion, Piecewise)
    assert motion.duration == 6.0
    parts = motion.derivatives(np.array([0.0, 6.0]))
    assert max(np.abs(part).max() for part in parts[1:3]) < 1e-9
    if ends:
        np.testing.assert_allclose(parts[0], [start, end], atol=1e-12)
    else:
        np.testing.assert_allclose(parts[0][0], parts[0][1])
    t = np.linspace(0.0, 5.999, 5000)
    phi, step = family.functions(t)
    parts = motion.derivatives(t)
    for order, part in enumerate(parts):
        made = phi[order] @ coefficients + np.outer(step[order], family.shift)
        size = max(1.0, float(np.abs(part).max()))
        np.testing.assert_allclose(
            part, made + (family.beginning if order == 0 else 0.0), atol=1e-9 * size
        )
        assert np.all(np.abs(part).max(axis=0) <= motion.highest()[order])
        assert np.all(motion.highest()[order] <= 4 * np.abs(part).max(axis=0))
    period, h = 6.0 / family.periods, t[1]
    joins = period * np.arange(1, family.periods)  # the fourth derivative jumps there
    smooth = np.all(np.abs(t[1:-1, None] - joins) > h, axis=1)
    for order in range(3):
        off = np.abs(np.gradient(parts[order], t, axis=0)[1:-1] - parts[order + 1][1:-1])
        highest = motion.highest()[order + 2]
        assert np.all(off[smooth] <= 2e-4 * np.abs(parts[order + 2]).max())
        assert np.all(
            off <= h / 2 * highest
        )  # as far as a difference can be from the slope in its middle
    still = family.motion(family.resting(family.beginning if ends else start))
    if not ends:
        np.testing.assert_allclose(still(t)[0], np.tile(start, (len(t), 1)), atol=1e-12)


def test_a_design_of_splines_keeps_its_limits() -> None:
    robot = arm()
    words = {"friction": (), "rotor_inertia": False, "noise": 0.3, "harmonics": 3}
    made = md.excite(
        robot,
        5.0,
        family="bspline",
        limits={"acceleration": 8.0, "jerk": 80.0},
        time_limit=1,
        **words,
    )
    assert made.feasible
    kept(made)
    t = np.arange(0.0, 5.0, 1e-3)
    ddq = made.trajectory(t)[2]
    assert np.abs(ddq).max() <= 8.0 + 1e-9
    assert np.abs(np.diff(ddq, axis=0)).max() / 1e-3 <= 80.0 * (1 + 1e-3)
    assert set(made.to_json()["motion"]) == {"breaks", "pieces"}


@pytest.mark.parametrize(
    ("words", "match"),
    [
        ({"purpose": "load"}, "payload"),
        ({"family": "spline"}, "bspline"),
        ({"payload": 1.0}, "purpose"),
        ({"purpose": "payload", "payload": {"com": [0, 0, 0]}}, "mass"),
        ({"purpose": "gravity", "runs": 2}, "runs"),
    ],
)
def test_wrong_words_are_named(words, match) -> None:
    with pytest.raises(md.MinidynError, match=match):
        md.excite("two_link", 5.0, **words)
    assert "model" in PURPOSES
