"""`md.check`: a log before any fit. Is it what it should be, what can it show, and what to record next."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from minidyn.app.report.check_page import write_check
from minidyn.arrays import Array, plain_values, single_thread
from minidyn.base.base_map import BaseMap
from minidyn.base.base_parameters import base_parameters
from minidyn.display import DisplayTable
from minidyn.dynamics.functions import base_regressor
from minidyn.dynamics.record import STATES
from minidyn.errors import MinidynError
from minidyn.formats.load import RobotLike, as_robot
from minidyn.identification.consistency.prior import prior_parameters
from minidyn.identification.diagnostics.excitation import POOR, WEAK, delay_notices, excitation_notices
from minidyn.identification.diagnostics.log_facts import (
    HEADINGS,
    LEVELS,
    JointFacts,
    RunFacts,
    fact_notices,
    log_facts,
    shown_word,
)
from minidyn.identification.diagnostics.plausible import meaningless, scale_notices, torque_scales
from minidyn.identification.estimate import Estimate, load_estimate
from minidyn.identification.estimators.method import Options, Solution
from minidyn.identification.estimators.methods import METHODS
from minidyn.identification.friction.choose import choose_friction, starting_model
from minidyn.identification.identify import DEFAULT_METHOD, lifted, ready_for
from minidyn.identification.rows.base_rows import remembering, signals_of
from minidyn.identification.validate import fitted_notices
from minidyn.model.drives import AUTO
from minidyn.model.robot import Robot
from minidyn.notices import Notice, about_robot_file, act, most_serious_first, notices_json, worth_telling
from minidyn.recording.lazy import AnyRecording, LazyRecording
from minidyn.recording.ready import RecordingLike, as_recording, in_robot_order, with_mapped_coupling
from minidyn.recording.recording import SKETCH, leaving_out
from minidyn.recording.sketch import Sketch, sketch_of, sketched
from minidyn.text import markdown_cell

if TYPE_CHECKING:
    from concurrent.futures import Executor

NOT_FITTED = act(
    "check.not_fitted",
    "No model could be fitted to the log, not even a first one.",
    "Mend what the sentence names; then check again.",
)
NOT_SHOWN = act(
    "check.not_shown",
    "Base parameters that no sample of the log shows: their columns of the regressor are zero.",
    "Move the joints that {parameters[0]} belongs to, or accept that the prior decides.",
)

_COUNTS = 0.1  # of a joint's torque: a parameter of less does not count
_ENOUGH = 4000  # samples to see how large a parameter's torque is
_QUIET = ("identify.helpful_motion",)  # no reason for caution alone
_CAREFUL = (POOR.code,)  # no reason not to fit: the verdict on a model asks for care there, too


@dataclass(frozen=True, eq=False)
class Check:
    """What a log is worth before a fit.

    Attributes:
        robot: The robot.
        recording: The log as read, in the robot's joint order.
        joints: Ranges, speeds, torques, noise, reversals, standstill and saturation of each joint.
        runs: Length and rate of each run.
        notices: Everything odd, and what to do about it; most serious first.
        excitation: {base parameter: standard deviation} that a fit will have, relative to the parameter's value or, for
            small ones, to the value that makes up a tenth of a joint's torque; infinite where the log does not show it,
            empty where no fit was possible.
        condition: Condition number of the fit; NaN where there was none.
        overlap: Share of the log, 0 to 1, that is in the fitted data it was compared with; None: not known.
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
        """Whether nothing has to be done before a fit."""
        return self.level != "bad"

    @property
    def level(self) -> str:
        """Return "good", "caution" or "bad".

        Notices that ask for action make it bad, others that concern the data ask for care, and so does poor excitation.
        """
        if any(notice.level == "act" and notice.code not in _CAREFUL for notice in self.notices):
            return "bad"
        doubts = [one for one in worth_telling(self.notices) if one.code not in _QUIET]
        return "caution" if doubts else "good"

    @property
    def columns(self) -> dict[str, dict[str, list[str]]]:
        """{file: {signal: its columns}}, as the log was read; empty for recordings that minidyn wrote or made."""
        found: dict[str, dict[str, list[str]]] = {}
        for notice in self.recording.notices:
            if notice.code == "recording.columns":
                columns = {name: list(value) for name, value in notice.data.items() if name != "file"}
                found[str(notice.data["file"])] = columns
        for notice in self.recording.notices:
            if notice.code in ("recording.time_column", "recording.time_unit_guessed"):
                names = notice.data.get("columns") or [notice.data.get("column")]
                found.setdefault(str(notice.data["file"]), {})["time"] = [f"{n} ({notice.data['unit']})" for n in names]
        return found

    @property
    def next(self) -> list[str]:
        """What to do, and what to record next, most serious first."""
        return list(dict.fromkeys(notice.advice for notice in worth_telling(self.notices) if notice.advice))

    def shown(self, word: str) -> list[str]:
        """Return the base parameters that the log shows "well", "fairly", "weakly" or "not"."""
        return [name for name, relative in self.excitation.items() if shown_word(relative) == word]

    def table(self) -> str:
        """Return the joints as a Markdown table."""
        rows = [f"| {' | '.join(HEADINGS)} |", "|---|---|---|---:|---:|---:|---:|---:|---:|---:|"]
        rows += ["| " + " | ".join(markdown_cell(cell) for cell in row) + " |" for row in self.rows()]
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
                {**vars(one), "used": one.used, "noise_share": one.noise_share, "beyond": one.beyond}
                for one in self.joints
            ],
            "condition": self.condition,
            "overlap": self.overlap,
            "excitation": {
                name: {"relative_std": value, "shown": shown_word(value)} for name, value in self.excitation.items()
            },
            "next": self.next,
            "notices": notices_json(self.notices),
        }
        return dict(plain_values(data, finite=True))

    def _repr_html_(self) -> str:
        columns: dict[str, Sequence[Any]] = {"joint": [one.name for one in self.joints]}
        for heading, attribute in (
            ("lowest q", "least"), ("highest q", "most"), ("of its range", "used"), ("speed", "speed"),
            ("torque", "torque"), ("over the file's", "scale"),
            ("noise", "noise_share"), ("reversals", "reversals"), ("standstill", "standstill"),
            ("saturated", "saturated"),
        ):  # fmt: skip
            columns[heading] = [getattr(one, attribute) for one in self.joints]
        shares = ("of its range", "noise", "standstill", "saturated")
        return DisplayTable(repr(self), columns, shares, self.notices).to_html()

    def __repr__(self) -> str:
        counts = [f"{sum(one.level == level for one in self.notices)} to {word}" for level, word in _TO.items()]
        shown = len(self.shown("well")) + len(self.shown("fairly"))
        what = f"{shown} of {len(self.excitation)} base parameters shown" if self.excitation else "no fit possible"
        return f"Check({LEVELS[self.level].lower()}; {len(self.recording)} samples, {what}; {', '.join(counts)})"


