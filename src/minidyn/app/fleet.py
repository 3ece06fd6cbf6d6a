"""`md.identify_fleet`: many robots of one type, from the logs of each."""

from __future__ import annotations

import datetime
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from minidyn.app.fleet_result import Fleet, FleetRobot
from minidyn.arrays import Array, single_thread
from minidyn.errors import MinidynError, UnknownName, Unsupported, WrongArgument
from minidyn.formats.load import RobotLike, as_robot
from minidyn.identification.consistency.consistency import consistent_model
from minidyn.identification.consistency.knowledge import knowledge_of
from minidyn.identification.consistency.prior import prior_parameters, require_values
from minidyn.identification.estimate import Estimate
from minidyn.identification.estimators import solve
from minidyn.identification.estimators.method import Fold, Solution
from minidyn.identification.estimators.torque_scatter import torque_scatter
from minidyn.identification.fleet.chances import trend
from minidyn.identification.fleet.deviations import Comparison, FleetFit, compared
from minidyn.identification.fleet.logs import are_paths, files_by_robot, open_logs
from minidyn.identification.fleet.members import Given, Member, chosen_friction, members_of, spaced
from minidyn.identification.friction.per_log import SETTING
from minidyn.identification.friction.shared import Joined
from minidyn.identification.inputs import lifted
from minidyn.identification.select import Choice, seen
from minidyn.identification.selection import Decision, Selection
from minidyn.identification.settings import Settings, settings_of
from minidyn.model.lock import NOT_LOGGED
from minidyn.model.robot import Robot
from minidyn.notices import Notice, info, warning
from minidyn.recording.lazy import ON_ERROR, AnyRecording
from minidyn.recording.read.read import Paths
from minidyn.recording.ready import with_logged_joints

_FOLDS = 5
_TAKEN = (
    "friction",
    "force_terms",
    "forbid_terms",
    "auto",
    "rotor_inertia",
    "sign_width",
    "prior",
    "prior_kind",
    "consistent",
)  # options of identification that a fleet has; of preparation there is `time`
_LEAST = 3  # robots that say what is usual

DIFFERS = warning(
    "fleet.differs",
    "A robot is unlike the others of its fleet by more than healthy robots differ.",
    "Look at {robot}: {what}.",
)
RISES = warning(
    "fleet.changes",
    "Friction of a robot's joint changes from day to day in one direction.",
    "Look at {joint} of {robot}.",
)
TOO_FEW = warning(
    "fleet.too_few",
    "So few robots do not say by how much healthy ones differ: none is compared with the others.",
    "Add robots: three are the least, ten find a friction that is 20 % higher.",
)
SPREAD = info("fleet.spread", "By how much friction and drive gains of the robots differ.")


