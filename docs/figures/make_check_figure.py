"""Draw docs/figures/check.png: the first screen of a check with two planted faults.

Needs Chromium.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np

import minidyn as md

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parents[1] / "tests"))
from chromium import Browser, find_chromium  # noqa: E402 - the tests' own helper


def log(robot: md.Robot) -> md.Recording:
    """Return a simulated log whose joint 4 has an offset, and whose joint 2 had its torque cut
    off.
    """
    t = np.arange(0.0, 20.0, 0.004)
    q, dq, ddq = md.trajectory.fourier(robot, seed=1, period=10.0)(t)
    tau = md.inverse_dynamics(robot, q, dq, ddq) + 2.0 * np.sign(dq)
    tau += 0.02 * tau.std(axis=0) * np.random.default_rng(0).normal(size=tau.shape)
    bound = 0.6 * np.abs(tau[:, 1]).max()
    tau[:, 1] = np.clip(tau[:, 1], -bound, bound)
    moved = q.copy()
    moved[:, 3] += 1.2
    return md.Recording(t, moved, tau, joint_names=robot.joint_names)


def main() -> None:
    """Write the log, check it as a user does, and take a picture of the page."""
    if find_chromium() is None:
        sys.exit("no Chromium found; install it, or name one with MINIDYN_CHROMIUM")
    robot = md.load("panda")
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        made = log(robot)
        names = [f"{signal}_{joint}" for signal in ("q", "tau") for joint in robot.joint_names]
        table = np.column_stack([made.t, made.q, made.tau])
        np.savetxt(
            folder / "log.csv",
            table,
            delimiter=",",
            header=",".join(["time_s", *names]),
            comments="",
        )
        page = md.check(robot, folder / "log.csv").report(folder / "check.html")
        with Browser(folder / "profile") as browser:
            browser.open(page, 1160)
            browser.evaluate("document.querySelector('nav').remove()")
            keep = "section:not(#summary)"
            browser.evaluate(f"document.querySelectorAll('{keep}').forEach(one => one.remove())")
            browser.evaluate("document.querySelector('footer').remove()")
            (HERE / "check.png").write_bytes(browser.screenshot("body"))


if __name__ == "__main__":
    main()
