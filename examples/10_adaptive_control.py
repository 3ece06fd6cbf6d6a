"""A controller that learns its load while it moves, and its C code."""

import numpy as np

import minidyn as md

robot = md.load("ur10e")
truth = robot.with_load(np.eye(4), {"mass": 3.0, "com": [0, 0, 0.1], "inertia": np.zeros((3, 3))})
model = robot.with_load(
    np.eye(4), np.zeros(10)
)  # the controller knows where a load would be, nothing else

motion = md.trajectory.fourier(robot, seed=4)
inertia = np.diagonal(
    md.inertia_matrix(truth, motion(np.linspace(0, 10, 50))[0]), axis1=1, axis2=2
).mean(axis=0)
unknown = ["M7", "MX7", "MY7", "MZ7"]
adaptive = md.control.slotine_li(
    model, bandwidth=10, gain=20 * inertia, adaptation=[2.0, 0.04, 0.04, 0.04], unknown=unknown
)
fixed = md.control.slotine_li(
    model, bandwidth=10, gain=20 * inertia, adaptation=1e-9, unknown=unknown
)

for name, law in (("the same law without adaptation", fixed), ("adaptive", adaptive)):
    run = md.simulate(truth, law, motion, 5.0)
    print(
        f"{name}: largest error of the last half second "
        f"{np.abs(run.telemetry['error'][-500:]).max():.4f} rad"
    )

mass = run.telemetry["estimate"][-1, 0]
print(f"the load weighs {mass:.2f} kg, it says; the truth is 3")
assert abs(mass - 3) < 0.15
print(f"a step of it in C: {len(adaptive.source('c').splitlines())} lines")
