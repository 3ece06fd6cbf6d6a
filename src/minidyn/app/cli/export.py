"""`minidyn export`: a saved estimate as files of simulators, controllers and robots."""

from __future__ import annotations

from typing import Any

import click

from minidyn.app.cli import options
from minidyn.app.cli.identify import read_logs
from minidyn.app.cli.text import print_json, print_notices, progress, told
from minidyn.notices import notices_json
from minidyn.text import plain

_TARGETS = options.constant("identification.export", "TARGETS")
_DEFAULT = options.constant("identification.export", "FORMATS")


@click.command()
@options.estimate_argument
@click.option(
    "--to",
    multiple=True,
    type=options.OneOf(lambda: _TARGETS),
    help=f"{', '.join(_TARGETS)}; repeat. Default: {', '.join(_DEFAULT)}.",
)
@options.output_option("minidyn-out/exported")
@click.option(
    "--source",
    type=click.Path(),
    help="URDF or MJCF whose meshes are kept. Default: the robot's own file.",
)
@options.validate_option
@options.log_options
@options.json_option
def export(
    estimate: str,
    to: options.Files,
    output: str,
    source: str | None,
    test: options.Files,
    as_json: bool,
    **reading: Any,
) -> None:
    """Write a saved ESTIMATE (estimate.json) for other programs.

    What a format cannot say is named, with the error it causes on the log of --validate.

    Example: minidyn export out/estimate.json --to mujoco --to pinocchio --validate
    other.csv --output model
    """
    from minidyn.app.job import Job
    from minidyn.identification.estimate import load_estimate

    model = told(load_estimate(estimate))
    found = {}
    if test:
        job = Job.of_files(model.robot, (), test, **reading)
        read_logs(job)
        with progress("validating"):
            found = job.validate(model)
    with progress(f"writing {output}"):
        made = model.export(
            output, to or None, source=source, test=next(iter(found.values()), None)
        )
    files = [str(path) for path in made.files]
    if as_json:
        print_json({"files": files, "notices": notices_json(made.notices)})
        return
    click.echo(plain("\n".join(files)))
    print_notices(made.notices)
