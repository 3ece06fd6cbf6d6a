"""`minidyn fleet`: robots of one type from their logs, and who is unlike the others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from minidyn.app.cli import options
from minidyn.app.cli.identify import friction_option, rotor_inertia_option
from minidyn.app.cli.text import (
    finish,
    print_json,
    print_notices,
    print_table,
    progress,
    safe,
    told,
)
from minidyn.text import plain

if TYPE_CHECKING:
    from minidyn.identification.settings import Settings

_FLEET = "app.fleet:identify_fleet"


@click.command()
@options.robot_argument
@options.logs_argument
@options.output_option("minidyn-out/fleet")
@friction_option
@rotor_inertia_option
@click.option("--prior", type=options.ROBOT, metavar="ROBOT", help="As for minidyn identify.")
@options.option_of(
    options.SETTINGS,
    "--consistent/--no-consistent",
    help="Make the model of the type physically consistent.",
)
@options.option_of(
    _FLEET, "--link", help="Link or frame at which a load is looked for. Default: the last link."
)
@options.option_of(
    _FLEET, "--level", type=float, help="Probability of a false alarm for a healthy robot."
)
@options.keep_option(
    _FLEET,
    "what is known of each robot: the same call, after it was killed, does not read its logs "
    "again.",
)
@options.option_of(
    _FLEET,
    "--force",
    "--anyway",
    is_flag=True,
    help="Fit although a quick check of a log finds that meaningless. Old name: --anyway.",
)
@options.settings_options
@options.time_option
@options.read_options
@options.engine_options
@options.json_option
def fleet(
    robot: options.RobotSource,
    logs: options.Files,
    output: str,
    settings: Settings,
    as_json: bool,
    executor: Any,
    **more: Any,
) -> None:
    """Identify robots of one type, ROBOT, from LOGS.

    Files or folders, in which each robot has its own. Robots are named by folders robot=NAME, as
    minidyn convert writes them, or by the first folder or file below what all LOGS have in common.
    A data set of LeRobot is one robot.

    Example: minidyn fleet ur10e data --output fleet --workers 8
    """
    from minidyn import identify_fleet
    from minidyn.app.fleet_result import FILES
    from minidyn.files import check_folder, check_outputs, new_folder

    prior = settings.prior if isinstance(settings.prior, str) else None
    inputs = options.inputs(robot, *logs, more["mapping"], prior)
    target = check_folder(output)
    check_outputs([target / name for name in FILES], inputs)
    kind = told(robot.load())
    more |= {"times": more.pop("time"), "settings": settings}
    with progress(f"identifying robots of type {kind.name}"):
        found = identify_fleet(kind, list(logs), executor, **options.given(more))
    with progress(f"writing {target}"), new_folder(target, inputs=inputs, ours=True) as folder:
        found.write_into(folder)
    if as_json:
        print_json(found.to_json() | {"files": list(FILES)})
        return finish(None, None, found.notices)
    rows = [(safe(one.name), f"{100 * one.p:.2g} %", safe(one.text)) for one in found.to_look_at]
    title = f"{len(found.robots)} robots of type {safe(kind.name)}: {len(rows)} to look at"
    if rows:
        print_table(title, ("robot", "chance if healthy", "differs in"), rows, right=(1,))
    else:
        click.echo(title)
    click.echo(f"a healthy robot is listed with a probability of {100 * found.level:.3g} %")
    print_notices(notice for notice in found.notices if notice.code != "fleet.differs")
    click.echo(f"written into {plain(str(target))}: {', '.join(FILES)}")
    click.echo(f"to read: {plain(str(target / FILES[0]))}")
    return finish(None, None, found.notices)
