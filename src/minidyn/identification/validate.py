"""How far a model can be trusted.

Its errors on motion it was not fitted to, against raw measured torque.
"""

from __future__ import annotations

import itertools
import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from minidyn.arrays import Array, single_thread, solvable
from minidyn.display import (
    MEASURED_LINE,
    MODEL_LINE,
    PRIOR_LINE,
    RESIDUAL_LINE,
    DisplayTable,
    draw_lines,
    legend_above,
    new_figure,
)
from minidyn.dynamics.functions import inverse_dynamics
from minidyn.errors import MinidynError, UnknownParameters
from minidyn.identification.diagnose.bursts import burst_notices
from minidyn.identification.diagnose.residuals import Residuals, whiteness_words
from minidyn.identification.diagnose.thresholds import MOST
from minidyn.identification.estimate import Estimate, EstimateLike, as_estimate
from minidyn.identification.estimators.one_joint import ONE_JOINT, locked_at_means
from minidyn.identification.friction.per_log import SETTING, FrictionOfLogs, temperature_of
from minidyn.identification.rows.base_rows import remembering
from minidyn.identification.select import seen
from minidyn.identification.verdict import Limits, seen_words
from minidyn.model.joint import torque_unit
from minidyn.model.robot import Robot
from minidyn.notices import Notice, info, warning
from minidyn.recording.lazy import AnyRecording
from minidyn.recording.measured import torques_measured, with_measured_torques
from minidyn.recording.prepare.lowpass import MEMORY
from minidyn.recording.prepare.process import cutoff_period
from minidyn.recording.ready import (
    RecordingLike,
    as_recording,
    in_robot_order,
    ready,
    resting_poses,
)
from minidyn.recording.recording import SKETCH, Recording, leaving_out, without_sketch
from minidyn.recording.sketch import Sketch, sketch_of, sketched
from minidyn.text import (
    markdown_cell,
    markdown_table,
    percent,
    plain_amount,
    plain_percent,
    plot_label,
)

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from matplotlib.figure import Figure
    from pandas import DataFrame

FITTED = warning(
    "validate.fitted_data",
    "The model was fitted to data it is tested on: the error is that of the fit.",
    "Test it on another log. Where there is none, identify again and keep a part of this one for "
    "the test: `minidyn identify ROBOT LOG --hold-out 0.3`, recording.part(0.0, 0.7) and "
    "recording.part(0.7) in Python, part = [0.0, 0.7] and part = [0.7, 1.0] of two [[log]] tables "
    "in a study: all three divide a log at the same sample.",
)
FRICTION_OF = info(
    "validate.friction_of", "Whose friction was used, where each fitted log has its own."
)
SAME_MOTION = info(
    "validate.same_motion",
    "The same motion was recorded a second time: new noise, but no new motion.",
    "Test the model on another motion, too.",
)
THINNED = info(
    "validate.thinned_pictures", "Of a long recording on disk some samples are kept for pictures."
)

SHOWN = 100_000  # size: samples that are kept for pictures of a recording that stays on disk
MIN_JOINTS = 3
"""Of fewer, pieces of other motions look the same."""
PIECE = 1 << 15  # size: samples that are predicted at once


