"""What a reader of an identified load should know, in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from minidyn.arrays import Array
from minidyn.simulation.payload import Payload

_SEEN = 2.0  # standard deviations from which a mass is told from none
_SHARP = 0.05  # relative standard deviation up to which a mass is well known
_CENTRE = 0.02  # m
_ROUGH = 0.5  # relative standard deviation beyond which an inertia is not shown by the motion

_NOISY = 1.5  # times the baseline's residuals

_WORDS = {"Fv": "viscous", "Fc": "Coulomb", "Fo": "offset"}


def notices_of(payload: Payload, ten: Array, settings: Mapping[str, Any]) -> list[str]:
    """Return the notices of a load.

    Args:
        payload: The load, made possible where it can be.
        ten: Its parameters as data alone give them (10,).
        settings: How it was found.
    """
    std = payload.std or {}
    notices = [_change(entry) for entry in settings["changes"]]
    noisy = [
        f"{joint!r} ({now / before:.2g} times)"
        for joint, now, before in zip(settings["joints"], settings["sigma"], settings["baseline_sigma"])
        if now > _NOISY * before
    ]
    if noisy:
        notices.append(
            f"residuals are larger than the baseline's at joints {', '.join(noisy)}: this run has something that "
            "neither load nor baseline knows"
        )
    mass, deviation = float(ten[9]), std["mass"]
    if mass < -3.0 * deviation:
        return [
            f"the run carries less than the baseline: a load of {mass:.4g} ± {deviation:.2g} kg. The baseline was "
            "taken with a load, or gravity or signs of torque are wrong; values are as found, no body has them",
            *notices,
        ]
    if mass < _SEEN * deviation:
        near = (
            f"; the nearest possible body has {payload.mass:.3g} kg" if abs(payload.mass - mass) > 0.01 * mass else ""
        )
        notices.insert(
            0,
            f"the mass is compatible with zero: data alone say {mass:.3g} ± {deviation:.2g} kg{near}; no load is seen "
            "in this run",
        )
        return notices
    if settings["torque_over_residual"] < 1.0:
        share = settings["torque_over_residual"]
        notices.append(
            f"at no joint does the load's torque reach the residual's ({share:.2g} times at the most): errors of the "
            "model, which no standard deviation knows, may look like this load"
        )
    if deviation > _SHARP * mass:
        notices.append(f"the mass is known to {100 * deviation / mass:.2g} % only: record a longer or wider motion")
    loose = [axis for axis, value in zip("xyz", std["com"]) if value > _CENTRE]
    if loose:
        worst = float(np.max(std["com"]))
        notices.append(
            f"the centre of mass along {', '.join(loose)} is known to {100 * worst:.2g} cm only: move so that gravity "
            "acts across that axis"
        )
    spread = float(np.sqrt(np.mean(np.square(np.diag(std["inertia"])))))
    size = float(np.mean(np.diag(payload.inertia)))
    if spread > _ROUGH * size:
        notices.append(
            f"the motion does not show the inertia of the load (standard deviation {spread:.2g} kg m²): a compact body "
            "of the same mass and centre stands in; accelerate its joints more"
        )
    return notices


def _change(entry: Mapping[str, Any]) -> str:
    kind, name = entry["kind"], entry["name"]
    values, std = entry["values"], entry["std"]
    if kind == "friction":
        shown = ", ".join(f"{_WORDS[symbol]} {values[symbol]:+.3g} ± {std[symbol]:.2g}" for symbol in values)
        return f"friction of joint {name!r} is not the baseline's ({shown}): it was estimated with the load"
    if kind == "torque scale":
        (value,), (deviation,) = values.values(), std.values()
        return (
            f"baseline changed: joint {name!r} needs {100 * value:+.3g} ± {100 * deviation:.2g} % of the model's "
            "torque, which no load explains: its gear, current constant or torque sensor may have changed"
        )
    if kind == "gravity":
        angle = float(np.degrees(np.hypot(*values.values())))
        return f"baseline changed: gravity is turned by about {angle:.2g} degrees against the model: is the base level?"
    return (
        f"baseline changed: link {name!r} is not what it was, which no load on another link explains: is something "
        "mounted on it, or taken off?"
    )
