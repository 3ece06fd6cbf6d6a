"""`md.check`: a log before any fit.

Is it what it should be, what can it show, and what to record next.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from minidyn.app.report.check_page import write_check
from minidyn.arrays import Array, plain_values, single_thread, solvable
from minidyn.base.base_map import BaseMap
from minidyn.display import DisplayTable
from minidyn.errors import MinidynError
from minidyn.formats.load import RobotLike, as_robot
from minidyn.identification.consistency.prior import prior_parameters
from minidyn.identification.diagnose.diagnose import diagnose
from minidyn.identification.diagnose.excitation import (
    MOTION,
    WEAK,
    relative_deviations,
    with_shown_condition,
)
from minidyn.identification.diagnose.log_facts import (
    HEADINGS,
    JointFacts,
    RunFacts,
    fact_notices,
    log_facts,
    shown_word,
)
from minidyn.identification.diagnose.meaningless import meaningless
from minidyn.identification.diagnose.torque_scales import torque_scales
from minidyn.identification.estimate import Estimate, load_estimate
from minidyn.identification.estimators.method import Options, Solution
from minidyn.identification.estimators.methods import METHODS
from minidyn.identification.inputs import lifted, ready_for
from minidyn.identification.rows.base_rows import (
    fitted_base,
    shown_parameters,
)
from minidyn.identification.select import select, starting_model
from minidyn.identification.settings import Settings
from minidyn.identification.terms.gravity_direction import mounted_as_logged
from minidyn.identification.validate import fitted_notices, overlap_of
from minidyn.identification.verdict import Limits
from minidyn.model.robot import Robot
from minidyn.notices import (
    BY_GRADE,
    Grade,
    Notice,
    about_robot_file,
    error,
    grade_of,
    most_serious_first,
    notices_json,
    warning,
    worth_telling,
)
from minidyn.recording.lazy import AnyRecording, LazyRecording
from minidyn.recording.measured import torques_measured, with_measured_torques
from minidyn.recording.ready import (
    RecordingLike,
    as_recording,
    in_robot_order,
    with_logged_joints,
    with_mapped_coupling,
)
from minidyn.recording.recording import SKETCH, leaving_out
from minidyn.recording.sketch import Sketch, sketch_of, sketched
from minidyn.text import markdown_cell

if TYPE_CHECKING:
    from concurrent.futures import Executor

NOT_FITTED = error(
    "check.not_fitted",
    "No model could be fitted to the log, not even a first one.",
    "Mend what the sentence names; then check again.",
)
_BELONG = (
    "Check that joint {joint} has its own columns, then order and signs of all of them, the unit "
    "of time, and that the log is this robot's. Where all is right, the robot has an effect that "
    "no model has: a spring, a brake, a coupling of joints."
)
NOT_EXPLAINED = error(
    "check.not_explained",
    "A first fit leaves so much of the torques that a model of this log would not be used.",
    _BELONG,
)
LITTLE_EXPLAINED = warning(
    "check.little_explained",
    "A first fit leaves more of the torques than a good model may on test data.",
    _BELONG,
)
NOT_SHOWN = error(
    "check.not_shown",
    "Base parameters that no sample of the log shows: their columns of the regressor are zero.",
    "Move the joints that {parameters[0]} belongs to, or accept that the prior decides.",
)


@dataclass(frozen=True, eq=False)
class Check:
    """What a log is worth before a fit.

    Attributes:
        robot: The robot.
        recording: The log as read, in the robot's joint order.
        joints: Ranges, speeds, torques, noise, reversals, standstill and saturation of each joint.
        runs: Length and rate of each run.
        notices: Everything odd, and what to do about it; most serious first.
        excitation: {base parameter: standard deviation} that a fit will have, relative to the
            parameter's value or, for small ones, to the value that makes up a tenth of a joint's
            torque; infinite where the log does not show it, empty where no fit was possible.
        condition: Condition number of the fit; NaN where there was none.
        overlap: Share of the log, 0 to 1, that is in the fitted data it was compared with; None:
            not known.
    """

    robot: Robot
    recording: AnyRecording
    joints: tuple[JointFacts, ...]
    runs: tuple[RunFacts, ...]
    notices: tuple[Notice, ...]
    excitation: Mapping[str, float] = field(default_factory=dict)
    condition: float = math.nan
    overlap: float | None = None

    @property
    def ok(self) -> bool:
        """Whether no notice is an error or a warning."""
        return self.level == "good"

    @property
    def level(self) -> Grade:
        """Return "good", "caution" (a warning) or "bad" (an error)."""
        return grade_of(self.notices)

    @property
    def headline(self) -> str:
        """The level in words."""
        return BY_GRADE[self.level].log

    @property
    def columns(self) -> dict[str, dict[str, list[str]]]:
        """{file: {signal: its columns}}, as the log was read.

        Empty for recordings that minidyn wrote or made.
        """
        found: dict[str, dict[str, list[str]]] = {}
        for notice in self.recording.notices:
            if notice.code == "recording.columns":
                columns = {
                    name: list(value) for name, value in notice.data.items() if name != "file"
                }
                found[str(notice.data["file"])] = columns
        for notice in self.recording.notices:
            if notice.code in ("recording.time_column", "recording.time_unit_guessed"):
                names = notice.data.get("columns") or [notice.data.get("column")]
                found.setdefault(str(notice.data["file"]), {})["time"] = [
                    f"{n} ({notice.data['unit']})" for n in names
                ]
        return found

    @property
    def next(self) -> list[str]:
        """What to do, and what to record next, most serious first."""
        known = [*worth_telling(self.notices), *self.notices]
        advised = [one for one in known if one.level != "info" or one.code == MOTION.code]
        return list(dict.fromkeys(one.advice for one in advised if one.advice))

    def shown(self, word: str) -> list[str]:
        """Return the base parameters that the log shows "well", "fairly", "weakly" or "not"."""
        return [name for name, relative in self.excitation.items() if shown_word(relative) == word]

    def table(self) -> str:
        """Return the joints as a Markdown table."""
        rows = [f"| {' | '.join(HEADINGS)} |", "|---|---|---|---:|---:|---:|---:|---:|---:|---:|"]
        rows += [
            "| " + " | ".join(markdown_cell(cell) for cell in row) + " |" for row in self.rows()
        ]
        return "\n".join(rows)

    def rows(self) -> list[tuple[str, ...]]:
        """Return the cells of the table of joints, as text."""

        def share(value: float) -> str:
            return f"{100 * value:.2g} %" if math.isfinite(value) else "-"

        def size(value: float) -> str:
            return f"{value:.3g}" if math.isfinite(value) else "-"

        return [
            (
                one.name,
                f"{size(one.least)} to {size(one.most)}",
                f"{size(one.lower)} to {size(one.upper)}" if math.isfinite(one.used) else "none",
                size(one.speed),
                size(one.torque),
                size(one.scale),
                share(one.noise_share),
                str(one.reversals),
                share(one.standstill),
                share(one.saturated),
            )
            for one in self.joints
        ]

    def report(self, path: str | os.PathLike[str] = "check.html") -> Path:
        """Write the check as one HTML file, complete in itself, and return its path."""
        return write_check(self, Path(path))

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        data = {
            "robot": self.robot.name,
            "ok": self.ok,
            "level": self.level,
            "samples": len(self.recording),
            "signals": list(self.recording.signals),
            "columns": self.columns,
            "runs": [vars(run) for run in self.runs],
            "joints": [
                {
                    **vars(one),
                    "used": one.used,
                    "noise_share": one.noise_share,
                    "beyond": one.beyond,
                }
                for one in self.joints
            ],
            "condition": self.condition,
            "overlap": self.overlap,
            "excitation": {
                name: {"relative_std": value, "shown": shown_word(value)}
                for name, value in self.excitation.items()
            },
            "next": self.next,
            "notices": notices_json(self.notices),
        }
        return dict(plain_values(data, finite=True))

    def _repr_html_(self) -> str:
        columns: dict[str, Sequence[Any]] = {"joint": [one.name for one in self.joints]}
        for heading, attribute in (
            ("lowest q", "least"), ("highest q", "most"), ("of its range", "used"), ("speed", "speed"),  # noqa: E501
            ("torque", "torque"), ("over the file's", "scale"),
            ("noise", "noise_share"), ("reversals", "reversals"), ("standstill", "standstill"),
            ("saturated", "saturated"),
        ):  # fmt: skip
            columns[heading] = [getattr(one, attribute) for one in self.joints]
        shares = ("of its range", "noise", "standstill", "saturated")
        return DisplayTable(repr(self), columns, shares, self.notices).to_html()

    def __repr__(self) -> str:
        counts = [
            f"{sum(one.level == level for one in self.notices)} {word}"
            for level, word in _COUNTED.items()
        ]
        shown = len(self.shown("well")) + len(self.shown("fairly"))
        what = (
            f"{shown} of {len(self.excitation)} base parameters shown"
            if self.excitation
            else "no fit possible"
        )
        return (
            f"Check({self.headline.lower()}; {len(self.recording)} samples, {what}; "
            f"{', '.join(counts)})"
        )


_COUNTED = {"error": "errors", "warning": "warnings"}


@leaving_out
@single_thread()
@solvable()
def check(
    robot: RobotLike,
    recording: RecordingLike | Sequence[str | os.PathLike[str]],
    *,
    fit: Estimate | RecordingLike | Sequence[str | os.PathLike[str]] | None = None,
    measured: Iterable[str] | str | None = None,
    executor: Executor | None = None,
    on_error: str = "stop",
) -> Check:
    """Look at a log before any fit: is it what it should be, what can it show, what to record next.

    A first fit by least squares, with friction chosen from the data, shows noise, delay and which
    base parameters the motion excites. Nothing is kept of it: `md.identify` makes the model.

    Args:
        robot: The robot, a built-in robot's name or a robot file's path.
        recording: The log, raw or prepared, in memory or on disk, or its path or paths.
        fit: The data that are fitted, or a model (or its estimate.json), where the log is to test
            it: the log should be other data, and the check says which share of it is not.
        measured: Joints, or patterns, whose torque is measured; None: as for `md.identify`.
        executor: As for `md.identify`.
        on_error: As for `md.identify`.

    Returns:
        The check: `ok`, `notices`, `joints`, `excitation`, `report(path)`.

    Raises:
        DescriptionError: A file cannot be read.
    """
    robot = as_robot(robot)
    engine: dict[str, Any] = {"executor": executor, "on_error": on_error}
    log = as_recording(recording, robot, **engine)
    robot = with_logged_joints(robot, log)
    fitted = None if fit is None else _sketch(robot, fit, engine)
    raw = with_measured_torques(robot, in_robot_order(robot, log), measured)
    raw = sketched(raw, robot.joint_names)
    robot = with_mapped_coupling(robot, raw.notices, raw.joint_names)
    robot = robot.with_measured_torques(torques_measured(raw))
    notices = [*about_robot_file(robot.notices), *raw.notices]
    stopped = meaningless(robot, raw)
    notices += stopped
    first: _FirstFit | None = None
    if "tau" not in raw.signals:
        notices.append(
            NOT_FITTED("no model can be fitted: the log has no torques", reason="no torques")
        )
    elif not stopped:
        try:
            with solvable():
                first = _first_fit(robot, raw)
            notices += first.notices
        except MinidynError as error:
            notices.append(NOT_FITTED(f"no model can be fitted: {error}", reason=str(error)))
    joints, runs = log_facts(robot, raw, None if first is None else first.data)
    if first is not None:
        noises = zip(joints, first.found.sigma.tolist(), first.scales.tolist())
        joints = [replace(one, noise=noise, scale=scale) for one, noise, scale in noises]
        notices += _not_explained(joints)
    overlap, same = overlap_of(fitted, raw, raw)
    notices += [*fact_notices(joints, runs), *fitted_notices(overlap), *same]
    return Check(
        robot.with_measured_torques(None),
        raw,
        tuple(joints),
        tuple(runs),
        tuple(most_serious_first(notices)),
        {} if first is None else dict(zip(first.base.names, first.relative.tolist())),
        math.nan if first is None else first.found.condition,
        overlap,
    )


def _not_explained(joints: Sequence[JointFacts]) -> list[Notice]:
    """Return a notice where a first fit leaves more of the torques than a model may on tests."""
    left, torque = (
        np.nan_to_num([getattr(one, name) for one in joints]) for name in ("noise", "torque_rms")
    )
    size = float(np.linalg.norm(torque))
    share = float(np.linalg.norm(left)) / size if size > 0 else 0.0
    if share <= Limits().error:
        return []
    kind = NOT_EXPLAINED if share > Limits().error_poor else LITTLE_EXPLAINED
    worst = joints[int(np.argmax(left))].name
    text = f"a first fit leaves {100 * share:.0f} % of the torques, most of it at {worst}"
    return [kind(text, share=share, joint=worst)]


def _sketch(
    robot: Robot,
    fit: Estimate | RecordingLike | Sequence[str | os.PathLike[str]],
    engine: Mapping[str, Any],
) -> Sketch | None:
    """Return the sketch of fitted data, given by themselves or by the model."""
    if isinstance(fit, str | os.PathLike) and Path(fit).suffix.lower() == ".json":
        fit = load_estimate(fit)
    if isinstance(fit, Estimate):
        return Sketch.from_json(fit.record.get(SKETCH))
    data = sketched(
        in_robot_order(robot, as_recording(fit, robot, argument="fit", **engine)), robot.joint_names
    )
    if isinstance(data, LazyRecording):
        for _ in data.each(_passed):  # it is sketched as it is read
            pass
    return sketch_of(data)


def _passed(chunk: AnyRecording, row: int, progress: object) -> None:
    """Read a chunk."""
    for _ in chunk.tiles():
        pass


@dataclass(frozen=True, eq=False)
class _FirstFit:
    """Least squares on a log, to see what it can show."""

    data: AnyRecording
    robot: Robot  # as fitted
    base: BaseMap
    found: Solution
    notices: tuple[Notice, ...]
    scales: Array  # measured torque over that of the robot's file (n,); NaN where nothing is known

    @property
    def relative(self) -> Array:
        """Relative standard deviation of each base parameter (b,): `relative_deviations`."""
        return relative_deviations(self.robot, self.base, self.found, self.data)


def _first_fit(robot: Robot, raw: AnyRecording) -> _FirstFit:
    method = METHODS[Settings.method]
    model = starting_model(robot, Settings())
    data, notices = ready_for(method, model, raw)
    model, _, turned = mounted_as_logged(model, data, Settings())
    choice = select(model, fitted_base(model), data, Settings(), owners=(robot,))
    options = Options(allow_open=True)
    data = choice.ready(data)
    found = choice.solution(lambda loaded: method.solve(loaded, choice.base, data, options)).made
    found = with_shown_condition(choice.robot, choice.base, found)
    found = choice.with_shape_uncertainty(found, False)
    fitted = choice.robot.with_parameters(lifted(choice.base, found.beta, choice.robot))
    notices = [one for one in notices if one not in raw.notices]
    known = prior_parameters(choice.robot, None, (robot, model))
    diagnoses = diagnose(fitted, choice.base, found, data, known)
    notices += [*turned, *choice.notices, *found.notices]
    notices += [one for one in diagnoses if one.code != WEAK.code]  # `excitation` says it
    scales = [
        scale.factor if scale.known else math.nan
        for scale in torque_scales(choice.robot, data, known)
    ]
    sizes, can_show = np.linalg.norm(found.R, axis=0), shown_parameters(choice.robot, choice.base)
    hidden = [
        name
        for name, size, possible in zip(choice.base.names, sizes, can_show)
        if possible and not size > 0
    ]
    if hidden:
        text = (
            "no sample shows "
            f"{', '.join(hidden[:6])}{f' and {len(hidden) - 6} more' if len(hidden) > 6 else ''}"
        )
        notices.append(NOT_SHOWN(text, parameters=hidden))
    return _FirstFit(data, fitted, choice.base, found, tuple(notices), np.array(scales))
