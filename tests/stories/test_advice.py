"""What minidyn advises can be done.

Every command, option and keyword in an advice is taken out and tried.
"""

from __future__ import annotations

import html
import importlib.util
import inspect
import json
import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType

import click
import numpy as np
import pytest
from click.testing import CliRunner

import minidyn as md
from minidyn.app.cli.main import main
from minidyn.recording.read.mapping import OPTIONS

ROOT = Path(__file__).parents[2]
ROBOT = md.load("two_link").with_drives(
    rotor_inertia=True, friction=("viscous", "coulomb", "offset")
)
TRUTH = ROBOT.with_parameters(np.where(np.isnan(ROBOT.parameters), 0.3, ROBOT.parameters))

_OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]+")
_KEYWORD = re.compile(r"\b([a-z_]+)=")
_QUOTED = re.compile(r"`([^`]+)`")
_PYTHON_ONLY = {"source"}  # of an export, which the shell writes beside the robot's own file
_TRIED = {  # a value for each option that advice may name
    "--cutoff": "20",
    "--delay": "0.001",
    "--units": "q=rad,tau=Nm",
    "--rate": "200",
    "--time": "even",
    "--time-unit": "s",
    "--topic": "/joint_states",
    "--together": "",
    "--friction": "auto",
    "--friction-per": "log",
    "--consistent": "",
    "--hold-out": "0.3",
    "--validate": "other.csv",
    "--mapping": "map.toml",
    "--method": "wls",
    "--dt": "0.001",
    "--limits": "limits.toml",
    "--use-ddq": "",
    "--currents-as-torque": "",
    "--prior": "none",
    "--lock": "joint2=0.1",
    "--no-floor": "",
    "--gravity": "0,0,9.81",
    "--mount": "0,0,0.3",
    "--forbid-term": "gravity_direction",
    "--free-base": "",
    "--speed-noise": "0.01",
}


def notices_page() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_notices", ROOT / "docs" / "make_notices.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


KINDS = notices_page().kinds()


def options_of(verb: str) -> Mapping[str, click.Parameter]:
    command = main.get_command(None, verb)  # type: ignore[arg-type]
    assert command is not None, verb
    return {word: one for one in command.params for word in (*one.opts, *one.secondary_opts)}


EVERY_OPTION = {word for verb in main.list_commands(None) for word in options_of(verb)} | {
    "--quiet",
    "--help",
}  # type: ignore[arg-type]
EVERY_OPTION |= {"--from"}  # of uvx


def motion(seed: int = 0, late: float = 0.0) -> md.Recording:
    t = np.arange(2000) * 0.005
    states = [
        md.trajectory.fourier(TRUTH, seed=seed, speed=3.0)(t - shift) for shift in (0.0, late)
    ]
    (q, dq, _), past = states
    tau = md.inverse_dynamics(TRUTH, *past) + 0.05 * np.random.default_rng(seed).normal(
        size=q.shape
    )
    return md.Recording(t, q, tau, dq, joint_names=TRUTH.joint_names)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    motion().save("run.csv")
    motion(seed=1).save("other.csv")
    Path("map.toml").write_text('units = "rad"\n')
    return tmp_path


def run(*words: object) -> str:
    result = CliRunner().invoke(main, ["-q", *map(str, words)])
    assert result.exit_code == 0, f"{words}\n{result.output}{result.stderr}"
    return str(result.stdout)


_READING = ("identify", "validate", "report", "check", "compare", "payload")
_DOORS = {  # the verbs that print notices of a stage; the others: identify alone
    "recording": _READING,
    "prepare": _READING,
    "identify": ("identify", "check"),
    "friction": ("identify", "check"),
    "signals": ("identify", "check"),
    "check": ("check", "identify"),
    "validate": ("validate", "report", "identify", "check"),
}


def doors_of(code: str) -> tuple[str, ...]:
    """Return the verbs that print a notice."""
    stage = code.split(".")[0]
    alone = ("simulate", "plan", "base", "payload", "excite", "watch")
    return (stage,) if stage in alone else _DOORS.get(stage, ("identify",))


