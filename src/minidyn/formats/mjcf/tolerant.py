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

from minidyn.errors import DescriptionError, optional
from minidyn.files import read_bytes
from minidyn.formats.xml_file import root_element
from minidyn.notices import Notice, info

mujoco = optional("mujoco")

UNKNOWN_WORD = info(
    "mjcf.unknown_word",
    "An element or attribute that MuJoCo does not know is left out; it does not matter for the dynamics.",
)

_NEEDED = (
    "attach", "body", "compiler", "default", "equality", "frame", "freejoint", "geom", "include", "inertial", "joint",
    "motor", "mujoco", "option", "replicate", "worldbody", "actuator",
)  # fmt: skip
_COMPLAINT = re.compile(r"unrecognized (element|attribute)(?:: '([^']*)')?\s+Element '([^']*)', line (\d+)")
_LIMIT = 1000


def read_tolerantly(path: Path, first: ValueError, notices: list[Notice]) -> Any:
    """Return the MjSpec of a file without its unknown parts; what was dropped is reported in `notices`.

    MuJoCo's `first` complaint is raised again where it is about something else, or about something that matters.
    """
    if not _COMPLAINT.search(str(first)):
        raise first
    root = _tree(path)
    _inline(root, path.parent, 0)
    _drop_foreign(root, notices)
    for _ in range(_LIMIT):
        # written on fresh lines and parsed again, so that MuJoCo's line numbers are those of the elements
        text = etree.tostring(root, encoding="unicode")
        root = etree.fromstring(text)
        try:
            spec = mujoco.MjSpec.from_string(text)
        except ValueError as error:
            _drop(root, error, first, notices)
            continue
        spec.modelfiledir = str(path.parent)
        return spec
    raise first


def _tree(path: Path) -> etree._Element:
    """Return the root of a file without a DOCTYPE; elements of undeclared namespaces are kept."""
    if root_element(path) != "mujoco":
        raise DescriptionError(f"{path}: the root element is <{root_element(path)}>; expected <mujoco>")
    parser = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False, recover=True)
    return etree.fromstring(read_bytes(path), parser)


def _inline(root: etree._Element, folder: Path, depth: int) -> None:
    """Put the contents of included files in the place of <include>, as MuJoCo does."""
    for include in [node for node in root.iter("include") if node.get("file")]:
        parent, file = include.getparent(), folder / str(include.get("file"))
        if depth > 50:
            raise DescriptionError(f"{file}: files include each other in a ring")
        if parent is None:
            continue
        included = _tree(file)
        _inline(included, folder, depth + 1)
        position = parent.index(include)
        parent[position : position + 1] = list(included)


def _drop(top: etree._Element, error: ValueError, first: ValueError, notices: list[Notice]) -> None:
    """Drop the element or attribute that MuJoCo complains about."""
    match = _COMPLAINT.search(str(error))
    if match is None:
        raise error
    what, attribute, tag, line = match.groups()
    nodes = list(top.iter(tag))
    node = next((node for node in nodes if str(node.sourceline) == line), nodes[0] if nodes else None)
    parent = None if node is None else node.getparent()
    needed = difflib.get_close_matches(tag.lower(), _NEEDED, n=1, cutoff=0.75)
    if node is not None and parent is not None and what == "element" and not needed:
        parent.remove(node)
        notices.append(_unknown(tag))
    elif node is not None and attribute and attribute in node.attrib and tag not in _NEEDED:
        del node.attrib[attribute]
        notices.append(_unknown(tag, attribute))
    else:
        raise first


def _drop_foreign(top: etree._Element, notices: list[Notice]) -> None:
    """Drop elements and attributes of other namespaces, declared or not: leftovers of xacro, annotations of tools."""
    for node in [node for node in top.iter() if isinstance(node.tag, str)]:
        parent = node.getparent()
        if _is_foreign(str(node.tag)) and parent is not None:
            local = str(node.tag).rsplit("}", 1)[-1]
            notices.append(_unknown(f"{node.prefix}:{local}" if node.prefix else local))
            parent.remove(node)
            continue
        for key in [key for key in node.attrib if _is_foreign(str(key))]:
            del node.attrib[key]
    etree.cleanup_namespaces(top)


def _is_foreign(name: str) -> bool:
    return name.startswith("{") or ":" in name


def _unknown(tag: str, attribute: str = "") -> Notice:
    what = f"an attribute {attribute!r} of <{tag}>" if attribute else f"an element <{tag}>"
    return UNKNOWN_WORD(f"{what} that MJCF does not know is left out", element=tag, attribute=attribute)
