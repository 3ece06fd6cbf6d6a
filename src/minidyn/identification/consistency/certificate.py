"""Proof that a model is physically consistent: the numbers that must be positive, each named.

Friction takes power out of every motion, though not each of its terms does. Terms that stay bounded
at every speed (Stribeck's, the knees of the curve) may be negative beside Coulomb friction, as long
as all of them together oppose the motion at every speed: friction that rises out of a crawl is a
negative Stribeck term, one that saturates sharply the difference of two knees. Terms that grow with
the speed may not, or friction would drive the joint at speeds that no log has shown.

A fit knows numbers that must be positive, as many as there are terms. For the terms of such a group
they are: Coulomb friction itself, and the friction of the group at a crawl, at the highest speeds,
and between. What the friction is at all other speeds is looked at afterwards (`least_friction`),
and a joint that fails has terms of one sign instead.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from minidyn.arrays import Array
from minidyn.base.base_map import BaseMap
from minidyn.base.numeric.samples import random_states, units_of
from minidyn.dynamics.drives import Shapes, rotor_inertia_matrix
from minidyn.dynamics.functions import inertia_matrix
from minidyn.errors import ShapeError, UnknownParameters
from minidyn.model.drives import (
    BOUNDED,
    BY_SYMBOL,
    COULOMB,
    CURVE_SPEEDS,
    NON_NEGATIVE,
    STRIBECK_SPEED,
    Motion,
)
from minidyn.model.parameters import Layout, to_pseudo_inertia
from minidyn.model.robot import Robot
from minidyn.notices import Notice, error
from minidyn.text import markdown_cell

_SAMPLES = 100
_COSTLY = (
    0.05  # torque error, relative to the torque, that consistency may add before a notice asks why
)
_COSTLY_RESIDUAL = (
    0.1  # growth of the residual's root mean square, likewise; both, since 10 % of little is less
)

COSTS = error(
    "consistency.costs",
    "A physically consistent model fits the data clearly worse than least squares.",
    "Data and physics disagree. Check signs and units of torques and positions, gear ratios, and "
    "whether the model lacks a term (friction, springs, cables).",
)
NOT_CERTIFIED = error(
    "consistency.not_certified",
    "The certificate of the result has a number that is not positive.",
    "Do not put this model into a simulator before this is resolved.",
)

_SPEEDS = np.concatenate([[1e-9], np.geomspace(1e-5, 1e4, 1801), [1e9]])
"""Speeds, rad/s or m/s, between which terms hardly change.

