"""What MuJoCo must not see.

An MJCF file, and all that it names, is looked through before MuJoCo reads it. MuJoCo is made for
files of one's own. Names of default classes reach a format string of its error messages ("%n" ends
the process, "%p" shows its memory), a file that is no regular file is waited for, and a few letters
can ask for gigabytes (height fields, copies of copies). A robot file may come from anywhere, so
each of these is refused here, with the line. One pass of expat over each file: linear in its size,
and character references mean the same to both.

A process of its own for MuJoCo would hold against errors that nobody knows yet. It is not used:
starting one and importing MuJoCo takes 0.3 s of processor time, a robot without meshes is read in 5
ms (this look: 0.15 ms).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path

from minidyn.errors import DescriptionError
from minidyn.files import read_bytes, refuse_special
from minidyn.formats.xml_file import decoded, root_element, scan

LIMITS = {
    "size": 10_000,
    "hfield": 4_000_000,
    "texture": 20_000_000,
    "mesh": 1_000_000,
    "numeric": 100_000,
    "lengthrange": 100_000,
}
"""Most that an element may ask for: values, points of a grid, pixels, facets, numbers, steps of a
simulation.
"""

ELEMENTS = 100_000
"""Most elements of a robot with all copies that <replicate>, <composite>, <flexcomp> and <attach>
make.
"""

_FILES = 200
_FOLDERS = ("meshdir", "texturedir", "assetdir")
_FACTORS = {
    "hfield": ("nrow", "ncol"),
    "texture": ("width", "height"),
    "numeric": ("size",),
    "mesh": ("params",),
    "replicate": ("count",),
    "composite": ("count",),
    "flexcomp": ("count",),
}
_COPIES = ("replicate", "composite", "flexcomp")


@dataclass
class _File:
    """What one file holds."""

    path: Path
    root: str = ""
    copies: list[float] = field(default_factory=lambda: [1.0])  # of the elements that are open
    elements: float = 0.0
    included: list[Path] = field(default_factory=list)
    models: dict[str, Path] = field(default_factory=dict)  # by the name that <attach> uses
    attached: list[tuple[str, float]] = field(default_factory=list)  # and how often
    folders: set[str] = field(default_factory=lambda: {""})
    files: list[tuple[int, str]] = field(default_factory=list)  # line and name


def check_mjcf(path: Path) -> bool:
    """Refuse what could harm, and files that are no MJCF at all.

    Return whether other files are included.
    """
    seen: dict[Path, _File] = {}
    top = _read(path, path, seen)
    if top.root != "mujoco":
        hint = "; it looks like a URDF, call it .urdf" if top.root == "robot" else ""
        raise DescriptionError(f"{path}: the root element is <{top.root}>; expected <mujoco>{hint}")
    folders = {name for found in seen.values() for name in found.folders}
    for found in seen.values():
        for line, name in found.files:
            for folder in (path.parent / each for each in folders):
                refuse_special(folder / name, f"{found.path}:{line}: file={name!r}")
    _expanded(top, seen, ())
    return bool(top.included)


def _read(path: Path, top: Path, seen: dict[Path, _File]) -> _File:
    """Look through one file and those that it names; each once."""
    if path in seen:
        return seen[path]
    if len(seen) >= _FILES:
        raise DescriptionError(f"{top}: more than {_FILES} files are included; put them into one")
    if not read_bytes(path).strip():
        raise DescriptionError(f"{path}:1: the file is empty; expected XML with a <mujoco> element")
    text = decoded(path, errors="replace")[0]
    seen[path] = found = _File(path, root_element(path, text))
    if found.root in ("", "mujoco") or path != top:  # what is no XML at all is said by the scan

        def begin(tag: str, attributes: dict[str, str], line: int) -> None:
            _look(found, tag, attributes, line, top)

        def end(_: str) -> None:
            found.copies.pop()

        scan(path, text, begin, end)
    for each in (*found.included, *found.models.values()):
        if each.exists():
            _read(each, top, seen)
    return found


def _look(found: _File, tag: str, attributes: dict[str, str], line: int, top: Path) -> None:
    """Look at one element: refuse it, or note what it names and how often it is copied."""
    place = f"{found.path}:{line}: <{tag}>"
    for name, value in attributes.items():
        if name in ("class", "childclass") and "%" in value:
            text = (
                "a percent sign in the name of a class is refused, because MuJoCo takes it for a "
                "format; rename it"
            )
            raise DescriptionError(f"{place}: {name}={value!r}: {text}")
        if name != "name" and _has_nan(value):  # MuJoCo would go on, and write a log file
            raise DescriptionError(
                f'{found.path}:{line}: {name}="{value}" is not a number; expected finite numbers'
            )
    _refuse_large(tag, attributes, place)
    copies = found.copies[-1] * (max(1.0, _product(tag, attributes)) if tag in _COPIES else 1.0)
    found.copies.append(copies)
    found.elements += copies
    if found.elements > ELEMENTS:
        raise DescriptionError(
            f"{place}: more than {ELEMENTS} elements with all copies; is a count mistyped?"
        )
    found.folders.update(
        attributes[name] for name in _FOLDERS if tag == "compiler" and name in attributes
    )
    if file := attributes.get("file", ""):
        found.files.append((line, file))
        known = [
            folder / file for folder in (top.parent, found.path.parent) if (folder / file).exists()
        ]
        if tag == "include":
            found.included += known or [top.parent / file]
        elif tag == "model":
            found.models[attributes.get("name", "")] = known[0] if known else top.parent / file
    if tag == "attach":
        found.attached.append((attributes.get("model", ""), copies))


def _expanded(found: _File, seen: dict[Path, _File], above: tuple[Path, ...]) -> float:
    """Return the number of elements of a file with those of the models that it attaches.

    Refuse rings and bombs.
    """
    if found.path in above:
        raise DescriptionError(f"{found.path}: files attach each other in a ring")
    inner = {
        name: _expanded(seen[path], seen, (*above, found.path))
        for name, path in found.models.items()
        if path in seen
    }
    largest = max(inner.values(), default=0.0)
    total = found.elements + sum(times * inner.get(name, largest) for name, times in found.attached)
    total += sum(
        _expanded(seen[path], seen, (*above, found.path))
        for path in set(found.included) & set(seen)
    )
    if total > ELEMENTS:
        raise DescriptionError(
            f"{found.path}: more than {ELEMENTS} elements with all copies; attach fewer models"
        )
    return total


def _refuse_large(tag: str, attributes: dict[str, str], place: str) -> None:
    """Refuse what asks for more memory or time than any robot needs."""
    most = LIMITS.get(tag, 0)
    if tag == "size":
        for name, value in attributes.items():
            if name != "memory" and _number(value) > most:
                raise DescriptionError(
                    f"{place}: {name}={value!r} is above the limit of {most}; leave it out"
                )
    elif tag == "lengthrange":
        steps = _number(attributes.get("inttotal", "10")) / max(
            _number(attributes.get("timestep", "0.01")), 1e-300
        )
        if steps > most:
            raise DescriptionError(
                f"{place}: {steps:.3g} steps are above the limit of {most}; leave it out"
            )
    elif most and _product(tag, attributes) > most:
        shown = " ".join(
            f"{name}={attributes[name]!r}" for name in _FACTORS[tag] if name in attributes
        )
        raise DescriptionError(
            f"{place}: {shown} is above the limit of {most}; the dynamics do not need it"
        )


def _product(tag: str, attributes: dict[str, str]) -> float:
    """Return the product of the counts that an element gives."""
    words = [word for name in _FACTORS[tag] for word in attributes.get(name, "").split()]
    return math.prod(max(1.0, abs(_number(word))) for word in words)


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0  # MuJoCo says what is wrong with it


def _has_nan(value: str) -> bool:
    if "nan" not in value.lower():
        return False
    words = value.split()
    return all(_is_number(word) for word in words) and any(
        math.isnan(float(word)) for word in words
    )


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True