_TO = {"act": "do", "look": "know"}


@leaving_out
@single_thread()
def check(
    robot: RobotLike,
    recording: RecordingLike | Sequence[str | os.PathLike[str]],
    *,
    fit: Estimate | RecordingLike | Sequence[str | os.PathLike[str]] | None = None,
    executor: Executor | None = None,
    on_error: str = "stop",
) -> Check:
    """Look at a log before any fit: is it what it should be, what can it show, what to record next.

    A first fit by least squares, with friction chosen from the data, shows noise, delay and which base parameters the
    motion excites. Nothing is kept of it: `md.identify` makes the model.

    Args:
        robot: The robot, a built-in robot's name or a robot file's path.
        recording: The log, raw or prepared, in memory or on disk, or its path or paths.
        fit: The data that are fitted, or a model (or its estimate.json), where the log is to test it: the log should be
            other data, and the check says which share of it is not.
        executor: As for `md.identify`.
        on_error: As for `md.identify`.

    Returns:
        The check: `ok`, `notices`, `joints`, `excitation`, `report(path)`.

    Raises:
        DescriptionError: A file cannot be read.
    """
    robot = as_robot(robot)
    engine: dict[str, Any] = {"executor": executor, "on_error": on_error}
    fitted = None if fit is None else _sketch(robot, fit, engine)
    raw = sketched(in_robot_order(robot, as_recording(recording, robot, **engine)), robot.joint_names)
    robot = with_mapped_coupling(robot, raw.notices, raw.joint_names)
    notices = [*about_robot_file(robot.notices), *raw.notices]
    stopped = meaningless(robot, raw)
    notices += stopped
    first: _FirstFit | None = None
    if "tau" not in raw.signals:
        notices.append(NOT_FITTED("no model can be fitted: the log has no torques", reason="no torques"))
    elif not stopped:
        try:
            first = _first_fit(robot, raw)
            notices += first.notices
        except MinidynError as error:
            notices.append(NOT_FITTED(f"no model can be fitted: {error}", reason=str(error)))
    joints, runs = log_facts(robot, raw, None if first is None else first.data)
    if first is not None:
        measured = zip(joints, first.found.sigma.tolist(), first.scales.tolist())
        joints = [replace(one, noise=noise, scale=scale) for one, noise, scale in measured]
    tested = sketch_of(raw)  # filled by now, also for a log on disk
    overlap = None if fitted is None or tested is None else fitted.share_of(tested)
    notices += [*fact_notices(joints, runs), *fitted_notices(overlap)]
    return Check(
        robot,
        raw,
        tuple(joints),
        tuple(runs),
        tuple(most_serious_first(notices)),
        {} if first is None else dict(zip(first.base.names, first.relative.tolist())),
        math.nan if first is None else first.found.condition,
        overlap,
    )


