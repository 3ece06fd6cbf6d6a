"""Recordings: what was measured, sample by sample, with the names of the joints and the boundaries
between runs.

Saved, an archive (.npz) has the keys t, q, tau, dq, ddq, joint_names, starts, notices, prepared and
telemetry.NAME. A table (.parquet, .csv) has the columns t, run, then q.JOINT, dq.JOINT, ddq.JOINT,
tau.JOINT and telemetry.NAME.K; Parquet also keeps the notices. That a recording was prepared, and
the sketch of the log it was made of, stand in the metadata of Parquet and in comments that begin a
CSV.
"""

from __future__ import annotations

import io
import json
import os
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import wraps
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from minidyn.arrays import Array, measured
from minidyn.display import COLOURS, DisplayTable, draw_lines, new_figure, outside_legend, to_frame
from minidyn.errors import (
    DescriptionError,
    MinidynError,
    MissingExtra,
    ShapeError,
    UnknownParameters,
    Unsupported,
    WorkerFailed,
    optional,
)
from minidyn.files import write_atomically
from minidyn.model.robot import BASE_ROWS
from minidyn.notices import Notice

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame

SIGNALS = ("q", "dq", "ddq", "tau")
"""What is measured of each joint: position, speed, acceleration, torque."""

LARGEST = {"t": 1e12, "q": 1e9, "dq": 1e12, "ddq": 1e15, "tau": 1e12, "rate": 1e9}
"""Values beyond these, in SI units, are of no robot: a broken message, a file read wrongly.

`rate` is in samples per second.
"""

KNOWN_TORQUE, COMMAND = "known_torque", "q_d"
"""Names of telemetry: torques known before a fit, N m or N at the joint.

Commanded positions (N, n), rad or m.
"""

WRENCH = "wrench"
"""Name of the telemetry (N, 6) of a force sensor.

Forces, N, then moments, N m, in the sensor's own axes.
"""

SKETCH = "sketch"
"""Where `info` of a recording, and the record of an estimate, have the sketch of the samples as
they were logged.
"""

PREPARED = "# minidyn: prepared"
"""First line of a CSV that holds a prepared recording."""
SKETCHED = "# minidyn: sketch "
"""How its second line begins: the sketch of what was logged follows."""

T = TypeVar("T")
P = ParamSpec("P")
_ENDINGS = (".npz", ".parquet", ".csv")
_LABELS = {
    "q": "position, rad or m",
    "dq": "speed, rad/s or m/s",
    "ddq": "acceleration,\nrad/s² or m/s²",
    "tau": "torque, N m or N",
}


def _has_quaternion(names: tuple[str, ...] | None, columns: int) -> bool:
    """Whether positions have one column more than names: those of a robot with a free base."""
    if names is None or columns != len(names) + 1:
        return False
    return tuple(name.rpartition(".")[2] for name in names[: len(BASE_ROWS)]) == BASE_ROWS


