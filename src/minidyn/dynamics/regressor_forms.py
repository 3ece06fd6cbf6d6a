"""Regressors in the forms that controllers and estimators ask for: along a reference, split, in
sixteen parameters.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike

from minidyn.arrays import Array, frozen
from minidyn.dynamics.functions import call, positional_base
from minidyn.dynamics.kernel import (
    PARAMETRIZATIONS,
    BaseColumns,
    function_of,
    require_own,
    require_robot,
)
from minidyn.dynamics.papers.sixteen import sixteen_layout, sixteen_map, sixteen_parameters
from minidyn.errors import MinidynError, ShapeError, UnknownName
from minidyn.model.robot import Robot


class NamedColumns(BaseColumns, Protocol):
    """A base map whose base parameters have names of their own."""

    @property
    def names(self) -> tuple[str, ...]:
        """Names such as "ZZR1"."""


def slotine_li_regressor(
    robot: Robot,
    q: ArrayLike,
    dq: ArrayLike,
    dqr: ArrayLike,
    ddqr: ArrayLike,
    *old: BaseColumns | None,
    base: BaseColumns | None = None,
    out: Array | None = None,
) -> Array:
    """Return Y (..., n, p) with Y @ parameters = M(q) ddqr + C(q, dq) dqr + g(q) + friction at dqr.

    C is the Christoffel matrix, the one that makes Ṁ - 2C skew-symmetric: that is what the
    stability proof of the adaptive law of Slotine and Li needs. With dqr = dq and ddqr = ddq it is
    the regressor itself. Friction is taken at the reference speed: it is known ahead, does not
    chatter with a measured speed, and with viscous friction what the true one differs by only
    damps.

    Args:
        robot: The robot.
        q: Positions (..., n).
        dq: Speeds (..., n).
        dqr: Reference speeds (..., n).
        ddqr: Reference accelerations (..., n).
        *old: Not to be used: base could be given by position once.
        base: Base-parameter map: columns of the base parameters; None: of the standard ones.
        out: Array to write into.

    Implements: LuMeng1993 eq. (87).
    Differs: the paper's (87) has C dq, which is this function's with dqr for the acceleration only.
    """
    if old:
        positional_base("slotine_li_regressor(robot, q, dq, dqr, ddqr, base=base)", old, base)
        (base,) = old
    require_own(robot, base, "slotine_li_regressor")
    return call(robot, "slotine_li_regressor", (q, dq, dqr, ddqr), None, out, base)


def split_regressor(
    robot: Robot,
    Y: ArrayLike,
    unknown: Sequence[str] | str,
    *,
    base: NamedColumns | None = None,
    parametrization: str = "standard",
) -> tuple[Array, Array]:
    """Split a regressor into the columns of known and of unknown parameters.

    Anything whose last axis counts parameters can be split: a regressor (..., n, p) or parameter
    values (p,).

    Args:
        robot: The robot.
        Y: Regressor (..., p), in the order of `robot.parameter_names`, or of `base.names`.
        unknown: Names of the unknown parameters; base parameters go by their own name or by that of
            the standard parameter that leads them.
        base: The map, where Y is a base regressor.
        parametrization: "standard" or "lumeng16".

    Returns:
        (Y_known, Y_unknown): the known columns in their order, the unknown ones in the order of
        `unknown`.

    Implements: LuMeng1993 eq. (3)-(4), (15)-(18).
    """
    require_robot(robot, "split_regressor", free_base=True)
    array = np.asarray(Y)
    if parametrization not in PARAMETRIZATIONS:
        raise UnknownName("parametrization", parametrization, PARAMETRIZATIONS)
    if base is not None and parametrization != "standard":
        raise MinidynError(
            "split_regressor: base parameters combine standard ones; leave parametrization away"
        )
    names = sixteen_layout(robot).names if parametrization == "lumeng16" else robot.layout.names
    places = {name: place for place, name in enumerate(names)}
    if base is not None:
        names = base.names
        places = {name: place for place, name in enumerate(base.kept)} | {
            name: k for k, name in enumerate(names)
        }
    if array.ndim == 0 or array.shape[-1] != len(names):
        raise ShapeError(
            f"split_regressor: expected {len(names)} columns ({names[0] if names else ''} ...), "
            f"got shape {array.shape}"
        )
    chosen = []
    for name in [unknown] if isinstance(unknown, str) else unknown:
        if name not in places:
            raise UnknownName("parameter", name, list(places))
        if places[name] in chosen:
            raise MinidynError(f"split_regressor: {name!r} is named twice")
        chosen.append(places[name])
    rest = [place for place in range(len(names)) if place not in chosen]
    return array[..., rest], array[..., chosen]


@dataclass(frozen=True, eq=False)
class Lumeng16:
    """Sixteen parameters a link: names, values, and which of them the dynamics need.

    Attributes:
        robot: The robot.
    """

    robot: Robot

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names in the order of the regressor's columns.

        "m1", "mpx1", ..., "Iyz1", drive terms, "m2", ...
        """
        return sixteen_layout(self.robot).names

    @cached_property
    def parameters(self) -> Array:
        """Values (P,), read-only; NaN where unknown."""
        return frozen(sixteen_parameters(self.robot, self.robot.parameters))

    @cached_property
    def matrix(self) -> Array:
        """The map (p, P) with standard parameters = matrix @ parameters, read-only.

        Its rank is 10 a link.
        """
        return frozen(sixteen_map(self.robot))

    @cached_property
    def needed(self) -> tuple[str, ...]:
        """Names of the columns that can matter.

        Not zero in every motion, and not of a parameter known to be zero. A point mass needs no
        inertia, a centre of mass on the x axis no m py. Pass them as `columns=` to
        `minidyn.regressor`, which then computes these columns and nothing else.

        Implements: LuMeng1993 eq. (49)-(59), (62), (64), as what is left when the rest is dropped.
        """
        function = function_of(self.robot, "lumeng16_regressor")
        zero = {
            index
            for index, step in enumerate(function.tape)
            if step.op == "const" and step.value == 0.0
        }
        width = len(self.names)
        moving = [
            any(index not in zero for index in function.outputs[0][k::width]) for k in range(width)
        ]
        return tuple(
            name
            for name, moves, value in zip(self.names, moving, self.parameters)
            if moves and value != 0.0
        )

    def __repr__(self) -> str:
        return (
            f"Lumeng16({self.robot.name!r}, {len(self.names)} parameters, {len(self.needed)} "
            "needed)"
        )


def lumeng16(robot: Robot) -> Lumeng16:
    """Return the names and values of sixteen parameters a link, for
    `regressor(..., parametrization="lumeng16")`.
    """
    require_robot(robot, "lumeng16")
    return Lumeng16(robot)
