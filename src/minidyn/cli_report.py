"""What `minidyn report` writes."""

from __future__ import annotations

import json

import click

from minidyn.cli_identify import log_groups, read_logs
from minidyn.cli_text import plain, progress
from minidyn.identification.estimate import load_estimate
from minidyn.reporting.report import report

__all__ = ["write_report"]


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
        target = report(output, estimate, runs, fit=fit, title=title, details=details)
    if as_json:
        click.echo(json.dumps({"file": str(target), "bytes": target.stat().st_size}, indent=1))
    else:
        click.echo(f"written: {plain(str(target))}")