Before the first and after the last none does.
"""

_MIDDLE = int(np.argmin(np.abs(_SPEEDS - np.sqrt(CURVE_SPEEDS[0] * CURVE_SPEEDS[1]))))
"""Between the knees of the curve."""


@dataclass(frozen=True, eq=False)
class Certificate:
    """What shows that a model can exist.

    Attributes:
        links: Names of the links.
        eigenvalues: Smallest eigenvalue of each link's pseudo-inertia (links,), lengths measured by
            the body's own radius of gyration and masses by its own: 1/3 for a ball, 0 for a sheet
            or rod, negative for no body.
        drives: Names of the rotor inertias and friction terms that cannot be negative, or of sums
            of friction terms.
        drive_values: Their values, SI units; of a sum, the least over all speeds.
        inertia_matrix: Smallest eigenvalue of the inertia matrix with rotors, scaled to a unit
            diagonal, over sampled positions in the joint range; 0 where a joint moves no mass.
        pseudo_inertias: Smallest eigenvalue of each link's pseudo-inertia as it stands (links,), SI
            units (kg, kg m, kg m² together): what an LMI bounds from below.
        everywhere: Whether the inertia matrix is proved positive definite at every position, not
            only at the samples: kinetic energy is a sum over links that are real bodies and rotors
            that are not negative.
        bound: A number that no eigenvalue of the inertia matrix falls below at any position, SI
            units: what the rotors alone give; 0 where they give none; NaN where nothing is proved.
        samples: Number of positions.
        total_mass: Of all moving links, kg.
        prior_mass: The same of the robot as it was before; NaN where unknown.
    """

    links: tuple[str, ...]
    eigenvalues: Array
    drives: tuple[str, ...]
    drive_values: Array
    inertia_matrix: float
    pseudo_inertias: Array
    everywhere: bool
    bound: float
    samples: int
    total_mass: float
    prior_mass: float = math.nan

    @property
    def consistent(self) -> bool:
        """Every link strictly consistent.

        No drive term negative, inertia matrix positive definite.
        """
        return bool(
            np.all(self.eigenvalues > 0)
            and np.all(self.drive_values >= 0)
            and self.inertia_matrix > 0
        )

    @property
    def smallest(self) -> float:
        """The smallest of the links' eigenvalues."""
        return float(self.eigenvalues.min())

    def reasons(self) -> tuple[str, ...]:
        """Return in words what is not consistent; empty where all is."""
        found = [
            f"link {name!r}: smallest eigenvalue {value:.3g}"
            for name, value in zip(self.links, self.eigenvalues)
            if not value > 0
        ]
        found += [
            f"{name} = {value:.3g} < 0"
            for name, value in zip(self.drives, self.drive_values)
            if not value >= 0
        ]
        if not self.inertia_matrix > 0:
            found.append(f"inertia matrix: smallest scaled eigenvalue {self.inertia_matrix:.3g}")
        return tuple(found)

    @property
    def statement(self) -> str:
        """What is known of the inertia matrix, in words.

        Proved for every position, or only sampled.
        """
        sampled = (
            f"smallest scaled eigenvalue {self.inertia_matrix:.3g} at {self.samples} positions"
        )
        if not self.everywhere:
            return f"{sampled}; not proved between them"
        bound = f", no eigenvalue below {self.bound:.3g}" if self.bound > 0 else ""
        return (
            "positive definite at every position (all links are bodies, no rotor "
            f"negative){bound}; {sampled}"
        )

    def table(self) -> str:
        """Return a Markdown table of what must be positive, and what is known of inertia matrix and
        mass.
        """
        lines = ["| must be positive | value | without units |", "|---|---:|---:|"]
        for name, value, scaled in zip(self.links, self.pseudo_inertias, self.eigenvalues):
            shown = markdown_cell(name)
            lines.append(
                f"| smallest eigenvalue of the pseudo-inertia of {shown} | {value:.4g} | "
                f"{scaled:.4g} |"
            )
        lines += [
            f"| {name} | {value:.4g} | |" for name, value in zip(self.drives, self.drive_values)
        ]
        lines += ["", f"inertia matrix: {self.statement}", f"total mass: {self.mass_statement}"]
        return "\n".join(lines)

    @property
    def mass_statement(self) -> str:
        """The total mass, and how it compares with the robot file."""
        known = math.isfinite(self.prior_mass) and self.prior_mass > 0
        if not known:
            return f"{self.total_mass:.4g} kg; the robot file does not say"
        ratio = self.total_mass / self.prior_mass
        more = f"{100 * (ratio - 1):+.1f} %" if ratio < 10 else f"{ratio:.3g} times as much"
        return f"{self.total_mass:.4g} kg; the robot file says {self.prior_mass:.4g} kg ({more})"

    def to_json(self) -> dict[str, Any]:
        """Return plain lists, numbers and text."""
        return {
            "consistent": self.consistent,
            "links": {
                name: {"smallest_eigenvalue": float(value), "scaled": float(scaled)}
                for name, value, scaled in zip(self.links, self.pseudo_inertias, self.eigenvalues)
            },
            "drives": {name: float(value) for name, value in zip(self.drives, self.drive_values)},
            "inertia_matrix": {
                "smallest_scaled_eigenvalue": self.inertia_matrix,
                "samples": self.samples,
                "proved_everywhere": self.everywhere,
                "bound": self.bound,
                "statement": self.statement,
            },
            "total_mass": self.total_mass,
            "prior_mass": self.prior_mass,
            "reasons": list(self.reasons()),
        }

    def __repr__(self) -> str:
        word = "consistent" if self.consistent else "not consistent"
        return (
            f"Certificate({word}: links >= {self.smallest:.3g}, inertia matrix >= "
            f"{self.inertia_matrix:.3g})"
        )


