"""LinFang1999: multiplications and additions of five formulations of the inertia matrix (Tables I
to VIII).

The printed totals of operations stand here, with what is wrong with some.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from minidyn.app.casestudies.study import Curve, Entry, Figure, Study, Table
from minidyn.arrays import Array
from minidyn.formats.load import load
from minidyn.model.robot import Robot
from minidyn.papers.operation_count import (
    formulation_lines,
    moment_lines,
    operation_count,
    paper_count,
    total,
)


@dataclass(frozen=True)
class Printed:
    """A printed total: coefficients of n², n and 1, and what is wrong with it, if anything."""

    table: str
    row: str
    joints: str
    mul: tuple[float, float, float]
    add: tuple[float, float, float]
    erratum: str = ""

    def at(self, n: int) -> tuple[float, float]:
        """The printed polynomials at n joints."""
        powers = (n * n, n, 1)
        return (
            sum(a * b for a, b in zip(self.mul, powers)),
            sum(a * b for a, b in zip(self.add, powers)),
        )


PRINTED: tuple[Printed, ...] = (
    Printed("VI", "1", "1", (10, -18, 10), (6, -10, 4)),
    Printed("VI", "1", "2", (10, -18, 0), (6, -10, 0)),
    Printed("VI", "2", "1", (11.5, -27.5, 16), (8, -18, 10)),
    Printed("VI", "2", "2", (11.5, -40.5, 60), (8, -29, 46), "the lines give +57 and +43"),
    Printed("VI", "3", "1", (12.5, -28.5, 16), (8, -18, 10)),
    Printed("VI", "3", "2", (12.5, -43.5, 65), (8, -29, 45)),
    Printed("VI", "4", "1", (4.5, 48.5, -108), (4, 24, -56), "the lines give -104 multiplications"),
    Printed("VI", "4", "2", (4.5, 48.5, -114), (4, 24, -62), "the lines give -110 multiplications"),
    Printed(
        "VI",
        "5",
        "1",
        (10, -18, 14),
        (6, -6, 2),
        "at n = 11 the polynomial gives 1026, printed 1016",
    ),
    Printed("VI", "5", "2", (10, -18, 4), (6, -6, -7)),
    Printed("VII", "moments", "1", (0, 32, -47), (0, 33, -57)),
    Printed("VII", "moments", "2", (0, 32, -45), (0, 33, -59)),
    Printed("VIII", "1", "1", (10, 14, -37), (6, 23, -53)),
    Printed("VIII", "1", "2", (10, 14, -45), (6, 23, -59)),
    Printed("VIII", "2", "1", (11.5, 4.5, -31), (8, 15, -47)),
    Printed("VIII", "2", "2", (11.5, -8.5, 15), (8, 4, -13), "the lines give +12 and -16"),
    Printed(
        "VIII",
        "Kawasaki I",
        "1",
        (11, 15, -41),
        (7, 32, -66),
        "at n = 4 the polynomial gives 195, printed 194",
    ),
    Printed("VIII", "Kawasaki II", "1", (11, 9, -35), (7, 23, -57)),
)
"""Totals as printed. Type 1: rotational joints only; type 2: joint 3 is translational."""


def printed_counts(table: str, row: str, joints: str) -> Printed:
    """Return a printed total by table ("VI", "VII", "VIII"), row and type ("1" or "2")."""
    return next(
        entry for entry in PRINTED if (entry.table, entry.row, entry.joints) == (table, row, joints)
    )


PAPER = (
    "S.-K. Lin and C.-J. Fang, Efficient formulations for the manipulator inertia matrix in terms "
    "of minimal linear combinations of inertia parameters, J. Robotic Systems 16(12), 1999"
)
# numbers printed in the columns of Tables VI and VIII: table, row, type, then n: multiplications
# additions
_COLUMNS = """
VI 1 1 4 98 60 6 262 160 11 1022 620
VI 2 1 4 90 66 6 265 190 11 1105 780
VI 3 1 4 102 66 6 295 190 11 1215 780
VI 4 1 4 158 104 6 345 232 11 970 692
VI 5 1 4 102 74 6 266 182 11 1016 662
VI 1 2 6 252 156 8 496 304 9 648 396
VI 2 2 6 231 160 8 472 326 9 627 433
VI 3 2 6 254 159 8 517 325 9 686 432
VI 4 2 6 339 226 8 562 386 9 687 478
VI 5 2 6 256 173 8 500 329 9 652 425
VIII 1 1 4 179 135 6 407 301 8 715 515
VIII 2 1 4 171 141 6 410 331 8 741 585
VIII 1 2 4 171 129 6 399 295 8 707 509
VIII 2 2 4 165 131 6 378 299 8 683 531
"""
_MOMENTS = {"1": "(32n - 47) M, (33n - 57) A", "2": "(32n - 45) M, (33n - 59) A"}
_RIGHT = math.pi / 2
# executed counts that a straightforward program takes, for comparison; the first is printed as 407
# M 301 A
_STRAIGHT = {"general 6R": (330, 260), "PUMA 560": (139, 125), "Stanford arm": (95, 94)}


def lin_fang_1999(most: int = 12, executed: bool = True) -> Study:
    """Return the case study of LinFang1999.

    Args:
        most: Joints up to which the figures go.
        executed: Whether the operations of this library's programs are counted, too (a second or
            two).

    Implements: LinFang1999 Tables VI, VII and VIII.
    """
    tables = [_columns("VI", "Inertia matrix with composite bodies at hand"), _moments()]
    tables.append(_columns("VIII", "Inertia matrix, first moments and inertia tensors included"))
    if executed:
        tables.append(_executed())
    sizes = np.arange(4.0, most + 1.0)
    figures = []
    for kind, words in (("1", "rotational joints"), ("2", "joint 3 translational")):
        curves = [
            Curve(f"Formulation {number}", sizes, _sums(kind, number, sizes))
            for number in range(1, 6)
        ]
        title = f"Operations of the inertia matrix, {words}"
        label = "multiplications and additions"
        figures.append(
            Figure(
                f"lin-fang-1999-type-{kind}",
                title,
                "Tables I-V and VII",
                "joints",
                label,
                tuple(curves),
            )
        )
    return Study(
        "lin-fang-1999",
        PAPER,
        "The lines of Tables I to V and VII are summed again for n joints, and compared with the "
        "printed totals. The last table has the operations of this library's own programs, after "
        "all passes.",
        {"most": most, "executed": executed},
        tuple(tables),
        tuple(figures),
        (
            "Formulation 2 is the best of Table VIII for type 2 up to n = 8, as the paper says. "
            "After common subexpressions are shared the advantage is gone (see the page on "
            "operation counts).",
        ),
    )


def _joints(kind: str, n: int) -> str:
    return "R" * n if kind == "1" else "RRP" + "R" * (n - 3)


def _sums(kind: str, number: int, sizes: Array) -> Array:
    found = [paper_count(_joints(kind, int(n)), number) for n in sizes]
    return np.array([mul + add for mul, add in found], dtype=float)


def _columns(table: str, title: str) -> Table:
    entries = []
    for line in _COLUMNS.split("\n"):
        if not line.startswith(f"{table} "):
            continue
        _, row, kind, *numbers = line.split()
        known = next(
            one for one in PRINTED if (one.table, one.row, one.joints) == (table, row, kind)
        )
        for place in range(0, len(numbers), 3):
            n, mul, add = numbers[place : place + 3]
            joints = _joints(kind, int(n))
            lines = (
                total(formulation_lines(int(row), joints))
                if table == "VI"
                else paper_count(joints, int(row))
            )
            for letter, printed, found in zip("MA", (mul, add), lines):
                name = f"formulation {row}, type {kind}, n = {n}, {letter}"
                entries.append(Entry(name, printed, float(found), known.erratum))
    return Table(
        title,
        f"Table {table}",
        tuple(entries),
        "Type 1: rotational joints; type 2: joint 3 translational.",
    )


def _moments() -> Table:
    entries = []
    for kind, printed in _MOMENTS.items():
        at = [total(moment_lines(_joints(kind, n))) for n in (6, 7)]
        parts = []
        for letter, one, two in zip("MA", *at):
            slope = two - one
            parts.append(f"({slope}n - {6 * slope - one}) {letter}")
        entries.append(Entry(f"moments and tensors, type {kind}", printed, ", ".join(parts)))
    return Table(
        "First moments and inertia tensors from minimal combinations", "Table VII", tuple(entries)
    )


def _executed() -> Table:
    k = [0.1 * i for i in range(6)]
    puma = (
        [0, -_RIGHT, 0, -_RIGHT, _RIGHT, -_RIGHT],
        [0, 0, 0.4318, 0.0203, 0, 0],
        [0, 0, 0.15005, 0.4318, 0, 0],
    )
    robots = {
        "general 6R": Robot.from_mdh(
            "RRRRRR", [0.5 + x for x in k], [0.3 + x for x in k], [0.2 + x for x in k]
        ),
        "PUMA 560": Robot.from_mdh("RRRRRR", *puma),
        "Stanford arm": load("stanford"),
    }
    entries = []
    for name, robot in robots.items():
        for letter, straight, found in zip(
            "MA", _STRAIGHT[name], operation_count(robot, formulation=1)
        ):
            entries.append(Entry(f"{name}, {letter}", f"< {straight + 1}", float(found)))
    return Table(
        "Executed by this library, formulation 1, against a plain program",
        "not printed",
        tuple(entries),
    )
