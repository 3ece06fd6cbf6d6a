"""What a low-pass does to friction that turns round, and how uncertain that leaves the parameters.

Preparation low-passes the torque, and friction loses its edges at reversals; the columns of the regressor, functions
of each sample's own speed, do not. Around a reversal with acceleration a, a low-pass at the cut-off f spreads the step
over speeds of about a / (2πf). A sign width that was chosen from the data stands for this as well as for the friction
itself, and one that was given does not stand for it: either way Coulomb and viscous friction are off, by some standard
deviations where the noise is small, and no residual shows it. So the fit is repeated with the width that the other
explanation asks for, joint by joint, and a share of the change counts as uncertainty.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from minidyn.arrays import Array
from minidyn.base.base_map import BaseMap
from minidyn.dynamics.drives import drive_ratios
from minidyn.dynamics.tree import coordinates
from minidyn.identification.friction.table import FrictionModel, Motion, friction_table
from minidyn.model.drives import friction_symbols
from minidyn.model.robot import Robot

_SHARE = 0.6  # of the change is one standard deviation: simulated robots, sharp friction and soft, lie within two
_FINEST = 1.1  # widths are chosen from steps of 17 %: nearer ones are not told apart
_COARSEST = 2.0  # a width that may be all smear: half of it is as far off as the truth is
_STANDSTILL = 1e-12
_SAMPLES = 6000  # enough to see how far a fit moves with a width


def reversal_covariance(
    robot: Robot, base: BaseMap, motion: Motion, sigma: Array, cutoff: float | None, chosen: bool
) -> Array:
    """Return what the sign widths add to the covariance (b, b) of base parameters.

    Args:
        robot: With friction terms and sign widths.
        base: Its base parameters.
        motion: Samples of the recording.
        sigma: Noise of each joint's torque (n,).
        cutoff: Of the low-pass that the torque went through, Hz; None: none that is known of.
        chosen: Whether the widths were chosen from these data; else they were given.
    """
    drives = [joint.drive for joint in robot.joints]
    terms = tuple(term for term in friction_symbols(t for drive in drives for t in drive.friction) if term != "load")
    widths = np.array([drive.sign_width for drive in drives])
    smear = np.zeros(len(drives)) if cutoff is None else smeared_speeds(robot, motion, cutoff)
    if chosen:
        others = np.sqrt(np.maximum(widths**2 - smear**2, (widths / _COARSEST) ** 2))
        others = np.minimum(others, widths / _FINEST)
    else:
        others = np.sqrt(widths**2 + (_SHARE * smear) ** 2)
    found = np.zeros((base.rank, base.rank))
    moved = np.abs(others - widths) > _STANDSTILL
    if not moved.any() or not terms:
        return found
    rigid = [name for name in base.kept if robot.layout.column(name).is_rigid]
    falls = [np.array([drive.stribeck_speed for drive in drives])]
    step = -(-len(motion) // _SAMPLES)
    some = Motion(*(signal[::step] for signal in (motion.q, motion.dq, motion.ddq, motion.tau)))
    table = friction_table(robot, rigid, some, terms, [widths, others], falls)
    place = {name: k for k, name in enumerate(base.kept)}
    as_it_is = FrictionModel(terms, (0,) * len(drives))

    def fitted(model: FrictionModel) -> Array:
        values = np.zeros(base.rank)
        for (name, _, _), value in zip(*table.fit(model, sigma)):
            if name in place:
                values[place[name]] = value
        return values if base.mixing is None else np.asarray(base.mixing @ values, dtype=float)

    before = fitted(as_it_is)
    for joint in np.flatnonzero(moved):
        if drives[joint].friction:
            picked = tuple(int(other == joint) for other in range(len(drives)))
            change = _SHARE * (fitted(replace(as_it_is, widths=picked)) - before)
            found += np.outer(change, change)
    return found


def smeared_speeds(robot: Robot, motion: Motion, cutoff: float) -> Array:
    """Return the speed (joints,) of each drive over which a low-pass spreads a reversal; 0 where there is none."""
    c = coordinates(robot, list(motion.q.T), list(motion.dq.T), list(motion.ddq.T))
    found = np.zeros(len(robot.joints))
    for index in range(len(robot.joints)):
        ratios = drive_ratios(robot, index)
        speed = np.broadcast_to(sum(ratio * c.dq[other] for other, ratio in ratios.items()), len(motion))
        turning = np.flatnonzero(np.diff(np.sign(speed)) != 0)
        if len(turning):
            acceleration = np.broadcast_to(sum(ratio * c.ddq[other] for other, ratio in ratios.items()), len(motion))
            found[index] = float(np.sqrt(np.mean(acceleration[turning] ** 2))) / (2 * np.pi * cutoff)
    return found
