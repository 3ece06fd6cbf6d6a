"""Square transposes in registers: a few columns of `width` row-major samples to or from a packed block.

Each is one small function, called for every group of columns: code for all groups in a row would run no faster and
take longer to compile than the arithmetic.

- `@square.get.<columns>(rows, lane, block)` takes columns in,
- `@square.put.<columns>(rows, lane, block)` takes them out,
- `@square.same.<columns>(rows, lane, values)` writes constant columns: the same piece of row for every sample.
"""

from __future__ import annotations

from collections.abc import Sequence

from minidyn.graph.native.text import shuffle, vector

__all__ = ["squares_text"]


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