@single_thread()
def identify_fleet(
    robot: RobotLike,
    recordings: Mapping[str, Any] | Paths,
    executor: Executor | None = None,
    *,
    settings: Settings | None = None,
    link: str | None = None,
    level: float = 0.05,
    on_error: str = "stop",
    keep: str | os.PathLike[str] | None = None,
    times: str | None = None,
    force: bool = False,
    **options: Any,
) -> Fleet:
    """Identify robots of one type.

    Links that all share, friction, offsets and drive gains of each, and who differs.

    Args:
        robot: The type: a robot, a built-in robot's name or a robot file's path.
        recordings: {name: logs}, logs being a recording, paths (files, patterns, folders,
            addresses), or {date: any of these}; or paths of all, which name robots by their folders
            or files (docs/clusters.md). Dates of files are those of a folder date=2026-11-02, of
            their name, their times, or the file.
        executor: Any of concurrent.futures, whose workers read the logs of a robot each, to the
            same bits.
        settings: As for :func:`minidyn.identify`; "auto" chooses terms from the logs of a few
            robots. Friction that grows with the load, or remembers, is not among them. Of the
            options of preparation there is `time` alone; the method is "wls".
        link: Link or frame at which a load is looked for; None: the last link.
        level: Probability of a false alarm for a healthy robot, all tests of it together.
        on_error: "stop", or "skip": files that cannot be read are left out, and robots of which no
            log can be used; notices name them.
        keep: Folder for what is known of each robot whose logs are on disk: the same call, after it
            was killed, does not read them again. Files there are named by a hash of settings and of
            names, contents and times of logs.
        times: The option `time` of `settings`; among options of reading, `time` is a column.
        force: As for :func:`minidyn.identify`.
        **options: Single options of :class:`minidyn.Settings`, which count before `settings`, and
            options of :func:`minidyn.read_recording` for paths.

    Returns:
        The fleet. A robot counts as different where a healthy one would differ as much with a
        probability below `level`; how much healthy robots differ is what the others show
        (docs/clusters.md).

    Raises:
        MinidynError: Logs of a robot cannot be used; the message names the robot.
    """
    told: tuple[Notice, ...] = ()
    if are_paths(recordings):
        recordings, told = files_by_robot(recordings, on_error)
    if not isinstance(recordings, Mapping) or not recordings:
        raise WrongArgument(
            "recordings: expected {name of a robot: its logs}, or paths of the logs of all robots"
        )
    if not 0 < level < 1:
        raise MinidynError(f"level: expected a probability between 0 and 1, got {level!r}")
    if on_error not in ON_ERROR:
        raise UnknownName("on_error", on_error, ON_ERROR)
    reading = {name: value for name, value in options.items() if name not in _TAKEN}
    known = {name: value for name, value in options.items() if name in _TAKEN}
    settings = settings_of(settings, known | ({} if times is None else {"time": times}))
    for name, default in Settings().to_json().items():
        if name not in (*_TAKEN, "time") and settings.to_json()[name] != default:
            raise Unsupported(f"{name}: a fleet does not know this option of identification")
    if settings.time == "stamps" and reading.get("rate") is not None:
        raise WrongArgument(
            "rate=... (--rate) says that samples are even, stamps (--time) that they are not: "
            "give one"
        )
    preparation = None if settings.time == Settings.time else {"time": settings.time}
    kind = as_robot(robot)
    kind.find_frame(link)
    if kind.implicit_loops or kind.formulas:
        raise Unsupported(
            f"robot {kind.name!r} has loops or joints given by formulas: a fleet of them is not "
            "known"
        )
    names = {str(name): value for name, value in recordings.items()}
    if len(names) == 1:
        raise WrongArgument(
            f"recordings: {next(iter(names))!r} is one robot; a fleet has two at least "
            "(md.identify)"
        )

    kind = _of_logged_joints(kind, names, on_error, reading)
    told = (*told, *(notice for notice in kind.notices if notice.code == NOT_LOGGED.code))

    def asked(
        few: Sequence[str],
    ) -> tuple[Choice, AnyRecording, list[Member], list[Notice], Comparison, Array]:
        """Return all robots with the friction that logs of a few of them show, compared."""
        several = [Given(name, names[name]) for name in few]
        choice, sample = chosen_friction(kind, several, settings, on_error, reading, preparation)
        members, lost = list[Member](), list[Notice]()
        given = (Given(name, value) for name, value in names.items())
        for found in members_of(
            choice.robot, choice.base, given, executor, on_error, reading, keep, preparation, force
        ):
            if isinstance(found, Member):
                members.append(found)
            else:
                lost.append(found)
        if len(members) < 2:
            first = lost[0].text if lost else ""
            raise MinidynError(
                f"{len(members)} robots have logs that can be used, a fleet has two at least: "
                f"{first}"
            )
        made, _, chances = compared(choice.base, members, level, link)
        return choice, sample, members, lost, made, chances

    few = spaced(tuple(names))
    choice, sample, members, lost, made, chances = asked(few)
    usual = {one.name for one, counts in zip(members, made.counts) if counts}
    if (
        not usual.issuperset(few) and len(usual) > 1
    ):  # a load or a fault would be taken for friction of all
        choice, sample, members, lost, made, chances = asked(
            spaced([one.name for one in members if one.name in usual])
        )
    model = _model(kind, choice, made, members, sample, settings, chances < level)
    robots = {
        one.name: _robot(made, number, float(chances[number]), level)
        for number, one in enumerate(members)
    }
    deviations = sorted(
        (part for one in robots.values() for part in one.deviations), key=lambda part: part.p
    )
    spread = dict(zip(_own_names(made.fit), np.append(made.fit.spread, made.fit.gains).tolist()))
    gone = [notice for one in members for notice in one.left_out]
    forced = [
        replace(notice, text=f"robot {one.name!r}: {notice.text}")
        for one in members
        for notice in one.notices
        if notice.level == "error"
    ]
    notices = [*lost, *gone, *forced, *told, *_notices(made, robots, level), *model.notices]
    why = {str(notice.data["robot"]): notice.text for notice in lost}
    return Fleet(model, robots, tuple(deviations), level, spread, why, tuple(notices))


