"""Train a small network through the dynamics of a robot (needs PyTorch; uses an NVIDIA GPU where
there is one).

The network is given position, speed and torque and answers an acceleration. It is never shown one:
the loss is the torque that its answer needs, by inverse dynamics, against the torque it was given.
The gradient flows through inverse dynamics by `kernel.torch()`.
"""

import numpy as np
import torch

import minidyn as md

STEPS, SAMPLES = 1000, 2048

torch.manual_seed(0)
rng = np.random.default_rng(0)
robot = md.load("two_link")
n = robot.n
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
torque = md.compile(
    robot, "inverse_dynamics", target="cuda" if device.type == "cuda" else "native"
).torch()

layers = [torch.nn.Linear(4 * n, 128), torch.nn.SiLU(), torch.nn.Linear(128, 128), torch.nn.SiLU()]
network = torch.nn.Sequential(*layers, torch.nn.Linear(128, n)).to(device, torch.float64)
optimizer = torch.optim.Adam(network.parameters(), lr=5e-3)
schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, STEPS)


def batch():
    """Return random states, accelerations and the torques that they need."""
    q, dq, ddq = rng.uniform(-np.pi, np.pi, (SAMPLES, n)), *rng.normal(size=(2, SAMPLES, n))
    tau = md.inverse_dynamics(robot, q, dq, ddq)
    return [torch.tensor(array, device=device) for array in (q, dq, ddq, tau)]


size = batch()[3].std(dim=0)


def answer(q, dq, tau):
    """Return the accelerations that the network thinks these torques give."""
    return network(torch.cat([q.sin(), q.cos(), dq, tau / size], dim=-1))


for step in range(STEPS + 1):
    q, dq, ddq, tau = batch()
    error = (torque(q, dq, answer(q, dq, tau)) - tau) / size
    if step % (STEPS // 4) == 0:
        print(
            f"step {step:5d}: torque error "
            f"{100 * float(error.detach().norm() / (tau / size).norm()):5.1f} %"
        )
    optimizer.zero_grad()
    error.square().mean().backward()
    optimizer.step()
    schedule.step()
