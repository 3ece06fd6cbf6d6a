"""A fleet: the model of a type.

Each of its robots against the others, and the files in which it is kept.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from minidyn.app.report.fleet_page import write_fleet
from minidyn.arrays import Array, plain_values, strict_json, with_numbers
from minidyn.display import DisplayTable
from minidyn.errors import DescriptionError, UnknownName
from minidyn.files import new_folder, write_atomically
from minidyn.identification.estimate import Estimate, load_estimate
from minidyn.identification.fleet.deviations import Deviation
from minidyn.identification.friction.per_log import SETTING
from minidyn.notices import Notice, error, notices_json
from minidyn.text import markdown_cell

FILES = ("report.html", "fleet.json", "estimate.json")
"""What a folder of a fleet holds: its page, its robots, the model of the type."""

CARRIES = error(
    "fleet.carries",
    "A robot carries a load that the links of its type lack: the fleet's model of it lacks the "
    "load, too.",
    "Identify {robot} by itself, or its load (minidyn payload).",
)

_VERSION = 1
_ARRAYS = ("friction", "friction_std", "slope", "slope_std", "slope_p")


@dataclass(frozen=True, eq=False)
class FleetRobot:
    """One robot of a fleet.

    Attributes:
        name: Its name.
        samples: That were fitted, of all its logs.
        values: Friction parameters and drive gains as its own logs give them, by name
            (`Fleet.own_names`).
        std: Their standard deviations.
        p: Probability that a healthy robot differs from the others as much or more; NaN in fleets
            that are too small.
        deviations: In what it differs, what explains most first; empty where p is not below the
            fleet's level.
        tests: Every cause by itself, whether it differs or not.
        dates: Days of its logs, as "2026-11-02"; "" where they are not known.
        friction: Friction torque of each joint on each day over the mean of the fleet (days,
            joints).
        friction_std: Its standard deviations.
        slope: Change of it by day (joints,), NaN where there are fewer than three days.
        slope_std: Its standard deviations.
        slope_p: Probabilities of such a slope where nothing changes (joints,).
    """

    name: str
    samples: int
    values: Mapping[str, float]
    std: Mapping[str, float]
    p: float
    deviations: tuple[Deviation, ...]
    tests: tuple[Deviation, ...]
    dates: tuple[str, ...]
    friction: Array
    friction_std: Array
    slope: Array
    slope_std: Array
    slope_p: Array

    @property
    def text(self) -> str:
        """In what it differs, in words; empty where it does not."""
        return ", ".join(one.text for one in self.deviations)


@dataclass(frozen=True, eq=False)
class Fleet:
    """Robots of one type: the model of the type, and each robot against the others.

    Attributes:
        model: The type: links that all share, and the mean of the robots' friction.
        robots: Each robot by name.
        deviations: Of all robots that differ from the others, the most certain first.
        level: Probability of a false alarm for a healthy robot.
        spread: Standard deviation of friction parameters and drive gains between robots, by name.
        left_out: Robots whose logs could not be used, and why.
        notices: What a reader should know.
    """

    model: Estimate
    robots: Mapping[str, FleetRobot]
    deviations: tuple[Deviation, ...]
    level: float
    spread: Mapping[str, float]
    left_out: Mapping[str, str] = field(default_factory=dict)
    notices: tuple[Notice, ...] = ()

    @property
    def own_names(self) -> tuple[str, ...]:
        """Names of what each robot has of its own.

        Friction parameters, then "gain JOINT" of each drive.
        """
        return tuple(self.spread)

    @property
    def to_look_at(self) -> tuple[FleetRobot, ...]:
        """The robots that differ from the others, the most certain first."""
        return tuple(
            sorted((one for one in self.robots.values() if one.deviations), key=lambda one: one.p)
        )

    def estimate(self, robot: str) -> Estimate:
        """Return the model of one robot: links of the type, friction of its own.

        A notice says if it carries a load.
        """
        if robot not in self.robots:
            raise UnknownName("robot", robot, tuple(self.robots))
        number = list(self.robots).index(robot)
        made = self.model.with_friction(np.array(self.model.record[SETTING]["values"])[number])
        for part in self.robots[robot].deviations:
            if part.kind == "load":
                text = (
                    f"robot {robot!r} carries {part.value:.2g} kg; links are those of the type, "
                    "without this load"
                )
                made = replace(
                    made, notices=(*made.notices, CARRIES(text, robot=robot, mass=part.value))
                )
        return made

    def table(self) -> str:
        """Return a Markdown table of the robots, those that differ first."""
        lines = ["| robot | samples | chance if healthy | differs in |", "|---|---:|---:|---|"]
        for one in sorted(
            self.robots.values(),
            key=lambda one: (not one.deviations, np.nan_to_num(one.p, nan=1.0)),
        ):
            chance = f"{100 * one.p:.2g} %" if np.isfinite(one.p) else "-"
            lines.append(
                f"| {markdown_cell(one.name)} | {one.samples} | {chance} | "
                f"{markdown_cell(one.text)} |"
            )
        lines += [f"| {markdown_cell(name)} | 0 | - | left out |" for name in self.left_out]
        return "\n".join(lines)

    def report(self, path: str | os.PathLike[str] = "fleet.html") -> Path:
        """Write one HTML file, complete in itself, and return its path."""
        return write_fleet(self, Path(path))

    def to_json(self) -> dict[str, Any]:
        """Return plain values, what is not finite as None.

        The model is an estimate of its own (`Fleet.model`).
        """
        return dict(plain_values(self._content(), finite=True))

    def _content(self) -> dict[str, Any]:
        robots = list(self.robots.values())
        tests = robots[0].tests if robots else ()
        numbers = ("value", "std", "p")  # of every test; what they are of stands once, in "tests"
        return {
            "minidyn": "fleet",
            "version": _VERSION,
            "robot": self.model.robot.name,
            "level": self.level,
            "joints": [joint.name for joint in self.model.robot.joints],
            "spread": self.spread,
            "tests": [{"kind": one.kind, "joint": one.joint, "unit": one.unit} for one in tests],
            "robots": [
                {
                    **vars(one),
                    "deviations": [_plain(part) for part in one.deviations],
                    "tests": {
                        name: [getattr(part, name) for part in one.tests] for name in numbers
                    },
                }
                for one in robots
            ],
            "deviations": [_plain(one) for one in self.deviations],
            "left_out": self.left_out,
            "notices": notices_json(self.notices),
        }

    def save(self, folder: str | os.PathLike[str]) -> Path:
        """Write a folder with report.html, fleet.json and estimate.json, and return its path.

        See `load_fleet`.
        """
        target = Path(folder)
        with new_folder(target, ours=True) as made:
            self.write_into(made)
        return target

    def write_into(self, folder: Path) -> None:
        """Write these files into a folder that exists."""
        self.report(folder / FILES[0])
        write_atomically(folder / FILES[1], strict_json(self._content()))
        self.model.save(folder / FILES[2])

    def _repr_html_(self) -> str:
        ordered = list(self.robots.values())
        columns: dict[str, Sequence[Any]] = {
            "robot": [one.name for one in ordered],
            "samples": [one.samples for one in ordered],
            "chance if healthy": [one.p for one in ordered],
            "differs in": [one.text for one in ordered],
        }
        return DisplayTable(repr(self), columns, ("chance if healthy",), self.notices).to_html()

    def __repr__(self) -> str:
        return (
            f"Fleet({len(self.robots)} robots of type {self.model.robot.name!r}: "
            f"{len(self.to_look_at)} to look at)"
        )


def _plain(deviation: Deviation) -> dict[str, Any]:
    return {**vars(deviation), "text": deviation.text}


def load_fleet(folder: str | os.PathLike[str]) -> Fleet:
    """Read a fleet from the folder that `Fleet.save` or `minidyn fleet` wrote.

    Every number is the one that was saved.

    Raises:
        DescriptionError: Something is missing, broken or something else.
    """
    place = Path(folder)
    source = place if place.name == FILES[1] else place / FILES[1]
    model = load_estimate(source.with_name(FILES[2]))
    try:
        content = with_numbers(json.loads(source.read_text(encoding="utf-8")))
        if not isinstance(content, dict) or content.get("minidyn") != "fleet":
            raise DescriptionError("expected a file that minidyn fleet wrote")
        if content.get("version") != _VERSION:
            raise DescriptionError(
                f"format version {content.get('version')}, this minidyn reads {_VERSION}"
            )
        robots = [_robot_of(one, content["tests"], model.robot.n) for one in content["robots"]]
        if len(robots) != len(model.record[SETTING]["values"]):
            raise ValueError("its robots are not those of its model")
        return Fleet(
            model,
            {one.name: one for one in robots},
            tuple(_deviation_of(one) for one in content["deviations"]),
            float(content["level"]),
            {str(name): float(value) for name, value in content["spread"].items()},
            {str(name): str(why) for name, why in content["left_out"].items()},
            tuple(Notice.from_json(one) for one in content["notices"]),
        )
    except FileNotFoundError:
        raise DescriptionError(f"{source}: no such file") from None
    except (
        ValueError,
        TypeError,
        KeyError,
        AttributeError,
        RecursionError,
        OSError,
        DescriptionError,
    ) as error:
        raise DescriptionError(f"{source}: not a whole fleet ({error})") from None


def _deviation_of(content: Mapping[str, Any]) -> Deviation:
    robot, kind, joint, unit = (str(content[name]) for name in ("robot", "kind", "joint", "unit"))
    value, std, p = (float(content[name]) for name in ("value", "std", "p"))
    return Deviation(robot, kind, joint, value, std, p, unit)


def _robot_of(
    content: Mapping[str, Any], causes: Sequence[Mapping[str, str]], joints: int
) -> FleetRobot:
    """Return a robot from what was saved of it."""
    every = zip(causes, *(content["tests"][name] for name in ("value", "std", "p")), strict=True)
    tests = (
        _deviation_of({**cause, "robot": content["name"], "value": value, "std": std, "p": p})
        for cause, value, std, p in every
    )
    known = {
        **{name: content[name] for name in (field.name for field in fields(FleetRobot))},
        **{name: np.array(content[name], dtype=float) for name in _ARRAYS},
        "deviations": tuple(_deviation_of(one) for one in content["deviations"]),
        "tests": tuple(tests),
        "dates": tuple(map(str, content["dates"])),
    }
    if known["friction"].shape != (len(known["dates"]), joints) or known["slope"].shape != (
        joints,
    ):
        raise ValueError(f"robot {content['name']!r} has friction of other joints or days")
    return FleetRobot(**known)