def certify(
    robot: Robot, phi: ArrayLike | None = None, *, prior: ArrayLike | None = None
) -> Certificate:
    """Return the certificate of standard parameters (p,); None: the robot's own.

    Args:
        robot: The robot.
        phi: Standard parameters (p,); None: the robot's own.
        prior: Standard parameters (p,) of the prior, for the total mass.

    Raises:
        UnknownParameters: A parameter is NaN.
    """
    values = robot.parameters if phi is None else np.asarray(phi, dtype=float)
    layout = robot.layout
    if values.shape != (len(layout),):
        raise ShapeError(f"parameters: expected shape ({len(layout)},), got {values.shape}")
    unknown = [name for name, value in zip(layout.names, values) if not np.isfinite(value)]
    if unknown:
        shown = ", ".join(unknown[:8]) + (" ..." if len(unknown) > 8 else "")
        raise UnknownParameters(
            f"no certificate for robot {robot.name!r}: unknown parameters {shown}"
        )
    eigenvalues = np.array([_smallest(values[part]) for part in layout.links])
    names, drive_values = drive_numbers(robot, values)
    pseudo = np.array(
        [np.linalg.eigvalsh(to_pseudo_inertia(values[part]))[0] for part in layout.links]
    )
    for array in (eigenvalues, drive_values, pseudo):
        array.setflags(write=False)
    everywhere = bool(np.all(pseudo > 0) and np.all(eigenvalues > 0) and np.all(drive_values >= 0))
    smallest = _inertia_matrix(robot, values)
    bound = _rotor_bound(robot, values) if everywhere else math.nan
    mass, before = _mass_of(layout, values), _mass_of(layout, prior)
    return Certificate(
        robot.link_names,
        eigenvalues,
        names,
        drive_values,
        smallest,
        pseudo,
        everywhere,
        bound,
        _SAMPLES,
        mass,
        before,
    )


def proved(
    robot: Robot, base: BaseMap, R: Array, z: Array, phi: Array, rss: float | None
) -> tuple[Array, float, float, Certificate, list[Notice]]:
    """Return beta, misfit, least misfit of any beta, the certificate of parameters (p,), and
    notices on both.
    """
    beta, (best, *_) = base.matrix @ phi, np.linalg.lstsq(R, z, rcond=None)
    misfit = float(np.sum((R @ beta - z) ** 2))
    before = min(float(np.sum((R @ best - z) ** 2)), misfit)
    certificate, notices = certify(robot, phi), list[Notice]()
    if reasons := certificate.reasons():
        notices.append(
            NOT_CERTIFIED(
                "the result could not be certified: " + "; ".join(reasons), reasons=list(reasons)
            )
        )
    notices += _cost(misfit - before, float(z @ z), rss, base.rank)
    phi.setflags(write=False)
    beta.setflags(write=False)
    return beta, misfit, before, certificate, notices


def _cost(increase: float, size: float, rss: float | None, rank: int) -> list[Notice]:
    """Return a notice where consistency costs much.

    Beside the torque and, where known, beside the residual.
    """
    added = math.sqrt(increase / size) if size > 0 else 0.0
    text = (
        f"consistency costs {100 * added:.3g} % of fit (torque error that it adds, relative to "
        "the torque)"
    )
    costly = added > _COSTLY and increase > 4 * rank
    data = {"share": added}
    if rss is not None and rss > 0:
        grown = math.sqrt(1.0 + increase / rss) - 1.0
        costly = added > _COSTLY and grown > _COSTLY_RESIDUAL
        text += f", {100 * grown:.3g} % more residual"
        data["residual"] = grown
    if not costly:
        return []
    why = "the model structure, signs or units may be wrong, or the prior weighs too much"
    return [COSTS(f"{text}: {why}", **data)]


def is_consistent(robot: Robot) -> bool:
    """Say whether a robot's own parameters are known and physically consistent."""
    return bool(np.isfinite(robot.parameters).all()) and certify(robot).consistent


def _smallest(phi: Array) -> float:
    """Return the smallest eigenvalue about the centre of mass, or about the origin where there is
    no such centre.
    """
    P = to_pseudo_inertia(phi)
    mass = P[3, 3]
    if mass > 0:
        about_com = P[:3, :3] - np.outer(P[:3, 3], P[:3, 3]) / mass
        size = float(np.trace(about_com))
        moments = np.linalg.eigvalsh(about_com)
        # a trace that is not positive gives no scale: only the sign matters then
        return float(moments[0] / size) if size > 0 else min(-1.0, float(moments[0]))
    return -1.0 if np.any(P) else 0.0


def _inertia_matrix(robot: Robot, phi: Array) -> float:
    """Return the smallest scaled eigenvalue over positions within the limits.

    Without them a turn or ±2 lengths.
    """
    rng = np.random.default_rng(0)
    q = random_states(robot, units_of(robot), _SAMPLES, rng).q
    if not (robot.implicit_loops or robot.formulas):
        for place, index in enumerate(robot.independent, robot.nq - len(robot.independent)):
            limits = robot.joints[index].limits
            if math.isfinite(limits.lower) and math.isfinite(limits.upper):
                q[:, place] = rng.uniform(limits.lower, limits.upper, size=_SAMPLES)
    M = inertia_matrix(robot, q, phi)
    diagonal = np.diagonal(M, axis1=-2, axis2=-1)
    if np.any(diagonal <= 0):
        return min(-1.0, float(diagonal.min())) if np.any(diagonal < 0) else 0.0
    root = np.sqrt(diagonal)
    return float(np.linalg.eigvalsh(M / (root[:, :, None] * root[:, None, :]))[:, 0].min())


