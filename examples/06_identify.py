"""From a log to a model: identify on one run, test on another, use the result."""

import numpy as np

import minidyn as md

robot = md.load("ur10e")
truth = robot.with_parameters(1.2 * robot.parameters)  # the real arm is heavier than its file says
law = md.control.computed_torque(robot, bandwidth=10)
for name, seed in (("fit", 1), ("test", 2)):
    run = md.simulate(
        truth,
        law,
        md.trajectory.fourier(robot, seed=seed),
        8.0,
        noise=1e-5,
        torque_noise=0.5,
        seed=seed,
    )
    run.save(f"{name}.csv")

recording = md.read_recording("fit.csv", robot)
estimate = md.identify(robot, recording, friction=(), rotor_inertia=False)
print(estimate)
print(estimate.table().splitlines()[2])
print(*estimate.notices, sep="\n")

test = md.read_recording("test.csv", robot)
validation = md.validate(estimate, test)
print(f"error on the other run: {100 * validation.relative_error:.2f} % of the torque")
assert validation.relative_error < 0.05

estimate.save("estimate.json")
md.save(estimate.robot, "identified.urdf")
q, dq, ddq = md.trajectory.fourier(robot, seed=3)(0.5)
print("feedforward:", np.round(md.inverse_dynamics(md.load("identified.urdf"), q, dq, ddq), 2))
