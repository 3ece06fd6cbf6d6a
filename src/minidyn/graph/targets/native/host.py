"""The machine we run on: its vector width, LLVM text turned into machine code, and the sines it has
no instruction for.

llvmlite is imported inside the functions, so that importing minidyn costs nothing until a kernel is
compiled. Where it is not installed (there is no wheel for every machine) users of this package
compute with NumPy: `has_compiler` says so.

Sine and cosine of a vector of angles: one reduction by a multiple of pi/2 (three parts, each
subtraction fused), two polynomials on [-pi/4, pi/4] (the coefficients of fdlibm; fused steps make
its corrections of the cosine unnecessary), then exchange and sign by the quadrant. Every multiple
of the first part that occurs is subtracted without rounding, so close to multiples of pi/2 nothing
is lost. Lanes beyond LIMIT, where the three parts run out of digits, are computed one by one by the
C library; the branch costs nothing when there are none. NaN passes through, infinity gives NaN.
"""

from __future__ import annotations

import ctypes
import os
import re
import struct
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass
from functools import cache
from typing import Any

from minidyn.arrays import Array
from minidyn.errors import Unsupported
from minidyn.graph.targets.native import disk
from minidyn.notices import Notice, info

NO_COMPILER = info(
    "machine.no_compiler",
    "llvmlite is not installed, so nothing is compiled: NumPy computes the same numbers, many "
    "times slower.",
    "Install llvmlite: pip install llvmlite.",
)

_LOCK = threading.Lock()  # LLVM's global context is not safe to use from two threads at once


@dataclass(frozen=True)
class Host:
    """What code generation needs to know of the machine."""

    triple: str  # LLVM's name of the platform
    cpu: str  # LLVM's name of the processor
    features: str  # the processor's features as LLVM takes them
    width: int  # doubles in one vector register: 8 (AVX-512), 4 (AVX2) or 2 (SSE2, NEON)
    # whether multiply-add is one instruction; without it the vector sine would be wrong and is not
    # used
    fused: bool


@cache
def has_compiler() -> bool:
    """Whether machine code can be made here: llvmlite is installed and loads (asked once)."""
    try:
        import llvmlite.binding  # noqa: F401
    except (ImportError, OSError):
        return False
    return True


def slow_notices() -> list[Notice]:
    """Return the notice that nothing is compiled here; none where there is a compiler."""
    return (
        []
        if has_compiler()
        else [NO_COMPILER("llvmlite is not installed: NumPy computes, many times slower")]
    )


@cache
def host() -> Host:
    """Return what is known of the machine (asked once).

    Without a compiler nothing is, and widths are 8.
    """
    if not has_compiler():
        return Host("", "", "", 8, False)
    import llvmlite.binding as llvm

    triple = llvm.get_process_triple()
    features = llvm.get_host_cpu_features()
    arm = triple.startswith(("aarch64", "arm64"))
    wide = all(features.get(name) for name in ("avx512f", "avx512dq", "avx512vl"))
    width = 8 if wide else 4 if features.get("avx2") else 2
    fused = bool(arm or features.get("fma"))
    return Host(triple, llvm.get_host_cpu_name(), features.flatten(), width, fused)


@cache
def library_address(name: str) -> int:
    """Return the address of a function of the C mathematics library.

    Generated code calls it by its number: the function may lie further away than a short call
    reaches.
    """
    if has_compiler():
        import llvmlite.binding as llvm

        address = llvm.address_of_symbol(name)
        if address:
            return int(address)
    for library in (None, "libm.so.6", "libSystem.dylib", "ucrtbase.dll", "msvcrt.dll"):
        try:
            found = getattr(ctypes.CDLL(library), name)
        except (OSError, AttributeError, TypeError):
            continue
        value = ctypes.cast(found, ctypes.c_void_p).value
        if value:
            return value
    raise Unsupported(f"the C library's function {name!r} was not found in this process")


_LIBRARY = {
    "sin": "double @sin(double)",
    "cos": "double @cos(double)",
    "atan2": "double @atan2(double, double)",
    "malloc": "ptr @malloc(i64)",
    "free": "void @free(ptr)",
    "memcpy": "ptr @memcpy(ptr, ptr, i64)",
    "memcmp": "i32 @memcmp(ptr, ptr, i64)",
}
"""Functions of the C library that generated code calls, with their types."""