@dataclass(frozen=True, eq=False)
class Validation:
    """Errors of a model on a recording.

    Attributes:
        relative_error: ‖tau - prediction‖ / ‖tau‖ over all joints and samples, raw measured torque.
        rmse: Root of the mean squared error over all joints and samples, N m or N.
        per_joint: For each joint a dict of numbers; those in brackets are absent where not known:
            "rmse", "relative_error": as above, of the joint alone;
            "bias": mean of measured minus predicted;
            ("filtered_relative_error"): on torque low-passed as for the fit;
            ("prior_relative_error"): of the robot as it was described before, on raw torque;
            "systematic_error": error without noise: what is systematic in the residual over the
            measured torque; "systematic_rmse": the same, N m or N; "largest_torque": the largest
            measured torque; "systematic_share": share of the residual's power that is systematic;
            "whiteness": share of residual power that the previous sample predicts (0: white noise);
            "ljung_box": probability that white noise shows such autocorrelations;
            "autocorrelations_outside": share of the first 20 that white noise would hardly show.
        t: Times (N,); of a recording that stays on disk some samples are kept, evenly spread.
        measured: Raw measured torques (N, n).
        predicted: The model's torques (N, n).
        samples: Number of samples behind the errors.
        filtered_relative_error: Second figure: on torque low-passed as for the fit, without the
            noise that no model can predict; NaN where the recording came prepared without its raw
            torque.
        prior_relative_error: What the robot as its file has it reaches on the same raw torque,
            drive terms that it does not have counted as zero; NaN where its inertia is unknown.
        above_cutoff: ‖raw - low-passed torque‖ / ‖raw torque‖: what lies above the cut-off of the
            preparation and no model fitted there can follow; NaN where only one of the two is
            known.
        notices: What a reader should know.
        prior_predicted: Torques (N, n) of the robot as its file has it; None where its inertia is
            unknown.
        motion: Positions, speeds and accelerations of the samples of t; None where they are not
            known.
        units: Of each joint's torque: "N·m" or "N"; empty where not known.
        overlap: Share of the tested samples that the model was fitted to (0 to 1); None where it is
            not known.
    """

    relative_error: float
    rmse: float
    per_joint: dict[str, dict[str, float]]
    t: Array
    measured: Array
    predicted: Array
    samples: int = 0
    filtered_relative_error: float = math.nan
    prior_relative_error: float = math.nan
    above_cutoff: float = math.nan
    notices: tuple[Notice, ...] = ()
    prior_predicted: Array | None = None
    motion: Recording | None = None
    units: tuple[str, ...] = ()
    overlap: float | None = None

    @property
    def residual(self) -> Array:
        """Measured minus predicted (N, n)."""
        return np.asarray(self.measured - self.predicted, dtype=float)

    @property
    def data(self) -> str:
        """What it was tested on, in words.

        "test data", "fitted data", or which share of it was fitted.
        """
        if self.overlap is None:
            return "not known whether fitted"
        if self.overlap <= Limits().overlap:
            return "test data"
        return (
            "fitted data" if self.overlap >= MOST else f"{plain_percent(self.overlap)} fitted data"
        )

    @property
    def whiteness(self) -> dict[str, str]:
        """For each joint, in words, whether its residual is more than noise."""
        return {
            name: whiteness_words(entry["ljung_box"], entry["whiteness"])
            for name, entry in self.per_joint.items()
        }

    def table(self) -> str:
        """Return a Markdown table of the errors, joint by joint."""
        keys, rows = ("relative_error", "filtered_relative_error", "prior_relative_error"), []
        for (name, entry), words in zip(self.per_joint.items(), self.whiteness.values()):
            errors = (plain_percent(entry.get(key, math.nan)) for key in keys)
            sizes = plain_amount(entry["rmse"], ".4g"), plain_amount(entry["bias"], "+.3g")
            rows.append((markdown_cell(name), *errors, *sizes, words))
        errors = (plain_percent(getattr(self, key)) for key in keys)
        rows.append(("all", *errors, f"{self.rmse:.4g}", "", ""))
        headings = ("joint", "error", "low-passed", "robot file", "rms", "bias", "residual")
        return markdown_table("lrrrrrl", headings, rows)

    def to_pandas(self) -> DataFrame:
        """Return the errors as a pandas frame.

        One row a joint, shares as they are (0.1 is ten percent).
        """
        return self._display().to_pandas()

    def plot(self, title: str = "") -> Figure:
        """Return a matplotlib figure.

        Measured torque, the model's, the prior's, and measured minus model, by joint. Colours and
        lines are those of the report: measured thick and pale, model thin, prior dashed.

        Args:
            title: Heading; "": the error.
        """
        figure, axes = new_figure(title or repr(self), len(self.per_joint), 1.7, width=10.0)
        lines = {"measured": (self.measured, MEASURED_LINE)}
        if self.prior_predicted is not None:
            lines["before identification"] = (self.prior_predicted, PRIOR_LINE)
        lines |= {
            "model": (self.predicted, MODEL_LINE),
            "measured − model": (self.residual, RESIDUAL_LINE),
        }
        for k, (axis, (name, entry)) in enumerate(zip(axes, self.per_joint.items())):
            for label, (values, look) in lines.items():
                draw_lines(axis, self.t, values[:, [k]], [label], **look)
            unit = self.units[k] if self.units else "N·m or N"
            words = f"{plot_label(name, 24)}\n{'force' if unit == 'N' else 'torque'}, {unit}"
            axis.set_ylabel(f"{words}\nerror {plain_percent(entry['relative_error'])}", fontsize=8)
        legend_above(axes[0], 4)
        axes[-1].set_xlabel("time, s")
        return figure

    def _display(self) -> DisplayTable:
        shares = {"error": "relative_error", "low-passed": "filtered_relative_error"}
        shares["before identification"] = "prior_relative_error"
        entries = list(self.per_joint.values())
        columns: dict[str, list[Any]] = {"joint": list(self.per_joint)}
        columns |= {
            title: [entry.get(key, math.nan) for entry in entries] for title, key in shares.items()
        }
        columns |= {"rms, N m or N": [entry["rmse"] for entry in entries]}
        columns |= {"bias, N m or N": [entry.get("bias", math.nan) for entry in entries]}
        columns |= {"residual": list(self.whiteness.values())}
        return DisplayTable(repr(self), columns, tuple(shares), self.notices)

    def _repr_html_(self) -> str:
        return self._display().to_html()

    def to_json(self) -> dict[str, Any]:
        """Return the errors as plain values, without the samples; None for what is not known."""
        names = (
            "relative_error",
            "rmse",
            "filtered_relative_error",
            "prior_relative_error",
            "above_cutoff",
        )
        return {
            **{name: _known(getattr(self, name)) for name in names},
            "samples": self.samples,
            "overlap": self.overlap,
            "data": self.data,
            "joints": {
                name: {**{key: _known(value) for key, value in entry.items()}, "residual": words}
                for (name, entry), words in zip(self.per_joint.items(), self.whiteness.values())
            },
            "notices": [notice.to_json() for notice in self.notices],
        }

    def __repr__(self) -> str:
        data = f"{self.data}, " if "fitted data" in self.data else ""
        return (
            f"Validation({data}relative error {100 * self.relative_error:.3g} %, rmse "
            f"{self.rmse:.4g})"
        )


