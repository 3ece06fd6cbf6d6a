"""Moving one block between the arrays of a user and packed blocks.

Three cases, told apart by the strides at run time:

- samples next to each other (Fortran order, structure of arrays): plain vector copies;
- scalars next to each other (row-major): square transposes in registers;
- anything else, and the last samples that do not fill a vector: scalar copies.

Square transposes in registers: a few columns of `width` row-major samples to or from a packed block.

Each is one small function, called for every group of columns: code for all groups in a row would run no faster and
take longer to compile than the arithmetic.

- `@square.get.<columns>(rows, lane, block)` takes columns in,
- `@square.put.<columns>(rows, lane, block)` takes them out,
- `@square.same.<columns>(rows, lane, values)` writes constant columns: the same piece of row for every sample.
"""

from __future__ import annotations

from collections.abc import Sequence

from minidyn.graph.targets.native.core import Plan
from minidyn.graph.targets.native.text import double, shuffle, vector


def squares_text(sizes_in: Sequence[int], sizes_out: Sequence[int], width: int) -> str:
    """Return the functions for arguments and results of these sizes."""
    text = ""
    for name, sizes in (("get", sizes_in), ("put", sizes_out)):
        columns = {size % width for size in sizes if size % width} | {width for size in sizes if size >= width}
        for count in sorted(columns):
            text += _square_text(name, count, width)
            if name == "put":
                text += _same_text(count, width)
    return text


def _rows(width: int) -> list[str]:
    """Return the addresses of the rows."""
    lines = []
    for lane in range(width):
        lines.append(f"  %offset{lane} = mul i64 %lane, {lane}")
        lines.append(f"  %row{lane} = getelementptr i8, ptr %rows, i64 %offset{lane}")
    return lines


def _same_text(columns: int, width: int) -> str:
    piece = f"<{columns} x double>"
    lines = [
        f"define internal void @square.same.{columns}(ptr %rows, i64 %lane, {piece} %values) noinline #0 {{",
        *_rows(width),
    ]
    lines += [f"  store {piece} %values, ptr %row{lane}, align 1" for lane in range(width)]
    return "\n".join([*lines, "  ret void", "}", ""])


def _square_text(name: str, columns: int, width: int) -> str:
    real, half = vector(width), width // 2
    load = name == "get"
    lines = [
        f"define internal void @square.{name}.{columns}(ptr %rows, i64 %lane, ptr %block) noinline #0 {{",
        *_rows(width),
    ]
    for i in range(columns):
        lines.append(f"  %column{i} = getelementptr double, ptr %block, i64 {i * width}")
    count, length, word = (width, columns, "row") if load else (columns, width, "column")
    pointers = [f"%{word}{i}" if i < count else None for i in range(width)]
    values: list[str] = []
    for part in (0, 1):  # the first exchange, at half the width, is done by loading halves
        for i in range(half):
            room = min(half, length - part * half)
            pair = [_half(lines, f"h{part}.{k}", pointers[k], part * half, room, half) for k in (i, i + half)]
            kind = f"<{half} x double>"
            lines.append(f"  %c{part}.{i} = shufflevector {kind} {pair[0]}, {kind} {pair[1]}, {shuffle(range(width))}")
            values.append(f"%c{part}.{i}")
    lines += _transpose(values, width)
    for i in range(columns if load else width):
        if load:
            lines.append(f"  store {real} {values[i]}, ptr %column{i}, align {8 * width}")
        elif columns == width:
            lines.append(f"  store {real} {values[i]}, ptr %row{i}, align 1")
        else:
            mask = shuffle(range(columns))
            lines.append(f"  %n{i} = shufflevector {real} {values[i]}, {real} undef, {mask}")
            lines.append(f"  store <{columns} x double> %n{i}, ptr %row{i}, align 1")
    return "\n".join([*lines, "  ret void", "}", ""])


def _half(lines: list[str], name: str, pointer: str | None, offset: int, length: int, half: int) -> str:
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
    """Finish the transpose of the square of vectors `values` in place: exchange at distances 1, 2, ..."""
    real = vector(width)
    lines: list[str] = []
    distance = 1
    while distance < width // 2:
        low = shuffle([lane if not lane & distance else width + lane - distance for lane in range(width)])
        high = shuffle([lane + distance if not lane & distance else width + lane for lane in range(width)])
        for i in range(width):
            if i & distance:
                continue
            pair = f"{real} {values[i]}, {real} {values[i + distance]}"
            for part, mask in ((i, low), (i + distance, high)):
                lines.append(f"  %x{distance}.{part} = shufflevector {pair}, {mask}")
                values[part] = f"%x{distance}.{part}"
        distance *= 2
    return lines


_COPY = """
define internal void @copy(ptr %src, i64 %s.lane, i64 %s.scalar, ptr %dst, i64 %d.lane, i64 %d.scalar, \
i64 %size, i64 %last, i64 %lanes) noinline #0 {
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
  %l.next = add i64 %l, 1
  %more = icmp ult i64 %l.next, %lanes
  br i1 %more, label %inner, label %next
next:
  %e.next = add i64 %e, 1
  %again = icmp ult i64 %e.next, %size
  br i1 %again, label %outer, label %done
done:
  ret void
}
"""
# Lanes after the last sample repeat it: they hold ordinary numbers and their results are not written.


