"""`minidyn plan`: experiments in which one joint moves at a time."""

from __future__ import annotations

import click

from minidyn.app.cli.options import json_option, robot_argument
from minidyn.app.cli.text import print_json, print_notices, print_table, progress, safe, told


@click.command()
@robot_argument
@json_option
def plan(robot: str, as_json: bool) -> None:
    """Plan experiments that identify a ROBOT (a serial chain) by moving one joint at a time.

    Example: minidyn plan stanford
    """
    from minidyn.excitation.one_joint_plan import one_joint_plan
    from minidyn.formats.load import load

    arm = told(load(robot))
    with progress(f"planning experiments for {arm.name}"):
        made = one_joint_plan(arm)
    if as_json:
        print_json(made.to_json())
        return
    title = f"{safe(arm.name)}: {len(made.steps)} steps show {made.base.rank} constants"
    columns = ("step", "moves", "rad or m, period", "others locked at", "shows")
    print_table(title, columns, (map(safe, row) for row in made.step_rows()), right=(0,))
    title = "Solved from the last joint to the first"
    wanted = ("torque of", "constants", "from steps", "condition")
    print_table(title, wanted, (map(safe, row) for row in made.system_rows()))
    print_notices(made.notices)
