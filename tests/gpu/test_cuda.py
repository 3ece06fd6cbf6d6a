"""Kernels on an NVIDIA GPU compute what machine code computes.

Collected everywhere, run where there is a GPU.
"""

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

FUNCTIONS = (
    "inverse_dynamics",
    "inertia_matrix",
    "forward_dynamics",
    "base_regressor",
    "energy",
    "coriolis_matrix",
)


def close(found, expected, tolerance=1e-12) -> None:
    np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance * np.abs(expected).max())


def cases(robot, what, count, seed=0):
    """Return native kernel, keyword arguments and random arrays."""
    base = md.base_parameters(robot) if what == "base_regressor" else None
    kernel = md.compile(robot, what, base=base)
    rng = np.random.default_rng(seed)
    return (
        kernel,
        {"base": base},
        [rng.normal(size=(count, a.size)) for a in kernel.function.arguments],
    )


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
    on_host = (
        found.get()
        if library == "cupy"
        else found.cpu().numpy()
        if library == "torch"
        else np.asarray(found)
    )
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


def test_symmetric_results_may_be_packed() -> None:
    robot = md.load("ur10e")
    q = np.random.default_rng(0).normal(size=(1000, robot.n))
    found = md.compile(robot, "inertia_matrix", target="cuda", packed=True)(q)
    rows, columns = np.triu_indices(robot.n)
    close(found, md.inertia_matrix(robot, q)[:, rows, columns])


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
    again = pickle.loads(pickle.dumps(gpu))
    close(again(q + 0.1, q, q), gpu(q + 0.1, q, q))
    torch = pytest.importorskip("torch")
    tensor = torch.zeros((4, robot.n), device="cuda", dtype=torch.float32)
    with pytest.raises(MinidynError, match="float32"):
        gpu(tensor, tensor, tensor)
    strided = torch.zeros((robot.n, 4), device="cuda", dtype=torch.float64).T
    with pytest.raises(MinidynError, match="contiguous"):
        gpu(strided, strided, strided)


def numeric_gradient(kernel, arrays, at, weight, step=1e-6):
    """Return the gradient of the weighted sum of the result with respect to one argument, by
    differences.
    """
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
        torch.tensor(
            a if layout == "rows" else np.ascontiguousarray(a.T), device="cuda", requires_grad=True
        )
        for a in arrays
    ]
    found = function(*given)
    weight = np.random.default_rng(1).normal(size=native(*arrays).shape)
    factor = torch.tensor(
        weight if layout == "rows" else np.moveaxis(weight, 0, -1).copy(), device="cuda"
    )
    (found * factor).sum().backward()
    for at, tensor in enumerate(given):
        mine = tensor.grad.cpu().numpy()
        close(
            mine if layout == "rows" else mine.T, numeric_gradient(native, arrays, at, weight), 1e-7
        )


def test_gradient_of_parameters_that_all_samples_share() -> None:
    torch = pytest.importorskip("torch")
    robot = md.load("scara")
    kernel = md.compile(robot, "inverse_dynamics", target="cuda", parameters="argument")
    rng = np.random.default_rng(0)
    q, dq, ddq = (torch.tensor(a, device="cuda") for a in rng.normal(size=(3, 30, robot.n)))
    phi = torch.tensor(np.array(robot.parameters), device="cuda", requires_grad=True)
    kernel.torch()(q, dq, ddq, phi).sum().backward()
    Y = md.regressor(
        robot, q.cpu().numpy(), dq.cpu().numpy(), ddq.cpu().numpy()
    )  # torques are linear in phi
    close(phi.grad.cpu().numpy(), Y.sum(axis=(0, 1)))


def test_vmap_of_tensors() -> None:
    torch = pytest.importorskip("torch")
    native, _, arrays = cases(md.load("ur10e"), "inverse_dynamics", 40)
    function = md.compile(native.robot, "inverse_dynamics", target="cuda").torch()
    q, dq, ddq = (torch.tensor(a, device="cuda") for a in arrays)
    close(torch.func.vmap(function)(q, dq, ddq).cpu().numpy(), native(*arrays))
    one = torch.func.vmap(function, in_dims=(0, 0, None))(q, dq, ddq[0])
    close(
        one.cpu().numpy(),
        native(arrays[0], arrays[1], np.broadcast_to(arrays[2][0], arrays[2].shape)),
    )


@pytest.mark.parametrize("count", [1, 1000, 200_001])
def test_reduction_agrees_with_machine_code(count) -> None:
    from minidyn.graph.targets.cuda.reduce import CudaReduction
    from minidyn.identification.rows.base_rows import base_functions

    for seed, robot in enumerate(
        [md.load("ur10e"), md.load("panda"), random_tree(np.random.default_rng(3), joints=4)]
    ):
        functions = base_functions(robot, md.base_parameters(robot))
        gpu = CudaReduction(functions.rows.function)
        rng = np.random.default_rng(seed)
        arrays = list(rng.normal(size=(4, count, robot.n)))
        sizes = functions.rows.sizes
        triangles = [np.triu(rng.uniform(0.5, 1.5, (s, s))) + s * np.eye(s) for s in sizes]
        for factors in ([None] * len(sizes), triangles):
            expected = functions.rows.grams(arrays, factors, range(len(sizes)))
            found = gpu.grams(arrays, factors, range(len(sizes)))
            for mine, theirs in zip(found, expected, strict=True):
                close(mine, theirs)
            for mine, again in zip(found, gpu.grams(arrays, factors, range(len(sizes)))):
                np.testing.assert_array_equal(mine, again)  # the order of sums is fixed


