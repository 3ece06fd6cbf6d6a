"""Exports in the programs they are for: each loads its file and must give the torques that the file can say.

Pinocchio, Drake and FMPy are from PyPI.
"""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import minidyn as md
import robot_cases
from c_compiler import STRICT, needs_gcc
from conftest import count
from export_cases import ALL, close, driven, estimate_of, filled, states
from hostile_names import HOSTILE
from minidyn.codegen.files import said
from minidyn.dynamics.drives import drive_states, memory_columns
from minidyn.model.robot import Robot

CASES = ["ur10e", "scara", "panda_hand", *(f"chain{seed}" for seed in range(count(2, 30)))]


def case(name: str) -> tuple[Robot, np.random.Generator]:
    rng = np.random.default_rng(sum(map(ord, name)))
    if name.startswith("chain"):
        joints = "".join(rng.choice(list("RP"), size=4))
        robot = robot_cases.random_chain(int(name[5:]), joints).with_gravity([0, 0, -9.81])
        robot = robot.with_drives(rotor_inertia=True, friction=ALL, sign_width=0.1)
        return filled(robot, rng), rng
    return driven(name, rng), rng


def missing(exported: object, target: str) -> dict[str, list[str]]:
    found = [n for n in exported.notices if n.code == "export.cannot_say" and n.data["target"] == target]
    return dict(found[0].data["missing"]) if found else {}


def in_pinocchio(folder: Path, robot: Robot, motion: tuple[np.ndarray, ...]) -> np.ndarray:
    """Return Pinocchio's torques of robot.urdf with the rotors of robot.srdf."""
    pin = pytest.importorskip("pinocchio", reason="Pinocchio (pip install pin) is not installed")
    model = pin.buildModelFromUrdf(str(folder / "robot.urdf"))
    pin.loadRotorParameters(model, str(folder / "robot.srdf"), False)
    data = model.createData()
    joints = [model.joints[model.getJointId(name)] for name in robot.joint_names]
    found = np.empty_like(motion[0])
    for row, (q, dq, ddq) in enumerate(zip(*motion)):
        position, speed, acceleration = pin.neutral(model), np.zeros(model.nv), np.zeros(model.nv)
        for joint, angle, v, a in zip(joints, q, dq, ddq):
            value = (np.cos(angle), np.sin(angle)) if joint.nq == 2 else (angle,)
            position[joint.idx_q : joint.idx_q + joint.nq] = value
            speed[joint.idx_v], acceleration[joint.idx_v] = v, a
        tau = pin.rnea(model, data, position, speed, acceleration)
        found[row] = [tau[joint.idx_v] for joint in joints]
    return found


def in_drake(path: Path, robot: Robot, motion: tuple[np.ndarray, ...]) -> np.ndarray:
    """Return Drake's inverse dynamics of a URDF, damping and reflected inertia included."""
    reason = "Drake (pip install drake) is not installed"
    plants = pytest.importorskip("pydrake.multibody.plant", reason=reason)
    from pydrake.multibody.parsing import Parser
    from pydrake.multibody.tree import MultibodyForces

    plant = plants.MultibodyPlant(0.0)
    parser = Parser(plant)
    parser.SetStrictParsing()  # a warning is an error
    parser.AddModels(str(path))
    plant.Finalize()
    context = plant.CreateDefaultContext()
    places = [plant.GetJointByName(name).velocity_start() for name in robot.joint_names]
    assert sorted(places) == list(range(plant.num_velocities())) == list(range(plant.num_positions()))
    assert plant.num_actuators() == robot.n
    found = np.empty_like(motion[0])
    for row, (q, dq, ddq) in enumerate(zip(*motion)):
        signals = np.empty((3, robot.n))
        signals[:, places] = q, dq, ddq
        plant.SetPositions(context, signals[0])
        plant.SetVelocities(context, signals[1])
        forces = MultibodyForces(plant)
        plant.CalcForceElementsContribution(context, forces)
        found[row] = plant.CalcInverseDynamics(context, signals[2], forces)[places]
    return found


