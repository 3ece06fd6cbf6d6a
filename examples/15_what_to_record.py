"""What to record: a designed motion, a simulated robot, an estimate, and a second motion for what
it shows least.
"""

import numpy as np

import minidyn as md

robot = md.load("puma4").with_drives(rotor_inertia=True, friction=("viscous", "coulomb"))
values = np.where(np.isnan(robot.parameters), 0.3, robot.parameters)
truth = robot.with_parameters(values)  # what nobody knows: it only makes the logs
limits = {"velocity": 1.5, "acceleration": 6.0, "effort": 150.0}
noise, rate = 0.5, 1000.0


def record(motion: md.Excitation, seed: int) -> md.Recording:
    """Let the robot run a motion under a controller, and log it."""
    law = md.control.computed_torque(truth, bandwidth=20)
    run = md.simulate(truth, law, motion.trajectory, motion.duration, torque_noise=noise, seed=seed)
    return md.Recording(run.t, run.q, run.tau, run.dq, run.ddq, joint_names=truth.joint_names)


options = {"friction": ("viscous", "coulomb"), "sign_width": 0.0, "consistent": False}
first = md.excite(
    truth,
    8.0,
    friction="own",
    rotor_inertia=None,
    limits=limits,
    noise=noise,
    rate=rate,
    time_limit=10,
)
print(
    f"{first.duration:g} s will show {len(first.names)} parameters, condition {first.condition:.0f}"
)
log = record(first, 1)
estimate = md.identify(truth, log, **options)
error = np.abs(estimate.beta - first.base.values(values)) / first.std
print(f"true errors over predicted ones: {np.sqrt(np.mean(error**2)):.1f} (root mean square)")

second = md.excite(
    truth, 8.0, after=estimate, criterion="e", limits=limits, rate=rate, time_limit=10
)
both = md.identify(truth, md.concatenate([log, record(second, 2)]), **options)
worst = float(np.max(estimate.std / np.abs(estimate.beta).clip(0.1)))
print(
    f"worst error of {worst:.2g} becomes {np.max(both.std / np.abs(both.beta).clip(0.1)):.2g} "
    "with the second motion"
)
