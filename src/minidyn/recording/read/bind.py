"""Which columns of a table hold which signal of which joint.

Given where given, else guessed from names and shown.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from minidyn.errors import DescriptionError, near_names
from minidyn.model.lock import not_logged
from minidyn.model.robot import Robot
from minidyn.notices import Notice, info, warning
from minidyn.recording.read.guess import (
    ColumnName,
    natural,
    read_name,
    same_word,
    telemetry_columns,
    time_columns,
)
from minidyn.recording.read.mapping import UNITS, SignalMap
from minidyn.recording.read.tables import LogTable
from minidyn.recording.recording import COMMAND, KNOWN_TORQUE, SIGNALS, WRENCH

COLUMNS = info(
    "recording.columns",
    "Which columns of the file were read as which signal.",
    "Where this is wrong, name the columns: q=..., tau=... in Python, in a mapping file "
    "(--mapping) in the shell.",
)
CURRENTS = warning(
    "recording.currents",
    "Torques were read from columns named as currents.",
    "Where these are motor currents, give drive_gain (N m/A) and gear_ratio, in the shell in a "
    "mapping file (--mapping); gains that are not known can be found: see the page on motor "
    "currents.",
)
NO_TORQUES = warning(
    "recording.no_torques",
    "No columns of torques were found; a model cannot be identified without them.",
    "Name them: tau=... (--mapping FILE). Motor currents need drive_gain, too, or "
    "--currents-as-torque.",
)
CONVERTED = info(
    "recording.units_converted",
    "Columns state a unit in their names that is not SI; they were converted.",
    "Where the names are wrong, units=... says the true unit.",
)
DDQ_UNUSED = info(
    "recording.ddq_not_used",
    "The file has accelerations. They are not used: most are differences of noisy positions. They "
    "are computed from filtered positions instead.",
    "Where they are measured or exact, use_ddq=True (--use-ddq) uses them, and nothing is "
    "filtered.",
)
OTHER_JOINTS = info(
    "recording.other_joints", "The file has joints that the robot has not; they were left out."
)
TIME_UNUSED = info("recording.time_unused", "A rate was given, so the time column was not used.")

Key = str | int
KeyT = TypeVar("KeyT", bound=str | int)
_SI = (
    "",
    "rad",
    "m",
    "nm",
    "n",
    "a",
)  # as columns state them; amperes are what drive gains are per


@dataclass(frozen=True)
class Binding:
    """Columns of a table by meaning."""

    joints: tuple[str, ...]  # in the order of the recording
    # for each signal that is there, its columns in the order of `joints`; "" where a joint has none
    signals: Mapping[str, tuple[str, ...]]
    time: tuple[str, ...]  # the time column, or (seconds, nanoseconds); () where the rate is given
    time_unit: str  # that the time column's name or an option states; "" where neither does
    run: str  # column whose changes begin a run; "" where there is none
    telemetry: Mapping[
        str, tuple[str, ...]
    ]  # columns of further signals by name (files that minidyn wrote)
    notices: tuple[Notice, ...]  # what was guessed, what was left out
    units: Mapping[
        str, tuple[str, ...]
    ]  # of signals with units that are not SI: each column's, "" where it has none
    locked: Mapping[str, str]  # column of positions of each locked joint that the table has

    @property
    def columns(self) -> tuple[str, ...]:
        """Return all columns that are read, each once."""
        several = (
            *self.signals.values(),
            *self.telemetry.values(),
            self.time,
            (self.run,) if self.run else (),
        )
        return tuple(dict.fromkeys(name for group in several for name in group if name))


def guessed_signals(table: LogTable, given: SignalMap, robot: Robot | None) -> set[str]:
    """Return the signals a table holds by its columns' names, or else by its own name."""
    known = _known_joints(table, given, robot)
    found = _kinds(table, table.names, known)
    return set(found or _kinds(table, [f"{table.path.stem}:{name}" for name in table.names], known))