@pytest.mark.parametrize("name", CASES)
def test_trees_in_pinocchio_and_drake(name, tmp_path) -> None:
    robot, rng = case(name)
    exported = estimate_of(robot, rng).export(tmp_path / "out", to=["pinocchio", "drake"])
    motion = states(robot, rng)
    if any(joint.follows for joint in robot.joints):
        return  # both let a follower move freely
    close(in_pinocchio(tmp_path / "out", robot, motion), md.inverse_dynamics(said(robot, ["Ia"]), *motion))
    close(
        in_drake(tmp_path / "out" / "drake.urdf", robot, motion),
        md.inverse_dynamics(said(robot, ["Ia", "Fv"]), *motion),
    )
    assert set(missing(exported, "pinocchio")) == {"viscous", "coulomb", "offset"}
    assert set(missing(exported, "drake")) == {"coulomb", "offset"}


def renamed(robot: Robot, names: list[str]) -> Robot:
    """Return the robot with other names of joints and links, and one of its own."""
    made = robot.with_joints(lambda joint: replace(joint, name=names[robot.joint_index(joint.name)]))
    return replace(made, name=names[0], link_names=tuple(f"{name} " for name in names))


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_reach_each_program_or_are_refused(name, tmp_path) -> None:
    rng = np.random.default_rng(0)
    robot = renamed(driven("two_link", rng), [name, f"{name}2"])
    exported = estimate_of(robot, rng).export(tmp_path / "out", to=["toml", "pinocchio", "drake"])
    left = {n.data["format"] for n in exported.notices if n.code == "export.left_out"}
    assert left == set()
    assert "gravity" in missing(exported, "drake")
    motion = states(robot, rng)
    close(
        in_pinocchio(tmp_path / "out", robot, motion), md.inverse_dynamics(said(robot, ["Ia"], gravity=False), *motion)
    )
    found = in_drake(tmp_path / "out" / "drake.urdf", robot, motion)
    close(found, md.inverse_dynamics(said(robot, ["Ia", "Fv"], gravity=False), *motion))


def test_what_a_format_cannot_say_has_its_error_on_test_data(tmp_path) -> None:
    """The notice's figure is that of the torques which the program itself computes from its file."""
    robot, rng = case("ur10e")
    estimate = estimate_of(robot, rng)
    q, dq, ddq = motion = states(robot, rng, 40)
    tau = md.inverse_dynamics(robot, *motion) + 0.1 * rng.normal(size=q.shape)
    validation = md.validate(estimate, md.Recording(0.01 * np.arange(40), q, tau, dq, ddq, robot.joint_names))
    exported = estimate.export(tmp_path, to=["pinocchio", "mujoco"], test=validation)
    notice = next(n for n in exported.notices if n.data.get("target") == "pinocchio")
    found = np.linalg.norm(tau - in_pinocchio(tmp_path, robot, motion)) / np.linalg.norm(tau)
    assert notice.data["error"] == pytest.approx(found, rel=1e-9)
    assert notice.data["whole"] == pytest.approx(validation.relative_error, rel=1e-9)
    assert notice.data["error"] > 3 * notice.data["whole"]
    assert {path.name for path in exported.files} >= {"robot.xml", "robot.urdf", "robot.srdf"}


# ------------------------------------------------------------------ FMI 3.0


def as_fmu(folder: Path, robot: Robot) -> tuple[str, object]:
    """Return (folder, description) of robot.fmu, checked by FMPy against the standard's schemas and compiled."""
    fmpy = pytest.importorskip("fmpy", reason="FMPy (pip install fmpy) is not installed")
    from fmpy.validation import validate_fmu

    assert validate_fmu(str(folder / "robot.fmu")) == []
    place = Path(fmpy.extract(str(folder / "robot.fmu"), str(folder / "unpacked")))
    found = fmpy.read_model_description(str(place))
    library = place / "binaries" / fmpy.platform_tuple / f"{found.modelExchange.modelIdentifier}.so"
    library.parent.mkdir(parents=True)
    sources = [str(place / "sources" / name) for name in found.buildConfigurations[0].sourceFileSets[0].sourceFiles]
    headers = Path(fmpy.__file__).parent / "c-code"  # FMPy's own way is CMake with these, and the same sources
    words = ["gcc", *STRICT, "-Wno-overlength-strings", "-I", str(headers), "-shared", "-fPIC", *sources]
    subprocess.run([*words, "-o", str(library), "-lm"], check=True)
    return str(place), found


