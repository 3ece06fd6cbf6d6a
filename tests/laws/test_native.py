"""Machine code against a plain NumPy evaluation of the same tape, for every layout a caller may have."""

from __future__ import annotations

import gc
import os
import platform
import random
import subprocess
import sys
import tracemalloc

import numpy as np
import pytest

from minidyn.errors import ShapeError
from minidyn.graph.function import ARITY, Argument, Function, Instruction, Result
from minidyn.graph.targets.native import NativeFunction, compile_function
from minidyn.graph.targets.native import host as host_module
from minidyn.graph.targets.native import sincos as sincos_module

WIDTHS = [1, 2, 4, 8]


def random_function(
    seed: int,
    sizes: tuple[int, ...] = (6, 3),
    uniform: tuple[int, ...] = (),
    shapes: tuple[tuple[int, ...], ...] = ((2, 5),),
    steps: int = 120,
) -> Function:
    """A random program whose values stay of order one; some outputs are constants, some inputs."""
    pick = random.Random(seed)  # noqa: S311
    arguments = tuple(Argument(f"x{k}", size) for k, size in enumerate(sizes))
    arguments += tuple(Argument(f"p{k}", size, uniform=True) for k, size in enumerate(uniform))
    tape = [Instruction("input", (), (k, e)) for k, arg in enumerate(arguments) for e in range(arg.size)]
    tape += [Instruction("const", (), value) for value in (0.5, -1.25, 0.0, 3.0)]
    names = ["add", "sub", "mul", "neg", "sin", "cos", "div", "sqrt", "sign", "atan2"]
    weights = [6, 6, 8, 2, 2, 2, 1, 1, 1, 1]
    half = Instruction("const", (), 2.5)
    while len(tape) < steps:
        op = pick.choices(names, weights)[0]
        args = tuple(pick.randrange(len(tape)) for _ in range(ARITY[op]))
        if op in ("div", "sqrt"):  # keep away from singular points: divide by 2.5 + sin(a), root of the same
            tape += [half, Instruction("sin", (args[-1],))]
            tape.append(Instruction("add", (len(tape) - 2, len(tape) - 1)))
            args = (*args[:-1], len(tape) - 1)
        elif op == "mul":  # bound the growth
            tape.append(Instruction("cos", (args[1],)))
            args = (args[0], len(tape) - 1)
        tape.append(Instruction(op, args))
    results = tuple(Result(f"y{k}", shape) for k, shape in enumerate(shapes))
    outputs = tuple(tuple(pick.randrange(len(tape)) for _ in range(result.size)) for result in results)
    return Function(f"random{seed}", arguments, results, tuple(tape), outputs)


def evaluate(function: Function, *arrays: np.ndarray) -> tuple[np.ndarray, ...]:
    """The tape in NumPy, one step after the other."""
    batch = np.broadcast_shapes(
        *(array.shape[:-1] for array, arg in zip(arrays, function.arguments) if not arg.uniform)
    )
    unary = {"neg": np.negative, "sqrt": np.sqrt, "sin": np.sin, "cos": np.cos, "sign": np.sign}
    binary = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "atan2": np.arctan2}
    values: list[np.ndarray] = []
    with np.errstate(all="ignore"):
        for step in function.tape:
            if step.op == "const":
                values.append(np.asarray(step.value, dtype=float))
            elif step.op == "input":
                assert isinstance(step.value, tuple)
                values.append(np.asarray(arrays[step.value[0]][..., step.value[1]], dtype=float))
            elif step.op in unary:
                values.append(unary[step.op](values[step.args[0]]))
            else:
                values.append(binary[step.op](values[step.args[0]], values[step.args[1]]))
    found = []
    for result, outputs in zip(function.results, function.outputs):
        columns = [np.broadcast_to(values[index], batch) for index in outputs]
        stacked = np.stack(columns, axis=-1) if columns else np.empty((*batch, 0))
        found.append(stacked.reshape((*batch, *result.shape)))
    return tuple(found)


def close(got: object, expected: object, tolerance: float = 1e-13) -> None:
    np.testing.assert_allclose(got, expected, rtol=tolerance, atol=tolerance)