def bind(table: LogTable, given: SignalMap, robot: Robot | None) -> Binding:
    """Return which columns of a table are read as what.

    Without positions, time or a joint's columns an error.
    """
    notices: list[Notice] = []
    known = _known_joints(table, given, robot)
    guesses = _guess(table, given, known)
    if (
        not given.use_ddq
        and not table.prepared
        and ("ddq" in guesses if given.ddq is None else given.ddq is not False)
    ):
        notices.append(
            DDQ_UNUSED(f"{table.path.name}: accelerations (ddq) are not used", file=table.path.name)
        )
        given = SignalMap(**vars(given) | {"ddq": False})
    keys, columns = _keyed(table, given, guesses, known)
    names, chosen = _order(table, keys, given, robot, notices)
    if lost := [
        f"{what} of joint {key!r}"
        for what, found in columns.items()
        for key in chosen
        if key not in found
    ]:
        raise DescriptionError(f"{table.path}: no column for {lost[0]}; name the columns")
    signals = {signal: tuple(found[key] for key in chosen) for signal, found in columns.items()}
    if table.labels or not table.own:
        taken = {
            signal: [table.labels.get(name, name) for name in columns if name]
            for signal, columns in signals.items()
        }
        taken |= {what: [label] for what, label in table.labels.items() if what not in table.names}
        limit = 2 if table.labels else 4  # fields of messages are long
        shown = "; ".join(f"{what} = {_short(names, limit)}" for what, names in taken.items())
        notices.append(COLUMNS(f"{table.path.name}: {shown}", file=table.path.name, **taken))
    if not table.own and "tau" in signals and given.drive_gain is None:
        notices += _currents(
            table, [*filter(None, signals["tau"])], given, guesses.get("tau", ()), known
        )
    units = {} if table.own or given.units is not None else _units(table, signals, known, notices)
    time, unit = _time(table, given, notices)
    run = _one(table, given.run, "run") if given.run else "run" if "run" in table.names else ""
    if "tau" not in signals and given.tau is not False:
        left = [
            name for name in table.names if name not in {*time, run, *sum(signals.values(), ())}
        ]
        text = f"{table.path.name}: no torques found{f' among {_short(left)}' if left else ''}"
        notices.append(NO_TORQUES(text, file=table.path.name, columns=left))
    telemetry = telemetry_columns(table.names, table.own)
    if given.wrench is not None:
        telemetry[WRENCH] = tuple(_explicit(table, given.wrench, WRENCH, known))
        if len(telemetry[WRENCH]) != 6:
            raise DescriptionError(
                f"{table.path}: wrench: six columns (forces, moments) needed, got {given.wrench!r}"
            )
    if given.known_torque is not None:
        telemetry[KNOWN_TORQUE] = _of_joints(
            table, KNOWN_TORQUE, given.known_torque, keys, names, chosen, known
        )
    if given.command is not None:
        telemetry[COMMAND] = _of_joints(table, "command", given.command, keys, names, chosen, known)
    held = robot.locked_joints if robot else ()
    locked = {
        joint: found
        for joint in held
        for key, found in columns["q"].items()
        if key not in chosen and same_word(str(key)) == same_word(joint)
    }
    return Binding(
        names, signals, time, given.time_unit or unit, run, telemetry, tuple(notices), units, locked
    )


def _of_joints(
    table: LogTable,
    what: str,
    wish: Any,
    keys: Sequence[Key],
    names: Sequence[str],
    chosen: Sequence[Key],
    known: Sequence[str],
) -> tuple[str, ...]:
    """Return the column of a further signal of each joint of the recording, "" where it has
    none.
    """
    if isinstance(wish, Mapping):
        for joint in wish:
            if joint not in names:
                raise DescriptionError(
                    f"{table.path}: {what}: no joint {joint!r}{near_names(str(joint), names)}"
                )
        return tuple(_one(table, wish[name], what) if name in wish else "" for name in names)
    listed = _explicit(table, wish, what, known)
    if len(listed) != len(keys):
        raise DescriptionError(
            f"{table.path}: {what} names {len(listed)} columns for {len(keys)} joints "
            f"({_short(listed)}); {{joint: column}} names those of some joints"
        )
    of_key = dict(zip(keys, listed))
    return tuple(of_key[key] for key in chosen)


