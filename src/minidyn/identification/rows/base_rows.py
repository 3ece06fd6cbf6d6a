"""A recording as rows of base parameters.

Samples read piece by piece, and compiled functions along them.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import pairwise
from threading import Lock
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from minidyn.arrays import Array
from minidyn.base.base_map import BaseMap
from minidyn.base.base_parameters import base_parameters
from minidyn.dynamics.drives import drive_paths, drive_states, has_load, memory_columns, presliding
from minidyn.dynamics.functions import base_regressor
from minidyn.dynamics.kernel import LARGE
from minidyn.dynamics.record import STATES, build
from minidyn.errors import MinidynError, UnknownParameters
from minidyn.graph.function import Function
from minidyn.graph.scalar import Graph
from minidyn.graph.targets.cuda.reduce import CudaReduction
from minidyn.graph.targets.cuda.sums import CudaSums
from minidyn.graph.targets.native.kernel import compile_function
from minidyn.graph.targets.native.reduce import GROUP, Reduction
from minidyn.model.drives import REST_TIME
from minidyn.model.robot import Robot
from minidyn.recording.lazy import AnyRecording, RunOnDisk
from minidyn.recording.recording import Recording

Progress = Callable[[int], None]
PIECE = 1 << 16
"""Size: samples handled at once.

Their arrays fit the caches' last level, and what is done once per piece does not count.
"""

FEW = 20_000
"""Size: samples for which the machine code that reduces them serves all else, too.

