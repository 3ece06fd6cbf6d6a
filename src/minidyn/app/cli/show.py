"""`minidyn robots` and `minidyn show`: what is built in, and a robot as it is read."""

from __future__ import annotations

from pathlib import Path

import click

from minidyn.app.cli.options import (
    RobotSource,
    check_figure,
    inputs,
    json_option,
    robot_argument,
)
from minidyn.app.cli.text import print_json, print_table, safe


@click.command()
@json_option
def robots(as_json: bool) -> None:
    """List the built-in robots.

    Example: minidyn robots
    """
    from minidyn.app.cli.robot_tables import letters
    from minidyn.formats.load import describe, load
    from minidyn.formats.load import robots as built_in

    found = [load(name) for name in built_in()]
    if as_json:
        data = [
            {
                "name": robot.name,
                "joints": letters(robot),
                "n": robot.n,
                "parameters": len(robot.layout),
                "parameters_known": robot.parameters_known,
                "description": describe(robot.name),
                "source": robot.source,
            }
            for robot in found
        ]
        print_json(data)
        return
    columns = ("name", "joints", "n", "parameters", "what it is")
    counts = [
        f"{len(robot.layout)}{'' if robot.parameters_known else ' (unknown)'}" for robot in found
    ]
    rows = [
        (safe(robot.name), letters(robot), str(robot.n), count, safe(describe(robot.name)))
        for robot, count in zip(found, counts)
    ]
    print_table("Built-in robots", columns, rows, right=(2, 3))


@click.command()
@robot_argument
@click.option(
    "--plot", metavar="FILE", help="Also draw the axes as lines, r and s marked: .png, .svg, .pdf."
)
@click.option(
    "--mdh",
    is_flag=True,
    help="The modified Denavit-Hartenberg table instead, and its frames seen from the file's.",
)
@json_option
def show(robot: RobotSource, plot: str | None, mdh: bool, as_json: bool) -> None:
    """Show a ROBOT: tree, geometry, limits, parameters, physical consistency.

    Example: minidyn show panda

    Example: minidyn show panda --plot axes.svg

    Example: minidyn show iiwa14 --mdh
    """
    from minidyn.app.cli.robot_tables import print_mdh, print_robot, robot_data
    from minidyn.arrays import plain_values

    if plot is not None:
        check_figure(plot, inputs(robot))
    loaded = robot.load()
    if plot is not None:
        from minidyn.base.explanation import plot_axes
        from minidyn.display import save_figure

        save_figure(plot_axes(loaded), Path(plot))
    if mdh:
        print_mdh(loaded, as_json)
    elif as_json:
        print_json(plain_values(robot_data(loaded), finite=True))
    else:
        print_robot(loaded)
