"""CUDA C++ of a recorded function: one self-contained kernel, one thread a sample.

The limit is memory: a sample of inverse dynamics reads and writes some 200 bytes and computes for
less time than that takes. So what matters is how threads touch memory. In the layout "components"
(each component of all samples in a row) neighbouring threads touch neighbouring numbers. In the
layout "rows" (each sample's components in a row, as everywhere else) results are passed through
shared memory, a warp of 32 samples at a time, so that neighbouring threads write neighbouring
numbers there too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from minidyn.errors import UnknownName
from minidyn.graph.function import Function
from minidyn.graph.targets.text import Names, comment_lines, printed_parts, statements

LAYOUTS = ("rows", "components")
"""How arrays lie in memory: (samples, size) or (size, samples), the last axis contiguous."""

TYPES = {"float64": "double", "float32": "float"}
"""Number types and their names in C."""

_WARP = 32
_SMALL = 64  # scalars: a smaller result of a sample passes through shared memory in one piece
# scalars of a larger one that pass at once: of 32 samples they fill the 48 KiB that every GPU has
_CHUNK = 152

_HEAD = "typedef {real} md_real;\n"

_SIGN = """
static __device__ __forceinline__ md_real md_sign(md_real x)
{
    return x > md_real(0) ? md_real(1) : (x < md_real(0) ? md_real(-1) : x); /* zero and NaN return themselves */
}
"""  # noqa: E501

_FLUSH = """
/* Writes N scalars of each of a warp's samples, which lie in shared memory, one row of md_pitch a sample. */
template <int N, int md_pitch>
static __device__ __forceinline__ void md_flush(
    const md_real *md_warp, md_real *result, long long size, long long live, int md_lane)
{
    __syncwarp();
    if (live >= 32) {
        #pragma unroll 8
        for (int k = md_lane; k < 32 * N; k += 32)
            result[(k / N) * size + k % N] = md_warp[(k / N) * md_pitch + k % N];
    } else {
        for (int k = md_lane; k < live * N; k += 32)
            result[(k / N) * size + k % N] = md_warp[(k / N) * md_pitch + k % N];
    }
    __syncwarp();
}
"""  # noqa: E501


def cuda_source(
    function: Function,
    *,
    comments: Iterable[object] = (),
    dtype: str = "float64",
    layout: str = "rows",
    split: bool = True,
) -> str:
    """Return the text of a kernel `extern "C" __global__ void NAME(count, one, arguments...,
    results...)`.

    Launch it with blocks of `block_of` threads, one thread for each of `count` samples. Bit k of
    `one` says that argument k is one sample for all. `comments` (made safe) stand at its head.
    Where something depends on parameters alone there are two kernels more: NAME_prepare, for one
    sample, and NAME_prepared, which takes its result as its last argument, one sample for all.

    Args:
        function: The recorded function.
        comments: Lines for the head.
        dtype: "float64" or "float32".
        layout: "rows": arrays (count, size); "components": arrays (size, count).
        split: Whether the two kernels are printed.

    Raises:
        UnknownName: Another number type or layout.
    """
    if dtype not in TYPES:
        raise UnknownName("number type", dtype, tuple(TYPES))
    if layout not in LAYOUTS:
        raise UnknownName("layout", layout, LAYOUTS)
    lines = [
        *head_of((function,), [*comment_lines(function, comments), f"layout: {layout}"], dtype)
    ]
    lines += [_FLUSH] if layout == "rows" else []
    for part, names in printed_parts(function)[0 if split else -1 :]:
        lines += _kernel_lines(part, names.function, layout)
    return "\n".join(lines)


def _kernel_lines(function: Function, name: str, layout: str) -> list[str]:
    rows, largest = layout == "rows", max((result.size for result in function.results), default=0)
    # where results leave at once, this order keeps fewer values alive; measured 4 % faster for
    # regressors, 2 x slower for inverse dynamics (benchmarks/gpu.py)
    ordered = results_early(function) if not rows and largest > _SMALL else function
    block = block_of(function, layout)
    names = replace(Names.of(ordered), function=name)
    pitch = (
        max((_chunk(result.size) for result in ordered.results), default=1) | 1
    )  # odd: no bank is hit twice
    parameters = ["long long md_count", "unsigned md_one"]
    parameters += [f"const md_real *__restrict__ {name}" for name in names.inputs]
    parameters += [f"md_real *__restrict__ {name}" for name in names.outputs]
    lines = [f'extern "C" __global__ void __launch_bounds__({block}) {names.function}(']
    lines += ["    " + ",\n    ".join(parameters) + ")", "{"]
    lines += [
        f"    const long long md_i = (long long)blockIdx.x * {block} + threadIdx.x;",
        "    const bool md_live = md_i < md_count;",
        "    const long long md_k = md_live ? md_i : md_count - 1;",
    ]
    for number, (name, argument) in enumerate(zip(names.inputs, ordered.arguments)):
        step = str(argument.size) if rows else "1"
        lines.append(f"    {name} += (md_one >> {number} & 1) ? 0 : md_k * {step};")
    if rows:
        lines += [
            f"    __shared__ md_real md_stage[{block} * {pitch}];",
            f"    const int md_lane = threadIdx.x % {_WARP};",
            f"    md_real *const md_warp = md_stage + (threadIdx.x - md_lane) * {pitch};",
            f"    md_real *const md_row = md_warp + md_lane * {pitch};",
            "    const long long md_left = md_count - (md_i - md_lane);",
        ]
        lines += [
            f"    {name} += (md_i - md_lane) * {result.size};"
            for name, result in zip(names.outputs, ordered.results)
        ]
    else:
        steps = (f"(md_one >> {number} & 1) ? 1 : md_count" for number in range(len(names.inputs)))
        lines.append(f"    const long long md_step[] = {{{', '.join(steps) or '0'}}};")
        lines += [f"    {name} += md_i;" for name in names.outputs]
    reads = [
        f"{name}[" + ("" if rows else f"md_step[{k}] * ") for k, name in enumerate(names.inputs)
    ]
    body, texts = cuda_statements(ordered, reads, names.local)
    writes = _staged(ordered, names, texts, pitch) if rows else _direct(names, texts)
    return [*lines, *_interleaved(ordered, body, writes), "}", ""]


def head_of(
    functions: Iterable[Function], comments: Iterable[str], dtype: str = "float64"
) -> list[str]:
    """Return what a text begins with: comments, the number type, and what the functions call."""
    signs = any(step.op == "sign" for function in functions for step in function.tape)
    return [
        "/*",
        *(f" * {line}" for line in comments),
        " */",
        _HEAD.format(real=TYPES[dtype]) + (_SIGN if signs else ""),
    ]


def cuda_statements(
    function: Function, reads: Sequence[str], local: str, indent: str = "    "
) -> tuple[list[str], list[list[str]]]:
    """Return one statement per operation, and for each result the texts of its scalars.

    `reads` has for each argument what stands before the number of an element: "q[" or "q[3 * ".
    """
    return statements(
        function,
        Names("", tuple(reads), (), local),
        read="{0}{1}]",
        assign=indent + "const md_real {0} = {1};",
        calls={"sin": "sin", "cos": "cos", "sqrt": "sqrt", "atan2": "atan2", "sign": "md_sign"},
        number=_number,
    )


def block_of(function: Function, layout: str) -> int:
    """Return the threads of a block: fewer where each needs much shared memory."""
    largest = max((result.size for result in function.results), default=0)
    if layout == "components" or largest <= _WARP:
        return 128
    return 64 if largest <= _SMALL else _WARP


def _chunk(size: int) -> int:
    """Return how many scalars of a result of this size pass through shared memory at once."""
    return size if size <= _SMALL else min(size, _CHUNK)


def results_early(function: Function) -> Function:
    """Return the function with its steps in the order in which the results need them.

    Fewer values live at once.
    """
    order: list[int] = []
    place: dict[int, int] = {}
    for wanted in (index for indices in function.outputs for index in indices):
        stack = [wanted]
        while stack:
            index = stack[-1]
            missing = [a for a in function.tape[index].args if a not in place]
            if index in place or not missing:
                stack.pop()
                if index not in place:
                    place[index] = len(order)
                    order.append(index)
            else:
                stack += reversed(missing)
    tape = (function.tape[index] for index in order)
    return replace(
        function,
        tape=tuple(replace(step, args=tuple(place[a] for a in step.args)) for step in tape),
        outputs=tuple(tuple(place[index] for index in indices) for indices in function.outputs),
    )


def _direct(names: Names, texts: list[list[str]]) -> Iterator[tuple[int, range, list[str]]]:
    """Yield (result, its elements, lines that write them) for neighbouring threads that write
    neighbours.
    """
    for number, (name, values) in enumerate(zip(names.outputs, texts)):
        for element, text in enumerate(values):
            line = f"    if (md_live) {name}[{element} * md_count] = {text};"
            yield number, range(element, element + 1), [line]


def _staged(
    function: Function, names: Names, texts: list[list[str]], pitch: int
) -> Iterator[tuple[int, range, list[str]]]:
    """Yield (result, its elements, lines that write them) through shared memory."""
    for number, (name, result, values) in enumerate(zip(names.outputs, function.results, texts)):
        for first in range(0, result.size, _chunk(result.size)):
            part = range(first, min(first + _chunk(result.size), result.size))
            lines = [f"    md_row[{element - first}] = {values[element]};" for element in part]
            lines.append(
                f"    md_flush<{len(part)}, {pitch}>(md_warp, {name} + {first}, {result.size}, "
                "md_left, md_lane);"
            )
            yield number, part, lines


def _interleaved(
    function: Function, body: list[str], writes: Iterable[tuple[int, range, list[str]]]
) -> list[str]:
    """Return the statements with each write as early as its values are there."""
    due: dict[int, list[str]] = {}
    for number, elements, lines in writes:
        ready = max(function.outputs[number][element] for element in elements)
        due.setdefault(ready, []).extend(lines)
    statements_left = iter(body)
    found: list[str] = []
    for index, step in enumerate(function.tape):
        if step.value is None or isinstance(
            step.value, tuple
        ):  # constants stand where they are used
            found.append(next(statements_left))
        found += due.get(index, [])
    return found


def _number(value: float) -> str:
    """Return a constant so that reading it gives the same bits.

    NaN and infinity by arithmetic, without headers.
    """
    if value != value:
        return "md_real(1e308 * 1e10 - 1e308 * 1e10)"
    if abs(value) == float("inf"):
        return f"md_real({'-' if value < 0 else ''}1e308 * 1e10)"
    return f"md_real({value!r})"
