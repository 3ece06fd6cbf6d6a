"""`minidyn base`: base parameters as formulas of standard ones."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from minidyn.app.cli.options import (
    Files,
    OneOf,
    RobotSource,
    check_figure,
    constant,
    given,
    inputs,
    measured_option,
    option_of,
    robot_argument,
)
from minidyn.app.cli.text import console, print_json, print_notices, print_table, safe, told
from minidyn.errors import UnknownParameters
from minidyn.text import plain, plain_number

if TYPE_CHECKING:
    from minidyn.base.base_map import BaseMap
    from minidyn.model.robot import Robot

_FUNCTION = "base.base_parameters:base_parameters"
_MODELS = constant("base.rows", "MODELS")


@click.command()
@robot_argument
@option_of(
    _FUNCTION,
    "--method",
    type=OneOf(lambda: ["exact", "qr", "svd", "mlc", "rules+qr"]),
    help=(
        "exact (no tolerance), qr, svd, mlc (closed-form rule) or rules+qr (the rule first, qr on "
        "the rest)."
    ),
)
@option_of(
    _FUNCTION,
    "--model",
    type=OneOf(lambda: _MODELS),
    help="; ".join(f"{name}: {words}" for name, words in _MODELS.items()) + ".",
)
@click.option(
    "--joint",
    "joints",
    multiple=True,
    help="A joint that moves, the others held; repeat. Default: all.",
)
@measured_option
@click.option(
    "--motion",
    metavar="LOG",
    type=click.Path(),
    help="A log: the set that its motion shows, and the condition number.",
)
@click.option(
    "--scaling",
    help=(
        "For qr, svd and rules+qr: columns; paper: row-wise search of states; or weights of its "
        "J, such as 0.1,1."
    ),
)
@click.option("--version", help="For mlc: 1999 or 1992, of the inertia constants. Default: 1999.")
@click.option("--for", "for_", hidden=True, help="The old name of --model for mlc.")
@option_of(
    _FUNCTION,
    "--tolerance",
    type=float,
    help=(
        "Axes that are special within this, rad and share of the robot's size, are exactly so; 0: "
        "as written."
    ),
)
@option_of(
    _FUNCTION,
    "--massless-known",
    is_flag=True,
    help="Links that are massless in the robot's file are known, and not counted.",
)
@option_of(_FUNCTION, "--seed", type=int, help="Of everything random.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["table", "markdown", "latex", "json"]),
    default="table",
    show_default=True,
)
@click.option("--json", "as_json", is_flag=True, help="The same as --format json.")
@click.option(
    "--frames",
    type=click.Choice(["file", "mdh"]),
    default="file",
    show_default=True,
    help="mdh: of the parameters in modified Denavit-Hartenberg frames (minidyn show --mdh).",
)
@click.option(
    "--evidence", is_flag=True, help="What the number rests on: T_ii, σ_i, R_ii, V2 and the gap."
)
@click.option(
    "--split",
    is_flag=True,
    help="The sets of the inertia matrix and of gravity, and what both share (Lin1994 Theorem 2).",
)
@click.option("--plot", metavar="FILE", help="Also draw the evidence: .png, .svg or .pdf.")
def base(
    robot: RobotSource,
    joints: Files,
    measured: Files,
    motion: str | None,
    form: str,
    as_json: bool,
    frames: str,
    evidence: bool,
    split: bool,
    plot: str | None,
    **options: Any,
) -> None:
    """Find the base parameters of a ROBOT and print each as a formula of standard ones.

    Example: minidyn base puma560

    Example: minidyn base puma560 --method mlc --version 1992 --model gravity

    Example: minidyn base puma560 --evidence --plot gap.png

    Example: minidyn base iiwa14 --frames mdh

    Example: minidyn base stanford --split
    """
    from minidyn.base.base_parameters import base_parameters
    from minidyn.base.printing.relations import relations_json

    if plot is not None:
        check_figure(plot, inputs(robot))
    arm = told(robot.load())
    if frames == "mdh":
        arm = arm.mdh(**given({"tolerance": options["tolerance"]})).robot
    if split:
        _split(arm, given({"tolerance": options["tolerance"]}), as_json or form == "json")
        return
    options |= {"joints": joints or None, "measured": measured or None}
    if motion is not None:
        from minidyn.recording.ready import as_recording, prepare

        options["motion"] = prepare(arm, as_recording(motion, arm)).load()
    found = base_parameters(arm, **given(options))
    if evidence or plot is not None:
        _evidence(found, given({"seed": options["seed"]}), plot, as_json or form == "json")
        return
    if as_json or form == "json":
        print_json(found.to_json() | {"relations": relations_json(found), "values": _values(found)})
    elif form == "markdown":
        click.echo(found.to_markdown(), nl=False)
    elif form == "latex":
        click.echo(found.to_latex(), nl=False)
    else:
        _print(found)


def _split(robot: Robot, within: dict[str, Any], as_json: bool) -> None:
    """Print the sets of the inertia matrix and of gravity."""
    from minidyn.base.closed_form.partition import inertia_and_gravity

    found = inertia_and_gravity(robot, **within)
    table = found.table
    if as_json:
        columns = {name: list(values) for name, values in table.columns.items()}
        print_json({"robot": robot.name, "gravity": list(found.gravity.names)} | columns)
        return
    rows = [[safe(str(value)) for value in row] for row in zip(*table.columns.values())]
    print_table(safe(table.title), table.columns, rows)
    out = console()
    out.print(f"gravity's set: {', '.join(map(safe, found.gravity.names)) or 'empty'}")
    own = len(found.first) + found.gravity.rank
    out.print(f"{own} elements determine all torques but friction: own parts and gravity's set")


def _evidence(base: BaseMap, seed: dict[str, int], plot: str | None, as_json: bool) -> None:
    """Print the values of Gautier's Tables II and III, and draw them."""
    from minidyn.display import save_figure

    found = base.evidence(**seed)
    if plot is not None:
        save_figure(found.plot(), Path(plot))
    if as_json:
        files = [] if plot is None else [plot]
        print_json(base.to_json() | {"evidence": found.to_json(), "files": files})
        return
    for table in (found.table, found.base_table):
        rows = [[_shown(value) for value in row] for row in zip(*table.columns.values())]
        numbers = [
            k for k, values in enumerate(table.columns.values()) if not isinstance(values[0], str)
        ]
        print_table(safe(table.title), table.columns, rows, right=numbers)
    if found.zero:
        console().print(f"zero columns: {', '.join(map(safe, found.zero))}")
    print_notices(base.notices)
    if plot is not None:
        click.echo(f"written: {plain(plot)}")


