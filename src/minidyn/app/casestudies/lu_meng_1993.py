"""LuMeng1993: the regressor of a two-joint arm (section III-C), and adaptive control with an
unknown load (V-B).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from minidyn.app.casestudies.study import Curve, Entry, Figure, Study, Table
from minidyn.arrays import Array
from minidyn.dynamics.functions import regressor
from minidyn.dynamics.regressor_forms import lumeng16
from minidyn.model.robot import Robot
from minidyn.recording.recording import Recording
from minidyn.simulation.case_study import lu_meng_case

PAPER = (
    "W.-S. Lu and Q.-H. Meng, Regressor formulation of robot dynamics: computation and "
    "applications, IEEE Trans. Robotics and Automation 9(3), 1993"
)
_Q, _DQ, _DDQ = np.array([0.3, -0.7]), np.array([0.5, 1.1]), np.array([-0.4, 0.8])
_COLUMNS = ("m2", "m3", "m3 px", "m3 px²", "Izz")
# eq. (61) as printed, each entry as Python; the rows' errata stand beside them
_PRINTED_61 = (
    (
        "l1*(a1 + c1*g)",
        (
            "(l1**2 + 2*l1*l2 + l2**2)*a1 + l2*(l1*c2 + l2)*a2 - l1*l2*s2*v2*(2*v1 + q2) + (l1*c1 "
            "+ l2*c12)*g"
        ),
        "2*(l1*c2 + l2)*a1 + (l1*c2 + 2*l2)*a2 - l1*s2*v2*(2*v1 + v2) + c12*g",
        "a1 + a2",
        "a1 + a2",
    ),
    (
        "0",
        "l2*(l1*c2 + l2)*a1 + l2**2*a2 + l1*l2*s2*v1**2 + l2*c12*g",
        "(l1*c2 + 2*l2)*a1 + 2*l2**2*a2 + l1*s2*v1**2 + c12*g",
        "a1 + a2",
        "a1 + a2",
    ),
)
_ERRATA_61 = {
    (0, 0): "l1 (l1 q̈1 + c1 g)",
    (0, 1): "2 l1 l2 c2, and q̇2 for q2",
    (1, 2): "2 l2 q̈2",
}


def lu_meng_1993(
    bandwidth: float = 20.0,
    adaptation: float = 0.03,
    dt: float = 2.5e-4,
    duration: float = 2.0,
    l1: float = 1.1,
    l2: float = 0.8,
) -> Study:
    """Return the case study of LuMeng1993.

    Args:
        bandwidth: λ of the modified law; Craig's has Kp = λ², Kv = 2λ, Ψ = λ. The paper prints
            none.
        adaptation: Γ of both laws; the paper prints none.
        dt: Step of integration, s.
        duration: Seconds.
        l1: Length of link 1 of the two-joint arm, m.
        l2: Length of link 2 of the two-joint arm, m.

    Implements: LuMeng1993 eq. (61), (65), section V-B, Figs. 4 and 5.
    """
    found = lu_meng_case(bandwidth, adaptation, dt, duration)
    runs = {"modified_slotine_li": found.modified_slotine_li, "craig": found.craig}
    printed = {"modified_slotine_li": "< 0.3", "craig": "about 0.35"}
    entries, figures, numbers = list[Entry](), list[Figure](), dict[str, dict[str, float]]()
    for number, (law, run) in zip((4, 5), runs.items()):
        error = np.abs(run.telemetry["error"]).max(axis=1)
        after = settled(run.t, error <= 0.05 * error[0])
        closer = settled(run.t, error <= 0.02 * error[0])
        remark = f"which tolerance is acceptable is not printed; below 2 % after {closer:.3f} s"
        entries.append(
            Entry(f"{law}: tracking error below 5 % after, s", printed[law], after, remark)
        )
        numbers[law] = {"t5": after, "mass": float(run.telemetry["estimate"][-1, 0])}
        entries.append(
            Entry(f"{law}: mass at the end, kg", "1.0", float(run.telemetry["estimate"][-1, 0]))
        )
        figures += _figures(number, law, run)
    mass = {
        law: settled(run.t, np.abs(run.telemetry["estimate"][:, 0] - 1.0) <= 0.025)
        for law, run in runs.items()
    }
    for law, time in mass.items():
        numbers[law]["tm5"] = time
    quicker = min(mass, key=lambda law: mass[law])
    entries.append(
        Entry(
            "mass found within 5 % sooner by",
            "modified_slotine_li",
            quicker,
            "depends on the gains",
        )
    )
    tables = (
        Table(
            f"Regressor of the two-joint arm at l1 = {l1:g}, l2 = {l2:g}, a random state",
            "eq. (61)",
            tuple(_regressor_entries(l1, l2)),
            "The printed formulas are evaluated as printed; the other column is this library's "
            "regressor (65).",
        ),
        Table(
            "Convergence of both laws",
            "section V-B",
            tuple(entries),
            "Gains are chosen: the paper prints none.",
        ),
    )
    violated = [notice.text for run in runs.values() for notice in run.notices]
    return Study(
        "lu-meng",
        PAPER,
        "A four-joint arm follows a path with a load it does not know, starting 20 % away from "
        "it. The mass of link 4 is taken as 0.5 kg and is 1 kg with the load.",
        {
            "bandwidth": bandwidth,
            "adaptation": adaptation,
            "dt": dt,
            "duration": duration,
            "l1": l1,
            "l2": l2,
        },
        tables,
        tuple(figures),
        (
            (
                "With the mass on joint 4's axis, as the paper says, the inertia matrix is "
                "singular; here it is 0.2 m off."
            ),
            (
                "Stability of the modified law is semi-global (λM must exceed Ṁ/2 on the way); "
                "the paper says global."
            ),
            *violated,
        ),
        runs,
        numbers,
    )


def settled(t: Array, inside: NDArray[np.bool_]) -> float:
    """Return the time after which a condition holds to the end."""
    outside = np.flatnonzero(~inside)
    return float(t[0] if not len(outside) else t[min(outside[-1] + 1, len(t) - 1)])


def _figures(number: int, law: str, run: Recording) -> list[Figure]:
    t, told = run.t[::20], run.telemetry
    joints = range(told["error"].shape[1])
    paths = [Curve(f"joint {k + 1}", t, told["q_true"][::20, k]) for k in joints]
    ideal = [Curve("ideal", t, told["q_d"][::20, k]) for k in joints]
    errors = [Curve(f"joint {k + 1}", t, told["error"][::20, k]) for k in joints]
    masses = [Curve("estimated", t, told["estimate"][::20, 0]), Curve("true", t, np.ones(len(t)))]
    key = f"lu-meng-{law.replace('_', '-')}"
    return [
        Figure(
            f"{key}-path",
            f"{law}: actual and ideal path",
            f"Fig. {number}(a)",
            "time, s",
            "rad",
            (*paths, *ideal),
        ),
        Figure(
            f"{key}-error",
            f"{law}: tracking errors",
            f"Fig. {number}(b)",
            "time, s",
            "rad",
            tuple(errors),
        ),
        Figure(
            f"{key}-mass",
            f"{law}: estimated m4",
            f"Fig. {number}(c)",
            "time, s",
            "kg",
            tuple(masses),
        ),
    ]


def _regressor_entries(l1: float, l2: float) -> list[Entry]:
    values = {
        "l1": l1,
        "l2": l2,
        "g": 9.81,
        "q2": _Q[1],
        "c1": math.cos(_Q[0]),
        "c2": math.cos(_Q[1]),
    }
    values |= {"s2": math.sin(_Q[1]), "c12": math.cos(_Q.sum())}
    values |= dict(zip(("v1", "v2", "a1", "a2"), (*_DQ, *_DDQ)))
    arm = Robot.from_mdh("RR", a=[0.0, l1], gravity=[0, -9.81, 0]).with_parameters(_point_masses())
    place = np.eye(4)
    place[0, 3] = l2
    robot = arm.with_load(
        place, {"mass": 1.5, "com": [0.25, 0, 0], "inertia": np.diag([0, 0.05, 0.05])}
    )
    Y = regressor(robot, _Q, _DQ, _DDQ, parametrization="lumeng16", columns=lumeng16(robot).needed)
    entries = []
    for i, row in enumerate(_PRINTED_61):
        for k, text in enumerate(row):
            printed = eval(text, {"__builtins__": {}}, values)  # noqa: S307 - the formulas above and nothing else
            wrong = _ERRATA_61.get((i, k), "")
            entries.append(
                Entry(f"row {i + 1}, {_COLUMNS[k]}", f"{float(printed):.6f}", float(Y[i, k]), wrong)
            )
    return entries


def _point_masses() -> Array:
    values = np.zeros(20)
    values[[9, 19]] = 2.0
    return values
