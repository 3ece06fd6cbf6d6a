"""All methods on the same data: errors on motion that was not fitted, realizability, time."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np

from minidyn.arrays import single_thread, solvable
from minidyn.base.base_map import BaseMap
from minidyn.display import MEASURED, MODEL, DisplayTable, legend_above, new_figure, shows_progress
from minidyn.errors import MinidynError, UnknownName, shows_options
from minidyn.formats.load import as_robot
from minidyn.identification.diagnose.meaningless import require_meaning
from minidyn.identification.estimate import Estimate
from minidyn.identification.estimators.methods import ANY_MOTION, METHODS
from minidyn.identification.friction.per_log import ONE_LOG
from minidyn.identification.identify import PathLike, identify
from minidyn.identification.known_torque import KnownTorqueLike
from minidyn.identification.settings import ModelOptions, Settings, settings_of
from minidyn.identification.validate import fitted_notices, overlap_of, validate
from minidyn.model.drives import AUTO, OWN
from minidyn.model.robot import Robot
from minidyn.notices import Notice
from minidyn.recording.lazy import AnyRecording
from minidyn.recording.ready import as_asked, as_recording, ready, with_logged_joints
from minidyn.recording.recording import leaving_out
from minidyn.recording.sketch import sketch_of, sketched
from minidyn.text import markdown_cell, markdown_table

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from matplotlib.figure import Figure
    from pandas import DataFrame

    from minidyn.control.controller import Controller


@dataclass(frozen=True, eq=False)
class Compared:
    """What one method made of the data.

    Attributes:
        method: Its name.
        consistent: Whether the model was made physically consistent.
        validation_error: ‖tau - prediction‖ / ‖tau‖ on the validation recording, raw torque; NaN
            where it failed.
        fit_error: The same on what was fitted.
        realizable: Whether every link of the model can exist.
        seconds: What the identification took.
        notices: Of the estimate.
        estimate: The model; None where the method failed.
        failure: Why it failed; "" where it did not.
    """

    method: str
    consistent: bool
    validation_error: float
    fit_error: float
    realizable: bool
    seconds: float
    notices: tuple[Notice, ...] = ()
    estimate: Estimate | None = None
    failure: str = ""

    @property
    def label(self) -> str:
        """Name of the method, and whether its model was made physically consistent."""
        return f"{self.method}, consistent" if self.consistent else self.method


@dataclass(frozen=True, eq=False)
class Comparison:
    """Several methods on one set of data.

    Attributes:
        rows: One for each method, with and without consistency, in the order in which they ran.
        notices: What a reader should know.
        terms: Rows of the table of decisions (`Selection.to_json`). Empty where terms were given.
    """

    rows: tuple[Compared, ...]
    notices: tuple[Notice, ...] = ()
    terms: tuple[Mapping[str, Any], ...] = ()

    @property
    def best(self) -> Compared:
        """The row with the least validation error.

        Realizable models are preferred where errors are within 1 %.

        Raises:
            MinidynError: Every method failed.
        """
        worked = [row for row in self.rows if not row.failure]
        if not worked:
            raise MinidynError(
                "every method failed; the first: "
                f"{self.rows[0].failure if self.rows else 'none ran'}"
            )
        least = min(row.validation_error for row in worked)
        near = [row for row in worked if row.validation_error <= 1.01 * least]
        return min(near, key=lambda row: (not row.realizable, row.validation_error))

    def table(self) -> str:
        """Return a Markdown table."""
        said, rows = ("no", "yes"), []
        for row in self.rows:
            errors = (f"{100 * error:.4g} %" for error in (row.validation_error, row.fit_error))
            shown = (*errors, said[row.realizable])
            last = str(len(row.notices) or "")
            if row.failure:
                shown, last = ("-",) * 3, f"failed: {markdown_cell(row.failure)}"
            rows.append((row.method, said[row.consistent], *shown, f"{row.seconds:.2f}", last))
        headings = ("method", "consistent model asked", "validation error", "fit error")
        return markdown_table("llrrlrl", (*headings, "realizable", "seconds", "notices"), rows)

    def to_pandas(self) -> DataFrame:
        """Return the rows as a pandas frame, shares as they are (0.1 is ten percent)."""
        return self._display().to_pandas()

    def plot(self) -> Figure:
        """Return a matplotlib figure.

        The error of each method on test data and on the fitted data.
        """
        figure, axes = new_figure(repr(self), 1, 0.34 * len(self.rows) + 0.8)
        axis = axes[0]
        places = np.arange(len(self.rows))[::-1]
        kinds = {
            "test data": (MODEL, 0.2, "validation_error"),
            "fitted data": (MEASURED, -0.2, "fit_error"),
        }
        for label, (colour, shift, name) in kinds.items():
            errors = [0.0 if row.failure else 100 * getattr(row, name) for row in self.rows]
            axis.barh(places + shift, errors, height=0.36, color=colour, label=label)
        for place, row in zip(places, self.rows):
            if row.failure:
                axis.text(0.0, place, " failed", va="center", fontsize=8)
        axis.set_yticks(places, [row.label for row in self.rows])
        axis.set_xlabel("error, % of the measured torque")
        legend_above(axis)
        return figure

    def _display(self) -> DisplayTable:
        columns: dict[str, list[Any]] = {
            "method": [row.method for row in self.rows],
            "made consistent": [row.consistent for row in self.rows],
            "validation error": [row.validation_error for row in self.rows],
            "fit error": [row.fit_error for row in self.rows],
            "consistent": [row.realizable for row in self.rows],
            "seconds": [row.seconds for row in self.rows],
            "failure": [row.failure for row in self.rows],
        }
        return DisplayTable(repr(self), columns, ("validation error", "fit error"), self.notices)

    def _repr_html_(self) -> str:
        return self._display().to_html()

    def __repr__(self) -> str:
        failed = sum(bool(row.failure) for row in self.rows)
        if failed == len(self.rows):
            return f"Comparison({failed} methods, all failed)"
        best = self.best
        return (
            f"Comparison({len(self.rows)} rows, {failed} failed; best: {best.label}, validation "
            f"error {100 * best.validation_error:.3g} %)"
        )


def _models(given: Mapping[str, Any]) -> int:
    """How many models `compare` makes of these arguments."""
    return len(_names(given["methods"])) * len(given["consistent"])


def _names(methods: Iterable[str] | str | None) -> tuple[str, ...]:
    """Return the names of methods that are asked for; None: all that take every motion."""
    if methods is None:
        return ANY_MOTION
    return (methods,) if isinstance(methods, str) else tuple(methods)


@leaving_out
@shows_progress("comparing methods", _models)
@single_thread()
@solvable()
@shows_options(Settings)
def compare(
    robot: Robot | PathLike,
    recording: AnyRecording | PathLike | Sequence[PathLike],
    validation: AnyRecording | PathLike | Sequence[PathLike],
    methods: Iterable[str] | str | None = None,
    *,
    consistent: Sequence[bool] = (False, True),
    settings: Settings | None = None,
    base: BaseMap | None = None,
    controller: Controller | None = None,
    known_torque: KnownTorqueLike = None,
    threads: int = 1,
    device: str | None = None,
    executor: Executor | None = None,
    on_error: str = "stop",
    force: bool = False,
    anyway: bool = False,
    progress: Callable[[int], None] | bool | None = None,
    **options: Unpack[ModelOptions],
) -> Comparison:
    """Identify a robot by several methods and test each model on a recording that none of them saw.

    Args:
        robot: The robot, a built-in robot's name or a robot file's path.
        recording: What is fitted, raw (it is prepared once for all) or prepared; one on disk is
            read piece by piece by those methods that can.
        validation: What the models are tested on.
        methods: Names of `md.identify`'s methods; None: all that take every motion.
        consistent: Whether models are made physically consistent: both ways, or one.
        settings: As for `md.identify`; methods, and consistency, are those of `methods` and
            `consistent`. Friction "auto" is chosen once, by "wls".
        base: As for `md.identify`.
        controller: As for `md.identify`.
        known_torque: As for `md.identify`.
        threads: As for `md.identify`.
        device: As for `md.identify`.
        executor: As for `md.identify`.
        on_error: As for `md.identify`.
        force: As for `md.identify`.
        anyway: Old name of `force`.
        progress: Called with the number of models done so far; True: a bar on stderr.
        **options: As for `md.identify`.

    Returns:
        A row for each method; one that fails has its reason in its row and stops none of the
        others.
    """
    settings = settings_of(settings, options, base)
    robot = as_robot(robot)
    names = _names(methods)
    for name in names:
        if name not in METHODS:
            raise UnknownName("method", name, tuple(METHODS))
    if not names or not consistent:
        raise MinidynError("compare: at least one method is needed")
    if recording is validation:
        raise MinidynError(
            "compare: the validation recording is the fitted one; give one that no method has seen"
        )
    engine: dict[str, Any] = {"executor": executor, "on_error": on_error}
    recording, validation = (as_recording(log, robot, **engine) for log in (recording, validation))
    robot = with_logged_joints(robot, recording) if base is None else robot
    if "tau" in validation.signals and not any(
        np.any(np.asarray(tile.tau)) for tile in validation.tiles()
    ):
        raise MinidynError(
            "compare: the torques of the validation recording are zero throughout; are they "
            "measured?"
        )
    require_meaning(robot, recording, force or anyway)
    recording, validation = (
        sketched(as_asked(robot, log, settings), robot.joint_names)
        for log in (recording, validation)
    )
    fitted = ready(robot, recording, purpose="compare", once=True)
    data = ready(
        robot, fitted, purpose="compare"
    )  # prepared once for all methods; without raw torques, where on disk
    tested = ready(robot, validation, purpose="compare", once=True, name="the validation recording")
    running: dict[str, Any] = {"base": base, "controller": controller, "force": True}
    running |= {"known_torque": known_torque, "threads": threads, "device": device}
    more, terms = tuple[Notice, ...](), tuple[Mapping[str, Any], ...]()
    if settings.terms == AUTO:
        robot, more, terms = _with_chosen_friction(robot, data, settings, running)
        settings = settings.replace(friction=OWN, rotor_inertia=None, force_terms=())
    rows: list[Compared] = []

    def row(method: str, asked: bool, given: AnyRecording) -> Compared:
        begin = time.perf_counter()
        try:
            estimate = identify(
                robot, given, method, settings=settings, consistent=asked, **running
            )
            seconds = time.perf_counter() - begin
            tested_error, fit_error = (
                validate(estimate, part).relative_error for part in (tested, fitted)
            )
            realizable = estimate.certificate.consistent
        except (MinidynError, np.linalg.LinAlgError, ArithmeticError) as error:
            taken, reason = time.perf_counter() - begin, str(error) or type(error).__name__
            return Compared(method, asked, math.nan, math.nan, False, taken, failure=reason)
        own = tuple(notice for notice in estimate.notices if notice not in given.notices)
        return Compared(method, asked, tested_error, fit_error, realizable, seconds, own, estimate)

    for name in names:
        # without accelerations measured speeds are better than filtered ones
        measured_speeds = not METHODS[name].needs_acceleration and "dq" in recording.signals
        for asked in consistent:
            rows.append(row(name, bool(asked), recording if measured_speeds else data))
            if callable(progress):
                progress(len(rows))
    for stage in ("flexibility.", ONE_LOG.code):  # of every row alike: told once
        told = [[one for one in row.notices if one.code.startswith(stage)] for row in rows]
        more += (
            ()
            if any(one.code.startswith(stage) for one in more)
            else tuple(next(filter(None, told), ()))
        )
    overlap, same = overlap_of(sketch_of(fitted), tested, tested)
    seen = (*fitted_notices(overlap), *same)
    return Comparison(
        tuple(rows), tuple(dict.fromkeys((*data.notices, *tested.notices, *more, *seen))), terms
    )


def _with_chosen_friction(
    robot: Robot, fitted: AnyRecording, settings: Settings, running: dict[str, Any]
) -> tuple[Robot, tuple[Notice, ...], tuple[Mapping[str, Any], ...]]:
    """Return the robot with the drive terms that the data ask for, chosen once for all methods, and
    what was tried.
    """
    chosen = identify(robot, fitted, "wls", settings=settings, consistent=False, **running)
    known = dict(zip(robot.parameter_names, robot.parameters))
    values = [known.get(name, np.nan) for name in chosen.robot.parameter_names]
    told = tuple(
        notice for notice in chosen.notices if notice.code.startswith(("friction.", "flexibility."))
    )
    return (
        chosen.robot.with_parameters(values),
        told,
        tuple(chosen.record.get("selection", ())),
    )
