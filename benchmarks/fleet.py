"""How often a healthy robot of a fleet is listed, and how often a fault is found and named.

    python benchmarks/fleet.py [--robots 1500] [--faults 50] [--docs] [--json FILE]
    python benchmarks/fleet.py --large 1000      # one large fleet from files, by the shell: time, memory, sizes

Robots of two types are simulated, each with friction, offsets and drive gains of its own: "two
joints" with 5 % spread of every friction parameter, 1 % of gains, logs of 6 s; "three joints" with
spreads that differ by joint (2, 5 and 8 %) and logs of 3 to 12 s. Torques have noise of 2 % of
their size, motions are random. The same robots are grouped into fleets of several sizes: `false` is
the share of healthy robots that are listed at level 5 %. `drawn` is the same for many more fleets,
of which only estimates are drawn, with spreads and correlations of those of 200 robots; they are
compared as identify_fleet does it. Then one robot of each
fleet has a fault: `found` is how often it is listed, `named` how often with the right cause and
joint first. With --docs table and figure of docs/clusters.md are written.
"""  # noqa: E501

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import minidyn as md
from minidyn.arrays import single_thread
from minidyn.base.base_parameters import base_parameters
from minidyn.identification.fleet.chances import Together, others
from minidyn.identification.fleet.deviations import Comparison, compared, fitted
from minidyn.identification.fleet.logs import Logs
from minidyn.identification.fleet.members import Member, reduced
from minidyn.model.parameters import from_body, transform

DOCS = Path(__file__).parents[1] / "docs" / "clusters.md"
FIGURE = Path(__file__).parents[1] / "docs" / "figures" / "fleet.svg"
_BEGIN, _END = "<!-- fleet: begin -->\n", "<!-- fleet: end -->"
LEVEL = 0.05
TERMS = ("viscous", "coulomb", "offset")
SIZES = (3, 5, 10, 20, 50)
DRAWN = 20_000  # robots whose estimates are drawn
LARGEST = 20  # of fleets with a fault
MOTIONS, RATE = 20, 100
DRIVES = {"Ia": 0.2, "Fv": 2.0, "Fc": 1.5, "Fo": 0.3}
SPREADS = {"two joints": (0.05, 0.05), "three joints": (0.02, 0.05, 0.08)}
FAULTS: dict[str, tuple[str, int, float]] = {
    "friction of joint 2 +20 %": ("friction", 1, 0.2),
    "friction of joint 2 +40 %": ("friction", 1, 0.4),
    "drive gain of joint 1 +5 %": ("gain", 0, 0.05),
    "1 kg at the flange": ("load", -1, 1.0),
}
THREE = """
name = "three joints"
gravity = [0, 0, -9.81]
[[joint]]
name = "waist"
d = 0.4
[[joint]]
name = "shoulder"
alpha = 1.5707963267948966
[[joint]]
name = "elbow"
a = 0.5
[[joint]]
name = "flange"
type = "fixed"
child = "hand"
a = 0.45
[[link]]
name = "link1"
mass = 8.0
inertia = [0.1, 0, 0, 0.1, 0, 0.05]
[[link]]
name = "link2"
mass = 6.0
com = [0.22, 0.01, 0.02]
inertia = [0.02, 0, 0, 0.15, 0, 0.15]
[[link]]
name = "link3"
mass = 3.0
com = [0.15, 0.0, -0.02]
inertia = [0.01, 0, 0, 0.05, 0, 0.05]
[[link]]
name = "hand"
mass = 1.0
com = [0.05, 0, 0]
inertia = [0.001, 0, 0, 0.001, 0, 0.001]
"""


@cache
def type_of(name: str) -> md.Robot:
    """Return the robot that all of a type are like."""
    if name == "two joints":
        robot = md.load("two_link")
    else:
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "three.toml").write_text(THREE)
            robot = md.load(Path(folder) / "three.toml")
    robot = robot.with_drives(True, TERMS, sign_width=0.05)
    values = np.nan_to_num(robot.parameters)
    for column in robot.layout.columns:
        if not column.is_inertial:
            values[column.index] = DRIVES[column.symbol]
    return robot.with_parameters(values)


@cache
def base_of(name: str) -> md.BaseMap:
    """Return the base parameters of a type."""
    return base_parameters(type_of(name))


@cache
def motion(name: str, seed: int) -> tuple[np.ndarray, ...]:
    """Return times, positions, speeds, accelerations and the regressor along one of the motions."""
    t = np.arange(0, 12, 1 / RATE)
    signals = md.trajectory.fourier(type_of(name), seed=seed, speed=1.5)(t)
    return t, *signals, md.regressor(type_of(name), *signals)


