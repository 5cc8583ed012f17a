import json
import re
import sys
import unicodedata
from collections.abc import Callable

import cmarkgfm
import pytest
from cmarkgfm.cmark import Options
from hypothesis import example, given
from hypothesis import strategies as st
from lxml import etree
from markdown_it import MarkdownIt
from markdown_it.token import Token

from evalgate.core.sanitize import (
    disable_commands,
    escape_invisible,
    keep_last_lines,
    replace_lone_surrogates,
    shorten_text,
    strip_invisible,
    to_file_name,
    to_html_code,
    to_log_json,
    to_log_line,
    to_md_code,
    to_md_fence,
    to_md_text,
    to_one_line,
    to_xml_text,
    truncate_block,
    truncate_start,
)
from tests.gitlab.quickactions import NAMES, quick_actions

ANYTHING = st.text(st.characters(exclude_categories=())) | st.text("`|\\*_[]()<>!-@#:/ \n\t~$&;1.=+xw")
MARKDOWN = MarkdownIt("commonmark", {"html": True, "linkify": False}).enable(["table", "strikethrough"])


def tokens_of(markdown: str) -> list[Token]:
    """Every token, those inside paragraphs included, flat."""
    found: list[Token] = []
    for token in MARKDOWN.parse(markdown):
        found += [token, *(token.children or [])]
    return found


def kinds(markdown: str) -> list[str]:
    return [token.type for token in tokens_of(markdown)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain", "plain"),
        ("é日🙂", "é日🙂"),
        ("a\ud800b\udc00", "a\ufffdb\ufffd"),
        ("\ud83d\ude42", "🙂"),
        ("\udc00\ud800", "\ufffd\ufffd"),
    ],
)
def test_only_lone_surrogates_are_replaced(text: str, expected: str) -> None:
    assert replace_lone_surrogates(text) == expected


@given(ANYTHING)
def test_text_without_lone_surrogates_can_be_encoded(text: str) -> None:
    assert len(replace_lone_surrogates(text).encode().decode()) <= len(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain", "plain"),
        ("a\tb\nc", "a\tb\nc"),
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]8;;https://evil\x07link\x1b]8;;\x07", "link"),
        ("\x1b]0;title\x1b\\x", "x"),
        ("\x9b31mred", "red"),
        ("a\r\nb\rc\x85d\u2028e", "a\nb\nc\nd\ne"),
        ("left\u202eright\u2066x\u200by\ufeff", "leftrightxy"),
        ("soft\u00adhyphen\U000e0041", "softhyphen"),
        ("\x00\x07\x7f\x9f", ""),
        ("lone \ud800 \ufffe \U0001ffff", "lone \ufffd \ufffd \ufffd"),
        ("日本語 🙂 é", "日本語 🙂 é"),
    ],
)
def test_visible(text: str, expected: str) -> None:
    assert strip_invisible(text) == expected


def test_every_character_that_python_prints_is_searched_for_invisible_ones() -> None:
    printed = [chr(code) for code in range(sys.maxunicode + 1) if chr(code).isprintable()]

    # The control character is removed, which asks for the full search of the whole text.
    assert "".join(map(strip_invisible, printed)) == strip_invisible("\0" + "".join(printed))


@given(ANYTHING)
def test_visible_text_is_encodable_and_holds_nothing_hidden(text: str) -> None:
    seen = strip_invisible(text)
    seen.encode()
    assert not [
        character
        for character in seen
        if unicodedata.bidirectional(character) in {"LRO", "RLO", "LRI", "RLI"}
    ]
    assert all(character in "\t\n" or unicodedata.category(character) != "Cc" for character in seen)
    assert strip_invisible(seen) == seen


@given(ANYTHING)
def test_spelled_out_is_one_visible_line(text: str) -> None:
    line = escape_invisible(text)
    assert "\n" not in line
    assert strip_invisible(line) == line


@pytest.mark.parametrize(
    "text", ["\x90", "\x1b]", "\x1b[", "\x1b", "\x1b ", "\n", "\n ", " ", "::", "`", "@", "_"]
)
@pytest.mark.parametrize(
    "sink", [strip_invisible, escape_invisible, disable_commands, to_xml_text, to_md_fence]
)
def test_a_long_text_takes_no_longer_than_its_length(sink: Callable[[str], str], text: str) -> None:
    # With time that grows by the square of the length, this would not end today.
    assert len(sink(text * 300_000)) < 7_000_000