def _currents(
    table: LogTable,
    columns: Sequence[str],
    given: SignalMap,
    guesses: Iterable[ColumnName],
    known: Sequence[str],
) -> list[Notice]:
    """Refuse columns that are named as currents, or stated in amperes, and have no gain.

    A file's name is a hint.
    """
    own = [column.rpartition(":")[2] for column in columns]  # without the file
    read = [read_name(column, known) or read_name(f"tau:{column}", known) for column in own]
    amperes = [_SI[-1], f"m{_SI[-1]}"]
    unit = given.units.get("tau") if isinstance(given.units, Mapping) else None
    named = [
        name.column for name in read if name is not None and (name.current or name.unit in amperes)
    ]
    if not given.currents_as_torque and (
        named or (isinstance(unit, str) and unit.lower() in amperes)
    ):
        raise DescriptionError(
            f"{table.path}: tau is read from motor currents ({_short(columns)}) without a gain: "
            "masses would come out wrong. drive_gain (N m/A, with gear_ratio; in the shell in a "
            "file, --mapping) makes torques of them, and minidyn gains (md.identify_drive_gains) "
            "finds gains that are not known from a run with a weighed load; "
            "currents_as_torque=True (--currents-as-torque) takes them as they are: as torques, "
            "or for a model in amperes"
        )
    if not named and (given.tau is not None or not any(guess.current for guess in guesses)):
        return []
    where = "columns named as currents" if named else "a file or columns named as currents"
    text = f"{table.path.name}: tau is read from {where}, as it is; drive_gain converts currents"
    return [CURRENTS(text, file=table.path.name, columns=list(columns))]


def _units(
    table: LogTable,
    signals: Mapping[str, tuple[str, ...]],
    known: Sequence[str],
    notices: list[Notice],
) -> dict[str, tuple[str, ...]]:
    """Return the units that columns state in their names, of signals where one is not SI.

    These are converted.
    """
    found = {}
    for signal, columns in signals.items():
        read = [
            (read_name(column, known) or read_name(f"{signal}:{column}", known)) if column else None
            for column in columns
        ]
        units = tuple(name.unit if name is not None and name.unit in UNITS else "" for name in read)
        odd = dict.fromkeys(unit for unit in units if unit not in _SI)
        if odd:
            found[signal] = units
            text = (
                f"{table.path.name}: {signal} is converted from {', '.join(odd)}, as its columns "
                "are named"
            )
            notices.append(CONVERTED(text, file=table.path.name, signal=signal, units=list(odd)))
    return found


def _known_joints(table: LogTable, given: SignalMap, robot: Robot | None) -> tuple[str, ...]:
    renamed = given.joints.values() if isinstance(given.joints, Mapping) else given.joints or ()
    return tuple(
        dict.fromkeys(
            [*map(str, renamed), *(robot.joint_names if robot else ()), *table.joint_names]
        )
    )


def _kinds(
    table: LogTable, names: Sequence[str], known: Sequence[str]
) -> dict[str, list[ColumnName]]:
    """Return the best kind of columns for each signal.

    That of most joints, measured before desired.
    """
    kinds: dict[tuple[str, str], list[ColumnName]] = {}
    for name in names:
        if table.own and name.partition(".")[0].partition("[")[0] not in SIGNALS:
            continue
        read = read_name(name, known)
        if read is not None:
            kinds.setdefault((read.signal, read.kind), []).append(read)
    best: dict[str, list[ColumnName]] = {}
    for (signal, _), columns in kinds.items():
        rival = best.get(signal)
        rank = (-len({column.joint for column in columns}), columns[0].penalty)
        if rival is None or rank < (-len({column.joint for column in rival}), rival[0].penalty):
            best[signal] = columns
    return best


