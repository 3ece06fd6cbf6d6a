"""A log that stays on disk: read, prepared and reduced tile by tile, in flat memory."""

import numpy as np

import minidyn as md

robot = md.load("panda")
t = np.arange(30_000) / 1000  # half a minute at 1 kHz; an hour works the same way
q, dq, ddq = md.trajectory.fourier(robot, seed=1)(t)
tau = md.inverse_dynamics(robot, q, dq, ddq) + np.random.default_rng(0).normal(0, 0.2, q.shape)
md.Recording(t, q, tau, joint_names=robot.joint_names).save("long.parquet")

lazy = md.read_recording("long.parquet", robot, lazy=True)
print(f"{len(lazy)} samples on disk")

done = []
drives = {"friction": (), "rotor_inertia": False}  # this robot has none
estimate = md.identify(
    robot, md.prepare(robot, lazy), consistent=False, progress=done.append, **drives
)
print(f"reduced {done[-1]} samples in {len(done)} tiles: {estimate}")
error = np.abs(estimate.beta - md.base_parameters(robot).values()).max()
print(f"largest error of a base parameter: {error:.4f}")
assert error < 0.1
