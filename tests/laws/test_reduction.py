"""Rows reduced by products of columns are as good as by Householder reflections.

Whatever their condition.
"""

import numpy as np
import pytest

import minidyn as md
from conftest import count
from minidyn.graph.scalar import Graph
from minidyn.graph.targets.native.reduce import GROUP, Reduction
from minidyn.identification.rows.base_rows import base_functions
from minidyn.identification.rows.triangles import Triangle, assemble, metric_of, triangle_of
from robot_cases import random_chain, robot_of_seed


def as_they_are(sizes: list[int], width: int | None = None) -> Reduction:
    """A reduction whose rows are its arguments."""
    graph = Graph()
    inputs = [graph.inputs(f"x{k}", size) for k, size in enumerate(sizes)]
    rows = {f"rows{k}": [*own, *[graph.zero] * (-len(own) % GROUP)] for k, own in enumerate(inputs)}
    return Reduction(graph.function("same", rows), width)


def ill_conditioned(rng: np.random.Generator, rows: int, size: int, condition: float) -> np.ndarray:
    """Rows whose singular values fall evenly, in columns of very different lengths."""
    U, _ = np.linalg.qr(rng.standard_normal((rows, size)))
    V, _ = np.linalg.qr(rng.standard_normal((size, size)))
    return (U * np.geomspace(1, 1 / condition, size)) @ V.T * np.geomspace(1e-3, 1e3, size)


def precise_solution(rows: np.ndarray) -> tuple[np.ndarray, float]:
    """Least squares of the last column on the others, and what is left of it, in extended
    precision.

    (Gram-Schmidt, each step twice.)
    """
    W = rows.astype(np.longdouble)
    size = W.shape[1] - 1
    Q, R = (
        np.zeros((len(W), size), dtype=np.longdouble),
        np.zeros((size, size + 1), dtype=np.longdouble),
    )
    for k in range(size + 1):
        column = W[:, k].copy()
        for _ in range(2):
            part = Q[:, :k].T @ column
            R[:k, k] += part[:size]
            column -= Q[:, :k] @ part
        rest = np.sqrt(np.sum(column**2))
        if k < size:
            R[k, k] = rest
            Q[:, k] = column / rest
    x = np.zeros(size, dtype=np.longdouble)
    for k in reversed(range(size)):
        x[k] = (R[k, size] - R[k, k + 1 : size] @ x[k + 1 :]) / R[k, k]
    return x.astype(float), float(rest)


def by_products(
    pieces: list[np.ndarray], reduction: Reduction, metric: np.ndarray | None
) -> Triangle:
    size = pieces[0].shape[1]
    grown = Triangle(size)
    padded = None
    if metric is not None:
        padded = np.eye(reduction.sizes[0])
        padded[:size, :size] = metric
    for piece in pieces:
        [products] = reduction.grams([piece], [padded], [0])
        assert grown.add_products(products[:size, :size], metric)
    return grown


@pytest.mark.parametrize("width", [2, 4, 8, None])
@pytest.mark.parametrize(("rows", "size"), [(1, 4), (5, 1), (255, 7), (1000, 13), (257, 40)])
def test_products_are_the_products(rows, size, width) -> None:
    rng = np.random.default_rng(rows + size)
    wide = rng.standard_normal((rows, size + 3))
    x, y = wide[:, :size], np.asfortranarray(rng.standard_normal((rows, 3)))  # any strides
    reduction = as_they_are([size, 3], width)
    found, other = reduction.grams([x, y], [None, None], [0, 1])
    np.testing.assert_allclose(found[:size, :size], x.T @ x, rtol=1e-12, atol=1e-12 * rows)
    np.testing.assert_allclose(other[:3, :3], y.T @ y, rtol=1e-12, atol=1e-12 * rows)
    assert not found[size:].any()
    assert not found[:, size:].any()
    np.testing.assert_array_equal(reduction.rows([x, y])[0][:, :size], x)
    padded = np.eye(reduction.sizes[0])
    padded[:size, :size] = triangle = np.triu(rng.uniform(0.5, 1.5, (size, size)))
    [only] = reduction.grams([x, y], [padded, None], [0])
    V = np.linalg.solve(triangle.T, x.T).T
    np.testing.assert_allclose(
        only[:size, :size], V.T @ V, rtol=1e-9, atol=1e-9 * np.abs(V.T @ V).max()
    )