def _sketch(
    robot: Robot, fit: Estimate | RecordingLike | Sequence[str | os.PathLike[str]], engine: Mapping[str, Any]
) -> Sketch | None:
    """Return the sketch of fitted data, given by themselves or by the model."""
    if isinstance(fit, str | os.PathLike) and Path(fit).suffix.lower() == ".json":
        fit = load_estimate(fit)
    if isinstance(fit, Estimate):
        return Sketch.from_json(fit.settings.get(SKETCH))
    data = sketched(in_robot_order(robot, as_recording(fit, robot, argument="fit", **engine)), robot.joint_names)
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
        """Relative standard deviation of each base parameter (b,), infinite where no sample shows it.

        A parameter near zero is known well enough where its uncertainty hardly moves the torque, so that a value that
        makes up a tenth of a joint's torque replaces its own where that is larger.
        """
        size = np.linalg.norm(self.found.R, axis=0)
        with np.errstate(divide="ignore", invalid="ignore"):
            value = np.fmax(np.abs(self.found.beta), _COUNTS / self._effect())
            relative = np.sqrt(np.diag(self.found.covariance)) / value
        return np.where((size > 0) & np.isfinite(relative), relative, np.inf)

    def _effect(self) -> Array:
        """Return the torque of each parameter of value one (b,), over the joint's torque where that is most (rms)."""
        tile = next(iter(self.data.tiles(_ENOUGH)))
        q, dq, ddq, tau = signals_of(tile, "q", "dq", "ddq", "tau")
        Y = base_regressor(self.robot, q, dq, ddq, base=self.base, memory=tile.telemetry.get(STATES))
        torque = np.sqrt(np.mean(tau**2, axis=0))
        return np.asarray(np.fmax.reduce(np.sqrt(np.mean(Y**2, axis=0)) / torque[:, None]))


def _first_fit(robot: Robot, raw: AnyRecording) -> _FirstFit:
    method = METHODS[DEFAULT_METHOD]
    model = starting_model(robot, AUTO, True)
    data, notices = ready_for(method, model, raw)
    choice = choose_friction(model, base_parameters(model), data, AUTO)
    options = Options(allow_open=True)
    data = remembering(choice.robot, data)
    found = choice.fit(lambda loaded: method.solve(loaded, choice.base, data, options)).made
    fitted = choice.robot.with_parameters(lifted(choice.base, found.beta, choice.robot))
    notices = [one for one in notices if one not in raw.notices]
    notices += [*choice.notices, *found.notices, *delay_notices(fitted, choice.base, data, found)]
    # which parameters are weak is said by `excitation`, which judges small ones by their torque
    notices += [one for one in excitation_notices(fitted, choice.base, found) if one.code != WEAK.code]
    known = prior_parameters(choice.robot, None, (robot, model))
    notices += scale_notices(choice.robot, data, known)
    scales = [scale.factor if scale.known else math.nan for scale in torque_scales(choice.robot, data, known)]
    hidden = [name for name, size in zip(choice.base.names, np.linalg.norm(found.R, axis=0)) if not size > 0]
    if hidden:
        text = f"no sample shows {', '.join(hidden[:6])}{f' and {len(hidden) - 6} more' if len(hidden) > 6 else ''}"
        notices.append(NOT_SHOWN(text, parameters=hidden))
    return _FirstFit(data, fitted, choice.base, found, tuple(notices), np.array(scales))
