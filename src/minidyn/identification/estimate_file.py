"""What a saved estimate holds beside numbers.

Base map, robots and constants of joints, as plain values and TOML.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from minidyn.arrays import Array, covariance_root, left_open, of_roots, with_numbers
from minidyn.base.base_map import BaseMap
from minidyn.base.closed_form.structure import Role, Structure
from minidyn.errors import DescriptionError, MinidynError
from minidyn.formats.load import SUFFIXES
from minidyn.formats.toml.read import robot_from_text
from minidyn.formats.toml.write import toml_text
from minidyn.identification.known_torque import KnownTorque, KnownTorqueLike
from minidyn.identification.settings import Settings
from minidyn.model.geometry import TOLERANCE
from minidyn.notices import Notice, warning

_Made = TypeVar("_Made")
_BROKEN = (
    OSError,
    ValueError,
    LookupError,
    TypeError,
    ArithmeticError,
    AttributeError,
    RecursionError,
    MinidynError,
)

_ROUNDED = 1e-2  # rounding: of what variances allow, in files of earlier versions

NO_COVARIANCE = warning(
    "estimate.no_covariance",
    "A saved estimate holds covariances that no covariance can be, such as negative variances.",
    "Earlier versions wrote these for parameters that the recording hardly determines. Values and "
    "predicted torques are not affected; identify again for the deviations.",
)

VERSION = 5
"""Formula: number of the format of the files that `Estimate.save` writes.

