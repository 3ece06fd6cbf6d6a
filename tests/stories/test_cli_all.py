"""Every verb keeps the same promises.

Help with an example that parses, JSON, one-line errors, exit codes.
"""

from __future__ import annotations

import json
import os
import pty
import re
import shlex
import subprocess
import sys
from importlib import import_module
from inspect import signature
from pathlib import Path
from typing import Any

import click
import numpy as np
import pytest
from click.testing import CliRunner, Result

import minidyn as md
from conftest import OWN
from minidyn.app.cli.main import VERBS as LISTED
from minidyn.app.cli.main import Exit, main
from minidyn.app.cli.options import constant, default_of
from minidyn.app.cli.text import print_notices, print_table
from minidyn.base.rows import MODELS
from minidyn.codegen.files import TARGETS, function_for
from minidyn.dynamics.record import WHAT
from minidyn.identification.estimators.methods import METHODS
from minidyn.notices import LEVELS, Notice
from minidyn.simulation.named_laws import LAWS, simulated
from minidyn.simulation.plants import PLANTS

VERBS = sorted(main.list_commands(None))
every_verb = pytest.mark.parametrize("verb", VERBS)

# what a verb needs besides --json to do something quick; {folder} holds the files that `files`
# writes
QUICK = {
    "robots": "",
    "cache": "",
    "show": "two_link",
    "base": "two_link",
    "explain": "two_link YY2",
    "equivalence": "two_link {folder}/set.txt",
    "formulas": "two_link inertia_matrix",
    "count": "two_link inertia_matrix",
    "generate": "two_link inertia_matrix --output {folder}/code",
    "excite": "two_link --duration 3 --time-limit 1 --output {folder}/motion",
    "plan": "two_link",
    "rehearse": "two_link --draws 1 --duration 4 --output {folder}/rehearsal.html",
    "simulate": "two_link --duration 0.2 --output {folder}/new.npz",
    "convert": "{folder}/log.npz --output {folder}/data",
    "check": "{folder}/robot.toml {folder}/log.npz --output {folder}/check.html",
    "settings": "",
    "identify": "{folder}/robot.toml {folder}/log.npz --output {folder}/identified",
    "validate": "{folder}/estimate.json {folder}/log.npz",
    "compare": "{folder}/robot.toml {folder}/log.npz --validate {folder}/other.npz --methods ols",
    "compare-estimates": "{folder}/estimate.json {folder}/estimate.json --output {folder}/comparison.html",  # noqa: E501
    "payload": "{folder}/estimate.json {folder}/other.npz",
    "gains": (
        "{folder}/robot.toml {folder}/log.npz {folder}/loaded.npz --mass 3 --output "
        "{folder}/gains.toml"
    ),
    "fleet": (
        "{folder}/robot.toml {folder}/log.npz {folder}/other.npz --friction own --output "
        "{folder}/fleet"
    ),
    "report": "{folder}/estimate.json {folder}/other.npz --output {folder}/report.html",
    "watch": "{folder}/estimate.json {folder}/other.npz --output {folder}/observer.c",
    "actuators": "{folder}/robot.toml {folder}/servo.npz --kd 3 --output {folder}/servo.toml",
    "tool": "{folder}/robot.toml {folder}/wrench.npz --output {folder}/compensate.c",
    "export": (
        "{folder}/estimate.json --to pinocchio --validate {folder}/other.npz --output "
        "{folder}/exported"
    ),
    "run": "{folder}/study.toml --init --robot two_link",
    "completion": "zsh",
    "example": "ur10 --output {folder}/ur10",
}
SLOW = {"casestudy", "demo", "studio"}  # their own stories check their JSON

