"""One robot of a fleet: its logs by day, reduced to triangles.

Whatever its logs are, kilobytes are left. A robot's days are fitted each alone, by least squares
weighted by joint, and joined. Friction of a day is what that day asks for where links are those of
all days of this robot.
"""

from __future__ import annotations

import io
import json
import os
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, cast

import numpy as np

from minidyn.arrays import (
    Array,
    covariance_root,
    single_thread,
    strict_json,
    with_numbers,
)
from minidyn.base.base_map import BaseMap
from minidyn.base.base_parameters import base_parameters
from minidyn.errors import DescriptionError, MinidynError, WorkerFailed
from minidyn.files import made_folder, write_atomically
from minidyn.formats.toml.write import toml_text
from minidyn.identification.diagnose.meaningless import require_meaning
from minidyn.identification.estimators import solve
from minidyn.identification.estimators.least_squares import Fit, covariance_of, fit
from minidyn.identification.fleet.logs import Logs, are_paths, open_logs
from minidyn.identification.friction.shared import Split
from minidyn.identification.problem import BlockProblem, Rows
from minidyn.identification.rows.triangles import Triangles, joined
from minidyn.identification.select import Choice, Limits, select, starting_model
from minidyn.identification.settings import Settings
from minidyn.model.drives import FRICTION
from minidyn.model.robot import Robot
from minidyn.notices import Notice
from minidyn.recording.lazy import LEFT_OUT, AnyRecording, LazyRecording, concatenate
from minidyn.recording.read.left_on_disk import hash_of
from minidyn.recording.read.places import is_remote
from minidyn.recording.read.read import log_files
from minidyn.recording.ready import ready
from minidyn.recording.recording import Recording, leaving_out

CHOOSING = 5  # size: robots whose logs choose friction terms
CHOOSING_SAMPLES = 10_000  # size: of each of them


@dataclass(frozen=True)
class Given:
    """The logs of one robot as they were given: a recording, paths, or {date: these}.

    Opened where they are read.
    """

    name: str
    value: Any

    def __len__(self) -> int:
        return 1

    @property
    def files(self) -> tuple[str, ...]:
        """What messages call them."""
        return (f"robot {self.name!r}",)


@dataclass(frozen=True, eq=False)
class Member:
    """What is known of one robot by itself."""

    name: str
    triangles: Triangles  # its rows, joint by joint
    scale: Array  # what rows of each joint are divided by, so that they count as independent (n,)
    sigma: Array  # noise of each joint's torque (n,)
    covariance: Array  # of its base parameters (b, b), infinite where it does not show them
    samples: int
    dates: tuple[str, ...]  # of its days
    # of each joint's friction on a day against that of all its days, as a share (days, joints)
    change: Array
    change_std: Array
    notices: tuple[Notice, ...] = ()

    @property
    def left_out(self) -> list[Notice]:
        """What names files of its logs that could not be read."""
        return [notice for notice in self.notices if notice.code == LEFT_OUT.code]


def spaced(names: Sequence[str]) -> list[str]:
    """Return a few robots, spread over the fleet."""
    return [names[k] for k in sorted({int(k) for k in np.linspace(0, len(names) - 1, CHOOSING)})]