Compiling more would take longer.
"""

_MOTION = ("q", "dq", "ddq")
_REMEMBERED: OrderedDict[tuple[str, str, bytes], BaseFunctions] = OrderedDict()
_LOCK = Lock()
_MOST = (
    16  # size: robots that are remembered; smoothing widths that are tried are robots of their own
)


@dataclass(frozen=True)
class Samples:
    """Samples in the order of time."""

    t: Array  # times (N,)
    q: Array  # positions (N, n)
    dq: Array  # speeds (N, n)
    ddq: Array  # accelerations (N, n)
    tau: Array  # torques (N, n)
    first: bool = field(default=True, kw_only=True)  # whether a run begins here
    states: Array | None = field(
        default=None, kw_only=True
    )  # of drives that remember (N, m); None where none do

    def __len__(self) -> int:
        return len(self.t)

    def __getitem__(self, part: slice) -> Samples:
        return Samples.of(self.t[part], [array[part] for array in self.arrays], self.first)

    @classmethod
    def all_of(cls, recording: Recording, first: bool = True) -> Samples:
        """Return all samples of a prepared recording in memory, which has torques."""
        q, dq, ddq, tau = signals_of(recording, "q", "dq", "ddq", "tau")
        states = recording.telemetry.get(STATES)
        return cls(np.asarray(recording.t), q, dq, ddq, tau, first=first, states=states)

    @classmethod
    def of(cls, t: Array, arrays: Sequence[Array], first: bool = True) -> Samples:
        """Return samples of what `arrays` gives."""
        q, dq, ddq, *states, tau = arrays
        return Samples(t, q, dq, ddq, tau, first=first, states=states[0] if states else None)

    @property
    def motion(self) -> tuple[Array, ...]:
        """q, dq, ddq and, where drives remember, their states."""
        moved = self.q, self.dq, self.ddq
        return moved if self.states is None else (*moved, self.states)

    @property
    def arrays(self) -> tuple[Array, ...]:
        """q, dq, ddq, states where drives remember, and tau."""
        return *self.motion, self.tau


def signals_of(recording: Recording, *names: str) -> tuple[Array, ...]:
    """Return signals (N, n); raise where one is missing or holds something that is not a number."""
    found = []
    for name in names:
        values = getattr(recording, name)
        if values is None:
            raise MinidynError(
                f"identification needs {name}; prepare the recording first: md.prepare(robot, ...)"
            )
        if not np.isfinite(values.sum()) and not np.all(np.isfinite(values)):  # a sum is quick
            sample, joint = (int(k) for k in np.argwhere(~np.isfinite(values))[0])
            raise UnknownParameters(
                f"{name} of joint {recording.joint_names[joint]!r} is not a number at t = "
                f"{recording.t[sample]:.6g} s; cut the samples out (recording[a:b]) or mend the "
                "log"
            )
        found.append(np.asarray(values, dtype=float))
    return tuple(found)


def has_motion(recording: AnyRecording) -> bool:
    """Whether a recording has speeds, accelerations and torques."""
    return {"dq", "ddq", "tau"} <= set(recording.signals)


def samples_of(
    recording: AnyRecording, progress: Progress | None = None, most: int = PIECE
) -> Iterator[Samples]:
    """Iterate over a recording, which may be larger than memory, in pieces of at most so many
    samples of one run.
    """
    done = 0
    for run in recording.runs:
        for number, tile in enumerate(run.tiles(most)):
            yield Samples.all_of(tile, number == 0)
            done += len(tile)
            if progress is not None:
                progress(done)


@dataclass(frozen=True)
class _RememberingRun:
    """A run on disk with the states of drives that remember: they go on from piece to piece."""

    robot: Robot
    run: RunOnDisk

    def tiles(self, samples: int, begin: int, end: int) -> Iterator[Recording]:
        """Yield the samples from `begin` to `end` in pieces of at most `samples`."""
        before: tuple[Array, Array] | None = None
        last = np.zeros(0)
        for tile in self.run.tiles(samples, begin, end):
            states = drive_states(self.robot, tile.q, before, step=np.diff(np.append(last, tile.t)))
            if len(tile):
                before, last = (tile.q[-1], states[-1]), np.asarray(tile.t[-1:])
            yield replace(tile, telemetry={**tile.telemetry, STATES: states})

    def cuts(self, begin: int, end: int) -> Sequence[int]:
        """Return nothing: states depend on all that was before."""
        return ()

    def narrowed(self, begin: int, end: int) -> tuple[RunOnDisk, int, int]:
        """Return a run that holds at least these samples."""
        run, first, last = self.run.narrowed(begin, end)
        return _RememberingRun(self.robot, run), first, last

    @property
    def files(self) -> tuple[str, ...]:
        """Where its samples come from."""
        return self.run.files


_Kind = TypeVar("_Kind", bound=AnyRecording)


def remembering(robot: Robot, recording: _Kind) -> _Kind:
    """Return a recording with the states of the robot's drives as telemetry, where they remember.

    Else as it is. States begin with zero in each run: what was before is not known, and forgotten
    after some travel. A piece of a run that has its states keeps them.
    """
    if not memory_columns(robot) or (
        isinstance(recording, Recording) and STATES in recording.telemetry
    ):
        return recording
    if isinstance(recording, Recording):
        states = np.concatenate(
            [drive_states(robot, run.q, step=np.diff(run.t)) for run in recording.runs]
        )
        return replace(recording, telemetry={**recording.telemetry, STATES: states})
    parts = tuple((_RememberingRun(robot, run), begin, end) for run, begin, end in recording.parts)
    return replace(recording, parts=parts)


@dataclass(frozen=True)
class Path:
    """Positions of a drive at some samples of a recording and at all turning points between them.

    What presliding remembers depends on these alone, however far the samples are apart.
    """

    nodes: Array  # positions, rad or m
    starts: tuple[int, ...]  # first node of each run
    at: NDArray[np.intp]  # which nodes are the samples

    def presliding(self, travel: float) -> Array:
        """Return the state at the samples (N,); NaN where the travel is."""
        runs = pairwise([*self.starts, len(self.nodes)])
        return np.concatenate([presliding(self.nodes[begin:end], travel) for begin, end in runs])[
            self.at
        ]

    def __getitem__(self, part: slice) -> Path:
        return replace(self, at=self.at[part])


def paths_of(robot: Robot, recording: AnyRecording, step: int) -> tuple[Path, ...]:
    """Return the path of each joint's drive, with one sample in `step`, as
    `recording.thinned(step)` has them.
    """
    joints, begins = range(len(robot.joints)), set(recording.starts)
    nodes: list[list[Array]] = [[] for _ in joints]
    at: list[list[NDArray[np.intp]]] = [[] for _ in joints]
    starts: list[list[int]] = [[] for _ in joints]
    sizes = [0] * len(joints)
    for chunk in recording.each(partial(_paths, robot, step)):
        for row, found in chunk:
            for joint, (path, kept) in enumerate(found):
                starts[joint] += [sizes[joint]] if row in begins else []
                nodes[joint].append(path)
                at[joint].append(sizes[joint] + kept)
                sizes[joint] += len(path)
    every = zip(nodes, starts, at)
    return tuple(
        Path(np.concatenate(own), tuple(first), np.concatenate(rows)) for own, first, rows in every
    )


def _paths(
    robot: Robot, step: int, chunk: AnyRecording, row: int, progress: Progress | None
) -> list[tuple[int, list[tuple[Array, NDArray[np.intp]]]]]:
    """Return for each tile its first sample, and for each joint the nodes of its path and which are
    samples.
    """
    made = []
    for tile in chunk.tiles(PIECE):
        kept, found = np.arange(-row % step, len(tile), step), []
        for path in drive_paths(robot, tile.q, range(len(robot.joints))).T:
            turns = np.flatnonzero(np.diff(np.sign(np.diff(path)))) + 1
            own = kept if step == 1 else np.union1d(np.append(kept, [0, len(path) - 1]), turns)
            found.append((path[own], np.searchsorted(own, kept)))
        made.append((row, found))
        row += len(tile)
    return made


DEPARTURES = 3
"""Of a drive from rests: fewer lie in too few blocks of time to be held out."""


def departures(robot: Robot, recording: Recording) -> Array:
    """Return how often each joint's drive (joints,) moves away from a rest of REST_TIME or more."""
    found, rest_speeds = (
        np.zeros(len(robot.joints)),
        np.array([joint.rest_speed for joint in robot.joints]),
    )
    for run in recording.runs:
        paths, steps = drive_paths(robot, run.q, range(len(robot.joints))), np.diff(run.t)
        for joint, rests in enumerate(
            (np.abs(np.diff(paths, axis=0)) < rest_speeds * steps[:, None]).T
        ):
            change = np.diff(np.concatenate([[0], rests, [0]]))
            begins, ends = np.flatnonzero(change > 0), np.flatnonzero(change < 0)
            found[joint] += np.sum((run.t[ends] - run.t[begins] >= REST_TIME) & (ends < len(rests)))
    return found


