"""What `minidyn identify` and `minidyn validate` do."""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from minidyn.cli_text import plain, print_table, safe, table
from minidyn.errors import MinidynError
from minidyn.model.load import load

if TYPE_CHECKING:
    from minidyn.identification.estimate import Estimate
    from minidyn.identification.validate import Validation

__all__ = ["run_identification", "run_validation"]


def run_identification(
    source: str,
    logs: tuple[str, ...],
    output: str,
    *,
    held_out: tuple[str, ...],
    method: str,
    friction: str,
    rotor_inertia: bool,
    prior: str | None,
    consistent: bool,
    mapping: str | None,
    rate: float | None,
    as_json: bool,
) -> None:
    """Identify a robot from logs and write estimate, robot and pictures into a folder, whole or not at all."""
    from minidyn.experiment.read import read_recording
    from minidyn.identification.identify import identify
    from minidyn.identification.validate import validate
    from minidyn.model.save import save

    robot = load(source, rotor_inertia=rotor_inertia, friction=_terms(friction))
    options: dict[str, Any] = {} if rate is None else {"rate": rate}
    if mapping is not None:
        options["mapping"] = mapping
    click.echo(f"reading {', '.join(plain(name) for name in logs)} ...", err=True)
    recording = read_recording(list(logs), robot=robot, **options)
    believed = None if prior is None else load(prior).with_drives(rotor_inertia, _terms(friction)).values
    click.echo(f"identifying {plain(robot.name)} from {len(recording)} samples ...", err=True)
    estimate = identify(robot, recording, method, prior=believed, consistent=consistent)
    validations = {"fit": validate(estimate, recording)}
    for name in held_out:
        validations[Path(name).name] = validate(estimate, read_recording([name], robot=robot, **options))

    target = Path(output)
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
        folder = Path(scratch) / "result"
        folder.mkdir()
        estimate.save(folder / "estimate.json")
        save(estimate.robot, folder / "robot.toml")
        save(estimate.robot, folder / "robot.urdf")
        (folder / "parameters.md").write_text(estimate.table() + "\n", encoding="utf-8")
        for name, validation in validations.items():
            _picture(validation, folder / f"torque_{_file_word(name)}.png", name)
        target.mkdir(exist_ok=True)
        for path in sorted(folder.iterdir()):
            shutil.move(path, target / path.name)
    _report(estimate, validations, as_json)
    if not as_json:
        click.echo(f"written: estimate, robot (TOML, URDF), table and pictures in {plain(str(target))}")


def run_validation(
    estimate_file: str, logs: tuple[str, ...], mapping: str | None, rate: float | None, as_json: bool
) -> None:
    """Print the errors of a saved estimate on logs."""
    from minidyn.experiment.read import read_recording
    from minidyn.identification.estimate import load_estimate
    from minidyn.identification.validate import validate

    estimate = load_estimate(estimate_file)
    options: dict[str, Any] = {} if rate is None else {"rate": rate}
    if mapping is not None:
        options["mapping"] = mapping
    found = {
        Path(name).name: validate(estimate, read_recording([name], robot=estimate.robot, **options)) for name in logs
    }
    _report(estimate, found, as_json)


def _terms(friction: str) -> tuple[str, ...] | None:
    if friction == "own":
        return None
    return tuple(word for word in friction.replace(" ", ",").split(",") if word and word != "none")


def _report(estimate: Estimate, validations: dict[str, Validation], as_json: bool) -> None:
    if as_json:
        click.echo(
            json.dumps(
                {
                    "base_parameters": len(estimate.beta),
                    "condition": estimate.condition,
                    "notices": list(estimate.notices),
                    "settings": dict(estimate.settings),
                    "errors": {
                        name: {"relative": v.relative_error, "rmse": v.rmse, "joints": v.per_joint}
                        for name, v in validations.items()
                    },
                },
                indent=1,
            )
        )
        return
    rows = table(f"{safe(estimate.robot.name)}: {len(estimate.beta)} base parameters", "joint", *map(safe, validations))
    for name in estimate.robot.joint_names:
        cells = []
        for validation in validations.values():
            entry = validation.per_joint[name]
            cells.append(f"{100 * entry['relative_error']:.3g} % ({entry['rmse']:.3g})")
        rows.add_row(safe(name), *cells)
    rows.add_row("all joints", *(f"{100 * v.relative_error:.3g} % ({v.rmse:.3g})" for v in validations.values()))
    print_table(rows)
    click.echo("error of the torque: relative to raw measured torque (rms, N m or N)")
    for notice in estimate.notices:
        click.echo(f"note: {plain(notice)}")


def _picture(validation: Validation, path: Path, title: str) -> None:
    from matplotlib.figure import Figure

    from minidyn.experiment.plots import save_figure

    count = validation.measured.shape[1]
    figure = Figure(figsize=(10, 1.7 * count + 0.6), layout="constrained")
    axes = figure.subplots(count, 1, sharex=True, squeeze=False)[:, 0]
    figure.suptitle(plain(title).replace("$", r"\$"), x=0.01, ha="left")
    for axis, name, measured, predicted in zip(
        axes, validation.per_joint, validation.measured.T, validation.predicted.T
    ):
        axis.plot(validation.t, measured, color="#9aa5b1", linewidth=0.8, label="measured")
        axis.plot(validation.t, predicted, color="#c8553d", linewidth=1.0, label="model")
        axis.set_ylabel(plain(name).replace("$", r"\$")[:16], fontsize=8)
        axis.spines[["top", "right"]].set_visible(False)
    axes[0].legend(loc="upper right", frameon=False, ncols=2, fontsize=8)
    axes[-1].set_xlabel("time, s")
    save_figure(figure, path)


def _file_word(name: str) -> str:
    word = "".join(character if character.isalnum() else "_" for character in Path(name).stem)[:40]
    if not word:
        raise MinidynError(f"{plain(name)}: a log needs a name")
    return word
