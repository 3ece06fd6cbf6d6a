"""Logs are never as one would like them: degrees, motor currents, gears, other names.

Say it once, in a file.
"""

from pathlib import Path

import numpy as np

import minidyn as md

robot = md.load("ur10e")
t = np.arange(2000) / 200
q, dq, ddq = md.trajectory.fourier(robot, seed=1)(t)
tau = md.inverse_dynamics(robot, q, dq, ddq)

# what a drive's own logger might write: milliseconds, joint degrees, motor amperes behind gears of
# 100
amperes = tau / (0.1 * 100)
columns = np.column_stack([1000 * t, np.rad2deg(q), amperes])
header = ";".join(
    ["Zeit_ms", *(f"Achse{k}_grad" for k in range(1, 7)), *(f"Achse{k}_strom" for k in range(1, 7))]
)
np.savetxt("drive.csv", columns, delimiter=";", header=header, comments="")

Path("drive.toml").write_text(
    """
time = "Zeit_ms"
time_unit = "ms"
q = "Achse*_grad"
tau = "Achse*_strom"
units = { q = "deg", tau = "A" }
drive_gain = [0.1, 0.1, 0.1, 0.1, 0.1, 0.1]     # N m/A
gear_ratio = [100, 100, 100, 100, 100, 100]
motor_side = ["tau"]
"""
)
recording = md.read_recording("drive.csv", robot, mapping="drive.toml")
print(recording, *recording.notices, sep="\n")
assert np.allclose(recording.q, q)
assert np.allclose(recording.tau, tau)
