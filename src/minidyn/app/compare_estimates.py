"""Two estimates of one robot side by side.

Which parameters differ, and what it means for the torques.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from minidyn.arrays import Array, carried, plain_values
from minidyn.base.base_map import BaseMap
from minidyn.base.equivalence import equivalence
from minidyn.base.printing.overview import units
from minidyn.display import DisplayTable
from minidyn.errors import MinidynError
from minidyn.files import write_atomically
from minidyn.identification.estimate import Estimate, EstimateLike, as_estimate
from minidyn.model.robot import Robot
from minidyn.recording.recording import Recording
from minidyn.simulation.trajectory import fourier
from minidyn.text import markdown_cell, plain_percent

if TYPE_CHECKING:
    from pandas import DataFrame

FAR = 3.0
"""Standard deviations apart from which two values are called different."""

_PERIOD, _SAMPLES = 10.0, 1000  # s, of the motion on which torques are compared
# value, standard deviation, the log's own part of that, what its day and its motion add
_Value: TypeAlias = tuple[float, float, float, float]
_CLOSE = 1e-6  # m or of a turn: placements of joints that count as the same


@dataclass(frozen=True)
class Pair:
    """A base parameter in both estimates.

    Attributes:
        name: Its name; of the first estimate.
        unit: Its unit.
        joint: Index of the joint it is named after.
        first: Value and standard deviation in the first estimate.
        second: The same in the second; NaN where it has no such parameter.
        apart: How far apart the values are, in standard deviations of their difference. Errors that
            both logs share (of one prior, of how sharply friction reverses) are not in it; those of
            each log count as independent, and so does what each day and motion adds.
    """

    name: str
    unit: str
    joint: int
    first: tuple[float, float]
    second: tuple[float, float]
    apart: float


@dataclass(frozen=True, eq=False)
class EstimateComparison:
    """What :func:`compare_estimates` returns.

    Attributes:
        a: The first estimate.
        b: The second.
        names: What to call them.
        pairs: Base parameters of the first, with their values in the second.
        only: For each estimate, base parameters that the other does not have.
        difference: For each joint, rms of the difference of the predicted torques over that of the
            first model's torques, on a motion within the joint limits.
        relative_difference: The same over all joints.
    """

    a: Estimate
    b: Estimate
    names: tuple[str, str]
    pairs: tuple[Pair, ...]
    only: tuple[tuple[str, ...], tuple[str, ...]]
    difference: Mapping[str, float]
    relative_difference: float

    @property
    def far(self) -> float:
        """Standard deviations apart from which two values are called different."""
        return FAR

    @property
    def different(self) -> tuple[Pair, ...]:
        """The pairs that are more than three standard deviations apart, the most different
        first.
        """
        return tuple(
            sorted((one for one in self.pairs if one.apart > FAR), key=lambda one: -one.apart)
        )

    @property
    def not_comparable(self) -> tuple[str, ...]:
        """Sentences on what cannot be compared.

        Parameters of one estimate, combinations that are not the same.
        """
        mixed = [name for name in self.only[0] if name in self.only[1]]
        found = [
            f"only in {name}: {', '.join(names)}"
            for name, own in zip(self.names, self.only)
            if (names := [one for one in own if one not in mixed])
        ]
        if mixed:
            found.append(
                f"of the same name, but other combinations of parameters: {', '.join(mixed)}"
            )
        return tuple(found)

    def table(self) -> str:
        """Return a Markdown table of the base parameters in both estimates."""
        heads = [markdown_cell(name) for name in self.names]
        lines = [
            f"| parameter | {heads[0]} | std | {heads[1]} | std | apart | unit |",
            "|---|---:|---:|---:|---:|---:|---|",
        ]
        for one in self.pairs:
            numbers = " | ".join(_plain(value) for value in (*one.first, *one.second))
            apart = f"{one.apart:.2g}" if math.isfinite(one.apart) else "-"
            lines.append(f"| {one.name} | {numbers} | {apart} | {one.unit} |")
        return "\n".join(lines)

    def to_pandas(self) -> DataFrame:
        """Return the parameters as a pandas frame, one row a base parameter."""
        return self._display().to_pandas()

    def _display(self) -> DisplayTable:
        one, two = self.names if self.names[0] != self.names[1] else ("first", "second")
        columns: dict[str, list[Any]] = {"parameter": [pair.name for pair in self.pairs]}
        columns |= {
            one: [pair.first[0] for pair in self.pairs],
            f"{one}, std": [pair.first[1] for pair in self.pairs],
        }
        columns |= {two: [pair.second[0] for pair in self.pairs]}
        columns |= {f"{two}, std": [pair.second[1] for pair in self.pairs]}
        columns |= {"standard deviations apart": [pair.apart for pair in self.pairs]}
        return DisplayTable(repr(self), columns | {"unit": [pair.unit for pair in self.pairs]})

    def _repr_html_(self) -> str:
        return self._display().to_html()

    def to_json(self) -> dict[str, Any]:
        """Return everything but the estimates as plain values; None for what is not known."""
        pairs = {
            one.name: {
                "unit": one.unit,
                **{
                    key: dict(zip(("value", "std"), side))
                    for key, side in (("a", one.first), ("b", one.second))
                },
                "standard_deviations_apart": one.apart,
            }
            for one in self.pairs
        }
        found = {
            "a": self.names[0],
            "b": self.names[1],
            "parameters": pairs,
            "only": {"a": list(self.only[0]), "b": list(self.only[1])},
            "different": [one.name for one in self.different],
            "torque_difference": dict(self.difference),
            "relative_torque_difference": self.relative_difference,
            "mass": {key: _mass(one.robot) for key, one in (("a", self.a), ("b", self.b))},
        }
        return dict(plain_values(found, finite=True))

    def report(self, path: str | Path = "comparison.html") -> Path:
        """Write both side by side.

        One HTML file, complete in itself, as :func:`minidyn.report` makes it.
        """
        from minidyn.app.report.comparison_page import comparison_page
        from minidyn.app.report.report import check_page

        target = check_page(path)
        write_atomically(target, comparison_page(self).encode("utf-8"))
        return target

    def __repr__(self) -> str:
        return (
            f"EstimateComparison({len(self.different)} of {len(self.pairs)} parameters differ, "
            f"torques by {plain_percent(self.relative_difference)})"
        )


def compare_estimates(
    a: EstimateLike, b: EstimateLike, *, same_day: bool = False
) -> EstimateComparison:
    """Return two estimates of one robot side by side: parameters, links, friction and torques.

    Args:
        a: An estimate, or the path of a saved one.
        b: Another one of a robot with the same joints; its friction terms and base parameters may
            be others.
        same_day: Whether both logs are of one day and of one kind of motion, as parts of one log
            are. Else `Estimate.day_covariance` of both widens the deviations of differences.

    Raises:
        MinidynError: They are of robots with other joints.
        DescriptionError: A file cannot be read.
    """
    first, second = as_estimate(a, "compare_estimates"), as_estimate(b, "compare_estimates")
    _require_same_joints(first.robot, second.robot)
    values, only = _in_first(first, second, same_day)
    pairs, mines, alike = (
        [],
        _each(first.beta, *_covariances(first, same_day)),
        _described_alike(first, second),
    )
    layout = first.base.robot.layout
    for name, unit, kept, mine in zip(first.names, units(first.base), first.base.kept, mines):
        theirs = values.get(name, (math.nan,) * 4)
        spread = _spread(mine[1:], theirs[1:], alike)
        apart = abs(mine[0] - theirs[0]) / spread if spread > 0 else math.nan
        pairs.append(Pair(name, unit, layout.column(kept).joint, mine[:2], theirs[:2], apart))
    each, whole = _torque_difference(first, second)
    return EstimateComparison(first, second, _labels(a, b), tuple(pairs), only, each, whole)


def _require_same_joints(a: Robot, b: Robot) -> None:
    for what, one, two in (
        ("joints", len(a.joints), len(b.joints)),
        ("independent joints", a.n, b.n),
    ):
        if one != two:
            raise MinidynError(
                f"compare_estimates: the robots have {one} and {two} {what}; expected two of one "
                "robot"
            )
    for left, right in zip(a.joints, b.joints):
        same = (left.kind == "fixed") == (right.kind == "fixed") and left.slides == right.slides
        if (
            not same
            or left.parent != right.parent
            or not np.allclose(left.placement, right.placement, atol=_CLOSE)
        ):
            raise MinidynError(
                f"compare_estimates: joint {left.name!r} of the first robot and {right.name!r} of "
                "the second are placed or move differently; expected two estimates of one robot"
            )


def _covariances(one: Estimate, same_day: bool) -> tuple[Array, Array, Array]:
    """Of the base parameters (b, b), the log's own part, and what its day and its motion add."""
    own = one.covariance if one.log_covariance is None else one.log_covariance
    return one.covariance, own, (0.0 if same_day else 1.0) * one.day_covariance


