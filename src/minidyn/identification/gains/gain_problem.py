"""Drive gains as one problem of blocks: inverse gains, base parameters, what is open of a load.

k_j i_j = Y_j beta has its noise in the column of the gain. So the model predicts the currents,

    i_j = (Y_j beta + Y_j^L phi_L) / k_j + noise,

the form for noise of any size in each joint, and the likeliest solution for normal noise. It is not
linear: rows are those of small changes, about a first guess that is linear.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from minidyn.arrays import Array, of_roots
from minidyn.identification.estimators.block_covariance import block_length
from minidyn.identification.problem import BlockProblem, Rows, places_of
from minidyn.identification.rows.pieces import Pieces
from minidyn.identification.rows.triangles import Triangles
from minidyn.identification.sizes import MAX_STEPS

PRIOR_STD = 10.0  # rounding: of a gain, over its first guess: any data overrule it
FIRST_NOISE = 0.1  # size: of a joint's current, where the search begins
SPARE_FRICTION = 0.3
"""Of a joint's current: likely size of friction that the terms lack."""
CELLS = 12  # size: of each joint's range, in two directions
BLOCKS = 60  # size: of time, about: more take longer and say no more


@dataclass(frozen=True)
class GainProblem:
    """Unknowns x: inverse gains (n,), base parameters (b,), and what is open of the load (u,)."""

    rows: Triangles  # [Y | friction | Y^L | current] of each joint, both runs
    rank: int  # number of base parameters, b
    known: Array  # known parameters of the load (10,)
    open_directions: Array  # (10, u)
    # joints of the columns of friction that the terms lack, which is likely small (f,)
    spare: NDArray[np.intp]

    @cached_property
    def places(self) -> dict[str, slice]:
        """Where the blocks of x are."""
        sizes = {"gain": len(self.rows.factors), "base": self.rank, "friction": len(self.spare)}
        return places_of({**sizes, "load": self.open_directions.shape[1]})

    @property
    def _torque(self) -> slice:
        """Where the unknowns of torque are, the load's apart."""
        return slice(self.places["base"].start, self.places["load"].start)

    @cached_property
    def _whole(self) -> tuple[Array, Array]:
        """Columns (K, n, b + f + 10) and currents (K, n) that say as much as all samples."""
        factors = self.rows.factors
        whole = np.zeros((factors[0].shape[1], len(factors), factors[0].shape[1]))
        for joint, factor in enumerate(factors):
            whole[: len(factor), joint] = factor
        return whole[..., :-1], whole[..., -1]

    @property
    def _sizes(self) -> Array:
        """Root mean square of each joint's current (n,)."""
        return np.asarray(np.maximum(self.rows.sizes, 1e-300), dtype=float)

    def load(self, x: Array) -> Array:
        """Return the ten parameters of the load."""
        return np.asarray(self.known + self.open_directions @ x[self.places["load"]])

    def torque_parameters(self, x: Array) -> Array:
        """Return what gives torques: base parameters, friction, and the load's parameters."""
        return np.concatenate([x[self._torque], self.load(x)])

    def left(self, x: Array, W: Array, y: Array) -> Array:
        """Return currents y less predicted ones (K, n)."""
        return np.asarray(y - x[self.places["gain"]] * (W @ self.torque_parameters(x)))

    def slopes(self, x: Array, W: Array) -> Array:
        """Return what predicted currents change by with x (K, n, unknowns)."""
        n = W.shape[1]
        gains = np.eye(n) * (W @ self.torque_parameters(x))[..., None]
        scaled = x[:n, None] * W
        load = scaled[..., -10:] @ self.open_directions
        return np.concatenate([gains, scaled[..., :-10], load], axis=2)

    def noise(self, x: Array) -> Array:
        """Return the standard deviation of each joint's residual current (n,)."""
        squares = np.sum(self.left(x, *self._whole) ** 2, axis=0)
        return np.asarray(np.maximum(np.sqrt(squares / self.rows.samples), 1e-9 * self._sizes))

    def _felt(self, load: Array) -> Array:
        """Return the size of the torque of a load at each joint (n,)."""
        return np.asarray(np.linalg.norm(self._whole[0][..., -10:] @ load, axis=0))

    def share(self, x: Array) -> float:
        """Return the load's share of the current, at the joint where it is largest."""
        felt = x[self.places["gain"]] * self._felt(self.load(x))
        return float(np.max(felt / (self._sizes * np.sqrt(self.rows.samples))))

    def first_guess(self) -> tuple[Array, float]:
        """Return x near the solution, and how many standard deviations the load is away from none.

        Least squares for i_p = ... and 0 = k_j / k_p i_j - ...: ratios of gains too small by the
        noise, but near, and linear: no start decides. Standard deviations are those of white
        residuals.
        """
        (W, current), load = self._whole, self.places["load"]
        n, size = len(self._sizes), self._sizes * np.sqrt(self.rows.samples)
        joints = np.arange(n)
        p = int(np.argmax(self._felt(self.known) / size))
        A = np.zeros((*current.shape, load.stop))
        A[:, joints, joints] = -current  # times k_j / k_p
        A[..., p] = W[..., -10:] @ self.known  # times 1 / k_p
        A[..., self._torque] = W[..., :-10]
        A[..., load] = W[..., -10:] @ self.open_directions
        A /= size[:, None]
        norms = np.linalg.norm(A, axis=(0, 1))
        A *= norms > 1e-9 * norms.max()  # a planar arm feels few of the load's parameters
        right = np.where(joints == p, current / size[p], 0.0)
        friction = Rows.known("friction", 0.0, SPARE_FRICTION / FIRST_NOISE * size[self.spare])
        data = Rows.split(A.reshape(-1, load.stop), right.ravel(), self.places)
        solution = BlockProblem.of(data, friction).solved(allow_open=True)
        y = solution.x
        left = np.sqrt(solution.rest / (n * self.rows.samples))
        deviation = left * float(np.linalg.norm(solution.inverse[p]))
        scale = y[p] if y[p] > 0 else 1.0
        ratios = np.where(joints == p, 1.0, y[:n])
        ratios = np.where(ratios > 1e-3, ratios, float(np.median(ratios[ratios > 0])))
        return np.append(scale / ratios, y[n:] / scale), float(y[p] / max(deviation, 1e-300))

    def linear(self, x: Array, scale: Array, prior: Array) -> list[Rows]:
        """Return residuals and their slopes about x, in units of the noise, what is known last."""
        W, current = self._whole
        slopes = (-self.slopes(x, W) / scale[:, None]).reshape(-1, len(x))
        left = (self.left(x, W, current) / scale).ravel()
        gain, _, friction, load = (x[place] for place in self.places.values())
        inverse, size = gain[self.spare], SPARE_FRICTION * self._sizes[self.spare]
        of_gains = np.eye(len(gain))[self.spare] * (friction / size)[:, None]
        return [
            Rows.split(slopes, left, self.places),
            Rows.known("gain", gain - prior, PRIOR_STD * prior),
            Rows.known("load", load, np.ones(len(load))),
            Rows(
                {"gain": of_gains, "friction": np.diag(inverse / size)}, friction * inverse / size
            ),
        ]

    def solve(self, x: Array, scale: Array) -> Array:
        """Return the likeliest x, inverse gains positive.

        The unknowns of the search are ratios of gains, base parameters in currents of one joint,
        and that joint's inverse gain: a load that is not seen makes the last one small and leaves
        the others as they are. In x itself gains and base parameters would grow together without
        end.
        """
        from scipy.optimize import least_squares  # heavy, and estimators do without

        n, torque = len(scale), self._torque
        p = int(np.argmax(self._felt(self.load(x)) * x[:n] / scale))
        prior = np.abs(x[:n])
        lower = np.where(np.arange(len(x)) < n, 0.0, -np.inf)
        lower[p] = 1e-9 * prior[p]

        def of_search(y: Array) -> Array:
            turned = y.copy()
            turned[:n] *= y[p]
            turned[p] = y[p]
            turned[torque] /= y[p]
            return turned

        def rows(y: Array) -> Array:
            parts = self.linear(of_search(y), scale, prior)
            return np.vstack([part.matrix(self.places) for part in parts])

        def slope(y: Array) -> Array:
            J = rows(y)[:, :-1]
            others = np.delete(np.arange(n), p)
            J[:, p] += J[:, others] @ y[others] - J[:, torque] @ y[torque] / y[p] ** 2
            J[:, others] *= y[p]
            J[:, torque] /= y[p]
            return J

        start = x.copy()
        start[:n] /= x[p]
        start[p] = x[p]
        start[torque] *= x[p]

        def value(y: Array) -> Array:
            return rows(y)[:, -1]

        found = least_squares(
            value,
            start,
            slope,
            bounds=(lower, np.inf),
            x_scale="jac",
            ftol=1e-10,
            xtol=1e-12,
            gtol=1e-12,
            max_nfev=MAX_STEPS,
        )
        return of_search(np.asarray(found.x, dtype=float))

    def covariance(self, x: Array, scale: Array) -> Array:
        """Return the covariance of x for currents with this noise (n,); zero where it is open."""
        rows = self.linear(x, scale, np.abs(x[self.places["gain"]]))
        return of_roots(BlockProblem.of(*rows).solved(allow_open=True).inverse)


