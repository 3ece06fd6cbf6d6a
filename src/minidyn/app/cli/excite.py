"""`minidyn excite`: a motion to record, as files that the robot runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from minidyn.app.cli.options import (
    Gain,
    OneOf,
    RobotSource,
    constant,
    format_option,
    given,
    home_option,
    inputs,
    json_option,
    kept_options,
    limits_of,
    measured_option,
    option_of,
    output_option,
    require_option,
    robot_argument,
)
from minidyn.app.cli.rehearse import print_rehearsal, rehearsed
from minidyn.app.cli.text import (
    finish,
    print_json,
    print_notices,
    print_table,
    print_ways,
    progress,
    safe,
    told,
)
from minidyn.text import plain, plain_number, plain_percent

_EXCITE = "excitation.excite:excite"
_CRITERIA = constant("excitation.criteria", "CRITERIA")
_FAMILIES = constant("excitation.motion", "FAMILIES")
_PURPOSES = constant("excitation.target", "PURPOSES")
_FEW = 12  # parameters that are printed: those that will be known worst


@click.command()
@robot_argument
@click.option("--duration", type=float, required=True, help="Seconds.")
@output_option("minidyn-motion", "Folder to write into.")
@format_option
@option_of(
    _EXCITE, "--purpose", type=OneOf(lambda: _PURPOSES), help=f"One of {', '.join(_PURPOSES)}."
)
@option_of(
    _EXCITE, "--criterion", type=OneOf(lambda: _CRITERIA), help=f"One of {', '.join(_CRITERIA)}."
)
@click.option(
    "--friction",
    multiple=True,
    help="Terms to find: auto, own, none, or names; repeat. Default: auto.",
)
@option_of(
    _EXCITE, "--rotor-inertia/--no-rotor-inertia", help="Whether rotor inertias shall be found."
)
@option_of(
    _EXCITE, "--runs", type=int, help="How many motions, each for what those before it show least."
)
@option_of(
    _EXCITE, "--start", type=Gain(), help="Pose at the start, rad or m: 0,0.5,1. Default: free."
)
@option_of(_EXCITE, "--end", type=Gain(), help="Pose at the end. Default: as at the start.")
@kept_options(_EXCITE)
@option_of(
    _EXCITE,
    "--uncertainty",
    type=float,
    help="Share within which parameters are known, for torque limits.",
)
@click.option(
    "--after",
    multiple=True,
    type=click.Path(),
    help="A saved estimate that the motion shall add to; repeat.",
)
@option_of(
    _EXCITE, "--noise", type=Gain(), help="Of the torques, N m or N: 0.5, or one for each joint."
)
@option_of(
    _EXCITE,
    "--payload",
    type=float,
    help="Mass of the load that will be carried, kg (purpose payload, gains).",
)
@option_of(
    _EXCITE, "--family", type=OneOf(lambda: _FAMILIES), help=f"One of {', '.join(_FAMILIES)}."
)
@option_of(_EXCITE, "--harmonics", type=int, help="Multiples of the base frequency.")
@option_of(_EXCITE, "--periods", type=int, help="How often the motion repeats.")
@option_of(
    _EXCITE,
    "--rate",
    type=float,
    help="Samples a second of the log, for predicted errors. Default: 100.",
)
@option_of(_EXCITE, "--seed", type=int, help="Of everything random.")
@measured_option
@option_of(
    _EXCITE,
    "--time-limit",
    type=float,
    help="Seconds after which the search ends. Default: when it is done.",
)
@home_option
@click.option(
    "--rehearse",
    is_flag=True,
    help="Identify simulated copies of the robot first; where that fails nothing is written.",
)
@click.option("--force", is_flag=True, help="Write the files although the rehearsal failed.")
@require_option
@json_option
def excite(
    robot: RobotSource,
    duration: float,
    output: str,
    formats: tuple[str, ...],
    friction: tuple[str, ...],
    limits: tuple[str, ...],
    limits_file: str | None,
    home: Any,
    obstacles: str | None,
    after: tuple[str, ...],
    rehearse: bool,
    force: bool,
    measured: tuple[str, ...],
    require: str | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Design a motion that shows the parameters of a ROBOT within its limits, and write it for the
    robot.

    Example: minidyn excite ur5e --duration 10 --format urscript --output motion
    """
    from minidyn.app.result_folder import write_motion
    from minidyn.excitation.clearance import read_obstacles
    from minidyn.excitation.excite import excite as design
    from minidyn.excitation.robot_files import check_files
    from minidyn.files import check_folder

    arm = told(robot.load())
    check_folder(output)
    check_files(arm, formats, home)
    terms: Any = None if not friction else () if friction == ("none",) else friction
    wanted = given({**options, "friction": terms, "limits": limits_of(limits_file, limits)})
    if measured:
        wanted["measured"] = measured
    if after:
        from minidyn.identification.estimate import load_estimate

        wanted["after"] = [load_estimate(path) for path in after]
    if obstacles is not None:
        wanted["obstacles"] = read_obstacles(Path(obstacles))
    if isinstance(wanted.get("friction"), tuple) and wanted["friction"] in (("auto",), ("own",)):
        wanted["friction"] = wanted["friction"][0]
    for name in ("start", "end"):
        if isinstance(wanted.get(name), float):
            wanted[name] = [wanted[name]]
    with progress(f"designing a motion for {arm.name}") as counted:
        made = design(arm, duration, progress=counted, **wanted)
    rehearsal = rehearsed(arm, made, force) if rehearse else None
    given_files = inputs(robot, limits_file, obstacles, *after)
    summary = write_motion(made, output, formats, home, given_files, rehearsal)
    if as_json:
        print_json(summary)
        return finish({"level": made.verdict.level}, require)
    kinds = [kind for kind in made.margins if kind != "distance"]
    rows = [
        (
            safe(joint),
            *(
                plain_percent(made.margins[kind][joint]) if joint in made.margins[kind] else "-"
                for kind in kinds
            ),
        )
        for joint in made.margins["position"]
    ]
    print_table(f"{safe(arm.name)}: largest share of each limit", ("joint", *kinds), rows)
    worst = sorted(
        zip(made.relative_std, made.std, made.names),
        key=lambda row: -(row[0] if row[0] == row[0] else 0.0),
    )
    shown = [
        (safe(name), plain_number(std, 3), plain_percent(share))
        for share, std, name in worst[:_FEW]
    ]
    title = f"predicted errors of a log of {duration:g} s at {made.rate:g} Hz, worst first"
    print_table(title, ("parameter", "std", "relative"), shown)
    if "distance" in made.margins:
        pair, least = min(made.margins["distance"].items(), key=lambda item: item[1])
        click.echo(f"least distance {1000 * least:.1f} mm: {safe(pair)}")
    if made.rests:
        click.echo(f"{len(made.rests) // 2} poses at rest, each reached from above and from below")
    click.echo(f"condition {made.condition:.4g}, logdet {made.logdet:.5g}")
    if rehearsal is not None:
        print_rehearsal(rehearsal, "rehearsal")
    click.echo(f"verdict: {made.verdict.headline}")
    print_notices(made.notices)
    print_ways(formats)
    click.echo("written: " + ", ".join(plain(f"{output}/{name}") for name in summary["files"]))
    return finish({"level": made.verdict.level}, require)