def _each(beta: Array, *covariances: Array) -> list[_Value]:
    """Value of each parameter, and its deviations of all these kinds."""
    deviations = [np.sqrt(np.maximum(np.diag(one), 0.0)).tolist() for one in covariances]
    return list(zip(beta.tolist(), *deviations))


def _described_alike(a: Estimate, b: Estimate) -> bool:
    """Whether both were held to one prior, or both to none."""
    if a.record.get("prior_kind") != b.record.get("prior_kind"):
        return False
    one, two = (dict(zip(e.base.robot.parameter_names, e.base.robot.parameters)) for e in (a, b))
    same = [name for name in one if name in two]
    return bool(
        np.array_equal([one[name] for name in same], [two[name] for name in same], equal_nan=True)
    )


def _spread(a: Sequence[float], b: Sequence[float], alike: bool) -> float:
    """Deviation of a difference, of the deviations of both values: all, the log's own, the day's.

    What logs share pulls both values one way, by their deviations of it: these are subtracted, not
    added.
    """
    if not all(map(math.isfinite, (*a, *b))):
        return math.hypot(a[0], b[0])
    shared = [math.sqrt(max(std**2 - own**2, 0.0)) for std, own, _ in (a, b)]
    common = shared[0] - shared[1] if alike else math.hypot(*shared)
    return math.hypot(*a[1:], *b[1:], common)


