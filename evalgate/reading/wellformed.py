"""Whether a text is one well-formed XML document."""

import re
from xml.parsers import expat

_ELEMENT = re.compile(rb"<[^!?/\s]")


def xml_problem(text: str) -> str:
    """What is wrong with the document; "" when it is well-formed. Nothing outside it is ever read.

    A document that declares entities is refused: those of XML itself and characters by number are enough.
    """
    data = text.strip().encode("utf-8", "replace")
    if not data:
        return "xml content is empty"
    parser = expat.ParserCreate("utf-8")
    elements, entities = list[str](), list[str]()
    parser.StartElementHandler = lambda name, _: elements.append(name)
    parser.EntityDeclHandler = lambda name, *_: entities.append(name)
    fault = ""
    try:
        parser.Parse(data, True)
    except expat.ExpatError as error:
        fault = _sentence(error, data, parser.ErrorByteIndex, has_root=bool(elements))
    return f"the XML declares the entity {entities[0]}" if entities else fault


def _sentence(error: expat.ExpatError, data: bytes, at: int, *, has_root: bool) -> str:
    if error.code == expat.errors.codes[expat.errors.XML_ERROR_JUNK_AFTER_DOC_ELEMENT]:
        if _ELEMENT.match(data, at):
            return "xml content must contain a single root element"
        return "xml content has non-whitespace text outside the root element"
    if not data.startswith(b"<"):
        return "xml content has non-whitespace text outside the root element"
    if not has_root and error.code == expat.errors.codes[expat.errors.XML_ERROR_NO_ELEMENTS]:
        return "xml content must contain a root element"
    return f"XML syntax error on line {error.lineno}: {expat.ErrorString(error.code) or 'not XML'}"
