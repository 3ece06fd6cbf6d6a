"""Exports in the programs they are for: each loads its file and must give the torques that the file
can say.

Pinocchio, Drake, FMPy and OpenUSD are from PyPI; the class for ros2_control is built with a host
program. Isaac Lab, Franka's Desk and URScript are checked against what their makers publish.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import types
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

import minidyn as md
import robot_cases
from c_compiler import STRICT, needs_gcc
from conftest import count
from export_cases import ALL, close, driven, estimate_of, filled, states
from hostile_names import HOSTILE
from minidyn.codegen.consumers.isaac import FIELDS, isaac_actuators
from minidyn.codegen.files import prim_names, said
from minidyn.dynamics.drives import drive_states, memory_columns
from minidyn.errors import DescriptionError, Unsupported
from minidyn.formats.mjcf.write import write_mjcf
from minidyn.graph.function import safe_identifier
from minidyn.identification.export import file_name, nearest_consistent
from minidyn.model.geometry import Step
from minidyn.model.joint import Frame
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
    found = [
        n for n in exported.notices if n.code == "export.cannot_say" and n.data["target"] == target
    ]
    return dict(found[0].data["missing"]) if found else {}


def in_pinocchio(folder: Path, robot: Robot, motion: tuple[np.ndarray, ...]) -> np.ndarray:
    """Return Pinocchio's torques of its URDF with the rotors of the SRDF beside it."""
    pin = pytest.importorskip("pinocchio", reason="Pinocchio (pip install pin) is not installed")
    model = pin.buildModelFromUrdf(str(folder / file_name("urdf", robot.name)))
    pin.loadRotorParameters(
        model, str(folder / file_name("urdf", robot.name).replace(".urdf", ".srdf")), False
    )
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
    assert (
        sorted(places) == list(range(plant.num_velocities())) == list(range(plant.num_positions()))
    )
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
    close(
        in_pinocchio(tmp_path / "out", robot, motion),
        md.inverse_dynamics(said(robot, ["Ia"]), *motion),
    )
    close(
        in_drake(tmp_path / "out" / "drake.urdf", robot, motion),
        md.inverse_dynamics(said(robot, ["Ia", "Fv"]), *motion),
    )
    assert set(missing(exported, "pinocchio")) == {"viscous", "coulomb", "offset"}
    assert set(missing(exported, "drake")) == {"coulomb", "offset"}


def renamed(robot: Robot, names: list[str]) -> Robot:
    """Return the robot with other names of joints and links, and one of its own."""
    made = robot.with_joints(
        lambda joint: replace(joint, name=names[robot.joint_index(joint.name)])
    )
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
        in_pinocchio(tmp_path / "out", robot, motion),
        md.inverse_dynamics(said(robot, ["Ia"], gravity=False), *motion),
    )
    found = in_drake(tmp_path / "out" / "drake.urdf", robot, motion)
    close(found, md.inverse_dynamics(said(robot, ["Ia", "Fv"], gravity=False), *motion))


def test_what_a_format_cannot_say_has_its_error_on_test_data(tmp_path) -> None:
    """The notice's figure is that of the torques which the program itself computes from its
    file.
    """
    robot, rng = case("ur10e")
    estimate = estimate_of(robot, rng)
    q, dq, ddq = motion = states(robot, rng, 40)
    tau = md.inverse_dynamics(robot, *motion) + 0.1 * rng.normal(size=q.shape)
    validation = md.validate(
        estimate, md.Recording(0.01 * np.arange(40), q, tau, dq, ddq, robot.joint_names)
    )
    exported = estimate.export(tmp_path, to=["pinocchio", "mujoco"], test=validation)
    notice = next(n for n in exported.notices if n.data.get("target") == "pinocchio")
    found = np.linalg.norm(tau - in_pinocchio(tmp_path, robot, motion)) / np.linalg.norm(tau)
    assert notice.data["error"] == pytest.approx(found, rel=1e-9)
    assert notice.data["whole"] == pytest.approx(validation.relative_error, rel=1e-9)
    assert notice.data["error"] > 3 * notice.data["whole"]
    assert {path.name for path in exported.files} >= {"ur10e.xml", "ur10e.urdf", "ur10e.srdf"}


# ------------------------------------------------------------------ FMI 3.0


