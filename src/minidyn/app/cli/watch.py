"""`minidyn watch`: what pushed the robot along a log."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from minidyn.app.cli import options
from minidyn.app.cli.identify import read_logs
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

_CAUSES = {"contact": "contact", "friction": "friction has changed"}
_OBSERVER = "control.momentum_observer:momentum_observer"


@click.command()
@options.estimate_argument
@options.logs_argument
@options.option_of(
    _OBSERVER,
    "--gain",
    type=options.Gain(),
    help="Pole of the observer, 1/s, or one for each joint.",
)
@options.option_of(
    _OBSERVER, "--threshold", type=options.Gain(), help="N m or N. Default: from the estimate."
)
@options.option_of(_OBSERVER, "--false-alarms", type=float, help="That noise may cause in an hour.")
@options.option_of(
    _OBSERVER, "--friction-error", type=float, help="Share by which friction may have changed."
)
@options.option_of(
    _OBSERVER,
    "--track-friction/--no-track-friction",
    help="Follow slow changes of friction while nothing touches the robot.",
)
@options.option_of(
    _OBSERVER,
    "--standstill",
    type=float,
    help="Speed below which friction has no direction, rad/s.",
)
@options.option_of(
    _OBSERVER, "--speed-noise", type=options.Gain(), help="Standard deviation of speeds, rad/s."
)
@options.option_of(
    _OBSERVER, "--held/--no-held", help="Whether torques are commands that are held for a period."
)
@options.option_of(
    _OBSERVER, "--frozen", type=float, help="Seconds that a signal may repeat while a joint moves."
)
@options.option_of(
    _OBSERVER,
    "--watchdog",
    type=float,
    help="Seconds without a usable sample after which nobody watches: an alarm.",
)
@click.option("--link", help="Link or frame where forces act. Default: the last link.")
@click.option(
    "--output", type=click.Path(), help="C file to write: the observer for the robot's controller."
)
@options.require_option
@options.log_options
@options.json_option
def watch(
    estimate: str,
    logs: options.Files,
    link: str | None,
    output: str | None,
    require: str | None,
    as_json: bool,
    **more: Any,
) -> None:
    """Find contacts in LOGS with a saved ESTIMATE (estimate.json): when, which joints, how hard.

    Samples that cannot be true are not used. With --require pass the exit code is 3 where there
    was a contact, or where nobody watched for longer than the watchdog's time.

    Example: minidyn watch out/estimate.json run.csv --output observer.c
    """
    from minidyn.app.job import Job
    from minidyn.control.momentum_observer import momentum_observer
    from minidyn.files import check_outputs, write_atomically
    from minidyn.identification.estimate import load_estimate

    words = (
        "gain",
        "threshold",
        "false_alarms",
        "friction_error",
        "track_friction",
        "standstill",
        "speed_noise",
        "held",
        "frozen",
        "watchdog",
    )
    settings = options.given({name: more.pop(name) for name in words})
    if output is not None:
        check_outputs([output], options.inputs(estimate, *logs, more["mapping"]))
    model = told(load_estimate(estimate))
    model.robot.find_frame(link)  # a wrong name is reported before logs are read
    observer = momentum_observer(model, **settings)
    job = Job.of_files(model.robot, logs, **{**more, "lazy": False})
    read_logs(job)
    with progress(f"watching {job.robot.name}"):
        found = observer.watch(job.fitted)
    if output is not None:
        write_atomically(Path(output), observer.source("c").encode("utf-8"))
    files = [] if output is None else [output]
    if as_json:
        print_json(found.to_json(link) | {"files": files})
        return finish({"level": "good" if found.is_silent else "bad"}, require)
    rows = [
        (
            f"{event.start:.3f}",
            f"{event.end:.3f}",
            _CAUSES[event.kind],
            safe(", ".join(event.joints)),
            f"{event.ratio:.2f}",
            force,
        )
        for event in found.events
        for force in [", ".join(f"{value:.3g}" for value in found.force(event, link))]
    ]
    if rows:
        headings = ("from, s", "to, s", "cause", "joints", "torque / threshold", "force x, y, z, N")
        print_table(f"{safe(job.robot.name)}: events", headings, rows, right=(0, 1, 4))
    least = ", ".join(f"{value:.3g}" for value in found.least_force)
    contacts = sum(event.kind == "contact" for event in found.events)
    changes = "friction has changed; " if contacts < len(rows) else ""
    click.echo(
        f"{contacts} contacts in {found.seconds:.4g} s; {changes}least force that shows, x, y, z: "
        f"{least} N (median)"
    )
    for name in files:
        click.echo(f"written: {plain(name)}")
    print_notices(found.notices)
    return finish({"level": "good" if found.is_silent else "bad"}, require)
