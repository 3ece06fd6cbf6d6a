"""Draw the figures of the pages on theory and results; run it with the repository's Python.

Every line is computed here by minidyn, from the measured log of `minidyn example ur10` or a
built-in robot, or read from a table of the page that shows the figure.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import minidyn as md

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
LOG = ROOT / "src" / "minidyn" / "app" / "examples" / "ur10" / "log.csv"
BLUE, ORANGE, GREEN, PURPLE, GREY = "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#8a8a8a"


def panels(
    columns: int, height: float = 3.2, rows: int = 1, **options: Any
) -> tuple[Figure, list[Axes]]:
    """A figure and its panels, quiet axes."""
    figure = Figure(figsize=(9, height), layout="constrained")
    axes = list(figure.subplots(rows, columns, squeeze=False, **options).ravel())
    for axis in axes:
        axis.grid(color="#dddddd", linewidth=0.6)
        axis.set_axisbelow(True)
        axis.spines[["top", "right"]].set_visible(False)
    return figure, axes


@cache
def log() -> md.Recording:
    """The measured log."""
    return md.read_recording(LOG, "ur10")


@cache
def fitted() -> md.Estimate:
    """The model of its first 70 %."""
    return md.identify("ur10", log()[:2409])


@cache
def prepared() -> md.Recording:
    """Its last 30 %, filtered and differentiated."""
    return md.prepare("ur10", log()[2409:], cutoff=20.0)


def notation() -> Figure:
    """The four numbers of a modified Denavit-Hartenberg row."""
    figure, (axis,) = panels(1, 3.4)
    axis.axis("off")
    axis.set_xlim(-0.6, 6.2)
    axis.set_ylim(-0.4, 3.2)

    def arrow(
        tail: tuple[float, float],
        head: tuple[float, float],
        colour: str,
        text: str,
        at: tuple[float, float],
    ) -> None:
        axis.annotate("", head, tail, arrowprops={"arrowstyle": "-|>", "color": colour, "lw": 1.8})
        axis.text(*at, text, color=colour, fontsize=12, ha="center", va="center")

    arrow((0.5, 0.3), (0.5, 2.9), BLUE, "z of joint i-1", (0.5, 3.05))
    arrow((3.7, 0.3), (4.9, 2.9), ORANGE, "z of joint i", (5.1, 3.05))
    arrow((0.5, 0.8), (3.93, 0.8), "black", "a: along x of link i-1", (2.2, 0.62))
    arrow((3.93, 0.8), (4.55, 2.14), GREEN, "d: along z of joint i", (5.1, 1.4))
    axis.plot([3.93, 3.93], [0.8, 2.2], color=BLUE, linestyle=":")
    axis.text(4.08, 1.95, "α", color=PURPLE, fontsize=14)
    axis.plot([4.55, 5.7], [2.14, 1.9], color="black")
    axis.plot([4.55, 5.75], [2.14, 2.3], color=GREY, linestyle=":")
    axis.text(5.85, 2.1, "θ", color=PURPLE, fontsize=14)
    axis.text(
        0.5,
        -0.2,
        "T = Tx(a) Rx(α) Tz(d) Rz(θ): α turns z about x, θ turns x about z and is the joint's own "
        "motion",
        fontsize=10,
    )
    return figure


def dynamics() -> Figure:
    """What the torque of a joint consists of along a measured motion."""
    model, run, joint = fitted().robot, prepared(), 1
    zero = np.zeros_like(run.q)
    rigid = model.with_drives(rotor_inertia=False, friction=())
    gravity = md.inverse_dynamics(rigid, run.q, zero, zero)[:, joint]
    speed = md.inverse_dynamics(rigid, run.q, run.dq, zero)[:, joint] - gravity
    every = md.inverse_dynamics(rigid, run.q, run.dq, run.ddq)[:, joint]
    drive = md.inverse_dynamics(model, run.q, run.dq, run.ddq)[:, joint] - every
    figure, (axis,) = panels(1)
    axis.plot(
        run.t, np.asarray(run.tau)[:, joint], color=GREY, linewidth=3, alpha=0.5, label="measured"
    )
    parts = (
        ("gravity", gravity, BLUE),
        ("inertia", every - speed - gravity, ORANGE),
        ("Coriolis, centrifugal", speed, GREEN),
    )
    for label, values, colour in (*parts, ("friction and rotor", drive, PURPLE)):
        axis.plot(run.t, values, color=colour, linewidth=1.2, label=label)
    axis.set(xlabel="time, s", ylabel=f"torque of {model.joint_names[joint]}, N m")
    axis.legend(frameon=False, fontsize=9, ncols=5, loc="lower center", bbox_to_anchor=(0.5, 1.0))
    return figure


def regressors() -> Figure:
    """Columns of the regressor along a motion: some are zero, some repeat each other."""
    robot = md.load("puma560")
    q, dq, ddq = md.trajectory.fourier(robot, seed=1)(np.linspace(0, 5, 300))
    Y = md.regressor(robot, q, dq, ddq)
    size = np.sqrt(np.mean(Y**2, axis=0))
    figure, (axis,) = panels(1, 2.8)
    axis.grid(visible=False)
    drawn = axis.imshow(np.log10(np.maximum(size, 1e-4)), aspect="auto", cmap="viridis")
    axis.set_xticks(
        range(len(robot.parameter_names)), robot.parameter_names, rotation=90, fontsize=5.5
    )
    axis.set_yticks(range(robot.n), [f"torque {k + 1}" for k in range(robot.n)], fontsize=8)
    figure.colorbar(drawn, label="log10 of the rms")
    return figure


def base_parameters() -> Figure:
    """The map from standard to base parameters."""
    return md.base_parameters("scara").plot()


def rank_evidence() -> Figure:
    """The values that decide how many base parameters there are."""
    return md.base_parameters("puma560").evidence().plot()


def recordings() -> Figure:
    """What preparation does to noisy positions and torques; a simulated log knows the truth."""
    robot, joint = md.load("ur10e"), 4
    t = np.arange(0.0, 10.0, 2e-3)
    q, dq, ddq = md.trajectory.fourier(robot, seed=1)(t)
    rng = np.random.default_rng(0)
    clean = md.inverse_dynamics(robot, q, dq, ddq)
    tau = clean + 0.3 * rng.normal(size=q.shape)
    raw = md.Recording(t, q + 2e-5 * rng.normal(size=q.shape), tau, joint_names=robot.joint_names)
    run = md.prepare(robot, raw)
    figure, (left, right) = panels(2)
    left.plot(
        t,
        np.gradient(raw.q[:, joint], t),
        color=GREY,
        linewidth=0.7,
        label="differences of the raw positions",
    )
    left.plot(run.t, np.asarray(run.dq)[:, joint], color=BLUE, linewidth=1.4, label="prepared")
    left.plot(t, dq[:, joint], color=ORANGE, linewidth=1.0, linestyle="--", label="true")
    right.plot(t, tau[:, joint], color=GREY, linewidth=0.7, label="measured")
    right.plot(run.t, np.asarray(run.tau)[:, joint], color=BLUE, linewidth=1.4, label="prepared")
    right.plot(t, clean[:, joint], color=ORANGE, linewidth=1.0, linestyle="--", label="true")
    for axis, label in ((left, "speed, rad/s"), (right, "torque, N m")):
        axis.set(xlabel="time, s", ylabel=f"{label}, {robot.joint_names[joint]}", xlim=(4.0, 5.5))
        axis.legend(frameon=False, fontsize=8)
    return figure


def identification() -> Figure:
    """Measured and predicted torque on test data."""
    tested = md.validate(fitted(), log()[2409:])
    figure, axes = panels(1, 5.0, rows=3, sharex=True)
    for axis, joint in zip(axes, (0, 2, 4)):
        name = log().joint_names[joint]
        axis.plot(
            tested.t,
            tested.measured[:, joint],
            color=GREY,
            linewidth=3,
            alpha=0.5,
            label="measured",
        )
        axis.plot(tested.t, tested.predicted[:, joint], color=BLUE, linewidth=1.0, label="model")
        axis.plot(
            tested.t,
            tested.residual[:, joint],
            color=ORANGE,
            linewidth=0.8,
            label="measured - model",
        )
        axis.set_ylabel(
            f"{name}\n{100 * tested.per_joint[name]['relative_error']:.1f} %, N m", fontsize=8
        )
    axes[0].legend(frameon=False, fontsize=8, ncols=3, loc="upper right")
    axes[-1].set_xlabel("time, s")
    return figure


def estimators() -> Figure:
    """Some parameters by several estimators, each with its own 95 % interval."""
    figure, (axis,) = panels(1)
    names: tuple[str, ...] = ()
    for place, (method, colour) in enumerate(
        (("ols", ORANGE), ("wls", BLUE), ("irls", GREEN), ("iv", PURPLE))
    ):
        found = md.identify(
            "ur10",
            log()[:2409],
            method=method,
            consistent=False,
            friction=("viscous", "coulomb", "offset"),
        )
        names = names or tuple(name for name in found.names if name.startswith(("Fv", "Fc")))
        index = [found.names.index(name) for name in names]
        at = np.arange(len(names)) + 0.16 * (place - 1.5)
        axis.errorbar(
            at,
            found.beta[index],
            1.96 * found.std[index],
            fmt="o",
            markersize=3,
            color=colour,
            label=method,
        )
    axis.set_xticks(range(len(names)), names, fontsize=8)
    axis.set_ylabel("viscous (N m s/rad) and\nCoulomb friction (N m)")
    axis.legend(frameon=False, fontsize=9, ncols=4)
    return figure


def friction() -> Figure:
    """Friction over speed.

    What the model has, and what is left of the measured torque without it.
    """
    model, run = fitted().robot, md.prepare("ur10", log(), cutoff=20.0)
    bare = model.with_drives(friction=())
    left = np.asarray(run.tau) - md.inverse_dynamics(bare, run.q, run.dq, run.ddq)
    whole = md.inverse_dynamics(model, run.q, run.dq, run.ddq) - md.inverse_dynamics(
        bare, run.q, run.dq, run.ddq
    )
    figure, axes = panels(3)
    for axis, joint in zip(axes, (0, 1, 3)):
        speed = np.asarray(run.dq)[::10, joint]
        axis.plot(
            speed, left[::10, joint], ".", markersize=2, color=GREY, label="measured - rigid model"
        )
        axis.plot(
            speed, whole[::10, joint], ".", markersize=2, color=BLUE, label="friction of the model"
        )
        axis.set(xlabel="speed, rad/s", title=run.joint_names[joint])
    axes[0].set_ylabel("torque, N m")
    axes[0].legend(frameon=False, fontsize=8, markerscale=5)
    return figure


def essential() -> Figure:
    """Error over the number of parameters that are left."""
    plain = md.identify(
        "ur10", log()[:2409], consistent=False, friction=("viscous", "coulomb", "offset")
    )
    found = md.essential(plain, log()[:2409])
    counts = [len(plain.beta), *(step.parameters for step in found.steps)]
    figure, (axis,) = panels(1)
    for label, colour, first, key in (
        ("left-out stretches", BLUE, found.validation_error, "validation_error"),
        ("fitted data", ORANGE, found.fit_error, "fit_error"),
    ):
        values = [first, *(getattr(step, key) for step in found.steps)]
        axis.plot(counts, 100 * np.array(values), "o-", markersize=3, color=colour, label=label)
    axis.invert_xaxis()
    axis.set(xlabel="parameters that are left", ylabel="torque error, %")
    axis.legend(frameon=False, fontsize=9)
    return figure


def consistency() -> Figure:
    """Mass and principal moments of each link: prior, and the physically consistent model."""
    figure, axes = panels(2)
    robots = (("robot file", md.load("ur10"), GREY), ("identified", fitted().robot, BLUE))
    for place, (label, robot, colour) in enumerate(robots):
        at = np.arange(robot.n) + 0.35 * (place - 0.5)
        axes[0].bar(at, [link.mass for link in robot.links], 0.33, color=colour, label=label)
        smallest = [_smallest(link) for link in robot.links]
        axes[1].bar(at, smallest, 0.33, color=colour, label=label)
    axes[0].set_ylabel("mass, kg")
    axes[1].set_ylabel("smallest eigenvalue of the\npseudo-inertia over its trace")
    for axis in axes:
        axis.set_xticks(range(6), [f"link {k + 1}" for k in range(6)], fontsize=8)
    axes[0].legend(frameon=False, fontsize=9)
    return figure


def _smallest(link: Any) -> float:
    """Positive where the ten numbers belong to a body.

    The pseudo-inertia [½tr(I)1 - I, mc; mcᵀ, m] is definite.
    """
    xx, xy, xz, yy, yz, zz, mx, my, mz, m = link.parameters
    inertia = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
    J = np.zeros((4, 4))
    J[:3, :3] = 0.5 * np.trace(inertia) * np.eye(3) - inertia
    J[:3, 3] = J[3, :3] = mx, my, mz
    J[3, 3] = m
    return float(np.linalg.eigvalsh(J)[0] / np.trace(J))


def one_joint() -> Figure:
    """The first experiments of a plan: one joint moves, the others stand."""
    plan = md.one_joint_plan("puma4", friction="own", rotor_inertia=None)
    figure, axes = panels(min(4, len(plan.steps)), 2.8, sharey=True)
    for number, (axis, step) in enumerate(zip(axes, plan.steps)):
        t = np.linspace(0.0, step.trajectory.period, 400)
        q = step.trajectory(t)[0]
        for joint, colour in enumerate((BLUE, ORANGE, GREEN, PURPLE)):
            axis.plot(t, q[:, joint], color=colour, label=f"joint {joint + 1}")
        axis.set(xlabel="time, s", title=f"step {number + 1} of {len(plan.steps)}")
    axes[0].set_ylabel("position, rad")
    axes[0].legend(frameon=False, fontsize=8)
    return figure


def validation() -> Figure:
    """The residual of a joint: how it is spread, and how much of it the sample before predicts."""
    tested = md.validate(fitted(), log()[2409:])
    figure, (left, right) = panels(2)
    for joint, colour in ((1, BLUE), (5, ORANGE)):
        residual = tested.residual[:, joint] - tested.residual[:, joint].mean()
        left.hist(
            residual / residual.std(),
            bins=60,
            density=True,
            histtype="step",
            color=colour,
            label=log().joint_names[joint],
        )
        whole = np.correlate(residual, residual, "full")[len(residual) - 1 :]
        right.plot(np.arange(200) * 8e-3, whole[:200] / whole[0], color=colour)
    x = np.linspace(-4, 4, 200)
    left.plot(
        x, np.exp(-(x**2) / 2) / np.sqrt(2 * np.pi), color=GREY, linestyle="--", label="normal"
    )
    left.set(xlabel="residual over its standard deviation", ylabel="density")
    right.set(xlabel="lag, s", ylabel="autocorrelation")
    left.legend(frameon=False, fontsize=8)
    return figure


def comparing_methods() -> Figure:
    """Errors of several methods."""
    return md.compare("ur10", log()[:2409], log()[2409:], ["ols", "wls", "irls", "iv"]).plot()


def comparison() -> Figure:
    """The errors of the page's own table."""
    page = (ROOT / "docs" / "comparison.md").read_text(encoding="utf-8")
    table = page.partition("<!-- peers: begin -->")[2].partition("<!-- peers: end -->")[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()]
    kept = [row for row in rows if len(row) == 6 and row[4].endswith("%")]
    figure, (axis,) = panels(1, 3.6)
    for place, row in enumerate(reversed(kept)):
        value = float(row[4].removesuffix(" %"))
        colour = BLUE if row[0] == "minidyn" else GREY
        axis.barh(place, value, color=colour)
        axis.text(value, place, f" {value:.2f} %", va="center", fontsize=8)
    labels = [f"{row[0]}: {re.sub('`', '', row[1])[:46]}" for row in reversed(kept)]
    axis.set_yticks(range(len(kept)), labels, fontsize=7)
    axis.set_xlabel("error on the part held out, % of the measured torque")
    return figure


