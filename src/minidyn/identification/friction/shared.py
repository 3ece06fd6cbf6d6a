"""What several logs or robots share, and friction that each has of its own, from the triangle of
each alone.

With (R_k, z_k) what member k says of all base parameters, in noise variances,

    Σ_k ‖R_k (shared, f_k) - z_k‖² + ‖S^-½ (f_k - f - g w_k)‖²

is what all say of the shared parameters, of the mean f and, where members have offsets w_k (of
their temperatures), of the slope g: a problem of blocks (`problem.py`), f_k each member's own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from minidyn.arrays import Array, covariance_root, rms
from minidyn.base.base_map import BaseMap
from minidyn.errors import Unsupported
from minidyn.identification.problem import BlockProblem, Rows
from minidyn.model.drives import FRICTION, NON_NEGATIVE, POSITION_TERMS, TERMS

ALIKE = 4
"""Members that the spread of the same friction in other joints counts for."""

MIN_SPREAD = 1e-3  # rounding: of the typical size of a friction parameter: less spread is none


class Member(Protocol):
    """What one log or robot alone says: ‖R beta - z‖², and the covariance of beta (b, b)."""

    @property
    def R(self) -> Array:
        """Rows (r, b), in units of the noise."""
        ...

    @property
    def z(self) -> Array:
        """Right side (r,)."""
        ...

    @property
    def covariance(self) -> Array:
        """Of its base parameters, infinite where it does not show them."""
        ...


@dataclass(frozen=True)
class Split:
    """Which base parameters are friction of a member (m of them), which are shared (s)."""

    names: tuple[str, ...]  # of the friction parameters
    symbols: tuple[str, ...]  # of their columns
    joints: tuple[int, ...]  # whose drives
    own: tuple[int, ...]  # where they are
    shared: tuple[int, ...]

    @classmethod
    def of(cls, base: BaseMap) -> Split:
        """Split the parameters of a base map: springs are shared."""
        if base.mixing is not None:
            raise Unsupported(
                "friction of its own needs base parameters with friction of their own: leave base "
                "out"
            )
        springs = {TERMS[name].symbol for name in POSITION_TERMS if name != "load"}
        layout = base.robot.layout
        columns = [layout.column(name) for name in base.kept]
        own = [
            k
            for k, column in enumerate(columns)
            if column.is_friction and column.symbol not in springs
        ]
        shared = [k for k in range(base.rank) if k not in set(own)]
        chosen = [columns[k] for k in own]
        symbols, joints = tuple(one.symbol for one in chosen), tuple(one.joint for one in chosen)
        return cls(tuple(base.kept[k] for k in own), symbols, joints, tuple(own), tuple(shared))

    def friction_rows(self, R: Array, z: Array, beta: Array) -> Rows:
        """Return rows of friction where the shared parameters are those of beta (b,)."""
        own, shared = list(self.own), list(self.shared)
        return Rows({"friction": R[:, own]}, z - R[:, shared] @ beta[shared])


class Joined(BlockProblem):
    """All members together, each given by its form (R (r, b), z (r,)).

    Unknowns of all are the slope of friction where the offsets (L,) are not all zero, m, then all
    base parameters, b.
    """

    def __init__(
        self, split: Split, forms: Sequence[tuple[Array, Array]], spread: Array, offsets: Array
    ) -> None:
        self.split, self.forms, self.offsets = split, forms, offsets
        own, m = list(split.own), len(split.own)
        # where the spread is not known yet, nothing pulls
        weight = np.diag(1.0 / np.maximum(spread, 1e-300))
        to_mean = np.zeros((m, m + len(split.shared)))
        to_mean[:, own] = -weight
        has_slope = bool(np.any(offsets))
        groups = []
        for (R, z), offset in zip(forms, offsets):
            base = R.copy()
            base[:, own] = 0.0
            pulls = {"friction": weight, "base": to_mean}
            pulls |= {"slope": -offset * weight} if has_slope else {}
            data = Rows({"friction": R[:, own], "base": base}, z)
            groups.append([data, Rows(pulls, np.zeros(m))])
        blocks = {"slope": m * has_slope, "base": m + len(split.shared)}
        super().__init__(blocks, groups, {"friction": m})

    @property
    def form(self) -> tuple[Array, Array, float]:
        """R (b, b), z (b,) and rest of the base parameters, friction of the members eliminated."""
        return self.left_to("base")

    @property
    def beta(self) -> Array:
        """The base parameters (b,), zero where they are open."""
        return self.solved(allow_open=True)["base"]

    def friction(self) -> tuple[Array, Array]:
        """Return (a (L, m), B (L, m, b)): the friction of the members is a + B beta.

        The slope may follow.
        """
        slope, by_beta = self.before("base")
        m = self.places["slope"].stop
        made = [(a + B[:, :m] @ slope, B[:, m:] + B[:, :m] @ by_beta) for a, B in self.own]
        made += [(slope, by_beta)] if m else []
        return np.array([a for a, _ in made]), np.array([B for _, B in made])

    def slope(self, beta: Array) -> Array:
        """Return the slope (m,) of friction over the offsets; zeros where there are none."""
        a, B = self.before("base")
        return np.asarray(a + B @ beta) if len(a) else np.zeros(len(self.split.own))

    def covariance(self, parts: Sequence[Array]) -> Array:
        """Return the covariance (b, b) of the base parameters from those (b, b) of each member
        alone.
        """
        # what a member does not show it does not pull
        errors = [R @ covariance_root(own) for (R, _), own in zip(self.forms, parts)]
        place = self.places["base"]
        return super().covariance(errors)[place, place]


def spread_of(split: Split, parts: Sequence[Member], joint: Joined) -> Array:
    """Return the standard deviation (m,) of friction between members.

    What the noise of each does not explain.
    """
    beta, own = joint.beta, list(split.own)
    alone = [BlockProblem.of(split.friction_rows(part.R, part.z, beta)) for part in parts]
    found = np.array([problem.solved(allow_open=True).x for problem in alone])
    noise = np.array([np.diag(part.covariance)[own] for part in parts])
    size = rms(found)
    # kinds vary alike, in proportion to dry friction or themselves
    dry = {
        split.joints[k]: size[k]
        for k, symbol in enumerate(split.symbols)
        if symbol == FRICTION["coulomb"]
    }
    signed = [symbol not in NON_NEGATIVE for symbol in split.symbols]
    scale = np.array(
        [dry.get(joint, size[k]) if signed[k] else size[k] for k, joint in enumerate(split.joints)]
    )
    return pooled_spread(found, noise, joint.offsets, split.symbols, np.maximum(scale, 1e-12))


def alike(kinds: Sequence[str]) -> dict[str, list[int]]:
    """Return the places of each kind, in the order in which kinds come."""
    return {kind: [k for k, other in enumerate(kinds) if other == kind] for kind in kinds}


def pooled_spread(
    found: Array, noise: Array, offsets: Array, kinds: Sequence[str], scale: Array
) -> Array:
    """Return the standard deviation (m,) between values (L, m) of members, beside the variances (L,
    m) of their noise.

    Lines over offsets (L,) that are not all zero are taken off. Few members say little of one
    value: those of one kind vary alike, in proportion to their scale (m,).
    """
    # a member that hardly shows a value says nothing of how it varies
    sharp = np.isfinite(noise) & (noise < np.maximum(4 * np.median(noise, axis=0), 1e-300))
    variance, free = np.zeros(found.shape[1]), np.zeros(found.shape[1])
    for j in range(found.shape[1]):
        values, errors = found[sharp[:, j], j], noise[sharp[:, j], j]
        warm = offsets[sharp[:, j]]
        line = np.column_stack([np.ones(len(values)), warm])[:, : 1 + bool(np.any(warm))]
        free[j] = max(0, len(values) - line.shape[1])
        if free[j]:
            left = values - line @ np.linalg.lstsq(line, values, rcond=None)[0]
            variance[j] = max(0.0, float(left @ left / free[j] - np.mean(errors)))
    for same in alike(kinds).values():
        if free[same].any():
            ratio = np.average(variance[same] / scale[same] ** 2, weights=free[same])
            pooled = free[same] * variance[same] + ALIKE * ratio * scale[same] ** 2
            # Student's: the spread itself is known by so many degrees of freedom
            variance[same] = pooled / (free[same] + ALIKE - 2)
    return np.asarray(np.maximum(np.sqrt(variance), MIN_SPREAD * scale), dtype=float)