def as_fmu(folder: Path, robot: Robot) -> tuple[str, object]:
    """Return (folder, description) of the FMU, checked by FMPy against the standard's schemas and
    compiled.
    """
    fmpy = pytest.importorskip("fmpy", reason="FMPy (pip install fmpy) is not installed")
    from fmpy.validation import validate_fmu

    assert validate_fmu(str(folder / file_name("fmu", robot.name))) == []
    place = Path(fmpy.extract(str(folder / file_name("fmu", robot.name)), str(folder / "unpacked")))
    found = fmpy.read_model_description(str(place))
    library = place / "binaries" / fmpy.platform_tuple / f"{found.modelExchange.modelIdentifier}.so"
    library.parent.mkdir(parents=True)
    sources = [
        str(place / "sources" / name)
        for name in found.buildConfigurations[0].sourceFileSets[0].sourceFiles
    ]
    headers = (
        Path(fmpy.__file__).parent / "c-code"
    )  # FMPy's own way is CMake with these, and the same sources
    words = [
        "gcc",
        *STRICT,
        "-Wno-overlength-strings",
        "-I",
        str(headers),
        "-shared",
        "-fPIC",
        *sources,
    ]
    subprocess.run([*words, "-o", str(library), "-lm"], check=True)
    return str(place), found


@needs_gcc
@pytest.mark.parametrize("name", ["two_link", "scara"])
def test_an_fmu_computes_the_whole_model(name, tmp_path) -> None:
    """Accelerations and torques of every drive term to 1e-9, in FMPy.

    Trajectories as SciPy integrates them.
    """
    rng = np.random.default_rng(1)
    terms = (
        "viscous",
        "coulomb",
        "offset",
        "stribeck",
        *(("presliding",) if name == "two_link" else ()),
    )
    robot = filled(
        md.load(name).with_drives(rotor_inertia=True, friction=terms, sign_width=0.5), rng
    )
    robot = renamed(robot, [f'{joint.name} <&">\n' for joint in robot.joints])
    exported = estimate_of(robot, rng).export(tmp_path, to="fmu")
    assert not exported.notices
    place, description = as_fmu(tmp_path, robot)
    import fmpy

    names = {variable.name: variable.valueReference for variable in description.modelVariables}
    shown = [joint.replace("\n", "\\n") for joint in robot.joint_names]
    groups = {
        group: [names[f"{group}.{joint}"] for joint in shown]
        for group in ("tau", "q", "dq", "ddq", "tau_ref")
    }
    groups |= {
        group: [names[f"{group}.{joint}"] for joint in shown]
        for group in ("q_ref", "dq_ref", "ddq_ref")
    }
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


def _follows_scipy(
    place: str, description: object, robot: Robot, groups: dict[str, list[int]]
) -> None:
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
        return np.concatenate(
            [x[robot.n :], md.forward_dynamics(robot, x[: robot.n], x[robot.n :], torque)]
        )

    wanted = solve_ivp(slope, (0.0, end), start, rtol=1e-10, atol=1e-12).y[:, -1]
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-8 * np.abs(wanted).max())


# ---------------------------------------------------------- ros2_control, built with a host program

HOST = """
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>
#include "inverse_dynamics.hpp"
static long allocated = 0;
extern "C" void * __libc_malloc(size_t);
extern "C" void * malloc(size_t n) { ++allocated; return __libc_malloc(n); }
using Model = minidyn::@SPACE@::InverseDynamics;
int main(int argc, char ** argv) {  // numbers come by stdin: parameters, then states
  std::vector<double> parameters(Model::kParameters);
  for (double & value : parameters) if (std::scanf("%lf", &value) != 1) return 1;
  std::vector<std::string> joints;
  for (std::size_t i = Model::kJoints; i-- > 0;) joints.push_back(Model::joint_names()[i]);  // the other way round
  static Model model;
  constexpr std::size_t n = Model::kJoints;
  double x[3 * n], tau[n], gravity[n];
  if (model.torque(x, x, x, tau)) return 2;
  if (model.configure(joints, parameters, "another") || model.configure({}, parameters)) return 3;
  if (!model.configure(joints, parameters, argc > 1 ? argv[1] : "")) return 4;
  long before = 0, during = 0;
  while (true) {
    for (double & value : x) if (std::scanf("%lf", &value) != 1) return during ? 5 : 0;
    before = allocated;
    model.torque(x, x + n, x + 2 * n, tau);
    model.gravity(x, gravity);
    double bad[n];
    for (std::size_t i = 0; i < n; ++i) bad[i] = i ? x[i] : strtod("nan", nullptr);
    if (model.torque(bad, x, x, tau) || model.torque(x, bad, x, tau) || model.gravity(bad, gravity)) return 6;
    during += allocated - before;
    for (double value : tau) std::printf("%.17g ", value);
    for (double value : gravity) std::printf("%.17g ", value);
    std::printf("\\n");
  }
}
"""  # noqa: E501


