"""Python source of a recorded function: one module with one function of NumPy arrays, to read or to ship."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable

from minidyn.graph.function import Function
from minidyn.graph.targets.text import Names, comment_lines, statements


def python_source(function: Function, *, comments: Iterable[object] = ()) -> str:
    """Return the text of a module that defines the function for NumPy arrays.

    Args:
        function: The recorded function.
        comments: Lines for the head of the module, as the robot's name; made safe.

    Returns:
        Source text. The function takes arrays (..., size), whose leading axes broadcast, and returns an array
        (..., *shape), or a tuple of them where it has several results.
    """
    return module_source(function, comments, "numpy", "np", "{0} = np.asarray({0}, dtype=float)")


def module_source(function: Function, comments: Iterable[object], library: str, short: str, convert: str) -> str:
    """Return a module for NumPy or for a library that speaks like it.

    Args:
        function: The recorded function.
        comments: Lines for the head; made safe.
        library: The library to import.
        short: The name it has in the code.
        convert: Statement that makes an array of the argument {0}.
    """
    names = Names.of(function)
    # The docstring comes first: a comment on the first two lines of a file could name its encoding.
    lines = ['"""A generated function; the comments say what it computes."""', ""]
    lines += [f"# {line}" for line in comment_lines(function, comments)]
    lines += ["", f"import {library} as {short}", "", "", f"def {names.function}({', '.join(names.inputs)}):"]
    for name, argument in zip(names.inputs, function.arguments):
        size = argument.size
        lines += [
            f"    {convert.format(name)}",
            f"    if {name}.shape[-1:] != ({size},):",
            f'        raise ValueError(f"{name} has shape {{{name}.shape}}, expected (..., {size})")',
        ]
    leading = ", ".join(f"{name}.shape[:-1]" for name in names.inputs)
    lines.append(f"    batch = {short}.broadcast_shapes({leading})")
    calls = {op: f"{short}.{op}" for op in ("sin", "cos", "sqrt", "sign")} | {"atan2": f"{short}.arctan2"}
    body, results = statements(
        function, names, read="{0}[..., {1}]", assign="    {0} = {1}", calls=calls, number=_number
    )
    lines += body
    for name, result, texts in zip(names.outputs, function.results, results):
        shape = f"(*batch, {', '.join(map(str, result.shape))})" if result.shape else "batch"
        if not texts:
            lines.append(f"    {name} = {short}.zeros({shape})")
            continue
        scalars = textwrap.fill(", ".join(texts), 100, initial_indent=" " * 8, subsequent_indent=" " * 8)
        lines += [
            f"    {name} = [\n{scalars},\n    ]",
            f"    {name} = {short}.stack([{short}.broadcast_to(each, batch) for each in {name}], axis=-1)",
            f"    {name} = {name}.reshape({shape})",
        ]
    return "\n".join([*lines, f"    return {', '.join(names.outputs) or '()'}", ""])


def _number(value: float) -> str:
    return repr(value) if abs(value) < float("inf") else f'float("{value}")'
