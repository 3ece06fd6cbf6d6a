"""Robot files in XML, read safely.

Entities are refused, nothing outside the file is opened, lines are known. A robot file may come
from anywhere. A file that declares a document type or an entity is refused before the declaration
is acted upon; the parser never opens another file or address.

Written are numbers and names in new files, and changes in an existing text that touch nothing else:
comments, blanks, quotes, the order of attributes, line ends and the encoding stay byte for byte.
"""

from __future__ import annotations

import codecs
import math
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple
from xml.parsers import expat
from xml.sax.saxutils import escape

import numpy as np
from lxml import etree
from numpy.typing import ArrayLike

from minidyn.errors import DescriptionError, near_names
from minidyn.files import read_bytes
from minidyn.model.geometry import Steps, steps_from_rpy
from minidyn.notices import Notice

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_XACRO = re.compile(r"\$[({]")
_DECLARED = re.compile(rb"""\s*<\?xml[^>]*?\sencoding\s*=\s*["']([\w.:-]+)""")
_XACRO_PREFIX = re.compile(r"""xmlns:([\w.-]+)\s*=\s*["'][^"']*xacro""")
_ENDS_EARLY = expat.errors.codes[expat.errors.XML_ERROR_NO_ELEMENTS]
_DEEPEST = 256


def root_element(path: Path, text: str | None = None) -> str:
    """Return the name of the root element of a file that declares no DOCTYPE.

    "" where it is not XML. A DOCTYPE is the only place where an entity can be declared. Only what
    stands before the first element is read; nothing of it is acted upon. The text is given where it
    was read already.
    """
    text = decoded(path, errors="replace")[0] if text is None else text
    parser, found = expat.ParserCreate(), [""]

    def begin(name: str, _: dict[str, str]) -> None:
        found[0] = name
        raise _Seen

    def doctype(*_: object) -> None:
        raise _Declared

    parser.StartElementHandler, parser.StartDoctypeDeclHandler = begin, doctype
    line = 1 + text.count("\n", 0, len(text) - len(text.lstrip()))
    try:
        parser.Parse(text.lstrip("\ufeff").lstrip(), True)
    except _Seen:
        return found[0]
    except _Declared:
        line += parser.CurrentLineNumber - 1
    except expat.ExpatError:
        # more tolerant readers may get further than this one
        if "<!DOCTYPE" not in text and "<!ENTITY" not in text:
            return ""
    raise DescriptionError(
        f"{path}:{line}: the file declares a DOCTYPE; such files are refused because entities can "
        "be abused, remove the declaration"
    )


class _Seen(Exception):
    """The first element has begun: enough was read."""


class _Declared(Exception):
    """A document type is declared."""


def decoded(path: Path, errors: str = "strict") -> tuple[str, str]:
    """Return the text of an XML file, and the encoding in which it stands."""
    data = read_bytes(path)
    declared = _DECLARED.match(data)
    codec = (
        declared[1].decode()
        if declared and not declared[1].lower().startswith(b"utf-16")
        else "utf-8"
    )
    marks = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}
    codec = marks.get(data[:2], codec)
    try:
        return data.decode(codec, errors), codec
    except (UnicodeError, LookupError) as error:
        line = data.count(b"\n", 0, getattr(error, "start", 0)) + 1
        raise DescriptionError(f"{path}:{line}: not {codec} text ({error})") from None


def scan(
    path: Path,
    text: str,
    begin: Callable[[str, dict[str, str], int], None],
    end: Callable[[str], None],
) -> None:
    """Call `begin` (name, attributes, line) and `end` (name) for each element of a text.

    Refuse what is not XML.
    """
    parser = (
        expat.ParserCreate()
    )  # namespaces are not looked at: leftovers of xacro may lack their declaration
    whole = text.lstrip("\ufeff").lstrip()
    before, depth = text.count("\n", 0, len(text) - len(whole)), [0]

    def opened(name: str, attributes: dict[str, str]) -> None:
        depth[0] += 1
        if depth[0] > _DEEPEST:
            line = before + parser.CurrentLineNumber
            raise DescriptionError(
                f"{path}:{line}: not well-formed XML (nested more than {_DEEPEST} deep)"
            )
        begin(name, attributes, before + parser.CurrentLineNumber)

    def closed(name: str) -> None:
        depth[0] -= 1
        end(name)

    parser.StartElementHandler, parser.EndElementHandler = opened, closed
    with _well_formed(path, before):
        parser.Parse(whole, True)


