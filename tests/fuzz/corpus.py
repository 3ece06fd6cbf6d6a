"""Seeds of the fuzzer.

Small valid files of every format that minidyn reads, made here, and what once went wrong.
"""

from __future__ import annotations

import contextlib
import io
import json
import sqlite3
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import minidyn as md

sys.path.insert(0, str(Path(__file__).parents[1]))  # tests/bags.py

ENDINGS = {
    "urdf": ".urdf",
    "mjcf": ".xml",
    "toml": ".toml",
    "side": ".toml",
    "csv": ".csv",
    "parquet": ".parquet",
    "npz": ".npz",
    "mat": ".mat",
    "db3": ".db3",
    "mcap": ".mcap",
    "bag": ".bag",
    "study": ".toml",
    "mapping": ".toml",
    "estimate": ".json",
}
"""The formats, and how names of their files end."""

URDF = """<?xml version="1.0"?>
<robot name="seed">
  <link name="base"><inertial><mass value="2"/>
    <inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial></link>
  <link name="arm"><inertial><origin xyz="0.1 0 0.2" rpy="0 0 0.3"/><mass value="2"/>
    <inertia ixx="0.1" iyy="0.1" izz="0.1" ixy="0" ixz="0" iyz="0"/></inertial>
    <collision><origin xyz="0 0 0.1"/><geometry><cylinder radius="0.05" length="0.3"/></geometry></collision></link>
  <link name="slide"><inertial><mass value="1"/>
    <inertia ixx="0.1" iyy="0.1" izz="0.1" ixy="0" ixz="0" iyz="0"/></inertial></link>
  <link name="finger"/><link name="tool"/>
  <joint name="turn" type="revolute"><parent link="base"/><child link="arm"/><origin xyz="0 0 0.3" rpy="1.5707963 0 0"/>
    <axis xyz="0 0 1"/><limit lower="-2" upper="2" velocity="3" effort="50"/>
    <dynamics damping="0.1" friction="0.2"/></joint>
  <joint name="push" type="prismatic"><parent link="arm"/><child link="slide"/><axis xyz="1 0 0"/>
    <limit lower="0" upper="0.5" velocity="1" effort="100"/></joint>
  <joint name="follow" type="prismatic"><parent link="slide"/><child link="finger"/><axis xyz="0 1 0"/>
    <limit lower="0" upper="1" velocity="1" effort="1"/><mimic joint="push" multiplier="-1" offset="0.1"/></joint>
  <joint name="flange" type="fixed"><parent link="slide"/><child link="tool"/></joint>
  <transmission name="t"><joint name="turn"/>
    <actuator name="a"><mechanicalReduction>50</mechanicalReduction></actuator></transmission>
</robot>
"""  # noqa: E501

MJCF = """<mujoco model="seed">
  <compiler angle="radian" autolimits="true"/>
  <default><joint damping="0.1" armature="0.01"/>
    <default class="big"><joint frictionloss="0.5"/><geom size="0.04"/></default></default>
  <option gravity="0 0 -9.81"/>
  <worldbody><body name="one" pos="0 0 0.2"><joint name="a" axis="0 0 1" range="-1 1"/>
      <inertial mass="1" pos="0 0 0.1" diaginertia="0.1 0.1 0.1"/>
      <body name="two" pos="0.2 0 0" quat="1 0 0 0"><joint name="b" type="slide" axis="1 0 0" class="big" range="0 1"/>
        <geom type="capsule" size="0.02 0.1" mass="0.5"/><site name="end" pos="0 0 0.1"/>
        <body name="three"><joint name="c" axis="0 1 0"/>
          <geom type="box" size="0.1 0.1 0.1" density="500"/></body></body></body></worldbody>
  <equality><joint joint1="c" joint2="b" polycoef="0 1 0 0 0"/></equality>
  <actuator><motor joint="a" gear="50" ctrlrange="-1 1"/><position joint="b" kp="10"/></actuator>
  <sensor><jointpos joint="a"/></sensor>
</mujoco>
"""  # noqa: E501

