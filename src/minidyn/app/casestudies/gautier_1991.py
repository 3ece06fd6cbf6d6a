"""Gautier1991: base parameters of a PUMA 560 by numeric rank (Tables I to V), and the HPR robot
with its loop.
"""

from __future__ import annotations

import numpy as np

from minidyn.app.casestudies.geometry import with_lengths
from minidyn.app.casestudies.study import Curve, Entry, Figure, Study, Table
from minidyn.arrays import Array
from minidyn.base.base_map import BaseMap
from minidyn.base.base_parameters import base_parameters
from minidyn.base.numeric.numeric import scaling_of
from minidyn.base.numeric.samples import JointStates, model_rows
from minidyn.formats.load import load
from minidyn.model.robot import Robot

PAPER = (
    "M. Gautier, Numerical calculation of the base inertial parameters of robots, J. Robotic "
    "Systems 8(4), 1991"
)
# Table II as printed: parameter, T_ii, sigma_i, R_ii, V2 N; XY5's T_ii has lost its first digit
_TABLE_II = """
ZZ1 6.8553e+01 1.2082e+02 -3.8203e+00 1.4128e-01
Ia1 5.9540e+01 9.6715e+01 7.9726e-17 1.2633e+00
XX2 -5.6210e+01 7.8129e+01 -1.1072e+00 -6.4517e-01
XY2 -5.3820e+01 7.0393e+01 -2.7443e+00 -3.0548e-16
XZ2 -5.2934e+01 5.9110e+00 -1.5815e+00 -1.7779e-01
YY2 4.5777e+01 5.5097e+01 -8.3251e-17 -5.2031e-01
YZ2 4.1811e+01 4.9868e+01 -2.3261e+00 4.7093e-16
ZZ2 -4.0388e+01 4.6651e+01 1.2721e+00 2.5507e-02
MX2 -3.8433e+01 4.4702e+01 -2.8195e+01 2.4972e-01
MY2 3.6752e+01 4.0420e+01 -3.6526e+01 -9.2725e-18
Ia2 3.5341e+01 3.9754e+01 -8.1084e-18 9.9354e-02
XX3 -3.2487e+01 3.7589e+01 -1.2027e+00 -6.8264e-01
XY3 3.1803e+01 3.5828e+01 1.7946e+00 8.6334e-03
XZ3 3.0019e+01 3.2022e+01 -4.9349e+00 1.6515e-16
YY3 2.6775e+01 2.8993e+01 -8.8418e-17 -3.5387e-01
YZ3 2.5016e+01 2.6636e+01 5.3286e+00 -3.6194e-16
ZZ3 -2.2815e+01 2.3792e+01 -5.7767e+00 -3.2732e-01
MX3 -1.9409e+01 2.0918e+01 2.2033e+01 3.6423e-02
MY3 1.7306e+01 1.9197e+01 2.8448e+01 -4.3167e-01
MZ3 -1.5057e+01 1.7571e+01 3.1513e-17 -2.5570e-01
M3 -1.4006e+01 1.4026e+01 6.7436e-16 1.3217e+00
Ia3 -9.1768e+00 9.9962e+00 -6.3825e-01 2.6388e-15
XX4 7.9791e+00 9.5516e+00 3.6147e+00 -3.5180e-01
XY4 7.7318e+00 8.1208e+00 7.3713e+00 2.9775e-17
XZ4 6.1533e+00 5.9656e+00 -1.4435e+01 -9.7873e-17
YY4 5.1126e+00 5.0137e+00 -2.4113e-16 -8.4556e-01
YZ4 4.4065e+00 4.6084e+00 9.9817e+00 -1.1408e-16
ZZ4 -3.9558e+00 4.1533e+00 1.4250e+01 4.9376e-01
MX4 -3.0364e+00 3.4905e+00 1.8716e+01 1.8375e-17
MY4 2.9987e+00 2.9391e+00 -2.0361e+01 8.1228e-01
MZ4 -2.7431e+00 2.8430e+00 2.5541e-15 1.5243e-00
M4 -1.7903e+00 2.5664e+00 1.0295e-15 -1.6854e+00
Ia4 1.5204e+00 2.0108e+00 3.4103e+00 1.1091e-16
XX5 1.4065e+00 1.6119e+00 -7.1551e+00 -1.0276e+00
XY5 1.3187e+00 1.2859e+00 -1.0192e+01 1.5193e-18
XZ5 -8.7418e-01 1.1429e+00 -1.5635e+01 1.4820e-17
YY5 -7.7411e-01 8.3973e-01 7.4052e-16 -4.9376e-01
YZ5 5.3603e-01 6.8671e+01 1.3316e+17 9.0862e-17
ZZ5 -4.7190e-01 4.1455e-01 -1.3966e+01 -5.3387e-01
MX5 -2.5204e-01 2.8153e-01 2.0472e+01 9.1535e-17
MY5 -1.6199e-15 1.3828e-15 -1.6395e+01 2.4349e-01
MZ5 -9.0819e-16 9.5098e-16 6.8609e-16 8.1228e-01
M5 -7.6112e-16 8.0914e-16 5.7533e-16 8.2822e-02
Ia5 -5.7027e-16 7.0702e-16 3.9575e+00 1.8610e-16
XX6 -4.5733e-16 6.5005e-16 -1.0858e+01 5.3387e-01
XY6 -2.9198e-16 5.6727e-16 -2.0111e+01 1.2192e-17
XZ6 -2.6984e-16 5.0297e-16 1.9148e+01 1.6842e-17
YY6 -2.4353e-16 4.2402e-16 -1.6120e-15 5.3387e-01
XZ6 2.2046e-16 3.8045e-16 -1.7955e+01 -3.5353e-17
ZZ6 1.3862e-16 3.0940e-16 1.0806e+01 2.6972e-17
MX6 9.5979e-17 2.5514e-16 -1.2469e+01 2.0261e-18
MY6 5.1004e-17 2.0519e-16 1.2599e+01 3.7307e-17
MZ6 2.4312e-17 1.4772e-16 7.8398e-16 -2.4349e-01
M6 1.0142e-18 3.0844e-17 9.9760e-17 -2.1858e-01
Ia6 0.0000e+00 2.1179e-18 5.4424e-01 3.5993e-17
"""
# Table III as printed: parameter, beta N, X1, XB1
_TABLE_III = """
ZZ1 2.1458 0.5000 5.0186
XX2 -0.7925 1.0000 -2.0500
XY2 0.0000 0.7000 0.7000
XZ2 -0.3449 -0.3000 -1.0700
YZ2 0.0000 0.6500 0.6500
ZZ2 0.6250 0.5000 6.5500
MX2 0.7113 1.2000 4.3000
MY2 0.0000 0.6000 0.6000
XX3 0.1707 0.1000 0.7634
XY3 -0.0157 0.7000 0.6872
XZ3 0.0000 0.5500 0.5500
YZ3 0.0000 -0.6000 -0.6000
ZZ3 0.8036 0.2000 0.9646
MX3 0.0101 0.5000 0.5280
MY3 0.7843 0.5000 1.1400
Ia3 0.0000 1.0000 1.0000
XX4 0.3711 0.0600 -0.4200
XY4 0.0000 0.0200 0.0200
XZ4 0.0000 0.0200 0.0200
YZ4 0.0000 0.0150 0.0150
ZZ4 0.4148 0.0500 0.0700
MX4 0.0000 0.0200 0.0200
MY4 -0.2806 0.0100 -0.0700
Ia4 0.0000 0.3000 0.3000
XX5 0.3635 0.0200 0.0200
XY5 0.0000 0.0100 0.0100
XZ5 0.0000 0.0100 0.0100
YZ5 0.0000 0.0100 0.0100
ZZ5 0.7783 0.0400 0.0600
MX5 0.0000 0.0200 0.0200
MY5 0.2119 0.0100 0.0300
Ia5 0.0000 0.3000 0.3000
XX6 -0.7783 0.0200 0.0000
XY6 0.0000 0.0100 0.0100
XZ6 0.0000 0.0100 0.0100
YZ6 0.0000 0.0100 0.0100
ZZ6 0.0000 0.0200 0.0200
MX6 0.0000 0.0100 0.0100
MY6 0.0000 0.0100 0.0100
Ia6 0.0000 0.3000 0.3000
"""
# Table III, continued: the regrouped parameters X2
_X2 = """
Ia1 1.0000
YY2 1.5000
Ia2 4.5000
YY3 0.1000
MZ3 0.3000
M3 4.8000
YY4 0.5000
MZ4 -0.2000
M4 0.8000
YY5 0.0200
MZ5 0.0800
M5 0.5000
YY6 0.0200
MZ6 0.0200
M6 0.1000
"""
_TABLE_V = (
    "ZZR1 = ZZ1 + Ia1 + YY2 + YY3 + 2 R3 MZ3 + (D3² + R3²) M3 + (D3² + D4² + R3²)(M4 + M5 + M6)",
    "XXR2 = XX2 - YY2 - D3² (M3 + M4 + M5 + M6)",
    "XZR2 = XZ2 - D3 MZ3 - D3 R3 (M3 + M4 + M5 + M6)",
    "ZZR2 = ZZ2 + Ia2 + D3² (M3 + M4 + M5 + M6)",
    "MXR2 = MX2 + D3 (M3 + M4 + M5 + M6)",
    "XXR3 = XX3 - YY3 + YY4 + 2 R4 MZ4 + (R4² - D4²)(M4 + M5 + M6)",
    "XYR3 = XY3 - D4 MZ4 - D4 R4 (M4 + M5 + M6)",
    "ZZR3 = ZZ3 + YY4 + 2 R4 MZ4 + (D4² + R4²)(M4 + M5 + M6)",
    "MXR3 = MX3 + D4 (M4 + M5 + M6)",
    "MYR3 = MY3 + MZ4 + R4 (M4 + M5 + M6)",
    "XXR4 = XX4 - YY4 + YY5",
    "ZZR4 = ZZ4 + YY5",
    "MYR4 = MY4 - MZ5",
    "XXR5 = XX5 - YY5 + YY6",
    "ZZR5 = ZZ5 + YY6",
    "MYR5 = MY5 + MZ6",
    "XXR6 = XX6 - YY6",
)
_ZERO = 1e-12  # of the largest entry: what is rounding here
_PRINTED_ZERO = 1e-13  # what is rounding in Table II