def chosen_friction(
    kind: Robot,
    given: Iterable[Given],
    settings: Settings,
    on_error: str,
    reading: Mapping[str, Any],
    preparation: Mapping[str, Any] | None = None,
) -> tuple[Choice, AnyRecording]:
    """Return the friction terms of the type, and the data of a few robots that chose them."""
    model = starting_model(kind, settings)
    parts, failed = list[Recording](), list[str]()
    for one in given:
        try:
            log = open_logs(one.name, one.value, kind, on_error, **reading).dated[0][1]
            data = ready(model, log, purpose="identification", preparation=preparation, once=True)
            parts.append(data.thinned(max(1, len(data) // CHOOSING_SAMPLES)))
        except (MinidynError, OSError) as error:  # it is named when its turn comes
            failed.append(f"robot {one.name!r}: {error}")
    if not parts:
        raise MinidynError(f"none of the logs that were tried can be used; {failed[0]}")
    raw = [{"tau_raw": np.asarray(part.telemetry.get("tau_raw", part.tau))} for part in parts]
    whole = concatenate([replace(part, telemetry=own, notices=()) for part, own in zip(parts, raw)])
    shown, base = replace(whole, telemetry={}), base_parameters(model)
    # loads and states of drives need whole logs: members are read as sums
    limits = Limits(
        has_memory=False,
        is_width_free=settings.auto and settings.sign_width is None,
    )
    without_load = settings.replace(forbid_terms=(*settings.forbid_terms, "load"))
    return select(model, base, shown, without_load, limits), whole


def members_of(
    robot: Robot,
    base: BaseMap,
    given: Iterable[Given],
    executor: Any = None,
    on_error: str = "stop",
    reading: Mapping[str, Any] = MappingProxyType({}),
    keep: str | os.PathLike[str] | None = None,
    preparation: Mapping[str, Any] | None = None,
    force: bool = False,
) -> Iterator[Member | Notice]:
    """Yield what is known of each robot, in order.

    Of one that fails a notice, where that is skipped.
    """
    asked = {**reading, "preparation": dict(preparation)} if preparation else dict(reading)
    asked |= {"force": True} if force else {}
    store = None if keep is None else _Store.of(robot, base, asked, keep)
    how: dict[str, Any] = {"on_error": on_error, "preparation": preparation, "force": force}
    task = partial(_member, robot, base, dict(reading), store, **how)
    if executor is None:
        for one in given:
            yield _kept(one.name, on_error, partial(task, one, 0, None))
        return
    from minidyn.recording.engine import Engine  # only where it is asked for

    def answer(found: Any) -> Member:
        if isinstance(found, Member):
            return found
        raise WorkerFailed(found.text)

    for found, one, _ in Engine(executor, on_error).tried(task, given):
        yield _kept(one.name, on_error, partial(answer, found))


def _kept(name: str, on_error: str, make: Callable[[], Member]) -> Member | Notice:
    """Return what is made of a robot; where it fails, a notice or an error that names the robot."""
    try:
        return make()
    except (MinidynError, OSError) as error:
        if on_error == "stop":
            advice = "on_error='skip' (--on-error skip) leaves such robots out"
            text = str(error) if repr(name) in str(error) else f"robot {name!r}: {error}"
            raise MinidynError(f"{text}; {advice}") from None
        return LEFT_OUT(
            f"robot {name!r} is left out ({error})", files=f"logs of robot {name!r}", robot=name
        )


@leaving_out
def _member(
    robot: Robot,
    base: BaseMap,
    reading: Mapping[str, Any],
    store: _Store | None,
    given: Given,
    row: int,
    progress: Any,
    *,
    on_error: str,
    preparation: Mapping[str, Any] | None = None,
    force: bool = False,
) -> Member:
    """Open the logs of one robot and reduce them; this runs where they are read."""
    place = None if store is None else store.place(given)
    found = None if place is None else _loaded(place, given.name)
    if found is None:
        logs = open_logs(given.name, given.value, robot, on_error, **reading)
        found = reduced(robot, base, logs, on_error, preparation, force)
        if place is not None and not found.left_out:  # another call may ask to stop there
            _save(found, place)
    return found


@dataclass(frozen=True)
class _Store:
    """A folder in which what is known of robots is kept, and a hash of all but their logs that
    decides it.
    """

    folder: Path
    settings: str

    @classmethod
    def of(
        cls, robot: Robot, base: BaseMap, reading: Mapping[str, Any], keep: str | os.PathLike[str]
    ) -> _Store:
        """Make the folder."""
        folder = made_folder(keep).absolute()
        return cls(folder, hash_of(folder, toml_text(robot), base.kept, base.matrix, dict(reading)))

    def place(self, given: Given) -> Path | None:
        """Return the file of a robot; None where its logs are in memory, or are not there."""
        dated = given.value if isinstance(given.value, Mapping) else {"": given.value}
        files: list[Any] = []
        try:
            for date, value in dated.items():
                if not are_paths(value):
                    return None
                for file in log_files(value):
                    written = (
                        0 if is_remote(str(file)) else file.stat().st_mtime_ns
                    )  # may be the date of its log
                    files += [str(date), file, written]
            return self.folder / f"{hash_of(self.folder, self.settings, given.name, files)}.npz"
        except (MinidynError, OSError):  # reading them says what is wrong
            return None


_TEXTS = ("samples", "dates")
_NUMBERS = ("scale", "sigma", "covariance", "change", "change_std")


def _save(member: Member, place: Path) -> None:
    """Keep what is known of a robot: plain numbers and JSON, none of which is run."""
    whole = member.triangles
    about = {name: getattr(member, name) for name in _TEXTS} | {"notices": member.notices}
    about["triangles"] = [whole.columns, whole.unknowns, whole.samples]
    numbers = {name: getattr(member, name) for name in _NUMBERS}
    numbers |= {f"factor{k}": factor for k, factor in enumerate(whole.factors)}
    made = io.BytesIO()
    np.savez(made, about=np.frombuffer(strict_json(about), dtype=np.uint8), **cast(Any, numbers))
    write_atomically(place, made.getvalue())


def _loaded(place: Path, name: str) -> Member | None:
    """Return what was kept of a robot; None where nothing was, or no whole file."""
    try:
        with np.load(io.BytesIO(place.read_bytes()), allow_pickle=False) as file:
            about = with_numbers(json.loads(bytes(file["about"])))
            columns, unknowns, samples = about["triangles"]
            factors = tuple(file[f"factor{k}"] for k in range(len(columns)))
            whole = Triangles(tuple(map(tuple, columns)), unknowns, factors, samples)
            known = {name: file[name] for name in _NUMBERS}
        notices = tuple(Notice.from_json(one) for one in about["notices"])
        return Member(
            name,
            whole,
            samples=about["samples"],
            dates=tuple(about["dates"]),
            notices=notices,
            **known,
        )
    except (OSError, ValueError, TypeError, KeyError, EOFError, zipfile.BadZipFile, MinidynError):
        return None


def reduced(
    robot: Robot,
    base: BaseMap,
    logs: Logs,
    on_error: str = "stop",
    preparation: Mapping[str, Any] | None = None,
    force: bool = False,
) -> Member:
    """Return what one robot says.

    With on_error "skip" a day that cannot be read is left out, if there are others. With `force`
    logs are fitted from which no meaningful model can be.
    """
    notices, dates, memory, covariances = (
        dict.fromkeys(logs.notices),
        list[str](),
        list[float](),
        list[Array](),
    )
    fits, failures = list[Fit](), list[DescriptionError]()
    with single_thread():
        for date, log in logs.dated:
            try:
                told = require_meaning(robot, log, force)
                whose = f"the recording of robot {logs.name!r}"
                data = ready(
                    robot, log, purpose="identification", preparation=preparation, name=whose
                )
                found = fit(robot, base, data, "wls", allow_open=True)
                covariance = covariance_of(found, data)[0]
            except DescriptionError as error:
                if on_error == "stop":
                    raise
                failures.append(error)
                files = (
                    ", ".join(log.files)
                    if isinstance(log, LazyRecording)
                    else f"a log of robot {logs.name!r}"
                )
                notices[LEFT_OUT(f"left out: {error}", files=files)] = None
                continue
            fits.append(found)
            covariances.append(covariance)
            memory.append(_memory(found, covariance))
            notices |= dict.fromkeys((*told, *data.notices))
            dates.append(date)
        if not fits:
            raise failures[0]
        samples = [found.triangles.samples for found in fits]
        sigma = np.sqrt(np.average([found.sigma**2 for found in fits], axis=0, weights=samples))
        # rows count as independent: neighbours repeat each other by as much as the deviations of
        # each day show
        scale = sigma * np.sqrt(np.average(memory, weights=samples))
        whole = joined([found.triangles for found in fits])
        days = [found.triangles.weighted(scale)[:2] for found in fits]
        problem = BlockProblem({"base": base.rank}, [[Rows({"base": R}, z)] for R, z in days])
        errors = [R @ covariance_root(own) for (R, _), own in zip(days, covariances)]
        change, std = _changes(base, problem, days if len(days) > 1 else [])
    return Member(
        logs.name,
        whole,
        scale,
        sigma,
        problem.covariance(errors),
        sum(samples),
        tuple(dates),
        change,
        std,
        tuple(notices),
    )


def _memory(found: Fit, covariance: Array) -> float:
    """Return by how much variances are larger than those of independent rows, in the mean over
    parameters.
    """
    inverse, is_open = solve.pseudo_inverse(found.R)
    white = np.sum(inverse**2, axis=1)
    shown = ~is_open & (white > 0) & np.isfinite(np.diag(covariance))
    return float(np.mean(np.diag(covariance)[shown] / white[shown])) if shown.any() else 1.0


def _changes(
    base: BaseMap, problem: BlockProblem, days: Sequence[tuple[Array, Array]]
) -> tuple[Array, Array]:
    """Return by which share friction of each joint differs on each day (days, joints), and standard
    deviations.
    """
    split, beta = Split.of(base), problem.solved(allow_open=True).x
    own, whole = list(split.own), problem.rows.columns["base"]
    levels = friction_levels(base, split, whole.T @ whole, beta[own])
    found, std = np.zeros((2, len(days), len(levels)))
    for k, (R, z) in enumerate(days):
        rows = Rows({"friction": R[:, own]}, z - R @ beta)
        change = BlockProblem.of(rows).solved(allow_open=True)
        found[k], std[k] = levels @ change.x, np.linalg.norm(levels @ change.inverse, axis=1)
    return found, std


def friction_levels(base: BaseMap, split: Split, products: Array, friction: Array) -> Array:
    """Return rows (joints, m).

    By which share changed friction parameters change each joint's friction torque. With K the
    products of the columns of a joint's friction, offset apart, along the motion (a part of
    `products` (b, b)), and f its parameters (of m): fᵀ K δ / fᵀ K f, so that all of them changed by
    a share count as that share.
    """
    made = np.zeros((len(base.robot.joints), len(split.own)))
    for joint in range(len(made)):
        chosen = friction_of(split, joint)
        K = products[np.ix_([split.own[k] for k in chosen], [split.own[k] for k in chosen])]
        f = friction[chosen]
        size = float(f @ K @ f)
        if size > 0:
            made[joint, chosen] = K @ f / size
    return made


def friction_of(split: Split, joint: int) -> list[int]:
    """Return which of the friction parameters (m) are those of a joint, its offset apart."""
    offset = FRICTION["offset"]
    return [k for k, own in enumerate(split.joints) if own == joint and split.symbols[k] != offset]