2 held notices as texts, 3 no known torque, 4 the record under the name "settings".
"""


@dataclass(frozen=True)
class BodyConstants:
    """What one joint's torque showed of its composite body, one joint moving at a time.

    Attributes:
        joint: Name of the joint.
        values: Constants by name: "U33_1", "U11_22_4", "k2x", "m3", "kappa1_3", and drive terms.
        std: Their standard deviations, errors of the joints behind included; infinite where
            nothing shows it (no sample over).
        condition: Condition number of the joint's equations, SI units.
        samples: Number of equations.
        sigma: Standard deviation of the torque's residual, N m or N; NaN where there is no sample
            over.
    """

    joint: str
    values: dict[str, float]
    std: dict[str, float]
    condition: float
    samples: int
    sigma: float


def base_to_json(base: BaseMap) -> dict[str, Any]:
    """Return a base map as plain values, its robot (the one before identification) as TOML text."""
    made = {
        one.name: getattr(base, one.name)
        for one in fields(base)
        if one.name not in ("motion", "condition")  # of maps of one motion, which fit no estimate
    }
    return made | {
        "robot": toml_text(base.robot),
        "structure": base.structure and asdict(base.structure),
    }


def base_from_json(entry: Mapping[str, Any]) -> BaseMap:
    """Return the base map that `base_to_json` wrote; nothing is computed."""
    # earlier versions had one tolerance, and torques of all joints
    entry = {"tolerance": TOLERANCE, "measured": None, **entry}
    entry |= {"motion": None, "condition": math.nan}
    values = {one.name: entry[one.name] for one in fields(BaseMap)}
    made: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in values.items()
    }
    made["robot"] = robot_from_text(entry["robot"])
    made["K"] = np.array(entry["K"], dtype=float).reshape(
        len(entry["kept"]), len(entry["regrouped"])
    )
    made["gap"] = float(entry["gap"])
    made["notices"] = tuple(Notice.from_json(notice) for notice in entry["notices"])
    if entry["rows"] is not None:
        made["rows"] = np.array(entry["rows"], dtype=float)
    if found := entry["structure"]:
        made["structure"] = Structure(
            found["what"], tuple(Role(**role) for role in found["roles"]), found["version"]
        )
    return BaseMap(**made)


def check_kind(content: Any, source: Path) -> None:
    """Raise where a file holds something else than an estimate of a known version."""
    if not isinstance(content, dict) or content.get("minidyn") != "estimate":
        raise DescriptionError(
            f"{source}: not an estimate; expected a file that Estimate.save wrote"
        )
    version = content.get("version", 1)
    if version not in range(2, VERSION + 1):
        newer = isinstance(version, int) and version > VERSION
        wish = "a newer minidyn wrote it, update this one" if newer else "identify again"
        raise DescriptionError(
            f"{source}: an estimate of format version {version}; this minidyn reads versions 2 to "
            f"{VERSION}: {wish}"
        )


def check_numbers(content: Mapping[str, Any], size: int, joints: int) -> None:
    """Raise a ValueError where values cannot be those of an estimate."""
    if not isinstance(content["consistent"], bool):
        raise ValueError(f"consistent: expected true or false, got {content['consistent']!r}")
    beta, sigma = (np.array(content[name], dtype=float) for name in ("beta", "sigma"))
    if beta.shape != (size,) or not np.isfinite(beta).all():
        raise ValueError(f"beta: expected {size} finite numbers")
    if sigma.shape != (joints,) or (sigma < 0).any():  # NaN: a joint without a sample over
        raise ValueError(f"sigma: expected {joints} numbers that are not negative")
    if int(content["samples"]) < 0:
        raise ValueError(f"samples: expected a count, got {content['samples']!r}")


def covariances_of(
    content: Mapping[str, Any], names: Sequence[str]
) -> tuple[list[Array | None], list[Notice]]:
    """Return the covariances (b, b) of a saved estimate, and a notice of what was wrong with them.

    Whole, of the data, of the log; None where it has none. What is open is infinite, and so is what
    no covariance can be: earlier versions wrote some that rounding had made negative or asymmetric.
    """
    made, wrong = list[Array | None](), np.zeros(len(names), dtype=bool)
    for key in ("covariance", "data_covariance", "log_covariance"):
        values = content[key] if key == "covariance" else content.get(key)
        if values is None:
            made.append(None)
            continue
        matrix, spoiled = _covariance(np.array(values, dtype=float).reshape([len(names)] * 2))
        made.append(matrix)
        wrong |= spoiled
    if not wrong.any():
        return made, []
    spoiled_names = [name for name, is_wrong in zip(names, wrong) if is_wrong]
    text = (
        f"the file's covariances cannot be those of {', '.join(spoiled_names)}: their standard "
        "deviations are infinite here, the values are as they were saved"
    )
    return made, [NO_COVARIANCE(text, parameters=spoiled_names)]


def _covariance(matrix: Array) -> tuple[Array, NDArray[np.bool_]]:
    """Return a covariance (b, b), and which of its parameters had entries that none has.

    The same one bit by bit if it is symmetric and whole.
    """
    variances = np.diag(matrix)
    known = np.isfinite(variances) & (variances >= 0)
    deviations = np.sqrt(np.where(known, variances, 0.0))
    bound = (1.0 + _ROUNDED) * np.outer(deviations, deviations) + 1e-300
    inner = np.where(known & known[:, None], matrix, 0.0)
    both = (np.abs(inner) <= bound) & (np.abs(inner - inner.T) <= _ROUNDED * bound)
    spoiled = ~(known | np.isposinf(variances)) | ~both.all(axis=1)
    if spoiled.any():
        matrix = inner = left_open(matrix, spoiled)
    if np.array_equal(inner, inner.T):
        return matrix, spoiled
    return left_open(of_roots(covariance_root(matrix)), np.isposinf(np.diag(matrix))), spoiled


def _settings(content: Mapping[str, Any]) -> Settings | None:
    """Return the options of the fit; None where the file has none, as those before version 5."""
    found = content["settings"] if content["version"] > 4 else None
    return None if found is None else Settings.from_json(found)


def read_saved(make: Callable[..., _Made], source: Path, known_torque: KnownTorqueLike) -> _Made:
    """Return what `make` makes of a saved estimate's values: those of `Estimate`, by place."""
    if source.is_dir():
        raise DescriptionError(
            f"{source}: a folder; name the estimate in it, as in {source / 'estimate.json'}"
        )
    if source.suffix.lower() in SUFFIXES:
        raise DescriptionError(
            f"{source}: a robot file; expected an estimate, such as the estimate.json that "
            "minidyn identify writes"
        )
    try:
        content = with_numbers(json.loads(source.read_text(encoding="utf-8")))
        check_kind(content, source)
        robot, base = robot_from_text(content["robot"]), base_from_json(content["base"])
        if (
            robot.structure_fingerprint != base.robot.structure_fingerprint
            or len(content["sigma"]) != robot.n
        ):
            raise ValueError("its robot is not that of its base parameters")
        check_numbers(content, base.rank, robot.n)
        (covariance, *parts), repaired = covariances_of(content, base.names)
        known = content.get("known_torque")
        return make(
            robot,
            base,
            np.array(content["beta"], dtype=float).reshape(base.rank),
            covariance,
            np.array(content["sigma"], dtype=float),
            str(content["method"]),
            content["consistent"],
            float(content["condition"]),
            int(content["samples"]),
            (*(Notice.from_json(one) for one in content["notices"]), *repaired),
            content["record" if content["version"] > 4 else "settings"],
            *parts,
            known_torque=None
            if known is None
            else KnownTorque.loaded(known, robot_from_text, known_torque),
            settings=_settings(content),
        )
    except FileNotFoundError:
        raise DescriptionError(f"{source}: no such file") from None
    except _BROKEN as error:
        if isinstance(error, DescriptionError) and str(source) in str(error):
            raise
        raise DescriptionError(f"{source}: not a whole estimate ({error})") from None
