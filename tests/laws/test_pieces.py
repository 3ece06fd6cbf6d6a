"""Long tapes are cut into pieces, and constant results are written by loops: the same numbers."""

from __future__ import annotations

import numpy as np
import pytest
from random_tapes import close, evaluate, random_function, samples

from conftest import count
from minidyn.graph.function import Argument, Function, Instruction, Result
from minidyn.graph.targets.native import core
from minidyn.graph.targets.native.host import host
from minidyn.graph.targets.native.kernel import NativeFunction


@pytest.fixture
def cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut every tape into pieces of a few steps, compiled anew."""
    monkeypatch.setattr(core, "WHOLE", 0)
    monkeypatch.setattr(core, "PIECE", 13)
    monkeypatch.setenv("MINIDYN_CACHE", "0")


@pytest.mark.parametrize("seed", range(count(12, 60)))
def test_pieces_compute_the_same(cut: None, seed: int) -> None:
    function = random_function(seed, (6, 3), (2,) if seed % 2 else (), ((3, 4), (5,)), 90)
    text = core.core_text(core.Plan(function), host().width)
    assert text.count("define internal") > 3
    for width in {2, host().width}:
        native = NativeFunction(function, width)
        arrays = samples(function, 19, seed=seed)
        expected = evaluate(function, *arrays)
        for part, wanted in zip(native(*arrays), expected):
            close(part, wanted)
        one = native(*(a if arg.uniform else a[4] for a, arg in zip(arrays, function.arguments)))
        for part, wanted in zip(one, native(*arrays)):
            np.testing.assert_array_equal(part, wanted[4])


def test_buffer_places_are_used_again() -> None:
    """A chain in which each step needs the one before: one place serves all pieces."""
    tape = [Instruction("input", (), (0, 0))]
    tape += [Instruction("add", (k, 0)) for k in range(100)]
    order = list(range(1, 101))
    pieces = [order[k : k + 10] for k in range(0, 100, 10)]
    places, room = core._kept_values(tuple(tape), pieces)
    assert len(places) == 9
    assert room <= 2


def test_rows_of_constants() -> None:
    """Zeros, other constants, negative zeros and values between them stand where they belong."""
    values = [0.0] * 40 + [-0.0] * 20 + [2.5] * 17 + [1.0, 0.0, 1.0] + [0.0] * 16
    tape = [Instruction("input", (), (0, 0))]
    tape += [Instruction("const", (), value) for value in (0.0, -0.0, 2.5, 1.0)]
    places = {"0.0": 1, "-0.0": 2, "2.5": 3, "1.0": 4}
    outputs = [places[str(value)] for value in values]
    outputs[5], outputs[70], outputs[-1] = 0, 0, 0
    function = Function(
        "constants",
        (Argument("x", 1),),
        (Result("y", (len(values),)),),
        tuple(tape),
        (tuple(outputs),),
    )
    x = np.arange(1.0, 12.0)[:, None]
    (expected,) = evaluate(function, x)
    for width in {1, 2, host().width}:
        found = NativeFunction(function, width)(x)
        np.testing.assert_array_equal(found, expected)
        np.testing.assert_array_equal(np.signbit(found), np.signbit(expected))
    np.testing.assert_array_equal(NativeFunction(function, 1)(x[3]), expected[3])
