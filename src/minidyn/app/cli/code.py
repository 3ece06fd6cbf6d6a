"""`minidyn generate` and `minidyn count`.

A robot's functions as source code, and what they cost.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from minidyn.app.cli.options import (
    OneOf,
    RobotSource,
    constant,
    given,
    inputs,
    json_option,
    option_of,
    output_option,
    robot_argument,
)
from minidyn.app.cli.text import print_json, print_table, safe, told
from minidyn.errors import MinidynError, UnknownName, UnknownParameters
from minidyn.model.drives import Drive
from minidyn.text import plain

if TYPE_CHECKING:
    from minidyn.model.robot import Robot

_FORMULATIONS = ("1", "2", "3", "4", "5", "6")
_COUNTED = ("mul", "add", "div", "sincos", "sqrt", "other")
_TARGETS = ("c", *constant("dynamics.sources", "PRINTERS"), "llvm")
_what = OneOf(lambda: constant("dynamics.record", "WHAT"))
_parameters_option = option_of(
    "codegen.files:function_for",
    "--parameters",
    type=click.Choice(["own", "argument"]),
    help="own: the robot's values baked in; argument: the vector is the function's last argument. "
    "Default: own, with --base argument.",
)
_tolerance_option = option_of(
    "codegen.files:function_for",
    "--tolerance",
    type=float,
    help="With --base: axes that are special within this, rad and share of the robot's size, are "
    "exactly so; 0: as written.",
)
_link_option = click.option(
    "--link", help="For forward_kinematics and jacobian: a link or frame. Default: the last link."
)


@click.command()
@robot_argument
@click.argument("what", type=_what)
@click.option(
    "--target",
    type=click.Choice(["c", *constant("dynamics.sources", "PRINTERS"), "llvm"]),
    default="c",
    show_default=True,
)
@output_option(".")
@_parameters_option
@click.option(
    "--base",
    is_flag=True,
    default=None,
    help="From base parameters alone, by the cheapest program known.",
)
@click.option(
    "--formulation",
    type=OneOf(lambda: _FORMULATIONS),
    help="Of the inertia matrix, also within forward dynamics: 1 to 5 (LinFang1999), 6. "
    "Implies --base.",
)
@_tolerance_option
@_link_option
@json_option
def generate(
    robot: RobotSource, what: str, target: str, output: str, as_json: bool, **options: Any
) -> None:
    """Write a function of a ROBOT as source code.

    WHAT is inverse_dynamics, inertia_matrix, regressor, ... Example: minidyn generate panda
    inverse_dynamics --target c --output out

    Example: minidyn generate rx90 inertia_matrix --base --target c --output out

    Example: minidyn generate puma560 forward_dynamics --base --target c --output out
    """
    from minidyn.codegen.files import code_files, function_for
    from minidyn.files import check_outputs, made_folder, write_atomically

    options["formulation"] = _number(options["formulation"], _FORMULATIONS)
    arm = told(robot.load())
    function = function_for(arm, what, **given(options))
    folder = made_folder(output)
    texts = code_files(
        arm, function, target, **given({"tolerance": options["tolerance"]})
    )  # names are made of letters, digits and underscores alone
    check_outputs((folder / name for name in texts), inputs(robot))
    for name, text in texts.items():
        write_atomically(folder / name, text.encode())
    paths = [str(folder / name) for name in texts]
    if as_json:
        data = {
            "function": what,
            "robot": arm.name,
            "target": target,
            "counts": dict(function.counts),
        }
        print_json(data | {"files": paths})
        return
    click.echo("\n".join(paths))
    counts = ", ".join(f"{amount} {kind}" for kind, amount in function.counts.items() if amount)
    click.echo(plain(f"{what} of {arm.name}: {counts or 'no operations'}"), err=True)


@click.command()
@robot_argument
@click.argument("what", required=False, type=_what)
@_parameters_option
@_link_option
@click.option(
    "--base",
    is_flag=True,
    help="On base parameters with general values; implied by the options below.",
)
@click.option(
    "--formulation",
    type=OneOf(lambda: (*_FORMULATIONS, "all")),
    help="Of the inertia matrix: 1 to 5 (LinFang1999), 6; all: side by side. Default: the cheapest.",  # noqa: E501
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["table", "markdown", "latex", "json"]),
    default="table",
    show_default=True,
    help="With --formulation all.",
)
@click.option(
    "--plot",
    type=click.Path(),
    help="With --formulation all: also write a figure (.png, .svg, .pdf).",
)
@click.option(
    "--counting",
    type=click.Choice(["executed", "paper"]),
    help="paper: as LinFang1999's tables count.",
)
@click.option(
    "--generic", is_flag=True, help="General geometry with the robot's joints instead of its own."
)
@_tolerance_option
@json_option
def count(
    robot: RobotSource,
    what: str | None,
    base: bool,
    as_json: bool,
    parameters: str | None,
    link: str | None,
    form: str,
    plot: str | None,
    **minimal: Any,
) -> None:
    """Count the operations of a function of a ROBOT, or of all its functions.

    Example: minidyn count panda inverse_dynamics

    Example: minidyn count puma560 inertia_matrix --counting paper

    Example: minidyn count stanford --formulation all --plot counts.png
    """
    if minimal["formulation"] == "all":
        if any(
            (
                what not in (None, "inertia_matrix"),
                parameters,
                link,
                minimal["counting"],
                minimal["generic"],
            )
        ):
            raise MinidynError(
                "--formulation all counts the inertia matrix in every way; leave out the other "
                "options and functions"
            )
        _count_formulations(
            robot, "json" if as_json else form, plot, given({"tolerance": minimal["tolerance"]})
        )
        return
    if plot or form not in ("table", "json"):
        raise MinidynError("--plot and --format are for --formulation all")
    as_json = as_json or form == "json"
    minimal["formulation"] = _number(minimal["formulation"], (*_FORMULATIONS, "all"))
    if base or any(value not in (None, False) for value in minimal.values()):
        if link is not None:
            raise MinidynError(
                "--link is for kinematics, which needs no parameters; leave out --base"
            )
        if parameters not in (None, "own"):
            raise MinidynError(
                "--base counts with base parameters as an argument; leave out --parameters"
            )
        _count_minimal(robot, what, as_json, **minimal)
    else:
        _count_standard(robot, what, given({"parameters": parameters, "link": link}), as_json)


def _number(formulation: str | None, known: tuple[str, ...]) -> int | None:
    """Return the number of a formulation; what is none is refused with those that are."""
    if formulation is None or formulation in _FORMULATIONS:
        return None if formulation is None else int(formulation)
    raise UnknownName("formulation", formulation, known)


def _count_formulations(
    source: RobotSource, form: str, plot: str | None, tolerance: dict[str, float]
) -> None:
    """Print the operations of the inertia matrix by every formulation."""
    from minidyn.display import save_figure
    from minidyn.files import check_outputs
    from minidyn.papers.formulation_table import WAYS, formulation_counts

    if plot:
        check_outputs((Path(plot),), inputs(source))
    found = formulation_counts(told(source.load()), **tolerance)
    if plot:
        save_figure(found.plot(), Path(plot))
    if form == "json":
        print_json(found.to_json())
    elif form in ("markdown", "latex"):
        click.echo(found.to_markdown() if form == "markdown" else found.to_latex(), nl=False)
    else:
        heads = [cell for way in found.counts for cell in (f"{way} M", "A")]
        rows = []
        for index, number in enumerate(found.to_json()["formulations"]):
            cells = [number]
            for way, row in found.counts.items():
                each = row[index]
                mark = "*" if str(found.best[way]) == number else ""
                cells += ["-", "-"] if each is None else [str(each[0]), f"{each[1]}{mark}"]
            rows.append(cells)
        title = (
            f"{safe(found.robot)} ({found.joints}): operations of the inertia matrix on base "
            "parameters"
        )
        print_table(title, ("formulation", *heads), rows, range(1, len(heads) + 1))
        for way, meaning in WAYS.items():
            click.echo(f"{way}: {meaning}")
        click.echo(f"* fewest. {found.summary[0].upper()}{found.summary[1:]}.")
    if plot:
        click.echo(plain(f"figure: {plot}"), err=True)


def _count_minimal(
    source: RobotSource,
    what: str | None,
    as_json: bool,
    formulation: int | None,
    counting: str | None,
    generic: bool,
    tolerance: float | None,
) -> None:
    """Print multiplications and additions on a minimal set of parameters with general values."""
    from minidyn.dynamics.papers.minimal import MINIMAL_WHAT
    from minidyn.dynamics.record import WHAT
    from minidyn.papers.operation_count import operation_count

    counting = counting or "executed"
    robot = told(source.load())
    if what is None and (formulation is not None or counting == "paper"):
        what = "inertia_matrix"
    names = MINIMAL_WHAT if what is None else (what,)
    within = given({"tolerance": tolerance})
    counts = {
        name: operation_count(robot, name, formulation, counting, not generic, **within)
        for name in names
    }
    once = {}
    if counting == "executed" and not generic:
        once = {name: _once(robot, name, formulation, within) for name in names if name in WHAT}
    if as_json:
        data = {name: {"mul": mul, "add": add} for name, (mul, add) in counts.items()}
        extra = {name: {"once_mul": mul, "once_add": add} for name, (mul, add) in once.items()}
        print_json({name: row | extra.get(name, {}) for name, row in data.items()})
        return
    how = f"{'general geometry, ' if generic else ''}{counting}"
    rows = [
        (name, str(mul), str(add), *map(str, once.get(name, ("-", "-") if once else ())))
        for name, (mul, add) in counts.items()
    ]
    heads = ("function", "mul", "add", *(("once: mul", "add") if once else ()))
    title = f"{safe(robot.name)}: operations on base parameters ({how})"
    print_table(title, heads, rows, range(1, len(heads)))
    if once:
        click.echo(
            "once: for new values of the base parameters, as an adaptive controller has them"
        )


def _once(
    robot: Robot, what: str, formulation: int | None, within: dict[str, Any]
) -> tuple[int, int]:
    """Return what depends on parameters alone: (multiplications, additions) for each new set."""
    from minidyn.base.base_parameters import base_parameters
    from minidyn.base.minimal_functions import program_for

    bare = robot.with_joints(lambda joint: replace(joint, drive=Drive()))
    bare = bare.with_parameters([0.0] * len(bare.layout))
    base = base_parameters(bare, **within)
    once = program_for(bare, what, base, formulation, "argument").counts_once
    return once["mul"] + once["div"], once["add"]


def _count_standard(
    source: RobotSource, what: str | None, settings: Mapping[str, Any], as_json: bool
) -> None:
    """Print the operations for one sample of one function, or of all."""
    from minidyn.codegen.files import function_for
    from minidyn.dynamics.record import WHAT

    robot = told(source.load())
    counts: dict[str, Mapping[str, int] | None] = {}
    for name in WHAT if what is None else (what,):
        fitting = {
            key: value
            for key, value in settings.items()
            if key != "link" or what or WHAT[name].link
        }
        try:
            counts[name] = function_for(robot, name, **fitting).counts
        except UnknownParameters as error:
            if what is not None:
                raise
            counts[name] = None
            click.echo(f"{plain(str(error))}; or count with --parameters argument", err=True)
    if as_json:
        print_json({name: row and dict(row) for name, row in counts.items()})
        return
    used = [
        kind
        for kind in _COUNTED
        if kind in _COUNTED[:4] or any(row and row[kind] for row in counts.values())
    ]
    rows = [
        (name, *(("-" if row is None else str(row[kind])) for kind in used))
        for name, row in counts.items()
    ]
    print_table(
        f"{safe(robot.name)}: operations for one sample", ("function", *used), rows, range(1, 7)
    )