def outside(name: str, kind: str = "ptr", to: str = "") -> str:
    """Return the load of the address of something outside the module into `%NAME.at`, or `%to`.

    What `name` may be: a function of the C library, or an object that the caller of `compile_text`
    gives the address of. The text names it and holds no address, which would be another one in
    each process; the loader fills the word that is read here.
    """
    return f"  %{to or name + '.at'} = load {kind}, ptr @at.{name}, align 8"


def linked(text: str) -> str:
    """Return a module's text complete with what it uses of the outside, by name.

    An address is a word of data: it may lie anywhere, while a direct call reaches 2 GB (128 MB on
    ARM).
    """
    for name in sorted(set(re.findall(r"@at\.(\w+)", text))):
        if name in _LIBRARY:
            text += f"@at.{name} = internal global ptr @{name}\ndeclare {_LIBRARY[name]}\n"
        else:
            text += f"@at.{name} = internal global ptr @{_symbol(name)}\n"
            text += f"@{_symbol(name)} = external global i8\n"
    return text


def _symbol(name: str) -> str:
    return name if name in _LIBRARY else f"minidyn.{name}"


@cache
def _announce(name: str, address: int) -> None:
    """Tell the loader where something outside is."""
    import llvmlite.binding as llvm

    llvm.add_symbol(_symbol(name), address)


@dataclass(frozen=True)
class Code:
    """Machine code in memory: addresses by name, valid as long as this object lives."""

    addresses: dict[str, int]
    engine: Any


@cache
def _target() -> Any:
    import llvmlite.binding as llvm

    if llvm.llvm_version_info[0] < 20:  # later versions do it on import and refuse to be asked
        llvm.initialize()
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    suffix = (
        "-elf" if os.name == "nt" else ""
    )  # on Windows the run-time linker reads this format only
    return llvm.Target.from_triple(host().triple + suffix)


COUNTS: Counter[str] = Counter()
"""How often in this process machine code was "compiled", and how often "loaded" from disk."""


def compile_text(
    text: str | Callable[[], str],
    names: tuple[str, ...],
    *,
    key: str | None = None,
    given: Mapping[str, int] | None = None,
) -> Code:
    """Return the addresses of the functions `names` of LLVM IR text, compiled now or earlier.

    Machine code is kept on disk between processes (see :mod:`minidyn.graph.targets.native.disk`)
    under a hash of all that decides it: the text, this package's code, LLVM's version and the
    processor. `key` says in few words what the text is; then the text is a function that is called
    only where the code is not on disk. `given` are addresses of objects that it reads by
    `outside`.

    No IR pass is run: the recorder has already folded and shared everything, and the rest of the
    text is written the way it should come out. The small code model reaches constants relative to
    the instruction pointer (the default for run-time code loads a 64-bit address for each);
    llvmlite's own memory manager keeps the sections close enough.
    """
    import llvmlite
    import llvmlite.binding as llvm

    parts = (llvmlite.__version__, llvm.llvm_version_info, *astuple(host()))
    kind, value = ("text", str(text)) if key is None else ("key", key)
    file = disk.name_of(*map(str, parts), kind, value)
    with _LOCK:
        for name in _LIBRARY:
            _announce(name, library_address(name))
        for name, address in (given or {}).items():
            _announce(name, address)
        stored = disk.read(file)
        if stored is None:
            whole = linked(text if isinstance(text, str) else text())
            stored = bytes(_machine().emit_object(llvm.parse_assembly(whole)))
            COUNTS["compiled"] += 1
            disk.write(file, stored)
        else:
            COUNTS["loaded"] += 1
        engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), _machine(), use_lmm=True)
        engine.add_object_file(llvm.ObjectFileRef.from_data(stored))
        engine.finalize_object()
        return Code({name: int(engine.get_function_address(name)) for name in names}, engine)


def _machine() -> Any:
    """Return LLVM's description of this machine; each engine takes one for itself."""
    here = host()
    return _target().create_target_machine(
        cpu=here.cpu, features=here.features, opt=1, reloc="pic", codemodel="small", jit=True
    )


FLAGS = "contract nsz"
"""Fast-math flags of the arithmetic: fusing is welcome, but NaN and infinity must survive."""

