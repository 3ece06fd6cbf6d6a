"""Entries of the regrouping matrix as polynomials in the lengths that the robot's file names.

For a fixed choice of kept and regrouped parameters every entry of K has a unit (1, m or m²) and, on chains and trees,
is a polynomial of that degree in the robot's lengths. It is found by evaluation: K at random lengths shows on which
symbols each entry depends, a few more lengths determine its coefficients, and still more must agree with it. An entry
that is not such a polynomial (a fraction, a coincidence of lengths) keeps its number.

Polynomials in the robot's lengths and parameters: just enough algebra to write the combinations down in symbols.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations_with_replacement
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from minidyn.arrays import Array
from minidyn.base.closed_form.combinations import combinations
from minidyn.base.closed_form.structure import Structure
from minidyn.base.numeric.samples import Units, random_states, unitless_rows, units_of
from minidyn.base.rows import MODELS
from minidyn.dynamics.tree import NamedLengths
from minidyn.model.robot import Robot

if TYPE_CHECKING:
    from minidyn.base.base_map import BaseMap


_Product = tuple[str | int, ...]  # sorted lengths by name, a parameter by its index


class SymbolicNumber:
    """A sum of number · product; products are tuples of symbols (text) and at most one parameter (its index).

    Only + - * are needed, which is all the recursions use.
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


def symbolic_rows(robot: Robot, structure: Structure) -> list[dict[int, LengthPolynomial]]:
    """Return for each combination {place of a standard parameter: its coefficient in symbols}, in mDH frames."""
    phi = [SymbolicNumber({(index,): 1.0}) for index in range(len(robot.layout))]
    lengths = {name: SymbolicNumber({(name,): 1.0}) for name in _length_symbols(robot)}
    rows = []
    for combination in combinations(robot, structure, phi, NamedLengths(lengths)):
        row: dict[int, dict[tuple[str, ...], float]] = {}
        for product, number in combination.value.terms.items():
            index = next(factor for factor in product if isinstance(factor, int))
            symbols = tuple(factor for factor in product if isinstance(factor, str))
            if abs(number) > 1e-13:
                row.setdefault(index, {})[symbols] = number
        rows.append(
            {
                index: LengthPolynomial(
                    tuple((n, p) for p, n in sorted(terms.items(), key=lambda item: (len(item[0]), item[0])))
                )
                for index, terms in sorted(row.items())
            }
        )
    return rows


Monomial = tuple[str, ...]
"""Symbols of a product, repeated for powers: ("D3", "D3") is D3²."""

_SPARE = 6  # points beyond those that determine a polynomial
_MOST = 20  # symbols in one entry; formulas of more are no use to anybody and are left as numbers
_AGREE = 1e-9  # against the largest term of the entry
_MEMORY = 48e6  # bytes of rows at a time


@dataclass(frozen=True)
class LengthPolynomial:
    """A sum of number · product of symbols."""

    terms: tuple[tuple[float, Monomial], ...]  # (number, product), in order of the products' degree and names

    def value(self, symbols: Mapping[str, float]) -> float:
        """Return the polynomial's value for values of the symbols."""
        return float(sum(number * np.prod([symbols[name] for name in product]) for number, product in self.terms))


def symbolic_entries(base: BaseMap) -> dict[tuple[int, int], LengthPolynomial]:
    """Return {(row, column) of K: polynomial in named lengths}; entries that are plain numbers are left out.

    Robots with loops keep numbers: their lengths are not free, since the loops must close. So do maps for some joints
    only, whose K depends on where the others stand.
    """
    symbols = _length_symbols(base.robot)
    if not symbols or not base.K.size or base.robot.loops or base.robot.formulas or base.joints is not None:
        return {}
    rng = np.random.default_rng(0)
    units = units_of(base.robot)
    indices = base.robot.layout.indices
    kept, regrouped = (units.parameters[list(indices(names))] for names in (base.kept, base.regrouped))
    scale = kept[:, None] / regrouped  # (b, d): the SI value of an entry of K whose value without units is 1

    def entries(points: Array) -> tuple[Array, NDArray[np.bool_]]:
        return _entries(base, units, symbols, points, rng)

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
    found = {}
    for which, places in groups.items():
        names = [symbols[k] for k in which]
        for place, coefficients in zip(places, _fit(points[:, which], K[:, *np.array(places).T])):
            if coefficients is None:
                continue
            polynomial = _polynomial(coefficients, names, float(scale[place]), units.length)
            error = abs(polynomial.value(values) - base.K[place])
            if error <= _AGREE * scale[place] * max(1.0, abs(base.K[place]) / scale[place]):
                found[place] = polynomial
    return found


