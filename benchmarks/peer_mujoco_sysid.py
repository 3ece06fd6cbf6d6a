"""MuJoCo's own identification (`mujoco.sysid`) on a recording, with two of the residuals that its
README names.

The default simulates: torques in, positions and speeds out, in pieces. A custom rollout instead
runs MuJoCo's inverse dynamics along the recorded motion and compares torques: the same criterion as
that of the other tools.
"""

from __future__ import annotations

import contextlib
import io
import time
from functools import partial
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
from lxml import etree
from mujoco import sysid
from numpy.typing import NDArray

import minidyn as md

Array = NDArray[np.float64]

PIECE = 0.4
"""Length of a simulated piece, s: an arm driven by torques alone leaves its recorded path soon."""

STEP = 0.008
"""Time step of the simulation, s."""


_SENSORS = ((mujoco.mjtSensor.mjSENS_JOINTPOS, "pos"), (mujoco.mjtSensor.mjSENS_JOINTVEL, "vel"))
_TORQUES = ((mujoco.mjtSensor.mjSENS_JOINTACTFRC, "torque"),)


def specification(urdf: Path, robot: md.Robot, simulate: bool) -> mujoco.MjSpec:
    """Return the URDF without shapes as a MuJoCo specification with a motor and sensors for every
    joint.
    """
    tree = etree.parse(str(urdf), etree.XMLParser(resolve_entities=False, remove_comments=True))
    for shape in tree.xpath("//visual | //collision"):
        shape.getparent().remove(shape)
    from_urdf = mujoco.MjSpec.from_string(etree.tostring(tree.getroot(), encoding="unicode"))
    from_urdf.compile()
    spec = mujoco.MjSpec.from_string(
        from_urdf.to_xml()
    )  # as MJCF every body has its inertia written out
    spec.option.timestep = STEP
    spec.option.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    spec.option.disableflags |= (
        mujoco.mjtDisableBit.mjDSBL_CONTACT | mujoco.mjtDisableBit.mjDSBL_LIMIT
    )
    for name in robot.joint_names:
        motor = spec.add_actuator(name=name, target=name, trntype=mujoco.mjtTrn.mjTRN_JOINT)
        motor.biastype = mujoco.mjtBias.mjBIAS_AFFINE  # its constant is the offset of the torque
        for kind, label in _SENSORS if simulate else _TORQUES:
            spec.add_sensor(
                name=f"{name}_{label}", type=kind, objtype=mujoco.mjtObj.mjOBJ_JOINT, objname=name
            )
    return spec


def _set_body(spec: mujoco.MjSpec, parameter: Any, name: str) -> None:
    sysid.apply_body_inertia(spec, name, parameter)
    spec.body(name).iquat = (
        1,
        0,
        0,
        0,
    )  # it leaves NaN there, which the compiler of MuJoCo 4.0.0 does not take


def _set_joint(spec: mujoco.MjSpec, parameter: Any, name: str, what: str) -> None:
    joint, value = spec.joint(name), float(parameter.value[0])
    if what == "damping":
        joint.damping[0] = value  # the first of a polynomial's coefficients
    else:
        setattr(joint, what, value)


def _set_offset(spec: mujoco.MjSpec, parameter: Any, name: str) -> None:
    spec.actuator(name).biasprm[0] = float(parameter.value[0])


def parameters(spec: mujoco.MjSpec, robot: md.Robot) -> Any:
    """Return what is to be found.

    Ten of every moving body, rotor inertia, friction and offset of every joint.
    """
    model = spec.compile()
    found = sysid.ParameterDict()
    for name in robot.joint_names:
        body = model.body(int(model.joint(name).bodyid[0])).name
        change = partial(_set_body, name=body)
        found.add(
            sysid.body_inertia_param(spec, model, body, sysid.InertiaType.Pseudo, modifier=change)
        )
    for name in robot.joint_names:
        for what, start, most in (
            ("armature", 1.0, 10.0),
            ("damping", 10.0, 100.0),
            ("frictionloss", 5.0, 50.0),
        ):
            change = partial(_set_joint, name=name, what=what)
            found.add(sysid.Parameter(f"{name}_{what}", start, 1e-4, most, modifier=change))
        found.add(
            sysid.Parameter(
                f"{name}_offset", 0.0, -20.0, 20.0, modifier=partial(_set_offset, name=name)
            )
        )
    return found


class Models:
    """Compiled models by parameters.

    `mujoco.sysid` compiles one for every piece, which is most of its time here.
    """

    def __init__(self) -> None:
        self._made: dict[bytes, mujoco.MjModel] = {}

    def __call__(self, unknown: Any, spec: mujoco.MjSpec) -> mujoco.MjModel:
        """Return the model of these parameters."""
        key = unknown.as_vector().tobytes()
        if key not in self._made:
            if len(self._made) > 2 * unknown.size:
                self._made.clear()
            self._made[key] = sysid.apply_param_modifiers(unknown, spec)
        return self._made[key]