@needs_gcc
@pytest.mark.parametrize("name", ["two_link", "scara"])
def test_an_fmu_computes_the_whole_model(name, tmp_path) -> None:
    """Accelerations and torques of every drive term to 1e-9, in FMPy; trajectories as SciPy integrates them."""
    rng = np.random.default_rng(1)
    terms = ("viscous", "coulomb", "offset", "stribeck", *(("presliding",) if name == "two_link" else ()))
    robot = filled(md.load(name).with_drives(rotor_inertia=True, friction=terms, sign_width=0.5), rng)
    robot = renamed(robot, [f'{joint.name} <&">\n' for joint in robot.joints])
    exported = estimate_of(robot, rng).export(tmp_path, to="fmu")
    assert not exported.notices
    place, description = as_fmu(tmp_path, robot)
    import fmpy

    names = {variable.name: variable.valueReference for variable in description.modelVariables}
    shown = [joint.replace("\n", "\\n") for joint in robot.joint_names]
    groups = {group: [names[f"{group}.{joint}"] for joint in shown] for group in ("tau", "q", "dq", "ddq", "tau_ref")}
    groups |= {group: [names[f"{group}.{joint}"] for joint in shown] for group in ("q_ref", "dq_ref", "ddq_ref")}
    fmu = fmpy.instantiate_fmu(place, description, "ModelExchange")
    fmu.enterInitializationMode()
    fmu.exitInitializationMode()
    path, memory = [np.zeros(robot.n)], None
    for q, dq, ddq in zip(*states(robot, rng)):
        for group, values in (("q", q), ("dq", dq), ("q_ref", q), ("dq_ref", dq), ("ddq_ref", ddq)):
            fmu.setFloat64(groups[group], values.tolist())
        fmu.completedIntegratorStep()
        path.append(q)
        memory = drive_states(robot, np.array(path))[-1] if memory_columns(robot) else None
        tau = md.inverse_dynamics(robot, q, dq, ddq, memory=memory)
        close(np.array(fmu.getFloat64(groups["tau_ref"])), tau)
        fmu.setFloat64(groups["tau"], tau.tolist())
        close(np.array(fmu.getFloat64(groups["ddq"])), ddq)
    fmu.terminate()
    fmu.freeInstance()
    if memory is None:
        _follows_scipy(place, description, robot, groups)


def _follows_scipy(place: str, description: object, robot: Robot, groups: dict[str, list[int]]) -> None:
    import fmpy
    from scipy.integrate import solve_ivp

    torque, end = np.array([1.0, -2.0, 30.0, 0.5])[: robot.n], 0.2
    start = np.full(2 * robot.n, 0.1)
    fmu = fmpy.instantiate_fmu(place, description, "CoSimulation")
    fmu.enterInitializationMode()
    for group, values in (("q", start[: robot.n]), ("dq", start[robot.n :]), ("tau", torque)):
        fmu.setFloat64(groups[group], values.tolist())
    fmu.exitInitializationMode()
    fmu.doStep(currentCommunicationPoint=0.0, communicationStepSize=end)
    found = np.array([*fmu.getFloat64(groups["q"]), *fmu.getFloat64(groups["dq"])])
    fmu.terminate()
    fmu.freeInstance()

    def slope(_: float, x: np.ndarray) -> np.ndarray:
        return np.concatenate([x[robot.n :], md.forward_dynamics(robot, x[: robot.n], x[robot.n :], torque)])

    wanted = solve_ivp(slope, (0.0, end), start, rtol=1e-10, atol=1e-12).y[:, -1]
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-8 * np.abs(wanted).max())