def _in_first(
    a: Estimate, b: Estimate, same_day: bool
) -> tuple[dict[str, _Value], tuple[tuple[str, ...], tuple[str, ...]]]:
    """What `_each` has of b in the base parameters of a, by name; what only one of them has."""
    covariances = _covariances(b, same_day)
    try:
        change = equivalence(b.base, a.base)
        moved = (carried(change, one) for one in covariances)
        return dict(zip(a.names, _each(change @ b.beta, *moved))), ((), ())
    except (
        MinidynError
    ):  # other drive terms, or some joints only: what has the same formula is the same
        mine, theirs = _formulas(a.base), _formulas(b.base)
        found, each = {}, _each(b.beta, *covariances)
        for formula in mine.keys() & theirs.keys():
            found[a.names[mine[formula]]] = each[theirs[formula]]
        only = [
            name for formula, k in theirs.items() if formula not in mine for name in (b.names[k],)
        ]
        return found, (tuple(name for name in a.names if name not in found), tuple(only))


def _formulas(base: BaseMap) -> dict[str, int]:
    return {relation.formula(): k for k, relation in enumerate(base.relations())}


def _torque_difference(a: Estimate, b: Estimate) -> tuple[dict[str, float], float]:
    """For each joint and over all, rms of the difference of torques over rms of the first's.

    NaN where unknown.
    """
    t = np.linspace(0.0, _PERIOD, _SAMPLES)
    q, dq, ddq = fourier(a.robot, period=_PERIOD)(t)
    try:
        tau = [one.predict(Recording(t, q, None, dq, ddq, one.robot.joint_names)) for one in (a, b)]
    except MinidynError:
        return dict.fromkeys(a.robot.joint_names, math.nan), math.nan
    size, apart = _rms(tau[0]), _rms(tau[1] - tau[0])
    with np.errstate(divide="ignore", invalid="ignore"):
        each = apart / size
    return dict(zip(a.robot.joint_names, each.tolist())), float(
        np.linalg.norm(apart) / (np.linalg.norm(size) or 1.0)
    )


def _rms(values: Array) -> Array:
    return np.asarray(np.sqrt(np.mean(values**2, axis=0)))


def _labels(a: EstimateLike, b: EstimateLike) -> tuple[str, str]:
    """What to call them: their files or folders, else A and B."""
    paths = [Path(one) if isinstance(one, str | Path) else None for one in (a, b)]
    if paths[0] is None or paths[1] is None:
        return "A", "B"
    for name in (lambda path: path.stem, lambda path: path.absolute().parent.name, str):
        one, two = name(paths[0]), name(paths[1])
        if one != two:
            return one, two
    return "A", "B"


def _mass(robot: Robot) -> float:
    return float(np.sum([link.mass for link in robot.links]))


def _plain(value: float) -> str:
    return f"{value:.5g}" if math.isfinite(value) else "-"
