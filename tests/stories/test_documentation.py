"""The documentation says what the program does.

Code and commands run, numbers are true, links lead somewhere. In every page the blocks marked
`python` run in order in one namespace; ones marked `py` do not. Where a statement is followed by a
comment that begins with a Python value, such as `# 33` or `# (4, 40): tau = ...`, the statement has
that value, or that shape. Where the next block is marked `text`, it is what the block prints.
Blocks marked `pycon` are doctests. Lines that begin with four spaces and `minidyn` are commands;
they and the code run in the order of the page, in a folder of the page's own; blocks with a title,
as in `toml title="study.toml"`, are files there.
"""

from __future__ import annotations

import ast
import contextlib
import doctest
import io
import re
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
import pytest
from click.testing import CliRunner

import minidyn as md
from minidyn.app.cli.main import main

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
LINKED = [
    *PAGES,
    *(ROOT / name for name in ("CONTRIBUTING.md", "CHANGELOG.md", "benchmarks/README.md")),
]
LINKED += [ROOT / "examples" / "README.md"]

_BLOCK = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_COMMAND = re.compile(r"^    (minidyn (?:.*\\\n)*.*)$", re.MULTILINE)
_LINK = re.compile(r"\]\(([^()\s]+)\)")
_NAMED = re.compile(r'title="([\w.-]+)"')
_CLAIM = re.compile(r"\S\s+# (.*)$")


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


pages = pytest.mark.parametrize("page", PAGES, ids=name_of)
# what takes long on them runs in every run by examples/ and by laws: designs, friction terms,
# loads, reports, studies
SLOW = {
    f"docs/{name}.md"
    for name in (
        *("excitation", "friction", "control", "estimators", "comparing-methods"),
        *(
            "payloads",
            "report",
            "study-files",
            "validation",
            "operation-counts",
            "how-to/motor-currents",
        ),
    )
}


@dataclass(frozen=True)
class Block:
    """A fenced block: what it is marked as, its text, and what the next block must hold if it is
    output.
    """

    kind: str
    text: str
    output: str | None


def blocks(text: str) -> list[Block]:
    found = [(match.group(1).strip(), match.group(2)) for match in _BLOCK.finditer(text)]
    after = [*found[1:], ("", "")]
    return [
        Block(kind, body, then[1] if then[0] == "text" else None)
        for (kind, body), then in zip(found, after)
    ]


def claimed(line: str) -> tuple[bool, Any]:
    """Return whether a line ends with a comment that begins with a value, and the value."""
    match = _CLAIM.search(line)
    for text in (match.group(1), match.group(1).partition(":")[0]) if match else ():
        with contextlib.suppress(ValueError, SyntaxError):
            return True, ast.literal_eval(text)
    return False, None


def run(block: Block, scope: dict[str, Any], where: str) -> int:
    """Run a block; return how many values it claims, all of them true."""
    claims = 0
    printed = io.StringIO()
    lines = block.text.splitlines()
    with contextlib.redirect_stdout(printed):
        for statement in ast.parse(block.text, where).body:
            value: Any = None
            if isinstance(statement, ast.Expr):
                value = eval(compile(ast.Expression(statement.value), where, "eval"), scope)  # noqa: S307
            else:
                exec(compile(ast.Module([statement], []), where, "exec"), scope)  # noqa: S102
            if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
                value = scope[statement.targets[0].id]
            told, expected = claimed(lines[(statement.end_lineno or 1) - 1])
            if told and value is not None:
                claims += 1
                found = (
                    value.shape
                    if isinstance(expected, tuple) and hasattr(value, "shape")
                    else value
                )
                assert found == expected, f"{where}: {ast.unparse(statement)}"
    if block.output is not None:
        assert printed.getvalue() == block.output, where
    return claims


