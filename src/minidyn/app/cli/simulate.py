"""`minidyn simulate`: logs and controllers without a robot."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from minidyn.app.cli.options import (
    Gain,
    OneOf,
    RobotSource,
    constant,
    given,
    inputs,
    json_option,
    option_of,
    output_option,
    robot_argument,
)
from minidyn.app.cli.text import print_json, print_notices, print_table, progress, safe, told
from minidyn.errors import MinidynError
from minidyn.notices import Notice, error, notices_json
from minidyn.text import plain

LEFT_BEHIND = error(
    "simulate.joints_left_behind",
    "A joint does not follow its reference.",
    "Where a joint has much friction and next to no inertia, no loop of this step holds it: give "
    "its drive a rotor inertia (an identified one near zero is often only unseen), or try a "
    "smaller --dt.",
)


_SIMULATED, _LAW = "simulation.named_laws:simulated", "simulation.named_laws:named_law"
_SIMULATE = "simulation.simulate:simulate"
_LAWS = constant("simulation.named_laws", "LAWS")


@click.command()
@robot_argument
@option_of(
    _SIMULATED, "--controller", type=OneOf(lambda: _LAWS), help=f"One of {', '.join(_LAWS)}."
)
@output_option("run.npz", "Recording to write: .npz, .csv or .parquet.")
@option_of(_SIMULATED, "--duration", type=float, help="Seconds.")
@option_of(_SIMULATED, "--dt", type=float, help="Step of integration and control, s.")
@option_of(
    _LAW,
    "--bandwidth",
    type=Gain(),
    help="Of the controller, 1/s: 20, or 20,20,10 (joints), or a matrix.",
)
@option_of(
    _LAW,
    "--gain",
    type=Gain(),
    help="Gain over each joint's own inertia, 1/s. Default: twice the bandwidth.",
)
@option_of(_LAW, "--adaptation", type=Gain(), help="Speed of adaptation, relative to the values.")
@option_of(_LAW, "--kp", type=Gain(), help="Craig's Kp, 1/s². Default: bandwidth squared.")
@option_of(_LAW, "--kv", type=Gain(), help="Craig's Kv, 1/s. Default: twice the bandwidth.")
@option_of(_LAW, "--psi", type=Gain(), help="Craig's Psi, 1/s, below Kv. Default: the bandwidth.")
@option_of(
    _LAW, "--composite", type=Gain(), help="Weight of the prediction error of the filtered torque."
)
@option_of(_LAW, "--cutoff", type=float, help="Of that filter, Hz.")
@click.option(
    "--unknown",
    multiple=True,
    help="What is estimated: M4, or m4, mpx4 (LuMeng1993), or load; repeat. Default: all.",
)
@option_of(
    _LAW, "--model-error", type=float, help="How wrong the controller's model is: 0.2 is 20 %."
)
@option_of(_SIMULATE, "--noise", type=float, help="Standard deviation of measured positions.")
@option_of(_SIMULATE, "--torque-noise", type=float, help="Standard deviation of measured torques.")
@option_of(_SIMULATE, "--delay", type=float, help="Age of measurements, s.")
@option_of(_SIMULATE, "--plant", type=click.Choice(constant("simulation.plants", "PLANTS")))
@option_of(_SIMULATED, "--seed", type=int, help="Of everything random.")
@click.option("--plot", is_flag=True, help="Also write a picture beside the recording.")
@json_option
def simulate(robot: RobotSource, output: str, plot: bool, as_json: bool, **options: Any) -> None:
    """Simulate a ROBOT on a random trajectory within its limits, under a controller.

    Example: minidyn simulate panda --controller slotine_li --model-error 0.2 --output
    run.npz --plot
    """
    import numpy as np

    from minidyn.display import save_figure
    from minidyn.files import check_outputs
    from minidyn.simulation.named_laws import simulated

    arm = told(robot.load())
    target = Path(output)
    if target.suffix.lower() not in (".npz", ".parquet", ".csv"):
        raise MinidynError(
            f"--output {plain(output)}: expected a name ending with .npz, .parquet or .csv"
        )
    files = [str(target), *([str(target.with_suffix(".png"))] if plot else [])]
    check_outputs(files, inputs(robot))
    with progress(f"simulating {arm.name}"):
        recording, controller = simulated(arm, check=True, **given(options))
    recording.save(target)
    if plot:
        made = recording.plot(f"{arm.name}, {controller.name}", estimated=controller.estimated)
        save_figure(made, Path(files[1]))
    error = np.abs(recording.telemetry["error"])
    span = np.ptp(recording.telemetry["q_d"], axis=0)
    notices: list[Notice] = [*recording.notices]
    lost = [
        name
        for name, width, most in zip(arm.joint_names, span, error.max(axis=0))
        if most > 0.5 * width > 0
    ]
    if lost:
        text = f"{', '.join(lost)}: left behind by more than half of the wanted motion"
        notices.append(LEFT_BEHIND(text, joints=lost))
    summary: dict[str, Any] = {
        "samples": len(recording),
        "largest_error": error.max(axis=0).tolist(),
        "last_error": error[-1].tolist(),
        "largest_torque": np.abs(np.asarray(recording.tau)).max(axis=0).tolist(),
        "notices": notices_json(notices),
        "files": files,
    }
    if as_json:
        print_json(summary)
        return
    values = zip(
        arm.joint_names, summary["largest_error"], summary["last_error"], summary["largest_torque"]
    )
    rows = (
        (safe(name), f"{most:.3g}", f"{last:.3g}", f"{torque:.4g}")
        for name, most, last, torque in values
    )
    columns = ("joint", "largest error", "last error", "largest torque")
    print_table(f"{safe(arm.name)} under {controller.name}", columns, rows)
    print_notices(notices)
    click.echo("written: " + ", ".join(plain(name) for name in files))