@pytest.fixture(scope="module")
def plain() -> tuple[Function, NativeFunction]:
    function = random_function(1)
    return function, compile_function(function)


def samples(function: Function, *batch: int, seed: int = 0) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [rng.normal(size=(arg.size,) if arg.uniform else (*batch, arg.size)) for arg in function.arguments]


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("seed", range(6))
def test_random_programs(seed: int, width: int) -> None:
    shapes = [((2, 5),), ((), (3,)), ((17,),), ((4, 4), (1,), (9,)), ((8, 3),), ((31,),)][seed]
    function = random_function(seed, ((6, 3), (1,), (8, 2, 5), (9,), (16, 7), (3, 3))[seed], (), shapes, 150)
    native = compile_function(function, width=width)
    arrays = samples(function, 43)
    expected = evaluate(function, *arrays)
    got = native(*arrays)
    assert isinstance(got, tuple) == (len(shapes) > 1)
    for mine, theirs in zip(got if isinstance(got, tuple) else (got,), expected):
        assert mine.shape == theirs.shape
        close(mine, theirs)


@pytest.mark.parametrize("width", WIDTHS)
def test_batch_lengths(width: int) -> None:
    function = random_function(1)
    native = compile_function(function, width=width)
    for count in (0, 1, 2, 7, 8, 9, 63, 64, 65, 1000):
        arrays = samples(function, count)
        got = native(*arrays)
        assert got.shape == (count, 2, 5)
        close(got, evaluate(function, *arrays)[0])
        assert np.array_equal(native.general(*arrays), got)


@pytest.mark.parametrize("batch", [(), (1,), (3, 4), (2, 3, 5), (2, 0, 3), (0,), (1, 1, 1, 9)])
def test_leading_shapes(plain: tuple[Function, NativeFunction], batch: tuple[int, ...]) -> None:
    function, native = plain
    arrays = samples(function, *batch)
    got = native(*arrays)
    assert got.shape == (*batch, 2, 5)
    close(got, evaluate(function, *arrays)[0])


@pytest.mark.parametrize(
    ("first", "second"),
    [((), (5,)), ((5,), ()), ((4, 1), (1, 3)), ((7, 2), (2,)), ((1,), (9,)), ((3, 1), (0,))],
)
def test_broadcasting(plain: tuple[Function, NativeFunction], first: tuple[int, ...], second: tuple[int, ...]) -> None:
    function, native = plain
    rng = np.random.default_rng(5)
    arrays = [rng.normal(size=(*first, 6)), rng.normal(size=(*second, 3))]
    close(native(*arrays), evaluate(function, *arrays)[0])


def layouts(array: np.ndarray) -> dict[str, np.ndarray]:
    count, size = array.shape
    wide = np.zeros((2 * count, 3 * size))
    wide[::2, ::3] = array
    raw = np.zeros(array.nbytes + 3, dtype=np.uint8)
    odd = raw[3:].view(np.float64).reshape(count, size)
    odd[...] = array
    frozen = array.copy()
    frozen.flags.writeable = False
    return {
        "fortran": np.asfortranarray(array),
        "strided": wide[::2, ::3],
        "rows apart": np.ascontiguousarray(np.repeat(array, 2, axis=0))[::2],
        "reversed samples": np.ascontiguousarray(array[::-1])[::-1],
        "reversed scalars": np.ascontiguousarray(array[:, ::-1])[:, ::-1],
        "not aligned": odd,
        "read-only": frozen,
        "byte-swapped": array.astype(array.dtype.newbyteorder()),
        "longdouble": array.astype(np.longdouble),
    }


@pytest.mark.parametrize("width", [2, 8])
def test_memory_layouts(width: int) -> None:
    function = random_function(1)
    native = compile_function(function, width=width)
    for count in (1, 8, 21):
        first, second = samples(function, count)
        expected = native(first, second)
        close(expected, evaluate(function, first, second)[0])
        for name, array in layouts(first).items():
            assert np.array_equal(native(array, second), expected), name


