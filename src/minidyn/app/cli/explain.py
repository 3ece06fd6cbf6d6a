"""`minidyn explain`: why each standard parameter is identified, regrouped or has no effect."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from minidyn.app.cli.options import (
    OneOf,
    RobotSource,
    check_figure,
    constant,
    given,
    inputs,
    json_option,
    option_of,
    robot_argument,
)
from minidyn.app.cli.text import print_json, told
from minidyn.errors import MinidynError
from minidyn.text import plain

_FUNCTION = "base.base_parameters:base_parameters"


@click.command()
@robot_argument
@click.argument("parameters", nargs=-1, metavar="[PARAMETER]...")
@option_of(
    _FUNCTION,
    "--model",
    type=OneOf(lambda: constant("base.rows", "MODELS")),
    help="What the base parameters determine.",
)
@option_of(
    _FUNCTION,
    "--tolerance",
    type=float,
    help="Axes that are special within this, rad and share of the robot's size, are exactly so.",
)
@click.option(
    "--plot", metavar="FILE", help="Also draw the robot's axes and one PARAMETER: .png, .svg, .pdf."
)
@json_option
def explain(
    robot: RobotSource, parameters: tuple[str, ...], plot: str | None, as_json: bool, **options: Any
) -> None:
    """Say why each standard parameter of a ROBOT is identified alone, regrouped or has no effect.

    Reasons are facts about axes and gravity. Without PARAMETER all are listed by link and reason.

    Example: minidyn explain puma560

    Example: minidyn explain puma560 YY3 --plot yy3.svg
    """
    from minidyn.base.base_parameters import base_parameters
    from minidyn.display import save_figure

    if plot is not None:
        if len(parameters) != 1:
            raise MinidynError(
                f"--plot shows one parameter, got {len(parameters)}; name one, such as YY3"
            )
        check_figure(plot, inputs(robot))
    base = base_parameters(told(robot.load()), **given(options))
    if not parameters:
        every = base.explanations
        if as_json:
            print_json(every.to_json())
        else:
            click.echo(plain(str(every)))
        return
    found = [base.explain(name) for name in parameters]
    if plot is not None:
        save_figure(found[0].plot(), Path(plot))
    if as_json:
        print_json({"robot": base.robot.name, "parameters": [each.to_json() for each in found]})
    else:
        for each in found:
            click.echo(plain(str(each)))
