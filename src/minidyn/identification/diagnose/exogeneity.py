"""Was plain least squares biased? The Durbin-Wu-Hausman test, robust to residuals with a memory.

Least squares is right where the regressor has nothing to do with the residual. Noise in the states
breaks that: it is in the columns and, times the parameters, in the residual. Instruments Z are the
columns without that noise, so that v = (W - Z) beta is, joint by joint, the torque that the noise
of the states is worth. Where least squares is unbiased, v and the residual are unrelated, and the
test asks just that. It looks in one direction for each joint, the one in which noise of the states
pulls, not in one for each parameter: blocks of a short recording could not tell those apart.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from minidyn.arrays import Array, single_thread
from minidyn.identification.diagnose.thresholds import LEVEL
from minidyn.identification.estimators.block_covariance import block_sums
from minidyn.identification.estimators.solve import pseudo_inverse
from minidyn.identification.rows.pieces import Pieces
from minidyn.identification.rows.triangles import triangle_of
from minidyn.identification.sizes import ROUNDING
from minidyn.notices import Notice, info, warning

BIASED = warning(
    "identify.biased",
    "A test finds that plain least squares is biased on this recording.",
    'Prefer the estimates of "iv", or filter positions more strongly; compare both.',
)
UNBIASED = info(
    "identify.unbiased", "A test finds no bias of plain least squares on this recording."
)

DRAWS = 5000  # size: draws of signs
AT_ONCE = 100  # size: draws in memory
# size: blocks for each parameter; with more, what leaks through the fit is not worth computing
MANY_BLOCKS = 20


@dataclass(frozen=True)
class Exogeneity:
    """Result of the test."""

    statistic: float  # Hotelling's statistic of the block sums, as an F value
    dof: tuple[int, int]  # degrees of freedom (directions tested, blocks less directions)
    p_value: float  # chance of such a value or a larger one where least squares is unbiased

    @property
    def biased(self) -> bool:
        """Whether least squares is measurably biased, at a level of 5 %."""
        return self.p_value < LEVEL

    @property
    def notice(self) -> Notice:
        """The verdict as a notice."""
        made = BIASED if self.dof[0] and self.biased else UNBIASED
        return made(
            self.verdict, p_value=self.p_value, statistic=self.statistic, dof=list(self.dof)
        )

    @property
    def verdict(self) -> str:
        """The result in words."""
        if self.dof[0] == 0:
            return (
                "recorded states have no noise that instruments could show: plain least squares "
                "is not biased by any"
            )
        value = f"p = {self.p_value:.2g}, F({self.dof[0]}, {self.dof[1]}) = {self.statistic:.3g}"
        if self.biased:
            return (
                f"plain least squares was measurably biased ({value}): what recorded states have "
                "and simulated ones have not is correlated with the residual torque. Noise does "
                "that, and so does torque that the model lacks where joints reverse"
            )
        return f"plain least squares was not measurably biased ({value})"


def exogeneity_test(pieces: Pieces, beta: Array, sigma: Array, length: int) -> Exogeneity:
    """Test whether the regressor of rows with instruments is unrelated to the residual.

    A score test: sums of v times the residual of least squares, both freed of the columns of W,
    over blocks of `length` samples, several times the memory of the residuals. Under exogeneity
    they have mean zero. An estimate beta (b,) gives the directions their weights; sigma (n,) is the
    noise of each joint.
    """
    with single_thread():
        factor, torque = _factor(pieces, beta, sigma)
        size, count = len(beta), len(sigma)
        inverse, _ = pseudo_inverse(factor[:size, :size])
        along, right = inverse @ factor[:size, size : size + count], inverse @ factor[:size, -1]
        left = np.linalg.norm(factor[size : size + count, size : size + count], axis=0)
        shown = np.flatnonzero(left > ROUNDING * torque)
        if not len(shown):
            return Exogeneity(0.0, (0, 0), 1.0)

        def scores() -> Iterator[tuple[Array, bool]]:
            for piece in pieces():
                W = piece.W / sigma[:, None]
                residual = piece.y / sigma - W @ right
                # v of a joint has rows of that joint only; its projection on W has rows of all
                free = np.einsum("kij,jm->kim", W, -along[:, shown])
                free[:, shown, range(len(shown))] += (
                    ((piece.W - piece.instruments) @ beta) / sigma
                )[:, shown]
                parts = (
                    np.einsum("kim,ki->km", free, residual),
                    np.einsum("kij,ki->kj", W, residual),
                    np.einsum("kim,kij->kmj", free, W).reshape(len(W), -1),
                )
                yield np.hstack(parts), not piece.first

        sums = block_sums(scores(), length)
        own, pull, leak = np.split(sums, [len(shown), len(shown) + size], axis=1)
        leak = leak.reshape(len(own), len(shown), size) @ (inverse @ inverse.T)
        if len(own) < 3 * len(
            shown
        ):  # too few blocks for one direction a joint: all joints together
            own, leak = own.sum(axis=1, keepdims=True), leak.sum(axis=1, keepdims=True)
        return _mean_is_zero(own, pull, leak)


def _mean_is_zero(sums: Array, pull: Array, leak: Array) -> Exogeneity:
    """Test that independent rows (K, m) have mean zero, whatever the size of each.

    Under that hypothesis the sign of a row says nothing: Hotelling's statistic is compared with
    those of the same rows with signs drawn at random. Unlike the F distribution this needs no rows
    of equal size, and here a few blocks, where joints reverse, weigh most. Rows are sums of
    residuals of a fit, not of noise: residuals with other signs pull the fit elsewhere (K, b), and
    that leaks into all rows (K, m, b). Without it the test would reject too rarely where noise has
    a memory, which the fit takes up more of.
    """
    count, size = sums.shape
    if count <= size:
        return Exogeneity(0.0, (0, 0), 1.0)
    lengths = np.maximum(np.linalg.norm(sums, axis=0), 1e-300)
    sums, leak = sums / lengths, leak / lengths[:, None]
    found = float(_statistic(sums[None])[0])
    rng, least, drawn = np.random.default_rng(0), found * (1.0 - 1e-12), 0
    for _ in range(DRAWS // AT_ONCE):
        signs = rng.choice([-1.0, 1.0], size=(AT_ONCE, count))
        again = signs[:, :, None] * sums
        if count <= MANY_BLOCKS * pull.shape[1]:
            again -= (leak.reshape(-1, pull.shape[1]) @ (signs @ pull).T).T.reshape(-1, count, size)
        drawn += int(np.sum(_statistic(again) >= least))
    p_value = (1.0 + drawn) / (DRAWS + 1.0)
    share = min(found / count, 1.0 - 1e-12)
    return Exogeneity((count - size) / size * share / (1.0 - share), (size, count - size), p_value)


def _statistic(rows: Array) -> Array:
    """Return sᵀ (SᵀS)⁻¹ s of sums s of rows S (draws, K, m), at most K."""
    total = rows.sum(axis=1)
    gram = np.einsum("dki,dkj->dij", rows, rows)
    gram += 1e-12 * np.trace(gram, axis1=1, axis2=2)[:, None, None] * np.eye(rows.shape[2])
    return np.asarray(np.einsum("di,di->d", total, np.linalg.solve(gram, total[..., None])[..., 0]))


def _factor(pieces: Pieces, beta: Array, sigma: Array) -> tuple[Array, Array]:
    """Triangle of [W | V | y] with a column of V for each joint, and each joint's torque (root of
    the squares' sum).
    """
    size, count = len(beta), len(sigma)
    factor = np.zeros((0, size + count + 1))
    squares = np.zeros(count)
    for piece in pieces():
        rows = np.zeros((*piece.y.shape, size + count + 1))
        rows[..., :size] = piece.W
        v = (piece.W - piece.instruments) @ beta
        rows[:, range(count), range(size, size + count)] = v
        rows[..., -1] = piece.y
        rows /= sigma[:, None]
        squares += np.sum((piece.y / sigma) ** 2, axis=0)
        factor = triangle_of(np.concatenate([factor, rows.reshape(-1, size + count + 1)]))
    return factor, np.sqrt(squares)
