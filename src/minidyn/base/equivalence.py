"""Two sets of base parameters of one robot: the matrix between them, or why there is none.

The other set may be one that somebody printed: a matrix, or formulas as text.

Formulas are read as people write them: "ZZR1 = ZZ1 + (D3² + R3²)(M3 + M4) - 0.2 MX3"; products need
no sign. The text is turned into the formulas that robot files know (`minidyn.model.formula`);
nothing in it is ever executed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, overload

import numpy as np
from numpy.typing import ArrayLike

from minidyn.arrays import Array, frozen
from minidyn.base.base_map import BaseMap
from minidyn.base.numeric.own_rows import parameter_units
from minidyn.base.numeric.row_space import without_units
from minidyn.base.printing.relations import RelationTerm, sum_text
from minidyn.display import DisplayTable
from minidyn.errors import MinidynError, NotEquivalent, ShapeError

if TYPE_CHECKING:
    from pandas import DataFrame
import math
import re
from collections.abc import Mapping

from minidyn.errors import DescriptionError, first_of, near_names
from minidyn.model.formula import FUNCTIONS, Formula
from minidyn.text import short

_SIGNS = str.maketrans(
    {"−": "-", "–": "-", "·": "*", "⋅": "*", "×": "*", "[": "(", "]": ")"} | {"²": "^2", "³": "^3"}
)
_TOKEN = re.compile(
    r"\s*(?:(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)|(?P<name>[^\W\d]\w*)|(?P<sign>\*\*|.))"
)
_NAMES = 400  # listed in an error: all of them, but for a robot with very many


def rows_of_text(
    texts: Sequence[str], names: Sequence[str], symbols: Mapping[str, float]
) -> tuple[tuple[str, ...], Array]:
    """Return names and coefficients (m, p) of formulas that are linear in the parameters `names`.

    Each text is one formula or several, line by line; symbols are named lengths and their values.
    """
    lines = [line.strip() for text in texts for line in re.split(r"[\n;]", text) if line.strip()]
    if not lines:
        raise DescriptionError("no formula was given; write for example 'ZZ1 + YY2 + 0.2 MX3'")
    place, known = {name: k for k, name in enumerate(names)}, {name: name for name in names}
    matrix = np.zeros((len(lines), len(names)))
    labels = []
    for row, line in enumerate(lines):
        label, equals, right = line.partition("=")
        labels.append(short(label.strip() if equals else line, 80))
        where = f"formula {row + 1} of the set"
        formula = Formula(
            _in_full(right if equals else line, line, where, names, symbols), where, known
        )
        try:
            total = _Sum.of(
                formula.evaluate({name: _Sum({name: 1.0}) for name in formula.variables})
            )
        except TypeError:
            total = _Sum({}, math.nan)
        if total.constant != 0.0:
            why = (
                "is not linear in the parameters"
                if math.isnan(total.constant)
                else "has a term without a parameter"
            )
            raise DescriptionError(
                f"{where}, {short(line, 200)!r}, {why}; expected a sum of number times parameter"
            )
        for name, factor in total.factors.items():
            matrix[row, place[name]] = factor
    return tuple(labels), matrix


@dataclass(frozen=True)
class _Sum:
    """A number and a sum of number times parameter.

    What is not linear is a TypeError at once, however large.
    """

    factors: Mapping[str, float]
    constant: float = 0.0

    @classmethod
    def of(cls, value: _Sum | float) -> _Sum:
        return value if isinstance(value, _Sum) else cls({}, float(value))

    def __add__(self, other: _Sum | float) -> _Sum:
        other = _Sum.of(other)
        names = {**self.factors, **other.factors}
        total = {name: self.factors.get(name, 0.0) + other.factors.get(name, 0.0) for name in names}
        return _Sum(total, self.constant + other.constant)

    def __mul__(self, other: _Sum | float) -> _Sum:
        other = _Sum.of(other)
        if self.factors and other.factors:
            raise TypeError("a product of parameters")
        number, many = (self.constant, other) if other.factors else (other.constant, self)
        return _Sum(
            {name: factor * number for name, factor in many.factors.items()}, many.constant * number
        )

    def __truediv__(self, other: _Sum | float) -> _Sum:
        other = _Sum.of(other)
        if other.factors or other.constant == 0.0:
            raise TypeError("divided by a parameter")
        return self * (1.0 / other.constant)

    __radd__, __rmul__ = __add__, __mul__

    def __neg__(self) -> _Sum:
        return self * -1.0

    def __sub__(self, other: _Sum | float) -> _Sum:
        return self + -_Sum.of(other)

    def __rsub__(self, other: float) -> _Sum:
        return -self + other


def _in_full(
    text: str, line: str, where: str, names: Sequence[str], symbols: Mapping[str, float]
) -> str:
    """Return the formula with every product's sign written and lengths as numbers."""
    known = {*names}
    parts: list[str] = []
    ends = False  # whether what is before can be a factor
    for match in _TOKEN.finditer(text.translate(_SIGNS).strip()):
        part = match.group().strip()
        kind = match.lastgroup
        if (
            kind == "name"
            and part not in (*FUNCTIONS, "pi")
            and part not in known
            and part not in symbols
        ):
            there = f"parameters: {first_of(list(names), _NAMES)}"
            there += f"; lengths: {first_of(list(symbols), _NAMES)}" if symbols else ""
            hint = near_names(part, [*names, *symbols], limit=0).split("; known")[0]
            raise DescriptionError(
                f"{where}, {short(line, 200)!r}: unknown name {part!r}{hint} ({there})"
            )
        if kind == "sign" and part not in ("+", "-", "*", "/", "(", ")", ",", "^", "**"):
            raise DescriptionError(
                f"{where}, {short(line, 200)!r}: {part!r} is no part of a formula"
            )
        if ends and (kind != "sign" or part == "("):
            parts.append("*")
        if kind == "name" and part in symbols and part not in known:
            part = f"({symbols[part]!r})"
        elif kind == "number":  # whole numbers stay whole: they may be powers
            part = part.lstrip("0") or "0"
            part = f"0{part}" if part.startswith((".", "e", "E")) else part
        parts.append("**" if part == "^" else part)
        ends = (kind != "sign" and part not in FUNCTIONS) or part == ")"
    return "".join(parts)


