"""What a column's name says: which signal it holds, and of which joint.

Loggers agree on little, so names are read as words: one names the signal (pos, velocity, tau,
current ...), some qualify it (actual, desired, error), what is left names the joint. Every guess is
shown in the recording's notices.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from minidyn.errors import DescriptionError

_WORDS = {
    "q": {"q", "pos", "position", "positions", "angle", "angles", "theta", "qpos"},
    "dq": {"dq", "qd", "qdot", "vel", "velocity", "velocities", "speed", "speeds", "omega", "qvel"},
    "ddq": {"ddq", "qdd", "qddot", "acc", "accel", "acceleration", "accelerations", "qacc"},
    "tau": {"tau", "torque", "torques", "effort", "efforts", "trq", "moment", "moments"},
    "current": {"curr", "current", "currents", "amps", "amp", "ampere", "iq"},
}
_SIGNAL_OF = {word: signal for signal, words in _WORDS.items() for word in words}
_MEASURED = {
    "actual",
    "error",
    "present",
    "meas",
    "measured",
    "real",
    "fb",
    "feedback",
    "read",
    "msr",
    "state",
    "states",
    "sensor",
}
_TARGET = {
    "target",
    "des",
    "desired",
    "ref",
    "reference",
    "cmd",
    "command",
    "commanded",
    "setpoint",
    "d",
    "goal",
}
_TARGET |= {"ipo", "plan", "planned"}
_OTHER = {
    "err",
    "error",
    "limit",
    "limits",
    "temp",
    "temperature",
    "std",
    "min",
    "max",
    "ext",
    "external",
    "tcp",
}
_OTHER |= {"telemetry", "cartesian", "wrench", "ft"}
_FILLER = {
    "joint",
    "joints",
    "axis",
    "axes",
    "motor",
    "motors",
    "link",
    "j",
    "a",
    "robot",
    "arm",
    "data",
    "side",
}
_TIME = {
    "t",
    "time",
    "times",
    "timestamp",
    "timestamps",
    "stamp",
    "clock",
    "secs",
    "seconds",
    "elapsed",
}
_UNIT = dict.fromkeys(("s", "sec", "secs", "seconds"), "s") | dict.fromkeys(
    ("ms", "msec", "milliseconds"), "ms"
)
_UNIT |= dict.fromkeys(("us", "usec", "microseconds"), "us")
_UNIT |= dict.fromkeys(("ns", "nsec", "nanosec", "nanoseconds"), "ns")
_SPELLED = dict.fromkeys(("°", "degs", "degree", "degrees"), "deg")
_SPELLED |= dict.fromkeys(("rads", "radian", "radians"), "rad")
_SPELLED |= dict.fromkeys(("n*m", "n.m", "n·m", "n m", "n-m"), "nm")
_PER_TIME = r"(?:[ _]?/?[ _]?s(?:ec)?(?:\^?2|²)?)?"
# letters that may be anything else (m, N, A) count as units in brackets alone
_IN_BRACKETS = re.compile(
    r"\s*[\[(]\s*(°|deg\w*|m?rads?|radians?|turns?|rev|rpm|[munck]?m|in|[mk]?N[ *.·-]?[mc]?m?|m?A)"
    rf"{_PER_TIME}\s*[\])]\s*$",
    re.IGNORECASE,
)
_AS_WORD = re.compile(
    rf"(?<=[^A-Za-z])(°|deg(?:s|rees?)?|m?rads?|radians?|rpm|mm|Nm{{1,2}}|mNm)(?:{_PER_TIME}$|(?=[ _.-]))",  # noqa: E501
    re.IGNORECASE,
)
_TOKEN = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")


@dataclass(frozen=True, slots=True)
class ColumnName:
    """A column's name, understood."""

    column: str  # as it stands in the file
    signal: str  # "q", "dq", "ddq" or "tau"
    joint: str | int  # name of a known joint, the number of a joint, or what is left of the name
    kind: str  # the name without the joint: columns of one kind belong together
    penalty: int  # 0 for a measured torque or motion; higher for currents and for desired values
    current: bool  # whether the word said current rather than torque
    unit: str  # that the name states, "" where it states none


