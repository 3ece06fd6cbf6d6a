"""Machine code between guard pages, and printed C under a memory checker.

Nothing outside of arrays is touched.
"""

from __future__ import annotations

import ctypes
import faulthandler
import mmap
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import minidyn as md
from c_compiler import STRICT, needs_gcc
from conftest import count
from minidyn.codegen.files import c_files
from minidyn.graph.scalar import Graph
from minidyn.graph.targets.native import reduce as reducing
from minidyn.graph.targets.native.reduce import GROUP, Reduction

pytestmark = pytest.mark.skipif(
    not hasattr(os, "fork"), reason="memory is guarded by the system, in a child process"
)

PAGE = mmap.PAGESIZE
_KEPT: list[object] = []


def guarded(shape: tuple[int, ...], *, at_end: bool = True, align: int = 8) -> np.ndarray:
    """An array whose last number (or first) is the last (first) before a page that must not be
    touched.
    """
    size = 8 * int(np.prod(shape))
    pages = -(-max(size, 1) // PAGE) + 2
    memory = mmap.mmap(-1, pages * PAGE)
    begin = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    library = ctypes.CDLL(None, use_errno=True)
    for place in (begin, begin + (pages - 1) * PAGE):
        assert library.mprotect(ctypes.c_void_p(place), ctypes.c_size_t(PAGE), 0) == 0
    start = (pages - 1) * PAGE - -(-size // align) * align if at_end else PAGE
    _KEPT.append(memory)
    return np.frombuffer((ctypes.c_char * size).from_address(begin + start), dtype=float).reshape(
        shape
    )


def in_a_child(work: Callable[[], None]) -> None:
    """Do the work where a touched guard ends a process.

    An assertion that fails is an error here, too.
    """
    child = os.fork()
    if not child:
        code = 1
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_touched_guard_is_seen() -> None:
    array = guarded((3,))
    child = os.fork()
    if not child:
        faulthandler.disable()  # its end is what is asked for, not worth a report
        ctypes.c_double.from_address(array.ctypes.data + 24).value  # noqa: B018 - it ends here
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) < 0


@pytest.mark.parametrize("width", [2, 4, 8])
def test_reductions_stay_inside(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    graph, sizes = Graph(), (7, 3)
    inputs = [graph.inputs(f"x{k}", size) for k, size in enumerate(sizes)]
    rows = {f"r{k}": [*own, *[graph.zero] * (-len(own) % GROUP)] for k, own in enumerate(inputs)}
    reduction = Reduction(graph.function("same", rows), width)
    assert reduction.code.addresses

    def work() -> None:
        monkeypatch.setattr(reducing, "_aligned", lambda size: _zeroed(guarded((size,), align=64)))
        packed = reducing._packed_triangle
        monkeypatch.setattr(
            reducing, "_packed_triangle", lambda factor: _copied(packed(factor), True)
        )
        rng = np.random.default_rng(0)
        for number in (1, 2, 3, 7, 8, 9, 31, 255, 256, 257, 600)[:: count(2, 1)]:
            for at_end in (True, False):
                x, y = (_copied(rng.normal(size=(number, size)), at_end) for size in sizes)
                factor = np.triu(rng.uniform(0.5, 1.5, (8, 8)))
                found, other = reduction.grams([x, y], [None, None], [0, 1])
                assert np.allclose(found[:7, :7], x.T @ x, atol=1e-9)
                assert np.allclose(other[:3, :3], y.T @ y, atol=1e-9)
                [divided] = reduction.grams([x, y], [factor, None], [0])
                V = np.linalg.solve(factor.T, np.pad(x, ((0, 0), (0, 1))).T).T
                assert np.allclose(divided, V.T @ V, atol=1e-6)
                assert np.array_equal(reduction.rows([x[::-1], y[::-1]])[0][:, :7], x[::-1])

    in_a_child(work)


def _zeroed(array: np.ndarray) -> np.ndarray:
    array[:] = 0.0
    return array


def _copied(values: np.ndarray, at_end: bool) -> np.ndarray:
    array = guarded(values.shape, at_end=at_end)
    array[:] = values
    return array


def test_reductions_refuse_what_does_not_fit() -> None:
    graph = Graph()
    reduction = Reduction(graph.function("same", {"r": list(graph.inputs("x", 4))}))
    x = np.ones((5, 4))
    for wrong in (x.astype("f4"), x.astype(">f8"), x.astype(int), x[:, :3], x[0], x[None]):
        with pytest.raises(ValueError, match="expected float64"):
            reduction.grams([wrong], [None], [0])
    for wrong in (
        np.eye(3),
        np.eye(5),
        np.eye(4, dtype="f4"),
        np.eye(4).astype(">f8"),
        np.ones(4),
        np.ones((4, 4, 1)),
    ):
        with pytest.raises(ValueError, match="factor: expected float64"):
            reduction.grams([x], [wrong], [0])
    with pytest.raises(ValueError, match="zip"):
        reduction.grams([x], [None, None], [0])
    for odd in (
        np.broadcast_to(x[:1], x.shape),
        np.asfortranarray(x),
        x[::-1],
        np.ones((10, 8))[::2, ::2],
        x[:0],
    ):
        frozen = odd.view()
        frozen.setflags(write=False)
        np.testing.assert_array_equal(reduction.grams([frozen], [None], [0])[0], frozen.T @ frozen)


MAIN = """
#include <stdlib.h>
#include <stdio.h>
#include "{header}"
int main(void) {{
    int n = {n}; double *x[3]; double *out = malloc(sizeof(double) * {size});
    for (int k = 0; k < 3; k++) {{
        x[k] = malloc(sizeof(double) * n);
        for (int j = 0; j < n; j++) x[k][j] = 0.1 * (k + 1) + 0.01 * j;
    }}
    {call};
    for (int j = 0; j < {size}; j++) printf("%.17g\\n", out[j]);
    for (int k = 0; k < 3; k++) free(x[k]);
    free(out);
    return 0;
}}
"""


@needs_gcc
@pytest.mark.parametrize(
    ("name", "what"), [("two_link", "inverse_dynamics"), ("scara", "inertia_matrix")]
)
def test_printed_c_under_a_memory_checker(tmp_path: Path, name: str, what: str) -> None:
    robot = md.load(name)
    kernel = md.compile(robot, what)
    files = c_files(robot, kernel.function)
    for file, text in files.items():
        (tmp_path / file).write_text(text)
    header = next(file for file in files if file.endswith(".h"))
    entry = header.removesuffix(".h")
    q, dq, ddq = (0.1 * (k + 1) + 0.01 * np.arange(robot.n) for k in range(3))
    given = (q, dq, ddq) if what == "inverse_dynamics" else (q,)
    expected = np.ravel(kernel(*given))
    call = f"{entry}({', '.join(f'x[{k}]' for k in range(len(given)))}, out)"
    (tmp_path / "main.c").write_text(
        MAIN.format(header=header, n=robot.n, size=len(expected), call=call)
    )
    flags = [*STRICT, "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
    command = ["gcc", *flags, "main.c", f"{entry}.c", "-lm", "-o", "main"]
    built = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    if "cannot find" in built.stderr:
        pytest.skip("gcc has no memory checker here")
    assert built.returncode == 0, built.stderr
    done = subprocess.run([tmp_path / "main"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    np.testing.assert_allclose(
        np.array(done.stdout.split(), dtype=float), expected, rtol=1e-12, atol=1e-12
    )