FOOTER = """
attributes #0 = { nounwind "prefer-vector-width"="512" }
!0 = !{!"branch_weights", i32 1, i32 1000000}
!1 = !{i32 1}
"""
"""End of every module.

LLVM would use half the register on some processors; !0 marks a rare branch.
"""


def vector(width: int, element: str = "double") -> str:
    """Return the LLVM type of `width` numbers; one number is a plain scalar."""
    return element if width == 1 else f"<{width} x {element}>"


def suffix(width: int) -> str:
    """Return the ending of an intrinsic's name for this many doubles."""
    return "f64" if width == 1 else f"v{width}f64"


def double(value: float) -> str:
    """Return a double as LLVM reads it without rounding: its bits."""
    return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"


def splat(value: float, width: int) -> str:
    """Return the constant with `value` in every lane.

    A double, or a 64-bit integer or a truth value.
    """
    kind = {bool: "i1", int: "i64"}.get(type(value), "double")
    text = double(value) if kind == "double" else str(value).lower()
    return text if width == 1 else "<" + ", ".join([f"{kind} {text}"] * width) + ">"


def joined(lines: Iterable[str]) -> str:
    """Return lines as text."""
    return "\n".join(lines)


def all_of(name: str, *conditions: str) -> list[str]:
    """Return the lines that compute whether all conditions hold.

    Each an `icmp` without its name.
    """
    lines = [f"  %{name}.0 = icmp {conditions[0]}"]
    for k, condition in enumerate(conditions[1:], 1):
        lines += [
            f"  %{name}.c{k} = icmp {condition}",
            f"  %{name}.{k} = and i1 %{name}.{k - 1}, %{name}.c{k}",
        ]
    return [*lines, f"  %{name} = and i1 %{name}.{len(conditions) - 1}, true"]


def loads(table: str, names: Iterable[str]) -> list[str]:
    """Return the loads of one 64-bit word after the other from a table.

    Names with their type, as "ptr a0.base".
    """
    return [
        word(name, table, place, kind)
        for place, (kind, name) in enumerate(each.split() for each in names)
    ]


def word(name: str, table: str, index: int | str, kind: str = "i64") -> str:
    """Return the load of one of a row of 64-bit words."""
    place = f"%{name}.p"
    return (
        f"  {place} = getelementptr i64, ptr %{table}, i64 {index}\n"
        f"  %{name} = load {kind}, ptr {place}, align 8"
    )


def block_at(name: str, base: str, index: str, size: int) -> list[str]:
    """Return the address of block number `index` of `size` doubles."""
    return [
        f"  %{name}.off = mul i64 %{index}, {size}",
        f"  %{name} = getelementptr double, ptr %{base}, i64 %{name}.off",
    ]


def vector_at(name: str, base: str, offset: int, width: int) -> list[str]:
    """Return the load of a whole vector at a constant offset in doubles."""
    return [
        f"  %{name}.p = getelementptr double, ptr %{base}, i64 {offset}",
        f"  %{name} = load {vector(width)}, ptr %{name}.p, align {8 * width}",
    ]


def spread(name: str, base: str, offset: int, width: int) -> list[str]:
    """Return the load of one number into every lane (the processor does it while loading)."""
    if width == 1:
        return vector_at(name, base, offset, 1)
    real = vector(width)
    return [
        f"  %{name}.p = getelementptr double, ptr %{base}, i64 {offset}",
        f"  %{name}.s = load double, ptr %{name}.p, align 8",
        f"  %{name}.i = insertelement {real} undef, double %{name}.s, i32 0",
        (
            f"  %{name} = shufflevector {real} %{name}.i, {real} undef, <{width} x i32> "
            "zeroinitializer"
        ),
    ]


def loop_end(name: str, by: int, end: int | str, again: str, done: str) -> str:
    """Return the end of a loop.

    %name.next is so much more, and while it is below the end the loop runs again.
    """
    return f"""  %{name}.next = add i64 %{name}, {by}
  %{name}.left = icmp slt i64 %{name}.next, {end}
  br i1 %{name}.left, label %{again}, label %{done}"""


def shuffle(mask: Sequence[int]) -> str:
    """Return the mask operand of a shufflevector."""
    return f"<{len(mask)} x i32> <" + ", ".join(f"i32 {lane}" for lane in mask) + ">"


LIMIT = 1.0e5
"""Largest angle (radians) reduced in vector code."""