def covariance_of_blocks(
    problem: GainProblem,
    x: Array,
    sigma: Array,
    pieces: Sequence[Pieces],
    states: Sequence[Pieces],
) -> Array:
    """Return the covariance of x by leaving out one cell of states after the other, at least that
    by blocks of time and that of white residuals.

    What a model lacks is a function of the state and comes again with it: blocks of time, which
    see all states, do not show it. So residuals of a joint count together by its position and the
    direction of its speed, over both runs; `states` are positions and speeds (N, n, 2) of the rows
    of `pieces`. Blocks of time are longer than the memory of the residuals and hold all joints,
    which errors of positions reach at once. Parts that decide a parameter pull it towards their own
    errors: what the others say without them shows that, the spread of residuals does not.
    """
    white = problem.covariance(x, sigma)
    unit = np.sqrt(np.diag(white))
    unit = np.where(unit > 0, unit, 1.0)
    parts = (_by_time(problem, x, sigma, pieces), _by_state(problem, x, sigma, pieces, states))
    by_time, by_state = (_without_each(white / np.outer(unit, unit), unit, part) for part in parts)
    largest = np.maximum(np.diag(white), np.diag(by_time))
    factor = np.sqrt(np.maximum(largest / np.maximum(np.diag(by_state), 1e-300), 1.0))
    return np.asarray(by_state * np.outer(factor, factor))


