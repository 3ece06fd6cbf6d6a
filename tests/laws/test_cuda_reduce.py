"""The reduction that is printed as CUDA, run without a GPU, gives what machine code and QR give."""

from __future__ import annotations

import numpy as np
import pytest
from cuda_shim import needs_compiler, run_by_shim
from test_reduction import ill_conditioned, precise_solution

import minidyn as md
from minidyn.errors import MinidynError
from minidyn.graph.function import Function, evaluate
from minidyn.graph.scalar import Graph
from minidyn.graph.targets.cuda.reduce import CudaReduction, Plan
from minidyn.graph.targets.cuda.sums import SUMS, CudaSums
from minidyn.identification.rows.base_rows import base_functions
from minidyn.identification.rows.triangles import Triangle, metric_of, triangle_of
from robot_cases import robot_of_seed


class ByShim:
    """As CudaReduction, without a GPU: `blocks` blocks take turns at the samples."""

    def __init__(self, folder, function: Function, blocks: int = 2) -> None:
        self.plan, self.blocks = Plan(function), blocks
        arguments = "".join(f", (md_real *)p[{k + 5}]" for k in range(len(function.arguments)))
        call = f"""
        const long long count = *(long long *)p[0];
        const unsigned long long *bits = (unsigned long long *)p[1];
        md_real *factors = (md_real *)p[2], *sums = (md_real *)p[3], *totals = (md_real *)p[4];
        blocks({blocks}, {self.plan.block}, [=] {{ md_reduce(count, bits[0], bits[1], factors, sums{arguments}); }});
        blocks({-(-self.plan.size // 128)}, 128, [=] {{ md_total({self.plan.size}, {blocks}, sums, totals); }});
        """  # noqa: E501
        self.entry = run_by_shim(folder, self.plan.text, call)

    def grams(self, arrays, factors):
        """Return the products of all results' columns."""
        divided, refined, packed = self.plan.packed(factors)
        sums, totals = (
            np.full(self.blocks * self.plan.size, np.nan),
            np.full(self.plan.size, np.nan),
        )
        given = [np.ascontiguousarray(array, dtype=float) for array in arrays]
        count = np.array([len(given[0])], dtype=np.int64)
        self.entry(
            count, np.array([divided, refined], dtype=np.uint64), packed, sums, totals, *given
        )
        return self.plan.products(totals)


def as_they_are(*sizes: int) -> Function:
    """A function whose rows are its arguments."""
    graph = Graph()
    return graph.function(
        "same", {f"rows{k}": list(graph.inputs(f"x{k}", size)) for k, size in enumerate(sizes)}
    )


@needs_compiler
@pytest.mark.parametrize(
    ("rows", "sizes"), [(1, (4, 1)), (300, (7, 20)), (129, (41, 3)), (70, (112, 8))]
)
def test_products_are_the_products(tmp_path, rows, sizes) -> None:
    rng = np.random.default_rng(rows)
    reduction = ByShim(tmp_path, as_they_are(*sizes))
    arrays = [rng.standard_normal((rows, size)) for size in sizes]
    for found, x in zip(reduction.grams(arrays, [None, None]), arrays):
        np.testing.assert_allclose(found, x.T @ x, rtol=1e-12, atol=1e-12 * rows)
    triangle = np.triu(rng.uniform(0.5, 1.5, (sizes[0], sizes[0]))) + sizes[0] * np.eye(sizes[0])
    first, second = reduction.grams(arrays, [triangle, None])
    V = np.linalg.solve(triangle.T, arrays[0].T).T
    np.testing.assert_allclose(first, V.T @ V, rtol=1e-10, atol=1e-10 * np.abs(V.T @ V).max())
    np.testing.assert_allclose(second, arrays[1].T @ arrays[1], rtol=1e-12, atol=1e-12 * rows)


@needs_compiler
def test_as_good_as_householder(tmp_path) -> None:
    """Errors of the solution, against extended precision: of the size of NumPy's QR."""
    rng = np.random.default_rng(0)
    reduction = ByShim(tmp_path, as_they_are(13))
    for condition in (1e1, 1e6, 1e10):
        Y = ill_conditioned(rng, 1500, 12, condition)
        clean = Y @ (rng.standard_normal(12) / np.linalg.norm(Y, axis=0))
        rows = np.column_stack([Y, clean + 0.1 * np.std(clean) * rng.standard_normal(len(Y))])
        metric = metric_of(rows[::4] * 2.0)
        grown = Triangle(13)
        for piece in np.array_split(rows, 2):
            assert grown.add_products(reduction.grams([piece], [metric])[0], metric)
        (exact, _), lengths, errors = precise_solution(rows), np.linalg.norm(Y, axis=0), []
        for R in (grown.factor, triangle_of(rows)):
            wrong = (np.linalg.solve(R[:12, :12], R[:12, 12]) - exact) * lengths
            errors.append(np.linalg.norm(wrong) / np.linalg.norm(exact * lengths))
        assert errors[0] < 10 * errors[1] + 1e-10, (condition, errors)


