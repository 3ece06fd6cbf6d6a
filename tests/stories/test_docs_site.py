"""The documentation site.

Builds without a warning, needs nothing from elsewhere, leaves no page and no name out.
"""

from __future__ import annotations

import html
import os
import posixpath
import re
import subprocess
import sys
import time
from pathlib import Path
from urllib.parse import unquote

import pytest

import minidyn as md
from chromium import Browser, find_chromium
from minidyn.app.cli.main import main

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
_SOURCE = re.compile(r'<(?:script|link|img|iframe|source|video)\b[^>]*?\b(?:src|href)="([^"]+)"')
_ANCHOR = re.compile(r'<a\b[^>]*?\bhref="([^"]+)"')


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site."""
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        cwd=ROOT,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr
    return folder


def test_every_page_is_built_and_in_the_navigation(site: Path) -> None:
    names = {path.relative_to(DOCS).with_suffix(".html").as_posix() for path in DOCS.rglob("*.md")}
    assert names <= {path.relative_to(site).as_posix() for path in site.rglob("*.html")}
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:")[2]
    missing = [name for name in names if name.replace(".html", ".md") not in navigation]
    assert missing == [], "pages that no menu of mkdocs.yml leads to"


def test_nothing_is_fetched_from_elsewhere(site: Path) -> None:
    pages = list(site.rglob("*.html"))
    assert len(pages) > 20
    for page in pages:
        for target in _SOURCE.findall(page.read_text(encoding="utf-8")):
            assert not re.match(r"(?:https?:)?//", target), f"{page.name}: {target}"
    for sheet in site.rglob("*.css"):
        assert not re.search(
            r"url\(['\"]?(?:https?:)?//|@import", sheet.read_text(encoding="utf-8")
        ), sheet.name


def test_links_lead_somewhere(site: Path) -> None:
    pages = {
        page.relative_to(site).as_posix(): page.read_text(encoding="utf-8")
        for page in site.rglob("*.html")
    }
    anchors = {name: set(re.findall(r'\bid="([^"]+)"', text)) for name, text in pages.items()}
    checked = 0
    for name, text in pages.items():
        for target in set(_ANCHOR.findall(text)) if name != "404.html" else ():
            place, _, anchor = html.unescape(target).partition("#")
            if re.match(r"\w+:|//", place):
                continue
            goal = (
                posixpath.normpath(posixpath.join(posixpath.dirname(name), unquote(place)))
                if place
                else name
            )
            goal = "index.html" if goal == "." else goal
            assert goal in pages or (site / goal).is_file(), f"{name}: {target}"
            if anchor and anchor != "__skip" and goal in pages:
                wanted = unquote(anchor)
                assert {wanted, html.escape(wanted)} & anchors[goal], f"{name}: {target}"
            checked += 1
    assert checked > 500


def test_every_public_name_is_in_the_reference(site: Path) -> None:
    pages = {page.name: page.read_text(encoding="utf-8") for page in site.glob("api-*.html")}
    assert len(pages) > 6, "one page a stage"
    assert max(map(len, pages.values())) < 600_000
    text = "".join(pages.values())
    shown = set(re.findall(r'<h3 id="[^"]*" class="doc doc-heading">\s*md\.(\w+)', text))
    where = {name: place.replace(":", ".") for name, place in md._WHERE.items()}
    listed = (site / "api.html").read_text(encoding="utf-8")
    for name, place in where.items():
        assert f'id="{place}"' in text, f"md.{name} is not documented"
        assert f"<code>md.{name}</code>" in listed, f"md.{name} is not in the list of all names"
    assert set(where) <= shown, "names under which they are used"


def test_nothing_in_a_docstring_or_page_is_taken_for_a_tag() -> None:
    """Words such as <dynamics> stand in backticks: browsers would swallow them."""
    texts = {f"md.{name}": getattr(md, name).__doc__ or "" for name in md._WHERE}
    for name in md._WHERE:
        value = getattr(md, name)
        members = vars(value).items() if isinstance(value, type) else ()
        texts |= {
            f"md.{name}.{key}": one.__doc__ or "" for key, one in members if not key.startswith("_")
        }
    for page in sorted(DOCS.rglob("*.md")):
        body = re.sub(
            r"^```.*?^```$|^(?: {4}|\t).*$|<!--.*?-->",
            "",
            page.read_text(encoding="utf-8"),
            flags=re.M | re.S,
        )
        texts[page.name] = body
    for name, text in texts.items():
        plain = re.sub(r"`+[^`]*`+", "", text)
        assert not re.search(r"<[a-zA-Z/]", plain), (
            f"{name}: {re.findall(r'<[a-zA-Z/][^>]{0,20}', plain)}"
        )


def test_every_page_says_which_version_it_is_of(site: Path) -> None:
    for page in site.rglob("*.html"):
        assert f"minidyn {md.__version__}" in page.read_text(encoding="utf-8"), page.name


@pytest.mark.skipif(find_chromium() is None, reason="no Chromium found; .ci/run installs one")
@pytest.mark.parametrize("start", ["index.html", "how-to/ros2-logs.html"])
def test_search_works_from_the_file_system(site: Path, tmp_path: Path, start: str) -> None:
    with Browser(tmp_path / "profile") as browser:
        browser.open(site / start)
        browser.evaluate("document.querySelector('[for=__search]').click()")
        browser.evaluate(
            "(() => { const field = document.querySelector('.md-search__input'); field.focus();"
            " field.value = 'gear ratio'; field.dispatchEvent(new Event('keyup')); })()"
        )
        found: list[str] = []
        for _ in range(100):
            found = browser.evaluate(
                "[...document.querySelectorAll('.md-search-result__link')].map(a => a.href)"
            )
            if found:
                break
            time.sleep(0.1)
        assert found, browser.complaints()
        assert all(link.startswith("file://") for link in found)
        assert [
            text for text in browser.complaints() if not re.match("request: (file|data):", text)
        ] == []


def test_every_verb_is_in_the_page_on_the_command_line(site: Path) -> None:
    page = (DOCS / "command-line.md").read_text(encoding="utf-8")
    text = html.unescape((site / "command-line.html").read_text(encoding="utf-8"))
    for verb in main.commands:
        assert re.search(rf"^\| `{verb}[ `]", page, re.MULTILINE), f"{verb} is not in the table"
        assert f"Usage: minidyn {verb} " in text


def test_public_names_have_docstrings_that_tell_units_or_arguments() -> None:
    for name in md._WHERE:
        text = (getattr(md, name).__doc__ or "").strip()
        assert len(text) > 30, f"md.{name}: {text!r}"
        assert text.partition("\n\n")[0].endswith("."), f"md.{name}: it begins with a sentence"


def test_the_comparison_states_what_the_benchmarks_measured() -> None:
    page = (DOCS / "comparison.md").read_text(encoding="utf-8")
    tables = (ROOT / "benchmarks" / "README.md").read_text(encoding="utf-8")
    bounds = [
        (int(low), int(high))
        for low, high in re.findall(r"\| (\d+) to (\d+) \|$", page, re.MULTILINE)
    ]
    assert len(bounds) == 3
    row = (
        r"^\| (inertia matrix|inverse dynamics|forward dynamics|regressor|base regressor) \|(.*)\|$"
    )
    arrays, cache = [], []
    for name, cells in re.findall(row, tables, re.MULTILINE):
        ratios = [float(found) for found in re.findall(r"(\d+(?:\.\d+)?)x", cells)]
        found = re.search(r"((?:\d+x, )+\d+x)", cells)
        if found:
            arrays += [(name, float(ratio)) for ratio in re.findall(r"(\d+)x", found.group(1))]
        elif ratios:
            cache.append(ratios[0])
    plain = [ratio for name, ratio in arrays if "regressor" not in name]
    regressors = [ratio for name, ratio in arrays if "regressor" in name]
    for (low, high), measured in zip(bounds, (plain, regressors, cache)):
        assert len(measured) >= 4
        assert low <= min(measured), (low, min(measured))
        assert max(measured) <= high, (high, max(measured))


def test_messages_in_troubleshooting_are_the_programs_own() -> None:
    """Each quoted message consists of pieces that the source holds."""
    source = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "src").rglob("*.py"))
    source = re.sub(r'"\s*\n\s*f?"', "", source)  # texts are broken over lines
    page = (DOCS / "troubleshooting.md").read_text(encoding="utf-8")
    quoted = [
        text
        for row in re.findall(r"^\| ([^|]*) \|", page, re.MULTILINE)
        for text in re.findall(r"`([^`]+)`", row)
    ]
    assert len(quoted) >= 8
    for text in quoted:
        for piece in re.split(r"\.\.\.|unknown \w+ '[^']*'", text):
            words = piece.strip(" ;?:(),")
            known = words.startswith("did you mean") or words in source
            assert len(words) < 6 or known, f"{text!r}: no message has {words!r}"


RESULTS = (
    "comparison.md",
    "validation.md",
    "comparing-methods.md",
    "report.md",
    "../benchmarks/README.md",
)


def test_pages_of_theory_and_results_have_a_figure() -> None:
    theory = (
        (ROOT / "mkdocs.yml")
        .read_text(encoding="utf-8")
        .partition("- Theory:")[2]
        .partition("- Reference:")[0]
    )
    pages = [*re.findall(r": (\S+\.md)", theory), *RESULTS]
    assert len(pages) > 15
    for name in pages:
        figures = re.findall(
            r"!\[([^\]]{20,})\]\(([^)]+)\)", (DOCS / name).read_text(encoding="utf-8")
        )
        assert figures, f"{name} has no figure with a caption"
        assert all((DOCS / name).parent.joinpath(target).is_file() for _, target in figures), name


def test_figures_of_tables_show_the_tables() -> None:
    page = (DOCS / "comparison.md").read_text(encoding="utf-8")
    drawn = (DOCS / "figures" / "comparison.svg").read_text(encoding="utf-8")
    table = page.partition("<!-- peers: begin -->")[2].partition("<!-- peers: end -->")[0]
    shown = re.findall(r"\| ([\d.]+ %) \| [\d.]+ \|$", table, re.MULTILINE)
    assert len(shown) > 5
    for value in shown:
        assert value in drawn, f"{value}: draw anew with docs/figures/make_theory_figures.py"
