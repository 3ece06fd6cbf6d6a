"""The same functions written for CasADi.

Textbook recursions on its symbols, the best known form for code generation. Newton-Euler in link
frames, composite bodies, and the regressor by one wrench for each parameter. Forward dynamics
solves with the inertia matrix, which for arms of six or seven joints takes fewer operations than
articulated bodies.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import casadi as ca
import numpy as np
import pinocchio as pin
from numpy.typing import NDArray

Array = NDArray[np.float64]


class Chain:
    """A chain of revolute joints as CasADi sees it.

    Constant geometry and inertia of a Pinocchio model.
    """

    def __init__(self, model: pin.Model) -> None:
        self.n = model.nv
        self.gravity = model.gravity.linear
        self.parents = [model.parents[k + 1] - 1 for k in range(self.n)]
        self.R0 = [_tidy(model.jointPlacements[k + 1].rotation) for k in range(self.n)]
        self.p = [ca.SX(_tidy(model.jointPlacements[k + 1].translation)) for k in range(self.n)]
        self.axis = [
            _tidy(np.asarray(model.joints[k + 1].createData().S).reshape(6)[3:])
            for k in range(self.n)
        ]
        self.mass, self.mc, self.inertia = [], [], []
        for body in list(model.inertias)[1:]:
            ten = body.toDynamicParameters()  # m, mc, then Ixx Ixy Iyy Ixz Iyz Izz about the origin
            self.mass.append(ten[0])
            self.mc.append(ca.SX(ten[1:4]))
            xx, xy, yy, xz, yz, zz = ten[4:]
            self.inertia.append(ca.SX(np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])))

    def turns(self, q: Any) -> list[Any]:
        """Rotation of each link's frame to its parent's."""
        found = []
        for k in range(self.n):
            K = _skew(self.axis[k])
            e = ca.SX(self.axis[k])
            c, s = ca.cos(q[k]), ca.sin(q[k])
            found.append(
                ca.mtimes(ca.SX(self.R0[k]), c * (ca.SX.eye(3) - e @ e.T) + s * K + e @ e.T)
            )
        return found


def casadi_function(
    model: pin.Model, what: str, columns: Sequence[int] | None = None
) -> ca.Function:
    """Return one of the functions.

    `columns` of a regressor are places in (m, mc, I) order, ten a link.
    """
    chain = Chain(model)
    q, dq, ddq = (ca.SX.sym(name, chain.n) for name in ("q", "dq", "ddq"))
    if what == "inertia_matrix":
        inputs, result = [q], _inertia_matrix(chain, chain.turns(q))
    elif what == "inverse_dynamics":
        inputs, result = [q, dq, ddq], _inverse_dynamics(chain, chain.turns(q), dq, ddq)
    elif what == "forward_dynamics":
        R = chain.turns(q)
        rest = ddq - _inverse_dynamics(
            chain, R, dq, ca.SX(chain.n, 1)
        )  # here the third input is the torque
        D, LT, order = ca.ldl(_inertia_matrix(chain, R), False)
        inputs, result = [q, dq, ddq], ca.ldl_solve(rest, D, LT, order)
    else:
        Y = _regressor(chain, chain.turns(q), dq, ddq)
        if columns is not None:
            Y = Y[:, list(columns)]
        inputs, result = [q, dq, ddq], ca.sparsify(Y)
    return ca.Function(what, inputs, [result], {"cse": True})


def _tidy(values: Array) -> Array:
    """Remove rounding noise, so that CasADi sees the zeros."""
    values = np.array(values, dtype=float)
    values[np.abs(values) < 1e-12] = 0.0
    near = np.abs(np.abs(values) - 1.0) < 1e-12
    values[near] = np.sign(values[near])
    return values


def _skew(v: Any) -> Any:
    return ca.skew(v if isinstance(v, ca.SX) else ca.SX(v))


def _motion(chain: Chain, R: list[Any], dq: Any, ddq: Any) -> list[tuple[Any, Any, Any]]:
    """Angular velocity, angular acceleration and acceleration of the origin (less gravity), in link
    frames.
    """
    found: list[tuple[Any, Any, Any]] = []
    for k, parent in enumerate(chain.parents):
        e = ca.SX(chain.axis[k])
        if parent < 0:
            w, dw, a = ca.SX(3, 1), ca.SX(3, 1), ca.SX(-chain.gravity)
        else:
            w, dw, a = found[parent]
        p = chain.p[k]
        a = R[k].T @ (a + ca.cross(dw, p) + ca.cross(w, ca.cross(w, p)))
        w, dw = R[k].T @ w, R[k].T @ dw
        dw = dw + e * ddq[k] + ca.cross(w, e * dq[k])
        found.append((w + e * dq[k], dw, a))
    return found


def _inverse_dynamics(chain: Chain, R: list[Any], dq: Any, ddq: Any) -> Any:
    force, moment = [], []
    for k, (w, dw, a) in enumerate(_motion(chain, R, dq, ddq)):
        mc, inertia = chain.mc[k], chain.inertia[k]
        force.append(chain.mass[k] * a + ca.cross(dw, mc) + ca.cross(w, ca.cross(w, mc)))
        moment.append(inertia @ dw + ca.cross(w, inertia @ w) + ca.cross(mc, a))
    tau = ca.SX(chain.n, 1)
    for k in reversed(range(chain.n)):
        tau[k] = ca.dot(ca.SX(chain.axis[k]), moment[k])
        parent = chain.parents[k]
        if parent >= 0:
            f = R[k] @ force[k]
            force[parent] += f
            moment[parent] += R[k] @ moment[k] + ca.cross(chain.p[k], f)
    return tau


def _turned(R: Any, inertia: Any) -> Any:
    """R I Rᵀ, both halves the same expressions."""
    left = R @ inertia
    full = ca.SX(3, 3)
    for i in range(3):
        for j in range(i, 3):
            full[i, j] = full[j, i] = ca.dot(left[i, :], R[j, :])
    return full


def _inertia_matrix(chain: Chain, R: list[Any]) -> Any:
    mass, mc, inertia = list(chain.mass), list(chain.mc), list(chain.inertia)
    M = ca.SX(chain.n, chain.n)
    for k in reversed(range(chain.n)):
        e = ca.SX(chain.axis[k])
        n, f = inertia[k] @ e, ca.cross(e, mc[k])
        M[k, k] = ca.dot(e, n)
        at = k
        while chain.parents[at] >= 0:
            f = R[at] @ f
            n = R[at] @ n + ca.cross(chain.p[at], f)
            at = chain.parents[at]
            M[at, k] = M[k, at] = ca.dot(ca.SX(chain.axis[at]), n)
        parent = chain.parents[k]
        if parent >= 0:
            p, moved = chain.p[k], R[k] @ mc[k]
            P = _skew(p)
            mixed = P @ _skew(moved)
            mass[parent] += mass[k]
            mc[parent] += moved + mass[k] * p
            inertia[parent] += _turned(R[k], inertia[k]) - mixed - mixed.T - mass[k] * (P @ P)
    return M


def _regressor(chain: Chain, R: list[Any], dq: Any, ddq: Any) -> Any:
    Y = ca.SX(chain.n, 10 * chain.n)
    for k, (w, dw, a) in enumerate(_motion(chain, R, dq, ddq)):
        W = _skew(w)
        force = ca.horzcat(a, _skew(dw) + W @ W, ca.SX(3, 6))
        moment = ca.horzcat(ca.SX(3, 1), -_skew(a), _inertia_columns(dw) + W @ _inertia_columns(w))
        at = k
        while at >= 0:
            Y[at, 10 * k : 10 * k + 10] = ca.SX(chain.axis[at]).T @ moment
            force = R[at] @ force
            moment = R[at] @ moment + _skew(chain.p[at]) @ force
            at = chain.parents[at]
    return Y


def _inertia_columns(w: Any) -> Any:
    """L(w) with I w = L(w) (Ixx, Ixy, Iyy, Ixz, Iyz, Izz)."""
    x, y, z = w[0], w[1], w[2]
    zero = ca.SX(1, 1)
    return ca.vertcat(
        ca.horzcat(x, y, zero, z, zero, zero),
        ca.horzcat(zero, x, y, zero, z, zero),
        ca.horzcat(zero, zero, zero, x, y, z),
    )
