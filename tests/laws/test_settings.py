"""Settings: one default for all doors, files that say the same, and fits that can be repeated."""

from __future__ import annotations

import dataclasses
import inspect
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import minidyn as md
from minidyn.app.cli.main import main
from minidyn.identification.consistency.scale import SCALES
from minidyn.identification.settings import ModelOptions, SettingsOptions, descriptions
from minidyn.recording.prepare.preparation import Preparation, PreparationOptions

OTHER: dict[str, Any] = {
    "method": "ols",
    "friction": ("viscous", "coulomb"),
    "force_terms": ("cubic",),
    "forbid_terms": ("offset", "load"),
    "auto": False,
    "friction_per": "log",
    "flexibility": "link",
    "measured": ("joint1",),
    "rotor_inertia": None,
    "sign_width": (0.01, 0.1 + 0.2),
    "prior": False,
    "prior_kind": "euclidean",
    "total_mass": (12.0, 0.5),
    "mass_bounds": {"link1": [0.5, 3.0]},
    "symmetric": (("left_*", "right_*"),),
    "centres_inside": True,
    "consistent": False,
    "cutoff": 12.5,
    "order": 3,
    "decimate": 2,
    "differentiate": False,
    "trim": False,
    "outliers": False,
    "period": 4.0,
    "rate": 200.0,
    "resample": 100.0,
    "time": "even",
    "delay": -0.002,
}
"""Another value than the default for each option."""


def truth() -> md.Robot:
    robot = md.load("two_link").with_drives(True, ("viscous", "coulomb", "offset"), 0.02)
    values = np.array(robot.parameters)
    for columns in robot.layout.drives:
        for column in columns:
            values[column.index] = 0.3
    return robot.with_parameters(np.nan_to_num(values, nan=0.5))


