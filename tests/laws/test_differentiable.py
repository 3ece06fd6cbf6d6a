"""Functions of robots that PyTorch and JAX differentiate: gradients against finite differences."""

from __future__ import annotations

import numpy as np
import pytest
from random_programs import Program, samples
from random_robots import random_tree

import minidyn as md
from minidyn.graph.derivative import jacobian, vjp
from minidyn.graph.function import evaluate


def gradient_by_differences(kernel, arrays, at, step=1e-6):
    found = np.zeros_like(arrays[at])
    for k in range(found.shape[-1]):
        ends = []
        for side in (step, -step):
            moved = [array.copy() for array in arrays]
            moved[at][..., k] += side
            values = kernel(*moved)
            ends.append(values.reshape(len(values), -1).sum(axis=1))
        found[..., k] = (ends[0] - ends[1]) / (2 * step)
    return found


@pytest.mark.parametrize("what", ["inverse_dynamics", "inertia_matrix", "gravity_torque"])
def test_jax_differentiates_what_it_traces(what) -> None:
    jax = pytest.importorskip("jax")
    jax.config.update("jax_enable_x64", True)
    for seed in range(2):
        robot = random_tree(np.random.default_rng(seed), joints=3)
        kernel = md.compile(robot, what)
        function = kernel.jax()
        rng = np.random.default_rng(seed)
        arrays = [rng.normal(size=(5, a.size)) for a in kernel.function.arguments]
        expected = kernel(*arrays)
        np.testing.assert_allclose(
            jax.jit(function)(*arrays), expected, atol=1e-12 * np.abs(expected).max()
        )
        np.testing.assert_allclose(
            jax.vmap(function)(*arrays), expected, atol=1e-12 * np.abs(expected).max()
        )
        found = jax.grad(lambda *each: function(*each).sum(), argnums=tuple(range(len(arrays))))(  # noqa: B023
            *arrays
        )
        for at, mine in enumerate(found):
            wanted = gradient_by_differences(kernel, arrays, at)
            np.testing.assert_allclose(mine, wanted, atol=1e-6 * max(1.0, np.abs(wanted).max()))


@pytest.mark.parametrize("what", ["inverse_dynamics", "forward_dynamics", "inertia_matrix"])
def test_torch_differentiates_on_the_processor(what) -> None:
    torch = pytest.importorskip("torch")
    robot = random_tree(np.random.default_rng(0), joints=3)
    kernel = md.compile(robot, what)
    rng = np.random.default_rng(1)
    arrays = [rng.normal(size=(5, a.size)) for a in kernel.function.arguments]
    given = [torch.tensor(a, requires_grad=True) for a in arrays]
    found = kernel.torch()(*given)
    np.testing.assert_allclose(found.detach().numpy(), kernel(*arrays))
    found.sum().backward()
    for at, tensor in enumerate(given):
        wanted = gradient_by_differences(kernel, arrays, at)
        np.testing.assert_allclose(
            tensor.grad.numpy(), wanted, atol=1e-6 * max(1.0, np.abs(wanted).max())
        )


def test_the_gradient_in_reverse_is_the_jacobian_in_forward_mode() -> None:
    for seed in range(20):
        function = Program(seed, length=30).record()
        arrays = samples(seed, 4)
        rng = np.random.default_rng(seed)
        weights = [rng.normal(size=(4, result.size)) for result in function.results]
        names = [argument.name for argument in function.arguments]
        found = evaluate(vjp(function, names), *arrays, *weights)
        for name, mine in zip(names, found):
            each = evaluate(jacobian(function, name), *arrays)
            parts = [w[:, None, :] @ d.reshape(4, w.shape[1], -1) for w, d in zip(weights, each)]
            wanted = sum(parts)[:, 0]
            np.testing.assert_allclose(mine, wanted, atol=1e-9 * max(1.0, np.abs(wanted).max()))