_TWO_OVER_PI = 0.6366197723675814
_PARTS = (1.5707963267948966, 6.123233995736766e-17, -1.4973849048591698e-33)  # pi/2 to 160 bits
# 1.5 * 2**52: adding it rounds to an integer, which then sits in the low bits
_ROUND = 6755399441055744.0
_SINE = (
    *(-1.66666666666666324348e-01, 8.33333333332248946124e-03, -1.98412698298579493134e-04),
    *(2.75573137070700676789e-06, -2.50507602534068634195e-08, 1.58969099521155010221e-10),
)
_COSINE = (
    *(
        1.0,
        -0.5,
        4.16666666666666019037e-02,
        -1.38888888888741095749e-03,
        2.48015872894767294178e-05,
    ),
    *(-2.75573143513906633035e-07, 2.08757232129817482790e-09, -1.13596475577881948265e-11),
)


def sincos_text(width: int) -> str:
    """Return the LLVM function `@sincos.<width>`: a vector of angles to {sines, cosines}."""
    return _far_text(width) + (_fast_text(width) if host().fused else _forward_text(width))


def _forward_text(width: int) -> str:
    """Without a fused multiply-add the reduction would round: leave every lane to the C library."""
    real = vector(width)
    return f"""
define internal {{ {real}, {real} }} @sincos.{width}({real} %x) noinline #0 {{
  %r = call {{ {real}, {real} }} @sincos.far.{width}({real} %x, {vector(width, "i1")} {splat(True, width)}, \
{{ {real}, {real} }} undef)
  ret {{ {real}, {real} }} %r
}}
"""  # noqa: E501


def _horner(lines: list[str], name: str, coefficients: tuple[float, ...], width: int) -> str:
    """Append the polynomial in %z by Horner's rule with fused steps; return the value's name."""
    real = vector(width)
    value = splat(coefficients[-1], width)
    for step, coefficient in enumerate(reversed(coefficients[:-1])):
        lines.append(
            f"  %{name}{step} = call {real} @llvm.fma.{suffix(width)}"
            f"({real} {value}, {real} %z, {real} {splat(coefficient, width)})"
        )
        value = f"%{name}{step}"
    return value


def _fast_text(width: int) -> str:
    real, whole, bit = vector(width), vector(width, "i64"), vector(width, "i1")
    kind = suffix(width)
    fma = f"call {real} @llvm.fma.{kind}"

    def number(value: float) -> str:
        return f"{real} {splat(value, width)}"

    lines = [
        f"declare {real} @llvm.fma.{kind}({real}, {real}, {real})",
        f"declare {real} @llvm.fabs.{kind}({real})",
        f"define internal {{ {real}, {real} }} @sincos.{width}({real} %x) noinline #0 {{",
        f"  %a = call {real} @llvm.fabs.{kind}({real} %x)",
        f"  %large = fcmp ogt {real} %a, {splat(LIMIT, width)}",
    ]
    lines += [
        f"  %bits = bitcast {bit} %large to i{width}",
        f"  %any = icmp ne i{width} %bits, 0",
        f"  %t = {fma}({real} %a, {number(_TWO_OVER_PI)}, {number(_ROUND)})",
        f"  %n = fsub {real} %t, {splat(_ROUND, width)}",
        f"  %k = bitcast {real} %t to {whole}",
        f"  %m = fneg {real} %n",
    ]
    rest = "%a"
    for index, part in enumerate(_PARTS):
        lines.append(f"  %r{index} = {fma}({real} %m, {number(part)}, {real} {rest})")
        rest = f"%r{index}"
    lines.append(f"  %z = fmul {real} {rest}, {rest}")
    sine = _horner(lines, "s", _SINE, width)
    cosine = _horner(lines, "c", _COSINE, width)
    lines += [
        f"  %rz = fmul {real} {rest}, %z",
        f"  %sin = {fma}({real} %rz, {real} {sine}, {real} {rest})",
        f"  %odd = and {whole} %k, {splat(1, width)}",
        f"  %swap = icmp ne {whole} %odd, {splat(0, width)}",
        f"  %s.raw = select {bit} %swap, {real} {cosine}, {real} %sin",
        f"  %c.raw = select {bit} %swap, {real} %sin, {real} {cosine}",
        # bit 1 of the quadrant becomes the sign of the sine,
        f"  %k.62 = shl {whole} %k, {splat(62, width)}",
        f"  %half = and {whole} %k.62, {splat(-(2**63), width)}",
        f"  %k.63 = shl {whole} %k, {splat(63, width)}",  # bits 1 and 0 together that of the cosine
        f"  %c.turn = xor {whole} %half, %k.63",
        f"  %x.bits = bitcast {real} %x to {whole}",
        f"  %x.sign = and {whole} %x.bits, {splat(-(2**63), width)}",
        f"  %s.sign = xor {whole} %half, %x.sign",
        f"  %s.bits = bitcast {real} %s.raw to {whole}",
        f"  %s.out = xor {whole} %s.bits, %s.sign",
        f"  %c.bits = bitcast {real} %c.raw to {whole}",
        f"  %c.out = xor {whole} %c.bits, %c.turn",
        f"  %s.value = bitcast {whole} %s.out to {real}",
        f"  %c.value = bitcast {whole} %c.out to {real}",
        f"  %p = insertvalue {{ {real}, {real} }} undef, {real} %s.value, 0",
        f"  %q = insertvalue {{ {real}, {real} }} %p, {real} %c.value, 1",
        "  br i1 %any, label %slow, label %done, !prof !0",
        "slow:",
        (
            f"  %far = call {{ {real}, {real} }} @sincos.far.{width}({real} %x, {bit} %large, {{ "
            f"{real}, {real} }} %q)"
        ),
        f"  ret {{ {real}, {real} }} %far",
        "done:",
        f"  ret {{ {real}, {real} }} %q",
        "}",
    ]
    return "\n".join(lines) + "\n"


