"""Formulations of the inertia matrix side by side for one robot.

As LinFang1999 counts, and as they run here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from minidyn.base.minimal_program import recorded_function
from minidyn.base.printing.relations import escape_latex
from minidyn.base.virtual_links import rigid_chain
from minidyn.display import COLOURS, DisplayTable, new_figure
from minidyn.dynamics.papers.formulations import FORMULATIONS
from minidyn.dynamics.papers.minimal import MEETING
from minidyn.errors import Unsupported
from minidyn.model.geometry import TOLERANCE
from minidyn.model.robot import Robot
from minidyn.papers.operation_count import operation_count
from minidyn.text import markdown_cell

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame

NUMBERS = (*FORMULATIONS, MEETING)
"""Formulations 1 to 5 of LinFang1999, and 6, which meets half-way."""

WAYS = {
    "paper": (
        "sum of the lines of LinFang1999's tables: general geometry, no zero but those the "
        "formulas show"
    ),
    "generic": "program that runs, general geometry with the robot's joints",
    "customised": "formulas in the robot's own geometry, zeros folded, before passes",
    "executed": "program that runs, the robot's own geometry",
}
"""How operations are counted, and what that means."""

Counts = tuple[int, int] | None


@dataclass(frozen=True, eq=False)
class FormulationCounts:
    """Operations of the inertia matrix of one robot by every formulation. `str()` gives a table.

    Attributes:
        robot: Name of the robot.
        joints: Its joints, such as "RRPRRR".
        counts: For each of "paper", "generic", "customised" and "executed" the (multiplications,
            additions) of formulations 1 to 6; None where there is no count: LinFang1999 has no
            formulation 6.
    """

    robot: str
    joints: str
    counts: dict[str, tuple[Counts, ...]]

    @property
    def best(self) -> dict[str, int]:
        """The formulation with the fewest operations for each way of counting.

        The first of equals.
        """
        totals = {
            way: [np.inf if each is None else sum(each) for each in row]
            for way, row in self.counts.items()
        }
        return {way: NUMBERS[int(np.argmin(row))] for way, row in totals.items()}

    def to_pandas(self) -> DataFrame:
        """Return the counts as a pandas frame.

        One row a formulation, multiplications and additions of each way.
        """
        return self._display().to_pandas()

    def to_markdown(self) -> str:
        """Return the table in Markdown, the winners bold."""
        head = f"Inertia matrix of {markdown_cell(self.robot)} ({self.joints}): {self.summary}."
        rows = self._rows(lambda text: f"**{text}**")
        lines = [head, "", f"| {' | '.join(self._heads)} |", "|" + "---|" * len(self._heads)]
        return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)]) + "\n"

    def to_latex(self) -> str:
        """Return the table as LaTeX that needs no package, the winners bold."""
        rows = self._rows(lambda text: rf"\textbf{{{text}}}")
        lines = [
            r"\begin{tabular}{l" + "r" * (len(self._heads) - 1) + "}",
            r"\hline",
            _row(self._heads),
            r"\hline",
        ]
        note = f"Inertia matrix of {escape_latex(self.robot)} ({self.joints}): {self.summary}."
        return (
            "\n".join([f"% {note}", *lines, *map(_row, rows), r"\hline", r"\end{tabular}"]) + "\n"
        )

    def to_json(self) -> dict[str, Any]:
        """Return the counts as plain values for `json.dump`."""
        rows = {
            str(number): {
                way: None if row[k] is None else dict(zip(("mul", "add"), row[k] or ()))
                for way, row in self.counts.items()
            }
            for k, number in enumerate(NUMBERS)
        }
        return {"robot": self.robot, "joints": self.joints, "formulations": rows, "best": self.best}

    def plot(self) -> Figure:
        """Return a matplotlib figure.

        Operations of each formulation, one bar for each way of counting.
        """
        title = (
            f"Inertia matrix of {self.robot} ({self.joints}): formulation {self.best['executed']} "
            "is the cheapest"
        )
        figure, axes = new_figure(title, 1, 3.4)
        axis = axes[0]
        places, width = np.arange(len(NUMBERS)), 0.8 / len(self.counts)
        for index, (way, row) in enumerate(self.counts.items()):
            shift = (index - (len(self.counts) - 1) / 2) * width
            drawn = [k for k, each in enumerate(row) if each is not None]
            heights = [sum(each) for each in row if each is not None]
            bars = axis.bar(
                places[drawn] + shift, heights, width=0.92 * width, color=COLOURS[index], label=way
            )
            axis.bar_label(bars, fontsize=7)
        axis.set_xticks(places, [f"formulation {number}" for number in NUMBERS])
        axis.set_ylabel("multiplications + additions")
        axis.legend(frameon=False, ncols=4, fontsize=8, loc="lower left", bbox_to_anchor=(0.0, 1.0))
        return figure

    @property
    def summary(self) -> str:
        """Which formulation is best, in words."""
        best = self.best
        others = ", ".join(f"{way} {number}" for way, number in best.items() if way != "executed")
        return (
            f"formulation {best['executed']} is the cheapest that runs (fewest by other counts: "
            f"{others})"
        )

    @property
    def _heads(self) -> list[str]:
        return ["formulation", *self.counts]

    def _rows(self, mark: Callable[[str], str] = str) -> list[list[str]]:
        best, rows = self.best, []
        for k, number in enumerate(NUMBERS):
            cells = [str(number)]
            for way, row in self.counts.items():
                each = row[k]
                text = "-" if each is None else f"{each[0]} M {each[1]} A"
                cells.append(mark(text) if best[way] == number else text)
            rows.append(cells)
        return rows

    def _display(self) -> DisplayTable:
        columns: dict[str, list[Any]] = {"formulation": list(NUMBERS)}
        for way, row in self.counts.items():
            for place, kind in enumerate(("mul", "add")):
                columns[f"{way} {kind}"] = [None if each is None else each[place] for each in row]
        return DisplayTable(repr(self), columns)

    def _repr_html_(self) -> str:
        return self._display().to_html()

    def __str__(self) -> str:
        rows = [self._heads, *self._rows(lambda text: f"{text} *")]
        widths = [max(len(row[k]) for row in rows) for k in range(len(self._heads))]
        lines = ["  ".join(cell.rjust(width) for cell, width in zip(row, widths)) for row in rows]
        return "\n".join([repr(self), *lines])

    def __repr__(self) -> str:
        return f"FormulationCounts({self.robot!r}, {self.joints}: {self.summary})"


def _row(cells: list[str]) -> str:
    return " & ".join(cells) + r" \\"


def formulation_counts(robot: Robot, tolerance: float = TOLERANCE) -> FormulationCounts:
    """Count the operations of a robot's inertia matrix by formulations 1 to 5 of LinFang1999 and 6,
    side by side.

    Four ways of counting: "paper", the sum of the lines of LinFang1999's tables; "generic", the
    program that runs, in general geometry with the robot's joints; "customised", the formulas in
    the robot's own geometry, zeros folded; "executed", the program that runs: the same after passes
    that share and factor. All are of base parameters with general values, sines and cosines given,
    composite bodies included; rotors are left out.

    Args:
        robot: A serial chain.
        tolerance: Axes that are special within this are exactly so, as in `base_parameters`.

    Raises:
        Unsupported: The robot is not an open serial chain.

    Implements: LinFang1999 Table VI, Table VIII for a robot of one's own.
    """
    chain = rigid_chain(robot, tolerance)
    if chain is None:
        raise Unsupported(
            f"formulations of the inertia matrix: robot {robot.name!r} is not an open serial chain"
        )
    rigid = chain[0]

    def recorded(number: int) -> Counts:
        found = recorded_function(rigid, number).counts
        return found["mul"], found["add"]

    ways: dict[str, Callable[[int], Counts]] = {
        "paper": lambda k: (
            None if k == MEETING else operation_count(robot, formulation=k, counting="paper")
        ),
        "generic": lambda k: operation_count(robot, formulation=k, customised=False),
        "customised": recorded,
        "executed": lambda k: operation_count(robot, formulation=k, tolerance=tolerance),
    }
    counts = {way: tuple(counted(number) for number in NUMBERS) for way, counted in ways.items()}
    return FormulationCounts(
        robot.name, "".join("R" if joint.turns else "P" for joint in rigid.joints), counts
    )