_Part = tuple[Array, Array]
"""Slopes J (rows, unknowns) and what is left (rows,), in units of the noise."""


def _without_each(scaled: Array, unit: Array, parts: Iterator[_Part]) -> Array:
    """Return the covariance (unknowns, unknowns) by what x moves without each part."""
    moved = []
    for J, left in parts:
        J = J * unit
        moved.append(np.linalg.solve(np.eye(len(unit)) - scaled @ (J.T @ J), scaled @ (J.T @ left)))
    root = np.array(moved).T * unit[:, None]
    return of_roots(root * np.sqrt((len(moved) - 1) / len(moved)))


def _by_time(
    problem: GainProblem, x: Array, sigma: Array, pieces: Sequence[Pieces]
) -> Iterator[_Part]:
    """Yield blocks of time, all joints together."""
    longest = max((piece for own in pieces for piece in own()), key=lambda piece: len(piece.t))
    length, _ = block_length(problem.left(x, longest.W, longest.y), longest.t, problem.rows.samples)
    length = max(length, problem.rows.samples // BLOCKS)
    for piece in (piece for own in pieces for piece in own()):
        left = problem.left(x, piece.W, piece.y) / sigma
        for rows in np.array_split(np.arange(len(left)), max(1, round(len(left) / length))):
            J = problem.slopes(x, piece.W[rows]) / sigma[:, None]
            yield J.reshape(-1, len(x)), left[rows].ravel()


def _by_state(
    problem: GainProblem,
    x: Array,
    sigma: Array,
    pieces: Sequence[Pieces],
    states: Sequence[Pieces],
) -> Iterator[_Part]:
    """Yield the rows of each joint by its position and the direction of its speed."""
    q = np.concatenate([piece.W[..., 0] for own in states for piece in own()])
    low, width = q.min(axis=0), np.maximum(np.ptp(q, axis=0), 1e-300) / CELLS
    cells: dict[tuple[int, int], list[_Part]] = {}
    for own, places in zip(pieces, states):
        for piece, place in zip(own(), places()):
            left = problem.left(x, piece.W, piece.y) / sigma
            slopes = problem.slopes(x, piece.W) / sigma[:, None]
            at = np.minimum((place.W[..., 0] - low) // width, CELLS - 1).astype(int)
            at = 2 * at + (place.W[..., 1] > 0)
            for joint in range(len(sigma)):
                for cell in np.unique(at[:, joint]).tolist():
                    rows = at[:, joint] == cell
                    part = slopes[rows, joint], left[rows, joint]
                    cells.setdefault((joint, cell), []).append(part)
    for parts in cells.values():
        slopes, left = (np.concatenate(own) for own in zip(*parts))
        yield slopes, left
