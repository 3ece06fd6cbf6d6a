"""Limits that are assumed, missing or not checked come first, wherever a motion is shown.

And limits from a file are those of a table, in Python, the shell and study files.
"""

import itertools
import json
import re

import numpy as np
import pytest
from click.testing import CliRunner

import minidyn as md
from conftest import count
from minidyn.app.cli.main import main
from minidyn.excitation import search
from shape_cases import shaped_arm

WORDS = {
    "position": r' (lower|upper)="[^"]*"',
    "velocity": r' velocity="[^"]*"',
    "effort": r' effort="[^"]*"',
    "acceleration": None,  # no URDF has it
}
KINDS = tuple(WORDS)
QUICK = {"friction": (), "rotor_inertia": False, "noise": 1.0, "harmonics": 3}
SUBSETS = [some for k in range(5) for some in itertools.combinations(KINDS, k)]


def arm_without(folder, missing):
    """An arm with shapes whose joints have no limits of some kinds, and limits that stand beside
    its file.
    """
    path = shaped_arm(folder)
    text = path.read_text()
    for kind in missing:
        text = re.sub(WORDS[kind], "", text) if WORDS[kind] else text
    if "position" in missing:
        text = text.replace('type="revolute"', 'type="continuous"')
    path.write_text(text)
    return path, {} if "acceleration" in missing else {"acceleration": 20.0}


def some_subsets(many):
    """All of them in the long count; few, each kind among them, in the short one."""
    return SUBSETS if many >= len(SUBSETS) else [(), *((kind,) for kind in KINDS), KINDS]


@pytest.mark.parametrize("missing", some_subsets(count(6, 16)), ids="-".join)
def test_what_is_missing_is_named_first(tmp_path, monkeypatch, missing) -> None:
    for name in ("_LEAST_TRIES", "_MOST_TRIES"):
        monkeypatch.setattr(search, name, 1)
    path, limits = arm_without(tmp_path, missing)
    made = md.excite(path, 4.0, limits=limits, **QUICK)
    assert made.feasible
    page = made.preview(tmp_path / "p.html").read_text()
    summary = page[page.index('class="verdict') :][:3000]
    head = made.save(tmp_path / "m.csv").read_text().split("\nt,")[0]
    head = " ".join(line.lstrip("# ") for line in head.splitlines())
    assert made.verdict.level == ("caution" if missing else "good")
    assert ('class="verdict good"' in page) == (not missing)
    assert ("All limits are kept at all times" in page) == (not missing)
    for kind in KINDS:
        named = f"{kind} limits are"
        for text in (made.verdict.headline.lower(), summary.lower(), head):
            assert (named in text) == (kind in missing)
    assert json.loads(json.dumps(made.to_json()))["verdict"]["level"] == made.verdict.level


def test_a_joint_is_named_where_not_all_lack_a_limit(tmp_path) -> None:
    path = shaped_arm(tmp_path)
    made = md.excite(path, 4.0, limits={"acceleration": {"j1": 5.0}}, time_limit=0.2, **QUICK)
    (notice,) = [one for one in made.notices if one.code == "excite.no_acceleration"]
    assert notice.level == "warning"
    assert notice.data["joints"] == ["j0", "j2", "j3"]
    assert str(notice) == "acceleration limits are missing: 'j0', 'j2', 'j3'"


@pytest.mark.parametrize("missing", [(), ("effort",)])
@pytest.mark.parametrize("verb", ["excite", "plan"])
def test_the_shell_can_require_a_good_verdict(tmp_path, verb, missing) -> None:
    path, limits = arm_without(tmp_path, missing)
    words = [verb, str(path), "--friction", "none", "--no-rotor-inertia", "--require", "pass"]
    words += [word for name, value in limits.items() for word in ("--limit", f"{name}={value}")]
    if verb == "excite":
        words += ["--duration", "3", "--noise", "1", "--harmonics", "3"]
    result = CliRunner().invoke(main, [*words, "--output", str(tmp_path / "out")])
    assert result.exit_code == (3 if missing else 0), result.output
    assert (tmp_path / "out" / "preview.html").exists()


def test_plans_say_it_as_well(tmp_path) -> None:
    path, _ = arm_without(tmp_path, ("velocity", "effort", "acceleration"))
    plan = md.one_joint_plan(path, friction=(), rotor_inertia=False)
    assert {"excite.no_speed", "excite.no_effort"} <= {notice.code for notice in plan.notices}
    page = plan.preview(tmp_path / "p.html").read_text()
    assert "All limits are kept" not in page
    (first, *_) = plan.save(tmp_path)
    (notice,) = [one for one in plan.notices if one.code == "excite.no_speed"]
    rows = [line for line in first.read_text().splitlines() if line[0] not in "#t"]
    speed = np.abs(np.loadtxt(rows, delimiter=",")[:, 5:9]).max()
    assumed = float(re.search(r"assumed \(([0-9.]+) rad/s", str(notice))[1])
    assert speed <= assumed
    assert "velocity limits are assumed" in first.read_text()


