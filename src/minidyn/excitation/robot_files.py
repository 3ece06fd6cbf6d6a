"""Motions as files that robots run: tables, ROS 2 trajectories, programs of robot makers.

Every file opens with a warning: what was checked, what was not, and how to run it first.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import wrap

import numpy as np
from numpy.typing import ArrayLike

from minidyn.arrays import Array, real_array
from minidyn.errors import MinidynError, ShapeError, UnknownName, Unsupported, optional
from minidyn.files import AnyPath, write_atomically
from minidyn.model.robot import Robot
from minidyn.simulation.trajectory import Trajectory, along, quintic
from minidyn.text import safe_comment

SLOW = 0.1
"""Share of the speed of a first run."""

STANDS_AT_FIRST_POINT = "The robot must stand at the first point before it starts."
_DRIVES = (
    "It first drives from wherever the robot stands straight to the first point, {speed}. THIS WAY "
    "WAS NOT CHECKED, neither for limits nor for collisions with anything: bring the robot close "
    "to the first point yourself before you start."
)
WAY_TO_FIRST_POINT = {
    "urscript": _DRIVES.format(speed="at 0.2 rad/s"),
    "franka": _DRIVES.format(speed="at up to 0.19 rad/s"),
    "krl": _DRIVES.format(speed="at 5 % of the axes' speed"),
    "rapid": _DRIVES.format(speed="at 50 mm/s"),
}
"""What programs that drive to the first point themselves say of it."""
_SHORT_WARNING = "Drives to the first point first: that way was NOT checked."

_RAMP = 0.2  # share of the speed limits that a ramp uses
_SPEED = 0.5  # rad/s or m/s, of joints without a speed limit
_PEAK = 1.875  # largest speed of a quintic move over its mean
_SHORTEST = 2.0  # s, of a ramp
_WAYPOINT = 0.2  # s between the points of programs whose controllers move between them
_COLUMNS = 96  # of a line of text
_PROGRAMS = {
    "urscript": ("URScript", 6),
    "franka": ("the program for Franka robots", 7),
    "krl": ("KRL", 6),
    "rapid": ("RAPID", 6),
}  # formats of one maker's robots: the language, and how many rotational joints it moves
_FRANKA_HEAD = """import sys

from pylibfranka import ControllerMode, JointPositions, Robot

# time (s), positions (rad), speeds, accelerations of the seven joints"""
_FRANKA_BODY = """

def position(t):
    \"\"\"Return the positions at a time.\"\"\"
    low, high = 0, len(POINTS) - 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if POINTS[middle][0] <= t else (low, middle)
    a, b = POINTS[low], POINTS[high]
    h = b[0] - a[0]
    x = min(max((t - a[0]) / h, 0.0), 1.0)
    found = []
    for k in range(1, 8):
        p, v, c = a[k], a[k + 7] * h, a[k + 14] * h * h
        d, w, e = b[k] - p, b[k + 7] * h, b[k + 14] * h * h
        third = 10 * d - 6 * v - 4 * w - 1.5 * c + 0.5 * e
        fourth = -15 * d + 8 * v + 7 * w + 1.5 * c - e
        fifth = 6 * d - 3 * (v + w) - 0.5 * c + 0.5 * e
        found.append(p + x * (v + x * (c / 2 + x * (third + x * (fourth + x * fifth)))))
    return found


def run(robot, duration, positions):
    \"\"\"Follow positions of time and of the pose at the start until the duration is over.\"\"\"
    control = robot.start_joint_position_control(ControllerMode.JointImpedance)
    t, first = 0.0, None
    while True:
        state, step = control.readOnce()
        t += step.to_sec()
        first = list(state.q_d) if first is None else first
        command = JointPositions(positions(t, first))
        command.motion_finished = t >= duration
        control.writeOnce(command)
        if command.motion_finished:
            return


def main():
    \"\"\"Move slowly to the first point, then run the motion.\"\"\"
    if len(sys.argv) != 2:
        sys.exit("usage: python " + sys.argv[0] + " ROBOT_ADDRESS")
    robot = Robot(sys.argv[1])
    print("This drives straight to the first point first. THAT WAY WAS NOT CHECKED.")
    if input("This moves the robot. Emergency stop in hand? Type yes: ") != "yes":
        sys.exit("stopped")
    start = position(POINTS[0][0])
    begin = max(2.0, 10.0 * max(abs(a - b) for a, b in zip(start, robot.read_once().q)))

    def approach(t, first):
        x = min(t / begin, 1.0)
        s = x * x * x * (10 + x * (6 * x - 15))
        return [a + s * (b - a) for a, b in zip(first, start)]

    run(robot, begin, approach)
    run(robot, POINTS[-1][0], lambda t, first: position(t))


if __name__ == "__main__":
    main()
"""


