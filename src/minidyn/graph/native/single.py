"""One sample: the same steps on plain numbers. A block of width one is an ordinary contiguous array."""

from __future__ import annotations

from minidyn.graph.native.core import Plan, core_text, fill_text, helper_text, once_text
from minidyn.graph.native.text import FOOTER

__all__ = ["single_text"]


def single_text(plan: Plan) -> str:
    """Return the module of `@single(arguments, results)`, which takes tables of pointers to arrays."""
    function = plan.function
    lines = ["define void @single(ptr %args, ptr %outs) #0 {"]
    names: list[str] = []
    for table, kind, count in (("args", "a", len(function.arguments)), ("outs", "o", len(function.results))):
        for index in range(count):
            name = f"{kind}{index}"
            lines.append(f"  %{name}.p = getelementptr ptr, ptr %{table}, i64 {index}")
            lines.append(f"  %{name} = load ptr, ptr %{name}.p, align 8")
            names.append(name)
    lines.append(f"  %u = alloca double, i64 {max(1, len(plan.slots))}, align 8")
    call = ", ".join(f"ptr %{name}" for name in [*names, "u"])
    lines += [f"  call void @{part}({call})" for part in ("once", "fill.1", "core.1")]
    entry = "\n".join([*lines, "  ret void", "}", ""])
    return helper_text(plan, 1) + once_text(plan) + fill_text(plan, 1) + core_text(plan, 1) + entry + FOOTER
