"""Errors to expect on new motion, from one recording.

Each stretch of time is predicted by a fit to the others.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np

from minidyn.arrays import Array, single_thread
from minidyn.base.base_map import BaseMap
from minidyn.base.base_parameters import base_parameters
from minidyn.display import shows_progress
from minidyn.errors import MinidynError, ShapeError, shows_options
from minidyn.formats.load import as_robot
from minidyn.identification.diagnose.meaningless import require_meaning
from minidyn.identification.identify import PathLike, identify
from minidyn.identification.known_torque import KnownTorqueLike
from minidyn.identification.settings import Settings, SettingsOptions, settings_of
from minidyn.identification.validate import Validation, validate
from minidyn.model.drives import OWN
from minidyn.model.robot import Robot
from minidyn.recording.lazy import AnyRecording, concatenate
from minidyn.recording.prepare.process import cutoff_period
from minidyn.recording.ready import (
    as_asked,
    as_recording,
    ready,
    with_logged_joints,
    with_mapped_coupling,
)
from minidyn.text import markdown_table, plain_percent

if TYPE_CHECKING:
    from minidyn.control.controller import Controller


@dataclass(frozen=True, eq=False)
class CrossValidation:
    """Errors on stretches of time that were left out of the fit, one after the other.

    Attributes:
        folds: For each stretch, the errors of the model fitted to the others.
        fits: For each stretch, the errors of that model on the samples it was fitted to.
        spans: (first, last) time of each stretch, s.
    """

    folds: tuple[Validation, ...]
    fits: tuple[Validation, ...]
    spans: tuple[tuple[float, float], ...]

    @property
    def errors(self) -> Array:
        """Relative error of each stretch (folds,)."""
        return np.array([fold.relative_error for fold in self.folds])

    @property
    def relative_error(self) -> float:
        """Mean of the stretches' relative errors: what to expect on new motion of the same kind."""
        return float(np.mean(self.errors))

    @property
    def spread(self) -> float:
        """Standard deviation of the stretches' relative errors."""
        return float(np.std(self.errors, ddof=1)) if len(self.folds) > 1 else math.nan

    @property
    def rmse(self) -> float:
        """Root of the mean squared error over all stretches, N m or N."""
        weights = np.array([fold.samples for fold in self.folds], dtype=float)
        return float(np.sqrt(np.average([fold.rmse**2 for fold in self.folds], weights=weights)))

    @property
    def per_joint(self) -> dict[str, dict[str, float]]:
        """For each joint, means over the stretches of its errors.

        As in :class:`minidyn.Validation`.
        """

        def mean(name: str, key: str) -> float:
            return float(np.mean([fold.per_joint[name][key] for fold in self.folds]))

        keys = ("relative_error", "rmse", "bias", "systematic_error", "systematic_share")
        return {name: {key: mean(name, key) for key in keys} for name in self.folds[0].per_joint}

    def table(self) -> str:
        """Return a Markdown table of the stretches and their mean."""
        rows = list[tuple[str, ...]]()
        for fold, fit, (begin, end) in zip(self.folds, self.fits, self.spans):
            errors = (fold.relative_error, fit.relative_error, fold.prior_relative_error)
            time = f"{begin:.4g} to {end:.4g}"
            rows.append((str(len(rows) + 1), time, *map(plain_percent, errors)))
        means = (self.relative_error, float(np.mean([fit.relative_error for fit in self.fits])))
        rows.append(("mean", "", *map(plain_percent, means), ""))
        headings = ("stretch", "time, s", "left out", "fitted", "robot file")
        return markdown_table("llrrr", headings, rows)

    def to_json(self) -> dict[str, Any]:
        """Return the errors as plain values."""
        return {
            "relative_error": self.relative_error,
            "spread": self.spread,
            "rmse": self.rmse,
            "joints": self.per_joint,
            "stretches": [
                {
                    "begin": begin,
                    "end": end,
                    "left_out": fold.relative_error,
                    "fitted": fit.relative_error,
                }
                for (begin, end), fold, fit in zip(self.spans, self.folds, self.fits)
            ],
        }

    def __repr__(self) -> str:
        error = f"{plain_percent(self.relative_error)} ± {plain_percent(self.spread)}"
        return f"CrossValidation({len(self.folds)} stretches, error {error})"


