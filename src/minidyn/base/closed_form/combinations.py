"""The minimal linear combinations themselves, over scalars.

Which constants of composite bodies make the set. One function writes the set down for scalars of
any kind. Fed with the rows of an identity matrix it gives the map from standard parameters, fed
with polynomials it gives formulas with the robot's geometry symbols.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from minidyn.base.closed_form.structure import Role, Structure
from minidyn.dynamics.mdh_chain import stands
from minidyn.dynamics.papers.composite import Constants, Stand, inertia_constants_of
from minidyn.dynamics.tree import REAL, Numbers
from minidyn.dynamics.vectors import Scalar, Vector, subtract, to_child, to_parent
from minidyn.model.drives import ROTOR
from minidyn.model.robot import Robot


@dataclass(frozen=True, slots=True)
class Combination:
    """One minimal linear combination."""

    # U33_1, U11_22_4, U12_4, U13_4, U23_4, k2x, k2y, k3z, m3, kappa1_3, kappa2_3, or a drive term
    # (Fv2). U13h_3 and U23h_3 are taken about the point where all axes meet
    name: str
    joint: int  # index of its joint
    # power of length in its unit (a mass has 0, a first moment 1, an inertia 2; a drive term -1:
    # none)
    unit: int
    leaders: tuple[
        str, ...
    ]  # symbols of the standard parameters of its own link that it may stand for, best first
    value: Scalar


def combinations(
    robot: Robot, structure: Structure, phi: Sequence[Scalar], numbers: Numbers = REAL
) -> list[Combination]:
    """Return the set of minimal linear combinations of a robot in mDH frames, joint by joint, phi
    given as scalars.

    Implements: Lin1994 Theorem 4, Theorem 5 and eq. (53)-(54), LinFang1999 Theorem 1 and eq.
    (27)-(28).

    Differs: Corrected as in ERRATA A; trees; rotor inertia and friction take part.
    """
    layout = robot.layout
    standing = stands(robot, numbers)
    constants = inertia_constants_of(
        standing, [list(phi[part]) for part in layout.links], structure.version
    )
    found: list[Combination] = []
    for index, (role, c) in enumerate(zip(structure.roles, constants)):
        drives = {column.symbol: phi[column.index] for column in layout.drives[index]}
        if structure.what == "gravity":
            found += _gravity(index, role, c)
            continue
        if structure.what == "inertia":
            drives = {symbol: value for symbol, value in drives.items() if symbol == ROTOR}
        rotor = drives.pop(ROTOR, None)
        offset = "Fo" in drives
        merges = rotor is not None and role.alone and (role.turning or role.pull == 0.0 or offset)
        extra = rotor if merges else None
        if role.turning:
            h = None if role.centre is None else _height(robot, standing, structure, index, numbers)
            found += _turning(index, role, c, extra, h)
        else:
            u = _first_axis(standing, structure, index) if role.sigma else None
            found += _sliding(index, role, c, extra, u)
        n = role.number
        if rotor is not None and not merges:
            found.append(Combination(f"{ROTOR}{n}", index, -1, (ROTOR,), rotor))
        for symbol, value in drives.items():
            if symbol == "Fo" and merges and not role.turning and role.pull != 0.0:
                # the rotor takes the mass's part in acceleration, the offset its weight: nothing is
                # left of the mass
                value = value - role.pull * c.mass
            found.append(Combination(f"{symbol}{n}", index, -1, (symbol,), value))
    return found


def _turning(
    index: int, role: Role, c: Constants, rotor: Scalar | None, h: Scalar | None
) -> list[Combination]:
    n = role.number
    U11, U12, U13, U22, U23, U33 = c.U
    kx, ky, _ = c.k
    found = [Combination(f"U33_{n}", index, 2, ("ZZ",), U33 if rotor is None else U33 + rotor)]
    if role.s is not None:
        found += [
            Combination(f"U11_22_{n}", index, 2, ("XX", "YY"), U11 - U22),
            Combination(f"U12_{n}", index, 2, ("XY",), U12),
        ]
        mark = "" if h is None else "h"
        found += [
            Combination(f"U13{mark}_{n}", index, 2, ("XZ",), U13 if h is None else U13 - h * kx),
            Combination(f"U23{mark}_{n}", index, 2, ("YZ",), U23 if h is None else U23 - h * ky),
        ]
    if role.delta == 1 or (role.delta is None and role.centre is None):
        found += [
            Combination(f"k{n}x", index, 1, ("MX",), kx),
            Combination(f"k{n}y", index, 1, ("MY",), ky),
        ]
    return found


def _sliding(
    index: int, role: Role, c: Constants, rotor: Scalar | None, u: Vector | None
) -> list[Combination]:
    n = role.number
    found = [Combination(f"m{n}", index, 0, ("M",), c.mass if rotor is None else c.mass + rotor)]
    if role.s is not None:
        found += [
            Combination(f"k{n}{axis}", index, 1, (f"M{axis.upper()}",), c.k[place])
            for place, axis in enumerate("xyz")
        ]
    elif u is not None:
        first = ("MX", "MY", "MZ")
        kappa1 = u[0] * c.k[1] - u[1] * c.k[0]
        kappa2 = (u[0] * u[0] + u[1] * u[1]) * c.k[2] - u[2] * (u[0] * c.k[0] + u[1] * c.k[1])
        found += [
            Combination(f"kappa1_{n}", index, 1, first, kappa1),
            Combination(f"kappa2_{n}", index, 1, first, kappa2),
        ]
    return found


def _gravity(index: int, role: Role, c: Constants) -> list[Combination]:
    n = role.number
    if not role.turning:
        return [Combination(f"m{n}", index, 0, ("M",), c.mass)] if role.sigma else []
    if role.delta == 0:
        return []
    return [
        Combination(f"k{n}x", index, 1, ("MX",), c.k[0]),
        Combination(f"k{n}y", index, 1, ("MY",), c.k[1]),
    ]


def _first_axis(standing: Sequence[Stand], structure: Structure, index: int) -> Vector:
    """Axis of joint r in the frame of a translational joint between r and s.

    Constant, since all turn about it. In the frame of the last rotational joint it is ±z; from
    there only constant turns follow. The sign does not matter to what κ1 and κ2 span, but their
    values follow it.
    """
    path = [index]
    while True:
        parent = standing[path[-1]].parent
        path.append(parent)
        if structure.roles[parent].turning:
            break
    u: Vector = [0.0, 0.0, float(_sense(standing, structure, parent))]
    for i in reversed(path[:-1]):
        u = to_child(standing[i].turns, u)
    return u


def _sense(standing: Sequence[Stand], structure: Structure, index: int) -> int:
    """+1 or -1: z of a rotational joint before s along or against the axis of joint r."""
    u: Vector = [0.0, 0.0, 1.0]
    i = index
    r = structure.roles[index].r
    while structure.roles[i].number != r:
        u = to_parent(standing[i].turns, u)
        i = standing[i].parent
        if structure.roles[i].turning:
            u = [0.0, 0.0, 1.0 if u[2] > 0 else -1.0]
    return 1 if u[2] > 0 else -1


def _height(
    robot: Robot, standing: Sequence[Stand], structure: Structure, index: int, numbers: Numbers
) -> Scalar:
    """(O_j - P)·z of a joint where all axes meet in P, from constants alone.

    P is on the axis of s at -d (its common normal with the axis before is zero long), and from one
    frame to the next it stays where it is.
    """
    path = [index]
    while structure.roles[path[-1]].number != structure.roles[index].s:
        path.append(standing[path[-1]].parent)
    s = path[-1]
    h: Scalar = numbers.number(0.0)
    steps = robot.joints[s].before
    last_x = max((k for k, step in enumerate(steps) if step.kind[1] == "x"), default=-1)
    for step in steps[last_x + 1 :]:
        if step.kind == "tz":
            h = h + numbers.length(step)
    zero = numbers.number(0.0)
    for i in reversed(path[:-1]):
        seen = to_child(standing[i].turns, subtract([zero, zero, zero - h], standing[i].shift))
        h = zero - seen[2]
    return h
