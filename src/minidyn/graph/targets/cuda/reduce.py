"""Rows that a function computes on a GPU, reduced as they are computed.

They never leave a multiprocessor. What `targets/native/reduce.py` does on the processor. One thread
computes one sample. A block of threads puts the rows of one result into shared memory, each thread
divides its own by an upper triangle where one is given, and then each warp adds the products of
some pairs of columns, eight by eight, to sums in its registers: one instruction of the matrix units
multiplies 8 x 4 by 4 x 8 numbers. Blocks go on to other samples until all are done, then write
their sums, and a second kernel adds those up. The order of all this is fixed, so a GPU gives the
same result each time.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import pairwise, product
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular

from minidyn.arrays import Array
from minidyn.errors import Unsupported, WrongArgument
from minidyn.graph.function import Function, evaluate_in_blocks
from minidyn.graph.targets.cuda.kernel import Code, library_of, stream_of
from minidyn.graph.targets.cuda.source import cuda_statements, head_of, results_early
from minidyn.graph.targets.text import Names, comment_lines

GROUP = 8
"""Columns taken together: what the matrix units multiply at once."""

_WIDEST = 128  # columns of a result: sums of more do not fit into registers
_WARP = 32
_REAL = np.dtype(np.float64)
_PAD = 2  # numbers behind a column of a block's samples: with it no memory bank is hit twice
# times rounding that a product with the inverse of a corner may add to rows before it is refined
_GROWN = 20.0
_SHARED = 112 << 10  # bytes of shared memory of a block, so that two fit into a multiprocessor

_HELPERS = """
struct __align__(16) md_pair { md_real x, y; };

extern __shared__ md_real md_shared[];

/* c (8, 8) += a (8, 4) b (4, 8). Lane l has a[l / 4][l % 4], b[l % 4][l / 4], and of row l / 4 of c two neighbours. */
static __device__ __forceinline__ void md_multiply(md_pair &c, md_real a, md_real b)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    asm("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};"
        : "+d"(c.x), "+d"(c.y) : "d"(a), "d"(b));
#else
    const int lane = threadIdx.x % 32, row = lane & ~3, column = lane % 4 * 8;
    for (int k = 0; k < 4; k++) {
        const md_real left = __shfl_sync(0xffffffffu, a, row + k);
        c.x += left * __shfl_sync(0xffffffffu, b, column + k);
        c.y += left * __shfl_sync(0xffffffffu, b, column + 4 + k);
    }
#endif
}

/* Divides the rows of a warp's 32 samples by an upper triangle, 8 columns at a time: these times the inverse of their
   corner, with one step of refinement where that is asked for, and their part taken off the columns behind. What a lane
   has of a product is what it gives to the next one: two neighbours of a row, the left factor for even and odd k. */
template <int groups, int pitch>
static __device__ __forceinline__ void md_divide(md_real *rows, const md_pair *__restrict__ factor, bool refined)
{
    #pragma unroll 1
    for (int m = 0; m < 32; m += 16) {
        md_pair v[groups][2];
        #pragma unroll
        for (int j = 0; j < groups; j++)
            #pragma unroll
            for (int h = 0; h < 2; h++) {
                v[j][h].x = rows[8 * j * pitch + m + 8 * h];
                v[j][h].y = rows[(8 * j + 1) * pitch + m + 8 * h];
            }
        const md_pair *f = factor;
        #pragma unroll
        for (int i = 0; i < groups; i++) {
            const md_pair inverse = f[0], corner = f[32];
            #pragma unroll
            for (int h = 0; h < 2; h++) {
                md_pair rest = v[i][h], x = {0, 0};
                md_multiply(x, rest.x, inverse.x);
                md_multiply(x, rest.y, inverse.y);
                if (refined) {
                    md_multiply(rest, x.x, corner.x);
                    md_multiply(rest, x.y, corner.y);
                    md_multiply(x, rest.x, inverse.x);
                    md_multiply(x, rest.y, inverse.y);
                }
                v[i][h] = x;
                rows[8 * i * pitch + m + 8 * h] = x.x;
                rows[(8 * i + 1) * pitch + m + 8 * h] = x.y;
            }
            f += 64;
            #pragma unroll
            for (int j = i + 1; j < groups; j++) {
                const md_pair above = f[0];
                #pragma unroll
                for (int h = 0; h < 2; h++) {
                    md_multiply(v[j][h], v[i][h].x, above.x);
                    md_multiply(v[j][h], v[i][h].y, above.y);
                }
                f += 32;
            }
        }
    }
}

