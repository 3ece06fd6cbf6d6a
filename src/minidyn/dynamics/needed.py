"""Which parameters a function depends on: unknown ones (NaN) among the others do no harm.

A parameter matters where its column of the regressor is not zero. Columns are judged by their values at generic states,
so that terms which cancel count as zero too, however the function was written down.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from minidyn.arrays import Array
from minidyn.dynamics.drive_loads import some_parameters
from minidyn.errors import UnknownParameters
from minidyn.graph.evaluate import evaluate
from minidyn.graph.function import Function
from minidyn.model.drives import INERTIAS
from minidyn.model.robot import Robot

_ZERO = 1e-12  # of the regressor's largest entry: a column below this is zero
_STATES = 16
_KNOWN: dict[tuple[str, str], NDArray[np.bool_]] = {}


def without_unknowns(robot: Robot, what: str, values: Array) -> Array:
    """Return parameters (p,) with zeros for unknown values that do not matter.

    Raises:
        UnknownParameters: If the function depends on one that is unknown; the message names them.
    """
    unknown = np.isnan(values)
    if not unknown.any():
        return values
    missing = np.flatnonzero(unknown & needed_columns(robot, what))
    if len(missing):
        names = [robot.layout.names[index] for index in missing]
        shown = ", ".join(names[:8]) + (f", ... ({len(names)} in all)" if len(names) > 8 else "")
        raise UnknownParameters(
            f"{what} of robot {robot.name!r} needs parameters that are unknown (NaN): {shown}; give values with "
            "parameters=..., or robot.with_parameters(...)"
        )
    return np.where(unknown, 0.0, values)


def needed_columns(robot: Robot, what: str) -> NDArray[np.bool_]:
    """Return which standard parameters (p,) the result of a function depends on."""
    key = robot.structure_fingerprint, what
    found = _KNOWN.get(key)
    if found is None:
        found = _KNOWN[key] = _find(robot, what)
    return found


def _find(robot: Robot, what: str) -> NDArray[np.bool_]:
    from minidyn.dynamics.record import record

    q, dq, ddq = np.random.default_rng(0).uniform(-1.0, 1.0, (3, _STATES, robot.n))
    if what == "energy":
        return _nonzero(evaluate(record(robot, "energy_regressor"), q, dq))
    # what a load is does not matter here: parameters of loads are those of gravity, which are needed anyhow
    regressor: Function = record(robot, "regressor", parameters=some_parameters(robot))
    Y = np.asarray(evaluate(regressor, q, dq, ddq))
    if what in ("inverse_dynamics", "forward_dynamics"):
        return _nonzero(Y)
    rest = evaluate(regressor, q, 0.0 * dq, 0.0 * ddq)
    if what == "gravity_torque":
        return _nonzero(rest, Y) & _columns(robot, drives=())
    if what == "inertia_matrix":
        return _nonzero(evaluate(regressor, q, 0.0 * dq, ddq) - rest, Y) & _columns(robot, drives=tuple(INERTIAS))
    return _nonzero(evaluate(regressor, q, dq, 0.0 * ddq) - rest, Y) & _columns(robot, drives=())


def _nonzero(columns: Array, against: Array | None = None) -> NDArray[np.bool_]:
    axes = tuple(range(columns.ndim - 1))
    size = float(np.abs(columns if against is None else against).max(initial=0.0))
    # where a formula has no value anything may matter: NaN is not below any bound
    return np.asarray(~(np.abs(columns).max(axis=axes, initial=0.0) <= _ZERO * size))


def _columns(robot: Robot, drives: Sequence[str]) -> NDArray[np.bool_]:
    return np.array([column.is_inertial or column.symbol in drives for column in robot.layout.columns])