@pytest.mark.skipif(shutil.which("g++") is None, reason="g++ is not installed")
@pytest.mark.parametrize("name", ["scara", "two_link"])
def test_the_class_for_ros2_control_in_a_host_program(name, tmp_path) -> None:
    """Torques of every drive term to 1e-9, joints in the caller's order, numbers from the YAML.

    Nothing allocated.
    """
    rng = np.random.default_rng(2)
    terms = ("viscous", "coulomb", "offset", *(("presliding",) if name == "two_link" else ()))
    robot = filled(
        md.load(name).with_drives(rotor_inertia=True, friction=terms, sign_width=0.1), rng
    )
    robot = renamed(
        robot, [f"{hostile}{k}" for k, hostile in enumerate(HOSTILE[1 : 1 + len(robot.joints)])]
    )
    exported = estimate_of(robot, rng).export(tmp_path, to="ros2_control")
    folder = tmp_path / "ros2_control"
    assert not exported.notices
    assert {path.parent for path in exported.files} == {folder}
    given = yaml.safe_load((folder / "parameters.yaml").read_text())["/**"]["ros__parameters"][
        "inverse_dynamics"
    ]
    assert tuple(given["joints"]) == robot.joint_names
    assert given["robot"] == robot.name
    (folder / "host.cpp").write_text(HOST.replace("@SPACE@", safe_identifier(robot.name)))
    subprocess.run(
        ["gcc", *STRICT, "-c", *(path.name for path in folder.glob("*.c"))], cwd=folder, check=True
    )
    words = [
        "g++",
        "-std=c++17",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-pedantic",
        "host.cpp",
        "-o",
        "host",
        "-lm",
    ]
    subprocess.run([*words, *(path.name for path in folder.glob("*.o"))], cwd=folder, check=True)
    q, dq, ddq = states(robot, rng)
    rows = [
        " ".join(f"{value:.17g}" for part in state for value in part[::-1])
        for state in zip(q, dq, ddq)
    ]
    numbers = " ".join(map(repr, given["parameters"]))
    words = [str(folder / "host"), given["fingerprint"]]
    said_by = subprocess.run(
        words, input="\n".join([numbers, *rows]), capture_output=True, text=True, check=True
    )
    found = np.array([line.split() for line in said_by.stdout.splitlines()], dtype=float)
    memory = drive_states(robot, q) if memory_columns(robot) else None
    close(found[:, : robot.n][:, ::-1], md.inverse_dynamics(robot, q, dq, ddq, memory=memory))
    close(found[:, robot.n :][:, ::-1], md.gravity_torque(robot, q))


# ----------------------------------------------------- USD, read by OpenUSD's own parser of physics


