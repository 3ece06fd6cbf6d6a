"""What `minidyn simulate` and `minidyn casestudy` do.

What `minidyn plan` prints: experiments in which one joint moves at a time.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from minidyn.app.cli.text import console, print_table, progress, safe, table
from minidyn.errors import MinidynError, UnknownName
from minidyn.excitation.one_joint_plan import one_joint_plan
from minidyn.formats.load import load
from minidyn.text import plain

if TYPE_CHECKING:
    from minidyn.recording.recording import Recording


def show_plan(source: str, as_json: bool) -> None:
    """Print the plan of a robot.

    Args:
        source: Built-in robot or file.
        as_json: Print JSON.
    """
    robot = load(source)
    with progress(f"planning experiments for {robot.name}"):
        plan = one_joint_plan(robot)
    if as_json:
        click.echo(json.dumps(plan.to_json(), indent=2))
        return
    title = f"{safe(plan.robot.name)}: {len(plan.steps)} steps show {plan.base.rank} constants"
    steps = table(title, "step", "moves", "rad or m, period", "others locked at", "shows", right=(0,))
    for row in plan.step_rows():
        steps.add_row(*(safe(cell) for cell in row))
    print_table(steps)
    systems = table("Solved from the last joint to the first", "torque of", "constants", "from steps", "condition")
    for row in plan.system_rows():
        systems.add_row(*(safe(cell) for cell in row))
    print_table(systems)
    for notice in plan.notices:
        console().print(safe(notice))


def run_simulation(
    source: str,
    controller: str,
    output: str,
    *,
    duration: float,
    dt: float,
    rate: float,
    gain: float | None,
    adaptation: float,
    unknown: tuple[str, ...],
    model_error: float,
    noise: float,
    torque_noise: float,
    delay: float,
    plant: str,
    seed: int,
    plot: bool,
    as_json: bool,
) -> None:
    """Simulate a robot on a random trajectory under a controller, write the recording, print a summary."""
    from minidyn.simulation.named_laws import named_law
    from minidyn.simulation.simulate import simulate
    from minidyn.simulation.trajectory import fourier

    robot = load(source)
    law = named_law(
        robot,
        controller,
        rate=rate,
        gain=gain,
        adaptation=adaptation,
        unknown=unknown,
        model_error=model_error,
        period=dt,
    )
    target = Path(output)
    if target.suffix.lower() not in (".npz", ".parquet", ".csv"):
        raise MinidynError(f"--output {plain(output)}: expected a name ending with .npz, .parquet or .csv")
    with progress(f"simulating {duration:g} s of {robot.name} under {law.name}"):
        recording = simulate(
            robot,
            law,
            fourier(robot, seed=seed),
            duration,
            dt=dt,
            noise=noise,
            torque_noise=torque_noise,
            delay=delay,
            plant=plant,
            check=True,
            seed=seed,
        )
    recording.save(target)
    files = [str(target)]
    if plot:
        from minidyn.recording.plots import plot_run, save_figure

        picture = target.with_suffix(".png")
        save_figure(plot_run(recording, f"{robot.name}, {law.name}", law.estimated), picture)
        files.append(str(picture))
    error = recording.telemetry["error"]
    notices = [*recording.notices, *_joints_left_behind(recording)]
    summary: dict[str, Any] = {
        "samples": len(recording),
        "largest_error": np.abs(error).max(axis=0).tolist(),
        "last_error": np.abs(error[-1]).tolist(),
        "largest_torque": np.abs(np.asarray(recording.tau)).max(axis=0).tolist(),
        "notices": notices,
        "files": files,
    }
    if as_json:
        click.echo(json.dumps(summary, indent=1))
        return
    rows = table(f"{safe(robot.name)} under {law.name}", "joint", "largest error", "last error", "largest torque")
    for index, name in enumerate(robot.joint_names):
        rows.add_row(
            safe(name),
            f"{summary['largest_error'][index]:.3g}",
            f"{summary['last_error'][index]:.3g}",
            f"{summary['largest_torque'][index]:.4g}",
        )
    print_table(rows)
    for notice in notices:
        click.echo(f"note: {plain(notice)}")
    click.echo("written: " + ", ".join(plain(name) for name in files))


def _joints_left_behind(recording: Recording) -> list[str]:
    """Name the joints that do not follow their reference at all."""
    wanted, error = recording.telemetry["q_d"], recording.telemetry["error"]
    span, off = np.ptp(wanted, axis=0), np.abs(error).max(axis=0)
    lost = [name for name, width, most in zip(recording.joint_names, span, off) if most > 0.5 * width > 0]
    if not lost:
        return []
    return [
        f"{', '.join(lost)}: left behind by more than half of the wanted motion; where a joint has much friction and "
        "next to no inertia, no loop of this step holds it: give its drive a rotor inertia (an identified one near "
        "zero is often only unseen), or try a smaller --dt"
    ]


def run_case_study(name: str, output: str, as_json: bool) -> None:
    """Run a published case study and write its recordings and pictures."""
    if name != "lu-meng":
        raise UnknownName("case study", name, ("lu-meng",))
    from minidyn.recording.plots import plot_run, save_figure
    from minidyn.simulation.case_study import lu_meng_case

    folder = Path(output)
    folder.mkdir(parents=True, exist_ok=True)
    with progress("running the modified Slotine-Li and Craig laws on puma4"):
        study = lu_meng_case()
    results: dict[str, Any] = {}
    for key, title in (
        ("slotine_li", "modified Slotine-Li (LuMeng1993 Fig. 4)"),
        ("craig", "Craig (LuMeng1993 Fig. 5)"),
    ):
        recording = getattr(study, key)
        recording.save(folder / f"{key}.parquet")
        save_figure(plot_run(recording, title, ["m4"], [1.0]), folder / f"{key}.png")
        error = np.abs(recording.telemetry["error"]).max(axis=1)
        mass = recording.telemetry["estimate"][:, 0]
        results[key] = {
            "t5": _settled(recording.t, error <= 0.05 * error[0]),
            "tm5": _settled(recording.t, np.abs(mass - 1.0) <= 0.025),
            "mass": float(mass[-1]),
        }
    if as_json:
        click.echo(json.dumps(results, indent=1))
        return
    rows = table(
        "LuMeng1993, robot puma4, unknown load",
        "law",
        "error below 5 % after",
        "mass within 5 % after",
        "mass at the end",
    )
    for key, values in results.items():
        rows.add_row(key, f"{values['t5']:.4g} s", f"{values['tm5']:.4g} s", f"{values['mass']:.5g} kg")
    print_table(rows)
    click.echo(f"written: recordings and pictures in {plain(str(folder))}")


def _settled(t: Any, inside: Any) -> float:
    """Return the time after which a condition holds to the end."""
    outside = np.flatnonzero(~inside)
    return float(t[0] if not len(outside) else t[min(outside[-1] + 1, len(t) - 1)])