def _known(value: float) -> float | None:
    return value if math.isfinite(value) else None


@leaving_out
@single_thread()
@solvable()
def validate(
    estimate: EstimateLike,
    recording: RecordingLike,
    *,
    executor: Executor | None = None,
    on_error: str = "stop",
) -> Validation:
    """Return the errors of an estimate on a recording, raw or prepared, in memory or on disk, or on
    a log by its path.

    A raw recording is prepared as it was for the fit, but for its torque: errors are those against
    raw measured torque, never divided by torque limits. A recording on disk is read once, piece by
    piece, by the workers of an `executor` where one is given (docs/clusters.md); `on_error` is as
    for :func:`minidyn.identify`.

    Raises:
        MinidynError: It has no torques, or they are not numbers.
        UnknownName: It is of another robot's joints.
    """
    estimate = as_estimate(estimate, "validate")
    robot, preparation = estimate.robot, estimate.record.get("preparation")
    log = as_recording(recording, robot, executor=executor, on_error=on_error)
    log = (
        log if estimate.known_torque is None else log.load()
    )  # columns of a log stay with it in memory alone
    measured = None if estimate.settings is None else estimate.settings.measured
    log = with_measured_torques(robot, in_robot_order(robot, log), measured)
    if estimate.base.model == "gravity":
        poses = resting_poses(robot, log)
        log = log if poses is None else poses
    log = sketched(log, robot.joint_names)
    one_joint = estimate.method == ONE_JOINT.name
    log = locked_at_means(robot, log) if one_joint else log
    data = ready(robot, log, purpose="validation", preparation=preparation, once=True)
    # filters leave roundings of speed, whose sign Coulomb friction would have
    data = remembering(robot, locked_at_means(robot, data) if one_joint else data)
    described = _described(estimate)
    sums = raw, filtered, prior, noise = tuple(Residuals(robot.n) for _ in range(4))
    every = 1 if isinstance(data, Recording) else -(-len(data) // SHOWN)
    kept: list[tuple[Array, ...]] = []  # for pictures
    runs: Sequence[AnyRecording] = data.runs
    (models, logs), begins = _models(estimate, runs), data.starts
    own = models if any(model is not estimate for model in models) else [estimate]
    starts: list[int] = []
    compared = partial(_compared, own, begins, described, every)
    for parts, follows, some, first in data.each(compared, left_out=True):
        starts += [-(-(raw.samples + row) // every) for row in first]
        for whole, part in zip(sums, parts):
            if not follows:
                whole.new_run()
            whole.join(part)
        kept += some
    if not raw.samples:
        raise MinidynError("validation needs samples; the recording has none")
    notices = tuple(data.notices)
    if not isinstance(data, Recording) and data.engine is not None:
        notices += tuple(data.engine.notices)
    if every > 1:
        text = (
            f"one sample in {every} is kept for pictures; the errors are those of all {raw.samples}"
        )
        notices += (THINNED(text, every=every, samples=raw.samples),)
    t, measured, predicted, before, q, dq, ddq = (np.concatenate(parts) for parts in zip(*kept))
    first_kept = [start for start, end in itertools.pairwise([*starts, len(t)]) if start < end]
    moved = Recording(
        t, q, None, dq, ddq, data.joint_names, starts=first_kept, info=without_sketch(data.info)
    )
    known = torques_measured(data)
    rmse = float(np.sqrt(raw.squares.sum() / (raw.samples * sum(known))))
    # after so many samples the noise of a low-passed torque is not autocorrelated any more
    lag = max(1, math.ceil(MEMORY * cutoff_period(data.info)))
    joints = _per_joint(data.joint_names, raw, filtered, prior, lag)
    joints |= {
        name: dict.fromkeys(joints[name], math.nan)
        for name, has_torque in zip(data.joint_names, known)
        if not has_torque
    }
    others = filtered.overall, prior.overall, noise.overall
    overlap, same = overlap_of(Sketch.from_json(estimate.record.get(SKETCH)), data, log)
    notices += (*fitted_notices(overlap), *same, *_friction_notices(estimate, models, logs))
    residual, torque = np.nan_to_num(measured - predicted), np.nan_to_num(measured)
    notices += tuple(burst_notices(data.joint_names, t, torque, residual, starts))
    shown = (
        None if described is None else before,
        moved,
        tuple(torque_unit(robot.joints[k]) for k in robot.independent),
    )
    return Validation(
        raw.overall,
        rmse,
        joints,
        t,
        measured,
        predicted,
        raw.samples,
        *others,
        notices,
        *shown,
        overlap,
    )


def _compared(
    models: Sequence[Estimate],
    starts: Sequence[int],
    described: Robot | None,
    every: int,
    chunk: AnyRecording,
    row: int,
    progress: object,
) -> tuple[tuple[Residuals, ...], bool, list[tuple[Array, ...]], list[int]]:
    """Compare a chunk that begins at a row of the recording.

    Runs begin at `starts`, each with a model, or one for all. Return the sums of residuals against
    raw and low-passed torque, of the robot's file and of what the low-pass took off; whether the
    chunk goes on with a run; what is kept for pictures; and the chunk's rows at which runs begin.
    """
    raw, filtered, prior, noise = sums = tuple(Residuals(chunk.n) for _ in range(4))
    kept: list[tuple[Array, ...]] = []
    begins, follows = list[int](), row not in starts
    known = np.array(torques_measured(chunk))
    for run in chunk.runs:
        number = bisect_right(starts, row + raw.samples) - 1
        model = models[number] if len(models) > 1 else models[0]
        if row + raw.samples == starts[number]:
            begins.append(raw.samples)
        for one in sums if raw.samples else ():
            one.new_run()
        for piece in run.tiles(PIECE):
            measured = np.asarray(piece.telemetry.get("tau_raw", piece.tau), dtype=float)
            _require_numbers(measured, piece)
            through = seen(
                model, chunk.info.get("cutoff")
            )  # torques after the low-pass of preparation
            predicted = (model if "tau_raw" in piece.telemetry else through).predict(piece)
            raw.add(np.where(known, measured - predicted, 0.0), measured)
            if "tau_raw" in piece.telemetry:
                smooth = np.asarray(piece.tau, dtype=float)
                shown = predicted if through is model else through.predict(piece)
                filtered.add(np.where(known, smooth - shown, 0.0), smooth)
                noise.add(measured - smooth, measured)
            motion = piece.q, np.asarray(piece.dq), np.asarray(piece.ddq)
            before = (
                np.full_like(measured, np.nan)
                if described is None
                else inverse_dynamics(described, *motion)
            )
            if model.known_torque is not None:
                before = before + model.known_torque.torque(piece)
            if described is not None:
                prior.add(np.where(known, measured - before, 0.0), measured)
            some = slice(
                -(row + raw.samples - len(measured)) % every, None, every
            )  # evenly spread over all pieces
            kept.append(
                tuple(
                    signal[some]
                    for signal in (
                        np.asarray(piece.t),
                        np.where(known, measured, np.nan),
                        predicted,
                        before,
                        *motion,
                    )
                )
            )
    return sums, follows, kept, begins


def _models(
    estimate: Estimate, runs: Sequence[AnyRecording]
) -> tuple[list[Estimate], list[int | None]]:
    """Return the model of each run, and which fitted log it is part of where each has its friction.

    With the friction of its own log where that was fitted, else with the mean.
    """
    friction = FrictionOfLogs.of(estimate.record)
    if friction is None:
        return [estimate] * len(runs), []
    logs, models = [friction.log_of(run) for run in runs], []
    for run, log in zip(runs, logs):
        if log is not None:
            models.append(estimate.with_friction(friction.values[log]))
            continue
        warmth = temperature_of(run) if math.isfinite(friction.temperature) else math.nan
        models.append(estimate.at_temperature(warmth) if math.isfinite(warmth) else estimate)
    return models, logs


def _friction_notices(
    estimate: Estimate, models: Sequence[Estimate], logs: Sequence[int | None]
) -> tuple[Notice, ...]:
    """Return a notice that says whose friction was used, where each fitted log has its own."""
    if not logs:
        return ()
    pairs, new = zip(logs, models), logs.count(None)
    warm = sum(log is None and model is not estimate for log, model in pairs)
    count = len(estimate.record[SETTING]["values"])
    mean = f"the mean of the {count} fitted logs" + ", at the temperature of the log" * bool(warm)
    text = f"friction is {mean} in {new} of {len(models)} runs, its own in the others"
    if not new:
        text = "friction of each log is its own, as it was fitted"
    elif new == len(models):
        text = f"friction is {mean}: this log is none of them"
    return (FRICTION_OF(text, logs=count, runs=len(models), mean=new, by_temperature=warm),)


def overlap_of(
    fitted: Sketch | None, data: AnyRecording, log: AnyRecording
) -> tuple[float | None, tuple[Notice, ...]]:
    """Return the share of the samples that the model was fitted to, and a notice where another run
    has the same motion.

    Copies that were changed are known by their motion and noise. None: it is not known.
    """
    tested = sketch_of(data)
    share = None if fitted is None or tested is None else fitted.share_of(tested)
    if fitted is None or fitted.pieces is None or not isinstance(log, Recording):
        return share, ()
    if (share or 0.0) > Limits().overlap:
        return share, ()
    found = fitted.pieces.compare(log)
    if found.is_copy:
        return max(share or 0.0, found.share), ()
    if found.share < MOST or log.n < MIN_JOINTS:
        return share, ()
    text = (
        f"{percent(found.share)} of the samples have the motion of the fitted data, with new noise"
    )
    return share, (SAME_MOTION(text, share=found.share),)


def fitted_notices(overlap: float | None) -> tuple[Notice, ...]:
    """Return a notice where test data were fitted."""
    if overlap is None or overlap <= Limits().overlap:
        return ()
    return (FITTED(f"fitted data: {seen_words(overlap)}", overlap=overlap),)


def _per_joint(
    names: Sequence[str], raw: Residuals, filtered: Residuals, prior: Residuals, lag: int
) -> dict[str, dict[str, float]]:
    error, share = raw.systematic(1 if filtered.samples else lag)
    if filtered.samples:
        # the low-pass of the fit rounds the edges of Coulomb friction: what is above its cut-off is
        # no fault of the model, so that the residual must be systematic below it, too
        below = filtered.systematic(lag)
        less = below[0] < error
        error, share = np.where(less, below[0], error), np.where(less, below[1], share)
    columns = {
        "systematic_error": error,
        "systematic_share": share,
        "systematic_rmse": error * np.sqrt(raw.torque_squares / max(raw.samples, 1)),
        "largest_torque": raw.largest,
        "rmse": raw.rmse,
        "relative_error": raw.relative,
        "bias": raw.bias,
        "whiteness": np.clip(raw.autocorrelation[0], -1, 1) ** 2,
        "ljung_box": raw.ljung_box,
        "autocorrelations_outside": raw.outside,
    }
    if filtered.samples:
        columns["filtered_relative_error"] = filtered.relative
    if prior.samples:
        columns["prior_relative_error"] = prior.relative
    return {
        name: {key: float(values[k]) for key, values in columns.items()}
        for k, name in enumerate(names)
    }


def _described(estimate: Estimate) -> Robot | None:
    """Return the robot as its file had it, missing drive terms zero.

    None where its inertia is unknown.
    """
    robot = estimate.base.robot
    drives = [column.index for columns in robot.layout.drives for column in columns]
    values = robot.parameters.copy()
    values[drives] = np.nan_to_num(values[drives])
    described = replace(robot, parameters=values)
    still = np.zeros(robot.n)
    try:
        inverse_dynamics(described, still, still, still)
    except MinidynError:
        return None
    return described


def _require_numbers(measured: Array, piece: Recording) -> None:
    if np.isfinite(measured).all():
        return
    sample, joint = (int(k) for k in np.argwhere(~np.isfinite(measured))[0])
    raise UnknownParameters(
        f"torque of joint {piece.joint_names[joint]!r} is not a number at t = "
        f"{piece.t[sample]:.6g} s; cut the samples out (recording[a:b]) or mend the log"
    )
