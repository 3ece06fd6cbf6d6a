"""C for a controller: one self-contained file, and numbers to test it by on the target."""

import shutil
import subprocess
from pathlib import Path

import numpy as np

import minidyn as md

robot = md.load("ur10e")
kernel = md.compile(robot, "gravity_torque")
Path("gravity.c").write_text(kernel.source("c"))
Path("gravity.h").write_text(kernel.source("h"))
print(kernel.counts)

# values to compare with, from the same robot
q = np.random.default_rng(0).uniform(-2, 2, (3, robot.n))
expected = md.gravity_torque(robot, q)
for sample, torque in zip(q, expected):
    print(np.round(sample, 3), "->", np.round(torque, 6))

# a compiler is not needed by minidyn, but where there is one the code can be tried at once
compiler = shutil.which("cc") or shutil.which("gcc")
if compiler:
    subprocess.run([compiler, "-std=c99", "-O2", "-Wall", "-Werror", "-c", "gravity.c"], check=True)  # noqa: S603
    print("gravity.c compiles without a warning:", Path("gravity.o").stat().st_size, "bytes")