def gautier_1991(
    d3: float = 0.5,
    r3: float = 0.2,
    d4: float = 0.02,
    r4: float = 0.6,
    method: str = "qr",
    seed: int = 0,
) -> Study:
    """Return the case study of Gautier1991.

    Args:
        d3: Length D3 of Table I, m.
        r3: Offset R3 of Table I, m.
        d4: Length D4 of Table I, m.
        r4: Offset R4 of Table I, m.
        method: "qr" or "svd".
        seed: Of the random states.

    Implements: Gautier1991 Tables I, II, III and V, section "Application".
    """
    robot = with_lengths(
        load("puma560"), {(2, "tx"): d3, (2, "tz"): r3, (3, "tx"): d4, (3, "tz"): r4}
    )
    base = base_parameters(robot, method=method, model="energy", seed=seed)
    evidence, figure, ratio = _evidence(base, seed)
    tables = (
        Table("Numbers of parameters", "text", _numbers(base)),
        evidence,
        _values(base),
        _beta(base),
        Table("Regrouping relations", "Table V", _relations(base)),
        _loops(),
    )
    sizes = {
        model: _scaling(robot, model, seed) for model in ("torque", "gravity and inertia", "energy")
    }
    gap = "above 1e+10" if ratio > 1e10 else f"{ratio:.0e}"
    shown = ", ".join(f"{model} {value:.0e}" for model, value in sizes.items())
    return Study(
        "gautier-1991",
        PAPER,
        "Base parameters of a PUMA 560 from the energy at random states, by QR and singular "
        "values, and of the Hitachi HPR with its parallelogram.",
        {"d3": d3, "r3": r3, "d4": d4, "r4": r4, "method": method, "seed": seed},
        tables,
        (figure,),
        (
            f"The gap |T_40| / |T_41| is {gap} here, 1.6e+14 as printed. The values of Table II "
            "depend on random states, which are not printed.",
            f"Ratio S of the largest to the smallest entry: {shown}. Printed: d 1e6, d0 1e4, h "
            "1e8; that d0 is better than d is not confirmed.",
            (
                "Table IV (rows of β) is missing in the print; βN of Table III follows from β and "
                "one vector N."
            ),
        ),
    )


