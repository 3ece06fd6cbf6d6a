"""What exported files leave out, measured, and what a call of the class for ros2_control costs.

    python benchmarks/exports.py

The table is of the UR10 whose measured log is part of minidyn (`minidyn example ur10`): identified
from the first 70 %, tested on the rest, exported to each program; the error is that of a program
which reads nothing but its file. The time is of a Panda: g++ -O2, one core, processor time, the
least of fifty runs of 20,000 calls.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

import minidyn as md
from minidyn.app.cli.main import main as minidyn

TARGETS = ("urdf", "pinocchio", "drake", "mujoco", "usd", "isaac", "fmu", "ros2_control")
HOST = """
#include <cstdio>
#include <ctime>
#include "inverse_dynamics.hpp"
using Model = minidyn::@SPACE@::InverseDynamics;
int main() {
  std::vector<double> parameters(Model::kParameters);
  for (double & value : parameters) if (std::scanf("%lf", &value) != 1) return 1;
  std::vector<std::string> joints(Model::joint_names().begin(), Model::joint_names().end());
  Model model;
  if (!model.configure(joints, parameters)) return 2;
  constexpr std::size_t n = Model::kJoints;
  double q[n] = {}, dq[n], ddq[n], tau[n], sum = 0.0, least = 1e9;
  for (std::size_t i = 0; i < n; ++i) dq[i] = ddq[i] = 0.1 * (i + 1);
  for (int run = 0; run < 50; ++run) {
    const std::clock_t begin = std::clock();
    for (int k = 0; k < 20000; ++k) {
      q[k % n] += 1e-3;
      model.torque(q, dq, ddq, tau);
      sum += tau[k % n];
    }
    const double spent = double(std::clock() - begin) / CLOCKS_PER_SEC;
    if (spent < least) least = spent;
  }
  std::printf("%.1f %g\\n", least / 20000 * 1e9, sum);
}
"""


def errors(folder: Path) -> None:
    """Print what each file of an identified UR10 leaves out, and its error on held-out data."""
    minidyn(["example", "ur10", "--output", str(folder / "ur10")], standalone_mode=False)
    robot = md.load(folder / "ur10" / "robot.toml")
    log = md.read_recording(folder / "ur10" / "log.csv", robot)
    estimate = md.identify(robot, log.part(0.0, 0.7))
    test = md.validate(estimate, log.part(0.7))
    print(
        f"\nUR10, held-out data: the whole model has an error of {100 * test.relative_error:.1f} "
        "%\n"
    )
    print("| `to` | leaves out | error |")
    print("|---|---|---:|")
    for target in TARGETS:
        made = estimate.export(folder / target, to=target, test=test)
        notice = next((n for n in made.notices if n.code == "export.cannot_say"), None)
        data = {"missing": {}, "error": test.relative_error} if notice is None else notice.data
        print(
            f"| `{target}` | {', '.join(data['missing']) or 'nothing'} | "
            f"{100 * data['error']:.1f} % |"
        )


def speed(folder: Path) -> None:
    """Print the time of one call of the class for ros2_control."""
    rng = np.random.default_rng(0)
    robot = md.load("panda").with_drives(True, ("viscous", "coulomb", "offset"), sign_width=0.05)
    robot = robot.with_parameters(
        np.where(np.isnan(robot.parameters), rng.uniform(0.1, 1.0), robot.parameters)
    )
    from minidyn.codegen.consumers.ros2_control import write

    made = folder / "ros2_control_of_a_panda"
    write(robot, made)
    (made / "host.cpp").write_text(HOST.replace("@SPACE@", "panda"))
    sources = [path.name for path in made.glob("*.c")]
    subprocess.run(["gcc", "-O2", "-c", *sources], cwd=made, check=True)
    objects = [path.name for path in made.glob("*.o")]
    subprocess.run(
        ["g++", "-std=c++17", "-O2", "host.cpp", *objects, "-o", "host", "-lm"],
        cwd=made,
        check=True,
    )
    numbers = re.findall(r"^ +- (\S+)", (made / "parameters.yaml").read_text(), re.MULTILINE)
    words = subprocess.run(
        [str(made / "host")], input=" ".join(numbers), capture_output=True, text=True, check=True
    )
    print(
        f"\nPanda, 7 joints with rotor inertia and friction: {words.stdout.split()[0]} ns a call "
        "of torque()"
    )


def main() -> None:
    """Print both."""
    with tempfile.TemporaryDirectory() as folder:
        speed(Path(folder))
        if "--speed" not in sys.argv:
            errors(Path(folder))


if __name__ == "__main__":
    main()
