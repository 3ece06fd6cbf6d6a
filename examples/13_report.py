"""A report for people: one HTML file, complete in itself, made from results alone."""

from pathlib import Path

import minidyn as md

robot = md.load("stanford")
law = md.control.computed_torque(robot, bandwidth=10)
fit, test = (
    md.simulate(
        robot,
        law,
        md.trajectory.fourier(robot, seed=seed),
        8.0,
        noise=1e-5,
        torque_noise=0.2,
        seed=seed,
    )
    for seed in (1, 2)
)
estimate = md.identify(robot, fit, friction=(), rotor_inertia=False)
path = md.report(
    estimate,
    {"another run": test},
    "report.html",
    fit=fit,
    plan=md.one_joint_plan(robot, friction="own", rotor_inertia=None),
)

text = Path(path).read_text(encoding="utf-8")
print(f"{path}: {len(text) / 1e6:.2f} MB; open it in a browser, print it, send it")
assert "src=" not in text.replace('src="data:', ""), "nothing is fetched from elsewhere"
