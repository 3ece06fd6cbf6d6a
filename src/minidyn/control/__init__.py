"""Controllers as pure step functions.

(state, measurement, reference) -> (state, torque, telemetry).
"""

from __future__ import annotations

from minidyn.control.adaptive import craig, modified_slotine_li, slotine_li
from minidyn.control.controller import Controller, Measurement
from minidyn.control.model_based import computed_torque, pd_gravity
from minidyn.control.momentum_observer import Observer, ObserverStep, momentum_observer
from minidyn.control.sample_status import SampleStatus
from minidyn.control.unknowns import load_of, point_mass
from minidyn.control.watch import Event, Pause, Watch

__all__ = [
    "Controller",
    "Event",
    "Measurement",
    "Observer",
    "ObserverStep",
    "Pause",
    "SampleStatus",
    "Watch",
    "computed_torque",
    "craig",
    "load_of",
    "modified_slotine_li",
    "momentum_observer",
    "pd_gravity",
    "point_mass",
    "slotine_li",
]
