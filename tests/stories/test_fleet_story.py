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
from minidyn.identification.fleet.members import files_by_robot

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
from fleet import TERMS, log_of


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["-q", *map(str, arguments)])


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Logs of five robots as Parquet, of which one has joint 2 stuck half: the last, of a strange name."""
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
    assert list(files_by_robot([data])) == ["<b>", "a1", "a2", "a3", "a4"]
    arguments = ("two_link", data, "--friction", ",".join(TERMS), "--output", tmp_path / "out")
    result = run("fleet", *arguments)
    assert result.exit_code == 0, result.output
    assert "joint2" in result.output
    content = json.loads((tmp_path / "out" / "fleet.json").read_text())
    assert content["deviations"][0]["robot"] == "<b>"
    assert (content["deviations"][0]["kind"], content["deviations"][0]["joint"]) == ("friction", "joint2")
    assert content["robots"][1]["dates"] == ["2026-11-01"]
    assert md.load_estimate(tmp_path / "out" / "estimate.json").consistent
    page = _Texts()
    page.feed((tmp_path / "out" / "report.html").read_text())
    assert "b" not in page.tags
    assert {"svg", "table"} <= page.tags
    assert "friction of joint 'joint2'" in page.text


def test_a_robot_whose_logs_are_broken_is_named(data: Path, tmp_path: Path) -> None:
    for file in data.rglob("*.parquet"):
        place = tmp_path / "data" / file.relative_to(data)
        place.parent.mkdir(parents=True)
        place.write_bytes(file.read_bytes()[: 300 if "robot=a2" in str(file) else None])
    arguments = ("two_link", tmp_path / "data", "--friction", ",".join(TERMS), "--no-consistent")
    result = run("fleet", *arguments, "--on-error", "skip", "--json", "--output", tmp_path / "out")
    assert result.exit_code == 4, result.output
    assert list(json.loads(result.stdout)["left_out"]) == ["a2"]


def test_robots_are_named_by_folders_or_files(tmp_path: Path) -> None:
    for name in ("x/one.csv", "x/deep/two.csv", "y/one.csv"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("t,q\n")
    found = files_by_robot([tmp_path])
    assert {name: len(files) for name, files in found.items()} == {"x": 2, "y": 1}
    (tmp_path / "x/one.csv").rename(tmp_path / "x/2026-11-02.csv")
    assert list(files_by_robot([tmp_path / "x"])) == ["x", "deep"]  # a file that is named by its day alone
    (tmp_path / "x/2026-11-02.csv").rename(tmp_path / "x/one.csv")
    assert list(files_by_robot([tmp_path / "x/one.csv", tmp_path / "x/deep/two.csv"])) == ["one", "two"]
