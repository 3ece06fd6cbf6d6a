"""Rehearsals: simulated copies of a robot, identified from a motion and compared with the truth."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import minidyn as md
from conftest import LONG
from minidyn.app.rehearse import Rehearsal, _copy
from minidyn.errors import MinidynError, WrongArgument
from minidyn.model.parameters import realizability

STILL = {"encoder": 0.0, "torque_noise": 0.0, "delay": 0.0, "drift": 0.0}


@pytest.fixture(scope="module")
def quick() -> Rehearsal:
    return md.rehearse("two_link", duration=8.0, draws=3, plant="minidyn")


def test_ordinary_errors_are_rehearsed(quick: Rehearsal) -> None:
    assert quick.level == "good"
    assert np.all(quick.errors < 0.1)
    assert set(quick.shown) == set(quick.draws[0].names)
    assert {draw.seed for draw in quick.draws} == {0, 1, 2}


def test_planted_errors_are_the_errors_of_the_result(quick: Rehearsal) -> None:
    clean = md.rehearse("two_link", duration=8.0, draws=2, plant="minidyn", sensors=STILL)
    noisy = md.rehearse(
        "two_link", duration=8.0, draws=2, plant="minidyn", sensors={"torque_noise": 0.5}
    )
    same = np.median(quick.errors[:2])  # the same copies of the robot
    assert np.median(clean.errors) < same < np.median(noisy.errors)


def test_a_motion_that_shows_little_is_not_called_ready() -> None:
    def crawl(t: np.ndarray) -> tuple[np.ndarray, ...]:
        phase = 0.3 * np.asarray(t)[..., None] + np.zeros(2)
        size = 0.02
        return size * np.sin(phase), 0.3 * size * np.cos(phase), -0.09 * size * np.sin(phase)

    found = md.rehearse("two_link", crawl, duration=8.0, draws=3, plant="minidyn")
    assert found.level != "good"
    assert "MX1" in found.not_shown
    assert "rehearsal.not_shown" in {notice.code for notice in found.notices}


def test_a_motion_file_gives_the_motion(tmp_path: Path) -> None:
    path = md.trajectory.fourier(md.load("two_link"), seed=3, period=6.0)
    t = np.linspace(0.0, 6.0, 751)
    q = path(t)[0]
    lines = ["t,q.joint1,q.joint2", *(f"{a},{b},{c}" for a, (b, c) in zip(t, q))]
    (tmp_path / "motion.csv").write_text("\n".join(lines))
    from_file = md.rehearse("two_link", tmp_path / "motion.csv", draws=1, plant="minidyn")
    direct = md.rehearse("two_link", path, duration=6.0, draws=1, plant="minidyn")
    assert from_file.duration == pytest.approx(6.0)
    assert from_file.errors == pytest.approx(direct.errors, rel=0.2)


def test_copies_are_bodies_that_can_exist_and_differ_as_asked() -> None:
    robot = md.load("panda").with_drives(True, ("viscous", "coulomb", "offset"))
    values = np.nan_to_num(robot.parameters)
    for columns in robot.layout.drives:
        for column in columns:
            values[column.index] = 1.0
    nominal = robot.with_parameters(values)
    sensors = md.Sensors(bodies=0.2, friction=0.3)
    masses = []
    for seed in range(40):
        copy = _copy(nominal, sensors, np.random.default_rng(seed))
        for part in copy.layout.links:
            assert realizability(copy.parameters[part]).realizable
            masses.append(copy.parameters[part][9] / values[part][9])
    assert 0.1 < np.std(masses) < 0.4


def test_a_page_that_loads_nothing_and_plain_values(quick: Rehearsal, tmp_path: Path) -> None:
    page = quick.report(tmp_path / "rehearsal.html").read_text()
    assert quick.headline in page
    assert "://" not in page.replace("http://www.w3.org", "")
    content = json.loads(json.dumps(quick.to_json(), allow_nan=False))
    assert content["plant"] == "minidyn"
    assert len(content["draws"]) == 3
    assert "draws identified" in quick.table().to_html()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"draws": 0}, "draws"),
        ({"duration": -1.0}, "duration"),
        ({"sensors": {"delay": -1.0}}, "delay"),
        ({"sensors": {"rate": 0.0}}, "rate"),
        ({"motion": lambda t: t}, "duration"),
        ({"plant": "gazebo"}, "plant"),
    ],
)
def test_wrong_options_are_named(options: dict[str, object], words: str) -> None:
    with pytest.raises(MinidynError, match=words):
        md.rehearse("two_link", **options)  # type: ignore[arg-type]


def test_a_page_has_an_ending_of_pages(quick: Rehearsal, tmp_path: Path) -> None:
    with pytest.raises(MinidynError, match=r"\.html"):
        quick.report(tmp_path / "rehearsal.txt")
    assert issubclass(WrongArgument, MinidynError)


@pytest.mark.long
@pytest.mark.parametrize("robot", ["panda", "ur10e", "puma4", "scara"])
def test_stated_deviations_hold_against_another_simulator(robot: str) -> None:
    assert LONG
    found = md.rehearse(robot, draws=20)
    assert 0.85 <= found.coverage <= 0.99
    assert found.level == "good"
