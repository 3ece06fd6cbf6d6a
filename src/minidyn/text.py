"""Text for people: foreign names made harmless, and numbers as they are read.

Names come from files and are not trusted: what would be acted upon (control characters, direction marks, markup) is
shown instead. Into generated code text of a user comes through `safe_identifier` and `safe_comment` alone: an
identifier keeps only letters, digits and underscores, a comment only characters that can neither end it nor continue it
on another line. `number`, `percent` and `count` are typeset, for pages; `plain_number` and `plain_percent` are for
terminals and Markdown.
"""

from __future__ import annotations

import keyword
import math
import re
import unicodedata
from collections.abc import Iterable

_HIDDEN = ("Cc", "Cf", "Cs", "Co", "Zl", "Zp")
"""Kinds of characters that are not seen but acted upon: control, direction marks, halves of pairs, line separators."""

LONGEST_NAME = 63  # characters C99 compares in an internal name
LONGEST_COMMENT = 200

# keywords of C and C++
_C_KEYWORDS = """
    alignas alignof and and_eq asm auto bitand bitor bool break case catch char char16_t char32_t char8_t class
    co_await co_return co_yield compl concept const const_cast consteval constexpr constinit continue decltype default
    delete do double dynamic_cast else enum explicit export extern false far float for friend goto if inline int long
    mutable namespace near new noexcept not not_eq nullptr operator or or_eq private protected public register
    reinterpret_cast requires restrict return short signed sizeof static static_assert static_cast struct switch
    template this thread_local throw true try typedef typeid typename typeof typeof_unqual union unsigned using virtual
    void volatile wchar_t while xor xor_eq
"""
# names generated Python uses, and what reads as syntax there
_PYTHON_NAMES = """
    match type case print exec np numpy jnp jax batch ValueError
"""
# macros of common headers, which would rewrite a name silently
_MACROS = """
    NULL EOF NAN INFINITY HUGE_VAL HUGE_VALF HUGE_VALL MAXFLOAT FP_NAN FP_INFINITE FP_ZERO FP_NORMAL I errno assert
    unix linux i386 isnan isinf isfinite isnormal signbit fpclassify isgreater isless isunordered M_E M_PI OVERFLOW
    UNDERFLOW DOMAIN SING
"""
# functions of the C library: one of ours with that name would clash with the compiler's own
_LIBRARY = """
    main exit abort abs labs llabs div ldiv atoi atof atol malloc calloc realloc free printf puts putchar scanf memcpy
    memset memmove memcmp strlen strcpy strcat strcmp index rindex ffs bcmp bcopy bzero signal time clock rand srand
    qsort bsearch getenv system remove rename read write open close link acos asin atan atan2 cos sin tan cosh sinh
    tanh acosh asinh atanh exp exp2 exp10 expm1 frexp ldexp log log10 log1p log2 logb ilogb modf scalbn scalbln cbrt
    fabs hypot pow pow10 sqrt erf erfc lgamma tgamma gamma ceil floor nearbyint rint lrint llrint round lround llround
    trunc fmod remainder remquo drem copysign nan nextafter nexttoward fdim fmax fmin fma sincos significand scalb j0
    j1 jn y0 y1 yn cabs carg cexp cimag clog conj cpow cproj creal csin ccos csqrt ctan
"""
# names that generated CUDA uses
_CUDA = """
    threadIdx blockIdx blockDim gridDim warpSize md_real md_sign md_flush md_pitch md_count md_one md_i md_k md_live
    md_stage md_lane md_warp md_row md_left md_step
"""
_MACRO = re.compile(r"(M|FP|HUGE|MATH)_([A-Z0-9]+_)*[A-Z0-9]+")
_RESERVED = frozenset(keyword.kwlist).union(
    _C_KEYWORDS.split(), _PYTHON_NAMES.split(), _MACROS.split(), _LIBRARY.split(), _CUDA.split()
)

_SUPER = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


# -------------------------------------------------------------------- foreign text


def plain(text: object, keep: str = "\n\t") -> str:
    """Return foreign text with characters that would be acted upon shown as codes; those in `keep` stay."""
    shown = str(text)
    if shown.isascii() and shown.isprintable():  # nearly always
        return shown
    return "".join(
        character
        if character in keep or unicodedata.category(character) not in _HIDDEN
        else character.encode("unicode_escape").decode()
        for character in shown
    )


