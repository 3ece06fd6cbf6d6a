"""Rows that a function computes, reduced as they are computed.

They never leave the second-level cache. The results of the function are rows, one result for each
set of rows, all of the same samples. `@reduce` computes a tile of samples into packed blocks,
divides each set's rows by an upper triangle where one is given, and adds the products of their
columns to sums. A block holds `width` rows, each of its `columns` (a multiple of GROUP) one vector.

- `@gram(block, blocks, columns, sums)` adds the products of all pairs of columns to sums that are
  kept lane by lane: for each group of GROUP columns and each `across` columns from there on,
  GROUP * across vectors.
- `@divide(block, blocks, columns, factor)` divides the rows by an upper triangle, column by column,
  in place: what it writes times the triangle is the rows, to rounding, whatever the triangle's
  condition (a product with an inverse would not do). `factor` holds, for each group of GROUP
  columns, one (or zero: it stays as it is), the triangle's rows above and then its corner on the
  diagonal, GROUP numbers a row, with reciprocals on the diagonal. Up to four blocks are computed at
  once, so there is room for a multiple of four.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Sequence
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from minidyn.arrays import Array
from minidyn.graph.function import Function, evaluate_in_blocks
from minidyn.graph.targets.native import host as ir
from minidyn.graph.targets.native.core import Plan, plan_text
from minidyn.graph.targets.native.rows import copy_text, descriptor_names

GROUP = 4
"""Columns taken together: their products with as many others fill the registers."""

TILE = 256
"""Samples of a tile.

