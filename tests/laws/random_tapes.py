"""Random tapes and what they compute, one NumPy operation after the other.

For laws that machine code must obey.
"""

from __future__ import annotations

import random

import numpy as np

from minidyn.graph.function import Argument, Function, Instruction, Result

ARITY = {"const": 0, "input": 0, "add": 2, "sub": 2, "mul": 2, "div": 2, "atan2": 2}
ARITY |= dict.fromkeys(("neg", "sqrt", "sin", "cos", "sign"), 1)
"""Operations an instruction may have, with the number of operands."""


def random_function(
    seed: int,
    sizes: tuple[int, ...] = (6, 3),
    uniform: tuple[int, ...] = (),
    shapes: tuple[tuple[int, ...], ...] = ((2, 5),),
    steps: int = 120,
) -> Function:
    """A random program whose values stay of order one; some outputs are constants, some inputs."""
    pick = random.Random(seed)
    arguments = tuple(Argument(f"x{k}", size) for k, size in enumerate(sizes))
    arguments += tuple(Argument(f"p{k}", size, uniform=True) for k, size in enumerate(uniform))
    tape = [
        Instruction("input", (), (k, e)) for k, arg in enumerate(arguments) for e in range(arg.size)
    ]
    tape += [Instruction("const", (), value) for value in (0.5, -1.25, 0.0, 3.0)]
    names = ["add", "sub", "mul", "neg", "sin", "cos", "div", "sqrt", "sign", "atan2"]
    weights = [6, 6, 8, 2, 2, 2, 1, 1, 1, 1]
    half = Instruction("const", (), 2.5)
    while len(tape) < steps:
        op = pick.choices(names, weights)[0]
        args = tuple(pick.randrange(len(tape)) for _ in range(ARITY[op]))
        if op in (
            "div",
            "sqrt",
        ):  # keep away from singular points: divide by 2.5 + sin(a), root of the same
            tape += [half, Instruction("sin", (args[-1],))]
            tape.append(Instruction("add", (len(tape) - 2, len(tape) - 1)))
            args = (*args[:-1], len(tape) - 1)
        elif op == "mul":  # bound the growth
            tape.append(Instruction("cos", (args[1],)))
            args = (args[0], len(tape) - 1)
        tape.append(Instruction(op, args))
    results = tuple(Result(f"y{k}", shape) for k, shape in enumerate(shapes))
    outputs = tuple(
        tuple(pick.randrange(len(tape)) for _ in range(result.size)) for result in results
    )
    return Function(f"random{seed}", arguments, results, tuple(tape), outputs)


def evaluate(function: Function, *arrays: np.ndarray) -> tuple[np.ndarray, ...]:
    """The tape in NumPy, one step after the other."""
    batch = np.broadcast_shapes(
        *(array.shape[:-1] for array, arg in zip(arrays, function.arguments) if not arg.uniform)
    )
    unary = {"neg": np.negative, "sqrt": np.sqrt, "sin": np.sin, "cos": np.cos, "sign": np.sign}
    binary = {
        "add": np.add,
        "sub": np.subtract,
        "mul": np.multiply,
        "div": np.divide,
        "atan2": np.arctan2,
    }
    values: list[np.ndarray] = []
    with np.errstate(all="ignore"):
        for step in function.tape:
            if step.op == "const":
                values.append(np.asarray(step.value, dtype=float))
            elif step.op == "input":
                assert isinstance(step.value, tuple)
                values.append(np.asarray(arrays[step.value[0]][..., step.value[1]], dtype=float))
            elif step.op in unary:
                values.append(unary[step.op](values[step.args[0]]))
            else:
                values.append(binary[step.op](values[step.args[0]], values[step.args[1]]))
    found = []
    for result, outputs in zip(function.results, function.outputs):
        columns = [np.broadcast_to(values[index], batch) for index in outputs]
        stacked = np.stack(columns, axis=-1) if columns else np.empty((*batch, 0))
        found.append(stacked.reshape((*batch, *result.shape)))
    return tuple(found)


def close(got: object, expected: object, tolerance: float = 1e-13) -> None:
    np.testing.assert_allclose(got, expected, rtol=tolerance, atol=tolerance)


def samples(function: Function, *batch: int, seed: int = 0) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [
        rng.normal(size=(arg.size,) if arg.uniform else (*batch, arg.size))
        for arg in function.arguments
    ]
