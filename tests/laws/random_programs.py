"""Random straight-line programs over scalars, for laws that must hold for every recording."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from minidyn.graph.derivative import OPERATIONS, close_graph, open_inputs
from minidyn.graph.function import Function, run_tape
from minidyn.graph.scalar import Graph, Scalar, atan2, cos, cos_sin, sign, sin, sqrt

ARGUMENTS = {"q": 4, "dq": 3, "phi": 2}
SIZE = sum(ARGUMENTS.values())
CONSTANTS = [0.0, 1.0, -1.0, 0.5, -2.5, 3]

SMOOTH: list[Callable[[Any, Any], Any]] = [
    lambda a, b: a + b,
    lambda a, b: a - b,
    lambda a, b: b - a,
    lambda a, b: -a - b,
    lambda a, b: a * b,
    lambda a, b: -a * b,
    lambda a, b: 0.3 * a - b * 2,
    lambda a, b: a / (b * b + 1.5),
    lambda a, b: (a - 0.25) / -1.6 + 1 / (2.0 + a * a),
    lambda a, b: sqrt(a * a + b * b + 0.3),
    lambda a, b: sin(a - b),
    lambda a, b: cos_sin(b - a)[0] * cos_sin(a)[1],
    lambda a, b: cos(-a),
]
ROUGH: list[Callable[[Any, Any], Any]] = [
    lambda a, b: atan2(sin(a) - 0.4, b * b + 0.7),
    lambda a, b: atan2(a - b, -b * b - 0.7 - a * a) * 0.1,
]


class Program:
    """A random program: the same operations on whatever scalars it is run with."""

    def __init__(self, seed: int, length: int = 50, smooth: bool = False) -> None:
        rng = np.random.default_rng(seed)
        table = SMOOTH if smooth else SMOOTH + ROUGH
        first = SIZE + len(CONSTANTS)
        self.smooth = smooth
        self.steps = [
            (
                table[rng.integers(len(table))],
                int(rng.integers(n)),
                int(rng.integers(max(0, n - 12), n)),
            )
            for n in range(first, first + length)
        ]

    def __call__(self, inputs: Sequence[Scalar]) -> list[Scalar]:
        """Return 12 scalars, the last ones computed."""
        values = [*inputs, *CONSTANTS]
        if not self.smooth:  # signs of inputs alone: rounding cannot change them
            values[0] = values[0] + sign(inputs[0]) * 0.5 - sign(-2 * inputs[5])
        for step, a, b in self.steps:
            values.append(step(values[a], values[b]))
        return values[-12:]

    def record(self, name: str = "program") -> Function:
        """Return the recorded program with results y (3, 3), z (2,) and e ()."""
        graph = Graph()
        inputs = [
            node
            for label, size in ARGUMENTS.items()
            for node in graph.inputs(label, size, uniform=label == "phi")
        ]
        out = self(inputs)
        return graph.function(
            name, {"y": [out[:3], out[3:6], out[6:9]], "z": out[9:11], "e": out[11]}
        )

    def direct(self, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Return what the program itself computes on arrays (batch, size), sample by sample, on
        floats.
        """
        samples = np.concatenate(arrays, axis=-1)
        rows = np.array(
            [[float(value) for value in self([float(x) for x in row])] for row in samples]
        )
        return [rows[:, :9].reshape(-1, 3, 3), rows[:, 9:11], rows[:, 11]]


def samples(seed: int, batch: int) -> list[np.ndarray]:
    """Return random inputs for a program."""
    rng = np.random.default_rng(1000 + seed)
    return [rng.normal(size=(batch, size)) for size in ARGUMENTS.values()]


def close(actual: Sequence[Any], expected: Sequence[Any], tolerance: float = 1e-12) -> None:
    """Assert that results have the same shapes and agree, relative to the largest of them."""
    assert len(actual) == len(expected)
    size = max(1.0, *[float(np.abs(array).max()) for array in expected])
    for a, b in zip(actual, expected):
        assert np.shape(a) == np.shape(b)
        np.testing.assert_allclose(a, b, rtol=0, atol=tolerance * size)


def rebuild(function: Function, rewrite: Callable[..., Any] | None = None) -> Function:
    """The function replayed through a fresh graph.

    `rewrite` may replace an operation (None: leave it).
    """

    def applied(op: str) -> Callable[..., Scalar]:
        def apply(*operands: Scalar) -> Scalar:
            changed = None if rewrite is None else rewrite(op, operands)
            return OPERATIONS[op](*operands) if changed is None else changed

        return apply

    graph, columns = open_inputs(function)
    return close_graph(
        graph, function, run_tape(function, columns, {op: applied(op) for op in OPERATIONS})
    )
