"""FIGAROH's own pipeline on a recording.

A subclass and a configuration, as its documentation asks for.
"""

from __future__ import annotations

import contextlib
import io
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pinocchio as pin
import yaml  # comes with figaroh
from figaroh.identification.base_identification import BaseIdentification
from numpy.typing import NDArray

import minidyn as md

Array = NDArray[np.float64]


class _FromRecording(BaseIdentification):  # type: ignore[misc]
    """FIGAROH's identification with data from memory: the one method that a user has to write."""

    parts: dict[str | None, md.Recording]

    def load_trajectory_data(self, data_source: str | None = None) -> dict[str, Array]:
        part = self.parts[data_source]
        return {
            "timestamps": part.t,
            "positions": part.q,
            "velocities": part.dq,  # None: FIGAROH differentiates positions
            "accelerations": None,
            "torques": part.tau,
        }


def _configuration(robot: md.Robot, rate: float, cutoff: float, stage: str) -> dict[str, Any]:
    zeros = [0.0] * len(robot.joints)
    return {
        "robot": {
            "name": robot.name,
            "properties": {
                "joints": {"active_joints": list(robot.joint_names)},
                "mechanics": {
                    "friction_coefficients": {"viscous": zeros, "static": zeros},
                    "actuator_inertias": zeros,
                    "joint_offsets": zeros,
                },
                "coupling": {"has_coupled_wrist": False},
            },
        },
        "tasks": {
            "identification": {
                "enabled": True,
                "select_stage": stage,
                "problem": {
                    "use_joint_torques": True,
                    "model_components": {
                        "friction": True,
                        "joint_offset": True,
                        "actuator_inertia": True,
                    },
                },
                "signal_processing": {
                    "sampling_frequency": rate,
                    "cutoff_frequency": cutoff,
                    "filter_order": 4,
                },
                "data": {"validation_data_file": "held out"},
            }
        },
    }


def run(
    urdf: Path,
    robot: md.Robot,
    fitted: md.Recording,
    held_out: md.Recording,
    cutoff: float,
    stage: str,
    **solve: bool,
) -> tuple[Array, int, float]:
    """Identify on one part.

    Return the torque predicted on the other (samples, n), parameters and CPU seconds. Rotor
    inertia, viscous and Coulomb friction and offset in every joint.

    Args:
        urdf: The robot's file, read by Pinocchio.
        robot: The same robot here, for names of joints.
        fitted: What is fitted.
        held_out: What is predicted.
        cutoff: Cut-off of its low-pass, Hz.
        stage: "fit", or "physical_fit" for its fit under linear matrix inequalities.
        solve: Options of its `solve`: decimate, wls.
    """
    rate = 1.0 / float(np.median(np.diff(fitted.t)))
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        config = Path(folder) / "robot.yaml"
        config.write_text(
            yaml.safe_dump(_configuration(robot, rate, cutoff, stage)), encoding="utf-8"
        )
        model = pin.RobotWrapper(
            pin.buildModelFromUrdf(str(urdf))
        )  # its own loader asks for the meshes, too
        model.model.gravity.linear = np.array(robot.gravity, dtype=float)  # which a URDF cannot say
        start = time.process_time()
        work = _FromRecording(model, str(config))
        work.parts = {None: fitted, "held out": held_out}
        ids = [model.model.joints[model.model.getJointId(name)] for name in robot.joint_names]
        work.identif_config.update(
            act_idxq=[joint.idx_q for joint in ids], act_idxv=[joint.idx_v for joint in ids]
        )
        work.initialize()
        work.solve(plotting=False, **solve)
        seconds = time.process_time() - start
        found = (
            work._compute_validation_metrics()
        )  # what its reports are made of: it has no public door to the torque
    if stage != "fit" and not work.selected.accepted:
        raise RuntimeError(f"FIGAROH rejected its {stage}: {work.selected.reason}")
    if found["validation_source"] != "validation_data":
        raise RuntimeError("FIGAROH did not take the part that was held out")
    predicted = found["tau_identified_per_joint"]
    return np.array([predicted[name] for name in robot.joint_names]).T, len(work.phi_base), seconds
