"""Robot files in XML, read safely: entities are refused, nothing outside the file is opened, lines are known.

A robot file may come from anywhere. A file that declares a document type or an entity is refused before the
declaration is acted upon; the parser never resolves entities and never opens another file or address.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.parsers import expat

from lxml import etree

from minidyn.errors import DescriptionError, near_names

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_XACRO = re.compile(r"\$[({]")
_FORGIVEN = "NS_ERR_UNDEFINED_NAMESPACE"  # leftovers such as <xacro:property> without the declaration of "xacro"


def read_bytes(path: Path) -> bytes:
    """Return the file's bytes, or say which file could not be read and why."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise DescriptionError(f"{path}: cannot be read ({error.strerror or error})") from None


def refuse_doctype(data: bytes, where: str) -> str:
    """Return the name of the root element of a text that declares no DOCTYPE; "" where it is not XML.

    A DOCTYPE is the only place where an entity can be declared. Only what stands before the first element is read;
    nothing of it is acted upon.

    Raises:
        DescriptionError: The text declares a DOCTYPE.
    """

    class Started(Exception):  # a way out of the parser
        pass

    root = ""

    def refuse(line: int) -> DescriptionError:
        return DescriptionError(
            f"{where}:{line}: the file declares a DOCTYPE; such files are refused because entities can be abused, "
            "remove the declaration"
        )

    def doctype(*_: object) -> None:
        raise refuse(parser.CurrentLineNumber)

    def started(name: str, _: object) -> None:
        nonlocal root
        root = name
        raise Started

    parser = expat.ParserCreate()
    parser.StartDoctypeDeclHandler = doctype
    parser.StartElementHandler = started
    try:
        parser.Parse(data, True)
    except Started:
        return root
    except DescriptionError:
        raise
    except (expat.ExpatError, LookupError, ValueError):
        # more tolerant readers may get further than this one
        if b"<!DOCTYPE" in data or b"<!ENTITY" in data:
            raise refuse(1) from None
    return ""


def read_xml(path: Path, root: str, data: bytes | None = None) -> Element:
    """Return the root element of an XML file.

    Args:
        path: The file.
        root: The name the root element must have.
        data: The file's bytes where they were read already.

    Raises:
        DescriptionError: Not readable, empty, not XML, truncated, a DOCTYPE or entity, another root element.
    """
    if data is None:
        data = read_bytes(path)
    if not data.strip():
        raise DescriptionError(f"{path}:1: the file is empty; expected XML with a <{root}> element")
    refuse_doctype(data, str(path))
    # recovering keeps elements of undeclared namespaces; every other complaint of the parser is still an error
    parser = etree.XMLParser(
        resolve_entities=False, no_network=True, load_dtd=False, dtd_validation=False, huge_tree=False, recover=True
    )
    top: etree._Element | None
    try:
        top = etree.fromstring(data, parser)
    except (etree.XMLSyntaxError, ValueError, LookupError) as error:
        line = getattr(error, "lineno", None) or 1
        raise DescriptionError(f"{path}:{line}: not an XML file ({_first_line(error)})") from None
    for complaint in parser.error_log:
        if complaint.type_name != _FORGIVEN:
            raise DescriptionError(f"{path}:{complaint.line}: not well-formed XML ({complaint.message.strip()})")
    if top is None:
        raise DescriptionError(f"{path}:1: not an XML file; expected a <{root}> element")
    about: Any = top.getroottree().docinfo
    if about.doctype:
        raise DescriptionError(f"{path}:1: the file declares a DOCTYPE; such files are refused, remove the declaration")
    element = Element(path, top)
    if element.tag != root:
        raise DescriptionError(f"{element.where}: the root element is <{element.tag}>; expected <{root}>")
    return element


@dataclass(frozen=True)
class Element:
    """An XML element that knows its file: every complaint about it names file, line, what was found and expected."""

    path: Path
    node: etree._Element

    @property
    def tag(self) -> str:
        """Name without namespace."""
        return _local(str(self.node.tag))

    @property
    def is_xacro(self) -> bool:
        """Whether it is a leftover of the macro language xacro."""
        tag = str(self.node.tag)
        return tag.startswith("xacro:") or ("}" in tag and "xacro" in tag.split("}")[0])

    @property
    def line(self) -> int:
        """Line of the opening tag."""
        return _line(self.node)

    @property
    def where(self) -> str:
        """File and line, for messages."""
        return f"{self.path}:{self.line}"

    def children(self, tag: str | None = None) -> Iterator[Element]:
        """Direct children in file order; those of one name where a name is given."""
        for node in self.node:
            if isinstance(node.tag, str):  # comments and processing instructions have a function there
                child = Element(self.path, node)
                if tag is None or (child.tag == tag and not child.is_xacro):
                    yield child

    def child(self, tag: str) -> Element | None:
        """The first direct child of that name."""
        return next(self.children(tag), None)

    def has(self, attribute: str) -> bool:
        """Whether the attribute is given."""
        return attribute in self.node.attrib

    def text(self, attribute: str, default: str | None = None) -> str:
        """Return an attribute.

        Raises:
            DescriptionError: Absent without a default, or an expression that xacro should have replaced.
        """
        value = self.node.get(attribute)
        if value is None:
            if default is not None:
                return default
            given = sorted(str(name) for name in self.node.attrib)
            raise DescriptionError(
                f"{self.where}: <{self.tag}> lacks the attribute {attribute!r}{near_names(attribute, given)}"
            )
        text = str(value)
        self._refuse_xacro(text, f"{attribute}={text!r}")
        return text

    def content(self) -> str:
        """Return the text between the opening and the closing tag, without blanks around it."""
        text = (self.node.text or "").strip()
        self._refuse_xacro(text, repr(text))
        return text

    def number(self, attribute: str, default: float | None = None) -> float:
        """Return an attribute that is one finite number."""
        if default is not None and not self.has(attribute):
            return default
        text = self.text(attribute)
        return self.parse_number(text, f"{attribute}={text!r}")

    def vector(self, attribute: str, default: Sequence[float] | None = None) -> tuple[float, float, float]:
        """Return an attribute that is three finite numbers separated by blanks."""
        if default is not None and not self.has(attribute):
            x, y, z = default
            return x, y, z
        text = self.text(attribute)
        words = text.split()
        if len(words) != 3:
            raise DescriptionError(
                f"{self.where}: <{self.tag} {attribute}={text!r}> has {len(words)} numbers; expected 3"
            )
        x, y, z = (self.parse_number(word, f"{attribute}={text!r}") for word in words)
        return x, y, z

    def parse_number(self, text: str, shown: str) -> float:
        """Return the number that a text of this element holds; `shown` is how a message quotes it."""
        if not _NUMBER.fullmatch(text.strip()):
            raise DescriptionError(f"{self.where}: <{self.tag} {shown}>: expected a finite number, got {text!r}")
        value = float(text)
        if value in (float("inf"), float("-inf")):
            raise DescriptionError(f"{self.where}: <{self.tag} {shown}>: {text!r} is too large")
        return value

    def _refuse_xacro(self, text: str, shown: str) -> None:
        if _XACRO.search(text):
            raise DescriptionError(
                f"{self.where}: <{self.tag} {shown}> is an expression of xacro; "
                "run xacro on the file first and load what it writes"
            )


def _line(node: Any) -> int:
    return int(node.sourceline or 0)


def _local(tag: str) -> str:
    return tag.rsplit("}", 1)[-1]


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or ["no reason given"])[0]
