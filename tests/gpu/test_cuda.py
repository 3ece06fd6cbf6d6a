"""Kernels on an NVIDIA GPU compute what machine code computes; collected everywhere, run where there is a GPU."""

from __future__ import annotations

import importlib.util
import pickle
import sys
from pathlib import Path

import numpy as np
import pytest

import minidyn as md
from minidyn.errors import MinidynError

sys.path.insert(0, str(Path(__file__).parent.parent / "laws"))
from random_robots import random_tree


def _reason() -> str:
    if importlib.util.find_spec("cuda") is None:
        return "needs cuda-core: pip install minidyn[cuda]"
    try:
        from cuda.core import Device

        Device(0).set_current()
    except Exception as error:  # whatever the driver says
        return f"needs an NVIDIA GPU: {error}"
    return ""


pytestmark = pytest.mark.skipif(bool(_reason()), reason=_reason() or "runs")

FUNCTIONS = ("inverse_dynamics", "inertia_matrix", "forward_dynamics", "base_regressor", "energy", "coriolis_matrix")


def close(found, expected, tolerance=1e-12) -> None:
    np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance * np.abs(expected).max())


def cases(robot, what, count, seed=0):
    """Return native kernel, keyword arguments and random arrays."""
    base = md.base_parameters(robot) if what == "base_regressor" else None
    kernel = md.compile(robot, what, base=base)
    rng = np.random.default_rng(seed)
    return kernel, {"base": base}, [rng.normal(size=(count, a.size)) for a in kernel.function.arguments]


@pytest.mark.parametrize("what", FUNCTIONS)
@pytest.mark.parametrize("layout", ["rows", "components"])
def test_random_robots_agree_with_machine_code(what, layout) -> None:
    for seed in range(6):
        robot = random_tree(np.random.default_rng(seed), joints=1 + seed)
        native, options, arrays = cases(robot, what, 1 + 37 * seed)
        gpu = md.compile(robot, what, target="cuda", layout=layout, **options)
        given = arrays if layout == "rows" else [array.T for array in arrays]
        found, expected = gpu(*given), native(*arrays)
        pairs = zip(found, expected) if isinstance(expected, tuple) else [(found, expected)]
        for mine, theirs in pairs:
            close(np.moveaxis(mine, -1, 0) if layout == "components" else mine, theirs)


def test_single_precision() -> None:
    native, options, arrays = cases(md.load("panda"), "inverse_dynamics", 500)
    gpu = md.compile(native.robot, "inverse_dynamics", target="cuda", dtype="float32", **options)
    found = gpu(*arrays)
    assert found.dtype == np.float32
    close(found, native(*arrays), 1e-5)


@pytest.mark.parametrize("library", ["cupy", "torch", "jax"])
def test_arrays_of_other_libraries(library) -> None:
    module = pytest.importorskip(library)
    native, _, arrays = cases(md.load("ur10e"), "inertia_matrix", 1000)
    gpu = md.compile(native.robot, "inertia_matrix", target="cuda")
    if library == "cupy":
        given = [module.asarray(a) for a in arrays]
    elif library == "torch":
        given = [module.tensor(a, device="cuda") for a in arrays]
    else:
        module.config.update("jax_enable_x64", True)
        given = [module.numpy.asarray(a) for a in arrays]
    found = gpu(*given)
    assert type(found).__module__.partition(".")[0].removesuffix("lib") == library
    on_host = found.get() if library == "cupy" else found.cpu().numpy() if library == "torch" else np.asarray(found)
    close(on_host, native(*arrays))
    if library != "jax":
        out = found * 0
        assert gpu(*given, out=out) is out
        assert bool((out == found).all())


def test_streams_of_the_caller() -> None:
    torch = pytest.importorskip("torch")
    native, _, arrays = cases(md.load("ur10e"), "inverse_dynamics", 200_000)
    gpu = md.compile(native.robot, "inverse_dynamics", target="cuda")
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        given = [torch.tensor(a, device="cuda") * 2.0 for a in arrays]
        found = gpu(*given) * 1.0
    stream.synchronize()
    close(found.cpu().numpy(), native(*[2.0 * a for a in arrays]))


def test_every_sample_its_own_parameters() -> None:
    robot = md.load("panda")
    gpu = md.compile(robot, "inverse_dynamics", target="cuda", parameters="argument")
    rng = np.random.default_rng(3)
    q, dq, ddq = rng.normal(size=(3, 50, robot.n))
    own = np.asarray(robot.parameters)
    many = own * rng.uniform(0.5, 2.0, size=(50, len(own)))
    each = np.array([md.inverse_dynamics(robot, q[k], dq[k], ddq[k], many[k]) for k in range(50)])
    close(gpu(q, dq, ddq, many), each)
    close(gpu(q, dq, ddq, own), md.inverse_dynamics(robot, q, dq, ddq))


