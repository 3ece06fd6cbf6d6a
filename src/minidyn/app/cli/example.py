"""`minidyn example`: a measured log that comes with the package, with its robot file, source and
licence.
"""

from __future__ import annotations

from pathlib import Path

import click

from minidyn.app.cli.options import json_option
from minidyn.app.cli.text import print_json
from minidyn.errors import DescriptionError
from minidyn.text import plain

FOLDER = Path(__file__).parent.parent / "examples"
"""Where the package keeps them: a folder for each, named as the built-in robot."""


@click.command()
@click.argument(
    "name", type=click.Choice(sorted(path.name for path in FOLDER.iterdir() if path.is_dir()))
)
@click.option("--output", type=click.Path(), help="Folder to write into. Default: NAME.")
@json_option
def example(name: str, output: str | None, as_json: bool) -> None:
    """Write the measured log NAME with its robot file, source and licence.

    Example: minidyn example ur10
    """
    from minidyn.files import check_folder, new_folder
    from minidyn.formats.load import BUILTIN

    target = check_folder(output or name)
    files = {path.name: path.read_bytes() for path in sorted((FOLDER / name).iterdir())}
    files["robot.toml"] = (BUILTIN / f"{name}.toml").read_bytes()
    for file, data in files.items():
        if (target / file).exists() and (target / file).read_bytes() != data:
            raise DescriptionError(
                f"{target / file}: exists and is another file; choose another folder with --output"
            )
    with new_folder(target) as folder:
        for file, data in files.items():
            (folder / file).write_bytes(data)
    if as_json:
        print_json({"files": [str(target / file) for file in sorted(files)]})
        return
    place = plain(str(target))
    click.echo(f"written into {place}: {', '.join(sorted(files))}")
    click.echo(
        f"next: minidyn identify {place}/robot.toml {place}/log.csv --hold-out 0.3 --output "
        f"{place}/model"
    )
