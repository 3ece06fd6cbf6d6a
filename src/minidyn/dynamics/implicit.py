"""Dynamics of robots with loops that are not given as functions.

Passive joints are solved for outside the kernel. The tree's own kernels run on all joints; G and Ġ
of the solved loop carry the results to the active joints: dq_all = G dq, ddq_all = G ddq + Ġ dq,
tau = Gᵀ tau_all, Y = Gᵀ Y_all, M = Gᵀ M_all G (Gautier1991, closed loops), and C = Gᵀ C_all G + Gᵀ
M_all Ġ, which are the Christoffel symbols of M again: Ṁ - 2C stays skew-symmetric.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from minidyn.arrays import Array
from minidyn.dynamics.drives import has_load
from minidyn.dynamics.kernel import BaseColumns, run
from minidyn.dynamics.record import WHAT
from minidyn.errors import ShapeError, Unsupported
from minidyn.graph.function import Argument, Result
from minidyn.graph.targets.native.kernel import check_out, take_argument
from minidyn.model.loops import loop_jacobian, solve_loops
from minidyn.model.robot import Robot

_OF_MOTION = tuple(
    name
    for name, what in WHAT.items()
    if what.arguments == ("q", "dq", "ddq") and not name.endswith("_derivatives")
)
"""Torques and regressors of q, dq, ddq."""


def implicit_call(
    robot: Robot,
    what: str,
    arrays: tuple[ArrayLike, ...],
    parameters: ArrayLike | None,
    out: Any,
    base: BaseColumns | None,
    link: str | int | None,
) -> Any:
    """Compute a function of a robot with implicit loops; same shapes as without them.

    A sample whose positions are not finite gives NaN; one at which a loop cannot be closed raises
    LoopError.
    """
    compute = _Closed.functions().get(what)
    if compute is None:
        raise Unsupported(
            f"{what} of robot {robot.name!r}: its loops are solved numerically; give the passive "
            "joints as functions of the active ones in the robot's file"
        )
    if has_load(robot):
        raise Unsupported(
            f"robot {robot.name!r}: its loops are solved numerically, and how they share the load "
            "that friction grows "
            'with is not modelled; leave the term "load" out'
        )
    states, batch = _rows(robot, what, arrays)
    known = np.asarray(np.isfinite(states[0]).all(axis=-1))
    with np.errstate(all="ignore"):  # NaN and infinity in speeds pass through, as in kernels
        found = compute(_Closed(robot, [part[known] for part in states], parameters, base, link))
    results = []
    for part in found if isinstance(found, tuple) else (found,):
        full = np.full((len(known), *part.shape[1:]), np.nan)
        full[known] = part
        results.append(full.reshape((*batch, *part.shape[1:])))
    if out is None:
        return tuple(results) if isinstance(found, tuple) else results[0]
    described = tuple(Result("result", value.shape[len(batch) :]) for value in results)
    for target, value in zip(check_out(out, described, batch, what), results):
        target[...] = value
    return out


def _rows(
    robot: Robot, what: str, arrays: tuple[ArrayLike, ...]
) -> tuple[list[Array], tuple[int, ...]]:
    """Return the arrays as rows (N, n), and the leading shape they had together."""
    names = WHAT[what].arguments
    states = [
        take_argument(array, Argument(name, robot.n), what) for name, array in zip(names, arrays)
    ]
    try:
        batch = np.broadcast_shapes(*(array.shape[:-1] for array in states))
    except ValueError:
        shapes = ", ".join(str(array.shape) for array in states)
        raise ShapeError(f"{what}: leading axes do not broadcast: {shapes}") from None
    return [
        np.broadcast_to(a, (*batch, robot.n)).reshape(-1, robot.n).astype(float) for a in states
    ], batch


@lru_cache(maxsize=32)
def _tree(robot: Robot) -> Robot:
    return robot.with_measured_torques(None).open_loops()


class _Closed:
    """A batch of states with the loops closed; `..._all` are of all joints of the opened tree."""

    def __init__(
        self,
        robot: Robot,
        states: list[Array],
        parameters: ArrayLike | None,
        base: BaseColumns | None,
        link: str | int | None,
    ) -> None:
        self.robot, self.tree, self.states, self.base, self.link = (
            robot,
            _tree(robot),
            states,
            base,
            link,
        )
        self.parameters: ArrayLike = robot.parameters if parameters is None else parameters
        self.positions = solve_loops(robot, states[0])  # of every joint, for the loops
        G, drift = loop_jacobian(robot, self.positions, states[1] if len(states) > 1 else None)
        own = list(self.tree.independent)
        self.q_all, self.G, self.drift = self.positions[:, own], G[:, own], drift[:, own]

    @staticmethod
    def functions() -> dict[str, Callable[[_Closed], Any]]:
        return {
            "gravity_torque": lambda s: s.measured(s.project(s.run("gravity_torque", s.q_all))),
            "inertia_matrix": _Closed.inertia_matrix,
            "coriolis_matrix": _Closed.coriolis_matrix,
            "forward_dynamics": _Closed.forward_dynamics,
            "momentum_regressor": _Closed.momentum_regressor,
            "slotine_li_regressor": _Closed.slotine_li_regressor,
            "energy": lambda s: s.run("energy", s.q_all, s.dq_all),
            "energy_regressor": lambda s: s.run("energy_regressor", s.q_all, s.dq_all),
            "forward_kinematics": lambda s: s.run("forward_kinematics", s.q_all),
            "jacobian": lambda s: s.run("jacobian", s.q_all) @ s.G,
            **{what: partial(_Closed.along_motion, what=what) for what in _OF_MOTION},
        }

    # ------------------------------------------------------------ carrying over

    def run(self, what: str, *arrays: Array) -> Any:
        """Compute a function of the opened tree."""
        values = self.parameters if WHAT[what].parameters else None
        return run(self.tree, what, arrays, values, None, self.base, self.link)

    def spread(self, rates: Array) -> Array:
        """G times rates of the independent joints."""
        return np.asarray(np.einsum("nij,nj->ni", self.G, rates))

    def project(self, columns: Array) -> Array:
        """Gᵀ times torques (N, m) or columns (N, m, p) of all joints."""
        return np.asarray(np.einsum("nij,ni...->nj...", self.G, columns))

    def measured(self, rows: Array) -> Array:
        """Return torques or rows (N, n, ...) with zeros where a torque is not measured."""
        made = np.array(rows, dtype=float)
        made[:, ~np.array(self.robot.torques_measured)] = 0.0
        return made

    @property
    def dq_all(self) -> Array:
        return self.spread(self.states[1])

    def drift_along(self, other: Array) -> Array:
        """Return Ġ times `other`: the polar form of Ġ dq, which is quadratic in dq."""
        dq = self.states[1]
        ahead, behind = (
            loop_jacobian(self.robot, self.positions, dq + way * other)[1] for way in (1.0, -1.0)
        )
        return np.asarray(0.25 * (ahead - behind)[:, list(self.tree.independent)])

    @property
    def G_rate(self) -> Array:
        """Ġ (N, m, n)."""
        unit = np.eye(self.robot.n)
        return np.stack(
            [self.drift_along(np.broadcast_to(axis, self.states[1].shape)) for axis in unit],
            axis=-1,
        )

    # ------------------------------------------------------------ functions

    def inertia_matrix(self) -> Array:
        M = self.project(self.run("inertia_matrix", self.q_all) @ self.G)
        return np.asarray(0.5 * (M + np.swapaxes(M, -1, -2)))  # symmetric to the last digit

    def coriolis_matrix(self) -> Array:
        C_all = self.run("coriolis_matrix", self.q_all, self.dq_all)
        M_all = self.run("inertia_matrix", self.q_all)
        return self.project(C_all @ self.G + M_all @ self.G_rate)

    def forward_dynamics(self) -> Array:
        bias = self.project(self.run("inverse_dynamics", self.q_all, self.dq_all, self.drift))
        found = np.linalg.solve(self.inertia_matrix(), (self.states[2] - bias)[..., None])
        return np.asarray(found[..., 0], dtype=float)

    def momentum_regressor(self) -> tuple[Array, Array]:
        W_all, rest_all = self.run("momentum_regressor", self.q_all, self.dq_all)
        rest = self.project(rest_all) - np.einsum("nij,nip->njp", self.G_rate, W_all)
        return self.measured(self.project(W_all)), self.measured(rest)

    def slotine_li_regressor(self) -> Array:
        dqr, ddqr = self.states[2], self.states[3]
        ddqr_all = self.spread(ddqr) + self.drift_along(dqr)
        return self.project(
            self.run("slotine_li_regressor", self.q_all, self.dq_all, self.spread(dqr), ddqr_all)
        )

    def along_motion(self, what: str) -> Array:
        """Torques or regressors of q, dq, ddq."""
        ddq_all = self.spread(self.states[2]) + self.drift
        return self.measured(self.project(self.run(what, self.q_all, self.dq_all, ddq_all)))
