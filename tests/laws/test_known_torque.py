"""Torque that is known is taken off before a fit, added to predictions, saved and exported with the
estimate.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import minidyn as md
from conftest import count
from minidyn.app.cli.main import main
from minidyn.app.job import Job
from minidyn.identification.export import file_name
from minidyn.model.parameters import from_body

TOOL = md.Payload(0.0, from_body(3.0, [0.02, 0.0, 0.08], 0.01 * np.eye(3)))
OPTIONS = {"friction": ("viscous", "coulomb", "offset"), "rotor_inertia": False}


def spring(joint: str) -> md.Balancer:
    return md.Balancer(joint, (0.0, 0.20), (0.12, 0.12), rate=900.0, force=400.0)


def hose(q: np.ndarray, dq: np.ndarray) -> np.ndarray:
    """A cable harness that stiffens and damps joint 3."""
    torque = np.zeros_like(q)
    torque[:, 2] = 12.0 * np.tanh(2.0 * q[:, 2]) + 3.0 * dq[:, 2]
    return torque


def truth(name: str = "ur10e") -> md.Robot:
    robot = md.load(name).with_drives(friction=("viscous", "coulomb", "offset"))
    sizes = {"Fv": 2.0, "Fc": 3.0, "Fo": 0.3}
    return robot.with_parameters(
        [sizes.get(n[:2], v) for n, v in zip(robot.parameter_names, robot.parameters)]
    )


def recorded(
    robot: md.Robot, seed: int, known: dict[str, object], raw: bool = False
) -> md.Recording:
    """Measured torques: the robot's, those of each known part, and noise."""
    t = np.arange(0, 6, 0.004)
    q, dq, ddq = md.trajectory.fourier(robot, seed=seed, speed=1.5)(t)
    tau = md.inverse_dynamics(robot, q, dq, ddq)
    for part in known.values():
        if callable(part):
            tau = tau + part(q, dq)
        else:
            tau = (
                tau
                + md.inverse_dynamics(part.on(robot), q, dq, ddq)
                - md.inverse_dynamics(robot, q, dq, ddq)
            )
    tau = tau + 0.2 * np.random.default_rng(seed).normal(size=tau.shape)
    signals = () if raw else (dq, ddq)
    return md.Recording(t, q, tau, *signals, joint_names=robot.joint_names)


@pytest.mark.parametrize("raw", [False, True], ids=["prepared", "raw"])
@pytest.mark.parametrize("name", ["ur10e", "iiwa14", "puma560"][: count(1, 3)])
def test_a_fit_knows_nothing_of_what_is_taken_off(name: str, raw: bool) -> None:
    """The estimate is that of a log without the known parts, and predicts torques with them."""
    robot = truth(name)
    known = {"hose": hose, "tool": TOOL, "balancer": spring(robot.joint_names[1])}
    blank = robot.with_parameters(None)
    options = {**OPTIONS, "prior": False, "consistent": False, "sign_width": 0.02}
    plain = md.identify(blank, recorded(robot, 1, {}, raw), **options)
    estimate = md.identify(blank, recorded(robot, 1, known, raw), known_torque=known, **options)
    assert estimate.names == plain.names
    np.testing.assert_allclose(
        estimate.beta, plain.beta, atol=1e-6 if not raw else 0.02 * np.abs(plain.beta).max()
    )
    assert "identify.known_torque" in [notice.code for notice in estimate.notices]
    with_it, without = (
        md.validate(one, recorded(robot, 2, known, raw)).relative_error for one in (estimate, plain)
    )
    assert with_it < 0.05 < 0.25 * without


def test_columns_of_a_log(tmp_path: Path) -> None:
    """A column of known torque that a log is read with counts by itself, in Python and in the
    shell.
    """
    robot = truth("two_link")
    md.save(robot, tmp_path / "arm.toml")
    t = np.arange(0, 4, 0.01)
    for seed, name in ((1, "fit"), (2, "test")):
        q, dq, ddq = md.trajectory.fourier(robot, seed=seed)(t)
        extra = 15.0 * np.sin(7.0 * t) + 5.0
        tau = md.inverse_dynamics(robot, q, dq, ddq) + 0.01 * np.random.default_rng(seed).normal(
            size=q.shape
        )
        tau[:, 1] += extra
        table = np.column_stack([t, q, tau, extra])
        np.savetxt(
            tmp_path / f"{name}.csv",
            table,
            delimiter=",",
            header="t,q1,q2,tau1,tau2,comp",
            comments="",
        )
    read = {"known_torque": {"joint2": "comp"}}
    fit, test = (
        md.read_recording(tmp_path / f"{name}.csv", robot, **read) for name in ("fit", "test")
    )
    np.testing.assert_allclose(fit.telemetry["known_torque"][:, 0], 0.0)
    estimate = md.identify(robot, fit, **OPTIONS)
    assert md.validate(estimate, test).relative_error < 0.02
    assert md.cross_validate(robot, fit, 2, **OPTIONS).relative_error < 0.05
    told = estimate.export(
        tmp_path / "files", to=["mjcf"], test=md.validate(estimate, test)
    ).notices
    (unsaid,) = [notice.data for notice in told if notice.code == "export.cannot_say"]
    assert (
        unsaid["whole"] < unsaid["error"] < 0.02
    )  # offsets; with the known torque it would be 0.3
    bare = md.identify(robot, md.read_recording(tmp_path / "fit.csv", robot), **OPTIONS)
    assert md.validate(bare, md.read_recording(tmp_path / "test.csv", robot)).relative_error > 0.1
    with pytest.raises(md.MinidynError, match="known_torque"):
        md.validate(estimate, md.read_recording(tmp_path / "test.csv", robot))
    words = [
        "identify",
        "arm.toml",
        "fit.csv",
        "--validate",
        "test.csv",
        "--known-torque",
        "joint2=comp",
    ]
    words = [str(tmp_path / word) if "." in word else word for word in words]
    out = str(tmp_path / "out")
    result = CliRunner().invoke(
        main, [*words, "--friction", "viscous,coulomb,offset", "--output", out]
    )
    assert result.exit_code == 0, result.output
    shell = md.load_estimate(tmp_path / "out" / "estimate.json")
    assert md.validate(shell, test).relative_error < 0.02
    for wrong, told in (
        ({"joint9": "comp"}, "joint9"),
        ({"joint2": "camp"}, "camp"),
        ("comp", "1 columns for 2"),
    ):
        with pytest.raises(md.MinidynError, match=told):
            md.read_recording(tmp_path / "fit.csv", robot, known_torque=wrong)