Eight columns of it stay in the first-level cache, all rows of it in the second.
"""

_REDUCE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, *[ctypes.c_void_p] * 4)


def across(width: int) -> int:
    """Return how many columns a group meets at once.

    Processors with 256-bit vectors have half the registers.
    """
    return 2 if width == 4 else 4


class Reduction:
    """A function whose results are rows, compiled to reduce them.

    Its arguments are (N, size), none uniform; each result is a row whose length (in `sizes`) is a
    multiple of GROUP. `width` samples are computed side by side, 2, 4 or 8; None takes what the
    machine's vector registers hold.
    """

    def __init__(self, function: Function, width: int | None = None) -> None:
        if any(argument.uniform for argument in function.arguments):
            raise ValueError("a reduction takes no uniform arguments")
        self.function = function
        self.sizes = tuple(result.size for result in function.results)
        if any(size % GROUP for size in self.sizes):
            raise ValueError(f"rows are {self.sizes} long; expected multiples of {GROUP}")
        self.width = ir.host().width if width is None else width
        if self.width not in (2, 4, 8):
            raise ValueError(f"width is {width!r}, expected 2, 4, 8 or None")
        self._plan, self._own = Plan(function), threading.local()

    @cached_property
    def llvm_ir(self) -> str:
        """The LLVM text."""
        plan, width = self._plan, self.width
        text = (
            plan_text(plan, width) + copy_text(plan, width) + gram_text(width) + divide_text(width)
        )
        return text + _reduce_text(plan, width) + ir.FOOTER

    @cached_property
    def code(self) -> ir.Code:
        """The machine code: entry "reduce"."""
        key = f"reduce {self.width} {self.function.digest}"
        return ir.compile_text(lambda: self.llvm_ir, ("reduce",), key=key)

    def grams(
        self, arrays: Sequence[Array], factors: Sequence[Array | None], which: Sequence[int]
    ) -> list[Array]:
        """Return for the results `which`, in rising order, their columns' products summed over
        samples (size, size).

        `factors` has for each result an upper triangle (size, size) that its rows are divided by
        first, or None.
        """
        width = self.width
        for factor, size in zip(factors, self.sizes, strict=True):
            if factor is not None and (factor.dtype != np.float64 or factor.shape != (size, size)):
                raise ValueError(
                    f"factor: expected float64 {(size, size)}, got {factor.dtype} {factor.shape}"
                )
        if not ir.has_compiler():
            return self._evaluated(arrays, factors, which)
        counts = [
            GROUP * width * sum(range(size, 0, -GROUP)) * (k in which)
            for k, size in enumerate(self.sizes)
        ]
        parts = np.split(_aligned(sum(counts)), np.cumsum(counts[:-1]))
        sums = [part if len(part) else None for part in parts]
        packed = [None if factor is None else _packed_triangle(factor) for factor in factors]
        self._run(arrays, packed, sums)
        return [
            _unpacked(values, size, width)
            for values, size in zip(sums, self.sizes)
            if values is not None
        ]

    def rows(self, arrays: Sequence[Array]) -> list[Array]:
        """Return for each result its rows (N, size)."""
        if not ir.has_compiler():
            self._check(arrays)
            several = evaluate_in_blocks(self.function, *arrays)
            return list(several) if isinstance(several, tuple) else [several]
        count = len(arrays[0])
        found = [np.empty((count, size)) for size in self.sizes]
        for begin in range(0, count, TILE):
            part = [array[begin : begin + TILE] for array in arrays]
            tiles = self._run(part, [None] * len(self.sizes), [None] * len(self.sizes))
            here = len(part[0])
            for whole, tile in zip(found, tiles):
                size = whole.shape[1]
                blocks = tile[: -(-here // self.width) * self.width * size].reshape(
                    -1, size, self.width
                )
                whole[begin : begin + here] = np.swapaxes(blocks, 1, 2).reshape(-1, size)[:here]
        return found

    def _run(
        self, arrays: Sequence[Array], factors: Sequence[Array | None], sums: Sequence[Array | None]
    ) -> list[Array]:
        own = self._own
        if not hasattr(own, "tiles"):  # work space of this thread
            rows = -(-TILE // (4 * self.width)) * 4 * self.width
            own.tiles = [_aligned(rows * size) for size in self.sizes]
            own.slots = _aligned(max(1, len(self._plan.slots)))
            own.tiles_table = ir.pointer_table(own.tiles)
        words: list[int] = []
        self._check(arrays)
        for array in arrays:
            words += (array.__array_interface__["data"][0], array.strides[0], array.strides[1])
        if not len(arrays[0]):  # its loops run once at least
            return list(own.tiles)
        _REDUCE(self.code.addresses["reduce"])(
            (ctypes.c_int64 * len(words))(*words),
            len(arrays[0]),
            own.tiles_table,
            ir.pointer_table(factors),
            ir.pointer_table(sums),
            own.slots.ctypes.data,
        )
        return list(own.tiles)

    def _check(self, arrays: Sequence[Array]) -> None:
        for array, argument in zip(arrays, self.function.arguments, strict=True):
            if array.dtype != np.float64 or array.shape != (len(arrays[0]), argument.size):
                raise ValueError(
                    f"{argument.name}: expected float64 {(len(arrays[0]), argument.size)}"
                )

    def _evaluated(
        self, arrays: Sequence[Array], factors: Sequence[Array | None], which: Sequence[int]
    ) -> list[Array]:
        """As `grams`, by NumPy, where there is no compiler."""
        from scipy.linalg import solve_triangular

        sums = [np.zeros((self.sizes[index],) * 2) for index in which]
        for begin in range(0, len(arrays[0]), TILE):
            rows = self.rows([array[begin : begin + TILE] for array in arrays])
            for index, total in zip(which, sums):
                part, factor = rows[index], factors[index]
                divided = (
                    part
                    if factor is None
                    else solve_triangular(factor, part.T, trans="T", check_finite=False).T
                )
                total += divided.T @ divided
        return sums


def _aligned(size: int) -> Array:
    raw = np.zeros(size + 8)
    start = (-raw.ctypes.data // 8) % 8
    return raw[start : start + size]


def _packed_triangle(factor: Array) -> Array:
    """Return, for each group of columns, the rows above and its corner, with reciprocals on the
    diagonal.
    """
    values, (places, heads) = factor.copy(), _triangle_places(len(factor))
    np.fill_diagonal(values, 1.0 / np.diagonal(factor))
    packed = np.asarray(values.ravel()[places])
    packed[heads] = np.any(factor != np.eye(len(factor)), axis=0).reshape(-1, GROUP).any(axis=1)
    return packed


@lru_cache(maxsize=64)
def _triangle_places(size: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return where in a triangle (size, size) the numbers of `_packed_triangle` are, and which of
    them lead a group.
    """
    every = np.arange(size * size).reshape(size, size)
    groups = [np.append(0, every[: j + GROUP, j : j + GROUP]) for j in range(0, size, GROUP)]
    return np.concatenate(groups), np.cumsum([0, *map(len, groups[:-1])])