@needs_compiler
@pytest.mark.parametrize("case", ["scara", 0, 3])
def test_rows_of_robots(tmp_path, case) -> None:
    robot = md.load(case) if isinstance(case, str) else robot_of_seed(case)
    functions = base_functions(robot, md.base_parameters(robot))
    reduction = ByShim(tmp_path, functions.rows.function)
    rng = np.random.default_rng(1)
    arrays = list(rng.standard_normal((4, 333, robot.n)))
    sizes = functions.rows.sizes
    factors = [
        np.triu(rng.uniform(0.5, 1.5, (s, s))) + s * np.eye(s) if k % 2 else None
        for k, s in enumerate(sizes)
    ]
    expected = functions.rows.grams(arrays, factors, range(len(sizes)))
    for found, wanted in zip(reduction.grams(arrays, factors), expected, strict=True):
        np.testing.assert_allclose(
            found, wanted, rtol=0, atol=1e-12 * max(1.0, np.abs(wanted).max())
        )


def test_corners_that_are_ill_conditioned_are_refined() -> None:
    plan, mild = Plan(as_they_are(12, 12)), np.triu(np.full((12, 12), 0.1)) + np.eye(12)
    steep = mild.copy()
    steep[1, 1] = steep[2, 2] = (
        1e-9  # two columns that others nearly give: rounding of the inverse shows
    )
    assert plan.packed([mild, None])[:2] == (1, 0)
    assert plan.packed([mild, steep])[:2] == (3, 2)


@needs_compiler
def test_sums_over_blocks_of_samples(tmp_path) -> None:
    call = """
    const long long *whole = (long long *)p[0];
    const long long threads = (whole[0] + whole[2] - 1) / whole[2] * whole[1];
    blocks((threads + 127) / 128, 128, [=] { md_sum(whole[0], whole[1], whole[2], (md_real *)p[1], (md_real *)p[2]); });
    """  # noqa: E501
    run, rng = run_by_shim(tmp_path, SUMS, call), np.random.default_rng(0)
    for count, length in ((1, 5), (100, 7), (70, 70), (300, 1)):
        rows, sums = rng.standard_normal((count, 13)), np.full((-(-count // length), 13), np.nan)
        run(np.array([count, 13, length], dtype=np.int64), rows, sums)
        np.testing.assert_allclose(sums, np.add.reduceat(rows, range(0, count, length)), atol=1e-12)


@pytest.mark.parametrize("method", ["wls", "irls"])
def test_identify_with_a_device_is_identify(monkeypatch, method) -> None:
    """NumPy computes what the GPU does.

    Pieces, blocks of time and what is done with them are as there.
    """

    def grams(self, arrays, factors, which):
        found = []
        for index, rows in enumerate(self.rows(arrays)):
            factor = factors[index]
            V = rows if factor is None else np.linalg.solve(factor.T, rows.T).T
            found.append(V.T @ V)
        return [found[index] for index in which]

    def sums(self, length, *arrays):
        return np.add.reduceat(evaluate(self.function, *arrays), range(0, len(arrays[0]), length))

    monkeypatch.setattr(CudaReduction, "grams", grams)
    monkeypatch.setattr(CudaSums, "__call__", sums)
    monkeypatch.setattr("minidyn.identification.identify.require_device", lambda device: None)
    monkeypatch.setattr("minidyn.identification.estimators.least_squares.PIECE", 3000)
    robot = md.load("two_arm")
    t = np.arange(22_000) / 1000
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
    np.testing.assert_allclose(found.sigma, expected.sigma, rtol=1e-9)


def test_a_device_that_is_not_there_is_an_error() -> None:
    robot = md.load("scara")
    log = md.Recording(
        np.arange(300) / 100, *np.random.default_rng(0).standard_normal((4, 300, robot.n))
    )
    with pytest.raises(MinidynError, match="cuda"):
        md.identify(robot, log, device="tpu")
    with pytest.raises(MinidynError, match=r"minidyn\[cuda\]|no NVIDIA GPU"):
        md.identify(robot, log, device="cuda")


def test_too_wide_rows_are_refused() -> None:
    with pytest.raises(MinidynError, match="leave device= out"):
        Plan(as_they_are(400))