@shows_progress("cross-validating", lambda given: given["folds"])
@single_thread()
@shows_options(Settings)
def cross_validate(
    robot: Robot | PathLike,
    recording: AnyRecording | PathLike | Sequence[PathLike],
    folds: int = 5,
    *,
    method: str | None = None,
    settings: Settings | None = None,
    base: BaseMap | None = None,
    controller: Controller | None = None,
    known_torque: KnownTorqueLike = None,
    threads: int = 1,
    device: str | None = None,
    force: bool = False,
    anyway: bool = False,
    progress: Callable[[int], None] | bool | None = None,
    **options: Unpack[SettingsOptions],
) -> CrossValidation:
    """Fit a model to all stretches of a recording but one and test it on that one, for each
    stretch.

    What is left out is a stretch of time, not scattered samples: neighbours repeat each other and
    would make any model look good. A raw recording is prepared once; samples nearer to the stretch
    than the filter reaches are not fitted.

    Args:
        robot: The robot, a built-in robot's name or a robot file's path.
        recording: Raw or prepared, in memory or on disk.
        folds: Number of stretches of equal length.
        method: As for `md.identify`.
        settings: As for `md.identify`; friction "auto" is chosen anew without each stretch.
        base: As for `md.identify`.
        controller: As for `md.identify`.
        known_torque: As for `md.identify`.
        threads: As for `md.identify`.
        device: As for `md.identify`.
        force: As for `md.identify`.
        anyway: Old name of `force`.
        progress: Called with the number of parts done so far; True: a bar on stderr.
        **options: As for `md.identify`.

    Raises:
        ShapeError: Fewer than two stretches, or more than samples.
        MinidynError: The rest does not determine the model without some stretch; the message names
            it.
    """
    settings = settings_of(settings, {"method": method, **options}, base)
    robot = as_robot(robot)
    log = as_recording(recording, robot)
    robot = with_logged_joints(robot, log)
    if (
        isinstance(folds, bool)
        or not isinstance(folds, int)
        or not 2 <= folds <= max(2, len(log) // 2)
    ):
        raise ShapeError(
            f"folds: expected a whole number from 2 to half the samples, got {folds!r}"
        )
    require_meaning(robot, log, force or anyway)
    data = ready(robot, as_asked(robot, log, settings), purpose="cross-validation")
    if base is None and settings.terms == OWN and settings.rotor_inertia is None:
        robot = with_mapped_coupling(robot, data.notices, data.joint_names)
        base = base_parameters(robot)  # the same for every stretch
    running: dict[str, Any] = {"base": base, "controller": controller, "force": True}
    running |= {"known_torque": known_torque, "threads": threads, "device": device}
    reach = math.ceil(cutoff_period(data.info))  # the low-pass smears a torque over one period
    tested, fitted, spans = [], [], []
    edges = np.linspace(0, len(data), folds + 1).astype(int)
    for number, (begin, end) in enumerate(pairwise(edges.tolist()), 1):
        held = data[begin:end]
        around = (data[: max(0, begin - reach)], data[min(len(data), end + reach) :])
        kept = [part for part in around if len(part)]
        if not kept:
            raise MinidynError(
                "cross-validation: nothing is left to fit; the recording is too short"
            )
        rest, times = concatenate(kept), [tile.t for tile in held.tiles()]
        span = float(times[0][0]), float(times[-1][-1])
        try:
            estimate = identify(robot, rest, settings=settings, **running)
        except MinidynError as error:
            where = f"without stretch {number} of {folds} (t = {span[0]:.4g} to {span[1]:.4g} s)"
            raise MinidynError(f"{where}: {error}") from None
        tested.append(validate(estimate, held))
        fitted.append(validate(estimate, rest))
        spans.append(span)
        if callable(progress):
            progress(number)
    return CrossValidation(tuple(tested), tuple(fitted), tuple(spans))
