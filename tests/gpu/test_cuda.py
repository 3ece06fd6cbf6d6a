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
