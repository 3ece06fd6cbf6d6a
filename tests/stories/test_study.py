"""Study files: a whole job runs, resumes, records where its results come from, and says what is
wrong where.
"""

from __future__ import annotations

import html
import inspect
import json
import re
import shutil
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

import minidyn as md
from minidyn.app.cli.main import main
from minidyn.app.study import schema as study_schema
from minidyn.app.study.store import write_step
from minidyn.errors import MinidynError
from minidyn.identification.estimate import Estimate
from minidyn.recording.read.places import content_hash
from minidyn.simulation.named_laws import named_law, simulated

STUDY = """\
[study]
name = "two links"
seed = 3

[robot]
file = "arm.toml"

[base]

[[simulate]]
name = "fit"
duration = 4
friction = { viscous = 0.5, coulomb = [0.2, 0.1] }
rotor_inertia = 0.1
parameter_spread = 0.2
torque_noise = 0.01

[[log]]
name = "test"
files = ["test.csv"]
part = [0.25, 1.0]

[identify]
logs = ["fit"]
friction = ["viscous", "coulomb"]

[validate]
logs = ["test", "fit"]

[export]
formats = ["urdf", "toml"]
code = ["inverse_dynamics"]

[report]
code = false
"""
STEPS = ["simulate-fit", "base", "identify", "validate", "export", "report"]


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["run", *arguments])


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a study that was run once."""
    folder = tmp_path_factory.mktemp("study")
    robot = md.load("two_link")
    md.save(robot, folder / "arm.toml")
    (folder / "study.toml").write_text(STUDY)
    law = md.control.computed_torque(robot, bandwidth=10.0)
    md.simulate(robot, law, md.trajectory.fourier(robot, seed=9), 10.0).save(folder / "test.csv")
    result = md.run_study(folder / "study.toml")
    assert [step.name for step in result.steps] == STEPS
    assert {step.state for step in result.steps} == {"done"}
    return folder


@pytest.fixture
def folder(finished: Path, tmp_path: Path) -> Path:
    """A copy of it that a test may change."""
    return Path(shutil.copytree(finished, tmp_path / "copy"))


def states(result: md.StudyResult) -> dict[str, str]:
    return {step.name: step.state for step in result.steps}


def test_results_are_where_they_belong(finished: Path) -> None:
    results = finished / "study"
    assert sorted(path.name for path in results.iterdir()) == sorted(STEPS)
    estimate = md.load_estimate(results / "identify" / "estimate.json")
    assert "fitted data" in (results / "identify" / "report.html").read_text()
    truth = md.load(results / "simulate-fit" / "truth.toml")
    assert truth.parameters[truth.parameter_names.index("Fc2")] == 0.1
    names = dict(zip(truth.parameter_names, truth.parameters))
    found = dict(zip(estimate.robot.parameter_names, estimate.robot.parameters))
    assert found["Fv1"] == pytest.approx(names["Fv1"], abs=0.02)
    errors = json.loads((results / "validate" / "validation.json").read_text())
    assert errors["fit"]["relative_error"] < 0.02
    assert errors["test"]["relative_error"] > 0.05, "the log of another robot should not fit"
    assert md.load(results / "export" / "two_link.urdf").n == 2
    assert (results / "export" / "two_link_inverse_dynamics.c").exists()
    told = json.loads((results / "export" / "provenance.json").read_text())["summary"]["notices"]
    (unsaid,) = [notice["data"] for notice in told if notice["code"] == "export.cannot_say"]
    assert unsaid["error"] > unsaid["whole"] > 0.05, "of the first log that was not fitted"
    assert "two links" in (results / "report" / "report.html").read_text()


def test_the_record_tells_where_a_result_came_from(finished: Path) -> None:
    record = json.loads((finished / "study" / "validate" / "provenance.json").read_text())
    assert record["inputs"]["test"]["files"] == [
        {"file": "test.csv", "sha256": content_hash(finished / "test.csv")}
    ]
    assert record["inputs"]["test"]["part"] == [0.25, 1.0]
    assert record["results"] == {
        "validation.json": content_hash(finished / "study" / "validate" / "validation.json")
    }
    assert record["versions"]["minidyn"] == md.__version__
    assert set(record["after"]) == {"identify", "simulate-fit"}
    assert (record["seed"], record["step"]) == (3, "validate")
    assert record["date"].endswith("+00:00")


def test_nothing_runs_twice(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert set(states(md.run_study(folder / "study.toml")).values()) == {"unchanged"}
    monkeypatch.chdir(folder)  # where it is run from makes no difference
    assert set(states(md.run_study("study.toml")).values()) == {"unchanged"}


def edit(folder: Path, old: str, new: str) -> None:
    text = (folder / "study.toml").read_text()
    assert old in text
    (folder / "study.toml").write_text(text.replace(old, new, 1))


def test_what_changed_runs_again_with_what_follows(folder: Path) -> None:
    edit(folder, '[identify]\nlogs = ["fit"]', '[identify]\nlogs = ["fit"]\nconsistent = false')
    assert states(md.run_study(folder / "study.toml")) == {
        "simulate-fit": "unchanged",
        "base": "unchanged",
        "identify": "done",
        "validate": "done",
        "export": "done",
        "report": "done",
    }
    with (folder / "test.csv").open("a") as stream:  # one sample more
        stream.write(
            (folder / "test.csv").read_text().splitlines()[-1].replace("10.0", "10.001", 1) + "\n"
        )
    assert states(md.run_study(folder / "study.toml"))["validate"] == "done"
    assert states(md.run_study(folder / "study.toml"))["identify"] == "unchanged"


def test_files_of_one_name_are_told_apart(folder: Path) -> None:
    for name, rows in (("a", slice(None)), ("b", slice(0, 4000))):
        (folder / name).mkdir()
        lines = (folder / "test.csv").read_text().splitlines(keepends=True)
        (folder / name / "log.csv").write_text("".join(lines[rows]))
    edit(folder, 'logs = ["test", "fit"]', 'logs = ["a/log.csv", "b/log.csv"]')
    result = md.run_study(folder / "study.toml", only=["validate"])
    assert set(result["validate"].summary["relative_error"]) == {"a/log.csv", "b/log.csv"}
    shutil.copy(folder / "a" / "log.csv", folder / "b" / "log.csv")
    assert md.run_study(folder / "study.toml", only=["validate"])["validate"].state == "done"


def test_every_option_of_identification_can_be_given() -> None:
    """What md.identify takes, a study can say; but for what only a program can hand over."""
    options = set(inspect.signature(md.identify).parameters)
    options -= {"robot", "recording", "base", "controller", "progress", "executor"}
    options -= {"keep"}  # a study keeps what it prepared by itself
    options -= {"settings", *study_schema.PREPARATION}  # which stand in a table of their own
    assert "known_torque" in study_schema.MAPPING  # a column; functions and loads are a program's
    assert options - {"known_torque"} <= set(study_schema.STEPS["identify"])


@pytest.mark.parametrize("door", [md.cross_validate, md.compare], ids=["cross_validate", "compare"])
def test_doors_to_identification_have_its_defaults(door) -> None:
    known = inspect.signature(md.identify).parameters
    same = {
        name: one.default
        for name, one in inspect.signature(door).parameters.items()
        if name in known
    }
    differ = {
        name
        for name, value in same.items()
        if value is not known[name].default and value != known[name].default
    }
    assert len(same) > 14
    assert differ <= {"consistent"} if door is md.compare else not differ  # which compares both


def test_keys_of_a_step_are_keywords_of_its_function() -> None:
    own = {
        "logs",
        "lazy",
        "loaded",
        "name",
        "friction",
        "rotor_inertia",
        "parameter_spread",
        "code",
        "targets",
        "formats",
        "home",
        "force",
    }
    for step, functions in {
        "simulate": (md.simulate, simulated, named_law),
        "excite": (md.excite,),
        "base": (md.base_parameters,),
        "identify": (md.identify,),
        "compare": (md.compare,),
        "payload": (md.identify_payload,),
        "gains": (md.identify_drive_gains,),
        "export": (Estimate.export,),
        "report": (md.report,),
    }.items():
        known = {name for function in functions for name in inspect.signature(function).parameters}
        assert set(study_schema.STEPS[step]) - own <= known, step


def test_logs_that_stay_on_disk_give_the_same_model(folder: Path) -> None:
    whole = md.load_estimate(folder / "study" / "identify" / "estimate.json")
    edit(folder, "[identify]", "[identify]\nlazy = true")
    assert md.run_study(folder / "study.toml", only=["identify"])["identify"].state == "done"
    lazy = md.load_estimate(folder / "study" / "identify" / "estimate.json")
    assert np.linalg.norm(lazy.beta - whole.beta) < 0.02 * np.linalg.norm(whole.beta)
    edit(folder, 'logs = ["fit"]', 'logs = ["fit", "test"]')
    assert md.run_study(folder / "study.toml", only=["identify"])["identify"].state == "done"
    both = md.load_estimate(folder / "study" / "identify" / "estimate.json")
    assert both.samples > lazy.samples


def test_another_description_of_the_same_robot_counts_as_changed(folder: Path) -> None:
    """Exports copy looks and meshes from the file, which the dynamics do not know."""
    arm = folder / "arm.toml"
    arm.write_text(arm.read_text() + "\n# looks different\n")
    told = run(str(folder / "study.toml"), "--dry-run", "--json")
    assert told.exit_code == 0, told.output
    assert "unchanged" not in told.stdout


def test_a_dry_run_tells_and_does_nothing(folder: Path) -> None:
    shutil.rmtree(folder / "study" / "validate")
    before = sorted((folder / "study").rglob("*"))
    result = run(str(folder / "study.toml"), "--dry-run", "--json")
    found = {step["step"]: step["state"] for step in json.loads(result.stdout)["steps"]}
    assert found.pop("validate") == "to do"
    assert set(found.values()) == {"unchanged"}
    assert sorted((folder / "study").rglob("*")) == before


def test_results_that_were_touched_are_made_again(folder: Path) -> None:
    (folder / "study" / "base" / "base.md").write_text("mine")
    shutil.rmtree(folder / "study" / "export")
    found = states(md.run_study(folder / "study.toml", only=["base", "export"]))
    assert found == {
        "simulate-fit": "unchanged",
        "base": "done",
        "identify": "unchanged",
        "export": "done",
    }


def test_interrupting_keeps_finished_steps(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.rmtree(folder / "study")

    def stop(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("minidyn.app.job.identify", stop)
        result = run(str(folder / "study.toml"))
    assert result.exit_code == 130
    assert sorted(path.name for path in (folder / "study").iterdir()) == ["base", "simulate-fit"]
    assert states(md.run_study(folder / "study.toml"))["simulate-fit"] == "unchanged"


def test_a_step_that_fails_leaves_the_old_result(tmp_path: Path) -> None:
    write_step(tmp_path / "step", "old", {}, lambda new: (new / "a").write_text("old") and {})

    def fail(new: Path) -> dict[str, Any]:
        (new / "a").write_text("half")
        raise ValueError

    with pytest.raises(ValueError):  # noqa: PT011
        write_step(tmp_path / "step", "new", {}, fail)
    assert [path.name for path in tmp_path.iterdir()] == ["step"]
    assert (tmp_path / "step" / "a").read_text() == "old"


def test_a_folder_that_no_step_wrote_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "report").mkdir()
    (tmp_path / "report" / "thesis.tex").write_text("years of work")
    with pytest.raises(MinidynError, match="no step made it; move it away"):
        write_step(tmp_path / "report", "key", {}, lambda new: {})
    assert (tmp_path / "report" / "thesis.tex").read_text() == "years of work"


def test_meshes_are_found_from_an_exported_file(folder: Path) -> None:
    """Results are written elsewhere and then put in place.

    Relative names must be right in the end.
    """
    (folder / "meshes").mkdir()
    (folder / "meshes" / "arm.stl").write_bytes(b"")
    md.save(md.load(folder / "arm.toml"), folder / "arm.urdf")
    text = (folder / "arm.urdf").read_text()
    visual = '<visual><geometry><mesh filename="meshes/arm.stl"/></geometry></visual></link>'
    (folder / "arm.urdf").write_text(text.replace("</link>", visual, 1))
    edit(folder, "arm.toml", "arm.urdf")
    md.run_study(folder / "study.toml", only=["export"])
    exported = folder / "study" / "export" / "two_link.urdf"
    (name,) = re.findall('mesh filename="([^"]*)"', exported.read_text())
    assert (exported.parent / name).resolve() == (folder / "meshes" / "arm.stl").resolve()


@pytest.mark.parametrize(
    ("old", "new", "line", "words"),
    [
        ("[identify]", "[identfy]", 24, "unknown key 'identfy'; did you mean 'identify'?"),
        (
            "duration = 4",
            "durations = 4",
            12,
            "simulate 'fit' has an unknown key 'durations'; did you mean 'duration'",
        ),
        ("duration = 4", 'duration = "4"', 12, "duration: expected a number above 0, found '4'"),
        ("duration = 4", "duration = -4", 12, "expected a number above 0"),
        ("viscous = 0.5", "viscous = true", 13, "viscous"),
        ("seed = 3", "seed = 3.5", 3, "seed: expected a whole number, found 3.5"),
        ('"test.csv"', '"tset.csv"', 20, "no such file"),
        ('name = "test"', 'name = "../test"', 19, "expected letters, digits, - and _"),
        ('name = "test"', 'name = "fit"', 10, "'fit' is the name of another log"),
        ("part = [0.25, 1.0]", "part = [0.25, 2.0]", 21, "two fractions"),
        ("part = [0.25, 1.0]", "rtae = 100", 21, "did you mean 'rate'"),
        ('logs = ["fit"]', 'logs = ["fits"]', 24, "did you mean 'fit'?"),
        ('logs = ["fit"]', "", 23, "[identify] has no 'logs'"),
        (
            '[identify]\nlogs = ["fit"]\nfriction = ["viscous", "coulomb"]\n',
            "",
            23,
            "needs the step [identify]",
        ),
        ("[base]", "[base", 8, "not valid TOML"),
        (
            "[identify]",
            '[identify]\nmethod = "wsl"',
            24,
            "method: unknown 'wsl'; did you mean 'wls'",
        ),
        ('"coulomb"]', '"culomb"]', 25, "did you mean 'coulomb'"),
        ('"urdf"', '"urfd"', 31, "did you mean 'urdf'"),
        (
            'code = ["inverse_dynamics"]',
            'code = ["inverse_dynamic"]',
            32,
            "did you mean 'inverse_dynamics'",
        ),
        ("duration = 4", 'controller = "pd"', 12, "controller: unknown 'pd'"),
    ],
)
def test_mistakes_are_told_with_file_and_line(
    folder: Path, old: str, new: str, line: int, words: str
) -> None:
    edit(folder, old, new)
    with pytest.raises(MinidynError) as caught:
        md.run_study(folder / "study.toml")
    message = str(caught.value)
    assert words in message
    told = int(message.partition("study.toml:")[2].partition(":")[0])
    assert abs(told - line) <= 1, message
    result = run(str(folder / "study.toml"))
    assert result.exit_code == 2
    assert result.stderr.startswith("error: ")


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('"urdf"', '"urfd"', "did you mean 'urdf'"),
        (
            'code = ["inverse_dynamics"]',
            'code = ["inverse_dynamic"]',
            "did you mean 'inverse_dynamics'",
        ),
        ("coulomb = [0.2, 0.1]", "coulomb = [0.2, 0.1, 0.3]", "one for each of 2 joints"),
        ('file = "arm.toml"', 'file = "arms.toml"', "arms.toml"),
    ],
)
def test_steps_that_cannot_be_done_say_why(folder: Path, old: str, new: str, words: str) -> None:
    edit(folder, old, new)
    before = sorted((folder / "study").rglob("*"))
    with pytest.raises(MinidynError, match=r"study\.toml|arms\.toml") as caught:
        md.run_study(folder / "study.toml")
    assert words in str(caught.value)
    assert sorted((folder / "study").rglob("*")) == before


def test_empty_files_and_folders_are_refused(tmp_path: Path) -> None:
    (tmp_path / "empty.toml").write_text("")
    (tmp_path / "idle.toml").write_text('[robot]\nfile = "two_link"\n')
    for name, words in (
        ("empty.toml", "no robot"),
        ("idle.toml", "nothing to do"),
        (".", "a folder"),
        ("x", "x"),
    ):
        with pytest.raises(MinidynError, match=words):
            md.run_study(tmp_path / name)


LOADED = """\
[robot]
file = "ur10e"

