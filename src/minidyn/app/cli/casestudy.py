"""`minidyn casestudy`: tables and figures of the papers, computed again beside the printed ones."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from minidyn.app.cli.options import OneOf, constant, json_option, output_option
from minidyn.app.cli.text import print_json, print_table, progress, safe
from minidyn.text import plain

if TYPE_CHECKING:
    from minidyn.app.casestudies.study import Study

_STUDIES = constant("app.casestudies.run", "STUDIES")


@click.command()
@click.argument("name", type=OneOf(lambda: [*_STUDIES, "all"]))
@output_option("minidyn-out/casestudy", "Folder to write into, or the page to write: FILE.html.")
@click.option(
    "--with",
    "words",
    multiple=True,
    metavar="KEY=VALUE",
    help="Vary a setting, such as noise=0.1; repeat.",
)
@click.option("--every", is_flag=True, help="Print every value. Default: what does not agree.")
@json_option
def casestudy(name: str, output: str, words: tuple[str, ...], every: bool, as_json: bool) -> None:
    """Compute the tables and figures of a paper again, beside the printed ones.

    NAME is gautier-1991, lin-1992, lin-1994, lin-fang-1999, lu-meng, or all. Known errata of the
    print are marked.

    Example: minidyn casestudy lu-meng --with bandwidth=15 --output lu-meng.html
    """
    from minidyn.app.casestudies.run import (
        STUDIES,
        case_study,
        case_study_page,
        option_values,
        summary,
    )
    from minidyn.display import save_figure
    from minidyn.errors import MinidynError, UnknownName
    from minidyn.files import check_folder, check_outputs, made_folder, write_atomically

    if name != "all" and name not in STUDIES:
        raise UnknownName("case study", name, (*STUDIES, "all"))
    if name == "all" and words:
        raise MinidynError("--with: settings are those of one case study; name it instead of all")
    chosen = [name] if name != "all" else list(STUDIES)
    single = output.lower().endswith((".html", ".htm"))
    if single and len(chosen) > 1:
        raise MinidynError(f"--output {plain(output)}: all case studies need a folder")
    folder = check_folder(Path(output).parent if single else output)
    options = {one: option_values(one, words) for one in chosen}
    pages = {one: Path(output) if single else folder / f"{one}.html" for one in chosen}
    laws = [] if single or "lu-meng" not in chosen else ["modified_slotine_li", "craig"]
    recorded = [folder / f"{law}{ending}" for law in laws for ending in (".npz", ".png")]
    check_outputs([*pages.values(), *recorded])
    made_folder(folder)
    found: dict[str, Study] = {}
    for one in chosen:
        with progress(f"case study {one}"):
            found[one] = study = case_study(one, **options[one])
        write_atomically(pages[one], case_study_page(study).encode("utf-8"))
        for law, recording in study.recordings.items() if laws else ():
            recording.save(folder / f"{law}.npz")
            save_figure(recording.plot(law, estimated=["m4"], truth=[1.0]), folder / f"{law}.png")
    files = [str(path) for path in (*pages.values(), *recorded)]
    if as_json:
        whole = {one: study.to_json() for one, study in found.items()}
        print_json({**(whole[name] if name != "all" else whole), "files": files})
        return
    for one, study in found.items():
        _print(study, every)
        click.echo(f"{one}: {summary(study)}")
        for remark in study.remarks:
            click.echo(f"  {remark}")
    click.echo("written: " + ", ".join(plain(file) for file in files))


def _print(study: Study, every: bool) -> None:
    """Print tables: every value, or those that do not agree; a short table always whole."""
    from minidyn.app.casestudies.run import COLUMNS, cells
    from minidyn.app.casestudies.study import AGREES

    for table in study.tables:
        agree = sum(entry.verdict == AGREES for entry in table.entries)
        shown = [
            entry
            for entry in table.entries
            if every or len(table.entries) <= _SHORT or entry.verdict != AGREES
        ]
        title = f"{table.source}: {table.title} ({agree} of {len(table.entries)} agree)"
        if shown:
            print_table(
                safe(title),
                COLUMNS,
                ([safe(cell) for cell in cells(entry)] for entry in shown),
                right=(1, 2),
            )
        else:
            click.echo(f"{title}\n")


_SHORT = 20  # rows