def _one_a_joint(table: LogTable, columns: Sequence[ColumnName]) -> dict[Key, str]:
    """Return the column of each joint.

    Of two that differ in case or punctuation alone the one with its exact name.
    """
    of_joint: dict[Key, list[ColumnName]] = {}
    for column in columns:
        of_joint.setdefault(column.joint, []).append(column)
    for joint, several in of_joint.items():
        exact = (
            [column for column in several if str(joint) in column.column]
            if isinstance(joint, str)
            else []
        )
        if len(several) > 1 and len(exact) != 1:
            said = [table.repeated.get(column.column, column.column) for column in several]
            why = (
                "are the same: rename one"
                if len(set(said)) == 1
                else "differ in case or punctuation alone"
            )
            raise DescriptionError(
                f"{table.path}: columns {' and '.join(map(repr, said))} may both be "
                f"{several[0].signal} of joint {joint!r}: their names {why}. "
                f"{several[0].signal}=[...] names the columns that are meant"
            )
        of_joint[joint] = exact or several
    return {joint: several[0].column for joint, several in of_joint.items()}


def _guess(table: LogTable, given: SignalMap, known: Sequence[str]) -> dict[str, list[ColumnName]]:
    if given.q is not None and all(
        getattr(given, name) is not None for name in ("dq", "ddq", "tau")
    ):
        return {}
    found = _kinds(table, table.names, known)
    if "q" not in found:
        prefix = f"{table.path.stem}:"
        for signal, columns in _kinds(
            table, [prefix + name for name in table.names], known
        ).items():
            found.setdefault(
                signal, [replace(c, column=c.column.removeprefix(prefix)) for c in columns]
            )
    return found


def _keyed(
    table: LogTable, given: SignalMap, guesses: Mapping[str, list[ColumnName]], known: Sequence[str]
) -> tuple[list[Key], dict[str, dict[Key, str]]]:
    """Return the file's joints in the order of its columns, and for each signal its column by
    joint.
    """
    columns: dict[str, dict[Key, str]] = {}
    keys: list[Key] = []
    for signal in SIGNALS:
        wish = getattr(given, signal)
        if wish is False:
            continue
        if wish is None:
            found: dict[Key, str] = _one_a_joint(table, guesses.get(signal, ()))
            ordered = sorted(found, key=natural) if _numbered(found) else list(found)
            if signal == "q":
                keys = ordered
            elif len(found) == len(keys) and _numbered(found) != _numbered(
                keys
            ):  # numbers here, names there
                found = {key: found[other] for key, other in zip(keys, ordered)}
        else:
            listed = _explicit(table, wish, signal, known)
            if signal == "q":
                keys = _explicit_keys(listed, given, known)
            if len(listed) != len(keys):
                raise DescriptionError(
                    f"{table.path}: {signal} names {len(listed)} columns for {len(keys)} joints "
                    f"({_short(listed)})"
                )
            found = dict(zip(keys, listed))
        if signal == "q" and not found:
            raise DescriptionError(
                f"{table.path}: no columns of positions found; q names them. Columns: "
                f"{_short(table.names, 12)}"
            )
        if signal == "tau" and wish is None and found and set(found) <= set(keys):
            found |= {key: "" for key in keys if key not in found}  # torques that nobody measured
        for key in keys if found else ():
            if key not in found:
                raise DescriptionError(
                    f"{table.path}: {signal} has no column for joint {key!r}, which has positions; "
                    f"{signal}=False leaves it out"
                )
        if found:
            columns[signal] = found
    return keys, columns


