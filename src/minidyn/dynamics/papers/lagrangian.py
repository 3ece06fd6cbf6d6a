"""The regressor in closed form, from each link's Lagrangian.

Accelerations enter through dW/dt alone. For one link, with J its Jacobians and R its rotation in
the base frame, kinetic and potential energy are linear in sixteen parameters, and Lagrange's
equation splits into

    Y = dW/dt + Ŷ,    Wθ = ∂T/∂dq (momentum),    Ŷθ = -∂T/∂q + ∂U/∂q

where W is linear in dq and Ŷ is free of ddq. That split is what the filtered regressor rests on.
All derivatives of Jacobians are written out: with j before k on the path,

    ∂Jv_k/∂q_j = ∂Jv_j/∂q_k = Jω_j x Jv_k,    ∂Jω_k/∂q_j = Jω_j x Jω_k,    ∂Jω_j/∂q_k = 0,    ∂R/∂q_j = [Jω_j x] R
"""  # noqa: E501

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from minidyn.dynamics.tree import Tree
from minidyn.dynamics.vectors import (
    Scalar,
    Vector,
    add,
    combined,
    cross,
    dot,
    plus,
    scale,
    subtract,
)

Rows = dict[int, list[Scalar]]
Frame = tuple[list[Vector], Vector]


@dataclass(frozen=True, slots=True)
class LinkLagrangian:
    """What one link's Lagrangian gives, each {joint on its path: sixteen entries}."""

    momentum: Rows  # W
    rate: Rows  # dW/dt; empty where no accelerations were given
    rest: Rows  # Ŷ


def lagrange_regressor(tree: Tree, dq: Sequence[Scalar], ddq: Sequence[Scalar]) -> list[Rows]:
    """Return for each link {joint: sixteen entries} of Y = dW/dt + Ŷ.

    Implements: LuMeng1993 eq. (47), (48), corrected as in ERRATA F.
    """
    return [
        {joint: plus(link.rate[joint], link.rest[joint]) for joint in link.rest}
        for link in link_lagrangians(tree, dq, ddq)
    ]


def link_lagrangians(
    tree: Tree, dq: Sequence[Scalar], ddq: Sequence[Scalar] | None = None
) -> list[LinkLagrangian]:
    """Return W, dW/dt (where accelerations are given) and Ŷ of every link for speeds of all joints.

    Implements: LuMeng1993 eq. (27)-(48) and (117)-(129), corrected as in ERRATA F ((23), (33),
    (35), (39), (42), (124), (129)).
    Differs: trees and any joint axis. The terms of (34)-(42) are gathered: with d = Rᵀω, e_j =
    RᵀJω_j and c_j = ∂d/∂q_j, all quadratic terms are one bilinear form of d with e_j (W) or with
    c_j (Ŷ).
    """
    found = []
    frames: list[Frame] = []
    axes: list[tuple[Vector, Vector]] = []  # of each joint: direction, a point on it
    for index, move in enumerate(tree.moves):
        turned, origin = (tree.units, tree.zeros) if move.parent < 0 else frames[move.parent]
        at_joint = add(origin, combined(turned, move.shift))
        own = [combined(turned, move.vector_to_parent(unit)) for unit in tree.units]
        frames.append(
            (own, at_joint if move.lever is None else add(at_joint, combined(own, move.lever)))
        )
        axes.append((combined(own, move.axis), at_joint))
        path = [joint for joint in reversed(tree.path(index)) if not tree.moves[joint].fixed]
        found.append(_link(tree, path, axes, frames[index], dq, ddq))
    return found


