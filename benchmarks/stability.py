"""What logs of one robot agree on: torques, inertia matrices, choices, parameters, intervals.

Each log of a group is identified alone. For each pair of logs: by how much torques of both models
differ on a third recording, and inertia matrices at poses of the recordings; how far cut-offs are
apart; whether sets of terms are equal or nested; the root mean square of differences of base
parameters over their stated deviations. For each model: the share of raw samples of every other
recording within its intervals of 95 %.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

import between_runs
import minidyn as md
from real_robots import Array, Group, groups
from truth import ROBOTS

POSES = 200
LOGS = 5  # of a simulated robot
EFFECTS = ("none", "drift")
"""What simulated robots have: nothing beside plain friction, or friction that is another in each
log.
"""
THIRD_HZ = 10.0  # cut-off of the third recording's motion, the same for both models
TORQUE, INERTIA, CUTOFF = 0.12, 0.20, 1.5
"""Two models of one robot should differ by no more."""
COVERED = 0.92, 0.97
Z = 0.8, 1.3


def groups_of(simulated: int) -> list[Group]:
    """Return the groups of real logs, and so many simulated robots for each effect."""
    found = groups()
    for effect in EFFECTS:
        for seed, name in enumerate(ROBOTS[:simulated]):
            logs = between_runs.logs_of(name, effect, seed, (1.0,) * LOGS)
            runs = {
                str(k): md.Recording(
                    log.t, log.q, log.tau, log.dq, joint_names=log.file.joint_names
                )
                for k, log in enumerate(logs)
            }
            kind = "simulated" if effect == "none" else "simulated drift"
            days = {} if effect == "none" else {key: key for key in runs}
            found.append(Group(f"{name}, {kind}", logs[0].file, runs, {}, False, days))
    return found


def choices(estimate: md.Estimate) -> dict[str, Any]:
    """Return what was chosen: cut-off, delay, terms; and the total mass."""
    preparation = estimate.record.get("preparation") or {}
    drives = [joint.drive for joint in estimate.robot.joints]
    terms = list(dict.fromkeys(term for drive in drives for term in drive.friction))
    return {
        "cutoff": float(preparation.get("cutoff") or 0.0),
        "delay": float(preparation.get("delay") or 0.0),
        "terms": terms,
        "mass": float(sum(link.mass for link in estimate.robot.links)),
    }


def measure(group: Group, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return all figures of a group with these settings of `md.prepare` and `md.identify`."""
    from real_logs import as_fitted, fit

    models = {name: fit(group.robot, log, settings) for name, log in group.logs.items()}
    every = group.logs | group.others
    poses = np.concatenate([log.q for log in every.values()])
    poses = poses[np.linspace(0, len(poses) - 1, POSES).astype(int)]
    shares = {}
    for name, model in models.items():
        for other, log in every.items():
            if other != name:
                run = as_fitted(model, log, settings)
                off = np.abs(run.telemetry["tau_raw"] - model.predict(run))
                std = model.predict_std(run, 0.0 if group.same_day(name, other) else None)
                shares[f"{name} -> {other}"] = float(np.mean(off <= 1.96 * std))
    pairs = []
    for one, other in itertools.combinations(group.logs, 2):
        third = next(name for name in (*group.others, *group.logs) if name not in (one, other))
        run = md.prepare(group.robot, every[third], cutoff=THIRD_HZ)
        both, same_day = (models[one], models[other]), group.same_day(one, other)
        found = of_pair(*both, run, poses) | {"z": z_of(*both, same_day, friction=False)}
        pairs.append({"logs": [one, other], "third": third} | found)
    found = {name: choices(model) for name, model in models.items()}
    return {"real": group.real, "models": found, "pairs": pairs, "covered": shares}


def of_pair(one: md.Estimate, other: md.Estimate, third: md.Recording, poses: Array) -> Any:
    """Return by how much two models differ."""
    torques = [model.predict(third) for model in (one, other)]
    inertias = [md.inertia_matrix(model.robot, poses) for model in (one, other)]
    cutoffs = [choices(model)["cutoff"] for model in (one, other)]
    terms = [set(choices(model)["terms"]) for model in (one, other)]
    return {
        "torque": float(np.linalg.norm(np.subtract(*torques)) / np.linalg.norm(third.tau)),
        "inertia": float(np.linalg.norm(np.subtract(*inertias)) / np.linalg.norm(inertias[1])),
        "cutoff": max(cutoffs) / min(cutoffs),
        "nested": bool(terms[0] <= terms[1] or terms[1] <= terms[0]),
    }


def z_of(one: md.Estimate, other: md.Estimate, same_day: bool, friction: bool) -> float:
    """Return differences of parameters over the root of their variances, root mean square.

    Of friction, or of links and rotors. Between days, variances hold what a day changes.
    """
    values = []
    for model in (one, other):
        rigid = set(between_runs.rigid(model))
        places = [k for k in range(len(model.beta)) if (k not in rigid) == friction]
        variance = np.diag(model.covariance)
        variance = variance if same_day else variance + np.diag(model.day_covariance)
        values.append({model.base.kept[k]: (model.beta[k], variance[k]) for k in places})
    both = [(values[0][name], values[1][name]) for name in values[0] if name in values[1]]
    squares = [(a - b) ** 2 / (va + vb) for (a, va), (b, vb) in both]
    return float(np.sqrt(np.nanmean(squares)))


