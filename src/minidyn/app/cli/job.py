"""What `minidyn run` does.

What `minidyn report` writes.

What `minidyn completion` prints.
"""

from __future__ import annotations

import json
from typing import Any

import click
from click.shell_completion import get_completion_class

from minidyn.app.cli.identify import log_groups, read_logs
from minidyn.app.cli.text import print_table, progress, safe, table
from minidyn.app.report.report import report
from minidyn.app.study.run import StepResult, StudyResult, run_study
from minidyn.app.study.start import write_starter
from minidyn.identification.estimate import load_estimate
from minidyn.text import plain


def write_report(
    estimate_file: str,
    logs: tuple[str, ...],
    output: str,
    fitted: tuple[str, ...],
    title: str | None,
    mapping: str | None,
    rate: float | None,
    as_json: bool,
) -> None:
    """Write the report of a saved estimate.

    Args:
        estimate_file: What `Estimate.save` wrote.
        logs: Logs that were not fitted.
        output: HTML file.
        fitted: Logs that were.
        title: Heading; None: the robot's name.
        mapping: TOML file that says which column is what.
        rate: Samples per second, for logs without a time column.
        as_json: Print JSON.
    """
    estimate = load_estimate(estimate_file)
    robot = estimate.robot
    with progress(f"reading {', '.join((*logs, *fitted)) or 'the estimate'}"):
        groups = log_groups(logs, robot, mapping)
        runs = {label: read_logs(names, robot, mapping, rate) for label, names in groups.items()}
        fit = read_logs(fitted, robot, mapping, rate) if fitted else None
    details = {"estimate file": estimate_file, "logs": ", ".join(logs) or "none", "fitted logs": ", ".join(fitted)}
    with progress("writing the report"):
        target = report(estimate, runs, output, fit=fit, title=title, details=details)
    if as_json:
        click.echo(json.dumps({"file": str(target), "bytes": target.stat().st_size}, indent=1))
    else:
        click.echo(f"written: {plain(str(target))}")


def completion_script(shell: str, as_json: bool) -> str:
    """Return the script a shell sources; with `as_json` as {"shell": ..., "script": ...}."""
    made = get_completion_class(shell)
    if made is None:  # the choices of the verb are click's own
        raise click.UsageError(f"no completion for {shell}")
    instance = made(click.Command("minidyn"), {}, "minidyn", "_MINIDYN_COMPLETE")
    # source_template % vars, not source(): that one runs bash to ask for its version
    script = instance.source_template % instance.source_vars()
    return json.dumps({"shell": shell, "script": script}, indent=1) if as_json else script


def run_file(path: str, only: tuple[str, ...], force: bool, dry: bool, as_json: bool) -> None:
    """Run a study file, or look what there is to do, and print what became of each step."""
    result = run_study(path, only=only, force=force, dry=dry, around=lambda name: progress(f"step {name}"))
    if as_json:
        click.echo(json.dumps(_data(result), indent=1))
        return
    rows = table(f"{safe(result.study.name)}: {len(result.steps)} steps", "step", "", "seconds", "result", right=(2,))
    for step in result.steps:
        seconds = f"{step.seconds:.1f}" if step.state == "done" else ""
        rows.add_row(safe(step.name), step.state, seconds, safe(_words(step)))
    print_table(rows)
    for step in result.steps:
        for notice in step.summary.get("notices", ()):
            click.echo(f"note: {plain(step.name)}: {plain(notice)}")
    if dry:
        return
    click.echo(f"results, each with a record of where it came from: {plain(str(result.study.output))}")
    for step in result.steps:
        if step.name == "report":
            click.echo(f"to read: {plain(str(step.folder / 'report.html'))}")


def init_study(path: str, robot: str, logs: tuple[str, ...], as_json: bool) -> None:
    """Write a study file to begin with."""
    write_starter(path, robot, logs)
    if as_json:
        click.echo(json.dumps({"files": [path]}))
    else:
        click.echo(f"written: {plain(path)}; read it, change it, then: minidyn run {plain(path)}")


def _data(result: StudyResult) -> dict[str, Any]:
    steps = [
        {"step": step.name, "state": step.state, "seconds": step.seconds, "folder": str(step.folder)}
        | {"summary": dict(step.summary)}
        for step in result.steps
    ]
    return {"study": result.study.name, "output": str(result.study.output), "steps": steps}


def _words(step: StepResult) -> str:
    """Return a step's figures in words."""
    parts = []
    for key, value in step.summary.items():
        name = key.replace("_", " ")
        if key == "relative_error" and isinstance(value, dict):
            filtered = step.summary.get("filtered_relative_error") or {}
            for log, error in value.items():
                if error is None:
                    parts.append(f"error on {log}: not known, the measured torque is zero")
                    continue
                smooth = filtered.get(log)
                more = "" if smooth is None else f" ({100 * smooth:.3g} % without sensor noise)"
                parts.append(f"error on {log}: {100 * error:.3g} %{more}")
        elif key == "files" and isinstance(value, list):
            parts.append(", ".join(value))
        elif isinstance(value, float):
            parts.append(f"{name} {value:.4g}")
        elif isinstance(value, int | str):
            parts.append(f"{name} {value}")
    return ", ".join(parts)
