"""The load in a run, against a baseline model.

Mass, centre, inertia, their uncertainty, and what else has changed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from minidyn.arrays import Array, covariance_root, rms
from minidyn.dynamics.drives import has_load
from minidyn.errors import MinidynError
from minidyn.identification.consistency.primal_dual import solve
from minidyn.identification.consistency.prior import upper_factor
from minidyn.identification.consistency.whitened import one_body
from minidyn.identification.diagnose.thresholds import HALF, LARGE, STDS
from minidyn.identification.estimate import Estimate, EstimateLike, as_estimate
from minidyn.identification.payload import fit
from minidyn.identification.payload.columns import ALWAYS, raw_columns, unknowns_of
from minidyn.identification.rows.base_rows import remembering
from minidyn.identification.score import MIN_STANDARD_ERRORS
from minidyn.identification.select import seen
from minidyn.identification.sizes import MAX_FITS
from minidyn.model.parameters import from_body, to_pseudo_inertia
from minidyn.notices import Notice, error, info, warning
from minidyn.recording.lazy import LEFT_OUT
from minidyn.recording.read.mapping import APPLIED
from minidyn.recording.ready import RecordingLike, as_recording, ready
from minidyn.recording.recording import leaving_out
from minidyn.simulation.payload import Payload

if TYPE_CHECKING:
    from concurrent.futures import Executor

MAX_MASS_STD = 0.05
"""Relative, up to which a mass is well known."""
MAX_CENTRE_STD = 0.02
"""m, up to which a centre of mass is well known."""
MAX_NOISE = 1.5
"""Times the baseline's residuals: another motion shows other edges of friction."""
SAME_GAINS = 1e-3  # rounding: of drive gains in files
DENSITY = 1500.0
"""kg/m³ of a load: between plastics and aluminium."""
REACH = 0.3
"""m: where a load's centre is expected, as standard deviation about the frame's origin."""
ENTROPY = 0.05
"""Weight of the entropy that pulls to a compact body, in noise variances."""
SETTLED = 1e-4  # rounding: of the load, between two of these fits

_WORDS = {"Fv": "viscous", "Fc": "Coulomb", "Fo": "offset"}

FRICTION = warning(
    "payload.friction_changed",
    "Friction of a joint is not the baseline's; it was estimated together with the load.",
    "Warm the robot up alike for both runs if it matters.",
)
SCALE = error(
    "payload.torque_scale_changed",
    "A joint needs another share of the model's torque, which no load explains.",
    "Check gear, current constant and torque sensor of {joint}, or take a new baseline.",
)
GRAVITY = error(
    "payload.gravity_turned",
    "Gravity is turned against the model.",
    "Check whether the base is level, or take a new baseline.",
)
LINK = error(
    "payload.link_changed",
    "A link is not what it was, which no load on another link explains.",
    "Check whether something is mounted on {link} or was taken off, or take a new baseline.",
)
NOISY = warning(
    "payload.noisy",
    "Residuals are larger than the baseline's: the run has something that neither load nor "
    "baseline knows.",
    "Look at the torques of these joints: contacts, cables, or a faster motion than the "
    "baseline's.",
)
NEGATIVE = error(
    "payload.negative",
    "The run carries less than the baseline; the values are as found, and no body has them.",
    "The baseline was taken with a load, or gravity or signs of torque are wrong.",
)
NO_LOAD = warning("payload.none", "The mass is compatible with zero: no load is seen in this run.")
BELOW_RESIDUAL = warning(
    "payload.below_residual",
    "At no joint does the load's torque reach the residual's: errors of the model may look like "
    "this load.",
    "Use a better baseline or a heavier load before you trust these values.",
)
LOOSE_MASS = warning(
    "payload.loose_mass", "The mass is only known roughly.", "Record a longer or wider motion."
)
LOOSE_CENTRE = warning(
    "payload.loose_centre",
    "The centre of mass is only known roughly along some axes.",
    "Move so that gravity acts across these axes.",
)
LOOSE_INERTIA = warning(
    "payload.loose_inertia",
    "The motion does not show the inertia of the load; a compact body of the same mass and centre "
    "replaces it.",
    "Accelerate the joints that carry the load more.",
)