def benchmarks() -> Figure:
    """Times of the benchmark's own table, the first robot, in cache."""
    text = (ROOT / "benchmarks" / "README.md").read_text(encoding="utf-8")
    row = (
        r"^\| ([a-z ]*(?:matrix|dynamics|regressor)) \| ([\d.]+) \| [\d.-]+ \| ([\d.]+) \| [\d.]+x"
    )
    found = re.findall(row, text, re.MULTILINE)[:5]
    figure, (axis,) = panels(1)
    for place, (label, column, colour) in enumerate(
        (("minidyn", 1, BLUE), ("C of CasADi, gcc -O3", 2, GREY))
    ):
        at = np.arange(len(found)) + 0.35 * (place - 0.5)
        axis.bar(at, [float(cells[column]) for cells in found], 0.33, color=colour, label=label)
    axis.set_xticks(range(len(found)), [cells[0] for cells in found], fontsize=8)
    axis.set_yscale("log")
    axis.set_ylabel("ns a sample, in cache, one core")
    axis.legend(frameon=False, fontsize=9)
    return figure


FIGURES: tuple[Callable[[], Figure], ...] = (
    *(
        notation,
        dynamics,
        regressors,
        base_parameters,
        recordings,
        identification,
        estimators,
        friction,
        essential,
    ),
    *(rank_evidence, consistency, one_joint, validation, comparing_methods, comparison, benchmarks),
)


def main() -> None:
    """Draw all of them."""
    mpl.rcParams["svg.hashsalt"] = "minidyn"  # the same picture is the same file
    mpl.rcParams["svg.fonttype"] = "none"
    mpl.rcParams["path.simplify_threshold"] = 0.5
    for draw in FIGURES:
        figure = draw()
        target = HERE / f"{draw.__name__.replace('_', '-')}.svg"
        figure.savefig(target, metadata={"Date": None})


if __name__ == "__main__":
    main()
