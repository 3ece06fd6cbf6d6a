"""Entries of the regrouping matrix as polynomials and fractions of the lengths that the robot's
file names.

For a fixed choice of kept and regrouped parameters every entry of K has a unit (1, m or m²) and, on
chains and trees, is a polynomial of that degree in the robot's lengths; with closed loops, or
another choice, it may be a fraction of two. It is found by evaluation: K at random lengths shows on
which symbols each entry depends, a few more lengths determine its coefficients, and still more must
agree with it. An entry that is neither (a large fraction, a coincidence of lengths) keeps its
number.

Lengths of a loop are not free: it must close. Where the passive joints are given as functions, how
far it is open is linear in the lengths, so that those which may be chosen freely, and those which
follow them, are found by elimination.

Polynomials in the robot's lengths and parameters: just enough algebra to write the combinations
down in symbols.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations_with_replacement
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from minidyn.arrays import Array
from minidyn.base.closed_form.combinations import combinations
from minidyn.base.closed_form.structure import Structure, structure_of
from minidyn.base.numeric.samples import Units, random_states, unitless_rows, units_of
from minidyn.base.rows import MODELS
from minidyn.dynamics.mdh_chain import stands
from minidyn.dynamics.papers.composite import inertia_constants_of
from minidyn.dynamics.tree import NamedLengths
from minidyn.dynamics.vectors import Scalar
from minidyn.model.geometry import Step, Steps, is_right
from minidyn.model.mdh_rows import is_mdh
from minidyn.model.robot import Robot

if TYPE_CHECKING:
    from minidyn.base.base_map import BaseMap


COS, SIN = "cos ", "sin "
"""Before an angle's symbol in a product."""

_Product = tuple[str | int, ...]  # sorted lengths by name, a parameter by its index


class SymbolicNumber:
    """A sum of number · product.

    Products are tuples of symbols (text) and at most one parameter (its index). Only + - * are
    needed, which is all the recursions use.
    """

    __slots__ = ("terms",)

    def __init__(self, terms: Mapping[_Product, float]) -> None:
        self.terms = {product: number for product, number in terms.items() if number != 0.0}

    @classmethod
    def of(cls, value: SymbolicNumber | float) -> SymbolicNumber:
        """Return a number as a polynomial."""
        return value if isinstance(value, SymbolicNumber) else cls({(): float(value)})

    def __add__(self, other: SymbolicNumber | float) -> SymbolicNumber:
        terms = dict(self.terms)
        for product, number in SymbolicNumber.of(other).terms.items():
            terms[product] = terms.get(product, 0.0) + number
        return SymbolicNumber(terms)

    __radd__ = __add__

    def __neg__(self) -> SymbolicNumber:
        return SymbolicNumber({product: -number for product, number in self.terms.items()})

    def __sub__(self, other: SymbolicNumber | float) -> SymbolicNumber:
        return self + (-SymbolicNumber.of(other))

    def __rsub__(self, other: SymbolicNumber | float) -> SymbolicNumber:
        return SymbolicNumber.of(other) - self

    def __mul__(self, other: SymbolicNumber | float) -> SymbolicNumber:
        terms: dict[_Product, float] = {}
        for one, a in self.terms.items():
            for two, b in SymbolicNumber.of(other).terms.items():
                product = tuple(sorted((*one, *two), key=str))
                terms[product] = terms.get(product, 0.0) + a * b
        return SymbolicNumber(terms)

    __rmul__ = __mul__


class _NamedGeometry(NamedLengths):
    """Symbols for lengths, and for sine and cosine of angles that have a name."""

    def turn(self, step: Step) -> tuple[Scalar, Scalar]:
        """(cos, sin) of a constant angle: symbols where the angle has one."""
        if not step.symbol or is_right(step.value):
            return super().turn(step)
        sign = 1.0 if step.factor > 0 else -1.0
        cosine = SymbolicNumber({(f"{COS}{step.symbol}",): 1.0})
        return cosine, SymbolicNumber({(f"{SIN}{step.symbol}",): sign})