@pytest.mark.parametrize("width", [2, 4, 8])
@pytest.mark.parametrize("plain", [[], [0], [1], [2], [0, 2]])
def test_groups_that_stay_as_they_are(plain, width) -> None:
    """Groups that are not divided, between others.

    A column that is the same in every row, in every tile.
    """
    rng = np.random.default_rng(len(plain))
    graph = Graph()
    reduction = Reduction(
        graph.function("same", {"rows": [*graph.inputs("x", 11), graph.constant(3.0)]}), width
    )
    x, triangle = rng.standard_normal((700, 11)), np.triu(rng.uniform(0.5, 1.5, (12, 12)))
    for group in plain:
        triangle[:, group * GROUP : (group + 1) * GROUP] = np.eye(12)[
            :, group * GROUP : (group + 1) * GROUP
        ]
    V = np.linalg.solve(triangle.T, np.column_stack([x, np.full(len(x), 3.0)]).T).T
    [found] = reduction.grams([x], [triangle], [0])
    np.testing.assert_allclose(found, V.T @ V, rtol=1e-9, atol=1e-9 * np.abs(V.T @ V).max())


@pytest.mark.parametrize("condition", [1e1, 1e6, 1e8, 1e10])
def test_as_good_as_householder(condition) -> None:
    """Errors of the solution, against extended precision.

    Of the size of NumPy's QR (which has them, too).
    """
    rng = np.random.default_rng(int(np.log10(condition)))
    reduction = as_they_are([13])
    ours, theirs = 0.0, 0.0
    for _ in range(count(3, 20)):
        Y = ill_conditioned(rng, 4000, 12, condition)
        clean = Y @ (rng.standard_normal(12) / np.linalg.norm(Y, axis=0))
        rows = np.column_stack([Y, clean + 0.1 * np.std(clean) * rng.standard_normal(len(Y))])
        pieces = np.array_split(rows, 5)
        metric = metric_of(rows[::8] * np.sqrt(8))
        assert (metric is None) == (condition < 1e2)
        R = by_products(pieces, reduction, metric).factor
        exact, rest = precise_solution(rows)
        H = triangle_of(rows)
        for kind, factor in (("ours", R), ("theirs", H)):
            error = np.linalg.norm(
                (np.linalg.solve(factor[:12, :12], factor[:12, 12]) - exact)
                * np.linalg.norm(Y, axis=0)
            )
            error /= np.linalg.norm(exact * np.linalg.norm(Y, axis=0))
            ours, theirs = (
                (max(ours, error), theirs) if kind == "ours" else (ours, max(theirs, error))
            )
        np.testing.assert_allclose(abs(R[12, 12]), rest, rtol=1e-9)  # the noise that is left
    assert ours < 10 * theirs + 1e-10, (ours, theirs)


def test_plain_products_would_not_do() -> None:
    """The check after the fact refuses what the condition spoils, and changes nothing."""
    rng = np.random.default_rng(0)
    rows = ill_conditioned(rng, 3000, 8, 1e6)
    grown = Triangle(8)
    assert not grown.add_products(rows.T @ rows, None)
    assert grown.factor.shape == (0, 8)
    grown.add_rows(rows[:100])
    before = grown.factor.copy()
    assert not grown.add_products(np.full((8, 8), np.nan), None)
    np.testing.assert_array_equal(grown.factor, before)


def panda_like_log(samples: int, still: int = 0) -> tuple[md.Robot, md.Recording]:
    robot = md.load("panda").with_drives(True, ("viscous", "coulomb", "offset"))
    robot = robot.with_parameters(np.where(np.isnan(robot.parameters), 0.5, robot.parameters))
    t = np.arange(samples) / 200
    q, dq, ddq = md.trajectory.fourier(robot, seed=2)(np.maximum(t - still / 200, 0.0))
    dq[:still], ddq[:still] = 0.0, 0.0
    noise = 0.1 * np.random.default_rng(4).standard_normal(q.shape)
    return robot, md.Recording(
        t, q, md.inverse_dynamics(robot, q, dq, ddq) + noise, dq, ddq, robot.joint_names
    )


