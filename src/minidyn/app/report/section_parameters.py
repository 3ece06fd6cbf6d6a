"""The base parameters with their intervals, link by link, and how they hang together."""

from __future__ import annotations

import numpy as np

from minidyn.app.report.facts import Facts
from minidyn.app.report.section_model import origin_chip
from minidyn.arrays import Array
from minidyn.base.printing.overview import units
from minidyn.display import Html, join, tag
from minidyn.model.drives import ROTOR, TERMS
from minidyn.model.robot import Robot
from minidyn.pages.charts import legend, picture
from minidyn.pages.html import Section, folded, table
from minidyn.text import fixed, number, percent, short, with_error

_SIGMAS = 1.96  # of a 95 % interval
_FAR = 3.0  # standard deviations from the prior that are worth a mark
_MOST = 90  # parameters of the heat map
_STEPS = (0.1, 0.3, 0.5, 0.7, 0.9)  # sizes of correlations at which the colour changes
_MAP, _EDGE = 560.0, 64.0  # width of the heat map and of its labels


def parameter_section(facts: Facts) -> Section:
    """Return all base parameters by link: value, interval, prior, how far apart.

    And their correlations.
    """
    estimate = facts.estimate
    known = bool(np.any(np.isfinite(estimate.prior_values)))
    of_unit = units(estimate.base)
    rows: list[list[object] | str] = []
    for joint, members in _by_link(facts).items():
        rows.append(link_heading(estimate.robot, joint))
        for k in members:
            value, error = with_error(float(estimate.beta[k]), float(_SIGMAS * estimate.std[k]))
            cells: list[object] = [estimate.names[k], value, f"± {error}", of_unit[k]]
            if known:
                places = len(value.partition(".")[2]) if "." in value else 0
                prior = estimate.prior_values[k]
                cells.append(
                    fixed(float(prior), places)
                    if np.isfinite(prior) and abs(prior) < 1e6
                    else number(prior)
                )
            rows.append(
                [
                    *cells,
                    origin_chip(float(estimate.data_shares[k])),
                    _whisker(facts, k),
                    _remark(facts, k),
                ]
            )
    far = int(np.sum(_apart(facts) > _FAR))
    headings = [
        "parameter",
        "estimate",
        "95 % interval",
        "unit",
        *(["prior"] if known else []),
        "from",
        "picture",
        "",
    ]
    keys = {
        "dot": "estimate with 95 % interval",
        **({"diamond": "prior"} if known else {}),
        "zero-line": "zero",
    }
    lead = "The identified values and their uncertainty, link by link."
    if known:
        lead += (
            f" {far} of {len(estimate.beta)} parameters are more than {_FAR:g} standard "
            "deviations from the prior: there the data corrected it."
        )
    content = (
        _filters(facts, far if known else 0),
        legend(list(keys.items())),
        table(
            "Base parameters with intervals",
            headings,
            rows,
            (1, 2, *((4,) if known else ())),
            "estimates",
        ),
        tag(
            "p",
            "Names: XX … ZZ inertia and MX, MY, MZ first moment about the joint's frame, M mass"
            f"{_drive_words(facts)}; the number is the joint's, R means a combination. "
            f"{_interval_words(facts)}",
            class_="quiet",
        ),
        *_correlations(facts),
    )
    return Section(
        "parameters", "Parameter estimates", lead, content, {"parameters": _sheet(facts, of_unit)}
    )


def _interval_words(facts: Facts) -> str:
    if not facts.estimate.consistent:
        return "Intervals are those of least squares."
    return (
        "Intervals belong to the values beside them: physical consistency and the prior are part "
        "of both. Data: by how much the data narrow a parameter down, were nothing known of "
        "bodies but their rough size; prior: the rest."
    )


def link_heading(robot: Robot, joint: int) -> str:
    """Return the heading of a link's parameters."""
    return (
        f"{short(robot.link_names[joint], 60)} (joint {joint + 1}: "
        f"{short(robot.joints[joint].name, 60)})"
    )


def _by_link(facts: Facts) -> dict[int, list[int]]:
    """Places of the base parameters by the joint they are named after, in the order of the
    joints.
    """
    layout = facts.estimate.base.robot.layout
    found: dict[int, list[int]] = {}
    for k, kept in enumerate(facts.estimate.base.kept):
        found.setdefault(layout.column(kept).joint, []).append(k)
    return dict(sorted(found.items()))


