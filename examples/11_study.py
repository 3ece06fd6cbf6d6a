"""A whole job in one file: what is run, with which settings, and where each result came from."""

import json
from pathlib import Path

import minidyn as md

Path("study.toml").write_text(
    """
[robot]
file = "scara"

[[simulate]]
name = "fit"
duration = 6
rotor_inertia = 0.2
friction = { viscous = 0.5, coulomb = 0.3 }
torque_noise = 0.05

[[simulate]]
name = "test"
duration = 3
rotor_inertia = 0.2
friction = { viscous = 0.5, coulomb = 0.3 }
torque_noise = 0.05

[identify]
logs = ["fit"]

[validate]
logs = ["test"]

[export]
to = ["urdf"]
code = ["inverse_dynamics"]
"""
)
for _ in range(2):  # the second time nothing has changed
    result = md.run_study("study.toml")
    for step in result.steps:
        print(f"{step.name:14} {step.state:10} {step.folder}")

record = json.loads((result["identify"].folder / "provenance.json").read_text())
print({key: record[key] for key in ("date", "seed", "settings")}, record["versions"]["minidyn"])
print("error on the other run:", result["validate"].summary["relative_error"])
assert result["validate"].summary["relative_error"]["test"] < 0.05
