"""The figures of the house: sizes, constants, who imports whom, what the main walk touches.

    python tools/house.py            # figures of the source alone, some seconds
    python tools/house.py --walk     # also runs robot.urdf + log.csv -> identify -> ... -> export
    python tools/house.py --ratchet  # fails where a figure rose above tools/house_figures.json
    python tools/house.py --lower    # writes figures that fell into that file

Size is counted in nodes of the syntax tree, statements and expressions, docstrings apart: layout
does not change it. A numeric constant at module level has its reason in one line: a comment above
or beside it, or a docstring below. It counts as one that decides something about a fit, a grid, a
verdict or a notice, unless that line begins with a word of NOT_DECIDING, "size: samples read at
once".

A file counts as touched by the walk when one of its functions is called; importing it does not
count.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import inspect
import io
import json
import os
import sys
import tempfile
import threading
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

SOURCE = Path(__file__).parent.parent / "src" / "minidyn"
FIGURES = Path(__file__).with_name("house_figures.json")
DECIDING = ("identification", "recording.prepare")
"""Packages whose constants are counted: what a fit gives is decided there."""
NOT_DECIDING = ("size:", "rounding:", "formula:")
"""First words of the reasons of other constants: sizes of pieces and buffers, tolerances of
rounding, coefficients and tables of a formula."""

STAGES = (
    "errors",
    "notices",
    "arrays",
    "text",
    "files",
    "display",
    "pages",
    "graph",
    "model",
    "formats",
    "dynamics",
    "base",
    "papers",
    "codegen",
    "recording",
    "control",
    "simulation",
    "excitation",
    "identification",
    "app",
)
"""The packages and modules of the root, in the order in which they may import each other."""


@dataclass(frozen=True)
class Module:
    """One source file.

    Attributes:
        name: Dotted, without "minidyn.".
        path: The file.
        top: Modules it imports when it is imported.
        late: Modules it imports inside functions.
    """

    name: str
    path: Path
    top: frozenset[str]
    late: frozenset[str]

    @property
    def stage(self) -> str:
        """The first part of the name; "" for the package's own files."""
        return "" if self.name in ("", "__main__") else self.name.split(".")[0]

    @property
    def lines(self) -> int:
        """Lines of text."""
        return len(self.path.read_text().splitlines())


@cache
def modules(source: Path = SOURCE) -> dict[str, Module]:
    """Return all modules by name."""
    paths = {}
    for path in sorted(source.rglob("*.py")):
        parts = path.relative_to(source).with_suffix("").parts
        paths[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return {name: _module(name, path, set(paths)) for name, path in paths.items()}


def _module(name: str, path: Path, known: set[str]) -> Module:
    top: set[str] = set()
    late: set[str] = set()

    def visit(node: ast.AST, inside: bool) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.dump(child.test):
                continue
            if (
                isinstance(child, ast.ImportFrom)
                and (child.module or "").split(".")[0] == "minidyn"
            ):
                below = (child.module or "").removeprefix("minidyn").lstrip(".")
                for alias in child.names:
                    whole = f"{below}.{alias.name}".lstrip(".")
                    (late if inside else top).add(whole if whole in known else below)
            elif isinstance(child, ast.Import):
                for alias in child.names:
                    if alias.name.split(".")[0] == "minidyn":
                        (late if inside else top).add(
                            alias.name.removeprefix("minidyn").lstrip(".")
                        )
            visit(child, inside or isinstance(child, ast.FunctionDef | ast.Lambda))

    visit(ast.parse(path.read_text()), False)
    return Module(name, path, frozenset(top & known) - {name}, frozenset(late & known) - {name})


@dataclass(frozen=True)
class Constant:
    """A numeric constant at module level.

    Attributes:
        name: With its module.
        reason: The line that explains it; "" where there is none.
    """

    name: str
    reason: str

    @property
    def is_deciding(self) -> bool:
        """Whether it decides something about a fit, a grid, a verdict or a notice."""
        return not self.reason.lower().startswith(NOT_DECIDING)


def nodes(text: str) -> int:
    """Return the statements and expressions of a source, docstrings apart."""
    tree = ast.parse(text)
    every = list(ast.walk(tree))
    documented = [
        node
        for node in every
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and ast.get_docstring(node, clean=False) is not None
    ]
    return sum(isinstance(node, ast.stmt | ast.expr) for node in every) - 2 * len(documented)


def constants(module: str, text: str) -> Iterator[Constant]:
    """Yield the numeric constants at the level of a module with their reasons."""
    comments = {
        token.start[0]: token.string.lstrip("#: ")
        for token in tokenize.generate_tokens(io.StringIO(text).readline)
        if token.type == tokenize.COMMENT
    }
    lines, body = text.splitlines(), ast.parse(text).body
    for statement, below in zip(body, [*body[1:], None]):
        if not isinstance(statement, ast.Assign | ast.AnnAssign) or statement.value is None:
            continue
        if not any(map(_is_number, ast.walk(statement.value))):
            continue
        above, last = statement.lineno - 1, statement.end_lineno or statement.lineno
        while above and lines[above - 1].startswith("#"):
            above -= 1
        reasons = [comments[line] for line in range(above + 1, last + 1) if line in comments]
        if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant):
            reasons.insert(0, str(below.value.value))
        targets = [statement.target] if isinstance(statement, ast.AnnAssign) else statement.targets
        name = f"{module}.{ast.unparse(targets[0])}"
        yield Constant(name, reasons[0] if reasons else "")


