"""Adaptive laws as recorded programs.

Torque and rate of the estimate in one straight line of arithmetic. So a step costs one call of
machine code from Python, batches run side by side in vector registers, and the same program is
printed as C for the robot's own controller.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from minidyn.arrays import Array
from minidyn.base.base_map import BaseMap
from minidyn.control.natural import NaturalLinks
from minidyn.control.unknowns import Unknowns
from minidyn.dynamics.record import build
from minidyn.dynamics.vectors import Scalar, plus, solve_symmetric
from minidyn.graph.function import Function
from minidyn.graph.scalar import Graph, sign
from minidyn.model.robot import Robot


@dataclass(frozen=True)
class Composite:
    """Adaptation by the error of predicted torques, too.

    τ_f = Y_f θ, all of it passed through a / (s + a). With W θ = M dq and Y = dW/dt + Ŷ the
    filtered regressor Y_f = a (W - W_f) + Ŷ_f needs no acceleration.
    """

    weight: Array  # of each joint's squared error of the filtered torque (n,)
    pole: float  # a, 1/s


@dataclass(frozen=True)
class AdaptiveLaw:
    """An adaptive law with its settings; its methods record it.

    Its state is the estimate, and with `composite` behind it W_f, Ŷ_f (n, k + 1 each, the last
    column of what is known) and τ_f (n).
    """

    kind: str  # "slotine_li", "modified_slotine_li" or "craig"
    robot: Robot
    unknowns: Unknowns  # what is estimated
    base: BaseMap | None  # where base parameters are estimated, their map
    bandwidth: Array  # Λ (n, n), 1/s; Craig's Ψ
    gain: Array | None  # K (n, n); None for K = M̂ Λ and for Craig's law
    adaptation: Array  # Γ (k, k)
    natural: NaturalLinks | None = None  # links whose estimate moves along the natural metric
    pd: tuple[Array, Array] | None = None  # Craig's Kp and Kv (n, n)
    composite: Composite | None = None

    @property
    def size(self) -> int:
        """Length of the state."""
        k, n = len(self.unknowns.names), self.robot.n
        return k + (0 if self.composite is None else n * (2 * k + 3))

    def flow(self) -> Function:
        """Return (estimate, q, dq, q_d, dq_d, ddq_d) -> (tau, rate).

        Craig's also takes ddq, before q_d.
        """
        graph = Graph()
        inputs = self._inputs(graph)
        tau, gradient, filtered = self._laws(inputs)
        rate = self._plain_rate(gradient)
        if self.natural is not None:
            rate = self.natural.turned(inputs["estimate"], gradient, rate)
        if self.composite is not None:
            rate += [
                self.composite.pole * (new - old) for new, old in zip(filtered, inputs["filtered"])
            ]
        return graph.function("flow", {"tau": tau, "rate": rate})

    def step(self, period: float, lower: Array, upper: Array) -> Function:
        """Return the same arguments -> (tau, next estimate): one sampled step, bounds included."""
        graph = Graph()
        inputs = self._inputs(graph)
        tau, gradient, filtered = self._laws(inputs)
        stepped = [
            value + period * change
            for value, change in zip(inputs["estimate"], self._plain_rate(gradient))
        ]
        if self.natural is not None:
            stepped = self.natural.stepped(inputs["estimate"], gradient, stepped, period)
        moved = []
        for new, low, high in zip(stepped, lower, upper):
            if np.isfinite(low):
                new = low + 0.5 * ((new - low) + (new - low) * sign(new - low))
            if np.isfinite(high):
                new = high - 0.5 * ((high - new) + (high - new) * sign(high - new))
            moved.append(new)
        if self.composite is not None:  # exact for signals held for a period
            share = float(-np.expm1(-self.composite.pole * period))
            moved += [old + share * (new - old) for new, old in zip(filtered, inputs["filtered"])]
        return graph.function("control_step", {"tau": tau, f"next_{self._state}": moved})

    def torque(self) -> Function:
        """Return the arguments of `flow` without ddq -> tau alone."""
        graph = Graph()
        inputs = self._inputs(graph, with_acceleration=False)
        Y, s = self._regressor(inputs)
        return graph.function("torque", {"tau": self._torque(inputs, Y, s)})

    def begin(self) -> Function:
        """Return (q, dq) -> the initial state of a composite law.

        W_f starts at W, which is zero at rest.
        """
        graph = Graph()
        q, dq = (list(graph.inputs(name, self.robot.n)) for name in ("q", "dq"))
        W, _ = self._momentum(q, dq)
        rest = [0.0] * (self.size - len(self.unknowns.names) - len(W))
        return graph.function("begin", {"state": [*self.unknowns.start.tolist(), *W, *rest]})

    @property
    def _state(self) -> str:
        return "estimate" if self.composite is None else "state"

    def _inputs(self, graph: Graph, with_acceleration: bool = True) -> dict[str, list[Scalar]]:
        names = [
            "q",
            "dq",
            *(("ddq",) if self.kind == "craig" and with_acceleration else ()),
            "q_d",
            "dq_d",
            "ddq_d",
        ]
        state, k = list(graph.inputs(self._state, self.size)), len(self.unknowns.names)
        inputs: dict[str, list[Scalar]] = {"estimate": state[:k], "filtered": state[k:]}
        inputs |= {name: list(graph.inputs(name, self.robot.n)) for name in names}
        return inputs

    def _laws(
        self, inputs: dict[str, list[Scalar]]
    ) -> tuple[list[Scalar], list[Scalar], list[Scalar]]:
        """Return the torque, the gradient that the estimate descends (Yᵤᵀ s, or Craig's), and what
        is filtered.
        """
        Y, s = self._regressor(inputs)
        tau = self._torque(inputs, Y, s)
        if self.kind == "craig":
            measured = self._columns(
                "regressor", {name: inputs[name] for name in ("q", "dq", "ddq")}
            )
            phi = self._full(inputs["estimate"])
            M = build(self.robot, "inertia_matrix", {"q": inputs["q"]}, phi)
            Y, s = measured, solve_symmetric(M, s)
        power = [sum(s[i] * Y[i][k] for i in range(self.robot.n)) for k in range(len(Y[0]))]
        gradient = [
            weighted(self.unknowns.directions[:, k], power) for k in range(len(self.unknowns.names))
        ]
        if self.composite is None:
            return tau, gradient, []
        W, rest = self._momentum(inputs["q"], inputs["dq"])
        return tau, plus(gradient, self._predicted(self.composite, inputs, W)), [*W, *rest, *tau]

    def _predicted(
        self, composite: Composite, inputs: dict[str, list[Scalar]], W: list[Scalar]
    ) -> list[Scalar]:
        """Return Y_fᵀ R (Y_f θ̂ - τ_f), the gradient of the weighted squared error of the filtered
        torque.
        """
        k, n, old = len(self.unknowns.names), self.robot.n, inputs["filtered"]
        Y_f = [composite.pole * (w - f) + r for w, f, r in zip(W, old, old[len(W) :])]
        gradient: list[Scalar] = [0.0] * k
        for joint, tau_f in enumerate(old[2 * len(W) :][:n]):
            *row, known = Y_f[joint * (k + 1) : (joint + 1) * (k + 1)]
            error = sum((y * value for y, value in zip(row, inputs["estimate"])), known) - tau_f
            gradient = [
                g + y * (float(composite.weight[joint]) * error) for g, y in zip(gradient, row)
            ]
        return gradient

    def _momentum(self, q: list[Scalar], dq: list[Scalar]) -> tuple[list[Scalar], list[Scalar]]:
        """Return W and Ŷ, row by row.

        The columns of what is unknown, then what the known parameters give.
        """
        parts = self._columns("momentum_regressor", {"q": q, "dq": dq})
        weights = [*self.unknowns.directions.T, self.unknowns.known]
        W, rest = (
            [weighted(w, row) for row in parts[name] for w in weights] for name in ("W", "rest")
        )
        return W, rest

    def _plain_rate(self, gradient: list[Scalar]) -> list[Scalar]:
        return [-weighted(row, gradient) for row in self.adaptation]

    def _regressor(
        self, inputs: dict[str, list[Scalar]]
    ) -> tuple[list[list[Scalar]], list[Scalar]]:
        """Return the law's regressor and s = dq - dq_r."""
        q, dq, q_d, dq_d, ddq_d = (inputs[name] for name in ("q", "dq", "q_d", "dq_d", "ddq_d"))
        error, rate = ([a - b for a, b in zip(x, y)] for x, y in ((q, q_d), (dq, dq_d)))
        dq_r = [v - weighted(row, error) for v, row in zip(dq_d, self.bandwidth)]
        ddq_r = [a - weighted(row, rate) for a, row in zip(ddq_d, self.bandwidth)]
        s = [x - y for x, y in zip(dq, dq_r)]
        if self.kind == "slotine_li":
            states = {"q": q, "dq": dq, "dqr": dq_r, "ddqr": ddq_r}
            return self._columns("slotine_li_regressor", states), s
        demanded = ddq_r
        if self.pd is not None:
            demanded = [
                a - weighted(v, rate) - weighted(p, error) for a, p, v in zip(ddq_d, *self.pd)
            ]
        elif self.gain is None:
            demanded = [a - weighted(row, s) for a, row in zip(ddq_r, self.bandwidth)]
        return self._columns("regressor", {"q": q, "dq": dq, "ddq": demanded}), s

    def _columns(self, what: str, states: dict[str, list[Scalar]]) -> Any:
        base = self.base
        columns = None if base is None else self.robot.layout.indices(base.kept)
        combine = None if base is None else base.unmixing
        return build(self.robot, what, states, columns=columns, combine=combine)

    def _torque(
        self, inputs: dict[str, list[Scalar]], Y: list[list[Scalar]], s: list[Scalar]
    ) -> list[Scalar]:
        vector = self._vector(inputs["estimate"])
        tau = [sum(entry * value for entry, value in zip(row, vector)) for row in Y]
        return (
            tau
            if self.gain is None
            else [value - weighted(row, s) for value, row in zip(tau, self.gain)]
        )

    def _vector(self, estimate: list[Scalar]) -> list[Scalar]:
        known, directions = self.unknowns.known, self.unknowns.directions
        return [
            float(constant) + weighted(row, estimate) for constant, row in zip(known, directions)
        ]

    def standard_parts(self) -> tuple[Array, list[Array]]:
        """Return the standard parameters (p,) of a zero estimate and how they grow with each entry
        of it, (p,) each.
        """
        known, directions = self.unknowns.known, list(self.unknowns.directions.T)
        if self.base is None:
            return known, directions
        return self.base.lift(known), [self.base.lift(direction) for direction in directions]

    def _full(self, estimate: list[Scalar]) -> list[Scalar]:
        """Standard parameters that give the same torques as the estimate."""
        vector = self._vector(estimate)
        if self.base is None:
            return vector
        columns = [self.base.lift(unit) for unit in np.eye(len(vector))]
        return [weighted(row, vector) for row in np.stack(columns, axis=1)]


def weighted(weights: Array, values: list[Scalar]) -> Scalar:
    """Return Σ weight value; what weighs nothing leaves no operation behind."""
    return sum(
        (float(weight) * value for weight, value in zip(weights, values) if weight != 0.0), 0.0
    )
