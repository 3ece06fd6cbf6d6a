"""Without llvmlite (no wheel for this machine) NumPy computes the same numbers, says so, and every
computation works.

The same script runs with the library, here, and in a process from which it is hidden.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

import minidyn as md
from conftest import LONG, OWN
from minidyn.graph.targets.native import host

HIDDEN = """
import sys, warnings

class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "llvmlite":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Hidden())
sys.path[:0] = [%r, %r]
with warnings.catch_warnings(record=True) as seen:
    warnings.simplefilter("default")
    import numpy as np
    import test_no_compiler as law
    law.save(law.computed())
    assert "llvmlite" not in sys.modules
told = [str(one.message) for one in seen]
assert len(told) == 1 and "llvmlite" in told[0], told
"""

METHODS = (
    ("wls", "ols", "irls", "parallel", "tls", "filtered", "momentum", "energy")
    if LONG
    else ("wls",)
)
FUNCTIONS = {
    "inverse_dynamics": 3,
    "forward_dynamics": 3,
    "regressor": 3,
    "inertia_matrix": 1,
    "coriolis_matrix": 2,
    "gravity_torque": 1,
    "energy": 2,
    "energy_regressor": 2,
    "forward_kinematics": 1,
    "jacobian": 1,
}


def computed() -> dict[str, Any]:
    """Numbers of every kind of computation, by name."""
    robot = md.load("two_link")
    rng = np.random.default_rng(1)
    states = rng.normal(size=(3, 250, robot.n))
    found: dict[str, Any] = {}
    for what, count in FUNCTIONS.items():
        found[what] = np.hstack(getattr(md, what)(robot, *states[:count]))
    kernel = md.compile(robot, "inertia_matrix")
    found["out"] = kernel(states[0], out=np.empty((250, robot.n, robot.n)))
    found["one sample"] = kernel(states[0, 0])
    assert kernel.source("llvm").startswith(";")
    motion = md.trajectory.fourier(robot, seed=2)
    t = np.arange(600) / 100
    q, dq, ddq = motion(t)
    tau = md.inverse_dynamics(robot, q, dq, ddq)
    noise = rng.normal(size=(2, *q.shape))
    log = md.Recording(t, q + 1e-5 * noise[0], tau + 0.01 * noise[1], joint_names=robot.joint_names)
    found["prepare"] = md.prepare(robot, log).ddq
    for method in METHODS:
        estimate = md.identify(robot, log, method, **OWN)
        found[f"identify {method}"], found[f"deviations {method}"] = estimate.beta, estimate.std
        codes = {notice.code for notice in estimate.notices}
        assert (host.NO_COMPILER.code in codes) == (not host.has_compiler()), codes
    if not LONG:
        return found
    law = md.control.computed_torque(robot, bandwidth=10, period=5e-3)
    run = md.simulate(robot, law, motion, 1.0, dt=5e-3, noise=1e-4, torque_noise=0.01)
    found["simulate"] = run.q
    starts = motion(0.0)[0] + 0.1 * rng.normal(size=(3, robot.n))
    found["batch"] = np.stack(
        [one.q for one in md.simulate_batch(robot, law, motion, 0.05, dt=5e-3, q0=starts)]
    )
    adaptive = md.control.slotine_li(robot, bandwidth=10, gain=20.0, adaptation=0.1, period=5e-3)
    found["adaptive"] = md.simulate(robot, adaptive, motion, 0.2, dt=5e-3).q
    found["validate"] = md.validate(estimate, log).rmse
    running, observer = md.online(estimate), md.control.momentum_observer(estimate)
    for k in range(30):
        running.add(q[k], dq[k], tau[k])
    found["online"] = running.estimate().beta
    found["observer"] = observer.watch(run).torque
    assert md.excite(robot, 3.0, noise=0.1, rate=50, seed=1).feasible  # a search follows rounding
    automatic = md.identify(robot, log)
    found["searched beta"], found["searched std"] = automatic.beta, automatic.std
    found["cross"] = md.cross_validate(robot, log, **OWN).rmse
    found["iv"] = md.identify(robot, log, "iv", **OWN).beta
    return found


def save(found: dict[str, Any]) -> None:
    """Keep numbers where the other process looks for them."""
    np.savez(os.environ["MINIDYN_TEST_NUMBERS"], **found)


def test_numpy_computes_the_same_and_says_so(tmp_path: Path) -> None:
    here = Path(__file__).parent
    script = HIDDEN % (str(here), str(here.parent))
    target = tmp_path / "numbers.npz"
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "MINIDYN_TEST_NUMBERS": str(target)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    expected = computed()
    with np.load(target) as other:
        assert set(other) == set(expected)
        for name, values in expected.items():
            relative, absolute = 1e-6, 1e-8 * np.abs(values).max()
            if (
                name == "searched beta"
            ):  # to 1e-10 of an objective in variances: 1e-5 of a standard deviation
                relative, absolute = 0.0, 1e-4 * expected["searched std"]
            elif name == "searched std":  # fits to parts of the log are found to 1e-6 of it
                relative = 0.02
            assert other[name].shape == np.shape(values)
            assert np.all(np.abs(other[name] - values) <= relative * np.abs(values) + absolute), (
                name
            )
