"""A ready log as blocks of time: what candidates are judged on.

Samples are spread over the log. Columns of links and rotors are made once; columns of drive terms
are made for the shapes (smoothing width, travel, ...) that a model asks for, and remembered.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from minidyn.arrays import Array
from minidyn.base.base_map import BaseMap
from minidyn.dynamics.drives import Shapes, breakaway, drive_paths, drive_rates, term_torque
from minidyn.dynamics.functions import loads_of_motion, regressor
from minidyn.dynamics.tree import Coordinates, coordinates, measured_rows
from minidyn.identification.rows.base_rows import Path, Samples, paths_of
from minidyn.model.drives import BREAKAWAY, FRICTION, MEMORY, TERMS, Drive
from minidyn.model.robot import Robot
from minidyn.recording.lazy import AnyRecording
from minidyn.recording.recording import Recording

BLOCKS = 10
"""Blocks of time, each held out in turn."""

MAX_SAMPLES = 10_000  # size of pieces: enough to choose terms; a longer log is thinned

_OF_TORQUE = ("removed", "_shapes")  # cached, but not of the motion alone


@dataclass(frozen=True, eq=False)
class Data:
    """A log as blocks of time.

    Attributes:
        robot: The robot without friction; its friction would be seen through the log's low-pass.
        rigid: Names of the base parameters of links and rotors (r,).
        log: The ready log.
        motion: Samples spread over it, accelerations known.
        step: One sample in so many of the log.
        cutoff: Low-pass of the torques, Hz; 0: none.
        is_at_rest: Whether loads are weights, for estimators without accelerations.
        loads: What each joint's drive carries (N, joints), N m or N; None: not known.
    """

    robot: Robot
    rigid: tuple[str, ...]
    log: AnyRecording
    motion: Samples
    step: int
    cutoff: float
    is_at_rest: bool = False
    loads: Array | None = None
    _columns: dict[tuple[object, ...], dict[int, Array]] = field(default_factory=dict, repr=False)

    @classmethod
    def of(
        cls, robot: Robot, base: BaseMap, log: AnyRecording, is_at_rest: bool = False
    ) -> Data | None:
        """Return a log's blocks; None where signals are missing or joints are given by formulas."""
        if robot.formulas or robot.implicit_loops:
            return None
        motion = motion_of(robot, log)
        if motion is None:
            return None
        cutoff = log.info.get("cutoff")
        rigid = tuple(name for name in base.kept if robot.layout.column(name).is_rigid)
        size = float(cutoff) if isinstance(cutoff, int | float) else 0.0
        return cls(robot.with_drives(friction=()), rigid, log, motion, _step(log), size, is_at_rest)

    def with_torques(self, torques: Array) -> Data:
        """Return the same motion with other torques (N, n)."""
        return self._changed(motion=replace(self.motion, tau=torques))

    @cached_property
    def removed(self) -> Array:
        """What the low-pass took off the torques (N, n); zero where it is not known."""
        raw = self.log.telemetry.get("tau_raw") if isinstance(self.log, Recording) else None
        if raw is None:
            return np.zeros_like(self.motion.tau)
        low_passed = np.asarray(self.log.thinned(self.step).tau, dtype=float)
        return np.asarray(np.asarray(raw, dtype=float)[:: self.step] - low_passed)

    def with_loads(self, rigid: Array) -> Data:
        """Return the data with the loads of a rigid part (r,): a model's own."""
        parameters = np.zeros(len(self.robot.layout))
        parameters[list(self.robot.layout.indices(self.rigid))] = rigid
        dq, ddq = (float(not self.is_at_rest) * part for part in (self.motion.dq, self.motion.ddq))
        loads = loads_of_motion(self.robot, self.motion.q, dq, ddq, parameters)
        kept = {key: made for key, made in self._columns.items() if key[1] != "load"}
        return self._changed(loads=loads, _columns=kept)

    def _changed(self, **changes: Any) -> Data:
        """Return other data of the same motion, with what was computed of the motion."""
        data = replace(self, **changes)
        cached = {k: v for k, v in self.__dict__.items() if k not in data.__dict__}
        data.__dict__.update({k: v for k, v in cached.items() if k not in _OF_TORQUE})
        return data

    @property
    def edges(self) -> NDArray[np.intp]:
        """Numbers of the samples that blocks begin with, and one past the last (blocks + 1,)."""
        return np.linspace(0, len(self.motion), BLOCKS + 1).astype(np.intp)

    @cached_property
    def counts(self) -> Array:
        """Samples of each block (blocks,)."""
        return np.diff(self.edges).astype(float)

    @cached_property
    def _rows(self) -> NDArray[np.intp]:
        """Numbers of the samples of each block (blocks, most); one past the last fills up."""
        rows = self.edges[:-1, None] + np.arange(np.diff(self.edges).max())
        return np.where(rows < self.edges[1:, None], rows, len(self.motion))

    def in_blocks(self, columns: Array) -> Array:
        """Return columns (k, N) as (blocks, k, most), zeros at the end of shorter blocks."""
        whole = np.concatenate([columns, np.zeros((len(columns), 1))], axis=1)
        return np.ascontiguousarray(np.swapaxes(whole[:, self._rows], 0, 1))

    @cached_property
    def coordinates(self) -> Coordinates:
        """All joints along the samples."""
        m = self.motion
        return coordinates(self.robot, *(list(part.T) for part in (m.q, m.dq, m.ddq)))

    @cached_property
    def _regressor(self) -> Array:
        m = self.motion
        return regressor(self.robot, m.q, m.dq, m.ddq, columns=self.rigid)

    @cached_property
    def rigid_places(self) -> list[NDArray[np.intp]]:
        """For each row, which rigid columns it sees."""
        return [np.flatnonzero(seen) for seen in np.any(self._regressor, axis=0)]

    @cached_property
    def rigid_blocks(self) -> list[Array]:
        """For each row, the rigid columns that it sees (blocks, k, most)."""
        return [
            self.in_blocks(self._regressor[:, row, places].T)
            for row, places in enumerate(self.rigid_places)
        ]

    @cached_property
    def rigid_products(self) -> list[Array]:
        """For each row, products of these columns (blocks, k, k)."""
        return [part @ np.swapaxes(part, 1, 2) for part in self.rigid_blocks]

    def rigid_torque(self, values: Array) -> Array:
        """Return the torque (N, n) of base values of links and rotors (r,)."""
        return np.asarray(self._regressor @ values)

    @cached_property
    def paths(self) -> tuple[Path, ...]:
        """The path of each joint's drive, for what it remembers."""
        return paths_of(self.robot, self.log, self.step)

    @cached_property
    def speeds(self) -> Array:
        """Root mean square of each drive's speed (joints,); 1 where it rests."""
        return self._typical(self.motion.dq)

    @cached_property
    def accelerations(self) -> Array:
        """Root mean square of each drive's acceleration (joints,); 1 where it rests."""
        return self._typical(self.motion.ddq)

    def _typical(self, rates: Array) -> Array:
        sizes = np.sqrt(np.mean(drive_rates(self.robot, rates, rates)[0] ** 2, axis=0))
        return np.where(sizes > 0, sizes, 1.0)

    def column(self, joint: int, drive: Drive, term: str) -> dict[int, Array]:
        """Return the torque of a drive term for a coefficient of 1: {row: (N,)}.

        Empty where it does not fit the joint or never acts.
        """
        key = (joint, term, *shape_of(drive, term))
        if key not in self._columns:
            self._columns[key] = self._made(joint, drive, term)
        return self._columns[key]

    def _made(self, joint: int, drive: Drive, term: str) -> dict[int, Array]:
        if term == "load" and self.loads is None:
            return {}
        c, symbol = self.coordinates, FRICTION[term]
        state = self.state(joint, drive, symbol) if symbol in MEMORY else None
        seen = replace(drive, cutoff=self.cutoff)
        shapes = self._shapes.with_drive(joint, seen, state)
        torque, ratios = term_torque(self.robot, joint, term, (c.dq, c.ddq), shapes)
        value = np.broadcast_to(np.asarray(torque, dtype=float), len(self.motion))
        return self._rows_of(value, ratios)

    @cached_property
    def _shapes(self) -> Shapes:
        loads = None if self.loads is None else list(self.loads.T)
        return Shapes(self.robot, self.coordinates.q, loads)

    def state(self, joint: int, drive: Drive, symbol: str) -> Array:
        """Return what a drive remembers at the samples (N,), for presliding or breakaway."""
        travel = drive.travel(symbol)
        if symbol != BREAKAWAY:
            return self.paths[joint].presliding(travel)
        rest = self.robot.joints[joint].rest_speed
        states = [
            breakaway(drive_paths(self.robot, run.q, [joint])[:, 0], np.diff(run.t), travel, rest)
            for run in self.log.load().runs
        ]
        return np.asarray(np.concatenate(states)[:: self.step])

    def _rows_of(self, value: Array, ratios: Mapping[int, float]) -> dict[int, Array]:
        """Return the torque of each row of a column that acts on joints with these ratios."""
        torque: list[Any] = [0.0] * len(self.robot.joints)
        for joint, ratio in ratios.items():
            torque[joint] = ratio * value
        rows = measured_rows(self.robot, self.coordinates.project(torque))
        return {
            row: np.broadcast_to(part, len(self.motion))
            for row, part in enumerate(rows)
            if np.any(part)
        }


def shape_of(drive: Drive, term: str) -> tuple[float, ...]:
    """Return the numbers of a drive on which the column of a term depends."""
    return tuple(getattr(drive, name) for name in TERMS[term].shape)


def motion_of(robot: Robot, recording: AnyRecording) -> Samples | None:
    """Return samples spread over a recording.

    None where signals are missing or not finite. Accelerations that are not recorded are
    differences of the speeds: enough to choose friction.
    """
    thinned = recording.thinned(_step(recording))
    if thinned.ddq is None and thinned.dq is not None and len(thinned) > 1:
        thinned = replace(thinned, ddq=np.gradient(thinned.dq, thinned.t, axis=0))
    signals = [getattr(thinned, name) for name in ("q", "dq", "ddq", "tau")]
    if any(signal is None or not np.all(np.isfinite(signal)) for signal in signals):
        return None
    return Samples(thinned.t, *(np.asarray(signal, dtype=float) for signal in signals))


def _step(recording: AnyRecording) -> int:
    return max(1, len(recording) // MAX_SAMPLES)
