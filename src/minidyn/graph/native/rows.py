"""From arrays as users have them to blocks and back: the loop over a batch.

`@rows(descriptor, begin, end)` computes samples begin to end. The descriptor holds three 64-bit
numbers for each argument and then each result: address, bytes from sample to sample, bytes from scalar to
scalar. Per block of `width` samples the inputs are transposed into a scratch block, the block is computed,
and the outputs are transposed into the result, all within the first-level cache:

- samples next to each other (Fortran order, structure of arrays): plain vector copies;
- scalars next to each other (row-major): square transposes in registers;
- anything else, and the last samples that do not fill a vector: scalar copies.

`@tile(arguments, results, u, blocks, fill)` leaves the transposing out: packed blocks in, packed blocks out.
"""

from __future__ import annotations

from minidyn.graph.native.core import Plan
from minidyn.graph.native.host import library_address
from minidyn.graph.native.text import double, shuffle, vector

__all__ = ["copy_text", "rows_text", "scratch_layout", "tile_text"]

_LINE = 8  # doubles in a cache line: every block starts on one
_ON_STACK = 8192  # doubles of blocks kept on the stack (64 KiB); more come from the heap


def scratch_layout(plan: Plan, width: int) -> tuple[list[int], list[int], int, int]:
    """Return offsets (in doubles) of argument blocks, of result blocks, of u, and the size of all."""
    offset = 0
    places: list[list[int]] = []
    for sizes in plan.block_sizes:
        places.append([])
        for size in sizes:
            places[-1].append(offset)
            offset += -(-size * width // _LINE) * _LINE
    return places[0], places[1], offset, offset + len(plan.slots)


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
    text = _COPY
    if width > 1:
        text += _vectors_text(width)
    sizes_in, sizes_out = plan.block_sizes
    for index, size in enumerate(sizes_in):
        if size:
            text += _move_text(f"get{index}", size, width, [None] * size, load=True)
    for index, size in enumerate(sizes_out):
        if size:
            known = [plan.constants.get(step) for step in plan.function.outputs[index]]
            text += _move_text(f"put{index}", size, width, known, load=False)
    return text


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
        for lane in range(width):
            lines.append(f"  %offset{lane} = mul i64 %lane, {lane}")
            lines.append(f"  %row{lane} = getelementptr i8, ptr %rows, i64 %offset{lane}")
        for first in range(0, size, width):
            columns = min(width, size - first)
            values = known[first : first + columns]
            if all(value is not None for value in values):
                lines += _constant_square(first, [value for value in values if value is not None], width)
            else:
                lines += _square(first, columns, width, load=load)
        lines += ["  ret void", "single:"]
    lines += [f"  call void @copy({single}, i64 {width - 1}, i64 {width})", "  ret void", "}"]
    return "\n".join(lines) + "\n"


def _constant_square(first: int, values: list[float], width: int) -> list[str]:
    """Columns that are constants: store the same piece of row for every sample."""
    kind = f"<{len(values)} x double>"
    literal = "<" + ", ".join(f"double {double(value)}" for value in values) + ">"
    lines = []
    for lane in range(width):
        lines.append(f"  %k{first}.{lane} = getelementptr double, ptr %row{lane}, i64 {first}")
        lines.append(f"  store {kind} {literal}, ptr %k{first}.{lane}, align 1")
    return lines


def _square(first: int, columns: int, width: int, *, load: bool) -> list[str]:
    """Transpose `columns` columns of `width` samples in registers, in either direction."""
    real, piece = vector(width), f"<{columns} x double>"
    tag = f"t{first}"
    lines: list[str] = []
    values = ["undef"] * width
    for i in range(width if load else columns):
        if load:
            lines.append(f"  %{tag}.p{i} = getelementptr double, ptr %row{i}, i64 {first}")
            lines.append(f"  %{tag}.l{i} = load {piece}, ptr %{tag}.p{i}, align 1")
            values[i] = f"%{tag}.l{i}"
            if columns < width:
                mask = shuffle([min(lane, columns) for lane in range(width)])
                lines.append(f"  %{tag}.w{i} = shufflevector {piece} {values[i]}, {piece} undef, {mask}")
                values[i] = f"%{tag}.w{i}"
        else:
            lines.append(f"  %{tag}.p{i} = getelementptr double, ptr %block, i64 {(first + i) * width}")
            lines.append(f"  %{tag}.l{i} = load {real}, ptr %{tag}.p{i}, align {8 * width}")
            values[i] = f"%{tag}.l{i}"
    lines += _transpose(values, tag, width)
    for i in range(columns if load else width):
        if load:
            lines.append(f"  %{tag}.q{i} = getelementptr double, ptr %block, i64 {(first + i) * width}")
            lines.append(f"  store {real} {values[i]}, ptr %{tag}.q{i}, align {8 * width}")
        else:
            if columns < width:
                mask = shuffle(range(columns))
                lines.append(f"  %{tag}.n{i} = shufflevector {real} {values[i]}, {real} undef, {mask}")
                values[i] = f"%{tag}.n{i}"
            lines.append(f"  %{tag}.q{i} = getelementptr double, ptr %row{i}, i64 {first}")
            lines.append(f"  store {piece} {values[i]}, ptr %{tag}.q{i}, align 1")
    return lines


def _transpose(values: list[str], tag: str, width: int) -> list[str]:
    """Transpose the square of vectors `values` in place: exchange halves at distances 1, 2, 4."""
    real = vector(width)
    lines: list[str] = []
    distance = 1
    while distance < width:
        low = shuffle([lane if not lane & distance else width + lane - distance for lane in range(width)])
        high = shuffle([lane + distance if not lane & distance else width + lane for lane in range(width)])
        for i in range(width):
            if i & distance:
                continue
            pair = f"{real} {values[i]}, {real} {values[i + distance]}"
            for part, mask in ((i, low), (i + distance, high)):
                lines.append(f"  %{tag}.x{distance}.{part} = shufflevector {pair}, {mask}")
                values[part] = f"%{tag}.x{distance}.{part}"
        distance *= 2
    return lines


def rows_text(plan: Plan, width: int) -> str:
    """Return `@rows`, the loop over samples."""
    at_in, at_out, at_u, total = scratch_layout(plan, width)
    arguments, results = plan.function.arguments, plan.function.results
    lines = ["define i32 @rows(ptr %d, i64 %begin, i64 %end) #0 {", *_scratch_lines(total)]
    names = [f"a{index}" for index in range(len(arguments))] + [f"o{index}" for index in range(len(results))]
    for place, name in enumerate(names):
        for field, word in enumerate(("base", "lane", "scalar")):
            kind = "ptr" if word == "base" else "i64"
            lines.append(f"  %{name}.{word}.p = getelementptr i64, ptr %d, i64 {3 * place + field}")
            lines.append(f"  %{name}.{word} = load {kind}, ptr %{name}.{word}.p, align 8")
    for name, offset in zip([*names, "u"], [*at_in, *at_out, at_u]):
        lines.append(f"  %{name} = getelementptr double, ptr %scratch, i64 {offset}")
    blocks = ", ".join(f"ptr %{name}" for name in [*names, "u"])
    raw = [f"a{k}.base" if argument.uniform else f"a{k}" for k, argument in enumerate(arguments)]
    bases = ", ".join(f"ptr %{name}" for name in [*raw, *names[len(arguments) :], "u"])
    lines += [
        f"  call void @once({bases})",
        f"  call void @fill.{width}({blocks})",
        "  br label %head",
        "head:",
        "  %i = phi i64 [ %begin, %entry ], [ %i.next, %body ]",
        f"  %i.next = add i64 %i, {width}",
        "  %full = icmp sle i64 %i.next, %end",
        "  br i1 %full, label %body, label %rest",
        "body:",
    ]
    for part in ("body", "tail"):
        if part == "tail":
            lines += [
                "rest:",
                "  %left = sub i64 %end, %i",
                "  %some = icmp sgt i64 %left, 0",
                "  br i1 %some, label %tail, label %done",
                "tail:",
                "  %last = sub i64 %left, 1",
            ]
        lines += _block_lines(plan, width, part, blocks)
        lines.append("  br label %head" if part == "body" else "  br label %done")
    lines.append("done:")
    if total > _ON_STACK:
        lines.append(f"  call void inttoptr (i64 {library_address('free')} to ptr)(ptr %raw)")
    return "\n".join([*lines, "  ret i32 0", "}", ""])


def _scratch_lines(total: int) -> list[str]:
    """Get room for the blocks.

    On the stack it lies next to what the block's code keeps there, always at the same distance: two buffers
    whose addresses agree modulo 4 KiB make loads wait for unrelated stores, and elsewhere that would be up to
    chance.
    """
    if total <= _ON_STACK:
        return [f"  %scratch = alloca double, i64 {total}, align 64", "  br label %entry", "entry:"]
    return [
        f"  %raw = call ptr inttoptr (i64 {library_address('malloc')} to ptr)(i64 {8 * total + 64})",
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


def _block_lines(plan: Plan, width: int, part: str, blocks: str) -> list[str]:
    """One block: bring in, compute, take out; the tail moves fewer lanes, one by one."""
    packed = 8 * width
    lines: list[str] = []
    sizes_in, sizes_out = plan.block_sizes
    for kind, sizes in (("a", sizes_in), ("o", sizes_out)):
        if kind == "o":
            lines.append(f"  call void @core.{width}({blocks})")
        for index, size in enumerate(sizes):
            if not size:
                continue
            name = f"{kind}{index}"
            at = f"%{name}.{part}"
            lines.append(f"  {at}.off = mul i64 %i, %{name}.lane")
            lines.append(f"  {at} = getelementptr i8, ptr %{name}.base, i64 {at}.off")
            strides = f"i64 %{name}.lane, i64 %{name}.scalar"
            if part == "body":
                mover = "get" if kind == "a" else "put"
                lines.append(f"  call void @{mover}{index}(ptr {at}, {strides}, ptr %{name})")
            elif kind == "a":
                lines.append(
                    f"  call void @copy(ptr {at}, {strides}, ptr %{name}, i64 8, i64 {packed}, i64 {size}, "
                    f"i64 %last, i64 {width})"
                )
            else:
                lines.append(
                    f"  call void @copy(ptr %{name}, i64 8, i64 {packed}, ptr {at}, {strides}, i64 {size}, "
                    f"i64 %last, i64 %left)"
                )
    return lines


def tile_text(plan: Plan, width: int) -> str:
    """Return `@tile`: `blocks` packed blocks, with the unvarying outputs written only if `fill` is not 0."""
    function = plan.function
    lines = ["define void @tile(ptr %args, ptr %outs, ptr %u, i64 %blocks, i64 %fill) #0 {", "entry:"]
    bases: list[str] = []
    for table, kind, count in (("args", "a", len(function.arguments)), ("outs", "o", len(function.results))):
        for index in range(count):
            name = f"{kind}{index}.base"
            lines.append(f"  %{name}.p = getelementptr ptr, ptr %{table}, i64 {index}")
            lines.append(f"  %{name} = load ptr, ptr %{name}.p, align 8")
            bases.append(f"ptr %{name}")
    lines += [
        f"  call void @once({', '.join([*bases, 'ptr %u'])})",
        "  %filling = icmp ne i64 %fill, 0",
        "  br label %head",
        "head:",
        "  %i = phi i64 [ 0, %entry ], [ %i.next, %compute ]",
        "  %more = icmp slt i64 %i, %blocks",
        "  br i1 %more, label %body, label %done",
        "body:",
    ]
    here: list[str] = []
    for kind, sizes in zip("ao", plan.block_sizes):
        for index, size in enumerate(sizes):
            lines.append(f"  %{kind}{index}.off = mul i64 %i, {size * width}")
            lines.append(f"  %{kind}{index} = getelementptr double, ptr %{kind}{index}.base, i64 %{kind}{index}.off")
            here.append(f"ptr %{kind}{index}")
    call = ", ".join([*here, "ptr %u"])
    lines += [
        "  br i1 %filling, label %constant, label %compute",
        "constant:",
        f"  call void @fill.{width}({call})",
        "  br label %compute",
        "compute:",
        f"  call void @core.{width}({call})",
        "  %i.next = add i64 %i, 1",
        "  br label %head",
    ]
    return "\n".join([*lines, "done:", "  ret void", "}", ""])
