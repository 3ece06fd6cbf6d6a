"""Verbs beside the main road from logs to a model: payload, compare."""

from __future__ import annotations

import click

from minidyn.cli_options import json_option, log_options, robot_argument

__all__ = ["compare", "payload"]


@click.command()
@click.argument("estimate", type=click.Path())
@click.argument("logs", nargs=-1, required=True, type=click.Path())
@click.option("--link", help="Link or frame that carries the load; default: the last link.")
@log_options
@json_option
def payload(
    estimate: str, logs: tuple[str, ...], link: str | None, mapping: str | None, rate: float | None, as_json: bool
) -> None:
    """Find the load in LOGS against a saved ESTIMATE (estimate.json) of the robot without it.

    Example: minidyn payload out/estimate.json with_load.csv
    """
    from minidyn.cli_payload import show_payload

    show_payload(estimate, logs, link, mapping, rate, as_json)


@click.command()
@robot_argument
@click.argument("logs", nargs=-1, required=True, type=click.Path())
@click.option(
    "--validate",
    "held_out",
    multiple=True,
    type=click.Path(),
    help="A log that is not fitted, to test the models on; repeat.",
)
@click.option("--methods", help="Some methods only, as in ols,wls,iv; default: all.")
@click.option(
    "--friction",
    default="viscous,coulomb,offset",
    show_default=True,
    help="Terms, none, own (what the robot's file has), or auto: what the data ask for, method by method, slowly.",
)
@click.option("--rotor-inertia/--no-rotor-inertia", default=True, show_default=True, help="Identify rotor inertias.")
@log_options
@json_option
def compare(
    robot: str,
    logs: tuple[str, ...],
    held_out: tuple[str, ...],
    methods: str | None,
    friction: str,
    rotor_inertia: bool,
    mapping: str | None,
    rate: float | None,
    as_json: bool,
) -> None:
    """Identify a ROBOT from LOGS by all methods and compare their errors, realizability and time.

    Example: minidyn compare ur10.urdf run.db3 --validate other.db3 --methods wls,iv
    """
    from minidyn.cli_compare import show_comparison

    show_comparison(robot, logs, held_out, methods, friction, rotor_inertia, mapping, rate, as_json)
