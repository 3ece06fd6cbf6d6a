"""Lin1994: minimal linear combinations by Theorems 3, 4 and 5, and the equivalence of
Corollary 6.
"""

from __future__ import annotations

import math

import numpy as np

from minidyn.app.casestudies.study import Curve, Entry, Figure, Study, Table
from minidyn.base.base_parameters import base_parameters
from minidyn.base.equivalence import equivalence
from minidyn.formats.load import load
from minidyn.model.robot import Robot

PAPER = (
    "S.-K. Lin, An approach to the identifiable parameters of a manipulator, J. Robotic Systems "
    "11(7), 1994"
)
_RIGHT = math.pi / 2
_DOWN, _NONE = (0.0, 0.0, -9.81), (0.0, 0.0, 0.0)
# what is known of each small chain: joints, alpha, a, d, gravity, number by Theorem 5 as printed,
# erratum
_SMALL = (
    ("RR vertical, parallel with offset", "RR", (0, 0), (0, 0.4), (0, 0), _DOWN, "4", ""),
    ("RR vertical, coaxial", "RR", (0, 0), (0, 0), (0, 0.3), _DOWN, "2", ""),
    ("RP, P parallel to a vertical R", "RP", (0, 0), (0, 0.4), (0, 0), _DOWN, "2", ""),
    ("RP, P oblique to a vertical R", "RP", (0, 0.7), (0, 0.4), (0, 0), _DOWN, "4", ""),
    (
        "PR, P not parallel to a vertical R",
        "PR",
        (_RIGHT, -_RIGHT),
        (0, 0.4),
        (0, 0),
        _DOWN,
        "4",
        "",
    ),
    (
        "two intersecting R without gravity",
        "RR",
        (0, _RIGHT),
        (0, 0),
        (0, 0),
        _NONE,
        "8",
        "6: axes meet",
    ),
    (
        "spherical 3R without gravity",
        "RRR",
        (0, _RIGHT, _RIGHT),
        (0, 0, 0),
        (0, 0, 0),
        _NONE,
        "15",
        "11: axes meet",
    ),
)
# the set of the Stanford arm by Theorem 5, printed in Lin1992 section 4
_STANFORD = (
    "U33_1",
    *(f"{name}_{j}" for j in (2, 4, 5, 6) for name in ("U11_22", "U33", "U12", "U13", "U23")),
    *(f"k{j}{axis}" for j in (2, 4, 5, 6) for axis in "xy"),
    "m3",
    *("k3x", "k3y", "k3z"),
)


def lin_1994(chains: int = 60, seed: int = 0) -> Study:
    """Return the case study of Lin1994.

    Args:
        chains: Random chains on which Theorem 5 is compared with the rank of the regressor.
        seed: Of the random chains.

    Implements: Lin1994 Theorems 3, 4 and 5, Corollary 6.
    """
    stanford = load("stanford")
    small = tuple(_small(*case) for case in _SMALL)
    rule = base_parameters(stanford, method="mlc")
    names = [
        Entry(name, "in the set", "in the set" if name in rule.names else "not")
        for name in _STANFORD
    ]
    same = equivalence(rule, base_parameters(stanford))
    names.append(Entry("constants in all", "33", float(rule.rank)))
    names.append(
        Entry("equivalent to the exact set (Corollary 6)", "yes", "yes" if _regular(same) else "no")
    )
    tables = (
        Table(
            "Number of minimal combinations of small chains",
            "Theorem 5",
            small,
            "Computed: rank of the regressor.",
        ),
        Table("A set of the Stanford arm", "Theorem 5, Lin1992 section 4", tuple(names)),
        _models(),
        _random(chains, seed),
    )
    sizes = np.arange(1.0, 8.0)
    counts = np.array(
        [_chain("R" * int(n), np.random.default_rng(int(n))) for n in sizes], dtype=object
    )
    ranks = np.array([base_parameters(robot, method="mlc").rank for robot in counts], dtype=float)
    figure = Figure(
        "lin-1994-growth",
        "Parameters of chains of rotational joints, general geometry",
        "Theorem 5",
        "joints",
        "number",
        (
            Curve("standard parameters", sizes, 10.0 * sizes),
            Curve("minimal combinations", sizes, ranks),
        ),
    )
    return Study(
        "lin-1994",
        PAPER,
        "The paper has no tables; its theorems say how many combinations of inertia parameters a "
        "motion can show, and which. They are counted here by the theorems, and by the rank of "
        "the regressor at random states.",
        {"chains": chains, "seed": seed},
        tables,
        (figure,),
        (
            "Theorem 5 is used as corrected: joint j before s keeps (k_j)x, (k_j)y unless "
            "gravity, all translational joints before it and its own axis leave them without "
            "effect.",
        ),
    )


def _small(
    name: str,
    joints: str,
    alpha: tuple[float, ...],
    a: tuple[float, ...],
    d: tuple[float, ...],
    gravity: tuple[float, float, float],
    printed: str,
    erratum: str,
) -> Entry:
    robot = Robot.from_mdh(joints, list(alpha), list(a), list(d), gravity=gravity)
    return Entry(name, printed, float(base_parameters(robot, method="qr").rank), erratum)


def _regular(transformation: np.ndarray) -> bool:
    return bool(
        transformation.shape[0] == transformation.shape[1] == np.linalg.matrix_rank(transformation)
    )


def _models() -> Table:
    """Theorem 4 (gravity alone) and Theorem 3 (inertia matrix).

    Numbers by rule against numbers by rank.
    """
    entries = []
    for theorem, model in (("Theorem 4", "gravity"), ("Theorem 3", "inertia")):
        for name in ("stanford", "puma560", "rx90", "scara"):
            robot = load(name)
            by_rule, by_rank = (
                base_parameters(robot, method=method, model=model).rank for method in ("mlc", "qr")
            )
            entries.append(Entry(f"{theorem}, {name}: {model} alone", str(by_rule), float(by_rank)))
    return Table(
        "Numbers for gravity alone and for the inertia matrix alone", "Theorems 3 and 4", tuple(entries),  # noqa: E501
        "Not printed: the first column is counted by the theorem, the second by rank.",
    )  # fmt: skip


def _chain(joints: str, rng: np.random.Generator) -> Robot:
    n = len(joints)
    return Robot.from_mdh(
        joints, rng.uniform(0.3, 1.2, n), rng.uniform(0.1, 0.5, n), rng.uniform(0.1, 0.5, n)
    )


def _random(chains: int, seed: int) -> Table:
    rng = np.random.default_rng(seed)
    right = 0
    for _ in range(chains):
        n = int(rng.integers(1, 6))
        special = rng.choice([0.0, _RIGHT, -_RIGHT, 0.6], n)
        lengths = rng.choice([0.0, 0.0, 0.3, 0.5], (2, n))
        gravity = ((0, 0, -9.81), (0, -9.81, 0), (2.0, 3.0, -9.0))[rng.integers(3)]
        joints = "".join(rng.choice(["R", "R", "P"], n))
        robot = Robot.from_mdh(joints, special, lengths[0], lengths[1], gravity=gravity)
        right += (
            base_parameters(robot, method="mlc").rank == base_parameters(robot, method="qr").rank
        )
    entry = Entry(
        f"of {chains} random chains, as many as Theorem 5 says", str(chains), float(right)
    )
    return Table("Random chains with special geometry, up to five joints", "Theorem 5", (entry,))