# a wrong robot, file or word in place of each verb's first argument
WRONG = {
    "casestudy": "no-such-study",
    "check": "no_such_robot log.csv",
    "compare": "no_such_robot log.csv --validate other.csv",
    "compare-estimates": "no_such_estimate.json other.json",
    "excite": "no_such_robot --duration 3",
    "formulas": "no_such_robot inertia_matrix",
    "fleet": "no_such_robot data",
    "gains": "no_such_robot log.csv loaded.csv --mass 3",
    "generate": "no_such_robot inertia_matrix",
    "identify": "no_such_robot log.csv",
    "validate": "no_such_estimate.json log.csv",
    "watch": "no_such_estimate.json log.csv",
    "tool": "no_such_robot log.csv",
    "actuators": "no_such_robot log.csv",
    "studio": "no_such_robot log.csv",
}
WITHOUT_INPUT = {"robots", "settings", "cache", "completion", "demo", "example"}


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, list(arguments))


def command(verb: str) -> click.Command:
    """Return a verb, imported."""
    found = main.get_command(None, verb)
    assert found is not None, verb
    return found


def examples(command: click.Command) -> list[str]:
    """Return the command lines that a verb's help shows, without redirections."""
    text = " ".join(command.help.split()) if command.help else ""
    return [
        found.split(" > ")[0].strip()
        for found in re.findall(r"Example: (minidyn .*?)(?= Example: | Exit |$)", text)
    ]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a robot, a log of it and an estimate."""
    made = tmp_path_factory.mktemp("cli")
    robot = md.load("two_link")
    md.save(robot, made / "robot.toml")
    (made / "set.txt").write_text("\n".join(map(str, md.base_parameters(robot).relations())))
    law = md.control.computed_torque(robot, bandwidth=10.0, period=1e-3)
    for seed, name in ((1, "log"), (2, "other")):
        md.simulate(
            robot, law, md.trajectory.fourier(robot, seed=seed), 3.0, torque_noise=0.01, seed=seed
        ).save(made / f"{name}.npz")
    load = md.Payload(0.0, {"mass": 3.0, "com": [0.1, 0.0, 0.0], "inertia": np.zeros((3, 3))})
    path = md.trajectory.fourier(robot, seed=3)
    md.simulate(robot, law, path, 3.0, torque_noise=0.01, payload=load).save(made / "loaded.npz")
    recording = md.read_recording(made / "log.npz", robot)
    servo = md.Controller(
        "PD", robot, torque=lambda _, q, dq, goal: (60.0 * (goal[0] - q) - 3.0 * dq, {})
    )
    held = md.simulate(robot, servo, md.trajectory.fourier(robot, seed=4), 1.0, noise=1e-4).thinned(
        5
    )
    commands = {"q_d": held.telemetry["q_d"]}
    md.Recording(held.t, held.q, None, joint_names=held.joint_names, telemetry=commands).save(
        made / "servo.npz"
    )
    felt = np.random.default_rng(0).normal(size=(len(recording), 6)) + 5.0 * np.sin(
        recording.q[:, :1]
    )
    md.Recording(recording.t, recording.q, None, telemetry={"wrench": felt}).save(
        made / "wrench.npz"
    )
    md.identify(robot, recording, consistent=False, **OWN).save(made / "estimate.json")
    return made


def test_the_list_of_verbs_is_whole() -> None:
    assert [name for verbs in LISTED.values() for name in verbs] == main.list_commands(None)
    assert all(command(verb).name == verb for verb in VERBS)
    assert {
        "robots",
        "show",
        "base",
        "count",
        "generate",
        "plan",
        "simulate",
        "casestudy",
        "identify",
    } <= set(VERBS)
    text = run("--help").output
    assert all(re.search(rf"^  {verb} ", text, re.MULTILINE) for verb in VERBS)


@every_verb
def test_help_has_an_example_that_parses(verb: str) -> None:
    result = run(verb, "--help")
    assert result.exit_code == 0
    shown = examples(command(verb))
    assert shown, f"{verb}: no line 'Example: minidyn {verb} ...' in its help"
    for line in shown:
        words = shlex.split(line)
        assert words[:2] == ["minidyn", verb], line
        command(verb).make_context(verb, words[2:])  # raises where an option does not exist


@every_verb
def test_options_have_a_help_text(verb: str) -> None:
    for option in command(verb).params:
        if isinstance(option, click.Option):
            choices = isinstance(option.type, click.Choice)
            assert option.help or choices, f"{verb} {option.opts[0]}"
            assert all(name.islower() and "_" not in name for name in option.opts), option.opts


def not_json(word: str) -> None:
    raise AssertionError(f"{word} is no JSON; unknown numbers are null")


@every_verb
def test_json_is_json(verb: str, folder: Path) -> None:
    assert any("--json" in option.opts for option in command(verb).params), f"{verb} has no --json"
    if verb in SLOW:
        pytest.skip(f"{verb} has a story of its own")
    assert verb in QUICK, f"tell {__name__}.QUICK what {verb} needs to do something quick"
    result = run(verb, *shlex.split(QUICK[verb].format(folder=folder)), "--json")
    assert result.exit_code == 0, result.output
    content = json.loads(result.stdout, parse_constant=not_json)
    assert content is not None
    for notice in notices_in(content):
        assert set(notice) == {"code", "level", "text", "advice", "data"}
        assert notice["level"] in LEVELS


def notices_in(content: Any) -> list[dict[str, Any]]:
    """Return every notice in what a verb prints as JSON."""
    if isinstance(content, list):
        return [notice for part in content for notice in notices_in(part)]
    if not isinstance(content, dict):
        return []
    found = [
        notice for key, value in content.items() if key.endswith("notices") for notice in value
    ]
    return found + [notice for value in content.values() for notice in notices_in(value)]


def test_notices_are_printed_most_serious_first_with_what_to_do(
    capsys: pytest.CaptureFixture[str],
) -> None:
    made = [
        Notice("a.b", "info", "a fact"),
        Notice.from_json("an old text"),
        Notice("c.d", "error", "joint\n1 rests", "Move it."),
        Notice("c.d", "error", "joint 2 rests", "Move it."),
    ]
    print_notices(made, of="fit")
    assert capsys.readouterr().out.splitlines() == [
        "error: fit: joint\\n1 rests",
        "error: fit: joint 2 rests",
        "      Move it.",
        "warning: fit: an old text",
        "info: fit: a fact",
    ]


def test_names_in_a_table_are_not_broken(capsys: pytest.CaptureFixture[str]) -> None:
    numbers = [str(10**12 + k) for k in range(8)]
    print_table(
        "title", ["joint", *"abcdefgh"], [["shoulder_lift_joint", *numbers]], right=range(1, 9)
    )
    assert "shoulder_lift_joint" in capsys.readouterr().out


@pytest.mark.parametrize("verb", ["identify", "compare", "simulate", "base", "generate"])
def test_defaults_are_those_of_the_library(verb: str) -> None:
    """A verb passes on what was given alone.

    The options that are keywords of a library function have no default.
    """
    library = {
        "identify": [md.identify],
        "compare": [md.compare],
        "simulate": [md.simulate, simulated],
        "base": [md.base_parameters],
        "generate": [function_for],
    }
    words = ["robot", "log"] if verb in ("identify", "compare", "generate") else ["robot"]
    passed = command(verb).make_context(verb, words).params
    for option in command(verb).params:
        for function in library[verb]:
            parameter = signature(function).parameters.get(str(option.name))
            if isinstance(option, click.Option) and parameter is not None and not option.multiple:
                assert passed[str(option.name)] is None, option.name
                if parameter.default not in (None, (), parameter.empty) and not isinstance(
                    parameter.default, bool
                ):
                    assert option.show_default == str(parameter.default)


@pytest.mark.parametrize("verb", [verb for verb in VERBS if verb not in WITHOUT_INPUT])
def test_wrong_input_is_one_line_and_exit_code_two(
    verb: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    words = shlex.split(WRONG.get(verb, ""))
    if not words:
        needed = [option for option in command(verb).params if isinstance(option, click.Argument)]
        words = ["no_such_thing" for option in needed if option.required] or ["no_such_thing"]
    result = run("-q", verb, *words)
    assert result.exit_code == 2, result.output
    assert isinstance(result.exception, SystemExit)
    assert result.stdout == ""
    assert result.stderr.startswith("error: ")
    assert len(result.stderr.splitlines()) == 1, result.stderr
    assert list(tmp_path.iterdir()) == []


@every_verb
def test_wrong_option_is_exit_code_two(verb: str) -> None:
    result = run(verb, "--no-such-option")
    assert result.exit_code == 2
    assert "no-such-option" in result.stderr
    assert "Traceback" not in result.stderr


def test_unknown_verbs_are_answered_with_near_ones() -> None:
    result = run("identfy")
    assert result.exit_code == 2
    assert "did you mean 'identify'?" in result.stderr
    assert "known: robots" in run("xyzzy").stderr


def test_unexpected_errors_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(**_: object) -> None:
        raise ZeroDivisionError("two\nlines")

    monkeypatch.setattr(command("robots"), "callback", fail)
    result = run("robots")
    assert result.exit_code == 1
    told = re.fullmatch(
        r"error: unexpected ZeroDivisionError: two lines "
        r"\(a fault of minidyn; reference ([0-9a-f]{8}), details in (.*)\)\n",
        result.stderr,
    )
    assert told
    assert told[1] in told[2]
    assert "in fail" in Path(told[2]).read_text()
    Path(told[2]).unlink()
    monkeypatch.setenv("MINIDYN_DEBUG", "1")
    assert isinstance(run("robots").exception, ZeroDivisionError)


def test_interrupting_is_exit_code_130(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(**_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(command("robots"), "callback", interrupt)
    result = run("robots")
    assert result.exit_code == 130
    assert "interrupted" in result.stderr


def test_exit_codes_stand_in_one_table_that_help_and_documentation_show() -> None:
    assert {code.name: int(code) for code in Exit} == {
        "DONE": 0,
        "UNEXPECTED": 1,
        "WRONG_INPUT": 2,
        "RULE_NOT_MET": 3,
        "SKIPPED": 4,
        "INTERRUPTED": 130,
    }
    page = (Path(__file__).parents[2] / "docs" / "command-line.md").read_text(encoding="utf-8")
    shown = " ".join(run("--help").output.partition("Exit codes:")[2].split())
    for code in Exit:
        assert f"| {code.value} | {code.meaning} |" in page
        assert f"{code.value} {code.meaning}" in shown
    # 1, 2 and 130 are reached by the tests around this one, 3 in test_verdict_everywhere.py, 4 in
    # test_executors.py
    assert run("robots").exit_code == Exit.DONE
    assert run("show", "no_such_robot").exit_code == Exit.WRONG_INPUT


def test_files_that_cannot_be_written_are_exit_code_two(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    result = run(
        "simulate", "two_link", "--duration", "0.01", "--output", str(tmp_path / "file" / "run.npz")
    )
    assert result.exit_code == 2
    assert len([line for line in result.stderr.splitlines() if line.startswith("error: ")]) == 1


@pytest.mark.parametrize(
    "words",
    [
        "show",
        "base",
        "count {robot} inertia_matrix",
        "generate {robot} gravity_torque",
        "simulate {robot} --duration 0.1",
    ],
)
def test_robots_that_are_not_built_in(
    words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    md.save(md.load("ur10"), tmp_path / "mine.urdf")
    line = words if "{robot}" in words else words + " {robot}"
    result = run(*shlex.split(line.format(robot="mine.urdf")), "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout, parse_constant=not_json)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts(shell: str) -> None:
    script = run("completion", shell).output
    assert f"_MINIDYN_COMPLETE={shell}_complete" in script
    words = {"COMP_WORDS": "minidyn base p", "COMP_CWORD": "2" if shell != "fish" else "p"}
    answer = CliRunner().invoke(
        main, [], env={"_MINIDYN_COMPLETE": f"{shell}_complete", **words}, prog_name="minidyn"
    )
    assert "puma560" in answer.output
    assert "ur10e" not in answer.output


def test_help_is_quick_and_loads_no_heavy_library() -> None:
    code = (
        "import sys; from minidyn.app.cli.main import main; main(['--help'], "
        "standalone_mode=False);"
        "print([m for m in ('numpy', 'scipy', 'rich', 'mujoco') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.endswith("\n[]\n")
    assert "identify" in done.stdout


def on_terminal(*arguments: str, **environment: str) -> str:
    """Return what a verb writes where stdout and stderr are a terminal."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "minidyn", *arguments],
        stdout=theirs,
        stderr=theirs,
        env={key: value for key, value in os.environ.items() if key != "NO_COLOR"}
        | {"TERM": "xterm-256color"}
        | environment,
    )
    os.close(theirs)
    text = b""
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError:  # the other end is closed
            break
        if not part:
            break
        text += part
    os.close(ours)
    assert process.wait() == 0
    return text.decode()