TORQUE_SCALE = info(
    "payload.torque_scale",
    "A load has the scale of the torques: where they are some percent too large, so are its mass "
    "and inertia.",
)
GAINS_TRUSTED = warning(
    "payload.gains_trusted",
    "Torques are currents times given drive gains, whose errors are not known and not in the "
    "stated deviations.",
    "Find gains from a run with a weighed load (minidyn gains, md.identify_drive_gains), or state "
    "drive_gain_covariance.",
)
OTHER_GAINS = error(
    "payload.other_gains",
    "The baseline was fitted to torques that were made with other drive gains than those of this "
    "run.",
    "Read both logs with the same drive gains.",
)


@leaving_out
def identify_payload(
    estimate: EstimateLike,
    recording: RecordingLike,
    *,
    link: str | None = None,
    level: float = 1e-3,
    executor: Executor | None = None,
    on_error: str = "stop",
) -> Payload:
    """Return the load that a run carries, against a baseline model of the robot without it.

    What the run's torques have more than the baseline is explained by ten parameters of a body
    fixed to a link, together with changed friction (it depends on temperature) and the baseline's
    own errors within their covariance. Whatever else the data clearly ask for, one joint's torque
    scale, a tilted base, another link that has changed, is estimated too and reported. The body is
    then made physically consistent; where the motion does not show it, it is compact.

    Where the baseline has friction that grows with the load, this load's gravity makes it grow,
    too.

    A load has the scale of the torques. Where these are currents times drive gains with a
    covariance (`DriveGains.apply`, or `drive_gain_covariance` of a mapping), errors of the gains
    are unknowns, too, as large as it allows: they are solved for together with the load, and its
    covariance holds them.

    Args:
        estimate: The baseline: `md.identify` of runs without the load, or the path where it was
            saved.
        recording: The run with it, raw (it is prepared) or prepared, or its path.
        link: Link or frame that carries the load, in whose frame it is given; None: the last link.
        level: Probability, all tests together, of reporting a change that is none.
        executor: As for `md.identify`: its workers read the run, which is then in memory.
        on_error: As for `md.identify`.

    Returns:
        The load, with `mass`, `com`, `inertia`, their `std`, the covariance of the ten parameters,
        and notices.

    Raises:
        UnknownName: There is no such link.
        MinidynError: The recording has no torques or too few samples.
    """
    if not 0 < level < 1:
        raise MinidynError(f"level: expected a probability between 0 and 1, got {level!r}")
    estimate = as_estimate(estimate, "identify_payload")
    recording = as_recording(recording, estimate.robot, executor=executor, on_error=on_error)
    gains, about_gains = _gains(estimate, recording.notices)
    preparation = estimate.record.get(
        "preparation"
    )  # the run's residuals are compared with the baseline's
    run = ready(
        estimate.robot,
        recording,
        purpose="identifying a payload",
        preparation=preparation,
        in_memory=True,
    )
    run, estimate = remembering(estimate.robot, run), seen(estimate, run.info.get("cutoff"))
    notices = [
        one for one in run.notices if one not in recording.notices or one.code == LEFT_OUT.code
    ]
    if len(run) < 50:
        raise MinidynError(
            f"{len(run)} samples are too few for a payload; record some seconds of motion"
        )
    raw = raw_columns(estimate, run, link, gains)
    ten = fit.fitted(unknowns_of(raw, np.zeros(10)).only(*ALWAYS)).value("load")
    for _ in range(
        MAX_FITS if has_load(estimate.robot) else 0
    ):  # friction grows with the load: about this one, then
        raw, before = replace(raw, carried=ten), ten
        ten = fit.fitted(unknowns_of(raw, ten).only(*ALWAYS)).value("load")
        if np.abs(ten - before)[6:].max() < SETTLED * np.abs(ten)[6:].max():
            break
    found, changes = fit.selected(unknowns_of(raw, ten), level)
    found, trust = fit.trusted(found)
    covariance, blocks = fit.covariance_of(found)
    load, unit = found.solution.places["load"], found.unknowns.units["load"]
    ten = found.value("load")
    spread = covariance[load, load] * np.outer(unit, unit)
    firmly_negative = ten[9] < -STDS * np.sqrt(spread[9, 9])
    body = ten if firmly_negative else nearest_body(ten, spread)
    left = np.sqrt(found.unknowns.squares(found.solution.x) / len(run))
    changes = [*fit.friction_changes(found, covariance, blocks, level), *changes]
    settings: dict[str, Any] = {
        "samples": len(run),
        "blocks": blocks,
        "sigma": left.tolist(),
        "baseline_sigma": estimate.sigma.tolist(),
        "torque": rms(np.asarray(run.tau)).tolist(),
        "joints": list(estimate.robot.joint_names),
        "memory": found.memory.tolist(),
        "unconstrained": ten.tolist(),
        "baseline_errors": trust,
        "torque_over_residual": fit.largest_share(raw, body, left),
        "changes": [fit.described(group, found, covariance) for group in changes],
    }
    payload = Payload(0.0, body, None, link, spread, (), settings)
    return replace(payload, notices=tuple(notices + _notices(payload, ten, settings) + about_gains))


