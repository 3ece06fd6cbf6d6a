"""The report: an estimate and its tests as one HTML file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from minidyn.errors import DescriptionError, MinidynError
from minidyn.experiment.lazy import LazyRecording
from minidyn.experiment.recording import Recording
from minidyn.identification.estimate import Estimate
from minidyn.identification.validate import Validation
from minidyn.model.load.text_file import write_atomically
from minidyn.reporting.facts import gather
from minidyn.reporting.html import visible
from minidyn.reporting.page import page
from minidyn.reporting.robot_figure import scene_data
from minidyn.reporting.robot_scene import scene_of
from minidyn.reporting.section_experiment import excitation_section, plan_section
from minidyn.reporting.section_model import certificate_section, parameter_section
from minidyn.reporting.section_robot import base_section, robot_section
from minidyn.reporting.section_summary import notices_section, summary_section
from minidyn.reporting.section_torque import residual_section, runs_of, torque_section
from minidyn.reporting.section_use import code_section, control_section, record_section
from minidyn.reporting.series import series_data

if TYPE_CHECKING:
    from minidyn.experiment.case_study import CaseStudy
    from minidyn.experiment.one_joint_plan import Plan
    from minidyn.identification.cross_validate import CrossValidation
    from minidyn.identification.one_joint import OneJointEstimate

__all__ = ["report"]

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
