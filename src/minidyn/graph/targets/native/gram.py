"""Products of columns in packed blocks: what a reduction of many rows to a triangle spends its time with.

A block holds `width` rows, each of its `columns` (a multiple of GROUP) one vector; blocks lie one after the other.

- `@gram(block, blocks, columns, sums)` adds the products of all pairs of columns to sums that are kept lane by lane:
  for each group of GROUP columns and each `across` columns from there on, GROUP * across vectors.
- `@divide(block, blocks, columns, factor, out)` divides the rows by an upper triangle, column by column: what it writes
  times the triangle is the rows, to rounding, whatever the triangle's condition (a product with an inverse would not
  do). `factor` holds, for each group of GROUP columns, the triangle's rows above and then its corner on the diagonal,
  GROUP numbers a row, with reciprocals on the diagonal. Up to four blocks are computed at once, so `out` has room for a
  multiple of four.
"""

from __future__ import annotations

from minidyn.graph.targets.native.text import FLAGS, splat, vector

GROUP = 4
"""Columns taken together: their products with as many others fill the registers."""


def across(width: int) -> int:
    """Return how many columns a group meets at once: processors with 256-bit vectors have half the registers."""
    return 2 if width == 4 else 4


def gram_text(width: int) -> str:
    """Return `@gram`."""
    real, step = vector(width), across(width)
    pairs = [(i, j) for i in range(GROUP) for j in range(step)]
    zero = splat(0.0, width)
    lines = [
        "define internal void @gram(ptr %block, i64 %blocks, i64 %columns, ptr %sums) noinline #0 {",
        "entry:",
        f"  %stride = mul i64 %columns, {width}",
        "  br label %group",
        "group:",
        "  %i = phi i64 [ 0, %entry ], [ %i.next, %group.end ]",
        "  %at = phi ptr [ %sums, %entry ], [ %at.next, %group.end ]",
        f"  %i.off = mul i64 %i, {width}",
        "  %left = getelementptr double, ptr %block, i64 %i.off",
        "  br label %pair",
        "pair:",
        "  %j = phi i64 [ %i, %group ], [ %j.next, %pair.end ]",
        "  %here = phi ptr [ %at, %group ], [ %at.next, %pair.end ]",
        f"  %j.off = mul i64 %j, {width}",
        "  %right = getelementptr double, ptr %block, i64 %j.off",
        "  br label %row",
        "row:",
        "  %b = phi i64 [ 0, %pair ], [ %b.next, %row ]",
        "  %l = phi ptr [ %left, %pair ], [ %l.next, %row ]",
        "  %r = phi ptr [ %right, %pair ], [ %r.next, %row ]",
    ]
    lines += [f"  %s{i}.{j} = phi {real} [ {zero}, %pair ], [ %n{i}.{j}, %row ]" for i, j in pairs]
    for name, pointer, count in (("x", "l", GROUP), ("y", "r", step)):
        for k in range(count):
            lines.append(f"  %{name}{k}.p = getelementptr double, ptr %{pointer}, i64 {k * width}")
            lines.append(f"  %{name}{k} = load {real}, ptr %{name}{k}.p, align {8 * width}")
    for i, j in pairs:
        lines.append(f"  %m{i}.{j} = fmul {FLAGS} {real} %x{i}, %y{j}")
        lines.append(f"  %n{i}.{j} = fadd {FLAGS} {real} %s{i}.{j}, %m{i}.{j}")
    lines += [
        "  %l.next = getelementptr double, ptr %l, i64 %stride",
        "  %r.next = getelementptr double, ptr %r, i64 %stride",
        "  %b.next = add i64 %b, 1",
        "  %rows.left = icmp slt i64 %b.next, %blocks",
        "  br i1 %rows.left, label %row, label %pair.end",
        "pair.end:",
    ]
    for place, (i, j) in enumerate(pairs):
        lines += [
            f"  %o{i}.{j}.p = getelementptr double, ptr %here, i64 {place * width}",
            f"  %o{i}.{j} = load {real}, ptr %o{i}.{j}.p, align {8 * width}",
            f"  %t{i}.{j} = fadd {FLAGS} {real} %o{i}.{j}, %n{i}.{j}",
            f"  store {real} %t{i}.{j}, ptr %o{i}.{j}.p, align {8 * width}",
        ]
    lines += [
        f"  %at.next = getelementptr double, ptr %here, i64 {len(pairs) * width}",
        f"  %j.next = add i64 %j, {step}",
        "  %pairs.left = icmp slt i64 %j.next, %columns",
        "  br i1 %pairs.left, label %pair, label %group.end",
        "group.end:",
        f"  %i.next = add i64 %i, {GROUP}",
        "  %groups.left = icmp slt i64 %i.next, %columns",
        "  br i1 %groups.left, label %group, label %done",
        "done:",
        "  ret void",
        "}",
        "",
    ]
    return "\n".join(lines)


