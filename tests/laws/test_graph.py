"""Laws of the expression graph.

What is recorded is what was written, simplified, shared and counted.
"""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import time
import weakref
from operator import neg
from pathlib import Path

import numpy as np
import pytest
from random_programs import ARGUMENTS, Program, close, rebuild, samples
from random_tapes import ARITY

from minidyn.errors import MinidynError, ShapeError, UnknownName, UnknownParameters
from minidyn.graph.derivative import derivatives, jacobian, jvp, tangents
from minidyn.graph.function import evaluate
from minidyn.graph.scalar import Graph, atan2, cos, cos_sin, sign, sin, sqrt


def const(like, value):
    """Return a number as a node where `like` is one."""
    return value if isinstance(like, float) else like.graph.constant(value)


SAME = {
    "x + 0": (lambda a, b, c: a + 0.0, lambda a, b, c: a),
    "0 + x": (lambda a, b, c: 0 + a, lambda a, b, c: a),
    "x - 0": (lambda a, b, c: a - 0.0, lambda a, b, c: a),
    "0 - x": (lambda a, b, c: 0.0 - a, lambda a, b, c: -a),
    "x * 1": (lambda a, b, c: a * 1, lambda a, b, c: a),
    "-1 * x": (lambda a, b, c: -1.0 * a, lambda a, b, c: -a),
    "x * 0": (lambda a, b, c: a * 0.0, lambda a, b, c: const(a, 0.0)),
    "x * -0.0": (lambda a, b, c: a * -0.0, lambda a, b, c: const(a, 0.0)),
    "x - x": (lambda a, b, c: a - a, lambda a, b, c: const(a, 0.0)),
    "-x + x": (lambda a, b, c: -a + a, lambda a, b, c: const(a, 0.0)),
    "x / x": (lambda a, b, c: (2 * a) / a, lambda a, b, c: const(a, 2.0)),
    "0 / x": (lambda a, b, c: 0.0 / a, lambda a, b, c: const(a, 0.0)),
    "x / 1": (lambda a, b, c: a / 1.0, lambda a, b, c: a),
    "x / -4": (lambda a, b, c: a / -4, lambda a, b, c: a * -0.25),
    "-2 / x": (lambda a, b, c: -2.0 / a, lambda a, b, c: -(2.0 / a)),
    "x + x": (lambda a, b, c: a + a, lambda a, b, c: 2 * a),
    "like terms": (lambda a, b, c: 3 * a - 5.0 * a, lambda a, b, c: -2 * a),
    "like terms cancel": (lambda a, b, c: 3 * a - 3.0 * a, lambda a, b, c: const(a, 0.0)),
    "--x": (lambda a, b, c: neg(neg(a)), lambda a, b, c: a),
    "a + b": (lambda a, b, c: a + b, lambda a, b, c: b + a),
    "a * b": (lambda a, b, c: a * b, lambda a, b, c: b * a),
    "a - b": (lambda a, b, c: a - b, lambda a, b, c: -(b - a)),
    "a + -b": (lambda a, b, c: a + (-b), lambda a, b, c: a - b),
    "a - -b": (lambda a, b, c: a - (-b), lambda a, b, c: b + a),
    "-a + b": (lambda a, b, c: -a + b, lambda a, b, c: b - a),
    "-a - b": (lambda a, b, c: -a - b, lambda a, b, c: -(a + b)),
    "-a * b": (lambda a, b, c: -a * b, lambda a, b, c: -(a * b)),
    "-a * -b": (lambda a, b, c: -a * -b, lambda a, b, c: b * a),
    "-a / b": (lambda a, b, c: -a / b, lambda a, b, c: -(a / b)),
    "-a / -b": (lambda a, b, c: -a / -b, lambda a, b, c: a / b),
    "products of differences": (lambda a, b, c: (a - b) * c, lambda a, b, c: -(c * (b - a))),
    "2(3x)": (lambda a, b, c: 2 * (3 * a), lambda a, b, c: a * 6),
    "0.5(2x)": (lambda a, b, c: 0.5 * (2.0 * a), lambda a, b, c: a),
    "-2x and 2x": (lambda a, b, c: -2.0 * a, lambda a, b, c: -(2.0 * a)),
    "(x + 1) + 2": (lambda a, b, c: (a + 1) + 2, lambda a, b, c: a + 3),
    "(x + 1) - 1": (lambda a, b, c: (a + 1) - 1, lambda a, b, c: a),
    "2 - (1 - x)": (lambda a, b, c: 2 - (1 - a), lambda a, b, c: a + 1),
    "1 - x": (lambda a, b, c: 1 - a, lambda a, b, c: -(a - 1)),
    "sin(-x)": (lambda a, b, c: sin(-a), lambda a, b, c: -sin(a)),
    "sin(b - a)": (lambda a, b, c: sin(b - a), lambda a, b, c: -sin(a - b)),
    "cos(-x)": (lambda a, b, c: cos(-a), lambda a, b, c: cos(a)),
    "cos_sin": (lambda a, b, c: cos_sin(a)[0] * cos_sin(a)[1], lambda a, b, c: sin(a) * cos(a)),
    "sign(-2x)": (lambda a, b, c: sign(-2 * a), lambda a, b, c: -sign(a)),
    "sqrt": (lambda a, b, c: sqrt(a - b), lambda a, b, c: sqrt(-(b - a))),
    "atan2": (lambda a, b, c: atan2(a - b, c), lambda a, b, c: atan2(-(b - a), c)),
    "folding": (
        lambda a, b, c: sin(const(a, 0.5)) + sqrt(const(a, 4)) * 2 - 1,
        lambda a, b, c: const(a, float(np.sin(0.5)) + 3.0),
    ),
}

