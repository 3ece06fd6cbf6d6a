"""`minidyn identify` and `minidyn validate`: from logs to a model, and what the model is worth."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from minidyn.app.cli import options
from minidyn.app.cli.text import (
    finish,
    print_json,
    print_notices,
    print_table,
    print_verdict,
    progress,
    safe,
    told,
)
from minidyn.errors import DescriptionError
from minidyn.notices import Notice
from minidyn.text import plain, plain_amount
from minidyn.text import plain_percent as percent

if TYPE_CHECKING:
    from minidyn.app.job import Job
    from minidyn.identification.cross_validate import CrossValidation
    from minidyn.identification.estimate import Estimate
    from minidyn.identification.settings import Settings
    from minidyn.identification.validate import Validation

_NOISY = 0.02  # share of the torque above the cut-off that is worth a word
_KEYS = ("time=", "q names", "joints=")  # of a mapping, as the reader names them

IDENTIFY = "identification.identify:identify"
_TARGETS = options.constant("identification.export", "TARGETS")
_DEFAULT = options.constant("identification.export", "FORMATS")
METHODS = options.constant("identification.estimators.method", "DESCRIPTIONS")

friction_option = options.option_of(
    options.SETTINGS,
    "--friction",
    help="auto (viscous, coulomb, offset and what the data ask for), terms such as "
    "viscous,coulomb,load, none, or own (the terms of the robot's file).",
)
friction_per_option = options.option_of(
    options.SETTINGS,
    "--friction-per",
    type=options.OneOf(lambda: ("log",)),
    help=(
        "log: each log has friction of its own, links are shared; deviations hold how much "
        "friction varies."
    ),
)
flexibility_option = options.option_of(
    options.SETTINGS,
    "--flexibility",
    type=options.OneOf(lambda: ("motor", "link")),
    help=(
        "Find the stiffness of joints that give way; encoders sit on the motor's or on the link's "
        "side of them."
    ),
)
rotor_inertia_option = options.option_of(
    options.SETTINGS, "--rotor-inertia/--no-rotor-inertia", help="Identify rotor inertias."
)
force_option = options.option_of(
    IDENTIFY,
    "--force",
    "--anyway",
    is_flag=True,
    help=(
        "Fit although a quick check of the logs finds that meaningless (minidyn check says more). "
        "Old name: --anyway."
    ),
)
to_option = click.option(
    "--to",
    "formats",
    multiple=True,
    type=options.OneOf(lambda: _TARGETS),
    help=f"Formats of the model; repeat. Default: {', '.join(_DEFAULT)}.",
)
report_option = click.option(
    "--report/--no-report", default=True, help="Write the HTML report. Default: yes."
)
pictures_option = click.option(
    "--pictures", is_flag=True, help="Also write PNG pictures of the torques of each log."
)
hold_out_option = click.option(
    "--hold-out",
    type=click.FloatRange(0.0, 0.9, min_open=True),
    metavar="SHARE",
    help="Keep the end of the log for the test, as in 0.3: for a single log.",
)


@click.command()
@options.robot_argument
@options.logs_argument
@options.output_option("minidyn-out/identified")
@to_option
@report_option
@pictures_option
@options.validate_option
@hold_out_option
@options.option_of(
    options.SETTINGS,
    "--method",
    type=options.OneOf(lambda: METHODS),
    help="; ".join(f"{name}: {words}" for name, words in METHODS.items()) + ".",
)
@friction_option
@friction_per_option
@flexibility_option
@rotor_inertia_option
@click.option(
    "--prior",
    type=options.ROBOT,
    metavar="ROBOT",
    help=(
        "Name or file of the same robot with prior values, or none. Default: ROBOT's own, "
        "weighted by the data."
    ),
)
@options.option_of(
    options.SETTINGS, "--consistent/--no-consistent", help="Make the model physically consistent."
)
@force_option
@options.option_of(
    IDENTIFY,
    "--device",
    metavar="cuda",
    help="Reduce large logs on an NVIDIA GPU (ols, wls, irls).",
)
@click.option(
    "--folds",
    type=click.IntRange(min=2),
    help="Also cross-validate: leave out one of so many stretches of time after the other.",
)
@options.keep_option(
    IDENTIFY, "what is prepared of logs on disk: the same call, after it was killed, goes on there."
)
@options.settings_options
@options.log_options
@options.engine_options
@options.require_option
@options.json_option
def identify(
    robot: options.RobotSource,
    logs: options.Files,
    output: str,
    test: options.Files,
    settings: Settings,
    folds: int | None,
    require: str | None,
    as_json: bool,
    **more: Any,
) -> None:
    """Identify a ROBOT from LOGS (CSV, Parquet, NPZ, MATLAB, ROS bags) and write the model.

    Example: minidyn identify ur10.urdf run.db3 --validate other.db3 --output out

    Example: minidyn identify robot.urdf log.csv --units q=deg,tau=Nmm --cutoff 20 --delay 0.004
    """
    # here, so that help answers at once; as in all verbs
    from minidyn.app.job import Job, fitted_data, left_out
    from minidyn.app.result_folder import REPORT, Wanted, check_result, write_result

    prior = settings.prior if isinstance(settings.prior, str) else None
    inputs = options.inputs(robot, *logs, *test, more["mapping"], prior)
    loaded = robot.load()
    target = check_result(output, inputs, loaded.name)  # before long work
    wanted = Wanted(more.pop("formats"), more.pop("report"), more.pop("pictures"))
    running = options.given({name: more.pop(name) for name in ("force", "device")})
    job = Job.of_files(loaded, logs, test, settings=settings, running=running, **more)
    read_logs(job)
    with progress(f"identifying {job.robot.name} from {len(job.fitted)} samples") as done:
        estimate = job.identify(done)
    with progress("validating"):
        validations = job.validate(estimate, fit=True)
    crossed = None
    record: dict[str, Any] = {
        "robot_file": robot.name,
        "robot_changes": dict(robot.changes),
        "logs": list(logs),
        "validated_on": list(test),
    }
    del more["executor"], more["keep"]  # who reads does not change what is read
    prior = "none" if settings.prior is False else prior
    record |= {"hold_out": more.pop("hold_out"), "prior": prior, "reading": options.given(more)}
    if folds is not None:
        with progress(f"cross-validating over {folds} stretches of time"):
            crossed = job.cross_validate(folds)
        record["cross_validation"] = crossed.to_json()
    with progress(f"writing {target}"):
        summary = write_result(estimate, validations, target, record, crossed, inputs, wanted)
    known = [*estimate.notices, *left_out(validations)]
    if as_json:
        print_json(summary)
        return finish(summary["verdict"], require, known)
    _print_errors(estimate, validations)
    if crossed is not None:
        _print_crossed(crossed)
    _print_certificate(estimate)
    exported = map(Notice.from_json, summary["export_notices"])
    notices = [*known, *exported, *fitted_data(validations)]
    print_notices(notices + (job.not_tested() if crossed is None else []))
    click.echo(f"written into {plain(str(target))}: {', '.join(summary['files'])}")
    print_verdict(summary["verdict"])
    if wanted.report:
        click.echo(f"to read: {plain(str(target / REPORT))}")
    return finish(summary["verdict"], require, known)


@click.command()
@options.estimate_argument
@options.logs_argument
@options.log_options
@options.engine_options
@options.require_option
@options.json_option
def validate(
    estimate: str, logs: options.Files, require: str | None, as_json: bool, **reading: Any
) -> None:
    """Test a saved ESTIMATE (estimate.json) on LOGS it was not fitted to.

    Example: minidyn validate out/estimate.json other.db3

    Example: minidyn validate out/estimate.json nightly.csv --require pass
    """
    from minidyn.app.job import Job, fitted_data, left_out
    from minidyn.app.result_folder import result_summary
    from minidyn.identification.estimate import load_estimate

    model = told(load_estimate(estimate))
    job = Job.of_files(model.robot, (), logs, **reading)
    read_logs(job)
    with progress("validating"):
        found = job.validate(model)
    summary = result_summary(model, found)
    if as_json:
        print_json(summary)
    else:
        _print_errors(model, found)
        print_notices([*left_out(found), *fitted_data(found)])
        print_verdict(summary["verdict"])
    finish(summary["verdict"], require, left_out(found))


def read_logs(job: Job) -> None:
    """Read the logs of a job; what a mapping must say is said in words of the command line."""
    from minidyn.app.job import named

    logs = (*job.fit, *job.test)
    mapped = any("mapping" in log.reading for log in logs)
    with progress(f"reading {named(logs)}"):
        try:
            job.read()
        except DescriptionError as error:
            if mapped or not any(key in str(error) for key in _KEYS):
                raise
            raise DescriptionError(
                f"{error}; in the shell write such keys into a file: --mapping map.toml"
            ) from None


def _print_errors(estimate: Estimate, validations: dict[str, Validation]) -> None:
    """Print the errors on each log, joint by joint, and what the columns mean."""
    for label, validation in validations.items():
        keys = ("relative_error", "filtered_relative_error", "prior_relative_error")
        rows, words = [], validation.whiteness
        for name, entry in validation.per_joint.items():
            errors = (percent(entry.get(key, float("nan"))) for key in keys)
            sizes = plain_amount(entry["rmse"], ".3g"), plain_amount(entry["bias"], "+.2g")
            rows.append((safe(name), *errors, *sizes, words[name].split(",")[0]))
        every = [percent(getattr(validation, key)) for key in keys]
        rows.append(("all joints", *every, f"{validation.rmse:.3g}", "", ""))
        columns = ("joint", "error", "low-passed", "before", "rms", "bias", "residual")
        data = "" if validation.overlap is None else f" ({validation.data})"
        title = (
            f"{safe(estimate.robot.name)}, {safe(label)}{data}: {every[0]} of the measured torque"
        )
        print_table(title, columns, rows, right=(1, 2, 3, 4, 5))
        if validation.above_cutoff > _NOISY:
            share = percent(validation.above_cutoff)
            click.echo(
                f"{share} of the raw torque lies above the cut-off: noise, and sharp edges of "
                "friction"
            )
    click.echo(
        "error: rms of measured minus predicted torque over rms of raw measured torque\n"
        "low-passed: the same of torques after the low-pass of the preparation (-: nothing was "
        "filtered)\n"
        "before: error of the robot file's own values; rms, bias: N m or N\n"
        "autocorrelated: correlation with the sample before (lag 1); of noise it is 0, friction, "
        "elasticity or delays that are not modelled raise it"
    )


def _print_crossed(crossed: CrossValidation) -> None:
    """Print the errors on stretches of time that were left out one after the other."""
    rows = []
    for (begin, end), fold, fit in zip(crossed.spans, crossed.folds, crossed.fits):
        errors = (fold.relative_error, fit.relative_error, fold.prior_relative_error)
        rows.append((f"{begin:.4g} to {end:.4g}", *map(percent, errors)))
    rows.append(("mean", percent(crossed.relative_error), "", ""))
    columns = ("time, s", "left out", "fitted", "before")
    print_table("errors on stretches that were left out", columns, rows, right=(1, 2, 3))


def _print_certificate(estimate: Estimate) -> None:
    """Print how well the parameters are determined and whether the model is physically
    consistent.
    """
    certificate = estimate.certificate
    word = (
        "consistent"
        if certificate.consistent
        else "NOT consistent: " + "; ".join(certificate.reasons()[:3])
    )
    text = (
        f"{len(estimate.beta)} base parameters, condition number {estimate.condition:.3g}; "
        f"physically {word} (links: smallest scaled eigenvalue {certificate.smallest:.3g}; above "
        "0: a body that can exist)\n"
        f"inertia matrix: {certificate.statement}\ntotal mass: {certificate.mass_statement}"
    )
    click.echo(plain(text))
