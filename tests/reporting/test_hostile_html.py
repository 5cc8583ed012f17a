"""The text of the HTML page."""

from html.parser import HTMLParser

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from evalgate.core.sanitize import strip_invisible, to_html_text
from tests.reporting.html_pages import unseen_spelled_out

ANYTHING = st.text(st.characters(exclude_categories=()), max_size=80)


class _Texts(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.text = ""
        self.tags: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert not attrs
        self.tags.append(tag)

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain", "plain"),
        ("<b>&amp;\"'", "&lt;b&gt;&amp;amp;&quot;&#x27;"),
        ("a\tb\nc", "a\tb\nc"),
        ("\u202egnp.exe", "<i>\\u202e</i>gnp.exe"),
        ("a\u200b\u200bb", "a<i>\\u200b\\u200b</i>b"),
        ("\x1b[31mred\r\n", "<i>\\x1b</i>[31mred<i>\\r</i>\n"),
        ("\ud800\ufffe", "<i>\\ud800\\ufffe</i>"),
        ("ok\n ::set-output x::y", "ok\n :&#58;set-output x::y"),
        ("##[add-mask]x ##vso[a]", "#&#35;[add-mask]x #&#35;vso[a]"),
        ("Zoë 東京 😀", "Zoë 東京 😀"),
    ],
)
def test_text_of_an_element(text: str, expected: str) -> None:
    assert to_html_text(text) == expected


@settings(deadline=None)
@example("</script><i>&#x202e;\x00")
@given(ANYTHING)
def test_a_reader_sees_every_character(text: str) -> None:
    page = to_html_text(text)
    page.encode()
    found = _Texts()
    found.feed(page)
    found.close()
    assert set(found.tags) <= {"i"}
    assert found.text == unseen_spelled_out(text)
    assert strip_invisible(found.text) == found.text