def in_usd(path: Path, robot: Robot, motion: tuple[np.ndarray, ...]) -> np.ndarray:
    """Return the torques of what OpenUSD's parser of UsdPhysics reads, by Pinocchio, with MuJoCo's
    drive attributes.
    """
    Usd = pytest.importorskip("pxr.Usd", reason="OpenUSD (pip install usd-core) is not installed")
    pin = pytest.importorskip("pinocchio", reason="Pinocchio (pip install pin) is not installed")
    from pxr import UsdPhysics, UsdValidation

    stage = Usd.Stage.Open(str(path))
    known = UsdValidation.ValidationRegistry()
    names = [
        each.name for each in known.GetAllValidatorMetadata() if each.name.startswith("usdPhysics")
    ]
    assert len(names) >= 3
    assert not UsdValidation.ValidationContext(known.GetOrLoadValidatorsByName(names)).Validate(
        stage
    )
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", DeprecationWarning
        )  # its successor cannot be called from Python in 26.11
        found = UsdPhysics.LoadUsdPhysicsFromRange(stage, ["/"])
    assert len(found[UsdPhysics.ObjectType.Articulation][0]) == 1
    _, scenes = found[UsdPhysics.ObjectType.Scene]
    model = pin.Model()
    model.gravity.linear = np.array(scenes[0].gravityDirection) * scenes[0].gravityMagnitude
    joints = {}
    for kind in (UsdPhysics.ObjectType.RevoluteJoint, UsdPhysics.ObjectType.PrismaticJoint):
        for place, joint in zip(*found.get(kind, ((), ()))):
            joints[str(joint.body1)] = (kind, joint, stage.GetPrimAtPath(place))
    root = {
        str(joint.body1): _se3(pin, joint, 0)
        for joint in found[UsdPhysics.ObjectType.FixedJoint][1]
    }
    carriers = {path: (0, place) for path, place in root.items()}
    waiting, order, terms = dict(joints), {}, {}
    while waiting:
        for path, (kind, joint, prim) in list(waiting.items()):
            if str(joint.body0) not in carriers:
                continue
            carrier, placed = carriers[str(joint.body0)]
            axis = np.eye(3)["XYZ".index(str(joint.axis)[-1])]
            turns = kind == UsdPhysics.ObjectType.RevoluteJoint
            model_of = (
                pin.JointModelRevoluteUnaligned if turns else pin.JointModelPrismaticUnaligned
            )
            name = prim.GetMetadata("displayName")
            made = model.addJoint(carrier, model_of(axis), placed * _se3(pin, joint, 0), name)
            carriers[path] = (made, _se3(pin, joint, 1).inverse())
            order[name] = made
            mass = UsdPhysics.MassAPI(stage.GetPrimAtPath(path))
            R = _turned(pin, mass.GetPrincipalAxesAttr().Get())
            inertia = R @ np.diag(np.array(mass.GetDiagonalInertiaAttr().Get(), dtype=float)) @ R.T
            com = np.array(mass.GetCenterOfMassAttr().Get(), dtype=float)
            model.appendBodyToJoint(
                made, pin.Inertia(mass.GetMassAttr().Get(), com, inertia), carriers[path][1]
            )
            names = ("mjc:armature", "mjc:damping", "mjc:frictionloss")
            terms[name] = [prim.GetAttribute(attribute).Get() for attribute in names]
            unit = 180 / np.pi if turns else 1.0
            axis_name = "angular" if turns else "linear"
            others = {
                "newton:damping": 1,
                f"physxJointAxis:{axis_name}:viscousFrictionCoefficient": 1,
            }
            others |= {"newton:armature": 0, "physxJoint:armature": 0, "newton:friction": 2}
            for attribute, which in others.items():  # the other schemas say the same
                value = prim.GetAttribute(attribute).Get() * (unit if which == 1 else 1.0)
                assert value == pytest.approx(terms[name][which], rel=1e-6)
            del waiting[path]
    data = model.createData()
    places = [model.idx_vs[order[name]] for name in robot.joint_names]
    assert len(places) == model.nv
    armature, damping, dry = np.array([terms[name] for name in robot.joint_names]).T
    tau = np.empty_like(motion[0])
    for row, (q, dq, ddq) in enumerate(zip(*motion)):
        signals = np.empty((3, robot.n))
        signals[:, places] = q, dq, ddq
        tau[row] = (
            pin.rnea(model, data, *signals)[places]
            + armature * ddq
            + damping * dq
            + dry * np.sign(dq)
        )
    return tau


def _turned(pin: Any, value: Any) -> np.ndarray:
    return pin.Quaternion(value.GetReal(), *map(float, value.GetImaginary())).normalized().matrix()


def _se3(pin: Any, joint: Any, side: int) -> Any:
    """Return where a joint stands on one of its bodies."""
    turn, place = (
        getattr(joint, f"localPose{side}Orientation"),
        getattr(joint, f"localPose{side}Position"),
    )
    return pin.SE3(_turned(pin, turn), np.array(place, dtype=float))


