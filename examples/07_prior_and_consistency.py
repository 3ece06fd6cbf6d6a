"""A short, poor log.

Plain least squares overfits, a physically possible model near the CAD values does not.
"""

import numpy as np

import minidyn as md

robot = md.load("ur10e")  # its values are the prior
rng = np.random.default_rng(3)
values = np.array(robot.parameters)
for block in robot.layout.links:
    values[block] *= rng.uniform(0.9, 1.1)  # the true links differ by up to 10 %
truth = robot.with_parameters(values)

law = md.control.computed_torque(robot, bandwidth=10)
options = {"noise": 1e-4, "torque_noise": 3.0}
short = md.simulate(truth, law, md.trajectory.fourier(robot, seed=1), 1.0, seed=1, **options)
test = md.simulate(truth, law, md.trajectory.fourier(robot, seed=2), 4.0, seed=2, **options)

errors = {}
for name, settings in (
    ("least squares", {"consistent": False}),
    ("possible, no prior", {"prior": False}),
    ("possible, with prior", {}),
):
    estimate = md.identify(robot, short, friction=(), rotor_inertia=False, **settings)
    errors[name] = md.validate(estimate, test).relative_error
    possible = all(link.realizability.realizable for link in estimate.robot.links)
    print(f"{name:22} error on another run {100 * errors[name]:6.2f} %, possible: {possible}")

print("weight of the prior, chosen by cross-validation:", estimate.record["prior_weight"])
assert errors["possible, with prior"] <= errors["least squares"]
