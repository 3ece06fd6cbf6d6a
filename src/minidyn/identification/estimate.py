"""The estimate: base parameters with their uncertainty, and the robot they make."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from minidyn.base.base_map import BaseMap
from minidyn.dynamics.functions import base_regressor, inverse_dynamics
from minidyn.errors import DescriptionError, MinidynError
from minidyn.experiment.recording import Recording
from minidyn.model.load.text_file import write_atomically
from minidyn.model.robot import Robot

__all__ = ["Estimate", "load_estimate"]

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Estimate:
    """An identified model.

    Attributes:
        robot: The robot with its identified parameters.
        base: The base parameters that were estimated.
        beta: Their values (b,).
        covariance: Of beta (b, b).
        sigma: Standard deviation of each joint's residual torque (n,), N m or N.
        method: How beta was estimated.
        consistent: Whether `parameters` are physically possible.
        condition: Condition number of the scaled problem.
        samples: Number of samples used.
        notices: What a reader should know.
        settings: What was asked and chosen, for records.
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
    notices: tuple[str, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the base parameters."""
        return self.base.names

    @property
    def parameters(self) -> Array:
        """Standard parameters (p,) that give these base parameters."""
        return self.robot.values

    @property
    def std(self) -> Array:
        """Standard deviation of each base parameter (b,)."""
        return np.sqrt(np.diag(self.covariance))

    @property
    def relative_std(self) -> Array:
        """Standard deviation over value (b,): 0.1 is ten percent; infinite where the value is zero."""
        with np.errstate(divide="ignore"):
            return np.asarray(self.std / np.abs(self.beta), dtype=float)

    def predict(self, recording: Recording) -> Array:
        """Return the torques (N, n) the model expects for a recorded motion (q, dq, ddq)."""
        if recording.dq is None or recording.ddq is None:
            raise MinidynError("predict needs dq and ddq; prepare the recording first: md.prepare(robot, recording)")
        if self.consistent:
            return inverse_dynamics(self.robot, recording.q, recording.dq, recording.ddq)
        Y = base_regressor(self.robot, self.base, recording.q, recording.dq, recording.ddq)
        return np.asarray(Y @ self.beta, dtype=float)

    def table(self) -> str:
        """Return a Markdown table of the base parameters, their values and uncertainty."""
        lines = ["| parameter | value | std | relative |", "|---|---:|---:|---:|"]
        for name, value, std, relative in zip(self.names, self.beta, self.std, self.relative_std):
            share = f"{100 * relative:.3g} %" if np.isfinite(relative) else "-"
            lines.append(f"| {name} | {value:.6g} | {std:.3g} | {share} |")
        return "\n".join(lines)

    def save(self, path: str | Path) -> None:
        """Write the estimate to one file (.json: everything, with the robot as TOML text inside)."""
        from minidyn.model.load.toml_write import toml_text

        target = Path(path)
        if target.suffix.lower() != ".json":
            raise DescriptionError(f"{target}: an estimate is saved as .json")
        content = {
            "minidyn": "estimate",
            "robot": toml_text(self.robot),
            "beta": self.beta.tolist(),
            "names": list(self.names),
            "kept": list(self.base.kept),
            "covariance": self.covariance.tolist(),
            "sigma": self.sigma.tolist(),
            "method": self.method,
            "consistent": self.consistent,
            "condition": self.condition,
            "samples": self.samples,
            "notices": list(self.notices),
            "settings": dict(self.settings),
        }
        write_atomically(target, json.dumps(content, indent=1).encode())

    def __repr__(self) -> str:
        kind = "consistent" if self.consistent else "not made consistent"
        return f"Estimate({self.robot.name!r}: {len(self.beta)} base parameters by {self.method}, {kind})"


def load_estimate(path: str | Path) -> Estimate:
    """Read an estimate that `Estimate.save` wrote.

    Raises:
        DescriptionError: The file is missing, broken or something else.
    """
    from minidyn.base.base_parameters import base_parameters
    from minidyn.model.load.toml import read_toml

    source = Path(path)
    try:
        content = json.loads(source.read_text(encoding="utf-8"))
        if content.get("minidyn") != "estimate":
            raise DescriptionError(f"{source}: not an estimate; expected a file that Estimate.save wrote")
        with tempfile.TemporaryDirectory() as folder:
            text = Path(folder) / "robot.toml"
            text.write_text(content["robot"], encoding="utf-8")
            robot = read_toml(text)
        base = base_parameters(robot)
        if list(base.kept) != content["kept"]:
            raise DescriptionError(f"{source}: its base parameters are not those of its robot")
        return Estimate(
            robot,
            base,
            np.array(content["beta"]),
            np.array(content["covariance"]),
            np.array(content["sigma"]),
            content["method"],
            content["consistent"],
            content["condition"],
            content["samples"],
            tuple(content["notices"]),
            content["settings"],
        )
    except FileNotFoundError:
        raise DescriptionError(f"{source}: no such file") from None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        if isinstance(error, MinidynError):
            raise
        raise DescriptionError(f"{source}: not a whole estimate ({error})") from None
