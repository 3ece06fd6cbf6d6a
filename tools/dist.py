"""Wheel and source archive, built twice and compared byte by byte, with a list of what they need.

    python tools/dist.py        # writes dist/minidyn-*.whl, dist/minidyn-*.tar.gz and dist/sbom.json

The second build happens in a copy of the tracked files in another folder, so that neither times nor
places get in. The list is CycloneDX 1.5: every library that an installation with all extras has,
with version and licence. Extras that are not installed here are left out of it.
"""  # noqa: E501

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
DIST = ROOT / "dist"
DEVELOPERS = {"docs", "test", "peers", "dev", "bench"}
"""Extras that no user installs."""


def build(source: Path, target: Path) -> dict[str, str]:
    """Build both archives and return their hashes by name."""
    command = [sys.executable, "-m", "build", "--outdir", str(target), str(source)]
    subprocess.run(command, check=True, capture_output=True)  # noqa: S603
    return {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(target.iterdir())
    }


def tracked(target: Path) -> None:
    """Copy the files that git knows."""
    names = subprocess.run(
        ["git", "ls-files", "-z"],  # noqa: S607
        cwd=ROOT,
        check=True,
        capture_output=True,
    ).stdout
    for name in names.decode().split("\0"):
        if name:
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, target / name)


def needed(name: str, extras: tuple[str, ...], found: dict[str, Any]) -> None:
    """Add a library and all that it needs to what was found.

    What is not installed here is left out.
    """
    key = re.sub(r"[-_.]+", "-", name).lower()
    if key in found:
        return
    try:
        about = distribution(name)
    except PackageNotFoundError:
        return
    meta = about.metadata
    licence = meta.get("License-Expression") or (meta.get("License") or "").split("\n")[0][:80]
    found[key] = {
        "type": "library",
        "name": key,
        "version": about.version,
        "purl": f"pkg:pypi/{key}@{about.version}",
    }
    if licence:
        found[key]["licenses"] = [{"license": {"name": licence}}]
    for line in about.requires or ():
        wish, _, marker = line.partition(";")
        extra = re.search(r"extra\s*==\s*['\"]([\w-]+)['\"]", marker)
        if extra is None or extra[1] in extras:
            inner = re.match(r"\s*([\w.-]+)\s*(?:\[([\w,\s-]+)\])?", wish)
            if inner:
                needed(inner[1], tuple((inner[2] or "").replace(" ", "").split(",")), found)


def main() -> int:
    """Build, compare, list."""
    shutil.rmtree(DIST, ignore_errors=True)
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as two:
        hashes = []
        for folder, target in ((one, DIST), (two, Path(two) / "out")):
            source = Path(folder) / "source"
            tracked(source)
            hashes.append(build(source, target))
    for name, digest in hashes[0].items():
        print(
            f"{digest}  {name}{'' if hashes[1].get(name) == digest else '  DIFFERS from the second build'}"  # noqa: E501
        )
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    found: dict[str, Any] = {}
    extras = set(project["project"]["optional-dependencies"]) - DEVELOPERS
    needed("minidyn", tuple(sorted(extras)), found)
    own = found.pop("minidyn", None)
    if own is None or not found:
        print("dist/sbom.json: minidyn is not installed here, so its libraries are unknown")
        return 1
    listed = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": own},
    }
    listed["components"] = [found[name] for name in sorted(found)]
    (DIST / "sbom.json").write_text(json.dumps(listed, indent=1) + "\n")
    print(f"dist/sbom.json: {len(found)} libraries")
    for name, address in project["tool"]["minidyn"]["owner"].items():
        if not address:
            print(f"pyproject.toml: [tool.minidyn.owner] {name} is empty; fill it in to publish")
    return int(hashes[0] != hashes[1])


if __name__ == "__main__":
    sys.exit(main())