def _of_logged_joints(
    kind: Robot, names: Mapping[str, Any], on_error: str, reading: Mapping[str, Any]
) -> Robot:
    """Return the type with the joints locked that the first log which can be read does not have."""
    for name, value in names.items():
        with suppress(MinidynError, OSError):  # it is named when its turn comes
            log = open_logs(name, value, kind, on_error, **reading).dated[0][1]
            return with_logged_joints(kind, log)
    return kind


def _model(
    kind: Robot,
    choice: Choice,
    made: Comparison,
    members: Sequence[Member],
    data: AnyRecording,
    settings: Settings,
    differs: NDArray[np.bool_],
) -> Estimate:
    """Return the model of the type as an estimate."""
    fit, base = made.fit, choice.base
    R, z, rest = fit.joined.form
    counted = [member for member, use in zip(members, made.counts) if use]
    samples = np.array([member.samples for member in counted], dtype=float)
    sigma = np.sqrt(np.average([member.sigma**2 for member in counted], axis=0, weights=samples))
    found = Solution(
        fit.beta,
        fit.covariance,
        sigma,
        solve.condition_of(R),
        R,
        z,
        rest,
        lambda: _folds(fit),
        (),
        {"robots": len(members)},
    )
    found = choice.with_shape_uncertainty(found, False)
    beta, parameters, covariance = (
        found.beta,
        lifted(base, found.beta, choice.robot),
        found.covariance,
    )
    notices, weight = [*choice.notices], dict[str, Any]()
    decisions: tuple[Decision, ...] = ()
    if settings.consistent:
        known = prior_parameters(choice.robot, settings.prior, (kind,))
        require_values(settings.prior, known)
        result, told, weight, decisions = consistent_model(
            choice.robot,
            base,
            found,
            data,
            known,
            settings.prior_kind,
            knowledge=knowledge_of(choice.robot, settings),
        )
        beta, parameters, covariance = result.beta, result.phi, np.asarray(result.covariance)
        notices += told
    low, choice = choice.robot.with_parameters(parameters), seen(choice, 0.0)
    # a robot that differs (N,) is not drawn to the others
    values = [
        (made.alone(k)[0][: len(fit.spread)] if differs[k] else made.likely(k)).tolist()
        for k in range(len(members))
    ]
    own = {
        "names": list(fit.split.names),
        "values": values,
        "spread": fit.spread.tolist(),
        "anchors": [],
    }
    record = {
        "method": "wls",
        "samples": int(samples.sum()),
        **choice.record,
        **found.record,
        **weight,
        "selection": Selection(decisions).to_json(),
        SETTING: own,
    }
    described = replace(choice.robot.with_parameters(parameters), notices=())
    record |= torque_scatter(data, low, described, sigma, len(beta), drifts=True)
    numbers = (
        beta,
        covariance,
        sigma,
        "wls",
        settings.consistent,
        found.condition,
        int(samples.sum()),
    )
    return Estimate(
        described,
        base,
        *numbers,
        tuple(notices),
        record,
        found.covariance if settings.consistent else None,
    )