def _rows(text: str) -> list[list[str]]:
    return [line.split() for line in text.split("\n") if line]


def _numbers(base: BaseMap) -> tuple[Entry, ...]:
    changed = sum(len(relation.terms) > 1 for relation in base.relations())
    return (
        Entry("standard parameters", "66", float(len(base.robot.layout))),
        Entry("without effect", "11", float(len(base.eliminated))),
        Entry("regrouped", "15", float(len(base.regrouped))),
        Entry("base parameters", "40", float(base.rank)),
        Entry("regrouping relations", "17", float(changed)),
        Entry("unchanged", "23", float(len(base.unchanged))),
        Entry("zero rows of V2", "17", float(len(base.unchanged)), "23, as Table III says"),
    )


def _evidence(base: BaseMap, seed: int) -> tuple[Table, Figure, float]:
    """Return Table II as what is zero in it, its diagonals as a figure, and the gap."""
    printed = _rows(_TABLE_II)
    evidence = base.evidence(seed)
    names, R, T, sigma, V2N = (
        evidence.columns,
        evidence.R,
        evidence.T,
        evidence.singular,
        np.abs(evidence.V2N),
    )
    entries = []
    for name, row, r, v in zip(names, printed, R, V2N):
        if row[0] != name:
            entries.append(
                Entry(
                    f"name of row {names.index(name) + 1}", row[0], name, f"{row[0]} is named twice"
                )
            )
        entries.append(
            Entry(
                f"R_ii of {name}",
                _zero(abs(float(row[3])), _PRINTED_ZERO),
                _zero(r, _ZERO * R.max()),
            )
        )
        entries.append(
            Entry(
                f"V2 N of {name}",
                _zero(abs(float(row[4])), _PRINTED_ZERO),
                _zero(v, _ZERO * V2N.max()),
            )
        )
    entries += _exponents([float(row[2]) for row in printed])
    power = float(np.floor(np.log10(R[names.index("YZ5")])))
    entries.append(
        Entry("power of ten of R_38 (YZ5)", "17", power, "1.3316e+17 should read 1.3316e+01")
    )
    table = Table(
        "What is zero among R_ii and V2 N", "Table II", tuple(entries),
        "A zero R_ii marks a column that is regrouped, a zero of V2 N a parameter that stays as "
        "it is.",
    )  # fmt: skip
    place = np.arange(1.0, len(names) + 1)
    curves = (
        Curve("|T_ii|", place, np.maximum(T, 1e-19)),
        Curve("σ_i", place, np.maximum(sigma, 1e-19)),
        Curve(
            "|T_ii| printed", place, np.maximum(np.abs([float(row[1]) for row in printed]), 1e-19)
        ),
        Curve("σ_i printed", place, np.maximum([float(row[2]) for row in printed], 1e-19)),
    )
    figure = Figure(
        "gautier-1991-gap",
        "The gap after 40 of 55 columns",
        "Table II",
        "place",
        "size",
        curves,
        log=True,
    )
    return table, figure, float(T[base.rank - 1] / T[base.rank])


