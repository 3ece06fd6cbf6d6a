"""What base parameters are asked for: robot, model, joints that move, parameters and which of them to keep."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from minidyn.errors import MinidynError, UnknownName
from minidyn.model.layout import Column
from minidyn.model.robot import Robot
from minidyn.notices import Notice, kind

FRICTION_LEFT_OUT = kind(
    "base.friction_left_out",
    "info",
    "The model that was asked for has no friction; friction parameters are listed as without effect.",
)
RANK_UNCLEAR = kind(
    "base.rank_unclear",
    "act",
    "In floating point the number of base parameters is not clear: no gap separates small values from rounding.",
    'With method "qr", "svd" or "rules+qr" use method="exact", which needs no tolerance. Check geometry that is nearly '
    "but not exactly special.",
)
CHOICE_UNCLEAR = kind(
    "base.choice_unclear",
    "act",
    "How many base parameters there are is clear, but not which standard parameters lead them.",
    'Use method="exact", which needs no tolerance.',
)

MODELS = ("torque", "static", "energy")
"""Torque (the paper's d), torque at zero speed (d0), differences of energy (h)."""

Order = Sequence[str] | Callable[[Column], Any]


@dataclass(frozen=True)
class Question:
    """A checked request.

    Attributes:
        robot: The robot.
        model: One of MODELS.
        joints: Independent joints that move, None for all. The others are held in one general position, as if
            bolted, and what it takes to hold them is not observed.
        columns: Parameters asked about, None for all; the others are taken as known.
        order: Names of parameters to keep where there is a choice, the most wanted first, or a sort key of columns;
            None: storage order, so that parameters of far links join those of links nearer the base.
    """

    robot: Robot
    model: str = "torque"
    joints: tuple[str, ...] | None = None
    columns: tuple[str, ...] | None = None
    order: Order | None = None

    @classmethod
    def of(
        cls,
        robot: Robot,
        model: str = "torque",
        joints: Sequence[str] | str | None = None,
        columns: Sequence[str] | str | None = None,
        order: Order | None = None,
    ) -> Question:
        """Check a request at the door.

        Raises:
            UnknownName: A model, joint or parameter that does not exist, with near names.
        """
        if not isinstance(robot, Robot):
            raise MinidynError(f"base_parameters: expected a Robot first, got {robot!r}; load one with md.load(...)")
        if model not in MODELS:
            raise UnknownName("model", model, MODELS)
        names = (joints,) if isinstance(joints, str) else joints
        for name in names or ():
            if name not in robot.joint_names:
                raise UnknownName("independent joint", name, robot.joint_names)
        asked = (columns,) if isinstance(columns, str) else columns
        robot.layout.indices(tuple(asked or ()))
        if isinstance(order, str):
            order = (order,)
        if order is not None and not callable(order):
            order = tuple(order)
            robot.layout.indices(order)
        return cls(
            robot, model, None if names is None else tuple(names), None if asked is None else tuple(asked), order
        )

    @cached_property
    def moving(self) -> tuple[int, ...]:
        """Columns of q that move."""
        names = self.robot.joint_names
        return tuple(k for k, name in enumerate(names) if self.joints is None or name in self.joints)

    @cached_property
    def asked(self) -> tuple[int, ...]:
        """Standard columns that the model has and that were asked about, the most wanted first."""
        layout = self.robot.layout
        wanted = None if self.columns is None else set(self.columns)
        found = [
            column
            for column in layout.columns
            if (wanted is None or column.name in wanted) and (self.model == "torque" or not column.is_friction)
        ]
        if callable(self.order):
            found.sort(key=self.order)
        elif self.order is not None:
            rank = {name: k for k, name in enumerate(self.order)}
            found.sort(key=lambda column: rank.get(column.name, len(rank)))
        return tuple(column.index for column in found)

    @property
    def notices(self) -> tuple[Notice, ...]:
        """What the request itself leaves out."""
        if self.model == "torque" or not any(column.is_friction for column in self.robot.layout.columns):
            return ()
        text = f"friction takes no part in the {self.model} model; its parameters are listed as without effect"
        return (FRICTION_LEFT_OUT(text, model=self.model),)
