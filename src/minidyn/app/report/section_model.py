"""The identified model: estimates with intervals against what was believed, and the certificate."""

from __future__ import annotations

import numpy as np

from minidyn.app.report.charts import picture
from minidyn.app.report.facts import Facts
from minidyn.app.report.html import Html, Section, table, tag
from minidyn.app.report.verdict import WEAK
from minidyn.model.drives import ROTOR, TERMS
from minidyn.model.joint import unit_of
from minidyn.text import fixed, number, percent, short, visible, with_error

_SIGMAS = 1.96  # of a 95 % interval
_FAR = 3.0  # standard deviations from the prior that are worth a mark


def parameter_section(facts: Facts) -> Section:
    """Return all base parameters: value, interval, what was believed, and how far apart."""
    estimate, base = facts.estimate, facts.estimate.base
    layout = base.robot.layout
    known = bool(np.any(np.isfinite(facts.prior)))
    rows = []
    for k, kept in enumerate(base.kept):
        column = layout.columns[layout.index(kept)]
        unit = unit_of(column.symbol, base.robot.joints[column.joint]) if base.rows is None else ""
        value, error = with_error(float(estimate.beta[k]), float(_SIGMAS * estimate.std[k]))
        cells: list[object] = [estimate.names[k], value, f"± {error}", unit]
        if known:
            places = len(value.partition(".")[2]) if "." in value else 0
            prior = facts.prior[k]
            cells.append(fixed(float(prior), places) if np.isfinite(prior) and abs(prior) < 1e6 else number(prior))
        cells += [_whisker(facts, k), _remark(facts, k)]
        rows.append(cells)
    far = int(np.sum(_apart(facts) > _FAR))
    headings = ["parameter", "estimate", "95 % interval", "unit", *(["prior"] if known else []), "picture", ""]
    keys: list[object] = [tag("span", tag("i", class_="key dot", aria_hidden="true"), "estimate with 95 % interval")]
    if known:
        keys.append(tag("span", tag("i", class_="key diamond", aria_hidden="true"), "prior"))
    keys.append(tag("span", tag("i", class_="key zero-line", aria_hidden="true"), "zero"))
    lead = "What was found, how sure it is" + (", and what was believed before. " if known else ". ")
    if known:
        lead += (
            f"{far} of {len(rows)} parameters are more than {_FAR:g} standard deviations from the prior: there the "
            "data knew better."
        )
    content = (
        tag("p", *keys, class_="legend"),
        table("Base parameters with intervals", headings, rows, (1, 2, *((4,) if known else ())), "estimates"),
        tag(
            "p",
            "Names: XX … ZZ inertia and MX, MY, MZ first moment about the joint's frame, M mass"
            f"{_drive_words(facts)}; the number is the joint's, R stands for a combination. Intervals hold for the "
            "free fit; physics may have moved values inside them.",
            class_="quiet",
        ),
    )
    return Section("parameters", "Parameter estimates", lead, content)


def _drive_words(facts: Facts) -> str:
    """What the drive symbols of this robot mean."""
    used = {column.symbol for column in facts.estimate.base.robot.layout.columns if not column.is_inertial}
    words = [f"{ROTOR} rotor inertia"] if ROTOR in used else []
    words += [f"{term.symbol} {name.replace('_', ' ')}" for name, term in TERMS.items() if term.symbol in used]
    return "".join(f", {word}" for word in words)


def _apart(facts: Facts) -> np.ndarray:
    std = facts.estimate.std
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(np.nan_to_num(np.abs(facts.estimate.beta - facts.prior) / np.where(std > 0, std, np.nan)))


def _remark(facts: Facts, k: int) -> Html | str:
    relative = facts.estimate.relative_std[k]
    if not relative <= WEAK:
        return tag(
            "span", "weak", class_="chip weak", title=f"standard deviation {percent(float(relative))} of the value"
        )
    if _apart(facts)[k] > _FAR:
        return tag("span", "moved", class_="chip moved", title="more than three standard deviations from the prior")
    return ""


