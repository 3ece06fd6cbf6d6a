"""Robot files from strangers are refused with the line, in time that grows with their size.

None is waited for.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import minidyn as md
from minidyn.app.study.file import read_study
from minidyn.errors import DescriptionError, Unforeseen, details_of
from minidyn.files import LARGEST
from minidyn.recording.read.mapping import SignalMap

_BODY = (
    '<mujoco>{first}<worldbody><body name="b"><joint {joint}/><inertial mass="1" pos="0 0 0" '
    'diaginertia="1 1 1"/>{inner}</body></worldbody>{last}</mujoco>'
)


def mjcf(first: str = "", joint: str = "", inner: str = "", last: str = "") -> str:
    return _BODY.format(first=first, joint=joint, inner=inner, last=last)


def refused(path: Path, match: str) -> str:
    with pytest.raises(DescriptionError, match=match) as caught:
        md.load(path)
    return str(caught.value)


def test_the_plain_file_loads(tmp_path: Path) -> None:
    (tmp_path / "a.xml").write_text(mjcf())
    assert md.load(tmp_path / "a.xml").n == 1


@pytest.mark.parametrize(
    "text",
    [
        mjcf(joint='class="%n"'),
        mjcf(joint='class="%s%s%s%s%s%s%s%s"'),
        mjcf(joint='class="&#37;p"'),
        mjcf(last='<asset><material name="m" class="%p"/></asset>'),
        mjcf(last='<actuator><motor joint="a" class="%n"/></actuator>'),
    ],
)
def test_names_of_classes_never_reach_a_format_string(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.xml").write_text(text)
    # a process of its own: without the guard it ends here
    code = "import sys, minidyn as md; md.load(sys.argv[1])"
    done = subprocess.run(
        [sys.executable, "-c", code, tmp_path / "a.xml"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1, done
    assert "percent sign" in done.stderr
    assert "0x" not in done.stderr.splitlines()[-1]


def test_included_and_attached_files_are_looked_through(tmp_path: Path) -> None:
    (tmp_path / "inner.xml").write_text(mjcf(joint='class="%n"'))
    (tmp_path / "a.xml").write_text(mjcf(last='<include file="inner.xml"/>'))
    refused(tmp_path / "a.xml", r"inner.xml:1: <joint>: class='%n'")
    (tmp_path / "b.xml").write_text(mjcf(last='<asset><model name="m" file="inner.xml"/></asset>'))
    refused(tmp_path / "b.xml", r"inner.xml:1: <joint>: class='%n'")
    (tmp_path / "ring.xml").write_text(
        mjcf(last='<asset><model name="m" file="ring.xml"/></asset>')
    )
    refused(tmp_path / "ring.xml", "in a ring")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            mjcf(inner=9 * '<replicate count="100">' + "<geom/>" + 9 * "</replicate>"),
            "100000 elements",
        ),
        (mjcf(first='<size nkey="2000000000"/>'), "nkey"),
        (
            mjcf(last='<asset><hfield name="h" nrow="40000" ncol="40000" size="1 1 1 1"/></asset>'),
            "nrow='40000'",
        ),
        (
            mjcf(last='<asset><texture builtin="flat" width="99999" height="99999"/></asset>'),
            "width='99999'",
        ),
        (mjcf(last='<custom><numeric name="n" size="900000000"/></custom>'), "size='900000000'"),
        (mjcf(first='<compiler><lengthrange inttotal="1e12"/></compiler>'), "steps"),
        (mjcf(inner=400 * "<body>" + 400 * "</body>"), "nested more than 256 deep"),
    ],
)
def test_few_letters_cannot_ask_for_gigabytes(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "a.xml").write_text(text)
    assert "a.xml:1" in refused(tmp_path / "a.xml", message)


def test_attached_copies_of_copies(tmp_path: Path) -> None:
    for level in range(20):
        inner = "".join(
            f'<frame><attach model="m" body="b" prefix="{level}{k}"/></frame>' for k in "abc"
        )
        asset = f'<asset><model name="m" file="{level + 1}.xml"/></asset>'
        (tmp_path / f"{level}.xml").write_text(
            mjcf(inner=inner, last=asset) if level < 19 else mjcf()
        )
    refused(tmp_path / "0.xml", "attach fewer models")


@pytest.mark.parametrize("ending", [".xml", ".urdf", ".mjcf"])
@pytest.mark.parametrize(
    "piece", ["<!--", "<?", "<!", "<include ", "<", "xmlns:a ", ' nan="', "<a b='", "\n<a \t"]
)
def test_broken_files_take_no_longer_than_whole_ones(
    tmp_path: Path, piece: str, ending: str
) -> None:
    path = tmp_path / f"a{ending}"
    for start in ("", "<mujoco>", "<robot>"):
        path.write_text(start + piece * (400_000 // len(piece)))
        refused(
            path, "not well-formed|root element|DOCTYPE"
        )  # minutes where a regular expression looks back


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes on this system")
def test_pipes_and_devices_are_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.urdf")
    os.mkfifo(tmp_path / "pipe.stl")
    refused(tmp_path / "pipe.urdf", "a pipe, a device")
    (tmp_path / "a.xml").write_text(mjcf(last='<include file="pipe.urdf"/>'))
    refused(tmp_path / "a.xml", "a pipe, a device")
    (tmp_path / "b.xml").write_text(
        mjcf(inner='<geom type="mesh" mesh="pipe"/>', last='<asset><mesh file="pipe.stl"/></asset>')
    )
    refused(tmp_path / "b.xml", r"b.xml:1: file='pipe.stl'.*a pipe, a device")
    (tmp_path / "c.xml").write_text(mjcf(last='<asset><mesh name="z" file="/dev/zero"/></asset>'))
    refused(tmp_path / "c.xml", "a pipe, a device")


def test_the_largest_file_is_stated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.xml").write_text(mjcf())
    monkeypatch.setenv(LARGEST, "50")
    refused(tmp_path / "a.xml", LARGEST)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a" + 30_000 * ".a" + " = 1", "a.toml:1: a key of more than 100 parts"),
        ("\n[a" + 30_000 * " . a" + "]", "a.toml:2: a key of more than 100 parts"),
        ("x = {a" + 30_000 * '."a"' + " = 1}", "a.toml:1: a key of more than 100 parts"),
        ("x = " + 30_000 * "[", "nested too deeply|not valid TOML"),
        ("x = " + 5_000 * "9", "not valid TOML"),
        ("x = 1\n" + 'y = """\n[ a' + 400_000 * " " + '\n"""', "unknown|robot|expected"),
    ],
)
def test_tables_from_strangers(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "a.toml").write_text(text)
    refused(tmp_path / "a.toml", message)
    with pytest.raises(md.MinidynError, match=f"{message}|unknown mapping key"):
        SignalMap.of({}, tmp_path / "a.toml")


def test_what_nobody_foresaw_is_an_error_of_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def breaks(*_: object) -> None:
        raise KeyError("x")

    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    for door, broken in (
        ("minidyn.formats.load._read", md.load),
        ("minidyn.recording.read.read._read", md.read_recording),
    ):
        monkeypatch.setattr(door, breaks)
        with pytest.raises(
            Unforeseen, match=r"some.file: .*KeyError: 'x'.*reference [0-9a-f]{8}, details in"
        ) as caught:
            broken("some.file")
        details = Path(str(caught.value).rpartition("details in ")[2])
        assert details.parent == tmp_path
        assert "in breaks" in details.read_text()


@pytest.mark.parametrize(
    "name", ["a\0b.urdf", "a\0b.csv", "x" * 5000 + ".urdf", "x" * 5000 + ".csv"]
)
def test_names_that_no_file_can_have(name: str) -> None:
    with pytest.raises(md.MinidynError):
        md.read_recording(name, "scara") if name.endswith("csv") else md.load(name)
    with pytest.raises(md.MinidynError):
        read_study(name)


def test_details_of_unforeseen_errors_do_not_pile_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    (tmp_path / "minidyn-notes.log").write_text("somebody else's")
    old = tmp_path / "minidyn-01234567-abcd.log"
    old.write_text("old")
    os.utime(old, (1.0, 1.0))
    for number in range(50):
        details_of(KeyError(number))
        assert not old.exists()
    assert len(list(tmp_path.glob("minidyn-*-*.log"))) == 20
    assert (tmp_path / "minidyn-notes.log").exists()


NUMBERS = ["1e308", "-1e308", "inf", "9" * 400, "1e200"]
PLACES = {
    "toml": '[[joint]]\nname = "a"\na = {}\nalpha = {}\n[[joint]]\nname = "b"\n',
    "urdf": (
        '<robot name="r"><link name="a"/><link name="b"><inertial><origin xyz="{} 0 0"/>'
        '<mass value="{}"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial>'
        '</link><joint name="j" type="continuous"><parent link="a"/><child link="b"/>'
        '<origin xyz="{} 0 0" rpy="{} 0 0"/><axis xyz="0 0 1"/></joint></robot>'
    ),
    "xml": _BODY.format(first="", joint='pos="{} 0 0"', inner="", last="").replace(
        'mass="1"', 'mass="{}"'
    ),
}


@pytest.mark.parametrize("ending", PLACES)
@pytest.mark.parametrize("number", NUMBERS, ids=[number[:6] for number in NUMBERS])
def test_numbers_of_no_robot_are_refused(tmp_path: Path, ending: str, number: str) -> None:
    if ending == "xml":
        pytest.importorskip("mujoco")
    text = PLACES[ending]
    for place in range(text.count("{}")):
        values = ["0.5"] * text.count("{}")
        path = tmp_path / f"r{place}.{ending}"
        path.write_text(text.format(*values))
        assert md.load(path).n >= 1
        values[place] = number
        path.write_text(text.format(*values))
        with pytest.raises(DescriptionError) as caught:
            md.load(path)
        assert not isinstance(caught.value, Unforeseen)
