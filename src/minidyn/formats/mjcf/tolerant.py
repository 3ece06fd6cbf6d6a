"""MJCF with elements or attributes that MuJoCo does not know: what dynamics can do without is dropped.

MuJoCo refuses a file for any unknown word. Leftovers of macro languages, annotations of other tools and elements of
newer versions should not stop a robot from loading; a misspelled joint should. So what is unknown is dropped, with a
notice, unless it looks like a word that matters.
"""

from __future__ import annotations

import difflib
import re
from pathlib import Path
from typing import Any

from lxml import etree

from minidyn.errors import DescriptionError
from minidyn.formats.xml_file import Element, read_xml
from minidyn.notices import Notice, kind

UNKNOWN_WORD = kind(
    "mjcf.unknown_word",
    "info",
    "An element or attribute that MuJoCo does not know is left out; it does not matter for the dynamics.",
)

_NEEDED = (
    "attach", "body", "compiler", "default", "equality", "frame", "freejoint", "geom", "include", "inertial", "joint",
    "motor", "mujoco", "option", "replicate", "worldbody", "actuator",
)  # fmt: skip
_COMPLAINT = re.compile(r"unrecognized (element|attribute)(?:: '([^']*)')?\s+Element '([^']*)', line (\d+)")
_LIMIT = 1000


def read_tolerantly(path: Path, first: ValueError, notices: list[Notice]) -> Any:
    """Return the MjSpec of a file without its unknown parts.

    Args:
        path: The file.
        first: What MuJoCo said about the file as it stands.
        notices: Where it is reported what was dropped.

    Raises:
        ValueError: MuJoCo's complaint, where it is about something else or something that matters.
    """
    import mujoco

    if not _COMPLAINT.search(str(first)):
        raise first
    root = read_xml(path, "mujoco")
    _inline(root, path.parent, 0)
    for _ in range(_LIMIT):
        # written on fresh lines and parsed again, so that MuJoCo's line numbers are those of the elements
        text = etree.tostring(root.node, encoding="unicode")
        top = etree.fromstring(text)
        try:
            spec = mujoco.MjSpec.from_string(text)
        except ValueError as error:
            _drop(top, error, first, notices)
            root = Element(path, top)
            continue
        spec.modelfiledir = str(path.parent)
        return spec
    raise first


def _inline(element: Element, folder: Path, depth: int) -> None:
    """Put the contents of included files in the place of <include>, as MuJoCo does."""
    if depth > 50:
        raise DescriptionError(f"{element.path}: files include each other in a ring")
    for include in [node for node in element.node.iter("include") if node.get("file")]:
        parent = include.getparent()
        if parent is None:
            continue
        included = read_xml(folder / str(include.get("file")), "mujoco")
        _inline(included, folder, depth + 1)
        position = parent.index(include)
        parent.remove(include)
        for offset, child in enumerate(list(included.node)):
            parent.insert(position + offset, child)


def _drop(top: etree._Element, error: ValueError, first: ValueError, notices: list[Notice]) -> None:
    match = _COMPLAINT.search(str(error))
    if match is None:
        raise error
    what, attribute, tag, line = match.groups()
    found = [node for node in top.iter() if isinstance(node.tag, str) and _written(node) == tag]
    found = [node for node in found if Element(Path(), node).line == int(line)] or found
    if what == "element":
        node = next(iter(found), None)
        parent = None if node is None else node.getparent()
        if node is None or parent is None or _looks_needed(tag):
            raise first
        parent.remove(node)
        notices.append(_unknown(tag))
        return
    for node in found:
        for key in list(node.attrib):
            if _written_name(str(key), node) == attribute and (":" in attribute or tag not in _NEEDED):
                del node.attrib[key]
                notices.append(_unknown(tag, attribute))
                return
    prefix = attribute.removeprefix("xmlns:")
    if prefix != attribute:
        _drop_namespace(top, top.nsmap.get(prefix, ""), prefix, notices)
        return
    raise first


def _drop_namespace(top: etree._Element, space: str, prefix: str, notices: list[Notice]) -> None:
    """Drop the declaration of a namespace, and with it what belongs to it."""
    for node in [node for node in top.iter() if isinstance(node.tag, str)]:
        parent = node.getparent()
        if str(node.tag).startswith(f"{{{space}}}") and parent is not None:
            notices.append(_unknown(_written(node)))
            parent.remove(node)
            continue
        for key in [key for key in node.attrib if str(key).startswith(f"{{{space}}}")]:
            del node.attrib[key]
    etree.cleanup_namespaces(top)
    if prefix in top.nsmap:
        raise ValueError(f"the namespace {prefix!r} cannot be removed")


def _unknown(tag: str, attribute: str = "") -> Notice:
    what = f"an attribute {attribute!r} of <{tag}>" if attribute else f"an element <{tag}>"
    return UNKNOWN_WORD(f"{what} that MJCF does not know is left out", element=tag, attribute=attribute)


def _looks_needed(tag: str) -> bool:
    return ":" not in tag and bool(difflib.get_close_matches(tag.lower(), _NEEDED, n=1, cutoff=0.75))


def _written(node: etree._Element) -> str:
    local = str(node.tag).rsplit("}", 1)[-1]
    return f"{node.prefix}:{local}" if node.prefix else local


def _written_name(key: str, node: etree._Element) -> str:
    if not key.startswith("{"):
        return key
    space, local = key[1:].split("}", 1)
    prefix = next((prefix for prefix, uri in node.nsmap.items() if uri == space), None)
    return f"{prefix}:{local}" if prefix else local
