"""Run the benchmarks and print their tables: what `make bench` does.

    python benchmarks/run.py [--quick] [--only NAME ...] [--json FILE] [--readme]

Each benchmark is a module here with `measure(quick)`, which returns plain numbers, and `tables(measured)`, which
returns them as Markdown.
"""

from __future__ import annotations

import argparse
import json
import re
from importlib import import_module
from pathlib import Path
from typing import Any

BENCHMARKS = ("dynamics",)
README = Path(__file__).with_name("README.md")


def into_readme(name: str, text: str) -> None:
    """Put a benchmark's tables between its two marks in README.md."""
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    old = README.read_text(encoding="utf-8")
    new, count = re.subn(f"{begin}.*?{end}", lambda _: f"{begin}\n{text}\n{end}", old, flags=re.DOTALL)
    if count != 1:
        raise SystemExit(f"{README}: expected one pair of marks {begin} ... {end}, found {count}")
    README.write_text(new, encoding="utf-8")


def main() -> None:
    """Parse the options, run, print."""
    parser = argparse.ArgumentParser(description="Run the benchmarks and print their tables.")
    parser.add_argument("--quick", action="store_true", help="shorter runs, rougher numbers")
    parser.add_argument("--only", action="append", choices=BENCHMARKS, help="run this benchmark only; may be repeated")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything measured to a file")
    parser.add_argument("--readme", action="store_true", help="write the tables into benchmarks/README.md")
    options = parser.parse_args()
    every: dict[str, Any] = {}
    for name in options.only or BENCHMARKS:
        module = import_module(name)
        every[name] = module.measure(quick=options.quick)
        text = module.tables(every[name])
        print(f"# {name}\n\n{text}\n", flush=True)
        if options.readme:
            into_readme(name, text)
    if options.json:
        options.json.write_text(json.dumps(every, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
