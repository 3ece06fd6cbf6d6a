"""The estimate: base parameters with their uncertainty, and the robot they make."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from minidyn.arrays import (
    Array,
    carried,
    frozen,
    plain_values,
    read_only_again,
    strict_json,
    symmetric,
)
from minidyn.base.base_map import BaseMap
from minidyn.base.equivalence import equivalence
from minidyn.base.printing.overview import units
from minidyn.display import MEASURED, MODEL, PRIOR, DisplayTable, legend_above, new_figure
from minidyn.dynamics.functions import base_regressor, torques_by_parts
from minidyn.dynamics.record import STATES
from minidyn.errors import DescriptionError, MinidynError, WrongArgument
from minidyn.files import write_atomically
from minidyn.formats.toml.write import toml_text
from minidyn.identification.consistency.certificate import Certificate, certify
from minidyn.identification.days import DAY_SPREAD, MODEL_ERROR, day_covariance
from minidyn.identification.diagnose.origin import data_shares
from minidyn.identification.estimate_file import VERSION, BodyConstants, base_to_json, read_saved
from minidyn.identification.estimators.torque_scatter import SCATTER
from minidyn.identification.export import Exported, Identified, export
from minidyn.identification.flexibility import SETTING as FLEXIBILITY
from minidyn.identification.flexibility import Flexibility
from minidyn.identification.friction.per_log import FrictionOfLogs
from minidyn.identification.known_torque import KnownTorqueLike
from minidyn.identification.rows.base_rows import remembering, signals_of
from minidyn.identification.select import seen
from minidyn.identification.selection import Selection
from minidyn.identification.settings import Settings
from minidyn.identification.verdict import Limits, Verdict, judge
from minidyn.model.robot import require_fixed_base
from minidyn.notices import Notice
from minidyn.recording.lazy import AnyRecording
from minidyn.recording.ready import in_robot_order, ready
from minidyn.recording.recording import Recording
from minidyn.text import markdown_table, plain_percent

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame

    from minidyn.identification.cross_validate import CrossValidation
    from minidyn.identification.validate import Validation

_SAVED = [
    "names",
    "beta",
    "covariance",
    "data_covariance",
    "log_covariance",
    "sigma",
    "method",
    "consistent",
]
_SAVED += ["condition", "samples", "notices", "record"]


@dataclass(frozen=True, eq=False)
class Estimate(Identified):
    """An identified model.

    Attributes:
        robot: The robot with its identified parameters.
        base: The base parameters that were estimated; `base.robot` is the robot as it was described
            before.
        beta: Their values (b,).
        covariance: Of beta (b, b): of the constrained values with their prior where the estimate
            was made consistent.
        sigma: Standard deviation of each joint's residual torque (n,), N m or N; infinite where the
            torque is not measured.
        method: How beta was estimated.
        consistent: Whether `parameters` were made physically consistent.
        condition: Condition number of the scaled problem.
        samples: Number of samples used.
        notices: What a reader should know.
        record: What was asked and chosen, for records: texts, numbers, lists and dicts alone.
        data_covariance: (b, b) as the data alone give it, without prior and consistency; None:
            `covariance`.
        log_covariance: Part of `covariance` (b, b) that is this log's own; errors of the prior and
            of how sharply friction reverses are in the estimates of other logs, too
            (`compare_estimates`). None: all of it.
        settings: Options with which `md.identify` gives the same numbers from the same log; None
            for estimates of other functions, and of files of earlier versions.
    """

    sigma: Array
    method: str
    consistent: bool
    condition: float
    samples: int
    notices: tuple[Notice, ...] = ()
    record: Mapping[str, Any] = field(default_factory=dict)
    data_covariance: Array | None = None
    log_covariance: Array | None = None
    settings: Settings | None = None

    def __post_init__(self) -> None:
        for name in ("beta", "sigma"):
            object.__setattr__(self, name, frozen(getattr(self, name)))
        for name in ("covariance", "data_covariance", "log_covariance"):
            if (values := getattr(self, name)) is not None:
                object.__setattr__(self, name, frozen(symmetric(values)))
        object.__setattr__(self, "record", plain_values(self.record))

    __setstate__ = read_only_again

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the base parameters."""
        return self.base.names

    @property
    def values(self) -> dict[str, float]:
        """The base parameters by name."""
        return dict(zip(self.names, self.beta.tolist()))

    @property
    def selection(self) -> Selection:
        """The table of decisions: what was tried, its gain, and whether it was taken."""
        return Selection.from_json(self.record.get("selection", ()))

    @property
    def bodies(self) -> tuple[BodyConstants, ...]:
        """What `identify_one_joint` found joint by joint, from the first to the last.

        Empty for other methods.
        """
        return tuple(BodyConstants(**entry) for entry in self.record.get("bodies", ()))

    @property
    def parameters(self) -> Array:
        """Standard parameters (p,) that give these base parameters."""
        return self.robot.parameters

    @property
    def std(self) -> Array:
        """Standard deviation of each base parameter (b,)."""
        return np.sqrt(np.diag(self.covariance))

    @property
    def relative_std(self) -> Array:
        """Standard deviation over value (b,): 0.1 is ten percent.

        Infinite where the value is zero.
        """
        with np.errstate(divide="ignore"):
            return np.asarray(self.std / np.abs(self.beta), dtype=float)

    @property
    def weak(self) -> tuple[str, ...]:
        """Names of the base parameters that the log hardly shows, as `md.check` counts them.

        Their standard deviation is above 30 % of the value; of small ones, of the value that would
        make up a tenth of a joint's torque.
        """
        names = [
            name
            for notice in self.notices
            if notice.code == "identify.weakly_determined"
            for name in notice.data.get("parameters", ())
        ]
        return tuple(names)

    @property
    def of_data(self) -> Array:
        """Covariance of the base parameters as the data alone give them (b, b).

        Without prior and consistency.
        """
        return self.covariance if self.data_covariance is None else self.data_covariance

    @cached_property
    def data_shares(self) -> Array:
        """The data's share of each base parameter (b,), 0 to 1; the rest is the prior's.

        NaN where not known. By how much the data narrow the parameter down, were nothing known of
        bodies but their rough size.
        """
        return data_shares(self)

    @property
    def flexibility(self) -> Flexibility | None:
        """Joints that give way, where they were identified: stiffness, deviations, torque.

        None: stiff ones.
        """
        return Flexibility.of(self.robot, self.record) if FLEXIBILITY in self.record else None

    @cached_property
    def prior_values(self) -> Array:
        """Base parameters before identification (b,), NaN where they are unknown or were not
        kept.
        """
        if np.array_equal(self.base.robot.parameters, self.robot.parameters, equal_nan=True):
            return np.full(len(self.beta), np.nan)
        return self.base.known_values

    @property
    def prior_curve(self) -> Array | None:
        """Weights of the prior that were tried (k, 2), rising, with the misfit of held-out time
        blocks under each.

        The misfit is in noise variances, summed over blocks; the scale with the least was taken.
        None where there was no prior or no scale to choose.
        """
        curve = self.record.get("prior_curve")
        return None if curve is None else np.array(curve, dtype=float)

    @cached_property
    def certificate(self) -> Certificate:
        """The numbers that show whether the model can exist.

        Links, drives, inertia matrix, total mass.
        """
        return certify(self.robot, prior=self.base.robot.parameters)

    def predict(self, recording: AnyRecording, *, low_passed: bool = False) -> Array:
        """Return the torques (N, n) the model expects for a recorded motion, columns in the
        recording's own order.

        A raw recording in memory (q without dq or ddq) is low-passed and differentiated, and every
        sample is kept. `low_passed`: torques are those that have passed the low-pass of the
        recording's preparation, or of the fit's.
        """
        return self._along(recording, self._seen(recording, low_passed)._torques)

    @cached_property
    def day_covariance(self) -> Array:
        """What another day and another motion change of the base parameters (b, b).

        Beyond `covariance`, which is that of the fitted log: the friction of one day about that of
        the robot, and what the model lacks, which another motion excites differently.
        """
        motion = np.array(self.record.get(MODEL_ERROR, np.zeros(len(self.beta))), dtype=float)
        logs = FrictionOfLogs.of(self.record)  # their spread is in the covariance
        share = DAY_SPREAD if logs is None else 0.0
        return day_covariance(self.robot, self.base, share) + np.diag(motion**2)

    def predict_std(
        self, recording: AnyRecording, drift: float | None = None, *, low_passed: bool = False
    ) -> Array:
        """Return the standard deviation (N, n) of a measured torque about `predict`, in its order.

        It holds the noise, the deviations of the parameters and by how much friction varies from
        log to log. It is infinite where parameters act that the data did not determine. Not in it:
        the poor accelerations near the ends of a raw log, and a delay that was found, for `predict`
        gives torques at the instants of the positions.

        Args:
            recording: A motion, as for `predict`.
            drift: Standard deviation of a joint's friction from day to day, as a share of it; None:
                what several fitted logs show (`friction_per="log"`), else 13 %, as other robots
                have it (docs/estimators.md). Zero: the recording is of the day of the fitted log.
            low_passed: Of torques low-passed as for the fit, about
                `predict(recording, low_passed=True)`: they lack the noise above the cut-off. False:
                of single samples as they are measured.

        Raises:
            MinidynError: The fit knew low-passed torques alone, not by how much single samples
                scatter.
        """
        scatter = self.record.get(SCATTER, {}).get("low_passed" if low_passed else "measured")
        if scatter is None and self._cutoff and not low_passed:
            raise MinidynError(
                "predict_std: this estimate was fitted to low-passed torques and does not say how "
                "much measured ones scatter; low_passed=True is known, or identify again from the "
                "log as it was measured"
            )
        noise = self.sigma if scatter is None else np.array(scatter, dtype=float)
        base = self._seen(recording, low_passed).base
        robot = base.robot.with_parameters(
            self.parameters
        )  # loads that friction grows with are the model's
        covariance = self.covariance + self._between_logs(drift)

        def deviations(piece: Recording) -> Array:
            states = piece.telemetry.get(STATES)
            Y = base_regressor(
                robot, *signals_of(piece, "q", "dq", "ddq"), base=base, memory=states
            )
            return np.asarray(
                np.sqrt(np.diagonal(carried(Y, covariance), axis1=-2, axis2=-1) + noise**2)
            )

        return self._along(recording, deviations)

    def _between_logs(self, drift: float | None) -> Array:
        """Return what friction of another log adds to the covariance (b, b)."""
        logs = FrictionOfLogs.of(self.record)
        if drift is None and logs is not None:
            return logs.covariance(self.base)
        # the day of the fitted log and that of the other one
        share = np.sqrt(2.0) * (DAY_SPREAD if drift is None else drift)
        return day_covariance(self.robot, self.base, share)

    def _along(self, recording: AnyRecording, values: Callable[[Recording], Array]) -> Array:
        """Return values (N, n) of the pieces of a recorded motion, columns in the recording's own
        order.
        """
        made: AnyRecording = recording
        if "dq" not in recording.signals or "ddq" not in recording.signals:
            made = ready(
                self.robot,
                recording,
                purpose="a prediction",
                tau=False,
                every_sample=True,
                once=True,
            )
            if len(made) != len(recording):
                raise MinidynError(
                    f"predict: {len(recording) - len(made)} of {len(recording)} samples have no "
                    "speeds and accelerations (gaps, short runs); prepare the recording first: "
                    "md.prepare(robot, recording)"
                )
        made = remembering(self.robot, in_robot_order(self.robot, made))
        pieces = [made] if isinstance(made, Recording) else made.tiles()
        found = np.concatenate([values(piece) for piece in pieces])
        return found[:, [made.joint_names.index(name) for name in recording.joint_names]]

    @property
    def _cutoff(self) -> float:
        """Of the low-pass that the fitted torques passed, Hz; 0: none."""
        return float((self.record.get("preparation") or {}).get("cutoff") or 0.0)

    def _seen(self, recording: AnyRecording, low_passed: bool) -> Estimate:
        """Return the estimate as torques show it that passed the low-pass of a recording's
        preparation, if they did.
        """
        return seen(self, recording.info.get("cutoff") or self._cutoff) if low_passed else self

    def at_temperature(self, temperature: float) -> Estimate:
        """Return the estimate with friction at a temperature, °C, of logs that were fitted with
        theirs.

        Needs `friction_per="log"` and logs with telemetry "temperature" that differ.
        """
        logs = FrictionOfLogs.of(self.record)
        if logs is None or np.isnan(logs.temperature):
            raise MinidynError(
                "at_temperature: friction was not fitted over temperatures: "
                "identify(friction_per=...)"
            )
        return self.with_friction(logs.at(self.parameters, self.base, temperature))

    def with_friction(self, values: Array) -> Estimate:
        """Return the estimate with the friction of one log, as `record["friction_logs"]` has it,
        for the mean.
        """
        logs = cast(FrictionOfLogs, FrictionOfLogs.of(self.record))
        beta, phi = logs.parameters(self.base, self.parameters, values)
        return replace(self, robot=self.robot.with_parameters(phi), beta=beta)

    def _torques(self, piece: Recording) -> Array:
        motion, states = (
            (piece.q, np.asarray(piece.dq), np.asarray(piece.ddq)),
            piece.telemetry.get(STATES),
        )
        known = np.float64(0.0) if self.known_torque is None else self.known_torque.torque(piece)
        known = known if self.flexibility is None else known + self.flexibility.torque(piece)
        if self.consistent:
            (tau,) = torques_by_parts([self.robot], *motion, states)  # one kernel for all models
            return np.asarray(tau + known)
        return np.asarray(
            base_regressor(self.robot, *motion, base=self.base, memory=states) @ self.beta + known
        )

    def verdict(
        self,
        validation: Validation | Mapping[str, Validation] | CrossValidation | None = None,
        limits: Limits | Mapping[str, float] | None = None,
        *,
        fit: Validation | None = None,
    ) -> Verdict:
        """Return whether the model may be used, by rules about it, its errors on test data, and
        each joint.

        Args:
            validation: Its errors on test data: one run or several by name; or cross-validation.
            limits: Of the rules; None: the default ones; a mapping replaces some of them.
            fit: Its errors on the data it was fitted to, where known.
        """
        if validation is None or isinstance(validation, Mapping):
            return judge(self, validation or {}, fit=fit, limits=limits)
        if hasattr(validation, "folds"):
            return judge(
                self,
                {},
                fit=fit,
                cross_validation=cast("CrossValidation", validation),
                limits=limits,
            )
        return judge(self, {"test run": validation}, fit=fit, limits=limits)

    def in_base(self, base: BaseMap) -> tuple[Array, Array]:
        """Return (beta, covariance) in another set of base parameters of the same robot.

        Raises:
            NotEquivalent: The sets do not determine each other.
        """
        change = equivalence(self.base, base)
        return np.asarray(change @ self.beta), carried(change, self.covariance)

    def table(self) -> str:
        """Return a Markdown table of the base parameters, their values and uncertainty."""

        def relative(share: float) -> str:
            if not np.isfinite(share):
                return "-"
            return f"{100 * share:.3g} %" if share <= 10 else "> 1000 %"

        every = zip(self.names, self.beta, self.std, self.relative_std, self.data_shares)
        rows = (
            (name, f"{value:.6g}", f"{std:.3g}", relative(share), plain_percent(data))
            for name, value, std, share, data in every
        )
        headings = ("parameter", "value", "std", "relative", "from data")
        return markdown_table("lrrrr", headings, rows)

    def to_pandas(self) -> DataFrame:
        """Return the base parameters as a pandas frame: value, standard deviation, prior, unit."""
        return self._display().to_pandas()

    def plot(self) -> Figure:
        """Return a matplotlib figure: each base parameter with its 95 % interval, and the prior."""
        figure, axes = new_figure(repr(self), 1, 0.19 * len(self.beta) + 0.8)
        axis = axes[0]
        places = np.arange(len(self.beta))[::-1]
        spread = np.where(np.isfinite(self.std), 1.96 * self.std, 0.0)
        words = "estimate, 95 % interval"
        axis.errorbar(
            self.beta, places, xerr=spread, fmt="o", color=MODEL, markersize=4, label=words
        )
        axis.plot(
            self.prior_values,
            places,
            "D",
            color=PRIOR,
            markerfacecolor="none",
            markersize=5,
            label="prior",
        )
        axis.axvline(0.0, color=MEASURED, linewidth=0.8)
        axis.set_xscale("symlog", linthresh=0.01)
        labels = [
            f"{name}, {unit}" if unit else name for name, unit in zip(self.names, units(self.base))
        ]
        axis.set_yticks(places, labels, fontsize=7)
        legend_above(axis)
        return figure

    def _display(self) -> DisplayTable:
        columns = {
            "base parameter": self.names,
            "value": self.beta.tolist(),
            "std": self.std.tolist(),
            "relative": self.relative_std.tolist(),
            "from data": self.data_shares.tolist(),
            "prior": self.prior_values.tolist(),
            "unit": units(self.base),
        }
        return DisplayTable(repr(self), columns, ("relative", "from data"), self.notices)

    def _repr_html_(self) -> str:
        return self._display().to_html()

    def export(
        self,
        path: str | os.PathLike[str],
        to: Iterable[str] | str | None = None,
        *,
        source: str | os.PathLike[str] | bool | None = None,
        test: Validation | None = None,
    ) -> Exported:
        """Write the identified model for other programs.

        A folder gets a TOML file, a URDF and an MJCF (.xml, for MuJoCo) with the robot's name, and
        model.c with model.h, all or none of them; a format that cannot describe the robot is left
        out with a notice. Loaded again by `md.load`, each gives the torques of the estimate: rotor
        inertia and all friction terms included. Joints that are locked in the model stay joints of
        a URDF or MJCF that is kept (`source`).

        An estimate that was not made consistent may be no robot that can exist. URDF and TOML hold
        such numbers; MuJoCo refuses them, so that the MJCF holds the nearest consistent model, with
        a notice, and its side file the numbers themselves.

        Args:
            path: A folder, or a file whose ending chooses the format: .toml, .urdf, .xml, .mjcf,
                .c.
            to: Of a folder: formats "toml", "urdf", "mjcf", "c", and consumers "mujoco",
                "pinocchio", "drake", "fmu", "ros2_control", "usd", "isaac", and of a load "franka",
                "ur" (docs/exporting.md); None: the formats.
            source: The URDF or MJCF whose meshes and everything else is kept; None: the file the
                robot was loaded from, where it still is; False: none, files are written anew.
            test: `md.validate` of the estimate on test data: a notice gives the error there of what
                a format says.

        Raises:
            UnknownName: No such format.
            DescriptionError: Nothing can be written there.
            Unsupported: A single file in a format that cannot describe the robot.
        """
        return export(self, path, to, source=source, test=test)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the estimate to one file (.json: everything, with the robot as TOML text
        inside).
        """
        target = Path(path)
        if target.suffix.lower() != ".json":
            raise DescriptionError(f"{target}: an estimate is saved as .json")
        content = {
            "minidyn": "estimate",
            "version": VERSION,
            "robot": toml_text(self.robot),
            **{name: getattr(self, name) for name in _SAVED},
            "settings": self.settings and self.settings.to_json(),
            "base": base_to_json(self.base),
            "certificate": None if np.isnan(self.parameters).any() else self.certificate.to_json(),
            "known_torque": None
            if self.known_torque is None
            else self.known_torque.saved(toml_text),
        }
        write_atomically(target, strict_json(content))

    def __repr__(self) -> str:
        kind = "consistent" if self.consistent else "not made consistent"
        return (
            f"Estimate({self.robot.name!r}: {len(self.beta)} base parameters by {self.method}, "
            f"{kind})"
        )


EstimateLike = Estimate | str | os.PathLike[str]
"""An estimate, or the path where it was saved."""


def as_estimate(value: object, door: str) -> Estimate:
    """Return an estimate as it is, or read from its path: what every door function does.

    Raises:
        WrongArgument: Anything else.
    """
    if isinstance(value, str | os.PathLike):
        value = load_estimate(value)
    if isinstance(value, Estimate):
        require_fixed_base(value.robot, door)
        return value
    raise WrongArgument(
        f"{door}: expected an estimate or its path first, got {type(value).__name__}"
    )


def load_estimate(
    path: str | os.PathLike[str], *, known_torque: KnownTorqueLike = None
) -> Estimate:
    """Read an estimate that `Estimate.save` wrote: every number is the one that was saved.

    Functions of its known torque, which files do not hold, are given: one function, or {name:
    function}.

    Raises:
        DescriptionError: The file is missing, broken or something else.
    """
    return read_saved(Estimate, Path(path), known_torque)