def _is_number(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and type(node.value) in (int, float)


def counted() -> tuple[dict[str, int], list[Constant]]:
    """Return the figures that may only fall, and the constants of DECIDING."""
    sizes, found = {"src": 0, "folders": 0}, list[Constant]()
    for name, module in modules().items():
        text = module.path.read_text(encoding="utf-8")
        sizes["src"] += nodes(text)
        if f"{name}.".startswith(tuple(f"{package}." for package in DECIDING)):
            sizes["folders"] += nodes(text)
            found += constants(name, text)
    deciding = [constant for constant in found if constant.is_deciding]
    folders = " and ".join(DECIDING)
    figures = {
        "nodes of src": sizes["src"],
        f"nodes of {folders}": sizes["folders"],
        f"numeric constants of {folders}": len(found),
        "of these, deciding": len(deciding),
        "of these, without a reason": sum(not constant.reason for constant in deciding),
    }
    return figures, found


def raised(figures: dict[str, int], limits: dict[str, int]) -> list[str]:
    """Return the figures above their limits, in words."""
    return [
        f"{name}: {value}, at most {limits[name]} in {FIGURES.name}"
        for name, value in figures.items()
        if value > limits[name]
    ]


def cycles(found: dict[str, Module]) -> list[tuple[str, ...]]:
    """Return groups of modules that import each other in a circle, late imports included.

    A package's own file and what it re-exports count as one: importing a module imports its package
    first.
    """
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    groups: list[tuple[str, ...]] = []

    def connect(name: str) -> None:
        index[name] = low[name] = len(index)
        stack.append(name)
        for other in sorted(found[name].top | found[name].late):
            if other not in index:
                connect(other)
                low[name] = min(low[name], low[other])
            elif other in stack:
                low[name] = min(low[name], index[other])
        if low[name] == index[name]:
            group = []
            while True:
                group.append(stack.pop())
                if group[-1] == name:
                    break
            if len(group) > 1:
                groups.append(tuple(sorted(group)))

    sys.setrecursionlimit(10_000)
    for name in found:
        if name not in index:
            connect(name)
    return groups


def against_the_order(found: dict[str, Module]) -> list[str]:
    """Return every import of a later stage by an earlier one, and every module of an unknown
    stage.
    """
    wrong = []
    for module in found.values():
        if module.stage == "":
            continue
        if module.stage not in STAGES:
            wrong.append(f"{module.name}: {module.stage!r} is no stage of tools/house.py")
            continue
        for other in sorted(module.top | module.late):
            stage = other.split(".")[0]
            if stage and (stage not in STAGES or STAGES.index(stage) > STAGES.index(module.stage)):
                wrong.append(f"{module.name} imports {other}")
    return wrong


class Touched:
    """Which functions of minidyn are called while the context is open."""

    def __init__(self) -> None:
        self.functions: set[tuple[str, str]] = set()

    def __enter__(self) -> Touched:
        sys.setprofile(self._seen)
        threading.setprofile(self._seen)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]

    def _seen(self, frame: object, event: str, _: object) -> None:
        if event == "call":
            code = frame.f_code  # type: ignore[attr-defined]
            # bodies of modules and classes run on import and do not count
            if code.co_flags & inspect.CO_OPTIMIZED and code.co_filename.startswith(str(SOURCE)):
                self.functions.add((code.co_filename, code.co_qualname))

    @property
    def files(self) -> set[str]:
        """Their files."""
        return {name for name, _ in self.functions}