def _unpacked(sums: Array, size: int, width: int) -> Array:
    """Return the products as a symmetric matrix (size, size), lanes added up."""
    return np.asarray((sums.reshape(-1, width) @ np.ones(width))[_places(size, across(width))])


@lru_cache(maxsize=64)
def _places(size: int, step: int) -> NDArray[np.intp]:
    """Return for each entry of a symmetric matrix (size, size) where it is in the order in which
    `@gram` keeps sums.
    """
    found, here = np.zeros((size, size), dtype=np.intp), 0
    for i in range(0, size, GROUP):
        for j in range(i, size, step):
            found[i : i + GROUP, j : j + step] = here + np.arange(GROUP * step).reshape(GROUP, step)
            here += GROUP * step
    return np.asarray(np.triu(found) + np.triu(found, 1).T)


def gram_text(width: int) -> str:
    """Return `@gram`."""
    real, step = ir.vector(width), across(width)
    pairs = [(i, j) for i in range(GROUP) for j in range(step)]
    left = [line for k in range(GROUP) for line in ir.vector_at(f"x{k}", "l", k * width, width)]
    right = [line for k in range(step) for line in ir.vector_at(f"y{k}", "r", k * width, width)]
    products, totals = [], []
    for place, (i, j) in enumerate(pairs):
        products.append(f"  %m{i}.{j} = fmul {ir.FLAGS} {real} %x{i}, %y{j}")
        products.append(f"  %n{i}.{j} = fadd {ir.FLAGS} {real} %s{i}.{j}, %m{i}.{j}")
        totals += ir.vector_at(f"o{i}.{j}", "here", place * width, width)
        totals.append(f"  %t{i}.{j} = fadd {ir.FLAGS} {real} %o{i}.{j}, %n{i}.{j}")
        totals.append(f"  store {real} %t{i}.{j}, ptr %o{i}.{j}.p, align {8 * width}")
    return f"""
define internal void @gram(ptr %block, i64 %blocks, i64 %columns, ptr %sums) noinline #0 {{
entry:
  %stride = mul i64 %columns, {width}
  br label %group
group:
  %i = phi i64 [ 0, %entry ], [ %i.next, %group.end ]
  %at = phi ptr [ %sums, %entry ], [ %at.next, %group.end ]
{ir.joined(ir.block_at("left", "block", "i", width))}
  br label %pair
pair:
  %j = phi i64 [ %i, %group ], [ %j.next, %pair.end ]
  %here = phi ptr [ %at, %group ], [ %at.next, %pair.end ]
{ir.joined(ir.block_at("right", "block", "j", width))}
  br label %row
row:
  %b = phi i64 [ 0, %pair ], [ %b.next, %row ]
  %l = phi ptr [ %left, %pair ], [ %l.next, %row ]
  %r = phi ptr [ %right, %pair ], [ %r.next, %row ]
{ir.joined(f"  %s{i}.{j} = phi {real} [ {ir.splat(0.0, width)}, %pair ], [ %n{i}.{j}, %row ]" for i, j in pairs)}
{ir.joined([*left, *right, *products])}
  %l.next = getelementptr double, ptr %l, i64 %stride
  %r.next = getelementptr double, ptr %r, i64 %stride
{ir.loop_end("b", 1, "%blocks", "row", "pair.end")}
pair.end:
{ir.joined(totals)}
  %at.next = getelementptr double, ptr %here, i64 {len(pairs) * width}
{ir.loop_end("j", step, "%columns", "pair", "group.end")}
group.end:
{ir.loop_end("i", GROUP, "%columns", "group", "done")}
done:
  ret void
}}
"""  # noqa: E501


