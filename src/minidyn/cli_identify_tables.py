"""What `minidyn identify` and `minidyn validate` print for people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from minidyn.cli_text import plain, print_table, safe, table

if TYPE_CHECKING:
    from minidyn.identification.cross_validate import CrossValidation
    from minidyn.identification.estimate import Estimate
    from minidyn.identification.validate import Validation

__all__ = ["print_certificate", "print_crossed", "print_errors", "print_notices"]

_NOISY = 0.02  # share of the torque above the cut-off that is worth a word


def print_errors(estimate: Estimate, validations: dict[str, Validation]) -> None:
    """Print the errors on each log, joint by joint, and what the columns mean."""
    from minidyn.identification.validate import percent

    for label, validation in validations.items():
        rows = table(
            f"{safe(estimate.robot.name)}, {safe(label)}: {percent(validation.relative_error)} of the measured torque",
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
            rows.add_row(safe(name), *map(percent, errors), *numbers, words[name].split(",")[0])
        every = (validation.relative_error, validation.filtered_relative_error, validation.prior_relative_error)
        rows.add_row("all joints", *map(percent, every), f"{validation.rmse:.3g}", "", "")
        print_table(rows)
        if validation.above_cutoff > _NOISY:
            click.echo(
                f"{percent(validation.above_cutoff)} of the raw torque lies above the cut-off: no model follows it"
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
    from minidyn.identification.validate import percent

    rows = table(
        "errors on stretches that were left out", "time, s", "left out", "fitted", "description", right=(1, 2, 3)
    )
    for (begin, end), fold, fit in zip(crossed.spans, crossed.folds, crossed.fits):
        errors = (fold.relative_error, fit.relative_error, fold.prior_relative_error)
        rows.add_row(f"{begin:.4g} to {end:.4g}", *map(percent, errors))
    rows.add_row("mean", percent(crossed.relative_error), "", "")
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


def print_notices(notices: Sequence[str]) -> None:
    """Print notices, the gravest first: those that ask for action would drown among the others."""
    from minidyn.reporting.advice import advise

    for one in advise(notices):
        click.echo(f"{'warning' if one.level == 'act' else 'note'}: {plain(one.text)}")
