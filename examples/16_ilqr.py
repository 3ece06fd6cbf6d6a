"""Plan a motion with least effort: iterative LQR with derivatives of the whole motion in one call.

Each iteration linearizes the arm along the present motion (`md.linearize`), solves the quadratic
problem backwards in time and tries the new torques with smaller and smaller steps.
"""

import numpy as np

import minidyn as md

robot = md.load("two_link")
n, steps, dt = robot.n, 100, 0.01
start, goal = np.array([0.0, 0.0, 0.0, 0.0]), np.array([1.2, -0.8, 0.0, 0.0])
EFFORT, END = 1e-4 * np.eye(n), np.diag([1e3, 1e3, 1e2, 1e2])


def step(x, tau):
    """Return the next state (q, dq) by Euler's rule."""
    return x + dt * np.append(x[n:], md.forward_dynamics(robot, x[:n], x[n:], tau))


def rollout(torques, path=None, change=None, feedback=None, size=0.0):
    """Return states, torques and cost of a motion, with a share of a change and feedback."""
    x, states, used = start, [start], []
    for k in range(steps):
        tau = torques[k]
        if change is not None:
            tau = tau + size * change[k] + feedback[k] @ (x - path[k])
        x = step(x, tau)
        states.append(x)
        used.append(tau)
    miss, used = x - goal, np.array(used)
    return np.array(states), used, miss @ END @ miss + np.einsum("ki,ij,kj", used, EFFORT, used)


path, torques, cost = rollout(np.tile(md.gravity_torque(robot, start[:n]), (steps, 1)))
for iteration in range(30):
    A, B = md.linearize(robot, path[:-1, :n], path[:-1, n:], torques)  # all steps at once
    A, B = np.eye(2 * n) + dt * A, dt * B
    value, slope = END, END @ (path[-1] - goal)
    change, feedback = np.zeros((steps, n)), np.zeros((steps, n, 2 * n))
    for k in reversed(range(steps)):
        curvature = EFFORT + B[k].T @ value @ B[k]
        change[k] = -np.linalg.solve(curvature, EFFORT @ torques[k] + B[k].T @ slope)
        feedback[k] = -np.linalg.solve(curvature, B[k].T @ value @ A[k])
        closed = A[k] + B[k] @ feedback[k]
        slope = closed.T @ (slope + value @ B[k] @ change[k]) + feedback[k].T @ EFFORT @ (
            torques[k] + change[k]
        )
        value = closed.T @ value @ closed + feedback[k].T @ EFFORT @ feedback[k]
    tries = (rollout(torques, path, change, feedback, 0.5**k) for k in range(12))
    better = next((one for one in tries if one[2] < cost), None)
    if better is None or cost - better[2] < 1e-9 * cost:
        break
    path, torques, cost = better
    print(f"iteration {iteration}: cost {cost:.6f}")
print("at the end:", path[-1].round(3), "largest torques:", np.abs(torques).max(axis=0).round(1))
assert np.abs(path[-1] - goal).max() < 0.02