def log_of(
    name: str,
    rng: np.random.Generator,
    fault: tuple[str, int, float] | None = None,
    motions: int = MOTIONS,
    friction: float = 1.0,
) -> md.Recording:
    """Return a log of one robot of a type, healthy or with a fault, on one of so many motions.

    Friction of all joints is that many times the usual one, beside what robots differ by.
    """
    robot = type_of(name)
    values, joints = robot.parameters.copy(), robot.n
    kind, joint, size = fault or ("", 0, 0.0)
    for column in robot.layout.columns:
        if column.symbol in ("Fv", "Fc"):
            values[column.index] *= friction * (1 + SPREADS[name][column.joint] * rng.normal())
            values[column.index] *= 1 + size * (kind == "friction" and column.joint == joint)
        elif column.symbol == "Fo":
            values[column.index] += 0.1 * rng.normal()
    if kind == "load":
        carried = from_body(
            size, (0.03, 0.02, 0.05), 0.002 * size * np.eye(3)
        )  # beside the flange, in its frame
        values[robot.layout.links[-1]] += transform(carried, flange(robot))
    gains = 1 + 0.01 * rng.normal(size=joints)
    gains[joint] += size * (kind == "gain")
    length = RATE * (6 if name == "two joints" else int(rng.integers(3, 13)))
    t, q, dq, ddq, Y = (array[:length] for array in motion(name, int(rng.integers(motions))))
    tau = gains * (Y @ values)
    tau += 0.02 * np.sqrt(np.mean(tau**2, axis=0)) * rng.normal(size=tau.shape)
    return md.Recording(t, q, tau, dq, ddq, robot.joint_names)


def member(name: str, number: int, fault: tuple[str, int, float] | None = None) -> Member:
    """Return one robot of a type, healthy or with a fault."""
    log = log_of(name, np.random.default_rng((number, len(name), fault is not None)), fault)
    return reduced(type_of(name), base_of(name), Logs(f"robot {number}", (("", log),)))


def flange(robot: md.Robot) -> np.ndarray:
    """Return the placement of the flange on the last link."""
    made = np.eye(4)
    made[0, 3] = 0.8 if robot.n == 2 else 0.45
    return made


def spreads_of(name: str, healthy: Sequence[Member]) -> Comparison:
    """Return all of some robots compared, which has the spreads and correlations of their
    estimates.
    """
    return Comparison(fitted(base_of(name), healthy), healthy, np.ones(len(healthy), dtype=bool))


