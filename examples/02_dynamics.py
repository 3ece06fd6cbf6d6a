"""Dynamics of many samples at once.

Machine code made for this robot, and its speed on your machine.
"""

import time

import numpy as np

import minidyn as md

robot = md.load("panda")
rng = np.random.default_rng(0)
q, dq, ddq = rng.normal(size=(3, 100_000, robot.n))

tau = md.inverse_dynamics(robot, q, dq, ddq)  # (100000, 7)
M = md.inertia_matrix(robot, q)  # (100000, 7, 7)
back = md.forward_dynamics(robot, q, dq, tau)
assert np.allclose(back, ddq, atol=1e-6), "forward dynamics undoes inverse dynamics"

for name, function in (
    ("inverse dynamics", lambda: md.inverse_dynamics(robot, q, dq, ddq, out=tau)),
    ("inertia matrix", lambda: md.inertia_matrix(robot, q, out=M)),
):
    times = []
    for _ in range(5):
        begin = time.perf_counter()
        function()
        times.append(time.perf_counter() - begin)
    print(f"{name}: {1e9 * min(times) / len(q):.0f} ns a sample")

# one sample at a time: compile once, call often
kernel = md.compile(robot, "inverse_dynamics")
one = kernel(q[0], dq[0], ddq[0])
assert np.allclose(one, tau[0])
print("operations for one sample:", {kind: count for kind, count in kernel.counts.items() if count})
