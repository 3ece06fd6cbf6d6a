"""`minidyn base`, `minidyn count` and `minidyn generate`: base parameters, operation counts, source code."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from minidyn.app.cli.options import OneOf, given, json_option, option_of, output_option, robot_argument
from minidyn.app.cli.text import console, print_json, print_notices, print_table, safe, table
from minidyn.base.base_map import BaseMap
from minidyn.base.base_parameters import base_parameters
from minidyn.base.printing.relations import relations, relations_json
from minidyn.codegen.files import TARGETS, code_files, function_for
from minidyn.dynamics.papers.minimal import MINIMAL_WHAT
from minidyn.dynamics.record import WHAT
from minidyn.errors import DescriptionError, MinidynError, UnknownParameters
from minidyn.files import write_atomically
from minidyn.formats.load import load
from minidyn.papers.operation_count import operation_count
from minidyn.text import plain, plain_number

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
@option_of(
    base_parameters,
    "--method",
    type=OneOf(lambda: ["exact", "qr", "svd", "mlc", "rules+qr"]),
    help="exact (no tolerance), qr, svd, mlc (closed-form rule) or rules+qr (the rule first, qr on the rest).",
)
@option_of(base_parameters, "--model", help="torque, static (zero speed) or energy.")
@click.option("--joint", "joints", multiple=True, help="A joint that moves, the others held; repeat. Default: all.")
@click.option("--gravity", nargs=3, type=float, help="Another gravity, m/s²: x y z.")
@click.option("--scaling", help="For qr, svd and rules+qr: columns, or paper for the row-wise search of states.")
@click.option("--version", help="For mlc: 1999 or 1992, of the inertia constants. Default: 1999.")
@click.option("--for", "for_", help="For mlc: torque, gravity or inertia, what the set must determine.")
@option_of(base_parameters, "--seed", type=int, help="Of everything random.")
@click.option(
    "--format", "form", type=click.Choice(["table", "markdown", "latex", "json"]), default="table", show_default=True
)
@click.option("--json", "as_json", is_flag=True, help="The same as --format json.")
def base(
    robot: str,
    joints: tuple[str, ...],
    gravity: tuple[float, float, float] | None,
    form: str,
    as_json: bool,
    **options: Any,
) -> None:
    """Find the base parameters of a ROBOT and print each as a formula of standard ones.

    Example: minidyn base puma560

    Example: minidyn base puma560 --method mlc --version 1992 --for gravity
    """
    found = base_parameters(load(robot, gravity=gravity), joints=joints or None, **given(options))
    if as_json or form == "json":
        print_json(found.to_json() | {"relations": relations_json(found), "values": _values(found)})
    elif form == "markdown":
        click.echo(found.to_markdown(), nl=False)
    elif form == "latex":
        click.echo(found.to_latex(), nl=False)
    else:
        _print(found)


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


def _print(base: BaseMap) -> None:
    out = console()
    title = (
        f"Base parameters of {safe(base.robot.name)}: {len(base.robot.layout)} = {base.rank} base + "
        f"{len(base.regrouped)} regrouped + {len(base.eliminated)} without effect"
    )
    values = _values(base)
    made = table(
        title, "#", "name", *(["value"] if values else []), "in standard parameters", right=(0, 2)[: 1 + bool(values)]
    )
    for k, relation in enumerate(relations(base)):
        value = [plain_number(values[k])] if values else []
        made.add_row(str(k + 1), safe(relation.name), *value, safe(relation.formula()))
    print_table(made)
    out.print(f"model: {base.model}, method: {base.method}" + (f", gap {base.gap:.1e}" if base.gap < 1e300 else ""))
    if base.structure is not None:
        for line in base.structure.describe().splitlines():
            out.print(safe(line))
    if base.joints is not None:
        out.print(f"moving: {', '.join(safe(name) for name in base.joints)}; the other joints are held")
    for why, names in _without_effect(base).items():
        out.print(f"no effect: {', '.join(names)} ({safe(why)})")
    print_notices(base.notices)


def _without_effect(base: BaseMap) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name in base.eliminated:
        found.setdefault(base.statuses[name].partition(": ")[2], []).append(name)
    return found


def _values(base: BaseMap) -> list[float] | None:
    """Return the base parameters' values, None where the robot's are not known."""
    try:
        return [float(value) for value in base.values()]
    except UnknownParameters:
        return None
