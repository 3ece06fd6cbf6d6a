"""The inertia matrix by composite bodies: each link with all it carries, seen as one rigid body."""

from __future__ import annotations

from collections.abc import Sequence

from minidyn.dynamics.tree import Move, Tree
from minidyn.dynamics.vectors import Scalar, Vector, add, cross, dot, scale, shift_tensor, tensor_product, turn_tensor


def composite_inertia_matrix(tree: Tree, phi: Sequence[Sequence[Scalar]]) -> list[list[Scalar]]:
    """Return the inertia matrix of all joints, rigid links only.

    Args:
        tree: Geometry at q.
        phi: Ten parameters XX ... M of each link.

    Implements: LinFang1999 eq. (12)-(17), the composite-body form.
    """
    size = len(tree.moves)
    composite = [list(ten) for ten in phi]
    M: list[list[Scalar]] = [[tree.zero] * size for _ in range(size)]
    for index in reversed(range(size)):
        move = tree.moves[index]
        ten = composite[index]
        if not move.fixed:
            force, moment = _momentum(move, ten)
            link = index
            while link >= 0:
                angular, linear = tree.moves[link].unit_twist
                M[index][link] = M[link][index] = dot(angular, moment) + dot(linear, force)
                if tree.moves[link].parent >= 0:
                    force, moment = tree.moves[link].wrench_to_parent(force, moment)
                link = tree.moves[link].parent
        if move.parent >= 0:
            seen = _seen_from_parent(move, ten)
            composite[move.parent] = [a + b for a, b in zip(composite[move.parent], seen)]
    return M


def _momentum(move: Move, ten: Sequence[Scalar]) -> tuple[Vector, Vector]:
    """Return (linear, angular about the origin) momentum of a body at unit joint speed."""
    u, v = move.unit_twist
    h, mass = list(ten[6:9]), ten[9]
    linear = cross(u, h) if move.turning else scale(mass, v)
    if move.turning and move.lever is not None:
        linear = add(linear, scale(mass, v))
    angular = tensor_product(ten[:6], u) if move.turning else cross(h, v)
    if move.turning and move.lever is not None:
        angular = add(angular, cross(h, v))
    return linear, angular


def _seen_from_parent(move: Move, ten: Sequence[Scalar]) -> list[Scalar]:
    """Return the ten parameters of a body about the parent's origin, in the parent's frame."""
    J, h, mass = list(ten[:6]), list(ten[6:9]), ten[9]
    if move.lever is not None:
        J, h = shift_tensor(J, h, mass, move.lever)
    J, h = shift_tensor(turn_tensor(move.turns, J), move.vector_to_parent(h), mass, move.shift)
    return [*J, *h, mass]
