"""Essential parameters: those that a recording asks for; the others are set to zero.

One by one, at a stated loss. Base parameters are the most that any motion could show. A given
motion with a given noise shows fewer: some do not differ from zero by more than chance. Leaving
them out makes a smaller model that predicts as well.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

import numpy as np
from scipy.special import fdtrc

from minidyn.arrays import Array, single_thread
from minidyn.errors import MinidynError
from minidyn.identification.estimate import Estimate, EstimateLike, as_estimate
from minidyn.identification.estimators.block_covariance import grown_noise
from minidyn.identification.estimators.solve import pseudo_inverse
from minidyn.identification.inputs import lifted
from minidyn.identification.rows.base_rows import Samples, remembering, steady_regressor
from minidyn.identification.rows.pieces import pieces_of, reduced, residuals, stacked
from minidyn.identification.rows.triangles import STRETCHES, Triangles
from minidyn.identification.select import seen
from minidyn.notices import Notice, info
from minidyn.recording.ready import RecordingLike, as_recording, ready
from minidyn.recording.recording import Recording
from minidyn.text import markdown_table

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
    if len(run) * run.n < 2 * estimate.base.rank * STRETCHES:
        raise MinidynError(
            f"{len(run)} samples are too few for {estimate.base.rank} base parameters in "
            f"{STRETCHES} parts"
        )
    with single_thread():
        return _eliminated(
            estimate, _Problem.of(seen(estimate, run.info.get("cutoff")), run), level, loss, notices
        )


@dataclass(frozen=True)
class _Problem:
    """Reduced rows by stretches of time, and the noise."""

    parts: tuple[Triangles, ...]  # rows of each stretch
    torque: float  # sum of squared torques
    scale: Array  # each joint's noise, grown by its memory (n,)
    independent: float  # number of independent samples, all joints together

    @classmethod
    def of(cls, estimate: Estimate, run: Recording) -> _Problem:
        def columns(piece: Recording) -> tuple[Array, Array]:
            log = Samples.all_of(piece)
            return steady_regressor(estimate.robot, estimate.base, *log.motion), log.tau

        edges = np.linspace(0, len(run), STRETCHES + 1).astype(int).tolist()
        parts = tuple(reduced(pieces_of(run[a:b], columns)) for a, b in pairwise(edges))
        torque = float(np.sum(np.square(np.asarray(run.tau))))
        floor = 1e-9 * np.sqrt(torque / run.q.size) + 1e-300
        made = cls(parts, torque, np.maximum(estimate.sigma, floor), 0.0)
        for _ in range(2):
            values = _fitted(made.rows, range(estimate.base.rank))[0]
            left = residuals(pieces_of(run, columns), values)
            scale, _, independent = grown_noise(left, run.starts, estimate.base.rank, floor)
            made = cls(parts, torque, scale, independent)
        return made

    @cached_property
    def rows(self) -> Array:
        """Rows [X | y] of each stretch in units of the noise (stretches, b + 1, b + 1)."""
        return np.stack([part.together(self.scale) for part in self.parts])

    def errors(self, kept: Sequence[int]) -> tuple[float, float]:
        """Return relative torque errors of the fit and on stretches that were left out of it."""
        values, held_out = _fitted(self.rows, kept)[0], 0.0
        fitted = sum(float(part.squares(values).sum()) for part in self.parts)
        for number, part in enumerate(self.parts):
            without = _fitted(np.delete(self.rows, number, axis=0), kept)[0]
            held_out += float(part.squares(without).sum())
        return math.sqrt(fitted / self.torque), math.sqrt(held_out / self.torque)


def _fitted(rows: Array, kept: Sequence[int]) -> tuple[Array, Array, float]:
    """Return (values (b,), zero but for the kept ones, R⁺ of these, rest) of rows [X | y]."""
    R, z, rest = stacked(list(rows[..., [*kept, -1]]))
    inverse, is_open = pseudo_inverse(R)
    if is_open.any():
        raise MinidynError(
            "a stretch of this recording does not determine all base parameters; give a longer or "
            "richer motion"
        )
    values = np.zeros(rows.shape[-1] - 1)
    values[list(kept)] = inverse @ z
    return values, inverse, rest


def _eliminated(
    estimate: Estimate, problem: _Problem, level: float, loss: float, notices: list[Notice]
) -> Essential:
    size, names = estimate.base.rank, estimate.names
    kept = list(range(size))
    beta, inverse, full_rest = _fitted(problem.rows, kept)
    fit_error, validation_error = problem.errors(kept)
    steps: list[Elimination] = []
    stopped = "nothing is left"
    while kept:
        ratio = beta[kept] ** 2 / np.sum(inverse**2, axis=1)
        least = int(np.argmin(ratio))
        name, value = names[kept[least]], float(beta[kept[least]])
        free = max(1.0, problem.independent - len(kept))
        chance = float(fdtrc(1, free, ratio[least]))
        fewer = [k for k in kept if k != kept[least]]
        new_beta, new_inverse, new_rest = _fitted(problem.rows, fewer)
        count, free = len(steps) + 1, max(1.0, problem.independent - size)
        chance_all = float(fdtrc(count, free, max((new_rest - full_rest) / count, 0.0)))
        if min(chance, chance_all) < level:
            stopped = f"{name} differs from zero (p = {min(chance, chance_all):.2g})"
            break
        errors = problem.errors(fewer)
        if errors[1] > (1.0 + loss) * validation_error:
            growth = errors[1] / validation_error - 1.0
            stopped = f"without {name} the validation error would grow by {100 * growth:.2g} %"
            break
        steps.append(Elimination(name, value, chance, chance_all, len(fewer), *errors))
        kept, beta, inverse = fewer, new_beta, new_inverse
    covariance = np.zeros((size, size))
    covariance[np.ix_(kept, kept)] = inverse @ inverse.T
    base, robot = estimate.base, estimate.robot
    text = (
        f"{len(steps)} of {size} base parameters were removed as not essential; the model was not "
        "made consistent"
    )
    notice = REMOVED(text, names=[step.name for step in steps], parameters=size)
    reduced_estimate = replace(
        estimate,
        robot=robot.with_parameters(lifted(base, beta, robot)),
        beta=beta,
        covariance=covariance,
        consistent=False,
        method="wls",
        notices=(*estimate.notices, *notices, *([notice] if steps else [])),
        record={**estimate.record, "removed": [step.name for step in steps]},
    )
    left = tuple(names[k] for k in kept)
    return Essential(reduced_estimate, tuple(steps), left, fit_error, validation_error, stopped)