def _exponents(sigma: list[float]) -> list[Entry]:
    """Return the singular values that do not fall as they must, with the power of ten that lets
    them.
    """
    found = []
    for k in range(1, len(sigma) - 1):
        if sigma[k - 1] >= sigma[k] >= sigma[k + 1] or not sigma[k - 1] >= sigma[k + 1]:
            continue
        right = [
            power
            for power in (-2, -1, 1, 2)
            if sigma[k - 1] >= sigma[k] * 10.0**power >= sigma[k + 1]
        ]
        if right:
            value = sigma[k] * 10.0 ** right[0]
            found.append(
                Entry(
                    f"σ_{k + 1}",
                    f"{sigma[k]:.4e}",
                    value,
                    f"should read {value:.4e}: they must fall",
                )
            )
    return found


def _zero(value: float, limit: float) -> str:
    return "0" if value <= limit else "not 0"


def _values(base: BaseMap) -> Table:
    """Table III: standard parameters X1 and X2, and base parameters XB1."""
    own = dict(zip(base.robot.layout.names, base.robot.parameters))
    found = dict(zip(base.kept, base.values()))
    entries = []
    for name, _, x1, xb1 in _rows(_TABLE_III):
        entries.append(Entry(f"X1 of {name}", x1, float(own[name])))
        entries.append(
            Entry(f"XB1 of {name}", xb1, float(found[name]) if name in found else "not kept")
        )
    entries += [Entry(f"X2 of {name}", value, float(own[name])) for name, value in _rows(_X2)]
    return Table("Values of the base parameters", "Table III", tuple(entries))


