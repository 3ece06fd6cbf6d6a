"""A whole job: a robot, its logs and what the user asked for, turned into results.

The verbs of the shell, study files and the demo all go through here. Defaults are those of the
library's signatures (`md.identify`, `md.prepare`, `md.simulate`, ...): what a user does not give is
not passed on, so that Python, the shell and study files give the same numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from minidyn.errors import DescriptionError, MinidynError, MissingFile, WorkerFailed, WrongArgument
from minidyn.formats.load import as_robot
from minidyn.identification.compare import Comparison, compare
from minidyn.identification.consistency.prior import as_prior
from minidyn.identification.cross_validate import CrossValidation, cross_validate
from minidyn.identification.estimate import Estimate
from minidyn.identification.identify import identify
from minidyn.identification.settings import Settings
from minidyn.identification.validate import FITTED, Validation, validate
from minidyn.model.robot import Robot
from minidyn.notices import Notice, warning
from minidyn.recording.lazy import LEFT_OUT, LazyRecording, concatenate
from minidyn.recording.prepare.cutoff import as_fitted
from minidyn.recording.read.mapping import SignalMap, check_units, with_own_mapping
from minidyn.recording.read.places import OTHER_LOGS, unread
from minidyn.recording.read.read import (
    are_one_run,
    by_mapping,
    log_files,
    read_recording,
    tried,
)
from minidyn.recording.ready import prepare
from minidyn.recording.recording import Recording
from minidyn.simulation.payload import Payload

if TYPE_CHECKING:
    from concurrent.futures import Executor

T = TypeVar("T")

FIT = "fit"
"""Name of the errors on the fitted data among those of test data."""
LARGE = 100_000_000
"""Bytes of a log beyond which it stays on disk and is read piece by piece."""

NOT_TESTED = warning(
    "job.not_tested",
    "The model was tested on the fitted data only.",
    "Test it on motion it has not seen: --validate OTHER, or --hold-out 0.3 for a single log; "
    "[validate] in a study.",
)

_REASONS = (
    "recording.still",
    "recording.not_numbers",
    "recording.no_effort",
)  # why nothing may be identified


@dataclass(frozen=True)
class Log:
    """One recording."""

    name: str  # what results call it
    files: tuple[Path, ...]
    # options of `md.read_recording` that were given
    reading: Mapping[str, Any] = field(default_factory=dict)
    part: tuple[float, float] = (0.0, 1.0)  # fractions of its samples between which it is used
    step: str = ""  # name of the study's step that simulates it; "": it is measured
    notices: tuple[Notice, ...] = ()  # of the paths that were given

    @property
    def mapping(self) -> SignalMap:
        """How its columns are read."""
        options = dict(self.reading)
        return SignalMap.of(options, options.pop("mapping", None))


@dataclass(frozen=True)
class Job:
    """A robot, its logs and what the user asked for."""

    robot: Robot
    fit: tuple[Log, ...] = ()  # logs that are fitted, together
    test: tuple[Log, ...] = ()  # logs that are not, each tested by itself
    settings: Settings = field(
        default_factory=Settings
    )  # of the fit, and how raw logs are prepared
    # `force`, `threads` and `device` of `md.identify`, where given
    running: Mapping[str, Any] = field(default_factory=dict)
    lazy: bool | None = None  # whether logs stay on disk; None: those of more than `large` bytes
    large: int = LARGE  # bytes
    # who reads logs on disk, and what happens where that fails: `executor` and `on_error` of
    # `md.identify`, where given
    engine: Mapping[str, Any] = field(default_factory=dict)
    keep: Path | None = None  # of `md.identify`
    _whole: dict[Any, Any] = field(default_factory=dict, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Find a prior that is not there, and rates beside stamps, before logs are read."""
        as_prior(self.settings.prior)
        for log in (*self.fit, *self.test) if self.settings.time == "stamps" else ():
            if log.mapping.rate is not None:
                raise WrongArgument(
                    f"{named([log])}: a rate (--rate) says that samples are even, --time stamps "
                    "that they are not: give one of them"
                )

    @classmethod
    def of_files(
        cls,
        robot: str | Robot,
        fit: Sequence[str],
        test: Sequence[str] = (),
        *,
        hold_out: float | None = None,
        lazy: bool | None = None,
        large: int = LARGE,
        settings: Settings | None = None,
        running: Mapping[str, Any] | None = None,
        cutoff: float | None = None,
        delay: float | None = None,
        resample: float | None = None,
        time: str | None = None,
        executor: Executor | None = None,
        on_error: str | None = None,
        keep: str | None = None,
        **reading: Any,
    ) -> Job:
        """Return the job of a command line.

        With `hold_out`, that share at the end of the fitted logs is kept for the test. `cutoff`,
        `delay`, `resample` and `time` count before those of the settings; `reading` holds options
        of :func:`minidyn.read_recording`, such as mapping and rate; the rest is as for the job.
        None: not given.
        """
        preparation = {"cutoff": cutoff, "delay": delay, "resample": resample, "time": time}
        given = {name: value for name, value in preparation.items() if value is not None}
        settings = (settings or Settings()).replace(**given)
        engine: dict[str, Any] = {"executor": executor, "on_error": on_error}
        engine = {name: value for name, value in engine.items() if value is not None}
        handle = on_error or "stop"
        known = {name: value for name, value in reading.items() if value is not None}
        logs = _fitted_logs(fit, known, handle)
        check_units(
            reading.get("units")
        )  # this and missing files are found before anything is read
        tested = [with_own_mapping(name)[0] for name in test]
        for path in (*(file for log in logs for file in log.files), *log_files(tested, handle)):
            if not path.exists() and handle == "stop":
                raise MissingFile(f"{path}: no such file")
        robot = as_robot(robot)
        tests = _test_logs(test, robot, known, handle)
        if hold_out is not None:
            held = [
                replace(log, name=_held_out(log, logs), part=(1 - hold_out, 1.0)) for log in logs
            ]
            tests = (*held, *tests)
            logs = [replace(log, part=(0.0, 1.0 - hold_out)) for log in logs]
        lazy = True if lazy is None and executor is not None else lazy
        kept = None if keep is None else Path(keep)
        return cls(
            robot,
            tuple(logs),
            tests,
            settings,
            running or {},
            lazy,
            large,
            engine,
            kept,
        )

    def recording(
        self, *logs: Log, lazy: bool | None = None, estimate: Estimate | None = None
    ) -> Recording | LazyRecording:
        """Return logs as one recording, prepared where the user said how.

        Where that leaves the cut-off open, it is that of an estimate's fit.
        """
        return concatenate([self._read(log, lazy, estimate) for log in logs])

    def _read(
        self, log: Log, lazy: bool | None, estimate: Estimate | None
    ) -> Recording | LazyRecording:
        where = self.lazy if lazy is None else lazy
        on_disk = sum(map(_size, log.files)) > self.large if where is None else where
        fitted = {} if estimate is None else estimate.record.get("preparation") or {}
        preparation = self.settings.preparation
        wish = {"delay": fitted.get("delay"), **preparation} if preparation else {}
        if wish.get("delay") or wish.get("resample") or log.mapping.known_torque is not None:
            # torques are moved, and samples interpolated, in memory alone; further columns, too
            on_disk = False
        key = (
            log.files,
            repr(log.reading),
            on_disk,
        )  # a log that is fitted in part and tested in part is read once
        if key not in self._whole:
            options: dict[str, Any] = {**log.reading, **self.engine, "lazy": on_disk}
            whole: Any = read_recording(list(log.files), robot=self.robot, **options)
            self._whole[key] = (
                replace(whole, notices=(*whole.notices, *log.notices)) if log.notices else whole
            )
        raw: Any = self._whole[key]
        if log.part != (0.0, 1.0):
            raw = raw.part(*log.part)
        if not preparation:
            return raw  # type: ignore[no-any-return] # the library prepares
        options = {**as_fitted(raw, fitted), **wish, **self.engine}
        try:
            found: Recording | LazyRecording = prepare(self.robot, raw, **options)
        except DescriptionError as error:
            raise _naming(log, error) from None
        return found

    @property
    def fitted(self) -> Recording | LazyRecording:
        """What is fitted."""
        return self.recording(*self.fit)

    def read(self) -> None:
        """Read all logs: mistakes in the last one are reported before long work on the first."""
        for log in self.fit:
            self.recording(log)
        self._of_tests(lambda log: len(self.recording(log)), [])

    def _of_tests(self, act: Callable[[Log], T], notices: list[Notice]) -> dict[str, T]:
        """Return what is made of each test log.

        With on_error "skip" those that cannot be read are left out.
        """
        paths = [named([log]) for log in self.test]
        on_error = self.engine.get("on_error", "stop")
        made = tried(
            paths,
            lambda number: (self.test[number].name, act(self.test[number])),
            on_error,
            notices,
        )
        return dict(made)

    def identify(self, progress: Callable[[int], None] | None = None) -> Estimate:
        """Identify the robot from the fitted logs.

        An error names them, and what in them may be the reason.
        """
        recording = self.fitted
        try:
            return identify(
                self.robot,
                recording,
                progress=progress,
                keep=self.keep,
                settings=self.settings,
                **self.running,
                **self.engine,
            )
        except MinidynError as error:
            reasons = "; ".join(
                notice.text for notice in recording.notices if notice.code in _REASONS
            )
            raise MinidynError(
                f"{named(self.fit)}: {error}{f' ({reasons})' if reasons else ''}"
            ) from None

    def validate(self, estimate: Estimate, fit: bool = False) -> dict[str, Validation]:
        """Return the errors of a model on the test logs.

        With `fit` also, and first, on the fitted ones. Notices of the last tell which logs are left
        out.
        """
        found = {FIT: self.validate_fit(estimate)} if fit else {}
        left: list[Notice] = []

        def errors(log: Log) -> Validation:
            try:
                return validate(estimate, self.recording(log, estimate=estimate), **self.engine)
            except WorkerFailed:
                raise  # it names the file
            except DescriptionError as error:
                raise _naming(log, error) from None
            except MinidynError as error:
                raise MinidynError(f"{log.name}: {error}") from None

        try:
            found |= self._of_tests(errors, left)
        except (DescriptionError, WorkerFailed):
            if not (found and left):  # the fit is worth more than the tests, none of which is left
                raise
        if left:
            name, last = next(reversed(found.items()))
            found[name] = replace(last, notices=(*last.notices, *left))
        return found

    def validate_fit(self, estimate: Estimate) -> Validation:
        """Return the errors of a model on the fitted logs.

        That these are fitted data is no surprise.
        """
        found = validate(estimate, self.recording(*self.fit, estimate=estimate), **self.engine)
        return replace(
            found, notices=tuple(known for known in found.notices if known.code != FITTED.code)
        )

    def cross_validate(self, folds: int) -> CrossValidation:
        """Leave out one stretch of the fitted logs after the other."""
        return cross_validate(
            self.robot, self.fitted, folds, settings=self.settings, **self.running
        )

    def compare(
        self, methods: Iterable[str] | None, progress: Callable[[int], None] | None = None
    ) -> Comparison:
        """Identify by several methods and test each on the test logs together."""
        left: list[Notice] = []
        tested = concatenate(list(self._of_tests(self.recording, left).values()))
        tested = replace(tested, notices=(*tested.notices, *left))
        return compare(
            self.robot,
            self.fitted,
            tested,
            methods,
            progress=progress,
            settings=self.settings,
            **self.running,
            **self.engine,
        )

    def payload(self, estimate: Estimate, link: str | None) -> Payload:
        """Find the load that the fitted logs carry, against a model of the robot without it."""
        from minidyn.identification.payload.payload import (
            identify_payload,
        )  # scipy.stats takes a second

        recording = self.recording(
            *self.fit, lazy=None if "executor" in self.engine else False, estimate=estimate
        )
        return identify_payload(estimate, recording, link=link, **self.engine)

    def not_tested(self) -> list[Notice]:
        """Return a notice where there is no test log."""
        return [] if self.test else [NOT_TESTED("the model was tested on the fitted data only")]


