"""The case study of LuMeng1993.

A four-joint arm picks up an unknown load while it follows a trajectory. Settings that the paper
does not print (bandwidths, gains, the offset of link 4's mass) are chosen so that its convergence
times come out; they are not the paper's own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from minidyn.arrays import Array
from minidyn.control import Controller, craig, modified_slotine_li, point_mass
from minidyn.errors import renamed
from minidyn.formats.load import load
from minidyn.model.robot import Robot
from minidyn.recording.recording import Recording
from minidyn.simulation.simulate import simulate

_CENTRE = np.pi * np.array([8 / 9, 2 / 3, 3 / 4, 15 / 18])
_SWING = np.pi * np.array([4 / 9, 1 / 3, 1 / 4, 8 / 18])
_OMEGA = 2 * np.pi / np.array([1.0, 2.0, 3.0, 4.0])
_SINE = np.array([True, False, True, False])


@dataclass(frozen=True)
class CaseStudy:
    """The outcome: one recording for each law."""

    robot: Robot
    modified_slotine_li: Recording
    craig: Recording

    @property
    def slotine_li(self) -> Recording:
        """The run of the modified law under its name of earlier versions."""
        return self.modified_slotine_li


def case_trajectory(t: ArrayLike) -> tuple[Array, Array, Array]:
    """Return the desired motion (q, dq, ddq).

    Each (..., 4), of LuMeng1993 section V-B with ω = 2π rad/s.
    """
    phase = np.asarray(t, dtype=float)[..., None] * _OMEGA
    s, c = np.sin(phase), np.cos(phase)
    wave, slope = np.where(_SINE, s, c), np.where(_SINE, c, -s)
    return _CENTRE + _SWING * wave, _SWING * _OMEGA * slope, -_SWING * _OMEGA**2 * wave


@renamed(rate="bandwidth")
def lu_meng_case(
    bandwidth: float = 20.0, adaptation: float = 0.03, dt: float = 2.5e-4, duration: float = 2.0
) -> CaseStudy:
    """Run both laws on the case study.

    Mass of link 4 taken as 0.5 kg, truly 1 kg with its load, 20 % initial error.

    Args:
        bandwidth: λ of the modified Slotine-Li law; Craig's has Kp = λ², Kv = 2λ, Ψ = λ.
        adaptation: Γ of both laws.
        dt: Step of the fourth-order integration, s; the laws act in continuous time.
        duration: Seconds.

    Implements: LuMeng1993 section V-B, Figs. 4 and 5.
    """
    robot = load("puma4")
    unknown = {"m4": point_mass(robot, robot.links[-1].com)}
    q0, dq0, _ = case_trajectory(0.0)

    def run(controller: Controller) -> Recording:
        return simulate(
            robot,
            controller,
            case_trajectory,
            duration,
            dt=dt,
            q0=0.8 * q0,
            dq0=dq0,
            control="continuous",
            check=True,
        )

    both: dict[str, Any] = {
        "bandwidth": bandwidth,
        "adaptation": adaptation,
        "unknown": unknown,
        "initial": 0.5,
    }
    modified, other = (
        modified_slotine_li(robot, **both),
        craig(robot, **both, lower=0.05, upper=5.0),
    )
    return CaseStudy(robot, run(modified), run(other))
