"""May a designed motion be run? What was assumed and what was not checked comes first.

The page, the files for the robot, the shell and `--json` all read the verdict made here.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, Literal

from minidyn.excitation import bounds, clearance, target
from minidyn.notices import Notice, error, most_serious_first, warning

POOR_MOTION = warning(
    "excite.poor_motion",
    "The motion is far from the best that was tried: motions that show more were not proven to "
    "keep all limits.",
    "Try another seed, allow more time, widen the limits or move obstacles away.",
)
UNFINISHED = warning(
    "excite.unfinished",
    "The search was ended before it had run once: how much more other motions show is not known.",
    "Allow more time.",
)
NOT_SHOWN = error(
    "excite.not_shown",
    "The motion does not show all parameters.",
    "Allow a longer motion, more harmonics or wider limits.",
)

UNSURE = {
    NOT_SHOWN.code: "the motion does not show all parameters",
    POOR_MOTION.code: "the motion is far from the best that was tried",
    UNFINISHED.code: "the search was not finished",
    clearance.NO_COLLISIONS.code: "collisions were not checked",
    clearance.ALWAYS_NEAR.code: "distances of some links were not checked",
    clearance.NOT_CHECKED.code: "distances of links without a shape were not checked",
    clearance.FLOOR_NOT_KNOWN.code: "no floor was checked",
    target.NO_MODEL.code: "torques were not checked",
    bounds.NO_TORQUES.code: "torques were not checked",
    target.NO_LOAD.code: "the weight of the load is not in the torques",
    bounds.NO_RANGE.code: "position limits are assumed",
    bounds.NO_SPEED.code: "velocity limits are assumed",
    bounds.NO_ACCELERATION.code: "acceleration limits are missing",
    bounds.NO_EFFORT.code: "effort limits are missing",
}
"""Kinds of notices that say what was assumed or not checked, in a few words."""


@dataclass(frozen=True)
class MotionVerdict:
    """Whether a motion may be run, and what must be known before.

    Attributes:
        level: "good": every limit is known and kept; "caution": limits are assumed or missing;
            "bad": a limit is not kept, or distances were not checked.
        headline: One sentence.
        reasons: What was assumed or not checked, most serious first.
    """

    level: Literal["good", "caution", "bad"]
    headline: str
    reasons: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        return asdict(self)


def judge_motion(feasible: bool, notices: Iterable[Notice]) -> MotionVerdict:
    """Return the verdict on a motion that does, or does not, keep its limits at all times."""
    unsure = [one for one in most_serious_first(notices) if one.code in UNSURE]
    reasons = tuple(one.text for one in unsure)
    if not feasible:
        return MotionVerdict("bad", "The motion does not keep all limits.", reasons)
    if not unsure:
        return MotionVerdict("good", "All limits are kept at all times.", ())
    words = ", ".join(UNSURE[one.code] for one in unsure)
    headline = f"{words[:1].upper()}{words[1:]}. Limits that are known or assumed are kept."
    return MotionVerdict("bad" if unsure[0].level == "error" else "caution", headline, reasons)