def read_name(column: str, joints: Sequence[str] = ()) -> ColumnName | None:
    """Return what a column's name says, None where it is no signal of a joint.

    "FILE:NAME" where the file's own name may say which signal it holds. Of `joints`, which are
    known, the longest that the name contains is its joint.
    """
    file, _, name = column.rpartition(":")
    rest, joint = name, _known_joint(name, joints)
    if joint is not None:
        rest = next(pattern for pattern in _patterns(joint) if pattern.search(name)).sub(
            " ", name, count=1
        )
    rest, unit = named_unit(rest)
    words, outside = _words(rest), _words(file)
    if _OTHER.intersection(words) or name.startswith("telemetry."):
        return None
    signal, used = _signal(words)
    signal = signal or _signal(outside)[0]
    key: str | int | None = joint if joint is not None else _joint_left(rest, words, used)
    if not signal or key is None:
        return None
    said = set(words) | set(outside)
    current = signal == "current"
    penalty = 2 * current + (0 if said & _MEASURED else 1) + (8 if said & _TARGET else 0)
    kind = " ".join(word for word in [*outside, ":", *words] if not word.isdigit())
    if joint is None and isinstance(key, str):  # the joint's own words are not part of the kind
        kind = " ".join(
            [
                *outside,
                ":",
                *(word for word in words if word in used or word in _MEASURED | _TARGET),
            ]
        )
    return ColumnName(column, "tau" if current else signal, key, kind, penalty, current, unit)


def named_unit(column: str) -> tuple[str, str]:
    """Return a column's name without the unit it states, and the unit in small letters ("" where it
    states none).

    "q1 [deg]", "Torque 2 (Nm)", "speed_3_rad/s" and "q_deg_4" state one; of speeds "deg" stands for
    deg/s.
    """
    found = _IN_BRACKETS.search(column) or _AS_WORD.search(column)
    if found is None:
        return column, ""
    unit = found.group(1).lower()
    return f"{column[: found.start()]} {column[found.end() :]}".strip(" _"), _SPELLED.get(
        unit, unit
    )


def time_columns(columns: Iterable[str]) -> tuple[tuple[str, ...], str]:
    """Return the time column, or a pair of seconds and nanoseconds, and the unit its name states
    ("" where none).
    """
    whole, parts = [], {}
    for column in columns:
        words = _words(column.rpartition(":")[2])
        if not words or len(words) > 4 or any(word in _SIGNAL_OF for word in words):
            continue
        of_time = any(word in _TIME for word in words)
        if of_time:
            whole.append((column, next((_UNIT[word] for word in words[::-1] if word in _UNIT), "")))
        if (of_time or len(words) == 1) and words[-1] in (
            "sec",
            "secs",
            "nanosec",
            "nsec",
            "nsecs",
        ):
            parts["ns" if words[-1].startswith("n") else "s"] = column
    if len(parts) == 2:
        return (parts["s"], parts["ns"]), "s"
    if whole:
        best = min(whole, key=lambda item: len(item[0].rpartition(":")[2]))
        return (best[0],), best[1]
    return ((parts["s"],), "s") if "s" in parts else ((), "")


def _words(text: str) -> list[str]:
    return [match.group().lower() for match in _TOKEN.finditer(text)]


def same_word(name: str) -> str:
    """Return the name without case and separators: Joint_1 and joint1 are the same word."""
    return re.sub(r"[^a-z0-9]", "", name.lower())


def natural(name: str | int) -> list[tuple[int, int, str]]:
    """Return a key that sorts joint10 after joint9."""
    parts = re.findall(r"\d+|\D+", str(name))
    return [(0, int(part), "") if part.isdigit() else (1, 0, part) for part in parts]


def _signal(words: Sequence[str]) -> tuple[str, set[str]]:
    index = next((k for k, word in enumerate(words) if word in _SIGNAL_OF), None)
    if index is None:
        return "", set()
    word = words[index]
    dots = [after for after in words[index + 1 : index + 3] if after in ("dot", "ddot")]
    if _SIGNAL_OF[word] == "q" and dots:
        return ("ddq" if "ddot" in dots or len(dots) == 2 else "dq"), {word, *dots}
    return _SIGNAL_OF[word], {word}


