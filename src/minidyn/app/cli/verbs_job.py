"""Verbs around whole jobs: run, completion.

Verbs that show: report, demo.
"""

from __future__ import annotations

import click

from minidyn.app.cli.options import Robot, json_option, log_options, output_option


@click.command(short_help="Write one HTML file on a saved ESTIMATE, tested on LOGS it has not seen.")
@click.argument("estimate", type=click.Path())
@click.argument("logs", nargs=-1, type=click.Path())
@output_option("report.html", "HTML file to write.")
@click.option("--fit", "fitted", multiple=True, type=click.Path(), help="A log the estimate was fitted to; repeat.")
@click.option("--title", help="Heading. Default: the robot's name.")
@log_options
@json_option
def report(
    estimate: str,
    logs: tuple[str, ...],
    output: str,
    fitted: tuple[str, ...],
    title: str | None,
    mapping: str | None,
    rate: float | None,
    as_json: bool,
) -> None:
    """Write a report on a saved ESTIMATE (estimate.json): one HTML file, tested on LOGS it was not fitted to.

    Example: minidyn report out/estimate.json other.db3 --fit run.db3 --output report.html
    """
    from minidyn.app.cli.job import write_report

    write_report(estimate, logs, output, fitted, title, mapping, rate, as_json)


@click.command(short_help="Do the whole job on a built-in robot, ending in a report.")
@output_option("minidyn-out/demo")
@json_option
def demo(output: str, as_json: bool) -> None:
    """Do the whole job on the built-in Stanford arm, in a minute: plan, log, model, tests, exports, report.

    Example: minidyn demo --output demo
    """
    from minidyn.app.cli.demo import run_demo

    run_demo(output, as_json)


@click.command()
@click.argument("study", type=click.Path())
@click.option("--step", "only", multiple=True, help="Run this step and those it needs; repeat. Default: all.")
@click.option("--force", is_flag=True, help="Run steps although nothing has changed.")
@click.option("--dry-run", "dry", is_flag=True, help="Run nothing; show what would be.")
@click.option("--init", is_flag=True, help="Write STUDY to begin with, for --robot and --log, instead of running it.")
@click.option("--robot", type=Robot(), help="With --init: built-in name or file.")
@click.option("--log", "logs", multiple=True, type=click.Path(), help="With --init: a log; repeat. None: simulated.")
@json_option
def run(
    study: str,
    only: tuple[str, ...],
    force: bool,
    dry: bool,
    init: bool,
    robot: str | None,
    logs: tuple[str, ...],
    as_json: bool,
) -> None:
    """Run a STUDY file: a whole job as TOML, resumed where it stopped.

    Steps whose inputs have not changed are skipped; each result lies beside a record of settings, versions and hashes.

    Example: minidyn run study.toml

    Example: minidyn run study.toml --init --robot ur10.urdf --log run.db3
    """
    from minidyn.app.cli.job import init_study, run_file

    if init:
        if robot is None:
            raise click.UsageError("--init needs --robot ROBOT")
        init_study(study, robot, logs, as_json)
    elif robot is not None or logs:
        raise click.UsageError("--robot and --log go with --init; a study file names its own")
    else:
        run_file(study, only, force, dry, as_json)


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.option("--json", "as_json", is_flag=True, help="Print the script as a JSON string.")
def completion(shell: str, as_json: bool) -> None:
    """Print the script that completes verbs, options and robots in a SHELL.

    Example: minidyn completion bash > ~/.local/share/bash-completion/completions/minidyn

    Example: minidyn completion zsh > ~/.zfunc/_minidyn

    Example: minidyn completion fish > ~/.config/fish/completions/minidyn.fish
    """
    from minidyn.app.cli.job import completion_script

    click.echo(completion_script(shell, as_json))