def _beta(base: BaseMap) -> Table:
    """Table III, column βN: N is not printed.

    The N that fits all 40 values best must give each of them.
    """
    rows = _rows(_TABLE_III)
    order = [base.kept.index(name) for name, *_ in rows if name in base.kept]
    if len(order) != len(rows):
        return Table("βN of one random vector N", "Table III", ())
    printed = np.array([float(row[1]) for row in rows])
    beta = base.K[order]
    N = np.linalg.lstsq(beta, printed, rcond=None)[0]
    entries = tuple(
        Entry(f"βN of {row[0]}", row[1], float(value)) for row, value in zip(rows, beta @ N)
    )
    return Table(
        "βN of one random vector N",
        "Table III",
        entries,
        "N is not printed: the best fit to the 40 values.",
    )


def _relations(base: BaseMap) -> tuple[Entry, ...]:
    found = {str(r).split(" =")[0]: str(r) for r in base.relations() if len(r.terms) > 1}
    lefts = [text.split(" =")[0] for text in _TABLE_V]
    return tuple(
        Entry(f"relation of {left}", text, found.get(left, "none"))
        for left, text in zip(lefts, _TABLE_V)
    )


def _loops() -> Table:
    hpr = load("hpr")
    entries = (
        Entry(
            "tree, loop opened", "47", float(base_parameters(hpr.open_loops(), method="qr").rank)
        ),
        Entry("with the parallelogram", "35", float(base_parameters(hpr, method="qr").rank)),
    )
    note = (
        "The paper prints neither geometry nor numbers: these are of an independent computation, "
        "geometry assumed."
    )
    return Table("Hitachi HPR", "Fig. 2", entries, note)


def _scaling(robot: Robot, model: str, seed: int) -> float:
    rng = np.random.default_rng(seed)
    q, dq, ddq = (rng.uniform(-1.0, 1.0, (55, robot.n)) * size for size in (np.pi, 1.0, 1.0))
    states = JointStates(q, np.zeros_like(dq) if model == "gravity and inertia" else dq, ddq)
    W: Array = model_rows(robot, "energy" if model == "energy" else "torque", states)
    return scaling_of(W.reshape(-1, W.shape[-1]))