def drawn(known: Comparison, size: int, robots: int) -> float:
    """Return the share of healthy robots that are listed, in fleets of which estimates alone are
    drawn.
    """
    rng, everyone = np.random.default_rng(size), np.ones(size, dtype=bool)
    root = np.linalg.cholesky(np.cov(known.x))
    together = Together(known._correlation(), known.kinds, size - 2)
    listed = []
    for _ in range(robots // size):
        x, V = (
            root @ rng.normal(size=(len(root), size)),
            known.V[:, rng.integers(known.V.shape[1], size=size)],
        )
        x *= np.sqrt(V / np.mean(known.V, axis=1, keepdims=True))
        p = others(x, V, everyone, known.kinds, known._scale()).chance(
            slice(None), slice(None), x, V
        )
        listed.append(together.chance(p.min(axis=0)) < LEVEL)
    return float(np.mean(listed))


@single_thread()
def measured(name: str, robots: int, faults: int, first: int = 0) -> list[dict[str, Any]]:
    """Return the figures of a type, one row for each size of fleets."""
    base, begun = base_of(name), time.perf_counter()
    healthy = [member(name, first + number) for number in range(robots)]
    broken = {
        words: [member(name, number, fault) for number in range(faults)]
        for words, fault in FAULTS.items()
    }
    print(
        f"{name}: {robots + faults * len(FAULTS)} robots reduced in "
        f"{time.perf_counter() - begun:.0f} s",
        flush=True,
    )
    rows, known = [], spreads_of(name, healthy[:200])
    for size in SIZES:
        groups = [healthy[k : k + size] for k in range(0, robots - size + 1, size)]
        listed = np.concatenate([compared(base, group, LEVEL)[2] < LEVEL for group in groups])
        row: dict[str, Any] = {
            "type": name,
            "size": size,
            "robots": len(listed),
            "false": float(np.mean(listed)),
        }
        row["drawn"] = drawn(known, size, DRAWN)
        for words, (kind, joint, _) in FAULTS.items() if size <= LARGEST else ():
            found, named = [], []
            wanted = type_of(name).joints[joint].name if kind != "load" else ""
            for number, one in enumerate(broken[words]):
                begin = number * (size - 1) % (robots - size)
                made, _, chances = compared(base, [one, *healthy[begin : begin + size - 1]], LEVEL)
                first = made.found(0, LEVEL)[:1] if chances[0] < LEVEL else []
                found.append(bool(chances[0] < LEVEL))
                named.append(any((part.kind, part.joint) == (kind, wanted) for part in first))
            row[words] = [float(np.mean(found)), float(np.mean(named))]
        rows.append(row)
        print(row, flush=True)
    return rows


def large(robots: int) -> dict[str, Any]:
    """Return what `minidyn fleet` takes for a large fleet.

    Parquet files of 6 s, three robots with faults.
    """
    rng, faults = (
        np.random.default_rng(0),
        dict(zip(range(robots // 4, robots, robots // 4), FAULTS.values())),
    )
    with tempfile.TemporaryDirectory() as folder:
        for number in range(robots):
            log = log_of("two joints", rng, faults.get(number))
            place = Path(folder) / "data" / f"robot=arm-{number:04}" / "date=2026-11-02"
            place.mkdir(parents=True)
            md.Recording(log.t, log.q, log.tau, joint_names=log.joint_names).save(
                place / "part-0.parquet"
            )
        words = [
            "fleet",
            "two_link",
            f"{folder}/data",
            "--friction",
            ",".join(TERMS),
            "--output",
            f"{folder}/out",
        ]
        code = (
            f"from minidyn.app.cli.main import main; main({['-q', *words, '--level', '0.001']!r})"
        )
        begun = time.perf_counter()
        done = subprocess.run(
            [sys.executable, "-c", code], check=False, capture_output=True, text=True
        )
        print(done.stdout, done.stderr)
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        sizes = {
            file.name: file.stat().st_size / 1e6 for file in sorted(Path(folder, "out").iterdir())
        }
        return {
            "robots": robots,
            "processor": used.ru_utime + used.ru_stime,
            "clock": time.perf_counter() - begun,
            "memory": used.ru_maxrss / 1024,
            "megabytes": sizes,
            "faults": [f"arm-{number:04}" for number in faults],
        }


def table(rows: list[dict[str, Any]]) -> str:
    """Return the figures as Markdown."""
    lines = [
        "| type | robots in a fleet | false alarms | of drawn estimates | "
        + " | ".join(FAULTS)
        + " |"
    ]
    lines.append("|---|---:|---:|---:|" + "---:|" * len(FAULTS))
    for row in rows:
        errors = [
            100 * np.sqrt(LEVEL * (1 - LEVEL) / count) for count in (row.get("robots", 1), DRAWN)
        ]
        cells = [
            f"{100 * row[words][0]:.0f} % ({100 * row[words][1]:.0f} %)" if words in row else ""
            for words in FAULTS
        ]
        shares = (row.get("false"), row["drawn"])
        alarms = " | ".join(
            "" if share is None else f"{100 * share:.1f} % (± {error:.1f})"
            for share, error in zip(shares, errors)
        )
        lines.append(f"| {row['type']} | {row['size']} | {alarms} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def write_docs(rows: list[dict[str, Any]]) -> None:
    """Write table and figure of docs/clusters.md."""
    from matplotlib.figure import Figure

    text = DOCS.read_text()
    before, after = text.split(_BEGIN)[0], text.split(_END)[1]
    DOCS.write_text(f"{before}{_BEGIN}\n{table(rows)}\n{_END}{after}")
    figure = Figure(figsize=(8, 3), layout="constrained")
    left, right = figure.subplots(1, 2)
    left.axhspan(4, 6, color="#b4bec8", alpha=0.4)
    for name, style in zip(SPREADS, ("o-", "s--")):
        own = [row for row in rows if row["type"] == name]
        sizes = [row["size"] for row in own]
        left.plot(
            sizes,
            [100 * row.get("false", np.nan) for row in own],
            style,
            color="#1b62b0",
            label=f"{name}, from logs",
        )
        left.plot(
            sizes,
            [100 * row["drawn"] for row in own],
            style,
            color="#c8553d",
            label=f"{name}, drawn",
        )
        for words, colour in zip(FAULTS, ("#2a6fbb", "#8a5fb5", "#3d8c57", "#c8553d")):
            label = words if name == "two joints" else None
            known = [row for row in own if words in row]
            found = [100 * row[words][0] for row in known]
            right.plot(
                [row["size"] for row in known],
                found,
                style,
                color=colour,
                label=label,
                markersize=4,
            )
    for axis, title, top in (
        (left, "false alarms, % of healthy robots", 10),
        (right, "faults found, %", 105),
    ):
        axis.set_xscale("log")
        axis.set_xticks(SIZES, [str(size) for size in SIZES])
        axis.minorticks_off()
        axis.set_ylim(0, top)
        axis.set_xlabel("robots in a fleet")
        axis.set_title(title, fontsize=10, loc="left")
        axis.legend(frameon=False, fontsize=7)
    figure.savefig(FIGURE, metadata={"Date": None})


def main() -> None:
    """Print the table, and write it where asked."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--robots", type=int, default=1500, help="healthy robots of each type")
    parser.add_argument("--faults", type=int, default=50, help="robots of each fault")
    parser.add_argument(
        "--first",
        type=int,
        default=0,
        help="number of the first healthy robot: others from the same type",
    )
    parser.add_argument(
        "--docs", action="store_true", help="write table and figure of docs/clusters.md"
    )
    parser.add_argument(
        "--json",
        type=Path,
        help="file to keep all numbers in; where it exists they are read from it",
    )
    parser.add_argument(
        "--large", type=int, help="run one fleet of so many robots from files instead"
    )
    given = parser.parse_args()
    if given.large:
        print(json.dumps(large(given.large)))
        return
    if given.json and given.json.exists():
        rows = json.loads(given.json.read_text())
    else:
        rows = [
            row
            for name in SPREADS
            for row in measured(name, given.robots, given.faults, given.first)
        ]
        if given.json:
            given.json.write_text(json.dumps(rows))
    print(table(rows))
    if given.docs:
        write_docs(rows)


if __name__ == "__main__":
    main()