def _explicit(table: LogTable, wish: Any, signal: str, known: Sequence[str]) -> list[str]:
    if isinstance(wish, str):
        spread = re.fullmatch(r"(\d+):(\d+)", wish)
        if spread:
            wish = range(int(spread[1]), int(spread[2]))
        elif "{joint}" in wish:
            return [_one(table, wish.replace("{joint}", joint), signal) for joint in known]
        elif "*" in wish or "?" in wish:
            found = [name for name in table.names if fnmatch.fnmatchcase(name, wish)]
            if not found:
                raise DescriptionError(
                    f"{table.path}: no column fits {signal}={wish!r}{near_names(wish, table.names)}"
                )
            return sorted(found, key=natural)
        else:
            several = [
                name
                for name in table.names
                if re.fullmatch(re.escape(wish) + r"(\[\d+\]|\..+)", name)
            ]
            return several or [_one(table, wish, signal)]
    elif isinstance(wish, int) and not isinstance(wish, bool):
        wish = [wish]
    return [_one(table, item, signal) for item in wish]


def _one(table: LogTable, item: Any, what: str) -> str:
    if isinstance(item, int) and not isinstance(item, bool):
        if not 0 <= item < len(table.names):
            raise DescriptionError(
                f"{table.path}: {what} names column {item}; there are {len(table.names)}, from 0"
            )
        return table.names[item]
    if item in table.names:
        return str(item)
    fits = [name for name in table.names if name.rpartition(":")[2] == item]
    if len(fits) == 1:
        return fits[0]
    raise DescriptionError(
        f"{table.path}: no column {item!r} for {what}{near_names(str(item), table.names)}"
    )


def _explicit_keys(listed: Sequence[str], given: SignalMap, known: Sequence[str]) -> list[Key]:
    if (
        given.joints is not None
        and not isinstance(given.joints, Mapping)
        and len(given.joints) == len(listed)
    ):
        return [str(name) for name in given.joints]
    read = [read_name(name, known) or read_name(f"q:{name}", known) for name in listed]
    keys: list[Key] = [item.joint for item in read if item is not None]
    named = all(key in known if known else not str(key).startswith("column") for key in keys)
    if named and len(set(keys)) == len(listed):
        return keys
    return list(range(1, len(listed) + 1))


def _order(
    table: LogTable,
    keys: Sequence[Key],
    given: SignalMap,
    robot: Robot | None,
    notices: list[Notice],
) -> tuple[tuple[str, ...], list[Key]]:
    """Return the recording's joint names, and for each the file's joint."""
    named: dict[str, Key] = {}
    if isinstance(given.joints, Mapping):
        named = {
            str(ours): _match(table, str(theirs), keys) for ours, theirs in given.joints.items()
        }
        if robot is None:
            return tuple(named), list(named.values())
        named |= {str(key): key for key in keys if key not in named.values()}
    elif given.joints is not None:
        names = [str(name) for name in given.joints]
        in_order = _numbered(keys) and len(names) == len(keys)
        named = dict(
            zip(names, keys if in_order else (_match(table, name, keys) for name in names))
        )
    elif _numbered(keys):
        if robot is None:
            return tuple(f"joint{k + 1}" for k in range(len(keys))), list(keys)
        named = _by_number(table, keys, robot)
    else:
        named = {str(key): key for key in keys}
        ours = {same_word(name) for name in (robot.joint_names if robot else ())}
        if robot is not None and _counted(named) and not ours.intersection(map(same_word, named)):
            named = _by_number(
                table, sorted(named, key=natural), robot
            )  # axis1_main, axis2_main: no names of joints
    if robot is None:
        return tuple(named), list(named.values())
    present = _logged(table, named, robot, notices)
    chosen = [named[_match(table, name, list(named))] for name in present]
    twice = [name for name, key in zip(present, chosen) if chosen.count(key) > 1]
    if twice:
        raise DescriptionError(
            f"{table.path}: the columns of {chosen[present.index(twice[0])]!r} may be "
            f"those of {' or '.join(map(repr, twice))}: these names differ in case or punctuation "
            "alone. joints=... names the file's joint of each"
        )
    locked = {same_word(name) for name in robot.locked_joints}
    others = [str(key) for key in keys if key not in chosen and same_word(str(key)) not in locked]
    if others:
        text = f"{table.path.name}: joints {_short(others)} are not the robot's and are left out"
        notices.append(OTHER_JOINTS(text, file=table.path.name, joints=others))
    return present, chosen


