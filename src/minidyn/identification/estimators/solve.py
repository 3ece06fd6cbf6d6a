"""Least squares on triangles.

The solution, what stays open, folds over time, and covariances that believe the data. Residuals of
neighbouring samples are alike (friction, vibration, filters) or undo each other (differences of
noisy positions), and the textbook covariance is too small, or too large, by the number of samples
that repeat each other. Sums of scores over blocks of time longer than that memory are independent
again, and their spread is what counts: a cluster-robust, or batch-means, estimate.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from minidyn.arrays import Array
from minidyn.base.base_map import BaseMap
from minidyn.dynamics.functions import inertias_of_links, torques_by_parts
from minidyn.dynamics.record import STATES
from minidyn.errors import MinidynError
from minidyn.identification.estimators.method import Fold, Solution
from minidyn.identification.rows.base_rows import remembering
from minidyn.identification.rows.triangles import Triangles, joined, parts_of
from minidyn.model.robot import Robot
from minidyn.recording.lazy import AnyRecording
from minidyn.recording.prepare.signals import noise_gain
from minidyn.recording.recording import SIGNALS, Recording

_OPEN = 1e-12  # singular values of the scaled problem below this part of the largest are rounding
_SHOWN = 6
_BLOCKS = 30
_UNSEEN = 0.6  # power of the variance between stretches that blocks within them have not seen
_POSITIONS = 50  # at which inertias are looked at
_LOOKED_AT, _STRETCHES = (
    20_000,
    8,
)  # samples, enough to see how torques scatter; of logs on disk, in so many stretches
_ROUNDING = 1e-11  # of the longest column: a shorter one vanishes
_GROWTH, _SINKING = (
    1.15,
    1.3,
)  # changes of the variances below which longer blocks are not worth their scatter


class Unknowns(Protocol):
    """What a problem is solved for: base parameters, or these and more."""

    @property
    def names(self) -> tuple[str, ...]:
        """Their names."""

    @property
    def rank(self) -> int:
        """How many there are."""


def unit_columns(R: Array) -> tuple[Array, Array]:
    """Return R with columns scaled to unit length, so that units do not decide what is open, and
    their lengths.
    """
    scale = np.linalg.norm(R, axis=0)
    scale = np.where(scale > 0, scale, 1.0)
    return R / scale, scale


def pseudo_inverse(R: Array) -> tuple[Array, NDArray[np.bool_]]:
    """Return R⁺ (b, b), with open directions left at zero, and which parameters (b,) take part in
    these.
    """
    scaled, scale = unit_columns(R)
    U, s, Vt = np.linalg.svd(scaled)
    shown = s > _OPEN * s.max(initial=0.0)
    inverse = (Vt[shown].T / s[shown]) @ U[:, : len(s)][:, shown].T / scale[:, None]
    taking_part = np.abs(Vt[~shown]).max(axis=0, initial=0.0) > 1e-6
    return np.asarray(inverse), np.asarray(taking_part)


def describe_open(R: Array, base: BaseMap) -> str:
    """Return in words which combinations stay open; empty where none does."""
    names = [name for name, is_open in zip(base.names, pseudo_inverse(R)[1]) if is_open]
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


def solve(R: Array, z: Array, base: Unknowns, allow_open: bool = False) -> Array:
    """Solve R beta = z, or name the parameters that the motion does not show.

    With `allow_open` these are zero.
    """
    if not len(z):
        return np.zeros(0)
    if allow_open:
        return np.asarray(pseudo_inverse(R)[0] @ z, dtype=float)
    silent = [name for name, column in zip(base.names, R.T) if not np.any(column)]
    if silent:
        raise MinidynError(
            f"the recording does not excite {', '.join(silent[:_SHOWN])}: every joint must move"
        )
    scaled, _ = unit_columns(R)
    singular = np.linalg.svd(scaled, compute_uv=False)
    if singular[-1] < _OPEN * singular[0]:
        weakest = np.abs(np.linalg.svd(scaled)[2][-1])
        names = ", ".join(base.names[k] for k in np.argsort(-weakest)[:4])
        raise MinidynError(
            f"the recording does not determine all {base.rank} base parameters: a combination of "
            f"{names} stays open; record a motion in which more joints move, faster and further"
        )
    return np.asarray(solve_triangular(R, z), dtype=float)


def condition_of(R: Array) -> float:
    """Condition number of the problem with columns scaled to unit length."""
    if not len(R):
        return 1.0
    singular = np.linalg.svd(unit_columns(R)[0], compute_uv=False)
    return (
        float(singular[0] / singular[-1])
        if singular[-1] > 0 and np.all(np.any(R, axis=0))
        else float("inf")
    )


def form_of(F: Array, size: int) -> tuple[Array, Array, float]:
    """Return (R, z, rest) of a fit from the triangle F of rows [X | y], or [Z | X | y] with
    instruments.
    """
    if F.shape[1] == size + 1:
        return parts_of(F)
    Q, R = np.linalg.qr(F[:size, size : 2 * size])
    return R, Q.T @ F[:size, 2 * size], 0.0


def folds_of(triangles: Triangles, scale: Array) -> list[Fold]:
    """Return training and validation forms for stretches of time, weighted by the scale of each
    kind of rows.
    """
    made: list[Fold] = []
    for held, part in enumerate(triangles.stretches):
        others = [stretch for number, stretch in enumerate(triangles.stretches) if number != held]
        if not others:
            continue
        size = triangles.unknowns
        R, z, _ = form_of(joined(others).together(scale), size)
        F = part.together(scale)
        if F.shape[1] > size + 1:  # instruments do not judge
            made.append((R, z, F[:size, size : 2 * size], F[:size, 2 * size], 0.0))
        else:
            made.append((R, z, *parts_of(F)))
    return made


def repeated_variance(folds: Sequence[Fold]) -> float:
    """Return the noise variance that stretches of time show when they foretell each other, at
    least 1.

    What the model lacks is the same within a stretch and another in the next: beside that, noise is
    small.
    """
    found = expected = 0.0
    for R, z, R_test, z_test, _ in folds:
        inverse, _ = pseudo_inverse(R)
        found += float(np.sum((R_test @ (inverse @ z) - z_test) ** 2))
        expected += len(z_test) + float(np.sum((R_test @ inverse) ** 2))
    return max(1.0, found / expected) if expected > 0 else 1.0


def with_model_error(found: Solution, lacks: tuple[Array, Array] | None = None) -> Solution:
    """Return a solution whose covariance holds what the model lacks.

    What another run of the robot would show. Sums over blocks hold errors that last as long as a
    block. What friction lacks goes on with the motion: it pulls the parameters of this run one way
    and those of the next another, and one run has one of each. But its stretches differ, too. By
    how much they foretell each other worse than noise explains is `repeated_variance`, a part of
    which blocks have seen already. The root of it is left over for presliding, Stribeck friction
    and ripple that a model lacks, and next to nothing for models that lack nothing
    (benchmarks/between_runs.py). Where it is known what the model lacks, by how much that pulls
    parameters (b,) and what part of their variances (b,) is left without it, the square of the pull
    is added instead: mean squares of an error are its variance and the square of its bias. Blocks
    have seen it, and it does not count twice. Motions decide how large it is, so it is the log's
    own.
    """
    known = lacks is not None and bool(np.any(lacks[0]))
    factor = 1.0 if known else repeated_variance(found.folds()) ** _UNSEEN
    covariance = found.covariance * factor
    if lacks is not None and known:
        left = np.sqrt(lacks[1])
        covariance = covariance * np.outer(left, left) + np.outer(lacks[0], lacks[0])
    return replace(found, covariance=covariance, record={**found.record, "model_error": factor})


def noise_torque(robot: Robot, recording: AnyRecording, q: Array, parameters: Array) -> Array:
    """Return the torque (n,), N m or N, that noise of positions makes of the robot's links by the
    accelerations.

    Root mean squares, at some of the positions q (N, n), for parameters (p,), NaN where unknown;
    zeros where it is not known how the recording was prepared.
    """
    about: Any = recording.info
    known = ("differentiated", "position_noise", "logged_rate", "cutoff", "order")
    if not all(about.get(name) for name in known):
        return np.zeros(robot.n)
    gain = noise_gain(about["logged_rate"], about["cutoff"], about["order"])[2, 2]
    M = inertias_of_links(robot, q[:: -(-len(q) // _POSITIONS)], np.nan_to_num(parameters))
    return np.asarray(np.sqrt(np.mean(M**2 @ (gain * np.square(about["position_noise"])), axis=0)))


SCATTER = "torque_std"
"""Setting of an estimate.