def visible(text: object) -> str:
    """Return foreign text on one line, with characters that would be acted upon shown as codes."""
    return plain(text, keep="")


def short(text: object, length: int = 24) -> str:
    """Return foreign text on one line, cut to a length."""
    shown = visible(text)
    return shown if len(shown) <= length else shown[: length - 1] + "…"


def markdown_cell(text: object) -> str:
    """Return `text` as one line of Markdown, for tables too: no HTML, links or cells of its own.

    Underscores stay as they are: inside words they mean nothing, and names with them are to be read on terminals.
    """
    shown = visible(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return "".join("\\" + c if c in "\\`*[]|!" else c for c in shown)


def plot_label(text: object, length: int = 60) -> str:
    """Return foreign text for matplotlib, which reads text between dollars as a formula."""
    return "".join(c if c.isprintable() else "?" for c in str(text))[:length].replace("$", r"\$")


# -------------------------------------------------------------------- names in generated code


def safe_identifier(text: str, taken: Iterable[str] = ()) -> str:
    """Return an identifier valid in C, C++ and Python that resembles `text` and is not among `taken`.

    Text that is already safe comes back unchanged. Otherwise accents are dropped, runs of other characters become one
    underscore, keywords and library names get a trailing underscore, and a name already taken gets a number. It has at
    most 63 characters of ``[A-Za-z0-9_]``, starts with a letter and has no two underscores in a row.
    """
    plain = unicodedata.normalize("NFKD", text[: 4 * LONGEST_NAME]).encode("ascii", "ignore").decode()
    name = re.sub(r"[^A-Za-z0-9]+", "_", plain).lstrip("_")[:LONGEST_NAME]
    if not name or not name[0].isalpha():
        name = ("x" + name)[:LONGEST_NAME]
    if name in _RESERVED or _MACRO.fullmatch(name):
        name = name[: LONGEST_NAME - 1].rstrip("_") + "_"
    used = frozenset(taken)
    candidate, number = name, 2
    while candidate in used:
        suffix = f"_v{number}"  # "_2" could make a library's M_PI_2 of M_PI
        candidate = name[: LONGEST_NAME - len(suffix)].rstrip("_") + suffix
        number += 1
    return candidate


def new_name(wanted: str, taken: set[str]) -> str:
    """Return a name that is not taken yet, as near to the wanted one as may be, and take it."""
    while wanted in taken:
        wanted += "_"
    taken.add(wanted)
    return wanted


def fresh_prefix(prefix: str, taken: Iterable[str]) -> str:
    """Return `prefix`, lengthened until no name in `taken` is the prefix followed by digits."""
    used = list(taken)
    while any(name.startswith(prefix) and name[len(prefix) :].isdigit() for name in used):
        prefix += prefix[-1]
    return prefix


def safe_comment(text: object) -> str:
    """Return `text` as one line that is harmless inside a C block comment or after a Python hash sign.

    Printable ASCII stays, except the star and the backslash (they end or continue comments) and the question
    mark (it begins trigraphs); these and everything else are written as ``<U+002A>``. Long text is cut.
    """
    line = str(text)
    if len(line) > LONGEST_COMMENT:
        line = line[:LONGEST_COMMENT] + "..."
    return "".join(c if " " <= c <= "~" and c not in "*\\?" else f"<U+{ord(c):04X}>" for c in line)


# -------------------------------------------------------------------- numbers


def plain_number(value: float, digits: int = 6) -> str:
    """Return a number for terminals; "unknown" for NaN, "-" for infinity."""
    if math.isnan(value):
        return "unknown"
    return "-" if math.isinf(value) else f"{value:.{digits}g}"


def plain_percent(value: float) -> str:
    """Return a share as percent for terminals and Markdown; "-" where it is not known."""
    if not math.isfinite(value):
        return "-"
    return f"{100 * value:.3g} %" if abs(value) < 9.995 else f"{100 * value:.0f} %"


def number(value: float | None, digits: int = 3) -> str:
    """Return a number with significant digits; powers of ten where it is very large or small; "–" where unknown."""
    if value is None or not math.isfinite(value):
        return "∞" if value is not None and math.isinf(value) and value > 0 else "–"
    if value == 0:
        return "0"
    size = math.floor(math.log10(abs(value)))
    if -4 <= size < 6:
        return fixed(value, max(0, digits - 1 - size))
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
