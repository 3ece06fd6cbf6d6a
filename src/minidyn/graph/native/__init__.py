"""Machine code for this computer, made at run time through llvmlite.

In order of reading: `host` (the machine), `text` (pieces of LLVM text), `sincos`, `core` (the tape as
straight-line vector code), `rows` (batches: transposing, the loop), `single` (one sample from Python in 0.2
µs), `arrays` (checks), `threads`, `kernel` (what users of this package hold).
"""

from __future__ import annotations

from minidyn.graph.native.kernel import NativeFunction, compile_function

__all__ = ["NativeFunction", "compile_function"]