def _link(
    tree: Tree,
    path: Sequence[int],
    axes: Sequence[tuple[Vector, Vector]],
    frame: Frame,
    dq: Sequence[Scalar],
    ddq: Sequence[Scalar] | None,
) -> LinkLagrangian:
    R, origin = frame
    Jw, Jv = [], []
    for joint in path:
        z, point = axes[joint]
        turning = tree.moves[joint].turning
        Jw.append(z if turning else tree.zeros)
        Jv.append(cross(z, subtract(origin, point)) if turning else z)
    own_w = [scale(dq[joint], J) for joint, J in zip(path, Jw)]
    own_v = [scale(dq[joint], J) for joint, J in zip(path, Jv)]
    before = _sums(own_w, tree)  # angular velocity of the link before each joint
    after_w = _sums(own_w[::-1], tree)[-2::-1]  # what the joints after each one add
    after_v = _sums(own_v[::-1], tree)[-2::-1]
    w, v, g = before[-1], _sums(own_v, tree)[-1], tree.gravity
    # columns of (37); the Hessian of a position is symmetric, so that Dv is also the rate of Jv
    Dv = [
        add(cross(add(before[k], own_w[k]), Jv[k]), cross(Jw[k], after_v[k]))
        for k in range(len(path))
    ]
    Dw = [cross(Jw[k], after_w[k]) for k in range(len(path))]
    dJw = [cross(before[k], Jw[k]) for k in range(len(path))]
    d = _back(R, w)
    momentum, rate, rest = {}, {}, {}
    if ddq is not None:
        dw = _sums(
            [add(scale(ddq[j], Jw[k]), scale(dq[j], dJw[k])) for k, j in enumerate(path)], tree
        )[-1]
        dv = _sums(
            [add(scale(ddq[j], Jv[k]), scale(dq[j], Dv[k])) for k, j in enumerate(path)], tree
        )[-1]
        dd = _back(R, dw)
    for k, joint in enumerate(path):
        x = add(cross(Jv[k], w), cross(v, Jw[k]))
        e = _back(R, Jw[k])
        momentum[joint] = [dot(Jv[k], v), *_back(R, x), *_second(d, e), *_tensor(d, e)]
        if ddq is not None:
            dx = add(
                add(cross(Dv[k], w), cross(Jv[k], dw)), add(cross(dv, Jw[k]), cross(v, dJw[k]))
            )
            de = _back(R, subtract(dJw[k], cross(w, Jw[k])))
            rate[joint] = [
                dot(Dv[k], v) + dot(Jv[k], dv),
                *_back(R, subtract(dx, cross(w, x))),
                *plus(_second(dd, e), _second(d, de)),
                *plus(_tensor(dd, e), _tensor(d, de)),
            ]
        c = _back(R, subtract(Dw[k], cross(Jw[k], w)))
        first = subtract(cross(Jw[k], cross(v, w)), add(cross(Dv[k], w), cross(v, Dw[k])))
        rest[joint] = [
            tree.zero - dot(Dv[k], v) - dot(Jv[k], g),
            *_back(R, add(first, cross(Jw[k], g))),
            *(tree.zero - entry for entry in _second(d, c)),
            *(tree.zero - entry for entry in _tensor(d, c)),
        ]
    return LinkLagrangian(momentum, rate, rest)


def _second(d: Vector, e: Vector) -> list[Scalar]:
    """Return the products of m px² ... m py pz: (p·p)(d·e) - (p·d)(p·e)."""
    xx, yy, zz = d[0] * e[0], d[1] * e[1], d[2] * e[2]
    return [yy + zz, xx + zz, xx + yy, *_tensor(d, e)[3:]]


def _tensor(d: Vector, e: Vector) -> list[Scalar]:
    """Return the products of Ixx ... Iyz: eᵀ B(d)."""
    return [
        d[0] * e[0],
        d[1] * e[1],
        d[2] * e[2],
        *(-(d[i] * e[j] + d[j] * e[i]) for i, j in ((0, 1), (0, 2), (1, 2))),
    ]


def _sums(terms: Sequence[Vector], tree: Tree) -> list[Vector]:
    """Return the partial sums, from none to all."""
    return list(accumulate(terms, add, initial=tree.zeros))


def _back(columns: Sequence[Vector], v: Vector) -> Vector:
    """Rᵀ v."""
    return [dot(column, v) for column in columns]
