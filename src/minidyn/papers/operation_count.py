"""How many multiplications and additions one evaluation takes.

Executed by this package, or as LinFang1999 counts. The paper counts for general geometry and uses
no zero but those its formulas show. The lines of its Tables I to V and VII are kept apart so that
its totals (Tables VI and VIII) can be followed.
"""

from __future__ import annotations

from minidyn.base.minimal_program import check_formulation, counted_program
from minidyn.base.virtual_links import generic_chain
from minidyn.dynamics.papers.minimal import MEETING, MINIMAL_WHAT
from minidyn.errors import UnknownName, Unsupported
from minidyn.model.geometry import TOLERANCE
from minidyn.model.mdh_frames import to_mdh
from minidyn.model.mdh_rows import check_open
from minidyn.model.robot import Robot

COUNTINGS = ("executed", "paper")


def operation_count(
    robot: Robot,
    what: str = "inertia_matrix",
    formulation: int | None = None,
    counting: str = "executed",
    customised: bool = True,
    tolerance: float = TOLERANCE,
) -> tuple[int, int]:
    """Return (multiplications, additions) of one evaluation on the robot's base parameters.

    Sines and cosines are given, geometry is numeric, and base parameters are general: no zero,
    equality or sign of a particular value is used. What depends on parameters alone is computed
    once and not counted. Rotor inertia, friction and drives are left out. A division, of which
    forward dynamics has up to one a joint, counts as a multiplication.

    Args:
        robot: The robot. Formulations and counts of papers need a serial chain.
        what: "inertia_matrix", "inverse_dynamics", "gravity_torque", "velocity_torque" (Coriolis
            and centrifugal), "coriolis_matrix" or "forward_dynamics".
        formulation: Of the inertia matrix, also within forward dynamics: 1 to 5 as in LinFang1999,
            6 meets half-way; None: the cheapest.
        counting: "executed": operations of the recorded program after its passes. "paper": the sum
            of the lines of LinFang1999's tables, which are for general geometry and the inertia
            matrix.
        customised: Whether the robot's own geometry folds; False: general alpha, a and d with the
            same joints.
        tolerance: Axes that are special within this are exactly so, as in `base_parameters`.

    Raises:
        UnknownName: No such function, formulation or counting.
        Unsupported: A robot that the question does not cover.
    """
    _check(what, formulation, counting)
    if counting == "paper":
        if what != "inertia_matrix":
            raise Unsupported(
                f'counting "paper" is for the inertia matrix; LinFang1999 does not count {what}'
            )
        check_open(robot, "operation counts of LinFang1999")
        joints = "".join("R" if joint.turns else "P" for joint in to_mdh(robot)[0].joints)
        return paper_count(joints, formulation)
    function = counted_program(
        robot if customised else generic_chain(robot), what, formulation, tolerance
    )
    counts = function.counts
    return counts["mul"] + counts["div"], counts["add"]


def _check(what: str, formulation: int | None, counting: str) -> None:
    if counting not in COUNTINGS:
        raise UnknownName("counting", counting, COUNTINGS)
    if what not in MINIMAL_WHAT:
        raise UnknownName("function", what, MINIMAL_WHAT)
    check_formulation(formulation, what)
    if counting == "paper" and formulation == MEETING:
        raise Unsupported(
            f'counting "paper": formulation {MEETING} is not in LinFang1999; give 1 to 5'
        )


Line = tuple[str, int, int, int]
"""One line of a table.

What it computes, how often, and each time its multiplications and additions.
"""


