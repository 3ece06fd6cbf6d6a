"""A recording as rows of base parameters: samples read piece by piece, and compiled functions along them."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from threading import Lock
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from minidyn.arrays import Array
from minidyn.base.base_map import BaseMap
from minidyn.dynamics.drives import has_load
from minidyn.dynamics.functions import base_regressor
from minidyn.dynamics.record import build
from minidyn.errors import MinidynError, UnknownParameters
from minidyn.graph.function import Function
from minidyn.graph.scalar import Graph
from minidyn.graph.targets.cuda.reduce import CudaReduction
from minidyn.graph.targets.cuda.sums import CudaSums
from minidyn.graph.targets.native.kernel import compile_function
from minidyn.graph.targets.native.reduce import GROUP, Reduction
from minidyn.model.robot import Robot
from minidyn.recording.lazy import AnyRecording
from minidyn.recording.recording import Recording

Progress = Callable[[int], None]
PIECE = 1 << 16
"""Samples handled at once: their arrays fit the caches' last level, and what is done once per piece does not count."""

FEW = 20_000
"""Samples for which the machine code that reduces them serves all else, too: compiling more would take longer."""

_MOTION = ("q", "dq", "ddq")
_REMEMBERED: OrderedDict[tuple[str, str, bytes], BaseFunctions] = OrderedDict()
_LOCK = Lock()
_MOST = 16  # robots; smoothing widths that are tried are robots of their own


@dataclass(frozen=True)
class Samples:
    """Samples in the order of time."""

    t: Array  # times (N,)
    q: Array  # positions (N, n)
    dq: Array  # speeds (N, n)
    ddq: Array  # accelerations (N, n)
    tau: Array  # torques (N, n)
    first: bool = field(default=True, kw_only=True)  # whether a run begins here

    def __len__(self) -> int:
        return len(self.t)

    def __getitem__(self, part: slice) -> Samples:
        return Samples(self.t[part], *(array[part] for array in self.arrays), first=self.first)

    @property
    def motion(self) -> tuple[Array, Array, Array]:
        """q, dq and ddq."""
        return self.q, self.dq, self.ddq

    @property
    def arrays(self) -> tuple[Array, Array, Array, Array]:
        """q, dq, ddq and tau."""
        return self.q, self.dq, self.ddq, self.tau


def signals_of(recording: Recording, *names: str) -> tuple[Array, ...]:
    """Return signals (N, n); raise where one is missing or holds something that is not a number."""
    found = []
    for name in names:
        values = getattr(recording, name)
        if values is None:
            raise MinidynError(f"identification needs {name}; prepare the recording first: md.prepare(robot, ...)")
        if not np.isfinite(values.sum()) and not np.all(np.isfinite(values)):  # a sum is quick
            sample, joint = (int(k) for k in np.argwhere(~np.isfinite(values))[0])
            raise UnknownParameters(
                f"{name} of joint {recording.joint_names[joint]!r} is not a number at t = {recording.t[sample]:.6g} s; "
                "cut the samples out (recording[a:b]) or mend the log"
            )
        found.append(np.asarray(values, dtype=float))
    return tuple(found)


def samples_of(recording: AnyRecording, progress: Progress | None = None, most: int = PIECE) -> Iterator[Samples]:
    """Iterate over a recording, which may be larger than memory, in pieces of at most so many samples of one run."""
    done = 0
    for run in recording.runs:
        for number, tile in enumerate(run.tiles(most)):
            yield Samples(tile.t, *signals_of(tile, *_MOTION, "tau"), first=number == 0)
            done += len(tile)
            if progress is not None:
                progress(done)


_SIZES: WeakKeyDictionary[AnyRecording, tuple[Array, Array]] = WeakKeyDictionary()


