"""Other tools for identification, side by side with minidyn.

A real log, the same split, the same terms, one run.

    python benchmarks/peers_identification.py [--quick] [--docs]

A tool that is not installed is left out with a line. The log is read from ../shared/data beside the
project. Each tool filters and fits as its own documentation does it; the torque it predicts on the
part that was held out is compared with the raw measured one, here, in the same way for all.
With --docs the tables are written into docs/comparison.md.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.signal import butter, sosfiltfilt
from threadpoolctl import threadpool_limits

import minidyn as md

ROOT = Path(__file__).parents[1]
DATA = ROOT.parent / "shared" / "data" / "ur10_exciting"
PAGE = ROOT / "docs" / "comparison.md"
URDF = DATA / "ur10.urdf"
TERMS = ("viscous", "coulomb", "offset")
CUTOFFS = (5.0, 10.0, 20.0)
EDGE = 50
"""Samples at both ends of the held-out part that are not judged.

Every filter of the contestants has ends.
"""
STEPS = 20
"""Most Gauss-Newton steps of MuJoCo's identification."""

HARD_SIGN = {"consistent": False, "sign_width": 0.0}

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Log:
    """The robot with its terms, what is fitted and what is held out."""

    robot: md.Robot
    fitted: md.Recording
    held_out: md.Recording

    def error(self, predicted: Array) -> float:
        """Return ‖τ - τ̂‖ / ‖τ‖ over all joints, raw measured torque."""
        inside = slice(EDGE, -EDGE)
        left = self.held_out.tau[inside] - predicted[inside]
        return float(np.linalg.norm(left) / np.linalg.norm(self.held_out.tau[inside]))


@dataclass(frozen=True)
class Row:
    """One tool with one setting.

    Error on what was held out, CPU time of reading signals to parameters.
    """

    tool: str
    setting: str
    parameters: int
    possible: bool
    error: float
    seconds: float

    def __str__(self) -> str:
        possible = "yes" if self.possible else ""
        cells = f"{self.tool} | {self.setting} | {self.parameters} | {possible}"
        return f"| {cells} | {100 * self.error:.2f} % | {self.seconds:.2g} |"


def ur10() -> Log:
    """Return the UR10's log: the first 70 % are fitted, the rest is held out."""
    robot = md.load(URDF, rotor_inertia=True, friction=TERMS)
    recording = md.read_recording(DATA / "ur10_exciting_trajectory.db3", robot=robot)
    return Log(robot, recording.part(0.0, 0.7), recording.part(0.7))


def ours(log: Log) -> Iterator[Row]:
    """Yield our rows: the default, weighted least squares alone, and terms of friction chosen from
    the fitted part.
    """
    for setting, options in (
        ('`friction="own"`: the terms of the others', {}),
        ("`consistent=False`: weighted least squares alone", {"consistent": False}),
        (
            "`consistent=False, sign_width=0`: Coulomb friction a sign, as the others have it",
            HARD_SIGN,
        ),
        ('`friction="auto"`: more terms than the others have', {"friction": "auto"}),
    ):
        start = time.process_time()
        estimate = md.identify(log.robot, log.fitted, **{"friction": "own", **options})
        seconds = time.process_time() - start
        predicted = estimate.predict(
            md.prepare(estimate.robot, log.held_out, trim=False, decimate=1)
        )
        possible = options.get("consistent", True)
        yield Row(
            "minidyn", setting, len(estimate.beta), bool(possible), log.error(predicted), seconds
        )


