"""What `minidyn count` prints of functions that run on base parameters alone."""

from __future__ import annotations

import json

import click

from minidyn.base.operation_count import operation_count
from minidyn.cli_text import print_table, safe, table
from minidyn.dynamics.minimal import MINIMAL_WHAT
from minidyn.errors import MinidynError
from minidyn.model.load import load

__all__ = ["check_alone", "show_minimal_counts"]


def show_minimal_counts(
    source: str, what: str | None, formulation: int | None, counting: str, generic: bool, as_json: bool
) -> None:
    """Print multiplications and additions on a minimal set of parameters with general values.

    Args:
        source: Built-in robot or file.
        what: Name of the function; None: all, or the inertia matrix where only that is counted.
        formulation: Of the inertia matrix; None: the cheapest.
        counting: "executed" or "paper".
        generic: General geometry instead of the robot's own.
        as_json: Print JSON.
    """
    robot = load(source)
    if what is None and (formulation is not None or counting == "paper"):
        what = "inertia_matrix"
    names = MINIMAL_WHAT if what is None else (what,)
    counts = {name: operation_count(robot, name, formulation, counting, not generic) for name in names}
    if as_json:
        click.echo(json.dumps({name: {"mul": mul, "add": add} for name, (mul, add) in counts.items()}, indent=2))
        return
    how = f"{'general geometry, ' if generic else ''}{counting}"
    made = table(f"{safe(robot.name)}: operations on base parameters ({how})", "function", "mul", "add", right=(1, 2))
    for name, (mul, add) in counts.items():
        made.add_row(name, str(mul), str(add))
    print_table(made)


def check_alone(parameters: str, link: str | None) -> None:
    """Refuse options that make no sense with base parameters.

    Raises:
        MinidynError: With the option that is in the way.
    """
    if link is not None:
        raise MinidynError("--link is for kinematics, which needs no parameters; leave out --base")
    if parameters != "own":
        raise MinidynError("--base counts with base parameters as an argument; leave out --parameters")