@dataclass(frozen=True, eq=False)
class Points:
    """A motion as points of time."""

    names: tuple[str, ...]  # joints (n)
    t: Array  # seconds (N,)
    q: Array  # (N, n), rad or m
    dq: Array
    ddq: Array
    warning: tuple[str, ...]  # lines of text that open every file


def save_motion(
    robot: Robot,
    trajectory: Trajectory,
    duration: float,
    path: AnyPath,
    format: str | None,
    checked: Sequence[str],
    unsure: Sequence[str],
    speed: float,
    home: ArrayLike | None,
    rate: float,
) -> Path:
    """Write a motion as a file; see :meth:`minidyn.Excitation.save`.

    `checked` are the limits that were checked, `unsure` says what was assumed or left out.
    """
    target = Path(path)
    kind = (
        {suffix: name for name, (suffix, _) in FORMATS.items()}.get(target.suffix)
        if format is None
        else format
    )
    if kind not in FORMATS:
        if format is None:
            endings = ", ".join(f"{suffix} ({name})" for name, (suffix, _) in FORMATS.items())
            raise MinidynError(
                f"{target}: the ending says no format of motions; expected one of {endings}"
            )
        raise UnknownName("format", format, FORMATS)
    for name, value in (("speed", speed), ("rate", rate)):
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < np.inf:
            raise MinidynError(f"save: {name}: expected a positive number, got {value!r}")
    if speed > 1:
        raise MinidynError(
            f"save: speed: expected at most 1, got {speed!r}: faster than designed, limits do not "
            "hold"
        )
    check_format(robot, kind)
    way = WAY_TO_FIRST_POINT.get(kind, STANDS_AT_FIRST_POINT)
    points = _points(robot, trajectory, duration, checked, unsure, speed, home, rate, way)
    write_atomically(target, FORMATS[kind][1](points))
    return target


def _points(
    robot: Robot,
    trajectory: Trajectory,
    duration: float,
    checked: Sequence[str],
    unsure: Sequence[str],
    speed: float,
    home: ArrayLike | None,
    rate: float,
    way: str,
) -> Points:
    """Return the motion at a rate.

    With a ramp from the home pose and back, as slow as is wanted.
    """
    whole = duration / speed
    t = _times(whole, rate)
    q, dq, ddq = along(trajectory, np.minimum(t * speed, duration), robot.n)
    parts = [(t, q, speed * dq, speed**2 * ddq)]
    if home is not None:
        rest = home_pose(robot, home)
        into, back = _ramp(robot, rest, q[0], rate), _ramp(robot, q[-1], rest, rate)
        first, second = into[0][-1], into[0][-1] + whole
        parts = [into, _later(parts[0], first), _later(back, second)]
    ramp = (
        "The moves from and to the home pose keep positions and a fifth of the speed limits; "
        "their path was not checked for anything else.",
    )
    warning = (
        "WARNING: this file moves a robot.",
        *wrap(way, _COLUMNS),
        "Keep the emergency stop in hand, and people out of reach. Run it at 10 % speed first.",
        (
            f"Robot: {safe_comment(robot.name)}; {whole:.3f} s at {100 * speed:.3g} % of the "
            "designed speed."
        ),
        *(safe_comment(line) for one in unsure for line in wrap(f"NOTE: {one}.", _COLUMNS)),
        *(line for one in what_was_checked(checked) for line in wrap(one, _COLUMNS)),
        *(ramp if home is not None else ()),
        "Made by minidyn.",
    )
    joined = [np.concatenate([part[k] for part in parts]) for k in range(4)]
    return Points(robot.joint_names, joined[0], joined[1], joined[2], joined[3], warning)