FILE = """acceleration = [3.0, 3.0, 4.0, 5.0]
velocity = 1.5

[upper]
j2 = 1.0
"""
TABLE = {"acceleration": [3.0, 3.0, 4.0, 5.0], "velocity": 1.5, "upper": {"j2": 1.0}}


def test_a_file_gives_the_limits_of_a_table_everywhere(tmp_path) -> None:
    path, file = shaped_arm(tmp_path), tmp_path / "limits.toml"
    file.write_text(FILE)
    options = {"friction": (), "rotor_inertia": False, "noise": 1.0, "harmonics": 3, "seed": 3}
    less = {"velocity": 1.0}
    wanted = md.excite(path, 4.0, limits={**TABLE, **less}, **options)
    several = md.excite(path, 4.0, limits=[less, file], **options)
    t = np.linspace(0.0, 4.0, 50)
    for part, other in zip(wanted.trajectory(t), several.trajectory(t)):
        np.testing.assert_array_equal(part, other)
    words = [
        "--friction",
        "none",
        "--no-rotor-inertia",
        "--noise",
        "1.0",
        "--harmonics",
        "3",
        "--seed",
        "3",
    ]
    limited = ["--limits", str(file), "--limit", "velocity=1.0"]
    shell = tmp_path / "shell"
    result = CliRunner().invoke(
        main,
        ["excite", str(path), "--duration", "4", *words, *limited, "--output", str(shell)],
    )
    assert result.exit_code == 0, result.output
    study = tmp_path / "study.toml"
    study.write_text(
        f'[robot]\nfile = "{path.name}"\n[[excite]]\nname = "first"\nduration = 4.0\n'
        "friction = []\nrotor_inertia = false\nnoise = 1.0\nharmonics = 3\nseed = 3\n"
        'limits = ["limits.toml", { velocity = 1.0 }]\n'
    )
    result = CliRunner().invoke(main, ["run", str(study)])
    assert result.exit_code == 0, result.output
    want = wanted.to_json()["motion"]
    for folder in (shell, tmp_path / "study" / "excite-first"):
        assert json.loads((folder / "motion.json").read_text())["motion"] == want


def test_a_study_step_runs_again_when_its_limits_file_changes(tmp_path) -> None:
    path, file = shaped_arm(tmp_path), tmp_path / "limits.toml"
    study = tmp_path / "study.toml"
    study.write_text(
        f'[robot]\nfile = "{path.name}"\n[[excite]]\nname = "one"\nduration = 4.0\nfriction = []\n'
        'time_limit = 0.2\nlimits = "limits.toml"\n'
    )
    fastest = []
    for speed in (1.0, 0.5):
        file.write_text(f"velocity = {speed}\n")
        assert CliRunner().invoke(main, ["run", str(study)]).exit_code == 0
        rows = (tmp_path / "study" / "excite-one" / "motion.csv").read_text().splitlines()
        values = np.array([row.split(",") for row in rows if row[:1].isdigit()], dtype=float)
        fastest.append(np.abs(values[:, 5:9]).max())
    assert 0.5 < fastest[0] <= 1.0
    assert fastest[1] <= 0.5


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("speed = 1.0\n", ["limits.toml:1", "speed", "velocity"]),
        ('velocity = "fast"\n', ["limits.toml:1", "velocity", "'fast'"]),
        ("velocity = [[1.0]]\n", ["limits.toml:1", "velocity"]),
        ("velocity = nan\n", ["limits.toml:1", "velocity"]),
        (f"velocity = {'9' * 400}\n", ["limits.toml:1", "velocity"]),
        ("", ["limits.toml", "no limits"]),
        ("velocity = \n", ["limits.toml:1", "TOML"]),
    ],
)
def test_errors_of_a_limits_file_say_where(tmp_path, text, words) -> None:
    file = tmp_path / "limits.toml"
    file.write_text(text)
    with pytest.raises(md.MinidynError) as caught:
        md.excite("two_link", 4.0, limits=file)
    for word in words:
        assert word in str(caught.value)
    with pytest.raises((md.MinidynError, OSError), match=r"nowhere\.toml"):
        md.excite("two_link", 4.0, limits=tmp_path / "nowhere.toml")