DIFFERENT = {
    "signs": (lambda a, b, c: a - b, lambda a, b, c: b - a),
    "quotients": (lambda a, b, c: a / b, lambda a, b, c: b / a),
    "sqrt of signs": (lambda a, b, c: sqrt(a), lambda a, b, c: sqrt(-a)),
    "atan2 of signs": (lambda a, b, c: atan2(a, b), lambda a, b, c: atan2(a, -b)),
    "atan2 of signs above": (lambda a, b, c: atan2(-a, b), lambda a, b, c: atan2(a, b)),
    "atan2 order": (lambda a, b, c: atan2(a, b), lambda a, b, c: atan2(b, a)),
    "scale and shift": (lambda a, b, c: 2.0 + a, lambda a, b, c: 2.0 * a),
    "sums and scales": (lambda a, b, c: a + b, lambda a, b, c: a + 3.0),
}


@pytest.mark.parametrize("law", SAME)
def test_two_spellings_are_one_node(law):
    left, right = SAME[law]
    q = Graph().inputs("q", 3)
    assert left(*q) is right(*q)
    x = [0.7, -1.9, 0.35]  # and the law is true of numbers
    assert left(*x) == pytest.approx(right(*x), abs=1e-15)


@pytest.mark.parametrize("pair", DIFFERENT)
def test_different_things_stay_different(pair):
    left, right = DIFFERENT[pair]
    q = Graph().inputs("q", 3)
    assert left(*q) is not right(*q)


@pytest.mark.parametrize("seed", range(40))
def test_recording_computes_what_was_written(seed):
    program, inputs = Program(seed), samples(seed, 5)
    function = program.record()
    close(evaluate(function, *inputs), program.direct(inputs))
    arrays = program([column for array in inputs for column in array.T])  # the same lines on arrays
    flat = np.stack([np.broadcast_to(value, 5) for value in arrays], axis=-1)
    close([flat], [np.concatenate([r.reshape(5, -1) for r in program.direct(inputs)], axis=-1)])