def check_files(robot: Robot, formats: Iterable[str], home: ArrayLike | None) -> None:
    """Raise where a robot's motions cannot be written so; asked before a long search."""
    for kind in formats:
        check_format(robot, kind)
    if home is not None:
        home_pose(robot, home)


def check_format(robot: Robot, kind: str) -> None:
    """Raise where a robot's motions cannot be written in a format."""
    if kind not in _PROGRAMS:
        return
    language, count = _PROGRAMS[kind]
    slides = not all(robot.joints[index].turns for index in robot.independent)
    if robot.n != count or slides:
        has = f"{robot.n} joints" + (", some of which slide" if slides else "")
        raise Unsupported(f"{language} moves {count} rotational joints; this robot has {has}")


def home_pose(robot: Robot, home: ArrayLike) -> Array:
    """Return a home pose (n,) that is within the robot's limits."""
    pose = real_array(home, "save: home")
    if pose.shape != (robot.n,) or not np.all(np.isfinite(pose)):
        raise ShapeError(f"save: home: expected {robot.n} finite positions, got {home!r}")
    for index, name, value in zip(robot.independent, robot.joint_names, pose):
        limit = robot.joints[index].limits
        if not limit.lower - 1e-6 <= value <= limit.upper + 1e-6:
            raise MinidynError(
                f"save: home: joint {name!r} at {value:.6g} is outside its limits "
                f"{limit.lower:.6g} to {limit.upper:.6g}"
            )
    return pose


def what_was_checked(checked: Sequence[str]) -> tuple[str, str]:
    """Return what was checked, and what was not, as two sentences; `checked` are the limits."""
    nothing = "of the robot with itself, its tool, cables, obstacles and people"
    rest = (
        "of links that a joint connects, of the tool, cables, obstacles that were not given, and "
        "people"
        if "distance" in checked
        else nothing
    )
    return (
        f"Checked at all times: {', '.join(checked) or 'nothing'}.",
        f"NOT checked: collisions {rest}.",
    )


def _times(duration: float, rate: float) -> Array:
    """Times from 0 to the duration, both included, at least at a rate."""
    return np.linspace(0.0, duration, max(2, int(np.ceil(duration * rate - 1e-9)) + 1))


def _later(
    part: tuple[Array, Array, Array, Array], begin: float
) -> tuple[Array, Array, Array, Array]:
    """A part of a motion that follows another: its first point is the other's last."""
    return part[0][1:] + begin, part[1][1:], part[2][1:], part[3][1:]


def _ramp(robot: Robot, start: Array, end: Array, rate: float) -> tuple[Array, Array, Array, Array]:
    limits = [robot.joints[index].limits for index in robot.independent]
    fastest = np.array([min(limit.velocity, _SPEED / _RAMP) for limit in limits])
    duration = max(_SHORTEST, float(np.max(_PEAK * np.abs(end - start) / (_RAMP * fastest))))
    t = _times(duration, rate)
    return (t, *along(quintic(start, end, duration), t, robot.n))


# -------------------------------------------------------------------- formats


def _csv(points: Points) -> bytes:
    text = io.StringIO()
    for line in points.warning:
        text.write(f"# {line}\n")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(
        ["t", *(f"{signal}.{name}" for signal in ("q", "dq", "ddq") for name in points.names)]
    )
    for row in np.column_stack([points.t, points.q, points.dq, points.ddq]):
        writer.writerow([f"{value:.10g}" for value in row])
    return text.getvalue().encode()


def _parquet(points: Points) -> bytes:
    arrow, parquet = optional("pyarrow"), optional("pyarrow.parquet")
    columns: dict[str, Array] = {"t": points.t}
    for signal in ("q", "dq", "ddq"):
        columns |= {
            f"{signal}.{name}": getattr(points, signal)[:, k] for k, name in enumerate(points.names)
        }
    table = arrow.table(columns).replace_schema_metadata({"warning": "\n".join(points.warning)})
    stream = io.BytesIO()
    parquet.write_table(table, stream)
    return stream.getvalue()


