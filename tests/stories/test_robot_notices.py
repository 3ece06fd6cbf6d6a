"""What a robot file leaves out is reported by every verb.

Wrong options are found before anything is read.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

import minidyn as md
from minidyn.app.cli.main import main
from minidyn.errors import MinidynError, UnknownName

MJCF = """<mujoco model="pair"><worldbody>
<body name="a"><joint name="j1" axis="0 0 1" range="-170 170"/>
 <inertial pos=".2 0 0" mass="2" diaginertia=".02 .03 .04"/>
 <body name="b" pos=".4 0 0"><joint name="j2" axis="0 1 0" range="-170 170"/>
  <inertial pos=".1 0 0" mass="1" diaginertia=".01 .02 .03"/></body></body>
</worldbody><equality><connect body1="a" body2="b" anchor="0 0 0"/></equality></mujoco>"""

LEG = """<joint name="hip{k}" type="revolute"><parent link="trunk"/><child link="thigh{k}"/><axis xyz="0 1 0"/>
<limit lower="-1" upper="1" effort="10" velocity="5"/></joint>
<joint name="knee{k}" type="revolute"><parent link="thigh{k}"/><child link="shank{k}"/><axis xyz="0 1 0"/>
<limit lower="-1" upper="1" effort="10" velocity="5"/></joint><link name="thigh{k}">{body}</link>
<link name="shank{k}">{body}</link>"""  # noqa: E501
BODY = (
    '<inertial><mass value="{}"/><inertia ixx=".1" iyy=".1" izz=".1" ixy="0" ixz="0" '
    'iyz="0"/></inertial>'
)


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["-q", *map(str, arguments)])


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("loop")
    (folder / "pair.xml").write_text(MJCF)
    robot = md.load(folder / "pair.xml")
    for seed, name in ((1, "fit"), (2, "test")):
        t = np.arange(0.0, 8.0, 0.005)
        q, dq, ddq = md.trajectory.fourier(robot, seed=seed, period=4.0)(t)
        tau = md.inverse_dynamics(robot, q, dq, ddq) + 0.01 * np.random.default_rng(seed).normal(
            size=q.shape
        )
        md.Recording(t, q, tau, joint_names=robot.joint_names).save(folder / f"{name}.csv")
    return folder


def test_every_verb_reports_a_loop_that_is_dropped(files: Path) -> None:
    robot, fit, test, out = (files / name for name in ("pair.xml", "fit.csv", "test.csv", "out"))
    arguments = {
        "show": (robot,),
        "base": (robot,),
        "count": (robot, "inverse_dynamics"),
        "generate": (robot, "inverse_dynamics", "--output", files / "code"),
        "simulate": (robot, "--duration", "0.1", "--output", files / "run.npz"),
        "identify": (robot, fit, "--validate", test, "--output", out),
        "validate": (out / "estimate.json", test),
        "compare": (robot, fit, "--validate", test, "--methods", "ols"),
        "payload": (out / "estimate.json", test),
        "report": (out / "estimate.json", test, "--output", files / "r.html"),
    }
    for verb, more in arguments.items():
        found = run(verb, *more)
        assert found.exit_code == 0, (verb, found.stderr)
        assert "constraint" in found.output, verb
        data = json.loads(run(verb, *more, "--json").stdout)
        notices = [*data.get("robot_notices", ()), *data.get("notices", ())]
        assert "mjcf.constraint" in [notice["code"] for notice in notices], verb
    study = files / "study.toml"
    study.write_text('[robot]\nfile = "pair.xml"\n[identify]\nlogs = ["fit.csv"]\n')
    assert "constraint" in run("run", study).output
    assert "mjcf.constraint" in run("run", study, "--json").stdout
    assert "mjcf.constraint" in [
        one.code for one in md.load_estimate(out / "estimate.json").notices
    ]


def test_a_legged_robot_has_its_base_fixed_and_says_so(tmp_path: Path) -> None:
    legs = "".join(LEG.format(k=k, body=BODY.format(1)) for k in range(4))
    (tmp_path / "legs.urdf").write_text(
        f'<robot name="legs"><link name="trunk">{BODY.format(12)}</link>{legs}</robot>'
    )
    (notice,) = (one for one in md.load(tmp_path / "legs.urdf").notices if one.level != "info")
    assert (notice.code, dict(notice.data)) == (
        "robot.fixed_base",
        {"base": "trunk", "limbs": 4, "mass": 12.0},
    )
    assert "taken as fixed" in run("base", tmp_path / "legs.urdf").stderr
    one = LEG.format(k=0, body=BODY.format(1))  # one limb is an arm, whatever its base weighs
    (tmp_path / "arm.urdf").write_text(
        f'<robot name="arm"><link name="trunk">{BODY.format(12)}</link>{one}</robot>'
    )
    assert not md.load(tmp_path / "arm.urdf").notices


@pytest.mark.parametrize(
    ("verb", "options"),
    [
        ("identify", ("--method", "best")),
        ("identify", ("--friction", "viscous,stick")),
        ("identify", ("--prior", "nothing.urdf")),
        ("compare", ("--validate", "log.csv", "--methods", "ols,best")),
    ],
)
def test_wrong_options_are_found_before_logs_are_read(
    verb: str, options: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("log.csv").write_text("not to be read")  # a log that is not there would be said first

    def never(*_: object, **__: object) -> None:
        raise AssertionError("a log was read")

    monkeypatch.setattr("minidyn.app.job.read_recording", never)
    found = run(verb, "two_link", "log.csv", *options)
    assert found.exit_code == 2
    assert "log.csv" not in found.stderr
    assert "best" in found.stderr or "stick" in found.stderr or "nothing.urdf" in found.stderr


def test_python_finds_wrong_options_before_reading_too() -> None:
    for options in ({"method": "best"}, {"friction": ("stick",)}, {"prior_kind": "square"}):
        with pytest.raises(UnknownName):
            md.identify("two_link", "absent.csv", **options)
    with pytest.raises(MinidynError, match=r"nothing\.urdf"):
        md.identify("two_link", "absent.csv", prior="nothing.urdf")
