"""What the documentation site needs beyond Markdown: pages kept elsewhere, and the reference of public names."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
ELSEWHERE = {
    "benchmarks/README.md": "benchmarks.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
}
"""Pages that live outside docs/, and their names in the site."""

_LINK = re.compile(r"\[([^\]\[]*)\]\(([^()\s]+)\)")
_FENCE = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)
_ROLE = re.compile(r":(?:func|class|mod|meth|attr):(?=<code>)")
MARK = "<!-- public names -->"
HELP = "<!-- help of every verb -->"


def on_config(config: Any) -> Any:
    """Leave pages out of the navigation that are not there (yet)."""
    config["nav"] = _existing(config["nav"])
    return config


def _existing(entry: Any) -> Any:
    if isinstance(entry, list):
        return [kept for kept in map(_existing, entry) if kept]
    if isinstance(entry, dict):
        inner = {title: _existing(value) for title, value in entry.items()}
        return {title: value for title, value in inner.items() if value}
    return entry if entry in ELSEWHERE.values() or (ROOT / "docs" / entry).exists() else None


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that live outside docs/."""
    for source, name in ELSEWHERE.items():
        text = (ROOT / source).read_text(encoding="utf-8")
        files.append(File.generated(config, name, content=_relinked(text, (ROOT / source).parent)))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Write out the public names; links to files that are no pages become plain text."""
    if MARK in markdown:
        markdown = markdown.replace(MARK, public_names())
    if HELP in markdown:
        markdown = markdown.replace(HELP, verbs_help())
    if page.file.src_uri in ELSEWHERE.values():
        return markdown
    return _relinked(markdown, (ROOT / "docs" / page.file.src_uri).parent)


def _relinked(text: str, folder: Path) -> str:
    """Return the page with its links as they are in the site.

    Args:
        text: Markdown, its links relative to `folder`.
        folder: Where the page stands in the repository.
    """

    def replaced(match: re.Match[str]) -> str:
        label, target = match.groups()
        place, mark, anchor = target.partition("#")
        if not place or re.match(r"\w+:", place):
            return match.group()
        goal = (folder / place).resolve()
        within = goal.relative_to(ROOT).as_posix() if goal.is_relative_to(ROOT) else ""
        if within in ELSEWHERE:
            here = folder if folder.is_relative_to(ROOT / "docs") else ROOT / "docs"
            return f"[{label}]({os.path.relpath(ROOT / 'docs' / ELSEWHERE[within], here)}{mark}{anchor})"
        if goal.is_relative_to(ROOT / "docs"):
            if folder.is_relative_to(ROOT / "docs"):
                return match.group()
            return f"[{label}]({os.path.relpath(goal, ROOT / 'docs')}{mark}{anchor})"
        return label if label.startswith("`") else f"`{label}`"

    parts = _FENCE.split(text)  # code stays as it is
    return "".join(part if part.startswith("```") else _LINK.sub(replaced, part) for part in parts)


def public_names() -> str:
    """Return the reference of all public names, in the groups of the package's own list."""
    import minidyn

    source = Path(str(minidyn.__file__)).with_suffix(".pyi").read_text(encoding="utf-8").partition("# modules")[0]
    lines: list[str] = []
    for title, name in re.findall(r"^(?:# (?!ruff)(.*)|from .* as (\w+))$", source, re.MULTILINE):
        if title:
            lines += ["", f"## {title[0].upper()}{title[1:]}", ""]
        else:
            lines += [*_entry(minidyn._WHERE[name].replace(":", "."), f"md.{name}"), ""]
    for name, module in minidyn._MODULES.items():
        lines += ["", f"## md.{name}", "", *_entry(module, f"md.{name}", "      show_root_heading: false"), ""]
    return "\n".join(lines)


def verbs_help() -> str:
    """Return the help of every verb, as the terminal shows it."""
    import click

    from minidyn.app.cli.main import main

    lines = []
    for name in main.list_commands(None):
        verb = main.get_command(None, name)
        context = click.Context(verb, info_name=f"minidyn {name}", terminal_width=100)
        lines += [f"### {name}", "", "```text", verb.get_help(context), "```", ""]
    return "\n".join(lines)


def _entry(path: str, name: str, *options: str) -> list[str]:
    return [f"::: {path}", "    options:", f'      heading: "{name}"', f'      toc_label: "{name}"', *options]


def on_page_content(html: str, page: Any, config: Any, files: Files) -> str:
    """Docstrings name other functions as :func:`name`; the site shows the name alone."""
    return _ROLE.sub("", html)