def log(seed: int = 0, seconds: float = 8.0) -> md.Recording:
    """Return a raw log with speeds."""
    robot, rng = truth(), np.random.default_rng(seed)
    t = np.arange(0, seconds, 0.005)
    q, dq, ddq = md.trajectory.fourier(robot, seed=seed)(t)
    tau = md.inverse_dynamics(robot, q, dq, ddq)
    noisy = [
        values + size * rng.normal(size=values.shape) for values, size in ((q, 1e-5), (dq, 1e-3))
    ]
    return md.Recording(
        t,
        noisy[0],
        tau + 0.02 * rng.normal(size=tau.shape),
        noisy[1],
        joint_names=robot.joint_names,
    )


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a robot, two logs and a study."""
    monkeypatch.chdir(tmp_path)
    md.save(truth(), "robot.toml")
    log().save("fit.csv")
    log(1).save("test.csv")
    return tmp_path


def same(one: md.Estimate, two: md.Estimate) -> None:
    assert np.array_equal(one.beta, two.beta)
    assert np.array_equal(one.covariance, two.covariance)
    assert np.array_equal(one.parameters, two.parameters, equal_nan=True)
    assert np.array_equal(one.sigma, two.sigma)
    assert one.settings == two.settings


def test_every_option_has_a_meaning_and_is_a_keyword() -> None:
    names = {one.name for one in dataclasses.fields(md.Settings)}
    assert set(descriptions()) == names == set(OTHER)
    assert all(len(text) > 20 for text in descriptions().values())
    assert set(SettingsOptions.__annotations__) | {"method"} == names
    assert set(SettingsOptions.__annotations__) == {*ModelOptions.__annotations__, "consistent"}
    own = {one.name for one in dataclasses.fields(Preparation)}
    assert set(PreparationOptions.__annotations__) | {"cutoff"} == own
    defaults = md.Settings()
    for name, value in OTHER.items():
        assert value != getattr(defaults, name), name


@pytest.mark.parametrize("door", [md.identify, md.compare, md.cross_validate, md.prepare])
def test_signatures_show_the_defaults(door: Any) -> None:
    known = {one.name: one.default for one in dataclasses.fields(md.Settings)}
    shown = {
        name: one.default
        for name, one in inspect.signature(door).parameters.items()
        if name in known and (door is not md.compare or name != "consistent")  # it compares both
    }
    assert len(shown) >= (11 if door is md.prepare else 22)
    assert shown == {name: known[name] for name in shown}


def test_every_door_passes_the_defaults_on(folder: Path) -> None:
    robot, fit, other = md.load("robot.toml"), log(), log(1)
    assert md.identify(robot, fit).settings == md.Settings()
    (row,) = md.compare(robot, fit, other, "irls", consistent=[True]).rows
    assert row.estimate is not None
    chosen = md.Settings(friction="own", rotor_inertia=None)  # "auto" is chosen once for all
    assert row.estimate.settings == chosen
    words = ["identify", "robot.toml", "fit.csv", "--output", "out", "--json"]
    found = json.loads(CliRunner().invoke(main, words).stdout)
    assert found["settings"] == json.loads(json.dumps(md.Settings().to_json()))
    assert md.load_estimate("out/estimate.json").settings == md.Settings()
    study = '[robot]\nfile = "robot.toml"\n[identify]\nlogs = ["fit.csv"]\n'
    (folder / "study.toml").write_text(study)
    md.run_study("study.toml")
    assert md.load_estimate("study/identify/estimate.json").settings == md.Settings()


def test_every_door_passes_other_values_on(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keywords, settings, a file of the shell and a study ask for the same fit."""
    robot, fit = md.load("robot.toml"), log()
    asked = md.Settings(method="ols", friction=("viscous", "coulomb"), prior=False, cutoff=15.0)
    expected = md.identify(robot, fit, settings=asked)
    keywords = {"friction": ("viscous", "coulomb"), "prior": False, "cutoff": 15.0}
    same(md.identify(robot, fit, "ols", **keywords), expected)  # type: ignore[arg-type]
    other = asked.replace(cutoff=8.0, friction="own")
    same(md.identify(robot, fit, settings=other, **keywords), expected)  # type: ignore[arg-type]

    (folder / "asked.toml").write_text(asked.replace(cutoff=8.0).to_toml())
    words = ["identify", "robot.toml", "fit.csv", "--output", "out"]
    found = CliRunner().invoke(main, [*words, "--settings", "asked.toml", "--cutoff", "15"])
    assert found.exit_code == 0, found.output
    read = md.load_estimate("out/estimate.json")
    same(read, expected)
    same(md.identify(robot, md.read_recording("fit.csv"), settings=read.settings), expected)

    study = (
        '[robot]\nfile = "robot.toml"\n[preparation]\ncutoff = 15\n'
        '[identify]\nlogs = ["fit.csv"]\nmethod = "ols"\nprior = false\n'
        'friction = ["viscous", "coulomb"]\n'
    )
    (folder / "study.toml").write_text(study)
    md.run_study("study.toml")
    same(md.load_estimate("study/identify/estimate.json"), expected)

    seen = []
    real = md.identify

    def watched(*given: Any, **options: Any) -> md.Estimate:
        seen.append(options["settings"])
        return real(*given, **options)

    monkeypatch.setattr("minidyn.identification.cross_validate.identify", watched)
    md.cross_validate(robot, fit, 2, settings=asked, method="wls")
    assert seen == [asked.replace(method="wls")] * 2


def test_the_same_settings_give_the_same_numbers() -> None:
    """Chosen terms, speeds as measured, torques moved."""
    robot, fit = truth(), log()
    for options in (
        {},
        {"differentiate": False, "cutoff": 12.0},
        {"method": "irls", "delay": 0.001},
    ):
        first = md.identify(robot, fit, **options)  # type: ignore[arg-type]
        same(md.identify(robot, fit, settings=first.settings), first)


