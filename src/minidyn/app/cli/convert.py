"""`minidyn convert`: logs of any format as Parquet, the form that is read fastest."""

from __future__ import annotations

from typing import Any

import click

from minidyn.app.cli import options
from minidyn.app.cli.text import finish, print_json, print_notices, progress
from minidyn.notices import notices_json
from minidyn.text import plain


@click.command()
@options.logs_argument
@options.robot_option("Whose logs they are: gives names and order of the joints.")
@options.option_of(
    "recording.read.convert:convert",
    "--name",
    help="Of this robot among others. Default: of its type.",
)
@options.output_option("minidyn-out/data")
@options.read_options
@options.engine_options
@options.json_option
def convert(
    logs: options.Files, robot: options.RobotSource | None, output: str, as_json: bool, **more: Any
) -> None:
    """Write LOGS as Parquet, in SI units, into folders robot=NAME/log=STEM.

    Example: minidyn convert run1.csv run2.bag --robot ur10e --name ur10-07 --output data --workers
    2
    """
    from minidyn.recording.read.convert import convert as write

    with progress(f"converting {len(logs)} logs"):
        written = write(
            list(logs), output, None if robot is None else robot.load(), **options.given(more)
        )
    size = sum(file.stat().st_size for file in written)
    if as_json:
        notices = notices_json(written.notices)
        print_json({"files": [str(file) for file in written], "bytes": size, "notices": notices})
    else:
        print_notices(notice for notice in written.notices if notice.level != "info")
        click.echo(plain(f"written into {output}: {len(written)} files, {size / 1e6:.1f} MB"))
    return finish(None, None, written.notices)
