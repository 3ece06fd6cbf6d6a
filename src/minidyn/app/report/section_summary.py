"""The top of the page: verdict, key figures, what to do next, notices."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from minidyn.app.report.facts import Facts
from minidyn.app.report.html import Html, Section, card, folded, tag
from minidyn.app.report.verdict import CONDITION_GOOD, ERROR_GOOD, ERROR_POOR, Verdict, judge, unseen_error
from minidyn.notices import Notice, most_serious_first
from minidyn.text import count, number, percent, visible

_SIGNS = {"good": "✓", "caution": "!", "bad": "✕"}
_LEVELS = {"act": "To do", "look": "To know", "info": "Information"}


def summary_section(facts: Facts) -> Section:
    """Return what a stranger reads in twenty seconds."""
    verdict = judge(facts)
    return Section(
        "summary", "Summary", "", (_verdict(verdict), tag("dl", *_cards(facts), class_="cards"), _next(verdict))
    )


def _verdict(verdict: Verdict) -> Html:
    but = tag("ul", *(tag("li", reason) for reason in verdict.reasons)) if verdict.reasons else None
    return tag(
        "div",
        tag("span", _SIGNS[verdict.level], class_="sign", aria_hidden="true"),
        tag("div", tag("p", verdict.headline, class_="headline"), tag("p", verdict.sentence), but),
        class_=f"verdict {verdict.level}",
    )


def _cards(facts: Facts) -> list[Html]:
    cards = []
    unseen = unseen_error(facts)
    fitted = None if facts.fit is None else facts.fit.relative_error
    shown = unseen if unseen is not None else fitted
    if shown is not None:
        level = "good" if shown <= ERROR_GOOD else "caution" if shown <= ERROR_POOR else "bad"
        if unseen is not None:
            note = "of the measured torque, on motion that was not fitted"
            before = [run.prior_relative_error for run in facts.held_out.values()]
            if before and np.isfinite(max(before)):
                note += f"; {percent(max(before))} before identification"
            elif fitted is not None:
                note += f"; {percent(fitted)} on the fitted one"
        else:
            note = "of the measured torque, on the fitted motion itself"
        cards.append(card("Torque error", percent(shown), note, level))
    estimate = facts.estimate
    every = len(estimate.robot.layout)
    cards.append(
        card("Base parameters", str(len(estimate.beta)), f"of {every} parameters act on the torques, alone or combined")
    )
    good = estimate.condition <= CONDITION_GOOD
    cards.append(
        card(
            "Condition number",
            number(estimate.condition),
            f"{'the motion shows all of them' if good else 'the motion hides some'}; good is below {CONDITION_GOOD:g}",
            "good" if good else "caution",
        )
    )
    if facts.certificate is not None:
        possible = facts.certificate.consistent
        cards.append(
            card(
                "Physically possible",
                "Yes" if possible else "No",
                "masses, inertias and friction could belong to a real robot"
                if possible
                else "some mass, inertia or friction cannot exist",
                "good" if possible else "bad",
            )
        )
    cards.append(card("Samples used", count(estimate.samples), f"of {estimate.robot.n} joints, after filtering"))
    return cards[:4]


def _next(verdict: Verdict) -> Html:
    steps = [
        tag("li", words, tag("code", command, class_="command") if command else None)
        for words, command in verdict.steps
    ]
    return tag("div", tag("h3", "What to do next"), tag("ol", *steps), class_="next")


def _notices(facts: Facts) -> list[Notice]:
    """All notices once, most serious first; those of test runs with the name of the run."""
    known = most_serious_first([*facts.estimate.notices, *facts.estimate.robot.notices])
    runs = [
        replace(notice, text=f"{name}: {notice}")
        for name, run in facts.held_out.items()
        for notice in most_serious_first(run.notices)
        if notice not in known
    ]
    return most_serious_first([*known, *runs])


def _as_sentence(text: str) -> str:
    """With a capital, unless it begins with a name, and a full stop."""
    plain = text.split(" ", 1)[0].replace("-", "").isalpha()
    return visible(text[:1].upper() + text[1:] if plain else text) + ("" if text.endswith(".") else ".")


def notices_section(facts: Facts) -> Section | None:
    """Return the notices with advice; None where there are none."""
    found = _notices(facts)
    if not found:
        return None
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
        if not entries:
            continue
        content = tag("ul", *entries, class_=f"notices {level}")
        groups.append(folded(f"{title} ({len(entries)})", content, open_=level != "info"))
    return Section("notices", "Notices", "What the computation noticed, most serious first.", tuple(groups))
