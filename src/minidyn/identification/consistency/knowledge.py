"""What people know about bodies, as rows of the convex problem.

A total mass, bodies that are mirror images of each other, a mass within bounds, a centre of mass
inside of the body's shape: each is linear in the standard parameters. Equations have a standard
deviation and stand among the data. Inequalities a · phi ≥ b stand there where they bind: those that
the fit without them breaks are set to their bound, pushed until they hold, and let go where the
data pull inwards. What is left at the end is the minimum of the convex problem with them.
"""

from __future__ import annotations

import fnmatch
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from minidyn.arrays import Array
from minidyn.errors import DescriptionError, UnknownName
from minidyn.formats.load import looks_of
from minidyn.identification.consistency.whitened import TOTAL_STD
from minidyn.model.joint import typical_length
from minidyn.model.parameters import from_pseudo_inertia, to_pseudo_inertia
from minidyn.model.robot import Robot
from minidyn.notices import Notice, warning

CONTRADICTED = warning(
    "consistency.contradicted",
    "What is said of bodies does not fit the recording: the fit stays far from it, or its misfit "
    "grows much.",
    "Check the mass, the pairs or the bounds, and the log's torques: their scale and their sign.",
)

_ALIKE = 0.02  # of a body's size: standard deviation of mirror images from each other
_TIGHT = 1e-4  # rounding: of its scale: how firmly a bound that binds is held
_BROKEN = 1e-6  # rounding: of its scale: what breaks a bound
_MIRRORED = 1e-4  # rounding: of the robot's size: how far places of mirror images may be off
_FAR = 4.0  # standard deviations of an equation that the fit does not keep
_TRIANGLES = 2000  # size: of the shapes of all links that bound their centres


@dataclass(frozen=True, eq=False)
class Knowledge:
    """Linear facts about standard parameters phi (p,).

    Attributes:
        equations: Rows (e, p) over their standard deviations.
        values: Right sides (e,) likewise.
        equation_names: What each says.
        bounds: Rows (i, p), each of a scale of one: bounds @ phi ≥ least.
        least: Right sides (i,).
        bound_names: What each says.
    """

    equations: Array
    values: Array
    equation_names: tuple[str, ...]
    bounds: Array
    least: Array
    bound_names: tuple[str, ...]

    def rows(self, pushes: Mapping[int, float]) -> tuple[Array, Array]:
        """Return equations, and the active bounds as equations a little inside, pushed further."""
        active = list(pushes)
        A = np.vstack([self.equations, self.bounds[active] / _TIGHT])
        inside = self.least[active] + _TIGHT + np.array(list(pushes.values()))
        return A, np.append(self.values, inside / _TIGHT)

    def next_pushes(self, phi: Array, pushes: Mapping[int, float]) -> dict[int, float]:
        """Return the bounds that bind, with how far they must be pushed.

        This is the method of multipliers. An active bound is let go where the data pull inwards
        without any push.
        """
        slack = self.bounds @ phi - self.least
        made = {}
        for bound, inside in enumerate(slack.tolist()):
            push = pushes.get(bound)
            if push is None:
                if inside < -_BROKEN:
                    made[bound] = 0.0
            elif push > 0.0 or inside <= _TIGHT:
                made[bound] = max(0.0, push + _TIGHT - inside)
        return made

    def broken(self, phi: Array) -> bool:
        """Say whether a bound does not hold."""
        return bool(np.any(self.bounds @ phi - self.least < -_BROKEN))

    def record(self, phi: Array) -> dict[str, Any]:
        """Return what the fit makes of each fact: its value, or how far inside its bound it is."""
        far = self.equations @ phi - self.values
        slack = self.bounds @ phi - self.least
        return {
            "equations": dict(zip(self.equation_names, far.tolist())),
            "bounds": dict(zip(self.bound_names, slack.tolist())),
            "holds": not self.broken(phi),
        }

    def notices(self, phi: Array) -> list[Notice]:
        """Return a notice where the fit does not keep what is said."""
        far = np.abs(self.equations @ phi - self.values)
        names = [name for name, size in zip(self.equation_names, far) if size > _FAR]
        names += [
            name
            for name, slack in zip(self.bound_names, self.bounds @ phi - self.least)
            if slack < -_BROKEN
        ]
        if not names:
            return []
        text = f"the recording contradicts what is said of bodies: {', '.join(names[:4])}"
        return [CONTRADICTED(text, facts=names)]


