"""The top of the page: may this model be used, why, what to do next; then the notices."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from minidyn.app.report.facts import CONDITION_GOOD, ERROR_GOOD, ERROR_POOR, WEAK, Facts
from minidyn.app.report.html import Section, folded
from minidyn.app.report.joint_errors import joint_errors_figure
from minidyn.display import Html, tag
from minidyn.notices import Notice, most_serious_first
from minidyn.text import count, number, percent, short, visible

_SIGNS = {"good": "✓", "caution": "!", "bad": "✕"}
_HEADLINES = {"good": "Ready to use", "caution": "Usable with care", "bad": "Not to be used yet"}
_LEVELS = {"act": "To do", "look": "To know", "info": "Information"}
_COLOURED = 0.3  # a residual more autocorrelated than this is not noise
_OVERFIT = 2.0  # test data this many times worse than the fit


def summary_section(facts: Facts) -> Section:
    """Return what a stranger reads in twenty seconds."""
    bad, doubts = _objections(facts)
    level = "bad" if bad else "caution" if doubts else "good"
    reasons = tag("ul", *(tag("li", reason) for reason in (*bad, *doubts))) if bad or doubts else None
    sign = tag("span", _SIGNS[level], class_="sign", aria_hidden="true")
    words = tag("div", tag("p", _HEADLINES[level], class_="headline"), tag("p", _sentence(facts)), reasons)
    verdict = tag("div", sign, words, class_=f"verdict {level}")
    steps = [
        tag("li", step, tag("code", command, class_="command") if command else None)
        for step, command in _steps(facts, level)
    ]
    following = tag("div", tag("h3", "What to do next"), tag("ol", *steps), class_="next")
    cards = tag("dl", *_cards(facts), class_="cards")
    shown = joint_errors_figure(facts)
    glance = cards if shown is None else tag("div", shown, cards, class_="glance")
    return Section("summary", "Summary", "", (verdict, glance, following))


def _objections(facts: Facts) -> tuple[list[str], list[str]]:
    """What forbids the use of the model, and what asks for care."""
    error, fitted = facts.test_error, None if facts.fit is None else facts.fit.relative_error
    bad: list[str] = []
    doubts: list[str] = []
    if facts.certificate is None:
        doubts.append("some parameters are unknown, so physical consistency cannot be checked")
    elif not facts.certificate.consistent:
        bad.append("it is not physically consistent (" + "; ".join(facts.certificate.reasons()[:2]) + ")")
    silent = [short(name) for name, run in facts.tests.items() if not np.isfinite(run.relative_error)]
    if silent:
        bad.append(
            f"no torque error can be computed on {', '.join(silent[:3])} (is the measured torque zero throughout?): "
            "test it on a run with torques"
        )
    if error is not None and error > ERROR_POOR:
        bad.append(f"its torque error on test data is {percent(error)}")
    elif error is not None and error > ERROR_GOOD:
        good = percent(ERROR_GOOD)
        doubts.append(f"its torque error on test data is {percent(error)}; good is up to {good}{_noise(facts)}")
    if error is not None and fitted is not None and error > max(_OVERFIT * fitted, ERROR_GOOD):
        doubts.append(f"its error is {number(error / fitted, 2)} times larger on test data than on the fitted data")
    better = [run for run in facts.tests.values() if run.prior_relative_error < 0.9 * run.relative_error]
    bad += [f"the prior is better (error {percent(run.prior_relative_error)})" for run in better[:1]]
    if error is None:
        doubts.append("it was not tested on data it was not fitted to")
        if fitted is not None and fitted > ERROR_POOR:
            bad.append(f"its torque error is {percent(fitted)} even on the data it was fitted to")
    if facts.estimate.condition > CONDITION_GOOD:
        condition = number(facts.estimate.condition)
        doubts.append(f"the motion separates some parameters badly (condition number {condition})")
    return bad, doubts


def _noise(facts: Facts) -> str:
    """Say where an error is large because the measured torque is noisy: no model follows that."""
    worst = max(facts.tests.values(), key=lambda run: run.relative_error, default=None)
    if worst is None or not worst.filtered_relative_error <= ERROR_GOOD:
        return ""
    left = percent(worst.filtered_relative_error)
    return f"; most of it is noise of the measured torque, without noise the error is {left}"


def _sentence(facts: Facts) -> str:
    tests = len(facts.tests)
    if facts.test_error is not None:
        runs = f"{tests} runs" if tests > 1 else "a run" if tests else "parts of the log"
        text = f"On {runs} held out of the fit, the model predicts the joint torques with an error of "
        text += percent(facts.test_error)
    elif facts.fit is not None:
        text = "The model explains the joint torques it was fitted to with an error of "
        text += percent(facts.fit.relative_error)
    else:
        text = f"The model was identified from {facts.estimate.samples} samples; no recording was given to test it"
    if facts.certificate is None:
        return text + "."
    return text + (", and it is " if facts.certificate.consistent else ", but it is not ") + "physically consistent."


def _steps(facts: Facts, level: str) -> list[tuple[str, str]]:
    """What to do next: (words, command or empty)."""
    steps = []
    if facts.test_error is None:
        command = "minidyn report estimate.json other-log.csv --output report.html"
        steps.append(("Record one more, different motion and test the model on it.", command))
    if facts.estimate.condition > CONDITION_GOOD:
        steps.append(("Record a richer motion: more joints at once, faster, over a larger range.", ""))
    if facts.certificate is not None and not facts.certificate.consistent:
        steps.append(("Identify with physical consistency.", "minidyn identify ROBOT LOG --consistent"))
    if facts.test_error is not None and facts.test_error > ERROR_GOOD and not _noise(facts):
        steps.append(_missing(facts))
    if any(notice.level == "act" for notice in most_serious_first(facts.estimate.notices)):
        steps.append(("Read the notices below that ask for action.", ""))
    if level != "bad":
        command = "minidyn generate FOLDER/robot.toml inverse_dynamics --target c --output code"
        words = "Use the model, from its FOLDER: robot.urdf for simulators, C code for your controller."
        steps.append((words, command))
    weak = int(np.sum(~(facts.estimate.relative_std <= WEAK)))
    if level == "good" and weak:
        words = f"{weak} parameters are weakly determined. For motions unlike the recorded ones, record those too."
        steps.append((words, ""))
    return steps


def _missing(facts: Facts) -> tuple[str, str]:
    """What a model with large errors probably lacks."""
    if not any(column.is_friction for column in facts.estimate.robot.layout.columns):
        return "The model has no friction: let it be identified.", "minidyn identify ROBOT LOG --friction auto"
    _, _, run = next(facts.runs, ("", "", None))
    names = [] if run is None else [name for name, entry in run.per_joint.items() if entry["whiteness"] > _COLOURED]
    where = f" of {', '.join(short(name) for name in names[:4])}" if names else ""
    return (
        f"Look at the residuals{where}: they are not only noise. Causes are elasticity, cables, friction that changes "
        "with temperature or load, wrong units or signs of single joints.",
        "",
    )


def _cards(facts: Facts) -> list[Html]:
    """At most four key figures: what it is, its value, how to read it."""
    cards = []
    fitted = None if facts.fit is None else facts.fit.relative_error
    shown = fitted if facts.test_error is None else facts.test_error
    if shown is not None:
        level = "good" if shown <= ERROR_GOOD else "caution" if shown <= ERROR_POOR else "bad"
        note = f"of the measured torque, on {'the fitted' if facts.test_error is None else 'test'} data"
        before = max((run.prior_relative_error for run in facts.tests.values()), default=np.nan)
        if np.isfinite(before):
            note += f"; {percent(before)} before identification"
        elif facts.test_error is not None and fitted is not None:
            note += f"; {percent(fitted)} on the fitted data"
        cards.append(_card("Torque error", percent(shown), note, level))
    estimate = facts.estimate
    note = f"of {len(estimate.robot.layout)} parameters act on the torques, alone or combined"
    cards.append(_card("Base parameters", str(len(estimate.beta)), note))
    good = estimate.condition <= CONDITION_GOOD
    note = f"the motion {'shows all of them' if good else 'hides some'}; good is below {CONDITION_GOOD:g}"
    cards.append(_card("Condition number", number(estimate.condition), note, "good" if good else "caution"))
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
        replace(notice, text=f"{name}: {notice}")
        for name, run in facts.tests.items()
        for notice in most_serious_first(run.notices)
        if notice not in known
    ]
    return most_serious_first([*known, *runs])


def _as_sentence(text: str) -> str:
    """With a capital, unless it begins with a name, and a full stop."""
    plain = text.split(" ", 1)[0].replace("-", "").isalpha()
    return visible(text[:1].upper() + text[1:] if plain else text) + ("" if text.endswith(".") else ".")