def test_colours_and_bars_only_on_terminals(tmp_path: Path) -> None:
    words = ("simulate", "two_link", "--duration", "0.05", "--output", str(tmp_path / "run.npz"))
    colour = re.compile(r"\x1b\[[0-9;]*3[0-9](;[0-9;]*)?m")
    shown = on_terminal(*words)
    assert colour.search(shown)
    assert "\x1b[?25l" in shown, "no moving bar on a terminal"
    assert not colour.search(on_terminal(*words, NO_COLOR="1"))
    elsewhere = run(*words)
    assert "\x1b" not in elsewhere.output
    assert "simulating" in elsewhere.stderr
    assert run("-q", *words).stderr == ""


def test_help_reads_the_library_without_importing_it() -> None:
    """Defaults and words that options show are those of the functions and tables they name."""
    seen = []
    for module, names in {
        "identification.identify:identify": ("threads", "on_error"),
        "identification.settings:Settings": (
            "method",
            "friction",
            "rotor_inertia",
            "consistent",
            "prior",
        ),
        "base.base_parameters:base_parameters": ("method", "model", "seed"),
        "simulation.named_laws:simulated": ("controller", "duration", "dt", "seed"),
        "simulation.named_laws:named_law": ("bandwidth", "gain", "adaptation", "model_error"),
        "simulation.simulate:simulate": ("noise", "torque_noise", "delay", "plant"),
        "codegen.files:function_for": ("parameters",),
    }.items():
        place, _, name = module.partition(":")
        function = getattr(import_module(f"minidyn.{place}"), name)
        for keyword in names:
            assert default_of(module, keyword) == signature(function).parameters[keyword].default
            seen.append(keyword)
    assert len(seen) == 23
    assert list(constant("identification.estimators.method", "DESCRIPTIONS")) == list(METHODS)
    assert list(constant("dynamics.record", "WHAT")) == list(WHAT)
    assert constant("base.rows", "MODELS") == {
        name: model.description for name, model in MODELS.items()
    }
    assert ("c", *constant("dynamics.sources", "PRINTERS"), "llvm") == TARGETS
    assert (constant("simulation.named_laws", "LAWS"), constant("simulation.plants", "PLANTS")) == (
        LAWS,
        PLANTS,
    )


@every_verb
def test_help_answers_at_once(verb: str) -> None:
    """Neither help nor completion waits for NumPy, rich or the library."""
    code = f"""
import sys
from minidyn.app.cli.main import main
main([{verb!r}, "--help"], standalone_mode=False)
print([name for name in ("numpy", "rich", "minidyn.model.robot") if name in sys.modules])
"""
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stdout.splitlines()[-1] == "[]"
