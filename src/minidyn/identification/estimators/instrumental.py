"""Instrumental variables: the regressor along simulated states frees the estimate from the noise of
the measured ones.

Janot, Vandanjon and Gautier, "A generic instrumental variable approach for industrial robot
identification" (IEEE Trans. Control Systems Technology 22, 2014): with W the regressor along
measured states and Z the one along states simulated with the current model, beta solves Zᵀ (tau - W
beta) = 0. Noise of the measured states is in W, but not in Z.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from minidyn.base.base_map import BaseMap
from minidyn.errors import MinidynError
from minidyn.identification.diagnose.exogeneity import BIASED, exogeneity_test
from minidyn.identification.diagnose.thresholds import LEVEL
from minidyn.identification.estimators.closed_loop import Simulation, settled, simulator
from minidyn.identification.estimators.linear_system import SystemFit, fit_system
from minidyn.identification.estimators.method import Method, Options, Solution
from minidyn.identification.estimators.states import (
    States,
    as_recorded,
    best_states,
    cutoff_of,
    smoothed,
    torque_rows,
)
from minidyn.identification.rows.pieces import Pieces
from minidyn.model.robot import Robot
from minidyn.notices import Notice, info
from minidyn.recording.lazy import AnyRecording
from minidyn.recording.recording import Recording

SMOOTHED_INSTRUMENTS = info(
    "identify.smoothed_instruments",
    "The loop could not be simulated: instruments are smoothed states.",
    "Check the controller, its gains and the reference (telemetry q_d).",
)

SMALL_BIAS = info(
    "identify.small_bias",
    "A test finds that plain least squares is biased on this recording, but by next to nothing.",
)

_MATTERS = 0.003  # of the torque: edges of friction that a low-pass rounds are a smaller bias
_TIMES_BAND = 2.0  # cut-off of instruments over the band of the motion: what they bend does no harm


def instrumental(
    robot: Robot, base: BaseMap, recording: AnyRecording, options: Options
) -> Solution:
    """Estimate base parameters by instrumental variables, and test whether plain least squares is
    biased.
    """
    whole = recording.load()
    recorded = as_recorded(whole)
    plain = fit_system(base, torque_rows(robot, base, recorded), options.allow_open)
    notices, passes = tuple[Notice, ...](), 0

    def rows(states: States) -> Pieces:
        # where a filter or a simulation starts, instruments are poor
        return torque_rows(robot, base, replace(recorded, usable=states.usable), states)

    if options.controller is not None:
        simulate = simulator(robot, base, whole, options.controller)

        def refit(simulation: Simulation) -> SystemFit:
            return fit_system(base, rows(simulation.states(whole)), options.allow_open)

        # a badly biased model may not be held by the loop
        best = best_states(robot, base, whole)
        start = (
            plain
            if best.cutoff == np.inf
            else fit_system(base, torque_rows(robot, base, best), True)
        )
        try:
            end = settled(start, simulate, refit)
            found, states, passes, notices = (
                end.found,
                end.first.states(whole),
                end.passes,
                end.notices,
            )
        except MinidynError as problem:
            text = f"instruments are smoothed states, not simulated ones: {problem}"
            states, notices = _smoothed(whole), (SMOOTHED_INSTRUMENTS(text, reason=str(problem)),)
            found = fit_system(base, rows(states), options.allow_open)
    else:
        states = _smoothed(whole)
        found = fit_system(base, rows(states), options.allow_open)
    # instruments and directions of the test know the data through the first fit alone, which, where
    # least squares is unbiased, has nothing to do with its residual; those of later passes have,
    # and would reject too often
    test = exogeneity_test(rows(states), plain.beta, plain.sigma, max(plain.block, found.block))
    moved = (found.beta - plain.beta) / np.sqrt(np.diag(found.covariance))
    size = max(float(np.linalg.norm(plain.z)), 1e-300)
    shift = float(np.linalg.norm(plain.R @ (found.beta - plain.beta))) / size
    told = test.notice
    if told.code == BIASED.code and shift < _MATTERS:
        text = (
            f"plain least squares is biased measurably, but by {100 * shift:.1g} % of the torque "
            "only"
        )
        told = SMALL_BIAS(text, p_value=test.p_value, shift=shift)
    record = {
        "instruments": states.origin,
        "passes": passes,
        "exogeneity": {
            "statistic": test.statistic,
            "dof": list(test.dof),
            "p_value": test.p_value,
            "level": LEVEL,
            "verdict": test.verdict,
            "torque_shift": shift,
            "largest_shift": float(np.abs(moved).max(initial=0.0)),
        },
    }
    return found.solution((told, *notices), record, options, len(whole))


def _smoothed(recording: Recording) -> States:
    return smoothed(recording, cutoff_of(recording, _TIMES_BAND, 0.2))


IV = Method(
    "iv",
    instrumental,
    takes_controller=True,
    needs_all_torques=True,
)
