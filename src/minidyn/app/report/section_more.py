"""One joint at a time, generated code and its cost, contacts, adaptive control.

And how the report was made.
"""

from __future__ import annotations

import time
import timeit
from collections.abc import Mapping, Sequence

import numpy as np

from minidyn.app.report.facts import Facts, command_line, generate_command
from minidyn.app.study.store import versions
from minidyn.arrays import Array
from minidyn.display import Html, envelope, tag
from minidyn.dynamics.kernel import compile_kernel
from minidyn.errors import MinidynError
from minidyn.excitation.one_joint_plan import Plan
from minidyn.identification.estimate import Estimate
from minidyn.model.joint import torque_unit
from minidyn.pages.charts import Axis, Plot, legend, nice_range, picture
from minidyn.pages.html import Section, figure, folded, table
from minidyn.recording.recording import SKETCH
from minidyn.text import count, fixed, number, short, visible

_FUNCTIONS = {
    "inverse_dynamics": "torque of a motion",
    "inertia_matrix": "inertia matrix",
    "forward_dynamics": "acceleration from torque",
    "base_regressor": "base regressor",
}
_BATCH, _REPEATS = 2048, 12
_POSES = 300  # of a log, at which forces are looked at
_WORDS = {
    "friction": "friction terms",
    "sign_width": "smoothing width of friction, rad/s or m/s",
    "block_seconds": "length of a block of time, s",
    "prior_kind": "distance from the prior",
    "prior_scale": "scale of the prior",
    "prior_weight": "weight of the prior",
    "prior_shares": "part of that weight, for each link",
    "misfit_increase": "misfit added by physical consistency, noise variances",
    "cutoff": "cut-off of the low-pass, Hz",
    "order": "order of the low-pass",
    "rate": "samples per second",
    "decimate": "one sample kept of",
    "motion_band": "motion up to, Hz",
    "position_noise": "noise of positions, rad or m",
    "torque_noise": "torque above the cut-off, N m or N",
    "differentiated": "speeds and accelerations from positions",
}
"""Settings in words; others are shown by their names."""
_OWN = (
    "method",
    "samples",
    "preparation",
    "selection",
    SKETCH,
)  # shown elsewhere, or for programs alone


def plan_section(facts: Facts) -> Section | None:
    """Return the plan with one joint at a time and what it gave; None where there is none."""
    plan = facts.plan
    if plan is None:
        return None
    rows = []
    for step, shown in zip(plan.steps, _shown_by(facts, plan)):
        unit = "m" if plan.robot.joints[plan.robot.independent[step.index]].slides else "rad"
        low, high = (fixed(end, 2) for end in step.span)
        held = ", ".join(f"{name} = {fixed(value, 2)}" for name, value in step.locked.items())
        motion = (
            short(step.joint, 60),
            f"{low} … {high} {unit}",
            f"{step.trajectory.period:.1f} s",
        )
        rows.append((str(step.number), *motion, held, shown))
    headings = ("step", "moves", "from, to", "period", "others held at, rad or m", "shows")
    steps = table("Experiments", headings, rows, style="steps numbered")
    content = [folded(f"The {len(rows)} runs", steps, open_=len(rows) <= 5)]
    if facts.one_joint is not None:
        content.append(_agreement(facts, facts.one_joint))
    lead = (
        f"Safe experiments: one joint moves at a time, the others are held. {len(plan.steps)} "
        f"runs show all {plan.base.rank} base parameters, from small problems with condition "
        f"numbers up to {number(plan.condition)}."
    )
    return Section("plan", "One joint at a time", lead, tuple(content))


def _shown_by(facts: Facts, plan: Plan) -> list[str]:
    """For each step the base parameters, by the names of this page, that are known from it on."""
    try:
        return [row[-1] for row in plan.step_rows(facts.estimate.base)]
    except MinidynError:  # of another robot's drives
        return [f"{len(step.yields)} combinations" if step.yields else "-" for step in plan.steps]


def _agreement(facts: Facts, found: Estimate) -> Html:
    try:
        beta, covariance = found.in_base(facts.estimate.base)
    except MinidynError as error:
        return tag(
            "p",
            f"These runs cannot be compared with the whole log: {visible(error)}.",
            class_="quiet",
        )
    spread = np.sqrt(np.diag(covariance) + np.diag(facts.estimate.covariance))
    apart = np.abs(beta - facts.estimate.beta) / np.where(spread > 0, spread, np.inf)
    worst = int(np.argmax(apart))
    return tag(
        "p",
        f"These runs gave a model of their own. {int(np.sum(apart <= 3.0))} of {len(beta)} base "
        "parameters agree with those of the whole log within three standard deviations; the most "
        f"different is {facts.estimate.names[worst]} ({number(float(apart[worst]), 2)} standard "
        "deviations).",
    )