def _far_text(width: int) -> str:
    """The lanes marked, one after the other through the C library: slow and right for every angle.

    The other lanes keep what they have, to the last bit: a sample's result must not depend on its
    neighbours.
    """
    real, pair, bit = vector(width), f"{{ {vector(width)}, {vector(width)} }}", vector(width, "i1")
    lines = [
        (
            f"define internal {pair} @sincos.far.{width}({real} %x, {bit} %far, {pair} %near) "
            "noinline cold #0 {"
        )
    ]
    for place, name in enumerate(("sin", "cos")):
        lines.append(f"  %{name}.near = extractvalue {pair} %near, {place}")
        value = _by_lanes(lines, name, ("x",), width)
        lines.append(f"  %{name} = select {bit} %far, {real} {value}, {real} %{name}.near")
    lines.append(f"  %p = insertvalue {pair} undef, {real} %sin, 0")
    lines.append(f"  %q = insertvalue {pair} %p, {real} %cos, 1")
    return joined([*lines, f"  ret {pair} %q", "}", ""])


def atan2_text(width: int) -> str:
    """Return the LLVM function `@atan2.<width>`.

    The C library's, lane by lane (it is rare in kernels).
    """
    real = vector(width)
    lines = [f"define internal {real} @atan2.{width}({real} %y, {real} %x) noinline #0 {{"]
    value = _by_lanes(lines, "atan2", ("y", "x"), width)
    return joined([*lines, f"  ret {real} {value}", "}", ""])


def _by_lanes(lines: list[str], name: str, operands: tuple[str, ...], width: int) -> str:
    """Append calls of a function of the C library, one for each lane.

    Return the name of the vector of results.
    """
    real, value = vector(width), "undef"
    lines.append(outside(name))
    for lane in range(width):
        given = [
            f"%{operand}" if width == 1 else f"%{name}.{operand}{lane}" for operand in operands
        ]
        if width > 1:
            lines += [
                f"  {one} = extractelement {real} %{x}, i32 {lane}"
                for one, x in zip(given, operands)
            ]
        call = f"call double %{name}.at"
        lines.append(f"  %{name}.v{lane} = {call}({', '.join(f'double {one}' for one in given)})")
        if width == 1:
            return f"%{name}.v0"
        lines.append(
            f"  %{name}.w{lane} = insertelement {real} {value}, double %{name}.v{lane}, i32 {lane}"
        )
        value = f"%{name}.w{lane}"
    return value


def pointer_table(arrays: Sequence[Array | None]) -> ctypes.Array[ctypes.c_void_p]:
    """Return the addresses of arrays as machine code takes them; null for None."""
    addresses = [
        None if array is None else array.__array_interface__["data"][0] for array in arrays
    ]
    return (ctypes.c_void_p * len(addresses))(*addresses)
