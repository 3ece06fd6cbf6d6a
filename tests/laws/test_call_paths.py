"""However a function is called, it computes the same.

First call or later, one sample or many, any threads.
"""

from __future__ import annotations

import gc

import numpy as np
import pytest

import minidyn as md
from minidyn.dynamics import kernel
from minidyn.errors import ShapeError, UnknownName


def samples(robot: md.Robot, count: int) -> list[np.ndarray]:
    rng = np.random.default_rng(count)
    return [rng.normal(size=(count, robot.n)) for _ in range(3)]


def close(a: np.ndarray, b: np.ndarray) -> bool:
    return bool(np.abs(a - b).max() <= 1e-12 * np.abs(b).max())


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("count", [1, 10, 40_000])
def test_no_threads_given_means_the_kernels_own(threads: int, count: int) -> None:
    robot = md.load("panda")
    kernel = md.compile(robot, "inverse_dynamics", threads=threads)
    arrays = samples(robot, count)
    expected = md.compile(robot, "inverse_dynamics")(*arrays)
    assert np.array_equal(kernel(*arrays, threads=None), expected)
    assert np.array_equal(kernel(*arrays), expected)
    assert np.array_equal(kernel(*arrays, threads=2), expected)
    with pytest.raises(ValueError, match="threads is 0"):
        kernel(*arrays, threads=0)


def test_functions_compute_the_same_before_and_after_compiling() -> None:
    robot = md.load("ur10e").with_gravity((0.0, 1.0, -9.0))  # of no other test
    q, dq, ddq = samples(robot, 3)
    first = md.inverse_dynamics(robot, q, dq, ddq)
    for _ in range(30):
        later = md.inverse_dynamics(robot, q, dq, ddq)
    assert close(later, first)
    assert close(md.inverse_dynamics(robot, q[0], dq[0], ddq[0]), first[0])
    assert close(md.inverse_dynamics(robot, q.tolist(), dq, ddq), first)
    out = np.empty_like(first)
    assert md.inverse_dynamics(robot, q, dq, ddq, out=out) is out
    assert close(out, first)
    with pytest.raises(ShapeError, match="dq has shape"):
        md.inverse_dynamics(robot, q, dq[:, :3], ddq)


def test_robots_are_not_mixed_up_and_links_neither() -> None:
    robot = md.load("panda")
    heavy = robot.with_parameters(2.0 * robot.parameters)
    q = samples(robot, 300)[0]
    for _ in range(2):
        assert close(md.inertia_matrix(heavy, q), 2.0 * md.inertia_matrix(robot, q))
        assert close(
            md.inertia_matrix(robot, q, 3.0 * robot.parameters), 3.0 * md.inertia_matrix(robot, q)
        )
        for link in (robot.link_names[2], 2, robot.link_names[6], None):
            index = 6 if link is None or link == robot.link_names[6] else 2
            assert np.array_equal(md.jacobian(robot, q, link), md.jacobian(robot, q, index))
        with pytest.raises(UnknownName):
            md.jacobian(robot, q, "elsewhere")


def test_what_is_remembered_of_a_robot_goes_with_it() -> None:
    robot = md.load("panda").with_gravity((0.0, 0.0, -1.0))
    md.gravity_torque(robot, np.zeros((500, robot.n)))
    key = id(robot)
    assert key in kernel.READY
    del robot
    gc.collect()
    assert key not in kernel.READY
