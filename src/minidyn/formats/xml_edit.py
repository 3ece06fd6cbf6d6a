"""Writing XML: numbers and names in new files, and changes in an existing text that touch nothing else.

In an existing text comments, blanks, quotes, the order of attributes, line ends and the encoding stay byte for byte.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple
from xml.sax.saxutils import escape

import numpy as np
from lxml import etree
from numpy.typing import ArrayLike

from minidyn.errors import DescriptionError
from minidyn.files import read_bytes
from minidyn.formats.xml_file import Element, decoded, read_xml

_TAG = re.compile(rb"""<(?:[^"'>]|"[^"]*"|'[^']*')*>""")


def numbers_text(values: ArrayLike) -> str:
    """Return numbers so that reading them gives the same value."""
    found = np.asarray(values, dtype=float).tolist()
    return " ".join(str(int(x)) if x.is_integer() and abs(x) < 1e15 else repr(x) for x in found)


def path_from(path: Path, target: Path) -> str:
    """Return where a file stands as seen from the folder of another, for an attribute."""
    relative = os.path.relpath(target.resolve(), path.parent.resolve())
    return escape(Path(relative).as_posix(), {'"': "&quot;", "'": "&apos;"})


def element_text(tag: str, attributes: Mapping[str, str]) -> str:
    """Return an element without contents."""
    return f"<{tag}" + "".join(f' {key}="{value}"' for key, value in attributes.items()) + "/>"


def document(root: etree._Element) -> bytes:
    """Return the text of a new XML file."""
    etree.indent(root)
    return bytes(etree.tostring(root, xml_declaration=True, encoding="utf-8")) + b"\n"


@contextmanager
def refusing_names(robot: str) -> Iterator[None]:
    """Say which robot has a name that XML cannot hold; lxml refuses control characters."""
    try:
        yield
    except DescriptionError:
        raise
    except ValueError as error:
        raise DescriptionError(f"robot {robot!r}: a name cannot be written as XML ({error}); rename it") from None


class Edit(NamedTuple):
    """Replace what stands from `start` up to `stop` by `text`."""

    start: int
    stop: int
    text: str


class XmlText:
    """An XML file as text that can be edited in places."""

    def __init__(self, path: Path, root: str) -> None:
        text, self._codec = decoded(path)
        self.root = read_xml(path, root, text)
        self.data = text.encode()
        self.newline = "\r\n" if b"\r\n" in self.data else "\n"
        if text.encode(self._codec) != read_bytes(path):
            raise DescriptionError(f"{path}: cannot be edited as {self._codec} text (it does not survive decoding)")

    def stop(self, tag: Element) -> int:
        """Return where an opening tag ends."""
        found = _TAG.match(self.data, tag.start)
        return found.end() if found else tag.start

    def tag_text(self, tag: Element) -> str:
        """Return the opening tag as it stands."""
        return self.data[tag.start : self.stop(tag)].decode()

    def end(self, tag: Element) -> int:
        """Return where an element ends, its closing tag included."""
        return self.stop(tag) if self.tag_text(tag).endswith("/>") else self.data.index(b">", tag.close) + 1

    def indent(self, tag: Element) -> str:
        """Return the blanks before a tag that begins its line, "" for one that does not."""
        line = self.data[: tag.start].rsplit(b"\n", 1)[-1]
        return line.decode() if not line.strip() else ""

    def new_line(self, tag: Element) -> str:
        """Return what begins a line as a tag begins its own; "" for one that does not begin a line."""
        return self.newline + self.indent(tag) if self.indent(tag) else ""

    def every(self, tag: Element | None = None) -> Iterator[Element]:
        """All elements below one, the root where none is given."""
        for child in (tag or self.root).children():
            if not child.is_xacro:
                yield child
                yield from self.every(child)

    def moved(self, source: Path, path: Path, attribute: str, tags: Sequence[str]) -> Iterator[Edit]:
        """Yield the changes that let files beside the source, named by such tags, be found from another folder."""
        for tag in () if source.parent.resolve() == path.parent.resolve() else self.every():
            name = tag.attributes.get(attribute, "") if tag.tag in tags else ""
            if name and "://" not in name and not os.path.isabs(name) and (source.parent / name).is_file():
                yield self.changed(tag, {attribute: path_from(path, source.parent / name)})

    def changed(self, tag: Element, values: Mapping[str, str]) -> Edit:
        """Return the edit that gives an opening tag other values of some attributes."""
        return Edit(tag.start, self.stop(tag), with_attributes(self.tag_text(tag), values))

    def with_first_child(self, parent: Element, lines: Sequence[tuple[int, str]]) -> Edit:
        """Return the edit that puts lines, each with its depth, first in an element, indented as the file is."""
        outer, unit = self.indent(parent), self.indent(self.root.inner[0]) or "  "
        if parent.inner and self.indent(parent.inner[0]).startswith(outer):
            unit = self.indent(parent.inner[0])[len(outer) :] or unit
        body = "".join(f"{self.newline}{outer}{depth * unit}{text}" for depth, text in lines)
        opening, stop = self.tag_text(parent), self.stop(parent)
        if opening.endswith("/>"):
            ending = f"{self.newline}{outer}</{parent.name}>"
            return Edit(parent.start, stop, f"{opening[:-2].rstrip()}>{body}{ending}")
        inside = self.data[stop : parent.close]
        ending = self.newline + outer if not inside.strip() and b"\n" not in inside else ""
        return Edit(stop, stop, body + ending)

    def edited(self, edits: Iterable[Edit]) -> bytes:
        """Return the file's bytes with the edits made."""
        data = self.data
        for edit in sorted(edits, key=lambda edit: (edit.start, edit.stop), reverse=True):  # insertions come last
            data = data[: edit.start] + edit.text.encode() + data[edit.stop :]
        return data.decode().encode(self._codec)


def with_attributes(tag: str, values: Mapping[str, str]) -> str:
    """Return an opening tag with other values for some attributes; those it lacks are added at its end."""
    for name, value in values.items():
        pattern = re.compile(rf"""(\s{re.escape(name)}\s*=\s*)(["'])(?:(?!\2).)*\2""", re.DOTALL)
        match = pattern.search(tag)
        if match:
            tag = f"{tag[: match.start()]}{match[1]}{match[2]}{value}{match[2]}{tag[match.end() :]}"
        else:
            tag = re.sub(r"\s*(/?>)$", rf' {name}="{value}"\1', tag)
    return tag
