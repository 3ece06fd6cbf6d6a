"""All diagnoses of a fit, in the order in which a reader sees them.

A diagnosis reads a fit and its data and returns notices. None changes the fit: what changes it is
a candidate of the table of decisions.
"""

from __future__ import annotations

from minidyn.arrays import Array
from minidyn.base.base_map import BaseMap
from minidyn.identification.diagnose.bursts import fit_burst_notices
from minidyn.identification.diagnose.delay import delay_notices
from minidyn.identification.diagnose.encoder_offset import encoder_offset_notices
from minidyn.identification.diagnose.excitation import excitation_notices
from minidyn.identification.diagnose.joint_scales import joint_scale_notices
from minidyn.identification.diagnose.robot_file import file_notices
from minidyn.identification.estimators.method import Solution
from minidyn.identification.friction.per_log import differing
from minidyn.model.robot import Robot
from minidyn.notices import Notice
from minidyn.recording.lazy import AnyRecording


def diagnose(
    robot: Robot,
    base: BaseMap,
    solution: Solution,
    data: AnyRecording,
    prior: Array | None = None,
    consistent: Array | None = None,
) -> list[Notice]:
    """Return what a reader should know of a fit.

    Args:
        robot: The robot with the standard parameters of the solution.
        base: Its base parameters.
        solution: What the estimator made of the data.
        data: What was fitted to, states of drives included.
        prior: Standard parameters (p,) that were known before the fit, NaN where unknown; None:
            none were known.
        consistent: Standard parameters (p,) of the physically consistent model; None: there is
            none.
    """
    return [
        *delay_notices(robot, base, data, solution),
        *excitation_notices(robot, base, solution, data),
        *differing(robot, base, data, solution),
        *file_notices(robot, data, prior, consistent),
        *joint_scale_notices(robot, base, data, solution),
        *encoder_offset_notices(robot, base, data, solution),
        *fit_burst_notices(robot, base, data, solution),
    ]
