"""Machine code for this computer, made at run time through llvmlite.

In order of reading: `host` (the machine), `text` (pieces of LLVM text), `sincos`, `schedule` (order of steps),
`core` (the tape as straight-line vector code), `squares` and `moves` (transposing), `rows` (the loop over a
batch), `single` (one sample), `builtin` (calls without Python in between), `arrays` (checks),
`threads`, `kernel` (what users of this package hold).
"""

from __future__ import annotations

from minidyn.graph.targets.native.builtin import called_by
from minidyn.graph.targets.native.kernel import NativeFunction, Recent, compile_function, is_compiled

__all__ = ["NativeFunction", "Recent", "called_by", "compile_function", "is_compiled"]
