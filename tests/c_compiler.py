"""How tests compile the C that we write."""

from __future__ import annotations

import shutil

import pytest

__all__ = ["STRICT", "needs_gcc"]

STRICT = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", "-O1"]
needs_gcc = pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed")
