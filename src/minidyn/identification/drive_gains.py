"""Drive gains, from motor current to joint torque, from two runs: one without and one with a load of known mass.

Currents alone fix no scale: twice the gains and twice all inertias move alike. A load whose mass was weighed does. All
joints are solved together, because they share the bodies they carry.

The currents are what is noisy, so the model predicts them: i_j = (Y_j beta + Y_j^L phi_L) / k_j + noise. Plain least
squares for k_j i_j = ... would put noise into the columns and make gains too small. Total least squares avoids that for
equal noise, the form here for any, and it is the likeliest solution for normal noise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from minidyn.base.base_map import BaseMap
from minidyn.base.base_parameters import base_parameters
from minidyn.base.samples import units_of
from minidyn.errors import DescriptionError, MinidynError, ShapeError
from minidyn.experiment.payload import Payload
from minidyn.experiment.recording import Recording
from minidyn.graph.names import markdown_cell
from minidyn.identification.drive_gain_problem import CurrentColumns, GainProblem, together
from minidyn.identification.identify import in_joint_order
from minidyn.identification.rows import memory_of, ready_for, reduced, residuals
from minidyn.model.geometry import matrix_of
from minidyn.model.inertia import from_body
from minidyn.model.robot import Robot

__all__ = ["DriveGains", "identify_drive_gains"]

Array = NDArray[np.float64]
_LOOSE = 0.1  # relative standard deviation beyond which a gain is called open


@dataclass(frozen=True, eq=False)
class DriveGains:
    """Gains that turn measured currents into joint torques.

    Attributes:
        robot: The robot.
        gains: N m (or N) a unit of current (n,), joint side.
        covariance: Of the gains (n, n).
        base: Base parameters that were estimated with them.
        beta: Their values (b,).
        payload: The load, with what was found of its centre and inertia.
        sigma: Noise of each joint's current (n,).
        notices: What a reader should know.
    """

    robot: Robot
    gains: Array
    covariance: Array
    base: BaseMap
    beta: Array
    payload: Payload
    sigma: Array
    notices: tuple[str, ...] = ()

    @property
    def std(self) -> Array:
        """Standard deviation of each gain (n,)."""
        return np.sqrt(np.diag(self.covariance))

    def apply(self, recording: Recording) -> Recording:
        """Return a recording of currents with torques in their place."""
        ordered = in_joint_order(self.robot, recording)
        if ordered.tau is None:
            raise MinidynError("drive gains need measured currents; the recording has none")
        extra = {
            name: values * self.gains if name == "tau_raw" else values for name, values in ordered.telemetry.items()
        }
        return Recording(
            ordered.t,
            ordered.q,
            ordered.tau * self.gains,
            ordered.dq,
            ordered.ddq,
            ordered.joint_names,
            starts=ordered.starts,
            telemetry=extra,
            notices=(*ordered.notices, "torques are currents times identified drive gains"),
            info=ordered.info,
        )

    def table(self) -> str:
        """Return a Markdown table of the gains."""
        lines = ["| joint | gain | std | relative |", "|---|---:|---:|---:|"]
        for name, gain, std in zip(self.robot.joint_names, self.gains, self.std):
            lines.append(f"| {markdown_cell(name)} | {gain:.6g} | {std:.3g} | {100 * std / abs(gain):.3g} % |")
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"DriveGains({self.robot.name!r}: {' '.join(f'{gain:.4g}' for gain in self.gains)})"


def identify_drive_gains(
    robot: Robot,
    recording: Recording,
    loaded_recording: Recording,
    mass: float,
    *,
    com: ArrayLike | None = None,
    inertia: ArrayLike | None = None,
    link: str | None = None,
    base: BaseMap | None = None,
) -> DriveGains:
    """Return the drive gains of all joints from a run without and a run with a load of known mass.

    Args:
        robot: The robot; its own parameter values are not read.
        recording: A run without the load; `tau` holds currents (or torques in any unit), joint by joint.
        loaded_recording: A run with it.
        mass: Of the load, kg, weighed: its error is the gains' error.
        com: Its centre in the frame that carries it (3,), m, where known; None: estimated.
        inertia: About its centre (3, 3), kg m², where known, with `com`; None: estimated.
        link: Link or frame that carries it; None: the last link.
        base: Base parameters; None: found exactly.

    Raises:
        MinidynError: The mass is not positive, or a recording has no currents.

    Gautier and Briot (2014) scale the solution of one total least squares problem, which takes all currents to have the
    same noise; here each joint has its own.
    """
    if not (np.isfinite(mass) and mass > 0):
        raise MinidynError(f"mass: expected a positive number of kilograms, got {mass!r}")
    known, open_directions = _known_load(robot, float(mass), com, inertia)
    carrier, steps = robot.find_frame(link)
    if carrier < 0:
        raise DescriptionError(f"a load on the base {link!r} moves nothing; name a moving link")
    notices: list[str] = []
    chosen = base_parameters(robot) if base is None else base
    runs = [ready_for(robot, run, "identifying drive gains", notices) for run in (recording, loaded_recording)]
    columns = [CurrentColumns(robot, chosen, carrier, matrix_of(steps), loaded) for loaded in (False, True)]
    parts = [reduced(run, own) for run, own in zip(runs, columns)]
    problem = GainProblem(together(parts), chosen.rank, known, open_directions)
    x = problem.first_guess()
    floor = 1e-9 * np.sqrt(np.mean(np.square(np.concatenate([np.asarray(run.tau) for run in runs])), axis=0)) + 1e-300
    samples = problem.rows.samples
    for _ in range(2):
        scale = np.maximum(np.sqrt(problem.rows_squares(x) / samples), floor)
        x = problem.solve(x, scale)
    left = [residuals(run, own, np.zeros(chosen.rank + 10)) for run, own in zip(runs, columns)]
    left = [series - problem.predicted(run, own, x) for series, run, own in zip(left, runs, columns)]
    memory = np.mean([memory_of(series, run.starts) for series, run in zip(left, runs)], axis=0)
    independent = float(np.sum(samples / memory))
    grown = memory * independent / max(independent - len(x), 0.1 * independent)
    sigma = np.maximum(np.sqrt(problem.rows_squares(x) / samples), floor)
    covariance = problem.covariance(x, sigma * np.sqrt(grown))
    n = robot.n
    gains = 1.0 / x[:n]
    spread = covariance[:n, :n] * np.outer(gains**2, gains**2)
    ten = problem.load(x)
    of_load = open_directions @ covariance[n + chosen.rank :, n + chosen.rank :] @ open_directions.T
    payload = Payload(0.0, ten, None, link, of_load)
    notices += _notices(robot.joint_names, gains, np.sqrt(np.diag(spread)))
    return DriveGains(robot, gains, spread, chosen, x[n : n + chosen.rank], payload, sigma, tuple(notices))


def _known_load(robot: Robot, mass: float, com: ArrayLike | None, inertia: ArrayLike | None) -> tuple[Array, Array]:
    """Return what is known of the ten parameters (10,), and the open ones (10, u) in units of their likely size."""
    if inertia is not None and com is None:
        raise MinidynError("inertia: a known inertia about the centre of mass needs a known centre: give com, too")
    L = units_of(robot).length
    sizes = mass * L ** np.array([2.0] * 6 + [1.0] * 3 + [0.0])
    centre = np.zeros(3) if com is None else np.asarray(com, dtype=float)
    about = np.zeros((3, 3)) if inertia is None else np.asarray(inertia, dtype=float)
    for name, value, shape in (("com", centre, (3,)), ("inertia", about, (3, 3))):
        if value.shape != shape or not np.all(np.isfinite(value)):
            raise ShapeError(f"{name}: expected finite numbers of shape {shape}, got shape {value.shape}")
    until = 9 if com is None else 6 if inertia is None else 0
    return from_body(mass, centre, about), np.diag(sizes)[:, :until]


def _notices(names: Sequence[str], gains: Array, std: Array) -> list[str]:
    loose = [
        f"{name!r} ({100 * deviation / gain:.2g} %)"
        for name, gain, deviation in zip(names, gains, std)
        if deviation > _LOOSE * gain
    ]
    if not loose:
        return []
    return [
        f"gains that these runs leave open (standard deviation): {', '.join(loose)}. A gain is seen where the joint "
        "feels the load or shares moving bodies with joints that do: use a heavier load, off the axis, or move faster"
    ]