def by_hand(log: Log) -> Iterator[Row]:
    """Yield what Pinocchio's regressor and NumPy give in thirty lines.

    The way many write it for themselves.
    """
    import pinocchio as pin

    model = pin.buildModelFromUrdf(str(URDF))
    data = model.createData()

    def system(part: md.Recording) -> Array:
        rate = 1.0 / float(np.median(np.diff(part.t)))
        q = sosfiltfilt(butter(4, 10.0, fs=rate, output="sos"), part.q, axis=0)
        dq = np.gradient(q, 1 / rate, axis=0)
        ddq = np.gradient(dq, 1 / rate, axis=0)
        rigid = np.array(
            [pin.computeJointTorqueRegressor(model, data, *x) for x in zip(q, dq, ddq)]
        )
        extra = [np.eye(model.nv) * x[:, None, :] for x in (ddq, dq, np.sign(dq), np.ones_like(dq))]
        return np.concatenate([rigid, *extra], axis=2)

    start = time.process_time()
    Y, sigma, tau = system(log.fitted), np.ones(model.nv), log.fitted.tau
    for _ in range(3):
        W = (Y / sigma[:, None]).reshape(-1, Y.shape[2])
        values, _, rank, _ = np.linalg.lstsq(W, (tau / sigma).ravel(), rcond=1e-8)
        sigma = np.std(tau - Y @ values, axis=0)
    seconds = time.process_time() - start
    setting = "regressor, weighted least squares of least norm, written by hand"
    yield Row(
        "Pinocchio, NumPy",
        setting,
        int(rank),
        False,
        log.error(system(log.held_out) @ values),
        seconds,
    )


def figaroh(log: Log) -> Iterator[Row]:
    """Yield FIGAROH's rows, each with the cut-off that turned out best on the held-out part.

    A favour.
    """
    import peer_figaroh

    for setting, stage, options in (
        ("`solve()`, defaults: least squares, every tenth sample", "fit", {}),
        ("`solve(wls=True)`", "fit", {"wls": True}),
        ("`solve(wls=True, decimate=False)`", "fit", {"wls": True, "decimate": False}),
        ("`select_stage: physical_fit`, `wls=True`", "physical_fit", {"wls": True}),
    ):
        rows = []
        for cutoff in CUTOFFS:
            predicted, count, seconds = peer_figaroh.run(
                URDF, log.robot, log.fitted, log.held_out, cutoff, stage, **options
            )
            text = f"{setting}; {cutoff:g} Hz"
            rows.append(
                Row("FIGAROH", text, count, stage == "physical_fit", log.error(predicted), seconds)
            )
        yield min(rows, key=lambda row: row.error)


def mujoco_sysid(log: Log) -> Iterator[Row]:
    """Yield the rows of MuJoCo's identification.

    It gets our smooth positions, speeds and accelerations.
    """
    import peer_mujoco_sysid

    smooth = [
        md.prepare(log.robot, part, trim=False, decimate=1) for part in (log.fitted, log.held_out)
    ]
    for simulate, setting in (
        (False, "`custom_rollout`: torque by `mj_inverse`; full inertias"),
        (
            True,
            (
                f"default residual: motion simulated in pieces of {peer_mujoco_sysid.PIECE:g} s; "
                "full inertias"
            ),
        ),
    ):
        predicted, count, seconds = peer_mujoco_sysid.run(URDF, log.robot, *smooth, STEPS, simulate)
        yield Row("MuJoCo sysid", setting, count, True, log.error(predicted), seconds)


CONTESTANTS = {
    "minidyn": (ours, ("minidyn",)),
    "Pinocchio": (by_hand, ("pinocchio",)),
    "FIGAROH": (figaroh, ("figaroh", "pinocchio")),
    "MuJoCo sysid": (mujoco_sysid, ("absl", "mujoco.sysid", "tabulate")),
}


def missing(modules: tuple[str, ...]) -> list[str]:
    """Return the modules that are not installed."""
    return [
        name
        for name in modules
        if find_spec(name.partition(".")[0]) is None or find_spec(name) is None
    ]