def test_other_dtypes_and_lists(plain: tuple[Function, NativeFunction]) -> None:
    function, native = plain
    whole = np.arange(12).reshape(2, 6)
    half = np.linspace(0, 1, 6, dtype=np.float32).reshape(2, 3)
    expected = evaluate(function, whole.astype(float), half.astype(float))[0]
    close(native(whole, half), expected)
    close(native(whole.tolist(), half.tolist()), expected)
    close(native(whole.astype(bool), half), evaluate(function, whole.astype(bool), half.astype(float))[0])
    close(native(whole[0], half[0]), expected[0])


@pytest.mark.parametrize("count", [1, 8, 50])
def test_out_layouts(plain: tuple[Function, NativeFunction], count: int) -> None:
    function, native = plain
    arrays = samples(function, count)
    expected = native(*arrays)
    targets = {
        "contiguous": np.empty((count, 2, 5)),
        "fortran": np.empty((count, 2, 5), order="F"),
        "every second": np.empty((2 * count, 2, 5))[::2],
        "reversed": np.empty((count, 2, 5))[::-1],
        "transposed": np.empty((5, 2, count)).transpose(2, 1, 0),
        "inner gap": np.empty((count, 2, 9))[:, :, :5],
        "not aligned": np.zeros(80 * count + 1, np.uint8)[1:].view(np.float64).reshape(count, 2, 5),
    }
    for name, out in targets.items():
        for call in (native, native.general):
            out[...] = np.nan
            assert call(*arrays, out=out) is out
            assert np.array_equal(out, expected), name
    assert np.array_equal(native(*arrays, out=None), expected)


def test_out_leaves_the_gaps_alone(plain: tuple[Function, NativeFunction]) -> None:
    function, native = plain
    whole = np.full((41, 2, 5), 7.25)
    native(*samples(function, 20), out=whole[1::2])
    assert np.all(whole[::2] == 7.25)


def test_out_of_one_sample_and_of_several_results() -> None:
    function = random_function(3, (6,), (), ((2, 2), ()))
    native = compile_function(function)
    for batch in ((), (11,), (2, 3)):
        arrays = samples(function, *batch)
        out = (np.empty((*batch, 2, 2)), np.empty(batch))
        got = native(*arrays, out=out)
        assert got[0] is out[0]
        assert got[1] is out[1]
        for mine, theirs in zip(out, evaluate(function, *arrays)):
            close(mine, theirs)
    strided = np.empty((4, 4))[::2, ::2]
    arrays = samples(function)
    native(*arrays, out=(strided, np.empty(())))
    close(strided, evaluate(function, *arrays)[0])


def test_overlapping_memory() -> None:
    function = random_function(2, (6,), (), ((6,),))
    native = compile_function(function)
    for count in (5, 64, 203):
        data = np.random.default_rng(1).normal(size=(count + 1, 6))
        expected = native(data[:-1].copy())
        for shift in (0, 1):
            work = data.copy()
            native(work[:-1], out=work[shift : count + shift])
            assert np.array_equal(work[shift : count + shift], expected)
        work = data[:-1].copy()
        native(work, out=work[::-1])
        assert np.array_equal(work[::-1], expected)


def test_nan_and_infinity_stay_in_their_sample(plain: tuple[Function, NativeFunction]) -> None:
    function, native = plain
    arrays = samples(function, 37)
    clean = native(*arrays)
    for bad in (np.nan, np.inf, -np.inf):
        for row in (0, 3, 8, 31, 36):
            spoiled = [array.copy() for array in arrays]
            spoiled[0][row] = bad
            got = native(*spoiled)
            others = np.arange(37) != row
            assert np.array_equal(got[others], clean[others])
            expected = evaluate(function, *spoiled)[0][row]
            assert np.array_equal(np.isnan(got[row]), np.isnan(expected))
            assert np.isnan(expected).any()


def test_sign_keeps_nan() -> None:
    tape = (Instruction("input", (), (0, 0)), Instruction("sign", (0,)))
    native = compile_function(Function("s", (Argument("x", 1),), (Result("y", ()),), tape, ((1,),)))
    x = np.array([-2.0, -0.0, 0.0, 5e-324, np.inf, -np.inf, np.nan, 3.0, -5e-324])
    assert np.array_equal(native(x[:, None]), np.sign(x), equal_nan=True)
    assert np.array_equal([native.fast(np.array([v])) for v in x], np.sign(x), equal_nan=True)


