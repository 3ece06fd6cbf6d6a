"""Parts of generated C99 that checks its samples: tests by bits, flags, prototypes."""

from __future__ import annotations

from minidyn.control.sample_status import SampleStatus


def flag_values() -> dict[str, int]:
    """Return the flags' numbers, for templates."""
    chosen = ("NOT_FINITE", "OUT_OF_RANGE", "STUCK", "HELD", "NOT_WATCHING")
    return {name.lower(): int(SampleStatus[name]) for name in chosen}


def guarded_file(source: str, prototype: str, body: str) -> str:
    """Return C source with functions behind it, a prototype of the last and what they include."""
    head, mark, rest = source.partition("#include <math.h>")
    includes = "\n#include <stdint.h>\n#include <string.h>"
    return with_prototype(head, prototype) + mark + includes + rest + body


def with_prototype(header: str, prototype: str, instead: str | None = None) -> str:
    """Return a C header with one more prototype, or with one instead of the line with a name."""
    before, mark, after = header.rpartition("#ifdef __cplusplus\n}")
    if instead is not None:
        lines = before.split("\n")
        before = (
            "\n".join(line for line in lines if f"{instead}(" not in line).rstrip("\n") + "\n\n"
        )
    return f"{before}{prototype}\n\n{mark}{after}"
