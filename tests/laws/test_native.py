"""Machine code against a plain NumPy evaluation of the same tape, for every layout a caller may
have.
"""

from __future__ import annotations

import multiprocessing
import os
import platform
import signal
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor

import numpy as np
import pytest
from random_tapes import close, evaluate, random_function, samples

import minidyn as md
from conftest import LONG
from minidyn.errors import ShapeError
from minidyn.graph.function import Argument, Function, Instruction, Result
from minidyn.graph.targets.native import host as host_module
from minidyn.graph.targets.native.kernel import NativeFunction, compile_function

WIDTHS = [1, 2, 4, 8]


@pytest.fixture(scope="module")
def plain() -> tuple[Function, NativeFunction]:
    function = random_function(1)
    return function, compile_function(function)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("seed", range(6))
def test_random_programs(seed: int, width: int) -> None:
    shapes = [((2, 5),), ((), (3,)), ((17,),), ((4, 4), (1,), (9,)), ((8, 3),), ((31,),)][seed]
    function = random_function(
        seed, ((6, 3), (1,), (8, 2, 5), (9,), (16, 7), (3, 3))[seed], (), shapes, 150
    )
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
def test_broadcasting(
    plain: tuple[Function, NativeFunction], first: tuple[int, ...], second: tuple[int, ...]
) -> None:
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
    close(
        native(whole.astype(bool), half),
        evaluate(function, whole.astype(bool), half.astype(float))[0],
    )
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
    for mine, theirs in zip(
        native.fast(*samples(function)), evaluate(function, *samples(function))
    ):
        close(mine, theirs)


def test_only_uniform_and_constant_outputs() -> None:
    tape = (
        Instruction("input", (), (0, 1)),
        Instruction("input", (), (1, 0)),
        Instruction("sin", (1,)),
        Instruction("const", (), 4.0),
    )
    function = Function(
        "u", (Argument("x", 2), Argument("p", 1, True)), (Result("y", (4,)),), tape, ((3, 2, 0, 1),)
    )
    native = compile_function(function)
    x, p = np.arange(40.0).reshape(20, 2), np.array([0.3])
    expected = np.stack([np.full(20, 4.0), np.full(20, np.sin(0.3)), x[:, 1], np.full(20, 0.3)], 1)
    close(native(x, p), expected)
    close(native.fast(x[3].copy(), p), expected[3])


def test_empty_arguments_and_results() -> None:
    tape = (Instruction("const", (), 2.0),)
    function = Function(
        "e", (Argument("x", 0),), (Result("y", (0, 3)), Result("z", (2,))), tape, ((), (0, 0))
    )
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
    with ThreadPoolExecutor(8) as pool:
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
    assert compile_function(random_function(1), width=2) is not compile_function(
        random_function(1), width=4
    )
    assert "define i32 @rows" in compile_function(random_function(1)).llvm_ir
    with pytest.raises(ValueError, match="width"):
        compile_function(random_function(1), width=3)


def test_uniform_argument_has_no_batch_axes() -> None:
    function = random_function(4, (5,), (4,), ((13,), (2,)), 200)
    with pytest.raises(ShapeError, match=r"p0 has shape \(3, 4\), expected \(4,\)"):
        compile_function(function)(np.zeros((3, 5)), np.zeros((3, 4)))


@pytest.mark.parametrize("width", [1, 4, 8])
def test_results_larger_than_the_caches(width: int) -> None:
    """These are written past the caches.

    Whatever the alignment, every number must arrive, and nothing else.
    """
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
    """A child process has none of its parent's threads.

    It must start its own instead of waiting for them.
    """
    code = """
import os, sys
sys.path.insert(0, sys.argv[1])
from random_tapes import np, random_function, samples
from minidyn.graph.targets.native.kernel import compile_function
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


def _compute_for_long(native: NativeFunction, arrays: list[np.ndarray], threads: int) -> None:
    signal.setitimer(signal.ITIMER_REAL, 1e-3)  # once
    for _ in range(1000):
        native(*arrays, threads=threads)


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no such signals on this system")
@pytest.mark.parametrize("threads", [1, 2])
def test_signals_in_between_change_nothing(threads: int) -> None:
    """A signal every half millisecond while machine code runs.

    An interruption that it raises comes through.
    """
    function = random_function(6, (6, 3), (2,), ((6, 6),), 400)
    native = compile_function(function)
    arrays = samples(function, 40_003)
    expected = native(*arrays)
    seen = []
    old = signal.signal(signal.SIGALRM, lambda *_: seen.append(1))
    try:
        signal.setitimer(signal.ITIMER_REAL, 5e-4, 5e-4)
        for _ in range(10):
            assert np.array_equal(native(*arrays, threads=threads), expected)
        assert seen
        signal.setitimer(signal.ITIMER_REAL, 0.0)

        def interrupt(*_: object) -> None:
            raise KeyboardInterrupt

        signal.signal(signal.SIGALRM, interrupt)
        for _ in range(200 if LONG else 6):  # what others still compute must not be gone
            with pytest.raises(KeyboardInterrupt):
                _compute_for_long(native, arrays, threads)
    finally:
        signal.signal(signal.SIGALRM, signal.SIG_IGN)
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, old)
    assert np.array_equal(native(*arrays, threads=threads), expected)


@pytest.mark.skipif(not LONG, reason="long")
def test_kernels_in_processes_that_are_started_anew() -> None:
    robot = md.load("panda")
    kernel = md.compile(robot, "regressor", threads=2)
    states = np.random.default_rng(0).normal(size=(3, 20_000, robot.n))
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as pool:
        for found in pool.map(kernel, *([part] * 3 for part in states)):
            assert np.array_equal(found, kernel(*states))


@pytest.mark.skipif(
    platform.machine().lower() not in ("x86_64", "amd64"), reason="names of x86 processors"
)
@pytest.mark.parametrize(
    ("cpu", "width", "fused"),
    [("x86-64", 2, False), ("haswell", 4, True), ("skylake-avx512", 8, True)],
)
def test_code_for_other_processors(
    cpu: str, width: int, fused: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The code for an older or other processor is right too, as far as this one can run it."""
    mine = host_module.host()
    if width > mine.width or (fused and not mine.fused):
        pytest.skip("this machine cannot run it")
    other = host_module.Host(mine.triple, cpu, "", width, fused)
    monkeypatch.setattr(host_module, "host", lambda: other)
    function = random_function(11, (6, 3), (2,), ((6, 6), (2,)))
    native = NativeFunction(function, width)
    for batch in ((), (43,)):
        arrays = samples(function, *batch)
        arrays[0][..., 0] *= 1e6  # beyond the vector sine
        for mine_, theirs in zip(native(*arrays), evaluate(function, *arrays)):
            close(mine_, theirs, 1e-9)