def tables(cells: Sequence[Mapping[str, Any]], labels: Sequence[str]) -> str:
    """Return a table of pairs of real logs, one of models, and one of summaries."""
    return "\n\n".join([pair_table(cells), model_table(cells), summary(cells, labels)])


def pair_table(cells: Sequence[Mapping[str, Any]]) -> str:
    """Return the table of pairs of logs: each of real ones, the median of simulated ones."""
    lines = [
        "| logs | on | settings | torques differ by | inertia matrices | cut-offs, factor | "
        "terms equal or nested | z, rms |",
        "|---|---|---|---:|---:|---:|---:|---:|",
    ]
    for cell in cells:
        pairs = cell["pairs"]
        if not cell["real"]:
            values = [
                np.median([pair[key] for pair in pairs]) for key in ("torque", "inertia", "cutoff")
            ]
            nested = f"{sum(pair['nested'] for pair in pairs)} of {len(pairs)}"
            z = float(np.sqrt(np.mean([pair["z"] ** 2 for pair in pairs])))
            words = f"{cell['row']}, {len(pairs)} pairs", "next", cell["label"]
            lines.append(_pair_line(*words, *values, nested, z))
        for pair in pairs if cell["real"] else ():
            words = f"{cell['row']}: {' and '.join(pair['logs'])}", pair["third"], cell["label"]
            values = [pair[key] for key in ("torque", "inertia", "cutoff")]
            lines.append(_pair_line(*words, *values, "yes" if pair["nested"] else "no", pair["z"]))
    return "\n".join(lines)


def _pair_line(
    logs: str, third: str, label: str, torque: Any, inertia: Any, cutoff: Any, nested: str, z: float
) -> str:
    return (
        f"| {logs} | {third} | {label} | {100 * torque:.1f} % | {100 * inertia:.1f} % | "
        f"{cutoff:.2f} | {nested} | {z:.2f} |"
    )


def model_table(cells: Sequence[Mapping[str, Any]]) -> str:
    """Return the table of real logs: choices, total mass, and samples within intervals."""
    lines = [
        "| log | settings | cut-off, Hz | delay, ms | terms beside viscous, Coulomb, offset | "
        "mass, kg | samples of other recordings within 95 % |",
        "|---|---|---:|---:|---|---:|---|",
    ]
    for cell in cells:
        for name, model in cell["models"].items() if cell["real"] else ():
            terms = [term for term in model["terms"] if term not in between_runs.PLAIN]
            own = [
                f"{key.split(' -> ')[1]} {100 * share:.0f} %"
                for key, share in cell["covered"].items()
                if key.startswith(f"{name} -> ")
            ]
            lines.append(
                f"| {cell['row']}: {name} | {cell['label']} | {model['cutoff']:.3g} | "
                f"{1e3 * model['delay']:.1f} | {', '.join(terms) or '-'} | {model['mass']:.1f} | "
                f"{', '.join(own)} |"
            )
    return "\n".join(lines)


def summary(cells: Sequence[Mapping[str, Any]], labels: Sequence[str]) -> str:
    """Return for each setting in how many pairs of logs models agree."""
    lines = [
        f"| settings | logs | torques within {100 * TORQUE:.0f} % | inertia matrices within "
        f"{100 * INERTIA:.0f} % | cut-offs within {CUTOFF:g} | terms equal or nested | z, rms | "
        "samples within 95 % |",
        "|---|---|---:|---:|---:|---:|---:|---:|",
    ]
    kinds = {
        "real": lambda cell: cell["real"],
        "simulated": lambda cell: not cell["real"] and "drift" not in cell["row"],
        "simulated drift": lambda cell: "drift" in cell["row"],
    }
    for label, (words, chosen) in itertools.product(labels, kinds.items()):
        own = [cell for cell in cells if cell["label"] == label and chosen(cell)]
        pairs = [pair for cell in own for pair in cell["pairs"]]
        if not pairs:
            continue
        within = [
            sum(pair["torque"] <= TORQUE for pair in pairs),
            sum(pair["inertia"] <= INERTIA for pair in pairs),
            sum(pair["cutoff"] <= CUTOFF for pair in pairs),
            sum(pair["nested"] for pair in pairs),
        ]
        covered = 100 * np.array([share for cell in own for share in cell["covered"].values()])
        z = float(np.sqrt(np.mean([pair["z"] ** 2 for pair in pairs])))
        shown = " | ".join(f"{count} of {len(pairs)}" for count in within)
        lines.append(
            f"| {label} | {words} | {shown} | {z:.2f} | {covered.mean():.1f} % "
            f"({covered.min():.0f} to {covered.max():.0f}) |"
        )
    return "\n".join(lines)
