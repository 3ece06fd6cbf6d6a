"""The machine we run on: its vector width, its C library's addresses, and LLVM text turned into machine code.

llvmlite is imported inside the functions, so that importing minidyn costs nothing until a kernel is compiled.
"""

from __future__ import annotations

import ctypes
import os
import threading
from dataclasses import dataclass
from functools import cache
from typing import Any

from minidyn.errors import Unsupported

_LOCK = threading.Lock()  # LLVM's global context is not safe to use from two threads at once


@dataclass(frozen=True)
class Host:
    """What code generation needs to know of the machine.

    Attributes:
        triple: LLVM's name of the platform.
        cpu: LLVM's name of the processor.
        features: The processor's features as LLVM takes them.
        width: Doubles in one vector register: 8 (AVX-512), 4 (AVX2) or 2 (SSE2, NEON).
        fused: Whether multiply-add is one instruction; without it the vector sine would be wrong, so it is
            not used.
    """

    triple: str
    cpu: str
    features: str
    width: int
    fused: bool


@cache
def host() -> Host:
    """Return the machine's description (asked once)."""
    import llvmlite.binding as llvm

    triple = llvm.get_process_triple()
    features = llvm.get_host_cpu_features()
    arm = triple.startswith(("aarch64", "arm64"))
    if features.get("avx512f") and features.get("avx512dq") and features.get("avx512vl"):
        width = 8
    elif features.get("avx2"):
        width = 4
    else:
        width = 2
    fused = bool(arm or features.get("fma"))
    return Host(triple, llvm.get_host_cpu_name(), features.flatten(), width, fused)


@cache
def library_address(name: str) -> int:
    """Return the address of a function of the C mathematics library.

    Generated code calls it by its number: the function may lie further away than a short call reaches.

    Raises:
        Unsupported: If no loaded library has it.
    """
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
    suffix = "-elf" if os.name == "nt" else ""  # on Windows the run-time linker reads this format only
    return llvm.Target.from_triple(host().triple + suffix)


def compile_text(text: str, names: tuple[str, ...], optimise: int = 1) -> Code:
    """Compile LLVM IR text and return the addresses of the functions `names`.

    No IR pass is run: the recorder has already folded and shared everything, and the rest of the text is
    written the way it should come out. The small code model reaches constants relative to the instruction
    pointer (the default for run-time code loads a 64-bit address for each); llvmlite's own memory manager
    keeps the sections close enough.
    """
    import llvmlite.binding as llvm

    with _LOCK:
        here = host()
        module = llvm.parse_assembly(text)
        machine = _target().create_target_machine(
            cpu=here.cpu, features=here.features, opt=optimise, reloc="pic", codemodel="small", jit=True
        )
        engine = llvm.create_mcjit_compiler(module, machine, use_lmm=True)
        engine.finalize_object()
        return Code({name: int(engine.get_function_address(name)) for name in names}, engine)
