"""What a study file may hold: the keys of each table, and what their values must be."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import fields
from typing import Any

from minidyn.codegen.files import TARGETS
from minidyn.dynamics.record import WHAT
from minidyn.errors import near_names
from minidyn.excitation.criteria import CRITERIA
from minidyn.excitation.motion import FAMILIES
from minidyn.excitation.robot_files import FORMATS as MOTIONS
from minidyn.excitation.target import PURPOSES
from minidyn.formats.toml.table import Table
from minidyn.graph.targets.cuda.kernel import DEVICES
from minidyn.identification.estimators.methods import METHODS
from minidyn.identification.export import TARGETS as EXPORTS
from minidyn.identification.settings import descriptions, setting_of
from minidyn.identification.verdict import Limits
from minidyn.model.drives import TERMS
from minidyn.recording.engine import DASK
from minidyn.recording.lazy import ON_ERROR
from minidyn.recording.prepare.preparation import Preparation
from minidyn.recording.read.mapping import OPTIONS
from minidyn.simulation.named_laws import LAWS
from minidyn.simulation.plants import PLANTS

Check = Callable[[Table, str], Any]


def _kind(what: str, test: Callable[[Any], bool]) -> Check:
    def check(table: Table, key: str) -> Any:
        value = table.raw(key)
        if not test(value):
            raise table.error(key, f"expected {what}, found {value!r}")
        return value

    return check


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _one_of(names: Iterable[str], several: bool = False) -> Check:
    """Return a check for names that the library knows."""
    known = list(names)

    def check(table: Table, key: str) -> Any:
        value = (_texts if several else _text)(table, key)
        for word in value if several else [value]:
            if word not in known:
                raise table.error(key, f"unknown {word!r}{near_names(word, known, len(known))}")
        return value

    return check


def _are_numbers(values: Any, count: int | None = None) -> bool:
    return (
        isinstance(values, list) and all(map(_is_number, values)) and count in (None, len(values))
    )


def _is_number_or_list(value: Any) -> bool:
    return _is_number(value) or _are_numbers(value)


_text = _kind("a text in quotes", lambda value: isinstance(value, str))
_number = _kind("a number", _is_number)
_positive = _kind("a number above 0", lambda value: _is_number(value) and value > 0)
_from_zero = _kind("a number from 0", lambda value: _is_number(value) and 0 <= value < math.inf)
_integer = _kind(
    "a whole number", lambda value: isinstance(value, int) and not isinstance(value, bool)
)
_flag = _kind("true or false", lambda value: isinstance(value, bool))
_texts = _kind(
    "a list of texts",
    lambda value: isinstance(value, list) and all(isinstance(x, str) for x in value),
)
_numbers = _kind("a number or a list of numbers", _is_number_or_list)
_gain = _kind(
    "a number, one for each joint, or a matrix",
    lambda v: _is_number_or_list(v) or (isinstance(v, list) and all(map(_are_numbers, v))),
)
_gravity = _kind("three numbers, m/s²", lambda value: _are_numbers(value, 3))
_mount = _kind("roll, pitch and yaw, rad", lambda value: _are_numbers(value, 3))
_lock = _kind(
    "a table such as { finger = 0.02 }, or a list of names of joints",
    lambda v: (
        _are_numbers([*v.values()])
        if isinstance(v, dict)
        else isinstance(v, list) and all(isinstance(x, str) for x in v)
    ),
)
_part = _kind(
    "two fractions such as [0, 0.7]", lambda v: _are_numbers(v, 2) and 0 <= v[0] < v[1] <= 1
)
_any: Check = lambda table, key: table.raw(key)  # noqa: E731


def _setting(table: Table, key: str) -> Any:
    """Check an option of identification; return it as it is written."""
    setting_of(table, key)
    return table.raw(key)


def _terms(table: Table, key: str) -> Any:
    """Check friction terms: "auto", "own", or a list of names."""
    if table.raw(key) in ("auto", "own"):
        return table.raw(key)
    return _one_of(TERMS, several=True)(table, key)


_coupling = _kind(
    "a table such as { joint6 = { joint5 = 1.0 } }: drives that other joints turn, too",
    lambda v: (
        isinstance(v, dict)
        and all(isinstance(x, dict) and _are_numbers([*x.values()]) for x in v.values())
    ),
)
_payload = _kind(
    "a table such as { mass = 2.0, com = [0, 0, 0.1] }",
    lambda v: isinstance(v, dict) and "mass" in v and set(v) <= {"mass", "com", "inertia"},
)
_prior = _kind(
    "a robot's name or file, or false", lambda value: isinstance(value, str) or value is False
)
_friction = _kind(
    f"a table such as {{ viscous = 1.0, coulomb = [2, 2, 1] }}, of the terms {', '.join(TERMS)}",
    lambda v: (
        isinstance(v, dict)
        and set(v) <= set(TERMS)
        and all(_is_number(x) or _are_numbers(x) for x in v.values())
    ),
)

ENGINE: dict[str, Check] = {"workers": _integer, "scheduler": _text, "dask": _one_of(DASK)}
STUDY: dict[str, Check] = {"name": _text, "output": _text, "seed": _integer} | ENGINE
ROBOT: dict[str, Check] = {
    "file": _text,
    "gravity": _gravity,
    "mount": _mount,
    "lock": _lock,
    "keep_joints": _texts,
    "xacro_args": _kind("a table of names and values", lambda value: isinstance(value, dict)),
    "coupling": _coupling,
}
MAPPING: dict[str, Check] = dict.fromkeys(OPTIONS, _any)
PREPARATION: dict[str, Check] = {one.name: _setting for one in fields(Preparation)}
VERDICT: dict[str, Check] = dict.fromkeys((one.name for one in fields(Limits)), _from_zero)
LOG: dict[str, Check] = {"name": _text, "files": _texts, "part": _part, "mapping": _text} | MAPPING
_SIMULATE: dict[str, Check] = {
    "name": _text,
    **dict.fromkeys(("duration", "dt", "cutoff"), _positive),
    **dict.fromkeys(("bandwidth", "gain", "adaptation", "kp", "kv", "psi", "composite"), _gain),
    "controller": _one_of(LAWS),
    "plant": _one_of(PLANTS),
    "unknown": _texts,
    "friction": _friction,
    "rotor_inertia": _numbers,
    **dict.fromkeys(("model_error", "parameter_spread", "noise", "velocity_noise"), _number),
    "torque_noise": _numbers,
    **dict.fromkeys(("resolution", "delay"), _number),
    "payload": _payload,
    "seed": _integer,
}
RUNNING: dict[str, Check] = {
    "threads": _integer,
    "device": _one_of(DEVICES),
    "force": _flag,
    "anyway": _flag,
}
"""Keys of a fit that are no settings: how it runs."""
_SETTINGS: dict[str, Check] = {
    name: _setting for name in descriptions() if name not in PREPARATION
} | {"prior": _prior}
_POSE = _kind("a list of numbers", _are_numbers)
_PLAN: dict[str, Check] = {
    "friction": _terms,
    "rotor_inertia": _flag,
    "limits": _kind(
        "a table such as { velocity = 1.0, upper = { elbow = 1.5 } }, the file of one, or a list",
        lambda v: all(isinstance(one, dict | str) for one in (v if isinstance(v, list) else [v])),
    ),
    "torque_share": _positive,
    "clearance": _from_zero,
    "floor": _flag,
    "obstacles": _kind(
        'a list of tables such as { kind = "plane", point = [0, 0, 0], normal = [0, 0, 1] }',
        lambda v: isinstance(v, list) and all(isinstance(x, dict) for x in v),
    ),
    "formats": _one_of(MOTIONS, several=True),
    "home": _POSE,
}
_EXCITE: dict[str, Check] = _PLAN | {
    "name": _text,
    "duration": _positive,
    "purpose": _one_of(PURPOSES),
    "criterion": _one_of(CRITERIA),
    "family": _one_of(FAMILIES),
    "payload": _payload,
    **dict.fromkeys(("start", "end"), _POSE),
    **dict.fromkeys(("rate", "time_limit"), _positive),
    "uncertainty": _from_zero,
    "noise": _numbers,
    **dict.fromkeys(("after", "measured"), _texts),
    **dict.fromkeys(("harmonics", "periods", "seed", "runs"), _integer),
}
STEPS: dict[str, dict[str, Check]] = {
    "simulate": _SIMULATE,
    "base": {
        "method": _text,
        "model": _text,
        "seed": _integer,
        "joints": _texts,
        "measured": _texts,
        "tolerance": _number,
    },
    "plan": _PLAN | {"tolerance": _from_zero},
    "gains": {
        **dict.fromkeys(("logs", "loaded"), _texts),
        "mass": _positive,
        "com": _kind("three numbers, m", lambda value: _are_numbers(value, 3)),
        "inertia": _gain,
        "link": _text,
        "friction": _terms,
        "rotor_inertia": _flag,
        "force": _flag,
    },
    "identify": {
        "logs": _texts,
        "lazy": _flag,
        "on_error": _one_of(ON_ERROR),
    }
    | _SETTINGS
    | RUNNING,
    "excite": _EXCITE,
    "validate": {"logs": _texts},
    "payload": {"name": _text, "logs": _texts, "link": _text},
    "compare": {"methods": _one_of(METHODS, several=True)}
    | {name: check for name, check in _SETTINGS.items() if name not in ("method", "consistent")}
    | RUNNING,
    "export": {
        "to": _one_of(EXPORTS, several=True),
        "formats": _one_of(EXPORTS, several=True),  # as it was called before
        "code": _one_of(WHAT, several=True),
        "targets": _one_of(TARGETS, several=True),
    },
    "report": {"title": _text, "code": _flag},
}
REQUIRED = {"identify": ["logs"], "validate": ["logs"], "simulate": ["name"]}
REQUIRED |= {"excite": ["name", "duration"], "gains": ["logs", "loaded", "mass"]}
REQUIRED |= {"payload": ["name", "logs"], "log": ["name", "files"]}
"""Keys that a table must have."""
NEEDS = {
    "validate": ["identify"],
    "payload": ["identify"],
    "report": ["identify"],
    "compare": ["identify", "validate"],
}
"""Steps that must be there too."""
READS = {"validate": "identify", "payload": "identify", "export": "identify", "report": "identify"}
"""Steps whose results are read, where the file has them."""
SEVERAL = ("simulate", "excite", "payload")
"""Steps that a file may have several of, each with a name."""