def angle_values(symbols: Iterable[tuple[str, float]]) -> dict[str, float]:
    """Return values of symbols, and of sine and cosine of each, by their names in products."""
    found = dict(symbols)
    return (
        found
        | {f"{COS}{name}": math.cos(value) for name, value in found.items()}
        | {f"{SIN}{name}": math.sin(value) for name, value in found.items()}
    )


def _without_squares(value: SymbolicNumber) -> SymbolicNumber:
    """Return a sum with 1 - sin² for each cos²."""
    while True:
        total = SymbolicNumber({})
        for product, number in value.terms.items():
            square = next((f for f in product if product.count(f) > 1 and _is_cosine(f)), None)
            if square is None:
                total = total + SymbolicNumber({product: number})
                continue
            rest = list(product)
            rest.remove(square)
            rest.remove(square)
            sine = f"{SIN}{str(square).removeprefix(COS)}"
            with_sine = tuple(sorted((*rest, sine, sine), key=str))
            total = total + SymbolicNumber({tuple(rest): number, with_sine: -number})
        if total.terms == value.terms:
            return value
        value = total


def _is_cosine(factor: str | int) -> bool:
    return isinstance(factor, str) and factor.startswith(COS)


def symbolic_rows(robot: Robot, structure: Structure) -> list[dict[int, LengthPolynomial]]:
    """Return for each combination {place of a standard parameter: its coefficient in symbols}, in
    mDH frames.
    """
    phi = [SymbolicNumber({(index,): 1.0}) for index in range(len(robot.layout))]
    lengths = {name: SymbolicNumber({(name,): 1.0}) for name in _length_symbols(robot)}
    found = combinations(robot, structure, phi, _NamedGeometry(lengths))
    return [_row_of(combination.value) for combination in found]


def _row_of(value: SymbolicNumber) -> dict[int, LengthPolynomial]:
    """Return {place of a standard parameter: its coefficient}."""
    row: dict[int, dict[tuple[str, ...], float]] = {}
    for product, number in _without_squares(value).terms.items():
        index = next(factor for factor in product if isinstance(factor, int))
        symbols = tuple(factor for factor in product if isinstance(factor, str))
        if abs(number) > 1e-13:
            row.setdefault(index, {})[symbols] = number
    return {
        index: LengthPolynomial(
            tuple(
                (n, p) for p, n in sorted(terms.items(), key=lambda item: (len(item[0]), item[0]))
            )
        )
        for index, terms in sorted(row.items())
    }


def constants_in_symbols(
    robot: Robot, version: str = "1999"
) -> list[list[dict[int, tuple[float, LengthPolynomial | None]]]]:
    """Return m̂, kx, ky, kz and U11, U12, U13, U22, U23, U33 of each composite body in mDH frames.

    Each as {place of a standard parameter: (value, coefficient in symbols or None)}.
    """
    phi = [SymbolicNumber({(index,): 1.0}) for index in range(len(robot.layout))]
    lengths = {name: SymbolicNumber({(name,): 1.0}) for name in _length_symbols(robot)}
    standing = stands(robot, _NamedGeometry(lengths))
    values = angle_values(robot.symbols)
    found = []
    for c in inertia_constants_of(standing, [phi[part] for part in robot.layout.links], version):
        rows = [_row_of(SymbolicNumber.of(value)) for value in (c.mass, *c.k, *c.U)]
        found.append(
            [
                {
                    index: (entry.value(values), entry if any(p for _, p in entry.terms) else None)
                    for index, entry in row.items()
                }
                for row in rows
            ]
        )
    return found


Monomial = tuple[str, ...]
"""Symbols of a product, repeated for powers: ("D3", "D3") is D3²."""

_SPARE = 6  # points beyond those that determine a polynomial
_MOST_FRACTION = 4  # symbols in one entry that is a fraction
_DEGREES = sorted(
    ((p, q) for q in (1, 2) for p in range(q + 3)), key=sum
)  # of a fraction's two parts, simple ones first
_TIES = (0.0, 0.5, 1.0, 2.0)  # factors with which a length may follow others for a loop to close
_MOST = 20  # symbols in one entry; formulas of more are no use to anybody and are left as numbers
_AGREE = 1e-9  # against the largest term of the entry
_MEMORY = 48e6  # bytes of rows at a time