def divide_text(width: int) -> str:
    """Return `@divide`."""
    real, step = ir.vector(width), across(width)  # `step` blocks at once
    pairs = [(b, j) for b in range(step) for j in range(GROUP)]
    blocks, here, column, corner = [], [], [], []
    for k in range(1, step):
        blocks.append(f"  %at{k} = getelementptr double, ptr %at{k - 1}, i64 %stride")
    for b, j in pairs:
        here.append(f"  %w{b}.{j}.a = getelementptr double, ptr %at{b}, i64 %j.off")
        here += ir.vector_at(f"w{b}.{j}", f"w{b}.{j}.a", j * width, width)
    for b in range(step):
        column.append(f"  %x{b}.p = getelementptr double, ptr %at{b}, i64 %k.off")
        column.append(f"  %x{b} = load {real}, ptr %x{b}.p, align {8 * width}")
    for j in range(GROUP):
        column += ir.spread(f"u{j}", "u", j, width)
    for b, j in pairs:
        column.append(f"  %m{b}.{j} = fmul {ir.FLAGS} {real} %x{b}, %u{j}")
        column.append(f"  %n{b}.{j} = fsub {ir.FLAGS} {real} %s{b}.{j}, %m{b}.{j}")
    for j in range(GROUP):
        for k in range(j + 1):
            corner += ir.spread(f"c{k}.{j}", "c", k * GROUP + j, width)
        for b in range(step):
            for k in range(j):
                corner.append(f"  %p{b}.{k}.{j} = fmul {ir.FLAGS} {real} %v{b}.{k}, %c{k}.{j}")
                corner.append(
                    f"  %a{b}.{j}.{k + 1} = fsub {ir.FLAGS} {real} %a{b}.{j}.{k}, %p{b}.{k}.{j}"
                )
            corner.append(f"  %v{b}.{j} = fmul {ir.FLAGS} {real} %a{b}.{j}.{j}, %c{j}.{j}")
            corner.append(f"  store {real} %v{b}.{j}, ptr %w{b}.{j}.p, align {8 * width}")
    return f"""
define internal void @divide(ptr %block, i64 %blocks, i64 %columns, ptr %factor) noinline #0 {{
entry:
  %stride = mul i64 %columns, {width}
  br label %few
few:
  %b = phi i64 [ 0, %entry ], [ %b.next, %few.end ]
  %b.off = mul i64 %b, %stride
  %at0 = getelementptr double, ptr %block, i64 %b.off
{ir.joined(blocks)}
  br label %group
group:
  %j = phi i64 [ 0, %few ], [ %j.next, %group.end ]
  %u.head = phi ptr [ %factor, %few ], [ %u.next, %group.end ]
  %u.first = getelementptr double, ptr %u.head, i64 1
  %head = load double, ptr %u.head, align 8
  %same = fcmp oeq double %head, 0.0
  br i1 %same, label %group.end, label %above
above:
  %j.off = mul i64 %j, {width}
{ir.joined(here)}
  %alone = icmp eq i64 %j, 0
  br i1 %alone, label %corner, label %column
column:
  %k = phi i64 [ 0, %above ], [ %k.next, %column ]
  %u = phi ptr [ %u.first, %above ], [ %u.after, %column ]
{ir.joined(f"  %s{b}.{j} = phi {real} [ %w{b}.{j}, %above ], [ %n{b}.{j}, %column ]" for b, j in pairs)}
  %k.off = mul i64 %k, {width}
{ir.joined(column)}
  %u.after = getelementptr double, ptr %u, i64 {GROUP}
{ir.loop_end("k", 1, "%j", "column", "corner")}
corner:  ; the triangle on the diagonal, with reciprocals of the diagonal
  %c = phi ptr [ %u.first, %above ], [ %u.after, %column ]
{ir.joined(f"  %a{b}.{j}.0 = phi {real} [ %w{b}.{j}, %above ], [ %n{b}.{j}, %column ]" for b, j in pairs)}
{ir.joined(corner)}
  br label %group.end
group.end:
  %u.rows = add i64 %j, {GROUP}
  %u.size = mul i64 %u.rows, {GROUP}
  %u.next = getelementptr double, ptr %u.first, i64 %u.size
{ir.loop_end("j", GROUP, "%columns", "group", "few.end")}
few.end:
{ir.loop_end("b", step, "%blocks", "few", "done")}
done:
  ret void
}}
"""  # noqa: E501