@contextmanager
def _well_formed(path: Path, before: int = 0) -> Iterator[None]:
    """Say where a text is not XML."""
    try:
        yield
    except expat.ExpatError as error:
        reason = (
            "Premature end of the file"
            if error.code == _ENDS_EARLY
            else expat.ErrorString(error.code)
        )
        raise DescriptionError(
            f"{path}:{before + error.lineno}: not well-formed XML ({reason})"
        ) from None


def read_xml(path: Path, root: str, text: str | None = None) -> Element:
    """Return the root element of an XML file, which must have the name `root`.

    Its text where it was read already.
    """
    text = decoded(path)[0] if text is None else text
    if not text.strip():
        raise DescriptionError(f"{path}:1: the file is empty; expected XML with a <{root}> element")
    root_element(path, text)
    parser = (
        expat.ParserCreate()
    )  # namespaces are not looked at: leftovers of xacro may lack their declaration
    top = Element(path, "", {}, 1, 0)
    stack = [top]
    xacro = {f"{prefix}:" for prefix in _XACRO_PREFIX.findall(text)}

    def begin(name: str, attributes: dict[str, str]) -> None:
        if len(stack) > _DEEPEST:
            raise DescriptionError(
                f"{path}:{parser.CurrentLineNumber}: not well-formed XML (nested too deeply)"
            )
        if xacro and name.startswith(tuple(xacro)):
            name = "xacro:" + name.partition(":")[2]
        stack.append(
            Element(path, name, attributes, parser.CurrentLineNumber, parser.CurrentByteIndex)
        )
        stack[-2].inner.append(stack[-1])

    def end(_: str) -> None:
        stack.pop().close = parser.CurrentByteIndex

    def words(part: str) -> None:
        stack[-1].words += part

    parser.StartElementHandler, parser.EndElementHandler, parser.CharacterDataHandler = (
        begin,
        end,
        words,
    )
    parser.buffer_text = True
    with _well_formed(path):
        parser.Parse(text, True)
    element = top.inner[0]
    if element.tag != root:
        raise DescriptionError(
            f"{element.where}: the root element is <{element.tag}>; expected <{root}>"
        )
    return element


@dataclass(eq=False, slots=True)
class Element:
    """An XML element that knows its file.

    Every complaint about it names file, line, what was found and expected.
    """

    path: Path
    # as it stands in the file, with a prefix where it has one; that of xacro is always "xacro:"
    name: str
    attributes: dict[str, str]
    line: int  # line of the opening tag
    start: int  # where its opening tag begins, in bytes of UTF-8
    close: int = 0  # where its closing tag begins
    words: str = ""
    inner: list[Element] = field(default_factory=list)

    @property
    def tag(self) -> str:
        """Name without prefix."""
        return self.name.rsplit(":", 1)[-1]

    @property
    def is_xacro(self) -> bool:
        """Whether it is a leftover of the macro language xacro."""
        return self.name.startswith("xacro:")

    @property
    def where(self) -> str:
        """File and line, for messages."""
        return f"{self.path}:{self.line}"

    def children(self, tag: str | None = None) -> Iterator[Element]:
        """Direct children in file order; those of one name where a name is given."""
        return (
            child
            for child in self.inner
            if tag is None or (child.tag == tag and not child.is_xacro)
        )

    def child(self, tag: str) -> Element | None:
        """The first direct child of that name."""
        return next(self.children(tag), None)

    def text(self, attribute: str, default: str | None = None) -> str:
        """Return an attribute.

        Refuse its absence without a default, and what xacro should have replaced.
        """
        value = self.attributes.get(attribute, default)
        if value is None:
            near = near_names(attribute, sorted(self.attributes))
            raise DescriptionError(
                f"{self.where}: <{self.tag}> lacks the attribute {attribute!r}{near}"
            )
        self._refuse_xacro(value, f"{attribute}={value!r}")
        return value

    def content(self) -> str:
        """Return the text between the opening and the closing tag, without blanks around it."""
        text = self.words.strip()
        self._refuse_xacro(text, repr(text))
        return text

    def number(self, attribute: str, default: float | None = None) -> float:
        """Return an attribute that is one finite number."""
        if default is not None and attribute not in self.attributes:
            return default
        text = self.text(attribute)
        return self.parse_number(text, f"{attribute}={text!r}")

    def vector(self, attribute: str, default: str | None = None) -> tuple[float, float, float]:
        """Return an attribute that is three finite numbers separated by blanks."""
        text = self.text(attribute, default)
        words = text.split()
        if len(words) != 3:
            shown = f"<{self.tag} {attribute}={text!r}>"
            raise DescriptionError(f"{self.where}: {shown} has {len(words)} numbers; expected 3")
        x, y, z = (self.parse_number(word, f"{attribute}={text!r}") for word in words)
        return x, y, z

    def parse_number(self, text: str, shown: str) -> float:
        """Return the number that a text of this element holds.

        `shown` is how a message quotes it.
        """
        place = f"{self.where}: <{self.tag} {shown}>"
        if not _NUMBER.fullmatch(text.strip()):
            raise DescriptionError(f"{place}: expected a finite number, got {text!r}")
        if math.isinf(float(text)):
            raise DescriptionError(f"{place}: {text!r} is too large")
        return float(text)

    def _refuse_xacro(self, text: str, shown: str) -> None:
        if _XACRO.search(text):
            raise DescriptionError(
                f"{self.where}: <{self.tag} {shown}> is an expression of xacro; "
                "run xacro on the file first and load what it writes"
            )


