"""What `minidyn run` does."""

from __future__ import annotations

import json
from typing import Any

import click

from minidyn.cli_text import plain, print_table, progress, safe, table
from minidyn.study import StepResult, StudyResult, run_study
from minidyn.study_start import write_starter

__all__ = ["init_study", "run_file"]


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
