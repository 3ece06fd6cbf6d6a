"""What `minidyn plan` prints: experiments in which one joint moves at a time."""

from __future__ import annotations

import json

import click

from minidyn.cli_text import console, print_table, progress, safe, table
from minidyn.experiment.one_joint_plan import one_joint_plan
from minidyn.model.load import load

__all__ = ["show_plan"]


def show_plan(source: str, as_json: bool) -> None:
    """Print the plan of a robot.

    Args:
        source: Built-in robot or file.
        as_json: Print JSON.
    """
    robot = load(source)
    with progress(f"planning experiments for {robot.name}"):
        plan = one_joint_plan(robot)
    if as_json:
        click.echo(json.dumps(plan.to_json(), indent=2))
        return
    title = f"{safe(plan.robot.name)}: {len(plan.steps)} steps show {plan.base.rank} constants"
    steps = table(title, "step", "moves", "rad or m, period", "others locked at", "shows", right=(0,))
    for row in plan.step_rows():
        steps.add_row(*(safe(cell) for cell in row))
    print_table(steps)
    systems = table("Solved from the last joint to the first", "torque of", "constants", "from steps", "condition")
    for row in plan.system_rows():
        systems.add_row(*(safe(cell) for cell in row))
    print_table(systems)
    for notice in plan.notices:
        console().print(safe(notice))