def origin_steps(element: Element, what: str, notices: list[Notice] | None = None) -> Steps:
    """Return the placement of an element's <origin>, as URDF gives it; none is the identity."""
    origin = element.child("origin")
    if origin is None:
        return ()
    xyz, rpy = origin.vector("xyz", "0 0 0"), origin.vector("rpy", "0 0 0")
    return steps_from_rpy(xyz, rpy, f"{origin.where}: {what}", notices)


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
        raise DescriptionError(
            f"robot {robot!r}: a name cannot be written as XML ({error}); rename it"
        ) from None


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
            raise DescriptionError(
                f"{path}: cannot be edited as {self._codec} text (it does not survive decoding)"
            )

    def stop(self, tag: Element) -> int:
        """Return where an opening tag ends."""
        found = _TAG.match(self.data, tag.start)
        return found.end() if found else tag.start

    def tag_text(self, tag: Element) -> str:
        """Return the opening tag as it stands."""
        return self.data[tag.start : self.stop(tag)].decode()

    def end(self, tag: Element) -> int:
        """Return where an element ends, its closing tag included."""
        return (
            self.stop(tag)
            if self.tag_text(tag).endswith("/>")
            else self.data.index(b">", tag.close) + 1
        )

    def indent(self, tag: Element) -> str:
        """Return the blanks before a tag that begins its line, "" for one that does not."""
        line = self.data[: tag.start].rsplit(b"\n", 1)[-1]
        return line.decode() if not line.strip() else ""

    def new_line(self, tag: Element) -> str:
        """Return what begins a line as a tag begins its own.

        "" for one that does not begin a line.
        """
        return self.newline + self.indent(tag) if self.indent(tag) else ""

    def every(self, tag: Element | None = None) -> Iterator[Element]:
        """All elements below one, the root where none is given."""
        for child in (tag or self.root).children():
            if not child.is_xacro:
                yield child
                yield from self.every(child)

    def moved(
        self, source: Path, path: Path, attribute: str, tags: Sequence[str]
    ) -> Iterator[Edit]:
        """Yield the changes that let files beside the source, named by such tags, be found from
        another folder.
        """
        for tag in () if source.parent.resolve() == path.parent.resolve() else self.every():
            name = tag.attributes.get(attribute, "") if tag.tag in tags else ""
            if (
                name
                and "://" not in name
                and not os.path.isabs(name)
                and (source.parent / name).is_file()
            ):
                yield self.changed(tag, {attribute: path_from(path, source.parent / name)})

    def changed(self, tag: Element, values: Mapping[str, str]) -> Edit:
        """Return the edit that gives an opening tag other values of some attributes."""
        return Edit(tag.start, self.stop(tag), with_attributes(self.tag_text(tag), values))

    def with_first_child(self, parent: Element, lines: Sequence[tuple[int, str]]) -> Edit:
        """Return the edit that puts lines.

        Each with its depth, first in an element, indented as the file is.
        """
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
        for edit in sorted(
            edits, key=lambda edit: (edit.start, edit.stop), reverse=True
        ):  # insertions come last
            data = data[: edit.start] + edit.text.encode() + data[edit.stop :]
        return data.decode().encode(self._codec)


def with_attributes(tag: str, values: Mapping[str, str]) -> str:
    """Return an opening tag with other values for some attributes.

    Those it lacks are added at its end.
    """
    for name, value in values.items():
        pattern = re.compile(rf"""(\s{re.escape(name)}\s*=\s*)(["'])(?:(?!\2).)*\2""", re.DOTALL)
        match = pattern.search(tag)
        if match:
            tag = f"{tag[: match.start()]}{match[1]}{match[2]}{value}{match[2]}{tag[match.end() :]}"
        else:
            tag = re.sub(r"\s*(/?>)$", rf' {name}="{value}"\1', tag)
    return tag
