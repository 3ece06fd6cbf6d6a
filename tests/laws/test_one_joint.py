"""Laws of identification one joint at a time.

Plans show everything, runs give it back, errors are what they say.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from chain_cases import special_chain
from click.testing import CliRunner
from numpy.typing import NDArray
from random_robots import looped_robot

import minidyn as md
from conftest import count
from minidyn.app.cli.main import main
from minidyn.errors import Unsupported
from minidyn.excitation.one_joint_equations import Equations
from minidyn.excitation.one_joint_plan import Experiment, Plan
from minidyn.identification.estimators.method import Options
from minidyn.identification.estimators.methods import METHODS
from minidyn.identification.estimators.one_joint import ready_one_joint
from minidyn.identification.export import file_name
from minidyn.model.robot import Robot
from mlc_cases import any_frames, chain_of_seed

Array = NDArray[np.float64]
Noise = Callable[[tuple[int, ...]], Array]
SERIAL = ("stanford", "panda", "puma560", "puma4", "rx90", "scara", "ur10e", "two_link")


def chain(seed: int) -> Robot:
    """A chain of 1 to 7 joints; every third has rotors and friction, some stand in no gravity."""
    robot = (
        special_chain(seed // 2, 7) if seed % 2 else chain_of_seed(seed // 2, drives=seed % 3 == 0)
    )
    return robot if robot.n <= 7 else chain(seed + 100_000)


def own_plan(robot: Robot) -> Plan:
    """The plan for the drive terms that the robot has: what `identify_one_joint` looks for."""
    return md.one_joint_plan(robot, friction="own", rotor_inertia=None)


def record(
    robot: Robot, step: Experiment, samples: int = 40, noise: Noise | None = None
) -> md.Recording:
    t = step.trajectory.period * (np.arange(samples) + 0.3) / samples
    q, dq, ddq = step.trajectory(t)
    tau = md.inverse_dynamics(robot, q, dq, ddq)
    tau = tau if noise is None else tau + noise(tau.shape)
    return md.Recording(t, q, tau, dq=dq, ddq=ddq, joint_names=robot.joint_names)


def wrist_arm(seed: int = 0) -> Robot:
    """Four joints, one of them sliding."""
    robot = Robot.from_mdh(
        "RRPR",
        [0.0, 1.2, 0.7, -1.1],
        [0.1, 0.3, 0.1, 0.2],
        [0.0, 0.2, 0.4, 0.1],
        gravity=(0.0, 0.0, -9.81),
    )
    return robot.with_parameters(np.random.default_rng(seed).normal(size=len(robot.layout)))


# -------------------------------------------------------------------- equations


def test_equations_are_rows_of_the_base_regressor() -> None:
    """Algorithm 1 and (56)-(61) against the recursion of Newton and Euler, any frames and
    drives.
    """
    rows = 0
    lift = Robot.from_mdh(
        "PR", friction=["offset"], rotor_inertia=True
    )  # the rotor joins the mass, its weight the offset
    assert md.base_parameters(lift, method="mlc").names[:2] == ("m1", "Fo1")
    for seed in range(count(8, 300)):
        for robot in (chain_of_seed(seed, drives=seed % 2 == 0), any_frames(seed), lift):
            try:
                equations = Equations.of(robot, "test")
            except Unsupported:
                continue
            rng = np.random.default_rng(seed)
            for mover in range(equations.n):
                q = np.tile(rng.normal(size=equations.n), (3, 1))
                dq, ddq = np.zeros_like(q), np.zeros_like(q)
                place = q[0].copy()
                q[:, mover], dq[:, mover], ddq[:, mover] = rng.normal(size=(3, 3))
                Y = md.base_regressor(robot, q, dq, ddq, base=equations.base)
                motion = q[:, mover], dq[:, mover], ddq[:, mover]
                for joint in range(mover, equations.n):
                    A = equations.rows(mover, joint, place, *motion)
                    np.testing.assert_allclose(A, Y[:, joint], atol=1e-10)
                    own = equations.own_rows(mover, joint, place[None], *motion)[0]
                    np.testing.assert_allclose(
                        own, Y[:, joint][:, list(equations.own[joint])], atol=1e-10
                    )
                    rows += 1
    assert rows > 50


# -------------------------------------------------------------------- plan and recovery


def test_plans_show_everything_and_runs_give_it_back() -> None:
    turning = sliding = 0
    seeds = range(count(10, 1500))
    for seed in seeds:
        robot = chain(seed)
        plan = own_plan(robot)
        assert {name for step in plan.steps for name in step.yields} == set(plan.base.names)
        assert max((system.scaled_condition for system in plan.systems), default=1.0) < 200, robot
        found = md.identify_one_joint(
            robot.with_parameters(None), [record(robot, step) for step in plan.steps]
        )
        true = plan.base.values()
        atol = max(1e-8, 1e-14 * plan.condition) * max(
            1.0, np.abs(true).max()
        )  # axes may be parallel to 1e-4 rad
        np.testing.assert_allclose(found.beta, true, atol=atol, err_msg=robot.name)
        systems = {system.joint: system for system in plan.systems}
        for body in found.bodies:  # what the plan promises is what the runs have
            assert body.condition == pytest.approx(systems[body.joint].condition, rel=0.2)
        turning += any(joint.turns for joint in robot.joints)
        sliding += any(joint.slides for joint in robot.joints)
    assert min(turning, sliding) > 0.4 * len(seeds)


@pytest.mark.parametrize("name", SERIAL)
def test_plans_of_known_robots(name: str) -> None:
    """Conditions under 50, all motions within limits.

    Every joint but one still, the same plan every time.
    """
    robot = md.load(name)
    plan = own_plan(robot)
    assert plan.condition < 50
    for step in plan.steps:
        q, dq, _ = step.trajectory(np.linspace(0, step.trajectory.period, 500))
        for k, joint in enumerate(robot.joints[index] for index in robot.independent):
            assert joint.limits.lower <= q[:, k].min() <= q[:, k].max() <= joint.limits.upper
            assert np.abs(dq[:, k]).max() <= joint.limits.velocity
            assert (np.ptp(q[:, k]) > 0) == (k == step.index)
            assert k == step.index or step.locked[f"q{k + 1}"] == q[0, k]
        assert step.span == pytest.approx(
            (q[:, step.index].min(), q[:, step.index].max()), abs=1e-3
        )
    assert json.dumps(own_plan(robot).to_json()) == json.dumps(plan.to_json())
    unknown = own_plan(robot.with_parameters(None))
    assert plan.feasible
    assert unknown.feasible
    limited = "torque" in plan.margins  # without parameters torques are not known
    assert ("plan.torques_not_checked" in [notice.code for notice in unknown.notices]) == limited


def test_the_first_rotational_joint_shows_most() -> None:
    """A joint that slides before it would show first moments too, but is asked for its mass
    alone.
    """
    robot = Robot.from_mdh(
        "PRRR", [0.3, 0.4, 0.9, -0.8], [0.1, 0.2, 0.3, 0.1], [0.0, 0.1, 0.2, 0.3]
    )
    plan = own_plan(robot)
    assert {step.joint: step.yields for step in plan.steps} == {
        "joint1": ("m1",),
        "joint2": plan.base.names[1:],
    }


def test_narrow_limits_are_kept_and_told() -> None:
    robot = md.load("stanford")
    assert {notice.code for notice in own_plan(robot).notices} == {
        "excite.no_collisions",
        "excite.no_range",
        "excite.no_speed",
        "excite.no_acceleration",
        "excite.no_effort",
    }
    for upper, word in (
        (0.2, ("plan.weak", "joint6")),
        (0.105, ("plan.hard_to_distinguish", "joint4")),
    ):
        limits = [
            replace(joint.limits, lower=0.1, upper=upper, velocity=0.3) for joint in robot.joints
        ]
        joints = tuple(replace(joint, limits=limit) for joint, limit in zip(robot.joints, limits))
        plan = own_plan(replace(robot, joints=joints))
        for step in plan.steps:
            q, dq, _ = step.trajectory(np.linspace(0, step.trajectory.period, 200))
            assert 0.1 <= q.min() <= q.max() <= upper
            assert np.abs(dq).max() <= 0.3
        assert word in [(notice.code, notice.data.get("joint")) for notice in plan.notices]
        assert str(plan).endswith(str(plan.notices[-1]))


def test_order_grouping_and_joint_order_do_not_matter() -> None:
    robot = wrist_arm()
    plan = own_plan(robot)
    runs = [record(robot, step, noise=_white(0.1, 3)) for step in plan.steps]
    one = md.identify_one_joint(robot, runs)
    order = [2, 0, 3, 1]
    shuffled = [
        md.Recording(
            run.t,
            run.q[:, order],
            run.tau[:, order],  # type: ignore[index]
            dq=run.dq[:, order],  # type: ignore[index]
            ddq=run.ddq[:, order],  # type: ignore[index]
            joint_names=[robot.joint_names[k] for k in order],
        )
        for run in reversed(runs)
    ]
    other = md.identify_one_joint(robot, md.concatenate(shuffled))
    np.testing.assert_allclose(other.beta, one.beta, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(other.std, one.std, rtol=1e-6)


def test_what_was_found_is_validated_like_every_estimate(tmp_path: Path) -> None:
    robot = wrist_arm()
    plan = own_plan(robot)
    found = md.identify_one_joint(
        robot, [record(robot, step, noise=_white(0.01, 1)) for step in plan.steps]
    )
    t = np.arange(600) * 0.01
    phase = t[:, None] * np.arange(1.0, robot.n + 1)
    q, dq, ddq = (
        np.sin(phase),
        np.cos(phase) * np.arange(1.0, robot.n + 1),
        -np.sin(phase) * np.arange(1.0, robot.n + 1) ** 2,
    )
    tau = md.inverse_dynamics(robot, q, dq, ddq)
    prepared = md.Recording(t, q, tau, dq=dq, ddq=ddq, joint_names=robot.joint_names)
    assert md.validate(found, prepared).relative_error < 0.01
    raw = md.Recording(t, q, tau, joint_names=robot.joint_names)
    assert md.validate(found, raw).relative_error < 0.05
    found.save(tmp_path / "found.json")
    assert md.validate(tmp_path / "found.json", prepared).relative_error < 0.01


def test_what_was_found_speaks_in_every_base() -> None:
    robot = wrist_arm()
    plan = own_plan(robot)
    found = md.identify_one_joint(
        robot, [record(robot, step, noise=_white(0.01, 1)) for step in plan.steps]
    )
    assert found.names == md.base_parameters(robot, method="mlc").names
    exact = md.base_parameters(robot)
    beta, covariance = found.in_base(exact)
    std = np.sqrt(np.diag(covariance))
    assert np.all(np.abs(beta - exact.values()) < 5 * std)
    assert np.all(std < 0.1)
    rng = np.random.default_rng(5)
    q, dq, ddq = rng.normal(size=(3, 6, robot.n))
    motion = md.Recording(np.arange(6.0), q, None, dq=dq, ddq=ddq, joint_names=robot.joint_names)
    Y = md.base_regressor(robot, q, dq, ddq, base=exact)
    np.testing.assert_allclose(found.predict(motion), Y @ beta, atol=1e-9)  # all joints move
    assert found.table().count("\n") == 1 + len(found.names)
    assert {body.joint: body.values for body in found.bodies}["joint3"].keys() == {
        "m3",
        "k3x",
        "k3y",
        "k3z",
    }


# -------------------------------------------------------------------- errors


def _white(size: float, seed: int) -> Noise:
    rng = np.random.default_rng(seed)
    return lambda shape: size * rng.normal(size=shape)


def _scores(
    robot: Robot, noise: Noise, draws: int, samples: int, plan: Plan | None = None
) -> Array:
    """(found - true) / std (draws, b)."""
    plan = plan or own_plan(robot)
    quiet = [record(robot, step, samples) for step in plan.steps]
    scores = []
    for _ in range(draws):
        runs = []
        for run in quiet:
            tau = run.tau + noise(run.q.shape)
            runs.append(
                md.Recording(run.t, run.q, tau, dq=run.dq, ddq=run.ddq, joint_names=run.joint_names)
            )
        found = md.identify_one_joint(robot, runs)
        scores.append((found.beta - found.base.values()) / found.std)
    return np.array(scores)


def test_standard_deviations_are_calibrated() -> None:
    scores = np.concatenate(
        [_scores(chain(seed), _white(0.2, seed), 4, 120).ravel() for seed in range(count(8, 200))]
    )
    assert 0.9 < scores.std() < 1.12
    assert 0.63 < np.mean(np.abs(scores) < 1) < 0.74
    assert 0.93 < np.mean(np.abs(scores) < 2) < 0.98


def test_errors_are_carried_on() -> None:
    """Noise in the torque of the last joint alone.

    The errors of all others come from there, and are told.
    """
    robot = wrist_arm()
    rng = np.random.default_rng(11)

    def last(shape: tuple[int, ...]) -> Array:
        noise = np.zeros(shape)
        noise[:, -1] = 0.3 * rng.normal(size=shape[0])
        return noise

    plan = own_plan(robot)
    found = md.identify_one_joint(robot, [record(robot, step, 60, last) for step in plan.steps])
    sigmas = [body.sigma for body in found.bodies]
    assert max(sigmas[:-1]) < 1e-9  # their own torques are quiet
    assert sigmas[-1] == pytest.approx(0.3, rel=0.2)
    scores = _scores(robot, last, 60, 60, plan)
    names = plan.base.names
    before = [k for k, name in enumerate(names) if "4" not in name]
    spread = np.sqrt(np.mean(scores[:, before] ** 2))
    assert 0.8 < spread < 1.2


def test_covariance_holds_between_joints_too() -> None:
    """Errors of a joint make up for those behind it.

    Torques are known better than constants one by one.
    """
    robot = wrist_arm()
    steps = own_plan(robot).steps
    scores = []
    for seed in range(30):
        white = _white(0.2, seed)

        def noise(shape: tuple[int, ...], white: Noise = white) -> Array:
            return white(shape) * np.array(
                [0.1, 0.1, 0.1, 1.0]
            )  # so that what is carried on is large

        runs = [record(robot, step, 100, noise) for step in steps]
        found = md.identify_one_joint(robot, runs)
        Y = md.base_regressor(robot, runs[0].q, runs[0].dq, runs[0].ddq, base=found.base)[
            :, :-1
        ].reshape(-1, found.base.rank)
        std = np.sqrt(np.einsum("ka,ab,kb->k", Y, found.covariance, Y))
        scores.append(Y @ (found.beta - found.base.values()) / std)
    assert 0.8 < np.sqrt(np.mean(np.square(scores))) < 1.2


def test_correlated_noise_is_believed() -> None:
    """Neighbouring samples that repeat each other do not make a result look three times as good."""
    robot = wrist_arm()
    rng = np.random.default_rng(4)

    def slow(shape: tuple[int, ...]) -> Array:
        noise = 0.1 * rng.normal(size=shape)
        for k in range(1, len(noise)):
            noise[k] += 0.8 * noise[k - 1]
        return noise

    scores = _scores(robot, slow, 25, 400)
    assert 0.7 < np.sqrt(np.mean(scores**2)) < 1.3


def test_no_sample_over_means_no_error_figure() -> None:
    robot = Robot.from_mdh("R", gravity=(9.81, 0.0, 0.0)).with_parameters(np.arange(1.0, 11.0))
    q, dq, ddq = np.array([[0.0], [0.5], [1.5]]), np.ones((3, 1)), np.array([[1.0], [-2.0], [0.5]])
    run = md.Recording([0.0, 1.0, 2.0], q, md.inverse_dynamics(robot, q, dq, ddq), dq=dq, ddq=ddq)
    found = md.identify_one_joint(robot, run)
    assert found.values == pytest.approx({"U33_1": 6.0, "k1x": 7.0, "k1y": 8.0})
    assert np.all(np.isinf(found.std))
    assert found.notices[-1].code == "one_joint.no_sample_over"
    with pytest.raises(md.MinidynError, match="do not show U33_1, k1x, k1y"):
        md.identify_one_joint(robot, run[:2])
    with pytest.raises(md.MinidynError, match="run 1 moves no joint"):
        md.identify_one_joint(robot, run[:1])


# -------------------------------------------------------------------- refusals


def _coupled() -> Robot:
    robot = md.load("puma560")
    first, *rest = robot.joints
    drive = replace(first.drive, coupling=((robot.joint_names[1], 0.1),))
    return replace(robot, joints=(replace(first, drive=drive), *rest))


@pytest.mark.parametrize(
    "make", [lambda: md.load("two_arm"), lambda: md.load("hpr"), looped_robot, _coupled]
)
def test_other_robots_are_sent_to_identify(make: Callable[[], Robot]) -> None:
    with pytest.raises(Unsupported, match=r"^one_joint_plan: .*use md\.identify"):
        md.one_joint_plan(make())
    with pytest.raises(Unsupported, match=r"^identify_one_joint: .*use md\.identify"):
        md.identify_one_joint(make(), [])


def test_bad_runs_are_refused_with_their_reason() -> None:
    robot = wrist_arm()
    plan = own_plan(robot)
    runs = [record(robot, step) for step in plan.steps]
    good = runs[0]
    arrays = {"dq": good.dq, "ddq": good.ddq, "joint_names": good.joint_names}
    moving = good.q.copy()
    moving[:, 1] = np.sin(good.t)
    broken = np.array(good.tau)
    broken[3, 2] = np.nan
    for run, message in (
        (
            md.Recording(good.t, moving, good.tau, **arrays),
            "run 1 moves 'joint1'; run 2 moves 'joint1' and 'joint2'",
        ),
        (
            md.Recording(good.t, good.q, broken, **arrays),
            "tau of joint 'joint3' is not a number at t = ",
        ),
        (
            md.Recording(good.t, good.q, None, **arrays),
            "needs measured torques; recording 2 has none",
        ),
    ):
        with pytest.raises(md.MinidynError, match=message):
            md.identify_one_joint(robot, [good, run])
    unknown_axis = md.Recording(good.t, good.q[:, :1], good.tau[:, :1], joint_names=("axis",))  # type: ignore[index]
    with pytest.raises(md.MinidynError, match=r"recording 1 has 1 joints .*, robot .* has 4 "):
        md.identify_one_joint(robot, unknown_axis)
    first_joint = replace(unknown_axis, joint_names=("joint1",))
    (locked,) = [
        notice
        for notice in md.identify_one_joint(robot, first_joint).notices
        if notice.code == "recording.not_logged"
    ]
    assert set(locked.data["joints"]) == {"joint2", "joint3", "joint4"}
    with pytest.raises(
        md.MinidynError, match=r"do not show .* of joint 'joint4'; md.one_joint_plan"
    ):
        md.identify_one_joint(robot, [])
    only_slides = [run for run, step in zip(runs, plan.steps) if step.joint == "joint3"]
    with pytest.raises(
        md.MinidynError, match="do not show U33_4, U11_22_4, U12_4, U13_4, U23_4 of joint 'joint4'"
    ):
        md.identify_one_joint(robot, only_slides)


def test_raw_runs_are_prepared_and_runs_on_disk_are_read(tmp_path: Path) -> None:
    robot = wrist_arm()
    plan = own_plan(robot)
    rng, raw = np.random.default_rng(0), []
    for step in plan.steps:
        t = np.arange(0, 2 * step.trajectory.period, 0.005)
        q, dq, ddq = step.trajectory(t)
        tau = md.inverse_dynamics(robot, q, dq, ddq) + 0.05 * rng.normal(size=q.shape)
        raw.append(md.Recording(t, q, tau, joint_names=robot.joint_names))
    found = md.identify_one_joint(robot, raw)
    errors = (found.beta - found.base.values(robot.parameters)) / found.std
    assert np.mean(np.abs(errors) < 2.5) > 0.9
    for number, run in enumerate(raw):
        run.save(tmp_path / f"{number}.parquet")
    files = [tmp_path / f"{number}.parquet" for number in range(len(raw))]
    lazy = md.identify_one_joint(
        robot, [md.read_recording(file, robot, lazy=True) for file in files]
    )
    np.testing.assert_allclose(lazy.beta, found.beta, rtol=1e-9, atol=1e-12)


# -------------------------------------------------------------------- text


def test_plan_is_readable() -> None:
    plan = own_plan(md.load("stanford"))
    text = str(plan)
    assert text.startswith("stanford: 4 steps show 33 base parameters")
    assert "as step 1" in text
    names = md.base_parameters(plan.robot).names
    assert sorted(name for step in plan.shown() for name in step) == sorted(names)
    assert not [
        name for name in set(plan.base.names) - set(names) if name in text
    ]  # the paper's stay inside
    assert len([line for line in text.splitlines() if line[:2] in ("1 ", "2 ", "3 ", "4 ")]) == 4
    assert repr(plan).startswith("Plan('stanford': 4 steps, 33 constants, worst condition")


def test_command() -> None:
    runner = CliRunner()
    shown = runner.invoke(main, ["plan", "stanford", "--friction", "own", "--no-rotor-inertia"])
    assert shown.exit_code == 0, shown.output
    assert "4 steps show 33 base parameters" in shown.output
    assert "ZZR1, MR3" in shown.output
    bare = runner.invoke(
        main, ["plan", "stanford", "--friction", "own", "--no-rotor-inertia", "--json"]
    )
    assert json.loads(bare.stdout)["steps"][2]["shows"] == ["ZZR2"]
    content = json.loads(runner.invoke(main, ["plan", "scara", "--json"]).stdout)
    assert content == json.loads(json.dumps(md.one_joint_plan(md.load("scara")).to_json()))
    assert content["condition"] < 50
    assert [step["number"] for step in content["steps"]] == [1, 2, 3, 4, 5]
    refused = runner.invoke(main, ["plan", "two_arm"])
    assert refused.exit_code == 2
    assert "use md.identify" in refused.output


# -------------------------------------------------------------------- an estimate like any other


def test_it_is_an_estimate_that_everything_takes(tmp_path: Path) -> None:
    """Saved and loaded, validated, certified and exported as those of `md.identify` are."""
    robot = wrist_arm()
    plan = own_plan(robot)
    found = md.identify_one_joint(
        robot, [record(robot, step, noise=_white(0.01, 1)) for step in plan.steps]
    )
    assert isinstance(found, md.Estimate)
    assert (found.method, found.consistent) == ("one-joint", False)
    assert found.condition == max(body.condition for body in found.bodies)
    assert found.sigma.tolist() == [body.sigma for body in found.bodies]
    found.save(tmp_path / "found.json")
    back = md.load_estimate(tmp_path / "found.json")
    assert back.bodies == found.bodies
    assert back.values == found.values
    rng = np.random.default_rng(5)
    q, dq, ddq = rng.normal(size=(3, 300, robot.n))
    tau = md.inverse_dynamics(robot, q, dq, ddq)
    other = md.Recording(
        0.01 * np.arange(300), q, tau, dq=dq, ddq=ddq, joint_names=robot.joint_names
    )
    assert md.validate(back, other).relative_error < 0.02
    np.testing.assert_allclose(
        md.inverse_dynamics(found.robot, q, dq, ddq), found.predict(other), atol=1e-9
    )
    assert found.certificate.samples > 0
    assert {path.name for path in found.export(tmp_path / "model").files} >= {
        file_name("toml", robot.name),
        file_name("urdf", robot.name),
        "model.c",
    }


# -------------------------------------------------------------------- every door


def _noisy_runs(
    robot: Robot, plan: Plan, seed: int, encoder: float, step: float = 0.02
) -> list[md.Recording]:
    """Raw logs of a plan: positions with white noise, torques with 1 % of each joint's size."""
    rng, made = np.random.default_rng(seed), []
    for experiment in plan.steps:
        t = np.arange(0.0, 2 * experiment.trajectory.period, step)
        q, dq, ddq = experiment.trajectory(t)
        tau = md.inverse_dynamics(robot, q, dq, ddq)
        tau += 0.01 * np.sqrt(np.mean(tau**2, axis=0)) * rng.normal(size=q.shape)
        made.append(
            md.Recording(
                t, q + encoder * rng.normal(size=q.shape), tau, joint_names=robot.joint_names
            )
        )
    return made


