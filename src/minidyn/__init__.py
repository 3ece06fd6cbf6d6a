"""minidyn: true dynamic models of robot arms.

The public names, in the order of the pipeline. Importing this module does nothing else: each name is fetched from where
it lives when it is first used, so that importing is quick and heavy libraries load only where they are needed.
"""

from __future__ import annotations

import warnings
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from minidyn import control as control
    from minidyn import papers as papers
    from minidyn.app.report.report import report as report
    from minidyn.app.study.run import StudyResult as StudyResult
    from minidyn.app.study.run import run_study as run_study
    from minidyn.base.base_map import BaseMap as BaseMap
    from minidyn.base.base_parameters import base_parameters as base_parameters
    from minidyn.base.equivalence import equivalence as equivalence
    from minidyn.base.minimal_functions import coriolis_matrix as coriolis_matrix
    from minidyn.base.minimal_functions import gravity_torque as gravity_torque
    from minidyn.base.minimal_functions import inertia_matrix as inertia_matrix
    from minidyn.base.minimal_functions import inverse_dynamics as inverse_dynamics
    from minidyn.codegen.save import save as save
    from minidyn.control.controller import Controller as Controller
    from minidyn.dynamics.formulas import regressor_formulas as regressor_formulas
    from minidyn.dynamics.functions import base_regressor as base_regressor
    from minidyn.dynamics.functions import energy as energy
    from minidyn.dynamics.functions import energy_regressor as energy_regressor
    from minidyn.dynamics.functions import forward_dynamics as forward_dynamics
    from minidyn.dynamics.functions import forward_kinematics as forward_kinematics
    from minidyn.dynamics.functions import jacobian as jacobian
    from minidyn.dynamics.functions import regressor as regressor
    from minidyn.dynamics.kernel import Kernel as Kernel
    from minidyn.dynamics.kernel import compile_kernel as compile  # noqa: F401
    from minidyn.dynamics.regressor_forms import slotine_li_regressor as slotine_li_regressor
    from minidyn.dynamics.regressor_forms import split_regressor as split_regressor
    from minidyn.errors import MinidynError as MinidynError
    from minidyn.excitation.one_joint_plan import Plan as Plan
    from minidyn.excitation.one_joint_plan import one_joint_plan as one_joint_plan
    from minidyn.formats.load import load as load
    from minidyn.formats.load import robots as robots
    from minidyn.formats.mjcf.update import update_mjcf as update_mjcf
    from minidyn.formats.urdf.update import update_urdf as update_urdf
    from minidyn.identification.compare import Comparison as Comparison
    from minidyn.identification.compare import compare as compare
    from minidyn.identification.consistency.certificate import Certificate as Certificate
    from minidyn.identification.cross_validate import CrossValidation as CrossValidation
    from minidyn.identification.cross_validate import cross_validate as cross_validate
    from minidyn.identification.diagnostics.essential import Essential as Essential
    from minidyn.identification.diagnostics.essential import essential as essential
    from minidyn.identification.estimate import Estimate as Estimate
    from minidyn.identification.estimate import load_estimate as load_estimate
    from minidyn.identification.export import Exported as Exported
    from minidyn.identification.gains.drive_gains import DriveGains as DriveGains
    from minidyn.identification.gains.drive_gains import identify_drive_gains as identify_drive_gains
    from minidyn.identification.identify import identify as identify
    from minidyn.identification.one_joint.one_joint import identify_one_joint as identify_one_joint
    from minidyn.identification.payload.payload import identify_payload as identify_payload
    from minidyn.identification.rows.filtered import filtered_regressor as filtered_regressor
    from minidyn.identification.validate import Validation as Validation
    from minidyn.identification.validate import validate as validate
    from minidyn.model.robot import Robot as Robot
    from minidyn.recording.lazy import LazyRecording as LazyRecording
    from minidyn.recording.lazy import concatenate as concatenate
    from minidyn.recording.read.read import read_recording as read_recording
    from minidyn.recording.ready import prepare as prepare
    from minidyn.recording.recording import Recording as Recording
    from minidyn.simulation import trajectory as trajectory
    from minidyn.simulation.payload import Payload as Payload
    from minidyn.simulation.simulate import simulate as simulate
    from minidyn.simulation.simulate import simulate_batch as simulate_batch
    from minidyn.simulation.trajectory import Trajectory as Trajectory

__version__ = "0.1.0"