def _known_joint(name: str, joints: Sequence[str]) -> str | None:
    for strictness in (slice(0, 1), slice(1, 2)):
        found = [
            joint for joint in joints if any(p.search(name) for p in _patterns(joint)[strictness])
        ]
        if found:
            exact = [joint for joint in found if joint in name]
            best = max(exact or found, key=lambda joint: len(same_word(joint)))
            alike = [joint for joint in exact or found if same_word(joint) == same_word(best)]
            if len(alike) > 1 and not exact:
                raise DescriptionError(
                    f"column {name!r} may be of joint {' or '.join(map(repr, alike))}: these "
                    "names differ in case or punctuation alone. Call the columns exactly as the "
                    "robot's file calls its joints"
                )
            return max(alike, key=len)
    return None


def _patterns(joint: str) -> list[re.Pattern[str]]:
    """Return what finds a joint in a name.

    As a word of its own, and, where it is long enough, within one.
    """
    parts = re.findall(r"[A-Za-z]+|\d+", joint)
    body = r"[^A-Za-z0-9]*".join(parts) if parts else re.escape(joint)
    strict = re.compile(rf"(?<![A-Za-z0-9]){body}(?![A-Za-z0-9])", re.IGNORECASE)
    return [strict, re.compile(rf"{body}(?!\d)", re.IGNORECASE)] if len(joint) >= 4 else [strict]


def _joint_left(rest: str, words: Sequence[str], used: set[str]) -> str | int | None:
    """Return the joint that remains of a name: its number, or its text; None where nothing does."""
    left = [
        word for word in words if word not in used and word not in _MEASURED and word not in _TARGET
    ]
    named = [word for word in left if word not in _FILLER]
    if len(named) == 1 and named[0].isdigit():
        return int(named[0])
    if not named:
        return None
    text = rest
    for match in reversed(list(_TOKEN.finditer(rest))):
        if match.group().lower() in used | _MEASURED | _TARGET:
            text = text[: match.start()] + " " + text[match.end() :]
    return re.sub(r"^[\W_]+|[\W_]+$", "", text) or None


def telemetry_columns(names: Sequence[str], own: bool) -> dict[str, tuple[str, ...]]:
    """Return the columns of further signals by name.

    Those of files that minidyn wrote, temperature, a force sensor.
    """
    found: dict[str, tuple[str, ...]] = {}
    for name in names:
        if own and name.startswith("telemetry."):
            label = re.sub(r"(\.\d+|\[\d+\])$", "", name.removeprefix("telemetry."))
            found[label] = (*found.get(label, ()), name)
        elif _is_temperature(name):
            found["temperature"] = (
                *found.get("temperature", ()),
                name,
            )  # friction may vary with it
    wrench = {_wrench_entry(name): name for name in reversed(names)}
    six = [wrench.get(kind + axis) for kind in ("f", "m") for axis in "xyz"]
    if "wrench" not in found and all(six):
        found["wrench"] = tuple(str(name) for name in six)
    return found


def _is_temperature(name: str) -> bool:
    """Whether a name is that of a temperature, °C, of a drive or of all.

    "temperature", "Temp [C]", "motor_temp_3".
    """
    words = set(
        _words(re.sub(r"[\[(]\s*(°|deg\w*)?\s*C(elsius)?\s*[\])]", "", name, flags=re.IGNORECASE))
    )
    known = _FILLER | _MEASURED | {"temp", "temperature", "temperatures", "celsius", "deg", "c"}
    of_it = bool(words & {"temp", "temperature", "temperatures"})
    return of_it and all(word in known or word.isdigit() for word in words)


def _wrench_entry(name: str) -> str:
    """Return "fx" ... "mz" for the name of a force sensor's column, "" for any other."""
    words = [
        word for word in re.split(r"[^a-z]+", re.sub(r"\[.*\]|\(.*\)", "", name.lower())) if word
    ]
    words = [word for word in words if word not in ("wrench", "ft", "sensor", "tcp", "n", "nm")]
    if len(words) == 1 and len(words[0]) == 2 and words[0][0] in "ftm" and words[0][1] in "xyz":
        return words[0].replace("t", "m", 1)
    kinds = {"force": "f", "f": "f", "torque": "m", "moment": "m", "t": "m", "m": "m"}
    if len(words) == 2 and words[0] in kinds and words[1] in ("x", "y", "z"):
        return kinds[words[0]] + words[1]
    return ""