@pytest.mark.parametrize("seed", range(10))
def test_tape_is_well_formed_and_has_no_dead_code(seed):
    function = Program(seed).record()
    used = {index for indices in function.outputs for index in indices}
    seen = set()
    for index, step in enumerate(function.tape):
        assert len(step.args) == ARITY[step.op]
        assert all(0 <= operand < index for operand in step.args)
        assert (step.op, step.args, step.value) not in seen, "a step is computed twice"
        seen.add((step.op, step.args, step.value))
        used.update(step.args)
    assert used == set(range(len(function.tape)))
    assert [(a.name, a.size) for a in function.arguments] == list(ARGUMENTS.items())
    assert [r.shape for r in function.results] == [(3, 3), (2,), ()]


def ops(function):
    return [step.op for step in function.tape if step.op not in ("const", "input")]


def test_signs_are_absorbed_where_they_can_be():
    graph = Graph()
    a, b, c = graph.inputs("q", 3)
    free = [b - a, -2.0 * c, (a - c) * -b, -1.5 - b, -(a * 3.0) * c]
    function = graph.function("f", {"y": free})
    assert "neg" not in ops(function)
    x = np.array([0.3, -0.7, 1.1])
    np.testing.assert_allclose(
        evaluate(function, x),
        [x[1] - x[0], -2 * x[2], -(x[0] - x[2]) * x[1], -1.5 - x[1], -3 * x[0] * x[2]],
        rtol=1e-15,
    )
    assert ops(graph.function("f", {"y": sqrt(c - a) + atan2(b - a, a - c)})).count("neg") <= 1
    assert ops(graph.function("f", {"y": [-(a * b), a * b, -(a * b)]})) == ["mul", "neg"]
    both = graph.function("f", {"y": [a - b, b - a]})
    assert ops(both) == ["sub", "neg"]
    np.testing.assert_array_equal(evaluate(both, x), [1.0, -1.0])


def test_counts_are_exact():
    graph = Graph()
    q, p = graph.inputs("q", 2), graph.inputs("phi", 2, uniform=True)
    R = [[[c, -s, 0.0], [s, c, 0.0], [0.0, 0.0, 1.0]] for c, s in map(cos_sin, q)]
    AB = [[sum(R[0][i][k] * R[1][k][j] for k in range(3)) for j in range(3)] for i in range(3)]
    product = graph.function("product", {"R": AB})
    # cc-ss, cs+sc; the other entries are these, their negatives, zeros and a one
    assert product.counts == {"mul": 4, "add": 2, "div": 0, "sqrt": 0, "sincos": 2, "other": 0}
    # p0*p1 depends on parameters alone and is free; 1/q0, sqrt, sign and atan2 count once each
    rest = (
        p[0] * p[1] * q[0]
        + 1.0 / q[0]
        + sqrt(q[1])
        + sign(q[0])
        + atan2(q[0], q[1])
        - sin(q[0] + 0.5)
    )
    counts = graph.function("rest", {"y": rest}).counts
    assert counts == {"mul": 1, "add": 6, "div": 1, "sqrt": 1, "sincos": 1, "other": 2}


def test_unused_arguments_stay_and_results_take_any_nesting():
    graph = Graph()
    q, dq = graph.inputs("q", 2), graph.inputs("dq", 3)
    array = np.array([[q[0], 2.0], [q[1], q[0]]], dtype=object)
    function = graph.function(
        "f", {"a": array, "b": (1, [q[0]][0]), "c": 4, "d": [[]], "e": np.eye(2)}
    )
    assert [a.name for a in function.arguments] == ["q", "dq"]
    assert len(dq) == 3
    assert [r.shape for r in function.results] == [(2, 2), (2,), (), (1, 0), (2, 2)]
    a, b, c, d, e = evaluate(function, [[5.0, 6.0]], np.zeros((4, 3)))
    np.testing.assert_array_equal(a, [[[5, 2], [6, 5]]] * 4)
    np.testing.assert_array_equal(b, [[1, 5]] * 4)
    np.testing.assert_array_equal(c, [4] * 4)
    assert d.shape == (4, 1, 0)
    np.testing.assert_array_equal(e, [np.eye(2)] * 4)