def _rotor_bound(robot: Robot, phi: Array) -> float:
    """Return the smallest eigenvalue of what rotors alone add to the inertia matrix.

    0 where joints follow others, and with a free base. M(q) = links(q) + rotors, and links(q) is
    positive semidefinite, so that this is a bound at every position.
    """
    if robot.loops or robot.free_base or any(joint.follows for joint in robot.joints):
        return 0.0
    every = np.array(rotor_inertia_matrix(robot, phi.tolist()), dtype=float)
    own = every[np.ix_(robot.independent, robot.independent)]
    return max(0.0, float(np.linalg.eigvalsh(own)[0]))


def _mass_of(layout: Layout, phi: ArrayLike | None) -> float:
    values = np.full(len(layout), np.nan) if phi is None else np.asarray(phi, dtype=float)
    if values.shape != (len(layout),):
        raise ShapeError(f"prior: expected shape ({len(layout)},), got {values.shape}")
    return float(sum(values[part][9] for part in layout.links))


@dataclass(frozen=True)
class Group:
    """Bounded friction terms of one drive."""

    joint: int  # its index
    columns: NDArray[
        np.intp
    ]  # places of its terms among the standard parameters (k,), Coulomb friction first
    basis: Array  # (k, k): times their values, the numbers that must be positive, N m or N
    # (speeds, k): the terms at _SPEEDS for values of 1, over Coulomb friction; monotonous between
    shapes: Array

    def least_friction(self, phi: Array) -> float:
        """Return what the group's friction does not fall below at any speed, N m or N.

        A bound, and nearly reached. Over Coulomb friction of 1, that is: where that is smoothed
        about reversals, so is the group.
        """
        parts = self.shapes * phi[self.columns]
        return float(np.minimum(parts[:-1], parts[1:]).sum(axis=1).min())


def groups(robot: Robot, plain: Collection[int] = ()) -> list[Group]:
    """Return the bounded terms of each drive that has others beside Coulomb friction.

    But for plain joints.
    """
    found, still = [], np.zeros(len(_SPEEDS))
    for joint, columns in enumerate(robot.layout.drives):
        own = [column for column in columns if column.symbol in (COULOMB, *BOUNDED)]
        if len(own) < 2 or own[0].symbol != COULOMB or joint in plain:
            continue
        drive = robot.joints[joint].drive
        shapes, fall = Shapes(robot, []), drive.stribeck_speed or STRIBECK_SPEED
        motions = [
            Motion(column.symbol, joint, _SPEEDS, _SPEEDS, still, still, fall, shapes)
            for column in own
        ]
        terms = [BY_SYMBOL[column.symbol].value for column in own]
        values = [term(motion) for term, motion in zip(terms, motions) if term is not None]
        over = np.stack(values, axis=1) / values[0][:, None]
        rows, most = np.eye(len(own))[:1], over[[0, -1, _MIDDLE]]
        while len(rows) < len(own):  # what says most beside the numbers that are there
            Q = np.linalg.qr(rows.T)[0]
            says = np.linalg.norm(most - most @ Q @ Q.T, axis=1)
            rows = np.vstack([rows, most[np.argmax(says)]])
        found.append(
            Group(joint, np.array([column.index for column in own], dtype=np.intp), rows, over)
        )
    return found


def drive_numbers(robot: Robot, phi: Array) -> tuple[tuple[str, ...], Array]:
    """Return names and values of what must not be negative in drives.

    Parameters, and least frictions of groups. A group stands for its terms but Coulomb friction
    where one of them is negative.
    """
    sums = {
        group.columns[1]: (group, group.least_friction(phi))
        for group in groups(robot)
        if np.any(phi[group.columns[1:]] < 0)
    }
    within = {place for group, _ in sums.values() for place in group.columns[1:]}
    names, values = [], []
    for column in (column for columns in robot.layout.drives for column in columns):
        if column.index in sums:
            group, least = sums[column.index]
            names.append(" + ".join(robot.layout.names[place] for place in group.columns))
            values.append(least)
        elif column.symbol in NON_NEGATIVE and column.index not in within:
            names.append(column.name)
            values.append(float(phi[column.index]))
    return tuple(names), np.array(values)


def driving(robot: Robot, phi: Array) -> list[int]:
    """Return indices of the joints whose friction would drive them at some speed, or might."""
    return [group.joint for group in groups(robot) if group.least_friction(phi) < 0]