[[simulate]]
name = "fit"
duration = 6
noise = 1e-5
torque_noise = 0.05

[[simulate]]
name = "loaded"
duration = 6
noise = 1e-5
torque_noise = 0.05
payload = { mass = 2.0, com = [0.0, 0.0, 0.1] }

[identify]
logs = ["fit"]
friction = []
rotor_inertia = false
consistent = false

[validate]
logs = ["fit"]

[[payload]]
name = "tool"
logs = ["loaded"]

[gains]
logs = ["fit"]
loaded = ["loaded"]
mass = 2.0
friction = []
force = true  # the load does not turn joint 6: its gain stays open

[compare]
methods = ["ols", "wls"]
friction = []
rotor_inertia = false
"""


def test_payloads_and_comparisons_are_steps(tmp_path: Path) -> None:
    (tmp_path / "study.toml").write_text(LOADED)
    result = md.run_study(tmp_path / "study.toml")
    assert [step.name for step in result.steps][2:] == [
        "gains",
        "identify",
        "validate",
        "payload-tool",
        "compare",
    ]
    gains = json.loads((tmp_path / "study" / "gains" / "gains.json").read_text())["gains"]
    found = [one["gain"] for one in gains.values()]
    assert found[:5] == pytest.approx([1.0] * 5, rel=0.05)  # its currents are torques
    assert md.load("ur10e").joint_names[0] in gains
    assert "drive_gain" in (tmp_path / "study" / "gains" / "gains.toml").read_text()
    load = json.loads((tmp_path / "study" / "payload-tool" / "payload.json").read_text())
    assert load["mass"] == pytest.approx(2.0, rel=0.02)
    assert load["mass"] == result["payload-tool"].summary["mass"]
    rows = json.loads((tmp_path / "study" / "compare" / "comparison.json").read_text())
    assert {row["method"] for row in rows} == {"ols", "wls"}
    assert all(row["validation_error"] < 0.02 for row in rows)
    (tmp_path / "study.toml").write_text(LOADED + '[[payload]]\nname = "tool"\nlogs = ["fit"]\n')
    with pytest.raises(MinidynError, match="two steps 'payload-tool'"):
        md.run_study(tmp_path / "study.toml")


def test_a_study_with_units_runs_to_the_end(tmp_path: Path) -> None:
    """Degrees and millinewton metres, said once under [mapping], give the model of radians and
    newton metres.

    The report has no test, and offers one: its command knows the units, too.
    """
    robot = md.load("two_link")
    md.save(robot, tmp_path / "arm.toml")
    law, found = md.control.computed_torque(robot, bandwidth=10.0), []
    runs = [
        md.simulate(robot, law, md.trajectory.fourier(robot, seed=seed), 4.0) for seed in (1, 2)
    ]
    for scale, units in ((1.0, ""), (1e3, '[mapping]\nunits = { q = "deg", tau = "mNm" }\n')):
        for name, log in zip(("fit", "test"), runs):
            q = np.degrees(log.q) if units else log.q
            table, heads = (
                np.column_stack([log.t, q, scale * np.asarray(log.tau)]),
                "time,q1,q2,tau1,tau2",
            )
            np.savetxt(
                tmp_path / f"{name}.csv",
                table,
                delimiter=",",
                header=heads,
                comments="",
                fmt="%.17g",
            )
        logs = "".join(
            f'[[log]]\nname = "{name}"\nfiles = ["{name}.csv"]\n' for name in ("fit", "test")
        )
        steps = '[identify]\nlogs = ["fit"]\nfriction = "own"\n[report]\ncode = false\n'
        (tmp_path / "study.toml").write_text(f'[robot]\nfile = "arm.toml"\n{units}{logs}{steps}')
        result = md.run_study(tmp_path / "study.toml")
        assert set(states(result).values()) == {"done"}
        found.append(md.load_estimate(tmp_path / "study" / "identify" / "estimate.json").beta)
        page = html.unescape((tmp_path / "study" / "report" / "report.html").read_text())
        command = re.search(r"minidyn report (\S+estimate.json) other-log.csv(.*?) --output", page)
        assert command is not None
        asked = ["report", command[1], str(tmp_path / "test.csv"), *command[2].split()]
        assert (
            CliRunner().invoke(main, [*asked, "--output", str(tmp_path / "again.html")]).exit_code
            == 0
        )
    assert command[2].split() == ["--mapping", str(tmp_path / "study.toml")]
    np.testing.assert_allclose(found[1], found[0], rtol=1e-6)


def test_motors_that_two_joints_turn(tmp_path: Path) -> None:
    """A motor-side log: the mapping's coupling couples the drives of the model, too.

    [robot] decides otherwise.
    """
    robot = md.load("two_link").with_drives(
        True, ("viscous",), coupling={"joint2": {"joint1": -0.5}}
    )
    drives = {"Ia": 0.2, "Fv": 2.0}
    robot = robot.with_parameters(
        [drives.get(name[:2], v) for name, v in zip(robot.parameter_names, robot.parameters)]
    )
    t = np.arange(1500) * 0.005
    q, dq, ddq = md.trajectory.fourier(robot, seed=0, speed=3.0)(t)
    tau = md.inverse_dynamics(robot, q, dq, ddq)
    Rq = np.diag([50.0, -40.0]) @ np.array([[1.0, 0.0], [-0.5, 1.0]])
    motors = md.Recording(
        t, q @ Rq.T, np.linalg.solve(Rq.T, tau.T).T, joint_names=robot.joint_names
    )
    motors.save(tmp_path / "motors.csv")
    text = """\