def formulation_lines(number: int, joints: str) -> list[Line]:
    """Return the lines of Table I to V for a row of joints such as "RRPRRR", composite bodies being
    at hand.

    Raises:
        UnknownName: There is no such formulation.

    Implements: LinFang1999 Tables I-V.
    """
    if isinstance(number, bool) or number not in range(1, 6):
        raise UnknownName("formulation", str(number), [str(key) for key in range(1, 6)])
    R = [letter == "R" for letter in joints.upper()]
    n = len(R)
    inner = max(n - 2, 0) * max(n - 3, 0) // 2  # pairs i = 4 ... n, j = 2 ... i-2
    every = n * (n - 1) // 2

    def some(turning: bool, first: int, last: int = n) -> int:
        """How many joints from `first` to `last`, counted from 1, are of a kind."""
        return R[first - 1 : last].count(turning)

    def pairs(lower: bool, upper: bool) -> int:
        """Pairs j < i with joint j and joint i of these kinds."""
        return sum(R[:i].count(lower) for i in range(1, n) if R[i] is upper)

    def outward(turning_only: bool) -> int:
        """Pairs j = 1 ... n-2, k = j+2 ... n."""
        return sum(n - j - 1 for j in range(1, n - 1) if R[j - 1] or not turning_only)

    handed_down = [
        ("f_(j,i), j = 2 ... i-2", inner, 8, 4),
        ("t_(j,i), j = 2 ... i-2", inner, 12, 8),
    ]
    to_first = [("t_(1,i), i >= 3", n - 2, 14, 10) if R[0] else ("f_(1,i), i >= 3", n - 2, 8, 4)]
    carried = [("u_j in frame j+1, D_ii", n, 0, 0), ("u_j in frame k", outward(False), 8, 4)]
    mixed, sliding = (
        ("D_ji, j translational, i rotational", pairs(False, True), 2, 1),
        pairs(False, False),
    )
    if number == 1:
        second = (
            [("s from 1 to 2 in frame 2", 1, 2, 0), ("t_(1,2)", 1, 12, 8)]
            if R[0]
            else [("f_(1,2)", 1, 6, 2)]
        )
        return [
            ("f_ii, t_ii, D_ii", n, 0, 0),
            ("f_(i-1,i), i >= 3, rotational", some(True, 3), 6, 2),
            ("t_(i-1,i), i >= 3, rotational", some(True, 3), 12, 8),
            ("t_(i-1,i), i >= 3, translational", some(False, 3), 8, 6),
            *handed_down,
            *([*second, *to_first] if n > 1 else []),
        ]
    if number == 2:
        return [
            *carried,
            ("s from j to k in frame k, j rotational", outward(True), 8, 6),
            ("D_ji, both rotational", pairs(True, True), 7, 6),
            mixed,
            ("D_ji, j rotational, i translational", pairs(True, False), 4, 3),
            ("D_ji, both translational", sliding, 1, 0),
        ]
    if number == 3:
        return [
            *carried,
            ("u x s from j to j+1, j rotational", some(True, 1, n - 1), 4, 2),
            ("u x s from j to k, j rotational", outward(True), 12, 8),
            ("D_ji, both rotational", pairs(True, True), 5, 4),
            mixed,
            ("D_ji, j rotational, i translational", pairs(True, False), 3, 2),
            ("D_ji, both translational", sliding, 1, 0),
        ]
    if number == 4:
        return [
            ("turn from i to n", n - 2, 24, 12),
            ("u_i in frame n (a column of it: no operations, but counted)", n - 2, 8, 4),
            ("s from n-1 to n", min(n - 1, 1), 2, 0),
            ("s from i to i+1 in frame n", n - 2, 6, 3),
            ("f_ii in frame n, rotational", some(True, 2, n - 1), 6, 3),
            ("f_ii in frame n, translational", some(False, 2, n - 1), 3, 0),
            ("t_ii in frame n, rotational", some(True, 2, n - 1), 9, 6),
            ("t_ii in frame n, translational", some(False, 2, n - 1), 6, 3),
            ("t_ji", every, 6, 6),
            ("D_ji", every, 3, 2),
        ]
    return [
        ("k_i, D_ii", n, 0, 0),
        ("f_(i-1,i), rotational", some(True, 2), 4, 4),
        ("t_(i-1,i), rotational", some(True, 2 if R[0] else 3), 14, 10),
        ("t_(i-1,i), translational", some(False, 2 if R[0] else 3), 8, 5),
        *handed_down,
        *to_first,
    ]


def total(lines: list[Line]) -> tuple[int, int]:
    """Return (multiplications, additions) of lines."""
    return sum(max(times, 0) * mul for _, times, mul, _ in lines), sum(
        max(times, 0) * add for _, times, _, add in lines
    )


def paper_count(joints: str, number: int | None = None) -> tuple[int, int]:
    """Return (multiplications, additions) of the inertia matrix with its composite bodies, counted
    as the paper does.

    Of "RRPRRR" for instance; without a number, by the formulation of 1 to 5 with the fewest
    operations.
    """
    moments = total(moment_lines(joints))
    counts = [
        total(formulation_lines(k, joints))
        for k in ((1, 2, 3, 4, 5) if number is None else (number,))
    ]
    mul, add = min(counts, key=sum)
    return mul + moments[0], add + moments[1]


def moment_lines(joints: str) -> list[Line]:
    """Return the lines of Table VII for a row of joints in general geometry.

    s is the second rotational joint. The printed totals leave out what joint n's constants make
    needless (l and V of the last body are zero) and the first moment of joint r where it is joint
    1, which nothing uses.

    Implements: LinFang1999 Table VII.
    Differs: Where joint n is translational, which the paper does not count, its first step is
    counted alike.
    """
    n, R = len(joints), [False, *(letter == "R" for letter in joints.upper())]  # counted from 1
    turning = [i for i in range(1, n + 1) if R[i]]
    if not turning:
        return []
    r, s = turning[0], turning[1] if len(turning) > 1 else n + 1
    lines: list[Line] = []
    for i in range(n - 1, s - 2, -1):
        last = i + 1 == n
        lines.append(
            (
                f"l_{i}",
                1,
                *(
                    (6, 2)
                    if last and R[i + 1]
                    else (3, 0)
                    if last
                    else (8, 4)
                    if R[i + 1]
                    else (9, 5)
                ),
            )
        )
        lines.append(
            (
                f"X_{i}",
                1,
                *(
                    (0, 0)
                    if last and R[i + 1]
                    else (3, 1)
                    if last
                    else (3, 6)
                    if R[i + 1]
                    else (4, 5)
                ),
            )
        )
        if i >= s:
            lines += [(f"Y_{i}", 1, 18, 14), (f"V_{i}", 1, 3, 4)]
            lines += [(f"c_{i}", 1, 0, 2 if R[i] else 3), (f"J_{i}", 1, 0, 3 if R[i] else 0)]
        else:
            lines += [(f"u_r in frame {s}", 0 if R[i] else 1, 4, 2), (f"Y33_{i}", 1, 10, 5)]
    for i in range(min(s, n + 1) - 1, r - 1, -1):
        if i < n and i <= s - 2:
            lines.append((f"l_{i}", 1, *((8, 4) if R[i + 1] else (9, 5))))
            lines.append((f"Y33_{i}", 1, *((0, 0) if R[i + 1] else (5, 5))))
        if i < n:
            lines.append((f"V33_{i}", 1, *((1, 1) if R[i] else (4, 3))))
        lines += [(f"c_{i}", int(R[i] and i > 1), 0, 2), (f"J33_{i}", int(R[i]), 0, 1)]
        lines.append((f"t_{i} about r", int(not R[i]), 2, 2))
    return lines