STUDY = """[study]
name = "seed"
output = "results"
seed = 3
[robot]
file = "two_link"
gravity = [0.0, 0.0, -9.81]
[mapping]
q = "q{k}"
units = { q = "rad" }
[preparation]
cutoff = 5.0
[verdict]
[[simulate]]
name = "fit"
duration = 1.0
noise = 1e-4
controller = "computed_torque"
bandwidth = 8.0
friction = { viscous = 1.0 }
[[simulate]]
name = "test"
duration = 1.0
seed = 4
[base]
method = "qr"
[identify]
logs = ["fit"]
friction = ["viscous", "coulomb"]
method = "wls"
[validate]
logs = ["test"]
[[excite]]
name = "next"
duration = 5.0
limits = { velocity = 1.0 }
[export]
formats = ["toml"]
[report]
title = "seed"
"""

MAPPING = """time = "t"
time_unit = "s"
q = ["q.joint1", "q.joint2"]
tau = ["tau.joint1", "tau.joint2"]
joints = ["joint1", "joint2"]
units = { q = "deg" }
sign = [1, -1]
offset = { joint1 = 0.1 }
gear_ratio = [1.0, 100.0]
motor_side = ["q"]
drive_gain = [1.0, 2.0]
header = true
delimiter = ","
"""


def log(count: int = 12) -> md.Recording:
    """A short recording of two joints."""
    t = np.arange(count) / 50
    q = np.column_stack([np.sin(3 * t), np.cos(2 * t)])
    names = md.load("two_link").joint_names
    more = {"temperature": 20 + t, "q_d": q}
    return md.Recording(t, q, 2 * q, 0.5 * q, joint_names=names, telemetry=more)


def make(folder: Path) -> None:
    """Write the seeds of all formats, each into a folder of its name."""
    for kind in ENDINGS:
        (folder / kind).mkdir(parents=True, exist_ok=True)
    (folder / "urdf" / "a.urdf").write_text(URDF)
    (folder / "mjcf" / "a.xml").write_text(MJCF)
    (folder / "study" / "a.toml").write_text(STUDY)
    (folder / "mapping" / "a.toml").write_text(MAPPING)
    for name in ("panda", "scara"):
        robot = md.load(name)
        md.save(robot, folder / "urdf" / f"{name}.urdf")
        side = folder / "urdf" / f"{name}.urdf.minidyn.toml"
        if side.exists():
            side.rename(folder / "side" / f"{name}.toml")
        md.save(robot, folder / "mjcf" / f"{name}.xml")
        (folder / "mjcf" / f"{name}.xml.minidyn.toml").unlink(missing_ok=True)
    for name in ("panda", "two_link", "two_arm", "puma560"):
        md.save(md.load(name), folder / "toml" / f"{name}.toml")
    recording = log()
    for kind in ("csv", "parquet", "npz"):
        recording.save(folder / kind / f"own{ENDINGS[kind]}")
    _more_logs(folder, recording)
    estimate = md.identify(
        "two_link", log(40), friction=["viscous"], rotor_inertia=False, prior=False
    )
    estimate.save(folder / "estimate" / "a.json")
    old = Path(__file__).parents[1] / "data" / "estimate_version_2.json"
    (folder / "estimate" / "old.json").write_bytes(old.read_bytes())


def _more_logs(folder: Path, recording: md.Recording) -> None:
    from scipy.io import savemat

    table = np.column_stack([recording.t, recording.q, recording.tau])  # type: ignore[list-item]
    head = ("time [ms]", "q1 [deg]", "q2 [deg]", "tau1", "tau2")
    rows = [";".join(f"{x:.4f}".replace(".", ",") for x in row) for row in table]
    (folder / "csv" / "german.csv").write_text("\n".join([";".join(head), *rows]))
    lines = [" ".join(("time", "pos_joint1", "pos_joint2", "tau_joint1", "tau_joint2"))]
    (folder / "csv" / "spaces.csv").write_text(
        "\n".join([*lines, *(" ".join(f"{x:.5f}" for x in row) for row in table)])
    )
    np.savez_compressed(
        folder / "npz" / "packed.npz", t=recording.t, q=recording.q, tau=recording.tau
    )
    arrays: dict[str, Any] = {"t": recording.t, "q": recording.q, "tau": recording.tau}
    savemat(folder / "mat" / "plain.mat", arrays)
    savemat(folder / "mat" / "packed.mat", {"log": arrays}, do_compression=True)
    import h5py

    with h5py.File(folder / "mat" / "new.mat", "w") as file:
        for name, array in arrays.items():
            file[name] = array.T
    from bags import messages, write_bag

    rows_of = messages(recording.t, recording.joint_names, recording.q, recording.dq, recording.tau)
    for kind in ("db3", "mcap", "bag"):
        made = (
            write_bag(folder / kind / "made", kind, {"/joint_states": rows_of})
            if kind != "bag"
            else None
        )
        target = folder / kind / f"a.{kind}"
        if made is None:
            write_bag(target, kind, {"/joint_states": rows_of})
            continue
        next(made.glob(f"*.{kind}")).rename(target)
        for rest in made.iterdir():
            rest.unlink()
        made.rmdir()


