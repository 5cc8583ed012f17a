"""Whether a text is one well-formed XML document."""

import re
from collections.abc import Mapping
from xml.parsers import expat

_ILLEGAL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")
_TEXT_OUTSIDE = "xml content has non-whitespace text outside the root element"
_ELEMENT = re.compile(rb"<[^!?/\s]")


def xml_problem(text: str) -> str:
    """What is wrong with the document; "" when it is well-formed. Nothing outside it is ever read.

    A document that declares entities is refused: those of XML itself and characters by number are enough.
    """
    data = text.strip().encode("utf-8", "replace")
    if not data:
        return "xml content is empty"
    if text.startswith("\ufeff"):  # which expat takes for a mark of the encoding
        return _TEXT_OUTSIDE
    if illegal := _ILLEGAL.search(text):
        return f"XML syntax error: illegal character code U+{ord(illegal.group()):04X}"
    parser = expat.ParserCreate("utf-8")
    seen = _Seen()
    parser.XmlDeclHandler = seen.declaration
    parser.StartElementHandler = seen.element
    parser.EntityDeclHandler = seen.entity
    fault = ""
    try:
        parser.Parse(data, True)
    except expat.ExpatError as error:
        fault = _sentence(error, data, parser.ErrorByteIndex, has_root=seen.has_root)
    return seen.fault or fault


class _Seen:
    """What a document holds that expat reads and Go's `encoding/xml` does not."""

    def __init__(self) -> None:
        self.has_root = False
        self.fault = ""

    def declaration(self, version: str, encoding: str | None, _standalone: int) -> None:
        if version != "1.0":
            self.fault = f'unsupported version "{version}"; only version 1.0 is supported'
        elif encoding is not None and encoding.lower() != "utf-8":
            self.fault = f'the encoding "{encoding}" is declared, and a text is UTF-8'

    def element(self, name: str, attributes: Mapping[str, str]) -> None:
        self.has_root = True
        for each in (name, *attributes):
            if each.count(":") > 1:
                self.fault = self.fault or f"XML syntax error: the name {each} has two colons"

    def entity(self, name: str, *_: object) -> None:
        self.fault = self.fault or f"the XML declares the entity {name}"


def _sentence(error: expat.ExpatError, data: bytes, at: int, *, has_root: bool) -> str:
    if error.code == expat.errors.codes[expat.errors.XML_ERROR_JUNK_AFTER_DOC_ELEMENT]:
        if _ELEMENT.match(data, at):
            return "xml content must contain a single root element"
        return _TEXT_OUTSIDE
    if not data.startswith(b"<"):
        return _TEXT_OUTSIDE
    if not has_root and error.code == expat.errors.codes[expat.errors.XML_ERROR_NO_ELEMENTS]:
        return "xml content must contain a root element"
    return f"XML syntax error on line {error.lineno}: {expat.ErrorString(error.code) or 'not XML'}"
