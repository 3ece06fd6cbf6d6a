"""Geometry that is nearly special.

Which number of base parameters is meant, and what is said about the other. Axes that are special
within a tolerance count as special; where that changes the number of base parameters, and where a
tolerance somewhat larger would, a notice names the axes and both numbers. The same for every
method.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from minidyn.base.base_map import BaseMap, Question
from minidyn.model.canonical import ROUNDING, Canonical, Relation, canonical, is_as_written
from minidyn.model.joint import typical_length
from minidyn.notices import Kind, error, warning

NEAR = 1e-3
"""Where geometry is nearly special to this and that would change the number of base parameters, a
notice says so.
"""

SNAPPED = warning(
    "base.snapped_geometry",
    "Axes that are special (parallel, perpendicular, intersecting) but for the rounding of the "
    "file are taken as exactly so; as written there would be more base parameters.",
    "Pass tolerance=0 to take the geometry as written.",
)
NEARLY_SPECIAL = warning(
    "base.nearly_special",
    "Axes are nearly but not exactly special, and exactly special ones would have fewer base "
    "parameters; the additional ones hardly act and are hard to identify.",
    "If the axes are meant to be special, pass tolerance={needed:.1g}, or correct the robot file.",
)

COUNTS_DIFFER = error(
    "base.counts_differ",
    "Exact arithmetic and floating point do not agree on the number of base parameters.",
    'Compare with method="qr" and its gap, and check the geometry of the robot file; please '
    "report this robot.",
)


@dataclass(frozen=True)
class Answer:
    """Base parameters of a robot with geometry that is special within a tolerance exactly so."""

    base: BaseMap
    relations: tuple[Relation, ...] = ()  # what was snapped for it
    is_clear: bool = False  # that nothing special to `NEAR` can be hidden

    def with_notice(self, kind: Kind, text: str, **data: object) -> Answer:
        """Return the answer with a notice of its relations."""
        notice = kind(
            f"{_listed(self.relations)}; {text}",
            relations=[list(relation) for relation in self.relations],
            rank=self.base.rank,
            **data,
        )
        return replace(self, base=replace(self.base, notices=(*self.base.notices, notice)))


Solver = Callable[[Question, Canonical | None], Answer]
"""Answers a question for the twin of its robot; None: for the robot as written."""


def within_tolerance(question: Question, tolerance: float, solve: Solver) -> BaseMap:
    """Return base parameters of a robot, its geometry special within a tolerance (rad, and share of
    the robot's size) exactly so.
    """
    robot = question.robot
    if is_as_written(robot):
        return solve(question, None).base
    size = typical_length(robot.joints)

    def share(relation: Relation) -> float:
        return relation.off / (size if relation.unit == "m" else 1.0)

    def at(other: float) -> Answer:
        twin = canonical(robot, other)
        return replace(solve(question, twin), relations=twin.relations)

    chosen = at(tolerance)
    near: tuple[Relation, ...] = ()
    if not chosen.is_clear:
        near = canonical(robot, max(NEAR, tolerance)).relations
    if chosen.relations:
        written = at(ROUNDING).base
        # as written, floating point may see no more than the snapped number: exact arithmetic
        # counts
        differ = [notice for notice in written.notices if notice.code == COUNTS_DIFFER.code]
        count = int(differ[0].data["exact"]) if differ else written.rank
        if chosen.base.rank != count:
            text = f"taken as exactly so: {chosen.base.rank} base parameters, {count} as written"
            chosen = chosen.with_notice(SNAPPED, text, rank_as_written=count)
    if all(share(relation) <= tolerance for relation in near):
        return chosen.base
    further = at(NEAR)
    left = tuple(relation for relation in further.relations if relation not in chosen.relations)
    if further.base.rank == chosen.base.rank or not left:
        return chosen.base
    special = further.base.rank
    text = (
        f"taken as they are: {chosen.base.rank} base parameters, {special} if they were exactly so"
    )
    needed = 2 * max(map(share, left))
    return (
        Answer(chosen.base, left)
        .with_notice(NEARLY_SPECIAL, text, rank_if_special=special, needed=needed)
        .base
    )


def as_it_is(solve: Callable[[Question], BaseMap]) -> Solver:
    """Return the solver of a method that reads the geometry of a robot in its own frames."""

    def solved(question: Question, twin: Canonical | None) -> Answer:
        robot = question.robot
        if twin is None:
            return Answer(solve(question))
        base = solve(replace(question, robot=twin.understood))
        return Answer(replace(base, robot=robot))

    return solved


def _listed(relations: Sequence[Relation], most: int = 4) -> str:
    shown = sorted(relations, key=lambda relation: -relation.off)[:most]
    more = len(relations) - len(shown)
    return "; ".join(map(str, shown)) + (f"; and {more} more" if more else "")