_DEFINED = "UPDATE message_definitions SET encoding = '{0}', encoded_message_definition = '{1}'"


def findings() -> list[tuple[str, bytes]]:
    """What once crashed, hung, took gigabytes or raised an error of somebody else.

    (format, bytes).
    """
    body = (
        '<mujoco>{0}<worldbody><body><joint {1}/><inertial mass="1" pos="0 0 0" diaginertia="1 1 '
        '1"/>'
    )
    body += "{2}</body></worldbody>{3}</mujoco>"
    found: list[tuple[str, str | bytes]] = [
        *(
            ("mjcf", body.format("", f'class="{text}"', "", ""))
            for text in ("%n", "%s%s%s%s%s%s%s%s", "&#37;p")
        ),
        (
            "mjcf",
            body.format("", "", 9 * '<replicate count="100">' + "<geom/>" + 9 * "</replicate>", ""),
        ),
        ("mjcf", body.format('<size nkey="2000000000"/>', "", "", "")),
        (
            "mjcf",
            body.format(
                "",
                "",
                "",
                '<asset><hfield name="h" nrow="40000" ncol="40000" size="1 1 1 1"/></asset>',
            ),
        ),
        ("mjcf", body.format("", "", 400 * "<body>" + 400 * "</body>", "")),
        *(
            (kind, 20_000 * text)
            for kind in ("urdf", "mjcf")
            for text in ("<!--", "<?", "<!", "<include ", "<")
        ),
        (
            "mjcf",
            body.format("", "", "", "").encode().replace(b"<mujoco>", b'<mujoco model="\xb6">'),
        ),
        ("urdf", _mimic_chain(700)),
        ("urdf", URDF.replace("<mechanicalReduction>50<", "<mechanicalReduction>0<")),
        ("toml", "a" + 30_000 * ".a" + " = 1"),
        ("toml", "x = " + 30_000 * "["),
        ("toml", "x = " + 5_000 * "9"),
        ("study", STUDY.replace("seed = 3", "seed = -3")),
        ("study", STUDY.replace('"results"', '"\\u0000"')),
        ("study", STUDY.replace('"results"', '"../../.."')),
        ("study", STUDY.replace('"two_link"', '"' + 5000 * "x" + '.urdf"')),
        ("csv", ",".join(4000 * ["q"]) + "\n" + 3 * (",".join(4000 * ["1"]) + "\n")),
        ("csv", 't,q1,q2\n0,1,"' + 200_000 * "1" + '"\n'),
        ("csv", "t,q1,q2\n0,1," + 200_000 * "1" + "\n"),
        ("csv", b"t,q1,q2\n0,1,\xff\n"),
        *(
            ("mapping", text)
            for text in (
                "time_unit = [1]",
                "time = []",
                "q = 1.5",
                'delimiter = "::"',
                "delimiter = {}",
                "units = 1",
            )
        ),
        *(
            ("mapping", text)
            for text in (
                "motor_side = 3",
                "joints = 1",
                "offset = { joint1 = 'x' }",
                "gear_ratio = 0",
            )
        ),
        ("estimate", 100_000 * "["),
        ("estimate", json.dumps({"minidyn": "estimate", "version": 4, "consistent": "no"})),
        ("npz", _archive(t=np.arange(5.0), q=np.zeros((5, 2)), starts=np.array([0, 10**15]))),
        ("npz", _archive(t=np.arange(5.0), q=np.zeros((5, 2)), joint_names=np.array(["a", "a"]))),
        (
            "npz",
            _archive(
                t=np.arange(5.0),
                q=np.zeros((5, 2)),
                tau=np.zeros((5, 2)),
                joint_names=np.array([0]),
            ),
        ),
        ("npz", _archive(t=np.array("x"), q=np.zeros((5, 2)))),
        ("npz", _archive(t=np.arange(5.0), q=np.zeros((5, 2)), sketch=np.array("["))),
        ("npz", _archive(t=np.arange(5.0), q=np.zeros((5, 2)), notices=np.array(['{"code": 3}']))),
        ("parquet", _twins()),
        ("parquet", _never_missing()),
        ("parquet", _without_order()),
        (
            "mat",
            _matrix(b"\x05\0\0\0\x08\0\0\0", b"\x05\0\0\0\0\0\0\0"),
        ),  # SciPy took zero for a type and crashed
        ("db3", _bag("UPDATE messages SET timestamp = 1e300")),
        ("db3", _bag("UPDATE topics SET name = CAST(name AS BLOB)")),
        ("db3", _bag(_DEFINED.format("ros2msg", "int8 x\n" + 80 * "=" + "\nMSG: 1/A\nint8 x\n"))),
        ("db3", _bag(_DEFINED.format("ros2idl", "module a { struct b { long x[((1))]; }; };"))),
    ]
    return [(kind, text if isinstance(text, bytes) else text.encode()) for kind, text in found]


