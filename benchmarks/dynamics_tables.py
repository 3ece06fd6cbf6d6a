"""The goals of the dynamics benchmark, and its measurements as Markdown."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Row = dict[str, float]


@dataclass(frozen=True)
class Goal:
    """A figure the project has set itself for a robot's function, and the one measured."""

    text: str
    goal: float
    value: float
    unit: str = "x"
    most: bool = False
    doubt: str = ""

    def line(self) -> str:
        """As "goal 7x: 9.3x ok"."""
        met = self.value <= self.goal if self.most else self.value >= self.goal
        sign = "at most " if self.most else ""
        verdict = f"not judged: {self.doubt}" if self.doubt else "ok" if met else "MISSED"
        return (
            f"{self.text}: goal {sign}{self.goal:g}{self.unit}, measured "
            f"{self.value:.3g}{self.unit} {verdict}"
        )


_IN_CACHE = {
    "inertia_matrix": {"UR5": 16.0, "Panda": 25.0},
    "inverse_dynamics": {"UR5": 12.0, "Panda": 24.0},
    "forward_dynamics": {"UR5": 20.0, "Panda": 45.0},
    "base_regressor": {"UR5": 40.0, "Panda": 58.0},
}
_OVER_CASADI = {
    "inertia_matrix": 7.0,
    "inverse_dynamics": 7.0,
    "forward_dynamics": 7.0,
    "regressor": 4.0,
    "base_regressor": 4.0,
}
_OVER_PINOCCHIO = {"inertia_matrix": 25.0, "inverse_dynamics": 25.0, "regressor": 8.0}


def goals(found: Mapping[str, Any]) -> list[Goal]:
    """Return the project's goals with what was measured."""
    listed: list[Goal] = []
    for robot, rows in found["robots"].items():
        for what, row in rows.items():
            name = f"{robot} {what.replace('_', ' ')}"
            if what in _IN_CACHE:
                listed.append(
                    Goal(
                        f"{name}, in cache",
                        _IN_CACHE[what][robot],
                        1e9 * row["cached"],
                        " ns",
                        most=True,
                    )
                )
            if what in _OVER_CASADI and "casadi" in row:
                listed.append(
                    Goal(
                        f"{name}, over CasADi's C",
                        _OVER_CASADI[what],
                        row["casadi"] / row["cached"],
                    )
                )
            if what in _OVER_PINOCCHIO:
                for way, column in (
                    ("fresh result", "fresh"),
                    ("out=", "out"),
                    ("large out=", "huge"),
                ):
                    ratio = row["pinocchio"] / row[column]
                    listed.append(
                        Goal(f"{name}, arrays, {way}, over Pinocchio", _OVER_PINOCCHIO[what], ratio)
                    )
            if what in ("inertia_matrix", "inverse_dynamics"):
                listed.append(Goal(f"{name}, one sample", 0.5, 1e6 * row["one"], " µs", most=True))
            doubt = _threads_doubt(row, found["limits"])
            listed.append(
                Goal(f"{name}, two threads", 1.7, row["huge"] / row["threads"], doubt=doubt)
            )
    slowest = max(
        (name for name in found["starting"] if name != "import"), key=found["starting"].__getitem__
    )
    listed.append(
        Goal(f"slowest first call ({slowest})", 0.5, found["starting"][slowest], " s", most=True)
    )
    return listed


def _threads_doubt(row: Row, limit: Row) -> str:
    """Return why two threads could not be twice as fast: the other core was busy, or memory is."""
    if row["cores"] < 1.8:
        return f"only {row['cores']:.1f} cores were free"
    allowed = row["huge"] * limit["write_two"] / row["written"]
    return f"memory allows {allowed:.1f}x" if allowed < 1.8 else ""


# ------------------------------------------------------------------------ tables


