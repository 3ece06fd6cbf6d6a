"""The top of the page.

The error of each joint before and after, may the model be used, why, what next; notices.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from minidyn.app.report.facts import (
    MORE,
    Facts,
    command_line,
    excite_command,
    generate_command,
    identify_command,
    report_command,
)
from minidyn.display import Html, tag
from minidyn.identification.validate import Validation
from minidyn.identification.verdict import Verdict, noise_words, separation
from minidyn.notices import GRADES, Notice, most_serious_first, worth_telling
from minidyn.pages.charts import Axis, Plot, legend, picture
from minidyn.pages.html import Section, figure, folded, sentence, table
from minidyn.text import count, number, percent, short, visible

_WIDTH, _ROW, _LEFT, _RIGHT, _HEAD = 430.0, 34.0, 124.0, 48.0, 8.0
_MOST = 1.2  # errors beyond this are drawn at the edge; their numbers are right


def joint_errors_figure(facts: Facts) -> Html | None:
    """Return bars of each joint's error, of the worst test run or of the fitted data.

    None where there is no run.
    """
    known = facts.tests.values() if facts.fit is None else [facts.fit]
    runs = list(facts.unseen.values()) or list(known)
    if not runs:
        return None
    after = {name: _worst(runs, name, "relative_error") for name in runs[0].per_joint}
    before = {name: _worst(runs, name, "prior_relative_error") for name in runs[0].per_joint}
    both = bool(np.isfinite(list(before.values())).any())
    data = "test data" if facts.unseen else "the fitted data"
    if len(runs) > 1:
        data += ", worst run"
    note = "error, a share of the measured torque (root mean square)"
    keys = [("after good", "good"), ("after caution", "to look at"), ("after bad", "bad")]
    keys.append(
        ("limit-line", f"limit for the error without noise, {percent(facts.limits.joint_error)}")
    )
    if both:
        keys.insert(0, ("before", "before identification"))
    title = f"Each joint on {data}{', before and after' if both else ''}"
    return figure(
        title, note, _bars(facts, after, before if both else {}), legend(keys), class_="errors"
    )


def _level(facts: Facts, joint: str, error: float) -> str:
    """Return what the verdict says of a joint; of fitted data nothing is called good."""
    if facts.unseen:
        return max(
            (rule.level for rule in facts.verdict.rules if rule.joint == joint),
            key=GRADES.index,
            default="good",
        )
    return "caution" if error <= facts.limits.joint_error_poor else "bad"


def _worst(runs: list[Validation], name: str, key: str) -> float:
    return float(np.max([run.per_joint[name].get(key, np.nan) for run in runs]))


def _bars(facts: Facts, after: dict[str, float], before: dict[str, float]) -> Html:
    finite = [error for error in (*after.values(), *before.values()) if np.isfinite(error)]
    top = min(max([1.15 * facts.limits.joint_error, *finite]) * 1.04, _MOST)
    height = _ROW * len(after)
    plot = Plot(_LEFT, _HEAD, _WIDTH - _LEFT - _RIGHT, height, Axis(0.0, 100 * top), Axis(0.0, 1.0))
    marks = [plot.axes("%", "", ticks=(5, 0))]
    x = float(plot.px(100 * facts.limits.joint_error))
    marks.append(tag("line", class_="limit", x1=x, x2=x, y1=_HEAD, y2=_HEAD + height))
    for k, (name, error) in enumerate(after.items()):
        y = _HEAD + k * _ROW
        level = _level(facts, name, error)
        marks.append(
            tag(
                "text",
                short(name, 20),
                tag("title", name),
                x=_LEFT - 8,
                y=y + 21,
                class_="name end",
            )
        )
        old = before.get(name, np.nan)
        if np.isfinite(old):
            marks.append(_bar(plot, old, y + 4, 9, "before", f"{name} before: {percent(old)}"))
        wide = _bar(
            plot,
            error,
            y + (15 if np.isfinite(old) else 9),
            14,
            f"after {level}",
            f"{name}: {percent(error)}",
        )
        marks.append(wide)
        end = float(plot.px(100 * min(error, top))) if np.isfinite(error) else _LEFT
        sign = {"good": "", "caution": " !", "bad": " ✕"}[level]
        place = {"x": end + 5, "y": y + (26 if np.isfinite(old) else 20)}
        marks.append(tag("text", percent(error) + sign, class_=f"value {level}", **place))
    words = ", ".join(
        f"{name} {percent(error)}"
        + (f" (before {percent(before[name])})" if np.isfinite(before.get(name, np.nan)) else "")
        for name, error in after.items()
    )
    return picture(
        _WIDTH, _HEAD + height + 34, marks, f"Torque error of each joint: {short(words, 600)}"
    )


def _bar(plot: Plot, error: float, y: float, height: float, class_: str, title: str) -> Html:
    shown = min(error, plot.x.high / 100) if np.isfinite(error) else 0.0
    width = max(float(plot.px(100 * shown)) - plot.left, 1.0)
    return tag(
        "rect",
        tag("title", title),
        x=plot.left,
        y=y,
        width=width,
        height=height,
        class_=f"bar {class_}",
        rx=1.5,
    )


_SIGNS = {"good": "✓", "caution": "!", "bad": "✕"}
_LEVELS = {"error": "Errors", "warning": "Warnings", "info": "Information"}


def summary_section(facts: Facts) -> Section:
    """Return what a stranger reads in twenty seconds."""
    verdict, level = facts.verdict, facts.verdict.level
    reasons = (
        tag("ul", *(tag("li", rule.text) for rule in verdict.failed)) if verdict.failed else None
    )
    sign = tag("span", _SIGNS[level], class_="sign", aria_hidden="true")
    checks = [tag("p", sentence(words[:1].upper() + words[1:])) for words in verdict.verified]
    words = tag(
        "div",
        tag("p", verdict.headline, class_="headline"),
        tag("p", _sentence(facts)),
        *checks,
        reasons,
    )
    head = tag("div", sign, words, class_=f"verdict {level}")
    steps = [
        tag("li", step, command_line(command) if command else None)
        for step, command in _steps(facts, level)
    ]
    following = tag("div", tag("h3", "What to do next"), tag("ol", *steps), class_="next")
    cards = tag("dl", *_cards(facts), class_="cards")
    shown = joint_errors_figure(facts)
    glance = cards if shown is None else tag("div", shown, cards, class_="glance")
    return Section("summary", "Summary", "", (head, glance, following, _rules(verdict)))


_RULES = {
    "consistent": "physically consistent",
    "condition": "condition number",
    "fitted_data": "share of the test data that was fitted",
    "tested": "tested on other data than the fitted",
    "error": "torque error on test data",
    "overfit": "error on test data over that on fitted data",
    "prior": "error over that of the robot's file",
    "joint_error": "error without noise",
    "joint_raw": "error with noise",
    "joint_systematic": "systematic share of the residual",
    "notice": "no notice is an error or a warning",
}
_SHARES = ("fitted_data", "error", "joint_error", "joint_raw", "joint_systematic")


def _found(rule: str, value: float | None) -> str:
    return percent(value) if rule in _SHARES and value is not None else number(value)


def _rules(verdict: Verdict) -> Html:
    """Every rule of the verdict with its limit, folded."""
    rows = []
    for rule in verdict.rules:
        value, limit = (_found(rule.name, one) for one in (rule.value, rule.limit))
        name = tag("span", _RULES.get(rule.name, rule.name.replace("_", " ")), title=rule.name)
        rows.append((name, short(rule.joint), "pass" if rule.ok else rule.level, value, limit))
    met = sum(rule.ok for rule in verdict.rules)
    made = table(
        "Rules of the verdict", ("rule", "joint", "result", "found", "limit"), rows, right=(3, 4)
    )
    return folded(f"Rules and limits of the verdict: {met} of {len(rows)} are met", made)


def _sentence(facts: Facts) -> str:
    tests, known = len(facts.unseen), facts.fit or next(iter(facts.tests.values()), None)
    if facts.test_error is not None:
        runs = f"{tests} runs" if tests > 1 else "a run" if tests else "parts of the log"
        text = (
            f"On {runs} held out of the fit, the model predicts the joint torques with an error of "
        )
        text += percent(facts.test_error)
    elif known is not None:
        text = (
            "The model explains the joint torques it was fitted to with an error of "
            f"{percent(known.relative_error)}"
        )
    else:
        text = (
            f"The model was identified from {facts.estimate.samples} samples; no recording was "
            "given to test it"
        )
    if facts.certificate is None:
        return text + "."
    return (
        text
        + (", and it is " if facts.certificate.consistent else ", but it is not ")
        + "physically consistent."
    )


def _steps(facts: Facts, level: str) -> list[tuple[str, str]]:
    """What to do next: (words, command or empty)."""
    steps, limits = [], facts.limits
    if facts.test_error is None:
        steps.append(
            ("Record one more, different motion and test the model on it.", report_command(facts))
        )
    weak = len(facts.estimate.weak)
    if separation(facts.estimate)[0] > limits.condition:
        words = "Record a richer motion: more joints at once, faster, over a larger range."
        steps.append(_more(facts, words))
    if facts.certificate is not None and not facts.certificate.consistent:
        steps.append(
            ("Identify with physical consistency.", identify_command(facts, "--consistent"))
        )
    large = (facts.test_error or 0.0) > limits.error and not noise_words(facts.unseen, limits)
    if large or any(
        rule.name in ("joint_error", "joint_raw", "joint_systematic")
        for rule in facts.verdict.failed
    ):
        steps.append(_missing(facts))
    if worth_telling(facts.estimate.notices):
        steps.append(("Read the errors and warnings among the notices below.", ""))
    if level != "bad":
        where = f" in {facts.places.folder}" if facts.places.folder else ""
        words = f"Use the model: the URDF{where} for simulators, C code for your controller."
        steps.append((words, generate_command(facts)))
    if weak and separation(facts.estimate)[0] <= limits.condition:
        words = (
            f"{weak} parameters are weakly determined. For motions unlike the recorded ones, "
            "record those too."
        )
        steps.append(_more(facts, words))
    return steps


def _more(facts: Facts, words: str) -> tuple[str, str]:
    """What to record next: the command that designs it, and how much it would help."""
    if facts.std_after is None:
        return words, ""
    smaller = facts.estimate.std / facts.std_after
    words += (
        f" {MORE:g} s of a plain motion would make half of the errors "
        f"{number(float(np.median(smaller)), 2)} times smaller or more, one even "
        f"{number(float(smaller.max()), 2)} times. This designs one that adds most:"
    )
    return words, excite_command(facts)


def _missing(facts: Facts) -> tuple[str, str]:
    """What a model with large errors probably lacks."""
    if not any(column.is_friction for column in facts.estimate.robot.layout.columns):
        return "The model has no friction: let it be identified.", identify_command(
            facts, "--friction", "auto"
        )
    names = list(
        dict.fromkeys(
            rule.joint for rule in facts.verdict.failed if rule.name == "joint_systematic"
        )
    )
    where = f" of {', '.join(short(name) for name in names[:4])}" if names else ""
    return (
        f"Look at the residuals{where}: they are not only noise. Causes are elasticity, cables, "
        "friction that changes with temperature or load, wrong units or signs of single joints.",
        "",
    )


def _cards(facts: Facts) -> list[Html]:
    """At most four key figures: what it is, its value, how to read it."""
    cards, limits = [], facts.limits
    known = facts.fit or next(iter(facts.tests.values()), None)
    fitted = None if known is None else known.relative_error
    shown = fitted if facts.test_error is None else facts.test_error
    if shown is not None:
        level = "good" if facts.test_error is not None and shown <= limits.error else "caution"
        level = "bad" if shown > limits.error_poor else level
        note = (
            f"of the measured torque, on {'the fitted' if facts.test_error is None else 'test'} "
            "data"
        )
        before = max((run.prior_relative_error for run in facts.unseen.values()), default=np.nan)
        if np.isfinite(before):
            note += f"; {percent(before)} before identification"
        elif facts.test_error is not None and fitted is not None:
            note += f"; {percent(fitted)} on the fitted data"
        cards.append(_card("Torque error", percent(shown), note, level))
    estimate = facts.estimate
    note = f"of {len(estimate.robot.layout)} parameters act on the torques, alone or combined"
    cards.append(_card("Base parameters", str(len(estimate.beta)), note))
    condition, words = separation(estimate)
    good = condition <= limits.condition
    note = (
        f"the motion {'shows all of them' if good else 'hides some'}{words}; good is below "
        f"{limits.condition:g}"
    )
    cards.append(_card("Condition number", number(condition), note, "good" if good else "caution"))
    if facts.certificate is not None:
        value, level, note = (
            "No",
            "bad",
            "some mass, inertia or friction cannot belong to a real robot",
        )
        if facts.certificate.consistent:
            value, level, note = (
                "Yes",
                "good",
                "masses, inertias and friction can belong to a real robot",
            )
        cards.append(_card("Physically consistent", value, note, level))
    cards.append(
        _card(
            "Samples used",
            count(estimate.samples),
            f"of {estimate.robot.n} joints, after filtering",
        )
    )
    return cards[:4]


def _card(label: str, value: str, note: str, level: str = "") -> Html:
    figure = tag("dd", tag("span", value, class_="figure"), tag("span", note, class_="quiet"))
    return tag("div", tag("dt", label), figure, class_=f"card {level}".strip())


def notices_section(facts: Facts) -> Section | None:
    """Return the notices with advice; None where there are none."""
    found = _notices(facts)
    groups: list[Html] = []
    for level, title in _LEVELS.items():
        entries = [
            tag(
                "li",
                tag("p", _as_sentence(one.text)),
                tag("p", one.advice, class_="advice") if one.advice else None,
            )
            for one in found
            if one.level == level
        ]
        if entries:
            content = tag("ul", *entries, class_=f"notices {level}")
            groups.append(folded(f"{title} ({len(entries)})", content, open_=level != "info"))
    if not groups:
        return None
    return Section(
        "notices", "Notices", "What the computation noticed, most serious first.", tuple(groups)
    )


def _notices(facts: Facts) -> list[Notice]:
    """All notices once, most serious first; those of test data with the name of the run."""
    known = most_serious_first([*facts.estimate.notices, *facts.estimate.robot.notices])
    runs = [
        notice if str(notice).startswith(f"{name}:") else replace(notice, text=f"{name}: {notice}")
        for name, run in facts.tests.items()
        for notice in most_serious_first(run.notices)
        if notice not in known
    ]
    return most_serious_first([*known, *runs])


def _as_sentence(text: str) -> str:
    """With a capital, unless it begins with a name, and a full stop."""
    plain = text.split(" ", 1)[0].replace("-", "").isalpha()
    return visible(text[:1].upper() + text[1:] if plain else text) + (
        "" if text.endswith(".") else "."
    )
