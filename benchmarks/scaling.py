"""What the scaling searches of Gautier 1991 do to the gap of the rank decision.

Python benchmarks/scaling.py [seeds]. For each robot and model the median over the seeds of log10 of
the gap (smallest kept over largest dropped value): rows as they come, columns scaled to one length,
the search for a small S, and the search on J = λ1 ||W|| + λ2 S.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

import minidyn as md
from minidyn.base.base_map import Question
from minidyn.base.numeric.numeric import numeric_base
from minidyn.base.numeric.rank import rank_of
from minidyn.base.numeric.samples import observe

ROBOTS = ("puma560", "ur10e", "panda")
MODELS = ("torque", "energy")
SCALINGS: dict[str, Any] = {
    "columns": None,
    "S": "paper",
    "J(0.01, 1)": (0.01, 1),
    "J(1, 1)": (1, 1),
    "J(100, 1)": (100, 1),
}
"""By heading, what `scaling=` is; rows as they come are computed apart."""


def main(seeds: int) -> None:
    """Print one row for each robot and model."""
    print("| robot | model | as they come | " + " | ".join(SCALINGS) + " |")
    print("|---|---|" + "---:|" * (len(SCALINGS) + 1))
    for name in ROBOTS:
        robot = md.load(name)
        for model in MODELS:
            asked = np.ones(len(robot.layout), dtype=bool)
            plain = [
                rank_of(observe(robot, model, seed), asked, "qr", equal_columns=False).gap
                for seed in range(seeds)
            ]
            found = [plain]
            for scaling in SCALINGS.values():
                found.append(
                    [
                        numeric_base(Question.of(robot, model), "qr", s, scaling).gap
                        for s in range(seeds)
                    ]
                )
            cells = [f"{np.median(np.log10(gaps)):.1f}" for gaps in found]
            print(f"| {name} | {model} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5)
