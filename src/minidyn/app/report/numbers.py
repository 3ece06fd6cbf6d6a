"""Numbers as people read them: few digits, aligned, with units that belong to them."""

from __future__ import annotations

import math

from minidyn.model.drives import ROTOR, TERMS
from minidyn.model.joint import Joint

_SUPER = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def number(value: float | None, digits: int = 3) -> str:
    """Return a number with significant digits; powers of ten where it is very large or small; "–" where unknown."""
    if value is None or not math.isfinite(value):
        return "∞" if value is not None and math.isinf(value) and value > 0 else "–"
    if value == 0:
        return "0"
    size = math.floor(math.log10(abs(value)))
    if -4 <= size < 6:
        places = max(0, digits - 1 - size)
        shown = f"{value:.{places}f}"
        if float(shown) == 0.0:
            shown = shown.lstrip("-")
        return shown.replace("-", "−")
    mantissa, _, power = f"{value:.{digits - 1}e}".partition("e")
    return f"{mantissa} · 10{str(int(power)).translate(_SUPER)}".replace("-", "−")


def count(value: int) -> str:
    """Return a whole number with thin spaces between thousands."""
    return f"{value:,}".replace(",", "\u202f")


def percent(value: float, digits: int = 2) -> str:
    """Return a share as percent; whole numbers from 100 % on."""
    if not math.isfinite(value):
        return "–"
    shown = 100 * value
    if abs(shown) >= 1000:
        return "> 1000 %"
    return f"{number(shown, max(digits, len(str(int(abs(shown))))))} %"


def with_error(value: float, error: float) -> tuple[str, str]:
    """Return (value, error) with as many decimals as two digits of the error need."""
    if not (math.isfinite(value) and math.isfinite(error)) or error <= 0:
        return number(value, 4), number(error, 2)
    places = min(9, max(0, 1 - math.floor(math.log10(error))))
    if abs(value) >= 1e6 or places == 9:
        return number(value, 4), number(error, 2)
    return fixed(value, places), f"{error:.{places}f}"


def fixed(value: float, places: int) -> str:
    """Return a number with so many decimals; zero has no sign."""
    shown = f"{value:.{places}f}"
    return (shown.lstrip("-") if float(shown) == 0.0 else shown).replace("-", "−")


def torque_unit(joint: Joint) -> str:
    """Return the unit of a joint's torque."""
    return "N" if joint.slides else "N·m"


def unit_of(symbol: str, joint: Joint) -> str:
    """Return the unit of a standard parameter by its symbol; empty where there is no common one."""
    if symbol in ("MX", "MY", "MZ"):
        return "kg·m"
    if symbol == "M":
        return "kg"
    if len(symbol) == 2 and set(symbol) <= set("XYZ"):
        return "kg·m²"
    unit = "kg m²" if symbol == ROTOR else next((term.unit for term in TERMS.values() if term.symbol == symbol), "")
    if joint.slides:
        unit = unit.replace("kg m²", "kg").replace("N m", "N").replace("rad", "m")
    return unit.replace(" ", "·")