def knowledge_of(robot: Robot, settings: Any) -> Knowledge | None:
    """Return what the settings say about the bodies of a robot; None: nothing."""
    facts = _Facts(robot)
    if settings.total_mass is not None:
        facts.total_mass(settings.total_mass)
    for left, right in settings.symmetric or ():
        facts.symmetric(left, right)
    for name, (low, high) in (settings.mass_bounds or {}).items():
        facts.mass_within(name, low, high)
    if settings.centres_inside:
        facts.centres_inside()
    return facts.knowledge()


class _Facts:
    """Rows as they are collected."""

    def __init__(self, robot: Robot) -> None:
        self.robot = robot
        self.names = list(robot.link_names)
        self.size = typical_length(robot.joints)
        self.equations: list[tuple[Array, float, str]] = []
        self.bounds: list[tuple[Array, float, str]] = []

    def knowledge(self) -> Knowledge | None:
        """Return all of them; None where there is none."""
        if not self.equations and not self.bounds:
            return None
        p = len(self.robot.layout)
        rows = [
            (
                np.array([row for row, _, _ in part]).reshape(-1, p),
                np.array([value for _, value, _ in part]),
                tuple(name for _, _, name in part),
            )
            for part in (self.equations, self.bounds)
        ]
        return Knowledge(*rows[0], *rows[1])

    def fitting(self, pattern: str, what: str) -> list[int]:
        """Return the links that a name or pattern means."""
        found = [k for k, name in enumerate(self.names) if fnmatch.fnmatchcase(name, pattern)]
        if not found:
            raise UnknownName(f"{what}: link", pattern, self.names)
        return found

    def mass(self, link: int) -> Array:
        """Return the row of a link's mass."""
        row = np.zeros(len(self.robot.layout))
        row[self.robot.layout.links[link].start + 9] = 1.0
        return row

    def known_mass(self, link: int) -> float:
        """Return about how heavy a link is: the file's mass, else 1 kg."""
        mass = float(self.robot.parameters[self.robot.layout.links[link].start + 9])
        return mass if math.isfinite(mass) and mass > 0 else 1.0

    def total_mass(self, given: float | Sequence[float]) -> None:
        """Say the mass of all moving links, kg, and perhaps its standard deviation."""
        values = [float(one) for one in np.atleast_1d(np.asarray(given, dtype=float))]
        total, std = values[0], values[1] if len(values) > 1 else TOTAL_STD * values[0]
        row = np.sum([self.mass(link) for link in range(len(self.names))], axis=0)
        self.equations.append((row / std, total / std, f"total mass {total:.4g} kg"))

    def mass_within(self, pattern: str, low: float, high: float) -> None:
        """Say that masses lie within bounds, kg."""
        for link in self.fitting(pattern, "mass_bounds"):
            name, scale = self.names[link], high if math.isfinite(high) else max(low, 1e-9)
            row = self.mass(link) / scale
            if low > 0:
                self.bounds.append((row, low / scale, f"mass of {name} at least {low:.4g} kg"))
            if math.isfinite(high):
                self.bounds.append((-row, -high / scale, f"mass of {name} at most {high:.4g} kg"))

    def symmetric(self, left: str, right: str) -> None:
        """Say that bodies are mirror images: names, or patterns of as many."""
        pairs = self._pairs(left, right)
        mirror = self._mirror(pairs)
        places = self._places()
        for one, other in pairs:
            across = np.linalg.inv(places[other]) @ mirror @ places[one]
            units = from_pseudo_inertia(across @ to_pseudo_inertia(np.eye(10)) @ across.T)
            mass = 0.5 * (self.known_mass(one) + self.known_mass(other))
            std = _ALIKE * mass * np.array([self.size**2] * 6 + [self.size] * 3 + [1.0])
            rows = np.zeros((10, len(self.robot.layout)))
            rows[:, self.robot.layout.links[other]] = np.eye(10)
            rows[:, self.robot.layout.links[one]] -= units.T
            what = f"{self.names[one]} and {self.names[other]} alike"
            self.equations += [(row, 0.0, what) for row in rows / std[:, None]]

    def _pairs(self, left: str, right: str) -> list[tuple[int, int]]:
        """Return the pairs that two patterns mean: what stands for the star is the same."""
        ones, others = self.fitting(left, "symmetric"), self.fitting(right, "symmetric")
        if left.count("*") == 1 and right.count("*") == 1:
            (a, b), (c, d) = left.split("*"), right.split("*")
            wanted = {self.names[k].removeprefix(c).removesuffix(d): k for k in others}
            names = [self.names[k].removeprefix(a).removesuffix(b) for k in ones]
            pairs = [(k, wanted[name]) for k, name in zip(ones, names) if name in wanted]
        else:
            pairs = list(zip(ones, others))
        if len(pairs) != len(ones) or len(pairs) != len(others):
            raise DescriptionError(
                f"symmetric: {left!r} means {len(ones)} links, {right!r} {len(others)}; expected "
                "as many, with the same names but for left and right"
            )
        return pairs

    def _places(self) -> list[Array]:
        """Return the placements (4, 4) of the links in the base at zero positions."""
        places: list[Array] = []
        for joint in self.robot.joints:
            parent = places[joint.parent] if joint.parent >= 0 else np.eye(4)
            places.append(parent @ joint.placement)
        return places

    def _mirror(self, pairs: Sequence[tuple[int, int]]) -> Array:
        """Return the reflection (4, 4) through a plane of the base that swaps the pairs."""
        places = self._places()
        apart = []
        for axis in (1, 0, 2):
            mirror = np.diag([-1.0 if k == axis else 1.0 for k in range(4)])
            gaps = [
                np.abs((mirror @ places[one] - places[other])[:3, 3]).max() for one, other in pairs
            ]
            apart.append((max(gaps), mirror))
            if max(gaps) <= _MIRRORED * self.size:
                return mirror
        raise DescriptionError(
            "symmetric: at zero positions the links are no mirror images through a plane x, y or "
            f"z = 0 of the base (off by {min(gap for gap, _ in apart):.3g} m)"
        )

    def centres_inside(self) -> None:
        """Say that centres of mass lie inside the boxes around the links' shapes."""
        boxes = self._boxes()
        if not boxes:
            raise DescriptionError(
                "centres_inside: the robot's file shows no shapes; load it from a URDF or MJCF "
                "whose meshes are there"
            )
        for link, (low, high) in boxes.items():
            start, name = self.robot.layout.links[link].start, self.names[link]
            scale = self.known_mass(link) * max(float(np.max(high - low)), 1e-6)
            for axis in range(3):
                for sign, bound in ((1.0, low[axis]), (-1.0, high[axis])):
                    row = np.zeros(len(self.robot.layout))
                    row[start + 6 + axis], row[start + 9] = sign / scale, -sign * bound / scale
                    side = "above" if sign > 0 else "below"
                    what = f"centre of {name} {side} {'xyz'[axis]} = {bound:.4g} m"
                    self.bounds.append((row, 0.0, what))

    def _boxes(self) -> dict[int, tuple[Array, Array]]:
        """Return the box around the shapes of each link that has some, in its frame."""
        shapes: Mapping[str, Any] = looks_of(self.robot, _TRIANGLES)
        points: dict[int, list[Array]] = {}
        parts = [(name, link, np.eye(4)) for link, name in enumerate(self.names)]
        parts += [(one.name, one.link, one.placement) for one in self.robot.frames]
        for name, link, T in parts:
            if link >= 0 and name in shapes:
                corners = np.asarray(shapes[name][0], dtype=float)
                points.setdefault(link, []).append(corners @ T[:3, :3].T + T[:3, 3])
        every = {link: np.vstack(some) for link, some in points.items()}
        return {link: (one.min(axis=0), one.max(axis=0)) for link, one in every.items() if len(one)}