def rule_entries(base: BaseMap) -> dict[tuple[int, int], LengthPolynomial]:
    """Return {(row, column) of the map: polynomial in named lengths} of a map that a closed-form rule gave.

    The rule itself is run on symbols; that needs the robot's own frames to be the rule's. Where they are not, and where
    a polynomial does not have the map's value, the number is kept.
    """
    if base.structure is None or not _length_symbols(base.robot):
        return {}
    from minidyn.dynamics.mdh_frames import to_mdh

    changed, T = to_mdh(base.robot, "relations")
    if not np.array_equal(T, np.eye(len(base.robot.layout))):
        return {}
    values = dict(base.robot.symbols)
    return {
        (row, column): polynomial
        for row, entries in enumerate(symbolic_rows(changed, base.structure))
        for column, polynomial in entries.items()
        if any(product for _, product in polynomial.terms)
        and abs(polynomial.value(values) - base.matrix[row, column]) <= _AGREE * max(1.0, abs(base.matrix[row, column]))
    }


def _length_symbols(robot: Robot) -> list[str]:
    """Return the symbols that name lengths which are not zero, in the order of the robot file."""
    used = {
        step.symbol
        for joint in robot.joints
        for step in (*joint.before, *joint.after)
        if step.symbol and not step.is_turn and step.value != 0.0
    }
    return [name for name, _ in robot.symbols if name in used]


def _points(rng: np.random.Generator, count: int, width: int) -> Array:
    """Return random values of the symbols (count, width), in units of the robot's length."""
    return rng.choice((-1.0, 1.0), size=(count, width)) * rng.uniform(0.4, 1.6, size=(count, width))


def _entries(
    base: BaseMap, units: Units, symbols: Sequence[str], points: Array, rng: np.random.Generator
) -> tuple[Array, NDArray[np.bool_]]:
    """Return K (points, b, d) without units, and which columns (d,) are combinations of the kept ones at all points."""
    robot = replace(base.robot, base=tuple(step for step in base.robot.base if step.is_turn))
    kept, regrouped = (list(robot.layout.indices(names)) for names in (base.kept, base.regrouped))
    rows = int(1.4 * (len(kept) + len(regrouped))) + 16
    model = MODELS[base.model]
    count = max(16, rows // model.rows_of(robot.n) + 1) * (2 if model.differences else 1)
    states = random_states(robot, units, count, rng)
    chunk = max(1, int(_MEMORY / (8 * count * model.rows_of(robot.n) * len(robot.layout))))
    found = []
    for part in np.array_split(points, -(-len(points) // chunk)):
        lengths = NamedLengths({name: part[:, k : k + 1] * units.length for k, name in enumerate(symbols)})
        W = unitless_rows(robot, base.model, states, units, numbers=lengths, lead=(len(part),))
        found.append(_solve(W.reshape(len(part), -1, W.shape[-1]), kept, regrouped))
    return np.concatenate([K for K, _ in found]), np.logical_and.reduce([sound for _, sound in found])


def _solve(W: Array, kept: Sequence[int], regrouped: Sequence[int]) -> tuple[Array, NDArray[np.bool_]]:
    W1, W2 = W[..., kept], W[..., regrouped]
    lengths = np.linalg.norm(W1, axis=-2, keepdims=True)
    Q, R = np.linalg.qr(W1 / lengths)
    K = np.linalg.solve(R, Q.swapaxes(-1, -2) @ W2)
    left = np.linalg.norm(W2 - (W1 / lengths) @ K, axis=-2)
    sound = np.all(left <= 1e-9 * np.linalg.norm(W2, axis=-2), axis=0)
    return K / lengths.swapaxes(-1, -2), sound


def _products(count: int) -> list[tuple[int, ...]]:
    """Return all products of up to two of `count` symbols, as tuples of their places."""
    return [product for degree in range(3) for product in combinations_with_replacement(range(count), degree)]


def _fit(points: Array, values: Array) -> Iterable[Array | None]:
    """Return for each column of values (points, k) the coefficients of all products, None where they do not fit."""
    products = _products(points.shape[1])
    A = np.stack([np.prod(points[:, product], axis=1) for product in products], axis=1)
    coefficients, *_ = np.linalg.lstsq(A, values, rcond=None)
    misfit = np.abs(A @ coefficients - values).max(axis=0)
    size = np.abs(values).max(axis=0)
    return [coefficients[:, k] if misfit[k] <= _AGREE * size[k] else None for k in range(values.shape[1])]


def _polynomial(coefficients: Array, names: Sequence[str], scale: float, length: float) -> LengthPolynomial:
    largest = float(np.abs(coefficients).max())
    terms = []
    for number, product in zip(coefficients, _products(len(names))):
        if abs(number) > _AGREE * largest:
            # twelve digits are more than the fit is good for and make whole numbers whole
            value = float(f"{float(number) * scale / length ** len(product):.12g}")
            terms.append((value, tuple(names[k] for k in product)))
    return LengthPolynomial(tuple(terms))