def _stamp(t: float) -> tuple[int, int]:
    """Seconds and nanoseconds of a time."""
    return divmod(round(t * 1e9), 10**9)


def _ros2(points: Points) -> bytes:
    """A trajectory_msgs/msg/JointTrajectory as `ros2 topic pub` and YAML readers take it."""
    lines = [f"# {line}" for line in points.warning]
    lines += [
        "# trajectory_msgs/msg/JointTrajectory",
        "header: {stamp: {sec: 0, nanosec: 0}, frame_id: ''}",
    ]
    lines += [f"joint_names: {json.dumps(list(points.names))}", "points:"]
    for t, q, dq, ddq in zip(points.t, points.q, points.dq, points.ddq):
        seconds, nanoseconds = _stamp(float(t))
        lines.append(f"- positions: {_list(q)}")
        lines.append(f"  velocities: {_list(dq)}")
        lines.append(f"  accelerations: {_list(ddq)}")
        lines.append(f"  time_from_start: {{sec: {seconds}, nanosec: {nanoseconds}}}")
    return ("\n".join(lines) + "\n").encode()


def _list(values: Array) -> str:
    return f"[{', '.join(f'{value:.10g}' for value in values)}]"


def _mcap(points: Points) -> bytes:
    """One message in an MCAP file.

    The trajectory on /joint_trajectory, the warning on /warning before it.
    """
    from tempfile import TemporaryDirectory

    bags, system = optional("rosbags.rosbag2"), optional("rosbags.typesys")
    store = system.get_typestore(system.Stores.LATEST)
    types = store.types
    Duration, Time = types["builtin_interfaces/msg/Duration"], types["builtin_interfaces/msg/Time"]
    Trajectory, Point = (
        types[f"trajectory_msgs/msg/JointTrajectory{end}"] for end in ("", "Point")
    )
    rows = [
        Point(q, dq, ddq, np.zeros(0), Duration(*_stamp(float(t))))
        for t, q, dq, ddq in zip(points.t, points.q, points.dq, points.ddq)
    ]
    header = types["std_msgs/msg/Header"](Time(0, 0), "")
    messages = {
        "/warning": types["std_msgs/msg/String"]("\n".join(points.warning)),
        "/joint_trajectory": Trajectory(header, list(points.names), rows),
    }
    with TemporaryDirectory() as folder:
        bag = Path(folder) / "motion"
        with bags.Writer(bag, version=9, storage_plugin=bags.StoragePlugin.MCAP) as writer:
            for number, (topic, message) in enumerate(messages.items()):
                connection = writer.add_connection(topic, message.__msgtype__, typestore=store)
                writer.write(connection, number, store.serialize_cdr(message, message.__msgtype__))
        (file,) = bag.glob("*.mcap")
        return file.read_bytes()


def _urscript(points: Points) -> bytes:
    """A program of Universal Robots: a slow move to the first point, then servoj at even times."""
    step = float(points.t[1] - points.t[0])
    if not np.allclose(np.diff(points.t), step, rtol=0.05):
        raise Unsupported("URScript: points must be even in time; use a higher rate=")
    lines = [f"# {line}" for line in points.warning]
    lines += [
        "def minidyn_motion():",
        f'  popup("{_SHORT_WARNING}", title="minidyn", warning=True, blocking=True)',
        f"  movej({_list(points.q[0])}, a=0.2, v=0.2)",
        "  sleep(1.0)",
    ]
    lines += [
        f"  servoj({_list(q)}, t={step:.9g}, lookahead_time=0.05, gain=300)" for q in points.q
    ]
    lines += ["  stopj(1.0)", "end", "minidyn_motion()"]
    return ("\n".join(lines) + "\n").encode()