@overload
def equivalence(base_a: BaseMap, base_b: BaseMap, *, tolerance: float = 1e-9) -> Array: ...


@overload
def equivalence(
    base_a: BaseMap, base_b: str | Sequence[str] | ArrayLike, *, tolerance: float = 1e-9
) -> PrintedSet: ...


def equivalence(
    base_a: BaseMap, base_b: BaseMap | str | Sequence[str] | ArrayLike, *, tolerance: float = 1e-9
) -> Array | PrintedSet:
    """Return the nonsingular matrix T (b, b) with beta_b = T beta_a, or what a printed set
    determines.

    Args:
        base_a: A map.
        base_b: Another map of a robot with the same standard parameters; or a set as a paper prints
            it: a matrix (m, p) on the standard parameters, or formulas such as "ZZR1 = ZZ1 + YY2 +
            0.2 MX3", as a list or line by line. Formulas may use the lengths that the robot file
            names; the part before "=" is a name and may be left out.
        tolerance: Largest coefficient that counts as none, in the robot's own units, against the
            largest term it is made of. A file whose axes are parallel to 1e-8 rad only (rounded to
            single precision once) leaves 1e-6 of the accuracy of its maps and needs that here;
            numbers printed with four digits need 1e-3.

    Returns:
        For two maps T. For a printed set a `PrintedSet`: which of its combinations are
        identifiable, whether it is independent and complete, and T. A set that is not equivalent is
        an answer there, no error.

    Raises:
        NotEquivalent: One map determines a combination that the other does not; the message names
            it.
        ShapeError: The maps belong to robots with different parameters, or a matrix has another
            number of columns.
        DescriptionError: A formula that cannot be read, with an unknown name, or that is not
            linear.

    Implements: Lin1994 Corollary 6.
    """
    if not isinstance(base_a, BaseMap):
        raise MinidynError(
            f"equivalence: expected a result of md.base_parameters first, got {base_a!r}"
        )
    if not isinstance(base_b, BaseMap):
        return printed_set(base_a, base_b, tolerance)
    if base_a.robot.layout.names != base_b.robot.layout.names:
        raise ShapeError(
            "equivalence: the maps have different standard parameters "
            f"({len(base_a.robot.layout)} of robot {base_a.robot.name!r}, "
            f"{len(base_b.robot.layout)} of robot {base_b.robot.name!r})"
        )
    _require_determined(base_b, base_a, "second", "first", tolerance)
    _require_determined(base_a, base_b, "first", "second", tolerance)
    return _in_terms_of(base_b.matrix, base_a)