extern "C" __global__ void __launch_bounds__(128) md_total(
    long long size, long long blocks, const md_real *__restrict__ sums, md_real *__restrict__ totals)
{
    const long long k = (long long)blockIdx.x * 128 + threadIdx.x;
    if (k >= size) return;
    md_real total = md_real(0);
    #pragma unroll 8
    for (long long block = 0; block < blocks; block++)
        total += sums[block * size + k];
    totals[k] = total;
}
"""  # noqa: E501


class Plan:
    """The kernel that reduces a function's results, and how its arguments and sums lie.

    Each result is rows; each row's length is filled up to whole groups of columns with zeros.

    Attributes:
        function: The recorded function, no argument uniform.
        columns: For each result, the length of its rows in whole groups.
        block: Threads and samples of a block.
    """

    def __init__(self, function: Function) -> None:
        self.function = function
        self.columns = tuple(-(-result.size // GROUP) * GROUP for result in function.results)
        widest = max(self.columns)
        fitting = [block for block in (128, 64, 32) if self._bytes(block, widest) <= _SHARED]
        if widest > _WIDEST or len(self.columns) > 64:
            raise Unsupported(
                f"the GPU reduces up to 64 kinds of rows of up to {_WIDEST} columns, got "
                f"{len(self.columns)} of up to {widest}: leave device= out"
            )
        self.block = fitting[0]
        self.shares = tuple(
            _shares(columns // GROUP, self.block // _WARP) for columns in self.columns
        )

    @staticmethod
    def _bytes(block: int, columns: int) -> int:
        return 8 * (block + _PAD) * columns

    @property
    def shared(self) -> int:
        """Bytes of shared memory of a block."""
        return self._bytes(self.block, max(self.columns))

    @property
    def size(self) -> int:
        """Numbers that a block writes."""
        return 64 * len(self._units)

    @cached_property
    def _units(self) -> list[tuple[int, int, int]]:
        """For each 8 x 8 sums that a warp writes: result, and the pair of groups."""
        return [
            (index, *pair)
            for index, shares in enumerate(self.shares)
            for own in shares
            for pair in own
        ]

    def packed(self, factors: Sequence[Array | None]) -> tuple[int, int, Array]:
        """Return which results are divided and which of them with refinement, as bits, and what the
        kernel reads.

        For each group of columns: the inverse of the triangle's corner, the corner and the corner's
        row, the latter two with the sign changed, each (8, 8) transposed.
        """
        divided, refined, parts = 0, 0, list[Array]()
        for index, (factor, columns) in enumerate(zip(factors, self.columns, strict=True)):
            whole = np.eye(columns)
            if factor is not None:
                divided |= 1 << index
                whole[: len(factor), : len(factor)] = factor
            for i in range(0, columns, GROUP):
                corner = whole[i : i + GROUP, i : i + GROUP]
                inverse = np.asarray(solve_triangular(corner, np.eye(GROUP)))
                # rows after division are of order one: what rounding of the product with the
                # inverse adds to them, times the triangle, over the length of each column
                size = np.abs(corner)
                grown = (size @ np.abs(inverse) @ size).max(axis=0) / np.linalg.norm(
                    whole[:, i : i + GROUP], axis=0
                )
                if not grown.max() <= _GROWN:
                    refined |= 1 << index
                parts.append(inverse.T)
                parts += [-whole[i : i + GROUP, j : j + GROUP].T for j in range(i, columns, GROUP)]
        return divided, refined, np.stack(parts).ravel()

    def products(self, totals: Array) -> list[Array]:
        """Return for each result its columns' products (size, size), from the numbers of all blocks
        added up.
        """
        found = [np.zeros((columns, columns)) for columns in self.columns]
        for (index, row, column), tile in zip(
            self._units, totals.reshape(-1, GROUP, GROUP), strict=True
        ):
            rows, across = (
                slice(GROUP * row, GROUP * (row + 1)),
                slice(GROUP * column, GROUP * (column + 1)),
            )
            found[index][rows, across] = tile
        return [
            np.asarray(np.triu(made) + np.triu(made, 1).T)[: result.size, : result.size]
            for made, result in zip(found, self.function.results)
        ]

    @cached_property
    def text(self) -> str:
        """Self-contained CUDA C++.

        `md_reduce(count, divided, refined, factors, sums, arguments...)` and `md_total`.
        """
        function = results_early(self.function)
        names = Names.of(function)
        block, pitch = self.block, self.block + _PAD
        lines = head_of((function,), comment_lines(function, ()))
        lines.append(_HELPERS)
        parameters = [
            "long long md_count",
            "unsigned long long md_divided",
            "unsigned long long md_refined",
        ]
        parameters += ["const md_real *__restrict__ md_factors", "md_real *__restrict__ md_sums"]
        parameters += [f"const md_real *__restrict__ {name}" for name in names.inputs]
        lines += [f'extern "C" __global__ void __launch_bounds__({block}, 2) md_reduce(']
        lines += ["    " + ",\n    ".join(parameters) + ")", "{"]
        lines += [
            "    md_real *const md_row = md_shared + threadIdx.x;",
            f"    const int md_lane = threadIdx.x % {_WARP}, md_w = threadIdx.x / {_WARP};",
            (
                f"    const md_real *const md_at = md_shared + md_lane / 4 * {pitch} + md_lane % "
                "4 * 4;"
            ),
            (
                f"    md_real *const md_mine = md_shared + md_w * {_WARP} + md_lane / 4 + md_lane "
                f"% 4 * {2 * pitch};"
            ),
        ]
        for index, shares in enumerate(self.shares):
            lines += [
                f"    md_pair {_sum(index, slot)} = {{0, 0}};"
                for slot in range(max(map(len, shares)))
            ]
        lines += [
            f"    for (long long md_i = (long long)blockIdx.x * {block}; md_i < md_count;"
            f" md_i += (long long)gridDim.x * {block}) {{",
            "        const bool md_live = md_i + threadIdx.x < md_count;",
            "        const long long md_k = md_live ? md_i + threadIdx.x : md_count - 1;",
        ]
        reads = []
        for number, (name, argument) in enumerate(zip(names.inputs, function.arguments)):
            lines.append(
                f"        const md_real *const md_in{number} = {name} + md_k * {argument.size};"
            )
            reads.append(f"md_in{number}[")
        lines += self._body(function, *cuda_statements(function, reads, names.local, " " * 8))
        lines += ["    }", f"    md_sums += (long long)blockIdx.x * {self.size} + 2 * md_lane;"]
        place = 0
        for index, shares in enumerate(self.shares):
            for warp, own in enumerate(shares):
                lines.append(f"    if (md_w == {warp}) {{")
                for slot in range(len(own)):
                    lines.append(
                        f"        *(md_pair *)(md_sums + {64 * place}) = {_sum(index, slot)};"
                    )
                    place += 1
                lines.append("    }")
        return "\n".join([*lines, "}", ""])

    def _body(self, function: Function, body: list[str], texts: list[list[str]]) -> list[str]:
        """Return the statements, each result's rows written and multiplied as soon as they are all
        there.
        """
        pitch, due = self.block + _PAD, dict[int, list[str]]()
        before, offset = -1, 0
        for index, (values, columns, shares) in enumerate(zip(texts, self.columns, self.shares)):
            for element in range(columns):
                # rows of the result before must have been multiplied: they lie in the same place
                ready = (
                    max(before, function.outputs[index][element])
                    if element < len(values)
                    else before
                )
                value = values[element] if element < len(values) else "md_real(0)"
                due.setdefault(ready, []).append(f"        md_row[{element * pitch}] = {value};")
            before = max(before, *function.outputs[index])
            lines = due.setdefault(before, [])
            lines += [
                "        if (!md_live)",
                (
                    f"            for (int md_e = 0; md_e < {columns}; md_e++) md_row[md_e * "
                    f"{pitch}] = md_real(0);"
                ),
                f"        if (md_divided >> {index} & 1) {{",
                "            __syncwarp();",
                (
                    "            const md_pair *const md_factor = (const md_pair *)md_factors + "
                    f"{offset} + md_lane;"
                ),
                (
                    f"            md_divide<{columns // GROUP}, {pitch}>(md_mine, md_factor, "
                    f"md_refined >> {index} & 1);"
                ),
                "        }",
                "        __syncthreads();",
                *_multiplied(index, shares, self.block, pitch),
                "        __syncthreads();",
            ]
            offset += _WARP * sum(range(2, columns // GROUP + 2))
        found, left = list(due.get(-1, [])), iter(body)
        for index, step in enumerate(function.tape):
            if step.value is None or isinstance(
                step.value, tuple
            ):  # constants stand where they are used
                found.append(next(left))
            found += due.get(index, [])
        return found


def _sum(index: int, slot: int) -> str:
    return f"md_s{index}_{slot}"


def _multiplied(
    index: int, shares: list[list[tuple[int, int]]], block: int, pitch: int
) -> list[str]:
    """Return the products of one result's columns, each warp its own."""
    lines = list[str]()
    for warp, own in enumerate(shares):
        if not own:
            continue
        lines += [f"        if (md_w == {warp}) {{", "            #pragma unroll 1"]
        lines += [f"            for (int md_e = 0; md_e < {block}; md_e += 16) {{"]
        groups = sorted({group for tile in own for group in tile})
        for first in (
            0,
            2,
        ):  # samples 0 1 4 5 8 9 12 13, then the others: no memory bank is hit twice
            for group in groups:
                place = f"md_at + {group * GROUP * pitch + first} + md_e"
                lines.append(
                    f"                const md_pair md_f{group}_{first} = *(const md_pair "
                    f"*)({place});"
                )
        for first, half in product((0, 2), ("x", "y")):
            for slot, (row, column) in enumerate(own):
                factors = f"md_f{row}_{first}.{half}, md_f{column}_{first}.{half}"
                lines.append(f"                md_multiply({_sum(index, slot)}, {factors});")
        lines += ["            }", "        }"]
    return lines