def test_options_in_advice_are_options_of_every_verb_that_gives_it() -> None:
    """Or the advice names the verb that has them, in the same sentence."""
    found = [
        (kind, sentence) for kind in KINDS for sentence in re.split(r"(?<=[.:;]) ", kind.advice)
    ]
    tried = 0
    for kind, sentence in found:
        for word in _OPTION.findall(sentence):
            named = re.search(r"\bidentify\b", sentence.partition(word)[0], re.IGNORECASE)
            for verb in ("identify",) if named else doors_of(kind.code):
                assert word in options_of(verb), f"{verb}, {kind.code}: {kind.advice}"
            assert word in _TRIED, f"{word} is not tried below"
            tried += 1
    assert tried > 10


def test_keywords_in_advice_exist_in_python_and_in_the_shell() -> None:
    doors = (
        md.load,
        md.read_recording,
        md.prepare,
        md.identify,
        md.base_parameters,
        md.Estimate.export,
        md.Robot.with_drives,
        md.excite,
        md.control.momentum_observer,
    )
    known = {name for door in doors for name in inspect.signature(door).parameters} | {*OPTIONS}
    found = [(kind, word) for kind in KINDS for word in _KEYWORD.findall(kind.advice)]
    assert len(found) > 8
    for kind, word in found:
        assert word in known, f"{kind.code}: {kind.advice}"
        if word in _PYTHON_ONLY or f"with_drives({word}" in kind.advice:
            continue
        one_at_a_time = {"limits": "limit", "forbid_terms": "forbid-term"}
        option = "--" + one_at_a_time.get(word, word).replace("_", "-")
        assert option in options_of(doors_of(kind.code)[0]) or word in OPTIONS, (
            f"{kind.code}: {kind.advice}"
        )


def test_options_that_docs_and_messages_name_exist() -> None:
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    named = set()
    for page in pages:
        text = page.read_text(encoding="utf-8")
        spans = re.findall(r"`((?:minidyn|--)[^`\n]*)`", text) + re.findall(
            r"^    minidyn .*$", text, re.MULTILINE
        )
        named |= {(page.name, word) for span in spans for word in _OPTION.findall(span)}
    assert len(named) > 20
    assert sorted(pair for pair in named if pair[1] not in EVERY_OPTION) == []
    sources = sorted((ROOT / "src" / "minidyn").rglob("*.py"))
    told = {
        (path.name, word)
        for path in sources
        for word in re.findall(r"[\s(\"]--[a-z][a-z-]+", path.read_text())
    }
    assert (
        sorted((name, word) for name, word in told if word.strip(' ("') not in EVERY_OPTION) == []
    )


def test_messages_that_pages_explain_are_messages_of_the_tool() -> None:
    """Tables of messages quote them.

    What stands between the dots, names and numbers is in the source.
    """
    said = "".join(
        path.read_text(encoding="utf-8")
        for path in sorted((ROOT / "src" / "minidyn").rglob("*.py"))
    )
    said = re.sub(r'"\s*\n\s*f?"', "", said)  # sentences over several lines
    said += "unknown robot; ms late"  # put together
    tried = 0
    for page in ("troubleshooting.md", "identification.md"):
        lines = (ROOT / "docs" / page).read_text(encoding="utf-8").splitlines()
        for quoted in (
            text for line in lines if line.startswith("| `") for text in _QUOTED.findall(line)
        ):
            if quoted.startswith(("pip ", "minidyn ", "--")) or "=" in quoted:
                continue  # what to do
            parts = [part.strip(" ;:") for part in re.split(r"\.\.\.|'[^']*'|\d+", quoted)]
            for part in (part for part in parts if " " in part):
                assert part in said, f"{page}: {quoted}"
                tried += 1
    assert tried > 25


