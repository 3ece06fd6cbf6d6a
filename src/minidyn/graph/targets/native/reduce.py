"""Rows that a function computes, reduced as they are computed: they never leave the second-level cache.

The results of the function are rows, one result for each set of rows, all of the same samples. `reduce` computes a tile
of samples into packed blocks, divides each set's rows by an upper triangle where one is given, and adds the products
of their columns to sums. `rows` hands out the rows themselves.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Sequence
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from minidyn.arrays import Array
from minidyn.graph.function import Function
from minidyn.graph.targets.native.core import Plan, core_text, fill_text, helper_text, once_text
from minidyn.graph.targets.native.gram import GROUP, across, divide_text, gram_text
from minidyn.graph.targets.native.host import Code, compile_text, host
from minidyn.graph.targets.native.moves import copy_text
from minidyn.graph.targets.native.text import FOOTER

TILE = 256
"""Samples of a tile: eight columns of it stay in the first-level cache, all rows of it in the second."""

_REDUCE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, *[ctypes.c_void_p] * 5)


class Reduction:
    """A function whose results are rows, compiled to reduce them.

    Attributes:
        function: Arguments (N, size), none uniform; each result a row whose length is a multiple of GROUP.
        sizes: Lengths of the rows.
        width: Samples computed side by side: 2, 4 or 8; None takes what the machine's vector registers hold.
    """

    def __init__(self, function: Function, width: int | None = None) -> None:
        if any(argument.uniform for argument in function.arguments):
            raise ValueError("a reduction takes no uniform arguments")
        self.function = function
        self.sizes = tuple(result.size for result in function.results)
        if any(size % GROUP for size in self.sizes):
            raise ValueError(f"rows are {self.sizes} long; expected multiples of {GROUP}")
        self.width = host().width if width is None else width
        if self.width not in (2, 4, 8):
            raise ValueError(f"width is {width!r}, expected 2, 4, 8 or None")
        self._plan = Plan(function)
        self._own = threading.local()

    @cached_property
    def code(self) -> Code:
        """The machine code: entry "reduce"."""
        plan, width = self._plan, self.width
        parts = (helper_text(plan, width), once_text(plan), fill_text(plan, width), core_text(plan, width))
        text = "".join(parts) + copy_text(plan, width) + gram_text(width) + divide_text(width)
        return compile_text(text + _reduce_text(plan, width) + FOOTER, ("reduce",))

    def grams(self, arrays: Sequence[Array], factors: Sequence[Array | None], which: Sequence[int]) -> list[Array]:
        """Return for some results the products of their columns, summed over the samples (size, size).

        Args:
            arrays: One per argument (N, size).
            factors: For each result an upper triangle (size, size) its rows are divided by first, or None.
            which: Numbers of the results that are wanted, in rising order.
        """
        width, step = self.width, across(self.width)
        sums: list[Array | None] = [None] * len(self.sizes)
        for index in which:
            size = self.sizes[index]
            sums[index] = _aligned(GROUP * width * sum(size - first for first in range(0, size, GROUP)))
        packed = [None if factor is None else _packed_triangle(factor) for factor in factors]
        self._run(arrays, packed, sums)
        found = [(values, size) for values, size in zip(sums, self.sizes) if values is not None]
        return [_unpacked(values, size, width, step) for values, size in found]

    def rows(self, arrays: Sequence[Array]) -> list[Array]:
        """Return for each result its rows (N, size)."""
        count = len(arrays[0])
        found = [np.empty((count, size)) for size in self.sizes]
        nothing = [None] * len(self.sizes)
        for begin in range(0, count, TILE):
            part = [array[begin : begin + TILE] for array in arrays]
            tiles = self._run(part, nothing, nothing)
            here = len(part[0])
            for whole, tile in zip(found, tiles):
                size = whole.shape[1]
                blocks = tile[: -(-here // self.width) * self.width * size].reshape(-1, size, self.width)
                whole[begin : begin + here] = np.swapaxes(blocks, 1, 2).reshape(-1, size)[:here]
        return found

    def _run(
        self, arrays: Sequence[Array], factors: Sequence[Array | None], sums: Sequence[Array | None]
    ) -> list[Array]:
        own = self._own
        if not hasattr(own, "tiles"):  # work space of this thread
            rows = -(-TILE // (4 * self.width)) * 4 * self.width
            own.tiles = [_aligned(rows * size) for size in self.sizes]
            own.divided = _aligned(rows * max(self.sizes, default=0))
            own.slots = _aligned(max(1, len(self._plan.slots)))
            own.tiles_table = _table(own.tiles)
        words: list[int] = []
        for array, argument in zip(arrays, self.function.arguments, strict=True):
            if array.dtype != np.float64 or array.shape != (len(arrays[0]), argument.size):
                raise ValueError(f"{argument.name}: expected float64 {(len(arrays[0]), argument.size)}")
            words += (array.__array_interface__["data"][0], array.strides[0], array.strides[1])
        _REDUCE(self.code.addresses["reduce"])(
            (ctypes.c_int64 * len(words))(*words),
            len(arrays[0]),
            own.tiles_table,
            own.divided.ctypes.data,
            _table(factors),
            _table(sums),
            own.slots.ctypes.data,
        )
        return list(own.tiles)


def _aligned(size: int) -> Array:
    raw = np.zeros(size + 8)
    start = (-raw.ctypes.data // 8) % 8
    return raw[start : start + size]


def _table(arrays: Sequence[Array | None]) -> ctypes.Array[ctypes.c_void_p]:
    addresses = [0 if array is None else array.__array_interface__["data"][0] for array in arrays]
    return (ctypes.c_void_p * len(addresses))(*addresses)


def _packed_triangle(factor: Array) -> Array:
    """Return, for each group of columns, the rows above and its corner, with reciprocals on the diagonal."""
    values = factor.copy()
    np.fill_diagonal(values, 1.0 / np.diagonal(factor))
    return np.concatenate([values[: j + GROUP, j : j + GROUP].ravel() for j in range(0, len(values), GROUP)])


def _unpacked(sums: Array, size: int, width: int, step: int) -> Array:
    """Return the products as a symmetric matrix (size, size), lanes added up."""
    made = np.zeros((size, size))
    made.ravel()[_places(size, step)] = sums.reshape(-1, width).sum(axis=1)
    return np.asarray(np.triu(made) + np.triu(made, 1).T)


@lru_cache(maxsize=64)
def _places(size: int, step: int) -> NDArray[np.intp]:
    """Return where in a matrix (size, size), row by row, the sums go in the order `@gram` keeps them."""
    found = []
    for i in range(0, size, GROUP):
        for j in range(i, size, step):
            rows, columns = np.arange(i, i + GROUP)[:, None], np.arange(j, j + step)
            found.append((rows * size + columns).ravel())
    return np.concatenate(found)


def _reduce_text(plan: Plan, width: int) -> str:
    """Return `@reduce(arguments, count, tiles, divided, factors, sums, u)`.

    `arguments` holds address and strides of each argument. Where the address of a factor is null, rows are taken as
    they are; where that of the sums is null, they are only computed.
    """
    sizes_in, sizes_out = plan.block_sizes
    lines = [
        "define void @reduce(ptr %d, i64 %count, ptr %tiles, ptr %divided, ptr %factors, ptr %sums, ptr %u) #0 {",
        "entry:",
    ]
    scratch = []
    for index, size in enumerate(sizes_in):
        lines.append(f"  %a{index} = alloca double, i64 {max(1, size) * width}, align 64")
        scratch.append(f"ptr %a{index}")
        for field, word in enumerate(("base", "lane", "scalar")):
            kind = "ptr" if word == "base" else "i64"
            lines.append(f"  %a{index}.{word}.p = getelementptr i64, ptr %d, i64 {3 * index + field}")
            lines.append(f"  %a{index}.{word} = load {kind}, ptr %a{index}.{word}.p, align 8")
    for index in range(len(sizes_out)):
        for name, table in (("o", "tiles"), ("f", "factors"), ("g", "sums")):
            lines.append(f"  %{name}{index}.p = getelementptr ptr, ptr %{table}, i64 {index}")
            lines.append(f"  %{name}{index} = load ptr, ptr %{name}{index}.p, align 8")
    lines += [
        "  br label %fill",
        "fill:",  # what is the same in every row is written once; only the lanes after the last sample lose it
        "  %n = phi i64 [ 0, %entry ], [ %n.next, %fill ]",
    ]
    for index, size in enumerate(sizes_out):
        lines.append(f"  %n{index}.off = mul i64 %n, {size * width}")
        lines.append(f"  %n{index} = getelementptr double, ptr %o{index}, i64 %n{index}.off")
    arguments = ", ".join([*scratch, *(f"ptr %n{index}" for index in range(len(sizes_out))), "ptr %u"])
    lines += [
        f"  call void @fill.{width}({arguments})",
        "  %n.next = add i64 %n, 1",
        f"  %n.more = icmp slt i64 %n.next, {TILE // width}",
        "  br i1 %n.more, label %fill, label %tile",
        "tile:",
        "  %first = phi i64 [ 0, %fill ], [ %first.next, %tile.end ]",
        f"  %first.next = add i64 %first, {TILE}",
        "  %over = icmp slt i64 %count, %first.next",
        "  %end = select i1 %over, i64 %count, i64 %first.next",
        "  br label %block",
        "block:",
        "  %i = phi i64 [ %first, %tile ], [ %i.next, %computed ]",
        "  %b = phi i64 [ 0, %tile ], [ %b.next, %computed ]",
        "  %left = sub i64 %end, %i",
        "  %some = icmp sgt i64 %left, 0",
        "  br i1 %some, label %bring, label %products",
        "bring:",
        f"  %whole = icmp sge i64 %left, {width}",
        "  %last = sub i64 %left, 1",
    ]
    for index, size in enumerate(sizes_in):
        if size:
            lines.append(f"  %a{index}.off = mul i64 %i, %a{index}.lane")
            lines.append(f"  %a{index}.at = getelementptr i8, ptr %a{index}.base, i64 %a{index}.off")
    for index, size in enumerate(sizes_out):
        lines.append(f"  %b{index}.off = mul i64 %b, {size * width}")
        lines.append(f"  %b{index} = getelementptr double, ptr %o{index}, i64 %b{index}.off")
    lines += ["  br i1 %whole, label %squares, label %single", "squares:"]
    moved = [index for index, size in enumerate(sizes_in) if size]
    for index in moved:
        strides = f"i64 %a{index}.lane, i64 %a{index}.scalar"
        lines.append(f"  call void @get{index}(ptr %a{index}.at, {strides}, ptr %a{index})")
    lines += ["  br label %compute", "single:"]
    for index in moved:
        strides = f"i64 %a{index}.lane, i64 %a{index}.scalar"
        lines.append(
            f"  call void @copy(ptr %a{index}.at, {strides}, ptr %a{index}, i64 8, i64 {8 * width}, "
            f"i64 {sizes_in[index]}, i64 %last, i64 {width})"
        )
    arguments = ", ".join([*scratch, *(f"ptr %b{index}" for index in range(len(sizes_out))), "ptr %u"])
    lines += [
        "  br label %compute",
        "compute:",
        f"  call void @core.{width}({arguments})",
        "  br i1 %whole, label %computed, label %clear",
        "clear:",  # the lanes after the last sample repeat it: they must not count
        *(f"  call void @clear(ptr %b{index}, i64 {size}, i64 %left)" for index, size in enumerate(sizes_out)),
        "  br label %computed",
        "computed:",
        f"  %i.next = add i64 %i, {width}",
        "  %b.next = add i64 %b, 1",
        "  br label %block",
        "products:",
    ]
    for index, size in enumerate(sizes_out):
        lines += [
            f"  %g{index}.none = icmp eq ptr %g{index}, null",
            f"  br i1 %g{index}.none, label %done{index}, label %ask{index}",
            f"ask{index}:",
            f"  %f{index}.none = icmp eq ptr %f{index}, null",
            f"  br i1 %f{index}.none, label %add{index}, label %divide{index}",
            f"divide{index}:",
            f"  call void @divide(ptr %o{index}, i64 %b, i64 {size}, ptr %f{index}, ptr %divided)",
            f"  br label %add{index}",
            f"add{index}:",
            f"  %r{index} = phi ptr [ %o{index}, %ask{index} ], [ %divided, %divide{index} ]",
            f"  call void @gram(ptr %r{index}, i64 %b, i64 {size}, ptr %g{index})",
            f"  br label %done{index}",
            f"done{index}:",
        ]
    lines += [
        "  br label %tile.end",
        "tile.end:",
        "  %more = icmp slt i64 %first.next, %count",
        "  br i1 %more, label %tile, label %done",
        "done:",
        "  ret void",
        "}",
        f"""
define internal void @clear(ptr %block, i64 %size, i64 %left) noinline #0 {{
entry:
  br label %head
head:
  %e = phi i64 [ 0, %entry ], [ %e.next, %next ]
  %e.more = icmp slt i64 %e, %size
  br i1 %e.more, label %lanes, label %done
lanes:
  %l = phi i64 [ %left, %head ], [ %l.next, %lane ]
  %l.more = icmp slt i64 %l, {width}
  br i1 %l.more, label %lane, label %next
lane:
  %off = mul i64 %e, {width}
  %at = add i64 %off, %l
  %p = getelementptr double, ptr %block, i64 %at
  store double 0.0, ptr %p, align 8
  %l.next = add i64 %l, 1
  br label %lanes
next:
  %e.next = add i64 %e, 1
  br label %head
done:
  ret void
}}
""",
    ]
    return "\n".join(lines)
