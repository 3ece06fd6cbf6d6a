"""Adaptive laws as recorded programs: torque and rate of the estimate in one straight line of arithmetic.

So a step costs one call of machine code from Python, batches run side by side in vector registers, and the same program
is printed as C for the robot's own controller.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from minidyn.arrays import Array
from minidyn.base.base_map import BaseMap
from minidyn.control.natural import NaturalLinks
from minidyn.control.unknowns import Unknowns
from minidyn.dynamics.record import build
from minidyn.dynamics.vectors import Scalar, solve_symmetric
from minidyn.graph.function import Function
from minidyn.graph.scalar import Graph, sign
from minidyn.model.robot import Robot


@dataclass(frozen=True)
class AdaptiveLaw:
    """An adaptive law with its settings; its methods record it."""

    kind: str  # "slotine_li", "modified" or "craig"
    robot: Robot
    unknowns: Unknowns  # what is estimated
    base: BaseMap | None  # where base parameters are estimated, their map
    bandwidth: float  # λ, 1/s
    gain: Array | None  # K (n,); None for K = λ M̂ and for Craig's law
    adaptation: Array  # Γ (k,)
    natural: NaturalLinks | None = None  # links whose estimate moves along the natural metric

    def flow(self) -> Function:
        """Return (estimate, q, dq, q_d, dq_d, ddq_d) -> (tau, rate); Craig's also takes ddq, before q_d."""
        graph = Graph()
        inputs = self._inputs(graph)
        tau, gradient = self._laws(inputs)
        rate = self._plain_rate(gradient)
        if self.natural is not None:
            rate = self.natural.turned(inputs["estimate"], gradient, rate)
        return graph.function("flow", {"tau": tau, "rate": rate})

    def step(self, period: float, lower: Array, upper: Array) -> Function:
        """Return the same arguments -> (tau, next estimate): one sampled step, bounds included."""
        graph = Graph()
        inputs = self._inputs(graph)
        tau, gradient = self._laws(inputs)
        stepped = [value + period * change for value, change in zip(inputs["estimate"], self._plain_rate(gradient))]
        if self.natural is not None:
            stepped = self.natural.stepped(inputs["estimate"], gradient, stepped, period)
        moved = []
        for new, low, high in zip(stepped, lower, upper):
            if np.isfinite(low):
                new = low + 0.5 * ((new - low) + (new - low) * sign(new - low))
            if np.isfinite(high):
                new = high - 0.5 * ((high - new) + (high - new) * sign(high - new))
            moved.append(new)
        return graph.function("control_step", {"tau": tau, "next_estimate": moved})

    def torque(self) -> Function:
        """Return the arguments of `flow` without ddq -> tau alone."""
        graph = Graph()
        inputs = self._inputs(graph, with_acceleration=False)
        Y, _ = self._regressor(inputs)
        return graph.function("torque", {"tau": self._torque(inputs, Y)})

    def _inputs(self, graph: Graph, with_acceleration: bool = True) -> dict[str, list[Scalar]]:
        names = ["q", "dq", *(("ddq",) if self.kind == "craig" and with_acceleration else ()), "q_d", "dq_d", "ddq_d"]
        inputs: dict[str, list[Scalar]] = {"estimate": list(graph.inputs("estimate", len(self.unknowns.names)))}
        inputs |= {name: list(graph.inputs(name, self.robot.n)) for name in names}
        return inputs

    def _laws(self, inputs: dict[str, list[Scalar]]) -> tuple[list[Scalar], list[Scalar]]:
        """Return the torque and the gradient that the estimate descends: Yᵤᵀ s, or Craig's."""
        Y, s = self._regressor(inputs)
        tau = self._torque(inputs, Y)
        if self.kind == "craig":
            measured = self._columns("regressor", {name: inputs[name] for name in ("q", "dq", "ddq")})
            phi = self._full(inputs["estimate"])
            M = build(self.robot, "inertia_matrix", {"q": inputs["q"]}, phi)
            Y, s = measured, solve_symmetric(M, s)
        power = [sum(s[i] * Y[i][k] for i in range(self.robot.n)) for k in range(len(Y[0]))]
        gradient = [_weighted(self.unknowns.directions[:, k], power) for k in range(len(self.unknowns.names))]
        return tau, gradient

    def _plain_rate(self, gradient: list[Scalar]) -> list[Scalar]:
        return [-(float(gamma) * value) for gamma, value in zip(self.adaptation, gradient)]

    def _regressor(self, inputs: dict[str, list[Scalar]]) -> tuple[list[list[Scalar]], list[Scalar]]:
        """Return the law's regressor and s = dq - dq_r."""
        q, dq, q_d, dq_d, ddq_d = (inputs[name] for name in ("q", "dq", "q_d", "dq_d", "ddq_d"))
        dq_r = [v - self.bandwidth * (x - y) for v, x, y in zip(dq_d, q, q_d)]
        ddq_r = [a - self.bandwidth * (x - y) for a, x, y in zip(ddq_d, dq, dq_d)]
        s = [x - y for x, y in zip(dq, dq_r)]
        if self.kind == "slotine_li":
            states = {"q": q, "dq": dq, "dqr": dq_r, "ddqr": ddq_r}
            return self._columns("slotine_li_regressor", states), s
        demanded = ddq_r if self.gain is not None else [a - self.bandwidth * x for a, x in zip(ddq_r, s)]
        return self._columns("regressor", {"q": q, "dq": dq, "ddq": demanded}), s

    def _columns(self, what: str, states: dict[str, list[Scalar]]) -> list[list[Scalar]]:
        base = self.base
        columns = None if base is None else self.robot.layout.indices(base.kept)
        combine = None if base is None else base.unmixing
        Y: list[list[Scalar]] = build(self.robot, what, states, columns=columns, combine=combine)
        return Y

    def _torque(self, inputs: dict[str, list[Scalar]], Y: list[list[Scalar]]) -> list[Scalar]:
        vector = self._vector(inputs["estimate"])
        tau = [sum(entry * value for entry, value in zip(row, vector)) for row in Y]
        if self.gain is None:
            return tau
        s = [
            (v - w) + self.bandwidth * (x - y)
            for v, w, x, y in zip(inputs["dq"], inputs["dq_d"], inputs["q"], inputs["q_d"])
        ]
        return [value - float(k) * x for value, k, x in zip(tau, self.gain, s)]

    def _vector(self, estimate: list[Scalar]) -> list[Scalar]:
        known, directions = self.unknowns.known, self.unknowns.directions
        return [float(constant) + _weighted(row, estimate) for constant, row in zip(known, directions)]

    def _full(self, estimate: list[Scalar]) -> list[Scalar]:
        """Standard parameters that give the same torques as the estimate."""
        vector = self._vector(estimate)
        if self.base is None:
            return vector
        columns = [self.base.lift(unit) for unit in np.eye(len(vector))]
        return [_weighted(row, vector) for row in np.stack(columns, axis=1)]


def _weighted(weights: Array, values: list[Scalar]) -> Scalar:
    return sum((float(weight) * value for weight, value in zip(weights, values) if weight != 0.0), 0.0)
