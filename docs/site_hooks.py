"""What the documentation site needs beyond Markdown.

Pages kept elsewhere, and the reference of public names.
"""

from __future__ import annotations

import os
import re
from importlib import import_module
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files
from mkdocs.utils import get_relative_url

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
    """Name the version, list the pages of the reference, leave pages out of the navigation that are
    not there (yet).
    """
    import minidyn

    config["site_name"] = f"minidyn {minidyn.__version__}"
    reference = [
        {"All names": "api.md"},
        *({_title(group): _page(group)} for group in names_by_stage()),
    ]
    config["nav"] = _with_reference(_existing(config["nav"]), reference)
    return config


def _with_reference(entry: Any, reference: list[Any]) -> Any:
    """Return the navigation with the page of the reference replaced by all of its pages."""
    if isinstance(entry, list):
        return [_with_reference(one, reference) for one in entry]
    if isinstance(entry, dict):
        return {title: _with_reference(value, reference) for title, value in entry.items()}
    return reference if entry == "api.md" else entry


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
    for group, names in names_by_stage().items():
        files.append(File.generated(config, _page(group), content=_reference(group, names)))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Write out the public names; links to files that are no pages become plain text."""
    if MARK in markdown:
        markdown = markdown.replace(MARK, public_names())
    if page.file.src_uri.startswith("api-"):
        return markdown
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
            return f"[{label}]({os.path.relpath(ROOT / 'docs' / ELSEWHERE[within], here)}{mark}{anchor})"  # noqa: E501
        if goal.is_relative_to(ROOT / "docs"):
            if folder.is_relative_to(ROOT / "docs"):
                return match.group()
            return f"[{label}]({os.path.relpath(goal, ROOT / 'docs')}{mark}{anchor})"
        return label if label.startswith("`") else f"`{label}`"

    parts = _FENCE.split(text)  # code stays as it is
    return "".join(part if part.startswith("```") else _LINK.sub(replaced, part) for part in parts)


def names_by_stage() -> dict[str, dict[str, str]]:
    """Return the public names, and what each is, in the groups of the package's own list."""
    import minidyn

    source = (
        Path(str(minidyn.__file__))
        .with_suffix(".pyi")
        .read_text(encoding="utf-8")
        .partition("# modules")[0]
    )
    groups: dict[str, dict[str, str]] = {}
    group: dict[str, str] = {}
    errors = {}
    for title, name in re.findall(r"^(?:# (?!ruff)(.*)|from .* as (\w+))$", source, re.MULTILINE):
        if title:
            group = groups.setdefault(title, {})
        elif not groups:
            errors[name] = minidyn._WHERE[name].replace(":", ".")
        else:
            group[name] = minidyn._WHERE[name].replace(":", ".")
    groups["modules"] = dict(minidyn._MODULES)
    groups["errors"] = errors | {"errors": "minidyn.errors"}
    return groups


def _title(group: str) -> str:
    return group[0].upper() + group[1:]


def _page(group: str) -> str:
    return f"api-{group.replace(' ', '-')}.md"


def _reference(group: str, names: dict[str, str]) -> str:
    """Return the page of a group: each name with its docstring."""
    import minidyn

    lines = [f"# {_title(group)}", ""]
    for name, place in names.items():
        whole = name in minidyn._MODULES or name == "errors"
        elsewhere = [
            other
            for other, where in minidyn._WHERE.items()
            if whole and where.partition(":")[0] == place
        ]
        filters = ", ".join(f'"!^{word}"' for word in ("_", *(f"{other}$" for other in elsewhere)))
        options = ["      show_root_heading: false", f"      filters: [{filters}]"] if whole else []
        lines += [f"## md.{name}", ""] if whole else []
        lines += [*_entry(place, f"md.{name}", *options), ""]
    return "\n".join(lines)


def public_names() -> str:
    """Return all public names with the first sentence of each and a link to its page."""
    import minidyn

    lines: list[str] = []
    for group, names in names_by_stage().items():
        lines += [
            f"## {_title(group)}",
            "",
            f"[All of it]({_page(group)}).",
            "",
            "| name | does |",
            "|---|---|",
        ]
        for name, place in names.items():
            text = (
                import_module(place)
                if name in minidyn._MODULES or name == "errors"
                else getattr(minidyn, name)
            ).__doc__
            first = (
                (text or "")
                .strip()
                .split("\n\n")[0]
                .replace("\n", " ")
                .replace("|", "\\|")
                .replace("<", "&lt;")
            )
            anchor = f"#{place}" if name not in minidyn._MODULES and name != "errors" else ""
            lines.append(f"| [`md.{name}`]({_page(group)}{anchor}) | {' '.join(first.split())} |")
        lines.append("")
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
    return [
        f"::: {path}",
        "    options:",
        f'      heading: "{name}"',
        f'      toc_label: "{name}"',
        *options,
    ]


def on_page_content(html: str, page: Any, config: Any, files: Files) -> str:
    """Docstrings name other functions as :func:`name`; the site shows the name alone."""
    return _ROLE.sub("", html)


_WORKER = (
    "https://unpkg.com/iframe-worker/shim"  # what the theme would fetch for search from file://
)


def on_post_page(output: str, page: Any, config: Any) -> str:
    """Take what search needs from file:// out of the site itself.

    Nothing is fetched from elsewhere.
    """
    return output.replace(_WORKER, get_relative_url("figures/worker.js", page.url))


def on_post_template(output_content: str, template_name: str, config: Any) -> str:
    """The same for pages that are no Markdown."""
    return output_content.replace(_WORKER, "/figures/worker.js")