def typical_sizes(recording: AnyRecording) -> tuple[Array, Array] | None:
    """Return the root mean squares of torques and of speeds, each (n,); None where there are none.

    A recording on disk is read for it, once.
    """
    if recording not in _SIZES and len(recording) and {"dq", "tau"} <= set(recording.signals):
        squares = np.zeros((2, recording.n))
        for tile in recording.tiles(PIECE):
            squares += [np.einsum("ij,ij->j", values, values) for values in signals_of(tile, "tau", "dq")]
        tau, dq = np.sqrt(squares / len(recording))
        _SIZES[recording] = tau, dq
    return _SIZES.get(recording)


def counted(progress: Progress | None) -> Progress | None:
    """Return a progress function for several passes, each counting from zero: it goes on counting."""
    if progress is None:
        return None
    before, latest = 0, 0

    def called(done: int) -> None:
        nonlocal before, latest
        if done <= latest:
            before += latest
        latest = done
        progress(before + done)

    return called


@dataclass(frozen=True)
class BaseFunctions:
    """Functions of one robot and its base parameters, compiled when first used."""

    robot: Robot  # with the drive terms that are identified
    base: BaseMap  # its base parameters

    @cached_property
    def columns(self) -> tuple[tuple[int, ...], ...]:
        """For each joint, the base parameters its torque can show."""
        graph, _, Y = self._regressor()
        zero = graph.zero
        return tuple(tuple(k for k, entry in enumerate(row) if entry is not zero and entry != 0.0) for row in Y)

    @cached_property
    def rows(self) -> Reduction:
        """q, dq, ddq, tau to [Y_j | tau_j] of each joint on the columns it sees, then zeros up to whole groups."""
        return Reduction(self._rows_function(weighted=False))

    @cached_property
    def weighted_rows(self) -> Reduction:
        """The same with one more argument (N, n): what each row is multiplied by."""
        return Reduction(self._rows_function(weighted=True))

    def reduction(self, weighted: bool, device: str | None = None) -> Reduction | CudaReduction:
        """Return `rows` or `weighted_rows` as machine code, or for a GPU."""
        if device is None:
            return self.weighted_rows if weighted else self.rows
        if weighted not in self._on_gpu:
            self._on_gpu[weighted] = CudaReduction(self._rows_function(weighted))
        return self._on_gpu[weighted]

    @cached_property
    def _on_gpu(self) -> dict[bool, CudaReduction]:
        return {}

    @cached_property
    def block_scores(self) -> CudaSums:
        """q, dq, ddq, tau, beta (b,) and what residuals are multiplied by (n,) to Yᵀ residual, summed on a GPU."""
        graph, _, Y = self._regressor()
        tau, beta = graph.inputs("tau", self.robot.n), graph.inputs("beta", self.base.rank, uniform=True)
        weight = graph.inputs("weight", self.robot.n, uniform=True)
        scores: list[Any] = [graph.zero] * self.base.rank
        for joint, own in enumerate(self.columns):
            residual = tau[joint]
            for k in own:
                residual = residual - Y[joint][k] * beta[k]
            residual = residual * weight[joint]
            for k in own:
                scores[k] = scores[k] + Y[joint][k] * residual
        return CudaSums(graph.function("base_scores", {"scores": scores}))

    def regressor(self, q: Array, dq: Array, ddq: Array) -> Array:
        """Return Y (N, n, b), by the machine code of `rows`."""
        Y = np.zeros((len(q), self.robot.n, self.base.rank))
        for joint, (runs, rows) in enumerate(zip(self._runs, self._joints(q, dq, ddq))):
            for among, part in runs:
                Y[:, joint, among] = rows[:, part]
        return Y

    def torque(self, q: Array, dq: Array, ddq: Array, beta: Array, few: bool = False) -> Array:
        """Return Y beta (N, n); where there are few samples in all, by the machine code of `rows`."""
        if few:
            return np.stack(
                [rows @ beta[list(own)] for own, rows in zip(self.columns, self._joints(q, dq, ddq))], axis=1
            )
        return np.asarray(self._torque(q, dq, ddq, beta), dtype=float)

    def scores(self, q: Array, dq: Array, ddq: Array, residual: Array, few: bool = False) -> Array:
        """Return Yᵀ residual, sample by sample (N, b); `few` as for `torque`."""
        if not few:
            return np.asarray(self._scores(q, dq, ddq, residual), dtype=float)
        found = np.zeros((len(q), self.base.rank))
        for joint, (runs, rows) in enumerate(zip(self._runs, self._joints(q, dq, ddq))):
            rows *= residual[:, joint, None]
            for among, part in runs:
                found[:, among] += rows[:, part]
        return found

    def _joints(self, q: Array, dq: Array, ddq: Array) -> list[Array]:
        """Return, for each joint, the values (N, columns) of the columns that it sees."""
        found = self.rows.rows([q, dq, ddq, np.zeros_like(q)])
        return [rows[:, : len(own)] for own, rows in zip(self.columns, found)]

    @cached_property
    def _runs(self) -> list[list[tuple[slice, slice]]]:
        """For each joint, neighbouring columns that it sees, among all and among its own: slices are quick."""
        made = []
        for own in self.columns:
            starts = [k for k in range(len(own)) if k == 0 or own[k] != own[k - 1] + 1]
            ends = [*starts[1:], len(own)]
            made.append([(slice(own[a], own[a] + b - a), slice(a, b)) for a, b in zip(starts, ends)])
        return made

    @cached_property
    def _torque(self) -> Any:
        graph, _, Y = self._regressor()
        beta = graph.inputs("beta", self.base.rank, uniform=True)
        tau = []
        for own, row in zip(self.columns, Y):
            terms = [row[k] * beta[k] for k in own]
            tau.append(sum(terms[1:], terms[0]) if terms else graph.zero)
        return compile_function(graph.function("base_torque", {"tau": tau}))

    @cached_property
    def _scores(self) -> Any:
        graph, _, Y = self._regressor()
        residual = graph.inputs("residual", self.robot.n)
        made = []
        for k in range(self.base.rank):
            terms = [Y[j][k] * residual[j] for j, own in enumerate(self.columns) if k in own]
            made.append(sum(terms[1:], terms[0]) if terms else graph.zero)
        return compile_function(graph.function("base_scores", {"scores": made}))

    def _rows_function(self, weighted: bool) -> Function:
        graph, _, Y = self._regressor()
        tau = graph.inputs("tau", self.robot.n)
        weight: list[Any] | None = graph.inputs("weight", self.robot.n) if weighted else None
        results = {}
        for joint, own in enumerate(self.columns):
            row: list[Any] = [*(Y[joint][k] for k in own), tau[joint]]
            if weight is not None:
                row = [weight[joint] * entry for entry in row]
            results[f"Y{joint}"] = row + [graph.zero] * (-len(row) % GROUP)
        return graph.function("base_rows", results)

    def _regressor(self) -> tuple[Graph, dict[str, Any], Any]:
        graph = Graph()
        inputs: dict[str, Any] = {name: graph.inputs(name, self.robot.n) for name in _MOTION}
        kept = self.robot.layout.indices(self.base.kept)
        return graph, inputs, build(self.robot, "regressor", inputs, columns=kept, combine=self.base.unmixing)


def steady_regressor(robot: Robot, base: BaseMap, q: Array, dq: Array, ddq: Array) -> Array:
    """Return Y (N, n, b), the same numbers in every call: with `out` machine code is not put off to later ones.

    Very large functions, which take seconds to compile, are an exception.
    """
    return base_regressor(robot, q, dq, ddq, base=base, out=np.empty((len(q), robot.n, base.rank)))


def base_functions(robot: Robot, base: BaseMap) -> BaseFunctions:
    """Return the functions of a robot and its base parameters; the latest are remembered."""
    loads = robot.parameters.tobytes() if has_load(robot) else b""  # regressors read them
    key = (robot.structure_fingerprint, base.fingerprint, loads)
    with _LOCK:
        found = _REMEMBERED.pop(key, None)
        if found is None:
            found = BaseFunctions(robot, base)
        _REMEMBERED[key] = found
        while len(_REMEMBERED) > _MOST:
            _REMEMBERED.popitem(last=False)
    return found