@pytest.mark.parametrize("condition", [1e1, 1e6, 1e10])
def test_reduction_is_as_good_as_householder(condition) -> None:
    from test_cuda_reduce import as_they_are
    from test_reduction import ill_conditioned, precise_solution

    from minidyn.graph.targets.cuda.reduce import CudaReduction
    from minidyn.identification.rows.triangles import Triangle, metric_of, triangle_of

    rng, gpu = np.random.default_rng(0), CudaReduction(as_they_are(41))
    Y = ill_conditioned(rng, 40_000, 40, condition)
    clean = Y @ (rng.standard_normal(40) / np.linalg.norm(Y, axis=0))
    rows = np.column_stack([Y, clean + 0.1 * np.std(clean) * rng.standard_normal(len(Y))])
    metric = metric_of(rows[::40] * np.sqrt(40))
    grown = Triangle(41)
    for piece in np.array_split(rows, 3):
        assert grown.add_products(gpu.grams([piece], [metric], [0])[0], metric)
    (exact, _), lengths, errors = precise_solution(rows), np.linalg.norm(Y, axis=0), []
    for R in (grown.factor, triangle_of(rows)):
        wrong = (np.linalg.solve(R[:40, :40], R[:40, 40]) - exact) * lengths
        errors.append(np.linalg.norm(wrong) / np.linalg.norm(exact * lengths))
    assert errors[0] < 10 * errors[1] + 1e-12


@pytest.mark.parametrize("method", ["wls", "irls"])
def test_identify_on_a_gpu(method) -> None:
    robot = md.load("panda")
    t = np.arange(60_000) / 1000
    q, dq, ddq = md.trajectory.fourier(robot, seed=1)(t)
    tau = md.inverse_dynamics(robot, q, dq, ddq) + 0.1 * np.random.default_rng(0).standard_normal(
        q.shape
    )
    log = md.Recording(t, q, tau, dq, ddq, robot.joint_names, starts=(0, 11_111))
    expected, found = (
        md.identify(robot, log, method, friction=("viscous",), device=device, consistent=False)
        for device in (None, "cuda")
    )
    np.testing.assert_allclose(
        found.beta, expected.beta, rtol=1e-7, atol=1e-9 * np.abs(expected.beta).max()
    )
    np.testing.assert_allclose(
        found.covariance, expected.covariance, rtol=1e-6, atol=1e-8 * expected.covariance.max()
    )


@pytest.mark.parametrize("name", ["computed_torque", "pd_gravity", "slotine_li", "none"])
def test_closed_loops_agree_with_machine_code(name) -> None:
    robot = md.load("panda")
    laws = {
        "computed_torque": lambda: md.control.computed_torque(robot, bandwidth=8, period=2e-3),
        "pd_gravity": lambda: md.control.pd_gravity(robot, gain=20.0, bandwidth=20.0),
        "slotine_li": lambda: md.control.slotine_li(robot, bandwidth=5, gain=0.5, adaptation=0.001),
        "none": lambda: None,
    }
    motion = md.trajectory.fourier(robot, seed=4, speed=1.0)
    rng = np.random.default_rng(0)
    options = {
        "q0": motion(0.0)[0] + 0.02 * rng.normal(size=(100, robot.n)),
        "estimates": True,
        "torque_limit": 80.0,
    }
    expected = md.simulate_batch(robot, laws[name](), motion, 0.05, **options)
    found = md.simulate_batch(robot, laws[name](), motion, 0.05, device="cuda", **options)
    for row in (0, 1, 63, 64, 99):
        for signal in ("q", "dq", "ddq", "tau"):
            close(getattr(found[row], signal), getattr(expected[row], signal), 1e-9)
    cupy = pytest.importorskip("cupy")
    assert cupy.from_dlpack(found.arrays["q"]).shape == (100, 51, robot.n)


def test_logs_that_do_not_fit_are_refused() -> None:
    robot = md.load("ur10e")
    still = md.trajectory.hold(np.zeros(robot.n))
    with pytest.raises(MinidynError, match="GB free"):
        md.simulate_batch(robot, None, still, 1e3, q0=np.zeros((100_000, robot.n)), device="cuda")


def test_noise_in_the_loop_is_of_each_run_its_own() -> None:
    robot = md.load("ur10e")
    law = md.control.computed_torque(robot, bandwidth=8)
    still = md.trajectory.hold(np.full(robot.n, 0.3))
    options = {
        "q0": np.full((40, robot.n), 0.3),
        "noise": 1e-4,
        "velocity_noise": 1e-3,
        "device": "cuda",
    }
    runs, again = (md.simulate_batch(robot, law, still, 0.02, **options) for _ in range(2))
    np.testing.assert_array_equal(runs[3].tau, again[3].tau)
    first = np.array([run.tau[0] for run in runs])
    assert np.all(first.std(axis=0) > 0)