def test_numpy_scalars_and_object_arrays_work_as_operands():
    graph = Graph()
    a, b = graph.inputs("q", 2)
    assert np.float64(2.0) * a is a * 2.0
    assert np.float32(0.5) - a is 0.5 - a
    assert np.array(3) + a is a + 3
    assert np.int64(4) / a is 4 / a
    v = np.array([a, 1.0, b], dtype=object)
    assert list(2.0 * v) == [2 * a, 2.0, 2 * b]
    assert list(a * v) == [a * a, a, a * b]
    assert list(v / a) == [graph.constant(1), 1 / a, b / a]
    assert list(v - a) == [graph.zero, 1 - a, b - a]
    assert list(a - v) == [graph.zero, a - 1, a - b]
    assert v @ v is a * a + 1.0 + b * b
    assert list(a * np.array([0.0, 1.0])) == [graph.zero, a]


def test_the_same_recording_gives_the_same_text_in_every_process():
    code = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from random_programs import Program\n"
        "from minidyn.graph.targets.c import c_source\n"
        "from minidyn.graph.derivative import jacobian\n"
        "f = Program(3).record(); g = jacobian(f, 'q')\n"
        "sys.stdout.write(f.fingerprint + g.fingerprint + str(g.counts) + c_source(g)[1])\n"
    )
    texts = []
    for seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        here = str(Path(__file__).parent)
        done = subprocess.run(
            [sys.executable, "-c", code, here],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
        texts.append(done.stdout)
    assert texts[0] == texts[1]
    assert Program(3).record().fingerprint == texts[0][:16]


def test_recording_is_fast_and_leaves_no_garbage():
    def chain(graph, links):
        q = graph.inputs("q", links)
        R = np.eye(3).tolist()
        for angle in q:
            c, s = cos_sin(angle)
            step = [[c, -s, 0.0], [0.0, 0.0, -1.0], [s, c, 0.0]]
            R = [[R[i][0] * step[0][j] + R[i][1] * step[1][j] + R[i][2] * step[2][j] for j in range(3)]  # noqa: E501
                 for i in range(3)]  # fmt: skip
        return R

    times = []
    for _ in range(3):
        start = time.perf_counter()
        graph = Graph()
        chain(graph, 400)  # 18,000 operator calls
        times.append(time.perf_counter() - start)
    assert min(times) < 0.2
    alive = weakref.ref(graph)
    del graph
    gc.collect()
    assert alive() is None


def test_wrong_use_is_refused():
    graph = Graph()
    a = graph.inputs("q", 1)[0]
    other = Graph().inputs("q", 1)[0]
    for wrong in (lambda: a + other, lambda: a * other, lambda: a / other, lambda: atan2(a, other)):
        with pytest.raises(MinidynError, match="two graphs"):
            wrong()
    with pytest.raises(MinidynError, match="two graphs"):
        graph.function("f", {"y": [other]})
    for value in (np.nan, np.inf):
        with pytest.raises(UnknownParameters, match="finite"):
            graph.constant(value)
        with pytest.raises(UnknownParameters, match="finite"):
            a * value
        with pytest.raises(UnknownParameters, match="finite"):
            a + value
    with pytest.raises(ZeroDivisionError):
        a / 0.0
    with pytest.raises(ShapeError, match="rows differ"):
        graph.function("f", {"y": [[a], [a, a]]})
    with pytest.raises(ShapeError, match="'y'"):
        graph.function("f", {"y": ["a"]})
    with pytest.raises(TypeError):
        a + "1"
    function = graph.function("f", {"y": a})
    with pytest.raises(ShapeError, match=r"q has shape \(2,\), expected \(..., 1\)"):
        evaluate(function, [1.0, 2.0])
    with pytest.raises(ShapeError, match="takes 1 arrays"):
        evaluate(function)
    with pytest.raises(UnknownName, match="'p'; known: q"):
        jacobian(function, "p")


def test_extreme_constants_do_not_vanish():
    graph = Graph()
    a = graph.inputs("q", 1)[0]
    tiny = 1e-200 * (1e-200 * a)
    function = graph.function("f", {"y": [tiny, a / 5e-324, -1e300 * (1e300 * a)]})
    np.testing.assert_array_equal(evaluate(function, [1e150]), [1e-250, np.inf, -np.inf])


@pytest.mark.parametrize("seed", range(8))
def test_rebuilding_keeps_values_and_rewriting_changes_them(seed):
    function, inputs = Program(seed).record(), samples(seed, 4)
    again = rebuild(function)
    close(evaluate(again, *inputs), evaluate(function, *inputs))
    assert sum(again.counts.values()) <= sum(function.counts.values())
    assert (again.name, again.arguments, again.results) == (
        function.name,
        function.arguments,
        function.results,
    )
    assert ops(rebuild(function, lambda op, operands: 1.0)) == []
    no_div = rebuild(function, lambda op, ab: ab[0] * (1 / ab[1]) if op == "div" else None)
    close(evaluate(no_div, *inputs), evaluate(function, *inputs))


@pytest.mark.parametrize("seed", range(12))
def test_derivatives_agree_with_the_complex_step(seed):
    function, inputs = Program(seed, smooth=True).record(), samples(seed, 3)
    directions = [np.random.default_rng(seed).normal(size=array.shape) for array in inputs]
    total = [0.0] * 3
    for argument, (name, size) in enumerate(ARGUMENTS.items()):
        recorded = evaluate(jacobian(function, name), *inputs)
        for k in range(size):
            moved = [array.astype(complex) for array in inputs]
            moved[argument][:, k] += 1e-30j
            step = [array.imag / 1e-30 for array in evaluate(function, *moved)]
            close([array[..., k] for array in recorded], step, 1e-11)
        for index, array in enumerate(recorded):
            along = directions[argument].reshape(3, *[1] * (array.ndim - 2), size)
            total[index] = total[index] + (array * along).sum(axis=-1)
    close(evaluate(jvp(function, list(ARGUMENTS)), *inputs, *directions), total, 1e-11)


def test_derivatives_of_sign_angle_and_root():
    graph = Graph()
    x, y = graph.inputs("q", 2)
    rows = derivatives([sign(x) * y, atan2(y, -x), sqrt(-x), x / y, 3.0, -x], [x, y])
    function = graph.function("f", {"J": rows})
    at = np.array([-0.8, 0.6])
    expected = [
        [0, -1],
        [0.6, 0.8],
        [-0.5 / np.sqrt(0.8), 0],
        [1 / 0.6, 0.8 / 0.36],
        [0, 0],
        [-1, 0],
    ]
    np.testing.assert_allclose(evaluate(function, at), expected, rtol=1e-14)


def test_time_derivatives_inside_one_graph():
    graph = Graph()
    q, dq = graph.inputs("q", 1)[0], graph.inputs("dq", 1)[0]
    assert tangents([sin(-q), q * q, 2.0, -q], {q: dq}) == [
        -(cos(q) * dq),
        2.0 * (q * dq),
        0.0,
        -dq,
    ]
    angle = q + 0.5  # an expression may be the independent variable
    assert derivatives([sin(angle) * q], [angle]) == [[cos(angle) * q]]
    assert tangents([q - 1.0], {-q: dq}) == [-dq]


def test_derivatives_are_simplified():
    graph = Graph()
    q, dq = graph.inputs("q", 2), graph.inputs("dq", 2)
    function = graph.function("f", {"y": [3.0 * q[0] - q[1], q[0] * dq[0]], "e": dq[1]})
    jac = jacobian(function, "q")
    assert [(r.name, r.shape) for r in jac.results] == [("dy_dq", (2, 2)), ("de_dq", (2,))]
    assert sum(jac.counts.values()) == 0
    y, e = evaluate(jac, [0.1, 0.2], [5.0, 6.0])
    np.testing.assert_array_equal(y, [[3, -1], [5, 0]])
    np.testing.assert_array_equal(e, [0, 0])