@dataclass(frozen=True, eq=False)
class PrintedSet:
    """What a set of combinations of standard parameters determines of a robot.

    `str()` gives a table.

    Attributes:
        base: The base parameters it is compared with.
        names: Names of the combinations: as printed, or their formulas.
        matrix: The combinations (m, p) of the standard parameters.
        identifiable: For each combination, whether motion shows it.
        T: (m, b) with combinations = T beta for all standard parameters; rows of NaN where not
            identifiable.
        outside: For each combination, the parameters whose coefficients are wrong; none where it is
            identifiable.
        tolerance: What counted as zero.
    """

    base: BaseMap
    names: tuple[str, ...]
    matrix: Array
    identifiable: tuple[bool, ...]
    T: Array
    outside: tuple[tuple[str, ...], ...]
    tolerance: float

    @cached_property
    def _sound(self) -> Array:
        """T of the identifiable combinations, rows of like size, columns without units."""
        rows = self.T[list(self.identifiable)]
        return without_units(rows, units_of_base(self.base))

    @cached_property
    def rank(self) -> int:
        """How many of the identifiable combinations are independent."""
        sound = self._sound
        return int(np.linalg.matrix_rank(sound, tol=self._small)) if sound.size else 0

    @property
    def _small(self) -> float:
        return max(self.tolerance, 1e-12) * max(1, len(self.names))

    @property
    def independent(self) -> bool:
        """Whether no identifiable combination follows from others."""
        return self.rank == sum(self.identifiable)

    @property
    def complete(self) -> bool:
        """Whether the identifiable combinations determine all base parameters."""
        return self.rank == self.base.rank

    @property
    def equivalent(self) -> bool:
        """Whether the set is one of base parameters: all identifiable, independent, complete.

        Then T is nonsingular.
        """
        return all(self.identifiable) and self.independent and self.complete

    @cached_property
    def missing(self) -> tuple[str, ...]:
        """Names of base parameters that the identifiable combinations do not determine."""
        if not self._sound.size:
            return self.base.names
        _, values, Vt = np.linalg.svd(self._sound)
        unseen = Vt[int(np.count_nonzero(values > self._small)) :]
        lengths = np.linalg.norm(unseen, axis=0)
        return tuple(name for name, length in zip(self.base.names, lengths) if length > 1e-7)

    @cached_property
    def corrected(self) -> tuple[str, ...]:
        """For each combination the identifiable one with the same coefficients of kept parameters,
        as a formula.
        """
        return tuple(
            _formula(self.base, row)
            for row in _in_terms_of(self.matrix, self.base) @ self.base.matrix
        )

    @property
    def table(self) -> DisplayTable:
        """One row for each combination."""
        wrong = [
            ", ".join(names[:6]) + (", ..." if len(names) > 6 else "") for names in self.outside
        ]
        columns = {
            "combination": self.names,
            "identifiable": self.identifiable,
            "wrong in": wrong,
            "identifiable would be": [
                "" if good else text for good, text in zip(self.identifiable, self.corrected)
            ],
        }
        return DisplayTable(self._title, columns)

    @property
    def _title(self) -> str:
        words = [
            f"{sum(self.identifiable)} of {len(self.names)} combinations are identifiable",
            "independent" if self.independent else f"dependent: {self.rank} are independent",
            "complete" if self.complete else f"not complete: {self.base.rank} base parameters",
        ]
        return f"{'equivalent' if self.equivalent else 'not equivalent'}: {', '.join(words)}"

    def to_pandas(self) -> DataFrame:
        """Return the combinations as a pandas frame."""
        return self.table.to_pandas()

    def _repr_html_(self) -> str:
        return self.table.to_html()

    def __repr__(self) -> str:
        return f"PrintedSet({self.base.robot.name!r}, {self._title})"

    def __str__(self) -> str:
        lines = [self._title]
        for name, good, wrong, formula in zip(
            self.names, self.identifiable, self.outside, self.corrected
        ):
            if not good:
                lines.append(
                    f"  {name}: not identifiable, wrong in {', '.join(wrong[:6])}; identifiable "
                    f"is {formula}"
                )
        if self.missing:
            lines.append(f"  not determined: {', '.join(self.missing)}")
        return "\n".join(lines)


