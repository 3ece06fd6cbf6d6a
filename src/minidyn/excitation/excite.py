"""Design of motions: which motion shows a robot's parameters best within its limits."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from minidyn.arrays import Array, frozen, real_array, single_thread
from minidyn.display import shows_progress
from minidyn.dynamics.record import record, require_formulas
from minidyn.errors import MinidynError, ShapeError, UnknownName
from minidyn.excitation.bounds import NO_ACCELERATION, Given, bounds_of, work_poses
from minidyn.excitation.clearance import clearance_of
from minidyn.excitation.criteria import CRITERIA, evaluate_criteria
from minidyn.excitation.excitation import Excitation, as_known, information_of
from minidyn.excitation.motion import FAMILIES, Family, Timed
from minidyn.excitation.motion_verdict import NOT_SHOWN, POOR_MOTION, UNFINISHED
from minidyn.excitation.piecewise import Splines
from minidyn.excitation.proof import Proof, Spread, margins_of, prove
from minidyn.excitation.search import Outcome, best_of_tries, problem_of
from minidyn.excitation.stages import Scene, poses_at_rest, sweeps
from minidyn.excitation.target import RISE, Known, Target, target_of
from minidyn.formats.load import RobotLike, as_robot
from minidyn.model.drives import AUTO
from minidyn.model.robot import Robot
from minidyn.notices import Notice, error, info, most_serious_first, warning
from minidyn.simulation.payload import Payload
from minidyn.text import number, percent

INFEASIBLE = error(
    "excite.infeasible",
    "No motion was found that keeps all limits.",
    "Widen the limit that is named, choose another start, allow more time, or leave out a floor "
    "that is not there (`floor=False`).",
)
NO_NOISE = warning(
    "excite.no_noise",
    "The noise of the torques was not given; all joints are assumed to have the same, one percent "
    "of the geometric mean of the effort limits. Predicted standard deviations are in proportion "
    "to it.",
    "Give noise=, N m or N for each joint, or an earlier estimate.",
)
ENDED_EARLY = info(
    "excite.ended_early",
    "The search was ended before it was done; the best motion so far that keeps all limits was "
    "returned.",
)
_RATE = 100.0  # Hz, of a log where nothing is said
_NOISE = 0.01  # of the effort limits
FAR = 1.25
"""Times the best criterion of all tries from which a motion is called far from it."""
SMALL = 0.7
"""Size below which a motion that was made smaller is called far from the best."""
_FIRST_GUESS = 1.3  # of how much larger torques may be, over the uncertainty


@shows_progress("designing a motion")
@single_thread()
def excite(
    robot: RobotLike,
    duration: float,
    *,
    purpose: str = "model",
    criterion: str = "d",
    friction: Iterable[str] | str = AUTO,
    rotor_inertia: bool | None = True,
    runs: int = 1,
    start: ArrayLike | None = None,
    end: ArrayLike | None = None,
    limits: Given | None = None,
    torque_share: float = 0.8,
    uncertainty: float = 0.0,
    clearance: float = 0.02,
    obstacles: Sequence[Mapping[str, Any]] | None = None,
    floor: bool = True,
    after: Known | Sequence[Known] | None = None,
    noise: ArrayLike | Any = None,
    payload: Payload | Mapping[str, Any] | float | None = None,
    harmonics: int = 5,
    family: str = "fourier",
    periods: int = 1,
    rate: float | None = None,
    seed: int = 0,
    measured: Iterable[str] | str | None = None,
    time_limit: float | None = None,
    progress: Callable[[int], None] | bool | None = None,
) -> Excitation:
    """Design a motion that shows a robot's base parameters as well as its limits allow.

    The motion begins and ends at rest. Positions, speeds, accelerations, jerks and torques keep
    their limits, and links their distances, at all times, not at samples alone. Interrupted
    (Ctrl-C, `time_limit`), the best motion so far is returned.

    Args:
        robot: The robot, its name or path. Its parameters, where known, predict the torques.
        duration: Seconds.
        purpose: What the log is for: "model" (all base parameters), "payload" (a load's ten
            parameters, for :func:`minidyn.identify_payload`), "gains" (drive gains, of the motion
            run without and with a load, for :func:`minidyn.identify_drive_gains`), "friction"
            (sweeps at constant speeds, each half of the one before) or "gravity" (poses at rest,
            each approached from both sides).
        criterion: What is made small: "d" (geometric mean of the standard deviations), "a" (their
            root mean square), "e" (the largest), "condition" (condition number of the regressor) or
            "predict" (error of the predicted torque over the robot's work space).
        friction: Terms that shall be found, as for :func:`minidyn.identify`: "auto" (viscous,
            Coulomb and offset), "own" (those of the robot's file), or names, () for none.
        rotor_inertia: Whether rotor inertias shall be found; None: as the robot's file has them.
        runs: How many motions of this duration: each is designed for what those before it show
            least. The last one is returned, its `runs` are all of them, and its errors those of all
            logs together.
        start: Pose (n,) at the start, rad or m; None: free.
        end: Pose (n,) at the end; None: as at the start.
        limits: Limits beside those of the robot's file; the narrower ones count: {"velocity": 1.0,
            "acceleration": [2, 2, 5], "upper": {"elbow": 1.5}}, of "lower", "upper", "velocity",
            "acceleration", "jerk", "effort"; a TOML file with the same keys, or several of these.
        torque_share: Share of the effort limits that may be used.
        uncertainty: How well the robot's parameters are known: 0.3 keeps the torque limits for
            every robot whose links' masses, first moments and inertias, and whose drive terms, are
            within 30 % of the model's.
        clearance: Least distance of links from each other and from obstacles, m; needs the shapes
            in a URDF or MJCF.
        obstacles: What to keep away from, in the world, m: {"kind": "plane", "point": [0, 0, 0],
            "normal": [0, 0, 1]} (stay above), {"kind": "sphere", "centre": ..., "radius": ...},
            {"kind": "capsule", "from": ..., "to": ..., "radius": ...}, {"kind": "inside", "lower":
            ..., "upper": ...} (a box to stay in).
        floor: Whether the robot stands on a floor that it keeps away from: through the lowest point
            of its base, normal to gravity; none where the base has no shape, moves, or is mounted
            on a wall or ceiling.
        after: What is known already: an estimate of this robot, or an earlier design that will be
            run, or several. The motion then adds most to it, errors are predicted for all together,
            the drive terms are those of the first, and its parameters predict the torques.
        noise: Standard deviation of the torques' noise, one or (n,), N m or N, or an estimate of
            this robot; None: that of `after`, or one percent of the geometric mean of the effort
            limits.
        payload: The load that will be carried, with purpose "payload" and "gains": its mass in kg,
            {"mass": ..., "com": ..., "inertia": ...}, a Payload, or None (unknown: torques are
            predicted without it).
        harmonics: Multiples of the base frequency; splines have as many coefficients.
        family: "fourier" (a Fourier series) or "bspline" (a spline of degree five, jerk zero at the
            ends); sweeps and poses are neither.
        periods: How often the motion repeats within the duration.
        rate: Samples a second of the log that errors are predicted for; None: 100.
        seed: Of the motions that the search starts from.
        measured: Joints, or patterns, whose torque will be measured, with purpose "model": errors
            are those of the base parameters that these show. None: all.
        time_limit: Seconds after which the search ends; None: when it is done.
        progress: Called with the number of motions looked at; True: a bar on stderr.

    Returns:
        The motion, predicted standard deviations, all criteria, and the share of each limit that is
        used. Where no motion keeps all limits, `feasible` is False and a notice names the limit,
        the joint and the time.

    Raises:
        Unsupported: Loops, and joints that follow others by a formula.
    """
    _check(criterion, duration, harmonics, periods, rate, time_limit, runs)
    if family not in FAMILIES:
        raise UnknownName("family", family, FAMILIES)
    if runs > 1:
        if purpose not in ("model", "friction"):
            raise MinidynError(
                f'excite: runs: several are designed together for purpose="model"; got {purpose!r}'
            )
        return _several(**locals())
    robot = as_robot(robot)
    if (
        isinstance(uncertainty, bool)
        or not isinstance(uncertainty, int | float)
        or not 0 <= uncertainty < 1
    ):
        raise MinidynError(
            f"excite: uncertainty: expected a share from 0 to 1, got {uncertainty!r}"
        )
    require_formulas(robot, "motions are designed for robots without such loops")
    begun = time.monotonic()
    bounds = bounds_of(robot, limits, torque_share)
    notices = list(bounds.notices)
    earlier = as_known(robot, after, friction == AUTO and rotor_inertia is True)
    brought = [information_of(one) for one in earlier]
    target, phi, more = target_of(
        robot, purpose, friction, rotor_inertia, earlier, brought, payload, measured
    )
    notices += more
    poses = _poses(robot, start, end)
    if phi is None:
        notices = [one for one in notices if one.code != NO_ACCELERATION.code]
        reach = dict(bounds.reach)
        reach["acceleration"] = np.minimum(reach["acceleration"], reach["velocity"] / RISE)
        bounds = replace(bounds, reach=reach, effort=np.full(robot.n, np.inf))
    expected = noise
    if earlier and noise is None:  # of torques that are not measured it is infinite
        expected = earlier[0].sigma
        expected = np.where(np.isfinite(expected), expected, 1.0) if measured else expected
    sigma, more = _noise(robot, expected)
    notices += more
    if target.base.measured is not None:  # torques that are not measured have no weight
        is_measured = [name in target.base.measured for name in robot.joint_names]
        sigma = np.where(is_measured, sigma, np.inf)
    frequency = _RATE if rate is None else float(rate)
    if (
        not isinstance(clearance, int | float)
        or isinstance(clearance, bool)
        or not 0 <= clearance < np.inf
    ):
        raise MinidynError(f"excite: clearance: expected a distance in m, got {clearance!r}")
    places = work_poses(bounds, robot.n)
    apart, more = clearance_of(robot, float(clearance), obstacles, places, floor)
    notices += more
    carrier = target.robot if purpose != "gravity" else robot
    limited = bool(np.isfinite(bounds.effort).any())
    torque = None if phi is None else record(carrier, "inverse_dynamics", parameters=phi)
    spread = (
        Spread.of(carrier, phi, float(uncertainty))
        if uncertainty and phi is not None and limited
        else None
    )
    proved = partial(
        prove, bounds=bounds, torque=torque, robot_joints=robot.n, clearance=apart, spread=spread
    )
    rests: tuple[tuple[float, float], ...] = ()
    settings: dict[str, Any] = {
        "torque_share": torque_share,
        "uncertainty": uncertainty,
        "seed": seed,
    }
    rng = np.random.default_rng(seed)
    motion: Timed
    if purpose in ("friction", "gravity"):
        scene = Scene(
            target,
            bounds,
            torque if limited else None,
            apart,
            proved,
            criterion,
            1.0 / sigma,
            frequency,
            *poses,
            rng,
        )
        if purpose == "gravity":
            motion, proof, rests = poses_at_rest(scene, float(duration))
            settings["poses"] = len(rests) // 2
        else:
            motion, proof = sweeps(scene, float(duration))
        work = scene.work(moving=purpose != "gravity")
    else:
        kinds = (Splines if family == "bspline" else Family)(
            robot.n, float(duration), int(periods), int(harmonics), *poses
        )
        problem = problem_of(target, kinds, bounds, criterion, sigma, frequency * duration, phi)
        problem.clearance = None if apart is None else apart.near(places)
        if spread is not None:
            problem.bounds = replace(
                bounds, effort=bounds.effort / (1.0 + _FIRST_GUESS * uncertainty)
            )
        deadline = np.inf if time_limit is None else begun + time_limit
        outcome = best_of_tries(
            problem,
            bounds,
            proved,
            spread is not None,
            rng,
            deadline,
            progress if callable(progress) else None,
        )
        proof, work = outcome.best.proof, problem.work
        motion = kinds.motion(outcome.best.coefficients)
        notices += [*_ended_early(outcome), *_far_from_best(outcome)]
        settings |= {
            "harmonics": harmonics,
            "family": family,
            "periods": periods,
            "evaluations": outcome.evaluations,
        }
    if not proof.holds:
        notices.append(_infeasible(proof))
    settings["seconds"] = time.monotonic() - begun
    shown = _shown(target, motion, sigma, frequency, work, rests)
    if not np.all(np.isfinite(np.diag(shown["covariance"])[target.counted])):
        notices.append(
            NOT_SHOWN("the motion does not show all parameters: their errors are not bounded")
        )
    return Excitation(
        target.robot,
        target.base,
        motion,
        motion.duration,
        frequency,
        criterion,
        **shown,
        sigma=frozen(sigma),
        purpose=purpose,
        rests=rests,
        labels=target.labels,
        notices=tuple(most_serious_first(notices)),
        margins=margins_of(bounds, [proof]),
        feasible=proof.holds,
        bounds=bounds,
        clearance=apart,
        settings=settings,
    )


def _several(robot: RobotLike, duration: float, runs: int, **given: Any) -> Excitation:
    """Return the last of several designs, each after those before it."""
    earlier = given.pop("after")
    known = (
        [] if earlier is None else list(earlier) if isinstance(earlier, list | tuple) else [earlier]
    )
    limit, first, made = given.pop("time_limit"), given.pop("seed"), list[Excitation]()
    for count in range(runs):
        if made:
            given |= {"friction": AUTO, "rotor_inertia": True}  # those of the first
        words = {**given, "after": [*known, *made] or None, "seed": first + count}
        made.append(
            excite(robot, duration, time_limit=None if limit is None else limit / runs, **words)
        )
        if not made[-1].feasible:
            break
    return replace(made[-1], runs=tuple(made), feasible=all(one.feasible for one in made))


def _check(
    criterion: str,
    duration: Any,
    harmonics: Any,
    periods: Any,
    rate: Any,
    time_limit: Any,
    runs: Any,
) -> None:
    if criterion not in CRITERIA:
        raise UnknownName("criterion", criterion, CRITERIA)
    for name, value in (("duration", duration), ("rate", rate), ("time_limit", time_limit)):
        fine = (
            isinstance(value, int | float | np.number)
            and not isinstance(value, bool)
            and 0 < value < np.inf
        )
        if not (fine or (value is None and name != "duration")):
            raise MinidynError(f"excite: {name}: expected a positive number, got {value!r}")
    for name, whole, least in (
        ("harmonics", harmonics, 3),
        ("periods", periods, 1),
        ("runs", runs, 1),
    ):
        if isinstance(whole, bool) or not isinstance(whole, int | np.integer) or whole < least:
            raise MinidynError(
                f"excite: {name}: expected a whole number from {least} on, got {whole!r}"
            )


def _poses(
    robot: Robot, start: ArrayLike | None, end: ArrayLike | None
) -> tuple[Array | None, Array | None]:
    if start is None and end is not None:
        raise MinidynError("excite: end= needs start=, the pose where the motion begins")
    found = []
    for name, pose in (("start", start), ("end", end)):
        values = None if pose is None else real_array(pose, f"excite: {name}")
        if values is not None and (values.shape != (robot.n,) or not np.all(np.isfinite(values))):
            raise ShapeError(f"excite: {name}: expected {robot.n} finite positions, got {pose!r}")
        found.append(None if values is None else frozen(values))
    return found[0], found[1]


def _noise(robot: Robot, noise: Any) -> tuple[Array, list[Notice]]:
    """Standard deviations of the torques (n,)."""
    if noise is not None:
        sigma = real_array(getattr(noise, "sigma", noise), "excite: noise")
        if sigma.shape not in ((), (robot.n,)) or not np.all((sigma > 0) & np.isfinite(sigma)):
            raise MinidynError(
                f"excite: noise: expected a positive number or {robot.n} of them, got {noise!r}"
            )
        return np.broadcast_to(sigma, (robot.n,)).astype(float), []
    efforts = np.array([robot.joints[k].limits.effort for k in robot.independent])
    known = efforts[np.isfinite(efforts) & (efforts > 0)]
    one = _NOISE * float(np.exp(np.log(known).mean())) if len(known) else 1.0
    text = (
        f"the noise of the torques was not given: {number(one)} N m or N is assumed for every joint"
    )
    return np.full(robot.n, one), [NO_NOISE(text, sigma=one)]


def _typical(sigma: Array) -> float:
    """Return the geometric mean of the noise of torques that are measured."""
    return float(np.exp(np.log(sigma[np.isfinite(sigma)]).mean()))


def _ended_early(outcome: Outcome) -> list[Notice]:
    """Whether the search was ended, and whether it had run once before."""
    if not outcome.stopped:
        return []
    why = "time_limit was reached" if outcome.stopped == "time" else "it was interrupted"
    if outcome.completed:
        return [ENDED_EARLY(f"the search was ended early: {why}", reason=outcome.stopped)]
    text = (
        f"the search was ended before it had run once ({why}): how much more other motions show "
        "is not known"
    )
    return [UNFINISHED(text, reason=outcome.stopped)]


def _far_from_best(outcome: Outcome) -> list[Notice]:
    """Whether a motion that keeps its limits is worth running."""
    lost, size = outcome.lost, outcome.best.size
    if not outcome.best.proof.holds or (lost <= FAR and size >= SMALL):
        return []
    text = "the motion is far from the best that was tried"
    if lost > FAR:
        text += f": its criterion is {number(lost)} times larger"
    if size < SMALL:
        text += f"; it was made smaller, to {percent(size, 0)}, to keep its limits"
    return [POOR_MOTION(text, times=lost, size=size)]


def _infeasible(proof: Proof) -> Notice:
    worst = proof.worst
    text = (
        f"no motion was found that keeps all limits: {worst.limit} of joint {worst.joint!r} "
        f"reaches {percent(worst.share, 0)} of its limit at t = {worst.time:.3f} s"
    )
    if worst.limit == "distance":
        text = (
            f"no motion was found that keeps all distances: {worst.joint} at t = {worst.time:.3f} s"
        )
    return INFEASIBLE(
        text, limit=worst.limit, joint=worst.joint, time=worst.time, share=worst.share
    )


def _shown(
    target: Target,
    motion: Timed,
    sigma: Array,
    rate: float,
    work: Array,
    rests: tuple[tuple[float, float], ...],
) -> dict[str, Any]:
    """Return what the log of a motion will show, as fields of the result.

    Of poses at rest the stops alone count.
    """
    if rests:  # they are equally long
        t, samples = np.mean(rests, axis=1), rate * float(np.sum(np.diff(rests)))
    else:
        samples = rate * motion.duration
        t = (np.arange(n := int(min(max(samples, 2000), 200_000))) + 0.5) * motion.duration / n
    filled = target.robot.with_parameters(
        np.nan_to_num(target.robot.parameters)
    )  # loads that friction grows with
    W = target.rows(target.regressor(filled, motion(t)), 1.0 / sigma)
    gram = W.T @ W / len(t)
    F = samples * gram + target.known
    covariance = target.covariance(F)
    values = np.linalg.eigvalsh(target.marginal(gram)[0]) * _typical(sigma) ** 2
    back, own = np.linalg.inv(target.mix), slice(0, len(covariance))
    return {
        "criteria": evaluate_criteria(target.marginal(F)[0], work),
        "covariance": frozen(covariance),
        "information": frozen((samples * back.T @ gram @ back)[own, own]),
        "condition": float(np.sqrt(values[-1] / values[0])) if values[0] > 0 else float("inf"),
        "logdet": float(np.log(values).sum()) if values[0] > 0 else float("-inf"),
    }