def _filters(facts: Facts, far: int) -> Html:
    """Buttons that show some rows only, and one that saves all values.

    For browsers that run scripts.
    """
    weak = len(facts.estimate.weak)
    kinds = {
        "all": f"All {len(facts.estimate.beta)}",
        "weak": f"Weak {weak}",
        "moved": f"Moved {far}",
    }
    made = [
        tag(
            "button",
            words,
            type="button",
            data_filter=kind,
            aria_pressed="true" if kind == "all" else "false",
        )
        for kind, words in kinds.items()
    ]
    shown = tag("div", *made, class_="buttons", role="group", aria_label="Show parameters")
    save = tag("button", "Save as CSV", type="button", data_save="parameters")
    return tag("div", shown, save, class_="controls filters screen-only", hidden=True)


def _sheet(facts: Facts, of_unit: list[str]) -> dict[str, object]:
    """All values for the file that the page saves."""
    estimate = facts.estimate
    links = {k: joint for joint, members in _by_link(facts).items() for k in members}
    robot = estimate.robot
    columns = [
        "parameter",
        "link",
        "joint",
        "value",
        "standard deviation",
        "data share",
        "prior",
        "unit",
    ]
    rows = []
    for k, name in enumerate(estimate.names):
        owner = robot.link_names[links[k]], robot.joints[links[k]].name
        numbers = (
            estimate.beta[k],
            estimate.std[k],
            estimate.data_shares[k],
            estimate.prior_values[k],
        )
        rows.append([name, *owner, *(float(f"{value:.9g}") for value in numbers), of_unit[k]])
    return {"file": "parameters.csv", "columns": columns, "rows": rows}


def _correlations(facts: Facts) -> list[Html]:
    """The heat map and the most correlated pairs; nothing where an uncertainty is not known."""
    std = facts.estimate.std
    if len(std) < 2 or not np.all((std > 0) & np.isfinite(std)):
        return []
    correlation = facts.estimate.covariance / np.outer(std, std)
    words = (
        "Each square is a pair of parameters: the darker, the less the recorded motion can tell "
        "the two apart. Blue: both may be larger together; orange: one larger, the other smaller. "
        "A pale map is a good motion."
    )
    drawn = tag(
        "div",
        _heat_map(facts, correlation),
        class_="scroll",
        role="region",
        aria_label="Map",
        tabindex="0",
    )
    content = [
        tag("h3", "Correlation of the estimates"),
        tag("p", words),
        tag("figure", drawn, class_="heat"),
    ]
    pairs = _correlated(facts, correlation)
    if pairs:
        made = table(
            "Most correlated pairs", ("parameter", "parameter", "correlation"), pairs, right=(2,)
        )
        content.append(folded("Parameters that are hard to separate", made))
    return content


def _heat_map(facts: Facts, correlation: Array) -> Html:
    """Squares below the diagonal, coloured by size and sign, in the order of the links."""
    order = [k for members in _by_link(facts).values() for k in members]
    if len(order) > _MOST:  # the most entangled ones
        worst = np.argsort(-np.abs(correlation - np.eye(len(order))).max(axis=1))[:_MOST]
        order = [k for k in order if k in set(worst.tolist())]
    shown = correlation[np.ix_(order, order)]
    size = min(_MAP / len(order), 16.0)
    edge = _EDGE if size > 5.5 else 8.0
    cells: dict[str, list[str]] = {}
    for i, j in zip(*np.nonzero(np.tril(np.abs(shown) > _STEPS[0], -1))):
        step = int(np.searchsorted(_STEPS, abs(shown[i, j])))
        sign = "plus" if shown[i, j] > 0 else "minus"
        place = f"M{edge + j * size:.1f},{8 + i * size:.1f}h{size:.1f}v{size:.1f}h-{size:.1f}z"
        cells.setdefault(f"cell {sign} c{step}", []).append(place)
    whole = len(order) * size
    marks = [tag("path", class_="track", d=f"M{edge:.1f},8V{8 + whole:.1f}H{edge + whole:.1f}Z")]
    marks += [
        tag("path", class_=class_, d="".join(places)) for class_, places in sorted(cells.items())
    ]
    if edge == _EDGE:
        names, class_ = facts.estimate.names, "tick end " + ("tiny" if size > 9.0 else "mini")
        for row, k in enumerate(order):
            y = 8 + (row + 0.5) * size
            marks.append(tag("text", names[k], class_=class_, x=edge - 4, y=y + 2.5))
            turned = (
                f"translate({edge + (row + 0.5) * size + 2.5:.1f},{8 + whole + 5:.1f}) rotate(-90)"
            )
            marks.append(tag("text", names[k], class_=class_, transform=turned))
    strong = int(np.sum(np.tril(np.abs(shown), -1) > _STEPS[-1]))
    words = f"Correlations of {len(order)} parameters; {strong} pairs above {percent(_STEPS[-1])}"
    return picture(max(edge + whole + 6, _MAP), 8 + whole + edge, [join(marks)], words, "chart map")


