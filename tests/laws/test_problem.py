"""The linear-Gaussian problem of blocks against dense least squares of all unknowns at once."""

from __future__ import annotations

import numpy as np
import pytest

from conftest import count
from minidyn.identification.problem import BlockProblem, Rows

OWN, BLOCKS = {"f": 2, "g": 1}, {"slope": 2, "base": 3}


def group(rng: np.random.Generator, rows: int, silent: bool) -> list[Rows]:
    """Return data of one group, and pulls; silent data show the sum alone of f[1] and g."""
    sizes = {"f": 2, "g": 1, "base": 3}
    columns = {name: rng.normal(size=(rows, size)) for name, size in sizes.items()}
    if silent:
        columns["g"] = columns["f"][:, 1:]
    pull = Rows({"f": 3.0 * np.eye(2), "slope": rng.normal(size=(2, 2))}, rng.normal(size=2))
    return [Rows(columns, rng.normal(size=rows)), *([] if silent else [pull])]


def dense(groups: list[list[Rows]]) -> tuple[np.ndarray, np.ndarray, list[list[np.ndarray]]]:
    """Return (columns, right side, rows of each part of each group), unknowns of all first."""
    every, right, parts = [], [], []
    for number, rows in enumerate(groups):
        parts.append([])
        for part in rows:
            whole = np.zeros((len(part.right), 5 + 3 * len(groups)))
            at = 5 + 3 * number
            begins = {"slope": 0, "base": 2, "f": at, "g": at + 2}
            for name, columns in part.columns.items():
                whole[:, begins[name] : begins[name] + columns.shape[1]] = columns
            every.append(whole)
            right.append(part.right)
            parts[-1].append(whole)
    return np.vstack(every), np.concatenate(right), parts


@pytest.mark.parametrize("seed", range(count(8, 100)))
@pytest.mark.parametrize("silent", [False, True])
def test_groups_are_one_dense_least_squares_problem(seed: int, silent: bool) -> None:
    rng = np.random.default_rng(seed)
    groups = [group(rng, int(rng.integers(7, 12)), silent and k == 0) for k in range(4)]
    problem, (A, y, parts) = BlockProblem(BLOCKS, groups, OWN), dense(groups)
    solution, inverse = problem.solved(allow_open=True), np.linalg.pinv(A)
    x = inverse @ y
    np.testing.assert_allclose(solution.x, x[:5], rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(solution["base"], x[2:5], rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(solution.rest, np.sum((A @ x - y) ** 2), rtol=1e-8)
    np.testing.assert_allclose(solution.covariance, (inverse @ inverse.T)[:5, :5], rtol=1e-7)
    spread = np.linalg.pinv(A.T @ A)[2:5, 2:5]
    np.testing.assert_allclose(solution.spread("base"), spread, rtol=1e-7)
    for k, (a, B) in enumerate(problem.own):  # least norm where data leave a direction open
        np.testing.assert_allclose(a + B @ solution.x, x[5 + 3 * k : 8 + 3 * k], rtol=1e-7)
    R, z, rest = problem.left_to("base")
    np.testing.assert_allclose(np.linalg.solve(R, z), x[2:5], rtol=1e-8)
    np.testing.assert_allclose(np.linalg.inv(R.T @ R), spread, rtol=1e-7)
    np.testing.assert_allclose(rest, solution.rest, rtol=1e-8)
    a, B = problem.before("base")
    np.testing.assert_allclose(a + B @ solution["base"], solution["slope"], rtol=1e-7, atol=1e-10)
    # errors of data that depend on each other
    roots = [rng.normal(size=(len(rows[0].right), 4)) for rows in groups]
    scores = [part[0].T @ root for part, root in zip(parts, roots)]
    scores += [other.T for part in parts for other in part[1:]]
    expected = np.linalg.pinv(A.T @ A) @ np.hstack(scores)
    np.testing.assert_allclose(
        problem.covariance(roots), (expected @ expected.T)[:5, :5], rtol=1e-7
    )


@pytest.mark.parametrize("seed", range(count(8, 100)))
def test_what_is_known_and_what_stays_open(seed: int) -> None:
    rng = np.random.default_rng(seed)
    mean, root, std = rng.normal(size=3), rng.normal(size=(3, 3)), rng.uniform(0.5, 2.0, size=2)
    X, y = rng.normal(size=(4, 3)), rng.normal(size=4)
    data = Rows({"a": X, "b": np.zeros((4, 2))}, y)
    sizes = {"a": 3, "b": 2, "c": 1}
    known = [Rows.known("a", mean, root), Rows.known("b", 1.0, std), Rows.known("c", 2.0, std[:1])]
    solution = BlockProblem(sizes, [[data, *known]]).solved()
    weight = np.linalg.inv(root @ root.T)
    normal = X.T @ X + weight
    np.testing.assert_allclose(
        solution["a"], np.linalg.solve(normal, X.T @ y + weight @ mean), rtol=1e-8
    )
    np.testing.assert_allclose(solution.spread("a"), np.linalg.inv(normal), rtol=1e-7)
    np.testing.assert_allclose(solution["b"], 1.0, rtol=1e-12)
    np.testing.assert_allclose(solution.spread("b"), np.diag(std**2), rtol=1e-12)
    # without what is known: of one block a combination, nothing of the next, all of the last
    X, y = rng.normal(size=(9, 3)), rng.normal(size=9)
    X[:, 2], c = X[:, 1], rng.normal(size=9)
    problem = BlockProblem(sizes, [[Rows({"a": X, "c": c[:, None]}, y)]])
    seen = problem.solved(allow_open=True)
    assert seen.is_open.tolist() == [False, True, True, True, True, False]
    np.testing.assert_allclose(seen["b"], 0.0)
    assert np.isinf(np.diag(seen.covariance)).tolist() == seen.is_open.tolist()
    used = np.column_stack([X[:, :2], c])  # the third column is the second once more
    best = np.linalg.lstsq(used, y, rcond=None)[0]
    np.testing.assert_allclose(seen.x[[0, 5]], best[[0, 2]], rtol=1e-7)
    np.testing.assert_allclose(
        seen.covariance[np.ix_([0, 5], [0, 5])],
        np.linalg.inv(used.T @ used)[np.ix_([0, 2], [0, 2])],
        rtol=1e-6,
    )
    np.testing.assert_allclose(seen.rest, np.sum((used @ best - y) ** 2), rtol=1e-8)
    R, z, rest = problem.left_to("c")  # what is left where a stays open in part
    projected = c - X @ np.linalg.pinv(X) @ c
    np.testing.assert_allclose(z / R, [[projected @ y / (projected @ projected)]], rtol=1e-7)
    np.testing.assert_allclose(rest, seen.rest, rtol=1e-8)
    alone = problem.only("c").solved()
    np.testing.assert_allclose(alone["c"], c @ y / (c @ c), rtol=1e-9)


@pytest.mark.parametrize("seed", range(count(8, 100)))
def test_bounds_are_met_where_they_bind(seed: int) -> None:
    from scipy.optimize import nnls

    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(12, 4)), rng.normal(size=12)
    found = BlockProblem({"x": 4}, [[Rows({"x": X}, y)]]).bounded(np.ones(4, dtype=bool))
    np.testing.assert_allclose(found, nnls(X, y)[0], rtol=1e-7, atol=1e-9)
