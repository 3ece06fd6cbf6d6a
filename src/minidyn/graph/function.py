"""A recorded function.

A straight-line program over scalars, and the program run step by step on arrays. The program is
what the recorder (:mod:`minidyn.graph.scalar`) produces and what every target reads. It is a frozen
value, so it can be cached, compared and fingerprinted. `evaluate` is slow, obvious, and what every
target is compared with.

Names of arguments, results and functions come from files that others wrote: :func:`safe_identifier`
keeps letters, digits and underscores alone.
"""

from __future__ import annotations

import hashlib
import keyword
import math
import operator
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike

from minidyn.errors import ShapeError, WrongArgument

LONGEST_NAME = 63  # characters C99 compares in an internal name

# keywords of C and C++
_C_KEYWORDS = """
    alignas alignof and and_eq asm auto bitand bitor bool break case catch char char16_t char32_t char8_t class
    co_await co_return co_yield compl concept const const_cast consteval constexpr constinit continue decltype default
    delete do double dynamic_cast else enum explicit export extern false far float for friend goto if inline int long
    mutable namespace near new noexcept not not_eq nullptr operator or or_eq private protected public register
    reinterpret_cast requires restrict return short signed sizeof static static_assert static_cast struct switch
    template this thread_local throw true try typedef typeid typename typeof typeof_unqual union unsigned using virtual
    void volatile wchar_t while xor xor_eq
"""  # noqa: E501
# names generated Python uses, and what reads as syntax there
_PYTHON_NAMES = """
    match type case print exec np numpy jnp jax batch ValueError
"""
# macros of common headers, which would rewrite a name silently
_MACROS = """
    NULL EOF NAN INFINITY HUGE_VAL HUGE_VALF HUGE_VALL MAXFLOAT FP_NAN FP_INFINITE FP_ZERO FP_NORMAL I errno assert
    unix linux i386 isnan isinf isfinite isnormal signbit fpclassify isgreater isless isunordered M_E M_PI OVERFLOW
    UNDERFLOW DOMAIN SING
"""  # noqa: E501
# functions of the C library: one of ours with that name would clash with the compiler's own
_LIBRARY = """
    main exit abort abs labs llabs div ldiv atoi atof atol malloc calloc realloc free printf puts putchar scanf memcpy
    memset memmove memcmp strlen strcpy strcat strcmp index rindex ffs bcmp bcopy bzero signal time clock rand srand
    qsort bsearch getenv system remove rename read write open close link acos asin atan atan2 cos sin tan cosh sinh
    tanh acosh asinh atanh exp exp2 exp10 expm1 frexp ldexp log log10 log1p log2 logb ilogb modf scalbn scalbln cbrt
    fabs hypot pow pow10 sqrt erf erfc lgamma tgamma gamma ceil floor nearbyint rint lrint llrint round lround llround
    trunc fmod remainder remquo drem copysign nan nextafter nexttoward fdim fmax fmin fma sincos significand scalb j0
    j1 jn y0 y1 yn cabs carg cexp cimag clog conj cpow cproj creal csin ccos csqrt ctan
"""  # noqa: E501
# names that generated CUDA uses
_CUDA = """
    threadIdx blockIdx blockDim gridDim warpSize md_real md_sign md_flush md_pitch md_count md_one md_i md_k md_live
    md_stage md_lane md_warp md_row md_left md_step
"""  # noqa: E501
_MACRO = re.compile(r"(M|FP|HUGE|MATH)_([A-Z0-9]+_)*[A-Z0-9]+")
_RESERVED = frozenset(keyword.kwlist).union(
    _C_KEYWORDS.split(), _PYTHON_NAMES.split(), _MACROS.split(), _LIBRARY.split(), _CUDA.split()
)


@dataclass(frozen=True, slots=True)
class Argument:
    """One array the function takes: a safe C identifier and the number of scalars per sample.

    `uniform` where one value serves a whole batch (a parameter vector): what depends on it alone is
    computed once per call and not once per sample.
    """

    name: str
    size: int
    uniform: bool = False


@dataclass(frozen=True, slots=True)
class Result:
    """One array the function returns: a safe C identifier and the shape per sample (row-major)."""

    name: str
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        """Number of scalars per sample."""
        return math.prod(self.shape)


@dataclass(frozen=True, slots=True)
class Instruction:
    """One step: an operation on earlier steps, or a constant or an input."""

    # const, input, add, sub, mul, div, neg, sqrt, sin, cos, sign (-1, 0 or +1; NaN stays NaN) or
    # atan2
    op: str
    args: tuple[int, ...] = ()  # its operands, by index
    value: float | tuple[int, int] | None = (
        None  # of a constant; (argument index, element index) of an input
    )


