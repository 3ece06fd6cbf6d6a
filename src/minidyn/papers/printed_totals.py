"""Totals of operations as LinFang1999 prints them, and what is wrong with some."""

from __future__ import annotations

from dataclasses import dataclass


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
    Printed("VI", "5", "1", (10, -18, 14), (6, -6, 2), "at n = 11 the polynomial gives 1026, printed 1016"),
    Printed("VI", "5", "2", (10, -18, 4), (6, -6, -7)),
    Printed("VII", "moments", "1", (0, 32, -47), (0, 33, -57)),
    Printed("VII", "moments", "2", (0, 32, -45), (0, 33, -59)),
    Printed("VIII", "1", "1", (10, 14, -37), (6, 23, -53)),
    Printed("VIII", "1", "2", (10, 14, -45), (6, 23, -59)),
    Printed("VIII", "2", "1", (11.5, 4.5, -31), (8, 15, -47)),
    Printed("VIII", "2", "2", (11.5, -8.5, 15), (8, 4, -13), "the lines give +12 and -16"),
    Printed("VIII", "Kawasaki I", "1", (11, 15, -41), (7, 32, -66), "at n = 4 the polynomial gives 195, printed 194"),
    Printed("VIII", "Kawasaki II", "1", (11, 9, -35), (7, 23, -57)),
)
"""Totals as printed. Type 1: rotational joints only; type 2: joint 3 is translational."""


def printed_counts(table: str, row: str, joints: str) -> Printed:
    """Return a printed total by table ("VI", "VII", "VIII"), row and type ("1" or "2")."""
    return next(entry for entry in PRINTED if (entry.table, entry.row, entry.joints) == (table, row, joints))
