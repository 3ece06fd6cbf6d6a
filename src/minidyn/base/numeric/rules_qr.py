"""Closed-form rules first, numerics on what they leave.

A relation between the columns of a tree that moves freely holds in every state, so it holds too
where loops, followers or held joints allow some states only: what the rule eliminates or regroups
on the freed tree stays so. What is left are fewer columns, the rule's own choice and the drives,
and QR decides among these alone: the relations that make a rank hard to see are gone before it
looks. Where nothing ties the joints of a robot, nothing is left to decide.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from minidyn.arrays import Array
from minidyn.base.base_map import CHOICE_UNCLEAR, RANK_UNCLEAR, BaseMap, Question
from minidyn.base.closed_form.mlc import mlc_base
from minidyn.base.closed_form.structure import FOR
from minidyn.base.numeric.numeric import Scaling, numeric_base
from minidyn.base.numeric.row_space import in_leaders, leaders
from minidyn.base.numeric.samples import units_of
from minidyn.base.rows import MODELS
from minidyn.model.drives import POSITION_TERMS
from minidyn.model.robot import Robot
from minidyn.notices import info

RULE_COVERS = info(
    "base.rule_covers",
    "The closed-form rule decided everything; QR only confirmed the number of parameters.",
)
RULE_AND_QR = info(
    "base.rule_and_qr",
    "Loops, followers, coupled drives or held joints leave parameters to QR that the closed-form "
    "rule cannot settle.",
)

_COMPOSED = (
    1e-9  # entries of the composed map that are smaller than this share of their terms are zero
)


def rules_qr_base(question: Question, seed: int = 0, scaling: Scaling = None) -> BaseMap:
    """Return base parameters found by the closed-form rule as far as it goes, and by QR (see
    `numeric_base`) beyond.

    The choice of kept parameters is the usual one: each is independent of those asked about before
    it.

    Implements: Gautier1991, section "Conclusions": closed-form rules first, the numeric method on
    the reduced model.
    """
    robot = question.robot
    ties = _ties(robot)
    if robot.free_base and question.model == "gravity":
        ties = [*ties, "gravity behind a free base"]
    open_to_numerics = ties if question.joints is None else [*ties, "held joints"]
    if question.measured is not None:
        open_to_numerics = [*open_to_numerics, "torques that are not measured"]
    rows = _rule_rows(question, free=not ties)
    asked = list(question.asked)
    left, clear = leaders(
        rows[:, asked], units_of(robot).parameters[asked], whole=question.columns is None
    )
    places = [asked[k] for k in left]
    matrix = np.zeros((len(places), len(robot.layout)))
    matrix[:, asked] = in_leaders(rows[:, asked], left, units_of(robot).parameters[asked])
    names = robot.layout.names
    left_over = replace(question, columns=tuple(names[k] for k in places))
    found = numeric_base(left_over, "qr", seed, scaling)
    notices = list(found.notices[len(question.notices) :])
    if open_to_numerics:
        first = found.matrix[:, places]
        composed = first @ matrix
        matrix = np.where(
            np.abs(composed) <= _COMPOSED * (np.abs(first) @ np.abs(matrix)), 0.0, composed
        )
        places = list(robot.layout.indices(found.kept))
        text = (
            f"of {len(asked)} parameters the closed-form rule settled {len(asked) - len(left)} on "
            f"the freely moving tree; QR decided among the {len(left)} that "
            f"{', '.join(open_to_numerics)} leave open"
        )
        settled = len(asked) - len(left)
        notices.append(
            RULE_AND_QR(
                text, asked=len(asked), settled=settled, left=len(left), because=open_to_numerics
            )
        )
    elif found.rank == len(places):
        text = (
            "the closed-form rule covers this robot: QR had nothing left to decide, and confirms it"
        )
        notices.append(RULE_COVERS(text, rank=found.rank))
    else:
        text = (
            f"the closed-form rule covers this robot and keeps {len(places)} parameters, of which "
            f"QR can tell apart {found.rank} only"
        )
        notices.append(RANK_UNCLEAR(text, rank=found.rank, kept_by_rule=len(places)))
    if not clear:
        text = (
            "which parameters the closed-form rule keeps is not clear in this robot's frames "
            "(geometry that is nearly but not exactly special)"
        )
        notices.append(CHOICE_UNCLEAR(text))
    order = np.argsort(places)
    matrix, kept = matrix[order], sorted(places)
    regrouped = [int(k) for k in np.flatnonzero(matrix.any(axis=0)) if k not in set(kept)]
    return question.answer(
        "rules+qr", kept, regrouped, matrix[:, regrouped], float(found.gap), notices
    )


def _ties(robot: Robot) -> list[str]:
    """Return what keeps the rule from covering a robot."""
    joints = robot.joints
    found = {
        "loops": bool(robot.loops),
        "followers": any(
            joint.follows is not None and not joint.follows.passive for joint in joints
        ),
        "coupled drives": any(joint.drive.coupling and joint.drive.columns for joint in joints),
        "drive terms of the position": any(
            term in POSITION_TERMS for joint in joints for term in joint.drive.friction
        ),
    }
    return [name for name, there in found.items() if there]


def _rule_rows(question: Question, free: bool) -> Array:
    """Return the rule's map (b0, p) on the freely moving tree.

    Where joints are tied, each drive is its own row.
    """
    robot, layout = question.robot, question.robot.layout
    friction = MODELS[question.model].friction
    alone = (robot if friction else robot.with_drives(friction=())) if free else _freed(robot)
    for_ = question.model if question.model in FOR else "torque"
    if robot.free_base and for_ == "gravity":  # what torques do not show, weight does not either
        for_ = "torque"
    found = mlc_base(alone, for_=for_, tolerance=0.0)  # the geometry is decided
    drives = [
        column
        for column in layout.columns
        if not column.is_inertial and (friction or not column.is_friction)
    ]
    own = [] if free else [column.index for column in drives]
    rows = np.zeros((found.rank + len(own), len(layout)))
    rows[: found.rank, list(layout.indices(alone.layout.names))] = found.matrix
    rows[np.arange(found.rank, len(rows)), own] = 1.0
    return rows


def _freed(robot: Robot) -> Robot:
    """Return the tree of links alone, with every joint free."""
    bare = robot.open_loops().with_drives(rotor_inertia=False, friction=())
    return replace(bare, joints=tuple(replace(joint, follows=None) for joint in bare.joints))