def test_what_is_no_torque_is_named(tmp_path: Path) -> None:
    """Holes by joint and line, functions that fail by what they are called with; nothing at all is
    as None.
    """
    robot = truth("two_link")
    log = recorded(robot, 1, {}, True)

    def one(q: np.ndarray) -> np.ndarray:
        return q

    def hole(q: np.ndarray, dq: np.ndarray) -> np.ndarray:
        return np.where(np.arange(len(q))[:, None] == 7, np.nan, q)

    for function, told in (
        (one, "takes positions and speeds .* it fails: TypeError"),
        (lambda q, dq: np.zeros(3), "torques of shape .* are expected, got .3,"),
        (lambda q, dq: ["a"], "it fails: ValueError"),
        (hole, "joint 'joint1' is no number at sample 7, t ="),
    ):
        with pytest.raises(md.MinidynError, match=told):
            md.identify(robot, log, known_torque=function, **OPTIONS)
    nothing = md.identify(robot, log, known_torque={}, **OPTIONS)
    assert "identify.known_torque" not in [notice.code for notice in nothing.notices]
    extra = np.where(np.arange(len(log)) == 7, np.nan, 1.0)
    table = np.column_stack([log.t, log.q, log.tau, extra])
    np.savetxt(
        tmp_path / "log.csv", table, delimiter=",", header="t,q1,q2,tau1,tau2,comp", comments=""
    )
    job = Job.of_files(robot, [str(tmp_path / "log.csv")], known_torque={"joint2": "comp"})
    with pytest.raises(
        md.MinidynError,
        match=r"joint 'joint2' is no number .*1 values of known_torque .* at line 9",
    ):
        job.identify()


def test_it_is_saved_and_exported(tmp_path: Path) -> None:
    robot = truth()
    known = {"tool": TOOL, "balancer": spring(robot.joint_names[1])}
    run, other = (recorded(robot, seed, {**known, "hose": hose}) for seed in (1, 2))
    estimate = md.identify(
        robot.with_parameters(None), run, known_torque={**known, "hose": hose}, **OPTIONS
    )
    estimate.save(tmp_path / "estimate.json")
    unknown = md.load_estimate(tmp_path / "estimate.json")
    with pytest.raises(md.MinidynError, match="hose"):
        unknown.predict(other)
    again = md.load_estimate(tmp_path / "estimate.json", known_torque={"hose": hose})
    np.testing.assert_allclose(again.predict(other), estimate.predict(other), rtol=1e-12, atol=1e-9)
    done = estimate.export(tmp_path / "model")
    (told,) = (notice for notice in done.notices if notice.code == "export.known_torque")
    assert told.data["parts"] == ["hose"]
    expected = estimate.predict(other) - hose(other.q, other.dq)
    for file in ("toml", "urdf", "mjcf"):
        back = md.load(tmp_path / "model" / file_name(file, robot.name))
        np.testing.assert_allclose(
            md.inverse_dynamics(back, other.q, other.dq, other.ddq), expected, rtol=1e-6, atol=1e-6
        )
    assert "inverse_dynamics" in (tmp_path / "model" / "model.c").read_text()
    alone = md.identify(
        robot.with_parameters(None), recorded(robot, 1, known), known_torque=known, **OPTIONS
    )
    assert "export.known_torque" not in [
        one.code for one in alone.export(tmp_path / "alone", ["toml"]).notices
    ]


def test_comparisons_and_refusals() -> None:
    robot = truth("two_link")

    def pull(q: np.ndarray, dq: np.ndarray) -> np.ndarray:
        return np.stack([0.0 * q[:, 0], 20.0 * np.sin(3.0 * q[:, 1])], axis=1)

    run, other = (recorded(robot, seed, {"pull": pull}) for seed in (1, 2))
    found = md.compare(robot, run, other, ["ols", "wls"], known_torque=pull, **OPTIONS)
    assert all(row.validation_error < 0.1 for row in found.rows)
    cases = (
        (lambda q, dq: q[:, :1], "shape"),
        ("gone", "telemetry 'gone'"),
        (3.0, "known_torque"),
        (replace(spring("joint2"), rate=None), "constants"),
    )
    for wrong, words in cases:
        with pytest.raises(md.MinidynError, match=words):
            md.identify(robot, run, known_torque=wrong, **OPTIONS)