def _shares(groups: int, warps: int) -> list[list[tuple[int, int]]]:
    """Return for each warp its pairs of groups of columns, neighbours together.

    They share columns.
    """
    pairs = [(i, j) for i in range(groups) for j in range(i, groups)]
    pairs.sort(key=lambda pair: (pair[0] // 2, pair[1] // 2, pair))
    edges = np.linspace(0, len(pairs), warps + 1).round().astype(int).tolist()
    return [pairs[begin:end] for begin, end in pairwise(edges)]


class CudaReduction:
    """A function whose results are rows, compiled to reduce them on a GPU.

    As `native.reduce.Reduction`. Arguments are (N, size), of NumPy (copied there) or of CuPy and
    PyTorch on the GPU.
    """

    def __init__(self, function: Function) -> None:
        self.function = function
        self.sizes = tuple(result.size for result in function.results)
        self.plan = Plan(function)
        self._compiled: dict[int, tuple[Code, Code]] = {}
        self._latest: tuple[object, tuple[int, int, Array]] | None = None

    def rows(self, arrays: Sequence[Array]) -> list[Array]:
        """Return for each result its rows (N, size), computed by NumPy: of few samples."""
        found = evaluate_in_blocks(self.function, *arrays)
        return list(found) if isinstance(found, tuple) else [found]

    def grams(
        self, arrays: Sequence[Any], factors: Sequence[Array | None], which: Sequence[int]
    ) -> list[Array]:
        """Return for the results `which` their columns' products summed over samples (size, size).

        `factors` has for each result an upper triangle (size, size) that its rows are divided by
        first, or None.
        """
        key = tuple(None if factor is None else factor.tobytes() for factor in factors)
        latest = self._latest  # other threads may replace it
        if latest is None or latest[0] != key:  # pieces of a recording have the same
            latest = self._latest = key, self.plan.packed(factors)
        found = self.plan.products(self.totals(arrays, *latest[1]))
        return [found[index] for index in which]

    def totals(self, arrays: Sequence[Any], divided: int, refined: int, packed: Any) -> Any:
        """Return the sums of all blocks added up, of the library of the arrays.

        `Plan.products` reads them.
        """
        plan, library = self.plan, library_of(arrays)
        given = [library.take(array, _REAL) for array in arrays]
        count = int(given[0].shape[0])
        for array, argument in zip(given, self.function.arguments, strict=True):
            if tuple(array.shape) != (count, argument.size):
                raise ValueError(
                    f"{argument.name}: expected shape {(count, argument.size)}, got "
                    f"{tuple(array.shape)}"
                )
        number, stream, waits = stream_of(library, given)
        reduce, total = self._codes(number)
        blocks = max(1, min(-(-count // plan.block), 2 * reduce.processors))
        factors = library.take(packed, _REAL)
        sums = library.empty((blocks * plan.size,), _REAL, given)
        totals = library.empty((plan.size,), _REAL, given)
        *inputs, factor, parts, whole = (
            library.place(array, stream) for array in (*given, factors, sums, totals)
        )
        for argument, (_, dtype, contiguous, on_gpu) in zip(self.function.arguments, inputs):
            if not (contiguous and on_gpu and dtype == _REAL.name):
                raise WrongArgument(
                    f"{argument.name}: expected a contiguous array of {_REAL.name} on the GPU"
                )
        addresses = [place[0] for place in (factor, parts, *inputs)]
        numbers = (np.int64(count), np.uint64(divided), np.uint64(refined))
        reduce.launch(stream, blocks, plan.block, *numbers, *addresses)
        total.launch(
            stream,
            -(-plan.size // 128),
            128,
            np.int64(plan.size),
            np.int64(blocks),
            parts[0],
            whole[0],
        )
        if waits:
            stream.sync()
        return library.give(totals)

    def _codes(self, device: int) -> tuple[Code, Code]:
        found = self._compiled.get(device)
        if found is None:
            text = self.plan.text
            found = (
                Code(text, "md_reduce", device, self.plan.shared),
                Code(text, "md_total", device),
            )
            self._compiled[device] = found
        return found
