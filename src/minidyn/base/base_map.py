"""Base parameters as values: the question, and the map that answers it.

The map says which standard parameters are kept, which join them, which have no effect.

One linear map is all there is: beta = phi[kept] + K phi[regrouped], or a nonsingular mixture of
these where a closed rule gives combinations of its own. Formulas, tables and files are made from it
when they are asked for, and never read back.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from minidyn.arrays import Array, frozen, known_product, read_only_again
from minidyn.base.check import Check, check_of
from minidyn.base.numeric.own_rows import OWN
from minidyn.base.printing import overview
from minidyn.base.printing import relations as printing
from minidyn.base.rows import MODELS
from minidyn.errors import (
    DescriptionError,
    MinidynError,
    ShapeError,
    UnknownName,
    UnknownParameters,
    Unsupported,
    first_of,
)
from minidyn.model.canonical import as_understood
from minidyn.model.geometry import TOLERANCE
from minidyn.model.parameters import Column
from minidyn.model.robot import Robot, measured_joints
from minidyn.notices import Notice, error, info

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame

    from minidyn.base.closed_form.structure import Structure
    from minidyn.base.explanation import Explanation, Explanations
    from minidyn.base.numeric.evidence import RankEvidence


FRICTION_LEFT_OUT = info(
    "base.friction_left_out",
    "The model that was asked for has no friction; friction parameters are listed as without "
    "effect.",
)
RANK_UNCLEAR = error(
    "base.rank_unclear",
    "In floating point the number of base parameters is not clear: no gap separates small values "
    "from rounding.",
    'With method "qr", "svd" or "rules+qr" use method="exact", which needs no tolerance. Check '
    "geometry that is nearly "
    "but not exactly special.",
)
CHOICE_UNCLEAR = error(
    "base.choice_unclear",
    "How many base parameters there are is clear, but not which standard parameters lead them.",
    'Use method="exact", which needs no tolerance.',
)

Order = Sequence[str] | Callable[[Column], Any]


@dataclass(frozen=True, eq=False)
class BaseMap:
    """A set of base parameters beta (b,) of a robot and how the standard ones phi (p,) make them
    up.

    Build one with :func:`minidyn.base_parameters`.

    Attributes:
        robot: The robot the map belongs to.
        method: How it was found: "exact", "qr", "svd", ...
        model: What the set determines: "torque", "gravity", "inertia", "energy" or
            "zero_speed" (as "torque", no friction).
        kept: Names of the standard parameters that lead a base parameter, in storage order (b).
        regrouped: Names of those that only act through base parameters (d).
        eliminated: Names of those that take no part; `statuses` says why.
        K: Regrouping matrix (b, d), Gautier's β: exact zeros where a parameter takes no part.
        gap: Smallest kept over largest dropped value of the rank decision; infinite where nothing
            was rounded.
        joints: Names of the independent joints that moved, None for all; the others were held in a
            general position.
        columns: Names of the parameters that were asked about, None for all.
        measured: Names of the independent joints whose torque is measured, None for all.
        motion: Some states q, dq, ddq (3, k, n) of the motion that shows the set; None: any motion.
        condition: Condition number of the kept columns along that motion, of one length each; NaN
            where no motion was given.
        notices: What a reader should know about the result.
        rows: The map (b, p) itself where base parameters are not led by one kept parameter each
            (method "mlc"): then beta = mixing (phi[kept] + K phi[regrouped]). None: mixing is the
            identity.
        labels: Names of the base parameters that go with `rows`.
        structure: What a closed-form rule found about the robot (method "mlc": r, s, delta, sigma);
            else None.
        tolerance: Axes that are special within this (rad, and share of the robot's size) are
            exactly so; see `understood`.
    """

    robot: Robot
    method: str
    model: str
    kept: tuple[str, ...]
    regrouped: tuple[str, ...]
    eliminated: tuple[str, ...]
    K: Array
    gap: float = math.inf
    joints: tuple[str, ...] | None = None
    columns: tuple[str, ...] | None = None
    notices: tuple[Notice, ...] = ()
    rows: Array | None = None
    labels: tuple[str, ...] = ()
    structure: Structure | None = None
    tolerance: float = TOLERANCE
    measured: tuple[str, ...] | None = None
    motion: Array | None = None
    condition: float = math.nan

    def __post_init__(self) -> None:
        K = frozen(self.K)
        if K.shape != (len(self.kept), len(self.regrouped)):
            raise ShapeError(
                f"K: expected shape ({len(self.kept)}, {len(self.regrouped)}), got {K.shape}"
            )
        object.__setattr__(self, "K", K)
        if self.rows is not None:
            rows = frozen(self.rows)
            if rows.shape != (len(self.kept), len(self.robot.layout)) or len(self.labels) != len(
                rows
            ):
                raise ShapeError(
                    f"rows: expected shape ({len(self.kept)}, {len(self.robot.layout)}), got "
                    f"{rows.shape}"
                )
            object.__setattr__(self, "rows", rows)
        every = (*self.kept, *self.regrouped, *self.eliminated)
        if len(every) != len(self.robot.layout) or set(every) != set(self.robot.layout.names):
            raise MinidynError("a base map must name every standard parameter of its robot once")

    __setstate__ = read_only_again

    # ---------------------------------------------------------------- what it is

    @property
    def rank(self) -> int:
        """Number of base parameters b."""
        return len(self.kept)

    @cached_property
    def understood(self) -> Robot:
        """The robot that the map is exactly right for.

        Its axes are special where the file's are within the tolerance; the robot itself where
        nothing changes.
        """
        return as_understood(self.robot, self.tolerance)

    @cached_property
    def check(self) -> Check:
        """What random states say to the map.

        How well its relations hold on the robot as it was understood, and how far that robot is
        from the file.
        """
        return check_of(self)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the base parameters.

        As kept, with an R before the number of those that others join: "ZZR1". Those of a
        closed-form rule bear its names: "U33_1", "k2x", "m3".
        """
        if self.rows is not None:
            return self.labels
        columns = self.robot.layout.columns
        found = []
        for name, row in zip(self.kept, self.K):
            column = columns[self.robot.layout.index(name)]
            found.append(column.joined if np.any(row) else name)
        return tuple(found)

    @cached_property
    def matrix(self) -> Array:
        """The map (b, p) with beta = matrix @ phi, read-only."""
        if self.rows is not None:
            return self.rows
        matrix = np.zeros((self.rank, len(self.robot.layout)))
        matrix[np.arange(self.rank), self._places(self.kept)] = 1.0
        matrix[:, self._places(self.regrouped)] = self.K
        return frozen(matrix)

    @cached_property
    def mixing(self) -> Array | None:
        """Nonsingular matrix (b, b) with beta = mixing (phi[kept] + K phi[regrouped]).

        None: the identity.
        """
        return None if self.rows is None else frozen(self.rows[:, self._places(self.kept)])

    @cached_property
    def unmixing(self) -> Array | None:
        """Inverse of `mixing`, zeros exact: the base regressor is the kept columns times this.

        None: the identity.
        """
        if self.mixing is None:
            return None
        inverse = np.linalg.inv(self.mixing)
        size = np.abs(inverse)
        return frozen(np.where(size < 1e-14 * (size @ np.abs(self.mixing) @ size), 0.0, inverse))

    @cached_property
    def unchanged(self) -> tuple[str, ...]:
        """Kept parameters that no other joins: each is identifiable by itself."""
        return tuple(name for name, row in zip(self.kept, self.K) if not np.any(row))

    @cached_property
    def statuses(self) -> dict[str, str]:
        """For every standard parameter: "identifiable", "in combination" or "no effect: why"."""
        found = dict.fromkeys(self.robot.layout.names, "in combination")
        found |= dict.fromkeys(self.unchanged, "identifiable")
        return found | {
            name: f"no effect: {overview.reason(self, name)}" for name in self.eliminated
        }

    def lacks(self, need: str) -> str:
        """Return why the map does not determine something ("torque", "gravity", "inertia",
        "energy"); "": it does.
        """
        if self.model == OWN:
            return "it is of a regressor of your own, not of a robot"
        if self.joints is not None:
            return f"it is for {', '.join(self.joints) or 'no joint'} moving alone"
        if self.measured is not None:
            return f"it is for the torques of {', '.join(self.measured)} alone"
        if self.motion is not None:
            return "it is for one motion only"
        if self.columns is not None:
            asked = self.robot.layout.indices(self.columns)
            if np.delete(self.robot.parameters, asked).any():  # zeros are known, NaN is not
                return "it is for some parameters only"
        if self.model == "torque" or self.model == need:
            return ""
        if self.model in ("gravity", "inertia"):
            return f"it is for model {self.model!r} only"
        if need == "torque" and any(column.is_friction for column in self.robot.layout.columns):
            return f"model {self.model!r} leaves friction out"
        return ""

    # ---------------------------------------------------------------- values

    @cached_property
    def known_values(self) -> Array:
        """Base parameters (b,) of the robot's own standard ones, NaN where one that enters is
        unknown.
        """
        return frozen(known_product(self.matrix, self.robot.parameters))

    def values(self, phi: ArrayLike | None = None) -> Array:
        """Return the base parameters beta (..., b) of standard ones phi (..., p).

        None: the robot's own. Parameters without effect are not read, so that they may be unknown.

        Raises:
            UnknownParameters: A parameter that matters is NaN; the message names it.

        Implements: Gautier1991 eq. (20), (28).
        """
        values = self._standard(phi)
        kept, regrouped = self._places(self.kept), self._places(self.regrouped)
        unknown: NDArray[np.bool_] = np.atleast_1d(
            np.isnan(values).reshape(-1, values.shape[-1]).any(axis=0)
        )
        missing = [self.robot.layout.names[k] for k in sorted((*kept, *regrouped)) if unknown[k]]
        if missing:
            raise UnknownParameters(
                f"base parameters of robot {self.robot.name!r} need standard parameters that are "
                f"unknown (NaN): {first_of(missing)}"
            )
        beta: Array
        if self.rows is not None:
            read = sorted((*kept, *regrouped))
            beta = values[..., read] @ self.rows[:, read].T
        else:
            beta = values[..., kept] + values[..., regrouped] @ self.K.T
        return beta

    def lift(self, beta: ArrayLike, regrouped: ArrayLike | None = None) -> Array:
        """Return a full vector phi (..., p) that has these base parameters.

        Any choice of `regrouped` gives one.

        Args:
            beta: Base parameters (..., b).
            regrouped: Values of the regrouped parameters (..., d); None: zeros. Parameters without
                effect are 0.

        Implements: Gautier1991 eq. (19).
        """
        base = np.asarray(beta, dtype=float)
        if base.ndim == 0 or base.shape[-1] != self.rank:
            raise ShapeError(f"beta: expected shape (..., {self.rank}), got {base.shape}")
        rest = (
            np.zeros(len(self.regrouped))
            if regrouped is None
            else np.asarray(regrouped, dtype=float)
        )
        if rest.ndim == 0 or rest.shape[-1] != len(self.regrouped):
            raise ShapeError(
                f"regrouped: expected shape (..., {len(self.regrouped)}), got {rest.shape}"
            )
        if self.unmixing is not None:
            base = base @ self.unmixing.T
        kept = base - rest @ self.K.T
        phi = np.zeros((*kept.shape[:-1], len(self.robot.layout)))
        phi[..., self._places(self.kept)] = kept
        phi[..., self._places(self.regrouped)] = rest
        return phi

    def minimum_norm(self, phi: ArrayLike | None = None) -> Array:
        """Return the shortest full vector (..., p) with the same base parameters as phi.

        None: the robot's own.

        Implements: Gautier1991 eq. (25) with X_a = 0.
        """
        beta = self.values(phi)
        if self.rank == 0:
            return np.zeros((*beta.shape[:-1], len(self.robot.layout)))
        # rows of `matrix` span what V1 spans; their Gram matrix (K Kᵀ + 1 where nothing is mixed)
        # is positive definite
        gram = self.matrix @ self.matrix.T
        shortest: Array = np.linalg.solve(gram, beta[..., None])[..., 0] @ self.matrix
        return shortest

    def evidence(self, seed: int = 0) -> RankEvidence:
        """Return the values that the number and the choice rest on, with `plot()`, `table` and
        `to_pandas()`.

        These are T_ii, σ_i, R_ii and V2 of Gautier's Table II, in floating point whatever the
        method was.
        """
        from minidyn.base.numeric.evidence import evidence_of  # seldom needed

        return evidence_of(self, seed)

    # ---------------------------------------------------------------- printing

    def to_pandas(self) -> DataFrame:
        """Return the base parameters as a pandas frame: name, formula, value, unit."""
        return overview.table(self).to_pandas()

    def plot(self) -> Figure:
        """Return a matplotlib figure of the map.

        Which standard parameters make up which base parameter.
        """
        return overview.plot(self)

    def _repr_html_(self) -> str:
        return overview.table(self).to_html()

    def explain(self, parameter: str) -> Explanation:
        """Return why a standard parameter is identified alone, joins others or has no effect.

        Args:
            parameter: Its name, "YY3".

        Example:
            print(md.base_parameters(md.load("puma560")).explain("YY3"))

        Raises:
            UnknownName: The robot has no such parameter.
        """
        from minidyn.base.explanation import explanation_of  # seldom needed

        return explanation_of(self, parameter)

    @property
    def explanations(self) -> Explanations:
        """Why each standard parameter acts as it does; `str()` gives them by link and reason."""
        from minidyn.base.explanation import explanations_of

        return explanations_of(self)

    def relations(self) -> tuple[printing.Relation, ...]:
        """Return every base parameter as a formula of standard ones.

        Lengths have the symbols of the robot's file, or names: a2, d3 of an mDH row, x2, y2, z2 of
        another placement; so have angles of mDH rows that are not right (alpha2). `symbols` has
        their values.
        """
        return self._relations

    @cached_property
    def _relations(self) -> tuple[printing.Relation, ...]:
        return printing.relations(self)

    @property
    def symbols(self) -> dict[str, float]:
        """Values of the symbols that `relations` uses: lengths in m, angles in rad."""
        return printing.symbols_of(self)

    def to_markdown(self) -> str:
        """Return the relations as a Markdown table."""
        return printing.to_markdown(self)

    def to_latex(self) -> str:
        """Return the relations as a LaTeX table."""
        return printing.to_latex(self)

    def to_json(self) -> dict[str, Any]:
        """Return the map as plain lists, numbers and text for `json.dump`."""
        return printing.map_json(self)

    @cached_property
    def fingerprint(self) -> str:
        """A hash of the robot's structure and the map (16 hexadecimal digits)."""
        parts = (
            self.robot.structure_fingerprint,
            self.model,
            self.kept,
            self.regrouped,
            self.joints,
            self.columns,
            self.tolerance,
            *(() if self.measured is None else (self.measured,)),
            *(() if self.motion is None else (self.motion.tolist(),)),
        )
        own = b"" if self.rows is None else self.rows.tobytes()
        return hashlib.sha256(repr(parts).encode() + self.K.tobytes() + own).hexdigest()[:16]

    def __repr__(self) -> str:
        return (
            f"BaseMap({self.robot.name!r}, {self.model} model, method {self.method!r}: "
            f"{len(self.robot.layout)} = {self.rank} base + {len(self.regrouped)} regrouped + "
            f"{len(self.eliminated)} without effect)"
        )

    # ---------------------------------------------------------------- inside

    def _places(self, names: Sequence[str]) -> list[int]:
        return list(self.robot.layout.indices(names))

    def _standard(self, phi: ArrayLike | None) -> Array:
        values = self.robot.parameters if phi is None else np.asarray(phi, dtype=float)
        if values.ndim == 0 or values.shape[-1] != len(self.robot.layout):
            raise ShapeError(
                f"phi: expected shape (..., {len(self.robot.layout)}), got {values.shape}"
            )
        return values


def map_of_places(
    robot: Robot,
    method: str,
    model: str,
    kept: Sequence[int],
    regrouped: Sequence[int],
    K: Array,
    **rest: Any,
) -> BaseMap:
    """Return a map by the places of its kept (b) and regrouped (d) columns, ascending.

    All others are eliminated.
    """
    names, used = robot.layout.names, {*kept, *regrouped}
    one, two = (tuple(names[k] for k in places) for places in (kept, regrouped))
    return BaseMap(
        robot,
        method,
        model,
        one,
        two,
        tuple(n for k, n in enumerate(names) if k not in used),
        K,
        **rest,
    )


@dataclass(frozen=True)
class Question:
    """A checked request."""

    robot: Robot
    model: str = "torque"  # a name of `rows.MODELS`
    # independent joints that move, None for all. The others are held in one general position, as if
    # bolted, and what it takes to hold them is not observed
    joints: tuple[str, ...] | None = None
    columns: tuple[str, ...] | None = (
        None  # parameters asked about, None for all; the others are taken as known
    )
    # names of parameters to keep where there is a choice, the most wanted first, or a sort key of
    # columns; None: storage order, so that parameters of far links join those of links nearer the
    # base
    order: Order | None = None
    # independent joints whose torque is measured, None for all that move
    measured: tuple[str, ...] | None = None

    @classmethod
    def of(
        cls,
        robot: Robot,
        model: str = "torque",
        joints: Sequence[str] | str | None = None,
        columns: Sequence[str] | str | None = None,
        order: Order | None = None,
        measured: Iterable[str] | str | None = None,
    ) -> Question:
        """Check a request at the door: names that do not exist are refused, with near names."""
        if model not in MODELS:
            raise UnknownName("model", model, tuple(MODELS))
        names = (joints,) if isinstance(joints, str) else joints
        for name in names or ():
            if name not in robot.joint_names:
                raise UnknownName("independent joint", name, robot.joint_names)
        known = None if measured is None else measured_joints(robot, measured)
        if known is not None and not MODELS[model].each_joint:
            raise Unsupported(f"measured: model {model!r} has no rows of single joints")
        if known is not None and not set(known) & set(
            robot.joint_names if names is None else names
        ):
            raise DescriptionError(
                "measured: none of the joints moves; name one that is in joints="
            )
        asked = (columns,) if isinstance(columns, str) else columns
        robot.layout.indices(tuple(asked or ()))
        if isinstance(order, str):
            order = (order,)
        if order is not None and not callable(order):
            order = tuple(order)
            robot.layout.indices(order)
        return cls(
            robot,
            model,
            None if names is None else tuple(names),
            None if asked is None else tuple(asked),
            order,
            known,
        )

    @cached_property
    def moving(self) -> tuple[int, ...]:
        """Columns of q that move."""
        names = self.robot.joint_names
        return tuple(
            k for k, name in enumerate(names) if self.joints is None or name in self.joints
        )

    @cached_property
    def observed(self) -> tuple[int, ...]:
        """Rows that are observed: of joints that move and whose torque is measured."""
        names = self.robot.joint_names
        return tuple(k for k in self.moving if self.measured is None or names[k] in self.measured)

    @property
    def rows_of_sample(self) -> int:
        """How many rows of the model one state gives."""
        return MODELS[self.model].rows_of(len(self.observed))

    @cached_property
    def asked(self) -> tuple[int, ...]:
        """Standard columns that the model has and that were asked about, the most wanted first."""
        if self.columns is None and self.order is None and MODELS[self.model].friction:
            return tuple(range(len(self.robot.layout)))
        wanted = None if self.columns is None else set(self.columns)
        found = [
            column
            for column in self.robot.layout.columns
            if (wanted is None or column.name in wanted)
            and (MODELS[self.model].friction or not column.is_friction)
        ]
        if callable(self.order):
            found.sort(key=self.order)
        elif self.order is not None:
            rank = {name: k for k, name in enumerate(self.order)}
            found.sort(key=lambda column: rank.get(column.name, len(rank)))
        return tuple(column.index for column in found)

    @property
    def notices(self) -> tuple[Notice, ...]:
        """What the request itself leaves out."""
        if MODELS[self.model].friction or not any(
            column.is_friction for column in self.robot.layout.columns
        ):
            return ()
        text = (
            f"friction takes no part in the {self.model} model; its parameters are listed as "
            "without effect"
        )
        return (FRICTION_LEFT_OUT(text, model=self.model),)

    def answer(
        self,
        method: str,
        kept: Sequence[int],
        regrouped: Sequence[int],
        K: Array,
        gap: float = math.inf,
        notices: Sequence[Notice] = (),
    ) -> BaseMap:
        """Return the map that a method found; see `map_of_places`."""
        rest = {
            "joints": self.joints,
            "columns": self.columns,
            "measured": self.measured,
            "notices": (*self.notices, *notices),
        }
        return map_of_places(self.robot, method, self.model, kept, regrouped, K, gap=gap, **rest)
