"""`minidyn run`, `minidyn report` and `minidyn completion`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import get_completion_class

from minidyn.app.cli.identify import read_logs
from minidyn.app.cli.options import (
    Files,
    RobotSource,
    estimate_argument,
    json_option,
    log_options,
    output_option,
    require_option,
    robot_option,
)
from minidyn.app.cli.text import (
    finish,
    print_json,
    print_notices,
    print_table,
    print_verdict,
    progress,
    safe,
    told,
)
from minidyn.notices import Notice
from minidyn.text import plain

if TYPE_CHECKING:
    from minidyn.app.study.run import StepResult
    from minidyn.control.momentum_observer import Observer
    from minidyn.identification.estimate import Estimate


@click.command()
@estimate_argument
@click.argument("logs", nargs=-1, type=click.Path())
@output_option("report.html", "HTML file to write.")
@click.option(
    "--fit", multiple=True, type=click.Path(), help="A log the estimate was fitted to; repeat."
)
@click.option("--title", help="Heading. Default: the robot's name.")
@click.option(
    "--contacts",
    is_flag=True,
    help="Also the least forces that a momentum observer finds, link by link.",
)
@log_options
@require_option
@json_option
def report(
    estimate: str,
    logs: Files,
    output: str,
    fit: Files,
    title: str | None,
    contacts: bool,
    require: str | None,
    as_json: bool,
    **reading: Any,
) -> None:
    """Write a report on a saved ESTIMATE (estimate.json).

    One HTML file, tested on LOGS it was not fitted to. Example: minidyn report out/estimate.json
    other.db3 --fit run.db3 --output report.html
    """
    from minidyn.app.job import FIT, Job, fitted_data
    from minidyn.app.report.facts import Facts, places_of
    from minidyn.app.report.report import check_page, write_page
    from minidyn.identification.estimate import load_estimate

    page = check_page(output)
    model = told(load_estimate(estimate))
    job = Job.of_files(model.robot, fit, logs, **reading)
    read_logs(job)
    details = {
        "estimate file": estimate,
        "logs": ", ".join(logs) or "none",
        "fitted logs": ", ".join(fit),
    }
    with progress("writing the report"):
        found = job.validate(model, fit=bool(fit))
        fitted = found.pop(FIT, None)
        places = places_of(model, estimate, fit, reading)
        facts = Facts(
            model,
            found,
            fitted,
            details=details,
            places=places,
            observer=_observer(model, contacts),
        )
        write_page(facts, page, title)
    verdict = facts.verdict.to_json()
    if as_json:
        print_json({"file": str(page), "bytes": page.stat().st_size, "verdict": verdict})
    else:
        print_notices(fitted_data(found))
        print_verdict(verdict)
        click.echo(f"written: {plain(str(page))}")
    finish(verdict, require)


def _observer(model: Estimate, wanted: bool) -> Observer | None:
    if not wanted:
        return None
    from minidyn.control.momentum_observer import momentum_observer

    return momentum_observer(model)


@click.command()
@click.argument("study", type=click.Path())
@click.option(
    "--step", "only", multiple=True, help="Run this step and those it needs; repeat. Default: all."
)
@click.option("--rerun", is_flag=True, help="Run steps again although nothing has changed.")
@click.option("--force", is_flag=True, hidden=True, help="Its new name is --rerun.")
@click.option("--dry-run", "dry", is_flag=True, help="Run nothing; show what would be.")
@click.option(
    "--init",
    is_flag=True,
    help="Write STUDY to begin with, for --robot and --log, instead of running it.",
)
@robot_option("With --init: built-in name or file.")
@click.option(
    "--log",
    "logs",
    multiple=True,
    type=click.Path(),
    help="With --init: a log; repeat. None: simulated.",
)
@click.option(
    "--validate",
    "test",
    multiple=True,
    type=click.Path(),
    help=(
        "With --init: a log that is not fitted, to test on; repeat. None: the last log, or the "
        "end of a single one."
    ),
)
@click.option(
    "--mapping",
    type=click.Path(),
    help="With --init: TOML file that says how columns of logs are read.",
)
@require_option
@json_option
def run(
    study: str,
    init: bool,
    robot: RobotSource | None,
    logs: Files,
    test: Files,
    mapping: str | None,
    force: bool,
    require: str | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Run a STUDY file: a whole job as TOML, resumed where it stopped.

    Steps whose inputs have not changed are skipped; each result lies beside a record of settings,
    versions and hashes.

    Example: minidyn run study.toml

    Example: minidyn run study.toml --init --robot ur10.urdf --log run.db3 --validate other.db3
    """
    if force:
        raise click.UsageError(
            "--force is --rerun now: run steps again although nothing has changed. To fit although "
            "a check failed, write force = true into [identify] of the study"
        )
    if init:
        if robot is None:
            raise click.UsageError("--init needs --robot ROBOT")
        if not logs and (test or mapping):
            raise click.UsageError(
                "--validate and --mapping need --log LOG, the log that is fitted"
            )
        from minidyn.app.study.start import write_starter

        words = write_starter(study, robot.name, logs, test, mapping, robot.changes)
        if as_json:
            print_json({"files": [study]})
        else:
            click.echo(f"written: {plain(study)} ({plain(words)})")
            click.echo(f"read it, change it, then: minidyn run {plain(study)}")
        return None
    if robot is not None or logs or test or mapping:
        raise click.UsageError(
            "--robot and its options, --log, --validate and --mapping go with --init; a study "
            "file names its own"
        )
    from minidyn.app.study.run import run_study

    result = run_study(study, around=lambda name: progress(f"step {name}"), **options)
    told(result.robot)
    if as_json:
        steps = [
            {
                "step": step.name,
                "state": step.state,
                "seconds": step.seconds,
                "folder": str(step.folder),
            }
            | {"summary": dict(step.summary)}
            for step in result.steps
        ]
        about = {
            "study": result.study.name,
            "output": str(result.study.output),
            "verdict": result.verdict,
        }
        print_json(about | {"steps": steps})
        return finish(result.verdict, require)
    seconds = [f"{step.seconds:.1f}" if step.state == "done" else "" for step in result.steps]
    rows = [
        (safe(step.name), step.state, time, safe(_words(step)))
        for step, time in zip(result.steps, seconds)
    ]
    title = f"{safe(result.study.name)}: {len(result.steps)} steps"
    print_table(title, ("step", "", "seconds", "result"), rows, right=(2,))
    for step in result.steps:
        print_notices(map(Notice.from_json, step.summary.get("notices", ())), of=step.name)
    if result.verdict is not None:
        print_verdict(result.verdict)
    if options["dry"]:
        return finish(result.verdict, require)
    click.echo(
        f"results, each with a record of where it came from: {plain(str(result.study.output))}"
    )
    for step in (step for step in result.steps if step.name == "report"):
        click.echo(f"to read: {plain(str(step.folder / 'report.html'))}")
    return finish(result.verdict, require)


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@json_option
def completion(shell: str, as_json: bool) -> None:
    """Print the script that completes verbs, options and robots in a SHELL.

    Example: minidyn completion bash > ~/.local/share/bash-completion/completions/minidyn

    Example: minidyn completion zsh > ~/.zfunc/_minidyn

    Example: minidyn completion fish > ~/.config/fish/completions/minidyn.fish
    """
    made = get_completion_class(shell)
    if made is None:  # the choices of the verb are click's own
        raise click.UsageError(f"no completion for {shell}")
    instance = made(click.Command("minidyn"), {}, "minidyn", "_MINIDYN_COMPLETE")
    # source_template % vars, not source(): that one runs bash to ask for its version
    script = instance.source_template % instance.source_vars()
    if as_json:
        print_json({"shell": shell, "script": script})
    else:
        click.echo(script)


def _words(step: StepResult) -> str:
    """Return a step's figures in words."""
    parts = []
    for key, value in step.summary.items():
        name = key.replace("_", " ")
        if key == "relative_error" and isinstance(value, dict):
            for log, error in value.items():
                smooth = (step.summary.get("filtered_relative_error") or {}).get(log)
                more = "" if smooth is None else f" ({100 * smooth:.3g} % low-passed)"
                known = (
                    "not known, the measured torque is zero"
                    if error is None
                    else f"{100 * error:.3g} %{more}"
                )
                data = (step.summary.get("data") or {}).get(log, "")
                parts.append(
                    f"error on {log}{f' ({data})' if 'fitted data' in data else ''}: {known}"
                )
        elif key == "files" and isinstance(value, list):
            parts.append(", ".join(value))
        elif isinstance(value, float):
            parts.append(f"{name} {value:.4g}")
        elif isinstance(value, int | str):
            parts.append(f"{name} {value}")
    return ", ".join(parts)