def copy_text(plan: Plan, width: int) -> str:
    """Return the functions that move one block: `@get<k>` per argument, `@put<k>` per result."""
    text = _COPY + _stream_text(width)
    sizes_in, sizes_out = plan.block_sizes
    if width > 1:
        text += _vectors_text(width) + squares_text(sizes_in, sizes_out, width)
    for index, size in enumerate(sizes_in):
        if size:
            text += _move_text(f"get{index}", size, width, [None] * size, load=True)
    for index, size in enumerate(sizes_out):
        if size:
            known = [plan.constants.get(step) for step in plan.function.outputs[index]]
            text += _move_text(f"put{index}", size, width, known, load=False)
    return text


def _stream_text(width: int) -> str:
    """Copy a contiguous piece to memory past the caches: only whole aligned vectors can go that way."""
    real, line = vector(width), 8 * width
    return f"""
define internal void @stream(ptr %dst, ptr %src, i64 %count) noinline #0 {{
entry:
  %number = ptrtoint ptr %dst to i64
  %minus = sub i64 0, %number
  %gap.bytes = and i64 %minus, {line - 1}
  %gap = lshr i64 %gap.bytes, 3
  br label %first
first:
  %i = phi i64 [ 0, %entry ], [ %i.next, %first.do ]
  %aligned = icmp eq i64 %i, %gap
  br i1 %aligned, label %lines, label %first.do
first.do:
  %s0 = getelementptr double, ptr %src, i64 %i
  %d0 = getelementptr double, ptr %dst, i64 %i
  %v0 = load double, ptr %s0, align 8
  store double %v0, ptr %d0, align 8
  %i.next = add i64 %i, 1
  br label %first
lines:
  %j = phi i64 [ %gap, %first ], [ %j.next, %lines.do ]
  %j.next = add i64 %j, {width}
  %fits = icmp sle i64 %j.next, %count
  br i1 %fits, label %lines.do, label %last
lines.do:
  %s1 = getelementptr double, ptr %src, i64 %j
  %d1 = getelementptr double, ptr %dst, i64 %j
  %v1 = load {real}, ptr %s1, align 8
  store {real} %v1, ptr %d1, align {line}, !nontemporal !1
  br label %lines
last:
  %k = phi i64 [ %j, %lines ], [ %k.next, %last.do ]
  %more = icmp slt i64 %k, %count
  br i1 %more, label %last.do, label %done
last.do:
  %s2 = getelementptr double, ptr %src, i64 %k
  %d2 = getelementptr double, ptr %dst, i64 %k
  %v2 = load double, ptr %s2, align 8
  store double %v2, ptr %d2, align 8
  %k.next = add i64 %k, 1
  br label %last
done:
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
  %s.at = mul i64 %e, %s.scalar
  %d.at = mul i64 %e, %d.scalar
  %s = getelementptr i8, ptr %src, i64 %s.at
  %d = getelementptr i8, ptr %dst, i64 %d.at
  %v = load {real}, ptr %s, align 1
  store {real} %v, ptr %d, align 1
  %e.next = add i64 %e, 1
  %again = icmp ult i64 %e.next, %size
  br i1 %again, label %loop, label %done
done:
  ret void
}}
"""


def _move_text(name: str, size: int, width: int, known: list[float | None], *, load: bool) -> str:
    """Emit one mover: `block` is the scratch side, `rows` the user's side with strides lane and scalar."""
    packed = 8 * width
    if load:
        vectors = f"ptr %rows, i64 %scalar, ptr %block, i64 {packed}, i64 {size}"
        single = f"ptr %rows, i64 %lane, i64 %scalar, ptr %block, i64 8, i64 {packed}, i64 {size}"
    else:
        vectors = f"ptr %block, i64 {packed}, ptr %rows, i64 %scalar, i64 {size}"
        single = f"ptr %block, i64 8, i64 {packed}, ptr %rows, i64 %lane, i64 %scalar, i64 {size}"
    lines = [f"define internal void @{name}(ptr %rows, i64 %lane, i64 %scalar, ptr %block) noinline #0 {{"]
    if width > 1:
        lines += [
            "  %is.vectors = icmp eq i64 %lane, 8",
            "  br i1 %is.vectors, label %vectors, label %other",
            "vectors:",
            f"  call void @vectors({vectors})",
            "  ret void",
            "other:",
            "  %is.rows = icmp eq i64 %scalar, 8",
            "  br i1 %is.rows, label %squares, label %single",
            "squares:",
        ]
        for first in range(0, size, width):
            values = known[first : first + width]
            constants = [value for value in values if value is not None]
            kind = f"{len(values)}"
            lines += [
                f"  %rows{first} = getelementptr double, ptr %rows, i64 {first}",
                f"  %block{first} = getelementptr double, ptr %block, i64 {first * width}",
            ]
            if len(constants) == len(values):
                literal = ", ".join(f"double {double(value)}" for value in constants)
                square = f"@square.same.{kind}(ptr %rows{first}, i64 %lane, <{kind} x double> <{literal}>)"
            else:
                direction = "get" if load else "put"
                square = f"@square.{direction}.{kind}(ptr %rows{first}, i64 %lane, ptr %block{first})"
            lines.append(f"  call void {square}")
        lines += ["  ret void", "single:"]
    lines += [f"  call void @copy({single}, i64 {width - 1}, i64 {width})", "  ret void", "}"]
    return "\n".join(lines) + "\n"
