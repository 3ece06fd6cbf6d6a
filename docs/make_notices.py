"""Write docs/notices.md: every kind of notice with its level, its meaning and what to do.

Everything comes from the kinds that the modules declare by `minidyn.notices.kind`. Run
`python docs/make_notices.py` after changing one; a test compares the page with the code.
"""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Iterable
from itertools import groupby
from pathlib import Path

import minidyn
from minidyn.notices import CONSEQUENCES, KINDS, LEVELS, Kind

PAGE = Path(__file__).parent / "notices.md"

LEVEL_WORDS = {
    "error": "fix it before you use the result",
    "warning": "know it",
    "info": "information",
}

LEVEL_HEAD = (
    "| level | means | colour of the report | verdict on a model | verdict on a log (`check`) | "
    "exit code with `--require pass` |",
    "|---|---|---|---|---|---:|",
)
LEVEL_TAIL = (
    "The most serious notice or [rule](report.md#the-verdict) decides. Information never changes a "
    "verdict.",
)

HEAD = """# Notices

Results say what you should know about them: `estimate.notices`, `recording.notices`, `validation.notices`,
`robot.notices`. Each is a value with a code, a level, a sentence, advice and data:

    for notice in estimate.notices:
        print(notice.level, notice.code, notice, notice.advice, dict(notice.data))

The report and the command line show the most serious first. A program asks for `notice.code` and `notice.data`; the
sentence may change, the code does not.

What advice calls `cutoff=...` is a keyword in Python, a key in study files, and `--cutoff ...` in the shell; keys
without an option in the shell stand in a file: `--mapping FILE`. This page is made by `python docs/make_notices.py`
from the code.
"""  # noqa: E501


def kinds() -> list[Kind]:
    """Return all kinds that the package declares, by code."""
    for module in pkgutil.walk_packages(minidyn.__path__, "minidyn."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    return [KINDS[code] for code in sorted(KINDS)]


def page(found: Iterable[Kind]) -> str:
    """Return the text of docs/notices.md."""
    lines = [HEAD, *LEVEL_HEAD]
    for level in LEVELS:
        one = CONSEQUENCES[level]
        cells = (level, LEVEL_WORDS[level], one.colour, one.model, one.log, str(one.exit_code))
        lines.append(f"| {' | '.join(cells)} |")
    lines += ["", *LEVEL_TAIL]
    for stage, group in groupby(found, key=lambda kind: kind.code.split(".")[0]):
        lines += [
            "",
            f"## {stage}",
            "",
            "| code | level | meaning | what to do |",
            "|---|---|---|---|",
        ]
        lines += [
            f"| `{one.code}` | {one.level} | {_cell(one.meaning)} | {_cell(one.advice)} |"
            for one in group
        ]
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    """Text for a table; names of data, {joint}, in italics."""
    return re.sub(r"\{(\w+)[^}]*\}", r"*\1*", text.replace("|", "\\|").replace("<", "&lt;"))


if __name__ == "__main__":
    PAGE.write_text(page(kinds()), encoding="utf-8")