@pytest.mark.parametrize("name", [*CASES, "two_link"])
def test_usd_physics_holds_the_robot(name, tmp_path) -> None:
    """Bodies, joints, gravity and drives as OpenUSD's parser reads them, to the 32 bits that
    UsdPhysics stores.
    """
    robot, rng = case(name)
    robot = (
        renamed(robot, [f'{joint.name} "}}\\n' for joint in robot.joints])
        if name == "two_link"
        else robot
    )
    exported = estimate_of(robot, rng).export(tmp_path, to="usd")
    if any(joint.follows for joint in robot.joints):
        assert "mimic" in missing(exported, "usd")
        return
    assert set(missing(exported, "usd")) == {"offset", "smoothing width"}
    motion = states(robot, rng)
    wanted = md.inverse_dynamics(said(robot, ["Ia", "Fv", "Fc"]), *motion)
    np.testing.assert_allclose(
        in_usd(tmp_path / file_name("usd", robot.name), robot, motion),
        wanted,
        atol=2e-6 * np.abs(wanted).max(),
    )


# -------------------------------------------------------- checked against what their makers publish

ISAAC = "joint_names_expr stiffness damping armature friction dynamic_friction viscous_friction"
ISAAC = {*ISAAC.split(), "effort_limit_sim", "velocity_limit_sim"}
"""Fields of isaaclab.actuators.ActuatorBaseCfg, Isaac Lab 2.3 and 3.0 (Isaac Lab itself needs a
GPU).
"""


@pytest.mark.parametrize("hostile", ["q1", *HOSTILE[:3], "a.b*"])
def test_isaac_lab_reads_the_drives(hostile, tmp_path, monkeypatch) -> None:
    rng = np.random.default_rng(3)
    robot = renamed(driven("two_link", rng), [hostile, f"{hostile}2"])
    exported = estimate_of(robot, rng).export(tmp_path, to="isaac")
    assert set(missing(exported, "isaac")) == {"offset", "smoothing width"}
    actuators = types.ModuleType("isaaclab.actuators")
    actuators.ImplicitActuatorCfg = dict
    monkeypatch.setitem(sys.modules, "isaaclab", types.ModuleType("isaaclab"))
    monkeypatch.setitem(sys.modules, "isaaclab.actuators", actuators)
    space: dict[str, Any] = {}
    exec(compile((tmp_path / "isaac_lab.py").read_text(), "isaac_lab.py", "exec"), space)  # noqa: S102
    (found,) = space["ACTUATORS"].values()
    assert set(found) <= ISAAC
    names = list(prim_names(robot.joint_names, ["root_joint"]).values())
    for field, symbol in FIELDS.items():
        values = [
            value
            for name in names
            for pattern, value in found[field].items()
            if re.fullmatch(pattern, name)
        ]
        assert values == [robot.drive_terms(index)[symbol] for index in robot.independent]
    gained = isaac_actuators(
        robot, {name: (10.0 + k, 2.0 + k) for k, name in enumerate(robot.joint_names)}
    )
    exec(compile(gained, "isaac_lab.py", "exec"), space)  # noqa: S102
    assert list(space["ACTUATORS"]["identified"]["damping"].values()) == [2.0, 3.0]


def test_tools_for_franka_and_universal_robots(tmp_path) -> None:
    """Mass, centre and inertia about it in the flange's frame.

    Keys and orders as the makers publish them.
    """
    rng = np.random.default_rng(4)
    bare = driven("ur10e", rng)
    body = {
        "mass": 1.5,
        "com": [0.01, -0.02, 0.08],
        "inertia": np.diag([0.004, 0.005, 0.003]) + 1e-4 * (1 - np.eye(3)),
    }
    flange = Frame("tool0", len(bare.joints) - 1, (Step("tz", 0.1), Step("rx", 0.3)))
    bare = replace(bare, frames=(*bare.frames, flange))
    robot = bare.with_load(parameters=body, link=flange.name)
    exported = estimate_of(robot, rng).export(tmp_path, to=["franka", "ur"])
    assert [notice.data["frame"] for notice in exported.notices] == [flange.name] * 2
    franka = json.loads((tmp_path / "endeffector-config.json").read_text())
    assert set(franka) == {"mass", "centerOfMass", "transformation", "inertia"}
    assert franka["mass"] == pytest.approx(1.5)
    np.testing.assert_allclose(franka["centerOfMass"], body["com"], atol=1e-12)
    np.testing.assert_allclose(np.reshape(franka["inertia"], (3, 3)), body["inertia"], atol=1e-12)
    assert franka["transformation"] == np.eye(4).ravel().tolist()
    script = (tmp_path / "payload.script").read_text()
    call = re.search(r"set_target_payload\((.*), (\[.*\]), inertia=(\[.*\])\)", script)
    assert float(call[1]) == pytest.approx(1.5)
    np.testing.assert_allclose(json.loads(call[2]), body["com"], atol=1e-9)
    np.testing.assert_allclose(
        json.loads(call[3]), [0.004, 0.005, 0.003, 1e-4, 1e-4, 1e-4], atol=1e-9
    )
    md.Payload(0.0, body).export(tmp_path / "again.json")
    assert json.loads((tmp_path / "again.json").read_text())["mass"] == pytest.approx(1.5)
    with pytest.raises(DescriptionError, match="no body"):
        md.Payload(0.0, {**body, "mass": -1.0}).export(tmp_path / "again.script")
    with pytest.raises(Unsupported, match="no load"):
        estimate_of(bare, rng).export(tmp_path / "none", to="ur")