@dataclass(frozen=True, eq=False, init=False)
class Recording:
    """Measured motion: one row per sample, one column per independent joint.

    Missing signals are None, not zeros.

    Attributes:
        t: Times (N,), s; they increase within each run.
        q: Positions (N, n), rad or m; of a robot with a free base (N, n + 1), the base's position
            and its unit quaternion x, y, z, w first.
        tau: Torques (N, n), N m or N, joint side; None where not measured.
        dq: Speeds (N, n); None where not measured.
        ddq: Accelerations (N, n); None where not measured.
        joint_names: Names of the columns.
        starts: Index of the first sample of each run; the first is 0.
        telemetry: Further signals by name, each (N, ...): references, estimates, errors.
        notices: What a reader should know about how it was made or read.
        info: How it was prepared, as numbers: cut-off, rate, ...; empty for a raw recording. Files
            keep it beside "sketch", by which the samples as they were logged are recognised.
        prepared: Whether `md.prepare` made it: filtered, with speeds and accelerations of filtered
            positions. Saved with it. One that is not prepared is, by every function that needs
            accelerations, unless it was built with dq and ddq: then these are used as they are.
    """

    t: Array
    q: Array
    tau: Array | None
    dq: Array | None
    ddq: Array | None
    joint_names: tuple[str, ...]
    starts: tuple[int, ...]
    telemetry: Mapping[str, Array] = field(default_factory=dict)
    notices: tuple[Notice, ...] = ()
    info: Mapping[str, object] = field(default_factory=dict)
    prepared: bool = False

    def __init__(
        self,
        t: ArrayLike,
        q: ArrayLike,
        tau: ArrayLike | None,
        dq: ArrayLike | None = None,
        ddq: ArrayLike | None = None,
        joint_names: Sequence[str] | None = None,
        *,
        starts: Sequence[int] = (0,),
        telemetry: Mapping[str, ArrayLike] | None = None,
        notices: Iterable[object] = (),
        info: Mapping[str, object] | None = None,
        prepared: bool = False,
    ) -> None:
        times = measured("t", t)
        if times.ndim != 1:
            raise ShapeError(f"t: expected shape (N,), got {times.shape}")
        signals = {
            name: None if value is None else measured(name, value)
            for name, value in zip(SIGNALS, (q, dq, ddq, tau))
        }
        positions = signals["q"]
        if positions is None or positions.ndim != 2:
            raise ShapeError(
                f"q: expected shape (N, n), got {None if positions is None else positions.shape}"
            )
        names = None if joint_names is None else tuple(joint_names)
        spare = int(_has_quaternion(names, positions.shape[1]))
        expected = (len(times), positions.shape[1] - spare)
        if len(positions) != len(times):
            raise ShapeError(
                f"q: expected shape {expected} (samples of t, joints of q), got {positions.shape}"
            )
        for name, array in signals.items():
            if array is not None and name != "q" and array.shape != expected:
                raise ShapeError(
                    f"{name}: expected shape {expected} (samples of t, joints of q), got "
                    f"{array.shape}"
                )
        if names is None:
            names = tuple(f"joint{index + 1}" for index in range(expected[1]))
        if len(names) != expected[1] or len(set(names)) != len(names):
            raise ShapeError(
                f"joint_names: expected {expected[1]} different names, got {list(names)}"
            )
        first = tuple(int(start) for start in starts)
        if len(times) and (
            not first
            or first[0] != 0
            or list(first) != sorted(set(first))
            or first[-1] >= len(times)
        ):
            raise ShapeError(
                f"starts: expected increasing indices from 0 below {len(times)}, got {list(first)}"
            )
        extra = {name: measured(name, value) for name, value in (telemetry or {}).items()}
        for name, array in extra.items():
            if array.shape[:1] != times.shape:
                raise ShapeError(
                    f"telemetry {name!r}: expected {len(times)} samples, got shape {array.shape}"
                )
        for attribute, value in (
            ("t", times),
            *signals.items(),
            ("joint_names", names),
            ("starts", first if len(times) else ()),
            ("telemetry", MappingProxyType(extra)),
            (
                "notices",
                tuple(one if isinstance(one, Notice) else Notice.from_json(one) for one in notices),
            ),
            ("info", MappingProxyType(dict(info or {}))),
            ("prepared", bool(prepared)),
        ):
            object.__setattr__(self, attribute, value)
        for number, (begin, end) in enumerate(self._bounds):
            rises = times[begin + 1 : end] >= times[begin : end - 1]  # NaN does not
            if not rises.all():
                at = begin + int(np.argmin(rises)) + 1
                fault = "time runs backwards" if np.isfinite(times[at]) else "the time is no number"
                raise DescriptionError(
                    f"t: {fault} at sample {at} of run {number + 1} "
                    f"({self.t[at - 1]:.6g} s, then {self.t[at]:.6g} s); a new run begins with a "
                    "new start"
                )
            for at in (begin, end - 1):  # the others are between these two
                if not abs(times[at]) <= LARGEST["t"]:
                    raise DescriptionError(
                        f"t: {times[at]:.6g} s at sample {at}; expected a number of at most "
                        f"{LARGEST['t']:g} s"
                    )

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"telemetry": dict(self.telemetry), "info": dict(self.info)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        Recording.__init__(
            self, **state
        )  # copies, and those from other processes, are read-only too

    @property
    def _ends(self) -> tuple[int, ...]:
        return (*self.starts[1:], len(self.t))

    @property
    def _bounds(self) -> list[tuple[int, int]]:
        return list(zip(self.starts, self._ends))

    def __len__(self) -> int:
        return len(self.t)

    @property
    def n(self) -> int:
        """Number of joints; a free base counts as six."""
        return len(self.joint_names)

    @property
    def signals(self) -> tuple[str, ...]:
        """Which of q, dq, ddq and tau there are."""
        return tuple(name for name in SIGNALS if getattr(self, name) is not None)

    @property
    def runs(self) -> tuple[Recording, ...]:
        """The runs, each a recording of its own."""
        return (
            (self,)
            if len(self.starts) == 1
            else tuple(self[begin:end] for begin, end in self._bounds)
        )

    def __getitem__(self, part: slice) -> Recording:
        if not isinstance(part, slice):
            raise MinidynError("a recording is sliced by samples, as in recording[:1000]")
        begin, end, stride = part.indices(len(self))
        if stride < 1:
            raise MinidynError(f"a recording cannot run backwards: slice step {stride}")
        starts = []
        overlapping = slice(
            max(0, bisect_right(self.starts, begin) - 1), bisect_left(self.starts, end)
        )
        for first, last in zip(self.starts[overlapping], self._ends[overlapping]):
            inside = max(
                0, -((begin - first) // stride)
            )  # the first chosen sample that is not before this run
            if begin + inside * stride < min(last, end):
                starts.append(inside)
        t = self.t[part]
        info = self.info if len(t) == len(self) else without_sketch(self.info)  # it is of the whole
        return each_array(
            self, lambda array: array[part], t=t, starts=tuple(starts) or (0,), info=info
        )

    def part(self, begin: float, end: float = 1.0) -> Recording:
        """Return the samples between two shares of the whole.

        `part(0.0, 0.7)` the first 70 %, `part(0.7)` the rest.
        """
        return self[between(begin, end, len(self))]

    def tiles(self, samples: int = 1 << 16) -> Iterator[Recording]:
        """Yield recordings of `samples` samples, in order.

        None spans two runs, only the last of a run is shorter.
        """
        if samples < 1:
            raise MinidynError(f"tiles: expected at least one sample a tile, got {samples}")
        for begin, end in self._bounds:
            for low in range(begin, end, samples):
                yield self[low : min(low + samples, end)]

    def thinned(self, step: int) -> Recording:
        """Return every so many samples, as `recording[::step]` does."""
        return self[::step]

    def load(self) -> Recording:
        """Return everything in memory, where it is."""
        return self

    def each(
        self,
        function: Callable[..., T],
        *,
        progress: Callable[[int], None] | None = None,
        left_out: bool = False,
    ) -> Iterator[T]:
        """Yield what a function makes of the recording.

        One on disk is handed to it chunk by chunk.
        """
        yield function(self, 0, progress)

    def with_numbers(self, signals: Iterable[str], where: str = "") -> Recording:
        """Return the recording, or raise where a signal has a value that is no number.

        `where` goes first.
        """
        for signal in signals:
            values = getattr(self, signal)
            if np.isfinite(values.sum()) or np.all(
                np.isfinite(values)
            ):  # a sum is quick; the rest where it is odd
                continue
            sample, joint = (int(k) for k in np.argwhere(~np.isfinite(values))[0])
            raise UnknownParameters(
                f"{where}{signal} of joint {self.joint_names[joint]!r} is not a number at t = "
                f"{self.t[sample]:.6g} s; cut the samples out (recording[a:b]) or mend the log"
            )
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        about = {name: getattr(self, name) for name in ("starts", "notices", "prepared")}
        about |= {"telemetry": dict(self.telemetry), "info": dict(self.info)}
        signals = (self.t, self.q, self.tau, self.dq, self.ddq, self.joint_names)
        return _restored, (type(self), signals, about)

    def reordered(self, joint_names: Sequence[str]) -> Recording:
        """Return the recording with the same joints in another order.

        Telemetry of one column a joint follows.
        """
        order = [self.joint_names.index(name) for name in joint_names]
        names = tuple(joint_names)
        return each_array(
            self, lambda x: x[:, order] if x.shape[1:] == (self.n,) else x, joint_names=names
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the recording whole or not at all.

        The ending chooses the format: .npz, .parquet or .csv.
        """
        target = Path(path)
        suffix = target.suffix.lower()
        if self.q.shape[1] != self.n:
            raise Unsupported(
                f"{target}: recordings of robots with a free base cannot be saved yet; numpy.savez "
                "keeps their arrays t, q, dq, ddq and tau"
            )
        buffer, notices = io.BytesIO(), [notice.to_json() for notice in self.notices]
        if suffix == ".npz":
            archive: dict[str, Any] = {name: getattr(self, name) for name in ("t", *self.signals)}
            archive |= {f"telemetry.{name}": array for name, array in self.telemetry.items()}
            archive |= {
                "joint_names": np.array(self.joint_names),
                "starts": np.array(self.starts, dtype=int),
            }
            archive |= {"prepared": np.array(self.prepared)}
            archive |= {name: np.array(text) for name, text in self._saved_sketch().items()}
            np.savez(
                buffer, **archive, notices=np.array([json.dumps(one) for one in notices], dtype=str)
            )
        elif suffix == ".csv":
            heads = (
                [PREPARED, *(SKETCHED + text for text in self._saved_sketch().values())]
                if self.prepared
                else []
            )
            buffer.write("".join(f"{line}\n" for line in heads).encode())
            columns = self._columns()
            if broken := [name for name in columns if name.splitlines() != [name]]:
                raise DescriptionError(
                    f"{target}: a line of a CSV cannot hold the name {broken[0]!r}; save it as .npz"
                )
            _write_csv(columns, buffer)
        elif suffix in _ENDINGS:
            about = {
                "minidyn.notices": json.dumps(notices),
                "minidyn.prepared": json.dumps(self.prepared),
            }
            about |= {f"minidyn.{name}": text for name, text in self._saved_sketch().items()}
            optional("pyarrow.parquet").write_table(
                optional("pyarrow").table(self._columns(), metadata=about), buffer
            )
        else:
            raise DescriptionError(
                f"{target}: the name ends with {suffix!r}; a recording is saved as "
                f"{', '.join(_ENDINGS)}"
            )
        write_atomically(target, buffer.getvalue())

    def _saved_sketch(self) -> dict[str, str]:
        found: Any = self.info.get(SKETCH)
        return (
            {}
            if found is None
            else {SKETCH: json.dumps(found.to_json() | {"info": found.about(self.info)})}
        )

    def _columns(self) -> dict[str, Array]:
        run = np.zeros(len(self), dtype=int)
        run[list(self.starts[1:])] = 1
        columns: dict[str, Any] = {"t": self.t, "run": np.cumsum(run)}
        for signal in self.signals:
            columns |= {
                f"{signal}.{name}": getattr(self, signal)[:, k]
                for k, name in enumerate(self.joint_names)
            }
        for name, array in self.telemetry.items():
            flat = array.reshape(len(array), -1)
            columns |= {f"telemetry.{name}.{k}": flat[:, k] for k in range(flat.shape[1])}
        return columns

    def to_pandas(self) -> DataFrame:
        """Return the samples as a pandas frame: t, run, q.NAME, tau.NAME, ...

        as in a saved table.
        """
        return to_frame(self._columns())

    def plot(
        self,
        title: str | None = None,
        *,
        estimated: Sequence[str] = (),
        truth: Sequence[float] = (),
    ) -> Figure:
        """Return a matplotlib figure of all signals over time, one line a joint.

        A simulated run shows its reference (dashed), tracking errors, and what a controller
        estimated.

        Args:
            title: Heading; None: what the recording is.
            estimated: Names of the parameters that the controller estimated; at most eight are
                drawn.
            truth: Their true values, drawn as dashed lines.
        """
        more, names = self.telemetry, self.joint_names
        panels: dict[str, tuple[Array, Sequence[str]]] = {
            _LABELS[signal]: (getattr(self, signal), names) for signal in self.signals
        }
        if "q_d" in more:
            wanted = "position, rad or m\n(dashed: wanted)"
            panels = {
                wanted: (more.get("q_true", self.q), names),
                "tracking error": (more["error"], names),
            }
            panels |= {} if self.tau is None else {_LABELS["tau"]: (self.tau, names)}
            if "estimate" in more and estimated:
                panels["estimate"] = (more["estimate"][:, :8], estimated[:8])
        figure, axes = new_figure(title or repr(self), len(panels), 2.1)
        for axis, (label, (values, lines)) in zip(axes, panels.items()):
            draw_lines(axis, self.t, values, lines)
            axis.set_ylabel(label)
            outside_legend(axis)
            if "wanted" in label:
                draw_lines(axis, self.t, more["q_d"], names, linestyle="--", linewidth=0.9)
            if label == "estimate":
                for k, value in enumerate(truth[:8]):
                    axis.axhline(value, color=COLOURS[k % 8], linestyle="--", linewidth=0.9)
        axes[-1].set_xlabel("time, s")
        return figure

    def _repr_html_(self) -> str:
        def largest(signal: str) -> list[float | None]:
            values = getattr(self, signal)
            missing = values is None or not len(self)
            return [None if missing else float(np.max(np.abs(values[:, k]))) for k in range(self.n)]

        columns: dict[str, Sequence[Any]] = {"joint": self.joint_names}
        if len(self):
            columns |= {
                "lowest q": self.q.min(axis=0).tolist(),
                "highest q": self.q.max(axis=0).tolist(),
            }
        columns |= {f"largest |{signal}|": largest(signal) for signal in ("dq", "ddq", "tau")}
        return DisplayTable(repr(self), columns, notices=self.notices).to_html()

    def __repr__(self) -> str:
        span = f"{self.t[-1] - self.t[0]:.4g} s" if len(self) else "empty"
        present = " ".join(self.signals) + (", prepared" if self.prepared else "")
        return (
            f"Recording({len(self)} samples of {self.n} joints, {len(self.starts)} runs, {span}, "
            f"{present})"
        )


def _restored(kind: type[Recording], signals: tuple[Any, ...], about: dict[str, Any]) -> Recording:
    """Return a recording that was sent from another process."""
    return kind(*signals, **about)


LOST: ContextVar[Mapping[str, str]] = ContextVar("LOST", default=MappingProxyType({}))
"""Files that are left out, each with what happened to it."""


def leaving_out(function: Callable[P, T]) -> Callable[P, T]:
    """Have a function with on_error="skip" begin again without files that vanish, or prove broken,
    while it works.
    """

    @wraps(function)
    def call(*args: P.args, **options: P.kwargs) -> T:
        lost = LOST.get()
        while True:
            token = LOST.set(lost)
            try:
                return function(*args, **options)
            except WorkerFailed as error:
                files = dict.fromkeys(error.files, str(error))
                if options.get("on_error") != "skip" or not files.keys() - lost.keys():
                    raise
                lost = {**lost, **files}
            finally:
                LOST.reset(token)

    return call


def between(begin: float, end: float, count: int) -> slice:
    """Return which of so many samples lie between two shares of them.

    The nearest whole sample is the border.
    """
    if not 0.0 <= begin < end <= 1.0:
        raise MinidynError(
            f"part: expected shares 0 <= begin < end <= 1, got {begin!r} and {end!r}"
        )
    return slice(round(begin * count), round(end * count))


def each_array(recording: Recording, change: Callable[[Array], Array], **more: Any) -> Recording:
    """Return the recording with its signals and telemetry changed alike, and `more` replaced."""
    signals: dict[str, Any] = {name: change(getattr(recording, name)) for name in recording.signals}
    telemetry = {name: change(array) for name, array in recording.telemetry.items()}
    return replace(recording, **signals, telemetry=telemetry, **more)


def _write_csv(columns: Mapping[str, Array], file: io.BytesIO) -> None:
    """Write columns as CSV with all digits.

    Pyarrow does it where it is installed, several times faster.
    """
    try:
        pa, csv = optional("pyarrow"), optional("pyarrow.csv")
    except MissingExtra:
        names = ('"' + name.replace('"', '""') + '"' for name in columns)
        file.write((",".join(names) + "\n").encode())
        for row in zip(*(values.tolist() for values in columns.values())):
            file.write((",".join(map(repr, row)) + "\n").encode())
    else:
        csv.write_csv(pa.table(dict(columns)), file)


def without_sketch(info: Mapping[str, object]) -> dict[str, object]:
    """Return how a recording was prepared, as numbers alone."""
    return {key: value for key, value in info.items() if key != SKETCH}