def _shown(value: object) -> str:
    return f"{value:.3e}" if isinstance(value, float) else safe(str(value))


def _print(base: BaseMap) -> None:
    from minidyn.base.printing.relations import legend_of, without_effect

    out = console()
    title = (
        f"Base parameters of {safe(base.robot.name)}: {len(base.robot.layout)} = {base.rank} base "
        f"+ {len(base.regrouped)} regrouped + {len(base.eliminated)} without effect"
    )
    values = _values(base)
    shown = [[plain_number(value)] for value in values] if values else [[]] * base.rank
    rows = [
        (str(number), safe(relation.name), *value, safe(relation.formula()))
        for number, (relation, value) in enumerate(zip(base.relations(), shown), 1)
    ]
    columns = ("#", "name", *(["value"] if values else []), "in standard parameters")
    print_table(title, columns, rows, right=(0, 2)[: 1 + bool(values)])
    legend = legend_of(base)
    if legend:
        out.print(f"with {safe(legend)}")
    out.print(
        f"model: {base.model}, method: {base.method}"
        + (f", gap {base.gap:.1e}" if base.gap < 1e300 else "")
    )
    out.print(f"check at random states: {base.check}")
    if base.structure is not None:
        for line in base.structure.describe().splitlines():
            out.print(safe(line))
    if base.measured is not None:
        out.print(f"torques measured: {', '.join(safe(name) for name in base.measured)}")
    if base.motion is not None:
        out.print(f"of this motion alone, condition number {base.condition:.3g}")
    if base.joints is not None:
        out.print(
            f"moving: {', '.join(safe(name) for name in base.joints)}; the other joints are held"
        )
    for why, names in without_effect(base).items():
        out.print(f"no effect: {', '.join(names)} ({safe(why)})")
    print_notices(base.notices)


def _values(base: BaseMap) -> list[float] | None:
    """Return the base parameters' values, None where the robot's are not known."""
    try:
        return [float(value) for value in base.values()]
    except UnknownParameters:
        return None
