"""The builtin that calls machine code without Python in between.

Same answers and errors as the call in Python.
"""

from __future__ import annotations

import gc
import random
import sys
import tracemalloc

import numpy as np
import pytest
from random_tapes import close, evaluate, random_function, samples

from minidyn.errors import ShapeError
from minidyn.graph.function import Function
from minidyn.graph.targets.native.kernel import NativeFunction, compile_function


@pytest.fixture(scope="module")
def plain() -> tuple[Function, NativeFunction]:
    function = random_function(1)
    return function, compile_function(function)


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
    close(
        native.fast(q.astype(np.float32), p),
        evaluate(function, q.astype(np.float32).astype(float), p)[0],
    )
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
    assert np.array_equal(
        native(*arrays), native(*arrays)
    )  # compiled by the first, taken by the second
    assert np.array_equal(
        native(arrays[0][0].copy(), arrays[1]), native.general(arrays[0][0].copy(), arrays[1])
    )
    close(native(*arrays), evaluate(function, *arrays)[0])
    assert native.fast(np.empty((0, 4)), arrays[1]).shape == (0, 3)
    for bad in (
        np.zeros((10, 3)),
        np.zeros(2),
    ):  # the uniform argument has one axis, and its length
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
    with pytest.raises(
        ShapeError,
        match=r"out for y0 is float64 of shape \(3, 2, 5\), expected float64 \(4, 2, 5\)",
    ):
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
    pick = random.Random(0)
    first, second = samples(function, 4)
    things = [
        *(
            first,
            second,
            first[0],
            second[0],
            first[None],
            first[:0],
            first.T,
            np.asfortranarray(first),
        ),
        *(
            first.astype(np.float32),
            first.astype(">f8"),
            first + 1j,
            np.zeros((4, 6), dtype=object),
        ),
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
        *(
            np.ma.masked_array(second),
            np.recarray((4,), dtype=[("a", float)]),
            np.zeros((1,) * 20 + (3,)),
        ),
        *(
            np.datetime64("2020-01-01"),
            np.zeros((4, 3), dtype="m8[s]"),
            range(6),
            iter([1]),
            Ellipsis,
            native,
        ),
    ]
    answered = 0
    for _ in range(4000):
        args = [pick.choice(things) for _ in range(pick.choice([2, 2, 2, 2, 0, 1, 3]))]
        keywords = (
            {}
            if pick.random() < 0.6
            else {pick.choice(["out", "threads", "z"]): pick.choice(things)}
        )
        try:
            got = native(*args, **keywords)
        except (ShapeError, TypeError, ValueError):
            continue
        answered += 1
        assert got.shape[-2:] == (2, 5)
    assert answered > 20


def test_more_arguments_than_a_builtin_takes_go_the_general_way() -> None:
    function = random_function(14, (2,) * 17, (), ((3,),))
    native = compile_function(function)
    assert native.fast == native.general
    for batch in ((), (9,)):
        arrays = samples(function, *batch)
        close(native(*arrays), evaluate(function, *arrays)[0])
