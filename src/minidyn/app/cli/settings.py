"""`minidyn settings`: every option of identification with its default."""

from __future__ import annotations

import click

from minidyn.app.cli import options
from minidyn.app.cli.text import print_json


@click.command()
@options.json_option
def settings(as_json: bool) -> None:
    """Print every option of identification with its default, as a TOML file.

    Write it into a file, change what shall be different, and give it to a verb that identifies:
    --settings FILE. Names that are left out keep their defaults.

    Example: minidyn settings > settings.toml
    """
    from minidyn.identification.settings import Settings

    if as_json:
        return print_json(Settings().to_json())
    return click.echo(Settings().to_toml(comments=True), nl=False)
