"""What `minidyn robots` and `minidyn show` print."""

from __future__ import annotations

import json

import click

from minidyn.cli_text import console, safe, table
from minidyn.model.load import load, robots

__all__ = ["show_robot", "show_robots"]


def show_robots(as_json: bool) -> None:
    """Print the built-in robots."""
    click.echo(json.dumps(list(robots()), indent=2) if as_json else "\n".join(robots()))


def show_robot(source: str, as_json: bool) -> None:
    """Print one robot."""
    robot = load(source)
    made = table(safe(robot.name), "parameter", "value", right=(1,))
    for name, value in zip(robot.parameter_names, robot.values):
        made.add_row(name, f"{value:.6g}")
    console().print(made)