def fitted_base(robot: Robot, model: str = "torque") -> BaseMap:
    """Return a robot's base parameters: they do not depend on which torques are measured."""
    found = base_parameters(robot.with_measured_torques(None), model=model)
    return observing(found, robot.torques_measured)


def observing(base: BaseMap, measured: Sequence[bool] | None) -> BaseMap:
    """Return base parameters of a robot of which some torques are measured; None: all are."""
    robot = base.robot.with_measured_torques(measured)
    return base if robot is base.robot else replace(base, robot=robot)


_SIZES: WeakKeyDictionary[AnyRecording, tuple[Array, Array]] = WeakKeyDictionary()


def typical_sizes(recording: AnyRecording) -> tuple[Array, Array] | None:
    """Return the root mean squares of torques and of speeds, each (n,); None where there are none.

    A recording on disk is read for it, once.
    """
    if recording not in _SIZES and len(recording) and {"dq", "tau"} <= set(recording.signals):
        squares = np.zeros((2, recording.n))
        for some in recording.each(_squares):
            squares += some
        tau, dq = np.sqrt(squares / len(recording))
        _SIZES[recording] = tau, dq
    return _SIZES.get(recording)


def _squares(chunk: AnyRecording, row: int, progress: Progress | None) -> Array:
    """Return the sums of squares of torques and speeds (2, n)."""
    squares = np.zeros((2, chunk.n))
    for tile in chunk.tiles(PIECE):
        squares += [
            np.einsum("ij,ij->j", values, values) for values in signals_of(tile, "tau", "dq")
        ]
    return squares


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
        return tuple(
            tuple(k for k, entry in enumerate(row) if entry is not zero and entry != 0.0)
            for row in Y
        )

    @cached_property
    def rows(self) -> Reduction:
        """q, dq, ddq, tau to [Y_j | tau_j] of each joint on the columns it sees, then zeros up to
        whole groups.
        """
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
        """q, dq, ddq, tau, beta (b,) and what residuals are multiplied by (n,) to Yᵀ residual,
        summed on a GPU.
        """
        graph, _, Y = self._regressor()
        tau, beta = (
            graph.inputs("tau", self.robot.n),
            graph.inputs("beta", self.base.rank, uniform=True),
        )
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

    def torque(self, motion: Sequence[Array], beta: Array, few: bool = False) -> Array:
        """Return Y beta (N, n); where there are few samples in all, by the machine code of `rows`.

        The motion is that of `Samples`: q, dq, ddq and the states of drives that remember, if any.
        """
        if few:
            return np.stack(
                [rows @ beta[list(own)] for own, rows in zip(self.columns, self._joints(motion))],
                axis=1,
            )
        return np.asarray(self._torque(*motion, beta), dtype=float)

    def regressor(self, motion: Sequence[Array]) -> Array:
        """Return Y (N, n, b) by the machine code of `rows`."""
        Y = np.zeros((len(motion[0]), self.robot.n, self.base.rank))
        for joint, (runs, rows) in enumerate(zip(self._runs, self._joints(motion))):
            for among, part in runs:
                Y[:, joint, among] = rows[:, part]
        return Y

    def scores(self, motion: Sequence[Array], residual: Array, few: bool = False) -> Array:
        """Return Yᵀ residual, sample by sample (N, b); arguments as for `torque`."""
        if not few:
            return np.asarray(self._scores(*motion, residual), dtype=float)
        found = np.zeros((len(residual), self.base.rank))
        for joint, (runs, rows) in enumerate(zip(self._runs, self._joints(motion))):
            rows *= residual[:, joint, None]
            for among, part in runs:
                found[:, among] += rows[:, part]
        return found

    def _joints(self, motion: Sequence[Array]) -> list[Array]:
        """Return, for each joint, the values (N, columns) of the columns that it sees."""
        found = self.rows.rows([*motion, np.zeros_like(motion[1])])
        return [rows[:, : len(own)] for own, rows in zip(self.columns, found)]

    @cached_property
    def _runs(self) -> list[list[tuple[slice, slice]]]:
        """For each joint, neighbouring columns that it sees, among all and among its own.

        Slices are quick.
        """
        made = []
        for own in self.columns:
            starts = [k for k in range(len(own)) if k == 0 or own[k] != own[k - 1] + 1]
            ends = [*starts[1:], len(own)]
            made.append(
                [(slice(own[a], own[a] + b - a), slice(a, b)) for a, b in zip(starts, ends)]
            )
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
        sizes = {"q": self.robot.nq}
        inputs: dict[str, Any] = {
            name: graph.inputs(name, sizes.get(name, self.robot.n)) for name in _MOTION
        }
        remembered = memory_columns(self.robot)
        if remembered:
            inputs[STATES] = graph.inputs(STATES, len(remembered))
        kept = self.robot.layout.indices(self.base.kept)
        return (
            graph,
            inputs,
            build(self.robot, "regressor", inputs, columns=kept, combine=self.base.unmixing),
        )