def units_of_base(base: BaseMap) -> Array:
    """Return the SI value (b,) of one unit of each base parameter, of the robot's own making."""
    sizes: Array = np.abs(base.matrix * parameter_units(base.robot)).max(axis=1, initial=0.0)
    return sizes


def printed_set(
    base: BaseMap, given: str | Sequence[str] | ArrayLike, tolerance: float = 1e-9
) -> PrintedSet:
    """Return what a matrix or formulas determine; see `equivalence`."""
    layout = base.robot.layout
    texts = [given] if isinstance(given, str) else given
    if isinstance(texts, list | tuple) and all(isinstance(text, str) for text in texts):
        names, matrix = rows_of_text(
            [str(text) for text in texts], layout.names, dict(base.robot.symbols) | base.symbols
        )
    else:
        try:
            matrix = np.atleast_2d(np.asarray(given, dtype=float))
        except (TypeError, ValueError):
            raise MinidynError(
                "equivalence: expected a result of md.base_parameters, a matrix or formulas as "
                f"text as second argument, got {type(given).__name__}"
            ) from None
        names = (
            tuple(_formula(base, row) for row in matrix) if matrix.shape[-1] == len(layout) else ()
        )
    if matrix.ndim != 2 or matrix.shape[1] != len(layout) or not np.all(np.isfinite(matrix)):
        raise ShapeError(
            f"equivalence: expected finite numbers of shape (m, {len(layout)}), one column for "
            f"each standard parameter of robot {base.robot.name!r}, got {matrix.shape}"
        )
    T = _in_terms_of(matrix, base)
    foreign = _foreign(matrix, base, T, tolerance)
    good = np.array([not row.any() for row in foreign], dtype=bool)
    outside = tuple(tuple(layout.names[k] for k in np.flatnonzero(row)) for row in foreign)
    return PrintedSet(
        base,
        names,
        frozen(matrix),
        tuple(map(bool, good)),
        frozen(np.where(good[:, None], T, np.nan)),
        outside,
        tolerance,
    )


def _formula(base: BaseMap, row: Array, most: int = 8) -> str:
    """Return a combination (p,) as text.

    Terms beyond `most` are dots, coefficients of rounding nothing.
    """
    row = np.where(np.abs(row) > 1e-12 * np.abs(row).max(initial=0.0), row, 0.0)
    entries = [(base.robot.layout.names[k], float(row[k])) for k in np.flatnonzero(row)]
    text = sum_text([RelationTerm(name, factor) for name, factor in entries[:most]])
    return text + (" + ..." if len(entries) > most else "")


def _in_terms_of(matrix: Array, given: BaseMap) -> Array:
    """Return T with matrix = T given.matrix, read off in the columns that `given` keeps.

    There the rows of `given` are the identity, or its mixing matrix where it has one.
    """
    T: Array = matrix[:, list(given.robot.layout.indices(given.kept))]
    if given.mixing is not None:
        T = np.asarray(np.linalg.solve(given.mixing.T, T.T).T, dtype=float)
    return np.ascontiguousarray(T)


def _foreign(matrix: Array, given: BaseMap, T: Array, tolerance: float) -> Array:
    """Return where combinations (m, p) differ from T given.matrix: truth values (m, p)."""
    units = parameter_units(given.robot)
    left = matrix - T @ given.matrix
    sizes = np.abs(matrix) + np.abs(T) @ np.abs(given.matrix)
    largest: Array = (sizes * units).max(axis=1, keepdims=True, initial=0.0)
    return np.asarray(np.abs(left) * units > tolerance * largest)


def _require_determined(
    wanted: BaseMap, given: BaseMap, one: str, other: str, tolerance: float
) -> None:
    """Raise where some base parameter of `wanted` is no combination of those of `given`."""
    foreign = _foreign(wanted.matrix, given, _in_terms_of(wanted.matrix, given), tolerance)
    rows = np.flatnonzero(foreign.any(axis=1))
    if len(rows) == 0:
        return
    row = int(rows[np.argmin(foreign[rows].sum(axis=1))])
    unseen = ", ".join(wanted.robot.layout.names[k] for k in np.flatnonzero(foreign[row])[:6])
    raise NotEquivalent(
        f"the sets are not equivalent: the {one} ({wanted.rank} parameters) determines "
        f"{_formula(wanted, wanted.matrix[row])}, which the {other} ({given.rank} parameters) "
        f"does not: it does not see {unseen} in this combination"
    )