@dataclass(frozen=True)
class LengthPolynomial:
    """A sum of number · product of symbols, or a fraction of two."""

    terms: tuple[
        tuple[float, Monomial], ...
    ]  # (number, product), in order of the products' degree and names
    divisor: LengthPolynomial | None = None  # what it is divided by

    def value(self, symbols: Mapping[str, float]) -> float:
        """Return its value for values of the symbols."""
        above = float(
            sum(
                number * np.prod([symbols[name] for name in product])
                for number, product in self.terms
            )
        )
        return above if self.divisor is None else above / self.divisor.value(symbols)


def entries_by_rule(base: BaseMap) -> dict[tuple[int, int], LengthPolynomial]:
    """Return {(row, column) of K: polynomial} of a chain or tree in mDH frames, where the closed
    rule's set is the same.

    Each row whose numbers are those of a combination of the rule takes its symbols.
    """
    robot = base.robot
    if (
        not base.K.size
        or base.joints is not None
        or base.columns is not None
        or robot.loops
        or base.model not in _RULES
        or any(joint.follows is not None or joint.drive.coupling for joint in robot.joints)
        or not is_mdh(robot)
    ):
        return {}
    rows = symbolic_rows(robot, structure_of(robot, _RULES[base.model]))
    values = angle_values(robot.symbols)
    numbers = np.zeros((len(rows), len(robot.layout)))
    for number, row in zip(numbers, rows):
        number[list(row)] = [polynomial.value(values) for polynomial in row.values()]
    size = np.abs(base.matrix).max(initial=1.0)
    place = {robot.layout.index(name): k for k, name in enumerate(base.regrouped)}
    found: dict[tuple[int, int], LengthPolynomial] = {}
    for k, target in enumerate(base.matrix):
        for number, row in zip(numbers, rows):
            if np.abs(number - target).max() <= _AGREE * size:
                found |= {
                    (k, place[column]): polynomial
                    for column, polynomial in row.items()
                    if column in place and any(product for _, product in polynomial.terms)
                }
    return found


_RULES = {
    "torque": "torque",
    "energy": "torque",
    "zero_speed": "torque",
    "gravity": "gravity",
    "inertia": "inertia",
}
"""What the closed rule must determine for a model."""


