"""Parse a page of the report, and collect its elements and texts."""

import re
from html.parser import HTMLParser

from evalgate.core.sanitize import escape_invisible

ELEMENTS: dict[str, frozenset[str]] = {
    **dict.fromkeys(
        ("head", "body", "header", "footer", "h1", "h3", "h4", "h5", "i", "b", "style"), frozenset()
    ),
    **dict.fromkeys(("ul", "ol", "header", "legend", "caption", "table", "summary"), frozenset({"class"})),
    **dict.fromkeys(("thead", "tbody", "tr", "main"), frozenset()),
    "li": frozenset({"class", "id", "data-event"}),
    "script": frozenset(),
    "select": frozenset({"id"}),
    "option": frozenset({"value"}),
    "html": frozenset({"lang"}),
    "title": frozenset({"id"}),
    "p": frozenset({"class", "id", "role"}),
    "span": frozenset({"class", "id"}),
    "meta": frozenset({"charset", "http-equiv", "content", "name"}),
    "a": frozenset({"class", "href", "aria-current"}),
    "h2": frozenset({"id"}),
    "h4": frozenset(),
    "code": frozenset({"class"}),
    "b": frozenset({"class"}),
    "section": frozenset({"class", "id", "hidden", "aria-labelledby", "aria-label", "tabindex"}),
    "div": frozenset(
        {
            "class",
            "id",
            "role",
            "tabindex",
            "aria-label",
            "aria-labelledby",
            "hidden",
            "data-sort",
            "data-group",
        }
    ),
    "details": frozenset({"class", "open", "hidden", "data-sort", "data-group"}),
    "fieldset": frozenset({"class"}),
    "input": frozenset({"type", "name", "id", "checked", "placeholder", "autocomplete", "spellcheck"}),
    "label": frozenset({"for", "class"}),
    "th": frozenset({"scope", "class"}),
    "td": frozenset({"class", "data-label"}),
    "wbr": frozenset(),
    "svg": frozenset(
        {"class", "width", "height", "viewbox", "role", "aria-hidden", "aria-labelledby", "focusable"}
    ),
    "rect": frozenset({"x", "y", "width", "height", "rx"}),
    "path": frozenset({"class", "d"}),
    "g": frozenset({"class"}),
    "text": frozenset({"class", "x", "y", "text-anchor"}),
}
"""Every element that the page may contain, with the attributes that it may have."""

WORDS = re.compile(r"[\w -]*")
MARKS = re.compile(r"[0-9.,;e+ -]*")
_VOID = frozenset({"meta", "input", "wbr"})


class Page(HTMLParser):
    """Parsed page. An element or attribute that is not in `ELEMENTS` raises AssertionError."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.texts: list[str] = []
        """The text of each element, in the order of the end tags. The content of `<i>` belongs to its parent's text."""
        self.attributes: set[tuple[str, str, str]] = set()
        self.shape: list[str] = []
        """Start and end tags."""
        self._open: list[tuple[str, list[str]]] = [("", [])]
        self.feed(html)
        self.close()
        assert [tag for tag, _ in self._open] == [""], "elements that nothing closes"

    @property
    def text(self) -> str:
        """Return all text outside of the style sheet and the script, with one line for each element."""
        return "\n".join(self.texts)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in ELEMENTS, tag
        for name, value in attrs:
            assert name in ELEMENTS[tag], (tag, name)
            self.attributes.add((tag, name, value or ""))
        if tag == "i":
            return
        self.shape.append(tag)
        if tag not in _VOID:
            self._open.append((tag, []))

    def handle_endtag(self, tag: str) -> None:
        if tag == "i":
            return
        self.shape.append(f"/{tag}")
        opened, parts = self._open.pop()
        assert opened == tag, (opened, tag)
        if tag not in {"style", "script"}:
            self.texts.append("".join(parts))

    def handle_data(self, data: str) -> None:
        self._open[-1][1].append(data)

    def handle_comment(self, data: str) -> None:
        raise AssertionError(data)

    def handle_decl(self, decl: str) -> None:
        assert decl == "doctype html"

    def handle_pi(self, data: str) -> None:
        raise AssertionError(data)

    def unknown_decl(self, data: str) -> None:
        raise AssertionError(data)


def unseen_spelled_out(text: str) -> str:
    """Return a text with invisible characters escaped, except line ends and tabs."""
    return re.sub(r"[^\n\t]+", lambda found: escape_invisible(found[0]), text)
