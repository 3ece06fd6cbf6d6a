"""Friction on the logs of two real robots.

Fixed splits, default settings, errors on the part that was not fitted.

    python benchmarks/friction_on_logs.py [--docs]

The logs are read from ../shared/data beside the project. Terms, widths and weights are chosen
inside the fitted part; the held-out part is looked at once, at the end. With --docs the tables are
written into docs/friction.md.
"""

from __future__ import annotations

import argparse
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from minidyn.identification.friction.choose import motion_of
from minidyn.identification.friction.table import FrictionModel, FrictionTable, Key, RigidColumns
from numpy.typing import NDArray

import minidyn as md
import real_robots
from minidyn.dynamics.functions import loads_of_motion
from minidyn.identification.rows.base_rows import Samples
from minidyn.model.drives import PLAIN

DOCS = Path(__file__).parents[1] / "docs" / "friction.md"
Array = NDArray[np.float64]

CHOICES: dict[str, tuple[str, ...] | str] = {
    "none": (),
    "viscous, coulomb, offset": PLAIN,
    "... and stribeck": (*PLAIN, "stribeck"),
    "... and sqrt": (*PLAIN, "sqrt"),
    "... and asymmetric": (*PLAIN, "asymmetric"),
    "... and cubic": (*PLAIN, "cubic"),
    "... and curve": (*PLAIN, "curve"),
    "... and load": (*PLAIN, "load"),
    "... and load, sqrt": (*PLAIN, "load", "sqrt"),
    "... and own (coupled wrist)": (*PLAIN, "own"),
    "auto": "auto",
}


@dataclass(frozen=True)
class Log:
    """A robot, what is fitted and what is held out."""

    name: str
    robot: md.Robot
    fitted: md.Recording
    held_out: md.Recording


def logs() -> Iterator[Log]:
    """Yield the logs with their splits: UR10 70/30 %, TX40 0-5 s and 5-7.5 s."""
    robot, recording, _ = real_robots.ur10()
    yield Log("UR10", robot, recording.part(0.0, 0.7), recording.part(0.7))
    robot, recording, _ = real_robots.tx40()
    yield Log("TX40", robot, recording[:25_000], recording[25_000:37_500])


def errors(estimate: md.Estimate, recording: md.Recording) -> tuple[float, float]:
    """Return the relative error against raw torque, and against torque filtered as for
    identification.
    """
    found = md.validate(estimate, recording)
    return found.relative_error, found.filtered_relative_error


def terms_table(log: Log) -> str:
    """Return a table of friction terms and what they reach."""
    rows = [
        (
            f"| {log.name}: friction | parameters | blocks held out in the fitted part | other "
            "part, raw | ... filtered |"
        ),
        "|---|---:|---:|---:|---:|",
    ]
    coupled = any(joint.drive.coupling for joint in log.robot.joints)
    for label, friction in CHOICES.items():
        if "own" in friction and not coupled:
            continue
        estimate = md.identify(log.robot, log.fitted, friction=friction)
        raw, filtered = errors(estimate, log.held_out)
        inside = estimate.record.get("friction_error")
        shown = "" if inside is None else f"{100 * inside:.2f} %"
        chosen = f"auto: {', '.join(estimate.record['friction'])}" if label == "auto" else label
        rows.append(
            f"| {chosen} | {len(estimate.beta)} | {shown} | {100 * raw:.2f} % | "
            f"{100 * filtered:.2f} % |"
        )
    ready = md.prepare(log.robot, log.held_out)
    measured = np.asarray(ready.telemetry["tau_raw"])
    faster = float(np.linalg.norm(measured - ready.tau) / np.linalg.norm(measured))
    rows += [
        "",
        f"Of the {log.name}'s raw torque {100 * faster:.1f} % lie above the cut-off of the filter.",
    ]
    return "\n".join(rows)