def _gains(estimate: Estimate, notices: Sequence[Notice]) -> tuple[Array | None, list[Notice]]:
    """Return the covariance of the shares by which the run's drive gains are off (n, n), and what
    the load rests on.
    """
    joints = estimate.robot.joint_names
    run, baseline = (
        next((one.data for one in several if one.code == APPLIED.code), None)
        for several in (notices, estimate.notices)
    )
    if run is None and baseline is None:
        text = "the load has the scale of the torques: where they are 5 % too large, so is its mass"
        return None, [TORQUE_SCALE(text, gains=None)]
    known, values = run if run is not None else baseline, []
    for data in (run, baseline):
        here = {} if data is None else dict(zip(data["joints"], data["drive_gain"]))
        values.append(np.array([here.get(name, 1.0) for name in joints]))
    apart = float(np.max(np.abs(values[0] / values[1] - 1.0)))
    found = []
    if apart > SAME_GAINS:
        text = f"baseline and run have drive gains that differ by up to {100 * apart:.2g} %"
        found.append(OTHER_GAINS(text, run=values[0].tolist(), baseline=values[1].tolist()))
    if known is None or known["covariance"] is None or set(known["joints"]) != set(joints):
        text = (
            "the mass is right as far as the given drive gains are: where they are 5 % too large, "
            "so is it"
        )
        return None, [*found, GAINS_TRUSTED(text, drive_gain=values[0].tolist())]
    order = [known["joints"].index(name) for name in joints]
    shares = np.array(known["covariance"])[np.ix_(order, order)]
    # of the scale that all joints have in common: the likeliest share, as a mean weighted by the
    # gains' own precision
    common = float(1.0 / np.sqrt(np.sum(np.linalg.pinv(shares, hermitian=True))))
    text = (
        f"the load has the scale of the drive gains, known to {100 * common:.2g} %; stated "
        "deviations hold it"
    )
    return shares, [*found, TORQUE_SCALE(text, gains=common)]


def nearest_body(ten: Array, covariance: Array) -> Array:
    """Return the physically consistent body (10,) nearest to `ten` in the metric of its covariance
    (10, 10).

    A faint entropy pulls to a ball of ordinary density with the mass and the centre that the data
    show, as far as they show them.
    """
    mass = max(float(ten[9]), 0.5 * float(np.sqrt(covariance[9, 9])), 1e-6)
    prior = np.eye(3) / (mass * REACH) ** 2
    precision = np.linalg.inv(covariance[6:9, 6:9])
    centre = np.linalg.solve(precision + prior, precision @ ten[6:9]) / mass
    radius = (3.0 * mass / (4.0 * np.pi * DENSITY)) ** (1.0 / 3.0)
    ball = from_body(mass, centre, 0.4 * mass * radius**2 * np.eye(3))
    root = np.asarray(np.linalg.inv(covariance_root(covariance, 1e-12)), dtype=float)
    problem = one_body(root, root @ ten, upper_factor(to_pseudo_inertia(ball)), ENTROPY)
    return np.asarray(problem.phi(solve(problem).x)[0])


