"""Write docs/equations.md: which equation of which paper is implemented where, and which tests look
at it.

Everything comes from docstrings, whose last lines are `Implements: Lin1994 eq. (21)-(26)` and,
where true, `Differs: ...`. Run `python docs/make_equations.py` after changing one; a test compares
the page with the code.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from paper_items import HOMES, every_item, items_in

import minidyn

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "minidyn"
TESTS = ROOT / "tests"
PAGE = ROOT / "docs" / "equations.md"

PAPERS = {
    "Gautier1991": "M. Gautier, *Numerical calculation of the base inertial parameters of robots*",
    "Lin1992": (
        "S.-K. Lin, *An identification method for estimating the inertia parameters of a "
        "manipulator*"
    ),
    "LuMeng1993": (
        "W.-S. Lu, Q.-H. Meng, *Regressor formulation of robot dynamics: computation and "
        "applications*"
    ),
    "Lin1994": "S.-K. Lin, *An approach to the identifiable parameters of a manipulator*",
    "LinFang1999": "S.-K. Lin, C.-J. Fang, *Efficient formulations for the manipulator inertia matrix in "  # noqa: E501
    "terms of minimal linear combinations of inertia parameters*",
}
_KEY = re.compile(r"\b(" + "|".join(PAPERS) + r")\b")


@dataclass(frozen=True)
class Entry:
    """What one docstring says.

    Attributes:
        module: Path of the file in src/minidyn, "base/rank.py".
        name: Function, method or class; "" for the module itself.
        implements: Text after `Implements:`, "" where there is none.
        differs: Text after `Differs:`, "" where there is none.
    """

    module: str
    name: str
    implements: str
    differs: str


@cache
def entries() -> list[Entry]:
    """All docstrings that name a source, file by file."""
    found = []
    for path in sorted(SOURCE.rglob("*.py")):
        module = path.relative_to(SOURCE).as_posix()
        for name, text in _docstrings(ast.parse(path.read_text(encoding="utf-8"))):
            implements, differs = _line(text, "Implements"), _line(text, "Differs")
            if implements or differs:
                found.append(Entry(module, name, implements, differs))
    return found


def _docstrings(tree: ast.Module) -> Iterator[tuple[str, str]]:
    def walk(node: ast.AST, prefix: str) -> Iterator[tuple[str, str]]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef | ast.ClassDef):
                name = f"{prefix}{child.name}"
                yield name, ast.get_docstring(child) or ""
                yield from walk(child, f"{name}.")

    yield "", ast.get_docstring(tree) or ""
    yield from walk(tree, "")


def _line(text: str, key: str) -> str:
    """The paragraph that begins with `key:`, on one line and without its full stop."""
    match = re.search(
        rf"^\s*{key}: (.*?)(?=\n\s*\n|\n\s*(?:Implements|Differs): |\Z)",
        text,
        re.DOTALL | re.MULTILINE,
    )
    return " ".join(match.group(1).split()).rstrip(".") if match else ""


def parts(implements: str) -> list[tuple[str, str]]:
    """Split into (paper, equations).

    A source that is none of the papers is ("", all of the text).
    """
    keys = list(_KEY.finditer(implements))
    if not keys:
        return [("", implements)] if implements else []
    ends = [*(key.start() for key in keys[1:]), len(implements)]
    return [
        (key.group(1), re.sub(r"^[\s,:]+|[\s,;.]+$|\s+and\s*$", "", implements[key.end() : end]))
        for key, end in zip(keys, ends)
    ]


class Tests:
    """Which test files use which names and modules."""

    def __init__(self) -> None:
        public = {f"md.{name}": place.split(":")[0] for name, place in minidyn._WHERE.items()}
        papers = {
            f"md.papers.{name}": getattr(minidyn.papers, name) for name in minidyn.papers.__all__
        }
        public |= {name: value.__module__ for name, value in papers.items() if callable(value)}
        files = [path for path in sorted(TESTS.rglob("*.py")) if path.name.startswith("test_")]
        self._used = {path.relative_to(TESTS).as_posix(): _used(path, public) for path in files}
        self._callers: dict[str, set[str]] = {}
        for path in sorted(SOURCE.rglob("*.py")):
            own = _module(path.relative_to(SOURCE).as_posix())
            for module in _used(path, {})[1]:
                self._callers.setdefault(module, set()).add(own)

    def of(self, entry: Entry) -> list[str]:
        """Test files that use a function, else its module, else a module that imports it.

        Files named after the module come first, then the papers' tables.
        """
        name, module = entry.name.split(".")[-1], _module(entry.module)
        found = [
            where
            for where, (names, modules) in self._used.items()
            if module in modules and name in names
        ]
        if not found and "." in entry.name:
            found = [where for where, (names, _) in self._used.items() if name in names]
        level, seen = {module}, {module}
        while not found and level:
            found = [where for where, (_, modules) in self._used.items() if modules & level]
            level = {caller for one in level for caller in self._callers.get(one, ())} - seen
            seen |= level
        stem = Path(entry.module).stem
        found += [
            where
            for where in self._used
            if Path(where).stem == f"test_{stem}" and where not in found
        ]
        found.sort(key=lambda where: (stem not in where, not where.startswith("golden/"), where))
        return found


@cache
def _tests() -> Tests:
    return Tests()


def _module(path: str) -> str:
    return "minidyn." + path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def _used(path: Path, public: dict[str, str]) -> tuple[set[str], set[str]]:
    """Identifiers in a file, and the modules it takes names from: by import, or as md.name."""
    names: set[str] = set()
    modules: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Attribute):
            names.add(node.attr)
            if _dotted(node) in public:
                modules.add(public[_dotted(node)])
        elif isinstance(node, ast.ImportFrom) and node.module:
            modules |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
            names |= {alias.name for alias in node.names}
    return names, modules


def _dotted(node: ast.expr) -> str:
    """A name with its dots, "" where it is something else.

    Unparsing every expression takes seconds.
    """
    if isinstance(node, ast.Attribute):
        return f"{_dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def page(most: int = 3) -> str:
    """The text of docs/equations.md, with so many tests a function at the most."""
    tests, every = _tests(), entries()
    lines = [
        "# Equations",
        "",
        (
            "Which equation of which paper is implemented where, and up to three tests that look "
            "at it. Made from the"
        ),
        (
            "docstrings by `python docs/make_equations.py`; edit those. Corrections to the papers "
            "are marked ERRATA. Below"
        ),
        (
            "each table, all numbered items: equations, theorems, tables, figures, others, and "
            "why some are no function."
        ),
    ]
    rows: dict[str, list[tuple[tuple[object, ...], str]]] = {key: [] for key in (*PAPERS, "")}
    for entry in every:
        for paper, equations in parts(entry.implements):
            rows[paper].append(
                (_order(equations, entry), _row(equations, entry, tests.of(entry)[:most]))
            )
    for paper, found in rows.items():
        if not found:
            continue
        lines += ["", f"## {paper or 'Other sources'}", ""]
        if paper:
            lines += [f"{PAPERS[paper]}, {paper[-4:]}.", ""]
        lines += ["| equation | function | tests |", "|---|---|---|"]
        lines += [text for _, text in sorted(found)]
        if paper:
            lines += ["", f"All numbered items of {paper}:", "", "| item | where |", "|---|---|"]
            lines += [f"| {names} | {_cell(where)} |" for names, where in _items(paper, every)]
    lines += ["", "## Where the code differs", "", "| function | difference |", "|---|---|"]
    lines += [f"| {_link(entry)} | {_cell(entry.differs)} |" for entry in every if entry.differs]
    return "\n".join(lines) + "\n"


def _items(paper: str, every: list[Entry], most: int = 3) -> list[tuple[str, str]]:
    """Every numbered item of a paper and where it lives, up to so many functions, or why nowhere.

    Equal ones joined.
    """
    places: dict[str, list[str]] = {item: [] for item in every_item(paper)}
    for entry in every:
        said = {
            item
            for name, text in parts(entry.implements)
            if name == paper
            for item in items_in(text)
        }
        for item in said & places.keys():
            places[item].append(_link(entry))
    for home in HOMES[paper]:
        module, _, name = home.symbol.partition(":")
        path = module.removeprefix("minidyn.").replace(".", "/") + ".py"
        link = _link(Entry(path, name, "", "")) if home.symbol else ""
        for item in items_in(home.items):
            places[item].append(
                ": ".join(part for part in (link, home.words) if part)
                if home.symbol
                else home.words
            )
    rows: list[tuple[str, str, str]] = []
    for item, found in places.items():
        where = ", ".join(list(dict.fromkeys(found))[:most])
        if rows and rows[-1][2] == where and rows[-1][1].split(" ")[0][0] == item[0]:
            rows[-1] = (rows[-1][0], item, where)
        else:
            rows.append((item, item, where))
    return [
        (first if first == last else f"{first} to {last}", where) for first, last, where in rows
    ]


def _row(equations: str, entry: Entry, tests: list[str]) -> str:
    shown = ", ".join(f"[{Path(where).stem}](../tests/{where})" for where in tests)
    return f"| {_cell(equations)} | {_link(entry)} | {shown or 'none'} |"


def _order(equations: str, entry: Entry) -> tuple[object, ...]:
    """By the first number of an equation; appendices, theorems and tables after."""
    match = re.match(r"eq\. \((\d+)\)", equations)
    return (int(match.group(1)) if match else 1000, equations, entry.module, entry.name)


def _link(entry: Entry) -> str:
    module = entry.module.removesuffix(".py").replace("/", ".")
    return f"[{module}{'.' + entry.name if entry.name else ''}](../src/minidyn/{entry.module})"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
