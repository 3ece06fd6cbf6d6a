"""Which parameters of a robot can be identified?

Exactly, as formulas, and what follows from them.
"""

import numpy as np

import minidyn as md

robot = md.load("puma560")  # or a file: robot.urdf, robot.xml (MJCF), robot.toml
base = md.base_parameters(robot)  # exact: integers modulo a prime decide, no tolerance

print(
    f"{robot.name}: {len(robot.parameter_names)} standard parameters, {base.rank} base parameters"
)
for relation in base.relations()[:5]:
    print("  ", relation)
print("   ...")

# base parameters are all that torque depends on: two robots with the same ones cannot be told apart
# by moving them
rng = np.random.default_rng(0)
q, dq, ddq = rng.normal(size=(3, 100, robot.n))
Y = md.base_regressor(robot, q, dq, ddq, base=base)  # (100, 6, 40)
tau = md.inverse_dynamics(robot, q, dq, ddq)
assert np.allclose(Y @ base.values(), tau)

# the same question elsewhere: in orbit fewer can be seen, and with most joints locked far fewer
orbit = md.base_parameters(robot.with_gravity([0, 0, 0]))
wrist = md.base_parameters(robot, joints=["joint5", "joint6"])
print(f"without gravity {orbit.rank}, with the wrist alone moving {wrist.rank}")
assert wrist.rank < orbit.rank < base.rank
