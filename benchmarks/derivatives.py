"""Derivatives of the dynamics: operations by several ways, and time against Pinocchio.

Pinocchio is called from Python for every sample of an array, its results copied into arrays, as its
users do. Contestants take turns, the least processor time of each counts, and values are compared
first. `--count` counts only.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import minidyn as md
from minidyn.dynamics.record import build
from minidyn.graph.derivative import _backward, derivatives
from minidyn.graph.function import Function
from minidyn.graph.scalar import Graph
from minidyn.model.robot import Robot
from timing import race

ROBOTS = ("panda", "ur10e")
CACHED = 64  # samples whose results stay in the second-level cache
SECONDS = 0.5  # for each row
SIZES = (100, 1_000, 10_000)  # samples of a call
FUNCTIONS = {
    "inverse_dynamics_derivatives": ("q", "dq", "ddq"),
    "forward_dynamics_derivatives": ("q", "dq", "tau"),
}


def operations(function: Function) -> int:
    """Return multiplications and additions of one sample."""
    return function.counts["mul"] + function.counts["add"]


def by_modes(robot: Robot, what: str) -> dict[str, int]:
    """Return operations of a function and of its derivatives by forward and by reverse mode."""
    found = {}
    names = FUNCTIONS[f"{what}_derivatives"]
    for mode in ("function", "forward", "reverse"):
        graph = Graph()
        inputs = {name: list(graph.inputs(name, robot.n)) for name in names}
        nodes, wrt = build(robot, what, inputs), [node for part in inputs.values() for node in part]
        if mode == "forward":
            nodes = derivatives(nodes, wrt)
        elif mode == "reverse":
            nodes = [_backward(graph, [(node, 1.0)], wrt) for node in nodes]
        found[mode] = operations(graph.function(mode, {mode: nodes}))
    return found


def count(robot: Robot) -> None:
    """Print the operations of each way."""
    for what in ("inverse_dynamics", "forward_dynamics"):
        modes = by_modes(robot, what)
        ours = operations(md.compile(robot, f"{what}_derivatives").function)
        print(
            f"{robot.name}, {what}: {modes['function']}; derivatives by forward mode "
            f"{modes['forward']}, by reverse mode {modes['reverse']}, as recorded {ours} "
            f"({ours / modes['function']:.1f} times the function)"
        )


def pinocchio(robot: Robot, what: str) -> Callable[..., Any] | None:
    """Return Pinocchio's derivatives of a batch, called sample by sample from Python."""
    try:
        import pinocchio as pin

        from peers import pinocchio_model
    except ImportError:
        return None
    model, n = pinocchio_model(robot), robot.n
    data = model.createData()
    inverse = what.startswith("inverse")

    def run(q: Any, dq: Any, last: Any) -> list[Any]:
        parts = [np.empty((len(q), n, n)) for _ in range(3)]
        for k in range(len(q)):
            if inverse:
                pin.computeRNEADerivatives(model, data, q[k], dq[k], last[k])
                found = data.dtau_dq, data.dtau_dv, data.M
            else:
                pin.computeABADerivatives(model, data, q[k], dq[k], last[k])
                found = data.ddq_dq, data.ddq_dv, data.Minv
            for part, value in zip(parts, found):
                part[k] = value
        return parts

    return run


def times(robot: Robot) -> None:
    """Print time per sample and ratios."""
    for what in FUNCTIONS:
        kernel, peer = md.compile(robot, what), pinocchio(robot, what)
        for size in (CACHED, *SIZES):
            rng = np.random.default_rng(size)
            arrays = [np.ascontiguousarray(rng.normal(size=(size, robot.n))) for _ in range(3)]
            out = tuple(np.empty((size, robot.n, robot.n)) for _ in range(3))
            entries: dict[str, Callable[[], Any]] = {
                "out=": partial(kernel, *arrays, out=out),
                "fresh": partial(kernel, *arrays),
            }
            if peer is not None:
                wanted = peer(*arrays)
                for part, other in zip(kernel(*arrays)[:2], wanted[:2]):
                    assert np.allclose(part, other, rtol=1e-9, atol=1e-8)
                entries["pinocchio"] = partial(peer, *arrays)
            found = {
                name: 1e9 * t / size
                for name, t in race(entries, SECONDS, clock=time.process_time).items()
            }
            shown = ", ".join(f"{name} {t:.0f}" for name, t in found.items())
            ratio = ""
            if peer is not None:
                ratio = f"; Pinocchio {found['pinocchio'] / found['fresh']:.0f}x"
            print(f"{robot.name}, {what}, {size} samples, ns a sample: {shown}{ratio}")


def main() -> None:
    """Count, and measure unless --count."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", action="store_true")
    only = parser.parse_args().count
    for name in ROBOTS:
        robot = md.load(name)
        count(robot)
        if not only:
            times(robot)


if __name__ == "__main__":
    main()