def tried_table(log: Log) -> str:
    """Return what the choice of terms tried, in order."""
    estimate = md.identify(log.robot, log.fitted, friction="auto")
    rows = [
        f"| {log.name}: added | to | fewer squares in held-out blocks | uncertainty | taken |",
        "|---|---|---:|---:|---|",
    ]
    for tried in estimate.record["friction_tried"]:
        before = ", ".join(tried["with"])
        rows.append(
            f"| {', '.join(tried['added'])} | {before} | {100 * tried['gain']:.1f} % "
            f"| {100 * tried['uncertainty']:.1f} % | {'yes' if tried['taken'] else ''} |"
        )
    return "\n".join(rows)


def load_table(log: Log) -> str:
    """Return the error with the torque at rest and with the whole torque as the load that friction
    grows with.
    """
    estimate = md.identify(log.robot, log.fitted, friction=(*PLAIN, "load"), consistent=False)
    robot = estimate.robot
    bare = log.robot.with_drives(friction=())
    rigid = [name for name in estimate.base.kept if name in bare.layout]
    widths = np.array([joint.drive.sign_width for joint in robot.joints])
    parts = [motion_of(robot, md.prepare(robot, part)) for part in (log.fitted, log.held_out)]
    rows = ["| load | " + log.name + ", other part, filtered |", "|---|---:|"]
    for label in (
        "torque at rest (gravity)",
        "whole torque of the links (gravity, acceleration, speed)",
    ):
        model, parameters = FrictionModel(PLAIN, (0,) * len(robot.joints)), np.zeros(0)
        for _ in range(8):
            found = _table(log, rigid, parts[0], widths, parameters, label)
            sigma = found.noise(model)
            keys, values = found.fit(model, sigma)
            known = {key[0]: value for key, value in zip(keys, values)}
            parameters = np.array([known.get(name, 0.0) for name in bare.layout.names])
            model = FrictionModel((*PLAIN, "load"), model.widths)
        other = _table(log, rigid, parts[1], widths, parameters, label)
        error = _error(other, dict(zip(keys, values)))
        rows.append(f"| {label} | {100 * error:.2f} % |")
    return "\n".join(rows)


def _table(
    log: Log, rigid: list[str], motion: Samples | None, widths: Array, parameters: Array, label: str
) -> FrictionTable:
    if motion is None:
        raise SystemExit("the logs lack signals")
    bare = log.robot.with_drives(friction=())
    loads = None
    if parameters.size:
        moves = float(label.startswith("whole"))
        loads = loads_of_motion(bare, motion.q, moves * motion.dq, moves * motion.ddq, parameters)
    falls = [np.full(len(log.robot.joints), 0.1)]
    return RigidColumns.of(log.robot, rigid, motion).table((*PLAIN, "load"), [widths], falls, loads)


def _error(table: FrictionTable, values: dict[Key, float]) -> float:
    left = torque = 0.0
    for own, products in zip(table.columns, table.products):
        x = np.array([*(values.get(key, 0.0) for key in own), -1.0])
        left += float(x @ products.sum(axis=0) @ x)
        torque += float(products[:, -1, -1].sum())
    return math.sqrt(max(left, 0.0) / torque)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--docs", action="store_true", help="write the tables into docs/friction.md"
    )
    options = parser.parse_args()
    if not real_robots.DATA.is_dir():
        raise SystemExit(f"the measurements of real robots are not at {real_robots.DATA}")
    found = list(logs())
    text = "\n\n".join(
        [
            *(terms_table(log) for log in found),
            *(load_table(log) for log in found),
            *(tried_table(log) for log in found),
        ]
    )
    print(text)
    if options.docs:
        old = DOCS.read_text(encoding="utf-8")
        marks = "<!-- real logs: begin -->", "<!-- real logs: end -->"
        new, count = re.subn(
            f"{marks[0]}.*?{marks[1]}",
            lambda _: f"{marks[0]}\n\n{text}\n\n{marks[1]}",
            old,
            flags=re.S,
        )
        if count != 1:
            raise SystemExit(f"{DOCS}: expected one pair of marks {marks[0]} ... {marks[1]}")
        DOCS.write_text(new, encoding="utf-8")


if __name__ == "__main__":
    main()