def pieces(spec: mujoco.MjSpec, states: md.Recording, tau: Array) -> Any:
    """Return a recording as pieces, each with the state it starts from."""
    model = spec.compile()
    size = round(PIECE / float(np.median(np.diff(states.t))))
    starts = range(0, len(states) - size, size)
    parts = [slice(start, start + size + 1) for start in starts]
    speeds = np.asarray(states.dq)
    both = (
        np.hstack([states.q, speeds])
        .reshape(len(states), 2, -1)
        .transpose(0, 2, 1)
        .reshape(len(states), -1)
    )
    clocks = [states.t[part] - states.t[part.start] for part in parts]
    return sysid.ModelSequences(
        name="robot",
        spec=spec,
        sequence_name=[f"piece {k}" for k in range(len(parts))],
        initial_state=[
            sysid.create_initial_state(model, states.q[p.start], speeds[p.start]) for p in parts
        ],
        control=[
            sysid.TimeSeries.from_control_names(t, tau[p], model) for t, p in zip(clocks, parts)
        ],
        sensordata=[sysid.TimeSeries.from_names(t, both[p], model) for t, p in zip(clocks, parts)],
    )


def whole(spec: mujoco.MjSpec, states: md.Recording) -> Any:
    """Return a recording as one piece whose sensors are the torques."""
    model = spec.compile()
    return sysid.ModelSequences(
        name="robot",
        spec=spec,
        sequence_name="all",
        initial_state=sysid.create_initial_state(model, states.q[0], np.asarray(states.dq)[0]),
        control=sysid.TimeSeries.from_control_names(states.t, states.tau, model),
        sensordata=sysid.TimeSeries.from_names(states.t, states.tau, model),
    )


def inverse_rollout(
    states: md.Recording, *, models: Any, control_signal: Any, initial_states: Any, **maps: Any
) -> Any:
    """Return trajectories along the recorded motion, with the torques it asks for, in place of
    simulated ones.
    """
    motion = np.column_stack([states.t, states.q, np.asarray(states.dq)])
    return [
        sysid.SystemTrajectory(
            model=model,
            control=control,
            sensordata=sysid.TimeSeries(
                states.t, torque(model, states), maps["rollout_signal_mapping"]
            ),
            initial_state=start,
            state=sysid.TimeSeries(states.t, motion),
        )
        for model, control, start in zip(models, control_signal, initial_states)
    ]


def torque(model: mujoco.MjModel, states: md.Recording) -> Array:
    """Return the torque (samples, n) that MuJoCo's inverse dynamics asks for, less the offsets."""
    data, found = mujoco.MjData(model), []
    for q, dq, ddq in zip(states.q, np.asarray(states.dq), np.asarray(states.ddq)):
        data.qpos, data.qvel, data.qacc = q, dq, ddq
        mujoco.mj_inverse(model, data)
        found.append(data.qfrc_inverse - model.actuator_biasprm[:, 0])
    return np.array(found)


def run(
    urdf: Path,
    robot: md.Robot,
    fitted: md.Recording,
    held_out: md.Recording,
    iterations: int,
    simulate: bool,
) -> tuple[Array, int, float]:
    """Identify on one part.

    Return the torque predicted on the other (samples, n), parameters and CPU seconds.

    Args:
        urdf: The robot's file.
        robot: The same robot here, for names of joints.
        fitted: What is fitted, with smooth positions and speeds.
        held_out: What is predicted, with accelerations.
        iterations: Most Gauss-Newton steps.
        simulate: Whether motion is compared (the default of `mujoco.sysid`) or torque.
    """
    start = time.process_time()
    spec = specification(urdf, robot, simulate)
    unknown = parameters(spec, robot)
    options: dict[str, Any] = (
        {"models_sequences": [pieces(spec, fitted, fitted.tau)]}
        if simulate
        else {
            "models_sequences": [whole(spec, fitted)],
            "custom_rollout": partial(inverse_rollout, fitted),
        }
    )
    residual = sysid.build_residual_fn(n_threads=1, build_model=Models(), **options)
    with contextlib.redirect_stdout(io.StringIO()):
        best, _ = sysid.optimize(
            unknown, residual, optimizer="mujoco", verbose=False, max_iters=iterations
        )
    seconds = time.process_time() - start
    model = sysid.apply_param_modifiers(best, spec)
    return torque(model, held_out), unknown.size, seconds