def test_long_texts_with_the_same_beginning_get_different_names_of_files() -> None:
    names = {to_file_name(f"{'退' * 70}_{time}", 100) for time in ("1.5", "2.5")}
    assert len(names) == 2
    assert {len(name.encode()) <= 100 for name in names} == {True}
    assert {to_file_name(name, 100) for name in names} == names
    assert to_file_name("../a:b") == "_a_b"


def test_spelled_out_tells_apart_what_looks_the_same() -> None:
    assert escape_invisible("a\u200bb\n") == r"a\u200bb\n"


@given(ANYTHING, st.integers(2, 50))
def test_one_line_is_one_short_line(text: str, limit: int) -> None:
    line = to_one_line(text, limit)
    assert len(line) <= limit
    assert "\n" not in line


@pytest.mark.parametrize(("limit", "expected"), [(3, "abc"), (2, "a…"), (1, "…")])
def test_shortened(limit: int, expected: str) -> None:
    assert shorten_text("abc", limit) == expected


@pytest.mark.parametrize(
    ("text", "limit", "expected"),
    [
        ("short", 5, "short"),
        ("one secret-4711 two", 12, "… two"),
        ("one\ntwo three", 6, "… three"),
        ("one\ntwo three", 4, "…"),
        ("word " * 4, 10, "… word "),
        ("x" * 2000, 1000, "…" + "x" * 488),
        ("", 5, ""),
    ],
)
def test_the_end_begins_with_no_half_of_a_word(text: str, limit: int, expected: str) -> None:
    assert truncate_start(text, limit) == expected


def test_block_keeps_the_start_and_says_what_is_gone() -> None:
    assert truncate_block("a\nb\nc", lines=2) == "a\nb\n… 2 more characters"
    assert truncate_block("x" * 10, limit=4) == "xxxx\n… 6 more characters"
    assert truncate_block("short") == "short"


def test_last_lines_keep_the_end() -> None:
    lines = "\n".join("x" * 30)
    assert keep_last_lines(f"a\n{lines}") == f"… 2 characters before\n{lines}"
    assert keep_last_lines("short") == "short"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("::error::x", ": :error::x"),
        ("  ::error::x", ": :error::x"),
        ("say ##[group]x and ##VSO[task]", "say # #[group]x and # #VSO[task]"),
        ("two\nlines", "two lines"),
    ],
)
def test_log_line(text: str, expected: str) -> None:
    assert to_log_line(text) == expected


JSON_VALUES = st.recursive(
    st.none() | st.text(st.characters(codec="utf-8")) | st.text(':#[]\\/"vso set-output\n\u2028'),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(':#[a\\"'), inner),
    max_leaves=8,
)


@given(JSON_VALUES, st.sampled_from([None, 2]))
def test_json_in_a_log_has_the_same_values_and_nothing_to_obey(value: object, indent: int | None) -> None:
    shown_as = to_log_json(json.dumps(value, ensure_ascii=False, indent=indent))
    assert json.loads(shown_as) == value
    assert disable_commands(shown_as) == shown_as
    assert strip_invisible(shown_as) == shown_as
    assert "::" not in shown_as


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"a": "::set-output name=x::y"}', '{"a": ":\\u003aset-output name=x:\\u003ay"}'),
        (
            '["##vso[task.complete]", "###[group]"]',
            '["#\\u0023vso[task.complete]", "#\\u0023\\u0023[group]"]',
        ),
        ('"\\\\::"', '"\\\\:\\u003a"'),
        ('"\x7f\u202e\U000e0041\ud800"', '"\\u007f\\u202e\\udb40\\udc41\\ud800"'),
        ('{\n  "日本語": "🙂 # :"\n}', '{\n  "日本語": "🙂 # :"\n}'),
    ],
)
def test_json_in_a_log(text: str, expected: str) -> None:
    assert to_log_json(text) == expected


@given(ANYTHING)
def test_xml_text_is_well_formed(text: str) -> None:
    element = etree.Element("text")
    element.text = to_xml_text(text)
    element.set("attribute", to_xml_text(text))
    again = etree.fromstring(etree.tostring(element))
    assert (again.text or "") == to_xml_text(text)


def test_gitlab_sees_no_attachment() -> None:
    assert to_xml_text("[[ATTACHMENT|/etc/passwd]]") == "[ [ATTACHMENT|/etc/passwd]]"


