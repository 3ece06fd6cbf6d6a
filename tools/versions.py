"""The tests under every Python that this machine has, and with the lowest versions of libraries
that are declared.

    python tools/versions.py              # a quick set of tests under each Python from 3.11 on, and lowest versions
    python tools/versions.py --all        # the whole suite, with what it compares with
    python tools/versions.py 3.12 lowest  # some of them
    python tools/versions.py --here       # the quick set in the environment that is active
    python tools/versions.py --wheels     # whether all libraries have wheels for Linux, macOS and Windows

Each gets an environment of its own in build/versions, made by uv, which is fetched where it is not
installed.
"""  # noqa: E501

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent
HOME = ROOT / "build" / "versions"
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
LOWEST = "lowest"
QUICK = (
    *(
        "laws/test_native.py",
        "laws/test_builtin.py",
        "laws/test_toml.py",
        "laws/test_mjcf.py",
        "laws/test_display.py",
    ),
    *(
        "laws/test_read_recording.py",
        "laws/test_copies.py",
        "laws/test_not_determined.py",
        "laws/test_guarded.py",
    ),
)
"""Tests that need nothing but minidyn with its extras and pytest, over every part that leans on a
library.
"""


PLATFORMS = {
    "Linux x86-64": "x86_64-unknown-linux-gnu",
    "Linux aarch64": "aarch64-unknown-linux-gnu",
    "macOS arm64": "aarch64-apple-darwin",
    "macOS x86-64": "x86_64-apple-darwin",
    "Windows x86-64": "x86_64-pc-windows-msvc",
}
"""Systems that libraries must have wheels for, and their names for uv."""


def main() -> int:
    """Run what was asked for; exit code 1 where tests of one fail."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("which", nargs="*", default=[*PYTHONS, LOWEST])
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--here", action="store_true")
    parser.add_argument("--wheels", action="store_true")
    given = parser.parse_args()
    if given.here:
        return _tests(sys.executable, [str(ROOT / "tests" / name) for name in QUICK]).returncode
    uv, results = _uv(), {}
    if given.wheels:
        return _wheels(uv, [which for which in given.which if which != LOWEST])
    for which in given.which:
        version = PYTHONS[0] if which == LOWEST else which
        python = _python(uv, version)
        if python is None:
            results[which] = "not on this machine"
            continue
        folder = HOME / which
        extra = "test" if given.all else "all"
        _call(uv, "venv", "--quiet", "--clear", "--python", python, str(folder))
        command = [uv, "pip", "install", "--quiet", "--python", str(folder / "bin" / "python")]
        if which == LOWEST:
            command += ["--resolution", "lowest-direct"]
        _call(*command, "-e", f"{ROOT}[{extra}]", "pytest>=8")
        tests = [] if given.all else [str(ROOT / "tests" / name) for name in QUICK]
        # what old versions of libraries say about each other is not minidyn's
        quiet = [
            f"-Wignore::{kind}"
            for kind in ("DeprecationWarning", "pytest.PytestUnraisableExceptionWarning")
        ]
        options = [*(quiet if which == LOWEST else ()), *tests]
        done = _tests(str(folder / "bin" / "python"), options, capture_output=True)
        last = (done.stdout.strip().splitlines() or [done.stderr[-200:]])[-1]
        results[which] = f"{'passed' if done.returncode == 0 else 'FAILED'}: {last}"
        (HOME / f"{which}.log").write_text(done.stdout + done.stderr)
        if which == LOWEST:
            _check_lowest(uv, folder)
    for which, result in results.items():
        print(f"{which:8} {result}")
    return int(any(result.startswith("FAILED") for result in results.values()))


def _tests(
    python: str, options: list[str], capture_output: bool = False
) -> subprocess.CompletedProcess[str]:
    """Run pytest in an environment, from the project's root."""
    return subprocess.run(  # noqa: S603
        [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options],
        cwd=ROOT,
        env={key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
        | {"OPENBLAS_NUM_THREADS": "1"},
        capture_output=capture_output,
        text=True,
        check=False,
    )


def _wheels(uv: str, versions: list[str]) -> int:
    """Print for each system and Python whether wheels alone give an installation with all extras.

    1 where one fails.
    """
    bad = 0
    for name, platform in PLATFORMS.items():
        for version in versions:
            command = [
                uv,
                "pip",
                "compile",
                "--quiet",
                "--only-binary",
                ":all:",
                "--no-header",
                "--no-annotate",
            ]
            command += [
                "--python-platform",
                platform,
                "--python-version",
                version,
                "--extra",
                "all",
                "pyproject.toml",
            ]
            done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)  # noqa: S603
            found = dict(line.split("==") for line in done.stdout.splitlines() if "==" in line)
            cause = next(
                (line for line in done.stderr.splitlines() if "ecause" in line), done.stderr[-200:]
            )
            told = ", ".join(
                f"{key} {found[key]}"
                for key in ("numpy", "scipy", "llvmlite", "pyarrow")
                if key in found
            )
            print(
                f"{name:15} {version}: "
                f"{cause.strip() if done.returncode else f'{len(found)} wheels; {told}'}",
                flush=True,
            )
            bad |= done.returncode != 0
    return int(bad)


def _uv() -> str:
    """Return uv: the one on the path, or one in a folder of its own."""
    found = shutil.which("uv")
    if found:
        return found
    place = HOME / "uv"
    if not (place / "bin" / "uv").exists():
        _call(sys.executable, "-m", "venv", str(place))
        _call(
            str(place / "bin" / "python"),
            "-m",
            "pip",
            "--disable-pip-version-check",
            "install",
            "-q",
            "uv",
        )
    return str(place / "bin" / "uv")


def _python(uv: str, version: str) -> str | None:
    """Return a Python that is installed here, pyenv's among them.

    None where there is none of that version.
    """
    command = [uv, "python", "find", "--no-python-downloads", "--system", version]
    found = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    if not found.returncode:
        return found.stdout.strip()
    home = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    return next((str(path) for path in sorted(home.glob(f"{version}.*/bin/python"))), None)


def _call(*command: str) -> None:
    subprocess.run(command, check=True)  # noqa: S603


def _check_lowest(uv: str, folder: Path) -> None:
    """Print which declared lower bounds were not what was installed (another library asked for
    more).
    """
    listed = subprocess.run(  # noqa: S603
        [uv, "pip", "freeze", "--python", str(folder / "bin" / "python")],
        capture_output=True,
        text=True,
        check=True,
    )
    installed = dict(
        line.lower().split("==") for line in listed.stdout.splitlines() if "==" in line
    )
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    for declared in [
        *project["dependencies"],
        *(
            one
            for name in ("plot", "parquet", "ros", "mujoco", "pandas", "matlab")
            for one in extras[name]
        ),
    ]:
        name, low = re.match(r"([\w-]+)(?:\[\w+\])?>=([\w.]+)", declared).groups()  # type: ignore[union-attr]
        have = installed.get(name.lower(), "none")
        print(f"  {name} >= {low}: tested with {have}")


if __name__ == "__main__":
    sys.exit(main())
