"""What the robots of a fleet share, and which of them are unlike the others.

Torques of robot i are those of the links that all share, scaled by drive gains 1 + g_i of its own,
and of friction f_i of its own; f_i varies about a mean f, g_i about zero, with spreads that the
fleet shows. What a robot may have, beside that: a friction torque, an offset or a gain of one joint
that is unlike those of the others, or a load on a link. Each of these causes is estimated for every
robot with its own part free and all other terms of the robot varying by their spreads, and compared
with those of the other robots alone (`chances.py`). The probability of a false alarm is that of all
causes together. Robots that are clearly different do not count among the others, nor for what all
share.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from minidyn.arrays import Array
from minidyn.base.base_map import BaseMap
from minidyn.identification.diagnose.thresholds import FAIR, STDS
from minidyn.identification.estimators.solve import ROUNDING
from minidyn.identification.fleet.chances import Together, others
from minidyn.identification.fleet.members import Member, friction_levels, friction_of
from minidyn.identification.friction.shared import Joined, Split, pooled_spread, spread_of
from minidyn.identification.payload.columns import LOAD_SIZE, carrier_of, of_frame
from minidyn.identification.problem import BlockProblem, Rows
from minidyn.identification.sizes import FAINT, MAX_FITS
from minidyn.model.drives import FRICTION
from minidyn.model.geometry import matrix_of
from minidyn.model.joint import torque_unit

FIRST_GAIN_SPREAD = 0.02  # size: of drive gains, where the passes begin
FREE_WEIGHT = 1e-8  # rounding: of a prior that is to decide nothing, over the spread's own
COMPARED = 40  # size: robots that say what is usual beside a cause
MAX_DIFFERENT = 1 / 3
"""Of a fleet: it is what most robots are like."""

KINDS = ("friction", "offset", "gain", "load")
"""What may be unlike other robots."""


@dataclass(frozen=True)
class Deviation:
    """How one robot differs from the others.

    Attributes:
        robot: Its name.
        kind: "friction" (torque of a joint's friction, as a share of the fleet's), "offset" (N m or
            N), "gain" (of a drive, as a share) or "load" (mass, kg).
        joint: Name of the joint; "" for a load.
        value: Difference from the other robots.
        std: Its standard deviation, without how much healthy robots differ.
        p: Probability that a robot like the others shows as much or more, this cause alone.
        unit: Of an offset.
    """

    robot: str
    kind: str
    joint: str
    value: float
    std: float
    p: float
    unit: str = ""

    @property
    def text(self) -> str:
        """In words: "friction of joint 'elbow' +21 %"."""
        if self.kind == "load":
            return f"load at the flange {self.value:.2g} kg"
        size = (
            f"{100 * self.value:+.2g} %"
            if self.kind != "offset"
            else f"{self.value:+.2g} {self.unit}".strip()
        )
        what = {"friction": "friction", "offset": "offset", "gain": "drive gain"}[self.kind]
        return f"{what} of joint {self.joint!r} {size}"


@dataclass(frozen=True)
class Cause:
    """Something by which a robot may be unlike others.

    Unknowns of a robot, and what is reported of them.
    """

    kind: str
    joint: int  # -1: none
    places: tuple[int, ...]  # among a robot's unknowns
    row: Array  # (u,): the value that is tested


@dataclass(frozen=True, eq=False)
class FleetFit:
    """What robots share, and by how much they differ.

    Attributes:
        base: Base parameters.
        split: Which of them are friction.
        beta: Values (b,): shared ones, and mean friction.
        joined: All members that count, gains of drives eliminated.
        spread: Standard deviation of friction between robots (m,).
        gains: That of drive gains (n,), as a share.
        parts: Each member that counts, by itself, gains eliminated.
    """

    base: BaseMap
    split: Split
    beta: Array
    joined: Joined
    spread: Array
    gains: Array
    parts: tuple[_Part, ...] = field(repr=False)

    @cached_property
    def covariance(self) -> Array:
        """Of beta (b, b): mean friction varies with the choice of robots."""
        return self.joined.covariance([part.covariance for part in self.parts])


@dataclass(frozen=True)
class _Part:
    """The form of a member with drive gains eliminated."""

    R: Array
    z: Array
    covariance: Array


def _extended(member: Member, split: Split, beta: Array) -> BlockProblem:
    """Return a member's rows, of its gains and of base parameters.

    The column of a gain is the torque that shared parameters of beta (b,) make at its joint.
    """
    n, b = len(member.scale), len(beta)
    shared = np.zeros(b)
    shared[list(split.shared)] = beta[list(split.shared)]
    rows = []
    for joint, (own, factor) in enumerate(zip(member.triangles.columns, member.triangles.factors)):
        part = factor / member.scale[joint]
        gain, base = np.zeros((len(part), n)), np.zeros((len(part), b))
        base[:, own] = part[:, :-1]
        gain[:, joint] = base @ shared
        rows.append(Rows({"gain": gain, "base": base}, part[:, -1]))
    return BlockProblem.of(*rows)


def _part(member: Member, extended: BlockProblem, gains: Array) -> _Part:
    """Return the form of a member where its gains vary by their spread (n,)."""
    b, n = len(member.covariance), len(gains)
    rows = [extended.rows, Rows.known("gain", 0.0, gains)]
    varying, none = BlockProblem({"base": b}, [rows], {"gain": n}), extended.only("base")
    with_gains, without = (one.solved(allow_open=True).inverse for one in (varying, none))
    R, z, _ = varying.left_to("base")
    return _Part(R, z, member.covariance + with_gains @ with_gains.T - without @ without.T)


def fitted(base: BaseMap, members: Sequence[Member]) -> FleetFit:
    """Return what members share; gains and spreads are found with it."""
    split, n, zeros = Split.of(base), len(members[0].scale), np.zeros(len(members))
    # at first one friction for each, no gains
    plain = [
        _Part(*member.triangles.weighted(member.scale)[:2], member.covariance) for member in members
    ]
    spread, gains = np.full(len(split.own), np.inf), np.full(n, FIRST_GAIN_SPREAD)
    joint = Joined(split, [(part.R, part.z) for part in plain], spread, zeros)
    beta = joint.beta
    for _ in range(MAX_FITS):
        extended = [_extended(member, split, beta) for member in members]
        parts = tuple(_part(member, own, gains) for member, own in zip(members, extended))
        joint = Joined(split, [(part.R, part.z) for part in parts], spread, zeros)
        beta = joint.beta
        before, spread = (spread, gains), spread_of(split, parts, joint)
        alone = [_gains_alone(own, split, beta) for own in extended]
        found, noise = (np.array([pair[k] for pair in alone]) for k in range(2))
        gains = pooled_spread(found, noise, zeros, ["gain"] * n, np.ones(n))
        if np.allclose(np.append(spread, gains), np.append(*before), rtol=0.02):
            break
    return FleetFit(base, split, beta, joint, spread, gains, parts)


def _gains_alone(extended: BlockProblem, split: Split, beta: Array) -> tuple[Array, Array]:
    """Return the gains (n,) that a member alone asks for, its friction free, and their variances
    (n,).
    """
    rows = extended.rows
    friction = split.friction_rows(rows.columns["base"], rows.right, beta)
    columns = {"gain": rows.columns["gain"], **friction.columns}
    solution = BlockProblem.of(Rows(columns, friction.right)).solved(allow_open=True)
    return solution["gain"], np.diag(solution.spread("gain"))


def _bodies(base: BaseMap, link: str | None) -> Array:
    """Return base parameters of loads in the frame of the flange (b, 10), in units of `LOAD_SIZE`.

    Their masses are last. Where no link is named, the flange is the frame on the last link that is
    furthest from its joint.
    """
    robot = base.robot
    carrier, placement = carrier_of(robot, link)
    if link is None:
        frames = [matrix_of(frame.steps) for frame in robot.frames if frame.link == carrier]
        placement = max([placement, *frames], key=lambda frame: float(np.linalg.norm(frame[:3, 3])))
    of_link = base.matrix[:, robot.layout.links[carrier]]
    return np.asarray(of_link @ of_frame(placement) * LOAD_SIZE)


def _directions(products: Array) -> Array:
    """Return directions (10, k) that the motion shows, of which the products (10, 10) are given.

    A point mass first. The others are orthogonal to it in the torques they make. None where even a
    mass is not shown.
    """
    size = float(products[9, 9])
    if size <= FAINT * float(np.trace(products)):
        return np.zeros((10, 0))
    point = np.eye(10)[9]
    apart = np.eye(10) - np.outer(point, products[9]) / size
    values, vectors = np.linalg.eigh(apart.T @ products @ apart)
    return np.column_stack([point, apart @ vectors[:, values > FAINT * values[-1]]])


class Comparison:
    """All members against a fit of those that count (`counts` (N,)).

    A member's unknowns (u) are how its friction differs from the mean (m), its gains from one (n),
    and a load (k).
    """

    def __init__(
        self,
        fit: FleetFit,
        members: Sequence[Member],
        counts: NDArray[np.bool_],
        link: str | None = None,
    ) -> None:
        self.fit, self.members, self.counts = fit, members, counts
        split, base, m, n = fit.split, fit.base, len(fit.spread), len(fit.gains)
        body = _bodies(base, link)
        rows = [_extended(member, split, fit.beta).rows for member in members]
        bases, gains = ([one.columns[name] for one in rows] for name in ("base", "gain"))
        products = sum((B.T @ B for B in bases), np.zeros((base.rank, base.rank)))
        self.directions = _directions(body.T @ products @ body)  # (10, k)
        self.load = tuple(range(m + n, m + n + self.directions.shape[1]))
        self.natural = np.concatenate(
            [fit.spread**2, fit.gains**2, np.zeros(len(self.load))]
        )  # variances (u,)
        columns = [
            np.column_stack([B[:, split.own], G, B @ (body @ self.directions)])
            for B, G in zip(bases, gains)
        ]
        self.N = np.array([A.T @ A for A in columns])  # products of each member's columns (N, u, u)
        rights = [one.right - B @ fit.beta for one, B in zip(rows, bases)]
        self.h = np.array([A.T @ right for A, right in zip(columns, rights)])  # (N, u)
        self.levels = friction_levels(base, split, products, fit.beta[list(split.own)])
        self.causes = tuple(self._causes(m, n))
        found = [self._value(range(len(members)), cause) for cause in self.causes]
        self.x, self.V = (
            np.array([one[k] for one in found]) for k in range(2)
        )  # values, variances (causes, N)
        self.kinds = [cause.kind for cause in self.causes]
        self.others = others(self.x, self.V, counts, self.kinds, self._scale())
        self.together = (
            Together(self._correlation(), self.kinds, int(np.sum(counts)) - 2)
            if self.known
            else None
        )

    @property
    def known(self) -> bool:
        """Whether robots that count are enough to compare others with."""
        return bool(np.sum(self.counts) >= 3)

    def _scale(self) -> Array:
        """Return the unit (causes,) in which a cause is alike at all joints.

        Of offsets, the friction torque.
        """
        split, mean = self.fit.split, np.abs(self.fit.beta[list(self.fit.split.own)])
        torque = np.array([np.sum(mean[friction_of(split, cause.joint)]) for cause in self.causes])
        usual = max(float(torque.mean()), 1e-12)
        return np.array(
            [
                max(size, 1e-3 * usual) if cause.kind == "offset" else 1.0
                for size, cause in zip(torque, self.causes)
            ]
        )

    def _correlation(self) -> Array:
        """Return the correlation (causes, causes) of a member's values, in the mean over members.

        Products h of its columns with its torques have the covariance N + N S N, S the natural
        variances; a value is G h with G = row (N + weights)^-1.
        """
        every = range(len(self.members))
        G = np.stack(
            [self._solved(every, cause.places)[1] @ cause.row for cause in self.causes], axis=1
        )
        moved = G @ self.N
        whole = moved @ G.transpose(0, 2, 1) + (moved * self.natural) @ moved.transpose(0, 2, 1)
        size = np.sqrt(np.einsum("ijj->ij", whole))
        return np.asarray(
            np.mean((whole / size[:, :, None] / size[:, None, :])[self.counts], axis=0)
        )

    def _causes(self, m: int, n: int) -> list[Cause]:
        split, size = self.fit.split, len(self.natural)
        found = []
        for joint, level in enumerate(self.levels):
            if np.any(level):
                found.append(
                    Cause(
                        "friction",
                        joint,
                        tuple(friction_of(split, joint)),
                        np.pad(level, (0, size - m)),
                    )
                )
            for k, (own, symbol) in enumerate(zip(split.joints, split.symbols)):
                if own == joint and symbol == FRICTION["offset"]:
                    found.append(Cause("offset", joint, (k,), np.eye(size)[k]))
        for k, joint in enumerate(self.fit.base.robot.independent):
            found.append(Cause("gain", joint, (m + k,), np.eye(size)[m + k]))
        if self.load:
            found.append(Cause("load", -1, self.load[:1], np.eye(size)[self.load[0]]))
        return found

    def _solved(self, numbers: Sequence[int], free: Sequence[int]) -> tuple[Array, Array, Array]:
        """Return (values (N, u), covariances (N, u, u), what they explain (N,)) of members, some
        unknowns free.

        The others vary by their spreads about zero; those of a load are zero.
        """
        weight = 1.0 / np.maximum(self.natural, 1e-30)
        weight[list(free)] = np.where(
            self.natural[list(free)] > 0, FREE_WEIGHT * weight[list(free)], 0.0
        )
        chosen = list(numbers)
        whole = self.N[chosen] + np.diag(weight)
        size = 1.0 / np.sqrt(np.maximum(np.einsum("ijj->ij", whole), 1e-300))
        whole = whole * size[:, :, None] * size[:, None, :] + ROUNDING * np.eye(len(weight))
        inverse = np.linalg.inv(whole) * size[:, :, None] * size[:, None, :]
        values = np.einsum("ijk,ik->ij", inverse, self.h[chosen])
        return values, inverse, np.einsum("ij,ij->i", values, self.h[chosen])

    def _places(self, chosen: Sequence[Cause]) -> list[int]:
        """Return the unknowns of causes that were found; of a load all that the motion shows."""
        return [
            place for one in chosen for place in (self.load if one.kind == "load" else one.places)
        ]

    def _value(
        self, numbers: Sequence[int], cause: Cause, chosen: Sequence[Cause] = ()
    ) -> tuple[Array, Array, Array]:
        """Return (values, variances with the natural spread, what they explain) of members, beside
        chosen causes.
        """
        free = self._places(chosen)
        u, P, explains = self._solved(numbers, [*free, *cause.places])
        V = np.einsum("j,ijk,k->i", cause.row, P, cause.row) + float(cause.row**2 @ self.natural)
        return u @ cause.row, V, explains - self._solved(numbers, free)[2]

    def chances(self) -> Array:
        """Return the probability (N, causes) that a member like the others differs as much.

        Each cause alone.
        """
        return self.others.chance(slice(None), slice(None), self.x, self.V).T

    def tests(self, number: int) -> tuple[Deviation, ...]:
        """Return every cause of a member by itself; chances are NaN where members are too few."""
        made = []
        for place, cause in enumerate(self.causes):
            x, V = self.x[place, number], self.V[place, number]
            p = float(self.others.chance(place, number, x, V)) if self.known else float("nan")
            off, std = (
                float(x - self.others.mean[place, number]),
                float(np.sqrt(V - cause.row**2 @ self.natural)),
            )
            made.append(self._named(number, cause, off, std, p))
        return tuple(made)

    def found(self, number: int, level: float) -> list[Deviation]:
        """Return how a member differs, what explains most first.

        Nothing where it is like the others.
        """
        each = 0.0 if self.together is None else self.together.each(level)
        chosen, chance = list[int](), dict[int, float]()
        penalty = np.log(max(self.members[number].samples, 2))
        # beside causes that were found, it is compared with what others show beside the same
        # causes: some of them do
        rest = [int(k) for k in np.flatnonzero(self.counts) if k != number]
        asked = [
            number,
            *(rest[k] for k in sorted({int(k) for k in np.linspace(0, len(rest) - 1, COMPARED)})),
        ]
        while len(chosen) < len(self.causes):
            beside = [self.causes[k] for k in chosen]
            found = [
                self._value(asked if chosen else [number], cause, beside) for cause in self.causes
            ]
            x, V, explains = (np.array([one[k] for one in found]) for k in range(3))
            if chosen:
                counts = np.arange(len(asked)) > 0
                p = others(x, V, counts, self.kinds, self._scale()).chance(
                    slice(None), 0, x[:, 0], V[:, 0]
                )
            else:
                p = self.others.chance(slice(None), number, self.x[:, number], self.V[:, number])
            chance |= {place: float(p[place]) for place in range(len(p)) if place not in chosen}
            clear = [place for place in chance if place not in chosen and chance[place] < each]
            if chosen:  # and more than the noise that is left where all of them are free
                made = [
                    self._deviation(number, place, [*chosen, place], chance[place])
                    for place in clear
                ]
                clear = [
                    place for place, one in zip(clear, made) if abs(one.value) > STDS * one.std
                ]
            if not clear:
                break
            # of few robots a joint's causes are known better than a load: it may explain more than
            # what is clearest
            likely = clear if chosen else [place for place in chance if chance[place] < level]
            worth = {
                place: float(explains[place, 0]) - len(self.causes[place].places) * penalty
                for place in likely
            }
            best = max(worth, key=lambda place: worth[place])
            chosen.append(best if worth[best] > 0 else min(clear, key=lambda place: chance[place]))
        return [self._deviation(number, place, chosen, chance[place]) for place in chosen]

    def _deviation(self, number: int, place: int, chosen: Sequence[int], p: float) -> Deviation:
        """Return one of several deviations that were found together."""
        cause = self.causes[place]
        every = [self.causes[other] for other in chosen]
        (u,), (P,), _ = self._solved([number], self._places(every))
        if cause.kind == "load":
            mass, load = LOAD_SIZE[9] * self.directions[9], list(self.load)
            value, std = float(mass @ u[load]), float(np.sqrt(mass @ P[np.ix_(load, load)] @ mass))
            if std > FAIR * abs(value):  # a point mass, where the motion shows little else
                rest = self._places([one for one in every if one is not cause])
                (u,), (P,), _ = self._solved([number], [*rest, *cause.places])
                value, std = float(u[load[0]]), float(np.sqrt(P[load[0], load[0]]))
            return self._named(number, cause, value, std, p)
        value = float(cause.row @ u - self.others.mean[place, number])
        return self._named(number, cause, value, float(np.sqrt(cause.row @ P @ cause.row)), p)

    def _named(self, number: int, cause: Cause, value: float, std: float, p: float) -> Deviation:
        joint = self.fit.base.robot.joints[cause.joint] if cause.joint >= 0 else None
        name, unit = (
            ("", "")
            if joint is None
            else (joint.name, torque_unit(joint) if cause.kind == "offset" else "")
        )
        return Deviation(self.members[number].name, cause.kind, name, value, std, p, unit)

    def alone(self, number: int) -> tuple[Array, Array]:
        """Return friction and gains (m + n,) of a member as its own logs give them, and standard
        deviations.
        """
        count = len(self.natural) - len(self.load)
        (u,), (P,), _ = self._solved([number], range(count))
        mean = np.concatenate(
            [self.fit.beta[list(self.fit.split.own)], np.ones(len(self.fit.gains))]
        )
        return mean + u[:count], np.sqrt(np.diag(P)[:count])

    def likely(self, number: int) -> Array:
        """Return the friction (m,) of a member, drawn to the mean where its logs hardly show it."""
        own = list(self.fit.split.own)
        return np.asarray(self.fit.beta[own] + self._solved([number], ())[0][0, : len(own)])


def compared(
    base: BaseMap, members: Sequence[Member], level: float, link: str | None = None
) -> tuple[Comparison, Array, Array]:
    """Return (comparison, chances (N, causes), chances of all causes together (N,)).

    Members that are clearly different, by less than a chance of `level` in the whole fleet, count
    for no other.
    """
    counts = np.ones(len(members), dtype=bool)
    for _ in range(MAX_FITS):
        fit = fitted(base, [member for member, use in zip(members, counts) if use])
        made = Comparison(fit, members, counts, link)
        if made.together is None:
            nothing = np.full((len(members), len(made.causes)), np.nan)
            return made, nothing, nothing[:, 0]
        each = made.chances()
        every = made.together.chance(each.min(axis=1))
        clear = every < level / len(members)
        most = int(MAX_DIFFERENT * len(members))
        if np.sum(clear) > most:  # the most different ones
            clear &= every <= np.sort(every)[most - 1] if most else False
        if np.array_equal(counts, ~clear) or np.sum(~clear) < 3:
            break
        counts = ~clear
    return made, each, every
