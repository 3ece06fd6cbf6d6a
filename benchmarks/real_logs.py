"""Errors on recordings that were not fitted, and whether another log gives the same model.

    python benchmarks/real_logs.py [--settings cutoff=10 --settings cutoff=10,delay=0]
    python benchmarks/real_logs.py --only KR300 --stability
    python benchmarks/real_logs.py --json FILE --docs   # FILE keeps results; a second run resumes

A row is fit -> test on logs of real robots (real_robots.py, read from ../shared/data). Columns:
plain least squares (plain.py), FIGAROH where it is installed, the product's default, and one column
for each --settings: names of `md.prepare` and `md.identify` with their values, separated by commas.
The error is ‖torque - prediction‖ / ‖torque‖ over all joints, raw measured torque; in brackets the
largest error of a joint over that of plain least squares. --stability measures what logs of one
robot agree on (stability.py). --docs writes docs/real-logs.md.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import tempfile
import time
import warnings
from ast import literal_eval
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

import minidyn as md
import stability
from minidyn.recording.ready import ready
from plain import PlainModel
from real_robots import DATA, SMOOTH_HZ, Array, Pair, pairs

DOCS = Path(__file__).parents[1] / "docs" / "real-logs.md"
PREPARATION = ("cutoff", "delay", "differentiate", "order", "resample", "time")
"""Settings of `md.prepare`; all others are those of `md.identify`."""
DEFAULT, BEFORE, PLAIN_LABEL, FIGAROH = "default", "before", "plain", "FIGAROH"
SMOOTH = f", torque low-passed at {SMOOTH_HZ:g} Hz"
Settings = Mapping[str, Any]


def settings_of(text: str) -> dict[str, Any]:
    """Return settings written as "cutoff=10,friction=own"; a value that is no literal is a name."""
    found: dict[str, Any] = {}
    for part in re.split(r",(?=\w+=)", text):
        name, _, value = part.partition("=")
        try:
            found[name] = literal_eval(value)
        except (ValueError, SyntaxError):
            found[name] = value
    return found


def fit(robot: md.Robot, log: md.Recording, settings: Settings) -> md.Estimate:
    """Return the estimate with these settings."""
    prepared = {name: settings[name] for name in PREPARATION if name in settings}
    options = {name: value for name, value in settings.items() if name not in PREPARATION}
    data = md.prepare(robot, log, **prepared) if prepared else log
    return md.identify(robot, data, **options)


def as_fitted(estimate: md.Estimate, log: md.Recording, settings: Settings) -> md.Recording:
    """Return a recording prepared as for the fit."""
    about = estimate.record.get("preparation") or {}
    prepared = {name: settings[name] for name in PREPARATION if name in settings}
    if set(prepared) - {"cutoff", "delay"}:
        known = {"cutoff": about.get("cutoff"), "delay": about.get("delay")}
        return md.prepare(estimate.robot, log, **{**known, **prepared})
    return ready(estimate.robot, log, purpose="validation", preparation=about, in_memory=True)


def errors(measured: Array, predicted: Array) -> tuple[float, list[float]]:
    """Return the relative error over all joints, and of each joint."""
    off = measured - predicted
    joints = np.linalg.norm(off, axis=0) / np.linalg.norm(measured, axis=0)
    return float(np.linalg.norm(off) / np.linalg.norm(measured)), joints.tolist()


def at_times(t: Array, times: Array, values: Array) -> Array:
    """Return values (N, n) of some times at others, on lines."""
    return np.column_stack([np.interp(t, times, column) for column in values.T])


def scored(pair: Pair, t: Array, measured: Array, predicted: Array, delay: float) -> dict[str, Any]:
    """Return the errors against raw torque and, where the pair has it, against smooth torque."""
    error, joints = errors(measured, predicted)
    row: dict[str, Any] = {"error": error, "joints": joints}
    if pair.smooth is not None:
        smooth = errors(at_times(t + delay, pair.test.t, pair.smooth), predicted)
        row |= {"smooth": smooth[0], "smooth_joints": smooth[1]}
    return row


def of_product(pair: Pair, settings: Settings) -> dict[str, Any]:
    """Return errors and choices of `md.identify`."""
    begin = time.process_time()
    estimate = fit(pair.robot, pair.fitted, settings)
    seconds = time.process_time() - begin
    test = as_fitted(estimate, pair.test, settings)
    found = md.validate(estimate, test)
    delay = float(estimate.record["preparation"].get("delay") or 0.0)
    row = scored(pair, found.t, found.measured, found.predicted, delay)
    assert found.relative_error == row["error"] or abs(found.relative_error - row["error"]) < 1e-9
    return row | stability.choices(estimate) | {"seconds": seconds}


def of_plain(pair: Pair) -> dict[str, Any]:
    """Return errors of plain least squares."""
    begin = time.process_time()
    model = PlainModel.fit(pair.robot, pair.fitted, pair.friction)
    seconds = time.process_time() - begin
    t, predicted = model.predict(pair.test)
    measured = at_times(t, pair.test.t, np.asarray(pair.test.tau))
    row = scored(pair, t, measured, predicted, 0.0)
    return row | {"parameters": len(model.beta), "cutoff": model.cutoff, "seconds": seconds}


def of_figaroh(pair: Pair) -> dict[str, Any]:
    """Return errors of FIGAROH's weighted least squares with the cut-off of the plain ones."""
    import peer_figaroh

    if len(pair.fitted.starts) > 1:
        return {"failure": "reads one log"}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "robot.urdf"
        md.save(pair.robot.with_drives(False, ()), path)
        parts = pair.fitted, pair.test
        predicted, count, seconds = peer_figaroh.run(
            path, pair.robot, *parts, 10.0, "fit", wls=True, decimate=False
        )
    row = scored(pair, pair.test.t, np.asarray(pair.test.tau), predicted, 0.0)
    return row | {"parameters": count, "seconds": seconds}


