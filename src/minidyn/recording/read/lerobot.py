"""Data sets of LeRobot, versions 2.1 and 3: Parquet files of episodes, described by meta/info.json.

Version 2.1 has a file for each episode (data/chunk-000/episode_000000.parquet), version 3 files of
many episodes (data/chunk-000/file-000.parquet). Rows are frames: lists "observation.state" and
"action", with the names of their entries in info.json, "timestamp" in seconds from the episode's
beginning, "episode_index". States hold positions; torques are the entries or the list called effort
or torque, where there is one. LeRobot itself is not needed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from minidyn.errors import DescriptionError
from minidyn.notices import warning
from minidyn.recording.read.parquet import ParquetTable
from minidyn.recording.read.places import RemoteFile, is_remote

NO_EFFORT = warning(
    "recording.no_effort",
    "A data set of LeRobot has no torques: neither a feature nor an entry of the state is called "
    "effort or torque.",
    "Nothing about inertia or friction can be identified from it. Record efforts or currents, too.",
)

_LISTS = {
    "q": (
        "observation.state",
        "observation.position",
        "observation.joint_position",
        "observation.state.position",
    ),
    "dq": ("observation.velocity", "observation.joint_velocity", "observation.state.velocity"),
    "tau": (
        "observation.effort",
        "observation.torque",
        "observation.joint_effort",
        "observation.state.effort",
    ),
}
_ENDINGS = {
    "pos": "q",
    "position": "q",
    "vel": "dq",
    "velocity": "dq",
    "effort": "tau",
    "torque": "tau",
    "eff": "tau",
}
_INFO = "meta/info.json"
_UP = 4  # folders above a data file among which the data set's is


def is_lerobot(names: Mapping[str, Any] | tuple[str, ...]) -> bool:
    """Return whether columns are those of a data file of LeRobot."""
    lists = {name.partition("[")[0] for name in names}
    return {"timestamp", "episode_index"} <= lists and any(
        name.startswith("observation.") for name in lists
    )


class LeRobotTable(ParquetTable):
    """A data file of LeRobot with columns t, run, q.NAME, dq.NAME and tau.NAME."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        features = _features(path)
        source = {"t": ("timestamp", -1), "run": ("episode_index", -1)}
        for signal, lists in _LISTS.items():
            for feature in lists:
                width = sum(name.startswith(f"{feature}[") for name in self.names)
                for k, entry in enumerate(_entries(features.get(feature), width)):
                    joint, _, ending = entry.rpartition(".")
                    known = _ENDINGS.get(ending.lower()) if joint else None
                    own = known if known and signal == "q" else signal  # only a state mixes kinds
                    source.setdefault(f"{own}.{joint if known else entry}", (feature, k))
        if not any(name.startswith("q.") for name in source):
            raise DescriptionError(
                f"{path}: no positions (observation.state); it has {', '.join(features)}"
            )
        self._source, self.names, self.own = source, tuple(source), True
        if not any(name.startswith("tau.") for name in source):
            found = [
                name
                for name in features
                if name not in ("timestamp", "episode_index", "index", "frame_index")
            ]
            text = (
                f"{path.name}: a data set of LeRobot without an effort channel; it has "
                f"{', '.join(found)}"
            )
            self.notices = (*self.notices, NO_EFFORT(text, file=path.name, features=found))


def _features(path: Path) -> dict[str, Any]:
    """Return the features that the data set of a file describes.

    What the file itself has where there is none.
    """
    if is_remote(path):
        folder = str(path).rpartition("/data/")[0]
        places: list[Any] = [RemoteFile(f"{folder}/{_INFO}")]
    else:
        places = [parent / _INFO for parent in list(path.resolve().parents)[:_UP]]
    place = next((place for place in places if place.exists()), None)
    if place is None:
        raise DescriptionError(
            f"{path}: a data file of LeRobot without the {_INFO} of its data set"
        )
    try:
        with place.open("rb") as file:
            content = json.load(file)
        features = content["features"]
        if not isinstance(features, dict):
            raise TypeError("features: expected an object")
    except (ValueError, KeyError, TypeError) as error:
        raise DescriptionError(
            f"{place}: not the description of a data set of LeRobot ({error!r})"
        ) from None
    return features


def _entries(feature: Any, width: int) -> list[str]:
    """Return the names of a list's entries: info.json has a list, or lists by kind.

    Numbers where it has none.
    """
    names = feature.get("names") if isinstance(feature, dict) else None
    if isinstance(names, dict):
        names = [
            str(name)
            for value in names.values()
            for name in (value if isinstance(value, list) else [value])
        ]
    if (
        isinstance(names, list)
        and len(names) == width
        and len({str(name) for name in names}) == width
    ):
        return [str(name) for name in names]
    return [f"joint{k + 1}" for k in range(width)]
