"""Run the benchmarks and print their tables: what `make bench` does.

    python benchmarks/run.py [--quick] [--only NAME ...] [--json FILE] [--readme]

Each benchmark is a module here with `measure(quick)`, which returns plain numbers, and
`tables(measured)`, which returns them as Markdown. Each runs in a fresh process: a process that one
benchmark has made large hands its peak of memory down to every process that the next one starts.
"""

from __future__ import annotations

import argparse
import json
import re
from concurrent.futures import ProcessPoolExecutor
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path
from typing import Any

BENCHMARKS = ("dynamics", "base", "control", "identification")
README = Path(__file__).with_name("README.md")


def measured(name: str, quick: bool) -> tuple[Any, str]:
    """Run one benchmark; return its numbers and its tables."""
    module = import_module(name)
    found = module.measure(quick=quick)
    return found, module.tables(found)


def into_readme(name: str, text: str) -> None:
    """Put a benchmark's tables between its two marks in README.md."""
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    old = README.read_text(encoding="utf-8")
    new, count = re.subn(
        f"{begin}.*?{end}", lambda _: f"{begin}\n{text}\n{end}", old, flags=re.DOTALL
    )
    if count != 1:
        raise SystemExit(f"{README}: expected one pair of marks {begin} ... {end}, found {count}")
    README.write_text(new, encoding="utf-8")


def main() -> None:
    """Parse the options, run, print."""
    parser = argparse.ArgumentParser(description="Run the benchmarks and print their tables.")
    parser.add_argument("--quick", action="store_true", help="shorter runs, rougher numbers")
    parser.add_argument(
        "--only",
        action="append",
        choices=BENCHMARKS,
        help="run this benchmark only; may be repeated",
    )
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="write everything measured to a file"
    )
    parser.add_argument(
        "--readme", action="store_true", help="write the tables into benchmarks/README.md"
    )
    options = parser.parse_args()
    every: dict[str, Any] = {}
    for name in options.only or BENCHMARKS:
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as fresh:
            every[name], text = fresh.submit(measured, name, options.quick).result()
        print(f"# {name}\n\n{text}\n", flush=True)
        if options.readme:
            into_readme(name, text)
    if options.json:
        options.json.write_text(json.dumps(every, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