def _franka(points: Points) -> bytes:
    """A Python program for pylibfranka: a slow move to the first point, then positions at 1 kHz.

    Between points the program follows polynomials of degree five through position, speed and
    acceleration.
    """
    rows = np.column_stack([points.t, points.q, points.dq, points.ddq])
    lines = [f"# {line}" for line in points.warning]
    lines += [
        _FRANKA_HEAD,
        "POINTS = [",
        *(f"    {_list(row)}," for row in rows),
        "]",
        _FRANKA_BODY,
    ]
    return "\n".join(lines).encode()


def _waypoints(points: Points) -> tuple[Array, Array]:
    """Times (N,) and positions (N, n), degrees, of few points.

    The robot's own controller moves between them.
    """
    stride = max(1, round(_WAYPOINT * (len(points.t) - 1) / float(points.t[-1])))
    chosen = np.unique(np.r_[np.arange(0, len(points.t), stride), len(points.t) - 1])
    return points.t[chosen], np.degrees(points.q[chosen])


_BETWEEN = (
    "Between waypoints the robot's controller plans its own motion: limits were checked for the "
    "design alone."
)
_SIGNS = (
    "Signs and zeros of the axes are those of the model: compare a few poses with the robot first."
)


def _krl(points: Points) -> bytes:
    """A KRL program of KUKA: a spline of axis positions, degrees, with the times of the motion."""
    t, q = _waypoints(points)
    axes = [", ".join(f"A{k + 1} {value:.6f}" for k, value in enumerate(row)) for row in q]
    lines = [
        "&ACCESS RVP",
        *(f"; {line}" for line in (*points.warning, _BETWEEN, _SIGNS)),
        "DEF minidyn_motion()",
    ]
    lines += [
        "  GLOBAL INTERRUPT DECL 3 WHEN $STOPMESS==TRUE DO IR_STOPM()",
        "  INTERRUPT ON 3",
        "  BAS(#INITMOV, 0)",
    ]
    lines += [
        "  BAS(#VEL_PTP, 5)",
        f"  PTP {{{axes[0]}}}",
        "  WAIT SEC 1.0",
        "  BAS(#VEL_PTP, 100)",
        "  PTP_SPLINE",
    ]
    lines += [f"    SPTP {{{axes[0]}}}", "    TIME_BLOCK START"]
    for row, share in zip(axes[1:], 100 * np.diff(t) / (t[-1] - t[0])):
        lines += [f"    SPTP {{{row}}}", f"    TIME_BLOCK PART = {share:.6f}"]
    lines += [f"    TIME_BLOCK END = {t[-1] - t[0]:.3f}", "  ENDSPLINE", "END"]
    return ("\r\n".join(lines) + "\r\n").encode()


def _rapid(points: Points) -> bytes:
    """A RAPID module of ABB: absolute joint moves, degrees, each with the time that it takes."""
    t, q = _waypoints(points)
    none = "[9E9,9E9,9E9,9E9,9E9,9E9]"
    targets = [f"[[{','.join(f'{value:.6f}' for value in row)}],{none}]" for row in q]
    lines = [
        "MODULE minidyn_motion",
        *(f"  ! {line}" for line in (*points.warning, _BETWEEN, _SIGNS)),
    ]
    lines += [
        "  PROC minidyn_run()",
        f'    TPWrite "{_SHORT_WARNING}";',
        f"    MoveAbsJ {targets[0]}\\NoEOffs, v50, fine, tool0;",
        "    WaitTime 1;",
    ]
    for number, (target, step) in enumerate(zip(targets[1:], np.diff(t)), start=2):
        zone = "fine" if number == len(targets) else "z5"
        lines.append(f"    MoveAbsJ {target}\\NoEOffs, v1000\\T:={step:.6f}, {zone}, tool0;")
    lines += ["  ENDPROC", "ENDMODULE"]
    return ("\r\n".join(lines) + "\r\n").encode()


FORMATS: dict[str, tuple[str, Callable[[Points], bytes]]] = {
    "csv": (".csv", _csv),
    "parquet": (".parquet", _parquet),
    "ros2": (".yaml", _ros2),
    "mcap": (".mcap", _mcap),
    "urscript": (".script", _urscript),
    "franka": (".py", _franka),
    "krl": (".src", _krl),
    "rapid": (".mod", _rapid),
}
"""Formats of motions: the ending of their files, and what writes them."""
