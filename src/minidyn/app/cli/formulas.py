"""`minidyn formulas`: a robot's functions as formulas to be read, typeset or put into sympy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from minidyn.app.cli.options import (
    Files,
    OneOf,
    RobotSource,
    constant,
    given,
    inputs,
    json_option,
    option_of,
    robot_argument,
)
from minidyn.app.cli.text import print_json, told

_FUNCTION = "codegen.formulas:formulas"
_SHEET = "codegen.formula_sheet"
_WRITTEN = ("relations", "derivation")


@click.command()
@robot_argument
@click.argument("what", type=OneOf(lambda: [*constant("dynamics.record", "WHAT"), *_WRITTEN]))
@click.option(
    "--format",
    "style",
    type=click.Choice(list(constant(_SHEET, "FORMATS"))),
    default="text",
    show_default=True,
)
@click.option("--base", is_flag=True, help="In base parameters; implied by --method.")
@click.option(
    "--method",
    type=OneOf(lambda: ["exact", "qr", "svd", "mlc", "rules+qr"]),
    help="How base parameters are found.",
)
@option_of(
    _FUNCTION,
    "--parameters",
    type=click.Choice(list(constant("codegen.formulas", "PARAMETERS"))),
    help="nonzero: those that are zero in the robot's file are left out; own: numbers.",
)
@option_of(
    _FUNCTION,
    "--form",
    type=click.Choice(list(constant("codegen.formulas", "FORMS"))),
    help=(
        "One expression for each entry, or a listing with named intermediate values; auto: what "
        "can be read."
    ),
)
@click.option(
    "--column", "columns", multiple=True, help="For regressors: a column that is wanted; repeat."
)
@click.option(
    "--link", help="For forward_kinematics and jacobian: a link or frame. Default: the last link."
)
@option_of(
    _FUNCTION,
    "--digits",
    type=click.IntRange(1, 17),
    help="Of numbers in text, Markdown and LaTeX.",
)
@click.option(
    "--output", type=click.Path(), help="A file: .txt, .tex (a whole document), .md or .py."
)
@json_option
def formulas(
    robot: RobotSource,
    what: str,
    style: str,
    base: bool,
    method: str | None,
    columns: Files,
    output: str | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Print a function of a ROBOT as formulas.

    WHAT is inertia_matrix, gravity_torque, regressor, relations, ... Example: minidyn formulas
    two_link inertia_matrix

    Example: minidyn formulas puma560 relations --format latex

    Example: minidyn formulas scara derivation
    """
    if what == "derivation":
        _derivation(robot, style, output, as_json)
        return
    from minidyn.base.base_parameters import base_parameters
    from minidyn.codegen.formulas import formulas as formulas_of
    from minidyn.files import check_outputs

    arm = told(robot.load())
    found_base = base_parameters(arm, **given({"method": method})) if base or method else None
    settings = given({**options, "columns": columns or None})
    found = formulas_of(arm, what, base=found_base, **settings)
    if output is not None:
        check_outputs([output], inputs(robot))
        found.save(output)
    if as_json:
        data = {"robot": arm.name, "function": what, "form": found.form, "values": found.values}
        print_json(data | {"format": style, "text": found.to(style), "file": output})
    else:
        click.echo(output if output is not None else found.to(style), nl=output is not None)


def _derivation(robot: RobotSource, style: str, output: str | None, as_json: bool) -> None:
    """Print how the minimal set follows, joint by joint."""
    from minidyn.base.printing.derivation import FORMATS, derivation, written
    from minidyn.errors import UnknownName
    from minidyn.files import check_outputs, write_atomically

    if style not in FORMATS:
        raise UnknownName("format of a derivation", style, FORMATS)
    found = derivation(told(robot.load()))
    text = written(found, style)
    if output is not None:
        check_outputs([output], inputs(robot))
        write_atomically(Path(output), text.encode())
    if as_json:
        print_json({"robot": found.robot, "format": style, "text": text, "file": output})
    else:
        click.echo(output if output is not None else text, nl=output is not None)