def symbolic_entries(base: BaseMap) -> dict[tuple[int, int], LengthPolynomial]:
    """Return {(row, column) of K: polynomial or fraction of named lengths}.

    Plain numbers are left out. Loops that are solved for keep numbers: their lengths are not free,
    since the loops must close. So do maps for some joints only, whose K depends on where the others
    stand.
    """
    if (
        not base.K.size
        or base.joints is not None
        or not _length_symbols(base.robot)
        or base.robot.implicit_loops
    ):
        return {}
    lengths = _Lengths.of(base.robot)
    symbols = lengths.free
    if not symbols:
        return {}
    rng = np.random.default_rng(0)
    units = units_of(base.robot)
    indices = base.robot.layout.indices
    kept, regrouped = (
        units.parameters[list(indices(names))] for names in (base.kept, base.regrouped)
    )
    scale = (
        kept[:, None] / regrouped
    )  # (b, d): the SI value of an entry of K whose value without units is 1

    def entries(points: Array) -> tuple[Array, NDArray[np.bool_]]:
        return _entries(base, units, lengths, points, rng)

    first = _points(rng, 1, len(symbols))
    probes = np.repeat(first, len(symbols) + 1, axis=0)
    probes[np.arange(len(symbols)), np.arange(len(symbols))] *= -1.7
    K, sound = entries(probes)
    moved = np.abs(K[:-1] - K[-1]) > 1e-8 * (1.0 + np.abs(K[-1]))  # (symbols, b, d)
    number = moved.sum(axis=0) * sound
    most = int(np.where(number <= _MOST, number, 0).max())
    if not most:
        return {}
    points = _points(rng, (most + 1) * (most + 2) // 2 + _SPARE, len(symbols))
    K, sound = entries(points)
    groups: dict[tuple[int, ...], list[tuple[int, int]]] = {}
    for row, column in np.argwhere((number > 0) & (number <= most) & sound):
        which = tuple(int(k) for k in np.flatnonzero(moved[:, row, column]))
        groups.setdefault(which, []).append((int(row), int(column)))
    values = dict(base.robot.symbols)
    found: dict[tuple[int, int], LengthPolynomial] = {}
    fractions = []

    def add(place: tuple[int, int], entry: LengthPolynomial) -> None:
        error = abs(entry.value(values) - base.K[place])
        if error <= _AGREE * scale[place] * max(1.0, abs(base.K[place]) / scale[place]):
            found[place] = entry

    for which, places in groups.items():
        names = [symbols[k] for k in which]
        for place, coefficients in zip(places, _fit(points[:, which], K[:, *np.array(places).T])):
            if coefficients is not None:
                add(place, _polynomial(coefficients, names, float(scale[place]), units.length))
            elif len(which) <= _MOST_FRACTION:
                fractions.append((which, place))
    if fractions:
        width = max(len(which) for which, _ in fractions)
        most = max(len(_products(width, p)) + len(_products(width, q)) for p, q in _DEGREES)
        points = _points(rng, most + _SPARE, len(symbols))
        K, sound = entries(points)
        for which, place in fractions:
            parts = _fit_fraction(points[:, which], K[:, *place]) if sound[place[1]] else None
            if parts is not None:
                add(
                    place,
                    _fraction(
                        *parts, [symbols[k] for k in which], float(scale[place]), units.length
                    ),
                )
    return found


@dataclass(frozen=True)
class _Lengths:
    """The named lengths that may be chosen freely, and those that follow them so that loops
    close.
    """

    free: tuple[str, ...]
    tied: Mapping[str, Array]  # of each name that follows, its factors (free,)

    @classmethod
    def of(cls, robot: Robot) -> _Lengths:
        """Find the lengths of a robot whose passive joints, if any, are given as functions.

        How far the loops are open is linear in the lengths, A l + c = 0. The first names of the
        file are free where there is a choice; a name that would follow by other factors than ±1/2,
        ±1 and ±2 is a number, with all that it depends on.
        """
        symbols = _length_symbols(robot)
        if not robot.loops:
            return cls(tuple(symbols), {})
        symbols += _length_symbols(robot, loops=True, but=symbols)
        A = _openings(robot, symbols)
        tied: list[int] = []
        for k in reversed(range(len(symbols))):
            if np.linalg.matrix_rank(A[:, [*tied, k]], tol=_AGREE) > len(tied):
                tied.append(k)
        free = [k for k in range(len(symbols)) if k not in tied]
        factors, *_ = np.linalg.lstsq(A[:, tied], -A[:, free], rcond=None)  # (tied, free)
        factors = np.where(np.abs(factors) < _AGREE, 0.0, factors)
        lengths = np.array([dict(robot.symbols)[name] for name in symbols])
        simple = np.min(np.abs(np.abs(factors)[..., None] - _TIES), axis=-1) < _AGREE
        fixed = np.zeros(len(free), dtype=bool)
        while True:
            rest = np.where(fixed, 0.0, factors)
            whole = np.abs(rest @ lengths[free] - lengths[tied]) <= _AGREE * np.abs(lengths).max()
            more = fixed | np.any((rest != 0.0) & ~(whole & simple.all(axis=1))[:, None], axis=0)
            if np.array_equal(more, fixed):
                break
            fixed = more
        follows = {symbols[k]: row[~fixed] for k, row in zip(tied, rest) if row[~fixed].any()}
        return cls(tuple(symbols[k] for k, no in zip(free, fixed) if not no), follows)

    def numbers(self, points: Array) -> NamedLengths:
        """Return the lengths for values (points, free) of the free ones, in metres."""
        values = {name: points[:, k : k + 1] for k, name in enumerate(self.free)}
        return NamedLengths(
            values | {name: (points @ row)[:, None] for name, row in self.tied.items()}
        )


def _openings(robot: Robot, symbols: Sequence[str]) -> Array:
    """Return by how much (m, symbols) the loops open for a unit of each symbol at random
    positions.
    """
    from minidyn.model.loops import solve_loops
    from minidyn.model.placements import loop_difference, tree_pose

    units = units_of(robot)
    q_all = solve_loops(robot, random_states(robot, units, len(symbols) + _SPARE, 0).q)

    def opened(name: str, by: float) -> Array:
        def changed(steps: Steps) -> Steps:
            return tuple(
                replace(step, value=step.value + by * step.factor)
                if step.symbol == name and not step.is_turn
                else step
                for step in steps
            )

        joints = tuple(
            replace(j, before=changed(j.before), after=changed(j.after)) for j in robot.joints
        )
        loops = [
            replace(a, steps_a=changed(a.steps_a), steps_b=changed(a.steps_b)) for a in robot.loops
        ]
        pose = tree_pose(replace(robot, joints=joints), q_all)
        return np.concatenate([loop_difference(pose, loop)[..., :3].ravel() for loop in loops])

    closed = opened("", 0.0)
    return np.stack(
        [(opened(name, units.length) - closed) / units.length for name in symbols], axis=1
    )


def rule_entries(base: BaseMap) -> dict[tuple[int, int], LengthPolynomial]:
    """Return {(row, column) of the map: polynomial in named lengths} of a map that a closed-form
    rule gave.

    The rule itself is run on symbols; that needs the robot's own frames to be the rule's. Where
    they are not, and where a polynomial does not have the map's value, the number is kept.
    """
    if base.structure is None or not base.robot.symbols:
        return {}
    from minidyn.model.mdh_frames import to_mdh

    changed, T = to_mdh(base.robot, "relations")
    if not np.array_equal(T, np.eye(len(base.robot.layout))):
        return {}
    values = angle_values(base.robot.symbols)
    return {
        (row, column): polynomial
        for row, entries in enumerate(symbolic_rows(changed, base.structure))
        for column, polynomial in entries.items()
        if any(product for _, product in polynomial.terms)
        and abs(polynomial.value(values) - base.matrix[row, column])
        <= _AGREE * max(1.0, abs(base.matrix[row, column]))
    }


def _length_symbols(robot: Robot, loops: bool = False, but: Sequence[str] = ()) -> list[str]:
    """Return the symbols of lengths (of links, or of loops) that are not zero, in the order of the
    robot file.
    """
    links = [steps for joint in robot.joints for steps in (joint.before, joint.after)]
    ends = [steps for loop in robot.loops for steps in (loop.steps_a, loop.steps_b)]
    used = {
        step.symbol
        for steps in (ends if loops else links)
        for step in steps
        if step.symbol and not step.is_turn and step.value != 0.0
    }
    return [name for name, _ in robot.symbols if name in used and name not in but]


def _points(rng: np.random.Generator, count: int, width: int) -> Array:
    """Return random values of the symbols (count, width), in units of the robot's length."""
    return rng.choice((-1.0, 1.0), size=(count, width)) * rng.uniform(0.4, 1.6, size=(count, width))


def _entries(
    base: BaseMap, units: Units, lengths: _Lengths, points: Array, rng: np.random.Generator
) -> tuple[Array, NDArray[np.bool_]]:
    """Return K (points, b, d) without units, and which columns (d,) are combinations of the kept
    ones at all points.
    """
    robot = replace(base.robot, base=tuple(step for step in base.robot.base if step.is_turn))
    kept, regrouped = (list(robot.layout.indices(names)) for names in (base.kept, base.regrouped))
    rows = int(1.4 * (len(kept) + len(regrouped))) + 16
    model = MODELS[base.model]
    count = max(16, rows // model.rows_of(robot.n) + 1) * (2 if model.differences else 1)
    states = random_states(robot, units, count, rng)
    chunk = max(1, int(_MEMORY / (8 * count * model.rows_of(robot.n) * len(robot.layout))))
    found = []
    for part in np.array_split(points, -(-len(points) // chunk)):
        numbers = lengths.numbers(part * units.length)
        W = unitless_rows(robot, base.model, states, units, numbers=numbers, lead=(len(part),))
        found.append(_solve(W.reshape(len(part), -1, W.shape[-1]), kept, regrouped))
    return np.concatenate([K for K, _ in found]), np.logical_and.reduce(
        [sound for _, sound in found]
    )


def _solve(
    W: Array, kept: Sequence[int], regrouped: Sequence[int]
) -> tuple[Array, NDArray[np.bool_]]:
    W1, W2 = W[..., kept], W[..., regrouped]
    lengths = np.linalg.norm(W1, axis=-2, keepdims=True)
    Q, R = np.linalg.qr(W1 / lengths)
    K = np.linalg.solve(R, Q.swapaxes(-1, -2) @ W2)
    left = np.linalg.norm(W2 - (W1 / lengths) @ K, axis=-2)
    sound = np.all(left <= 1e-9 * np.linalg.norm(W2, axis=-2), axis=0)
    return K / lengths.swapaxes(-1, -2), sound


def _products(count: int, most: int = 2) -> list[tuple[int, ...]]:
    """Return all products of up to so many of `count` symbols, as tuples of their places."""
    return [
        product
        for degree in range(most + 1)
        for product in combinations_with_replacement(range(count), degree)
    ]


def _powers(points: Array, products: Sequence[tuple[int, ...]]) -> Array:
    """Return the products' values (points, products)."""
    return np.stack([np.prod(points[:, product], axis=1) for product in products], axis=1)


def _fit(points: Array, values: Array) -> Iterable[Array | None]:
    """Return for each column of values (points, k) the coefficients of all products.

    None where they do not fit.
    """
    A = _powers(points, _products(points.shape[1]))
    coefficients = np.asarray(np.linalg.lstsq(A, values, rcond=None)[0], dtype=float)
    misfit = np.abs(A @ coefficients - values).max(axis=0)
    size = np.abs(values).max(axis=0)
    return [
        coefficients[:, k] if misfit[k] <= _AGREE * size[k] else None
        for k in range(values.shape[1])
    ]


_Part = dict[tuple[int, ...], float]
"""Coefficients by product."""


def _fit_fraction(points: Array, values: Array) -> tuple[_Part, _Part] | None:
    """Return numerator and denominator of the simplest fraction with these values (points,).

    None where there is none. The denominator's first coefficient is 1. Coefficients are a null
    vector of above - values · below = 0; degrees that are too large would have several.
    """
    for degrees in _DEGREES:
        above, below = (_products(points.shape[1], degree) for degree in degrees)
        A = np.concatenate(
            [_powers(points, above), -values[:, None] * _powers(points, below)], axis=1
        )
        A /= 1.0 + np.abs(values)[:, None]
        _, sigma, V = np.linalg.svd(A)
        if sigma[-1] > _AGREE * sigma[0]:
            continue
        used = np.abs(V[-1]) > 1e-7 * np.abs(V[-1]).max()
        lead = int(
            np.flatnonzero(used & (np.arange(len(used)) >= len(above)))[-1]
        )  # of the highest degree
        others = [int(k) for k in np.flatnonzero(used) if k != lead]
        x, *_ = np.linalg.lstsq(A[:, others], -A[:, lead], rcond=None)
        if (
            np.abs(A[:, others] @ x + A[:, lead]).max()
            > _AGREE * np.abs(A[:, [*others, lead]]).max()
        ):
            return None
        found = dict(zip([*others, lead], [*x.tolist(), 1.0]))
        split = len(above)
        return (
            {above[k]: found[k] for k in sorted(found) if k < split},
            {below[k - split]: found[k] for k in sorted(found) if k >= split},
        )
    return None


def _fraction(
    above: _Part, below: _Part, names: Sequence[str], scale: float, length: float
) -> LengthPolynomial:
    """Return a fraction of lengths without units in SI."""
    unit = length ** max(map(len, below))
    return LengthPolynomial(
        _terms(above, names, scale * unit, length),
        LengthPolynomial(_terms(below, names, unit, length)),
    )


def _polynomial(
    coefficients: Array, names: Sequence[str], scale: float, length: float
) -> LengthPolynomial:
    largest = float(np.abs(coefficients).max())
    products = zip(_products(len(names)), coefficients.tolist())
    return LengthPolynomial(
        _terms(
            {product: number for product, number in products if abs(number) > _AGREE * largest},
            names,
            scale,
            length,
        )
    )


def _terms(
    part: _Part, names: Sequence[str], scale: float, length: float
) -> tuple[tuple[float, Monomial], ...]:
    # twelve digits are more than the fit is good for and make whole numbers whole
    return tuple(
        (float(f"{number * scale / length ** len(product):.12g}"), tuple(names[k] for k in product))
        for product, number in part.items()
    )
