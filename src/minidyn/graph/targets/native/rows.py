"""From arrays as users have them to blocks and back: the loop over a batch.

`@rows(descriptor, begin, end, total)` computes samples begin to end of a batch of `total`. The
descriptor holds three 64-bit numbers for each argument and then each result: address, bytes from
sample to sample, bytes from scalar to scalar. Per block of `width` samples the inputs are
transposed into a scratch block, the block is computed, and the outputs are transposed into the
result, all within the first-level cache. Results larger than the caches go to memory past them.

A block is moved in one of three ways, chosen by the strides at run time:

- samples next to each other (Fortran order, structure of arrays): plain vector copies;
- scalars next to each other (row-major): square transposes in registers, a few columns of `width`
  samples at a time. Each is one small function, called for every group of columns (code for all
  groups in a row would run no faster and take longer to compile than the arithmetic):
  `@square.get.<columns>(rows, lane, block)` takes columns in, `@square.put` takes them out,
  `@square.same.<columns>(rows, lane, values)` writes constant columns;
- anything else, and the last samples that do not fill a vector: scalar copies.
"""

from __future__ import annotations

from collections.abc import Iterable

from minidyn.graph.targets.native.core import Plan
from minidyn.graph.targets.native.host import (
    all_of,
    double,
    joined,
    loads,
    loop_end,
    outside,
    shuffle,
    vector,
)


def _squares_text(plan: Plan, width: int) -> str:
    """Return the functions for arguments and results of the plan's sizes."""
    text = ""
    for name, sizes in zip(("get", "put"), plan.block_sizes):
        columns = {size % width for size in sizes if size % width} | {
            width for size in sizes if size >= width
        }
        for count in sorted(columns):
            text += _square_text(name, count, width)
            if name == "put":
                text += _same_text(count, width)
    return text


def _rows(width: int) -> list[str]:
    """Return the addresses of the rows."""
    offsets = [f"  %offset{lane} = mul i64 %lane, {lane}" for lane in range(width)]
    return offsets + [
        f"  %row{lane} = getelementptr i8, ptr %rows, i64 %offset{lane}" for lane in range(width)
    ]


def _same_text(columns: int, width: int) -> str:
    piece = f"<{columns} x double>"
    return f"""
define internal void @square.same.{columns}(ptr %rows, i64 %lane, {piece} %values) noinline #0 {{
{joined(_rows(width))}
{joined(f"  store {piece} %values, ptr %row{lane}, align 1" for lane in range(width))}
  ret void
}}
"""


def _square_text(name: str, columns: int, width: int) -> str:
    real, half = vector(width), width // 2
    load = name == "get"
    lines = _rows(width)
    lines += [
        f"  %column{i} = getelementptr double, ptr %block, i64 {i * width}" for i in range(columns)
    ]
    count, length, word = (width, columns, "row") if load else (columns, width, "column")
    pointers = [f"%{word}{i}" if i < count else None for i in range(width)]
    values: list[str] = []
    for part in (0, 1):  # the first exchange, at half the width, is done by loading halves
        for i in range(half):
            room = min(half, length - part * half)
            pair = [
                _half(lines, f"h{part}.{k}", pointers[k], part * half, room, half)
                for k in (i, i + half)
            ]
            kind = f"<{half} x double>"
            lines.append(
                f"  %c{part}.{i} = shufflevector {kind} {pair[0]}, {kind} {pair[1]}, "
                f"{shuffle(range(width))}"
            )
            values.append(f"%c{part}.{i}")
    lines += _transpose(values, width)
    for i in range(columns if load else width):
        if load:
            lines.append(f"  store {real} {values[i]}, ptr %column{i}, align {8 * width}")
        else:  # shorter rows: the first columns alone
            lines.append(
                f"  %n{i} = shufflevector {real} {values[i]}, {real} undef, "
                f"{shuffle(range(columns))}"
            )
            lines.append(f"  store <{columns} x double> %n{i}, ptr %row{i}, align 1")
    head = (
        f"define internal void @square.{name}.{columns}(ptr %rows, i64 %lane, ptr %block) "
        "noinline #0 {"
    )
    return joined([head, *lines, "  ret void", "}", ""])


