"""The report: an estimate and its tests as one HTML file.

The file asks nothing of the network, forbids it even, and holds its own style, script and data. A
section is a function of the facts that returns a Section, or None where it has nothing to show;
`SECTIONS` is their order on the page.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

from minidyn.app.report.facts import Facts, places_of
from minidyn.app.report.section_decisions import decisions_section
from minidyn.app.report.section_friction import flexibility_section, friction_section
from minidyn.app.report.section_model import (
    base_section,
    certificate_section,
    excitation_section,
    links_section,
)
from minidyn.app.report.section_more import (
    code_section,
    control_section,
    plan_section,
    record_section,
    watch_section,
)
from minidyn.app.report.section_parameters import parameter_section
from minidyn.app.report.section_robot import robot_section
from minidyn.app.report.section_summary import notices_section, summary_section
from minidyn.app.report.section_torque import residual_section, torque_section
from minidyn.errors import DescriptionError, MinidynError
from minidyn.files import check_outputs, write_atomically
from minidyn.identification.estimate import Estimate, as_estimate
from minidyn.identification.validate import Validation, validate
from minidyn.identification.verdict import Limits
from minidyn.pages.html import Section, page
from minidyn.recording.lazy import LazyRecording
from minidyn.recording.ready import as_recording
from minidyn.recording.recording import Recording
from minidyn.text import count, visible

if TYPE_CHECKING:
    from minidyn.control.momentum_observer import Observer
    from minidyn.excitation.one_joint_plan import Plan
    from minidyn.identification.cross_validate import CrossValidation
    from minidyn.simulation.case_study import CaseStudy

SECTIONS: tuple[Callable[[Facts], Section | None], ...] = (
    summary_section,
    notices_section,
    torque_section,
    friction_section,
    decisions_section,
    flexibility_section,
    residual_section,
    links_section,
    robot_section,
    base_section,
    plan_section,
    excitation_section,
    parameter_section,
    certificate_section,
    code_section,
    watch_section,
    control_section,
    record_section,
)
"""The page from top to bottom. A new section is a function in a file of its own and a line here."""

PathLike = str | Path
Run = Recording | LazyRecording | Validation | PathLike
"""A recording, its path, or the errors of the model on one."""

_Function = TypeVar("_Function", bound=Callable[..., Any])


def _paths_last(function: _Function) -> _Function:
    """Accept the order of earlier versions, report(path, estimate, validation), with a warning."""

    @functools.wraps(function)
    def call(*args: Any, **options: Any) -> Any:
        if (
            len(args) > 1
            and isinstance(args[0], PathLike)
            and (_is_page(args[0]) or isinstance(args[1], Estimate))
        ):
            text = (
                "md.report(path, estimate, validation) is now md.report(estimate, validation, path)"
            )
            warnings.warn(text, DeprecationWarning, stacklevel=2)
            return function(*args[1:], path=args[0], **options)
        return function(*args, **options)

    return cast("_Function", call)


@_paths_last
def report(
    estimate: Estimate | PathLike,
    validation: Run | Mapping[str, Run] | None = None,
    path: PathLike = "report.html",
    *,
    fit: Run | None = None,
    cross_validation: CrossValidation | None = None,
    plan: Plan | None = None,
    one_joint: Estimate | None = None,
    case_study: CaseStudy | None = None,
    observer: Observer | None = None,
    details: Mapping[str, Any] | None = None,
    title: str | None = None,
    code: bool = True,
    limits: Limits | Mapping[str, float] | None = None,
) -> Path:
    """Write a report on an identified model.

    One HTML file, complete in itself, for screens, phones and paper.

    Args:
        estimate: From :func:`minidyn.identify`, or the path of a saved one.
        validation: Test data, runs that were not fitted: one, or several by name; recordings, their
            paths, or results of :func:`minidyn.validate`.
        path: File to write, ending in .html; whole or not at all.
        fit: The recording that was fitted (or its path), or the model's errors on it.
        cross_validation: From :func:`minidyn.cross_validate`: the test where there is no other run.
        plan: From :func:`minidyn.one_joint_plan`.
        one_joint: From :func:`minidyn.identify_one_joint`, compared with the estimate.
        case_study: Adaptive control with an unknown load.
        observer: From :func:`minidyn.control.momentum_observer`: the least forces that it finds,
            link by link.
        details: Further lines for the record: file names, hashes, commands.
        title: Heading; None: the robot's name.
        code: Whether to count operations and measure the speed of the generated functions (about a
            second).
        limits: Of the verdict, see :class:`minidyn.Limits`; None: the default ones; a mapping
            replaces some of them.

    Returns:
        The path that was written.

    Raises:
        DescriptionError: A file cannot be read or written.
        MinidynError: A recording does not fit the robot or has no torques.
    """
    if isinstance(validation, PathLike) and _is_page(validation):  # report(estimate, "report.html")
        path = validation
        validation = None
    target, judged = check_page(path), Limits.of(limits)
    model = as_estimate(estimate, "report")
    tests = {name: _errors(model, run) for name, run in _named(validation).items()}
    fitted = None if fit is None else _errors(model, fit)
    known = tuple(str(one) for one in (fit,) if isinstance(one, PathLike))
    places = places_of(model, estimate if isinstance(estimate, PathLike) else None, known)
    shown = cross_validation, plan, one_joint, case_study, details or {}, code, places
    facts = Facts(model, tests, fitted, *shown, limits=judged, observer=observer)
    write_page(facts, target, title)
    return target


def write_page(facts: Facts, target: Path, title: str | None = None) -> None:
    """Write the page of what is known, whole or not at all."""
    sections = [section for make in SECTIONS if (section := make(facts)) is not None]
    heading = title or f"Dynamic model of {visible(facts.estimate.robot.name) or 'a robot'}"
    about = f"{facts.estimate.robot.n} joints · {count(facts.estimate.samples)} samples"
    write_atomically(
        target, page("identification report", heading, about, sections).encode("utf-8")
    )


def check_page(path: PathLike) -> Path:
    """Return the path of a page that can be written.

    Raise DescriptionError where it is no HTML file.
    """
    target = Path(path)
    if not _is_page(target):
        raise DescriptionError(
            f"{target}: a report is one HTML file; give a name that ends in .html"
        )
    check_outputs([target])  # before long work
    return target


def _is_page(path: PathLike) -> bool:
    return Path(path).suffix.lower() in (".html", ".htm")


def _named(runs: Run | Mapping[str, Run] | None) -> Mapping[str, Run]:
    """Test data by name."""
    if isinstance(runs, PathLike):
        return {Path(runs).name: runs}
    if isinstance(runs, Recording | LazyRecording | Validation):
        return {"test run": runs}
    if runs is None or isinstance(runs, Mapping):
        return runs or {}
    raise MinidynError(
        "report: expected test data second (a recording, its path, or several by name), got "
        f"{runs!r}"
    )


def _errors(estimate: Estimate, run: Run) -> Validation:
    return (
        run
        if isinstance(run, Validation)
        else validate(estimate, as_recording(run, estimate.robot))
    )