[robot]
file = "two_link"
[mapping]
gear_ratio = [50, -40]
coupling = [[1, 0], [-0.5, 1]]
[[log]]
name = "run"
files = ["motors.csv"]
[identify]
logs = ["run"]
friction = ["viscous"]
[validate]
logs = ["run"]
"""
    (tmp_path / "study.toml").write_text(text)
    found = md.run_study(tmp_path / "study.toml")
    told = {notice["code"]: notice["data"] for notice in found["identify"].summary["notices"]}
    assert told["recording.coupled_drives"] == {"joint": "joint2", "coupling": {"joint1": -0.5}}
    assert found["validate"].summary["relative_error"]["run"] < 0.002
    wrong = text.replace('"two_link"', '"two_link"\ncoupling = { joint1 = { joint2 = 0.5 } }')
    (tmp_path / "study.toml").write_text(wrong)
    assert md.run_study(tmp_path / "study.toml")["validate"].summary["relative_error"]["run"] > 0.01


def test_a_model_that_is_not_tested_is_told(folder: Path) -> None:
    """As the shell does.

    A step [validate] that is added later takes the notice away, with nothing fitted anew.
    """

    def told() -> tuple[str, bool]:
        step = md.run_study(folder / "study.toml", only=["identify"])["identify"]
        return step.state, "job.not_tested" in {
            notice["code"] for notice in step.summary["notices"]
        }

    text = (folder / "study.toml").read_text()
    (folder / "study.toml").write_text(text.partition("[validate]")[0])
    assert told()[1]
    (folder / "study.toml").write_text(text)
    assert told() == ("unchanged", False)


def test_a_log_without_torques_has_no_error_to_tell(folder: Path) -> None:
    log = md.read_recording(folder / "test.csv", md.load(folder / "arm.toml"))
    (folder / "test.csv").unlink()
    md.Recording(log.t, log.q, 0 * np.asarray(log.tau), joint_names=log.joint_names).save(
        folder / "test.csv"
    )
    result = run(str(folder / "study.toml"), "--step", "validate")
    assert result.exit_code == 0, result.output
    assert "error on test: not known" in " ".join(result.output.split())


def test_wrong_signs_of_coupled_drives_are_told(folder: Path) -> None:
    edit(
        folder,
        "[base]",
        '[mapping]\nsign = ["up", "down"]\ncoupling = [[1, 0], [0.5, 1]]\n\n[base]',
    )
    with pytest.raises(MinidynError, match="sign"):
        md.run_study(folder / "study.toml", only=["validate"])


def test_a_starter_file_runs(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    hostile = 'a "b" \\ # ü.csv'
    shutil.copy("test.csv", hostile)
    for name, logs in (("one.toml", [hostile]), ("none.toml", [])):
        words = [part for log in logs for part in ("--log", log)]
        result = run(f"new/{name}", "--init", "--robot", "arm.toml", *words)
        assert result.exit_code == 2, "the folder does not exist"
        Path("new").mkdir(exist_ok=True)
        assert run(f"new/{name}", "--init", "--robot", "arm.toml", *words).exit_code == 0
        again = run(f"new/{name}", "--init", "--robot", "arm.toml", *words)
        assert "exists already" in again.stderr
        done = run(f"new/{name}", "--json")
        assert done.exit_code == 0, done.output
        steps = {step["step"]: step for step in json.loads(done.stdout)["steps"]}
        assert steps["validate"]["summary"]["relative_error"]["test"] < 0.05
        shutil.rmtree("new")
    recording = md.read_recording("test.csv")
    for signal in (
        "q",
        "tau",
    ):  # positions in one file, torques in the other: one run, not one to fit and one to test
        names = ",".join(f"{signal}.{joint}" for joint in recording.joint_names)
        columns = np.column_stack([recording.t, getattr(recording, signal)])
        np.savetxt(f"{signal}.csv", columns, delimiter=",", header=f"t,{names}", comments="")
    assert (
        run(
            "two.toml", "--init", "--robot", "arm.toml", "--log", "q.csv", "--log", "tau.csv"
        ).exit_code
        == 0
    )
    assert Path("two.toml").read_text().count('files = ["q.csv", "tau.csv"]\npart = ') == 2
    told = CliRunner().invoke(
        main, ["-q", "validate", "study/identify/estimate.json", "q.csv", "tau.csv"]
    )
    assert "q.csv + tau.csv" in told.stdout, told.output
    assert run("x.toml", "--init").exit_code == 2
    assert run("x.toml", "--robot", "arm.toml").exit_code == 2


def test_results_print_in_a_line(folder: Path) -> None:
    result = md.run_study(folder / "study.toml", dry=True)
    assert len(repr(result)) < 300
    assert f"identify {result['identify'].state}" in repr(result)
    assert len(repr(result.steps[0])) < 200


def test_a_starter_file_takes_a_test_log_and_a_mapping(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    recording = md.read_recording("test.csv")
    names = ",".join(f"{kind}{k}" for kind in ("q", "current_") for k in (1, 2))
    for name in ("fit", "other"):
        table = np.column_stack([recording.t, recording.q, recording.tau / [2.0, 4.0]])
        np.savetxt(f"{name}.csv", table, delimiter=",", header=f"t,{names}", comments="")
    Path("map.toml").write_text(
        'drive_gain = [2.0, 4.0]\ntau = "current_*"\n\n[units]\ntau = "A"\n'
    )
    words = ("--init", "--robot", "arm.toml", "--log", "fit.csv", "--validate", "other.csv")
    told = run("s.toml", *words, "--mapping", "map.toml")
    assert told.exit_code == 0, told.output
    assert "fit: fit.csv; test: other.csv" in told.stdout
    study = tomllib.loads(Path("s.toml").read_text())
    assert study["mapping"] == {"drive_gain": [2.0, 4.0], "tau": "current_*", "units": {"tau": "A"}}
    assert [(one["name"], one["files"], "part" in one) for one in study["log"]] == [
        ("fit", ["fit.csv"], False),
        ("test", ["other.csv"], False),
    ]
    done = run("s.toml", "--step", "validate", "--json")
    assert done.exit_code == 0, done.output
    (step,) = [step for step in json.loads(done.stdout)["steps"] if step["step"] == "validate"]
    assert step["summary"]["relative_error"]["test"] < 0.05
    assert step["summary"]["data"]["test"] == "fitted data"  # the same samples under another name
    assert run("t.toml", *words[:3], "--validate", "other.csv").exit_code == 2
    assert run("s.toml", "--validate", "other.csv").exit_code == 2
    assert run("t.toml", *words, "--mapping", "gone.toml").exit_code == 2
    assert not Path("t.toml").exists()


@pytest.mark.long
def test_a_hand_with_a_finger_that_follows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The Panda with its hand, from the starter file to the report.

    Drives are those of the joints that have one.
    """
    monkeypatch.chdir(tmp_path)
    assert run("hand.toml", "--init", "--robot", "panda_hand").exit_code == 0
    text = Path("hand.toml").read_text().replace("duration = 10", "duration = 6")
    Path("hand.toml").write_text(text)
    done = run("hand.toml", "--json")
    assert done.exit_code == 0, done.output
    steps = {step["step"]: step for step in json.loads(done.stdout)["steps"]}
    assert steps["validate"]["summary"]["relative_error"]["test"] < 0.05
    assert Path("hand-results/report/report.html").stat().st_size > 100_000
    truth = md.load("hand-results/simulate-fit/truth.toml")
    known = dict(zip(truth.parameter_names, truth.parameters))
    assert known["Fv8"] > 0
    assert known["Fv9"] == 0