def test_shapes_and_errors() -> None:
    robot = md.load("ur10e")
    gpu = md.compile(robot, "inverse_dynamics", target="cuda")
    q = np.zeros((2, 3, robot.n))
    assert gpu(q, q, q).shape == (2, 3, robot.n)
    assert gpu(q[0, 0], q[0, 0], q[0, 0]).shape == (robot.n,)
    assert gpu(q[:0], q[:0], q[:0]).shape == (0, 3, robot.n)
    out = np.empty_like(q)
    assert gpu(q, q, q, out=out) is out
    with pytest.raises(MinidynError, match="expected"):
        gpu(q[..., :2], q, q)
    with pytest.raises(MinidynError, match="batch shape"):
        gpu(q, q[0], q)
    again = pickle.loads(pickle.dumps(gpu))  # noqa: S301
    close(again(q + 0.1, q, q), gpu(q + 0.1, q, q))
    torch = pytest.importorskip("torch")
    tensor = torch.zeros((4, robot.n), device="cuda", dtype=torch.float32)
    with pytest.raises(MinidynError, match="float32"):
        gpu(tensor, tensor, tensor)
    strided = torch.zeros((robot.n, 4), device="cuda", dtype=torch.float64).T
    with pytest.raises(MinidynError, match="contiguous"):
        gpu(strided, strided, strided)


def numeric_gradient(kernel, arrays, at, weight, step=1e-6):
    """Return the gradient of the weighted sum of the result with respect to one argument, by differences."""
    found = np.zeros_like(arrays[at])
    for k in range(arrays[at].shape[-1]):
        ends = []
        for side in (step, -step):
            moved = [array.copy() for array in arrays]
            moved[at][..., k] += side
            ends.append(np.sum(weight * kernel(*moved), axis=tuple(range(1, weight.ndim))))
        found[..., k] = (ends[0] - ends[1]) / (2 * step)
    return found


@pytest.mark.parametrize("what", ["inverse_dynamics", "forward_dynamics", "inertia_matrix"])
@pytest.mark.parametrize("layout", ["rows", "components"])
def test_gradients_of_tensors(what, layout) -> None:
    torch = pytest.importorskip("torch")
    native, _, arrays = cases(md.load("ur10e"), what, 20)
    function = md.compile(native.robot, what, target="cuda", layout=layout).torch()
    given = [
        torch.tensor(a if layout == "rows" else np.ascontiguousarray(a.T), device="cuda", requires_grad=True)
        for a in arrays
    ]
    found = function(*given)
    weight = np.random.default_rng(1).normal(size=native(*arrays).shape)
    factor = torch.tensor(weight if layout == "rows" else np.moveaxis(weight, 0, -1).copy(), device="cuda")
    (found * factor).sum().backward()
    for at, tensor in enumerate(given):
        mine = tensor.grad.cpu().numpy()
        close(mine if layout == "rows" else mine.T, numeric_gradient(native, arrays, at, weight), 1e-7)


def test_gradient_of_parameters_that_all_samples_share() -> None:
    torch = pytest.importorskip("torch")
    robot = md.load("scara")
    kernel = md.compile(robot, "inverse_dynamics", target="cuda", parameters="argument")
    rng = np.random.default_rng(0)
    q, dq, ddq = (torch.tensor(a, device="cuda") for a in rng.normal(size=(3, 30, robot.n)))
    phi = torch.tensor(np.array(robot.parameters), device="cuda", requires_grad=True)
    kernel.torch()(q, dq, ddq, phi).sum().backward()
    Y = md.regressor(robot, q.cpu().numpy(), dq.cpu().numpy(), ddq.cpu().numpy())  # torques are linear in phi
    close(phi.grad.cpu().numpy(), Y.sum(axis=(0, 1)))


def test_vmap_of_tensors() -> None:
    torch = pytest.importorskip("torch")
    native, _, arrays = cases(md.load("ur10e"), "inverse_dynamics", 40)
    function = md.compile(native.robot, "inverse_dynamics", target="cuda").torch()
    q, dq, ddq = (torch.tensor(a, device="cuda") for a in arrays)
    close(torch.func.vmap(function)(q, dq, ddq).cpu().numpy(), native(*arrays))
    one = torch.func.vmap(function, in_dims=(0, 0, None))(q, dq, ddq[0])
    close(one.cpu().numpy(), native(arrays[0], arrays[1], np.broadcast_to(arrays[2][0], arrays[2].shape)))