def fitted_data(validations: Mapping[str, Validation]) -> list[Notice]:
    """Return a notice for each test log that was fitted."""
    known = [(name, notice) for name, run in validations.items() for notice in run.notices]
    return [
        replace(one, text=f"{name}: {one.text}") for name, one in known if one.code == FITTED.code
    ]


def left_out(validations: Mapping[str, Validation]) -> list[Notice]:
    """Return a notice for each file that the errors are without.

    It cannot be read, or its folder does not mean it.
    """
    codes = (LEFT_OUT.code, OTHER_LOGS.code)
    notices = [
        notice for run in validations.values() for notice in run.notices if notice.code in codes
    ]
    return list(dict.fromkeys(notices))


def friction_terms(words: str | None) -> tuple[str, ...] | str | None:
    """Return a list of friction terms in words ("viscous,coulomb", "none", "auto", "own") as
    `md.identify` takes it.
    """
    if words is None or words in ("own", "auto"):
        return words
    return tuple(word for word in listed(words) if word != "none")


def listed(words: str) -> list[str]:
    """Return the words of a list such as "ols, wls"."""
    return [word for word in words.replace(" ", ",").split(",") if word]


def _naming(log: Log, error: DescriptionError) -> DescriptionError:
    """Return the error of a log with its files; one that names them is as it is."""
    known = any(path.name in str(error) for path in log.files)
    return error if known else DescriptionError(f"{named([log])}: {error}")


