"""How many multiplications and additions one evaluation takes: executed by this package, or as LinFang1999 counts.

The paper counts for general geometry and uses no zero but those its formulas show. The lines of its Tables I to V and
VII are kept apart so that its totals (Tables VI and VIII) can be followed; where a printed total is not the sum of its
lines, `PRINTED` says so.
"""

from __future__ import annotations

from dataclasses import dataclass

from minidyn.base.minimal_functions import check_formulation, lifted_function, minimal_function
from minidyn.base.virtual_links import generic_chain, rigid_chain
from minidyn.dynamics.mdh_chain import check_open
from minidyn.dynamics.mdh_frames import to_mdh
from minidyn.dynamics.papers.minimal import MEETING, MINIMAL_WHAT
from minidyn.errors import MinidynError, UnknownName, Unsupported
from minidyn.graph.function import Function
from minidyn.graph.passes import optimise
from minidyn.model.robot import Robot

COUNTINGS = ("executed", "paper")


def operation_count(
    robot: Robot,
    what: str = "inertia_matrix",
    formulation: int | None = None,
    counting: str = "executed",
    customised: bool = True,
) -> tuple[int, int]:
    """Return (multiplications, additions) of one evaluation on the robot's base parameters.

    Sines and cosines are given, geometry is numeric, and base parameters are general: no zero, equality or sign of a
    particular value is used. What depends on parameters alone is computed once and not counted. Rotor inertia, friction
    and drives are left out.

    Args:
        robot: The robot. Formulations and counts of papers need a serial chain.
        what: "inertia_matrix", "inverse_dynamics", "gravity_torque", "velocity_torque" (Coriolis and centrifugal) or
            "coriolis_matrix".
        formulation: Of the inertia matrix: 1 to 5 as in LinFang1999, 6 meets half-way; None: the cheapest.
        counting: "executed": operations of the recorded program after its passes. "paper": the sum of the lines of
            LinFang1999's tables, which are for general geometry and the inertia matrix.
        customised: Whether the robot's own geometry folds; False: general alpha, a and d with the same joints.

    Raises:
        UnknownName: No such function, formulation or counting.
        Unsupported: A robot that the question does not cover.
    """
    _check(what, formulation, counting)
    if counting == "paper":
        if what != "inertia_matrix":
            raise Unsupported(f'counting "paper" is for the inertia matrix; LinFang1999 does not count {what}')
        check_open(robot, "operation counts of LinFang1999")
        joints = "".join("R" if joint.turns else "P" for joint in to_mdh(robot)[0].joints)
        return paper_count(joints, formulation)
    counts = _counted(generic_chain(robot) if not customised else robot, what, formulation).counts
    return counts["mul"], counts["add"]


def _check(what: str, formulation: int | None, counting: str) -> None:
    if counting not in COUNTINGS:
        raise UnknownName("counting", counting, COUNTINGS)
    if what not in MINIMAL_WHAT:
        raise UnknownName("function", what, MINIMAL_WHAT)
    check_formulation(formulation)
    if formulation is None:
        return
    if what != "inertia_matrix":
        raise MinidynError(f"formulation={formulation}: formulations are of the inertia matrix, not of {what}")
    if counting == "paper" and formulation == MEETING:
        raise Unsupported(f'counting "paper": formulation {MEETING} is not in LinFang1999; give 1 to 5')


def _counted(robot: Robot, what: str, formulation: int | None) -> Function:
    chain = None if robot.loops else rigid_chain(robot)
    if chain is None:
        if formulation is not None:
            raise Unsupported(f"formulation={formulation}: robot {robot.name!r} is not an open serial chain")
        return optimise(lifted_function(robot, what))
    return minimal_function(chain[0], what, formulation)


@dataclass(frozen=True)
class Line:
    """One line of a table: what it computes, how often, and its multiplications and additions in all."""

    text: str
    times: int
    mul: int
    add: int


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


def formulation_lines(number: int, joints: str) -> list[Line]:
    """Return the lines of Table I to V for a row of joints such as "RRPRRR", composite bodies being at hand.

    Raises:
        UnknownName: There is no such formulation.

    Implements: LinFang1999 Tables I-V.
    """
    tables = {1: _table_1, 2: _table_2, 3: _table_3, 4: _table_4, 5: _table_5}
    if isinstance(number, bool) or number not in tables:
        raise UnknownName("formulation", str(number), [str(key) for key in tables])
    return tables[number](joints)


def total(lines: list[Line]) -> tuple[int, int]:
    """Return (multiplications, additions) of lines."""
    return sum(line.mul for line in lines), sum(line.add for line in lines)


