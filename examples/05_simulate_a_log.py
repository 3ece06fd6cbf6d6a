"""A log like a real one.

Friction, rotor inertia, noise, delay and coarse encoders, written to a file.
"""

import numpy as np

import minidyn as md

robot = md.load("ur10e")
motion = md.trajectory.fourier(
    robot, seed=1
)  # within the joint limits; any callable t -> (q, dq, ddq) will do

# the true robot has drives that the file does not know
inertia = np.diagonal(
    md.inertia_matrix(robot, motion(np.linspace(0, 10, 50))[0]), axis1=1, axis2=2
).mean(axis=0)
truth = robot.with_drives(rotor_inertia=True, friction=("viscous", "coulomb", "offset"))
values = np.array(truth.parameters)
for joint in range(robot.n):
    for name, value in (
        ("Ia", 0.3 * inertia[joint]),
        ("Fv", 0.2 * inertia[joint]),
        ("Fc", 0.2 * inertia[joint]),
        ("Fo", 0.0),
    ):
        values[truth.parameter_names.index(f"{name}{joint + 1}")] = value + (
            0.05 if name == "Ia" else 0.0
        )
truth = truth.with_parameters(values)

known = robot.with_drives(
    rotor_inertia=True
)  # the controller knows its motors, but nothing of friction
known = known.with_parameters(
    values[[truth.parameter_names.index(name) for name in known.parameter_names]]
)
law = md.control.computed_torque(known, bandwidth=10)
run = md.simulate(
    truth, law, motion, 10.0, noise=1e-5, torque_noise=0.2, resolution=1e-6, delay=0.002, seed=1
)
run.save("log.parquet")
md.save(truth, "truth.toml")

print(run)
print(
    "largest tracking error of each joint, rad:",
    np.round(np.abs(run.telemetry["error"]).max(axis=0), 4),
)
back = md.read_recording("log.parquet", robot)
print(*back.notices, sep="\n")
assert len(back) == len(run)
