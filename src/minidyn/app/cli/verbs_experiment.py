"""Verbs of experiments: plan, simulate, casestudy."""

from __future__ import annotations

from typing import Any

import click

from minidyn.app.cli.options import OneOf, json_option, output_option, robot_argument, seed_option


def _laws() -> list[str]:
    from minidyn.simulation.named_laws import LAWS

    return list(LAWS)


@click.command()
@robot_argument
@json_option
def plan(robot: str, as_json: bool) -> None:
    """Plan experiments that identify a ROBOT (a serial chain) by moving one joint at a time.

    Example: minidyn plan stanford
    """
    from minidyn.app.cli.simulate import show_plan

    show_plan(robot, as_json)


@click.command()
@robot_argument
@click.option(
    "--controller",
    type=OneOf(_laws),
    default="computed_torque",
    show_default=True,
    help="computed_torque, pd_gravity, slotine_li, modified_slotine_li or craig.",
)
@output_option("run.parquet", "Recording to write: .parquet, .npz or .csv.")
@click.option("--duration", default=5.0, show_default=True, help="Seconds.")
@click.option("--dt", default=1e-3, show_default=True, help="Step of integration and control, s.")
@click.option("--bandwidth", "rate", default=10.0, show_default=True, help="Of the controller, 1/s.")
@click.option("--gain", type=float, help="Gain over each joint's own inertia, 1/s. Default: twice the bandwidth.")
@click.option("--adaptation", default=0.01, show_default=True, help="Speed of adaptation, relative to the values.")
@click.option("--unknown", multiple=True, help="A parameter that is estimated, such as M4; repeat. Default: all.")
@click.option("--model-error", default=0.0, show_default=True, help="How wrong the controller's model is: 0.2 is 20 %.")
@click.option("--noise", default=0.0, show_default=True, help="Standard deviation of measured positions.")
@click.option("--torque-noise", default=0.0, show_default=True, help="Standard deviation of measured torques.")
@click.option("--delay", default=0.0, show_default=True, help="Age of measurements, s.")
@click.option("--plant", type=click.Choice(["minidyn", "regressor", "mujoco"]), default="minidyn", show_default=True)
@seed_option
@click.option("--plot", is_flag=True, help="Also write a picture beside the recording.")
@json_option
def simulate(robot: str, controller: str, output: str, **options: Any) -> None:
    """Simulate a ROBOT on a random trajectory within its limits, under a controller.

    Example: minidyn simulate panda --controller slotine_li --model-error 0.2 --output run.parquet --plot
    """
    from minidyn.app.cli.simulate import run_simulation

    run_simulation(robot, controller, output, **options)


@click.command()
@click.argument("name", type=OneOf(lambda: ["lu-meng"]))
@output_option("minidyn-out/casestudy")
@json_option
def casestudy(name: str, output: str, as_json: bool) -> None:
    """Run a published case study: lu-meng (adaptive control with an unknown load).

    Example: minidyn casestudy lu-meng --output out
    """
    from minidyn.app.cli.simulate import run_case_study

    run_case_study(name, output, as_json)
