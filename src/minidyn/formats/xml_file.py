"""Robot files in XML, read safely: entities are refused, nothing outside the file is opened, lines are known.

A robot file may come from anywhere. A file that declares a document type or an entity is refused before the
declaration is acted upon; the parser never opens another file or address.
"""

from __future__ import annotations

import codecs
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from xml.parsers import expat

from minidyn.errors import DescriptionError, near_names
from minidyn.files import read_bytes
from minidyn.model.geometry import Steps, steps_from_rpy
from minidyn.notices import Notice

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_XACRO = re.compile(r"\$[({]")
_DECLARED = re.compile(rb"""\s*<\?xml[^>]*?\sencoding\s*=\s*["']([\w.:-]+)""")
_PROLOG = re.compile(r"\ufeff?(?>\s+|<!--.*?-->|<\?.*?\?>)*+<(?:(?P<element>[\w:.-]+)|!DOCTYPE)", re.DOTALL)
_XACRO_PREFIX = re.compile(r"""xmlns:([\w.-]+)\s*=\s*["'][^"']*xacro""")
_ENDS_EARLY = expat.errors.codes[expat.errors.XML_ERROR_NO_ELEMENTS]
_DEEPEST = 256


def root_element(path: Path, text: str | None = None) -> str:
    """Return the name of the root element of a file that declares no DOCTYPE; "" where it is not XML.

    A DOCTYPE is the only place where an entity can be declared. Only what stands before the first element is read;
    nothing of it is acted upon. The text is given where it was read already.
    """
    text = decoded(path, errors="replace")[0] if text is None else text
    found = _PROLOG.match(text)
    if found and found["element"]:
        return found["element"]
    if found or "<!DOCTYPE" in text or "<!ENTITY" in text:  # more tolerant readers may get further than this one
        line = text.count("\n", 0, found.end()) + 1 if found else 1
        raise DescriptionError(
            f"{path}:{line}: the file declares a DOCTYPE; such files are refused because entities can be abused, "
            "remove the declaration"
        )
    return ""


def decoded(path: Path, errors: str = "strict") -> tuple[str, str]:
    """Return the text of an XML file, and the encoding in which it stands."""
    data = read_bytes(path)
    declared = _DECLARED.match(data)
    codec = declared[1].decode() if declared and not declared[1].lower().startswith(b"utf-16") else "utf-8"
    marks = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}
    codec = marks.get(data[:2], codec)
    try:
        return data.decode(codec, errors), codec
    except (UnicodeError, LookupError) as error:
        line = data.count(b"\n", 0, getattr(error, "start", 0)) + 1
        raise DescriptionError(f"{path}:{line}: not {codec} text ({error})") from None


def read_xml(path: Path, root: str, text: str | None = None) -> Element:
    """Return the root element of an XML file, which must have the name `root`; its text where it was read already."""
    text = decoded(path)[0] if text is None else text
    if not text.strip():
        raise DescriptionError(f"{path}:1: the file is empty; expected XML with a <{root}> element")
    root_element(path, text)
    parser = expat.ParserCreate()  # namespaces are not looked at: leftovers of xacro may lack their declaration
    top = Element(path, "", {}, 1, 0)
    stack = [top]
    xacro = {f"{prefix}:" for prefix in _XACRO_PREFIX.findall(text)}

    def begin(name: str, attributes: dict[str, str]) -> None:
        if len(stack) > _DEEPEST:
            raise DescriptionError(f"{path}:{parser.CurrentLineNumber}: not well-formed XML (nested too deeply)")
        if xacro and name.startswith(tuple(xacro)):
            name = "xacro:" + name.partition(":")[2]
        stack.append(Element(path, name, attributes, parser.CurrentLineNumber, parser.CurrentByteIndex))
        stack[-2].inner.append(stack[-1])

    def end(_: str) -> None:
        stack.pop().close = parser.CurrentByteIndex

    def words(part: str) -> None:
        stack[-1].words += part

    parser.StartElementHandler, parser.EndElementHandler, parser.CharacterDataHandler = begin, end, words
    parser.buffer_text = True
    try:
        parser.Parse(text, True)
    except expat.ExpatError as error:
        reason = "Premature end of the file" if error.code == _ENDS_EARLY else expat.ErrorString(error.code)
        raise DescriptionError(f"{path}:{error.lineno}: not well-formed XML ({reason})") from None
    element = top.inner[0]
    if element.tag != root:
        raise DescriptionError(f"{element.where}: the root element is <{element.tag}>; expected <{root}>")
    return element


@dataclass(eq=False, slots=True)
class Element:
    """An XML element that knows its file: every complaint about it names file, line, what was found and expected."""

    path: Path
    name: str  # as it stands in the file, with a prefix where it has one; that of xacro is always "xacro:"
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
        return (child for child in self.inner if tag is None or (child.tag == tag and not child.is_xacro))

    def child(self, tag: str) -> Element | None:
        """The first direct child of that name."""
        return next(self.children(tag), None)

    def text(self, attribute: str, default: str | None = None) -> str:
        """Return an attribute; refuse its absence without a default, and what xacro should have replaced."""
        value = self.attributes.get(attribute, default)
        if value is None:
            near = near_names(attribute, sorted(self.attributes))
            raise DescriptionError(f"{self.where}: <{self.tag}> lacks the attribute {attribute!r}{near}")
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
        """Return the number that a text of this element holds; `shown` is how a message quotes it."""
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
