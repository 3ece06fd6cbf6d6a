"""The top of the page: may this model be used, why, what to do next; then the notices."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from minidyn.app.report.commands import command_line, generate_command, identify_command, report_command
from minidyn.app.report.facts import Facts
from minidyn.app.report.html import Section, folded, table
from minidyn.app.report.joint_errors import joint_errors_figure
from minidyn.display import Html, tag
from minidyn.identification.verdict import Verdict, noise_words, separation
from minidyn.notices import Notice, most_serious_first
from minidyn.text import count, number, percent, short, visible

_SIGNS = {"good": "✓", "caution": "!", "bad": "✕"}
_LEVELS = {"act": "To do", "look": "To know", "info": "Information"}


def summary_section(facts: Facts) -> Section:
    """Return what a stranger reads in twenty seconds."""
    verdict, level = facts.verdict, facts.verdict.level
    reasons = tag("ul", *(tag("li", rule.text) for rule in verdict.failed)) if verdict.failed else None
    sign = tag("span", _SIGNS[level], class_="sign", aria_hidden="true")
    words = tag("div", tag("p", verdict.headline, class_="headline"), tag("p", _sentence(facts)), reasons)
    head = tag("div", sign, words, class_=f"verdict {level}")
    steps = [tag("li", step, command_line(command) if command else None) for step, command in _steps(facts, level)]
    following = tag("div", tag("h3", "What to do next"), tag("ol", *steps), class_="next")
    cards = tag("dl", *_cards(facts), class_="cards")
    shown = joint_errors_figure(facts)
    glance = cards if shown is None else tag("div", shown, cards, class_="glance")
    return Section("summary", "Summary", "", (head, glance, following, _rules(verdict)))


def _rules(verdict: Verdict) -> Html:
    """Every rule of the verdict with its limit, folded."""
    rows = [
        (
            rule.name.replace("_", " "),
            short(rule.joint),
            "pass" if rule.ok else rule.level,
            number(rule.value),
            number(rule.limit),
        )
        for rule in verdict.rules
    ]
    met = sum(rule.ok for rule in verdict.rules)
    made = table("Rules of the verdict", ("rule", "joint", "result", "found", "limit"), rows, right=(3, 4))
    return folded(f"Rules and limits of the verdict: {met} of {len(rows)} are met", made)


def _sentence(facts: Facts) -> str:
    tests, known = len(facts.unseen), facts.fit or next(iter(facts.tests.values()), None)
    if facts.test_error is not None:
        runs = f"{tests} runs" if tests > 1 else "a run" if tests else "parts of the log"
        text = f"On {runs} held out of the fit, the model predicts the joint torques with an error of "
        text += percent(facts.test_error)
    elif known is not None:
        text = f"The model explains the joint torques it was fitted to with an error of {percent(known.relative_error)}"
    else:
        text = f"The model was identified from {facts.estimate.samples} samples; no recording was given to test it"
    if facts.certificate is None:
        return text + "."
    return text + (", and it is " if facts.certificate.consistent else ", but it is not ") + "physically consistent."


def _steps(facts: Facts, level: str) -> list[tuple[str, str]]:
    """What to do next: (words, command or empty)."""
    steps, limits = [], facts.limits
    if facts.test_error is None:
        steps.append(("Record one more, different motion and test the model on it.", report_command(facts)))
    if separation(facts.estimate)[0] > limits.condition:
        steps.append(("Record a richer motion: more joints at once, faster, over a larger range.", ""))
    if facts.certificate is not None and not facts.certificate.consistent:
        steps.append(("Identify with physical consistency.", identify_command(facts, "--consistent")))
    large = (facts.test_error or 0.0) > limits.error and not noise_words(facts.unseen, limits)
    if large or any(rule.name in ("joint_error", "joint_systematic") for rule in facts.verdict.failed):
        steps.append(_missing(facts))
    if any(notice.level == "act" for notice in most_serious_first(facts.estimate.notices)):
        steps.append(("Read the notices below that ask for action.", ""))
    if level != "bad":
        where = f" in {facts.places.folder}" if facts.places.folder else ""
        words = f"Use the model: robot.urdf{where} for simulators, C code for your controller."
        steps.append((words, generate_command(facts)))
    weak = int(np.sum(~(facts.estimate.relative_std <= limits.weak)))
    if level == "good" and weak:
        words = f"{weak} parameters are weakly determined. For motions unlike the recorded ones, record those too."
        steps.append((words, ""))
    return steps


def _missing(facts: Facts) -> tuple[str, str]:
    """What a model with large errors probably lacks."""
    if not any(column.is_friction for column in facts.estimate.robot.layout.columns):
        return "The model has no friction: let it be identified.", identify_command(facts, "--friction", "auto")
    names = list(dict.fromkeys(rule.joint for rule in facts.verdict.failed if rule.name == "joint_systematic"))
    where = f" of {', '.join(short(name) for name in names[:4])}" if names else ""
    return (
        f"Look at the residuals{where}: they are not only noise. Causes are elasticity, cables, friction that changes "
        "with temperature or load, wrong units or signs of single joints.",
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
        note = f"of the measured torque, on {'the fitted' if facts.test_error is None else 'test'} data"
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
    note = f"the motion {'shows all of them' if good else 'hides some'}{words}; good is below {limits.condition:g}"
    cards.append(_card("Condition number", number(condition), note, "good" if good else "caution"))
    if facts.certificate is not None:
        value, level, note = ("No", "bad", "some mass, inertia or friction cannot belong to a real robot")
        if facts.certificate.consistent:
            value, level, note = ("Yes", "good", "masses, inertias and friction can belong to a real robot")
        cards.append(_card("Physically consistent", value, note, level))
    cards.append(_card("Samples used", count(estimate.samples), f"of {estimate.robot.n} joints, after filtering"))
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
            tag("li", tag("p", _as_sentence(one.text)), tag("p", one.advice, class_="advice") if one.advice else None)
            for one in found
            if one.level == level
        ]
        if entries:
            content = tag("ul", *entries, class_=f"notices {level}")
            groups.append(folded(f"{title} ({len(entries)})", content, open_=level != "info"))
    if not groups:
        return None
    return Section("notices", "Notices", "What the computation noticed, most serious first.", tuple(groups))


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
    return visible(text[:1].upper() + text[1:] if plain else text) + ("" if text.endswith(".") else ".")