Standard deviations (n,) of "measured" and of "low_passed" torques about its model.
"""


def torque_scatter(
    recording: AnyRecording,
    low: Robot,
    whole: Robot,
    sigma: Array,
    spent: int,
    drifts: bool = False,
    held_out: Array | float = 1.0,
) -> dict[str, Any]:
    """Return, as a setting, by how much torques of the fitted recording scatter about the model
    (n,), N m or N.

    A measured torque has what the low-pass of the preparation takes off: noise, and sharp friction
    and ripple, which the model has, too, as far as it knows them. So both residuals are looked at:
    measured torque less that of the model (`whole`), and low-passed torque less that of the model
    seen through the low-pass (`low`); so many parameters are `spent` on them, and spikes do not
    count. Both variances grow by what `held_out` stretches of the fit have over residuals, which is
    slow, so that the low-pass takes nothing off it. Where friction drifts between logs, the
    residual with the friction of each is `sigma`, and what both residuals with the mean differ by
    is added to it. Of logs on disk, measured torques are not kept: what the low-pass takes off some
    stretches (`torque_noise`) is added, less what the model has of it.
    Nothing is known, {}, where torques came low-passed.
    """
    about: Any = recording.info
    above = about.get("torque_noise")
    some = recording
    if not isinstance(some, Recording):
        some = some.spread(_STRETCHES, _LOOKED_AT // _STRETCHES).load()
    known = remembering(whole, some).thinned(max(1, len(some) // _LOOKED_AT))
    raw = known.telemetry.get("tau_raw", None if "cutoff" in about else known.tau)
    if known.ddq is None or (raw is None and above is None):
        return {}
    good = np.flatnonzero(known.telemetry.get("outlier", np.zeros(len(known))) == 0.0)
    q, dq, ddq, tau = (np.asarray(getattr(known, name))[good] for name in SIGNALS)
    states = known.telemetry.get(STATES)
    states = None if states is None else states[good]
    model, shown = torques_by_parts((whole, low), q, dq, ddq, states)

    def squares(values: Array) -> Array:
        return np.asarray(np.mean(values**2, axis=0))

    if raw is None:
        more = np.maximum(np.square(above) - squares(model - shown), 0.0)
        return {
            SCATTER: {
                "measured": np.sqrt(held_out * sigma**2 + more),
                "low_passed": np.sqrt(held_out) * sigma,
            }
        }
    free = len(recording) / max(1.0, len(recording) - spent / len(sigma))
    measured, smooth = free * squares(raw[good] - model), free * squares(tau - shown)
    if drifts:
        measured, smooth = np.maximum(sigma**2 + measured - smooth, 0.0), sigma**2
    measured, smooth = measured + (held_out - 1.0) * smooth, held_out * smooth
    measured = measured + squares(
        known.telemetry.get("tau_std", np.zeros_like(tau))
    )  # over periods that were averaged
    return {SCATTER: {"measured": np.sqrt(measured), "low_passed": np.sqrt(smooth)}}


def memory_of(residual: Array, starts: Sequence[int] = (0,)) -> Array:
    """Return for each kind of rows how many neighbours repeat each other (kinds,), at least 1.

    The longest run says. The memory is 1 + 2 Σ of the autocorrelation up to where it falls below
    0.05.
    """
    edges = [*starts, len(residual)]
    longest = int(np.argmax(np.diff(edges)))
    part = residual[edges[longest] : edges[longest + 1]]
    if len(part) < 2:
        return np.ones(residual.shape[1])
    lags = len(part) // 4
    centred = np.ascontiguousarray((part - part.mean(axis=0)).T)
    power = np.einsum("ij,ij->i", centred, centred)
    spectrum = np.abs(np.fft.rfft(centred, 2 * len(part))) ** 2
    correlation = np.fft.irfft(spectrum)[:, : lags + 1] / np.where(power > 0, power, 1.0)[:, None]
    before = np.logical_and.accumulate(correlation >= 0.05, axis=1)
    below = np.where(before.all(axis=1), lags, before.sum(axis=1))
    memory = np.ones(residual.shape[1])
    for kind in np.flatnonzero(power > 0):
        memory[kind] = max(1.0, 1.0 + 2.0 * float(np.sum(correlation[kind, 1 : below[kind] + 1])))
    return memory


def block_length(residual: Array, t: Array, rows: int) -> tuple[int, float]:
    """Return (rows, seconds) of a block.

    Ten times the memory of the residuals (K, kinds) of the longest stretch. Its times are t (K,);
    all stretches together have so many rows of one kind.
    """
    memory = float(memory_of(residual).max(initial=1.0))
    step = float(np.median(np.diff(t))) if len(t) > 1 else 0.0
    # at least twenty rows; but at least thirty blocks, or the spread of their sums says little
    length = max(1, min(int(max(20, np.ceil(10 * memory))), rows // _BLOCKS))
    return length, length * step


def block_sums(
    scores: Iterable[tuple[Array, bool]], length: int, *, join: bool = True, last: bool = True
) -> Array:
    """Sum scores (K, b) over blocks of `length` rows: (blocks, b).

    Blocks end where a piece does not follow the last. A rest of less than half a block joins the
    block before; without `join` it is a block of its own, but for the last one, which is left out
    where these scores are the `last` of a recording.
    """
    sums: list[Array] = []
    current, filled, begun = np.zeros(0), 0, 0

    def close(last: bool) -> None:
        nonlocal filled, begun
        short = filled < (length + 1) // 2 if join else last and filled <= length // 2
        if filled and not (short and (len(sums) > begun if join else sums)):
            sums.append(current)
        elif filled and join:
            sums[-1] = sums[-1] + current
        filled, begun = 0, len(sums)

    for part, follows in scores:
        if not follows:
            close(False)
        if not len(part):
            continue
        added = np.add.reduceat(part, [0, *range(length - filled, len(part), length)], axis=0)
        if filled:
            added[0] += current
        filled = (filled + len(part)) % length
        sums.extend(added if filled == 0 else added[:-1])
        current = added[-1]
    close(last)
    if not sums:
        raise MinidynError("identification needs samples; filters leave none of the recording")
    return np.stack(sums)


def alike_blocks(spread: Array) -> Array:
    """Return how many blocks carry each parameter in effect (b,), at least 6, of their pulls s on
    it (b, blocks).

    Fourth powers say: 3 (Σ s²)² / Σ s⁴, which is their number for normal sums of equal size.
    """
    squares = spread**2
    alike = 3.0 * squares.sum(axis=1) ** 2 / np.maximum((squares**2).sum(axis=1), 1e-300)
    return np.asarray(np.clip(alike, 6.0, max(spread.shape[1], 6.0)))


def few_blocks(spread: Array) -> Array:
    """Return what standard deviations (b,) are to be multiplied by where few blocks carry a
    parameter.

    Blocks are not alike: those that move most decide a parameter, and what was fitted follows them
    more than others, so that their residuals are too small. Pulls are (b, blocks).
    """
    alike = alike_blocks(spread)
    return np.asarray(np.sqrt(alike / (alike - 3.0)))


def block_covariance(
    bread: Array,
    G: Array,
    white: Array,
    rows: int,
    *,
    inflation: float = 1.0,
    least_white: bool = True,
    longer: bool = True,
) -> tuple[Array, float]:
    """Covariance (b, b) from the spread of block sums G (blocks, b) of scores, where beta moves by
    bread @ score.

    Also return the mean of its variances over those of `white`, the covariance for independent rows
    (b, b). Variances are multiplied by `inflation` and, with `least_white`, never below `white`:
    few blocks may understate them. With `longer`, neighbouring blocks are joined, two by two, as
    long as that lets the variances grow (slow errors may hide in the noise of single samples) or,
    where they may be below `white`, sink. At least thirty blocks are kept, or the spread of their
    sums says little.
    """
    free = max(1, rows - len(bread))
    found: list[tuple[float, Array]] = []
    together = 1
    while not found or (longer and len(G) >= _BLOCKS * together):
        sums = G if together == 1 else np.add.reduceat(G, np.arange(0, len(G), together), axis=0)
        spread = bread @ sums.T
        lost = np.sqrt(inflation * len(sums) / max(1, len(sums) - 1) * rows / free) * few_blocks(
            spread
        )
        clustered = np.outer(lost, lost) * (spread @ spread.T)
        found.append(
            (float(np.mean(np.diag(clustered) / np.maximum(np.diag(white), 1e-300))), clustered)
        )
        together *= 2
    largest, last = max(ratio for ratio, _ in found), found[-1][0]
    settled = (
        _GROWTH * ratio >= largest and (least_white or ratio <= _SINKING * last)
        for ratio, _ in found
    )
    ratio, clustered = next((pair for pair, use in zip(found, settled) if use), found[-1])
    if least_white:
        factor = np.sqrt(np.maximum(np.diag(white) / np.maximum(np.diag(clustered), 1e-300), 1.0))
        clustered, ratio = clustered * np.outer(factor, factor), max(ratio, 1.0)
    return np.asarray(clustered, dtype=float), ratio


def settled(blocks: Array, even: Array, alike: Array) -> Array:
    """Return a covariance (b, b) between those of blocks of time and of even noise, the latter as
    far as chance goes.

    The logarithm of a variance from so many blocks alike (b,) scatters by about sqrt(4 / alike),
    which is twice the variance of independent normal sums: neighbours and what was fitted are in
    it. Ratios of both variances that scatter more, over all constants, show that noise is not even,
    and by as much the blocks count.
    """
    one, other = (np.sqrt(np.maximum(np.diag(P), 1e-300)) for P in (even, blocks))
    ratio = other / one
    scatter = float(np.mean((2.0 * np.log(ratio)) ** 2))
    weight = max(0.0, 1.0 - float(np.mean(4.0 / alike)) / max(scatter, 1e-300))
    std = one * ratio**weight
    shape = (1.0 - weight) * even / np.outer(one, one) + weight * blocks / np.outer(other, other)
    return np.asarray(shape * np.outer(std, std))


def scaled(products: Array) -> tuple[Array, Array, Array]:
    """Return (A (f, k, k), b (f, k), scale (f, k)) of least squares with unit columns, a little
    regular.

    Products (f, k + 1, k + 1) are those of columns and, last, the right side. Columns that vanish
    are left out.
    """
    length = np.sqrt(np.maximum(np.einsum("fkk->fk", products)[:, :-1], 0.0))
    used = length > _ROUNDING * length.max(axis=1, initial=0.0)[:, None]
    scale = np.where(used, length, 1.0)
    b = products[:, :-1, -1] / scale * used
    A = (
        products[:, :-1, :-1]
        / (scale[:, :, None] * scale[:, None, :])
        * (used[:, :, None] & used[:, None, :])
    )
    places = np.arange(A.shape[1])
    A[:, places, places] += np.where(used, _ROUNDING, 1.0)
    return A, b, scale


def non_negative(A: Array, b: Array, bounded: NDArray[np.bool_]) -> Array:
    """Solve A x = b for several right sides (f, k).

    Each with its own A (f, k, k), bounded unknowns not negative. Block principal pivoting: unknowns
    that are negative leave, those whose gradient asks for it come back, all at once as long as
    their number falls, else one at a time, which cannot go round in circles.
    """
    count, size = b.shape
    x, active = np.zeros(b.shape), np.ones(b.shape, dtype=bool)
    fewest, patience = np.full(count, size + 1), np.full(count, 3)
    left = np.arange(count)
    places = np.arange(size)
    for _ in range(10 * size + 10):
        on = active[left]
        reduced = A[left] * (on[:, :, None] & on[:, None, :])
        reduced[:, places, places] += ~on
        x[left] = np.linalg.solve(reduced, (b[left] * on)[..., None])[..., 0]
        gradient = b[left] - (A[left] @ x[left][..., None])[..., 0]
        tolerance = 1e-10 * np.abs(b[left]).max(axis=1, initial=0.0)[:, None]
        wrong = bounded & np.where(on, x[left] < 0.0, gradient > tolerance)
        number = wrong.sum(axis=1)
        better = number < fewest[left]
        fewest[left] = np.where(better, number, fewest[left])
        patience[left] = np.where(better, 3, patience[left] - 1)
        for one in np.flatnonzero((patience[left] < 0) & (number > 0)):
            wrong[one, : np.flatnonzero(wrong[one])[-1]] = False
        active[left] ^= wrong
        left = left[number > 0]
        if not len(left):
            break
    return np.where(bounded, np.maximum(x, 0.0), x)