def test_the_shipped_example_gives_the_same_numbers_again(tmp_path: Path) -> None:
    words = ["example", "ur10", "--output", str(tmp_path / "ur10")]
    assert CliRunner().invoke(main, words).exit_code == 0
    robot = md.load(tmp_path / "ur10" / "robot.toml")
    fit = md.read_recording(tmp_path / "ur10" / "log.csv", robot=robot)
    first = md.identify(robot, fit)
    first.save(tmp_path / "estimate.json")
    saved = md.load_estimate(tmp_path / "estimate.json")
    assert saved.settings == md.Settings()
    same(md.identify(robot, fit, settings=saved.settings), first)


@pytest.mark.parametrize("name", sorted(OTHER))
def test_each_option_survives_files(name: str) -> None:
    made = md.Settings(**{name: OTHER[name]})
    assert made != md.Settings()
    assert getattr(made, name) == OTHER[name]
    for back in (
        md.Settings.from_toml(made.to_toml()),
        md.Settings.from_toml(made.to_toml(comments=True)),
        md.Settings.from_json(json.loads(json.dumps(made.to_json()))),
    ):
        assert back == made
        assert hash(back) == hash(made)
        assert getattr(back, name) == OTHER[name]
    assert md.Settings().replace(**{name: OTHER[name]}) == made
    assert repr(made) == f"Settings({name}={OTHER[name]!r})"


def test_priors_survive_files(tmp_path: Path) -> None:
    robot = truth()
    for prior in (robot, robot.parameters, "two_link"):
        made = md.Settings(prior=prior)
        back = md.Settings.from_toml(made.to_toml())
        assert back == made
        assert isinstance(back.prior, type(made.prior))
    values = np.array(robot.parameters)
    values[0] = np.nan
    made = md.Settings(prior=values)
    assert md.Settings.from_toml(made.to_toml()) == made
    (tmp_path / "cad.toml").write_text(md.Settings(prior="robot.urdf").to_toml())
    assert md.Settings.from_toml(tmp_path / "cad.toml").prior == str(tmp_path / "robot.urdf")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('methd = "wls"', r"settings:1: .*unknown key 'methd'; did you mean 'method'"),
        ('\nmethod = "wsl"', r"settings:2: .*method: unknown 'wsl'; did you mean 'wls'"),
        ("cutoff = -1", r"settings:1: .*cutoff: expected a number above 0, got -1"),
        ("auto = 1", r"auto: expected True or False, got 1"),
        ('friction = ["viscos"]', r"friction term 'viscos'; did you mean 'viscous'"),
        ('sign_width = "wide"', r"sign_width: expected numbers, got 'wide'"),
        ('rotor_inertia = "no"', r"rotor_inertia: expected True, False or names of joints"),
        ('force_terms = ["load"]\nforbid_terms = ["load"]', r"forbid_terms: load is asked for"),
    ],
)
def test_wrong_values_are_named(text: str, message: str) -> None:
    with pytest.raises(md.MinidynError, match=message):
        md.Settings.from_toml(text + "\n")


def test_unknown_names_suggest() -> None:
    suggests = r"unknown option 'frictoin'; did you mean 'friction'"
    for door in (md.identify, md.cross_validate):
        with pytest.raises(TypeError, match=suggests):
            door(truth(), log(), frictoin="own")  # type: ignore[operator]
    with pytest.raises(md.MinidynError, match=suggests):
        md.Settings().replace(frictoin="own")
    with pytest.raises(md.MinidynError, match=r"unknown option 'cutof'; did you mean 'cutoff'"):
        md.prepare(truth(), log(), cutof=3.0)  # type: ignore[call-arg]
    with pytest.raises(md.MinidynError, match=r"settings: expected md\.Settings or None, got dict"):
        md.identify(truth(), log(), settings={})  # type: ignore[arg-type]