def walk() -> dict[str, Touched]:
    """Run robot.urdf + log.csv -> identify -> validate -> report -> export.

    Return what each step touched.
    """
    import minidyn as md

    for name in modules():  # what happens while a file is imported is not part of the walk
        if name != "__main__":
            importlib.import_module(f"minidyn.{name}".rstrip("."))
    for name in md.__all__:
        getattr(md, name)
    touched = {
        step: Touched() for step in ("load", "read", "identify", "validate", "report", "export")
    }
    with tempfile.TemporaryDirectory() as folder:
        here = Path(folder)
        known = md.load("ur10e")
        md.save(known, here / "robot.urdf")
        motion = md.trajectory.fourier(known, seed=1)
        law = md.control.computed_torque(known, bandwidth=10)
        run = md.simulate(known, law, motion, 10.0, noise=1e-5, torque_noise=0.2)
        for name, part in (
            ("log.csv", run[:7000]),
            ("test.csv", run[7000:]),
        ):  # as robots log: no accelerations
            md.Recording(part.t, part.q, part.tau, joint_names=known.joint_names).save(here / name)
        with touched["load"]:
            robot = md.load(here / "robot.urdf")
        with touched["read"]:
            log = md.read_recording(here / "log.csv", robot)
            test = md.read_recording(here / "test.csv", robot)
        with touched["identify"]:
            estimate = md.identify(robot, log)
        with touched["validate"]:
            validation = md.validate(estimate, test)
        with touched["report"]:
            md.report(estimate, validation, here / "report.html")
        with touched["export"]:
            estimate.export(here / "out")
    return touched


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--walk", action="store_true", help="also run the main walk and count what it touches"
    )
    parser.add_argument("--list", action="store_true", help="name the files behind the figures")
    parser.add_argument("--ratchet", action="store_true", help="fail where a figure rose")
    parser.add_argument("--lower", action="store_true", help="lower the limits of --ratchet")
    options = parser.parse_args()
    figures, numbers = counted()
    limits = json.loads(FIGURES.read_text(encoding="utf-8"))
    if options.lower:
        limits = {name: min(value, limits.get(name, value)) for name, value in figures.items()}
        FIGURES.write_text(json.dumps(limits, indent=2) + "\n", encoding="utf-8")
    if options.ratchet:
        sys.exit("\n".join(raised(figures, limits)) or None)
    found = modules()
    circles = cycles(found)
    rows: list[tuple[str, object]] = [
        ("files", len(found)),
        ("lines", sum(module.lines for module in found.values())),
        *figures.items(),
        ("groups of files that import each other (goal: 0)", len(circles)),
        ("imports against the order (goal: 0)", len(against_the_order(found))),
    ]
    if options.walk:
        steps = walk()
        everything = set().union(*(step.functions for step in steps.values()))
        rows += [
            ("files the main walk touches", len({name for name, _ in everything})),
            ("functions the main walk touches", len(everything)),
            ("files identify touches", len(steps["identify"].files)),
        ]
    for name, value in rows:
        print(f"{name:62s} {value}")
    if options.list:
        for constant in numbers:
            kind = "decides" if constant.is_deciding else "other"
            print(f"{kind:13s} {constant.name}  {constant.reason.splitlines()[:1]}")
        for group in circles:
            print("circle        " + ", ".join(group))
        for line in against_the_order(found):
            print("order         " + line)
        if options.walk:
            for step, what in steps.items():
                for file in sorted(what.files):
                    print(f"{step:13s} {os.path.relpath(file, SOURCE)}")


if __name__ == "__main__":
    main()
