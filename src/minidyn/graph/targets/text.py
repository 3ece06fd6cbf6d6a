"""What the printers of all languages share.

Safe names, the comment at the head, the arithmetic, and its two parts. Where a function computes
something from uniform arguments (parameters) alone, it is printed as two: NAME_prepare does that
part, once for new parameters, and NAME_prepared the rest, which has exactly the counted operations.
NAME itself calls one after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from minidyn.graph.function import (
    LONGEST_NAME,
    Argument,
    Function,
    Instruction,
    Result,
    fresh_prefix,
    safe_identifier,
)
from minidyn.text import safe_comment

_INFIX = {"add": "+", "sub": "-", "mul": "*", "div": "/"}


@dataclass(frozen=True)
class Names:
    """The identifiers of one printed function, safe and, but for the function's own, all
    different.
    """

    function: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    local: str  # what the names of intermediate values begin with, before a number

    @staticmethod
    def of(function: Function, prefix: str = "") -> Names:
        """Choose the names of a function whose name gets a prefix."""
        names: list[str] = []  # a result may have the function's own name: it lives inside
        for name in [a.name for a in function.arguments] + [r.name for r in function.results]:
            names.append(safe_identifier(name, names))
        name = safe_identifier(prefix + function.name)
        split = len(function.arguments)
        return Names(name, tuple(names[:split]), tuple(names[split:]), fresh_prefix("t", names))


def comment_lines(function: Function, comments: Iterable[object]) -> list[str]:
    """Return the lines at the head of generated code.

    The caller's, then what it takes and costs.
    """
    counts = ", ".join(f"{number} {kind}" for kind, number in function.counts.items())
    if split_uniform(function):
        counts += (
            "; what depends on parameters alone is in the function _prepare, the rest in _prepared"
        )
    return [
        *[safe_comment(comment) for comment in comments],
        *[f"takes {safe_comment(a.name)} ({a.size})" for a in function.arguments],
        *[f"returns {safe_comment(r.name)} {r.shape}, row-major" for r in function.results],
        f"operations: {counts}",
        f"recorded function: {function.fingerprint}",
    ]


def statements(
    function: Function,
    names: Names,
    *,
    read: str,
    assign: str,
    calls: Mapping[str, str],
    number: Callable[[float], str],
) -> tuple[list[str], list[list[str]]]:
    """Return one statement per operation, and for each result the texts of its scalars.

    `read` is the text of element {1} of the array {0}, `assign` the statement that gives the name
    {0} the value {1}, `calls` has the function that computes each operation which is not infix,
    `number` makes the text of a constant.
    """
    lines: list[str] = []
    texts: list[str] = []
    for index, step in enumerate(function.tape):
        if isinstance(step.value, tuple):
            argument, element = step.value
            expression = read.format(names.inputs[argument], element)
        elif step.value is not None:  # a constant stands where it is used
            text = number(float(step.value))
            texts.append(f"({text})" if text.startswith("-") else text)
            continue
        else:
            operands = [texts[operand] for operand in step.args]
            if step.op in _INFIX:
                expression = f" {_INFIX[step.op]} ".join(operands)
            elif step.op == "neg":
                expression = f"-{operands[0]}"
            else:
                expression = f"{calls[step.op]}({', '.join(operands)})"
        texts.append(f"{names.local}{index}")
        lines.append(assign.format(texts[-1], expression))
    return lines, [[texts[index] for index in indices] for indices in function.outputs]


def printed_parts(function: Function, prefix: str = "") -> list[tuple[Function, Names]]:
    """Return what is printed, with names.

    Prepare and prepared where there are two parts, and the function last.
    """
    names = Names.of(function, prefix)
    found = [(function, names)]
    for part, ending in reversed(
        list(zip(split_uniform(function) or (), ("_prepare", "_prepared")))
    ):
        short = names.function[: LONGEST_NAME - len(ending)].rstrip("_") + ending
        found.insert(0, (part, replace(Names.of(part), function=short)))
    return found


def split_uniform(function: Function) -> tuple[Function, Function] | None:
    """Return (prepare, prepared).

    What depends on uniform arguments alone, and the rest as a function of its results. None where
    nothing is computed from uniform arguments alone. Operations are those of the function, each in
    one part.
    """
    once, tape = function.uniform_steps, function.tape
    used = {
        index
        for place, step in enumerate(tape)
        if place not in once
        for index in step.args
        if index in once
    }
    used |= {index for result in function.outputs for index in result if index in once}
    handed = sorted(index for index in used if tape[index].op != "const")
    if not any(tape[index].args for index in handed):
        return None
    uniform = [number for number, argument in enumerate(function.arguments) if argument.uniform]
    moving = [number for number, argument in enumerate(function.arguments) if not argument.uniform]
    name = "prepared"
    while name in [argument.name for argument in function.arguments] + [
        result.name for result in function.results
    ]:
        name += "_"
    first, place_in_first = _chosen(
        tape, [index for index in range(len(tape)) if index in once], uniform, {}
    )
    outputs = (tuple(place_in_first[index] for index in handed),)
    arguments = tuple(function.arguments[number] for number in uniform)
    results = (Result(name, (len(handed),)),)
    prepare = Function(f"{function.name}_prepare", arguments, results, first, outputs)
    inputs = {
        index: Instruction("input", value=(len(moving), element))
        for element, index in enumerate(handed)
    }
    kept = [index for index in range(len(tape)) if index in used or index not in once]
    rest, place = _chosen(tape, kept, moving, inputs)
    prepared = replace(
        function,
        name=f"{function.name}_prepared",
        arguments=(
            *(function.arguments[number] for number in moving),
            Argument(name, len(handed), uniform=True),
        ),
        tape=rest,
        outputs=tuple(tuple(place[index] for index in result) for result in function.outputs),
    )
    return prepare, prepared


def _chosen(
    tape: tuple[Instruction, ...],
    kept: list[int],
    arguments: list[int],
    inputs: Mapping[int, Instruction],
) -> tuple[tuple[Instruction, ...], dict[int, int]]:
    """Return some steps of a tape, numbered anew, and the new number of each.

    Some steps become inputs.
    """
    place = {index: number for number, index in enumerate(kept)}
    found = []
    for index in kept:
        step = inputs.get(index, tape[index])
        if index not in inputs and isinstance(step.value, tuple):
            step = replace(step, value=(arguments.index(step.value[0]), step.value[1]))
        elif step.args:
            step = replace(step, args=tuple(place[operand] for operand in step.args))
        found.append(step)
    return tuple(found), place
