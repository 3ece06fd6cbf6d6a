"""`minidyn check`: a log before any fit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from minidyn.app.cli import options
from minidyn.app.cli.identify import read_logs
from minidyn.app.cli.text import finish, print_json, print_notices, print_table, progress, safe
from minidyn.errors import MinidynError
from minidyn.text import plain

if TYPE_CHECKING:
    from collections.abc import Mapping

    from minidyn.app.check import Check
    from minidyn.model.robot import Robot


@click.command()
@options.robot_argument
@options.logs_argument
@click.option(
    "--output", type=click.Path(), help="HTML file to write, such as check.html. Default: none."
)
@click.option(
    "--fit",
    multiple=True,
    type=click.Path(),
    help=(
        "A log that is fitted, or the estimate.json of a model, where LOGS are to test it: they "
        "should be other data."
    ),
)
@click.option(
    "--write-mapping",
    metavar="FILE",
    type=click.Path(),
    help="Write how the columns of the first log are understood, as a mapping to edit (TOML).",
)
@click.option("--force", is_flag=True, help="Replace the file of --write-mapping.")
@options.measured_option
@options.log_options
@options.engine_options
@options.require_option
@options.json_option
def check(
    robot: options.RobotSource,
    logs: options.Files,
    output: str | None,
    fit: options.Files,
    measured: options.Files,
    write_mapping: str | None,
    force: bool,
    require: str | None,
    as_json: bool,
    **reading: Any,
) -> None:
    """Check LOGS of a ROBOT before a model is fitted.

    Columns, ranges, rates, noise, and what the motion can show. Example: minidyn check robot.urdf
    log.csv --output check.html
    """
    from minidyn.app.check import check as look_at
    from minidyn.app.job import Job
    from minidyn.files import check_outputs

    if output is not None:
        check_outputs([output], options.inputs(robot, *logs, *fit, reading["mapping"]))
    arm = robot.load()
    if write_mapping is not None:
        _write_mapping(arm, logs[0], write_mapping, force, reading)
    job = Job.of_files(arm, logs, **reading)
    read_logs(job)
    models = [name for name in fit if name.lower().endswith(".json")]
    if models and len(fit) > 1:
        raise MinidynError("--fit: give one estimate.json, or logs")
    fitted = (
        None if not fit else models[0] if models else Job.of_files(job.robot, fit, **reading).fitted
    )
    with progress(f"checking {len(job.fitted)} samples of {job.robot.name}"):
        found = look_at(job.robot, job.fitted, fit=fitted, measured=measured or None, **job.engine)
        files = [] if output is None else [str(found.report(output))]
    if as_json:
        print_json(found.to_json() | {"files": files})
        return finish({"level": found.level}, require, found.notices)
    _print(found)
    for name in files:
        click.echo(f"written: {plain(name)}")
    return finish({"level": found.level}, require, found.notices)


def _write_mapping(
    robot: Robot, log: str, path: str, force: bool, reading: Mapping[str, Any]
) -> None:
    """Write the mapping of a log before it is read: one that cannot be read needs it most."""
    from minidyn.recording.read.mapping import OPTIONS, with_own_mapping
    from minidyn.recording.read.starter import write_mapping

    file, own = with_own_mapping(log)
    given = {
        name: value
        for name, value in reading.items()
        if name in (*OPTIONS, "mapping") and value is not None
    }
    if own is not None:
        given["mapping"] = own
    is_understood = write_mapping(file, path, robot, force=force, **given)
    rest = "" if is_understood else "; columns are not understood, name them there"
    click.echo(f"written: {plain(path)}{rest}", err=True)


def _print(found: Check) -> None:
    """Print what was read as what, the joints, what the motion shows, and the verdict."""
    from minidyn.identification.diagnose.log_facts import HEADINGS

    for file, signals in found.columns.items():
        rows = [(safe(signal), safe(", ".join(columns))) for signal, columns in signals.items()]
        print_table(f"{safe(file)}: columns", ("read as", "columns"), rows)
    rates = ", ".join(
        f"{run.samples} samples, {run.seconds:.4g} s, {run.rate:.4g} per second"
        for run in found.runs[:4]
    )
    more = f" and {len(found.runs) - 4} more" if len(found.runs) > 4 else ""
    click.echo(f"{len(found.runs)} run{'s' if len(found.runs) > 1 else ''}: {rates}{more}")
    title = f"{safe(found.robot.name)}: the log joint by joint (rad or m, N m or N)"
    print_table(title, HEADINGS, (map(safe, row) for row in found.rows()), right=range(1, 10))
    if found.excitation:
        how = {"well": "well (standard deviation up to 10 %)", "fairly": "fairly (up to 30 %)"}
        how |= {"weakly": "weakly (more)", "not": "not at all"}
        lines = [
            (text, str(len(names)), safe(", ".join(names)))
            for word, text in how.items()
            if (names := found.shown(word))
        ]
        how_judged = f"condition {found.condition:.3g}; small ones by their torque"
        title = f"what this log shows of {len(found.excitation)} base parameters ({how_judged})"
        print_table(title, ("", "", "parameters"), lines, right=(1,))
    if found.overlap is not None:
        click.echo(f"{100 * found.overlap:.3g} % of this log is in the fitted data")
    print_notices(found.notices)
    click.echo(f"verdict: {found.headline}")
