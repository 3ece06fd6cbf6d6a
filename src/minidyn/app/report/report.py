"""The report: an estimate and its tests as one HTML file.

The page: one file that asks nothing of the network, forbids it even, and holds its own style, script and data.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from minidyn.app.report.facts import Facts, gather
from minidyn.app.report.html import Html, Section, data_block, tag
from minidyn.app.report.robot_figure import scene_data
from minidyn.app.report.robot_scene import scene_of
from minidyn.app.report.section_experiment import excitation_section, plan_section
from minidyn.app.report.section_model import certificate_section, parameter_section
from minidyn.app.report.section_robot import base_section, robot_section
from minidyn.app.report.section_summary import notices_section, summary_section
from minidyn.app.report.section_torque import residual_section, runs_of, torque_section
from minidyn.app.report.section_use import code_section, control_section, record_section
from minidyn.app.report.series import series_data
from minidyn.errors import DescriptionError, MinidynError
from minidyn.files import write_atomically
from minidyn.identification.estimate import Estimate
from minidyn.identification.validate import Validation
from minidyn.recording.lazy import LazyRecording
from minidyn.recording.recording import Recording
from minidyn.text import count, visible

if TYPE_CHECKING:
    from minidyn.excitation.one_joint_plan import Plan
    from minidyn.identification.cross_validate import CrossValidation
    from minidyn.identification.one_joint.one_joint import OneJointEstimate
    from minidyn.simulation.case_study import CaseStudy


def page(facts: Facts, title: str, sections: Sequence[Section], data: dict[str, Any]) -> str:
    """Return the whole file as text."""
    style, script = _asset("style.css"), _asset("view.js")
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=_policy(style, script)),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("meta", name="referrer", content="no-referrer"),
        tag("meta", name="generator", content=f"minidyn {facts.versions.get('minidyn', '')}"),
        tag("title", title),
        Html(f"<style>{style}</style>"),
    )
    names = tag("ul", *(tag("li", tag("a", section.title, href=f"#{section.key}")) for section in sections))
    robot = facts.estimate.robot
    body = tag(
        "body",
        tag("a", "Skip to the summary", href="#summary", class_="skip"),
        tag(
            "header",
            tag(
                "div",
                tag("p", "minidyn · identification report", class_="kicker"),
                tag("h1", title),
                tag("p", f"{robot.n} joints · {count(facts.estimate.samples)} samples · {facts.made}", class_="quiet"),
            ),
            tag("button", "Dark", type="button", id="theme", class_="screen-only", hidden=True),
        ),
        tag("nav", tag("details", tag("summary", "Contents"), names, open=True), aria_label="Contents"),
        tag("p", role="status", id="status", class_="hidden"),
        tag("main", *(section.html() for section in sections), id="main"),
        tag(
            "footer",
            tag("p", f"Made by minidyn {facts.versions.get('minidyn', '')}. This file is complete: it loads nothing."),
        ),
        data_block("data", data),
        Html(f"<script>{script}</script>"),
    )
    return "<!DOCTYPE html>\n" + tag("html", head, body, lang="en") + "\n"


def _policy(style: str, script: str) -> str:
    """Nothing from anywhere; this style and this script alone."""
    return (
        f"default-src 'none'; style-src '{_digest(style)}'; script-src '{_digest(script)}'; base-uri 'none'; "
        "form-action 'none'"
    )


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


@cache
def _asset(name: str) -> str:
    return files("minidyn.app.report").joinpath(name).read_text(encoding="utf-8")


Run = Recording | LazyRecording | Validation
"""A recording, or the errors of the model on one."""

_POINTS = 120_000  # of all signals together, so that the file stays well below 3 MB
_MOST = 4000  # of one signal
_LEAST = 60


def report(
    path: str | Path,
    estimate: Estimate,
    validation: Run | Mapping[str, Run] | None = None,
    *,
    fit: Run | None = None,
    cross_validation: CrossValidation | None = None,
    plan: Plan | None = None,
    one_joint: OneJointEstimate | None = None,
    case_study: CaseStudy | None = None,
    details: Mapping[str, Any] | None = None,
    title: str | None = None,
    code: bool = True,
) -> Path:
    """Write a report on an identified model: one HTML file, complete in itself, for screens, phones and paper.

    Args:
        path: File to write, ending in .html; whole or not at all.
        estimate: From :func:`minidyn.identify` or :func:`minidyn.load_estimate`.
        validation: Runs that were not fitted: one, or several by name; recordings or results of
            :func:`minidyn.validate`.
        fit: The recording that was fitted, or the model's errors on it; the recording also shows the motion.
        cross_validation: From :func:`minidyn.cross_validate`: the test where there is no other run.
        plan: From :func:`minidyn.one_joint_plan`.
        one_joint: From :func:`minidyn.identify_one_joint`, compared with the estimate.
        case_study: Adaptive control with an unknown load.
        details: Further lines for the record: file names, hashes, commands.
        title: Heading; None: the robot's name.
        code: Whether to count operations and measure the speed of the generated functions (about a second).

    Returns:
        The path that was written.

    Raises:
        DescriptionError: The file cannot be written.
        MinidynError: A recording does not fit the robot or has no torques.
    """
    target = Path(path)
    if target.suffix.lower() not in (".html", ".htm"):
        raise DescriptionError(f"{target}: a report is one HTML file; give a name that ends in .html")
    if not isinstance(estimate, Estimate):
        raise MinidynError(f"report: expected an Estimate second, got {type(estimate).__name__}")
    text = report_text(
        estimate,
        validation,
        fit=fit,
        cross_validation=cross_validation,
        plan=plan,
        one_joint=one_joint,
        case_study=case_study,
        details=details,
        title=title,
        code=code,
    )
    write_atomically(target, text.encode("utf-8"))
    return target


def report_text(
    estimate: Estimate,
    validation: Run | Mapping[str, Run] | None = None,
    *,
    title: str | None = None,
    details: Mapping[str, Any] | None = None,
    **options: Any,
) -> str:
    """Return the report as text; arguments as for :func:`report`."""
    held_out: Mapping[str, Run]
    if isinstance(validation, Recording | LazyRecording | Validation):
        held_out = {"validation run": validation}
    else:
        held_out = validation or {}
    for name in ("fit", "cross_validation", "plan", "one_joint", "case_study"):
        options.setdefault(name, None)
    options.setdefault("code", True)
    facts = gather(estimate, held_out=held_out, details=details or {}, **options)
    scene = scene_of(estimate.robot)
    sections = [
        summary_section(facts),
        notices_section(facts),
        torque_section(facts),
        residual_section(facts),
        robot_section(facts, scene),
        base_section(facts),
        plan_section(facts),
        excitation_section(facts),
        parameter_section(facts),
        certificate_section(facts),
        code_section(facts),
        control_section(facts),
        record_section(facts),
    ]
    runs = list(runs_of(facts))
    signals = 3 * estimate.robot.n * max(len(runs), 1)
    groups = int(min(_MOST, max(_LEAST, _POINTS // signals)))
    data = {"robot": scene_data(scene), "runs": {key: series_data(run, groups) for key, _, run in runs}}
    heading = title or f"Dynamic model of {visible(estimate.robot.name) or 'a robot'}"
    return page(facts, heading, [section for section in sections if section is not None], data)