def _whisker(facts: Facts, k: int) -> Html:
    value, half, prior = float(facts.estimate.beta[k]), float(_SIGMAS * facts.estimate.std[k]), float(facts.prior[k])
    if not np.isfinite(half):
        words = f"{facts.estimate.names[k]}: the recording does not determine it"
        return picture(150.0, 18.0, [tag("text", "not determined", class_="tick", x=8, y=13)], words, "spark")
    ends = [0.0, value, *([prior] if np.isfinite(prior) else [])]
    low, high = min(*ends, value - half), max(*ends, value + half)
    width, height = 150.0, 18.0

    def x(at: float) -> float:
        return 8 + (width - 16) * (at - low) / ((high - low) or 1.0)

    middle = height / 2
    marks = [
        tag("line", class_="grid zero", x1=x(0.0), x2=x(0.0), y1=2, y2=height - 2),
        tag("line", class_="whisker", x1=x(value - half), x2=x(value + half), y1=middle, y2=middle),
    ]
    if np.isfinite(prior):
        at = x(prior)
        marks.append(
            tag(
                "path",
                class_="diamond",
                d=f"M{at - 4.5:.1f},{middle}L{at:.1f},{middle - 4.5}L{at + 4.5:.1f},{middle}L{at:.1f},{middle + 4.5}Z",
            )
        )
    marks.append(tag("circle", class_="dot", cx=x(value), cy=middle, r=3.2))
    return picture(width, height, marks, f"{facts.estimate.names[k]} and its interval against the prior", "spark")


def certificate_section(facts: Facts) -> Section | None:
    """Return what shows that the model can exist; None where parameters are unknown."""
    certificate = facts.certificate
    if certificate is None:
        return None
    robot = facts.estimate.robot
    rows = []
    for link, value in zip(robot.links, certificate.eigenvalues):
        rows.append(
            (
                short(link.name, 60),
                number(link.mass, 4),
                _gauge(float(value)),
                number(float(value), 2),
                _word(value > 0),
            )
        )
    content: list[Html] = [
        table("Links", ("link", "mass, kg", "", "smallest eigenvalue", "possible"), rows, (1, 3)),
    ]
    drives = [
        (name, number(float(value), 4), _word(value >= 0))
        for name, value in zip(certificate.drives, certificate.drive_values)
    ]
    if drives:
        negative = [name for name, value in zip(certificate.drives, certificate.drive_values) if value < 0]
        content.append(
            tag(
                "p",
                f"{len(drives)} rotor inertias and friction terms: "
                + (f"{', '.join(negative)} negative." if negative else "none is negative."),
            )
        )
    content.append(
        tag(
            "p",
            f"Inertia matrix, which must be positive definite for a simulator to run: {certificate.statement}. Total "
            f"mass {certificate.mass_statement}.",
        )
    )
    if not certificate.consistent:
        content.append(
            tag("ul", *(tag("li", visible(reason)) for reason in certificate.reasons()), class_="notices act")
        )
    cost = facts.estimate.settings.get("misfit_increase")
    if isinstance(cost, int | float):
        content.append(
            tag(
                "p",
                f"Being possible cost {number(float(cost), 2)} noise variances of misfit, spread over all samples.",
                class_="quiet",
            )
        )
    lead = (
        "Every link must be a body that can exist: positive mass, and moments of inertia that some distribution of "
        "mass has. "
        + ("This model passes." if certificate.consistent else "This model does not pass.")
        + " The eigenvalue has no unit: 1/3 is a ball, 0 a sheet or a rod, below 0 no body at all."
    )
    return Section("consistency", "Physical consistency", lead, tuple(content))


def _word(good: bool) -> Html:
    return tag("span", "✓ yes" if good else "✕ no", class_="chip good" if good else "chip bad")


def _gauge(value: float) -> Html:
    place = float(np.clip(np.sqrt(max(value, 0.0) * 3.0), 0.0, 1.0))
    marks = [
        tag("rect", x=0, y=5, width=120, height=6, rx=3, class_="track"),
        tag("rect", x=0, y=5, width=max(120 * place, 0.0), height=6, rx=3, class_="bar" if value > 0 else "bar weak"),
    ]
    return picture(120, 16, marks, f"{number(value, 2)} between 0 (sheet) and 1/3 (ball)", "spark")
