"""`minidyn tool`: what is behind a force sensor."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from minidyn.app.cli import options
from minidyn.app.cli.identify import read_logs
from minidyn.app.cli.text import print_json, print_notices, print_table, progress, safe, told
from minidyn.text import plain

_TOOL = "identification.tool:identify_tool"


@click.command()
@options.robot_argument
@options.logs_argument
@options.option_of(
    _TOOL, "--link", help="Link or frame that carries the sensor. Default: the last link."
)
@options.option_of(
    _TOOL, "--position", type=options.Gain(), help="Of the sensor in that frame, m: 0,0,0.05."
)
@options.option_of(
    _TOOL,
    "--mounting",
    type=options.Gain(),
    help="Axes of the sensor in that frame: rows with semicolons.",
)
@options.option_of(
    _TOOL, "--static/--no-static", help="Every sample is a pose at rest, as in a table of poses."
)
@click.option(
    "--wrench",
    help="Six columns, forces then moments: fx,fy,fz,tx,ty,tz or 13:19. Default: from names.",
)
@click.option(
    "--output",
    type=click.Path(),
    help="C file to write: wrenches without bias and the tool's weight.",
)
@options.log_options
@options.json_option
def tool(
    robot: options.RobotSource,
    logs: options.Files,
    link: str | None,
    position: Any,
    mounting: Any,
    static: bool | None,
    wrench: str | None,
    output: str | None,
    as_json: bool,
    **reading: Any,
) -> None:
    """Find bias and mounting of a force sensor in LOGS, and mass, centre and inertia of the tool
    behind it.

    ROBOT may also be a saved estimate (estimate.json) of the robot without the tool: joint torques
    of the logs are then used, too.

    Example: minidyn tool robot.urdf poses.csv --link flange --output compensate.c
    """
    from minidyn.app.job import Job
    from minidyn.files import check_outputs, write_atomically
    from minidyn.identification.estimate import Estimate, load_estimate
    from minidyn.identification.tool import identify_tool
    from minidyn.model.robot import Robot

    if output is not None:
        check_outputs([output], options.inputs(robot, *logs, reading["mapping"]))
    saved = robot.name.lower().endswith(".json")
    if saved and robot.changes:
        raise click.UsageError("an estimate holds its robot as it is; options change robot files")
    known: Estimate | Robot = load_estimate(robot.name) if saved else robot.load()
    model = known if isinstance(known, Robot) else known.robot
    told(known)
    model.find_frame(link)  # a wrong name is reported before logs are read
    columns = (
        None if wrench is None else wrench if ":" in wrench or "*" in wrench else wrench.split(",")
    )
    job = Job.of_files(model, logs, wrench=columns, **{**reading, "lazy": False})
    read_logs(job)
    wanted = options.given(
        {"link": link, "position": position, "mounting": mounting, "static": static}
    )
    with progress(f"identifying the tool of {model.name}"):
        found = identify_tool(job.fitted, known, **wanted)
    if output is not None:
        write_atomically(Path(output), found.source("c").encode("utf-8"))
    files = [] if output is None else [output]
    if as_json:
        print_json(found.to_json() | {"files": files})
        return
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in found.table().splitlines()[2:]
    ]
    title = (
        f"tool of {safe(model.name)} on {safe(link or model.link_names[-1])}, in the sensor's frame"
    )
    print_table(title, ("", "value", "std", "unit"), rows, right=(1, 2))
    print_notices(found.notices)
    for name in files:
        click.echo(f"written: {plain(name)}")
