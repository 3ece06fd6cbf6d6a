"""The command line: one verb for each stage of the pipeline, no logic of its own.

A verb imports what it needs when it runs, so that `minidyn --help` answers at once. Errors of the library are shown
as one line on stderr with exit code 2, never as a traceback.
"""

from __future__ import annotations

import sys
from typing import Any

import click

from minidyn import __version__

__all__ = ["main"]


class _Group(click.Group):
    """A group whose verbs may raise the library's errors."""

    def invoke(self, ctx: click.Context) -> Any:
        from minidyn.errors import MinidynError

        try:
            return super().invoke(ctx)
        except MinidynError as error:
            from minidyn.cli_text import plain

            click.echo(f"error: {plain(str(error))}", err=True)
            sys.exit(2)


@click.group(cls=_Group, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="minidyn")
def main() -> None:
    """True dynamic models of robot arms."""


@main.command()
@click.option("--json", "as_json", is_flag=True, help="Print machine-readable JSON.")
def robots(as_json: bool) -> None:
    """List the built-in robots."""
    from minidyn.cli_show import show_robots

    show_robots(as_json)


@main.command()
@click.argument("robot")
@click.option("--json", "as_json", is_flag=True, help="Print machine-readable JSON with everything; NaN is null.")
def show(robot: str, as_json: bool) -> None:
    """Show a ROBOT (built-in name or file): tree, geometry, limits, parameters, realizability."""
    from minidyn.cli_show import show_robot

    show_robot(robot, as_json)
