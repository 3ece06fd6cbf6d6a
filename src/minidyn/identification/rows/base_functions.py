"""Compiled functions of base parameters that passes over recordings call: rows, torques, scores."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from functools import cached_property
from threading import Lock
from typing import Any

import numpy as np

from minidyn.arrays import Array
from minidyn.base.base_map import BaseMap
from minidyn.dynamics.drives import has_load
from minidyn.dynamics.record import build
from minidyn.graph.function import Function
from minidyn.graph.scalar import Graph
from minidyn.graph.targets.native.kernel import compile_function
from minidyn.graph.targets.native.reduce import GROUP, Reduction
from minidyn.model.robot import Robot

_MOTION = ("q", "dq", "ddq")
_REMEMBERED: OrderedDict[tuple[str, str, bytes], BaseFunctions] = OrderedDict()
_LOCK = Lock()
_MOST = 16  # robots; sign widths that are tried are robots of their own


@dataclass(frozen=True)
class BaseFunctions:
    """Functions of one robot and its base parameters, compiled when first used.

    Attributes:
        robot: With the drive terms that are identified.
        base: Its base parameters.
    """

    robot: Robot
    base: BaseMap

    @cached_property
    def columns(self) -> tuple[tuple[int, ...], ...]:
        """For each joint, the base parameters its torque can show."""
        graph, _, Y = self._regressor()
        zero = graph.zero
        return tuple(tuple(k for k, entry in enumerate(row) if entry is not zero and entry != 0.0) for row in Y)

    @cached_property
    def rows(self) -> Reduction:
        """q, dq, ddq, tau to [Y_j | tau_j] of each joint on the columns it sees, then zeros up to whole groups."""
        return Reduction(self._rows_function(weighted=False))

    @cached_property
    def weighted_rows(self) -> Reduction:
        """The same with one more argument (N, n): what each row is multiplied by."""
        return Reduction(self._rows_function(weighted=True))

    def torque(self, q: Array, dq: Array, ddq: Array, beta: Array) -> Array:
        """Return Y beta (N, n)."""
        return np.asarray(self._torque(q, dq, ddq, beta), dtype=float)

    def scores(self, q: Array, dq: Array, ddq: Array, residual: Array) -> Array:
        """Return Yᵀ residual, sample by sample (N, b)."""
        return np.asarray(self._scores(q, dq, ddq, residual), dtype=float)

    @cached_property
    def _torque(self) -> Any:
        graph, _, Y = self._regressor()
        beta = graph.inputs("beta", self.base.rank, uniform=True)
        tau = []
        for own, row in zip(self.columns, Y):
            terms = [row[k] * beta[k] for k in own]
            tau.append(sum(terms[1:], terms[0]) if terms else graph.zero)
        return compile_function(graph.function("base_torque", {"tau": tau}))

    @cached_property
    def _scores(self) -> Any:
        graph, _, Y = self._regressor()
        residual = graph.inputs("residual", self.robot.n)
        made = []
        for k in range(self.base.rank):
            terms = [Y[j][k] * residual[j] for j, own in enumerate(self.columns) if k in own]
            made.append(sum(terms[1:], terms[0]) if terms else graph.zero)
        return compile_function(graph.function("base_scores", {"scores": made}))

    def _rows_function(self, weighted: bool) -> Function:
        graph, _, Y = self._regressor()
        tau = graph.inputs("tau", self.robot.n)
        weight: list[Any] | None = graph.inputs("weight", self.robot.n) if weighted else None
        results = {}
        for joint, own in enumerate(self.columns):
            row: list[Any] = [*(Y[joint][k] for k in own), tau[joint]]
            if weight is not None:
                row = [weight[joint] * entry for entry in row]
            results[f"Y{joint}"] = row + [graph.zero] * (-len(row) % GROUP)
        return graph.function("base_rows", results)

    def _regressor(self) -> tuple[Graph, dict[str, Any], Any]:
        graph = Graph()
        inputs: dict[str, Any] = {name: graph.inputs(name, self.robot.n) for name in _MOTION}
        kept = self.robot.layout.indices(self.base.kept)
        return graph, inputs, build(self.robot, "regressor", inputs, columns=kept, combine=self.base.unmixing)


def base_functions(robot: Robot, base: BaseMap) -> BaseFunctions:
    """Return the functions of a robot and its base parameters; the latest are remembered."""
    loads = robot.parameters.tobytes() if has_load(robot) else b""  # regressors read them
    key = (robot.structure_fingerprint, base.fingerprint, loads)
    with _LOCK:
        found = _REMEMBERED.pop(key, None)
        if found is None:
            found = BaseFunctions(robot, base)
        _REMEMBERED[key] = found
        while len(_REMEMBERED) > _MOST:
            _REMEMBERED.popitem(last=False)
    return found