def _archive(**arrays: Any) -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()


def _twins() -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    buffer = io.BytesIO()
    lists = pa.array([[1.0, 2.0], [3.0, 4.0]])
    pq.write_table(
        pa.Table.from_arrays([pa.array([0.0, 1.0]), lists, lists], names=["t", "q", "q"]), buffer
    )
    return buffer.getvalue()


def _never_missing() -> bytes:
    """A file whose schema says that no value may be missing, and whose statistics count those that
    are.

    Arrow's Python objects of its column chunks ended the process.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    buffer = io.BytesIO()
    pq.write_table(pa.table({"t": [0.0, None], "q1": [0.0, None]}), buffer)
    return buffer.getvalue().replace(b"\x25\x02\x18\x02q1", b"\x25\x00\x18\x02q1")


def _without_order() -> bytes:
    """A file whose columns have an order that is unknown.

    Arrow's writer of metadata ended the process.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    buffer = io.BytesIO()
    pq.write_table(pa.table({"t": [0.0, 1.0], "q1": [0.0, 1.0], "q2": [0.0, 1.0]}), buffer)
    return buffer.getvalue().replace(b"\x19\x3c\x1c\x00\x00", b"\x19\x3c\x00\x00\x80")


def _matrix(old: bytes, new: bytes) -> bytes:
    """A MATLAB file with a part of it replaced."""
    from scipy.io import savemat

    buffer = io.BytesIO()
    savemat(buffer, {"t": np.arange(12.0), "q": np.zeros((12, 2))})
    return buffer.getvalue().replace(old, new, 1)


def _bag(change: str) -> bytes:
    """A bag whose tables are changed."""
    from bags import messages, write_bag

    recording = log()
    rows = messages(recording.t, recording.joint_names, recording.q, recording.dq, recording.tau)
    with (
        tempfile.TemporaryDirectory() as folder,
        contextlib.closing(sqlite3.connect(":memory:")) as base,
    ):
        base.deserialize(
            next(
                write_bag(Path(folder) / "bag", "db3", {"/joint_states": rows}).glob("*.db3")
            ).read_bytes()
        )
        base.execute(change)
        base.commit()
        return base.serialize()


def _mimic_chain(count: int) -> str:
    links = "".join(f'<link name="l{k}"/>' for k in range(count + 1))
    joints = "".join(
        f'<joint name="j{k}" type="continuous"><parent link="l{k}"/><child link="l{k + 1}"/>'
        + (f'<mimic joint="j{k - 1}"/>' if k else "")
        + "</joint>"
        for k in range(count)
    )
    return f'<robot name="chain">{links}{joints}</robot>'