def _half(
    lines: list[str], name: str, pointer: str | None, offset: int, length: int, half: int
) -> str:
    """Load `length` doubles from an offset as half a vector; what is missing is undefined."""
    if pointer is None or length <= 0:
        return "undef"
    piece = f"<{length} x double>"
    lines.append(f"  %{name}.p = getelementptr double, ptr {pointer}, i64 {offset}")
    lines.append(f"  %{name} = load {piece}, ptr %{name}.p, align 1")
    if length == half:
        return f"%{name}"
    mask = shuffle([min(lane, length) for lane in range(half)])
    lines.append(f"  %{name}.w = shufflevector {piece} %{name}, {piece} undef, {mask}")
    return f"%{name}.w"


def _transpose(values: list[str], width: int) -> list[str]:
    """Finish the transpose of the square of vectors `values` in place.

    Exchange at distances 1, 2, ...
    """
    real = vector(width)
    lines: list[str] = []
    for distance in (1, 2):
        if distance >= width // 2:
            break
        low = shuffle(
            [lane if not lane & distance else width + lane - distance for lane in range(width)]
        )
        high = shuffle(
            [lane + distance if not lane & distance else width + lane for lane in range(width)]
        )
        for i in (lane for lane in range(width) if not lane & distance):
            pair = f"{real} {values[i]}, {real} {values[i + distance]}"
            for part, mask in ((i, low), (i + distance, high)):
                lines.append(f"  %x{distance}.{part} = shufflevector {pair}, {mask}")
                values[part] = f"%x{distance}.{part}"
    return lines


_COPY = f"""
define internal void @copy(ptr %src, i64 %s.lane, i64 %s.scalar, ptr %dst, i64 %d.lane, i64 %d.scalar, \
i64 %size, i64 %last, i64 %lanes) noinline #0 {{
entry:
  %empty = icmp eq i64 %size, 0
  br i1 %empty, label %done, label %outer
outer:
  %e = phi i64 [ 0, %entry ], [ %e.next, %next ]
  %s.at = mul i64 %e, %s.scalar
  %d.at = mul i64 %e, %d.scalar
  %s.e = getelementptr i8, ptr %src, i64 %s.at
  %d.e = getelementptr i8, ptr %dst, i64 %d.at
  br label %inner
inner:
  %l = phi i64 [ 0, %outer ], [ %l.next, %inner ]
  %over = icmp ugt i64 %l, %last
  %lane = select i1 %over, i64 %last, i64 %l
  %s.off = mul i64 %lane, %s.lane
  %d.off = mul i64 %l, %d.lane
  %s = getelementptr i8, ptr %s.e, i64 %s.off
  %d = getelementptr i8, ptr %d.e, i64 %d.off
  %v = load double, ptr %s, align 1
  store double %v, ptr %d, align 1
{loop_end("l", 1, "%lanes", "inner", "next")}
next:
{loop_end("e", 1, "%size", "outer", "done")}
done:
  ret void
}}
"""  # noqa: E501
# Lanes after the last sample repeat it: they hold ordinary numbers and their results are not
# written.


def copy_text(plan: Plan, width: int) -> str:
    """Return the functions that move one block: `@get<k>` per argument, `@put<k>` per result."""
    text = _COPY + _stream_text(width)
    if width > 1:
        text += _vectors_text(width) + _squares_text(plan, width)
    for index, size in enumerate(plan.block_sizes[0]):
        text += _move_text(f"get{index}", width, [None] * size, load=True)
    for index, steps in enumerate(plan.function.outputs):
        text += _move_text(
            f"put{index}", width, [plan.constants.get(step) for step in steps], load=False
        )
    return text