@pytest.mark.parametrize("width", WIDTHS)
def test_uniform_arguments(width: int) -> None:
    function = random_function(4, (5,), (4,), ((13,), (2,)), 200)
    assert any(function.tape[k].op not in ("const", "input") for k in function.uniform_steps)
    native = compile_function(function, width=width)
    for batch in ((), (1,), (30,), (4, 5)):
        arrays = samples(function, *batch)
        for mine, theirs in zip(native(*arrays), evaluate(function, *arrays)):
            close(mine, theirs)
        arrays[1] = np.repeat(arrays[1], 2)[::2]
        for mine, theirs in zip(native(*arrays), evaluate(function, *arrays)):
            close(mine, theirs)
    for mine, theirs in zip(native.fast(*samples(function)), evaluate(function, *samples(function))):
        close(mine, theirs)


def test_only_uniform_and_constant_outputs() -> None:
    tape = (
        Instruction("input", (), (0, 1)),
        Instruction("input", (), (1, 0)),
        Instruction("sin", (1,)),
        Instruction("const", (), 4.0),
    )
    function = Function("u", (Argument("x", 2), Argument("p", 1, True)), (Result("y", (4,)),), tape, ((3, 2, 0, 1),))
    native = compile_function(function)
    x, p = np.arange(40.0).reshape(20, 2), np.array([0.3])
    expected = np.stack([np.full(20, 4.0), np.full(20, np.sin(0.3)), x[:, 1], np.full(20, 0.3)], 1)
    close(native(x, p), expected)
    close(native.fast(x[3].copy(), p), expected[3])


def test_empty_arguments_and_results() -> None:
    tape = (Instruction("const", (), 2.0),)
    function = Function("e", (Argument("x", 0),), (Result("y", (0, 3)), Result("z", (2,))), tape, ((), (0, 0)))
    native = compile_function(function)
    for batch in ((), (9,), (2, 2), (0,)):
        y, z = native(np.empty((*batch, 0)))
        assert y.shape == (*batch, 0, 3)
        assert np.array_equal(z, np.full((*batch, 2), 2.0))
    assert np.array_equal(native.fast(np.empty(0))[1], [2.0, 2.0])


@pytest.mark.parametrize("threads", [2, 3, 7])
def test_threads_change_nothing(threads: int) -> None:
    function = random_function(6, (6, 3), (2,), ((6, 6),), 400)
    native = compile_function(function)
    arrays = samples(function, 40_003)
    assert 40_003 * len(function.tape) > 4_000_000 * 2  # large enough to be split
    one = native(*arrays)
    assert np.array_equal(native(*arrays, threads=threads), one)
    assert np.array_equal(native(*arrays, threads=np.int64(threads)), one)
    fortran = np.empty(one.shape, order="F")
    native(*arrays, out=fortran, threads=threads)
    assert np.array_equal(fortran, one)


def test_threads_from_many_callers() -> None:
    from concurrent.futures import ThreadPoolExecutor

    function = random_function(7, (6, 3), (), ((6, 6),), 200)
    native = compile_function(function)
    batches = [samples(function, 900 + k, seed=k) for k in range(16)]
    expected = [native(*arrays) for arrays in batches]
    with ThreadPoolExecutor(4) as pool:
        for _ in range(5):
            for mine, theirs in zip(pool.map(lambda arrays: native(*arrays), batches), expected):
                assert np.array_equal(mine, theirs)


def test_position_in_a_batch_does_not_matter(plain: tuple[Function, NativeFunction]) -> None:
    function, native = plain
    arrays = samples(function, 23)
    whole = native(*arrays)
    for begin, end in ((0, 1), (3, 4), (5, 17), (22, 23)):
        assert np.array_equal(native(*(array[begin:end] for array in arrays)), whole[begin:end])


