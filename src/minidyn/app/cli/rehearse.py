"""`minidyn rehearse`: the whole chain on simulated copies of a robot, before it moves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from minidyn.app.cli import options
from minidyn.app.cli.text import (
    finish,
    print_json,
    print_notices,
    print_table,
    progress,
    safe,
    told,
)
from minidyn.errors import MinidynError
from minidyn.text import plain

if TYPE_CHECKING:
    from minidyn.app.rehearse import Rehearsal
    from minidyn.excitation.excitation import Excitation
    from minidyn.model.robot import Robot

_REHEARSE = "app.rehearse:rehearse"
_SENSORS = {
    "rate": "Samples a second of the simulated logs.",
    "encoder": "Noise and step of the encoders, rad or m.",
    "torque-noise": "Of each joint's torque, share.",
    "delay": "How late torques are logged, s.",
    "drift": "Share by which friction falls during the motion.",
}


def _field(option: str) -> str:
    return option.replace("-", "_")


def _sensor_options(command: Any) -> Any:
    for name, text in reversed(_SENSORS.items()):
        command = click.option(f"--{name}", type=float, help=f"{text} Default: as in md.Sensors.")(
            command
        )
    return command


@click.command()
@options.robot_argument
@click.option(
    "--motion",
    type=click.Path(),
    help="File with times and positions, such as motion.csv of minidyn excite. Default: a Fourier "
    "series within the limits.",
)
@options.option_of(_REHEARSE, "--duration", type=float, help="Seconds. Default: all of the motion.")
@options.option_of(_REHEARSE, "--draws", type=int, help="How many simulated copies.")
@_sensor_options
@options.option_of(
    _REHEARSE, "--plant", type=str, help="mujoco or minidyn. Default: MuJoCo if it can."
)
@options.option_of(_REHEARSE, "--seed", type=int, help="Of everything random.")
@click.option("--output", type=click.Path(), help="HTML file to write. Default: none.")
@options.require_option
@options.json_option
def rehearse(
    robot: options.RobotSource,
    motion: str | None,
    output: str | None,
    require: str | None,
    as_json: bool,
    **given: Any,
) -> None:
    """Identify simulated copies of a ROBOT from a motion, before the robot moves.

    Example: minidyn rehearse panda --motion motion/motion.csv --output rehearsal.html
    """
    from minidyn.app.rehearse import rehearse as judge
    from minidyn.files import check_outputs

    if output is not None:
        check_outputs([output], options.inputs(robot, motion))
    arm = told(robot.load())
    sensors = {name: given.pop(name) for name in map(_field, _SENSORS)}
    wanted = options.given({**given, "sensors": options.given(sensors)})
    with progress(f"rehearsing {arm.name}", wanted.get("draws")) as counted:
        rehearsal = judge(arm, motion, progress=counted, **wanted)
        files = [] if output is None else [str(rehearsal.report(output))]
    if as_json:
        print_json(rehearsal.to_json() | {"files": files})
        return finish({"level": rehearsal.level}, require, rehearsal.notices)
    print_rehearsal(rehearsal)
    for name in files:
        click.echo(f"written: {plain(name)}")
    return finish({"level": rehearsal.level}, require, rehearsal.notices)


def print_rehearsal(rehearsal: Rehearsal, verdict: str = "verdict") -> None:
    """Print the figures, the notices and the verdict."""
    table = rehearsal.table()
    print_table(safe(table.title), ("", ""), zip(*table.columns.values()))
    print_notices(rehearsal.notices)
    click.echo(f"{verdict}: {rehearsal.headline}")


def rehearsed(robot: Robot, motion: Excitation, force: bool) -> Rehearsal:
    """Return the rehearsal of a designed motion.

    Raises:
        MinidynError: It failed, and `force` does not say to go on.
    """
    from minidyn.app.rehearse import rehearse as judge

    with progress(f"rehearsing the motion of {robot.name}") as counted:
        rehearsal = judge(robot, motion, progress=counted)
    if rehearsal.level == "bad" and not force:
        raise MinidynError(
            f"the rehearsal failed, nothing was written: {rehearsal.notices[0].text}. "
            "--force writes the files all the same"
        )
    return rehearsal
