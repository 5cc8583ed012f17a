"""The text of a comment that several jobs share."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalgate.ci.comment_sections import (
    LONGEST_COMMENT,
    CommentSection,
    format_marker,
    is_of_gate,
    merge_sections,
    read_sections,
    render_body,
    shorten_markdown,
    strip_markers,
)


def test_a_comment_in_full() -> None:
    sections = [
        CommentSection("linux / 3.13", "Fine.", 9, 2, "a-->b"),
        CommentSection("a", "| x |\n|---|", 8, 1),
    ]
    assert render_body("my gate", sections) == (
        "<!-- evalgate:v1 gate=my%20gate -->\n\n"
        "<sub>Of an earlier run:</sub>\n\n"
        "<!-- evalgate:section key=a run=8 attempt=1 -->\n\n| x |\n|---|\n\n<!-- evalgate:end -->\n\n"
        "<!-- evalgate:section key=linux%20%2F%203.13 run=9 attempt=2 job=a--%3Eb -->\n\nFine.\n\n<!-- evalgate:end -->"
    )


KEYS = st.text(max_size=12)
TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\r"), max_size=60).map(strip_markers)
SECTIONS = st.dictionaries(
    KEYS, st.tuples(TEXTS, st.integers(0, 10**15), st.integers(0, 99), KEYS), max_size=6
).map(lambda found: [CommentSection(key, *rest) for key, rest in found.items()])


@given(KEYS, SECTIONS)
def test_written_sections_are_read_again_unchanged(gate: str, sections: list[CommentSection]) -> None:
    body = render_body(gate, sections)
    assert is_of_gate(body, gate)
    assert read_sections(body) == {section.key: section for section in sections}
    assert render_body(gate, read_sections(body).values()) == body
    assert read_sections(body.replace("\n", "\r\n")) == read_sections(body)  # a browser's editor


@pytest.mark.parametrize(
    ("body", "gate", "ours"),
    [
        (f"{format_marker('a')}\nx", "a", True),
        (f"\r\n {format_marker('a')}\r\nx", "a", True),
        (f"see {format_marker('a')}", "a", False),
        (f"> {format_marker('a')}", "a", False),
        (format_marker("ab"), "a", False),
        (format_marker("a b"), "a b", True),
        (format_marker("a --> b"), "a --> b", True),
        ("", "a", False),
    ],
)
def test_a_comment_of_a_gate_begins_with_its_marker(body: str, gate: str, *, ours: bool) -> None:
    assert is_of_gate(body, gate) is ours


PIECES = st.lists(
    st.sampled_from(
        [
            "<!-- evalgate:end -->",
            "<!-- evalgate:section key=b run=99 attempt=1 -->",
            "<!-- evalgate:v1 gate=g -->",
            "<!--",
            "<!--\nevalgate:",
            "evalgate:",
            "-->",
            " ",
            "\n",
            "x",
            ">",
        ]
    ),
    max_size=12,
).map("".join)


@given(PIECES)
def test_no_text_forges_a_section(text: str) -> None:
    body = render_body(
        "g", [CommentSection("a", strip_markers(text), 1, 1), CommentSection("c", "kept", 1, 1)]
    )
    sections = read_sections(body)
    assert list(sections) == ["a", "c"]
    assert sections["c"].text == "kept"
    assert strip_markers(strip_markers(text)) == strip_markers(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<!-- evalgate:v1 key=x -->\n# Title\n", "# Title"),
        ("a <!-- other --> b", "a <!-- other --> b"),
        ("<!-- evalgate:\nx", "<! -- evalgate:\nx"),
        ("<!-- eval<!-- evalgate:x -->gate:end -->", "<! -- evalgate:end -->"),
    ],
)
def test_markers_in_a_text_are_removed(text: str, expected: str) -> None:
    assert strip_markers(text) == expected


def test_an_incomplete_section_is_not_read() -> None:
    body = render_body("g", [CommentSection("a", "one"), CommentSection("b", "two")])
    assert list(read_sections(body.removesuffix("<!-- evalgate:end -->"))) == ["a"]


@pytest.mark.parametrize(
    ("before", "after", "kept"),
    [
        (CommentSection("a", "old", 1, 1), CommentSection("a", "new", 2, 1), "new"),
        (CommentSection("a", "new", 2, 1), CommentSection("a", "old", 1, 9), "new"),
        (CommentSection("a", "old", 1, 1), CommentSection("a", "new", 1, 2), "new"),
        (CommentSection("a", "first", 1, 1), CommentSection("a", "last", 1, 1), "last"),
    ],
)
def test_the_newest_section_of_a_key_stays(before: CommentSection, after: CommentSection, kept: str) -> None:
    assert merge_sections({"a": before}, {"a": after})["a"].text == kept


@pytest.mark.parametrize("count", [1, 2, 20, 100])
def test_a_comment_is_never_too_long_and_loses_no_section(count: int) -> None:
    sections = [CommentSection(f"leg-{n}", f"line of leg {n}\n" * 20_000, 1, 1) for n in range(count)]
    body = render_body("g", sections)
    assert LONGEST_COMMENT * 0.9 < len(body) <= LONGEST_COMMENT
    read = read_sections(body)
    assert len(read) == count
    assert all(section.text.startswith("line of leg") for section in read.values())
    assert all("shortened" in section.text for section in read.values())


def test_short_sections_leave_space_to_long_ones() -> None:
    sections = [
        CommentSection("a", "short"),
        CommentSection("b", "x\n" * 50_000),
        CommentSection("c", "y\n" * 20_000),
    ]
    read = read_sections(render_body("g", sections))
    assert read["a"].text == "short"
    assert min(len(read["b"].text), len(read["c"].text)) > 30_000


def test_a_section_is_shortened_by_its_own_function() -> None:
    limits = []

    def shorter(limit: int) -> str:
        limits.append(limit)
        return "the most important"

    sections = [CommentSection("a", "x" * 70_000), CommentSection("b", "y" * 100)]
    read = read_sections(render_body("g", sections, shorter={"a": shorter}))
    assert read["a"].text == "the most important"
    assert read["b"].text == "y" * 100
    assert limits
    assert all(60_000 < limit < LONGEST_COMMENT for limit in limits)


@pytest.mark.parametrize(
    ("text", "limit", "expected"),
    [
        ("short", 100, "short"),
        ("a\n```diff\n+ b\n" + "c\n" * 200, 160, "```"),
        ("<details>\n<summary>x</summary>\n\n" + "c\n" * 200, 200, "</details>"),
        ("~~~~\n```\n" + "c\n" * 200, 160, "~~~~"),
    ],
)
def test_shortened_markdown_closes_its_open_blocks(text: str, limit: int, expected: str) -> None:
    cut = shorten_markdown(text, limit)
    assert len(cut) <= limit
    assert expected in (cut if cut == text else cut.rpartition("c\n")[2] + cut[-120:])


@given(st.text(st.sampled_from("`~\n <>details/x")), st.integers(1, 300))
def test_shortened_markdown_fits(text: str, limit: int) -> None:
    assert len(shorten_markdown(text, limit)) <= limit
