"""Odd but readable logs for the whole chain: check, identify, validate, report, export.

A healthy log of a robot, a few of its columns changed as loggers, drives and people change them.
"""

from __future__ import annotations

import io
import random
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import minidyn as md

Array = NDArray[np.float64]
Log = dict[str, Array]
ENDING = ".npz"
_ROBOTS = ("two_link", "scara", "puma4")
_SAMPLES, _RATE = 260, 200.0


@cache
def robot(name: str) -> md.Robot:
    """Return a robot with all parameters known."""
    made = md.load(name).with_drives(rotor_inertia=True, friction=("viscous", "coulomb"))
    return made.with_parameters(np.where(np.isnan(made.parameters), 0.2, made.parameters))


@cache
def _healthy(name: str, seed: int) -> Log:
    rng, one = np.random.default_rng(seed), robot(name)
    t = np.arange(_SAMPLES) / _RATE
    q, dq, ddq = md.trajectory.fourier(one, seed=seed)(t * 4.0)
    dq, ddq = 4.0 * dq, 16.0 * ddq
    tau = md.inverse_dynamics(one, q, dq, ddq) + 0.05 * rng.standard_normal(q.shape)
    return {"t": t, "q": q + 1e-5 * rng.standard_normal(q.shape), "tau": tau}


def _column(log: Log, rng: random.Random) -> Array:
    """Return a column of positions or torques, or all times, to be changed in place."""
    name = rng.choice(("q", "tau", "tau", "q", "t"))
    values = log[name]
    return values if values.ndim == 1 else values[:, rng.randrange(values.shape[1])]


def _some(size: int, rng: random.Random) -> slice:
    begin = rng.randrange(size)
    return slice(begin, begin + rng.choice((1, 2, 5, 40, size)))


def _size(rng: random.Random) -> float:
    return rng.choice((-1.0, 1.0)) * 10.0 ** rng.choice((-200, -30, -3, 1, 3, 6, 12, 30, 100, 200))


def _scale(log: Log, rng: random.Random) -> None:
    with np.errstate(all="ignore"):
        _column(log, rng)[...] *= _size(rng)


def _offset(log: Log, rng: random.Random) -> None:
    _column(log, rng)[...] += _size(rng)


def _spike(log: Log, rng: random.Random) -> None:
    column = _column(log, rng)
    column[_some(len(column), rng)] = rng.choice((_size(rng), np.inf, -np.inf, 1e308, 0.0))


def _holes(log: Log, rng: random.Random) -> None:
    column = log[rng.choice(("q", "tau"))]
    column[_some(len(column), rng), rng.randrange(column.shape[1])] = np.nan


def _constant(log: Log, rng: random.Random) -> None:
    _column(log, rng)[...] = rng.choice((0.0, 1.0, _size(rng)))


def _same(log: Log, rng: random.Random) -> None:
    values = log[rng.choice(("q", "tau"))]
    values[:, rng.randrange(values.shape[1])] = values[:, rng.randrange(values.shape[1])]


def _rows(log: Log, rows: NDArray[np.intp]) -> None:
    log.update({name: values[rows].copy() for name, values in log.items()})


def _duplicates(log: Log, rng: random.Random) -> None:
    size = len(log["t"])
    rows = np.arange(size)
    rows[_some(size, rng)] = rng.randrange(size)
    _rows(log, rows)


def _reordered(log: Log, rng: random.Random) -> None:
    rows = list(range(len(log["t"])))
    rng.shuffle(rows) if rng.random() < 0.5 else rows.reverse()
    _rows(log, np.array(rows))


def _swapped_signals(log: Log, rng: random.Random) -> None:
    log["q"], log["tau"] = log["tau"], log["q"]


def _jumps(log: Log, rng: random.Random) -> None:
    begin = rng.randrange(len(log["t"]))
    log["t"][begin:] += rng.choice((-1.0, 0.1, 10.0, 1e6, 1e12, 1e300))


def _few(log: Log, rng: random.Random) -> None:
    count = rng.choice((1, 2, 3, 8, 9, 19, 20, 21, 25, 40, 80))
    _rows(log, np.arange(min(count, len(log["t"]))))


def _rates(log: Log, rng: random.Random) -> None:
    log["t"] *= 10.0 ** rng.choice((-300, -12, -6, -3, 3, 6, 12))


def _rounded(log: Log, rng: random.Random) -> None:
    column = _column(log, rng)
    step = 10.0 ** rng.choice((-3, -1, 0, 2))
    column[...] = np.round(column / step) * step


MUTATIONS: tuple[Callable[[Log, random.Random], None], ...] = (
    _scale, _offset, _spike, _holes, _constant, _same, _duplicates, _reordered, _swapped_signals,
    _jumps, _few, _rates, _rounded,
)  # fmt: skip


def _name(number: int) -> str:
    return _ROBOTS[number % len(_ROBOTS)]


def made(number: int) -> tuple[bytes, str]:
    """Return a log by its number, and how it was made."""
    rng = random.Random(f"chain:{number}")
    name = _name(number)
    log = {key: values.copy() for key, values in _healthy(name, rng.randrange(4)).items()}
    chosen = rng.choices(MUTATIONS, k=rng.choice((1, 1, 2, 3)))
    with np.errstate(all="ignore"):
        for mutation in chosen:
            mutation(log, rng)
    buffer = io.BytesIO()
    np.savez(buffer, **log, joint_names=np.array(robot(name).joint_names))  # type: ignore[arg-type]
    return buffer.getvalue(), "structure"


def run(path: Path, folder: Path, number: int) -> None:
    """Walk a log through the chain; what one step refuses the next ones may still take.

    The error of the first step that refused it is raised at the end.
    """
    rng, one = random.Random(f"options:{number}"), robot(_name(number))
    refused: list[md.MinidynError] = []

    def step(function: Callable[[], object]) -> object:
        try:
            return function()
        except md.MinidynError as error:
            refused.append(error)
            return None

    lazy, options = rng.random() < 0.25, {"force": rng.random() < 0.5}
    if rng.random() < 0.3:
        options |= {"friction": rng.choice(((), ("viscous",), "own"))}
    if rng.random() < 0.2:
        options |= {"method": rng.choice(("ols", "irls", "parallel", "tls", "momentum", "iv"))}
    if rng.random() < 0.3:
        options |= rng.choice(({"consistent": False}, {"prior": False}))
    log = md.read_recording(path, one, lazy=lazy)
    step(lambda: md.check(one, log).report(folder / "check.html"))
    estimate = step(lambda: md.identify(one, log, **options))
    if isinstance(estimate, md.Estimate):
        validation = step(lambda: md.validate(estimate, log))
        timed = rng.random() < 0.2  # speeds of generated code take a seventh of the whole chain
        step(lambda: md.report(estimate, validation or log, folder / "report.html", code=timed))
        step(lambda: estimate.export(folder / "exported"))
    if rng.random() < 0.5:
        step(lambda: md.report(_model(_name(number)), log, folder / "report.html", code=False))
    if refused:
        raise refused[0]


@cache
def _model(name: str) -> md.Estimate:
    """Return a model that was fitted to a healthy log."""
    log, one = _healthy(name, 5), robot(name)
    recording = md.Recording(log["t"], log["q"], log["tau"], joint_names=one.joint_names)
    return md.identify(one, recording, friction=("viscous", "coulomb"))