def _stream_text(width: int) -> str:
    """Copy a contiguous piece to memory past the caches.

    Only whole aligned vectors can go that way.
    """
    real, line = vector(width), 8 * width
    return f"""
define internal void @stream(ptr %dst, ptr %src, i64 %count) noinline #0 {{
entry:
{outside("memcpy")}
  %number = ptrtoint ptr %dst to i64
  %minus = sub i64 0, %number
  %gap.bytes = and i64 %minus, {line - 1}
  %gap = lshr i64 %gap.bytes, 3
  %first = call ptr %memcpy.at(ptr %dst, ptr %src, i64 %gap.bytes)
  br label %lines
lines:
  %j = phi i64 [ %gap, %entry ], [ %j.next, %lines.do ]
  %j.next = add i64 %j, {width}
  %s = getelementptr double, ptr %src, i64 %j
  %d = getelementptr double, ptr %dst, i64 %j
  %fits = icmp sle i64 %j.next, %count
  br i1 %fits, label %lines.do, label %last
lines.do:
  %v = load {real}, ptr %s, align 8
  store {real} %v, ptr %d, align {line}, !nontemporal !1
  br label %lines
last:
  %left = sub i64 %count, %j
  %left.bytes = shl i64 %left, 3
  %rest = call ptr %memcpy.at(ptr %d, ptr %s, i64 %left.bytes)
  ret void
}}
"""


def _vectors_text(width: int) -> str:
    """Copy `size` whole vectors between two strides (samples next to each other)."""
    real = vector(width)
    return f"""
define internal void @vectors(ptr %src, i64 %s.scalar, ptr %dst, i64 %d.scalar, i64 %size) noinline #0 {{
entry:
  br label %loop
loop:
  %e = phi i64 [ 0, %entry ], [ %e.next, %loop ]
  %s = phi ptr [ %src, %entry ], [ %s.next, %loop ]
  %d = phi ptr [ %dst, %entry ], [ %d.next, %loop ]
  %v = load {real}, ptr %s, align 1
  store {real} %v, ptr %d, align 1
  %s.next = getelementptr i8, ptr %s, i64 %s.scalar
  %d.next = getelementptr i8, ptr %d, i64 %d.scalar
{loop_end("e", 1, "%size", "loop", "done")}
done:
  ret void
}}
"""  # noqa: E501


def _move_text(name: str, width: int, known: list[float | None], *, load: bool) -> str:
    """Emit one mover: `block` is the scratch side, `rows` the user's side with strides lane and
    scalar.
    """
    size = len(known)
    if not size:
        return ""
    outside, block = ("ptr %rows, i64 %scalar", f"ptr %block, i64 {8 * width}")
    vectors = ", ".join([outside, block] if load else [block, outside])
    outside, block = ("ptr %rows, i64 %lane, i64 %scalar", f"ptr %block, i64 8, i64 {8 * width}")
    single = ", ".join([outside, block] if load else [block, outside])
    lines = [
        (
            f"define internal void @{name}(ptr %rows, i64 %lane, i64 %scalar, ptr %block) "
            "noinline #0 {"
        )
    ]
    if width > 1:
        lines += [
            "  %is.vectors = icmp eq i64 %lane, 8",
            "  br i1 %is.vectors, label %vectors, label %other",
            "vectors:",
            f"  call void @vectors({vectors}, i64 {size})",
            "  ret void",
            "other:",
            "  %is.rows = icmp eq i64 %scalar, 8",
            "  br i1 %is.rows, label %squares, label %single",
            "squares:",
        ]
        for first in range(0, size, width):
            values = known[first : first + width]
            constants = [value for value in values if value is not None]
            kind = len(values)
            lines += [
                f"  %rows{first} = getelementptr double, ptr %rows, i64 {first}",
                f"  %block{first} = getelementptr double, ptr %block, i64 {first * width}",
            ]
            way, what = name.rstrip("0123456789"), f"ptr %block{first}"
            if len(constants) == kind:
                literal = ", ".join(f"double {double(value)}" for value in constants)
                way, what = "same", f"<{kind} x double> <{literal}>"
            lines.append(f"  call void @square.{way}.{kind}(ptr %rows{first}, i64 %lane, {what})")
        lines += ["  ret void", "single:"]
    lines += [
        f"  call void @copy({single}, i64 {size}, i64 {width - 1}, i64 {width})",
        "  ret void",
        "}",
    ]
    return "\n".join(lines) + "\n"