def invoke(command: str) -> None:
    """Run a command line of a page."""
    arguments = shlex.split(command.replace("\\\n", " "), comments=True)[1:]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 0, f"{command}\n{result.output}\n{result.exception!r}"


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize(
    "page",
    [
        pytest.param(p, marks=[pytest.mark.long] if name_of(p) in SLOW else [], id=name_of(p))
        for p in PAGES
    ],
)
def test_code_and_commands_run_and_tell_the_truth(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    mpl.use("Agg")
    text = page.read_text(encoding="utf-8")
    scope: dict[str, Any] = {"__name__": "__main__"}
    fenced = [match.span() for match in _BLOCK.finditer(text)]
    found: list[tuple[int, Block | str]] = list(zip((begin for begin, _ in fenced), blocks(text)))
    found += [
        (match.start(), match.group(1))
        for match in _COMMAND.finditer(text)
        if not any(begin <= match.start() < end for begin, end in fenced)
    ]
    for _, item in sorted(found, key=lambda pair: pair[0]):
        if isinstance(item, str):
            invoke(item)
        elif named := _NAMED.search(item.kind):
            Path(named.group(1)).write_text(item.text, encoding="utf-8")
        elif item.kind.split()[:1] == ["python"]:
            assert item.kind == "python", (
                f"{item.kind!r} is no mark that the site knows; `py` is not run"
            )
            run(item, scope, name_of(page))
    if ">>> " in text:
        failed, tried = doctest.testfile(str(page), module_relative=False)
        assert tried > 0
        assert failed == 0


@pytest.mark.parametrize("page", LINKED, ids=name_of)
def test_links_lead_somewhere(page: Path) -> None:
    text = _BLOCK.sub("", page.read_text(encoding="utf-8"))
    for target in _LINK.findall(text):
        place, _, anchor = target.partition("#")
        if re.match(r"\w+:", place):
            continue
        goal = (page.parent / place).resolve() if place else page
        assert goal.exists(), f"{name_of(page)}: no file {target}"
        if anchor:
            headings = re.findall(r"^#+ (.*)$", goal.read_text(encoding="utf-8"), re.MULTILINE)
            assert anchor in {
                re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in headings
            }, target


def test_the_pages_are_seen() -> None:
    """What this file looks for is there: otherwise it could not fail."""
    text = {name_of(page): page.read_text(encoding="utf-8") for page in PAGES}
    assert sum(len([b for b in blocks(body) if b.kind == "python"]) for body in text.values()) > 15
    assert len(_COMMAND.findall(text["README.md"])) >= 5
    assert sum(len(_LINK.findall(body)) for body in text.values()) > 100
    assert text["docs/base-parameters.md"].count(">>> ") > 15
    scope: dict[str, Any] = {}
    claims = [
        run(block, scope, "")
        for block in blocks(text["docs/regressors.md"])
        if block.kind == "python"
    ]
    assert sum(claims) >= 10
    assert any(block.output for block in blocks(text["docs/regressors.md"]))


@pytest.mark.parametrize(
    "text",
    [
        "```python\n1 + 1  # 3\n```\n",
        "```python\nimport numpy as np\na = np.zeros((2, 3))  # (3, 2): wrong\n```\n",
        '```python\nprint("a")\n```\n\n```text\nb\n```\n',
    ],
)
def test_untruths_are_found(text: str) -> None:
    with pytest.raises(AssertionError):
        run(blocks(text)[0], {}, "page")


def test_cost_along_a_reference() -> None:
    page = (ROOT / "docs" / "regressors.md").read_text(encoding="utf-8")
    robot = md.load("ur10e")
    plain, along = (
        md.compile(robot, what).counts["mul"] for what in ("regressor", "slotine_li_regressor")
    )
    assert f"{along} multiplications against {plain}" in page


@pages
def test_what_is_printed_is_shown(page: Path) -> None:
    for block in blocks(page.read_text(encoding="utf-8")):
        if block.kind == "python" and re.search(r"^\s*print\(", block.text, re.MULTILINE):
            assert block.output is not None, (
                f"{name_of(page)}: no output is shown for\n{block.text}"
            )


@pages
def test_pages_need_nothing_from_outside_the_package(page: Path) -> None:
    assert "../shared" not in page.read_text(encoding="utf-8")


@pages
def test_every_call_named_exists(page: Path) -> None:
    for name in re.findall(r"`md\.(\w+)", page.read_text(encoding="utf-8")):
        assert getattr(md, name) is not None, name