def tables(found: Mapping[str, Any]) -> str:
    """Return what was measured as Markdown."""
    limit, here = found["limits"], found["machine"]
    versions = ", ".join(f"{name} {version}" for name, version in here["versions"].items())
    lines = [
        f"{here['processor']}, {here['cores']} cores, {here['width']} doubles a vector, load "
        f"{here['load']}; {versions}.",
        "",
        f"One core at most: {limit['flops'] / 1e9:.1f} GFLOP/s, writing "
        f"{limit['write'] / 1e9:.1f} GB/s, reading {limit['read'] / 1e9:.1f} GB/s; two cores "
        f"writing {limit['write_two'] / 1e9:.1f} GB/s.",
        "",
    ]
    lines += [f"Left out: {text}." for text in found["missing"]]
    for robot, rows in found["robots"].items():
        lines += [
            "",
            f"**{robot}**, ns per sample in cache",
            "",
            *_table(_CACHED_HEAD, rows, limit, _cached_cells),
        ]
        lines += ["", f"**{robot}**, row-major arrays, ns per sample; one call, µs", ""]
        sizes = {name: f"{size / 1e6:.3g} MB" for name, size in found["result_bytes"].items()}
        lines += _table([text.format(**sizes) for text in _ARRAY_HEAD], rows, limit, _array_cells)
    started = found["starting"]
    lines += [
        "",
        "First call of each function of the Panda in a fresh process, s of processor time:",
        "",
    ]
    lines.append(
        ", ".join(
            f"{name.replace('_', ' ')} {value:.2f}"
            for name, value in started.items()
            if name != "import"
        )
    )
    lines += ["", f"`import minidyn`: {1e3 * started['import']:.0f} ms.", "", "Goals:", ""]
    lines += [f"- {text}" for text in found["goals"]]
    return "\n".join([*lines, "", f"Measured in {found['seconds']:.0f} s."])


_CACHED_HEAD = (
    "constants",
    "parameters at call",
    "CasADi C",
    "ratio",
    "our C",
    "operations",
    "limit",
    "of limit",
)
_ARRAY_HEAD = (
    "fresh {fresh}",
    "out= {out}",
    "out= {huge}",
    "bytes' limit",
    "Pinocchio",
    "ratios",
    "2 threads",
    "one sample",
    "by function",
    "ten by function",
)


def _table(
    head: Sequence[str], rows: Mapping[str, Row], limit: Row, cells: Callable[[Row, Row], list[str]]
) -> list[str]:
    lines = ["| | " + " | ".join(head) + " |", "|---" * (len(head) + 1) + "|"]
    for what, row in rows.items():
        lines.append(f"| {what.replace('_', ' ')} | " + " | ".join(cells(row, limit)) + " |")
    return lines


def _ns(row: Row, name: str) -> str:
    return f"{1e9 * row[name]:.1f}" if name in row else "-"


def _cached_cells(row: Row, limit: Row) -> list[str]:
    least = row["operations"] / limit["flops"]
    ratio = f"{row['casadi'] / row['cached']:.1f}x" if "casadi" in row else "-"
    return [
        _ns(row, "cached"),
        _ns(row, "call_time"),
        _ns(row, "casadi"),
        ratio,
        _ns(row, "own_c"),
        f"{row['operations']:.0f}",
        f"{1e9 * least:.1f}",
        f"{least / row['cached']:.0%}",
    ]


def _array_cells(row: Row, limit: Row) -> list[str]:
    least = row["read"] / limit["read"] + row["written"] / limit["write"]
    doubt = _threads_doubt(row, limit)
    ratios = ", ".join(f"{row['pinocchio'] / row[name]:.0f}x" for name in ("fresh", "out", "huge"))
    return [
        *[_ns(row, name) for name in ("fresh", "out", "huge")],
        f"{1e9 * least:.1f}",
        f"{1e9 * row['pinocchio']:.0f}",
        ratios,
        f"{row['huge'] / row['threads']:.2f}x" + (f" ({doubt})" if doubt else ""),
        *[f"{1e6 * row[name]:.2f}" for name in ("one", "one_public", "ten_public")],
    ]
