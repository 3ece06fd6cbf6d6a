"""The command line: one verb for each stage of the pipeline.

`VERBS` lists them; each has its options, its help and what it does in a file of this folder. A file
is imported when its verb runs, so that `minidyn --help` answers at once. Errors of the library are
one line on stderr, never a traceback.
"""

from __future__ import annotations

import os
import sys
from enum import IntEnum
from importlib import import_module
from typing import Any

import click

from minidyn import __version__
from minidyn.app.cli.options import joined_numbers
from minidyn.errors import MinidynError, Unforeseen, details_of, near_names
from minidyn.files import require_name
from minidyn.text import plain

VERBS: dict[str, dict[str, tuple[str, str]]] = {
    "Robots and their dynamics": {
        "robots": ("show", "List the built-in robots."),
        "show": ("show", "Show a robot: tree, geometry, limits, parameters."),
        "base": ("base", "Find base parameters and print each as a formula."),
        "explain": ("explain", "Say why a parameter is identified, regrouped or has no effect."),
        "equivalence": ("equivalence", "Compare sets of base parameters, as papers print them."),
        "formulas": ("formulas", "Print dynamics, regressors and relations as formulas."),
        "count": ("code", "Count the operations of dynamic functions."),
        "generate": ("code", "Write a function of a robot as source code."),
    },
    "Experiments": {
        "excite": ("excite", "Design a motion to record, within the robot's limits."),
        "plan": ("plan", "Plan experiments that move one joint at a time."),
        "rehearse": ("rehearse", "Identify simulated copies of a robot before it moves."),
        "simulate": ("simulate", "Simulate a robot under a controller."),
        "casestudy": ("casestudy", "Tables and figures of the papers, computed again."),
    },
    "Identification": {
        "convert": ("convert", "Write logs as Parquet, which is read fastest."),
        "check": ("check", "Check logs before a fit: what is odd, what they show."),
        "settings": ("settings", "Print every option of a fit with its default, as TOML."),
        "identify": ("identify", "Identify a robot from logs and write the model."),
        "validate": ("identify", "Test a saved estimate on logs."),
        "compare": ("compare", "Compare all methods on the same logs."),
        "compare-estimates": ("compare", "Compare two saved estimates, side by side on one page."),
        "payload": ("compare", "Find the load that logs carry."),
        "gains": ("compare", "Find drive gains from currents and a weighed load."),
        "fleet": ("fleet", "Compare robots of one type, from the logs of each."),
        "report": ("study", "Write an HTML report on a saved estimate."),
        "export": ("export", "Write a saved estimate for simulators and controllers."),
    },
    "Models at work": {
        "watch": ("watch", "Find contacts in logs with a saved estimate."),
        "actuators": ("actuators", "Find armature, friction and gains of PD-controlled joints."),
        "tool": ("tool", "Find what is behind a force sensor, its bias and mounting."),
    },
    "Whole jobs": {
        "demo": ("demo", "Do the whole job on a built-in robot."),
        "example": ("example", "Write a measured log and its robot file to try things on."),
        "run": ("study", "Run a study file: a whole job as TOML."),
        "studio": ("studio", "Do the whole job in a browser window."),
        "cache": ("cache", "Show or clear compiled functions that are kept."),
        "completion": ("study", "Print the completion script of a shell."),
    },
}
"""The verbs in the order of the pipeline.

The file of this folder that holds each, and its line in `minidyn --help`.
"""


class Exit(IntEnum):
    """What the program's exit code says; the only table of them."""

    meaning: str

    DONE = 0, "done"
    UNEXPECTED = 1, "unexpected error, a fault of minidyn (MINIDYN_DEBUG=1 shows the traceback)"
    WRONG_INPUT = (
        2,
        (
            "wrong usage, a file that cannot be read or written, or data that do not allow what "
            "was asked"
        ),
    )
    RULE_NOT_MET = 3, "the verdict is not good: an error or a warning (asked for by --require pass)"
    SKIPPED = 4, "done, but files that cannot be read were left out, as asked"
    INTERRUPTED = 130, "interrupted (Ctrl-C); results are whole or absent"

    def __new__(cls, code: int, meaning: str) -> Exit:
        """Return a member that is the number and knows its meaning."""
        member = int.__new__(cls, code)
        member._value_ = code
        member.meaning = meaning
        return member


class _Group(click.Group):
    """A group whose verbs are imported when they are asked for and may raise the library's
    errors.
    """

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except (click.ClickException, click.Abort, click.exceptions.Exit, BrokenPipeError):
            raise  # click knows what to do, also where the reader of a pipe has gone
        except MinidynError as error:
            _fail(
                str(error), Exit.UNEXPECTED if isinstance(error, Unforeseen) else Exit.WRONG_INPUT
            )
        except KeyboardInterrupt:
            _fail(
                "interrupted; what was finished is kept, nothing is half written", Exit.INTERRUPTED
            )
        except OSError as error:
            place = f"{error.filename}: " if error.filename else ""
            _fail(f"{place}{error.strerror or error}", Exit.WRONG_INPUT)
        except Exception as error:
            if os.environ.get("MINIDYN_DEBUG"):
                raise
            what = f"{type(error).__name__}: {error}".replace("\n", " ")
            _fail(f"unexpected {what} (a fault of minidyn; {details_of(error)})", Exit.UNEXPECTED)

    def get_command(self, ctx: click.Context | None, cmd_name: str) -> click.Command | None:
        found = next((verbs[cmd_name][0] for verbs in VERBS.values() if cmd_name in verbs), None)
        return (
            None
            if found is None
            else getattr(import_module(f"minidyn.app.cli.{found}"), cmd_name.replace("-", "_"))
        )

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        for word in args:  # else whoever opens it raises an error of Python
            require_name(word)
        names = self.list_commands(ctx)
        if args and args[0] not in names and not args[0].startswith("-"):
            raise click.UsageError(
                f"unknown verb {args[0]!r}{near_names(args[0], names, len(names))}", ctx
            )
        return super().resolve_command(ctx, joined_numbers(args))

    def list_commands(self, ctx: click.Context | None) -> list[str]:
        return [name for verbs in VERBS.values() for name in verbs]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for title, verbs in VERBS.items():
            with formatter.section(title):
                formatter.write_dl([(name, line) for name, (_, line) in verbs.items()])
        with formatter.section("Exit codes"):
            formatter.write_dl([(str(code.value), code.meaning) for code in Exit])


def _fail(message: str, code: Exit) -> None:
    click.echo(f"error: {plain(message)}", err=True)
    sys.exit(code)


@click.group(
    cls=_Group, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@click.option("-q", "--quiet", is_flag=True, help="No progress on stderr.")
@click.version_option(__version__, prog_name="minidyn")
def main(quiet: bool) -> None:
    """True dynamic models of robot arms: base parameters, dynamics, experiments, identification.

    ROBOT is a built-in name (minidyn robots) or a file: URDF, MJCF or TOML. Results go to stdout,
    progress to stderr.

    Example: minidyn base puma560

    Example: minidyn identify robot.urdf log.csv --output out
    """
    # no verb draws with MuJoCo: else it looks for a library of windows whenever it is imported
    os.environ.setdefault("MUJOCO_GL", "disabled")
