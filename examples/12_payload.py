"""What does the robot carry?

The load of a run against a model of the robot without it, with honest errors.
"""

import numpy as np

import minidyn as md

robot = md.load("ur10e")
law = md.control.computed_torque(robot, bandwidth=10)
options = {"noise": 1e-5, "torque_noise": 0.3}

empty = md.simulate(robot, law, md.trajectory.fourier(robot, seed=1), 5.0, seed=1, **options)
baseline = md.identify(robot, empty, friction=(), rotor_inertia=False, consistent=False)

tool = md.Payload(0.0, {"mass": 2.5, "com": [0.02, 0.0, 0.12], "inertia": 0.004 * np.eye(3)})
loaded = md.simulate(
    robot, law, md.trajectory.fourier(robot, seed=2), 5.0, seed=2, payload=tool, **options
)

found = md.identify_payload(baseline, loaded)
print(f"mass {found.mass:.3f} ± {found.std['mass']:.3f} kg (truth: 2.5)")
print("centre of mass", np.round(found.com, 4), "±", np.round(found.std["com"], 4), "m")
print(*found.notices, sep="\n")
assert abs(found.mass - 2.5) < 0.05
assert found.realizable

# the robot with it, for feedforward and simulation
carrying = baseline.robot.with_load(np.eye(4), found.ten)
q, dq, ddq = md.trajectory.fourier(robot, seed=3)(1.0)
print("feedforward:", np.round(md.inverse_dynamics(carrying, q, dq, ddq), 2))
