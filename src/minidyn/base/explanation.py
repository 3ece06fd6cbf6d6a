"""Why each standard parameter is identified alone, joins others, or has no effect.

A base map says what happens to a parameter. `minidyn.base.invariances` lists the bodies that no
motion can tell apart. Here both are put together: the parameter less what the map makes of it is a
sum of such bodies, and these are the reasons. Every one is confirmed on the map before it is given.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from minidyn.arrays import Array
from minidyn.base.closed_form.structure import Role, Scene, role_of
from minidyn.base.invariances import Invariance, invariances
from minidyn.base.numeric.own_rows import OWN
from minidyn.base.numeric.samples import units_of
from minidyn.display import COLOURS, new_figure
from minidyn.errors import Unsupported
from minidyn.model.drives import FRICTION
from minidyn.model.free_base import require_fixed_base
from minidyn.model.picture import scene_of, view
from minidyn.model.robot import Robot
from minidyn.text import visible

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from minidyn.base.base_map import BaseMap

ALONE, LEADS, REGROUPED, NO_EFFECT = "identified alone", "leads", "regrouped", "no effect"
_HOLDS = 1e-8  # rounding: of a map on a body that it must not see, against its entries' sizes
_PART = 1e-7  # share of a parameter from which a reason counts as taking part
_DEPENDENT = 1e-9  # rounding: what remains of a change that others make up
_SHOWN = 4  # relations that are written out
_MEANINGS = {
    "XX": "moment of inertia about x",
    "YY": "moment of inertia about y",
    "ZZ": "moment of inertia about z",
    "XY": "product of inertia of x and y",
    "XZ": "product of inertia of x and z",
    "YZ": "product of inertia of y and z",
    "MX": "first moment along x",
    "MY": "first moment along y",
    "MZ": "first moment along z",
    "M": "mass",
} | {symbol: name.replace("_", " ") for name, symbol in {**FRICTION, "rotor_inertia": "Ia"}.items()}


@dataclass(frozen=True, eq=False)
class Explanation:
    """Why one standard parameter acts as it does; `str()` gives the sentences, `plot()` a picture.

    Attributes:
        robot: The robot.
        parameter: The parameter, "YY3".
        status: "identified alone", "leads", "regrouped" or "no effect".
        reasons: What no motion shows and the parameter is part of: the main one first, then from
            the tips to the base.
        other: A reason in words where axes and gravity give none; "": there is none.
        enters: Base parameters that it takes part in, each with its factor as text and relation.
        role: r, s, δ and σ of its joint; None for a load that is bolted on.
    """

    robot: Robot
    parameter: str
    status: str
    reasons: tuple[Invariance, ...]
    other: str
    enters: tuple[tuple[str, str, str], ...]
    role: Role | None

    @property
    def why(self) -> str:
        """The reason as a sentence without a full stop."""
        if self.reasons:
            first = self.reasons[0]
            there = [each.text for each in self.reasons[1:] if each.joint == first.to]
            if self.status == NO_EFFECT and first.to >= 0 and there:
                return f"{first.text}. There {'; '.join(dict.fromkeys(there))}"
            return first.text
        if self.status == ALONE:
            return "no other parameter has the same effect"
        if self.status == LEADS:
            return "others act only together with it"
        return self.other

    @property
    def flow(self) -> tuple[str, ...]:
        """Where the parameter goes: its link, the links that take it up, at last the base or ""."""
        if not self.reasons:
            return ()
        own = self.robot.layout.column(self.parameter).joint
        links = {own} | {k for each in self.reasons for k in (each.joint, each.to) if k >= 0}
        found = [f"link {k + 1}" for k in sorted(links, reverse=True)]
        ends = any(each.kind == "axis at rest" for each in self.reasons)
        return (*found, *(["base"] if ends else []))

    @property
    def meaning(self) -> str:
        """What the parameter is, in words."""
        column = self.robot.layout.column(self.parameter)
        words = _MEANINGS.get(column.symbol, "drive parameter")
        owner = (
            f"link {column.joint + 1}"
            if column.is_inertial
            else f"the drive of joint {column.joint + 1}"
        )
        name = self.robot.link_names[column.joint] if column.is_inertial else ""
        alias = "" if name in ("", f"link{column.joint + 1}") else f" ({visible(name)})"
        return f"{words} of {owner}{alias}"

    def __str__(self) -> str:
        lines = [f"{self.parameter}, {self.meaning}: {self.status}.", f"  {_sentence(self.why)}"]
        if self.other and self.reasons:
            lines.append(f"  {_sentence(self.other)}")
        if self.enters:
            names = [f"{name} (factor {factor})" for name, factor, _ in self.enters]
            lines.append(f"  It acts in {_listed(names)}:")
            lines += [f"    {relation}" for *_, relation in self.enters[:_SHOWN]]
            if len(self.enters) > _SHOWN:
                lines.append(f"    and {len(self.enters) - _SHOWN} more")
        if len(self.flow) > 1:
            lines.append(f"  Regrouping: {' → '.join(self.flow)}.")
        if self.role is not None:
            lines.append(f"  {_role_text(self.role)}")
        return "\n".join(lines)

    def to_json(self) -> dict[str, Any]:
        """Return the explanation as plain values for `json.dump`."""
        role = self.role
        return {
            "parameter": self.parameter,
            "meaning": self.meaning,
            "status": self.status,
            "why": self.why,
            "other": self.other,
            "reasons": [
                {
                    "kind": each.kind,
                    "link": each.joint + 1,
                    "joints": [k + 1 for k in each.joints],
                    "text": each.text,
                }
                for each in self.reasons
            ],
            "enters": [
                {"name": name, "factor": factor, "relation": relation}
                for name, factor, relation in self.enters
            ],
            "flow": list(self.flow),
            "r": role and role.r,
            "s": role and role.s,
            "delta": role and role.delta,
            "sigma": role and role.sigma,
        }

    def plot(self) -> Figure:
        """Return a matplotlib figure of the robot.

        Axes as lines with r and s marked, the parameter's link and direction highlighted, arrows
        where the parameter goes.
        """
        column = self.robot.layout.column(self.parameter)
        title = f"{self.parameter} of {self.robot.name}: {self.status}"
        direction = column.symbol[-1].lower() if column.is_inertial and column.symbol != "M" else ""
        links = [int(each.split()[1]) - 1 for each in self.flow if each != "base"]
        if "base" in self.flow:
            links.append(-1)
        figure = plot_axes(self.robot, self.role, column.joint, links, title, direction)
        figure.text(0.01, 0.01, _sentence(self.why), fontsize=8, wrap=True)
        return figure


@dataclass(frozen=True, eq=False)
class Explanations:
    """Why each standard parameter of a map acts as it does; `str()` gives them by link and reason.

    Attributes:
        robot: The robot.
        of: The explanation of each parameter by name, in storage order.
    """

    robot: Robot
    of: dict[str, Explanation]

    def __str__(self) -> str:
        lines: list[str] = []
        for status, words in ((ALONE, "Identified alone"), (LEADS, "Lead a combination")):
            names = [name for name, each in self.of.items() if each.status == status]
            if names:
                lines.append(f"{words} ({len(names)}): {', '.join(names)}.")
        groups = self.groups
        for link in range(len(self.robot.joints)):
            own = [(key, names) for key, names in groups.items() if key[0] == link]
            if own:
                role = next(
                    (self.of[n].role for _, names in own for n in names if self.of[n].role), None
                )
                place = f" ({_role_text(role)})" if role is not None else ""
                lines.append(f"Link {link + 1}{place.replace('.)', ')')}:")
            for (_, status, why), names in own:
                lines.append(f"  {', '.join(names)}: {status}. {_sentence(why)}")
        return "\n".join(lines)

    @cached_property
    def groups(self) -> dict[tuple[int, str, str], list[str]]:
        """Names of parameters by index of their link, status and reason; no leading ones."""
        found: dict[tuple[int, str, str], list[str]] = {}
        for name, each in self.of.items():
            if each.status in (REGROUPED, NO_EFFECT):
                link = self.robot.layout.column(name).joint
                found.setdefault((link, each.status, each.why), []).append(name)
        return found

    def to_json(self) -> dict[str, Any]:
        """Return all explanations as plain values for `json.dump`."""
        return {
            "robot": self.robot.name,
            "parameters": [each.to_json() for each in self.of.values()],
        }


def explanation_of(base: BaseMap, parameter: str) -> Explanation:
    """Return why a standard parameter acts as it does in a map; `BaseMap.explain` is its door."""
    base.robot.layout.index(parameter)
    return _Explainer(base).explain(parameter)


def explanations_of(base: BaseMap) -> Explanations:
    """Return why each standard parameter acts as it does in a map."""
    explainer = _Explainer(base)
    return Explanations(
        base.robot, {name: explainer.explain(name) for name in base.robot.layout.names}
    )


class _Explainer:
    """The reasons of one map, independent of each other."""

    def __init__(self, base: BaseMap) -> None:
        if base.model == OWN:
            raise Unsupported(
                "explain: this base map is of a regressor of your own, which has no axes; give a "
                "map of md.base_parameters(robot)"
            )
        require_fixed_base(base.robot, "explain")
        self.base = base
        self.units = units_of(base.robot).parameters
        self.relations = base.relations()
        self.what = "inertia" if base.model == "inertia" else "torque"
        self.robot = base.understood
        self.scene = Scene(self.robot, self.what) if self.robot.joints else None
        self.reasons, self.changes = self._independent()

    def _independent(self) -> tuple[list[Invariance], Array]:
        """Return reasons that hold on the map and do not follow from those before, and their
        changes (k, p) in the robot's own units.
        """
        places = list(self.base.robot.layout.indices(self.base.kept))
        matrix = self.base.matrix * self.units / self.units[places, None]
        largest = float(np.abs(matrix).max(initial=0.0))
        kept: list[Invariance] = []
        changes: list[Array] = []
        basis: list[Array] = []
        for each in invariances(self.robot, self.what):
            change = each.vector / self.units
            if np.any(np.abs(matrix @ change) > _HOLDS * largest * np.abs(change).max()):
                continue
            rest = change / np.linalg.norm(change)
            for _ in range(2):
                for other in basis:
                    rest = rest - (other @ rest) * other
            size = float(np.linalg.norm(rest))
            if size > _DEPENDENT:
                basis.append(rest / size)
                kept.append(each)
                changes.append(change)
        return kept, np.array(changes).reshape(len(kept), len(self.units))

    def explain(self, name: str) -> Explanation:
        robot = self.base.robot
        place = robot.layout.index(name)
        column = robot.layout.columns[place]
        status, reasons, whole = self._status(name, place)
        other = "" if whole else self._other(name, status)
        enters = tuple(
            (relation.name, term.coefficient, str(relation))
            for relation in self.relations
            for term in relation.terms
            if term.parameter == name
        )
        role = None
        if self.scene is not None and robot.joints[column.joint].kind != "fixed":
            role = role_of(self.scene, column.joint, lambda k: k + 1)
        return Explanation(robot, name, status, reasons, other, enters, role)

    def _status(self, name: str, place: int) -> tuple[str, tuple[Invariance, ...], bool]:
        """Return (status, reasons, whether they explain all of it)."""
        base = self.base
        if name in base.kept:
            return (ALONE if name in base.unchanged else LEADS), (), True
        unit = np.zeros(len(self.units))
        unit[place] = 1.0
        rest = (unit - base.lift(base.matrix @ unit)) / self.units
        parts, *_ = np.linalg.lstsq(self.changes.T, rest, rcond=None)
        left = np.linalg.norm(rest - parts @ self.changes)
        amounts = np.abs(parts) * np.linalg.norm(self.changes, axis=1)
        used = np.flatnonzero(amounts > _PART * np.abs(rest).max())
        share = np.abs(parts * self.changes[:, place])  # of the parameter itself
        main = used[np.argmax(share[used])] if len(used) else -1
        order = sorted(used, key=lambda k: (k != main, -self.reasons[k].joint))
        reasons = [self.reasons[k] for k in order]
        status = REGROUPED if name in base.regrouped else NO_EFFECT
        whole = bool(left <= _PART * np.linalg.norm(rest))
        return status, tuple(reasons) if whole else (), whole

    def _other(self, name: str, status: str) -> str:
        """Return a reason that is none of axes and gravity."""
        if status == NO_EFFECT:
            return self.base.statuses[name].partition(": ")[2]
        robot = self.base.robot
        together = [visible(joint.name) for joint in robot.joints if joint.follows is not None]
        sum_of_others = "its effect is a fixed sum of those of others at every state"
        if together or robot.loops:
            who = f"{_listed(together)} follow others" if together else "loops tie joints"
            return f"{who}, so that {sum_of_others}"
        if self.base.joints is not None:
            names = _listed([visible(joint) for joint in self.base.joints])
            return f"only {names or 'no joint'} moves, so that {sum_of_others}"
        return sum_of_others


# -------------------------------------------------------------------- pictures


def plot_axes(
    robot: Robot,
    role: Role | None = None,
    link: int | None = None,
    flow: Iterable[int] = (),
    title: str = "",
    direction: str = "",
) -> Figure:
    """Return a matplotlib figure of a robot's axes as lines.

    Args:
        robot: The robot.
        role: Whose r and s are marked; None: those of the last joint.
        link: Index of the link that is highlighted.
        flow: Indices of links that arrows lead along, -1 the base.
        title: Of the figure.
        direction: "x", "y" or "z" of the highlighted link, drawn as an arrow.
    """
    moving = [k for k, joint in enumerate(robot.joints) if joint.kind != "fixed"]
    if role is None and moving and not robot.free_base:
        role = role_of(Scene(robot, "torque"), moving[-1], lambda k: k + 1)
    scene = scene_of(robot, frames=True)
    seen = view(np.array(scene.points))[:, :2]
    figure, axes = new_figure(title or f"axes of {robot.name}", 1, 5.5, width=7.0)
    axis = axes[0]
    axis.set_axis_off()
    axis.set_aspect("equal")
    for shape in scene.front_last:
        points = seen[list(shape.points)]
        if shape.kind == "link":
            own = any(scene.carriers[k] == link for k in shape.points) and link is not None
            colour = COLOURS[2] if own else "#c3c9cf"
            axis.plot(*points.T, color=colour, linewidth=6 if own else 4, zorder=2)
        elif shape.kind == "axis":
            start, end = points
            along = 0.8 * (end - start)
            number = shape.body + 1
            mark = {role and role.r: " = r", role and role.s: " = s"}.get(number, "")
            colour = COLOURS[0] if mark == " = r" else COLOURS[1] if mark else "#777777"
            line = np.array([start - along, end + along])
            axis.plot(*line.T, color=colour, linewidth=2.2 if mark else 1.0, zorder=3)
            x, y = line[1]
            axis.text(x, y, f"{number}{mark}", color=colour, fontsize=9, zorder=6)
        elif shape.kind == "frame" and shape.body == link and direction:
            start, end = points["xyz".index(direction) * 2 : "xyz".index(direction) * 2 + 2]
            _arrow(axis, start, end, COLOURS[3], direction)
    places = {k: seen[scene.shapes_of("frame", k)[0].points[0]] for k in moving}
    places[-1] = seen[list(scene.shapes_of("ground", -1)[0].points)].mean(axis=0)
    stops = [places[k] for k in flow if k in places]
    for one, two in pairwise(stops):
        _arrow(axis, one, two, COLOURS[4], "")
    return figure


def _arrow(axis: Any, start: Array, end: Array, colour: str, text: str) -> None:
    style = {"arrowstyle": "-|>", "color": colour, "linewidth": 1.8}
    axis.annotate("", xy=tuple(end), xytext=tuple(start), arrowprops=style, zorder=7)
    if text:
        axis.text(*end, f" {text}", color=colour, fontsize=9, zorder=7)


# -------------------------------------------------------------------- words


def _role_text(role: Role) -> str:
    """Return r, s, δ and σ of a joint in words."""
    if role.r is None:
        return "r: no joint up to here turns."
    start = f"r = {role.r}" + (f", s = {role.s}" if role.s else ", no s up to here")
    letter = {"delta": "δ", "sigma": "σ"}.get(role.key, "")
    if letter:
        return f"{start}, {letter} = {getattr(role, role.key)}: {role.reason}."
    if role.s is not None and role.number >= role.s:
        return f"{start}: from joint {role.s} on links turn about every direction."
    return f"{start}."


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


def _listed(names: list[str]) -> str:
    return (
        names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}" if names else ""
    )
