"""Derivatives of inverse and forward dynamics by positions and speeds.

Composite bodies carry them, in link frames, as they carry the inertia matrix. With the twist
S = (u, v) that unit speed of joint j gives its link, and the link's angular velocity ω, velocity vₒ
and acceleration a (less gravity) of its origin:

- A turn of joint j turns all that hangs on it. Seen from there, the motion that comes from the
  parent changes: speeds by Ψ = (ω × u, ω × v + vₒ × u), accelerations by
  Φ = (A u, A v + a × u + 2 vₒ × (ω × u)), where A = [ω̇×] + [ω×][ω×].
- A composite body that takes on a twist rate (μ, ν) needs the wrench I (μ, ν) of its inertia, and
  one that takes on the angular velocity μ the Coriolis wrench B μ = (2 (tr G - G) μ, 2 μ × L) with
  its momentum L = Σ m ṙ and G = Σ m ṙ rᵀ. A velocity that all points share costs no wrench, so B
  has no columns for ν, and its rows turn with the frame without a shift.
- So wrenches of composite body i, for the whole of what joint i moves:

      by q_i    B (ω × u) + I Φ + S × f      with the wrench f that moves the body
      by q̇_i    B u + 2 I Ψ
      by q̈_i    I S

  carried down to the base they meet the twists of the joints on their way: entries (j, i) above the
  diagonal. Entries (i, j) below it, for j nearer to the base, are those of the row SᵢᵀB and the
  wrench I Sᵢ against Ψ, Φ and u of joint j.

Three wrenches and one row of three go down the path of each joint: a third of the operations of a
derivative of the recursion, forwards or backwards (docs/dynamics.md has the counts).

Mimic joints and formulas follow by the chain rule. Drives are differentiated as they are recorded:
the derivative of a sign is 0, so friction that reverses at once has the derivative of its smooth
part, and what a drive remembers is held still.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from minidyn.dynamics.newton_euler import (
    LinkMotion,
    link_motions,
    link_wrench,
    matrix_product,
    placed,
)
from minidyn.dynamics.tree import Coordinates, Move, Row, Tree
from minidyn.dynamics.vectors import (
    Scalar,
    Turn,
    Vector,
    add,
    cross,
    dot,
    plus,
    scale,
    solve_symmetric,
    tensor_product,
    to_parent,
)
from minidyn.graph.derivative import derivatives
from minidyn.graph.node import Node

Matrix = list[list[Scalar]]
Wrench = tuple[Vector, Vector]


@dataclass(frozen=True, slots=True)
class _Twist:
    """What a joint gives its link, and how its turn changes the motion that it hands on."""

    u: Vector
    v: Vector
    turned: Vector  # ω × u
    psi: Wrench  # 2 Ψ: angular, linear
    phi: Wrench  # Φ: angular, linear


@dataclass(frozen=True, slots=True)
class _Body:
    """A composite body in the frame of the link that carries it."""

    ten: list[Scalar]  # XX ... M
    L: Vector  # twice its momentum
    G: Matrix  # twice Σ m ṙ rᵀ
    force: Vector  # that moves it
    moment: Vector  # about the origin


@dataclass(frozen=True, slots=True)
class Slopes:
    """Derivatives of the torques of all joints (rows) by motions of all joints (columns)."""

    tau: list[Scalar]
    by_q: Matrix
    by_dq: Matrix
    by_ddq: Matrix


def torque_slopes(
    tree: Tree,
    dq: Sequence[Scalar],
    ddq: Sequence[Scalar],
    phi: Sequence[Sequence[Scalar]],
) -> Slopes:
    """Return torques of rigid links and their derivatives, from XX ... M of each link.

    After S. Singh, R. P. Russell, P. M. Wensing, Efficient analytical derivatives of rigid-body
    dynamics using spatial vector algebra (2022), with classical accelerations, in link frames.
    """
    motions = link_motions(tree, dq, ddq)
    doubled = _doubled_velocities(tree, motions, dq)
    twists = [
        _twist(move, motion, velocity)
        for move, motion, velocity in zip(tree.moves, motions, doubled)
    ]
    bodies = [_body(motion, v, ten) for motion, v, ten in zip(motions, doubled, phi)]
    size = len(tree.moves)
    found = Slopes([tree.zero] * size, *([[tree.zero] * size for _ in range(size)] for _ in "qva"))
    for i in reversed(range(size)):
        move, body = tree.moves[i], bodies[i]
        if not move.fixed:
            _carry_down(tree, twists, i, body, found)
        if move.parent >= 0:
            bodies[move.parent] = _joined(bodies[move.parent], _at_parent(body, move))
    return found


def _carry_down(tree: Tree, twists: Sequence[_Twist], i: int, body: _Body, found: Slopes) -> None:
    """Write the row and the column of joint i down to the base."""
    own = twists[i]
    by_q, by_dq, by_ddq = _wrenches(own, body)
    row = _coriolis_row(own, body)
    found.tau[i] = dot(own.u, body.moment) + dot(own.v, body.force)
    j = i
    while j >= 0:
        move, twist = tree.moves[j], twists[j]
        if not move.fixed:
            for matrix, wrench in (
                (found.by_q, by_q),
                (found.by_dq, by_dq),
                (found.by_ddq, by_ddq),
            ):
                matrix[j][i] = _power(wrench, (twist.u, twist.v))
            if j != i:
                found.by_q[i][j] = dot(row, twist.turned) + _power(by_ddq, twist.phi)
                found.by_dq[i][j] = dot(row, twist.u) + _power(by_ddq, twist.psi)
                found.by_ddq[i][j] = found.by_ddq[j][i]
        if move.parent >= 0:
            by_q, by_dq, by_ddq = (_down(move, wrench) for wrench in (by_q, by_dq, by_ddq))
            row = move.vector_to_parent(row)
        j = move.parent


def _down(move: Move, wrench: Wrench) -> Wrench:
    """Return a wrench (moment, force) of a link about its parent's origin."""
    force, moment = move.wrench_to_parent(wrench[1], wrench[0])
    return moment, force


