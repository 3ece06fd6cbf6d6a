"""What `minidyn report` writes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from minidyn.cli_text import plain, progress
from minidyn.experiment.read import read_recording
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
    options: dict[str, Any] = {} if rate is None else {"rate": rate}
    if mapping is not None:
        options["mapping"] = mapping
    with progress(f"reading {len(logs) + len(fitted)} logs"):
        runs = {_name(name, logs): read_recording([name], robot=estimate.robot, **options) for name in logs}
        fit = read_recording(list(fitted), robot=estimate.robot, **options) if fitted else None
    details = {"estimate file": estimate_file, "logs": ", ".join(logs) or "none", "fitted logs": ", ".join(fitted)}
    with progress("writing the report"):
        target = report(output, estimate, runs, fit=fit, title=title, details=details)
    if as_json:
        click.echo(json.dumps({"file": str(target), "bytes": target.stat().st_size}, indent=1))
    else:
        click.echo(f"written: {plain(str(target))}")


def _name(name: str, every: tuple[str, ...]) -> str:
    """The file's name, with its folder where two files are called the same."""
    short = Path(name).name
    return short if [Path(other).name for other in every].count(short) == 1 else name