@pytest.mark.usefixtures("folder")
def test_every_option_of_an_advice_runs() -> None:
    # of other verbs
    others = ("--dt", "--limits", "--lock", "--no-floor", "--free-base", "--speed-noise")
    words = [part for name, value in _TRIED.items() if name not in others for part in (name, value)]
    words = [word for word in words if word]
    found = json.loads(run("identify", "two_link", "run.csv", *words, "--output", "out", "--json"))
    assert found["reading"]["cutoff"] == 20.0
    assert found["record"]["preparation"]["cutoff"] == 20.0
    assert json.loads(run("show", "two_link", "--lock", _TRIED["--lock"], "--json"))["n"] == 1
    assert json.loads(run("show", "two_link", "--free-base", "--json"))["n"] == 8
    run("simulate", "two_link", "--duration", "0.2", "--dt", _TRIED["--dt"], "--output", "sim.npz")
    Path("limits.toml").write_text("velocity = 1.0\nacceleration = 2.0\n")
    limits = ("--limits", _TRIED["--limits"], "--no-floor")
    run("excite", "two_link", "--duration", "4", *limits, "--output", "go")
    run(
        "validate",
        "out/estimate.json",
        "other.csv",
        "--cutoff",
        "15",
        "--delay",
        "0.001",
        "--units",
        "rad",
    )
    run("report", "out/estimate.json", "other.csv", "--cutoff", "15", "--delay", "0.001")
    run("payload", "out/estimate.json", "other.csv", "--cutoff", "15")
    run(
        "compare",
        "two_link",
        "run.csv",
        "--validate",
        "other.csv",
        "--methods",
        "ols",
        "--delay",
        "0.001",
    )
    run("compare", "two_link", "run.csv", "--hold-out", "0.3", "--methods", "ols")


@pytest.mark.usefixtures("folder")
def test_commands_in_advice_run() -> None:
    md.save(TRUTH, "robot.urdf")
    found = [command for kind in KINDS for command in re.findall(r"`(minidyn [^`]+)`", kind.advice)]
    assert found
    for command in dict.fromkeys(found):
        places = {"ROBOT": "robot.urdf", "LOG": "run.csv"}
        words = [places.get(word, word) for word in shlex.split(command)[1:]]
        run(*words, *(["robot.urdf"] if len(words) == 1 else []))


@pytest.mark.usefixtures("folder")
def test_advice_on_fitted_data_is_the_same_at_every_door_and_can_be_followed() -> None:
    run("identify", "two_link", "run.csv", "--output", "out")
    told = set()
    for words in (
        ("validate", "out/estimate.json", "run.csv"),
        ("report", "out/estimate.json", "run.csv"),
        ("check", "two_link", "run.csv", "--fit", "out/estimate.json"),
        ("identify", "two_link", "run.csv", "--validate", "run.csv", "--output", "again"),
    ):
        (advice,) = re.findall(r"fitted data: all.*\n +(Test it on .*)", run(*words))
        told.add(advice)
    (advice,) = told
    (command,) = re.findall(r"`minidyn ([^`]+)`", advice)
    places = {"ROBOT": "two_link", "LOG": "run.csv"}
    shown = run(*(places.get(word, word) for word in command.split()), "--output", "followed")
    assert "held out (test data)" in shown
    assert "fitted data: all" not in shown


@pytest.mark.usefixtures("folder")
def test_commands_in_a_report_run() -> None:
    """Of a model without test data, of a good one, and of one without friction that is not
    consistent.
    """
    log, other = md.read_recording("run.csv", ROBOT), md.read_recording("other.csv", ROBOT)
    shown: dict[str, None] = {}
    bare = {"friction": (), "rotor_inertia": False, "consistent": False}
    for number, (options, tests) in enumerate(
        [({}, {}), ({}, {"other": other}), (bare, {"other": other})]
    ):
        estimate = md.identify("two_link", log, **options)
        folder = Path(f"out{number}")
        folder.mkdir()
        estimate.save(folder / "estimate.json")
        md.save(estimate.robot, folder / "robot.toml")
        page = md.report(folder / "estimate.json", tests, folder / "report.html", fit=log)
        text = page.read_text(encoding="utf-8")
        commands = re.findall(r'class="command"><code>(minidyn [^<]+)<', text)
        assert commands
        shown |= {
            html.unescape(command).replace("FOLDER", str(folder)): None for command in commands
        }
    assert len(shown) >= 3
    for command in shown:
        for word, name in (
            ("ROBOT", "two_link"),
            ("LOG", "run.csv"),
            ("other-log.csv", "other.csv"),
        ):
            command = command.replace(word, name)
        words = [
            f"out0/{word}" if word == "estimate.json" else word for word in shlex.split(command)
        ]
        run(*words[1:])


