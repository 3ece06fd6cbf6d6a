"""`minidyn plan`: experiments in which one joint moves at a time."""

from __future__ import annotations

import click

from minidyn.app.cli.options import given, json_option, option_of, robot_argument
from minidyn.app.cli.text import print_json, print_notices, print_table, progress, safe, told

PLAN = "excitation.one_joint_plan:one_joint_plan"


@click.command()
@robot_argument
@option_of(
    PLAN,
    "--friction",
    help="Friction terms to be shown, in the words of minidyn identify: auto (viscous, coulomb, offset, and then all "
    "others, too), terms such as viscous,coulomb, none, or own (the terms of the robot's file).",
)
@option_of(PLAN, "--rotor-inertia/--no-rotor-inertia", help="Show rotor inertias.")
@json_option
def plan(robot: str, friction: str | None, rotor_inertia: bool | None, as_json: bool) -> None:
    """Plan experiments that identify a ROBOT (a serial chain) by moving one joint at a time.

    Example: minidyn plan stanford

    Example: minidyn plan robot.urdf --friction none --no-rotor-inertia
    """
    from minidyn.app.job import friction_terms
    from minidyn.excitation.one_joint_plan import one_joint_plan
    from minidyn.formats.load import load

    arm = told(load(robot))
    with progress(f"planning experiments for {arm.name}"):
        made = one_joint_plan(arm, **given({"friction": friction_terms(friction), "rotor_inertia": rotor_inertia}))
    if as_json:
        print_json(made.to_json())
        return
    title = f"{safe(arm.name)}: {len(made.steps)} steps show {made.base.rank} base parameters"
    columns = ("step", "moves", "rad or m, period", "others locked at", "shows")
    print_table(title, columns, (map(safe, row) for row in made.step_rows()), right=(0,))
    title = "Solved from the last joint to the first"
    wanted = ("torque of", "combinations", "from steps", "condition")
    print_table(title, wanted, (map(safe, row) for row in made.system_rows()))
    print_notices(made.notices)
