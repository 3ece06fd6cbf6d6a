"""What the printers of all languages share: safe names, the comment at the head, and the arithmetic."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from minidyn.graph.function import Function
from minidyn.text import fresh_prefix, safe_comment, safe_identifier

_INFIX = {"add": "+", "sub": "-", "mul": "*", "div": "/"}


@dataclass(frozen=True)
class Names:
    """The identifiers of one printed function, safe and, but for the function's own, all different."""

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
    """Return the lines at the head of generated code: the caller's, then what it takes and costs."""
    counts = ", ".join(f"{number} {kind}" for kind, number in function.counts.items())
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

    `read` is the text of element {1} of the array {0}, `assign` the statement that gives the name {0} the value {1},
    `calls` has the function that computes each operation which is not infix, `number` makes the text of a constant.
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
