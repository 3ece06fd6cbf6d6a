"""Controllers as pure step functions: (state, measurement, reference) -> (state, torque, telemetry)."""

from __future__ import annotations

from minidyn.control.adaptive import craig, modified_slotine_li, slotine_li
from minidyn.control.controller import Controller, Measurement
from minidyn.control.model_based import computed_torque, pd_gravity
from minidyn.control.momentum_observer import Observer, momentum_observer
from minidyn.control.unknowns import load_of, point_mass
from minidyn.control.watch import Event, Watch

__all__ = [
    "Controller",
    "Event",
    "Measurement",
    "Observer",
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