def _size(path: Path) -> int:
    try:
        if path.is_dir():  # a bag
            return sum(file.stat().st_size for file in path.iterdir() if file.is_file())
        return path.stat().st_size
    except OSError:
        return 0  # the reader says what is wrong


def _fitted_logs(names: Sequence[str], reading: Mapping[str, Any], on_error: str) -> list[Log]:
    """Return the logs that are fitted: one for all that follow each other with one mapping."""
    made = []
    for paths, mapping in by_mapping(names, reading.get("mapping")):
        own = dict(reading) if mapping is None else {**reading, "mapping": mapping}
        made.append(Log("fit", tuple(log_files(paths, on_error)), own, notices=unread(paths)))
    return made


def _held_out(log: Log, logs: Sequence[Log]) -> str:
    """Return what results call the end of a log that is not fitted."""
    return "held out" if len(logs) == 1 else f"held out of {named([log])}"


def _test_logs(
    names: Iterable[str], robot: Robot, reading: Mapping[str, Any], on_error: str
) -> tuple[Log, ...]:
    """Return a log for each file, or one for all where they are one run.

    A log has the name of its file; its path where two have the same.
    """
    groups = by_mapping(dict.fromkeys(names), reading.get("mapping"))
    if len(groups) > 1 or (groups and groups[0][1] != reading.get("mapping")):
        each = [
            _test_logs(list(map(str, logs)), robot, {**reading, "mapping": own}, on_error)
            for logs, own in groups
        ]
        return tuple(log for logs in each for log in logs)
    paths = list(dict.fromkeys(names))
    short = [Path(name).name for name in paths]
    if are_one_run(paths, robot, reading, on_error):
        return (Log(" + ".join(short), tuple(log_files(paths, on_error)), reading),)
    found = [
        (path if short.count(name) > 1 or name in ("", "fit") else name, path)
        for path, name in zip(paths, short)
    ]
    return tuple(
        Log(name, tuple(log_files(path, on_error)), reading, notices=unread([path]))
        for name, path in found
    )


def named(logs: Iterable[Log]) -> str:
    """Return the files of logs in words, each once."""
    names = list(dict.fromkeys(str(path) for log in logs for path in log.files))
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
