"""The links before and after identification, and how much of each number comes from the data."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from minidyn.app.report.facts import Facts
from minidyn.app.report.html import Section, table
from minidyn.arrays import Array
from minidyn.display import Html, tag
from minidyn.identification.diagnostics.origin import link_origins
from minidyn.text import fixed, number, percent, short

_NOTHING = 1e-9  # kg, m, kg m²: rounding


def links_section(facts: Facts) -> Section | None:
    """Return mass, centre of mass and principal inertias of each link; None where no parameter is known."""
    found = link_origins(facts.estimate)
    if not np.isfinite([link.after[0] for link in found]).any():
        return None
    rows = [
        (
            short(link.name, 40),
            *(
                before_after(link.before[k], link.after[k], _origin(link.shares[k]))  # type: ignore[arg-type]
                for k in range(3)
            ),
        )
        for link in found
    ]
    mass = [float(np.nansum([values[0] for values in side])) for side in zip(*((x.before, x.after) for x in found))]
    headings = ("link", "mass, kg", "centre of mass x, y, z, m", "principal inertias, kg·m²")
    lead = (
        f"Each body in its own frame, first as the robot file has it, then as identified; all links together "
        f"{number(mass[0])} kg before, {number(mass[1])} kg after. Torques show combinations of links only: what they "
        "do not show keeps the value of the prior."
    )
    note = (
        "Data: by how much the data narrow the number down, were nothing known of a body but its rough size; prior: "
        "the rest. A number that is mostly prior may be wrong without any effect on the torques. Inertias are about "
        "the centre of mass."
    )
    made = table("Links before and after identification", headings, rows, style="links")
    return Section("links", "Links before and after", lead, (made, tag("p", note, class_="quiet")))


def before_after(
    before: float | Sequence[float],
    after: float | Sequence[float],
    *more: object,
    classes: tuple[str, str] = ("was", "now"),
) -> Html:
    """Return a cell of a table: the values before, below them those after."""
    lines = [", ".join(_shown(np.atleast_1d(side))) for side in (before, after)]
    was = tag("span", lines[0], class_=classes[0]) if np.isfinite(np.atleast_1d(before)).any() else None
    return tag("div", was, tag("span", lines[1], class_=classes[1]), *more, class_="pair")


def _shown(values: Array) -> list[str]:
    """Three digits of the largest one: what is rounding beside it is zero."""
    size = float(np.abs(values[np.isfinite(values)]).max(initial=0.0))
    places = min(8, max(0, 2 - math.floor(math.log10(size)))) if size > _NOTHING else 0
    return [fixed(float(one), places) if np.isfinite(one) else number(float(one)) for one in values]


def _origin(share: float) -> Html | None:
    if not np.isfinite(share):
        return None
    data = share >= 0.5
    words = f"data {percent(share)}" if data else f"prior {percent(1 - share)}"
    title = f"{percent(share)} from the data, {percent(1 - share)} from the prior"
    return tag("span", words, class_=f"chip {'moved' if data else 'kept'}", title=title)