def _notices(payload: Payload, ten: Array, settings: Mapping[str, Any]) -> list[Notice]:
    """Return the notices of a load, which is consistent where it can be; ten (10,) are what data
    alone give.
    """
    std = payload.std or {}
    notices = [_change(entry) for entry in settings["changes"]]
    sizes = zip(
        settings["joints"], settings["sigma"], settings["baseline_sigma"], settings["torque"]
    )
    noisy = {
        joint: now / before
        for joint, now, before, torque in sizes
        if now > MAX_NOISE * before and now**2 - before**2 > (LARGE * torque) ** 2
    }
    if noisy:
        shown = ", ".join(f"{joint!r} ({times:.2g} times)" for joint, times in noisy.items())
        notices.append(
            NOISY(f"residuals are larger than the baseline's at joints {shown}", joints=noisy)
        )
    mass, deviation = float(ten[9]), std["mass"]
    known = {"mass": mass, "std": deviation}
    if mass < -STDS * deviation:
        text = f"the run carries less than the baseline: a load of {mass:.4g} ± {deviation:.2g} kg"
        return [NEGATIVE(text, **known), *notices]
    if mass < MIN_STANDARD_ERRORS * deviation:
        text = f"the mass is compatible with zero: data alone say {mass:.3g} ± {deviation:.2g} kg"
        if abs(payload.mass - mass) > 0.01 * mass:
            text += f"; the nearest physically consistent body has {payload.mass:.3g} kg"
        return [NO_LOAD(f"{text}; no load is seen in this run", **known), *notices]
    share = settings["torque_over_residual"]
    if share < 1.0:
        text = (
            f"at no joint does the load's torque reach the residual's ({share:.2g} times at the "
            "most)"
        )
        notices.append(BELOW_RESIDUAL(text, share=share))
    if deviation > MAX_MASS_STD * mass:
        notices.append(
            LOOSE_MASS(f"the mass is known to {100 * deviation / mass:.2g} % only", **known)
        )
    loose = [axis for axis, value in zip("xyz", std["com"]) if value > MAX_CENTRE_STD]
    if loose:
        worst = float(np.max(std["com"]))
        text = f"the centre of mass along {', '.join(loose)} is known to {100 * worst:.2g} cm only"
        notices.append(LOOSE_CENTRE(text, axes=loose, std=worst))
    spread = float(rms(np.diag(std["inertia"])))
    if spread > HALF * float(np.mean(np.diag(payload.inertia))):
        text = (
            f"the motion does not show the inertia of the load (standard deviation {spread:.2g} "
            "kg m²)"
        )
        notices.append(
            LOOSE_INERTIA(
                f"{text}: a compact body of the same mass and centre replaces it", std=spread
            )
        )
    return notices


def _change(entry: Mapping[str, Any]) -> Notice:
    """Return the notice of something that has changed since the baseline was taken."""
    name, values, std = entry["name"], entry["values"], entry["std"]
    known = {"values": values, "std": std}
    if entry["kind"] == "friction":
        shown = ", ".join(
            f"{_WORDS[symbol]} {values[symbol]:+.3g} ± {std[symbol]:.2g}" for symbol in values
        )
        return FRICTION(
            f"friction of joint {name!r} is not the baseline's ({shown})", joint=name, **known
        )
    if entry["kind"] == "torque scale":
        (value,), (deviation,) = values.values(), std.values()
        text = (
            f"joint {name!r} needs {100 * value:+.3g} ± {100 * deviation:.2g} % of the model's "
            "torque"
        )
        return SCALE(f"baseline changed: {text}, which no load explains", joint=name, **known)
    if entry["kind"] == "gravity":
        angle = float(np.degrees(np.hypot(*values.values())))
        text = f"baseline changed: gravity is turned by about {angle:.2g} degrees against the model"
        return GRAVITY(text, degrees=angle, **known)
    text = (
        f"baseline changed: link {name!r} is not what it was, which no load on another link "
        "explains"
    )
    return LINK(text, link=name, **known)
