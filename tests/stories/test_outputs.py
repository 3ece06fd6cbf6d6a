"""Inputs are never overwritten, and neither are files that minidyn did not write.

Every verb, studies, Python.
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import minidyn as md
from minidyn.app.cli.main import main
from minidyn.errors import DescriptionError, NotWritten
from minidyn.files import check_outputs, new_folder, recorded_files
from report_cases import small_estimate, small_runs


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["-q", *map(str, arguments)])


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user's folder: two_link.urdf and log.csv."""
    monkeypatch.chdir(tmp_path)
    md.save("two_link", tmp_path / "two_link.urdf")
    small_runs()[0].save(tmp_path / "log.csv")
    return tmp_path


IDENTIFY = ("identify", "two_link.urdf", "log.csv", "--friction", "viscous,coulomb")


def test_identify_does_not_replace_the_robot_it_reads(place: Path) -> None:
    before = {path.name: path.read_bytes() for path in place.iterdir()}
    found = run(*IDENTIFY, "--output", ".")
    assert found.exit_code == 2
    assert "two_link.urdf: an input, which would be replaced" in found.stderr
    assert {path.name: path.read_bytes() for path in place.iterdir()} == before
    os.link(place / "two_link.urdf", place / "other.urdf")  # the same file by another name
    assert "an input" in run("identify", "other.urdf", "log.csv", "--output", ".").stderr


def test_a_folder_that_minidyn_wrote_is_written_again_and_foreign_files_stay(place: Path) -> None:
    (place / "out").mkdir()
    (place / "out" / "parameters.md").write_text("my notes")
    found = run(*IDENTIFY, "--output", "out")
    assert found.exit_code == 2
    assert "minidyn did not write it" in found.stderr
    assert (place / "out" / "parameters.md").read_text() == "my notes"
    (place / "out" / "parameters.md").unlink()
    for _ in range(2):  # the second time over its own files
        assert run(*IDENTIFY, "--output", "out").exit_code == 0
    # what was written is an input now
    found = run("identify", "out/two_link.urdf", "log.csv", "--output", "out")
    assert found.exit_code == 2
    assert "an input" in found.stderr
    # names that are known late only: a picture of a test log
    shutil.copy(place / "log.csv", place / "own.csv")
    (place / "out" / "torque_own.png").write_bytes(b"a picture of the user")
    found = run(*IDENTIFY, "--validate", "own.csv", "--output", "out", "--pictures")
    assert found.exit_code == 2
    assert (place / "out" / "torque_own.png").read_bytes() == b"a picture of the user"


@pytest.mark.parametrize("ending", [".csv", ".npz", ".parquet"])
def test_simulate_replaces_its_own_recordings_alone(place: Path, ending: str) -> None:
    target = place / f"run{ending}"
    arguments = ("simulate", "two_link", "--duration", "0.2", "--output", target, "--plot")
    assert run(*arguments).exit_code == 0
    assert run(*arguments).exit_code == 0
    target.write_bytes(b"time,position\n1,2\n")
    found = run(*arguments)
    assert found.exit_code == 2
    assert "minidyn did not write it" in found.stderr
    assert target.read_bytes() == b"time,position\n1,2\n"
    target.unlink()
    target.with_suffix(".png").write_bytes(b"mine")
    assert run(*arguments).exit_code == 2
    assert not target.exists()
    assert target.with_suffix(".png").read_bytes() == b"mine"


def test_generate_report_and_casestudy_keep_foreign_files(place: Path) -> None:
    for target in ("c", "python", "llvm"):
        for _ in range(2):
            assert (
                run(
                    "generate",
                    "two_link",
                    "inverse_dynamics",
                    "--target",
                    target,
                    "--output",
                    "code",
                ).exit_code
                == 0
            )
    own = place / "code" / "two_link_inverse_dynamics.c"
    own.write_text("int mine;")
    assert run("generate", "two_link", "inverse_dynamics", "--output", "code").exit_code == 2
    assert own.read_text() == "int mine;"
    small_estimate().save(place / "estimate.json")
    page = place / "report.html"
    for _ in range(2):
        md.report(small_estimate(), path=page, code=False)
    page.write_text("<html>my page</html>")
    found = run("report", "estimate.json", "log.csv", "--output", page)
    assert found.exit_code == 2
    assert page.read_text() == "<html>my page</html>"
    with pytest.raises(NotWritten, match="did not write it"):
        md.report(small_estimate(), path=page)
    (place / "craig.png").write_bytes(b"mine")
    assert run("casestudy", "lu-meng", "--output", ".").exit_code == 2


def test_export_does_not_replace_the_file_the_robot_came_from(place: Path) -> None:
    estimate = md.identify("two_link.urdf", "log.csv", friction="own", rotor_inertia=False)
    before = (place / "two_link.urdf").read_bytes()
    for target in (".", "two_link.urdf"):
        with pytest.raises(DescriptionError, match="an input"):
            estimate.export(target)
    assert (place / "two_link.urdf").read_bytes() == before
    for _ in range(2):
        estimate.export("model")


def test_a_study_does_not_replace_a_folder_with_files_of_the_user(place: Path) -> None:
    (place / "study.toml").write_text(
        '[study]\noutput = "."\n[robot]\nfile = "two_link.urdf"\n[base]\n[export]\nto = ["toml"]\n'
    )
    md.run_study(place / "study.toml")
    md.run_study(place / "study.toml", rerun=True)
    (place / "export" / "notes.txt").write_text("mine")
    with pytest.raises(DescriptionError, match=r"notes\.txt, which no step made"):
        md.run_study(place / "study.toml", rerun=True)
    assert (place / "export" / "notes.txt").read_text() == "mine"
    assert recorded_files(place / "export") == ["two_link.toml", "provenance.json"]


def test_records_name_files_below_their_folder_alone(tmp_path: Path) -> None:
    names = ["robot.urdf", "../robot.urdf", "/etc/passwd", "", 3]
    (tmp_path / "result.json").write_text(json.dumps({"files": names}))
    assert recorded_files(tmp_path) == ["robot.urdf", "result.json"]
    (tmp_path / "provenance.json").write_text("[broken")
    assert recorded_files(tmp_path, "provenance.json") == []
    check_outputs([tmp_path / "nothing", tmp_path / "result.json"], [None, tmp_path / "absent"])
    with (
        pytest.raises(NotWritten),
        new_folder(tmp_path, inputs=[tmp_path / "result.json"]) as folder,
    ):
        (folder / "result.json").write_text("{}")
    assert not [path for path in tmp_path.iterdir() if path.name.endswith(".new")]
