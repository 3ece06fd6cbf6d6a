"""The estimate: base parameters with their uncertainty, and the robot they make."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from minidyn.arrays import Array
from minidyn.base.base_map import BaseMap
from minidyn.base.printing.overview import units
from minidyn.display import MEASURED, MODEL, RESIDUAL, DisplayTable, new_figure
from minidyn.dynamics.functions import base_regressor, inverse_dynamics
from minidyn.errors import DescriptionError, MinidynError
from minidyn.files import write_atomically
from minidyn.formats.toml.write import toml_text
from minidyn.identification.estimate_file import (
    base_from_json,
    base_to_json,
    plain_values,
    robot_from_text,
    strict_json,
    with_numbers,
)
from minidyn.model.robot import Robot
from minidyn.notices import Notice
from minidyn.recording.lazy import LazyRecording
from minidyn.recording.recording import Recording

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame

    from minidyn.identification.consistency.certificate import Certificate
    from minidyn.identification.export import Exported


@dataclass(frozen=True, eq=False)
class Estimate:
    """An identified model.

    Attributes:
        robot: The robot with its identified parameters.
        base: The base parameters that were estimated; `base.robot` is the robot as it was described before.
        beta: Their values (b,).
        covariance: Of beta (b, b).
        sigma: Standard deviation of each joint's residual torque (n,), N m or N.
        method: How beta was estimated.
        consistent: Whether `parameters` are physically possible.
        condition: Condition number of the scaled problem.
        samples: Number of samples used.
        notices: What a reader should know.
        settings: What was asked and chosen, for records: texts, numbers, lists and dicts alone.
    """

    robot: Robot
    base: BaseMap
    beta: Array
    covariance: Array
    sigma: Array
    method: str
    consistent: bool
    condition: float
    samples: int
    notices: tuple[Any, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("beta", "covariance", "sigma"):
            array = np.array(getattr(self, name), dtype=float)
            array.setflags(write=False)
            object.__setattr__(self, name, array)
        object.__setattr__(self, "settings", plain_values(self.settings))

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the base parameters."""
        return self.base.names

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
        """Standard deviation over value (b,): 0.1 is ten percent; infinite where the value is zero."""
        with np.errstate(divide="ignore"):
            return np.asarray(self.std / np.abs(self.beta), dtype=float)

    @cached_property
    def prior_values(self) -> Array:
        """Base parameters before identification (b,), NaN where they are unknown or were not kept."""
        if np.array_equal(self.base.robot.parameters, self.robot.parameters, equal_nan=True):
            return np.full(len(self.beta), np.nan)
        return self.base.known_values

    @property
    def prior_curve(self) -> Array | None:
        """Weights of the prior that were tried (k, 2), rising, with the misfit of held-out time blocks under each.

        The misfit is in noise variances, summed over blocks; the least chose the weight. None where there was no prior
        or no weight to choose.
        """
        curve = self.settings.get("prior_curve")
        return None if curve is None else np.array(curve, dtype=float)

    @cached_property
    def certificate(self) -> Certificate:
        """The numbers that show whether the model can exist: links, drives, inertia matrix, total mass."""
        from minidyn.identification.consistency.certificate import certify

        return certify(self.robot, prior=self.base.robot.parameters)

    def predict(self, recording: Recording | LazyRecording) -> Array:
        """Return the torques (N, n) the model expects for a recorded motion, columns in the recording's own order.

        A raw recording in memory (q without dq or ddq) is low-passed and differentiated, and every sample is kept.
        """
        if isinstance(recording, LazyRecording):
            return np.concatenate([self._torques(tile) for tile in recording.tiles()])
        if recording.dq is not None and recording.ddq is not None:
            return self._torques(recording)
        from minidyn.recording.prepare.prepare import prepare
        from minidyn.recording.ready import in_robot_order

        ready = prepare(self.robot, in_robot_order(self.robot, recording), decimate=1, trim=False)
        if len(ready) != len(recording):
            raise MinidynError(
                f"predict: {len(recording) - len(ready)} of {len(recording)} samples have no speeds and accelerations "
                "(gaps, short runs); prepare the recording first: md.prepare(robot, recording)"
            )
        return self._torques(ready)[:, self._order(recording)]

    def _torques(self, recording: Recording) -> Array:
        if recording.dq is None or recording.ddq is None:
            raise MinidynError("predict needs dq and ddq; prepare the recording first: md.prepare(robot, recording)")
        q, dq, ddq, order = recording.q, recording.dq, recording.ddq, self._order(recording)
        shuffled = order != list(range(recording.n))
        if shuffled:
            q, dq, ddq = (signal[:, np.argsort(order)] for signal in (q, dq, ddq))
        if self.consistent:
            tau = inverse_dynamics(self.robot, q, dq, ddq)
        else:
            tau = np.asarray(base_regressor(self.robot, q, dq, ddq, base=self.base) @ self.beta, dtype=float)
        return tau[:, order] if shuffled else tau

    def _order(self, recording: Recording) -> list[int]:
        """Return the robot's joint of each of the recording's columns; by position where names are of another kind."""
        names = self.robot.joint_names
        if set(recording.joint_names) != set(names):
            return list(range(recording.n))
        return [names.index(name) for name in recording.joint_names]

    def table(self) -> str:
        """Return a Markdown table of the base parameters, their values and uncertainty."""
        lines = ["| parameter | value | std | relative |", "|---|---:|---:|---:|"]
        for name, value, std, relative in zip(self.names, self.beta, self.std, self.relative_std):
            share = "-" if not np.isfinite(relative) else f"{100 * relative:.3g} %" if relative <= 10 else "> 1000 %"
            lines.append(f"| {name} | {value:.6g} | {std:.3g} | {share} |")
        return "\n".join(lines)

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
        axis.errorbar(self.beta, places, xerr=spread, fmt="o", color=MODEL, markersize=4, label=words)
        axis.plot(self.prior_values, places, "D", color=RESIDUAL, markerfacecolor="none", markersize=5, label="prior")
        axis.axvline(0.0, color=MEASURED, linewidth=0.8)
        axis.set_xscale("symlog", linthresh=0.01)
        labels = [f"{name}, {unit}" if unit else name for name, unit in zip(self.names, units(self.base))]
        axis.set_yticks(places, labels, fontsize=7)
        axis.legend(loc="lower right", bbox_to_anchor=(1.0, 1.0), frameon=False, ncols=2, fontsize=8)
        return figure

    def _display(self) -> DisplayTable:
        columns = {
            "base parameter": self.names,
            "value": self.beta.tolist(),
            "std": self.std.tolist(),
            "relative": self.relative_std.tolist(),
            "prior": self.prior_values.tolist(),
            "unit": units(self.base),
        }
        return DisplayTable(repr(self), columns, ("relative",), self.notices)

    def _repr_html_(self) -> str:
        return self._display().to_html()

    def export(
        self,
        path: str | os.PathLike[str],
        formats: Iterable[str] | None = None,
        *,
        source: str | os.PathLike[str] | bool | None = None,
    ) -> Exported:
        """Write the identified model for other programs; see :func:`minidyn.identification.export.export`.

        Args:
            path: A folder for all formats, or a file's name whose ending chooses one: .toml, .urdf, .xml, .c.
            formats: Of a folder: some of "toml", "urdf", "mjcf", "c"; None: all.
            source: The URDF or MJCF whose meshes and everything else is kept; None: the file the robot was loaded
                from, where it still is; False: none.
        """
        from minidyn.identification.export import export

        return export(self, path, formats, source=source)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the estimate to one file (.json: everything, with the robot as TOML text inside)."""
        target = Path(path)
        if target.suffix.lower() != ".json":
            raise DescriptionError(f"{target}: an estimate is saved as .json")
        content = {
            "minidyn": "estimate",
            "version": 2,
            "robot": toml_text(self.robot),
            "names": self.names,
            "beta": self.beta,
            "covariance": self.covariance,
            "sigma": self.sigma,
            "method": self.method,
            "consistent": self.consistent,
            "condition": self.condition,
            "samples": self.samples,
            "notices": self.notices,
            "settings": self.settings,
            "base": base_to_json(self.base),
            "certificate": None if np.isnan(self.parameters).any() else self.certificate.to_json(),
        }
        write_atomically(target, strict_json(content))

    def __repr__(self) -> str:
        kind = "consistent" if self.consistent else "not made consistent"
        return f"Estimate({self.robot.name!r}: {len(self.beta)} base parameters by {self.method}, {kind})"


def load_estimate(path: str | os.PathLike[str]) -> Estimate:
    """Read an estimate that `Estimate.save` wrote: every number is the one that was saved.

    Raises:
        DescriptionError: The file is missing, broken or something else.
    """
    source = Path(path)
    if source.is_dir():
        raise DescriptionError(f"{source}: a folder; name the estimate in it, as in {source / 'estimate.json'}")
    try:
        content = with_numbers(json.loads(source.read_text(encoding="utf-8")))
        if not isinstance(content, dict) or content.get("minidyn") != "estimate":
            raise DescriptionError(f"{source}: not an estimate; expected a file that Estimate.save wrote")
        if content.get("version") != 2:
            raise DescriptionError(
                f"{source}: an estimate of version {content.get('version', 1)}; this minidyn reads version 2, identify "
                "again"
            )
        robot, base = robot_from_text(content["robot"]), base_from_json(content["base"])
        if robot.structure_fingerprint != base.robot.structure_fingerprint or len(content["sigma"]) != robot.n:
            raise ValueError("its robot is not that of its base parameters")
        size = base.rank
        return Estimate(
            robot,
            base,
            np.array(content["beta"], dtype=float).reshape(size),
            np.array(content["covariance"], dtype=float).reshape(size, size),
            np.array(content["sigma"], dtype=float),
            str(content["method"]),
            bool(content["consistent"]),
            float(content["condition"]),
            int(content["samples"]),
            tuple(Notice.from_json(one) if isinstance(one, dict) else one for one in content["notices"]),
            content["settings"],
        )
    except FileNotFoundError:
        raise DescriptionError(f"{source}: no such file") from None
    except (
        OSError,
        ValueError,
        LookupError,
        TypeError,
        ArithmeticError,
        AttributeError,
        RecursionError,
        MinidynError,
    ) as error:
        if isinstance(error, DescriptionError) and str(source) in str(error):
            raise
        raise DescriptionError(f"{source}: not a whole estimate ({error})") from None