@pytest.mark.parametrize("case", ["moving", "still at first", "no noise", "a silent torque"])
def test_reduction_of_a_log_is_the_whole_matrix(case) -> None:
    """Pieces, stretches and every way they are taken in: the same as one QR of all rows.

    The Panda's first joint has columns that depend on each other, so its rows have no full rank.
    """
    robot, log = panda_like_log(12_000, still=5000 if case == "still at first" else 0)
    tau = log.tau
    if case == "no noise":
        tau = md.inverse_dynamics(robot, log.q, log.dq, log.ddq)
    elif case == "a silent torque":
        tau = tau * [1, 1, 1, 0, 1, 1, 1]
    log = md.Recording(
        log.t, log.q, tau, log.dq, log.ddq, log.joint_names, starts=(0, 3000, 3010, 9000)
    )
    base = md.base_parameters(robot)
    found = assemble(robot, base, log)
    assert found.samples == len(log)
    assert len(found.stretches) == 5
    Y = md.base_regressor(robot, log.q, log.dq, log.ddq, base=base)
    sigma = np.linspace(0.5, 2, 7)
    direct = triangle_of(
        np.concatenate(
            [(Y / sigma[:, None]).reshape(-1, base.rank), (tau / sigma).reshape(-1, 1)], 1
        )
    )
    R, z, rest = found.weighted(sigma)
    expected = np.linalg.solve(direct[:-1, :-1], direct[:-1, -1])
    np.testing.assert_allclose(
        np.linalg.solve(R, z), expected, rtol=1e-9, atol=1e-10 * np.abs(expected).max()
    )
    assert rest == pytest.approx(direct[-1, -1] ** 2, rel=1e-9, abs=1e-18 * float(np.sum(tau**2)))
    edges = np.linspace(0, len(log), 6).astype(int)
    for stretch, begin, end in zip(found.stretches, edges, edges[1:]):
        residual = tau[begin:end] - Y[begin:end] @ expected
        squares = np.sum(residual**2, axis=0)
        scale = np.sum(tau[begin:end] ** 2, axis=0)
        np.testing.assert_allclose(
            stretch.squares(expected), squares, rtol=1e-8, atol=1e-17 * scale.max()
        )
    np.testing.assert_allclose(found.sizes, np.sqrt(np.mean(tau**2, axis=0)))


@pytest.mark.parametrize("case", ["scara", "stanford", "R", "P", *range(count(4, 40))])
def test_any_robot(case) -> None:
    """Sliding joints, branches, followers, couplings, one joint, joints whose torque shows nothing
    but itself.
    """
    made = {"R": lambda: random_chain(0, "R"), "P": lambda: random_chain(0, "P")}
    robot = (
        robot_of_seed(case)
        if isinstance(case, int)
        else made[case]()
        if case in made
        else md.load(case)
    )
    rng = np.random.default_rng(0)
    t = np.arange(4000) / 100
    q, dq, ddq, tau = rng.standard_normal((4, len(t), robot.n))
    base = md.base_parameters(robot)
    joints = (
        [robot.joint_names[k] for k in range(robot.n)]
        if len(robot.joint_names) == robot.n
        else None
    )
    found = assemble(robot, base, md.Recording(t, q, tau, dq, ddq, joints), by_rows=200)
    Y = md.base_regressor(robot, q, dq, ddq, base=base).reshape(-1, base.rank)
    R, z, rest = found.weighted(np.ones(robot.n))
    lengths = np.linalg.norm(Y, axis=0)
    rows = np.column_stack([Y / lengths, tau.ravel() / np.linalg.norm(tau)])
    triangle = np.block([[R / lengths, z[:, None]], [np.zeros(len(z)), np.sqrt(rest)]])
    triangle[:, -1] /= np.linalg.norm(tau)
    np.testing.assert_allclose(triangle.T @ triangle, rows.T @ rows, atol=1e-11)
    if (
        np.linalg.cond(rows[:, :-1]) < 1e7
    ):  # followers that turn by a twentieth of their joint show next to nothing
        direct = np.linalg.lstsq(Y, tau.ravel(), rcond=None)[0]
        np.testing.assert_allclose(np.linalg.solve(R, z), direct, rtol=1e-8, atol=1e-10)
        assert rest == pytest.approx(float(np.sum((tau.ravel() - Y @ direct) ** 2)), rel=1e-9)


def test_threads_change_nothing() -> None:
    robot, log = panda_like_log(22_000)
    base = md.base_parameters(robot)
    one, two = (assemble(robot, base, log, threads=threads, piece=4096) for threads in (1, 2))
    for a, b in zip(one.factors, two.factors):
        np.testing.assert_array_equal(a, b)


def test_functions_of_base_parameters() -> None:
    robot, log = panda_like_log(300)
    base = md.base_parameters(robot)
    functions = base_functions(robot, base)
    assert functions is base_functions(robot, base)
    Y = md.base_regressor(robot, log.q, log.dq, log.ddq, base=base)
    beta = np.random.default_rng(0).standard_normal(base.rank)
    np.testing.assert_allclose(
        functions.torque((log.q, log.dq, log.ddq), beta), Y @ beta, atol=1e-10
    )
    scores = functions.scores((log.q, log.dq, log.ddq), log.tau)
    np.testing.assert_allclose(scores, np.einsum("sjk,sj->sk", Y, log.tau), atol=1e-9)
    weights = np.abs(log.tau)
    for j, (rows, own) in enumerate(
        zip(
            functions.weighted_rows.rows([*(log.q, log.dq, log.ddq, log.tau), weights]),
            functions.columns,
        )
    ):
        wanted = np.column_stack([Y[:, j, list(own)], log.tau[:, j]]) * weights[:, j, None]
        np.testing.assert_allclose(rows[:, : len(own) + 1], wanted, atol=1e-10)
