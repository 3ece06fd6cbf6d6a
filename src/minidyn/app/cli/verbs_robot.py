"""Verbs that need a robot alone: robots, show, base, count, generate."""

from __future__ import annotations

import click

from minidyn.app.cli.options import OneOf, json_option, output_option, robot_argument, seed_option


def _functions() -> list[str]:
    from minidyn.dynamics.record import WHAT

    return list(WHAT)


@click.command()
@json_option
def robots(as_json: bool) -> None:
    """List the built-in robots.

    Example: minidyn robots
    """
    from minidyn.app.cli.show import show_robots

    show_robots(as_json)


@click.command()
@robot_argument
@click.option("--json", "as_json", is_flag=True, help="Print machine-readable JSON with everything; NaN is null.")
def show(robot: str, as_json: bool) -> None:
    """Show a ROBOT: tree, geometry, limits, parameters, realizability.

    Example: minidyn show panda
    """
    from minidyn.app.cli.show import show_robot

    show_robot(robot, as_json)


@click.command()
@robot_argument
@click.option(
    "--method",
    type=OneOf(lambda: ["exact", "qr", "svd", "mlc", "rules+qr"]),
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
@seed_option
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

    Example: minidyn base puma560

    Example: minidyn base puma560 --method mlc --version 1992 --for gravity
    """
    from minidyn.app.cli.base import show_base

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
_LINK = click.option("--link", help="For forward_kinematics and jacobian: a link or frame. Default: the last link.")


@click.command()
@robot_argument
@click.argument("what", type=OneOf(_functions))
@click.option("--target", type=click.Choice(["c", "python", "jax", "llvm"]), default="c", show_default=True)
@output_option(".")
@_PARAMETERS
@_LINK
@json_option
def generate(robot: str, what: str, target: str, output: str, parameters: str, link: str | None, as_json: bool) -> None:
    """Write a function of a ROBOT as source code: WHAT is inverse_dynamics, inertia_matrix, regressor, ...

    Example: minidyn generate panda inverse_dynamics --target c --output out
    """
    from minidyn.app.cli.base import generate_code

    generate_code(robot, what, target, output, parameters, link, as_json)


@click.command()
@robot_argument
@click.argument("what", required=False, type=OneOf(_functions))
@_PARAMETERS
@_LINK
@click.option("--base", is_flag=True, help="On base parameters with general values; implied by the options below.")
@click.option("--formulation", type=int, help="Of the inertia matrix: 1 to 5 (LinFang1999), 6. Default: the cheapest.")
@click.option("--counting", type=click.Choice(["executed", "paper"]), help="paper: as LinFang1999's tables count.")
@click.option("--generic", is_flag=True, help="General geometry with the robot's joints instead of its own.")
@json_option
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
    """Count the operations of a function of a ROBOT, or of all its functions.

    Example: minidyn count panda inverse_dynamics

    Example: minidyn count puma560 inertia_matrix --counting paper
    """
    if base or generic or formulation is not None or counting is not None:
        from minidyn.app.cli.base import check_alone, show_minimal_counts

        check_alone(parameters, link)
        show_minimal_counts(robot, what, formulation, counting or "executed", generic, as_json)
        return
    from minidyn.app.cli.base import show_counts

    show_counts(robot, what, parameters, link, as_json)