@dataclass(frozen=True)
class Function:
    """A straight-line program: instructions in order, each using only earlier ones.

    No dead code.
    """

    name: str  # a safe C identifier
    arguments: tuple[Argument, ...]  # in call order
    results: tuple[Result, ...]
    tape: tuple[Instruction, ...]
    outputs: tuple[
        tuple[int, ...], ...
    ]  # for each result, the tape index of each of its scalars, row-major

    @cached_property
    def digest(self) -> str:
        """A hash of everything the function computes (hexadecimal, 64 digits)."""
        text = repr((self.name, self.arguments, self.results, self.tape, self.outputs))
        return hashlib.sha256(text.encode()).hexdigest()

    @property
    def fingerprint(self) -> str:
        """The digest's first 16 digits, which people can compare."""
        return self.digest[:16]

    @cached_property
    def counts(self) -> dict[str, int]:
        """Operations executed for one sample.

        Mul, add (and subtract), div, sqrt, sincos (pairs), other. Negations are free (they are
        signs of the operation that uses them). What depends on uniform arguments alone is computed
        once per call and not counted. A sine and a cosine of one angle are one pair.
        """
        return self._counted(
            [step for index, step in enumerate(self.tape) if index not in self.uniform_steps]
        )

    @property
    def counts_once(self) -> dict[str, int]:
        """Operations on uniform arguments and constants alone, executed once per call.

        As `counts`; operations on constants do not stand on the tape.
        """
        return self._counted([self.tape[index] for index in sorted(self.uniform_steps)])

    @staticmethod
    def _counted(each: list[Instruction]) -> dict[str, int]:
        found = Counter(step.op for step in each)
        return {
            "mul": found["mul"],
            "add": found["add"] + found["sub"],
            "div": found["div"],
            "sqrt": found["sqrt"],
            "sincos": len({step.args[0] for step in each if step.op in ("sin", "cos")}),
            "other": found["sign"] + found["atan2"],
        }

    @cached_property
    def uniform_steps(self) -> frozenset[int]:
        """Tape indices that depend on constants and uniform arguments alone."""
        once: set[int] = set()
        for index, step in enumerate(self.tape):
            value = step.value  # a pair for an input
            if (
                self.arguments[value[0]].uniform
                if isinstance(value, tuple)
                else once.issuperset(step.args)
            ):
                once.add(index)
        return frozenset(once)

    def __repr__(self) -> str:
        counts = self.counts
        return (
            f"Function({self.name}: {counts['mul']} mul, {counts['add']} add, {len(self.tape)} "
            "steps)"
        )


_BLOCK = 16_000_000  # values of all steps and samples that are kept at a time: 128 MB


def evaluate(function: Function, *inputs: ArrayLike) -> Any:
    """Run a recorded function on NumPy arrays, one (..., size) per argument, whose leading axes
    broadcast.

    Returns an array (..., *shape), or a tuple of them where the function has several results.
    """
    arrays = [np.asarray(array) for array in inputs]
    arrays = [array.astype(np.result_type(array, np.float64), copy=False) for array in arrays]
    batch = batch_shape(function, [array.shape for array in arrays])
    columns = [[array[..., k] for k in range(array.shape[-1])] for array in arrays]
    with np.errstate(all="ignore"):  # NaN and infinity pass through, as in every other target
        scalars = run_tape(function, columns, _ON_ARRAYS)
    results = []
    for result, values in zip(function.results, scalars):
        array = np.empty((*batch, result.size), dtype=np.result_type(np.float64, *arrays))
        for k, value in enumerate(values):
            array[..., k] = value
        results.append(array.reshape(batch + result.shape))
    return results[0] if len(results) == 1 else tuple(results)


