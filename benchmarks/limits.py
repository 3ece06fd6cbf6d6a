"""What the machine can do at most, measured: multiply-adds per second, bytes per second.

And what a function needs.
"""

from __future__ import annotations

import ctypes
import importlib.metadata
import os
import platform
import shutil
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

import numpy as np

from minidyn.graph.function import Function
from minidyn.graph.targets.native.host import (
    FOOTER,
    Code,
    compile_text,
    host,
    sincos_text,
    splat,
    suffix,
    vector,
)
from timing import race

# independent multiply-adds in flight: more than latency times units of any machine, fewer than
# registers
_CHAINS = 12
_PACKAGES = ("numpy", "llvmlite", "pin", "casadi")


def machine() -> dict[str, object]:
    """Return what names the machine and the programs on it."""
    here = host()
    versions = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            versions[package] = "not installed"
    gcc = shutil.which("gcc")
    if gcc:
        text = subprocess.run(
            [gcc, "-dumpfullversion"], capture_output=True, text=True, check=True
        ).stdout
        versions["gcc"] = text.strip()
    return {
        "processor": f"{_processor()} ({here.cpu})",
        "cores": os.cpu_count(),
        "width": here.width,
        "load": round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None,
        "versions": versions,
    }


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


@cache
def _code() -> Code:
    real, width = vector(host().width), host().width
    return compile_text(
        _fma_text(real, width) + _write_text(real, width) + FOOTER, ("fma", "write")
    )


def spin(steps: int) -> float:
    """Compute multiply-adds and nothing else; returns a number that depends on all of them."""
    return float(ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_int64)(_code().addresses["fma"])(steps))


def twice(call: Callable[[int], object]) -> None:
    """Run call(0) and call(1) in two threads."""
    other = _POOL.submit(call, 1)
    call(0)
    other.result()


_POOL = ThreadPoolExecutor(1)


def limits(seconds: float) -> dict[str, float]:
    """Return the measured limits of one core.

    Flops (fused counted as two), write and read bytes per second. And what two cores write
    together, "write_two": memory is shared.
    """
    width = host().width
    fill = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_double)(
        _code().addresses["write"]
    )
    steps = 200_000
    assert spin(10) > 0.0
    room = np.zeros(64 << 17)  # 64 MiB: larger than the caches
    start = room.ctypes.data + -room.ctypes.data % 64
    lines = (room.size - 8) // (2 * width) * 2
    sink = np.zeros(1)

    def write(part: int, parts: int, value: float) -> None:
        fill(start + 8 * width * (lines // parts) * part, lines // parts, value)

    def read() -> None:
        sink[0] = room.sum()

    twice(lambda part: write(part, 2, 3.0))
    assert np.count_nonzero(room == 3.0) == lines * width
    work: dict[str, Callable[[], object]] = {
        "fma": lambda: spin(steps),
        "write": lambda: write(0, 1, 1.0),
        "write_two": lambda: twice(lambda part: write(part, 2, 2.0)),
        "read": read,
    }
    least = race(work, seconds)
    return {
        "flops": 2.0 * _CHAINS * width * steps / least["fma"],
        "write": 8.0 * lines * width / least["write"],
        "write_two": 8.0 * lines * width / least["write_two"],
        "read": 8.0 * room.size / least["read"],
    }


def _fma_text(real: str, width: int) -> str:
    """A loop of independent multiply-adds.

    Their sum is returned, so that all of them are needed.
    """
    name = f"@llvm.fma.{suffix(width)}"
    lines = [
        f"declare {real} {name}({real}, {real}, {real})",
        "define double @fma(i64 %steps) #0 {",
        "entry:",
        "  br label %loop",
        "loop:",
        "  %i = phi i64 [ 0, %entry ], [ %i.next, %loop ]",
    ]
    for k in range(_CHAINS):
        lines.append(f"  %x{k} = phi {real} [ {splat(1.0 + k, width)}, %entry ], [ %y{k}, %loop ]")
    half, one = splat(0.5, width), splat(1.0, width)
    lines += [
        f"  %y{k} = call {real} {name}({real} %x{k}, {real} {half}, {real} {one})"
        for k in range(_CHAINS)
    ]
    lines += [
        "  %i.next = add i64 %i, 1",
        "  %more = icmp slt i64 %i.next, %steps",
        "  br i1 %more, label %loop, label %done",
        "done:",
    ]
    total = "%y0"
    for k in range(1, _CHAINS):
        lines.append(f"  %t{k} = fadd {real} {total}, %y{k}")
        total = f"%t{k}"
    if width > 1:
        lines.append(f"  %first = extractelement {real} {total}, i32 0")
        total = "%first"
    return "\n".join([*lines, f"  ret double {total}", "}", ""])


def _write_text(real: str, width: int) -> str:
    """Fill memory with whole vectors past the caches."""
    return f"""
define void @write(ptr %to, i64 %count, double %value) #0 {{
entry:
  %v = insertelement {real} undef, double %value, i32 0
  %all = shufflevector {real} %v, {real} undef, <{width} x i32> zeroinitializer
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %i.next, %loop ]
  %at = mul i64 %i, {8 * width}
  %p = getelementptr i8, ptr %to, i64 %at
  store {real} %all, ptr %p, align {8 * width}, !nontemporal !1
  %i.next = add i64 %i, 1
  %more = icmp slt i64 %i.next, %count
  br i1 %more, label %loop, label %done
done:
  fence seq_cst
  ret void
}}
"""


def operations(function: Function) -> int:
    """Return additions and multiplications of one sample, those inside sine and cosine included."""
    counts = function.counts
    text = sincos_text(host().width)
    body = text[: text.index("slow:")] if "slow:" in text else text
    pair = 2 * body.count("@llvm.fma") + sum(
        body.count(f" = {op} ") for op in ("fmul", "fadd", "fsub")
    )
    return counts["mul"] + counts["add"] + counts["div"] + counts["sqrt"] + pair * counts["sincos"]


def moved_bytes(function: Function) -> tuple[int, int]:
    """Return the bytes one sample of a batch reads and writes."""
    read = sum(argument.size for argument in function.arguments if not argument.uniform)
    return 8 * read, 8 * sum(result.size for result in function.results)
