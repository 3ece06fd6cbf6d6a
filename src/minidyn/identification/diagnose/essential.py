"""Essential parameters: those that a recording asks for; the others are set to zero.

One by one, at a stated loss. Base parameters are the most that any motion could show. A given
motion with a given noise shows fewer: some do not differ from zero by more than chance. Leaving
them out makes a smaller model that predicts as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from scipy.linalg import solve_triangular
from scipy.special import fdtrc

from minidyn.arrays import Array, single_thread
from minidyn.dynamics.functions import base_regressor
from minidyn.dynamics.record import STATES
from minidyn.errors import MinidynError
from minidyn.identification.estimate import Estimate, EstimateLike, as_estimate
from minidyn.identification.estimators.block_covariance import memory_of
from minidyn.identification.rows.base_rows import remembering
from minidyn.identification.rows.pieces import pieces_of, reduced, residuals, stacked
from minidyn.identification.rows.triangles import Triangles
from minidyn.identification.select import seen
from minidyn.notices import Notice, info
from minidyn.recording.ready import RecordingLike, as_recording, ready
from minidyn.recording.recording import Recording
from minidyn.text import markdown_table

FOLDS = 5  # size: stretches of time, each left out once

REMOVED = info(
    "essential.removed",
    "Base parameters that the recording does not ask for were set to zero; the model was not made "
    "consistent.",
    "Export the full estimate where a simulator needs a physically consistent model.",
)


@dataclass(frozen=True)
class Elimination:
    """One step.

    Attributes:
        name: The base parameter that was set to zero.
        value: What it was.
        p_value: Probability, were it zero, of a value as far from it: F test of this step.
        p_value_all: The same for all that were removed so far, against the full model.
        parameters: How many are left.
        fit_error: Relative torque error of the fit, ‖tau - prediction‖ / ‖tau‖.
        validation_error: The same on stretches of time that were left out of the fit.
    """

    name: str
    value: float
    p_value: float
    p_value_all: float
    parameters: int
    fit_error: float
    validation_error: float


@dataclass(frozen=True, eq=False)
class Essential:
    """A reduced model and how it was reached.

    Attributes:
        estimate: The reduced model: removed base parameters are zero, the others estimated again.
        steps: What was removed, in order.
        names: The base parameters that are left.
        fit_error: Relative torque error of the full model's fit.
        validation_error: The same on stretches of time that were left out of the fit.
        stopped: Why no more was removed.
    """

    estimate: Estimate
    steps: tuple[Elimination, ...]
    names: tuple[str, ...]
    fit_error: float
    validation_error: float
    stopped: str

    @property
    def removed(self) -> tuple[str, ...]:
        """Names of the removed base parameters, in order."""
        return tuple(step.name for step in self.steps)

    @property
    def loss(self) -> float:
        """Growth of the validation error by the reduction: 0.01 is one percent.

        Negative where it fell.
        """
        return self.steps[-1].validation_error / self.validation_error - 1.0 if self.steps else 0.0

    def predict(self, recording: Recording) -> Array:
        """Return the torques (N, n) that the reduced model expects."""
        return self.estimate.predict(recording)

    def table(self) -> str:
        """Return a Markdown table of the steps."""
        headings = (
            "removed", "value", "p", "p, all removed", "parameters left", "fit error",
            "validation error",
        )  # fmt: skip

        def row(
            name: str, tests: Sequence[str], count: int, errors: Essential | Elimination
        ) -> Sequence[str]:
            sizes = (errors.fit_error, errors.validation_error)
            return (name, *tests, str(count), *(f"{100 * size:.4g} %" for size in sizes))

        rows = [row("(none)", ("", "", ""), len(self.names) + len(self.steps), self)]
        for step in self.steps:
            tests = f"{step.value:.4g}", f"{step.p_value:.2g}", f"{step.p_value_all:.2g}"
            rows.append(row(step.name, tests, step.parameters, step))
        return markdown_table("lrrrrrr", headings, rows)

    def __repr__(self) -> str:
        total = len(self.names) + len(self.steps)
        return (
            f"Essential({len(self.names)} of {total} base parameters, validation error "
            f"{100 * self.loss:+.2g} %)"
        )


def essential(
    estimate: EstimateLike,
    recording: RecordingLike,
    *,
    level: float = 0.05,
    loss: float = 0.01,
) -> Essential:
    """Return the essential parameters of a model by backward elimination.

    In each step the base parameter that differs least from zero, by an F test that counts samples
    which repeat each other once, is removed and the others are estimated again by weighted least
    squares. It ends where the next one differs from zero at the given level, all that was removed
    together does, or the error on stretches of time that were left out of the fit has grown by more
    than the given loss.

    Args:
        estimate: The full model, for its robot and base parameters, or its path.
        recording: What it was identified from, raw (it is prepared) or prepared, or its path.
        level: Of the tests; 0: only the loss ends the elimination.
        loss: Largest growth of the validation error, relative to the full model's; infinity: only
            the tests end it.

    Returns:
        The reduced model and the steps to it.

    Gautier (1997) and Pham (1991) take rows for independent and remove by relative standard
    deviation instead.
    """
    if not 0 <= level < 1:
        raise MinidynError(f"level: expected a probability from 0 to below 1, got {level!r}")
    if not loss >= 0:
        raise MinidynError(f"loss: expected a number that is not negative, got {loss!r}")
    estimate = as_estimate(estimate, "essential")
    recording = as_recording(recording, estimate.robot)
    run = ready(estimate.robot, recording, purpose="finding essential parameters", in_memory=True)
    run = remembering(estimate.robot, run)
    notices = [notice for notice in run.notices if notice not in recording.notices]
    if len(run) * run.n < 2 * estimate.base.rank * FOLDS:
        raise MinidynError(
            f"{len(run)} samples are too few for {estimate.base.rank} base parameters in {FOLDS} "
            "parts"
        )
    with single_thread():
        return _eliminated(
            estimate, _Problem.of(seen(estimate, run.info.get("cutoff")), run), level, loss, notices
        )


@dataclass(frozen=True)
class _Problem:
    """Reduced rows by stretches of time, and the noise."""

    parts: tuple[Triangles, ...]  # rows of each stretch
    torque: Array  # sum of squared torques of each stretch
    scale: Array  # each joint's noise, grown by its memory (n,)
    free: float  # number of independent samples, all joints together

    @classmethod
    def of(cls, estimate: Estimate, run: Recording) -> _Problem:
        def columns(piece: Recording) -> tuple[Array, Array]:
            dq, ddq, tau = (
                np.asarray(getattr(piece, name), dtype=float) for name in ("dq", "ddq", "tau")
            )
            states = piece.telemetry.get(STATES)
            return base_regressor(
                estimate.robot, piece.q, dq, ddq, base=estimate.base, memory=states
            ), tau

        edges = np.linspace(0, len(run), FOLDS + 1).astype(int)
        parts = tuple(reduced(pieces_of(run[int(a) : int(b)], columns)) for a, b in pairwise(edges))
        torque = np.array([float(np.sum(np.square(run.tau[a:b]))) for a, b in pairwise(edges)])  # type: ignore[index]
        size = estimate.base.rank
        floor = 1e-9 * np.sqrt(torque.sum() / run.q.size) + 1e-300
        scale, memory = np.maximum(estimate.sigma, floor), np.ones(run.n)
        for _ in range(2):
            beta, _, _ = _solved(_stack(parts, scale), list(range(size)))
            left = residuals(pieces_of(run, columns), beta)
            memory = np.minimum(memory_of(left, run.starts), len(run) / 30)
            scale = np.maximum(np.sqrt(np.mean(left**2, axis=0)), floor)
        independent = float(np.sum(len(run) / memory))
        grown = memory * independent / max(independent - size, 0.1 * independent)
        return cls(parts, torque, scale * np.sqrt(grown), independent)

    def errors(self, kept: Sequence[int]) -> tuple[float, float]:
        """Return relative torque errors of the fit and on stretches that were left out of it."""
        beta = _solved(_stack(self.parts, self.scale), kept)[0]
        fitted = sum(float(part.squares(beta).sum()) for part in self.parts)
        held_out = 0.0
        for number, part in enumerate(self.parts):
            others = [other for k, other in enumerate(self.parts) if k != number]
            held_out += float(part.squares(_solved(_stack(others, self.scale), kept)[0]).sum())
        total = float(self.torque.sum())
        return float(np.sqrt(fitted / total)), float(np.sqrt(held_out / total))


def _stack(parts: Sequence[Triangles], scale: Array) -> tuple[Array, Array, float]:
    return stacked([factor / noise for part in parts for factor, noise in zip(part.factors, scale)])


def _solved(system: tuple[Array, Array, float], kept: Sequence[int]) -> tuple[Array, Array, float]:
    """Return (beta (b,), zero but for the kept ones, R of these, rest)."""
    R, z, rest = system
    size, beta = len(R), np.zeros(len(R))
    rows = np.zeros((size + 1, len(kept) + 1))
    rows[:size] = np.column_stack([R[:, list(kept)], z])
    rows[size, -1] = np.sqrt(rest)
    triangle, right, left = stacked([rows])
    diagonal = np.abs(np.diag(triangle))
    if np.any(diagonal <= 1e-12 * np.linalg.norm(triangle, axis=0)):
        raise MinidynError(
            "a stretch of this recording does not determine all base parameters; give a longer or "
            "richer motion"
        )
    if len(kept):
        beta[list(kept)] = solve_triangular(triangle, right)
    return beta, triangle, left


def _eliminated(
    estimate: Estimate, problem: _Problem, level: float, loss: float, notices: list[Notice]
) -> Essential:
    size, names = estimate.base.rank, estimate.names
    kept = list(range(size))
    system = _stack(problem.parts, problem.scale)
    beta, R, full_rest = _solved(system, kept)
    fit_error, validation_error = problem.errors(kept)
    steps: list[Elimination] = []
    stopped = "nothing is left"
    while kept:
        inverse = np.asarray(solve_triangular(R, np.eye(len(kept))), dtype=float)
        ratio = beta[kept] ** 2 / np.sum(inverse**2, axis=1)
        least = int(np.argmin(ratio))
        name, value = names[kept[least]], float(beta[kept[least]])
        free = max(1.0, problem.free - len(kept))
        chance = float(fdtrc(1, free, ratio[least]))
        fewer = [k for k in kept if k != kept[least]]
        new_beta, new_R, new_rest = _solved(system, fewer)
        together = (new_rest - full_rest) / (len(steps) + 1)
        chance_all = float(fdtrc(len(steps) + 1, max(1.0, problem.free - size), max(together, 0.0)))
        if min(chance, chance_all) < level:
            stopped = f"{name} differs from zero (p = {min(chance, chance_all):.2g})"
            break
        errors = problem.errors(fewer)
        if errors[1] > (1.0 + loss) * validation_error:
            growth = errors[1] / validation_error - 1.0
            stopped = f"without {name} the validation error would grow by {100 * growth:.2g} %"
            break
        steps.append(Elimination(name, value, chance, chance_all, len(fewer), *errors))
        kept, beta, R = fewer, new_beta, new_R
    covariance = np.zeros((size, size))
    inverse = (
        np.asarray(solve_triangular(R, np.eye(len(kept))), dtype=float)
        if kept
        else np.zeros((0, 0))
    )
    covariance[np.ix_(kept, kept)] = inverse @ inverse.T
    base, robot = estimate.base, estimate.robot
    regrouped = robot.parameters[list(robot.layout.indices(base.regrouped))]
    lifted = np.asarray(base.lift(beta, np.nan_to_num(regrouped)), dtype=float)
    text = (
        f"{len(steps)} of {size} base parameters were removed as not essential; the model was not "
        "made consistent"
    )
    notice = REMOVED(text, names=[step.name for step in steps], parameters=size)
    reduced_estimate = replace(
        estimate,
        robot=robot.with_parameters(lifted),
        beta=beta,
        covariance=covariance,
        consistent=False,
        method="wls",
        notices=(*estimate.notices, *notices, *([notice] if steps else [])),
        record={**estimate.record, "removed": [step.name for step in steps]},
    )
    left = tuple(names[k] for k in kept)
    return Essential(reduced_estimate, tuple(steps), left, fit_error, validation_error, stopped)
