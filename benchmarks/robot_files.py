"""Every robot file that is here offline: loaded, or refused with what the message says.

The files of example-robot-data, and of what robot_descriptions has fetched into its cache. Prints a
table for docs/urdf-and-mjcf.md; with --all one line a file.

    python benchmarks/robot_files.py
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import minidyn as md
from minidyn.formats.descriptions import description_names, find_description

ENDINGS = (".urdf", ".xacro", ".xml", ".mjcf")
REASONS = {
    r"is (a )?floating|has a free joint|moving base": "the base floats",
    r"is planar": "a planar joint",
    r"ball joint": "a ball joint",
    r"not found around the file": "a package that is not here",
    r"Undefined substitution argument": "an argument without a default (`--xacro-arg`)",
    r"<mujocoinclude>|not MJCF|no <robot>|root element|expected <mujoco>": "no robot but a part",
    r"no link|no moving joint|no joint;|has no link": "no robot but a part",
    r"follows an unknown joint": "a mimic joint follows one that is not there",
    r"No such file": "a file that it includes is not here",
    r"links have no parent": "several roots",
}


def sources() -> dict[str, Path]:
    """Return the folders with robot files, by name."""
    found: dict[str, Path] = {}
    for site in map(Path, sys.path):
        robots = site / "cmeel.prefix" / "share" / "example-robot-data" / "robots"
        if robots.is_dir():
            found["example-robot-data"] = robots
    cache = Path(os.environ.get("ROBOT_DESCRIPTIONS_CACHE", "~/.cache/robot_descriptions"))
    if cache.expanduser().is_dir():
        found["cache of robot_descriptions"] = cache.expanduser()
    return found


def robot_files(folder: Path) -> Iterator[Path]:
    """Yield the files that may be robots: by their ending, XML by its root."""
    for path in sorted(folder.rglob("*")):
        if path.suffix.lower() not in ENDINGS or not path.is_file():
            continue
        head = path.read_text(encoding="utf-8", errors="replace")[:4000]
        if path.suffix == ".xml" and "<mujoco" not in head:
            continue  # package.xml and the like
        yield path


def outcome(path: Path | str) -> tuple[str, str]:
    """Return ("loaded", what) or ("refused", why)."""
    try:
        robot = md.load(path)
    except md.MinidynError as error:
        return "refused", str(error)
    return "loaded", f"{robot.n} joints"


def reason(text: str) -> str:
    """Return the kind of a refusal."""
    return next((kind for pattern, kind in REASONS.items() if re.search(pattern, text)), "other")


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--all", action="store_true", help="one line a file")
    every = parser.parse_args().all
    print("| files | ending | loaded | refused |")
    print("|---|---|---:|---|")
    others = []
    for name, folder in sources().items():
        for ending in ENDINGS:
            files = [path for path in robot_files(folder) if path.suffix.lower() == ending]
            results = {path: outcome(path) for path in files}
            why = Counter(reason(text) for kind, text in results.values() if kind == "refused")
            loaded = sum(kind == "loaded" for kind, _ in results.values())
            shown = ", ".join(f"{count}: {kind}" for kind, count in why.most_common()) or "none"
            if files:
                print(f"| {name} | `{ending}` | {loaded} of {len(files)} | {shown} |", flush=True)
            for path, (kind, text) in results.items():
                if every:
                    print(f"    {kind}: {path.relative_to(folder)}: {text}")
                if kind == "refused" and reason(text) == "other":
                    others.append(f"{path.name}: {text}")
    names = description_names()
    fetched = 0
    for one in names:
        try:
            fetched += find_description(one).path.is_file()
        except md.MinidynError:
            continue
    print(f"\nrobot_descriptions: {fetched} of {len(names)} descriptions have been fetched here")
    for line in others:
        print(f"other: {line[:300]}")


if __name__ == "__main__":
    main()
