"""C99 source of a recorded function.

One header and one source file, for controllers and microcontrollers. The code is straight line,
allocates nothing and needs only math.h. All inputs are read before the first result is written, so
that arrays may overlap. What a user named passes through :mod:`minidyn.text`.
"""

from __future__ import annotations

from collections.abc import Iterable

from minidyn.graph.function import Function, safe_identifier
from minidyn.graph.targets.text import Names, comment_lines, printed_parts, statements

FINITE = """
/* Whether a number is finite, by its bits: also with -ffast-math. */
static int {name}_finite(double value)
{{
    uint64_t bits;
    char has_64_bits[sizeof(double) == sizeof(bits) ? 1 : -1]; /* double must have 64 bits */
    (void)has_64_bits;
    memcpy(&bits, &value, sizeof(bits));
    return (bits & 0x7ff0000000000000u) != 0x7ff0000000000000u;
}}
"""
"""Test of a number by its bits; code with it includes stdint.h and string.h."""


def c_name(function: Function, prefix: str = "") -> str:
    """Return the name of the C function, which is also the name its two files must have."""
    return Names.of(function, prefix).function


def c_source(
    function: Function, *, prefix: str = "", comments: Iterable[object] = ()
) -> tuple[str, str]:
    """Return the texts of NAME.h and NAME.c, NAME being :func:`c_name`, which define one C99
    function.

    It takes one array per argument and then one per result, row-major; a scalar result is an array
    of one. The `prefix` of its name and the `comments` at the head of both files are made safe.
    """
    head = "/*\n" + "".join(f" * {line}\n" for line in comment_lines(function, comments)) + " */\n"
    parts = printed_parts(function, prefix)
    return head + _header(parts), head + _source(parts)


def _signature(function: Function, names: Names) -> str:
    parameters = [
        *[f"const double {_array(n, a.size)}" for n, a in zip(names.inputs, function.arguments)],
        *[f"double {_array(n, r.size)}" for n, r in zip(names.outputs, function.results)],
    ]
    return f"void {names.function}({', '.join(parameters) or 'void'})"


def _array(name: str, size: int) -> str:
    return f"{name}[{size}]" if size else f"*{name}"  # C has no empty arrays


def _header(parts: list[tuple[Function, Names]]) -> str:
    names = parts[-1][1]
    guard = f"MINIDYN_{names.function}_H"
    while guard in (*names.inputs, *names.outputs):  # a macro that would erase an argument
        guard += "_"
    signatures = [f"{_signature(*part)};\n\n" for part in parts]
    return (
        f"#ifndef {guard}\n#define {guard}\n\n"
        '#ifdef __cplusplus\nextern "C" {\n#endif\n\n'
        f"{''.join(signatures)}"
        "#ifdef __cplusplus\n}\n#endif\n\n#endif\n"
    )


def _source(parts: list[tuple[Function, Names]]) -> str:
    lines = [f'#include "{parts[-1][1].function}.h"\n\n#include <math.h>\n']
    taken = [name for _, each in parts for name in (each.function, *each.inputs, *each.outputs)]
    sign = safe_identifier("sign_of", taken)
    if any(step.op == "sign" for step in parts[-1][0].tape):
        lines.append(
            f"static double {sign}(double x)\n{{\n"
            "    return x > 0.0 ? 1.0 : (x < 0.0 ? -1.0 : x); /* zero and NaN return themselves "
            "*/\n}\n"
        )
    printed = parts if len(parts) == 1 else parts[:-1]
    texts = [_definition(function, each, sign) for function, each in printed]
    if len(parts) > 1:
        texts.append(_both(parts))
    return "\n".join([*lines, "\n".join(texts)])


def _both(parts: list[tuple[Function, Names]]) -> str:
    """Return the definition of the function that calls its two parts."""
    (prepare, first), (prepared, second), (function, names) = parts
    vector = safe_identifier(first.outputs[0], [*names.inputs, *names.outputs])
    given = dict(zip([argument.name for argument in function.arguments], names.inputs))
    once = [given[argument.name] for argument in prepare.arguments]
    rest = [given[argument.name] for argument in prepared.arguments[:-1]]
    return "\n".join(
        [
            f"{_signature(function, names)}\n{{",
            f"    double {vector}[{prepare.results[0].size}];",
            f"    {first.function}({', '.join([*once, vector])});",
            f"    {second.function}({', '.join([*rest, vector, *names.outputs])});",
            "}",
            "",
        ]
    )


def _definition(function: Function, names: Names, sign: str) -> str:
    lines = [f"{_signature(function, names)}\n{{"]
    read = {step.value[0] for step in function.tape if isinstance(step.value, tuple)}
    unused = [name for index, name in enumerate(names.inputs) if index not in read]
    unused += [name for name, result in zip(names.outputs, function.results) if not result.size]
    lines += [f"    (void){name};" for name in unused]
    calls = {"sin": "sin", "cos": "cos", "sqrt": "sqrt", "atan2": "atan2", "sign": sign}
    body, results = statements(
        function,
        names,
        read="{0}[{1}]",
        assign="    const double {0} = {1};",
        calls=calls,
        number=_number,
    )
    lines += body
    for name, texts in zip(names.outputs, results):
        lines += [f"    {name}[{element}] = {text};" for element, text in enumerate(texts)]
    return "\n".join([*lines, "}", ""])


def _number(value: float) -> str:
    """Return a constant so that reading it gives the same bits.

    NaN and infinity by their C99 names.
    """
    return "NAN" if value != value else repr(value).replace("inf", "INFINITY")