def test_same_function_is_compiled_once() -> None:
    assert compile_function(random_function(1)) is compile_function(random_function(1))
    assert compile_function(random_function(1), width=2) is not compile_function(random_function(1), width=4)
    assert "define i32 @rows" in compile_function(random_function(1)).llvm_ir
    with pytest.raises(ValueError, match="width"):
        compile_function(random_function(1), width=3)


def test_fast_equals_general(plain: tuple[Function, NativeFunction]) -> None:
    function, native = plain
    q, p = samples(function)
    expected = native(q, p)
    got = native.fast(q, p)
    assert type(got) is np.ndarray
    assert got.shape == (2, 5)
    assert got.dtype == np.float64
    assert got.flags.owndata
    assert np.array_equal(got, expected)
    close(got, evaluate(function, q, p)[0])
    # everything that is not a plain vector takes the general way with the same outcome
    assert np.array_equal(native.fast(q.tolist(), p), expected)
    assert np.array_equal(native.fast(np.repeat(q, 2)[::2], p), expected)
    assert np.array_equal(native.fast(q[None], p)[0], native(q[None], p)[0])
    out = np.empty((2, 5))
    assert native.fast(q, p, out=out) is out
    assert np.array_equal(out, expected)
    close(native.fast(q.astype(np.float32), p), evaluate(function, q.astype(np.float32).astype(float), p)[0])
    assert np.array_equal(native.fast(q.astype(">f8"), p), expected)
    odd = np.zeros(49, np.uint8)[1:].view(np.float64)
    odd[...] = q
    assert np.array_equal(native.fast(odd, p), expected)


@pytest.mark.parametrize("batch", [(), (3,)])
@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize("given", [False, True])
def test_the_builtin_does_not_leak(batch: tuple[int, ...], several: bool, given: bool) -> None:
    function = random_function(3, (6,), (), ((2, 2), ()) if several else ((2, 2),))
    native = compile_function(function)
    q = np.linspace(0, 1, 6) + np.zeros((*batch, 1))
    keywords = {"out": native(q)} if given and not several else {}
    kept = [q, np.ndarray, q.dtype, None, native, *keywords.values()]
    native(q, **keywords)
    tracemalloc.start()
    for _ in range(100):
        native(q, **keywords)
    gc.collect()
    before = [sys.getrefcount(item) for item in kept]
    start = tracemalloc.get_traced_memory()[0]
    for _ in range(15_000):
        native(q, **keywords)
    gc.collect()
    grown = tracemalloc.get_traced_memory()[0] - start
    tracemalloc.stop()
    after = [sys.getrefcount(item) for item in kept]
    assert grown < 10_000
    assert max(abs(a - b) for a, b in zip(before, after)) < 100


def test_builtin_takes_plain_arrays_only_when_code_is_ready() -> None:
    function = random_function(12, (4,), (3,), ((3,),))
    native = compile_function(function)
    arrays = samples(function, 10)
    assert np.array_equal(native(*arrays), native(*arrays))  # compiled by the first, taken by the second
    assert np.array_equal(native(arrays[0][0].copy(), arrays[1]), native.general(arrays[0][0].copy(), arrays[1]))
    close(native(*arrays), evaluate(function, *arrays)[0])
    assert native.fast(np.empty((0, 4)), arrays[1]).shape == (0, 3)
    for bad in (np.zeros((10, 3)), np.zeros(2)):  # the uniform argument has one axis, and its length
        with pytest.raises(ShapeError, match="p0"):
            native(arrays[0], bad)


def test_a_subclass_of_arrays_is_not_taken_for_one(plain: tuple[Function, NativeFunction]) -> None:
    function, native = plain

    class Mine(np.ndarray):
        pass

    q, p = samples(function, 5)
    got = native(q.view(Mine), p)
    assert type(got) is np.ndarray
    assert np.array_equal(got, native(q, p))