def evaluate_in_blocks(function: Function, *inputs: ArrayLike) -> Any:
    """As `evaluate`, a block of samples at a time.

    Values between the steps of a large function fill memory.
    """
    arrays = [np.asarray(array, dtype=np.float64) for array in inputs]
    batch = batch_shape(function, [array.shape for array in arrays])
    count = math.prod(batch)
    block = max(1, _BLOCK // max(1, len(function.tape)))
    if count <= block:
        return evaluate(function, *arrays)
    rows = [
        array
        if argument.uniform
        else np.broadcast_to(array, (*batch, argument.size)).reshape(count, argument.size)
        for argument, array in zip(function.arguments, arrays)
    ]
    results = [np.empty((count, *result.shape)) for result in function.results]
    for begin in range(0, count, block):
        part = slice(begin, begin + block)
        found = evaluate(
            function, *(a if arg.uniform else a[part] for arg, a in zip(function.arguments, rows))
        )
        for result, values in zip(results, found if isinstance(found, tuple) else (found,)):
            result[part] = values
    shaped = tuple(
        r.reshape(batch + described.shape) for r, described in zip(results, function.results)
    )
    return shaped[0] if len(shaped) == 1 else shaped


ARITHMETIC: dict[str, Callable[..., Any]] = {
    op: getattr(operator, op) for op in ("add", "sub", "mul", "neg")
}
ARITHMETIC["div"] = operator.truediv
"""The operators among the operations."""

_ON_ARRAYS = ARITHMETIC | {op: getattr(np, op) for op in ("sqrt", "sin", "cos", "sign")}
_ON_ARRAYS |= {
    "div": np.divide,
    "atan2": np.arctan2,
}  # np.divide takes a constant zero, the operator does not


def run_tape(
    function: Function, columns: list[list[Any]], table: Mapping[str, Callable[..., Any]]
) -> list[list[Any]]:
    """Return the scalars of each result, from those of each argument (arrays, nodes) and a callable
    per operation.
    """
    values: list[Any] = []
    for step in function.tape:
        if step.op == "const":
            values.append(step.value)
        elif step.op == "input":
            argument, element = cast(tuple[int, int], step.value)
            values.append(columns[argument][element])
        else:
            values.append(table[step.op](*[values[index] for index in step.args]))
    return [[values[index] for index in indices] for indices in function.outputs]


def batch_shape(function: Function, shapes: list[tuple[int, ...]]) -> tuple[int, ...]:
    """Return the common leading shape of inputs; raise ShapeError where one does not fit."""
    if len(shapes) != len(function.arguments):
        names = ", ".join(argument.name for argument in function.arguments)
        raise ShapeError(
            f"{function.name} takes {len(function.arguments)} arrays ({names}), got {len(shapes)}"
        )
    for argument, shape in zip(function.arguments, shapes):
        if not shape or shape[-1] != argument.size:
            raise ShapeError(
                f"{function.name}: {argument.name} has shape {shape}, expected (..., "
                f"{argument.size})"
            )
    leading = {
        shape[:-1]
        for argument, shape in zip(function.arguments, shapes)
        if not argument.uniform or shape[:-1]
    }
    if len(leading) < 2:
        return next(iter(leading), ())
    try:
        return np.broadcast_shapes(*leading)
    except ValueError:
        text = ", ".join(
            f"{a.name} {shape}" for a, shape in zip(function.arguments, shapes) if not a.uniform
        )
        raise ShapeError(f"{function.name}: leading shapes do not broadcast: {text}") from None


def packed_results(function: Function) -> Function:
    """Return the function with symmetric results (n, n) given by their upper triangles, row by row.

    A result counts as symmetric where both halves are the same values by construction.

    Raises:
        WrongArgument: There is no such result.
    """
    results, outputs = [], []
    for result, indices in zip(function.results, function.outputs):
        square = len(result.shape) == 2 and result.shape[0] == result.shape[1]
        grid = np.reshape(indices, result.shape) if square else None
        if grid is not None and np.array_equal(grid, grid.T):
            upper = grid[np.triu_indices(len(grid))].tolist()
            results.append(Result(result.name, (len(upper),)))
            outputs.append(tuple(upper))
        else:
            results.append(result)
            outputs.append(indices)
    if results == list(function.results):
        raise WrongArgument(
            f"packed: {function.name} has no symmetric result, as the inertia matrix is"
        )
    return replace(function, results=tuple(results), outputs=tuple(outputs))


def safe_identifier(text: str, taken: Iterable[str] = ()) -> str:
    """Return an identifier valid in C, C++ and Python that resembles `text` and is not among
    `taken`.

    Text that is already safe comes back unchanged. Otherwise accents are dropped, runs of other
    characters become one underscore, keywords and library names get a trailing underscore, and a
    name already taken gets a number. It has at most 63 characters of ``[A-Za-z0-9_]``, starts with
    a letter and has no two underscores in a row.
    """
    plain = (
        unicodedata.normalize("NFKD", text[: 4 * LONGEST_NAME]).encode("ascii", "ignore").decode()
    )
    name = re.sub(r"[^A-Za-z0-9]+", "_", plain).lstrip("_")[:LONGEST_NAME]
    if not name or not name[0].isalpha():
        name = ("x" + name)[:LONGEST_NAME]
    if name in _RESERVED or _MACRO.fullmatch(name):
        name = name[: LONGEST_NAME - 1].rstrip("_") + "_"
    used = frozenset(taken)
    candidate, number = name, 2
    while candidate in used:
        suffix = f"_v{number}"  # "_2" could make a library's M_PI_2 of M_PI
        candidate = name[: LONGEST_NAME - len(suffix)].rstrip("_") + suffix
        number += 1
    return candidate


def fresh_prefix(prefix: str, taken: Iterable[str]) -> str:
    """Return `prefix`, lengthened until no name in `taken` is the prefix followed by digits."""
    used = list(taken)
    while any(name.startswith(prefix) and name[len(prefix) :].isdigit() for name in used):
        prefix += prefix[-1]
    return prefix