@pytest.mark.parametrize("encoder", [1e-4, 1e-3])
def test_errors_of_positions_are_in_the_covariance(encoder: float) -> None:
    """95 % of all constants within two standard deviations, with noisy encoders.

    Joints one by one not far from it.
    """
    robot = wrist_arm()
    plan = own_plan(robot)
    scores = []
    for seed in range(count(6, 200)):
        found = md.identify_one_joint(robot, _noisy_runs(robot, plan, seed, encoder))
        scores.append((found.beta - found.base.values(robot.parameters)) / found.std)
    few = 0.03 if len(scores) < 100 else 0.0
    assert np.mean(np.abs(scores) < 2) > 0.945 - few
    assert 0.7 < np.sqrt(np.mean(np.square(scores))) < 1.1 + few
    pull = np.mean(scores, axis=0) * np.sqrt(
        len(scores)
    )  # 2.8 at 1e-3 rad were noise not taken out of the equations
    assert np.sqrt(np.mean(pull**2)) < (1.6 if len(scores) < 100 else 2.5)


def test_identify_goes_on_from_the_same_numbers() -> None:
    """The same base values and errors as `identify_one_joint`, in the exact base.

    Then a model that can exist.
    """
    robot = md.load("puma4", rotor_inertia=False)
    plan = own_plan(robot)
    runs = _noisy_runs(robot, plan, 1, 1e-4)
    log = md.concatenate(runs)
    bare: dict[str, Any] = {"friction": (), "rotor_inertia": False}
    plain = md.identify(robot, log, "one-joint", consistent=False, **bare)
    beta, covariance = md.identify_one_joint(robot, runs).in_base(plain.base)
    np.testing.assert_allclose(plain.beta, beta, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(plain.covariance, covariance, rtol=1e-9, atol=1e-15)
    assert [body.joint for body in plain.bodies] == list(robot.joint_names)
    found = md.identify(robot.with_parameters(robot.parameters * 1.3), log, "one-joint", **bare)
    assert found.consistent
    assert found.certificate.consistent
    assert md.validate(found, log).relative_error < 0.03
    # the quadratic form that the consistent model minimises has its least at the estimate, with the
    # covariance of independent noise
    solution = METHODS["one-joint"].solve(robot, plain.base, ready_one_joint(robot, log), Options())
    np.testing.assert_allclose(
        np.linalg.solve(solution.R, solution.z), plain.beta, rtol=1e-6, atol=1e-9
    )
    ratio = np.diag(np.linalg.inv(solution.R.T @ solution.R)) / np.diag(plain.covariance)
    assert 0.2 < np.median(ratio) < 5


def test_drive_terms_need_a_run_of_their_joint() -> None:
    robot = md.load("puma4", rotor_inertia=False)
    terms = ("viscous", "coulomb", "offset")
    few = md.concatenate(_noisy_runs(robot, own_plan(robot), 1, 1e-5))
    with pytest.raises(md.MinidynError, match=r"do not show Ia4, .* the joint itself must move"):
        md.identify(robot, few, "one-joint")
    driven = robot.with_drives(True, terms)
    true = driven.with_parameters(np.nan_to_num(driven.parameters, nan=0.5))
    plan = md.one_joint_plan(robot, friction=terms, rotor_inertia=True)
    assert {step.joint for step in plan.steps} == set(robot.joint_names)
    runs = _noisy_runs(true, plan, 2, 1e-6, 0.005)
    found = md.identify(robot, md.concatenate(runs), "one-joint", friction=terms, consistent=False)
    assert {"Fv4", "Fc4"} <= set(found.values)
    assert found.values["Fv4"] == pytest.approx(0.5, rel=0.1)


def test_a_default_plan_is_enough_for_a_default_identification(tmp_path: Path) -> None:
    """Plan, record, identify without one option, as the shell prints the plan and as Python has
    it.
    """
    driven = md.load("scara").with_drives(True, ("viscous", "coulomb", "offset"))
    true = driven.with_parameters(np.nan_to_num(driven.parameters, nan=0.5))
    plan = md.one_joint_plan("scara")
    printed = json.loads(CliRunner().invoke(main, ["plan", "scara", "--json"]).stdout)
    assert [step["place"] for step in printed["steps"]] == [
        step.place.tolist() for step in plan.steps
    ]
    assert {step.joint for step in plan.steps} == set(true.joint_names)
    runs = _noisy_runs(true, plan, 5, 1e-5, 0.01)
    files = [str(tmp_path / f"run{number}.csv") for number in range(len(runs))]
    for run, file in zip(runs, files):
        run.save(file)
    done = CliRunner().invoke(
        main,
        ["identify", "scara", *files, "--method", "one-joint", "--output", str(tmp_path / "out")],
    )
    assert done.exit_code in (0, 1), done.output
    shell = md.load_estimate(tmp_path / "out" / "estimate.json")
    python = md.identify(
        "scara", md.concatenate([md.read_recording(file, "scara") for file in files]), "one-joint"
    )
    np.testing.assert_array_equal(shell.beta, python.beta)
    assert set(python.record["friction"]) == {
        "viscous",
        "coulomb",
        "offset",
    }  # no more than the robot has
    assert python.values["Fc2"] == pytest.approx(0.5, rel=0.1)
    assert md.validate(python, md.concatenate(runs)).relative_error < 0.03


def test_shell_and_study_give_the_same_model(tmp_path: Path) -> None:
    robot = md.load("two_link")
    runs = _noisy_runs(robot, own_plan(robot), 3, 1e-5)
    for number, run in enumerate(runs, start=1):
        run.save(tmp_path / f"run{number}.csv")
    files = [str(tmp_path / f"run{number}.csv") for number in range(1, len(runs) + 1)]
    told = [
        "--method",
        "one-joint",
        "--friction",
        "none",
        "--no-rotor-inertia",
        "--output",
        str(tmp_path / "out"),
    ]
    done = CliRunner().invoke(main, ["identify", "two_link", *files, *told])
    assert done.exit_code in (0, 1), done.output
    shell = md.load_estimate(tmp_path / "out" / "estimate.json")
    names = ", ".join(f'"run{number}.csv"' for number in range(1, len(runs) + 1))
    (tmp_path / "study.toml").write_text(
        f'[robot]\nfile = "two_link"\n[plan]\nfriction = []\n[identify]\nlogs = [{names}]\n'
        'method = "one-joint"\n'
        "friction = []\nrotor_inertia = false\n[export]\n[report]\n"
    )
    done = CliRunner().invoke(main, ["run", str(tmp_path / "study.toml")])
    assert done.exit_code in (0, 1), done.output
    study = md.load_estimate(tmp_path / "study" / "identify" / "estimate.json")
    read = [md.read_recording(file, robot) for file in files]
    python = md.identify(robot, md.concatenate(read), "one-joint", friction=(), rotor_inertia=False)
    for other in (shell, study):
        np.testing.assert_array_equal(other.beta, python.beta)
        np.testing.assert_array_equal(other.covariance, python.covariance)
        assert other.bodies == python.bodies
    assert (tmp_path / "study" / "export" / "two_link.urdf").is_file()
    assert (tmp_path / "study" / "report" / "report.html").is_file()


def test_logs_in_which_all_joints_move_are_refused() -> None:
    robot = md.load("two_link")
    t = np.arange(0.0, 10.0, 0.02)
    q, dq, ddq = md.trajectory.fourier(robot, seed=1)(t)
    log = md.Recording(t, q, md.inverse_dynamics(robot, q, dq, ddq), joint_names=robot.joint_names)
    first, second = robot.joint_names
    expected = f"one joint moves and the others stay; run 1 moves '{first}' and '{second}'"
    with pytest.raises(md.MinidynError, match=expected):
        md.identify(robot, log, "one-joint")


def test_validation_takes_means_of_locked_joints_as_the_fit_does() -> None:
    """Noise of locked joints' encoders was motion, and got Coulomb friction: 173 % of a joint."""
    robot = md.load("puma4").with_drives(True, ("viscous", "coulomb"))
    values = robot.parameters.copy()
    for drive in robot.layout.drives:
        for column in drive:
            values[column.index] = {"Ia": 0.2, "Fv": 2.0, "Fc": 8.0}[column.symbol]
    robot = robot.with_parameters(values)
    plan = md.one_joint_plan(robot, friction=("viscous", "coulomb"), rotor_inertia=True)
    runs = _noisy_runs(robot, plan, 1, 1e-4)
    estimate = md.identify_one_joint(robot, runs)
    test = md.concatenate(_noisy_runs(robot, plan, 2, 1e-4))
    validation = md.validate(estimate, test)
    assert max(entry["relative_error"] for entry in validation.per_joint.values()) < 0.05
    # logs in which all joints move are as they were
    t = np.arange(0, 10, 0.01)
    q, dq, ddq = md.trajectory.fourier(robot, seed=3)(t)
    tau = md.inverse_dynamics(robot, q, dq, ddq)
    moving = md.Recording(t, q, tau, joint_names=robot.joint_names)
    shown = md.validate(estimate, moving).motion
    assert shown is not None
    assert np.ptp(shown.q, axis=0).min() > 0.1


@pytest.mark.parametrize("name", ["ur10e", "ur5e", "puma560"])
def test_no_run_is_listed_twice(name: str) -> None:
    rows = [row[1:4] for row in md.one_joint_plan(md.load(name), friction="auto").step_rows()]
    assert len(set(rows)) == len(rows)
