"""What `minidyn compare` does.

What `minidyn payload` does.
"""

from __future__ import annotations

import json
import math
from typing import Any

import click

from minidyn.app.cli.identify import as_mapped, friction_terms, same_logs
from minidyn.app.cli.text import print_table, progress, safe, table
from minidyn.errors import MinidynError
from minidyn.formats.load import load
from minidyn.text import plain


def show_payload(
    estimate_file: str,
    logs: tuple[str, ...],
    link: str | None,
    mapping: str | None,
    rate: float | None,
    as_json: bool,
) -> None:
    """Print the load that logs carry against a saved baseline."""
    from minidyn.identification.estimate import load_estimate
    from minidyn.identification.payload.payload import identify_payload
    from minidyn.recording.read.read import read_recording

    estimate = load_estimate(estimate_file)
    options: dict[str, Any] = {} if rate is None else {"rate": rate}
    if mapping is not None:
        options["mapping"] = mapping
    with progress(f"reading {', '.join(logs)}"):
        recording = read_recording(list(logs), robot=estimate.robot, **options)
    with progress(f"identifying the load of {estimate.robot.name}"):
        found = identify_payload(estimate, recording, link=link)
    std = found.std or {}
    if as_json:
        content = {
            "mass": found.mass,
            "com": found.com.tolist(),
            "inertia": found.inertia.tolist(),
            "std": {
                "mass": std["mass"],
                "com": std["com"].tolist(),
                "inertia": std["inertia"].tolist(),
            },
            "parameters": found.ten.tolist(),
            "link": link or estimate.robot.link_names[-1],
            "realizable": found.realizable,
            "changes": found.settings["changes"],
            "notices": list(found.notices),
        }
        click.echo(json.dumps(content, indent=1))
        return
    carrier = link or estimate.robot.link_names[-1]
    rows = table(f"load of {safe(estimate.robot.name)} on {safe(carrier)}", "", "value", "std", "unit", right=(1, 2))
    for line in found.table().splitlines()[2:]:
        rows.add_row(*(cell.strip() for cell in line.strip("|").split("|")))
    print_table(rows)
    for notice in found.notices:
        click.echo(f"note: {plain(notice)}")


def show_comparison(
    source: str,
    logs: tuple[str, ...],
    held_out: tuple[str, ...],
    methods: str | None,
    friction: str,
    rotor_inertia: bool,
    mapping: str | None,
    rate: float | None,
    as_json: bool,
) -> None:
    """Print what all methods make of the same logs."""
    from minidyn.identification.compare import compare
    from minidyn.identification.estimators.methods import METHODS
    from minidyn.recording.read.read import read_recording

    robot, told = as_mapped(load(source), mapping)
    if not held_out:
        raise MinidynError("compare needs a log that is not fitted, to test the models on: --validate other.csv")
    reading: dict[str, Any] = {} if rate is None else {"rate": rate}
    if mapping is not None:
        reading["mapping"] = mapping
    drives: dict[str, Any] = {"rotor_inertia": rotor_inertia, "friction": friction_terms(friction)}
    chosen = None if methods is None else _words(methods)
    with progress(f"reading {', '.join((*logs, *held_out))}"):
        fitted = read_recording(list(logs), robot=robot, **reading)
        tested = read_recording(list(held_out), robot=robot, **reading)
    models = 2 * len(METHODS if chosen is None else chosen)  # each as it is and made possible
    with progress(f"comparing {models} models of {robot.name}", total=models) as tell:
        found = compare(robot, fitted, tested, chosen, progress=tell, **drives)
    notices = (*told, *found.notices, *same_logs(logs, held_out))
    if as_json:
        rows = [
            {
                "method": row.method,
                "consistent": row.consistent,
                "validation_error": _number(row.validation_error),
                "fit_error": _number(row.fit_error),
                "realizable": row.realizable,
                "seconds": row.seconds,
                "notices": list(row.notices),
                "failure": row.failure or None,
            }
            for row in found.rows
        ]
        click.echo(json.dumps({"rows": rows, "notices": list(notices)}, indent=1))
        return
    columns = ("method", "made possible", "validation error", "fit error", "realizable", "seconds")
    made = table(f"{safe(robot.name)}: error of the torque on logs that were not fitted", *columns, right=(2, 3, 5))
    for row in found.rows:
        asked = "yes" if row.consistent else "no"
        if row.failure:
            made.add_row(row.method, asked, "-", "-", "failed", f"{row.seconds:.2f}")
            continue
        errors = (f"{100 * error:.4g} %" for error in (row.validation_error, row.fit_error))
        made.add_row(row.method, asked, *errors, "yes" if row.realizable else "no", f"{row.seconds:.2f}")
    print_table(made)
    for row in found.rows:
        if row.failure:
            click.echo(f"{row.label} failed: {plain(row.failure)}")
    for notice in notices:
        click.echo(f"note: {plain(notice)}")
    click.echo(
        f"least validation error: {found.best.label} (possible models are preferred where they cost less than 1 %)"
    )


def _words(text: str) -> list[str]:
    return [word for word in text.replace(" ", ",").split(",") if word]


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None
