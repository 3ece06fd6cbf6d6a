"""Design of motions: which motion shows a robot's parameters best within its limits."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from minidyn.arrays import Array, frozen, real_array, single_thread
from minidyn.base.base_map import BaseMap
from minidyn.base.base_parameters import base_parameters
from minidyn.display import shows_progress
from minidyn.dynamics.functions import base_regressor
from minidyn.dynamics.record import record, require_formulas
from minidyn.errors import MinidynError, ShapeError, UnknownName
from minidyn.excitation.bounds import Bounds, Given, bounds_of, predicting_parameters, work_poses
from minidyn.excitation.clearance import Clearance, clearance_of
from minidyn.excitation.criteria import CRITERIA, evaluate_criteria
from minidyn.excitation.excitation import Excitation, Known, as_known, information_of
from minidyn.excitation.motion import Family
from minidyn.excitation.proof import Proof, Spread, margins_of, prove
from minidyn.excitation.search import TIGHT, Problem, Search
from minidyn.formats.load import RobotLike, as_robot
from minidyn.graph.function import Function
from minidyn.model.drives import AUTO, OWN, PLAIN
from minidyn.model.robot import Robot
from minidyn.notices import Notice, act, info, look, most_serious_first
from minidyn.text import number, percent

INFEASIBLE = act(
    "excite.infeasible",
    "No motion was found that keeps all limits.",
    "Widen the limit that is named, choose another start, or allow more time.",
)
NO_MODEL = look(
    "excite.no_model",
    "The robot's parameters are not known, so that torques cannot be predicted: accelerations are limited instead, so "
    "that full speed takes half a second.",
    "Give a robot with a model (an earlier estimate, a CAD file), or limits={'acceleration': ...}.",
)
NO_FRICTION_VALUES = info(
    "excite.no_friction_values",
    "Drive terms have no values in the robot's file: torques are predicted without them.",
)
NO_NOISE = look(
    "excite.no_noise",
    "The noise of the torques was not given; all joints are assumed to have the same, one percent of the geometric "
    "mean of the effort limits. Predicted standard deviations are in proportion to it.",
    "Give noise=, N m or N for each joint, or an earlier estimate.",
)
ENDED_EARLY = info(
    "excite.ended_early",
    "The search was ended before it was done; the best motion so far that keeps all limits was returned.",
)
NOT_SHOWN = act(
    "excite.not_shown",
    "The motion does not show all parameters.",
    "Allow a longer motion, more harmonics or wider limits.",
)

_RATE = 100.0  # Hz, of a log where nothing is said
_NOISE = 0.01  # of the effort limits
_RISE = 0.5  # s to full speed where torques cannot be predicted
_SMOOTH = 0.02  # of the speed limit: over which friction reverses in the search
_STATES = 400  # of the work space
_REFINED = 3  # times at most
_FIRST_GUESS = 1.3  # of how much larger torques may be, over the uncertainty
_WASTED = 0.85  # share of the torque limits below which a motion for uncertain robots is made larger
_LITTLE = 1.003  # limits that are exceeded by less are kept by a motion that is a little smaller
_SMALLER = (0.999, 0.997, 0.98, 0.95, 0.9, 0.8, 0.6, 0.4, 0.2, 0.05)


@shows_progress("designing a motion")
@single_thread()
def excite(
    robot: RobotLike,
    duration: float,
    *,
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
    after: Known | Sequence[Known] | None = None,
    noise: ArrayLike | Any = None,
    harmonics: int = 5,
    periods: int = 1,
    rate: float | None = None,
    seed: int = 0,
    time_limit: float | None = None,
    progress: Callable[[int], None] | bool | None = None,
) -> Excitation:
    """Design a motion that shows a robot's base parameters as well as its limits allow.

    The motion is a Fourier series that begins and ends at rest. Positions, speeds, accelerations, jerks and torques
    keep their limits, and links their distances, at all times, not at samples alone. Interrupted (Ctrl-C,
    `time_limit`), the best motion so far is returned.

    Args:
        robot: The robot, its name or path. Its parameters, where known, predict the torques.
        duration: Seconds.
        criterion: What is made small: "d" (geometric mean of the standard deviations), "a" (their root mean square),
            "e" (the largest), "condition" (condition number of the regressor) or "predict" (error of the predicted
            torque over the robot's work space).
        friction: Terms that shall be found, as for :func:`minidyn.identify`: "auto" (viscous, Coulomb and offset),
            "own" (those of the robot's file), or names, () for none.
        rotor_inertia: Whether rotor inertias shall be found; None: as the robot's file has them.
        runs: How many motions of this duration: each is designed for what those before it show least. The last one is
            returned, its `runs` are all of them, and its errors those of all logs together.
        start: Pose (n,) at the start, rad or m; None: free.
        end: Pose (n,) at the end; None: as at the start.
        limits: Limits beside those of the robot's file; the narrower ones count: {"velocity": 1.0, "acceleration":
            [2, 2, 5], "upper": {"elbow": 1.5}}, of "lower", "upper", "velocity", "acceleration", "jerk", "effort".
        torque_share: Share of the effort limits that may be used.
        uncertainty: How well the robot's parameters are known: 0.3 keeps the torque limits for every robot whose
            links' masses, first moments and inertias, and whose drive terms, are within 30 % of the model's.
        clearance: Least distance of links from each other and from obstacles, m; needs the shapes in a URDF or MJCF.
        obstacles: What to keep away from, in the world, m: {"kind": "plane", "point": [0, 0, 0], "normal": [0, 0, 1]}
            (stay above), {"kind": "sphere", "centre": ..., "radius": ...}, {"kind": "capsule", "from": ..., "to": ...,
            "radius": ...}, {"kind": "inside", "lower": ..., "upper": ...} (a box to stay in).
        after: What is known already: an estimate of this robot, or an earlier design that will be run, or several. The
            motion then adds most to it, errors are predicted for all together, the drive terms are those of the first,
            and its parameters predict the torques.
        noise: Standard deviation of the torques' noise, one or (n,), N m or N, or an estimate of this robot; None: that
            of `after`, or one percent of the geometric mean of the effort limits.
        harmonics: Multiples of the base frequency.
        periods: How often the motion repeats within the duration.
        rate: Samples a second of the log that errors are predicted for; None: 100.
        seed: Of the motions that the search starts from.
        time_limit: Seconds after which the search ends; None: when it is done.
        progress: Called with the number of motions looked at; True: a bar on stderr.

    Returns:
        The motion, predicted standard deviations, all criteria, and the share of each limit that is used. Where no
        motion keeps all limits, `feasible` is False and a notice names the limit, the joint and the time.

    Raises:
        Unsupported: Loops, and joints that follow others by a formula.
    """
    _check(criterion, duration, harmonics, periods, rate, time_limit, runs)
    if runs > 1:
        return _several(**locals())
    robot = as_robot(robot)
    if isinstance(uncertainty, bool) or not isinstance(uncertainty, int | float) or not 0 <= uncertainty < 1:
        raise MinidynError(f"excite: uncertainty: expected a share from 0 to 1, got {uncertainty!r}")
    require_formulas(robot, "motions are designed for robots without such loops")
    begun = time.monotonic()
    bounds = bounds_of(robot, limits, torque_share)
    notices = list(bounds.notices)
    earlier = as_known(robot, after, friction == AUTO and rotor_inertia is True)
    if earlier:
        base, noise = earlier[0].base, earlier[0] if noise is None else noise
        model = base.robot.with_parameters(earlier[0].robot.parameters)
    else:
        terms = PLAIN if friction == AUTO else None if isinstance(friction, str) and friction == OWN else friction
        model = robot.with_drives(rotor_inertia, terms)
        base = base_parameters(model)
    family = Family(robot.n, float(duration), int(periods), int(harmonics), *_poses(robot, start, end))
    phi, more = _prior(model)
    notices += more
    if phi is None:
        reach = dict(bounds.reach)
        reach["acceleration"] = np.minimum(reach["acceleration"], reach["velocity"] / _RISE)
        bounds = replace(bounds, reach=reach, effort=np.full(robot.n, np.inf))
    sigma, more = _noise(robot, noise)
    notices += more
    samples = (_RATE if rate is None else float(rate)) * duration
    problem = _problem(model, base, family, bounds, criterion, sigma, samples, phi)
    for one in earlier:
        problem.known += problem.orthonormal.T @ information_of(one) @ problem.orthonormal
    if not isinstance(clearance, int | float) or isinstance(clearance, bool) or not 0 <= clearance < np.inf:
        raise MinidynError(f"excite: clearance: expected a distance in m, got {clearance!r}")
    poses = work_poses(bounds, robot.n)
    apart, more = clearance_of(robot, float(clearance), obstacles, poses)
    notices += more
    problem.clearance = None if apart is None else apart.near(poses)
    torque = None if phi is None else record(model, "inverse_dynamics", parameters=phi)
    spread = None
    if uncertainty and phi is not None and problem.torque_limited:
        spread = Spread.of(model, phi, float(uncertainty))
        problem.bounds = replace(bounds, effort=bounds.effort / (1.0 + _FIRST_GUESS * uncertainty))
    deadline = np.inf if time_limit is None else begun + time_limit
    search = Search(problem, deadline, progress if callable(progress) else None)
    search.run(np.random.default_rng(seed))
    coefficients, proof = _finish(search, bounds, torque, apart, spread)
    problem.bounds = bounds
    if search.stopped:
        why = "time_limit was reached" if search.stopped == "time" else "it was interrupted"
        notices.append(ENDED_EARLY(f"the search was ended early: {why}", reason=search.stopped))
    if not proof.holds:
        notices.append(_infeasible(proof))
    settings = {
        "harmonics": harmonics,
        "periods": periods,
        "torque_share": torque_share,
        "uncertainty": uncertainty,
        "seed": seed,
        "evaluations": search.evaluations,
        "seconds": time.monotonic() - begun,
    }
    return _judged(problem, model, coefficients, proof, apart, sigma, samples, notices, settings)


def _several(robot: RobotLike, duration: float, runs: int, **given: Any) -> Excitation:
    """Return the last of several designs, each after those before it."""
    earlier = given.pop("after")
    known = [] if earlier is None else list(earlier) if isinstance(earlier, list | tuple) else [earlier]
    limit, first, made = given.pop("time_limit"), given.pop("seed"), list[Excitation]()
    for count in range(runs):
        if made:
            given |= {"friction": AUTO, "rotor_inertia": True}  # those of the first
        words = {**given, "after": [*known, *made] or None, "seed": first + count}
        made.append(excite(robot, duration, time_limit=None if limit is None else limit / runs, **words))
        if not made[-1].feasible:
            break
    return replace(made[-1], runs=tuple(made), feasible=all(one.feasible for one in made))


def _check(criterion: str, duration: Any, harmonics: Any, periods: Any, rate: Any, time_limit: Any, runs: Any) -> None:
    if criterion not in CRITERIA:
        raise UnknownName("criterion", criterion, CRITERIA)
    for name, value in (("duration", duration), ("rate", rate), ("time_limit", time_limit)):
        fine = isinstance(value, int | float | np.number) and not isinstance(value, bool) and 0 < value < np.inf
        if not (fine or (value is None and name != "duration")):
            raise MinidynError(f"excite: {name}: expected a positive number, got {value!r}")
    for name, whole, least in (("harmonics", harmonics, 3), ("periods", periods, 1), ("runs", runs, 1)):
        if isinstance(whole, bool) or not isinstance(whole, int | np.integer) or whole < least:
            raise MinidynError(f"excite: {name}: expected a whole number from {least} on, got {whole!r}")


def _poses(robot: Robot, start: ArrayLike | None, end: ArrayLike | None) -> tuple[Array | None, Array | None]:
    if start is None and end is not None:
        raise MinidynError("excite: end= needs start=, the pose where the motion begins")
    found = []
    for name, pose in (("start", start), ("end", end)):
        values = None if pose is None else real_array(pose, f"excite: {name}")
        if values is not None and (values.shape != (robot.n,) or not np.all(np.isfinite(values))):
            raise ShapeError(f"excite: {name}: expected {robot.n} finite positions, got {pose!r}")
        found.append(None if values is None else frozen(values))
    return found[0], found[1]


def _prior(model: Robot) -> tuple[Array | None, list[Notice]]:
    """Standard parameters (p,) that predict the torques, None where they are not known; and what was assumed."""
    phi, names = predicting_parameters(model)
    if phi is None:
        text = "torques cannot be predicted: the robot's parameters are not known; accelerations are limited instead"
        return None, [NO_MODEL(text)]
    if not names:
        return phi, []
    text = f"torques are predicted without {len(names)} drive terms whose values are not known, {names[0]} first"
    return phi, [NO_FRICTION_VALUES(text, parameters=names)]


def _noise(robot: Robot, noise: Any) -> tuple[Array, list[Notice]]:
    """Standard deviations of the torques (n,)."""
    if noise is not None:
        sigma = real_array(getattr(noise, "sigma", noise), "excite: noise")
        if sigma.shape not in ((), (robot.n,)) or not np.all((sigma > 0) & np.isfinite(sigma)):
            raise MinidynError(f"excite: noise: expected a positive number or {robot.n} of them, got {noise!r}")
        return np.broadcast_to(sigma, (robot.n,)).astype(float), []
    efforts = np.array([robot.joints[k].limits.effort for k in robot.independent])
    known = efforts[np.isfinite(efforts) & (efforts > 0)]
    one = _NOISE * float(np.exp(np.log(known).mean())) if len(known) else 1.0
    text = f"the noise of the torques was not given: {number(one)} N m or N is assumed for every joint"
    return np.full(robot.n, one), [NO_NOISE(text, sigma=one)]


def _problem(
    model: Robot,
    base: BaseMap,
    family: Family,
    bounds: Bounds,
    criterion: str,
    sigma: Array,
    samples: float,
    phi: Array | None,
) -> Problem:
    speeds = bounds.reach["velocity"][: model.n]
    widths = {name: _SMOOTH * speed for name, speed in zip(model.joint_names, speeds)}
    smooth = model.with_drives(
        sign_width=[max(joint.drive.sign_width, widths.get(joint.name, 0.0)) for joint in model.joints]
    )
    if phi is not None:
        smooth = smooth.with_parameters(phi)  # loads that friction grows with
    problem = Problem(
        smooth,
        base,
        family,
        bounds,
        criterion,
        1.0 / sigma,
        samples,
        np.zeros((base.rank, base.rank)),
        np.zeros((base.rank, base.rank)),
        np.zeros(base.rank) if phi is None else base.values(phi),
        dict(TIGHT),
    )
    rng = np.random.default_rng(0)
    n = model.n
    unit = rng.uniform(-1, 1, (3, _STATES, n))
    fastest = np.minimum(bounds.reach["acceleration"][:n], bounds.reach["velocity"][:n] / _RISE)
    q = bounds.middle[:n] + bounds.reach["position"][:n] * unit[0]
    Y = problem.regressor([q, speeds * unit[1], fastest * unit[2]])
    rows = (problem.weights[:, None] * Y).reshape(-1, base.rank) @ problem.orthonormal
    problem.work = rows.T @ rows / (_STATES * n)
    return problem


def _finish(
    search: Search, bounds: Bounds, torque: Function | None, apart: Clearance | None, spread: Spread | None
) -> tuple[Array, Proof]:
    """Return the coefficients of a motion that provably keeps all limits, or comes nearest to it, and the proof."""
    problem = search.problem

    def tried(coefficients: Array) -> Proof:
        return prove(problem.family.course(coefficients), bounds, torque, problem.robot.n, apart, spread)

    nearest = search.still if search.least[1] is None else search.least[1]
    coefficients = problem.coefficients(nearest if search.best is None else search.best)
    proof = tried(coefficients)
    for attempt in range(_REFINED):
        wasted = attempt == 0 and spread is not None and float(proof.shares["torque"].max()) < _WASTED
        if (proof.worst.share < _LITTLE and not wasted) or search.stopped or search.last is None:
            break
        if spread is not None:  # the search knows the model alone: its limits make room for the others
            used = np.clip(proof.shares["torque"], 0.75, 2.0)
            factor = np.where((used > 1.0) | wasted, 0.985 / used, 1.0)
            problem.bounds = replace(problem.bounds, effort=np.minimum(problem.bounds.effort * factor, bounds.effort))
        for kind in ("position", "velocity", "acceleration", "jerk"):
            over = float(proof.shares[kind].max()) if kind in proof.shares else 0.0
            if over > 1.0:
                problem.tight[kind] *= 0.999 / over
        problem.look_at(proof.critical)
        search.refine(problem.variables(coefficients))
        ended = search.last if search.best is None else search.best
        if ended is None:
            break
        coefficients = problem.coefficients(ended)
        proof = tried(coefficients)
    if proof.holds:
        return coefficients, proof
    still = problem.coefficients(search.still)
    for size in _SMALLER:
        smaller = still + size * (coefficients - still)
        found = tried(smaller)
        if found.holds:
            return smaller, found
        proof, coefficients = (found, smaller) if found.worst.share < 0.5 * proof.worst.share else (proof, coefficients)
    return coefficients, proof


def _infeasible(proof: Proof) -> Notice:
    worst = proof.worst
    text = (
        f"no motion was found that keeps all limits: {worst.limit} of joint {worst.joint!r} reaches "
        f"{percent(worst.share, 0)} of its limit at t = {worst.time:.3f} s"
    )
    if worst.limit == "distance":
        text = f"no motion was found that keeps all distances: {worst.joint} at t = {worst.time:.3f} s"
    return INFEASIBLE(text, limit=worst.limit, joint=worst.joint, time=worst.time, share=worst.share)


def _judged(
    problem: Problem,
    model: Robot,
    coefficients: Array,
    proof: Proof,
    apart: Clearance | None,
    sigma: Array,
    samples: float,
    notices: list[Notice],
    settings: dict[str, Any],
) -> Excitation:
    """Return the result: what the log of the motion will show."""
    base, family = problem.base, problem.family
    motion = family.motion(coefficients)
    count = int(min(max(samples, 2000), 200_000))
    t = (np.arange(count) + 0.5) * family.duration / count
    filled = model.with_parameters(np.nan_to_num(model.parameters))  # loads that friction grows with
    Y = base_regressor(filled, *motion(t), base=base, out=np.empty((count, model.n, base.rank)))
    W = (Y / sigma[:, None]).reshape(-1, base.rank) @ problem.orthonormal
    gram = W.T @ W / count
    F = samples * gram + problem.known
    back = np.linalg.inv(problem.orthonormal)
    criteria = evaluate_criteria(F, problem.work)
    shown = np.isfinite(criteria["d"])
    if shown:
        covariance = problem.orthonormal @ np.linalg.inv(F) @ problem.orthonormal.T
    else:
        covariance = np.full((base.rank, base.rank), np.inf)
        notices.append(NOT_SHOWN("the motion does not show all parameters: their errors are not bounded"))
    scale = float(np.exp(np.log(sigma).mean()))
    values = np.linalg.eigvalsh(gram) * scale**2
    return Excitation(
        model,
        base,
        motion,
        family.duration,
        samples / family.duration,
        problem.criterion,
        criteria,
        frozen(sigma),
        frozen(covariance),
        frozen(samples * back.T @ gram @ back),
        float(np.sqrt(values[-1] / values[0])) if values[0] > 0 else float("inf"),
        float(np.log(values).sum()) if values[0] > 0 else float("-inf"),
        margins_of(problem.bounds, [proof]),
        proof.holds,
        problem.bounds,
        apart,
        tuple(most_serious_first(notices)),
        settings,
    )
