"""What a report tells, gathered from result values once, before anything is drawn."""

from __future__ import annotations

import platform
import time
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

import numpy as np

from minidyn.arrays import Array
from minidyn.base.base_parameters import base_parameters
from minidyn.base.closed_form.mlc import InertiaConstants, inertia_constants
from minidyn.base.closed_form.structure import Structure
from minidyn.dynamics.kernel import compile_kernel
from minidyn.errors import MinidynError
from minidyn.identification.consistency.certificate import Certificate
from minidyn.identification.estimate import Estimate
from minidyn.identification.validate import Validation, prepared_for, validate
from minidyn.recording.lazy import LazyRecording
from minidyn.recording.recording import Recording

if TYPE_CHECKING:
    from minidyn.excitation.one_joint_plan import Plan
    from minidyn.identification.cross_validate import CrossValidation
    from minidyn.identification.one_joint.one_joint import OneJointEstimate
    from minidyn.simulation.case_study import CaseStudy


_FUNCTIONS = ("inverse_dynamics", "inertia_matrix", "forward_dynamics", "base_regressor")
_BATCH = 2048


@dataclass(frozen=True)
class CodeFact:
    """What one function of the identified robot costs.

    Attributes:
        what: Name of the function.
        counts: Operations of one sample by kind: mul, add, div, sincos.
        nanoseconds: One sample of a large batch, one core of the machine that made the report.
    """

    what: str
    counts: Mapping[str, int]
    nanoseconds: float


@dataclass(frozen=True)
class Rule:
    """What the closed-form rule says of the robot, or why it does not apply.

    Attributes:
        structure: r, s and the reasons; None where the rule does not apply.
        constants: Of each composite body; empty where the rule does not apply.
        names: Names of the combinations, joint by joint.
        why_not: In words; empty where the rule applies.
    """

    structure: Structure | None
    constants: tuple[InertiaConstants, ...]
    names: tuple[str, ...]
    why_not: str = ""


@dataclass(frozen=True, eq=False)
class Facts:
    """Everything the sections read.

    Attributes:
        estimate: The identified model.
        fit: Its errors on the data it was fitted to; None where they were not given.
        held_out: Its errors on runs it was not fitted to, by name.
        motion: The fitted recording with speeds and accelerations; None where it was not given or stays on disk.
        cross_validation: Errors on stretches of time that were left out of a fit, one after the other.
        prior: Base parameters before identification (b,), NaN where unknown.
        certificate: Of the model; None where a parameter is unknown.
        rule: The closed-form rule.
        code: Operation counts and speed; empty where they were not asked for.
        plan: Experiments with one joint at a time.
        one_joint: What they gave.
        case_study: Adaptive control with an unknown load.
        details: Further lines of the record: files, hashes, commands.
        versions: Of the software.
        made: When, UTC.
    """

    estimate: Estimate
    fit: Validation | None
    held_out: Mapping[str, Validation]
    motion: Recording | None
    cross_validation: CrossValidation | None
    prior: Array
    certificate: Certificate | None
    rule: Rule
    code: tuple[CodeFact, ...]
    plan: Plan | None
    one_joint: OneJointEstimate | None
    case_study: CaseStudy | None
    details: Mapping[str, Any]
    versions: Mapping[str, str]
    made: str


def gather(
    estimate: Estimate,
    fit: Recording | LazyRecording | Validation | None,
    held_out: Mapping[str, Recording | LazyRecording | Validation],
    *,
    cross_validation: CrossValidation | None,
    plan: Plan | None,
    one_joint: OneJointEstimate | None,
    case_study: CaseStudy | None,
    details: Mapping[str, Any],
    code: bool,
) -> Facts:
    """Return the facts; recordings are predicted here, nothing else is fitted or chosen."""
    ready = _prepared(estimate, fit) if isinstance(fit, Recording | LazyRecording) else None
    fitted = fit if isinstance(fit, Validation) else None if ready is None else validate(estimate, ready)
    return Facts(
        estimate,
        fitted,
        {
            name: run if isinstance(run, Validation) else validate(estimate, _prepared(estimate, run))
            for name, run in held_out.items()
        },
        ready if isinstance(ready, Recording) else None,
        cross_validation,
        _believed(estimate),
        _certificate(estimate),
        _rule(estimate),
        _code(estimate) if code else (),
        plan,
        one_joint,
        case_study,
        details,
        _versions(),
        time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
    )


def _prepared(estimate: Estimate, recording: Recording | LazyRecording) -> Recording | LazyRecording:
    return prepared_for(estimate.robot, recording, estimate.settings.get("preparation"))


def _believed(estimate: Estimate) -> Array:
    """Base parameters of the robot as it was described before, NaN where a value that enters is unknown."""
    values = estimate.base.robot.parameters
    if np.array_equal(values, estimate.robot.parameters, equal_nan=True):
        return np.full(len(estimate.beta), np.nan)  # nothing is left of what was believed
    missing = np.isnan(values)
    matrix = estimate.base.matrix
    unknown = (np.abs(matrix) > 0.0) @ missing
    return np.where(unknown, np.nan, matrix @ np.where(missing, 0.0, values))


def _certificate(estimate: Estimate) -> Certificate | None:
    try:
        return estimate.certificate
    except MinidynError:
        return None


def _rule(estimate: Estimate) -> Rule:
    try:
        found = base_parameters(estimate.robot, "mlc")
        return Rule(found.structure, inertia_constants(estimate.robot), found.names)
    except MinidynError as error:
        return Rule(None, (), (), str(error))


def _code(estimate: Estimate) -> tuple[CodeFact, ...]:
    robot = estimate.robot
    rng = np.random.default_rng(0)
    found = []
    for what in _FUNCTIONS:
        try:
            kernel = compile_kernel(robot, what, base=estimate.base if what == "base_regressor" else None)
        except MinidynError:
            continue  # loops that must be solved for have no closed program
        arrays = [rng.uniform(-1.0, 1.0, (_BATCH, argument.size)) for argument in kernel.function.arguments]
        out = kernel(*arrays)
        best = np.inf
        for _ in range(12):
            start = time.perf_counter()
            kernel(*arrays, out=out)
            best = min(best, time.perf_counter() - start)
        found.append(CodeFact(what, kernel.counts, 1e9 * best / _BATCH))
    return tuple(found)


def _versions() -> dict[str, str]:
    found = {}
    for name in ("minidyn", "numpy", "scipy", "llvmlite"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:  # a checkout that was never installed
            continue
    found["Python"] = platform.python_version()
    found["system"] = f"{platform.system()} {platform.machine()}"
    return found