def test_a_broken_file_of_several_may_be_left_out(tmp_path: Path) -> None:
    robot = md.load("two_link")
    law = md.control.computed_torque(robot, bandwidth=10.0)
    for seed in (1, 2):
        run = md.simulate(
            robot, law, md.trajectory.fourier(robot, seed=seed), 4.0, torque_noise=0.1
        )
        run.save(tmp_path / f"{seed}.parquet")
    (tmp_path / "3.parquet").write_bytes((tmp_path / "1.parquet").read_bytes()[:-500])
    text = (
        '[robot]\nfile = "two_link"\n[[log]]\nname = "all"\n'
        'files = ["1.parquet", "2.parquet", "3.parquet"]\n'
    )
    text += '[identify]\nlogs = ["all"]\nfriction = []\nlazy = true\n'
    (tmp_path / "stop.toml").write_text(text)
    with pytest.raises(MinidynError, match=r"3\.parquet"):
        md.run_study(tmp_path / "stop.toml")
    (tmp_path / "skip.toml").write_text(text + 'on_error = "skip"\n')
    assert md.run_study(tmp_path / "skip.toml")["identify"].state == "done"
    estimate = md.load_estimate(tmp_path / "skip" / "identify" / "estimate.json")
    assert [n.data["files"] for n in estimate.notices if n.code == "recording.left_out"]
