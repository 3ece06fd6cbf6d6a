"""Estimates to and from JSON, bit by bit: numbers keep all their digits, the base map is stored and not found again."""

from __future__ import annotations

import json
import math
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from minidyn.base.base_map import BaseMap
from minidyn.base.closed_form.structure import Role, Structure
from minidyn.errors import DescriptionError
from minidyn.formats.toml.read import read_toml
from minidyn.formats.toml.write import toml_text
from minidyn.model.robot import Robot
from minidyn.notices import Notice

_WORDS = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def plain_values(value: Any) -> Any:
    """Return dicts, lists, texts, numbers and None alone: what JSON gives back as it was."""
    if isinstance(value, Mapping):
        return {str(key): plain_values(entry) for key, entry in value.items()}
    if isinstance(value, np.ndarray):
        return plain_values(value.tolist())
    if isinstance(value, list | tuple | set | frozenset):
        return [plain_values(entry) for entry in value]
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Notice):
        return plain_values(value.to_json())
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return str(value)


def strict_json(value: Any) -> bytes:
    """Return JSON that every reader takes: numbers that are not finite are the texts NaN, Infinity, -Infinity."""
    return json.dumps(_worded(plain_values(value)), indent=1, allow_nan=False).encode()


def with_numbers(value: Any) -> Any:
    """Return what was read from JSON with the texts NaN, Infinity and -Infinity as numbers again."""
    if isinstance(value, dict):
        return {key: with_numbers(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [with_numbers(entry) for entry in value]
    return _WORDS.get(value, value) if isinstance(value, str) else value


def _worded(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _worded(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [_worded(entry) for entry in value]
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value


def base_to_json(base: BaseMap) -> dict[str, Any]:
    """Return a base map as plain values, its robot (the one before identification) as TOML text."""
    return {
        "robot": toml_text(base.robot),
        "method": base.method,
        "model": base.model,
        "kept": base.kept,
        "regrouped": base.regrouped,
        "eliminated": base.eliminated,
        "K": base.K,
        "gap": base.gap,
        "joints": base.joints,
        "columns": base.columns,
        "notices": [notice.to_json() for notice in base.notices],
        "rows": base.rows,
        "labels": base.labels,
        "structure": None if base.structure is None else asdict(base.structure),
    }


def base_from_json(entry: Mapping[str, Any]) -> BaseMap:
    """Return the base map that `base_to_json` wrote; nothing is computed."""
    kept, regrouped = tuple(entry["kept"]), tuple(entry["regrouped"])
    return BaseMap(
        robot_from_text(entry["robot"]),
        entry["method"],
        entry["model"],
        kept,
        regrouped,
        tuple(entry["eliminated"]),
        np.array(entry["K"], dtype=float).reshape(len(kept), len(regrouped)),
        float(entry["gap"]),
        _names(entry["joints"]),
        _names(entry["columns"]),
        tuple(Notice.from_json(notice) for notice in entry["notices"]),
        None if entry["rows"] is None else np.array(entry["rows"], dtype=float),
        tuple(entry["labels"]),
        _structure(entry["structure"]),
    )


def robot_from_text(text: str) -> Robot:
    """Return the robot of a TOML text; its `source` is what the text says."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "robot.toml"
        path.write_text(text, encoding="utf-8")
        try:
            robot = read_toml(path)
        except DescriptionError as error:
            raise DescriptionError(str(error).replace(str(path), "its robot, line")) from None
    return replace(robot, source="") if robot.source == str(path) else robot


def _names(entry: list[str] | None) -> tuple[str, ...] | None:
    return None if entry is None else tuple(entry)


def _structure(entry: Mapping[str, Any] | None) -> Structure | None:
    if entry is None:
        return None
    return Structure(entry["what"], tuple(Role(**role) for role in entry["roles"]), entry["version"])
