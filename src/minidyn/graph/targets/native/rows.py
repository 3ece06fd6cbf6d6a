"""From arrays as users have them to blocks and back: the loop over a batch.

`@rows(descriptor, begin, end, total)` computes samples begin to end of a batch of `total`. The descriptor
holds three 64-bit numbers for each argument and then each result: address, bytes from sample to sample, bytes
from scalar to scalar. Per block of `width` samples the inputs are transposed into a scratch block, the block
is computed, and the outputs are transposed into the result, all within the first-level cache
(:mod:`minidyn.graph.targets.native.moves`). Results larger than the caches go to memory past them.

`@tile(arguments, results, u, blocks, fill)` leaves the transposing out: packed blocks in, packed blocks out.
"""

from __future__ import annotations

from minidyn.graph.targets.native.core import Plan
from minidyn.graph.targets.native.host import library_address

_LINE = 8  # doubles in a cache line: every block starts on one
_STREAM_BYTES = 12 << 20  # from here on past the caches is quicker, even where the result is read again soon
_STREAM_SIZE = 32  # fewer scalars per sample are not worth staging
_ON_STACK = 8192  # doubles of blocks kept on the stack (64 KiB); more come from the heap


def scratch_layout(plan: Plan, width: int) -> tuple[list[int], list[int], int, int, int]:
    """Return offsets (in doubles) of argument blocks, result blocks, staged rows and u, and the size of all."""
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


def rows_text(plan: Plan, width: int) -> str:
    """Return `@rows`, the loop over samples."""
    at_in, at_out, at_staged, at_u, total = scratch_layout(plan, width)
    arguments, results = plan.function.arguments, plan.function.results
    lines = ["define i32 @rows(ptr %d, i64 %begin, i64 %end, i64 %total) #0 {", *_scratch_lines(total)]
    names = [f"a{index}" for index in range(len(arguments))] + [f"o{index}" for index in range(len(results))]
    for place, name in enumerate(names):
        for field, word in enumerate(("base", "lane", "scalar")):
            kind = "ptr" if word == "base" else "i64"
            lines.append(f"  %{name}.{word}.p = getelementptr i64, ptr %d, i64 {3 * place + field}")
            lines.append(f"  %{name}.{word} = load {kind}, ptr %{name}.{word}.p, align 8")
    for name, offset in zip([*names, "staged", "u"], [*at_in, *at_out, at_staged, at_u]):
        lines.append(f"  %{name} = getelementptr double, ptr %scratch, i64 {offset}")
    blocks = ", ".join(f"ptr %{name}" for name in [*names, "u"])
    raw = [f"a{k}.base" if argument.uniform else f"a{k}" for k, argument in enumerate(arguments)]
    bases = ", ".join(f"ptr %{name}" for name in [*raw, *names[len(arguments) :], "u"])
    lines.append("  %count = sub i64 %end, %begin")
    for index, size in enumerate(plan.block_sizes[1]):
        if size >= _STREAM_SIZE:
            lines += _streaming_lines(f"o{index}", size)
    lines += [
        f"  call void @once({bases})",
        f"  call void @fill.{width}({blocks})",
        "  br label %head",
        "head:",
        "  %from = phi i64 [ %begin, %entry ], [ %i.next, %latch ]",
        "  %left = sub i64 %end, %from",
        f"  %full = icmp sge i64 %left, {width}",
        "  br i1 %full, label %body, label %rest",
        "rest:",
        "  %some = icmp sgt i64 %left, 0",
        "  br i1 %some, label %which, label %done",
        "which:",  # the last full block once more, shifted back to end with the last sample, or fewer lanes
        f"  %back = sub i64 %end, {width}",
        f"  %room = icmp sge i64 %count, {width}",
        "  br i1 %room, label %body, label %tail",
        "body:",
        "  %i = phi i64 [ %from, %head ], [ %back, %which ]",
        f"  %i.next = add i64 %i, {width}",
    ]
    for part in ("body", "tail"):
        if part == "tail":
            lines += ["tail:", "  %last = sub i64 %left, 1"]
        lines += _block_lines(plan, width, part, blocks)
        if part == "body":
            lines += ["  br label %latch", "latch:", "  br label %head"]
    lines.append("  br label %done")
    lines += ["done:", "  fence seq_cst"] if at_u > at_staged else ["done:"]
    if total > _ON_STACK:
        lines.append(f"  call void inttoptr (i64 {library_address('free')} to ptr)(ptr %raw)")
    return "\n".join([*lines, "  ret i32 0", "}", ""])


def _streaming_lines(name: str, size: int) -> list[str]:
    """Decide whether a result is written past the caches: it is packed row-major and larger than they are."""
    return [
        f"  %{name}.bytes = mul i64 %total, {8 * size}",
        f"  %{name}.large = icmp sgt i64 %{name}.bytes, {_STREAM_BYTES}",
        f"  %{name}.number = ptrtoint ptr %{name}.base to i64",
        f"  %{name}.odd = and i64 %{name}.number, 7",
        f"  %{name}.even = icmp eq i64 %{name}.odd, 0",
        f"  %{name}.packed = icmp eq i64 %{name}.lane, {8 * size}",
        f"  %{name}.row = icmp eq i64 %{name}.scalar, 8",
        f"  %{name}.ok1 = and i1 %{name}.large, %{name}.even",
        f"  %{name}.ok2 = and i1 %{name}.packed, %{name}.row",
        f"  %{name}.stream = and i1 %{name}.ok1, %{name}.ok2",
    ]


def _scratch_lines(total: int) -> list[str]:
    """Get room for the blocks.

    On the stack it costs nothing, is warm and belongs to this thread alone.
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
            lines.append(f"  {at}.off = mul i64 %{'i' if part == 'body' else 'from'}, %{name}.lane")
            lines.append(f"  {at} = getelementptr i8, ptr %{name}.base, i64 {at}.off")
            strides = f"i64 %{name}.lane, i64 %{name}.scalar"
            if part == "body" and kind == "o" and size >= _STREAM_SIZE:
                put = f"@put{index}(ptr"
                lines += [
                    f"  br i1 %{name}.stream, label %{name}.past, label %{name}.plain",
                    f"{name}.past:",
                    f"  call void {put} %staged, i64 {8 * size}, i64 8, ptr %{name})",
                    f"  call void @stream(ptr {at}, ptr %staged, i64 {size * width})",
                    f"  br label %{name}.moved",
                    f"{name}.plain:",
                    f"  call void {put} {at}, {strides}, ptr %{name})",
                    f"  br label %{name}.moved",
                    f"{name}.moved:",
                ]
            elif part == "body":
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