def paper_count(joints: str, number: int | None = None) -> tuple[int, int]:
    """Return (multiplications, additions) of the inertia matrix with its composite bodies, counted as the paper does.

    Args:
        joints: Such as "RRPRRR".
        number: Formulation; None: the one of 1 to 5 with the fewest operations.
    """
    moments = total(moment_lines(joints))
    counts = [total(formulation_lines(k, joints)) for k in ((1, 2, 3, 4, 5) if number is None else (number,))]
    mul, add = min(counts, key=sum)
    return mul + moments[0], add + moments[1]


def printed_counts(table: str, row: str, joints: str) -> Printed:
    """Return a printed total by table ("VI", "VII", "VIII"), row and type ("1" or "2").

    Raises:
        UnknownName: It is not printed.
    """
    for entry in PRINTED:
        if (entry.table, entry.row, entry.joints) == (table, row, joints):
            return entry
    names = [f"{entry.table} {entry.row} {entry.joints}" for entry in PRINTED]
    raise UnknownName("printed total", f"{table} {row} {joints}", names)


class _Sheet:
    """Lines as they are written down."""

    def __init__(self, joints: str) -> None:
        self.lines: list[Line] = []
        self.joints = joints.upper()
        self.n = len(joints)

    def turning(self, joint: int) -> bool:
        """Whether joint number `joint` (from 1) is rotational."""
        return self.joints[joint - 1] == "R"

    def put(self, text: str, times: int, mul: int, add: int) -> None:
        """Write a line that is done `times` times."""
        times = max(times, 0)
        self.lines.append(Line(text, times, times * mul, times * add))

    def joints_of(self, turning: bool, first: int, last: int) -> int:
        """How many joints from `first` to `last` are of a kind."""
        return sum(self.turning(i) is turning for i in range(first, last + 1))


def _inner_pairs(n: int) -> int:
    """Pairs i = 4 ... n, j = 2 ... i-2."""
    return max(n - 2, 0) * max(n - 3, 0) // 2


def _table_1(joints: str) -> list[Line]:
    sheet = _Sheet(joints)
    n = sheet.n
    R, P = sheet.joints_of(True, 3, n), sheet.joints_of(False, 3, n)
    sheet.put("f_ii, t_ii, D_ii", n, 0, 0)
    sheet.put("f_(i-1,i), i >= 3, rotational", R, 6, 2)
    sheet.put("t_(i-1,i), i >= 3, rotational", R, 12, 8)
    sheet.put("t_(i-1,i), i >= 3, translational", P, 8, 6)
    sheet.put("f_(j,i), j = 2 ... i-2", _inner_pairs(n), 8, 4)
    sheet.put("t_(j,i), j = 2 ... i-2", _inner_pairs(n), 12, 8)
    if n > 1 and sheet.turning(1):
        sheet.put("s from 1 to 2 in frame 2", 1, 2, 0)
        sheet.put("t_(1,2)", 1, 12, 8)
        sheet.put("t_(1,i), i >= 3", n - 2, 14, 10)
    elif n > 1:
        sheet.put("f_(1,2)", 1, 6, 2)
        sheet.put("f_(1,i), i >= 3", n - 2, 8, 4)
    return sheet.lines


def _pairs(sheet: _Sheet, lower: bool, upper: bool) -> int:
    """Pairs j < i with joint j and joint i of these kinds."""
    return sum(
        sheet.turning(j) is lower and sheet.turning(i) is upper for i in range(2, sheet.n + 1) for j in range(1, i)
    )


def _outward(sheet: _Sheet, turning_only: bool) -> int:
    """Pairs j = 1 ... n-2, k = j+2 ... n."""
    return sum(sheet.n - j - 1 for j in range(1, sheet.n - 1) if sheet.turning(j) or not turning_only)


def _table_2(joints: str) -> list[Line]:
    sheet = _Sheet(joints)
    sheet.put("u_j in frame j+1, D_ii", sheet.n, 0, 0)
    sheet.put("u_j in frame k", _outward(sheet, False), 8, 4)
    sheet.put("s from j to k in frame k, j rotational", _outward(sheet, True), 8, 6)
    sheet.put("D_ji, both rotational", _pairs(sheet, True, True), 7, 6)
    sheet.put("D_ji, j translational, i rotational", _pairs(sheet, False, True), 2, 1)
    sheet.put("D_ji, j rotational, i translational", _pairs(sheet, True, False), 4, 3)
    sheet.put("D_ji, both translational", _pairs(sheet, False, False), 1, 0)
    return sheet.lines


def _table_3(joints: str) -> list[Line]:
    sheet = _Sheet(joints)
    sheet.put("u_j in frame j+1, D_ii", sheet.n, 0, 0)
    sheet.put("u_j in frame k", _outward(sheet, False), 8, 4)
    sheet.put("u x s from j to j+1, j rotational", sheet.joints_of(True, 1, sheet.n - 1), 4, 2)
    sheet.put("u x s from j to k, j rotational", _outward(sheet, True), 12, 8)
    sheet.put("D_ji, both rotational", _pairs(sheet, True, True), 5, 4)
    sheet.put("D_ji, j translational, i rotational", _pairs(sheet, False, True), 2, 1)
    sheet.put("D_ji, j rotational, i translational", _pairs(sheet, True, False), 3, 2)
    sheet.put("D_ji, both translational", _pairs(sheet, False, False), 1, 0)
    return sheet.lines


