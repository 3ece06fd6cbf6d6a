"""Case studies by name."""

from __future__ import annotations

from collections.abc import Callable
from inspect import signature
from typing import Any

from minidyn.app.casestudies.gautier_1991 import gautier_1991
from minidyn.app.casestudies.lin_1992 import lin_1992
from minidyn.app.casestudies.lin_1994 import lin_1994
from minidyn.app.casestudies.lin_fang_1999 import lin_fang_1999
from minidyn.app.casestudies.lu_meng_1993 import lu_meng_1993
from minidyn.app.casestudies.study import Study
from minidyn.errors import MinidynError, UnknownName

STUDIES = {
    "gautier-1991": "numeric base parameters: PUMA 560 and HPR, Tables I to V",
    "lin-1992": "one joint at a time: Stanford arm, Tables I and II",
    "lin-1994": "minimal linear combinations: Theorems 3 to 5, Corollary 6",
    "lin-fang-1999": "operation counts of the inertia matrix, Tables VI to VIII",
    "lu-meng": "regressor of a two-joint arm, adaptive control with an unknown load, Figs. 4 and 5",
}
"""Names, and what each computes again."""

MAKERS: dict[str, Callable[..., Study]] = dict(
    zip(STUDIES, (gautier_1991, lin_1992, lin_1994, lin_fang_1999, lu_meng_1993), strict=True)
)
"""The function of each; its keywords are the study's options."""


def case_study(name: str, **options: Any) -> Study:
    """Run a published case study and return its tables and figures beside the printed ones.

    Args:
        name: One of "gautier-1991", "lin-1992", "lin-1994", "lin-fang-1999", "lu-meng".
        **options: What is to be varied, such as bandwidth, noise or lengths; each study's own keywords.
    """
    if name not in STUDIES:
        raise UnknownName("case study", name, tuple(STUDIES))
    function = MAKERS[name]
    known = signature(function).parameters
    for option in options:
        if option not in known:
            raise UnknownName(f"option of case study {name!r}:", option, tuple(known))
    return function(**options)


def option_values(name: str, words: tuple[str, ...]) -> dict[str, Any]:
    """Return options given as texts "key=value", read as the type of each option's default."""
    known, found = signature(MAKERS[name]).parameters, dict[str, Any]()
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or key not in known:
            raise MinidynError(f"{word!r}: expected one of {', '.join(f'{one}=...' for one in known)}")
        default = known[key].default
        try:
            if isinstance(default, bool):
                found[key] = {"yes": True, "no": False}[value]
            elif isinstance(default, tuple):
                found[key] = tuple(float(part) for part in value.split(","))
            else:
                found[key] = type(default)(value)
        except (KeyError, ValueError):
            expected = "yes or no" if isinstance(default, bool) else f"a value such as {default!r}"
            raise MinidynError(f"{word!r}: expected {expected}") from None
    return found
