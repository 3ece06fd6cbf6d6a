"""May a model be used? One rule for each thing that can be wrong with it, all limits in one place.

The report, the shell (`--require pass`), study files (table [verdict]) and `--json` all read the
verdict made here.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from math import inf
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from minidyn.errors import DescriptionError, MinidynError, UnknownName
from minidyn.identification.diagnose.thresholds import MOST
from minidyn.notices import (
    BY_GRADE,
    CONSEQUENCES,
    GRADES,
    Grade,
    worth_telling,
)
from minidyn.text import markdown_table, number, percent, short, visible

if TYPE_CHECKING:
    from minidyn.identification.cross_validate import CrossValidation
    from minidyn.identification.estimate import Estimate
    from minidyn.identification.validate import Validation

_OWN_RULES = ("validate.fitted_data", "identify.poor_excitation")
"""Codes of notices that have a rule of their own."""


@dataclass(frozen=True)
class Limits:
    """The limits of all rules; a study file sets them in its table [verdict].

    They are a beginner's rule, not a standard: a controller that needs gravity torques alone may be
    content with more, a collision detector asks for less.

    Attributes:
        error: Torque error on test data up to which a model passes, share of the measured torque. A
            feedforward that leaves a tenth to the controller is good; sensors of joint torque are
            rarely better than a few percent.
        error_poor: Beyond this error it should not be used.
        joint_error: Error of a single joint without measurement noise, share of that joint's own
            torque. Wider than `error`: a wrist that carries little torque shows friction and cables
            more than a shoulder does.
        joint_error_poor: Beyond this error of any joint the model should not be used: half of the
            torque is missing.
        joint_raw: Error of a single joint with everything that was measured, noise too. White noise
            of a lightly loaded joint is no fault of the model, so that this is wide; but where
            nearly half of the measured torque is not followed, nobody knows whether it is noise,
            and the model is not called good.
        systematic_share: Share of a joint's residual power that is systematic (autocorrelated, or a
            bias) up to which the residual counts as noise.
        systematic_error: Systematic residuals smaller than this share of the joint's torque do not
            matter: without noise everything that is left is systematic, however small.
        overlap: Share of the test data that may have been fitted, too: above it, it is fitted data.
            Not zero: robots that wait in the same place in every run, and small noise, give a few
            equal samples.
        overfit: How many times larger than on the fitted data the error may be (where it is above
            `error`).
        prior: How many times the error of the prior that of the model may be.
        condition: Condition number up to which excitation is called good. Beyond it, it is where
            the torques of all motions are known all the same.
        small: Residuals without noise up to this share of a joint's effort limit do not count
            against the joint, however little torque it carries.
        small_torque: Nor do those up to this share of the largest torque of any joint.
    """

    error: float = 0.10
    error_poor: float = 0.30
    joint_error: float = 0.20
    joint_error_poor: float = 0.50
    joint_raw: float = 0.40
    systematic_share: float = 0.50
    systematic_error: float = 0.10
    overlap: float = 0.05
    overfit: float = 2.0
    prior: float = 1.1
    condition: float = 200.0
    small: float = 0.02
    small_torque: float = 0.01

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if (
                isinstance(value, bool)
                or not isinstance(value, int | float)
                or not 0 <= value < math.inf
            ):
                raise DescriptionError(f"limit {name}: expected a number from 0, got {value!r}")

    @classmethod
    def of(cls, values: Limits | Mapping[str, float] | None) -> Limits:
        """Return limits as they are, or the default ones with some values replaced.

        Raises:
            UnknownName: No limit has such a name.
        """
        if isinstance(values, Limits):
            return values
        known = [one.name for one in fields(cls)]
        for name in values or {}:
            if name not in known:
                raise UnknownName("limit", name, known)
        return cls(**dict(values or {}))


@dataclass(frozen=True)
class Rule:
    """One rule and what became of it.

    Attributes:
        name: Which rule: "error", "joint_error", "consistent", ...
        ok: Whether it is met.
        level: "good" where it is met, else how serious it is: "caution" or "bad".
        value: What was found; None where it is no number.
        limit: What is allowed; None where it is no number.
        joint: Name of the joint; "" where the rule is about the whole model.
        text: The finding as a clause about the model: "its torque error on test data is 12 %".
    """

    name: str
    ok: bool
    level: Grade
    value: float | None
    limit: float | None
    joint: str
    text: str

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        finite = self.value is not None and math.isfinite(self.value)
        return asdict(self) | {"value": self.value if finite else None}


@dataclass(frozen=True)
class Verdict:
    """Whether a model may be used, and why.

    Attributes:
        rules: Every rule, met or not, the most serious first.
        limits: By which they were judged.
        verified: What was checked in addition, and what was not, as clauses.
    """

    rules: tuple[Rule, ...]
    limits: Limits
    verified: tuple[str, ...] = ()

    @property
    def level(self) -> Grade:
        """The level of the most serious rule."""
        return max((rule.level for rule in self.rules), key=GRADES.index, default="good")

    @property
    def ok(self) -> bool:
        """Whether every rule is met."""
        return self.level == "good"

    @property
    def headline(self) -> str:
        """The level in words."""
        return BY_GRADE[self.level].model

    @property
    def failed(self) -> tuple[Rule, ...]:
        """The rules that are not met, the most serious first."""
        return tuple(rule for rule in self.rules if not rule.ok)

    def table(self) -> str:
        """Return a Markdown table of all rules."""
        rows = (
            (
                rule.name,
                rule.joint,
                "pass" if rule.ok else rule.level,
                *("" if x is None else f"{x:.3g}" for x in (rule.value, rule.limit)),
            )
            for rule in self.rules
        )
        return markdown_table("lllrr", ("rule", "joint", "result", "found", "limit"), rows)

    def to_json(self) -> dict[str, Any]:
        """Return plain values: ok, level, every rule, the limits."""
        rules = [rule.to_json() for rule in self.rules]
        about: dict[str, Any] = {"ok": self.ok, "level": self.level, "headline": self.headline}
        about["verified"] = list(self.verified)
        return about | {"rules": rules, "limits": asdict(self.limits)}

    def __repr__(self) -> str:
        return f"Verdict({self.level}: {len(self.failed)} of {len(self.rules)} rules are not met)"


def judge(
    estimate: Estimate,
    tests: Mapping[str, Validation],
    *,
    fit: Validation | None = None,
    cross_validation: CrossValidation | None = None,
    limits: Limits | Mapping[str, float] | None = None,
) -> Verdict:
    """Return the verdict on a model.

    Args:
        estimate: The model.
        tests: Its errors on test data, by name.
        fit: Its errors on the data it was fitted to, where known.
        cross_validation: Errors on stretches of the fitted log that were left out one after the
            other: the test where there is no other run.
        limits: Of the rules; None: the default ones; a mapping replaces some of them.
    """
    found = Limits.of(limits)
    runs = [run.per_joint for run in unseen(tests, found).values()]
    if not runs and cross_validation is not None:
        runs = [cross_validation.per_joint]
    rules = [*_model_rules(estimate, found), *_run_rules(tests, fit, cross_validation, found)]
    rules += [*_joint_rules(runs, found, _efforts(estimate)), *_notice_rules(estimate, tests)]
    ordered = tuple(sorted(rules, key=lambda rule: -GRADES.index(rule.level)))
    return Verdict(ordered, found, (_scale_words(estimate),))


def _scale_words(estimate: Estimate) -> str:
    """Say whether the scale of the torques was checked: torques alone do not show it."""
    by_code = {notice.code: notice for notice in estimate.notices}
    for code in ("signals.torque_scale", "signals.other_cause", "signals.unlike_file"):
        if code in by_code:
            return "the torques were checked against the robot file, and are not those of the file"
    checked = by_code.get("signals.scale_checked")
    if checked is None:
        unknown = by_code.get("signals.nothing_to_compare")
        is_known = unknown is None or set(unknown.data["joints"]) < set(estimate.robot.joint_names)
        why = "the robot file explains too little of them" if is_known else "no known masses"
        return f"the scale of the torques was not checked: {why}"
    joints, others = checked.data["joints"], checked.data["others"]
    words = (
        f"the scale of the torques was checked to within ±{percent(checked.data['within'])} "
        "against the robot file"
    )
    if others:
        words += f" at {_listed(joints)}; not at {_listed(others)}"
    return words


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - 6} more" if len(names) > 6 else ""
    return ", ".join(short(name) for name in names[:6]) + more


def unseen(tests: Mapping[str, Validation], limits: Limits) -> dict[str, Validation]:
    """Return the tests whose data were not fitted.

    Where nothing is known of that, they count as such.
    """
    return {name: run for name, run in tests.items() if not (run.overlap or 0.0) > limits.overlap}


def test_error(
    tests: Mapping[str, Validation], cross_validation: CrossValidation | None, limits: Limits
) -> float | None:
    """Return the error on test data: of the worst run, or of cross-validation; None: not known."""
    runs = unseen(tests, limits).values()
    if runs:
        return float(np.max([run.relative_error for run in runs]))  # not a number counts as worst
    return None if cross_validation is None else cross_validation.relative_error


def _rule(
    name: str,
    level: Grade,
    text: str,
    value: float | None = None,
    limit: float | None = None,
    joint: str = "",
) -> Rule:
    return Rule(name, level == "good", level, value, limit, joint, text)


def _graded(error: float, good: float, poor: float) -> tuple[Grade, float]:
    """Return how good an error is, and the limit that says so."""
    if error > poor:
        return "bad", poor
    return "caution" if error > good else "good", good


def separation(estimate: Estimate) -> tuple[float, str]:
    """Return the condition number that is judged, and words to put after it.

    Friction terms of one joint that act alike do not make a motion poor: then their sum is judged.
    """
    for notice in estimate.notices:
        if notice.code == "identify.friction_terms_alike":
            return float(notice.data["condition"]), ", the friction of each joint taken as a whole"
    return float(estimate.condition), ""


def is_known_everywhere(estimate: Estimate) -> bool:
    """Say whether parameters that the motion hardly separates hardly act on torques anywhere."""
    return any(notice.code == "identify.uneven_excitation" for notice in estimate.notices)


def _model_rules(estimate: Estimate, limits: Limits) -> Iterator[Rule]:
    """Rules about the model alone."""
    try:
        certificate = estimate.certificate
    except MinidynError:
        text = "some parameters are unknown, so physical consistency cannot be checked"
        yield _rule("consistent", "caution", text)
    else:
        reasons = "; ".join(certificate.reasons()[:2])
        text = f"it is not physically consistent ({reasons})"
        if certificate.consistent:
            text = "it is physically consistent"
        yield _rule("consistent", "good" if certificate.consistent else "bad", text)
    condition, words = separation(estimate)
    level: Grade = "good"
    text = "the motion separates the parameters"
    if condition > limits.condition and is_known_everywhere(estimate):
        text = "what the motion does not separate hardly acts"
    elif not condition <= limits.condition:
        level, text = "caution", "the motion separates some parameters badly"
    text += f" (condition number {number(condition)}{words})"
    yield _rule("condition", level, text, condition, limits.condition)


def _run_rules(
    tests: Mapping[str, Validation],
    fit: Validation | None,
    crossed: CrossValidation | None,
    limits: Limits,
) -> Iterator[Rule]:
    """Rules about the errors over all joints."""
    for name, run in tests.items():
        yield _seen_rule(name, run, limits)
    runs, error = unseen(tests, limits), test_error(tests, crossed, limits)
    fitted = None if fit is None else fit.relative_error
    if error is None:
        yield _rule("tested", "caution", "it was not tested on data it was not fitted to")
        worst = max([*(run.relative_error for run in tests.values()), fitted or 0.0])
        if worst > limits.error_poor:
            text = f"its torque error is {percent(worst)} even on the data it was fitted to"
            yield _rule("error", "bad", text, worst, limits.error_poor)
        return
    yield _rule("tested", "good", "it was tested on data it was not fitted to")
    yield _error_rule(error, runs, limits)
    if fitted and math.isfinite(error):
        text = (
            f"its error on test data is {number(error / fitted, 2)} times that on the fitted data"
        )
        over = error > max(limits.overfit * fitted, limits.error)
        yield _rule("overfit", "caution" if over else "good", text, error / fitted, limits.overfit)
    ratios = {
        run.relative_error / run.prior_relative_error: run.prior_relative_error
        for run in runs.values()
        if run.prior_relative_error > 0 and math.isfinite(run.relative_error)
    }
    if ratios:
        ratio = max(ratios)
        level: Grade = "bad" if ratio > limits.prior else "good"
        words = "better" if level == "bad" else "not better"
        text = f"the prior is {words} (error {percent(ratios[ratio])})"
        yield _rule("prior", level, text, ratio, limits.prior)


def _seen_rule(name: str, run: Validation, limits: Limits) -> Rule:
    """Say whether test data were fitted."""
    level: Grade = "good"
    text = f"{visible(name)} was not fitted"
    if run.overlap is None:
        text = f"whether {visible(name)} was fitted is not known"
    elif run.overlap > limits.overlap:
        level, text = "caution", f"{visible(name)} is fitted data: {seen_words(run.overlap)}"
    return _rule("fitted_data", level, text, run.overlap, limits.overlap)


def seen_words(overlap: float) -> str:
    """Return in words which share of the tested samples was fitted."""
    share = percent(overlap) if overlap < MOST else "all" if overlap > 0.995 else "nearly all"
    return f"{share} of its samples were fitted, so that its error says nothing about new motion"


def _error_rule(error: float, runs: Mapping[str, Validation], limits: Limits) -> Rule:
    silent = [visible(name) for name, run in runs.items() if not math.isfinite(run.relative_error)]
    if silent:
        text = (
            f"no torque error can be computed on {', '.join(silent[:3])} (is the measured torque "
            "zero throughout?)"
        )
        return _rule("error", "bad", f"{text}: test it on a run with torques", None, limits.error)
    level, limit = _graded(error, limits.error, limits.error_poor)
    text = f"its torque error on test data is {percent(error)}"
    if level == "caution":
        noise = noise_words(runs, limits)
        text += f"; good is up to {percent(limits.error)}" + f"; {noise}" * bool(noise)
    return _rule("error", level, text, error, limit)


def noise_words(runs: Mapping[str, Validation], limits: Limits) -> str:
    """Say where an error is large because the measured torque is noisy.

    No model follows that; "" where it is not.
    """
    worst = max(runs.values(), key=lambda run: run.relative_error, default=None)
    if worst is None or not worst.filtered_relative_error <= limits.error:
        return ""
    left = percent(worst.filtered_relative_error)
    return f"most of it is noise of the measured torque, without noise the error is {left}"


def _efforts(estimate: Estimate) -> dict[str, float]:
    """Return the effort limit of each joint."""
    joints = estimate.robot.joints
    return {joints[k].name: joints[k].limits.effort for k in estimate.robot.independent}


def _allowed(run: Mapping[str, Mapping[str, float]], effort: float, limits: Limits) -> float:
    """Return the residual of a joint that is small for its drive, or for the robot, N m or N."""
    largest = max((entry.get("largest_torque", 0.0) for entry in run.values()), default=0.0)
    share = limits.small * effort if math.isfinite(effort) else 0.0
    return max(share, limits.small_torque * largest)


def _joint_rules(
    runs: Sequence[Mapping[str, Mapping[str, float]]],
    limits: Limits,
    efforts: Mapping[str, float],
) -> Iterator[Rule]:
    """Rules about each joint, by the run in which it is worst.

    Residuals that are small for the drive, or for the robot, do not count.
    """
    for joint in dict.fromkeys(name for run in runs for name in run):
        effort = efforts.get(joint, math.nan)
        pairs = [(run[joint], _allowed(run, effort, limits)) for run in runs if joint in run]
        yield _error_of_joint(joint, pairs, limits)
        yield _raw_of_joint(joint, pairs, limits)
        yield _systematic_of_joint(joint, pairs, limits)


_Pairs: TypeAlias = Sequence[tuple[Mapping[str, float], float]]  # figures of a run, what is small


def _counted(pairs: _Pairs, residual: str) -> list[Mapping[str, float]]:
    """Return the figures of runs in which a residual is not small."""
    return [entry for entry, small in pairs if not entry.get(residual, inf) <= small]


def _error_of_joint(joint: str, pairs: _Pairs, limits: Limits) -> Rule:
    """Judge the error without noise."""
    counted = _counted(pairs, "systematic_rmse")
    entries = counted or [entry for entry, _ in pairs]
    error = max(entry.get("systematic_error", entry["relative_error"]) for entry in entries)
    level, limit = _graded(error, limits.joint_error, limits.joint_error_poor)
    text = f"the torque error of {short(joint)} on test data is {percent(error)} without noise"
    if not counted and level != "good":
        residual = number(max(entry["systematic_rmse"] for entry in entries))
        text = f"the residual of {short(joint)} is {residual} N m or N, little for its drive"
        level, limit = "good", limits.joint_error
    return _rule("joint_error", level, text, error, limit, joint)


def _raw_of_joint(joint: str, pairs: _Pairs, limits: Limits) -> Rule:
    """Judge the error with everything that was measured."""
    counted = _counted(pairs, "rmse")
    raw = max(entry["relative_error"] for entry in counted or [entry for entry, _ in pairs])
    level: Grade = "caution" if counted and raw > limits.joint_raw else "good"
    text = f"{percent(raw)} of the measured torque of {short(joint)} is not followed, noise or not"
    return _rule("joint_raw", level, text, raw, limits.joint_raw, joint)


def _systematic_of_joint(joint: str, pairs: _Pairs, limits: Limits) -> Rule:
    """Judge the share of the residual that is systematic, where it is large."""
    large = [
        entry["systematic_share"]
        for entry in _counted(pairs, "systematic_rmse")
        if entry.get("systematic_error", 0.0) > limits.systematic_error
    ]
    share = max(large, default=0.0)
    level: Grade = "caution" if share > limits.systematic_share else "good"
    text = f"{percent(share)} of the residual of {short(joint)} is systematic, not noise"
    if not large:
        text = f"the residual of {short(joint)} is noise, or small"
    return _rule("joint_systematic", level, text, share, limits.systematic_share, joint)


def _notice_rules(estimate: Estimate, tests: Mapping[str, Validation]) -> Iterator[Rule]:
    """Errors and warnings, as the table of levels says (`minidyn.notices.CONSEQUENCES`)."""
    known = [*estimate.notices, *(notice for run in tests.values() for notice in run.notices)]
    asking = [one for one in worth_telling(known) if one.code not in _OWN_RULES]
    for notice in asking:
        joint = notice.data.get("joint")
        yield _rule(
            "notice",
            CONSEQUENCES[notice.level].grade,
            f"{notice.text} ({notice.code})",
            joint=joint if isinstance(joint, str) else "",
        )
    if not asking:
        yield _rule("notice", "good", "no notice is an error or a warning")
