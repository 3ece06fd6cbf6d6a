"""What several logs or robots share, and friction that each has of its own, from the triangle of
each alone.

With (R_k, z_k) what member k says of all base parameters, in noise variances,

    Σ_k ‖R_k (shared, f_k) - z_k‖² + ‖S^-½ (f_k - f - g w_k)‖²

is what all say of the shared parameters, of the mean f and, where members have offsets w_k (of
their temperatures), of the slope g. The friction f_k of a member is eliminated from its own rows
and those that pull it to the mean, so that a thousand members take a thousand small factorizations.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from minidyn.arrays import Array, covariance_root, left_open, of_roots
from minidyn.base.base_map import BaseMap
from minidyn.errors import Unsupported
from minidyn.identification.estimators import solve
from minidyn.identification.rows.triangles import triangle_of
from minidyn.model.drives import FRICTION, NON_NEGATIVE, POSITION_TERMS, TERMS

ALIKE = 4
"""Members that the spread of the same friction in other joints counts for."""

_LEAST = 1e-3  # of the typical size of a friction parameter: less spread is none
_FAINT = (
    1e-9  # weight of the mean where the spread is not known yet: it decides nothing that data show
)
_HELD = 64  # blocks of rows that are held before they are reduced


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


class Joined:
    """All members together, each given by its form (R (r, b), z (r,)).

    Unknowns of all are the slope of friction where the offsets (L,) are not all zero, m, then all
    base parameters, b.
    """

    def __init__(
        self, split: Split, forms: Sequence[tuple[Array, Array]], spread: Array, offsets: Array
    ) -> None:
        self.split, self.forms, self.offsets = split, forms, offsets
        m = len(split.own)
        self.lead = m if np.any(offsets) else 0
        size = self.lead + m + len(split.shared)
        self.weight = np.where(np.isfinite(spread), 1.0 / np.maximum(spread, 1e-300), _FAINT)
        self.tops: list[
            Array
        ] = []  # of each member the rows (m, m + size + 1) that give its friction
        left = [np.zeros((1, size + 1))]
        for k, (_, z) in enumerate(forms):
            rows = np.vstack(
                [np.column_stack([self._measured(k), z]), np.pad(self._pulls(k), ((0, 0), (0, 1)))]
            )
            found = triangle_of(rows)
            self.tops.append(found[:m])
            left.append(found[m:, m:])
            if len(left) > _HELD:
                left = [triangle_of(np.vstack(left))]
        found = triangle_of(np.vstack(left))
        self.triangle = np.pad(
            found, ((0, max(0, size + 1 - len(found))), (0, 0))
        )  # of the right side, too

    def _measured(self, k: int) -> Array:
        """Return the rows of a member: columns of its friction, then of what all have in common."""
        R, m, size = (
            self.forms[k][0],
            len(self.split.own),
            len(self.split.own) + len(self.split.shared),
        )
        rows = np.zeros((len(R), m + self.lead + size))
        rows[:, :m] = R[:, self.split.own]
        rows[:, [m + self.lead + j for j in self.split.shared]] = R[:, self.split.shared]
        return rows

    def _pulls(self, k: int) -> Array:
        """Return the rows (m, m + lead + b) that pull the friction of a member to the mean."""
        m, size = len(self.split.own), len(self.split.own) + len(self.split.shared)
        rows, places = np.zeros((m, m + self.lead + size)), np.arange(m)
        rows[places, places] = self.weight
        if self.lead:
            rows[places, m + places] = -self.weight * self.offsets[k]
        rows[places, [m + self.lead + j for j in self.split.own]] = -self.weight
        return rows

    @property
    def form(self) -> tuple[Array, Array, float]:
        """R (b, b), z (b,) and rest of the base parameters, friction of the members eliminated."""
        part = self.triangle[self.lead :, self.lead :]
        return part[:-1, :-1], part[:-1, -1], float(part[-1, -1] ** 2)

    def _solved(self, rows: Array, count: int) -> tuple[Array, Array]:
        """Return (a, B): the first unknowns of rows are a + B others."""
        inverse = solve.pseudo_inverse(rows[:, :count])[0]
        return inverse @ rows[:, -1], -(inverse @ rows[:, count:-1])

    def friction(self) -> tuple[Array, Array]:
        """Return (a (L, m), B (L, m, b)): the friction of the members is a + B beta.

        The slope may follow.
        """
        slope, by_beta = self._solved(self.triangle[: self.lead], self.lead)
        made = [self._solved(top, len(self.split.own)) for top in self.tops]
        constant = [a + B[:, : self.lead] @ slope for a, B in made]
        change = [B[:, self.lead :] + B[:, : self.lead] @ by_beta for _, B in made]
        return (
            np.array([*constant, slope] if self.lead else constant),
            np.array([*change, by_beta] if self.lead else change),
        )

    def slope(self, beta: Array) -> Array:
        """Return the slope (m,) of friction over the offsets; zeros where there are none."""
        a, B = self._solved(self.triangle[: self.lead], self.lead)
        return np.asarray(a + B @ beta) if self.lead else np.zeros(len(self.split.own))

    def covariance(self, parts: Sequence[Array]) -> Array:
        """Return the covariance (b, b) of the base parameters from those (b, b) of each member
        alone.
        """
        m = len(self.split.own)
        size, pulls = len(self.triangle) - 1, list[Array]()
        inverse, is_open = solve.pseudo_inverse(self.triangle[:-1, :-1])
        bread = inverse @ inverse.T
        for k, (top, own) in enumerate(zip(self.tops, parts)):
            R = self.forms[k][0]
            follows = np.vstack([self._solved(top, m)[1], np.eye(size)])
            moved, pulled = R.T @ (self._measured(k) @ follows), self._pulls(k) @ follows
            # what a member does not show it does not pull
            pulls += [bread @ (moved.T @ covariance_root(own)), bread @ pulled.T]
        whole = of_roots(*(pull[self.lead :] for pull in pulls))
        return left_open(whole, is_open[self.lead :])


def spread_of(split: Split, parts: Sequence[Member], joint: Joined) -> Array:
    """Return the standard deviation (m,) of friction between members.

    What the noise of each does not explain.
    """
    R, z, _ = joint.form
    beta = solve.pseudo_inverse(R)[0] @ z
    found, own = np.zeros((len(parts), len(split.own))), list(split.own)
    noise = np.zeros_like(found)
    for k, part in enumerate(parts):
        right = part.z - part.R[:, split.shared] @ beta[list(split.shared)]
        inverse, _ = solve.pseudo_inverse(part.R[:, own])
        found[k] = inverse @ right
        noise[k] = np.diag(part.covariance)[own]
    size = np.sqrt(np.mean(found**2, axis=0))
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
    for kind in dict.fromkeys(kinds):
        alike = [k for k, other in enumerate(kinds) if other == kind]
        if free[alike].any():
            ratio = np.average(variance[alike] / scale[alike] ** 2, weights=free[alike])
            pooled = free[alike] * variance[alike] + ALIKE * ratio * scale[alike] ** 2
            # Student's: the spread itself is known by so many degrees of freedom
            variance[alike] = pooled / (free[alike] + ALIKE - 2)
    return np.asarray(np.maximum(np.sqrt(variance), _LEAST * scale), dtype=float)