def measure(pair: Pair, label: str, settings: Settings) -> dict[str, Any]:
    """Return one cell of the table; what fails says why."""
    known = {"row": pair.name, "label": label, "code": code()}
    try:
        if label == PLAIN_LABEL:
            return known | of_plain(pair)
        return known | (of_figaroh(pair) if label == FIGAROH else of_product(pair, settings))
    except (md.MinidynError, RuntimeError, ValueError, IndexError, KeyError) as error:
        return known | {"failure": f"{type(error).__name__}: {error}"[:200]}


@cache
def code() -> str:
    """Return the commit that is measured."""
    command = ["git", "describe", "--always", "--dirty", "--exclude", "*"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


def table(rows: Sequence[Mapping[str, Any]], labels: Sequence[str]) -> str:
    """Return the table of fit -> test."""
    cells = {(row["row"], row["label"]): row for row in rows}
    lines = [f"| fit -> test | {' | '.join(labels)} |", "|---|" + "---:|" * len(labels)]
    for name in dict.fromkeys(row["row"] for row in rows):
        for key in ("error", "smooth"):
            if key not in cells.get((name, PLAIN_LABEL), {}):
                continue
            words = name + (SMOOTH if key == "smooth" else "")
            own = [
                _cell(cells.get((name, label), {}), cells[name, PLAIN_LABEL], key)
                for label in labels
            ]
            lines.append(f"| {words} | {' | '.join(own)} |")
    return "\n".join(lines)


def _cell(row: Mapping[str, Any], by_hand: Mapping[str, Any], key: str) -> str:
    """Return the error, and for the product the worst joint over plain least squares."""
    if key not in row:
        return "-"
    joints = "joints" if key == "error" else "smooth_joints"
    worst = float(np.max(np.divide(row[joints], by_hand[joints])))
    is_product = row["label"] not in (PLAIN_LABEL, FIGAROH)
    return f"{100 * row[key]:.2f} %" + (f" ({worst:.2f})" if is_product else "")


def choices_table(rows: Sequence[Mapping[str, Any]], labels: Sequence[str]) -> str:
    """Return what the product chose: cut-off, delay, terms, total mass, covered torques."""
    lines = [
        "| fit -> test | settings | cut-off, Hz | delay, ms | terms beside viscous, Coulomb, "
        "offset | mass, kg | CPU s |",
        "|---|---|---:|---:|---|---:|---:|",
    ]
    for row in rows:
        if row["label"] in labels and "terms" in row:
            terms = ", ".join(t for t in row["terms"] if t not in ("viscous", "coulomb", "offset"))
            lines.append(
                f"| {row['row']} | {row['label']} | {row['cutoff']:.3g} | {1e3 * row['delay']:.1f} "
                f"| {terms or '-'} | {row['mass']:.1f} | {row['seconds']:.1f} |"
            )
    return "\n".join(lines)


def means(rows: Sequence[Mapping[str, Any]], labels: Sequence[str]) -> str:
    """Return for each setting the geometric mean of its error over that of plain, and the rows in
    which it is worse.
    """
    plain = {row["row"]: row for row in rows if row["label"] == PLAIN_LABEL}
    default = {row["row"]: row for row in rows if row["label"] == DEFAULT}
    lines = [
        "| settings | rows | error over plain, mean | over the default | worse than plain by "
        "3 % | a joint worse by 10 % |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for label in labels:
        own = [row for row in rows if row["label"] == label and "error" in row]
        own = [row for row in own if row["row"] in plain and "error" in default.get(row["row"], {})]
        if label == PLAIN_LABEL or not own:
            continue
        ratio = np.array([row["error"] / plain[row["row"]]["error"] for row in own])
        over = np.array([row["error"] / default[row["row"]]["error"] for row in own])
        joints = [max(np.divide(row["joints"], plain[row["row"]]["joints"])) for row in own]
        lines.append(
            f"| {label} | {len(own)} | {np.exp(np.log(ratio).mean()):.3f} | "
            f"{np.exp(np.log(over).mean()):.3f} | {np.sum(ratio > 1.03)} | "
            f"{np.sum(np.array(joints) > 1.1)} |"
        )
    return "\n".join(lines)


class Kept:
    """Results of finished cells, in a file where one is given."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        kept: dict[str, list[dict[str, Any]]] = {"rows": [], "groups": []}
        self.values = json.loads(path.read_text()) if path is not None and path.exists() else kept

    def has(self, kind: str, name: str, label: str) -> bool:
        """Return whether a cell is finished."""
        return any(one["row"] == name and one["label"] == label for one in self.values[kind])

    def add(self, kind: str, cell: dict[str, Any]) -> None:
        """Keep a cell."""
        self.values[kind].append(cell)
        if self.path is not None:
            lists = (
                f'"{name}": [\n' + ",\n".join(json.dumps(_short(one)) for one in cells) + "\n]"
                for name, cells in self.values.items()
            )
            self.path.write_text("{" + ",\n".join(lists) + "}\n", encoding="utf-8")


def _short(value: Any) -> Any:
    """Return plain values with five digits."""
    if isinstance(value, dict):
        return {name: _short(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_short(one) for one in value]
    return float(f"{value:.5g}") if isinstance(value, float) else value


def write_docs(parts: Mapping[str, str]) -> None:
    """Write the tables between the marks of docs/real-logs.md."""
    text = DOCS.read_text(encoding="utf-8")
    for name, part in parts.items():
        begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
        block = f"{begin}\n\n{part}\n\n{end}"
        text, count = re.subn(f"{begin}.*?{end}", lambda _, b=block: b, text, flags=re.S)  # type: ignore[misc]
        if count != 1:
            raise SystemExit(f"{DOCS}: expected one pair of marks {begin} ... {end}")
    DOCS.write_text(text, encoding="utf-8")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", help="rows and groups whose name holds this text")
    parser.add_argument(
        "--settings", action="append", default=[], metavar="KEY=VALUE,...", help="one more column"
    )
    parser.add_argument("--stability", action="store_true", help="logs of one robot, too")
    parser.add_argument("--simulated", type=int, default=6, help="robots that are simulated there")
    parser.add_argument("--json", type=Path, help="keep results, and resume")
    parser.add_argument("--docs", action="store_true", help="write docs/real-logs.md")
    parser.add_argument(
        "--before", type=Path, help="an earlier FILE of --json: its default is shown, too"
    )
    given = parser.parse_args()
    if not DATA.is_dir():
        raise SystemExit(f"the measurements of real robots are not at {DATA}")
    warnings.simplefilter("ignore")
    labels = {PLAIN_LABEL: {}, DEFAULT: {}, **{text: settings_of(text) for text in given.settings}}
    if find_spec("figaroh") is not None:
        labels = {PLAIN_LABEL: {}, FIGAROH: {}, **labels}
    else:
        print("FIGAROH is not installed and is left out (make bench installs it)")
    kept = Kept(given.json)
    with threadpool_limits(1):
        for pair in pairs():
            for label, settings in labels.items() if given.only in pair.name else ():
                if not kept.has("rows", pair.name, label):
                    kept.add("rows", cell := measure(pair, label, settings))
                    print(f"{pair.name} | {label}: {_said(cell)}", flush=True)
        own = {name: value for name, value in labels.items() if name not in (PLAIN_LABEL, FIGAROH)}
        for group in stability.groups_of(given.simulated) if given.stability else ():
            for label, settings in own.items() if given.only in group.name else ():
                if not kept.has("groups", group.name, label):
                    cell = {"row": group.name, "label": label, "code": code()}
                    kept.add("groups", cell | stability.measure(group, settings))
                    print(f"{group.name} | {label}: done", flush=True)
    earlier = {} if given.before is None else json.loads(given.before.read_text())
    for kind, cells in earlier.items():
        kept.values[kind] += [
            {**cell, "label": BEFORE} for cell in cells if cell["label"] == DEFAULT
        ]
    first = {
        name: {}
        for name in (PLAIN_LABEL, FIGAROH, BEFORE)
        if name in labels or (name == BEFORE and earlier)
    }
    labels, own = first | labels, {BEFORE: {}, **own}
    rows = [row for row in kept.values["rows"] if given.only in row["row"]]
    cells = [cell for cell in kept.values["groups"] if given.only in cell["row"]]
    rows, cells = _in_order(rows, labels), _in_order(cells, labels)
    parts = {"fit and test": table(rows, list(labels)) + "\n\n" + means(rows, list(labels))}
    parts["choices"] = choices_table(rows, [BEFORE, DEFAULT, *given.settings[:1]])
    if cells:
        parts["stability"] = stability.tables(cells, list(own))
    for name, part in parts.items():
        print(f"\n{name}\n{part}")
    if given.docs:
        codes = ", ".join(dict.fromkeys(one["code"] for one in (*rows, *cells)))
        command = " ".join(f"--settings '{text}'" for text in given.settings)
        parts["command"] = (
            f"Code of commit {codes}; `python benchmarks/real_logs.py --stability "
            f"{command} --json real_logs.json --docs`."
        )
        write_docs(parts)


def _said(cell: Mapping[str, Any]) -> str:
    return f"{100 * cell['error']:.2f} %" if "error" in cell else str(cell["failure"])


def _in_order(rows: list[dict[str, Any]], labels: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return cells of these columns, by row as they were measured first, then by column."""
    names, columns = list(dict.fromkeys(row["row"] for row in rows)), list(labels)
    own = [row for row in rows if row["label"] in labels]
    return sorted(own, key=lambda row: (names.index(row["row"]), columns.index(row["label"])))


if __name__ == "__main__":
    main()
