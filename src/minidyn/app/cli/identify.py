"""What `minidyn identify` and `minidyn validate` do.

What `minidyn identify` and `minidyn validate` print for people.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from minidyn.app.cli.text import print_table, progress, safe, table
from minidyn.errors import DescriptionError, MinidynError
from minidyn.formats.load import load
from minidyn.notices import Notice, most_serious_first
from minidyn.text import plain, plain_percent

if TYPE_CHECKING:
    from minidyn.identification.cross_validate import CrossValidation
    from minidyn.identification.estimate import Estimate
    from minidyn.identification.validate import Validation
    from minidyn.model.robot import Robot
    from minidyn.recording.lazy import LazyRecording
    from minidyn.recording.recording import Recording


_NOISY = 0.02  # share of the torque above the cut-off that is worth a word


def print_errors(estimate: Estimate, validations: dict[str, Validation]) -> None:
    """Print the errors on each log, joint by joint, and what the columns mean."""
    for label, validation in validations.items():
        rows = table(
            f"{safe(estimate.robot.name)}, {safe(label)}: "
            f"{plain_percent(validation.relative_error)} of the measured torque",
            "joint", "error", "low-passed", "description", "rms", "bias", "residual",
            right=(1, 2, 3, 4, 5),
        )  # fmt: skip
        words = validation.whiteness
        nothing = float("nan")
        for name, entry in validation.per_joint.items():
            errors = (
                entry["relative_error"],
                entry.get("filtered_relative_error", nothing),
                entry.get("prior_relative_error", nothing),
            )
            numbers = (f"{entry['rmse']:.3g}", f"{entry['bias']:+.2g}")
            rows.add_row(safe(name), *map(plain_percent, errors), *numbers, words[name].split(",")[0])
        every = (validation.relative_error, validation.filtered_relative_error, validation.prior_relative_error)
        rows.add_row("all joints", *map(plain_percent, every), f"{validation.rmse:.3g}", "", "")
        print_table(rows)
        if validation.above_cutoff > _NOISY:
            click.echo(
                f"{plain_percent(validation.above_cutoff)} of the raw torque lies above the cut-off: "
                "no model follows it"
            )
    click.echo(
        "error: rms of measured minus predicted torque over rms of raw measured torque\n"
        "low-passed: the same without what no model of this bandwidth can follow (-: nothing was filtered)\n"
        "description: what the robot's file reaches; rms, bias: N m or N\n"
        "foreseeable: share of the residual that the sample before foretells, because friction, elasticity or delays "
        "are not modelled"
    )


def print_crossed(crossed: CrossValidation) -> None:
    """Print the errors on stretches of time that were left out one after the other."""
    rows = table(
        "errors on stretches that were left out", "time, s", "left out", "fitted", "description", right=(1, 2, 3)
    )
    for (begin, end), fold, fit in zip(crossed.spans, crossed.folds, crossed.fits):
        errors = (fold.relative_error, fit.relative_error, fold.prior_relative_error)
        rows.add_row(f"{begin:.4g} to {end:.4g}", *map(plain_percent, errors))
    rows.add_row("mean", plain_percent(crossed.relative_error), "", "")
    print_table(rows)


def print_certificate(estimate: Estimate) -> None:
    """Print how well the parameters are determined and whether the model can exist."""
    certificate = estimate.certificate
    word = "possible" if certificate.consistent else "NOT possible: " + "; ".join(certificate.reasons()[:3])
    click.echo(
        plain(
            f"{len(estimate.beta)} base parameters, condition number {estimate.condition:.3g}; physically {word}, "
            f"smallest scaled eigenvalue of a link {certificate.smallest:.3g}"
        )
    )
    click.echo(plain(f"inertia matrix: {certificate.statement}"))
    click.echo(plain(f"total mass: {certificate.mass_statement}"))


def print_notices(notices: Sequence[Notice | str]) -> None:
    """Print notices, most serious first: those that ask for action would drown among the others."""
    for one in most_serious_first(notices):
        click.echo(f"{'warning' if one.level == 'act' else 'note'}: {plain(one.text)}")


LARGE = 100_000_000
"""Bytes of logs beyond which they stay on disk and are read piece by piece."""

_KEYS = ("time=", "q names", "joints=")  # of a mapping, in words of the reader
_STILL = 1e-6  # rad or m: a joint that moves less does not move


def run_identification(
    source: str,
    logs: tuple[str, ...],
    output: str,
    *,
    held_out: tuple[str, ...],
    hold_out: float | None,
    method: str,
    friction: str,
    rotor_inertia: bool,
    prior: str | None,
    consistent: bool,
    folds: int | None,
    mapping: str | None,
    rate: float | None,
    as_json: bool,
) -> None:
    """Identify a robot from logs and write everything about the model into a folder, whole or not at all."""
    from minidyn.app.result_folder import write_result
    from minidyn.files import check_folder
    from minidyn.identification.consistency.physical import values_for
    from minidyn.identification.identify import identify
    from minidyn.identification.validate import validate

    target = check_folder(output)  # before long work
    robot, told = as_mapped(load(source), mapping)
    options: dict[str, Any] = {
        "method": method,
        "consistent": consistent,
        "rotor_inertia": rotor_inertia,
        "friction": friction_terms(friction),
    }
    believed = None if prior is None else values_for(robot, load(prior), prior)
    with progress(f"reading {_named((*logs, *held_out))}"):
        recording = read_logs(logs, robot, mapping, rate)
        groups = log_groups(held_out, robot, mapping)
        others = {label: read_logs(names, robot, mapping, rate) for label, names in groups.items()}
    if hold_out is not None:
        recording, others = _cut(recording, hold_out, others)
    with progress(f"identifying {robot.name} from {len(recording)} samples") as tell:
        try:
            estimate = identify(robot, recording, prior=believed, progress=tell, **options)
        except MinidynError as error:
            raise MinidynError(f"{_named(logs)}: {error}{_hint(recording)}") from None
    with progress("validating"):
        validations = {"fit": validate(estimate, recording)}
        for label, other in others.items():
            try:
                validations[label] = validate(estimate, other)
            except MinidynError as error:
                raise MinidynError(f"{label}: {error}") from None
    crossed = None if folds is None else _crossed(robot, recording, folds, prior=believed, **options)
    with progress(f"writing {target}"):
        record: dict[str, Any] = {
            "description": source,
            "logs": list(logs),
            "validated_on": list(held_out),
            "hold_out": hold_out,
            "prior": prior,
        }
        record["mapping_notices"] = list(told)
        if crossed is not None:
            record["cross_validation"] = crossed.to_json()
        summary = write_result(estimate, validations, target, record)
    if as_json:
        click.echo(json.dumps(summary, indent=1))
        return
    print_errors(estimate, validations)
    if crossed is not None:
        print_crossed(crossed)
    print_certificate(estimate)
    print_notices((*told, *estimate.notices, *summary["export_notices"], *same_logs(logs, held_out)))
    if not others and crossed is None:
        click.echo(
            "note: only fitted data were looked at; --validate OTHER or --hold-out 0.3 tests on motion it has not seen"
        )
    click.echo(f"written into {plain(str(target))}: {', '.join(summary['files'])}")


def run_validation(
    estimate_file: str, logs: tuple[str, ...], mapping: str | None, rate: float | None, as_json: bool
) -> None:
    """Print the errors of a saved estimate on logs."""
    from minidyn.app.result_folder import result_summary
    from minidyn.identification.estimate import load_estimate
    from minidyn.identification.validate import validate

    estimate = load_estimate(estimate_file)
    found: dict[str, Validation] = {}
    for label, names in log_groups(logs, estimate.robot, mapping).items():
        with progress(f"validating on {_named(names)}"):
            recording = read_logs(names, estimate.robot, mapping, rate)
            try:
                found[label] = validate(estimate, recording)
            except MinidynError as error:
                raise MinidynError(f"{_named(names)}: {error}") from None
    if as_json:
        click.echo(json.dumps(result_summary(estimate, found), indent=1))
        return
    print_errors(estimate, found)


def friction_terms(friction: str) -> tuple[str, ...] | str:
    """Return the option --friction as `md.identify` takes it."""
    if friction in ("own", "auto"):
        return friction
    return tuple(word for word in friction.replace(" ", ",").split(",") if word and word != "none")


def as_mapped(robot: Robot, mapping: str | None) -> tuple[Robot, tuple[str, ...]]:
    """Return the robot with what the mapping of its logs tells about its drives."""
    if mapping is None:
        return robot, ()
    from minidyn.recording.read.mapped_drives import with_mapped_coupling
    from minidyn.recording.read.mapping import SignalMap

    return with_mapped_coupling(robot, SignalMap.of({}, mapping))


def read_logs(logs: Sequence[str], robot: Robot, mapping: str | None, rate: float | None) -> Recording | LazyRecording:
    """Read logs; large ones stay on disk."""
    from minidyn.recording.read.read import read_recording

    options: dict[str, Any] = {} if rate is None else {"rate": rate}
    if mapping is not None:
        options["mapping"] = mapping
    options["lazy"] = sum(_size(Path(name)) for name in logs) > LARGE
    try:
        found: Recording | LazyRecording = read_recording(list(logs), robot=robot, **options)
    except DescriptionError as error:
        if mapping is None and any(key in str(error) for key in _KEYS):
            hint = "on the command line such keys stand in a file: --mapping map.toml"
            raise DescriptionError(f"{error}; {hint}") from None
        raise
    return found


def _cut(recording: Any, share: float, others: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Return the beginning of what was read, to be fitted, and its end among the recordings for the test."""
    kept = round((1.0 - share) * len(recording))
    return recording[:kept], {"held out": recording[kept:], **others}