def _power(wrench: Wrench, twist: Wrench) -> Scalar:
    """Return (moment, force) times (angular, linear)."""
    return dot(wrench[0], twist[0]) + dot(wrench[1], twist[1])


def _doubled_velocities(
    tree: Tree, motions: Sequence[LinkMotion], dq: Sequence[Scalar]
) -> list[tuple[Vector, Vector]]:
    """Return twice the angular velocity and the velocity of the origin of every link."""
    still = tree.zeros, tree.zeros
    found: list[tuple[Vector, Vector]] = []
    for move, motion, speed in zip(tree.moves, motions, dq):
        w, v = found[move.parent] if move.parent >= 0 else still
        v = move.vector_to_child(add(v, cross(w, move.shift)))
        w = scale(2.0, motion.w)
        if not (move.turning or move.fixed):
            v = add(v, scale(2.0 * speed, move.axis))
        if move.lever is not None:
            v = add(v, cross(w, move.lever))
        found.append((w, v))
    return found


def _twist(move: Move, motion: LinkMotion, doubled: tuple[Vector, Vector]) -> _Twist:
    (u, v), (w, velocity) = move.unit_twist, doubled
    turned = cross(motion.w, u)
    psi = cross(w, u), add(cross(w, v), cross(velocity, u))
    linear = add(cross(motion.a, u), cross(velocity, turned))
    phi = matrix_product(motion.A, u), add(matrix_product(motion.A, v), linear)
    return _Twist(u, v, turned, psi, phi)


def _body(motion: LinkMotion, doubled: tuple[Vector, Vector], ten: Sequence[Scalar]) -> _Body:
    """Return a link as the first part of its composite body.

    G = vₒ hᵀ + [ω×] Σ with the second moments Σ = ½ tr(J) 1 - J.
    """
    (w, v), (XX, XY, XZ, YY, YZ, ZZ), h, mass = doubled, ten[:6], list(ten[6:9]), ten[9]
    half = [0.5 * (YY + ZZ - XX), 0.5 * (XX + ZZ - YY), 0.5 * (XX + YY - ZZ)]
    columns = [
        cross(w, column)
        for column in ([half[0], -XY, -XZ], [-XY, half[1], -YZ], [-XZ, -YZ, half[2]])
    ]
    G = [[v[row] * h[k] + columns[k][row] for k in range(3)] for row in range(3)]
    force, moment = link_wrench(motion, ten)
    return _Body(list(ten), add(scale(mass, v), cross(w, h)), G, force, moment)


def _at_parent(body: _Body, move: Move) -> _Body:
    """Return a body about the parent's origin and along its frame."""
    ten, L, G = body.ten, body.L, body.G
    if move.lever is not None:
        ten = placed(ten, (), move.lever)
        G = _shifted(G, L, move.lever)
    L, G = to_parent(move.turns, L), _turned(move.turns, G)
    force, moment = move.wrench_to_parent(body.force, body.moment)
    shifted = _shifted(G, L, move.shift)
    return _Body(placed(ten, move.turns, move.shift), L, shifted, force, moment)


def _shifted(G: Matrix, L: Vector, shift: Vector) -> Matrix:
    """Return G with positions that are longer by a shift."""
    return [[G[row][k] + L[row] * shift[k] for k in range(3)] for row in range(3)]


def _turned(turns: Sequence[Turn], G: Matrix) -> Matrix:
    """Return R G Rᵀ."""
    columns = [to_parent(turns, [G[row][k] for row in range(3)]) for k in range(3)]
    return [to_parent(turns, [column[row] for column in columns]) for row in range(3)]


def _joined(a: _Body, b: _Body) -> _Body:
    return _Body(
        plus(a.ten, b.ten),
        add(a.L, b.L),
        [add(x, y) for x, y in zip(a.G, b.G)],
        add(a.force, b.force),
        add(a.moment, b.moment),
    )


