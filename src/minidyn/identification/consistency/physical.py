"""From what an estimator found to a physically possible model: which prior, how strong, and what the data left open."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from minidyn.arrays import Array
from minidyn.base.base_map import BaseMap
from minidyn.base.numeric.samples import units_of
from minidyn.errors import MinidynError
from minidyn.identification.consistency.prior import Seen
from minidyn.identification.diagnostics.open_directions import describe_open
from minidyn.identification.estimators.method import Solution
from minidyn.identification.rows.samples import typical_sizes
from minidyn.model.robot import Robot

_STILL = 1e-3  # of L / T, about 5 mrad/s for an arm: slower than this is standstill


def values_for(robot: Robot, other: Robot, told: str) -> Array:
    """Return another description's values for this robot's parameters (p,), NaN where it has none.

    Args:
        robot: The robot, with its drive terms.
        other: The same robot with values that are believed.
        told: How the other one was named, for errors.

    Raises:
        MinidynError: Their joints differ.
    """
    names, others = ([joint.name for joint in one.joints] for one in (robot, other))
    if others != names:
        raise MinidynError(
            f"{told}: its joints ({', '.join(others[:8])}) are not those of robot {robot.name!r} "
            f"({', '.join(names[:8])}); a prior is the same robot with values that are believed"
        )
    known = dict(zip(other.parameter_names, other.parameters))
    return np.array([known.get(name, np.nan) for name in robot.parameter_names])


def known_parameters(robot: Robot, prior: ArrayLike | bool | None) -> Array | None:
    """Return the prior's standard parameters (p,), NaN where unknown; None where there is none.

    Args:
        robot: The robot, with its drive terms.
        prior: Standard parameters (p,); None or True: the robot's own; False: none.

    Raises:
        MinidynError: It has another length.
    """
    if prior is False:
        return None
    own = robot.parameters if prior is None or prior is True else np.asarray(prior, dtype=float)
    if own.shape != robot.parameters.shape:
        raise MinidynError(f"prior: expected {len(robot.parameters)} parameters, got shape {own.shape}")
    return None if np.isnan(own).all() else own


def knows_a_body(robot: Robot, known: Array | None) -> bool:
    """Say whether a prior knows all ten parameters of at least one link."""
    if known is None:
        return False
    return any(np.isfinite(known[part]).all() and np.any(known[part]) for part in robot.layout.links)


def something_moves(robot: Robot, recording: Any) -> bool:
    """Say whether any joint moves; where speeds are not known it is taken to."""
    sizes = typical_sizes(recording)
    return sizes is None or bool(np.any(~(sizes[1] <= _STILL * units_of(robot).speeds)))


def possible_model(
    robot: Robot, base: BaseMap, found: Solution, recording: Any, known: Array | None, prior_kind: str = "entropic"
) -> tuple[Array, Array, list[str], dict[str, Any]]:
    """Return (beta (b,), phi (p,), notices, settings) of the possible model nearest to data and prior.

    Args:
        robot: The robot, with its drive terms.
        base: Its base parameters.
        found: What an estimator says.
        recording: What it was fitted to: how large torques and speeds were.
        known: The prior (p,), NaN where unknown; None: bodies are drawn from the geometry where data are silent.
        prior_kind: How the distance from it is measured.
    """
    from minidyn.identification.consistency.consistency import make_consistent
    from minidyn.identification.consistency.weight import choose_weight

    seen = _seen(recording)
    weight, settings = 0.0, dict[str, Any]()
    if known is not None:
        weight, curve = choose_weight(robot, base, found.folds(), known, prior_kind=prior_kind, seen=seen)
        settings["prior_kind"] = prior_kind
        settings["prior_weight"] = weight
        settings["prior_curve"] = [[float(a), float(b)] for a, b in curve]
    result = make_consistent(
        robot, base, found.R, found.z, prior=known, prior_kind=prior_kind, weight=weight, rss=found.rest, seen=seen
    )
    notices = list(result.notices)
    names = describe_open(found.R, base)
    if names:
        settings["open"] = names
        notices.append(
            f"the recording does not determine all base parameters: combinations of {names} stay open and follow the "
            "prior; their standard deviation is infinite"
        )
    settings["misfit_increase"] = float(result.misfit - result.misfit_before)
    return np.asarray(base.matrix @ result.phi), np.asarray(result.phi), notices, settings


def _seen(recording: Any) -> Seen | None:
    """Return how large torques and speeds were; None where they are not known."""
    sizes = typical_sizes(recording)
    return None if sizes is None else Seen(*sizes)