@pytest.mark.parametrize("call", ["general", "fast", "__call__"])
def test_errors_say_what_is_wrong(plain: tuple[Function, NativeFunction], call: str) -> None:
    function, native = plain
    run = native if call == "__call__" else getattr(native, call)
    q, p = samples(function, 4)
    native(q, p)
    native(q[0], p[0])
    with pytest.raises(ShapeError, match=r"broadcast.*x0 \(4, 6\), x1 \(5, 3\)"):
        run(q, np.zeros((5, 3)))
    with pytest.raises(ShapeError, match=r"out for y0 is float64 of shape \(3, 2, 5\), expected float64 \(4, 2, 5\)"):
        run(q, p, out=np.empty((3, 2, 5)))
    with pytest.raises(ShapeError, match=r"random1: x0 has shape \(4, 5\), expected \(\.\.\., 6\)"):
        run(q[:, :5], p)
    with pytest.raises(ShapeError, match=r"x1 has shape \(\), expected"):
        run(q, 1.0)
    with pytest.raises(ShapeError, match=r"x0 has shape \(7,\)"):
        run(np.zeros(7), np.zeros(3))
    with pytest.raises(ShapeError, match=r"broadcast.*x0 \(4, 6\), x1 \(3, 3\)"):
        run(q, p[:3])
    for bad in (q + 1j, q.astype(object), q.astype(str), None, "text", {}, [[1.0], [1.0, 2.0]]):
        with pytest.raises((ShapeError, TypeError), match="x0"):
            run(bad, p)
    for wrong in ((), (q,), (q, p, p)):
        with pytest.raises(TypeError, match="expected 2: x0, x1"):
            run(*wrong)
    with pytest.raises(TypeError):
        run(q, p, other=1)
    for threads in (0, -1, 1.5):
        with pytest.raises(ValueError, match="threads"):
            run(q, p, threads=threads)
    read_only = np.empty((4, 2, 5))
    read_only.flags.writeable = False
    bad_outs = [np.empty((4, 10)), np.empty((4, 2, 5), np.float32), [[0.0]], read_only, (), (None,)]
    for out in bad_outs:
        with pytest.raises(ShapeError, match="out"):
            run(q, p, out=out)


def test_uniform_argument_has_no_batch_axes() -> None:
    function = random_function(4, (5,), (4,), ((13,), (2,)), 200)
    with pytest.raises(ShapeError, match=r"p0 has shape \(3, 4\), expected \(4,\)"):
        compile_function(function)(np.zeros((3, 5)), np.zeros((3, 4)))


def test_tile_computes_packed_blocks() -> None:
    function = random_function(1)
    native = compile_function(function)
    width, blocks = native.width, 5
    arrays = samples(function, blocks * width)
    packed = [aligned(blocks, array.shape[1], width) for array in arrays]
    for block, array in zip(packed, arrays):
        block[...] = array.reshape(blocks, width, -1).transpose(0, 2, 1)
    out = aligned(blocks, 10, width)
    native.tile(packed, [out])
    assert np.array_equal(out.transpose(0, 2, 1).reshape(-1, 2, 5), native(*arrays))


