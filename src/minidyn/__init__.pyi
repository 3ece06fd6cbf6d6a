"""The public names and where they live, in the order of the pipeline: said here once.

Type checkers read this file, `__init__.py` takes its lazy table from it, and the reference (docs/site_hooks.py) its
headings.
"""

# ruff: noqa: I001
__version__: str

from minidyn.errors import MinidynError as MinidynError

# describe
from minidyn.model.robot import Robot as Robot
from minidyn.model.balancer import Balancer as Balancer
from minidyn.formats.load import load as load
from minidyn.formats.load import robots as robots
from minidyn.codegen.files import save as save
from minidyn.formats.urdf.update import update_urdf as update_urdf
from minidyn.formats.mjcf.update import update_mjcf as update_mjcf

# reduce
from minidyn.base.base_parameters import base_parameters as base_parameters
from minidyn.base.base_map import BaseMap as BaseMap
from minidyn.base.equivalence import equivalence as equivalence

# experiment and control
from minidyn.recording.recording import Recording as Recording
from minidyn.recording.lazy import LazyRecording as LazyRecording
from minidyn.recording.lazy import concatenate as concatenate
from minidyn.recording.read.convert import convert as convert
from minidyn.recording.read.read import read_recording as read_recording
from minidyn.recording.ready import prepare as prepare
from minidyn.identification.estimators.acceleration_free import filtered_regressor as filtered_regressor
from minidyn.excitation.excite import excite as excite
from minidyn.excitation.excitation import Excitation as Excitation
from minidyn.excitation.one_joint_plan import one_joint_plan as one_joint_plan
from minidyn.excitation.one_joint_plan import Plan as Plan
from minidyn.control.controller import Controller as Controller
from minidyn.simulation.trajectory import Trajectory as Trajectory
from minidyn.simulation.simulate import simulate as simulate
from minidyn.simulation.simulate import simulate_batch as simulate_batch
from minidyn.simulation.payload import Payload as Payload
from minidyn.simulation.plants import Push as Push

# identify
from minidyn.app.check import check as check
from minidyn.app.check import Check as Check
from minidyn.app.rehearse import rehearse as rehearse
from minidyn.app.rehearse import Rehearsal as Rehearsal
from minidyn.app.rehearse import Draw as Draw
from minidyn.app.rehearse import Sensors as Sensors
from minidyn.identification.settings import Settings as Settings
from minidyn.identification.identify import identify as identify
from minidyn.identification.estimators.one_joint import identify_one_joint as identify_one_joint
from minidyn.identification.payload.payload import identify_payload as identify_payload
from minidyn.identification.tool import identify_tool as identify_tool
from minidyn.identification.tool import Tool as Tool
from minidyn.identification.actuators import identify_actuators as identify_actuators
from minidyn.identification.actuators import Actuators as Actuators
from minidyn.identification.online import online as online
from minidyn.identification.online import Online as Online
from minidyn.identification.diagnose.essential import essential as essential
from minidyn.identification.diagnose.essential import Essential as Essential
from minidyn.identification.compare import compare as compare
from minidyn.identification.compare import Comparison as Comparison
from minidyn.identification.gains.drive_gains import identify_drive_gains as identify_drive_gains
from minidyn.identification.gains.drive_gains import DriveGains as DriveGains
from minidyn.identification.estimate import Estimate as Estimate
from minidyn.identification.estimate import load_estimate as load_estimate
from minidyn.identification.consistency.certificate import Certificate as Certificate
from minidyn.identification.export import Exported as Exported
from minidyn.identification.validate import validate as validate
from minidyn.identification.validate import Validation as Validation
from minidyn.identification.verdict import Verdict as Verdict
from minidyn.identification.verdict import Rule as Rule
from minidyn.identification.verdict import Limits as Limits
from minidyn.identification.cross_validate import cross_validate as cross_validate
from minidyn.identification.cross_validate import CrossValidation as CrossValidation
from minidyn.app.fleet import identify_fleet as identify_fleet
from minidyn.app.fleet_result import Fleet as Fleet
from minidyn.app.fleet_result import load_fleet as load_fleet

# whole jobs
from minidyn.app.study.run import run_study as run_study
from minidyn.app.study.run import StudyResult as StudyResult

# show
from minidyn.app.report.report import report as report
from minidyn.app.casestudies.run import case_study as case_study
from minidyn.app.compare_estimates import compare_estimates as compare_estimates
from minidyn.app.compare_estimates import EstimateComparison as EstimateComparison

# compute
from minidyn.base.minimal_functions import inverse_dynamics as inverse_dynamics
from minidyn.base.minimal_functions import gravity_torque as gravity_torque
from minidyn.base.minimal_functions import coriolis_matrix as coriolis_matrix
from minidyn.base.minimal_functions import inertia_matrix as inertia_matrix
from minidyn.base.minimal_functions import compile as compile
from minidyn.dynamics.drives import drive_states as drive_states
from minidyn.base.minimal_functions import forward_dynamics as forward_dynamics
from minidyn.dynamics.functions import inverse_dynamics_derivatives as inverse_dynamics_derivatives
from minidyn.dynamics.functions import forward_dynamics_derivatives as forward_dynamics_derivatives
from minidyn.dynamics.functions import linearize as linearize
from minidyn.dynamics.functions import regressor as regressor
from minidyn.dynamics.functions import base_regressor as base_regressor
from minidyn.dynamics.regressor_forms import slotine_li_regressor as slotine_li_regressor
from minidyn.dynamics.regressor_forms import split_regressor as split_regressor
from minidyn.codegen.formulas import formulas as formulas
from minidyn.codegen.formula_sheet import Formulas as Formulas
from minidyn.dynamics.formulas import regressor_formulas as regressor_formulas
from minidyn.dynamics.functions import energy as energy
from minidyn.dynamics.functions import energy_regressor as energy_regressor
from minidyn.dynamics.functions import forward_kinematics as forward_kinematics
from minidyn.dynamics.functions import jacobian as jacobian
from minidyn.dynamics.functions import centroidal_momentum_matrix as centroidal_momentum_matrix
from minidyn.dynamics.group import integrate as integrate
from minidyn.dynamics.kernel import Kernel as Kernel

# modules
from minidyn import control as control
from minidyn import papers as papers
from minidyn.simulation import trajectory as trajectory
