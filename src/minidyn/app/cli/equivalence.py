"""`minidyn equivalence`: whether sets of combinations are base parameters of a robot."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from minidyn.app.cli.options import RobotSource, given, json_option, option_of, robot_argument
from minidyn.app.cli.text import print_json, print_table, safe, told
from minidyn.errors import DescriptionError
from minidyn.text import plain

if TYPE_CHECKING:
    from minidyn.base.equivalence import PrintedSet

_MOST = 1_000_000  # size: characters of a file of formulas


@click.command()
@robot_argument
@click.argument("sets", nargs=-1, required=True, metavar="SET...")
@option_of(
    "base.equivalence:equivalence",
    "--tolerance",
    type=float,
    help="Largest coefficient that counts as none; 1e-3 for numbers printed with four digits.",
)
@json_option
def equivalence(robot: RobotSource, sets: tuple[str, ...], as_json: bool, **options: Any) -> None:
    """Say whether each SET is a set of base parameters of a ROBOT, and so whether sets agree.

    A SET is a text file with a formula a line, as papers print them: ZZR1 = ZZ1 + YY2 + 0.2 MX3.
    Lengths may be symbols of the robot (Lin1994 Corollary 6).

    Example: minidyn equivalence puma560 printed.txt other.txt
    """
    from minidyn.base.base_parameters import base_parameters
    from minidyn.base.equivalence import printed_set

    texts = {name: _read(name) for name in sets}
    base = base_parameters(told(robot.load()))
    found = {name: printed_set(base, text, **given(options)) for name, text in texts.items()}
    agree = all(each.equivalent for each in found.values())
    if as_json:
        data = {name: _data(each) for name, each in found.items()}
        print_json({"robot": base.robot.name, "sets": data, "equivalent": agree})
        return
    for name, each in found.items():
        table = each.table
        rows = [[safe(str(value)) for value in row] for row in zip(*table.columns.values())]
        print_table(f"{safe(name)}: {safe(table.title)}", table.columns, rows)
        if each.missing:
            click.echo(plain(f"not determined: {', '.join(each.missing)}"))
    number = f"of the {base.rank} base parameters of {base.robot.name}"
    for name, each in found.items():
        verb = "is a set" if each.equivalent else "is no set"
        click.echo(plain(f"{name} {verb} {number}"))
    if len(found) > 1 and agree:
        click.echo("the sets are equivalent: each determines the others")


def _read(name: str) -> str:
    path = Path(name)
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise DescriptionError(
            f"{plain(name)}: cannot be read as a text file of formulas ({plain(error)})"
        ) from None
    if len(text) > _MOST:
        raise DescriptionError(f"{plain(name)}: longer than {_MOST} characters")
    lines = (line.partition("#")[0].strip() for line in text.splitlines())
    return "\n".join(line for line in lines if line)


def _data(found: PrintedSet) -> dict[str, Any]:
    """Return what a set determines as plain values."""
    return {
        "names": list(found.names),
        "identifiable": [bool(value) for value in found.identifiable],
        "wrong_in": [list(names) for names in found.outside],
        "independent": found.independent,
        "complete": found.complete,
        "missing": list(found.missing),
        "equivalent": found.equivalent,
    }
