"""Small pieces of LLVM text shared by the emitters: types, constants, masks."""

from __future__ import annotations

import struct
from collections.abc import Sequence

FLAGS = "contract nsz"
"""Fast-math flags of the arithmetic: fusing is welcome, but NaN and infinity must survive."""

FOOTER = """
attributes #0 = { nounwind "prefer-vector-width"="512" }
!0 = !{!"branch_weights", i32 1, i32 1000000}
!1 = !{i32 1}
"""
"""End of every module. LLVM would use half the register on some processors; !0 marks a rare branch."""


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
    """Return the constant with `value` in every lane."""
    text = double(value)
    return text if width == 1 else "<" + ", ".join([f"double {text}"] * width) + ">"


def splat_integer(value: int, width: int) -> str:
    """Return the 64-bit integer constant with `value` in every lane."""
    return str(value) if width == 1 else "<" + ", ".join([f"i64 {value}"] * width) + ">"


def splat_boolean(width: int) -> str:
    """Return the mask that selects every lane."""
    return "true" if width == 1 else "<" + ", ".join(["i1 true"] * width) + ">"


def shuffle(mask: Sequence[int]) -> str:
    """Return the mask operand of a shufflevector."""
    return f"<{len(mask)} x i32> <" + ", ".join(f"i32 {lane}" for lane in mask) + ">"
