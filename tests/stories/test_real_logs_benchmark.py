"""The benchmark of real logs: settings, rows, and what two models of one robot differ by."""

import importlib
import math
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import minidyn as md

ROOT = Path(__file__).parents[2]
DATA = ROOT.parent / "shared" / "data"
here = pytest.mark.skipif(not DATA.is_dir(), reason="the measurements of real robots are not here")


@pytest.fixture(scope="module")
def benchmark() -> ModuleType:
    sys.path.insert(0, str(ROOT / "benchmarks"))
    return importlib.import_module("real_logs")


def test_settings_are_read_as_they_are_written(benchmark: ModuleType) -> None:
    read = benchmark.settings_of
    assert read("cutoff=10,delay=0") == {"cutoff": 10, "delay": 0}
    assert read("friction=own,prior=False") == {"friction": "own", "prior": False}
    assert read('friction=("viscous","coulomb"),cutoff=7.5') == {
        "friction": ("viscous", "coulomb"),
        "cutoff": 7.5,
    }


def test_plain_least_squares_has_the_parameters_of_a_robot_that_is_plain() -> None:
    """Data of the model itself: torques are predicted but for what the filter does."""
    sys.path.insert(0, str(ROOT / "benchmarks"))
    plain = importlib.import_module("plain")
    robot = md.load("two_link").with_drives(True, ("viscous", "coulomb", "offset"))
    values = np.nan_to_num(np.array(robot.parameters), nan=0.3)
    t = np.arange(2500) / 250
    q, dq, ddq = md.trajectory.fourier(robot, seed=1, period=10.0, speed=2.0)(t)
    tau = md.inverse_dynamics(robot, q, dq, ddq, parameters=values)
    log = md.Recording(t, q, tau, dq, joint_names=robot.joint_names)
    model = plain.PlainModel.fit(robot, log)
    times, predicted = model.predict(log)
    truth = tau[np.searchsorted(t, times)]
    assert np.linalg.norm(truth - predicted) < 0.05 * np.linalg.norm(truth)
    assert np.linalg.norm(truth - 1.1 * predicted) > 0.05 * np.linalg.norm(truth)


@here
def test_a_row_of_the_table_is_what_identify_and_validate_give(benchmark: ModuleType) -> None:
    pair = next(pair for pair in benchmark.pairs() if pair.name == "KR300: A -> B")
    settings = {"cutoff": 10, "friction": ("viscous", "coulomb", "offset")}
    cells = [
        benchmark.measure(pair, "plain", {}),
        benchmark.measure(pair, "default", settings),
    ]
    data = md.prepare(pair.robot, pair.fitted, cutoff=10)
    estimate = md.identify(pair.robot, data, friction=settings["friction"])
    expected = md.validate(estimate, pair.test)
    assert math.isclose(cells[1]["error"], expected.relative_error, rel_tol=1e-9)
    line = benchmark.table(cells, ["plain", "default"]).splitlines()[-1]
    joints = [entry["relative_error"] for entry in expected.per_joint.values()]
    worst = max(np.divide(joints, cells[0]["joints"]))
    assert line == (
        f"| KR300: A -> B | {100 * cells[0]['error']:.2f} % | "
        f"{100 * expected.relative_error:.2f} % ({worst:.2f}) |"
    )
    assert 0.3 < cells[0]["error"] < 0.5


@here
def test_a_model_differs_from_itself_by_nothing(benchmark: ModuleType) -> None:
    robot, logs = importlib.import_module("real_robots").kr300()
    settings = {"cutoff": 10, "friction": ("viscous", "coulomb", "offset")}
    models = [benchmark.fit(robot, logs[name], settings) for name in "AB"]
    third = md.prepare(robot, logs["C"], cutoff=10)
    stability = importlib.import_module("stability")
    same = stability.of_pair(models[0], models[0], third, logs["C"].q[::50])
    assert [same[key] for key in ("torque", "inertia", "cutoff", "nested")] == [0, 0, 1, 1]
    between = [
        [stability.z_of(*pair, same_day, friction) for same_day in (True, False)]
        for pair in ((models[0], models[0]), models)
        for friction in (True, False)
    ]
    assert between[0] == between[1] == [0, 0]
    assert all(0 < day < alone for alone, day in between[2:])
    apart = stability.of_pair(*models, third, logs["C"].q[::50])
    expected = np.linalg.norm(models[0].predict(third) - models[1].predict(third))
    assert math.isclose(apart["torque"], expected / np.linalg.norm(third.tau), rel_tol=1e-12)
    assert apart["inertia"] > 0.05
    assert stability.z_of(*models, same_day=True, friction=False) > 0.5
