"""What `minidyn base` prints.

What `minidyn count` prints of functions that run on base parameters alone.

What `minidyn generate` writes and `minidyn count` prints.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import click

from minidyn.app.cli.text import console, print_table, safe, table
from minidyn.base.base_map import BaseMap
from minidyn.base.base_parameters import base_parameters
from minidyn.base.printing.relations import relations, relations_json
from minidyn.codegen.files import code_files, function_for
from minidyn.dynamics.papers.minimal import MINIMAL_WHAT
from minidyn.dynamics.record import WHAT
from minidyn.errors import DescriptionError, MinidynError, UnknownParameters
from minidyn.files import write_atomically
from minidyn.formats.load import load
from minidyn.papers.operation_count import operation_count
from minidyn.text import plain, plain_number


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


def show_base(
    source: str,
    method: str,
    model: str,
    seed: int,
    form: str,
    joints: Sequence[str] = (),
    gravity: Sequence[float] | None = None,
    **options: str,
) -> None:
    """Print the base parameters of one robot.

    Args:
        source: Built-in robot or file.
        method: "exact", "qr", "svd", "mlc" or "rules+qr".
        model: "torque", "static" or "energy".
        seed: Of the random states.
        form: "table", "markdown", "latex" or "json".
        joints: Names of the joints that move; none: all.
        gravity: Other gravity (3,), m/s²; None: the robot's.
        options: Of the method, see :func:`minidyn.base.base_parameters.base_parameters`.
    """
    robot = load(source)
    if gravity is not None:
        robot = robot.with_gravity(gravity)
    base = base_parameters(robot, method, model, seed, joints=tuple(joints) or None, **options)
    if form == "json":
        data = base.to_json() | {"relations": relations_json(base), "values": _values(base)}
        click.echo(json.dumps(data, indent=2, allow_nan=False))
    elif form == "markdown":
        click.echo(base.to_markdown(), nl=False)
    elif form == "latex":
        click.echo(base.to_latex(), nl=False)
    else:
        _print(base)


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
    for notice in base.notices:
        out.print(f"[yellow]notice:[/yellow] {safe(str(notice))}")


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