def _size(path: Path) -> int:
    try:
        if path.is_dir():  # a bag
            return sum(file.stat().st_size for file in path.iterdir() if file.is_file())
        return path.stat().st_size
    except OSError:
        return 0  # the reader says what is wrong


def log_groups(names: Iterable[str], robot: Robot, mapping: str | None) -> dict[str, list[str]]:
    """Return {how a log is called in results: its files}: a file each, or all where they are one run.

    A log is called by its file name, by its path where two have the same.
    """
    from minidyn.recording.read.read import are_one_run

    paths = list(dict.fromkeys(names))
    short = [Path(name).name for name in paths]
    if are_one_run(paths, robot, mapping):
        return {" + ".join(short): paths}
    return {name if short.count(word) > 1 or word in ("", "fit") else word: [name] for name, word in zip(paths, short)}


def same_logs(logs: Iterable[str], held_out: Iterable[str]) -> list[str]:
    """Return a notice for each log that is both fitted and tested on."""
    fitted = {Path(name).resolve() for name in logs}
    same = [name for name in held_out if Path(name).resolve() in fitted]
    return [f"{name} was fitted, too: its error says nothing about new motion" for name in same]


def _hint(recording: Recording | LazyRecording) -> str:
    """Return what may be the reason why nothing could be identified: joints that stand still, holes in the log."""
    found = [notice for notice in recording.notices if "not numbers" in notice][:1]
    q = getattr(recording, "q", None)
    if q is not None and len(q):
        still = [repr(name) for name, values in zip(recording.joint_names, q.T) if values.max() - values.min() < _STILL]
        found += [f"standing still: {', '.join(still)}"] if still else []
    return f" ({'; '.join(found)})" if found else ""


def _named(logs: Iterable[str]) -> str:
    names = list(logs)
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def _crossed(robot: Robot, recording: Recording | LazyRecording, folds: int, **options: Any) -> CrossValidation:
    from minidyn.identification.cross_validate import cross_validate

    with progress(f"cross-validating over {folds} stretches of time"):
        return cross_validate(robot, recording, folds, **options)
