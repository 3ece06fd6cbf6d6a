"""Direct and inverse dynamic identification: the torque a model needs in the robot's place, against the measured one.

Gautier, Janot and Vandanjon, "A new closed-loop output error method for parameter identification of robot dynamics"
(IEEE Trans. Control Systems Technology 21, 2013): the model is simulated in the same loop, and torques are compared.
Because the loop holds simulated states near the true ones whatever the parameters, the torque depends on them nearly as
the inverse model along those states does, and each Gauss-Newton step is a linear least-squares fit along them. Measured
speeds and accelerations are not used.
"""

from __future__ import annotations

from minidyn.base.base_map import BaseMap
from minidyn.identification.estimators.closed_loop import Simulation, can_simulate, settled, simulated_rows, simulator
from minidyn.identification.estimators.linear_system import SystemFit, fit_system
from minidyn.identification.estimators.method import Method, Options, Solution
from minidyn.identification.estimators.states import best_states, torque_rows
from minidyn.model.robot import Robot
from minidyn.recording.lazy import AnyRecording


def didim(robot: Robot, base: BaseMap, recording: AnyRecording, options: Options) -> Solution:
    """Estimate base parameters by the torques of a simulation in closed loop."""
    whole = recording.load()
    states = best_states(robot, base, whole)
    found = fit_system(base, torque_rows(robot, base, states), options.allow_open)
    origin, passes = states.origin, 0
    if options.controller is not None and can_simulate(whole, options.controller):

        def along(simulation: Simulation) -> SystemFit:
            return fit_system(base, simulated_rows(robot, base, whole, simulation), options.allow_open)

        end = settled(found, simulator(robot, base, whole, options.controller), along)
        found, origin, passes, notices = end.found, f"simulated under {end.simulation.law}", end.passes, end.notices
    else:
        notices = (f"no controller was given: torques are compared along states {origin}",)
    return found.solution(notices, {"states": origin, "passes": passes}, options, len(whole))


DIDIM = Method(
    "didim",
    "torque of a simulation in closed loop",
    didim,
    takes_controller=True,
    simulates_torque=True,
)
