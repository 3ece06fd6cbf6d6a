"""Closed loops printed as CUDA, run without a GPU, are those of the processor."""

from __future__ import annotations

import numpy as np
import pytest
from cuda_shim import needs_compiler, run_by_shim

import minidyn as md
from minidyn import control
from minidyn.errors import MinidynError
from minidyn.graph.scalar import Graph
from minidyn.simulation.rollouts import BLOCK, SIGNALS, Rollout


@pytest.fixture
def without_gpu(monkeypatch, tmp_path):
    """Have rollouts computed by the shim; arrays are NumPy's."""

    def run(self, q0, dq0, state0, reference, limit, *, dt, every, noise, velocity_noise, seed):
        runs, samples, n = len(q0), len(reference), self.n
        call = f"""
        const long long *whole = (long long *)p[0];
        const md_real *real = (md_real *)p[1];
        md_real *estimate = {"(md_real *)p[11]" if self.logged else "nullptr"};
        blocks((whole[0] + {BLOCK - 1}) / {BLOCK}, {BLOCK}, [=] {{
            md_rollout(whole[0], whole[1], whole[2], real[0], whole[3], real[1], real[2], {
            ", ".join(f"(md_real *)p[{k}]" for k in range(2, 11))
        }, estimate, (md_real *)p[12]); }});
        """
        logs = {name: np.full((runs, samples, n), np.nan) for name in SIGNALS}
        estimates = np.full((runs, samples, max(1, self.logged)), np.nan)
        failed = np.full(runs, np.nan)
        given = [
            np.ascontiguousarray(array, dtype=float)
            for array in (reference, limit, q0, dq0, state0)
        ]
        run_by_shim(tmp_path, self.text, call)(
            np.array([runs, samples - 1, every, seed], dtype=np.int64),
            np.array([dt, noise, velocity_noise]),
            *given,
            *logs.values(),
            estimates,
            failed,
        )
        return logs | ({"estimate": estimates} if self.logged else {}), failed

    monkeypatch.setattr(Rollout, "run", run)
    monkeypatch.setattr(
        "minidyn.simulation.rollouts.one_run",
        lambda logs, row: {k: v[row] for k, v in logs.items()},
    )


LAWS = {
    "computed_torque": lambda robot: control.computed_torque(robot, bandwidth=8, period=2e-3),
    "pd_gravity": lambda robot: control.pd_gravity(robot, gain=60.0, bandwidth=10.0),
    "slotine_li": lambda robot: control.slotine_li(robot, bandwidth=5, gain=0.5, adaptation=0.01),
    "composite": lambda robot: control.slotine_li(
        robot, bandwidth=5, gain=0.5, adaptation=0.01, composite=0.1
    ),
    "craig": lambda robot: control.craig(robot, bandwidth=5, adaptation=0.01),
    "none": lambda robot: None,
}


@needs_compiler
@pytest.mark.parametrize("name", LAWS)
def test_runs_are_those_of_the_processor(without_gpu, name) -> None:
    robot = md.load("two_arm")
    law = LAWS[name](robot)
    motion = md.trajectory.fourier(robot, seed=4, speed=1.0)
    rng = np.random.default_rng(0)
    q0 = motion(0.0)[0] + 0.05 * rng.normal(size=(5, robot.n))
    options = {
        "q0": q0,
        "dq0": 0.1 * rng.normal(size=(5, robot.n)),
        "torque_limit": 40.0,
        "estimates": True,
    }
    expected = md.simulate_batch(robot, law, motion, 0.05, **options)
    found = md.simulate_batch(robot, law, motion, 0.05, device="cuda", **options)
    assert len(found) == 5
    for mine, theirs in zip(found, expected, strict=True):
        for signal in ("t", "q", "dq", "ddq", "tau"):
            wanted = getattr(theirs, signal)
            close = 1e-10 * max(1.0, np.abs(wanted).max())
            np.testing.assert_allclose(
                getattr(mine, signal), wanted, rtol=0, atol=close, err_msg=signal
            )
        assert set(mine.telemetry) == set(theirs.telemetry)
        for signal, wanted in theirs.telemetry.items():
            np.testing.assert_allclose(
                mine.telemetry[signal], wanted, rtol=1e-9, atol=1e-10, err_msg=signal
            )
    assert [len(run) for run in found[1:3]] == [51, 51]
    np.testing.assert_array_equal(found[-1].q, found[4].q)


