"""A recorded function in Python.

One module with one function of NumPy or JAX arrays, to read or to ship. The JAX function is plain
traced arithmetic, so `jit`, `vmap` and `grad` apply. It computes in the precision of its arguments.
JAX's default is float32, which is not enough for identification; switch on `jax_enable_x64` and
pass float64. On CPU, float32 under `jit` has given wrong regressors at batches of 10,000 where
float64 was right; the tests hold float64 at that batch size to the reference evaluator.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable

from minidyn.graph.function import Function
from minidyn.graph.targets.text import Names, comment_lines, printed_parts, statements


def python_source(function: Function, *, comments: Iterable[object] = ()) -> str:
    """Return the text of a module that defines the function for NumPy arrays.

    `comments` (made safe) stand at its head. The function takes arrays (..., size), whose leading
    axes broadcast, and returns an array (..., *shape), or a tuple of them where it has several
    results.
    """
    return _module_source(function, comments, "numpy", "np", "{0} = np.asarray({0}, dtype=float)")


def jax_source(function: Function, *, comments: Iterable[object] = ()) -> str:
    """Return the text of a module that defines the function for JAX arrays, as
    :func:`python_source` for NumPy's.
    """
    convert = "{0} = jnp.asarray({0}, dtype=jnp.result_type(jnp.asarray({0}), 1.0))"
    return _module_source(function, comments, "jax.numpy", "jnp", convert)


def _module_source(
    function: Function, comments: Iterable[object], library: str, short: str, convert: str
) -> str:
    """Return a module for NumPy or a library that speaks like it.

    `convert` makes an array of the argument {0}.
    """
    # The docstring comes first: a comment on the first two lines of a file could name its encoding.
    lines = ['"""A generated function; the comments say what it computes."""', ""]
    lines += [f"# {line}" for line in comment_lines(function, comments)]
    lines += ["", f"import {library} as {short}"]
    *parts, whole = printed_parts(function)
    for part in parts or [whole]:
        lines += _definition(*part, short, convert)
    if parts:
        once, rest = (each.function for _, each in parts)
        names = whole[1]
        uniform = [
            name for name, argument in zip(names.inputs, function.arguments) if argument.uniform
        ]
        moving = [
            name for name, argument in zip(names.inputs, function.arguments) if not argument.uniform
        ]
        prepared = f"{once}({', '.join(uniform)})"
        lines += ["", "", f"def {names.function}({', '.join(names.inputs)}):"]
        lines += [f"    return {rest}({', '.join([*moving, prepared])})"]
    return "\n".join([*lines, ""])


def _definition(function: Function, names: Names, short: str, convert: str) -> list[str]:
    """Return the lines that define one function."""
    lines = ["", "", f"def {names.function}({', '.join(names.inputs)}):"]
    for name, argument in zip(names.inputs, function.arguments):
        size = argument.size
        lines += [
            f"    {convert.format(name)}",
            f"    if {name}.shape[-1:] != ({size},):",
            (
                f'        raise ValueError(f"{name} has shape {{{name}.shape}}, expected (..., '
                f'{size})")'
            ),
        ]
    leading = ", ".join(f"{name}.shape[:-1]" for name in names.inputs)
    lines.append(f"    batch = {short}.broadcast_shapes({leading})")
    calls = {op: f"{short}.{op}" for op in ("sin", "cos", "sqrt", "sign")} | {
        "atan2": f"{short}.arctan2"
    }
    body, results = statements(
        function, names, read="{0}[..., {1}]", assign="    {0} = {1}", calls=calls, number=_number
    )
    lines += body
    for name, result, texts in zip(names.outputs, function.results, results):
        shape = f"(*batch, {', '.join(map(str, result.shape))})" if result.shape else "batch"
        if not texts:
            lines.append(f"    {name} = {short}.zeros({shape})")
            continue
        scalars = textwrap.fill(
            ", ".join(texts), 100, initial_indent=" " * 8, subsequent_indent=" " * 8
        )
        lines += [
            f"    {name} = [\n{scalars},\n    ]",
            (
                f"    {name} = {short}.stack([{short}.broadcast_to(each, batch) for each in "
                f"{name}], axis=-1)"
            ),
            f"    {name} = {name}.reshape({shape})",
        ]
    return [*lines, f"    return {', '.join(names.outputs) or '()'}"]


def _number(value: float) -> str:
    return repr(value) if abs(value) < float("inf") else f'float("{value}")'