def test_a_prepared_log_contradicts_other_options() -> None:
    robot, fit = truth(), log()
    ready = md.prepare(robot, fit, 8.0, trim=False)
    assert md.identify(robot, ready, cutoff=8.0, trim=False).record["preparation"]["cutoff"] == 8.0
    for options, what in (({"cutoff": 12.0}, "cutoff=8.0"), ({"outliers": 5.0}, "outliers=12.0")):
        with pytest.raises(md.MinidynError, match=f"prepared already, with {what}, and"):
            md.identify(robot, ready, **options)  # type: ignore[arg-type]


def test_terms_are_forced_and_forbidden() -> None:
    robot, fit = truth(), log()
    assert md.identify(robot, fit).record["friction"] == ["viscous", "coulomb", "offset"]
    forced = md.identify(robot, fit, force_terms="cubic")
    assert set(forced.record["friction"]) == {"viscous", "coulomb", "offset", "cubic"}
    bare = md.identify(robot, fit, forbid_terms=("offset", "ripple"))
    assert set(bare.record["friction"]) >= {"viscous", "coulomb"}
    assert all("offset" not in joint.drive.friction for joint in bare.robot.joints)
    named = md.identify(robot, fit, friction=("viscous",), force_terms=("coulomb",))
    assert named.robot.joints[0].drive.friction == ("viscous", "coulomb")


def test_candidates_that_are_no_terms_are_forced() -> None:
    with pytest.raises(md.MinidynError, match="cutoff is given, 5 Hz"):
        md.Settings(force_terms="cutoff", cutoff=5.0)
    robot, fit = truth(), log()
    warm = fit.tau + 0.03 * np.exp(-fit.t / 3.0)[:, None] * np.tanh(fit.dq / 0.05)
    raw = md.Recording(fit.t, fit.q, warm, joint_names=fit.joint_names)
    free, forced = (
        md.identify(robot, raw, force_terms=names) for names in ((), ("cutoff", "warming"))
    )
    assert free.record["preparation"]["cutoff"] == 10.0
    assert "forced" not in {row.reason for row in free.selection}
    assert forced.record["preparation"]["cutoff"] == 20.0
    reasons = {row.candidate: row.reason for row in forced.selection.taken}
    assert reasons["cutoff 20 Hz"] == reasons["warming"] == "forced"


def test_without_auto_nothing_is_searched() -> None:
    robot, fit = truth().with_drives(sign_width=0.0), log()
    plain = md.identify(robot, fit, auto=False)
    assert plain.record["friction"] == ["viscous", "coulomb", "offset"]
    scored = {row.candidate for row in plain.selection if row.gain is not None}
    scales = {scale.name for scale in SCALES}  # of the prior: no term of the model
    assert scored - {f"{name}, less for links" for name in scales} == scales
    assert "sign_width" not in plain.record
    assert all(joint.drive.sign_width == 0.0 for joint in plain.robot.joints)
    for without in ({"consistent": False}, {"prior": False}):
        bare = md.identify(robot, fit, auto=False, **without)
        assert not any(row.gain is not None for row in bare.selection)
        assert "sign_width" not in bare.record
    assert "sign_width" in md.identify(robot, fit, friction=("viscous", "coulomb")).record


def test_what_is_forbidden_is_not_tried() -> None:
    tried = []
    for forbidden in ((), ("load", "stribeck", "curve")):
        estimate = md.identify(truth(), log(), forbid_terms=forbidden)
        rows = [row for row in estimate.selection if row.gain is not None]
        tried.append({row.candidate for row in rows})
    assert tried[0] - tried[1] >= {"load", "stribeck"}
    assert not tried[1] & {"load", "stribeck", "curve"}


def test_the_shell_prints_the_defaults() -> None:
    text = CliRunner().invoke(main, ["settings"]).stdout
    assert md.Settings.from_toml(text) == md.Settings()
    assert all(f"\n{name} =" in text or f"\n# {name} =" in text for name in descriptions())
    assert json.loads(CliRunner().invoke(main, ["settings", "--json"]).stdout)["method"] == "irls"
