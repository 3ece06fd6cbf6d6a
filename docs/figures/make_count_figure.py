"""Write the tables of docs/operation-counts.md and the growth figure.

Run it with the repository's Python. Everything between the markers `<!-- counts -->` and
`<!-- /counts -->` of the page is made here. A number in the page that is not made here is a
reference, with its source.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

from minidyn.app.casestudies.lin_fang_1999 import PRINTED
from minidyn.base.minimal_program import recorded_function
from minidyn.base.virtual_links import generic_chain, rigid_chain
from minidyn.formats.load import load
from minidyn.model.robot import Robot
from minidyn.papers.operation_count import (
    formulation_lines,
    moment_lines,
    operation_count,
    paper_count,
    total,
)

HERE = Path(__file__).parent
PAGE = HERE.parent / "operation-counts.md"
SIZES = range(2, 13)
TYPE_2 = range(4, 12)
COLOURS = {1: "#0072b2", 2: "#d55e00", 3: "#cc79a7", 4: "#009e73", 5: "#56b4e9"}


def geometries() -> dict[str, Robot]:
    """The robots of the page: those that `minidyn count` counts.

    The generic 6R is `minidyn count rx90 --generic`.
    """
    return {
        "generic 6R": generic_chain(load("rx90")),
        "PUMA 560": load("puma560"),
        "Stanford arm": load("stanford"),
        "RX-90": load("rx90"),
    }


REFERENCES = {
    ("generic 6R", "inertia_matrix"): (
        "330 M 260 A, straightforward; printed 407 M 301 A",
        "LinFang1999, ERRATA C",
    ),
    ("PUMA 560", "inertia_matrix"): ("139 M 125 A", "ERRATA C"),
    ("Stanford arm", "inertia_matrix"): ("95 M 94 A", "ERRATA C"),
    ("RX-90", "inertia_matrix"): ("195 M 133 A", "SYMORO"),
    ("RX-90", "inverse_dynamics"): ("253 M 238 A", "SYMORO"),
}


def table(head: list[str], rows: list[list[object]]) -> list[str]:
    """A Markdown table."""
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return [*lines, *("| " + " | ".join(str(cell) for cell in row) + " |" for row in rows)]


def text(counts: tuple[float, float]) -> str:
    """Counts as text."""
    return f"{counts[0]:g} M {counts[1]:g} A"


def customised() -> list[str]:
    """Counts against references."""
    rows: list[list[object]] = []
    for (name, what), (reference, source) in REFERENCES.items():
        counts = operation_count(geometries()[name], what)
        rows.append([name, what, f"**{text(counts)}**", reference, source])
    return table(["robot", "function", "executed", "reference", "source of the reference"], rows)


def every_function() -> list[str]:
    """All functions of all geometries."""
    whats = (
        "inertia_matrix",
        "inverse_dynamics",
        "gravity_torque",
        "velocity_torque",
        "forward_dynamics",
    )
    rows = [
        [name, *(text(operation_count(robot, what)) for what in whats)]
        for name, robot in geometries().items()
    ]
    return table(["robot", *whats], rows)


def by_formulation() -> list[str]:
    """The formulations on the geometries."""
    numbers = (1, 2, 3, 4, 5, 6)
    rows = [
        [name, *(text(operation_count(robot, formulation=number)) for number in numbers)]
        for name, robot in geometries().items()
    ]
    return table(["robot", *(f"{number}" for number in numbers)], rows)


def paper_tables() -> list[str]:
    """Sums of lines next to printed totals."""
    rows: list[list[object]] = []
    for entry in PRINTED:
        for n in (6, 8):
            joints = "R" * n if entry.joints == "1" else "RRP" + "R" * (n - 3)
            if entry.row.startswith("Kawasaki"):
                counted = "not counted"
            elif entry.table == "VI":
                counted = text(total(formulation_lines(int(entry.row), joints)))
            elif entry.table == "VII":
                counted = text(total(moment_lines(joints)))
            else:
                counted = text(paper_count(joints, int(entry.row)))
            rows.append(
                [entry.table, entry.row, entry.joints, n, counted, text(entry.at(n)), entry.erratum]
            )
    return table(
        ["table", "formulation", "type", "n", "sum of lines", "printed polynomial", "erratum"], rows
    )


def growth() -> tuple[list[str], dict[int, list[int]]]:
    """Counts over n for general geometry: the table, and totals for the figure."""
    totals: dict[int, list[int]] = {number: [] for number in COLOURS}
    rows: list[list[object]] = []
    for n in SIZES:
        robot = Robot.from_mdh("R" * n)
        row: list[object] = [n]
        for number in COLOURS:
            counts = operation_count(robot, formulation=number, customised=False)
            totals[number].append(sum(counts))
            row.append(text(counts))
        row.append(text(paper_count("R" * n, 1)))
        rows.append(row)
    head = [
        "n",
        *(f"formulation {number}" for number in COLOURS),
        "formulation 1 as the paper counts",
    ]
    return table(head, rows), totals


def type_2() -> tuple[list[str], dict[str, tuple[str, str, list[int]]]]:
    """Formulations 1 and 2 of RRPR...R as the paper counts and as programs.

    The table, and lines for the figure.
    """
    rows: list[list[object]] = []
    lines: dict[str, tuple[str, str, list[int]]] = {
        f"formulation {k}, {way}": (COLOURS[k], dashes, [])
        for way, dashes in (("as the paper counts", "6 4"), ("executed", ""))
        for k in (1, 2)
    }
    for n in TYPE_2:
        joints = "RRP" + "R" * (n - 3)
        robot = Robot.from_mdh(joints)
        counts = {f"formulation {k}, as the paper counts": paper_count(joints, k) for k in (1, 2)}
        counts |= {
            f"formulation {k}, executed": operation_count(robot, formulation=k, customised=False)
            for k in (1, 2)
        }
        for label, each in counts.items():
            lines[label][2].append(sum(each))
        rigid, _ = rigid_chain(generic_chain(robot)) or (robot, None)
        recorded = [recorded_function(rigid, k).counts for k in (1, 2)]
        cells = [f"{sum(counts[label])} ({text(counts[label])})" for label in lines]
        rows.append([n, *cells[:2], *(each["mul"] + each["add"] for each in recorded), *cells[2:]])
    heads = [*list(lines)[:2], *(f"formulation {k}, recorded" for k in (1, 2)), *list(lines)[2:]]
    return table(["n", *heads], rows), lines


def figure(title: str, sizes: range, lines: dict[str, tuple[str, str, list[int]]]) -> str:
    """A growth plot as SVG: for each label colour, dashes and totals."""
    width, height, left, bottom, top, right = 700, 400, 70, 50, 20, 190
    totals = {label: values for label, (_, _, values) in lines.items()}
    most = 500 * math.ceil(max(max(row) for row in totals.values()) / 500)

    def x(n: float) -> float:
        return left + (n - sizes[0]) / (sizes[-1] - sizes[0]) * (width - left - right)

    def y(count: float) -> float:
        return height - bottom - count / most * (height - bottom - top)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        'font-family="sans-serif" font-size="12">',
        f"<title>{title}</title>",
        f'<rect width="{width}" height="{height}" fill="white"/>',
    ]
    for tick in range(0, most + 1, 500):
        parts.append(
            f'<line x1="{left}" x2="{width - right}" y1="{y(tick):.1f}" y2="{y(tick):.1f}" '
            'stroke="#ddd"/>'
        )
        parts.append(f'<text x="{left - 8}" y="{y(tick) + 4:.1f}" text-anchor="end">{tick}</text>')
    for n in sizes:
        parts.append(
            f'<text x="{x(n):.1f}" y="{height - bottom + 18}" text-anchor="middle">{n}</text>'
        )
    last = sorted(totals, key=lambda label: -totals[label][-1])
    place = y(totals[last[0]][-1]) - 4
    for label in last:
        colour, dashes, values = lines[label]
        points = " ".join(f"{x(n):.1f},{y(count):.1f}" for n, count in zip(sizes, values))
        style = f'fill="none" stroke="{colour}" stroke-width="2"' + (
            f' stroke-dasharray="{dashes}"' if dashes else ""
        )
        parts.append(f'<polyline points="{points}" {style}/>')
        place = max(place, y(values[-1]) + 4)
        parts.append(
            f'<text x="{width - right + 8}" y="{place:.1f}" fill="{colour}">{label}</text>'
        )
        place += 15
    middle = (left + width - right) / 2
    parts.append(f'<text x="{middle}" y="{height - 10}" text-anchor="middle">joints n</text>')
    turned = f'<text transform="translate(18,{height / 2}) rotate(-90)" text-anchor="middle">'
    parts.append(f"{turned}multiplications + additions</text>")
    return "\n".join([*parts, "</svg>", ""])


def sections() -> dict[str, Callable[[], list[str]]]:
    """The tables of the robots by their headings."""
    return {
        "Against references": customised,
        "All functions": every_function,
        "Formulations 1 to 6 of the inertia matrix": by_formulation,
    }


def main() -> None:
    """Write the page's tables and the figure."""
    grown, totals = growth()
    claimed, claim_lines = type_2()
    made = [
        *(
            line
            for heading, lines in sections().items()
            for line in (f"### {heading}", "", *lines(), "")
        ),
        "### Growth with the number of joints, general geometry, rotational joints",
        "",
        *grown,
        "",
        "### Type 2, RRPR...R in general geometry: formulation 1 against 2",
        "",
        *claimed,
        "",
        "### LinFang1999, line by line",
        "",
        *paper_tables(),
        "",
    ]
    before, rest = PAGE.read_text().split("<!-- counts -->\n")
    _, after = rest.split("<!-- /counts -->")
    PAGE.write_text(before + "<!-- counts -->\n" + "\n".join(made) + "<!-- /counts -->" + after)
    title = "Operations of the inertia matrix of n rotational joints in general geometry"
    grown_lines = {
        f"formulation {number}": (COLOURS[number], "", values) for number, values in totals.items()
    }
    (HERE / "operation-growth.svg").write_text(figure(title, SIZES, grown_lines))
    title = "Operations of the inertia matrix of RRPR...R in general geometry"
    (HERE / "operation-type-2.svg").write_text(figure(title, TYPE_2, claim_lines))


if __name__ == "__main__":
    main()