def shown_parameters(robot: Robot, base: BaseMap) -> NDArray[np.bool_]:
    """Return which base parameters (b,) the torques that are measured can show."""
    if all(robot.torques_measured) or robot.implicit_loops:
        return np.ones(base.rank, dtype=bool)
    seen_by_some = {k for own in base_functions(robot, base).columns for k in own}
    return np.array([k in seen_by_some for k in range(base.rank)], dtype=bool)


def steady_regressor(
    robot: Robot, base: BaseMap, q: Array, dq: Array, ddq: Array, states: Array | None = None
) -> Array:
    """Return Y (N, n, b), the same numbers in every call.

    With `out` machine code is not put off to later ones. Very large functions, which take seconds
    to compile, are an exception. Few samples go through the machine code that reduces them: it is
    there already, or serves what comes after.
    """
    if (
        len(q) <= FEW
        and not robot.implicit_loops
        and (states is None) == (not memory_columns(robot))
    ):
        functions = base_functions(robot, base)
        if len(functions.rows.function.tape) < LARGE:
            return functions.regressor((q, dq, ddq) if states is None else (q, dq, ddq, states))
    made = np.empty((len(q), robot.n, base.rank))
    return base_regressor(robot, q, dq, ddq, base=base, memory=states, out=made)


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
