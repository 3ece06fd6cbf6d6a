"""`minidyn studio`: the whole job in a browser window."""

from __future__ import annotations

import os
from pathlib import Path

import click

from minidyn.app.cli.options import Files, json_option
from minidyn.app.cli.text import print_json
from minidyn.errors import MissingFile
from minidyn.text import plain


@click.command()
@click.argument("robot", required=False)
@click.argument("logs", nargs=-1, type=click.Path())
@click.option(
    "--folder",
    type=click.Path(),
    default="minidyn-studio",
    show_default=True,
    help="Folder of the study; one that was left is opened again where it was.",
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=0,
    help="Port to listen on. Default: one that is free.",
)
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    help="Address to listen on; the default is reached from this machine alone.",
)
@click.option("--no-browser", is_flag=True, help="Print the address; open no browser.")
@click.option(
    "--upload-limit",
    type=click.IntRange(1),
    default=4096,
    show_default=True,
    help="MB that one file dropped on the page may have.",
)
@json_option
def studio(
    robot: str | None,
    logs: Files,
    folder: str,
    port: int,
    host: str,
    no_browser: bool,
    upload_limit: int,
    as_json: bool,
) -> None:
    """Do the whole job in a browser window, for ROBOT and LOGS or for files dropped there.

    Needs the extra minidyn[studio]. The page is served by this machine and loads nothing from
    elsewhere; all it does is in study.toml of the folder. Ctrl-C ends it.

    Example: minidyn studio robot.urdf log.csv
    """
    from minidyn.app.studio.guard import is_loopback
    from minidyn.app.studio.server import NOTES, Studio, serve
    from minidyn.app.study.store import held
    from minidyn.errors import optional
    from minidyn.files import made_folder
    from minidyn.formats.load import robots

    for library in ("starlette", "uvicorn"):
        optional(library)
    names = [robot, *logs] if robot else []
    for name in names:
        if name not in robots() and not Path(name).exists():
            raise MissingFile(f"{name}: no such file")
    place = made_folder(folder)
    seen = [name if name in robots() else os.path.relpath(name, place) for name in names]
    if not is_loopback(host):
        click.echo(
            f"warning: {plain(host)} is reached from other machines, and nothing that is sent is "
            "encrypted; ssh -L is the safer way (docs/studio.md)",
            err=True,
        )

    def ready(address: str) -> None:
        if as_json:
            print_json({"address": address, "folder": str(place)})
        else:
            click.echo(f"studio of {plain(str(place))}: {address}\nCtrl-C ends it")

    lock = place / NOTES / "lock"
    lock.parent.mkdir(exist_ok=True)
    lock.touch()
    with held(lock):
        serve(
            Studio(place, upload_limit << 20),
            host,
            port,
            seen[0] if robot else "",
            tuple(seen[1:]),
            ready,
            not no_browser,
        )
