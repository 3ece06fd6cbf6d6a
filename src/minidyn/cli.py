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


@main.command()
@click.argument("robot")
@click.option(
    "--method",
    default="exact",
    show_default=True,
    help="exact (no tolerance), qr, svd, mlc (closed-form rule) or rules+qr (the rule first, qr on what it leaves).",
)
@click.option("--model", default="torque", show_default=True, help="torque, static (zero speed) or energy.")
@click.option("--joint", "joints", multiple=True, help="A joint that moves, the others held; repeat. Default: all.")
@click.option("--gravity", nargs=3, type=float, help="Another gravity, m/s²: x y z.")
@click.option("--scaling", help="For qr, svd and rules+qr: columns, or paper for the row-wise search of states.")
@click.option("--version", help="For mlc: 1999 or 1992, of the inertia constants. Default: 1999.")
@click.option("--for", "for_", help="For mlc: torque, gravity or inertia, what the set must determine.")
@click.option("--seed", default=0, show_default=True, help="Of the random states.")
@click.option(
    "--format", "form", type=click.Choice(["table", "markdown", "latex", "json"]), default="table", show_default=True
)
@click.option("--json", "as_json", is_flag=True, help="The same as --format json.")
def base(
    robot: str,
    method: str,
    model: str,
    joints: tuple[str, ...],
    gravity: tuple[float, float, float] | None,
    scaling: str | None,
    version: str | None,
    for_: str | None,
    seed: int,
    form: str,
    as_json: bool,
) -> None:
    """Find the base parameters of a ROBOT and print each as a formula of standard ones.

    Example: minidyn base puma560 --method mlc --version 1992 --for gravity
    """
    from minidyn.cli_base import show_base

    given = {"scaling": scaling, "version": version, "for_": for_}
    options = {name: value for name, value in given.items() if value is not None}
    show_base(robot, method, model, seed, "json" if as_json else form, joints, gravity, **options)


_PARAMETERS = click.option(
    "--parameters",
    type=click.Choice(["own", "argument"]),
    default="own",
    show_default=True,
    help="own: the robot's values baked in; argument: the vector is the function's last argument.",
)


@main.command()
@click.argument("robot")
@click.argument("what")
@click.option("--target", type=click.Choice(["c", "python", "jax", "llvm"]), default="c", show_default=True)
@click.option("--output", default=".", show_default=True, help="Folder to write into.")
@_PARAMETERS
@click.option("--link", help="For forward_kinematics and jacobian: a link or frame. Default: the last link.")
def generate(robot: str, what: str, target: str, output: str, parameters: str, link: str | None) -> None:
    """Write a function of a ROBOT as source code: WHAT is inverse_dynamics, inertia_matrix, regressor, ..."""
    from minidyn.cli_generate import generate_code

    generate_code(robot, what, target, output, parameters, link)


@main.command()
@click.argument("robot")
@click.argument("what", required=False)
@_PARAMETERS
@click.option("--link", help="For forward_kinematics and jacobian: a link or frame. Default: the last link.")
@click.option("--base", is_flag=True, help="On base parameters with general values; implied by the options below.")
@click.option("--formulation", type=int, help="Of the inertia matrix: 1 to 5 (LinFang1999), 6. Default: the cheapest.")
@click.option("--counting", type=click.Choice(["executed", "paper"]), help="paper: as LinFang1999's tables count.")
@click.option("--generic", is_flag=True, help="General geometry with the robot's joints instead of its own.")
@click.option("--json", "as_json", is_flag=True, help="Print machine-readable JSON.")
def count(
    robot: str,
    what: str | None,
    parameters: str,
    link: str | None,
    base: bool,
    formulation: int | None,
    counting: str | None,
    generic: bool,
    as_json: bool,
) -> None:
    """Count the operations of a function of a ROBOT, or of all its functions."""
    if base or generic or formulation is not None or counting is not None:
        from minidyn.cli_count import check_alone, show_minimal_counts

        check_alone(parameters, link)
        show_minimal_counts(robot, what, formulation, counting or "executed", generic, as_json)
        return
    from minidyn.cli_generate import show_counts

    show_counts(robot, what, parameters, link, as_json)