def aligned(*shape: int) -> np.ndarray:
    size = int(np.prod(shape))
    raw = np.zeros(size + 8)
    start = (-raw.ctypes.data // 8) % 8
    return raw[start : start + size].reshape(shape)


@pytest.mark.parametrize("width", [1, 4, 8])
def test_results_larger_than_the_caches(width: int) -> None:
    """These are written past the caches; whatever the alignment, every number must arrive, and nothing else."""
    function = random_function(9, (3,), (), ((5, 7),), 80)
    native = compile_function(function, width=width)
    count = (33 << 20) // (8 * 35) + 3
    (x,) = samples(function, count)
    expected = np.concatenate([native(x[k : k + 30_000]) for k in range(0, count, 30_000)])
    room = np.full(count * 35 + 16, 7.25)
    for shift in (0, 3):
        out = room[shift + 1 : shift + 1 + count * 35].reshape(count, 5, 7)
        native(x, out=out)
        assert np.array_equal(out, expected)
        assert np.all(room[: shift + 1] == 7.25)
        assert np.all(room[shift + 1 + count * 35 :] == 7.25)
        room[...] = 7.25
    native(x, out=room[: count * 35].reshape(count, 5, 7), threads=2)
    assert np.array_equal(room[: count * 35].reshape(count, 5, 7), expected)


def test_work_space_too_large_for_the_stack() -> None:
    function = random_function(10, (40,), (), ((40, 40),), 300)
    native = compile_function(function)
    for count in (1, 8, 21):
        arrays = samples(function, count)
        close(native(*arrays), evaluate(function, *arrays)[0])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_threads_after_a_fork() -> None:
    """A child process has none of its parent's threads; it must start its own instead of waiting for them."""
    code = """
import os, sys
sys.path.insert(0, sys.argv[1])
from test_native import compile_function, np, random_function, samples
function = random_function(6, (6, 3), (2,), ((6, 6),), 400)
native = compile_function(function)
arrays = samples(function, 40_003)
one = native(*arrays, threads=2)
child = os.fork()
if child == 0:
    os._exit(0 if np.array_equal(native(*arrays, threads=2), one) else 1)
sys.exit(os.waitpid(child, 0)[1])
"""
    here = os.path.dirname(os.path.abspath(__file__))
    subprocess.run([sys.executable, "-c", code, here], check=True, timeout=60)


@pytest.mark.skipif(platform.machine().lower() not in ("x86_64", "amd64"), reason="names of x86 processors")
@pytest.mark.parametrize(
    ("cpu", "width", "fused"), [("x86-64", 2, False), ("haswell", 4, True), ("skylake-avx512", 8, True)]
)
def test_code_for_other_processors(cpu: str, width: int, fused: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The code for an older or other processor is right too, as far as this one can run it."""
    mine = host_module.host()
    if width > mine.width or (fused and not mine.fused):
        pytest.skip("this machine cannot run it")
    other = host_module.Host(mine.triple, cpu, "", width, fused)
    monkeypatch.setattr(host_module, "host", lambda: other)
    monkeypatch.setattr(sincos_module, "host", lambda: other)
    function = random_function(11, (6, 3), (2,), ((6, 6), (2,)))
    native = NativeFunction(function, width)
    for batch in ((), (43,)):
        arrays = samples(function, *batch)
        arrays[0][..., 0] *= 1e6  # beyond the vector sine
        for mine_, theirs in zip(native(*arrays), evaluate(function, *arrays)):
            close(mine_, theirs, 1e-9)


def test_builtins_outlive_what_made_them() -> None:
    function = random_function(13, (6,), (), ((5,),))
    native = NativeFunction(function, 8)
    x = np.linspace(0, 1, 6)
    expected = native(x)
    fast = native.fast
    del native
    gc.collect()
    assert np.array_equal(fast(x), expected)
    close(fast(x[None]), evaluate(function, x[None])[0])
    del fast
    gc.collect()


def test_any_arguments_are_answered_or_refused(plain: tuple[Function, NativeFunction]) -> None:
    """Anything at all: a right answer or one of two errors, never a crash."""
    function, native = plain
    pick = random.Random(0)  # noqa: S311
    first, second = samples(function, 4)
    things = [
        *(first, second, first[0], second[0], first[None], first[:0], first.T, np.asfortranarray(first)),
        *(first.astype(np.float32), first.astype(">f8"), first + 1j, np.zeros((4, 6), dtype=object)),
        *(
            np.zeros(()),
            np.zeros((4, 0)),
            np.zeros((0, 3)),
            np.float64(1),
            1,
            None,
            "x",
            b"y",
            [],
            {},
            object,
            first.tolist(),
        ),
        *(np.ma.masked_array(second), np.recarray((4,), dtype=[("a", float)]), np.zeros((1,) * 20 + (3,))),
        *(np.datetime64("2020-01-01"), np.zeros((4, 3), dtype="m8[s]"), range(6), iter([1]), Ellipsis, native),
    ]
    answered = 0
    for _ in range(4000):
        args = [pick.choice(things) for _ in range(pick.choice([2, 2, 2, 2, 0, 1, 3]))]
        keywords = {} if pick.random() < 0.6 else {pick.choice(["out", "threads", "z"]): pick.choice(things)}
        try:
            got = native(*args, **keywords)
        except (ShapeError, TypeError, ValueError):
            continue
        answered += 1
        assert got.shape[-2:] == (2, 5)
    assert answered > 20
