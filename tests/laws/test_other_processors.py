"""Machine code for processors that are not here.

It is made without error, uses what they have, and is right on ARM. ARM code runs in an emulator
(qemu-user and gcc-aarch64-linux-gnu) where there is one. Code for older processors of this kind
runs in test_native.py.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from random_tapes import close, evaluate, random_function, samples
from scipy.signal import sosfilt

from conftest import LONG
from minidyn.arrays import Array
from minidyn.graph.targets.native import host as host_module
from minidyn.graph.targets.native.builtin import _dispatch_text
from minidyn.graph.targets.native.core import Plan
from minidyn.graph.targets.native.host import Host, linked
from minidyn.graph.targets.native.kernel import NativeFunction, single_text
from minidyn.graph.targets.native.reduce import Reduction
from minidyn.recording.prepare.lowpass import _text, butterworth

LINUX, APPLE, ARM = (
    "x86_64-unknown-linux-gnu",
    "arm64-apple-macosx12.0",
    "aarch64-unknown-linux-gnu",
)
HOSTS = {
    "x86-64": Host(LINUX, "x86-64", "", 2, False),
    "x86-64-v2": Host(LINUX, "x86-64-v2", "", 2, False),
    "haswell": Host(LINUX, "haswell", "", 4, True),
    "skylake-avx512": Host(LINUX, "skylake-avx512", "", 8, True),
    "windows": Host("x86_64-pc-windows-msvc-elf", "x86-64-v3", "", 4, True),
    "cortex-a72": Host(ARM, "cortex-a72", "", 2, True),
    "apple-m1": Host(APPLE, "apple-m1", "", 2, True),
}
FORBIDDEN = {"x86-64": r"%[yz]mm|vfmadd", "x86-64-v2": r"%[yz]mm|vfmadd", "haswell": "%zmm"}
EXPECTED = {
    "haswell": "%ymm",
    "skylake-avx512": "%zmm",
    "cortex-a72": r"v\d+\.2d",
    "apple-m1": r"\.2d",
}
SAMPLE = tuple(HOSTS) if LONG else ("cortex-a72",)
EMULATED = shutil.which("qemu-aarch64") and shutil.which("aarch64-linux-gnu-gcc")


@pytest.fixture
def other(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Host:
    """The machine that code is made for from now on."""
    import llvmlite.binding as llvm

    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    monkeypatch.setattr(host_module, "host", lambda: HOSTS[request.param])
    return HOSTS[request.param]


FUNCTION = random_function(11, (6, 3), (), ((3, 3), (2,)), 60)
ROWS = random_function(3, (5,), (), ((8,), (4,)), 40)


def texts(width: int) -> dict[str, str]:
    """All kinds of code that minidyn makes, as LLVM text that calls the C library by name."""
    native = NativeFunction.__new__(
        NativeFunction
    )  # a whole one would be compiled for this machine
    native.function, native.width, native._plan = FUNCTION, width, Plan(FUNCTION)
    found = {
        "rows": native.llvm_ir,
        "single": single_text(native._plan),
        "reduce": Reduction(ROWS, width).llvm_ir,
    }
    found |= {"filter": _text(2, width), "calls": _dispatch_text(24)}
    return {name: linked(text) for name, text in found.items()}


def machine(target: Host) -> Any:
    import llvmlite.binding as llvm

    return llvm.Target.from_triple(target.triple).create_target_machine(
        cpu=target.cpu, features=target.features, opt=1, reloc="pic", codemodel="small"
    )


@pytest.mark.parametrize("other", SAMPLE, indirect=True)
def test_code_is_made_for(other: Host) -> None:
    import llvmlite.binding as llvm

    name = next(name for name, one in HOSTS.items() if one is other)
    made = ""
    for text in texts(other.width).values():
        assert "llvm.x86" not in text
        assert "llvm.aarch64" not in text
        made += machine(other).emit_assembly(llvm.parse_assembly(text))
    if name in FORBIDDEN:
        assert not re.search(FORBIDDEN[name], made)
    if name in EXPECTED:
        assert re.search(EXPECTED[name], made)


def numbers(name: str, values: Array) -> str:
    """An array as C, to the last bit."""
    return f"static double {name}[] = {{{', '.join(float(x).hex() for x in np.ravel(values))}}};\n"


def emulated(folder: Path, target: Host, kind: str, code: str) -> Array:
    """The numbers that C code prints which calls one kind of machine code on the emulated
    processor.
    """
    import llvmlite.binding as llvm

    (folder / "made.o").write_bytes(
        machine(target).emit_object(llvm.parse_assembly(texts(target.width)[kind]))
    )
    (folder / "main.c").write_text("#include <stdio.h>\n#include <stdint.h>\n" + code)
    compiler = ["aarch64-linux-gnu-gcc", "-static", "-O0", "main.c", "made.o", "-lm", "-o", "main"]
    subprocess.run(compiler, cwd=folder, check=True, timeout=60)
    done = subprocess.run(
        ["qemu-aarch64", "./main"],
        cwd=folder,
        check=True,
        timeout=60,
        capture_output=True,
        text=True,
    )
    return np.array([float.fromhex(word) for word in done.stdout.split()])


@pytest.mark.skipif(not EMULATED, reason="needs qemu-user and gcc-aarch64-linux-gnu")
@pytest.mark.parametrize("other", ["cortex-a72"], indirect=True)
def test_code_for_arm_is_right(other: Host, tmp_path: Path) -> None:
    count = 13
    arrays = samples(FUNCTION, count)
    arrays[0][:, 0] *= 1e6  # beyond the vector sine
    expected = evaluate(FUNCTION, *arrays)
    code = numbers("a", arrays[0]) + numbers("b", arrays[1])
    code += f"""static double x[{9 * count}], y[{2 * count}];
int rows(int64_t *, int64_t, int64_t, int64_t);
int main(void) {{
  int64_t d[] = {{(int64_t)a, 48, 8, (int64_t)b, 24, 8, (int64_t)x, 72, 8, (int64_t)y, 16, 8}};
  if (rows(d, 0, {count}, {count})) return 1;
  for (int i = 0; i < {9 * count}; i++) printf("%a\\n", x[i]);
  for (int i = 0; i < {2 * count}; i++) printf("%a\\n", y[i]);
  return 0;
}}
"""
    found = emulated(tmp_path, other, "rows", code)
    close(found[: 9 * count].reshape(count, 3, 3), expected[0], 1e-9)
    close(found[9 * count :].reshape(count, 2), expected[1], 1e-9)


@pytest.mark.skipif(
    not (EMULATED and LONG), reason="long; needs qemu-user and gcc-aarch64-linux-gnu"
)
@pytest.mark.parametrize("other", ["cortex-a72"], indirect=True)
def test_filters_on_arm_are_right(other: Host, tmp_path: Path) -> None:
    sections, states = butterworth(4, 5.0, 100.0)
    values = np.random.default_rng(1).normal(size=(40, 2))
    code = numbers("v", values) + numbers("f", sections[:, [0, 1, 2, 4, 5]])
    code += numbers("z", states[:, :, None] * values[0])
    code += """void filter(double *, int64_t, int64_t, double *, double *) __asm__("pass");
int main(void) {
  filter(v, 16, 40, f, z);
  for (int i = 0; i < 80; i++) printf("%a\\n", v[i]);
  return 0;
}
"""
    found = emulated(tmp_path, other, "filter", code).reshape(40, 2)
    np.testing.assert_allclose(
        found, sosfilt(sections, values, axis=0, zi=states[:, :, None] * values[0])[0]
    )