@pytest.mark.usefixtures("folder")
def test_commands_in_a_report_read_logs_as_they_were_read() -> None:
    """Currents in milliamperes and positions in degrees.

    What a command reads is read in the same way.
    """
    for name, log in (("run", motion()), ("other", motion(seed=1))):
        table = np.column_stack([log.t, np.degrees(log.q), 1e3 * log.tau / [2.0, 4.0]])
        np.savetxt(
            f"{name}.csv", table, delimiter=",", header="t,q1,q2,current_1,current_2", comments=""
        )
    Path("gains.toml").write_text("drive_gain = [2.0, 4.0]\n")
    reading = ("--mapping", "gains.toml", "--units", "q=deg,tau=mA", "--no-lazy", "--cutoff", "20")
    run("identify", "two_link", "run.csv", *reading, "--no-consistent", "--output", "out")
    run("report", "out/estimate.json", "run.csv", *reading, "--output", "again.html")
    for page in ("out/report.html", "again.html"):
        text = Path(page).read_text(encoding="utf-8")
        commands = [
            html.unescape(one)
            for one in re.findall(r'class="command"><code>(minidyn [^<]+)<', text)
        ]
        assert any(command.startswith("minidyn report") for command in commands)
        for command in commands:
            run(
                *shlex.split(
                    command.replace("other-log.csv", "other.csv").replace("LOG", "run.csv")
                )[1:]
            )


# --------------------------------------------------------------------- the options do what they say


@pytest.mark.usefixtures("folder")
def test_cutoff_and_delay_of_the_shell_are_those_of_prepare() -> None:
    motion(late=0.015).save("late.csv")
    shell = json.loads(
        run("identify", "two_link", "late.csv", "--validate", "other.csv", "--delay", "0.015", "--json")  # noqa: E501
    )  # fmt: skip
    log = md.read_recording("late.csv", "two_link")
    estimate = md.identify("two_link", md.prepare("two_link", log, delay=0.015))
    assert shell["parameters"][estimate.names[0]]["value"] == pytest.approx(
        estimate.beta[0], rel=1e-12
    )
    python = md.validate(estimate, md.read_recording("other.csv", "two_link"))
    assert shell["errors"]["other.csv"]["samples"] == python.samples  # one cut-off, that of the fit
    plain = json.loads(run("identify", "two_link", "late.csv", "--json"))
    told = [notice for notice in plain["notices"] if notice["code"] == "identify.torque_delay"]
    assert told[0]["data"]["delay"] == pytest.approx(0.015, abs=1e-3)
    assert "--delay 0.015" in told[0]["advice"]
    assert not [
        notice
        for notice in shell["notices"]
        if "delay" in notice["code"] and notice["level"] != "info"
    ]


@pytest.mark.usefixtures("folder")
def test_units_of_the_shell() -> None:
    log = motion()
    turned = md.Recording(log.t, np.degrees(log.q), 1e3 * log.tau, joint_names=log.joint_names)
    turned.save("degrees.csv")
    clean = md.Recording(log.t, log.q, log.tau, joint_names=log.joint_names)
    clean.save("clean.csv")
    found = json.loads(
        run("identify", "two_link", "degrees.csv", "--units", "q=deg,tau=mNm", "--json")
    )
    wanted = json.loads(run("identify", "two_link", "clean.csv", "--json"))
    for name, entry in wanted["parameters"].items():
        assert found["parameters"][name]["value"] == pytest.approx(
            entry["value"], rel=1e-6, abs=1e-9
        )
    wrong = CliRunner().invoke(main, ["identify", "two_link", "degrees.csv", "--units", "q=degg"])
    assert wrong.exit_code == 2
    assert "deg" in wrong.stderr


@pytest.mark.usefixtures("folder")
def test_a_delay_takes_a_large_log_into_memory() -> None:
    found = json.loads(
        run(
            "identify",
            "two_link",
            "run.csv",
            "--lazy",
            "--delay",
            "0.001",
            "--cutoff",
            "20",
            "--json",
        )
    )
    assert found["record"]["preparation"]["delay"] == 0.001