@needs_compiler
def test_noise_is_normal_and_of_each_run_its_own(without_gpu) -> None:
    """A law that answers what it sees shows the noise, which NumPy computes again."""
    n, runs, samples, seed = 2, 70, 40, 11
    plant, law = Graph(), Graph()
    plant.inputs("q", n)
    plant.inputs("dq", n)
    rest = plant.function("plant", {"ddq": [0.0 * tau for tau in plant.inputs("tau", n)]})
    seen = [*law.inputs("q", n), *law.inputs("dq", n)]
    rollout = Rollout(
        rest, law.function("law", {"tau": [seen[0] + 10.0 * seen[2], seen[1] + 10.0 * seen[3]]})
    )
    logs, failed = rollout.run(
        *np.zeros((2, runs, n)),
        np.zeros((runs, 0)),
        np.zeros((samples, 3 * n)),
        np.full(n, np.inf),
        dt=1e-3,
        every=1,
        noise=2.0,
        velocity_noise=0.3,
        seed=seed,
    )
    assert np.all(failed == -1)

    def mix(x):
        x = x + np.uint64(0x9E3779B97F4A7C15)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return x ^ (x >> np.uint64(31))

    with np.errstate(over="ignore"):
        key = mix(np.uint64(seed) ^ mix(np.arange(runs, dtype=np.uint64)))[:, None]
        number = key + np.arange(0, 4 * n * samples, 2, dtype=np.uint64)
        u = ((mix(number) >> np.uint64(11)).astype(float) + 1) * 2.0**-53
        v = (mix(number + np.uint64(1)) >> np.uint64(11)).astype(float) * 2.0**-53
    normal = (np.sqrt(-2 * np.log(u)) * np.cos(2 * np.pi * v)).reshape(runs, samples, 2, n)
    np.testing.assert_allclose(
        logs["tau"], 2.0 * normal[:, :, 0] + 3.0 * normal[:, :, 1], atol=1e-12
    )
    assert abs(normal.mean()) < 4 / np.sqrt(normal.size)
    assert normal.std() == pytest.approx(1.0, abs=4 / np.sqrt(2 * normal.size))
    apart = np.corrcoef(normal.reshape(runs, -1))[np.triu_indices(runs, 1)]
    assert np.abs(apart).max() < 6 / np.sqrt(normal[0].size)


@needs_compiler
def test_a_run_that_diverges_is_an_error(without_gpu) -> None:
    robot = md.load("two_arm")
    law = control.pd_gravity(robot, gain=1e9, bandwidth=1.0)
    still = md.trajectory.hold(np.zeros(robot.n))
    with pytest.raises(MinidynError, match="became infinite at t"):
        md.simulate_batch(robot, law, still, 0.3, q0=np.full((3, robot.n), 0.4), device="cuda")


def test_what_the_gpu_does_not_run_is_refused() -> None:
    robot = md.load("two_arm")
    law = control.pd_gravity(robot, gain=10.0, bandwidth=1.0)
    q0, still = np.zeros((2, robot.n)), md.trajectory.hold(np.zeros(robot.n))
    with pytest.raises(MinidynError, match="sampled"):
        md.simulate_batch(robot, law, still, 0.1, q0=q0, control="continuous", device="cuda")
    with pytest.raises(MinidynError, match="cuda"):
        md.simulate_batch(robot, law, still, 0.1, q0=q0, device="tpu")
    with pytest.raises(MinidynError, match=r"minidyn\[cuda\]|no NVIDIA GPU"):
        md.simulate_batch(robot, law, still, 0.1, q0=q0, device="cuda")
