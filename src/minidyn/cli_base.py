"""What `minidyn base` prints."""

from __future__ import annotations

import json
from collections.abc import Sequence

import click

from minidyn.base.base_map import BaseMap
from minidyn.base.base_parameters import base_parameters
from minidyn.base.relations import relations, relations_json
from minidyn.cli_text import console, number, print_table, safe, table
from minidyn.errors import UnknownParameters
from minidyn.model.load import load

__all__ = ["show_base"]


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
        value = [number(values[k])] if values else []
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
        out.print(f"[yellow]notice:[/yellow] {safe(notice)}")


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