def _logged(
    table: LogTable, named: Mapping[str, Key], robot: Robot, notices: list[Notice]
) -> tuple[str, ...]:
    """Return the robot's joints that the file has; a notice says where the others are locked.

    A joint is an error that the file may have under another name: where its joints are not all the
    robot's, or none is.
    """
    words = {same_word(name) for name in named}
    present = tuple(name for name in robot.joint_names if same_word(name) in words)
    missing = [name for name in robot.joint_names if name not in present]
    ours = {same_word(name) for name in present}
    others = [name for name in named if same_word(name) not in ours]
    hint = (
        "joints=... names the file's joints; a joint that was not logged is locked: --lock NAME, "
        "lock={name: position}"
    )
    if missing and (others or not present):
        _match(table, missing[0], list(named), f" ({hint})")  # says what is missing
    if missing:
        notices.append(not_logged(robot, missing))
    return present


def _by_number(table: LogTable, keys: Sequence[Key], robot: Robot) -> dict[str, Key]:
    """Return the file's joint of each of the robot's, in the order in which the file counts
    them.
    """
    if len(keys) < robot.n:
        raise DescriptionError(
            f"{table.path}: positions of {len(keys)} joints, but {robot.name or 'the robot'} has "
            f"{robot.n}: {', '.join(robot.joint_names)}; say which were "
            "logged: --keep-joints, keep_joints=[...], or joints=[...] for the columns in order"
        )
    return dict(zip(robot.joint_names, keys))


def _counted(names: Iterable[str]) -> bool:
    """Return whether names differ in one number alone, as axis1_main and axis2_main do."""
    parts = [re.findall(r"\d+|\D+", name) for name in names]
    if len(parts) < 2 or len({len(one) for one in parts}) > 1:
        return False
    others = [set(place) for place in zip(*parts) if len(set(place)) > 1]
    return len(others) == 1 and all(part.isdigit() for part in others[0])


def _numbered(keys: Iterable[Key]) -> bool:
    return all(isinstance(key, int) for key in keys)


def _match(table: LogTable, name: str, keys: Sequence[KeyT], hint: str = "") -> KeyT:
    """Return the file's joint of this name, or the only one whose name is the same but for case and
    punctuation.
    """
    if name in keys:
        return keys[list(keys).index(name)]  # type: ignore[arg-type] # a text among texts
    alike = [key for key in keys if same_word(str(key)) == same_word(name)]
    if len(alike) > 1:
        raise DescriptionError(
            f"{table.path}: joint {name!r} may be {' or '.join(map(repr, alike))} of the file: "
            "these names differ in case or punctuation alone. joints=... names the file's joint "
            "of each"
        )
    if not alike:
        near = near_names(name, [str(key) for key in keys])
        raise DescriptionError(f"{table.path}: no columns for joint {name!r}{near}{hint}")
    return alike[0]


def _time(table: LogTable, given: SignalMap, notices: list[Notice]) -> tuple[tuple[str, ...], str]:
    if given.time is not None:
        several = given.time if isinstance(given.time, list | tuple) else [given.time]
        return tuple(_one(table, item, "time") for item in several), ""
    if table.own and given.rate is None:
        return ("t",), "s"
    columns, unit = time_columns(table.names)
    if given.rate is not None:
        if columns:
            text = f"{table.path.name}: rate is given; the time column {columns[0]!r} is not used"
            notices.append(TIME_UNUSED(text, file=table.path.name, column=columns[0]))
        return (), ""
    if not columns:
        text = f"{table.path}: no time column among {_short(table.names, 8)}"
        raise DescriptionError(f"{text}; time=COLUMN names it, rate=HZ (--rate) replaces it")
    return columns, unit


def _short(names: Sequence[str], limit: int = 4) -> str:
    if len(names) <= limit:
        return ", ".join(names)
    return f"{', '.join(names[: limit - 1])} ... {names[-1]} ({len(names)} columns)"
