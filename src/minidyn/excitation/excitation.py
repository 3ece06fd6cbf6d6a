"""What a design gives.

A motion, what it will show, how much of each limit it uses, and files that the robot runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from minidyn.arrays import Array, known_product, plain_values, read_only_again
from minidyn.base.base_map import BaseMap
from minidyn.display import DisplayTable
from minidyn.errors import MinidynError, UnknownName
from minidyn.excitation.bounds import Bounds
from minidyn.excitation.clearance import Clearance
from minidyn.excitation.motion import Timed
from minidyn.excitation.motion_verdict import MotionVerdict, judge_motion
from minidyn.excitation.preview import Shown, write_preview
from minidyn.excitation.robot_files import save_motion
from minidyn.excitation.target import Known
from minidyn.files import AnyPath
from minidyn.model.robot import Robot
from minidyn.notices import Notice, notices_json
from minidyn.recording.ready import in_robot_order
from minidyn.recording.recording import Recording
from minidyn.text import number


def information_of(known: Known) -> Array:
    """Return the information (b, b) about the base parameters that an estimate, or a design's own
    log, brings.
    """
    if isinstance(known, Excitation):
        return known.information
    of_data = np.asarray(
        getattr(known, "of_data", known.covariance)
    )  # without its prior: motions are to show data
    finite = bool(np.all(np.isfinite(of_data)))
    return (
        np.asarray(np.linalg.pinv(of_data, hermitian=True))
        if finite
        else np.full(of_data.shape, np.inf)
    )


def as_known(robot: Robot, after: Any, terms_free: bool) -> list[Known]:
    """Return what is known already as a list, checked.

    All of this robot, with the same base parameters.
    """
    found = [] if after is None else list(after) if isinstance(after, list | tuple) else [after]
    for place, one in enumerate(found, start=1):
        where = f"excite: after {place}"
        if not all(hasattr(one, name) for name in ("base", "covariance", "robot", "sigma")):
            raise MinidynError(
                f"{where}: expected an estimate (md.identify, md.load_estimate) or a design, got "
                f"{one!r}"
            )
        if one.robot.joint_names != robot.joint_names:
            raise MinidynError(
                f"{where}: it is of robot {one.robot.name!r}, whose joints are not those of "
                f"{robot.name!r}"
            )
        if one.base.names != found[0].base.names:
            raise MinidynError(
                f"{where}: its base parameters are not those of the first; identify both with the "
                "same terms"
            )
        if one.base.columns is not None or (isinstance(one, Excitation) and one.labels):
            raise MinidynError(
                f"{where}: it is a design for a load or for gains, which says little of the robot "
                "itself"
            )
        if not np.all(np.isfinite(information_of(one))):
            raise MinidynError(f"{where}: it leaves parameters open; design without after=")
    if found and not terms_free:
        raise MinidynError(
            "excite: after: the drive terms are those of the estimate; leave friction and "
            "rotor_inertia out"
        )
    return found


@dataclass(frozen=True, eq=False)
class Excitation:
    """A motion, what it will show, and how much of each limit it uses.

    Attributes:
        robot: The robot with the drive terms that shall be found.
        base: The base parameters that shall be found.
        trajectory: The motion, callable as t -> (q, dq, ddq); at rest before t = 0 and after
            `duration`.
        duration: Seconds.
        rate: Samples a second of the log that the errors are predicted for.
        criterion: What was optimised: "d", "a", "e", "condition" or "predict".
        criteria: All criteria of the motion, smaller is better (docs/excitation.md).
        sigma: Standard deviations of the torques' noise (n,) that the errors are predicted for, N m
            or N.
        covariance: Predicted covariance of the base parameters (b, b), of this log and all that was
            known before.
        information: What the log of this motion alone brings (b, b): the inverse of a covariance.
        condition: Condition number of the weighted regressor in an orthonormal basis of what is
            identifiable.
        logdet: log det(YᵀY / N) of the same, N samples.
        margins: Largest share of each limit by joint: {"velocity": {"joint1": 0.99}}; under
            "distance" the least distance of each pair of links that was checked, m: {"link2 -
            link5": 0.08}.
        feasible: Whether all limits are kept at all times.
        bounds: The limits: of positions and their derivatives, and of torques.
        clearance: The distances that are kept; None: shapes are not known.
        notices: What a reader should know.
        settings: How it was found.
        runs: All motions, where several were designed, this one last; empty: it is the only one.
        purpose: What the log is for: "model", "payload", "gains", "friction" or "gravity".
        rests: With purpose "gravity": begin and end of the stops, s, two for each pose, from above
            and from below.
        labels: With purpose "gains": names of what errors are predicted for, the gain of each joint
            as a share.
    """

    robot: Robot
    base: BaseMap
    trajectory: Timed
    duration: float
    rate: float
    criterion: str
    criteria: Mapping[str, float]
    sigma: Array
    covariance: Array
    information: Array
    condition: float
    logdet: float
    margins: Mapping[str, Mapping[str, float]]
    feasible: bool
    bounds: Bounds
    clearance: Clearance | None = None
    notices: tuple[Notice, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    runs: tuple[Excitation, ...] = ()
    purpose: str = "model"
    rests: tuple[tuple[float, float], ...] = ()
    labels: tuple[str, ...] = ()

    __setstate__ = read_only_again

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the base parameters (b), or of the gains."""
        return self.labels or self.base.names

    @property
    def verdict(self) -> MotionVerdict:
        """Whether the motion may be run: what was assumed and not checked, in words."""
        return judge_motion(self.feasible, self.notices)

    @property
    def std(self) -> Array:
        """Predicted standard deviations of the base parameters (b,)."""
        return np.sqrt(np.diag(self.covariance))

    @property
    def relative_std(self) -> Array:
        """Standard deviation over value (b,), NaN where the robot's file does not know the
        value.
        """
        if self.labels:
            return self.std
        values = known_product(self.base.matrix, self.robot.parameters)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(self.std / np.abs(values), dtype=float)

    def seconds_for(self, relative_std: float, name: str | None = None) -> float:
        """Return how long the motion must be repeated for a wanted relative standard deviation,
        seconds.

        Args:
            relative_std: 0.05 is five percent.
            name: Of the base parameter; None: the median of all whose values are known.
        """
        if not relative_std > 0:
            raise MinidynError(
                f"seconds_for: expected a positive relative_std, got {relative_std!r}"
            )
        if name is not None and name not in self.names:
            raise UnknownName("base parameter", name, self.names)
        now = self.relative_std
        one = float(np.nanmedian(now)) if name is None else float(now[self.names.index(name)])
        return self.duration * (one / relative_std) ** 2

    def at_rest(self, recording: Recording, begin: float = 0.0) -> Recording:
        """Return the poses of a log of this motion, one sample each, for :func:`minidyn.identify`.

        Purpose "gravity". Positions and torques are means over the two stops of a pose, to which it
        came from above and from below, so that dry friction cancels. The first tenth of a stop, in
        which a robot settles, is left out.

        Args:
            recording: The log, with q and tau.
            begin: When the motion began, in the log's time, s.
        """
        if not self.rests:
            raise MinidynError('at_rest: the motion has no stops: design it with purpose="gravity"')
        log = in_robot_order(self.robot, recording)
        if log.tau is None:
            raise MinidynError("at_rest: the recording has no torques")
        time, poses = np.asarray(log.t) - begin, []
        for place, stops in enumerate(zip(self.rests[::2], self.rests[1::2]), start=1):
            inside = [(time >= one + 0.1 * (two - one)) & (time <= two) for one, two in stops]
            if not all(some.any() for some in inside):
                raise MinidynError(
                    f"at_rest: the log has no samples of pose {place}, from {stops[0][0]:.1f} s "
                    f"to {stops[1][1]:.1f} s after the motion began; say begin=, when it did"
                )
            means = [
                np.hstack([log.q[some], np.asarray(log.tau)[some]]).mean(axis=0) for some in inside
            ]
            poses.append(np.mean(means, axis=0))
        q, tau = np.split(np.array(poses), 2, axis=1)
        still = np.zeros_like(q)
        return Recording(
            np.arange(float(len(q))), q, tau, dq=still, ddq=still, joint_names=log.joint_names
        )

    def save(
        self,
        path: AnyPath,
        format: str | None = None,
        *,
        speed: float = 1.0,
        home: ArrayLike | None = None,
        rate: float = 125.0,
    ) -> Path:
        """Write the motion as a file that opens with a warning, and return its path.

        Args:
            path: The file.
            format: "csv", "parquet", "ros2" (JointTrajectory as YAML), "mcap" (the same as a ROS 2
                message) or "urscript" (servoj); None: by the ending .csv, .parquet, .yaml, .mcap or
                .script.
            speed: Share of the designed speed: 0.1 for a first run.
            home: Pose (n,) from which the robot first moves to the start, and to which it returns;
                None: the motion alone.
            rate: Points a second.

        Raises:
            MinidynError: The motion does not keep its limits.
        """
        if not self.feasible:
            raise MinidynError(
                "save: the motion does not keep all limits (notice excite.infeasible); it is not "
                "written for a robot"
            )
        return save_motion(
            self.robot,
            self.trajectory,
            self.duration,
            path,
            format,
            tuple(self.margins),
            self.verdict.reasons,
            speed,
            home,
            rate,
        )

    def preview(self, path: AnyPath = "preview.html") -> Path:
        """Write a page with the robot moving in 3D, and return its path.

        One HTML file that loads nothing. It has the share of each limit that is used by joint,
        distances over time, positions, speeds and torques, and the predicted errors. Motions that
        do not keep their limits are shown, too.
        """
        errors = list(zip(self.names, self.std.tolist(), self.relative_std.tolist()))
        about = f"criterion {self.criterion} · condition {number(self.condition)}"
        shown = Shown(
            self.robot,
            self.trajectory,
            self.duration,
            self.bounds,
            self.clearance,
            self.margins,
            self.feasible,
            about,
        )
        return write_preview(shown, path, self.notices, errors)

    def to_json(self) -> dict[str, Any]:
        """Return plain values for `json.dump`; the motion by its coefficients."""
        made = {
            "robot": self.robot.name,
            "purpose": self.purpose,
            "joint_names": list(self.robot.joint_names),
            "duration": self.duration,
            "rate": self.rate,
            "criterion": self.criterion,
            "criteria": dict(self.criteria),
            "condition": self.condition,
            "logdet": self.logdet,
            "feasible": self.feasible,
            "verdict": self.verdict.to_json(),
            "margins": {kind: dict(shares) for kind, shares in self.margins.items()},
            "parameters": [
                {"name": name, "std": std, "relative_std": relative}
                for name, std, relative in zip(
                    self.names, self.std.tolist(), self.relative_std.tolist()
                )
            ],
            "noise": self.sigma,
            "motion": self.trajectory.to_json(),
            "rests": self.rests,
            "settings": dict(self.settings),
            "notices": notices_json(self.notices),
        }
        return dict(plain_values(made, finite=True))

    def table(self) -> DisplayTable:
        """Return the limits as a table: the largest share of each by joint."""
        columns: dict[str, Any] = {"joint": list(self.margins["position"])}
        kinds = [kind for kind in self.margins if kind != "distance"]
        for kind in kinds:
            columns[kind] = [self.margins[kind].get(joint) for joint in columns["joint"]]
        return DisplayTable(repr(self), columns, tuple(kinds), self.notices)

    def _repr_html_(self) -> str:
        return self.table().to_html()

    def __repr__(self) -> str:
        state = "" if self.feasible else ", limits not kept"
        return (
            f"Excitation({self.robot.name!r}, {self.duration:g} s, {self.base.rank} base "
            f"parameters, condition {self.condition:.3g}, logdet {self.logdet:.4g}{state})"
        )
