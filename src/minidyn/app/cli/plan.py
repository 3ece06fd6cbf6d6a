"""`minidyn plan`: experiments in which one joint moves at a time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from minidyn.app.cli.options import (
    RobotSource,
    format_option,
    given,
    home_option,
    inputs,
    json_option,
    kept_options,
    limits_of,
    option_of,
    require_option,
    robot_argument,
)
from minidyn.app.cli.text import (
    finish,
    print_json,
    print_notices,
    print_table,
    print_ways,
    progress,
    safe,
    told,
)
from minidyn.text import plain

PLAN = "excitation.one_joint_plan:one_joint_plan"


@click.command()
@robot_argument
@option_of(
    PLAN,
    "--friction",
    help="Friction terms to be shown, in the words of minidyn identify: auto (viscous, coulomb, "
    "offset, and then all others, too), terms such as viscous,coulomb, none, or own (the "
    "terms of the robot's file).",
)
@option_of(PLAN, "--rotor-inertia/--no-rotor-inertia", help="Show rotor inertias.")
@kept_options(PLAN)
@option_of(
    PLAN,
    "--tolerance",
    type=float,
    help="Axes that are special within this, rad and share of the robot's size, are exactly so; 0: "
    "as written.",
)
@click.option(
    "--output",
    type=click.Path(),
    help="Folder for files that the robot runs. Default: none are written.",
)
@format_option
@home_option
@require_option
@json_option
def plan(
    robot: RobotSource,
    friction: str | None,
    rotor_inertia: bool | None,
    limits: tuple[str, ...],
    limits_file: str | None,
    torque_share: float | None,
    clearance: float | None,
    floor: bool | None,
    obstacles: str | None,
    tolerance: float | None,
    output: str | None,
    formats: tuple[str, ...],
    home: Any,
    require: str | None,
    as_json: bool,
) -> None:
    """Plan experiments that identify a ROBOT (a serial chain) by moving one joint at a time.

    Example: minidyn plan stanford

    Example: minidyn plan robot.urdf --friction none --no-rotor-inertia --output steps --format ros2
    """
    from minidyn.app.job import friction_terms
    from minidyn.app.result_folder import write_motion
    from minidyn.errors import MinidynError
    from minidyn.excitation.clearance import read_obstacles
    from minidyn.excitation.one_joint_plan import one_joint_plan
    from minidyn.excitation.robot_files import check_files
    from minidyn.files import check_folder

    if output is not None:
        check_folder(output)
    elif formats or home is not None:
        raise MinidynError(
            "--format and --home say how files are written: give their folder with --output"
        )
    arm = told(robot.load())
    check_files(arm, formats, home)
    wanted: dict[str, Any] = {"friction": friction_terms(friction), "rotor_inertia": rotor_inertia}
    wanted |= {
        "limits": limits_of(limits_file, limits),
        "torque_share": torque_share,
        "clearance": clearance,
        "tolerance": tolerance,
    }
    wanted["floor"] = floor
    around = None if obstacles is None else read_obstacles(Path(obstacles))
    with progress(f"planning experiments for {arm.name}"):
        made = one_joint_plan(arm, obstacles=around, **given(wanted))
    summary = made.to_json()
    if output is not None:
        summary = write_motion(
            made, output, formats, home=home, inputs=inputs(robot, limits_file, obstacles)
        )
    if as_json:
        print_json(summary)
        return finish({"level": made.verdict.level}, require)
    title = f"{safe(arm.name)}: {len(made.steps)} steps show {made.base.rank} base parameters"
    columns = ("step", "moves", "rad or m, period", "others locked at", "shows")
    print_table(title, columns, (map(safe, row) for row in made.step_rows()), right=(0,))
    title = "Solved from the last joint to the first"
    heads = ("torque of", "combinations", "from steps", "condition")
    print_table(title, heads, (map(safe, row) for row in made.system_rows()))
    click.echo(f"verdict: {made.verdict.headline}")
    print_notices(made.notices)
    if output is not None:
        print_ways(formats)
        click.echo("written: " + ", ".join(plain(f"{output}/{name}") for name in summary["files"]))
    return finish({"level": made.verdict.level}, require)
