"""Verbs around whole jobs: run, completion."""

from __future__ import annotations

import click

from minidyn.cli_options import Robot, json_option

__all__ = ["completion", "run"]


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
    from minidyn.cli_run import init_study, run_file

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
    from minidyn.cli_completion import completion_script

    click.echo(completion_script(shell, as_json))