def test_gains_of_position_control_reach_mujoco(tmp_path) -> None:
    mujoco = pytest.importorskip("mujoco", reason="MuJoCo is not installed")
    robot = driven("two_link", np.random.default_rng(5))
    write_mjcf(robot, tmp_path / "servo.xml", gains={robot.joint_names[1]: (50.0, 3.0)})
    model = mujoco.MjModel.from_xml_path(str(tmp_path / "servo.xml"))
    data = mujoco.MjData(model)
    data.qpos[:], data.qvel[:], data.ctrl[:] = [0.1, 0.2], [0.3, 0.4], [7.0, 0.5]
    mujoco.mj_forward(model, data)
    offset = robot.drive_terms(1)["Fo"]  # which MuJoCo's joints have no word for
    np.testing.assert_allclose(
        data.qfrc_actuator, [7.0, 50.0 * (0.5 - 0.2) - 3.0 * 0.4 - offset], rtol=1e-12
    )


def test_simulators_get_the_nearest_consistent_model(tmp_path) -> None:
    """An estimate that no robot can have.

    Drake and USD get the nearest one that can exist, with a notice.
    """
    rng = np.random.default_rng(6)
    robot = driven("scara", rng)
    estimate = estimate_of(robot, rng, consistent=False)
    exported = estimate.export(tmp_path, to=["drake", "usd"])
    near = [notice.data["file"] for notice in exported.notices if notice.code == "export.nearest"]
    assert near == ["drake.urdf", "scara.usda"]
    motion, nearest = states(robot, rng), nearest_consistent(estimate)
    found = in_drake(tmp_path / "drake.urdf", robot, motion)
    close(found, md.inverse_dynamics(said(nearest, ["Ia", "Fv"]), *motion))


URDF = """<robot name="arm"><!-- kept -->
  <link name="base"/>
  <link name="one"><visual><geometry><box size="1 1 1"/></geometry></visual>
    <inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial></link>
  <joint name="j" type="revolute"><parent link="base"/><child link="one"/><axis xyz="0 1 0"/>
    <limit lower="-1" upper="1" effort="0" velocity="2"/><dynamics damping="1" friction="2"/></joint>
  <transmission name="t"><type>transmission_interface/SimpleTransmission</type><joint name="j"/>
    <actuator name="m"><mechanicalReduction>50</mechanicalReduction></actuator></transmission>
</robot>
"""  # noqa: E501


def test_drake_gets_the_robots_own_urdf_without_what_it_warns_of(tmp_path) -> None:
    (tmp_path / "arm.urdf").write_text(URDF)
    rng = np.random.default_rng(7)
    robot = filled(md.load(tmp_path / "arm.urdf").with_drives(True, ALL), rng)
    estimate_of(robot, rng).export(tmp_path / "out", to=["drake"])
    text = (tmp_path / "out" / "drake.urdf").read_text()
    assert "<!-- kept -->" in text
    assert "<visual>" in text
    assert text.count("<transmission") == 1
    assert 'drake:gear_ratio value="50"' in text
    motion = states(robot, rng)
    found = in_drake(tmp_path / "out" / "drake.urdf", robot, motion)
    close(found, md.inverse_dynamics(said(robot, ["Ia", "Fv"]), *motion))
