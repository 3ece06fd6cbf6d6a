"""Robots stand on a floor by default: motions keep above it; links on it are named."""

from dataclasses import replace

import numpy as np
import pytest
from click.testing import CliRunner

import minidyn as md
from minidyn.app.cli.main import main
from minidyn.excitation.bounds import bounds_of, work_poses
from minidyn.excitation.clearance import clearance_of
from shape_cases import shaped_arm

QUICK = {"friction": (), "rotor_inertia": False, "noise": 1.0, "time_limit": 2}


def kept(robot):
    poses = work_poses(bounds_of(robot, None, 0.8), robot.n)
    found, notices = clearance_of(robot, 0.02, None, poses, floor=True)
    return [name for name in found.names if name.endswith(" - floor")], notices


def test_a_motion_keeps_above_the_lowest_point_of_the_base(tmp_path) -> None:
    robot = md.load(shaped_arm(tmp_path))
    made = md.excite(robot, 4.0, **QUICK)
    assert made.feasible
    assert {f"l{k} - floor" for k in (1, 2, 3)} <= set(made.margins["distance"])
    free = md.excite(robot, 4.0, floor=False, **QUICK)
    assert not [name for name in free.margins["distance"] if name.endswith(" - floor")]
    lowest = []
    for motion in (made, free):
        q = motion.trajectory(np.linspace(0.0, 4.0, 400))[0]
        ends = motion.clearance._ends(q)[..., 2].min(axis=(1, 2))
        lowest.append(ends.min())
    assert lowest[0] >= -0.05 + 0.02  # the base is a box of 0.1 m about its origin
    assert lowest[1] < -0.05


@pytest.mark.parametrize("gravity", [(0, 0, 9.81), (9.81, 0, 0), (0, 0, 0)])
def test_no_floor_under_a_base_on_a_wall_or_a_ceiling(tmp_path, gravity) -> None:
    robot = replace(md.load(shaped_arm(tmp_path)), gravity=np.array(gravity, dtype=float))
    names, notices = kept(robot)
    assert names == []
    (notice,) = [one for one in notices if one.code == "excite.no_floor"]
    assert notice.level == "info"


def test_a_base_without_a_shape_is_named_first(tmp_path) -> None:
    path = shaped_arm(tmp_path)
    shape = '<collision><geometry><box size="0.3 0.3 0.1"/></geometry></collision>'
    path.write_text(path.read_text().replace(shape, ""))
    names, notices = kept(md.load(path))
    assert names == []
    assert [one.code for one in notices if one.level == "warning"] == ["excite.floor_not_known"]
    made = md.excite(path, 4.0, **QUICK)
    assert "no floor was checked" in made.verdict.headline.lower()
    assert not [
        one for one in md.excite(path, 4.0, floor=False, **QUICK).notices if "floor" in one.code
    ]


def test_links_that_cannot_leave_the_floor_are_named(tmp_path) -> None:
    path = shaped_arm(tmp_path)
    path.write_text(path.read_text().replace('xyz="0 0 0.3"', 'xyz="0 0 -0.01"'))
    names, notices = kept(md.load(path))
    (notice,) = [one for one in notices if one.code == "excite.on_floor"]
    assert notice.data["links"] == ["l0"]
    assert "l0 - floor" not in names
    assert "l3 - floor" in names


def test_the_shell_takes_no_floor(tmp_path) -> None:
    words = ["--duration", "4", "--friction", "none", "--noise", "1.0", "--time-limit", "1"]
    for more, has_floor in (([], True), (["--no-floor"], False)):
        output = tmp_path / f"out{has_floor}"
        result = CliRunner().invoke(
            main,
            ["excite", str(shaped_arm(tmp_path)), *words, *more, "--output", str(output)],
        )
        assert result.exit_code == 0, result.output
        assert ("l3 - floor" in (output / "motion.json").read_text()) == has_floor
