"""The verdict: may this model be used, why, and what comes next. Its thresholds are here and nowhere else."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from minidyn.app.report.facts import Facts
from minidyn.notices import most_serious_first
from minidyn.text import number, percent, short

ERROR_GOOD = 0.10
"""Error on unseen motion up to which a model is called good, a share of the torque."""
ERROR_POOR = 0.30
"""Error beyond which it should not be used."""
CONDITION_GOOD = 200.0
"""Condition number up to which excitation is called good."""
WEAK = 0.3
"""Relative standard deviation beyond which a parameter is called weak."""
_COLOURED = 0.3  # a residual more foreseeable than this is not noise
_OVERFIT = 2.0  # unseen motion this many times worse than the fit


@dataclass(frozen=True)
class Verdict:
    """What the report says first.

    Attributes:
        level: "good", "caution" or "bad".
        headline: Three or four words.
        sentence: What the model can do.
        reasons: What speaks against it; empty for a good one.
        steps: What to do next: (words, command or empty).
    """

    level: str
    headline: str
    sentence: str
    reasons: tuple[str, ...]
    steps: tuple[tuple[str, str], ...]


def judge(facts: Facts) -> Verdict:
    """Return the verdict on an estimate."""
    unseen = unseen_error(facts)
    fitted = None if facts.fit is None else facts.fit.relative_error
    bad: list[str] = []
    doubts: list[str] = []
    if facts.certificate is None:
        doubts.append("some parameters are unknown, so that nobody can say whether such a robot can exist")
    elif not facts.certificate.consistent:
        bad.append("no robot can have these parameters (" + "; ".join(facts.certificate.reasons()[:2]) + ")")
    silent = [name for name, run in facts.held_out.items() if not np.isfinite(run.relative_error)]
    if silent:
        bad.append(
            f"no torque error can be told on {', '.join(short(name) for name in silent[:3])} (is the measured torque "
            "zero throughout?): test it on a run with torques"
        )
    if unseen is not None and unseen > ERROR_POOR:
        bad.append(f"its torque error on unseen motion is {percent(unseen)}")
    elif unseen is not None and unseen > ERROR_GOOD:
        doubts.append(
            f"its torque error on unseen motion is {percent(unseen)}, where {percent(ERROR_GOOD)} would be good"
            + _noise(facts)
        )
    if unseen is not None and fitted is not None and unseen > max(_OVERFIT * fitted, ERROR_GOOD):
        doubts.append(
            f"it is {number(unseen / fitted, 2)} times worse on unseen motion than on the data it was fitted to"
        )
    for run in facts.held_out.values():
        if run.prior_relative_error < 0.9 * run.relative_error:
            bad.append(f"the values from before identification are better (error {percent(run.prior_relative_error)})")
            break
    if unseen is None:
        doubts.append("it was not tested on motion it was not fitted to")
        if fitted is not None and fitted > ERROR_POOR:
            bad.append(f"it does not even explain the data it was fitted to (error {percent(fitted)})")
    if facts.estimate.condition > CONDITION_GOOD:
        doubts.append(
            f"the motion separates some parameters badly (condition number {number(facts.estimate.condition)})"
        )
    level = "bad" if bad else "caution" if doubts else "good"
    headline = {"good": "Ready to use", "caution": "Usable with care", "bad": "Not to be used yet"}[level]
    return Verdict(level, headline, _sentence(facts, unseen, fitted), (*bad, *doubts), _steps(facts, level))


def unseen_error(facts: Facts) -> float | None:
    """Return the error on motion that was not fitted: of the worst run, or of stretches left out; None: not known."""
    if facts.held_out:
        return float(np.max([run.relative_error for run in facts.held_out.values()]))  # not a number counts as worst
    return None if facts.cross_validation is None else facts.cross_validation.relative_error


def _noise(facts: Facts) -> str:
    """Say where an error is large because the measured torque is noisy: no model follows that."""
    if not facts.held_out:
        return ""
    worst = max(facts.held_out.values(), key=lambda run: run.relative_error)
    if not worst.filtered_relative_error <= ERROR_GOOD:
        return ""
    return f"; most of it is noise of the measured torque, without it {percent(worst.filtered_relative_error)} are left"


def _sentence(facts: Facts, unseen: float | None, fitted: float | None) -> str:
    if unseen is not None:
        count = len(facts.held_out)
        runs = "a run it has never seen" if count == 1 else f"{count} runs it has never seen"
        if not count:
            runs = "stretches of time that were left out of the fit"
        text = f"The model predicts the joint torques of {runs} with an error of {percent(unseen)}"
    elif fitted is not None:
        text = f"The model explains the joint torques it was fitted to with an error of {percent(fitted)}"
    else:
        text = f"The model was identified from {facts.estimate.samples} samples; no recording was given to test it"
    if facts.certificate is None:
        return text + "."
    return text + (
        ", and its masses and inertias are physically possible."
        if facts.certificate.consistent
        else ", but its masses and inertias are physically impossible."
    )


def _missing(facts: Facts) -> tuple[str, str]:
    """What a model with large errors probably lacks."""
    friction = any(column.is_friction for column in facts.estimate.robot.layout.columns)
    if not friction:
        return "The model has no friction: let it be identified.", "minidyn identify ROBOT LOG --friction auto"
    run = next(iter(facts.held_out.values()), facts.fit)
    names = [] if run is None else [name for name, entry in run.per_joint.items() if entry["whiteness"] > _COLOURED]
    where = f" of {', '.join(short(name) for name in names[:4])}" if names else ""
    return (
        f"Look at the residuals{where}: what repeats itself is not noise. Elasticity, cables, friction that changes "
        "with temperature or load, wrong units or signs of single joints look like that.",
        "",
    )


def _steps(facts: Facts, level: str) -> tuple[tuple[str, str], ...]:
    steps: list[tuple[str, str]] = []
    if not facts.held_out and facts.cross_validation is None:
        steps.append(
            (
                "Record one more, different motion and test the model on it.",
                "minidyn report estimate.json other-log.csv --output report.html",
            )
        )
    if facts.estimate.condition > CONDITION_GOOD:
        steps.append(("Record a richer motion: more joints at once, faster, further.", ""))
    if facts.certificate is not None and not facts.certificate.consistent:
        steps.append(("Let the physics take part in the fit.", "minidyn identify ROBOT LOG --consistent"))
    unseen = unseen_error(facts)
    if unseen is not None and unseen > ERROR_GOOD and not _noise(facts):
        steps.append(_missing(facts))
    if any(one.level == "act" for one in most_serious_first(facts.estimate.notices)):
        steps.append(("Read the notices below that ask for action.", ""))
    if level != "bad":
        steps.append(
            (
                "Put the model to work, from its FOLDER: robot.urdf for simulators, C code for your controller.",
                "minidyn generate FOLDER/robot.toml inverse_dynamics --target c --output code",
            )
        )
    if level == "good":
        weak = int(np.sum(~(facts.estimate.relative_std <= WEAK)))
        if weak:
            steps.append(
                (
                    f"{weak} parameters are weakly determined. For motions unlike the recorded ones, record those too.",
                    "",
                )
            )
    return tuple(steps)
