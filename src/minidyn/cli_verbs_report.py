"""Verbs that show: report, demo."""

from __future__ import annotations

import click

from minidyn.cli_options import json_option, log_options, output_option

__all__ = ["demo", "report"]


@click.command(short_help="Write one HTML file on a saved ESTIMATE, tested on LOGS it has not seen.")
@click.argument("estimate", type=click.Path())
@click.argument("logs", nargs=-1, type=click.Path())
@output_option("report.html", "HTML file to write.")
@click.option("--fit", "fitted", multiple=True, type=click.Path(), help="A log the estimate was fitted to; repeat.")
@click.option("--title", help="Heading. Default: the robot's name.")
@log_options
@json_option
def report(
    estimate: str,
    logs: tuple[str, ...],
    output: str,
    fitted: tuple[str, ...],
    title: str | None,
    mapping: str | None,
    rate: float | None,
    as_json: bool,
) -> None:
    """Write a report on a saved ESTIMATE (estimate.json): one HTML file, tested on LOGS it was not fitted to.

    Example: minidyn report out/estimate.json other.db3 --fit run.db3 --output report.html
    """
    from minidyn.cli_report import write_report

    write_report(estimate, logs, output, fitted, title, mapping, rate, as_json)


@click.command(short_help="Do the whole job on a built-in robot, ending in a report.")
@output_option("minidyn-out/demo")
@json_option
def demo(output: str, as_json: bool) -> None:
    """Do the whole job on the built-in Stanford arm, in a minute: plan, log, model, tests, exports, report.

    Example: minidyn demo --output demo
    """
    from minidyn.cli_demo import run_demo

    run_demo(output, as_json)
