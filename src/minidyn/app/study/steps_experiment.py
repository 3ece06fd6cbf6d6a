"""Steps of a study that need no log: simulate, base, plan."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from minidyn.app.study.context import Context, write, write_json
from minidyn.app.study.file import Step
from minidyn.errors import ShapeError
from minidyn.formats.save import save
from minidyn.model.robot import Robot

_SYMBOLS = {"viscous": "Fv", "coulomb": "Fc", "offset": "Fo", "rotor_inertia": "Ia"}


def simulate(context: Context, step: Step, folder: Path) -> Mapping[str, Any]:
    """Simulate a log of the robot, with drives and parameters of its own."""
    from minidyn.simulation.named_laws import named_law
    from minidyn.simulation.payload import Payload
    from minidyn.simulation.simulate import simulate as run
    from minidyn.simulation.trajectory import fourier

    given = dict(step.settings)
    seed = given.pop("seed")
    dt = given.pop("dt", 1e-3)
    duration = given.pop("duration", 10.0)
    if "payload" in given:
        given["payload"] = Payload(0.0, {"inertia": np.zeros((3, 3)), "com": np.zeros(3), **given["payload"]})
    truth = _truth(context.robot, given, context.study.seed)  # the same robot in every run
    law = named_law(
        truth,
        given.pop("controller", "computed_torque"),
        rate=given.pop("bandwidth", 10.0),
        model_error=given.pop("model_error", 0.0),
        period=dt,
    )
    recording = run(truth, law, fourier(truth, seed=seed), duration, dt=dt, seed=seed, **given)
    recording.save(folder / "recording.parquet")
    save(truth, folder / "truth.toml")
    return {"samples": len(recording), "notices": list(recording.notices)}


def _truth(robot: Robot, given: dict[str, Any], seed: int) -> Robot:
    """Return the robot that is simulated: friction, rotor inertia and other parameters as the step says."""
    terms = {**given.pop("friction", {})}
    rotor = given.pop("rotor_inertia", None)
    spread = given.pop("parameter_spread", 0.0)
    if rotor is not None:
        terms["rotor_inertia"] = rotor
    if terms:
        friction = tuple(term for term in terms if term != "rotor_inertia")
        robot = robot.with_drives(True if rotor is not None else None, friction or None)
    values = np.array(robot.parameters)
    if spread:
        # one factor a link keeps every link's inertia physically possible
        factors = np.random.default_rng(seed).normal(1.0, spread, len(robot.links)).clip(0.1)
        for block, factor in zip(robot.layout.links, factors):
            values[block] *= factor
    driven = [joint for joint in range(len(robot.joints)) if robot.layout.drives[joint]]
    for term, value in terms.items():
        each = np.asarray(value, dtype=float)
        if each.ndim and len(each) != len(driven):
            raise ShapeError(f"{term}: expected one number, or one for each of {len(driven)} joints, got {len(each)}")
        for joint, number in zip(driven, np.broadcast_to(each, len(driven))):
            for column in robot.layout.drives[joint]:
                if column.symbol == _SYMBOLS[term]:
                    values[column.index] = number
    return robot.with_parameters(values)


def base(context: Context, step: Step, folder: Path) -> Mapping[str, Any]:
    """Find the base parameters."""
    from minidyn.base.base_parameters import base_parameters
    from minidyn.base.printing.relations import relations_json

    found = base_parameters(context.robot, **step.settings)
    write(folder / "base.md", found.to_markdown())
    write_json(folder / "base.json", found.to_json() | {"relations": relations_json(found)})
    return {"base_parameters": found.rank, "parameters": len(context.robot.layout), "notices": list(found.notices)}


def plan(context: Context, step: Step, folder: Path) -> Mapping[str, Any]:
    """Plan experiments in which one joint moves at a time."""
    from minidyn.excitation.one_joint_plan import one_joint_plan

    made = one_joint_plan(context.robot)
    write_json(folder / "plan.json", made.to_json())
    return {"steps": len(made.steps), "notices": list(made.notices)}