def _folds(fit: FleetFit) -> list[Fold]:
    """Return forms in which some robots are held out.

    Others foretell them as far as robots are alike.
    """
    count = min(_FOLDS, len(fit.parts))
    made: list[Fold] = []
    for held in range(count) if count > 1 else ():
        forms = [
            Joined(
                fit.split, [(part.R, part.z) for part in parts], fit.spread, np.zeros(len(parts))
            ).form
            for parts in (
                [part for k, part in enumerate(fit.parts) if k % count != held],
                [part for k, part in enumerate(fit.parts) if k % count == held],
            )
        ]
        made.append((*forms[0][:2], *forms[1]))
    return made


def _own_names(fit: FleetFit) -> list[str]:
    robot = fit.base.robot
    return [*fit.split.names, *(f"gain {robot.joints[joint].name}" for joint in robot.independent)]


def _robot(made: Comparison, number: int, p: float, level: float) -> FleetRobot:
    """Return what is known of one robot."""
    member, names = made.members[number], _own_names(made.fit)
    values, std = made.alone(number)
    friction = values[: len(made.fit.split.own)] - made.fit.beta[list(made.fit.split.own)]
    overall = 1.0 + made.levels @ friction
    days = member.change if len(member.change) else np.zeros((1, len(overall)))
    errors = member.change_std if len(member.change) else np.full((1, len(overall)), np.nan)
    levels, joints = overall * (1.0 + days), len(overall)
    slope, slope_std, slope_p = np.full((3, joints), np.nan)
    known = [k for k, date in enumerate(member.dates) if date]
    if len({member.dates[k] for k in known}) >= _LEAST:
        slope, slope_std, slope_p = trend(
            [datetime.date.fromisoformat(member.dates[k]) for k in known], levels[known]
        )
    differs = tuple(made.found(number, level)) if p < level else ()
    return FleetRobot(
        member.name,
        member.samples,
        dict(zip(names, values.tolist())),
        dict(zip(names, std.tolist())),
        p,
        differs,
        made.tests(number),
        member.dates,
        levels,
        overall * errors,
        slope,
        slope_std,
        slope_p,
    )


def _notices(made: Comparison, robots: Mapping[str, FleetRobot], level: float) -> list[Notice]:
    """Return who differs, whose friction changes, and how much robots differ."""
    found, joints = [], made.fit.base.robot.joints
    if np.sum(made.counts) < _LEAST:
        found.append(
            TOO_FEW(f"{len(robots)} robots are too few to say what is usual", robots=len(robots))
        )
    for one in sorted(robots.values(), key=lambda one: one.p):
        if one.deviations:
            text = f"robot {one.name!r} differs from the others: {one.text}"
            found.append(DIFFERS(text, robot=one.name, what=one.text, p=one.p))
    for one in robots.values():
        for joint, (slope, p) in enumerate(zip(one.slope, one.slope_p)):
            if p < level / len(joints) / len(
                robots
            ):  # none in the whole fleet, but for one of 1 / level fleets
                name = joints[joint].name
                text = (
                    f"friction of joint {name!r} of robot {one.name!r} changes by "
                    f"{100 * slope:+.2g} % a day"
                )
                found.append(
                    RISES(text, robot=one.name, joint=name, slope=float(slope), p=float(p))
                )
    split, mean = made.fit.split, np.abs(made.fit.beta[list(made.fit.split.own)])
    shares = [
        float(made.fit.spread[k] / mean[k])
        for k in range(len(mean))
        if mean[k] > 0 and split.symbols[k] != "Fo"
    ]
    if shares:
        gains = float(np.median(made.fit.gains))
        usual = float(np.median(shares))
        text = (
            f"friction parameters of the robots differ by {100 * usual:.2g} %, drive gains by "
            f"{100 * gains:.2g} % (1 σ)"
        )
        found.append(SPREAD(text, friction=usual, gains=gains, robots=len(robots)))
    return found