_LINE = 8  # doubles in a cache line: every block starts on one
_STREAM_BYTES = (
    12 << 20
)  # from here on past the caches is quicker, even where the result is read again soon
_STREAM_SIZE = 32  # fewer scalars per sample are not worth staging
_ON_STACK = 8192  # doubles of blocks kept on the stack (64 KiB); more come from the heap


def scratch_layout(plan: Plan, width: int) -> tuple[list[int], list[int], int, int, int]:
    """Return offsets (in doubles) of argument blocks, result blocks, staged rows and u, and the
    size of all.
    """
    offset = 0
    places: list[list[int]] = []
    for sizes in plan.block_sizes:
        places.append([])
        for size in sizes:
            places[-1].append(offset)
            offset += -(-size * width // _LINE) * _LINE
    staged = max((size for size in plan.block_sizes[1] if size >= _STREAM_SIZE), default=0)
    at_u = offset + staged * width
    return places[0], places[1], offset, at_u, at_u + len(plan.slots)


def descriptor_names(names: Iterable[str]) -> list[str]:
    """Return the words of a descriptor, as `loads` takes them."""
    return [
        word
        for name in names
        for word in (f"ptr {name}.base", f"i64 {name}.lane", f"i64 {name}.scalar")
    ]


def rows_text(plan: Plan, width: int) -> str:
    """Return `@rows`, the loop over samples."""
    at_in, at_out, at_staged, at_u, total = scratch_layout(plan, width)
    ins, outs = plan.names
    places = zip([*ins, *outs, "staged", "u"], [*at_in, *at_out, at_staged, at_u])
    raw = [
        f"{name}.base" if argument.uniform else name
        for name, argument in zip(ins, plan.function.arguments)
    ]
    bases = ", ".join(f"ptr %{name}" for name in [*raw, *outs, "u"])
    large = [(name, size) for name, size in zip(outs, plan.block_sizes[1]) if size >= _STREAM_SIZE]
    streaming = [line for name, size in large for line in _streaming_lines(name, size)]
    free = f"{outside('free')}\n  call void %free.at(ptr %raw)" if total > _ON_STACK else ""
    return f"""
define i32 @rows(ptr %d, i64 %begin, i64 %end, i64 %total) #0 {{
{joined(_scratch_lines(total))}
{joined(loads("d", descriptor_names([*ins, *outs])))}
{joined(f"  %{name} = getelementptr double, ptr %scratch, i64 {offset}" for name, offset in places)}
  %count = sub i64 %end, %begin
{joined(streaming)}
  call void @once({bases})
  call void @fill.{width}({plan.call})
  br label %head
head:
  %from = phi i64 [ %begin, %entry ], [ %i.next, %latch ]
  %left = sub i64 %end, %from
  %full = icmp sge i64 %left, {width}
  br i1 %full, label %body, label %rest
rest:
  %some = icmp sgt i64 %left, 0
  br i1 %some, label %which, label %done
which:  ; the last full block once more, shifted back to end with the last sample, or fewer lanes
  %back = sub i64 %end, {width}
  %room = icmp sge i64 %count, {width}
  br i1 %room, label %body, label %tail
body:
  %i = phi i64 [ %from, %head ], [ %back, %which ]
  %i.next = add i64 %i, {width}
{joined(_block_lines(plan, width, "body"))}
  br label %latch
latch:
  br label %head
tail:
  %last = sub i64 %left, 1
{joined(_block_lines(plan, width, "tail"))}
  br label %done
done:
{"  fence seq_cst" if at_u > at_staged else ""}
{free}
  ret i32 0
}}
"""


def _streaming_lines(name: str, size: int) -> list[str]:
    """Decide whether a result is written past the caches.

    It is packed row-major and larger than they are.
    """
    large, even = f"sgt i64 %{name}.bytes, {_STREAM_BYTES}", f"eq i64 %{name}.odd, 0"
    return [
        f"  %{name}.bytes = mul i64 %total, {8 * size}",
        f"  %{name}.number = ptrtoint ptr %{name}.base to i64",
        f"  %{name}.odd = and i64 %{name}.number, 7",
        *all_of(
            f"{name}.stream",
            large,
            even,
            f"eq i64 %{name}.lane, {8 * size}",
            f"eq i64 %{name}.scalar, 8",
        ),
    ]


def _scratch_lines(total: int) -> list[str]:
    """Get room for the blocks.

    On the stack it costs nothing, is warm and belongs to this thread alone.
    """
    if total <= _ON_STACK:
        return [f"  %scratch = alloca double, i64 {total}, align 64", "  br label %entry", "entry:"]
    return [
        outside("malloc"),
        f"  %raw = call ptr %malloc.at(i64 {8 * total + 64})",
        "  %none = icmp eq ptr %raw, null",
        "  br i1 %none, label %fail, label %entry",
        "fail:",
        "  ret i32 1",
        "entry:",
        "  %raw.number = ptrtoint ptr %raw to i64",
        "  %raw.up = add i64 %raw.number, 63",
        "  %raw.even = and i64 %raw.up, -64",
        "  %scratch = inttoptr i64 %raw.even to ptr",
    ]


def _block_lines(plan: Plan, width: int, part: str) -> list[str]:
    """One block: bring in, compute, take out; the tail moves fewer lanes, one by one."""
    lines: list[str] = []
    for kind, names, sizes in zip("ao", plan.names, plan.block_sizes):
        if kind == "o":
            lines.append(f"  call void @core.{width}({plan.call})")
        for index, (name, size) in enumerate(zip(names, sizes)):
            if not size:
                continue
            at, mover = f"%{name}.{part}", f"@{'get' if kind == 'a' else 'put'}{index}"
            outside, packed = (
                f"ptr {at}, i64 %{name}.lane, i64 %{name}.scalar",
                f"ptr %{name}, i64 8, i64 {8 * width}",
            )
            lines.append(f"  {at}.off = mul i64 %{'i' if part == 'body' else 'from'}, %{name}.lane")
            lines.append(f"  {at} = getelementptr i8, ptr %{name}.base, i64 {at}.off")
            if part == "tail":
                way = f"{outside}, {packed}" if kind == "a" else f"{packed}, {outside}"
                lanes = width if kind == "a" else "%left"
                lines.append(f"  call void @copy({way}, i64 {size}, i64 %last, i64 {lanes})")
            elif kind == "a" or size < _STREAM_SIZE:
                lines.append(f"  call void {mover}({outside}, ptr %{name})")
            else:
                lines += [
                    f"  br i1 %{name}.stream, label %{name}.past, label %{name}.plain",
                    f"{name}.past:",
                    f"  call void {mover}(ptr %staged, i64 {8 * size}, i64 8, ptr %{name})",
                    f"  call void @stream(ptr {at}, ptr %staged, i64 {size * width})",
                    f"  br label %{name}.moved",
                    f"{name}.plain:",
                    f"  call void {mover}({outside}, ptr %{name})",
                    f"  br label %{name}.moved",
                    f"{name}.moved:",
                ]
    return lines
