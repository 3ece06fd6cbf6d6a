"""`minidyn actuators`: drives of joints under PD control, from encoders alone."""

from __future__ import annotations

from typing import Any

import click

from minidyn.app.cli import options
from minidyn.app.cli.identify import read_logs
from minidyn.app.cli.text import print_json, print_notices, print_table, progress, safe, told
from minidyn.notices import notices_json
from minidyn.text import plain

_ACTUATORS = "identification.actuators:identify_actuators"


@click.command()
@options.robot_argument
@options.logs_argument
@click.option(
    "--kp", type=options.Gain(), help="Stiffness of the position loop, N m/rad. Default: found."
)
@click.option(
    "--kd", type=options.Gain(), help="Its damping, N m s/rad. Default: part of viscous friction."
)
@options.option_of(
    _ACTUATORS, "--command-delay", type=float, help="By which commands act late, s. Default: found."
)
@options.option_of(
    _ACTUATORS, "--held", is_flag=True, help="Commands are steps, each held until the next."
)
@click.option(
    "--command", help="Columns of commanded positions: cmd_*, or one for each joint with commas."
)
@click.option(
    "--output",
    type=click.Path(),
    help="File to write (.toml, .urdf, .xml: MuJoCo, .py: Isaac Lab), or folder.",
)
@click.option(
    "--to",
    multiple=True,
    help="toml, urdf, mujoco, isaac, into a folder; repeat. Default: all but urdf.",
)
@options.log_options
@options.json_option
def actuators(
    robot: options.RobotSource,
    logs: options.Files,
    kp: Any,
    kd: Any,
    command_delay: float | None,
    held: bool | None,
    command: str | None,
    output: str | None,
    to: options.Files,
    as_json: bool,
    **reading: Any,
) -> None:
    """Find armature, friction, bias and gains of a ROBOT's joints under PD control, from positions
    in LOGS alone.

    Example: minidyn actuators robot.urdf log.csv --command "cmd_*" --kd 0.6 --output model
    """
    from minidyn.app.job import Job
    from minidyn.files import check_outputs
    from minidyn.identification.actuators import identify_actuators

    if output is not None:
        check_outputs([output], options.inputs(robot, *logs, reading["mapping"]))
    model = told(robot.load())
    columns = command.split(",") if command is not None and "," in command else command
    job = Job.of_files(model, logs, command=columns, **{**reading, "lazy": False})
    read_logs(job)
    wanted = options.given({"command_delay": command_delay, "held": held})
    with progress(f"identifying actuators of {model.name}"):
        found = identify_actuators(model, job.fitted, options.given({"kp": kp, "kd": kd}), **wanted)
    made = None if output is None else found.export(output, to or None)
    files = [] if made is None else [str(file) for file in made.files]
    notices = (*found.notices, *(() if made is None else made.notices))
    if as_json:
        print_json(found.to_json() | {"notices": notices_json(notices), "files": files})
        return
    head, _, *lines = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in found.table().splitlines()
    ]
    rows = [[safe(row[0]), *row[1:]] for row in lines]
    print_table(f"actuators of {safe(model.name)}, SI units", head, rows, right=range(1, len(head)))
    click.echo(f"commands act {1e3 * found.delay:.3g} ± {1e3 * found.std['delay']:.2g} ms late")
    print_notices(notices)
    for name in files:
        click.echo(f"written: {plain(name)}")