@given(ANYTHING)
def test_a_code_span_is_all_there_is(text: str) -> None:
    (paragraph,) = [token for token in MARKDOWN.parse(f"- {to_md_code(text)} end") if token.type == "inline"]
    assert [token.type for token in paragraph.children or []] == ["code_inline", "text"]


@given(ANYTHING)
def test_a_code_span_stays_in_its_cell(text: str) -> None:
    found = tokens_of(f"| a | b |\n|---|---|\n| {to_md_code(text)} | last |\n")
    assert [token.type for token in found].count("td_open") == 2
    assert [token.content for token in found if token.type == "inline"][-1] == "last"


@given(ANYTHING)
def test_prose_in_a_cell_stays_there(text: str) -> None:
    found = tokens_of(f"| a | b |\n|---|---|\n| {to_md_text(text)} | last |\n")
    assert [token.type for token in found].count("td_open") == 2


BACKTICKS = st.integers(1, 700).map("`".__mul__)
LURES = [
    "![x](https://evil.example/x)", "[l](https://evil.example)", "www.evil.example", "https://evil.example",
    "a@evil.example", "*em*", "**b**", "~~s~~", "<img src=x>", "</code></pre>", "<script>", "\n# heading\n",
    "\n---\n", "\n- item\n", "\n> quote\n", "\n| a |\n|---|\n", "\n\n", "|", "\\", "~~~~", "- [ ] task", "[^1]", "\n[^1]: note\n",
]  # fmt: skip
MARKUP = st.lists(BACKTICKS | st.sampled_from(LURES) | st.sampled_from(" _*~(.:x"), max_size=12).map("".join)


def github_tags(markdown: str) -> list[str]:
    """The tags of the page that GitHub's own parser makes, raw HTML as it is."""
    return re.findall(
        r"<(/?\w+)", cmarkgfm.github_flavored_markdown_to_html(markdown, Options.CMARK_OPT_UNSAFE)
    )


@example("x" + "`" * 255 + " ![x](https://evil.example/x)")
@example("`" * 300 + "\n![y](https://evil.example)")
@given(MARKUP | ANYTHING)
def test_github_ends_no_code_where_text_asks_for_it(text: str) -> None:
    assert github_tags(f"- {to_md_code(text, 2000)} end") == ["ul", "li", "code", "/code", "/li", "/ul"]
    fenced = ["pre", "code", "/code", "/pre", "p", "/p"]
    assert github_tags(f"{to_md_fence(text, 'diff')}\n\nend") == fenced


@example("_www.evil.example")
@example("(*www.evil.example")
@example("x_mailto:a@evil.example")
@given(MARKUP | ANYTHING)
def test_github_makes_nothing_of_prose(text: str) -> None:
    assert set(github_tags(f"- {to_md_text(text, 2000)} end")) <= {
        "ul",
        "li",
        "/li",
        "/ul",
        "p",
        "/p",
        "span",
        "/span",
    }


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (":tada:", ":|tada:"),
        ("a :+1: b", "a :|+1: b"),
        (":100:", ":|100:"),
        ("deadbeef", "dea|dbeef"),
        ("(0123456789ABCDEF0123456789abcdef01234567)", "(012|3456789ABCDEF0123456789abcdef01234567)"),
        ("1234567a,", "123|4567a,"),
    ],
)
def test_github_shows_no_emoji_and_links_no_commit_in_prose(text: str, expected: str) -> None:
    assert to_md_text(text) == expected.replace("|", "\u200b")


PROSE = {"paragraph_open", "paragraph_close", "inline", "text", "text_special", "html_inline"}
PROSE |= {"bullet_list_open", "list_item_open", "list_item_close", "bullet_list_close"}


@given(ANYTHING)
def test_prose_is_only_prose(text: str) -> None:
    found = tokens_of(f"- {to_md_text(text)}")
    assert {token.type for token in found} <= PROSE
    assert {token.content for token in found if token.type == "html_inline"} <= {"<span>", "</span>"}