def divide_text(width: int) -> str:
    """Return `@divide`."""
    real, step = vector(width), across(width)  # `step` blocks at once
    pairs = [(b, j) for b in range(step) for j in range(GROUP)]
    lines = [
        "define internal void @divide(ptr %block, i64 %blocks, i64 %columns, ptr %factor, ptr %out) noinline #0 {",
        "entry:",
        f"  %stride = mul i64 %columns, {width}",
        "  br label %few",
        "few:",
        "  %b = phi i64 [ 0, %entry ], [ %b.next, %few.end ]",
        "  %b.off = mul i64 %b, %stride",
        "  %from0 = getelementptr double, ptr %block, i64 %b.off",
        "  %to0 = getelementptr double, ptr %out, i64 %b.off",
    ]
    for k in range(1, step):
        lines.append(f"  %from{k} = getelementptr double, ptr %from{k - 1}, i64 %stride")
        lines.append(f"  %to{k} = getelementptr double, ptr %to{k - 1}, i64 %stride")
    lines += [
        "  br label %group",
        "group:",
        "  %j = phi i64 [ 0, %few ], [ %j.next, %corner ]",
        "  %u.first = phi ptr [ %factor, %few ], [ %u.next, %corner ]",
        f"  %j.next = add i64 %j, {GROUP}",
        f"  %j.off = mul i64 %j, {width}",
    ]
    for b, j in pairs:
        lines.append(f"  %w{b}.{j}.a = getelementptr double, ptr %from{b}, i64 %j.off")
        lines.append(f"  %w{b}.{j}.p = getelementptr double, ptr %w{b}.{j}.a, i64 {j * width}")
        lines.append(f"  %w{b}.{j} = load {real}, ptr %w{b}.{j}.p, align {8 * width}")
    lines += [
        "  %alone = icmp eq i64 %j, 0",
        "  br i1 %alone, label %corner, label %column",
        "column:",
        "  %k = phi i64 [ 0, %group ], [ %k.next, %column ]",
        "  %u = phi ptr [ %u.first, %group ], [ %u.after, %column ]",
    ]
    lines += [f"  %s{b}.{j} = phi {real} [ %w{b}.{j}, %group ], [ %n{b}.{j}, %column ]" for b, j in pairs]
    lines.append(f"  %k.off = mul i64 %k, {width}")
    for b in range(step):
        lines.append(f"  %x{b}.p = getelementptr double, ptr %to{b}, i64 %k.off")
        lines.append(f"  %x{b} = load {real}, ptr %x{b}.p, align {8 * width}")
    for j in range(GROUP):
        lines += _spread(f"u{j}", "u", j, width)
    for b, j in pairs:
        lines.append(f"  %m{b}.{j} = fmul {FLAGS} {real} %x{b}, %u{j}")
        lines.append(f"  %n{b}.{j} = fsub {FLAGS} {real} %s{b}.{j}, %m{b}.{j}")
    lines += [
        f"  %u.after = getelementptr double, ptr %u, i64 {GROUP}",
        "  %k.next = add i64 %k, 1",
        "  %columns.left = icmp slt i64 %k.next, %j",
        "  br i1 %columns.left, label %column, label %corner",
        "corner:",  # the triangle on the diagonal, with reciprocals of the diagonal
        "  %c = phi ptr [ %u.first, %group ], [ %u.after, %column ]",
    ]
    lines += [f"  %a{b}.{j}.0 = phi {real} [ %w{b}.{j}, %group ], [ %n{b}.{j}, %column ]" for b, j in pairs]
    for j in range(GROUP):
        for k in range(j + 1):
            lines += _spread(f"c{k}.{j}", "c", k * GROUP + j, width)
        for b in range(step):
            for k in range(j):
                lines.append(f"  %p{b}.{k}.{j} = fmul {FLAGS} {real} %v{b}.{k}, %c{k}.{j}")
                lines.append(f"  %a{b}.{j}.{k + 1} = fsub {FLAGS} {real} %a{b}.{j}.{k}, %p{b}.{k}.{j}")
            lines.append(f"  %v{b}.{j} = fmul {FLAGS} {real} %a{b}.{j}.{j}, %c{j}.{j}")
            lines.append(f"  %o{b}.{j}.a = getelementptr double, ptr %to{b}, i64 %j.off")
            lines.append(f"  %o{b}.{j}.p = getelementptr double, ptr %o{b}.{j}.a, i64 {j * width}")
            lines.append(f"  store {real} %v{b}.{j}, ptr %o{b}.{j}.p, align {8 * width}")
    lines += [
        f"  %u.next = getelementptr double, ptr %c, i64 {GROUP * GROUP}",
        "  %groups.left = icmp slt i64 %j.next, %columns",
        "  br i1 %groups.left, label %group, label %few.end",
        "few.end:",
        f"  %b.next = add i64 %b, {step}",
        "  %some.left = icmp slt i64 %b.next, %blocks",
        "  br i1 %some.left, label %few, label %done",
        "done:",
        "  ret void",
        "}",
        "",
    ]
    return "\n".join(lines)


def _spread(name: str, pointer: str, place: int, width: int) -> list[str]:
    """Load one number into all lanes."""
    real = vector(width)
    return [
        f"  %{name}.p = getelementptr double, ptr %{pointer}, i64 {place}",
        f"  %{name}.s = load double, ptr %{name}.p, align 8",
        f"  %{name}.i = insertelement {real} undef, double %{name}.s, i32 0",
        f"  %{name} = shufflevector {real} %{name}.i, {real} undef, <{width} x i32> zeroinitializer",
    ]
