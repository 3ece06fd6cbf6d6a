"""A fleet from the shell: logs of each robot, converted, compared, and the report on them."""

from __future__ import annotations

import json
import sys
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

import minidyn as md
from minidyn.app.cli.main import main
from minidyn.identification.fleet.logs import files_by_robot

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
from fleet import TERMS, log_of

sys.path.insert(0, str(Path(__file__).parents[1] / "laws"))
from test_places import lerobot


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["-q", *map(str, arguments)])


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Logs of five robots as Parquet, of which one has joint 2 stuck half.

    The last, of a strange name.
    """
    folder = tmp_path_factory.mktemp("fleet")
    rng = np.random.default_rng(0)
    for number, name in enumerate(("a1", "a2", "a3", "a4", "<b>")):
        log = log_of("two joints", rng, ("friction", 1, 2.0) if name == "<b>" else None, motions=1)
        log = md.Recording(log.t, log.q, log.tau, joint_names=log.joint_names)
        log.save(folder / f"2026-11-0{number + 1}.csv")
        arguments = (folder / f"2026-11-0{number + 1}.csv", "--robot", "two_link", "--name", name)
        assert run("convert", *arguments, "--output", folder / "data").exit_code == 0
    return folder / "data"


class _Texts(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags, self.text = set[str](), ""

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.tags.add(tag)

    def handle_data(self, data: str) -> None:
        self.text += data


def test_from_logs_to_the_report(data: Path, tmp_path: Path) -> None:
    assert list(files_by_robot([data])[0]) == ["<b>", "a1", "a2", "a3", "a4"]
    arguments = ("two_link", data, "--friction", ",".join(TERMS), "--output", tmp_path / "out")
    result = run("fleet", *arguments)
    assert result.exit_code == 0, result.output
    assert "joint2" in result.output
    content = json.loads((tmp_path / "out" / "fleet.json").read_text())
    assert content["deviations"][0]["robot"] == "<b>"
    assert (content["deviations"][0]["kind"], content["deviations"][0]["joint"]) == (
        "friction",
        "joint2",
    )
    assert content["robots"][1]["dates"] == ["2026-11-01"]
    assert md.load_estimate(tmp_path / "out" / "estimate.json").consistent
    page = _Texts()
    page.feed((tmp_path / "out" / "report.html").read_text())
    assert "b" not in page.tags
    assert {"svg", "table"} <= page.tags
    assert "friction of joint 'joint2'" in page.text
    result = run("fleet", *arguments, "--time", "stamps", "--rate", "100")
    assert result.exit_code != 0
    assert "give one" in str(result.output) + str(result.exception)


def test_a_robot_whose_logs_are_broken_is_named(data: Path, tmp_path: Path) -> None:
    for file in data.rglob("*.parquet"):
        place = tmp_path / "data" / file.relative_to(data)
        place.parent.mkdir(parents=True)
        place.write_bytes(file.read_bytes()[: 300 if "robot=a2" in str(file) else None])
    arguments = ("two_link", tmp_path / "data", "--friction", ",".join(TERMS), "--no-consistent")
    result = run("fleet", *arguments, "--on-error", "skip", "--json", "--output", tmp_path / "out")
    assert result.exit_code == 4, result.output
    assert list(json.loads(result.stdout)["left_out"]) == ["a2"]


def named(*paths: object) -> dict[str, int]:
    return {
        name: len(files) for name, files in files_by_robot([str(path) for path in paths])[0].items()
    }


def test_robots_are_named_by_one_rule(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether the folder, its folders, a pattern or every file is given."""

    def made(*names: str) -> Path:
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        for name in names:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text("t,q\n")
        return folder

    def every(folder: Path) -> list[Path]:
        return sorted(file for file in folder.rglob("*") if file.is_file())

    folder = made("x/one.csv", "x/deep/two.csv", "y/one.csv")
    for given in (
        [folder],
        [folder / "x", folder / "y"],
        [folder / "*"],
        every(folder),
        [f"{folder.as_uri()}/*/*.csv"],
    ):
        assert named(*given) == ({"x": 1, "y": 1} if "*.csv" in str(given) else {"x": 2, "y": 1})
    monkeypatch.chdir(folder)
    assert named(".") == named("x", "y") == named("y/one.csv", "x") == {"x": 2, "y": 1}
    # files beside folders; the same file twice
    folder = made("a.csv", "b/one.csv", "c.tar.csv")
    assert named(folder, folder / "*.csv") == named(*every(folder)) == {"a": 1, "b": 1, "c.tar": 1}
    # days are not robots
    folder = made(
        "a_2026-11-02.csv", "20261103T081500_a.csv", "2026-11-03/b.csv", "date=2026-11-04/b.csv"
    )
    assert named(folder) == named(*every(folder)) == {"a": 2, "b": 2}
    folder = made("a/2026-11-02.csv", "b/2026-11-02.csv", "arm-20261399/one.csv")
    assert named(folder) == named(*every(folder)) == {"a": 1, "b": 1, "arm-20261399": 1}
    # as Parquet is partitioned, in any order
    folder = made("date=2026-11-02/robot=a%2F1/x.csv", "robot=b/part-0.csv")
    assert named(folder) == named(*every(folder)) == named(folder / "*") == {"a/1": 1, "b": 1}
    # one robot is none: days of it, or a folder too high
    for folder in (made("a/monday.csv", "a/tuesday.csv"), made("2026-11-02.csv", "2026-11-03.csv")):
        with pytest.raises(md.MinidynError, match=r"all logs are of one robot.*robot=NAME"):
            named(folder)


@pytest.mark.parametrize("version", ["v2.1", "v3.0"])
def test_data_sets_of_lerobot_are_robots(version: str, tmp_path: Path) -> None:
    """Each set is one robot, named by its folder; what describes sets is no log.

    Its name may hold the day.
    """
    rng, sets = np.random.default_rng(0), tmp_path / "sets"
    for name in ("a1_2026-11-02", "a1_2026-11-03", "a2", "a3", "a4"):
        log = log_of("two joints", rng, ("friction", 1, 2.0) if name == "a4" else None, motions=2)
        lerobot(sets / name, version, True, [log[: len(log) // 2], log[len(log) // 2 :]])
    every = (
        {"a1": 2, "a2": 1, "a3": 1, "a4": 1}
        if version == "v3.0"
        else {"a1": 4, "a2": 2, "a3": 2, "a4": 2}
    )
    assert named(sets) == named(sets / "*") == named(*sorted(sets.iterdir())) == every
    assert named(sets / "*/data/chunk-*/*.parquet") == every
    assert len(md.read_recording(sets, lazy=True).runs) == 10
    options = {"friction": TERMS, "consistent": False}
    fleet = md.identify_fleet("two_link", sets, **options)
    assert fleet.robots["a1"].dates == ("2026-11-02", "2026-11-03")
    assert fleet.to_look_at[0].name == "a4"
    with pytest.raises(
        md.MinidynError, match=r"one robot, 'a3'.*a data set of LeRobot is one robot"
    ):
        md.identify_fleet("two_link", sets / "a3", **options)