def _table_4(joints: str) -> list[Line]:
    sheet = _Sheet(joints)
    n = sheet.n
    R, P = sheet.joints_of(True, 2, n - 1), sheet.joints_of(False, 2, n - 1)
    sheet.put("turn from i to n", n - 2, 24, 12)
    sheet.put("u_i in frame n (a column of it: no operations, but counted)", n - 2, 8, 4)
    sheet.put("s from n-1 to n", min(n - 1, 1), 2, 0)
    sheet.put("s from i to i+1 in frame n", n - 2, 6, 3)
    sheet.put("f_ii in frame n, rotational", R, 6, 3)
    sheet.put("f_ii in frame n, translational", P, 3, 0)
    sheet.put("t_ii in frame n, rotational", R, 9, 6)
    sheet.put("t_ii in frame n, translational", P, 6, 3)
    sheet.put("t_ji", n * (n - 1) // 2, 6, 6)
    sheet.put("D_ji", n * (n - 1) // 2, 3, 2)
    return sheet.lines


def _table_5(joints: str) -> list[Line]:
    sheet = _Sheet(joints)
    n = sheet.n
    first = 2 if sheet.turning(1) else 3
    sheet.put("k_i, D_ii", n, 0, 0)
    sheet.put("f_(i-1,i), rotational", sheet.joints_of(True, 2, n), 4, 4)
    sheet.put("t_(i-1,i), rotational", sheet.joints_of(True, first, n), 14, 10)
    sheet.put("t_(i-1,i), translational", sheet.joints_of(False, first, n), 8, 5)
    sheet.put("f_(j,i), j = 2 ... i-2", _inner_pairs(n), 8, 4)
    sheet.put("t_(j,i), j = 2 ... i-2", _inner_pairs(n), 12, 8)
    if sheet.turning(1):
        sheet.put("t_(1,i), i >= 3", n - 2, 14, 10)
    else:
        sheet.put("f_(1,i), i >= 3", n - 2, 8, 4)
    return sheet.lines


def moment_lines(joints: str) -> list[Line]:
    """Return the lines of Table VII for a row of joints in general geometry: s is the second rotational joint.

    The printed totals leave out what joint n's constants make needless (l and V of the last body are zero) and the
    first moment of joint r where it is joint 1, which nothing uses.

    Implements: LinFang1999 Table VII.
    Differs: Where joint n is translational, which the paper does not count, its first step is counted alike.
    """
    sheet = _Sheet(joints)
    n = sheet.n
    turning = [i for i in range(1, n + 1) if sheet.turning(i)]
    if not turning:
        return []
    r, s = turning[0], turning[1] if len(turning) > 1 else n + 1
    for i in range(n - 1, s - 2, -1):
        last, R = i + 1 == n, sheet.turning(i + 1)
        sheet.put(f"l_{i}", 1, *((6, 2) if last and R else (3, 0) if last else (8, 4) if R else (9, 5)))
        sheet.put(f"X_{i}", 1, *((0, 0) if last and R else (3, 1) if last else (3, 6) if R else (4, 5)))
        if i >= s:
            sheet.put(f"Y_{i}", 1, 18, 14)
            sheet.put(f"V_{i}", 1, 3, 4)
            sheet.put(f"c_{i}", 1, 0, 2 if sheet.turning(i) else 3)
            sheet.put(f"J_{i}", 1, 0, 3 if sheet.turning(i) else 0)
        else:
            sheet.put(f"u_r in frame {s}", 0 if sheet.turning(i) else 1, 4, 2)
            sheet.put(f"Y33_{i}", 1, 10, 5)
    for i in range(min(s, n + 1) - 1, r - 1, -1):
        if i < n and i <= s - 2:
            sheet.put(f"l_{i}", 1, *((8, 4) if sheet.turning(i + 1) else (9, 5)))
            sheet.put(f"Y33_{i}", 1, *((0, 0) if sheet.turning(i + 1) else (5, 5)))
        if i < n:
            sheet.put(f"V33_{i}", 1, *((1, 1) if sheet.turning(i) else (4, 3)))
        sheet.put(f"c_{i}", 1 if sheet.turning(i) and i > 1 else 0, 0, 2)
        sheet.put(f"J33_{i}", 1 if sheet.turning(i) else 0, 0, 1)
        sheet.put(f"t_{i} about r", 0 if sheet.turning(i) else 1, 2, 2)
    return sheet.lines
