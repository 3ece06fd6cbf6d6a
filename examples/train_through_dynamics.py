"""Train a small network through the dynamics of a robot: it learns accelerations from torques.

    python examples/train_through_dynamics.py

The network is given position, speed and torque and answers an acceleration. It is never shown one: the loss is the
torque that inverse dynamics needs for its answer, against the torque it was given, and the gradient flows through
inverse dynamics (`kernel.torch()`). Runs on an NVIDIA GPU where there is one (`minidyn[cuda]`), else on the processor.
"""

from __future__ import annotations

import numpy as np
import torch

import minidyn as md


def main(steps: int = 3000, samples: int = 2048, seed: int = 0) -> tuple[float, float]:
    """Train; return the relative error of the accelerations before and after."""
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    robot = md.load("two_link")
    gpu = torch.cuda.is_available()
    device = torch.device("cuda" if gpu else "cpu")
    torque = md.compile(robot, "inverse_dynamics", target="cuda" if gpu else "native").torch()

    n = robot.n
    network = torch.nn.Sequential(
        torch.nn.Linear(4 * n, 128),
        torch.nn.SiLU(),
        torch.nn.Linear(128, 128),
        torch.nn.SiLU(),
        torch.nn.Linear(128, n),
    ).to(device, torch.float64)
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-2)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)

    def batch() -> tuple[np.ndarray, ...]:
        q, dq, ddq = (
            rng.uniform(-np.pi, np.pi, (samples, n)),
            rng.normal(size=(samples, n)),
            rng.normal(size=(samples, n)),
        )
        return q, dq, ddq, md.inverse_dynamics(robot, q, dq, ddq)

    size = float(np.abs(batch()[3]).mean())

    def answer(q: torch.Tensor, dq: torch.Tensor, tau: torch.Tensor) -> torch.Tensor:
        return network(torch.cat([q.sin(), q.cos(), dq, tau / size], dim=-1))

    def error() -> float:
        q, dq, ddq, tau = (torch.tensor(a, device=device) for a in batch())
        with torch.no_grad():
            return float((answer(q, dq, tau) - ddq).norm() / ddq.norm())

    before = error()
    for _ in range(steps):
        q, dq, _, tau = (torch.tensor(a, device=device) for a in batch())
        loss = ((torque(q, dq, answer(q, dq, tau)) - tau) / size).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    after = error()
    print(f"relative error of the accelerations: {before:.2f} before, {after:.3f} after {steps} steps on {device}")
    return before, after


if __name__ == "__main__":
    main()
