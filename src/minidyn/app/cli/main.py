"""The command line: one verb for each stage of the pipeline, no logic of its own.

The verbs are declared in the files `cli_verbs_*.py`, by stage; each imports what it needs when it runs, so that
`minidyn --help` answers at once. Errors of the library are one line on stderr, never a traceback.

| exit code | meaning |
|---|---|
| 0 | done |
| 1 | an unexpected error, a fault of minidyn; MINIDYN_DEBUG=1 shows the traceback |
| 2 | wrong usage, a file that cannot be read or written, or data that do not allow what was asked |
| 130 | interrupted (Ctrl-C); results are whole or absent |
"""

from __future__ import annotations

import os
import sys
from typing import Any

import click

from minidyn import __version__
from minidyn.app.cli.verbs_experiment import casestudy, plan, simulate
from minidyn.app.cli.verbs_identify import compare, identify, payload, validate
from minidyn.app.cli.verbs_job import completion, demo, report, run
from minidyn.app.cli.verbs_robot import base, count, generate, robots, show

SECTIONS: dict[str, tuple[click.Command, ...]] = {
    "Robots and their dynamics": (robots, show, base, count, generate),
    "Experiments": (plan, simulate, casestudy),
    "Identification": (identify, validate, compare, payload, report),
    "Whole jobs": (demo, run, completion),
}
"""The verbs, in the order of the pipeline."""


class _Group(click.Group):
    """A group whose verbs may raise the library's errors; it lists them by stage and suggests near names."""

    def invoke(self, ctx: click.Context) -> Any:
        from minidyn.errors import MinidynError

        try:
            return super().invoke(ctx)
        except MinidynError as error:
            _fail(str(error), 2)
        except KeyboardInterrupt:
            _fail("interrupted; what was finished is kept, nothing is half written", 130)
        except BrokenPipeError:  # the reader of a pipe has gone: click knows what to do
            raise
        except OSError as error:
            place = f"{error.filename}: " if error.filename else ""
            _fail(f"{place}{error.strerror or error}", 2)
        except (click.ClickException, click.Abort, click.exceptions.Exit):
            raise
        except Exception as error:
            if os.environ.get("MINIDYN_DEBUG"):
                raise
            what = f"{type(error).__name__}: {error}".replace("\n", " ")
            _fail(f"unexpected {what} (a fault of minidyn; MINIDYN_DEBUG=1 shows where)", 1)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and self.get_command(ctx, args[0]) is None and not args[0].startswith("-"):
            from minidyn.errors import near_names

            verbs = self.list_commands(ctx)
            raise click.UsageError(f"unknown verb {args[0]!r}{near_names(args[0], verbs, len(verbs))}", ctx)
        return super().resolve_command(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for title, verbs in SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([(str(verb.name), verb.get_short_help_str(100)) for verb in verbs])


def _fail(message: str, code: int) -> None:
    from minidyn.text import plain

    click.echo(f"error: {plain(message)}", err=True)
    sys.exit(code)


@click.group(cls=_Group, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.option("-q", "--quiet", is_flag=True, help="No progress on stderr.")
@click.version_option(__version__, prog_name="minidyn")
def main(quiet: bool) -> None:
    """True dynamic models of robot arms: base parameters, dynamics, experiments, identification.

    ROBOT is a built-in name (minidyn robots) or a file: URDF, MJCF or TOML. Results go to stdout, progress to stderr.

    Example: minidyn base puma560

    Example: minidyn identify robot.urdf log.csv --output out

    Exit codes: 0 done, 1 unexpected error, 2 wrong usage or input, 130 interrupted.
    """


for _verbs in SECTIONS.values():
    for _verb in _verbs:
        main.add_command(_verb)
