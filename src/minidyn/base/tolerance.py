"""Geometry that is nearly special: which number of base parameters is meant, and what is said about the other.

Axes that are special within a tolerance count as special; where that changes the number of base parameters, and where a
tolerance somewhat larger would, a notice names the axes and both numbers. The same for every method.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from minidyn.base.base_map import BaseMap, Question
from minidyn.base.canonical import Relation, canonical, shows_everything
from minidyn.model.joint import typical_length
from minidyn.model.robot import Robot
from minidyn.notices import Kind, act, look

NEAR = 1e-3
"""Where geometry is nearly special to this and that would change the number of base parameters, a notice says so."""

SNAPPED = look(
    "base.snapped_geometry",
    "Axes that are special (parallel, perpendicular, intersecting) but for the rounding of the file are taken as "
    "exactly so; as written there would be more base parameters.",
    "Pass tolerance=0 to take the geometry as written.",
)
NEARLY_SPECIAL = look(
    "base.nearly_special",
    "Axes are nearly but not exactly special, and exactly special ones would have fewer base parameters; the "
    "additional ones hardly act and are hard to identify.",
    "If the axes are meant to be special, pass tolerance={needed:.1g}, or correct the robot file.",
)

COUNTS_DIFFER = act(
    "base.counts_differ",
    "Exact arithmetic and floating point do not agree on the number of base parameters.",
    'Compare with method="qr" and its gap, and check the geometry of the robot file; please report this robot.',
)


@dataclass(frozen=True)
class Answer:
    """Base parameters of a robot with geometry that is special within a tolerance exactly so."""

    base: BaseMap
    relations: tuple[Relation, ...]  # what was snapped for it

    def with_notice(self, kind: Kind, text: str, **data: object) -> Answer:
        """Return the answer with a notice of its relations."""
        notice = kind(
            f"{_listed(self.relations)}; {text}",
            relations=[list(relation) for relation in self.relations],
            rank=self.base.rank,
            **data,
        )
        return replace(self, base=replace(self.base, notices=(*self.base.notices, notice)))


def nearly_special(robot: Robot, tolerance: float) -> tuple[Relation, ...]:
    """Return the relations between axes that nearly hold: to `NEAR`, or to the tolerance where that is larger."""
    if robot.implicit_loops or robot.formulas or shows_everything(robot):  # loops close as written only
        return ()
    return canonical(robot, max(NEAR, tolerance)).relations


def decided(
    question: Question,
    tolerance: float,
    near: Sequence[Relation],
    written: BaseMap,
    at: Callable[[float], Answer],
) -> BaseMap:
    """Return the base parameters that a tolerance (rad, and share of the robot's size) chooses.

    Args:
        question: What was asked.
        tolerance: Within which geometry counts as special.
        near: Relations that nearly hold.
        written: Base parameters of the geometry as it is written.
        at: Gives those of another tolerance.
    """
    size = typical_length(question.robot.joints)

    def share(relation: Relation) -> float:
        return relation.off / (size if relation.unit == "m" else 1.0)

    chosen = Answer(written, ())
    if any(share(relation) <= tolerance for relation in near):
        snapped = at(tolerance)
        # as written, floating point may see no more than the snapped number: exact arithmetic counts
        differ = [notice for notice in written.notices if notice.code == COUNTS_DIFFER.code]
        count = int(differ[0].data["exact"]) if differ else written.rank
        if snapped.base.rank != count:
            text = f"taken as exactly so: {snapped.base.rank} base parameters, {count} as written"
            chosen = snapped.with_notice(SNAPPED, text, rank_as_written=count)
    if all(share(relation) <= tolerance for relation in near):
        return chosen.base
    further = at(NEAR)
    left = tuple(relation for relation in further.relations if relation not in chosen.relations)
    if further.base.rank == chosen.base.rank or not left:
        return chosen.base
    special = further.base.rank
    text = f"taken as they are: {chosen.base.rank} base parameters, {special} if they were exactly so"
    needed = 2 * max(map(share, left))
    return Answer(chosen.base, left).with_notice(NEARLY_SPECIAL, text, rank_if_special=special, needed=needed).base


def within_tolerance(question: Question, tolerance: float, solve: Callable[[Question], BaseMap]) -> BaseMap:
    """Return base parameters by a method that reads geometry as it is, special within a tolerance."""
    written = solve(question)
    near = nearly_special(question.robot, tolerance)
    if not near:
        return written

    def at(other: float) -> Answer:
        found = canonical(question.robot, other)
        base = solve(replace(question, robot=found.in_own_frames()))
        return Answer(replace(base, robot=question.robot), found.relations)

    return decided(question, tolerance, near, written, at)


def _listed(relations: Sequence[Relation], most: int = 4) -> str:
    shown = sorted(relations, key=lambda relation: -relation.off)[:most]
    more = len(relations) - len(shown)
    return "; ".join(map(str, shown)) + (f"; and {more} more" if more else "")