def base_table() -> str:
    """Return the table of base parameters: rigid links alone."""
    import pinocchio as pin

    import peer_base_parameters as peer
    from peers import pinocchio_model

    panda = md.load("panda")
    rows = [
        (
            "| base parameters, ms | count | Pinocchio's regressor, SciPy's QR | FIGAROH | "
            "minidyn, QR | minidyn, exact |"
        ),
        "|---|---:|---:|---:|---:|---:|",
    ]
    pairs = {
        "UR10": (md.load(URDF), pin.buildModelFromUrdf(str(URDF))),
        "Panda": (panda, pinocchio_model(panda)),
    }
    for name, (robot, model) in pairs.items():
        found = [peer.least(lambda m=model: peer.by_pinocchio(m))]
        found.append(
            peer.least(lambda m=model: peer.by_figaroh(m))
            if find_spec("figaroh")
            else (found[0][0], np.nan)
        )
        found += [
            peer.least(lambda r=robot, way=way: peer.by_us(r, way)) for way in ("qr", "exact")
        ]
        counts = {count for count, _ in found}
        if len(counts) != 1:
            raise SystemExit(
                f"{name}: the tools do not agree on the count of base parameters: {sorted(counts)}"
            )
        times = [
            "not installed" if np.isnan(seconds) else f"{1e3 * seconds:.1f}" for _, seconds in found
        ]
        rows.append(f"| {name} | {counts.pop()} | {' | '.join(times)} |")
    return "\n".join(rows)


def machine() -> str:
    """Return where and with what it was measured."""
    chip = (
        re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
        if os.name == "posix"
        else None
    )
    packages = []
    for name in ("minidyn", "pin", "figaroh", "mujoco", "numpy", "scipy"):
        try:
            packages.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            packages.append(f"{name} not installed")
    where = chip.group(1) if chip else platform.processor()
    day = datetime.now(UTC).date()
    return (
        f"Measured on {day}, {where}, one thread, Python {platform.python_version()}, "
        f"{', '.join(packages)}."
    )


def into_page(text: str) -> None:
    """Put the tables between their two marks."""
    marks = "<!-- peers: begin -->", "<!-- peers: end -->"
    old = PAGE.read_text(encoding="utf-8")
    new, count = re.subn(
        f"{marks[0]}.*?{marks[1]}",
        lambda _: f"{marks[0]}\n\n{text}\n\n{marks[1]}",
        old,
        flags=re.DOTALL,
    )
    if count != 1:
        raise SystemExit(
            f"{PAGE}: expected one pair of marks {marks[0]} ... {marks[1]}, found {count}"
        )
    PAGE.write_text(new, encoding="utf-8")


def main() -> None:
    """Run every tool that is here; print the tables."""
    parser = argparse.ArgumentParser(description="Compare tools for identification on a real log.")
    parser.add_argument(
        "--quick", action="store_true", help="without MuJoCo sysid, which takes minutes"
    )
    parser.add_argument(
        "--docs", action="store_true", help="write the tables into docs/comparison.md"
    )
    options = parser.parse_args()
    if not DATA.is_dir():
        raise SystemExit(f"the log of the UR10 is not at {DATA}")
    table = [
        (
            "| UR10 log | setting | parameters | physically possible | error on the part held out "
            "| CPU s |"
        ),
        "|---|---|---:|---|---:|---:|",
    ]
    skipped = []
    with threadpool_limits(1):
        log = ur10()
        for name, (run, modules) in CONTESTANTS.items():
            lacks = missing(modules)
            if lacks or (options.quick and name == "MuJoCo sysid"):
                skipped.append(name)
                print(
                    f"{name}: left out; "
                    + (f"not installed: {', '.join(lacks)}" if lacks else "--quick"),
                    flush=True,
                )
                continue
            for row in run(log):
                table.append(str(row))
                print(row, flush=True)
        text = "\n".join(table)
        if find_spec("pinocchio"):
            text += "\n\n" + base_table()
    text += "\n\n" + machine()
    print("\n" + text)
    if options.docs and skipped:
        raise SystemExit(
            f"the page is not written without {', '.join(skipped)}: pip install -e '.[bench]'"
        )
    if options.docs:
        into_page(text)


if __name__ == "__main__":
    main()
