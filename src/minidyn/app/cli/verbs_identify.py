"""Verbs that turn logs into models: identify, validate.

Verbs beside the main road from logs to a model: payload, compare.
"""

from __future__ import annotations

from typing import Any

import click

from minidyn.app.cli.options import OneOf, json_option, log_options, output_option, robot_argument


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
    from minidyn.app.cli.methods import show_payload

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
    from minidyn.app.cli.methods import show_comparison

    show_comparison(robot, logs, held_out, methods, friction, rotor_inertia, mapping, rate, as_json)


def _methods() -> list[str]:
    from minidyn.identification.estimators.methods import METHODS

    return list(METHODS)


@click.command()
@robot_argument
@click.argument("logs", nargs=-1, required=True, type=click.Path())
@output_option("minidyn-out/identified")
@click.option(
    "--validate",
    "held_out",
    multiple=True,
    type=click.Path(),
    help="A log that is not fitted, to test the model on; repeat.",
)
@click.option(
    "--hold-out",
    type=click.FloatRange(0.0, 0.9, min_open=True),
    metavar="SHARE",
    help="Keep the end of the log for the test, as in 0.3: for a single log.",
)
@click.option(
    "--method",
    type=OneOf(_methods),
    default="wls",
    show_default=True,
    help="ols, wls (joints weighted by noise), irls (robust), parallel, tls, iv, didim, filtered, momentum or energy.",
)
@click.option(
    "--friction",
    default="auto",
    show_default=True,
    help="auto (viscous, coulomb, offset and what the data ask for), terms such as viscous,coulomb,load, none, or own "
    "(what the robot's file has).",
)
@click.option("--rotor-inertia/--no-rotor-inertia", default=True, show_default=True, help="Identify rotor inertias.")
@click.option("--prior", help="Robot whose values are believed; default: the ROBOT's own, with a weight from the data.")
@click.option(
    "--consistent/--no-consistent", default=True, show_default=True, help="Make the model physically possible."
)
@click.option(
    "--folds",
    type=click.IntRange(min=2),
    help="Also leave out one stretch of time after the other, so many in all, and tell the errors there.",
)
@log_options
@json_option
def identify(robot: str, logs: tuple[str, ...], output: str, **options: Any) -> None:
    """Identify a ROBOT from LOGS (CSV, Parquet, NPZ, ROS bags) and write the model.

    Example: minidyn identify ur10.urdf run.db3 --validate other.db3 --output out

    Example: minidyn identify robot.urdf log.csv --mapping columns.toml --rate 500
    """
    from minidyn.app.cli.identify import run_identification

    run_identification(robot, logs, output, **options)


@click.command()
@click.argument("estimate", type=click.Path())
@click.argument("logs", nargs=-1, required=True, type=click.Path())
@log_options
@json_option
def validate(estimate: str, logs: tuple[str, ...], mapping: str | None, rate: float | None, as_json: bool) -> None:
    """Test a saved ESTIMATE (estimate.json) on LOGS it was not fitted to.

    Example: minidyn validate out/estimate.json other.db3
    """
    from minidyn.app.cli.identify import run_validation

    run_validation(estimate, logs, mapping, rate, as_json)