_WHERE = {
    "MinidynError": "errors:MinidynError",
    # describe
    "Robot": "model.robot:Robot",
    "load": "formats.load:load",
    "robots": "formats.load:robots",
    "save": "codegen.save:save",
    "update_urdf": "formats.urdf.update:update_urdf",
    "update_mjcf": "formats.mjcf.update:update_mjcf",
    # reduce
    "base_parameters": "base.base_parameters:base_parameters",
    "BaseMap": "base.base_map:BaseMap",
    "equivalence": "base.equivalence:equivalence",
    # experiment and control
    "Recording": "recording.recording:Recording",
    "LazyRecording": "recording.lazy:LazyRecording",
    "concatenate": "recording.lazy:concatenate",
    "read_recording": "recording.read.read:read_recording",
    "prepare": "recording.ready:prepare",
    "filtered_regressor": "identification.rows.filtered:filtered_regressor",
    "one_joint_plan": "excitation.one_joint_plan:one_joint_plan",
    "Plan": "excitation.one_joint_plan:Plan",
    "Controller": "control.controller:Controller",
    "Trajectory": "simulation.trajectory:Trajectory",
    "simulate": "simulation.simulate:simulate",
    "simulate_batch": "simulation.simulate:simulate_batch",
    "Payload": "simulation.payload:Payload",
    # identify
    "identify": "identification.identify:identify",
    "identify_one_joint": "identification.one_joint.one_joint:identify_one_joint",
    "identify_payload": "identification.payload.payload:identify_payload",
    "essential": "identification.diagnostics.essential:essential",
    "Essential": "identification.diagnostics.essential:Essential",
    "compare": "identification.compare:compare",
    "Comparison": "identification.compare:Comparison",
    "identify_drive_gains": "identification.gains.drive_gains:identify_drive_gains",
    "DriveGains": "identification.gains.drive_gains:DriveGains",
    "Estimate": "identification.estimate:Estimate",
    "load_estimate": "identification.estimate:load_estimate",
    "Certificate": "identification.consistency.certificate:Certificate",
    "Exported": "identification.export:Exported",
    "validate": "identification.validate:validate",
    "Validation": "identification.validate:Validation",
    "cross_validate": "identification.cross_validate:cross_validate",
    "CrossValidation": "identification.cross_validate:CrossValidation",
    # whole jobs
    "run_study": "app.study.run:run_study",
    "StudyResult": "app.study.run:StudyResult",
    # show
    "report": "app.report.report:report",
    # compute
    "inverse_dynamics": "base.minimal_functions:inverse_dynamics",
    "gravity_torque": "base.minimal_functions:gravity_torque",
    "coriolis_matrix": "base.minimal_functions:coriolis_matrix",
    "inertia_matrix": "base.minimal_functions:inertia_matrix",
    "forward_dynamics": "dynamics.functions:forward_dynamics",
    "regressor": "dynamics.functions:regressor",
    "base_regressor": "dynamics.functions:base_regressor",
    "slotine_li_regressor": "dynamics.regressor_forms:slotine_li_regressor",
    "split_regressor": "dynamics.regressor_forms:split_regressor",
    "regressor_formulas": "dynamics.formulas:regressor_formulas",
    "energy": "dynamics.functions:energy",
    "energy_regressor": "dynamics.functions:energy_regressor",
    "forward_kinematics": "dynamics.functions:forward_kinematics",
    "jacobian": "dynamics.functions:jacobian",
    "compile": "dynamics.kernel:compile_kernel",
    "Kernel": "dynamics.kernel:Kernel",
}
"""Where each public name lives: module and attribute."""

__all__ = list(_WHERE)


_MODULES = {"control": "minidyn.control", "papers": "minidyn.papers", "trajectory": "minidyn.simulation.trajectory"}
"""Modules that are part of the public face: md.control.slotine_li, md.trajectory.fourier."""

_MOVED = {
    "lumeng16": "papers.lumeng16",
    "Lumeng16": "papers.Lumeng16",
    "inertia_constants": "papers.inertia_constants",
    "InertiaConstants": "papers.InertiaConstants",
    "forward_dynamics_by_regressor": "papers.forward_dynamics_by_regressor",
    "inertia_matrix_by_regressor": "papers.inertia_matrix_by_regressor",
    "operation_count": "papers.operation_count",
}
"""Names of before and where they are now; they still work, with a warning."""


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(_MODULES[name])
    if name in _MOVED:
        module, attribute = _MOVED[name].split(".")
        text = f"minidyn.{name} is now minidyn.{_MOVED[name]}"
        warnings.warn(text, DeprecationWarning, stacklevel=2)
        return getattr(__getattr__(module), attribute)
    if name not in _WHERE:
        raise AttributeError(f"module 'minidyn' has no attribute {name!r}")
    module, attribute = _WHERE[name].split(":")
    value = getattr(import_module(f"minidyn.{module}"), attribute)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*(name for name in globals() if name.startswith("__")), *_WHERE, *_MODULES})