@main.command()
@click.argument("robot")
@click.option(
    "--controller",
    default="computed_torque",
    show_default=True,
    help="computed_torque, pd_gravity, slotine_li, modified_slotine_li or craig.",
)
@click.option("--output", default="run.parquet", show_default=True, help="Recording to write: .parquet, .npz or .csv.")
@click.option("--duration", default=5.0, show_default=True, help="Seconds.")
@click.option("--dt", default=1e-3, show_default=True, help="Step of integration and control, s.")
@click.option("--rate", default=10.0, show_default=True, help="Bandwidth of the controller, 1/s.")
@click.option("--gain", type=float, help="Gain over each joint's own inertia, 1/s. Default: twice the rate.")
@click.option("--adaptation", default=0.01, show_default=True, help="Speed of adaptation, relative to the values.")
@click.option("--unknown", multiple=True, help="A parameter that is estimated, such as M4; repeat. Default: all.")
@click.option("--model-error", default=0.0, show_default=True, help="How wrong the controller's model is: 0.2 is 20 %.")
@click.option("--noise", default=0.0, show_default=True, help="Standard deviation of measured positions.")
@click.option("--torque-noise", default=0.0, show_default=True, help="Standard deviation of measured torques.")
@click.option("--delay", default=0.0, show_default=True, help="Age of measurements, s.")
@click.option("--plant", type=click.Choice(["minidyn", "regressor", "mujoco"]), default="minidyn", show_default=True)
@click.option("--seed", default=0, show_default=True, help="Of the trajectory and the noise.")
@click.option("--plot", is_flag=True, help="Also write a picture beside the recording.")
@click.option("--json", "as_json", is_flag=True, help="Print machine-readable JSON.")
def simulate(robot: str, controller: str, output: str, **options: Any) -> None:
    """Simulate a ROBOT on a random trajectory within its limits, under a controller.

    Example: minidyn simulate panda --controller slotine_li --model-error 0.2 --output run.parquet --plot
    """
    from minidyn.cli_simulate import run_simulation

    run_simulation(robot, controller, output, **options)


@main.command()
@click.argument("name")
@click.option("--output", default="minidyn-out/casestudy", show_default=True, help="Folder to write into.")
@click.option("--json", "as_json", is_flag=True, help="Print machine-readable JSON.")
def casestudy(name: str, output: str, as_json: bool) -> None:
    """Run a published case study: lu-meng (adaptive control with an unknown load).

    Example: minidyn casestudy lu-meng --output out
    """
    from minidyn.cli_simulate import run_case_study

    run_case_study(name, output, as_json)


@main.command()
@click.argument("robot")
@click.argument("logs", nargs=-1, required=True)
@click.option("--output", default="minidyn-out/identified", show_default=True, help="Folder to write into.")
@click.option("--validate", "held_out", multiple=True, help="A log that is not fitted, to test the model on; repeat.")
@click.option(
    "--method", default="wls", show_default=True, help="ols, wls (joints weighted by noise) or irls (robust)."
)
@click.option(
    "--friction",
    default="viscous,coulomb,offset",
    show_default=True,
    help="Friction terms to identify, none, or own (what the robot's file has).",
)
@click.option("--rotor-inertia/--no-rotor-inertia", default=True, show_default=True, help="Identify rotor inertias.")
@click.option("--prior", help="Robot whose values are believed; default: the ROBOT's own, with a weight from the data.")
@click.option(
    "--consistent/--no-consistent", default=True, show_default=True, help="Make the model physically possible."
)
@click.option("--mapping", help="TOML file that says which column is what.")
@click.option("--rate", type=float, help="Samples per second, for logs without a time column.")
@click.option("--json", "as_json", is_flag=True, help="Print machine-readable JSON.")
def identify(robot: str, logs: tuple[str, ...], output: str, **options: Any) -> None:
    """Identify a ROBOT from LOGS (CSV, Parquet, NPZ, ROS bags) and write the model.

    Example: minidyn identify ur10.urdf run.db3 --validate other.db3 --output out
    """
    from minidyn.cli_identify import run_identification

    run_identification(robot, logs, output, **options)


@main.command()
@click.argument("estimate")
@click.argument("logs", nargs=-1, required=True)
@click.option("--mapping", help="TOML file that says which column is what.")
@click.option("--rate", type=float, help="Samples per second, for logs without a time column.")
@click.option("--json", "as_json", is_flag=True, help="Print machine-readable JSON.")
def validate(estimate: str, logs: tuple[str, ...], mapping: str | None, rate: float | None, as_json: bool) -> None:
    """Test a saved ESTIMATE (estimate.json) on LOGS it was not fitted to.

    Example: minidyn validate out/estimate.json other.db3
    """
    from minidyn.cli_identify import run_validation

    run_validation(estimate, logs, mapping, rate, as_json)


@main.command()
@click.argument("robot")
@click.option("--json", "as_json", is_flag=True, help="Print machine-readable JSON.")
def plan(robot: str, as_json: bool) -> None:
    """Plan experiments that identify a ROBOT (a serial chain) by moving one joint at a time.

    Example: minidyn plan stanford
    """
    from minidyn.cli_plan import show_plan

    show_plan(robot, as_json)
