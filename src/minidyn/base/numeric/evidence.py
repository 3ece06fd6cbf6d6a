"""What the number and the choice of base parameters rest on: the values of Gautier's Tables II and
III.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from minidyn.arrays import Array, frozen, single_thread
from minidyn.base.check import places_of
from minidyn.base.numeric.own_rows import OwnRegressor
from minidyn.base.numeric.rank import rank_of
from minidyn.base.numeric.samples import observe
from minidyn.base.rows import MODELS
from minidyn.display import COLOURS, DisplayTable, new_figure
from minidyn.text import plot_label

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame

    from minidyn.base.base_map import BaseMap


@dataclass(frozen=True, eq=False)
class RankEvidence:
    """Values of two decompositions of an observation matrix W (r, c), columns scaled, those that
    are zero left out.

    Whatever the method of the map, they are computed in floating point at random states of the
    geometry as written.

    Attributes:
        base: The map.
        columns: Names of the c parameters whose columns are not zero, in storage order.
        zero: Names of those whose columns are zero.
        T: |T_ii| (c,) of QR with column pivoting, largest first: how many are above the threshold
            is the rank.
        pivots: Names of the parameters in the order in which pivoting takes them (c).
        singular: Singular values σ_i (c,), largest first: the same.
        R: |R_ii| (c,) of QR in storage order: what is left of each column after those before it;
            zero: regrouped.
        V2: Right singular vectors of the zero singular values (c, c - b): a row of zeros is a
            parameter that is identifiable by itself.
        lengths: Of the columns before they were scaled, in the robot's own units, the longest 1.
            Geometry that is nearly special has very short ones.
        N: Random numbers, one for each regrouped parameter.
        threshold: Values up to this one count as zero.
        rank: How many T_ii are above it.
        gap: Smallest value above over largest value below, the smaller one of QR and SVD.
    """

    base: BaseMap
    columns: tuple[str, ...]
    zero: tuple[str, ...]
    T: Array
    pivots: tuple[str, ...]
    singular: Array
    R: Array
    V2: Array
    lengths: Array
    N: Array
    threshold: float
    rank: int
    gap: float

    @cached_property
    def V2N(self) -> Array:
        """V2 times random numbers (c,), as in Table II.

        Zero for parameters that are identifiable by themselves.
        """
        return frozen(self.V2 @ np.resize(self.N, self.V2.shape[1]))

    @cached_property
    def betaN(self) -> Array:
        """K times random numbers (b,), as in Table III.

        Zero for kept parameters that no other joins.
        """
        return frozen(self.base.K @ self.N)

    @property
    def clear(self) -> bool:
        """Whether floating point sees as many base parameters as the map has."""
        return self.rank == self.base.rank

    @property
    def table(self) -> DisplayTable:
        """Table II: one row for each column of W."""
        kept = {*self.base.kept}
        columns = {
            "i": list(range(1, len(self.columns) + 1)),
            "|T_ii|": self.T.tolist(),
            "σ_i": self.singular.tolist(),
            "X_i": self.columns,
            "|R_ii|": self.R.tolist(),
            "V2 N": self.V2N.tolist(),
            "length": self.lengths.tolist(),
            "status": [
                self.base.statuses[name] if name in kept else "regrouped" for name in self.columns
            ],
        }
        return DisplayTable(repr(self), columns)

    @property
    def base_table(self) -> DisplayTable:
        """Table III: one row for each base parameter.

        Its leading parameter X, β N, and its value X_B.
        """
        robot = self.base.robot
        own = robot.parameters[list(robot.layout.indices(self.base.kept))]
        columns = {
            "base parameter": self.base.names,
            "β N": self.betaN.tolist(),
            "X": own.tolist(),
            "X_B": self.base.known_values.tolist(),
        }
        return DisplayTable(f"Base parameters of {robot.name}", columns)

    def to_pandas(self) -> DataFrame:
        """Return Table II as a pandas frame."""
        return self.table.to_pandas()

    def to_json(self) -> dict[str, Any]:
        """Return all values as plain lists, numbers and text for `json.dump`."""
        return {
            "rank": self.rank,
            "gap": self.gap if np.isfinite(self.gap) else None,
            "threshold": self.threshold,
            "columns": list(self.columns),
            "zero": list(self.zero),
            "T": self.T.tolist(),
            "pivots": list(self.pivots),
            "singular": self.singular.tolist(),
            "R": self.R.tolist(),
            "V2": self.V2.tolist(),
            "lengths": self.lengths.tolist(),
            "N": self.N.tolist(),
            "V2N": self.V2N.tolist(),
            "betaN": self.betaN.tolist(),
        }

    def plot(self) -> Figure:
        """Return a matplotlib figure.

        T_ii and σ_i with their gap above, R_ii of each parameter below.
        """
        wide = max(8.0, 0.17 * len(self.columns) + 2.5)
        figure, (above, below) = new_figure(repr(self), 2, 2.6, width=wide)
        place = np.arange(1, len(self.columns) + 1)
        least = 1e-18  # where exact zeros are drawn
        above.semilogy(
            place, np.maximum(self.T, least), "o-", ms=3, lw=0.8, color=COLOURS[0], label="|T_ii|"
        )
        above.semilogy(
            place,
            np.maximum(self.singular, least),
            "s-",
            ms=3,
            lw=0.8,
            color=COLOURS[1],
            label="σ_i",
        )
        above.axvline(self.base.rank + 0.5, color="#888888", lw=0.8, ls="--")
        above.set_ylabel(f"QR with pivoting, SVD\nb = {self.base.rank}")
        above.tick_params(labelbottom=True)
        kept = np.isin(self.columns, self.base.kept)
        for which, colour, label in ((kept, COLOURS[0], "kept"), (~kept, COLOURS[4], "regrouped")):
            below.semilogy(
                place[which], np.maximum(self.R[which], least), "o", ms=4, color=colour, label=label
            )
        below.set_ylabel("|R_ii|, QR in storage order")
        below.set_xticks(
            place, [plot_label(name, 16) for name in self.columns], rotation=90, fontsize=7
        )
        below.tick_params(labelbottom=True)
        above.tick_params(labelbottom=False)
        for axis in (above, below):
            axis.axhline(self.threshold, color=COLOURS[7], lw=0.8, ls=":", label="rounding")
            axis.legend(loc="lower left", fontsize=8)
        return figure

    def _repr_html_(self) -> str:
        return self.table.to_html()

    def __repr__(self) -> str:
        found = f"rank {self.rank} of {len(self.columns)} columns, gap {self.gap:.1e}"
        agreed = "" if self.clear else f"; the map has {self.base.rank}"
        return f"RankEvidence({self.base.robot.name!r}, {self.base.model}: {found}{agreed})"


def evidence_of(base: BaseMap, seed: int = 0) -> RankEvidence:
    """Return the values that a map's number and choice rest on, at random states.

    Implements: Gautier1991 Table II, Table III.
    """
    import scipy.linalg  # noqa: F401  (brings a BLAS of its own, which must be there to be limited)

    robot = base.robot
    with single_thread():
        if isinstance(robot, OwnRegressor):
            observation = robot.observation
        else:
            moving, observed = places_of(base)
            observation = observe(
                robot, base.model, seed, None if base.joints is None else moving, observed
            )
        names = robot.layout.names
        friction = base.model not in MODELS or MODELS[base.model].friction
        asked = np.array(
            [
                (base.columns is None or column.name in base.columns)
                and (friction or not column.is_friction)
                for column in robot.layout.columns
            ]
        )
        by_qr, by_svd = (rank_of(observation, asked, method) for method in ("qr", "svd"))
    columns = tuple(names[k] for k in by_qr.columns)
    lengths = np.linalg.norm(observation.W[:, list(by_qr.columns)], axis=0)
    N = np.random.default_rng((seed, 4)).normal(size=max(1, len(base.regrouped)))
    null = np.zeros((len(columns), 0)) if by_svd.null is None else by_svd.null
    # zeros of the structure are exact: a row of V2 that is rounding belongs to a parameter by
    # itself
    null = np.where(
        np.linalg.norm(null, axis=1, keepdims=True) > _noise(by_svd.threshold, by_svd.values),
        null,
        0.0,
    )
    return RankEvidence(
        base,
        columns,
        tuple(name for k, name in enumerate(names) if asked[k] and k not in by_qr.columns),
        _padded(by_qr.values, len(columns)),
        tuple(columns[k] for k in by_qr.pivots),
        _padded(by_svd.values, len(columns)),
        _padded(np.abs(by_qr.triangle.diagonal()), len(columns)),
        frozen(null),
        frozen(lengths / max(float(lengths.max(initial=0.0)), 1e-300)),
        frozen(N[: len(base.regrouped)]),
        by_qr.threshold,
        by_qr.rank,
        min(by_qr.gap, by_svd.gap),
    )


def _noise(threshold: float, values: Array) -> float:
    """Return the size of what rounding leaves in rows of V2."""
    above = values[values > threshold]
    return min(1e-3, 10.0 * threshold / float(above[-1])) if len(above) else 0.0


def _padded(values: Array, length: int) -> Array:
    """Return values with zeros behind: a matrix with fewer rows than columns has fewer."""
    return frozen(np.concatenate([values, np.zeros(length - len(values))]))
