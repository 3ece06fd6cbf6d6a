"""The equations of drive gains: predicted currents of all joints, both runs, and their likeliest unknowns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from minidyn.base.base_map import BaseMap
from minidyn.dynamics.functions import base_regressor, regressor
from minidyn.experiment.recording import Recording
from minidyn.identification.rows import Reduced, residuals
from minidyn.model.inertia import transform
from minidyn.model.robot import Robot

__all__ = ["CurrentColumns", "GainProblem", "together"]

Array = NDArray[np.float64]
_BELIEF = 10.0  # how far, times its first guess, a gain may be: a belief that any data overrule


@dataclass(frozen=True)
class CurrentColumns:
    """Columns of base parameters and of the load, against currents."""

    robot: Robot
    base: BaseMap
    carrier: int
    placement: Array
    loaded: bool

    def __call__(self, piece: Recording) -> tuple[Array, Array]:
        """Return columns (N, n, b + 10), those of the load zero in a run without it, and currents (N, n)."""
        dq, ddq, current = (np.asarray(getattr(piece, name), dtype=float) for name in ("dq", "ddq", "tau"))
        B = base_regressor(self.robot, self.base, piece.q, dq, ddq)
        layout = self.robot.layout
        ten = [column.name for column in layout.columns[layout.links[self.carrier]]]
        L = np.zeros((*current.shape, 10))
        if self.loaded:
            of_frame = transform(np.eye(10), self.placement).T
            L = regressor(self.robot, piece.q, dq, ddq, columns=ten) @ of_frame
        return np.concatenate([B, L], axis=-1), current


def together(parts: Sequence[Reduced]) -> Reduced:
    """Return the rows of several runs as one triangle for each joint."""
    each = zip(*(part.factors for part in parts))
    factors = [np.asarray(np.linalg.qr(np.vstack(own), mode="r"), dtype=float) for own in each]
    return Reduced(tuple(factors), sum(part.samples for part in parts))


@dataclass(frozen=True)
class GainProblem:
    """Unknowns x: inverse gains (n,), base parameters (b,), and what is open of the load (u,).

    Attributes:
        rows: [Y | Y^L | current] of each joint, both runs.
        rank: Number of base parameters.
        known: Known parameters of the load (10,).
        open_directions: (10, u).
    """

    rows: Reduced
    rank: int
    known: Array
    open_directions: Array

    def load(self, x: Array) -> Array:
        """Return the ten parameters of the load."""
        return np.asarray(self.known + self.open_directions @ x[len(self.rows.factors) + self.rank :])

    def torque_parameters(self, x: Array) -> Array:
        """Return base parameters and the load's, which give torques."""
        n = len(self.rows.factors)
        return np.concatenate([x[n : n + self.rank], self.load(x)])

    def predicted(self, run: Recording, columns: CurrentColumns, x: Array) -> Array:
        """Return predicted currents (N, n)."""
        none = residuals(run, columns, np.zeros(self.rank + 10))
        torque = none - residuals(run, columns, self.torque_parameters(x))
        return np.asarray(torque * x[: len(self.rows.factors)])

    def rows_squares(self, x: Array) -> Array:
        """For each joint, the sum of squared residual currents (n,)."""
        theta = self.torque_parameters(x)
        return np.array(
            [
                float(np.sum((factor @ np.append(-x[joint] * theta, 1.0)) ** 2))
                for joint, factor in enumerate(self.rows.factors)
            ]
        )

    def first_guess(self) -> Array:
        """Return x of k_j i_j = Y_j beta + Y_j^L phi by least squares: gains too small by the noise, but near."""
        n, b, u = len(self.rows.factors), self.rank, self.open_directions.shape[1]
        blocks, right = [], []
        for joint, factor in enumerate(self.rows.factors):
            size = max(float(np.linalg.norm(factor[:, -1])), 1e-300)
            block = np.zeros((len(factor), n + b + u))
            block[:, joint] = factor[:, -1] / size
            block[:, n : n + b] = -factor[:, :b] / size
            block[:, n + b :] = -factor[:, b:-1] @ self.open_directions / size
            blocks.append(block)
            right.append(factor[:, b:-1] @ self.known / size)
        A = np.vstack(blocks)
        norms = np.linalg.norm(A, axis=0)
        shown = norms > 1e-9 * norms.max(initial=0.0)  # a planar arm feels few of the load's parameters
        norms = np.where(shown, norms, 1.0)
        y, *_ = np.linalg.lstsq(A * shown / norms, np.concatenate(right), rcond=1e-9)
        x = np.where(shown, y / norms, 0.0)
        gains = x[:n].copy()
        positive = gains[gains > 0]
        middle = float(np.median(positive)) if len(positive) else 1.0
        x[:n] = 1.0 / np.where(gains > 1e-3 * middle, gains, middle)
        return np.asarray(x)

    def system(self, x: Array, scale: Array, belief: Array) -> tuple[Array, Array]:
        """Return residuals and their Jacobian, in units of the noise, beliefs last."""
        n, b = len(self.rows.factors), self.rank
        theta = self.torque_parameters(x)
        values, slopes = [], []
        for joint, factor in enumerate(self.rows.factors):
            block = np.zeros((len(factor), len(x)))
            block[:, joint] = -factor[:, :-1] @ theta
            block[:, n : n + b] = -x[joint] * factor[:, :b]
            block[:, n + b :] = -x[joint] * factor[:, b:-1] @ self.open_directions
            values.append((factor[:, -1] - x[joint] * factor[:, :-1] @ theta) / scale[joint])
            slopes.append(block / scale[joint])
        gain_rows = np.zeros((n, len(x)))
        gain_rows[:, :n] = np.diag(1.0 / (_BELIEF * belief))
        load_rows = np.zeros((len(x) - n - b, len(x)))
        load_rows[:, n + b :] = np.eye(len(x) - n - b)
        values += [(x[:n] - belief) / (_BELIEF * belief), x[n + b :]]
        return np.concatenate(values), np.vstack([*slopes, gain_rows, load_rows])

    def solve(self, x: Array, scale: Array) -> Array:
        """Return the likeliest x by Levenberg-Marquardt steps."""
        belief = np.abs(x[: len(self.rows.factors)])
        value, J = self.system(x, scale, belief)
        cost, damping = float(value @ value), 1e-6
        for _ in range(100):
            norms = np.maximum(np.linalg.norm(J, axis=0), 1e-300)
            A = np.vstack([J / norms, np.sqrt(damping) * np.eye(len(x))])
            step, *_ = np.linalg.lstsq(A, np.concatenate([-value, np.zeros(len(x))]), rcond=None)
            trial = x + step / norms
            if np.all(trial[: len(belief)] > 0):
                new, slope = self.system(trial, scale, belief)
                if float(new @ new) <= cost:
                    fallen = cost - float(new @ new)
                    x, value, J, cost = trial, new, slope, float(new @ new)
                    damping = max(damping * 0.1, 1e-14)
                    if fallen < 1e-8 * max(cost, 1.0):
                        break
                    continue
            damping *= 10.0
            if damping > 1e10:
                break
        return x

    def covariance(self, x: Array, scale: Array) -> Array:
        """Return the covariance of x for currents with this noise (n,)."""
        _, J = self.system(x, scale, np.abs(x[: len(self.rows.factors)]))
        norms = np.maximum(np.linalg.norm(J, axis=0), 1e-300)
        inverse = np.linalg.pinv(J / norms, rcond=1e-13)
        return np.asarray(inverse @ inverse.T / np.outer(norms, norms))