def _correlated(facts: Facts, correlation: Array) -> list[tuple[str, str, str]]:
    rows, columns = np.triu_indices(len(correlation), 1)
    sizes = np.abs(correlation[rows, columns])
    best = [k for k in np.argsort(-sizes)[:8] if sizes[k] > 0.9]
    names = facts.estimate.names
    return [
        (names[rows[k]], names[columns[k]], number(float(correlation[rows[k], columns[k]]), 3))
        for k in best
    ]


def _drive_words(facts: Facts) -> str:
    """What the drive symbols of this robot mean."""
    used = {
        column.symbol
        for column in facts.estimate.base.robot.layout.columns
        if not column.is_inertial
    }
    words = [f"{ROTOR} rotor inertia"] if ROTOR in used else []
    words += [
        f"{term.symbol} {name.replace('_', ' ')}"
        for name, term in TERMS.items()
        if term.symbol in used
    ]
    return "".join(f", {word}" for word in words)


def _apart(facts: Facts) -> np.ndarray:
    estimate = facts.estimate
    with np.errstate(invalid="ignore", divide="ignore"):
        spread = np.where(estimate.std > 0, estimate.std, np.nan)
        return np.asarray(np.nan_to_num(np.abs(estimate.beta - estimate.prior_values) / spread))


def _remark(facts: Facts, k: int) -> Html | str:
    relative = facts.estimate.relative_std[k]
    if facts.estimate.names[k] in facts.estimate.weak:
        words = f"standard deviation {percent(float(relative))} of the value"
        return tag("span", "weak", class_="chip weak", title=words)
    if _apart(facts)[k] > _FAR:
        return tag(
            "span",
            "moved",
            class_="chip moved",
            title="more than three standard deviations from the prior",
        )
    return ""


def _whisker(facts: Facts, k: int) -> Html:
    estimate = facts.estimate
    value, half, prior = (
        float(estimate.beta[k]),
        float(_SIGMAS * estimate.std[k]),
        float(estimate.prior_values[k]),
    )
    width, height = 150.0, 18.0
    if not np.isfinite(half):
        words = f"{estimate.names[k]}: the recording does not determine it"
        return picture(
            width, height, [tag("text", "not determined", class_="tick", x=8, y=13)], words, "spark"
        )
    ends = [0.0, value - half, value + half, *([prior] if np.isfinite(prior) else [])]
    low, high = min(ends), max(ends)

    def x(at: float) -> float:
        return 8 + (width - 16) * (at - low) / ((high - low) or 1.0)

    middle = height / 2
    marks = [
        tag("line", class_="grid zero", x1=x(0.0), x2=x(0.0), y1=2, y2=height - 2),
        tag("line", class_="whisker", x1=x(value - half), x2=x(value + half), y1=middle, y2=middle),
    ]
    if np.isfinite(prior):
        at = x(prior)
        path = f"M{at - 4.5:.1f},{middle}L{at:.1f},{middle - 4.5}L{at + 4.5:.1f},{middle}L{at:.1f},{middle + 4.5}Z"  # noqa: E501
        marks.append(tag("path", class_="diamond", d=path))
    marks.append(tag("circle", class_="dot", cx=x(value), cy=middle, r=3.2))
    return picture(
        width,
        height,
        marks,
        f"{facts.estimate.names[k]} and its interval against the prior",
        "spark",
    )
