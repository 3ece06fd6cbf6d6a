"""`minidyn compare`, `compare-estimates`, `payload` and `gains`.

Methods, estimates, loads and drive gains of logs.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import click

from minidyn.app.cli import options
from minidyn.app.cli.identify import (
    flexibility_option,
    force_option,
    friction_option,
    friction_per_option,
    hold_out_option,
    read_logs,
    rotor_inertia_option,
)
from minidyn.app.cli.options import Files
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
from minidyn.notices import notices_json
from minidyn.text import plain
from minidyn.text import plain_percent as percent

if TYPE_CHECKING:
    from minidyn.identification.settings import Settings


@click.command()
@options.robot_argument
@options.logs_argument
@options.validate_option
@hold_out_option
@click.option(
    "--methods", help="Some methods only, as in ols,wls,iv. Default: all that take every motion."
)
@friction_option
@friction_per_option
@flexibility_option
@rotor_inertia_option
@force_option
@options.settings_options
@options.log_options
@options.engine_options
@options.json_option
def compare(
    robot: options.RobotSource,
    logs: Files,
    test: Files,
    methods: str | None,
    settings: Settings,
    as_json: bool,
    **more: Any,
) -> None:
    """Identify a ROBOT from LOGS by all methods and compare their errors, physical consistency and
    time.

    Friction that is chosen from the data (auto) is chosen once, for all methods.

    Example: minidyn compare ur10.urdf run.db3 --validate other.db3 --methods wls,iv
    """
    from minidyn.app.job import Job, listed
    from minidyn.app.result_folder import comparison_data
    from minidyn.identification.estimators.methods import ANY_MOTION

    if not test and more["hold_out"] is None:
        needs = "compare needs data that are not fitted, to test the models on"
        raise MinidynError(f"{needs}: --validate other.csv, or --hold-out 0.3 for a single log")
    chosen = None if methods is None else listed(methods)
    for name in chosen or ():
        settings.replace(method=name)  # an unknown one is found before logs are read
    running = options.given({"force": more.pop("force")})
    job = Job.of_files(robot.load(), logs, test, settings=settings, running=running, **more)
    told(job.robot)
    read_logs(job)
    models = 2 * len(ANY_MOTION if chosen is None else chosen)  # each as it is and made consistent
    with progress(f"comparing {models} models of {job.robot.name}", total=models) as done:
        found = job.compare(chosen, done)
    if as_json:
        print_json(
            {
                "rows": comparison_data(found),
                "terms": list(found.terms),
                "notices": notices_json(found.notices),
            }
        )
        return finish(None, None, found.notices)
    columns = (
        "method",
        "made consistent",
        "validation error",
        "fit error",
        "consistent",
        "seconds",
    )
    rows = []
    for row in found.rows:
        errors = [f"{100 * error:.4g} %" for error in (row.validation_error, row.fit_error)]
        result = (
            ["-", "-", "failed"] if row.failure else [*errors, "yes" if row.realizable else "no"]
        )
        rows.append([row.method, "yes" if row.consistent else "no", *result, f"{row.seconds:.2f}"])
    print_table(
        f"{safe(job.robot.name)}: error of the torque on test data", columns, rows, right=(2, 3, 5)
    )
    if found.terms:
        titles = ("candidate", "joints", "gain, nats", "standard error", "taken")
        cells = []
        for one in found.terms:
            scores = (one["gain"], one["standard_error"])
            numbers = ["" if score is None else f"{score:.3g}" for score in scores]
            joints = safe(", ".join(one["joints"])) or "all"
            cells.append([one["candidate"], joints, *numbers, "yes" if one["taken"] else "no"])
        print_table("what was tried", titles, cells, right=(2, 3))
    for row in found.rows:
        if row.failure:
            click.echo(f"{row.label} failed: {plain(row.failure)}")
    print_notices(found.notices)
    click.echo(
        f"least validation error: {found.best.label} (physically consistent models are preferred "
        "where they cost less than 1 %)"
    )
    return finish(None, None, found.notices)


@click.command()
@click.argument("first", metavar="A", type=click.Path())
@click.argument("second", metavar="B", type=click.Path())
@click.option("--output", type=click.Path(), help="HTML file to write: both side by side.")
@click.option("--same-day", is_flag=True, help="Both logs are of one day and kind of motion.")
@options.json_option
def compare_estimates(
    first: str, second: str, output: str | None, same_day: bool, as_json: bool
) -> None:
    """Compare two saved estimates A and B of one robot: parameters, links, friction, torques.

    Example: minidyn compare-estimates monday/estimate.json friday/estimate.json --output
    comparison.html
    """
    from minidyn.app import compare_estimates as library
    from minidyn.app.report.report import check_page

    if output is not None:
        check_page(output)  # before long work
    with progress("comparing"):
        found = library.compare_estimates(first, second, same_day=same_day)
        files = [] if output is None else [str(found.report(output))]
    if as_json:
        print_json({**found.to_json(), "files": files})
        return
    one, two = (safe(name) for name in found.names)
    rows = [
        (
            pair.name,
            *(f"{value:.4g}" for value in (*pair.first, *pair.second)),
            f"{pair.apart:.1f}",
            pair.unit,
        )
        for pair in found.different
    ]
    known = sum(math.isfinite(pair.apart) for pair in found.pairs)
    title = (
        f"{safe(found.a.robot.name)}: {len(rows)} of {known} base parameters differ by more than "
        f"{library.FAR:g} std"
    )
    if rows:
        print_table(
            title,
            ("parameter", one, "std", two, "std", "apart, std", "unit"),
            rows,
            right=(1, 2, 3, 4, 5),
        )
    else:
        click.echo(title)
    joints = [(safe(name), percent(share)) for name, share in found.difference.items()]
    joints.append(("all joints", percent(found.relative_difference)))
    print_table(
        "torques on a motion within the joint limits", ("joint", "difference"), joints, right=(1,)
    )
    for sentence in found.not_comparable:
        click.echo(plain(sentence))
    for file in files:
        click.echo(f"written: {plain(file)}")


@click.command()
@options.estimate_argument
@options.logs_argument
@click.option("--link", help="Link or frame that carries the load. Default: the last link.")
@click.option(
    "--output",
    type=click.Path(),
    help="File for the robot's controller: .json (Franka), .script (Universal Robots).",
)
@options.log_options
@options.engine_options
@options.json_option
def payload(
    estimate: str, logs: Files, link: str | None, output: str | None, as_json: bool, **reading: Any
) -> None:
    """Find the load in LOGS against a saved ESTIMATE (estimate.json) of the robot without it.

    Example: minidyn payload out/estimate.json with_load.csv

    Example: minidyn payload out/estimate.json with_load.csv --link flange --output payload.script
    """
    from minidyn.app.job import Job
    from minidyn.app.result_folder import payload_data
    from minidyn.files import check_outputs
    from minidyn.identification.estimate import load_estimate

    model = told(load_estimate(estimate))
    model.robot.find_frame(link)  # a wrong name is reported before logs are read
    lazy = False if reading["executor"] is None else None
    job = Job.of_files(model.robot, logs, **{**reading, "lazy": lazy})
    read_logs(job)
    with progress(f"identifying the load of {job.robot.name}"):
        found = job.payload(model, link)
    carrier = link or job.robot.link_names[-1]
    if output is not None:
        check_outputs([output], options.inputs(estimate, *logs), ours=False)
        found.export(output)
    if as_json:
        print_json({**payload_data(found), "link": carrier})
        return finish(None, None, found.notices)
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in found.table().splitlines()[2:]
    ]
    print_table(
        f"load of {safe(job.robot.name)} on {safe(carrier)}",
        ("", "value", "std", "unit"),
        rows,
        right=(1, 2),
    )
    print_notices(found.notices)
    if output is not None:
        click.echo(f"written: {plain(output)}")
    return finish(None, None, found.notices)


_GAINS = "identification.gains.drive_gains:identify_drive_gains"


@click.command()
@options.robot_argument
@click.argument("empty", metavar="LOG_EMPTY", type=click.Path())
@click.argument("loaded", metavar="LOG_LOADED", type=click.Path())
@click.option("--mass", type=float, required=True, help="Of the load, weighed, kg.")
@options.option_of(
    _GAINS,
    "--com",
    type=options.Gain(),
    metavar="X,Y,Z",
    help="Its centre in the frame that carries it, m: 0,0,0.1.",
)
@options.option_of(
    _GAINS,
    "--inertia",
    type=options.Gain(),
    metavar="ROWS",
    help="About its centre, kg m², with --com: rows with semicolons.",
)
@options.option_of(
    _GAINS, "--link", help="Link or frame that carries the load. Default: the last link."
)
@options.option_of(
    _GAINS,
    "--friction",
    help="Drive terms such as viscous,coulomb, none, or own. Default: own, or usual ones.",
)
@options.option_of(
    _GAINS, "--rotor-inertia/--no-rotor-inertia", help="Whether drives have rotor inertias."
)
@click.option(
    "--output",
    type=click.Path(),
    help="Mapping file (.toml) to write: --mapping makes torques with it.",
)
@click.option(
    "--force", "--anyway", is_flag=True, help="Write the mapping although gains are open."
)
@options.log_options
@options.json_option
def gains(
    robot: options.RobotSource,
    empty: str,
    loaded: str,
    mass: float,
    output: str | None,
    as_json: bool,
    com: Any,
    inertia: Any,
    link: str | None,
    friction: str | None,
    rotor_inertia: bool | None,
    force: bool,
    **reading: Any,
) -> None:
    """Find the drive gains of a ROBOT from currents of a run without and one with a load that was
    weighed.

    Example: minidyn gains robot.urdf empty.csv loaded.csv --mass 5.02 --output gains.toml
    """
    from minidyn.app.job import Job, friction_terms
    from minidyn.app.result_folder import gains_data
    from minidyn.files import check_outputs
    from minidyn.identification.gains.drive_gains import identify_drive_gains

    model = told(robot.load())
    if output is not None:
        check_outputs([output], options.inputs(robot, empty, loaded, reading["mapping"]))
    model.find_frame(link)  # a wrong name is reported before logs are read
    how = {**reading, "lazy": False, "currents_as_torque": True}
    jobs = [Job.of_files(model, [file], **how) for file in (empty, loaded)]
    for job in jobs:
        read_logs(job)
    wanted = {"com": com, "inertia": inertia, "link": link, "rotor_inertia": rotor_inertia}
    wanted = options.given({**wanted, "friction": friction_terms(friction)})
    with progress(f"identifying drive gains of {model.name}"):
        found = identify_drive_gains(model, jobs[0].fitted, jobs[1].fitted, mass, **wanted)
    files = [] if output is None else [output]
    if as_json:
        if output is not None:
            found.save(output, reading["mapping"], force=force)
        print_json({**gains_data(found), "files": files})
        return
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in found.table().splitlines()[2:]
    ]
    rows = [[safe(row[0]), *row[1:]] for row in rows]
    title = f"drive gains of {safe(model.name)}, joint side, N m or N a unit of current"
    print_table(title, ("joint", "gain", "std", "relative"), rows, right=(1, 2, 3))
    print_notices(found.notices)
    if output is not None:  # what is open is shown, and not written
        found.save(output, reading["mapping"], force=force)
        click.echo(f"written: {plain(output)}")