def _reduce_text(plan: Plan, width: int) -> str:
    """Return `@reduce(arguments, count, tiles, factors, sums, u)`.

    `arguments` holds address and strides of each argument. Where the address of a factor is null,
    rows are taken as they are; where that of the sums is null, they are only computed.
    """
    sizes_in, sizes_out = plan.block_sizes
    ins, _ = plan.names
    words = ir.loads("d", descriptor_names(ins))
    for name, table in (("o", "tiles"), ("f", "factors"), ("g", "sums")):
        words += ir.loads(table, [f"ptr {name}{index}" for index in range(len(sizes_out))])
    here, products, places, squares, single = ([] for _ in range(5))  # lines
    for index, size in enumerate(sizes_out):
        here += ir.block_at(f"b{index}", f"o{index}", "b", size * width)
        products += [
            f"  %g{index}.none = icmp eq ptr %g{index}, null",
            f"  br i1 %g{index}.none, label %done{index}, label %ask{index}",
            f"ask{index}:",
            f"  %f{index}.none = icmp eq ptr %f{index}, null",
            f"  br i1 %f{index}.none, label %add{index}, label %divide{index}",
            f"divide{index}:",
            f"  call void @divide(ptr %o{index}, i64 %b, i64 {size}, ptr %f{index})",
            f"  br label %add{index}",
            f"add{index}:",
            f"  call void @gram(ptr %o{index}, i64 %b, i64 {size}, ptr %g{index})",
            f"  br label %done{index}",
            f"done{index}:",
        ]
    for name, size in zip(ins, sizes_in):
        if size:
            places.append(f"  %{name}.off = mul i64 %i, %{name}.lane")
            places.append(f"  %{name}.at = getelementptr i8, ptr %{name}.base, i64 %{name}.off")
            source = f"ptr %{name}.at, i64 %{name}.lane, i64 %{name}.scalar, ptr %{name}"
            squares.append(f"  call void @get{name[1:]}({source})")
            single.append(
                f"  call void @copy({source}, i64 8, i64 {8 * width}, i64 {size}, i64 %last, i64 "
                f"{width})"
            )
    results = [f"ptr %b{index}" for index in range(len(sizes_out))]
    compute = ", ".join([*(f"ptr %{name}" for name in ins), *results, "ptr %u"])
    return f"""
define void @reduce(ptr %d, i64 %count, ptr %tiles, ptr %factors, ptr %sums, ptr %u) #0 {{
entry:
{ir.joined(f"  %{name} = alloca double, i64 {max(1, size) * width}, align 64" for name, size in zip(ins, sizes_in))}
{ir.joined(words)}
  br label %tile
tile:
  %first = phi i64 [ 0, %entry ], [ %first.next, %tile.end ]
  %first.next = add i64 %first, {TILE}
  %over = icmp slt i64 %count, %first.next
  %end = select i1 %over, i64 %count, i64 %first.next
  br label %block
block:
  %i = phi i64 [ %first, %tile ], [ %i.next, %computed ]
  %b = phi i64 [ 0, %tile ], [ %b.next, %computed ]
  %left = sub i64 %end, %i
  %some = icmp sgt i64 %left, 0
  br i1 %some, label %bring, label %products
bring:
  %whole = icmp sge i64 %left, {width}
  %last = sub i64 %left, 1
{ir.joined([*places, *here])}
  br i1 %whole, label %squares, label %single
squares:
{ir.joined(squares)}
  br label %compute
single:
{ir.joined(single)}
  br label %compute
compute:
  call void @fill.{width}({compute})  ; each time: division overwrites what is the same in every row
  call void @core.{width}({compute})
  br i1 %whole, label %computed, label %clear
clear:  ; the lanes after the last sample repeat it: they must not count
{ir.joined(f"  call void @clear(ptr %b{k}, i64 {size}, i64 %left)" for k, size in enumerate(sizes_out))}
  br label %computed
computed:
  %i.next = add i64 %i, {width}
  %b.next = add i64 %b, 1
  br label %block
products:
{ir.joined(products)}
  br label %tile.end
tile.end:
  %more = icmp slt i64 %first.next, %count
  br i1 %more, label %tile, label %done
done:
  ret void
}}

define internal void @clear(ptr %block, i64 %size, i64 %left) noinline #0 {{
entry:
  %last.i = insertelement <{width} x i64> undef, i64 %left, i32 0
  %last = shufflevector <{width} x i64> %last.i, <{width} x i64> undef, <{width} x i32> zeroinitializer
  %keep = icmp slt <{width} x i64> <{", ".join(f"i64 {lane}" for lane in range(width))}>, %last
  br label %next
next:
  %e = phi i64 [ 0, %entry ], [ %e.next, %next ]
{ir.joined(ir.block_at("p", "block", "e", width))}
  %v = load {ir.vector(width)}, ptr %p, align 8
  %kept = select <{width} x i1> %keep, {ir.vector(width)} %v, {ir.vector(width)} zeroinitializer
  store {ir.vector(width)} %kept, ptr %p, align 8
{ir.loop_end("e", 1, "%size", "next", "done")}
done:
  ret void
}}
"""  # noqa: E501
