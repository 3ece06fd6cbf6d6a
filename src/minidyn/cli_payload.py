"""What `minidyn payload` does."""

from __future__ import annotations

import json
from typing import Any

import click

from minidyn.cli_text import plain, print_table, progress, safe, table

__all__ = ["show_payload"]


def show_payload(
    estimate_file: str,
    logs: tuple[str, ...],
    link: str | None,
    mapping: str | None,
    rate: float | None,
    as_json: bool,
) -> None:
    """Print the load that logs carry against a saved baseline."""
    from minidyn.experiment.read import read_recording
    from minidyn.identification.estimate import load_estimate
    from minidyn.identification.payload import identify_payload

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