@given(ANYTHING)
def test_prose_mentions_and_links_nobody(text: str) -> None:
    read = "".join(
        token.content for token in tokens_of(f"- {to_md_text(text)}") if token.type.startswith("text")
    )
    assert not re.search(r"[@#](?!\u200b)|://|www\.", read, re.IGNORECASE)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("snake_case stays", "snake_case stays"),
        ("1. item", "1\\. item"),
        ("0.80 is a number", "0.80 is a number"),
        ("- item", "\\- item"),
        ("<b>&", "&lt;b&gt;&amp;"),
        ("a | b", "a &#124; b"),
        ("costs $5", "costs <span>$</span>5"),
    ],
)
def test_md_text(text: str, expected: str) -> None:
    assert to_md_text(text) == expected


@given(ANYTHING)
def test_nothing_escapes_its_fence(text: str) -> None:
    found = MARKDOWN.parse(f"{to_md_fence(text, 'diff')}\n\nend")
    assert [token.type for token in found] == ["fence", "paragraph_open", "inline", "paragraph_close"]
    assert found[0].info == "diff"


@given(ANYTHING)
def test_html_code_is_one_element_with_text_alone(text: str) -> None:
    element = etree.fromstring(to_html_code(text).encode())
    assert (element.tag, len(element)) == ("code", 0)


@given(ANYTHING)
def test_nobody_can_forge_a_marker(text: str) -> None:
    for sink in (to_md_code, to_md_text, to_md_fence, to_html_code):
        assert "<!-" not in sink(f"<!-- evalgate:v1 -->{text}<!--")


ORDERS = st.lists(
    st.sampled_from(
        ["`", "```", "````", ">>>", "<p>", "</p>", "\n", " ", "\r", "\u200b", "\x1b[0m", "x", "@bot "]
    )
    | st.sampled_from([f"/{name}" for name in NAMES]),
    max_size=16,
).map("".join)


@example("```\n/close")
@example("/merge")
@example("\u200b/merge\n \t/close")
@given(ORDERS)
def test_no_line_is_an_order_to_the_service_that_shows_it(text: str) -> None:
    document = "\n\n".join(
        [
            to_md_text(text),
            to_md_fence(text, "text"),
            f"- {to_md_code(text)}",
            to_md_fence(text),
            to_html_code(text),
        ]
    )
    assert quick_actions(document) == []
    assert not re.search(r"(?m)^[ \t]*(/[A-Za-z]|@bot)", document)


@pytest.mark.parametrize(
    "text",
    [
        "!1",
        "a/b!12",
        "~bug",
        '~"two words"',
        "~5",
        "%1.0",
        '%"two words"',
        "&12",
        "$7",
        "[vulnerability:3]",
        "*iteration:4",
        "[[home]]",
        "^alert#3",
        "AB#12",
        "PROJ-12",
        "GH-7",
        "gh-7",
        "@all",
    ],
)
def test_prose_refers_to_nothing_in_gitlab_or_jira(text: str) -> None:
    (paragraph,) = [
        token for token in MARKDOWN.parse(f"see {to_md_text(text)} now") if token.type == "inline"
    ]
    # what a service looks through once Markdown is done: the texts between the tags
    pieces = [token.content if token.type.startswith("text") else "\0" for token in paragraph.children or []]
    shown = "".join(pieces)
    assert text not in shown
    assert shown.replace("\u200b", "").replace("\0", "") == f"see {text} now"


@pytest.mark.parametrize(
    "text",
    [
        "a - b",
        "50 % of",
        "2026-11-21",
        "a & b",
        "wow! 3",
        "x ~ y",
        "claude-3",
        "a/b",
        "12:30:45",
        "1234567 ms",
        "decade",
        "a:b.py:c",
    ],
)
def test_ordinary_prose_gets_nothing_invisible(text: str) -> None:
    assert "\u200b" not in to_md_text(text)


def test_teamcity_and_azure_get_no_orders_from_a_log() -> None:
    assert (
        to_log_line("x ##teamcity[buildStop] ##vso[task.complete]")
        == "x # #teamcity[buildStop] # #vso[task.complete]"
    )


@given(st.from_regex(r"[\w.,/-]*", fullmatch=True).filter(str.isascii))
def test_plain_names_stay_as_they_are(text: str) -> None:
    assert (
        to_xml_text(text)
        == to_one_line(text, 1000)
        == strip_invisible(text)
        == disable_commands(text)
        == text
    )


@pytest.mark.parametrize("text", ["a\n", "\n", "a b  c", "\u0661", "[[ATTACHMENT|x]]", "::x::", "##[x]"])
def test_what_is_not_plain_is_looked_at(text: str) -> None:
    assert to_xml_text(f"{text} !") == f"{to_xml_text(text)} !"
