"""`minidyn generate` and `minidyn count`: a robot's functions as source code, and what they cost."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from minidyn.app.cli.options import OneOf, given, json_option, option_of, output_option, robot_argument
from minidyn.app.cli.text import print_json, print_table, safe, table
from minidyn.codegen.files import TARGETS, code_files, function_for
from minidyn.dynamics.record import WHAT
from minidyn.errors import DescriptionError, MinidynError, UnknownParameters
from minidyn.files import write_atomically
from minidyn.formats.load import load
from minidyn.text import plain

_COUNTED = ("mul", "add", "div", "sincos", "sqrt", "other")
_what = OneOf(lambda: list(WHAT))
_parameters_option = option_of(
    function_for,
    "--parameters",
    type=click.Choice(["own", "argument"]),
    help="own: the robot's values baked in; argument: the vector is the function's last argument.",
)
_link_option = click.option(
    "--link", help="For forward_kinematics and jacobian: a link or frame. Default: the last link."
)


@click.command()
@robot_argument
@click.argument("what", type=_what)
@click.option("--target", type=click.Choice(list(TARGETS)), default="c", show_default=True)
@output_option(".")
@_parameters_option
@_link_option
@json_option
def generate(robot: str, what: str, target: str, output: str, as_json: bool, **options: Any) -> None:
    """Write a function of a ROBOT as source code: WHAT is inverse_dynamics, inertia_matrix, regressor, ...

    Example: minidyn generate panda inverse_dynamics --target c --output out
    """
    arm = load(robot)
    function = function_for(arm, what, **given(options))
    folder = Path(output)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DescriptionError(f"{folder}: the folder cannot be made ({error.strerror or error})") from None
    paths = []
    for name, text in code_files(arm, function, target).items():
        path = folder / name  # made of letters, digits and underscores alone
        write_atomically(path, text.encode())
        paths.append(str(path))
    if as_json:
        data = {"function": what, "robot": arm.name, "target": target, "counts": dict(function.counts)}
        print_json(data | {"files": paths})
        return
    for written in paths:
        click.echo(written)
    counts = ", ".join(f"{amount} {kind}" for kind, amount in function.counts.items() if amount)
    click.echo(plain(f"{what} of {arm.name}: {counts or 'no operations'}"), err=True)


@click.command()
@robot_argument
@click.argument("what", required=False, type=_what)
@_parameters_option
@_link_option
@click.option("--base", is_flag=True, help="On base parameters with general values; implied by the options below.")
@click.option("--formulation", type=int, help="Of the inertia matrix: 1 to 5 (LinFang1999), 6. Default: the cheapest.")
@click.option("--counting", type=click.Choice(["executed", "paper"]), help="paper: as LinFang1999's tables count.")
@click.option("--generic", is_flag=True, help="General geometry with the robot's joints instead of its own.")
@json_option
def count(
    robot: str,
    what: str | None,
    base: bool,
    formulation: int | None,
    counting: str | None,
    generic: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Count the operations of a function of a ROBOT, or of all its functions.

    Example: minidyn count panda inverse_dynamics

    Example: minidyn count puma560 inertia_matrix --counting paper
    """
    settings = given(options)
    if base or generic or formulation is not None or counting is not None:
        if "link" in settings:
            raise MinidynError("--link is for kinematics, which needs no parameters; leave out --base")
        if settings.get("parameters", "own") != "own":
            raise MinidynError("--base counts with base parameters as an argument; leave out --parameters")
        _count_minimal(robot, what, formulation, counting or "executed", generic, as_json)
    else:
        _count_standard(robot, what, settings, as_json)


def _count_minimal(
    source: str, what: str | None, formulation: int | None, counting: str, generic: bool, as_json: bool
) -> None:
    """Print multiplications and additions on a minimal set of parameters with general values."""
    from minidyn.dynamics.papers.minimal import MINIMAL_WHAT  # the other counts start without the papers
    from minidyn.papers.operation_count import operation_count

    robot = load(source)
    if what is None and (formulation is not None or counting == "paper"):
        what = "inertia_matrix"
    names = MINIMAL_WHAT if what is None else (what,)
    counts = {name: operation_count(robot, name, formulation, counting, not generic) for name in names}
    if as_json:
        print_json({name: {"mul": mul, "add": add} for name, (mul, add) in counts.items()})
        return
    how = f"{'general geometry, ' if generic else ''}{counting}"
    made = table(f"{safe(robot.name)}: operations on base parameters ({how})", "function", "mul", "add", right=(1, 2))
    for name, (mul, add) in counts.items():
        made.add_row(name, str(mul), str(add))
    print_table(made)


def _count_standard(source: str, what: str | None, settings: Mapping[str, Any], as_json: bool) -> None:
    """Print the operations for one sample of one function, or of all."""
    robot = load(source)
    counts: dict[str, Mapping[str, int] | None] = {}
    if what is not None:
        counts[what] = function_for(robot, what, **settings).counts
    else:
        for name, wanted in WHAT.items():
            fitting = {key: value for key, value in settings.items() if key != "link" or wanted.link}
            try:
                counts[name] = function_for(robot, name, **fitting).counts
            except UnknownParameters as error:
                counts[name] = None
                click.echo(f"{plain(str(error))}; or count with --parameters argument", err=True)
    if as_json:
        print_json({name: row and dict(row) for name, row in counts.items()})
        return
    used = [kind for kind in _COUNTED if kind in _COUNTED[:4] or any(row and row[kind] for row in counts.values())]
    made = table(f"{safe(robot.name)}: operations for one sample", "function", *used, right=tuple(range(1, 7)))
    for name, row in counts.items():
        made.add_row(name, *(("-" if row is None else str(row[kind])) for kind in used))
    print_table(made)