def code_section(facts: Facts) -> Section | None:
    """Return operation counts and speed of the generated functions.

    None where they were not asked for.
    """
    rows = [_cost(facts, what) for what in _FUNCTIONS] if facts.code else []
    shown = [row for row in rows if row is not None]
    if not shown:
        return None
    operations = ("multiplications", "additions", "divisions", "sin, cos pairs")
    headings = ("function", "gives", *operations, "time")
    lead = (
        "The identified model as a program without loops or memory: C99 for controllers, Python, "
        "JAX, machine code. Counts are exact, for one sample with these parameter values."
    )
    note = (
        "Times: vectorised machine code on one core of the computer that made this report, large "
        "batches."
    )
    content = (
        table("Cost of the generated functions", headings, shown, (2, 3, 4, 5, 6)),
        tag("p", note, class_="quiet"),
        tag("p", command_line(generate_command(facts))),
    )
    return Section("code", "Exported code", lead, content)


def _cost(facts: Facts, what: str) -> Sequence[object] | None:
    """A row of the table; None where loops that must be solved for leave no closed program."""
    estimate = facts.estimate
    try:
        kernel = compile_kernel(
            estimate.robot, what, base=estimate.base if what == "base_regressor" else None
        )
    except MinidynError:
        return None
    rng = np.random.default_rng(0)
    arrays = [
        rng.uniform(-1.0, 1.0, (_BATCH, argument.size)) for argument in kernel.function.arguments
    ]
    out = kernel(*arrays)
    best = min(timeit.repeat(lambda: kernel(*arrays, out=out), number=1, repeat=_REPEATS))
    counts = [count(kernel.counts[kind]) for kind in ("mul", "add", "div", "sincos")]
    return tag("code", what), _FUNCTIONS[what], *counts, f"{number(1e9 * best / _BATCH)} ns"