def _inertia(body: _Body, twist: Wrench) -> Wrench:
    """Return the wrench that a twist rate (angular, linear) of a body needs."""
    (angular, linear), h = twist, body.ten[6:9]
    moment = add(tensor_product(body.ten[:6], angular), cross(h, linear))
    return moment, add(scale(body.ten[9], linear), cross(angular, h))


def _coriolis(body: _Body) -> Matrix:
    """Return the moments 2 (tr G - G) of unit angular velocities, columns of a matrix."""
    (xx, xy, xz), (yx, yy, yz), (zx, zy, zz) = body.G
    return [[yy + zz, -xy, -xz], [-yx, xx + zz, -yz], [-zx, -zy, xx + yy]]


def _coriolis_row(twist: _Twist, body: _Body) -> Vector:
    """Return the row Sᵀ B, which meets angular velocities."""
    matrix = _coriolis(body)
    row = [dot([line[k] for line in matrix], twist.u) for k in range(3)]
    return add(row, cross(body.L, twist.v))


def _wrenches(twist: _Twist, body: _Body) -> tuple[Wrench, Wrench, Wrench]:
    """Return the wrenches of a body by position, speed and acceleration of the joint that moves
    it.
    """
    u, v = twist.u, twist.v
    turned = cross(u, body.moment), cross(u, body.force)
    turned = add(turned[0], cross(v, body.force)), turned[1]
    matrix = _coriolis(body)
    slow, fast = (
        (matrix_product(matrix, angular), cross(angular, body.L)) for angular in (twist.turned, u)
    )
    by_q = _sum(slow, _inertia(body, twist.phi), turned)
    by_dq = _sum(fast, _inertia(body, twist.psi))
    return by_q, by_dq, _inertia(body, (u, v))


def _sum(*wrenches: Wrench) -> Wrench:
    moment, force = wrenches[0]
    for other in wrenches[1:]:
        moment, force = add(moment, other[0]), add(force, other[1])
    return moment, force


def independent_slopes(
    c: Coordinates, slopes: Slopes, q: Sequence[Scalar], dq: Sequence[Scalar], ddq: Sequence[Scalar]
) -> tuple[Matrix, Matrix, Matrix]:
    """Return derivatives of the torques of the independent joints by q, dq and ddq (n, n) each.

    With tau = Gᵀ tau_all and q_all = f(q). Where G is not constant, speeds and accelerations of
    followers depend on q, too, and so does Gᵀ. Independent q, dq, ddq are nodes of the graph.
    """
    by_q, by_dq, by_ddq = (
        _projected(c, matrix, c.G) for matrix in (slopes.by_q, slopes.by_dq, slopes.by_ddq)
    )
    if not any(isinstance(value, Node) for row in c.G for value in row.values()):
        return by_q, by_dq, by_ddq
    n, joints = c.n, len(c.G)
    rates = derivatives([*c.dq, *c.ddq], [*q, *dq, *ddq])
    speeds, accelerations = rates[:joints], rates[joints:]
    for matrix, part, into in (
        (slopes.by_dq, [rate[:n] for rate in speeds], by_q),
        (slopes.by_ddq, [rate[:n] for rate in accelerations], by_q),
        (slopes.by_ddq, [rate[n : 2 * n] for rate in accelerations], by_dq),
    ):
        more = _projected(c, matrix, [dict(enumerate(rate)) for rate in part])
        into[:] = [plus(row, extra) for row, extra in zip(into, more)]
    for torque, row in zip(slopes.tau, c.G):
        for line, turns in zip(row, derivatives(list(row.values()), q)):
            by_q[line] = plus(by_q[line], scaled(torque, turns))
    return by_q, by_dq, by_ddq


def scaled(factor: Scalar, values: Sequence[Scalar]) -> list[Scalar]:
    """Return factor · values for a list of any length."""
    return [factor * value for value in values]


def _projected(c: Coordinates, matrix: Matrix, rows: Sequence[Row]) -> Matrix:
    """Return Gᵀ matrix R for the matrix R (joints, n) with these rows."""
    half = [[0.0] * c.n for _ in matrix]
    for line, sums in zip(matrix, half):
        for entry, row in zip(line, rows):
            for column, factor in row.items():
                sums[column] = sums[column] + factor * entry
    columns = [c.project([line[column] for line in half]) for column in range(c.n)]
    return [[column[row] for column in columns] for row in range(c.n)]


def inverse_matrix(M: Matrix, names: Sequence[str]) -> Matrix:
    """Return the inverse of an inertia matrix, exactly symmetric."""
    n = len(M)
    inverse: Matrix = [[0.0] * n for _ in range(n)]
    for k in range(n):
        column = solve_symmetric(M, [1.0 if row == k else 0.0 for row in range(n)], names)
        for i in range(k + 1):
            inverse[i][k] = inverse[k][i] = column[i]
    return inverse


def negative_product(A: Matrix, B: Matrix) -> Matrix:
    """Return -A B."""
    columns = list(zip(*B))
    return [[-sum((a * b for a, b in zip(row, column)), 0.0) for column in columns] for row in A]
