"""One joint at a time.

Simple experiments that identify a whole chain: planned, done (simulated) and evaluated.
"""

import numpy as np

import minidyn as md


def _angles(locked: dict[str, float]) -> str:
    return ", ".join(f"{name} = {value:.2f}" for name, value in locked.items())


robot = md.load("stanford")
plan = md.one_joint_plan(robot, friction="own", rotor_inertia=None)  # a model without friction
print(f"{len(plan.steps)} experiments show {plan.base.rank} constants of the {robot.name}")
for step in plan.steps:
    print(
        f"   move {step.joint} for {step.trajectory.period:.1f} s, the others locked at",
        _angles(step.locked),
    )
print(f"worst condition number of the systems that are solved: {plan.condition:.1f}")

rng = np.random.default_rng(0)
runs = []
for step in plan.steps:  # here a model stands in for the robot
    t = np.linspace(0.0, step.trajectory.period, 500)
    q, dq, ddq = step.trajectory(t)
    tau = md.inverse_dynamics(robot, q, dq, ddq) + rng.normal(0, 0.05, q.shape)
    runs.append(md.Recording(t, q, tau, dq=dq, ddq=ddq, joint_names=robot.joint_names))

estimate = md.identify_one_joint(robot, runs)
print(estimate)
relative = np.linalg.norm(estimate.beta - plan.base.values()) / np.linalg.norm(plan.base.values())
print(f"error of the constants: {100 * relative:.2f} %")
assert relative < 0.02