def watch_section(facts: Facts) -> Section | None:
    """Return the least forces that an observer finds, link by link.

    None where there is no observer or no motion.
    """
    observer = facts.observer
    motion = next((run.motion for _, _, run in facts.runs if run.motion is not None), None)
    if observer is None or motion is None:
        return None
    robot, some = observer.robot, slice(None, None, max(1, len(motion) // _POSES))
    q, dq = motion.q[some], np.asarray(motion.dq)[some]
    levels = np.median(observer.threshold(q, dq), axis=0), observer.threshold(q).max(axis=0)
    joints = [robot.joints[k] for k in robot.independent]
    thresholds = [
        (
            short(joint.name, 60),
            *(f"{number(float(level[j]))} {torque_unit(joint)}" for level in levels),
        )
        for j, joint in enumerate(joints)
    ]
    forces = []
    for name in robot.link_names:
        cells = []
        for speeds in (dq, None):
            least = np.median(observer.least_force(q, speeds, name), axis=0)
            cells += [f"{number(float(force))} N" if np.isfinite(force) else "–" for force in least]
        if any(cell != "–" for cell in cells):
            forces.append((short(name, 60), *cells))
    lead = (
        "The model watches the robot: a push shows as torque that the model does not explain. The "
        "least steady force that passes a threshold, at each link's origin along the axes of the "
        "world, median over the poses of the log. Most is needed at rest, where static friction "
        "may hide it. A dash: no joint feels it."
    )
    headings = ("link", "moving: x", "y", "z", "at rest: x", "y", "z")
    content = (
        table("Least detectable force", headings, forces, (1, 2, 3, 4, 5, 6)),
        folded(
            "Thresholds of the joints",
            table("Thresholds", ("joint", "moving", "at rest"), thresholds, (1, 2)),
        ),
    )
    return Section("watch", "Contacts", lead, content)


def control_section(facts: Facts) -> Section | None:
    """Return the adaptive-control case; None where there is none."""
    study = facts.case_study
    if study is None:
        return None
    laws = {
        "modified_slotine_li": (study.modified_slotine_li, "model"),
        "craig": (study.craig, "residual"),
    }
    true = float(study.robot.links[-1].mass)
    error, mass = "Tracking error", "Estimated mass of the load and its link"
    errors = [
        (run.t, np.abs(run.telemetry["error"]).max(axis=1), class_) for run, class_ in laws.values()
    ]
    masses = [(run.t, run.telemetry["estimate"][:, 0], class_) for run, class_ in laws.values()]
    figures = (
        figure(error, "", _curves(error, "largest of all joints, rad", errors, None)),
        figure(mass, "", _curves(mass, "kg", masses, true)),
    )
    ends = "; ".join(
        f"{name}: {number(float(found[-1]), 4)} kg" for name, (_, found, _) in zip(laws, masses)
    )
    first = number(float(masses[1][1][0]))
    lead = (
        "A four-joint arm follows a path with a load it does not know, starting 20 % away from "
        "it. Two adaptive laws correct the model while they run. A simulation of the published "
        "case LuMeng1993."
    )
    content = (
        legend([(class_, name) for name, (_, class_) in laws.items()]),
        tag("div", *figures, class_="grid wide"),
        tag("p", f"True mass {number(true)} kg, at the start {first} kg. At the end {ends}."),
    )
    return Section("control", "Adaptive control", lead, content)


def _curves(
    title: str, unit: str, lines: Sequence[tuple[Array, Array, str]], level: float | None
) -> Html:
    """Return a chart of (times, values, class of the line), and a level."""
    every = np.concatenate(
        [values for _, values, _ in lines] + ([] if level is None else [np.array([level])])
    )
    width, height = 460.0, 220.0
    y = nice_range(every) if level is not None else Axis(0.0, 1.05 * float(every.max()))
    plot = Plot(48, 24, width - 58, height - 64, Axis(0.0, float(lines[0][0][-1])), y)
    marks = [plot.axes("time, s", unit, ticks=(5, 4))]
    if level is not None:
        marks.append(plot.level(level, "limit", "true"))
    for times, values, class_ in lines:
        found = envelope(times, values[:, None], 400, [])
        marks.append(plot.path(found.t, (found.low[:, 0] + found.high[:, 0]) / 2, class_))
    return picture(width, height, marks, f"{title} over time for both laws")


def record_section(facts: Facts) -> Section:
    """Return settings, versions and fingerprints: what is needed to do it again."""
    rows = settings_rows(facts.estimate, {} if facts.motion is None else facts.motion.info)
    more: dict[str, object] = {str(name): value for name, value in facts.details.items()}
    more |= {
        name if name == "platform" else f"version of {name}": found
        for name, found in versions().items()
    }
    more["report made"] = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime())
    made = table(
        "Settings and versions", ("what", "value"), [*rows, *_in_words(more)], style="record"
    )
    lead = "All that is needed to repeat this: settings, versions, fingerprints."
    return Section("record", "How this was made", lead, (folded("Settings and versions", made),))


def settings_rows(
    estimate: Estimate, motion: Mapping[str, object] | None = None
) -> list[tuple[str, str]]:
    """Return (what, value) of an estimate's robot, record and preparation, in words.

    Where it does not say how its log was prepared, that of the motion counts.
    """
    robot = estimate.robot
    rows: dict[str, object] = {
        "robot": f"{robot.name}, {robot.n} joints",
        "source of the robot": robot.source or "–",
        "fingerprint of the model": robot.fingerprint,
        "gravity, m/s²": ", ".join(f"{value:g}" for value in robot.gravity),
        "method": estimate.method,
        "made physically consistent": estimate.consistent,
        "samples": count(estimate.samples),
    }
    rows |= {
        _WORDS.get(name, name): value for name, value in estimate.record.items() if name not in _OWN
    }
    prepared = estimate.record.get("preparation") or motion
    if isinstance(prepared, Mapping):
        rows |= {
            _WORDS.get(name, f"prepared, {name}"): value
            for name, value in prepared.items()
            if name not in _OWN
        }
    return _in_words(rows)


def _in_words(rows: Mapping[str, object]) -> list[tuple[str, str]]:
    return [
        (visible(name).replace("_", " "), visible(_shown(one)))
        for name, one in rows.items()
        if not _is_raw(one)
    ]


def _is_raw(value: object) -> bool:
    """Whether a setting is a table of its own, for programs: curves of what was tried."""
    rows = (
        value.values()
        if isinstance(value, Mapping)
        else value
        if isinstance(value, list | tuple)
        else ()
    )
    return any(isinstance(one, list | tuple | Mapping) for one in rows)


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return number(value, 4)
    if isinstance(value, Mapping):
        return ", ".join(f"{name}: {_shown(one)}" for name, one in list(value.items())[:12])
    if isinstance(value, list | tuple):
        return ", ".join(_shown(one) for one in value[:12]) + (" …" if len(value) > 12 else "")
    return str(value)
