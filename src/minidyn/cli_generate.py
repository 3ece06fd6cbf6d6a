"""What `minidyn generate` writes and `minidyn count` prints."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import click

from minidyn.base.code_files import code_files, function_for
from minidyn.cli_text import plain, print_table, safe, table
from minidyn.dynamics.record import WHAT
from minidyn.errors import DescriptionError, UnknownParameters
from minidyn.model.load import load
from minidyn.model.load.text_file import write_atomically

__all__ = ["generate_code", "show_counts"]

_COUNTED = ("mul", "add", "div", "sincos", "sqrt", "other")


def generate_code(
    source: str, what: str, target: str, output: str, parameters: str, link: str | None, as_json: bool = False
) -> None:
    """Write a robot's function as source code and print the paths.

    Args:
        source: Built-in robot or file.
        what: Name of the function.
        target: "c", "python", "jax" or "llvm".
        output: Folder; made where it does not exist.
        parameters: "own" bakes the robot's values in, "argument" makes them the function's last argument.
        link: For kinematics, a link or frame.
        as_json: Print paths and operation counts as JSON.
    """
    robot = load(source)
    function = function_for(robot, what, parameters, link)
    folder = Path(output)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DescriptionError(f"{folder}: the folder cannot be made ({error.strerror or error})") from None
    paths = []
    for name, text in code_files(robot, function, target).items():
        path = folder / name  # made of letters, digits and underscores alone
        write_atomically(path, text.encode())
        paths.append(str(path))
    if as_json:
        data = {"function": what, "robot": robot.name, "target": target, "counts": dict(function.counts)}
        click.echo(json.dumps(data | {"files": paths}, indent=2))
        return
    for written in paths:
        click.echo(written)
    counts = ", ".join(f"{number} {kind}" for kind, number in function.counts.items() if number)
    click.echo(plain(f"{what} of {robot.name}: {counts or 'no operations'}"), err=True)


def show_counts(source: str, what: str | None, parameters: str, link: str | None, as_json: bool) -> None:
    """Print the operations for one sample of one function, or of all.

    Args:
        source: Built-in robot or file.
        what: Name of the function; None: all.
        parameters: "own" or "argument".
        link: For kinematics, a link or frame.
        as_json: Print JSON.
    """
    robot = load(source)
    counts: dict[str, Mapping[str, int] | None] = {}
    if what is not None:
        counts[what] = function_for(robot, what, parameters, link).counts
    else:
        for name, wanted in WHAT.items():
            try:
                counts[name] = function_for(robot, name, parameters, link if wanted.link else None).counts
            except UnknownParameters as error:
                counts[name] = None
                click.echo(f"{plain(str(error))}; or count with --parameters argument", err=True)
    if as_json:
        click.echo(json.dumps(counts, indent=2))
        return
    used = [kind for kind in _COUNTED if kind in _COUNTED[:4] or any(row and row[kind] for row in counts.values())]
    made = table(f"{safe(robot.name)}: operations for one sample", "function", *used, right=tuple(range(1, 7)))
    for name, row in counts.items():
        made.add_row(name, *(("-" if row is None else str(row[kind])) for kind in used))
    print_table(made)
